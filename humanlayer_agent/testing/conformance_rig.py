"""The part of the conformance kit that a channel's author fills in, and the world that it puts the channel into."""

import json
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from humanlayer_agent.approvals.model import Answer, AnswerKind, ApprovalRequest, Run, VoteResult
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.channels.contract import Audience, Channel, Ref
from humanlayer_agent.errors import StoreError
from humanlayer_agent.hub.channel_access import StoreDesk, ref_of
from humanlayer_agent.policy.decision import Ask, PolicyDecision, Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing import patience
from humanlayer_agent.testing.approvers import POLICY_DIGEST, ScriptedApprovers, answer

Fault = Literal["busy", "down", "gone"]
"""The ways in which a service may be broken: it says "later" (a rate limit), it can't be reached, or refuses for good
(the place to post to is gone, the token is revoked)."""


class CannotHappen(Exception):
    """Raised by a rig where something can't be done with its channel at all (nobody can press a key of a prompt that
    is closed): the kit takes that for the best of all answers."""


class Surface(Protocol):
    """One place where the service shows a request, as its humans see it."""

    def text(self) -> str:
        """Return everything that can be read there, attachments that belong to it included."""
        ...

    def frame(self) -> str:
        """Return the text around the command, without it and without what differs from request to request (ids, times,
        lengths). Warnings about the command may be there, in lines of their own.
        """
        ...

    def offers(self) -> frozenset[str]:
        """Return the answers that are offered there at this moment ("approve", "reject", ...)."""
        ...

    def answer(self, kind: AnswerKind, who: str, words: str = "") -> None:
        """Give this answer as the human `who`, also where it is not offered any more (a screen that was open before, a
        copied button). Does not wait for what becomes of it.

        Args:
            who: a name of `Rig.people`.
            words: the reason, the changed command, or the response.
        """
        ...

    def grant(self, scope: str, who: str) -> None:
        """Approve as the human `who` for more than this once, also where that is not offered any more.

        It is called only where the channel `can` do that ("grant"), and does not wait for what becomes of it.

        Args:
            scope: the name of a scope (`Answer.scope`).
        """
        ...

    def repeat(self) -> None:
        """Hand over the last answer that was given there once more."""
        ...


class Rig(Protocol):
    """A service with humans, and channels to it.

    `people` are principals by name: "alice" and "bob", who may approve (bob only where a second human can be there at
    all), and where there can be one "stranger", whom nobody knows.
    """

    @property
    def people(self) -> Mapping[str, str]:
        """Principals by name."""
        ...

    def channel(self) -> Channel:
        """Return a new channel to the same service, not started yet, as a new process would make it."""
        ...

    def surfaces(self, request_id: str) -> Sequence[Surface]:
        """Return every place where the service shows a request, oldest first, whoever has written it down or not."""
        ...

    def told(self, who: str) -> Sequence[str]:
        """Return the texts that were said to this human alone."""
        ...

    def pings(self, request_id: str) -> Sequence[str]:
        """Return the people whom the service has notified about a request."""
        ...

    def broken(self, fault: Fault) -> AbstractContextManager[None]:
        """Break the service in this way, for as long as the context lasts."""
        ...


