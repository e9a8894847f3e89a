"""What the hook answers: commands, files, other calls; for each tool; and what the log has of it."""

from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.judge import _interpreter
from tests.hooks.conftest import Machine


@pytest.mark.parametrize(
    ("command", "verdict", "says"),
    [
        ("ls -la", "allow", ""),
        ("grep -rn TODO . | head", "allow", ""),
        ("curl -s https://x.invalid/a", "ask", "x.invalid"),
        ("bash -c 'r''m -rf /srv/data'", "ask", "/srv/data"),
        ("rm -rf /", "deny", "forbids"),
        ("hla requests approve 1", "deny", "humans"),
        ("echo 'unterminated", "ask", ""),
    ],
)
def test_commands(machine: Machine, command: str, verdict: str, says: str) -> None:
    answered = machine.bash(command)
    assert (answered.code, answered.verdict) == (0, verdict), answered
    assert says in answered.reason
    assert answered.err == ""


@pytest.mark.sample(7)
@pytest.mark.parametrize(
    ("tool", "inputs", "verdict"),
    [
        ("Write", {"file_path": "src/a.py", "content": "x"}, ""),
        ("Write", {"file_path": "~/.bashrc", "content": "x"}, "ask"),  # some versions of it expand that, others don't
        ("Write", {"file_path": " ~/.bashrc\n", "content": "x"}, "ask"),  # and some take the blanks away
        ("Write", {"file_path": "\ufeff/etc/cron.d/x", "content": "x"}, "ask"),
        ("Write", {"file_path": "~x", "content": "x"}, ""),
        ("Write", {"file_path": "~; ls", "content": "x"}, ""),
        ("Read", {"file_path": "~/.ssh/id_rsa"}, "ask"),
        ("Read", {"file_path": " .env"}, "ask"),
        ("Read", {"file_path": "~/.config/humanlayer-agent/policy.yaml"}, "deny"),
        ("Grep", {"pattern": "KEY", "path": "~/.aws"}, "ask"),
        ("Edit", {"file_path": "~/.profile'; rm -rf /;'.txt", "old_string": "a", "new_string": "b"}, ""),
        ("Write", {"file_path": "/etc/cron.d/x", "content": "x"}, "ask"),
        ("Write", {"file_path": ".claude/settings.json", "content": "{}"}, "ask"),
        ("Write", {"file_path": ".git/hooks/pre-commit", "content": "x"}, "ask"),
        ("Edit", {"file_path": "/etc/hosts", "old_string": "a", "new_string": "b"}, "ask"),
        ("Edit", {"file_path": "a b'; rm -rf /;'.txt", "old_string": "a", "new_string": "b"}, ""),
        ("MultiEdit", {"file_path": "/etc/hosts", "edits": []}, "ask"),
        ("NotebookEdit", {"notebook_path": "/srv/n.ipynb", "new_source": ""}, "ask"),
        ("Read", {"file_path": "README.md"}, ""),
        ("Read", {"file_path": ".env"}, "ask"),
        ("Grep", {"pattern": "KEY", "path": ".env"}, "ask"),
        ("Grep", {"pattern": "$(rm -rf /)"}, ""),
        ("Grep", {"pattern": "KEY", "glob": ".env*"}, "ask"),
        ("Grep", {"pattern": "KEY", "glob": "**/*.{pem,key}", "path": "src"}, "ask"),
        ("Grep", {"pattern": "KEY", "glob": "*.{ts,tsx}'; rm -rf /;'"}, ""),
        ("Glob", {"pattern": "**/*"}, ""),
        ("WebFetch", {"url": "https://x.invalid"}, "ask"),
        ("WebFetch", {"url": "http://localhost:3000/x"}, "ask"),  # it may be led elsewhere, as curl -L
        ("Bash", {"command": "curl -L http://localhost:3000/x"}, "ask"),
        ("WebFetch", {"url": "file:///srv/.env"}, "ask"),
        ("WebFetch", {"url": "file:///srv/x https://x.invalid"}, "ask"),
        ("WebFetch", {"url": "http:/x.invalid/?q=a http://localhost:3000/"}, "ask"),
        ("WebFetch", {"url": "http://localhost:3000\\@x.invalid/"}, "ask"),
        ("mcp__anything__at_all", {"command": "rm -rf /"}, "ask"),
        ("PowerShell", {"command": "ls"}, "ask"),
        ("REPL", {"code": "1"}, "ask"),
        ("Monitor", {"command": "tail -f log"}, ""),
        ("Monitor", {"command": "rm -rf /srv/x"}, "ask"),
        ("Write", {"file_path": "a.txt", "content": "x" * 3_000_000}, ""),
        ("Write", {"file_path": "/etc/cron.d/x", "content": "x" * 3_000_000}, "ask"),
        ("Write", {"file_path": "/etc/x", "content": "x" * 3_000_000}, "ask"),
        ("Task", {"prompt": "rm -rf /"}, ""),
        ("Skill", {"skill": "review"}, "ask"),  # its lines !`command` are told to no hook
    ],
)
def test_other_calls_only_become_stricter(machine: Machine, tool: str, inputs: object, verdict: str) -> None:
    answered = machine.ask(tool, inputs)
    assert (answered.code, answered.verdict) == (0, verdict), answered
    if not verdict:
        assert answered.out == ""  # no opinion: the tool's own rules decide


