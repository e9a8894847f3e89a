"""`hla exec`: one command, judged, and confined where the policy and this machine say so."""

import os
import secrets
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from humanlayer_agent.cli.shared.options import PolicyOption, ProjectOption
from humanlayer_agent.errors import ActionDenied, ConfigError
from humanlayer_agent.hooks.permit_use import NOT_RUN

if TYPE_CHECKING:
    from humanlayer_agent.processes.execution import CommandResult

TIMED_OUT = 124
_PLAIN = frozenset({"--norc", "--noprofile"})


def exec_(
    words: Annotated[list[str], typer.Argument(metavar="COMMAND", help="Program and arguments, after --.")],
    policy: PolicyOption = None,
    project: ProjectOption = None,
    confinement: Annotated[
        str | None,
        typer.Option(
            "--confinement", metavar="NAME", help="Don't judge it: run it confined to this one of the policy."
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="ID", help="Commands of one run share what they see as /tmp.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Seconds until it is ended.")
    ] = 3600.0,
    permit: Annotated[
        str | None,
        typer.Option(
            "--permit",
            metavar="WORD",
            help="Alone, without COMMAND: run what a coding agent's hook has let run (see docs/hooks.md).",
        ),
    ] = None,
) -> None:
    """Judge one command and run it: confined where the policy confines what it allows, and this machine can.

    What the policy does not allow is asked of you first. What nobody can read of a confined command does no harm
    outside the project, so it is not asked about. Exit code: that of the command; 126 where it did not run, 124 where
    it took too long.

    Example: hla exec -- bash -c 'make && ./build/app --version'
    """
    if permit is not None:  # alone it never comes here (see cli.main)
        raise ConfigError("--permit stands alone: what it lets run is kept by the process that judged it")
    raise typer.Exit(execute(words, policy=policy, project=project, confinement=confinement, run=run, timeout=timeout))


def execute(
    words: list[str],
    *,
    policy: str | None,
    project: Path | None,
    confinement: str | None,
    run: str | None,
    timeout: float,
) -> int:
    """Run one command and print what it prints; see `exec_`.

    Raises:
        ConfigError: a policy, the project or the name of the confinement can't be used, or a whole command stands where
            the name of a program should.
        Unenforceable: `confinement` was given, and can't be enforced here.
    """
    from humanlayer_agent.agents.python_gate import Gate
    from humanlayer_agent.safe_text import one_line

    if len(words) == 1 and " " in words[0] and shutil.which(words[0]) is None:
        name, shown = one_line(shlex.quote(words[0])), one_line(words[0])
        raise ConfigError(f"{name} names no program; write: hla exec -- {shown}, or: hla exec -- bash -c {name}")
    text, granted = command_line(words), list[str]()
    try:
        result: CommandResult
        if confinement is not None:
            result = _by_hand(text, confinement, policy=policy, project=project, run=run, timeout=timeout)
        else:
            with Gate.from_config(agent="hla exec", policy=policy, project=project, tmp=run) as gate:
                result = gate.run(text, timeout=timeout)
                granted = [_granted(entry.event) for entry in gate.store.events(run=gate.run_id, type="grant.used")]
    except ActionDenied as denied:
        print(f"hla exec: it did not run: {denied}", file=sys.stderr)
        return NOT_RUN
    except OSError as error:
        print(f"hla exec: it did not start: {error}", file=sys.stderr)
        return NOT_RUN
    sys.stdout.write(result.output)
    sys.stdout.flush()
    if granted:
        print(f"hla exec: it ran by {' and '.join(granted)}", file=sys.stderr)
    if result.note:
        print(f"hla exec: {result.note}", file=sys.stderr)
    if result.timed_out:
        print(f"hla exec: ended after {timeout:g} seconds", file=sys.stderr)
        return TIMED_OUT
    code = result.returncode
    return NOT_RUN if code is None else code if code >= 0 else 128 - code


def _granted(event: Mapping[str, Any]) -> str:
    """A use of a grant, for people, as the log has it."""
    from humanlayer_agent.approvals.grants import GrantUse
    from humanlayer_agent.safe_text import one_line

    return one_line(str(GrantUse(event["grant"], tuple(event["by"]), event["use"], event["max_uses"])))


def command_line(words: list[str]) -> str:
    """Return what bash is to run: the text after `bash -c`, else the words, quoted.

    Example:
        >>> command_line(["bash", "-c", "ls | wc -l"]), command_line(["cat", "a b"])
        ('ls | wc -l', "cat 'a b'")
    """
    match words:
        case ["bash", *options, "-c", text] if _PLAIN.issuperset(options):
            return text
    return shlex.join(words)


def _by_hand(
    text: str, name: str, *, policy: str | None, project: Path | None, run: str | None, timeout: float
) -> "CommandResult":
    """Run a command confined, whatever the policy says of it: a human has typed it."""
    from humanlayer_agent.action import BASH
    from humanlayer_agent.agents.run_enclosures import RunEnclosures, say_moved
    from humanlayer_agent.configuration import build_director
    from humanlayer_agent.confine.confinement import Confinement
    from humanlayer_agent.processes.execution import run_command

    director = build_director(policy, project=project, confined=True)
    enclosures = RunEnclosures.of(run or secrets.token_hex(16), director.project)
    enclosure = enclosures.enclosure(Confinement((director.in_force().confinement(name),)))
    env = enclosures.environment(os.environ, project=director.project)
    here = os.getcwd()
    cwd = here if enclosure.confinement.reads(os.path.realpath(here)) else director.project
    return say_moved(run_command((*BASH, text), cwd=cwd, env=env, timeout=timeout, confinement=enclosure))
