"""Signed heads of the log, posted where people keep them: an outside witness for whoever verifies the log later."""

from collections.abc import Callable

from humanlayer_agent.approvals.store_interface import Store
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
