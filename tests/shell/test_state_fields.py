"""What `State` claims after a construct must be true in every outcome that bash can have, field by field.

Scripts are made here in which settings of one field stand in branches, loops, functions, subshells and pipelines. Real
bash runs them, with conditions that hold and with conditions that do not; at each `probe` it tells what its shell holds,
and a state that the analysis had there must allow that. A branch that is not taken must never leave less doubt.
"""

import fnmatch
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import Interpreter
from humanlayer_agent.shell.interpreter import state as states
from humanlayer_agent.shell.interpreter.context import Context, Ends
from humanlayer_agent.shell.interpreter.state import READONLY, Glob, State
from humanlayer_agent.shell.paths import unescape
from humanlayer_agent.shell.program import Program
from humanlayer_agent.shell.syntax.parse import parse
from humanlayer_agent.shell.syntax.tree import Function, Group, Simple

ALL = os.environ.get("HLA_ALL") == "1"
NAMES = tuple("xyzamnr")
START = {"y": "START", "L": "1 2"}
"""What bash and the analysis are started with. `y` stands for whatever a user's environment holds."""
EXPECTED = ("a name that stands for another", "an exported function")
"""What a human is always asked about: what is claimed must hold all the same."""

# ---- bash -------------------------------------------------------------------------------------------

PRELUDE = r"""
exec 9>&1 >/dev/null 2>&1
probe() {
    builtin printf '\1%s\0%s\0%s\0%s\0' "$1" "$0" "${IFS-unset}" "$#" >&9
    shift
    builtin printf '%s\0' "$@" >&9
    { builtin pwd; builtin printf '\0'; shopt nullglob || :; builtin printf '\0'; } >&9
    { declare -p; builtin printf '\0'; declare -F; builtin printf '\0'; declare -f; builtin printf '\0'; } >&9
}
export -f probe
"""
_VARIABLE = re.compile(r"declare -(\S+) (\w+)(?:=(.*))?")
_ELEMENT = re.compile(r'\[(\w+)\]="([^"]*)"')


@dataclass
class Seen:
    """What bash had at one probe."""

    zero: str
    ifs: str
    positional: tuple[str, ...]
    cwd: str
    nullglob: bool
    attributes: dict[str, str]
    values: dict[str, str]
    elements: dict[str, dict[str, str]]
    functions: dict[str, str]
    exported_functions: set[str]

    @classmethod
    def read(cls, record: str) -> tuple[str, "Seen"]:
        number, zero, ifs, count, *rest = record.split("\0")
        positional, rest = tuple(rest[: int(count) - 1]), rest[max(int(count) - 1, 1) :]
        cwd, nullglob, variables, names, functions, _ = rest
        seen = cls(zero, ifs, positional, cwd[:-1], nullglob.endswith("on\n"), {}, {}, {}, {}, set())
        for attributes, name, value in _VARIABLE.findall(variables):
            if name not in NAMES:
                continue
            seen.attributes[name] = attributes
            if "a" in attributes or "A" in attributes:
                seen.elements[name] = dict(_ELEMENT.findall(value))
                if "0" in seen.elements[name]:
                    seen.values[name] = seen.elements[name]["0"]
            elif value:
                seen.values[name] = shlex.split(value)[0]
        for name, target in [(n, v) for n, v in seen.values.items() if "n" in seen.attributes[n]]:
            seen.values.pop(name)
            if target in seen.values and "n" not in seen.attributes[target]:
                seen.values[name] = seen.values[target]
            seen.elements[name] = {"target": target}
        seen.functions = dict(re.findall(r"(?m)^(\w+) \(\) *\n\{ *\n *: (\w+)", functions))
        seen.exported_functions = set(re.findall(r"declare -fx (\w+)", names)) - {"probe"}
        return number, seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("state").resolve()
    (made / "d1" / "d2").mkdir(parents=True)
    (made / "code").write_text("x=9; y=9; a=(9); set -- 9; cd /; IFS=9\n")
    return made


