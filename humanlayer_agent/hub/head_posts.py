"""Signed heads of the log, posted where people keep them: an outside witness for whoever verifies the log later.

That somebody has acted outside of a route, posted where people see it.
"""

from collections.abc import Callable

from humanlayer_agent.approvals.stop import broken_glass
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.audit.events import GLASS_BROKEN
from humanlayer_agent.audit.heads import head_line, head_text
from humanlayer_agent.hub.hub import Task

EVERY = 3_600.0
"""Seconds between two heads that are posted."""


def witness(
    store: Store, post: Callable[[str], None], *, say: Callable[[str], None] = lambda line: None, every: float = EVERY
) -> Task:
    """A task that posts the head of the log where there is something new in it.

    Args:
        post: puts a text where people keep it; it must not wait.
        say: takes a short line about it, for whoever watches.

    Example::

            Hub(store, ..., tasks=[witness(store, print)])
    """
    posted = -1

    def run() -> None:
        nonlocal posted
        head = store.write_head()
        if head.seq != posted:
            say(head_line(head))
            post(head_text(head))
            posted = head.seq

    return Task("heads", every, run)


LOUD_EVERY = 2.0
"""Seconds between two looks whether somebody has acted outside of a route."""

_RECENT_MS = 3_600_000
"""A hub that begins tells of so much before it: another may have been killed before it could."""


_MOST = 10
"""So many of them are told one by one within an hour: whoever may append events must not fill everybody's mail."""

_MORE = "BREAK-GLASS: there are more of these than are told here: hla audit query --type supervision.break-glass"


def alarm(store: Store, warn: Callable[[str], None], *, say: Callable[[str], None] = lambda line: None) -> Task:
    """A task that tells every channel at once when somebody acts outside of a route (break-glass).

    Args:
        warn: has people told a text; it must not wait.
        say: takes it as a line, for whoever watches.
    """
    seen: int | None = None
    told: list[int] = []

    def tell(text: str) -> None:
        say(text)
        now = store.now()
        told[:] = [at for at in told if at > now - _RECENT_MS]
        if len(told) <= _MOST:
            warn(text if len(told) < _MOST else _MORE)
            told.append(now)

    def run() -> None:
        nonlocal seen
        begins = seen is None
        for entry in store.events(type=GLASS_BROKEN.name, after=-1 if seen is None else seen):
            at, text = broken_glass(entry)
            if not begins or at is None or at > store.now() - _RECENT_MS:
                tell(text)
            seen = entry.seq
        seen = -1 if seen is None else seen

    return Task("break-glass", LOUD_EVERY, run, alone=False)  # each hub tells the channels that it serves
