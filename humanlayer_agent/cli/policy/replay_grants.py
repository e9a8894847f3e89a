"""The figures of a replay with simulated approvers: what was asked before and after, and what grants let through."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from humanlayer_agent.cli.shared.records import SimulatedRecord
from humanlayer_agent.cli.shared.tables import print_entry, print_rows
from humanlayer_agent.policy_tools.replay.approvers import Approvers, Asked, Simulated
from humanlayer_agent.policy_tools.replay.figures import NO_RULE
from humanlayer_agent.safe_text import one_line

_SHOWN = 5
_INDENT = 7
_LONG = 200
_CHOSEN = {
    "narrowest": "the narrowest scope that is offered",
    "second": "the second-narrowest scope that is offered",
    "widest": "the widest scope that is offered",
}


def print_grants(console: Console, approvers: Approvers, top: int | None) -> None:
    """Print what was asked before and after, by rule, and the grants that answered most.

    Args:
        top: so many of them; None: a few.
    """
    runs = approvers.by_run.values()
    console.print(f"\nwhere approvers choose {_CHOSEN[approvers.choice]}, until the end of the run:\n")
    rows = [_row("certain asks", approvers.certain), _row("other asks", approvers.unsure)]
    rows += [_row(one_line(rule) or NO_RULE, asked) for rule, asked in _most(approvers.by_rule)]
    print_rows(console, ("", ">before", ">after", ">fewer by"), rows)
    if runs:
        before, after = (sum(getattr(each, name) for each in runs) / len(runs) for name in ("before", "after"))
        console.print(f"\n{before:.2f} asks before and {after:.2f} after, in each run that asks")
    used = sorted((grant for grant in approvers.grants if grant.covered), key=lambda each: -len(each.covered))
    given = f"{len(approvers.grants):,} grant{'' if len(approvers.grants) == 1 else 's'}"
    console.print(f"{given}, of which {len(used):,} answered a later ask\n")
    for grant in used[: top or _SHOWN]:
        print_entry(
            f"{len(grant.covered):5}  {one_line(grant.words)}", one_line(grant.first.step.command)[:_LONG], _INDENT
        )
    if len(used) > (top or _SHOWN):
        console.print(Text(f"and {len(used) - (top or _SHOWN):,} more: --top {len(used)}", style="dim"))


def _row(name: str, asked: Asked) -> Sequence[str]:
    return name, f"{asked.before:,}", f"{asked.after:,}", f"{asked.share:.1f} %"


def _most(table: dict[str, Asked]) -> list[tuple[str, Asked]]:
    return sorted(table.items(), key=lambda pair: -pair[1].before)


def public_grants(approvers: Approvers) -> SimulatedRecord:
    """Return all of it, for programs."""
    return {
        "choice": approvers.choice,
        "certain": _public(approvers.certain),
        "others": _public(approvers.unsure),
        "rules": [{"rule": rule or None, **_public(asked)} for rule, asked in _most(approvers.by_rule)],
        "runs": [{"run": run, **_public(asked)} for run, asked in approvers.by_run.items()],
        "grants": [_public_grant(grant) for grant in approvers.grants],
    }


def _public(asked: Asked) -> dict[str, int]:
    return {"before": asked.before, "after": asked.after}


def _public_grant(grant: Simulated) -> dict[str, object]:
    first = grant.first
    return {
        "words": grant.words,
        "run": first.step.run,
        "rule": first.decisions[0].rule or None,
        "command": first.step.command,
        "answered": [
            {"command": row.step.command, "place": row.step.place, "rule": row.decisions[0].rule or None}
            for row in grant.covered
        ],
    }
