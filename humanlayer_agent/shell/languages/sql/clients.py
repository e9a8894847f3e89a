"""Texts for sqlite3, psql and mysql (mariadb): statements, and commands of the program itself."""

import re
from collections.abc import Callable, Iterable

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Found, Text
from humanlayer_agent.shell.languages.sql.lexer import Dialect, NotUnderstood, Token, tokens
from humanlayer_agent.shell.languages.sql.queries import DATABASE, MAX_ACTS, read_statement

Files = Callable[[str], Found] | None

MAX_LINE = 4_000
"""Longest line with a command of a client, in characters."""
_WORD = re.compile(r"""\s*(?:'([^'\\]*)'|"([^"\\]*)"|([^\s'"\\`]+))(?=\s|\Z)""")
_SQLITE_TELLS = frozenset(
    str.split(".tables .table .schema .fullschema .dump .indexes .indices .databases .dbinfo .sha3sum .lint")
)
"""Commands of sqlite3 that tell what is in the database."""
_SQLITE_PLAIN = frozenset(
    str.split(
        """
        .headers .header .mode .width .quit .exit .help .show .stats .timer .nullvalue .separator .bail .echo .changes
        .print .timeout .limit .eqp .explain .version .vfsinfo .vfslist .progress .binary
        """
    )
)
"""Commands of sqlite3 that only print, or say how it prints."""
_SQLITE_FILES = {
    ".output": "write", ".once": "write", ".log": "write", ".trace": "write", ".backup": "write", ".save": "write",
    ".clone": "write", ".restore": "read", ".open": "write", ".import": "read", ".read": "script",
}  # fmt: skip
"""Commands of sqlite3 that open the file they are given, and how."""
_SQLITE_STREAMS = frozenset({"stdout", "stderr", "off", "on"})
_HARMLESS_OPTIONS = frozenset(str.split("--csv --ascii --readonly --new --nofollow --skip -v --schema"))
_PSQL_TELLS = re.compile(r"d[A-Za-z]*[S+x]*|l[+x]*|list\+?|z[S+x]*|s[fv]\+?", re.ASCII)
"""Commands of psql that tell what is in the database. There is none called `do`, and the like, that does more."""
_PSQL_PLAIN = frozenset(
    str.split(
        """
        x t a H f C T p r q h ? timing echo qecho warn pset conninfo errverbose unset copyright help quit print reset
        html
        """
    )
)
"""Commands of psql that only print, or say how it prints."""
_PSQL_OUTPUT = frozenset(str.split("o out w write g gx s"))
_PSQL_ACTS = {
    "i": ("execute", "script", 0), "include": ("execute", "script", 0),
    "ir": ("execute", "script", 0), "include_relative": ("execute", "script", 0),
    "lo_import": ("read", "code", 0), "lo_export": ("write", "code", 1),
    "setenv": ("environment", "itself", 0), "c": ("network", "code", 9), "connect": ("network", "code", 9),
}  # fmt: skip
"""Commands of psql that reach beyond the database: kind and role of the effect, and which word it is done to."""
_PSQL_SENDS = frozenset({"g", "gx", "gdesc", "crosstabview", ";"})
_PSQL_COPY = re.compile(
    r"\s*(?P<what>\(.*\)|[\w.\"]+\s*(?:\([^()]*\))?)\s*\b(?P<way>from|to)\s+(?P<target>program\s+)?"
    r"(?:'(?P<file>[^'\\]*)'|(?P<stream>p?std(?:in|out)))(?P<rest>.*)\Z",
    re.IGNORECASE | re.DOTALL,
)
_MYSQL_COMMAND = re.compile(
    r"[ \t]*(?:\\(?P<short>[!.TPeduCR])|(?P<name>system|source|tee|pager|edit|delimiter|connect|charset|prompt|sandbox"
    r"|query_attributes|resetconnection|ssl_session_data_print)\b)(?P<rest>[^\n]*)\Z",
    re.IGNORECASE | re.ASCII,
)
"""Commands of mysql that do more than to print, at the beginning of a line."""
_MYSQL_SHORT = {"!": "system", ".": "source", "T": "tee", "P": "pager", "e": "edit", "d": "delimiter", "u": "use"}


