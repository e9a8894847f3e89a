"""Running metamorphic tests: every example of a policy is rewritten, and judged again."""

import json
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.circumstances import given
from humanlayer_agent.policy.conditions.evaluation import Rules
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.examples import Example
from humanlayer_agent.policy.language.policy import Given, Policy, Rule
from humanlayer_agent.policy.language.sources import BUILTIN
from humanlayer_agent.policy_tools.metamorphic.all_transformations import for_each_line, rewrite, transformations
from humanlayer_agent.policy_tools.metamorphic.memory import Memory
from humanlayer_agent.policy_tools.metamorphic.templates import as_data, places_of_data
from humanlayer_agent.shell import Program
from humanlayer_agent.tools.calls import written

DATA = "data"
"""The text that stands in a place of data when nothing is wrong with it."""
MOST_STEPS = 3
"""How many transformations are composed at most."""
MOST_DEALT = 3
"""Of so many commands of a rule each rewriting is judged by `hla policy test --metamorphic`, but for those that each
line is worth; each command has its turn. Of 97 faults that were put into three rules of 16 examples each, as many were
found as by all rewritings of all examples, in a fifth of the time.
"""
_TRIES = 12


@dataclass(frozen=True, slots=True)
class Failure:
    """A rewriting that is judged more mildly, or a text that is judged although it is data.

    Attributes:
        chain: the transformations, in their order; or the one place where the text is data.
        original: the command line before them; for data, the same place with a harmless text.
        rewritten: the command line after them.
    """

    chain: tuple[str, ...]
    original: str
    rewritten: str
    before: PolicyDecision
    after: PolicyDecision

    @property
    def hardened(self) -> bool:
        return self.after.verdict > self.before.verdict


@dataclass(frozen=True, slots=True)
class Checked:
    """One example: how many rewritings were judged, and those that failed, in their smallest form.

    `remembered`: they were judged at an earlier time, and nothing has changed since that they depend on.
    """

    example: Example
    tried: int
    failures: tuple[Failure, ...]
    remembered: bool = False


Progress = Callable[[int, int], None]
"""Called with how many command lines are done, and how many there are."""


class Bench:
    """Rewrites command lines, and judges them by one policy."""

    def __init__(self, policy: Policy, seed: int, *, confined: bool = False) -> None:
        self.director: Director = examples.director_for(policy, confined=confined)
        self.seed = seed
        self._before: dict[tuple[Given | None, str], PolicyDecision] = {}
        self._deciding: dict[tuple[str, ...], Rules] = {}
        self._said: Given | None = None
        allowing = (each.decision == "allow" or each.confined for each in policy.rules)
        self._lets_through = self.director.confined or any(allowing)

    def judge(self, text: str) -> PolicyDecision:
        """Judge a command line in the circumstances that were set last."""
        return self.director.evaluate(self._action(text))

    def set_around(self, said: Given | None) -> None:
        """Judge in these circumstances from now on."""
        self.director.around, self._said = given(said), said

    def _action(self, text: str) -> Action:
        return Action(text, cwd=examples.PROJECT, agent=(self._said.agent or "") if self._said is not None else "")

    def before(self, text: str) -> PolicyDecision:
        """The same for a text of which there are many rewritings: it is judged once."""
        key = self._said, text
        if key not in self._before:
            self._before[key] = self.judge(text)
        return self._before[key]

    def rewrite(self, text: str, chain: Sequence[str]) -> str | None:
        return rewrite(text, tuple(chain), seed=self.seed, cwd=examples.PROJECT, home=examples.HOME)

    def weakened(self, text: str, chain: Sequence[str]) -> Failure | None:
        """The failure of a rewriting, or None where it does not apply, or is judged as strictly."""
        rewritten = self.rewrite(text, chain)
        return self.compare(text, chain, rewritten) if rewritten is not None else None

    def compare(self, text: str, chain: Sequence[str], rewritten: str) -> Failure | None:
        """The failure of a rewriting that was made, or None where it is judged as strictly."""
        before = self.before(text)
        action = self._action(rewritten)
        program = self.director.program(action)
        if self._still_stops(before, action, program):
            return None
        after = self.director.judge(program, self.director.situation(action), rewritten)
        return Failure(tuple(chain), text, rewritten, before, after) if after.verdict < before.verdict else None

    def _still_stops(self, before: PolicyDecision, action: Action, program: Program) -> bool:
        """Tell whether a rule by which the text was stopped is about the rewriting too, as strictly. The strictest of
        all rules wins, so none of the others has to be asked. It says nothing of what may run confined.
        """
        if self.director.confined or not before.rules:
            return False
        if before.rules not in self._deciding:
            rules = self.director.in_force().rules
            mine = [each for each in rules.all if each.rule.id in before.rules]
            self._deciding[before.rules] = Rules(mine, Verdict.ALLOW)
        situation = self.director.situation(action)
        situation.parse = program.status
        judged = self._deciding[before.rules].judge(program, situation)
        return any(hit.rule is not None and hit.verdict >= before.verdict for each in judged for hit in each.hits())

    def may_weaken(self, text: str) -> bool:
        """Tell whether a text can be judged more mildly: not what is allowed, and what no rule decides only by a rule
        that allows something.
        """
        before = self.before(text)
        return before.verdict is not Verdict.ALLOW and (bool(before.rules) or self._lets_through)

    def hardened(self, text: str, place: str) -> Failure | None:
        """The failure of a text as data, or None where it is judged as any other text there."""
        harmless, rewritten = as_data(place, DATA), as_data(place, text)
        before, after = self.before(harmless), self.judge(rewritten)
        return Failure((place,), harmless, rewritten, before, after) if after.verdict > before.verdict else None


