"""The output of commands, where it can be told without running them: `$(echo lit)`, `echo ... | base64 -d`.

Only programs whose output follows from their words and their input alone. Anything unusual gives None: not known.

What programs print for their words and the text on their standard input, where that follows from both alone.
"""

import posixpath
import re
from collections.abc import Callable
from collections.abc import Sequence as Words

from humanlayer_agent.shell.environment.code_variables import selects_code
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.programs.catalog import STANDARD_DIRECTORIES
from humanlayer_agent.shell.syntax.tree import (
    Assign,
    Group,
    Lit,
    Node,
    Param,
    Pipeline,
    ProcSub,
    Redirect,
    Script,
    Sequence,
    Simple,
    Sub,
    Word,
)

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


_TEE_OPTIONS = frozenset({"-a", "--append", "-i", "--ignore-interrupts", "-p", "--"})
"""Options of tee with which it prints what it reads too."""


def _tee(words: list[str], stdin: str | None) -> str | None:
    return stdin if all(word in _TEE_OPTIONS or not word.startswith("-") for word in words) else None


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

REPEATERS = frozenset({"echo", "printf", "yes"})
"""Programs that print the words they are given."""


Expand = Callable[[Word, State], list[Field]]

MAX_OUTPUT = 65_536


def substituted(script: Script, state: State, expand: Expand) -> str | None:
    """The text of `$( script )`: what it prints without the newlines at its end; None where that is not known."""
    text = printed(script.body, state, expand, None) if script.body is not None else ""
    return None if text is None or "\0" in text else text.rstrip("\n")


def located(script: Script, state: State) -> str | None:
    """Where `$(command -v name)` and its like mostly find a program; None where `script` is nothing of the kind."""
    node = script.body
    if not isinstance(node, Simple) or node.assigns or any(r.fd != "2" for r in node.redirects):
        return None
    match [word.static for word in node.words]:
        case ["command", "-v", str(name)] | ["which", str(name)] | ["type", "-P" | "-p", str(name)]:
            pass
        case _:
            return None
    if not re.fullmatch(r"[A-Za-z0-9_.+-]+", name, re.ASCII) or node.words[0].static in state.functions:
        return None
    known = node.words[0].static == "command" and (name in state.functions or name in _BUILTINS)
    return name if known else f"/usr/bin/{name}"


_BUILTINS = frozenset(
    str.split(
        ". : [ alias builtin cd command declare echo eval exec exit export false let printf pwd read set source test"
    )
) | frozenset(str.split("true trap type typeset unset"))
"""Some of what bash runs by itself, which `command -v` prints as it is."""


def of_process(word: Word, state: State, expand: Expand) -> str | None:
    """What can be read from `word` where it is `<( )`, NUL and all; None where that is not known."""
    part = word.parts[0] if len(word.parts) == 1 else None
    if not isinstance(part, ProcSub) or part.direction != "<":
        return None
    return printed(part.script.body, state, expand, None) if part.script.body is not None else ""


def is_pwd(script: Script, state: State) -> bool:
    """True for `$(pwd)`: it gives the working directory by name, as `$PWD` does."""
    node = script.body
    if not isinstance(node, Simple) or node.assigns or node.redirects or "pwd" in state.functions:
        return False
    known = state.cwd is not None and not any(cwd.endswith("\n") for cwd in state.cwd)
    return known and [word.static for word in node.words] in (["pwd"], ["pwd", "-L"])


def printed(node: Node, state: State, expand: Expand, stdin: str | None) -> str | None:
    """What `node` prints, given the text on its standard input (None: not known); None where that is not known."""
    if isinstance(node, Group):
        return printed(node.body, state, expand, stdin) if not node.redirects else None
    if isinstance(node, Sequence):
        return _one_after_another(node, state, expand, stdin)
    if isinstance(node, Pipeline):
        if any(op != "|" for op in node.ops):
            return None
        text = stdin
        for part in node.parts:  # what does not read its input prints whatever comes before it
            text = printed(part, state, expand, text)
        return text
    if not isinstance(node, Simple) or not node.words or any(map(_matters, node.assigns)):
        return None
    name = node.words[0].static
    if name is not None and "/" not in name and not _may_print(name, state):
        return None
    if node.redirects and (stdin := _given(node.redirects, state, expand)) is None:
        return None
    if len(node.words) > 64 or not state.untouched("PATH"):
        return None
    texts = [f.text for word in node.words for f in expand(word, state)]
    known = [t for t in texts if t is not None]
    if not known or len(known) != len(texts):
        return None
    if "/.." in known[0]:
        state.work.wondered = True
        known[0] = posixpath.normpath(known[0]) if state.usual else known[0]
    if known[0] in state.functions:
        return _called(known, state, expand, stdin) if not node.assigns else None
    return prints(known, stdin)


