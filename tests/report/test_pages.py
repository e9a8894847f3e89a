"""The pages: what they show, and that nothing in a log, a policy or a command can become more than text."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import nodes

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.absences import Absence
from humanlayer_agent.approvals.authority import ApprovalRule, Person
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Approver, Permit
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy_tools.diff import Diff
from humanlayer_agent.policy_tools.replay.figures import Figures
from humanlayer_agent.report import pages
from humanlayer_agent.report.as_data import as_json_data
from humanlayer_agent.report.evidence import collected
from humanlayer_agent.report.facts import Facts, Wanted
from humanlayer_agent.report.integrity import Integrity
from humanlayer_agent.report.pages import audit_page, diff_page, duration, environment, evidence_page, replay_page
from humanlayer_agent.safe_text import visible
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers, ScriptedAsker
from tests.support import browser
from tests.support.browser_session import chromium

from .hostile import HOSTILE, INTACT, hostile_diff, hostile_figures, hostile_log, poisoned

ELEMENTS = frozenset(
    ["html", "head", "meta", "title", "style", "body", "a", "header", "h1", "h2", "h3", "p", "nav", "ul", "li", "main", "section", "footer", "div", "span", "strong", "code", "pre", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd", "figure", "figcaption", "svg", "desc", "g", "rect", "line", "path", "circle", "text", "time", "i", "br"]
)  # fmt: skip


class Reader(HTMLParser):
    """The texts and the elements of a page."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(markup)
        self.close()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def named(name: str) -> Any:
    """A policy, as far as a page shows it."""
    return SimpleNamespace(name=name)


def parts(template: str, **values: Any) -> str:
    """What a few lines of a template come to, with all macros at hand."""
    return environment().from_string('{% import "parts.html.j2" as parts %}' + template).render(**values)


# ---- nothing is more than text ------------------------------------------------------------------------------


def only_text(made: str, said: str) -> None:
    """`said` is on the page, as text and as nothing else."""
    read = Reader(made)
    assert {name for name, _ in read.elements} <= ELEMENTS
    for _, attributes in read.elements:
        assert not [
            name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset", "action")
        ]
        assert (attributes.get("href") or "#").startswith("#")
    assert not {"\u202e", "\u200b", "\u2066", "\u2028", "\ud800", "\x1b", "\x00", "\r"} & set(made)
    assert made.count("<style") == made.count("</style>") == 1
    assert visible(said) in "\n".join(read.texts)


@pytest.mark.parametrize("said", HOSTILE)
def test_nothing_in_a_log_is_more_than_text(sealed: Any, decided: Any, voted: Any, said: str) -> None:
    facts = Facts().collect(hostile_log(sealed, decided, voted, said))
    assert facts.unreadable == 0
    proof = Integrity(said, 9, said, problem=said, details=((said, said),))
    only_text(audit_page(facts, proof, rules=[said, "r"], policy=said), said)


@pytest.mark.parametrize("said", HOSTILE)
def test_no_field_of_a_log_is_more_than_text(entries: Any, said: str) -> None:
    """Every text that the facts of a real log hold, one by one: also digests, verdicts, states and ids."""
    facts = Facts().collect(entries)
    days = facts.days
    facts = poisoned(facts, said)
    facts.days = days
    only_text(audit_page(facts, INTACT, rules=list(facts.rules)), said)


@pytest.mark.parametrize("said", HOSTILE)
def test_nothing_in_a_diff_is_more_than_text(said: str) -> None:
    only_text(diff_page(hostile_diff(said), named(said), named(said), over_tests=False), said)


@pytest.mark.parametrize("said", HOSTILE)
def test_nothing_in_a_replay_is_more_than_text(said: str) -> None:
    only_text(replay_page(hostile_figures(said), named(said), SimpleNamespace(others=[said])), said)  # type: ignore[arg-type]


