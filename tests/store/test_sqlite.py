"""The operations of the store, one by one."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Execution, Outcome, Permit, Refused, Run
from humanlayer_agent.audit.events import POLICY_LOADED
from humanlayer_agent.errors import StoreError
from humanlayer_agent.policy.decision import PartVerdict, PolicyDecision, Verdict
from humanlayer_agent.processes import identity as process
from humanlayer_agent.shell import Effect
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, ScriptedApprovers, answer
from tests.support.stores import another

STORES = ("sqlite", "postgres")

Draft = Callable[..., ApprovalRequest]
BOB = Approver("slack:T1/U2", "slack", "chat")
TEAM = ScriptedApprovers()


def types(store: SQLiteStore, **query: Any) -> list[str]:
    return [kind for entry in store.events(**query) if (kind := entry.event["type"]) != "audit.head"]


def last(store: SQLiteStore) -> dict[str, Any]:
    found = [entry.event for entry in store.events(last=3)]
    return [event for event in found if event["type"] not in ("audit.head", "audit.closed")][-1]


def allowed(store: SQLiteStore, action: Action, decision: PolicyDecision) -> Permit:
    return store.allow(action, decision, action.digest(POLICY_DIGEST), use_by_ms=10_000)


@pytest.fixture
def asked(store: SQLiteStore, run: str, draft: Draft) -> ApprovalRequest:
    return store.create_request(draft())


@pytest.fixture
def permit(store: SQLiteStore, asked: ApprovalRequest) -> Permit:
    TEAM.decide(store, asked.id, answer(asked, "approve"))
    issued = store.permit(asked, TEAM.authority, use_by_ms=10_000)
    assert isinstance(issued, Permit)
    return issued


# Runs


def test_a_run_ends_with_the_hash_of_its_last_event_whatever_is_kept_secret(store: SQLiteStore, run: str) -> None:
    """A password that an agent has used is erased wherever it stands: also where it looks like a part of that hash."""
    store.record(POLICY_LOADED, run=run, policy="p")
    (newest,) = store.events(last=1)
    with store.transaction() as ledger:
        ledger.redactor().command(f"mysql -p{newest.hash[8:16]} x")
    store.close_run(run, "finished")
    (ended,) = store.events(type="run.finished")
    assert (ended.event["links"], ended.event["last"]) == (1, newest.hash)
    assert store.verify().intact


@pytest.mark.parametrize(
    "name", ["é", "e\u0301", "\U0001f600", "\ufffd", "\u202e", " ", "$.x", '"', "'", "run-10", "RUN-1", "a\nb"]
)
def test_a_run_may_be_called_anything_that_the_log_finds_again(store: SQLiteStore, run: str, name: str) -> None:
    store.open_run(Run(name, "agent", "instance", "os:1000:alice", "/srv/app"))
    for each in (run, name):
        store.record(POLICY_LOADED, run=each, policy="p")
    store.write_head()
    assert [(entry.event["run"], entry.event["chain"]) for entry in store.events(type="policy.loaded")] == [
        (run, run),
        (name, name),
    ]
    store.close_run(name, "finished")
    assert store.verify().intact


@pytest.mark.parametrize("name", ["", "run-2\0", "\0", "\\u0000", "run-2\ud800"])
def test_a_run_is_called_nothing_that_a_database_reads_otherwise(store: SQLiteStore, run: str, name: str) -> None:
    """In a file a text ends for it where it holds a NUL, so that this would be the chain of another run."""
    refused: list[str] = []
    try:
        store.open_run(Run(name, "agent", "instance", "os:1000:alice", "/srv/app"))
    except StoreError as error:
        refused.append(str(error))
    store.open_run(Run("run-2", "agent", "instance", "os:1000:alice", "/srv/app"))
    store.record(POLICY_LOADED, run="run-2", policy="p")
    store.write_head()
    assert store.verify().intact
    assert refused or next(store.events(run=name)), "whoever takes it finds it"


# Requests


def test_a_request_is_read_back_as_it_was_written(store: SQLiteStore, run: str, draft: Draft) -> None:
    """Also by another process, which has only the file; environment and standard input are not stored."""
    effect = Effect("delete", "operand", "/srv/x", True, (3, 5))
    part = PartVerdict("rm \ud800", "rm", Verdict.ASK, ("r1",), "why", (0, 4), effects=(effect,))
    wanted = draft("rm \ud800\x00 \u202e")
    wanted = replace(
        wanted,
        action=replace(wanted.action, env={"TOKEN": "secret"}, stdin=b"secret", model_intent="I will \udcff"),
        decision=replace(wanted.decision, parts=(part,), spans=((0, 2),), parse_reasons=("a",)),
    )
    store.create_request(wanted)
    store.close()
    found = another(store, create=False).get(wanted.id)
    assert found is not None
    assert found.action == replace(wanted.action, env={}, stdin=b"")
    assert repr(found.decision) == repr(wanted.decision)  # effects compare by identity
    assert replace(found, action=wanted.action, decision=wanted.decision) == wanted
    if isinstance(store, SQLiteStore):
        assert b"secret" not in store.path.read_bytes()


def test_no_such_request(store: SQLiteStore) -> None:
    assert store.get("x") is None
    for operation in (store.expire, lambda i: store.withdraw(i, ""), lambda i: store.terminate(i, "")):
        with pytest.raises(StoreError, match="no request"):
            operation("x")


def test_requests_are_listed_by_state_and_run(store: SQLiteStore, run: str, draft: Draft) -> None:
    one, two = (store.create_request(draft(name)) for name in ("one", "two"))
    TEAM.decide(store, one.id, answer(one, "reject"))
    assert [request.id for request in store.requests()] == [one.id, two.id]
    assert [request.id for request in store.requests(state="pending", run="run-1")] == [two.id]
    assert store.requests(run="run-2") == []


# Votes


@pytest.mark.parametrize(
    ("kind", "state"), [("approve", "approved"), ("reject", "rejected"), ("terminate", "terminated")]
)
def test_an_answer_is_counted(store: SQLiteStore, asked: ApprovalRequest, kind: Any, state: str, clock: Any) -> None:
    clock.pass_ms(5_000)
    result = TEAM.decide(store, asked.id, answer(asked, kind, "because", approver=BOB))
    assert (result.outcome, result.state) == ("recorded", state)
    found = store.get(asked.id)
    assert found is not None
    assert (found.state, found.decided_by, found.comment) == (state, BOB.principal, "because")
    assert found.decided == asked.created + 5_000
    vote = next(iter(store.events(type="vote"))).event
    assert vote["approver"] == {"principal": "slack:T1/U2", "channel": "slack", "assurance": "chat"}
    assert (vote["asked"], vote["at"], vote["comment"]) == (asked.created, asked.created + 5_000, "because")
    assert vote["presented_digest"] == store.redactor().digest(asked.digest)
    assert isinstance(vote["pid"], int)
    assert types(store, request=asked.id)[-2:] == ["vote.recorded", f"request.{state}"]


def test_the_same_click_delivered_twice_counts_once(store: SQLiteStore, asked: ApprovalRequest) -> None:
    click = answer(asked, "approve", decision_id="click-1")
    assert TEAM.decide(store, asked.id, click).outcome == "recorded"
    before = types(store)
    again = TEAM.decide(store, asked.id, click)
    assert (again.outcome, again.state) == ("duplicate", "approved")
    assert types(store) == before


def test_the_id_of_another_answer_is_refused(store: SQLiteStore, run: str, draft: Draft) -> None:
    one, two = (store.create_request(draft(name)) for name in ("one", "two"))
    TEAM.decide(store, one.id, answer(one, "approve", decision_id="click-1"))
    result = TEAM.decide(store, two.id, answer(two, "approve", decision_id="click-1"))
    assert (result.outcome, result.state) == ("refused", "pending")
    assert last(store)["type"] == "vote.refused"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"presented_digest": "f" * 64}, "something else"),
        ({"presented_digest": ""}, "something else"),
        ({"kind": "yes"}, "incomplete"),
        ({"decision_id": ""}, "incomplete"),
        ({"approver": Approver("", "slack", "chat")}, "incomplete"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(
    store: SQLiteStore, asked: ApprovalRequest, changed: dict[str, Any], why: str
) -> None:
    result = TEAM.decide(store, asked.id, replace(answer(asked, "approve"), **changed))
    assert (result.outcome, result.state) == ("refused", "pending")
    assert why in result.reason
    assert last(store)["type"] == "vote.refused"
    assert TEAM.decide(store, asked.id, answer(asked, "approve")).outcome == "recorded"


def test_an_answer_to_nothing(store: SQLiteStore, asked: ApprovalRequest) -> None:
    result = TEAM.decide(store, "nothing", answer(asked, "approve"))
    assert (result.outcome, result.state) == ("refused", None)
    assert last(store)["why"] == "there is no such request"


def test_a_stale_button_does_not_answer_the_next_request(store: SQLiteStore, run: str, draft: Draft) -> None:
    shown = store.create_request(draft("one"))
    store.withdraw(shown.id, "gone")
    current = store.create_request(draft("two"))
    assert TEAM.decide(store, current.id, answer(shown, "approve")).outcome == "refused"


@pytest.mark.parametrize("first", ["approve", "reject", "terminate"])
def test_the_first_answer_stays(store: SQLiteStore, asked: ApprovalRequest, first: Any) -> None:
    state = TEAM.decide(store, asked.id, answer(asked, first)).state
    late = TEAM.decide(store, asked.id, answer(asked, "approve", approver=BOB))
    assert (late.outcome, late.state) == ("late", state)
    assert last(store)["type"] == "vote.late"


def test_too_late_is_too_late_even_if_the_clock_goes_back(
    store: SQLiteStore, asked: ApprovalRequest, clock: Any
) -> None:
    clock.pass_ms(600_000)
    assert TEAM.decide(store, asked.id, answer(asked, "approve")).state == "expired"
    clock.jump_ms(-3_600_000)
    assert TEAM.decide(store, asked.id, answer(asked, "approve")).state == "expired"
    assert types(store, request=asked.id)[-3:] == ["request.expired", "vote.late", "vote.late"]


def test_hostile_words_in_an_answer_are_kept_and_stop_nothing(store: SQLiteStore, asked: ApprovalRequest) -> None:
    TEAM.decide(store, asked.id, answer(asked, "reject", "no \ud800 \x00 \x1b[2J"))
    found = store.get(asked.id)
    assert found is not None
    assert found.comment == "no \\ud800 \\x00 \x1b[2J"
    assert store.verify().intact


# Edits


def test_an_edit_supersedes_the_request_and_approves_nothing(store: SQLiteStore, asked: ApprovalRequest) -> None:
    result = TEAM.decide(store, asked.id, answer(asked, "edit", "on staging", approver=BOB, edited="make test\n\t# é"))
    assert (result.outcome, result.state) == ("recorded", "superseded")
    found = store.get(asked.id)
    assert found is not None
    assert (found.state, found.decided_by, found.comment) == ("superseded", BOB.principal, "on staging")
    assert (found.edited, found.action.content) == ("make test\n\t# é", "make deploy")
    assert types(store, request=asked.id)[-2:] == ["vote.recorded", "request.superseded"]
    assert next(iter(store.events(type="vote"))).event["edited"] == "make test\n\t# é"
    issued = store.permit(asked, TEAM.authority, use_by_ms=10_000)
    assert isinstance(issued, Refused)
    assert store.verify().intact


@pytest.mark.parametrize("kind", ["approve", "reject", "edit", "terminate"])
def test_a_vote_on_what_was_superseded_is_late(store: SQLiteStore, asked: ApprovalRequest, kind: Any) -> None:
    TEAM.decide(store, asked.id, answer(asked, "edit", edited="make test"))
    late = TEAM.decide(
        store, asked.id, answer(asked, kind, approver=BOB, edited="make clean" if kind == "edit" else "")
    )
    assert (late.outcome, late.state) == ("late", "superseded")
    assert (store.expire(asked.id), store.withdraw(asked.id, "x")) == ("superseded", "superseded")
    assert store.terminate(asked.id, "x") == "superseded"


@pytest.mark.parametrize(
    ("kind", "edited", "why"),
    [
        ("edit", "", "leaves no command"),
        ("edit", " \n\t", "leaves no command"),
        ("edit", "make deploy", "changes nothing"),
        ("edit", "make \ud800", "no command line can hold"),
        ("edit", "make\x00test", "no command line can hold"),
        ("edit", None, "leaves no command"),
        ("edit", 7, "leaves no command"),
        ("approve", "make test", "only an edit"),
        ("reject", "make test", "only an edit"),
        ("terminate", "make test", "only an edit"),
        ("approve", None, "only an edit"),
    ],
)
def test_an_edit_that_can_not_be_taken_is_refused(
    store: SQLiteStore, asked: ApprovalRequest, kind: Any, edited: Any, why: str
) -> None:
    result = TEAM.decide(store, asked.id, answer(asked, kind, edited=edited))
    assert (result.outcome, result.state) == ("refused", "pending")
    assert why in result.reason
    assert last(store)["type"] == "vote.refused"
    assert store.verify().intact


def test_an_edit_that_says_it_equals_everything(store: SQLiteStore, asked: ApprovalRequest) -> None:
    class Anything(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return True

    assert TEAM.decide(store, asked.id, answer(asked, "edit", edited=Anything("rm -rf /"))).outcome == "refused"


def test_the_same_edit_delivered_twice_counts_once(store: SQLiteStore, asked: ApprovalRequest) -> None:
    TEAM.decide(store, asked.id, answer(asked, "edit", edited="make test", decision_id="e"))
    again = TEAM.decide(store, asked.id, answer(asked, "edit", edited="make test", decision_id="e"))
    assert (again.outcome, again.state) == ("duplicate", "superseded")
    other = TEAM.decide(store, asked.id, answer(asked, "edit", edited="rm -rf /", decision_id="e"))
    assert other.outcome == "refused"


def test_the_request_about_an_edit_names_the_one_that_was_edited(
    store: SQLiteStore, asked: ApprovalRequest, draft: Draft
) -> None:
    TEAM.decide(store, asked.id, answer(asked, "edit", edited="make test"))
    child = store.create_request(replace(draft("make test"), parent=asked.id))
    found = store.get(child.id)
    assert found is not None
    assert (found.state, found.parent) == ("pending", asked.id)
    assert last(store)["parent"] == asked.id
    with pytest.raises(StoreError, match=r"UNIQUE|unique"):
        store.create_request(replace(draft("make test"), parent=asked.id))


@pytest.mark.parametrize("command", ["make deploy", "make test ", "rm -rf /"])
def test_a_request_that_is_not_about_the_edit(
    store: SQLiteStore, asked: ApprovalRequest, draft: Draft, command: str
) -> None:
    TEAM.decide(store, asked.id, answer(asked, "edit", edited="make test"))
    with pytest.raises(StoreError, match="was not edited to this"):
        store.create_request(replace(draft(command), parent=asked.id))


# Restart


def restarted(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of run-1 is gone, and a new one has opened run-2."""
    monkeypatch.setattr(process, "lives", lambda identity: False)
    store.open_run(Run("run-2", "agent", "instance", "os:1000:alice", "/srv/app"))


