"""Commands of a coding agent that run confined: it runs what its hook answers, with a bash of its own."""

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import Answer, AnswerKind, Approver
from humanlayer_agent.configuration import build_authority, build_signer
from humanlayer_agent.hooks import judge, permits
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.questions import Question
from humanlayer_agent.locations import PASSPHRASE_VARIABLE
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import until
from tests.hooks.coding_agent import HLA, CodingAgent, replaced
from tests.hooks.conftest import CLAUDE
from tests.support import children, enclosures
from tests.support.keys import PASSPHRASE, make_key, passphrase_file

NOT_RUN = 126
WAYS_TO_TYPE_IT = [
    *("hla exec --permit {}", "/usr/local/bin/hla exec --permit {}", ".venv/bin/hla exec --permit {}"),
    *("humanlayer-agent exec --permit {}", "env X=1 hla exec --permit {}", "command hla exec --permit {}"),
    *("python -m humanlayer_agent.cli exec --permit {}", "python3 -I -m humanlayer_agent.cli exec --permit {}"),
    f"{sys.executable} -I -m humanlayer_agent.cli exec --permit {{}}",
    *(".venv/bin/python -m humanlayer_agent.cli exec --permit {}", "bash -c 'hla exec --permit {}'"),
    *("x=hla; $x exec --permit {}", "timeout 5 hla exec -- ls", "echo {} | xargs hla exec --permit"),
    "python3 -c 'from humanlayer_agent.hooks import permit_use; permit_use.run(\"{}\")'",
]


