"""Break-glass: two who are named for emergencies, each with a key of their own, outside of any route; and nobody else."""

import hashlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import GLASS, ApprovalRule, Authority, Person, breaks_glass
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Denial, Execution, Permit, Refused
from humanlayer_agent.audit import events
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hub.channel_access import StoreDesk
from humanlayer_agent.hub.head_posts import alarm
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.store.sqlite import SQLStore
from humanlayer_agent.store.statements import _PLACE
from humanlayer_agent.testing.approvers import ScriptedApprovers
from tests.support.stores import another

STORES = ("sqlite", "postgres")

ANN_KEY, BEN_KEY = Signer(), Signer()
PEOPLE = (
    Person("ann", ("os:ann", "slack:T1/U1")),
    Person("ben", ("os:ben",)),
    Person("cleo", ("os:cleo",)),
    Person("dan", ("os:dan",)),
    Person("out", ("slack:T1/U3",)),
)
ROUTES = {"default": ApprovalRule("default", ("out",), quorum=1, min_assurance="chat")}
KNOWN = Authority(PEOPLE, ROUTES, frozenset({ANN_KEY.fingerprint, BEN_KEY.fingerprint}), glass=("ann", "ben", "dan"))
OUT = Approver("slack:T1/U3", "slack", "chat")


def glass(name: str, **fields: Any) -> Approver:
    return replace(Approver(f"os:{name}", GLASS, "terminal"), **fields)


@pytest.fixture
def team() -> dict[str, ScriptedApprovers]:
    return {"ann": ScriptedApprovers(KNOWN, ANN_KEY), "ben": ScriptedApprovers(KNOWN, BEN_KEY)}


@pytest.fixture
def ask(store: SQLStore, run: str, draft: Callable[..., ApprovalRequest]) -> Callable[..., ApprovalRequest]:
    def make(requester: str = "os:dan", **said: Any) -> ApprovalRequest:
        made = replace(draft(**said), requester=requester)
        rule = KNOWN.rule_for(made.decision, requester)
        return store.create_request(replace(made, rule=rule, needed=rule.quorum), KNOWN)

    return make


@pytest.fixture
def sign(store: SQLStore, team: Any) -> Callable[..., Any]:
    def vote(request: ApprovalRequest, name: str, key: str = "", kind: Any = "approve", **fields: Any) -> Any:
        words = fields.pop("comment", "break-glass: it burns")
        more = {each: fields.pop(each) for each in ("scope", "edited") if each in fields}
        return team[key or name].vote(store, request, kind, glass(name, **fields), words, **more)

    return vote


def runs(store: SQLStore, request: ApprovalRequest) -> bool:
    permit = store.permit(request, KNOWN, use_by_ms=10_000)
    return isinstance(permit, Permit) and isinstance(store.consume(permit, permit.digest, KNOWN), Execution)


def test_two_with_their_own_keys(store: SQLStore, ask: Any, sign: Any) -> None:
    request = ask(severity="critical")
    first = sign(request, "ann")
    assert (first.outcome, first.state, first.missing) == ("recorded", "pending", 1)
    assert not runs(store, request)
    assert sign(request, "ben").state == "approved"
    assert runs(store, request)
    told = [entry.event for entry in store.events(type=events.GLASS_BROKEN.name)]
    assert [(event["code"], event["person"], event["done"], event["reason"]) for event in told] == [
        (353, "ann", False, "break-glass: it burns"),
        (353, "ben", True, "break-glass: it burns"),
    ]
    assert store.verify().intact


def test_the_key_of_who_only_ever_broke_glass_is_known_as_theirs(
    store: SQLStore, ask: Any, sign: Any, team: Any
) -> None:
    sign(ask(), "ann")
    assert store.people.record_of("ann").keys == (ANN_KEY.fingerprint,)
    halt = store.halts.stop("os:cleo")
    assert store.halts.resume([halt], glass("ben"), "break-glass: it burns", KNOWN, BEN_KEY) is None
    assert store.people.record_of("ben").keys == (BEN_KEY.fingerprint,)


