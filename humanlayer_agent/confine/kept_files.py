"""Keeps what of a project would be lost: files that no commit has as they are, before code runs that nobody has read.

Contents are kept once, by their SHA-256, whichever runs they belong to. What was kept for a run is a manifest, kept in
the same way, and a short file that names it. All of it lies in a folder of ours that no command sees.
"""

import fcntl
import hashlib
import json
import os
import stat
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from humanlayer_agent.confine.confinement import Bounds
from humanlayer_agent.confine.folder_descriptors import open_file, opened_folder, parent_of, state_of
from humanlayer_agent.confine.project_files import ProjectFiles
from humanlayer_agent.locations import read_own_json, write_own_json

FORM = 1
PERMISSIONS = 0o777
"""What of a file's mode is kept. The bits that lend an owner's rights to whoever runs it are not."""

_CHUNK = 1 << 20
_ATTEMPTS = 3
_RUNS = 4
"""Of all runs together so many times the bytes of one are kept, about."""
_DAY_MS = 86_400_000
_TICK_NS = 20_000_000
"""Longer than the kernel's clock for times of change stands still."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file as it was.

    Args:
        path: relative to the project.
        mode: its type and permissions, as `stat` has them.
        size: of its content.
        content: SHA-256 of that; of a link it is where it leads.
        seen: device, inode, and the times of its last changes (ns): while these are the same, so is the content.
    """

    path: str
    mode: int
    size: int
    content: str
    seen: tuple[int, int, int, int] = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that was not kept, and why not."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was kept for one run, and what was there besides.

    Args:
        run: names the run.
        project: its directory.
        at: when (ms).
        files: what was kept.
        left: what was not.
        held: files that no command could write, and so need not be kept.
        committed: files that the last commit had as they were.
        ignored: what git ignored; a folder has a slash at its end.
        unseen: folders that were not looked through.
        untouchable: path sets that commands could not write.
    """

    run: str
    project: str
    at: int
    files: tuple[KeptFile, ...] = ()
    left: tuple[LeftOut, ...] = ()
    held: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    untouchable: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """Return how long all contents are together."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Kept:
    """What stands for a manifest.

    Args:
        run, project, at: see `Manifest`.
        files, bytes, left_out: how many were kept, of which size, and how many were not.
        digest: SHA-256 of the manifest.
        written: how many bytes it took.
    """

    run: str
    project: str
    at: int
    files: int
    bytes: int
    left_out: int
    digest: str
    written: int

    @property
    def logged(self) -> dict[str, Any]:
        """Return what the log says of it."""
        return {
            "name": self.run,
            "project": self.project,
            "files": self.files,
            "bytes": self.bytes,
            "left_out": self.left_out,
            "manifest": {"sha256": self.digest},
        }


