"""The gateway before servers that other people have written, where they are installed (`make test-doors`)."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.hooks.gateway.test_conformance import GATEWAY, at_once, text
from tests.support.mcp_client import Listening
from tests.support.remote_human import RemoteHuman

pytestmark = [pytest.mark.usefixtures("compiled", "forked_by_clients"), pytest.mark.long]

PROGRAMS = Path(__file__).parents[3] / "build/doors/mcp/bin"
POLICY = """\
version: 1
policy: servers
extends: [builtin:default]
rules:
  - id: git-looks
    decision: allow
    reason: Looks at the project's repository.
    when: {tool: {name: [mcp__git__git_status, mcp__git__git_log], args: {repo_path: {within: ["${PROJECT}"]}}}}
  - id: time
    decision: allow
    reason: Tells the time.
    when: {tool: {name: "mcp__time__*"}}
"""


@pytest.fixture
def human() -> Iterator[RemoteHuman]:
    human = RemoteHuman()
    yield human
    human.store.close()


def program(name: str) -> str:
    found = PROGRAMS / f"mcp-server-{name}"
    if not found.exists():
        pytest.skip(f"allowed in CI: {found.name} is not installed (make test-doors)")
    return str(found)


def options(tmp_path: Path, name: str) -> list[str]:
    (tmp_path / "policy.yaml").write_text(POLICY)
    return ["--name", name, "--project", str(tmp_path / "project"), "--policy", str(tmp_path / "policy.yaml")]


def talk(tmp_path: Path, name: str, use: Any) -> Any:
    given, started = options(tmp_path, name), program(name)

    async def main() -> Any:
        server = StdioServerParameters(
            command=GATEWAY[0], args=[*GATEWAY[1:], *given, "--", started], env=dict(os.environ)
        )
        async with Client(server) as client:
            await client.list_tools()
            return await use(client)

    return anyio.run(main)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    place = tmp_path / "project"
    place.mkdir()
    for line in ("init -q", "config user.name t", "config user.email t@example.org"):
        subprocess.run(["git", *line.split()], cwd=place, check=True)
    (place / "a.txt").write_text("a\n")
    return place


def test_git(tmp_path: Path, project: Path, human: RemoteHuman) -> None:
    here = {"repo_path": str(project)}

    async def use(client: Client) -> Any:
        status = await client.call_tool("git_status", here)
        added = await at_once(
            lambda: client.call_tool("git_add", {**here, "files": ["a.txt"]}), lambda: human.answers("approve")
        )
        commit = await at_once(
            lambda: client.call_tool("git_commit", {**here, "message": "one"}), lambda: human.answers("reject", "later")
        )
        elsewhere = await at_once(
            lambda: client.call_tool("git_status", {"repo_path": "/"}), lambda: human.answers("reject")
        )
        return status, added[0], commit[0], elsewhere[0]

    status, added, commit, elsewhere = talk(tmp_path, "git", use)
    assert "a.txt" in text(status)
    assert not added.is_error
    assert commit.is_error
    assert '"later"' in text(commit)
    assert elsewhere.is_error
    staged = subprocess.run(
        ["git", "diff", "--cached", "--name-only"], cwd=project, capture_output=True, text=True, check=True
    )
    assert staged.stdout == "a.txt\n"
    assert subprocess.run(["git", "log"], cwd=project, capture_output=True, check=False).returncode == 128


def test_time(tmp_path: Path, project: Path, human: RemoteHuman) -> None:
    async def use(client: Client) -> Any:
        return await client.call_tool("convert_time", {
            "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo",
        })  # fmt: skip

    assert "21:00" in text(talk(tmp_path, "time", use))


def test_time_by_http(tmp_path: Path, project: Path, human: RemoteHuman) -> None:
    async def use(client: Client) -> Any:
        asked = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
        return await client.call_tool("convert_time", asked), await client.call_tool("get_current_time", {})

    with Listening([*GATEWAY, *options(tmp_path, "time")], ["--", program("time")]) as listening:
        converted, wrong = listening.talk(use)
        assert "21:00" in text(converted)
        assert wrong.is_error
        assert b"its tools are seen for the first time: " in listening.ends()
