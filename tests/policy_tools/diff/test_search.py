"""The diff that searches: a loosening of each kind of clause is found, and an edit that changes nothing is none."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from humanlayer_agent.action import Action
from humanlayer_agent.cli import main
from humanlayer_agent.policy.conditions.circumstances import given
from humanlayer_agent.policy.conditions.compiler import Compiler
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.language.examples import PROJECT, director_for
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Match, Policy, Written, match_from
from humanlayer_agent.policy_tools.diff import Diff, over_tests
from humanlayer_agent.policy_tools.diff.acceptance import Accepted, read_accepted
from humanlayer_agent.policy_tools.diff.search import NOTHING, Search, judged
from humanlayer_agent.policy_tools.lint import boundary_values, sample_commands
from humanlayer_agent.report.pages import diff_page

LOOSENINGS = yaml.safe_load(Path(__file__).with_name("loosenings.yaml").read_text())
NEUTRAL = yaml.safe_load(Path(__file__).with_name("neutral.yaml").read_text())
Write = Callable[..., Policy]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """write(part, name) -> the policy whose one rule (or which as a whole) is `part`."""

    def policy(part: dict[str, Any], name: str = "p") -> Policy:
        whole = part.get("policy") or {"rules": [{"id": "mine", "decision": "ask", **part}]}
        body = {"version": 1, "policy": "p", "defaults": {"unmatched": "allow"}, **whole}
        path = tmp_path / f"{name}.yaml"
        path.write_text(yaml.safe_dump(body))
        return load(path, tested=False)

    return policy


def searched(old: Policy, new: Policy) -> Search:
    search = Search(old, new)
    search.run()
    assert search.complete
    return search


@pytest.mark.sample(24)
@pytest.mark.parametrize("row", LOOSENINGS, ids=lambda row: row["clause"])
def test_a_loosening_is_found(write: Write, row: dict[str, Any]) -> None:
    old, new = write(row["before"], "old"), write(row["after"], "new")
    search = searched(old, new)
    first = search.shown()[0]
    assert first.looser
    assert first.change in search.changes
    assert "{" not in first.change.text.replace("${", "")
    # What was found is so, by Directors that know nothing of the search.
    step, confined = first.row.step, first.row.confined
    if step.type == "bash" and not confined:
        action = Action(step.command, cwd=PROJECT, agent=step.agent)
        around = given(first.circumstances)
        directors = [director_for(p, observe=p.observe) for p in (old, new)]
        for director in directors:
            director.around = around
        before, after = (director.evaluate(action) for director in directors)
        assert (after.verdict if after.enforced else Verdict.ALLOW) < before.verdict


@pytest.mark.sample(12)
@pytest.mark.parametrize("row", NEUTRAL, ids=lambda row: row["edit"])
def test_an_edit_that_changes_nothing_is_no_finding(write: Write, row: dict[str, Any]) -> None:
    search = searched(write(row["before"], "old"), write(row["after"], "new"))
    assert [(each.change.name, each.row.step.command) for each in search.shown()] == []
    assert search.silent() == search.changes


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        ({"defaults": {"keep": {"files": 10}}}, {"defaults": {"keep": {"files": 90_000}}}, "the policy defaults.keep"),
        ({"exceptions": "2998-12-31"}, {"exceptions": "2999-12-31"}, "rule mine exception.expires"),
        ({"rules": "2998-12-31"}, {"rules": "2999-12-31"}, "rule mine override.expires"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_command_shows_is_told(
    write: Write, before: dict[str, Any], after: dict[str, Any], name: str, tmp_path: Path
) -> None:
    def made(said: dict[str, Any], file: str) -> Policy:
        rule: dict[str, Any] = {"id": "mine", "decision": "ask", "when": {"effect": "delete"}}
        whole: dict[str, Any] = {"rules": [rule], **said}
        if "exceptions" in said:
            excused = {"rule": "mine", "when": {"paths": {"all_within": "/srv/**"}}, "tests": {"match": ["rm /srv/x"]}}
            whole["exceptions"] = [{**excused, "reason": "x", "expires": said["exceptions"]}]
        if "rules" in said:
            write({"policy": {"rules": [{**rule, "id": "theirs"}]}}, "base")
            rule["override"] = {"rule": "theirs", "reason": "x", "expires": said["rules"]}
            whole |= {"extends": ["base.yaml"], "rules": [rule]}
        return write({"policy": whole}, file)

    search = searched(made(before, "old"), made(after, "new"))
    assert [change.name for change in search.silent()] == [name]


def test_there_are_forty_of_each() -> None:
    assert len(LOOSENINGS) >= 40
    assert len(NEUTRAL) >= 40


# ---- each kind of clause ----------------------------------------------------------------------------------


def clauses() -> Iterator[str]:
    """Each clause of a condition as a policy file writes it, and each key of those that have keys."""
    for field in dataclasses.fields(Match):
        kind = field.type if isinstance(field.type, type) else getattr(field.type, "__args__", (None,))[0]
        name = {"negated": "not"}.get(field.name, field.name)
        if isinstance(kind, type) and issubclass(kind, Written) and kind is not Match:
            key_of = kind.__pydantic_config__["alias_generator"]
            yield from (f"{name}.{key_of(each.name)}" for each in dataclasses.fields(kind))  # type: ignore[arg-type]
        else:
            yield name


def test_each_kind_of_clause_has_a_loosening() -> None:
    seeded = {row["clause"] for row in LOOSENINGS}
    missing = [each for each in clauses() if not any(s == each or s.startswith(f"{each}.") for s in seeded)]
    assert not missing, f"tests/policy_tools/diff/loosenings.yaml has no loosening of {missing}"


def test_each_kind_of_clause_has_boundary_values() -> None:
    kinds = {field.name for field in dataclasses.fields(Match)}
    assert kinds == set(boundary_values.VALUES), "register what a clause brings in boundary_values.VALUES"


@pytest.mark.parametrize("row", LOOSENINGS, ids=lambda row: row["clause"])
def test_what_a_clause_brings_is_something(write: Write, row: dict[str, Any]) -> None:
    rules = write(row["before"]).rules
    compiler = Compiler({"temp": ()}, {"PROJECT": PROJECT, "HOME": "/nowhere/home"})
    named = boundary_values.named_by(boundary_values.conditions_of(rules[0]), compiler, beside=True)
    assert named != boundary_values.Named()
    assert any(True for _ in sample_commands.around(named))


def test_a_condition_is_read_as_the_loader_reads_it(write: Write) -> None:
    rule = write({"when": {"all": [{"program": "rm"}, {"not": {"operands": {"any": ["a*"]}}}]}}).rules[0]
    assert match_from(rule.written["when"]) == rule.when


# ---- what is said of it -----------------------------------------------------------------------------------


DELETES = {"when": {"effect": "delete", "paths": {"none_within": ["${PROJECT}/**", "/tmp/**"]}}}
MORE = {"when": {"effect": "delete", "paths": {"none_within": ["${PROJECT}/**", "/tmp/**", "/srv/a/**"]}}}
MOST = {"when": {"effect": "delete", "paths": {"none_within": ["${PROJECT}/**", "/tmp/**", "/srv/a/**", "/etc/**"]}}}


def test_each_change_has_its_own_shortest_command(write: Write) -> None:
    old = write({"when": {"program": ["rm", "shred"], "paths": {"any_within": "/srv/**"}}}, "old")
    new = write({"when": {"program": "rm", "paths": {"any_within": "/srv/a/**"}}}, "new")
    shown = searched(old, new).shown()
    assert [(each.change.name, each.change.text, each.row.step.command) for each in shown] == [
        ("rule mine when.program.in", "no longer shred", "shred /srv"),
        ("rule mine when.paths.any_within", 'no longer "/srv/**"; now also "/srv/a/**"', "rm /srv"),
    ]


def test_loosened_ones_come_first(write: Write) -> None:
    old = write({"when": {"effect": "delete", "paths": {"any_within": "/srv/**"}}}, "old")
    new = write({"when": {"effect": "delete", "paths": {"any_within": "/opt/**"}}}, "new")
    found = [(each.looser, each.row.step.command.replace("/a", "")) for each in searched(old, new).shown()]
    assert found == [(True, "rm /srv"), (False, "rm /opt")]


def test_changes_that_only_together_loosen_are_found(write: Write) -> None:
    rules = [{"id": name, "decision": "ask", "when": {"program": "rm", "resolved": True}} for name in ("one", "two")]
    narrow = [{**rule, "when": {"program": "rm", "resolved": False}} for rule in rules]
    (first, *_) = searched(
        write({"policy": {"rules": rules}}, "old"), write({"policy": {"rules": narrow}}, "new")
    ).shown()
    assert first.looser
    assert first.row.step.command == "rm"
    assert first.change.name == "only together"
    assert first.change.text.startswith("rule one when.resolved: true becomes false; rule two when.resolved: ")


def test_ctrl_c_keeps_what_was_found(write: Write) -> None:
    search = Search(write(DELETES, "old"), write(MORE, "new"))

    def interrupt(done: int, of: int, tried: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    search.run(interrupt)
    assert not search.complete
    assert [each.looser for each in search.shown()] == [True]


def test_rows_of_the_log_are_tried(write: Write) -> None:
    """One on which the policies differ where it was proposed, and nowhere else, is told without a clause of its own."""
    old, new = write(DELETES, "old"), write({**DELETES, "severity": "low"}, "new")
    directors = director_for(old), director_for(write({"when": {"program": "frob"}}, "other"))
    rows = [judged(directors, command, "the log") for command in ("ls", "rm /srv/x")]
    search = Search(old, new, log=iter(rows))
    search.run()
    (shown,) = search.shown()
    assert (shown.looser, shown.row.step.command, shown.change.name) == (True, "rm /srv/x", "only together")
    assert shown.change.text == "rule mine severity: medium becomes low"


def test_an_acceptance_is_of_the_clause_as_it_was_read(write: Write, tmp_path: Path) -> None:
    """What the same clause lets through besides is not accepted with it, though the same command shows it."""
    old, new, newer = write(DELETES, "old"), write(MORE, "new"), write(MOST, "newer")
    first = over_tests(old, new, Accepted())
    first.look(Search(old, new))
    (found,) = first.found
    path = tmp_path / "accepted.yaml"
    path.write_text(f"accepted: [{{digest: {found.digest}, command: {found.command}, reason: agreed}}]")
    for policy, headline in ((new, "no difference found"), (newer, "looser")):
        diff = over_tests(old, policy, read_accepted(path))
        diff.look(Search(old, policy))
        assert (diff.headline, diff.loosened_clauses) == (headline, int(headline == "looser"))


def test_a_search_without_a_change_tries_nothing(write: Write) -> None:
    diff = Diff()
    diff.look(Search(write(DELETES, "old"), write({**DELETES, "reason": "Another."}, "new")))
    assert diff.search is not None
    assert (diff.headline, diff.search.tried) == ("equivalent", 0)


def test_what_only_the_search_shows_is_no_good_news(write: Write) -> None:
    """Neither in the first line, nor on the page; and what nothing was found for is not called equivalent."""
    old, new = write(DELETES, "old"), write(MORE, "new")
    diff = Diff()
    diff.look(Search(old, new))
    page = diff_page(diff, old, new, over_tests=True)
    assert diff.headline == "looser"
    assert 'class="verdict bad"' in page
    silent = Diff()
    keep = {
        "policy": {
            "defaults": {"unmatched": "allow", "keep": {"files": 9}},
            "rules": [{"id": "mine", "decision": "ask", **DELETES}],
        }
    }
    silent.look(Search(old, write(keep, "kept")))
    page = diff_page(silent, old, new, over_tests=True)
    assert silent.headline == "no difference found"
    assert 'class="verdict warn"' in page
    assert "the policy defaults.keep" in page


def test_the_file_that_a_policy_stands_in_is_no_difference(tmp_path: Path) -> None:
    """Each policy protects its own file, in its rules and in its confinements."""
    text = "version: 1\npolicy: p\nextends: [builtin:default]\n"
    policies = []
    for name in ("one", "two"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        policies.append(load(path))
    diff = over_tests(*policies, Accepted(), confined=True)
    assert (diff.headline, diff.rehoused) == ("no difference found", {})
    search = searched(*policies)
    for name in ("one", "two"):
        row = search._judged(f"rm {tmp_path}/{name}.yaml", "", NOTHING, False)
        assert [str(decision.verdict) for decision in row.decisions] == ["deny", "deny"]


def test_routes_are_told_in_words(write: Write) -> None:
    row = {"when": {"effect": "delete"}, "tests": {"match": ["rm a"]}}
    old = write({**row, "route": {"name": "careful", "quorum": 2}}, "old")
    assert list(over_tests(old, write(row, "new"), Accepted()).eased) == [
        "route careful with quorum 2, min assurance os becomes default"
    ]


# ---- the command line -------------------------------------------------------------------------------------


def test_a_person_reads_what_changed(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(DELETES, "old"), write(MORE, "new")
    paths = [str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")]
    assert main(["policy", "diff", *paths]) == 1
    said = capsys.readouterr().out
    assert 'rule mine when.paths.none_within: now also "/srv/a/**"\n' in said
    assert "mine → no rule  rm /srv/a\n" in said
    assert "{" not in said
    assert main(["policy", "diff", *paths, "--no-search"]) == 5, "there are no examples in them"


def test_a_program_reads_what_changed(write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(DELETES, "old"), write({**MORE, "severity": "low"}, "new")
    paths = [str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")]
    assert main(["policy", "diff", *paths, "--format", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    clause = {"rule": "mine", "clause": "when.paths.none_within", "change": 'now also "/srv/a/**"'}
    assert (data["headline"], data["loosened"], data["loosened_clauses"]) == ("looser", 0, 1)
    assert [change["shows"] for change in data["changes"]] == [clause]
    assert data["searched"]["complete"] is True
    assert data["searched"]["changed"] == [
        {"rule": "mine", "clause": "severity", "change": "medium becomes low", "found": False},
        {**clause, "found": True},
    ]


@pytest.mark.parametrize("format", ["html", "junit", "sarif", "accept"])
def test_every_format_has_what_was_found(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], format: str
) -> None:
    write(DELETES, "old"), write(MORE, "new")
    paths = [str(tmp_path / "old.yaml"), str(tmp_path / "new.yaml")]
    assert main(["policy", "diff", *paths, "--format", format]) == 1
    said = capsys.readouterr().out
    assert "rm /srv/a" in said
    assert "when.paths.none_within" in said
