"""`hla grants`: what was approved for more than once, what it has let run, and how it is taken back."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.cli import main
from humanlayer_agent.cli.shared.completion import grant_ids
from humanlayer_agent.cli.shared.records import GrantRecord
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.policy.decision import Ask, PolicyDecision, Verdict
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker
from tests.support import children
from tests.support.records import faults

RUN = [sys.executable, "-m", "humanlayer_agent.cli", "grants"]


class Judge:
    """Asks about the host that a command names."""

    def evaluate(self, action: Action) -> PolicyDecision:
        program, _, host = action.content.partition(" ")
        ask = Ask("network", program, "network", "operand", host)
        return PolicyDecision(Verdict.ASK, "a rule says so", "test", "0" * 64, rules=("network",), asks=(ask,))


class Agent:
    """An agent that asks, and a human who has answered each question by a scope."""

    def __init__(self, *scopes: str) -> None:
        self.store = SQLiteStore(default_store_path())
        script = [("grant", scope) if scope else "approve" for scope in scopes]
        self.gate = Gate(Judge(), self.store, ScriptedAsker(script), agent="builder")

    def does(self, command: str) -> bool:
        """Tell whether it may: by a grant, or because the human says so, who has nothing more to say in the end."""
        return isinstance(self.gate.check(Action(command, cwd="/srv/app", project="/srv/app")), Permit)

    def close(self) -> None:
        self.gate.close()
        self.store.close()


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Agent]:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    made = Agent("run", "action")
    assert made.does("make a")
    assert made.does("make b\x1b[2J")
    assert made.does("make a")
    yield made
    made.close()


@pytest.fixture
def human(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is not below the agent, which the tests run in the same one."""
    monkeypatch.setattr("humanlayer_agent.cli.shared.human_terminal.supervisors", lambda store=None: [])


def ids(agent: Agent) -> list[str]:
    return [grant.id for grant in agent.store.grants.given()]


def test_ls_has_what_holds(agent: Agent, human: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grants", "ls"]) == 0
    shown = capsys.readouterr().out
    first, second = ids(agent)
    for text in (
        first[:12],
        second[:12],
        "active",
        "1 of 50",
        "0 of 50",
        "make contacting a",
        "agent builder",
    ):
        assert text in shown
    assert "\x1b" not in shown
    agent.store.grants.revoke(first, "os:1")
    assert main(["grants", "ls"]) == 0
    said = capsys.readouterr()
    assert first[:12] not in said.out
    assert "1 more is over (--all shows them)" in said.err
    assert main(["grants", "ls", "--all"]) == 0
    shown = capsys.readouterr().out
    assert shown.index(second[:12]) < shown.index(first[:12])  # what holds comes first
    assert "revoked" in shown


def test_what_no_key_proves_does_not_hold(
    tmp_path: Path, human: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The process that signed it is gone, and so is its key: it covers nothing."""
    monkeypatch.chdir(tmp_path)
    made = Agent("hour")
    assert made.does("make a")
    assert main(["grants", "ls", "--format", "json"]) == 0
    (grant,) = json.loads(capsys.readouterr().out)
    assert grant["state"] == "active"
    made.close()
    assert main(["grants", "ls"]) == 0
    assert "1 more is over" in capsys.readouterr().err
    assert main(["grants", "show", grant["id"]]) == 0
    assert "unproved" in capsys.readouterr().out


def test_without_any_it_says_so(
    tmp_path: Path, human: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    SQLiteStore(default_store_path()).close()
    assert main(["grants", "ls"]) == 0
    assert capsys.readouterr().out == "Nothing was ever approved for more than once.\n"


def test_its_records(agent: Agent, human: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grants", "ls", "--format", "jsonl"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [faults(each, GrantRecord) for each in found] == [[], []]
    first = found[0]
    assert (first["id"], first["state"], first["uses"], first["max_uses"]) == (ids(agent)[0], "active", 1, 50)
    assert [(each["use"], each["command"]) for each in first["used"]] == [(1, "make a")]
    assert main(["grants", "show", first["id"][:8], "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_show_has_every_use(agent: Agent, human: None, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = ids(agent)
    assert main(["grants", "show", first[:8]]) == 0
    shown = capsys.readouterr().out
    for text in (first, "make contacting a", "1 of 50", "It was given with this approval:", "  1 │ make a"):
        assert text in shown
    assert "It has let through:" in shown
    assert agent.gate.run_id[:8] in shown
    assert main(["grants", "show", second]) == 0
    assert "It has let nothing through yet." in capsys.readouterr().out


def test_requests_ls_has_a_line(agent: Agent, human: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requests", "ls"]) == 0
    said = "2 grants hold: 1 of 100 uses are made, each without a question (hla grants ls)"
    assert said in capsys.readouterr().out.splitlines()


def test_when_the_run_has_ended_it_does_not_hold(agent: Agent, human: None, capsys: pytest.CaptureFixture[str]) -> None:
    agent.gate.close()
    assert main(["grants", "ls"]) == 0
    assert "No grant holds now." in capsys.readouterr().out
    assert main(["grants", "ls", "--all"]) == 0
    assert capsys.readouterr().out.count("run ended") == 2


def test_completion_has_those_that_hold(agent: Agent, human: None) -> None:
    first, second = ids(agent)
    agent.store.grants.revoke(second, "os:1")
    assert grant_ids("") == [(first[:12], "make contacting a")]


def at_terminal(*arguments: str, **environ: str) -> tuple[int, str]:
    env = {**os.environ, "LC_ALL": "C.UTF-8", **environ}
    child: Any = children.spawn(RUN[0], [*RUN[1:], *arguments], env=env, timeout=600, encoding="utf-8")
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, child.before


@pytest.mark.parametrize("everything", [True, False])
def test_revoke(elsewhere: None, agent: Agent, everything: bool) -> None:
    first, second = ids(agent)
    code, shown = at_terminal("revoke", *(["--all"] if everything else [first[:8]]), "--reason", "done\x1b[2J")
    assert code == 0, shown
    assert f"revoked: {first[:12]}  make contacting a, in this run (50 uses)" in shown
    assert (f"revoked: {second[:12]}" in shown) == everything
    assert not agent.does("make a")
    (event, *_) = [entry.event for entry in agent.store.events(type="grant.revoked")]
    assert (event["grant"], event["reason"]) == (first, r"done\x1b[2J")
    code, shown = at_terminal("revoke", first)
    assert (code, "it was revoked before" in shown) == (1, True)


def test_nobody_below_a_supervised_command_revokes(agent: Agent) -> None:
    for environ in ({SUPERVISED: "1"}, {}):  # the marker; and a child of the agent's own process
        code, shown = at_terminal("revoke", "--all", **environ)
        assert (code, "only a human at a terminal of their own" in shown) == (2, True)
    assert agent.does("make a")
    assert "grants revoke" in {entry.event["command"] for entry in agent.store.events(type="wall.refused")}


def test_no_terminal_is_nobody(elsewhere: None, agent: Agent) -> None:
    done = children.run(
        [*RUN, "revoke", "--all"], capture_output=True, text=True, start_new_session=True, env={**os.environ}
    )
    assert done.returncode == 3
    assert "NOT revoked: only a human at a terminal does that" in done.stderr
    assert agent.does("make a")