def test_one_person_is_one_however_many_keys_and_identities(store: SQLStore, ask: Any, sign: Any) -> None:
    request = ask()
    assert sign(request, "ann").state == "pending"
    assert sign(request, "ann", key="ben").code == "voted-before"
    assert sign(request, "ann", principal="slack:T1/U1", key="ben").code == "voted-before"
    assert sign(request, "ben", key="ann").state == "pending", "two people, one key: it may be one of them"
    assert not runs(store, request)


@pytest.mark.parametrize(
    ("name", "fields", "code"),
    [
        ("cleo", {"key": "ann"}, "not-an-approver"),  # nobody has named her
        ("dan", {"key": "ann"}, "requester"),  # who started the run
        ("ann", {"assurance": "login"}, "not-an-approver"),
        ("ann", {"assurance": "os"}, "not-an-approver"),
        ("mallory", {"key": "ann"}, "not-an-approver"),
        ("ann", {"comment": ""}, "incomplete"),
        ("ann", {"kind": "reject"}, "incomplete"),
        ("ann", {"kind": "edit", "edited": "true"}, "incomplete"),
        ("ann", {"kind": "terminate"}, "incomplete"),
    ],
)
def test_who_and_what_does_not_count(store: SQLStore, ask: Any, sign: Any, name: str, fields: Any, code: str) -> None:
    request = ask()
    assert sign(request, name, **fields).code == code
    found = store.get(request.id)
    assert found is not None
    assert found.state == "pending"
    assert list(store.events(type=events.GLASS_BROKEN.name)) == []


def test_it_is_counted_apart_from_the_route(store: SQLStore, ask: Any, sign: Any, team: Any) -> None:
    """Half an emergency is no vote by the route; a no by the route ends it; a route's own yes needs no emergency."""
    request = ask(severity="low")
    sign(request, "ann")
    assert team["ben"].vote(store, request, "reject", OUT).state == "rejected"
    assert sign(request, "ben").outcome == "late"
    assert not runs(store, request)
    other = ask(content="make two", severity="low")
    sign(other, "ann")
    assert team["ben"].vote(store, other, "approve", OUT).state == "approved"
    assert runs(store, other)


def test_where_those_of_the_route_have_left(store: SQLStore, ask: Any, sign: Any) -> None:
    request = ask()
    store.people.remove("out", ["slack:T1/U3"], [], "os:ann")
    sign(request, "ann")
    assert sign(request, "ben").state == "approved"
    assert runs(store, request)


def test_one_of_the_two_has_left(store: SQLStore, ask: Any, sign: Any) -> None:
    request = ask()
    sign(request, "ann")
    store.people.remove("ann", ["os:ann"], [], "os:cleo")
    assert sign(request, "ben").state == "pending"
    assert not runs(store, request)


def test_who_runs_it_counts_by_their_own_settings(store: SQLStore, ask: Any, sign: Any) -> None:
    """A hub that names others, or a store that says it is approved: the process that runs it names nobody."""
    request = ask()
    sign(request, "ann")
    sign(request, "ben")
    nobody = replace(KNOWN, glass=())
    assert isinstance(store.permit(request, nobody, use_by_ms=10_000), Refused)
    assert isinstance(store.permit(request, replace(KNOWN, glass=("ann", "dan")), use_by_ms=10_000), Refused)
    fewer = KNOWN.limited_to({ANN_KEY.fingerprint})
    assert isinstance(store.permit(request, fewer, use_by_ms=10_000), Refused)


def test_what_is_denied_asks_nobody(
    make_gate: Callable[..., Gate], act: Callable[..., Action], store: SQLStore
) -> None:
    found = make_gate([], authority=KNOWN).check(act("rm x"))
    assert isinstance(found, Denial)
    assert store.requests() == []


