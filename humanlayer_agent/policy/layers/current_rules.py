"""The rules that hold on one day (UTC), compiled, and the digest of all that decides."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from threading import Lock

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.policy.conditions.compiler import Compiler
from humanlayer_agent.policy.conditions.evaluation import Rules
from humanlayer_agent.policy.conditions.path_patterns import MAX_PATTERN, PathIndex
from humanlayer_agent.policy.conditions.rule_matcher import VERDICTS, CompiledRule, compiled, within
from humanlayer_agent.policy.language.policy import Policy, Rule
from humanlayer_agent.policy.layers import Layer
from humanlayer_agent.shell.program import Program

LONGEST = MAX_PATTERN // 2
"""A path pattern of this length is none too long with a variable of this length filled in."""

Wanted = set[tuple[str | None, str | None]]
"""The programs, each with the kinds of its effects (None: the program itself) that are to be judged."""


class InForce:
    """The rules of `layers` on `day`. Thread-safe.

    Args:
        once: one action is to be judged, so no more rules are compiled than can concern it.

    Raises:
        PolicyError: a rule names a variable that is not known, or a path pattern is none.
    """

    def __init__(self, layers: Sequence[Layer], variables: Mapping[str, str], day: str, *, once: bool = False) -> None:
        self.day = day
        self.digest = _digest(layers, variables, day)
        self._layers, self._variables = layers, variables
        self._lock = Lock()
        self._all: Rules | None = None
        self._once = once and all(_known_ahead(layer.policy, variables) for layer in layers)
        if not self._once:
            self._all = self._compiled(None)

    @property
    def rules(self) -> Rules:
        """All of them."""
        if self._all is None:
            with self._lock:
                self._all = self._all or self._compiled(None)
        return self._all

    def judging(self, program: Program) -> Rules:
        """Those that judge `program`, at least. Where one action is judged after all, they are made for it alone."""
        if self._all is not None:
            return self._all
        if not self._once or not program.commands:
            return self.rules
        self._once = False
        if any(command.uses for command in program.commands):
            return self.rules  # which of them are effects, any rule may say
        wanted: Wanted = {(command.program, None) for command in program.commands}
        wanted |= {(command.program, effect.kind) for command in program.commands for effect in command.effects}
        return self._compiled(wanted)

    def _compiled(self, wanted: Wanted | None) -> Rules:
        base = next(layer for layer in self._layers if layer.base)
        unmatched = VERDICTS[base.policy.defaults.unmatched]
        return Rules(_compiled_rules(self._layers, self._variables, self.day, wanted), unmatched)


def _known_ahead(policy: Policy, variables: Mapping[str, str]) -> bool:
    """Is so much known of `policy` that with these values of the variables none of its rules can be an error?"""
    ahead = policy.ahead
    return (
        ahead is not None
        and len(ahead["limits"]) == len(policy.body["rules"])
        and all(name in variables for name in ahead["variables"])
        and all(v.startswith("/") and len(v) <= LONGEST and "\0" not in v for v in variables.values())
    )


def _concerning(policy: Policy, wanted: Wanted) -> list[Rule]:
    """The rules of a policy that is known ahead, where they can concern what is `wanted`."""
    limits = policy.ahead["limits"] if policy.ahead is not None else ()
    return [policy.rule(n) for n, each in enumerate(limits) if any(within(each, *pair) for pair in wanted)]


def _digest(layers: Sequence[Layer], variables: Mapping[str, str], day: str) -> str:
    """SHA-256 over the canonical JSON of the layers and the values of the variables."""
    texts = []
    for layer in layers:
        policy = layer.policy
        text = policy.ahead["text"] if policy.ahead is not None else policy.deciding(policy.on(day))
        trusted = "true" if layer.trusted else "false"
        texts.append(f'{{"authority":{canonical(layer.authority).decode()},{text[1:-1]},"trusted":{trusted}}}')
    values = canonical({name: encodable(value) for name, value in sorted(variables.items())}).decode()
    return sha256(f'{{"layers":[{",".join(texts)}],"variables":{values}}}'.encode()).hexdigest()


def _compiled_rules(
    layers: Sequence[Layer], variables: Mapping[str, str], day: str, wanted: Wanted | None
) -> list[CompiledRule]:
    """The rules of `layers` that hold on `day`, but for the allow rules of those that may not allow.

    Of policies that are known ahead, only those that can concern what is `wanted`.
    """
    out: list[CompiledRule] = []
    may_allow = True
    given = {"policies": tuple("${" + name + "}" for name in variables if name.startswith("POLICY_FILE_"))}
    index = PathIndex()
    for layer in layers:
        policy = layer.policy
        compilers = [Compiler({**scope, **given}, variables, index) for scope in policy.scopes]
        for rule in policy.on(day) if wanted is None else _concerning(policy, wanted):
            if rule.decision != "allow" or (may_allow and layer.trusted):
                out.append(compiled(rule, layer.authority, policy.defaults, compilers[rule.scope]))
        may_allow = may_allow and not policy.defaults.locked
    return out
