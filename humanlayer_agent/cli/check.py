"""`hla check`: what the policy says of a command. It runs nothing, asks nobody and writes no audit event."""

import os
import sys
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any

from humanlayer_agent.action import Action
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director

if TYPE_CHECKING:
    import argparse

    from humanlayer_agent.cli.json_lines import Row
    from humanlayer_agent.shell import View

FORMATS = ("text", "json", "jsonl")


class Given:
    """The options and the command, as argparse gives them."""

    command: str | None = None
    format = "text"
    cwd: str | None = None
    policy: str | None = None
    project: str | None = None
    observe = False
    confined = False
    run: str | None = None


def usual(argv: list[str], *, valued: Collection[str], plain: Collection[str] = ()) -> Given | None:
    """Return the options and the command, where every word is plainly one of them.

    None: argparse is to say what they are, or what is wrong. It is not asked where it would say the same, because its
    import takes as long as judging a command.

    Args:
        valued: options with a value.
        plain: options without one.
    """
    found = Given()
    words: Iterator[str] = iter(argv)
    for word in words:
        if word in plain:
            setattr(found, word[2:], True)
        elif word in valued:
            value = next(words, "-")
            if value.startswith("-") or (word == "--format" and value not in FORMATS):
                return None
            setattr(found, word[2:], value)
        elif word.startswith("-") or found.command is not None:
            return None
        else:
            found.command = word
    return found


def common_options(parser: "argparse.ArgumentParser") -> None:
    """The options that `check` and `parse` share."""
    parser.add_argument("command", nargs="?", help="the command line to judge")
    parser.add_argument("--format", choices=FORMATS, default="text", help="jsonl reads rows from standard input")
    parser.add_argument("--cwd", help="directory the command starts in (default: the project)")


EXIT = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.ASK: 4}

_EPILOG = """exit codes: 0 allow, 1 deny, 4 ask, 2 usage or configuration

examples:
  hla check 'rm -rf build'
  hla check --policy strict --project /srv/app 'git push --force'
  hla check --format jsonl < rows.jsonl      # {"id": "1", "command": "ls", "cwd": "/srv/app"} a line
"""


def main(argv: list[str]) -> int:
    """Run `check`; returns the exit code."""
    valued, plain = ("--format", "--cwd", "--policy", "--project", "--run"), ("--observe", "--confined")
    args = usual(argv, valued=valued, plain=plain) or _parsed(argv)
    if isinstance(args, int):
        return args
    director = _director(args)
    cwd = os.path.abspath(args.cwd) if args.cwd else None
    if args.format == "jsonl":
        from humanlayer_agent.cli.json_lines import answer_rows

        return answer_rows(lambda row: _row(director, row, cwd), {"verdict": "ask", "parse": "failed"})
    if args.command is None:
        _parser().print_usage(sys.stderr)
        print("hla check: give a command, or --format jsonl with rows on standard input", file=sys.stderr)
        return 2
    decision = director.evaluate(Action(args.command, cwd=cwd or start_of(director)))
    if args.format == "json":
        import json

        print(json.dumps(public(decision)))
    else:
        _print(decision)
    return EXIT[decision.verdict]


def _parser() -> "argparse.ArgumentParser":
    import argparse

    parser = argparse.ArgumentParser(
        prog="hla check",
        description=__doc__,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    common_options(parser)
    parser.add_argument("--policy", help="a shipped policy's name, or a file: the whole policy (default: the layers)")
    parser.add_argument("--observe", action="store_true", help="say that it would not be enforced")
    parser.add_argument("--confined", action="store_true", help="as if the kernel could confine what is allowed")
    parser.add_argument("--run", help="the same, with the /tmp that commands of this run see (hla exec --run)")
    parser.add_argument("--project", help="directory the agent works for (default: the git top level here)")
    return parser


def _parsed(argv: list[str]) -> "argparse.Namespace | int":
    try:
        return _parser().parse_args(argv)
    except SystemExit as ended:  # argparse leaves the process; we return codes
        return int(ended.code or 0)


def _director(args: "argparse.Namespace | Given") -> Director:
    from humanlayer_agent.configuration import build_director

    confined: View | bool = args.confined
    if args.run is not None:
        from humanlayer_agent.agents.run_enclosures import view_of
        from humanlayer_agent.configuration import checked_project, find_project

        confined = view_of(args.run, checked_project(args.project) if args.project else find_project())
    return build_director(args.policy, project=args.project, observe=args.observe, confined=confined)


def start_of(director: Director) -> str:
    """Return where a command starts when nothing is said: here, if that is in the project, else the project."""
    here = os.getcwd()
    return here if (here + "/").startswith(director.project + "/") else director.project


def _row(director: Director, row: "Row", cwd: str | None) -> dict[str, Any]:
    from humanlayer_agent.shell import GivenReader

    action = Action(row.command, cwd=row.cwd or cwd or start_of(director))
    given = GivenReader(row.files, row.tracked) if row.files or row.tracked else None
    return {"id": row.id, **public(director.evaluate(action, given))}


def public(decision: PolicyDecision) -> dict[str, Any]:
    """A decision in the form of the machine interface."""
    return {
        "verdict": str(decision.verdict),
        "rules": list(decision.rules),
        "reason": decision.reason,
        "severity": decision.severity,
        "suggestion": decision.suggestion,
        "parse": decision.parse,
        "effects": [e.public() for e in decision.effects],
        "us": decision.microseconds,
        **({} if decision.enforced else {"enforced": False}),
        **({} if decision.confinement is None else {"confined": decision.confinement.name}),
    }


def _print(decision: PolicyDecision) -> None:
    rules = ", ".join(decision.rules) or "no rule"
    observed = "" if decision.enforced else "  observed, not enforced"
    print(f"{decision.verdict}  ({rules}){observed}")
    runs = decision.confined_line
    if not (runs or decision.reason) and decision.verdict is Verdict.ALLOW and decision.parse == "ok":
        return
    from humanlayer_agent.safe_text import visible

    if runs:
        print(f"  {visible(runs)}")
    if decision.reason:
        print(f"  {visible(decision.reason)}")
    if decision.suggestion and decision.verdict is not Verdict.ALLOW:
        print(f"  instead: {visible(decision.suggestion)}")
    if decision.parse != "ok":
        print(f"  parse: {decision.parse}: {visible('; '.join(decision.parse_reasons))}")


__all__ = ["ConfigError", "main", "public"]
