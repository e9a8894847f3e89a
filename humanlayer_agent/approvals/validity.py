"""The check that a command still does what a human has approved: a link may lead elsewhere by now, an override may have
ended.

The approval is bound to the text of the command and of the scripts that were read. What a path means is on the disk,
and there it can be changed while a human reads: by what another agent does, or by what a command has left running.
"""

import os
from collections.abc import Mapping
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision

Leads = Mapping[str, str]
"""Paths, and where the links on them lead."""


def leads(action: Action, decision: PolicyDecision) -> Leads:
    """Return where the paths of an action lead now: its directory, and all that it would touch as far as that
    is known.
    """
    named = {action.cwd, *(effect.pattern or effect.operand or "" for effect in decision.effects)}
    return {path: _real(path) for path in named if path.startswith("/")}


def changed(director: Any, action: Action, decision: PolicyDecision, before: Leads) -> str:
    """Return why an approval does not hold any more for what is about to run; "" where it does.

    Args:
        director: one that `judges_anew` is asked again; another may ask people or models, and is not.
        decision: what the human was shown of it.
        before: where its paths led then.
    """
    for path, led in before.items():
        if (now := _real(path)) != led:
            return f"{path} leads to {now} now, and led to {led} when a human was asked: propose it again"
    if not getattr(director, "judges_anew", False):
        return ""
    again: PolicyDecision = director.evaluate(action)
    if again.verdict > decision.verdict or (again.verdict == decision.verdict and not _covers(decision, again)):
        return f"the policy says something else of it now than when a human was asked: {again.reason}"
    return ""


def _covers(shown: PolicyDecision, again: PolicyDecision) -> bool:
    """Tell whether everything that speaks against it now was known then."""
    return set(again.rules) <= set(shown.rules)


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return ""
