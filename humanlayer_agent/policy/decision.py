"""The Director's answer.

What is made for every action has slots and is not frozen, because that takes several times as long to build. Treat it
as immutable all the same: the gate, the log and whoever asks a human are given the same one.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from humanlayer_agent.action import FileDigest
from humanlayer_agent.shell import Effect


class Verdict(IntEnum):
    """allow < ask < deny: the strictest of several is the largest."""

    ALLOW = 0
    ASK = 1
    DENY = 2

    def __str__(self) -> str:
        return self.name.lower()


SEVERITIES = ("low", "medium", "high", "critical")


@dataclass(frozen=True, slots=True)
class EffectVerdict:
    """What the rules say of one effect. `default_hit`: no rule asks or denies, and none allows it."""

    verdict: Verdict
    rules: tuple[str, ...] = ()
    reason: str = ""
    default_hit: bool = False


@dataclass(slots=True, unsafe_hash=True)
class PartVerdict:
    """One simple command of the action: where it stands, what it is, and its own verdict.

    `judged[i]` is the verdict on `effects[i]`.
    """

    command: str
    program: str | None
    verdict: Verdict
    rules: tuple[str, ...]
    reason: str
    span: tuple[int, int]
    via: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()
    judged: tuple[EffectVerdict, ...] = ()


@dataclass(slots=True, unsafe_hash=True)
class PolicyDecision:
    """What the policy says of one action.

    `rules` are the ids of the rules that decided and then of all others that were hit (deciding first; empty
    where none was). `default_hit` tells "nothing allows this" from "a rule asks or denies". `parse` is ok, partial or
    failed. `spans` are the deciding parts of the command. `policy_digest` identifies the merged policy.
    `files` are the files whose text was judged: they join the action's digest. `enforced` is False while a policy is
    only observed: the verdict is real, is recorded, and stops nothing.
    """

    verdict: Verdict
    reason: str
    policy: str
    policy_digest: str
    rules: tuple[str, ...] = ()
    severity: str = "medium"
    suggestion: str = ""
    parse: str = "ok"
    parse_reasons: tuple[str, ...] = ()
    default_hit: bool = False
    unresolved: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    parts: tuple[PartVerdict, ...] = ()
    effects: tuple[Effect, ...] = ()
    files: tuple[FileDigest, ...] = ()
    route: str | dict[str, Any] = "default"
    remember: tuple[str, ...] = ("once",)
    microseconds: int = 0
    enforced: bool = True

    @property
    def rule(self) -> str:
        """The rule that decided, or "" where none matched."""
        return self.rules[0] if self.rules else ""