def test_a_restarted_run_adopts_its_pending_request(
    store: SQLiteStore, run: str, draft: Draft, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.create_request(draft(key="a" * 64))
    restarted(store, monkeypatch)
    again = store.create_request(draft(key="a" * 64, run_id="run-2"))
    assert (again.id, again.expires) == (first.id, first.expires)
    assert again.action.run_id == "run-2"
    assert [request.action.run_id for request in store.requests()] == ["run-2"]
    assert types(store, request=first.id).count("request.created") == 1
    assert last(store) | {"type": "request.adopted", "former_run": "run-1"} == last(store)
    assert store.verify().intact


def test_a_restarted_run_does_not_adopt_an_approved_one(
    store: SQLiteStore, run: str, draft: Draft, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.create_request(draft(key="a" * 64))
    TEAM.decide(store, first.id, answer(first, "approve"))
    restarted(store, monkeypatch)
    again = store.create_request(draft(key="a" * 64, run_id="run-2"))
    assert again.id != first.id
    assert again.state == "pending"


def test_nor_one_that_expired(
    store: SQLiteStore, run: str, draft: Draft, monkeypatch: pytest.MonkeyPatch, clock: Any
) -> None:
    first = store.create_request(draft(key="a" * 64))
    restarted(store, monkeypatch)
    clock.pass_ms(600_000)
    again = store.create_request(draft(key="a" * 64, run_id="run-2"))
    assert again.id != first.id
    assert [request.state for request in store.requests()] == ["expired", "pending"]


def test_two_live_runs_of_one_agent_are_asked_about_separately(store: SQLiteStore, run: str, draft: Draft) -> None:
    store.open_run(Run("run-2", "agent", "instance", "os:1000:alice"))
    one = store.create_request(draft(key="a" * 64))
    two = store.create_request(draft(key="a" * 64, run_id="run-2"))
    assert one.id != two.id
    assert [request.action.run_id for request in store.requests(state="pending")] == ["run-1", "run-2"]


def test_what_a_dead_process_was_running_is_unknown(
    store: SQLiteStore, permit: Permit, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution)
    restarted(store, monkeypatch)
    events = [entry.event for entry in store.events(run="run-1")]
    assert [event["type"] for event in events[-2:]] == ["exec.unknown", "run.finished"]
    assert events[-1]["state"] == "lost"
    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Refused)
    assert not store.finish(permit.id, Outcome(0))
    assert store.verify().intact


def test_what_a_dead_process_did_not_use_lapses(
    store: SQLiteStore, permit: Permit, monkeypatch: pytest.MonkeyPatch, clock: Any
) -> None:
    clock.pass_ms(61_000)
    restarted(store, monkeypatch)
    assert types(store, request=permit.request_id)[-1] == "request.lapsed"


def test_a_live_process_keeps_what_it_has(store: SQLiteStore, permit: Permit) -> None:
    store.consume(permit, permit.digest, TEAM.authority)
    store.open_run(Run("run-2", "agent", "instance", "os:1000:alice"))
    assert store.finish(permit.id, Outcome(0))


# Permits


def test_a_permit_is_good_for_one_execution(store: SQLiteStore, permit: Permit) -> None:
    started = store.consume(permit, permit.digest, TEAM.authority)
    assert started == Execution(permit.id, permit.digest, permit.use_by - 10_000)
    assert types(store)[-2:] == ["permit.consumed", "exec.started"]
    again = store.consume(permit, permit.digest, TEAM.authority)
    assert isinstance(again, Refused)
    assert "already used" in again.reason
    assert types(store)[-1] == "permit.refused"


def test_an_approval_gives_one_permit(store: SQLiteStore, permit: Permit) -> None:
    store.consume(permit, permit.digest, TEAM.authority)
    assert permit.request is not None
    again = store.permit(permit.request, TEAM.authority, use_by_ms=10_000)
    assert again == Refused("the approval was already used")


@pytest.mark.parametrize("state", ["pending", "rejected", "expired", "withdrawn"])
def test_no_permit_without_approval(store: SQLiteStore, asked: ApprovalRequest, state: str) -> None:
    if state == "rejected":
        TEAM.decide(store, asked.id, answer(asked, "reject"))
    elif state == "expired":
        store.expire(asked.id)
    elif state == "withdrawn":
        store.withdraw(asked.id, "")
    assert store.permit(asked, TEAM.authority, use_by_ms=1) == Refused(f"the request is {state}")


def test_something_else_than_was_approved(store: SQLiteStore, permit: Permit) -> None:
    refused = store.consume(permit, "f" * 64, TEAM.authority)
    assert isinstance(refused, Refused)
    assert "not what was permitted" in refused.reason
    assert types(store)[-2:] == ["permit.refused", "request.invalidated"]
    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Refused)  # it had its chance