def select(patterns: Sequence[str]) -> list[str]:
    """The transformations, and places of data, with these names (`*` and `?` are wildcards); all without any.

    Raises:
        KeyError: nothing is called so.
    """
    names = [*transformations(), *places_of_data()]
    if not patterns:
        return names
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise KeyError(pattern)
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def examples_of(policy: Policy, patterns: Sequence[str] = ()) -> list[Example]:
    """The examples of the rules with these ids (`*` and `?` are wildcards), and of the exceptions to them. Without any:
    those that stand in files of one's own; where the policy itself is one that ships, all.

    Raises:
        KeyError: no rule is called so.
    """
    found = list(examples.examples(policy))
    for pattern in patterns:
        if not any(fnmatchcase(rule.id, pattern) for rule in policy.rules):
            raise KeyError(pattern)
    if patterns:
        return [each for each in found if any(fnmatchcase(each.rule.id, pattern) for pattern in patterns)]
    ships = all(source.name.startswith(BUILTIN) for source in policy.sources)
    return [each for each in found if ships or not each.origin.startswith(BUILTIN)]


def run(
    policy: Policy,
    *,
    seed: int = 0,
    rules: Sequence[str] = (),
    remember: bool = False,
    names: Sequence[str] | None = None,
    compositions: int = 4,
    share: float = 1.0,
    most: int | None = None,
    confined: bool = False,
    progress: Progress | None = None,
) -> list[Checked]:
    """Rewrite and judge the examples of the rules that hold today.

    Args:
        policy: the policy.
        seed: what chance depends on; the same seed does the same.
        rules: ids of rules (see `examples_of`).
        remember: don't judge again what nothing has changed of since it was judged, and keep what is found (`memory`).
        names: transformations and places of data; None: all.
        compositions: how many random compositions of two or three each example gets.
        share: the part of all rewritings that is judged (by chance), for a short test.
        most: of how many commands of a rule each rewriting is judged; None: of all.
        confined: as where what is allowed can be confined.
        progress: is told how far it is.
    """
    bench = Bench(policy, seed, confined=confined)
    names = select(()) if names is None else names
    in_force = bench.director.in_force()
    holding = {id(rule.rule) for rule in in_force.rules.all}
    commands: dict[str, tuple[Rule, dict[str, tuple[str, list[Example]]]]] = {}
    for example in examples_of(policy, rules):
        action = written(example.command, cwd=examples.PROJECT)  # of a call of a tool: the command that does the same
        if id(example.rule) in holding and action.type == "bash":
            mine = commands.setdefault(f"{example.rule.origin} {example.rule.id}", (example.rule, {}))[1]
            mine.setdefault(_key(action.content, example.given), (action.content, []))[1].append(example)
    asked = {"seed": seed, "names": names, "compositions": compositions, "share": share, "most": most}
    asked["confined"] = confined
    memory = Memory(policy, in_force.now, asked | {"name": policy.name}) if remember else None
    known: dict[tuple[str, tuple[str, ...]], Found] = {}
    out: list[Checked] = []
    done, of = 0, sum(len(mine) for _, mine in commands.values())
    for rule, mine in commands.values():
        kept = _recalled(bench, memory, rule, {key: found[0].given for key, (_, found) in mine.items()})
        dealt = _dealt(bench, mine, names, most) if kept is None else {}
        for key, (text, found) in mine.items():
            if kept is None and (key, dealt[key]) not in known:
                bench.set_around(found[0].given)
                known[key, dealt[key]] = _found(bench, policy, text, dealt[key], names, compositions, share)
            tried, failures = known[key, dealt[key]] if kept is None else kept[key]
            out += [Checked(example, tried, failures, kept is not None) for example in found]
            done += 1
            if progress is not None:
                progress(done, of)
        if memory is not None and kept is None:
            memory.keep(rule, list(mine), {key: _plain(known[key, dealt[key]]) for key in mine})
    return out


