"""The policy as a page for people."""

from pathlib import Path

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.sources import shipped_names
from humanlayer_agent.policy_tools.handbook import Use, as_html, handbook

pytestmark = pytest.mark.usefixtures("compiled")

POLICY = """
version: 1
policy: team
description: What <b>we</b> do.
rules:
  - id: payments
    decision: ask
    severity: high
    reason: "{{ program }} pays | <script>alert(1)</script> [x](javascript:alert(1)) ![y](http://a.example/z)"
    suggestion: Ask *first*.
    when: {program: pay}
    unless: {argv: [pay, "--```", "..."]}
    route: {name: careful, quorum: 2, min_assurance: login}
    grant: never
    tests:
      match: ["pay a.csv", "pay '```' </code>"]
      not_match: ["pay '--```' a.csv"]
  - id: free
    decision: allow
    when: {tool: {name: free}}
"""


@pytest.fixture
def team(tmp_path: Path) -> Director:
    path = tmp_path / "team.yaml"
    path.write_text(POLICY)
    return Director.load(path, project=tmp_path)


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_rule_is_there(name: str) -> None:
    director = Director.load(name, project="/srv/app")
    page = handbook(director)
    for layer in director.layers:
        for rule in layer.policy.rules:
            assert f"\n#### {rule.id}\n" in page
            for example in rule.tests.match:
                assert example in page
    assert page.count("```") % 2 == 0


def test_a_rule_says_everything(team: Director) -> None:
    page = handbook(team, {"payments": Use(12, 5, 4)})
    for said in (
        "applied 12 times, asked 5, of which 4 were approved",
        "asked by the route `careful`, by 2 or more, known by login at least",
        "an approval is never remembered",
        "unless:",
        "| 12 | 5 | 4 |",
        "pay '--```' a.csv",
    ):
        assert said in page
    assert "applied 0 times" in page, "the other rule was not used"
    assert "applied" not in handbook(team)


def test_words_of_a_policy_are_words(team: Director) -> None:
    """Neither on a page of Markdown nor as HTML does anything of them become a link, an image, a script or a cell."""
    page = as_html(handbook(team))
    for made in ("<script>alert", "<b>we", 'javascript:alert(1)"', "<img", "</code> ", "<em>first"):
        assert made not in page
    assert page.count("<td>") == 2 * 3, "the bar in a reason begins no cell"
    assert "Content-Security-Policy" in page
    assert 'id="payments"' in page


def test_examples_end_no_block(team: Director) -> None:
    page = as_html(handbook(team))
    assert "pay '```' &lt;/code&gt;" in page
    assert '<h4 id="free">free</h4>' in page


def test_at_the_command_line(tmp_path: Path, team: Director, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "docs", "--policy", str(tmp_path / "team.yaml"), "--project", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("# What agents may do here\n")
    assert main(["policy", "docs", "--policy", str(tmp_path / "team.yaml"), "--html"]) == 0
    assert capsys.readouterr().out.startswith("<!doctype html>")
