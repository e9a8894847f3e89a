"""`hla init`: the files a person needs, each written only where it is missing."""

import os
import pwd
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from humanlayer_agent.cli.init import signing_key
from humanlayer_agent.cli.init.file_writer import new_files
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.errors import ConfigError, NoTerminal
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.keys.key_file import AuditKey
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import PROJECT_FOLDER, audit_key_path, config_folder, is_inside, key_path
from humanlayer_agent.policy_tools.file_schemas import schema_text
from humanlayer_agent.safe_text import one_line

NO_HUMAN = 3
_KEYS = ("key", "audit")
_SCHEMAS = {"channels": "channels.schema.json", "policy": "policy.schema.json", "project": "policy.schema.json"}
"""What the first line of a template names, which an editor reads."""
_FOR_EDITORS = "for your editor, which completes keys by it: hla policy schema prints it"
_TEMPLATES = Path(__file__).with_name("templates")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.$-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True)
class _Part:
    """A file to be there in the end; `kind` is also the name of its template, where it is no key."""

    kind: Literal["key", "audit", "channels", "policy", "project", "schema"]
    path: Path
    what: str
    folder_mode: int = 0o700
    mode: int = 0o600


def init(
    project: Annotated[
        Path | None, typer.Option("--project", metavar="DIR", help="Also set up this project; here: its git folder.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Write what is missing without asking.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write the files anew; the old ones are kept as NAME.old. Always asks.")
    ] = False,
    claude_code: Annotated[
        bool, typer.Option("--claude-code", help="Also put the hook into Claude Code's settings.")
    ] = False,
    gemini_cli: Annotated[bool, typer.Option("--gemini-cli", help="The same for Gemini CLI.")] = False,
    codex: Annotated[bool, typer.Option("--codex", help="The same for Codex.")] = False,
    copilot: Annotated[bool, typer.Option("--copilot", help="The same for GitHub Copilot CLI.")] = False,
    opencode: Annotated[bool, typer.Option("--opencode", help="The same for OpenCode.")] = False,
    cline: Annotated[bool, typer.Option("--cline", help="The same for Cline's command line.")] = False,
    cursor: Annotated[bool, typer.Option("--cursor", help="The same for Cursor.")] = False,
    ask: Annotated[
        Literal["tool", "wait", "deny"] | None,
        typer.Option(help="With a coding agent: who is asked; see hla hook --help."),
    ] = None,
    confine: Annotated[
        bool | None,
        typer.Option("--confine/--no-confine", help="With --claude-code: allowed commands run confined, or as before."),
    ] = None,
) -> None:
    """Write what you need: keys, your channels file, your policy, and the project's. Nothing is overwritten.

    Beside each file lies its JSON Schema, by which editors with yaml-language-server complete keys.

    A passphrase locks the signing key. You are asked for one, with --yes too; without a terminal no such key is made,
    unless HUMANLAYER_PASSPHRASE_FILE names a file whose first line is to be the passphrase.

    Examples: hla init;  hla init --yes --project ~/src/app;  hla init --claude-code;  hla init --codex --ask wait
    """
    given = {
        "claude-code": claude_code,
        "gemini-cli": gemini_cli,
        "codex": codex,
        "copilot": copilot,
        "opencode": opencode,
        "cline": cline,
        "cursor": cursor,
    }
    agents = [AGENTS[name] for name, wanted in given.items() if wanted]
    if ask and not agents:
        raise ConfigError(f"--ask is for {', '.join(agent.option for agent in AGENTS.values())}")
    if confine is not None and not (agents and all(agent.confines for agent in agents)):
        raise ConfigError(f"--confine is for {', '.join(a.option for a in AGENTS.values() if a.confines)}")
    code = run_init(project, yes=yes, force=force)
    for agent in agents if code != NO_HUMAN else ():
        from humanlayer_agent.cli.init.agent_hooks import add_hook

        agreed = lambda: None if yes else _confirmed(" (--yes writes without asking)")  # noqa: E731
        code = max(code, add_hook(agent, ask, confine, _project(project), agreed))
    raise typer.Exit(code)


