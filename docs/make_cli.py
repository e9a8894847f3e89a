"""Write docs/cli.md: every command, its arguments and options, made from the commands themselves.

python docs/make_cli.py
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from humanlayer_agent.cli.app import app
from humanlayer_agent.cli.shared.help_pages import divided, parameters, summary

PAGE = Path(__file__).with_name("cli.md")
_BEGINNING = """# Command line

<!-- Made by docs/make_cli.py from humanlayer_agent/cli: change the docstrings and options there. -->

`hla` and `humanlayer-agent` are the same program. Every command has `--help`. What commands print for programs, with
all fields and exit codes, is in [output for programs](output.md).

"""


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each command and each group, as it is called."""
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*path, name))


def page() -> str:
    """Return the whole page."""
    known = [(path, each) for path, each in commands(typer.main.get_command(app)) if path]
    parts = [_BEGINNING, "| command | |\n|---|---|\n"]
    for path, command in known:
        if _is_called(command):
            name = " ".join(("hla", *path))
            parts.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_cell(summary(command))} |\n")
    parts += [_section(path, command) for path, command in known]
    return "".join(parts)


def _section(path: tuple[str, ...], command: Any) -> str:
    name = " ".join(("hla", *path))
    context = command.make_context(name, [], resilient_parsing=True)
    said, examples = divided(command.help)
    parts = [f"\n{'#' * (1 + len(path))} {name}\n"]
    if _is_called(command):
        parts.append(f"\n```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n")
    parts.append(f"\n{said}\n")
    rows = [(name, about) for _, name, about in parameters(command, context) if "--help" not in name]
    if rows:
        parts.append("\n| | |\n|---|---|\n")
        parts += [f"| `{_cell(name)}` | {_cell(about)} |\n" for name, about in rows]
    if examples and _is_called(command):
        parts.append(f"\n{'Example' if len(examples) == 1 else 'Examples'}:\n\n")
        parts += [f"- `{each}`\n" for each in examples]
    return "".join(parts)


def _is_called(command: Any) -> bool:
    """Tell whether it does something itself: a group does where it may go without one of its commands."""
    return not hasattr(command, "commands") or command.invoke_without_command


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.argv[0] = "hla"
    PAGE.write_text(page(), encoding="utf-8")