class Served(http.server.SimpleHTTPRequestHandler):
    """Serves one page."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"served\n")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def shared_agent() -> Iterator[CodingAgent]:
    enclosures.backend()
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-hook-") as folder:
        made = CodingAgent(Path(folder))
        yield made
        made.end()


@pytest.fixture
def agent(shared_agent: CodingAgent) -> CodingAgent:
    """One whose session is new, and has shown that it runs what it is answered."""
    shared_agent.begin()
    assert shared_agent.does("true").code == 0
    return shared_agent


@pytest.fixture
def own_agent() -> Iterator[CodingAgent]:
    """For what breaks one."""
    enclosures.backend()
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-hook-") as folder:
        made = CodingAgent(Path(folder))
        yield made
        made.end()


def test_an_allowed_command_runs_confined_and_the_log_has_all_of_it(agent: CodingAgent) -> None:
    command = "echo out; echo err >&2; exit 7"
    answered = agent.asked(command)
    assert command in answered.reason
    assert "confined to project" in answered.reason
    line = replaced(answered)
    assert "echo out" not in line
    ran = agent.run(line)
    assert (ran.code, ran.out, ran.err) == (7, "out\n", "err\n")
    assert agent.ended(line).code == 0
    events = agent.events()
    (judged,) = (event for event in events if event.get("command") == command)
    of_permit = {event["type"]: event for event in events if event.get("permit") == judged["permit"]}
    assert list(of_permit) == [
        *("decision.evaluated", "permit.handed", "permit.consumed", "exec.started", "exec.finished", "hook.reported")
    ]
    assert of_permit["exec.finished"]["returncode"] == 7
    assert of_permit["exec.started"]["confined"]
    assert not agent.told("hook.unconfined")


def test_what_nobody_can_read_is_held_and_not_asked_about(agent: CodingAgent) -> None:
    canary = agent.home / "canary"
    canary.write_text("here")
    copy = agent.unread()
    assert agent.does(f"{copy} README {canary} 2>/dev/null; {copy} /dev/null made").code == 0
    assert canary.read_text() == "here"
    assert (agent.project / "made").exists()
    assert agent.asked(f"{copy} a b", permission_mode="plan").verdict == "ask"  # unconfined it is asked about


def test_big_output_comes_whole_and_in_both_streams(agent: CodingAgent) -> None:
    ran = agent.does("seq 200000; seq 200000 >&2")
    wanted = "".join(f"{number}\n" for number in range(1, 200_001))
    assert (ran.out == wanted, ran.err == wanted) == (True, True)


def test_who_does_not_read_ends_it(agent: CodingAgent) -> None:
    ran = agent.run(f"{{ {replaced(agent.asked('yes'))}; }} | head -n 1")
    assert (ran.code, ran.out) == (0, "y\n")
    until(lambda: [e.get("returncode") for e in agent.told("exec.finished")][1:] == [None], "its end in the log")


@pytest.mark.long
def test_the_shell_goes_on_where_the_command_ended(agent: CodingAgent) -> None:
    odd = agent.project / "odd" / "a b'$(touch x)\n"
    odd.mkdir(parents=True)
    assert agent.does("cd odd && exit 3").folder == f"{agent.project}/odd"
    assert agent.does("pwd").out == f"{agent.project}/odd\n"
    assert agent.does("cd a*").folder == str(odd)
    assert agent.does("cd ../..").folder == str(agent.project)
    assert agent.does("mkdir gone; cd gone; rmdir ../gone").folder == str(agent.project)
    assert agent.does("cd odd; trap 'echo own' EXIT").folder == str(agent.project)
    assert not list(agent.project.rglob("x"))


def test_a_folder_that_only_the_command_sees_is_not_gone_to(agent: CodingAgent) -> None:
    assert agent.does("mkdir -p /tmp/only-inside && cd /tmp/only-inside").folder == str(agent.project)


def test_no_program_inside_says_where_the_shell_goes_on(agent: CodingAgent) -> None:
    (agent.project / "elsewhere").mkdir()
    (agent.project / "forge.py").write_text(
        "import os\n"
        "os.chdir('elsewhere')\n"
        "for number in range(3, 256):\n"
        "    for text in (b'\\n', b'/etc/.'):\n"
        "        try:\n"
        "            os.write(number, text)\n"
        "        except OSError:\n"
        "            pass\n"
    )
    ran = agent.does("python3 forge.py; true")
    assert (ran.code, ran.folder) == (0, str(agent.project)), ran


def test_it_gets_what_the_hook_had_and_nothing_of_its_shell(agent: CodingAgent) -> None:
    agent.env["FROM_THE_HOOK"], agent.env["A_TOKEN"] = "yes", "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    line = replaced(agent.asked("echo $FROM_THE_HOOK-$A_TOKEN-$LATER; umask"))
    assert agent.run(f"umask 027; {line}", LATER="later", FROM_THE_HOOK="no").out == "yes--\n0027\n"
    assert "yes" in agent.does("bash -c 'read -t 5 x; echo $x$FROM_THE_HOOK'").out  # it has nothing to read


def test_what_it_leaves_running_ends_with_it(agent: CodingAgent) -> None:
    seconds = f"7{os.getpid()}"
    agent.does(f"(trap '' HUP TERM; sleep {seconds}) & echo $! > left")
    assert subprocess.run(["pgrep", "-f", f"sleep {seconds}"], capture_output=True).returncode == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals_are_the_commands(agent: CodingAgent, number: signal.Signals) -> None:
    (agent.project / "ready").unlink(missing_ok=True)
    (agent.project / "told").unlink(missing_ok=True)
    line = replaced(agent.asked("trap 'echo > told; exit 9' TERM INT; echo > ready; while :; do sleep 0.1; done"))
    word = line.partition("--permit ")[2].partition(" ")[0]
    with subprocess.Popen([*HLA, "exec", "--permit", word], env=agent.env) as process:
        until((agent.project / "ready").exists, "its start")
        process.send_signal(number)
        assert process.wait() == (-9 if number == signal.SIGKILL else 9)
    until((agent.project / "told").exists, "SIGTERM")  # SIGTERM comes first, however its caller went
    until(lambda: len(agent.told("exec.finished")) == 2, "its end in the log")


# Permits


def refused(agent: CodingAgent, line: str) -> str:
    """Why a line that uses a permit did not run anything."""
    ran = agent.run(line)
    assert (ran.code, ran.out, ran.folder) == (NOT_RUN, "", agent.cwd), ran
    return ran.err


@pytest.mark.long
def test_a_permit_is_good_for_one_execution(agent: CodingAgent) -> None:
    line = replaced(agent.asked("echo x >> once"))
    with ThreadPoolExecutor() as pool:
        codes = sorted(ran.code for ran in pool.map(lambda _: agent.run(line), range(4)))
    assert codes == [0, NOT_RUN, NOT_RUN, NOT_RUN]
    assert "already used" in refused(agent, line)
    assert (agent.project / "once").read_text() == "x\n"


@pytest.mark.long
def test_unknown_permits(agent: CodingAgent) -> None:
    line = replaced(agent.asked("true"))
    word = line.partition("--permit ")[2].partition(" ")[0]
    server, _, name = word.partition("-")
    assert "there is no such permit" in refused(agent, line.replace(name, "0" * 32))
    assert any(
        event["why"] == "there is no such permit" for event in agent.events() if event["type"] == "permit.refused"
    )
    assert "has ended" in refused(agent, line.replace(server, "0" * 8))
    for other in ("x", f"../{word}", f"{word}0", ""):
        assert "is no permit" in refused(agent, line.replace(word, f"'{other}'"))
    assert "stands alone" in refused(agent, line.replace(word, f"{word} -- ls"))
    assert agent.run(line).code == 0


def test_a_permit_of_another_session_and_of_another_user(agent: CodingAgent, ordinary_user: Callable[..., Any]) -> None:
    question = {**agent._common(), "hook_event_name": "PreToolUse", "tool_name": "Bash", "permission_mode": "default"}
    data = json.dumps({**question, "tool_use_id": "other", "tool_input": {"command": "echo x > made-by-other"}})
    hook = [*HLA, "hook", "claude-code", "--confine", "--deadline", "600"]
    ask = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[2:], input=sys.argv[1].encode()).returncode)"
    tool = [sys.executable, "-c", ask, data, *hook]  # a coding agent of its own, which has ended by now
    said = subprocess.run(tool, env=agent.env, capture_output=True, check=True).stdout
    line = json.loads(said)["hookSpecificOutput"]["updatedInput"]["command"]
    assert "another session" in refused(agent, line)
    assert not (agent.project / "made-by-other").exists()
    if os.getuid() == 0:
        word = replaced(agent.asked("echo x > made-by-other")).partition("--permit ")[2].partition(" ")[0]
        other = subprocess.run(
            [*ordinary_user("")[:-3], *HLA, "exec", "--permit", word], env=agent.env, capture_output=True, text=True
        )
        assert other.returncode == NOT_RUN, other
        assert not (agent.project / "made-by-other").exists()


def test_a_command_can_use_no_permit(agent: CodingAgent) -> None:
    (agent.project / "use.py").write_text(
        "import socket, sys\n"
        "folder, name, permit = sys.argv[1:]\n"
        "connection = socket.socket(socket.AF_UNIX)\n"
        "connection.connect(f'{folder}/{name}.sock')\n"
        "connection.sendall(b'32 1\\n' + permit.encode() + b'0')\n"
        "print('reached')\n"
    )
    word = replaced(agent.asked("echo x > stolen")).partition("--permit ")[2].partition(" ")[0]
    name, _, permit = word.partition("-")
    state = f"{agent.home}/.local/state"
    ran = agent.does(f"cp use.py other.py; F={state}/human; python3 other.py ${{F}}layer-agent/hooks {name} {permit}")
    assert ran.code != 0
    assert "reached" not in ran.out
    assert not (agent.project / "stolen").exists()


def test_what_was_judged_must_still_be_there(agent: CodingAgent) -> None:
    script = agent.project / "script.sh"
    script.write_text("echo one\n")
    line = replaced(agent.asked("bash script.sh"))
    script.write_text("echo two\n")
    assert "is not what was permitted" in refused(agent, line)


def test_a_wall_that_is_gone_by_then(own_agent: CodingAgent) -> None:
    line = replaced(own_agent.asked("echo x > made"))
    (mask,) = (own_agent.home / ".local/state/humanlayer-agent/moved-aside").rglob("hidden-file")
    mask.chmod(0o644)
    assert "would hide nothing" in refused(own_agent, line)
    assert not (own_agent.project / "made").exists()


def test_all_agents_are_stopped_by_then(own_agent: CodingAgent) -> None:
    line = replaced(own_agent.asked("echo x > made"))
    with closing(SQLiteStore(own_agent.store)) as store:
        store.halts.stop("os:1000:bob", "enough")
    assert "stopped" in refused(own_agent, line)
    assert not (own_agent.project / "made").exists()


def test_the_process_that_judged_is_gone_by_then(own_agent: CodingAgent) -> None:
    line = replaced(own_agent.asked("echo x > made"))
    own_agent.end()
    assert "has ended" in refused(own_agent, line)
    own_agent.asked("true")  # starts another one, which knows nothing of it
    assert "there is no such permit" in refused(own_agent, line)
    assert not (own_agent.project / "made").exists()


def test_a_permit_is_not_good_for_long(own_agent: CodingAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judge, "USE_BY_MS", 1)
    monkeypatch.setenv("HUMANLAYER_STORE", str(own_agent.store))
    for name in ("HOME", "CLAUDE_PROJECT_DIR"):
        monkeypatch.setenv(name, own_agent.env[name])
    body = {**CLAUDE, **own_agent._common(), "tool_name": "Bash", "tool_input": {"command": "true"}}
    judging = judge.Judge()
    hook = subprocess.Popen(["sleep", "600"])
    ours, theirs = socket.socketpair()
    try:
        question = Question(AGENTS["claude-code"], json.dumps(body).encode(), "0" * 64, b"", hook.pid)
        reply = judging.answer(question, judge.Options("tool", 50, confine=True), own_agent.env)
        permit = reply.command.partition("--permit ")[2].partition(" ")[0].partition("-")[2]
        judging.carry_out(permit, hook.pid, permits.Shell(theirs, 0o022))
        assert b"it did not run" in ours.recv(4096)
        assert own_agent.told("permit.refused")[0]["why"] == "the permit was not used in time"
    finally:
        hook.kill()
        hook.wait()
        ours.close()
        theirs.close()
        judging.close()


@pytest.mark.parametrize("policy", ["default", "strict", "ci", "sandbox"])
def test_no_model_may_type_it(policy: str) -> None:
    director = Director.load(policy, project="/srv/app")
    for way in WAYS_TO_TYPE_IT:
        for held in (True, False):
            decision = director.evaluate(Action(way.format("a" * 8), cwd="/srv/app"), held=held)
            assert decision.verdict is Verdict.DENY, (policy, way)


# Alarms


def test_what_ran_is_not_what_was_answered(agent: CodingAgent) -> None:
    replaced(agent.asked("echo one"))
    ended = agent.ended("echo one")  # its own command, although it has shown that it can do otherwise
    assert ended.code == 2
    assert "is not what its hook had answered" in ended.err
    (alarm,) = agent.told("hook.bypassed")
    assert alarm["command"] == "echo one"
    for call in (agent.asked("ls"), agent.ask("Read", {"file_path": "a"}, *agent.options, session_id=agent.session)):
        assert call.refused
        assert call.json["continue"] is False
    agent.end()
    assert agent.asked("ls").refused  # another process knows it by the log
    agent.begin()
    assert agent.asked("ls").verdict == "allow"


def test_a_permit_that_was_not_used(agent: CodingAgent) -> None:
    line = replaced(agent.asked("echo one"))
    ended = agent.ended(line)
    assert ended.code == 2
    assert "without using its permit" in ended.err
    assert agent.asked("ls").refused


def test_a_call_that_failed_may_not_have_started(agent: CodingAgent) -> None:
    line = replaced(agent.asked("echo one"))
    assert agent.ended(line, event="PostToolUseFailure").code == 0
    assert agent.asked("ls").verdict == "allow"


def test_a_command_in_the_background_may_start_later(agent: CodingAgent) -> None:
    line = replaced(agent.asked("true"))
    with ThreadPoolExecutor() as pool:
        ended = pool.submit(agent.ended, line, run_in_background=True)
        assert agent.run(line).code == 0
        assert ended.result().code == 0


def test_a_tool_that_drops_what_it_is_answered_is_not_confined(own_agent: CodingAgent) -> None:
    """https://github.com/anthropics/claude-code/issues/32348: it ran the original command, allowed as it was."""
    copy = own_agent.unread()
    assert own_agent.asked(f"{copy} a b").verdict == "ask"  # allowed only if it is held, and nobody knows yet
    assert own_agent.asked("ls").verdict == "allow"
    ended = own_agent.ended("ls")
    assert (ended.code, ended.out) == (0, "")
    answered = own_agent.asked("ls")
    assert "updatedInput" not in answered.json["hookSpecificOutput"]
    assert own_agent.asked(f"{copy} a b").verdict == "ask"
    assert "runs its own commands" in own_agent.told("hook.unconfined")[0]["why"]


