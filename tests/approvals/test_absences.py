"""Somebody is away, and another is asked in their place: only by a signed word of theirs, and never to fewer people."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.absences import MAX_MS, Absence, newest_of_each, statement
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Denial, Execution, Permit, Refused
from humanlayer_agent.audit import events
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.store.rows import dump_rule
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers, answer
from tests.support.forging import forging
from tests.support.sealing import Sealer

STORES = ("sqlite", "postgres")

DAY = 86_400_000
ANN, BEN = Approver("os:ann", "command-line", "terminal"), Approver("os:ben", "command-line", "terminal")
CLEO, DAN = Approver("slack:T1/U3", "slack", "chat"), Approver("os:dan", "command-line", "terminal")
EVE = Approver("os:eve", "command-line", "terminal")
STARTER = "os:dan"
PEOPLE = (
    Person("ann", ("os:ann", "email:ann@example.com")),
    Person("ben", ("os:ben",)),
    Person("cleo", ("slack:T1/U3",)),
    Person("dan", ("os:dan",)),
    Person("eve", ("os:eve",)),
    Person("group:ops", ("slack-usergroup:T1/S1",)),
)
ROUTES = {
    "default": ApprovalRule("default", ("ann",), steps=(Step("mail", 0, ("ann",)), Step("terminal"))),
    "two": ApprovalRule("two", ("ann", "ben", "eve"), quorum=2),
    "pair": ApprovalRule("pair", ("ann", "ben"), quorum=2),
    "tired": ApprovalRule("tired", ("ann", "ben"), second_after=3),
    "sure": ApprovalRule("sure", ("ann",), min_assurance="terminal"),
    "solo": ApprovalRule("solo", ("ann", "dan"), solo=True),
}
Ask = Callable[..., ApprovalRequest]


@pytest.fixture
def team(store: SQLiteStore) -> ScriptedApprovers:
    known = Authority(PEOPLE, ROUTES).heeding(store.absences.standing)
    return ScriptedApprovers(known)


@pytest.fixture
def leave(store: SQLiteStore, team: ScriptedApprovers, clock: Any) -> Callable[..., Absence | Refused]:
    def make(to: str, who: Approver = ANN, days: int = 2, **fields: Any) -> Absence | Refused:
        chosen = {"authority": team.authority, "signer": team.signer} | fields
        return store.absences.say(who, to, clock() + days * DAY, **chosen)

    return make


@pytest.fixture
def ask(store: SQLiteStore, run: str, draft: Ask, team: ScriptedApprovers) -> Ask:
    def make(route: str = "default", requester: str = STARTER, **said: Any) -> ApprovalRequest:
        made = replace(draft(severity=said.pop("severity", "low"), **said), requester=requester)
        made = replace(made, decision=replace(made.decision, route=route))
        rule = team.authority.rule_for(made.decision, requester)
        return store.create_request(replace(made, rule=rule, needed=rule.quorum), team.authority)

    return make


def asked(team: ScriptedApprovers, request: ApprovalRequest) -> set[str]:
    rule = team.authority.rule_for(request.decision, request.requester)
    return set(team.authority.may_answer(rule, request.requester))


def runs(store: SQLiteStore, request: ApprovalRequest, team: ScriptedApprovers) -> bool:
    permit = store.permit(request, team.authority, use_by_ms=10_000)
    return isinstance(permit, Permit) and isinstance(store.consume(permit, permit.digest, team.authority), Execution)


def forge(path: Path, opened: SQLiteStore, absence: Absence, **fields: Any) -> None:
    """An event as somebody writes it into the log who can write the file."""
    who = absence.approver
    said = {
        "absence": absence.id, "store": absence.store, "person": absence.person, "to": absence.to,
        "until": absence.until, "signer": absence.signer, "absence_signature": absence.signature,
        "approver": {"principal": who.principal, "channel": who.channel, "assurance": who.assurance}, **fields,
    }  # fmt: skip
    at = said.pop("at", absence.at)
    entry = Sealer(opened.events())(events.ABSENCE_SAID, said, at=at)
    with forging(path) as connection:
        connection.execute(
            "INSERT INTO audit_event (seq, hash, body) VALUES (?, ?, ?)", (entry.seq, entry.hash, entry.body.decode())
        )


def test_another_answers_in_the_place_of_whoever_is_away(
    store: SQLiteStore, team: ScriptedApprovers, leave: Any, ask: Ask
) -> None:
    assert isinstance(leave("ben"), Absence)
    request = ask()
    assert asked(team, request) == {"ben"}
    found = store.get(request.id)
    assert found is not None
    assert found.rule is not None
    assert [(each.absent, each.person) for each in found.rule.stand_ins] == [("ann", "ben")]
    assert found.rule.steps[0].approvers == ("ben",)
    refused = team.vote(store, request, "approve", ANN)
    assert (refused.outcome, refused.code) == ("refused", "away")
    assert team.vote(store, request, "approve", BEN).state == "approved"
    assert runs(store, request, team)
    assert store.verify().intact


def test_back_again(store: SQLiteStore, team: ScriptedApprovers, leave: Any, ask: Ask) -> None:
    leave("ben")
    request = ask()
    team.vote(store, request, "approve", BEN)
    assert store.absences.end("ann", ANN.principal) == 1
    assert store.absences.end("ann", ANN.principal) == 0
    assert asked(team, request) == {"ann"}
    assert not runs(store, request, team), "what the other one said counts no more"
    later = ask(content="make again")
    assert team.vote(store, later, "approve", BEN).code == "not-an-approver"
    assert team.vote(store, later, "approve", ANN).state == "approved"
    assert [entry.event["type"] for entry in store.events(type="absence")] == ["absence.said", "absence.ended"]


def test_it_ends_by_itself_and_stays_so(
    store: SQLiteStore, team: ScriptedApprovers, leave: Any, ask: Ask, clock: Any
) -> None:
    leave("ben")
    request = ask()
    clock.pass_ms(2 * DAY)
    assert asked(team, request) == {"ann"}
    store.record(events.CHANNEL_FAILED, channel="x", why="something is written now")
    clock.jump_ms(-DAY)
    assert asked(team, request) == {"ann"}, "a clock that is set back revives nothing"
    clock.jump_ms(-3 * DAY)
    assert asked(team, request) == {"ann"}, "nor does one from before it was said"


def test_what_is_said_anew_takes_the_place_of_what_was_said(
    team: ScriptedApprovers, store: SQLiteStore, leave: Any, ask: Ask, clock: Any
) -> None:
    first = leave("ben", days=5)
    leave("eve", days=1)
    assert asked(team, ask()) == {"eve"}
    clock.pass_ms(DAY)
    assert asked(team, ask()) == {"ann"}, "and the first one does not come back"
    assert first.id not in [each.id for each, _ in store.absences.said(team.authority)]


# Whom it never reaches


@pytest.mark.parametrize("requester", ["os:ann", "os:ben", "os:nobody"])
def test_neither_asked_nor_replaced_for_a_run_of_their_own(
    team: ScriptedApprovers, leave: Any, ask: Ask, requester: str, store: SQLiteStore
) -> None:
    leave("ben")
    request = ask("solo" if requester == "os:nobody" else "default", requester)
    rule = team.authority.rule_for(request.decision, requester)
    assert (rule.approvers, rule.stand_ins) == (ROUTES[rule.name].approvers, ())
    assert team.vote(store, request, "approve", BEN).outcome == "refused"


@pytest.mark.parametrize(
    ("route", "to", "approvers"),
    [
        ("two", "ben", {"ben", "eve"}),  # one of them is asked anyway: two are left
        ("two", "dan", {"ann", "ben", "eve"}),  # who started the run
        ("pair", "ben", {"ann", "ben"}),  # one person would be asked for two
        ("pair", "eve", {"eve", "ben"}),
        ("tired", "ben", {"ann", "ben"}),  # nobody would be left for the second approval
        ("sure", "cleo", {"ann"}),  # known by Slack only
        ("sure", "ben", {"ben"}),
        ("default", "cleo", {"cleo"}),
    ],
)
def test_never_fewer_than_it_takes(
    team: ScriptedApprovers, leave: Any, ask: Ask, route: str, to: str, approvers: set[str]
) -> None:
    assert isinstance(leave(to), Absence)
    assert asked(team, ask(route)) == approvers


def test_two_who_name_the_same(team: ScriptedApprovers, leave: Any, ask: Ask) -> None:
    leave("eve")
    leave("eve", BEN)
    assert asked(team, ask("pair")) == {"eve", "ben"}, "one person is never two"
    assert asked(team, ask("two")) == {"eve", "ben"}


def test_no_chain_and_no_circle(team: ScriptedApprovers, leave: Any, ask: Ask) -> None:
    leave("ben")
    leave("eve", BEN)
    assert asked(team, ask()) == {"ann"}, "who is away does not stand in"
    leave("ann", BEN)
    assert asked(team, ask()) == {"ann"}
    assert asked(team, ask("pair")) == {"ann", "ben"}


def test_the_same_person_is_not_counted_twice(
    store: SQLiteStore, team: ScriptedApprovers, leave: Any, ask: Ask
) -> None:
    request = ask("two")
    assert team.vote(store, request, "approve", ANN).missing == 1
    leave("ben")
    said = team.vote(store, request, "approve", BEN)
    assert (said.state, said.missing) == ("pending", 1), "ann's word rests while she is away"
    assert team.vote(store, request, "approve", EVE).state == "approved"
    assert runs(store, request, team)


def test_a_severe_request_needs_as_sure_an_answer(
    store: SQLiteStore, team: ScriptedApprovers, leave: Any, ask: Ask
) -> None:
    leave("cleo")
    assert asked(team, ask(severity="critical")) == {"ann"}, "cleo can't be known so surely"
    leave("ben")
    request = ask(severity="critical")
    assert team.vote(store, request, "approve", replace(BEN, assurance="os")).code == "low-assurance"
    assert team.vote(store, request, "approve", BEN).state == "approved"


# What counts for nothing


@pytest.mark.parametrize(
    ("to", "who", "fields", "why"),
    [
        ("ann", ANN, {}, "can't stand in for themselves"),
        ("nobody", ANN, {}, "none of the people"),
        ("group:ops", ANN, {}, "none of the people"),
        ("ben", Approver("os:mallory", "command-line", "terminal"), {}, "nobody is known as"),
        ("ben", replace(ANN, assurance="os"), {}, "login is needed"),
        ("ben", replace(ANN, assurance="chat"), {}, "login is needed"),
        ("ben", ANN, {"days": 0}, "later than now"),
        ("ben", ANN, {"days": -1}, "later than now"),
        ("ben", ANN, {"days": MAX_MS // DAY + 1}, "within 90 days"),
        ("ben", ANN, {"signer": Signer()}, "not one of the signers"),
    ],
)
def test_what_is_not_taken(
    store: SQLiteStore, leave: Any, to: str, who: Approver, fields: dict[str, Any], why: str
) -> None:
    refused = leave(to, who, **fields)
    assert isinstance(refused, Refused)
    assert why in refused.reason
    assert not list(store.events(type="absence"))


@pytest.fixture
def genuine(store: SQLiteStore, team: ScriptedApprovers, leave: Any) -> Absence:
    """A statement that was ended: what is forged is made of it."""
    said = leave("ben")
    store.absences.end("ann", ANN.principal)
    return said


def resigned(absence: Absence, signer: Signer, **fields: Any) -> Absence:
    changed = replace(absence, id="f" * 32, **fields)
    changed = replace(changed, signer=signer.fingerprint)
    return replace(changed, signature=signer.sign_text(statement(changed)))


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("made", "why"),
    [
        (lambda a, key: resigned(a, Signer()), "not one of the signers"),
        (lambda a, key: replace(a, id="f" * 32), "signature"),  # a name of its own, with the old signature
        (lambda a, key: replace(resigned(a, key), to="eve"), "signature"),
        (lambda a, key: replace(resigned(a, key), until=a.until + DAY), "signature"),
        (lambda a, key: replace(resigned(a, key), signature="00" * 64), "signature"),
        (lambda a, key: replace(resigned(a, key), signature=""), "signature"),
        (lambda a, key: resigned(a, key, store="0" * 32), "another store"),
        (lambda a, key: resigned(a, key, approver=BEN), "is not ann"),  # ben says that ann is away
        (lambda a, key: resigned(a, key, approver=replace(ANN, assurance="os")), "login is needed"),
        (lambda a, key: resigned(a, key, until=a.at + 10 * MAX_MS), "too far"),
        (lambda a, key: resigned(a, key, at=a.at + DAY), "clock"),
        (lambda a, key: resigned(a, key, to="ann"), "themselves"),
        (lambda a, key: resigned(a, key, to="mallory"), "none of the people"),
    ],
)
def test_a_forged_statement_counts_for_nothing(
    store: SQLiteStore, path: Path, team: ScriptedApprovers, genuine: Absence, ask: Ask, made: Any, why: str
) -> None:
    request = ask()
    forge(path, store, made(genuine, team.signer))
    ((_, said),) = store.absences.said(team.authority)
    assert why in said
    assert asked(team, request) == {"ann"}
    assert team.vote(store, request, "approve", BEN).outcome == "refused"


def test_an_old_statement_said_once_more(
    store: SQLiteStore, path: Path, team: ScriptedApprovers, genuine: Absence, ask: Ask
) -> None:
    forge(path, store, genuine)
    assert asked(team, ask()) == {"ann"}, "it was ended"
    assert not store.absences.said(team.authority)


def test_what_was_seen_ended_stays_so(
    store: SQLiteStore, path: Path, team: ScriptedApprovers, genuine: Absence, ask: Ask
) -> None:
    """Somebody takes the event out of the log: the processes that have seen it know better, and the log is not whole."""
    request = ask()
    assert asked(team, request) == {"ann"}
    with forging(path) as connection:
        assert connection.execute("DELETE FROM audit_event WHERE type = 'absence.ended'").rowcount == 1
    assert asked(team, request) == {"ann"}
    assert not store.verify().intact
    assert genuine.person == "ann"


@pytest.mark.parametrize(
    "fields",
    [
        {"approver": None},
        {"approver": {"principal": 1, "channel": [], "assurance": {}}},
        {"until": "x"},
        {"at": None},
        {"store": 7},
    ],
)
def test_an_event_that_says_nothing_sensible(
    store: SQLiteStore, path: Path, team: ScriptedApprovers, genuine: Absence, ask: Ask, fields: dict[str, Any]
) -> None:
    request = ask()
    forge(path, store, replace(resigned(genuine, team.signer), at=genuine.at), **fields)
    assert asked(team, request) == {"ann"}


def test_a_statement_of_another_store(
    tmp_path: Path, store: SQLiteStore, path: Path, team: ScriptedApprovers, clock: Any, ask: Ask
) -> None:
    other = SQLiteStore(tmp_path / "other.sqlite3", clock=clock)
    said = other.absences.say(ANN, "ben", clock() + DAY, team.authority, team.signer)
    other.close()
    assert isinstance(said, Absence)
    request = ask()
    forge(path, store, said)
    assert [why for _, why in store.absences.said(team.authority)] == ["it was said in another store"]
    assert asked(team, request) == {"ann"}


def test_who_runs_it_counts_for_themselves(store: SQLiteStore, team: ScriptedApprovers, leave: Any, ask: Ask) -> None:
    """Whoever records answers may trust more keys than whoever runs the action."""
    loose = team.authority.trusting((key := Signer()).fingerprint)
    assert isinstance(leave("ben", authority=loose, signer=key), Absence)
    request = ask()
    vote = store.decide(request.id, answer(request, "approve", approver=BEN), loose, team.signer)
    assert vote.state == "approved"
    assert not runs(store, request, team)


def test_a_gate_asks_the_other_one(
    store: SQLiteStore, team: ScriptedApprovers, leave: Any, make_gate: Callable[..., Gate], clock: Any
) -> None:
    leave("ben")
    said: list[set[str]] = []

    def approve(request: ApprovalRequest) -> Any:
        said.append({each.absent for each in request.rule.stand_ins} if request.rule else set())
        return answer(request, "approve", approver=BEN)

    configured = replace(team.authority, away=lambda _: ())  # as channels files say it
    passing = {"sleep": lambda seconds: clock.pass_ms(60_000)}
    gate = make_gate([approve], authority=configured, signer=team.signer, requester=STARTER, **passing)
    gate.asker.identities = (BEN.principal,)
    with gate:
        assert isinstance(gate.check(Action("ask me", cwd="/srv/app")), Permit)
        assert said == [{"ann"}]
        store.absences.end("ann", "os:ann")
        denied = gate.check(Action("ask me again", cwd="/srv/app"))
    assert isinstance(denied, Denial)


def test_who_stands_in_is_kept_with_the_request_for_people_to_read(
    store: SQLiteStore, path: Path, leave: Any, ask: Ask
) -> None:
    leave("ben")
    request = ask()
    for until in ("9e99", "[]", "null", str(2**70)):
        with forging(path) as connection:
            text = request.rule and dump_rule(request.rule)
            assert text
            text = re.sub(r'"until": \d+', f'"until": {until}', text)
            connection.execute("UPDATE request SET rule = ?", (text,))
        found = store.get(request.id)
        assert found is not None
        assert all(line.isprintable() for line in present(found).place)


NAMES = [each.id for each in PEOPLE if not each.is_group]


@st.composite
def situations(draw: Any) -> tuple[Authority, str, tuple[Absence, ...]]:
    approvers = tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True)))
    quorum = draw(st.integers(1, len(approvers)))
    rule = ApprovalRule(
        "default", approvers, quorum, draw(st.booleans()),
        draw(st.sampled_from(["os", "chat", "login", "terminal"])),
        second_after=3 if quorum < len(approvers) and draw(st.booleans()) else 0,
    )  # fmt: skip
    pairs = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=4))
    absences = tuple(
        Absence(str(n), "", n, 10, to, Approver("x", "x", draw(st.sampled_from(["login", "terminal"]))), who)
        for n, (who, to) in enumerate(pairs)
        if who != to
    )
    counted = newest_of_each(absences)
    return Authority(PEOPLE, {"default": rule}).heeding(lambda _: counted), draw(st.sampled_from(NAMES)), counted


@pytest.mark.long
@given(situations())
@settings(max_examples=300, deadline=None)
def test_whoever_is_away_nobody_gains_and_enough_are_left(
    situation: tuple[Authority, str, tuple[Absence, ...]],
) -> None:
    authority, starter, absences = situation
    principal = next(each.identities[0] for each in PEOPLE if each.id == starter)
    as_ever = authority.heeding(lambda _: ()).rule_of("default", "low", principal)
    rule = authority.rule_of("default", "low", principal)
    able, before = authority.may_answer(rule, principal), authority.may_answer(as_ever, principal)
    said = {each.person: each.to for each in absences}
    assert {one.absent: one.person for one in rule.stand_ins}.items() <= said.items()
    assert set(rule.approvers) - set(as_ever.approvers) <= {one.person for one in rule.stand_ins}
    assert (starter in rule.approvers) == (starter in as_ever.approvers), "no run chooses its judge, nor loses one"
    assert len(able) >= min(len(before), rule.quorum + bool(rule.second_after))
    for one in rule.stand_ins:
        assert one.absent in as_ever.approvers
        assert one.absent not in rule.approvers
        assert one.person not in said, "nobody stands in who is away"
        assert starter not in (one.absent, one.person)
    assert (rule.quorum, rule.min_assurance, rule.solo) == (as_ever.quorum, as_ever.min_assurance, as_ever.solo)
