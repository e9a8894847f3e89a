"""Makes a project what a layer says that it is: all of it, or nothing, also where this process is killed at any moment.

First everything is looked at that the layer would change, and what it would put there lies beside it, in a folder of
the project. Then each path is changed by one rename between the project and that folder, so that what was there before
is kept there until the end. A file in our own folder (the record) says how far it has come. Where that ends between two
renames, the next start goes on; where something is in the way then, it goes back. What somebody has changed since it
was put there is not taken back: it stays, and what was there before is kept beside it.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import shutil
import stat
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.confine.held_run.layer import Change, Layer, State, content_of, parent
from humanlayer_agent.locations import read_own_json, write_own_json

RECORD = "application.json"
"""The name of the record, in the folder of the held run."""
_STAGE = ".hla-held-"
_KEPT = ".hla-kept-"
"""So a folder is called in a project that has what was there before, where that could not be put back."""
_NO_REPLACE, _EXCHANGE = 1, 2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FEW = 32
"""So many changes are written to the disk one by one; of more, all that the file system has yet to write."""
_BESIDE_A_DATABASE = ("-wal", "-shm", "-journal")
_MAGIC = b"SQLite format 3\0"


class NotApplied(Unenforceable):
    """Raised where a layer is not applied, and nothing has changed: the message says why."""


Way = Literal["create", "delete", "exchange", "mode"]


@dataclass(frozen=True, slots=True)
class Step:
    """One change by one system call.

    Args:
        way: put something there where nothing is; take something away; put something in the place of another; give a
            folder another mode.
        path: relative to the project.
        staged: what is put there, or where to what is taken away goes, in the folder beside it.
        inode: of what is put there.
        modes: of a folder, before and after.
    """

    way: Way
    path: str
    staged: str = ""
    inode: int = 0
    modes: tuple[int, int] = (0, 0)


def apply(layer: Layer, upper: Path, folder: Path, *, at: Callable[[str], None] = lambda where: None) -> None:
    """Apply a layer: what lies in it is what was seen, what lies below is unchanged, or nothing is done.

    Args:
        layer: as it was seen, and approved by its digest.
        upper: the folder in which its files lie.
        folder: of the held run, our own: the record is kept there.
        at: is told where it has come to.

    Raises:
        NotApplied: why nothing was changed.
    """
    if layer.refused:
        raise NotApplied(f"it can't be applied: {'; '.join(layer.refused)}")
    if not layer.changes:
        return
    try:
        with _locked(layer.project), ExitStack() as stack:
            top = _opened(layer.project, stack)
            _check_below(top, layer.changes)
            _check_open(layer.project, layer.changes)
            work = _Work(layer, folder, top, at)
            work.record("preparing")
            try:
                work.stage(_opened(str(upper), stack))
                _check_below(top, layer.changes, work.locks)
                work.record("forward")
            except BaseException:
                work.clear()
                raise
            work.forward()
    except OSError as error:
        named = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        raise NotApplied(f"it can't be applied: {named}{error.strerror or error}") from None


def recover(folder: Path, *, at: Callable[[str], None] = lambda where: None) -> str:
    """Make good for a process that was killed while it applied the layer of a held run.

    Args:
        folder: of the held run.
        at: is told where it has come to.

    Returns:
        What was done, for people; "" where nothing had to be.

    Raises:
        NotApplied: it can neither go on nor back: somebody has changed the same paths since. What it is about is said.
    """
    content = read_own_json(folder / RECORD)
    if content is None:
        return ""
    layer = Layer.read(content["layer"])
    try:
        with _locked(layer.project), ExitStack() as stack:
            content = read_own_json(folder / RECORD)
            if content is None:  # another process was first, or it was applied meanwhile
                return ""
            work = _Work(layer, folder, _opened(layer.project, stack), at, content)
            if content["stage"] == "forward":
                try:
                    work.forward(again=True)
                except NotApplied as why:
                    return f"the changes of a held run in {layer.project} were taken back: {why}"
                return f"the changes of a held run in {layer.project} that was interrupted were completed"
            if content["stage"] == "back":
                stays = "".join(f"; {each}" for each in work.back())
                return f"the changes of a held run in {layer.project} that was interrupted were taken back{stays}"
            work.clear()
            return ""
    except OSError as error:
        raise NotApplied(f"{layer.project}: a held run was applied in part: {error}") from None


@contextmanager
def _locked(project: str) -> Iterator[None]:
    """Let no two layers be applied to a project at once: who is killed lets go."""
    descriptor = os.open(project, _FOLDER)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _opened(path: str, stack: ExitStack) -> int:
    descriptor = os.open(path, _FOLDER)
    stack.callback(os.close, descriptor)
    return descriptor


# ---- what lies below ----------------------------------------------------------------------------------


def _check_below(top: int, changes: Sequence[Change], ours: Sequence[str] = ()) -> None:
    """Raise NotApplied where anything that the layer changes is not what it lay over."""
    gone = {each.path for each in changes if each.after is None}
    children: dict[str, set[str]] = {}
    for each in changes:
        if each.before is not None:
            above, _, name = each.path.rpartition("/")
            children.setdefault(above, set()).add(name)
    for each in changes:
        now = _look(top, each.path)
        if each.before is None:
            if now is not None:
                raise NotApplied(f"{each.path} has appeared since")
            continue
        if now is None or not State.of(now).is_still(each.before):
            raise NotApplied(f"{each.path} has changed since")
        if each.before.type == "folder" and (each.path in gone or (each.after and each.after.type != "folder")):
            with parent(top, each.path) as (folder, name):
                if set(_names(name, folder)) != children.get(each.path, set()):
                    raise NotApplied(f"{each.path} has changed since")
        if each.before.type == "file" and each.before.content and each.after is not None:
            with parent(top, each.path) as (folder, name):
                if _content(name, folder) != each.before.content:
                    raise NotApplied(f"{each.path} has changed since")
    for path in {_lock_of(each.path) for each in changes if _is_git(each.path)} - {""}:
        if path not in ours and _look(top, path) is not None:
            raise NotApplied(f"git is at work: {path} is there")


def _is_git(path: str) -> bool:
    return ".git" in path.split("/")


def _look(top: int, path: str) -> os.stat_result | None:
    """Return what stands at a path; None where nothing does."""
    try:
        with parent(top, path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _names(name: str, folder: int) -> list[str]:
    below = os.open(name, _FOLDER, dir_fd=folder)
    try:
        return os.listdir(below)
    finally:
        os.close(below)


def _content(name: str, folder: int) -> str:
    descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        return content_of(descriptor)
    finally:
        os.close(descriptor)


def _check_open(project: str, changes: Sequence[Change]) -> None:
    """Raise NotApplied where a program has a file open that the layer changes: it would go on with the former one. Of
    a database that is one whose log lies beside it.
    """
    files = {
        (each.before.device, each.before.inode): each.path
        for each in changes
        if each.before is not None and each.before.type == "file"
    }
    for path in files.values():
        with suppress(OSError), open(f"{project}/{path}", "rb") as file:
            beside = [f"{path}{end}" for end in _BESIDE_A_DATABASE if os.path.lexists(f"{project}/{path}{end}")]
            if beside and file.read(len(_MAGIC)) == _MAGIC:
                raise NotApplied(f"{path} is a database in use: {beside[0]} is there")
    if not files:
        return
    for process in os.listdir("/proc"):
        if process.isdigit() and int(process) != os.getpid():
            with suppress(OSError):
                for number in os.listdir(f"/proc/{process}/fd"):
                    with suppress(OSError):
                        about = os.stat(f"/proc/{process}/fd/{number}")
                        if (found := files.get((about.st_dev, about.st_ino))) and stat.S_ISREG(about.st_mode):
                            raise NotApplied(f"{found} is open in another program (process {process})")


# ---- applying -----------------------------------------------------------------------------------------


class _Work:
    """A layer that is being applied: the record, the folder beside the project's files, and the steps."""

    def __init__(
        self,
        layer: Layer,
        folder: Path,
        top: int,
        at: Callable[[str], None],
        content: Mapping[str, Any] | None = None,
    ) -> None:
        self._layer, self._folder, self._top, self._at = layer, folder, top, at
        self._name = str(content["name"]) if content else _STAGE + os.urandom(8).hex()
        self._steps = tuple(_step(each) for each in content["steps"]) if content else ()
        self.locks: tuple[str, ...] = tuple(content["locks"]) if content else ()
        self._states = {each.path: each for each in layer.changes}
        self._paths = sorted(self._states)
        self._stay: dict[str, list[str]] = {}
        """By folder, what is in it with the layer that the layer has."""
        for path in self._paths:
            if self._states[path].after is not None:
                above, _, name = path.rpartition("/")
                self._stay.setdefault(above, []).append(name)
        self._fewer = len(layer.changes) <= _FEW

    def record(self, stage: str) -> None:
        """Write how far it has come: durably, before steps are taken by it."""
        content = {
            "layer": self._layer.as_data(),
            "name": self._name,
            "stage": stage,
            "steps": [asdict(each) for each in self._steps],
            "locks": self.locks,
        }
        write_own_json(self._folder / RECORD, content, required=True)
        if stage in ("forward", "back"):  # of the others nothing hangs on whether they outlast a power failure
            _sync(self._folder / RECORD)
            _sync(self._folder)
        self._at(stage)

    def stage(self, upper: int) -> None:
        """Put beside the project's files what is to come there, as it was seen.

        Raises:
            NotApplied: what lies in the layer is not what was seen.
        """
        os.mkdir(self._name, 0o700, dir_fd=self._top)
        stage = os.open(self._name, _FOLDER, dir_fd=self._top)
        try:
            steps, modes = [], []
            for number, (way, change) in enumerate(_ways(self._layer.changes)):
                self._at("staging")
                before, after, staged, inode = change.before, change.after, str(number), 0
                if way == "mode" and before is not None and after is not None:
                    steps.append(Step(way, change.path, modes=(before.mode, after.mode)))
                    continue
                if after is not None:
                    mode = after.mode | (stat.S_IWUSR if after.type == "folder" else 0)  # else it can't be moved
                    self._copy(upper, change.path, stage, staged, mode)
                    inode = os.stat(staged, dir_fd=stage, follow_symlinks=False).st_ino
                    if mode != after.mode:
                        modes.append(Step("mode", change.path, modes=(mode, after.mode)))
                steps.append(Step(way, change.path, staged, inode))
            steps += modes
            self._steps = tuple(steps)
            if self._fewer:
                os.fsync(stage)
            elif _libc().syncfs(stage) != 0:
                raise OSError(ctypes.get_errno(), "what is to be applied can't be written to the disk")
        finally:
            os.close(stage)
        self.locks = tuple(sorted({_lock_of(each.path) for each in self._steps if _is_git(each.path)} - {""}))
        self.record("preparing")  # before the locks: what is left behind is known by its content
        for path in self.locks:
            with suppress(FileNotFoundError), parent(self._top, path) as (folder, name):
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
                with open(os.open(name, flags, 0o600, dir_fd=folder), "w") as lock:
                    lock.write(self._name)

    def _copy(self, upper: int, path: str, stage: int, name: str, mode: int | None = None) -> None:
        """Make what the layer has at a path, with all below it, and make sure that it is what was seen.

        Args:
            mode: where it is to be another one than in the layer.
        """
        state = self._states[path].after
        assert state is not None
        mode = state.mode if mode is None else mode
        if state.type == "folder":
            os.mkdir(name, 0o700, dir_fd=stage)
            folder = os.open(name, _FOLDER, dir_fd=stage)
            try:
                for below in self._stay.get(path, ()):
                    self._copy(upper, f"{path}/{below}", folder, below)
                if state.gid != os.fstat(folder).st_gid:
                    os.fchown(folder, -1, state.gid)
                os.fchmod(folder, mode)
                os.utime(folder, ns=(state.modified, state.modified))
                if self._fewer:
                    os.fsync(folder)
            finally:
                os.close(folder)
            return
        with parent(upper, path) as (source, own):
            if state.type == "link":
                target = os.fsencode(os.readlink(own, dir_fd=source))
                os.symlink(target, os.fsencode(name), dir_fd=stage)
                os.utime(name, ns=(state.modified, state.modified), dir_fd=stage, follow_symlinks=False)
                seen = State.of(os.stat(name, dir_fd=stage, follow_symlinks=False)).type == "link"
                if not seen or hashlib.sha256(target).hexdigest() != state.content:
                    raise NotApplied(f"{path} is not in the layer as it was seen")
                return
            if not state.mode & stat.S_IRUSR:  # in the layer, which is ours alone
                handle = os.open(own, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
                try:
                    os.chmod(f"/proc/self/fd/{handle}", state.mode | stat.S_IRUSR)
                finally:
                    os.close(handle)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with (
                open(os.open(own, _FILE, dir_fd=source), "rb") as file,
                open(os.open(name, flags, 0o600, dir_fd=stage), "wb+") as made,
            ):
                shutil.copyfileobj(file, made, 1 << 20)
                made.flush()
                if content_of(made.fileno()) != state.content:
                    raise NotApplied(f"{path} is not in the layer as it was seen")
                if state.gid != os.fstat(made.fileno()).st_gid:
                    os.fchown(made.fileno(), -1, state.gid)
                os.fchmod(made.fileno(), state.mode)
                os.utime(made.fileno(), ns=(state.modified, state.modified))
                if self._fewer:
                    os.fsync(made.fileno())

    def forward(self, *, again: bool = False) -> None:
        """Take each step that was not taken; where one can't be, take all of them back.

        Args:
            again: it was interrupted, and somebody may have changed what lies beside the project's files.

        Raises:
            NotApplied: they were taken back.
            OSError: that can't be either: what was is in the folder beside, which stays.
        """
        try:
            for step in self._steps:
                if not self._is_done(step):
                    if again and step.way in ("create", "exchange"):
                        with self._stage() as stage:
                            self._check_put(step, stage, step.staged, contents=True)
                    self._do(step)
                    self._at("step")
                self._check(step)
        except (OSError, NotApplied) as error:
            self.record("back")
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            raise NotApplied("; ".join((why, *self.back()))) from None
        self._end()

    def back(self) -> list[str]:
        """Take back each step that was taken, the last first, but where somebody has changed something since: there
        what they have is left as it is.

        Returns:
            A sentence about each of these, without a full stop.
        """
        stays = []
        for step in reversed(self._steps):
            if self._is_done(step):
                try:
                    self._undo(step)
                except (NotApplied, FileNotFoundError, NotADirectoryError):
                    stays.append(step)
                self._at("back")
        said = [f"{step.path} was changed meanwhile, and stays so{self._kept(step)}" for step in stays]
        self._keep({step.staged for step in stays})
        self._end()
        return said

    def _kept(self, step: Step) -> str:
        there = step.way in ("delete", "exchange") and _look(self._top, f"{self._name}/{step.staged}") is not None
        return f" (what was there before is kept as {self._kept_name}/{step.staged})" if there else ""

    @property
    def _kept_name(self) -> str:
        return _KEPT + self._name.removeprefix(_STAGE)

    def _keep(self, names: Collection[str]) -> None:
        """Give what is left of the folder beside the project's files another name, if it is these."""
        try:
            with self._stage() as stage:
                found = os.listdir(stage)
                if not set(found).intersection(names):
                    return
                for each in set(found).difference(names):
                    _remove(each, stage)
            _rename(self._top, self._name, self._top, self._kept_name, _NO_REPLACE)
        except FileNotFoundError:
            return

    def _end(self) -> None:
        for path in {os.path.dirname(each.path) for each in self._steps}:
            with suppress(OSError):
                folder = os.open(path or ".", _FOLDER, dir_fd=self._top)
                os.fsync(folder)
                os.close(folder)
        self.record("ended")
        self.clear()

    def clear(self) -> None:
        """Remove the folder beside the project's files, the locks, and the record: nothing more is to be done."""
        for path in self.locks:
            with suppress(OSError), parent(self._top, path) as (folder, name):
                with open(os.open(name, _FILE, dir_fd=folder)) as lock:
                    ours = lock.read(len(self._name) + 1) == self._name
                if ours:
                    os.unlink(name, dir_fd=folder)
        with suppress(FileNotFoundError):
            _remove(self._name, self._top)
        self._at("cleared")
        (self._folder / RECORD).unlink(missing_ok=True)

    def _is_done(self, step: Step) -> bool:
        if step.way == "mode":
            found = _look(self._top, step.path)
            return found is not None and stat.S_IMODE(found.st_mode) == step.modes[1]
        staged = _look(self._top, f"{self._name}/{step.staged}")
        if step.way == "create":
            return staged is None
        return staged is not None if step.way == "delete" else staged is not None and staged.st_ino != step.inode

    def _do(self, step: Step) -> None:
        if step.way == "mode":
            self._set_mode(step.path, *step.modes)
            return
        with parent(self._top, step.path) as (folder, name), self._stage() as stage:
            if step.way == "delete":
                _rename(folder, name, stage, step.staged, _NO_REPLACE)
            else:
                _rename(stage, step.staged, folder, name, _NO_REPLACE if step.way == "create" else _EXCHANGE)

    def _undo(self, step: Step) -> None:
        if step.way == "mode":
            self._set_mode(step.path, step.modes[1], step.modes[0])
            return
        if step.way != "delete":
            self._check_put(step, self._top, step.path)
        with parent(self._top, step.path) as (folder, name), self._stage() as stage:
            if step.way == "create":
                _rename(folder, name, stage, step.staged, _NO_REPLACE)
            else:
                _rename(stage, step.staged, folder, name, _NO_REPLACE if step.way == "delete" else _EXCHANGE)

    def _set_mode(self, path: str, before: int, after: int) -> None:
        with parent(self._top, path) as (folder, name):
            handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                if stat.S_IMODE(os.fstat(handle).st_mode) != before:
                    raise NotApplied(f"{path} has changed since")
                os.chmod(f"/proc/self/fd/{handle}", after)
            finally:
                os.close(handle)

    def _check(self, step: Step) -> None:
        """Make sure that what a step has taken away is what was seen: somebody may have been quicker.

        Raises:
            NotApplied: it is not.
        """
        if step.way not in ("delete", "exchange"):
            return
        with self._stage() as stage:
            for path, change in self._under(step.path):
                before = change.before
                if before is None:
                    continue
                now = _look(stage, step.staged + path[len(step.path) :])
                # A rename changes the time of change of what is renamed itself.
                same = now is not None and _is_same(State.of(now), before, moved=path == step.path)
                if same and before.type == "file" and before.content and path == step.path:
                    same = _content(step.staged, stage) == before.content
                if not same:
                    raise NotApplied(f"{path} has changed since")

    def _check_put(self, step: Step, top: int, place: str, *, contents: bool = False) -> None:
        """Make sure that what a step puts into its place is as it was made, whether it is there or still beside it.

        Args:
            step: the step.
            top, place: where that is now: a descriptor of a folder, and the path from it.
            contents: read files: whoever had the time could set back what a look tells.

        Raises:
            NotApplied: somebody has changed it.
        """
        for path, change in self._under(step.path):
            after = change.after
            if after is None:
                continue
            here = place + path[len(step.path) :]
            now = _look(top, here)
            same = now is not None and _is_as_put(State.of(now), after)
            same = same and (path != step.path or (now is not None and now.st_ino == step.inode))
            with parent(top, here) if same else nullcontext((top, here)) as (folder, name):
                if not after.mode & stat.S_IRUSR:  # it can't be read, as it was made
                    pass
                elif same and after.type == "folder":
                    same = set(self._stay.get(path, ())).issuperset(_names(name, folder))
                elif same and contents and after.type == "link":
                    target = os.fsencode(os.readlink(name, dir_fd=folder))
                    same = hashlib.sha256(target).hexdigest() == after.content
                elif same and contents:
                    same = _content(name, folder) == after.content
            if not same:
                raise NotApplied(f"{path} has changed since")

    def _under(self, path: str) -> Iterator[tuple[str, Change]]:
        """What the layer has at a path, and below it."""
        if path in self._states:
            yield path, self._states[path]
        first, end = (bisect_left(self._paths, path + sign) for sign in ("/", "0"))  # "0" comes right after "/"
        for each in self._paths[first:end]:
            yield each, self._states[each]

    @contextmanager
    def _stage(self) -> Iterator[int]:
        stage = os.open(self._name, _FOLDER, dir_fd=self._top)
        try:
            yield stage
        finally:
            os.close(stage)


def _is_same(now: State, before: State, *, moved: bool) -> bool:
    same = (now.type, now.mode, now.uid, now.gid, now.inode) == (
        before.type, before.mode, before.uid, before.gid, before.inode,
    )  # fmt: skip
    same = same and now.modified == before.modified and (now.type == "folder" or now.size == before.size)
    return same and (moved or now.changed == before.changed)


def _is_as_put(now: State, after: State) -> bool:
    """Tell whether something is as it was put there; a folder may be writable for as long as it is moved."""
    if after.type == "folder":
        return now.type == "folder" and now.mode in (after.mode, after.mode | stat.S_IWUSR)
    same = (now.type, now.size, now.modified) == (after.type, after.size, after.modified)
    return same and (after.type == "link" or now.mode == after.mode)


def _step(data: Mapping[str, Any]) -> Step:
    before, after = data["modes"]
    return Step(data["way"], data["path"], data["staged"], data["inode"], (before, after))


def _ways(changes: Sequence[Change]) -> Iterator[tuple[Way, Change]]:
    """The steps that make all these changes: of a folder that comes, or goes, one for all below it. Folders that may be
    written only after it get their mode first, all others last.
    """
    covered: set[str] = set()
    found: list[tuple[Way, Change]] = []
    modes: list[Change] = []
    for change in sorted(changes, key=lambda each: each.path.count("/")):  # a folder before what is below it
        before, after = change.before, change.after
        if any(above in covered for above in _above(change.path)):
            continue
        if before is not None and after is not None and before.type == after.type == "folder":
            modes.append(change)
            continue
        found.append(("create" if before is None else "delete" if after is None else "exchange", change))
        covered.add(change.path)
    first = [each for each in modes if each.after is not None and each.after.mode & stat.S_IWUSR]
    yield from (("mode", each) for each in first)
    yield from found
    yield from (("mode", each) for each in modes if each not in first)


def _above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _lock_of(path: str) -> str:
    parts = path.split("/")
    at = parts.index(".git")
    return "/".join([*parts[: at + 1], "index.lock"]) if at + 1 < len(parts) else ""


def _remove(name: str, top: int) -> None:
    """Remove a file, or a folder with all in it, of ours, whatever rights were taken away there."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=top, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=top)
        return
    folder = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        _give_rights(f"/proc/self/fd/{folder}")
    finally:
        os.close(folder)
    shutil.rmtree(name, dir_fd=top)


def _give_rights(folder: str) -> None:
    os.chmod(folder, 0o700)
    with os.scandir(folder) as entries:
        below = [each.path for each in entries if each.is_dir(follow_symlinks=False)]
    for each in below:
        _give_rights(each)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rename(from_folder: int, name: str, to_folder: int, other: str, flags: int) -> None:
    """renameat2: replaces nothing, or exchanges both."""
    if _libc().renameat2(from_folder, os.fsencode(name), to_folder, os.fsencode(other), flags) != 0:
        number = ctypes.get_errno()
        if number == errno.EEXIST:
            raise NotApplied(f"{other} has appeared since")
        raise OSError(number, os.strerror(number), name)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