# Conditions


def unconfined(agent: CodingAgent) -> str:
    """Why commands are not replaced."""
    answered = agent.asked("ls")
    assert answered.verdict == "allow"
    assert "updatedInput" not in answered.json["hookSpecificOutput"]
    agent.asked("ls")
    (told,) = agent.told("hook.unconfined")  # said once
    return str(told["why"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("place", ["user", "project", "local"])
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"permissions": {"deny": ["Bash(rm:*)"]}}, "'Bash(rm:*)' of permissions.deny"),
        ({"permissions": {"ask": ["Bash"]}}, "'Bash' of permissions.ask"),
        ({"permissions": {"deny": ["*"]}}, "'*' of permissions.deny"),
        ({"permissions": {"deny": "Bash"}}, "'Bash' of permissions.deny"),
        ({"permissions": {"deny": [7]}}, "permissions.deny"),
        ({"sandbox": {"enabled": True}}, "its own sandbox"),
        ({"enabledPlugins": {"a@b": True}}, "plugins can bring hooks"),
        (
            {"hooks": {"PreToolUse": [{"matcher": "Ba.*", "hooks": [{"type": "command", "command": "x"}]}]}},
            "another hook",
        ),
        ({"hooks": {"PreToolUse": [{"hooks": []}]}}, "another hook"),
        ({"hooks": {"PreToolUse": {"matcher": "("}}}, "another hook"),
    ],
)
def test_settings_that_keep_commands_as_they_are(
    agent: CodingAgent, settings: dict[str, Any], why: str, place: str
) -> None:
    path = agent.project / ".claude" / ("settings.json" if place == "project" else "settings.local.json")
    path.parent.mkdir(exist_ok=True)
    if place == "user":
        path, own = agent.settings, json.loads(agent.settings.read_text())
        mixed = {**own, **settings, "hooks": {**own["hooks"]}}
        found = settings.get("hooks", {}).get("PreToolUse", [])
        mixed["hooks"]["PreToolUse"] = [*own["hooks"]["PreToolUse"], *(found if isinstance(found, list) else [found])]
        settings = mixed
    path.write_text(json.dumps(settings))
    try:
        assert why in unconfined(agent)
    finally:
        path.unlink()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("{", "can't be read"),
        ("[]", "can't be read"),
        ('{"env": {"PATH": "/nowhere/bin"}}', "the project sets PATH"),
        ('{"env": {"LD_PRELOAD": "./x.so", "NODE_ENV": "test"}}', "the project sets LD_PRELOAD"),
    ],
)
def test_settings_of_a_hostile_project(agent: CodingAgent, settings: str, why: str) -> None:
    path = agent.project / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(settings)
    try:
        assert why in unconfined(agent)
    finally:
        path.unlink()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "line",
    [
        "evil; {}",
        "{} # humanlayer_agent.cli hook claude-code --confine || exit 2",
        "/nowhere/python -I -m humanlayer_agent.cli hook claude-code --confine || exit 2",
        f"{sys.executable} -I -m humanlayer_agent.cli hook claude-code --policy $(evil) || exit 2",
    ],
)
def test_a_hook_that_only_looks_like_ours(agent: CodingAgent, line: str) -> None:
    (entry,) = json.loads(agent.settings.read_text())["hooks"]["PreToolUse"]
    ours = entry["hooks"][0]["command"]
    entry["hooks"][0]["command"] = line.format(ours)
    path = agent.project / ".claude" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    try:
        assert "another hook" in unconfined(agent)
    finally:
        path.unlink()


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("settings", "confined"),
    [
        ({"permissions": {"allow": ["Bash(ls:*)"], "deny": ["Read(.env)", "mcp__x__*"]}}, True),
        ({"sandbox": {"enabled": False}, "enabledPlugins": {"a@b": False}}, True),
        ({"hooks": {"PreToolUse": [{"matcher": "Write|Edit", "hooks": []}], "Stop": [{"hooks": []}]}}, True),
    ],
)
def test_settings_that_change_nothing(agent: CodingAgent, settings: dict[str, Any], confined: bool) -> None:
    path = agent.project / ".claude" / "settings.local.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(settings))
    try:
        assert agent.does("true").code == 0
    finally:
        path.unlink()


