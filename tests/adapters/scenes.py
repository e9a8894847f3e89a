"""What happens around an adapter in its tests: the tool, the gate, the people, and what has run."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from humanlayer_agent import Gate, Verdict
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_APPROVER, ScriptedAsker, ScriptedDirector

AUTHORITY = Authority(
    (
        Person("starter", ("os:1:starter",)),
        Person("alice", ("app:alice",)),
        Person("tester", (TEST_APPROVER.principal,)),
    ),
    {"default": ApprovalRule("default", ("alice", "tester"), timeout_ms=600_000)},
)
DIRECTOR = ScriptedDirector({"ask": Verdict.ASK, "deny": Verdict.DENY})
TOOL = "act"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """What the model of an agent was told: the result of each call in order, and whether it is one of an error.

    Args:
        turns: how often the model was asked.
        paused: what the framework asks its own user about, by whatever it names that.
    """

    results: list[tuple[str, bool]]
    turns: int
    paused: tuple[str, ...] = ()


class Scene:
    """A folder in which an agent acts, in this process or in others one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ran = folder / "ran.txt"

    def act(self, what: str) -> str:
        """The tool of the agents."""
        with self._ran.open("a") as ran:
            ran.write(f"{what}\n")
        if "raise" in what:
            raise ValueError("it broke")
        if "die" in what:
            os.kill(os.getpid(), signal.SIGKILL)
        return f"did {what}"

    @property
    def ran(self) -> list[str]:
        return self._ran.read_text().splitlines() if self._ran.exists() else []

    def gate(self, *script: Any, director: Any = DIRECTOR, **limits: Any) -> Gate:
        """A gate whose human follows a script."""
        return Gate(
            director,
            SQLiteStore(self.folder / "store.db"),
            ScriptedAsker(script),
            agent="adapter",
            authority=AUTHORITY,
            requester="os:1:starter",
            instance="the same",
            durable=True,
            **limits,
        )

    def example(self, name: str) -> Any:
        """One of our examples, as a module."""
        spec = spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def in_another_process(self, happens: Callable[[], object]) -> int:
        """Let something happen in a process of its own; the number of the signal that ended it, 0 where none did."""
        child = os.fork()
        if not child:
            code = 1
            try:
                happens()
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it failed"
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def events(gate: Gate, *kinds: str) -> list[dict[str, Any]]:
    """What the log has of these kinds."""
    return [entry.event for entry in gate.store.events() if entry.event["type"] in kinds]
