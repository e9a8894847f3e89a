"""The commands of examples/ci/policy.yml do what they are there for, in a real repository."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

WORKFLOW = Path(__file__).parents[1] / "examples" / "ci" / "policy.yml"
POLICY = """\
version: 1
policy: team
rules:
  - id: reads
    decision: allow
    reason: Reads in the project.
    when: {effect: read, paths: {all_within: ["${PROJECT}/**"]}}
    tests: {match: [cat a], not_match: [cat /etc/passwd]}
  - id: deletes
    decision: ask
    reason: Deletes in the project.
    suggestion: Look at it first, with `cat a`.
    when: {effect: delete, paths: {all_within: ["${PROJECT}/**"]}}
    tests: {match: [rm a], not_match: [cat a]}
"""
LOOSER = POLICY.replace("decision: ask", "decision: allow")
STRICTER = POLICY.replace("decision: ask", "decision: deny")


def steps() -> dict[str, str]:
    """The commands of the workflow by the names of its steps."""
    job = yaml.safe_load(WORKFLOW.read_text())["jobs"]["policy"]
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A base branch with a policy and a recorded run; hla is on the PATH."""
    folder = tmp_path / "checkout"
    (folder / ".humanlayer" / "runs").mkdir(parents=True)
    (folder / ".humanlayer" / "policy.yaml").write_text(POLICY)
    rows = [{"id": str(n), "command": command, "cwd": "/srv/app"} for n, command in enumerate(("cat a", "rm a"))]
    (folder / ".humanlayer" / "runs" / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "base"]):
        git(folder, *command)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "hla").write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(WORKFLOW.parents[2])!r})\n"
        "from humanlayer_agent.cli import main\nsys.exit(main())\n"
    )
    (tools / "hla").chmod(0o755)
    return folder


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def run(repository: Path, name: str) -> "subprocess.CompletedProcess[str]":
    """Run a step as the service does: by bash -e."""
    env = {**os.environ, "POLICY": ".humanlayer/policy.yaml", "BASE": git(repository, "rev-parse", "HEAD")}
    env["PATH"] = f"{repository.parent / 'bin'}:{env['PATH']}"
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", steps()[name]]
    return subprocess.run(command, cwd=repository, env=env, capture_output=True, text=True, timeout=600)


def change(repository: Path, text: str) -> None:
    (repository / ".humanlayer" / "policy.yaml").write_text(text)


@pytest.mark.long
def test_a_stricter_policy_passes_every_step(repository: Path) -> None:
    change(repository, STRICTER)
    for name in list(steps())[1:]:  # the first installs
        done = run(repository, name)
        assert done.returncode == 0, (name, done.stdout, done.stderr)
    for file in ("lint.sarif", "diff.sarif"):
        assert json.loads((repository / file).read_text())["version"] == "2.1.0"
    for file in ("test.xml", "diff.xml"):
        assert ElementTree.parse(repository / file).getroot().tag == "testsuites"
    assert "stricter" in done.stdout


def compare(repository: Path) -> Any:
    return run(repository, "Compare with the policy of the base branch")


@pytest.mark.long
def test_a_looser_policy_fails_and_can_be_accepted(repository: Path) -> None:
    change(repository, LOOSER)
    done = compare(repository)
    assert done.returncode == 1, done.stderr
    assert "rm a" in done.stdout
    (result,) = json.loads((repository / "diff.sarif").read_text())["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == ".humanlayer/policy.yaml"
    assert ElementTree.parse(repository / "diff.xml").getroot()[0].attrib["failures"] == "1"
    git(repository, "worktree", "remove", "--force", "../base")

    env = {**os.environ, "PATH": f"{repository.parent / 'bin'}:{os.environ['PATH']}"}
    git(repository, "worktree", "add", "-q", "--detach", "../old", "HEAD")
    command = ["hla", "policy", "diff", "../old/.humanlayer/policy.yaml", ".humanlayer/policy.yaml", ".humanlayer/runs"]
    accept = subprocess.run([*command, "--format", "accept"], cwd=repository, env=env, capture_output=True, text=True)
    (repository / ".humanlayer" / "accepted.yaml").write_text(
        accept.stdout.replace('reason: ""', "reason: staging only")
    )
    assert compare(repository).returncode == 0


@pytest.mark.long
def test_a_broken_policy_fails_in_every_step(repository: Path) -> None:
    change(repository, POLICY.replace("decision: ask", "decision: maybe"))
    assert all(run(repository, name).returncode != 0 for name in list(steps())[1:])


@pytest.mark.long
def test_the_first_policy_of_a_repository_is_compared_with_the_shipped_one(repository: Path) -> None:
    git(repository, "rm", "-q", "--cached", ".humanlayer/policy.yaml")
    git(repository, "commit", "-qm", "without")
    done = compare(repository)
    assert done.returncode == 0, done.stderr
    assert "default → team" in done.stdout


def test_a_strangers_branch_gets_no_secrets() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert list(workflow[True]) == ["pull_request"]  # YAML 1.1 reads `on` as a truth value
    assert "${{" not in "".join(steps().values())  # names of branches are somebody else's text
