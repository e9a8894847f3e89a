"""The real Copilot CLI, OpenCode and Cline, where they are installed (`make test-doors`), with what `hla init` writes for them."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

import pytest

from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.hooks.hook_settings import hook_entry, plugin_text, settings_path
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import PATIENCE
from tests.hooks.conftest import COMMANDS, Machine, inputs_of
from tests.hooks.model import INNER, Call, Model, scripted

PROGRAMS = Path(__file__).parents[2] / "build/doors/node_modules/.bin"
LINES = {
    "copilot": ["-p", "go on", "--allow-all-tools", "--no-color"],
    "opencode": ["run", "go on"],
    "cline": ["--json", "-P", "openai-compatible", "-m", "any", "go on"],
}
ENDS = {"cline"}
"""They end their work where one call is denied."""


def installed(machine: Machine, agent: str) -> None:
    """Our hook, as `hla init` writes it, with time enough for a busy machine."""
    path = settings_path(AGENTS[agent], machine.env)
    path.parent.mkdir(parents=True, exist_ok=True)
    if AGENTS[agent].entry == "plugin":
        text = plugin_text(AGENTS[agent], "deny").replace("= 60000", "= 600000").replace('"50"', '"590"')
    else:
        entry = hook_entry(AGENTS[agent], AGENTS[agent].asks[0])
        entry = {**entry, "bash": entry["bash"].replace("--deadline 50", "--deadline 590"), "timeoutSec": 600}
        text = json.dumps({"version": 1, "hooks": {"preToolUse": [entry]}})
    path.write_text(text)
    path.chmod(0o700)


def environ(machine: Machine, agent: str, model: type[Model]) -> dict[str, str]:
    url = f"http://127.0.0.1:{model.port}/v1"
    if agent == "copilot":
        more = {"COPILOT_PROVIDER_BASE_URL": url, "COPILOT_MODEL": "any", "COPILOT_PROVIDER_API_KEY": "x"}
        return {**machine.env, **more, "COPILOT_OFFLINE": "true", "COPILOT_PROJECT_DIR": ""}
    if agent == "cline":
        login = ["auth", "-p", "openai-compatible", "-k", "x", "-m", "any", "-b", url]
        subprocess.run(
            [PROGRAMS / agent, *login], env=machine.env, stdin=subprocess.DEVNULL, capture_output=True, check=True
        )
        return machine.env
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": url, "apiKey": "x"},
        "models": {"any": {"name": "any", "tool_call": True}},
    }
    settings = {"autoupdate": False, "share": "disabled", "provider": {"x": provider}}
    settings |= {"model": "x/any", "small_model": "x/any", "permission": {"external_directory": "allow"}}
    path = settings_path(AGENTS[agent], machine.env).parents[1] / "opencode.json"
    path.write_text(json.dumps(settings))
    return {**machine.env, "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def drives(
    machine: Machine, agent: str, *calls: Call, inner: Sequence[Call] = (), shell: str = "/bin/bash"
) -> list[str]:
    """Have the real program make calls; what its model was told of each."""
    program = PROGRAMS / agent
    if not program.exists():
        pytest.skip(f"allowed in CI: {AGENTS[agent].title} is not installed (make test-doors)")
    subprocess.run(["git", "init", "-q", machine.project], check=True)
    installed(machine, agent)
    with scripted(*calls, inner=inner) as model:
        try:
            subprocess.run(
                [program, *LINES[agent]],
                cwd=machine.project,
                env={**environ(machine, agent, model), "SHELL": shell, "PWD": str(machine.project)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
                check=agent not in ENDS,
            )
        finally:
            end_what_is_left(machine)
        assert model.called, "it did not come to its first call"
        return list(model.heard)


def end_what_is_left(machine: Machine) -> None:
    """End what an agent left running: Cline leaves a daemon."""
    home = b"HOME=" + os.fsencode(machine.home)
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (
                home in (folder / "environ").read_bytes().split(b"\0")
                and b"daemon" in (folder / "cmdline").read_bytes()
            ):
                os.kill(int(folder.name), signal.SIGKILL)


def command(agent: str, line: str) -> Call:
    return COMMANDS[agent], {**inputs_of(agent, line), **({"description": "x"} if agent == "copilot" else {})}


def other_calls(agent: str, machine: Machine) -> list[Call]:
    """A file that may be read, one that may not, one that may be written, one that may not."""
    (machine.project / "notes.txt").write_text("ours\n")
    (machine.project / ".env").write_text("KEY=secret-value\n")
    outside = str(machine.home / ".profile")
    if agent == "copilot":
        return [
            ("view", {"path": str(machine.project / "notes.txt")}),
            ("view", {"path": str(machine.project / ".env")}),
            ("create", {"path": str(machine.project / "made.txt"), "file_text": "x"}),
            ("create", {"path": outside, "file_text": "x"}),
        ]
    return [
        ("read", {"filePath": str(machine.project / "notes.txt")}),
        ("read", {"filePath": str(machine.project / ".env")}),
        ("write", {"filePath": str(machine.project / "made.txt"), "content": "x"}),
        ("write", {"filePath": outside, "content": "x"}),
    ]


@pytest.mark.long
@pytest.mark.parametrize("agent", sorted(LINES.keys() - ENDS))
def test_what_is_allowed_runs_and_nothing_else(new_machine: Callable[[], Machine], agent: str) -> None:
    machine = new_machine()
    canary = machine.home / ".bashrc"
    canary.write_text("")
    heard = drives(
        machine,
        agent,
        command(agent, "echo one; exit 3"),
        command(agent, f"rm {canary}"),
        command(agent, 'echo "version $BASH_VERSION" | cut -c1-9'),
        command(agent, "hla requests approve 1"),
        *other_calls(agent, machine),
        shell="/bin/sh",
    )
    assert len(heard) == 8, heard
    assert "one" in heard[0]
    assert canary.exists()
    assert "version 5" in heard[2]
    assert "humans" in heard[3]
    assert "ours" in heard[4]
    assert not any("secret-value" in each for each in heard)
    assert (machine.project / "made.txt").read_text() == "x"
    assert not (machine.home / ".profile").exists()
    assert sum(each["type"] == "exec.started" for each in machine.events()) == 4


@pytest.mark.long
def test_what_copilot_lets_last_between_calls(new_machine: Callable[[], Machine]) -> None:
    """What is taken for granted in the catalog of tools: no call of bash, and no sql, changes what the next one does."""
    machine = new_machine()
    (machine.project / "sub").mkdir()
    other = machine.project / "other.db"

    def bash(line: str) -> Call:
        return "bash", {"command": line, "description": "x", "shellId": "a"}

    def sql(query: str) -> Call:
        return "sql", {"query": query, "description": "x"}

    heard = drives(
        machine,
        "copilot",
        bash("cd sub; X=1; export X; pwd"),
        bash('echo "$PWD:$X:"'),
        sql("select 1"),
        sql(f"attach '{other}' as x; create table x.t (a)"),
        sql(f"vacuum into '{other}'"),
    )
    assert f"{machine.project}/sub" in heard[0]
    assert f"{machine.project}::" in heard[1]
    assert "1 row" in heard[2]
    assert not other.exists()


@pytest.mark.long
def test_cline_ends_with_what_is_denied(new_machine: Callable[[], Machine]) -> None:
    machine = new_machine()
    canary = machine.home / ".bashrc"
    canary.write_text("")
    (machine.project / "notes.txt").write_text("ours\n")
    heard = drives(
        machine,
        "cline",
        ("run_commands", {"commands": ["echo one", 'echo "version $BASH_VERSION" | cut -c1-9']}),
        ("read_files", {"files": [{"path": str(machine.project / "notes.txt")}]}),
        ("editor", {"path": str(machine.project / "made.txt"), "new_text": "x"}),
        ("run_commands", {"commands": ["echo two", f"rm {canary}"]}),
        command("cline", "touch after"),
        shell="/bin/sh",
    )
    assert len(heard) == 3, heard
    assert "one" in heard[0]
    assert "version 5" in heard[0]
    assert "ours" in heard[1]
    assert (machine.project / "made.txt").read_text().strip() == "x"
    assert canary.exists()
    assert not (machine.project / "after").exists()


SUB_AGENTS: dict[str, Call] = {
    "copilot": ("task", {"description": "x", "prompt": INNER, "agent_type": "general-purpose", "name": "sub"}),
    "opencode": ("task", {"description": "x", "prompt": INNER, "subagent_type": "general"}),
    "cline": ("spawn_agent", {"systemPrompt": "You help.", "task": INNER}),
}
"""The calls that start a sub-agent: they are left alone, because what it does it does by calls."""


@pytest.mark.long
@pytest.mark.parametrize("agent", SUB_AGENTS)
def test_the_calls_of_a_sub_agent_are_asked_about_too(new_machine: Callable[[], Machine], agent: str) -> None:
    machine = new_machine()
    canary = machine.home / ".bashrc"
    canary.write_text("")
    drives(machine, agent, SUB_AGENTS[agent], inner=[command(agent, "touch made"), command(agent, f"rm {canary}")])
    judged = [e["command"] for e in machine.events() if e["type"] == "decision.evaluated"]
    assert judged == ["touch made", f"rm {canary}"]
    assert (machine.project / "made").exists()
    assert canary.exists()


@pytest.mark.long
@pytest.mark.parametrize("agent", LINES)
def test_nothing_is_done_once_all_agents_are_stopped(new_machine: Callable[[], Machine], agent: str) -> None:
    machine = new_machine()
    assert machine.asked_by(agent, COMMANDS[agent], inputs_of(agent, "ls")).verdict in ("allow", "")
    with closing(SQLiteStore(machine.store)) as store:
        store.halts.stop("os:1000:bob", "enough")
    drives(machine, agent, command(agent, "touch made"))
    assert not (machine.project / "made").exists()


@pytest.mark.long
@pytest.mark.parametrize("agent", LINES)
def test_nothing_is_done_where_the_hook_can_not_be_started(
    new_machine: Callable[[], Machine], agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = new_machine()
    monkeypatch.setattr("tests.hooks.test_doors.installed", lambda machine, agent: broken(machine, agent))
    drives(machine, agent, command(agent, "touch made"))
    assert not (machine.project / "made").exists()


def broken(machine: Machine, agent: str) -> None:
    path = settings_path(AGENTS[agent], machine.env)
    path.parent.mkdir(parents=True, exist_ok=True)
    if AGENTS[agent].entry == "plugin":
        path.write_text(plugin_text(AGENTS[agent], "deny", "/nowhere/python"))
        path.chmod(0o700)
    else:
        entry = hook_entry(AGENTS[agent], AGENTS[agent].asks[0], "/nowhere/python")
        path.write_text(json.dumps({"version": 1, "hooks": {"preToolUse": [entry]}}))


def test_the_plugin_is_a_module(tmp_path: Path) -> None:
    import shutil

    node = shutil.which("node")
    if node is None:
        pytest.skip("allowed in CI: there is no node")
    (tmp_path / "plugin.mjs").write_text(plugin_text(AGENTS["opencode"], "deny"))
    code = "import('./plugin.mjs').then(m => console.log(Object.keys(m).join()))"
    done = subprocess.run([node, "-e", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("HumanlayerAgent\n", "")
