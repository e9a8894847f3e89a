"""`hla store`: makes a store on a PostgreSQL server, and says what is in one."""

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_record, prints
from humanlayer_agent.cli.shared.records import StoreRecord
from humanlayer_agent.cli.shared.store_access import open_store

if TYPE_CHECKING:
    from humanlayer_agent.store.postgres.migration import Moved

app = Commands(
    help="""Make a store on a PostgreSQL server, for agents on many machines, and see what is in a store.

    Examples: hla store init --store postgresql://owner@db.example.com/humanlayer;  hla store status"""
)


@app.command()
def init(store: StoreOption = None) -> None:
    """Make the store in an empty database, or bring an older one to this version, as the role that is to own it.

    It makes three roles as well: humanlayer_agents may ask and run what was approved, and never approve;
    humanlayer_approvers serve channels and record answers; humanlayer_auditors read. Let machines and people log in as
    members of one of them (CREATE ROLE ci LOGIN IN ROLE humanlayer_agents), and name that in their store's address.
    Passwords are best kept in ~/.pgpass.

    Example: hla store init --store postgresql://owner@db.example.com/humanlayer
    """
    human_only("store init", "makes a store", store)
    from humanlayer_agent.errors import ConfigError, StoreError
    from humanlayer_agent.store.access import make_store

    try:
        made = make_store(store)
    except StoreError as error:
        raise ConfigError(str(error)) from error
    was = "made" if not made.before else f"brought from version {made.before} to {made.now}"
    done = "there already, and of the newest version" if made.before == made.now else was
    typer.echo(f"the store {made.place} is {done}; roles: {', '.join(made.roles)}")


@app.command()
def migrate(
    source: Annotated[str, typer.Argument(metavar="FROM", help="Where the store is.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="A file that is not there yet, or an empty database, as its owner.")
    ],
) -> None:
    """Move a whole store to a server, or back to a file: requests, votes, grants, and the log, which stays the same.

    It is verified before and after. End agents and hubs first. Nothing of the store that was left is deleted: it can
    still be read, and nothing goes on in it. Name the new one in store.yaml or HUMANLAYER_STORE.

    Example: hla store migrate store.sqlite3 postgresql://owner@db/humanlayer
    """
    human_only("store migrate", "moves the store", source)
    from humanlayer_agent.cli.shared.human_signature import open_to_write
    from humanlayer_agent.errors import ConfigError, StoreError
    from humanlayer_agent.safe_text import one_line
    from humanlayer_agent.store.access import move_store

    try:
        with closing(open_to_write(source)) as opened:
            moved: Moved = move_store(opened, target)
    except (StoreError, OSError) as error:
        raise ConfigError(str(error)) from error
    events, requests = moved.verified.count, moved.rows["request"]
    typer.echo(f"{one_line(moved.source)} was moved to {one_line(moved.target)}, which verifies:")
    typer.echo(
        f"{events:,} events, {requests:,} requests, {moved.rows['vote']:,} votes, {moved.rows['permit']:,} permits"
    )


@app.command()
@prints(StoreRecord)
def status(store: StoreOption = None, output: FormatOption = "table") -> None:
    """Say where the store is, which version it has, and how much is in it.

    Examples: hla store status;  hla store status --format json
    """
    human_only("store status", "looks at the store", store)
    from humanlayer_agent.safe_text import one_line

    with closing(open_store(store)) as opened:
        found = opened.figures()
    record: StoreRecord = {
        "location": opened.location,
        "kind": found.kind,
        "version": found.version,
        "events": found.events,
        "waiting": found.waiting,
        "runs": found.runs,
        "leases": [*found.leases],
        "size": found.size,
    }
    if output != "table":
        print_record(record, output)
        return
    typer.echo(f"{one_line(opened.location)} ({found.kind}, schema {found.version}, {found.size:,} bytes)")
    typer.echo(f"{found.events:,} events, {found.runs:,} runs go on, {found.waiting:,} requests wait")
    typer.echo(f"served channels: {', '.join(map(one_line, found.leases)) or 'none'}")
