"""The rules that hold on one day (UTC), compiled, and the digest of all that decides."""

from collections.abc import Mapping, Sequence
from hashlib import sha256

from humanlayer_agent.canonical_json import canonical, encodable
from humanlayer_agent.policy.conditions.compiler import Compiler
from humanlayer_agent.policy.conditions.evaluation import Rules
from humanlayer_agent.policy.conditions.link_targets import Links
from humanlayer_agent.policy.conditions.rule_matcher import VERDICTS, CompiledRule, compiled
from humanlayer_agent.policy.layers import Layer


class InForce:
    """The rules of `layers` on `day`. Thread-safe.

    Raises:
        PolicyError: a rule names a variable that is not known, or a path pattern is none.
    """

    def __init__(self, layers: Sequence[Layer], variables: Mapping[str, str], day: str) -> None:
        self.day = day
        self.digest = _digest(layers, variables, day)
        base = next(layer for layer in layers if layer.base)
        self.rules = Rules(_compiled_rules(layers, variables, day), VERDICTS[base.policy.defaults.unmatched])


def _digest(layers: Sequence[Layer], variables: Mapping[str, str], day: str) -> str:
    """SHA-256 over the canonical JSON of the layers and the values of the variables."""
    texts = []
    for layer in layers:
        policy = layer.policy
        text = policy.deciding(policy.on(day))
        trusted = "true" if layer.trusted else "false"
        texts.append(f'{{"authority":{canonical(layer.authority).decode()},{text[1:-1]},"trusted":{trusted}}}')
    values = canonical({name: encodable(value) for name, value in sorted(variables.items())}).decode()
    return sha256(f'{{"layers":[{",".join(texts)}],"variables":{values}}}'.encode()).hexdigest()


def _compiled_rules(layers: Sequence[Layer], variables: Mapping[str, str], day: str) -> list[CompiledRule]:
    """The rules of `layers` that hold on `day`, but for the allow rules of those that may not allow."""
    out: list[CompiledRule] = []
    may_allow = True
    given = {"policies": tuple("${" + name + "}" for name in variables if name.startswith("POLICY_FILE_"))}
    links = Links()
    for layer in layers:
        policy = layer.policy
        compilers = [Compiler({**scope, **given}, variables, links) for scope in policy.scopes]
        for rule in policy.on(day):
            if rule.decision != "allow" or (may_allow and layer.trusted):
                out.append(compiled(rule, layer.authority, policy.defaults, compilers[rule.scope]))
        may_allow = may_allow and not policy.defaults.locked
    return out
