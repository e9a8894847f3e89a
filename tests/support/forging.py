"""What somebody does to a store's file who knows it well: the triggers are out of the way meanwhile, and back afterwards.

With the schema changed nothing is decided at all. Put back as it was, it gives nothing away: what the rows say is all
that is left to be seen through.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


@contextmanager
def forging(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection to the store, which refuses nothing; it is committed and closed at the end.

    The triggers of a table that is gone then are gone with it.
    """
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'"
        triggers = connection.execute(query).fetchall()
        for name, _, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        yield connection
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        for _, table, statement in triggers:
            if table in tables:
                connection.execute(statement)
        connection.commit()
