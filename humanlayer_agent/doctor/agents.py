"""The hooks of coding agents: where such an agent is set up here, whether it asks us before it runs something, and
whether a hook believes somebody else who answers it.
"""

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import Entry
from humanlayer_agent.doctor import attack
from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.hooks import client
from humanlayer_agent.hooks.coding_agents import AGENTS, CodingAgent
from humanlayer_agent.hooks.gateway.clients import kept_addresses
from humanlayer_agent.hooks.hook_settings import (
    kept_ask,
    lines_of,
    plugin_text,
    read_settings,
    settings_folder,
    settings_path,
)
from humanlayer_agent.hooks.obstacles import obstacles
from humanlayer_agent.locations import STORE_VARIABLE, default_store_path
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.tools import catalog

_MAX = 8 * 1024 * 1024
_MARK = "said by somebody else"
_COMMAND = "rm -rf /nowhere/of-this-test"
_SECONDS = 300
_SEE = "See docs/hooks.md; hla init --claude-code --no-confine goes back."
_RULES = "Write what they say into the policy here."
_REPORT = "Report this, please."
_TRY = "Have its agent run hla --version: that must be blocked."


_VARIABLE = re.compile(r"\w+=")


def hooks(context: Context) -> Iterator[Finding]:
    """Every coding agent that is set up here asks us first, by a program that is there."""
    for agent in AGENTS.values():
        yield from _plugin(agent, context) if agent.entry == "plugin" else _settings(agent, context)


def _plugin(agent: CodingAgent, context: Context) -> Iterator[Finding]:
    """Check a hook that is a file of its own."""
    path, todo = settings_path(agent, context.environ), _todo(agent)
    if not settings_folder(agent, context.environ).is_dir():
        return
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        yield warning(f"{agent.title} has settings and no hook of ours ({path}): what it runs is not supervised", todo)
        return
    except (OSError, ValueError) as error:
        yield failed(f"{path}: {agent.title}'s hook can't be read: {error}", todo)
        return
    if text != plugin_text(agent, kept_ask(agent, text)):
        yield warning(f"{path}: {agent.title}'s hook is not the one that hla init writes", todo)
        return
    if text.startswith("#!") and not os.access(path, os.X_OK):
        yield failed(f"{path}: {agent.title}'s hook may not be executed, and is skipped without a word", todo)
        return
    yield ok(f"{agent.title} asks us before it runs something")
    others = sorted(each.name for each in path.parent.iterdir() if each.suffix in (".js", ".ts") and each != path)
    if others and agent.rewrites:
        yield warning(
            f"{agent.title} has other plugins, which could change a call once it is judged: {', '.join(others[:5])}",
            "Look at what they do before calls of tools.",
        )


def _settings(agent: CodingAgent, context: Context) -> Iterator[Finding]:
    """Check a hook that is an entry in settings."""
    todo = _todo(agent)
    files = list(dict.fromkeys(path for path in _files(agent, context) if path.is_file()))
    home = settings_folder(agent, context.environ)
    if not files and not (agent.hooks and home.is_dir()):
        return
    found: list[_Hook] = []
    for path in files:
        try:
            found += _ours(path, agent)
        except (OSError, ValueError, RecursionError) as error:
            yield failed(f"{path}: {agent.title}'s settings can't be read: {error}", "Mend the file.")
    lines = [hook.line for hook in found]
    if not lines:
        where = files[0] if files else home
        yield warning(f"{agent.title} has settings ({where}) and no hook of ours: what it runs is not supervised", todo)
    for line in dict.fromkeys(lines):
        yield _working(agent, line, context)
    if lines:
        yield from _at_its_events(agent, found, [path for path in files if path.parent != home])
    for path, name in _switched_off(agent, context):
        yield failed(f"{path}: {name} switches all hooks of {agent.title} off, ours too", f"Take {name} out of it.")
    if agent.trust and lines and not any(_is_trusted(hook, home) for hook in found):
        yield warning(
            f"{agent.title} has not been told to trust our hook, and skips such hooks without a word",
            f"{agent.trust[:1].upper()}{agent.trust[1:]}.",
        )
    if agent.rules and (rules := _strict_rules(agent, home)):
        yield warning(
            f"{agent.title}'s own rules do not see what a command is once our hook has answered: {rules}", _RULES
        )
    if lines and (missed := _missed(agent, [hook.matcher for hook in found])):
        yield warning(f"{agent.title} does not ask us before calls of {missed}", todo)
    if any(client.CONFINE in line.split() for line in lines):
        why = obstacles(context.environ, context.project)
        yield from (warning(f"{agent.title}'s commands are not confined: {each}", _SEE) for each in why)
        if not why:
            yield ok(f"{agent.title} runs what is allowed of commands confined, where this machine can (see walls)")