def run_init(project: Path | None = None, *, yes: bool = False, force: bool = False) -> int:
    """Write what is missing.

    Returns:
        The exit code: 0 all is in place, 1 it is not (you said no, or a line is missing in a file of yours), 3 nobody
        could be asked.

    Raises:
        ConfigError: an agent started us; a folder is not safe; the key can't be used; something can't be written.
    """
    human_only("init", "sets this up")
    _refuse_other_home()
    base = _project(project)
    parts = list(_parts(base))
    for part in parts:
        _check_folder(part, base)
    problems = {kind: problem for kind in ("key", "audit") if (problem := _problem(kind))}
    if problems and not force:
        raise ConfigError(f"{next(iter(problems.values()))}; hla init --force puts it aside and makes another")
    old = [part for part in parts if os.path.lexists(part.path)]
    replaced = [part for part in old if force and (part.kind not in _KEYS or part.kind in problems)]
    new = [part for part in parts if part in replaced or part not in old]
    schemas = list(_schemas(parts, new, replaced))
    parts, new = [*parts, *(each for each, _ in schemas)], [*new, *(each for each, written in schemas if written)]
    replaced += [each for each, written in schemas if written and os.path.lexists(each.path)]
    keyless = yes and not replaced and any(part.kind == "key" for part in new) and not signing_key.can_lock(base)
    if keyless:
        parts, new = ([part for part in some if part.kind != "key"] for some in (parts, new))
    added = None if keyless else _added(parts, new)
    if (new or added) and (code := _agreed(new, replaced, added, yes=yes)) is not None:
        return code
    try:
        fingerprint = _write(new, replaced, added, base)
    except OSError as error:
        raise ConfigError(f"{error.filename or 'a file'} can't be written: {error.strerror}. Nothing was.") from error
    return _report(parts, new, fingerprint, base)


def _parts(project: Path | None) -> Iterator[_Part]:
    locked = "" if os.path.lexists(key_path()) else f", locked by {signing_key.source()}"
    yield _Part("key", key_path(), f"your signing key{locked}")
    yield _Part("audit", audit_key_path(), "the key that signs how far the log goes, and nothing else")
    yield _Part("channels", config_folder() / "channels.yaml", "who may approve, and whose signature counts")
    yield _Part("policy", config_folder() / "policy.yaml", "your policy: extends builtin:default")
    if project is not None:
        path = project / PROJECT_FOLDER / "policy.yaml"
        yield _Part("project", path, "the project's policy: only adds", folder_mode=0o755, mode=0o644)


def _schemas(parts: list[_Part], new: list[_Part], replaced: list[_Part]) -> Iterator[tuple[_Part, bool]]:
    """The JSON Schemas that first lines of these files name, and whether each is to be written. They stand beside the
    files, so that no network is needed. One that is there stays, unless its file is written anew.
    """
    for part in parts:
        if part.kind in _SCHEMAS:
            schema = replace(part, kind="schema", path=part.path.with_name(_SCHEMAS[part.kind]), what=_FOR_EDITORS)
            there = os.path.lexists(schema.path)
            if there or part in new:
                yield schema, part in replaced or not there


def _added(parts: list[_Part], new: list[_Part]) -> _Part | None:
    """The channels file, where it is there with the empty list of signers that we have written, and the key is none."""
    (channels,) = (part for part in parts if part.kind == "channels")
    if channels in new or not signing_key.has_no_signers(channels.path):
        return None
    return _Part("channels", channels.path, "your key, under signers: (the old file is kept as NAME.old)")


def _project(named: Path | None) -> Path | None:
    """The project to set up: the one that was named, else the git folder around here; None where there is neither."""
    from humanlayer_agent.configuration import checked_project, find_project

    if named is not None:
        if not named.is_dir():
            raise ConfigError(f"{named}: there is no such directory")
        return checked_project(named)
    try:
        found = find_project()
    except ConfigError:
        return None
    return found if (found / ".git").exists() else None


# ---- what speaks against it -----------------------------------------------------------------------------


def _refuse_other_home() -> None:
    """With sudo the files would be root's, in a home of somebody who then can't read them."""
    try:
        owner = Path.home().stat().st_uid
    except OSError as error:
        raise ConfigError(
            f"the home directory {Path.home()} can't be used: {error.strerror}: set HOME to one of yours"
        ) from error
    if os.environ.get("SUDO_UID") and owner != os.geteuid():
        raise ConfigError(f"{Path.home()} belongs to another user than you are now: run hla init without sudo")


def _check_folder(part: _Part, project: Path | None) -> None:
    folder = part.path.parent
    if part.kind != "project" and is_inside(folder, project):
        name = "XDG_DATA_HOME" if part.kind in _KEYS else "XDG_CONFIG_HOME"
        raise ConfigError(f"{folder} ({part.what}) lies in the project {project}: set {name} to a folder elsewhere")
    if part.kind == "project" and folder.is_symlink():
        raise ConfigError(f"{folder} is a link: a project's settings must be its own")
    try:
        about = folder.stat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"{folder} can't be looked at: {error.strerror}") from error
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a directory")
    if part.kind == "project":
        return
    if about.st_uid != os.geteuid():
        raise ConfigError(f"{folder} belongs to another user: give it to yourself (chown), or remove it")
    if about.st_mode & (0o022 if part.kind in _KEYS else 0o002):
        raise ConfigError(f"{folder} can be written by others: chmod 700 {folder}")


def _problem(kind: str) -> str:
    """Return what is wrong with a key file; "" if nothing, or if there is none."""
    path = key_path() if kind == "key" else audit_key_path()
    try:
        if os.path.lexists(path):
            _ = Signer(path).fingerprint if kind == "key" else AuditKey(path).load()
    except ConfigError as error:
        return str(error)
    return ""


