"""The errors this package raises. Each message says what was wrong, where, and what to do."""

from collections.abc import Sequence


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


class ActionDenied(HumanlayerError):
    """Raised by `Gate.run`, and by functions behind `require_approval`, when an action may not run.

    Args:
        denial: a `Denial` (`approvals.model`): who denied it and why, and a human's words.

    Example:
        >>> from humanlayer_agent import Gate
        >>> with Gate.from_config(policy="default") as gate:
        ...     try:
        ...         gate.run("hla requests approve 42")
        ...     except ActionDenied as denied:
        ...         print(denied.denial.by)
        policy
    """

    def __init__(self, denial: object) -> None:
        super().__init__(str(denial))
        self.denial = denial


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
