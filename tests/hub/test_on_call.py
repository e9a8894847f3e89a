"""Who is on call is told; where that can't be found out, all who may answer are, and nobody ever fewer than it takes."""

import os
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.authority import ApprovalRule, Authority, OnCall, Person, StandIn, Step
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hub import on_call
from humanlayer_agent.hub.on_call import LASTS, LIMIT, OnCallNames
from humanlayer_agent.hub.outbox import Outbox
from tests.hub.conftest import ALICE, team

TEAM = ("alice", "bob", "carol")


def told(source: OnCall, *, able: tuple[str, ...] = TEAM, **fields: Any) -> tuple[set[str], str]:
    step = Step("board", 0, fields.pop("step", ()), source)
    found, why = OnCallNames().told(step, ApprovalRule("default", TEAM, steps=(step,), **fields), able)
    return set(found), why


def listed(tmp_path: Path, text: str | bytes, mode: int = 0o600) -> OnCall:
    path = tmp_path / "on-call"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    return OnCall(file=str(path))


def printing(tmp_path: Path, script: str) -> OnCall:
    path = tmp_path / "who"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return OnCall(command=(str(path), "--team", "ops"))


def test_a_file_says_who_is_told(tmp_path: Path) -> None:
    assert told(listed(tmp_path, "# this week\nbob\n\n  carol # second\nbob\n")) == ({"bob", "carol"}, "")


def test_a_command_says_who_is_told(tmp_path: Path) -> None:
    assert told(printing(tmp_path, 'test "$2" = ops && echo bob')) == ({"bob"}, "")


def test_a_file_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    listed(tmp_path, "bob")
    assert told(OnCall(file="~/on-call")) == ({"bob"}, "")


def test_the_command_gets_nothing_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_BOT_TOKEN", "xoxb-1")
    monkeypatch.setenv("HUMANLAYER_PASSPHRASE_FILE", "/nowhere")
    seen = tmp_path / "seen"
    assert told(printing(tmp_path, f"env > {seen}; pwd >> {seen}; echo bob")) == ({"bob"}, "")
    names = {line.partition("=")[0] for line in seen.read_text().splitlines()}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "HOME", "LANG", "/"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it names nobody"),
        ("# nobody\n\n", "it names nobody"),
        ("mallory", "'mallory' is not one of the approvers"),
        ("bob\nmallory", "'mallory' is not one of the approvers"),
        ("starter", "is not one of the approvers"),
        ("group:ops", "is not one of the approvers"),
        ("bob carol", "is not one of the approvers"),
        ("bob\x1b[2Jalice", "is not one of the approvers"),
        ("x" * (LIMIT + 1), "longer than"),
        ("bob\n" + "\n".join(f"n{n}" for n in range(200)), "more than 100"),
        (b"\xff\xfe\x00b", "can't decode"),
    ],
)
def test_a_file_that_is_of_no_use(tmp_path: Path, text: str | bytes, why: str) -> None:
    found, said = told(listed(tmp_path, text))
    assert (found, why in said) == (set(TEAM), True), said
    assert said.isprintable()


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write(tmp_path: Path, mode: int) -> None:
    found, why = told(listed(tmp_path, "bob", mode))
    assert (found, "others can write it" in why) == (set(TEAM), True)


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "none", Path("/dev/zero")):
        found, why = told(OnCall(file=str(path)))
        assert (found, bool(why)) == (set(TEAM), True)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 0", "it names nobody"),
        ("echo bob; exit 3", "exit code 3"),
        ("echo bob; kill -9 $$", "exit code -9"),
        ("head -c 10000000 /dev/zero | tr '\\0' b", "printed more than"),
        ("while :; do echo bob; done", "took longer than"),
        ("echo bob; sleep 600", "took longer than"),
        ("echo bob; trap '' TERM INT HUP; sleep 600", "took longer than"),
        ("echo mallory", "'mallory' is not one of the approvers"),
        ("echo bob >&2; echo oops >&2; echo bob", "is not one of the approvers"),
    ],
)
def test_a_command_that_is_of_no_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, why: str) -> None:
    monkeypatch.setattr(on_call, "TIME_OUT", 1.0)
    found, said = told(printing(tmp_path, script))
    assert (found, why in said) == (set(TEAM), True), said