def test_a_stop_is_lifted_by_two(store: SQLStore) -> None:
    store.halts.stop("os:dan")
    (halt,) = store.halts.standing(KNOWN)
    assert isinstance(store.halts.resume([halt], glass("cleo"), "x", KNOWN, ANN_KEY), Refused)
    assert store.halts.resume([halt], glass("ann"), "break-glass: x", KNOWN, ANN_KEY) is None
    (still,) = store.halts.standing(KNOWN)
    assert "one of two has signed it" in still.note
    for name, key in (("ann", BEN_KEY), ("ben", ANN_KEY)):
        assert store.halts.resume([halt], glass(name), "break-glass: x", KNOWN, key) is None
        if name == "ann":
            assert store.halts.standing(KNOWN), "the same person with another key"
    # ann by ben's key, and ben by ann's: two people with a key each, as far as anybody can tell.
    assert store.halts.standing(KNOWN) == []
    with closing(another(store)) as fresh:
        assert fresh.halts.standing(KNOWN) == []
        assert fresh.halts.standing(replace(KNOWN, glass=())) != []
    told = [entry.event["done"] for entry in store.events(type=events.GLASS_BROKEN.name)]
    assert told == [False, False, True]
    assert store.verify().intact


def test_every_channel_is_told_once(store: SQLStore, ask: Any, sign: Any, clock: Any) -> None:
    request = ask()
    sign(request, "ann")
    posted: list[str] = []
    task = alarm(store, posted.append)
    task.run()
    sign(request, "ben", comment="break-glass: \x1b[2J")
    task.run()
    task.run()
    assert [("counts once another" in text, "two have signed" in text) for text in posted] == [
        (True, False),
        (False, True),
    ]
    assert all(text.startswith("BREAK-GLASS: ") and "\x1b" not in text for text in posted)
    clock.pass_ms(7_200_000)
    alarm(store, posted.append).run()
    assert len(posted) == 2, "what is long ago is no alarm any more"


def test_whoever_may_append_events_fills_nobodys_mail(store: SQLStore, clock: Any) -> None:
    told: list[str] = []
    task = alarm(store, told.append)
    task.run()
    for number in range(40):
        store.record(events.GLASS_BROKEN, request="x" * 32, person="ann", reason=str(number))
    task.run()
    assert len(told) == 11
    assert "there are more of these" in told[-1]
    clock.pass_ms(3_700_000)
    store.record(events.GLASS_BROKEN, request="x" * 32, person="ann", reason="again")
    task.run()
    assert told[-1].endswith("again")


def test_one_that_nobody_can_read_keeps_no_other_from_being_told(store: SQLStore) -> None:
    with store.transaction() as ledger:
        tip, (place,) = ledger.tip(""), ledger._db.execute(_PLACE).fetchone()
        assert tip is not None
        body = canonical({"type": events.GLASS_BROKEN.name, "seq": place, "link": tip.link + 1, "prev": tip.hash})
        values = (place, hashlib.sha256(body).hexdigest(), body.decode())
        ledger.change("INSERT INTO audit_event (seq, hash, body) VALUES (?, ?, ?)", *values)
    store.record(events.GLASS_BROKEN, request="x" * 32, person="ann", reason="fire")
    told: list[str] = []
    alarm(store, told.append).run()
    assert (len(told), "can't be read" in told[0], told[1].endswith("fire")) == (2, True, True)
    desk = StoreDesk(store, "web", KNOWN, ANN_KEY)
    assert desk.stopped() == "; ".join(told), "the inbox and the home show both"


@pytest.mark.parametrize("named", [("ann",), ("ann", "ann"), ("ann", "nobody"), ("ann", "group:x")])
def test_fewer_than_two_people_are_nobody(named: tuple[str, ...]) -> None:
    people = (*PEOPLE, Person("group:x", ("slack-usergroup:T1/S1",)))
    with pytest.raises(ConfigError, match="two of the people"):
        Authority(people, ROUTES, glass=named)


@pytest.mark.parametrize(
    ("signed", "breaks"),
    [([], False), ([("a", "1")], False), ([("a", "1"), ("a", "2")], False), ([("a", "1"), ("b", "1")], False),
     ([("a", "1"), ("b", "2")], True), ([("a", "1"), ("a", "2"), ("b", "1")], True)],
)  # fmt: skip
def test_two_people_and_two_keys(signed: list[tuple[str, str]], breaks: bool) -> None:
    assert breaks_glass(signed) is breaks
