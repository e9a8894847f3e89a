"""`hla parse`: every command that a command line can run, at any depth, with its words after expansion."""

import os
from typing import TYPE_CHECKING, Any, cast

from humanlayer_agent.cli.check import Given, usual
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.shell import Catalog, Program, analyse

if TYPE_CHECKING:
    from humanlayer_agent.cli.json_lines import Row
    from humanlayer_agent.cli.shared.records import ProgramRecord, Status

EXIT = {"ok": 0, "partial": 4, "failed": 1}


def main(argv: list[str]) -> int:
    """Run `parse`; returns the exit code."""
    given = usual(argv, valued=("--format", "--cwd"))
    if given is not None:
        return answer(given)
    from humanlayer_agent.cli.app import run_app

    return run_app(["parse", *argv])


def answer(args: Given) -> int:
    """Read what was given, and print what would run; returns the exit code.

    Raises:
        ConfigError: there is no command.
    """
    from humanlayer_agent.configuration import catalogs_in_force

    cwd = os.path.abspath(args.cwd) if args.cwd else os.getcwd()
    known = catalogs_in_force().catalog
    if args.command is None:
        if args.format != "jsonl":
            raise ConfigError("give a command, in quotes: hla parse 'ls -la' (or --format jsonl, and rows to read)")
        from humanlayer_agent.cli.json_lines import answer_rows

        return answer_rows(lambda row: _row(row, cwd, known), {"status": "failed", "reasons": [], "commands": []})
    program = _analysed(args.command, cwd, known)
    if args.format == "table":
        _print(program)
    else:
        from humanlayer_agent.cli.shared.output import json_line

        print(json_line(public(program)))
    return EXIT[program.status]


def _analysed(command: str, cwd: str, known: Catalog) -> Program:
    return analyse(command, cwd=cwd, environ={"HOME": os.environ.get("HOME", "/")}, catalog=known)


def _row(row: "Row", cwd: str, known: Catalog) -> dict[str, Any]:
    return {"id": row.id, **public(_analysed(row.command, row.cwd or cwd, known))}


def public(program: Program) -> "ProgramRecord":
    """A program in the form of the machine interface."""
    return {
        "status": cast("Status", program.status),
        "reasons": program.reasons,
        "commands": [
            {
                "program": c.program,
                "argv": c.argv,
                "resolved": c.resolved,
                "via": list(c.via),
                "inside": list(c.inside),
                "span": list(c.span),
                "attributes": c.attributes,
            }
            for c in program.commands
            if c.argv
        ],
    }


def _print(program: Program) -> None:
    from humanlayer_agent.policy.verdict import attributes_of
    from humanlayer_agent.safe_text import visible

    if program.status != "ok":
        print(f"{program.status}: {visible('; '.join(program.reasons))}")
    for command in program.commands:
        if not (command.argv or command.effects):
            continue
        chain = " ".join(f"[{v}]" for v in (*command.inside, *command.via))
        words = " ".join(visible(w).replace("\n", "\\n") for w in command.argv) or "(redirects)"
        print(f"{chain + ' ' if chain else ''}{words}{'' if command.resolved else '   (not resolved)'}")
        if command.attributes:
            print(f"    in {visible(attributes_of(command))}")
        for effect in command.effects:
            shown = effect.public()
            mark = "" if shown["resolved"] else " (not certain)"
            print(f"    {effect.kind} {visible(str(shown['operand'] or '?'))}{mark}")