@cache
def run(script: str, folder: Path, first: bool, second: bool) -> tuple[tuple[str, Seen], ...]:
    """What bash tells at the probes of `script`, where its conditions hold or not."""
    for mark, holds in (("C0", first), ("C1", second)):
        script = script.replace(mark, "true" if holds else "false")
    chosen = f"k=k{first + 2 * second}\n"
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", PRELUDE + chosen + script], cwd=folder, env=START,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False,
    )  # fmt: skip
    return tuple(Seen.read(record) for record in done.stdout.decode().split("\1")[1:])


# ---- the analysis -----------------------------------------------------------------------------------


class Recorder(Interpreter):
    """A walk that keeps the states at each probe."""

    def __init__(self, text: str, folder: Path) -> None:
        super().__init__(text, State((str(folder),), dict(START), closed=True, fresh=True))
        self.states: dict[str, list[State]] = {}

    def simple(self, node: Simple, state: State, context: Context) -> Ends:
        if node.words and node.words[0].text == "probe" and "usually" not in context.inside:
            self.states.setdefault(node.words[1].text or "", []).append(state.copy())
        return super().simple(node, state, context)


def analysed(script: str, folder: Path) -> tuple[dict[str, list[State]], Program]:
    text = script.replace("C0", "[ -e c0 ]").replace("C1", "[ -e c1 ]")
    walk = Recorder(text, folder)
    walk.root(parse(text))
    return walk.states, walk.program


# ---- what each field claims -------------------------------------------------------------------------


def allows(text: str, seen: str) -> bool:
    return fnmatch.fnmatchcase(seen, unescape(text)) if isinstance(text, Glob) else text == seen


def allow(known: tuple[str, ...], seen: tuple[str, ...]) -> bool:
    if any(isinstance(each, states.Paths) for each in known):
        return True  # one name or several
    return len(known) == len(seen) and all(map(allows, known, seen))


def holds_value(state: State, name: str, seen: str | None) -> bool:
    value = state.lookup(name)
    if value is None:
        return True
    return seen is None if value == () else seen is not None and any(allows(each, seen) for each in value)


def variables(state: State, seen: Seen) -> bool:
    return all(holds_value(state, name, seen.values.get(name)) for name in NAMES)


def exported(state: State, seen: Seen) -> bool:
    child = state.child(None)
    given = {n: v for n, v in seen.values.items() if "x" in seen.attributes[n]}
    return all(holds_value(child, name, given.get(name)) for name in NAMES)


def functions(state: State, seen: Seen) -> bool:
    for name in "fg":
        possible = [_body(each) for each in state.functions.get(name, (None,))]
        if seen.functions.get(name) not in possible:
            return False
    return True


def _body(function: Function | None) -> str | None:
    if function is None:
        return None
    body = function.body.body if isinstance(function.body, Group) else function.body
    return body.words[1].text if isinstance(body, Simple) else "other"


def references(state: State, seen: Seen) -> bool:
    for name in NAMES:
        target = seen.elements[name]["target"] if "n" in seen.attributes.get(name, "") else None
        if target not in state.references.get(name, (None,)):
            return False
    return True


