"""A Gate for any Python code: made from the user's settings, judging, asking, running and recording for real."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent import ActionDenied, Gate
from humanlayer_agent.approvals import gate as core
from humanlayer_agent.errors import PolicyError
from tests.support.time_outs import met


class Human:
    """Answers every question with one of the options, by its place."""

    def __init__(self, place: int = -1) -> None:
        self.place = place
        self.asked: list[str] = []

    def query(self, prompt: str, *, options: list[str]) -> str:
        self.asked.append(prompt)
        return options[self.place]


def approving(options: list[str]) -> str:
    return next(option for option in options if option.lower().startswith(("y", "a")))


class Yes(Human):
    def query(self, prompt: str, *, options: list[str]) -> str:
        self.asked.append(prompt)
        return approving(options)


class No(Human):
    def query(self, prompt: str, *, options: list[str]) -> str:
        self.asked.append(prompt)
        return next(option for option in options if option != approving(options))


def events(gate: Gate, kind: str) -> list[dict[str, Any]]:
    return [entry.event for entry in gate.store.events(type=kind)]


def test_what_the_policy_allows_runs(project: Path) -> None:
    (project / "build").mkdir()
    with Gate.from_config(user=No()) as gate:
        done = gate.run("rm -r build && echo done $HUMANLAYER_SUPERVISED", cwd=project)
    assert (done.returncode, done.output) == (0, "done 1\n")
    assert not (project / "build").exists()
    assert [event["state"] for event in events(gate, "run.finished")] == ["finished"]
    assert [event["returncode"] for event in events(gate, "exec.finished")] == [0]


def test_what_a_human_approves_runs(project: Path) -> None:
    human = Yes()
    gate = Gate.from_config(user=human)
    assert gate.run("kill -0 $PPID && echo alive").output == "alive\n"
    assert len(human.asked) == 1
    assert len(events(gate, "vote.recorded")) == 1


def test_what_a_human_refuses_does_not_run(project: Path) -> None:
    gate = Gate.from_config(user=No())
    with pytest.raises(ActionDenied) as denied:
        gate.run("mkdir x; kill -0 $PPID")
    assert denied.value.denial.by == "human"  # type: ignore[attr-defined]
    assert list(project.iterdir()) == []
    assert events(gate, "exec") == []


def test_what_the_policy_denies_is_not_asked(project: Path) -> None:
    human = Yes()
    gate = Gate.from_config(user=human)
    with pytest.raises(ActionDenied, match="Would destroy"):
        gate.run("rm -rf /")
    assert human.asked == []


def test_five_denials_in_a_row_end_the_run(project: Path) -> None:
    gate = Gate.from_config(user=No())
    for number in range(4):
        with pytest.raises(ActionDenied):
            gate.run(f"rm -rf / {number}")
    assert gate.run("echo x").returncode == 0  # the count begins anew
    denials: list[Any] = []
    for number in range(5):
        with pytest.raises(ActionDenied) as denied:
            gate.run(f"rm -rf / {number}")
        denials.append(denied.value.denial)
    assert [(denial.terminate, denial.in_a_row) for denial in denials] == [(False, 0)] * 4 + [(True, 5)]
    with pytest.raises(ActionDenied, match="the run was stopped after 5 denials in a row"):
        gate.run("echo x")
    (stopped,) = events(gate, "run.stopped")
    assert "5 denials in a row" in stopped["why"]


def test_any_number_of_denials(project: Path) -> None:
    gate = Gate.from_config(user=No(), max_denials=0)
    for number in range(8):
        with pytest.raises(ActionDenied, match="Would destroy"):
            gate.run(f"rm -rf / {number}")
    assert gate.run("echo x").returncode == 0


def test_the_environment_is_listed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-secret")
    done = Gate.from_config(user=Yes()).run("env", env={"MINE": "1"})
    assert "MINE=1" in done.output
    assert "sk-secret" not in done.output


def test_a_time_out_is_recorded(project: Path) -> None:
    gate = Gate.from_config(user=No())
    done = met(lambda seconds: gate.run("echo begun; sleep 600", timeout=seconds), lambda done: done.output)
    assert (done.timed_out, done.output) == (True, "begun\n")
    assert events(gate, "exec.finished")[-1]["detail"] == "timed out"


def test_a_command_that_ends_its_watcher_ends_the_run(project: Path) -> None:
    gate = Gate.from_config(user=Yes())
    done = gate.run("kill -9 $PPID; sleep 60")
    assert (done.unwatched, done.returncode) == (True, None)
    with pytest.raises(ActionDenied, match="a command ended what watches over it"):
        gate.run("echo x")
    assert len(events(gate, "run.stopped")) == 1


def test_a_directory_that_is_not_there(project: Path) -> None:
    gate = Gate.from_config(user=Yes())
    with pytest.raises(OSError, match="No such file"):
        gate.run("echo x", cwd=project / "gone")
    assert "returncode" not in events(gate, "exec.finished")[0]


def test_settings_are_those_of_build_gate(project: Path) -> None:
    (project / "p.yaml").write_text("version: 2")
    with pytest.raises(PolicyError, match=r"p\.yaml:1:10"):
        Gate.from_config(policy=project / "p.yaml")
    gate = Gate.from_config(policy="strict", agent="mine", project=project, store=project.parent / "s.sqlite3")
    assert isinstance(gate, core.Gate)
    assert (gate.agent, gate.director.name) == ("mine", "strict")  # type: ignore[attr-defined]


def test_the_public_name_is_imported_when_it_is_used() -> None:
    code = "import sys, humanlayer_agent as h; print('yaml' in sys.modules); h.Gate, h.require_approval"
    code += "; print([m for m in ('minisweagent', 'litellm', 'prompt_toolkit', 'cryptography') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.split("\n")[:2] == ["False", "[]"]
