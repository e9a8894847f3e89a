"""The store: whether it can be used, and whether its log is what was written."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from humanlayer_agent.approvals.authority import StandIn
from humanlayer_agent.approvals.authority import described as stand_in_described
from humanlayer_agent.approvals.grants import Grant
from humanlayer_agent.approvals.stop import described
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.audit.anchor import REMEDY, Loss, anchor_of, is_anchored
from humanlayer_agent.audit.heads import head_in
from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning
from humanlayer_agent.errors import ConfigError, StoreError, StoreTampered
from humanlayer_agent.locations import anchor_folder, default_store_path, is_address, kept_folder, store_location
from humanlayer_agent.processes.identity import machine_name
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.store import schema as store_schema
from humanlayer_agent.store.access import name_of, open_store
from humanlayer_agent.store.connection import network_file_system
from humanlayer_agent.store.sqlite import SQLiteStore, SQLStore
from humanlayer_agent.store.verification_record import last_whole
from humanlayer_agent.undo.kept_files import KeptFiles

_MEGABYTE = 1_000_000
_LITTLE, _TOO_LITTLE = 500 * _MEGABYTE, 50 * _MEGABYTE
_SHORT = 12
_SHORT_PATH = 2
"""A directory of so few parts holds much that has nothing to do with each other (/usr/local, /srv/data)."""
_NEARLY = 0.8
_CLOCK_STEP_MS = 2_000
_YEAR_2024_MS = 1_704_067_200_000


def disk(context: Context) -> Iterator[Finding]:
    """There is room to write, on a file system that locks."""
    place = _existing(default_store_path())
    free = context.free(place)
    said = f"{free // _MEGABYTE:,} MB are free for the store ({place})"
    if free < _TOO_LITTLE:
        yield failed(f"only {said}; what can't be recorded does not run", "Make room.")
    elif free < _LITTLE:
        yield warning(f"only {said}", "Make room.")
    else:
        yield ok(said)
    if kind := network_file_system(place):
        yield failed(
            f"{place} is on a network file system ({kind}), where locks can't be trusted",
            "Name a local store: HUMANLAYER_STORE=/path/store.sqlite3",
        )


def opens(context: Context) -> Iterator[Finding]:
    """It can be opened, or made when it is first needed."""
    if is_address(store_location()):
        yield from _reached()
        return
    path = default_store_path()
    if not os.path.lexists(path):
        if anchor_of(path):
            return  # `anchor` says so
        place = _existing(path)
        if os.access(place, os.W_OK | os.X_OK):
            yield ok(f"the store is not there yet: the first run makes it ({path})")
        else:
            yield failed(f"the store can't be made: {place} can't be written", f"chmod u+wx {place}")
        return
    try:
        SQLiteStore(path, create=False).close()
    except StoreError as error:
        yield failed(str(error), "Mend that, or name another store: HUMANLAYER_STORE=/path/store.sqlite3")
        return
    if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        yield ok(f"the store opens ({path})")
    else:
        yield failed(f"the store {path} can't be written: nothing runs", "chmod u+w it and its folder.")


def _reached() -> Iterator[Finding]:
    """The store on a server answers, and it is known what this role may do there."""
    try:
        with closing(open_store(create=False)) as store:
            part, private = store.access()
    except (ConfigError, StoreError) as error:
        yield failed(str(error), "Until it answers nothing runs. Mend that, or name another store: HUMANLAYER_STORE=")
        return
    where = one_line(store.location)
    if part == "owner":
        yield warning(
            f"the store answers ({where}), to the role that owns it: who has its password may write everything there",
            "Let agents log in as a member of humanlayer_agents (hla store init --help).",
        )
    else:
        yield ok(f"the store answers ({where}), to a role of the {part}s")
    yield ok(f"users of this machine are known there as os:{machine_name()}/UID:NAME")
    if not private:
        yield warning(
            "what is said to the store is not encrypted: who is on the way can read it, and answer in its place",
            "Add ?sslmode=verify-full to its address, and have the server use a certificate.",
        )


def schema(context: Context) -> Iterator[Finding]:
    """Its tables are those of this version."""
    if is_address(store_location()):
        return  # it does not open otherwise
    version, newest = _pragma("user_version"), store_schema.newest()
    if not isinstance(version, int):
        return
    try:
        SQLiteStore(default_store_path(), create=False).close()
    except StoreTampered as error:
        yield failed(str(error), "hla audit verify says the same. Nothing runs before it is as it was.")
        return
    except StoreError:
        pass  # `opens` says so
    if version < newest:
        yield ok(f"its schema is {version}; the next run brings it to {newest}")
    elif version > newest:
        yield failed(f"its schema is {version}, and this version knows {newest}", "Upgrade humanlayer-agent.")
    else:
        yield ok(f"its schema is {version}, the newest")


def wal(context: Context) -> Iterator[Finding]:
    """Readers don't wait for writers."""
    if (mode := _pragma("journal_mode")) is None:
        return
    if mode == "wal":
        yield ok("it is in WAL mode")
    else:
        yield warning(f"it is in {mode} mode, not WAL: another program has changed it", "The next run changes it back.")