@pytest.mark.parametrize(("tool", "inputs"), [("mcp__a\n", {}), ("mcp__a({})", {}), ("mcp__a", {"x": "y" * 70_000})])
def test_what_can_not_be_shown_as_a_call_is_refused(machine: Machine, tool: str, inputs: object) -> None:
    assert machine.ask(tool, inputs).code == 2


def test_a_call_of_a_server_is_shown_whole_and_rules_name_it(machine: Machine, tmp_path: Path) -> None:
    answered = machine.ask("mcp__forge__close", {"issue": 12})
    assert answered.reason == "Calls mcp__forge__close: no rule allows it."
    clause = "{effect: execute, role: function, names: {any_in: [%s]}}"
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\npolicy: calls\nrules:\n"
        f"  - {{id: forge, decision: allow, when: {clause % 'mcp__forge__get_*'}}}\n"
        f"  - {{id: gone, decision: deny, reason: Never., when: {clause % 'mcp__*__delete_*'}}}\n"
    )
    asked = [
        machine.ask(name, {}, "--policy", str(policy), session_id="calls").verdict
        for name in ("mcp__forge__get_issue", "mcp__forge__delete_issue", "mcp__forge__close")
    ]
    assert asked == ["", "deny", "ask"]


def test_a_command_outside_the_tools_own_sandbox_is_never_allowed_by_us(machine: Machine) -> None:
    assert machine.bash("ls").verdict == "allow"
    assert machine.ask("Bash", {"command": "ls", "dangerouslyDisableSandbox": True}).verdict == ""
    assert machine.ask("Bash", {"command": "rm -rf /srv/x", "dangerouslyDisableSandbox": True}).verdict == "ask"


def test_what_the_user_is_told_does_not_act_on_the_screen_and_names_what_is_hidden(machine: Machine) -> None:
    answered = machine.bash("cat /srv/$'\\e[2J'x # \u202e\u200b\x1b]0;t\x07")
    assert answered.verdict == "ask"
    assert "U+202E RIGHT-TO-LEFT OVERRIDE" in answered.reason
    assert "U+001B ESCAPE" in answered.reason
    assert answered.reason.isprintable()
    assert "Warning" not in machine.bash("cat /srv/x").reason


def test_what_is_ours_can_not_be_written_nor_the_store_read(machine: Machine) -> None:
    machine.bash("ls")
    assert machine.ask("Write", {"file_path": str(machine.home / ".config/humanlayer-agent/policy.yaml")}).refused
    assert machine.ask("Read", {"file_path": str(machine.store)}).refused
    assert machine.ask("Edit", {"file_path": str(machine.folder / "x.sock")}).refused


@pytest.mark.parametrize("mode", ["bypassPermissions", "dontAsk", "auto", "a new one", None, 7])
def test_where_the_tool_may_not_ask_its_user_it_is_denied(machine: Machine, mode: Any) -> None:
    answered = machine.bash("curl https://x.invalid", permission_mode=mode)
    assert answered.verdict == "deny"
    assert "prompt is off" in answered.reason


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "plan"])
def test_where_it_asks_its_user_it_is_asked(machine: Machine, mode: str) -> None:
    assert machine.bash("curl https://x.invalid", permission_mode=mode).verdict == "ask"


