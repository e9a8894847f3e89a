"""The records of a project's runs, from one process to the next: what was its own when each began, what
actions have brought in since, and which texts were judged.

Git says what is tracked, and an action can say it to git. So the index is kept as it was when a run was first seen, and
what a later look finds in it that was not there was brought in: it is the project's own in no run, ever. What changes
between two runs is the human's, unless the last action that was judged could still have done it. Where nothing can be
read or kept, nothing is the project's own.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from humanlayer_agent.locations import read_own_json, state_path, write_own_json
from humanlayer_agent.shell import Baseline, Program, baseline_of, file_time_ns, is_looked_at, plain_path

MAX_BROUGHT = 200_000
"""Most contents that are known to be brought into a project: with more, nothing is its own."""
MAX_WROTE = 1_000
"""Most files that actions were seen to write where nobody looks for them: with more, nothing is the project's own."""
MAX_JUDGED = 5_000
"""Most texts of one run that are known to be judged; the oldest are forgotten."""
MAX_RUNS = 64
"""Most runs of a project that are known; what the oldest brought in stays known."""
KEPT_S = 7 * 24 * 3600.0
"""Seconds for which a run is known after its last action."""
_FOLDER = "baselines"
_WRITES = frozenset({"write", "append", "move"})
_LEAVES_BEHIND = frozenset({"background", "trap"})


class RunRecord:
    """The record of one run in one project. Thread-safe as far as one file is replaced by another.

    Args:
        project: the directory that the run works for.
        run: names it.

    Attributes:
        baseline: what was the project's own when the run began.
    """

    def __init__(self, project: Path | str, run: str) -> None:
        top = os.path.realpath(project)
        self._folder = _folder(top)
        self._project = top
        self._run = _name(run)
        self.judged: dict[str, None] = {}
        self.baseline = Baseline(top)
        with suppress(OSError), _locked(self._folder):
            self.baseline = replace(self._begun(), judged=self.judged)

    def look(self) -> bool:
        """Note what the index has now, before an action is judged; False where that can't be kept: then nothing is the
        project's own.
        """
        if not self.baseline.since_ns:
            return False
        try:
            with _locked(self._folder):
                known, mine = self._mine()
                self._see(known, mine, baseline_of(self._project))
                mine["used"], mine["open"] = time.time(), True
                _write(self._folder, known)
        except OSError:
            return False
        return True

    def note(self, program: Program, *, judged: bool) -> None:
        """Note what an action that was judged is about to do. Where that can't be kept, it may do anything, and none of
        its texts was judged.

        Args:
            program: what it would run.
            judged: it may run as it was judged, whether or not anything holds it: then its texts may, too.
        """
        with suppress(OSError), _locked(self._folder):
            known, mine = self._mine()
            for path in _out_of_sight(program, self._project):
                if path not in known["wrote"]:
                    known["wrote"].append(path)
            del known["wrote"][MAX_WROTE + 1 :]
            mine["lasting"] = mine["lasting"] or _leaves_behind(program)
            mine["open"] = mine["lasting"] or _changes_index(program)
            if judged and not self.judged.keys() >= program.judged:
                self.judged.update(dict.fromkeys(sorted(program.judged)))
                while len(self.judged) > MAX_JUDGED:
                    del self.judged[next(iter(self.judged))]
                texts = {"texts": list(self.judged)}
                write_own_json(self._folder / f"{self._run}.json", texts, required=True)
            _write(self._folder, known)

    def _mine(self) -> tuple[dict[str, Any], dict[str, Any]]:
        known = _known(self._folder)
        if self._run not in known["runs"]:
            raise OSError("the record of this run is gone")
        return known, known["runs"][self._run]

    def _begun(self) -> Baseline:
        """What was the project's own when the run was first seen: now, where it was not seen before."""
        known = _known(self._folder)
        now = baseline_of(self._project)
        mine = known["runs"].get(self._run)
        if mine is None:
            self._forget(known)
            for other in known["runs"].values():
                if other["open"]:
                    self._see(known, other, now)
                    other["open"] = False
            mine = known["runs"][self._run] = {
                "base": self._keep(now.index),
                "seen": sha256(now.index).hexdigest(),
                "written_ns": now.written_ns,
                "top": now.top,
                "open": False,
                "lasting": False,
                "used": time.time(),
            }
        else:
            self._see(known, mine, now)
            texts = read_own_json(self._folder / f"{self._run}.json") or {}
            self.judged.update(dict.fromkeys(texts.get("texts", ())))
        _write(self._folder, known)
        return self._base(known, mine)

    def _base(self, known: Mapping[str, Any], run: Mapping[str, Any]) -> Baseline:
        index = (self._folder / run["base"]).read_bytes()
        if sha256(index).hexdigest() != run["base"]:
            raise OSError("the index that was kept is another one")
        if len(known["brought"]) > MAX_BROUGHT or len(known["wrote"]) > MAX_WROTE:
            return Baseline(self._project)
        brought = frozenset(map(bytes.fromhex, known["brought"]))
        return Baseline(run["top"], index, run["written_ns"], brought, known["since_ns"], known["wrote"])

    def _see(self, known: dict[str, Any], run: dict[str, Any], now: Baseline) -> None:
        """Add to what was brought in what the index has now, and did not have when `run` began."""
        seen = sha256(now.index).hexdigest()
        if seen == run["seen"] and now.top == run["top"]:
            return
        run["seen"] = seen
        others = [self._base(known, each) for each in known["runs"].values() if each["base"] != run["base"]]
        new = {each.hex() for each in self._base(known, run).brought_by(now.index, others)}
        known["brought"] = [*known["brought"], *sorted(new.difference(known["brought"]))][: MAX_BROUGHT + 1]

    def _keep(self, index: bytes) -> str:
        """Keep the bytes of an index under their hash; equal ones are kept once."""
        name = sha256(index).hexdigest()
        path = self._folder / name
        if not path.exists():
            temporary = path.with_name(f"{name}.{os.urandom(8).hex()}")
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(index)
            os.replace(temporary, path)
        return name

    def _forget(self, known: dict[str, Any]) -> None:
        """Forget runs of long ago, but not what they have brought in."""
        latest = sorted(known["runs"].items(), key=lambda item: item[1]["used"], reverse=True)
        for n, (name, run) in enumerate(latest, 1):
            if n >= MAX_RUNS or time.time() - run["used"] > KEPT_S:
                if run["open"]:
                    self._see(known, run, baseline_of(self._project))
                del known["runs"][name]
                with suppress(OSError):
                    (self._folder / f"{name}.json").unlink()
        used = {run["base"] for run in known["runs"].values()}
        for path in self._folder.iterdir():
            if len(path.name) == 64 and path.name not in used:
                with suppress(OSError):
                    path.unlink()


