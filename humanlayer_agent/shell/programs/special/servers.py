"""psql, mysql and mariadb: statements that a server runs, and commands of the client's own."""

import re
from urllib.parse import parse_qsl, urlsplit

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.sqlite import given

_HARMLESS = frozenset(
    str.split(
        """
        host hostaddr port dbname user password sslmode connect_timeout application_name client_encoding
        target_session_attrs keepalives gssencmode channel_binding
        """
    )
)
"""Settings of a connection (libpq's documentation, 34.1.2) that name no file and no service."""
_PAIR = re.compile(r"\s*(\w+)\s*=\s*(?:'([^'\\]*)'|([^\s'\\]*))(?=\s|\Z)")
_LOCAL = "localhost"
_VARIABLES = ("PGHOST", "PGHOSTADDR", "PGDATABASE", "PGOPTIONS", "PGSERVICE", "PGSERVICEFILE", "PGSYSCONFDIR")
"""Variables by which psql goes to another server or database, or takes names for others."""


def psql(run: Run, spec: Spec, fields: list[Field]) -> None:
    """psql [options] [database [user]]: without -c and -f the statements come on the standard input."""
    arguments = read_arguments(spec, fields)
    flags = arguments.flags()
    if "version" not in flags:
        _postgresql_server(run, arguments)
    _note(run, spec, arguments, 2)
    named = [use.value for use in arguments.options if use.option.name == "database" and use.value is not None]
    places = named or arguments.operands[:1]
    run.command.attributes["database"] = [_database(each.text) for each in places] or [None]
    run.command.attributes["user"] = [*run.command.options.get("user", ())] or [None]
    if "list" in flags:
        place = run.command.effects[0].operand or "an unknown server"
        label = f"PostgreSQL on {place}"
        run.effect("database", "read", "its databases", True, run.command.span, "psql -l", value=label)
    elif not flags & {"version", "command", "file"}:
        given(run)
    _settle(run, [])


def mysql(run: Run, spec: Spec, fields: list[Field]) -> None:
    """mysql [options] [database]: without -e the statements come on the standard input."""
    arguments = read_arguments(spec, fields)
    flags = arguments.flags()
    hosts = [use.value for use in arguments.options if use.option.name == "host" and use.value is not None]
    if "version" not in flags:
        for each in hosts[-1:]:
            run.host(each, origin="mysql host")
        if not hosts:  # ~/.my.cnf says which
            run.effect("network", "database", "the server of its settings", True, run.command.span, "mysql")
    _note(run, spec, arguments, 1)
    databases = [*run.command.options.get("database", ()), *(each.text for each in arguments.operands)]
    run.command.attributes["database"] = databases or [None]
    run.command.attributes["user"] = [*run.command.options.get("user", ())] or [None]
    if not flags & {"version", "execute"}:
        given(run)
    used = [each.operand for each in run.command.effects if each.origin.startswith("use")]
    _settle(run, used)


def _settle(run: Run, used: list[str | None]) -> None:
    """Note that statements go to other databases as well; which, nobody knows where not all of them were read."""
    run.command.attributes["database"] += [*used, *([] if run.command.resolved else [None])]


def _database(text: str | None) -> str | None:
    """The database that a name, a URI or a string of settings names; None where it is not known."""
    if text is None or ("=" not in text and "://" not in text):
        return text or None
    if "://" in text:
        try:
            parsed = urlsplit(text)
        except ValueError:
            return None
        named = parsed.path.removeprefix("/")
        plain = re.fullmatch(r"[\w.-]+", named) and "dbname" not in parsed.query
        return named if plain else None
    found = {name: plain or quoted for name, quoted, plain in _PAIR.findall(text)}
    return found.get("dbname") or None


def _note(run: Run, spec: Spec, arguments: Arguments, operands: int) -> None:
    spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    run.command.listed = True
    for word in arguments.operands[operands:]:
        run.doubt(word.word.raw)


def _postgresql_server(run: Run, arguments: Arguments) -> None:
    """Note the servers that psql may talk to: by -h, by what -d or the first operand says, or on this machine."""
    named = {use.option.name: use.value for use in arguments.options if use.value is not None}
    places = [named[name] for name in ("host", "database") if name in named] + arguments.operands[:1]
    found = False
    for word in places:
        if word is named.get("host"):
            texts: list[str | None] = [*word.text.split(",")] if word.text is not None else [None]
            found = True
        elif word.text is not None and ("://" in word.text or "=" in word.text):
            texts = _in_connection(run, word)
            found = found or bool(texts)
        elif word.text is None:
            texts, found = [None], True
        else:
            continue
        for text in texts:
            if text is not None and (text.startswith(("/", "@")) or not text):
                text = _LOCAL  # a socket
            run.host(Field(word.word, word.start, word.end, text=text, prefix=text or ""), origin="psql host")
    told = [name for name in _VARIABLES if name in run.state.exported and name in run.state.variables]
    for name in told:
        run.doubt(name)
    if not found:
        place = spec_reader.implied(run.command, _LOCAL)
        run.host(Field(place.word, place.start, place.end, text=None, prefix="") if told else place, origin="psql")


def _in_connection(run: Run, word: Field) -> list[str | None]:
    """The hosts in a URI or a string of settings."""
    text = word.text or ""
    hosts: list[str | None] = []
    if "://" in text:
        try:
            parsed = urlsplit(text)
            pairs = parse_qsl(parsed.query, keep_blank_values=True)
            places = parsed.netloc.rpartition("@")[2].split(",")
        except ValueError:
            run.doubt(word.word.raw)
            return [None]
        if parsed.scheme not in ("postgresql", "postgres") or "%" in parsed.netloc.rpartition("@")[2]:
            run.doubt("the address of the database")
            return [None]
        hosts += [re.sub(r":\d*\Z", "", place).strip("[]") for place in places if place]
    else:
        found = [_PAIR.match(text)]
        pairs = []
        while (last := found[-1]) is not None:
            pairs.append((last[1], last[2] if last[2] is not None else last[3]))
            found.append(_PAIR.match(text, last.end()))
        end = next((each.end() for each in reversed(found) if each is not None), 0)
        if text[end:].strip():
            run.doubt("the address of the database")
            return [None]
    for name, value in pairs:
        if name in ("host", "hostaddr"):
            hosts += value.split(",")
        elif name not in _HARMLESS:
            run.doubt(f"{name} of the database's address")
            if name == "service":
                hosts.append(None)
    return hosts
