"""Was this process started by a supervised command? What is for humans only refuses to run there."""

import os
from collections.abc import Iterator
from pathlib import Path

from humanlayer_agent.agents import reaper
from humanlayer_agent.agents.process import SUPERVISED
from humanlayer_agent.errors import ConfigError

_MAX_ANCESTORS = 1_000
_MARK = f"{SUPERVISED}=1".encode()
_REAPER = os.sep.join(Path(reaper.__file__).parts[-3:]).encode()


def refuse_agents(purpose: str) -> None:
    """Raise ConfigError where an agent's command has started this process.

    Args:
        purpose: what only a human does, as the rest of a sentence.
    """
    if below_supervision():
        raise ConfigError(f"this is a supervised command: only a human at a terminal of their own {purpose}")


def below_supervision() -> bool:
    """Whether this process, or one that it descends from, is a supervised command.

    The mark alone would not do: `env -u` takes it away. But what started us still has it, or is the process that
    watches over supervised commands, which adopts what they leave behind.
    """
    return bool(os.environ.get(SUPERVISED)) or any(map(_is_supervised, _ancestors()))


def _is_supervised(pid: int) -> bool:
    if _MARK in _parts(pid, "environ"):
        return True
    command = _parts(pid, "cmdline")
    return command[1:3] == [b"-I", b"-S"] and len(command) > 3 and command[3].endswith(_REAPER)


def _ancestors() -> Iterator[int]:
    """This process and those above it, as far as /proc tells."""
    pid = os.getpid()
    for _ in range(_MAX_ANCESTORS):
        yield pid
        try:
            # The name in parentheses may hold anything, parentheses too.
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return
        pid = int(fields[1])
        if pid == 0:
            return


def _parts(pid: int, name: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    except OSError:  # another user's
        return []
