"""A plan: what a task will need, handed in before it starts, so that a human is asked once.

It says effects with operands that are certain, never commands. Each is judged by the rules as if it happened, and what
they ask about is put before a human as one request; what that approval covers is a grant like any other
(`approvals.grants`). A plan is no action: nothing runs by it.

    network example.org by curl
    read /srv/docs
    write /srv/data
    package requests by pip
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from humanlayer_agent.confine.hosts import literal, parsed, written
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.asks import FETCHERS, is_wide, planned
from humanlayer_agent.policy.conditions.compiler import Situation
from humanlayer_agent.policy.conditions.evaluation import Hit, Judged, Rules
from humanlayer_agent.policy.decision import Ask, PolicyDecision, Verdict
from humanlayer_agent.policy.language.field_types import milliseconds
from humanlayer_agent.policy.verdict import decided
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import Effect, EffectKind, Program, SimpleCommand, absolute_path, plain_path

MAX_NEEDS = 50
"""Most things that one plan asks for: a human reads all of them."""
FORMS = "network HOST[:PORT] by PROGRAM, read PATH, write PATH, write PATH by PROGRAM, package NAME by PROGRAM"
HTTPS = 443
"""The port of a host where none is named."""

_COMMENT = "# needs:"
_LASTS = re.compile(r"for (\d+[a-z])")
_PROGRAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_PACKAGE = re.compile(r"(?:@[\w.-]+/)?[A-Za-z0-9][\w.-]*")
_INSTALLERS: Mapping[str, str] = {"pip": "install", "npm": "install", "yarn": "add", "pnpm": "add", "cargo": "add"}
"""Programs that packages are planned for, with the sub-command by which they get one."""
_NOT_CERTAIN = frozenset("*?[]{}$`~\"'\\;|&<>\n\r\t")
_KEYS = frozenset({"effect", "host", "path", "name", "program"})
_NAMES: Mapping[str, str] = {"network": "host", "read": "path", "write": "path", "package": "name"}
"""What the operand of each effect is called in YAML."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a task needs.

    Args:
        effect: network, read, write or package.
        operand: a host with its port, the absolute path of a file or a directory (then all below it), or a package.
        program: the program that will do it; "" for any.

    Example:
        >>> str(Need("network", "example.org:443", "curl"))
        'network example.org:443 by curl'
    """

    effect: str
    operand: str
    program: str = ""

    def __str__(self) -> str:
        return f"{self.effect} {self.operand}" + (f" by {self.program}" if self.program else "")


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a task needs.

    Args:
        needs: one by one.
        lasts: for how long ("2h"); "" until the run ends.
        why: what it is for, in words: untrusted, and shown as such.

    Example:
        >>> print(read_plan("read /srv/docs, write out", "/srv/data").text)
        until the run ends
        read /srv/docs
        write /srv/data/out
    """

    needs: tuple[Need, ...]
    lasts: str = ""
    why: str = ""

    @property
    def text(self) -> str:
        """Return it as it is shown, hashed and approved: a line for each thing."""
        return "\n".join([f"for {self.lasts}" if self.lasts else "until the run ends", *map(str, self.needs)])

    @property
    def lasts_ms(self) -> int:
        """Return for how long it lasts (ms); 0 until the run ends."""
        length: int = milliseconds(self.lasts) if self.lasts else 0
        return length


def read_plan(text: str, cwd: str) -> Plan:
    """Read a plan: YAML with `needs`, or lines of the forms that `# needs:` has.

    Args:
        text: of the plan.
        cwd: paths in it are relative to this directory.

    Raises:
        ConfigError: it says what no plan says: which part, and what it may say.

    Example:
        >>> plan = read_plan("needs: [{effect: write, path: data}, read /srv/docs]\\nfor: 2h", "/srv/app")
        >>> [str(need) for need in plan.needs], plan.lasts
        (['write /srv/app/data', 'read /srv/docs'], '2h')
    """
    body = _mapping(text)
    plan = _of_lines(text, cwd) if body is None else _of_mapping(body, cwd)
    if not 0 < len(plan.needs) <= MAX_NEEDS:
        raise ConfigError(f"a plan needs from 1 to {MAX_NEEDS} things, and this one needs {len(plan.needs)}: {FORMS}")
    if _of_lines(plan.text, cwd) != replace(plan, why=""):  # what is shown is what is approved
        raise ConfigError("one of the names in this plan can't be planned: in a line it would be another one")
    return plan


