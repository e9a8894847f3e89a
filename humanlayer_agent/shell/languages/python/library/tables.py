"""The effects of the functions of known Python modules, as data: the files `modules/*.yaml`.

    modules:
      math: {}                                # nothing of note
      os posix:                               # several names of one module; acts name the first
        others: doubt                         # functions that are not listed: `nothing` (default), `doubt`, or effects
        network: true                         # a URL given to any of its functions is contacted
        functions:
          remove unlink: [{kind: delete, operand: [0, path]}]
          fork: []                            # listed, and harmless
          ioctl: doubt
          urlopen: {does: [...], returns: http.client.HTTPResponse}
        types:
          Path: {value: 0, does: [...], methods: {unlink: [{kind: delete, operand: self}]}}
          # get does it all by giving a Request to `send` of the same object
          Session: {methods: {get: {does: [{kind: network, operand: [0, url]}], through: {send: Request}}}}
        values: [sep, name]                   # attributes that are plain data
        doubt: [cdll]                         # attributes that nobody can follow

An effect:
    kind        a kind of effect (shell/effects.py); or
                  shell, program, python   a shell runs the text; a program is run; Python code is run
                  open                     a file is opened as `mode: [1, mode]` says (`flags` for os.open; `assume` is
                                           the mode that it has by default)
                  directory, import        the working directory changes; a module is imported by name
                  module                   a module is run by name, as `python -m` does, with the words in sys.argv
                  call                     a function that is handed over is called: `arguments` is `rest` or an
                                           operand that is a sequence (else they are not known); `elements: [1, xs]`:
                                           it is called for each element (`spread`: each is a list of arguments)
                  words                    a command line is taken from the operand, or else from sys.argv
                  template                 a template is compiled, whose expressions look up attributes by name
                  configure                a logging configuration: names in it are imported
                  remote, remote-write     a path is read or written, or the host of a URL contacted
                  database                 the host of a database's URL is contacted, or an SQLite file written
                  docstrings               the examples in docstrings, or in the text `operand`, are run
                  doubt                    nobody can tell
    operand     [position, keyword]; the position is -1 where there is only the keyword; `self`: the instance's value
    fixed       a constant operand ("below:/tmp": any path in that directory; "temporary": a fresh file or directory)
    default     the operand where the argument is not given (`self`: the instance's)
    item        the operand is this element of the argument
    many        each element of the argument
    role, recursive
    when, unless        {keyword: value or values}: only with, or not with, that argument
    given, missing      [position, keyword]: only where that argument is there, or is not
    except              operands that do not count
    like                (a regular expression, no case) only where the operand matches or is not known
    argv, words         (program) the list of its words, the first not used; `rest`, `rest-1`: the arguments after it
    value               (environment) the variable's value
Functions called with keyword arguments `shell`, `cwd`, `env`, `executable`, `input` (programs) need not say so.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

_MODULE = re.compile(r"^  ([^\s#][^\n]*?):(?=[ \n])", re.MULTILINE)
_SECTION = re.compile(r"^    ([a-z]+):", re.MULTILINE)
_ENTRY = re.compile(r"^      ([^\s#][^\n]*?):(?=[ \n])", re.MULTILINE)
_OLD = frozenset(
    str.split(
        """
        distutils imp asynchat asyncore smtpd cgi cgitb chunk crypt imghdr mailcap msilib nis nntplib ossaudiodev pipes
        sndhdr spwd sunau telnetlib uu xdrlib aifc audioop lib2to3 tomllib formatter parser symbol macpath binhex
        dummy_threading compression annotationlib _bootsubprocess __builtin__ commands popen2 urllib2 urlparse httplib
        cPickle StringIO cStringIO Queue ConfigParser SocketServer BaseHTTPServer SimpleHTTPServer Tkinter __main__ test
        """
    )
)
STANDARD = sys.stdlib_module_names | _OLD
"""The modules of the standard library, of this Python and of others."""

_PLAIN = "stdlib_plain.yaml"
"""The file of the modules that do nothing but for what it lists."""


class TableError(ValueError):
    """A file of modules that does not fit the form above."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An argument: its position (-1: none) and its keyword; position -2 is the instance."""

    position: int
    keyword: str


