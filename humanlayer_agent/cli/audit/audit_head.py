"""`hla audit head`: how far the log goes, signed, to be kept elsewhere."""

import typer

from humanlayer_agent.cli.shared.store_access import StoreOption, open_store


def head(store: StoreOption = None) -> None:
    """Sign the newest event, and print that on one line. Keep it where nobody who can write the log can reach it.

    Example: hla audit head | mail -s "head of the log" auditor@example.com
    """
    from humanlayer_agent.audit.heads import head_text
    from humanlayer_agent.errors import ConfigError, StoreError
    from humanlayer_agent.store.sqlite import SQLiteStore

    path = open_store(store).path
    try:
        typer.echo(head_text(SQLiteStore(path).write_head()))
    except StoreError as error:
        raise ConfigError(str(error)) from error
