"""The output of `hla policy show`: the policies in force. What the log says of their rules, for `hla policy docs`."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from humanlayer_agent.cli.shared.records import CatalogFileRecord, LayerRecord, LayersRecord
from humanlayer_agent.cli.shared.store_access import open_store
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.explanation.explain import flow
from humanlayer_agent.policy.language.extension import KNOWN_LISTS
from humanlayer_agent.policy.language.policy import Rule, RuleException, end_of
from humanlayer_agent.policy.language.sources import BUILTIN
from humanlayer_agent.policy.layers import Layer, excuses
from humanlayer_agent.policy_tools.handbook import Use
from humanlayer_agent.safe_text import one_line

STYLES = {"allow": "green", "ask": "yellow", "deny": "red"}
_AUTHORITY = {
    "machine": "the machine's: may allow; nobody below weakens it",
    "user": "yours: may allow",
    "builtin": "shipped: stands in where machine and user have none",
    "given": "named by --policy: the whole policy, no layer is read",
}


def print_layers(director: Director, console: Console | None = None) -> None:
    """Layers, the highest first; in each the rules in the order in which they are named."""
    console = console or Console()
    for layer in director.layers:
        _print_layer(console, director, layer)
    for file in director.catalogs.files:
        said = f"catalog {one_line(file.path)}  {file.sha256[:12]}  ({file.owner}'s: {len(file.programs)} programs)"
        console.print(Text(said, style="dim"), soft_wrap=True)
    for path, why in director.catalogs.ignored:
        console.print(
            Text(f"catalog {one_line(path)} is not in force: {one_line(why)}", style="yellow"), soft_wrap=True
        )
    console.print(Text(f"digest {director.digest}", style="dim"))


def _print_layer(console: Console, director: Director, layer: Layer) -> None:
    policy, now = layer.policy, director.in_force().now
    console.print(Text(f"{policy.name}", style="bold") + Text(f"  ({authority(layer)})"))
    for source in reversed(policy.sources):
        shown = f"{source.name}" if not source.name.startswith(BUILTIN) else f"{source.name} ({source.path})"
        console.print(
            Padding(Text(f"{one_line(shown)}  {source.sha256[:12]}", style="dim"), (0, 0, 0, 2), expand=False)
        )
    defaults = policy.defaults
    said = (
        f"unmatched: {defaults.unmatched}, maybe: {defaults.maybe}, unparsed: {defaults.unparsed}, ask: {defaults.ask}"
    )
    locked = ", locked" if defaults.locked else ""
    observed = ", observe: true (not enforced)" if policy.observe else ""
    console.print(Padding(Text(f"defaults: {said}{locked}{observed}"), (0, 0, 0, 2), expand=False))
    for rule in policy.rules:
        line = Text(f"{rule.decision:5} ", style=STYLES[rule.decision] if rule.holds(now) else "dim")
        line += Text(f"{rule.id:24} ", style="" if rule.holds(now) else "dim strike") + Text(f"{rule.severity:8}")
        console.print(Padding(line + Text(f"  {one_line(rule.origin)}", style="dim"), (0, 0, 0, 2), expand=False))
        for note in notes(layer, rule, now):
            console.print(Padding(Text(one_line(note), style="italic"), (0, 0, 0, 8), expand=False))
    for exception, why in _above(director, layer):
        said = f"except {exception.rule:22} {exception_note(exception, now)}"
        console.print(Padding(Text(one_line(said)), (0, 0, 0, 2), expand=False))
        if why:
            console.print(Padding(Text(why, style="italic"), (0, 0, 0, 8), expand=False))
    for name in sorted(KNOWN_LISTS):  # they stand in no file of the policy
        entries = dict.fromkeys(entry for scope in policy.scopes for entry in scope.get(name, ()))
        if entries:
            console.print(
                Padding(Text(one_line(f"${name}: {' '.join(entries)}"), style="dim"), (0, 0, 0, 2), expand=False)
            )
    console.print()


def authority(layer: Layer) -> str:
    """Return what a layer may do, in words."""
    if layer.authority != "project":
        return _AUTHORITY[layer.authority]
    if layer.trusted:
        return "the project's, trusted: may also allow what nothing else decides"
    return "the project's, not trusted: may only ask and deny (hla policy trust)"


def notes(layer: Layer, rule: Rule, now: str) -> list[str]:
    """Return what is special about a rule, a sentence each."""
    found = []
    if rule.locked:
        found.append("locked: can't be overridden")
    if rule.overridden is not None:
        by = rule.overridden
        found.append(f"overridden by {by.rule} {_until(by.expires, now)}: {by.reason}")
    if rule.override is not None:
        own = rule.override
        found.append(f"overrides {own.rule} {_until(own.expires, now)}: {own.reason}")
    found += [exception_note(each, now) for each in rule.exceptions]
    if rule.decision == "allow" and not layer.trusted:
        found.append("does not count: the project's policy is not trusted")
    return found


def exception_note(exception: RuleException, now: str) -> str:
    """Return what an exception excuses, until when and why."""
    what = f"{flow(exception.written['when'])} ({exception.origin})"
    return f"excuses {_until(exception.expires, now)} {what}: {exception.reason}"


def _until(expires: str, now: str) -> str:
    return f"until {expires}" if now < end_of(expires) else f"expired on {expires}"


def _above(director: Director, layer: Layer) -> Iterator[tuple[RuleException, str]]:
    """The exceptions of a layer to rules above it, each with why it does not count; "" where it does."""
    now = director.in_force().now
    for exception in layer.policy.exceptions:
        rules = [(each, rule) for each in director.layers for rule in each.policy.rules if rule.id == exception.rule]
        counts = any(excuses.reaches_above(director.layers, layer, each, rule) for each, rule in rules)
        if layer.authority == "project" and not layer.trusted:
            yield exception, "does not count: the project's policy is not trusted"
        elif not exception.holds(now) or counts:
            yield exception, ""
        else:
            yield exception, "does not count: no layer above has such a rule that this one may excuse from"


def record(director: Director) -> LayersRecord:
    """The same for programs."""
    now = director.in_force().now
    layers: list[LayerRecord] = [
        {
            "policy": layer.policy.name,
            "authority": layer.authority,
            "trusted": layer.trusted,
            "observe": layer.policy.observe,
            "defaults": layer.policy.body["defaults"],
            "sources": layer.policy.body["sources"],
            "lists": list(layer.policy.body["scopes"]),
            "rules": [_rule(layer, rule, now) for rule in layer.policy.rules],
            "exceptions": [
                {**each.written, "in_force": each.holds(now) and not why} for each, why in _above(director, layer)
            ],
        }
        for layer in director.layers
    ]
    catalogs: list[CatalogFileRecord] = [
        {"path": each.path, "owner": each.owner, "sha256": each.sha256, "programs": sorted(each.programs)}
        for each in director.catalogs.files
    ]
    return {"digest": director.digest, "observe": director.observe, "layers": layers, "catalogs": catalogs}


def _rule(layer: Layer, rule: Rule, now: str) -> dict[str, Any]:
    counts = rule.holds(now) and (layer.trusted or rule.decision != "allow")
    return {**rule.written, "in_force": counts, "notes": notes(layer, rule, now)}


def uses(store: str | None) -> dict[str, Use] | None:
    """Return by rule what the log says of it; None where there is no log yet."""
    from humanlayer_agent.report.facts import Facts, Wanted

    try:
        opened = open_store(store)
    except ConfigError:
        if store is not None:
            raise
        return None  # no agent has run here
    with closing(opened):
        found = Facts(Wanted()).collect(opened.events())
    return {name: Use(use.applied, use.decided["ask"], use.ends["approved"]) for name, use in found.rules.items()}
