"""What is collected from a log."""

import json
from typing import Any

import pytest

from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.report.attention import attention
from humanlayer_agent.report.facts import Facts, Wanted

START = 1_793_577_600_000
DAY = 86_400_000


def test_an_approval_is_told_whole(sealed: Any, decided: Any, voted: Any) -> None:
    common = {"run": "run-1", "request": "q1", "permit": "p1", "digest": "f"}
    facts = Facts().collect(
        sealed(
            [
                ("run.started", {"run": "run-1", "agent": "a", "requester": "os:1:x", "project": "/srv/app"}),
                decided("make deploy", "ask", request="q1", erased=["option --token"]),
                (
                    "request.created",
                    {"run": "run-1", "request": "q1", "asked": START, "requester": "os:1:x", "needed": 2},
                ),
                voted("q1", "approve", at=START + 2_500),
                voted("q1", "approve", person="carol", solo=True, at=START + 9_000, comment="fine"),
                ("request.approved", {"run": "run-1", "request": "q1", "asked": START, "at": START + 9_000}),
                ("permit.consumed", {**common, "at": START + 9_500}),
                ("exec.started", {**common, "at": START + 9_500}),
                ("exec.finished", {**common, "returncode": 3, "duration_ms": 5, "at": START + 9_900}),
            ]
        )
    )
    (request,) = facts.requests.values()
    assert (request.state, request.needed, request.took, request.used) == ("approved", 2, 2_500, START + 9_500)
    assert request.decision is not None
    assert (request.decision.command, request.decision.rule) == ("make deploy", "r1")
    assert [(v.person, v.solo, v.how) for v in request.votes] == [("bob", False, "click"), ("carol", True, "click")]
    assert request.execution is not None
    assert (request.execution.returncode, request.execution.unknown) == (3, False)
    assert facts.rules["r1"].ends == {"approved": 1}
    assert facts.erased == {"option --token": 1}
    assert facts.unreadable == 0


def test_who_was_away_and_who_answered_in_their_place(sealed: Any, decided: Any, voted: Any) -> None:
    said = {"person": "alice", "to": "bob", "until": START + DAY, "approver": {"principal": "os:alice"}}
    rule = json.dumps({"stand_ins": [{"absent": "alice", "person": "bob", "until": START + DAY}]})
    facts = Facts().collect(
        sealed(
            [
                ("absence.said", {**said, "absence": "a1"}),
                decided("make deploy", "ask", request="q1"),
                ("request.created", {"run": "run-1", "request": "q1", "requester": "os:1:x", "rule": rule}),
                voted("q1", "approve"),
                decided("make again", "ask", request="q2"),
                ("request.created", {"run": "run-1", "request": "q2", "requester": "os:1:x", "rule": "no JSON"}),
                voted("q2", "approve"),
                ("absence.ended", {"person": "alice", "absences": ["a1", "a0"], "at": START + 60_000}),
                ("absence.said", {**said, "absence": "a2", "until": "soon"}),
            ]
        )
    )
    (away,) = facts.away
    assert (away.person, away.to, away.until, away.ended) == ("alice", "bob", START + DAY, START + 60_000)
    assert [vote.instead_of for request in facts.requests.values() for vote in request.votes] == ["alice", ""]
    assert facts.unreadable == 1