def test_without_a_hook_that_hears_of_the_end(agent: CodingAgent) -> None:
    settings = json.loads(agent.settings.read_text())
    del settings["hooks"]["PostToolUse"]
    agent.settings.write_text(json.dumps(settings))
    assert "no hook of ours hears" in unconfined(agent)


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["plan", "a-mode-of-tomorrow", 7])
def test_modes_in_which_nothing_is_replaced(agent: CodingAgent, mode: object) -> None:
    answered = agent.asked("ls", permission_mode=mode)
    assert "updatedInput" not in answered.out
    assert "permission mode" in agent.told("hook.unconfined")[0]["why"]


def test_another_shell_gets_no_command_of_ours(agent: CodingAgent) -> None:
    answered = agent.asked("ls", env={**agent.env, "CLAUDE_CODE_SHELL": str(agent.project / "bash")})
    assert answered.verdict == "ask"
    assert "updatedInput" not in answered.out


@pytest.mark.long
def test_who_judges_alone_keeps_no_permit(own_agent: CodingAgent) -> None:
    assert own_agent.asked("ls").verdict == "allow"
    (socket_,) = own_agent.folder.glob("*.sock")
    own_agent.end()
    socket_.unlink()
    socket_.mkdir()  # nobody can listen there
    answered = own_agent.asked("ls", deadline=600)
    assert "updatedInput" not in answered.out