def anchor(context: Context) -> Iterator[Finding]:
    """Its log goes as far as the anchor beside the user's keys says."""
    try:
        path, place = default_store_path(), name_of(None)
    except ConfigError:
        return  # `opens` says so
    known = anchor_of(place)
    if not is_address(place) and (not path.exists() or not path.stat().st_size):
        if known:
            yield failed(Loss(known, None).description, REMEDY)
        return
    if (store := _opened()) is None:
        return
    try:
        loss = store.loss()
    except StoreError:
        return  # `log` says so
    finally:
        store.close()
    if not is_anchored(place):
        yield warning(
            f"the store is among temporary files ({path}), so it has no anchor: that it was set back, or deleted, "
            "does not show",
            "Keep it where it stays: HUMANLAYER_STORE=/path/store.sqlite3",
        )
    elif known is None:
        yield warning(
            f"there is no anchor of its log in {anchor_folder()}: that it was set back, or deleted, does not show",
            "The next run makes one. A new disk, home or user has none; else find out who removed it.",
        )
    elif loss:
        yield failed(loss.description, REMEDY)
    else:
        yield ok(f"its log goes as far as its anchor says, event {known.head.seq} ({known.file})")


def log(context: Context) -> Iterator[Finding]:
    """The log and the rows of its tables against it: all of it, or what came after it was last verified whole."""
    if (store := _opened()) is None:
        return
    try:
        checked = last_whole(store)
        found = store.verify(since=checked.reached if checked else None)
    except StoreError as error:
        yield failed(str(error), "Restore the file from a copy, and find out what happened.")
        return
    finally:
        store.close()
    if found.intact and found.since is not None:
        yield ok(
            f"its log is intact since event {found.since.seq}, up to which it was verified before, and {found.count} "
            "events long; hla audit verify reads all of it"
        )
    elif found.intact:
        yield ok(f"its log is intact, {found.count} events long")
    else:
        yield failed(
            f"TAMPERED: event {found.bad_seq}: {found.problem}", "Keep the file, and find out who could write it."
        )


def stopped(context: Context) -> Iterator[Finding]:
    """No human has stopped every agent."""
    if (store := _opened()) is None:
        return
    try:
        try:
            halts = store.halts.standing(context.authority)
        except ConfigError:
            halts = store.halts.standing(None)
    except StoreError as error:
        yield failed(f"nobody can say whether agents are stopped, so nothing runs: {error}", "Mend the store.")
        return
    finally:
        store.close()
    if not halts:
        yield ok("agents may act: nobody has stopped them")
    for halt in halts:
        yield warning(one_line(described(halt)), "hla resume lets them act again.")


def absences(context: Context) -> Iterator[Finding]:
    """Who is away has said so in a way that counts."""
    if (store := _opened()) is None:
        return
    try:
        said = store.absences.said(context.authority)
    except (StoreError, ConfigError):
        return  # `log` or `channels.load` says so
    finally:
        store.close()
    open_words = [(absence, why) for absence, why in said if absence.until > now_ms()]
    if not open_words:
        yield ok("nobody is away")
    for absence, why in open_words:
        what = one_line(stand_in_described(StandIn(absence.person, absence.to, absence.until)))
        if why:
            yield warning(
                f"{what}: that does not count: {one_line(why)}", f"hla people back {one_line(absence.person)} ends it."
            )
        else:
            yield ok(what)


def grants(context: Context) -> Iterator[Finding]:
    """What was approved for more than once is not wide, and can be proved."""
    if (store := _opened()) is None:
        return
    try:
        found, open_runs = store.grants.given(active=True), store.supervisors()
        signers = context.authority.signers
    except (StoreError, ConfigError):
        return  # `log` or `channels.load` says so
    finally:
        store.close()
    if not found:
        yield ok("no grant holds: whatever a policy asks about is asked")
    for grant in found:
        name, what = grant.id[:_SHORT], one_line(f"grant {grant.id[:_SHORT]}: {grant.remembered}")
        used = f"used {grant.uses} of {grant.max_uses} times"
        if not grant.is_proved(signers, runs=bool(open_runs)):
            yield warning(
                f"{what}, was signed by a process that is gone: no key can prove it, so it covers nothing",
                f"hla grants revoke {name}",
            )
        elif wide := ", and ".join(_width(grant)):
            yield warning(f"{what} ({used}): it {wide}", f"hla grants show {name}; hla grants revoke {name} ends it.")
        elif grant.uses >= _NEARLY * grant.max_uses:
            yield warning(f"{what}, is nearly used up ({used})", "What it has let run: hla grants show " + name)
        else:
            yield ok(f"{what}, {used}")


