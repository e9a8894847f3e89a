"""What programs print for their words and the text on their standard input, where that follows from both alone."""

import re
from collections.abc import Callable
from collections.abc import Sequence as Words

Printer = Callable[[list[str], str | None], str | None]
"""Gives the output for arguments and the standard input (None: not known)."""

_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'", "a": "\a", "b": "\b", "f": "\f", "r": "\r", "v": "\v"}
_PRINTF_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_DIRECTIVE = re.compile(r"%(.)")


def _echo(words: list[str], stdin: str | None) -> str | None:
    newline, escapes = True, False
    while words and re.fullmatch(r"-[neE]+", words[0]):
        newline &= "n" not in words[0]
        for letter in words[0][1:]:
            escapes = {"e": True, "E": False}.get(letter, escapes)
        words = words[1:]
    text = " ".join(words)
    if escapes and "\\" in text:
        # Without \0 before them echo takes no octal digits.
        decoded = _unescape_as_echo(text) if not re.search(r"\\[1-7]", text) else None
        if decoded is None:
            return None
        text = decoded
    return text + "\n" if newline else text


def _printf(words: list[str], stdin: str | None) -> str | None:
    if words[:1] == ["--"]:
        words = words[1:]
    if not words or words[0].startswith("-"):
        return None
    shape, arguments = words[0], words[1:]
    out: list[str] = []
    for _ in range(64):
        round_ = _printf_once(shape, arguments)
        if round_ is None:
            return None
        text, used = round_
        out.append(text)
        arguments = arguments[used:]
        if not arguments:
            return "".join(out)
        if not used:
            return "".join(out)  # a format without directives: what is left over is ignored
    return None


def _printf_once(shape: str, arguments: Words[str]) -> tuple[str, int] | None:
    """One round over the format: the text, and how many arguments it took."""
    out, used = "", 0
    for n, piece in enumerate(_DIRECTIVE.split(shape)):
        if n % 2 == 0:
            text = _unescape(piece)
            if text is None or "%" in piece:
                return None
        elif piece == "%":
            text = "%"
        elif piece == "b":
            decoded = _unescape_as_echo(arguments[used]) if used < len(arguments) else ""
            if decoded is None:
                return None
            text, used = decoded, used + 1
        elif piece in ("s", "d"):
            text = arguments[used] if used < len(arguments) else ("" if piece == "s" else "0")
            used += 1
            if piece == "d" and not re.fullmatch(r"0|-?[1-9][0-9]{0,8}", text, re.ASCII):
                return None
        else:
            return None
        out += text
    return out, used


def _unescape_as_echo(text: str) -> str | None:
    """`text` with the escapes of echo -e and printf's %b decoded, where an octal number may have a 0 before it."""

    def shorter(match: re.Match[str]) -> str:
        code = int(match[1], 8) if match[1] else 0
        return match[0] if match[1] is None else f"\\{code:03o}" if code < 128 else "\\000"

    if re.search(r"\\[ceEuU'\"?]", text):
        return None
    return _unescape(re.sub(r"\\(?:0([0-7]{0,3})|.)", shorter, text, flags=re.DOTALL))


def _unescape(text: str) -> str | None:
    """`text` with printf's backslash escapes decoded; None where one is unusual or gives no ASCII character."""
    good = True

    def decode(match: re.Match[str]) -> str:
        nonlocal good
        if match[3] is not None:
            good &= match[3] in _ESCAPES
            return _ESCAPES.get(match[3], "")
        code = int(match[1], 8) if match[1] is not None else int(match[2], 16)
        good &= code < 128
        return chr(code & 127)

    decoded = _PRINTF_ESCAPE.sub(decode, text)
    return decoded if good and not text.replace("\\\\", "").endswith("\\") else None


# ---- decoders ---------------------------------------------------------------------------------------


def _cat(words: list[str], stdin: str | None) -> str | None:
    return stdin if not words or words == ["-"] else None


def _tee(words: list[str], stdin: str | None) -> str | None:
    return stdin if not any(word.startswith("-") and word != "-a" for word in words) else None


def _base64(words: list[str], stdin: str | None) -> str | None:
    if stdin is None or words not in (["-d"], ["-D"], ["--decode"], ["-di"], ["-d", "-"]):
        return None
    try:
        import base64

        return base64.b64decode(stdin.replace("\n", ""), validate=True).decode("utf-8")
    except ValueError:
        return None


def _xxd(words: list[str], stdin: str | None) -> str | None:
    if stdin is None or words not in (["-r", "-p"], ["-p", "-r"], ["-rp"], ["-pr"], ["-r", "-ps"]):
        return None
    try:
        return bytes.fromhex(stdin).decode("utf-8")
    except ValueError:
        return None


