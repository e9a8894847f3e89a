"""The command catalog: what command line tools do with their arguments, as data.

One YAML file a tool or family stands beside this module; `Catalog.lookup` finds a program's Spec. The form of
the files is described in `spec`.

Reading all of it takes a tenth of a second, and a command needs a few programs only. So the files are scanned for
the line at which each program begins (names stand at an indent of two), one file after the other until the program is
found, and it is parsed when it is first asked for, from the text that was scanned: there is no index on disk that could
be out of date. What the YAML of a program says can be kept under the digest of that text, by whom a `Cache` is taken
from: PyYAML takes longer to import than a command takes to judge.
"""

import os
import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from hashlib import sha256
from threading import Lock
from typing import Any, Protocol

from humanlayer_agent.shell.programs.arguments import Arguments, OptionUse, read_arguments
from humanlayer_agent.shell.programs.spec import (
    ARGUMENT_FILES,
    NEEDS,
    SLOTS,
    VERBS,
    Always,
    CatalogError,
    Example,
    Option,
    Slot,
    Spec,
    Truth,
    read_examples,
    read_programs,
    split_names,
)

__all__ = [
    "ARGUMENT_FILES",
    "NEEDS",
    "SLOTS",
    "STANDARD_DIRECTORIES",
    "VERBS",
    "Always",
    "Arguments",
    "Cache",
    "Catalog",
    "CatalogError",
    "Example",
    "Option",
    "OptionUse",
    "Slot",
    "Spec",
    "Truth",
    "is_interpreter",
    "read_arguments",
    "read_examples",
    "read_programs",
    "split_names",
]

STANDARD_DIRECTORIES = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"})

INTERPRETER = re.compile(
    r"(python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|[bdazk]?sh|bash|fish|busybox|toybox|env|[gmn]?awk|pip|uv|uvx|npm"
    r"|npx|curl|wget|git|ssh|scp|rsync|nc|ncat|socat)[0-9.]*",
    re.ASCII,
)
"""Programs that run, fetch or send what they are given, in any release, and in an environment of a project's own."""
LOADER = re.compile(r"ld(?:-linux|-musl|-[0-9])[A-Za-z0-9_.-]*", re.ASCII)

_FIRST = ("list", "search", "text", "plain", "files", "python", "git")
"""The files that are scanned first: they describe 19 of 20 programs that coding agents run."""


class Cache(Protocol):
    """Keeps what was read from YAML between processes. What it gives back is believed."""

    def load(self, key: str) -> object | None:
        """The content that was stored under `key`, or None. Never raises."""

    def store(self, key: str, content: object) -> None:
        """Keep `content`, which JSON can hold, under `key`, or don't. Never raises."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a program stands: its file, the text above `programs:`, and its own lines."""

    file: str
    head: str
    body: str


