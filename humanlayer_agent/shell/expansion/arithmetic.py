"""Strings that bash evaluates as arithmetic: `x='a[$(cmd)]'; ((x))` runs cmd.

Evaluated are: `$(( ))`, `(( ))`, `let`, the operands of -eq and its like in `[[ ]]`, subscripts, offsets, and what is
assigned to integer variables. A variable in one of them is evaluated in turn (Bash Reference Manual, section 6.5).
"""

import re
from collections.abc import Iterable

from humanlayer_agent.shell.expansion.parameters import number_pattern
from humanlayer_agent.shell.interpreter.state import Glob, State, Value
from humanlayer_agent.shell.syntax.tree import (
    Arith,
    ArrayLit,
    Lit,
    Param,
    Part,
    Pipeline,
    ProcSub,
    Script,
    Simple,
    Sub,
    Word,
)

_NAME = re.compile(r"(?<![0-9A-Za-z_#])([A-Za-z_][A-Za-z0-9_]*)(\[)?", re.ASCII)
_CODE = re.compile(r"[\[$`]")
_PLAIN_SUBSCRIPT = re.compile(r"(?:[-+* A-Za-z0-9_]|\$[A-Za-z0-9_#?]|\$\{#?[A-Za-z0-9_]+\})+", re.ASCII)
_ASSIGNS = re.compile(r"=|\+\+|--")
_INTEGER = re.compile(r"\s*[-+]?[0-9]+\s*", re.ASCII)
_MAX_NAMES = 40


def assigned(text: str) -> set[str]:
    """Names in an arithmetic text that assigns anything (`=`, `++`, `--`)."""
    return {m[1] for m in _NAME.finditer(text)} if _ASSIGNS.search(text) else set()


def risk(text: str, parts: Iterable[Part], state: State) -> str | None:
    """Why evaluating `text`, written in the command with the expansions `parts`, may run unseen code; or None."""
    for part in parts:
        if (why := _part_risk(part, state)) is not None:
            return why
    seen: set[str] = set()
    for match in _NAME.finditer(text):
        if match[2] and match[1] not in state.arrays:
            return f"the elements of {match[1]} are evaluated as arithmetic"
        if (why := _name_risk(match[1], state, seen)) is not None:
            return why
    return None


def value_risk(text: str, state: State, seen: set[str] | None = None) -> str | None:
    """Why evaluating the value `text` may run code that is not seen, or None. Substitutions in a value are run."""
    if _INTEGER.fullmatch(text) or not text.strip():
        return None
    if _CODE.search(text) or _ASSIGNS.search(text):
        return f"{text!r} is evaluated as arithmetic"
    seen = set() if seen is None else seen
    for match in _NAME.finditer(text):
        if (why := _name_risk(match[1], state, seen)) is not None:
            return why
    return None


def subscript_risk(index: str, state: State) -> str | None:
    """The same for a subscript, of which only the text is known."""
    if not _PLAIN_SUBSCRIPT.fullmatch(index):
        return "evaluated as arithmetic"
    if index.lstrip("$").rstrip("}").lstrip("{#") in ("", "?", "#"):
        return None
    for name in re.findall(r"[A-Za-z_][A-Za-z0-9_]*|(?<=\$)[0-9]|(?<=\$\{)[0-9]+", index):
        if not index.startswith("${#") and (why := _name_risk(name, state, set())) is not None:
            return why
    return None


def gives_number(part: Part, state: State) -> bool:
    """True where the expansion `part` gives an integer, whatever it is."""
    if isinstance(part, Param):
        return number_pattern(part, state) is not None
    return isinstance(part, Arith) or (isinstance(part, Sub) and _prints_number(part.script, state))


def values_risk(name: str, values: Value, state: State) -> str | None:
    """The same for each text that `name` is set to, where that is evaluated."""
    if values is None or any(isinstance(v, Glob) for v in values):
        return f"{name}, which has an attribute, is set to what is not known"
    return next((why for v in values if (why := value_risk(v, state)) is not None), None)


