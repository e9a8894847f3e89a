"""mini's interactive agent under supervision: its modes on a real terminal."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support import children

ROOT = Path(__file__).parents[3]
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

PROGRAM = """
import importlib.util, json, sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("helpers", sys.argv[1])
helpers = importlib.util.module_from_spec(spec)
sys.modules["helpers"] = helpers
spec.loader.exec_module(helpers)
options = json.loads(sys.argv[2])
from minisweagent.environments.local import LocalEnvironment
from humanlayer_agent.agents.mini import SupervisedInteractiveAgent
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.store.sqlite import SQLiteStore

gate = Gate(helpers.WordDirector(), SQLiteStore(Path("../store.sqlite3")), helpers.ScriptedAsker(options["answers"]),
            requester="os:1000:alice")
agent = SupervisedInteractiveAgent(
    getattr(helpers, options["model"])(options["script"]), LocalEnvironment(), gate=gate,
    output_path=Path("../run.traj.json"), **helpers.TEMPLATES, **options["config"]
)
print("RESULT", json.dumps(agent.run("the task")))
"""


class Session:
    """One run of the program on a terminal."""

    def __init__(self, project: Path, script: list[list[str]], answers: list[str], config: dict[str, Any]) -> None:
        self.project = project
        model = config.pop("model", "tool_model")
        options = json.dumps({"script": script, "answers": answers, "config": config, "model": model})
        helpers = str(Path(__file__).parents[1] / "conftest.py")
        env = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "dumb"}
        self.child = children.spawn(
            sys.executable,
            ["-c", PROGRAM, helpers, options],
            cwd=str(project),
            env=env,
            timeout=PATIENCE,
            encoding="utf-8",
            dimensions=(24, 200),
            imports=children.MINI,
        )

    def answer(self, prompt: str, typed: str) -> None:
        self.child.expect(prompt)
        self.child.sendline(typed)

    def result(self) -> Any:
        self.child.expect(r"RESULT (\{.*\})")
        result = json.loads(self.child.match.group(1))
        self.child.expect(pexpect.EOF)
        return result

    def observations(self) -> list[dict[str, Any]]:
        messages = json.loads((self.project.parent / "run.traj.json").read_text())["messages"]
        return [m["extra"] for m in messages if "raw_output" in m.get("extra", {})]


@pytest.fixture
def session(project: Path) -> Iterator[Callable[..., Session]]:
    opened = []

    def start(script: list[list[str]], *answers: str, mode: str | None = "yolo", **config: Any) -> Session:
        opened.append(Session(project, script, list(answers), config | ({} if mode is None else {"mode": mode})))
        return opened[-1]

    yield start
    for one in opened:
        one.child.close(force=True)


@pytest.mark.long
def test_in_yolo_mode_only_supervision_asks(session: Any, project: Path) -> None:
    run = session([["touch one", "touch FORBIDDEN", "touch three"], [SUBMIT]], mode="yolo", confirm_exit=False)
    run.child.expect(r"mode\s+is\s+yolo:\s+supervision\s+asks")
    run.child.expect("✗ not run: because of no-forbidden")
    run.child.expect("The run ended Submitted: 4 commands, 3 ran, 1 did not; 0 needed a human")
    assert run.result()["exit_status"] == "Submitted"
    assert sorted(p.name for p in project.iterdir()) == ["one", "three"]
    assert [o["returncode"] for o in run.observations()[:3]] == [0, 126, 0]


@pytest.mark.sample(1)
@pytest.mark.parametrize("model", ["text_model", "tool_model", "responses_model"])
def test_every_message_format(session: Any, project: Path, model: str) -> None:
    script = [["touch one"], ["touch FORBIDDEN"], ["touch QUESTION"], ["touch two"], [SUBMIT]]
    run = session(script, "reject not now", model=model, confirm_exit=False)
    assert run.result()["exit_status"] == "Submitted"
    assert sorted(p.name for p in project.iterdir()) == ["one", "two"]
    assert [o["returncode"] for o in run.observations()[:4]] == [0, 126, 126, 0]
    assert '"not now"' in run.observations()[2]["exception_info"]


@pytest.mark.long
def test_confirm_mode_is_the_default_as_it_is_minis(session: Any, project: Path) -> None:
    run = session([["touch one"], ["touch two"], ["touch FORBIDDEN"], [SUBMIT]], mode=None, confirm_exit=False)
    run.child.expect(r"mode\s+is\s+confirm:\s+it\s+asks\s+about\s+every\s+command\s+first")
    run.answer("Execute 1 action", "")
    run.answer("Execute 1 action", "not this one")
    run.answer("Execute 1 action", "")  # what mini's user confirms is judged all the same
    run.answer("Execute 1 action", "/y")
    assert run.result()["exit_status"] == "Submitted"
    assert [p.name for p in project.iterdir()] == ["one"]
    assert "supervision" in run.observations()[0]
    assert run.observations()[1]["exception_info"] == "action was not executed"
    assert run.observations()[2]["supervision"]["verdict"] == "deny"


@pytest.mark.long
def test_commands_of_the_human_mode_are_judged(session: Any, project: Path) -> None:
    run = session([["touch from-model"], [SUBMIT]], mode="human", confirm_exit=False)
    run.answer("> ", "touch FORBIDDEN")
    run.child.expect("Not executed")
    run.answer("> ", "touch typed")
    run.answer("> ", "/y")
    assert run.result()["exit_status"] == "Submitted"
    assert sorted(p.name for p in project.iterdir()) == ["from-model", "typed"]


@pytest.mark.long
def test_a_new_task_at_the_end(session: Any, project: Path) -> None:
    run = session([["touch one", SUBMIT, "touch never"], ["touch two"], [SUBMIT]])
    run.answer("Agent wants to finish", "one more thing")
    run.answer("Agent wants to finish", "")
    assert run.result()["exit_status"] == "Submitted"
    assert sorted(p.name for p in project.iterdir()) == ["one", "two"]
    # Every tool call of the message that submitted in its middle has its result.
    assert [o["returncode"] for o in run.observations()[:3]] == [0, -1, -1]


def test_interrupted_at_a_command(session: Any, project: Path) -> None:
    run = session([["echo $$ > pid; sleep 600"], [SUBMIT]], confirm_exit=False)
    until(lambda: (project / "pid").exists() and (project / "pid").read_text().endswith("\n"), "the command")
    run.child.sendintr()
    run.answer("Interrupted", "go on without")
    assert run.result()["exit_status"] == "Submitted"
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text()), 0)
    assert run.observations()[0]["exception_info"] == "action was not executed"


def test_stopped_by_a_human(session: Any, project: Path) -> None:
    run = session([["touch one", "touch QUESTION", "touch three"], [SUBMIT]], "terminate")
    assert run.result()["exit_status"] == "SupervisionTerminated"
    assert [p.name for p in project.iterdir()] == ["one"]
    assert [o["returncode"] for o in run.observations()] == [0, 126, 126]


def test_limits_without_anybody_to_raise_them(session: Any) -> None:
    run = session([["touch one"], [SUBMIT]], step_limit=1, confirm_exit=False)
    run.answer("New step limit", "5")
    run.answer("New cost limit", "0")
    assert run.result()["exit_status"] == "Submitted"


def test_what_commands_print_does_not_act_on_the_terminal(session: Callable[..., Session]) -> None:
    """It could clear the screen, draw what looks like an answer, or have the terminal type something."""
    command = "printf 'a\\033[2J\\033]0;title\\007\\033[6nb\\342\\200\\256c'"
    started = session([[command], [SUBMIT]], confirm_exit=False)
    started.child.expect_exact("a\\x1b[2J\\x1b]0;title\\x07\\x1b[6nb\\u{202e}c")
    assert started.result()["exit_status"] == "Submitted"
    assert started.observations()[0]["raw_output"] == "a\x1b[2J\x1b]0;title\x07\x1b[6nb\u202ec"
