"""`hla people`: a human at a real terminal says that they are away, and is back; and everybody who is none."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.cli import main
from humanlayer_agent.configuration import build_authority
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, config_folder, default_store_path, key_path
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST
from tests.support.human_terminal import typed
from tests.support.keys import known_passphrase, make_key, passphrase_file

RUN = [sys.executable, "-m", "humanlayer_agent.cli"]
SOON = "2099-01-01"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[SQLiteStore]:
    """A store beside a channels file with three people, of whom this user is one."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    capsys.readouterr()
    with (config_folder() / "channels.yaml").open("a") as file:
        file.write(
            f"""
people:
  me: {{os_user: {pwd.getpwuid(os.getuid()).pw_name}}}
  bob: {{os_user: bob-from-elsewhere}}
  cleo: {{slack: T012AB/U034CD}}
channels:
  terminal: {{type: terminal}}
routes:
  default: {{approvers: [me], steps: [{{to: terminal}}]}}
  pair: {{approvers: [me, bob], quorum: 2, steps: [{{to: terminal}}]}}
"""
        )
    opened = SQLiteStore(default_store_path())
    yield opened
    opened.close()


def in_days(days: int) -> str:
    from datetime import UTC, datetime, timedelta

    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%d")


def at_terminal(*arguments: str, word: str = "away", **more: str) -> tuple[int, str]:
    """The exit code and all that was shown to a human, who types a word and as often as asked the passphrase."""
    return typed(*arguments, wanted="away", word=word, **more)


def standing(store: SQLiteStore) -> list[tuple[str, str]]:
    authority = build_authority()
    assert authority is not None
    return [(each.person, each.to) for each in store.absences.standing(authority)]


def records(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["people", "ls", "--format", "json"]) == 0
    return {each["id"]: each for each in json.loads(capsys.readouterr().out)}


def test_away_and_back(store: SQLiteStore, capsys: pytest.CaptureFixture[str]) -> None:
    until = in_days(3)
    code, shown = at_terminal("people", "away", "--to", "bob", "--until", until)
    assert code == 0, shown
    for text in ("bob is asked in the place of me", "route default: bob is asked", "route pair: you are asked as ever"):
        assert text in shown
    assert standing(store) == [("me", "bob")]
    mine = records(capsys)["me"]
    assert (mine["away_to"], mine["not_counted"], mine["routes"]) == ("bob", "", ["default", "pair"])
    assert main(["people", "ls"]) == 0
    assert f"until {until} 00:00:00Z, bob is asked" in " ".join(capsys.readouterr().out.split())
    (event,) = (entry.event for entry in store.events(type="absence.said"))
    assert (event["person"], event["to"], event["approver"]["assurance"]) == ("me", "bob", "terminal")

    assert at_terminal("people", "back") == (0, "me is asked again\r\n")
    assert at_terminal("people", "back")[0] == 1
    assert standing(store) == []
    assert records(capsys)["me"]["away_until"] is None
    assert store.verify().intact


def test_somebody_else_may_say_that_one_is_back(store: SQLiteStore) -> None:
    at_terminal("people", "away", "--to", "bob", "--until", in_days(3))
    assert at_terminal("people", "back", "cleo")[0] == 1
    assert standing(store) == [("me", "bob")]
    assert at_terminal("people", "back", "me")[0] == 0
    assert standing(store) == []


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"word": "yes"}, 1),
        ({"passphrase": "another passphrase, of nobody"}, 1),
    ],
)
def test_what_is_not_meant_is_not_said(store: SQLiteStore, said: dict[str, str], code: int) -> None:
    assert at_terminal("people", "away", "--to", "bob", "--until", in_days(3), **said)[0] == code
    assert standing(store) == []


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("to", "until", "why"),
    [
        ("me", in_days(3), "stand in for themselves"),
        ("mallory", in_days(3), "none of the people"),
        ("bob", "tomorrow", "is no date"),
        ("bob", "2020-01-01", "must be later than now"),
        ("bob", SOON, "within 90 days"),
    ],
)
def test_what_can_not_be(store: SQLiteStore, to: str, until: str, why: str) -> None:
    code, shown = at_terminal("people", "away", "--to", to, "--until", until)
    assert (code, why in " ".join(shown.split())) == (2, True), shown
    assert "Passphrase" not in shown
    assert standing(store) == []


def test_a_key_that_is_no_signer(store: SQLiteStore) -> None:
    key_path().unlink()
    make_key()
    assert at_terminal("people", "away", "--to", "bob", "--until", in_days(3))[0] == 2
    assert standing(store) == []