def test_an_approval_that_was_not_used_in_time(store: SQLiteStore, asked: ApprovalRequest, clock: Any) -> None:
    TEAM.decide(store, asked.id, answer(asked, "approve"))
    clock.pass_ms(60_000)
    late = store.permit(asked, TEAM.authority, use_by_ms=10_000)
    assert late == Refused("the approval was not used in time")
    assert types(store)[-1] == "request.lapsed"
    clock.jump_ms(-60_000)
    assert isinstance(store.permit(asked, TEAM.authority, use_by_ms=10_000), Refused)


def test_a_permit_that_was_not_used_in_time(store: SQLiteStore, permit: Permit, clock: Any) -> None:
    clock.pass_ms(10_000)
    assert store.consume(permit, permit.digest, TEAM.authority) == Refused("the permit was not used in time")
    assert types(store)[-2:] == ["permit.refused", "request.lapsed"]
    clock.jump_ms(-10_000)
    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Refused)


def test_a_permit_never_outlives_its_approval(store: SQLiteStore, asked: ApprovalRequest, clock: Any) -> None:
    TEAM.decide(store, asked.id, answer(asked, "approve"))
    clock.pass_ms(55_000)
    issued = store.permit(asked, TEAM.authority, use_by_ms=10_000)
    assert isinstance(issued, Permit)
    assert issued.use_by == clock() + 5_000