Claim = Callable[[State, Seen], bool]
CLAIMS: dict[str, Claim] = {
    "cwd": lambda state, seen: state.cwd is None or seen.cwd in state.cwd,
    "environ": lambda state, seen: state.environ == START,
    "closed": variables,
    "variables": variables,
    "arrays": lambda state, seen: all(
        allow(known, tuple(seen.elements.get(name, {}).values())) for name, known in state.arrays.items()
    ),
    "functions": functions,
    "positional": lambda state, seen: state.positional is None or allow(state.positional, seen.positional),
    "default_ifs": lambda state, seen: not state.default_ifs or seen.ifs in (" \t\n", "unset"),
    "exported": exported,
    "maybe_exported": exported,
    "odd": lambda state, seen: all(
        name in state.odd | READONLY for name, each in seen.attributes.items() if set(each) & set("ilucnr")
    ),
    "maybe_maps": lambda state, seen: (
        state.maps | {n for n, a in seen.attributes.items() if "A" in a} <= state.maybe_maps
    ),
    "maps": lambda state, seen: all("A" in seen.attributes.get(name, "") for name in state.maps),
    "numbers": lambda state, seen: all(
        re.fullmatch("-?[0-9]+", seen.values.get(name, "")) for name in NAMES if state.is_number(name)
    ),
    "havoc": variables,
    "nullglob": lambda state, seen: state.nullglob or not seen.nullglob,
    "own": lambda state, seen: all(
        state.inherits(name) for name, value in START.items() if seen.values.get(name) == value
    ),
    "zero": lambda state, seen: state.zero in (None, seen.zero),
    "entries": lambda state, seen: all(seen.elements.get(name) == known for name, known in state.entries.items()),
    "references": references,
    "exported_functions": lambda state, seen: seen.exported_functions <= state.exported_functions,
    "fresh": lambda state, seen: not state.fresh or state.positional is not None or not seen.positional,
    # Nothing here but the number of a process has several digits.
    "jobs": lambda state, seen: all(re.fullmatch("|[0-9]{2,}", seen.values.get(name, "")) for name in state.jobs),
    "work": lambda state, seen: True,
    "usual": lambda state, seen: not state.usual,
}


def wrong(script: str, folder: Path, ways: Iterator[tuple[bool, bool]] | None = None) -> str | None:
    """Where what is claimed of `script` is not so, if anywhere."""
    found, program = analysed(script, folder)
    if any(not reason.endswith(EXPECTED) for reason in program.reasons):
        assert not any("internal" in reason for reason in program.reasons), program.reasons
        return None  # a human is asked
    for first, second in ways or WAYS[: 4 if "C1" in script or "$k" in script else 2]:
        for number, seen in run(script, folder, first, second):
            refuted = [{name for name, claim in CLAIMS.items() if not claim(state, seen)} for state in found[number]]
            if all(refuted):
                return f"{script}\nC0={first} C1={second}, probe {number}: {min(refuted, key=len)}\n{seen}"
    return None


WAYS = [(True, False), (False, True), (True, True), (False, False)]

# ---- scripts ----------------------------------------------------------------------------------------

