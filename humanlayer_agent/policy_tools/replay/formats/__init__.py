"""Finds recorded runs: files and folders of them, and for each file the reader of its format."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy_tools.replay.formats import atif, audit_export, claude_code, json_lines, mini_swe_agent
from humanlayer_agent.policy_tools.replay.steps import Items, Unreadable

FORMATS: tuple[ModuleType, ...] = (mini_swe_agent, atif, audit_export, json_lines, claude_code)
"""Each has NAME, LOOKS (how one knows it), `recognises` and `read`."""

MAX_DOCUMENT = 512 * 1024 * 1024
"""Largest file that is one JSON document, in bytes. JSON lines are read one by one, and have no limit."""

_LOOKED_AT = 50
"""Lines that are looked at to tell the format."""
_SUFFIXES = (".json", ".jsonl", ".ndjson", ".traj")


@dataclass(slots=True)
class Lines:
    """The JSON objects of a file with their places ("line 7"), as often as it is iterated; a message instead of an
    object where a line holds none. `whole`: the file is this one JSON object. `passed`: characters read so far."""

    path: Path
    whole: dict[str, Any] | None = None
    passed: int = 0

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any] | str]]:
        self.passed = 0
        if self.whole is not None:
            yield "", self.whole
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
        for file in sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file()):
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
        first, whole = _beginning(path)
        size = path.stat().st_size
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror or error}") from error
    for known in FORMATS:
        if known.recognises(first, whole is not None):
            return Log(path, known, Lines(path, whole), size)
    raise _UnknownFormat(f"{path}: in no format that is known; tried {_tried()}")


def _beginning(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The first JSON objects of a file, and the one that all of it is, where it is one."""
    first = [data for _, data in islice(Lines(path), _LOOKED_AT)]
    objects = [data for data in first if isinstance(data, dict)]
    if len(first) == 1 and objects:
        return objects, objects[0]
    if first and isinstance(first[0], dict):
        return objects, None
    size = path.stat().st_size
    whole = _object(path.read_text(encoding="utf-8", errors="surrogateescape")) if size <= MAX_DOCUMENT else "too large"
    if isinstance(whole, dict):
        return [whole], whole
    if objects:
        return objects, None
    raise ConfigError(f"{path}: {f'neither JSON lines nor a JSON document: {whole}' if size else 'the file is empty'}")


def _object(text: str) -> dict[str, Any] | str:
    """The JSON object in `text`, or what is wrong with it."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return data if isinstance(data, dict) else "not a JSON object"


def _tried() -> str:
    return "; ".join(f"{known.NAME} ({known.LOOKS})" for known in FORMATS)
