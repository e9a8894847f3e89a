"""The errors this package raises. Each message says what was wrong, where, and what to do."""

from collections.abc import Iterable, Sequence
from typing import Protocol


def did_you_mean(word: str, known: Iterable[str], others: str = "there are") -> str:
    """Return the hint that ends a message about a word nobody knows: the nearest known one, else all of them.

    Args:
        word: what was written.
        known: what could have been meant.
        others: stands before all of them, where none is near; "" for no hint then.

    Example:
        >>> did_you_mean("decison", ["decision", "when"]), did_you_mean("x", ["decision", "when"])
        ('did you mean decision?', 'there are decision, when')
    """
    from difflib import get_close_matches

    names = sorted(known)
    if near := get_close_matches(word, names, n=1):
        return f"did you mean {near[0]}?"
    return f"{others} {', '.join(names) or 'none'}" if others else ""


class HumanlayerError(Exception):
    """Base of every error of this package.

    Example:
        >>> try:
        ...     Director.load("no-such-policy", project="/srv/app")
        ... except HumanlayerError as error:
        ...     print(type(error).__name__)
        PolicyError
    """


class ConfigError(HumanlayerError):
    """Raised for a setting, file or directory that can't be used (exit code 2)."""


class PolicyError(ConfigError):
    """Raised for a broken policy file: the engine stops, it never runs with less than what was written."""


class StoreError(HumanlayerError):
    """Raised where the store can't be read or written: the action is denied."""


class StoreUnreachable(StoreError):
    """Raised where the server of a store does not answer at the moment: whoever waits for a human goes on waiting."""


class StoreTampered(StoreError):
    """Raised where the store is not what was written: its schema was changed, or its log set back.

    Args:
        seq: the first event that is not there any more; 0 where none can be told.
    """

    def __init__(self, said: str, seq: int = 0) -> None:
        super().__init__(said)
        self.seq = seq


class ChannelError(HumanlayerError):
    """Raised where a channel can't reach its humans."""


class NoTerminal(ChannelError):
    """Raised where nobody can be asked at a terminal (none, or a background job). Never an approval."""


class _Judged(Protocol):
    """The part of a `PolicyDecision` that is told."""

    @property
    def rule(self) -> str | None: ...


class _Denied(Protocol):
    """The part of a `Denial` that is told."""

    @property
    def reason(self) -> str: ...
    @property
    def by(self) -> str: ...
    @property
    def decision(self) -> _Judged | None: ...
    @property
    def request_id(self) -> str: ...
    @property
    def approver(self) -> str: ...
    @property
    def comment(self) -> str: ...


class ActionDenied(HumanlayerError):
    """Raised by `Gate.run`, and by functions behind `require_approval`, when an action may not run.

    Its text is one paragraph that says all of what follows.

    Args:
        denial: a `Denial` (`approvals.model`): who denied it and why, and a human's words.

    Attributes:
        reason: why it may not run.
        rule: the id of the policy's rule that decided; "" where none did.
        comment: a human's words; "" where there are none.
        who: the principal who refused it, else what did: policy, human, nobody (no answer, no channel) or store.
        request: the id of the request that a human was asked; "" where there was none.

    Example:
        >>> from humanlayer_agent import Gate
        >>> with Gate.from_config(policy="default") as gate:
        ...     try:
        ...         gate.run("hla requests approve 42")
        ...     except ActionDenied as denied:
        ...         print(denied.who)
        policy
    """

    def __init__(self, denial: _Denied) -> None:
        self.denial = denial
        self.reason = denial.reason
        self.rule = (denial.decision.rule or "") if denial.decision is not None else ""
        self.comment = denial.comment
        self.who = denial.approver or denial.by
        self.request = denial.request_id
        facts = {"rule": self.rule, "by": self.who, "request": self.request}
        told = ", ".join(f"{name} {value}" for name, value in facts.items() if value)
        comment = f' Comment: "{self.comment}"' if self.comment else ""
        said = " ".join(f"{self.reason} ({told}).{comment}".split())
        super().__init__("".join(char if char.isprintable() else "\ufffd" for char in said))  # it goes to terminals


class AgentsStopped(HumanlayerError):
    """Raised where a human has stopped every agent: nothing new may run.

    Args:
        halt: the stop that is in force (`approvals.stop`).
        decision: the `PolicyDecision` on the action.
    """

    def __init__(self, halt: object, decision: object = None) -> None:
        super().__init__("a human has stopped every agent of this store (hla stop): nothing new runs until hla resume")
        self.halt, self.decision = halt, decision


class NotAsJudged(HumanlayerError):
    """Raised where a command is not started, because what it was judged by is not that any more.

    Args:
        paths: the files, or the directory.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(f"{', '.join(paths)}: no longer what was judged, when the command was about to start")
        self.paths = tuple(paths)


LOST = "the run was given up: its process gave no sign of life for too long; start the agent again"


class RunLost(HumanlayerError):
    """Raised where the run of this process was given up meanwhile (its machine slept, or was cut off): nothing of it
    may run, as another may have taken its place.

    Args:
        decision: the `PolicyDecision` on the action.
    """

    def __init__(self, decision: object = None) -> None:
        super().__init__(LOST)
        self.decision = decision


class RunTerminated(HumanlayerError):
    """Raised where a human has stopped the run (q at the prompt, Ctrl-C)."""
