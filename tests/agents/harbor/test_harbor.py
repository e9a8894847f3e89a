"""Harbor: its own command, on an environment that writes down what reaches it; in a Python of its own (3.12)."""

import json
import os
import pwd
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import children

ROOT = Path(__file__).parents[3]
BIN = ROOT / ".venv-harbor/bin"
PYTHON = BIN / "python"
PROBE = Path(__file__).parent
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
VALIDATE = (
    "import sys; from harbor.models.trajectories import Trajectory; Trajectory.model_validate_json(sys.stdin.read())"
)


@pytest.fixture(autouse=True)
def harbor() -> None:
    if not (BIN / "harbor").exists():
        pytest.skip("there is no .venv-harbor: make test makes it where there is a Python 3.12 (allowed in CI)")


def config(folder: Path, *messages: list[str]) -> Path:
    """mini's configuration with a model that says this."""
    from minisweagent.models.test_models import make_toolcall_output

    outputs = []
    for n, commands in enumerate(messages):
        actions = [{"command": c, "tool_call_id": f"call_{n}_{at}"} for at, c in enumerate(commands)]
        calls = [
            {
                "id": action["tool_call_id"],
                "type": "function",
                "function": {"name": "bash", "arguments": json.dumps({"command": action["command"]})},
            }
            for action in actions
        ]
        outputs.append(make_toolcall_output(f"because {n}", calls, actions))
    model = {"model_class": "minisweagent.models.test_models.DeterministicToolcallModel", "outputs": outputs}
    path = folder / "scripted.yaml"
    path.write_text(yaml.safe_dump({"model": model, "agent": {"cost_limit": 0.0, "mode": "yolo"}}))
    return path


def environ(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    return {**kept, "PROBE": str(folder / "probe"), "PYTHONPATH": str(PROBE), "HARBOR_TELEMETRY": "0"}


def run(*command: Any, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program of Harbor's Python."""
    imports = ("harbor.cli.main", "humanlayer_agent.agents.harbor")
    return children.run([PYTHON, *command], imports=imports, capture_output=True, text=True, **options)


def reached(folder: Path) -> list[str]:
    """The commands that reached the environment."""
    return [json.loads(line) for line in (folder / "probe/exec.log").read_text().splitlines()]


@pytest.mark.long
def test_what_is_denied_does_not_reach_the_environment(tmp_path: Path) -> None:
    task = tmp_path / "task"
    for name in ("environment", "tests"):
        (task / name).mkdir(parents=True)
    (task / "task.toml").write_text(
        'version = "1.0"\n[agent]\ntimeout_sec = 9000.0\n[verifier]\ntimeout_sec = 9000.0\n'
    )
    (task / "instruction.md").write_text("Write two files.")
    (task / "tests/test.sh").write_text("echo 1 > /logs/verifier/reward.txt\n")
    said = config(tmp_path, ["echo one > one", "rm -rf /", "cat one; echo three > three"], [SUBMIT])
    command = ["run", "-p", task, "-a", "humanlayer_agent.agents.harbor:SupervisedMini", "-m", "scripted"]
    command += ["-e", "probe:LocalProbe", "--ak", f"config={said}", "-o", tmp_path / "jobs", "--yes", "-q"]
    done = run(BIN / "harbor", *command, cwd=tmp_path, env=environ(tmp_path), stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    ran = reached(tmp_path)
    assert any("echo one > one" in line for line in ran), done.stdout + done.stderr
    assert any("echo three > three" in line for line in ran)
    assert not any("rm -rf" in line for line in ran)
    (found,) = (tmp_path / "jobs").rglob("agent/trajectory.json")
    checked = run("-c", VALIDATE, input=found.read_text(), env=environ(tmp_path))
    assert checked.returncode == 0, checked.stderr
    step = next(s for s in json.loads(found.read_text())["steps"] if s.get("tool_calls"))
    decided = [call["extra"]["supervision"] for call in step["tool_calls"]]
    assert [d["verdict"] for d in decided] == ["allow", "deny", "allow"]
    assert [d["executed"] for d in decided] == [True, False, True]
    results = step["observation"]["results"]
    assert [r["extra"]["supervision"]["executed"] for r in results] == [True, False, True]
    assert [r["source_call_id"] for r in results] == [c["tool_call_id"] for c in step["tool_calls"]]
    assert "Not executed" in results[1]["content"]
    (result,) = (path for path in (tmp_path / "jobs").rglob("result.json") if "agent_result" in path.read_text())
    about: dict[str, Any] = json.loads(result.read_text())["agent_result"]["metadata"]
    assert about == {"exit_status": "Submitted", "supervision": {"commands": 4, "not_executed": 1}}


@pytest.mark.long
def test_a_late_approval_of_a_trial_that_timed_out_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    channels = {
        "version": 1,
        "people": {"bob": {"os_user": "bob"}, "me": {"os_user": pwd.getpwuid(os.getuid()).pw_name}},
        "channels": {"terminal": {"type": "terminal"}},
        "routes": {"default": {"approvers": ["bob"], "timeout": "10m", "steps": [{"to": "terminal"}]}},
    }
    (tmp_path / "channels.yaml").write_text(yaml.safe_dump(channels))
    said = config(tmp_path, ["curl -s http://127.0.0.1:9/ ; touch LATE"], ["touch LATER"], [SUBMIT])
    command = [PROBE / "late.py", tmp_path / "channels.yaml", said, tmp_path / "logs"]
    done = run(*command, cwd=tmp_path, env=environ(tmp_path), stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"ended": "CancelledError", "late": "late", "state": "withdrawn"}
    assert reached(tmp_path) == ["pwd"]


@pytest.mark.long
def test_settings_that_can_not_be_used_are_errors(tmp_path: Path) -> None:
    source = (
        "import sys; from pathlib import Path; from humanlayer_agent.agents.harbor import SupervisedMini; "
        "SupervisedMini(Path('.'), 'm', supervision={'polcy': 'x'})"
    )
    done = run("-c", source, env=environ(tmp_path))
    assert "supervision.polcy" in done.stderr


def test_the_example_is_a_job_of_harbors(tmp_path: Path) -> None:
    command = [BIN / "harbor", "run", "-c", ROOT / "examples/harbor.yaml", "-p", tmp_path, "--print-config"]
    done = run(*command, cwd=tmp_path, env=environ(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "humanlayer_agent.agents.harbor:SupervisedMini" in done.stdout
