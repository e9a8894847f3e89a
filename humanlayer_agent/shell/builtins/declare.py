"""Builtins that set variables: declare and export, read, mapfile, unset, `printf -v`, let, wait."""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.builtins import read
from humanlayer_agent.shell.environment import outside_variables
from humanlayer_agent.shell.environment.code_variables import selects_code, steers
from humanlayer_agent.shell.expansion import arithmetic, output
from humanlayer_agent.shell.expansion.field import Field, positional
from humanlayer_agent.shell.interpreter import assignments
from humanlayer_agent.shell.interpreter.context import Context, Ends
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import READONLY, State, Value
from humanlayer_agent.shell.syntax.tree import Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)


# ---- declare, export, local, readonly ---------------------------------------------------------------


def declare(run: Run, fields: list[Field]) -> Ends:
    """export, declare, typeset, local, readonly: assignments as arguments."""
    run.walk.may_be_read_only |= run.command.program != "export"
    if run.command.program == "local" and not run.walk.frames:
        # It fails outside of a function, but has made the arrays that stand in its words.
        made = [each.word.raw.partition("=")[0].rstrip("+") for each in fields if assignments.array_of(each.word)]
        if not made:
            return run.state, run.state
        out = run.state.copy()
        out.forget(made)
        return out, out
    out = run.state.copy()
    letters = {"export": "x", "readonly": "r"}.get(run.command.program or "", "")
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
    if run.command.program == "export" and "n" in letters:
        letters, removed = letters.replace("x", "").replace("n", ""), removed + "x"
    if "n" in letters:
        run.walk.program.doubt(f"{run.command.program} -n: a name that stands for another")
    if "f" in letters and "x" in letters:
        run.walk.program.doubt("an exported function")
        out.exported_functions |= {each.text for each in names if each.text is not None}
    if run.command.program != "local" and not ("f" in letters or "F" in letters) and ("p" in letters or not names):
        printed: list[Field | None] = [*names] if names else [None]
        for shown in printed:
            run.printed(shown.text if shown else "environment", shown, origin=run.command.program or "")
    if "f" in letters or "F" in letters or "p" in letters:
        return out, out
    for each in names:
        if not _declare_word(run.having(state=out), each, run.state, letters, removed):
            run.doubt(each.word.raw)
            out.forget(None)
    return out, out


