"""Functions of node that take more than a line of `node_api.yaml`: programs, paths, requests, modules."""

import posixpath
import re
from collections.abc import Callable
from urllib.parse import unquote, urljoin

from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.javascript import module_imports
from humanlayer_agent.shell.languages.javascript.api_tables import Entry
from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.function_calls import (
    Arguments,
    callbacks,
)
from humanlayer_agent.shell.languages.javascript.possible_values import (
    DATA,
    EMPTY,
    NUMBER,
    TEXT,
    Array,
    Atom,
    Below,
    Foreign,
    Function,
    Here,
    Mark,
    Native,
    Number,
    Prefix,
    Record,
    Value,
    bounded,
    is_numeric,
    joined,
    known_texts,
    operands,
)
from humanlayer_agent.shell.languages.javascript.possible_values import (
    Entry as DirectoryEntry,
)

Special = Callable[[Evaluator, Entry, Arguments, Value], Value]

MAX_CHOICES = 16
_URL_PARTS = ("href", "pathname", "host", "hostname", "protocol", "port", "username", "search", "hash")
"""What may be set in a URL, which then is another one."""
_FILLS = ("fs.writeFile", "fs.appendFile")
_FILE_URL = re.compile(r"file://(/[^?#\\\s]*)")
_URL = re.compile(r"(?:(?:https?|wss?)://)?[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:[/?#]|\Z)", re.ASCII)
"""Hosts that are written as everybody reads them: without a user, blanks, escapes or brackets."""
_HERE: list[Text | None] = [None]
"""The directories of a program that is started where the code is."""


def effect(
    evaluator: Evaluator, entry: Entry, kind: str, operand: Value, role: str, *, recursive: bool, filled: Value
) -> None:
    """`entry` does `kind` to `operand`; `filled` is what it writes there, if it writes a text."""
    if kind == "network":
        host(evaluator, operand, entry.name)
        return
    if kind == "process":
        evaluator.act("process", operand, entry.name)
        return
    if is_numeric(operand) and all(isinstance(a, Number) for a in operand):
        return  # a file that is open
    (text,) = filled if len(filled) == 1 and entry.name.startswith(_FILLS) else (None,)
    known = text if isinstance(text, str) else None
    evaluator.act(kind, paths(operand), entry.name, role=role, recursive=recursive, filled=known)


def paths(value: Value) -> Value:
    """`value` as paths: a URL of a file is one."""
    return frozenset(_path_of(a) if isinstance(a, str) and a.lower().startswith("file:") else a for a in value)


def _path_of(url: str) -> Atom:
    found = _FILE_URL.fullmatch(url)
    return unquote(found[1]) if found is not None else Mark.TEXT


def host(evaluator: Evaluator, operand: Value, origin: str) -> None:
    """A connection to what `operand` names, where node and we agree on what that is."""
    plain = frozenset(
        Mark.TEXT if isinstance(a, str | Prefix) and not _URL.match(a if isinstance(a, str) else a.text) else a
        for a in operand
    )
    evaluator.act("network", plain, origin)


# ---- options ----------------------------------------------------------------------------------------


def options(evaluator: Evaluator, value: Value) -> dict[str, Value] | None:
    """The members of an object of options; None where some may not be seen."""
    out: dict[str, Value] = {}
    for atom in value:
        if isinstance(atom, Record) and not atom.open:
            for name, cell in atom.fields.items():
                out[name] = out.get(name, EMPTY) | cell.value
        elif not (isinstance(atom, Function | str | Number) or atom is Mark.NUMBER):
            return None
    return out


def _started(evaluator: Evaluator, entry: Entry, args: Arguments, first: int) -> tuple[list[Text | None], Value] | None:
    """The directories that a program may be started in, and `shell`; None where nobody can tell."""
    given = EMPTY.union(*(args.at(n) for n in range(first, max(first + 1, len(args.values)))))
    found = options(evaluator, frozenset(a for a in given if not isinstance(a, Function)))
    if found is None or args.rest is not None:
        return None
    if "input" in found:
        evaluator.doubt(f"what {entry.name} gives the program to read can't be told")
    for name in ("execPath", "execArgv", "argv0", "uid", "gid"):
        if name in found:
            evaluator.doubt(f"{entry.name} with {name}")
    if "env" in found:
        _environment(evaluator, found["env"])
    cwd = found.get("cwd")
    places: list[Text | None] = [None] if cwd is None else [*operands(cwd, moved=evaluator.moved)]
    return places, found.get("shell", EMPTY)


