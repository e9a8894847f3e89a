"""The visibility of text in an HTML mail: which is struck out, hidden, tiny, off the screen or without contrast.

It is read as the most careful mail program would show it. What one can't be sure of counts as unseen: such text is no
answer, and beside it nothing is an approval. So a rule too many makes a reply unclear, and one too few may not.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Attributes = Sequence[tuple[str, str | None]]
Shade = tuple[int, int, int]
"""Red, green and blue, of 255."""
Colour = Shade | frozenset[str]
"""A shade, or the words in its place that are not known here."""

WHITE: Shade = (255, 255, 255)

_TAGS = frozenset({
    "s", "strike", "del", "bdo", "marquee", "details", "dialog", "select", "option", "optgroup", "datalist",
    "object", "iframe", "audio", "video", "canvas", "noframes", "noembed", "map", "rp", "progress", "meter",
    "head", "template", "svg", "math", "noscript",
})  # fmt: skip
"""Elements whose text is struck out, turned round, or shown by some mail programs only, if by any."""

_SMALLEST = 4.0
"""Pixels, below which nobody reads a letter."""

_LONGEST = 5_000
"""Characters of one style attribute; no mail program writes so many."""

_FAINTEST = 0.3
"""The same for opacity, zoom and the height of lines, of which 1 is all."""

_AWAY = (-100.0, 2_000.0)
"""Pixels from its place by which a text has left the screen."""

_CONTRAST = 40
"""The difference in red, green or blue (of 255) below which a letter is not told from its background."""

_NAMES: dict[str, Shade] = {
    "black": (0, 0, 0), "silver": (192, 192, 192), "gray": (128, 128, 128), "grey": (128, 128, 128), "white": WHITE,
    "maroon": (128, 0, 0), "red": (255, 0, 0), "purple": (128, 0, 128), "fuchsia": (255, 0, 255),
    "magenta": (255, 0, 255), "green": (0, 128, 0), "lime": (0, 255, 0), "olive": (128, 128, 0),
    "yellow": (255, 255, 0), "navy": (0, 0, 128), "blue": (0, 0, 255), "teal": (0, 128, 128), "aqua": (0, 255, 255),
    "cyan": (0, 255, 255), "orange": (255, 165, 0),
    # Those that are near to white.
    "aliceblue": (240, 248, 255), "azure": (240, 255, 255), "beige": (245, 245, 220), "canvas": WHITE,
    "cornsilk": (255, 248, 220), "floralwhite": (255, 250, 240), "gainsboro": (220, 220, 220),
    "ghostwhite": (248, 248, 255), "honeydew": (240, 255, 240), "ivory": (255, 255, 240), "lavender": (230, 230, 250),
    "lavenderblush": (255, 240, 245), "lightcyan": (224, 255, 255), "lightyellow": (255, 255, 224),
    "linen": (250, 240, 230), "mintcream": (245, 255, 250), "mistyrose": (255, 228, 225), "oldlace": (253, 245, 230),
    "seashell": (255, 245, 238), "snow": (255, 250, 250), "whitesmoke": (245, 245, 245), "window": WHITE,
}  # fmt: skip

_UNITS = {
    "px": 1.0, "pt": 4 / 3, "pc": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78, "q": 0.945, "em": 16.0, "rem": 16.0,
    "ex": 8.0, "ch": 8.0, "vw": 10.0, "vh": 10.0, "vmin": 10.0, "vmax": 10.0, "%": 0.16, "": 1.0,
}  # fmt: skip
"""Pixels, roughly: of fonts for what goes by them, and of a screen of 1,000 by 1,000."""

_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})[ \t\r\n\f]?|(.))", re.DOTALL)
_LENGTH = re.compile(
    r"(?<![\w.])(-?(?:\d+(?:\.\d*)?|\.\d+))(px|pt|pc|in|cm|mm|q|em|rem|ex|ch|vw|vh|vmin|vmax|%|)(?![\w.])"
)
_COMPUTED = re.compile(r"\b(?:var|calc|min|max|clamp|env|attr|if)\(")
_RGB = re.compile(r"rgba?\(\s*([\d.]+%?)[\s,]+([\d.]+%?)[\s,]+([\d.]+%?)(?:[\s,/]+([\d.]+%?))?\s*\)")
_HEX = re.compile(r"#([0-9a-f]{3,8})(?![\w-])")
_DECLARATION = re.compile(r"(?:^|[{;])\s*([-\w]+)\s*:([^;{}]*)")

_HIDING = {
    "display": "none", "visibility": "hidden|collapse|force-hidden", "content-visibility": "hidden", "mso-hide": "all",
    "position": "absolute|fixed|sticky", "text-decoration": "line-through", "text-decoration-line": "line-through",
    "text-line-through": r"(?!none)\w", "unicode-bidi": r"(?:isolate-|bidi-)?override", "z-index": "-",
}  # fmt: skip
"""Properties that hide or strike out a text, and what their values have in them then."""

_TURNING = frozenset({
    "clip", "clip-path", "mask", "mask-image", "transform", "scale", "rotate", "translate", "filter",
    "mix-blend-mode", "offset-path", "perspective", "-webkit-mask", "-webkit-mask-image",
    "-webkit-text-security", "content",
})  # fmt: skip
"""Properties that can hide or replace a text whatever their values are, but for these."""
_HARMLESS = frozenset({"none", "normal", "auto", "initial", "unset", "inherit", "0", "1", ""})

_KEEPING = frozenset({"none", "transparent", "inherit", "initial", "unset", "url"})
"""Words in place of a colour."""

_SIZES = frozenset({
    "height", "max-height", "width", "max-width", "block-size", "max-block-size", "inline-size",
    "max-inline-size",
})  # fmt: skip
_PLACES = frozenset({
    "left", "top", "right", "bottom", "text-indent", "margin", "margin-left", "margin-top", "margin-right",
    "margin-bottom", "padding", "padding-left", "padding-top", "inset",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Look:
    """The way in which an element shows its text."""

    seen: bool = True
    colour: Colour = (0, 0, 0)
    background: Colour = WHITE

    def inside(self, tag: str, attributes: Attributes) -> "Look":
        """Return how an element inside of this one shows its text.

        Example:
            >>> Look().inside("p", [("style", "font-size: 0")]).seen
            False
            >>> Look().inside("td", [("bgcolor", "navy")]).inside("b", [("style", "color: #fff")]).seen
            True
        """
        values = [(name, (value or "").lower()) for name, value in attributes]
        seen = self.seen and tag not in _TAGS and not any(_hides_by_attribute(*each) for each in values)
        colour, background = self.colour, self.background
        for name, value in values:
            if name in ("color", "text"):
                colour = _colour(value, colour)
            elif name == "bgcolor":
                background = _colour(value, background)
            elif name == "style":
                seen = seen and len(value) <= _LONGEST
                for key, given in _declarations(value[:_LONGEST]):
                    seen = seen and not _hides(key, given)
                    if key in ("color", "-webkit-text-fill-color"):
                        colour = _colour(given, colour)
                    elif key in ("background", "background-color"):
                        background = _colour(given, background)
        return Look(seen and not _is_near(colour, background), colour, background)


def hides_something(sheet: str) -> bool:
    """Tell whether a style sheet may hide a text: which one is not looked at."""
    return any(
        _hides(key, given)
        or (key in ("color", "-webkit-text-fill-color") and _is_near(_colour(given, frozenset()), WHITE))
        for key, given in _declarations(sheet.lower())
    )


def _hides_by_attribute(name: str, value: str) -> bool:
    if name in ("width", "height"):
        return (size := _pixels(value)) is not None and size < _SMALLEST
    return name == "hidden" or (name == "aria-hidden" and value.strip() != "false")


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    plain = _ESCAPE.sub(_unescaped, re.sub(r"/\*.*?(?:\*/|\Z)|<!--|-->", " ", style, flags=re.DOTALL))
    for found in _DECLARATION.finditer(plain):
        yield found[1].lower(), found[2].lower().replace("!important", "").strip()


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is None:
        return found[2]
    number = int(found[1], 16)
    return chr(number) if 0 < number < 0x110000 else "\ufffd"


def _hides(key: str, value: str) -> bool:
    if _COMPUTED.search(value):
        return True  # nobody here knows what comes out of it
    if key in _HIDING:
        return re.search(_HIDING[key], value) is not None
    if key in _TURNING:
        return value not in _HARMLESS
    lengths = [(found, float(found[1]) * _UNITS[found[2]]) for found in _LENGTH.finditer(value)]
    if key in _PLACES:
        return any(not _AWAY[0] < length < _AWAY[1] for _, length in lengths)
    if key in _SIZES:  # of a part of what holds it, nobody here knows how much that is
        return any(float(found[1]) == 0 or (found[2] != "%" and length < _SMALLEST) for found, length in lengths)
    if key == "font-size":
        return any(length < _SMALLEST for _, length in lengths)
    if key == "font":  # of its numbers only the size has a unit before the height of lines, or is 0
        return any(length < _SMALLEST and (found[2] or length == 0) for found, length in lengths)
    if key in ("letter-spacing", "word-spacing"):
        return any(length <= -_SMALLEST for _, length in lengths)
    if key in ("opacity", "zoom", "line-height"):
        return any(_part(found) < _FAINTEST for found, _ in lengths)
    return key in ("color", "-webkit-text-fill-color") and _is_clear(value)


def _part(found: re.Match[str]) -> float:
    """A number of which 1 is all, of a value that may be in percent or a length as well."""
    if found[2] == "%":
        return float(found[1]) / 100
    return float(found[1]) * _UNITS[found[2]] / (16.0 if found[2] else 1.0)


def _pixels(value: str) -> float | None:
    found = _LENGTH.match(value.strip())
    return None if found is None or found[2] == "%" else float(found[1]) * _UNITS[found[2]]


def _is_clear(value: str) -> bool:
    """Tell whether a colour lets through what is behind it, or is written in a way that is not read here."""
    if found := _RGB.fullmatch(value):
        return found[4] is not None and _channel(found[4], 1.0) < _FAINTEST
    if found := _HEX.fullmatch(value):
        digits = found[1]
        alpha = digits[3] * 2 if len(digits) == 4 else digits[6:8] if len(digits) == 8 else "ff"
        return int(alpha, 16) / 255 < _FAINTEST
    return "transparent" in value or "(" in value


def _colour(value: str, before: Colour) -> Colour:
    """Return the colour in a value; `before` where it names none."""
    if found := _RGB.search(value):
        if found[4] is not None and _channel(found[4], 1.0) < _FAINTEST:
            return before
        red, green, blue = (round(_channel(found[number], 255.0)) for number in (1, 2, 3))
        return red, green, blue
    if found := _HEX.search(value):
        digits = "".join(2 * each for each in found[1][:3]) if len(found[1]) < 6 else found[1][:6]
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    words = re.findall(r"[a-z-]+", value)
    if named := [_NAMES[word] for word in words if word in _NAMES]:
        return named[0]
    return before if not words or not _KEEPING.isdisjoint(words) else frozenset(words)


def _channel(value: str, whole: float) -> float:
    number = float(value.rstrip("%").rstrip(".") or 0)
    return number / 100 * whole if value.endswith("%") else number


def _is_near(colour: Colour, background: Colour) -> bool:
    if isinstance(colour, frozenset) or isinstance(background, frozenset):
        return isinstance(colour, frozenset) and isinstance(background, frozenset) and bool(colour & background)
    return all(abs(one - other) < _CONTRAST for one, other in zip(colour, background, strict=True))
