"""The changes that lie in the layer of a held run, as overlayfs writes them down, and what of them can be applied.

A file that is deleted stands in the layer as a device 0/0, and a folder that hides all below it has an attribute; what
is below such a folder carries no mark of its own. https://docs.kernel.org/filesystems/overlayfs.html
"""

import difflib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any, Literal

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.confine.confinement import Confinement
from humanlayer_agent.confine.held_run.overlay_mount import LARGEST_FILE
from humanlayer_agent.safe_text import one_line

MOST_ENTRIES = 50_000
"""Most entries, of the layer and of what lies below it, that are looked at."""
MOST_BYTES = 1 << 29
"""Most bytes that are read to compare contents."""
_DEEPEST = 200
_LARGEST_TEXT = 1 << 18
_LONGEST_DIFF = 1 << 16  # characters of one file's
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_OPAQUE = "user.overlay.opaque"
_NOT_OURS = ("user.overlay.", "security.selinux")
"""Attributes of files that overlayfs writes, or the system on every file."""
_CONTROLS = ("config", "config.worktree", "commondir", "gitdir", "info/attributes", "objects/info/alternates")
"""What in a folder of git's says which code runs, or where git finds more of it."""
_NOT_MOVED = ("Invalid cross-device link", "EXDEV", "cross-device link not permitted")
_SHOWN = 3

Kind = Literal["created", "modified", "deleted", "metadata", "renamed"]
Type = Literal["file", "folder", "link", "special"]


@dataclass(frozen=True, slots=True)
class State:
    """A file, folder or link as it stands at a path, or will.

    Args:
        type: a special file is what is neither of the others.
        mode: its permissions.
        uid, gid, size, modified, changed, inode, device, links: as the kernel says them (times in ns).
        content: SHA-256 of a file's bytes, or of where a link leads; "" where that was not looked at.
        attributed: it has attributes beside these (an access list, for example).
    """

    type: Type
    mode: int
    uid: int
    gid: int
    size: int
    modified: int
    changed: int
    inode: int
    device: int
    links: int
    content: str = ""
    attributed: bool = False

    @classmethod
    def of(cls, about: os.stat_result) -> "State":
        """Return it as a look tells, without the content."""
        kinds: dict[int, Type] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
        return cls(
            kinds.get(stat.S_IFMT(about.st_mode), "special"),
            stat.S_IMODE(about.st_mode),
            about.st_uid,
            about.st_gid,
            about.st_size,
            about.st_mtime_ns,
            about.st_ctime_ns,
            about.st_ino,
            about.st_dev,
            about.st_nlink,
        )

    def is_still(self, other: "State") -> bool:
        """Tell whether another look found the same, unchanged since (the content is not compared)."""
        return replace(self, content="", attributed=False) == replace(other, content="", attributed=False)


@dataclass(frozen=True, slots=True)
class Change:
    """One path that is another one, or none, or a new one, with the layer.

    Args:
        path: relative to the project.
        kind: of a renamed file stands its new path here, and its former one by itself, as deleted.
        before, after: what stands there without and with the layer; None where nothing does.
        source: the former path of what was renamed.
    """

    path: str
    kind: Kind
    before: State | None
    after: State | None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Layer:
    """All that a held run has changed in a project, and how the run ended.

    Args:
        project: the folder that the layer lies over, by a path without links.
        changes: by path.
        returncode, output: how the command ended, and the SHA-256 of what it has printed.
        refused: why it can't be applied; empty where it can.
    """

    project: str
    changes: tuple[Change, ...]
    returncode: int | None
    output: str
    refused: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Return the SHA-256 of its canonical JSON: an approval is for this layer, over what lay below it."""
        return hashlib.sha256(canonical(self.as_data())).hexdigest()

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON can say it."""
        return {
            "project": encodable(self.project),
            "changes": [
                [encodable(each.path), each.kind, _data(each.before), _data(each.after), encodable(each.source)]
                for each in self.changes
            ],
            "returncode": self.returncode,
            "output": self.output,
            "refused": [encodable(each) for each in self.refused],
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Layer":
        """Return the layer that `as_data` wrote.

        Raises:
            ValueError: it is none.
        """
        try:
            found = [
                Change(_text(path), kind, _state(before), _state(after), _text(source))
                for path, kind, before, after, source in data["changes"]
            ]
            refused = tuple(_text(each) for each in data["refused"])
            return cls(_text(data["project"]), tuple(found), data["returncode"], data["output"], refused)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"no layer of a held run: {error}") from None


def _data(state: State | None) -> list[object] | None:
    """A state as JSON: its numbers as texts, since they may be larger than what JSON can say."""
    return None if state is None else [str(each) if type(each) is int else each for each in astuple(state)]


