"""The things of an action that a human must approve, one by one: a grant has to cover each (`approvals.grants`)."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import Hit
from humanlayer_agent.policy.conditions.link_targets import Links, led_to
from humanlayer_agent.policy.decision import Ask, Limits, Verdict
from humanlayer_agent.policy.needs_line import ROLE, asked_for
from humanlayer_agent.shell import Effect, Program, SimpleCommand

COMMAND = "command"
"""The kind of an ask that is about a command as a whole."""

NEVER = Limits(scopes=())
_FETCHES: Mapping[str, frozenset[str] | None] = {
    **dict.fromkeys(("curl", "wget", "pip", "npm", "yarn", "pnpm", "go", "cargo", "mvn", "gradle", "apt-get", "apt")),
    **dict.fromkeys(("ping", "ping6", "traceroute", "tracepath", "dig", "nslookup", "host", "drill")),
    "git": frozenset({"fetch", "pull", "clone", "ls-remote"}),
}
"""Programs that get something from a host and send it nothing but the question, by their sub-commands (None: all)."""
_SENDS = re.compile(r"(data|form|upload|post|body|json|publish|request|config|header|cookie|cert|key|user).*")
"""Options of theirs by which more is sent, another method is used, or a file says what is done."""
_READ_ONLY = "service-read"
"""The role of what is only read from a service: what else an option does there is an effect of its own."""
_WHERE = frozenset({"region", "zone", "location"})
"""Attributes that say where in an account something is: to read there is to read from the same account."""
_ONLY_WRAP = frozenset({"timeout", "time", "nice", "nohup", "env", "command", "stdbuf"})
"""Wrappers that add nothing to what a command does to anything; what they set is an effect of its own."""
_ALL_BELOW = "**"
"""Stands at the end of a place where all below it is read."""
_CODE = re.compile(r" line \d+: ")
"""Stands in the origin of effects that program text has."""


def asks(program: Program, hits: Iterable[Hit], situation: Situation) -> tuple[Ask, ...]:
    """Return each thing that must be approved, once.

    Args:
        program: the action.
        hits: all that rules, or the lack of one, say of it.
        situation: what it was judged in: its links are followed in that view.
    """
    found = [_ask(hit, situation) for hit in hits if hit.verdict is Verdict.ASK]
    if program.status != "ok":
        found.append(Ask("", "", "parse", limits=NEVER))
    # An approval to run without a confinement, or with a wider one, is of this one command.
    found += [Ask("", "", "needs", operand=item, limits=NEVER) for item in _needs(program.commands)]
    return tuple(dict.fromkeys(found))


def _needs(commands: Sequence[SimpleCommand]) -> Iterable[str]:
    return [item for command in commands[-1:] for item in asked_for(command)]


def _ask(hit: Hit, situation: Situation) -> Ask:
    command, effect, rule = hit.command, hit.effect, hit.rule.rule if hit.rule is not None else None
    grant = rule.grant if rule is not None else None
    certain = hit.certain and hit.source is None
    about: dict[str, Any] = (
        _of_command(command, certain)
        if effect is None
        else {
            "kind": effect.kind,
            "role": effect.role,
            "value": effect.value or "",
            "unread": effect.unread,
            "code": _CODE.search(effect.origin) is not None,
            **_of_operand(effect, certain, situation.links),
        }
    )
    fetches = effect is not None and effect.kind == "network" and _only_fetches(command, effect)
    if effect is not None and effect.kind == "network" and not fetches:
        about["operand"] = None
    return Ask(
        rule=rule.id if rule is not None else "",
        program=command.program or "",
        verb=_verb(command, reads=fetches),
        flags=() if about.get("role") == _READ_ONLY else tuple(sorted({*command.flags, *command.options})),
        severity=rule.severity if rule is not None else "medium",
        limits=Limits(grant.scopes, grant.max_age, grant.max_uses) if grant is not None else Limits(),
        **about,
    )


def _only_fetches(command: SimpleCommand, effect: Effect) -> bool:
    """Tell whether a command certainly sends a host nothing but the question for what it gets. What else is sent could
    come from anywhere, so an approval of the host is none of that.
    """
    if not command.resolved:
        return False
    if effect.role == _READ_ONLY:
        return True
    if (
        command.program is None
        or command.program not in _FETCHES
        or any(_SENDS.fullmatch(name) for name in {*command.flags, *command.options})
    ):
        return False
    only = _FETCHES[command.program]
    return only is None or command.subcommand in only


def _of_command(command: SimpleCommand, certain: bool) -> dict[str, Any]:
    return {"kind": COMMAND, "operand": command.text if certain and command.resolved else None}


def _of_operand(effect: Effect, certain: bool, links: Links) -> dict[str, Any]:
    """Return what is certain of what an effect is done to, and where that is."""
    operand = effect.operand
    if not (certain and effect.resolved and operand) or effect.role == ROLE:
        return {}
    if effect.pattern is not None:
        return _of_pattern(effect, effect.pattern, links)
    if not operand.startswith("/"):
        return {"operand": operand}
    parent, name = posixpath.split(posixpath.normpath(operand))
    places = [links.view.real(operand), posixpath.join(links.view.real(parent), name)]
    if effect.kind == "read" and effect.recursive:
        places = [posixpath.join(place, _ALL_BELOW) for place in places]
    return {"operand": operand, "places": tuple(dict.fromkeys(places))}


def _of_pattern(effect: Effect, pattern: str, links: Links) -> dict[str, Any]:
    """Return the same of what is read by a pattern: all that it stands for lies below its first part, and where links
    lead that it would go through.
    """
    led = led_to(effect, links) if effect.kind == "read" and ".." not in pattern.split("/") else None
    if led is None or effect.operand is None or not effect.operand.startswith("/"):
        return {}
    rest = pattern.removeprefix(effect.operand.rstrip("/") + "/")
    if rest == pattern:
        return {}
    places = (posixpath.join(links.view.real(effect.operand), rest), *led)
    return {"operand": pattern, "places": tuple(dict.fromkeys(places))}


def _verb(command: SimpleCommand, *, reads: bool) -> tuple[str, ...]:
    """Return what of a command has to be the same: an approval of a pull is none of a push, nor one elsewhere.

    Args:
        reads: what is asked about sends nothing and changes nothing, by whichever sub-command.
    """
    attributes = [name for name in sorted(command.attributes) if not (reads and name in _WHERE)]
    named = [f"{name}={value}" for name in attributes for value in command.attributes[name]]
    through = [f"via={each}" for each in command.via if each not in _ONLY_WRAP]
    return ("" if reads else command.subcommand or "", *sorted(command.verbs), *named, *through)