def sqlite(text: str, path: str | None = None, files: Files = None) -> Behaviour:
    """Return what sqlite3 does that is given `text`: as an argument, by -init, or on its standard input."""
    behaviour = Behaviour(unread=True, steady=True, anywhere=True)
    statements = _apart(text, lambda line: line.lstrip().startswith("."), Dialect.SQLITE, behaviour, _sqlite_command)
    _statements(statements, Dialect.SQLITE, behaviour)
    return behaviour


def psql(text: str, path: str | None = None, files: Files = None) -> Behaviour:
    """Return what psql does that is given `text`: by -c, -f, or on its standard input."""
    behaviour = Behaviour(unread=True, steady=True, anywhere=True)
    _statements(text, Dialect.POSTGRESQL, behaviour)
    return behaviour


def mysql(text: str, path: str | None = None, files: Files = None) -> Behaviour:
    """Return what mysql or mariadb does that is given `text`: by -e, `source`, or on its standard input."""
    behaviour = Behaviour(unread=True, steady=True, anywhere=True)
    statements = _apart(text, lambda line: bool(_MYSQL_COMMAND.match(line)), Dialect.MYSQL, behaviour, _mysql_command)
    _statements(statements, Dialect.MYSQL, behaviour)
    return behaviour


def _apart(
    text: str,
    is_command: Callable[[str], bool],
    dialect: Dialect,
    behaviour: Behaviour,
    read: Callable[[str, Behaviour], None],
) -> str:
    """Read the lines that are commands, and return the others."""
    kept: list[str] = []
    begun = 0
    for line in text.split("\n"):
        if not is_command(line):
            kept.append(line)
            continue
        if not _complete("\n".join(kept[begun:]), dialect):
            behaviour.doubt("a line within a statement that may be a command")
        begun = len(kept)
        if len(line) > MAX_LINE or len(behaviour.acts) > MAX_ACTS:
            behaviour.doubt("more commands than are followed")
        else:
            read(line.strip(), behaviour)
    return "\n".join(kept)


def _complete(text: str, dialect: Dialect) -> bool:
    try:
        found = tokens(text, dialect)
    except NotUnderstood:
        return False
    return not found or found[-1].kind == "end"


def _statements(text: str, dialect: Dialect, behaviour: Behaviour) -> None:
    try:
        found = tokens(text, dialect)
    except NotUnderstood as error:
        behaviour.doubt(str(error))
        found = _salvaged(text, dialect)
    for statement in _split(found, dialect, behaviour):
        read_statement(statement, dialect, behaviour)


def _salvaged(text: str, dialect: Dialect) -> list[Token]:
    """The tokens that a text has, with whatever is not understood left out: what they name is said besides."""
    plain = re.sub(r"/\*[!M+]*[0-9]*|\*/|[\0\ufeff\\'\"`]|--|\$\w*\$|#", " ", text)
    try:
        return tokens(plain, dialect)
    except NotUnderstood:
        return []


def _split(found: list[Token], dialect: Dialect, behaviour: Behaviour) -> Iterable[list[Token]]:
    """The statements. The body of a trigger of SQLite holds semicolons of its own."""
    statement: list[Token] = []
    for token in found:
        if token.kind == "meta":
            sends = _psql_line(token.text, behaviour)
            if statement and not sends:
                behaviour.doubt(f"{token.text.split()[0]} within a statement")
            if sends:
                yield statement
                statement = []
        elif token.kind != "end" or (dialect is Dialect.SQLITE and _is_trigger(statement) and not _ended(statement)):
            statement.append(token)
        else:
            yield statement
            statement = []
    yield statement


def _is_trigger(statement: list[Token]) -> bool:
    words = [token.text for token in statement[:3]]
    return words[:1] == ["create"] and ("trigger" in words[1:2] or words[2:3] == ["trigger"])