def test_a_file_does_not_stand_in_for_a_human(store: SQLiteStore, tmp_path: Path) -> None:
    environ = {PASSPHRASE_VARIABLE: str(passphrase_file(tmp_path))}
    assert at_terminal("people", "away", "--to", "bob", "--until", in_days(3), passphrase="", **environ)[0] == 1
    assert standing(store) == []


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["ls", "away --to bob --until 2026-12-24", "back", "back me"])
def test_an_agents_command_does_nothing(store: SQLiteStore, command: str) -> None:
    done = subprocess.run(
        [*RUN, "people", *command.split()],
        env={**os.environ, SUPERVISED: "1"},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 2, done
    assert [entry.event["command"] for entry in store.events(type="wall")] == [f"people {command.split()[0]}"]


@pytest.mark.sample(1)
@pytest.mark.parametrize("command", ["away --to bob --until 2026-12-24", "back"])
def test_without_a_terminal(store: SQLiteStore, command: str) -> None:
    done = subprocess.run(
        [*RUN, "people", *command.split()], capture_output=True, text=True, check=False, start_new_session=True
    )
    assert (done.returncode, "only a human at a terminal" in done.stderr) == (3, True)
    assert standing(store) == []


def test_what_waits_already_is_said(elsewhere: None, store: SQLiteStore) -> None:
    """Whoever leaves was told of it, and the other one is not."""
    from humanlayer_agent.approvals.model import ApprovalRequest, Run
    from humanlayer_agent.approvals.store_interface import now_ms

    store.open_run(Run("run-1", "agent", "instance", "os:1:bob-from-elsewhere", "/srv/app"))
    action = Action("make deploy", cwd="/srv/app", project="/srv/app", run_id="run-1", agent="agent")
    decision = PolicyDecision(Verdict.ASK, "a rule says so", "test", POLICY_DIGEST, rules=("r1",))
    request = ApprovalRequest(
        "a" * 32, "b" * 64, action.digest(POLICY_DIGEST), action.body(POLICY_DIGEST), action, decision,
        "os:1:bob-from-elsewhere", now_ms(), now_ms() + 600_000, 60_000,
    )  # fmt: skip
    store.create_request(request)
    code, shown = at_terminal("people", "away", "--to", "cleo", "--until", in_days(3))
    assert code == 0
    assert "1 request waits that you may answer, and cleo was not told of: answer them first" in shown
    assert at_terminal("people", "back")[1] == (
        "me is asked again; 1 request waits that they may answer: hla requests ls\r\n"
    )


# ---- whoever leaves -----------------------------------------------------------------------------------


def test_remove_says_what_was_decided_and_which_lines_are_left(
    store: SQLiteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    fingerprint = Signer().fingerprint
    with (config_folder() / "channels.yaml").open() as file:
        lines = file.read().splitlines()
    code, shown = typed(
        "people", "remove", "bob", "--key", fingerprint, "--reason", "left", wanted="remove", word="remove"
    )
    assert code == 0, shown
    for text in (
        "bob is known as os:bob-from-elsewhere",
        "answers: none",
        "nothing can be approved by route pair then",
        "bob is removed",
        "0 grants and 1 key revoked",
    ):
        assert text in shown
    for text in ("bob: {os_user: bob-from-elsewhere}", "pair: {approvers: [me, bob]"):
        (number,) = (n for n, line in enumerate(lines, 1) if text in line)
        assert f"channels.yaml:{number}: {text}" in shown
    (event,) = (entry.event for entry in store.events(type="person"))
    assert (event["person"], event["keys"], event["reason"]) == ("bob", [fingerprint], "left")
    assert records(capsys)["bob"]["removed"] == event["at"]
    assert main(["people", "ls"]) == 0
    assert "has left: removed" in capsys.readouterr().out


def test_remove_changes_nothing_without_the_word_a_terminal_or_a_name(
    store: SQLiteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed("people", "remove", "bob", wanted="remove", word="no")[0] == 1
    alone = subprocess.run([*RUN, "people", "remove", "bob"], capture_output=True, text=True, start_new_session=True)
    assert alone.returncode == 3
    for wrong in (["nobody"], ["group:x"], ["bob", "--key", "zz"]):
        assert (
            "remove"
            not in typed("people", "remove", *wrong, wanted="remove", word="remove")[1].partition("is removed")[1]
        )
    below = subprocess.run(
        [*RUN, "people", "remove", "bob"], capture_output=True, text=True, env={**os.environ, SUPERVISED: "1"}
    )
    assert below.returncode == 2
    assert list(store.events(type="person")) == []


def test_an_identity_of_one_of_the_people_is_not_their_name(store: SQLiteStore) -> None:
    code, shown = typed("people", "remove", "slack:T012AB/U034CD", wanted="remove", word="remove")
    assert code == 2
    assert "slack:T012AB/U034CD is cleo: name them so" in shown