def _one_after_another(node: Sequence, state: State, expand: Expand, stdin: str | None) -> str | None:
    """What a list prints whose commands only print: `{ echo a; echo b; }`."""
    if node.negated or any(op not in (";", "&&") for op in node.ops) or not isinstance(node.parts[0], Simple):
        return None
    out = printed(node.parts[0], state, expand, stdin)
    for part in node.parts[1:]:
        name = part.words[0].static if isinstance(part, Simple) and part.words else None
        text = printed(part, state, expand, None) if name in _SILENT else None  # the first has taken the input
        out = out + text if out is not None and text is not None else None
    return out if out is not None and len(out) <= MAX_OUTPUT else None


_SILENT = frozenset({"echo", "printf", ":", "true"})
"""Programs that take no input."""


def _may_print(name: str, state: State) -> bool:
    """Could what the program `name` prints be known?"""
    return name in PRINTERS or name in _RUNNERS or name in state.functions


def _called(words: Words[str], state: State, expand: Expand, stdin: str | None) -> str | None:
    """What a function prints, where it is certainly defined and holds one command or pipeline."""
    function, *others = state.functions[words[0]]
    if function is None or others or function.redirects:
        return None
    body = function.body.body if isinstance(function.body, Group) and not function.body.redirects else function.body
    inner = state.copy()
    inner.positional = tuple(words[1:])
    del inner.functions[words[0]]  # where it calls itself, that is a program of the same name at most
    return printed(body, inner, expand, stdin) if words[0] not in PRINTERS else None


def _matters(assign: Assign) -> bool:
    """Whether `name=value` before a command may change what it prints."""
    return assign.value.static is None or assign.index is not None or selects_code(assign.name, assign.value.static)


def _given(redirects: Words[Redirect], state: State, expand: Expand) -> str | None:
    """The input that a here-document or here-string gives; None: not known, or there are other redirects."""
    redirect = redirects[0]
    if len(redirects) > 1 or redirect.fd not in ("", "0"):
        return None
    if redirect.op in ("<<", "<<-"):
        return redirect.body.text if redirect.body is not None else None
    if redirect.op != "<<<":
        return None
    word = redirect.target
    if word.static is not None:
        return word.static + "\n"
    # Nothing splits in a here-string; what is quoted splits nowhere.
    quoted = word.parts and all(isinstance(p, Lit | Param | Sub) and p.quoted for p in word.parts)
    fields = expand(word, state) if quoted else []
    return fields[0].text + "\n" if len(fields) == 1 and fields[0].text is not None else None


def prints(words: Words[str], stdin: str | None) -> str | None:
    """What the program `words[0]` prints for its words and the text on its standard input; None where not known.

    NUL may be in it.
    """
    words = _innermost(words)
    printer = PRINTERS.get(words[0]) if words else None
    out = printer(list(words[1:]), stdin) if printer is not None else None
    return out if out is not None and len(out) <= MAX_OUTPUT else None


_RUNNERS: dict[str, re.Pattern[str]] = {
    name: re.compile(options, re.ASCII)
    for name, options in {
        "command": r"(?:--\0)?",
        "sudo": r"(?:-[nEH]\0)*(?:-u\0[a-z_][a-z0-9_-]*\0)?(?:--\0)?",
        "builtin": r"(?=command\0)",
        "nohup": r"(?:--\0)?",
        "env": r"(?:-u\0(?!PATH\0)[A-Za-z_][A-Za-z0-9_]*\0)*(?:--\0)?(?:[A-Za-z_][A-Za-z0-9_]*=[^\0]*\0)*",
        "nice": r"(?:-n\0-?[0-9]+\0)?",
        "ionice": r"(?:-c\0[123]\0)?",
        "timeout": r"(?:(?:-k|--kill-after|-s|--signal)(?:=|\0)[A-Z0-9.]+[smhd]?\0)*[0-9.]+[smhd]?\0",
        "flock": r"(?:-s\0)?[^\0-][^\0]*\0",
        "stdbuf": r"(?:-[ioe][L0]\0)+",
        "setsid": r"(?:-w\0)?",
    }.items()
}
"""Programs that only run the words after their own (each of which ends with NUL here)."""


def _innermost(words: Words[str]) -> Words[str]:
    """`words` without programs that only run another, and its name without a standard directory."""
    while words:
        folder, _, name = words[0].rpartition("/")
        own = _RUNNERS[name].match("".join(f"{word}\0" for word in words[1:])) if name in _RUNNERS else None
        if folder and folder not in STANDARD_DIRECTORIES:
            break
        if own is None:
            return [name, *words[1:]]
        taken = own[0].split("\0")[:-1]
        if any(selects_code(*word.split("=", 1)) for word in taken if "=" in word):
            break
        words = words[1 + len(taken) :]
    return words


# ---- builtins ---------------------------------------------------------------------------------------
