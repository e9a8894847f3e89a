"""The hub: serves every channel whose lease it can get, and gives way to whoever has it.

What a hub does from time to time besides serving channels.
"""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.channels.contract import Channel, Health
from humanlayer_agent.hub.channel_service import LAST, Server
from humanlayer_agent.hub.lease import Lease
from humanlayer_agent.keys.signing import Signer


@dataclass(frozen=True, slots=True)
class Task:
    """Something that a hub does every so often.

    Args:
        name: for people, and for its lease.
        every: seconds between two beginnings.
        run: is called on the hub's own thread; it must be quick, or start a thread.
        alone: of all hubs on a store one does it, under a lease of its own.

    Example::

            Hub(store, ..., tasks=[Task("heads", 60.0, post_signed_head)])
    """

    name: str
    every: float
    run: Callable[[], None]
    alone: bool = True


TICK = 0.2
"""Seconds between two looks at the leases. A process that was killed is replaced after about that time."""

COOL = (1.0, 60.0)
"""Seconds before a channel that could not be started is tried again: at first, doubled each time, and at most."""

WARNINGS = 50
"""Warnings that a channel keeps until it can tell them; of more, the newest."""

RECONCILED = 5.0
"""Seconds between two looks at what processes that are gone have left."""


class Hub:
    """Delivers, collects, reminds, escalates and settles, on threads of its own, in any process.

    Several hubs on one store share the work: each channel is served by one of them, and by another within two seconds
    after that one was killed.

    Args:
        store: where requests are.
        channels: the names of those that it may serve.
        build: makes the channel of a name; called on the channel's own thread, each time it begins to serve it.
        authority: who may decide, and which routes there are.
        signer: signs answers. Its key must be one that the agents trust (`signers:` of their configuration).
        tasks: what it does besides.
        say: takes a channel's name and a line about what happens there; called from several threads.
        watched: whether a channel works is looked at often (`last_health`).

    Example::

            with Hub(store, ["slack"], build, authority, signer, say=print):
                ...
    """

    def __init__(
        self,
        store: Store,
        channels: Sequence[str],
        build: Callable[[str], Channel],
        authority: Authority,
        signer: Signer,
        *,
        tasks: Sequence[Task] = (),
        say: Callable[[str, str], None] = lambda channel, line: None,
        watched: bool = False,
    ) -> None:
        holder = secrets.token_hex(8)
        self._store = store
        self._build = build
        self._authority = authority.heeding(lambda known: store.absences.standing(known)).without(store.people.left)
        self._signer = signer
        self._say = say
        self._watched = watched
        self._slots = [_Slot(name, Lease(store, name, holder)) for name in dict.fromkeys(channels)]
        every = (Task("reconcile", RECONCILED, store.reconcile, alone=False), *tasks)
        self._tasks = [_Due(task, Lease(store, f"task:{task.name}", holder)) for task in every]
        self._stopping = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="hub", daemon=True)
        self._lock = threading.Lock()
        self._state = "new"

    def start(self) -> None:
        """Begin; returns at once. Starting again changes nothing."""
        with self._lock:
            if self._state == "new":
                self._state = "started"
                self._keeper.start()

    def close(self, timeout: float = LAST + 3.0) -> None:
        """Give every channel back, after bringing up to date what it shows.

        Args:
            timeout: seconds.
        """
        with self._lock:
            started, self._state = self._state == "started", "closed"
        self._stopping.set()
        if started:
            self._keeper.join(timeout)

    @property
    def serving(self) -> tuple[str, ...]:
        """The channels that this hub serves at this moment."""
        return tuple(slot.name for slot in self._slots if slot.server is not None and slot.lease.held)

    @property
    def channels(self) -> tuple[str, ...]:
        """The channels that it may serve."""
        return tuple(slot.name for slot in self._slots)

    def post(self, text: str) -> None:
        """Have a text that is no request posted by every channel that this hub serves and that can; returns at once."""
        for slot in self._slots:
            if slot.server is not None:
                slot.server.post(text)

    def warn(self, text: str) -> None:
        """Have every channel that this hub serves tell all who may decide something at once; returns at once.

        One that could not be started tells it once it can.
        """
        for slot in self._slots:
            if slot.server is not None:
                slot.server.warn(text)
            elif slot.failures:
                slot.warnings.append(text)

    def health(self) -> Mapping[str, Health]:
        """By channel: whether it works. One that another process serves is well as far as we know."""
        return {slot.name: self._health(slot, slot.server.health if slot.server else None) for slot in self._slots}

    def last_health(self) -> Mapping[str, Health]:
        """The same as far as it is known already, where the hub is `watched`: nobody is asked for it."""
        return {slot.name: self._health(slot, slot.server.last_health if slot.server else None) for slot in self._slots}

    def stopped(self) -> bool:
        """Tell whether every agent of the store is stopped."""
        return bool(self._store.halts.standing(self._authority))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The keeper's thread

    def _keep(self) -> None:
        while not self._stopping.wait(TICK):
            for slot in self._slots:
                self._look_after(slot)
            for due in self._tasks:
                self._run(due)
        for slot in self._slots:
            if slot.server is not None:
                slot.server.stop()
        end = time.monotonic() + LAST + 2.0
        while any(slot.alive for slot in self._slots) and time.monotonic() < end:
            for slot in self._slots:
                if slot.alive:
                    slot.lease.keep()
            time.sleep(0.02)
        for slot in self._slots:
            slot.lease.release()
        for due in self._tasks:
            if due.task.alone:
                due.lease.release()

    def _look_after(self, slot: "_Slot") -> None:
        if slot.server is not None and not slot.alive:
            self._ended(slot)
        if slot.server is None:
            if time.monotonic() >= slot.again_at and slot.lease.keep():
                slot.server = self._server(slot)
                slot.server.start()
        elif not slot.lease.keep():
            slot.server.stop()

    def _ended(self, slot: "_Slot") -> None:
        assert slot.server is not None
        slot.failures = slot.failures + 1 if slot.server.problem else 0
        slot.problem = slot.server.problem
        wait = min(COOL[1], COOL[0] * 2 ** min(slot.failures - 1, 10)) if slot.failures else 0.0
        slot.again_at = time.monotonic() + wait
        slot.server = None
        slot.lease.release()

    def _server(self, slot: "_Slot") -> Server:
        return Server(
            self._store,
            slot.name,
            lambda: self._build(slot.name),
            self._authority,
            self._signer,
            held=lambda: slot.lease.held,
            say=lambda line: self._tell(slot.name, line),
            watched=self._watched,
            warnings=slot.warnings,
        )

    def _run(self, due: "_Due") -> None:
        if (due.task.alone and not due.lease.keep()) or time.monotonic() < due.at:
            return
        due.at = time.monotonic() + due.task.every
        try:
            due.task.run()
        except Exception as error:
            self._tell(due.task.name, f"failed: {describe(error)}")

    def _tell(self, channel: str, line: str) -> None:
        with suppress(Exception):  # nobody reads it any more
            self._say(channel, line)

    def _health(self, slot: "_Slot", of_server: Callable[[], Health] | None) -> Health:
        if of_server is not None:
            return of_server()
        if slot.problem:
            return Health(False, (slot.problem,))
        lease = self._store.surfaces.lease(slot.name)
        if lease is None:
            return Health(False, ("nobody serves it",))
        return Health(True, (), {"process": lease.process})


class _Slot:
    """One channel of a hub."""

    def __init__(self, name: str, lease: Lease) -> None:
        self.name = name
        self.lease = lease
        self.server: Server | None = None
        self.problem = ""
        self.failures = 0
        self.again_at = float("-inf")
        self.warnings: deque[str] = deque(maxlen=WARNINGS)

    @property
    def alive(self) -> bool:
        return self.server is not None and self.server.alive


class _Due:
    """A task, and when it is next."""

    def __init__(self, task: Task, lease: Lease) -> None:
        self.task = task
        self.lease = lease
        self.at = float("-inf")