def _width(grant: Grant) -> Iterator[str]:
    """Yield what a grant covers that is much."""
    patterns = {pattern for scope in grant.scopes for pattern in scope.patterns}
    if all(any(each.operands == "any" for each in scope.patterns) for scope in grant.scopes):
        yield "covers any operand"
    short = {each.operand for each in patterns if each.operands == "below" and each.operand.count("/") <= _SHORT_PATH}
    yield from (f"covers all below {one_line(each)}" for each in sorted(short))
    if all(not scope.agent for scope in grant.scopes):
        yield "is for any agent of the same user"


def kept(context: Context) -> Iterator[Finding]:
    """How much is kept of projects, for `hla undo`."""
    folder = kept_folder()
    if not os.path.lexists(folder):
        yield ok(
            "nothing is kept yet for hla undo: that is done before unread code runs confined, and with `undo: run` "
            "before each command"
        )
        return
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
        yield failed(f"{folder} is no folder of yours alone: nothing is kept there", f"chmod 700 {folder}")
        return
    found = KeptFiles(folder)
    lists, size = len(found.all()), found.size()
    of = "run or command" if lists == 1 else "runs and commands"
    yield ok(f"files of {lists} {of} are kept for hla undo, {size / _MEGABYTE:,.1f} MB")


def heads(context: Context) -> Iterator[Finding]:
    """Check how far its log is signed, with which key."""
    if (store := _opened()) is None:
        return
    try:
        found = [head_in(entry.event) for entry in store.events(type="audit.head", last=1)]
    except (StoreError, ValueError):
        return  # `log` says so
    finally:
        store.close()
    head = found[0] if found else None
    if head is None:
        yield ok("no head of its log is signed yet: that is done at the end of a run, and every minute of one")
    elif head.key == "user":
        yield ok(f"its log is signed up to event {head.seq} with your key; hla audit head prints one to keep elsewhere")
    else:
        yield ok(
            f"its log is signed up to event {head.seq}, with a key that is gone with its process (hla init "
            "makes one that stays); hla audit head prints one to keep elsewhere"
        )


def clock(context: Context) -> Iterator[Finding]:
    """The clock goes, and has not been set back behind what the log says."""
    now, seconds = context.clock(), context.monotonic()
    began, began_seconds = context.began
    step = (now - began) - int((seconds - began_seconds) * 1000)
    last = _last_event()
    if now < _YEAR_2024_MS:
        yield failed("the clock is not set: approvals are judged by it", "Set the time (timedatectl, ntp).")
    elif last is not None and last > now + _CLOCK_STEP_MS:
        yield failed(
            f"the clock is {(last - now) // 1000} s behind the newest event of the log: it was set back, or was wrong",
            "Set the time: it decides when approvals and requests end.",
        )
    elif abs(step) > _CLOCK_STEP_MS:
        yield warning(f"the clock was set by {step / 1000:+.0f} s meanwhile", "Let it be steered smoothly (ntp).")
    else:
        yield ok("the clock goes on steadily, and past the newest event of the log")


def _opened() -> SQLStore | None:
    """The store, to read; None where there is none that opens (`opens` says so)."""
    try:
        return open_store(create=False)
    except (ConfigError, StoreError):
        return None


def _pragma(name: str) -> int | str | None:
    """Return what the file itself says; None where it can't be asked."""
    path = default_store_path()
    if is_address(store_location()) or not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    except sqlite3.Error:
        return None
    return value if isinstance(value, int | str) else None


def _last_event() -> int | None:
    """Return when the newest event was written, as it says itself."""
    if (store := _opened()) is None:
        return None
    try:
        times = [entry.event.get("at") for entry in store.events(last=1)]
    except (StoreError, ValueError):
        return None
    finally:
        store.close()
    return times[0] if times and isinstance(times[0], int) else None


def _existing(path: Path) -> Path:
    """The nearest directory above `path` that is there."""
    return next((each for each in path.absolute().parents if each.is_dir()), Path("/"))