def test_a_command_that_can_not_be_started(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("bob")
    for path in (tmp_path / "text", tmp_path / "none", tmp_path):
        found, why = told(OnCall(command=(str(path),)))
        assert (found, bool(why)) == (set(TEAM), True)


def test_nothing_that_a_command_starts_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds the pipe open is ended, not waited for."""
    assert told(printing(tmp_path, "(sleep 600; echo late) & echo bob")) == ({"bob"}, "")


# How many


@pytest.mark.parametrize(
    ("names", "fields", "expected"),
    [
        ("bob", {"quorum": 2}, set(TEAM)),  # one is fewer than it takes
        ("bob\ncarol", {"quorum": 2}, {"bob", "carol"}),
        ("bob", {"able": ("alice", "carol")}, {"alice", "carol"}),  # who started the run is on call
        ("bob\ncarol", {"able": ("alice", "carol")}, {"carol"}),
        ("bob\ncarol", {"able": ("alice", "carol"), "quorum": 2}, {"alice", "carol"}),
        ("alice", {"step": ("bob", "carol")}, {"bob", "carol"}),  # not one of this step
        ("carol", {"step": ("bob", "carol")}, {"carol"}),
    ],
)
def test_never_fewer_than_it_takes(tmp_path: Path, names: str, fields: dict[str, Any], expected: set[str]) -> None:
    assert told(listed(tmp_path, names), **fields)[0] == expected


def test_who_is_on_call_and_away(tmp_path: Path) -> None:
    step = Step("board", 0, (), listed(tmp_path, "bob"))
    rule = ApprovalRule("default", TEAM, steps=(step,)).with_stand_in(StandIn("bob", "dan", 0))
    assert OnCallNames().told(rule.steps[0], rule, rule.approvers) == (frozenset({"dan"}), "")


def test_what_was_read_is_good_for_a_minute(tmp_path: Path) -> None:
    moment, source = [100.0], listed(tmp_path, "bob")
    names = OnCallNames(lambda: moment[0])
    assert names.read(source) == ("bob",)
    listed(tmp_path, "carol")
    moment[0] += LASTS - 1
    assert names.read(source) == ("bob",)
    moment[0] += 1
    assert names.read(source) == ("carol",)
    (tmp_path / "on-call").unlink()
    moment[0] += LASTS
    for _ in range(2):
        with pytest.raises(ConfigError, match="No such file"):
            names.read(source)


# The hub


def test_a_hub_tells_whoever_is_on_call(store: Any, ask: Any, tmp_path: Path) -> None:
    known = team(Step("board", 0, (), listed(tmp_path, "bob")))
    ask(authority=known)
    (job,) = Outbox(store, "board", known).due()
    assert [each.id for each in job.audience.people] == ["bob"]
    assert not list(store.events(type="on_call.unknown"))


def test_a_hub_that_can_not_find_out_tells_all_and_says_so_once(store: Any, ask: Any, tmp_path: Path) -> None:
    known = team(Step("board", 0, (), OnCall(file=str(tmp_path / "none"))))
    request = ask(authority=known)
    outbox = Outbox(store, "board", known)
    for _ in range(3):
        (job,) = outbox.due()
        assert {each.id for each in job.audience.people} == {"alice", "bob"}
    (event,) = (entry.event for entry in store.events(type="on_call.unknown"))
    assert (event["request"], event["channel"]) == (request.id, "board")
    assert "No such file" in event["why"]
    assert store.get(request.id).rule.steps[0].on_call == OnCall(file=str(tmp_path / "none"))


def test_whoever_is_not_on_call_may_answer_all_the_same(store: Any, ask: Any, tmp_path: Path) -> None:
    """It says who is told, and never who may decide."""
    from humanlayer_agent.approvals.model import Approver
    from humanlayer_agent.keys.signing import process_signer
    from humanlayer_agent.testing.approvers import answer

    known = team(Step("board", 0, (), listed(tmp_path, "bob")))
    request = ask(authority=known)
    by_alice = answer(request, "approve", approver=Approver(ALICE, "email", "login"))
    assert store.decide(request.id, by_alice, known, process_signer()).state == "approved"
    stranger = Authority((*known.people, Person("mallory", ("email:m@example.com",))), known.routes, known.signers)
    later = ask("make again", authority=known)
    listed(tmp_path, "mallory")
    by_mallory = answer(later, "approve", approver=Approver("email:m@example.com", "email", "login"))
    assert store.decide(later.id, by_mallory, stranger, process_signer()).code == "not-an-approver"