def _rev(words: list[str], stdin: str | None) -> str | None:
    if stdin is None or words or "\0" in stdin:
        return None
    return "\n".join(line[::-1] for line in stdin.split("\n"))


def _head(words: list[str], stdin: str | None) -> str | None:
    lines, count = _counted(words, stdin)
    return "".join(lines[:count]) if lines is not None and count >= 0 else None


def _tail(words: list[str], stdin: str | None) -> str | None:
    lines, count = _counted(words, stdin)
    return "".join(lines[max(len(lines) - count, 0) :]) if lines is not None and count >= 0 else None


def _counted(words: list[str], stdin: str | None) -> tuple[list[str] | None, int]:
    """The lines of the input, and how many of them head and tail are asked for (-1: not known)."""
    match = re.fullmatch(r"(?:-n\0?|-|--lines=)([0-9]{1,6})", "\0".join(words), re.ASCII)
    lines = re.findall(r"[^\n]*\n|[^\n]+", stdin) if stdin is not None else None
    return lines, 10 if not words else int(match[1]) if match is not None else -1


def _tac(words: list[str], stdin: str | None) -> str | None:
    known = stdin is not None and not words and stdin.endswith("\n")
    return "".join(reversed(re.findall(r"[^\n]*\n", stdin or ""))) if known else None


def _line(words: list[str], stdin: str | None) -> str | None:
    """sort and uniq, which leave one line as it is."""
    one = stdin is not None and not words and stdin.endswith("\n") and stdin.count("\n") == 1
    return stdin if one else None


def _sed(words: list[str], stdin: str | None) -> str | None:
    """`s/old/new/` where both are plain texts."""
    change = _SUBSTITUTION.fullmatch(words[-1]) if len(words) == 1 or words[:-1] == ["-e"] else None
    if stdin is None or change is None or not (stdin.isascii() and stdin.endswith("\n")):
        return None
    _, old, new, every = change.groups()
    return "\n".join(line.replace(old, new, -1 if every else 1) for line in stdin.split("\n"))


_SUBSTITUTION = re.compile(r"s([/|#,:@])([A-Za-z0-9_ -]+)\1([A-Za-z0-9_ ./~-]*)\1(g?)", re.ASCII)


def _awk(words: list[str], stdin: str | None) -> str | None:
    """`BEGIN {print "text"}`"""
    found = _PRINTED.fullmatch(words[0]) if len(words) == 1 else None
    return f"{found[1]}\n" if found is not None else None


_PRINTED = re.compile(r"\s*BEGIN\s*\{\s*print\s*\(?\s*\"([^\"\\\n]*)\"\s*\)?\s*;?\s*(?:exit\s*;?\s*)?\}\s*")


def _tr(words: list[str], stdin: str | None) -> str | None:
    if stdin is None or not stdin.isascii():
        return None
    if len(words) == 2 and words[0] == "-d":
        gone = _tr_set(words[1])
        return None if gone is None else "".join(c for c in stdin if c not in gone)
    if len(words) != 2 or words[0].startswith("-"):
        return None
    old, new = _tr_set(words[0]), _tr_set(words[1])
    if not old or not new:
        return None
    new += new[-1] * (len(old) - len(new))
    table: dict[int, str] = {}
    for a, b in zip(old, new, strict=False):
        table[ord(a)] = b
    return stdin.translate(table)


def _tr_set(text: str) -> str | None:
    """The characters of one of tr's sets: plain ones and ranges."""
    if not text.isascii() or any(c in text for c in "\\[]"):
        return None
    out, i = "", 0
    while i < len(text):
        if text[i + 1 : i + 2] == "-" and i + 2 < len(text):
            if text[i + 2] < text[i]:
                return None
            out += "".join(map(chr, range(ord(text[i]), ord(text[i + 2]) + 1)))
            i += 3
        else:
            out += text[i]
            i += 1
    return out


def _python(words: list[str], stdin: str | None) -> str | None:
    while words[:1] in (["-B"], ["-u"], ["-I"], ["-S"], ["-E"]):
        words = words[1:]
    if len(words) < 2 or words[0] != "-c":
        return None
    from humanlayer_agent.shell.languages.python_prints import printed

    return printed(words[1])


PRINTERS: dict[str, Printer] = {
    ":": lambda words, stdin: "",
    "true": lambda words, stdin: "",
    "echo": _echo,
    "printf": _printf,
    "cat": _cat,
    "tee": _tee,
    "base64": _base64,
    "xxd": _xxd,
    "rev": _rev,
    "head": _head,
    "tail": _tail,
    "tac": _tac,
    "sort": _line,
    "uniq": _line,
    "sed": _sed,
    **dict.fromkeys(("awk", "gawk", "mawk"), _awk),
    "tr": _tr,
    **dict.fromkeys(("python", "python3"), _python),
}