def test_grants_and_what_they_were_used_for(sealed: Any, decided: Any) -> None:
    given = {"until": START + DAY, "max_uses": 50, "words": "reading anything below /srv/data", "project": "/srv/app"}
    used = {"run": "run-1", "grant": "g1", "by": ["bob", "carol"], "max_uses": 50, "digest": "f", "rules": ["r1"]}
    facts = Facts().collect(
        sealed(
            [
                decided("cat /srv/data/a", "ask", request="g1"),
                (
                    "grant.given",
                    {"run": "run-1", "grant": "g1", "by": ["bob", "carol"], **given, "operands": ["/srv/data/a"]},
                ),
                decided("cat /srv/data/a", "ask", permit="p1", grants=["g1"]),
                ("grant.used", {**used, "permit": "p1", "use": 1, "operands": ["/srv/data/a"]}),
                decided("cat /srv/data/b", "ask", permit="p2", grants=["g1"]),
                ("grant.used", {**used, "permit": "p2", "use": 2, "operands": ["/srv/data/a", "/srv/data/b"]}),
                ("grant.used", {**used, "grant": "g0", "permit": "p3", "use": 7, "operands": ["/srv/data/c"]}),
                ("grant.revoked", {"request": "g1", "grant": "g1", "by": "os:1:x", "reason": "enough"}),
            ]
        )
    )
    grant, before = facts.grants["g1"], facts.grants["g0"]
    assert (grant.by, grant.words, grant.max_uses) == (("bob", "carol"), "reading anything below /srv/data", 50)
    assert [use.decision.command for use in grant.uses if use.decision] == ["cat /srv/data/a", "cat /srv/data/b"]
    assert [use.unlike for use in grant.uses] == [(), ("/srv/data/b",)]
    assert [use.unlike for use in grant.unlike] == [("/srv/data/b",)]
    assert (grant.revoked_by, grant.why) == ("os:1:x", "enough")
    assert before.given is None
    assert before.unlike == [], "what was seen then is not known here"
    assert facts.granted == 2
    assert facts.unreadable == 0


def test_kept_files(sealed: Any) -> None:
    kept = {"name": "run-1", "project": "/srv/app", "files": 3, "bytes": 9, "left_out": 1, "manifest": {"sha256": "0"}}
    restored = {"name": "run-1", "project": "/srv/app", "files": 2, "deleted": 0, "undo": "undo-1", "by": "os:1:x"}
    facts = Facts().collect(
        sealed(
            [
                ("files.unkept", {"run": "run-1", "why": "No space left on device"}),
                ("files.kept", {"run": "run-1", **kept}),
                ("files.restored", restored),
            ]
        )
    )
    told = [(each.what, each.name, each.files, each.left_out, each.by, each.why) for each in facts.kept]
    assert told == [
        ("unkept", "run-1", 0, 0, "", "No space left on device"),
        ("kept", "run-1", 3, 1, "", ""),
        ("restored", "run-1", 2, 0, "os:1:x", ""),
    ]


def test_swapped_files(sealed: Any, decided: Any) -> None:
    def changed(permit: str, *own: bool, **more: Any) -> tuple[str, dict[str, Any]]:
        files = [{"path": f"/srv/{n}.sh", "judged": {"sha256": "0"}, "found": {"sha256": "1"}, "own": o}
                 for n, o in enumerate(own)]  # fmt: skip
        return "exec.changed", {"run": "run-1", "permit": permit, "digest": "f", "files": files, **more}

    ended = {"run": "run-1", "permit": "p1", "digest": "f", "returncode": 0}
    facts = Facts().collect(
        sealed(
            [
                decided("bash 0.sh", "allow", permit="p1"),
                changed("p1", False, True),
                ("exec.finished", ended),
                decided("bash 1.sh", "allow", permit="p2"),
                changed("p2", False, refused=True),
            ]
        )
    )
    told = [(s.path, s.became, s.decision.command if s.decision else "") for s in facts.swapped]
    assert told == [
        ("/srv/0.sh", "stopped", "bash 0.sh"),
        ("/srv/1.sh", "own", "bash 0.sh"),
        ("/srv/0.sh", "refused", "bash 1.sh"),
    ]


