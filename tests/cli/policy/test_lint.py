"""`hla policy lint`, `coverage` and `explain --why-not` as a person and as a program use them."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest
from rich.console import Console

from humanlayer_agent.cli import main
from humanlayer_agent.cli.policy.coverage import print_coverage
from humanlayer_agent.cli.policy.lint import print_table, wrong
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy_tools.coverage import Coverage, coverage
from humanlayer_agent.policy_tools.lint import CHECKS, Finding, Place, Witness
from tests.support import children

pytestmark = pytest.mark.usefixtures("compiled")

RUN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
CLEAN = """\
version: 1
policy: mine
rules:
  - id: deletes
    decision: ask
    reason: "Deletes {{ paths }}."
    suggestion: Leave it.
    when: {effect: delete}
    tests: {match: [rm a], not_match: [ls]}
"""
NOTE = CLEAN.replace("    suggestion: Leave it.\n", "")
WARNING = CLEAN.replace(", not_match: [ls]", "")
ERROR = CLEAN.replace("not_match: [ls]", "not_match: [rm b]")
UNKNOWN = CLEAN.replace("Leave it.", "Look at `notes.md`.")
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(CLEAN)
    return path


# ---- lint -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code", "strict"), [(CLEAN, 0, 0), (NOTE, 0, 1), (UNKNOWN, 0, 1), (WARNING, 1, 1), (ERROR, 1, 1)]
)
def test_exit_codes(mine: Path, text: str, code: int, strict: int) -> None:
    mine.write_text(text)
    assert main(["policy", "lint", str(mine)]) == code
    assert main(["policy", "lint", str(mine), "--strict"]) == strict


def test_what_is_ignored_is_never_wrong() -> None:
    place = Place("p", "p", 1, 1)
    ignored = Finding(place, "r", "x", None, "vacuous", "error", ignored="because")
    assert not wrong([ignored], strict=True)


def test_the_table(mine: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    mine.write_text(ERROR)
    assert main(["policy", "lint", str(mine)]) == 1
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == str(mine)
    assert lines[1].split() == ["9:40", "error", "failing-test", "deletes"]
    assert lines[2].strip() == "`not_match` expects that deletes does not apply; found ask (deletes)"
    assert lines[3].split() == ["$", "rm", "b", "ask", "(deletes)"]
    assert "1 error" in lines


def test_clean(mine: Path, capsys: Capture) -> None:
    assert main(["policy", "lint", str(mine)]) == 0
    assert capsys.readouterr().out == f"clean: {len(CHECKS)} checks found nothing\n"


def test_ignored_findings_are_counted_and_shown_on_demand(mine: Path, capsys: Capture) -> None:
    mine.write_text(ERROR.replace("  - id", "  # lint: ignore failing-test - tomorrow\n  - id"))
    assert main(["policy", "lint", str(mine), "--strict"]) == 0
    assert capsys.readouterr().out == "1 ignored\n"
    assert main(["policy", "lint", str(mine), "--all"]) == 0
    assert "ignored: tomorrow" in capsys.readouterr().out


def test_json(mine: Path, capsys: Capture) -> None:
    mine.write_text(ERROR)
    assert main(["policy", "lint", str(mine), "--format", "json"]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["check"], row["level"], row["unknown"], row["ignored"]) == ("failing-test", "error", False, None)
    assert (row["file"], row["line"], row["column"], row["about"]) == (str(mine), 9, 40, "deletes")
    assert row["witness"] == {"command": "rm b", "verdict": "ask", "rules": ["deletes"]}


def test_sarif(mine: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(mine.parent)
    mine.write_text(ERROR)
    assert main(["policy", "lint", "./mine.yaml", "--format", "sarif"]) == 1
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    location = result["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "mine.yaml", "uriBaseId": "SRCROOT"}
    assert location["region"] == {"startLine": 9, "startColumn": 40}
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert rule["help"]["markdown"].startswith("# failing-test\n")


@pytest.mark.long
def test_several_policies_and_the_ones_in_force(mine: Path, tmp_path: Path, capsys: Capture) -> None:
    mine.write_text(NOTE)
    other = tmp_path / "other.yaml"
    other.write_text(f"version: 1\npolicy: other\nextends: [{mine.name}]\n")
    main(["policy", "lint", str(mine), str(other), "--format", "json"])
    assert len(json.loads(capsys.readouterr().out)) == 1, "what they have in common counts once"
    project = tmp_path / "project"
    (project / ".humanlayer").mkdir(parents=True)
    (project / ".humanlayer" / "policy.yaml").write_text(ERROR)
    assert main(["policy", "lint", "--project", str(project), "--format", "json"]) == 1
    files = {row["file"] for row in json.loads(capsys.readouterr().out)}
    assert str(project / ".humanlayer" / "policy.yaml") in files


@pytest.mark.parametrize(
    ("text", "said"), [("version: 1\n", "the key 'policy' is missing"), ("x: [", "not YAML"), (None, "can't be read")]
)
def test_a_policy_that_can_not_be_loaded(mine: Path, text: str | None, said: str, capsys: Capture) -> None:
    mine.unlink() if text is None else mine.write_text(text)
    assert main(["policy", "lint", str(mine)]) == 2
    assert said in capsys.readouterr().err


def test_a_pattern_that_is_refused_is_shown_without_a_verdict(mine: Path, capsys: Capture) -> None:
    mine.write_text(CLEAN.replace("{effect: delete}", "{program: rm, operands: {any: [{regex: '(a)\\1'}]}}"))
    assert main(["policy", "lint", str(mine)]) == 1
    out = capsys.readouterr().out
    assert "regex-slow" in out
    assert "not judged: the policy can't be loaded" in " ".join(out.split())


def test_more_of_a_check(capsys: Capture) -> None:
    assert main(["policy", "lint", "--explain", "broad-allow"]) == 0
    assert "python -c" in capsys.readouterr().out
    assert main(["policy", "lint", "--explain", "nothing\x1b[2J"]) == 2
    assert "there is no check nothing\\x1b[2J; there are broad-allow" in capsys.readouterr().err


@pytest.mark.parametrize("width", [20, 80, 120])
def test_any_text_in_any_width(width: int) -> None:
    findings = [
        Finding(
            Place("p\x1b[2J.yaml", "p", 1234, 56),
            "r\u202e",
            "m " * 60 + "\x07",
            Witness("a" * 200, "ask"),
            check,
            "error",
        )
        for check in ("suggestion-denied", "vacuous")
    ]
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, file=nowhere, record=True, color_system=None, highlight=False)
        print_table(findings, console=console)
        text = console.export_text()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e]", text)
    longer = [line.split() for line in text.splitlines()[1:-1] if len(line) > width]
    assert [words for words in longer if "a" * 200 not in words and len(words) > 3] == []  # place, level, a word
    assert text.count("a" * 200) == 2


def test_progress_is_for_terminals_only(mine: Path) -> None:
    done = children.run(
        [sys.executable, "-c", RUN, "policy", "lint", str(mine)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    child = children.spawn(
        sys.executable, ["-c", RUN, "policy", "lint", str(mine)], encoding="utf-8", timeout=600,
        env={**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm"}, dimensions=(24, 80),
    )  # fmt: skip
    child.expect_exact("checks found nothing")
    assert f"/{len(CHECKS)} checks" in child.before
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


# ---- coverage ---------------------------------------------------------------------------------------------


@pytest.mark.long
def test_coverage(mine: Path, capsys: Capture) -> None:
    assert main(["policy", "coverage", str(mine)]) == 0
    assert "mine  100.0 %" in capsys.readouterr().out
    mine.write_text(WARNING)
    assert main(["policy", "coverage", str(mine), "--fail-under", "50"]) == 0
    out = capsys.readouterr().out
    assert "mine  50.0 %" in out
    assert "when.effect: no test fails without it" in out
    assert re.search(r'not_match: \["[^"]+"\]', out)


@pytest.mark.long
def test_coverage_can_fail(mine: Path) -> None:
    mine.write_text(WARNING)
    assert main(["policy", "coverage", str(mine), "--fail-under", "50.1"]) == 1


def rows(*commands: Any) -> str:
    return "".join(json.dumps({"id": str(n), "command": c}) + "\n" for n, c in enumerate(commands))


def test_coverage_of_a_log(mine: Path, tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(rows("rm a", "ls", "rm -rf b", "rm $X"))
    command = ["policy", "coverage", str(mine), "--project", str(tmp_path), "--log", str(log), "--format", "json"]
    assert main(command) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["policy"], found["percent"], found["shown"], found["of"]) == ("mine", 100.0, 2, 2)
    (rule,) = found["rules"]
    assert rule["log"] == {"matched": 3, "decided": 3}
    assert (rule["rule"], rule["matched"], rule["decided"]) == ("deletes", 1, 1)
    assert rule["clauses"] == [
        {"where": "when.effect", "clause": "effect: [delete]", "change": "without", "shown": "ls", "proposed": None}
    ]


def test_bad_rows_of_a_log_are_told(mine: Path, tmp_path: Path, capsys: Capture) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(rows("rm a") + "{}\nnonsense\n" + rows(7))
    assert main(["policy", "coverage", str(mine), "--log", str(log)]) == 5
    captured = capsys.readouterr()
    assert "3 rows could not be read" in captured.err
    assert "in log" in captured.out
    assert main(["policy", "coverage", str(mine), "--log", str(tmp_path / "none")]) == 2


@pytest.fixture(scope="module")
def covered(tmp_path_factory: pytest.TempPathFactory) -> Coverage:
    path = tmp_path_factory.mktemp("covered") / "mine.yaml"
    path.write_text(WARNING.replace("id: deletes", "id: " + "d" * 60))
    return coverage(load(path))


@pytest.mark.long
@pytest.mark.parametrize("width", [40, 80, 120])
def test_bars_fit(covered: Coverage, width: int) -> None:
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, file=nowhere, record=True, color_system=None, highlight=False)
        print_coverage([covered], {} if width > 40 else None, console)
        lines = console.export_text().splitlines()
    assert any("░" in line for line in lines[2:7])
    assert max(map(len, lines[:3])) <= width


# ---- why not ----------------------------------------------------------------------------------------------


def why_not(command: str, project: Path, capsys: Capture) -> str:
    assert (
        main(["policy", "explain", command, "--policy", "default", "--project", str(project), "--why-not", "allow"])
        == 0
    )
    return " ".join(capsys.readouterr().out.replace("│", " ").split())


def test_why_not_allow(tmp_path: Path, capsys: Capture) -> None:
    told = why_not("rm -rf build && cat /etc/passwd", tmp_path / "p", capsys)
    assert "allow rm -rf build" in told
    assert "stands in the way: read-outside-project (ask, builtin:default:" in told
    assert "nearest: read-project (allow, builtin:default:" in told
    assert "To be allowed, all of this would be needed:" in told
    assert "1. read-outside-project (ask) would have to leave it alone" in told
    assert "2. an allow would have to cover the effect read /etc/passwd: read-project, if /etc/passwd lay in" in told


def test_why_not_what_is_allowed(tmp_path: Path, capsys: Capture) -> None:
    assert why_not("ls", tmp_path / "p", capsys).endswith("It is allowed: nothing stands in the way.")


def test_why_not_acts_on_no_terminal(tmp_path: Path, capsys: Capture) -> None:
    told = why_not("frobnicate \x1b[2J 'a\u202eb' $X\x07", tmp_path / "p", capsys)
    assert not re.search(r"[\x00-\x1f\u202e]", told)