class KeptFiles:
    """A folder with what was kept.

    Args:
        folder: outside of what any command can read. It is made when something is kept.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._contents, self._runs = self.folder / "contents", self.folder / "runs"

    def of(self, run: str, project: str) -> Kept | None:
        """Return what was kept of a project for a run; None where nothing was."""
        found = _record(read_own_json(self._name(run, project)))
        return found if found is not None and (found.run, found.project) == (run, project) else None

    def all(self) -> list[Kept]:
        """Return what was kept for every run, the newest first."""
        try:
            names = sorted(self._runs.glob("*.json"))
        except OSError:
            return []
        found = (_record(read_own_json(name)) for name in names)
        return sorted((each for each in found if each is not None), key=lambda each: each.at, reverse=True)

    def keep(
        self,
        run: str,
        project: str,
        found: ProjectFiles,
        *,
        bounds: Bounds,
        wanted: Callable[[str], bool] = lambda path: True,
        untouchable: tuple[str, ...] = (),
        at: int | None = None,
    ) -> Kept:
        """Keep the files of a project that no commit has, as far as `bounds` allow; once for a run.

        Args:
            run: names the run.
            project: the directory, without links.
            found: its files.
            wanted: tells of an absolute path whether a command could change it.
            untouchable: path sets that commands can't write, for the manifest.
            at: the time (ms); that of the clock where it is None.

        Raises:
            OSError: they can't be kept: no space, or the folder can't be written. Nothing is kept then.
        """
        at = time.time_ns() // 1_000_000 if at is None else at
        with self._alone():
            if (earlier := self.of(run, project)) is not None:
                return earlier
            self._forget([each for each in self.all() if each.at < at - bounds.days * _DAY_MS])
            try:
                kept = self._kept(run, project, found, bounds, wanted, untouchable, at)
            except OSError:
                with suppress(OSError):  # what was written already would only take up space
                    self._sweep()
                raise
            self._make_room(_RUNS * bounds.bytes, kept)
            return kept

    def _kept(
        self,
        run: str,
        project: str,
        found: ProjectFiles,
        bounds: Bounds,
        wanted: Callable[[str], bool],
        untouchable: tuple[str, ...],
        at: int,
    ) -> Kept:
        collected = _Collected(self._contents, bounds, self._known(project))
        held = [path for path in found.loose if not wanted(f"{project}/{path}")]
        with opened_folder(project) as top:
            for path in _by_worth(top, set(found.loose).difference(held)):
                collected.take(top, path)
        collected.left += [LeftOut(each, "it can't be looked through, or has too many files") for each in found.unseen]
        manifest = Manifest(
            run,
            project,
            at,
            tuple(collected.files),
            tuple(collected.left),
            tuple(held),
            tuple(sorted(found.committed)),
            found.ignored,
            found.unseen,
            untouchable,
        )
        digest = collected.write(zlib.compress(json.dumps(_rows(manifest)).encode(), 1))
        left = len(manifest.left)
        kept = Kept(run, project, at, len(manifest.files), manifest.bytes, left, digest, collected.written)
        write_own_json(self._name(run, project), {"form": FORM, **asdict(kept)}, required=True)
        return kept

    def manifest(self, record: Kept) -> Manifest:
        """Return the manifest.

        Raises:
            OSError: it is gone, or another than it was.
            ValueError: it is none.
        """
        content = json.loads(zlib.decompress(self.content(record.digest)))
        return Manifest(
            content["run"],
            content["project"],
            content["at"],
            tuple(KeptFile(path, mode, size, kept, tuple(seen)) for path, mode, size, kept, seen in content["files"]),
            tuple(LeftOut(*row) for row in content["left"]),
            *(tuple(content[name]) for name in ("held", "committed", "ignored", "unseen", "untouchable")),
        )

    def content(self, digest: str) -> bytes:
        """Return a content, whole and as it was.

        Raises:
            OSError: it is gone, or another than it was.
        """
        with open(os.open(_place(self._contents, digest), os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            content = file.read()
        if hashlib.sha256(content).hexdigest() != digest:
            raise OSError(f"what was kept as {digest} is not what it was")
        return content

    def forget(self, before: int, keep: Callable[[Kept], bool] = lambda each: False) -> int:
        """Remove what was kept before a moment (ms), and return for how many runs that was.

        Raises:
            OSError: it can't be removed.
        """
        with self._alone():
            return self._forget([each for each in self.all() if each.at < before and not keep(each)])

    def size(self) -> int:
        """Return how many bytes all of it takes."""
        return sum(os.lstat(path).st_size for path in self._stored())

    def _stored(self) -> Iterator[str]:
        with suppress(OSError):
            for folder in os.scandir(self._contents):
                with os.scandir(folder.path) as entries:
                    yield from (entry.path for entry in entries)

    def _forget(self, gone: Collection[Kept]) -> int:
        for each in gone:
            self._name(each.run, each.project).unlink(missing_ok=True)
        if gone:
            self._sweep()
        return len(gone)

    def _make_room(self, most: int, newest: Kept) -> None:
        """Let the oldest go while all of it is more than that: never what was kept just now."""
        runs = sorted(self.all(), key=lambda each: (each == newest, each.at))
        gone = []
        while len(runs) > 1 and sum(each.written for each in runs) > most:
            gone.append(runs.pop(0))
        self._forget(gone)

    def _sweep(self) -> None:
        """Remove the contents that no manifest names."""
        named = set()
        for kept in self.all():
            with suppress(OSError, ValueError, KeyError, TypeError, zlib.error):
                named |= {kept.digest, *(file.content for file in self.manifest(kept).files)}
        for path in list(self._stored()):
            if os.path.basename(path) not in named:
                os.unlink(path)

    def _known(self, project: str) -> dict[tuple[str, int, tuple[int, int, int, int]], str]:
        """The contents of files that were kept for the last run of a project, and need not be read again where nothing
        touched them since.
        """
        last = next((each for each in self.all() if each.project == project), None)
        with suppress(OSError, ValueError, KeyError, TypeError, zlib.error):
            if last is not None:
                settled = last.at * 1_000_000 - _TICK_NS
                files = self.manifest(last).files
                return {(file.path, file.size, file.seen): file.content for file in files if file.seen[3] < settled}
        return {}

    def _name(self, run: str, project: str) -> Path:
        digest = hashlib.sha256(f"{run}\0{project}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._runs / f"{digest[:32]}.json"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Make the folder, and let no other process change it meanwhile."""
        for each in (self.folder, self._contents, self._runs):
            each.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = os.lstat(self.folder)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
            raise OSError(f"{self.folder} is not a folder of this user's own")
        os.chmod(self.folder, 0o700)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


