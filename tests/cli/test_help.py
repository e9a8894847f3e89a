"""`--help`, suggestions and completion are of one style, under both names of the program."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.cli import main
from humanlayer_agent.cli.app import command_tree
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker, ScriptedDirector

Capture = pytest.CaptureFixture[str]


def paths(command: Any = None, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """All commands and groups."""
    command = command or command_tree()
    below = [each for name, one in getattr(command, "commands", {}).items() for each in paths(one, (*path, name))]
    return [path, *below]


@pytest.mark.parametrize("name", ["hla", "humanlayer-agent"])
def test_each_page_has_the_name_an_example_and_nothing_cut(
    name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [f"/somewhere/bin/{name}"])
    monkeypatch.setenv("COLUMNS", "80")
    for path in paths():
        assert main([*path, "--help"]) == 0
        shown = capsys.readouterr().out
        assert shown.startswith(f"Usage: {' '.join([name, *path])} "), path
        assert re.search(rf"^Examples?:\n  .*\bhla {' '.join(path)}", shown, re.MULTILINE), path
        assert "..." not in re.sub(r"\S\.\.\.(?=$| \S+$)|xoxb-\.\.\.|xapp-\.\.\.", "", shown.partition("\n")[2]), (
            path,
            shown,
        )
        assert max(map(len, shown.splitlines())) <= 80, path
        assert not re.search(r"<(str|path|int|float)", shown), path


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("requets", "there is no command 'requets'; did you mean requests? (hla --help)"),
        ("requests lst", "there is no command 'lst'; did you mean ls? (hla requests --help)"),
        ("check --polcy default ls", "there is no option --polcy; did you mean --policy or --project? (hla check --help)"),
        ("check ls -la", "the command is more than one word: quote it: hla check 'ls -la' (hla check --help)"),
        ("check --policy default git push", "quote it: hla check 'git push'"),
        ("check rm 'a b' --format json", "hla check 'rm '\"'\"'a b'\"'\"''"),
        ("parse ls | wc", "quote it: hla parse 'ls '\"'\"'|'\"'\"' wc'"),
        ("policy show --policy defualt", "did you mean default?"),
        ("policy lint --explain no-tests", "did you mean no-test?"),
        ("catalog list gti", "did you mean git?"),
    ],
)  # fmt: skip
def test_what_was_probably_meant(
    line: str, said: str, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").touch()
    Path("more").mkdir()
    opened = SQLiteStore(default_store_path())
    with Gate(ScriptedDirector({"ask": Verdict.ASK}), opened, ScriptedAsker(["approve"]), run_id="run-17") as gate:
        gate.check(Action("ls", cwd="/srv", project="/srv"))


@pytest.mark.parametrize("name", ["hla", "humanlayer-agent"])
def test_completion(name: str, store: None, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [f"/somewhere/bin/{name}"])

    def completed(line: str) -> list[str]:
        words = line.split(" ")
        with monkeypatch.context() as patch:
            patch.setenv(f"_{name.upper().replace('-', '_')}_COMPLETE", "complete_bash")
            patch.setenv("COMP_WORDS", f"{name} {line}")
            patch.setenv("COMP_CWORD", str(len(words)))
            with pytest.raises(SystemExit):
                main([])
        return capsys.readouterr().out.split()

    assert {"requests", "resume"} <= set(completed("re"))
    assert completed("check --policy d") == ["default"]
    assert completed("policy test m") == ["mine.yaml", "more/"]
    assert completed("audit query --rule delete-out") == ["delete-outside-project"]
    assert completed("audit query --run run-") == ["run-17"]
    assert completed("policy lint --explain no-t") == ["no-test"]
    assert completed("catalog show chmo") == ["chmod"]
    assert completed("requests show ") == []
    monkeypatch.setenv(SUPERVISED, "1")
    assert completed("requests show ") == []