def _state(data: list[Any] | None) -> State | None:
    if data is None:
        return None
    kind, *numbers, content, attributed = data
    mode, uid, gid, size, modified, changed, inode, device, links = map(int, numbers)
    return State(kind, mode, uid, gid, size, modified, changed, inode, device, links, content, attributed)


def _text(value: Any) -> str:
    """The text that `encodable` wrote."""
    if isinstance(value, dict):
        import base64

        return base64.b64decode(value["base64"]).decode("utf-8", value["encoding"])
    if not isinstance(value, str):
        raise TypeError("a text is needed")
    return value


# ---- what lies in a layer -----------------------------------------------------------------------------


class _Look:
    """One look at a layer and at what lies below it, by descriptors: no link is followed."""

    def __init__(self, below: int, upper: int) -> None:
        self.before: dict[str, State] = {}
        self.after: dict[str, State] = {}
        self.why: list[str] = []
        self._entries = self._bytes = 0
        self._below, self._upper = below, upper

    def changes(self) -> list[Change]:
        """Return what differs, by path."""
        try:
            self._walk(self._upper, self._below, "", 0)
            self._compare()
        except OSError as error:
            self.why.append(f"its changes can't be looked through: {error.filename or ''} {error.strerror}".strip())
        except OverflowError as error:
            self.why.append(str(error))
        found = []
        for path in sorted(self.before.keys() | self.after.keys()):
            before, after = self.before.get(path), self.after.get(path)
            if (kind := _kind(before, after)) is not None:
                found.append(Change(path, kind, before, after))
        return _with_renames(found)

    def _count(self) -> None:
        self._entries += 1
        if self._entries > MOST_ENTRIES:
            raise OverflowError(f"it changes more than {MOST_ENTRIES:,} files and folders")

    def _walk(self, upper: int, below: int | None, path: str, depth: int) -> None:
        if depth > _DEEPEST:
            raise OverflowError("its folders are too deep")
        for name in sorted(os.listdir(upper)):
            self._count()
            place = f"{path}/{name}" if path else name
            about = os.stat(name, dir_fd=upper, follow_symlinks=False)
            under = _stat(name, below)
            if stat.S_ISCHR(about.st_mode) and about.st_rdev == 0:
                self._note_below(name, below, under, place, depth)
                continue
            self.after[place] = State.of(about)
            if not stat.S_ISDIR(about.st_mode):
                self._note_below(name, below, under, place, depth)
                continue
            with _opened(name, upper, _FOLDER, about.st_mode) as folder:
                merged = under is not None and stat.S_ISDIR(under.st_mode) and not _is_opaque(folder)
                if not merged:
                    self._note_below(name, below, under, place, depth)
                if _attributed(folder):
                    self.after[place] = replace(self.after[place], attributed=True)
                with _opened(name, below, _FOLDER) if merged and below is not None else _nothing() as deeper:
                    if merged and under is not None:
                        self.before[place] = replace(State.of(under), attributed=_attributed(deeper))
                    self._walk(folder, deeper if merged else None, place, depth + 1)

    def _note_below(self, name: str, below: int | None, under: os.stat_result | None, path: str, depth: int) -> None:
        """Note what the layer hides: a file, or a folder with all below it."""
        if below is None or under is None:
            return
        self._count()
        if depth > _DEEPEST:
            raise OverflowError("the folders that it changes are too deep")
        self.before[path] = State.of(under)
        if stat.S_ISDIR(under.st_mode):
            with _opened(name, below, _FOLDER) as folder:
                for each in sorted(os.listdir(folder)):
                    self._note_below(each, folder, _stat(each, folder), f"{path}/{each}", depth + 1)

    def _compare(self) -> None:
        """Read the contents of what is new, and of what it could be the same as."""
        for path, state in self.after.items():
            self.after[path] = self._with_content(self._upper, path, state)
        sizes = {each.size for path, each in self.after.items() if path not in self.before and each.type == "file"}
        for path, state in self.before.items():
            if path in self.after or (state.type == "file" and state.size in sizes):
                try:
                    self.before[path] = self._with_content(self._below, path, state)
                except OSError as error:
                    if path in self.after:
                        self.why.append(f"{path} can't be read: {error.strerror}")

    def _with_content(self, top: int, path: str, state: State) -> State:
        if state.type not in ("file", "link"):
            return state
        with parent(top, path) as (folder, name):
            if state.type == "link":
                target = os.fsencode(os.readlink(name, dir_fd=folder))
                return replace(state, content=hashlib.sha256(target).hexdigest())
            self._bytes += state.size
            if self._bytes >= MOST_BYTES:
                raise OverflowError(f"it changes more than {MOST_BYTES:,} bytes")
            with _opened(name, folder, _FILE, state.mode if top == self._upper else None) as file:
                return replace(state, content=content_of(file), attributed=_attributed(file))


