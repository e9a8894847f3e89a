"""mini-swe-agent 1.17, supervised. Run by the pytest of an environment that has it: see test_mini_v1.py."""

import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel

from humanlayer_agent.agents.mini_v1 import (
    ActionDenied,
    SupervisedAgent,
    SupervisedEnvironment,
    SupervisedInteractiveAgent,
    SupervisedLocalEnvironment,
    SupervisedTextualAgent,
)
from humanlayer_agent.agents.supervision import Supervision
from humanlayer_agent.errors import ConfigError
from tests.support.time_outs import met

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
CLASSES = {"default": SupervisedAgent, "interactive": SupervisedInteractiveAgent, "textual": SupervisedTextualAgent}


# The full-screen agent draws its screen as long as it runs, which is most of what these tests take.
@pytest.fixture(params=["default", "interactive", pytest.param("textual", marks=pytest.mark.long)])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    from textual.app import App

    monkeypatch.setattr(App, "run", functools.partialmethod(App.run, headless=True))
    return str(request.param)


every_kind = pytest.mark.parametrize("kind", CLASSES, indirect=True)
"""For what tells whether a class supervises at all: in `make test` as well."""


def said(*commands: str) -> list[str]:
    return [f"because of {n}\n```bash\n{command}\n```" for n, command in enumerate(commands)]


class Model(DeterministicModel):  # type: ignore[misc]
    """Waits until the full-screen display is there: mini's agent hangs where it ends before."""

    agent: Any = None

    def query(self, messages: list[dict[str, str]], **kwargs: Any) -> dict[str, Any]:
        while getattr(self.agent, "agent_state", "RUNNING") != "RUNNING":
            time.sleep(0.005)
        answer: dict[str, Any] = super().query(messages, **kwargs)
        return answer


def agent_of(kind: str, outputs: list[str], env: Any = None, **config: Any) -> Any:
    if kind != "default":
        config = {"confirm_exit": False, "mode": "yolo", **config}
    config.setdefault("cost_limit", 0.0)
    model = Model(outputs=outputs)
    model.agent = CLASSES[kind](model, env or LocalEnvironment(timeout=600), **config)
    return model.agent


def heard(agent: Any) -> list[str]:
    """What the model was told after each of its messages."""
    return [message["content"] for message in agent.messages[2:] if message["role"] == "user"]


@every_kind
def test_what_is_allowed_runs(kind: str, judges: Callable[..., Any], project: Path) -> None:
    made = judges()
    agent = agent_of(kind, said("echo one > a; echo two", f"{SUBMIT}; cat a"), gate=made.gate)
    assert agent.run("task") == ("Submitted", "one\n")
    assert "two" in heard(agent)[0]
    (action, _) = made.director.seen[:2]
    assert (action.content, action.cwd) == ("echo one > a; echo two", str(project))
    assert action.model_intent.startswith("because of 0")
    assert action.interpreter[0] == "bash"
    assert [e["returncode"] for e in made.events("exec.finished")] == [0, 0]


@pytest.mark.parametrize("early", [True, False])
def test_what_was_judged_is_what_runs(
    early: bool, judges: Callable[..., Any], project: Path, swapped: Callable[..., str]
) -> None:
    made = judges()
    command = swapped(made, early)
    agent = agent_of("default", said(command, SUBMIT), gate=made.gate)
    status, text = agent.run("task")
    (changed,) = made.events("exec.changed")
    if early:
        assert status == "Submitted"
        assert not (project / "ran").exists()
        assert "run.sh: no longer what was judged" in heard(agent)[0]
        assert changed["refused"]
    else:
        assert status == "SupervisionTerminated"
        assert f"in its place: {project}/run.sh" in text
        assert "run.sh" in made.events("run.stopped")[0]["why"]


