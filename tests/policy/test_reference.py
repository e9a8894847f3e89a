"""A second, plain reading of the semantics agrees with the Director on generated policies and commands.

It has no closures, no dispatch and no memory: for each command and effect, every rule is read anew from its data. Only
what an uncertain path may be (`PathSet`), what a command does (`analyse`) and what the catalog says that its program
needs (`needs`) is taken from the code that is tested.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action, tool_arguments
from humanlayer_agent.confine.confinement import Profile
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.locations import own_places
from humanlayer_agent.policy.conditions.circumstances import Circumstances
from humanlayer_agent.policy.conditions.containment import needs
from humanlayer_agent.policy.conditions.path_patterns import Links, PathSet
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.layers import Layer
from humanlayer_agent.shell import (
    ONCE,
    WAYS,
    WRITTEN,
    Catalog,
    Checkout,
    Effect,
    Field,
    Flows,
    Program,
    SimpleCommand,
    is_otherwise_next_time,
    places_asked,
)
from tests.support.extent import examples

PROJECT, HOME = "/nowhere/project", "/nowhere/home"
FILES = ("read", "write", "append", "delete", "move", "metadata", "execute")
ORDER = ("allow", "ask", "deny")
SETS = ("read", "write", "protect", "hide")
NO, MAYBE, YES = 0, 1, 2


@dataclass(frozen=True)
class Around:
    """What surrounds a command: the program it stands in (None: nobody has looked yet where data of it can come), how
    far that could be parsed, who proposes it, and what would confine it: any of `held`; None where nothing would.
    `excuses`: it is asked of a condition by which something is let through. `approved`: what it runs in once a human has
    said yes; nothing where that is not known yet.
    """

    program: Program | None
    status: str
    agent: str
    held: "tuple[Walls, ...] | None"
    excuses: bool = False
    approved: "tuple[Walls, ...]" = ()
    commands: "Sequence[SimpleCommand]" = ()


class Walls(NamedTuple):
    """A confinement, as the files that define it say; or, `opened`, what comes on top of it."""

    name: str
    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    protect: frozenset[str] = frozenset()
    hide: frozenset[str] = frozenset()
    network: str = "none"
    hosts: frozenset[str] = frozenset()
    opened: bool = False


class Asked(NamedTuple):
    """What a rule (None: nothing allows it) asks about: a command, or one of its effects."""

    command: SimpleCommand
    effect: Effect | None
    rule: str | None


class Judged(NamedTuple):
    """The verdict, the rules that decide or stop, (verdict, verdict of each effect) of each command, what it runs in,
    the hosts that rules allow by name which confine nothing, and what is asked about.
    """

    verdict: str
    rules: set[str]
    parts: list[tuple[str, list[str]]]
    runs_in: frozenset[Walls] | None
    hosts: frozenset[str]
    asked: list[Asked]


class LayerRead(NamedTuple):
    """A layer: its policy as data, whether it may allow, and its confinements."""

    policy: Mapping[str, Any]
    may_allow: bool
    walls: Mapping[str, Walls] = {}


class Reference:
    """Judges by the letter of the policy.

    Args:
        layers: the highest first.
        confine: what is confined where the rules say nothing else; None where nothing is confined.
    """

    def __init__(self, layers: list[LayerRead], confine: Walls | None = None) -> None:
        self.layers, self.confine = layers, confine

    def judge(self, program: Program, agent: str) -> Judged:
        """What comes of an action; where it can be confined, of all its commands in the union of what each runs in."""
        if self.confine is None:
            return self.judge_in(program, Around(program, program.status, agent, None))
        held: tuple[Walls, ...] = (self.confine,)
        while True:
            judged = self.judge_in(program, Around(program, program.status, agent, held))
            assert judged.runs_in is not None
            if not judged.runs_in - set(held):
                break
            held = (*held, *(judged.runs_in - set(held)))
        if judged.verdict == "allow":
            return self.with_hosts(program, agent, judged)
        if judged.verdict == "deny":
            return judged._replace(runs_in=None)
        assert judged.runs_in is not None
        walls = judged.runs_in
        opened = self.opened(program, judged, walls)
        if opened is not None and network_of(opened) != network_of(walls):
            # A human who is asked to open the network is told of all that would use it.
            around = Around(program, program.status, agent, tuple(walls), approved=tuple(opened))
            judged = self.judge_in(program, around)
            opened = self.opened(program, judged, walls)
        judged = judged._replace(runs_in=opened)
        if opened is not None:
            return judged
        # A human who approves it lets it run unconfined, so it is judged as that, too.
        bare = self.judge_in(program, Around(program, program.status, agent, None))
        rules = judged.rules | (bare.rules if bare.verdict != "allow" else set())
        return bare._replace(verdict=max(judged.verdict, bare.verdict, key=ORDER.index), rules=rules)

    def with_hosts(self, program: Program, agent: str, judged: Judged) -> Judged:
        """The same with the allowed hosts open, where it is allowed then too, and needs no other confinement."""
        assert judged.runs_in is not None
        if not judged.hosts:
            return judged
        opened = judged.runs_in | {Walls("allowed hosts", network="forwarded", hosts=judged.hosts, opened=True)}
        again = self.judge_in(program, Around(program, program.status, agent, tuple(opened)))
        named = (again.runs_in or frozenset()) - self.usual()
        return again._replace(runs_in=opened) if again.verdict == "allow" and named <= judged.runs_in else judged

    def opened(self, program: Program, judged: Judged, held: frozenset[Walls]) -> frozenset[Walls] | None:
        """What it runs in once a human has approved it: what the rules that ask name by `approved`, with the paths that
        they ask about; None where it runs unconfined.
        """
        if program.status != "ok":
            return None
        reads: list[str] = []
        writes: list[str] = []
        found: list[Walls] = []
        approved = {
            rule["id"]: layer.walls[rule["approved"]]
            for layer, rule in self.rules()
            if rule.get("approved") and layer.may_allow
        }
        for command in program.commands:
            asked = [each for each in judged.asked if each.command is command or each.command.span == command.span]
            asked = [each for each in asked if each.command.text == command.text]
            line = command is program.commands[-1] and asks_for_more(program)
            if line:
                if "unconfined" in command.argv:
                    return None
                asked = [Asked(command, effect, None) for effect in command.effects]
                named = {host_named(e, program, asked_for=True) or "*" for e in command.effects if e.kind == "network"}
                found += (
                    [Walls("the network", network="forwarded", hosts=frozenset(named), opened=True)] if named else []
                )
            for each in asked:
                if not may_open(each.effect, held, reads, writes):
                    return None
                if line:
                    continue
                if each.rule not in approved or needs(command, Catalog()):
                    return None
                found.append(narrowed(approved[each.rule], each.effect, program))
        found += [Walls("allowed hosts", network="forwarded", hosts=judged.hosts, opened=True)] if judged.hosts else []
        return held | frozenset(found) | frozenset(of_paths(reads, writes, held))

    def judge_in(self, program: Program, around: Around) -> Judged:
        held = [[e for e in command.effects if is_held(e, command, around)] for command in program.commands]
        program = without(program, held)
        program = self.with_uses(program, replace(around, commands=program.commands))
        around = replace(around, program=program, commands=program.commands)
        hits: list[tuple[str, str | None]] = []
        parts: list[tuple[str, list[str]]] = []
        runs_in: set[Walls] = set()
        hosts: set[str] = set()
        asked: list[Asked] = []
        for command, impossible in zip(program.commands, held, strict=True):
            if command.head and not command.effects:
                continue
            own, effects = self.command(command, impossible, around)
            everything = own + [hit for found in effects for hit in found]
            hits += everything
            asked += [Asked(command, None, name) for said, name in own if said == "ask"]
            asked += [
                Asked(command, effect, name)
                for effect, found in zip(command.effects, effects, strict=True)
                for said, name in found
                if said == "ask"
            ]
            hosts |= self.allowed_hosts(command, effects, program)
            parts.append((strictest(everything), [strictest(found) for found in effects]))
            runs_in |= self.named(everything) or self.usual()
        if program.status != "ok" and not parts:
            blank = SimpleCommand(None, [], (0, 0), "", known=False, resolved=False)
            for layer, rule in self.rules():
                if not speaks_of_effects(rule["when"]) and speaks_of_the_action(rule["when"]):
                    hits += self.rule(layer, rule, blank, None, around)
        verdict = strictest(hits)
        if program.status != "ok":
            unparsed = [layer.policy["defaults"]["unparsed"] for layer in self.layers]
            verdict = max([verdict, *unparsed], key=ORDER.index)
        if asks_for_more(program):
            verdict = max(verdict, "ask", key=ORDER.index)
        shown = {name for said, name in hits if name and (said != "allow" or verdict == "allow")}
        confined = None if around.held is None else frozenset(runs_in or self.usual())
        return Judged(verdict, shown, parts, confined, frozenset(hosts), asked)

    def allowed_hosts(self, command: SimpleCommand, effects: list[list[Any]], program: Program) -> set[str]:
        """The hosts that a rule allows which confines nothing. None where something is not known, or listens."""
        confining = {rule["id"] for _, rule in self.rules() if rule.get("confined")}
        unknown = any(not each.known for each in program.commands if each.effects or not each.head)
        if unknown or any(map(serves, program.commands)):
            return set()
        found = set()
        for effect, hits in zip(command.effects, effects, strict=True):
            allowed = any(said == "allow" and name and name not in confining for said, name in hits)
            if allowed and (host := host_named(effect, program)):
                found.add(host)
        return found

    def usual(self) -> set[Walls]:
        return set() if self.confine is None else {self.confine}

    def named(self, hits: list[tuple[str, str | None]]) -> set[Walls]:
        """The confinements that the rules name which allow a command."""
        allowing = {name for said, name in hits if said == "allow"}
        rules = [(layer, rule) for layer, rule in self.rules() if rule["id"] in allowing and rule.get("confined")]
        return {layer.walls[rule["confined"]] for layer, rule in rules}

    def with_uses(self, program: Program, around: Around) -> Program:
        """`program`, in which a use of a variable is an effect where a rule that asks or denies may mean it."""
        untraced = replace(around, program=None)

        def meant(command: SimpleCommand, use: Effect) -> bool:
            for layer, rule in self.rules():
                lists = layer.policy["scopes"][rule["scope"]]
                if rule["decision"] == "allow":
                    continue
                if any(holds(source, command, use, lists, untraced) != NO for source in sources(rule["when"])):
                    return True
                when = naming(rule["when"])
                excusing = replace(untraced, excuses=True)
                unless = [*([rule["unless"]] if "unless" in rule else []), *excused_by(rule)]
                excused = any(holds(each, command, use, lists, excusing) == YES for each in unless)
                if when is not None and not excused and holds(when, command, use, lists, untraced) != NO:
                    return True
            return False

        commands = [
            replace(command, effects=[*command.effects, *(use for use in command.uses if meant(command, use))])
            for command in program.commands
        ]
        return replace(program, commands=commands)

    def rules(self) -> list[tuple[LayerRead, Mapping[str, Any]]]:
        return [
            (each, r)
            for each in self.layers
            for r in each.policy["rules"]
            if each.may_allow or r["decision"] != "allow"
        ]

    def command(self, command: SimpleCommand, held: list[Effect], around: Around) -> tuple[list[Any], list[list[Any]]]:
        """The hits on the command itself, and on each effect.

        `held` are effects that it can't have. What allows all of them allows the command, where nothing else is left.
        """

        def hits_on(effect: Effect | None) -> list[Any]:
            asked = [(la, r) for la, r in self.rules() if speaks_of_effects(r["when"]) is (effect is not None)]
            return [hit for la, r in asked for hit in self.rule(la, r, command, effect, around)]

        own = hits_on(None)
        nothing = (self.layers[0].policy["defaults"]["unmatched"], None)
        if not command.effects:
            allowed = [[hit for hit in hits_on(effect) if hit[0] == "allow"] for effect in held]
            if not own and allowed and all(allowed):
                own = [hit for hits in allowed for hit in hits]
            return own or [nothing], []
        found = []
        for effect in command.effects:
            hits = hits_on(effect)
            runs_itself = effect.kind == "execute" and effect.source == "own" and effect.resolved
            words = {rule["id"] for _, rule in self.rules() if is_word_of_ones_own(rule)}
            spoken = effect is nobody_knows(command) and any(s == "allow" and name in words for s, name in own)
            if not hits and not spoken and not (runs_itself and any(said == "allow" for said, _ in own)):
                hits = [nothing]
            found.append(hits)
        return own, found

    def rule(
        self,
        layer: LayerRead,
        rule: Mapping[str, Any],
        command: SimpleCommand,
        effect: Effect | None,
        around: Around,
    ) -> list[tuple[str, str]]:
        policy, lists = layer.policy, layer.policy["scopes"][rule["scope"]]
        decision = rule["decision"]
        if rule.get("confined"):
            if around.held is not None and layer.may_allow:
                decision = "allow"
            elif decision == "allow":
                return []
        when, unless = (replace(around, excuses=(rule["decision"] == "allow") is so) for so in (True, False))
        value = holds(rule["when"], command, effect, lists, when)
        if is_word_of_ones_own(rule):
            rest = {key: each for key, each in rule["when"].items() if key != "unread"}
            spoken = command.program in rule["when"]["program"]["in"] and nobody_knows(command) is not None
            value = holds(rest, command, effect, lists, when) if spoken else NO
        excuse = holds(rule["unless"], command, effect, lists, unless) if "unless" in rule else NO
        if decision == "allow":
            return [("allow", rule["id"])] if value == YES and excuse == NO else []
        if value == NO or excuse == YES:
            return []
        if any(holds(each, command, effect, lists, unless) == YES for each in excused_by(rule)):
            return []
        if decision == "ask" and self.taken_at_its_word(layer, rule, command, effect, around):
            return []
        if decision == "ask":
            decision = policy["defaults"]["ask"]
        return [(decision if value == YES else policy["defaults"]["maybe"], rule["id"])]

    def taken_at_its_word(
        self, layer: LayerRead, rule: Mapping[str, Any], command: SimpleCommand, effect: Effect | None, around: Around
    ) -> bool:
        """Does the same layer allow the program, whatever it does, and would nothing be asked if it did nothing?"""
        own = nobody_knows(command)
        if own is None or effect not in (None, own):
            return False
        words = [each for each in layer.policy["rules"] if is_word_of_ones_own(each) and layer.may_allow]
        if not any(self.rule(layer, each, command, None, around) for each in words):
            return False
        plain = replace(own, resolved=True, unread=False)
        effects = [plain if each is own else each for each in command.effects]
        known = replace(command, known=True, resolved=True, unresolved=[], effects=effects)
        asked = None if effect is None else plain
        return holds(rule["when"], known, asked, layer.policy["scopes"][rule["scope"]], around) == NO


def is_word_of_ones_own(rule: Mapping[str, Any]) -> bool:
    """Is it an allow of programs that nobody knows?"""
    when = rule["when"]
    return rule["decision"] == "allow" and when.get("unread") is True and "effect" not in when and "in" in when.get("program", {})  # fmt: skip


def nobody_knows(command: SimpleCommand) -> Effect | None:
    """The effect that it runs a program which nobody knows, where that is all that is not known of it."""
    if command.known or command.unresolved != [command.program] or "/" in (command.program or "/"):
        return None
    found = [e for e in command.effects if e.kind == "execute" and (e.unread or not e.resolved)]
    return found[0] if len(found) == 1 and (found[0].role, found[0].source) == ("program", "own") else None


def excused_by(rule: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The conditions of the exceptions to a rule that have not ended."""
    return [each["when"] for each in rule.get("exceptions", ()) if each["expires"] > "2026-01-01"]