def _environment(evaluator: Evaluator, value: Value) -> None:
    """A program gets `value` as its environment."""
    for atom in value:
        if isinstance(atom, Record) and not atom.open:
            for name, cell in atom.fields.items():
                content = operands(cell.value)
                known = content if len(content) == 1 and content[0].known else ()
                evaluator.note(Act("environment", (Text.of(name), *known), "code", "child_process", evaluator.line))
        elif atom != Native("process.env") and atom is not Mark.NUMBER:
            evaluator.note(Act("environment", (Text(),), "code", "child_process", evaluator.line))


# ---- programs ---------------------------------------------------------------------------------------


def _texts(evaluator: Evaluator, value: Value, *, moved: bool) -> list[Text]:
    """`value` as texts for a shell, or words: a path from here is one only where the program starts here too."""
    found = operands(value, moved=moved or evaluator.moved)
    return [each if each.known else Text(prefix=each.prefix) for each in found]


def _shell(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """exec: a shell runs a text."""
    found = _started(evaluator, entry, args, 1)
    places, shell = found or (_HERE, EMPTY)
    if found is None or (shell - {"/bin/sh", "/bin/bash", "sh", "bash"}):
        evaluator.doubt(f"{entry.name} with options that are not known")
    _run_text(evaluator, entry, args.at(0), places)
    return DATA


def _run_text(evaluator: Evaluator, entry: Entry, text: Value, places: list[Text | None]) -> None:
    for place in places:
        for each in _texts(evaluator, text, moved=place is not None):
            evaluator.note(Act("shell", (each,), "code", entry.name, evaluator.line, cwd=place))


def _program(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """spawn and execFile: a program, a list of words, options."""
    listed = args.at(1)
    has_list = any(isinstance(atom, Array) for atom in listed) or not listed or is_numeric(listed)
    found = _started(evaluator, entry, args, 1 if not any(isinstance(a, Array) for a in listed) else 2)
    words = _words(listed)
    if found is None or (not has_list and not all(isinstance(a, Record | Function) for a in listed)):
        evaluator.doubt(f"{entry.name} with words or options that are not known")
        found = (_HERE, EMPTY)
    places, shell = found
    may = bool(shell) and shell != frozenset({"false"})
    if may:
        every = None if words is None else [args.at(0), *words]
        text = TEXT if every is None else joined(p for n, w in enumerate(every) for p in ([_BLANK, w] if n else [w]))
        _run_text(evaluator, entry, text, places)
        if shell - {Mark.NUMBER, "/bin/sh", "/bin/bash", "sh", "bash"}:
            evaluator.doubt(f"{entry.name} with a shell that is not known")
    if not may or Mark.NUMBER not in shell:
        _run_words(evaluator, entry, args.at(0), words, places)
    return DATA


_BLANK: Value = frozenset({" "})


def _words(value: Value) -> list[Value] | None:
    """The words in an array; None where there may be others."""
    arrays = [atom for atom in value if isinstance(atom, Array)]
    if not arrays:
        return []
    return arrays[0].words if len(arrays) == 1 and len(value) == 1 else None


def _run_words(
    evaluator: Evaluator, entry: Entry, first: Value, words: list[Value] | None, places: list[Text | None]
) -> None:
    for place in places:
        for each in _texts(evaluator, first, moved=place is not None)[:MAX_CHOICES]:
            following = [_word(evaluator, word, moved=place is not None) for word in words or ()]
            act = Act("program", (each, *following), "code", entry.name, evaluator.line, many=words is None, cwd=place)
            evaluator.note(act)


def _word(evaluator: Evaluator, value: Value, *, moved: bool) -> Text:
    found = _texts(evaluator, value, moved=moved)
    return found[0] if len(found) == 1 else Text()


def _fork(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """fork: node runs another file."""
    listed = args.at(1)
    found = _started(evaluator, entry, args, 1 if not any(isinstance(a, Array) for a in listed) else 2)
    words = _words(listed)
    if found is None:
        evaluator.doubt(f"{entry.name} with options that are not known")
        found = (_HERE, EMPTY)
    _run_words(evaluator, entry, frozenset({"node"}), None if words is None else [args.at(0), *words], found[0])
    return DATA


# ---- files ------------------------------------------------------------------------------------------


def _remove(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    found = options(evaluator, frozenset(a for a in args.at(1) if not isinstance(a, Function)))
    recursive = found is None or "recursive" in found
    evaluator.act("delete", paths(args.at(0)), entry.name, recursive=recursive)
    return DATA


def _mkdtemp(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """A new directory, whose name begins with the argument; nobody has anything in it."""
    out: set[Text] = set()
    made: set[Below] = set()
    for atom in paths(args.at(0)):
        text = atom.path if isinstance(atom, Here) and not evaluator.moved else atom
        if isinstance(text, str):
            folder = posixpath.dirname(text) or "."
            out.add(Text(below=folder))
            made.add(Below(folder))
        else:
            out.add(Text())
    for each in out or {Text()}:
        evaluator.note(Act("write", (each,), "code", entry.name, evaluator.line))
    return frozenset(made) or TEXT


def _listing(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """readdir: the names in a directory."""
    evaluator.act("read", paths(args.at(0)), entry.name, role="list")
    names: Value = EMPTY
    for atom in args.at(0):
        if isinstance(atom, str):
            names |= {DirectoryEntry(posixpath.normpath(atom))}
        elif isinstance(atom, Here):
            names |= {DirectoryEntry(posixpath.normpath(atom.path))}
        elif isinstance(atom, Below):
            names |= {DirectoryEntry(atom.directory)}
        else:
            names |= TEXT
    return evaluator.array(args.node, "listing", names or TEXT)


_FLAGS = {"r": ("read",), "rs": ("read",), "w": ("write",), "wx": ("write",), "a": ("append",), "ax": ("append",)}


def _open(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    flags = args.at(1)
    known = known_texts(flags)
    if not flags or all(isinstance(a, Function) for a in flags):
        known = ["r"]
    for each in known if known is not None else ["?"]:
        for kind in _FLAGS.get(each, ("read", "write")):
            evaluator.act(kind, paths(args.at(0)), entry.name)
    return NUMBER | {Native("@FileHandle")}


# ---- paths ------------------------------------------------------------------------------------------


def _pure(made: Callable[..., str]) -> Special:
    """A function of texts that are known."""

    def special(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
        out: Value = EMPTY
        for atom in args.at(0) or TEXT:
            if isinstance(atom, str):
                try:
                    out |= {made(atom)}
                except ValueError:
                    out |= TEXT
            elif isinstance(atom, Here) and made is not posixpath.basename:
                out |= {Here(made(atom.path))}
            else:
                out |= TEXT
        return out

    return special


def _basename(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    suffix = known_texts(args.at(1)) if args.at(1) else [""]
    out: Value = EMPTY
    for atom in args.at(0) or TEXT:
        if isinstance(atom, str) and suffix is not None:
            name = posixpath.basename(atom.rstrip("/"))
            out |= {name.removesuffix(each) if name != each else name for each in suffix}
        elif isinstance(atom, DirectoryEntry) and not args.at(1):
            out |= {atom}
        else:
            out |= TEXT
    return out


def _dirname(text: str) -> str:
    return posixpath.dirname(text.rstrip("/") or "/") or "."


def _extension(text: str) -> str:
    return posixpath.splitext(posixpath.basename(text.rstrip("/")))[1]


def _join(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    if args.rest is not None or not args.values:
        return TEXT
    parts: list[Value] = []
    for n, value in enumerate(args.values):
        parts += [value] if not n else [frozenset({"/"}), value]
    return _normal(joined(parts))


def _normal(value: Value) -> Value:
    out: Value = EMPTY
    for atom in value:
        if isinstance(atom, str):
            out |= {posixpath.normpath("/" + atom.lstrip("/") if atom.startswith("/") else atom)}
        elif isinstance(atom, Here):
            out |= {Here(posixpath.normpath(atom.path))}
        elif isinstance(atom, Below):
            out |= {atom}
        else:
            out |= TEXT
    return out


def _resolve(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """path.resolve: from the working directory, which is where the program was started."""
    if args.rest is not None:
        return TEXT
    here: Value = frozenset({Here(".")})
    out = here
    for value in args.values:
        out = bounded(EMPTY.union(*(_resolved(out, right, here) for right in value or TEXT)))
    return _normal(out)


def _resolved(left: Value, right: Atom, here: Value) -> Value:
    """The path `right`, looked for from `left`."""
    if isinstance(right, Here) or (isinstance(right, str) and right.startswith("/")):
        return frozenset({right})
    if isinstance(right, Below):
        return frozenset({right}) if right.directory.startswith("/") or left == here else TEXT
    return joined((left, frozenset({"/"}), frozenset({right})))


def _file_path(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return paths(frozenset(a if isinstance(a, str) and a.startswith("file://") else Mark.TEXT for a in args.at(0)))


def _file_url(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return frozenset(f"file://{a}" if isinstance(a, str) and a.startswith("/") else Mark.TEXT for a in args.at(0))


def _url(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """`new URL(x, base)`, which is used as a text is."""
    texts, bases = known_texts(args.at(0)), known_texts(args.at(1)) if args.at(1) else [""]
    if texts is not None and bases is not None:
        try:
            whole = [urljoin(base, text) if base else text for text in texts for base in bases]
            changed = any(evaluator.member(each).value for each in _URL_PARTS) or bool(evaluator.unnamed.value)
            return (DATA if changed else EMPTY) | frozenset(
                t if _FILE_URL.fullmatch(t) or _URL.match(t) else Mark.TEXT for t in whole
            )
        except ValueError:
            return TEXT | DATA
    return DATA | frozenset(a for a in args.at(0) if isinstance(a, Prefix) and not args.at(1))


# ---- the process ------------------------------------------------------------------------------------


def _argv(evaluator: Evaluator) -> Value:
    if evaluator.argv is None:
        return evaluator.array(evaluator.root, "argv", TEXT)
    words: list[Value] = [TEXT] + [frozenset(each.choices) if each.known else TEXT for each in evaluator.argv]
    return evaluator.array(evaluator.root, "argv", EMPTY.union(*words), words=words)


def _filename(evaluator: Evaluator) -> Value:
    return frozenset({evaluator.path}) if evaluator.path else TEXT


def _directory(evaluator: Evaluator) -> Value:
    return frozenset({posixpath.dirname(evaluator.path)}) if evaluator.path else frozenset({Here(".")})


def _cwd(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return TEXT if evaluator.moved else frozenset({Here(".")})


def _chdir(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    evaluator.moved = True
    evaluator.directories += operands(args.at(0), moved=True)
    return NUMBER


def _home(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return frozenset({"~"})


def _temporary(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return frozenset({"/tmp"})


def _timer(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """setTimeout: a function, and what it is given. A text is code."""
    first = args.at(0)
    functions = bool(first) and all(isinstance(a, Function | Native | Foreign) or a is Mark.DATA for a in first)
    if not functions and not entry.name.startswith("timers."):
        evaluator.doubt(f"{entry.name} of what may be a text")
    return callbacks(evaluator, Arguments(args.node, (first,)), [args.every(2)] * 3) | DATA | args.every(1)


# ---- network ----------------------------------------------------------------------------------------


def _request(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """http.request: a URL, or options."""
    module = entry.name.partition(".")[0]
    target = frozenset(a for a in args.at(0) if not isinstance(a, Record))
    if target - DATA or not args.at(0):
        host(evaluator, target, entry.name)
    second = frozenset(a for value in args.values[1:] for a in value if not isinstance(a, Function))
    for value in (frozenset(a for a in args.at(0) if isinstance(a, Record)), second):
        if value:
            _by_options(evaluator, entry, value, f"{module}://", required=not target)
    return EMPTY


def _by_options(evaluator: Evaluator, entry: Entry, value: Value, scheme: str, *, required: bool) -> None:
    found = options(evaluator, value)
    if found is None or {"socketPath", "agent", "createConnection", "lookup", "proxy", "localAddress"} & found.keys():
        evaluator.doubt(f"{entry.name} with options that are not known")
        return
    name = found.get("hostname", EMPTY) | found.get("host", EMPTY)
    if not name and not required:
        return
    port = found.get("port")
    whole = [frozenset({scheme}), name or frozenset({"localhost"})]
    if port is not None:
        whole += [frozenset({":"}), port]
    host(evaluator, joined([*whole, frozenset({"/"})]), entry.name)


def _connect(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """net.connect: a port and a host, or options, or a path."""
    first = args.at(0)
    if any(isinstance(atom, Record) for atom in first):
        if any(isinstance(a, Record) and "path" in a.fields for a in first):
            evaluator.doubt(f"{entry.name} of a socket in the file system")
        _by_options(evaluator, entry, first, "", required=True)
    elif first and all(isinstance(atom, Number) for atom in first):
        second = frozenset(a for a in args.at(1) if not isinstance(a, Function)) or frozenset({"localhost"})
        host(evaluator, joined([second, frozenset({":"}), first]), entry.name)
    else:
        evaluator.doubt(f"{entry.name} of what is not known")
    return EMPTY


def _listen(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """server.listen(port, host): on all addresses where no host is given."""
    first: Value = args.at(0)
    second: Value = frozenset(a for a in args.at(1) if not isinstance(a, Function))
    if any(isinstance(atom, Record) for atom in first):
        found = options(evaluator, first)
        if found is None or "path" in found or "fd" in found:
            evaluator.doubt("a server that listens at what is not known")
            return EMPTY
        second = found.get("host", EMPTY)
        first = found.get("port", NUMBER)
    if any(isinstance(atom, str) and not atom.isdigit() for atom in first):
        evaluator.act("write", first, entry.name)
        evaluator.doubt("a server that listens at a path")
    elif not second or is_numeric(second):
        evaluator.act("listen", frozenset({"0.0.0.0"}), "server.listen")
    else:
        evaluator.act("listen", second, "server.listen")
    return receiver


# ---- modules, objects, promises ---------------------------------------------------------------------


def _require(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return module_imports.load(evaluator, args.at(0), "require")


def _create_require(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    own = {evaluator.path, f"file://{evaluator.path}"} if evaluator.path else set()
    known = known_texts(args.at(0))
    if known is None or not set(known) <= own:
        evaluator.doubt("a require that looks for modules elsewhere")
    return frozenset({Native("require")})


def _require_resolve(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return TEXT


def _promisify(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return args.at(0)


def _settled(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    return args.every() | DATA


def _promise(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """`new Promise((resolve, reject) => ...)`: what they are given comes of it."""
    callbacks(evaluator, args, [frozenset({Native("Array.of")}), frozenset({Native("Array.of")})])
    return DATA | evaluator.kept.value


def _then(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    value = receiver | DATA
    if entry.name == ".catch":
        value = DATA
    returned = callbacks(evaluator, args, [value, DATA])
    return receiver | returned | DATA


def _assign(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    """Object.assign: the first argument gets the members of the others."""
    target = args.at(0)
    for atom in target:
        if isinstance(atom, Record):
            if not atom.open:
                atom.open, evaluator.changed = True, True
        elif isinstance(atom, Native | Foreign) or atom in (Mark.PROTOTYPE, Mark.METHOD):
            evaluator.doubt("Object.assign to what is not the text's own")
        elif atom in (Mark.PICKED, Mark.CHOSEN):
            evaluator.bent = "Object.assign to what is picked by a name that is not known"
    for atom in args.every(1):
        if isinstance(atom, Native) and atom != Native("process.env"):
            evaluator.doubt(f"Object.assign from {atom.name}")
        elif isinstance(atom, Record) and not atom.open:
            for name, cell in list(atom.fields.items()):
                evaluator.add(evaluator.member(name), cell.value)
    return target | DATA


def _create(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    if args.at(1) or not all(isinstance(a, Record | Function) or a in (Mark.NUMBER, Mark.DATA) for a in args.at(0)):
        evaluator.doubt("Object.create with members, or of what is not the text's own")
    return args.at(0) | DATA


def _push(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    given = args.every()
    for atom in receiver:
        if isinstance(atom, Array):
            evaluator.add(atom.items, given)
            if atom.words is not None:
                atom.words, evaluator.changed = None, True
    if not all(isinstance(atom, Array) for atom in receiver):
        evaluator.keep(given, "an array")
    elif name := evaluator.capability(given):
        evaluator.doubt(f"{name} is put into an array, and can't be followed there")
    return NUMBER


def _joined(evaluator: Evaluator, entry: Entry, args: Arguments, receiver: Value) -> Value:
    arrays = [atom for atom in receiver if isinstance(atom, Array)]
    if len(arrays) != 1 or len(receiver) != 1 or arrays[0].words is None:
        return TEXT
    separator = args.at(0) or frozenset({","})
    return joined(p for n, w in enumerate(arrays[0].words) for p in ([separator, w] if n else [w]))


def _exports(evaluator: Evaluator) -> Value:
    return frozenset({Native("exports")})


READ: dict[str, Callable[[Evaluator], Value]] = {
    "argv": _argv,
    "filename": _filename,
    "dirname-here": _directory,
    "exports": _exports,
}
"""What is a value, and no function."""

SPECIALS: dict[str, Special] = {
    "shell": _shell,
    "program": _program,
    "fork": _fork,
    "remove": _remove,
    "mkdtemp": _mkdtemp,
    "listing": _listing,
    "open": _open,
    "join": _join,
    "resolve": _resolve,
    "dirname": _pure(_dirname),
    "basename": _basename,
    "extname": _pure(_extension),
    "normalize": _pure(posixpath.normpath),
    "file-path": _file_path,
    "file-url": _file_url,
    "url": _url,
    "cwd": _cwd,
    "chdir": _chdir,
    "home": _home,
    "temporary": _temporary,
    "timer": _timer,
    "request": _request,
    "connect": _connect,
    "listen": _listen,
    "require": _require,
    "create-require": _create_require,
    "require-resolve": _require_resolve,
    "promisify": _promisify,
    "settled": _settled,
    "promise": _promise,
    "then": _then,
    "assign": _assign,
    "create": _create,
    "push": _push,
    "joined": _joined,
}