INSTANCE = Operand(-2, "self")


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a call does; see above for the keys."""

    kind: str
    operand: Operand | None = None
    role: str = ""
    recursive: bool = False
    many: bool = False
    spread: bool = False
    fixed: str | None = None
    default: str | None = None
    item: int | None = None
    when: Mapping[str, Any] | None = None
    unless: Mapping[str, Any] | None = None
    given: Operand | None = None
    missing: Operand | None = None
    excluded: tuple[str, ...] = ()
    like: re.Pattern[str] | None = None
    argv: Operand | str | None = None
    words: str | None = None
    mode: Operand | None = None
    flags: Operand | None = None
    assume: str = "r"
    value: Operand | None = None
    arguments: Operand | str | None = None
    elements: Operand | None = None


Does = tuple[Effect, ...]
DOUBT: Does = (Effect("doubt"),)


@dataclass(frozen=True, slots=True)
class Entry:
    """What calling a function does, and of which type ("module.name") its result is."""

    does: Does = ()
    returns: str | None = None
    through: tuple[str, str] | None = None
    """The method of the same object that does it all, and the class of its first argument, which stands for the first
    operand: who overrides that method decides what becomes of it."""


@dataclass(frozen=True, slots=True)
class TypeEntry:
    """What making an instance does, and its methods. `value`: the argument that the instance stands for."""

    name: str
    does: Does = ()
    value: int | None = None
    methods: Mapping[str, Entry] = field(default_factory=dict)

    @property
    def effective(self) -> bool:
        """Has it methods that do something?"""
        return bool(self.does) or any(m.does for m in self.methods.values())


@dataclass(slots=True)
class ModuleTable:
    """One module. Its functions and types are parsed when they are first asked for."""

    name: str
    file: str
    dangerous: bool
    """Is there anything in it that does something?"""
    plain: Mapping[str, Any]
    raw: dict[str, dict[str, str]]
    """By section, the text below each name."""
    functions: dict[str, Entry | None] = field(default_factory=dict)
    types: dict[str, TypeEntry | None] = field(default_factory=dict)

    @property
    def harmless(self) -> bool:
        """Is all that the table does not list known to do nothing, whatever it gets?"""
        return standard(self.name) and (not self.dangerous or self.file == _PLAIN)

    @property
    def network(self) -> bool:
        return bool(self.plain.get("network"))

    @property
    def others(self) -> Does:
        return does(self.plain.get("others"), self.file)

    @property
    def obscure(self) -> tuple[str, ...]:
        """Attributes that nobody can follow."""
        return tuple(self.plain.get("doubt", ()))

    def value(self, name: str) -> bool:
        return name in self.plain.get("values", ())

    def function(self, name: str) -> Entry | None:
        """What calling `name` does; None where it is not listed as a function."""
        if name not in self.functions:
            content = self._entry("functions", name)
            self.functions[name] = None if content is _MISSING else entry(content, self.file)
        return self.functions[name]

    def type(self, name: str) -> TypeEntry | None:
        """The class `name`; None where it is not listed as one."""
        if name not in self.types:
            content = self._entry("types", name)
            first = next((k.split()[0] for k in self._names("types") if name in k.split()), name) if content else name
            self.types[name] = None if content is _MISSING else type_entry(first, content, self.file)
        return self.types[name]

    def _entry(self, section: str, name: str) -> Any:
        for names, text in self.raw.get(section, {}).items():
            if name in names.split():
                return _yaml(f"x:{text}", self.file)["x"]
        for names, content in (self.plain.get(section) or {}).items():
            if name in str(names).split():
                return content
        return _MISSING

    def _names(self, section: str) -> Iterator[str]:
        yield from self.raw.get(section, {})
        yield from map(str, self.plain.get(section) or {})

    def everything(self) -> Iterator[tuple[str, Entry | TypeEntry]]:
        """All functions and types, by name."""
        for names in self._names("functions"):
            for name in names.split():
                if found := self.function(name):
                    yield name, found
        for names in self._names("types"):
            for name in names.split():
                if kind := self.type(name):
                    yield name, kind


_MISSING = object()


@dataclass(slots=True)
class Tables:
    """The modules of a folder of files."""

    folder: Path
    places: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """By module: the file, its first name, and its lines."""
    parsed: dict[str, ModuleTable] = field(default_factory=dict)
    """By each name that was asked for."""

    def scan(self) -> None:
        """Find where each module begins. Raises TableError where one is described twice."""
        for path in sorted(self.folder.glob("*.yaml")):
            body = path.read_text(encoding="utf-8").partition("modules:\n")[2]
            starts = list(_MODULE.finditer(body))
            ends = [m.start() for m in starts[1:]] + [len(body)]
            for match, end in zip(starts, ends, strict=True):
                names = match[1].split()
                for name in names:
                    if name in self.places:
                        raise TableError(f"{path.name}: {name} is already described in {self.places[name][0]}")
                    self.places[name] = (path.name, names[0], body[match.end() : end])

    def module(self, name: str) -> ModuleTable | None:
        """The module `name`, by any of its names; None where no file describes it."""
        found = self.parsed.get(name)
        if found is None and (place := self.places.get(name)) is not None:
            file, first, text = place
            if first not in self.parsed:
                self.parsed[first] = _module(first, file, text)
            found = self.parsed[name] = self.parsed[first]
        return found


def _module(name: str, file: str, text: str) -> ModuleTable:
    dangerous = "kind:" in text or "doubt" in text or "network:" in text
    if text.partition("\n")[0].partition("#")[0].strip():
        return ModuleTable(name, file, dangerous, _yaml(f"x:{text}", file)["x"] or {}, {})
    plain: dict[str, Any] = {}
    raw: dict[str, dict[str, str]] = {}
    starts = list(_SECTION.finditer(text))
    ends = [m.start() for m in starts[1:]] + [len(text)]
    for match, end in zip(starts, ends, strict=True):
        body = text[match.end() : end]
        entries = list(_ENTRY.finditer(body))
        if match[1] not in ("functions", "types") or not entries:
            plain[match[1]] = _yaml(f"x:{body}", file)["x"]
            continue
        stops = [m.start() for m in entries[1:]] + [len(body)]
        raw[match[1]] = {m[1]: body[m.end() : stop] for m, stop in zip(entries, stops, strict=True)}
    return ModuleTable(name, file, dangerous, plain, raw)


def entry(content: Any, file: str) -> Entry:
    """A function, as it stands in a file."""
    if isinstance(content, dict):
        _check(content, {"does", "returns", "through"}, file)
        return Entry(does(content.get("does"), file), content.get("returns"), _through(content.get("through"), file))
    return Entry(does(content, file))


def type_entry(name: str, content: Any, file: str) -> TypeEntry:
    """A class, as it stands in a file."""
    if not isinstance(content, dict):
        return TypeEntry(name, does(content, file))
    _check(content, {"does", "value", "methods"}, file)
    methods: dict[str, Entry] = {}
    for names, method in (content.get("methods") or {}).items():
        methods |= dict.fromkeys(str(names).split(), entry(method, file))
    return TypeEntry(name, does(content.get("does"), file), content.get("value"), methods)


def _through(content: Any, file: str) -> tuple[str, str] | None:
    if content is None:
        return None
    if not isinstance(content, dict) or len(content) != 1:
        raise TableError(f"{file}: {content!r} is no method with the class of its argument, as {{send: Request}}")
    ((method, argument),) = content.items()
    return str(method), str(argument)


def does(content: Any, file: str) -> Does:
    """A list of effects, as it stands in a file."""
    if content in (None, "nothing"):
        return ()
    if content == "doubt":
        return DOUBT
    if not isinstance(content, list):
        raise TableError(f"{file}: {content!r} is no list of effects")
    return tuple(_effect(each, file) for each in content)


_OPERANDS = ("operand", "given", "missing", "argv", "mode", "flags", "value", "arguments", "elements")
_KEYS = frozenset(Effect.__dataclass_fields__) - {"excluded"} | {"except"}


def _effect(content: Any, file: str) -> Effect:
    if not isinstance(content, dict) or "kind" not in content:
        raise TableError(f"{file}: {content!r} is no effect")
    _check(content, _KEYS, file)
    keys = dict(content)
    for key in _OPERANDS:
        if key in keys:
            keys[key] = _operand(keys[key], file)
    keys["excluded"] = tuple(keys.pop("except", ()))
    for key in ("fixed", "default"):
        if key in keys:
            keys[key] = str(keys[key])
    if "like" in keys:
        keys["like"] = re.compile(keys["like"], re.IGNORECASE | re.DOTALL)
    return Effect(**keys)


def _operand(content: Any, file: str) -> Operand | str:
    if content == "self":
        return INSTANCE
    if content in ("rest", "rest-1"):
        return str(content)
    if isinstance(content, list) and len(content) == 2 and isinstance(content[0], int):
        return Operand(content[0], str(content[1]))
    raise TableError(f"{file}: {content!r} is no operand, as [position, keyword]")


def _check(content: Mapping[Any, Any], allowed: frozenset[str] | set[str], file: str) -> None:
    for key in content:
        if key not in allowed:
            raise TableError(f"{file}: no key `{key}` in {content!r}")


def _yaml(text: str, file: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise TableError(f"{file}: {error}") from error


@cache
def tables() -> Tables:
    """The modules that ship."""
    found = Tables(Path(__file__).parent / "modules")
    found.scan()
    return found


def module(name: str) -> ModuleTable | None:
    """The module `name`, or None where no file describes it."""
    return tables().module(name)


def method(module: str, kind: str, name: str) -> Entry | None:
    """The method `name` of the class `kind`; None where no table lists it."""
    table = tables().module(module)
    found = table.type(kind) if table is not None else None
    return found.methods.get(name) if found is not None else None


def told(module: str, entry: "Entry | TypeEntry | None") -> bool:
    """Does the table of `module` say all that a call of `entry` does with what it gets? None: it is not listed.

    What is listed of a library says where the main thing goes; of the standard library, everything.
    """
    table = tables().module(module)
    if table is None:
        return False
    if entry is None:
        return table.harmless
    return standard(module) or not (entry.does or (isinstance(entry, TypeEntry) and entry.methods))


def standard(name: str) -> bool:
    """Is `name` a module of the standard library?"""
    return name.partition(".")[0] in STANDARD
