"""Reads a policy file and everything it extends, as a tree.

A file may extend `builtin:NAME` or a path relative to its own folder. The tree is bounded in depth and in files; a file
that extends itself is an error.
"""

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import schema, yaml_positions
from humanlayer_agent.policy.language.sources import BUILTIN, read, shipped, shipped_names

MAX_DEPTH = 8
MAX_FILES = 32


@dataclass(slots=True)
class Unit:
    """One file at one place of the tree: a file that is extended twice is two units. `lists` are its own lists."""

    name: str
    path: Path
    sha256: str
    document: yaml_positions.Document
    policy: schema.Policy
    extended: "list[Unit]" = field(default_factory=list)
    lists: dict[str, list[str]] = field(default_factory=dict)

    def units(self) -> "Iterator[Unit]":
        """This unit and all below it, depth first, this one last."""
        for unit in self.extended:
            yield from unit.units()
        yield self


def tree(path: Path, *, name: str | None = None, within: Path | str | None = None) -> Unit:
    """The file at `path` with what it extends.

    Args:
        path: the file.
        name: what it is called in messages; the path where it is None.
        within: the folder that no file of the tree may lie outside of (where the policy is a repository's, which must
            not make us read, and quote in a message, any file on the machine).

    Raises:
        PolicyError: a file can't be read or has a mistake; the tree is too deep, too large, or has a cycle.
    """
    return _Reader(within).unit(path, name or str(path), ())


class _Reader:
    def __init__(self, within: Path | str | None) -> None:
        self.within = Path(os.path.realpath(within)) if within is not None else None
        self.files = 0

    def unit(self, path: Path, name: str, above: tuple[str, ...]) -> Unit:
        self.files += 1
        real = os.path.realpath(path)
        if not name.startswith(BUILTIN) and self.within is not None and not Path(real).is_relative_to(self.within):
            raise PolicyError(f"{name}: lies outside {self.within}; a project's policy may use only its own files")
        raw = read(path)
        document = yaml_positions.decode(raw, name)
        unit = Unit(name, path, hashlib.sha256(raw).hexdigest(), document, schema.check(document))
        for n, extended in enumerate(unit.policy.extends):
            where = ("extends", n)
            found, called = self._found(unit, extended, where)
            if os.path.realpath(found) in (*above, real):
                raise document.error(where, f"{extended} extends this file: a cycle")
            if len(above) + 1 >= MAX_DEPTH or self.files >= MAX_FILES:
                raise document.error(where, f"too much is extended: at most {MAX_DEPTH} deep and {MAX_FILES} files")
            unit.extended.append(self.unit(found, called, (*above, real)))
        return unit

    def _found(self, unit: Unit, extended: str, where: tuple[str, int]) -> tuple[Path, str]:
        if extended.startswith(BUILTIN):
            name = extended.removeprefix(BUILTIN)
            found = shipped(name)
            if found is None:
                raise unit.document.error(where, f"no policy is called {name!r}; shipped: {', '.join(shipped_names())}")
            return Path(found), extended
        if unit.name.startswith(BUILTIN) or extended.startswith(("/", "~")) or "\0" in extended or not extended:
            raise unit.document.error(where, f"{extended!r}: expected builtin:NAME, or a path relative to this file")
        path = Path(os.path.normpath(unit.path.parent / extended))
        return path, str(path)
