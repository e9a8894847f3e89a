"""Our folders and files: whoever else can write them decides with us, and whoever can read them knows what we know."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from humanlayer_agent import locations
from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning

_STICKY = stat.S_ISVTX
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Demand:
    """The demands on a folder.

    Args:
        what: it is, in words.
        secret: what stands in it must not be read by others.
        group: whether the group may write (a user's own group is common).
        owners: user ids that it may belong to.
        lax: what is wrong with a file is only said, because such a file is ignored anyway.
        only: names of the files in it that are ours; () where all are.
    """

    what: str
    owners: frozenset[int]
    only: tuple[str, ...] = ()
    secret: bool = False
    group: bool = False
    lax: bool = False


def config(context: Context) -> Iterator[Finding]:
    """The user's settings: the policy, the channels."""
    yield from _folder(locations.config_folder(), _Demand("your settings", _mine(), group=True), context)


def data(context: Context) -> Iterator[Finding]:
    """The store and the key, wherever they are."""
    yield from _folder(locations.data_folder(), _Demand("your data", _mine(), secret=True), context)
    store = locations.default_store_path()
    if store.parent != locations.data_folder():  # what else is there is none of our business
        names = (store.name, f"{store.name}-wal", f"{store.name}-shm")
        yield from _folder(store.parent, _Demand("the store", _mine(), names, secret=True), context)


def state(context: Context) -> Iterator[Finding]:
    """Compiled policies, and what was trusted."""
    demand = _Demand("compiled policies and trust", _mine(), secret=True, lax=True)
    yield from _folder(locations.state_folder(), demand, context)


def machine(context: Context) -> Iterator[Finding]:
    """The machine's settings: root's word."""
    yield from _folder(context.machine, _Demand("the machine's settings", frozenset({0})), context)


def _mine() -> frozenset[int]:
    return frozenset({0, os.geteuid()})


def _folder(folder: Path, demand: _Demand, context: Context) -> Iterator[Finding]:
    if locations.is_inside(folder, context.project):
        yield failed(
            f"{folder} ({demand.what}) lies in the project, where a repository could fill it",
            "Set XDG_CONFIG_HOME, XDG_DATA_HOME and XDG_STATE_HOME to folders elsewhere.",
        )
    try:
        about = folder.stat()
    except FileNotFoundError:
        if folder.is_symlink():
            yield failed(f"{folder} ({demand.what}) is a link that leads nowhere", f"rm {folder}")
        else:
            yield ok(f"{folder} ({demand.what}): not there, and nothing needs it")
        return
    except OSError as error:
        yield failed(
            f"{folder} ({demand.what}) can't be looked at: {error.strerror}", "Let yourself in (chmod, chown)."
        )
        return
    found = [*_above(folder), *_place(folder, about, demand)]
    if stat.S_ISDIR(about.st_mode):
        files = _files(folder, demand)
        found += files[:_SHOWN]
        if len(files) > _SHOWN:
            found.append(failed(f"and {len(files) - _SHOWN} more files in {folder}"))
    yield from found or [ok(f"{folder} ({demand.what}): nobody else can write it")]


def _above(folder: Path) -> Iterator[Finding]:
    """Check the folders above: who can write one can put another in the place of this one."""
    for above in Path(os.path.realpath(folder)).parents:
        about = above.stat()
        if about.st_mode & 0o002 and not about.st_mode & _STICKY:
            yield failed(f"everybody can write {above}, and so replace {folder}", f"chmod o-w {above}")


def _place(folder: Path, about: os.stat_result, demand: _Demand) -> Iterator[Finding]:
    if not stat.S_ISDIR(about.st_mode):
        yield failed(f"{folder} ({demand.what}) is not a directory", f"Move it away: mv {folder} {folder}.old")
    elif about.st_uid not in demand.owners:
        yield failed(f"{folder} ({demand.what}) belongs to another user", f"chown {_owner(demand)} {folder}")
    elif about.st_mode & (0o002 if demand.group else 0o022):
        yield failed(f"others can write {folder} ({demand.what})", f"chmod go-w {folder}")


def _files(folder: Path, demand: _Demand) -> list[Finding]:
    paths = [folder / name for name in demand.only]
    if not paths:
        paths = [Path(top, name) for top, folders, names in os.walk(folder) for name in sorted((*folders, *names))]
    return [finding for path in paths if (finding := _file(path, demand)) is not None]


def _file(path: Path, demand: _Demand) -> Finding | None:
    say = warning if demand.lax else failed
    ignored = ", so it is ignored" if demand.lax else ""
    try:
        about = path.stat()
    except OSError as error:
        if path.is_symlink() or not isinstance(error, FileNotFoundError):  # else it went away meanwhile
            return say(f"{path} can't be looked at: {error.strerror}{ignored}", f"rm {path}")
        return None
    if about.st_uid not in demand.owners:
        return say(f"{path} belongs to another user{ignored}", f"chown {_owner(demand)} {path}")
    if about.st_mode & (0o002 if demand.group else 0o022):
        return say(f"others can write {path}{ignored}", f"chmod go-w {path}")
    if demand.secret and stat.S_ISREG(about.st_mode) and about.st_mode & 0o077:
        return say(f"others can read {path}{ignored}", f"chmod 600 {path}")
    return None


def _owner(demand: _Demand) -> str:
    return str(max(demand.owners))
