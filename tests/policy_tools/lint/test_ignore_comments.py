"""Comments that hide findings: where they count, what they must say, and that they are never silent."""

from pathlib import Path

import pytest

from humanlayer_agent.policy_tools.lint import Finding, lint_file

RULE = "  - id: r\n    decision: ask\n    when: {program: rm}\n    reason: x\n    suggestion: y\n"


def lint(folder: Path, text: str) -> list[Finding]:
    path = folder / "p.yaml"
    path.write_text(f"version: 1\npolicy: p\n{text}")
    return lint_file(path)


@pytest.mark.parametrize(
    "text",
    [
        "rules:\n  # lint: ignore no-test - it is tried elsewhere\n" + RULE,
        "rules:\n" + RULE.replace("id: r\n", "id: r # lint: ignore no-test - it is tried elsewhere\n"),
        "rules:\n" + RULE + "    # lint: ignore no-test - it is tried elsewhere\n    severity: low\n",
        "rules:\n" + RULE.replace("rm}\n", "rm}  # lint: ignore no-reason, no-test - it is tried elsewhere\n"),
        "# lint: ignore no-test - it is tried elsewhere\n\n# more\nrules:\n" + RULE,
    ],
)
def test_where_a_comment_counts(tmp_path: Path, text: str) -> None:
    found = lint(tmp_path, text)
    assert [(f.check, f.ignored, f.counts) for f in found] == [("no-test", "it is tried elsewhere", False)] * 2


@pytest.mark.parametrize(
    ("comment", "said"),
    [
        ("# lint: ignore no-test", "expected: lint: ignore CHECK - REASON"),
        ("# lint: ignore no-test -", "expected"),
        ("# lint: off", "expected"),
        ("# lint: ignore no-tset - a reason", "there is no check no-tset"),
        ("# lint: ignore vacuous - a reason", "hides nothing"),
    ],
)
def test_a_comment_of_no_use_is_found(tmp_path: Path, comment: str, said: str) -> None:
    found = lint(tmp_path, f"rules:\n  {comment}\n{RULE}")
    assert [f.ignored for f in found] == ["", "", ""]
    (useless,) = [f for f in found if f.check == "unused-ignore"]
    assert said in useless.message
    assert (useless.place.line, useless.place.column, useless.level) == (4, 3, "note")


@pytest.mark.long
def test_it_counts_for_its_own_rule_only(tmp_path: Path) -> None:
    text = "rules:\n  # lint: ignore no-test - elsewhere\n" + RULE + RULE.replace("id: r", "id: s")
    assert {(f.about, f.ignored) for f in lint(tmp_path, text) if f.check == "no-test"} == {
        ("r", "elsewhere"),
        ("s", ""),
    }


def test_a_text_is_no_comment(tmp_path: Path) -> None:
    rule = RULE.replace("reason: x", 'reason: "x # lint: ignore no-test - by its own reason"')
    assert all(not f.ignored for f in lint(tmp_path, "rules:\n" + rule))


def test_lists(tmp_path: Path) -> None:
    tests = "    tests: {match: [rm a], not_match: [ls]}\n"
    lists = "lists:\n  # lint: ignore unused-list - for those that extend this\n  a: [/a]\n  b: [/b]\n"
    found = lint(tmp_path, lists + "rules:\n" + RULE + tests)
    assert [(f.about, f.ignored) for f in found] == [("$a", "for those that extend this"), ("$b", "")]
    everything = lists.replace("lists:\n  # lint", "# lint").replace("this\n", "this\nlists:\n")
    found = lint(tmp_path, everything + "rules:\n" + RULE + tests)
    assert [bool(f.ignored) for f in found] == [True, True]


def test_long_lines_take_no_time(tmp_path: Path) -> None:
    """Counted in steps by the form of the search: no part of it is tried twice on the same blanks."""
    text = f"# lint: ignore no-test {' ' * 100_000}x\n# {' ' * 100_000}lint\nrules:\n{RULE}"
    assert [f.check for f in lint(tmp_path, text)] == ["unused-ignore", "no-test", "no-test"]