SETTINGS: dict[str, list[str]] = {
    "cwd": ["cd d1", "cd d1/d2", "cd ..", "cd /", "cd nosuch", "cd nosuch || cd /", "pushd d1", "popd", "cd -", "cd"],
    "variables": [
        "x=1", "x=2", "y=3", "unset x", "unset y", "x=$y", "x+=4", ": ${x:=5}", ": ${y:=6}", "read x <<< 7",
        "printf -v x 8", "for x in 1 2; do :; done", "x=q y=r", "local x=1", ": $((x=3))", "x=s :",
    ],
    "arrays": [
        "a=(1 2)", "a=(3)", "a+=(4)", "a[1]=5", "unset a", "unset 'a[0]'", "a=()", "declare -a a", "a=6",
        "mapfile -t a <<< k", "read -a a <<< 'p q'", "local a", "local a=(7)",
    ],
    "functions": ["f() { : 1; }", "f() { : 2; }", "unset -f f", "g() { : 3; }", "unset f", "unset x f g", "f"],
    "positional": ["set -- p", "set -- p q", "shift", "set --", "set -- $x", "shift 2", "set p"],
    "default_ifs": ["IFS=,", "IFS=$' \\t\\n'", "unset IFS", "IFS=", "read IFS <<< ,", "local IFS=,", "IFS=, read x <<< 1"],
    "exported": [
        "export x=1", "export x", "export -n x", "unset x", "declare +x x", "x=2", "export y", "export -n y", "y=3",
        "declare -x x=4", "unset y", "x=5 y=6 :", "x=7 eval 'z=1'", "local -x x=8", "local y",
    ],
    "odd": [
        "declare -i x", "readonly z", "declare -u x", "declare -l x=AB", "declare +i x", "x=1+1", "z=5", "x=ab",
        "local -i x", "readonly x=1", "unset x", "read x <<< 1+1",
    ],
    "maps": [
        "declare -A m", "declare -A m=([k]=v)", "unset m", "m=()", "m=(1 2)", "local m", "local -A m", "declare m",
        "declare -a m", "m[1]=5", "local -a m", "typeset m=1", "unset x m", "declare m=(3)",
    ],
    "numbers": ["n=$((1+1))", "n=5", "n=x", "((n++))", "unset n", "n=$((n+1))", "let n=3", "n+=1", "local n", "n="],
    "havoc": ["read u < code; eval \"$u\"", ". ./code", "x=1", "unset x", "y=2", "a=(1)", "declare -A m", "cd d1"],
    "nullglob": ["shopt -s nullglob", "shopt -u nullglob", "shopt -q nullglob"],
    "own": [
        "y=1", "unset y", ": ${y:=2}", "y+=1", "read y <<< 3", "export y", "local y", "local y=4", "y=5 :", "readonly y",
        "for y in 1 2; do :; done", "y[0]=6", "declare y",
    ],
    "zero": ["BASH_ARGV0=new", "BASH_ARGV0=other", "x=1"],
    "entries": ["m[k]=1", "m[j]=2", "m=([k]=3)", "declare -A m=([k]=4)", "unset 'm[k]'", "declare -A m", "local -A m", "unset m"],
    "references": [
        "declare -n r=x", "declare -n r=y", "r=7", "unset -n r", "declare +n r", "x=1", "y=2", "local -n r=x", "unset r",
        "local r", "z=$r", "unset x",
    ],
    "exported_functions": ["f() { : 1; }; export -f f", "export -f f", "export -fn f", "declare -fx f", "unset -f f"],
    "jobs": [": & x=$!", "x=$!", "x=1", "unset x", "y=$!", "local x", "x+=q", "read x <<< 1"],
}  # fmt: skip
SETTINGS["closed"] = SETTINGS["variables"]
SETTINGS["maybe_maps"] = SETTINGS["maps"]
SETTINGS["maybe_exported"] = SETTINGS["exported"]
SETTINGS["fresh"] = SETTINGS["positional"]

SHAPES = [
    "if C0; then @; fi", "if C0; then @; else @; fi", "if C0; then @; elif C1; then @; fi", "C0 && { @; }",
    "C0 || { @; }", "C0 && { @; } || { @; }", "if C0; then @; exit; fi", "if C0; then @; exit 1 2; fi",
    "for i in $L; do P; @; if C0; then @; break; fi; @; done", "w=0; while [ $w -lt 2 ]; do w=$((w+1)); P; @; P; @; done",
    "until C0; do @; break; done", "while C0; do @; break; done", "for i in 1 2; do P; C0 && continue; @; done",
    "case $k in k0) @;; k1) @;& k2) @;; esac", "case $k in k0) @;; *) @;; esac", "case $k in k1) @;;& *) P;; esac",
    "( @; P )", "{ @; }", "@ & wait", "{ @; } | :", ": | { @; }", "h() { @; }; h", "h() { @; }; C0 && h",
    "h() { @; if C0; then @; return; fi; @; }; h", "h() { @; P; @; }; h p q; P; h", "! { @; }", "{ @; } > /nonexistent/f",
    "z=$(@)", "shopt -s lastpipe; : | { @; }", "if ! C0; then @; fi", "{ @; } < code", "h() { i() { @; }; i; P; }; h",
]  # fmt: skip


@st.composite
def scripts(draw: st.DrawFn, field: str) -> str:
    """A script in which settings of `field` may be made or not."""
    own = SETTINGS[field]
    anything = [each for some in SETTINGS.values() for each in some]

    def statement(depth: int) -> str:
        kind = draw(st.integers(0, 9))
        if depth and kind < 6:
            parts = re.split("(@|P)", draw(st.sampled_from(SHAPES)))
            return "".join(statement(depth - 1) if each == "@" else each for each in parts) + "; P"
        return draw(st.sampled_from(own if kind < 9 else anything))

    lines = [statement(2) for _ in range(draw(st.integers(1, 3)))]
    text = draw(st.sampled_from(["; ", "\n"])).join([*lines, "P"])
    if draw(st.integers(0, 4)) == 0 or field == "zero":
        text = f"bash -c {shlex.quote(text)} zero p"
    numbers = iter(range(100))
    text = re.sub(r"\bP\b", lambda _: f'probe {next(numbers)} "$@"', text)
    return text.replace("& wait; ;", "& wait;").replace("&;", "& ")


