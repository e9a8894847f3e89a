"""The view that a command has of the disk: it may see another folder as /tmp than the machine has there.

Links lead where they lead in that view: what a command has put into its /tmp may lead out of it, and back. That folder
is written by commands, also while we look, so no path into it is left to the kernel to follow from our own view.
"""

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import NamedTuple

TEMPORARY = "/tmp"
LASTING = "/var/tmp"
"""Another folder for temporary files: where a command has a /tmp of its own, this is a link to it."""
_MOST_LINKS = 40
ODD = re.compile(r"[\s'\"\\*?\[\x00-\x1f\x7f]")
"""A letter at which a name may be split, or that changes how it is split."""
MAX_NAMES = 65_536
"""Most names that are looked at for the links in a folder."""
_OF_EACH_PROCESS = ("/dev/", "/proc/")
_O_PATH: int = getattr(os, "O_PATH", os.O_RDONLY)


class Step(NamedTuple):
    """One component of a path: what a command calls it, and what stands there.

    Args:
        at: its path, on which nothing above is a link.
        place: where that is on this machine; None where nobody can say.
        found: of what stands there, a link not followed; None where nothing does.
        target: where it leads; None where it is no link.
    """

    at: str
    place: str | None
    found: os.stat_result | None
    target: str | None

    @property
    def is_directory(self) -> bool:
        """Tell whether it is a directory, and no link to one."""
        return self.found is not None and stat.S_ISDIR(self.found.st_mode)


@dataclass(frozen=True, slots=True)
class View:
    """The folder that a command sees as /tmp, and what of the machine's own it sees in there all the same.

    Args:
        temporary: that folder, by a path without links; "" is an empty one, None the machine's own /tmp.
        shown: what below /tmp or /var/tmp is seen as it is on this machine.
        unknown: what below them some commands may see as it is on this machine, and others not.
        root: the root directory of a process, by its path (/proc/PID/root): all is as that process sees it.

    Example:
        >>> View("/srv/runs/1", shown=("/tmp/app",)).place("/tmp/x.py")
        '/srv/runs/1/x.py'
        >>> View("/srv/runs/1", shown=("/tmp/app",)).place("/tmp/app/x.py")
        '/tmp/app/x.py'
    """

    temporary: str | None = None
    shown: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    root: str = ""

    def place(self, path: str) -> str | None:
        """Return where on this machine a path is, on which nothing above its end is a link; None where nobody can say,
        or nothing can be there.
        """
        if self.temporary is None or not _is_below(path, TEMPORARY):
            return self.root + path
        if any(_is_below(path, each) for each in self.shown):
            return path
        if not self.temporary or any(_is_below(path, each) for each in self.unknown):
            return None
        return self.temporary + path[len(TEMPORARY) :]

    def steps(self, path: str) -> Generator[Step, None, str]:
        """Yield the components of an absolute path, through links as the kernel goes, and return where it leads; beyond
        what is missing it goes on by name alone.
        """
        here, links = "", 0
        ahead = path.split("/")[::-1]
        while ahead:
            name = ahead.pop()
            if name in ("", "."):
                continue
            if name == "..":
                here = here.rpartition("/")[0]
                continue
            step = self.look(f"{here}/{name}")
            yield step
            if step.target is None:
                here = step.at
                continue
            links += 1
            if links > _MOST_LINKS:  # nobody gets through
                return "/".join([step.at, *reversed(ahead)])
            ahead += step.target.split("/")[::-1]
            here = "" if step.target.startswith("/") else here
        return here or "/"

    def real(self, path: str) -> str:
        """Return the path without links that an absolute path leads to, or would lead to if what is missing were there.

        Example:
            >>> View("", shown=("/tmp/app",)).real("/tmp/no-such-link/../app/x")
            '/tmp/app/x'
        """
        steps = self.steps(path)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return str(end.value)

    def look(self, path: str) -> Step:
        """Return what stands at an absolute path without `.` and `..`, on which nothing above its end is a link."""
        if self._mounted_in(path):  # where something else stands in the way of that, nothing is started
            return Step(path, self.place(path), os.stat("/"), None)
        place = self.place(path)
        if path == LASTING and self._has_link():
            return Step(path, place, os.lstat("/proc/self"), TEMPORARY)
        if place is None:
            return Step(path, None, None, None)
        try:
            found = os.lstat(place)
            target = os.readlink(place) if stat.S_ISLNK(found.st_mode) else None
        except (OSError, ValueError):
            return Step(path, place, None, None)
        return Step(path, place, found, target)

    def entries(self, folder: str) -> Iterator[tuple[str, bool, bool]]:
        """Yield the names in a folder, whether each is a link, and whether it is a directory.

        Raises:
            OSError: nobody can look there.
        """
        mounted = {each[len(folder) + 1 :].partition("/")[0] for each in self._mounted_in(folder)}
        yield from ((name, False, True) for name in sorted(mounted))
        place = self.place(folder)
        if place is None or (mounted and not os.path.isdir(place)):
            return
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name not in mounted:
                    yield entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False)

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor of what an absolute path leads to.

        Raises:
            OSError: it can't be opened, another way leads there by now, or the way is one that each process has of its
                own (/dev, /proc).
        """
        steps = list(self.steps(path))
        if not steps or any(step.at.startswith(_OF_EACH_PROCESS) for step in steps):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        if self == HOST:
            return os.open(path, flags | os.O_CLOEXEC)
        real = self.real(path)
        place = self.place(real)
        if place is None or real.startswith(_OF_EACH_PROCESS):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        *above, name = place.removeprefix(self.root).split("/")[1:]
        here = os.open(self.root or "/", _O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in above:
                deeper = os.open(part, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
                os.close(here)
                here = deeper
            return os.open(name or ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
        finally:
            os.close(here)

    def _has_link(self) -> bool:
        """Tell whether /var/tmp is a link: where it is on this machine, and nothing is mounted there."""
        known = (*self.shown, *self.unknown)
        mounted = any(_is_below(each, LASTING) or _is_below(LASTING, each) for each in known)
        return self.temporary is not None and not mounted and os.path.isdir(LASTING)

    def _mounted_in(self, folder: str) -> list[str]:
        """What is shown, and lies in a folder below /tmp that is the command's own."""
        return [each for each in self.shown if each.startswith(f"{folder}/") and _is_below(folder, TEMPORARY)]


