"""The tools that a server has shown, kept by hash: what it says of a tool later is compared with what it said first.

An agent does what it reads, and the description of a tool is read with everything else. A server that is changed, or
that changes what it says once it is trusted, is noticed by that: until a human has approved a call of it, each call of
such a tool is asked about, whatever the policy allows.
"""

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.locations import read_own_json, state_path, write_own_json
from humanlayer_agent.safe_text import one_line

_SHOWN = 300
_MAX_TOOLS = 5_000
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Noticed:
    """What is new in a list.

    Args:
        first: it is the first list of this server that anybody has seen.
        added, changed, removed: names of tools.
    """

    first: bool = False
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


@dataclass(slots=True)
class _Kept:
    """What is kept of a tool: the hash of everything that is said of it, and of each part; its description."""

    sha256: str
    parts: dict[str, str] = field(default_factory=dict)
    description: str = ""


class ToolLists:
    """The lists of one server. Thread-safe.

    Args:
        server: the name of the server, and how it is reached.

    Raises:
        ConfigError: what was kept of it can't be read.
    """

    def __init__(self, *server: str) -> None:
        name = hashlib.sha256(json.dumps(server).encode()).hexdigest()[:32]
        self._path = Path(state_path("mcp", f"{name}.json"))
        self._server = list(server)
        self._lock = threading.Lock()
        self._accepted = self._read()
        self._learns = self._accepted is None
        self._now: dict[str, _Kept] = {}  # as the client was told last
        self._listing: dict[str, _Kept] = {}  # the list that is being told, page by page
        self._whole = False  # a whole list was told
        self._twice: set[str] = set()
        self._told_otherwise: dict[str, _Kept] = {}  # and not what was accepted, at some time in this session
        self._properties: dict[str, frozenset[str]] = {}
        self._schemas: dict[str, Any] = {}

    def note(self, tools: Sequence[Any], *, begins: bool, ends: bool) -> Noticed:
        """Note a page of a list that is about to be told to the client.

        Args:
            tools: as the server has sent them.
            begins: it is the first page. ends: it is the last.

        Raises:
            ValueError: it is no list of tools that could be called.
            OSError: it can't be kept.
        """
        if len(tools) + len(self._listing) > _MAX_TOOLS:
            raise ValueError(f"a server may have at most {_MAX_TOOLS} tools")
        told = [_kept(each) for each in tools]
        with self._lock:
            if begins:
                self._learns = self._learns and not self._whole and not self._listing
                self._listing, self._twice = {}, set()
            before, accepted = dict(self._now), dict(self._accepted or {})
            first = self._learns
            for (name, kept), tool in zip(told, tools, strict=True):
                if name in self._listing and self._listing[name] != kept:
                    self._twice.add(name)
                self._listing[name] = self._now[name] = kept
                if name in accepted and accepted[name] != kept:
                    self._told_otherwise[name] = kept
                self._schemas[name] = tool.get("inputSchema")
                self._properties[name] = _properties(tool)
            added = [name for name, _ in told if name not in accepted and name not in before]
            changed = [
                name for name, kept in told if (known := before.get(name) or accepted.get(name)) and known != kept
            ]
            removed = []
            if ends:
                removed = [name for name in accepted.keys() | before.keys() if name not in self._listing]
                removed = [name for name in removed if name in before or not self._whole]
                self._now, self._whole = dict(self._listing), True
            if self._learns:
                self._accepted = accepted | {name: kept for name, kept in told if name not in accepted}
                self._learns = not ends
                self._write()
        unique = [tuple(sorted(dict.fromkeys(each))) for each in (added, changed, removed)]
        return Noticed(first, *unique)

    def doubt(self, name: str) -> str:
        """Return why a call of this tool must be asked about, in sentences that are safe to show; "" where nothing
        speaks against it.
        """
        with self._lock:
            return self._doubt(name)

    def _doubt(self, name: str) -> str:
        accepted = (self._accepted or {}).get(name)
        now = self._now.get(name)
        if name in self._twice:
            return f"The server lists the tool {one_line(name)} twice, and says something else of it each time."
        if now is None and accepted is not None and not self._whole:
            return ""  # the client knows it from an earlier list
        if now is None:
            return f"The server does not list the tool {one_line(name)}."
        if accepted is None:
            return f"The tool {one_line(name)} is new: this server did not have it before.{_says(now)}"
        other = now if accepted != now else self._told_otherwise.get(name, now)
        return "" if accepted == other else _difference(name, accepted, other)

    def accept(self, name: str, doubt: str) -> None:
        """Keep what is said of a tool now: a human has approved a call of it, and was told of this `doubt`.

        Raises:
            OSError: it can't be kept.
            ConfigError: what was kept before can't be read.
        """
        with self._lock:
            now = self._now.get(name)
            if now is not None and name not in self._twice and self._doubt(name) == doubt != "":
                self._accepted = (self._read() or self._accepted or {}) | {name: now}
                self._told_otherwise.pop(name, None)
                self._write()

    def properties(self, name: str) -> frozenset[str]:
        """Return the names of the arguments that a tool has by its schema, where that says so."""
        with self._lock:
            return self._properties.get(name, frozenset())

    def schema(self, name: str) -> Any:
        """Return the schema of what a tool is given, as the client was told last; None where it was told none."""
        with self._lock:
            return self._schemas.get(name)

    def _read(self) -> dict[str, _Kept] | None:
        if not self._path.exists():
            return None
        found = read_own_json(self._path) or {}
        try:
            if (found["version"], found["server"]) != (_VERSION, self._server):
                raise ValueError
            return {name: _Kept(**kept) for name, kept in found["tools"].items()}
        except (KeyError, TypeError, ValueError, AttributeError):
            why = "is not what this version has written: remove it to have the tools noted anew"
            raise ConfigError(f"{self._path} {why}") from None

    def _write(self) -> None:
        tools = {
            name: {"sha256": kept.sha256, "parts": kept.parts, "description": kept.description}
            for name, kept in (self._accepted or {}).items()
        }
        write_own_json(self._path, {"version": _VERSION, "server": self._server, "tools": tools}, required=True)