class Catalog:
    """The programs of a folder of catalog files; each is parsed when it is first asked for. Thread-safe.

    Args:
        folder: the files; None: those that come with this package.
        cache: keeps what was parsed; None: each process parses anew.

    Example:
        >>> Catalog().lookup("rm").about
        'removes files'
    """

    def __init__(self, folder: str | None = None, *, cache: Cache | None = None) -> None:
        self.folder = folder or os.path.join(os.path.dirname(__file__), "catalog")
        self.places: dict[str, _Place] = {}
        """Where the programs stand of the files that were scanned so far."""
        self._cache = cache
        self._added: Mapping[str, Spec] = {}
        self._specs: dict[str, Spec] = {}
        self._services: dict[str, dict[str, Any]] = {}
        self._unread: list[str] | None = None
        self._lock = Lock()

    def lookup(self, program: str) -> Spec | None:
        """Return the Spec of `program` (a bare name), or None where no file describes it."""
        found = self._specs.get(program) or self._added.get(program)
        if found is None:
            if program not in self.places:
                self.scan(program)
            place = self.places.get(program)
            if place is not None:
                self._specs |= read_programs(self._content(place), place.file)
                found = self._specs.get(program)
        return found

    def service(self, name: str) -> dict[str, Any]:
        """Return the names of sub-commands and options in `services/NAME.yaml`, which is read when it is asked for."""
        found = self._services.get(name)
        if found is None:
            file = f"{name}.yaml"
            with open(os.path.join(self.folder, "services", file), encoding="utf-8") as opened:
                found = self._cached(opened.read(), file)
            self._services[name] = found
        return found

    def extended(self, programs: Mapping[str, Spec]) -> "Catalog":
        """Return this catalog with `programs` besides. No family has them, so nothing that is said of one counts.

        Raises:
            CatalogError: one of them is described here already.
        """
        known = self._all()
        if twice := next((name for name in programs if name in known or name in self._added), None):
            raise CatalogError(f"{twice} is described already")
        found = copy(self)
        found._added = {**self._added, **programs}
        return found

    def names(self) -> list[str]:
        """Return every program that the catalog describes."""
        return sorted(n for n in (*self._all(), *self._added) if " " not in n)

    def subcommands(self, program: str) -> list[str]:
        """Return the sub-commands of `program`."""
        spec = self.lookup(program)
        names = (*self._all(), *self._added)
        beside = [n.partition(" ")[2] for n in names if n.startswith(program + " ")]
        return sorted([*(spec.subcommands if spec is not None else ()), *beside])

    def family(self, program: str) -> str | None:
        """Return the name of the file that describes `program`, without its ending; None for one that was added."""
        place = self._all().get(program)
        return place.file.removesuffix(".yaml") if place is not None else None

    def is_added(self, program: str) -> bool:
        """Tell whether `program` is one that does not ship (see `extended`)."""
        return program in self._added

    def examples(self) -> list[Example]:
        """Return the examples of every file; the tests run them."""
        found: list[Example] = []
        for name in sorted(self.files()):
            with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                found += read_examples(_yaml(file.read(), name), name)
        return found

    def files(self) -> list[str]:
        """The names of the files, in the order in which they are scanned."""
        names = sorted(name for name in os.listdir(self.folder) if name.endswith(".yaml"))
        first = [f"{name}.yaml" for name in _FIRST if f"{name}.yaml" in names]
        return [*first, *(name for name in names if name not in first)]

    def scan(self, program: str | None = None) -> None:
        """Find where each program begins, until `program` is found.

        Raises:
            CatalogError: one is described twice, or a file is not in the form of one.
        """
        with self._lock:
            if self._unread is None:
                self._unread = self.files()
            while self._unread and (program is None or program not in self.places):
                self.places |= self._programs(self._unread[0])
                del self._unread[0]

    def _all(self) -> dict[str, _Place]:
        self.scan()
        return self.places

    def _content(self, place: _Place) -> Any:
        """What the YAML at `place` says: from the cache, else it is put there."""
        return self._cached(f"{place.head}\nprograms:{place.body}", place.file)

    def _cached(self, text: str, file: str) -> Any:
        if self._cache is None:
            return _yaml(text, file)
        digest = sha256(text.encode()).hexdigest()
        content = self._cache.load(digest)
        if content is None:
            content = _yaml(text, file)
            if _is_json(content):
                self._cache.store(digest, content)
        return content

    def _programs(self, file: str) -> dict[str, _Place]:
        with open(os.path.join(self.folder, file), encoding="utf-8") as opened:
            text = opened.read()
        head, begins, rest = text.partition("\nprograms:")
        body = rest.partition("\nexamples:\n")[0] + "\n"
        if not begins:
            raise CatalogError(f"{file}: no line `programs:` below a first line that says what it is")
        found: dict[str, _Place] = {}
        for key, part in _programs(body):
            place = _Place(file, head, part)
            for name in split_names(key.strip("\"'")):
                if (other := found.get(name) or self.places.get(name)) is not None:
                    raise CatalogError(f"{file}: {name} is already described in {other.file}")
                found[name] = place
        return found


def is_interpreter(name: str) -> bool:
    """Tell whether a file of this name runs, fetches or sends what it is given, whatever its release is.

    Example:
        >>> is_interpreter("python3.14"), is_interpreter("frob")
        (True, False)
    """
    return bool(INTERPRETER.fullmatch(name) or LOADER.fullmatch(name))


def _programs(body: str) -> list[tuple[str, str]]:
    """The key of each program, at an indent of two, and its text up to the next."""
    found: list[tuple[str, list[str]]] = []
    for part in body.split("\n  ")[1:]:
        if part[:1] not in " \t\n#":
            key, colon, _ = (part.partition("\n")[0] + " ").partition(": ")
            if colon:
                found.append((key, [""]))
        if found:
            found[-1][1].append(part)
    return [(key, "\n  ".join(parts)) for key, parts in found]


def _is_json(value: Any) -> bool:
    """Does JSON give back exactly this?"""
    if isinstance(value, dict):
        return all(type(key) is str for key in value) and all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or type(value) in (str, int, float, bool)


def _yaml(text: str, file: str) -> Any:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise CatalogError(f"{file}: {error}") from error


SHIPPED = Catalog()
"""The catalog of this package, for whom no other is given to."""