def _at_its_events(agent: CodingAgent, found: "list[_Hook]", files: list[Path]) -> Iterator[Finding]:
    """Check what our hook is asked about, and what counts beside its answers.

    Args:
        found: our hooks.
        files: settings that are not the user's.
    """
    todo = _todo(agent)
    for event in agent.events:
        if not any(hook.event == event for hook in found):
            yield warning(f"{agent.title} does not ask us at {event}", todo)
    if agent.closed and not all(hook.entry.get(agent.closed) is True for hook in found):
        yield failed(f"{agent.title} goes on where our hook fails or is late: {agent.closed} is not set", todo)
    if agent.overruled and (others := _others(files, agent)):
        yield warning(
            f"{agent.title} has other hooks, whose answers count before ours where they differ: {others}",
            "Look at what they answer.",
        )
    if agent.untried:
        yield warning(f"nobody has seen that {agent.title} obeys our hook: {agent.untried}", _TRY)


def servers(context: Context) -> Iterator[Finding]:
    """Tell of every MCP server that a coding agent starts without our gateway, and of the change that puts it there."""
    for agent in AGENTS.values():
        places: dict[Path, dict[str, None]] = {}
        for folder, (file, name) in itertools.product(_folders(agent, context), agent.servers):
            places.setdefault(Path(os.path.normpath(folder / file)), {})[name] = None
        hooked = _is_hooked(agent, context)
        for path, names in places.items():
            try:
                found = [each for name in names for each in _servers(path, name)]
            except (OSError, ValueError, RecursionError) as error:
                yield warning(f"{path}: {agent.title}'s MCP servers can't be read: {error}", "Mend the file.")
                continue
            for server, entry in found:
                said = f"{agent.title} starts the MCP server {server} without hla mcp ({path})"
                if _is_behind(entry):
                    continue
                if hooked and not agent.untried:
                    yield ok(f"{said}: our hook judges its calls, and what it says of its tools is not kept by hash")
                else:
                    why = "nobody has seen that our hook judges its calls" if hooked else "nobody judges its calls"
                    yield warning(f"{said}: {why}", _put_behind(server, entry, context))


