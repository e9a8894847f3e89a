"""The check that a command still does what a human has approved: a link may lead elsewhere by now, an override may have
ended. And afterwards: was it the command itself that changed a file which it was judged by?

The approval is bound to the text of the command and of the scripts that were read. What a path means is on the disk,
and there it can be changed while a human reads: by what another agent does, or by what a command has left running.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.shell import LOSS, VERSION, Effect, View, known_by, plain_path

_CHANGES = frozenset({"write", "append", "delete", "move", "metadata"})
_REPLACES_FILES = frozenset({"package", "vcs-rewrite", "container"})
_FOLLOWED = frozenset({"script", "import", "code"})
"""Roles of code whose effects stand beside it."""

Leads = Mapping[str, str]
"""Paths, and where the links on them lead."""


def leads(action: Action, decision: PolicyDecision) -> Leads:
    """Return where the paths of an action lead now: its directory, and all that it would touch as far as that
    is known.
    """
    named = {action.cwd, *(effect.pattern or effect.operand or "" for effect in decision.effects)}
    return {path: decision.view.real(path) for path in named if path.startswith("/")}


def changed(director: Any, action: Action, decision: PolicyDecision, before: Leads) -> str:
    """Return why an approval does not hold any more for what is about to run; "" where it does.

    Args:
        director: one that can `evaluate_approved` is asked again; another may ask people or models, and is not.
        decision: what the human was shown of it.
        before: where its paths led then.
    """
    for path, led in before.items():
        if (now := decision.view.real(path)) != led:
            return f"{path} leads to {now} now, and led to {led} when a human was asked: propose it again"
    if not hasattr(director, "evaluate_approved"):
        return ""
    again: PolicyDecision = director.evaluate_approved(action, decision.view)
    if again.verdict > decision.verdict or (again.verdict == decision.verdict and not _covers(decision, again)):
        return f"the policy says something else of it now than when a human was asked: {again.reason}"
    return ""


def ended(director: Any, decision: PolicyDecision) -> str:
    """Return why what the policy itself allowed may not start any more; "" where it may: an exception or an override by
    which it was allowed may have ended in the meantime.

    Args:
        director: one that has a `digest` of all that decides is asked for it.
        decision: what allowed it.
    """
    now = getattr(director, "digest", None)
    if not isinstance(now, str) or now == decision.policy_digest or not decision.enforced:
        return ""
    return "the policy is not the one any more by which this was allowed: an exception or an override has ended"


def may_change(decision: PolicyDecision, path: str) -> bool:
    """Tell whether what was judged of an action leaves it open that its own commands change the file at `path`.

    An effect that names the file or a directory above it does, or one of which it is not known what it names; so does
    code that nobody has followed to its end: the project's build and tests, an unknown program. But of a script that
    runs nobody expects that it writes itself, unless that was seen.
    """
    view = decision.view
    if (names_of := known_by(path)) is not None:
        path = names_of[0]  # the names in a folder change with what is made below it
        if any(effect.kind in _CHANGES and _is_below(effect, path, view) for effect in decision.effects):
            return True
    if "/.git/" in path and any(part.program == "git" for part in decision.parts):
        return True  # what is checked out, and what remotes there are
    names = {plain_path(path), view.real(path)}
    runs_it = [e.span for e in decision.effects if e.kind == "execute" and _is_one_of(e, names, view)]
    return any(_may_change(effect, names, runs_it, view) for effect in decision.effects)


def _may_change(effect: Effect, names: set[str], runs_it: Sequence[tuple[int, int]], view: View) -> bool:
    if effect.kind in _CHANGES:
        unknown = effect.operand is None or not (effect.resolved or effect.below)
        return unknown or _is_one_of(effect, names, view) or _is_above(effect, names, view)
    if effect.kind == "execute":
        its_own = any(start < effect.span[1] and effect.span[0] < end for start, end in runs_it)
        followed = effect.role in _FOLLOWED and effect.resolved and not effect.unread
        return not followed and not its_own
    return effect.kind in _REPLACES_FILES or (effect.kind == "network" and effect.role == "remote")


def _is_one_of(effect: Effect, names: set[str], view: View) -> bool:
    operand = effect.operand or ""
    return operand.startswith("/") and not names.isdisjoint((plain_path(operand), view.real(operand)))


def _is_above(effect: Effect, names: set[str], view: View) -> bool:
    operand = effect.operand or ""
    above = {each.rstrip("/") + "/" for each in (plain_path(operand), view.real(operand))} if operand else set()
    return any(name.startswith(each) for name in names for each in above)


def _is_below(effect: Effect, folder: str, view: View) -> bool:
    operand = effect.operand or ""
    places = {plain_path(operand), view.real(operand)} if operand.startswith("/") else set()
    above = {each.rstrip("/") + "/" for each in (plain_path(folder), view.real(folder))}
    return any(place.startswith(tuple(above)) for place in places)


def _covers(shown: PolicyDecision, again: PolicyDecision) -> bool:
    """Tell whether everything that speaks against it now was known then, and git would do the same to its files."""
    return set(again.rules) <= set(shown.rules) and _versions(again) <= _versions(shown)


def _versions(decision: PolicyDecision) -> set[tuple[str | None, str | None]]:
    return {(effect.operand, effect.value) for effect in decision.effects if effect.role in (VERSION, LOSS)}
