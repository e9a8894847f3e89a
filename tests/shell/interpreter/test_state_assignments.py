"""What a State says of a name after it was assigned, exported, made unknown, or met another way: name by name."""

from typing import Any

import pytest

from humanlayer_agent.shell.interpreter.state import (
    CHARACTER,
    MAX_CHOICES,
    MAX_VALUE,
    MAX_WORK,
    RESERVED,
    STEP,
    Anything,
    Glob,
    Paths,
    State,
    Work,
    join,
    one,
)


def state(**fields: Any) -> State:
    """A shell that was started with HOME and N alone."""
    return State(("/p",), {"HOME": "/h", "N": "5"}, **{"closed": True} | fields)


def joined(left: State, right: State) -> State:
    both = join(left, right)
    assert both is not None
    return both


# Values


def test_a_pattern_is_no_text_and_no_other_kind_of_pattern() -> None:
    assert len({"a*", Glob("a*"), Glob("a*"), Paths("a*"), Anything("a*")}) == 4
    assert Glob("a*") != "a*"
    assert Glob("a*") == Glob("a*") != Glob("b*")


def test_what_an_element_is_by_itself() -> None:
    assert one("a") == ("a",)
    (pattern,) = one(Paths("*.py")) or ()
    assert type(pattern) is Glob
    assert one(Anything("*")) is None


def test_what_may_be_spent_is_spent_once() -> None:
    work = Work()
    assert work.spend(MAX_WORK - 2)
    assert work.spend(1)
    assert not work.spend(1)
    assert not work.wondered


def test_programs_leave_something_to_the_shell() -> None:
    work = Work()
    before = work.steps
    assert work.admit(1_000, 10)
    assert before - work.steps == (1_000 * CHARACTER + 10 * STEP) // STEP
    assert not work.admit(MAX_WORK)
    assert work.admit(0, work.steps)
    assert work.steps == 0
    assert not work.admit(1_000)
    assert work.spend(RESERVED - STEP)


def test_what_may_be_spent_is_one_for_all() -> None:
    shell = state()
    assert shell.child(None).work is shell.copy().work is shell.work


# What a name holds


@pytest.mark.parametrize(
    ("name", "known"), [("HOME", ("/h",)), ("x", ()), ("PWD", None), ("IFS", None), ("RANDOM", None), ("_", None)]
)
def test_what_a_name_holds_at_first(name: str, known: Any) -> None:
    assert state().lookup(name) == known
    assert state(closed=False).lookup(name) == (known or None)
    assert state(havoc=True).lookup(name) is None


def test_what_is_assigned_counts_also_where_all_else_is_unknown() -> None:
    shell = state(havoc=True)
    shell.assign("x", ("1",))
    assert (shell.lookup("x"), shell.lookup("HOME")) == (("1",), None)


def test_the_values_of_a_name_are_limited_together() -> None:
    shell = state()
    shell.assign("x", ("a" * (MAX_VALUE - 1), "b"))
    assert shell.lookup("x") is not None
    shell.assign("x", ("a" * MAX_VALUE, "b"))
    assert shell.lookup("x") is None


@pytest.mark.parametrize(
    ("value", "is_number"),
    [("12", True), ("-5", True), ("0", True), ("", False), ("a", False), ("--5", False), ("-", False), ("１", False)],
)
def test_which_values_are_integers(value: str, is_number: bool) -> None:
    shell = state()
    shell.assign("n", (value,))
    assert shell.is_number("n") is is_number
    shell.assign("n", ("1", value))
    assert shell.is_number("n") is is_number


def test_which_names_are_integers() -> None:
    shell = state()
    assert [shell.is_number(name) for name in ("N", "HOME", "x", "RANDOM", "UID")] == [True, False, False, True, True]
    shell.forget(None)
    assert [shell.is_number(name) for name in ("N", "HOME", "x", "RANDOM", "UID")] == [False] * 5


def test_an_integer_that_is_not_known() -> None:
    shell = state()
    shell.assign("n", None, number=True)
    shell.assign("known", ("a",), number=True)
    assert (shell.is_number("n"), shell.is_number("known")) == (True, False)
    shell.assign("n", None)
    assert not shell.is_number("n")
    shell.odd |= {"odd"}
    shell.assign("odd", None, number=True)
    assert not shell.is_number("odd")


@pytest.mark.parametrize(
    ("value", "default"), [(" \t\n", True), (",", False), ("", False), (" ", False), (None, False)]
)
def test_how_words_are_split(value: str | None, default: bool) -> None:
    shell = state()
    shell.assign("x", (",",))
    assert shell.default_ifs
    shell.assign("IFS", (",",))
    shell.assign("IFS", None if value is None else (value,))
    assert shell.default_ifs is default


