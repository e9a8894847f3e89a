"""What is known of a policy before its rules are compiled; it is kept beside the policy in its compiled form.

One command meets a dozen of fifty rules, and to compile all of them takes longer than to judge it. So a Director that
judges one action (see `inforce`) asks which rules can concern it. That is sound only where the others could not have
been an error, so nothing is known of a policy of which that is not sure; nor of one with overrides, which depends on
the day.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.conditions.compiler import Compiler
from humanlayer_agent.policy.conditions.path_patterns import PathSet
from humanlayer_agent.policy.conditions.rule_matcher import limits
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.layers.current_rules import LONGEST

_PATTERN = re.compile(r"(?:/|\*\*/|~(?:/|\Z)|\$\{([A-Z0-9_]+)\})((?:[^$\0]|\$(?!\{))*)")
"""A path pattern with at most one variable, at its beginning."""


def known(policy: Policy) -> dict[str, Any] | None:
    """What is known of `policy`, as plain data; None where nothing is.

    `limits` are those of each rule (see `compiled.Limits`), `variables` the names that its path patterns begin with,
    `text` is its part of what a Director's digest is over.
    """
    if any(rule.override is not None or rule.overridden is not None for rule in policy.rules):
        return None
    compilers = [_Recorder({**scope, "policies": ()}) for scope in policy.scopes]
    try:
        for rule in policy.rules:
            for match in (rule.when, rule.unless):
                if match is not None:
                    compilers[rule.scope].match(match)
        text = policy.deciding(policy.rules)
    except (PolicyError, ValueError, LookupError):  # it will be told where the rules are compiled
        return None
    variables = {"HOME"}
    for pattern in (text for compiler in compilers for text in compiler.recorded):
        found = _PATTERN.fullmatch(pattern)
        if found is None or len(pattern) > LONGEST:
            return None
        if found[1] is not None:
            variables.add(found[1])
    return {
        "limits": [
            [by_effect, _listed(programs), _listed(kinds)]
            for by_effect, programs, kinds in (limits(rule) for rule in policy.rules)
        ],
        "variables": sorted(variables),
        "text": text,
    }


def _listed(names: Collection[str] | None) -> list[str] | None:
    return sorted(names) if names is not None else None


class _Recorder(Compiler):
    """Compiles to see which path patterns are asked for."""

    def __init__(self, lists: Mapping[str, Sequence[str]]) -> None:
        super().__init__(lists, {})
        self.recorded: list[str] = []

    def paths(self, names: Sequence[str]) -> PathSet:
        self.recorded += self.texts(names)
        return PathSet((), {})
