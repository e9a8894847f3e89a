"""The ways to set variables besides builtins: assignments before a command or alone, and expansions.

What a command sets a variable to.

What the variable held before is the user's own where the script has not set it: `PYTHONPATH=src:$PYTHONPATH` adds
`src`, and nothing else is the command's doing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from humanlayer_agent.shell.environment import outside_variables, tool_environment
from humanlayer_agent.shell.environment.code_variables import places, selects_code, steers
from humanlayer_agent.shell.expansion import arithmetic, parameters
from humanlayer_agent.shell.expansion.field import Field, listed
from humanlayer_agent.shell.expansion.words import expand, literal_values
from humanlayer_agent.shell.interpreter.context import Context
from humanlayer_agent.shell.interpreter.loop_effects import DECLARERS as DECLARERS
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import BASH_VARIABLES, MAX_CHOICES, READONLY, Glob, State, Value
from humanlayer_agent.shell.syntax.tree import ArrayLit, Assign, Param, Part, Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

_PREVIOUS = "\0"
"""Stands for what the variable held before. No text of a shell holds this character."""

_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=", re.ASCII)
_CHOOSING = frozenset(["", ":-", "-", ":+", "+"])
"""What may be done to the previous value without changing a part of it."""


def values(name: str, word: Word, state: State, *, append: bool = False, declared: bool = False) -> Value:
    """The values that `name` may get by this assignment, without the entries it had before; None where not known.

    Args:
        name: the variable.
        word: the value; with `declared` all of `name=value`, as it stands after export and its like.
        state: what is known where the word is expanded.
        append: it is `+=`.
    """
    if name in state.odd or "\0" in word.raw:
        return None
    mentioned = _mentions(name, word.raw) - declared
    if not mentioned and not append:
        return _read(word, state, declared)
    if not state.untouched(name):
        before = state.lookup(name) if name not in state.arrays else None
        return _after(before if append else (), _read(word, state, declared))
    if mentioned > _plain_mentions(name, word.parts):
        return None
    # bash gives PATH a value where it has none, so there is no empty entry beside what is added.
    unset = state.closed and name not in state.environ and name not in BASH_VARIABLES
    out: dict[str, None] = {}
    for before in [(_PREVIOUS,)] if name == "PATH" else [()] if unset else [(), ("",), (_PREVIOUS,)]:
        assumed = state.copy()
        assumed.variables[name] = before
        found = _after(before if append else (), _read(word, assumed, declared))
        if found is None:
            return None
        for value in found:
            parts = value.split(":")
            if any(_PREVIOUS in part and part != _PREVIOUS for part in parts):
                return None
            out[":".join(part for part in parts if part != _PREVIOUS)] = None
    return tuple(out) if len(out) <= MAX_CHOICES else None


def declared(name: str, field: Field, state: State) -> Value:
    """The same for a word of export and its like, `name=value` or `name+=value`; `state` is that before the command."""
    word, text = field.word, field.text
    if field.many:
        return None
    if word.dynamic and _ASSIGNED.match(word.raw):  # only unexpanded it tells its own entries from those it had
        return values(name, word, state, append=word.raw.startswith(name + "+="), declared=True)
    if text is None:
        return None
    value = text.partition("=")[2]
    literal = Word(value, value, field.start, field.end)
    return values(name, literal, state, append=text.startswith(name + "+="))


def entries(found: Sequence[str]) -> str:
    """Every entry of these values, separated by colons."""
    return ":".join(dict.fromkeys([entry for value in found for entry in value.split(":")]))


def _read(word: Word, state: State, declared: bool) -> Value:
    if not declared:
        found = literal_values(word, state)
        # A pattern is no text: it stands for several.
        return found if found is None or all(type(each) is str for each in found) else None
    fields = expand(word, state, declaration=True)
    if len(fields) != 1 or not fields[0].texts:
        return None
    return tuple(text.partition("=")[2] for text in fields[0].texts)


def _after(before: Value, found: Value) -> Value:
    """Each of the values after each of what stands before them."""
    if found is None or before is None or any(type(each) is not str for each in before):
        return None
    return tuple(dict.fromkeys(head + value for head in before or ("",) for value in found))


def _mentions(name: str, text: str) -> int:
    return name in text and len(re.findall(rf"(?<![A-Za-z0-9_]){re.escape(name)}(?![A-Za-z0-9_])", text, re.ASCII))


def _plain_mentions(name: str, parts: Sequence[Part]) -> int:
    """How often `parts` name the variable to take its value as it is, or to choose by whether it has one."""
    return sum(part.name == name and part.index is None for part in _choosing(parts))


def _choosing(parts: Sequence[Part]) -> Iterator[Param]:
    for part in parts:
        if isinstance(part, Param) and part.op in _CHOOSING:
            yield part
            if part.arg is not None:
                yield from _choosing(part.arg.parts)


ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)", re.ASCII)
_ENTRY = re.compile(r"\[([A-Za-z0-9_]+)\]=", re.ASCII)
_KEY = re.compile(r"[A-Za-z0-9_]+", re.ASCII)
_INDEX = re.compile(r"\]\+?=")
_HARMLESS_SUBSCRIPTS = ("@", "*", "")


# ---- assignments ----------------------------------------------------------------------------------


def assign(walk: "Interpreter", assigns: Sequence[Assign], state: State, *, exported: bool) -> None:
    """Apply `assigns` to `state` (a copy of the caller's)."""
    for each in assigns:
        kept = (each.append or each.index is not None) and state.inherits(each.name)
        if each.name in state.odd or each.name in READONLY:
            walk.may_abort(state)  # bash drops the rest of the line where the variable is readonly
            if (why := arithmetic.word_risk(each.value, state)) is not None:
                walk.program.doubt(why)
        if each.index is not None:
            subscript(walk, each.name, each.index, state)
            state.assign_map(each.name, _with_entry(each, state))
        elif (array := array_of(each.value)) is not None:
            subscripts(walk, each.name, array, state)
            elements = elements_of(array, state)
            before = state.arrays.get(each.name, ()) if each.append else ()
            known = not each.append or each.name in state.arrays
            state.assign_array(each.name, (*before, *elements) if elements is not None and known else None)
        else:
            value = literal_values(each.value, state)
            if each.append:
                value = _appended(state.lookup(each.name) if each.name not in state.arrays else None, value)
            number = value is None and not each.append and _is_number(each.value, state)
            state.assign(each.name, value, number=number)
            if not each.append and _is_last_job(each.value) and each.name not in state.odd | READONLY:
                state.jobs |= {each.name}
        if kept:
            state.own -= {each.name}
        if exported:
            state.export([each.name])


def array_of(value: Word) -> ArrayLit | None:
    return next((p for p in value.parts if isinstance(p, ArrayLit)), None) if value.parts else None


def subscripts(walk: "Interpreter", name: str, array: ArrayLit, state: State) -> None:
    """The subscripts of `([x]=1 ...)`, each of which is arithmetic."""
    for word in array.words:
        if word.raw.startswith("[") and (end := _INDEX.search(word.raw)) is not None:
            subscript(walk, name, word.raw[1 : end.start()], state)


def elements_of(array: ArrayLit, state: State) -> tuple[str, ...] | None:
    """The elements of `( ... )`, where they are known and none has a subscript."""
    out: list[str] = []
    for word in array.words:
        if word.raw.startswith("["):
            return None
        found = listed(expand(word, state))
        if found is None:
            return None
        out += found
    return tuple(out)


def entries_of(array: ArrayLit, state: State) -> dict[str, str] | None:
    """The elements of an associative array's `([key]=value ...)`, where each is known."""
    out: dict[str, str] = {}
    for word in array.words:
        found = _ENTRY.match(word.raw)
        tilde = found is not None and (word.raw.startswith("~", found.end()) or ":~" in word.raw)
        values = literal_values(word, state) if not tilde else None
        if found is None or values is None or len(values) != 1 or isinstance(values[0], Glob):
            return None
        out[found[1]] = values[0].removeprefix(found[0])
    return out


def _with_entry(assign: Assign, state: State) -> dict[str, str] | None:
    """The elements of an associative array after `name[key]=value`."""
    before = state.entries.get(assign.name) if assign.name in state.maps else None
    values = literal_values(assign.value, state)
    known = assign.index is not None and _KEY.fullmatch(assign.index) is not None and not assign.append
    if before is None or not known or values is None or len(values) != 1 or isinstance(values[0], Glob):
        return None
    return {**before, assign.index or "": values[0]}


def _appended(before: Value, value: Value) -> Value:
    if before is None or value is None or len(before) > 1 or len(value) > 1 or any(isinstance(b, Glob) for b in before):
        return None
    return ("".join((*before, *value)),)


def _is_last_job(value: Word) -> bool:
    """Is it `$!`, the process that this shell has last put into the background?"""
    match value.parts:
        case [Param(name="!", op="", index=None)]:
            return True
    return False


def own_job(word: Word, state: State) -> bool:
    """Is `word` the number of a process that this shell has started, and nothing else: `$!`, or `$x` after `x=$!`?"""
    match word.parts:
        case [Param(name=name, op="", index=None, quoted=quoted)]:
            return (name == "!" or name in state.jobs) and (quoted or state.default_ifs)
    return False


def _is_number(value: Word, state: State) -> bool:
    return len(value.parts) == 1 and arithmetic.gives_number(value.parts[0], state)


def programs_apart(walk: "Interpreter", first: int) -> list[str]:
    """The programs, of the commands from `first` on, that run none of the project's own code, or of which no file of
    ours says what they take from their environment.
    """
    names = {command.program.rpartition("/")[2] for command in walk.program.commands[first:] if command.program}
    known = walk.catalog
    return sorted(name for name in names if known.is_added(name) or tool_environment.is_apart(name, known.family(name)))


def assignment_effects(run: Run, assigns: Sequence[Assign], first: int | None = None) -> None:
    """Environment effects of assignments that select code (LD_PRELOAD, PATH, GIT_SSH_COMMAND ...).

    Args:
        first: the number of the first command that they are given to; None: they are not given to any.
    """
    given = first is not None
    if given:
        for each in assigns:
            points_to(run, each.name, literal_values(each.value, run.state), each.start, each.end)
    programs = programs_apart(run.walk, first) if first is not None else ()
    gives = {each.name for each in assigns if given or is_given(each.name, run.state)}
    if not any(steers(a.name, None, programs) if a.name in gives else selects_code(a.name, None) for a in assigns):
        return
    run = run.having(state=run.state.copy() if len(assigns) > 1 else run.state)
    for each in assigns:
        plain = each.index is None and array_of(each.value) is None
        if each.name == "IFS" and plain and run.command.argv[:1] == ["read"]:
            continue  # for this one `read`, which knows it
        found = values(each.name, each.value, run.state, append=each.append) if plain else None
        note_effect(run, each.name, found, each.start, each.end, given=each.name in gives, programs=programs)
        if len(assigns) > 1:  # `x=1 y=$x cmd`: the second sees what the first has set.
            run.state.assign(each.name, literal_values(each.value, run.state) if plain and not each.append else None)


def points_to(run: Run, name: str, found: Value, start: int, end: int) -> None:
    """A program is given `name`: files that this names are read, as far as anybody can tell."""
    for value in found or ():
        for path in places(name, value):
            word = Field(Word(path, path, start, end), start, end, text=path, prefix=path)
            run.path("read", word, role="setting", origin=f"{name}=")


def is_given(name: str, state: State) -> bool:
    """May programs get what is assigned to `name`, without anything more?"""
    return name in state.maybe_exported or name in state.environ


def note_effect(
    run: Run, name: str, found: Value, start: int, end: int, *, given: bool = True, programs: Sequence[str] = ()
) -> None:
    """Setting `name` to one of the values `found` (None: not known) is an effect where it selects code.

    Args:
        given: programs get it; else it may be one that they have already.
        programs: see `steers`.
    """
    if any(steers(name, each, programs) if given else selects_code(name, each) for each in found or (None,)):
        value = entries(found) if found is not None else None
        span = run.walk.span(start, end)
        run.effect("environment", "assignment", name, found is not None, span, f"{name}=", "assignment", value=value)


def expansion(walk: "Interpreter", part: Param, state: State, context: Context) -> None:
    """What an expansion does besides giving a text: `${x:=y}` assigns, `${x@P}` and `${!x}` evaluate."""
    outside_variables.expansion(walk, part, state)
    if part.op in ("=", ":="):
        kept = state.inherits(part.name)
        walk.implicit(part.name, parameters.values(part, state, _text_of), state, context, part.raw)
        if kept:
            state.own -= {part.name}
    if part.op in ("?", ":?"):
        walk.may_abort(state)
    if part.op == "@":
        operator = part.arg.text if part.arg is not None else None
        if operator not in ("Q", "U", "u", "L", "a", "A", "E", "K", "k"):
            walk.program.doubt(f"{part.raw}: the value is evaluated as a prompt string")
            _prompt(walk, part, state, context)
    if part.op == "!" and not _only_names(part):
        walk.program.doubt(f"{part.raw}: indirect expansion")
    if part.op == ":" and part.arg is not None:
        _evaluate(walk, part.arg, state)
        walk.may_abort(state)
    if part.index is not None:
        subscript(walk, part.name, part.index, state)


def _text_of(word: Word, state: State) -> Value:
    return literal_values(word, state, assignment=False)


def _prompt(walk: "Interpreter", part: Param, state: State, context: Context) -> None:
    """`${x@P}` expands the value of x as a here-document is expanded, after escapes that only prompts have."""
    values = state.lookup(part.name) if part.index is None else None
    shown = Word(part.raw, None, *walk.span(0, len(walk.text)), dynamic=True)
    for value in values or ():
        end = "END"
        while end in value:
            end += "_"
        if not isinstance(value, Glob):
            field = Field(shown, shown.start, shown.end)
            walk.source(f": <<{end}\n{value}\n{end}\n", field, state.copy(), context.deeper(), "prompt")


def _only_names(part: Param) -> bool:
    """`${!a[@]}` and `${!prefix*}` give subscripts and names, and evaluate nothing."""
    rest = part.arg.raw if part.arg is not None else ""
    return rest in ("*", "@", "[@]", "[*]") or (part.index in ("@", "*") and not rest)


def _evaluate(walk: "Interpreter", word: Word, state: State) -> None:
    """`word` is evaluated as arithmetic, after its expansions."""
    why = arithmetic.risk(word.raw, word.parts, state)
    if why is not None:
        walk.program.doubt(why)
    state.forget(arithmetic.assigned(word.raw))


def subscript(walk: "Interpreter", name: str, index: str, state: State, *, expanded: bool = False) -> None:
    """An array subscript is arithmetic: a variable's value in it is evaluated, `a[$(cmd)]` included.

    `expanded`: it comes from a word after expansion (`unset 'a[$(cmd)]'`), and is expanded once more.
    """
    if index in _HARMLESS_SUBSCRIPTS or (index.isascii() and index.isdigit()):
        return
    if name in state.maps and _KEY.fullmatch(index) and not expanded:
        return
    walk.may_abort(state)
    outside_variables.evaluation(walk, index, state)
    if expanded:
        why = arithmetic.value_risk(index, state)
    else:
        why = None if name in state.maps else arithmetic.subscript_risk(index, state)
    if why is not None:
        walk.program.doubt(f"subscript [{index}]: {why}")
    state.forget(arithmetic.assigned(index))


def is_assignment(word: Word) -> bool:
    """True for `name=...` as it is written: after `export` and its like its value does not split."""
    return ASSIGNMENT.match(word.raw) is not None


_OWN_PATH = frozenset({"bash", "rbash", "sh"})
"""Shells that take a PATH of their own where they are given none: bash's ends in the current directory, as Debian and
upstream build it (DEFAULT_PATH_VALUE in its config-top.h)."""


def note_lost_path(run: Run, words: Sequence[Field]) -> None:
    """Note that a command starts without PATH: a shell in it may look for programs where the command runs.

    Args:
        words: of the command.
    """
    if any(word.text is None or word.text.rpartition("/")[2] in _OWN_PATH for word in words[:4]):
        run.effect("environment", "operand", "PATH", True, run.command.span, "without PATH")
