"""`hla run`, and mini's own command line with our classes."""

import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
import yaml

from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support import children
from tests.support.openai_server import OpenAIServer

HLA = [sys.executable, "-c", "import sys; from humanlayer_agent.cli import main; sys.exit(main())"]
MINI = [sys.executable, "-m", "minisweagent.run.mini"]
MODELS = ("litellm",)
"""What a model is called with: importing it takes longer than all else that a run does."""
SLOW = -1
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def home() -> Iterator[Path]:
    """Not below a folder for temporary files: there the policy would allow too much."""
    with tempfile.TemporaryDirectory(prefix="hla-test-", dir=pwd.getpwuid(os.getuid()).pw_dir) as directory:
        yield Path(directory)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    return directory


@pytest.fixture
def environment(home: Path, mini_folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "HUMANLAYER_CONFINE": "false",
        "LANG": "C.UTF-8",
        "COLUMNS": "150",
        "MSWEA_CONFIGURED": "true",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_GLOBAL_CONFIG_DIR": str(mini_folder),
        "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it asks the network when it is imported
    }


@pytest.fixture
def run(environment: dict[str, str], project: Path) -> Run:
    """Runs a program in the project, with no terminal."""

    def program(*argv: str, imports: tuple[str, ...] = (), **variables: str) -> "subprocess.CompletedProcess[str]":
        return children.run(
            argv, env={**environment, **variables}, cwd=project, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, timeout=600, start_new_session=True, imports=imports,
        )  # fmt: skip

    return program


@pytest.fixture
def scripted(tmp_path: Path) -> Callable[..., str]:
    """Writes a config file with a scripted model: one list of commands for each message."""

    def write(*messages: list[str]) -> str:
        outputs = []
        for number, commands in enumerate(messages):
            actions = [{"command": c, "tool_call_id": f"call_{number}_{i}"} for i, c in enumerate(commands)]
            calls = [
                {
                    "id": a["tool_call_id"],
                    "type": "function",
                    "function": {"name": "bash", "arguments": json.dumps({"command": a["command"]})},
                }
                for a in actions
            ]
            extra = {"actions": actions, "cost": 0.0}
            outputs.append({"role": "assistant", "content": "words", "tool_calls": calls, "extra": extra})
        model = {"model_class": "minisweagent.models.test_models.DeterministicToolcallModel", "model_name": "scripted"}
        path = tmp_path / "model.yaml"
        path.write_text(yaml.safe_dump({"model": {**model, "outputs": outputs}}))
        return str(path)

    return write


