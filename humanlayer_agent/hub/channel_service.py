"""Serves one channel for as long as its lease is held: receives, delivers, settles, reminds."""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.approvals.model import Answer, VoteResult
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.audit import events
from humanlayer_agent.channels.contract import Channel, Health, Retry
from humanlayer_agent.errors import StoreError
from humanlayer_agent.hub.channel_access import StoreDesk
from humanlayer_agent.hub.digests import Digests
from humanlayer_agent.hub.outbox import Deliver, Outbox
from humanlayer_agent.hub.sender import Sender
from humanlayer_agent.hub.stories import Stories
from humanlayer_agent.keys.signing import Signer

POLL = 0.1
"""Seconds between two looks at the store while nothing happens: other processes ask, and decide."""

CHECKED = 60.0
"""Seconds between two looks at a channel's health."""

WATCHED = 10.0
"""The same, where somebody watches the hub."""

ROUND = 4
"""Jobs that are done before it looks at the store again: what is new must not wait for a long list."""

WARN_AGAIN = 30.0
"""Seconds before a warning is tried again where the service names none."""

LAST = 3.0
"""Seconds to bring surfaces up to date at the end: buttons of a run that is over must not stay."""


class Server:
    """The thread of one channel. It ends when it is told to, or where the channel can't be started.

    Args:
        build: makes the channel.
        held: whether the lease is still ours.
        say: takes lines about what happens.
        watched: whether the channel works is looked at often.
        warnings: what is to be told to all who may decide; it outlives a server that ends.

    Attributes:
        problem: why the channel could not be started; "" where it could.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        build: Callable[[], Channel],
        authority: Authority,
        signer: Signer,
        *,
        held: Callable[[], bool],
        say: Callable[[str], None],
        watched: bool = False,
        warnings: deque[str] | None = None,
    ) -> None:
        self.problem = ""
        self._thread = threading.Thread(target=self._run, name=f"hub-{name}", daemon=True)
        self._store = store
        self._channel_name = name
        self._build = build
        self._authority = authority
        self._signer = signer
        self._held = held
        self._say = say
        self._stopping = threading.Event()
        self._awake = threading.Event()
        self._channel: Channel | None = None
        self._notes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._warnings: deque[str] = deque() if warnings is None else warnings
        self._warn_at = float("-inf")
        self._well = True
        self._watched = watched
        self._last = Health(False, ("it is being started",))

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def post(self, text: str) -> None:
        """Have a text that is no request posted, where the channel can do that; returns at once."""
        self._notes.put(text)
        self._awake.set()

    def warn(self, text: str) -> None:
        """Have all who may decide told something at once, where the channel can do that; returns at once."""
        self._warnings.append(text)
        self._awake.set()

    def stop(self) -> None:
        """Tell it to end; it may take a moment."""
        self._stopping.set()
        self._awake.set()

    def health(self) -> Health:
        """That of the channel, where it is there."""
        channel = self._channel
        if channel is None:
            return Health(False, (self.problem or "it is being started",))
        try:
            return channel.health()
        except Exception as error:
            return Health(False, (f"its health can't be told: {describe(error)}",))

    def last_health(self) -> Health:
        """The same, as it was when it was last looked at; nobody is asked for it."""
        return Health(False, (self.problem,)) if self.problem else self._last

    def _run(self) -> None:
        try:
            self._channel = self._opened()
        except Exception as error:
            self.problem = describe(error) if not str(error).strip() else str(error)
            self._report(self.problem)
            return
        self._say("serving")
        try:
            self._serve(self._channel)
        except Exception as error:
            self.problem = f"the hub failed: {describe(error)}"
            self._report(self.problem)
        finally:
            try:
                self._channel.close()
            except Exception as error:
                self._say(f"could not be closed: {describe(error)}")

    def _opened(self) -> Channel:
        channel = self._build()
        desk = StoreDesk(
            self._store,
            self._channel_name,
            self._authority,
            self._signer,
            changed=self._awake.set,
            recorded=self._recorded,
        )
        try:
            channel.start(desk)
        except BaseException:
            with suppress(Exception):
                channel.close()
            raise
        return channel

    def _serve(self, channel: Channel) -> None:
        outbox = Outbox(self._store, self._channel_name, self._authority)
        sender = Sender(self._store, channel, self._authority, stopping=self._stopping, say=self._say)
        schedule = getattr(channel, "schedule", None)
        digests = Digests(self._store, self._channel_name, self._authority, schedule) if schedule else None
        stories = Stories(self._store, self._channel_name, self._authority) if hasattr(channel, "tell") else None
        check_at = time.monotonic() + CHECKED
        watch_at = time.monotonic() if self._watched else float("inf")
        while not self._stopping.is_set():
            self._awake.clear()
            busy = False
            self._post(channel)
            self._warn(channel)
            with suppress(StoreError):  # it is locked, or gone: agents deny by themselves
                busy = self._work(outbox, sender)
                if stories is not None and not busy and self._held():
                    sender.tell(stories)
                if digests is not None and not busy and self._held():
                    sender.sum_up(digests)
            if time.monotonic() >= watch_at:
                self._last = self.health()
                watch_at = time.monotonic() + WATCHED
            if time.monotonic() >= check_at:
                check_at = time.monotonic() + CHECKED
                self._check()
            if not busy:
                self._awake.wait(POLL)
        if self._held():
            self._finish(outbox, channel, stories)

    def _work(self, outbox: Outbox, sender: Sender) -> bool:
        """One round; whether something was done."""
        done = 0
        for job in outbox.due():
            if self._stopping.is_set() or not self._held() or done == ROUND:
                break
            done += sender.do(job)
        return done > 0

    def _post(self, channel: Channel) -> None:
        """Post what `post` was given. One that can't be posted is not tried again: the next one says more."""
        while not self._notes.empty():
            text = self._notes.get()
            if post := getattr(channel, "post", None):
                try:
                    post(text)
                except Exception as error:
                    self._say(f"a head of the log could not be posted: {describe(error)}")

    def _warn(self, channel: Channel) -> None:
        """Tell what `warn` was given. The web inbox shows it by itself; the log has it in any case.

        What can't be told now is told later: that it could not be must not be a way to act unseen.
        """
        warn = getattr(channel, "warn", None)
        while self._warnings and time.monotonic() >= self._warn_at:
            try:
                if warn is not None:
                    warn(self._warnings[0], self._authority.deciders())
            except Retry as error:
                self._warn_at = time.monotonic() + (error.after or WARN_AGAIN)
                self._say(f"a warning can't be told now: {describe(error)} (again later)")
                return
            except Exception as error:
                self._say(f"a warning could not be told: {describe(error)}")
            self._warnings.popleft()

    def _finish(self, outbox: Outbox, channel: Channel, stories: Stories | None) -> None:
        """Settle what is left to settle, and tell what is left to tell, for a moment."""
        end = time.monotonic() + LAST
        sender = Sender(self._store, channel, self._authority, stopping=threading.Event(), say=self._say)
        with suppress(StoreError):
            for job in outbox.due():
                if time.monotonic() >= end:
                    return
                if not isinstance(job, Deliver):
                    sender.do(job)
            if stories is not None:
                stories.look_again()
                sender.tell(stories, until=end)

    def _check(self) -> None:
        health = self.health()
        if health.ok != self._well and not health.ok:
            self._report("; ".join(health.problems))
        self._well = health.ok

    def _report(self, why: str) -> None:
        self._say(f"failed: {why}")
        with suppress(StoreError):
            self._store.record(events.CHANNEL_FAILED, channel=self._channel_name, why=why)

    def _recorded(self, request_id: str, answer: Answer, result: VoteResult) -> None:
        who = self._authority.person_of(answer.approver.principal)
        by = who.id if who is not None else "a stranger"
        how = "" if result.outcome == "recorded" else f" ({result.outcome}: {result.reason})"
        self._say(f"{answer.kind} of {request_id[:12]} by {by}{how}")
