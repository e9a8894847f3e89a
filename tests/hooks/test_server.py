"""The process that judges: one for each user, light clients, and what they say to each other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.hooks import client
from humanlayer_agent.locations import state_folder
from humanlayer_agent.testing.patience import PATIENCE
from tests.hooks.conftest import HOOK, Machine


@given(st.lists(st.binary(), min_size=1))
def test_messages(parts: list[bytes]) -> None:
    assert client.unpacked(client.packed(*parts)) == parts


@given(st.lists(st.binary(), min_size=1), st.data())
def test_a_message_that_was_cut_is_none(parts: list[bytes], data: st.DataObject) -> None:
    whole = client.packed(*parts)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(ValueError, match=r".*"):
        client.unpacked(cut)
    with pytest.raises(ValueError, match=r".*"):
        client.unpacked(whole + b"x")


@pytest.mark.parametrize("base", [None, "", "relative", "/srv/state"])
def test_the_folder_is_in_the_users_state(base: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if base is not None:
        monkeypatch.setenv("XDG_STATE_HOME", base)
    assert client.folder() == str(state_folder() / "hooks")


def test_the_client_loads_nothing_heavy() -> None:
    code = "import sys, humanlayer_agent.cli.hook; print('|'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.strip().split("|"))
    assert {m for m in loaded if m.startswith("humanlayer_agent")} == {
        "humanlayer_agent",
        "humanlayer_agent.cli",
        "humanlayer_agent.cli.hook",
        "humanlayer_agent.hooks",
        "humanlayer_agent.hooks.client",
        "humanlayer_agent.hooks.coding_agents",
    }
    assert loaded.isdisjoint({"typing", "re", "json", "pathlib", "argparse", "subprocess", "sqlite3", "yaml"})


@pytest.mark.long
def test_questions_at_once_are_answered_by_one_process(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    question = b'{"hook_event_name": "PreToolUse", "cwd": "/", "tool_name": "Bash", "tool_input": {"command": "ls"}}'
    running = [machine.start("claude-code") for _ in range(8)]
    try:
        answers = [process.communicate(question, timeout=PATIENCE)[0] for process in running]
        assert all(b'"allow"' in answer for answer in answers), answers
        assert len(machine.servers()) == 1
        second = subprocess.run([sys.executable, "-I", "-m", "humanlayer_agent.hooks.server"], env=machine.env)
        assert second.returncode == 0  # one is there: it has nothing to do
    finally:
        machine.end()


def test_the_folder_may_have_a_long_path(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.env["XDG_STATE_HOME"] = str(machine.home / ("d" * 120) / ("e" * 120))
    try:
        assert machine.bash("ls").verdict == "allow"
    finally:
        for lock in Path(machine.env["XDG_STATE_HOME"]).rglob("*.lock"):
            os.kill(int(lock.read_text()), 9)


@pytest.mark.long
def test_it_ends_when_it_is_idle_or_not_to_be_found(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    code = (
        "from humanlayer_agent.hooks import server; server._LOOK_S = 0.05; "
        "import sys; server.Server(float(sys.argv[1])).serve()"
    )
    idle = subprocess.run([sys.executable, "-c", code, "0.1"], env=machine.env, timeout=PATIENCE)
    assert idle.returncode == 0
    assert not list(machine.folder.glob("*.sock"))
    process = subprocess.Popen([sys.executable, "-c", code, "1000"], env=machine.env)
    try:
        while not (found := list(machine.folder.glob("*.sock"))):
            assert process.poll() is None
        found[0].unlink()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()


def test_a_changed_package_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that is not what is installed any more must not go on judging."""
    from humanlayer_agent.hooks import server

    module = tmp_path / "module.py"
    module.write_text("")
    code = server._Code()
    assert not code.changed()
    code._seen[str(module)] = server._modified(str(module)) - 1
    assert code.changed()
    code._seen[str(module)] = server._modified(str(module))
    module.unlink()
    assert code.changed()


@pytest.mark.long
def test_help() -> None:
    done = subprocess.run([*HOOK, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "claude-code" in done.stdout
