"""Starts a confined command with layers over the folders that it can write: others see nothing of what it writes."""

import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import ClassVar

from humanlayer_agent.confine.bubblewrap import Enclosure
from humanlayer_agent.confine.confinement import TREE, Confinement, Unenforceable, is_below
from humanlayer_agent.confine.held_run import overlay_mount
from humanlayer_agent.confine.held_run.layer import MOST_ENTRIES
from humanlayer_agent.confine.journal import MovedAside

MOST_WRITTEN = 1 << 30
"""Bytes that a held run may write, in all; it is ended a moment after that."""
MOST_PROCESSES = 2048
"""Processes that may be added to the machine meanwhile: the kernel's limit for those of a user does not bind root."""
_PYTHON = os.path.realpath(sys.executable)
_SELDOM = 20
"""A look at how much was written, and started, takes at most this part of the time."""


@dataclass(frozen=True, slots=True)
class Over:
    """A layer over a folder: what is written there lies in `upper`; `work` is for the kernel."""

    folder: str
    upper: str
    work: str

    @classmethod
    def made(cls, folder: str, place: str) -> "Over":
        """Make an empty layer over a folder, in a place of our own.

        Raises:
            OSError: it can't be made.
        """
        upper, work = f"{place}/upper", f"{place}/work"
        os.makedirs(upper, mode=0o700)
        os.mkdir(work, mode=0o700)
        about = os.stat(folder)
        os.chmod(upper, about.st_mode & 0o7777)
        os.utime(upper, ns=(about.st_atime_ns, about.st_mtime_ns))
        return cls(folder, upper, work)

    def has_any(self) -> bool:
        """Tell whether a file lies in it. (Folders and empty files are made there as well, to mount others over.)"""
        for _, _, files, folder in os.fwalk(self.upper):
            for name in files:
                about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if about.st_size and not stat.S_ISCHR(about.st_mode):
                    return True
        return False


class _Fullness:
    """How much lies in some layers, and how many processes there are besides those of the first look, looked at now and
    then.
    """

    def __init__(self) -> None:
        self._next = 0.0
        self._others: int | None = None
        self.reached = False

    def look(self, layers: Sequence[Over]) -> bool:
        now = time.monotonic()
        if now < self._next or self.reached:
            return self.reached
        running = sum(name.isdigit() for name in os.listdir("/proc"))
        if self._others is None:
            self._others = running
        if running - self._others > MOST_PROCESSES:
            self.reached = True
            return True
        entries = size = 0
        for layer in layers:
            for _, folders, files, folder in os.fwalk(layer.upper, onerror=None):
                entries += len(folders) + len(files)
                for name in files:
                    with suppress(OSError):
                        size += os.stat(name, dir_fd=folder, follow_symlinks=False).st_blocks * 512
                if entries > MOST_ENTRIES or size > MOST_WRITTEN:
                    self.reached = True
                    return True
        self._next = time.monotonic() + _SELDOM * (time.monotonic() - now)
        return False


@dataclass(frozen=True, slots=True)
class LayeredEnclosure(Enclosure):
    """An enclosure in which layers lie over folders.

    Args:
        layers: over all that the command can write.
    """

    layers: tuple[Over, ...] = ()
    _fullness: _Fullness = field(default_factory=_Fullness, compare=False, repr=False)
    is_layered: ClassVar[bool] = True

    def journal(self) -> AbstractContextManager[list[MovedAside]]:
        """Look at nothing: what it leaves at a protected place lies in the layer, and is not applied."""
        return nullcontext([])

    @contextmanager
    def opened(
        self, command: Sequence[bytes], *, cwd: str, env: Mapping[bytes, bytes], info: int = -1
    ) -> Iterator[tuple[list[bytes], tuple[int, ...]]]:
        """Give what starts `command` enclosed, as `Enclosure.opened` does, with the layers over their folders."""
        with Enclosure.opened(self, command, cwd=cwd, env=env, info=info) as (argv, descriptors):
            words = [_PYTHON, "-I", "-S", overlay_mount.__file__, str(len(self.layers))]
            words += [path for each in self.layers for path in (each.folder, each.upper, each.work)]
            yield [*map(os.fsencode, words), *argv], descriptors

    def is_full(self) -> bool:
        """Tell whether more was written, or started, than a held run may."""
        return self._fullness.look(self.layers)


def held(confinement: Confinement, project: str) -> Confinement:
    """Return what a held run can reach of what `confinement` lets through: it writes in the project alone, in a layer,
    reads what else it could write, and has no network.

    Raises:
        Unenforceable: more than the project could be written where it lies.

    Example:
        >>> from humanlayer_agent.confine.confinement import Profile
        >>> web = Profile("web", write=("/srv/app/**", "/srv/data/**"), network="host")
        >>> confined = held(Confinement((web,)), "/srv/app")
        >>> confined.writes("/srv/app/x"), confined.writes("/srv/data/x"), confined.network
        (True, False, 'none')
    """
    profiles = []
    for each in confinement.profiles:
        places = {entry: entry.removesuffix(TREE) or "/" for entry in each.write}
        if any(is_below(project, path) and path != project for path in places.values()):
            raise Unenforceable(f"{each.name} lets commands write beside {project}, and a layer would lie over that")
        inside = tuple(entry for entry, path in places.items() if is_below(path, project))
        outside = tuple(entry for entry in each.write if entry not in inside)
        profiles.append(replace(each, read=(*each.read, *outside), write=inside, network="none", hosts=()))
    return Confinement(tuple(dict.fromkeys(profiles)))