# ---- asking, writing, telling ---------------------------------------------------------------------------


def _agreed(new: list[_Part], replaced: list[_Part], added: _Part | None, *, yes: bool) -> int | None:
    """None where it may be written; else the exit code."""
    if yes and not replaced:
        return None
    for part in new:
        how = "replace" if part in replaced else "write"
        typer.echo(f"{how:8} {one_line(str(part.path))}\n         {part.what}")
    if added is not None:
        typer.echo(f"add to   {one_line(str(added.path))}\n         {added.what}")
    return _confirmed("" if replaced else " (--yes writes without asking)")


def _confirmed(hint: str) -> int | None:
    """None where the human at the terminal types y; else the exit code."""
    from humanlayer_agent.processes.tty import controlling_terminal, discard_input, write

    try:
        with controlling_terminal() as fd:
            sys.stdout.flush()
            discard_input(fd)
            write(fd, "Type y to do this, anything else not to: ")
            answer = os.read(fd, 1024)
    except NoTerminal as error:
        typer.echo(f"humanlayer-agent: nothing was written: {error}{hint}", err=True)
        return NO_HUMAN
    if answer.strip().lower() in (b"y", b"yes"):
        return None
    typer.echo("nothing was written")
    return 1


def _write(new: list[_Part], replaced: list[_Part], added: _Part | None, project: Path | None) -> str:
    """Write all of `new`, or nothing. Returns the signing key's fingerprint; "" where there is none."""
    kinds = {part.kind for part in new}
    passphrase = signing_key.new_passphrase(project) if "key" in kinds else ""
    signer = Signer(key_path())
    names_it = "channels" in kinds or added is not None
    vouched = "key" in kinds or (names_it and signing_key.is_ours(signer, project))
    has_key = "key" in kinds or os.path.lexists(key_path())
    with new_files() as files:
        for part in new:  # the key comes first: the channels file names it
            files.folder(part.path.parent, part.folder_mode)
            if part.kind in _KEYS:
                staged = files.stage(part.path, replaces=part in replaced)
                if part.kind == "key":
                    signer = Signer.create(staged, passphrase)
                else:
                    AuditKey.create(staged)
            else:
                text = _content(part, signer.fingerprint if vouched else "")
                files.add(part.path, text.encode(), mode=part.mode, replaces=part in replaced)
        if added is not None and vouched:
            text = signing_key.with_signer(added.path, signer.fingerprint)
            files.add(added.path, text.encode(), mode=added.mode, replaces=True)
        return signer.fingerprint if has_key else ""


def _content(part: _Part, fingerprint: str) -> str:
    if part.kind == "schema":
        return schema_text("channels" if part.path.name == _SCHEMAS["channels"] else "policy")
    text = (_TEMPLATES / f"{part.kind}.yaml").read_text(encoding="utf-8")
    if part.kind != "channels":
        return text
    text = text.replace("@KEY@", one_line(str(key_path()))).replace("@USER@", _user())
    return text.replace("@SIGNERS@", signing_key.signers(fingerprint))


def _user() -> str:
    """The OS user by name, where a channels file can name it so; else by number."""
    try:
        name = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        name = ""
    return name if _PLAIN_NAME.fullmatch(name) else str(os.getuid())


def _report(parts: list[_Part], new: list[_Part], fingerprint: str, project: Path | None) -> int:
    for part in parts:
        how = "written" if part in new else "is there"
        typer.echo(f"{how:8} {one_line(str(part.path))}\n         {part.what}")
    if fingerprint:
        typer.echo(f"\nYour key's fingerprint:\n  {fingerprint}")
    if project is None:
        typer.echo("\nThis is no project's directory. To set one up: hla init --project DIR")
    if not fingerprint:
        typer.echo(
            "\nNo signing key was made: you type its passphrase at a terminal, and there is none here. Until you have "
            "run hla init at one, only answers at the agent's own terminal count."
        )
        return 0
    for other in signing_key.others_beside(fingerprint):
        typer.echo(f"\nThe signatures of another key count too. If you don't know whose it is, take it out:\n  {other}")
    problem = _not_a_signer(fingerprint)
    if problem:
        typer.echo(f"\n{problem}")
        return 1
    typer.echo("\nNext: hla doctor shows what works, and how to mend what does not.")
    return 0


def _not_a_signer(fingerprint: str) -> str:
    """Return what is to be done before the key counts; "" where it does."""
    from humanlayer_agent.channels import settings

    path = config_folder() / settings.FILE
    try:
        found = settings.load()
        if fingerprint in found.signers:
            return ""
        if found.fleet is not None:
            return f"The key does not count yet: {found.fleet.ask_for(fingerprint)}"
    except ConfigError as error:
        return f"Who may approve can't be told yet:\n{error}"
    return (
        f"The key does not count yet. If it is yours, put it under signers: in {one_line(str(path))}\n\n"
        f'signers:\n  - "{fingerprint}"'
    )