def test_a_permit_dies_with_its_run(store: SQLiteStore, permit: Permit) -> None:
    store.close_run("run-1", "finished")
    assert store.consume(permit, permit.digest, TEAM.authority) == Refused("the run has ended")
    assert store.verify().intact


def test_an_unknown_permit(
    store: SQLiteStore, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> None:
    permit = Permit("x", "f" * 64, act(), decide(Verdict.ALLOW), 2**50)
    assert store.consume(permit, "f" * 64, TEAM.authority) == Refused("there is no such permit")


def test_voiding(store: SQLiteStore, permit: Permit) -> None:
    store.void(permit.id, "too slow")
    store.void(permit.id, "too slow")
    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Refused)
    assert types(store)[-3:] == ["permit.refused", "request.lapsed", "permit.refused"]


def test_an_allow_gives_a_permit_with_its_decision(
    store: SQLiteStore, run: str, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> None:
    permit = allowed(store, act(), decide(Verdict.ALLOW))
    assert last(store)["permit"] == permit.id
    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Execution)


# Executions


@pytest.mark.parametrize(
    ("outcome", "state"), [(Outcome(3, duration_ms=9), "finished"), (Outcome(None, "killed"), "failed")]
)
def test_how_it_ended(store: SQLiteStore, permit: Permit, outcome: Outcome, state: str) -> None:
    store.consume(permit, permit.digest, TEAM.authority)
    assert store.finish(permit.id, outcome)
    assert not store.finish(permit.id, outcome)
    event = last(store)
    assert event["type"] == "exec.finished"
    assert (event.get("returncode"), event.get("detail", "")) == (outcome.returncode, outcome.detail)


