"""Suggestions: exceptions that would have answered what humans always approved, and denials of what they always
refused.

Each action that was asked about gives the conditions that `exception_drafts` would draft for it. Those of one kind are
joined: paths to the narrowest directories, programs, sub-commands, hosts and packages to sets. What was approved too
seldom, or refused once, gives nothing; neither does an action that is denied, severe, unread or not certain.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import explain
from humanlayer_agent.policy_tools.exception_drafts import SERVICE, Condition, Draft, Part, draft
from humanlayer_agent.policy_tools.yaml_layout import flow

TIMES = 10
"""So often something has to be approved that one person alone approved."""
PEOPLE = 2
"""So many people suffice, however often."""
_SHALLOWEST = {"/": 3, "~": 2, "${PROJECT}": 1}
"""So many names a directory has at least below where its path begins."""
_COMMANDS = 40
"""Commands that are kept of each part, to find examples among."""


@dataclass(frozen=True, slots=True)
class Asked:
    """An action that somebody was asked about: who approved it; or that it was `refused`."""

    command: str
    cwd: str
    project: str
    people: tuple[str, ...]
    refused: bool = False


@dataclass(slots=True)
class Evidence:
    """What speaks for something: how often it was approved, and by whom."""

    times: int = 0
    people: set[str] = field(default_factory=set)

    def add(self, people: Iterable[str]) -> None:
        """Add one approval."""
        self.times += 1
        self.people.update(people)

    def join(self, other: "Evidence") -> None:
        """Add all of another."""
        self.times += other.times
        self.people |= other.people

    @property
    def enough(self) -> bool:
        """Tell whether it is enough to suggest something."""
        return self.times >= TIMES or len(self.people) >= PEOPLE


@dataclass(frozen=True, slots=True)
class Seen:
    """A condition that somebody was asked about, in a command."""

    when: Condition
    command: str
    people: tuple[str, ...]


@dataclass(slots=True)
class Suggestion:
    """What is suggested: `draft` allows; `denials` are conditions of what was always refused.

    `asked` and `drafted`: so many actions were asked about, and of so many it can be said narrowly what was.
    """

    draft: Draft = field(default_factory=Draft)
    denials: list[Part] = field(default_factory=list)
    asked: int = 0
    drafted: int = 0


def suggest(asked: Iterable[Asked], director: Callable[[str], Director]) -> Suggestion:
    """Join what was asked about.

    Args:
        asked: what somebody was asked about.
        director: gives the Director for a project.
    """
    approved: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    refused: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    found = Suggestion()
    drafts: dict[tuple[str, str, str], Draft | None] = {}
    for each in asked:
        action = each.command, each.cwd, each.project
        if action not in drafts:
            drafts[action] = _drafted(each, director(each.project))
        if (made := drafts[action]) is None:
            continue
        found.asked += 1
        if made.problems or any("unread" in part.when for part in made.parts):
            continue
        found.drafted += 1
        into = refused if each.refused else approved
        for part in made.parts:
            into[part.rule, _kind(part.when)].append(Seen(part.when, each.command, each.people))
    for key, seen in approved.items():
        against = refused.get(key, [])
        found.draft.parts += [Part(key[0], when, commands) for when, commands in _joined(seen, against)]
    for (rule, kind), seen in refused.items():
        if rule and (rule, kind) not in approved:
            found.denials += [Part(rule, when, commands) for when, commands in _joined(seen)]
    return found


def _drafted(asked: Asked, director: Director) -> Draft | None:
    """What would have to be said for an action to be allowed; None where this policy does not ask about it."""
    explanation = explain(director, Action(asked.command, cwd=asked.cwd, project=asked.project))
    if explanation.decision.verdict is not Verdict.ASK:
        return None
    return draft(explanation, asked.command, director.variables)


def _kind(when: Condition) -> str:
    """What conditions have in common that are joined."""
    if "paths" in when:
        return flow([when["effect"], when["role"]])
    role = str(when.get("role", ""))
    kept = {key: when[key] for key in ("program", "effect", "role", "not", "options") if key in when}
    if role.startswith(SERVICE):
        return flow(kept | {"attributes": sorted(when.get("attributes", ()))})
    return flow(kept | {"subcommand": when.get("subcommand")})


def _joined(seen: Sequence[Seen], against: Sequence[Seen] = ()) -> Iterator[tuple[Condition, list[str]]]:
    """The condition that covers what speaks for itself often enough, with some of its commands; nothing that stands
    against it is covered.
    """
    by_unit: dict[str, Evidence] = defaultdict(Evidence)
    not_these = {_unit(each.when) for each in against}
    for each in seen:
        if _unit(each.when) not in not_these:
            by_unit[_unit(each.when)].add(each.people)
    if "paths" in seen[0].when:
        covers = {k: p for k, p in _covered(by_unit).items() if not any(_meets(p, place) for place in not_these)}
        kept = [each for each in seen if _unit(each.when) in covers]
        sets: Condition = {"paths": {"all_within": sorted(dict.fromkeys(covers.values()))}}
    else:
        kept = [each for each in seen if (of := by_unit.get(_unit(each.when))) is not None and of.enough]
        sets = {}
        kept = [] if against else kept  # what would be joined is not told apart by one set alone
    if not kept:
        return
    when: Condition = dict(kept[0].when)
    for key in ("program", "subcommand") if sets else ():
        when.pop(key, None)
    if programs := sorted({str(each.when["program"]) for each in kept if "program" in each.when}):
        when = {"program": programs[0] if len(programs) == 1 else programs, **when}
    for key, inner in (
        ("subcommand", ""),
        ("hosts", "any_in"),
        ("names", "any_in"),
        ("operands", "all"),
        ("flags", "only"),
    ):
        if key in when:
            values = [v for each in kept for v in (each.when[key][inner] if inner else each.when[key])]
            union = sorted({flow(value): value for value in values}.items())
            when[key] = {inner: [v for _, v in union]} if inner else [v for _, v in union]
    if "attributes" in when:
        names = when["attributes"]
        when["attributes"] = {
            n: sorted({v for each in kept for v in each.when["attributes"][n]}, key=str) for n in names
        }
    yield when | sets, sorted({each.command for each in kept}, key=lambda command: (len(command), command))[:_COMMANDS]


def _unit(when: Condition) -> str:
    """What has to be approved often enough by itself."""
    if "paths" in when:
        return str(when["paths"]["all_within"][0])
    return flow([when.get(key) for key in ("subcommand", "hosts", "operands")])


def _meets(pattern: str, place: str) -> bool:
    """Tell whether two places, of which each may be a directory with all below, have anything in common."""
    one, other = (each.removesuffix("/**") for each in (pattern, place))
    inside = one == other or (pattern.endswith("/**") and other.startswith(f"{one}/"))
    return inside or (place.endswith("/**") and one.startswith(f"{other}/"))


# ---- directories --------------------------------------------------------------------------------------------


def _covered(evidence: Mapping[str, Evidence]) -> dict[str, str]:
    """For each path that is covered: the pattern that covers it, which has enough evidence of its own, and is as deep
    as it can be.
    """
    found: dict[str, str] = {}
    below: dict[str, set[str]] = defaultdict(set)
    for place in evidence:
        folder = place.removesuffix("/**")
        while folder not in ("", "/", "~", "${PROJECT}"):
            below[folder].add(place)
            folder = folder.rpartition("/")[0]
    for place, one in evidence.items():
        if one.enough and _depth(place.removesuffix("/**")) > 0:
            found[place] = place
    for folder in sorted(below, key=_depth, reverse=True):
        left = [place for place in below[folder] if place not in found]
        both = Evidence()
        for place in left:
            both.join(evidence[place])
        if len(left) > 1 and both.enough and _depth(folder) >= _shallowest(folder):
            found |= dict.fromkeys(left, f"{folder}/**")
    wide = sorted({pattern for pattern in found.values() if pattern.endswith("/**")}, key=len)
    return {place: next((w for w in wide if pattern.startswith(w[:-2])), pattern) for place, pattern in found.items()}


def _depth(folder: str) -> int:
    return len([name for name in folder.split("/") if name and name not in ("~", "${PROJECT}")])


def _shallowest(folder: str) -> int:
    return next(depth for start, depth in _SHALLOWEST.items() if folder.startswith(start))
