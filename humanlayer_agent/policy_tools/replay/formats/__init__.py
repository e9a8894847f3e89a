"""Finds recorded runs: files and folders of them, and for each file the reader of its format."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy_tools.replay.steps import Items, Unreadable

_ORDER = ("mini_swe_agent", "swe_agent", "atif", "audit_export", "json_lines", "claude_code", "openhands")
FORMATS: tuple[ModuleType, ...] = tuple(import_module(f"{__name__}.{name}") for name in _ORDER)
"""The readers, in the order in which they are tried: NAME, LOOKS (how one knows it), `recognises` and `read`."""

MAX_DOCUMENT = 512 * 1024 * 1024
"""Largest file that is one JSON document, in bytes. JSON lines are read one by one, and have no limit."""

_LOOKED_AT = 50
"""Lines that are looked at to tell the format."""
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj")


@dataclass(slots=True)
class Lines:
    """The JSON objects of a file with their places ("line 7"), as often as it is iterated; a message instead of an
    object where a line holds none. `whole`: the file is one JSON document, an object or a list of them, which is read
    when it is iterated. `passed`: characters read so far."""

    path: Path
    whole: bool = False
    passed: int = 0

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any] | str]]:
        self.passed = 0
        if self.whole:
            yield from _objects(_document(self.path))
            return
        with self.path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            for number, line in enumerate(file, 1):
                self.passed += len(line)
                if line.strip():
                    yield f"line {number}", _object(line)


@dataclass(slots=True)
class Log:
    """A file with a recorded run, or with several. `size` is in bytes."""

    path: Path
    format: ModuleType
    lines: Lines
    size: int

    def items(self) -> Items:
        """What stands in it."""
        return self.format.read(self.lines, str(self.path))  # type: ignore[no-any-return]


@dataclass(slots=True)
class Found:
    """The logs that were found; files of folders that are none (`others`), and those that can't be read (`broken`)."""

    logs: list[Log] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    broken: list[Unreadable] = field(default_factory=list)


def find(paths: Sequence[Path]) -> Found:
    """The logs at `paths`; of folders, all files below that are in a format that is known.

    Raises:
        ConfigError: a file that was named can't be read or is in no known format, or there is no log at all.
    """
    found = Found()
    for path in paths:
        if not path.is_dir():
            found.logs.append(_open(path))
            continue
        for file in sorted((f for f in path.rglob("*") if f.suffix in _SUFFIXES and f.is_file()), key=_in_order):
            try:
                found.logs.append(_open(file))
            except _UnknownFormat:
                found.others.append(file)
            except ConfigError as error:
                found.broken.append(Unreadable(str(file), "the file", str(error)))
    if not found.logs and not found.broken:
        where = ", ".join(str(path) for path in paths)
        raise ConfigError(f"{where}: no recorded run in it; looked for {_tried()}")
    return found


class _UnknownFormat(ConfigError):
    pass


def _open(path: Path) -> Log:
    """The log in a file. Raises ConfigError."""
    try:
        if not path.is_file():
            raise ConfigError(f"{path}: no such file" if not path.exists() else f"{path}: not a regular file")
        first, form = _beginning(path)
        size = path.stat().st_size
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror or error}") from error
    for known in FORMATS:
        if known.recognises(first, form == "object"):
            return Log(path, known, Lines(path, form != "lines"), size)
    raise _UnknownFormat(f"{path}: in no format that is known; tried {_tried()}")


def _beginning(path: Path) -> tuple[list[dict[str, Any]], Literal["lines", "object", "list"]]:
    """The first JSON objects of a file, and what they stand in: lines, or a document that is one, or a list of them."""
    first = [data for _, data in islice(Lines(path), _LOOKED_AT)]
    objects = [data for data in first if isinstance(data, dict)]
    if len(first) == 1 and objects:
        return objects, "object"
    if first and isinstance(first[0], dict):
        return objects, "lines"
    document = _document(path)
    if not isinstance(document, str):
        found = [each for _, each in islice(_objects(document), _LOOKED_AT) if isinstance(each, dict)]
        return found, "list" if isinstance(document, list) else "object"
    if objects:
        return objects, "lines"
    what = "the file is empty" if not path.stat().st_size else f"neither JSON lines nor a JSON document: {document}"
    raise ConfigError(f"{path}: {what}")


def _document(path: Path) -> dict[str, Any] | list[Any] | str:
    """The object or the list that a file is, or what is wrong with it."""
    if path.stat().st_size > MAX_DOCUMENT:
        return (
            f"too large for one document: at most {MAX_DOCUMENT // 1024 // 1024} MiB are read; as JSON lines it can be"
        )
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return data if isinstance(data, dict | list) else "not a JSON object"


def _objects(document: dict[str, Any] | list[Any] | str) -> Iterator[tuple[str, dict[str, Any] | str]]:
    if not isinstance(document, list):
        yield "", document
        return
    for number, each in enumerate(document, 1):
        yield f"item {number}", each if isinstance(each, dict) else "not a JSON object"


def _object(text: str) -> dict[str, Any] | str:
    """The JSON object in `text`, or what is wrong with it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return data if isinstance(data, dict) else "not a JSON object"


def _in_order(path: Path) -> list[tuple[bool, int, str]]:
    """Names in the order in which people count: 2.json stands before 10.json."""
    parts = re.split(r"([0-9]+)", str(path))
    return [(n % 2 == 1, int(part) if n % 2 else 0, part) for n, part in enumerate(parts)]


def _tried() -> str:
    return "; ".join(f"{known.NAME} ({known.LOOKS})" for known in FORMATS)
