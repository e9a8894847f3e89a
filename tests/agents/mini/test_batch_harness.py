"""Batch runs of mini-swe-agent: its own command, worker threads, a data file, no network; local and in "docker"."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children

LOCAL = "humanlayer_agent.agents.mini.SupervisedLocalEnvironment"
DOCKER = "humanlayer_agent.agents.docker.SupervisedDockerEnvironment"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat done.txt"
EXAMPLE = Path(__file__).parents[3] / "examples/batch.yaml"

FAKE_DOCKER = """#!{python}
# Runs commands of "containers" here, and writes down what it was asked.
import json, os, subprocess, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if sys.argv[1] == "run":
    print("container-of-" + sys.argv[-3])
elif sys.argv[1] == "exec":
    at = next(n for n, word in enumerate(sys.argv) if word.startswith("container-of-"))
    sys.exit(subprocess.run(["bash", "-c", sys.argv[-1]], cwd={cwd!r}).returncode)
"""


def said(*commands: str) -> list[dict[str, Any]]:
    """What the model says: one tool call in each message."""
    from minisweagent.models.test_models import make_toolcall_output

    made = []
    for n, command in enumerate(commands):
        call = {"name": "bash", "arguments": json.dumps({"command": command})}
        calls = [{"id": f"call_{n}", "type": "function", "function": call}]
        made.append(make_toolcall_output("words", calls, [{"command": command, "tool_call_id": f"call_{n}"}]))
    return made


class Batch:
    """A data file with three instances, a model that says the same to each, and mini's own command."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.project, self.folder, self.out = project, folder, folder / "out"
        data = folder / "data"
        data.mkdir()
        rows = [{"instance_id": f"org__repo-{n}", "problem_statement": f"mend {n}"} for n in range(3)]
        rows[2]["image_name"] = "given/image:1"
        for row in rows:
            row.setdefault("image_name", "")
        (data / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(
        self,
        *commands: str,
        environment_class: str,
        environment: dict[str, Any],
        startup: str = "",
        example: bool = False,
    ) -> None:
        config: dict[str, Any] = {
            "agent": {"system_template": "s", "instance_template": "{{task}}", "cost_limit": 0.0, "step_limit": 20},
            "environment": environment,
            "model": {
                "model_name": "scripted",
                "model_class": "minisweagent.models.test_models.DeterministicToolcallModel",
                "outputs": said(*commands),
            },
        }
        if startup:
            config["run"] = {"env_startup_command": startup}
        (self.folder / "batch.yaml").write_text(yaml.safe_dump(config))
        more = ["-c", EXAMPLE] if example else []
        mini_extra = Path(sys.executable).with_name("mini-extra")
        command = [mini_extra, "swebench", "--subset", self.folder / "data", "--split", "test", "--workers", "2"]
        command += ["-c", self.folder / "batch.yaml", *more, "-o", self.out, "--environment-class", environment_class]
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(self.folder / "hf")}
        done = children.run(
            [sys.executable, *map(str, command)],
            cwd=self.project,
            env={**os.environ, **offline},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # no terminal: nobody can be asked
            imports=children.MINI,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.shown = done.stdout + done.stderr

    def trajectories(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted(self.out.rglob("*.traj.json"))]

    def records(self, trajectory: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = trajectory["info"]["supervision"]["records"]
        return found


@pytest.fixture
def batch(project: Path, tmp_path: Path) -> Batch:
    return Batch(project, tmp_path)


@pytest.mark.long
def test_three_instances_two_workers_local(batch: Batch) -> None:
    startup = "echo {{instance_id}} >> started.txt; curl -s http://127.0.0.1:9/ ; echo done > done.txt"
    commands = ("echo ran >> log.txt", "touch a; hla stop", "curl -s http://127.0.0.1:9/x || touch escaped", SUBMIT)
    batch.run(*commands, environment_class=LOCAL, environment={}, startup=startup)
    saved = batch.trajectories()
    assert len(saved) == 3, batch.shown
    for trajectory in saved:
        assert trajectory["info"]["exit_status"] == "Submitted", batch.shown
        assert trajectory["info"]["submission"] == "done\n"
        records = batch.records(trajectory)
        assert [(r["by"], r["executed"]) for r in records] == [
            ("harness", True),
            ("policy", True),
            ("policy", False),
            ("nobody", False),
            ("policy", True),
        ]
        told = [m for m in trajectory["messages"] if m["role"] == "tool"]
        assert "Not executed" in told[1]["content"]
    assert (batch.project / "log.txt").read_text() == "ran\n" * 3
    assert sorted((batch.project / "started.txt").read_text().split()) == [f"org__repo-{n}" for n in range(3)]
    assert not (batch.project / "a").exists()
    assert not (batch.project / "escaped").exists()
    events = [entry.event for entry in SQLiteStore(os.environ["HUMANLAYER_STORE"]).events()]
    assert sum(e["type"] == "run.started" for e in events) == 3
    assert sum(e["type"] == "exec.started" for e in events) == 6
    startups = [e for e in events if e.get("left_to")]
    assert len(startups) == 3
    assert {e["verdict"] for e in startups} == {"ask"}
    assert not [e for e in events if e["type"] == "request.created" and "started.txt" in str(e)]


def test_an_agent_can_not_pass_for_the_harness(judges: Callable[..., Any], project: Path) -> None:
    """Whoever calls from elsewhere is judged, whatever it says of itself."""
    from humanlayer_agent.agents.mini import SupervisedLocalEnvironment

    env = SupervisedLocalEnvironment(gate=judges().gate)

    def get_sb_environment() -> dict[str, Any]:
        found: dict[str, Any] = env.execute({"command": "touch FORBIDDEN"})
        return found

    assert get_sb_environment()["returncode"] == 126
    forged = {"__name__": "minisweagent.run.benchmarks.swebench", "env": env}
    exec("def helper(): return env.execute({'command': 'touch FORBIDDEN'})", forged)
    assert forged["helper"]()["returncode"] == 126  # type: ignore[operator]
    assert not (project / "FORBIDDEN").exists()


@pytest.fixture
def docker(tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """A `docker` on PATH; returns what it was asked so far."""
    log, folder = tmp_path / "docker.log", tmp_path / "bin"
    folder.mkdir()
    path = folder / "docker"
    path.write_text(FAKE_DOCKER.format(python=sys.executable, log=str(log), cwd=str(project)))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda: [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


@pytest.mark.long
def test_docker_has_the_image_that_mini_works_out(batch: Batch, docker: Callable[[], list[list[str]]]) -> None:
    (batch.project / "done.txt").write_text("done\n")
    commands = ("ls /testbed", "rm -rf /etc", SUBMIT)
    batch.run(*commands, environment_class=DOCKER, environment={"cwd": "/testbed"}, startup="echo set-up", example=True)
    saved = batch.trajectories()
    assert [t["info"]["exit_status"] for t in saved] == ["Submitted"] * 3, batch.shown
    asked = docker()
    images = sorted(argv[-3] for argv in asked if argv[0] == "run")
    assert images == [
        "docker.io/swebench/sweb.eval.x86_64.org_1776_repo-0:latest",
        "docker.io/swebench/sweb.eval.x86_64.org_1776_repo-1:latest",
        "given/image:1",
    ]
    ran = [argv[-1] for argv in asked if argv[0] == "exec"]
    assert sorted(set(ran)) == sorted(["echo set-up", "ls /testbed", SUBMIT])
    assert len(ran) == 9
    assert [r["executed"] for r in batch.records(saved[0])] == [True, True, False, True]
    assert saved[0]["info"]["supervision"]["settings"]["policy"] == "ci"  # as the example says


def test_docker_by_itself(docker: Callable[[], list[list[str]]], judges: Callable[..., Any], project: Path) -> None:
    from humanlayer_agent.agents.docker import SupervisedDockerEnvironment

    made = judges()
    env = SupervisedDockerEnvironment(gate=made.gate, image="python:3.11", cwd="/srv/app")
    assert env.execute({"command": "FORBIDDEN"})["returncode"] == 126
    assert env.execute({"command": "echo inside"})["output"] == "inside\n"
    assert made.director.seen[0].interpreter == ("bash", "-lc")
    assert (made.director.seen[0].cwd, made.director.seen[0].project) == ("/srv/app", "/srv/app")
    assert [argv[0] for argv in docker()] == ["run", "exec"]


def test_docker_does_not_take_files_of_this_machine_for_its_own(
    docker: Callable[[], list[list[str]]], project: Path
) -> None:
    """A script that git has here is the project's code here, and code that nobody has read in a container."""
    from humanlayer_agent.agents.docker import SupervisedDockerEnvironment
    from humanlayer_agent.agents.mini import SupervisedLocalEnvironment

    (project / "tool.sh").write_text("echo tool\n")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=project, check=True)
    assert SupervisedLocalEnvironment().execute({"command": "bash tool.sh"})["output"] == "tool\n"
    inside = SupervisedDockerEnvironment(image="x", cwd=str(project))
    assert inside.execute({"command": "bash tool.sh"})["returncode"] == 126


def test_docker_needs_an_image(docker: Callable[[], list[list[str]]], project: Path) -> None:
    from humanlayer_agent.agents.docker import SupervisedDockerEnvironment
    from humanlayer_agent.errors import ConfigError

    with pytest.raises(ConfigError, match=r"environment\.image"):
        SupervisedDockerEnvironment(cwd="/testbed")
    with pytest.raises(ConfigError, match="supervision"):
        SupervisedDockerEnvironment(image="x", cwd="/testbed", supervison={})
    assert docker() == []


def test_the_earlier_path_of_the_docker_environment_leads_to_it() -> None:
    from humanlayer_agent.agents import docker
    from humanlayer_agent.agents.docker import SupervisedDockerEnvironment

    assert docker.SupervisedDockerEnvironment is SupervisedDockerEnvironment
