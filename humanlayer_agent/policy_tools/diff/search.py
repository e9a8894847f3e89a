"""The commands that show what changes in the rules do: looked for, where the examples at hand don't show it.

For each clause that is another one (`rule_changes`), commands are made on both sides of what changed of it, then from
the examples of both policies in other spellings, from what ships to try policies on, and from the log. Which change a
command shows is found out by applying each change alone to the old policy. Of each change the shortest command is kept
that the new policy judges more mildly, and the shortest that it judges more strictly.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial, reduce
from itertools import islice
from typing import Any

from humanlayer_agent.policy.conditions.circumstances import given
from humanlayer_agent.policy.conditions.compiler import Compiler, Situation
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.policy import Given, Policy, Source, match_from
from humanlayer_agent.policy_tools.diff.rule_changes import RuleChange, changes, policy_with
from humanlayer_agent.policy_tools.lint import boundary_values, sample_commands, witnesses
from humanlayer_agent.policy_tools.metamorphic.all_transformations import rewrite, transformations
from humanlayer_agent.policy_tools.metamorphic.shrink import smaller
from humanlayer_agent.policy_tools.replay import Judged
from humanlayer_agent.policy_tools.replay.steps import Step
from humanlayer_agent.tools.calls import written

MOST_MADE, MOST_REWRITTEN = 12_000, 6_000
"""Most commands that are made from what changed, and most other spellings of examples: shared by all changes, of which
each has at least `FEWEST_MADE` and `FEWEST_REWRITTEN`.
"""
FEWEST_MADE, FEWEST_REWRITTEN = 300, 100
MAX_SHRUNK = 100
ENOUGH = 8
"""So many commands that show the same loosening are looked for before the shortest is taken."""
_PATIENCE = 150
NOTHING = Given()
"""Nothing is known of what surrounds a command."""
_AROUND, _OTHERS = 48, 3
"""Circumstances on both sides of what changed, and among which the rest of the rule holds: so many are tried."""
_TOLD = 64
_OLD, _NEW = -1, -2

Progress = Callable[[int, int, int], None]
"""Called with how many parts of the search are done, how many there are, and how many commands were tried."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A command to be judged by both policies. `how` says where it is from."""

    command: str
    how: str
    circumstances: Given = NOTHING


@dataclass(frozen=True, slots=True)
class Shown:
    """A command that shows a change, as both policies judge it."""

    change: RuleChange
    row: Judged
    circumstances: Given = NOTHING

    @property
    def looser(self) -> bool:
        """Tell whether the new policy judges it more mildly."""
        old, new = map(enforced, self.row.decisions)
        return new < old

    @property
    def size(self) -> tuple[int, bool, int, str]:
        """Return what tells which of two commands is the plainer one: certain, and then shorter."""
        command = self.row.step.command
        return len(told(self.circumstances)), "$" in command, len(command), command.replace("\t", "~")


