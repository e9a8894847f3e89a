"""bash's own commands, and functions."""

import itertools

import pytest

from humanlayer_agent.shell.analysis import Interpreter, analyse
from humanlayer_agent.shell.builtins import HANDLERS, PURE, SILENT
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.context import Context
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.syntax.tree import Word


def directories(text: str) -> tuple[str, ...] | None:
    """Where the last command of `text` may run."""
    return analyse(text, cwd="/p", environ={"HOME": "/h"}).commands[-1].cwd


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd a && :", ("/p/a",)),
        ("cd ../a/./b && :", ("/a/b",)),
        ("cd && :", ("/h",)),
        ("cd ~/x && :", ("/h/x",)),
        ("cd -- a && :", ("/p/a",)),
        ("cd -L a && :", ("/p/a",)),
        ("cd -P a && :", None),
        ("cd -Pe && :", ("/h",)),
        ("cd - && :", None),
        ("cd a b && :", None),
        ("cd -- -a && :", None),
        ("cd $x && :", None),
        ("cd '' && :", ("/p",)),
        ("HOME=rel; cd && :", None),
        ("CDPATH=/x; cd a && :", None),
        ("CDPATH=/x; cd /a && :", ("/a",)),
        ("pushd a && :", ("/p/a",)),
        ("pushd +1 && :", None),
        ("popd && :", None),
        ("eval cd a && :", ("/p/a",)),
        ("f() { cd a; }; f && :", ("/p/a",)),
        ("builtin cd a && :", ("/p/a",)),
        (". ./f; :", None),
        ("for d in a; do cd $d; done; :", None),
        ("for d in a; do (cd $d); done; :", ("/p",)),
    ],
)
def test_directory(text: str, expected: tuple[str, ...] | None) -> None:
    assert directories(text) == expected


WORDS = [
    Field(Word(w, w, 0, len(w)), 0, len(w), text=w, prefix=w) for w in ("a", "/", "-", "--", "-P", "+1", "x=1", "")
]


@pytest.mark.parametrize("name", sorted(PURE))
def test_a_pure_builtin_leaves_the_state_it_is_given_alone(name: str) -> None:
    for count in range(3):
        for words in itertools.product(WORDS, repeat=count):
            state = State(("/p",), {"HOME": "/h"}, variables={"x": ("1",)})
            before = repr(state)
            command = SimpleCommand(name, [name], (0, 1), name)
            ends = HANDLERS[name](Run(Interpreter("", state), command, state, Context()), [*words])
            assert repr(state) == before
            assert name not in SILENT or ends == (state, state)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x=1 true; : $x", [None]),
        ("x=2; x=1 true; : $x", ["2"]),
        ("x=2; x=1 ls; : $x", ["2"]),
        ("x=2; x=$((y=1)) ls; : $y", [None]),
        ("x=2; x=1 read y <<< a; : $y", ["a"]),
        ("IFS=: read y z <<< a:b; : $y$z", ["ab"]),
        ("x=1 export y=2; : $y", ["2"]),
        ("x=1 set -- a; : $1", ["a"]),
        ("x=2; x=1 eval y=3; : $y", ["3"]),
        ("x=1 cd a; : $PWD", [("/p/a", "/p")]),
        ("x=1 command read y <<< a; : $y", ["a"]),
        ("y=0; x=1 env read y <<< a; : $y", ["0"]),
    ],
)
def test_what_stays_after_a_command_with_variables_of_its_own(text: str, expected: list[str | None]) -> None:
    assert value(text) == expected


def value(text: str) -> list[str | tuple[str, ...] | None]:
    """What is known of the words of the last command."""
    words = analyse(text, cwd="/p", environ={"HOME": "/h"}).commands[-1].words[1:]
    return [w.text if w.text is not None else w.choices or None for w in words]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("export x=1; : $x", ["1"]),
        ("y='a b'; export x=$y; : \"$x\"", ["a b"]),
        ("y='a b'; command export x=$y; : \"$x\"", ["a"]),
        ("declare -r x=1; : $x", ["1"]),
        ("declare x=1 y=2; : $x$y", ["12"]),
        ("local x=1; : $x", [None]),
        ("f() { local x=1; : $x; }; f", ["1"]),
        ("x=0; f() { local x=1; }; f; : $x", [None]),
        ("x=0; f() { x=1; }; f; : $x", ["1"]),
        ("x=0; f() { [ y ] && return; x=1; }; f; : $x", [("1", "0")]),
        ("x=1 f; : $x", [None]),
        ("unset x; : $x", []),
        ("x=1; f() { unset x; }; f; : $x", []),
        ("x=1; g() { unset x; : $x; }; f() { local x=2; g; }; f", [None]),
        ("printf -v x 1; : $x", ["1"]),
        ("read -r x <<< 'a b'; : \"$x\"", ["a b"]),
        ("read x y <<< 'a b'; : \"$x\"", ["a"]),
        ("set -- a b; : $2", ["b"]),
        ("set -- a b; shift; : $1", ["b"]),
        ("set -- a; shift 2; : $1", ["a"]),
        ("set -e -- a; : $1", ["a"]),
        ("set -e; set -; set -- b; : $1", ["b"]),
        ("eval x=1; : $x", ["1"]),
        ("eval \"$y\"; x=1; : \"$x\"", ["1"]),
        ("x=1; eval \"$y\"; : $x", [None]),
        ("source /dev/stdin <<< 'x=1'; : $x", ["1"]),
        ("source /dev/stdin <<< 'x=1; return; x=2'; : $x", ["1"]),
        ("x=1; trap 'x=2' EXIT; : $x", ["1"]),
        ("f() { : $1; }; f \"a b\"", ["a", "b"]),
        ("f() { : \"$@\"; }; set -- q; f x y", ["x", "y"]),
        ("f() { :; }; set -- q; f x; : $1", ["q"]),
    ],
)  # fmt: skip
def test_values(text: str, expected: list[str | tuple[str, ...] | None]) -> None:
    assert value(text) == expected


def test_source_of_a_path_is_code_nobody_read() -> None:
    (command,) = analyse("source bin/activate", cwd="/p", environ={}).commands
    assert [(e.kind, e.operand, e.unread, e.resolved) for e in command.effects] == [
        ("execute", "/p/bin/activate", True, False)
    ]


def test_recursion_ends() -> None:
    assert analyse("f() { g; }; g() { f; }; f", cwd="/p", environ={}).status == "partial"
