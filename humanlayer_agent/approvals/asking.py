"""Puts requests before a human, one at a time, and turns what the store then says into a permit or a denial."""

import hashlib
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from humanlayer_agent.actions import Action, canonical, encodable
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Asker, Denial, Permit, Refused
from humanlayer_agent.approvals.store import Store
from humanlayer_agent.errors import ChannelError, RunTerminated, StoreError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict


class Asking:
    """The asks of one run, and what humans have refused in it. Thread-safe.

    An answer decides nothing by itself: it is recorded, and what counts is the state of the request in the store.

    An edit is judged like a command that the agent proposed: deny wins over the editor, an allow needs nobody's vote,
    and where the policy asks, the edited command is put before the human again, because its parts, effects and verdicts
    must have been seen before it is approved. The editor's vote that counts is that second one.

    Args:
        store: where requests are.
        asker: the channel; None where there is none.
        judge: what the policy says of an action; a denial where it could not say anything.
        requester: the principal who started the run.
        clock: the time in ms since the epoch. monotonic: seconds that no change of the clock touches.
        timeout_ms, valid_for_ms, use_by_ms: see `Gate`.

    Attributes:
        stopped: the denial that ended the run; None while it goes on.
    """

    def __init__(
        self,
        store: Store,
        asker: Asker | None,
        judge: Callable[[Action], PolicyDecision | Denial],
        *,
        requester: str,
        clock: Callable[[], int],
        monotonic: Callable[[], float],
        timeout_ms: int,
        valid_for_ms: int,
        use_by_ms: int,
    ) -> None:
        self.stopped: Denial | None = None
        self._store = store
        self._asker = asker
        self._judge = judge
        self._requester = requester
        self._clock = clock
        self._monotonic = monotonic
        self._timeout_ms = timeout_ms
        self._valid_for_ms = valid_for_ms
        self._use_by_ms = use_by_ms
        self._turn = threading.RLock()  # held by the thread whose request, or the edit of it, is before the human
        self._lock = threading.Lock()  # for what follows
        self._refusals: dict[str, Denial] = {}
        self._occurrences: dict[str, int] = {}

    def refusal(self, digest: str) -> Denial | None:
        """What a human has said against exactly this action before, or against the whole run."""
        return self.stopped or self._refusals.get(digest)

    def stop(self, denial: Denial) -> None:
        """Let nothing more happen in this run. The first reason stays."""
        with self._lock:
            self.stopped = self.stopped or denial

    def ask(self, action: Action, decision: PolicyDecision, digest: str, *, instance: str) -> Permit | Denial:
        """Make a request of it and wait.

        Ctrl-C while the human is asked is that human's: it stops the run. Whatever else ends the waiting (`SystemExit`)
        withdraws the request and is raised again.

        Raises:
            StoreError: the request can't be written or read.
        """
        with self._lock:
            occurrence = self._occurrences.get(digest, 0)
            self._occurrences[digest] = occurrence + 1
        key = [encodable(instance), digest, occurrence]
        return self._wait(self._store.create_request(self._draft(action, decision, digest, key)))

    def _wait(self, request: ApprovalRequest) -> Permit | Denial:
        """Put a request that is in the store before the human, in turn."""
        deadline = self._monotonic() + (request.expires - self._clock()) / 1000
        mine = False
        try:
            mine = self._turn.acquire(timeout=max(0.0, deadline - self._monotonic()))
            # What was said while this thread waited for its turn. (An editor may well change their mind.)
            if earlier := self.stopped if request.parent else self.refusal(request.digest):
                self._store.withdraw(request.id, earlier.reason)
                return earlier
            answer = self._hear(request, deadline) if mine else None
            return self._settle(request, answer, late=self._monotonic() >= deadline)
        except (RunTerminated, KeyboardInterrupt):
            return self._stop(request)
        except ChannelError as error:
            return self._nobody(request, str(error))
        except BaseException as error:
            if isinstance(error, Exception) and not isinstance(error, StoreError):
                return self._nobody(request, f"the channel failed: {describe(error)}")
            with suppress(StoreError):
                self._store.withdraw(request.id, f"the supervisor failed: {describe(error)}")
            raise
        finally:
            if mine:  # only now: what was answered is recorded, and the next thread sees it
                self._turn.release()

    def _draft(
        self, action: Action, decision: PolicyDecision, digest: str, key: Sequence[object], parent: str = ""
    ) -> ApprovalRequest:
        now = self._clock()
        return ApprovalRequest(
            id=secrets.token_hex(16),
            idempotency_key=hashlib.sha256(canonical(list(key))).hexdigest(),
            digest=digest,
            body=action.body(decision.policy_digest, decision.files),
            action=action,
            decision=decision,
            requester=self._requester,
            created=now,
            expires=now + self._timeout_ms,
            valid_for=self._valid_for_ms,
            parent=parent,
        )

    def _hear(self, request: ApprovalRequest, deadline: float) -> Answer | None:
        """Wait for the human. None where no answer came of it."""
        if self._asker is None:
            raise ChannelError("no channel is configured")

        def cancelled() -> bool:
            return self.stopped is not None or self._monotonic() >= deadline or not self._pending(request)

        answer = None if cancelled() else self._asker.ask(request, until=request.expires, cancelled=cancelled)
        if answer is not None and not isinstance(answer, Answer):
            raise ChannelError(f"the channel answered with {type(answer).__name__}, not an Answer")
        return answer

    def _pending(self, request: ApprovalRequest) -> bool:
        try:
            found = self._store.get(request.id)
        except StoreError:  # an answer could not be recorded either
            return False
        return found is not None and found.state == "pending"

    def _settle(self, request: ApprovalRequest, answer: Answer | None, *, late: bool) -> Permit | Denial:
        if late or self._clock() >= request.expires:
            self._store.expire(request.id)
        if answer is not None:
            result = self._store.decide(request.id, answer)
            if result.outcome == "refused":
                return self._nobody(request, f"the answer was refused: {result.reason}")
        reached = self._store.get(request.id)
        match reached and reached.state:
            case "approved":
                return self._permit(request)
            case "rejected" if reached:
                return self._rejected(reached)
            case "superseded" if reached:
                return self._follow(request, reached)
            case "terminated" if reached:
                return self._stop(reached)
            case "expired":
                waited = (request.expires - request.created) // 1000
                return self._denied(request, f"a human must approve this, and nobody answered within {waited} s")
            case "pending":
                return self._nobody(request, "the channel ended without an answer")
            case state:
                return self.stopped or self._denied(request, f"the request is {state or 'gone'}")

    def _permit(self, request: ApprovalRequest) -> Permit | Denial:
        permit = self._store.permit(request.id, request.action, request.decision, use_by_ms=self._use_by_ms)
        return self._denied(request, permit.reason) if isinstance(permit, Refused) else permit

    # Edits

    def _follow(self, request: ApprovalRequest, edit: ApprovalRequest) -> Permit | Denial:
        """What becomes of a command that a human changed.

        Args:
            request: as it was asked. edit: the same as the store has it now, with the edited command.
        """
        # The model's words were about another command.
        answered = self._judged_anew(replace(request.action, content=edit.edited, model_intent=""), edit)
        if isinstance(answered, Permit):
            return replace(
                answered,
                request_id=answered.request_id or edit.id,
                edited_by=answered.edited_by or edit.decided_by,
                comment=answered.comment or edit.comment,
            )
        if answered.by == "human" and not answered.terminate:
            with self._lock:  # the agent proposed the original, and would do so again
                self._refusals[request.digest] = answered
        return answered

    def _judged_anew(self, action: Action, edit: ApprovalRequest) -> Permit | Denial:
        decision = self._judge(action)
        if isinstance(decision, Denial):
            return self._edit_denied(decision, action, edit)
        digest = action.digest(decision.policy_digest, decision.files)
        if decision.verdict is Verdict.ALLOW:
            return self._store.allow(action, decision, digest, use_by_ms=self._use_by_ms, edit_of=edit.id)
        if decision.verdict is Verdict.ASK:
            draft = self._draft(action, decision, digest, ["edit of", edit.id], parent=edit.id)
            answered = self._wait(self._store.create_request(draft))
            if isinstance(answered, Denial) and not answered.edited:
                answered = replace(answered, edited=action.content)
            return answered
        self._store.record_decision(action, decision, digest, edit_of=edit.id)
        rule = f" (rule {decision.rule})" if decision.rule else ""
        reason = f"the policy denies the edited command{rule}: {decision.reason}"
        return self._edit_denied(Denial(reason, by="policy", decision=decision), action, edit)

    def _edit_denied(self, denial: Denial, action: Action, edit: ApprovalRequest) -> Denial:
        """The denial that an edit ended in, and the editor is told."""
        if tell := getattr(self._asker, "tell", None):
            with suppress(Exception):
                tell(f"not run: {denial.reason}")
        return replace(
            denial, request_id=edit.id, approver=edit.decided_by, comment=edit.comment, edited=action.content
        )

    def _rejected(self, request: ApprovalRequest) -> Denial:
        denial = self._said_no(request, f"rejected by {request.decided_by}")
        with self._lock:
            self._refusals[request.digest] = denial
        return denial

    def _stop(self, request: ApprovalRequest) -> Denial:
        """A human ends the run. That holds in this process even where it can't be written."""
        by = f" by {request.decided_by}" if request.decided_by else ""
        denial = self._said_no(request, f"the run was stopped{by}", terminate=True)
        self.stop(denial)
        with suppress(StoreError):
            self._store.terminate(request.id, "the run was stopped at the prompt")
        return denial

    def _nobody(self, request: ApprovalRequest, why: str) -> Denial:
        self._store.withdraw(request.id, why)
        return self._denied(request, f"a human must approve this, and nobody could: {why}")

    def _denied(self, request: ApprovalRequest, reason: str) -> Denial:
        return Denial(reason, by="nobody", decision=request.decision, request_id=request.id)

    def _said_no(self, request: ApprovalRequest, reason: str, *, terminate: bool = False) -> Denial:
        return Denial(
            reason,
            by="human",
            decision=request.decision,
            request_id=request.id,
            approver=request.decided_by,
            comment=request.comment,
            terminate=terminate,
        )


def describe(error: BaseException) -> str:
    """An exception in one line, whatever it is: its text may be empty, endless, or raise."""
    try:
        text = " ".join(str(error).split())[:500]
    except Exception:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name
