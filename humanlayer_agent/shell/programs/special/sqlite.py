"""sqlite3: statements work on the database file; commands that begin with a dot can run programs and open files.

What is measured with 3.40.1: a file that is not there is made, empty, by a read too, and -readonly refuses that; -safe
refuses the commands, functions and statements that reach beyond the database.
"""

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.languages.code_effects import perform
from humanlayer_agent.shell.languages.sql.queries import DATABASE
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.script_files import database_code

_LANGUAGES = {"sqlite3": "sqlite", "psql": "psql", "mysql": "mysql", "mariadb": "mysql"}


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """sqlite3 DATABASE [SQL ...]: without statements they come on the standard input."""
    arguments = read_arguments(spec, fields)
    database = arguments.operands[0] if arguments.operands else None
    opened = [] if database is None or run.command.flags & {"version"} else _opened(run, database, arguments)
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    run.command.listed = True
    if "version" in run.command.flags:
        for effect in opened:
            run.command.effects.remove(effect)
        return
    for each in arguments.operands[1:]:
        statements(run, each.text, each)
    if len(arguments.operands) < 2:
        given(run)
    checked = opened if database is not None and "safe" not in run.command.flags else []
    held = [database_code.note(run, effect, database) for effect in checked if database is not None]
    reads = all(e.role == "read" for e in run.command.effects if e.kind == DATABASE)
    scripts = any(e.kind == "execute" and e.unread for e in run.command.effects)
    there = _is_there(run, opened, held)
    if "readonly" not in run.command.flags and not (reads and not scripts and there and run.command.resolved):
        for effect in opened:
            effect.kind = "write"


def _opened(run: Run, database: Field, arguments: Arguments) -> list[Effect]:
    """Note the file, of which it is seen later whether it is changed."""
    if any(text.lower().startswith("file:") for text in database.texts or (database.prefix,)):
        run.doubt(database.word.raw)  # a URI, which percent signs and parameters may lead elsewhere
    if database.text in (":memory:", ""):
        return []
    before = len(run.command.effects)
    run.path("read", database, role=DATABASE, origin="sqlite3 operand 1")
    return run.command.effects[before:]


def _is_there(run: Run, opened: list[Effect], held: list[bool]) -> bool:
    """Whether the file is there, as far as can be told: sqlite3 makes it otherwise."""
    if held:
        return all(held) and run.walk.scripts.reader is not None
    return all(e.operand is not None and run.walk.scripts.source(e.operand) is not None for e in opened)


def given(run: Run) -> None:
    """What comes on the standard input is run."""
    stdin = run.context.stdin
    if stdin.kind == "null":
        return
    origin = f"{run.command.program} standard input"
    text = stdin.text if stdin.text is not None else operand_effects.input_text(run, origin)
    if text is not None:
        statements(run, text, spec_reader.implied(run.command, text))
        return
    run.code(None, what=None, role="stdin", origin=origin)
    run.doubt(run.command.text)


def statements(run: Run, text: str | None, word: Field) -> None:
    """Note what a text of SQL, and of commands of the program's own, does."""
    language = _LANGUAGES.get(run.command.program or "", "")
    behaviour = run.walk.code(language, text) if text is not None else None
    if behaviour is None:
        run.code(word, what=text, role="statements", origin=f"{run.command.program} statements")
        run.doubt(word.word.raw)
        return
    perform(run, behaviour, language)