@every_kind
def test_what_is_denied_does_not_run_and_the_run_goes_on(kind: str, judges: Callable[..., Any], project: Path) -> None:
    made = judges()
    agent = agent_of(kind, said("touch FORBIDDEN", "echo other", SUBMIT), gate=made.gate)
    assert agent.run("task")[0] == "Submitted"
    assert not (project / "FORBIDDEN").exists()
    first, second, _ = heard(agent)
    assert "no-forbidden" in first
    assert "say it otherwise" in first
    assert "other" in second
    assert [m["role"] for m in agent.messages] == ["system", "user", *["assistant", "user"] * 3]
    assert [r["executed"] for r in agent.env.records()] == [False, True, True]
    assert len(made.events("exec.started")) == 2


def test_a_human_is_asked(kind: str, judges: Callable[..., Any], project: Path) -> None:
    made = judges("approve", "reject not today")
    agent = agent_of(kind, said("touch QUESTION1", "touch QUESTION2", SUBMIT), gate=made.gate)
    assert agent.run("task")[0] == "Submitted"
    assert (project / "QUESTION1").exists()
    assert not (project / "QUESTION2").exists()
    assert "not today" in heard(agent)[1]


def test_a_human_changes_the_command(kind: str, judges: Callable[..., Any], project: Path) -> None:
    made = judges("edit echo changed # better so")
    agent = agent_of(kind, said("touch QUESTION", SUBMIT), gate=made.gate)
    assert agent.run("task")[0] == "Submitted"
    assert not (project / "QUESTION").exists()
    assert "changed" in heard(agent)[0]
    assert "better so" in heard(agent)[0]


def test_an_edit_adds_nothing_to_what_is_submitted(kind: str, judges: Callable[..., Any], project: Path) -> None:
    made = judges(f"edit {SUBMIT}; echo result")
    agent = agent_of(kind, said("touch QUESTION"), gate=made.gate)
    assert agent.run("task") == ("Submitted", "result\n")


@every_kind
def test_a_human_ends_the_run(kind: str, judges: Callable[..., Any], project: Path) -> None:
    made = judges("terminate")
    agent = agent_of(kind, said("touch QUESTION", "touch after"), gate=made.gate)
    status, result = agent.run("task")
    assert status == "SupervisionTerminated"
    assert result == heard(agent)[-1]
    assert list(project.iterdir()) == []


def test_too_many_denials_end_the_run(kind: str, judges: Callable[..., Any], project: Path) -> None:
    made = judges()
    commands = [f"touch FORBIDDEN{n}" for n in range(9)]
    agent = agent_of(kind, said(*commands), gate=made.gate, supervision={"max_denials": 3})
    assert agent.run("task")[0] == "SupervisionDenials"
    assert len(agent.env.records()) <= 5


def test_a_time_out_has_the_output_so_far(kind: str, judges: Callable[..., Any], project: Path) -> None:
    made = judges()

    def run(seconds: int) -> Any:
        env = LocalEnvironment(timeout=seconds)
        agent = agent_of(kind, said("echo partial; sleep 600; touch late", SUBMIT), env, gate=made.gate)
        assert agent.run("task")[0] == "Submitted"
        return agent

    agent = met(run, lambda agent: "partial" in heard(agent)[0])
    assert "timed out" in heard(agent)[0]
    assert "partial" in heard(agent)[0]
    assert not (project / "late").exists()
    assert "TimeoutExpired" in made.events("exec.finished")[0]["detail"]


def test_minis_own_errors_and_limits_stay(judges: Callable[..., Any], project: Path) -> None:
    made = judges()
    agent = agent_of("default", ["no command", *said("echo x")], gate=made.gate, step_limit=2)
    assert agent.run("task")[0] == "LimitsExceeded"
    assert "EXACTLY ONE" in heard(agent)[0]
    assert len(made.director.seen) == 1


def test_a_failed_submission_is_none(kind: str, judges: Callable[..., Any], project: Path) -> None:
    agent = agent_of(kind, said(f"{SUBMIT}; false", SUBMIT), gate=judges().gate)
    assert agent.run("task") == ("Submitted", "")
    assert len(agent.env.records()) == 2