def _mapping(text: str) -> dict[str, Any] | None:
    if not re.search(r"^needs:", text, re.MULTILINE):
        return None
    from humanlayer_agent.policy.language.yaml_positions import parse

    body = parse(text, "the plan").data
    if not isinstance(body, dict) or not set(body) <= {"needs", "for", "why"} or not isinstance(body["needs"], list):
        raise ConfigError("a plan has the keys needs (a list), for (such as 2h) and why, and no others")
    return body


def _of_mapping(body: Mapping[str, Any], cwd: str) -> Plan:
    needs = tuple(_of_item(item, cwd) for item in body["needs"])
    why = body.get("why", "")
    return Plan(needs, _lasts(body["for"]) if "for" in body else "", why if isinstance(why, str) else "")


def _of_item(item: object, cwd: str) -> Need:
    if isinstance(item, str):
        return _of_line(item, cwd)
    if not isinstance(item, dict) or not all(isinstance(value, str) for value in item.values()):
        raise ConfigError(f"{one_line(str(item))}: a need is a line ({FORMS}), or has an effect and what it is done to")
    effect = item.get("effect", "")
    name = _NAMES.get(effect)
    if name is None:
        raise ConfigError(f"{one_line(effect) or 'nothing'} is no effect that can be planned: {', '.join(_NAMES)}")
    if name not in item or not set(item) <= {"effect", name, "program"}:
        raise ConfigError(f"a need of {effect} has the keys effect, {name} and program, and no others")
    return _need(effect, item[name], item.get("program", ""), cwd)


def _of_lines(text: str, cwd: str) -> Plan:
    lines = [line.strip().removeprefix(_COMMENT).strip() for line in re.split(r"[\n,]", text)]
    said = [line for line in lines if line and not line.startswith("#")]
    lasts = ""
    if said and (said[0] == "until the run ends" or _LASTS.fullmatch(said[0])):
        first = said.pop(0)
        lasts = _lasts(first.removeprefix("for ")) if first.startswith("for ") else ""
    return Plan(tuple(_of_line(line, cwd) for line in said), lasts)


def _lasts(value: object) -> str:
    try:
        milliseconds(value)
    except ValueError as error:
        raise ConfigError(f"for: {error}") from error
    return str(value)


def _of_line(line: str, cwd: str) -> Need:
    words = " ".join(line.split())
    effect, _, rest = words.partition(" ")
    operand, by, program = rest.rpartition(" by ")
    return _need(effect, operand, program, cwd) if by else _need(effect, rest, "", cwd)


def _need(effect: str, operand: str, program: str, cwd: str) -> Need:
    said = one_line(" ".join(filter(None, (effect, operand, program and f"by {program}"))))
    if effect not in _NAMES:
        raise ConfigError(f"{said}: no effect that can be planned; a plan may say: {FORMS}")
    odd = _NOT_CERTAIN - frozenset("[]") if effect == "network" else _NOT_CERTAIN
    if not operand or not operand.isprintable() or not odd.isdisjoint(operand):
        raise ConfigError(f"{said}: what it is done to has to be written out, without patterns and variables")
    if program and not _PROGRAM.fullmatch(program):
        raise ConfigError(f"{said}: {one_line(program)} is no program's name")
    if effect == "network":
        if program not in FETCHERS:
            fetchers = ", ".join(sorted(FETCHERS))
            raise ConfigError(f"{said}: a host is planned for one of the programs that only fetch: {fetchers}")
        return Need(effect, _host(operand, said), program)
    if effect == "package":
        if program not in _INSTALLERS or not _PACKAGE.fullmatch(operand):
            raise ConfigError(f"{said}: a package is planned by its name, and by one of: {', '.join(_INSTALLERS)}")
        return Need(effect, operand, program)
    path = plain_path(absolute_path(operand, cwd))
    if ".." in path.split("/"):
        raise ConfigError(f"{said}: where this path leads is not certain")
    return Need(effect, path, program)


def _host(text: str, said: str) -> str:
    try:
        host, ports = parsed(text)
    except ValueError as error:
        raise ConfigError(f"{said}: {error}") from error
    if literal(host) is None and "." not in host and host != "localhost":
        raise ConfigError(f"{said}: {host} may be any host, and a plan names one")
    return written(host, ports[0] if len(ports) == 1 else HTTPS)


# Judging