def _declare_word(run: Run, each: Field, before: State, letters: str, removed: str) -> bool:  # noqa: C901, PLR0915
    """`name=value` or `name` as a word, expanded in the state `before`; False where even the name is not known."""
    written = each.text if each.text is not None else each.word.raw
    found = _IDENTIFIER.match(written)
    shape = assignments.ASSIGNMENT.match(written)
    if found is None or (shape is None and (each.text is None or found[0] != written)):
        return False
    name = found[0]
    made = run.walk.local(run.command.program or "", letters, name)
    # `declare -A` of what is an indexed array is refused.
    becomes_map = "A" in letters and (
        made or name in run.state.maps or run.state.untouched(name) or run.state.lookup(name) == ()
    )
    if made is not False:
        run.state.maps -= {name}
    if "A" in letters:
        run.state.maybe_maps |= {name}
    if name in run.state.odd or name in READONLY:
        run.walk.may_abort(run.state)
    if set("ilucn") & set(letters + removed):
        run.state.odd |= {name}
    array = assignments.array_of(each.word) if each.word.parts else None
    if "i" in letters or name in run.state.odd:
        _integer_value(run.walk, each, name, run.state)
    value: Value = None
    kept = shape is not None and shape[2] != "=" and run.state.inherits(name)
    if shape is not None and shape[2] == "[":
        assignments.subscript(run.walk, name, written[shape.end() :].partition("]")[0], run.state, expanded=True)
        run.state.assign(name, None)
    elif array is not None and shape is not None:
        if "A" in letters:
            run.state.assign_map(
                name, assignments.entries_of(array, run.state) if shape[2] == "=" and becomes_map else None
            )
        else:
            assignments.subscripts(run.walk, name, array, run.state)
            run.state.assign_array(name, assignments.elements_of(array, run.state) if shape[2] == "=" else None)
    elif shape is not None and written.startswith("(", shape.end()) and _is_array(name, run.state, letters):
        _read_again(run.walk, each, name, run.state, run.context)
    elif shape is not None:
        value = (each.text[shape.end() :],) if each.text is not None and shape[2] == "=" else None
        number = shape[2] == "=" and value is None and _declares_number(each.word, run.state)
        run.state.assign(name, value, number=number)
        if "n" in letters and value is not None and _IDENTIFIER.fullmatch(value[0]) and value[0] != name:
            run.state.references = {**run.state.references, name: (value[0],)}
    elif "A" in letters and name not in run.state.maps and run.state.unused(name):
        run.state.assign_map(name, {})
    elif run.command.program == "local" or (
        run.command.program != "export" and run.command.program != "readonly" and run.walk.frames
    ):
        run.state.assign(name, None)  # a new local: unset, or what an outer function holds
    elif "a" in letters and name not in run.state.arrays:
        run.state.assign_array(name, () if run.state.unused(name) else None)
    if kept:
        run.state.own -= {name}
    if "r" in letters:
        run.state.odd |= {name}
    if becomes_map and (shape is None or array is not None):
        run.state.maps |= {name}
    elif array is not None:
        run.state.maps -= {name}
    if "n" in removed:
        run.state.loosen([name])
    if "x" in letters:
        run.state.export([name])
        assignments.points_to(run, name, run.state.lookup(name), each.start, each.end)
    if "x" in removed:
        run.state.unexport([name])
    given = "x" in letters
    hides = bool({"a", "A"} & set(letters)) or (run.command.program not in ("export", "readonly") and run.walk.frames)
    if shape is not None:
        given = given or assignments.is_given(name, run.state)
        plain = array is None and shape[2] != "[" and not set("ilucn") & set(letters + removed)
        matters = plain and (steers(name, None) if given else selects_code(name, None))
        found_values = assignments.declared(name, each, before) if matters else None
        assignments.note_effect(run, name, found_values, each.start, each.end, given=given)
    elif "x" in removed or (hides and selects_code(name, None)):
        # Without PATH a new shell takes its own; a new local or an array hides the one that was, and has no value yet.
        assignments.note_effect(run, name, None, each.start, each.end, given=False)
    elif given and not before.untouched(name) and not selects_code(name, None):
        assignments.note_effect(run, name, _texts(before.lookup(name)), each.start, each.end)
    return True


def _texts(found: Value) -> Value:
    return found if found is not None and all(type(each) is str for each in found) else None


def _is_array(name: str, state: State, letters: str) -> bool:
    if set("aA") & set(letters) or name in state.arrays or name in state.maps:
        return True
    return state.lookup(name) is None and not state.untouched(name)  # it may be one


def _read_again(walk: "Interpreter", each: Field, name: str, state: State, context: Context) -> None:
    """`declare -a 'x=($(cmd))'`: a text that stands for an array is expanded once more, as if it were typed."""
    if each.text is None:
        walk.program.doubt(f"{each.word.raw} is expanded once more")
    else:
        walk.source(each.text, each, state.copy(), context.deeper(), "string")
    state.assign_array(name, None)


def _integer_value(walk: "Interpreter", each: Field, name: str, state: State) -> None:
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


def setters(run: Run, fields: list[Field]) -> Ends:
    """read, mapfile, getopts, wait -p: names given as words become unknown."""
    out = run.state.copy()
    names = {"read": {"REPLY"}, "getopts": {"OPTARG", "OPTIND"}, "wait": set()}.get(
        run.command.program or "", {"MAPFILE"}
    )
    if run.command.program in ("read", "mapfile", "readarray") and run.context.stdin.kind == "script":
        run.walk.program.doubt(f"{run.command.program} takes lines of the script that is being run")
    for each in fields:
        if each.text is None:
            run.doubt(each.word.raw)
            out.forget(None)
            return out, out
        found = _IDENTIFIER.match(each.text)
        if found is not None:
            names.add(found[0])
        elif each.text[:1] == "-" and (attached := _IDENTIFIER.search(each.text[2:])) is not None:
            names.add(attached[0])  # `read -aname`
        if found is not None and "[" in each.text:
            assignments.subscript(run.walk, found[0], each.text.partition("[")[2].rstrip("]"), out, expanded=True)
        if each.text.startswith(("-C", "-c")) and run.command.program in ("mapfile", "readarray"):
            run.walk.program.doubt("mapfile -C runs a callback")
    known = (
        read.found(run.command.program or "", fields, run.state, run.context.stdin)
        if run.context.stdin.given is not None
        else {}
    )
    counts = run.command.program == "getopts" and all(each.text != "OPTIND" for each in fields)
    for name in sorted(names):
        if name in out.odd and not (counts and name == "OPTIND"):
            run.walk.program.doubt(f"{run.command.program} sets {name}, which has an attribute")
        set_to = known.get(name)
        value = None if set_to is None else (set_to,) if isinstance(set_to, str) else set_to[:1]
        if isinstance(set_to, tuple):
            out.assign_array(name, set_to)
        else:
            out.assign(name, value)
        if value is None:
            out.own -= {name}  # with a wrong option it has not been set
        assignments.note_effect(run, name, value, *run.command.span)
    # At the end of its input read fails, and has set the names all the same; with a wrong option it has not.
    return out, out


