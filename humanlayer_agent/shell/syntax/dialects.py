"""Text that a shell other than bash reads: where bash and a POSIX sh (dash, busybox) would run different things.

In dash `((rm x))` is a subshell in a subshell, `[[ a > b ]]` writes b, `cmd &> f` runs cmd in the background.
"""

import re
from collections.abc import Iterator, Sequence

from humanlayer_agent.shell.syntax.tree import (
    Arith,
    ArithCommand,
    ArrayLit,
    Function,
    Loop,
    Node,
    Param,
    Part,
    Pipeline,
    ProcSub,
    Script,
    Simple,
    Sub,
    Test,
    Word,
    children,
    words_of,
)

_THROUGH = frozenset({"eval", "trap", ".", "source", "command", "builtin", "exec"})
_BASH_ONLY = frozenset(
    [
        "declare", "typeset", "let", "shopt", "source", "pushd", "popd", "dirs", "mapfile", "readarray",
        "builtin", "enable", "history", "compgen", "complete", "bind", "disown", "caller", "coproc", "function",
        "select", "time", "[[",
    ]
)  # fmt: skip
_POSIX_OPERATORS = frozenset(["", "-", ":-", "=", ":=", "?", ":?", "+", ":+", "#", "##", "%", "%%", "length"])
_POSIX_REDIRECTS = frozenset([">", ">>", ">|", "<", "<>", "<<", "<<-"])


def read_by_bash(via: Sequence[str]) -> bool:
    """True where the innermost shell among the wrappers is bash, or there is none but the one we run in."""
    last = next((name for name in reversed(via) if name not in _THROUGH), "bash")
    return last == "bash"


def unportable(script: Script) -> str | None:
    """Return what in `script` means something else to another shell, or None."""
    pending: list[Node] = [script.body] if script.body is not None else []
    while pending:
        node = pending.pop()
        if (why := _node(node)) is not None:
            return why
        for word in words_of(node):
            if (why := _word(word)) is not None:
                return why
            pending += [s.body for s in word.scripts() if s.body is not None]
        pending += children(node)
    return None


def _node(node: Node) -> str | None:
    match node:
        case Test():
            return "[["
        case ArithCommand():
            return "(("
        case Loop() if node.kind in ("arith", "select"):
            return node.kind
        case Pipeline() if "|&" in node.ops:
            return "|&"
        case Function() if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", node.name.raw, re.ASCII):
            return f"function {node.name.raw}"
        case Simple():
            return _simple(node)
    return _redirects(node)


def _simple(node: Simple) -> str | None:
    for assign in node.assigns:
        if assign.append or assign.index is not None:
            return f"{assign.name}+= or {assign.name}[ ]="
    name = node.words[0].static if node.words else None
    if name in _BASH_ONLY:
        return name
    if name == "printf" and len(node.words) > 1 and (node.words[1].static or "-v").startswith("-v"):
        return "printf -v"
    if name in ("export", "readonly", "local") and any(w.dynamic and not w.quoted for w in node.words[1:]):
        return f"{name} of an unquoted value"
    return _redirects(node)


def _redirects(node: Node) -> str | None:
    for redirect in getattr(node, "redirects", ()):
        copies = redirect.op in (">&", "<&") and re.fullmatch(r"[0-9]|-", redirect.target.static or "", re.ASCII)
        if (redirect.op not in _POSIX_REDIRECTS and not copies) or not re.fullmatch(r"[0-9]?", redirect.fd, re.ASCII):
            return f"{redirect.fd}{redirect.op}"
    return None


def _word(word: Word) -> str | None:
    if "$'" in word.raw or '$"' in word.raw:
        return "$'...' or $\"...\""
    if word.pattern and "{" in word.raw:
        return "braces"
    if word.pattern and "=~" in word.raw:
        return "a tilde in an argument"
    for part in _parts(word.parts):
        match part:
            case Param() if part.op not in _POSIX_OPERATORS or part.index is not None:
                return part.raw
            case Param() if re.fullmatch(
                r"RANDOM|UID|EUID|SECONDS|BASH\w*|HOSTNAME|OSTYPE|EPOCH\w*|SRANDOM|FUNCNAME", part.name
            ):
                return part.raw
            case ProcSub() | ArrayLit():
                return "<( ) or an array"
            case Arith() if "**" in part.raw or "++" in part.raw or "--" in part.raw or "," in part.raw:
                return "$(( )) with operators of bash"
    return None


def _parts(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        yield part
        if isinstance(part, Param) and part.arg is not None:
            yield from _parts(part.arg.parts)
        elif isinstance(part, Arith):
            yield from _parts(part.parts)
        elif isinstance(part, Sub):
            continue
