"""`hla policy` as a person and as a program use it."""

import json
import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pexpect
import pytest
from rich.console import Console

from humanlayer_agent.action import Action
from humanlayer_agent.agents.mini import SupervisedLocalEnvironment
from humanlayer_agent.agents.presenter import Presenter
from humanlayer_agent.cli import main
from humanlayer_agent.cli.policy.explain import print_explanation, underlined
from humanlayer_agent.configuration import build_director
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import explain
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.layers import find_layers, trust
from humanlayer_agent.processes.execution import SUPERVISED
from tests.support import children

RUN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
MINE = """\
version: 1
policy: mine
extends: [builtin:default]
rules:
  - id: caches
    override: {rule: delete-outside-project, reason: they are big, expires: 2999-01-01}
    decision: ask
    locked: true
    reason: Deletes {{ paths }}.
    when: {effect: delete, paths: {none_within: ["${PROJECT}/**"]}}
    tests: {match: [rm -rf /srv/x], not_match: [rm -rf build, rm -rf /srv/y]}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".humanlayer").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE)
    return path


def policy_of(project: Path, rules: str) -> Path:
    path = project / ".humanlayer" / "policy.yaml"
    path.write_text(f"version: 1\npolicy: repo\nrules:\n{rules}")
    return path


ALLOW = "  - {id: free, decision: allow, when: {effect: read, paths: {all_within: [/srv/**]}}}\n"

# ---- show -----------------------------------------------------------------------------------------------


def test_show(mine: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "--policy", str(mine), "--project", str(project)]) == 0
    shown = capsys.readouterr().out.replace("\n", " ")
    assert "mine  (named by --policy: the whole policy, no layer is read)" in shown
    assert "builtin:guard" in shown
    for text in ("ask   caches", "overridden by caches until 2999-01-01: they are big", "locked: can't be overridden"):
        assert text in shown


def test_show_layers(project: Path, own_user: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy_of(project, ALLOW)
    assert main(["policy", "show", "--project", str(project)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "default (shipped: stands in where machine and user have none)" in shown
    assert "repo (the project's, not trusted: may only ask and deny (hla policy trust))" in shown
    assert "does not count: the project's policy is not trusted" in shown


def test_show_for_programs(project: Path, mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "show", "--policy", str(mine), "--project", str(project), "--format", "json"]) == 0
    (layer,) = json.loads(capsys.readouterr().out)["layers"]
    rules = {rule["id"]: rule for rule in layer["rules"]}
    assert rules["caches"]["origin"] == f"{mine}:5"
    assert rules["caches"]["in_force"]
    assert not rules["delete-outside-project"]["in_force"]
    assert rules["delete-outside-project"]["origin"].startswith("builtin:default:")


# ---- explain --------------------------------------------------------------------------------------------


def test_explain(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "cat a.py && rm -rf /srv/x"
    assert main(["policy", "explain", command, "--project", str(project)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [command, "                   ^^^^^^"]
    text = " ".join(" ".join(lines).split())
    assert "ask (delete-outside-project)" in text
    assert "instead: Delete named files inside the project" in text
    assert "allow cat a.py" in text
    assert "ask delete /srv/x" in text
    assert "not delete-project (allow): paths: {all_within:" in text
    assert "builtin:default:" in text


@pytest.mark.parametrize("width", [20, 33, 80, 200])
def test_explain_in_narrow_terminals_and_without_colour(project: Path, width: int) -> None:
    command = "echo 'a long word that needs to be broken somewhere' && find /srv -name '*.py' -exec rm {} + ; $X y"
    director = Director.load("default", project=project)
    explanation = explain(director, Action(command, cwd=str(project)))
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, file=nowhere, record=True, color_system=None, highlight=False)
        print_explanation(explanation, command, "allow", console)
        text = console.export_text()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= width
    assert "delete-project" in text.replace("\n", "").replace("│", "").replace(" ", "")


@pytest.mark.parametrize(
    ("command", "spans", "width", "expected"),
    [
        ("rm x", [(3, 4)], 80, ["rm x", "   ^"]),
        ("ab\ncd", [(1, 4)], 80, ["ab", " ^", "cd", "^"]),
        ("abcdef", [(2, 5)], 4, ["abcd", "  ^^", "ef", "^"]),
        ("漢x", [(1, 2)], 80, ["漢x", "  ^"]),
        ("漢x", [(0, 1)], 80, ["漢x", "^^"]),
        ("a\x1b[2Jb", [(1, 2)], 80, ["a\\x1b[2Jb", " ^^^^"]),
        ("", [], 80, [""]),
    ],
)
def test_the_deciding_part_is_underlined(
    command: str, spans: list[tuple[int, int]], width: int, expected: list[str]
) -> None:
    assert list(underlined(command, spans, width)) == expected


# ---- test -----------------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_failure_is_shown(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine.write_text(MINE.replace("match: [rm -rf /srv/x]", "match: [ls, rm -rf /srv/x, pwd]"))
    assert main(["policy", "test", str(mine)]) == 1
    shown = capsys.readouterr().out
    for command, expected in (
        ("ls", "caches applies"),
        ("pwd", "caches applies"),
        ("rm -rf /srv/y", "caches does not apply"),
    ):
        assert f": {command}\n    expected {expected}, found " in shown
    assert re.search(r"of [0-9]{3} examples passed", shown.splitlines()[-1])


@pytest.mark.long
def test_junit(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", str(mine), "strict", "--format", "junit"]) == 1
    top = ElementTree.fromstring(capsys.readouterr().out)
    first, second = top.findall("testsuite")
    assert (first.get("name"), first.get("failures"), second.get("failures")) == ("mine", "1", "0")
    assert len(first.findall("testcase")) == int(first.get("tests", "0"))
    (failure,) = first.findall("testcase/failure")
    assert "caches does not apply" in failure.get("message", "")


@pytest.mark.long
def test_results_for_programs_and_the_layers_by_default(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "test", "--project", str(project), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["policy"] for row in rows} == {"default"}
    assert all(row["passed"] for row in rows)


# ---- trust ----------------------------------------------------------------------------------------------


def talk(project: Path, ahead: str = "") -> "pexpect.spawn[str]":
    """`hla policy trust` at a terminal, at which `ahead` was typed before it started."""
    argv = [sys.executable, "-c", RUN, "policy", "trust", "--project", str(project)]
    if ahead:
        argv = ["bash", "--norc", "-c", 'echo ready; read -rn 1 < "$0"; exec "$@"', str(project / "typed"), *argv]
        os.mkfifo(project / "typed")
    child = children.spawn(
        argv[0], argv[1:], encoding="utf-8", timeout=600, env={**os.environ, "LC_ALL": "C.UTF-8"}, dimensions=(50, 200)
    )
    if ahead:
        child.expect_exact("ready")
        child.send(ahead)
        child.expect_exact(ahead.rstrip("\n"))  # the terminal has it: it shows what is typed
        (project / "typed").write_text("!")
    return child


def trusted(project: Path) -> bool:
    return find_layers(project)[-1].trusted


def test_trust_shows_the_file_and_asks(project: Path) -> None:
    path = policy_of(project, ALLOW + "# \u202e hidden\n")
    child = talk(project)
    child.expect_exact(f"== {path}")
    child.expect_exact("id: free, decision: allow")
    child.expect_exact("# \\u{202e} hidden")
    child.expect_exact("It allows: free.")
    child.expect_exact('Type "trust"')
    child.sendline("trust")
    child.expect_exact("trusted:")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert trusted(project)


@pytest.mark.parametrize("answer", ["", "y", "yes", "TRUST", "trust me"])
def test_any_other_answer_is_no(project: Path, answer: str) -> None:
    policy_of(project, ALLOW)
    child = talk(project)
    child.expect_exact('Type "trust"')
    child.sendline(answer)
    child.expect_exact("not trusted")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1
    assert not trusted(project)


@pytest.mark.long
def test_nothing_typed_ahead_counts(project: Path) -> None:
    policy_of(project, ALLOW)
    child = talk(project, ahead="trust\n")
    child.expect_exact('Type "trust"')
    child.sendline("no")
    child.expect_exact("not trusted")
    assert not trusted(project)


def test_what_is_typed_as_soon_as_the_question_is_there_counts(project: Path) -> None:
    policy_of(project, ALLOW)
    child = talk(project)
    child.delaybeforesend = None
    child.expect_exact("anything else not to: ")
    child.sendline("trust")
    child.expect_exact("trusted:")
    child.expect(pexpect.EOF)
    assert trusted(project)


def test_trust_needs_a_terminal(project: Path) -> None:
    policy_of(project, ALLOW)
    done = children.run(
        [sys.executable, "-c", RUN, "policy", "trust", "--project", str(project)],
        input="trust\n", capture_output=True, text=True, start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert "there is no terminal" in done.stderr
    assert not trusted(project)


def test_trust_is_refused_below_a_supervisor(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    policy_of(project, ALLOW)
    monkeypatch.setenv(SUPERVISED, "1")
    assert main(["policy", "trust", "--project", str(project)]) == 2
    assert "only a human at a terminal" in capsys.readouterr().err


def test_trust_withdrawn(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trust.record(project, trust.policy_files(load(policy_of(project, ALLOW), within=project)))
    assert trusted(project)
    assert main(["policy", "trust", "--project", str(project)]) == 0
    assert "is trusted already" in capsys.readouterr().out
    assert main(["policy", "trust", "--withdraw", "--project", str(project)]) == 0
    assert not trusted(project)


def test_without_a_policy_there_is_nothing_to_trust(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "trust", "--project", str(project)]) == 2
    assert "there is nothing to trust in" in capsys.readouterr().err


# ---- layers and observation in the other commands -------------------------------------------------------


def test_check_reads_the_layers(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy_of(project, "  - {id: no-ls, decision: deny, when: {program: ls}}\n")
    assert main(["check", "--project", str(project), "ls"]) == 1
    assert main(["check", "--policy", "default", "--project", str(project), "ls"]) == 0
    assert capsys.readouterr().out.startswith("deny  (no-ls)")


def test_check_says_that_it_only_observes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--observe", "--project", str(project), "rm -rf /srv/x"]) == 4
    assert capsys.readouterr().out.splitlines()[0].endswith("observed, not enforced")
    main(["check", "--observe", "--project", str(project), "--format", "json", "ls"])
    assert json.loads(capsys.readouterr().out)["enforced"] is False


def test_a_run_that_only_observes_runs_everything_and_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    supervision = {"observe": True, "project": project}
    environment = SupervisedLocalEnvironment(None, None, supervision=supervision, timeout=600)
    output = environment.execute({"command": "ls -dR /var/lib"})
    assert (output["returncode"], output["output"]) == (0, "/var/lib\n")
    (record,) = environment.supervisor.records
    assert (record.verdict, record.executed, record.rule) == ("ask", True, "list-outside-project")
    with open(os.devnull, "w") as nowhere:
        console = Console(record=True, file=nowhere)
        Presenter(console).opening(environment.supervisor)
        assert "OBSERVED, NOT ENFORCED" in console.export_text()


def test_the_default_director_has_layers(project: Path) -> None:
    assert [layer.authority for layer in build_director(project=project).layers] == ["builtin"]
