"""Rules name routes, and channels files say which there are: a name that is none is a mistake in the policy."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from humanlayer_agent.errors import PolicyError, did_you_mean
from humanlayer_agent.policy.language import sources
from humanlayer_agent.policy.language.policy import Policy, Rule


def check_routes(policies: Iterable[Policy], known: Collection[str]) -> None:
    """Raise PolicyError (file:line:column) for the first rule whose route is none of `known`.

    Args:
        policies: those that are in force together.
        known: names of routes.
    """
    for policy, rule in unknown_routes(policies, known):
        raise _error(policy, rule, known)


def unknown_routes(policies: Iterable[Policy], known: Collection[str]) -> Iterator[tuple[Policy, Rule]]:
    """Each rule whose route is none of `known`, with its policy."""
    return ((policy, rule) for policy in policies for rule in policy.rules if name_of(rule) not in known)


def name_of(rule: Rule) -> str:
    """The name of the route that `rule` is asked by."""
    return rule.route if isinstance(rule.route, str) else rule.route.name


def _error(policy: Policy, rule: Rule, known: Collection[str]) -> PolicyError:
    hint = did_you_mean(name_of(rule), known)
    message = f"rule {rule.id}: there is no route {name_of(rule)!r}, and so nobody could approve it; {hint}"
    name = rule.origin.rpartition(":")[0]
    source = next((each for each in policy.sources if each.name == name), None)
    if source is not None:
        raw = sources.read(Path(source.path))
        if hashlib.sha256(raw).hexdigest() == source.sha256:
            from humanlayer_agent.policy.language import yaml_positions

            document = yaml_positions.decode(raw, name)
            number = next(n for n, written in enumerate(document.data["rules"]) if written["id"] == rule.id)
            return document.error(("rules", number, "route"), message)
    return PolicyError(f"{rule.origin}: {message}")
