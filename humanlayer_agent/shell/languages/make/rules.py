"""Rules: which recipes making a target may run, and with which automatic variables."""

import posixpath
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from humanlayer_agent.shell.languages.make.text_functions import matched
from humanlayer_agent.shell.languages.make.variables import Texts, Variables

MAX_TARGETS = 1_000
MAX_RULES = 4_000
MAX_TRIED = 50_000
"""Most times that a name is compared with a pattern."""
_WILD = frozenset("*?[~\0")
_SPECIAL = frozenset(
    str.split(
        """
        .PHONY .SUFFIXES .DEFAULT .PRECIOUS .INTERMEDIATE .NOTINTERMEDIATE .SECONDARY .SECONDEXPANSION .DELETE_ON_ERROR
        .IGNORE .LOW_RESOLUTION_TIME .SILENT .EXPORT_ALL_VARIABLES .NOTPARALLEL .ONESHELL .POSIX .WAIT
        """
    )
)
_SUFFIXES = re.compile(r"(\.[a-zA-Z0-9+_-]+)(\.[a-zA-Z0-9+_-]+)?", re.ASCII)


@dataclass(slots=True, eq=False)
class Rule:
    """One rule for its targets. `stem` is the target pattern of a static pattern rule.

    `certain` is False where a condition decides whether it stands. `recipe` has the lines as they are written.
    """

    targets: tuple[str, ...]
    needs: tuple[str, ...]
    order_only: tuple[str, ...] = ()
    static: str | None = None
    certain: bool = True
    recipe: list[tuple[int, str]] = field(default_factory=list)
    double: bool = False
    """It has two colons: it stands for itself."""
    split: bool = False
    """A condition stands between its lines."""

    @property
    def pattern(self) -> bool:
        """The rule is for every name that fits."""
        return self.static is None and any("%" in t for t in self.targets)


@dataclass(frozen=True, slots=True)
class Job:
    """A recipe that may run, and what its automatic variables are."""

    target: str
    rule: Rule
    local: dict[str, Texts]


def plain(name: str) -> str:
    """A target's name as make compares it."""
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return name


