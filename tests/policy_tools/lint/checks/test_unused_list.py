"""unused-list: named nowhere, not even by a file that extends."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.policy_tools.lint import Finding, lint_files

Lint = Callable[..., list[Finding]]


RULE = "  - {id: r, decision: ask, when: {effect: read, paths: {any_within: [$used]}}, tests: {match: [cat $unused]}}\n"


@pytest.mark.parametrize(
    ("entries", "command"),
    [
        ("/srv/x/**", "cat /srv/x/a"),
        ("'**/.env'", "cat .env"),
        ("a.example", "curl https://a.example"),
        ("HOME", "printenv HOME"),
        ("~/x", "cat ~/x"),
    ],
)
def test_unused(lint_rules: Lint, entries: str, command: str) -> None:
    lists = f"{{used: [/srv/a], unused: [{entries}]}}"
    (found,) = lint_rules(RULE, "unused-list", lists=lists)
    assert (found.about, found.level, found.place.path) == ("$unused", "note", ("lists", "unused"))
    assert found.witness is not None
    assert found.witness.command == command


def test_used_through_another_list(lint_rules: Lint) -> None:
    assert lint_rules(RULE, "unused-list", lists="{used: [$inner], inner: [/srv/a]}") == []


def test_files_that_extend(tmp_path: Path) -> None:
    base, top = tmp_path / "base.yaml", tmp_path / "top.yaml"
    base.write_text(f"version: 1\npolicy: base\nlists: {{used: [/a], other: [/b], third: [/c]}}\nrules:\n{RULE}")
    rule = RULE.replace("id: r", "id: s").replace("$used", "$other")
    top.write_text(f"version: 1\npolicy: top\nextends: [base.yaml]\nlists: {{used: {{add: [/d]}}}}\nrules:\n{rule}")

    def unused(*paths: Path) -> list[str]:
        return [f.about for f in lint_files(paths) if f.check == "unused-list"]

    assert unused(base) == ["$other", "$third"]
    assert unused(top) == ["$third"]
    assert unused(base, top) == ["$third"], "linted together, what one of them uses is used"
