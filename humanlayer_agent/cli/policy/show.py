"""The output of `hla policy show`: the policies in force."""

from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from humanlayer_agent.cli.shared.records import CatalogFileRecord, LayerRecord, LayersRecord
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.extension import KNOWN_LISTS
from humanlayer_agent.policy.language.policy import Rule
from humanlayer_agent.policy.language.sources import BUILTIN
from humanlayer_agent.policy.layers import Layer
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
        _print_layer(console, layer, director.in_force().day)
    for file in director.catalogs.files:
        said = f"catalog {one_line(file.path)}  {file.sha256[:12]}  ({file.owner}'s: {len(file.programs)} programs)"
        console.print(Text(said, style="dim"), soft_wrap=True)
    for path, why in director.catalogs.ignored:
        console.print(
            Text(f"catalog {one_line(path)} is not in force: {one_line(why)}", style="yellow"), soft_wrap=True
        )
    console.print(Text(f"digest {director.digest}", style="dim"))


def _print_layer(console: Console, layer: Layer, day: str) -> None:
    policy = layer.policy
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
        line = Text(f"{rule.decision:5} ", style=STYLES[rule.decision] if rule.holds(day) else "dim")
        line += Text(f"{rule.id:24} ", style="" if rule.holds(day) else "dim strike") + Text(f"{rule.severity:8}")
        console.print(Padding(line + Text(f"  {one_line(rule.origin)}", style="dim"), (0, 0, 0, 2), expand=False))
        for note in notes(layer, rule, day):
            console.print(Padding(Text(one_line(note), style="italic"), (0, 0, 0, 8), expand=False))
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


def notes(layer: Layer, rule: Rule, day: str) -> list[str]:
    """Return what is special about a rule, a sentence each."""
    found = []
    if rule.locked:
        found.append("locked: can't be overridden")
    if rule.overridden is not None:
        by = rule.overridden
        state = "until" if by.expires >= day else "expired on"
        found.append(f"overridden by {by.rule} {state} {by.expires}: {by.reason}")
    if rule.override is not None:
        state = "until" if rule.override.expires >= day else "expired on"
        found.append(f"overrides {rule.override.rule} {state} {rule.override.expires}: {rule.override.reason}")
    if rule.decision == "allow" and not layer.trusted:
        found.append("does not count: the project's policy is not trusted")
    return found


def record(director: Director) -> LayersRecord:
    """The same for programs."""
    day = director.in_force().day
    layers: list[LayerRecord] = [
        {
            "policy": layer.policy.name,
            "authority": layer.authority,
            "trusted": layer.trusted,
            "observe": layer.policy.observe,
            "defaults": layer.policy.body["defaults"],
            "sources": layer.policy.body["sources"],
            "lists": list(layer.policy.body["scopes"]),
            "rules": [_rule(layer, rule, day) for rule in layer.policy.rules],
        }
        for layer in director.layers
    ]
    catalogs: list[CatalogFileRecord] = [
        {"path": each.path, "owner": each.owner, "sha256": each.sha256, "programs": sorted(each.programs)}
        for each in director.catalogs.files
    ]
    return {"digest": director.digest, "observe": director.observe, "layers": layers, "catalogs": catalogs}


def _rule(layer: Layer, rule: Rule, day: str) -> dict[str, Any]:
    counts = rule.holds(day) and (layer.trusted or rule.decision != "allow")
    return {**rule.written, "in_force": counts, "notes": notes(layer, rule, day)}
