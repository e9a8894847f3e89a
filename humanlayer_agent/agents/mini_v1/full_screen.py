"""mini-swe-agent 1.17's agent with a full-screen display, supervised (see `mini_v1`)."""

from typing import Any

from minisweagent.agents.interactive_textual import TextualAgent
from rich.text import Text

from humanlayer_agent.agents.mini_v1 import Supervised
from humanlayer_agent.agents.presenter import Presenter, attached


class SupervisedTextualAgent(Supervised, TextualAgent):  # type: ignore[misc]
    """mini's full-screen agent, supervised (see `Supervised`).

    It asks in its own input line, as the terminal's prompt would break the display: only the whole word Yes approves,
    anything else is a refusal, also what the keys for another mode put in. Its mode is mini's own, so `confirm` where
    none is given (see `SupervisedInteractiveAgent`).
    """

    def _own_user(self) -> Any:
        return _InputLine(self)

    def _proposer(self) -> Any:
        return self.agent

    def _presented(self) -> Presenter | None:
        """Only the table, once mini's screen is closed."""
        return attached(self.env, says="screen")


class _InputLine:
    """The display's own input line, as a user that can be asked."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def query(self, prompt: str, *, options: list[str]) -> str:
        """Ask, and return what was typed. The prompt is shown as it is: nothing in it is markup."""
        line = Text(f"{prompt}\n\nType {' or '.join(options)}.")
        answer: str = self._app.input_container.request_input(line)
        return answer
