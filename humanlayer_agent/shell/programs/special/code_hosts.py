"""`gh api` and `glab api`: requests by their method, and of GraphQL by their text."""

import re

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader, verbs
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_READ_ONLY = frozenset({"GET", "HEAD"})
_MUTATES = re.compile(r"\b(mutation|subscription)\b", re.IGNORECASE)


def api(run: Run, spec: Spec, fields: list[Field]) -> None:
    """Note what a request does. With fields or a body it is a POST, unless its method is given."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    options = run.command.options
    given = [*options.get("field", ()), *options.get("raw-field", ())]
    for use in arguments.options:
        if use.option.name == "field" and use.value is not None:
            _from_file(run, use.value)
    for word in arguments.operands:
        if word.prefix.startswith(("http://", "https://")):
            run.host(word, origin=f"{run.command.program} api")
    headers = options.get("header", ())
    if any(h is None or "override" in h.lower() for h in headers) or len(arguments.operands) != 1:
        run.command.verbs |= {"unknown"}
        run.doubt(run.command.text)
    endpoint = arguments.operands[0].text if arguments.operands else None
    methods = {(m or "?").upper() for m in options.get("method", ())}
    if endpoint is None:
        verb = "unknown"
    elif endpoint.strip("/") in ("graphql", "api/graphql") or endpoint.rstrip("/").endswith("/graphql"):
        verb = _graphql(given, "input" in options)
    elif methods:
        verb = "read" if methods <= _READ_ONLY else "delete" if methods == {"DELETE"} else "change"
    else:
        verb = "change" if given or "input" in options else "read"
    if verb == "read" and re.search(r"secret|token|/variables\b", endpoint or ""):
        verb = "read" if re.search(r"actions/secrets|/public-key", endpoint or "") else "secrets"
    verbs.note(run, spec, verb)


def clone(run: Run, spec: Spec, fields: list[Field]) -> None:
    """REPOSITORY [DIRECTORY] [-- OPTIONS]: options for git can name programs that it runs."""
    spec_reader.apply_plain(run, spec, fields)
    operands = run.command.operands
    if len(operands) == 1:
        name = (operands[0] or "").rstrip("/").rpartition("/")[2].removesuffix(".git")
        run.path("write", spec_reader.implied(run.command, name) if name else fields[0], origin="clone", recursive=True)
    handed = any(word.text == "--" for word in fields)
    if handed:
        run.code(None, what="options of git", role="option", origin=f"{run.command.program} clone")
        run.doubt(run.command.text)
    verbs.note(run, spec, "execute" if handed else "read")


def _from_file(run: Run, field: Field) -> None:
    """`name=@file` is read from there."""
    name, _, value = (field.text or field.prefix).partition("=")
    if field.text is None and not value:
        run.doubt(field.word.raw)
    elif value.startswith("@"):
        run.path("read", field.tail(len(name) + 2), role="option", origin=f"{run.command.program} field")


def _graphql(fields: list[str | None], body: bool) -> str:
    """A query only reads where all of its text is there, and no operation in it is another one."""
    queries = [f.partition("=")[2] for f in fields if f is not None and f.startswith("query=")]
    known = not body and None not in fields and bool(queries)
    reads = all(q.lstrip().startswith(("query", "{", "fragment")) and not _MUTATES.search(q) for q in queries)
    return "read" if known and reads else "change"
