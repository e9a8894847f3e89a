"""The restrictions on the rules of one file by themselves: ids stand once, and no allow lets arbitrary code through.

Where a `flow` may stand: it may only make a verdict stricter.

That data can come somewhere is over-approximated (`shell.dataflow`), so that it does is no proof: an attacker adds
`echo x |` to have an exception apply. That it can't come there is.
"""

from humanlayer_agent.policy.language import yaml_positions
from humanlayer_agent.policy.language.policy import Match
from humanlayer_agent.policy.language.schema import PolicyFile
from humanlayer_agent.policy.language.yaml_positions import Key


def check_rules(document: yaml_positions.Document, policy: PolicyFile) -> None:
    """Raises PolicyError (file:line:column) for an id that stands twice, or an allow that is too broad."""
    seen: set[str] = set()
    for n, rule in enumerate(policy.rules):
        if rule.id in seen:
            raise document.error(("rules", n, "id"), f"the rule id {rule.id!r} stands twice")
        seen.add(rule.id)
        if rule.confined is not None and rule.decision == "deny":
            raise document.error(
                ("rules", n, "confined"), f"rule {rule.id}: what a rule denies does not run, not even confined"
            )
        if rule.approved is not None and rule.decision != "ask":
            raise document.error(
                ("rules", n, "approved"),
                f"rule {rule.id}: only what a rule asks about is approved; this does not ask",
            )
        if rule.grant is not None and rule.decision == "allow":
            raise document.error(
                ("rules", n, "grant"), f"rule {rule.id}: what a rule allows needs no approval that could be remembered"
            )
        if rule.decision == "allow" and rule.confined is None and broad(rule.when):
            raise document.error(
                ("rules", n, "when"),
                f"rule {rule.id}: this allow is too broad. Name an effect with its paths or hosts, what the command "
                "may do at most (effects: {only: [...]}), or a program with its sub-command",
            )


_INTERPRETERS = frozenset(
    (
        *("bash", "sh", "dash", "zsh", "ksh", "fish", "python", "python3", "perl", "ruby", "node", "php", "lua", "awk"),
        *("gawk", "mawk", "tclsh", "sudo", "doas", "env", "xargs", "find", "git", "ssh", "eval", "make", "busybox"),
        *("nohup", "timeout", "nice", "setsid", "time", "command", "exec", "builtin", "source", ".", "docker", "npx"),
    )
)
_RISKY = frozenset({"execute", "network", "privilege", "container", "system", "persist"})


def broad(when: Match) -> bool:
    """Tell whether an allow on this condition would let arbitrary code through."""
    if when.effect is not None:
        narrowed = when.program or when.hosts or when.role or when.resolved or _narrow(when)
        return bool(_RISKY & set(when.effect)) and not narrowed
    if when.effects is not None and when.effects.only is not None:
        return "execute" in when.effects.only and when.program is None
    if when.program is not None:
        if when.program.names is None:
            return True
        names = {name.rpartition("/")[2] for name in when.program.names}
        return bool(_INTERPRETERS & names) and not (when.subcommand or when.operands or when.argv)
    if when.all is not None:
        return all(broad(m) for m in when.all)
    if when.any is not None:
        return any(broad(m) for m in when.any)
    return True


def _narrow(when: Match) -> bool:
    if when.paths is not None and when.paths.all is not None:
        return True
    names = when.names.any if when.names is not None else None
    return names is not None and not any(set(name) <= {"*", "?"} for name in names)


def check_flows(document: yaml_positions.Document, policy: PolicyFile) -> None:
    """Raises PolicyError (file:line:column) for a `flow` that lets more through where it holds."""
    for n, exception in enumerate(policy.exceptions):
        at = _loosening(exception.when, ("exceptions", n, "when"), False)
        if at is not None:
            raise document.error(
                at,
                f"exception to {exception.rule}: a flow would let more through here, and that data can come somewhere "
                "is no proof. It may stand below `not`",
            )
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
    """Return where a flow stands that lets more through; `stricter`: where `match` holds, the verdict is stricter."""
    if match.flow is not None:
        if not stricter:
            return (*path, "flow")
        inner = [(match.flow.source, (*path, "flow", "from"), True)]
        if match.flow.to is not None:
            inner.append((match.flow.to, (*path, "flow", "to"), True))
    else:
        inner = []
    inner += [(m, (*path, "any", n), stricter) for n, m in enumerate(match.any or ())]
    inner += [(m, (*path, "all", n), stricter) for n, m in enumerate(match.all or ())]
    if match.negated is not None:
        inner.append((match.negated, (*path, "not"), not stricter))
    return next((found for m, at, way in inner if (found := _loosening(m, at, way)) is not None), None)