def _ended(statement: list[Token]) -> bool:
    return statement[-1].text == "end" and len(statement) > 1 and statement[-2].kind == "end"


# ---- commands --------------------------------------------------------------------------------------


def _words(text: str) -> list[str | None]:
    """The words of a command; None for what is quoted in a way that is not followed."""
    out: list[str | None] = []
    at = 0
    while text[at:].strip():
        found = _WORD.match(text, at)
        if found is None:
            return [*out, None]
        out.append(next(each for each in found.groups() if each is not None))
        at = found.end()
    return out


def _act(behaviour: Behaviour, kind: str, operand: str | None, origin: str, role: str = "code") -> None:
    behaviour.acts.append(Act(kind, (Text() if operand is None else Text.of(operand),), role=role, origin=origin))


def _sqlite_command(line: str, behaviour: Behaviour) -> None:
    """A command of sqlite3's own. Which of them may be shortened differs between versions: those count as unread."""
    name, _, rest = line.partition(" ") if "\t" not in line else re.split(r"([ \t])", line, maxsplit=1)
    words = _words(rest)
    if name in (".shell", ".system"):
        _act(behaviour, "shell", rest.strip() or None, name)
        if None in words or re.search(r"['\"\\]", rest):
            behaviour.doubt(f"{name} with quotes")
    elif name in _SQLITE_FILES:
        _sqlite_file(name, words, behaviour)
    elif name == ".load":
        behaviour.doubt(".load of a library")
    elif name in (".parameter", ".param") and words[:1] not in (["list"], ["clear"], ["init"]):
        behaviour.doubt(f"{name}, which runs what it is given")
    elif name in _SQLITE_TELLS:
        _act(behaviour, DATABASE, name, name, "read")
    elif name not in _SQLITE_PLAIN and name not in (".parameter", ".param"):
        behaviour.doubt(f"{name}, which is not understood here")


def _sqlite_file(name: str, words: list[str | None], behaviour: Behaviour) -> None:
    kind = _SQLITE_FILES[name]
    options = [word for word in words if word is not None and word.startswith("-")]
    plain = [word for word in words if word is None or not word.startswith("-")]
    if not _HARMLESS_OPTIONS.issuperset(options):
        behaviour.doubt(f"{name} with options")
    if not plain or (plain[0] in _SQLITE_STREAMS and name in (".output", ".once", ".log", ".trace")):
        if name == ".once":
            behaviour.doubt(".once without a file")
        return
    if "--skip" in options:
        plain = plain[1:] or [None]
    for file in plain[: 2 if name in (".backup", ".save", ".restore") else 1]:
        if file is not None and file.startswith("|"):
            _act(behaviour, "shell", file[1:], f"{name} with a pipe")
            behaviour.doubt(f"{name} with a pipe")
        elif kind == "script":
            _act(behaviour, "execute", file, name, "script")
        elif file is not None and file.lower().startswith("file:"):
            behaviour.doubt(f"{name} of a URI")
        elif file not in ("main", "temp", ":memory:", "memory"):
            stored = name in (".open", ".restore")
            _act(behaviour, kind, file, name, DATABASE if stored else "code")
    if name in (".import", ".restore"):
        _act(behaviour, DATABASE, plain[1] if len(plain) > 1 else name, name, "change")


def _psql_line(text: str, behaviour: Behaviour) -> bool:
    """A line of psql from its first backslash on: commands, up to `\\\\`. True where one sends the statement before."""
    if len(text) > MAX_LINE or len(behaviour.acts) > MAX_ACTS:
        behaviour.doubt("more commands than are followed")
        return True
    for inner in re.findall(r"`([^`]*)`?", text):
        _act(behaviour, "shell", inner, "psql backquotes")
    if "`" in text:
        behaviour.doubt("psql with backquotes")
    sends = False
    while text.startswith("\\"):
        found = re.match(r"\\([^\s\\|]*)", text)
        name = found[1] if found is not None else ""
        rest = text[1 + len(name) :]
        if name.startswith("!"):
            _act(behaviour, "shell", text[2:].strip() or None, "\\!")
            break
        if name == "copy":
            _psql_copy(rest, behaviour)
            break
        following = rest.find("\\")
        text, rest = (rest[following:], rest[:following]) if following >= 0 else ("", rest)
        if not name and text.startswith("\\"):
            behaviour.doubt("a backslash before a backslash")
        elif text == "\\\\":
            text = ""
        if name:
            sends = _psql_command(name, rest, behaviour) or sends
    return sends


