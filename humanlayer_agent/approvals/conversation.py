"""Puts requests before humans, one at a time, and turns what they said into a permit or a denial."""

import hashlib
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import overload

from humanlayer_agent.action import PLAN, QUESTION, Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority
from humanlayer_agent.approvals.delivery_failures import asked_elsewhere, due_by_now, elsewhere, not_at, unreached
from humanlayer_agent.approvals.model import (
    Answer,
    AnswerKind,
    ApprovalRequest,
    Asker,
    Denial,
    Permit,
    Refused,
    Vote,
    VoteResult,
)
from humanlayer_agent.approvals.spans import WAIT, Spans
from humanlayer_agent.approvals.stop import STOPPED, Halt, Halted, described
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.approvals.votes import said
from humanlayer_agent.approvals.wait import Left, Pause, Talk, Turn, Waits, as_it_is
from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.errors import ChannelError, ConfigError, RunTerminated, StoreError, StoreUnreachable
from humanlayer_agent.keys.signing import Signer, process_signer
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.needs_line import wants_hold

_SOON, _LATER, _PATIENCE = 0.02, 0.25, 30.0
"""Seconds between two looks at the store while others are to answer: at first, and after so many seconds."""

UNHELD = "It was not run held first: nobody waits who could apply what it changes."
_NOBODY_WAITS = "nobody waits for the answer any more"

_ENDS: dict[str, tuple[AnswerKind, str]] = {
    "rejected": ("reject", "rejected by"),
    "answered": ("respond", "answered in words by"),
    "revoked": ("revoke", "approved, and then revoked by"),
}
"""States that a human's no leads to: the answer that does it, and how a denial says so."""


