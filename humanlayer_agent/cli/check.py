"""`hla check`: what the policy says of a command. It runs nothing, asks nobody and writes no audit event."""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from humanlayer_agent.action import Action
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.tools.calls import written

if TYPE_CHECKING:
    from humanlayer_agent.cli.json_lines import Row
    from humanlayer_agent.cli.shared.records import DecisionRecord, EffectRecord
    from humanlayer_agent.shell import View

FORMATS = ("table", "json", "jsonl")


@dataclass(slots=True)
class Given:
    """The options and the command."""

    command: str | None = None
    format: str = "table"
    cwd: str | None = None
    policy: str | None = None
    project: str | None = None
    observe: bool = False
    confined: bool = False
    run: str | None = None


def usual(argv: list[str], *, valued: Collection[str], plain: Collection[str] = ()) -> Given | None:
    """Return the options and the command, where every word is plainly one of them.

    None: typer is to say what they are, or what is wrong. It is not asked where it would say the same, because its
    import takes longer than judging a command.

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


_NAMED = 3
"""Rules that are named for people; of more only the first is, and the others are counted."""
EXIT = {Verdict.ALLOW: 0, Verdict.DENY: 1, Verdict.ASK: 4}


def main(argv: list[str]) -> int:
    """Run `check`; returns the exit code."""
    valued, plain = ("--format", "--cwd", "--policy", "--project", "--run"), ("--observe", "--confined")
    given = usual(argv, valued=valued, plain=plain)
    if given is not None:
        return answer(given)
    from humanlayer_agent.cli.app import run_app

    return run_app(["check", *argv])


def answer(args: Given) -> int:
    """Judge what was given, and print it; returns the exit code.

    Raises:
        ConfigError: there is no command; the policy or the project can't be used.
    """
    director = _director(args)
    cwd = os.path.abspath(args.cwd) if args.cwd else None
    if args.command is None:
        if args.format != "jsonl":
            raise ConfigError("give a command, in quotes: hla check 'ls -la' (or --format jsonl, and rows to read)")
        from humanlayer_agent.cli.json_lines import answer_rows

        return answer_rows(lambda row: _row(director, row, cwd), {"verdict": "ask", "parse": "failed"})
    decision = director.evaluate(as_started_here(written(args.command, cwd=cwd or start_of(director))))
    if args.format == "table":
        _print(decision)
    else:
        from humanlayer_agent.cli.shared.output import json_line

        print(json_line(public(decision)))
    return EXIT[decision.verdict]


def _director(args: Given) -> Director:
    from humanlayer_agent.configuration import build_director

    confined: View | bool = args.confined
    if args.run is not None and args.confined:
        from humanlayer_agent.agents.run_enclosures import view_of
        from humanlayer_agent.configuration import checked_project, find_project

        confined = view_of(args.run, checked_project(args.project) if args.project else find_project())
    return build_director(args.policy, project=args.project, observe=args.observe, confined=confined, run=args.run)


def start_of(director: Director) -> str:
    """Return where a command starts when nothing is said: here, if that is in the project, else the project."""
    here = os.getcwd()
    return here if (here + "/").startswith(director.project + "/") else director.project


def as_started_here(action: Action) -> Action:
    """Return an action as one of a run that the user of this process has started."""
    from humanlayer_agent.processes.identity import os_user

    return replace(action, requester=os_user())


def _row(director: Director, row: "Row", cwd: str | None) -> dict[str, Any]:
    from humanlayer_agent.shell import GivenReader

    action = as_started_here(Action(row.command, cwd=row.cwd or cwd or start_of(director)))
    given = GivenReader(row.files, row.tracked) if row.files or row.tracked else None
    return {"id": row.id, **public(director.evaluate(action, given))}


def public(decision: PolicyDecision) -> "DecisionRecord":
    """A decision in the form of the machine interface."""
    record: DecisionRecord = {
        "verdict": str(decision.verdict),
        "rules": list(decision.rules),
        "reason": decision.reason,
        "findings": [
            {
                "text": each.text,
                "verdict": str(each.verdict),
                "rules": list(each.rules),
                "severity": each.severity,
                "certain": each.certain,
            }
            for each in decision.findings
        ],
        "severity": decision.severity,
        "suggestion": decision.suggestion,
        "parse": decision.parse,
        "effects": [cast("EffectRecord", e.public()) for e in decision.effects],
        "us": decision.microseconds,
    }
    if not decision.enforced:
        record["enforced"] = False
    if decision.confinement is not None:
        record["confined"] = decision.confinement.name
    if decision.excused:
        record["excused"] = [{"rule": each.rule, "by": each.by, "text": each.text} for each in decision.excused]
    return record


def _print(decision: PolicyDecision) -> None:
    rules = ", ".join(decision.rules) or "no rule"
    if len(decision.rules) > _NAMED:
        rules = f"{decision.rules[0]} and {len(decision.rules) - 1} more"
    observed = "" if decision.enforced else "  observed, not enforced"
    print(f"{decision.verdict}  ({rules}){observed}")
    runs = decision.confined_line
    if (
        not (runs or decision.reason or decision.excused)
        and decision.verdict is Verdict.ALLOW
        and decision.parse == "ok"
    ):
        return
    from humanlayer_agent.safe_text import one_line, visible

    if runs:
        print(f"  {visible(runs)}")
    if decision.reason:
        print(f"  {visible(decision.reason)}")
    for each in decision.excused:
        print(f"  excused from {each.rule} {one_line(each.text)}")
    if decision.suggestion and decision.verdict is not Verdict.ALLOW:
        print(f"  instead: {visible(decision.suggestion)}")
    if decision.parse != "ok":
        print(f"  parse: {decision.parse}: {visible('; '.join(decision.parse_reasons))}")


__all__ = ["ConfigError", "main", "public"]
