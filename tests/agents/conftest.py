"""Real gates over real stores; only the judge and the human are scripted."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import enclosures

if TYPE_CHECKING:
    from humanlayer_agent import Gate

os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


@dataclass
class WordDirector:
    """Denies a command with FORBIDDEN in it, asks about one with QUESTION, allows the rest; remembers all.

    It judges every command by the files that `reads` names.
    """

    seen: list[Any] = field(default_factory=list)
    reads: list[Path] = field(default_factory=list)

    def evaluate(self, action: Any) -> Any:
        from humanlayer_agent.action import FileDigest
        from humanlayer_agent.policy.decision import PolicyDecision, Verdict
        from humanlayer_agent.shell import DiskReader

        self.seen.append(action)
        verdict, rule = Verdict.ALLOW, "harmless"
        if "QUESTION" in action.content:
            verdict, rule = Verdict.ASK, "no-questions"
        if "FORBIDDEN" in action.content:
            verdict, rule = Verdict.DENY, "no-forbidden"
        return PolicyDecision(
            verdict=verdict,
            reason=f"because of {rule}",
            policy="words",
            policy_digest="0" * 64,
            rules=(rule,),
            suggestion="say it otherwise" if verdict else "",
            files=tuple(FileDigest(str(path), DiskReader.digest(str(path))) for path in self.reads),
        )


@dataclass
class ScriptedAsker:
    """A channel whose human gives the answers of a list: approve, terminate, "reject WORDS", "edit COMMAND", or an
    exception."""

    answers: list[Any]
    name: str = "scripted"
    asked: list[Any] = field(default_factory=list)
    while_waiting: Callable[[], None] = lambda: None

    def ask(self, request: Any, *, until: int, cancelled: Callable[[], bool]) -> Any:
        from humanlayer_agent.approvals.model import Answer, Approver

        self.asked.append(request)
        self.while_waiting()
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        kind, _, words = answer.partition(" ")
        edited, _, comment = words.partition(" # ") if kind == "edit" else ("", "", words)
        return Answer(
            kind=kind,
            approver=Approver("os:1000:alice", "terminal", "terminal"),
            presented_digest=request.digest,
            decision_id=f"decision-{len(self.asked)}-{request.id}",
            comment=comment,
            edited=edited,
        )


@dataclass
class Judges:
    """A gate with the scripted parts it is made of."""

    gate: Any
    director: WordDirector
    asker: ScriptedAsker
    store: Any

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The audit events of one type."""
        return [entry.event for entry in self.store.events(type=kind)]


@pytest.fixture
def judges(tmp_path: Path) -> Callable[..., Judges]:
    """Makes `Judges`, from the answers of its human."""

    def make(*answers: Any) -> Judges:
        from humanlayer_agent.approvals.gate import Gate
        from humanlayer_agent.store.sqlite import SQLiteStore

        director, asker = WordDirector(), ScriptedAsker(list(answers))
        store = SQLiteStore(tmp_path / "store.sqlite3")
        return Judges(Gate(director, store, asker, requester="os:1000:alice"), director, asker, store)

    return make


SWAPS = "echo before; echo other > new; mv new run.sh"


@pytest.fixture
def swapped(project: Path) -> Callable[[Judges, bool], str]:
    """Has `judges` judge every command by `run.sh`, and swaps it once: between the permit and the start, or by the
    command that is returned."""

    def prepared(made: Judges, early: bool) -> str:
        (project / "run.sh").write_text("echo judged\n")
        made.director.reads.append(project / "run.sh")
        admit = made.gate.admit

        def swapping(action: Any) -> Any:
            admitted = admit(action)
            if early and not (project / "once").exists():
                (project / "once").touch()
                (project / "run.sh").write_text("echo other\n")
            return admitted

        made.gate.admit = swapping  # type: ignore[method-assign]
        return "touch ran" if early else SWAPS

    return prepared


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project directory, which is the current one."""
    directory = tmp_path / "project"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("HUMANLAYER_STORE", str(tmp_path / "store.sqlite3"))
    return directory


Script = Sequence[Sequence[str]]


def text_model(script: Script, **config: Any) -> Any:
    """mini's text format: one action in a message, results are user messages."""
    from minisweagent.models.test_models import DeterministicModel, make_output

    outputs = [make_output("words", [{"command": c} for c in commands]) for commands in script]
    return DeterministicModel(outputs=outputs, **config)