def _dealt(
    bench: Bench, commands: Mapping[str, tuple[str, list[Example]]], names: Sequence[str], most: int | None
) -> dict[str, tuple[str, ...]]:
    """Deal transformations and places of data out to the commands of a rule: each to at most `most` of those that it
    applies to, from all over them, and to others each time; but to all, what each line is worth.
    """
    dealt: dict[str, list[str]] = {key: [] for key in commands}
    stopped = []
    for key, (text, found) in commands.items():
        bench.set_around(found[0].given)
        if bench.may_weaken(text):
            stopped.append(key)
    for number, name in enumerate(names):
        rewriting = name in transformations()
        left = len(commands) if most is None or name in for_each_line() else most
        for key in _turned(stopped if rewriting else list(commands), number, left):
            if left and (most is None or not rewriting or bench.rewrite(commands[key][0], (name,)) is not None):
                dealt[key].append(name)
                left -= 1
    return {key: tuple(each) for key, each in dealt.items()}


def _turned(keys: Sequence[str], number: int, parts: int) -> Iterator[str]:
    """All keys, beginning at another one for each number, and then the one that is a `parts`-th of all further on."""
    count = len(keys)
    step = next((n for n in range(max(1, count // max(1, parts)), count) if math.gcd(n, count) == 1), 1)
    yield from (keys[(number + n * step) % count] for n in range(count))


def _key(text: str, said: Given | None) -> str:
    """A text and its circumstances, as one text."""
    return text if said is None else f"{text}\0{json.dumps(asdict(said), sort_keys=True)}"


Found = tuple[int, tuple[Failure, ...]]
"""How many rewritings of a command were judged, and those that failed."""


def _found(
    bench: Bench,
    policy: Policy,
    text: str,
    dealt: Sequence[str],
    names: Sequence[str],
    compositions: int,
    share: float,
) -> Found:
    """Rewrite and judge one command: by what was dealt out to it, and by compositions of all."""
    from humanlayer_agent.policy_tools.metamorphic.shrink import smallest

    rewriting = [name for name in names if name in transformations()]
    single = [name for name in dealt if name in transformations()]
    places = [name for name in dealt if name not in transformations()]
    chance = random.Random(f"{bench.seed}\0{policy.name}\0{text}")
    judged = [
        *_rewritten(bench, text, single, rewriting, compositions, share, chance),
        *(bench.hardened(text, place) for place in places if chance.random() < share),
    ]
    small = [smallest(bench, failure) for failure in judged if failure is not None]
    return len(judged), tuple({(f.chain, f.original): f for f in small}.values())


def _plain(found: Found) -> dict[str, Any]:
    tried, failures = found
    return {"tried": tried, "failures": [[list(f.chain), f.original, f.rewritten] for f in failures]}


def _recalled(
    bench: Bench, memory: Memory | None, rule: Rule, commands: Mapping[str, Given | None]
) -> dict[str, Found] | None:
    """Return what is remembered of a rule, its failures judged again; None where anything is not as it is now."""
    kept = memory.recall(rule, list(commands)) if memory is not None else None
    if kept is None or kept.keys() != set(commands):
        return None
    found: dict[str, Found] = {}
    for key, each in kept.items():
        bench.set_around(commands[key])
        failures = [
            Failure(tuple(chain), original, rewritten, bench.before(original), bench.judge(rewritten))
            for chain, original, rewritten in each["failures"]
        ]
        if any(failure.before.verdict == failure.after.verdict for failure in failures):
            return None
        found[key] = each["tried"], tuple(failures)
    return found


def _rewritten(
    bench: Bench,
    text: str,
    single: Sequence[str],
    names: Sequence[str],
    compositions: int,
    share: float,
    chance: random.Random,
) -> Iterator[Failure | None]:
    """What came of each rewriting of `text`."""
    if not bench.may_weaken(text):
        return
    for chain, rewritten in _chains(bench, text, single, names, compositions, share, chance):
        yield bench.compare(text, chain, rewritten)


def _chains(
    bench: Bench,
    text: str,
    single: Sequence[str],
    names: Sequence[str],
    compositions: int,
    share: float,
    chance: random.Random,
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield each transformation, and some compositions, with what `text` is after them."""
    for name in single:
        if chance.random() < share and (rewritten := bench.rewrite(text, (name,))) is not None:
            yield (name,), rewritten
    chance = random.Random(f"{bench.seed}\0{text}\0compositions")  # the same ones, whatever was dealt out
    for _ in range(compositions if names else 0):
        if chance.random() < share:
            chain, rewritten = _composed(bench, text, names, chance)
            if len(chain) > 1:
                yield chain, rewritten


def _composed(bench: Bench, text: str, names: Sequence[str], chance: random.Random) -> tuple[tuple[str, ...], str]:
    """Two or three transformations by chance, of which each applies to what those before it have written; and that."""
    chain: tuple[str, ...] = ()
    wanted = chance.randint(2, MOST_STEPS)
    for _ in range(_TRIES):
        name = chance.choice(names)
        rewritten = bench.rewrite(text, (name,))
        if rewritten is not None:
            text, chain = rewritten, (*chain, name)
        if len(chain) == wanted:
            break
    return chain, text
