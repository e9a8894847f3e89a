"""The one way in which commands print data: a table for people, JSON or JSON lines for programs.

A command's records have the same fields in both (`records` names them). One that prints several gives a JSON array, or
an object a line; one that prints a single record gives an object. Standard output holds nothing else then: what is said
to people goes to standard error.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

Format = Literal["table", "json", "jsonl"]
"""The forms in which every command prints its data. Some have more (junit, sarif, html, csv) beside these."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command prints for programs.

    Args:
        record: the TypedDict that says the fields.
        many: whether it prints any number of them, and not one.
        when: the options with which it prints that; "" where it does so by itself.
    """

    record: type
    many: bool = False
    when: str = ""


def prints(record: type, *, many: bool = False, when: str = "") -> Callable[[_Command], _Command]:
    """Declare what a command prints for programs; several times where that depends on options.

    Example:
        >>> from humanlayer_agent.cli.shared.records import DoctorRecord
        >>> doctor = prints(DoctorRecord, many=True)(lambda: None)
        >>> [each.record.__name__ for each in printed_by(doctor)]
        ['DoctorRecord']
    """

    def declared(command: _Command) -> _Command:
        command.__dict__["prints"] = (Printed(record, many, when), *printed_by(command))
        return command

    return declared


def printed_by(command: Callable[..., Any]) -> tuple[Printed, ...]:
    """Return what was declared of a command; nothing of one that prints no data."""
    found: tuple[Printed, ...] = command.__dict__.get("prints", ())
    return found


def print_record(record: Mapping[str, Any], format: str) -> None:
    """Print the single record of a command, as json or jsonl."""
    sys.stdout.write(json_line(record, indent=None if format == "jsonl" else 2) + "\n")


def print_records(records: Iterable[Mapping[str, Any]], format: str, *, live: bool = False) -> None:
    """Print the records of a command as they come, as json or jsonl.

    Args:
        live: each is to be seen at once, and Ctrl-C is how it ends: an array is closed then.
    """
    array = format != "jsonl"
    before, after = ("[\n", "") if array else ("", "\n")
    try:
        for record in records:
            sys.stdout.write(f"{before}{json_line(record)}{after}")
            before = ",\n" if array else ""
            if live:
                sys.stdout.flush()
    except KeyboardInterrupt:
        if not live:
            raise
    if array:
        sys.stdout.write("[]\n" if before == "[\n" else "\n]\n")


def json_line(record: Mapping[str, Any], indent: int | None = None) -> str:
    r"""Return a record as JSON text, with nothing in it that a terminal would act on.

    Example:
        >>> json_line({"command": "ls \x1b[2J\x7f"})
        '{"command": "ls \\u001b[2J\\u007f"}'
    """
    return json.dumps(record, indent=indent).replace("\x7f", "\\u007f")
