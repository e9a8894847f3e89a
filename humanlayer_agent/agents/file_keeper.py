"""Keep what commands replace in a project, so that a human can have it back: what each may change, by its effects."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from humanlayer_agent.agents.run_enclosures import RunEnclosures
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.confine.confinement import Bounds, Confinement, Unenforceable, is_below
from humanlayer_agent.locations import kept_folder, upwards
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.effect_phrases import operand, verb
from humanlayer_agent.shell import Effect
from humanlayer_agent.undo.kept_files import Kept, KeptFiles
from humanlayer_agent.undo.permit_changes import GIT, PermitChanges, Scope

_CHANGES = frozenset({"write", "append", "delete", "move", "metadata"})
_ANYTHING = frozenset({"execute", "package", "container", "persist", "vcs-rewrite"})
"""Kinds of effects behind which may be any change of the project's files."""
_BEYOND = frozenset({"network", "process", "container", "persist", "system", "database", "package"})
_MOST_TOLD = 5
_UNHELD = "It ran code of which nobody knows what it changed outside of the project."
_GIT_OUTSIDE = "What git keeps of this repository lies outside of the project, in {place}."


class FileKeeper:
    """Keeps files of one project, as a Gate wants it (see `approvals.gate.FileKeeper`).

    Args:
        project: the directory that the commands work for, on this machine.
        enclosures: those of the run; None where nothing is confined.
        name: what a human called the run; "" where nobody did.
    """

    def __init__(self, project: Path | str, enclosures: RunEnclosures | None = None, name: str = "") -> None:
        self.project, self._name = os.path.realpath(project), name
        self._enclosures = enclosures
        self._lock = threading.Lock()
        self._changes: PermitChanges | None = None

    def keep(self, run: str, confinement: Confinement, bounds: Bounds) -> Kept:
        """Keep the files that no commit has, once for a run."""
        if self._enclosures is None:
            raise Unenforceable("nothing here holds it to that")
        return self._enclosures.keep(run, confinement, bounds)

    def before(self, run: str, permit: Permit) -> Kept | None:
        """Keep what the command of a permit may replace, right before it starts; None where it changes no file.

        Raises:
            OSError: it can't be kept.
        """
        decision = permit.decision
        scope = scope_of(decision, self.project)
        if scope is None or decision.undo is None:
            return None
        return self._of_project().before(self._name or run, permit.id, scope, decision.undo)

    def after(self, permit: str) -> Kept | None:
        """Note what it has changed, when it has ended.

        Raises:
            OSError: that can't be written.
        """
        return self._of_project().after(permit)

    def _of_project(self) -> PermitChanges:
        with self._lock:
            if self._changes is None:
                self._changes = PermitChanges(KeptFiles(kept_folder()), self.project)
            return self._changes


def keeper_of(enclosures: RunEnclosures | None, project: Path | str | None, name: str = "") -> FileKeeper | None:
    """Return what keeps the files of a run's project; None where its commands run elsewhere (`project` is None)."""
    if project is None:
        return None
    return FileKeeper(project, enclosures if enclosures is not None and enclosures.confines else None, name)


def scope_of(decision: PolicyDecision, project: str) -> Scope | None:
    """Return what an action may change of a project; None where it changes no file.

    A command of which all is known changes what it names. Code that is run, packages, containers, git, and whatever is
    not known may change anything.

    Args:
        decision: on the action.
        project: its directory, without links.
    """
    whole = decision.parse != "ok"
    paths: list[str] = []
    beyond: list[str] = []
    for effect in decision.effects:
        if effect.kind in _CHANGES:
            place = effect.operand if effect.resolved or effect.below else None
            if place is None:
                whole = True
                continue
            inside = list(_inside(place, project))
            paths += inside
            if not inside or (effect.resolved and not is_below(os.path.realpath(place), project)):
                beyond.append(_said(effect))
        whole = whole or effect.unread or effect.kind in _ANYTHING
        if effect.kind in _BEYOND:
            beyond.append(_said(effect))
    with_git = any(part.program == "git" and any(e.kind != "read" for e in part.effects) for part in decision.parts)
    if with_git and (place := _repository_outside(project)):
        beyond.append(_GIT_OUTSIDE.format(place=place))
    whole = whole or with_git
    if not whole and not paths:
        return None
    if decision.confinement is None and any(e.unread or e.kind == "execute" for e in decision.effects):
        beyond.append(_UNHELD)
    told = list(dict.fromkeys(beyond))
    if len(told) > _MOST_TOLD:
        told[_MOST_TOLD:] = [f"And {len(told) - _MOST_TOLD} more."]
    to = decision.confinement
    untouchable = (*to.entries("protect"), *to.entries("hide")) if to is not None else ()
    return Scope(tuple(dict.fromkeys(paths)), whole, untouchable, tuple(told))


def _inside(place: str, project: str) -> Iterator[str]:
    """Where a path is in the project, as it is written and as links lead."""
    folder, name = os.path.split(os.path.normpath(place))
    for path in (os.path.join(os.path.realpath(folder), name), os.path.realpath(place)):
        if is_below(path, project):
            yield "" if path == project else os.path.relpath(path, project)


def _said(effect: Effect) -> str:
    does, has_operand = verb(effect)
    return f"It {does} {operand(effect)}.".replace(" .", ".") if has_operand else f"It {does}."


def _repository_outside(project: str) -> str:
    top = next((each for each in upwards(project) if os.path.lexists(f"{each}/{GIT}")), project)
    return f"{top}/{GIT}" if top != project or os.path.isfile(f"{top}/{GIT}") else ""