def test_no_template_marks_anything_as_markup() -> None:
    made = environment()
    for name in made.list_templates(extensions=["j2"]):
        assert made.loader is not None
        tree = made.parse(made.loader.get_source(made, name)[0])
        assert not {each.name for each in tree.find_all(nodes.Filter)} & {"safe", "forceescape", "escape", "e"}, name
        assert not list(tree.find_all((nodes.ScopedEvalContextModifier, nodes.EvalContextModifier))), name


def test_a_page_is_closed_to_the_network() -> None:
    made = audit_page(Facts(), INTACT)
    policy = next(a["content"] for n, a in Reader(made).elements if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "url(" not in made
    assert "@import" not in made


# ---- what is shown ------------------------------------------------------------------------------------------


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
        (Integrity("x", 7, "a"), "The end is not witnessed", "warn", 0),
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


def test_an_empty_diff_and_an_empty_replay_make_pages() -> None:
    assert "Nothing else differs in what was seen." in diff_page(Diff(), named("a"), named("b"), over_tests=True)
    assert "Every row was replayed." in replay_page(Figures(), named("a"), SimpleNamespace(others=[]))  # type: ignore[arg-type]


def test_a_diff_shows_every_change_and_every_link_leads_somewhere() -> None:
    diff = hostile_diff("x")
    read = Reader(diff_page(diff, named("old"), named("new"), over_tests=False))
    ids = {attributes.get("id") for _, attributes in read.elements}
    links = [a["href"] for name, a in read.elements if name == "a" and a["href"]]
    assert {link for link in links if link is not None and link[1:] not in ids} == set()
    assert {f"#{old}-{new}" for old, new, _ in diff.cells()} < set(links)
    texts = " ".join(read.texts)
    assert all(change.command in texts for change in diff.changes.values())


@pytest.mark.parametrize("most", [3, 1_000])
def test_a_table_that_is_cut_says_so(sealed: Any, decided: Any, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(pages, "MAX_ROWS", most)
    made = audit_page(Facts().collect(sealed([decided(f"rm -rf /{n}", "deny") for n in range(5)])), INTACT)
    assert ("3 of 5 are shown, the newest. All: hla audit report --format json" in made) is (most == 3)
    assert ("rm -rf /1" in made) is (most == 1_000)
    assert "rm -rf /4" in made


def test_tables_have_headings_and_a_caption() -> None:
    table = '{% call parts.table("What <x>", ("Name", ">n")) %}<tr><th scope="row">a</th><td>1</td></tr>{% endcall %}'
    read = Reader(parts(table.replace("<x>", "' ~ '<x>")))
    names = [name for name, _ in read.elements]
    assert names.count("caption") == 1
    assert [attributes["scope"] for name, attributes in read.elements if name == "th"] == ["col", "col", "row"]


@pytest.mark.parametrize("ms", [None, 0, -1, 10**18, -(10**18)])
def test_no_moment_is_too_strange(ms: int | None) -> None:
    assert parts("{{ parts.moment(ms) }}", ms=ms).strip()
    assert duration(ms)


def test_a_long_command_is_whole_behind_a_click() -> None:
    made = parts("{{ parts.command(said) }}", said="echo 1\nrm -rf /srv")
    assert made.strip().startswith("<details>")
    assert "rm -rf /srv" in made
    assert parts("{{ parts.command(said) }}", said="ls").strip() == "<code>ls</code>"


# ---- in a browser -------------------------------------------------------------------------------------------


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.skipif(browser.find_chromium() is None, reason="no Chromium here: apt-get install chromium")
def test_accessibility(entries: Any, tmp_path: Path) -> None:
    """No violation of WCAG 2.1 AA or of the best practices that axe-core finds, on a wide and a narrow screen, light and dark."""
    import axe_core_python

    axe = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
    written = {
        "audit": audit_page(Facts().collect(entries), INTACT, rules=["never-used"]),
        "evidence": evidence_page(collected("soc2", Wanted(), entries, Integrity("x", len(entries), "a" * 64))),
        "diff": diff_page(hostile_diff("ls -la"), named("old"), named("new"), over_tests=False),
        "replay": replay_page(hostile_figures("ls -la"), named("default"), SimpleNamespace(others=[])),  # type: ignore[arg-type]
    }
    with chromium() as tab:
        for name, made in written.items():
            page = tmp_path / f"{name}.html"
            page.write_text(made, encoding="utf-8")
            for width, scheme in ((1000, "light"), (360, "dark")):
                tab.resize(width, 800)
                tab.prefers(scheme)
                tab.open(page.as_uri())
                tab.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
                tab.run(axe + "; 0")
                found = tab.run(
                    "axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html).slice(0, 3)]))"
                )
                assert found == [], f"{name} at {width}, {scheme}"
                assert tab.run("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than {width}"


# ---- grants -------------------------------------------------------------------------------------------------


def test_grants_with_uses_unlike_what_was_seen(tmp_path: Path) -> None:
    """From a real Gate: given for one file, used for that and for another, and taken back."""
    store = SQLiteStore(tmp_path / "store.sqlite3")
    gate = Gate(Director.load("default", project="/srv/app"), store, ScriptedAsker([("grant", "run")]), run_id="run-1")
    for name in ("a", "a", "b"):
        assert isinstance(gate.check(Action(f"cat /opt/team/data/{name}", cwd="/srv/app", project="/srv/app")), Permit)
    (grant,) = store.grants.given()
    assert store.grants.revoke(grant.id, "os:1000:carol", "<b>enough</b>")
    facts = Facts().collect(store.events())
    said = " ".join(" ".join(Reader(audit_page(facts, INTACT)).texts).split())
    assert "2 run by a grant, without a question" in said
    assert "reading anything below /opt/team/data" in said
    assert "2 of 50 1 of 2 /opt/team/data/b" in said
    assert "33.33 %" in said, "one of three was asked about"
    assert "by os:1000:carol : “<b>enough</b>”" in said.replace("carol: ", "carol : ")
    (told,) = as_json_data(facts, INTACT)["grants"]
    assert (told["grant"], told["max_uses"], told["revoked_by"]) == (grant.id, 50, "os:1000:carol")
    assert [use["unlike"] for use in told["uses"]] == [[], ["/opt/team/data/b"]]
    assert told["uses"][1]["decision"]["command"] == "cat /opt/team/data/b"


# ---- people who were away -------------------------------------------------------------------------------


def test_who_answered_in_the_place_of_whom(tmp_path: Path) -> None:
    """From a real Gate: tester stands in for bob, who is back afterwards."""
    store, people = SQLiteStore(tmp_path / "store.sqlite3"), ScriptedApprovers()
    bob = Approver("os:1000:bob-at-home", "command-line", "terminal")
    known = replace(
        people.authority,
        people=(*(each for each in people.authority.people if each.id != "bob"), Person("bob", (bob.principal,))),
        routes={"default": ApprovalRule("default", ("bob",))},
    )
    assert isinstance(store.absences.say(bob, "tester", now_ms() + 86_400_000, known, people.signer), Absence)
    gate = Gate(
        Director.load("default", project="/srv/app"), store, ScriptedAsker(["approve"]), run_id="run-1",
        authority=known, signer=people.signer, requester="os:1000:alice",
    )  # fmt: skip
    assert isinstance(gate.check(Action("cat /opt/team/data/a", cwd="/srv/app", project="/srv/app")), Permit)
    store.absences.end("bob", bob.principal)
    facts = Facts().collect(store.events())
    said = " ".join(" ".join(Reader(audit_page(facts, INTACT)).texts).split())
    assert "for bob, who was away" in said
    assert "Who was away" in said
    data = as_json_data(facts, INTACT)
    (told,) = data["away"]
    assert (told["person"], told["to"], told["ended"] is not None) == ("bob", "tester", True)
    assert [vote["instead_of"] for request in data["requests"] for vote in request["votes"]] == ["bob"]
