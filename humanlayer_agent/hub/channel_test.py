"""The test of a channel: a harmless request goes out by it, a human answers, and nothing runs."""

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import Authority, Person, Step
from humanlayer_agent.approvals.model import ApprovalRequest, Run, Vote
from humanlayer_agent.approvals.store_interface import Store, now_ms
from humanlayer_agent.channels.contract import Audience, Channel, Retry
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.hub.channel_access import StoreDesk, outcome, ref_of
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes.identity import os_user

COMMAND = "echo 'a test of this channel: whatever you answer, nothing is run'"

_POLICY = "channel test"
_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a test: the answer (None where none came), and how long it took, in seconds."""

    vote: Vote | None
    person: str
    seconds: float


def try_channel(
    store: Store,
    channel: Channel,
    authority: Authority,
    signer: Signer,
    *,
    timeout: float,
    say: Callable[[str], None] = lambda line: None,
) -> Trial:
    """Send a harmless request by `channel`, and wait for somebody's answer. It is never run.

    Other processes may receive the answer: it is the store that is waited for.

    Args:
        timeout: seconds.

    Raises:
        ConfigError: nobody could answer it. ChannelError: it could not be delivered. StoreError.
    """
    requester = os_user()
    run = Run(secrets.token_hex(16), "hla channel test", "hla channel test", requester)
    action = Action(COMMAND, cwd="/", project="/", run_id=run.id, agent="hla channel test")
    decision = PolicyDecision(
        Verdict.ASK,
        "a test of this channel: nothing is run",
        _POLICY,
        "0" * 64,
        rules=("channel-test",),
        severity="low",
    )
    rule = replace(authority.answerable(decision, requester), steps=(Step(channel.name),))
    people = authority.may_answer(rule, requester)
    store.open_run(run)
    try:
        try:
            channel.start(StoreDesk(store, channel.name, authority, signer))
        except ChannelError:
            if store.surfaces.lease(channel.name) is None:
                raise  # else a hub serves it, at the same address, and receives the answer
        now = now_ms()
        request = store.create_request(
            ApprovalRequest(
                id=secrets.token_hex(16),
                idempotency_key=secrets.token_hex(32),
                digest=action.digest(decision.policy_digest),
                body=action.body(decision.policy_digest),
                action=action,
                decision=decision,
                requester=requester,
                created=now,
                expires=now + int(timeout * 1000),
                valid_for=1_000,
                rule=rule,
                needed=rule.quorum,
            ),
            authority,
        )
        told = tuple(person for person in authority.people if person.id in people)
        _delivered(store, channel, request, told)
        say(f"sent to {', '.join(person.id for person in told)}; waiting {timeout:.0f} s for an answer")
        return _answered(store, channel, authority, request, timeout)
    finally:
        store.close_run(run.id, "tested")
        channel.close()


def _delivered(store: Store, channel: Channel, request: ApprovalRequest, people: tuple[Person, ...]) -> None:
    store.surfaces.begin_delivery(request.id, 0, channel.name)
    for attempt in range(_ATTEMPTS):
        try:
            ref = channel.deliver(request, Audience(people))
            break
        except Retry as error:
            if attempt == _ATTEMPTS - 1:
                store.surfaces.undelivered(request.id, 0, channel.name, str(error))
                raise
            time.sleep(error.after or 1.0)
        except ChannelError as error:
            store.surfaces.undelivered(request.id, 0, channel.name, str(error))
            raise
    store.surfaces.delivered(request.id, 0, channel.name, ref.where, ref.presented_digest, complete=ref.complete)


def _answered(store: Store, channel: Channel, authority: Authority, request: ApprovalRequest, timeout: float) -> Trial:
    began = time.monotonic()
    votes: list[Vote] = []
    try:
        while not votes and time.monotonic() - began < timeout:
            time.sleep(0.1)
            votes = store.votes(request.id)
        took = time.monotonic() - began
    finally:
        state = store.expire(request.id) if not votes else ""
        if not state and votes and (found := store.get(request.id)) and found.state == "pending":
            store.withdraw(request.id, "the test is over")
        now = outcome(store, authority, request.id)
        for each in store.surfaces.presentations(channel.name, request_id=request.id):
            if now is not None:
                channel.settle(now, ref_of(each))
                store.surfaces.settled(each.id, now.mark)
    return Trial(votes[0] if votes else None, votes[0].person if votes else "", took)
