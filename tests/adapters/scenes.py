"""What happens around an adapter in its tests: the tool, the gate, the people, and what has run."""

import multiprocessing
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
from tests.adapters.table import ADAPTERS

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
_SERVER = multiprocessing.get_context("forkserver")
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

    def in_another_process(self, happens: Callable[..., object], driver: Any, *args: Any) -> int:
        """Let something happen in a process of its own; the number of the signal that ended it, 0 where none did.

        It is forked of a server that has no threads: a fork of this process could wait for one of them for ever.
        """
        module = type(driver).__module__.rpartition(".")[2]
        _SERVER.set_forkserver_preload([f"tests.adapters.drivers.{each.module}" for each in ADAPTERS])
        process = _SERVER.Process(target=happens, args=(module, self.folder, *args))
        process.start()
        process.join(60)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise AssertionError("it hangs")
        assert process.exitcode <= 0, "it failed"
        return -process.exitcode


def events(gate: Gate, *kinds: str) -> list[dict[str, Any]]:
    """What the log has of these kinds."""
    return [entry.event for entry in gate.store.events() if entry.event["type"] in kinds]
