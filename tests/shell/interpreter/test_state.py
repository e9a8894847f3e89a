"""What is known of the shell, and what stays known where two ways meet."""

import subprocess
import sys
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.interpreter import state as states
from humanlayer_agent.shell.interpreter.state import MAX_VALUE, State, join


def state(**variables: str) -> State:
    made = State(("/p",), {"HOME": "/h"}, closed=True)
    for name, value in variables.items():
        made.assign(name, (value,))
    return made


def test_a_join_keeps_what_either_way_may_have_set() -> None:
    both = join(state(x="1", y="2"), state(x="3"))
    assert both is not None
    assert both.lookup("x") == ("1", "3")
    assert both.lookup("y") is None
    assert both.lookup("z") == ()
    assert join(None, both) is both
    assert join(both, None) is both


def test_a_join_keeps_both_directories() -> None:
    left, right = state(), state()
    left.cwd = ("/a",)
    both = join(left, right)
    assert both is not None
    assert both.cwd == ("/a", "/p")
    right.cwd = None
    both = join(left, right)
    assert both is not None
    assert both.cwd is None


def test_a_copy_is_independent() -> None:
    first = state(x="1")
    second = first.copy()
    second.assign("x", ("2",))
    second.assign_array("a", ("1",))
    assert first.lookup("x") == ("1",)
    assert "a" not in first.arrays


def test_variables_that_change_by_themselves_are_never_known() -> None:
    changed = state(PWD="/x", _="y", RANDOM="1", UID="0")
    assert [changed.lookup(n) for n in ("PWD", "_", "RANDOM", "UID", "IFS")] == [None, None, None, None, None]


def test_long_values_are_not_tracked() -> None:
    assert state(x="a" * MAX_VALUE).lookup("x") is not None
    assert state(x="a" * (MAX_VALUE + 1)).lookup("x") is None


def test_a_child_gets_what_is_exported() -> None:
    parent = state(x="1", y="2", z="3", HOME="/n")
    parent.export(["x", "z"])
    parent.unexport(["z"])
    child = parent.child(None)
    assert [child.lookup(n) for n in ("x", "y", "z", "HOME")] == [("1",), (), None, ("/n",)]


def test_an_export_on_one_way_is_uncertain() -> None:
    left, right = state(x="1"), state(x="1")
    left.export(["x"])
    both = join(left, right)
    assert both is not None
    assert both.child(None).lookup("x") is None


def test_havoc_leaves_nothing() -> None:
    lost = state(x="1").lost()
    assert (lost.lookup("x"), lost.lookup("HOME"), lost.cwd, lost.default_ifs) == (None, None, None, False)


def test_numbers() -> None:
    counted = state(n="12", t="a")
    counted.assign("c", None, number=True)
    assert [counted.is_number(n) for n in ("n", "t", "c", "RANDOM", "none")] == [True, False, True, True, False]
    counted.assign("c", None)
    counted.assign("RANDOM", None)
    assert not counted.is_number("c")
    assert not counted.is_number("RANDOM")


def test_attributes_make_values_unknown() -> None:
    odd = state()
    odd.odd |= {"x"}
    odd.assign("x", ("1",))
    assert odd.lookup("x") is None


def test_a_field_that_does_not_declare_how_it_is_joined_is_an_error_at_import(tmp_path: Path) -> None:
    text = states.__loader__.get_source(states.__name__)  # type: ignore[union-attr]
    copy = tmp_path / "copy_of_state.py"
    copy.write_text(text.replace("    def copy(self)", "    forgotten: bool = False\n\n    def copy(self)", 1))
    done = subprocess.run([sys.executable, str(copy)], capture_output=True, text=True, check=False)
    assert "TypeError: State.forgotten does not declare how it is joined" in done.stderr
    copy.write_text(text)
    subprocess.run([sys.executable, str(copy)], check=True)


def test_states_of_different_analyses_never_meet() -> None:
    left, right = state(), State(("/p",), {"HOME": "/other"})
    with pytest.raises(AssertionError):
        join(left, right)


@pytest.mark.parametrize(
    "script",
    [
        "declare -A m; f() { local m; m[k]=1; }; f",
        "f() { local -A m; }; f; m[k]=1",
        "f() { local -a m; local -A m; m[k]=1; }; f",
        "declare -A m; for i in 1 2; do m[k]=1; unset m; m=(); done",
        "m[1]=1; declare -A m; m[k]=1",
        "m=(); declare -A m; m[k]=1",
        "m=(); if true; then unset m; fi; declare -A m; m[k]=1",
        "if false; then declare -A m; fi; m[k]=1",
    ],
)
def test_a_subscript_is_code_where_the_array_may_not_be_associative(script: str) -> None:
    program = analyse("k='x[$(touch f)]'; " + script, cwd="/p", environ={}, closed=True)
    assert any("is evaluated as arithmetic" in reason for reason in program.reasons)


@pytest.mark.parametrize(
    "script",
    [
        "declare -A m; m[k]=1",
        "declare -A m=([k]=v); declare -A m; m[k]=1",
        "f() { local -A m; m[k]=1; }; f",
        "m=1; unset m; declare -A m; m[k]=1",
        "declare -A m; for i in 1 2; do m[k]=1; done",
    ],
)
def test_a_subscript_of_an_associative_array_is_no_code(script: str) -> None:
    assert analyse("k='x[$(touch f)]'; " + script, cwd="/p", environ={}, closed=True).status == "ok"


@pytest.mark.parametrize(
    ("script", "values"),
    [
        ("x=; case b in a) :;; ${x:=b}) :;; esac; touch .$x", (".", ".b")),
        ("x=1; if c; then x=2; exit 1 2; fi\ntouch $x", ("1", "2")),
        ("x=1; f() { if c; then x=2; return 1 2; fi; }; f\ntouch $x", ("1", "2")),
        ("x=1; if c; then export x; fi; bash -c 'bash -c \"touch .\\$x\"'", None),
        ("x=1; f() { local -x x=2; }; f; x=3; bash -c 'touch .$x'", None),
    ],
)
def test_what_one_way_has_left_is_possible(script: str, values: tuple[str, ...] | None) -> None:
    program = analyse(script, cwd="/p", environ={}, closed=True)
    operands = [command.words[1] for command in program.commands if command.program == "touch"]
    assert operands
    for operand in operands:
        assert set(operand.texts) >= set(values) if values is not None else not operand.texts
