"""mini-swe-agent 1.17's interactive agent, supervised (see `mini_v1`)."""

from typing import Any

from minisweagent.agents import interactive
from minisweagent.agents.interactive import InteractiveAgent

from humanlayer_agent.agents.mini_v1 import Supervised
from humanlayer_agent.agents.presenter import Presenter, attached
from humanlayer_agent.agents.safe_console import announce, make_safe

console = make_safe(interactive)


class SupervisedInteractiveAgent(Supervised, InteractiveAgent):  # type: ignore[misc]
    """mini's interactive agent, supervised (see `Supervised`). Commands of its human mode are judged like any other.

    Its mode is mini's own, so `confirm` where none is given: mini asks about every command of the model first, and what
    is confirmed there is judged all the same. In mode yolo only supervision asks.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        announce(console, self.config.mode)

    def _presented(self) -> Presenter | None:
        """mini shows what the model says, its commands and their output."""
        return attached(self.env, console, says="steps")