def test_every_field_has_a_claim() -> None:
    assert {each.name for each in fields(State)} == CLAIMS.keys()


def test_what_a_reference_stands_for_is_not_exported_once_that_is_unset(folder: Path) -> None:
    script = 'for i in $L; do unset r; y=2; probe 0 "$@"; declare -n r=y; done'
    assert wrong(script, folder, iter([(False, False)])) is None


@pytest.mark.sample(8)
# One field of those that share a list: in CI, where examples are the same each time, the scripts would be the same ones.
@pytest.mark.parametrize("field", sorted({id(own): field for field, own in SETTINGS.items()}.values()))
def test_what_is_claimed_holds(field: str, folder: Path) -> None:
    @settings(
        max_examples=400 if ALL else 10, deadline=None, database=None,
        derandomize=not ALL or settings.default.derandomize,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(scripts(field), st.booleans(), st.booleans())
    def holds(script: str, first: bool, second: bool) -> None:
        found = wrong(script, folder, iter([(first, second)]))
        assert found is None, found

    holds()


# ---- each other kind of join is told apart ------------------------------------------------------------


def left_only(a: Any, b: Any, left: State, right: State) -> Any:
    return a


def right_only(a: Any, b: Any, left: State, right: State) -> Any:
    return b


def first_known(a: Any, b: Any, left: State, right: State) -> Any:
    return a if a is not None else b


def merged(a: Any, b: Any, left: State, right: State) -> Any:
    return {**a, **b}


ONE_SIDED = [left_only, right_only]
LESS_DOUBTFUL: dict[states.Join, list[states.Join]] = {
    states.choices: [*ONE_SIDED, first_known],
    states.on_all_ways: [*ONE_SIDED, states.on_any_way],
    states.on_any_way: [*ONE_SIDED, states.on_all_ways],
    states.choices_of_each: [*ONE_SIDED, merged, states.agreed],
    states.agreed: [*ONE_SIDED, merged],
    states.meanings: [*ONE_SIDED, merged, states.agreed],
    states.unknown: [*ONE_SIDED, first_known],
    states.common: [*ONE_SIDED, states.united],
    states.united: [*ONE_SIDED, states.common],
    states.integers: [*ONE_SIDED, states.united],
}
"""The kinds of join that keep more than each kind does, in one case or in all."""

NEVER_DIFFER = {
    "environ": "given at the start",
    "work": "one for all states of an analysis; it tells nothing of the shell",
    "usual": "a whole analysis assumes, or does not",
    "closed": "differs in what a trap finds only, which is joined with a state in which nothing is known",
}
"""Fields that are the same on all ways of one analysis: no script tells one kind of join from another."""

TELLING: dict[str, list[str]] = {
    "cwd": ["if C0; then cd d1; fi; P", "cd d1; C0 || cd nosuch; P", '. ./code; if C0; then cd /; fi; P', "if C0; then cd /; else . ./code; fi; P"],
    "variables": ["if C0; then x=1; fi; P", "x=1; if C0; then unset x; fi; P", "if C0; then x=1; else x=2; fi; P"],
    "arrays": ["if C0; then a=(1); fi; P", "a=(1); if C0; then unset a; fi; P", "if C0; then a=(1); else a=(2); fi; P"],
    "functions": ["if C0; then f() { : 1; }; fi; P", "if C0; then f() { : 1; }; else f() { : 2; }; fi; P", "f() { : 1; }; if C0; then unset -f f; fi; P"],
    "positional": ["set --; if C0; then set -- p; fi; P", "set -- p; if C0; then set --; fi; P", "set --; if C0; then set p; else shift $x; fi; P", "if C0; then set p; fi; P", "if C0; then :; else set p; fi; P"],
    "fresh": ["if C0; then set -- p; fi; P", "if C0; then :; else set -- p; fi; P"],
    "default_ifs": ["if C0; then IFS=,; fi; P", "if C0; then :; else IFS=,; fi; P"],
    "exported": ["x=1; if C0; then export x; fi; P", "x=1; if C0; then :; else export x; fi; P"],
    "maybe_exported": ["x=1; if C0; then export x; fi; P", "x=1; if C0; then :; else export x; fi; P"],
    "odd": ["if C0; then declare -i x; fi; P", "if C0; then :; else declare -i x; fi; P"],
    "maps": ["if C0; then declare -A m; fi; P", "if C0; then :; else declare -A m; fi; P", "declare -A m; h() { if C0; then declare -A m; else local m; fi; P; }; h"],
    "maybe_maps": ["if C0; then declare -A m; fi; P", "if C0; then :; else declare -A m; fi; P"],
    "numbers": ["n=x; if C0; then n=$((1+z)); fi; P", "n=x; if C0; then :; else n=$((1+z)); fi; P"],
    "havoc": ["if C0; then . ./code; fi; P", "if C0; then :; else . ./code; fi; P"],
    "nullglob": ["if C0; then shopt -s nullglob; fi; P", "if C0; then :; else shopt -s nullglob; fi; P"],
    "own": ["if C0; then y=1; fi; P", "if C0; then :; else y=1; fi; P"],
    "zero": ["bash -c 'if C0; then BASH_ARGV0=new; fi; P' zero", "bash -c 'if C0; then :; else BASH_ARGV0=new; fi; P' zero"],
    "entries": ["declare -A m=([k]=1); if C0; then m[k]=2; fi; P", "declare -A m=([k]=1); if C0; then :; else m[j]=2; fi; P", "if C0; then declare -A m=([k]=1); fi; P", "if C0; then :; else declare -A m=([k]=1); fi; P"],
    "references": ["if C0; then declare -n r=x; fi; P", "if C0; then :; else declare -n r=x; fi; P", "declare -n r=x; if C0; then unset -n r; declare -n r=z; fi; P", "if C0; then declare -n r=x; else declare -n r=z; fi; P", "declare -n r=x; h() { declare -n r=y; }; h; P", "declare -n r=x; h() { i() { local -n r=y; }; i; P; }; h"],
    "exported_functions": ["f() { : 1; }; if C0; then export -f f; fi; P", "f() { : 1; }; if C0; then :; else export -f f; fi; P"],
    "jobs": ["x=1; if C0; then : & x=$!; fi; P", "x=1; if C0; then :; else : & x=$!; fi; P"],
}  # fmt: skip
"""Scripts in which the field differs on two ways, so that another kind of join claims what is not so."""


def telling(field: str) -> list[str]:
    return [text.replace("P", 'probe 0 "$@"') for text in TELLING[field]]


@pytest.mark.parametrize("field", sorted(TELLING))
def test_what_is_claimed_where_ways_differ_holds(field: str, folder: Path) -> None:
    for script in telling(field):
        assert not analysed(script, folder)[1].reasons or field in ("references", "exported_functions"), script
        found = wrong(script, folder)
        assert found is None, found


@pytest.mark.parametrize("field", sorted(TELLING))
def test_another_kind_of_join_is_refuted(field: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = dict(states.JOINED)[field]
    for other in LESS_DOUBTFUL[kind]:
        joins = [(name, other if name == field else join) for name, join in states.JOINED]
        monkeypatch.setattr(states, "JOINED", joins)
        assert any(wrong(script, folder) for script in telling(field)), f"{field} joined by {other.__name__}"


def test_each_field_is_told_apart_or_never_differs() -> None:
    assert TELLING.keys() | NEVER_DIFFER.keys() == {each.name for each in fields(State)}
    assert not TELLING.keys() & NEVER_DIFFER.keys()
