"""The people who are on call now: names that a file holds, or that a command of the user's own prints, one a line.

It only chooses which of those who may answer are told. Whatever it says, nobody else may answer; and where it says
nothing that is of use, all of them are told.
"""

import os
import stat
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from humanlayer_agent.approvals.authority import ApprovalRule, OnCall, Step
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import home_folder
from humanlayer_agent.safe_text import one_line

LIMIT = 16_000
"""Bytes of names that are taken at the most."""

TIME_OUT = 5.0
"""Seconds that a command may take."""

LASTS = 60.0
"""Seconds for which what was read is taken for what is so."""

_NAMES = 100
_SHOWN = 80
_PATH = "/usr/local/bin:/usr/bin:/bin"


class OnCallNames:
    """Reads who is on call, and remembers it for a minute. Thread-safe.

    Args:
        monotonic: seconds that no change of the clock touches.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._known: dict[OnCall, tuple[float, tuple[str, ...] | ConfigError]] = {}

    def told(self, step: Step, rule: ApprovalRule, able: Collection[str]) -> tuple[frozenset[str], str]:
        """Return who is told of a request at a step, and why that is not whoever is on call ("" where it is).

        Args:
            rule: of the request, with those in it who stand in for others.
            able: the ids of those who may answer it.
        """
        everybody = frozenset(step.approvers or rule.approvers or able) & frozenset(able)
        if step.on_call is None:
            return everybody, ""
        try:
            names = self.read(step.on_call)
        except ConfigError as error:
            return everybody, str(error)
        instead = {each.absent: each.person for each in rule.stand_ins}
        known = {*(step.approvers or rule.approvers), *instead}
        if strange := [name for name in names if name not in known]:
            return everybody, f"{step.on_call}: {one_line(strange[0])[:_SHOWN]!r} is not one of the approvers"
        chosen = everybody & {instead.get(name, name) for name in names}
        if len(chosen) < rule.quorum:
            return everybody, f"{step.on_call}: of those on call {len(chosen)} may answer, and {rule.quorum} must"
        return chosen, ""

    def read(self, source: OnCall) -> tuple[str, ...]:
        """Return the names of those who are on call, at least one.

        Raises:
            ConfigError: nobody can say, and why.
        """
        with self._lock:
            at, found = self._known.get(source, (float("-inf"), ()))
            if self._monotonic() >= at + LASTS or not found:
                found = _read(source)
                self._known[source] = (self._monotonic(), found)
        if isinstance(found, ConfigError):
            raise found
        return found


def _read(source: OnCall) -> tuple[str, ...] | ConfigError:
    try:
        text = _of_command(source.command) if source.command else _of_file(source.file)
        return _names(text)
    except Exception as error:  # whatever it was: all who may answer are told
        return ConfigError(f"{source}: {_said(error)}")


def _said(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _names(text: str) -> tuple[str, ...]:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    names = tuple(dict.fromkeys(filter(None, lines)))
    if not names:
        raise ConfigError("it names nobody")
    if len(names) > _NAMES:
        raise ConfigError(f"it names more than {_NAMES}")
    return names


def _of_file(path: str) -> str:
    descriptor = os.open(_expanded(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise ConfigError("it is no file")
        if about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o022:
            raise ConfigError("others can write it: chmod go-w")
        content = file.read(LIMIT + 1)
    if len(content) > LIMIT:
        raise ConfigError(f"it is longer than {LIMIT} bytes")
    return content.decode()


def _of_command(command: tuple[str, ...]) -> str:
    """Run it, without anything of the environment of whoever starts agents."""
    from humanlayer_agent.processes.execution import run_command

    env = {"PATH": _PATH, "HOME": home_folder(), "LANG": "C.UTF-8"}
    argv = [_expanded(command[0]), *command[1:]]
    done = run_command(argv, cwd="/", env=env, timeout=TIME_OUT, output_limit=2 * LIMIT)
    if done.timed_out:
        raise ConfigError(f"it took longer than {TIME_OUT:g} s")
    if done.returncode != 0:
        raise ConfigError(f"it failed (exit code {done.returncode})")
    if len(done.output.encode()) > LIMIT:
        raise ConfigError(f"it printed more than {LIMIT} bytes")
    return done.output


def _expanded(path: str) -> str:
    return str(Path(home_folder()) / path[2:]) if path.startswith("~/") else path
