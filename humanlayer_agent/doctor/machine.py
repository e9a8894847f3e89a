"""This machine: what everything else needs, and who we are on it."""

import os
from collections.abc import Iterator

from humanlayer_agent.doctor.context import Context, Finding, failed, ok, warning
from humanlayer_agent.errors import ConfigError, NoTerminal
from humanlayer_agent.processes.ancestry import below_supervision
from humanlayer_agent.processes.execution import command_environment, find_program, run_command

_PYTHON, _BASH, _OLD_BASH, _SQLITE = (3, 11), 5, 4, (3, 37)


def python(context: Context) -> Iterator[Finding]:
    """The interpreter that runs us."""
    shown = f"Python {_dotted(context.python)}"
    if context.python < _PYTHON:
        yield failed(f"{shown} is too old", f"Install Python {_dotted(_PYTHON)} or newer.")
    else:
        yield ok(shown)


def bash(context: Context) -> Iterator[Finding]:
    """The shell that runs agents' commands: it must read them as we do."""
    try:
        program = context.bash or find_program("bash")
    except ConfigError as error:
        yield failed(str(error), "Install bash 5.")
        return
    ask = ("--norc", "--noprofile", "-c", 'printf %s "$BASH_VERSION"')
    try:
        said = run_command((program, *ask), cwd="/", env=command_environment(context.environ), timeout=60)
    except (OSError, ValueError, ConfigError) as error:
        yield failed(f"{program} can't be run: {error}", "Install bash 5.")
        return
    major = said.output.partition(".")[0]
    shown = f"bash {said.output.partition('(')[0]} ({program})"
    if said.returncode != 0 or not major.isascii() or not major.isdigit():
        yield failed(f"{program} does not say its version", "Install bash 5.")
    elif int(major) < _OLD_BASH:
        yield failed(f"{shown} reads some commands otherwise than bash 5, as which they are judged", "Install bash 5.")
    elif int(major) < _BASH:
        yield warning(f"{shown}; commands are judged as bash 5 reads them", "Install bash 5.")
    else:
        yield ok(shown)


def sqlite(context: Context) -> Iterator[Finding]:
    """The library of the store."""
    shown = f"SQLite {_dotted(context.sqlite)}"
    if context.sqlite < _SQLITE:
        yield failed(f"{shown} is too old", f"Use a Python with SQLite {_dotted(_SQLITE)} or newer.")
    else:
        yield ok(shown)


def terminal(context: Context) -> Iterator[Finding]:
    """Check that somebody can be asked here."""
    from humanlayer_agent.processes.multiplexer import multiplexer
    from humanlayer_agent.processes.tty import controlling_terminal

    try:
        with controlling_terminal() as fd:
            yield ok(f"a terminal to ask at ({os.ttyname(fd)})")
        if typist := multiplexer():
            yield warning(
                f"an agent's command can type here too, through {typist}: high and critical take your passphrase",
                "Start agents in a terminal of their own, or have a key: hla init.",
            )
    except NoTerminal as error:
        yield warning(
            f"nobody can be asked here ({error}): what a policy asks about is denied, unless another channel answers",
            "Start agents in a terminal, or add a channel.",
        )


def user(context: Context) -> Iterator[Finding]:
    """Check who we are, and with us the agents' commands."""
    if os.geteuid() == 0:
        yield warning(
            "You are root, and so are agents' commands: what the policy lets run can read the supervisor's memory, its "
            "environment, its key and every file, and can write the store and the policies. Only the policy stands "
            "before that.",
            "Run agents as an ordinary user, or in a container that holds nothing but the task.",
        )
    elif os.geteuid() != os.getuid():
        yield failed("this program runs with another user's rights (setuid)", "Remove the setuid bit.")
    else:
        uid, _, name = context.requester.removeprefix("os:").rpartition("/")[2].partition(":")
        yield ok(f"you are {name or 'a user without a name'} (uid {uid}), not root")


def supervised(context: Context) -> Iterator[Finding]:
    """Check that a human runs this at all."""
    if below_supervision():
        yield failed("this is a supervised command: an agent asks, and sees what it sees", "Run it yourself.")
    else:
        yield ok("this is no agent's command")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