class Asking:
    """The asks of one run, and what humans have refused in it. Thread-safe.

    An answer decides nothing by itself: it is recorded, and what counts is what the store then says. Words of humans
    are taken only from votes that are proved.

    An edit is judged like a command that the agent proposed: deny wins over the editor, an allow needs nobody's vote,
    and where the policy asks, the edited command is put before humans again, because its parts, effects and verdicts
    must have been seen before it is approved. The editor's vote on it is that second one, and counts once.

    Args:
        store: where requests are.
        asker: the channel of this process; None where there is none.
        judge: what the policy says of an action; a denial where it could not say anything.
        authority: who may decide. signer: signs what is answered here; this process's own key where it is None.
        requester: the principal who started the run.
        clock: the time in ms since the epoch. monotonic: seconds that no change of the clock touches.
        timeout_ms, valid_for_ms, use_by_ms: see `Gate`.
        hold: runs an action held, and gives it and the decision as they are asked about then.
        drop: throws away what a held run has changed, by its digest; "" is none.
        can_hold: tells whether anything can be run held.
        spans: tell how long it waited.

    Attributes:
        stopped: the denial that ended the run; None while it goes on.
        held: all that the run has started so far is held by a confinement.
    """

    def __init__(
        self,
        store: Store,
        asker: Asker | None,
        judge: Callable[[Action], PolicyDecision | Denial],
        *,
        authority: Authority,
        signer: Signer | None,
        requester: str,
        clock: Callable[[], int],
        monotonic: Callable[[], float],
        timeout_ms: int | None,
        valid_for_ms: int | None,
        use_by_ms: int,
        hold: Callable[[Action, PolicyDecision], tuple[Action, PolicyDecision]],
        drop: Callable[[str], None],
        can_hold: Callable[[], bool],
        spans: Spans,
    ) -> None:
        self.stopped: Denial | None = None
        self.held = True
        self._store = store
        self._asker = asker
        self._judge = judge
        heeding = authority.heeding(lambda counting: store.absences.standing(counting))
        self._given_authority = heeding.without(lambda: store.people.left())
        self._given_signer = signer
        self._requester = requester
        self._clock = clock
        self._monotonic = monotonic
        self._timeout_ms = timeout_ms
        self._valid_for_ms = valid_for_ms
        self._use_by_ms = use_by_ms
        self._hold, self._drop, self._can_hold = hold, drop, can_hold
        self._spans = spans
        self._turn = threading.Lock()  # held by whose request, or the edit of it, is before the human
        self._lock = threading.Lock()  # for what follows
        self._refusals: dict[str, Denial] = {}
        self._occurrences: dict[str, int] = {}
        self._told_of = ""  # the stop of every agent that our channel was told of
        self._waiting: dict[str, ApprovalRequest] = {}  # those that are before the human, or wait for that
        self._unheard: dict[str, str] = {}  # by request: why our own channel brought no answer that counts

    @cached_property
    def authority(self) -> Authority:
        """The people who may decide, and the key of this process among those that count: only this process has it.

        Raises:
            ConfigError: the key can't be used.
        """
        return self._given_authority.trusting(self._signer.fingerprint)

    @cached_property
    def _signer(self) -> Signer:
        return self._given_signer or process_signer()

    def refusal(self, digest: str) -> Denial | None:
        """Return the denial with which a human has refused exactly this action before, or the whole run; else None."""
        return self.stopped or self._refusals.get(digest)

    def stop(self, denial: Denial) -> None:
        """Let nothing more happen in this run. The first reason stays."""
        with self._lock:
            self.stopped = self.stopped or denial

    def ask(self, action: Action, decision: PolicyDecision, digest: str, *, instance: str) -> Waits[Permit | Denial]:
        """Make a request of it and wait.

        Ctrl-C while a human is asked is that human's: it stops the run. Whatever else ends the waiting (`SystemExit`)
        withdraws the request and is raised again.

        Raises:
            StoreError: the request can't be written or read.
        """
        return (yield from self._put(action, decision, digest, self._key(digest, instance)))

    def put(
        self, action: Action, decision: PolicyDecision, digest: str, *, name: str, kept: bool
    ) -> ApprovalRequest | Denial:
        """Make a request of it that nobody here waits for.

        Args:
            name: of the request (`submissions`).
            kept: see `ApprovalRequest`.
        """
        if decision.hold:
            decision = replace(decision, radius=(*decision.radius, UNHELD))
        return self._asked(action, decision, digest, ["submitted", name], name=name, kept=kept)

    def collect(
        self, action: Action, decision: PolicyDecision, digest: str, *, name: str, kept: bool
    ) -> ApprovalRequest | Denial:
        """Come back to a request that this run, or an earlier one of the same agent, has made.

        Returns:
            The request; what has become of it is said by `become`.
        """
        try:
            rule = self.authority.answerable(decision, self._requester)
        except ConfigError as error:
            return Denial(f"a human must approve this, and nobody may: {error}", by="nobody", decision=decision)
        draft = replace(self._draft(action, decision, digest, [name], rule, ""), id=name, kept=kept)
        found = self._store.collect(draft, self.authority)
        if isinstance(found, Refused):
            return Denial(found.reason, by="store", decision=decision, request_id=name)
        return found

    def become(self, request: ApprovalRequest) -> Permit | Denial | None:
        """Return what has become of a request; None where humans have still to say something."""
        reached = self._store.get(request.id)
        if reached is not None and reached.state == "pending":
            return self.stopped
        if reached is not None and reached.state == "superseded" and (vote := self._said(request, "edit")):
            # Nobody waits here in whose place the changed command could be judged.
            said = self._said_no(
                request, f"changed by {vote.approver.principal}, and to be proposed as it is now", vote
            )
            return replace(said, edited=vote.edited)
        return as_it_is(self._conclude(request, reached))

    def say(self, request_id: str, answer: Answer, run_id: str) -> VoteResult:
        """Record an answer that the program which asks brings itself.

        Args:
            run_id: of the run of this process: an answer that only the key of this process proves is worth nothing to
                another.
        """
        found = self._store.get(request_id)
        if found is not None and self._given_signer is None and found.action.run_id != run_id:
            why = "this process has no key that others trust: collect the request here first, or give the Gate a signer"
            return VoteResult("refused", found.state, why, "untrusted-signer")
        return self._store.decide(request_id, answer, self.authority, self._signer)

    def _key(self, digest: str, instance: str) -> list[object]:
        """What is the same where the same agent, started again, asks the same."""
        with self._lock:
            occurrence = self._occurrences.get(digest, 0)
            self._occurrences[digest] = occurrence + 1
        return [encodable(instance), digest, occurrence]

    def revoked(self, request: ApprovalRequest) -> Denial | None:
        """The denial of what was approved, permitted, and then revoked before it ran; None where it was not."""
        reached = self._store.get(request.id)
        return self._ended(request, "revoked") if reached and reached.state == "revoked" else None

    def halted(self, halt: Halt, decision: PolicyDecision | None = None, request_id: str = "") -> Denial:
        """The denial of whatever is proposed while every agent is stopped. The human at our channel is told, once.

        It ends the run where that is somebody's to end, and is not remembered: once that stop is lifted, an agent that
        is still there may propose again.
        """
        with self._lock:
            first, self._told_of = halt.id != self._told_of, halt.id
        if first:
            threading.Thread(target=self._tell, args=(described(halt),), daemon=True).start()
        return Denial(STOPPED, by="human", decision=decision, request_id=request_id, terminate=True, halted=True)

    # Requests

    def _put(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        key: Sequence[object],
        parent: str = "",
        *,
        holding: bool = False,
    ) -> Waits[Permit | Denial]:
        """Make a request, where somebody can answer it, and wait. What is to run held does so first.

        Args:
            holding: the turn at our channel is held by whoever asks.
        """
        if decision.hold or (parent and wants_hold(action.content)):  # the agent's own word does not have it run
            proposed, judged = action, decision
            action, decision = yield Talk(lambda: self._hold(proposed, judged), lambda: None)
            digest = action.digest(decision.policy_digest, decision.files)
        answered: Permit | Denial | None = None
        try:
            request = self._asked(action, decision, digest, key, parent)
            answered = request if isinstance(request, Denial) else (yield from self._wait(request, holding=holding))
            return answered
        finally:
            if not isinstance(answered, Permit) or answered.action.layer != action.layer:
                self._drop(action.layer)

    def _asked(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        key: Sequence[object],
        parent: str = "",
        *,
        name: str = "",
        kept: bool = False,
    ) -> ApprovalRequest | Denial:
        """Make a request, where somebody can answer it."""
        try:
            rule = self.authority.answerable(decision, self._requester)
        except ConfigError as error:
            self._store.record_decision(
                action, decision, digest, authority=self._given_authority, denied=str(error), edit_of=parent or None
            )
            return Denial(f"a human must approve this, and nobody may: {error}", by="nobody", decision=decision)
        draft = replace(self._draft(action, decision, digest, key, rule, parent), kept=kept)
        return self._store.create_request(replace(draft, id=name or draft.id), self.authority)

    def _draft(
        self,
        action: Action,
        decision: PolicyDecision,
        digest: str,
        key: Sequence[object],
        rule: ApprovalRule,
        parent: str,
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
            expires=now + min(rule.timeout_ms, self._timeout_ms or rule.timeout_ms),
            valid_for=min(rule.valid_for_ms, self._valid_for_ms or rule.valid_for_ms),
            parent=parent,
            rule=rule,
            needed=rule.quorum,
        )

    # Waiting

    def _wait(self, request: ApprovalRequest, *, holding: bool = False) -> Waits[Permit | Denial]:
        """Wait for what becomes of a request that is in the store."""
        about = {"request": request.id, "route": request.rule.name if request.rule else ""}
        with self._spans.of(WAIT, request.action.content, request.digest, **about) as span:
            found = yield from self._waited(request, holding=holding)
            span(approved=isinstance(found, Permit))
            return found

    def _waited(self, request: ApprovalRequest, *, holding: bool) -> Waits[Permit | Denial]:
        deadline = self._monotonic() + (request.expires - self._clock()) / 1000
        try:
            ended = yield from self._until_ours(request, deadline)
            ended = (yield from self._at_our_channel(request, deadline, holding)) if ended is None else ended
            return (yield from self._for_others(request, deadline)) if ended is None else ended
        except (RunTerminated, KeyboardInterrupt):
            return self._stop(request)
        except Left:
            raise
        except BaseException as error:
            with suppress(StoreError):
                self._store.withdraw(request.id, f"the supervisor failed: {describe(error)}")
            raise
        finally:
            with self._lock:
                self._unheard.pop(request.id, None)

    def _until_ours(self, request: ApprovalRequest, deadline: float) -> Waits[Permit | Denial | None]:
        """Wait while its route asks others and not us. None where it is to be put before the human here.

        A route without steps says nothing of channels: whoever is here is asked.
        """
        rule = self.authority.rule_for(request.decision, self._requester)
        only_waits = getattr(self._asker, "only_waits", False)
        if only_waits or not rule.steps or self._due_here(request, rule):
            return None
        # Nobody waits for the line: another thread's question may be before the human just now.
        said = asked_elsewhere(request, rule, self.authority, self._requester, self._here)
        threading.Thread(target=self._tell, args=(said,), daemon=True).start()
        return (yield from self._for_others(request, deadline, lambda: self._due_here(request, rule)))

    def _due_here(self, request: ApprovalRequest, rule: ApprovalRule) -> bool:
        """Tell whether a step of the route that is due by now names our own channel."""
        return any(step.to in self._here for step in due_by_now(self._store, request, rule, self._clock()))

    def _at_our_channel(
        self, request: ApprovalRequest, deadline: float, holding: bool
    ) -> Waits[Permit | Denial | None]:
        """Put it before the human here, in turn. None where it goes on waiting, for others.

        A channel that only waits puts nothing before anybody: any number may wait there at the same time.
        """
        turn, holding = None, holding or bool(getattr(self._asker, "only_waits", False))
        with self._lock:
            self._waiting[request.id] = request
        try:
            while not holding and (left := deadline - self._monotonic()) > 0 and not self._decided(request):
                turn = Turn(self._turn, min(left, _LATER))
                holding = yield turn
            # What was said while it waited for its turn. (An editor may well change their mind.)
            if earlier := self.stopped if request.parent else self.refusal(request.digest):
                self._store.withdraw(request.id, earlier.reason)
                return earlier
            try:
                answer = None
                if holding:
                    answer = yield Talk(
                        lambda: self._hear(request, deadline), lambda: self._store.withdraw(request.id, _NOBODY_WAITS)
                    )
                return (yield from self._settle(request, answer, late=self._monotonic() >= deadline, holding=holding))
            except ChannelError as error:
                return (yield from self._not_here(request, str(error), holding))
        finally:
            with self._lock:
                self._waiting.pop(request.id, None)
            if turn is not None:  # only now: what was answered is recorded, and the next one sees it
                turn.end()

    def _hear(self, request: ApprovalRequest, deadline: float) -> Answer | None:
        """Wait for the human at our channel. None where no answer came of it."""
        if self._asker is None:
            raise ChannelError("no channel is configured")

        identities = getattr(self._asker, "identities", ())
        if identities and not self._may_answer(request, identities):
            raise ChannelError("who answers here may not answer this")

        def cancelled() -> bool:
            return self.stopped is not None or self._monotonic() >= deadline or not self._pending(request)

        request = replace(
            request,
            held=self.held and request.decision.confinable,
            can_hold=self._can_hold(),
            to_type=self._store.to_type(request.id, identities[0], self.authority) if identities else "",
            earlier=lambda last: self._store.requests(state="settled", last=last),
            beside=lambda: self._beside(request.id),
        )
        try:
            answer = None if cancelled() else self._asker.ask(request, until=request.expires, cancelled=cancelled)
        except (ChannelError, RunTerminated):
            raise
        except Exception as error:
            raise ChannelError(f"the channel failed: {describe(error)}") from error
        if answer is not None and not isinstance(answer, Answer):
            raise ChannelError(f"the channel answered with {type(answer).__name__}, not an Answer")
        return answer

    def _beside(self, request_id: str) -> list[ApprovalRequest]:
        """Return the other requests of this run that wait for their turn at our channel."""
        with self._lock:
            return [each for each in self._waiting.values() if each.id != request_id]

    def _may_answer(self, request: ApprovalRequest, identities: Sequence[str]) -> bool:
        """Tell whether one of these could answer at all: nobody is asked whose answer would be refused."""
        people = self.authority.may_answer(self.authority.rule_for(request.decision, self._requester), self._requester)
        return any((person := self.authority.person_of(each)) and person.id in people for each in identities)

    def _decided(self, request: ApprovalRequest) -> bool:
        """Tell whether somebody else has settled it. Where it was withdrawn, whoever has the turn knows why."""
        found = self._store.get(request.id)
        return found is None or found.state not in ("pending", "withdrawn")

    def _pending(self, request: ApprovalRequest) -> bool:
        try:
            found = self._store.get(request.id)
        except StoreUnreachable:  # it may be back before the human has answered
            return True
        except StoreError:  # an answer could not be recorded either
            return False
        return found is not None and found.state == "pending"

    def _settle(
        self, request: ApprovalRequest, answer: Answer | None, *, late: bool, holding: bool
    ) -> Waits[Permit | Denial | None]:
        """Record what was answered here. None where it goes on waiting."""
        if late or self._clock() >= request.expires:
            self._store.expire(request.id)
        if answer is not None:
            result = self._store.decide(request.id, answer, self.authority, self._signer)
            if result.outcome == "refused":
                raise ChannelError(f"the answer was refused: {result.reason}")
            if result.state == "pending":
                more = "approval is" if result.missing == 1 else "approvals are"
                self._tell(f"recorded: {result.missing} more {more} needed")
                return None
            if result.state == "approved" and (remembered := self._remembered(request, answer)):
                self._tell(remembered)
        reached = self._store.get(request.id)
        if reached is not None and reached.state == "pending":
            raise ChannelError("the channel ended without an answer")
        if reached is not None and (answer is None or result.outcome == "late"):
            self._tell_who(reached)
        return (yield from self._conclude(request, reached, holding=holding))

    def _remembered(self, request: ApprovalRequest, answer: Answer) -> str:
        """Say what is remembered of an approval that was given just now; "" where it was for once."""
        if not answer.scope and request.action.type != PLAN:
            return ""
        if (given := self._store.grants.get(request.id)) is None:
            return "approved, and not remembered: not every approver has said that it may be"
        return f"approved, and remembered: {given.remembered}"

    def _not_here(self, request: ApprovalRequest, why: str, holding: bool) -> Waits[Permit | Denial | None]:
        """Our own channel brought no answer that counts. None where others may still answer."""
        reached = self._store.get(request.id)
        if reached is not None and reached.state != "pending":  # others have
            return (yield from self._conclude(request, reached, holding=holding))
        if self.stopped is not None or not self._others(request):
            return self._nobody(request, why)
        with self._lock:
            self._unheard[request.id] = why
        with suppress(StoreError):
            not_at(self._store, request, self.authority.rule_for(request.decision, self._requester), self._here, why)
        self._tell(f"{why}; it waits for somebody else")
        return None

    def _others(self, request: ApprovalRequest) -> bool:
        """Tell whether anybody but the human at our channel may still answer: by another channel, or another person."""
        rule = self.authority.rule_for(request.decision, self._requester)
        own = self.authority.person_of(self._requester)
        people = self.authority.may_answer(rule, self._requester)
        return any(step.to not in self._here for step in rule.steps) or bool(people - {own.id if own else ""})

    @property
    def _here(self) -> frozenset[str]:
        """The names of our own channel."""
        return frozenset(("terminal", self._asker.name if self._asker else "terminal"))

    @overload
    def _for_others(self, request: ApprovalRequest, deadline: float) -> Waits[Permit | Denial]: ...

    @overload
    def _for_others(
        self, request: ApprovalRequest, deadline: float, enough: Callable[[], bool]
    ) -> Waits[Permit | Denial | None]: ...

    def _for_others(
        self, request: ApprovalRequest, deadline: float, enough: Callable[[], bool] | None = None
    ) -> Waits[Permit | Denial | None]:
        """Wait until the store says what became of it. The deadline is ours: with nobody alive it still denies.

        Args:
            enough: tells whether it need not be waited for any longer; then None.
        """
        begin = self._monotonic()
        while self.stopped is None:
            try:
                looked = self._store.is_news(request.id)
                reached = self._store.get(request.id) if looked else None
            except StoreUnreachable:  # it is restarted, perhaps; nothing runs without it
                looked = False
            if looked and (reached is None or reached.state != "pending"):
                return (yield from self._conclude(request, reached))
            left = deadline - self._monotonic()
            if left <= 0 or self._clock() >= request.expires:
                self._store.expire(request.id)
            elif enough is not None and enough():
                return None
            else:
                yield Pause(min(left, _SOON if self._monotonic() < begin + _PATIENCE else _LATER))
        self._store.withdraw(request.id, self.stopped.reason)
        return self.stopped

    # What became of it

    def _conclude(
        self, request: ApprovalRequest, reached: ApprovalRequest | None, *, holding: bool = False
    ) -> Waits[Permit | Denial]:
        """The permit or denial that a settled request leads to.

        Args:
            request: as it was asked. reached: the same as the store has it now.
        """
        match reached and reached.state:
            case "approved":
                return self._permit(request)
            case "rejected" | "answered" | "revoked" as state:
                return self._ended(request, state)
            case "superseded":
                return (yield from self._follow(request, holding))
            case "terminated":
                return self._stop(request)
            case "expired":
                return self._expired(request)
            case state:
                return self.stopped or self._halt(request) or self._denied(request, f"the request is {state or 'gone'}")

    def _halt(self, request: ApprovalRequest) -> Denial | None:
        """The denial of what a stop of every agent has ended; None where there is none."""
        halts = self._store.halts.standing(self._given_authority)
        return self.halted(halts[0], request.decision, request.id) if halts else None

    def _permit(self, request: ApprovalRequest) -> Permit | Denial:
        permit = self._store.permit(request, self.authority, use_by_ms=self._use_by_ms)
        if isinstance(permit, Permit):
            return permit
        if isinstance(permit, Halted):
            return self.halted(permit.halt, request.decision, request.id)
        return self.revoked(request) or self._denied(request, permit.reason)

    def _ended(self, request: ApprovalRequest, state: str) -> Denial:
        """A human said no, in one way or another; exactly this action is not asked about again."""
        kind, words = _ENDS[state]
        if request.action.type == QUESTION:
            words = words.replace("rejected", "declined")
        vote = self._said(request, kind)
        if vote is None:
            return self._denied(request, f"the store says that the request is {state}, and nobody's answer proves it")
        denial = self._said_no(request, f"{words} {vote.approver.principal}", vote)
        if request.action.type != QUESTION:  # the same may well be asked again later
            with self._lock:
                self._refusals[request.digest] = self._refusals[_unheld(request)] = denial
        return denial

    def _expired(self, request: ApprovalRequest) -> Denial:
        waited = (request.expires - request.created) // 1000
        approvals = sum(vote.answer == "approve" for vote in self._store.votes(request.id))
        answered = f"{approvals} of {request.needed} approvals came" if approvals else "nobody answered"
        with self._lock:
            unheard = [self._unheard.get(request.id, "")]
        with suppress(StoreError, ConfigError):
            rule = self.authority.rule_for(request.decision, self._requester)
            unheard += unreached(self._store, request, rule, self._here, self._clock())
        why = f" ({'; '.join(filter(None, unheard))})" if any(unheard) else ""
        return self._denied(request, f"a human must approve this, and {answered} within {waited} s{why}")

    def _said(self, request: ApprovalRequest, kind: AnswerKind) -> Vote | None:
        return said(kind, request, self._store.votes(request.id), self.authority)

    # Edits

    def _follow(self, request: ApprovalRequest, holding: bool) -> Waits[Permit | Denial]:
        """Judge the command that a human made of the one proposed, and ask about it where that is needed."""
        vote = self._said(request, "edit")
        if vote is None:
            return self._denied(request, "the store says that the command was changed, and nobody's answer proves it")
        # The model's words were about another command.
        action = replace(request.action, content=vote.edited, model_intent="", layer="")
        answered = yield from self._judged_anew(action, request, vote, holding)
        if isinstance(answered, Permit):
            return replace(
                answered,
                request_id=answered.request_id or request.id,
                edited_by=answered.edited_by or vote.approver.principal,
                comment=answered.comment or vote.comment,
            )
        if answered.by == "human" and not answered.terminate:
            with self._lock:  # the agent proposed the original, and would do so again
                self._refusals[request.digest] = answered
        return answered

    def _judged_anew(
        self, action: Action, original: ApprovalRequest, edit: Vote, holding: bool
    ) -> Waits[Permit | Denial]:
        decision = self._judge(action)
        if isinstance(decision, Denial):
            return self._edit_denied(decision, action, edit)
        digest = action.digest(decision.policy_digest, decision.files)
        if decision.verdict is Verdict.ALLOW:
            return self._store.allow(
                action,
                decision,
                digest,
                use_by_ms=self._use_by_ms,
                edit_of=original.id,
                authority=self._given_authority,
            )
        if decision.verdict is Verdict.ASK:
            key = ["edit of", original.id]
            answered = yield from self._put(action, decision, digest, key, original.id, holding=holding)
            if isinstance(answered, Denial) and not answered.edited:
                answered = replace(answered, edited=action.content)
            return answered
        self._store.record_decision(action, decision, digest, authority=self._given_authority, edit_of=original.id)
        rule = f" (rule {decision.rule})" if decision.rule else ""
        reason = f"the policy denies the edited command{rule}: {decision.reason}"
        return self._edit_denied(Denial(reason, by="policy", decision=decision), action, edit)

    def _edit_denied(self, denial: Denial, action: Action, edit: Vote) -> Denial:
        """The denial that an edit ended in, and the editor is told."""
        self._tell(f"not run: {denial.reason}")
        return replace(
            denial,
            request_id=edit.request_id,
            approver=edit.approver.principal,
            comment=edit.comment,
            edited=action.content,
        )

    # Denials

    def _tell(self, text: str) -> None:
        """Say a line to the human at our channel, where it can."""
        if tell := getattr(self._asker, "tell", None):
            with suppress(Exception):
                tell(text)

    def _tell_who(self, reached: ApprovalRequest) -> None:
        """Say at our channel who has decided elsewhere. Nobody waits for that: others may be asked there just now."""
        if said := elsewhere(self._store, reached, self.authority):
            threading.Thread(target=self._tell, args=(said,), daemon=True).start()

    def _stop(self, request: ApprovalRequest) -> Denial:
        """A human ends the run. That holds in this process even where it can't be written."""
        vote = None
        with suppress(StoreError):
            vote = self._said(request, "terminate")
        by = f" by {vote.approver.principal}" if vote else ""
        denial = replace(self._said_no(request, f"the run was stopped{by}", vote), answer="terminate", terminate=True)
        self.stop(denial)
        with suppress(StoreError):
            self._store.terminate(request.id, "the run was stopped at the prompt")
        return denial

    def _nobody(self, request: ApprovalRequest, why: str) -> Denial:
        self._store.withdraw(request.id, why)
        return self._denied(request, f"a human must approve this, and nobody could: {why}")

    def _denied(self, request: ApprovalRequest, reason: str) -> Denial:
        return Denial(reason, by="nobody", decision=request.decision, request_id=request.id)

    def _said_no(self, request: ApprovalRequest, reason: str, vote: Vote | None) -> Denial:
        return Denial(
            reason,
            by="human",
            decision=request.decision,
            request_id=request.id,
            approver=vote.approver.principal if vote else "",
            comment=vote.comment if vote else "",
            answer=vote.answer if vote else None,
        )


def _unheld(request: ApprovalRequest) -> str:
    """The digest of what is asked about as the agent proposes it, whether or not it was run held."""
    if not request.action.layer:
        return request.digest
    return replace(request.action, layer="").digest(request.decision.policy_digest, request.decision.files)


def describe(error: BaseException) -> str:
    """An exception in one line, whatever it is: its text may be empty, endless, or raise."""
    try:
        text = " ".join(str(error).split())[:500]
    except Exception:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name
