"""unknown-route: what is known comes from the channels files, and where nothing is known nothing is said."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.cli.policy.lint import known_routes
from humanlayer_agent.policy_tools.lint import lint_file
from tests.policy_tools.lint.conftest import policy_file

RULES = """
  - {id: a, decision: ask, route: oncall, reason: r, suggestion: none, when: {program: x}, tests: {match: [x], not_match: [y]}}
  - {id: b, decision: ask, route: {name: two, quorum: 2}, reason: r, suggestion: none, when: {program: y}, tests: {match: [y], not_match: [x]}}
  - {id: c, decision: ask, reason: r, suggestion: none, when: {program: z}, tests: {match: [z], not_match: [x]}}
"""
CHANNELS = """
version: 1
people: {alice: {os_user: alice}}
routes:
  oncall: {approvers: [alice], timeout: 1h, steps: [{to: terminal}]}
"""


@pytest.mark.parametrize(
    ("routes", "found"),
    [(None, []), ({"default"}, ["a", "b"]), ({"default", "oncall", "two"}, []), ({"oncall", "two"}, ["c"])],
)
def test_what_is_found(tmp_path: Path, routes: set[str] | None, found: list[str]) -> None:
    findings = [f for f in lint_file(policy_file(tmp_path, RULES), routes=routes) if f.check == "unknown-route"]
    assert [finding.about for finding in findings] == found
    assert all(finding.level == "error" and finding.witness is not None for finding in findings)


def test_the_place_is_that_of_the_name(tmp_path: Path) -> None:
    (finding,) = [f for f in lint_file(policy_file(tmp_path, RULES), routes={"default", "two"}) if f.level == "error"]
    line = policy_file(tmp_path, RULES).read_text().splitlines()[finding.place.line - 1]
    assert line[finding.place.column - 1 :].startswith("oncall")
    assert "there are: default, two" in finding.message


def test_what_is_known(own_user: Path, tmp_path: Path, write_channels: Callable[[str], Path]) -> None:
    assert known_routes(tmp_path) is None
    write_channels(CHANNELS)
    assert known_routes(tmp_path) == {"default", "oncall"}
    write_channels("version: 1\nroutes: 7\n")
    assert known_routes(tmp_path) is None


@pytest.fixture
def write_channels() -> Callable[[str], Path]:
    from humanlayer_agent.locations import config_folder

    def write(text: str) -> Path:
        config_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
        path = config_folder() / "channels.yaml"
        path.write_text(text)
        path.chmod(0o600)
        return path

    return write
