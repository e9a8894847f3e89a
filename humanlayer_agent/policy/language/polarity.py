"""Where a `flow` may stand: it may only make a verdict stricter.

That data can come somewhere is over-approximated (`shell.dataflow`), so that it does is no proof: an attacker adds
`echo x |` to have an exception apply. That it can't come there is.
"""

from humanlayer_agent.policy.language import yaml_positions
from humanlayer_agent.policy.language.schema import Match, Policy
from humanlayer_agent.policy.language.yaml_positions import Key


def check_flows(document: yaml_positions.Document, policy: Policy) -> None:
    """Raises PolicyError (file:line:column) for a `flow` that lets more through where it holds."""
    for n, rule in enumerate(policy.rules):
        stops = rule.decision != "allow"
        for name, match, stricter in (("when", rule.when, stops), ("unless", rule.unless, not stops)):
            at = _loosening(match, ("rules", n, name), stricter) if match is not None else None
            if at is not None:
                raise document.error(
                    at,
                    f"rule {rule.id}: a flow would let more through here, and that data can come somewhere is no "
                    "proof. It may stand in `when` of a rule that asks or denies, in `unless` of an allow, and below "
                    "`not` in the other two",
                )


def _loosening(match: Match, path: tuple[Key, ...], stricter: bool) -> tuple[Key, ...] | None:
    """Where a flow stands that lets more through; `stricter`: where `match` holds, the verdict is stricter."""
    if match.flow is not None:
        if not stricter:
            return (*path, "flow")
        inner = [(match.flow.from_, (*path, "flow", "from"), True)]
        if match.flow.to is not None:
            inner.append((match.flow.to, (*path, "flow", "to"), True))
    else:
        inner = []
    inner += [(m, (*path, "any", n), stricter) for n, m in enumerate(match.any or ())]
    inner += [(m, (*path, "all", n), stricter) for n, m in enumerate(match.all or ())]
    if match.not_ is not None:
        inner.append((match.not_, (*path, "not"), not stricter))
    return next((found for m, at, way in inner if (found := _loosening(m, at, way)) is not None), None)
