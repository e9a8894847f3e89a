"""The pages and files for people who carry on: what they name is there, and CI runs what it says."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "docs/catalog.md", "docs/channels.md")
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
TOP = ("humanlayer_agent/", "tests/", "docs/", "policies/", "channels/", "examples/", "benchmarks/")
LATER = {"mutants"}
"""Targets that CONTRIBUTING.md names before the Makefile has them."""


def targets() -> set[str]:
    """What the Makefile can make."""
    rules = re.findall(r"^([a-z][a-z -]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {name for rule in rules for name in rule.split()}


def made(text: str) -> set[str]:
    """The targets of every `make ...` in a text: as code in Markdown, or at the beginning of a line."""
    words = [line.split() for line in re.findall(r"(?:^|`)make((?: [A-Z]+=\S+| [a-z][a-z-]+)+)", text, re.MULTILINE)]
    return {word for line in words for word in line if "=" not in word}


def workflow() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text())
    return content


def steps() -> list[dict[str, Any]]:
    return [step for job in workflow()["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    named = {
        each for each in re.findall(r"`([\w./-]+)`", text) if each.startswith(TOP) and not each.startswith("channels.")
    }
    named = {each for each in named if not re.search(r"/(NAME|X)\b", each)}
    assert [each for each in sorted(named) if not (ROOT / each).exists()] == []


@pytest.mark.parametrize("page", [*PAGES[:3], "README.md"])
def test_links_lead_somewhere(page: str) -> None:
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", (ROOT / page).read_text())
    assert [each for each in linked if not (ROOT / each).exists()] == []


def test_the_picture_of_the_layers_is_what_lint_checks() -> None:
    picture = (ROOT / "ARCHITECTURE.md").read_text().split("```text\n")[1].split("```")[0].strip("\n")
    drawn = [line.split("  ")[0].replace(" · ", " | ") for line in picture.splitlines()]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert drawn == project["tool"]["importlinter"]["contracts"][0]["layers"]


def test_commands_are_in_the_makefile() -> None:
    assert made((ROOT / "CONTRIBUTING.md").read_text()) - LATER <= targets()


def test_workflow_runs_what_the_makefile_has() -> None:
    commands = [step["run"] for step in steps() if "run" in step]
    assert {"lint", "test", "test-portable"} == set().union(*map(made, commands)) <= targets()
    scripts = [command for command in commands if command.startswith(".ci/")]
    assert scripts
    assert all((ROOT / script).is_file() for script in scripts)


def test_workflow_has_the_pythons_of_the_classifiers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = [each.rpartition(" ")[2] for each in project["classifiers"] if "Python :: 3." in each]
    assert workflow()["jobs"]["linux"]["strategy"]["matrix"]["python"] == said
    assert project["requires-python"] == f">={said[0]}"


def test_actions_are_pinned_by_major_version() -> None:
    used = {step["uses"] for step in steps() if "uses" in step}
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", each) for each in used)


def test_strangers_get_no_secrets() -> None:
    content = workflow()
    assert set(content[True]) == {"push", "pull_request"}  # YAML 1.1 reads `on` as true
    assert content["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("form", ["escape", "friction", "bug"])
def test_issue_forms(form: str) -> None:
    content = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yml").read_text())
    assert {"name", "description", "body"} <= content.keys()
    fields = [each for each in content["body"] if each["type"] != "markdown"]
    assert {each["type"] for each in fields} <= {"input", "textarea"}
    assert all(each["attributes"]["label"] for each in fields)
    assert len({each["id"] for each in fields}) == len(fields)
