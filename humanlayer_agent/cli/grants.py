"""`hla grants`: the approvals that hold for more than once, what they were used for, and how to take one back.

Taking one back asks for nothing but a human's terminal, like `hla stop`: whoever does it has only kept something from
running.
"""

import sys
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.completion import grant_ids
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_signature import open_to_write
from humanlayer_agent.cli.shared.human_terminal import has_terminal, human_only
from humanlayer_agent.cli.shared.options import FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import GrantRecord
from humanlayer_agent.cli.shared.store_access import open_store, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from humanlayer_agent.approvals.grants import Grant, UsedFor
    from humanlayer_agent.store.sqlite import SQLStore

DONE, NOT_DONE, NO_HUMAN = 0, 1, 3
_LOOKS = "looks at grants"
_SHORT = 12
_WORDS_LIMIT = 2000

app = Commands(
    help="""See what was approved for more than once, what that let run, and take it back.

    Examples: hla grants ls;  hla grants revoke 4f1c"""
)


@app.command()
@prints(GrantRecord, many=True)
def ls(
    store: StoreOption = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that are revoked, expired or used up, below the others.")
    ] = False,
    output: FormatOption = "table",
) -> None:
    """List grants, the newest last.

    Examples: hla grants ls;  hla grants ls --all --format jsonl
    """
    from humanlayer_agent.approvals.store_interface import now_ms

    human_only("grants ls", _LOOKS, store)
    with closing(open_store(store)) as opened:
        found, state = opened.grants.given(), _states(opened, now_ms())
        active = [grant for grant in found if state(grant) == "active"]
        over = [grant for grant in found if state(grant) != "active"]
        shown = [*active, *(over if everything else ())]
        if output != "table":
            print_records((_record(grant, opened.grants.uses(grant.id), state(grant)) for grant in shown), output)
            return
    if not shown:
        typer.echo("Nothing was ever approved for more than once." if not found else "No grant holds now.")
    else:
        _print_table([(grant, state(grant)) for grant in shown])
    if over and not everything:
        typer.echo(f"{len(over)} more {'is' if len(over) == 1 else 'are'} over (--all shows them).", err=True)


@app.command()
@prints(GrantRecord)
def show(
    grant_id: Annotated[
        str, typer.Argument(metavar="ID", help="A grant's id, or the beginning of it.", autocompletion=grant_ids)
    ],
    store: StoreOption = None,
    output: FormatOption = "table",
) -> None:
    """Show one grant whole: what it covers, within which bounds, and each command that it has let run.

    Example: hla grants show 4f1c
    """
    from humanlayer_agent.approvals.store_interface import now_ms
    from humanlayer_agent.channels.plain_text import as_text
    from humanlayer_agent.channels.presentation import present

    human_only("grants show", _LOOKS, store)
    with closing(open_store(store)) as opened:
        grant = _find(opened, grant_id)
        state, uses = _states(opened, now_ms())(grant), opened.grants.uses(grant.id)
    if output != "table":
        print_record(_record(grant, uses, state), output)
        return
    for name, said in _facts(grant, state):
        typer.echo(f"{name:8}{said}")
    typer.echo("\nIt was given with this approval:")
    typer.echo(as_text(present(grant.request)))
    if not uses:
        typer.echo("\nIt has let nothing through yet.")
        return
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    typer.echo("\nIt has let through:")
    rows = [(str(use.use), time_text(use.at), use.run[:8], use.command) for use in uses]
    titles = (">use", "when", "run", "command")
    print_rows(console(), titles, [[one_line(cell) for cell in row] for row in rows], whole=True)


@app.command()
def revoke(
    grant_ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="A grant's id, or the beginning of it.", autocompletion=grant_ids),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that hold now.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; for humans, no agent is told.")] = "",
    store: StoreOption = None,
) -> None:
    """Take grants back: from the moment it returns they let nothing through.

    What runs already is not ended (see hla stop). It takes a human's terminal, and no passphrase: all it does is that
    more is asked about.

    Examples: hla grants revoke 4f1c --reason "it is done";  hla grants revoke --all
    """
    human_only("grants revoke", "takes grants back", store)
    from humanlayer_agent.errors import ConfigError, StoreError
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.safe_text import one_line

    if bool(grant_ids) == everything:
        raise ConfigError("name the grants to take back, or say --all: hla grants ls has their ids")
    if not has_terminal():
        print("humanlayer-agent: NOT revoked: only a human at a terminal does that (over ssh: ssh -t)", file=sys.stderr)
        raise typer.Exit(NO_HUMAN)
    words, by = one_line(reason.strip())[:_WORDS_LIMIT], os_user()
    try:
        with closing(open_to_write(store)) as opened:
            chosen = (
                opened.grants.given(active=True) if everything else [_find(opened, each) for each in grant_ids or ()]
            )
            done = [opened.grants.revoke(grant.id, by, words) for grant in chosen]
    except StoreError as error:
        raise ConfigError(f"NOT revoked: {error}. To keep agents from acting at once: hla stop") from error
    if not chosen:
        print("no grant holds now")
    for grant, revoked in zip(chosen, done, strict=True):
        said = "revoked" if revoked else "it was revoked before"
        print(f"{said}: {grant.id[:_SHORT]}  {one_line(grant.remembered)}")
    raise typer.Exit(DONE if all(done) else NOT_DONE)