class _Collected:
    """What is being kept: files are taken while the bounds allow it."""

    def __init__(
        self, contents: Path, bounds: Bounds, known: dict[tuple[str, int, tuple[int, int, int, int]], str]
    ) -> None:
        self._contents, self._bounds, self._known = contents, bounds, known
        self._room = bounds.bytes
        self._too_much = f"all together would be more than {bounds.bytes} bytes"
        self.files: list[KeptFile] = []
        self.left: list[LeftOut] = []
        self.written = 0

    def take(self, top: int, path: str) -> None:
        """Keep one file, or say why not.

        Raises:
            OSError: it can't be written.
        """
        with ExitStack() as stack:
            try:
                folder, name = stack.enter_context(parent_of(top, path))
                about = os.stat(name, dir_fd=folder, follow_symlinks=False)
                target = os.readlink(name, dir_fd=folder) if stat.S_ISLNK(about.st_mode) else ""
            except OSError as error:
                self.left.append(LeftOut(path, f"it can't be reached: {error.strerror}"))
                return
            if why := self._unkept(about):
                self.left.append(LeftOut(path, why))
            elif stat.S_ISLNK(about.st_mode):
                content = os.fsencode(target)
                self._add(path, about, len(content), self.write(content))
            else:
                self._take_file(folder, name, path, about)

    def write(self, content: bytes) -> str:
        """Keep a content, and return its SHA-256.

        Raises:
            OSError: it can't be written.
        """
        digest = hashlib.sha256(content).hexdigest()
        place = _place(self._contents, digest)
        try:
            if os.lstat(place).st_size == len(content):
                return digest
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        temporary = f"{place}.{os.urandom(8).hex()}"
        try:
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(content)
            os.replace(temporary, place)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        self.written += len(content)
        return digest

    def _unkept(self, about: os.stat_result) -> str:
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
            return "neither a file nor a link"
        if len(self.files) >= self._bounds.files:
            return f"there are more than {self._bounds.files} files"
        if about.st_size > self._room:
            return self._too_much
        return ""

    def _take_file(self, folder: int, name: str, path: str, about: os.stat_result) -> None:
        known = self._known.get((path, about.st_size, _seen(about)))
        if known is not None and os.path.lexists(_place(self._contents, known)):
            self._add(path, about, about.st_size, known)
            return
        for _ in range(_ATTEMPTS):
            try:
                about, content = _read(folder, name, self._room)
                after = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                self.left.append(LeftOut(path, f"it can't be read: {error.strerror or error}"))
                return
            if len(content) > self._room:
                self.left.append(LeftOut(path, self._too_much))
                return
            if _seen(after) == _seen(about) and len(content) == about.st_size:
                break
        else:
            self.left.append(LeftOut(path, "it changed while it was read, and is kept as it was at one moment of that"))
        self._add(path, about, len(content), self.write(content))

    def _add(self, path: str, about: os.stat_result, size: int, content: str) -> None:
        mode = stat.S_IFMT(about.st_mode) | stat.S_IMODE(about.st_mode) & PERMISSIONS
        self.files.append(KeptFile(path, mode, size, content, _seen(about)))
        self._room -= size


def _read(folder: int, name: str, most: int) -> tuple[os.stat_result, bytes]:
    """The state and the content of a file; of a longer one than that, one byte more."""
    with open(open_file(folder, name), "rb", buffering=0) as file:
        about, parts, read = os.fstat(file.fileno()), list[bytes](), 0
        while read <= most and (part := file.read(min(_CHUNK, most + 1 - read))):
            parts.append(part)
            read += len(part)
        return about, b"".join(parts)


def _seen(about: os.stat_result) -> tuple[int, int, int, int]:
    return about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns


def _by_worth(top: int, paths: Iterable[str]) -> list[str]:
    """What is nearer to the top comes first, and of that what is smaller, in case not all fits."""
    sizes = {path: about.st_size if (about := state_of(top, path)) is not None else 0 for path in paths}
    return sorted(sizes, key=lambda path: (path.count("/"), sizes[path], path))


def _rows(manifest: Manifest) -> dict[str, Any]:
    return {each.name: getattr(manifest, each.name) for each in fields(manifest)} | {
        "files": [(file.path, file.mode, file.size, file.content, file.seen) for file in manifest.files],
        "left": [(each.path, each.why) for each in manifest.left],
    }


def _place(contents: Path, digest: str) -> str:
    return f"{contents}/{digest[:2]}/{digest}"


def _record(content: dict[str, Any] | None) -> Kept | None:
    try:
        if content is None or content.pop("form") != FORM:
            return None
        return Kept(**content)
    except (KeyError, TypeError):
        return None
