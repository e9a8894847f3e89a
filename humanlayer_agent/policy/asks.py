"""The things of an action that a human must approve, one by one: a grant has to cover each (`approvals.grants`)."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import Hit
from humanlayer_agent.policy.conditions.link_targets import Links, led_to
from humanlayer_agent.policy.decision import Ask, Limits, Verdict
from humanlayer_agent.policy.needs_line import ROLE, asked_for
from humanlayer_agent.shell import Effect, Program, SimpleCommand

COMMAND = "command"
"""The kind of an ask that is about a command as a whole."""
LOOSE = "loose"
"""The kind of an ask for what only a confinement allows, where the approval of something else opens that."""

NEVER = Limits(scopes=())
_FETCHES: Mapping[str, frozenset[str] | None] = {
    "curl": None,
    "wget": None,
    **dict.fromkeys(("ping", "ping6", "traceroute", "tracepath", "dig", "nslookup", "host", "drill")),
    "git": frozenset({"fetch", "pull", "clone", "ls-remote"}),
    "pip": frozenset({"install", "download", "wheel", "index"}),
    **dict.fromkeys(("npm", "yarn", "pnpm"), frozenset({"install", "add", "ci", "view", "info", "outdated"})),
    "go": frozenset({"get", "mod download", "mod tidy"}),
    "cargo": frozenset({"add", "fetch", "install", "search", "update"}),
    **dict.fromkeys(("apt-get", "apt"), frozenset({"install", "update"})),
}
"""Programs that get something from a host and send it nothing but the question, by their sub-commands (None: all)."""
_SENDS = re.compile(r"(data|form|upload|post|body|json|publish|request|config|header|cookie|cert|key|user|quote).*")
"""Options of theirs by which more is sent, another method is used, or a file says what is done."""
_ASKED = re.compile(r"(?:https?|ftp|ssh|git)://\S+|[^:/?#\s]+(?::\d+)?(?:[/?#]\S*)?", re.IGNORECASE)
"""What names a host that is asked by a protocol which sends no more than the question does (not gopher, nor telnet)."""
_READ_ONLY = "service-read"
"""The role of what is only read from a service, by whichever sub-command."""
_WHERE = frozenset({"region", "zone", "location"})
"""Attributes that say where in an account something is: to read there is to read from the same account."""
_SHOWS = re.compile(
    r"output|query|json|jq|template|limit|format|filters?|max-items|page-size|no-paginate|state|label|author|search|"
    r"sort-by|selector|wide|tail|since|previous"
)
"""Options of what is read from a service that say what of it is shown."""
_ALL_BELOW = "**"
"""Stands at the end of a place where all below it is read."""
_PLAIN_WRAPPERS = frozenset({"timeout", "nice", "ionice", "time", "nohup", "stdbuf", "command"})
"""Programs under which another one does the same."""
_CODE = re.compile(r" line \d+: ")
"""Stands in the origin of effects that program text has."""
_NAMED = frozenset({"operand", "redirect", "list"})
_CHANGES = frozenset({"write", "append", "delete", "move", "metadata"})
_FOLLOWED = frozenset({"script", "import", "code"})
"""Roles of code whose effects stand beside it."""


def asks(program: Program, hits: Sequence[Hit], situation: Situation) -> tuple[Ask, ...]:
    """Return each thing that must be approved, once.

    Args:
        program: the action, with all that it may do, whatever holds it.
        hits: all that rules, or the lack of one, say of it.
        situation: what it was judged in: its links are followed in that view.
    """
    found = [_ask(hit, situation) for hit in hits if hit.verdict is Verdict.ASK]
    found += _let_loose(program, hits, situation)
    if program.status != "ok":
        found.append(Ask("", "", "parse", limits=NEVER))
    # An approval to run without a confinement, or with a wider one, is of this one command.
    found += [Ask("", "", "needs", operand=item, limits=NEVER) for item in _needs(program.commands)]
    return tuple(dict.fromkeys(found))


def _needs(commands: Sequence[SimpleCommand]) -> Iterable[str]:
    return [item for command in commands[-1:] for item in asked_for(command)]


def _let_loose(program: Program, hits: Sequence[Hit], situation: Situation) -> Iterator[Ask]:
    """Return an ask for all that nobody knows well, and that is allowed because it is held: what the approval of
    something else opens for the same action, to that it is open too. Who approves the action sees it; of what is
    granted nobody would.
    """
    held, approved = situation.confinement, situation.approved
    if held is None or approved is None:
        return
    more = [profile for profile in approved.profiles if profile not in held.profiles]
    if not any(profile.write or profile.lift or profile.network != "none" for profile in more):
        return
    asked = {id(hit.command) for hit in hits if hit.verdict is Verdict.ASK}
    about: dict[tuple[int, int], list[Hit]] = {}
    for hit in hits:
        about.setdefault((id(hit.command), id(hit.effect)), []).append(hit)
    for each in about.values():
        hit = each[0]
        if all(hit.verdict is Verdict.ALLOW for hit in each) and (
            all(_only_held(hit) for hit in each) or (_is_unknown_code(hit.effect) and id(hit.command) not in asked)
        ):
            yield Ask("", hit.command.program or "", LOOSE)
    for command in program.commands:
        for effect in command.effects:
            if effect.kind in ("network", "listen") and not (effect.resolved and effect.sure):
                yield Ask("", command.program or "", LOOSE)


def _only_held(hit: Hit) -> bool:
    """Tell whether a hit allows only what a confinement holds."""
    return hit.rule is not None and (hit.rule.rule.only_confined or hit.rule.verdict is not Verdict.ALLOW)


def _is_unknown_code(effect: Effect | None) -> bool:
    return effect is not None and effect.kind == "execute" and (effect.unread or effect.role not in _FOLLOWED)


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
            "value": _value(command, effect),
            "unread": effect.unread,
            "code": _CODE.search(effect.origin) is not None,
            **_of_operand(effect, certain, situation.links),
        }
    )
    fetches = effect is not None and effect.kind == "network" and _only_fetches(command, effect)
    if effect is not None and effect.kind == "network" and not fetches:
        about["operand"] = None
    words = _words(command, effect)
    if words is None or (effect is not None and _is_of_place(effect, about) and command.cwd is None):
        about["operand"] = None
    return Ask(
        rule=rule.id if rule is not None else "",
        program=command.program or "",
        verb=_verb(command, effect, in_place=effect is not None and _is_of_place(effect, about)),
        flags=words or (),
        severity=rule.severity if rule is not None else "medium",
        limits=Limits(grant.scopes, grant.max_age, grant.max_uses) if grant is not None else Limits(),
        **about,
    )


def _value(command: SimpleCommand, effect: Effect) -> str:
    if effect.kind == "package" and effect.role not in _NAMED:
        named = any(each.kind == "package" and each.role in _NAMED for each in command.effects)
        return "what it names" if named else ""
    more = effect.kind != "read" and (effect.recursive or effect.contents)
    return effect.value or ("all below" if more else "")


def _words(command: SimpleCommand, effect: Effect | None) -> tuple[str, ...] | None:
    """Return the words by which a command does more or less, in their order: all but those that only name what it is
    done to, of which rules say something by themselves. None where one of them is not known.

    By a redirection it is the shell that writes, whatever the words say.
    """
    if effect is not None and effect.role == "redirect":
        return ()
    if effect is not None and effect.role == _READ_ONLY:
        given = [*command.flags, *(f"{name}={value}" for name, values in command.options.items() for value in values)]
        return tuple(sorted(word for word in given if not _only_shows(word.partition("=")[0])))
    named = {
        effect.span
        for effect in command.effects
        if effect.resolved
        and effect.operand
        and (not effect.pattern or effect.kind == "read")
        and (effect.role in _NAMED or effect.kind in _CHANGES)
    }
    found = []
    for field in command.words[1:]:
        text = field.text
        if (field.start, field.end) in named:
            option = re.match(r"-[^=]*=?", text) if text is not None else None
            found += [option[0]] if option else []
        elif text is None:
            return None
        else:
            found.append(text)
    return tuple(found) if command.words else None


def _only_shows(option: str) -> bool:
    """Tell whether an option of what is only read from a service says what of it is shown, or where in an account."""
    return option in _WHERE or _SHOWS.fullmatch(option) is not None


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
    if only is None and not all(each is not None and _ASKED.fullmatch(each) for each in command.operands):
        return False
    return only is None or command.subcommand in only


def _of_command(command: SimpleCommand, certain: bool) -> dict[str, Any]:
    return {"kind": COMMAND, "operand": command.text if certain and command.resolved else None}


def _of_operand(effect: Effect, certain: bool, links: Links) -> dict[str, Any]:
    """Return what is certain of what an effect is done to, and where that is."""
    operand = effect.operand
    known = bool(certain and effect.resolved and operand) and effect.role != ROLE
    if known and effect.pattern is not None:
        return _of_pattern(effect, effect.pattern, links)
    if not operand or not operand.startswith("/"):
        return {"operand": operand} if known else {}
    parent, name = posixpath.split(posixpath.normpath(operand))
    places = [links.view.real(operand), posixpath.join(links.view.real(parent), name)]
    if effect.kind == "read" and effect.recursive:
        places = [posixpath.join(place, _ALL_BELOW) for place in places]
    return {"operand": operand if known else None, "places": tuple(dict.fromkeys(places))}


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


def _is_of_place(effect: Effect, about: Mapping[str, Any]) -> bool:
    """Tell whether what is done depends on the directory in which the command runs."""
    return not about.get("places") and (effect.kind, effect.role) != ("network", "operand")


def _verb(command: SimpleCommand, effect: Effect | None, *, in_place: bool) -> tuple[str, ...]:
    """Return what of a command has to be the same: an approval of a pull is none of a push, nor one elsewhere."""
    only_reads = effect is not None and effect.role == _READ_ONLY
    attributes = [name for name in sorted(command.attributes) if not (only_reads and name in _WHERE)]
    named = [f"{name}={value}" for name in attributes for value in command.attributes[name]]
    more = [f"via={each}" for each in command.via if each not in _PLAIN_WRAPPERS]
    more += [f"path={command.path}"] if command.path else []
    more += [f"in={each}" for each in command.cwd or ()] if in_place else []
    return ("" if only_reads else command.subcommand or "", *sorted(command.verbs), *named, *more)