def word_risk(word: Word, state: State) -> str | None:
    """The same for a word that is evaluated after expansion (an operand of -eq, a value for an integer variable)."""
    if not word.dynamic:
        return value_risk(word.text or "", state)
    return risk("".join(p.text for p in word.parts if isinstance(p, Lit)), word.parts, state)


def _name_risk(name: str, state: State, seen: set[str]) -> str | None:
    """The risk of evaluating the value of `name`; each of the names `seen` is looked at once."""
    if name in seen:
        return None
    seen.add(name)
    if len(seen) > _MAX_NAMES:
        return f"the value of {name} is evaluated as arithmetic"
    if name.isdigit() or name in "@*":
        values = state.positional
        if values is None:
            return f"${name} is evaluated as arithmetic"
    elif state.is_number(name) or (state.lookup(name) is None and state.untouched(name)):
        return None  # what the environment holds is the user's own
    elif name in state.arrays:
        values = state.arrays[name]
    else:
        values = state.lookup(name)
    if values is None or any(isinstance(v, Glob) for v in values):
        return f"the value of {name} is evaluated as arithmetic"
    for value in values:
        if (why := value_risk(value, state, seen)) is not None:
            return why
    return None


def _part_risk(part: Part, state: State) -> str | None:
    match part:
        case Lit():
            return None
        case Param():
            return _parameter_risk(part, state)
        case Arith():
            return risk(part.raw, part.parts, state)
        case Sub():
            return None if _prints_number(part.script, state) else "the output of a command is evaluated as arithmetic"
        case ProcSub() | ArrayLit():
            return None


def _parameter_risk(part: Param, state: State) -> str | None:
    if number_pattern(part, state) is not None or part.name in "?#$!-":
        return None
    if part.op in ("-", ":-", "=", ":=") and part.arg is not None and (why := word_risk(part.arg, state)) is not None:
        return why
    if part.index is not None and part.name not in state.arrays:
        return f"{part.raw} is evaluated as arithmetic"
    if part.op not in ("", "-", ":-", "=", ":="):
        return f"{part.raw} is evaluated as arithmetic"
    return _name_risk(part.name, state, set())


def _prints_number(script: Script, state: State) -> bool:
    """True for `wc -l < f`, `date +%s`, `nproc`, also at the end of a pipeline: they print an integer."""
    body = script.body
    if isinstance(body, Pipeline):
        body = body.parts[-1]
    if not isinstance(body, Simple) or not body.words or not state.untouched("PATH"):
        return False
    texts = [w.static for w in body.words]
    if texts[0] in state.functions or any(t is None for t in texts[1:]):
        return False
    match texts:
        case ["nproc"] | ["date", "+%s" | "+%N" | "+%s%N" | "+%Y" | "+%m" | "+%d" | "+%H" | "+%M" | "+%S"]:
            return True
        case ["wc", "-l" | "-c" | "-w" | "-m"]:
            return True
    return False


def prints_digits(script: Script, state: State) -> bool:
    """True for `nproc` and `date +%s`: nothing that they need could be missing, and they print one word of digits."""
    body = script.body
    if not isinstance(body, Simple) or body.redirects or body.assigns or not _prints_number(script, state):
        return False
    return [word.static for word in body.words] in (["nproc"], ["date", "+%s"], ["date", "+%Y"])


def may_fail(text: str, parts: Iterable[Part], state: State) -> bool:
    """True where the evaluation may end in an error: bash then drops the rest of the line and goes on with the next."""
    if any(c in text for c in "/%[`") or "**" in text or "<<" in text:
        return True
    if any(not isinstance(p, Param) or p.op or not _sure(p.name, state) for p in parts):
        return True
    return not all(_sure(m[1], state) for m in _NAME.finditer(text)) or not _WELL_FORMED.fullmatch(_NAME.sub("1", text))


_WELL_FORMED = re.compile(
    r"\s*1?|\s*(\+\+|--)?[0-9]+\s*([-+*<>]=?|[=!]=|&&|\|\||=|\+=)?\s*[0-9]*\s*(\+\+|--)?\s*", re.ASCII
)


def _sure(name: str, state: State) -> bool:
    return name in "?#$" or state.lookup(name) == () or state.is_number(name)
