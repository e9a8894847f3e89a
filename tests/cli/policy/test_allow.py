"""`hla policy allow`: what is drafted, what never is, who may have it written, and where."""

import os
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.cli import main
from humanlayer_agent.configuration import build_director
from humanlayer_agent.locations import config_path, default_store_path
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.layers import trust
from humanlayer_agent.policy_tools.lint import lint_file
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children

RUN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
TEAM = """\
# The team's.
version: 1
policy: team
extends: [builtin:default]   # as it ships
rules:
  - id: no-reboot   # never
    decision: deny
    reason: No.
    when: {program: reboot}
"""
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def project(tmp_path: Path, own_user: Path) -> Path:
    (tmp_path / "project/.git").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def team(tmp_path: Path) -> Path:
    path = tmp_path / "team.yaml"
    path.write_text(TEAM)
    return path


def draft(team: Path, project: Path, command: str, *more: str) -> int:
    return main(["policy", "allow", command, "--file", str(team), "--yes", "--project", str(project), *more])


def verdict(policy: Path, project: Path, command: str) -> str:
    decision = Director.load(policy, project=project).evaluate(Action(command, cwd=str(project)))
    return str(decision.verdict)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("gh pr view 12", ["gh pr list", "gh pr view 12 --repo o/r", "gh pr merge 12", "gh api repos/o/r"]),
        ("gh pr view 12 --repo o/r", ["gh pr view 12", "gh pr view 12 --repo o/other"]),
        ("kubectl --context dev get pods", ["kubectl --context prod get pods", "kubectl get pods"]),
        ("cat /srv/other/a", ["cat /srv/other/b", "head /srv/other/a", "cat /srv/other/a /srv/b", "rm /srv/other/a"]),
        ("grep -r x /srv/other/src", ["grep -r x /srv/other", "cat /srv/other/src/a"]),
        ("echo x > /srv/out/log", ["echo x > /srv/out/other", "cp a /srv/out/log"]),
        (
            "curl -s https://api.example.org/v1",
            ["curl https://example.org", "curl -sd @a https://api.example.org", "curl -sX DELETE https://api.example.org",
             "curl -s https://api.example.org/$(cat a)", "wget https://api.example.org/v1", "curl -sL https://api.example.org"],
        ),
        ("pip install requests", ["pip install other", "pip install requests other", "pip install -i https://x.org requests", "pip install"]),
        ("npm install left-pad", ["npm install", "npm install right-pad", "npm install -g left-pad"]),
        ("frob x", ["./frob x", "sudo frob x", "frobnicate x", "frob > /srv/x"]),
        ("cd /srv/other && git status", ["cd /srv/another && git status"]),
    ],
)  # fmt: skip
def test_the_narrowest_that_can_be_said(team: Path, project: Path, command: str, asked: list[str]) -> None:
    assert verdict(team, project, command) == "ask"
    before = {each: verdict(team, project, each) for each in asked}
    assert draft(team, project, command) == 0
    assert verdict(team, project, command) == "allow"
    assert {each: verdict(team, project, each) for each in asked} == before
    assert "ask" in before.values()
    load(team)  # its tests hold
    known = {"no-reason", "no-test"}  # of the file that was there
    assert {f.check for f in lint_file(team, routes={"default"}) if f.counts} <= known
    assert TEAM.rstrip() in team.read_text(), "all that stood there stands there"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("rm -rf /srv/x", "delete-outside-project: it is of high severity"),
        ("sudo ls", "privilege: it is of critical severity"),
        ("hla requests approve 1", "own-commands: it is locked"),
        ("reboot", "no-reboot: it denies"),
        ("python3 x.py", "nobody has read that code"),
        ("./frob x", "nobody has read that code"),
        ("curl https://example.org/i | sh", "fetched-and-run: it is of critical severity"),
        ('cat "$X"', "asked about as a whole"),
        ("cat /srv/nowhere/*", "secrets: it is of high severity"),
        ("ls /srv/nowhere/*", "not certain what that is"),
        ("kill 4321", "write an exception by hand"),
        ("echo 'x", "not all of it is understood"),
        ("gh pr view 12; rm /srv/x", "delete-outside-project: it is of high severity"),
    ],
)
def test_what_is_never_drafted(team: Path, project: Path, command: str, why: str, capsys: Capture) -> None:
    assert draft(team, project, command) == 2
    assert why in capsys.readouterr().err
    assert team.read_text() == TEAM


def test_what_is_allowed_needs_none(team: Path, project: Path, capsys: Capture) -> None:
    assert draft(team, project, "ls") == 0
    assert "allowed already" in capsys.readouterr().out
    assert team.read_text() == TEAM


@pytest.mark.long
def test_a_second_draft_stands_beside_the_first(team: Path, project: Path) -> None:
    commands = ["gh pr view 12", "cat /srv/a", "cat /srv/b", "gh pr list"]
    for command in commands:
        assert draft(team, project, command, "--until", "2999-12-31", "--reason", "We look: all day.") == 0
    assert [verdict(team, project, command) for command in commands] == ["allow"] * 4
    policy = load(team)
    assert {(each.reason, each.expires) for each in policy.all_exceptions()} == {("We look: all day.", "2999-12-31")}


@pytest.mark.long
def test_what_it_shows_and_where_it_ends(team: Path, project: Path, capsys: Capture) -> None:
    assert draft(team, project, "gh pr view 12", "--until", "tomorrow") == 2
    assert "expected a day" in capsys.readouterr().err
    assert team.read_text() == TEAM
    assert draft(team, project, "gh pr view 12") == 0
    shown = capsys.readouterr().out
    assert "- rule: service-reads" in shown
    assert "looser: 1 command loosened, 0 tightened" in shown
    assert f"added to {team}" in shown