# Runs


def test_stopping_at_one_request_stops_the_run(
    store: SQLiteStore, run: str, draft: Draft, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> None:
    one, _, three = (store.create_request(draft(name)) for name in ("one", "two", "three"))
    TEAM.decide(store, three.id, answer(three, "approve"))
    permit = allowed(store, act(), decide(Verdict.ALLOW))
    TEAM.decide(store, one.id, answer(one, "terminate"))
    assert [request.state for request in store.requests()] == ["terminated", "withdrawn", "lapsed"]
    assert isinstance(store.consume(permit, permit.digest, TEAM.authority), Refused)
    assert "run.stopped" in types(store)
    store.close_run("run-1", "SupervisionTerminated")
    assert last(store)["status"] == "SupervisionTerminated"
    assert store.verify().intact


def test_other_runs_go_on(store: SQLiteStore, run: str, draft: Draft) -> None:
    store.open_run(Run("run-2", "agent", "other", "os:1000:alice"))
    one, two = store.create_request(draft("one")), store.create_request(draft("two", run_id="run-2"))
    store.terminate(one.id, "Ctrl-C")
    assert [request.state for request in store.requests()] == ["terminated", "pending"]
    assert TEAM.decide(store, two.id, answer(two, "approve")).outcome == "recorded"


def test_ending_a_run_twice_says_so_once(store: SQLiteStore, run: str) -> None:
    store.close_run(run, "finished")
    store.close_run(run, "finished")
    assert types(store).count("run.finished") == 1


def test_a_run_id_is_used_once(store: SQLiteStore, run: str) -> None:
    with pytest.raises(StoreError, match="used before"):
        store.open_run(Run(run, "agent", "instance", "os:1000:alice"))


# The log


def test_queries(store: SQLiteStore, permit: Permit) -> None:
    store.consume(permit, permit.digest, TEAM.authority)
    every = [entry.seq for entry in store.events()]
    assert every == list(range(len(every)))
    assert [entry.seq for entry in store.events(after=3)] == every[4:]
    assert [entry.seq for entry in store.events(last=2)] == every[-2:]
    assert [entry.seq for entry in store.events(last=0)] == []
    assert types(store, type="vote") == ["vote.recorded"]
    assert types(store, type="vote.recorded") == ["vote.recorded"]
    assert types(store, type="vot") == []
    assert types(store, type="request", last=1) == ["request.approved"]
    assert {entry.event["request"] for entry in store.events(request=permit.request_id)} == {permit.request_id}
    assert types(store, run="nothing") == []


def test_long_logs_are_read_in_pages(store: SQLiteStore, monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    monkeypatch.setattr("humanlayer_agent.store.sqlite._PAGE", 3)
    for number in range(8):
        store.close_run(f"no-such-run-{number}", "finished")
        store.open_run(Run(f"r{number}", "a", "i", "u"))
    assert [entry.seq for entry in store.events()] == list(range(10))
    assert [entry.seq for entry in store.events(type="run", last=4)] == [6, 7, 8, 9]


def test_a_decision_says_everything_an_auditor_asks_for(
    store: SQLiteStore, run: str, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> None:
    action = act("git push --force", agent="worker", step=4, call_id="c1", env={"TOKEN": "secret"})
    decision = decide(Verdict.DENY, rules=("no-force", "git"), microseconds=123, severity="high", parse="partial")
    store.record_decision(action, decision, action.digest(POLICY_DIGEST))
    event = last(store)
    assert {name: event[name] for name in ("verdict", "rule", "rules", "basis", "default_hit")} == {
        "verdict": "deny",
        "rule": "no-force",
        "rules": ["no-force", "git"],
        "basis": "rule",
        "default_hit": False,
    }
    assert (event["command"], event["cwd"], event["agent"], event["run"]) == (action.content, "/srv/app", "worker", run)
    assert (event["step"], event["call_id"], event["us"], event["parse"]) == (4, "c1", 123, "partial")
    assert (event["policy"], event["policy_digest"], event["digest"]) == (
        "test",
        POLICY_DIGEST,
        store.redactor().digest(action.digest(POLICY_DIGEST)),
    )
    assert "secret" not in str(event)


def test_a_rule_that_denies_is_told_apart_from_no_rule_at_all(
    store: SQLiteStore, run: str, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> None:
    store.record_decision(act(), decide(Verdict.DENY, rules=(), default_hit=True), "d" * 64)
    assert last(store)["basis"] == "default"
    assert "rule" not in last(store)


@pytest.mark.parametrize("content", ["\ud800\udcff", "\udcff", "a\x00b", "\x1b]0;x\x07", "é" * 70_000, "\u2028", '"}'])
def test_no_command_can_keep_the_log_from_being_written(
    store: SQLiteStore, run: str, content: str, act: Callable[..., Action], decide: Callable[..., PolicyDecision]
) -> None:
    action = act(content, cwd=content, call_id=content)
    store.record_decision(action, decide(reason=content), action.digest(POLICY_DIGEST))
    written = last(store)["command"]
    assert written == content or "base64" in written
    assert store.verify().intact


def test_reading_from_another_connection(store: SQLiteStore, path: Path, asked: ApprovalRequest) -> None:
    reader = SQLiteStore(path, create=False)
    assert [request.id for request in reader.requests(state="pending")] == [asked.id]
    TEAM.decide(store, asked.id, answer(asked, "approve"))
    assert reader.requests(state="pending") == []
    assert reader.verify().count == store.verify().count