def asks_for_more(program: Program) -> bool:
    """Has it a first line that asks for more than the confinement gives?"""
    return bool(program.commands) and program.commands[-1].text.startswith("# needs:")


def serves(command: SimpleCommand) -> bool:
    """May it be a server, as far as anybody knows?"""
    unknown = [e for e in command.effects if e.kind == "execute" and not e.resolved]
    return bool(unknown) or any(e.kind == "listen" or e.unread for e in command.effects)


def may_listen(command: SimpleCommand) -> bool:
    """Or is it the project's own code, which is not read?"""
    return serves(command) or any(e.kind == "execute" and e.role == "project" for e in command.effects)


def host_named(effect: Effect, program: Program, asked_for: bool = False) -> str:
    """The host and the port that an effect reaches; "" where they are not known. A port of this machine must be named,
    and nothing in the action may listen there (unless its first line is what asks for it).
    """
    roles = ("needed",) if asked_for else ("operand", "redirect")
    if effect.kind != "network" or not effect.resolved or effect.role not in roles:
        return ""
    host, port = effect.operand or "", effect.value or ""
    if effect.role == "redirect":
        host, _, port = host.rpartition(":")
        if not port:
            return ""
    if not re.fullmatch(r"[\w.-]+", host):
        return ""
    if is_loopback(host) and (not port or (not asked_for and any(map(may_listen, program.commands)))):
        return ""
    return f"{host}:{port}" if port else host


def is_loopback(host: str) -> bool:
    return host in ("localhost", "127.0.0.1", "::1", "0.0.0.0")


def network_of(walls: Iterable[Walls]) -> str:
    """The widest."""
    return max((each.network for each in walls), key=("none", "forwarded", "host").index)


def narrowed(walls: Walls, effect: Effect | None, program: Program) -> Walls:
    """What a rule opens that asks about a host: that host alone, where it is known."""
    if walls.network != "forwarded" or effect is None or effect.kind not in ("network", "listen"):
        return walls
    host = (effect.operand or "").rpartition(":")[0] if effect.role == "redirect" else effect.operand or ""
    if effect.kind == "listen" or (is_loopback(host) and any(map(may_listen, program.commands))):
        return walls._replace(network="none", hosts=frozenset())
    name = host_named(effect, program)
    return walls._replace(hosts=frozenset([name])) if name else walls


