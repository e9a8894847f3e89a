"""Write docs/output.md: what each command prints for programs, field by field, made from the commands themselves.

python docs/make_output.py
"""

import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from humanlayer_agent.cli.app import app
from humanlayer_agent.cli.shared import records
from humanlayer_agent.cli.shared.output import Printed, printed_by

PAGE = Path(__file__).with_name("output.md")
_BEGINNING = """# Output for programs

<!-- Made by docs/make_output.py from humanlayer_agent/cli/shared/records.py: change the fields there. -->

Every command that prints data takes `--format`:

| | |
|---|---|
| `table` | for people, and the default; may change at any time |
| `json` | one JSON value: an array of records, or one record where the command prints only one |
| `jsonl` | the same records with the same fields, one JSON object a line |

Some have more: `junit`, `sarif`, `html`, `csv`, `accept` (see their `--help`). With any format but `table`, standard
output holds nothing else; what is said to people is on standard error.

Without a command, `hla check --format jsonl` and `hla parse --format jsonl` read one JSON object a line from standard
input, and answer each with one line, in order:

```json title="rows.jsonl"
{"id": "1", "command": "ls", "cwd": "/srv/app"}
{"id": "2", "command": "rm -rf /srv/data", "cwd": "/srv/app"}
```

```console
$ hla check --format jsonl --project /srv/app < rows.jsonl
{"id": "1", "verdict": "allow", "rules": ["read-project"], ...}
{"id": "2", "verdict": "ask", "rules": ["delete-outside-project"], ...}
```

Times are milliseconds since the epoch. `null` stands for what was not there. Fields may be added; none changes its
meaning or goes without a line in the changelog. Optional fields are left out where they say nothing.

## Exit codes

| code | |
|---|---|
| 0 | yes: allowed, intact, passed, done |
| 1 | no: denied, tampered with, failed, looser, not found |
| 2 | usage or configuration: standard error says what, where, and what to do |
| 3 | nobody could be asked |
| 4 | ask: a human is to decide |
| 5 | incomplete: the log is torn or not witnessed (`--require-head`), rows could not be read |

`hla exec` ends with the code of its command: 126 where it did not run, 124 where it took too long. `hla demo` and
`hla run` end with 0 where the agent submitted its work.

"""


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each command of the tree as it is called, and its function."""
    command = command or typer.main.get_command(app)
    for name, each in getattr(command, "commands", {}).items():
        if hasattr(each, "commands"):
            yield from commands(each, (*path, name))
        else:
            yield " ".join((*path, name)), each.callback


def page() -> str:
    """Return the whole page."""
    parts = [_BEGINNING, "## Commands\n\n| command | prints | record |\n|---|---|---|\n"]
    for name, function in commands():
        for each in printed_by(function):
            parts.append(f"| `hla {f'{name} {each.when}'.strip()}` | {_many(each)} | {_link(each.record)} |\n")
    parts.append("\n## Records\n")
    known = [each for each in vars(records).values() if typing.is_typeddict(each)]
    parts += [_section(each) for each in known]
    return "".join(parts)


def _many(printed: Printed) -> str:
    return "any number" if printed.many else "one"


def _link(record: type) -> str:
    name = _title(record)
    return f"[{name}](#{name.replace(' ', '-')})"


def _title(record: type) -> str:
    """Return a record's name in words: `CatalogOptionRecord` is "catalog option"."""
    letters = record.__name__.removesuffix("Record")
    return "".join(f" {char.lower()}" if char.isupper() else char for char in letters).strip()


def _section(record: type) -> str:
    lines = [f"\n### {_title(record)}\n\n{inspect.getdoc(record)}\n\n| field | type | |\n|---|---|---|\n"]
    for name, hint in typing.get_type_hints(record, include_extras=True).items():
        (kind, said), optional = typing.get_args(hint), name not in record.__required_keys__  # type: ignore[attr-defined]
        lines.append(f"| `{name}` | {_type(kind)}{', optional' if optional else ''} | {said} |\n")
    return "".join(lines)


_NAMES = {str: "string", int: "integer", float: "number", bool: "true or false", type(None): "null", Any: "any"}


def _type(kind: Any) -> str:
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.NotRequired:
        return _type(inner[0])
    if origin in (types.UnionType, typing.Union):
        return " or ".join(map(_type, inner))
    if origin is typing.Literal:
        return ", ".join(f"`{each}`" for each in inner)
    if origin is list:
        return f"array of {_type(inner[0])}"
    if origin in (dict, Mapping, typing.get_origin(Mapping[str, Any])):
        return "object" if inner[1] is Any else f"object of {_type(inner[1])}"
    return _link(kind) if typing.is_typeddict(kind) else _NAMES[kind]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
