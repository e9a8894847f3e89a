"""What a piece of script may change, from its text alone."""

import pytest

from humanlayer_agent.shell.interpreter.loop_effects import Changes, changes
from humanlayer_agent.shell.syntax.parse import parse
from humanlayer_agent.shell.syntax.tree import Function, Sequence


def survey(text: str) -> Changes:
    script = parse(text).script
    assert script is not None
    assert script.body is not None
    return changes(script.body, {})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("x=1; y+=2", {"x", "y"}),
        ("read -r 'a' b\"c\"", {"r", "a", "bc", "REPLY"}),
        ("for i in 1; do x=1; done", {"i", "x", "REPLY"}),
        ("((n=m++))", {"n", "m"}),
        ("[[ n=1 -eq 1 ]]", {"n"}),
        ("echo ${x:=1} ${y:z=2} $((w=3)) ${a[v=4]}", {"x", "y", "z", "w", "v"} - {"y"}),
        ("a[k=1]=2", {"a", "k"}),
        ("exec {fd}>f", set()),
        ("ls {fd}>f", {"fd"}),
        ("printf x y", set()),
        ("printf -v x y", {"v", "x", "y"}),
        ("(x=1); x=1 | y=2", set()),
        ("export x=$y", {"x"}),
    ],
)
def test_names(text: str, names: set[str]) -> None:
    found = survey(text)
    assert names <= found.names or found.anything
    assert found.anything or found.names == names


@pytest.mark.parametrize(
    "text", ["eval x", ". f", "$x", "e*l x=1", "{eval,x=1}", 'read "$x"', "command cd /", 'export "$x"']
)
def test_anything(text: str) -> None:
    assert survey(text).anything


def test_a_called_function_counts_wherever_it_is_defined() -> None:
    assert survey("f() { x=1; }").names == set()
    assert survey("f() { x=1; }; f").names == {"x"}
    assert survey("f; f() { x=1; g; }; g() { cd /; }").moves
    assert survey("f() { f() { x=1; }; }; f; f").names == {"x"}


def test_functions_given_from_outside_are_followed() -> None:
    script = parse("f() { x=1; }; f").script
    assert script is not None
    assert isinstance(script.body, Sequence)
    function, call = script.body.parts
    assert isinstance(function, Function)
    assert changes(call, {"f": [function]}).names == {"x"}


def test_numbers_are_told_apart() -> None:
    assert survey("x=1; y=$((x+1)); ((z++)); t=a").numbers == {"x", "y", "z"}
    assert survey("x=1; x=a").numbers == set()


def test_other_changes() -> None:
    assert survey("set -- a").positional
    assert survey("shift").positional
    assert survey("unset -f f").unset == {"f"}
    assert survey("pushd x").moves
    assert survey("export x").declared == {"x"}
    assert list(survey("f() { :; }").functions) == ["f"]
