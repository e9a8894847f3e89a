"""`hla init --claude-code` and the like: puts our hook into the settings of a coding agent, after it was shown."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from humanlayer_agent.cli.init.file_writer import new_files
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks.coding_agents import CodingAgent
from humanlayer_agent.hooks.hook_settings import (
    kept_ask,
    other_shell,
    our_line,
    plugin_text,
    read_settings,
    settings_path,
    with_hook,
)
from humanlayer_agent.hooks.obstacles import obstacles
from humanlayer_agent.locations import state_path
from humanlayer_agent.safe_text import one_line


def add_hook(
    agent: CodingAgent, ask: str | None, confine: bool | None, project: Path | None, agreed: Callable[[], int | None]
) -> int:
    """Write what is missing in the settings; the file that was there is kept as NAME.old.

    Args:
        ask, confine: see `hla hook --help`; None keeps what is there.
        project: whose settings count as well.
        agreed: None where it may be written, else the exit code.

    Raises:
        ConfigError: the file can't be read, is no JSON, or can't be written; commands are to run confined and can't;
            the agent has no such way to ask.
    """
    if ask is not None and ask not in agent.asks:
        raise ConfigError(f"--ask must be one of {', '.join(agent.asks)} for {agent.title}")
    path = settings_path(agent)
    before, after, shown = _planned(agent, path, ask, confine)
    if confine:
        _check_confinable(project, {path: json.loads(after)})
    what = f"         the hook in {agent.title}'s settings"
    if after == before:
        typer.echo(f"is there {one_line(str(path))}\n{what}")
        return 0
    typer.echo(f"\nIn {one_line(str(path))}\n{shown}")
    if (code := agreed()) is not None:
        return code
    _write(path, after, existed=path.exists())
    typer.echo(f"written  {one_line(str(path))}\n{what} ({agent.trust or 'start it anew'})")
    return 0


def _planned(agent: CodingAgent, path: Path, ask: str | None, confine: bool | None) -> tuple[str, str, str]:
    """Return what stands in the file, what is to stand there, and what is shown of the difference."""
    if agent.entry == "plugin":
        before = _text(path)
        if before and f"`hla init {agent.option}`" not in before:
            raise ConfigError(f"{path} is not ours: put it under another name first, nothing was changed")
        after = plugin_text(agent, ask or kept_ask(agent, before))
        return before, after, after
    settings = read_settings(path)
    changed = with_hook(agent, settings, ask, confine)
    if shell := other_shell(changed):
        typer.echo(
            f"\nWarning: CLAUDE_CODE_SHELL is {one_line(shell)}; commands are judged as bash, so all of them ask"
        )
    return _json(settings), _json(changed), _changes(agent, settings, changed)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: can't be read ({error}): mend it first, nothing was changed") from error


def _json(settings: dict[str, Any]) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _changes(agent: CodingAgent, before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return what is added, as JSON."""
    old = before.get("env", {})
    added = {name: value for name, value in after.get("env", {}).items() if old.get(name) != value}
    shown = {"env": added} if added else {}
    hooks = {name: entries[-1:] for name, entries in after["hooks"].items() if isinstance(entries, list)}
    ours = {name: last for name, last in hooks.items() if any(our_line(each, agent) for each in last)}
    return json.dumps({**shown, "hooks": ours}, indent=2)


def _check_confinable(project: Path | None, planned: Mapping[Path, dict[str, Any]]) -> None:
    """Refuse where commands would not be confined, although the hook is told to have that done.

    Args:
        planned: contents of settings files, once they are written.

    Raises:
        ConfigError: what keeps them from it.
    """
    from humanlayer_agent.agents.run_enclosures import PROOFS
    from humanlayer_agent.confine.confinement import Unenforceable
    from humanlayer_agent.confine.proof import proven

    why = [f"  {one_line(each)}." for each in obstacles(os.environ, project, planned)]
    try:
        proven(state_path(PROOFS))
    except Unenforceable as error:
        why.append(f"  This machine: {one_line(str(error))}.")
    if why:
        raise ConfigError("\n".join(["--confine: commands would not be confined, so nothing was written:", *why]))


def _write(path: Path, text: str, *, existed: bool) -> None:
    try:
        mode = path.stat().st_mode & 0o777 if existed else 0o600
        mode |= 0o100 if text.startswith("#!") else 0
        with new_files() as files:
            files.folder(path.parent, 0o700)
            files.add(path, text.encode("utf-8", "surrogatepass"), mode=mode, replaces=existed)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}; it is as it was") from error
