"""Remembers decisions, so that an action that was judged a moment ago is not judged anew.

A decision follows from the action (command, directory, environment, interpreter, agent), the policy (its digest, which
holds the project and all variables) and from where symbolic links lead. The first two are the key. Links change at any
time, so an entry also keeps every path that was looked up for it with where it led, and counts only while all of them
still lead there: the disk is asked again for exactly what was asked the first time, which is what judging anew would
see. Nothing else that is read from the disk decides.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable

from humanlayer_agent.actions import Action
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.pathset import Links

MAX_ENTRIES = 512
MAX_COMMAND = 8_192


class Memo:
    """Decisions by action; the oldest go first. Thread-safe."""

    def __init__(self, size: int = MAX_ENTRIES) -> None:
        self._size = size
        self._entries: OrderedDict[Hashable, tuple[PolicyDecision, Links]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, action: Action, digest: str) -> PolicyDecision | None:
        """The decision on exactly this action, while it still holds."""
        key = _key(action, digest)
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._entries.move_to_end(key)
        if found is None:
            return None
        decision, links = found
        return decision if links.unchanged() else None

    def put(self, action: Action, digest: str, decision: PolicyDecision, links: Links) -> None:
        """Remember a decision, and the links it rests on."""
        if len(action.content) > MAX_COMMAND:
            return
        with self._lock:
            self._entries[_key(action, digest)] = (decision, links)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)


def _key(action: Action, digest: str) -> Hashable:
    # All of the environment and not its digest: equality is certain, and a digest costs more than judging.
    env = frozenset(action.env.items())
    return action.content, action.type, action.cwd, action.interpreter, action.agent, env, digest
