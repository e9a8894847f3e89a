"""Evidence: each figure is what its command counts, the same log gives the same page, and nothing is more than text."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.audit.events import EVENT_TYPES
from humanlayer_agent.audit.search import Search, moment
from humanlayer_agent.cli import main
from humanlayer_agent.report.as_data import evidence_as_json_data
from humanlayer_agent.report.evidence import RECORDS, Evidence, MapName, collected, figures, moment_text, read_map
from humanlayer_agent.report.facts import Wanted
from humanlayer_agent.report.integrity import Integrity
from humanlayer_agent.report.pages import evidence_page
from humanlayer_agent.store.sqlite import SQLiteStore

from .hostile import HOSTILE, INTACT, hostile_log
from .test_pages import Reader, only_text

MAPS: tuple[MapName, ...] = get_args(MapName)


def read(entries: list[Entry], name: MapName = "soc2", wanted: Wanted | None = None, **options: Any) -> Evidence:
    proof = Integrity("log.jsonl", len(entries), "a" * 64, last=len(entries) - 1)
    return collected(name, wanted or Wanted(), entries, proof, **options)


# ---- the maps -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAPS)
def test_a_map_names_what_there_is(name: MapName) -> None:
    found = read_map(name)
    assert found.source.startswith("https://")
    assert len({each.clause for each in found.clauses}) == len(found.clauses) >= 8
    for clause in found.clauses:
        assert set(clause.figures) <= set(figures()), clause.clause
        assert set(clause.records) <= set(RECORDS), clause.clause
        assert clause.figures, clause.clause
        assert clause.records, clause.clause
        assert min(len(clause.about), len(clause.shows), len(clause.beyond)) > 20


def test_every_figure_is_named_by_a_map_and_searches_for_what_can_be_in_a_log() -> None:
    assert {name for each in MAPS for clause in read_map(each).clauses for name in clause.figures} == set(figures())
    kinds = {figure.search.kind for figure in figures().values()} - {None}
    kinds |= {search.kind for _, searches in RECORDS.values() for search in searches}
    families = {name.partition(".")[0] for name in EVENT_TYPES}
    assert {kind for kind in kinds if kind not in EVENT_TYPES} <= families


# ---- the figures --------------------------------------------------------------------------------------------


def lines_of(command: str, capture: pytest.CaptureFixture[bytes]) -> int:
    """Run a command of a page, in this process, and count its lines as `wc -l` does."""
    query, pipe, count = command.rpartition(" | ")
    assert (pipe, count) == (" | ", "wc -l")
    words = shlex.split(query)
    assert words[0] == "hla"
    code = main(words[1:])
    assert code in (0, None)
    return capture.readouterr().out.count(b"\n")


@pytest.mark.parametrize("name", MAPS)
def test_each_command_counts_what_the_figure_says(
    history: Path, name: MapName, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with_store = ("--store", str(history))
    store = SQLiteStore(history, create=False)
    found = collected(
        name, Wanted(), store.events(), Integrity("x", store.verify().count, "", last=store.verify().last), with_store
    )
    store.close()
    counts = {each.name: lines_of(found.command(each.search), capfdbinary) for each in found.figures}
    assert counts == {each.name: found.counts[each.name] for each in found.figures}
    assert counts["decisions"] > 50
    for who, answers in found.who_answered:
        assert lines_of(found.command(who.search), capfdbinary) == answers
    assert found.who_answered


@pytest.mark.parametrize(
    "strange", [-1, 10**17, 10**400, 253_402_300_799_999, 1.5, float("nan"), float("inf"), "7", None, True]
)
def test_what_was_at_no_time_is_in_no_figure(sealed: Any, decided: Any, strange: Any) -> None:
    """The command beside a figure names the time, and so it would not find it."""
    log = sealed([decided("rm x", "deny"), decided("rm y", "deny")])
    body = json.dumps({**log[-1].event, "at": strange})
    found = read([*log[:-1], Entry(log[-1].seq, log[-1].hash, body)])
    assert (found.counts["decisions"], found.counts["denied"], found.facts.unreadable) == (1, 1, 1)
    shown = Search("decision", since=found.since, until=found.until)
    assert [shown(Entry(1, "", body)), shown(log[-2])] == [False, True]
    assert evidence_page(found)


@given(st.integers(0, 253_402_300_799_999))
@example(240_662_736_918_137)
def test_a_moment_is_said_exactly(ms: int) -> None:
    assert moment(moment_text(ms), 0) == ms


def test_a_part_of_the_time_and_one_run(entries: list[Entry]) -> None:
    whole = read(entries, "eu-ai-act")
    at = [each.event["at"] for each in entries]
    middle = at[len(at) // 2]
    early = read(entries, "eu-ai-act", Wanted(until=middle))
    late = read(entries, "eu-ai-act", Wanted(since=middle))
    for each in whole.figures:
        assert early.counts[each.name] + late.counts[each.name] == whole.counts[each.name], each.name
    assert early.counts["decisions"]
    assert late.counts["decisions"]
    run = next(iter(whole.facts.runs))
    alone = read(entries, "eu-ai-act", Wanted(run=run))
    assert 0 < alone.counts["decisions"] == sum(alone.facts.runs[run].verdicts.values()) < whole.counts["decisions"]
    assert f"--run {run}" in alone.command(figures()["decisions"].search)


def test_people_are_told_apart_by_all_that_is_known_of_them(sealed: Any, decided: Any, voted: Any) -> None:
    chat = {"principal": "slack:T1/U2", "channel": "slack", "assurance": "chat"}
    found = read(
        sealed(
            [
                decided("rm x", "ask", request="r"),
                ("request.created", {"run": "run-1", "request": "r", "asked": 1, "requester": "os:1", "needed": 1}),
                voted("r", "approve", signer="ab" * 32),
                voted("r", "approve", approver=chat, solo=True),
                voted("r", "approve", "late"),
            ]
        )
    )
    assert [(who.assurance, bool(who.signer), n) for who, n in found.who_answered] == [
        ("chat", False, 1),
        ("login", True, 1),
    ]
    names = ("votes-by-chat", "votes-by-login", "solo", "votes-late", "votes-refused")
    assert [found.counts[name] for name in names] == [1, 1, 1, 1, 0]


# ---- the page and the data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MAPS)
def test_the_same_log_gives_the_same_bytes(entries: list[Entry], name: MapName, sealed: Any, decided: Any) -> None:
    first = read(entries, name)
    later = [*entries, Entry(len(entries), "0" * 64, entries[-1].body)]  # written after the log was verified
    second = collected(name, Wanted(), later, first.integrity)
    assert evidence_page(first) == evidence_page(second)
    assert json.dumps(evidence_as_json_data(first)) == json.dumps(evidence_as_json_data(second))


@pytest.mark.parametrize("said", HOSTILE)
def test_nothing_in_a_log_is_more_than_text(sealed: Any, decided: Any, voted: Any, said: str) -> None:
    log = hostile_log(sealed, decided, voted, said)
    for name in MAPS:
        found = collected(name, Wanted(), log, Integrity(said, len(log), said, last=len(log) - 1), ("--store", said))
        only_text(evidence_page(found), said)
        assert json.loads(json.dumps(evidence_as_json_data(found)))["unreadable_events"] == 0


@pytest.mark.parametrize("name", MAPS)
def test_what_the_page_shows(entries: list[Entry], name: MapName) -> None:
    found = read(entries, name)
    page = Reader(evidence_page(found))
    texts = " ".join(" ".join(page.texts).split())
    assert "It says of no clause that it is met" in texts
    assert texts.index("The end is not witnessed") < texts.index(found.map.clauses[0].shows)
    for clause in found.map.clauses:
        assert clause.beyond in texts
    for request in found.human_decisions:
        assert request.votes[0].person in texts
    ids = {attributes.get("id") for _, attributes in page.elements}
    links = [a["href"] for element, a in page.elements if element == "a"]
    assert {link for link in links if link is not None and link[1:] not in ids} == set()
    assert " UTC" in texts
    assert texts.count("--format jsonl | wc -l") >= sum(len(each.figures) for each in found.map.clauses)


@pytest.mark.parametrize("name", MAPS)
def test_emergencies_and_legal_holds_are_in_every_map(sealed: Any, name: MapName) -> None:
    who = {"principal": "os:1:eve"}
    log = sealed([
        ("supervision.break-glass", {"request": "r1", "approver": who, "reason": "The site is down", "done": True}),
        ("hold.placed", {"hold": "case-7", "run": "r", "approver": who}),
        ("hold.lifted", {"hold": "case-7", "approver": who}),
    ])  # fmt: skip
    found = read(log, name)
    named = {each for clause in found.map.clauses for each in clause.figures}
    assert {each: found.counts[each] for each in named if found.counts[each]} == {
        **dict.fromkeys(("held", "holds-lifted", "broken-glass"), 1),
        **({"events": len(log)} if "events" in named else {}),
    }
    page = evidence_page(found)
    assert "people-removed" in named
    assert "The site is down" in page
    assert "case-7" in page


def test_the_data_has_all_that_the_page_has(entries: list[Entry]) -> None:
    found = read(entries, "eu-ai-act")
    data = evidence_as_json_data(found)
    named = {each["name"]: each for each in data["figures"]}
    assert set(named) == {name for clause in data["clauses"] for name in clause["figures"]}
    assert set(data["records"]) == {name for clause in data["clauses"] for name in clause["records"]}
    assert named["events"]["count"] == len(entries) == data["period"]["events"]
    assert len(data["records"]["human-decisions"]["rows"]) == len(found.human_decisions) > 1
    answers = sum(each["answers"] for each in data["records"]["identities"]["rows"])
    assert answers == named["votes"]["count"]
    assert data["period"]["until"].endswith("Z")


def test_a_log_that_cant_be_relied_on_says_so_first(entries: list[Entry]) -> None:
    proof = Integrity("x", 7, "a", "Its hash is wrong", 3, kind="tampered")
    found = collected("soc2", Wanted(), entries, proof)
    page = evidence_page(found)
    assert page.index("Tampered with at event 3: don&#39;t rely on what follows") < page.index("CC6.1</h2>")
    data = evidence_as_json_data(found)
    assert data["integrity"]["reliable"] is False
    assert found.facts.events == len(entries), "nothing is left out of it"


def broken() -> Iterator[Entry]:
    yield Entry(0, "", b"no event")
    yield Entry(1, "", b'{"type": "vote.recorded", "at": 5, "seq": 1}')
    yield Entry(2, "", b'{"type": ["x"], "at": 5, "seq": 2}')
    yield Entry(3, "", b'{"type": "audit.opened", "at": 253402300799999, "seq": 3}')


def test_a_log_of_anything_makes_a_page() -> None:
    found = collected("soc2", Wanted(), broken(), Integrity("x", 0, "", "broken", 0, kind="tampered"))
    assert found.counts["votes"] == sum(found.identities.values()) == 1
    assert "3 events could not be read" in " ".join(Reader(evidence_page(found)).texts)
    assert "No answer counted." in evidence_page(collected("soc2", Wanted(), [], INTACT))