# What is asked about


def test_the_tools_own_prompt_is_about_the_command_itself(agent: CodingAgent) -> None:
    answered = agent.asked("cat /srv/other/file")
    assert answered.verdict == "ask"
    assert "updatedInput" not in answered.out
    assert agent.asked("rm -rf /").verdict == "deny"


@pytest.fixture
def waiting_agent(own_agent: CodingAgent, monkeypatch: pytest.MonkeyPatch) -> CodingAgent:
    """One of a person who has run `hla init`, and is asked by channels."""
    make_key(own_agent.home / ".local/share/humanlayer-agent/signing.key")
    env = {**own_agent.env, PASSPHRASE_VARIABLE: str(passphrase_file(own_agent.home))}
    children.run([*HLA, "init", "--yes"], env=env, cwd=own_agent.project, check=True, capture_output=True)
    monkeypatch.setenv("HOME", str(own_agent.home))
    monkeypatch.delenv("HUMANLAYER_STORE", raising=False)
    own_agent.options = ["--confine", "--ask", "wait"]
    assert own_agent.does("true").code == 0
    return own_agent


def approve(agent: CodingAgent, about: str, kind: AnswerKind = "approve", **more: str) -> None:
    """A human answers the request about a command, as `hla requests` does."""
    with closing(SQLiteStore(agent.store)) as store:
        pending = until(
            lambda: [each for each in store.requests(state="pending") if about in each.action.content], "the request"
        )
        authority = build_authority()
        assert authority is not None
        signer = build_signer(authority)
        assert signer is not None
        signer.unlock(PASSPHRASE)
        who = Approver(os_user(), "test", "terminal")
        answer = Answer(kind, who, pending[0].digest, os.urandom(8).hex(), **more)
        assert store.decide(pending[0].id, answer, authority, signer).outcome == "recorded"