def digest_of(value: Any) -> str:
    """Return the SHA-256 of a value as JSON. (Not of its canonical form: many schemas have numbers beyond those that it
    knows.)
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _kept(tool: Any) -> tuple[str, _Kept]:
    if not isinstance(tool, dict) or not isinstance(tool.get("name"), str):
        raise ValueError("a tool is an object with a name")
    description = tool.get("description")
    parts = {str(key): digest_of(value) for key, value in tool.items()}
    return tool["name"], _Kept(digest_of(tool), parts, description[:4_000] if isinstance(description, str) else "")


def _properties(tool: Mapping[str, Any]) -> frozenset[str]:
    schema = tool.get("inputSchema")
    found = schema.get("properties") if isinstance(schema, dict) else None
    return frozenset(found) if isinstance(found, dict) else frozenset()


def _difference(name: str, before: _Kept, now: _Kept) -> str:
    parts = sorted(key for key in before.parts.keys() | now.parts.keys() if before.parts.get(key) != now.parts.get(key))
    said = f"The server has changed what it says of the tool {one_line(name)}: {one_line(', '.join(parts)[:_SHOWN])}."
    if "description" not in parts:
        return said
    at = next((n for n, (a, b) in enumerate(zip(before.description, now.description, strict=False)) if a != b), 0)
    begin = max(0, min(at, len(before.description), len(now.description)) - 40)
    return f"{said} It said {_quoted(before.description[begin:])}, and says {_quoted(now.description[begin:])}."


def _says(kept: _Kept) -> str:
    return f" It says {_quoted(kept.description)}." if kept.description else ""


def _quoted(text: str) -> str:
    shown = one_line(text[:_SHOWN])
    return f'"{shown}{"..." if len(text) > _SHOWN else ""}"'