HOST = View()
"""The disk as the machine has it: commands see it so that run unconfined."""


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def links_out(folder: str, view: View, *, through: bool) -> tuple[tuple[str, str], ...] | None:
    """Return the links below a folder that lead out of it, each with where; None where there are more than `MAX_NAMES`
    names to look at.

    Args:
        folder: an absolute path.
        view: what is seen of the disk.
        through: those that are found by following them are looked for too.
    """
    top = view.real(folder)
    found: dict[str, str] = {}
    ahead, seen, left = [top], {top}, MAX_NAMES
    while ahead:
        here = ahead.pop()
        try:
            for name, is_link, is_directory in view.entries(here):
                left -= 1
                if left < 0:
                    return None
                path = f"{here.rstrip('/')}/{name}"
                if is_directory:
                    ahead.append(path)
                if not is_link or view.look(real := view.real(path)).found is None or _is_below(real, top):
                    continue
                found[path] = real
                if through and real not in seen:
                    seen.add(real)
                    ahead.append(real)
        except (OSError, ValueError):  # no directory, or nobody may look: nor may what runs
            continue
    return tuple(found.items())


def has_links(path: str, view: View) -> bool:
    """Tell whether there is, or may be, a link at an absolute path (without `..`) or below it: there may be one where
    nobody can look, and where there are more than `MAX_NAMES` names.
    """
    above, name = os.path.split(path)
    top = view.look(f"{view.real(above).rstrip('/')}/{name}")
    if top.target is not None:
        return True
    ahead, left = [top.at] if top.is_directory else [], MAX_NAMES
    try:
        while ahead:
            here = ahead.pop()
            for entry, is_link, is_directory in view.entries(here):
                left -= 1
                if is_link or left < 0:
                    return True
                if is_directory:
                    ahead.append(f"{here}/{entry}")
    except (OSError, ValueError):
        return True
    return False


def has_odd_names(folder: str, view: View, name: str | None) -> bool:
    """Tell whether a path below a folder would become several words, or none, where it is split at blanks: there may be
    one where nobody can look, and where there are more than `MAX_NAMES` names.

    Args:
        folder: an absolute path.
        view: what is seen of the disk.
        name: wildcards that the last component has to match; None for any.
    """
    top = view.real(folder)
    if not view.look(top).is_directory:
        return False
    ahead, left = [(top, False)], MAX_NAMES
    try:
        while ahead:
            here, odd = ahead.pop()
            for entry, _, is_directory in view.entries(here):
                left -= 1
                if left < 0:
                    return True
                is_odd = odd or ODD.search(entry) is not None
                if is_odd and (name is None or fnmatch.fnmatchcase(entry, name)):
                    return True
                if is_directory:
                    ahead.append((f"{here.rstrip('/')}/{entry}", is_odd))
    except (OSError, ValueError):
        return True
    return False


def folds_case(path: str) -> bool:
    """Tell whether the volume that an absolute path is on takes a name in capitals for the same as in small letters.

    Example:
        >>> folds_case("/proc/self/nowhere")
        False
    """
    while path != "/":
        above, name = os.path.split(path)
        if name.swapcase() != name and os.path.lexists(path):
            try:
                return os.path.samestat(os.lstat(path), os.lstat(os.path.join(above, name.swapcase())))
            except (OSError, ValueError):
                return False
        path = above
    return False
