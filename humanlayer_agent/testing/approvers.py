"""Scripted approvers and Directors: for tests of code that stands behind a Gate, ours and other people's."""

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping

from humanlayer_agent.actions import Action
from humanlayer_agent.approvals.model import Answer, AnswerKind, ApprovalRequest, Approver
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict

TEST_APPROVER = Approver("os:1000:tester", "script", "terminal")
"""Who the scripted approvers say they are, where nothing else is said."""

POLICY_DIGEST = "0" * 64
"""The policy digest of the scripted Director's decisions."""


def answer(
    request: ApprovalRequest,
    kind: AnswerKind,
    comment: str = "",
    *,
    approver: Approver = TEST_APPROVER,
    decision_id: str = "",
    presented_digest: str | None = None,
    edited: str = "",
) -> Answer:
    """An answer to `request`, as a channel would bring it.

    Args:
        decision_id: a new one where it is empty.
        presented_digest: that of the request where it is None.
        edited: what the command is to be instead, in an edit.
    """
    return Answer(
        kind=kind,
        approver=approver,
        presented_digest=request.digest if presented_digest is None else presented_digest,
        decision_id=decision_id or uuid.uuid4().hex,
        comment=comment,
        input_mode="api",
        edited=edited,
    )


Step = AnswerKind | tuple[AnswerKind, str] | BaseException | Callable[[ApprovalRequest], Answer | None] | None


class ScriptedAsker:
    """A channel that follows a script, one step a request. Thread-safe.

    Args:
        script: a kind ("approve"), a kind with a comment ("edit" with the command it is changed to), an exception to
            raise, None for silence, or a function of the request. After the last step it says that nobody is there
            (`ChannelError`).
        approver: who answers.

    Attributes:
        asked: the requests that were put before it, in order.
        told: the lines it was told.

    Example:
        >>> asker = ScriptedAsker(["approve", ("reject", "not on a Friday"), ("edit", "make test")])
    """

    name = "script"

    def __init__(self, script: Iterable[Step] = (), *, approver: Approver = TEST_APPROVER) -> None:
        self.asked: list[ApprovalRequest] = []
        self.told: list[str] = []
        self._script = iter(script)
        self._approver = approver
        self._lock = threading.Lock()

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        with self._lock:
            self.asked.append(request)
            try:
                step = next(self._script)
            except StopIteration:
                raise ChannelError("the script is over") from None
        if isinstance(step, BaseException):
            raise step
        if callable(step):
            return step(request)
        if step is None:
            return None
        kind, words = (step, "") if isinstance(step, str) else step
        if kind == "edit":
            return answer(request, kind, edited=words, approver=self._approver)
        return answer(request, kind, words, approver=self._approver)

    def tell(self, text: str) -> None:
        self.told.append(text)


class ScriptedDirector:
    """A Director that decides by a word in the command.

    Args:
        verdicts: words and their verdicts; the first that is found decides.
        otherwise: the verdict where none is.

    Example:
        >>> ScriptedDirector({"rm": Verdict.DENY}).evaluate(Action("ls")).verdict
        <Verdict.ALLOW: 0>
    """

    def __init__(self, verdicts: Mapping[str, Verdict] | None = None, otherwise: Verdict = Verdict.ALLOW) -> None:
        self.verdicts = dict(verdicts or {})
        self.otherwise = otherwise

    def evaluate(self, action: Action) -> PolicyDecision:
        word = next((word for word in self.verdicts if word in action.content), None)
        if word is None:
            return PolicyDecision(self.otherwise, "no rule matches", "scripted", POLICY_DIGEST, default_hit=True)
        verdict = self.verdicts[word]
        return PolicyDecision(verdict, f"{word}: {verdict}", "scripted", POLICY_DIGEST, rules=(word,))
