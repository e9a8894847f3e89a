"""The things of an action that a human must approve, one by one: a grant has to cover each (`approvals.grants`)."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import Hit, severest
from humanlayer_agent.policy.conditions.link_targets import Links, led_to
from humanlayer_agent.policy.decision import COMMAND, Ask, Limits, Verdict
from humanlayer_agent.policy.language.policy import Match, Rule
from humanlayer_agent.policy.needs_line import ROLE, asked_for
from humanlayer_agent.shell import Effect, Program, SimpleCommand

LOOSE = "loose"
"""The kind of an ask for what only a confinement allows, where the approval of something else opens that."""
ALL_BELOW = "all below"
"""The value of an ask about all that is below its operand."""
ANY = "*"
"""Stands in what a plan asks for, where it says nothing of the program, or of its words."""

NEVER = Limits(scopes=())
MAX_ASKS = 200
"""An action of which more has to be approved is approved as it stands, and never remembered."""
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
FETCHERS = frozenset(_FETCHES)
_SENDS = re.compile(
    r"(data|form|upload|post|body|json|publish|request|config|header|cookie|cert|key|user|quote|recurse).*"
)
"""Options of theirs by which more is sent, another method is used, or a file (`.gitmodules`) says what is done."""
_ASKED = re.compile(r"(?:https?|ftp|ssh|git)://\S+|[^:/?#\s]+(?::\d+)?(?:[/?#]\S*)?", re.IGNORECASE)
"""What names a host that is asked by a protocol which sends no more than the question does (not gopher, nor telnet)."""
_READ_ONLY = "service-read"
"""The role of what is only read from a service: what else an option does there is an effect of its own."""
_WHERE = frozenset({"region", "zone", "location"})
"""Attributes that say where in an account something is: to read there is to read from the same account."""
_BY_ANY_WORDS = frozenset({"redirect", "database", _READ_ONLY})
_PLAIN_WRAPPERS = frozenset({"timeout", "nice", "ionice", "time", "nohup", "stdbuf", "command", "env"})
"""Programs under which another one does the same; the variables that they set are effects of their own."""
_HOME = re.compile(r"(?:/[^/]+)*/(?:root|(?:home|homes|Users)(?:/[^/]+)?)\Z")
_LEAST_DEPTH = 2
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
    asking = [hit for hit in hits if hit.verdict is Verdict.ASK]
    if len(asking) > MAX_ASKS:
        return (Ask("", "", "many", severity=severest(asking), limits=NEVER),)
    found = [_ask(hit, situation.links) for hit in asking]
    found += _let_loose(program, hits, situation)
    if program.status != "ok":
        found.append(Ask("", "", "parse", limits=NEVER))
    # An approval to run without a confinement, or with a wider one, is of this one command.
    found += [Ask("", "", "needs", operand=item, limits=NEVER) for item in _needs(program.commands)]
    return tuple(dict.fromkeys(found))


def _needs(commands: Sequence[SimpleCommand]) -> Iterable[str]:
    return [item for command in commands[-1:] for item in asked_for(command)]


def planned(hit: Hit, links: Links, program: str) -> tuple[Ask, ...]:
    """Return what has to be approved of an effect that is only planned: by whichever words, and where no program is
    named, by whichever program. A package is got by its sub-command and no other words.

    Args:
        hit: what a rule certainly says of it.
        links: where they lead.
        program: that is named; "" where none is.
    """
    effect = hit.effect
    if effect is None:
        return (_ask(hit, links),)
    if effect.kind == "package":
        return (replace(_ask(hit, links), operand=effect.operand, flags=(hit.command.subcommand or "",)),)
    about = _of_operand(replace(effect, recursive=False), hit.certain, links)
    ask = replace(_ask(hit, links), program=program or ANY, verb=(ANY,), flags=(), value=effect.value or "", **about)
    if effect.kind == "read":
        return (replace(ask, program=""),)
    return (replace(ask, role=ANY),) if ask.places else (ask,)


def is_wide(directory: str) -> bool:
    """Tell whether too much lies below a directory for an approval of all of it."""
    return directory.count("/") < _LEAST_DEPTH or _HOME.match(directory) is not None


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
    gets = {id(hit.command) for hit in hits if hit.verdict is Verdict.ASK and _is_about_packages(hit.effect)}
    about: dict[tuple[int, int], list[Hit]] = {}
    for hit in hits:
        about.setdefault((id(hit.command), id(hit.effect)), []).append(hit)
    for each in about.values():
        hit = each[0]
        if id(hit.command) in gets and _is_code_of_package(hit.effect):
            continue  # who approves a package approves what it does
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


def _is_about_packages(effect: Effect | None) -> bool:
    return effect is not None and effect.kind == "package"


def _is_code_of_package(effect: Effect | None) -> bool:
    return effect is not None and (effect.kind, effect.role) == ("execute", "package")


def _is_unknown_code(effect: Effect | None) -> bool:
    return effect is not None and effect.kind == "execute" and (effect.unread or effect.role not in _FOLLOWED)


def _ask(hit: Hit, links: Links) -> Ask:
    command, effect, rule = hit.command, hit.effect, hit.rule.rule if hit.rule is not None else None
    certain = hit.certain and hit.source is None
    about: dict[str, Any] = (
        _of_command(command, certain)
        if effect is None
        else {
            "kind": effect.kind,
            "role": effect.role,
            "value": _value(command, effect),
            "unread": effect.unread,
            "code": effect.in_code,
            **_of_operand(effect, certain, links),
        }
    )
    if effect is not None and effect.kind == "network" and not _only_fetches(command, effect):
        about["operand"] = None
    in_place = effect is not None and _is_of_place(effect, about)
    words = _words(command, effect)
    if words is None or (in_place and command.cwd is None):
        about["operand"] = None
    return Ask(
        rule=rule.id if rule is not None else "",
        program=command.program or "",
        verb=_verb(command, reads=about.get("role") == _READ_ONLY, in_place=in_place),
        flags=words or (),
        severity=rule.severity if rule is not None else "medium",
        limits=_limits(rule),
        **about,
    )


def _limits(rule: Rule | None) -> Limits:
    """Return how far an approval may be remembered: of what hangs on the content of files, for this content alone."""
    grant = rule.grant if rule is not None else None
    limits = Limits(grant.scopes, grant.max_age, grant.max_uses) if grant is not None else Limits()
    if rule is not None and _is_of_content(rule.when):
        return limits.within(Limits(("action",)))
    return limits


def _is_of_content(match: Match) -> bool:
    inner = (*(match.any or ()), *(match.all or ()), *([match.negated] if match.negated is not None else []))
    return match.content is not None or any(map(_is_of_content, inner))


def _value(command: SimpleCommand, effect: Effect) -> str:
    if effect.kind == "package" and effect.role not in _NAMED:
        named = any(each.kind == "package" and each.role in _NAMED for each in command.effects)
        return "what it names" if named else ""
    return effect.value or (ALL_BELOW if effect.recursive or effect.contents else "")


def _words(command: SimpleCommand, effect: Effect | None) -> tuple[str, ...] | None:
    """Return the words by which a command does more or less, in their order: all but those that only name what it is
    done to, of which rules say something by themselves. None where one of them is not known.

    By a redirection it is the shell that writes, whatever the words say. What is read is read by whichever words, of a
    file as of a service, and a database is written by whichever statements: what else they do, or where else they ask,
    is an effect or an attribute by itself.
    """
    if effect is not None and (effect.role in _BY_ANY_WORDS or effect.kind == "read"):
        return ()
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
    if not operand or not operand.startswith("/"):
        return {"operand": operand} if known and not effect.pattern else {}
    if known and effect.pattern and (matched := _matched(effect.pattern, effect, links)):
        return {"operand": effect.pattern, "places": matched}
    parent, name = posixpath.split(posixpath.normpath(operand))
    places = (links.view.real(operand), posixpath.join(links.view.real(parent), name))
    if effect.kind == "write" and operand.endswith("/"):  # a directory that something is put into
        places = (f"{places[0]}/", f"{places[1]}/")
    known = known and not effect.pattern
    return {"operand": operand if known else None, "places": tuple(dict.fromkeys(places))}


def _matched(pattern: str, effect: Effect, links: Links) -> tuple[str, ...]:
    """Return where all is that is read by a pattern, as patterns and paths: below its part without wildcards, and where
    links lead that it goes through; nothing where that is not known, or where something else is done than to read.
    """
    above = (effect.operand or "").rstrip("/") + "/"
    led = led_to(effect, links) if effect.kind == "read" else None
    if led is None or not pattern.startswith(above) or ".." in pattern.split("/"):
        return ()
    return tuple(dict.fromkeys((posixpath.join(links.view.real(above), pattern.removeprefix(above)), *led)))


def _is_of_place(effect: Effect, about: Mapping[str, Any]) -> bool:
    """Tell whether what is done depends on the directory in which the command runs."""
    anywhere = effect.kind == "process" or (effect.kind == "network" and effect.role in ("operand", _READ_ONLY))
    return not about.get("places") and not anywhere


def _verb(command: SimpleCommand, *, reads: bool, in_place: bool) -> tuple[str, ...]:
    """Return what of a command has to be the same: an approval of a pull is none of a push, nor one elsewhere.

    Args:
        reads: it is about what is only read from a service: there whichever sub-command reads is the same.
        in_place: what it is about depends on the directory.
    """
    attributes = [name for name in sorted(command.attributes) if not (reads and name in _WHERE)]
    named = [f"{name}={value}" for name in attributes for value in command.attributes[name]]
    more = [f"via={each}" for each in command.via if each not in _PLAIN_WRAPPERS]
    more += [f"path={command.path}"] if command.path else []
    more += [f"in={each}" for each in command.cwd or ()] if in_place else []
    return ("" if reads else command.subcommand or "", *sorted(command.verbs), *named, *more)
