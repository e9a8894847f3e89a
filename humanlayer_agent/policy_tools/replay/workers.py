"""A replay in several processes, with the results of one, in the same order.

What a run has written is known to its later steps, so all of a run is judged by one process; runs share nothing. This
process reads the logs, hands out steps, and puts what comes back in order: whoever counts can't tell the difference.
"""

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import cast

from humanlayer_agent.errors import HumanlayerError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy_tools.replay import Engine, Judged
from humanlayer_agent.policy_tools.replay.steps import Item, NoCommand, Step, Unreadable, Wrote

Result = Judged | Unreadable | NoCommand
Answer = list[tuple[int, Result | None]]
"""What came of items, each with its number; None where nothing did."""
_BATCH = 64
"""So many items a worker is handed at once."""
_AHEAD = 512
"""So many items a worker this process reads ahead of what it has passed on: a long step holds up no more memory."""


class WorkerLost(HumanlayerError):
    """A process that judged has ended: nothing of what it had is known, so nothing is said of the whole."""


def replayed(engine: Engine, items: Iterable[Item], jobs: int = 1) -> Iterator[Result]:
    """Judge `items` as `engine.replay` does, in so many processes.

    Raises:
        WorkerLost: one of them was ended by somebody else.
    """
    if jobs < 2:
        yield from engine.replay(items)
        return
    workers = _started(engine, jobs)  # before anything is read: a fork takes no thread along
    try:
        yield from _in_order(workers, items)
    finally:
        for worker in workers:
            worker.end()


class _Worker:
    """A process that judges, and what is to be handed to it. It has one batch at a time, so neither waits for ever."""

    def __init__(self, engine: Engine, others: "Sequence[_Worker]") -> None:
        self.connection, theirs = multiprocessing.Pipe()
        self.waiting: deque[tuple[int, Item]] = deque()
        self.busy = False
        ours = [self.connection, *(each.connection for each in others)]
        self._process = ForkProcess(target=_work, args=(engine, theirs, ours), daemon=True)
        self._process.start()
        theirs.close()

    def hand_out(self) -> None:
        """Hand it the next batch, if it has none."""
        if self.busy or not self.waiting:
            return
        batch = [self.waiting.popleft() for _ in range(min(_BATCH, len(self.waiting)))]
        self.busy = True
        with suppress(OSError):  # it has ended, which `take` says
            self.connection.send(batch)

    def take(self) -> Answer:
        """Return what it has judged."""
        try:
            found = self.connection.recv()
        except (EOFError, OSError):
            self._process.join()
            raise WorkerLost(
                f"a process that judged has ended (exit code {self._process.exitcode}): what it had is lost. Is there "
                "memory for so many? Try fewer --jobs."
            ) from None
        self.busy = False
        if isinstance(found, BaseException):
            raise found
        return cast(Answer, found)

    def end(self) -> None:
        """End it, whatever it does."""
        self._process.kill()
        self._process.join()
        self.connection.close()


def _started(engine: Engine, jobs: int) -> list[_Worker]:
    workers: list[_Worker] = []
    for _ in range(jobs):
        workers.append(_Worker(engine, workers))
    return workers


def _in_order(workers: Sequence[_Worker], items: Iterable[Item]) -> Iterator[Result]:
    reading, of_runs = iter(items), dict[str, _Worker]()
    results: dict[int, Result | None] = {}
    read = passed = 0
    more = True
    while True:
        while more and read - passed < _AHEAD * len(workers):
            item = next(reading, None)
            if item is None:
                more = False
                break
            if isinstance(item, Step | Wrote):
                worker = of_runs.get(item.run)
                if worker is None:
                    worker = of_runs[item.run] = min(workers, key=lambda each: len(each.waiting) + each.busy * _BATCH)
                worker.waiting.append((read, item))
                if len(worker.waiting) >= _BATCH:
                    worker.hand_out()
            else:
                results[read] = item
            read += 1
        for worker in workers:
            worker.hand_out()
        while passed in results:
            result = results.pop(passed)
            passed += 1
            if result is not None:
                yield result
        if busy := {each.connection: each for each in workers if each.busy}:
            for connection in wait(list(busy)):
                results.update(busy[cast(Connection, connection)].take())
        elif passed == read and not more:
            return


# ---- in the worker ----------------------------------------------------------------------------------------


def _work(engine: Engine, connection: Connection, others: Sequence[Connection]) -> None:
    """Judge what comes, until nobody is there any more. Ctrl-C is for the process that reads."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:  # else none of us would notice that it has ended
        other.close()
    with suppress(EOFError, OSError):
        while True:
            batch = connection.recv()
            try:
                answer: object = [(number, _one(engine, item)) for number, item in batch]
            except Exception as error:
                answer = error
            connection.send(answer)


def _one(engine: Engine, item: Item) -> Result | None:
    result = next(engine.replay((item,)), None)
    return _light(result) if isinstance(result, Judged) else result


def _light(row: Judged) -> Judged:
    """Without what nobody asks of a command that is allowed: most are, and it is most of what would be sent."""
    decisions = tuple(_without_parts(each) if each.verdict is Verdict.ALLOW else each for each in row.decisions)
    return replace(row, decisions=decisions)


def _without_parts(decision: PolicyDecision) -> PolicyDecision:
    return replace(decision, parts=(), effects=(), asks=(), spans=(), findings=())
