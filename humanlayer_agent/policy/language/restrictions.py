"""What can be said of the rules of one file by themselves: ids stand once, and no allow lets arbitrary code through."""

from humanlayer_agent.policy.language import yaml_positions
from humanlayer_agent.policy.language.schema import Match, Policy


def check_rules(document: yaml_positions.Document, policy: Policy) -> None:
    """Raises PolicyError (file:line:column) for an id that stands twice, or an allow that is too broad."""
    seen: set[str] = set()
    for n, rule in enumerate(policy.rules):
        if rule.id in seen:
            raise document.error(("rules", n, "id"), f"the rule id {rule.id!r} stands twice")
        seen.add(rule.id)
        if rule.decision == "allow" and broad(rule.when):
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
    """Would an allow on this condition let arbitrary code through?"""
    if when.effect is not None:
        narrowed = when.program or when.hosts or when.role or when.resolved or _narrow(when)
        return bool(_RISKY & set(when.effect)) and not narrowed
    if when.effects is not None and when.effects.only is not None:
        return "execute" in when.effects.only and when.program is None
    if when.program is not None:
        if when.program.in_ is None:
            return True
        names = {name.rpartition("/")[2] for name in when.program.in_}
        return bool(_INTERPRETERS & names) and not (when.subcommand or when.operands or when.argv)
    if when.all is not None:
        return all(broad(m) for m in when.all)
    if when.any is not None:
        return any(broad(m) for m in when.any)
    return True


def _narrow(when: Match) -> bool:
    if when.paths is not None and when.paths.all_within is not None:
        return True
    names = when.names.any_in if when.names is not None else None
    return names is not None and not any(set(name) <= {"*", "?"} for name in names)
