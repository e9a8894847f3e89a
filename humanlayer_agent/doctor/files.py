"""Our folders and files: whoever else can write them decides with us, and whoever can read them knows what we know."""

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from humanlayer_agent import places
from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning

_STICKY = stat.S_ISVTX
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Demand:
    """What a folder must be like.

    Args:
        what: it is, in words.
        secret: what stands in it must not be read by others.
        group: whether the group may write (a user's own group is common).
        owners: user ids that it may belong to.
        lax: what is wrong with a file is only said, because such a file is ignored anyway.
    """

    what: str
    owners: frozenset[int]
    secret: bool = False
    group: bool = False
    lax: bool = False


def config(context: Context) -> Iterator[Finding]:
    """The user's settings: the policy, the channels."""
    yield from _folder(places.config_folder(), _Demand("your settings", _mine(), group=True))


def data(context: Context) -> Iterator[Finding]:
    """The store and the key, wherever they are."""
    folders = dict.fromkeys((places.data_folder(), places.default_store_path().parent))
    for folder in folders:
        yield from _folder(folder, _Demand("your data", _mine(), secret=True))


def state(context: Context) -> Iterator[Finding]:
    """Compiled policies, and what was trusted."""
    yield from _folder(places.state_folder(), _Demand("compiled policies and trust", _mine(), secret=True, lax=True))


def machine(context: Context) -> Iterator[Finding]:
    """The machine's settings: root's word."""
    yield from _folder(context.machine, _Demand("the machine's settings", frozenset({0})))


def _mine() -> frozenset[int]:
    return frozenset({0, os.geteuid()})


def _folder(folder: Path, demand: _Demand) -> Iterator[Finding]:
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
    yield from found or [ok(f"{folder} ({demand.what}): only {'root' if demand.owners == {0} else 'you'} can write it")]


def _above(folder: Path) -> Iterator[Finding]:
    """Who can write a folder above can put another in the place of this one."""
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
    found: list[Finding] = []
    for top, folders, names in os.walk(folder):
        for name in sorted((*folders, *names)):
            finding = _file(Path(top, name), demand)
            found += [finding] if finding is not None else []
    return found


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
    return "root" if demand.owners == {0} else str(os.geteuid())