def grants_line(opened: "SQLStore") -> str:
    """The grants of a store that hold now, on one line; "" where there are none."""
    active = opened.grants.given(active=True)
    if not active:
        return ""
    uses, most = sum(grant.uses for grant in active), sum(grant.max_uses for grant in active)
    holds = "1 grant holds" if len(active) == 1 else f"{len(active)} grants hold"
    return f"{holds}: {uses} of {most} uses are made, each without a question (hla grants ls)"


def _find(opened: "SQLStore", grant_id: str) -> "Grant":
    """The one grant whose id is `grant_id`, or begins with it.

    Raises:
        ConfigError: there is none, or more than one.
    """
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.safe_text import one_line

    found = [grant for grant in opened.grants.given() if grant_id and grant.id.startswith(grant_id)]
    if len(found) == 1:
        return found[0]
    said = one_line(grant_id) or "nothing"
    raise ConfigError(f"{len(found) or 'no'} grants begin with {said}: see hla grants ls --all")


def _states(opened: "SQLStore", now: int) -> "Callable[[Grant], str]":
    """Return what says of a grant what it is at a moment: also that no key proves it any more."""
    from humanlayer_agent.configuration import build_authority
    from humanlayer_agent.errors import ConfigError

    runs = bool(opened.supervisors())
    try:
        authority = build_authority()
    except ConfigError:  # whoever would use the grant is told so
        return lambda grant: grant.state(now)
    signers = authority.signers if authority is not None else frozenset()

    def state(grant: "Grant") -> str:
        found = grant.state(now)
        return found if found != "active" or grant.is_proved(signers, runs=runs) else "unproved"

    return state


def _print_table(grants: "Iterable[tuple[Grant, str]]") -> None:
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    rows = [
        (
            grant.id[:_SHORT],
            state,
            f"{grant.uses} of {grant.max_uses}",
            time_text(grant.until),
            " and ".join(grant.by),
            f"{grant.words} ({_where(grant)})",
        )
        for grant, state in grants
    ]
    titles = ("id", "state", ">used", "until", "by", "lets through")
    print_rows(console(), titles, [[one_line(cell) for cell in row] for row in rows], whole=True)


def _where(grant: "Grant") -> str:
    runs = {f"run {scope.run[:8]}" for scope in grant.scopes if scope.run} or {"any run"}
    agents = {f"agent {scope.agent}" for scope in grant.scopes if scope.agent}
    projects = {f"in {scope.project}" for scope in grant.scopes if scope.project}
    return ", ".join([*sorted(runs), *sorted(agents), *sorted(projects)])


def _facts(grant: "Grant", state: str) -> "Iterable[tuple[str, str]]":
    from humanlayer_agent.safe_text import one_line

    yield "grant", grant.id
    yield "state", state
    yield "covers", one_line(grant.words)
    yield "where", one_line(_where(grant))
    yield "by", one_line(" and ".join(grant.by))
    yield "given", time_text(grant.given)
    yield "until", time_text(grant.until)
    yield "used", f"{grant.uses} of {grant.max_uses}"
    if grant.revoked is not None:
        yield "revoked", f"{time_text(grant.revoked)} by {one_line(grant.revoked_by)}"


def _record(grant: "Grant", uses: "Iterable[UsedFor]", state: str) -> GrantRecord:
    first = grant.scopes[0] if grant.scopes else None
    return {
        "id": grant.id,
        "state": state,
        "words": grant.words,
        "by": list(grant.by),
        "given": grant.given,
        "until": grant.until,
        "uses": grant.uses,
        "max_uses": grant.max_uses,
        "project": first.project if first else "",
        "agent": first.agent if first else "",
        "run": next((scope.run for scope in grant.scopes if scope.run), ""),
        "policy": first.policy if first else "",
        "revoked": grant.revoked,
        "revoked_by": grant.revoked_by or None,
        "used": [
            {"use": use.use, "at": use.at, "run": use.run, "agent": use.agent, "command": use.command} for use in uses
        ],
    }