def test_the_name_of_the_shell() -> None:
    shell = state(zero="zero")
    shell.assign("x", ("1",))
    assert shell.zero == "zero"
    shell.assign("BASH_ARGV0", ("1",))
    assert shell.zero is None


# Who has set it


def test_what_may_be_as_the_shell_was_started() -> None:
    shell = state()
    assert [shell.inherits(name) for name in ("HOME", "x")] == [True, False]
    assert state(closed=False).inherits("x")
    shell.assign("HOME", ("/other",))
    assert not shell.inherits("HOME")
    shell.forget(["HOME"])
    assert shell.inherits("HOME")
    shell.assign("HOME", None)
    shell.forget(None)
    assert shell.inherits("HOME")
    assert shell.inherits("x")


def test_an_assignment_that_may_be_refused_proves_nothing() -> None:
    """Readonly names are among the odd ones: what HOME was started with may still be there."""
    shell = state()
    shell.odd |= {"HOME", "x"}
    shell.assign("HOME", ("/other",))
    shell.assign("x", ("1",))
    assert [shell.inherits(name) for name in ("HOME", "x")] == [True, False]
    assert "x" in shell.own
    assert shell.lookup("HOME") is None


def test_which_names_are_not_used_for_anything_yet() -> None:
    shell = state()
    assert [shell.unused(name) for name in ("x", "HOME", "IFS", "PATH")] == [True, False, False, False]
    assert not shell.work.wondered
    shell.assign("x", ("1",))
    assert not shell.unused("x")


def test_a_name_of_which_nothing_is_known_is_unused_as_far_as_is_assumed() -> None:
    shell = state(closed=False)
    assert not shell.unused("x")
    assert shell.work.wondered
    usual = state(closed=False).assumed()
    assert usual.unused("x")
    assert [usual.unused(name) for name in ("HOME", "IFS", "PATH")] == [False] * 3
    usual.assign("y", None)
    assert not usual.unused("y")
    usual.forget(None)
    assert not usual.unused("x")
    untouched = state(closed=False)
    assert [untouched.unused(name) for name in ("HOME", "IFS")] == [False, False]
    assert not untouched.work.wondered


def test_what_is_assumed_is_assumed_of_a_copy() -> None:
    shell = state(fresh=True)
    usual = shell.assumed()
    assert (usual.usual, usual.positional) == (True, ())
    assert (shell.usual, shell.positional) == (False, None)
    assert state(fresh=False).assumed().positional is None
    assert state(fresh=True, positional=("a",)).assumed().positional == ("a",)


def test_parameters_that_are_set_are_not_those_of_the_start() -> None:
    shell = state(fresh=True)
    shell.set_parameters(None)
    assert shell.assumed().positional is None
    shell.set_parameters(("a", "b"))
    assert shell.positional == ("a", "b")


def test_the_number_of_a_job_is_one_until_the_name_is_assigned() -> None:
    shell = state(jobs=frozenset({"x", "y"}))
    shell.assign("x", ("1",))
    assert shell.jobs == {"y"}


# Arrays


def test_an_array_is_known_until_its_name_is_assigned() -> None:
    shell = state()
    shell.assign_array("a", ("1", "2"))
    shell.assign_array("b", ("3",))
    assert (shell.arrays["a"], shell.lookup("a")) == (("1", "2"), ("1",))
    shell.assign("a", ("4",))
    assert "a" not in shell.arrays
    assert shell.arrays["b"] == ("3",)


def test_an_array_without_elements_is_not_unset() -> None:
    shell = state()
    shell.assign_array("a", ())
    assert (shell.arrays["a"], shell.lookup("a")) == ((), None)
    shell.assign_array("a", None)
    assert (shell.arrays.get("a"), shell.lookup("a")) == (None, None)


@pytest.mark.parametrize(("length", "known"), [(MAX_VALUE - 1, True), (MAX_VALUE, False)])
def test_how_long_arrays_may_be(length: int, known: bool) -> None:
    shell = state()
    shell.assign_array("a", ("a" * length, "b"))
    assert ("a" in shell.arrays) is known
    shell.assign_map("m", {"one": "a" * length, "two": "b"})
    assert ("m" in shell.entries) is known


def test_what_has_an_attribute_or_may_be_associative_is_no_list_that_is_known() -> None:
    shell = state(odd=frozenset({"odd"}), maybe_maps=frozenset({"m"}))
    for name in ("odd", "m"):
        shell.assign_array(name, ("1",))
        assert name not in shell.arrays
        assert shell.lookup(name) is None
    shell.assign_map("odd", {"k": "1"})
    assert "odd" not in shell.entries


