"""Moves aside what a confined command leaves at a protected place that was empty, or in git's own files.

Mounts hold what is there. Where nothing is yet, a command may make it: `.envrc`, a hook, a repository in a folder, a
`commondir` that names another configuration; and the next `cd`, editor or `git status` of a human would run it. So
it is looked before a command and after it. The first look is kept in a file, so that a supervisor that was killed
meanwhile is made good for before the next command.
"""

import base64
import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from humanlayer_agent.confine.confinement import Confinement, Profile, Unenforceable, is_below
from humanlayer_agent.confine.repository import changes_nothing_that_runs, is_of_worktree, runs_nothing
from humanlayer_agent.confine.survey import Control, Survey, control, is_writable, roots_of, survey
from humanlayer_agent.locations import read_own_json, write_own_json


@dataclass(frozen=True, slots=True)
class MovedAside:
    """Something that a command has left where it would be run, read as a setting, or trusted.

    Args:
        path: where it was.
        kept: where it is now; "" where it could not be moved, and is still there. (Of a whole folder: it could not be
            looked through, and until it can, nothing is started there.)
        restored: what was there before is there again.
    """

    path: str
    kept: str
    restored: bool = False


@contextmanager
def journal(
    confinement: Confinement, folder: Path | str, *, expected: Callable[[str], bool] = lambda path: False
) -> Iterator[list[MovedAside]]:
    """Look before and after what is run meanwhile; the list that is given has, in the end, what was moved aside.

    Args:
        confinement: what the command is confined to.
        folder: where things are moved to, and the journal is kept: outside of what the command can write.
        expected: tells of a path that the command was known to write it, and may.

    Raises:
        Unenforceable: it can't be looked through, or what was left before can't be moved.
    """
    folder = Path(folder)
    if is_writable(confinement, os.path.realpath(folder)):
        raise Unenforceable(f"{folder} lies where the confinement {confinement.name} lets a command write")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    moved = _settle_killed(folder)
    path = folder / f"{os.urandom(8).hex()}.journal"
    with _held(path):
        before = survey(confinement)
        write_own_json(path, _written(confinement, before), required=True)
        try:
            yield moved
        finally:
            try:
                moved += _settle(confinement, before, folder, expected)
                path.unlink(missing_ok=True)
            except Unenforceable:  # the command has run: the next one is told, which is not started
                moved += [MovedAside(root, "") for root in roots_of(confinement)]


def _settle(
    confinement: Confinement, before: Survey, folder: Path, expected: Callable[[str], bool]
) -> list[MovedAside]:
    after = survey(confinement)
    moved: list[MovedAside] = []
    appeared = after.protected - before.protected | {
        path for path in {*after.controls, *before.controls} if after.controls.get(path) != before.controls.get(path)
    }
    repositories = {os.path.dirname(path) for path in before.controls if os.path.basename(path) == "config"}
    held = partial(_is_in, before.protected)
    for path in sorted(appeared):
        if expected(path) or any(path.startswith(other.path + "/") and other.kept for other in moved):
            continue
        earlier = before.controls.get(path)
        if earlier is None and is_of_worktree(path, repositories, held):
            continue
        if earlier is None and path not in after.protected and _is_plain_config(after.controls.get(path), path):
            continue
        if earlier is not None and _is_harmless(path, earlier, after.controls.get(path)):
            continue
        if earlier is not None and stat.S_ISREG(earlier.mode) and _is_gone_with_its_work_tree(path, repositories):
            continue
        if earlier is not None and stat.S_ISDIR(earlier.mode) and path in after.controls:
            earlier = None  # a folder that has become something else: what was in it is gone
        kept = _move(path, folder) if os.path.lexists(path) else ""
        restored = earlier is not None and not os.path.lexists(path) and _restore(path, earlier)
        moved.append(MovedAside(path, kept, restored))
    return moved


def _is_in(paths: Collection[str], path: str) -> bool:
    """Tell whether a path is one of these, or lies below one."""
    return any(is_below(path, other) for other in paths)