class World:
    """A store, people, and a channel that is started: what a hub would do, one step at a time.

    Args:
        rig: the service. folder: an empty folder for the store.

    Attributes:
        broken_store: while it is True, no answer can be recorded; `unrecorded` counts those that came.
        after_decide: is called after an answer was recorded, before the channel hears of it; may raise.
        answered: what became of each answer.
    """

    def __init__(self, rig: Rig, folder: Path) -> None:
        self.rig = rig
        self.store = SQLiteStore(folder / "store.sqlite3")
        self.broken_store = False
        self.unrecorded = 0
        self.after_decide: Callable[[], None] = lambda: None
        self.answered: list[VoteResult] = []
        self.channel = rig.channel()
        people = tuple(Person(name, (who,)) for name, who in rig.people.items() if name != "stranger")
        ids = tuple(person.id for person in people)
        steps = (Step(self.channel.name), Step("elsewhere", 500_000))
        rules = {"default": ApprovalRule("default", ids, steps=steps)}
        if len(ids) > 1:
            rules["two"] = ApprovalRule("two", ids, quorum=2, steps=steps)
        starter = Person("starter", ("os:1000:starter",))
        self.approvers = ScriptedApprovers(Authority((*people, starter), rules))
        self.store.open_run(Run("run-1", "agent", "instance", "os:1000:starter", "/srv/app"))
        self.channel.start(self.desk())

    def desk(self) -> StoreDesk:
        """Return a desk for the channel, that fails when it is told to."""
        return _Desk(self)

    def restart(self, *, close: bool = True) -> None:
        """Have another process serve the channel from now on.

        Args:
            close: False where the one before just died. (It is still there in a test: it gets no more from the store.)
        """
        if close:
            self.channel.close()
        self.channel = self.rig.channel()
        self.channel.start(self.desk())

    def close(self) -> None:
        """Close the channel and the store."""
        self.channel.close()
        self.store.close()

    def ask(
        self,
        command: str = "make deploy",
        *,
        route: str = "default",
        severity: str = "medium",
        ttl_ms: int = 600_000,
        asks: tuple[Ask, ...] = (),
        **fields: Any,
    ) -> ApprovalRequest:
        """Return a new request.

        Args:
            ttl_ms: milliseconds until it expires.
            asks: what of it must be approved, where more of the kind may be as well; nothing more may where it is ().
            fields: of the action.
        """
        said: dict[str, Any] = {"cwd": "/srv/app", "project": "/srv/app", "run_id": "run-1", "agent": "agent"}
        action = Action(command, **said | fields)
        decision = PolicyDecision(
            Verdict.ASK,
            "a rule says so",
            "kit",
            POLICY_DIGEST,
            rules=("kit",),
            severity=severity,
            route=route,
            asks=asks,
        )
        rule = self.approvers.authority.rule_for(decision)
        now = time.time_ns() // 1_000_000
        return self.store.create_request(
            ApprovalRequest(
                id=secrets.token_hex(16),
                idempotency_key=secrets.token_hex(32),
                digest=action.digest(POLICY_DIGEST),
                body=action.body(POLICY_DIGEST),
                action=action,
                decision=decision,
                requester="os:1000:starter",
                created=now,
                expires=now + ttl_ms,
                valid_for=60_000,
                rule=rule,
                needed=rule.quorum,
            )
        )

    def send(self, request: ApprovalRequest) -> Ref:
        """Have it delivered, and forget where: as a process that dies before it has written that down."""
        self.store.surfaces.begin_delivery(request.id, 0, self.channel.name)
        stored = self.store.get(request.id)
        assert stored is not None
        people = tuple(p for p in self.approvers.authority.people if p.id != "starter")
        # What comes back has gone through the store: it must be plain JSON.
        ref = self.channel.deliver(stored, Audience(people))
        return replace(ref, where=json.loads(json.dumps(ref.where)))

    def deliver(self, request: ApprovalRequest) -> Ref:
        """Have it delivered, and write down where."""
        ref = self.send(request)
        self.write_down(request, ref)
        return ref

    def write_down(self, request: ApprovalRequest, ref: Ref) -> None:
        """Write down where a request is shown."""
        self.store.surfaces.delivered(
            request.id, 0, self.channel.name, ref.where, ref.presented_digest, complete=ref.complete
        )

    def settle(self, request: ApprovalRequest) -> None:
        """Bring every place that is written down up to date."""
        outcome = self.desk().outcome(request.id)
        assert outcome is not None
        for each in self.store.surfaces.presentations(self.channel.name, request_id=request.id):
            self.channel.settle(outcome, ref_of(each))
            self.store.surfaces.settled(each.id, outcome.mark)

    def decide_elsewhere(self, request: ApprovalRequest, kind: AnswerKind = "reject", who: str = "alice") -> None:
        """Have a human answer at some other place."""
        from humanlayer_agent.approvals.model import Approver

        given = answer(request, kind, approver=Approver(self.rig.people[who], "elsewhere", "terminal"))
        assert self.approvers.decide(self.store, request.id, given).outcome == "recorded"

    def state(self, request: ApprovalRequest) -> str:
        """Return the state of a request, as the store has it."""
        found = self.store.get(request.id)
        return found.state if found else ""

    def events(self, request: ApprovalRequest, type: str) -> list[Entry]:
        """Return the events of the log about a request, of one type."""
        return list(self.store.events(request=request.id, type=type))

    def surface(self, request: ApprovalRequest, number: int = 0) -> Surface:
        """Return a place where the request is shown, once it is there."""
        self.until(lambda: len(self.rig.surfaces(request.id)) > number, "a place where the request is shown")
        return self.rig.surfaces(request.id)[number]

    def until(self, condition: Callable[[], Any], what: str) -> None:
        """Wait until `condition()`."""
        patience.until(condition, what)

    def until_answered(self, count: int) -> None:
        """Wait until so many answers have come to the desk."""
        self.until(lambda: len(self.answered) >= count, f"{count} answers (there are {self.answered})")


class _Desk(StoreDesk):
    def __init__(self, world: World) -> None:
        super().__init__(world.store, world.channel.name, world.approvers.authority, world.approvers.signer)
        self._world = world

    def decide(self, request_id: str, answer: Answer) -> VoteResult:
        if self._world.broken_store:
            self._world.unrecorded += 1
            raise StoreError("the store is locked")
        result = super().decide(request_id, answer)
        self._world.after_decide()
        self._world.answered.append(result)
        return result