def test_the_elements_of_an_associative_array() -> None:
    shell = state()
    shell.assign_map("m", {"k": "1"})
    shell.assign_map("n", {"k": "2"})
    assert shell.lookup("m") is None
    before = shell.entries
    shell.assign_map("m", None)
    assert shell.entries == {"n": {"k": "2"}}
    assert before == {"m": {"k": "1"}, "n": {"k": "2"}}, "another state may hold it"


# Names that stand for others


def test_an_assignment_through_a_name_that_stands_for_others() -> None:
    shell = state(references={"r": ("x", "y", None), "s": ("z",)})
    for name in ("x", "y", "z"):
        shell.assign(name, ("1",))
    shell.assign("r", ("2",))
    assert [shell.lookup(name) for name in ("x", "y", "z", "r")] == [None, None, ("1",), ("2",)]
    assert shell.references == {"r": ("x", "y", None), "s": ("z",)}


def test_names_that_stand_for_each_other_come_to_an_end() -> None:
    shell = state(references={"r": ("s",), "s": ("r",)})
    shell.assign("r", ("1",))
    assert (shell.lookup("s"), shell.lookup("r")) == (None, None)


def test_an_assignment_goes_through_one_name_after_another() -> None:
    shell = state(references={"r": ("s",), "s": ("t",)})
    shell.assign("t", ("1",))
    shell.assign("r", ("2",))
    assert shell.lookup("t") is None


def test_a_name_that_was_made_unknown_may_stand_for_nothing() -> None:
    shell = state(references={"r": ("x",), "s": ("y",)})
    before = shell.references
    shell.forget(["r", "z"])
    assert shell.references == {"r": ("x", None), "s": ("y",)}
    assert before == {"r": ("x",), "s": ("y",)}, "another state may hold it"
    plain = state()
    plain.loosen(["x"])
    assert plain.references == {}


# Functions


def test_a_function_that_is_defined_for_certain_or_perhaps() -> None:
    shell, one_, other = state(), object(), object()
    shell.define("f", one_, certain=True)  # type: ignore[arg-type]
    assert shell.functions["f"] == (one_,)
    shell.define("f", other, certain=False)  # type: ignore[arg-type]
    assert shell.functions["f"] == (one_, other)
    shell.define("f", one_, certain=False)  # type: ignore[arg-type]
    assert shell.functions["f"] == (other, one_)
    shell.define("f", None, certain=True)
    assert shell.functions["f"] == (None,)
    shell.define("g", one_, certain=False)  # type: ignore[arg-type]
    assert shell.functions["g"] == (None, one_)


def test_what_another_state_has_learnt_is_possible() -> None:
    function: Any = object()
    shell = state(functions={"f": (function,)}, references={"r": ("x",)})
    assert not shell.learn(state(functions={"f": (function,)}, references={"r": ("x",)}))
    assert shell.learn(state(references={"r": ("x",)}))
    assert shell.functions["f"] == (function, None)
    assert shell.learn(state(functions={"f": (None,)}, references={"r": ("y",)}))
    assert shell.references["r"] == ("x", "y")


# Children


def test_what_a_shell_that_is_started_from_here_has() -> None:
    function: Any = object()
    shell = state(
        default_ifs=False, nullglob=True, fresh=True, zero="old", usual=True, functions={"f": (function,), "g": (function,)},
        exported_functions=frozenset({"f"}), jobs=frozenset({"j"}), maps=frozenset({"m"}), maybe_maps=frozenset({"m"}),
        references={"r": ("x",)},
    )  # fmt: skip
    shell.assign_array("a", ("1",))
    shell.assign_map("m", {"k": "1"})
    shell.assign("n", None, number=True)
    shell.assign("o", None, number=True)
    shell.assign("perhaps", ("1",))
    shell.export(["n"])
    shell.export(["perhaps"])
    shell.unexport(["perhaps"])
    child = shell.child(("p",), "new")
    assert (child.cwd, child.environ, child.closed, child.usual) == (("/p",), shell.environ, True, True)
    assert (child.positional, child.zero, child.default_ifs, child.nullglob, child.fresh) == (
        ("p",),
        "new",
        True,
        False,
        False,
    )
    assert (child.functions, child.arrays, child.entries, child.references) == ({"f": (function, None)}, {}, {}, {})
    assert (child.jobs, child.maps, child.maybe_maps) == (frozenset(), frozenset(), frozenset())
    assert (child.is_number("n"), child.is_number("o")) == (True, False)
    assert (child.lookup("o"), child.lookup("perhaps"), child.lookup("HOME")) == ((), None, ("/h",))
    assert child.exported == {"n"}
    assert child.maybe_exported == {"n", "perhaps"}
    assert shell.child(None).zero is None