def _is_harmless(path: str, before: Control, after: Control | None) -> bool:
    if after is None or os.path.basename(path) != "config" or before.content is None or after.content is None:
        return False
    return before.mode == after.mode and changes_nothing_that_runs(before.content, after.content)


def _is_plain_config(new: Control | None, path: str) -> bool:
    """Tell whether a new control file is the `config` of a repository which says nothing that runs."""
    if new is None or new.content is None or not stat.S_ISREG(new.mode):
        return False
    return os.path.basename(path) == "config" and runs_nothing(new.content)


def _is_gone_with_its_work_tree(path: str, repositories: Collection[str]) -> bool:
    """Tell whether the `.git` of a submodule or a further worktree is no longer there, and nothing beside it either; or
    a file that one of these repositories keeps of a further worktree, with the whole folder that was that one's.
    """
    above = os.path.dirname(path)
    if os.path.basename(folder := os.path.dirname(above)) == "worktrees" and os.path.dirname(folder) in repositories:
        return not os.path.lexists(above)
    try:
        return os.path.basename(path) == ".git" and os.path.realpath(above) == above and not os.listdir(above)
    except FileNotFoundError:
        return True


def _move(path: str, folder: Path) -> str:
    """Move what stands at a path to a folder of its own; "" where that can't be."""
    above = os.path.dirname(path)
    if os.path.realpath(above) != above:
        return ""
    target = folder / os.urandom(8).hex()
    target.mkdir(mode=0o700)
    place = str(target / os.path.basename(path))
    for way in (os.rename, shutil.move):
        with suppress(OSError, shutil.Error):
            for each in (above, path):  # the command may have taken rights away, from us as well
                if stat.S_ISDIR(os.lstat(each).st_mode):
                    os.chmod(each, os.lstat(each).st_mode | stat.S_IRWXU)
            way(path, place)
            return place
    with suppress(OSError):
        target.rmdir()
    return ""


def _restore(path: str, earlier: Control) -> bool:
    above = os.path.dirname(path)
    if os.path.realpath(above) != above or not os.path.isdir(above):
        return False
    try:
        if stat.S_ISLNK(earlier.mode):
            os.symlink(os.fsdecode(earlier.content or b""), path)
        elif stat.S_ISREG(earlier.mode) and earlier.content is not None:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "wb") as file:
                file.write(earlier.content)
                os.fchmod(file.fileno(), stat.S_IMODE(earlier.mode))
        else:
            return False
    except OSError:
        return False
    return control(path) == earlier


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep a lock beside the journal: who is killed lets go of it."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):
            os.unlink(f"{path}.lock")
        os.close(lock)


def _settle_killed(folder: Path) -> list[MovedAside]:
    """Make good for supervisors that were killed: their journals are still there, and nobody holds them."""
    moved: list[MovedAside] = []
    for path in folder.glob("*.journal"):
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue  # its command runs
        else:
            if (content := read_own_json(path)) is not None:
                confinement, before = _read(content)
                moved += _settle(confinement, before, folder, lambda path: False)
            path.unlink(missing_ok=True)
            os.unlink(f"{path}.lock")
        finally:
            os.close(lock)
    return moved


def _written(confinement: Confinement, found: Survey) -> dict[str, Any]:
    return {
        "profiles": [asdict(profile) for profile in confinement.profiles],
        "protected": sorted(found.protected),
        "controls": {
            path: [each.mode, None if each.content is None else base64.b64encode(each.content).decode()]
            for path, each in found.controls.items()
        },
    }


def _read(content: dict[str, Any]) -> tuple[Confinement, Survey]:
    controls = {
        path: Control(mode, None if text is None else base64.b64decode(text))
        for path, (mode, text) in content["controls"].items()
    }
    profiles = tuple(map(_profile, content["profiles"]))
    return Confinement(profiles), Survey(set(content["protected"]), set(), controls)


def _profile(written: dict[str, Any]) -> Profile:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in written.items()}
    return Profile(**fields)