def test_what_a_human_approves_runs_confined_and_reaches_that(waiting_agent: CodingAgent) -> None:
    agent = waiting_agent
    (agent.project / "page").write_text("served\n")
    with ThreadPoolExecutor() as pool, http.server.ThreadingHTTPServer(("127.0.0.1", 0), Served) as server:
        pool.submit(server.serve_forever)
        command = f"curl -s http://127.0.0.1:{server.server_port}/page; curl -s http://127.0.0.1:1/; echo $?"
        asked = pool.submit(agent.asked, command.partition(";")[0])
        approve(agent, "page")
        answered = asked.result()
        assert "network by forwarder" in answered.reason
        line = replaced(answered)
        ran = agent.run(line)
        server.shutdown()
    assert (ran.code, ran.out) == (0, "served\n"), ran
    assert agent.ended(line).code == 0
    events = [event["type"] for event in agent.told("exec.finished") + agent.told("permit.consumed")]
    assert events == ["exec.finished", "exec.finished", "permit.consumed", "permit.consumed"]


def test_what_a_human_makes_of_it_runs(waiting_agent: CodingAgent) -> None:
    agent = waiting_agent
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(agent.asked, "curl -s http://127.0.0.1:9/page")
        approve(agent, "page", "edit", edited="echo instead")
        answered = asked.result()
    assert agent.run(replaced(answered)).out == "instead\n"


def test_asking_nobody(agent: CodingAgent) -> None:
    agent.options = ["--confine", "--ask", "deny"]
    try:
        agent.begin()
        assert agent.does("true").code == 0
        assert agent.asked("cat /srv/other/file").verdict == "deny"
    finally:
        agent.options = ["--confine"]


def test_it_is_not_offered_for_others(agent: CodingAgent) -> None:
    answered = agent.gemini("run_shell_command", {"command": "ls"}, "--confine")
    assert answered.code == 2
    assert "not offered" in answered.err
