"""What happens in processes of their own, one after the other, in the same folder."""

import os
import signal
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.adapters.scenes import Run, Scene


def begin(module: str, folder: Path, *calls: str) -> None:
    """Have an agent ask the humans, and die while it waits for them."""
    _pause(module, folder, *calls)
    os.kill(os.getpid(), signal.SIGKILL)


def go_on(module: str, folder: Path, answers: dict[str, Any], *begun: str) -> None:
    """Answer, and resume the agent: the results begin so."""
    run = _resume(module, folder, answers)
    assert not begun or [text[: len(begin)] for (text, _), begin in zip(run.results, begun, strict=True)] == list(begun)


def _pause(module: str, folder: Path, *calls: str) -> Run:
    scene = Scene(folder)
    found: Run = import_module(f"tests.adapters.drivers.{module}").Driver(scene).pause(scene.gate(), *calls)
    return found


def _resume(module: str, folder: Path, answers: dict[str, Any]) -> Run:
    scene = Scene(folder)
    found: Run = import_module(f"tests.adapters.drivers.{module}").Driver(scene).resume(scene.gate(), answers)
    return found
