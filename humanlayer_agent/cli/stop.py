"""`hla stop` and `hla resume`: every agent of a store at once.

Stopping asks for nothing but a human's terminal, and does its work before it looks at anything else. Going on again is
signed, like an approval: the human sees what was stopped, types a word, and the passphrase of their key.
"""

import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.human_signature import credentials, open_to_write, typed_word
from humanlayer_agent.cli.shared.human_terminal import has_terminal, human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, CommentOption, GlassOption, StoreOption

if TYPE_CHECKING:
    from humanlayer_agent.approvals.stop import Halt
    from humanlayer_agent.store.sqlite import SQLStore

DONE, NOT_DONE, NO_HUMAN = 0, 1, 3
_CHANNEL = "command-line"
_WORDS_LIMIT = 2000


def stop(
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; for humans, no agent is told.")] = "",
    store: StoreOption = None,
) -> None:
    """Stop every agent at once: nothing new runs until hla resume.

    From the moment it returns, every action of every agent of this store is denied before anybody is asked: also what a
    policy allows, and what was approved and has not begun. Requests that wait are withdrawn. Agents are told to end.

    A command that runs already is not killed, nor a call that a coding agent's own prompt was already asked about: end
    that agent itself (Ctrl-C; it ends its command too).

    Example: hla stop --reason "it deletes in the wrong bucket"
    """
    with suppress(ValueError):  # a row that can't be read, of a run, keeps nobody from stopping: that is safe
        human_only("stop", "stops agents", store)
    if not has_terminal():
        _refused(store, "stop", "no-terminal")
        print("humanlayer-agent: NOT stopped: only a human at a terminal does that (over ssh: ssh -t)", file=sys.stderr)
        raise typer.Exit(NO_HUMAN)
    raise typer.Exit(_stop(reason, store))


def resume(
    comment: CommentOption = "",
    glass: GlassOption = "",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Let agents act again after hla stop: you see what was stopped, type a word and your key's passphrase.

    It takes a key that your channels.yaml names under signers (hla init makes one), and somebody who may approve by the
    route "default"; or, with --break-glass, two who are named for emergencies in the user's or the machine's channels
    file, one after the other. What was withdrawn or approved before stays void: agents propose anew.

    Example: hla resume --comment "the bucket is mended"
    """
    human_only("resume", "lets agents go on", store)
    from humanlayer_agent.errors import ConfigError, NoTerminal, StoreError
    from humanlayer_agent.processes.memory_protection import protect_secrets
    from humanlayer_agent.processes.tty import controlling_terminal

    protect_secrets()
    try:
        with controlling_terminal() as fd, closing(open_to_write(store)) as opened:
            raise typer.Exit(_resume(fd, opened, comment, channels, store, glass))
    except NoTerminal as error:
        _refused(store, "resume", "no-terminal")
        print(f"humanlayer-agent: not resumed: only a human at a terminal does that: {error}", file=sys.stderr)
        raise typer.Exit(NO_HUMAN) from error
    except StoreError as error:
        raise ConfigError(f"not resumed: {error}") from error


# Stopping


def _stop(reason: str, location: str | None) -> int:
    from humanlayer_agent.errors import ConfigError, HumanlayerError, StoreError
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.safe_text import one_line

    try:
        with closing(open_to_write(location)) as opened:
            opened.halts.stop(os_user(), one_line(reason.strip())[:_WORDS_LIMIT])
            print(f"stopped: no new action of any agent of {one_line(opened.location)} runs; hla resume ends that")
            with suppress(HumanlayerError):
                _say_running(opened)
                opened.write_head()  # that the end of the log was cut off shows with one that is kept elsewhere
    except (ConfigError, StoreError) as error:
        raise ConfigError(
            f"NOT stopped: {error}. To stop them now, end the agents themselves (Ctrl-C, kill)"
        ) from error
    return DONE


def _say_running(opened: "SQLStore") -> None:
    """Say which commands go on all the same, and which process to end for that."""
    from humanlayer_agent.safe_text import one_line

    for each in opened.halts.running():
        agent = one_line(each.agent) or "an agent"
        where = "" if each.here else " of another machine or container"
        print(
            f"still running: a command of {agent} (run {one_line(each.run)[:8]}); "
            f"its supervisor is process {each.pid}{where}"
        )


# Going on again


def _resume(fd: int, opened: "SQLStore", comment: str, channels: Path | None, location: str | None, glass: str) -> int:
    from humanlayer_agent.approvals.authority import GLASS
    from humanlayer_agent.approvals.model import Approver, Refused
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.keys.unlock import ask
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.safe_text import one_line

    authority, signer = credentials(channels)
    halts = opened.halts.standing(authority)
    if not halts:
        print("no agent is stopped")
        return DONE
    if not _wanted(fd, halts) or not ask(fd, signer, wrong=lambda: _refused(location, "resume", "wrong-passphrase")):
        print("nothing was resumed")
        return NOT_DONE
    who = Approver(os_user(), GLASS if glass else _CHANNEL, "terminal")
    words = f"{GLASS}: {glass.strip()}" if glass else comment.strip()
    refused = opened.halts.resume(halts, who, one_line(words)[:_WORDS_LIMIT], authority, signer)
    if isinstance(refused, Refused):
        _refused(location, "resume", "not-an-approver")
        raise ConfigError(f"not resumed: {one_line(refused.reason)}")
    still = opened.halts.standing(authority)
    if still and glass and {each.id for each in still} <= {each.id for each in halts}:
        print("signed: it counts once another of those who are named under break_glass has done the same")
        return DONE
    if still:
        print(f"not resumed: {one_line(_described(still[-1]))}", file=sys.stderr)  # stopped again meanwhile
        return NOT_DONE
    print("resumed: agents act again, as their policies say; what was withdrawn or approved before stays void")
    return DONE


def _wanted(fd: int, halts: "Sequence[Halt]") -> bool:
    """Show the stops, and take the word for it."""
    from humanlayer_agent.safe_text import one_line

    said = "\n".join(one_line(_described(halt)) for halt in halts)
    return typed_word(fd, said, "resume", "let every agent act again")


# What both need


def _described(halt: "Halt") -> str:
    from humanlayer_agent.approvals.stop import described

    return described(halt)


def _refused(location: str | None, wanted: str, code: str) -> None:
    """Put it in the log that somebody could not. That it can't be logged is no way around the refusal."""
    from humanlayer_agent.audit import events
    from humanlayer_agent.errors import HumanlayerError
    from humanlayer_agent.processes.identity import os_user

    with suppress(HumanlayerError), closing(open_to_write(location)) as opened:
        opened.record(events.SUPERVISION_REFUSED, wanted=wanted, by=os_user(), refusal=code)
