"""What is known of the shell, and what stays known where two ways meet."""

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
