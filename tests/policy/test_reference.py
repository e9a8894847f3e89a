"""A second, plain reading of the semantics agrees with the Director on generated policies and commands.

It has no closures, no dispatch and no memory: for each command and effect, every rule is read anew from its data. Only
what an uncertain path may be (`PathSet`) and what a command does (`analyse`) is taken from the code that is tested.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.path_patterns import Links, PathSet
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.layers import Layer
from humanlayer_agent.shell import WAYS, Effect, Flows, Program, SimpleCommand
from tests.support.extent import examples

PROJECT, HOME = "/nowhere/project", "/nowhere/home"
FILES = ("read", "write", "append", "delete", "move", "metadata", "execute")
ORDER = ("allow", "ask", "deny")
NO, MAYBE, YES = 0, 1, 2


class Untraced(Program):
    """A program in which nobody has looked yet where data can come."""


class Reference:
    """Judges by the letter of the policy."""

    def __init__(self, layers: list[tuple[Mapping[str, Any], bool]]) -> None:
        """`layers`: each policy as data, and whether it may allow."""
        self.layers = layers

    def judge(self, program: Program, agent: str) -> tuple[str, set[str], list[tuple[str, list[str]]]]:
        """(verdict, the rules that decide or stop, (verdict, verdict of each effect) of each command)."""
        program = self.with_uses(program, agent)
        hits: list[tuple[str, str | None]] = []
        parts = []
        for command in program.commands:
            own, effects = self.command(command, program, agent)
            everything = own + [hit for found in effects for hit in found]
            hits += everything
            parts.append((strictest(everything), [strictest(found) for found in effects]))
        if program.status != "ok" and not program.commands:
            blank = SimpleCommand(None, [], (0, 0), "", known=False, resolved=False)
            for policy, rule in self.rules():
                if not speaks_of_effects(rule["when"]) and speaks_of_the_action(rule["when"]):
                    hits += self.rule(policy, rule, blank, None, program, agent)
        verdict = strictest(hits)
        if program.status != "ok":
            unparsed = [policy["defaults"]["unparsed"] for policy, _ in self.layers]
            verdict = max([verdict, *unparsed], key=ORDER.index)
        shown = {name for said, name in hits if name and (said != "allow" or verdict == "allow")}
        return verdict, shown, parts

    def with_uses(self, program: Program, agent: str) -> Program:
        """`program`, in which a use of a variable is an effect where a rule that asks or denies may mean it."""
        untraced = Untraced(program.commands, program.status)

        def meant(command: SimpleCommand, use: Effect) -> bool:
            for policy, rule in self.rules():
                lists = policy["scopes"][rule["scope"]]
                if rule["decision"] == "allow":
                    continue
                if any(holds(source, command, use, lists, untraced, agent) != NO for source in sources(rule["when"])):
                    return True
                when = naming(rule["when"])
                excused = "unless" in rule and holds(rule["unless"], command, use, lists, untraced, agent) == YES
                if when is not None and not excused and holds(when, command, use, lists, untraced, agent) != NO:
                    return True
            return False

        commands = [
            replace(command, effects=[*command.effects, *(use for use in command.uses if meant(command, use))])
            for command in program.commands
        ]
        return replace(program, commands=commands)

    def rules(self) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        return [(p, r) for p, may_allow in self.layers for r in p["rules"] if may_allow or r["decision"] != "allow"]

    def command(self, command: SimpleCommand, parse: Program, agent: str) -> tuple[list[Any], list[list[Any]]]:
        """The hits on the command itself, and on each effect."""
        own = [
            hit
            for policy, rule in self.rules()
            if not speaks_of_effects(rule["when"])
            for hit in self.rule(policy, rule, command, None, parse, agent)
        ]
        nothing = (self.layers[0][0]["defaults"]["unmatched"], None)
        if not command.effects:
            return own or [nothing], []
        found = []
        for effect in command.effects:
            hits = [
                hit
                for policy, rule in self.rules()
                if speaks_of_effects(rule["when"])
                for hit in self.rule(policy, rule, command, effect, parse, agent)
            ]
            runs_itself = effect.kind == "execute" and effect.source == "own" and effect.resolved
            if not hits and not (runs_itself and any(said == "allow" for said, _ in own)):
                hits = [nothing]
            found.append(hits)
        return own, found

    def rule(
        self,
        policy: Mapping[str, Any],
        rule: Mapping[str, Any],
        command: SimpleCommand,
        effect: Effect | None,
        parse: Program,
        agent: str,
    ) -> list[tuple[str, str]]:
        lists = policy["scopes"][rule["scope"]]
        value = holds(rule["when"], command, effect, lists, parse, agent)
        excuse = holds(rule["unless"], command, effect, lists, parse, agent) if "unless" in rule else NO
        decision = rule["decision"]
        if decision == "allow":
            return [("allow", rule["id"])] if value == YES and excuse == NO else []
        if value == NO or excuse == YES:
            return []
        if decision == "ask":
            decision = policy["defaults"]["ask"]
        return [(decision if value == YES else policy["defaults"]["maybe"], rule["id"])]


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
    return "parse" in when or "agent" in when or any(speaks_of_the_action(m) for m in inner)


def holds(
    when: Mapping[str, Any],
    command: SimpleCommand,
    effect: Effect | None,
    lists: Mapping[str, Any],
    parse: Program,
    agent: str,
) -> int:
    """All of the keys: the least certain of them."""
    return min(clause(key, value, command, effect, lists, parse, agent) for key, value in when.items())


def clause(
    key: str,
    value: Any,
    command: SimpleCommand,
    effect: Effect | None,
    lists: Mapping[str, Any],
    parse: Program,
    agent: str,
) -> int:
    effects = command.effects if effect is None else [effect]
    hidden = effect is None and not command.resolved
    match key:
        case "all":
            return min(holds(m, command, effect, lists, parse, agent) for m in value)
        case "any":
            return max(holds(m, command, effect, lists, parse, agent) for m in value)
        case "not":
            return YES - holds(value, command, effect, lists, parse, agent)
        case "program":
            if command.program is None:
                return MAYBE
            return yes(command.program in value["in"] or os.path.basename(command.program) in value["in"])
        case "effect":
            return yes(any(e.kind in value for e in effects)) or (MAYBE if hidden else NO)
        case "role":
            return yes(any(e.role in value for e in effects)) or (MAYBE if hidden else NO)
        case "unread" | "recursive":
            return yes(any(getattr(e, key) is value for e in effects)) or (MAYBE if hidden else NO)
        case "resolved":
            return yes((command.resolved if effect is None else effect.resolved) is value)
        case "parse":
            return yes(parse.status in value)
        case "agent":
            return yes(any(text["glob"] == agent for text in value))
        case "via" | "inside":
            return yes(any(v in getattr(command, key) for v in value))
        case "flags":
            return flags(value, command)
        case "effects":
            return kinds(value, command)
        case "flow":
            here = YES if "to" not in value else holds(value["to"], command, effect, lists, parse, agent)
            return min(here, comes_from(value, command, effect, lists, parse, agent))
        case "env":
            return max([setting(e, value, lists) for e in effects if e.kind == "environment"], default=NO)
        case "names":
            named = [
                e for e in effects if e.kind not in (*FILES[:-1], "network", "listen") and (e.operand or "")[:1] != "/"
            ]
            answers = [called(e, value, lists) for e in named]
            if "any_in" in value:
                return max([*answers, MAYBE if hidden else NO])
            return min([YES - a for a in answers] + [MAYBE] * hidden) if answers or hidden else NO
        case "paths":
            return paths(
                value,
                [e for e in effects if e.kind in FILES and (e.kind != "execute" or (e.operand or "")[:1] == "/")],
                hidden,
                lists,
            )
    raise AssertionError(key)


def comes_from(
    value: Mapping[str, Any],
    command: SimpleCommand,
    effect: Effect | None,
    lists: Mapping[str, Any],
    program: Program,
    agent: str,
) -> int:
    """How surely data of one command that `from` holds for can come here: each is looked at by itself."""
    if isinstance(program, Untraced):
        return MAYBE
    source, ways = value["from"], frozenset(value["through"]) if "through" in value else None
    flows, best = Flows(program, Links().names), NO
    for number, origin in enumerate(program.commands):
        said: list[tuple[int, Effect | None]] = [(holds(source, origin, None, lists, program, agent), None)]
        if speaks_of_effects(source):
            found = [(holds(source, origin, e, lists, program, agent), e) for e in origin.effects]
            unseen = not origin.effects or (not origin.resolved and not any(e.unread for e in origin.effects))
            more = (
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


def setting(effect: Effect, wanted: Mapping[str, list[str]], lists: Mapping[str, Any]) -> int:
    """Is it one of these variables, set to places that all lie there? (Here all places are absolute.)"""
    if effect.operand not in wanted["any"]:
        return NO
    if "value_in" not in wanted:
        return YES
    if effect.role in ("printed", "expanded"):
        return NO
    if effect.value is None:
        return MAYBE
    patterns = [p for name in wanted["value_in"] for p in (lists[name[1:]] if name == "$list" else [name])]
    return yes(all(lies_in(entry, patterns) for entry in effect.value.split(":")))


def called(effect: Effect, wanted: Mapping[str, list[str]], lists: Mapping[str, Any]) -> int:
    """Is its name one of these?"""
    if effect.operand is None or not (effect.resolved or effect.kind == "execute" or effect.role == "assignment"):
        return MAYBE
    names = [n for names in wanted.values() for name in names for n in (lists[name[1:]] if name == "$list" else [name])]
    return yes(any(re.fullmatch(re.escape(n).replace(r"\*", ".*"), effect.operand, re.DOTALL) for n in names))


def flags(wanted: Mapping[str, list[str]], command: SimpleCommand) -> int:
    sure = command.flags_complete and command.resolved
    answers = []
    for key, names in wanted.items():
        given = [name in command.flags for name in names]
        if key == "none":
            answers.append(NO if any(given) else (YES if sure else MAYBE))
        else:
            answers.append(YES if (any if key == "any" else all)(given) else (NO if sure else MAYBE))
    return min(answers)


def kinds(wanted: Mapping[str, list[str]], command: SimpleCommand) -> int:
    found = {e.kind for e in command.effects}
    answers = []
    for key, names in wanted.items():
        if key == "only":
            answers.append(NO if found - set(names) else (YES if command.resolved else MAYBE))
        else:
            so = bool(found & set(names)) if key == "any" else set(names) <= found
            answers.append(YES if so else (NO if command.resolved else MAYBE))
    return min(answers)


def paths(wanted: Mapping[str, Any], touched: list[Effect], hidden: bool, lists: Mapping[str, Any]) -> int:
    answers = []
    for key, names in wanted.items():
        patterns = [p for name in names for p in (lists[name[1:]] if name[:1] == "$" and name[:2] != "${" else [name])]
        if key == "any_within":
            seen = [some(e, patterns) for e in touched]
            answers.append(max([*seen, MAYBE if hidden else NO]))
        elif key == "contents_of":
            seen = [contents(e, patterns) for e in touched]
            answers.append(max([*seen, MAYBE if hidden else NO]))
        else:
            seen = [every(e, patterns) if key == "all_within" else YES - every(e, patterns) for e in touched]
            answers.append(min([*seen, MAYBE if hidden else YES]) if seen else (MAYBE if hidden else NO))
    return min(answers)


def some(effect: Effect, patterns: list[str]) -> int:
    if effect.operand is None or effect.below or effect.pattern or effect.recursive:
        return PathSet(patterns, {"PROJECT": PROJECT, "HOME": HOME}).some(effect, Links())
    if not (effect.resolved or effect.unread):
        return MAYBE
    return yes(lies_in(effect.operand, patterns))


def contents(effect: Effect, patterns: list[str]) -> int:
    if effect.operand is None or effect.below or (effect.pattern and not effect.contents):
        return PathSet(patterns, {"PROJECT": PROJECT, "HOME": HOME}).contents(effect, Links())
    if effect.contents:
        return yes(lies_in(effect.operand, patterns))
    return NO if effect.resolved or effect.unread else MAYBE


def every(effect: Effect, patterns: list[str]) -> int:
    if effect.operand is None or effect.below or effect.pattern or effect.recursive:
        return PathSet(patterns, {"PROJECT": PROJECT, "HOME": HOME}).every(effect, Links())
    if not (effect.resolved or effect.unread):
        return MAYBE
    return yes(lies_in(effect.operand, patterns))


def lies_in(path: str, patterns: list[str]) -> bool:
    plain = os.path.normpath(path)
    for pattern in patterns:
        full = pattern.replace("${PROJECT}", PROJECT).replace("~", HOME)
        regex = re.escape(full).replace(r"/\*\*", "(/.*)?").replace(r"\*\*/", "/(.*/)?").replace(r"\*", "[^/]*")
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
    st.sampled_from(["read", "write", "append", "delete", "execute", "network", "move"]), min_size=1, max_size=3
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
    "flags": st.dictionaries(st.sampled_from(["any", "all", "none"]), _FLAGS, min_size=1, max_size=2),
    "effects": st.dictionaries(st.sampled_from(["any", "all", "only"]), _KINDS, min_size=1, max_size=2),
    "paths": st.dictionaries(
        st.sampled_from(["any_within", "all_within", "none_within", "contents_of"]), _PATHS, min_size=1, max_size=2
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
_ALLOWED = st.fixed_dictionaries({"effect": st.lists(st.sampled_from(["read", "write", "delete"]), min_size=1), "paths": st.fixed_dictionaries({"all_within": _PATHS})}) | st.fixed_dictionaries({"effects": st.fixed_dictionaries({"only": st.lists(st.sampled_from(["read", "write"]))}), "resolved": st.just(True)}) | st.just({"program": ["cat", "rm", "frob"]})  # fmt: skip
_RULES = st.one_of(
    st.fixed_dictionaries({"decision": st.sampled_from(["ask", "deny"]), "when": _WHEN}, optional={"unless": _FLAT}),
    st.fixed_dictionaries({"decision": st.just("allow"), "when": _ALLOWED}, optional={"unless": _FLAT}),
)
_POLICIES = st.fixed_dictionaries(
    {
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
        "cp a ~/b", "mv a b", "cat a > /srv/x", "cat < /etc/hosts >> log", "git push -f", "git status", "curl https://example.org",
        "./x.sh", "bash x.sh", "frob -f x", "curl https://example.org > x.sh", "x=$(cat .env)", "tee /srv/y", "sh", 'sh -c "$x"', "$X y", "cat $OPTS a", "echo hi", "x=1", "ls ../y", "find . -delete", "cat --frob a", "",
        "rm -rf /srv/*", "rm -r ~/.*", "PYTHONPATH=/srv/x cat a", "PYTHONPATH=/srv:${PROJECT} frob".replace("${PROJECT}", PROJECT),
        "export PYTHONPATH=/srv/y${PYTHONPATH:+:$PYTHONPATH}", "PYTHONPATH=$D cat a", "printenv PYTHONPATH", "PATH=/srv ls",
    ]
)  # fmt: skip
_AROUND = st.sampled_from(
    ["{}", "sudo {}", "bash -c '{}'", "echo $({})", "for i in 1 2; do {}; done", "cd /srv; {}", "({})"]
)
_ONE = st.builds(lambda around, simple: around.format(simple or "true"), _AROUND, _SIMPLE)
_COMMANDS = (
    st.lists(_ONE, max_size=3).map(" && ".join)
    | st.lists(_ONE, min_size=1, max_size=2).map(" | ".join)
    | _ONE.map(lambda c: f"{c}; echo '")
)


def policy_file(folder: Path, name: str, policy: Mapping[str, Any]) -> Path:
    rules = [{"id": f"{name}-{n}", **rule} for n, rule in enumerate(policy["rules"])]
    path = folder / f"{name}.yaml"
    path.write_text(
        json.dumps({"version": 1, "policy": name, "lists": {"list": ["/opt/**", "/srv/y"]}, **policy, "rules": rules})
    )
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
    director = Director(layers, project=PROJECT, environ={"HOME": HOME})
    reference = Reference([(layer.policy.body, layer.trusted) for layer in layers])
    for command in (*commands, *commands):  # no answer changes a later one
        action = Action(command, cwd=PROJECT, agent="mini")
        decision = director.evaluate(action)
        verdict, rules, parts = reference.judge(director.program(action), "mini")
        found = [(str(part.verdict), [str(e.verdict) for e in part.judged]) for part in decision.parts]
        assert (str(decision.verdict), set(decision.rules), found) == (verdict, rules, parts), command
