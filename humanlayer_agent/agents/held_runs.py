"""Runs commands held: what they change lies in a layer until a human has seen it, and is applied or thrown away.

The output of one goes to that human; to the agent only as the result of what was applied.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from humanlayer_agent.action import Action
from humanlayer_agent.agents.run_enclosures import RunEnclosures, run_permitted
from humanlayer_agent.approvals.gate import Holder
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.confine.held_run.application import NotApplied, apply, recover
from humanlayer_agent.confine.held_run.layer import Change, Layer, differences, looked, moves_refused, obstacles
from humanlayer_agent.confine.held_run.overlay import held
from humanlayer_agent.locations import state_path
from humanlayer_agent.policy.decision import HeldRun, PolicyDecision
from humanlayer_agent.processes.execution import CommandResult, run_command
from humanlayer_agent.processes.file_swaps import JudgedFiles, WorkingDirectory
from humanlayer_agent.redaction.redactor import Redactor
from humanlayer_agent.safe_text import one_line

logger = logging.getLogger("humanlayer_agent")

LONGEST_S = 60.0
"""Seconds that a held run may take."""
THROWN_AWAY = "(What it wrote to /tmp, or to the caches of its tools, was not kept.)"
"""What the agent is told besides the output of an applied run that has written there."""
_FOLDERS = "held-runs"
_MOST_FILES = 200
_LONGEST_DIFF = 1 << 16  # characters of all
_LONGEST_OUTPUT = 1 << 13
_ORDER = ("deleted", "modified", "renamed", "metadata", "created")
_WORDS = {"deleted": "deletes", "modified": "changes", "metadata": "changes only mode or time of", "created": "makes"}
_NOT_KEPT = "what it wrote to /tmp, or to the caches of its tools, is thrown away in any case"


@dataclass(frozen=True, slots=True)
class _Held:
    """A held run that waits for what becomes of it: its layer, where that lies, and its result."""

    layer: Layer
    upper: Path
    folder: Path
    result: CommandResult
    lock: int


class HeldRuns:
    """The held runs of one run of an agent (see `approvals.gate.Holder`). Thread-safe.

    Where an earlier process was killed while it applied one, that is completed, or taken back, first.

    Args:
        enclosures: what the run's commands are confined by.
        seconds: so long a held run may take.
    """

    def __init__(self, enclosures: RunEnclosures, *, seconds: float = LONGEST_S) -> None:
        self._enclosures = enclosures
        self._seconds = seconds
        self._lock = threading.Lock()  # for what follows
        self._waiting: dict[str, _Held] = {}
        _clear_killed(Path(state_path(_FOLDERS)))

    def hold(self, action: Action, decision: PolicyDecision) -> tuple[str, HeldRun]:
        """Run a command held.

        Args:
            action: the command. decision: about it; it `holds` what the command can reach.

        Returns:
            The digest of its layer, which `apply` takes, "" where that can't be applied; and what a human is shown.

        Raises:
            Unenforceable, NotAsJudged, OSError: it was not run.
        """
        if decision.holds is None:
            raise Unenforceable("what it does would not be seen")
        confinement = held(decision.holds, self._enclosures.project)
        folder, lock = _new_folder()
        kept = False
        try:
            enclosure = self._enclosures.layered(confinement, str(folder))
            over, *others = enclosure.layers
            (folder / "began").touch()
            since = os.stat(folder / "began").st_ctime_ns
            result = run_command(
                (*action.interpreter, action.content),
                cwd=action.cwd,
                env=action.env,
                timeout=self._seconds,
                judged=JudgedFiles(WorkingDirectory.at(action.cwd), decision.files, decision.view),
                confinement=enclosure,
            )
            with ExitStack() as stack:
                below, upper = (_opened(path, stack) for path in (over.folder, over.upper))
                changes, why = looked(below, upper)
                refused = [*self._unknown(result), *why]
                refused += obstacles(changes, confinement, over.folder, since=since)
                diff = _diff(changes, below, upper, lambda path: not confinement.writes(f"{over.folder}/{path}"))
            output = hashlib.sha256(result.output.encode("utf-8", "surrogateescape")).hexdigest()
            layer = Layer(over.folder, tuple(changes), result.returncode, output, tuple(refused))
            left = [_NOT_KEPT] if any(other.has_any() for other in others) else []
            result = replace(result, note=THROWN_AWAY if left else "")
            shown = _shown(layer, result, diff, (*refused, *left))
            if shown.applicable:
                with self._lock:
                    former = self._waiting.pop(layer.digest, None)
                    self._waiting[layer.digest] = _Held(layer, Path(over.upper), folder, result, lock)
                kept = True
                if former is not None:  # the same command, asked about twice at once, that only deletes
                    _remove(former.folder, former.lock)
            return layer.digest if kept else "", shown
        finally:
            if not kept:
                _remove(folder, lock)

    def apply(self, permit: Permit) -> CommandResult:
        """Apply the layer that the action of a started permit names, and return the result of its held run.

        Raises:
            Unenforceable: nothing was changed; why.
        """
        with self._lock:
            found = self._waiting.pop(permit.action.layer, None)
        if found is None:
            raise NotApplied("what was approved of a held run is not there any more")
        try:
            if found.layer.digest != permit.action.layer:
                raise NotApplied("what is to be applied is not what was approved")
            apply(found.layer, found.upper, found.folder)
        except NotApplied:
            _remove(found.folder, found.lock)
            raise
        _remove(found.folder, found.lock)
        return found.result

    def drop(self, layer: str) -> None:
        """Throw away what a held run has changed; nothing where it was applied."""
        with self._lock:
            found = self._waiting.pop(layer, None)
        if found is not None:
            _remove(found.folder, found.lock)

    def close(self) -> None:
        """Throw away what still waits."""
        with self._lock:
            layers = list(self._waiting)
        for layer in layers:
            self.drop(layer)

    def _unknown(self, result: CommandResult) -> Iterator[str]:
        if result.filled:
            yield "it wrote, or started, more than a held run may, and was ended"
        elif result.timed_out:
            yield f"it did not end within {self._seconds:.0f} s"
        elif result.returncode is None:
            yield "nobody saw its end"
        yield from moves_refused(result.output)
        for each in result.tried:
            yield f"it tried what a held run has not: {each}"


def holder_of(enclosures: RunEnclosures | None) -> HeldRuns | None:
    """Return what runs commands of a run held; None where nothing confines them."""
    return HeldRuns(enclosures) if enclosures is not None and enclosures.confines else None


def run_or_apply(
    permit: Permit,
    enclosures: RunEnclosures | None,
    holder: Holder | None,
    *,
    timeout: float,
    keep_background: bool = False,
) -> CommandResult:
    """Run the command of a permit, as `run_permitted` does, or apply what its held run has changed.

    Args:
        permit, enclosures, timeout, keep_background: see `run_permitted`, which also says what is raised.
        holder: of the run.
    """
    if permit.action.layer and isinstance(holder, HeldRuns):
        return holder.apply(permit)
    return run_permitted(permit, enclosures, timeout=timeout, keep_background=keep_background)


# ---- its folders --------------------------------------------------------------------------------------


def _new_folder() -> tuple[Path, int]:
    """A folder of our own, and the lock that says that its process lives."""
    folder = Path(state_path(_FOLDERS, os.urandom(8).hex()))
    os.makedirs(folder.parent, mode=0o700, exist_ok=True)
    folder.mkdir(mode=0o700)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return Path(os.path.realpath(folder)), lock


def _remove(folder: Path, lock: int) -> None:
    _rmtree(folder)
    os.close(lock)


def _rmtree(folder: Path) -> None:
    """Remove a folder of ours, whatever rights a command, or the kernel, has taken away in it."""
    for above, folders, _ in os.walk(folder):
        for each in folders:
            with suppress(OSError):
                path = os.path.join(above, each)
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def _clear_killed(place: Path) -> None:
    """Make good for processes that were killed, and remove what they have left."""
    try:
        found = sorted(place.iterdir())
    except OSError:
        return
    for folder in found:
        try:
            lock = os.open(folder / "lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # it is being made, or removed
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if said := recover(folder):
                logger.warning("Warning: %s.", said)
            _rmtree(folder)
        except BlockingIOError:
            pass  # its process lives
        except (NotApplied, OSError, ValueError, KeyError) as error:
            logger.warning("Warning: %s (%s).", error, folder)
        finally:
            os.close(lock)


def _opened(path: str, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


# ---- what people are shown ----------------------------------------------------------------------------


def _shown(layer: Layer, result: CommandResult, diff: str, partial: Sequence[str]) -> HeldRun:
    renamed = {each.source for each in layer.changes if each.source}
    told = [each for each in layer.changes if each.path not in renamed or each.kind != "deleted"]
    told.sort(key=lambda each: (_ORDER.index(each.kind), each.path))
    redactor = Redactor()
    return HeldRun(
        applicable=not layer.refused,
        ended=_ending(result, Counter(each.kind for each in told)),
        files=tuple(redactor.text(_sentence(each)).text for each in told[:_MOST_FILES]),
        more=max(0, len(told) - _MOST_FILES),
        diff=diff,
        output=redactor.text(result.output[-_LONGEST_OUTPUT:]).text,
        partial=tuple(redactor.text(one_line(each)).text for each in partial),
    )


def _ending(result: CommandResult, counts: Counter[str]) -> str:
    end = "It was ended" if result.timed_out else f"It ended with exit status {result.returncode}"
    said = ", ".join(
        f"{counts[kind]:,} {'changed in mode or time' if kind == 'metadata' else kind}"
        for kind in _ORDER
        if counts[kind]
    )
    return f"{end} after {result.duration_ms:,} ms: {said or 'nothing'} in the project"


def _sentence(change: Change) -> str:
    path = one_line(change.path)
    state = change.after or change.before
    if state is not None and state.type == "folder":
        path += "/"
    if change.kind == "renamed":
        return f"renames {one_line(change.source)} to {path}"
    return f"{_WORDS[change.kind]} {path}{_size(change)}"


def _size(change: Change) -> str:
    sizes = [f"{state.size:,}" for state in (change.before, change.after) if state is not None and state.type == "file"]
    link = any(state is not None and state.type == "link" for state in (change.before, change.after))
    mode = ""
    if change.before is not None and change.after is not None and change.before.mode != change.after.mode:
        mode = f"{change.before.mode:o} to {change.after.mode:o}"
    if change.kind == "metadata":
        return f" ({mode})" if mode else ""
    if link:
        return " (a link)"
    size = f"{' to '.join(sizes)} bytes" if sizes else ""
    made = change.before is None and change.after is not None and change.after.type == "file"
    runs = "can be run" if made and change.after is not None and change.after.mode & 0o111 else ""
    return f" ({', '.join(said)})" if (said := [each for each in (size, mode, runs) if each]) else ""


def _diff(changes: Sequence[Change], below: int, upper: int, hidden: Callable[[str], bool]) -> str:
    """The lines that changed, without secrets."""
    redactor, found, length = Redactor(), [], 0
    for path, text in differences(changes, below, upper, hidden, lambda text: redactor.text(text).text):
        shown = redactor.text(text if text.startswith("---") else f"{one_line(path)}: {text}").text
        length += len(shown)
        if length > _LONGEST_DIFF:
            found.append("(more files changed than are shown here)\n")
            break
        found.append(shown)
    return "".join(found)
