"""A project's channels file: ignored until a human has read exactly its text, and what `--channels` does."""

import os
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.agents.supervision import open_gate, supervision_settings
from humanlayer_agent.channels import settings as profiles
from humanlayer_agent.cli import main
from humanlayer_agent.configuration import build_authority
from tests.support import children

RUN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
TEAM = """\
version: 1
people:
  mallory: {os_user: mallory}   # \u202e a judge of its own
channels: {terminal: {type: terminal}}
routes:
  theirs: {approvers: [mallory], steps: [{to: terminal}]}
"""
ASK = "version: 1\npolicy: repo\nrules:\n  - {id: no-ls, decision: ask, when: {program: ls}}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project/.humanlayer").mkdir(parents=True)
    return tmp_path / "project"


@pytest.fixture
def channels(project: Path) -> Path:
    path = project / ".humanlayer/channels.yaml"
    path.write_text(TEAM)
    return path


def talk(project: Path) -> Any:
    command = [sys.executable, "-c", RUN, "policy", "trust", "--project", str(project)]
    environ = {**os.environ, "LC_ALL": "C.UTF-8"}
    return children.spawn(command[0], command[1:], env=environ, timeout=600, encoding="utf-8")


def trusting(project: Path) -> str:
    """Type the word; what was shown before."""
    child = talk(project)
    child.expect_exact('Type "trust"')
    shown = child.before
    child.sendline("trust")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    return str(shown)


def test_it_is_shown_in_full_and_then_counts(project: Path, channels: Path) -> None:
    assert build_authority(project=project) is None
    shown = trusting(project)
    assert "   3    mallory: {os_user: mallory}   # \\u{202e} a judge of its own" in shown
    assert "! " in shown  # the odd character is named
    assert "It says who may approve." in shown
    authority = build_authority(project=project)
    assert authority is not None
    assert authority.routes["theirs"].approvers == ("mallory",)
    channels.write_text(TEAM.replace("mallory", "oscar"))
    assert build_authority(project=project) is None  # it was another text that was trusted


def test_with_a_policy_both_are_shown_and_one_word_is_for_both(
    project: Path, channels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".humanlayer/policy.yaml").write_text(ASK)
    shown = trusting(project)
    assert "no-ls" in shown
    assert "mallory" in shown
    assert main(["policy", "trust", "--project", str(project)]) == 0
    assert capsys.readouterr().out.count("is trusted already") == 2
    channels.write_text(TEAM + "# changed\n")
    shown = trusting(project)
    assert "no-ls" not in shown  # that one has not changed
    assert "# changed" in shown
    assert main(["policy", "trust", "--withdraw", "--project", str(project)]) == 0
    assert not profiles.is_trusted(channels)
    assert main(["policy", "trust", "--withdraw", "--project", str(project)]) == 0
    assert "it was not trusted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: 2\n", "channels.yaml:1:10: 2: expected 1"),
        (TEAM + f"signers: [{'a' * 64}]\n", "only the machine's or the user's own file may name them"),
        (TEAM.replace("steps", "quorum: 2, steps"), "2 approvals can't come from 1 people"),
    ],
)
def test_what_could_not_be_used_is_not_trusted(
    text: str, message: str, project: Path, channels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    channels.write_text(text)
    assert main(["policy", "trust", "--project", str(project)]) == 2
    assert message in capsys.readouterr().err
    assert not profiles.is_trusted(channels)


def test_what_changes_while_it_is_read_is_not_trusted(project: Path, channels: Path) -> None:
    child = talk(project)
    child.expect_exact('Type "trust"')
    channels.write_text(TEAM.replace("mallory", "oscar"))
    child.sendline("trust")
    child.expect(pexpect.EOF)
    assert build_authority(project=project) is None
    channels.write_text(TEAM)
    assert build_authority(project=project) is not None  # what was shown is what was trusted


# ---- --channels -----------------------------------------------------------------------------------------


def test_a_run_takes_a_channels_file(project: Path, channels: Path, tmp_path: Path) -> None:
    settings = supervision_settings({"channels": str(channels), "project": str(project)})
    gate = open_gate(settings)
    assert set(gate.authority.routes) == {"default", "theirs"}
    gate.close()


def test_a_run_does_not_start_with_a_broken_one(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.yaml").write_text("version: 2\n")
    options = ["--channels", str(tmp_path / "broken.yaml"), "--project", str(project)]
    assert main(["run", "-t", "x", "-m", "openai/none", *options]) == 2
    assert "broken.yaml:1:10: 2: expected 1" in capsys.readouterr().err


def test_a_projects_file_that_is_none_is_ignored(project: Path) -> None:
    """A repository must not keep us waiting, or from starting."""
    os.mkfifo(project / ".humanlayer/channels.yaml")
    assert build_authority(project=project) is None
    assert main(["policy", "trust", "--project", str(project)]) == 2
