"""`hla parse`: every command that a command line can run, at any depth, with its words after expansion."""

import os
import sys
from typing import TYPE_CHECKING, Any

from humanlayer_agent.cli.check import common_options, usual
from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.shell import Program, analyse

if TYPE_CHECKING:
    import argparse

    from humanlayer_agent.cli.json_lines import Row

EXIT = {"ok": 0, "partial": 4, "failed": 1}

_EPILOG = """exit codes: 0 understood, 4 partly understood, 1 not understood, 2 usage

examples:
  hla parse 'for f in a b; do rm "$f"; done'
  hla parse --format jsonl < rows.jsonl
"""


def main(argv: list[str]) -> int:
    """Run `parse`; returns the exit code."""
    args = usual(argv, valued=("--format", "--cwd")) or _parsed(argv)
    if isinstance(args, int):
        return args
    cwd = os.path.abspath(args.cwd) if args.cwd else os.getcwd()
    if args.format == "jsonl":
        from humanlayer_agent.cli.json_lines import answer_rows

        return answer_rows(lambda row: _row(row, cwd), {"status": "failed", "reasons": [], "commands": []})
    if args.command is None:
        _parser().print_usage(sys.stderr)
        print("hla parse: give a command, or --format jsonl with rows on standard input", file=sys.stderr)
        return 2
    program = _analysed(args.command, cwd)
    if args.format == "json":
        import json

        print(json.dumps(public(program)))
    else:
        _print(program)
    return EXIT[program.status]


def _parser() -> "argparse.ArgumentParser":
    import argparse

    parser = argparse.ArgumentParser(
        prog="hla parse",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common_options(parser)
    return parser


def _parsed(argv: list[str]) -> "argparse.Namespace | int":
    try:
        return _parser().parse_args(argv)
    except SystemExit as ended:
        return int(ended.code or 0)


def _analysed(command: str, cwd: str) -> Program:
    return analyse(command, cwd=cwd, environ={"HOME": os.environ.get("HOME", "/")}, catalog=CATALOG)


def _row(row: "Row", cwd: str) -> dict[str, Any]:
    return {"id": row.id, **public(_analysed(row.command, row.cwd or cwd))}


def public(program: Program) -> dict[str, Any]:
    """A program in the form of the machine interface."""
    return {
        "status": program.status,
        "reasons": program.reasons,
        "commands": [
            {
                "program": c.program,
                "argv": c.argv,
                "resolved": c.resolved,
                "via": list(c.via),
                "inside": list(c.inside),
                "span": list(c.span),
            }
            for c in program.commands
            if c.argv
        ],
    }


def _print(program: Program) -> None:
    from humanlayer_agent.safe_text import visible

    if program.status != "ok":
        print(f"{program.status}: {visible('; '.join(program.reasons))}")
    for command in program.commands:
        if not (command.argv or command.effects):
            continue
        chain = " ".join(f"[{v}]" for v in (*command.inside, *command.via))
        words = " ".join(visible(w).replace("\n", "\\n") for w in command.argv) or "(redirects)"
        print(f"{chain + ' ' if chain else ''}{words}{'' if command.resolved else '   (not resolved)'}")
        for effect in command.effects:
            shown = effect.public()
            mark = "" if shown["resolved"] else " (not certain)"
            print(f"    {effect.kind} {visible(str(shown['operand'] or '?'))}{mark}")