def tool_model(script: Script, **config: Any) -> Any:
    """Chat completions with tool calls."""
    from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output

    outputs = []
    for number, commands in enumerate(script):
        actions = [{"command": c, "tool_call_id": f"call_{number}_{i}"} for i, c in enumerate(commands)]
        calls = [
            {
                "id": action["tool_call_id"],
                "type": "function",
                "function": {"name": "bash", "arguments": json.dumps({"command": action["command"]})},
            }
            for action in actions
        ]
        outputs.append(make_toolcall_output("words", calls, actions))
    return DeterministicToolcallModel(outputs=outputs, **config)


def responses_model(script: Script, **config: Any) -> Any:
    """The Responses API."""
    from minisweagent.models.test_models import DeterministicResponseAPIToolcallModel, make_response_api_output

    outputs = []
    for number, commands in enumerate(script):
        actions = [{"command": c, "tool_call_id": f"call_{number}_{i}"} for i, c in enumerate(commands)]
        outputs.append(make_response_api_output("words", actions))
    return DeterministicResponseAPIToolcallModel(outputs=outputs, **config)


@pytest.fixture(params=[text_model, tool_model, responses_model], ids=["text", "tools", "responses"])
def make_model(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Each of mini's three message formats."""
    factory: Callable[..., Any] = request.param
    return factory


@pytest.fixture
def tools() -> Callable[..., Any]:
    """A model that calls tools, for what does not depend on the format."""
    return tool_model


TEMPLATES = {"system_template": "You are a test.", "instance_template": "{{task}}", "cost_limit": 0.0}


@pytest.fixture
def templates() -> dict[str, Any]:
    """mini's settings that every agent needs."""
    return dict(TEMPLATES)


@pytest.fixture
def submit() -> str:
    """The command that hands in."""
    return SUBMIT


@pytest.fixture
def ordinary_user(tmp_path: Path) -> Callable[..., list[str]]:
    """Makes the argv that runs Python source as an ordinary user: us, or nobody where we are root.

    It may read all files (this checkout may lie where nobody can't go); that is no right to look into processes.
    """

    def argv(source: str) -> list[str]:
        command = [sys.executable, "-c", source]
        if os.getuid() != 0:
            return command
        drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        drop += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
        if shutil.which("setpriv") is None or subprocess.run([*drop, "true"], capture_output=True).returncode != 0:
            pytest.skip("we are root, and can't become an ordinary user here (setpriv, CAP_DAC_READ_SEARCH)")
        for directory in (tmp_path, *tmp_path.parents):
            if directory.stat().st_uid == 0 and directory != Path("/") and directory.name != "tmp":
                directory.chmod(0o755)
        return [*drop, *command]

    return argv


class Human:
    """Is asked, and says no unless they are told to approve."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.approves = False

    def query(self, prompt: str, *, options: list[str]) -> str:
        self.asked.append(prompt)
        return next(each for each in options if each.lower().startswith(("y", "a")) is self.approves)


@pytest.fixture
def place() -> Iterator[Path]:
    """Not in a folder for temporary files: there the policy would allow too much."""
    with tempfile.TemporaryDirectory(dir=pwd.getpwuid(os.getuid()).pw_dir, prefix="hla-runs-") as name:
        base = Path(name)
        (base / "project").mkdir()
        (base / "outside").mkdir()
        (base / "outside/canary").write_text("canary\n")
        yield base


@pytest.fixture
def human() -> Human:
    return Human()


@pytest.fixture
def gate(place: Path, human: Human, compiled: None, monkeypatch: pytest.MonkeyPatch) -> Iterator["Gate"]:
    """A gate whose allowed commands run confined."""
    from humanlayer_agent import Gate

    enclosures.backend()  # or a skip
    monkeypatch.chdir(place / "project")
    with Gate.from_config(user=human, policy="default", project=place / "project", confine=True) as opened:
        assert opened.enclosures is not None
        yield opened