def looked(below: int, upper: int) -> tuple[list[Change], list[str]]:
    """Return what lies in a layer, and why not all of it could be looked at.

    Args:
        below: a descriptor of the folder that it lies over. upper: of its own.
    """
    look = _Look(below, upper)
    return look.changes(), look.why


def _kind(before: State | None, after: State | None) -> Kind | None:
    if before is None or after is None:
        return "created" if before is None else "deleted"
    if before.type != after.type or before.content != after.content:
        return "modified"
    if before.mode != after.mode or before.attributed != after.attributed or before.gid != after.gid:
        return "metadata"
    return "metadata" if before.type != "folder" and before.modified != after.modified else None


def _with_renames(changes: list[Change]) -> list[Change]:
    """Have files that are gone at one place and new at another told of as renamed."""
    gone: dict[tuple[str, int], list[str]] = {}
    for each in changes:
        if each.kind == "deleted" and each.before is not None and each.before.content and each.before.size:
            gone.setdefault((each.before.content, each.before.mode), []).append(each.path)
    found = []
    for each in changes:
        sources = gone.get((each.after.content, each.after.mode)) if each.kind == "created" and each.after else None
        found.append(replace(each, kind="renamed", source=sources.pop(0)) if sources else each)
    return found


def _stat(name: str, folder: int | None) -> os.stat_result | None:
    if folder is None:
        return None
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return None


def _is_opaque(folder: int) -> bool:
    with suppress(OSError):
        return os.getxattr(folder, _OPAQUE) in (b"y", b"x")
    return False


def _attributed(descriptor: int | None) -> bool:
    if descriptor is None:
        return False
    try:
        return any(not each.startswith(_NOT_OURS) for each in os.listxattr(descriptor))
    except OSError:  # a file system without them
        return False


@contextmanager
def _nothing() -> Iterator[int | None]:
    yield None


@contextmanager
def _opened(name: str, folder: int | None, flags: int, mode: int | None = None) -> Iterator[int]:
    """Give a descriptor to read by. Of what lies in our own layer, with `mode`, rights that were taken away are given
    for that long.
    """
    rights = stat.S_IRUSR | (stat.S_IXUSR if flags & os.O_DIRECTORY else 0)
    if mode is None or mode & rights == rights:
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        return
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | rights)
        try:
            with _opened(name, folder, flags) as descriptor:
                yield descriptor
        finally:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode))
    finally:
        os.close(handle)


@contextmanager
def parent(top: int, path: str) -> Iterator[tuple[int, str]]:
    """Give a descriptor of the folder in which a path is, and its name there. No link on the way is followed.

    Args:
        top: a descriptor of the folder that the path is relative to.
        path: without `..`.

    Raises:
        OSError: a part is missing, or is no folder.
    """
    *folders, name = path.split("/")
    if any(part in ("", ".", "..") for part in (*folders, name)):
        raise OSError(22, "not a path of a project's own file", path)
    here = os.dup(top)
    try:
        for each in folders:
            below = os.open(each, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


def content_of(descriptor: int) -> str:
    """Return the SHA-256 of a file's bytes, from its beginning."""
    digest = hashlib.sha256()
    at = 0
    while data := os.pread(descriptor, 1 << 20, at):
        digest.update(data)
        at += len(data)
    return digest.hexdigest()


# ---- what can be applied ------------------------------------------------------------------------------


def obstacles(changes: Iterable[Change], confinement: Confinement, project: str, *, since: int) -> list[str]:
    """Return why these changes can't be applied; nothing where they can.

    Args:
        confinement: what the command was confined to.
        project: the folder that they are of.
        since: when the run began (ns, as the file system tells it): what changed below since then was seen half.
    """
    changes = list(changes)
    uid, device = os.geteuid(), os.stat(project).st_dev
    found: dict[str, list[str]] = {}

    def note(why: str, path: str) -> None:
        found.setdefault(why, []).append(path)

    for each in changes:
        for why in _of_one(each, uid, device):
            note(why, each.path)
        if each.before is not None and each.before.changed >= since:
            note("something else changed these meanwhile", each.path)
        if not confinement.writes(f"{project}/{each.path}"):
            note("it changes what is protected", each.path)
        elif _says_what_runs(each.path):
            note("it changes what git runs code by", each.path)
        elif os.path.basename(each.path) == "index.lock":
            note("git is at work there", each.path)
    for path in _repositories(changes):
        note("it makes a folder that git takes for a repository", path)
    return [f"{why}: {_listed(paths)}" for why, paths in found.items()]


def moves_refused(output: str) -> list[str]:
    """Return why a held run may have gone another way than a real one, as its output shows: no folder that lies below
    a layer can be renamed there. (`mv` copies then, and says nothing.)
    """
    shown = any(sign in output for sign in _NOT_MOVED)
    return ["it could not rename a folder, which it can in a real run"] if shown else []


def _of_one(change: Change, uid: int, device: int) -> Iterator[str]:
    """Give what of one change a rename of files beside each other would not make the same."""
    before, after = change.before, change.after
    states = [state for state in (before, after) if state is not None]
    if after is not None and after.type == "special":
        yield "it makes special files"
    if after is not None and after.type == "file" and after.size >= LARGEST_FILE:
        yield "it makes files that are larger than a held run may"
    if after is not None and after.type != "folder" and after.links > 1:
        yield "it makes hard links"
    if before is not None and after is not None and before.type != "folder" and before.links > 1:
        yield "it changes files that have other names as well (hard links)"
    if any(state.attributed for state in states):
        yield "it changes files that have access lists or other attributes"
    if after is not None and after.type != "link" and after.mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX):
        yield "it gives files or folders rights beyond reading, writing and running"
    if before is not None and after is not None and before.type == "folder" and before.gid != after.gid:
        yield "it changes the group of folders"
    gone = before is not None and before.type == "folder" and (after is None or after.type != "folder")
    if gone and before is not None and uid and not before.mode & stat.S_IWUSR:
        yield "it removes folders that can't be written"
    if any(state.uid != uid for state in states):
        yield "it changes files of another user"
    if before is not None and before.device != device:
        yield "it changes files on another file system"


