"""Scripted approvers and Directors: for tests of code that stands behind a Gate, ours and other people's."""

import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.approvals.model import Answer, AnswerKind, ApprovalRequest, Approver, VoteResult
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.keys.signing import Signer, process_signer
from humanlayer_agent.policy.decision import Ask, PolicyDecision, Verdict

TEST_APPROVER = Approver("os:1000:tester", "script", "terminal")
"""The identity of the scripted approvers, where nothing else is said."""

TEST_AUTHORITY = Authority(
    (
        Person("alice", ("os:1000:alice",)),
        Person("tester", (TEST_APPROVER.principal,)),
        Person("bob", ("slack:T1/U2", "email:bob@example.com")),
        Person("carol", ("slack:T1/U3",)),
        Person("guest", ("slack:T1/U9",)),
    ),
    {
        "default": ApprovalRule("default", ("alice", "tester", "bob"), timeout_ms=600_000),
        "two": ApprovalRule("two", ("alice", "tester", "bob", "carol"), quorum=2, timeout_ms=600_000),
        "solo": ApprovalRule("solo", ("alice",), solo=True, timeout_ms=600_000),
    },
)
"""A small team for tests: alice, who starts runs, the `TEST_APPROVER`, bob and carol; guest is no approver."""

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
    scope: str = "",
) -> Answer:
    """Return an answer to `request`, as a channel would bring it.

    Args:
        kind: approve, reject, edit ...
        comment: the human's words.
        approver: who answers.
        decision_id: a new one where it is empty.
        presented_digest: that of the request where it is None.
        edited: what the command is to be instead, in an edit.
        scope: the offer by which more of the kind is approved (`grants.offers`).
    """
    return Answer(
        kind=kind,
        approver=approver,
        presented_digest=request.digest if presented_digest is None else presented_digest,
        decision_id=decision_id or uuid.uuid4().hex,
        comment=comment,
        input_mode="api",
        edited=edited,
        scope=scope,
    )


class ScriptedApprovers:
    """People who may decide, and the key that vouches for their answers: they answer straight at the store.

    Args:
        authority: the people and the rules.
        signer: signs; this process's own key where it is None.

    Attributes:
        authority: the same, with the signer's key among those that count.

    Example::

            approvers = ScriptedApprovers(TEST_AUTHORITY)
            approvers.vote(store, request, "approve", BOB)
            store.permit(request, approvers.authority, use_by_ms=10_000)
    """

    def __init__(self, authority: Authority = TEST_AUTHORITY, signer: Signer | None = None) -> None:
        self.signer = signer or process_signer()
        self.authority = authority.trusting(self.signer.fingerprint)

    def vote(
        self,
        store: Store,
        request: ApprovalRequest,
        kind: AnswerKind = "approve",
        approver: Approver = TEST_APPROVER,
        comment: str = "",
        **fields: str,
    ) -> VoteResult:
        """Answer `request` as `approver` does; `fields` as `answer` takes them."""
        return self.decide(store, request.id, answer(request, kind, comment, approver=approver, **fields))

    def decide(self, store: Store, request_id: str, given: Answer) -> VoteResult:
        """Have an answer recorded and signed."""
        method = store.revoke if given.kind == "revoke" else store.decide
        return method(request_id, given, self.authority, self.signer)


Step = (
    AnswerKind
    | tuple[AnswerKind | Literal["grant"], str]
    | BaseException
    | Callable[[ApprovalRequest], Answer | None]
    | None
)


class ScriptedAsker:
    """A channel that follows a script, one step a request. Thread-safe.

    Args:
        script: a kind ("approve"), a kind with a comment ("edit" with the command it is changed to, "grant" with the
            scope by which more of the kind is approved), an exception to raise, None for silence, or a function of the
            request. After the last step it says that nobody is there
            (`ChannelError`).
        approver: who answers.

    Attributes:
        identities: of the approver: a Gate that is given no `Authority` takes their answers.
        asked: the requests that were put before it, in order.
        told: the lines it was told.

    Example:
        >>> asker = ScriptedAsker(["approve", ("reject", "not on a Friday"), ("edit", "make test")])
    """

    name = "script"

    def __init__(self, script: Iterable[Step] = (), *, approver: Approver = TEST_APPROVER) -> None:
        self.asked: list[ApprovalRequest] = []
        self.told: list[str] = []
        self.identities = (approver.principal,)
        self._script = iter(script)
        self._approver = approver
        self._lock = threading.Lock()

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        """Take the next step of the script as the answer to `request`."""
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
        if kind == "grant":
            return answer(request, "approve", scope=words, approver=self._approver)
        if kind == "edit":
            return answer(request, kind, edited=words, approver=self._approver)
        return answer(request, kind, words, approver=self._approver)

    def tell(self, text: str) -> None:
        """Keep a line that the human was told."""
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
        """Decide by the first word that is found in the command."""
        word = next((word for word in self.verdicts if word in action.content), None)
        if word is None:
            return PolicyDecision(self.otherwise, "no rule matches", "scripted", POLICY_DIGEST, default_hit=True)
        verdict = self.verdicts[word]
        asks = (Ask(word, action.content.split()[0], "command", operand=action.content),)
        return PolicyDecision(
            verdict,
            f"{word}: {verdict}",
            "scripted",
            POLICY_DIGEST,
            rules=(word,),
            asks=asks if verdict is Verdict.ASK else (),
        )