class Refusing(OpenAIServer):
    """Answers as it is scripted; what has no commands is refused with `status`, and where that is SLOW, it waits."""

    def __init__(self, status: int, script: list[list[str]] | None = None) -> None:
        super().__init__(script or [[]])
        self.status, self.go_on = status, threading.Event()

    def answer(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, reply = super().answer(body)
        if reply["choices"][0]["message"]["tool_calls"]:
            return status, reply
        if self.status == SLOW:
            self.go_on.wait()
            return status, reply
        return self.status, {"error": {"message": "Wrong it is", "type": "wrong", "code": "wrong"}}


def unheard() -> str:
    """The address of a server that has gone."""
    with OpenAIServer([]) as server:
        return server.url


def records(path: Path) -> list[tuple[str, str, bool]]:
    info = json.loads(path.read_text())["info"]["supervision"]
    return [(r["command"].split()[0], r["verdict"], r["executed"]) for r in info["records"]]


class TestRun:
    @pytest.mark.long
    def test_any_litellm_model(self, run: Run, project: Path, tmp_path: Path) -> None:
        script = [["touch mine", "rm -rf /srv/hla-nowhere", "ls"], ["env"], [SUBMIT]]
        trajectory = tmp_path / "out.traj.json"
        with OpenAIServer(script) as server:
            done = run(
                *HLA, "run", "-m", "openai/test", "-t", "do it", "-o", str(trajectory),
                "-c", f"model.model_kwargs.api_base={server.url}", "-c", "model.cost_tracking=ignore_errors",
                OPENAI_API_KEY="sk-very-secret", imports=MODELS,
            )  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
            assert server.refused == []
            assert "Not executed" in str(server.requests[1])
            assert "sk-very-secret" not in str(server.requests)
        assert "The run ended Submitted" in done.stdout
        assert "hla audit query --run" in done.stdout
        assert (project / "mine").exists()
        assert records(trajectory)[:3] == [("touch", "allow", True), ("rm", "ask", False), ("ls", "allow", True)]

    @pytest.mark.long
    @pytest.mark.parametrize(
        ("status", "said"),
        [
            (0, "connection refused); start what should, or correct model.model_kwargs.api_base"),
            (401, "the key in $OPENAI_API_KEY is refused (401: Wrong it is)"),
            (404, "the endpoint knows no such model (404: Wrong it is)"),
        ],
    )
    def test_the_model_can_not_be_asked(self, run: Run, tmp_path: Path, status: int, said: str) -> None:
        """It is said at once: mini would try for minutes."""
        with Refusing(status) as server:
            url = server.url if status else unheard()
            done = run(
                *HLA, "run", "-m", "openai/test", "-t", "x", "-o", str(tmp_path / "t.json"),
                "-c", f"model.model_kwargs.api_base={url}", "-c", "model.cost_tracking=ignore_errors",
                OPENAI_API_KEY="sk-x", MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT="1000", imports=MODELS,
            )  # fmt: skip
            assert len(server.requests) == bool(status)
        assert done.returncode == 2, done.stdout + done.stderr
        assert said in done.stderr.splitlines()[-1]
        assert done.stdout == ""
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(
        ("model", "said"),
        [
            ("openai/test", "openai/test: there is no key, as $OPENAI_API_KEY is not set"),
            pytest.param("opena/test", "no provider opena; did you mean openai?", marks=pytest.mark.long),
            pytest.param("nonsense", "write PROVIDER/MODEL", marks=pytest.mark.long),
        ],
    )
    def test_no_key_and_no_provider(self, run: Run, tmp_path: Path, model: str, said: str) -> None:
        path = tmp_path / "t.json"
        done = run(*HLA, "run", "-m", model, "-t", "x", "-o", str(path), imports=MODELS)
        assert done.returncode == 2, done.stdout + done.stderr
        assert said in done.stderr.splitlines()[-1]
        assert done.stdout == ""
        assert not path.exists()

    @pytest.mark.long
    def test_a_run_that_ends_in_an_error_says_it_last(self, run: Run, tmp_path: Path) -> None:
        with Refusing(500, [["echo one"], []]) as server:
            done = run(
                *HLA, "run", "-m", "openai/test", "-t", "x", "-o", str(tmp_path / "t.json"),
                "-c", f"model.model_kwargs.api_base={server.url}", "-c", "model.cost_tracking=ignore_errors",
                OPENAI_API_KEY="sk-x", imports=MODELS,
            )  # fmt: skip
        assert done.returncode == 1, done.stdout + done.stderr
        assert "The run ended InternalServerError: 1 commands" in done.stdout
        assert "Wrong it is" in done.stdout.splitlines()[-1]
        assert (tmp_path / "t.json").exists()

    @pytest.mark.long
    @pytest.mark.parametrize("status", [503, pytest.param(SLOW, marks=pytest.mark.long)])
    def test_ctrl_c_ends_a_retry_and_a_request(
        self, environment: dict[str, str], project: Path, tmp_path: Path, status: int
    ) -> None:
        said = tmp_path / "stderr"
        with Refusing(status) as server, said.open("w") as stderr:
            process = children.Popen(
                [*HLA, "run", "-m", "openai/test", "-t", "x", "-o", str(tmp_path / "t.json"),
                 "-c", f"model.model_kwargs.api_base={server.url}"],
                env={**environment, "OPENAI_API_KEY": "sk-x", "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "1000"},
                cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True,
                imports=MODELS,
            )  # fmt: skip
            until(lambda: server.requests if status == SLOW else "Retrying" in said.read_text(), "a request")
            process.send_signal(signal.SIGINT)
            output = process.communicate(timeout=PATIENCE)[0]
            server.go_on.set()
        assert process.returncode == 130
        assert "The run ended Interrupted: 0 commands" in output

    def test_nobody_to_ask_until_it_gives_up(self, run: Run, scripted: Any, tmp_path: Path) -> None:
        config = scripted(*([f"rm -rf /srv/hla-nowhere{n}"] for n in range(9)), [SUBMIT])
        done = run(*HLA, "run", "-t", "x", "-c", config, "-o", str(tmp_path / "t.json"))
        assert done.returncode == 3, done.stdout + done.stderr
        assert "The run ended SupervisionDenials: 5 commands" in done.stdout

    def test_ctrl_c_ends_the_command_and_the_run(
        self, environment: dict[str, str], scripted: Any, project: Path, tmp_path: Path
    ) -> None:
        config = scripted(["echo $$ > pid; sleep 600"], [SUBMIT])
        argv = [*HLA, "run", "-t", "x", "-c", config, "-c", "environment.timeout=600", "-o", str(tmp_path / "t.json")]
        process = children.Popen(
            argv, env=environment, cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        pid = project / "pid"
        deadline = time.monotonic() + 600
        while not (pid.exists() and pid.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=600)[0]
        assert process.returncode == 130
        assert "The run ended Interrupted: 1 commands" in output
        assert "hla audit query --run" in output
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid.read_text()), 0)

    def test_limits_end_it_with_1(self, run: Run, scripted: Any, tmp_path: Path) -> None:
        config = scripted(["ls"], ["ls"], [SUBMIT])
        done = run(*HLA, "run", "-t", "x", "-c", config, "-c", "agent.step_limit=1", "-o", str(tmp_path / "t.json"))
        assert done.returncode == 1
        assert "The run ended LimitsExceeded" in done.stdout

    def test_project_and_policy(self, run: Run, scripted: Any, project: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir()
        config = scripted([f"cat {project}/file"], [f"cat {other}/file"], [SUBMIT])
        path = tmp_path / "t.json"
        done = run(*HLA, "run", "-t", "x", "-c", config, "-o", str(path), "--project", str(other), "--policy", "strict")
        assert done.returncode == 0, done.stdout + done.stderr
        info = json.loads(path.read_text())["info"]["supervision"]
        assert info["project"] == str(other)
        assert info["settings"]["policy"] == "strict"

    @pytest.mark.sample(6)
    @pytest.mark.parametrize(
        ("arguments", "complaint"),
        [
            ([], "no model was named"),
            (["--policy", "nonsense"], "nonsense"),
            (["-c", "agent.supervision.polcy=x"], "supervision.polcy: no such setting; did you mean policy?"),
            (["-c", "agent.supervison.policy=strict"], "supervison: no such setting; did you mean supervision?"),
            (["-c", "no-such-file.yaml"], "no-such-file.yaml"),
            (["-c", "environment.timeout=soon"], "timeout"),
            (["-c", "environment.environment_class=nonsense"], "nonsense"),
            (["-c", "agent=5"], "agent: a section with settings was expected"),
            (["--project", "/"], "can't be the project"),
        ],
    )
    def test_mistakes(self, run: Run, arguments: list[str], complaint: str) -> None:
        done = run(*HLA, "run", "-t", "x", *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert complaint in done.stderr
        assert "Traceback" not in done.stderr

    def test_help_fits_a_screen_and_has_an_example(self, run: Run) -> None:
        done = run(*HLA, "run", "--help", COLUMNS="80")
        assert done.returncode == 0
        assert "Example:\n  hla run -m" in done.stdout
        assert len(done.stdout.splitlines()) < 40


class TestMini:
    """`mini`, mini-swe-agent's own program."""

    def test_agent_class(self, run: Run, scripted: Any, project: Path, tmp_path: Path) -> None:
        config = scripted(["touch mine", "rm -rf /srv/hla-nowhere", "ls"], [SUBMIT])
        path = tmp_path / "t.json"
        done = run(
            *MINI, "--agent-class", "humanlayer_agent.agents.mini.SupervisedAgent", "-t", "x", "-o", str(path),
            "-c", "mini.yaml", "-c", config, "-c", "agent.supervision.policy=strict",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "● " not in done.stdout  # no terminal
        assert "The run ended" not in done.stdout
        saved = json.loads(path.read_text())
        assert saved["info"]["exit_status"] == "Submitted"
        assert saved["info"]["config"]["agent"]["supervision"]["policy"] == "strict"
        assert [r[2] for r in records(path)][1] is False
        assert [m["tool_call_id"] for m in saved["messages"] if m["role"] == "tool"] == [
            "call_0_0",
            "call_0_1",
            "call_0_2",
        ]

    @pytest.mark.long
    def test_a_terminal_shows_what_hla_run_shows(
        self, environment: dict[str, str], scripted: Any, project: Path, tmp_path: Path
    ) -> None:
        config = scripted(["echo one > mine; cat mine", "rm -rf /srv/hla-nowhere"], [SUBMIT])
        arguments = ["--agent-class", "humanlayer_agent.agents.mini.SupervisedAgent", "-t", "x"]
        arguments += ["-o", str(tmp_path / "t.json"), "-c", "mini.yaml", "-c", config]
        child = children.spawn(
            MINI[0], [*MINI[1:], *arguments, "-c", "agent.supervision.timeout=1"], cwd=str(project),
            env={**environment, "TERM": "dumb"}, timeout=PATIENCE, encoding="utf-8", dimensions=(50, 150),
        )  # fmt: skip
        child.expect(pexpect.EOF)
        child.close()
        shown = child.before
        assert child.exitstatus == 0, shown
        assert shown.count("● words") == 2
        assert shown.count("$ echo one > mine; cat mine") == 1
        assert shown.count("What the agent wanted, and what became of it") == 1
        assert "The run ended Submitted: 3 commands, 2 ran, 1 did not; 1 needed a human." in shown

    @pytest.mark.long
    @pytest.mark.parametrize(
        "kind", ["SupervisedAgent", pytest.param("SupervisedInteractiveAgent", marks=pytest.mark.long)]
    )
    def test_a_model_that_can_not_be_asked(self, run: Run, tmp_path: Path, kind: str) -> None:
        with Refusing(401) as server:
            done = run(
                *MINI, "--agent-class", f"humanlayer_agent.agents.mini.{kind}", "-t", "x", "-y", "--exit-immediately",
                "-o", str(tmp_path / "t.json"), "-m", "openai/test", "-c", "mini.yaml",
                "-c", f"model.model_kwargs.api_base={server.url}", OPENAI_API_KEY="sk-x", imports=MODELS,
            )  # fmt: skip
        assert done.returncode == 2, done.stdout + done.stderr
        assert "the key in $OPENAI_API_KEY is refused" in done.stderr
        assert "Traceback" not in done.stderr

    def test_interactive_agent_class(self, run: Run, scripted: Any, tmp_path: Path) -> None:
        config = scripted(["rm -rf /srv/hla-nowhere"], [SUBMIT])
        path = tmp_path / "t.json"
        done = run(
            *MINI, "--agent-class", "humanlayer_agent.agents.mini.SupervisedInteractiveAgent", "-y",
            "--exit-immediately", "-t", "x", "-o", str(path), "-c", "mini.yaml", "-c", config,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert "supervision asks, about what the policy does not allow" in done.stdout
        assert records(path) == [("rm", "ask", False), ("echo", "allow", True)]

    def test_environment_class(self, run: Run, scripted: Any, tmp_path: Path) -> None:
        config = scripted(["rm -rf /srv/hla-nowhere"], [SUBMIT])
        path = tmp_path / "t.json"
        done = run(
            *MINI, "--environment-class", "humanlayer_agent.agents.mini.SupervisedLocalEnvironment", "-y",
            "--exit-immediately", "-t", "x", "-o", str(path), "-c", "mini.yaml", "-c", config,
            "-c", "environment.supervision.policy=strict",
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        assert records(path)[0] == ("rm", "ask", False)

    def test_a_mistake_in_our_settings_is_named(self, run: Run, scripted: Any) -> None:
        done = run(
            *MINI, "--agent-class", "humanlayer_agent.agents.mini.SupervisedAgent", "-t", "x",
            "-c", "mini.yaml", "-c", scripted([SUBMIT]), "-c", "agent.supervision.polcy=strict",
        )  # fmt: skip
        assert done.returncode != 0
        assert "supervision.polcy: no such setting; did you mean policy?" in done.stderr + done.stdout
