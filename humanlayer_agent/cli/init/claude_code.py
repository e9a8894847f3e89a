"""`hla init --claude-code`: puts our hook into Claude Code's settings, after it was shown."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer

from humanlayer_agent.cli.init.file_writer import new_files
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.hooks.coding_agents import other_shell, our_line, read_settings, settings_path, with_hook
from humanlayer_agent.hooks.obstacles import obstacles
from humanlayer_agent.locations import state_path
from humanlayer_agent.safe_text import one_line


def add_hook(ask: str | None, confine: bool | None, project: Path | None, agreed: Callable[[], int | None]) -> int:
    """Write what is missing in the settings; the file that was there is kept as NAME.old.

    Args:
        ask, confine: see `hla hook --help`; None keeps what is there.
        project: whose settings count as well.
        agreed: None where it may be written, else the exit code.

    Raises:
        ConfigError: the file can't be read, is no JSON, or can't be written; or commands are to run confined and can't.
    """
    path = settings_path()
    before = read_settings(path)
    after = with_hook(before, ask, confine)
    if confine:
        _check_confinable(project, {path: after})
    shell = other_shell(after)
    if shell:
        typer.echo(
            f"\nWarning: CLAUDE_CODE_SHELL is {one_line(shell)}; commands are judged as bash, so all of them ask"
        )
    if after == before:
        typer.echo(f"is there {one_line(str(path))}\n         the hook in Claude Code's settings")
        return 0
    typer.echo(f"\nIn {one_line(str(path))}\n{_changes(before, after)}")
    if (code := agreed()) is not None:
        return code
    _write(path, after, existed=path.exists())
    typer.echo(f"written  {one_line(str(path))}\n         the hook in Claude Code's settings (start it anew)")
    return 0


def _changes(before: dict[str, Any], after: dict[str, Any]) -> str:
    """Return what is added, as JSON."""
    old = before.get("env", {})
    added = {name: value for name, value in after["env"].items() if old.get(name) != value}
    shown = {"env": added} if added else {}
    ours = {name: after["hooks"].get(name, [])[-1:] for name in ("PreToolUse", "PostToolUse")}
    return json.dumps(
        {**shown, "hooks": {name: last for name, last in ours.items() if any(map(our_line, last))}}, indent=2
    )


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


def _write(path: Path, settings: dict[str, Any], *, existed: bool) -> None:
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    try:
        mode = path.stat().st_mode & 0o777 if existed else 0o600
        with new_files() as files:
            files.folder(path.parent, 0o700)
            files.add(path, text.encode("utf-8", "surrogatepass"), mode=mode, replaces=existed)
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {error.strerror}; it is as it was") from error
