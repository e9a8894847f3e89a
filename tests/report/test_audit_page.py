"""The auditor's report: what it shows, and that nothing in a log can become more than text."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.report.audit_data import as_csv, as_json_data
from humanlayer_agent.report.audit_page import _days, audit_page
from humanlayer_agent.report.facts import Facts
from humanlayer_agent.report.integrity import Integrity
from tests.support import browser

from .test_html import Reader

START = 1_793_577_600_000
INTACT = Integrity("log.jsonl", 7, "a" * 64, witnessed=6)
HOSTILE = (
    "<script>fetch('https://evil.invalid')</script>",
    '"><img src=https://evil.invalid/x onerror=alert(1)>',
    "</style><style>@import url(https://evil.invalid)</style>",
    "--> ]]> {{7*7}} \u202egnp.exe\u202c \x1b[2J \x00",
    "=cmd|'/c calc'!A1",
)
ELEMENTS = frozenset(
    ["html", "head", "meta", "title", "style", "body", "a", "header", "h1", "h2", "h3", "p", "nav", "ul", "li", "main", "section", "footer", "div", "span", "strong", "code", "pre", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "figure", "figcaption", "svg", "desc", "g", "rect", "line", "path", "circle", "text", "time", "i", "br"]
)  # fmt: skip


def hostile_log(sealed: Any, decided: Any, voted: Any, said: str) -> list[Any]:
    """A log with `said` in every place that an agent, a model or a human can write to."""
    approver = {"principal": said, "channel": said, "assurance": said}
    more = {
        "agent": said,
        "reason": said,
        "cwd": said,
        "project": said,
        "policy": said,
        "erased": [said],
        "rules": [said],
    }
    created = {"run": said, "request": said, "asked": START, "requester": said, "needed": 1}
    return sealed(
        [
            ("run.started", {"run": said, "agent": said, "requester": said, "project": said}),
            decided(f"\u27e6hmac:0\u27e7 {said}\nmore {said}", "ask", said, request=said, run=said, **more),
            ("request.created", created),
            voted(said, "edit", edited=said, comment=said, approver=approver, person=said, solo=True, run=said),
            voted(said, said, "refused", why=said, approver=approver, run=said),
            ("request.superseded", {"run": said, "request": said, "asked": START, "why": said}),
            decided(said, "deny", said, run=said, **more),
            decided(said, "deny", said, run=said, enforced=False, permit="p", **more),
            ("exec.unknown", {"run": said, "permit": "p", "digest": "f", "started": START, "process": said}),
            ("run.finished", {"run": said, "state": "finished", "status": said}),
        ]
    )


@pytest.mark.parametrize("said", HOSTILE)
def test_nothing_in_a_log_is_more_than_text(sealed: Any, decided: Any, voted: Any, said: str) -> None:
    facts = Facts().collect(hostile_log(sealed, decided, voted, said))
    assert facts.unreadable == 0
    proof = Integrity(said, 9, said, problem=said, details=((said, said),))
    made = audit_page(facts, proof, rules=[said, "r"], policy=said)
    read = Reader(made)
    assert {name for name, _ in read.elements} <= ELEMENTS
    for _, attributes in read.elements:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset", "action")
        ]
        assert (attributes.get("href") or "#").startswith("#")
    assert not {"\u202e", "\x1b", "\x00"} & set(made)
    assert made.count("<style") == made.count("</style>") == 1


def test_spreadsheets_get_no_formula(sealed: Any, decided: Any, voted: Any) -> None:
    facts = Facts().collect(hostile_log(sealed, decided, voted, HOSTILE[-1]))
    for row in csv.reader(io.StringIO(as_csv(facts))):
        assert not [cell for cell in row if cell.startswith(("=", "+", "-", "@"))]


def test_what_the_report_shows(entries: Any) -> None:
    facts = Facts().collect(entries)
    made = audit_page(facts, INTACT, rules=["never-used", "network"])
    read = Reader(made)
    texts = " ".join(" ".join(read.texts).split())
    for heading in (
        "Integrity",
        "At a glance",
        "Approvals and refusals",
        "Denials and time-outs",
        "Attention",
        "Rules",
    ):
        assert heading in texts
    assert texts.index("witnessed up to event 6") < texts.index("commands judged")
    for request in facts.requests.values():
        if request.votes:
            assert request.votes[0].person in texts
            assert request.decision is not None
            assert " ".join(request.decision.command.split()) in texts
    assert "never-used" in texts
    assert sum(name == "svg" for name, _ in read.elements) == 5
    ids = {attributes.get("id") for _, attributes in read.elements}
    links = [a["href"] for name, a in read.elements if name == "a"]
    assert {link for link in links if link is not None and link[1:] not in ids} == set()


@pytest.mark.parametrize(
    ("proof", "words", "look", "code"),
    [
        (INTACT, "witnessed up to event 6", "good", 0),
        (Integrity("x", 7, "a"), "The end is not witnessed", "warn", 5),
        (Integrity("x", 7, "a", "Its hash is wrong", 3, kind="tampered"), "Tampered with at event 3", "bad", 1),
        (Integrity("x", 7, "a", "Events are missing", 3, kind="gap"), "Events are missing at event 3", "bad", 5),
    ],
)
def test_integrity_comes_first_and_says_what_it_is(proof: Integrity, words: str, look: str, code: int) -> None:
    made = audit_page(Facts(), proof)
    assert words in made
    assert f'class="verdict {look}"' in made
    assert proof.exit_code == code


def test_an_empty_log_makes_a_page() -> None:
    made = audit_page(Facts(), Integrity("x", 0, "0" * 64))
    assert "No event in the time" in made


@pytest.mark.parametrize(("days", "columns"), [(1, 1), (92, 92), (93, 14), (400, 58), (2_900_000, 92)])
def test_a_long_time_has_no_more_columns_than_fit(sealed: Any, decided: Any, days: int, columns: int) -> None:
    ends = [decided("ls", "allow", at=START), decided("ls", "ask", at=START + (days - 1) * 86_400_000)]
    drawn = _days(Facts().collect(sealed(ends)))
    assert len(drawn) == columns
    assert [sum(counts.values()) for _, _, counts in (drawn[0], drawn[-1])] == ([2, 2] if days == 1 else [1, 1])


def test_json_and_csv_tell_the_same(entries: Any) -> None:
    facts = Facts().collect(entries)
    data = json.loads(json.dumps(as_json_data(facts, INTACT)))
    rows = list(csv.DictReader(io.StringIO(as_csv(facts))))
    assert len(rows) == len(data["requests"]) == data["verdicts"]["ask"]
    for row, request in zip(rows, data["requests"], strict=True):
        assert (row["request"], row["state"]) == (request["request"], request["state"])
    assert data["integrity"]["witnessed_event"] == 6


@pytest.mark.skipif(browser.find_chromium() is None, reason="no Chromium here: apt-get install chromium")
@pytest.mark.parametrize("dark", [False, True])
def test_chromium_shows_it_without_a_request_or_a_complaint(
    sealed: Any, decided: Any, voted: Any, entries: Any, tmp_path: Path, dark: bool
) -> None:
    log = hostile_log(sealed, decided, voted, HOSTILE[0] + HOSTILE[1] + HOSTILE[2]) if dark else entries
    page, picture = tmp_path / "report.html", tmp_path / "report.png"
    page.write_text(audit_page(Facts().collect(log), INTACT), encoding="utf-8")
    seen = browser.screenshot(page, picture, height=1200, dark=dark)
    assert seen == browser.Visit((), ())
    assert picture.stat().st_size > 20_000
