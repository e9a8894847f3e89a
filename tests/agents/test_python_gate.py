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

pytestmark = pytest.mark.usefixtures("compiled")


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


@pytest.fixture
def tracked(project: Path) -> Path:
    """A project whose `run.sh` writes itself anew, and whose `fine.sh` and `.venv/bin/python` do nothing like that."""
    files = {"run.sh": "echo before; echo other > new; mv new run.sh\n", "fine.sh": "echo fine > out; echo a\n",
             "some.py": "print('fine')\n"}  # fmt: skip
    for name, text in files.items():
        (project / name).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=project, check=True)
    return project


def test_a_script_that_becomes_another_one_ends_the_run(tracked: Path) -> None:
    """It is the project's own code, and runs; what it was judged by is gone afterwards, and nobody expected that."""
    gate = Gate.from_config(user=No())
    assert gate.run("bash run.sh").output == "before\n"
    with pytest.raises(ActionDenied, match=f"may have run in its place: {tracked}/run.sh"):
        gate.run("echo x")
    (changed,) = events(gate, "exec.changed")
    assert [(file["path"], file["own"]) for file in changed["files"]] == [(f"{tracked}/run.sh", False)]
    assert len(events(gate, "run.stopped")) == 1
    assert gate.store.verify().intact


OWN_CHANGES = [
    "sed -i s/fine/good/ fine.sh && bash fine.sh",
    "chmod +x fine.sh && bash fine.sh",
    "git stash -q; git checkout -q . && chmod 755 fine.sh && bash fine.sh",
    "git rm -q --cached fine.sh; git checkout -q HEAD . && bash fine.sh; chmod 600 fine.sh",
]


def test_the_command_s_own_changes_end_nothing(tracked: Path) -> None:
    gate = Gate.from_config(user=Yes())
    for command in OWN_CHANGES:
        assert gate.run(command, cwd=tracked).returncode == 0
    told = events(gate, "exec.changed")
    assert told
    assert all(file["own"] for event in told for file in event["files"])
    assert events(gate, "run.stopped") == []


def test_ordinary_commands_change_nothing(tracked: Path) -> None:
    (tracked / ".venv/bin").mkdir(parents=True)
    (tracked / ".venv/bin/python").symlink_to("/usr/bin/python3")
    gate = Gate.from_config(user=Yes())
    for command in ("bash fine.sh", "bash ./fine.sh; touch new", "mkdir -p d && cd d && bash ../fine.sh"):
        assert gate.run(command, cwd=tracked).output == "a\n"
    if os.path.exists("/usr/bin/python3"):  # its hash is over its place
        assert gate.run(".venv/bin/python some.py", cwd=tracked).output == "fine\n"
    assert events(gate, "exec.changed") == []


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


@pytest.mark.long
def test_the_public_name_is_imported_when_it_is_used() -> None:
    code = "import sys, humanlayer_agent as h; print('yaml' in sys.modules); h.Gate, h.require_approval"
    code += "; print([m for m in ('minisweagent', 'litellm', 'prompt_toolkit', 'cryptography') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.split("\n")[:2] == ["False", "[]"]
