"""Running metamorphic tests: every example of a policy is rewritten, and judged again."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.circumstances import given
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy.language.examples import Example
from humanlayer_agent.policy.language.policy import Given, Policy
from humanlayer_agent.policy_tools.metamorphic.all_transformations import rewrite, transformations
from humanlayer_agent.policy_tools.metamorphic.templates import as_data, places_of_data
from humanlayer_agent.tools.calls import written

DATA = "data"
"""The text that stands in a place of data when nothing is wrong with it."""
MOST_STEPS = 3
"""How many transformations are composed at most."""
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
    """One example: how many rewritings were judged, and those that failed, in their smallest form."""

    example: Example
    tried: int
    failures: tuple[Failure, ...]


Progress = Callable[[int, int], None]
"""Called with how many command lines are done, and how many there are."""


class Bench:
    """Rewrites command lines, and judges them by one policy."""

    def __init__(self, policy: Policy, seed: int, *, confined: bool = False) -> None:
        self.director: Director = examples.director_for(policy, confined=confined)
        self.seed = seed
        self.agent = ""

    def judge(self, text: str) -> PolicyDecision:
        """Judge a command line in the circumstances that were set last."""
        return self.director.evaluate(Action(text, cwd=examples.PROJECT, agent=self.agent))

    def set_around(self, said: Given | None) -> None:
        """Judge in these circumstances from now on."""
        self.director.around, self.agent = given(said), (said.agent or "") if said is not None else ""

    def rewrite(self, text: str, chain: Sequence[str]) -> str | None:
        return rewrite(text, tuple(chain), seed=self.seed, cwd=examples.PROJECT, home=examples.HOME)

    def weakened(self, text: str, chain: Sequence[str]) -> Failure | None:
        """The failure of a rewriting, or None where it does not apply, or is judged as strictly."""
        rewritten = self.rewrite(text, chain)
        return self.compare(text, chain, rewritten) if rewritten is not None else None

    def compare(self, text: str, chain: Sequence[str], rewritten: str) -> Failure | None:
        """The failure of a rewriting that was made, or None where it is judged as strictly."""
        before, after = self.judge(text), self.judge(rewritten)
        return Failure(tuple(chain), text, rewritten, before, after) if after.verdict < before.verdict else None

    def hardened(self, text: str, place: str) -> Failure | None:
        """The failure of a text as data, or None where it is judged as any other text there."""
        harmless, rewritten = as_data(place, DATA), as_data(place, text)
        before, after = self.judge(harmless), self.judge(rewritten)
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


def run(
    policy: Policy,
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    compositions: int = 4,
    share: float = 1.0,
    confined: bool = False,
    progress: Progress | None = None,
) -> list[Checked]:
    """Rewrite and judge the examples of the rules that hold today.

    Args:
        policy: the policy.
        seed: what chance depends on; the same seed does the same.
        names: transformations and places of data; None: all.
        compositions: how many random compositions of two or three each example gets.
        share: the part of all rewritings that is judged (by chance), for a short test.
        confined: as where what is allowed can be confined.
        progress: is told how far it is.
    """
    from humanlayer_agent.policy_tools.metamorphic.shrink import smallest

    bench = Bench(policy, seed, confined=confined)
    names = select(()) if names is None else names
    rewriting = [name for name in names if name in transformations()]
    places = [name for name in names if name not in transformations()]
    in_force = {id(rule.rule) for rule in bench.director.in_force().rules.all}
    commands: dict[tuple[str, Given | None], list[Example]] = {}
    for example in examples.examples(policy):
        action = written(example.command, cwd=examples.PROJECT)  # of a call of a tool: the command that does the same
        if id(example.rule) in in_force and action.type == "bash":
            commands.setdefault((action.content, example.given), []).append(example)
    out: list[Checked] = []
    for done, ((text, said), found) in enumerate(commands.items()):
        bench.set_around(said)
        chance = random.Random(f"{seed}\0{policy.name}\0{text}")
        judged = [
            *_rewritten(bench, text, rewriting, compositions, share, chance),
            *(bench.hardened(text, place) for place in places if chance.random() < share),
        ]
        small = [smallest(bench, failure) for failure in judged if failure is not None]
        failures = tuple({(f.chain, f.original): f for f in small}.values())
        out += [Checked(example, len(judged), failures) for example in found]
        if progress is not None:
            progress(done + 1, len(commands))
    return out


def _rewritten(
    bench: Bench, text: str, names: Sequence[str], compositions: int, share: float, chance: random.Random
) -> Iterator[Failure | None]:
    """What came of each rewriting of `text`. What is allowed can't be judged more mildly."""
    if bench.judge(text).verdict is Verdict.ALLOW:
        return
    for chain in _chains(bench, text, names, compositions, share, chance):
        rewritten = bench.rewrite(text, chain)
        if rewritten is not None:
            yield bench.compare(text, chain, rewritten)


def _chains(
    bench: Bench, text: str, names: Sequence[str], compositions: int, share: float, chance: random.Random
) -> Iterator[tuple[str, ...]]:
    for name in names:
        if chance.random() < share:
            yield (name,)
    for _ in range(compositions if names else 0):
        if chance.random() < share:
            chain = _composed(bench, text, names, chance)
            if len(chain) > 1:
                yield chain


def _composed(bench: Bench, text: str, names: Sequence[str], chance: random.Random) -> tuple[str, ...]:
    """Two or three transformations by chance, of which each applies to what those before it have written."""
    chain: tuple[str, ...] = ()
    wanted = chance.randint(2, MOST_STEPS)
    for _ in range(_TRIES):
        name = chance.choice(names)
        rewritten = bench.rewrite(text, (name,))
        if rewritten is not None:
            text, chain = rewritten, (*chain, name)
        if len(chain) == wanted:
            break
    return chain
