"""Remembers decisions, so that an action that was judged a moment ago is not judged anew.

A decision follows from the action (command, directory, environment, interpreter, agent), the policy (its digest, which
holds the project and all variables) and from where symbolic links lead. The first two are the key. Links change at any
time, so an entry also keeps every path that was looked up for it with where it led, and counts only while all of them
still lead there: the disk is asked again for exactly what was asked the first time, which is what judging anew would
see. What a pattern stands for is not kept, and no decision that rests on it. Nothing else that is read from the disk
decides.
"""

from collections.abc import Hashable
from threading import Lock

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.symlinks import Links, Trail, holds
from humanlayer_agent.policy.decision import PolicyDecision

MAX_ENTRIES = 8_192
"""As many as the different commands of a month of work."""
MAX_COMMAND = 8_192
MAX_WEIGHT = 8_000_000
"""What all entries may come to, in characters of commands; a part or an effect of a decision counts as many."""
_PER_EFFECT = 64


class Memo:
    """Decisions by action; the oldest go first. Thread-safe: reading takes no lock."""

    def __init__(self, size: int = MAX_ENTRIES) -> None:
        self._size = size
        self._entries: dict[Hashable, tuple[PolicyDecision, Trail, int]] = {}
        self._weight = 0
        self._lock = Lock()

    def get(self, action: Action, digest: str) -> PolicyDecision | None:
        """The decision on exactly this action, while it still holds."""
        found = self._entries.get(_key(action, digest))
        return found[0] if found is not None and holds(found[1]) else None

    def put(self, action: Action, digest: str, decision: PolicyDecision, links: Links) -> None:
        """Remember a decision, and the links it rests on."""
        if len(action.content) > MAX_COMMAND:
            return
        key = _key(action, digest)
        weight = len(action.content) + _PER_EFFECT * (len(decision.effects) + len(decision.parts))
        with self._lock:
            before = self._entries.pop(key, None)
            self._entries[key] = (decision, links.trail(), weight)
            self._weight += weight - (before[2] if before is not None else 0)
            while len(self._entries) > self._size or (self._weight > MAX_WEIGHT and len(self._entries) > 1):
                oldest = next(iter(self._entries))
                self._weight -= self._entries.pop(oldest)[2]


def _key(action: Action, digest: str) -> Hashable:
    # All of the environment and not its digest: equality is certain, and a digest costs more than judging.
    env = frozenset(action.env.items()) if action.env else None
    return action.content, action.type, action.cwd, action.interpreter, action.agent, env, digest
