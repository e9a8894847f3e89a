"""Keeps what of a project would be lost: what each command replaces, where the policy says so (`permit_changes`), and
files that no commit has as they are, before code runs that nobody has read.

Contents are kept once, by their SHA-256, whichever runs they belong to. What was kept for a run, or for one permit of
it, is a manifest, kept in the same way, and a short file that names it. All of it lies in a folder of ours that no
command sees.
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
from io import BufferedRandom
from pathlib import Path
from typing import Any, BinaryIO

from humanlayer_agent.confine.confinement import Bounds
from humanlayer_agent.confine.project_files import ProjectFiles
from humanlayer_agent.locations import read_own_json, write_own_json
from humanlayer_agent.undo.folder_descriptors import open_file, opened_folder, parent_of, state_of

FORM = 2
PERMISSIONS = 0o777
"""What of a file's mode is kept. The bits that lend an owner's rights to whoever runs it are not."""

_CHUNK = 1 << 20
_SMALL = 1 << 20
"""What is not larger is read as a whole, and written only where it is not there yet."""
_PATHS = ("held", "committed", "ignored", "unseen", "untouchable", "scope", "beyond")
_FICLONE = 0x40049409
"""Has a file share another one's blocks, until either is written to (ioctl_ficlonerange(2): Btrfs, XFS and others)."""
_ATTEMPTS = 3
_TIDY_EVERY = 64
"""So many times something is kept by one process until it looks again how much room all of it takes."""
_RUNS = 4
"""Of all runs together so many times the bytes of one are kept, about."""
_DAY_MS = 86_400_000
TICK_NS = 20_000_000
"""Longer than the kernel's clock for times of change stands still."""