def judged(plan: Plan, rules: Rules, situation: Situation, *, project: str, policy: str, digest: str) -> PolicyDecision:
    """Judge what a plan needs by the rules that are sure to ask about it, or to deny it.

    Args:
        rules: those in force.
        situation: without a confinement: what is planned is judged as nothing holds it.
        project: where packages would be installed.
        policy, digest: the name and the digest of the policy.

    Returns:
        The decision, which never allows: it asks, or denies.
    """
    found: list[Judged] = []
    asks: list[Ask] = []
    faults: list[str] = []
    allowed: list[str] = []
    start = len(plan.text.split("\n", 1)[0]) + 1
    for need in plan.needs:
        line = str(need)
        command = _command(need, (start, start + len(line)), project)
        start += len(line) + 1
        judged = _certainly(rules, command, situation)
        hits = [hit for hit in judged.hits() if hit.verdict is not Verdict.ALLOW]
        found.append(judged)
        if not hits:
            allowed.append(line)
            continue
        asked = [ask for hit in hits for ask in planned(hit, situation.links, need.program)]
        asks += asked
        faults += [f"{line}: {why}" for why in dict.fromkeys(_faults(need, plan, hits, asked))]
    program = Program([judged.command for judged in found])
    decision = decided(
        program, found, [], unparsed=Verdict.ASK, policy=policy, digest=digest, enforced=True, situation=situation
    )
    if not asks and not faults:
        faults.append("the policy allows all of it: nothing is to be approved")
    verdict, reason = Verdict.ASK, _asks_for(plan, allowed)
    if faults:
        verdict, reason = Verdict.DENY, f"This can't be approved by a plan: {'; '.join(faults)}."
    asks = list(dict.fromkeys(asks)) if verdict is Verdict.ASK else []
    return replace(decision, verdict=verdict, reason=reason, asks=tuple(asks), default_hit=False)


def _asks_for(plan: Plan, allowed: Sequence[str]) -> str:
    count = len(plan.needs)
    things = "1 thing" if count == 1 else f"{count} things"
    more = f" ({len(allowed)} of them allowed anyway)" if allowed else ""
    until = f"for {plan.lasts}" if plan.lasts else "until the run ends"
    return f"Asks for what a task will need, before it starts: {things}{more}, {until}. Nothing runs by it."


def _faults(need: Need, plan: Plan, hits: Sequence[Hit], asks: Sequence[Ask]) -> Iterator[str]:
    """Yield why something can't be approved ahead."""
    if need.effect in ("read", "write") and any(is_wide(place) for ask in asks for place in ask.places):
        yield "all below this directory is too much"
    if any(len(ask.places) > 1 for ask in asks):
        yield "a link stands there: name what it leads to"
    for hit in hits:
        rule = hit.rule.rule if hit.rule is not None else None
        if hit.verdict is Verdict.DENY:
            yield f"rule {rule.id} denies it" if rule is not None else "it is denied"
        elif rule is not None and rule.severity in ("high", "critical"):
            yield f"rule {rule.id} is of {rule.severity} severity"
    for ask in asks:
        if "operand" not in ask.limits.scopes or (ask.places and "directory" not in ask.limits.scopes):
            yield f"rule {ask.rule} lets no such approval be remembered"
        elif plan.lasts_ms > ask.limits.max_age:
            yield f"it may be remembered for {ask.limits.max_age // 1_000:,} seconds, and {plan.lasts} is more"


def _certainly(rules: Rules, command: SimpleCommand, situation: Situation) -> Judged:
    """Return what rules are sure to say of a command, and where none is, that nothing allows it."""
    (judged,) = rules.judge(Program([command]), replace(situation, commands=(), directories={}))
    effects = []
    for effect, hits in zip(command.effects, judged.effects, strict=True):
        sure = [hit for hit in hits if hit.certain and hit.source is None]
        effects.append(sure or [Hit(Verdict.ASK, None, command, effect, certain=True)])
    return Judged(command, [], effects)


def _command(need: Need, span: tuple[int, int], project: str) -> SimpleCommand:
    """Return something that does what is needed, and no more."""
    line = str(need)
    program = need.program or _COMMENT
    command = SimpleCommand(program, [program], span, line, cwd=(project,))

    def does(kind: EffectKind, role: str, operand: str, value: str | None = None) -> None:
        below = kind in ("read", "write", "append")
        command.effects.append(Effect(kind, role, operand, True, span, line, recursive=below, value=value))

    if need.effect == "network":
        host, ports = parsed(need.operand)
        does("network", "operand", host, str(ports[0]))
    elif need.effect == "package":
        command.subcommand = _INSTALLERS[need.program]
        does("package", "operand", need.operand)
        does("package", "itself", "install")
    elif need.effect == "read":
        does("read", "operand", need.operand)
        does("read", "list", need.operand)
    else:
        does("write", "operand", need.operand)
        does("append", "operand", need.operand)
    return command
