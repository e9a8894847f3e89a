"""Codex: what its hook says, and the real program, where it is installed (`make test-doors`)."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.judge import _allowed
from humanlayer_agent.hooks.questions import Question, in_bash
from humanlayer_agent.policy.director import Director
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import PATIENCE
from tests.hooks.conftest import Answered, Machine

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "build/doors/node_modules/.bin/codex"
COMMON: dict[str, Any] = {
    "hook_event_name": "PreToolUse",
    "session_id": "01a21f7a",
    "turn_id": "01a21f7b",
    "model": "any",
    "permission_mode": "default",
    "tool_use_id": "call_0_0",
}


def ask(machine: Machine, tool: str, inputs: object, *options: str, **more: Any) -> Answered:
    body = {**COMMON, "cwd": str(machine.project), "tool_name": tool, "tool_input": inputs, **more}
    env = {**machine.env, "CODEX_PROJECT_DIR": str(machine.project)}
    return machine.raw(json.dumps(body).encode(), "codex", *options, "--deadline", "600", env=env)


def patch(*lines: str) -> dict[str, str]:
    return {"command": "\n".join(("*** Begin Patch", *lines, "*** End Patch"))}


@pytest.mark.parametrize(
    ("tool", "inputs", "verdict"),
    [
        ("Bash", {"command": "rm -rf /srv/x"}, "deny"),
        ("Bash", {"command": "hla stop"}, "deny"),
        ("Bash", {"command": "less a.txt"}, "deny"),
        ("Bash", {"command": "cat a.txt | env LESS=-x /usr/bin/less"}, "deny"),
        ("Bash", {"command": "bash -c 'vim a.txt'"}, "deny"),
        ("Bash", {"command": "git log --oneline | tig"}, "deny"),
        ("Bash", {"command": "cat a.txt | head"}, "allow"),
        ("apply_patch", patch("*** Add File: a.txt", "+x"), ""),
        ("apply_patch", patch("*** Add File: a.txt", "+x", "*** Delete File: /etc/hosts"), "deny"),
        ("apply_patch", patch("*** Update File: a.txt", "*** Move to: ../.bashrc", "-x"), "deny"),
        ("apply_patch", patch("*** Add File: .envrc\x85", "+x"), "deny"),
        ("apply_patch", patch("*** Delete File: /srv/x"), "deny"),
        ("apply_patch", patch("*** Update File: a.txt", "*** Move to: b.txt", "-x"), ""),
        ("apply_patch", {"input": patch("*** Add File: .git/hooks/pre-commit", "+x")["command"]}, "deny"),
        ("view_image", {"path": "a.png"}, ""),
        ("view_image", {"path": "/srv/.env"}, "deny"),
        ("mcp__forge__close", {"issue": 1}, "deny"),
        ("update_goal", {}, ""),
    ],
)
def test_calls(machine: Machine, tool: str, inputs: object, verdict: str) -> None:
    answered = ask(machine, tool, inputs)
    assert (answered.code, answered.verdict) == (0, verdict), answered
    assert "ask" not in answered.out.partition("Reason")[0]  # Codex makes the call then


def test_a_patch_without_a_file_is_refused(machine: Machine) -> None:
    assert ask(machine, "apply_patch", {"command": "*** Begin Patch"}).code == 2


def test_its_own_prompt_is_not_offered(machine: Machine) -> None:
    assert ask(machine, "Bash", {"command": "ls"}, "--ask", "tool").code == 2
    assert ask(machine, "Bash", {"command": "ls"}, "--confine").code == 2


def test_told_to_end_it_is_denied_all_the_same(new_machine: Any) -> None:
    """Codex makes a call that is denied where `continue` is false."""
    machine = new_machine()
    assert ask(machine, "Bash", {"command": "ls"}).verdict == "allow"
    with closing(SQLiteStore(machine.store)) as store:
        store.halts.stop("os:1000:bob", "enough")
    answered = ask(machine, "Bash", {"command": "ls"})
    assert answered.verdict == "deny"
    assert set(answered.json) == {"hookSpecificOutput"}


TEXTS = [
    "echo a 'b c' \"d $((1+1))\"; exit 3",
    "printf '%s\\n' \"$BASH_VERSION\" | grep -c .; [[ a == a ]] && echo {1..3}",
    "echo $'\\x41'; cat; read -r x || echo end",
    "echo 'rm\\040x' # a comment\necho ü >&2; false",
]


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "zsh"])
@pytest.mark.parametrize("text", TEXTS)
def test_what_is_allowed_runs_as_it_was_judged_in_whatever_shell_the_agent_has_chosen(
    machine: Machine, text: str, shell: str
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"allowed in CI: there is no {shell}")
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "cwd": machine.project}
    done = subprocess.run([program, "-c", in_bash(text)], input=b"typed\n", **both)
    plain = ["/bin/bash", "--norc", "--noprofile", "-c", text]
    wanted = subprocess.run(plain, stdin=subprocess.DEVNULL, **both)
    assert (done.returncode, done.stdout) == (wanted.returncode, wanted.stdout)
    assert b"typed" not in done.stdout


def test_the_hook_answers_with_that_command(machine: Machine) -> None:
    answered = ask(machine, "Bash", {"command": TEXTS[0], "timeout_ms": 5})
    assert answered.json["hookSpecificOutput"]["updatedInput"] == {
        "command": in_bash(TEXTS[0], str(machine.project)),
        "timeout_ms": 5,
    }


def test_what_is_no_command_is_not_made_one(machine: Machine) -> None:
    """Also where a human has approved it."""
    inputs = patch("*** Add File: /etc/x", "+x")
    question = Question(
        AGENTS["codex"], json.dumps({**COMMON, "tool_name": "apply_patch", "tool_input": inputs}).encode()
    )
    decision = Director.load("default", project=machine.project).evaluate(Action("> /etc/x"))
    permit = Permit("p", "0" * 64, Action("> /etc/x"), decision, 0, approved_by="alice", request_id="r")
    reply = _allowed(question, str(machine.project), decision, permit)
    assert (reply.verdict, reply.command) == ("none", "")  # its own rules go on


def test_where_the_agent_could_choose_another_shell_nothing_is_allowed(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "pwsh").touch(mode=0o755)
    body = {**COMMON, "cwd": str(machine.project), "tool_name": "Bash", "tool_input": {"command": "ls"}}
    for more in (tmp_path, machine.project / "tools", "tools", ""):
        path = f"{os.environ['PATH']}{os.pathsep}{more}"
        env = {**machine.env, "CODEX_PROJECT_DIR": str(machine.project), "PATH": path}
        answered = machine.raw(json.dumps(body).encode(), "codex", "--deadline", "600", env=env)
        assert answered.code == 2, path
        assert "PATH" in answered.err


def test_a_program_in_a_terminal_has_none_to_write_to(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    line = in_bash("test -t 0 || test -t 1 || test -t 2 || echo none; exit 4")
    done = subprocess.run(["sh", "-c", line], stdin=theirs, stdout=theirs, stderr=theirs)
    assert (done.returncode, os.read(ours, 100).split()) == (4, [b"none"])
    os.close(ours)
    os.close(theirs)


def test_what_is_left_in_the_background_is_not_waited_for_and_nothing_else_is_read(tmp_path: Path) -> None:
    (tmp_path / "more").write_text("echo more\n")
    line = in_bash("sleep 300 >/dev/null 2>&1 & echo $!; type ls; echo $HUMANLAYER_SUPERVISED")
    env = {**os.environ, "BASH_ENV": str(tmp_path / "more"), "BASH_FUNC_ls%%": "() { echo ours; }"}
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=env, timeout=PATIENCE)
    first, *others = done.stdout.splitlines()
    os.kill(int(first), 9)
    assert ("more" in done.stdout, "function" in done.stdout, others[-1]) == (False, False, "1")


def test_it_runs_in_the_directory_in_which_it_was_judged_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "a 'b"
    place.mkdir()
    done = subprocess.run(["sh", "-c", in_bash("pwd", str(place))], capture_output=True, text=True, cwd="/")
    assert done.stdout == f"{place}\n"
    place.rmdir()
    done = subprocess.run(["sh", "-c", in_bash("echo ran", str(place))], capture_output=True, text=True, cwd="/")
    assert (done.returncode, done.stdout) == (126, "")


def test_a_long_text_is_one_word(machine: Machine) -> None:
    done = subprocess.run(["sh", "-c", in_bash("echo " + "'a' " * 8_000)], capture_output=True)
    assert (done.returncode, len(done.stdout)) == (0, 16_000)
    assert subprocess.run(["sh", "-c", in_bash("-x")], capture_output=True).returncode == 127


# ---- the real program


class Model(BaseHTTPRequestHandler):
    """Answers as a model that has a list of commands run, one after the other, and then says that it is done."""

    commands: tuple[dict[str, Any], ...] = ()
    heard: list[str]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._end("application/json", b'{"object": "list", "data": [], "models": []}')

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["content-length"])))["input"]
        outputs = [str(each["output"]) for each in said if each.get("type") == "function_call_output"]
        type(self).heard[:] = outputs
        done = len(outputs)
        item: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "status": "completed"}
        item["content"] = [{"type": "output_text", "text": "done", "annotations": []}]
        if done < len(self.commands):
            call = {"type": "function_call", "id": f"f{done}", "call_id": f"c{done}", "name": "exec_command"}
            item = {**call, "arguments": json.dumps(self.commands[done]), "status": "completed"}
        count = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "r", "output": [item], "usage": count}},
        ]
        text = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)
        self._end("text/event-stream", text.encode())

    def _end(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def model() -> Iterator[type[Model]]:
    made = type("Scripted", (Model,), {"heard": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), made)
    made.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


def codex(machine: Machine, model: Any, *commands: dict[str, Any]) -> list[str]:
    """Have the real Codex run commands; what its model was told of each."""
    if not PROGRAM.exists():
        pytest.skip("allowed in CI: Codex is not installed (make test-doors)")
    model.commands = commands
    folder = machine.home / ".codex"
    folder.mkdir(exist_ok=True)
    provider = f'{{name = "x", base_url = "http://127.0.0.1:{model.port}/v1", env_key = "KEY", wire_api = "responses"}}'
    folder.joinpath("config.toml").write_text(
        f'model = "any"\nmodel_provider = "x"\ncheck_for_update_on_startup = false\nmodel_providers.x = {provider}\n'
    )
    example = json.loads((ROOT / "examples/codex-hooks.json").read_text())
    (hook,) = example["hooks"]["PreToolUse"][0]["hooks"]
    hook["command"] = hook["command"].replace("hla hook", f"{Path(sys.executable).parent / 'hla'} hook")
    hook["command"] = hook["command"].replace("--deadline 50", "--deadline 590")
    hook["timeout"] = 600
    folder.joinpath("hooks.json").write_text(json.dumps(example))
    options = ("--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust", "--skip-git-repo-check")
    subprocess.run(
        [PROGRAM, "exec", "--json", *options, "go on"],
        cwd=machine.project,
        env={**machine.env, "KEY": "x", "CODEX_HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=True,
    )
    found: list[str] = model.heard
    return found


@pytest.mark.long
def test_the_real_codex_runs_what_is_allowed_and_nothing_else(new_machine: Any, model: Any) -> None:
    machine = new_machine()
    canary = machine.home / ".bashrc"
    canary.touch()
    heard = codex(
        machine,
        model,
        {"cmd": "echo one; exit 3"},
        {"cmd": f"rm {canary}"},
        {"cmd": 'echo "$BASH_VERSION" | cut -c1', "shell": "sh"},
        {"cmd": "rm -rf .bashrc", "workdir": str(machine.home)},
        {"cmd": "cat; echo after", "yield_time_ms": 500},
    )
    assert "exited with code 3" in heard[0]
    assert "one" in heard[0]
    assert "blocked" in heard[1]
    assert "blocked" in heard[3]
    assert heard[2].rstrip()[-1].isdigit()
    assert "after" in heard[4]
    assert canary.exists()
    allowed = [each for each in machine.events() if each["type"] == "exec.started"]
    assert len(allowed) == 3


@pytest.mark.long
def test_the_real_codex_does_nothing_once_all_agents_are_stopped(new_machine: Any, model: Any) -> None:
    machine = new_machine()
    assert ask(machine, "Bash", {"command": "ls"}).verdict == "allow"
    with closing(SQLiteStore(machine.store)) as store:
        store.halts.stop("os:1000:bob", "enough")
    heard = codex(machine, model, {"cmd": "touch made"})
    assert "blocked" in heard[0]
    assert not (machine.project / "made").exists()