def may_open(effect: Effect | None, held: frozenset[Walls], reads: list[str], writes: list[str]) -> bool:
    """Can what is asked about be opened? Then its path is added to what is read or written, unless it is open."""
    path = effect.operand if effect is not None and effect.resolved else None
    if effect is None or path is None or path[:1] != "/" or effect.kind not in FILES:
        return True
    if set(path) & set("*?["):
        return False
    path = os.path.realpath(path)
    reading = effect.kind in ("read", "execute")
    if f"{path}/".startswith("/tmp/") or any(has(walls, path, reading) for walls in held):
        return True
    if path == "/" or f"{path}/".startswith(("/proc/", "/dev/", "/sys/")):
        return False
    (reads if reading else writes).append(path)
    # Who makes, replaces or removes something changes the folder, which nobody was asked about.
    stays = os.path.isdir(path) or (os.path.exists(path) and effect.role in ("redirect", "needed"))
    return reading or (stays and effect.kind not in ("delete", "move"))


def has(walls: Walls, path: str, reading: bool) -> bool:
    """Does a confinement let this path be read, or else written?"""
    walls = full(walls)
    if lies_in(path, [*walls.write]):
        return not lies_in(path, [*walls.hide, *(() if reading else walls.protect)])
    everywhere = [entry for entry in walls.hide if "*" not in entry.removesuffix("/**")]
    return reading and lies_in(path, [*walls.read]) and not lies_in(path, everywhere)


def of_paths(reads: list[str], writes: list[str], held: frozenset[Walls]) -> list[Walls]:
    """What opens these paths: those that are hidden or protected as they are, the others less what is."""
    reads, writes = list(dict.fromkeys(reads)), list(dict.fromkeys(writes))
    hide = frozenset().union(*(full(walls).hide for walls in held))
    protect = frozenset().union(*(full(walls).protect for walls in held))
    secret = [path for path in reads if lies_in(path, [*hide])]
    kept = [path for path in writes if lies_in(path, [*protect, *hide])]
    found = []
    for r, w, but in (
        ([p for p in reads if p not in kept + secret], [p for p in writes if p not in kept + secret], (protect, hide)),
        (secret, kept, (frozenset[str](), frozenset[str]())),
    ):
        ways = [f"{how} {enumerated(paths)}" for how, paths in (("reading", r), ("writing", w)) if paths]
        if ways:
            sets = [frozenset(path + "/**" if os.path.isdir(path) else path for path in paths) for paths in (r, w)]
            found.append(Walls(" and ".join(ways), *sets, *but, opened=True))
    return found


def enumerated(paths: list[str]) -> str:
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


def is_held(effect: Effect, command: SimpleCommand, around: Around) -> bool:
    """Is it not known on what, or whether at all, and does what confines it let it reach nothing?"""
    assert around.program is not None
    written = [c for c in around.program.commands if WRITTEN in c.inside]
    known = not [e for c in written for e in c.effects if e.kind == "execute" and not e.resolved]
    opened = around.approved and not reaches_nothing(effect.kind, replace(around, held=around.approved))
    done = effect.resolved and (opened or (effect.sure and not (known and command in written)))
    return not done and reaches_nothing(effect.kind, around)


def without(program: Program, held: list[list[Effect]]) -> Program:
    commands = [
        replace(command, effects=[e for e in command.effects if e not in gone])
        for command, gone in zip(program.commands, held, strict=True)
    ]
    return replace(program, commands=commands)


def reaches_nothing(kind: str, around: Around) -> bool:
    """Is there nothing that an effect of this kind could reach: no other process, no host?"""
    if around.held is None:
        return False
    networks = {walls.network for walls in around.held}
    if kind == "network":
        return networks == {"none"}
    return kind == "process" or (kind == "listen" and "host" not in networks)


def unseen(kinds: Iterable[str], around: Around) -> int:
    """May a command that is not understood have an effect of one of these kinds? Confined, not one that needs
    privileges, and none that reaches nothing.
    """
    if around.held is None:
        return MAYBE
    possible = [k for k in kinds if k not in ("privilege", "container", "system") and not reaches_nothing(k, around)]
    return MAYBE if possible else NO


def worded(command: SimpleCommand, around: Around) -> bool:
    """Are all words of a command known? Confined, a file that nobody can read is no doubt of that."""
    files = [doubt for doubt in command.unresolved if doubt.startswith("/")]
    words = {command.text, *(word.word.raw for word in command.words)}
    return command.resolved or (around.held is not None and files == command.unresolved != [] and not words & {*files})


def strictest(hits: list[tuple[str, str | None]]) -> str:
    return max((said for said, _ in hits), key=ORDER.index, default="allow")


def speaks_of_effects(when: Mapping[str, Any]) -> bool:
    inner = [
        *when.get("any", ()),
        *when.get("all", ()),
        *([when["flow"]["to"]] if "to" in when.get("flow", ()) else []),
    ]
    return "effect" in when or any(speaks_of_effects(m) for m in inner)