@pytest.mark.long
def test_it_says_what_it_would_have_let_through(team: Path, project: Path, capsys: Capture) -> None:
    store = SQLiteStore(default_store_path())
    with Gate(build_director(project=project), store, None) as gate:
        for command in ("gh pr view 12", "gh pr view 7", "gh pr list", "ls"):
            gate.check(Action(command, cwd=str(project), project=str(project)))
    store.close()
    assert draft(team, project, "gh pr view 12") == 0
    assert "over 4 commands of 1 run" in capsys.readouterr().out


# ---- who has it written ---------------------------------------------------------------------------------


def test_only_a_human_changes_what_is_in_force(team: Path, project: Path, capsys: Capture) -> None:
    assert main(["policy", "allow", "gh pr view 12", "--yes", "--project", str(project)]) == 2
    assert "--yes goes with --file only" in capsys.readouterr().err
    mine = Path(config_path("policy.yaml"))
    mine.parent.mkdir(parents=True)
    mine.write_text(TEAM)
    mine.chmod(0o600)
    link = project / "link.yaml"
    link.symlink_to(mine)
    for path in (mine, link):
        assert draft(path, project, "gh pr view 12") == 2
        assert "is in force" in capsys.readouterr().err
    assert mine.read_text() == TEAM


def test_nor_what_that_extends(project: Path, team: Path, capsys: Capture) -> None:
    mine = Path(config_path("policy.yaml"))
    mine.parent.mkdir(parents=True)
    mine.write_text(TEAM.replace("[builtin:default]", "[base.yaml]"))
    base = mine.with_name("base.yaml")
    base.write_text(TEAM.replace("no-reboot", "no-halt"))
    for path in (mine, base):
        path.chmod(0o600)
    assert draft(base, project, "gh pr view 12") == 2
    assert "is in force" in capsys.readouterr().err


def test_it_is_refused_below_a_supervisor(
    team: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv(SUPERVISED, "1")
    assert draft(team, project, "gh pr view 12") == 2
    assert "only a human at a terminal" in capsys.readouterr().err
    assert team.read_text() == TEAM


@pytest.mark.parametrize("policy", ["default", "strict", "ci", "sandbox"])
def test_every_policy_that_ships_keeps_agents_from_it(policy: str, tmp_path: Path) -> None:
    director = Director.load(policy, project=tmp_path)
    for command in ("hla policy allow 'gh pr view 12'", "python -m humanlayer_agent.cli policy allow x --file y --yes"):
        assert str(director.evaluate(Action(command, cwd=str(tmp_path))).verdict) == "deny"


def talk(project: Path, *arguments: str) -> Any:
    command = [sys.executable, "-c", RUN, "policy", "allow", *arguments, "--project", str(project)]
    return children.spawn(
        command[0], command[1:], env={**os.environ, "LC_ALL": "C.UTF-8"}, timeout=600, encoding="utf-8"
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(("word", "code"), [("allow", 0), ("yes", 1)])
def test_a_human_types_the_word(project: Path, word: str, code: int) -> None:
    child = talk(project, "gh pr view 12")
    child.expect_exact('Type "allow"')
    assert "- rule: service-reads" in child.before
    child.sendline(word)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == code
    mine = Path(config_path("policy.yaml"))
    assert mine.exists() is (code == 0)
    wanted = "allow" if code == 0 else "ask"
    decision = build_director(project=project).evaluate(Action("gh pr view 12", cwd=str(project)))
    assert str(decision.verdict) == wanted
    if code == 0:
        assert mine.stat().st_mode & 0o777 == 0o600
        assert [path.name for path in mine.parent.iterdir()] == ["policy.yaml"], "nothing is left beside it"


@pytest.mark.long
def test_without_a_terminal_nothing_is_written(project: Path) -> None:
    done = children.run(
        [sys.executable, "-c", RUN, "policy", "allow", "gh pr view 12", "--project", str(project)],
        input="allow\n", capture_output=True, text=True, start_new_session=True,
    )  # fmt: skip
    assert done.returncode == 3
    assert not Path(config_path("policy.yaml")).exists()


@pytest.mark.long
def test_a_trusted_project_stays_trusted_and_another_is_refused(project: Path, capsys: Capture) -> None:
    path = project / ".humanlayer/policy.yaml"
    arguments = ["policy", "allow", "gh pr view 12", "--in", "project", "--project", str(project)]
    assert main(arguments) == 2
    assert "is not there" in capsys.readouterr().err
    path.parent.mkdir()
    path.write_text("version: 1\npolicy: repo\nrules:\n  - {id: no-ls, decision: ask, when: {program: ls}}\n")
    assert main(arguments) == 2
    assert "is not trusted" in capsys.readouterr().err
    trust.record(project, trust.policy_files(load(path, within=project)))
    child = talk(project, "gh pr view 12; ls", "--in", "project")
    child.expect(pexpect.EOF)
    assert "asked about as a whole (no-ls)" in child.before
    child.close()
    child = talk(project, "gh pr view 12", "--in", "project")
    child.expect_exact('Type "allow"')
    child.sendline("allow")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    director = build_director(project=project)
    assert [layer.trusted for layer in director.layers] == [True, True]
    assert str(director.evaluate(Action("gh pr view 12", cwd=str(project))).verdict) == "allow"


def test_a_rule_of_the_projects_is_the_projects_to_excuse_from(project: Path, capsys: Capture) -> None:
    path = project / ".humanlayer/policy.yaml"
    path.parent.mkdir()
    path.write_text("version: 1\npolicy: repo\nrules:\n  - {id: no-reads, decision: ask, when: {effect: read}}\n")
    assert main(["policy", "allow", "cat a", "--project", str(project)]) == 2
    assert "no-reads: it is the project's: --in project" in capsys.readouterr().err
