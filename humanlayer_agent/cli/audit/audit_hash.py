"""`hla audit hash`: was this value used?"""

import sys
from typing import Annotated

import typer

from humanlayer_agent.cli.shared.store_access import StoreOption, open_store, time_text


def hash_value(
    value: Annotated[str, typer.Argument(help="The value; - reads it from standard input, where no history keeps it.")],
    store: StoreOption = None,
) -> None:
    """Say whether a value was used.

    Prints the mark that stands in the log for it, and where it stands. Exit code 1: nowhere.

    Example: hla audit hash - < secret.txt
    """
    from humanlayer_agent.cli.shared.human_terminal import human_only

    human_only("hla audit hash", "asks whether a value was used: an agent could guess secrets", store)
    text = sys.stdin.read().rstrip("\n") if value == "-" else value
    opened = open_store(store)
    redactor = opened.redactor()
    mark = redactor.mark(text)
    whole = redactor.digest(text)
    typer.echo(mark)
    found = 0
    for entry in opened.events():
        body = entry.body.decode()
        if mark in body or whole in body:
            event = entry.event
            typer.echo(
                f"{entry.seq:>6}  {time_text(event['at'])}  {str(event.get('run') or '-')[:8]:<8}  {event['type']}"
            )
            found += 1
    raise typer.Exit(0 if found else 1)
