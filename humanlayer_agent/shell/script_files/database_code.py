"""Code that databases of SQLite hold themselves: views, triggers, defaults and checks run when a table is used.

Measured with sqlite3 3.40.1, where trusted_schema is on: from a view, a trigger, a default or a check the shell
refuses readfile(), writefile(), load_extension() and fsdir ("unsafe use of"), but runs `edit(text, command)`, with
-readonly too; only -safe refuses it. A table of FTS4 with `uncompress=readfile`, or `load_extension`, calls that for
each text that is read. So a SELECT on somebody's file may run any command, and show any file. What the file holds is
therefore read first: each function in it has to be one that only computes.
"""

from dataclasses import replace

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.languages.sql.queries import DATABASE
from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.reader import DiskLooks

_BESIDE = ("", "-wal", "-journal")
"""Where SQLite looks for what a database holds (https://sqlite.org/tempfiles.html)."""


def note(run: Run, effect: Effect, word: Field) -> bool:
    """Note that a database is opened, and what it holds runs. False where there is no such file yet.

    Args:
        effect: that of the command on the file.
        word: what names it.
    """
    path = effect.operand
    if path is None or not effect.resolved or effect.below or effect.pattern is not None:
        run.code(word, what=f"what {word.shown} has stored", role="stored", origin="sqlite3 database")
        run.doubt(word.word.raw)
        return True
    path = plain_path(path)
    held = f"what {path} has stored"
    told = replace(word, word=replace(word.word, raw=held))
    for ending in _BESIDE:
        stands_for = Effect("execute", "stored", path + ending, True, effect.span)
        run.walk.scripts.judged(run.command, stands_for, path + ending, told, now=True)
    reader = run.walk.scripts.reader
    if reader is not None and run.walk.scripts.source(path) is None and not isinstance(reader, DiskLooks):
        return False
    found = reader.stored_sql(path) if isinstance(reader, DiskLooks) else None
    if found == ():
        return run.walk.scripts.source(path) is not None
    reasons = [held] if found is None else _unread(run, found)
    if found is not None:
        run.walk.scripts.source(path)  # a permit is for the file that was read
    for reason in reasons[:1]:
        run.code(word, what=reason, role="stored", origin="sqlite3 database")
        run.doubt(held)
    return True


def _unread(run: Run, texts: tuple[str, ...]) -> list[str]:
    """What of these texts is not known to be harmless."""
    out: list[str] = []
    for text in texts:
        behaviour = run.walk.code("sqlite", text)
        if behaviour is None:
            out.append("a text in the database")
            continue
        out += [f"{reason} (stored in the database)" for reason in behaviour.doubts]
        out += [f"{act.origin} (stored in the database)" for act in behaviour.acts if act.kind != DATABASE]
    return out
