"""sqlite3: statements work on the database file; commands that begin with a dot can run programs and open files."""

import re

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_SAFE_DOT = frozenset(
    str.split(
        """
        .tables .table .schema .fullschema .headers .header .mode .databases .indexes .indices .dump
        .width .quit .exit .help .show .stats .timer .nullvalue .separator .bail .echo .changes .dbinfo
        .print .timeout .limit .lint .eqp .explain .version .vfsinfo .vfslist .parameter .sha3sum
        .selftest .expert
        """
    )
)
_REACHES_OUT = re.compile(
    r"\b(load_extension|readfile|writefile|edit|attach|into|fts3_tokenizer|zipfile|fsdir|lsdir)\b|/\*",
    re.IGNORECASE | re.ASCII,
)
_INSERTS = re.compile(r"\b(?:insert|replace)(?:\s+or\s+\w+)?\s+into\b", re.IGNORECASE | re.ASCII)


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """sqlite3 DATABASE [SQL ...]: without statements they come on the standard input."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    run.command.operands += [o.text for o in operands]
    if run.command.flags & {"version"}:
        return
    for database in operands[:1]:
        if (database.text or "").lower().startswith("file:"):
            run.doubt(database.word.raw)  # a URI, which percent signs and parameters may lead elsewhere
        if database.text not in (":memory:", ""):
            kind = "read" if "readonly" in run.command.flags else "write"
            run.path(kind, database, role="database", origin="sqlite3 operand 1")
    texts: list[tuple[str | None, Field]] = [(o.text, o) for o in operands[1:]]
    if len(operands) < 2 and run.context.stdin.kind != "null":
        texts = [(run.context.stdin.text, spec_reader.implied(run.command, run.context.stdin.text or ""))]
    for text, word in texts:
        if text is None or not _harmless(text):
            run.code(word, what=text, role="statements", origin="sqlite3 statements")
            run.doubt(word.word.raw)


def _harmless(text: str) -> bool:
    """True where statements stay in the database and no dot command leaves it."""
    for line in text.splitlines():
        first = line.split()[0].lower() if line.split() else ""
        if first.startswith(".") and (first not in _SAFE_DOT or "|" in line):
            return False
    return not _REACHES_OUT.search(_INSERTS.sub("", text))