def _psql_command(name: str, rest: str, behaviour: Behaviour) -> bool:
    """A command of psql with what stands behind it."""
    words = _words(rest)
    if re.search(r":[\w{'\"]", rest):
        behaviour.doubt(f"\\{name} with a variable")
    if name in _PSQL_OUTPUT:
        _psql_output(name, rest.lstrip(), words[0] if words else "", behaviour)
    elif name in _PSQL_ACTS:
        kind, role, number = _PSQL_ACTS[name]
        _act(behaviour, kind, words[number] if len(words) > number else None, f"\\{name}", role)
        if kind in ("environment", "network"):
            behaviour.doubt(f"\\{name}")
    elif name == "set":
        if words and (words[0] is None or not words[0].replace("_", "").isalnum()):
            behaviour.doubt("\\set of a name that is not plain")
    elif _PSQL_TELLS.fullmatch(name) is not None:
        _act(behaviour, DATABASE, f"\\{name}", f"\\{name}", "read")
    elif name not in _PSQL_SENDS and name not in _PSQL_PLAIN:
        behaviour.doubt(f"\\{name}, which is not understood here")
    return name in _PSQL_SENDS


def _psql_output(name: str, rest: str, target: str | None, behaviour: Behaviour) -> None:
    r"""`\o`, `\w`, `\g`: a file that is written, or a command that reads what is printed."""
    if rest.startswith("|"):
        _act(behaviour, "shell", rest[1:].strip(), f"\\{name} |")
    elif rest.startswith("("):
        behaviour.doubt(f"\\{name} with options")
    elif target != "":
        _act(behaviour, "write", target, f"\\{name}")


def _psql_copy(rest: str, behaviour: Behaviour) -> None:
    r"""`\copy`: the rest of the line; the file, or the program, is one of this machine."""
    found = _PSQL_COPY.match(rest)
    if found is None:
        behaviour.doubt("\\copy that is not understood here")
        return
    way, what = found["way"].lower(), found["what"].strip()
    if what.startswith("("):
        inside = what[1:-1]
        _statements(inside, Dialect.POSTGRESQL, behaviour)
    else:
        table = what.partition("(")[0].strip().replace('"', "")
        _act(behaviour, DATABASE, table, "\\copy", "read" if way == "to" else "change")
    if found["target"]:
        _act(behaviour, "shell", found["file"], "\\copy program")
    elif found["file"] is not None:
        _act(behaviour, "write" if way == "to" else "read", found["file"], "\\copy")
    elif found["stream"].lower().endswith("stdin"):
        behaviour.doubt("\\copy from stdin, behind which data and statements can't be told apart")


def _mysql_command(line: str, behaviour: Behaviour) -> None:
    """A command of mysql's own at the beginning of a line."""
    found = _MYSQL_COMMAND.match(line)
    assert found is not None
    name = (found["name"] or _MYSQL_SHORT.get(found["short"], found["short"])).lower()
    rest = found["rest"].strip()
    plain = rest.rstrip(";").strip()
    if name == "system":
        _act(behaviour, "shell", rest or None, name)
    elif name == "source":
        _act(behaviour, "execute", plain or None, name, "script")
    elif name == "tee":
        _act(behaviour, "append", plain or None, name)
    elif name == "pager":
        _act(behaviour, "shell", plain or None, name)
        behaviour.doubt("pager")
    elif name == "use":
        _act(behaviour, DATABASE, plain or None, name, "read")
    else:
        behaviour.doubt(f"{name}, which is not understood here")