def naming(when: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """`when` without the alternatives that name no uses of variables; None where nothing in it names them."""
    by_name = "names" in when and "environment" in when.get("effect", ())
    if "env" in when or by_name or "expanded" in when.get("role", ()) or any(map(naming, when.get("all", ()))):
        return when
    either = [part for each in when.get("any", ()) if (part := naming(each))]
    return {**when, "any": either} if either else None


def sources(when: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What the flows of `when` come from, as far as it names uses of variables."""
    inner = [m for each in (*when.get("any", ()), *when.get("all", ())) for m in sources(each)]
    if "flow" not in when:
        return inner
    source = when["flow"]["from"]
    return [*([part] if (part := naming(source)) else []), *sources(source), *inner]


def speaks_of_the_action(when: Mapping[str, Any]) -> bool:
    inner = [*when.get("any", ()), *when.get("all", ()), *([when["not"]] if "not" in when else [])]
    about = {"parse", "agent", "tool", "time", "requester", "limit"}
    return not about.isdisjoint(when) or any(speaks_of_the_action(m) for m in inner)


def holds(
    when: Mapping[str, Any],
    command: SimpleCommand,
    effect: Effect | None,
    lists: Mapping[str, Any],
    around: Around,
) -> int:
    """All of the keys: the least certain of them."""
    return min(clause(key, value, command, effect, lists, around) for key, value in when.items())


TOOL, GIVEN = "Write", {"path": "x.py", "number": 3, "text": "a" * 5000}
"""The tool that is called in these tests, and what it is given."""


def tool(wanted: Mapping[str, Any]) -> int:
    """The least certain of its name and of each of its arguments; of one that is too long nothing is known."""
    said = [yes(any(text["glob"] == TOOL for text in wanted["name"]))] if "name" in wanted else []
    for name, argument in wanted.get("args", {}).items():
        if "given" in argument:
            said.append(yes((name in GIVEN) is argument["given"]))
        if "in" in argument:
            texts = [text["glob"] for text in argument["in"]]
            said.append(MAYBE if name == "text" else yes(name in GIVEN and str(GIVEN[name]) in texts))
    return min(said)


def clause(
    key: str,
    value: Any,
    command: SimpleCommand,
    effect: Effect | None,
    lists: Mapping[str, Any],
    around: Around,
) -> int:
    effects = command.effects if effect is None else [effect]
    hidden = effect is None and not command.resolved
    match key:
        case "all":
            return min(holds(m, command, effect, lists, around) for m in value)
        case "any":
            return max(holds(m, command, effect, lists, around) for m in value)
        case "not":
            return YES - holds(value, command, effect, lists, replace(around, excuses=not around.excuses))
        case "program":
            if command.program is None:
                return MAYBE if around.held is None else NO
            return yes(command.program in value["in"] or os.path.basename(command.program) in value["in"])
        case "effect":
            return yes(any(e.kind in value for e in effects)) or (unseen(value, around) if hidden else NO)
        case "role":
            return yes(any(e.role in value for e in effects)) or (MAYBE if hidden else NO)
        case "unread" | "recursive":
            return yes(any(getattr(e, key) is value for e in effects)) or (MAYBE if hidden else NO)
        case "resolved":
            return yes((command.resolved if effect is None else effect.resolved) is value)
        case "parse":
            return yes(around.status in value)
        case "time":
            on = "days" not in value or any(day in ("mon", "mon-fri") for day in value["days"])
            return yes(on and ("hours" not in value or "09:00-17:00" in value["hours"]))
        case "requester":
            return yes(any(text["glob"] in (REQUESTER, "os:*") for text in value))
        case "repo":
            wanted = [
                *([yes(any(text["glob"] == "main" for text in value["branch"]))] if "branch" in value else []),
                *([MAYBE] if "clean" in value else []),
            ]
            clean = "clean" in value
            if not places_asked(command, around.commands or [command], clean=clean):
                return MAYBE
            again = is_otherwise_next_time(command, clean=clean)
            return min(wanted) if not again else min([*wanted, MAYBE]) if around.excuses else max(min(wanted), MAYBE)
        case "limit":
            return over(value, lists, around)
        case "sql":
            return statements(value, command, effect, around)
        case "agent":
            return yes(any(text["glob"] == around.agent for text in value)) if around.agent else MAYBE
        case "tool":
            return tool(value)
        case "via" | "inside":
            return yes(any(v in getattr(command, key) for v in value))
        case "flags":
            return flags(value, command, around)
        case "options":
            unseen_option = NO if command.flags_complete and worded(command, around) else MAYBE
            said = []
            for name, patterns in value.items():
                given = [
                    MAYBE if text is None else yes(text in [p["glob"] for p in patterns])
                    for text in command.options.get(name, [])
                ]
                if around.excuses:  # each of its values, and there is no other
                    said += [*(given or [unseen_option]), YES - unseen_option]
                else:
                    said.append(max([*given, unseen_option]))
            return min(said)
        case "attributes":
            absent = NO if command.known and worded(command, around) else MAYBE
            found = []
            for name, patterns in value.items():
                texts = [p["glob"] for p in patterns]
                given = [MAYBE if text is None else yes(text in texts) for text in command.attributes.get(name, [])]
                found.append((min if around.excuses else max)(given or [absent]))
            return min(found)
        case "argv":
            so = follows([text["glob"] for text in value], list(command.words))
            unread = effect is not None and effect.unread and around.held is not None
            return NO if unread and so == MAYBE else so
        case "effects":
            return kinds(value, command, around)
        case "flow":
            here = YES if "to" not in value else holds(value["to"], command, effect, lists, around)
            return min(here, comes_from(value, command, effect, lists, around))
        case "env":
            of = min if around.excuses else max
            return of([setting(e, value, lists, around) for e in effects if e.kind == "environment"], default=NO)
        case "names":
            acts = [e for e in effects if e.kind == "package" and e.role in ("itself", "environment")]
            packages = [e for e in command.effects if e.kind == "package" and e.role not in ("itself", "environment")]
            lists_them = acts and (not packages or any((e.kind, e.role) == ("read", "option") for e in command.effects))
            hidden = hidden or bool(lists_them)
            named = [
                e
                for e in [*(e for e in effects if e not in acts), *(packages if acts else ())]
                if e.kind == "package"
                or (e.kind not in (*FILES[:-1], "network", "listen") and (e.operand or "")[:1] != "/")
            ]
            answers = [called(e, value, lists) for e in named]
            so = answers if "any_in" in value else [YES - a for a in answers]
            if not around.excuses:
                return max([*so, MAYBE if hidden else NO])
            return min(so + [MAYBE] * hidden) if so or hidden else NO
        case "hosts":
            contacted = [e for e in effects if e.kind in ("network", "listen")]
            more = unseen(("network", "listen"), around) if hidden else NO
            answers = [contacts(e, value) for e in contacted]
            so = answers if "any_in" in value else [YES - a for a in answers]
            if not around.excuses:
                return max([*so, more])
            return min([*so, *([YES - more] if more else [])]) if so or more else NO
        case "paths":
            return paths(
                value,
                [e for e in effects if e.kind in FILES and (e.kind != "execute" or (e.operand or "")[:1] == "/")],
                hidden,
                lists,
                around,
            )
    raise AssertionError(key)


REQUESTER, USED = "os:1:alice", 2
AROUND = Circumstances(
    datetime(2030, 1, 7, 12, 30, tzinfo=UTC),  # a Monday
    REQUESTER,
    lambda *_, **__: Checkout("main", ()),
    used=lambda counter, per: USED,
)
"""What surrounds the commands of these tests."""


def over(value: Mapping[str, Any], lists: Mapping[str, Any], around: Around) -> int:
    """So much is known to be done, and so much may be."""
    least = most = 0
    known = around.status == "ok"
    for command in around.commands:
        units: list[Effect | None] = [*command.effects] if speaks_of_effects(value["of"]) else [None]
        plain = replace(around, excuses=False)
        said = [holds(value["of"], command, unit, lists, plain) for unit in units]
        if units != [None] and holds(value["of"], command, None, lists, plain) == MAYBE:
            said.append(MAYBE)
        least, most = least + said.count(YES), most + len(said) - said.count(NO)
        again = not ONCE.issuperset(command.via) or {"loop", "function", "trap"} & set(command.inside)
        known = known and MAYBE not in said and not (again and set(said) != {NO} and said)
    if known and not most:
        return NO
    if least and USED + least > value["count"]:
        return YES
    return NO if known and USED + most <= value["count"] else MAYBE


def statements(value: Mapping[str, Any], command: SimpleCommand, effect: Effect | None, around: Around) -> int:
    client = command.program == "psql" or any("database" in (e.kind, e.role) for e in command.effects)
    hidden = [e.unread or (e.kind, e.role) == ("execute", "database") for e in command.effects]

    def fits(each: Effect) -> int:
        verb = "select" if each.role in ("read", "secret") else each.origin.split(" ")[0]
        table = (each.operand or "").split(".")[-1]
        return min(
            yes("kinds" not in value or verb in value["kinds"]), yes("any_in" not in value or table in value["any_in"])
        )

    if effect is not None:
        unread = effect.unread or (effect.kind, effect.role) == ("execute", "database")
        return fits(effect) if effect.kind == "database" else MAYBE if client and unread else NO
    said = [fits(each) for each in command.effects if each.kind == "database"]
    unseen = client and (any(hidden) or not command.resolved)
    if not around.excuses:
        return max([*said, MAYBE if unseen else NO])
    return min([*said, *([MAYBE] if unseen else [])]) if said or unseen else NO


def comes_from(
    value: Mapping[str, Any],
    command: SimpleCommand,
    effect: Effect | None,
    lists: Mapping[str, Any],
    around: Around,
) -> int:
    """How surely data of one command that `from` holds for can come here: each is looked at by itself."""
    program = around.program
    if program is None:
        return MAYBE
    source, ways = value["from"], frozenset(value["through"]) if "through" in value else None
    flows, best = Flows(program, Links().names), NO
    for number, origin in enumerate(program.commands):
        said: list[tuple[int, Effect | None]] = [(holds(source, origin, None, lists, around), None)]
        if speaks_of_effects(source):
            found: list[tuple[int, Effect | None]] = [
                (holds(source, origin, e, lists, around), e) for e in origin.effects
            ]
            unseen = not origin.effects or (not origin.resolved and not any(e.unread for e in origin.effects))
            more: list[tuple[int, Effect | None]] = (
                [(min(MAYBE if origin.effects else YES, said[0][0]), None)] if unseen and origin is not command else []
            )
            said = [(v, e) for v, e in found if v != NO] or more
        surest = max((v for v, _ in said), default=NO)
        if surest == NO:
            continue
        if len(program.commands) > 1 and (arrivals := flows.reached({number: surest == YES}, ways).at(command, effect)):
            best = max(best, YES if arrivals[0].sure else MAYBE)
        if origin is command and ways is None and effect is not None:
            best = max(best, *(v for v, e in said if e is not None and e is not effect and inside(e, effect)), NO)
    return best


def inside(source: Effect, effect: Effect) -> bool:
    sends, brings = ("network", "listen"), ("read", "network", "environment")
    if effect.kind not in ("write", "append", *sends) or source.kind not in brings:
        return False
    return source.kind != "network" or effect.kind not in sends


def yes(so: bool) -> int:
    return YES if so else NO


def setting(effect: Effect, wanted: Mapping[str, list[str]], lists: Mapping[str, Any], around: Around) -> int:
    """Is it one of these variables, set to places that all lie there? (Here all places are absolute.)"""
    if effect.operand not in wanted["any"]:
        return NO
    if "value_in" not in wanted:
        return YES
    if effect.role in ("printed", "expanded"):
        return NO
    patterns = [p for name in wanted["value_in"] for p in (lists[name[1:]] if name == "$list" else [name])]
    if effect.value is None:
        return MAYBE if reached(patterns, True, around) else NO
    return yes(all(lies_in(entry, patterns) for entry in effect.value.split(":")))


def called(effect: Effect, wanted: Mapping[str, list[str]], lists: Mapping[str, Any]) -> int:
    """Is its name one of these?"""
    if effect.operand is None or not (effect.resolved or effect.kind == "execute" or effect.role == "assignment"):
        return MAYBE
    names = [n for names in wanted.values() for name in names for n in (lists[name[1:]] if name == "$list" else [name])]
    return yes(any(re.fullmatch(re.escape(n).replace(r"\*", ".*"), effect.operand, re.DOTALL) for n in names))


def contacts(effect: Effect, wanted: Mapping[str, list[str]]) -> int:
    """Is its host one of these?"""
    if effect.operand is None:
        return MAYBE
    named = effect.operand.split(":")[0] in [host for hosts in wanted.values() for host in hosts]
    return yes(named) if effect.resolved else MAYBE


def flags(wanted: Mapping[str, list[str]], command: SimpleCommand, around: Around) -> int:
    sure = command.flags_complete and worded(command, around)
    off = ("false", "no", "none", "off", "null", "f", "n", "0")
    taken_back = {name for name, texts in command.options.items() for t in texts if t is None or t.lower() in off}
    answers = []
    for key, names in wanted.items():
        kept = command.flags - taken_back if around.excuses and key != "none" else command.flags
        given = [name in kept for name in names]
        if key == "only":
            answers.append(NO if command.flags - set(names) else (YES if sure else MAYBE))
        elif key == "none":
            answers.append(NO if any(given) else (YES if sure else MAYBE))
        else:
            answers.append(YES if (any if key == "any" else all)(given) else (NO if sure else MAYBE))
    return min(answers)


def follows(items: list[str], words: list[Field]) -> int:
    """Are these the words of a command? An unknown one may be any, and any number of them."""
    if not items and not words:
        return YES
    best = NO
    if words and not words[0].texts and words[0].many:
        best = min(MAYBE, follows(items, words[1:]))
    if items[:1] == ["..."]:
        return max(best, follows(items[1:], words), follows(items, words[1:]) if words else NO)
    if items and words:
        here = is_word(items[0], words[0])
        best = max(best, min(here, follows(items[1:], words[1:])))
        if not words[0].texts and (words[0].many or words[0].pathname):
            best = max(best, min(MAYBE, here, follows(items[1:], words)))
    return best


def is_word(item: str, word: Field) -> int:
    if not word.texts:
        open_ended = word.many or word.pathname
        head = item.partition("*")[0]
        return MAYBE if open_ended or head.startswith(word.prefix) or word.prefix.startswith(head) else NO
    answers = {re.fullmatch(re.escape(item).replace(r"\*", ".*"), text, re.DOTALL) is not None for text in word.texts}
    return yes(answers.pop()) if len(answers) == 1 else MAYBE


def kinds(wanted: Mapping[str, list[str]], command: SimpleCommand, around: Around) -> int:
    found = {e.kind for e in command.effects}
    answers = []
    for key, names in wanted.items():
        if key == "only":
            answers.append(NO if found - set(names) else (YES if command.resolved else MAYBE))
        else:
            so = bool(found & set(names)) if key == "any" else set(names) <= found
            missing = set(names) - found
            answers.append(YES if so else (NO if command.resolved else unseen(missing, around)))
    return min(answers)


def paths(
    wanted: Mapping[str, Any], touched: list[Effect], hidden: bool, lists: Mapping[str, Any], around: Around
) -> int:
    answers = []
    for key, names in wanted.items():
        patterns = [p for name in names for p in (lists[name[1:]] if name[:1] == "$" and name[:2] != "${" else [name])]
        if key in ("any_within", "contents_of"):
            seen = [(some if key == "any_within" else contents)(e, patterns, around) for e in touched]
            more = [MAYBE if reached(patterns, reads, around) else NO for reads in (False, True)] if hidden else []
            answers.append(max([*seen, *more, NO]))
        else:
            within = [every(e, patterns, around) for e in touched]
            seen = within if key == "all_within" else [YES - value for value in within]
            answers.append(min([*seen, MAYBE if hidden else YES]) if seen else (MAYBE if hidden else NO))
    return min(answers)


def some(effect: Effect, patterns: list[str], around: Around) -> int:
    if effect.operand is None or effect.below or effect.pattern or effect.recursive:
        value = PathSet(patterns, {"PROJECT": PROJECT, "HOME": HOME}).some(effect, Links())
        return (
            NO if value == MAYBE and is_hidden(effect, patterns, around) else settled(value, effect, patterns, around)
        )
    if not (effect.resolved or effect.unread):
        return settled(MAYBE, effect, patterns, around)
    return yes(lies_in(effect.operand, patterns))


def contents(effect: Effect, patterns: list[str], around: Around) -> int:
    if effect.operand is None or effect.below or (effect.pattern and not effect.contents):
        value = PathSet(patterns, {"PROJECT": PROJECT, "HOME": HOME}).contents(effect, Links())
        return settled(value, effect, patterns, around)
    if effect.contents:
        return yes(lies_in(effect.operand, patterns))
    return NO if effect.resolved or effect.unread else settled(MAYBE, effect, patterns, around)


def every(effect: Effect, patterns: list[str], around: Around) -> int:
    value = MAYBE
    if effect.operand is None or effect.below or effect.pattern or effect.recursive:
        value = PathSet(patterns, {"PROJECT": PROJECT, "HOME": HOME}).every(effect, Links())
    elif effect.resolved or effect.unread:
        return yes(lies_in(effect.operand, patterns))
    written = [entry for walls in around.held or () for entry in (*walls.write, "/tmp/**")]
    if value == MAYBE and not effect.resolved and written and all(covered(entry, patterns) for entry in written):
        return YES
    return settled(value, effect, patterns, around)


def settled(value: int, effect: Effect, patterns: list[str], around: Around) -> int:
    """A doubt about where something is, settled by where it can be. Which files a known operand means is no such."""
    if value != MAYBE or effect.resolved:
        return value
    return MAYBE if reached(patterns, effect.kind in ("read", "execute"), around) else NO


def is_hidden(effect: Effect, patterns: list[str], around: Around) -> bool:
    """Does a wildcard that is read stand below what can be written, where all in these patterns is hidden?"""
    if around.held is None or effect.kind != "read" or effect.pattern is None or effect.operand is None:
        return False
    below = [lies_in(effect.operand, [*walls.write, "/tmp/**"]) for walls in around.held]
    return all(below) and all(matched(tuple(patterns)) <= matched(tuple(walls.hide)) for walls in around.held)


def reached(patterns: list[str], reads: bool, around: Around) -> bool:
    """Can anything in these patterns be read, or else be written?"""
    return around.held is None or any(
        not open_places(walls, reads).isdisjoint(matched(tuple(patterns))) for walls in around.held
    )


NAMES = ("x", "y", "build", ".env", ".git", "config", "a.out", "hosts")
FOLDERS = (PROJECT, HOME, "/srv", "/opt", "/etc", "/tmp", "/usr")
PLACES = frozenset(
    "/".join((folder, *names))
    for folder in FOLDERS
    for names in (*product(NAMES, repeat=3), *product(NAMES, repeat=2), *product(NAMES, repeat=1), ())
)
"""Stands for all paths: every pattern here that means any of them means one of these."""


@lru_cache(maxsize=1000)
def matched(patterns: tuple[str, ...]) -> frozenset[str]:
    return frozenset(path for path in PLACES if lies_in(path, list(patterns)))


@lru_cache(maxsize=1000)
def open_places(walls: Walls, reads: bool) -> frozenset[str]:
    """What a rule about a place may mean that nobody knows: what can be written, or read of it. (What `read` gives
    besides is given.)
    """
    return matched((*walls.write, "/tmp/**")) - matched((*walls.hide, *(() if reads else walls.protect)))


def covered(entry: str, patterns: list[str]) -> bool:
    """Do the patterns mean all that this entry of a confinement does?"""
    if not entry.endswith("/**"):
        return lies_in(filled(entry), patterns)
    trees = [filled(p.removesuffix("/**")) for p in patterns if p.endswith("/**") and "*" not in p.removesuffix("/**")]
    return any((filled(entry.removesuffix("/**")) + "/").startswith(tree + "/") for tree in trees)


def filled(pattern: str) -> str:
    return pattern.replace("${PROJECT}", PROJECT).replace("~", HOME)


def lies_in(path: str, patterns: list[str]) -> bool:
    plain = os.path.normpath(path)
    for pattern in patterns:
        regex = (
            re.escape(filled(pattern)).replace(r"/\*\*", "(/.*)?").replace(r"\*\*/", "/(.*/)?").replace(r"\*", "[^/]*")
        )
        if re.fullmatch(regex, plain):
            return True
    return False


# ---- what is generated ----------------------------------------------------------------------------------

_PATHS = st.lists(
    st.sampled_from(["${PROJECT}/**", "/srv/**", "/srv/x", "**/.env", "~/**", "/etc/*", "$list"]),
    min_size=1,
    max_size=3,
)
_KINDS = st.lists(
    st.sampled_from(["read", "write", "append", "delete", "execute", "network", "move", "process", "privilege"]),
    min_size=1,
    max_size=3,
)
_FLAGS = st.lists(st.sampled_from(["recursive", "force"]), min_size=1, max_size=2)
_CLAUSES = {
    "program": st.lists(
        st.sampled_from(["rm", "cat", "cp", "git", "bash", "sudo", "frob", "x.sh"]), min_size=1, max_size=3
    ),
    "effect": _KINDS,
    "role": st.lists(st.sampled_from(["operand", "redirect", "list", "script"]), min_size=1, max_size=2),
    "recursive": st.booleans(),
    "unread": st.booleans(),
    "resolved": st.booleans(),
    "via": st.just(["sudo"]),
    "inside": st.sampled_from([["substitution"], ["loop"], ["string"]]),
    "parse": st.sampled_from([["ok"], ["failed", "partial"]]),
    "agent": st.sampled_from([["mini"], ["other"]]),
    "time": st.fixed_dictionaries(
        {"tz": st.just("UTC"), "hours": st.sampled_from([["09:00-17:00"], ["22:00-06:00"]])},
        optional={"days": st.sampled_from([["mon-fri"], ["sat", "sun"], ["mon"]])},
    ),
    "requester": st.sampled_from([["os:1:alice"], ["os:*"], ["os:2:bob"]]),
    "repo": st.sampled_from(
        [{"branch": ["main"]}, {"branch": ["x"]}, {"clean": True}, {"branch": ["x"], "clean": False}]
    ),
    "limit": st.fixed_dictionaries(
        {
            "count": st.integers(1, 5),
            "per": st.sampled_from(["run", "hour", "day"]),
            "of": st.sampled_from(
                [{"program": ["curl", "rm"]}, {"effect": ["network"]}, {"effect": ["read", "write"]}]
            ),
        }
    ),
    "sql": st.dictionaries(st.sampled_from(["kinds", "any_in"]), st.just(["drop", "select", "x"]), min_size=1).map(
        lambda sql: {key: (["drop", "select"] if key == "kinds" else value) for key, value in sql.items()}
    ),
    "tool": st.fixed_dictionaries(
        {"name": st.sampled_from([["Write"], ["Read", "Write"], ["Read"]])},
        optional={
            "args": st.dictionaries(
                st.sampled_from(["path", "number", "text", "other"]),
                st.sampled_from([{"in": ["x.py", "3"]}, {"in": ["y"]}, {"given": True}, {"given": False}]),
                min_size=1,
                max_size=2,
            )
        },
    ),
    "flags": st.dictionaries(st.sampled_from(["any", "all", "none", "only"]), _FLAGS, min_size=1, max_size=2),
    "options": st.dictionaries(
        st.sampled_from(["request", "user", "context"]),
        st.lists(st.sampled_from(["GET", "HEAD", "bob", "3"]), min_size=1, max_size=2),
        min_size=1,
        max_size=2,
    ),
    "attributes": st.dictionaries(
        st.sampled_from(["context", "namespace", "profile"]),
        st.lists(st.sampled_from(["prod", "dev", "x"]), min_size=1, max_size=2),
        min_size=1,
        max_size=2,
    ),
    "effects": st.dictionaries(st.sampled_from(["any", "all", "only"]), _KINDS, min_size=1, max_size=2),
    "paths": st.dictionaries(
        st.sampled_from(["any_within", "all_within", "none_within", "contents_of"]), _PATHS, min_size=1, max_size=2
    ),
    "hosts": st.sampled_from(["any_in", "none_in"]).map(lambda key: {key: ["example.com"]}),
    "argv": st.sampled_from(
        [["*", "...", "x*", "..."], ["rm", "-rf", "..."], ["...", "*"], ["bash", "*"], ["*", "*", "y"]]
    ),
    "env": st.fixed_dictionaries(
        {"any": st.just(["PYTHONPATH"]) | st.just(["PATH", "X"])}, optional={"value_in": _PATHS}
    ),
    "names": st.builds(
        lambda key, names: {key: names},
        st.sampled_from(["any_in", "none_in"]),
        st.lists(st.sampled_from(["frob", "PYTHON*", "*", "remote branch", "git *", "$list"]), min_size=1, max_size=2),
    ),
}


def _some_clauses(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    nested = {
        "any": st.lists(inner, min_size=1, max_size=2),
        "all": st.lists(inner, min_size=1, max_size=2),
        "not": inner,
    }
    return st.lists(st.sampled_from([*_CLAUSES, *nested]), min_size=1, max_size=3, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries({key: {**_CLAUSES, **nested}[key] for key in keys})
    )


_FLAT = st.lists(st.sampled_from(sorted(_CLAUSES)), min_size=1, max_size=3, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries({key: _CLAUSES[key] for key in keys})
)
_FLOW = st.fixed_dictionaries(
    {"from": _FLAT},
    optional={"to": _FLAT, "through": st.lists(st.sampled_from(WAYS), min_size=1, max_size=3, unique=True)},
)
_TRACED = st.builds(lambda flow, more: {**more, "flow": flow}, _FLOW, _FLAT | st.just({}))
_WHEN = _FLAT | _some_clauses(_FLAT) | _TRACED | st.builds(lambda *each: {"any": list(each)}, _TRACED, _TRACED | _FLAT)
_ALLOWED = st.fixed_dictionaries({"effect": st.lists(st.sampled_from(["read", "write", "delete"]), min_size=1), "paths": st.fixed_dictionaries({"all_within": _PATHS})}) | st.fixed_dictionaries({"effects": st.fixed_dictionaries({"only": st.lists(st.sampled_from(["read", "write"]))}), "resolved": st.just(True)}) | st.just({"program": ["cat", "rm", "frob"]}) | st.just({"program": ["frob", "rm"], "unread": True})  # fmt: skip
_APPROVED = st.sampled_from(
    [
        {"effect": ["network", "listen"]},
        {"effect": ["read", "write", "append"], "paths": {"any_within": ["/srv/**", "/etc/*", "~/**"]}},
        {"effect": ["execute", "process"]},
    ]
)
"""What a policy may well let a human approve."""
_RULES = st.one_of(
    st.fixed_dictionaries({"decision": st.sampled_from(["ask", "deny"]), "when": _WHEN}, optional={"unless": _FLAT}),
    st.fixed_dictionaries({"decision": st.just("allow"), "when": _ALLOWED}, optional={"unless": _FLAT}),
)
_EXCEPTIONS = st.lists(
    st.tuples(
        st.integers(0, 5),
        _FLAT | _some_clauses(_FLAT),
        st.sampled_from(["2999-12-31", "2020-01-01", "2999-01-01T00:00:00Z"]),
    ),
    max_size=3,
)
_POLICIES = st.fixed_dictionaries(
    {
        "exceptions": _EXCEPTIONS,
        "rules": st.lists(_RULES, min_size=1, max_size=6),
        "defaults": st.fixed_dictionaries(
            {
                "unmatched": st.sampled_from(ORDER),
                "maybe": st.sampled_from(ORDER[1:]),
                "unparsed": st.sampled_from(ORDER[1:]),
                "ask": st.sampled_from(ORDER[1:]),
            }
        ),
    }
)
_SIMPLE = st.sampled_from(
    [
        "rm -rf build", "rm -r /srv/x", 'rm -f "$F"', "rm -rf *", "rm /srv/*", "cat a /srv/x", "cat .env", 'cat "$D"/x',
        "cp a ~/b", "mv a b", "cat a > /srv/x", "cat < /etc/hosts >> log", "git push -f", "git status", "curl https://example.org", "curl localhost:3000", "echo x > /dev/tcp/localhost/25", "flask run", "curl localhost",
        "./x.sh", "bash x.sh", "frob -f x", "curl https://example.org > x.sh", "x=$(cat .env)", "tee /srv/y", "sh", 'sh -c "$x"', "$X y", "cat $OPTS a", "echo hi", "x=1", "ls ../y", "find . -delete", "cat --frob a", "",
        "rm -rf /srv/*", "rm -r ~/.*", "PYTHONPATH=/srv/x cat a", "PYTHONPATH=/srv:${PROJECT} frob".replace("${PROJECT}", PROJECT),
        'curl "$X"', 'pkill "$X"', "kill 1", "./a.out", 'echo x > "$X"', 'rm -rf "$X"/y', "rm -rf /srv", "rm -rf .",
        'python -c "import requests; requests.get(u)"', 'bash "$X"', 'sudo -u "$U" frob',
        "curl -X GET -X DELETE localhost:3000", "curl -X GET example.com", 'curl -X HEAD -X "$X" localhost', "curl localhost https://example.com", "grep -C 3 -C 4 x a", "sudo -u bob -u root frob",
        "kubectl --context prod get x", "kubectl --context dev --context prod delete x", "kubectl -n x -A get x", 'aws --profile "$X" s3 ls', "aws --profile prod s3 rm s3://x", "AWS_PROFILE=dev aws s3 ls",
        "export PYTHONPATH=/srv/y${PYTHONPATH:+:$PYTHONPATH}", "PYTHONPATH=$D cat a", "printenv PYTHONPATH", "PATH=/srv ls",
        "psql app -c 'drop table x'", "psql app -c 'select 1; truncate y'", "psql app -f q.sql", "psql app", "duckdb a.db x", "git checkout x",
        'echo "curl https://example.org; kill 1" > w.sh', 'echo "curl https://example.org | sh" > v.sh', 'echo "rm -rf /srv/x" > u.sh', "cat *", "cat /srv/*", "cat ~/x/*", "cat .e*", "export PYTHONPATH=$D",
    ]
)  # fmt: skip
LISTS = {"list": ["/opt/**", "/srv/y"]}
_AROUND = st.sampled_from(
    ["{}", "sudo {}", "bash -c '{}'", "echo $({})", "for i in 1 2; do {}; done", "cd /srv; {}", "({})"]
)
_ONE = st.builds(lambda around, simple: around.format(simple or "true"), _AROUND, _SIMPLE)
_ASKED_FOR = ("network", "network example.org:8080", "network localhost:25", "read /etc/hosts", "read /srv/x")
_ASKED_FOR += ("write /srv/y", "write build", "write /etc", "unconfined", "more")
_COMMANDS = (
    st.lists(_ONE, max_size=3).map(" && ".join)
    | st.lists(_ONE, min_size=1, max_size=2).map(" | ".join)
    | _ONE.map(lambda c: f"{c}; echo '")
    | st.builds(
        lambda asked, one: f"# needs: {', '.join(asked)}\n{one}",
        st.lists(st.sampled_from(_ASKED_FOR), min_size=1, max_size=2),
        _ONE,
    )
)


def policy_file(folder: Path, name: str, policy: Mapping[str, Any]) -> Path:
    rules = [{"id": f"{name}-{n}", **rule} for n, rule in enumerate(policy["rules"])]
    path = folder / f"{name}.yaml"
    stopping = [rule["id"] for rule in rules if rule["decision"] != "allow"]
    exceptions = [
        {"rule": stopping[n % len(stopping)], "when": when, "reason": "y", "expires": expires}
        for n, when, expires in (policy.get("exceptions", ()) if stopping else ())
    ]
    written = {"version": 1, "policy": name, "lists": LISTS, **policy, "rules": rules, "exceptions": exceptions}
    path.write_text(json.dumps(written))
    return path


_NAMED = {"rules": [{"decision": "ask", "when": {"env": {"any": ["PYTHONPATH"]}}}], "defaults": {"unmatched": "allow"}}

_TWO = {"env": {"any": ["PATH", "X"]}, "flow": {"from": {"env": {"any": ["PYTHONPATH"]}}}}
_FLOWS = {
    "rules": [{"decision": "ask", "when": {"any": [_TWO, {"agent": ["mini"]}]}}],
    "defaults": {"unmatched": "allow"},
}
_SET = {
    "rules": [
        {"decision": "ask", "when": {"env": {"any": ["PYTHONPATH"]}}, "unless": {"effects": {"any": ["environment"]}}},
        {"decision": "ask", "when": {"flow": {"from": {"env": {"any": ["PYTHONPATH"], "value_in": ["${PROJECT}/**"]}}}}},
    ],
    "defaults": {"unmatched": "allow"},
}  # fmt: skip


@settings(max_examples=examples(200, soak=20_000), suppress_health_check=list(HealthCheck))
@example(base=_FLOWS, lower=None, commands=["$X y"])
@example(base=_SET, lower=None, commands=["export PYTHONPATH=/srv/y${PYTHONPATH:+:$PYTHONPATH}"])
@example(base=_NAMED, lower=None, commands=["export PYTHONPATH=/srv/y${PYTHONPATH:+:$PYTHONPATH}", "echo $PYTHONPATH"])
@given(
    base=_POLICIES,
    lower=st.none() | st.tuples(_POLICIES, st.booleans()),
    commands=st.lists(_COMMANDS, min_size=1, max_size=4),
)
def test_the_director_agrees(tmp_path: Path, base: Any, lower: Any, commands: list[str]) -> None:
    try:
        layers = [Layer(load(policy_file(tmp_path, "base", base)), "user")]
        if lower is not None:
            layers.append(Layer(load(policy_file(tmp_path, "lower", lower[0])), "project", trusted=lower[1]))
    except PolicyError as error:
        assert "too broad" in str(error)
        assume(False)
    director = Director(layers, project=PROJECT, environ={"HOME": HOME}, around=AROUND)
    agree(director, Reference([LayerRead(layer.policy.body, layer.trusted) for layer in layers]), commands)


_AROUND_CLAUSES = ("time", "requester", "repo", "limit", "sql")
_ABOUT = st.lists(st.sampled_from(_AROUND_CLAUSES), min_size=1, max_size=2, unique=True).flatmap(
    lambda keys: st.fixed_dictionaries(
        {key: _CLAUSES[key] for key in keys},
        optional={
            "program": st.just(["psql", "curl", "git", "rm"]),
            "effect": st.just(["network", "database", "read"]),
        },
    )
)
_ABOUT_AROUND = (
    _ABOUT | st.builds(lambda each: {"not": each}, _ABOUT) | st.builds(lambda a, b: {"any": [a, b]}, _ABOUT, _ABOUT)
)
_SURROUNDED = st.sampled_from(
    [
        "psql app -c 'drop table x'", "psql app -c 'select 1; truncate y'", "psql app -f q.sql", "rm a", "rm a b", "curl localhost",
        "curl localhost; curl example.org; curl localhost:3", "for i in 1 2; do curl localhost; done", "git checkout x; git push",
        "git push; cat a", "echo '", "duckdb a.db x", "cat a b c", "sudo rm a", "echo hi", "psql app -c 'select 1 from x'",
    ]
)  # fmt: skip


@settings(max_examples=examples(150, soak=5_000), suppress_health_check=list(HealthCheck))
@given(
    rules=st.lists(
        st.fixed_dictionaries(
            {"decision": st.sampled_from(["ask", "deny"]), "when": _ABOUT_AROUND}, optional={"unless": _ABOUT_AROUND}
        ),
        min_size=1,
        max_size=3,
    ),
    commands=st.lists(_SURROUNDED, min_size=1, max_size=4),
)
def test_the_director_agrees_on_what_surrounds_actions(tmp_path: Path, rules: Any, commands: list[str]) -> None:
    policy = load(policy_file(tmp_path, "p", {"rules": rules, "defaults": {"unmatched": "allow"}}))
    director = Director(policy, project=PROJECT, environ={"HOME": HOME}, around=AROUND)
    agree(director, Reference([LayerRead(policy.body, True)]), commands)


def agree(director: Director, reference: Reference, commands: list[str]) -> None:
    for command in (*commands, *commands):  # no answer changes a later one
        action = Action(command, cwd=PROJECT, agent="mini", tool=TOOL, arguments=tool_arguments(GIVEN))
        decision = director.evaluate(action)
        read = reference.judge(director.program(action), "mini")
        found = [(str(part.verdict), [str(e.verdict) for e in part.judged]) for part in decision.parts]
        parts = read.parts
        if command.startswith("# needs:"):  # the line itself is no command: it asks whatever rules say of its words
            found, parts = found[:-1], parts[:-1]
        assert (str(decision.verdict), set(decision.rules), found) == (read.verdict, read.rules, parts), command
        profiles = decision.confinement.profiles if decision.confinement is not None else None
        assert (profiles and {as_written(each) for each in profiles}) == (read.runs_in and set(map(full, read.runs_in)))


def as_written(profile: Profile) -> Walls:
    """A confinement of a decision, in which the order of path sets means nothing."""
    sets: dict[str, Any] = {key: frozenset(getattr(profile, key)) for key in SETS}
    return Walls(profile.name, network=profile.network, hosts=frozenset(profile.hosts))._replace(**sets)


def full(walls: Walls) -> Walls:
    """With absolute paths, and with where the supervisor is installed, which nothing may write."""
    if walls.opened:
        return walls._replace(opened=False)
    ours = own_places()
    walls = walls._replace(protect=walls.protect | {f"{ours['PACKAGE']}/**", f"{ours['OWN_PROGRAMS']}/**"})
    sets: dict[str, Any] = {
        key: frozenset(("/" if p.startswith("**/") else "") + filled(p) for p in getattr(walls, key)) for key in SETS
    }
    hosts = walls.hosts or {"*"} if walls.network == "forwarded" else ()
    return walls._replace(**sets, hosts=frozenset(hosts))


# ---- what runs confined ---------------------------------------------------------------------------------------

_TREES = ["${PROJECT}/**", "/srv/**", "/srv/x", "~/**", "/opt/**", "${PROJECT}/build/**"]
_GIVEN = st.lists(st.sampled_from([*_TREES, "/usr/**", "/etc/hosts", "$list"]), min_size=1, max_size=2)
_WRITTEN = st.lists(st.sampled_from([*_TREES, "$list"]), min_size=1, max_size=2)
_HELD = st.lists(
    st.sampled_from(["**/.git/**", "**/.env", "${PROJECT}/.git/**", "/srv/x", "~/x/**", "/opt/**", "$list", "/etc/*"]),
    min_size=1,
    max_size=2,
)
_WALLS = {
    "read": _GIVEN,
    "write": _WRITTEN,
    "protect": _HELD,
    "hide": _HELD,
    "network": st.sampled_from(["none", "forwarded", "host"]),
}
_OWN_WALLS = st.fixed_dictionaries({}, optional=_WALLS)


def _policies(known: list[str], more: Mapping[str, st.SearchStrategy[Any]], sure: bool) -> st.SearchStrategy[Any]:
    """Policies with rules that name these confinements."""
    named = st.sampled_from(known)
    asking = st.fixed_dictionaries(
        {"decision": st.just("ask"), "when": _WHEN, "confined": named}, optional={"unless": _FLAT}
    )
    approving = st.fixed_dictionaries(
        {"decision": st.just("ask"), "when": _WHEN | _APPROVED, "approved": named}, optional={"unless": _FLAT}
    )
    allowing = st.fixed_dictionaries(
        {
            "decision": st.just("allow"),
            "when": _ALLOWED | _WHEN.filter(lambda w: "flow" not in json.dumps(w)),
            "confined": named,
        },
        optional={"unless": _FLAT},
    )
    confine = {"confine": named} if sure else {}
    defaults = {key: st.sampled_from(ORDER[key != "unmatched" :]) for key in ("unmatched", "maybe", "unparsed", "ask")}
    return st.fixed_dictionaries(
        {
            "rules": st.lists(_RULES | asking | approving | allowing, min_size=1, max_size=6),
            "defaults": st.fixed_dictionaries({**defaults, **confine}, optional={"confine": named} if not sure else {}),
            **more,
        }
    )


def _defined(name: str, extends: str | None = None) -> st.SearchStrategy[dict[str, Any]]:
    return _OWN_WALLS.map(lambda own: {name: {**({"extends": extends} if extends else {}), **own}})


def _together(*parts: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """In this order: a name stands for what is defined above."""
    return st.tuples(*parts).map(lambda found: {name: value for each in found for name, value in each.items()})


_CONFINED = _policies(["a", "b"], {"confinements": _together(_defined("a"), _defined("b", "a"))}, True)
_EXTENDING = _policies(
    ["a", "b", "c"],
    {
        "lists": st.just({"list": {"add": ["/srv/z"]}}),
        "confinements": _together(
            _defined("c", "b"), st.just({}) | _defined("a", "a"), st.just({}) | _defined("b") | _defined("b", "c")
        ),
    },
    False,
)
_LOWER = st.tuples(_policies(["a"], {"confinements": _defined("a")}, False), st.booleans())


def walls_of(*files: Mapping[str, Any]) -> dict[str, Walls]:
    """The confinements of files of which each extends the one before: a given key replaces."""
    lists = [file.get("lists", LISTS)["list"] for file in files]
    base = [entry for each in lists for entry in (each["add"] if isinstance(each, dict) else each)]
    found: dict[str, Walls] = {}
    for file in files:
        for name, written in file["confinements"].items():
            walls = found[written["extends"]] if "extends" in written else Walls("")
            sets = {
                key: frozenset(each for entry in value for each in (base if entry == "$list" else [entry]))
                for key, value in written.items()
                if key not in ("extends", "network")
            }
            found[name] = walls._replace(name=name, network=written.get("network", walls.network), **sets)
    return found


@pytest.mark.long
@settings(max_examples=examples(200, soak=20_000), suppress_health_check=list(HealthCheck))
@given(
    base=_CONFINED,
    more=st.none() | _EXTENDING,
    lower=st.none() | _LOWER,
    commands=st.lists(_COMMANDS, min_size=1, max_size=4),
)
def test_the_director_agrees_where_it_can_be_confined(
    tmp_path: Path, base: Any, more: Any, lower: Any, commands: list[str]
) -> None:
    director, reference = read_twice(tmp_path, base, more, lower)
    agree(director, reference, commands)


def without_words(file: Any) -> Any:
    """The same policy, in which no program of one's own is taken at its author's word: what that excuses where
    everything can be confined, this reading does not know (`test_excused_confinement` tries exceptions there).
    """

    def plain_allow(rule: Any) -> Any:
        when = {key: each for key, each in rule["when"].items() if key != "unread"}
        return {**rule, "when": when} if rule["decision"] == "allow" and "program" in when else rule

    return {**file, "rules": [plain_allow(rule) for rule in file["rules"]]}


def read_twice(folder: Path, base: Any, more: Any, lower: Any) -> tuple[Director, Reference]:
    base, more = without_words(base), None if more is None else without_words(more)
    lower = None if lower is None else (without_words(lower[0]), lower[1])
    files = [base, *([more] if more is not None else [])]
    try:
        path = policy_file(folder, "base", base)
        if more is not None:
            path = policy_file(folder, "more", {"extends": ["base.yaml"], **more})
        layers = [Layer(load(path), "user")]
        walls = [walls_of(*files)]
        if lower is not None:
            layers.append(Layer(load(policy_file(folder, "lower", lower[0])), "project", trusted=lower[1]))
            walls.append(walls_of(lower[0]))
    except PolicyError as error:
        assert "too broad" in str(error)
        assume(False)
    confine = [file["defaults"]["confine"] for file in files if "confine" in file["defaults"]][-1]
    read = [LayerRead(la.policy.body, la.trusted, w) for la, w in zip(layers, walls, strict=True)]
    director = Director(layers, project=PROJECT, environ={"HOME": HOME}, confined=True, around=AROUND)
    return director, Reference(read, walls[0][confine])


# ---- what a confinement changes, and what it never does -------------------------------------------------------

_WIDER = {"write": ["/srv/**", "~/**", "/opt/**", "${PROJECT}/**"], "read": ["/usr/**"], "network": "host"}


@pytest.fixture
def both(tmp_path: Path) -> Callable[..., tuple[Director, Director]]:
    """A policy, in force where nothing and where everything can be confined."""

    def load_it(policy: Any) -> tuple[Director, Director]:
        try:
            found = load(policy_file(tmp_path, "base", policy))
        except PolicyError as error:
            assert "too broad" in str(error)
            assume(False)
        bare, confined = (Director(found, project=PROJECT, environ={"HOME": HOME}, confined=so) for so in (False, True))
        return bare, confined

    return load_it


def certain(program: Program) -> bool:
    return program.status == "ok" and all(
        c.resolved and WRITTEN not in c.inside and all(e.resolved and e.sure for e in c.effects)
        for c in program.commands
    )


def plain(policy: Any) -> Any:
    """`policy` without rules that decide otherwise where they can be confined."""
    return {**policy, "rules": [rule for rule in policy["rules"] if "confined" not in rule]}


@pytest.mark.long
@settings(max_examples=examples(200, soak=20_000), suppress_health_check=list(HealthCheck))
@given(policy=_CONFINED, commands=st.lists(_COMMANDS, min_size=1, max_size=4))
def test_a_confinement_is_never_stricter_but_where_it_makes_doubt_certain(
    both: Any, policy: Any, commands: list[str]
) -> None:
    """But for the line that asks for more than a confinement gives, as below."""
    bare, confined = both(policy)
    for command in (each for each in commands if not each.startswith("# needs:")):
        action = Action(command, cwd=PROJECT, agent="mini", tool=TOOL, arguments=tool_arguments(GIVEN))
        before, after = bare.evaluate(action), confined.evaluate(action)
        assert before.confinement is None
        if after.verdict is Verdict.ALLOW:
            assert after.confinement is not None, command
            assert re.fullmatch("[0-9a-f]{64}", after.confinement.digest), command
            reach = f" ({after.confinement.reach})" if after.confinement.reach else ""
            assert after.runs == f"confined to {after.confinement.name}{reach}"
        assert after.verdict is not Verdict.DENY or after.confinement is None, command
        if after.verdict > before.verdict:
            doubted = {hit.rule for hit in hits_of(bare, action) if not hit.certain}
            made_certain = [h for h in hits_of(confined, action) if h.certain and h.rule in doubted]
            lost = [h for h in hits_of(confined, action) if h.rule == ""]
            assert made_certain or (lost and policy["defaults"]["unmatched"] == "deny"), command


class Said(NamedTuple):
    rule: str
    certain: bool


def hits_of(director: Director, action: Action) -> list[Said]:
    situation = director.situation(action)
    judged = director.in_force().rules.judge(director.program(action), situation)
    return [Said(hit.rule.rule.id if hit.rule else "", hit.certain) for each in judged for hit in each.hits()]


def all_said(decision: PolicyDecision) -> tuple[object, ...]:
    parts = [(part.verdict, part.rules, part.reason, part.judged) for part in decision.parts]
    return decision.verdict, decision.rules, decision.reason, decision.severity, decision.spans, parts


@pytest.mark.long
@settings(max_examples=examples(200, soak=20_000), suppress_health_check=list(HealthCheck))
@given(policy=_CONFINED.map(plain).filter(lambda p: p["rules"]), commands=st.lists(_COMMANDS, min_size=1, max_size=4))
def test_what_is_certain_is_judged_as_ever(both: Any, policy: Any, commands: list[str]) -> None:
    """But for the line that asks for more than a confinement gives: where nothing is confined, it is a comment."""
    bare, confined = both(policy)
    for command in commands:
        action = Action(command, cwd=PROJECT, agent="mini", tool=TOOL, arguments=tool_arguments(GIVEN))
        if certain(bare.program(action)) and not command.startswith("# needs:"):
            before, after = bare.evaluate(action), confined.evaluate(action)
            assert all_said(before) == all_said(after), command


@pytest.mark.long
@settings(max_examples=examples(200, soak=20_000), suppress_health_check=list(HealthCheck))
@given(policy=_CONFINED.map(plain).filter(lambda p: p["rules"]), commands=st.lists(_COMMANDS, min_size=1, max_size=4))
def test_a_wider_confinement_allows_nothing_more(both: Any, policy: Any, commands: list[str]) -> None:
    _, narrow = both(policy)
    _, wide = both({**policy, "confinements": dict.fromkeys(policy["confinements"], _WIDER)})
    for command in commands:
        action = Action(command, cwd=PROJECT, agent="mini", tool=TOOL, arguments=tool_arguments(GIVEN))
        if wide.evaluate(action).verdict is Verdict.ALLOW:
            assert narrow.evaluate(action).verdict is Verdict.ALLOW, command
