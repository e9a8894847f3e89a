"""Markup that is safe by construction: text becomes markup only here, and is escaped on the way."""

from collections.abc import Iterable
from html import escape
from typing import Any

from humanlayer_agent.safe_text import one_line, visible

_VOID = frozenset({"meta", "br", "rect", "circle", "line", "path", "col"})


class Html(str):
    """Markup. Only `tag` and `text` make it, of other markup and of text that they escape."""

    __slots__ = ()


Content = Any
"""What an element may hold: markup as it is, text as text, whole numbers, None as nothing, and several of these."""


def text(value: str) -> Html:
    """`value` as text: what could act on a screen or can't be seen is spelled out, markup means nothing.

    Example:
        >>> text("<b>\\u202e&")
        '&lt;b&gt;\\\\u{202e}&amp;'
    """
    return Html(escape(visible(value), quote=True))


def tag(name: str, /, *content: Content, **attributes: str | int | float | bool | None) -> Html:
    """An element.

    Args:
        name: our own word, never somebody else's.
        content: what it holds; None is left out.
        attributes: values are escaped; None and False are left out, True has no value. An underscore stands for a
            hyphen, and one at the end for nothing (`class_`).

    Example:
        >>> tag("a", "x < y", class_="plain", href="#top")
        '<a class="plain" href="#top">x &lt; y</a>'
    """
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{_attribute(value)}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in _VOID:
        return Html(f"<{name}{written}/>" if name != "meta" else f"<meta{written}>")
    return Html(f"<{name}{written}>{join(content)}</{name}>")


def join(content: Iterable[Content]) -> Html:
    """The markup of several parts, one after the other."""
    out: list[str] = []
    for part in content:
        if part is None:
            continue
        if isinstance(part, Html):
            out.append(part)
        elif isinstance(part, str):
            out.append(text(part))
        elif isinstance(part, int):
            out.append(f"{part:,}")
        else:
            out.append(join(part))
    return Html("".join(out))


def _attribute(value: str | int | float) -> str:
    return escape(one_line(f"{value:g}" if isinstance(value, float) else str(value)), quote=True)


def table(
    caption: str,
    titles: Iterable[str],
    rows: Iterable[Iterable[Content]],
    *,
    hidden_caption: bool = True,
    first_is_heading: bool = False,
) -> Html:
    """A table.

    Args:
        caption: what it shows, for those who can't see it, unless `hidden_caption` is False.
        titles: headings of the columns; one that begins with ">" is of numbers.
        first_is_heading: the first cell of a row says what the row is about.
    """
    titles = list(titles)
    numbers = [title.startswith(">") for title in titles]
    kinds = ["number" if number else None for number in numbers]
    head = tag(
        "tr",
        (
            tag("th", title.removeprefix(">"), scope="col", class_=kind)
            for title, kind in zip(titles, kinds, strict=True)
        ),
    )
    body = (
        tag(
            "tr",
            (
                tag("th", cell, scope="row", class_=kind)
                if first_is_heading and n == 0
                else tag("td", cell, class_=kind)
                for n, (cell, kind) in enumerate(zip(row, kinds, strict=True))
            ),
        )
        for row in rows
    )
    return tag(
        "div",
        tag(
            "table",
            tag("caption", caption, class_="unseen" if hidden_caption else None),
            tag("thead", head),
            tag("tbody", body),
        ),
        class_="wide",
        role="region",
        aria_label=caption,
        tabindex="0",
    )