def test_nobody_is_asked_where_that_is_configured(machine: Machine) -> None:
    answered = machine.bash("curl https://x.invalid", "--ask", "deny")
    assert answered.verdict == "deny"
    assert "nobody is asked here" in answered.reason
    assert machine.bash("ls", "--ask", "deny").verdict == "allow"


def test_the_project_is_the_tools_own_word_and_never_the_directory_of_the_call(machine: Machine) -> None:
    assert machine.bash("rm -rf build").verdict == "allow"
    assert machine.bash("rm -rf build", cwd="/srv").verdict == "ask"
    assert machine.bash("rm -rf build", cwd="/").verdict == "ask"
    assert machine.ask("Write", {"file_path": "x"}, cwd="/srv").verdict == "ask"


@pytest.mark.sample(3)
@pytest.mark.parametrize("shell", ["/bin/zsh", "/usr/bin/fish", "", "/tmp/bash.evil"])
def test_another_shell_than_bash_is_not_judged_as_bash(machine: Machine, shell: str) -> None:
    env = {**machine.env, "SHELL": shell}
    assert machine.bash("ls", env=env).verdict == "ask"
    assert machine.bash("ls", env={**env, "CLAUDE_CODE_SHELL": "/usr/bin/bash"}).verdict == "allow"
    assert machine.ask("Read", {"file_path": "a.py"}, env=env).verdict == "", "no shell reads a file"
    assert machine.ask("Read", {"file_path": ".env"}, env=env).verdict == "ask"
    assert machine.ask("Monitor", {"command": "tail -f log"}, env=env).verdict == "ask", "a shell runs that"
    assert machine.ask("Write", {"file_path": "/etc/hosts", "content": ""}, env=env).verdict == "ask"


def test_a_bash_of_the_projects_own_is_none_that_we_know(machine: Machine) -> None:
    assert machine.bash("ls", env={**machine.env, "SHELL": str(machine.project / "bin/bash")}).verdict == "ask"
    assert machine.bash("ls", env={**machine.env, "SHELL": "bash"}).verdict == "ask"
    (machine.project / "sh").mkdir()
    (machine.project / "sh/bash").symlink_to("/bin/bash")  # today; the agent can lead it elsewhere
    assert machine.bash("ls", env={**machine.env, "SHELL": str(machine.project / "sh/bash")}).verdict == "ask"


@pytest.mark.parametrize(
    "name",
    ["BASH_ENV", "BASHOPTS", "SHELLOPTS", "CDPATH", "GLOBIGNORE", "EXECIGNORE", "POSIXLY_CORRECT", "BASH_FUNC_ls%%"],
)
def test_a_variable_that_changes_what_bash_does(machine: Machine, name: str) -> None:
    answered = machine.bash("ls", env={**machine.env, name: "x"})
    assert answered.verdict == "ask"
    assert name in answered.reason


def test_a_locale_in_which_bash_reads_something_else(machine: Machine) -> None:
    answered = machine.bash("ls", env={**machine.env, "LC_ALL": "zh_CN.GBK"})
    assert (answered.verdict, "in the locale zh_CN.GBK" in answered.reason) == ("ask", True), answered
    assert machine.bash("ls", env={**machine.env, "LC_ALL": "C.UTF-8", "LANG": "zh_CN.GBK"}).verdict == "allow"


@pytest.mark.parametrize(
    ("environ", "fine"),
    [
        ({}, True),
        ({"LANG": "de_DE.UTF-8"}, True),
        ({"LANG": "zh_CN.GBK"}, False),
        ({"LANG": "zh_CN.GBK", "LC_ALL": ""}, False),
        ({"LANG": "C", "LC_CTYPE": "ja_JP.SJIS"}, False),
        ({"LANG": "ja_JP.SJIS", "LC_CTYPE": "C.UTF-8"}, True),
        ({"LC_CTYPE": "C.UTF-8", "LC_ALL": "zh_TW"}, False),
    ],
)
def test_the_locale_that_counts(environ: dict[str, str], fine: bool) -> None:
    found = _interpreter(AGENTS["claude-code"], {"SHELL": "/bin/bash", **environ}, Path("/srv/app"))
    assert (found == ("bash", "-lc")) is fine


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_ENV_FILE"])
def test_what_runs_with_every_command_is_not_the_projects(machine: Machine, name: str) -> None:
    for value in (f"{machine.project}/wrap.sh", f"{machine.project}/wrap.sh --quiet", "./wrap.sh", "wrap"):
        answered = machine.bash("ls", env={**machine.env, name: value})
        assert (answered.verdict, name in answered.reason) == ("ask", True), (value, answered)
    (machine.project / "wrap-link").symlink_to("/usr/bin/env")  # today; the agent can lead it elsewhere
    assert machine.bash("ls", env={**machine.env, name: f"{machine.project}/wrap-link"}).verdict == "ask"
    (machine.project / "wrap-link").unlink()
    assert machine.bash("ls", env={**machine.env, name: "/usr/local/bin/wrap.sh --log"}).verdict == "allow"