def _servers(path: Path, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the MCP servers in a settings file, each with its name.

    Args:
        place: where in it they stand (see `CodingAgent.servers`).
    """
    if not path.is_file():
        return
    found = [_contents(path)]
    for key in place.split("."):
        found = [inner for each in map(_mapping, found) for inner in (each.values() if key == "*" else [each.get(key)])]
    yield from ((name, _mapping(entry)) for each in found for name, entry in _mapping(each).items())


def _words(entry: dict[str, Any]) -> list[str]:
    """Return the command of a server, as words; [] where it is reached by an address."""
    command = entry.get("command")
    first = command if isinstance(command, list) else [command] if command else []
    return [str(each) for each in (*first, *_listed(entry.get("args")))]


def _is_behind(entry: dict[str, Any]) -> bool:
    words = _words(entry)
    program = os.path.basename(words[0]) if words else ""
    ours = program in ("hla", "humanlayer-agent") and words[1:2] == ["mcp"]
    listens = not words and _address(entry) in kept_addresses()
    return ours or listens or ("humanlayer_agent.cli", "mcp") in itertools.pairwise(words)


def _address(entry: dict[str, Any]) -> str:
    return str(entry.get("httpUrl") or entry.get("url") or "")


def _is_hooked(agent: CodingAgent, context: Context) -> bool:
    """Tell whether a hook of ours stands in the agent's settings. Whether it works is told elsewhere."""
    for path in filter(Path.is_file, _files(agent, context)):
        with suppress(OSError, ValueError, RecursionError):
            text = path.read_text(encoding="utf-8") if agent.entry == "plugin" else ""
            if f"`hla init {agent.option}`" in text if text else _ours(path, agent):
                return True
    return False


def _put_behind(name: str, entry: dict[str, Any], context: Context) -> str:
    """Return the change that puts the gateway before a server."""
    words, address = _words(entry), _address(entry)
    found = shutil.which("hla", path=context.environ.get("PATH", os.defpath))
    ours = [*([found] if found else [sys.executable, "-I", "-m", "humanlayer_agent.cli"]), "mcp", "--name", name]
    if words:
        passed = [*_mapping(entry.get("env")), *_mapping(entry.get("environment"))]
        ours += [*(word for each in passed for word in ("--pass-env", each)), "--", *words]
    else:
        ours += ["--http", address]
    if isinstance(entry.get("command"), list) or entry.get("type") == "remote":
        change = f'"type": "local", "command": {json.dumps(ours)}'
    else:
        change = f"command {json.dumps(ours[0])}, args {json.dumps(ours[1:])}"
    secret = ", in the place of its address; secrets go by --bearer-env and --header-from" if not words else ""
    return f"Put there for {name}: {change}{secret}."


def impersonation(context: Context) -> Iterator[Finding]:
    """Ask a real hook, with a folder and a store of its own, while a program answers "allow" at its socket."""
    with tempfile.TemporaryDirectory() as base:
        store, project = Path(base, "store.sqlite3"), Path(base, "project")
        environ = {**context.environ, "XDG_STATE_HOME": base, "CLAUDE_PROJECT_DIR": str(project)}
        environ |= {STORE_VARIABLE: str(store), "XDG_DATA_HOME": base}
        folder = Path(base, "humanlayer-agent", "hooks")
        for each in (project, folder):
            each.mkdir(mode=0o700, parents=True)
        wanted = {"socket": client.socket_name(environ), "reason": _MARK}
        program = [sys.executable, "-I", "-S", attack.__file__, json.dumps(wanted)]
        with subprocess.Popen(program, cwd=folder, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                ready = process.stdout.readline() == b"ready\n"
                said = _asked(environ, str(project)) if ready else b""
            finally:
                process.kill()
        if not ready:
            yield failed("it is not known whether a hook believes somebody else: nobody could listen in its folder")
        elif _MARK.encode() in said:
            yield failed("a hook believes whoever answers in the place of the process that judges", _REPORT)
        elif not _noted(store):
            yield failed("a hook believes nobody else, and the log does not say that somebody tried", _REPORT)
        else:
            yield ok("a hook believes nobody who answers in the place of the process that judges, and the log has it")
    if last := _noted(default_store_path()):
        yield warning(
            f"a hook was answered in the place of the process that judges (event {last.seq}): {last.event['why']}",
            "Find out what did it: look at what ran before (hla audit query), and what still runs.",
        )


def _asked(environ: dict[str, str], project: str) -> bytes:
    """Return what a hook answers."""
    question = {"hook_event_name": "PreToolUse", "cwd": project, "tool_name": "Bash", "session_id": "doctor"}
    hook = [sys.executable, "-I", "-m", "humanlayer_agent.cli", "hook", "claude-code", "--deadline", str(_SECONDS)]
    data = json.dumps({**question, "tool_input": {"command": _COMMAND}}).encode()
    return subprocess.run(hook, input=data, env=environ, capture_output=True, check=False).stdout


def _noted(path: Path) -> Entry | None:
    """The newest event of a store that says of a hook that it did not believe who answered."""
    try:
        store = SQLiteStore(path, create=False)
    except StoreError:
        return None
    with closing(store):
        return next(store.events(type=events.HOOK_UNPROVEN.name, last=1), None)


def _todo(agent: CodingAgent) -> str:
    return f"hla init {agent.option}"


def _folders(agent: CodingAgent, context: Context) -> list[Path]:
    """Return the folders of the user's settings, and of the project's."""
    of_project = [context.project / agent.in_projects] if context.project is not None and agent.in_projects else []
    return [settings_folder(agent, context.environ), *of_project]


def _files(agent: CodingAgent, context: Context) -> Iterator[Path]:
    """Yield where the settings of a user and of the project may be."""
    for folder in _folders(agent, context):
        yield from (folder / name for name in agent.files)
        yield from sorted(folder.glob(agent.hooks)) if agent.hooks else ()


@dataclass(frozen=True, slots=True)
class _Hook:
    """Our hook in a settings file: its command, the calls before which it is run, the file, its places there, the event
    and the entry.
    """

    line: str
    matcher: str
    path: Path
    place: tuple[int, int]
    event: str
    entry: dict[str, Any]


def _ours(path: Path, agent: CodingAgent) -> list[_Hook]:
    """Our hooks in a settings file."""
    return [
        _Hook(line, str(entry.get("matcher") or "*"), path, (outer, inner), event, entry)
        for event, outer, entry in _entries(path, agent)
        for inner, line in enumerate(lines_of(entry))
        if _is_ours(line, agent)
    ]


def _is_ours(line: str, agent: CodingAgent) -> bool:
    return re.search(rf"\bhook {agent.name}\b", line) is not None


def _others(files: list[Path], agent: CodingAgent) -> str:
    """The settings files of which other hooks than ours are asked. Those that can't be read are told elsewhere."""
    found: list[str] = []
    for path in files:
        with suppress(OSError, ValueError, RecursionError):
            lines = [lines_of(entry) or [""] for _, _, entry in _entries(path, agent)]
            if any(not _is_ours(line, agent) for each in lines for line in each):
                found.append(str(path))
    return ", ".join(found)


def _entries(path: Path, agent: CodingAgent) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield the hooks in a settings file that are asked about what we judge: the event, the place, and the entry."""
    hooks = _mapping(_mapping(_contents(path)).get("hooks"))
    for event in agent.events:
        for place, entry in enumerate(_listed(hooks.get(event))):
            yield event, place, _mapping(entry)


def _contents(path: Path) -> Any:
    with path.open("rb") as file:
        text = file.read(_MAX)
    return tomllib.loads(text.decode()) if path.suffix == ".toml" else json.loads(text or b"{}")


def _switched_off(agent: CodingAgent, context: Context) -> Iterator[tuple[Path, str]]:
    """Yield the settings that switch all hooks off, each with its file. What can't be read is told elsewhere."""
    for folder in _folders(agent, context):
        for file, name, value in agent.off:
            for path in [folder / each for each in ([file] if file else agent.files)]:
                try:
                    text = path.read_text(encoding="utf-8")
                    # Copilot CLI begins a file of its own with comments
                    plain = "\n".join(line for line in text.split("\n") if not line.startswith("//"))
                    found: Any = tomllib.loads(text) if path.suffix == ".toml" else json.loads(plain)
                except (OSError, ValueError, RecursionError):
                    continue
                for key in name.split("."):
                    found = _mapping(found).get(key)
                if found is value:
                    yield path, name


def _is_trusted(hook: _Hook, home: Path) -> bool:
    """Tell whether Codex's own settings say that its user has looked at a hook, at that place in that file."""
    try:
        state = _mapping(_mapping(read_settings(home / "config.toml").get("hooks")).get("state"))
    except ConfigError:
        return False
    outer, inner = hook.place
    about = _mapping(state.get(f"{hook.path}:pre_tool_use:{outer}:{inner}"))
    return bool(about.get("trusted_hash")) and about.get("enabled") is not False


def _strict_rules(agent: CodingAgent, folder: Path) -> str:
    """The files of a coding agent's own rules that forbid something, or ask about it."""
    found = (path for path in sorted(folder.joinpath(agent.rules).glob("*.rules")) if path.is_file())
    return ", ".join(str(path) for path in found if re.search(r"forbidden|prompt", path.read_text(errors="replace")))


def _missed(agent: CodingAgent, matchers: list[str]) -> str:
    """The calls that we judge and that no hook of ours is run before."""
    if "*" in matchers or ".*" in matchers:
        return ""
    asked = {name for matcher in matchers for name in matcher.split("|")}
    return ", ".join([*(name for name in catalog.load().agents[agent.name].tools if name not in asked), "other tools"])


def _working(agent: CodingAgent, line: str, context: Context) -> Finding:
    """Check that the command of a hook can be started, and what becomes of the agent's call where it can't be."""
    try:
        program = next(word for word in shlex.split(line) if not _VARIABLE.match(word))
    except (ValueError, StopIteration):
        return failed(f"{agent.title}: its hook is no command: {line[:200]}", _todo(agent))
    if shutil.which(program, path=context.environ.get("PATH", os.defpath)) is None:
        return failed(f"{agent.title}: its hook can't be started: there is no {program}", _todo(agent))
    if not re.search(r"\|\|\s*(exit 2|\{ echo .* >&2; exit 2; \})\s*$", line):
        return failed(
            f"{agent.title}: its hook does not end with `|| exit 2`: where it crashes the agent goes on without us",
            _todo(agent),
        )
    return ok(f"{agent.title} asks us before it runs something")


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
