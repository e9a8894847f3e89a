"""Transformations of where things stand: blanks, continued lines, redirects in other places, programs by their path."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from humanlayer_agent.policy_tools.metamorphic.line import Edit, Line, spans
from humanlayer_agent.policy_tools.metamorphic.transformation import Apply, Transformation
from humanlayer_agent.shell import syntax_tree

_HERE = ("<<", "<<-")
_NAMED: dict[str, str] = {">": "1", ">>": "1", ">|": "1", "<": "0"}


def transformations() -> Iterator[Transformation]:
    """All of this module."""
    for name, blank in (("tabs", "\t"), ("wide-blanks", "  \t "), ("continued-lines", " \\\n ")):
        yield Transformation(name, _blanks(blank))
    for name, folder in _FOLDERS.items():
        yield Transformation(name, _program_by_path(folder))
    for name, arrange in _ARRANGED.items():
        yield Transformation(name, _arranged(arrange))
    for name, write in _REDIRECTED.items():
        yield Transformation(name, _redirected(write))


# ---- blanks -----------------------------------------------------------------------------------------


def _blanks(blank: str) -> Apply:
    def apply(line: Line, chance: random.Random) -> str | None:
        edits: list[Edit] = []
        for command in line.commands:
            items = spans(command.words, command.assigns, command.redirects)
            for (_, end), (start, _) in itertools.pairwise(items):
                if end < start and not line.text[end:start].strip(" \t"):
                    edits.append((end, start, blank))
        return line.edit(edits)

    return apply


# ---- programs ---------------------------------------------------------------------------------------

_FOLDERS = {"usr-bin": "/usr/bin/", "bin": "/bin/", "dots-to-program": "/usr/./lib/..//bin/"}
"""Where programs are: the transformation assumes that what is run is installed there."""


def _program_by_path(folder: str) -> Apply:
    def apply(line: Line, chance: random.Random) -> str | None:
        edits: list[Edit] = []
        for command in line.commands:
            word = command.words[0] if line.external(command) else None
            if word is not None and "/" not in (word.static or "/"):
                edits.append((word.start, word.start, folder))
        return line.edit(edits)

    return apply


# ---- redirects --------------------------------------------------------------------------------------


def _arranged(arrange: Callable[[str, list[str], list[str]], str]) -> Apply:
    """The parts of each command with redirects in another order; the redirects themselves stay in theirs."""

    def apply(line: Line, chance: random.Random) -> str | None:
        edits: list[Edit] = []
        for command in line.commands:
            if command.redirects and command.words:
                assigns = "".join(line.text[a.start : a.end] + " " for a in command.assigns)
                words = [line.of(word) for word in command.words]
                redirects = [line.text[r.start : r.end] for r in command.redirects]
                edits.append((command.start, command.end, arrange(assigns, words, redirects)))
        return line.edit(edits)

    return apply


def _redirected(write: Callable[[str, Sequence[syntax_tree.Redirect], Line], str | None]) -> Apply:
    """A single command with its redirects (no here-documents) written in another way."""

    def apply(line: Line, chance: random.Random) -> str | None:
        command = line.single
        if command is None or not command.redirects or any(r.op in _HERE for r in command.redirects):
            return None
        return write(_without(line, command), command.redirects, line)

    return apply


def _without(line: Line, command: syntax_tree.Simple) -> str:
    """The command without its redirects."""
    parts = spans(command.assigns, command.words)
    return " ".join(line.text[start:end] for start, end in parts)


def _written(redirects: Sequence[syntax_tree.Redirect], line: Line) -> str:
    return " ".join(line.text[r.start : r.end] for r in redirects)


def _named(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str:
    """`1>f` for `>f`."""
    return f"{rest} " + " ".join(
        (_NAMED.get(r.op, "") if not r.fd else "") + line.text[r.start : r.end] for r in redirects
    )


def _forced(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str | None:
    """`>|f` for `>f`."""
    if not any(r.op == ">" for r in redirects):
        return None
    parts = [f"{r.fd}>| {line.of(r.target)}" if r.op == ">" else line.text[r.start : r.end] for r in redirects]
    return f"{rest} {' '.join(parts)}"


def _only(redirects: Sequence[syntax_tree.Redirect], *ops: str) -> syntax_tree.Redirect | None:
    first = redirects[0]
    return first if len(redirects) == 1 and first.op in ops and not first.fd else None


def _by_descriptor(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str | None:
    found, name = _only(redirects, ">", ">>"), next(line.free())
    return f'{rest} {{{name}}}{found.op} {line.of(found.target)} >&"${name}"' if found is not None else None


def _by_number(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str | None:
    found = _only(redirects, ">", ">>")
    return f"{rest} 7{found.op} {line.of(found.target)} >&7" if found is not None else None


def _by_exec(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str:
    return f"( exec {_written(redirects, line)}; {rest} )"


def _of_group(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str:
    return f"{{ {rest}; }} {_written(redirects, line)}"


def _by_cat(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str | None:
    found = _only(redirects, ">", ">>")
    return f"{rest} | cat {found.op} {line.of(found.target)}" if found is not None else None


def _by_tee(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str | None:
    found = _only(redirects, ">", ">>")
    if found is None:
        return None
    return f"{rest} | tee {'-a ' * (found.op == '>>')}-- {line.of(found.target)} > /dev/null"


def _from_cat(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str | None:
    found = _only(redirects, "<")
    return f"cat -- {line.of(found.target)} | {rest}" if found is not None else None


def _from_process(rest: str, redirects: Sequence[syntax_tree.Redirect], line: Line) -> str | None:
    found = _only(redirects, "<")
    return f"{rest} < <(cat < {line.of(found.target)})" if found is not None else None


_ARRANGED: dict[str, Callable[[str, list[str], list[str]], str]] = {
    "redirects-first": lambda assigns, words, redirects: " ".join([*redirects, assigns + words[0], *words[1:]]),
    "redirects-between": lambda assigns, words, redirects: " ".join([assigns + words[0], *redirects, *words[1:]]),
    "redirects-last": lambda assigns, words, redirects: " ".join([assigns + words[0], *words[1:], *redirects]),
}
_REDIRECTED: dict[str, Callable[[str, Sequence[syntax_tree.Redirect], Line], str | None]] = {
    "numbered-redirects": _named,
    "forced-redirects": _forced,
    "redirects-by-name": _by_descriptor,
    "redirects-by-number": _by_number,
    "redirects-by-exec": _by_exec,
    "redirects-of-a-group": _of_group,
    "output-by-cat": _by_cat,
    "output-by-tee": _by_tee,
    "input-by-cat": _from_cat,
    "input-by-process": _from_process,
}