@dataclass(slots=True)
class Rules:
    """The rules of one Makefile and of those that it includes."""

    variables: Variables
    rules: list[Rule] = field(default_factory=list)
    searched: bool = False
    """True where a search path is set: prerequisites may lie in other directories then."""
    default: list[str] = field(default_factory=list)
    """What is made where no target is given: more than one where conditions decide."""
    settled: bool = False
    """True once a default is certain."""
    too_many: bool = False
    """True where not every rule was looked at."""
    _named: dict[str, list[int]] = field(default_factory=dict)
    _patterns: list[int] = field(default_factory=list)
    _tried: int = 0
    _round: set[str] = field(default_factory=set)
    """Targets that depend on themselves, or on such: make drops a prerequisite there."""

    def add(self, rule: Rule) -> None:
        """Add a rule, and let it be the default if nothing was before."""
        if len(self.rules) > MAX_RULES or len(self._named) > 4 * MAX_RULES:
            self.too_many = True
            return
        self._index(rule)
        name = rule.targets[0] if len(rule.targets) == 1 and not rule.needs else ""
        if (found := _SUFFIXES.fullmatch(name)) and name not in _SPECIAL:
            # `.c.o:` is an old way to write `%.o: %.c`, and `.c:` one for `%: %.c`.
            target = "%" + found[2] if found[2] else "%"
            self._index(Rule((target,), ("%" + found[1],), certain=rule.certain, recipe=rule.recipe))
        if self.settled or rule.pattern:
            return
        first = next((t for t in rule.targets if not t.startswith(".") or "/" in t), None)
        if first is not None:
            self.default.append(first)
            self.settled = rule.certain and not _WILD & set(first)

    def _index(self, rule: Rule) -> None:
        n = len(self.rules)
        self.rules.append(rule)
        for target in dict.fromkeys(map(plain, rule.targets)):
            self._named.setdefault(target, []).append(n)
        if rule.pattern:
            self._patterns.append(n)

    def special(self, name: str) -> set[str]:
        """The prerequisites of a special target (.PHONY)."""
        return {plain(need) for n in self._named.get(name, ()) for need in self.rules[n].needs}

    def has(self, name: str) -> bool:
        """Whether there is a rule for exactly this name."""
        return name in self._named

    def jobs(self, goals: Sequence[str] | None) -> Iterator[Job]:
        """The recipes that making `goals` may run; None: any. Stops early where there are too many."""
        phony = self.special(".PHONY")
        self._round = self._circular()
        names = list(self._named) if goals is None else [plain(goal) for goal in goals]
        queue = deque((name, frozenset[int]()) for name in [*names, *(n for n in [".DEFAULT"] if n in self._named)])
        seen: set[str] = set()
        every = goals is None
        while queue:
            name, chain = queue.popleft()
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > MAX_TARGETS:
                self.too_many = True
                return
            if _WILD & set(name) and not every:
                every = True  # what it is made of can't be told: any rule may be for it
                queue.extend((each, frozenset()) for each in self._named)
            for n, stem in self._for(name, phony, chain):
                rule = self.rules[n]
                needs, order = _filled(rule.needs, stem), _filled(rule.order_only, stem)
                queue.extend((plain(each), chain | {n}) for each in (*needs, *order))
                if rule.recipe:
                    yield Job(name, rule, self._local(name, rule, needs, order, stem))

    def _for(self, name: str, phony: set[str], chain: frozenset[int]) -> Iterator[tuple[int, str | None]]:
        """The rules for `name`, each with the stem where it is a pattern's."""
        explicit = False
        for n in self._named.get(name, ()):
            rule = self.rules[n]
            explicit |= bool(rule.recipe) and rule.certain and not rule.pattern
            yield n, matched(plain(rule.static), name) if rule.static is not None else None
        if explicit or name in phony:
            return
        for n in self._patterns:
            for target in self.rules[n].targets if n not in chain else ():
                self._tried += 1
                if self._tried > MAX_TRIED:
                    self.too_many = True
                    return
                stem = _stem(plain(target), name)
                if stem is not None:
                    yield n, stem

    def _local(
        self, name: str, rule: Rule, needs: Sequence[str], order: Sequence[str], stem: str | None
    ) -> dict[str, Texts]:
        """The automatic variables of a recipe (GNU make manual 10.5.3)."""
        others = [self.rules[n] for n in self._named.get(name, ()) if self.rules[n] is not rule and not rule.double]
        every = [*needs, *(need for r in others for need in r.needs)]
        unknown = (self.variables.unknown(f"what the recipe of {name} is given"),)
        sure = not self.searched and name not in self._round and rule.certain and all(r.certain for r in others)
        if not sure or name == ".DEFAULT" or any((_WILD | {"%"}) & set(each) for each in (name, *every)):
            return dict.fromkeys("@<^+?*|%", unknown)
        return {
            "@": (name,),
            "<": ((*needs, *every, "")[0],),
            "^": (" ".join(dict.fromkeys(every)),),
            "+": (" ".join(every),),
            "?": unknown if every else ("",),
            "*": (stem,) if stem is not None else unknown,
            "|": (" ".join(order),),
            "%": ("",),
        }

    def _circular(self) -> set[str]:
        needs = {
            name: {plain(need) for n in rules for need in (*self.rules[n].needs, *self.rules[n].order_only)}
            for name, rules in self._named.items()
        }
        left = {name: {need for need in each if need in needs} for name, each in needs.items()}
        used: dict[str, list[str]] = {}
        for name, each in left.items():
            for need in each:
                used.setdefault(need, []).append(name)
        free = [name for name, each in left.items() if not each]
        while free:
            done = free.pop()
            for name in used.get(done, ()):
                left[name].discard(done)
                if not left[name]:
                    free.append(name)
        return {name for name, each in left.items() if each}


def _filled(names: Sequence[str], stem: str | None) -> tuple[str, ...]:
    """`names` with the stem in place of each pattern's `%`."""
    return tuple(name.replace("%", stem, 1) if stem is not None else name for name in names)


def _stem(pattern: str, name: str) -> str | None:
    """What `%` stands for where `name` fits; a pattern without a slash is compared with the last part of the name."""
    if "%" not in pattern:
        return None
    stem = matched(pattern, name)
    if stem is None and "/" not in pattern and "/" in name:
        inner = matched(pattern, posixpath.basename(name))
        stem = posixpath.join(posixpath.dirname(name), inner) if inner else None
    return stem or None