def test_a_variable_from_outside_that_was_changed_goes_to_children_without_an_export() -> None:
    shell = state()
    shell.assign("HOME", ("/other",))
    shell.assign("x", ("1",))
    assert [shell.child(None).lookup(name) for name in ("HOME", "x")] == [("/other",), ()]


# Nothing is known any more


def test_after_code_that_nobody_has_read() -> None:
    function: Any = object()
    shell = state(
        functions={"f": (function,), "g": (function, None)}, positional=("a",), zero="z", fresh=True, jobs=frozenset({"j"}),
        maps=frozenset({"m"}), maybe_maps=frozenset({"m"}), references={"r": ("x",)}, odd=frozenset({"odd"}), nullglob=True,
    )  # fmt: skip
    shell.assign_array("a", ("1",))
    shell.assign_map("m", {"k": "1"})
    shell.assign("n", None, number=True)
    shell.export(["n"])
    shell.forget(None)
    assert shell.cwd == ("/p",)
    assert (shell.variables, shell.arrays, shell.entries) == ({}, {}, {})
    assert shell.references == {"r": ("x", None)}
    assert not shell.numbers | shell.maps | shell.jobs | shell.own | shell.exported
    assert (shell.havoc, shell.default_ifs, shell.positional, shell.zero, shell.fresh) == (
        True,
        False,
        None,
        None,
        False,
    )
    assert shell.functions == {"f": (function, None), "g": (function, None)}
    assert (shell.maybe_exported, shell.maybe_maps, shell.odd, shell.nullglob) == ({"n"}, {"m"}, {"odd"}, True)


def test_a_lost_state_is_a_copy() -> None:
    shell = state()
    shell.assign("x", ("1",))
    lost = shell.lost()
    assert (lost.cwd, lost.lookup("x"), lost.havoc) == (None, None, True)
    assert (shell.cwd, shell.lookup("x"), shell.havoc) == (("/p",), ("1",), False)


def test_names_that_are_made_unknown() -> None:
    shell = state(maps=frozenset({"m", "n"}))
    for name in ("x", "y"):
        shell.assign(name, ("1",))
    shell.forget(iter(["x", "m"]))
    assert (shell.lookup("x"), shell.lookup("y"), shell.maps, shell.own) == (None, ("1",), {"n"}, {"y"})
    assert not shell.havoc


# Where two ways meet


def test_how_many_values_are_followed() -> None:
    left, right = state(), state()
    left.assign("x", tuple(map(str, range(MAX_CHOICES - 1))))
    right.assign("x", ("0", "last"))
    assert joined(left, right).lookup("x") == (*map(str, range(MAX_CHOICES - 1)), "last")
    right.assign("x", ("0", "last", "one more"))
    assert joined(left, right).lookup("x") is None


def test_patterns_of_both_ways_are_kept() -> None:
    left, right = state(), state()
    left.assign("x", (Glob("a*"), "b"))
    right.assign("x", ("a*", Glob("a*")))
    assert joined(left, right).lookup("x") == (Glob("a*"), "b", "a*")


def test_unset_on_one_way_is_not_known_on_both() -> None:
    left, right = state(), state()
    left.assign("HOME", ())
    assert joined(left, right).lookup("HOME") is None
    assert joined(right, left).lookup("HOME") is None
    left.assign("HOME", ("/other",))
    assert joined(left, right).lookup("HOME") == ("/other", "/h")


def test_an_integer_on_both_ways() -> None:
    left, right = state(), state()
    left.assign("n", None, number=True)
    left.assign("m", None, number=True)
    right.assign("n", ("7",))
    right.assign("m", ("a",))
    both = joined(left, right)
    assert (both.lookup("n"), both.is_number("n"), both.is_number("m")) == (None, True, False)


def test_a_way_that_never_arrives() -> None:
    shell = state()
    assert join(shell, None) is join(None, shell) is join(shell, shell) is shell
    assert join(None, None) is None


def test_where_ways_meet_neither_is_changed() -> None:
    left, right = state(), state()
    left.assign("x", ("1",))
    right.assign("y", ("2",))
    joined(left, right)
    assert (left.lookup("y"), right.lookup("x")) == ((), ())


def test_what_holds_on_one_way_only() -> None:
    left, right = state(), state(closed=False, nullglob=True, havoc=True, fresh=True)
    for both in (joined(left, right), joined(right, left)):
        assert (both.closed, both.nullglob, both.havoc, both.fresh) == (False, True, True, False)


def test_what_is_so_at_first() -> None:
    shell = State(("/p",), {})
    assert (shell.closed, shell.default_ifs, shell.havoc, shell.nullglob) == (False, True, False, False)
    assert (shell.fresh, shell.usual, shell.positional, shell.zero) == (False, False, None, None)
    assert shell.unused("x") is False