class UnreadableFile(OSError):
    """A file of the project can't be read, and so not be kept."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file, link or folder as it was.

    Args:
        path: relative to the project.
        mode: its type and permissions, as `stat` has them; 0 where nothing was there.
        size: of its content.
        content: SHA-256 of that; of a link it is where it leads; "" of what has none, or where it is not known.
        seen: device, inode, and the times of its last changes (ns): while these are the same, so is the content.
        why: why it can't be put back as it was; "" where it can.
        owner: its user and group; -1 where that was not looked at.
        meaning: of an index of git's, what it says besides when git looked at the files; "" of all else.
    """

    path: str
    mode: int
    size: int
    content: str
    seen: tuple[int, int, int, int] = (0, 0, 0, 0)
    why: str = ""
    owner: tuple[int, int] = (-1, -1)
    meaning: str = ""

    def is_as(self, other: "KeptFile") -> bool:
        """Tell whether both are known to be the same, times left aside."""
        if self.mode != other.mode or (-1 not in (*self.owner, *other.owner) and self.owner != other.owner):
            return False
        if not self.mode or stat.S_ISDIR(self.mode):
            return True
        if self.meaning and self.meaning == other.meaning:
            return True
        return bool(self.content) and self.content == other.content


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
        permit: the permit of the command before which it was kept (then `files` are what that changed or removed), or
            the name of an undo; "" where it was kept once for the run.
        after: how what was changed or made was left, once that is known.
        until: when that was (ms).
        scope: what was looked at, "" for all of the project.
        beyond: what the command did, or may have, that no undo takes back, in sentences.
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
    permit: str = ""
    after: tuple[KeptFile, ...] | None = None
    until: int = 0
    scope: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()

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
        permit, until: see `Manifest`.
        created, changed, deleted: how many files, links and folders the command made, changed and removed.
    """

    run: str
    project: str
    at: int
    files: int
    bytes: int
    left_out: int
    digest: str
    written: int
    permit: str = ""
    until: int = 0
    created: int = 0
    changed: int = 0
    deleted: int = 0

    @property
    def name(self) -> str:
        """Return what people call it by: a permit, an undo or a run."""
        return self.permit or self.run

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

    @property
    def changes_logged(self) -> dict[str, Any]:
        """Return what the log says of it when the command has ended."""
        counts = {"created": self.created, "changed": self.changed, "deleted": self.deleted}
        return {**counts, "left_out": self.left_out, "manifest": {"sha256": self.digest}}


class KeptFiles:
    """A folder with what was kept.

    Args:
        folder: outside of what any command can read. It is made when something is kept.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._contents, self._runs = self.folder / "contents", self.folder / "runs"
        self._times = 0

    def of(self, run: str, project: str, permit: str = "") -> Kept | None:
        """Return what was kept of a project for a run, or for one permit of it; None where nothing was."""
        found = _record(read_own_json(self._name(run, project, permit)))
        wanted = (run, project, permit)
        return found if found is not None and (found.run, found.project, found.permit) == wanted else None

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

    @contextmanager
    def writing(self, bounds: Bounds) -> Iterator["Contents"]:
        """Let contents be written, and by `put` a manifest that names them, while no other process does.

        What is older than the bounds say, and more than they allow of all runs, goes from time to time.

        Raises:
            OSError: the folder can't be made, or is not this user's own.
        """
        with self._alone():
            if self._times % _TIDY_EVERY == 0:
                self._tidy(bounds)
            self._times += 1
            yield Contents(self._contents)

    def put(self, contents: "Contents", manifest: Manifest, *, instead_of: Kept | None = None) -> Kept:
        """Keep the manifest of a permit, whose contents are written.

        Args:
            instead_of: what it takes the place of.

        Raises:
            OSError: it can't be written.
        """
        digest = contents.write(zlib.compress(json.dumps(_rows(manifest)).encode(), 1))
        kept = Kept(
            manifest.run,
            manifest.project,
            manifest.at,
            len(manifest.files),
            manifest.bytes,
            sum(bool(file.why) for file in manifest.files) + len(manifest.unseen),
            digest,
            contents.written,
            manifest.permit,
            manifest.until,
            **_counts(manifest),
        )
        name = self._name(manifest.run, manifest.project, manifest.permit)
        write_own_json(name, {"form": FORM, **asdict(kept)}, required=True)
        if instead_of is not None and instead_of.digest != digest:
            with suppress(OSError):
                os.unlink(_place(self._contents, instead_of.digest))
        return kept

    def swept(self) -> int:
        """Return a number that is another one once contents have gone that no manifest names."""
        try:
            return os.lstat(self.folder / "swept").st_mtime_ns
        except OSError:
            return 0

    @contextmanager
    def in_use(self, project: str, *, alone: bool = False) -> Iterator[None]:
        """Note that a command changes a project's files, or wait until none of ours does.

        Args:
            alone: nothing else may: whoever puts files back.

        Raises:
            BlockingIOError: a command does, and it is to be alone.
            OSError: the folder can't be made.
        """
        lock = self.locked(project, alone=alone)
        try:
            yield
        finally:
            os.close(lock)

    def locked(self, project: str, *, alone: bool = False) -> int:
        """Return a descriptor that holds what `in_use` does until it is closed."""
        self._make()
        name = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(self.folder / f"{name}.lock", flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB if alone else fcntl.LOCK_SH)
        except OSError:
            os.close(lock)
            raise
        return lock

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
        collected = _Collected(Contents(self._contents), bounds, self._known(project))
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
        digest = collected.contents.write(zlib.compress(json.dumps(_rows(manifest)).encode(), 1))
        left = len(manifest.left)
        kept = Kept(run, project, at, len(manifest.files), manifest.bytes, left, digest, collected.contents.written)
        write_own_json(self._name(run, project), {"form": FORM, **asdict(kept)}, required=True)
        return kept

    def manifest(self, record: Kept) -> Manifest:
        """Return the manifest.

        Raises:
            OSError: it is gone, or another than it was.
            ValueError: it is none.
        """
        content = json.loads(zlib.decompress(self.content(record.digest)))
        if tuple(content[name] for name in ("run", "project", "permit")) != (record.run, record.project, record.permit):
            raise OSError(f"what was kept as {record.digest} is not of {record.name}")
        return Manifest(
            content["run"],
            content["project"],
            content["at"],
            tuple(map(_file, content["files"])),
            tuple(LeftOut(*row) for row in content["left"]),
            permit=content["permit"],
            after=None if content["after"] is None else tuple(map(_file, content["after"])),
            until=content["until"],
            **{name: tuple(content[name]) for name in _PATHS},
        )

    def content(self, digest: str) -> bytes:
        """Return a content, whole and as it was.

        Raises:
            OSError: it is gone, or another than it was.
        """
        with self.opened(digest) as file:
            content: bytes = file.read()
            return content

    @contextmanager
    def opened(self, digest: str) -> Iterator[BinaryIO]:
        """Give a content that is whole and as it was, as a file.

        Raises:
            OSError: it is gone, or another than it was.
        """
        with open(os.open(_place(self._contents, digest), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                raise OSError(f"what was kept as {digest} is not what it was")
            file.seek(0)
            yield file

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
            self._name(each.run, each.project, each.permit).unlink(missing_ok=True)
        if gone:
            self._sweep()
        return len(gone)

    def _tidy(self, bounds: Bounds) -> None:
        """Let go what is too old, what nothing names any more, and the oldest, where all is more than that."""
        self._forget([each for each in self.all() if each.at < time.time_ns() // 1_000_000 - bounds.days * _DAY_MS])
        most, runs = _RUNS * bounds.bytes, self.all()
        if self.size() > most:
            self._sweep()
        while runs and (more := self.size() - most) > 0:
            gone: list[Kept] = []
            while runs and more > 0:
                gone.append(runs.pop())
                more -= gone[-1].written
            self._forget(gone)

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
                named |= {
                    kept.digest,
                    *(file.content for file in self.manifest(kept).files),
                }  # of `after`, none is kept
        (self.folder / "swept").touch(mode=0o600)
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
                settled = last.at * 1_000_000 - TICK_NS
                files = self.manifest(last).files
                return {(file.path, file.size, file.seen): file.content for file in files if file.seen[3] < settled}
        return {}

    def _name(self, run: str, project: str, permit: str = "") -> Path:
        digest = hashlib.sha256(f"{run}\0{project}\0{permit}".encode("utf-8", "surrogateescape")).hexdigest()
        return self._runs / f"{digest[:32]}.json"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Make the folder, and let no other process change it meanwhile."""
        self._make()
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _make(self) -> None:
        """Make the folders; none of them is a link, or somebody else's."""
        for each in (self.folder, self._contents, self._runs):
            try:
                about = os.lstat(each)
            except FileNotFoundError:
                each.mkdir(parents=True, exist_ok=True, mode=0o700)
                about = os.lstat(each)
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
                raise OSError(f"{each} is not a folder of this user's own")
            if about.st_mode & 0o077:
                os.chmod(each, 0o700)


class Contents:
    """Contents that are being written, each once, by their SHA-256; for this user alone, whatever they were."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.written = 0

    def has(self, digest: str) -> bool:
        """Tell whether a content is there."""
        return os.path.lexists(_place(self._folder, digest))

    def write(self, content: bytes) -> str:
        """Keep a content, and return its SHA-256.

        Raises:
            OSError: it can't be written.
        """
        digest = hashlib.sha256(content).hexdigest()
        try:
            if os.lstat(_place(self._folder, digest)).st_size == len(content):
                return digest
        except FileNotFoundError:
            pass
        with self._made() as (temporary, file):
            file.write(content)
            file.close()
            self._settle(temporary, digest, len(content))
        return digest

    def take(self, source: int, size: int, most: int) -> tuple[str, int]:
        """Keep the content of an open file, and return its SHA-256 and how long it is.

        It shares the blocks of the file where the file system can have it so; else it is copied.

        Args:
            source: a descriptor.
            size: as the file says.
            most: of a longer one nothing is kept; then "" is returned.

        Raises:
            UnreadableFile: it can't be read.
            OSError: it can't be written.
        """
        if size <= _SMALL:
            content = _read(source, most)
            return (self.write(content), len(content)) if len(content) <= most else ("", len(content))
        with self._made() as (temporary, file):
            shared = _shares(file.fileno(), source)
            length = os.fstat(file.fileno()).st_size if shared else _copied(source, file, most)
            if length > most:
                return "", length
            file.flush()
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            self._settle(temporary, digest, length)
            return digest, length

    def _settle(self, temporary: str, digest: str, length: int) -> None:
        place = _place(self._folder, digest)
        with suppress(FileNotFoundError):
            if os.lstat(place).st_size == length:
                return
        try:
            os.replace(temporary, place)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            os.replace(temporary, place)
        self.written += length

    @contextmanager
    def _made(self) -> Iterator[tuple[str, BufferedRandom]]:
        """A new file, which is gone afterwards unless it was given another name."""
        folder = f"{self._folder}/new"  # whoever is killed leaves it there, and nothing names it
        temporary = f"{folder}/{os.urandom(8).hex()}"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            descriptor = os.open(temporary, flags, 0o600)
        except FileNotFoundError:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, flags, 0o600)
        try:
            with open(descriptor, "w+b") as file:
                yield temporary, file
        finally:
            with suppress(OSError):
                os.unlink(temporary)


class _Collected:
    """What is being kept: files are taken while the bounds allow it."""

    def __init__(
        self, contents: Contents, bounds: Bounds, known: dict[tuple[str, int, tuple[int, int, int, int]], str]
    ) -> None:
        self.contents, self._bounds, self._known = contents, bounds, known
        self._room = bounds.bytes
        self._too_much = f"all together would be more than {bounds.bytes} bytes"
        self.files: list[KeptFile] = []
        self.left: list[LeftOut] = []

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
                self._add(path, about, len(content), self.contents.write(content))
            else:
                self._take_file(folder, name, path, about)

    def _unkept(self, about: os.stat_result) -> str:
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
            return "neither a file nor a link"
        if len(self.files) >= self._bounds.files:
            return f"there are more than {self._bounds.files} files"
        if about.st_size > self._room:
            return self._too_much
        return ""

    def _take_file(self, folder: int, name: str, path: str, about: os.stat_result) -> None:
        known = self._known.get((path, about.st_size, seen_of(about)))
        if known is not None and self.contents.has(known):
            self._add(path, about, about.st_size, known)
            return
        for _ in range(_ATTEMPTS):
            try:
                descriptor = open_file(folder, name)
            except OSError as error:
                self.left.append(LeftOut(path, f"it can't be read: {error.strerror or error}"))
                return
            try:
                about = os.fstat(descriptor)
                content, length = self.contents.take(descriptor, about.st_size, self._room)
                after = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except (UnreadableFile, FileNotFoundError) as error:
                self.left.append(LeftOut(path, f"it can't be read: {error.strerror}"))
                return
            finally:
                os.close(descriptor)
            if length > self._room:
                self.left.append(LeftOut(path, self._too_much))
                return
            if seen_of(after) == seen_of(about) and length == about.st_size:
                break
        else:
            self.left.append(LeftOut(path, "it changed while it was read, and is kept as it was at one moment of that"))
        self._add(path, about, length, content)

    def _add(self, path: str, about: os.stat_result, size: int, content: str) -> None:
        mode = stat.S_IFMT(about.st_mode) | stat.S_IMODE(about.st_mode) & PERMISSIONS
        self.files.append(KeptFile(path, mode, size, content, seen_of(about)))
        self._room -= size


def _read(source: int, most: int) -> bytes:
    """The content of a file; of a longer one than that, one byte more."""
    parts, read = list[bytes](), 0
    while read <= most and (part := _part(source, most + 1 - read)):
        parts.append(part)
        read += len(part)
    return b"".join(parts)


def _part(source: int, most: int) -> bytes:
    try:
        return os.read(source, min(_CHUNK, most))
    except OSError as error:
        raise UnreadableFile(error.errno, error.strerror) from error


def _shares(target: int, source: int) -> bool:
    """Have a new file share the blocks of another one; False where that can't be."""
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def _copied(source: int, target: BinaryIO, most: int) -> int:
    """Copy a file, and return how long it is; of a longer one than that, one byte more at most."""
    length = 0
    while length <= most and (part := _part(source, most + 1 - length)):
        target.write(part)
        length += len(part)
    return length


def seen_of(about: os.stat_result) -> tuple[int, int, int, int]:
    """Return what is another once a file was changed, or another stands in its place."""
    return about.st_dev, about.st_ino, about.st_mtime_ns, about.st_ctime_ns


def _by_worth(top: int, paths: Iterable[str]) -> list[str]:
    """What is nearer to the top comes first, and of that what is smaller, in case not all fits."""
    sizes = {path: about.st_size if (about := state_of(top, path)) is not None else 0 for path in paths}
    return sorted(sizes, key=lambda path: (path.count("/"), sizes[path], path))


def _rows(manifest: Manifest) -> dict[str, Any]:
    return {each.name: getattr(manifest, each.name) for each in fields(manifest)} | {
        "files": [_row(file) for file in manifest.files],
        "after": None if manifest.after is None else [_row(file) for file in manifest.after],
        "left": [(each.path, each.why) for each in manifest.left],
    }


def _row(file: KeptFile) -> tuple[Any, ...]:
    return file.path, file.mode, file.size, file.content, file.seen, file.why, file.owner, file.meaning


def _file(row: list[Any]) -> KeptFile:
    path, mode, size, content, seen, why, owner, meaning = row
    return KeptFile(path, mode, size, content, tuple(seen), why, tuple(owner), meaning)


def _counts(manifest: Manifest) -> dict[str, int]:
    """How many files a command made, changed and removed."""
    before = {file.path for file in manifest.files}
    after = {file.path: bool(file.mode) for file in manifest.after or ()}
    made = sum(path not in before for path in after)
    deleted = sum(not after.get(path, True) for path in before)
    return {"created": made, "changed": (len(before) if after else 0) - deleted, "deleted": deleted}


def _place(contents: Path, digest: str) -> str:
    return f"{contents}/{digest[:2]}/{digest}"


def _record(content: dict[str, Any] | None) -> Kept | None:
    try:
        if content is None or content.pop("form") != FORM:
            return None
        return Kept(**content)
    except (KeyError, TypeError):
        return None