def test_denials_observations_and_unknown_ends(sealed: Any, decided: Any) -> None:
    facts = Facts().collect(
        sealed(
            [
                decided("rm -rf /", "deny"),
                decided("ls", "allow", permit="p1"),
                ("exec.started", {"run": "run-1", "permit": "p1", "digest": "f"}),
                ("exec.unknown", {"run": "run-1", "permit": "p1", "digest": "f", "started": START, "process": "1"}),
                decided("make x", "deny", enforced=False, permit="p2"),
                decided("ls", "allow", denied="the run was stopped"),
            ]
        )
    )
    assert [(d.command, d.denied) for d in facts.denials] == [("rm -rf /", ""), ("ls", "the run was stopped")]
    assert [d.command for d in facts.observed] == ["make x"]
    assert [(run, d.command if d else "") for run, d, _ in facts.unknown] == [("run-1", "ls")]


def test_only_what_is_wanted(sealed: Any, decided: Any) -> None:
    log = sealed([decided(str(n), "allow", run=f"r{n % 2}", at=START + n * DAY) for n in range(6)])

    def count(**wanted: Any) -> int:
        return Facts(Wanted(**wanted)).collect(log).verdicts.total()

    assert count() == 6
    assert count(run="r1") == 3
    assert count(since=START + 2 * DAY) == 4
    assert count(until=START + 2 * DAY) == 2
    assert count(since=START + DAY, until=START + 3 * DAY, run="r0") == 1


def test_what_cant_be_read_is_counted(sealed: Any, decided: Any) -> None:
    log = sealed([decided("ls", "allow")])
    broken = [Entry(9, "", body) for body in (b"{", b"[]", b"{}", b'{"type":1,"at":2}', b"\xff", b"[" * 100_000)]
    broken += [Entry(9, "", b'{"type":"run.started","at":%d,"run":"r"}' % at) for at in (-1, 10**15, 10**30)]
    facts = Facts().collect([*log, *broken])
    assert facts.unreadable == 9
    assert facts.verdicts.total() == 1


def test_attention(sealed: Any, decided: Any, voted: Any) -> None:
    events: list[Any] = [decided("ls", "allow") for _ in range(6)]
    answers = [("q0", "approve", 500), ("q1", "approve", 2_000), ("q2", "approve", 60_000), ("q3", "reject", 4_000)]
    for request, answer, took in answers:
        rule = "always" if answer == "approve" else "sometimes"
        asked = START + len(events) * 600_000
        events += [
            decided(f"do {request}", "ask", rule, request=request, at=asked),
            ("request.created", {"run": "run-1", "request": request, "asked": asked, "at": asked}),
            voted(request, answer, at=asked + took),
        ]
    found = attention(Facts().collect(sealed(events)))
    assert (found.commands, found.asks, found.answered) == (10, 4, 4)
    assert found.asks_per_100 == pytest.approx(40)
    assert found.fast == pytest.approx(50)
    assert found.latency == [1, 1, 1, 0, 0, 1, 0, 0]
    assert [(c.rule, c.answers, c.example) for c in found.candidates] == [("always", 3, "do q0")]
    assert found.approver_hours == 2
    assert found.asks_per_approver_hour == pytest.approx(2)
    assert [(a.name, a.asked, a.median_ms, a.approved) for a in found.approvers] == [("bob", 4, 3_000, 75.0)]
    assert [(r.name, r.asked, r.median_ms, r.approved, r.fast) for r in found.rules] == [
        ("always", 3, 2_000, 100.0, pytest.approx(200 / 3)),
        ("sometimes", 1, 4_000, 0.0, 0.0),
    ]


def test_a_real_history(entries: Any) -> None:
    """Every kind of event that a Gate writes is understood, and the figures add up."""
    facts = Facts().collect(entries)
    assert facts.unreadable == 0
    assert facts.events == len(entries)
    assert facts.verdicts["ask"] == len(facts.requests)
    assert facts.verdicts["deny"] == len([d for d in facts.denials if d.verdict == "deny"])
    assert all(request.decision is not None for request in facts.requests.values())
    assert not [r for r in facts.requests.values() if r.state == "approved" and (not r.votes or r.execution is None)]
    assert sum(sum(day.values()) for day in facts.days.values()) == facts.verdicts.total()
