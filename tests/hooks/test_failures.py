"""Whatever goes wrong ends in exit code 2 or an explicit deny: the tools take everything else for "go on"."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.hooks.client import MAX_INPUT
from humanlayer_agent.testing.patience import PATIENCE
from tests.hooks.conftest import CLAUDE, HOOK, Machine

QUESTION = json.dumps({**CLAUDE, "cwd": "/", "tool_name": "Bash", "tool_input": {"command": "ls"}}).encode()


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"[]",
        b"null",
        b'"ls"',
        b"{}",
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b"\xff\xfe\x00",
        QUESTION[:-1],
        QUESTION.replace(b"PreToolUse", b"PostToolUse"),
        QUESTION.replace(b'"Bash"', b"7"),
        QUESTION.replace(b'{"command": "ls"}', b'"ls"'),
        QUESTION.replace(b'"ls"', b'["ls"]'),
        QUESTION.replace(b'"command"', b'"cmd"'),
        QUESTION.replace(b'"cwd": "/"', b'"cwd": "relative"'),
        QUESTION.replace(b'"cwd": "/"', b'"cwd": 7'),
        QUESTION.replace(b'"ls"', json.dumps("x" * MAX_INPUT).encode()),
        b"x" * (MAX_INPUT + 1),
    ],
    ids=lambda data: f"{data[:24]!r}-{len(data)}",
)
def test_bad_input(machine: Machine, data: bytes) -> None:
    answered = machine.raw(data)
    assert answered.code == 2
    assert answered.verdict == "deny"
    assert "not run" in answered.reason
    assert answered.err


@pytest.mark.parametrize("command", ["ls\0rm -rf /", "ls \ud800", "\0"])
def test_commands_that_no_shell_can_get(machine: Machine, command: str) -> None:
    assert machine.bash(command).verdict in ("ask", "deny")


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "options",
    [
        (),
        ("no-such-tool",),
        ("--ask", "tool"),
        ("claude-code", "--ask"),
        ("claude-code", "--ask", "always"),
        ("claude-code", "--ask", "deny", "--ask", "tool"),
        ("claude-code", "--deadline", "x"),
        ("claude-code", "--deadline", "0"),
        ("claude-code", "--deadline", "nan"),
        ("claude-code", "--deadline", "inf"),
        ("claude-code", "--observe", "yes"),
        ("claude-code", "--policy", "no-such-policy"),
        ("claude-code", "--policy", "/nowhere/policy.yaml"),
        ("claude-code", "--channels", "/nowhere/channels.yaml"),
        ("gemini-cli", "--ask", "tool"),
    ],
)
def test_bad_options(machine: Machine, options: tuple[str, ...]) -> None:
    process = machine.start(*options)
    out, err = process.communicate(QUESTION, timeout=PATIENCE)
    assert process.returncode == 2
    assert err
    assert b"allow" not in out


@pytest.mark.parametrize("project", [None, "", "relative", "/nowhere/at/all", "/", "/tmp"])
def test_no_project(machine: Machine, project: str | None) -> None:
    env = {name: value for name, value in machine.env.items() if name != "CLAUDE_PROJECT_DIR"}
    answered = machine.bash("ls", env=env if project is None else {**env, "CLAUDE_PROJECT_DIR": project})
    assert answered.code == 2
    assert answered.verdict == "deny"


def test_the_home_directory_is_no_project(machine: Machine) -> None:
    assert machine.bash("ls", env={**machine.env, "CLAUDE_PROJECT_DIR": str(machine.home)}).code == 2


def broken_policy(machine: Machine) -> None:
    path = machine.home / ".config/humanlayer-agent/policy.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("rules: [\n")


def broken_project_policy(machine: Machine) -> None:
    path = machine.project / ".humanlayer/policy.yaml"
    path.parent.mkdir()
    path.write_text("version: 1\nrulez: []\n")


def broken_channels(machine: Machine) -> None:
    path = machine.home / ".config/humanlayer-agent/channels.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("version: 1\npeople: 7\n")


def store_is_a_folder(machine: Machine) -> None:
    machine.store.mkdir(parents=True)


def store_is_something_else(machine: Machine) -> None:
    machine.store.parent.mkdir(parents=True, mode=0o700)
    machine.store.write_bytes(b"not a database" * 1000)
    machine.store.chmod(0o600)


def state_is_a_file(machine: Machine) -> None:
    (machine.home / ".local").mkdir()
    (machine.home / ".local/state").write_text("")


def folder_is_open_to_others(machine: Machine) -> None:
    machine.folder.mkdir(parents=True)
    machine.folder.chmod(0o777)


def socket_is_not_ours(machine: Machine) -> None:
    """Something else stands where the server's socket should be, and its lock can't be taken."""
    machine.bash("ls")
    machine.end()
    (sock,) = machine.folder.glob("*.sock")
    sock.unlink()
    sock.mkdir()


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "breaks",
    [
        broken_policy,
        broken_project_policy,
        broken_channels,
        store_is_a_folder,
        store_is_something_else,
        state_is_a_file,
        folder_is_open_to_others,
        socket_is_not_ours,
    ],
)
def test_broken_settings(new_machine: Callable[[], Machine], breaks: Callable[[Machine], None]) -> None:
    machine = new_machine()
    breaks(machine)
    answered = machine.bash("ls", "--deadline", "600")
    assert answered.code == 2
    assert answered.verdict == "deny"
    assert answered.err


def test_what_breaks_later_is_noticed_and_what_is_mended_too(new_machine: Callable[[], Machine]) -> None:
    machine = new_machine()
    assert machine.bash("ls").verdict == "allow"
    broken_policy(machine)
    assert machine.bash("ls").code == 2
    (machine.home / ".config/humanlayer-agent/policy.yaml").write_text(
        "version: 1\npolicy: mine\nextends: [builtin:strict]\n"
    )
    answered = machine.bash("touch x")
    assert answered.verdict == "ask", answered
    assert len(machine.servers()) == 1
    machine.store.unlink()
    assert machine.bash("ls").refused  # its log is gone


def test_a_hang(machine: Machine) -> None:
    machine.bash("ls")
    machine.signal(signal.SIGSTOP)
    try:
        answered = machine.bash("ls", "--deadline", "0.5")
    finally:
        machine.signal(signal.SIGCONT)
    assert answered.code == 2
    assert answered.verdict == "deny"
    assert "in time" in answered.reason


def test_input_that_never_ends(machine: Machine) -> None:
    process = machine.start("claude-code", "--deadline", "0.5")
    try:
        assert process.stdin is not None
        process.stdin.write(QUESTION)
        process.stdin.flush()
        assert process.wait(timeout=PATIENCE) == 2
    finally:
        process.communicate()


@pytest.mark.long
def test_a_crash_while_it_is_judged(new_machine: Callable[[], Machine]) -> None:
    """The server is killed each time that it has a question: the hook gives up, and does not wait for its deadline."""
    machine = new_machine()
    machine.bash("ls")
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.001):
            machine.end()

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        answered = machine.bash("ls", "--deadline", "600")
    finally:
        over.set()
        killer.join()
    assert answered.refused or answered.verdict == "allow"  # it may answer before it is killed
    machine.end()
    assert machine.bash("ls").verdict == "allow"


@pytest.mark.parametrize(
    "reply",
    [
        *(b"", b"1 2", b"1 0 0\n0", b"1 0 0 0\n1", b"1 0 0 0\n7", b"1 0 0 1\n0", b"-1 2 0 0\n0", b"x\n"),
        *(b"1 2 0 0\n0{}trailing", b"3 0 0 0\n255", b"1 0 0 1\n2p", bytes(range(256)), b"9" * 5_000 + b"\n"),
    ],
)
def test_a_reply_that_is_not_whole_is_none(
    reply: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from humanlayer_agent.hooks import client

    monkeypatch.setattr(client, "_connected", lambda deadline: said(reply))
    monkeypatch.setattr(client, "server_pid", lambda connection: os.getpid())
    monkeypatch.setattr(client, "_read_input", lambda deadline: b"{}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = os.getcwd()
    try:
        assert client.run("claude-code", [], 5) == 2
    finally:
        os.chdir(before)
    out, err = capfd.readouterr()
    assert '"deny"' in out
    assert "without an answer" in err


def said(reply: bytes) -> socket.socket:
    """A connection to somebody who has said this, and nothing more."""
    ours, theirs = socket.socketpair()
    theirs.sendall(reply)
    theirs.shutdown(socket.SHUT_WR)
    _held.append(theirs)  # it hears the question
    return ours


_held: list[socket.socket] = []


def test_an_answer_that_goes_on_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    from humanlayer_agent.hooks import client

    monkeypatch.setattr(client, "MAX_ANSWER", 100_000)
    ours, theirs = socket.socketpair()

    def talk() -> None:
        with theirs, suppress(OSError):
            while True:
                theirs.sendall(b"0" * 10_000)

    talker = threading.Thread(target=talk)
    talker.start()
    with ours, pytest.raises(client.HookFailed, match="longer than"):
        client._exchange(ours, b"", client.Deadline(PATIENCE))
    talker.join()


def test_an_answer_that_comes_in_drops_is_late_all_the_same() -> None:
    from humanlayer_agent.hooks import client

    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"1 0 0 0\n")
        with pytest.raises(client.HookFailed, match="in time"):
            client._exchange(ours, b"", client.Deadline(0.05))


def test_an_interpreter_that_is_gone_or_a_package_that_is_broken(tmp_path: Path) -> None:
    from humanlayer_agent.hooks.coding_agents import AGENTS
    from humanlayer_agent.hooks.hook_settings import hook_entry

    for python in ("/nowhere/python", "/bin/false"):
        (hook,) = hook_entry(AGENTS["claude-code"], "tool", python)["hooks"]
        done = subprocess.run(["/bin/sh", "-c", hook["command"]], input=QUESTION, capture_output=True)
        assert done.returncode == 2


def test_modules_in_the_agents_directory_do_not_take_the_place_of_ours(machine: Machine) -> None:
    for name in ("json", "socket", "zlib", "humanlayer_agent"):
        (machine.project / f"{name}.py").write_text('print(\'{"decision": "allow"}\'); raise SystemExit(0)')
    try:
        done = subprocess.run(
            [*HOOK, "claude-code"],
            input=QUESTION.replace(b'"ls"', b'"hla stop"'),
            capture_output=True,
            cwd=machine.project,
            env={**machine.env, "PYTHONPATH": str(machine.project)},
        )
        assert b"deny" in done.stdout
    finally:
        for path in machine.project.glob("*.py"):
            path.unlink()


def test_nobody_reads_the_answer(machine: Machine) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*HOOK, "claude-code"], input=QUESTION, stdout=write, stderr=write, env=machine.env)
    os.close(write)
    assert done.returncode == 2


def test_a_question_for_another_installation_is_refused(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket's name is a checksum of the environment; the whole environment is compared too."""
    from humanlayer_agent.hooks import client

    machine.bash("ls")
    (sock,) = machine.folder.glob("*.sock")
    monkeypatch.setattr(client, "folder", lambda: str(machine.folder))
    monkeypatch.setattr(client, "socket_name", lambda: sock.name)
    before = os.getcwd()
    try:
        client.enter_folder()
        answer: Any = client._answer(["claude-code"], QUESTION, client.Deadline(20))
    finally:
        os.chdir(before)
    assert answer.code == 2
    assert "another installation" in answer.text


def test_the_interpreter_that_runs_the_tests_is_the_one_that_is_written() -> None:
    from humanlayer_agent.hooks.coding_agents import AGENTS
    from humanlayer_agent.hooks.hook_settings import hook_entry

    (hook,) = hook_entry(AGENTS["claude-code"], "tool")["hooks"]
    assert sys.executable in hook["command"]
