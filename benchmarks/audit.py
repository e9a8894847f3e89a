"""Durable appends to the audit log, against JSON lines with fsync in the same run; and how fast it is verified.

    python benchmarks/audit.py [--events N] [--verified N] [--folder DIR]

An append is the same event in both: a decision, sealed into the chain (canonical JSON, SHA-256 over the one before) and
durable before the next one begins. The store also keeps secrets out of it, which the plain file does not; the third
column is the store with that taken away. They take turns, so that a busy machine slows all alike. A table goes to
standard error, the same figures as JSON to standard output.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import BEGIN, Tip, seal
from humanlayer_agent.audit.export import read_entries
from humanlayer_agent.audit.verify import verify
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.redaction.redactor import Redactor
from humanlayer_agent.store.rows import action_fields, decision_fields
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.store.statements import Ledger

EVENTS, VERIFIED, ROUNDS = 3_000, 20_000, 15
ALLOWED = 0.7
"""The least share of the appends of plain JSON lines that the store may make."""

_COMMANDS = (
    "ls -la src",
    "cd /srv/app && python -m pytest tests/test_api.py -x -q 2>&1 | tail -20",
    "git diff --stat HEAD~1",
    "grep -rn 'def handle' src | head -5",
    "sed -n '1,80p' src/app.py",
)
_DECISION = PolicyDecision(Verdict.ALLOW, "Works inside the project", "default", "0" * 64, rules=("project-work",))


def fields(number: int) -> dict[str, Any]:
    """What the event of a decision holds: every command is another one, as in real runs."""
    command = f"{_COMMANDS[number % len(_COMMANDS)]} # {number}"
    action = Action(command, cwd="/srv/app", project="/srv/app", run_id="r" * 32, agent="bench")
    return {**action_fields(action, action.digest("0" * 64)), **decision_fields(_DECISION)}


def to_file(path: Path) -> Callable[[int], None]:
    """Appends an event to a plain file of JSON lines."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    last = seal(0, BEGIN, events.AUDIT_OPENED, at=0, pid=1, fields={})

    def append(number: int) -> None:
        nonlocal last
        at = time.time_ns() // 1_000_000
        tip = Tip(last.seq, last.hash)
        last = seal(last.seq + 1, tip, events.DECISION_EVALUATED, at=at, pid=os.getpid(), fields=fields(number))
        os.write(descriptor, last.line)
        os.fsync(descriptor)

    return append


def to_store(path: Path) -> Callable[[int], None]:
    """Appends an event to a store, as a decision is recorded."""
    store = SQLiteStore(path)
    return lambda number: store.record(events.DECISION_EVALUATED, **fields(number))


class _Plain(Redactor):
    """Redacts nothing."""

    def fields(self, fields: Any) -> dict[str, Any]:
        return dict(fields)


def to_plain_store(path: Path) -> Callable[[int], None]:
    """The same without redaction, to see what that costs."""
    append, own, plain = to_store(path), Ledger.redactor, _Plain()

    def without(number: int) -> None:
        Ledger.redactor = lambda self: plain  # type: ignore[method-assign]
        try:
            append(number)
        finally:
            Ledger.redactor = own  # type: ignore[method-assign]

    return without


def appends(count: int, folder: Path) -> tuple[dict[str, float], float]:
    """Appends a second by where to, medians of rounds that take turns; and the median of what the store makes of those
    of JSON lines in the same round."""
    ways = {
        "JSON lines": to_file(folder / "plain.jsonl"),
        "store": to_store(folder / "store.sqlite3"),
        "store, not redacted": to_plain_store(folder / "plain.sqlite3"),
    }
    for append in ways.values():
        append(0)
    rates: dict[str, list[float]] = {name: [] for name in ways}
    share = max(1, count // ROUNDS)
    for turn in range(ROUNDS):
        for name, append in ways.items():
            start = time.perf_counter()
            for number in range(share):
                append(turn * share + number + 1)
            rates[name].append(share / (time.perf_counter() - start))
    medians = {name: round(statistics.median(each), 1) for name, each in rates.items()}
    pairs = zip(rates["store"], rates["JSON lines"], strict=True)
    return medians, statistics.median(ours / plain for ours, plain in pairs)


def verified(count: int, folder: Path) -> dict[str, float]:
    """Events a second that the verifier checks, of an export and of a store with its tables."""
    store = SQLiteStore(folder / "verified.sqlite3")
    with store._transaction() as ledger:  # one transaction: how it came into being is not measured here
        for number in range(count):
            ledger.append(events.DECISION_EVALUATED, **fields(number))
    export = folder / "export.jsonl"
    with export.open("wb") as file:
        file.writelines(entry.line for entry in store.events())
    rates = {}
    start = time.perf_counter()
    with export.open("rb") as lines:
        assert verify(read_entries(lines)).intact
    rates["export"] = count / (time.perf_counter() - start)
    start = time.perf_counter()
    assert store.verify().intact
    rates["store"] = count / (time.perf_counter() - start)
    return {name: round(rate) for name, rate in rates.items()}


def main() -> int:
    """Measure, and print; 1 where the store is too slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=EVENTS)
    parser.add_argument("--verified", type=int, default=VERIFIED)
    parser.add_argument("--folder", type=Path, help="on the disk that is to be measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        (made, share), checked = appends(options.events, folder), verified(options.verified, folder)
    ratio = round(share, 3)
    result = {"appends_per_s": made, "ratio": ratio, "allowed": ALLOWED, "verified_per_s": checked}
    for name, rate in made.items():
        print(f"{name:22}{rate:>10,.0f} durable appends/s", file=sys.stderr)
    print(f"the store makes {ratio} of the appends of JSON lines with fsync (at least {ALLOWED})", file=sys.stderr)
    for name, rate in checked.items():
        print(f"{'verify ' + name:22}{rate:>10,.0f} events/s", file=sys.stderr)
    print(json.dumps(result))
    return 0 if ratio >= ALLOWED else 1


if __name__ == "__main__":
    sys.exit(main())