def test_commands_get_bash_no_secrets_and_no_input(
    kind: str, judges: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("WANTED", "yes")
    env = LocalEnvironment(env={"OWN": "own"})
    command = 'echo "[${OPENAI_API_KEY-}][$WANTED][$OWN]${BASH_VERSION:+bash}"; cat'
    agent = agent_of(kind, said(command, SUBMIT), env, gate=judges().gate, supervision={"pass_env": ["WANTED"]})
    agent.run("task")
    assert "[][yes][own]bash" in heard(agent)[0]


def test_the_policy_and_the_store_of_the_machine(kind: str, project: Path) -> None:
    """No gate is given: the shipped policy judges, nobody can be asked here, and the run is closed in the end."""

    class Nobody:
        def query(self, prompt: str, *, options: list[str]) -> str:
            return "y"

    agent = agent_of(kind, said("ls", "hla stop", "curl http://x.invalid", SUBMIT), user=Nobody())
    assert agent.run("task")[0] == "Submitted"
    assert [(r["verdict"], r["executed"]) for r in agent.env.records()] == [
        ("allow", True),
        ("deny", False),
        ("ask", False),
        ("allow", True),
    ]
    types = [entry.event["type"] for entry in agent.env.supervisor.gate.store.events(type="run")]
    assert types == ["run.started", "run.finished"]


class Elsewhere:
    """An environment that runs commands in its own way."""

    class Config:
        cwd = "/testbed"
        timeout = 5

    def __init__(self) -> None:
        self.config, self.ran = self.Config(), []

    def execute(self, command: str, cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        self.ran.append(command)
        return {"output": "elsewhere", "returncode": 0}

    def get_template_vars(self) -> dict[str, Any]:
        return {}


def test_other_environments_run_their_own_commands_after_they_were_judged(
    judges: Callable[..., Any], project: Path
) -> None:
    made, inner = judges(), Elsewhere()
    agent = SupervisedAgent(
        DeterministicModel(outputs=said("ls", "FORBIDDEN", "ls")), inner, gate=made.gate, step_limit=3
    )
    assert agent.run("task")[0] == "LimitsExceeded"
    assert inner.ran == ["ls", "ls"]
    assert made.director.seen[0].interpreter == ("unknown",)
    assert made.director.seen[0].cwd == "/testbed"


def test_the_local_environment_supervises_under_any_agent(judges: Callable[..., Any], project: Path) -> None:
    environment = SupervisedLocalEnvironment(gate=judges().gate, timeout=600)
    agent = DefaultAgent(DeterministicModel(outputs=said("touch a", "touch FORBIDDEN", SUBMIT)), environment)
    assert agent.run("task")[0] == "Submitted"
    assert [path.name for path in project.iterdir()] == ["a"]
    assert "Not executed" in heard(agent)[1]
    with pytest.raises(ConfigError, match="did you mean supervision"):
        SupervisedLocalEnvironment(supervison={})


def test_settings_of_a_stand_in_say_nothing(judges: Callable[..., Any], project: Path) -> None:
    """A mock has every attribute: none is a directory, an interpreter or a variable."""
    stand_in = Mock(**{"execute.return_value": {"output": "", "returncode": 0}, "get_template_vars.return_value": {}})
    made = judges()
    agent = agent_of("default", said("ls"), stand_in, gate=made.gate, step_limit=1)
    assert agent.run("task")[0] == "LimitsExceeded"
    action = made.director.seen[0]
    assert (action.interpreter, action.cwd, action.env) == (("unknown",), str(project), {})


def test_files_of_this_machine_are_not_those_of_another_environment(project: Path) -> None:
    """A script that git has here is the project's code here, and code that nobody has read elsewhere."""
    (project / "tool.sh").write_text("echo tool\n")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=project, check=True)
    settings = Supervision(project=project)
    assert SupervisedEnvironment(LocalEnvironment(), settings=settings).execute("bash tool.sh")["output"] == "tool\n"
    elsewhere = Elsewhere()
    elsewhere.config.cwd, elsewhere.config.interpreter = str(project), ["bash", "-c"]  # type: ignore[attr-defined]
    with pytest.raises(ActionDenied, match="nobody"):
        SupervisedEnvironment(elsewhere, settings=settings).execute("bash tool.sh")


def test_an_environment_is_supervised_once(judges: Callable[..., Any], project: Path) -> None:
    env = SupervisedEnvironment(LocalEnvironment(), gate=judges().gate)
    with pytest.raises(ConfigError, match="already"):
        SupervisedAgent(DeterministicModel(outputs=[]), env)
    with pytest.raises(ActionDenied):
        env.execute("FORBIDDEN")
    with pytest.raises(ActionDenied):
        env.execute(["ls"])  # type: ignore[arg-type]
    assert env.execute("echo x")["output"] == "x\n"


@pytest.mark.parametrize("config", [{"supervison": {}}, {"supervision": {"polcy": "strict"}}, {"supervision": 7}])
def test_misspelled_settings_are_errors(config: dict[str, Any], project: Path) -> None:
    with pytest.raises(ConfigError, match="supervision"):
        SupervisedAgent(DeterministicModel(outputs=[]), LocalEnvironment(), **config)


def test_commands_of_the_human_mode_are_judged(
    judges: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minisweagent.agents import interactive

    typed = iter(["touch FORBIDDEN", "/y"])
    monkeypatch.setattr(interactive.prompt_session, "prompt", lambda *a, **k: next(typed))
    made = judges()
    agent = agent_of("interactive", said(SUBMIT), gate=made.gate, mode="human")
    assert agent.run("task")[0] == "Submitted"
    assert not (project / "FORBIDDEN").exists()
    assert made.director.seen[0].model_intent == ""


def test_minis_confirm_mode_asks_first_and_may_refuse(
    judges: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minisweagent.agents import interactive

    typed = iter(["no, not so", "", ""])
    monkeypatch.setattr(interactive.prompt_session, "prompt", lambda *a, **k: next(typed))
    made = judges()
    agent = agent_of("interactive", said("touch a", "touch FORBIDDEN", SUBMIT), gate=made.gate, mode="confirm")
    assert agent.run("task")[0] == "Submitted"
    assert agent.config.mode == "confirm"
    assert list(project.iterdir()) == []
    assert [a.content for a in made.director.seen] == ["touch FORBIDDEN", SUBMIT]


@pytest.mark.parametrize("kind", ["interactive", "textual"])
def test_the_mode_is_minis_own_where_none_is_given(kind: str, judges: Callable[..., Any], project: Path) -> None:
    agent = CLASSES[kind](DeterministicModel(outputs=[]), LocalEnvironment(), gate=judges().gate)
    assert (agent.config.mode, agent.config.confirm_exit) == ("confirm", True)


def test_an_interruption_of_a_command(
    judges: Callable[..., Any], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minisweagent.agents import interactive

    def interrupt() -> None:
        while not (project / "running").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(interactive.prompt_session, "prompt", lambda *a, **k: "enough")
    made = judges()
    agent = agent_of("interactive", said("touch running; sleep 600; touch late", SUBMIT), gate=made.gate)
    threading.Thread(target=interrupt, daemon=True).start()
    assert agent.run("task")[0] == "Submitted"
    assert "Interrupted by user: enough" in heard(agent)[0]
    assert not (project / "late").exists()
    assert "KeyboardInterrupt" in made.events("exec.finished")[0]["detail"]


@pytest.mark.parametrize(
    ("typed", "runs"),
    [("Yes", True), ("yes", False), *(pytest.param(each, False, marks=pytest.mark.long) for each in ("", "y", "No"))],
)
def test_the_full_screen_agent_asks_in_its_own_input_line(
    typed: str, runs: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from textual.app import App

    monkeypatch.setattr(App, "run", functools.partialmethod(App.run, headless=True))
    agent = agent_of("textual", said("curl [bold]http://127.0.0.1:9/[/bold] || touch ran", SUBMIT))
    shown: list[str] = []

    def human() -> None:
        while agent.input_container.pending_prompt is None:
            time.sleep(0.01)
        shown.append(str(agent.input_container.pending_prompt))
        agent.call_from_thread(agent.input_container._complete_input, typed)

    threading.Thread(target=human, daemon=True).start()
    assert agent.run("task")[0] == "Submitted"
    assert (project / "ran").exists() is runs
    assert "[bold]http://127.0.0.1:9/[/bold]" in shown[0]
    assert "Type No or Yes" in shown[0]


@pytest.mark.long
def test_the_run_script(project: Path) -> None:
    config = {
        "agent": {"system_template": "s", "instance_template": "{{task}}", "mode": "confirm", "cost_limit": 0.0},
        "model": {"model_name": "m", "model_class": "deterministic", "outputs": said("ls", "hla stop", SUBMIT)},
    }
    config["agent"]["action_observation_template"] = "{{output.output}}"
    (project / "mini.yaml").write_text(yaml.safe_dump(config))
    base = [sys.executable, "-m", "humanlayer_agent.agents.mini_v1", "-t", "task", "-c", "mini.yaml"]
    model = ["--model-class", "minisweagent.models.test_models.DeterministicModel"]
    done = subprocess.run(
        [*base, *model, "-o", "out.json"], capture_output=True, text=True, stdin=subprocess.DEVNULL, env={**os.environ}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Submitted: 3 commands, 1 of them not run" in done.stdout
    saved = json.loads((project / "out.json").read_text())
    assert saved["info"]["exit_status"] == "Submitted"
    assert [r["executed"] for r in saved["info"]["supervision"]] == [True, False, True]
    wrong = subprocess.run([*base, *model, "--policy", "none-such"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "none-such" in wrong.stderr


def test_the_modules_for_version_2_say_what_they_need() -> None:
    with pytest.raises(ConfigError, match=r"2\.4 needs the extra mini"):
        import humanlayer_agent.agents.mini  # noqa: F401


def test_the_example(project: Path) -> None:
    example = Path(__file__).parents[3] / "examples/mini_v1.py"
    done = subprocess.run([sys.executable, str(example)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert "Not executed" in done.stdout
    assert "exit status: Submitted done" in done.stdout


def test_a_run_is_shown_where_that_is_wanted(
    judges: Callable[..., Any], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the presenter that `hla run` has: words, each command once, what was decided, and the table."""
    agent = agent_of("default", said("echo one", "FORBIDDEN", SUBMIT), gate=judges().gate, supervision={"show": True})
    assert agent.run("task")[0] == "Submitted"
    shown = capsys.readouterr().out
    assert "● because of 0\n  $ echo one\n    ✓ allowed by harmless" in shown.replace("\n\n", "\n")
    assert "✗ not run: because of no-forbidden" in shown
    assert shown.count("What the agent wanted, and what became of it") == 1
    assert "The run ended Submitted: 3 commands, 2 ran, 1 did not; 0 needed a human." in shown
    quiet = agent_of("default", said(SUBMIT), gate=judges().gate)
    assert quiet.run("task")[0] == "Submitted"
    assert capsys.readouterr().out == ""


@pytest.mark.long  # it imports litellm
def test_a_model_that_can_not_be_asked(project: Path) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{unheard.getsockname()[1]}/v1"
        environment = {**os.environ, "OPENAI_API_KEY": "sk-x", "OPENAI_BASE_URL": base, "MSWEA_CONFIGURED": "true"}
        done = subprocess.run(
            [sys.executable, "-m", "humanlayer_agent.agents.mini_v1", "-m", "openai/test", "-t", "x"],
            env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    assert done.returncode == 2, done.stdout + done.stderr
    assert "connection refused" in done.stderr
    assert "Traceback" not in done.stderr
