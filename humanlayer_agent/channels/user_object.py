"""Asks through any object that has `query(prompt, *, options=[...])`: a script, a test, another program's dialogue."""

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from humanlayer_agent.approvals.model import Answer, AnswerKind, ApprovalRequest, Approver
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.errors import RunTerminated


class User(Protocol):
    """Whoever can be asked a question with fixed answers."""

    def query(self, prompt: str, *, options: list[str]) -> Any: ...


class UserAsker:
    """Adapts a `User` as a channel.

    Only the answer that is exactly the approving option (the last of `options`) approves. None, any other value, and an
    exception are refusals: an object that we know nothing about must not approve by accident. A question of the agent
    has no options here: any words that it returns are the answer, and decide nothing.

    Args:
        user: has `query(prompt, *, options)`; it is called with `options` as a list.
        options: the answers, the approving one last.
        assurance: how far whoever hands the object over vouches for the human behind it (see `authority.ASSURANCES`).

    Attributes:
        identities: who its answers come from, for a Gate that has no configured people.

    Example:
        >>> class Always:
        ...     def query(self, prompt, *, options):
        ...         return "No"
        >>> UserAsker(Always()).name
        'user'
    """

    name = "user"

    def __init__(self, user: User, options: Sequence[str] = ("No", "Yes"), *, assurance: str = "os") -> None:
        if len(options) < 2 or len(set(options)) != len(options):
            raise ValueError("options must be two or more different answers, the approving one last")
        self.user = user
        self.options = tuple(options)
        self.assurance = assurance
        self.identities = (f"user:{type(user).__name__}",)

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        """Asks once; `query` itself decides how long it waits.

        Raises:
            RunTerminated: `query` raised it, or KeyboardInterrupt.
        """
        if time.time_ns() // 1_000_000 >= until or cancelled():
            return None
        comment = ""
        answer: object = None
        options = list(self.options) if "approve" in request.answers else []
        try:
            answer = self.user.query(question(request), options=options)
        except (KeyboardInterrupt, RunTerminated) as error:
            raise RunTerminated("the run was stopped at the question") from error
        except Exception as error:  # whatever a stranger's object raises is a refusal
            comment = f"the question failed: {type(error).__name__}"
        if "approve" not in request.answers:
            return self._worded(request, answer, comment)
        # A str subclass may compare equal to anything.
        approved = type(answer) is str and answer == self.options[-1]
        return self._answer(request, "approve" if approved else "reject", comment)

    def _worded(self, request: ApprovalRequest, said: object, failed: str) -> Answer:
        """The answer to a question of the agent: any words are one."""
        if type(said) is str and said.strip():
            return self._answer(request, "respond", said)
        return self._answer(request, "reject", failed)

    def _answer(self, request: ApprovalRequest, kind: AnswerKind, comment: str) -> Answer:
        return Answer(
            kind=kind,
            approver=Approver(self.identities[0], self.name, self.assurance),
            presented_digest=request.digest,
            decision_id=uuid.uuid4().hex,
            comment=comment,
            input_mode="api",
        )


def question(request: ApprovalRequest) -> str:
    """The prompt: why it was blocked, then everything that the terminal would show, made safe."""
    view = present(request)
    if view.question:
        return as_text(view, width=100)
    return f"Blocked: {view.reason}\n\n{as_text(view, width=100)}\n\nRun it once?"