def known_baseline(project: Path | str) -> Baseline:
    """Return what is a project's own for whoever is in no run: what it has now, less what runs have brought in."""
    top = os.path.realpath(project)
    folder = _folder(top)
    now = baseline_of(top)
    try:
        if not os.path.lexists(folder / "project.json"):
            return now
        known = _known(folder)
        brought = set(map(bytes.fromhex, known["brought"]))
        bases = [
            (run["open"], Baseline(run["top"], (folder / run["base"]).read_bytes())) for run in known["runs"].values()
        ]
        for is_open, base in bases:
            if is_open:
                brought |= base.brought_by(now.index, [other for _, other in bases])
    except (OSError, ValueError, KeyError, TypeError):
        return Baseline(top)
    if len(brought) > MAX_BROUGHT or len(known["wrote"]) > MAX_WROTE:
        return Baseline(top)
    return replace(now, brought=frozenset(brought), since_ns=known["since_ns"], wrote=known["wrote"])


def _known(folder: Path) -> dict[str, Any]:
    """What is kept of a project; it begins where nothing is."""
    path = folder / "project.json"
    if not os.path.lexists(path):
        return {"since_ns": file_time_ns(), "brought": [], "wrote": [], "runs": {}}
    found = read_own_json(path)
    if found is None or not {"since_ns", "brought", "wrote", "runs"} <= found.keys():
        raise OSError(f"{path} can't be read")
    return found


def _write(folder: Path, known: dict[str, Any]) -> None:
    write_own_json(folder / "project.json", known, required=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the only lock of a project's records."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise OSError(f"{folder}: {error}") from error
    finally:
        os.close(descriptor)


def _folder(top: str) -> Path:
    return Path(state_path(_FOLDER, _name(top)))


def _name(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _changes_index(program: Program) -> bool:
    """May it change what git tracks: does it call git, or code that may?"""
    return program.status != "ok" or any(
        command.program in (None, "git") or not command.resolved or any(e.kind == "execute" for e in command.effects)
        for command in program.commands
    )


def _leaves_behind(program: Program) -> bool:
    """May something of it go on once it has ended?"""
    return program.status != "ok" or any(
        not _LEAVES_BEHIND.isdisjoint(command.inside) or any(e.unread for e in command.effects)
        for command in program.commands
    )


def _out_of_sight(program: Program, project: str) -> Iterator[str]:
    """What it is seen to write where nobody looks for what has changed."""
    for command in program.commands:
        for effect in command.effects:
            if effect.kind in _WRITES and effect.operand is not None and effect.operand.startswith("/"):
                path = plain_path(effect.operand)
                if path.startswith(f"{project}/") and "/.git/" not in path and not is_looked_at(path):
                    yield path