def _says_what_runs(path: str) -> bool:
    parts = path.split("/")
    if ".git" not in parts:
        return False
    inside = "/".join(parts[parts.index(".git") + 1 :])
    return not inside or inside.endswith(_CONTROLS) or "hooks" in inside.split("/")[:-1]


def _repositories(changes: Iterable[Change]) -> Iterator[str]:
    new = {each.path for each in changes if each.before is None}
    for path in sorted(new):
        above, _, name = path.rpartition("/")
        prefix = f"{above}/" if above else ""
        if (
            name == "HEAD"
            and (f"{prefix}objects" in new or f"{prefix}commondir" in new)
            and ".git" not in path.split("/")
        ):
            yield above or "."


def _listed(paths: list[str]) -> str:
    shown, more = ", ".join(paths[:_SHOWN]), len(paths) - _SHOWN
    return shown + (f" and {more} more" if more > 0 else "")


# ---- what people are shown ----------------------------------------------------------------------------


def differences(
    changes: Iterable[Change],
    below: int,
    upper: int,
    hidden: Callable[[str], bool] = lambda path: False,
    conceal: Callable[[str], str] = lambda text: text,
) -> Iterator[tuple[str, str]]:
    """Give what changed in texts, file by file: the path, and the lines as `diff -u` has them.

    Args:
        changes: of the layer. below, upper: as for `looked`.
        hidden: tells of a path that its content is not shown.
        conceal: hides the secrets of a text. Only those of several lines are hidden here: with the signs of a diff
            before each line nobody would find them. Whoever shows the lines hides the others.
    """
    for each in changes:
        read = partial(_text_of, each.path)
        kinds = {state.type for state in (each.before, each.after) if state is not None}
        if not kinds <= {"file", "link"} or each.kind in ("renamed", "metadata"):
            continue
        if hidden(each.path):
            yield each.path, "(it is protected, and not shown)\n"
            continue
        old, new = read(below, each.before, None), read(upper, each.after, 0)
        if old is None or new is None:
            yield each.path, "(not a text, or too long to be shown)\n"
            continue
        concealed = conceal(old), conceal(new)
        if any(text.count("\n") != raw.count("\n") for text, raw in zip(concealed, (old, new), strict=True)):
            old, new = concealed
            yield each.path, "(a secret of several lines in it is not shown, nor whether that changes)\n"
        shown = one_line(each.path)  # a line of its own in a name would look like one of the file
        names = ("/dev/null" if each.before is None else shown, "/dev/null" if each.after is None else shown)
        lines = difflib.unified_diff(old.splitlines(True), new.splitlines(True), *names)
        text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at the end\n" for line in lines)
        if len(text) > _LONGEST_DIFF:
            text = f"{text[:_LONGEST_DIFF]}\n(the rest of it is not shown)\n"
        yield each.path, text


def _text_of(path: str, top: int, state: State | None, ours: int | None) -> str | None:
    """The text of a file; "" where there is none, None where it is none."""
    if state is None:
        return ""
    if state.size > _LARGEST_TEXT:
        return None
    try:
        with parent(top, path) as (folder, name):
            if state.type == "link":
                return f"(a link to {os.readlink(name, dir_fd=folder)})\n"
            with _opened(name, folder, _FILE, None if ours is None else state.mode) as file:
                data = os.pread(file, _LARGEST_TEXT, 0)
    except OSError:
        return None
    return None if b"\0" in data else data.decode("utf-8", "surrogateescape")
