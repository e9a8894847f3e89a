"""The errors this package raises. Each message says what was wrong, where, and what to do."""


class HumanlayerError(Exception):
    """Base of every error that is ours."""


class ConfigError(HumanlayerError):
    """A setting, file or directory that can't be used (exit code 2)."""


class PolicyError(ConfigError):
    """A policy file that is broken: the engine stops, it never runs with less than what was written."""


class StoreError(HumanlayerError):
    """The store can't be read or written: the action is denied."""


class ChannelError(HumanlayerError):
    """A channel can't reach its humans."""


class NoTerminal(ChannelError):
    """Nobody can be asked at a terminal here (none, or we are a background job). Never an approval."""


class ActionDenied(HumanlayerError):
    """Raised by `Gate.run` when an action may not run; `denial` says why."""

    def __init__(self, denial: object) -> None:
        super().__init__(str(denial))
        self.denial = denial


class AgentsStopped(HumanlayerError):
    """A human has stopped every agent: nothing new may run.

    Args:
        halt: which stop (`approvals.halt`).
        decision: what the policy said of the action.
    """

    def __init__(self, halt: object, decision: object = None) -> None:
        super().__init__("a human has stopped every agent of this store (hla stop): nothing new runs until hla resume")
        self.halt, self.decision = halt, decision


class RunTerminated(HumanlayerError):
    """A human stopped the run (q at the prompt, Ctrl-C)."""