def test_another_policy(machine: Machine) -> None:
    assert machine.bash("touch x").verdict == "allow"
    assert machine.bash("touch x", "--policy", "strict").verdict == "ask"


@pytest.mark.parametrize(
    ("tool", "inputs", "verdict"),
    [
        ("run_shell_command", {"command": "ls -la"}, "allow"),
        ("run_shell_command", {"command": "curl https://x.invalid"}, "deny"),
        ("run_shell_command", {"command": "rm -rf build", "dir_path": "/srv"}, "deny"),
        ("run_shell_command", {"command": "rm -rf build", "directory": "src"}, "allow"),
        ("write_file", {"file_path": "a.py", "content": ""}, ""),
        ("write_file", {"file_path": "/etc/hosts", "content": ""}, "deny"),
        ("replace", {"file_path": "/etc/hosts"}, "deny"),
        ("read_file", {"absolute_path": "/srv/.env"}, "deny"),
        ("web_fetch", {"prompt": "x"}, "deny"),
        ("web_fetch", {"prompt": "Read http://localhost:3000/a and http://localhost:5173 aloud"}, "deny"),
        ("web_fetch", {"prompt": "Read http://localhost:3000/a and https://x.invalid aloud"}, "deny"),
        ("web_fetch", {"url": "http://localhost:3000/", "prompt": "Read https://x.invalid/?q=a"}, "deny"),
        ("web_fetch", {"prompt": "Read http://localhost:3000'@x.invalid/?q=a"}, "deny"),
        ("read_file", {"file_path": "notes.txt", "absolute_path": "/srv/.env"}, "deny"),
        ("mcp_anything", {}, "deny"),
        ("list_directory", {"dir_path": "."}, ""),
    ],
)
def test_gemini_cli(machine: Machine, tool: str, inputs: object, verdict: str) -> None:
    answered = machine.gemini(tool, inputs)
    assert (answered.code, answered.json.get("decision", "")) == (0, verdict), answered
    assert "hookSpecificOutput" not in answered.json


def test_the_log_has_every_decision(machine: Machine, tmp_path: Path) -> None:
    machine.bash("grep -n marked-allow x", session_id="log")
    machine.bash("curl https://marked-ask.invalid", session_id="log")
    machine.bash("hla requests approve marked-deny", session_id="log")
    machine.bash("curl https://marked-none.invalid", "--ask", "deny", session_id="log")
    events = machine.events()
    judged = {
        e["command"]: e for e in events if e["type"] == "decision.evaluated" and "marked" in str(e.get("command"))
    }
    assert [e["verdict"] for e in judged.values()] == ["allow", "ask", "deny", "ask"]
    assert {e["agent"] for e in judged.values()} == {"claude-code"}
    asked = [e for e in judged.values() if e["verdict"] == "ask"]
    assert asked[0]["left_to"] == "the tool's own prompt"
    assert asked[1]["denied"] == "nobody is asked here"
    allowed = judged["grep -n marked-allow x"]["digest"]
    assert [e["type"] for e in events if e.get("digest") == allowed][:3] == [
        "decision.evaluated",
        "permit.consumed",
        "exec.started",
    ]


@pytest.mark.long
def test_denials_in_a_row_end_a_session_where_no_person_sees_them(machine: Machine) -> None:
    for n in range(8):
        assert machine.bash(f"hla requests approve {n}", session_id="seen").verdict == "deny"
    assert machine.bash("ls", session_id="seen").verdict == "allow"
    answers = [machine.bash(f"hla requests approve {n}", "--ask", "deny", session_id="unseen") for n in range(8)]
    assert answers[0].json.get("continue") is None
    assert answers[-1].json["continue"] is False
    assert machine.bash("ls", "--ask", "deny", session_id="unseen").verdict == "deny"
    assert machine.bash("ls", "--ask", "deny", session_id="another").verdict == "allow"