@dataclass
class Search:
    """Looks for commands on which two policies differ.

    Args:
        old, new: the policies.
        confined: as where what is allowed can be confined.
        log: what both policies said of commands of the log, each in its own place.
    """

    old: Policy
    new: Policy
    confined: bool = False
    log: Iterable[Judged] = ()
    tried: int = 0
    complete: bool = False
    """It came to its end, and was not interrupted."""
    changes: list[RuleChange] = field(default_factory=list)
    _best: dict[tuple[int, bool], Shown] = field(default_factory=dict)
    _together: dict[bool, Shown] = field(default_factory=dict)
    _count: Counter[tuple[int, bool]] = field(default_factory=Counter)
    _seen: set[tuple[str, str, bool]] = field(default_factory=set)
    _directors: dict[tuple[int, bool], Director] = field(default_factory=dict)
    _progress: Callable[[int], None] = lambda tried: None

    def run(self, progress: Progress = lambda done, of, tried: None) -> None:
        """Search. Ctrl-C ends it; what was found until then stays."""
        try:
            self.changes = changes(self.old, self.new, self._director(_OLD).in_force().now)
            steps = [*self._steps()]
            for done, step in enumerate(steps):
                self._progress = partial(progress, done, len(steps))
                self._progress(self.tried)
                step()
            self._shrink()
            self.complete = True
        except KeyboardInterrupt:
            pass

    def shown(self) -> list[Shown]:
        """Return what was found, loosened first; a command that no change shows by itself is of several together."""
        told = {looser for _, looser in self._best}
        together = [each for looser, each in self._together.items() if looser not in told]
        return sorted([*self._best.values(), *together], key=lambda each: not each.looser)

    def silent(self) -> list[RuleChange]:
        """The changes that no command was found for."""
        if self._together:
            return []
        return [change for n, change in enumerate(self.changes) if not {(n, True), (n, False)} & self._best.keys()]

    def _all_together(self, row: Judged) -> RuleChange:
        """The changes of the rules that decide, as one."""
        deciding = {rule for decision in row.decisions for rule in decision.rules}
        mine = [change for change in self.changes if change.rule in deciding] or self.changes
        text = "; ".join(f"{change.name}: {change.text}" for change in mine)
        conditions = tuple(condition for change in mine for condition in change.conditions)
        return RuleChange("", "", text, conditions=conditions)

    # ---- where commands come from ---------------------------------------------------------------------------

    def _steps(self) -> Iterator[Callable[[], None]]:
        """Yield what is done, in order: first what is likely to show a change."""
        if not self.changes:
            return
        numbers = range(len(self.changes))
        yield from (partial(self._try, self._boundaries(number), [number]) for number in numbers)
        yield partial(self._try, self._examples())
        yield partial(self._try, self._usual())
        yield self._from_log
        yield from (partial(self._try, self._rewritten(number), [number]) for number in numbers)
        yield partial(self._try, self._rewritten_once())

    def _boundaries(self, number: int) -> Iterator[Trial]:
        """Commands on both sides of what changed of a clause."""
        change = self.changes[number]
        whole = boundary_values.Named()
        for policy, rule in zip((self.old, self.new), change.rules, strict=True):
            if rule is not None:
                compiler = self._compiler(policy, rule.scope)
                matches = boundary_values.conditions_of(rule)
                plain, beside = (boundary_values.named_by(matches, compiler, beside=each) for each in (False, True))
                whole = whole.before(plain.before(beside))
        compiler = self._compiler(self.old, 0)
        parts = (boundary_values.named_by([match_from(each)], compiler, beside=True) for each in change.conditions)
        named = reduce(boundary_values.Named.against, parts, boundary_values.Named()).before(whole)
        most = max(FEWEST_MADE, MOST_MADE // len(self.changes))
        around = list(dict.fromkeys(self._circumstances(change, named)))
        for command in islice(sample_commands.around(named), max(most // len(around), MOST_MADE // 100)):
            yield from (Trial(command, "made from what changed", circumstances) for circumstances in around)

    @staticmethod
    def _circumstances(change: RuleChange, named: boundary_values.Named) -> Iterator[Given]:
        """None, those on both sides of what changed, and those among which the rest of the rule holds."""
        yield NOTHING
        others = [each for rule in change.rules if rule is not None for each in sample_commands.circumstances(rule)]
        for other in (NOTHING, *others[:_OTHERS]):
            yield other
            yield from (replace(other, **told(each)) for each in named.circumstances[:_AROUND])

    def _examples(self) -> Iterator[Trial]:
        found = {(e.command, e.given): None for p in (self.old, self.new) for e in examples.examples(p)}
        return (Trial(command, "an example", said or NOTHING) for command, said in found)

    @staticmethod
    def _usual() -> Iterator[Trial]:
        """Commands that lint tries every rule on."""
        for danger in witnesses.all_dangers():
            yield Trial(danger.command, "a danger")
        for command in witnesses.shown_by_catalog():
            yield Trial(command, "an example of the catalog")

    def _rewritten(self, number: int) -> Iterator[Trial]:
        """The examples that a rule which changed applies to, each in every other spelling."""
        rules = {id(rule) for rule in self.changes[number].rules if rule is not None}
        mine = [e.command for p in (self.old, self.new) for e in examples.examples(p) if id(e.rule) in rules]
        found = (
            Trial(text, "an example in another spelling")
            for name in transformations()
            for command in dict.fromkeys(mine)
            if (text := self._rewrite(command, name)) is not None
        )
        yield from islice(found, max(FEWEST_REWRITTEN, min(MOST_REWRITTEN // len(self.changes), 600)))

    def _rewritten_once(self) -> Iterator[Trial]:
        """Every example in another spelling."""
        names = list(transformations())
        for number, command in enumerate(self._commands):
            chance = random.Random(f"{number}\0{command}")
            for name in chance.sample(names, 4):
                if (text := self._rewrite(command, name)) is not None:
                    yield Trial(text, "an example in another spelling")
                    break

    @staticmethod
    def _rewrite(command: str, name: str) -> str | None:
        return rewrite(command, (name,), seed=0, cwd=examples.PROJECT, home=examples.HOME)

    @cached_property
    def _commands(self) -> list[str]:
        return list(dict.fromkeys(e.command for p in (self.old, self.new) for e in examples.examples(p)))

    def _from_log(self) -> None:
        for row in self.log:
            self._count_one()
            if differ(row):
                self._note(row, NOTHING)

    # ---- one command ----------------------------------------------------------------------------------------

    def _try(self, trials: Iterable[Trial], numbers: Sequence[int] | None = None) -> None:
        """Judge commands, until enough is known of all changes that they are for (None: of all)."""
        wanted = range(len(self.changes)) if numbers is None else numbers
        ways = self._ways([self.changes[number] for number in wanted])
        for tried, trial in enumerate(trials):
            if all(self._is_enough(number, tried) for number in wanted):
                return
            for confined in ways:
                key = (trial.command, repr(trial.circumstances), confined)
                if key not in self._seen:
                    self._seen.add(key)
                    self._count_one()
                    row = self._judged(trial.command, trial.how, trial.circumstances, confined)
                    if differ(row):
                        self._note(row, trial.circumstances, numbers or ())

    def _is_enough(self, number: int, tried: int) -> bool:
        """Tell whether enough was found of a change. For what it makes stricter, one command is waited for a while."""
        looser, stricter = self._count[number, True], self._count[number, False]
        if self.changes[number].only_tightens:
            return stricter >= ENOUGH
        return looser >= ENOUGH and (stricter > 0 or tried >= _PATIENCE)

    def _count_one(self) -> None:
        self.tried += 1
        if self.tried % _TOLD == 0:
            self._progress(self.tried)

    def _ways(self, changes: Iterable[RuleChange]) -> tuple[bool, ...]:
        """Confined, not confined, or both, where the changes say something of that."""
        if self.confined:
            return (True,)
        return (False, True) if any(change.about_confinement for change in changes) else (False,)

    def _judged(self, command: str, how: str, circumstances: Given, confined: bool) -> Judged:
        directors = self._director(_OLD, confined), self._director(_NEW, confined)
        return judged(directors, command, how, circumstances, confined)

    def _note(self, row: Judged, circumstances: Given, numbers: Iterable[int] = ()) -> None:
        """Keep a command on which the policies differ, for the changes that it shows by themselves: those that it is
        for, those of the rules that decide, those of the whole policy.
        """
        found = False
        deciding = {"", *(rule for decision in row.decisions for rule in decision.rules)}
        others = (n for n, change in enumerate(self.changes) if change.rule in deciding)
        for number in dict.fromkeys((*numbers, *others)):
            each = Shown(self.changes[number], row, circumstances)
            best = self._best.get((number, each.looser))
            if best is not None and self._count[number, each.looser] >= ENOUGH and best.size <= each.size:
                found = True
            elif self._shows(number, each):
                found = True
                self._count[number, each.looser] += 1
                if best is None or each.size < best.size:
                    self._best[number, each.looser] = each
        each = Shown(self._all_together(row), row, circumstances)
        if not found and (each.looser not in self._together or each.size < self._together[each.looser].size):
            self._together[each.looser] = each

    def _shows(self, number: int, each: Shown) -> bool:
        """Tell whether the change by itself makes the old policy say something else, in the same direction."""
        row = each.row
        directors = self._director(_OLD, row.confined), self._director(number, row.confined)
        alone = judged(directors, row.step.command, "", each.circumstances, row.confined)
        return differ(alone) and Shown(each.change, alone).looser is each.looser

    def _shrink(self) -> None:
        """Take words away from what was found, as long as it shows the same."""
        for key, found in self._best.items():
            self._best[key] = self._smallest(key[0], found)

    def _smallest(self, number: int, found: Shown) -> Shown:
        for _ in range(MAX_SHRUNK):
            step = found.row.step
            less = next((each for text in smaller(step.command) if (each := self._less(number, found, text))), None)
            if less is None:
                break
            found = less
        return found

    def _less(self, number: int, found: Shown, text: str) -> Shown | None:
        row = self._judged(text, found.row.step.place, found.circumstances, found.row.confined)
        less = replace(found, row=row)
        same = [enforced(d) for d in row.decisions] == [enforced(d) for d in found.row.decisions]
        return less if same and less.size < found.size and self._shows(number, less) else None

    # ---- the policies ---------------------------------------------------------------------------------------

    def _director(self, number: int, confined: bool = False) -> Director:
        """Of the old policy, of the new one, or of the old one with one change alone."""
        key = number, confined
        if key not in self._directors:
            policy = {_OLD: self.old, _NEW: self.new}.get(number) or policy_with(self.changes[number])
            policy = replace(policy, sources=sources_of(self.old, self.new))
            self._directors[key] = examples.director_for(policy, observe=policy.observe, confined=confined)
        return self._directors[key]

    def _compiler(self, policy: Policy, scope: int) -> Compiler:
        variables = self._director(_OLD).variables
        given = {"policies": tuple(f"${{{n}}}" for n in variables if n.startswith("POLICY_FILE_"))}
        return Compiler({**policy.scopes[scope], **given}, variables)


def sources_of(old: Policy, new: Policy) -> tuple[Source, ...]:
    """Return the files of both policies. Each protects its own; which file one stands in is no difference."""
    return tuple(dict.fromkeys((*old.sources, *new.sources)))


def judged(
    directors: Sequence[Director],
    command: str,
    how: str,
    circumstances: Given = NOTHING,
    confined: bool = False,
    source: str = "",
) -> Judged:
    """Return what policies say of a command, or of the call of a tool, that starts in the project of the examples.

    Args:
        how: where it is from.
        circumstances: what is known of what surrounds it, as who proposes it.
        confined: as where what is allowed can be confined; the directors must be made for that.
        source: the file that it stands in.
    """
    action = replace(written(command, cwd=examples.PROJECT), agent=circumstances.agent or "")
    if action.type == "bash" and not confined:
        program = witnesses.read(action.content, directors[0].environ["HOME"])
    else:
        program = directors[0].program(action)
    decisions = tuple(
        director.judge(program, Situation.of(action, confinable=confined, around=given(circumstances)), action.content)
        for director in directors
    )
    said = ", ".join(f"{name} {value}" for name, value in told(circumstances).items())
    place = f"{how}, {said}" if said else how
    step = Step(source, place, "", place, command, examples.PROJECT, ran=False, type=action.type, agent=action.agent)
    files = tuple(program.files)
    return Judged(step, examples.PROJECT, examples.PROJECT, decisions, files, confined=confined)


def told(circumstances: Given) -> dict[str, Any]:
    """Return what is known of circumstances."""
    return {each.name: value for each in fields(Given) if (value := getattr(circumstances, each.name)) is not None}


def enforced(decision: PolicyDecision) -> Verdict:
    """Return what a decision leads to: one that is only observed stops nothing."""
    return decision.verdict if decision.enforced else Verdict.ALLOW


def differ(row: Judged) -> bool:
    """Tell whether a command leads to something else by the other policy."""
    old, new = row.decisions
    return enforced(old) is not enforced(new)
