"""Builtins that set variables: declare and export, read, mapfile, unset, `printf -v`, let, wait."""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.builtins import read
from humanlayer_agent.shell.environment import outside_variables
from humanlayer_agent.shell.environment.code_variables import selects_code
from humanlayer_agent.shell.expansion import arithmetic, output
from humanlayer_agent.shell.expansion.field import Field, positional
from humanlayer_agent.shell.interpreter import assignments
from humanlayer_agent.shell.interpreter import assignments as settings
from humanlayer_agent.shell.interpreter.context import Context, Ends
from humanlayer_agent.shell.interpreter.state import READONLY, State, Value
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.programs import operand_effects
from humanlayer_agent.shell.syntax.tree import Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)


# ---- declare, export, local, readonly ---------------------------------------------------------------


def declare(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> Ends:
    """export, declare, typeset, local, readonly: assignments as arguments."""
    if command.program == "local" and not walk.frames:
        # It fails outside of a function, but has made the arrays that stand in its words.
        made = [each.word.raw.partition("=")[0].rstrip("+") for each in fields if assignments.array_of(each.word)]
        if not made:
            return state, state
        out = state.copy()
        out.forget(made)
        return out, out
    out = state.copy()
    letters = {"export": "x", "readonly": "r"}.get(command.program or "", "")
    removed = ""
    names: list[Field] = []
    for each in fields:
        if each.text is not None and each.text[:1] in ("-", "+") and len(each.text) > 1 and not names:
            if each.text[0] == "-":
                letters += each.text[1:]
            else:
                removed += each.text[1:]
            continue
        names.append(each)
    if command.program == "export" and "n" in letters:
        letters, removed = letters.replace("x", "").replace("n", ""), removed + "x"
    if "n" in letters:
        walk.program.doubt(f"{command.program} -n: a name that stands for another")
    if "f" in letters and "x" in letters:
        walk.program.doubt("an exported function")
        out.exported_functions |= {each.text for each in names if each.text is not None}
    if command.program != "local" and not ("f" in letters or "F" in letters) and ("p" in letters or not names):
        printed: list[Field | None] = [*names] if names else [None]
        for shown in printed:
            operand_effects.printed(
                walk, command, shown.text if shown else "environment", shown, origin=command.program or ""
            )
    if "f" in letters or "F" in letters or "p" in letters:
        return out, out
    for each in names:
        if not _declare_word(walk, command, each, state, out, context, letters, removed):
            command.doubt(each.word.raw)
            out.forget(None)
    return out, out


def _declare_word(  # noqa: C901, PLR0915
    walk: "Walk", command: SimpleCommand, each: Field, before: State, state: State, context: Context, letters: str,
    removed: str,
) -> bool:  # fmt: skip
    """`name=value` or `name` as a word, expanded in the state `before`; False where even the name is not known."""
    written = each.text if each.text is not None else each.word.raw
    found = _IDENTIFIER.match(written)
    shape = assignments.ASSIGNMENT.match(written)
    if found is None or (shape is None and (each.text is None or found[0] != written)):
        return False
    name = found[0]
    made = walk.local(command.program or "", letters, name)
    # `declare -A` of what is an indexed array is refused.
    becomes_map = "A" in letters and (made or name in state.maps or state.untouched(name) or state.lookup(name) == ())
    if made:
        state.maps -= {name}
    if "A" in letters:
        state.maybe_maps |= {name}
    if name in state.odd or name in READONLY:
        walk.may_abort(state)
    if set("ilucn") & set(letters + removed):
        state.odd |= {name}
    array = assignments.array_of(each.word) if each.word.parts else None
    if "i" in letters or name in state.odd:
        _integer_value(walk, each, name, state)
    value: Value = None
    kept = shape is not None and shape[2] != "=" and state.inherits(name)
    if shape is not None and shape[2] == "[":
        assignments.subscript(walk, name, written[shape.end() :].partition("]")[0], state, expanded=True)
        state.assign(name, None)
    elif array is not None and shape is not None:
        if "A" in letters:
            state.assign_map(name, assignments.entries_of(array, state) if shape[2] == "=" and becomes_map else None)
        else:
            assignments.subscripts(walk, name, array, state)
            state.assign_array(name, assignments.elements_of(array, state) if shape[2] == "=" else None)
    elif shape is not None and written.startswith("(", shape.end()) and _is_array(name, state, letters):
        _read_again(walk, each, name, state, context)
    elif shape is not None:
        value = (each.text[shape.end() :],) if each.text is not None and shape[2] == "=" else None
        number = shape[2] == "=" and value is None and _declares_number(each.word, state)
        state.assign(name, value, number=number)
        if "n" in letters and value is not None and _IDENTIFIER.fullmatch(value[0]) and value[0] != name:
            state.references = {**state.references, name: (value[0],)}
    elif "A" in letters and name not in state.maps and state.unused(name):
        state.assign_map(name, {})
    elif command.program == "local" or (command.program != "export" and command.program != "readonly" and walk.frames):
        state.assign(name, None)  # a new local: unset, or what an outer function holds
    elif "a" in letters and name not in state.arrays:
        state.assign_array(name, () if state.unused(name) else None)
    if kept:
        state.own -= {name}
    if "r" in letters:
        state.odd |= {name}
    if becomes_map and (shape is None or array is not None):
        state.maps |= {name}
    elif array is not None:
        state.maps -= {name}
    if "n" in removed:
        state.loosen([name])
    if "x" in letters:
        state.export([name])
        assignments.points_to(walk, command, name, state.lookup(name), state, each.start, each.end)
    if "x" in removed:
        state.unexport([name])
    if shape is not None:
        plain = array is None and shape[2] != "[" and not set("ilucn") & set(letters + removed)
        found_values = settings.declared(name, each, before) if plain and selects_code(name, None) else None
        assignments.note_effect(walk, command, name, found_values, each.start, each.end)
    return True


def _is_array(name: str, state: State, letters: str) -> bool:
    if set("aA") & set(letters) or name in state.arrays or name in state.maps:
        return True
    return state.lookup(name) is None and not state.untouched(name)  # it may be one


def _read_again(walk: "Walk", each: Field, name: str, state: State, context: Context) -> None:
    """`declare -a 'x=($(cmd))'`: a text that stands for an array is expanded once more, as if it were typed."""
    if each.text is None:
        walk.program.doubt(f"{each.word.raw} is expanded once more")
    else:
        walk.source(each.text, each, state.copy(), context.deeper(), "string")
    state.assign_array(name, None)


def _integer_value(walk: "Walk", each: Field, name: str, state: State) -> None:
    text = each.text if each.text is not None else each.word.raw
    value = text.partition("=")[2]
    outside_variables.evaluation(walk, value, state)
    if value and not _INTEGER.fullmatch(value):
        why = (
            arithmetic.value_risk(value, state)
            if each.text is not None
            else f"{each.word.raw} is evaluated as arithmetic"
        )
        if why is not None:
            walk.program.doubt(why)


def _declares_number(word: Word, state: State) -> bool:
    """`local n=$((...))`: a text up to the `=`, then one number."""
    return len(word.parts) == 2 and word.parts[0:1] != [] and arithmetic.gives_number(word.parts[1], state)


# ---- read, mapfile, unset, printf -v, let -----------------------------------------------------------


def setters(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> Ends:
    """read, mapfile, getopts, wait -p: names given as words become unknown."""
    out = state.copy()
    names = {"read": {"REPLY"}, "getopts": {"OPTARG", "OPTIND"}, "wait": set()}.get(command.program or "", {"MAPFILE"})
    if command.program in ("read", "mapfile", "readarray") and context.stdin.kind == "script":
        walk.program.doubt(f"{command.program} takes lines of the script that is being run")
    for each in fields:
        if each.text is None:
            command.doubt(each.word.raw)
            out.forget(None)
            return out, out
        found = _IDENTIFIER.match(each.text)
        if found is not None:
            names.add(found[0])
        elif each.text[:1] == "-" and (attached := _IDENTIFIER.search(each.text[2:])) is not None:
            names.add(attached[0])  # `read -aname`
        if found is not None and "[" in each.text:
            assignments.subscript(walk, found[0], each.text.partition("[")[2].rstrip("]"), out, expanded=True)
        if each.text.startswith(("-C", "-c")) and command.program in ("mapfile", "readarray"):
            walk.program.doubt("mapfile -C runs a callback")
    known = read.found(command.program or "", fields, state, context.stdin) if context.stdin.given is not None else {}
    counts = command.program == "getopts" and all(each.text != "OPTIND" for each in fields)
    for name in sorted(names):
        if name in out.odd and not (counts and name == "OPTIND"):
            walk.program.doubt(f"{command.program} sets {name}, which has an attribute")
        set_to = known.get(name)
        value = None if set_to is None else (set_to,) if isinstance(set_to, str) else set_to[:1]
        if isinstance(set_to, tuple):
            out.assign_array(name, set_to)
        else:
            out.assign(name, value)
        if value is None:
            out.own -= {name}  # with a wrong option it has not been set
        assignments.note_effect(walk, command, name, value, *command.span)
    # At the end of its input read fails, and has set the names all the same; with a wrong option it has not.
    return out, out


def wait(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> Ends:
    """`wait -p name` sets a variable; everything else only waits."""
    plain = all(
        not f.text.startswith("-")
        if f.text is not None
        else f.word.raw in ("$!", '"$!"') or assignments.own_job(f.word, state)
        for f in fields
    )
    return (state, state) if plain else setters(walk, command, fields, state, context)


def unset(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> Ends:
    """`unset`: variables, and functions too."""
    out = state.copy()
    options = any((each.text or "-").startswith("-") and each.text not in ("-v", "--") for each in fields)
    for each in fields:
        if each.text is None:
            command.doubt(each.word.raw)
            out.forget(None)
            return out, out
        found = _IDENTIFIER.match(each.text)
        if found is None:
            continue
        name = found[0]
        if "[" in each.text:
            assignments.subscript(walk, name, each.text.partition("[")[2].rstrip("]"), out, expanded=True)
        out.forget([name])  # in a function a name of the caller may come to light
        local = state.havoc or any(name in frame.locals for frame in walk.frames)
        if each.text == name and not (local or options or name in state.odd or name in READONLY):
            out.assign(name, ())
            out.maybe_maps -= {name}
        out.unexport([name])
        out.maps -= {name}
        assignments.note_effect(walk, command, name, None, each.start, each.end)
        if each.text in out.functions:
            out.define(each.text, None, certain=False)
    return out, out


def printf(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> Ends:
    """`printf -v name` sets a variable."""
    first = fields[0] if fields else None
    if first is None or not (first.text.startswith("-v") if first.text is not None else first.may_be_option()):
        return state, state
    out = state.copy()
    attached = first.text is not None and len(first.text) > 2
    target = first.text[2:] if first.text and attached else fields[1].text if first.text and len(fields) > 1 else None
    if target is None or _IDENTIFIER.fullmatch(target) is None:
        command.doubt(command.text)
        out.forget(None)
    else:
        words = positional(fields[1 if attached else 2 :])
        text = output.prints(["printf", *words], None) if words else None
        value = (text,) if text is not None and "\0" not in text else None
        if target in out.odd and (why := arithmetic.values_risk(target, value, out)) is not None:
            walk.program.doubt(why)
        out.assign(target, value)
        assignments.note_effect(walk, command, target, value, *command.span)
    return out, out


def let(walk: "Walk", command: SimpleCommand, fields: list[Field], state: State, context: Context) -> Ends:
    """`let`: each word is an arithmetic text."""
    out = state.copy()
    for each in fields:
        why = (
            f"{each.word.raw} is evaluated as arithmetic" if each.text is None else arithmetic.risk(each.text, (), out)
        )
        if why is None and each.text is not None and re.search(r"[$`]", each.text):
            why = f"{each.text!r} is evaluated as arithmetic"
        if why is not None:
            walk.program.doubt(why)
        outside_variables.evaluation(walk, each.shown, state)
        for name in arithmetic.assigned(each.text or each.word.raw):
            out.assign(name, None, number=each.text is not None)
            assignments.note_effect(walk, command, name, None, each.start, each.end)
    return out, out
