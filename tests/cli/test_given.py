"""What is read without typer is what typer reads."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.cli import main
from humanlayer_agent.cli.app import command_tree
from humanlayer_agent.cli.check import usual

_WORDS = st.sampled_from(
    [
        *("ls -la", "", "x", "--format", "json", "jsonl", "xml", "--cwd", "/srv", "--policy", "strict", "--project"),
        *("-x", "--observe", "--format=json", "--", "-", "--for", "-h", "--observe=1"),
    ]
)


_COMMANDS: Any = command_tree()


def typer_reads(command: str, argv: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = _COMMANDS.commands[command].make_context(command, list(argv)).params
    return {"format" if name == "output" else name: value for name, value in found.items()}


@given(st.lists(_WORDS, max_size=5))
def test_it_is_what_typer_reads(argv: list[str]) -> None:
    valued = ("--format", "--cwd", "--policy", "--project")
    for command, found in (
        ("check", usual(argv, valued=valued, plain=("--observe",))),
        ("parse", usual(argv, valued=valued[:2])),
    ):
        if found is not None:
            expected = typer_reads(command, argv)
            assert {name: value for name, value in dataclasses.asdict(found).items() if name in expected} == expected


@pytest.mark.parametrize("argv", [["--format"], ["--format", "xml"], ["a", "b"], ["-h"], ["--cwd", "--format"], ["--"]])
def test_what_is_unusual_is_left_to_typer(argv: list[str]) -> None:
    assert usual(argv, valued=("--format", "--cwd")) is None


def test_parse_answers_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "--format", "json", "ls"]) == 0
    assert '"program": "ls"' in capsys.readouterr().out
    assert main(["parse", "ls 'x"]) == 1
    assert "unterminated" in capsys.readouterr().out
    assert main(["parse"]) == 2
    assert "give a command" in capsys.readouterr().err
    assert main(["parse", "--nothing"]) == 2
