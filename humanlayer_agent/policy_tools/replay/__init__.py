"""Recorded runs judged again: what a policy would have said, row by row. Nothing is executed, and nothing is logged.

`formats` finds the logs and the reader of each; a reader gives `steps`; `engine` judges them; `figures` counts.

Judges recorded commands, by one policy or by two at once.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from humanlayer_agent.action import Action
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.conditions.circumstances import given
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.link_targets import Links
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy_tools.replay.run_files import RunFiles
from humanlayer_agent.policy_tools.replay.steps import Item, NoCommand, Step, Unreadable, Wrote
from humanlayer_agent.shell import Reader, analyse

MAX_PROJECTS = 32
"""Most projects for which directors are kept; one that comes again after that is made again."""

Directors = Callable[[str, bool], Sequence[Director]]
"""Makes the directors for a project: one a policy, the same ones in the same order each time. The second argument says
whether what they allow is confined.
"""


@dataclass(frozen=True, slots=True)
class Judged:
    """A step, and what each policy says of it. `files` are those whose text was judged, with the SHA-256 of each.

    `confined`: it was judged as where what is allowed is confined.
    """

    step: Step
    cwd: str
    project: str
    decisions: tuple[PolicyDecision, ...]
    files: tuple[tuple[str, str], ...] = ()
    microseconds: int = 0
    confined: bool = False
    missing: tuple[str, ...] = ()
    """What it runs that is not there: of a checkout that the log does not have, and that nobody has named."""

    @property
    def certain(self) -> str | None:
        """The rule by which something certain is asked about or denied ("": none allows it); None where nothing is."""
        return _certain(self.decisions[0])

    @property
    def unread(self) -> bool:
        """Is it stopped and runs something that nobody could read?"""
        decision = self.decisions[0]
        return decision.verdict is not Verdict.ALLOW and any(effect.unread for effect in decision.effects)


class Engine:
    """Replays items one by one, in the order in which they were recorded.

    Args:
        directors: makes the directors for a project.
        project: the directory the agent worked for, whatever the log says; None: what the log says, else where the
            first command of a run started, else `default`.
        default: gives the project of runs that say nothing. Raises ConfigError where there is none.
        check: raises ConfigError for a project that is too wide.
        confined: judge as where what is allowed is confined, also what the log does not say that of.
        checkout: the directory where the files of the projects are now; None: where the logs have them.
    """

    def __init__(
        self,
        directors: Directors,
        *,
        project: Path | None = None,
        default: Callable[[], Path],
        check: Callable[[str], Path],
        confined: bool = False,
        checkout: Path | None = None,
    ) -> None:
        self._checkout = checkout
        self._make, self._fixed, self._default, self._check = directors, project, default, check
        self._confined = confined
        self._made: dict[tuple[str, bool], Sequence[Director]] = {}
        self._projects: dict[str, str | ConfigError] = {}
        self._files: dict[str, RunFiles] = {}
        self._places: dict[str, str | None] = {}
        """Where a shell that lives on is; None: nobody knows."""

    def replay(self, items: Iterable[Item]) -> Iterator[Judged | Unreadable | NoCommand]:
        """Judge what can be judged. What can't is passed on, with the reason."""
        for item in items:
            if isinstance(item, Wrote):
                if (files := self._files.get(item.run)) is None:
                    files = self._files[item.run] = RunFiles()
                files.wrote(item)
            elif isinstance(item, Step):
                yield self._judged(item)
            else:
                yield item

    def _judged(self, step: Step) -> Judged | Unreadable:
        project = self._project(step)
        if isinstance(project, ConfigError):
            return Unreadable(step.source, step.place, str(project), run=step.run)
        confined = self._confined or step.confined
        directors = self._directors(project, confined)
        cwd = step.cwd or project
        if step.keeps and step.run in self._places:
            place = self._places[step.run]
            if place is None:
                return Unreadable(step.source, step.place, "where its shell is by now is not known", run=step.run)
            cwd = place
        if (files := self._files.get(step.run)) is None:
            files = self._files[step.run] = RunFiles(directors[0].reader)
        elif files.disk is None:
            files.disk = directors[0].reader
        action = Action(
            step.command,
            type=step.type,
            cwd=cwd,
            project=project,
            interpreter=step.interpreter,
            agent=step.agent,
        )
        begin = time.perf_counter_ns()
        program = directors[0].program(action, files.reader(step.files, step.tracked))
        decisions: list[PolicyDecision] = []
        took = 0
        for director in directors:
            decisions.append(
                director.judge(
                    program,
                    Situation(
                        "ok",
                        step.agent,
                        Links(),
                        director.confined,
                        catalog=director.catalogs.catalog,
                        around=given(step.given),
                    ),
                    step.command,
                )
            )
            took = took or (time.perf_counter_ns() - begin) // 1000
        if step.ran:
            files.ran(program, step.files)
        if step.keeps and any(command.program in ("cd", "pushd", "popd") for command in program.commands):
            self._places[step.run] = _place_after(step.command, cwd)
        missing = _missing(decisions[0], files.reader(step.files, step.tracked)) if not self._is_here(project) else ()
        return Judged(step, cwd, project, tuple(decisions), tuple(program.files), took, confined, missing)

    def _is_here(self, project: str) -> bool:
        """Tell whether the files of a project are there to be read."""
        return os.path.isdir(self._checkout or project)

    def _project(self, step: Step) -> str | ConfigError:
        """The project of the run that `step` belongs to."""
        if self._fixed is not None:
            return str(self._fixed)
        known = self._projects.get(step.run)
        if known is None:
            said = step.project or step.cwd
            try:
                known = str(self._check(said) if said else self._default())
            except ConfigError as error:
                known = error
            self._projects[step.run] = known
        return known

    def _directors(self, project: str, confined: bool) -> Sequence[Director]:
        found = self._made.pop((project, confined), None)
        if found is None:
            found = self._make(project, confined)
            while len(self._made) >= MAX_PROJECTS:
                del self._made[next(iter(self._made))]
        self._made[project, confined] = found
        return found


def _certain(decision: PolicyDecision) -> str | None:
    """The rule by which something certain is asked about or denied ("": none allows it); None where nothing is."""
    judged = [pair for part in decision.parts for pair in zip(part.effects, part.judged, strict=True)]
    stopped = (
        each for effect, each in judged if effect.resolved and not effect.unread and each.verdict is not Verdict.ALLOW
    )
    found = next(stopped, None)
    return None if found is None else "".join(found.rules[:1])


def _missing(decision: PolicyDecision, reader: Reader) -> tuple[str, ...]:
    """The code that a stopped command runs and that is not there: files by their paths, modules by their names.

    Nothing, where something that is certain is asked about or denied as well: that the files don't change.
    """
    if decision.verdict is Verdict.ALLOW or _certain(decision) is not None:
        return ()
    named = dict.fromkeys(effect.operand for effect in decision.effects if effect.unread and effect.operand)
    return tuple(name for name in named if not name.startswith("/") or reader.read(name) is None)


def _place_after(command: str, cwd: str) -> str | None:
    """Where a shell is that has run `command` without an error; None where that is not known."""
    commands = analyse(f"{{ {command}\n}} && :", cwd=cwd, catalog=CATALOG).commands
    places = commands[-1].cwd if commands and commands[-1].program == ":" else None
    return places[0] if places is not None and len(places) == 1 else None