def wait(run: Run, fields: list[Field]) -> Ends:
    """`wait -p name` sets a variable; everything else only waits."""
    plain = all(
        not f.text.startswith("-")
        if f.text is not None
        else f.word.raw in ("$!", '"$!"') or assignments.own_job(f.word, run.state)
        for f in fields
    )
    return (run.state, run.state) if plain else setters(run, fields)


def unset(run: Run, fields: list[Field]) -> Ends:
    """`unset`: variables, and functions too."""
    out = run.state.copy()
    options = any((each.text or "-").startswith("-") and each.text not in ("-v", "--") for each in fields)
    for each in fields:
        if each.text is None:
            run.doubt(each.word.raw)
            out.forget(None)
            return out, out
        found = _IDENTIFIER.match(each.text)
        if found is None:
            continue
        name = found[0]
        if "[" in each.text:
            assignments.subscript(run.walk, name, each.text.partition("[")[2].rstrip("]"), out, expanded=True)
        out.forget([name])  # in a function a name of the caller may come to light
        local = run.state.havoc or any(name in frame.locals for frame in run.walk.frames)
        if each.text == name and not (local or options or name in run.state.odd or name in READONLY):
            out.assign(name, ())
            out.maybe_maps -= {name}
        out.unexport([name, *filter(None, run.state.references.get(name, ()))])  # it is what it stands for that goes
        out.maps -= {name}
        assignments.note_effect(run, name, None, each.start, each.end)
        if each.text in out.functions:
            out.define(each.text, None, certain=False)
    return out, out


def printf(run: Run, fields: list[Field]) -> Ends:
    """`printf -v name` sets a variable."""
    first = fields[0] if fields else None
    if first is None or not (first.text.startswith("-v") if first.text is not None else first.may_be_option()):
        return run.state, run.state
    out = run.state.copy()
    attached = first.text is not None and len(first.text) > 2
    target = first.text[2:] if first.text and attached else fields[1].text if first.text and len(fields) > 1 else None
    if target is None or _IDENTIFIER.fullmatch(target) is None:
        run.doubt(run.command.text)
        out.forget(None)
    else:
        words = positional(fields[1 if attached else 2 :])
        text = output.prints(["printf", *words], None) if words else None
        value = (text,) if text is not None and "\0" not in text else None
        if target in out.odd and (why := arithmetic.values_risk(target, value, out)) is not None:
            run.walk.program.doubt(why)
        out.assign(target, value)
        assignments.note_effect(run, target, value, *run.command.span)
    return out, out


def let(run: Run, fields: list[Field]) -> Ends:
    """`let`: each word is an arithmetic text."""
    out = run.state.copy()
    for each in fields:
        why = (
            f"{each.word.raw} is evaluated as arithmetic" if each.text is None else arithmetic.risk(each.text, (), out)
        )
        if why is None and each.text is not None and re.search(r"[$`]", each.text):
            why = f"{each.text!r} is evaluated as arithmetic"
        if why is not None:
            run.walk.program.doubt(why)
        outside_variables.evaluation(run.walk, each.shown, run.state)
        for name in arithmetic.assigned(each.text or each.word.raw):
            out.assign(name, None, number=each.text is not None)
            assignments.note_effect(run, name, None, each.start, each.end)
    return out, out
