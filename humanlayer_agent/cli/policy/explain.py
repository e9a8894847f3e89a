"""The output of `hla policy explain`: the command with what decides underlined, and a tree of its parts; with
`--why-not allow` what stands in its way, and what would have to change.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from humanlayer_agent.cli.check import public as decision_record
from humanlayer_agent.cli.policy.show import STYLES
from humanlayer_agent.cli.shared.records import EffectRecord, ExplainedCommandRecord, ExplainedRecord, ExplanationRecord
from humanlayer_agent.policy.conditions.evaluation import CompiledRule, Hit
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.effect_phrases import whole
from humanlayer_agent.policy.explanation.explain import Explanation, Finding, Part, Tried, described, origin_of
from humanlayer_agent.policy.explanation.why_not import Obstacle, changes, obstacles
from humanlayer_agent.policy.verdict import attributes_of
from humanlayer_agent.safe_text import characters, one_line


def print_explanation(
    explanation: Explanation, command: str, why_not: str | None = None, console: Console | None = None
) -> None:
    """Print it all.

    Args:
        command: the text that was judged.
        why_not: show every rule of this decision that missed (allow: what stands in the way, and what would have to
            change); else those that nearly applied.
    """
    console = console or Console(highlight=False)
    decision = explanation.decision
    for line in underlined(command, decision.spans, max(20, console.width)):
        console.print(Text(line), soft_wrap=True)
    console.print()
    _print_decision(console, decision)
    console.print()
    if why_not == "allow":
        _print_why_not(explanation, console)
        return
    for part in explanation.parts:
        console.print(_tree(part, why_not))


def record(explanation: Explanation, command: str, why_not: str | None = None) -> ExplanationRecord:
    """The same for programs; `missed` has every rule that could have applied."""
    wanted = why_not == "allow" and explanation.decision.verdict is not Verdict.ALLOW
    return {
        "command": command,
        "decision": decision_record(explanation.decision),
        "spans": [list(span) for span in explanation.decision.spans],
        "parts": [_part(part) for part in explanation.parts],
        "changes": list(changes(explanation)) if wanted else [],
    }


def _part(part: Part) -> ExplainedCommandRecord:
    command = part.command
    return {
        "command": command.text,
        "verdict": str(part.verdict),
        "via": list(command.via),
        "inside": list(command.inside),
        "unresolved": list(command.unresolved),
        "attributes": {name: list(values) for name, values in command.attributes.items()},
        "found": [_found(finding) for finding in (part.own, *part.effects)],
    }


def _found(finding: Finding) -> ExplainedRecord:
    return {
        "effect": cast("EffectRecord", finding.effect.public()) if finding.effect is not None else None,
        "verdict": str(finding.verdict),
        "hits": [
            {
                "rule": hit.rule.rule.id if hit.rule is not None else None,
                "verdict": str(hit.verdict),
                "certain": hit.certain,
                "origin": hit.rule.rule.origin if hit.rule is not None else None,
            }
            for hit in finding.hits
        ],
        "missed": [
            {
                "rule": tried.rule.rule.id,
                "decision": tried.rule.rule.decision,
                "because": list(tried.because),
                "excused_by": tried.excuse.by.origin if tried.excuse is not None else None,
                "origin": tried.rule.rule.origin,
            }
            for tried in finding.missed
        ],
    }


def underlined(command: str, spans: Sequence[tuple[int, int]], width: int) -> Iterator[str]:
    """The lines of a command made safe to show, and below each what `spans` cover, marked.

    Args:
        spans: [start, end) in code points of `command`.
        width: columns; longer lines are broken, text and mark together.
    """
    marked = {i for start, end in spans for i in range(start, end)}
    text, marks, used = "", "", 0
    for i, (shown, _) in enumerate(characters(command, keep="\n")):
        if shown == "\n":
            yield from _pair(text, marks)
            text, marks, used = "", "", 0
            continue
        cells = cell_len(shown)
        if used + cells > width:
            yield from _pair(text, marks)
            text, marks, used = "", "", 0
        text, used = text + shown, used + cells
        marks += ("^" if i in marked else " ") * cells
    yield from _pair(text, marks)


def _pair(text: str, marks: str) -> Iterator[str]:
    yield text
    if marks.strip():
        yield marks.rstrip()


def _print_decision(console: Console, decision: PolicyDecision) -> None:
    rules = ", ".join(decision.rules) or "no rule"
    console.print(Text(str(decision.verdict), style=f"bold {_style(decision.verdict)}") + Text(f"  ({rules})"))
    if decision.confined_line:
        console.print(Text(f"  {one_line(decision.confined_line)}"))
    if decision.reason:
        console.print(Text(f"  {one_line(decision.reason)}"))
    if decision.suggestion:
        console.print(Text(f"  instead: {one_line(decision.suggestion)}"))
    if decision.parse != "ok":
        console.print(Text(f"  parse: {decision.parse}: {one_line('; '.join(decision.parse_reasons))}"))


def _tree(part: Part, why_not: str | None) -> Tree:
    command = part.command
    head = _verdict(part.verdict) + Text(one_line(command.text), style="bold")
    around = [*(f"via {v}" for v in command.via), *(f"inside {i}" for i in command.inside)]
    if around:
        head.append(f"  [{', '.join(around)}]", style="dim")
    tree = Tree(head, guide_style="dim")
    tree.add(Text(whole(command)))
    if command.unresolved:
        tree.add(Text(f"not known: {one_line(', '.join(command.unresolved))}"))
    if command.attributes:
        tree.add(Text(f"in: {one_line(attributes_of(command))}"))
    _add_rules(tree, part.own, why_not)
    for finding in part.effects:
        if finding.effect is not None:
            branch = tree.add(_verdict(finding.verdict) + Text(described(finding.effect)))
            _add_rules(branch, finding, why_not)
    return tree


def _add_rules(branch: Tree, finding: Finding, why_not: str | None) -> None:
    for hit in finding.hits:
        if hit.rule is not None:
            branch.add(_hit(hit))
        elif hit.verdict is not Verdict.ALLOW:
            branch.add(Text(f"no rule allows this: {hit.verdict}"))
    wanted = finding.near if why_not is None else [t for t in finding.missed if t.rule.rule.decision == why_not]
    for tried in wanted:
        branch.add(_missed(tried))


def _hit(hit: Hit) -> Text:
    rule = hit.rule
    assert rule is not None
    certain = "" if hit.certain else " (can't be ruled out)"
    where = f"{certain} - {origin_of(rule)}"
    return Text("rule ") + Text(rule.rule.id, style=_style(hit.verdict)) + Text(where, style="dim")


def _missed(tried: Tried) -> Text:
    rule = tried.rule.rule
    what = f"not {rule.id} ({rule.decision}): {'; '.join(one_line(b) for b in tried.because)}"
    return Text(f"{what} - {origin_of(tried.rule)}", style="dim")


def _verdict(verdict: Verdict) -> Text:
    return Text(f"{verdict!s:5} ", style=_style(verdict))


def _style(verdict: Verdict) -> str:
    return STYLES[str(verdict)]


# ---- what stands in the way ---------------------------------------------------------------------------------


def _print_why_not(explanation: Explanation, console: Console) -> None:
    """A tree of what is not allowed, with the rules in the way and the allows that come nearest; then the changes."""
    if explanation.decision.verdict is Verdict.ALLOW:
        console.print("It is allowed: nothing stands in the way.")
        return
    found = obstacles(explanation)
    for part in explanation.parts:
        mine = [obstacle for obstacle in found if obstacle.command is part.command]
        console.print(_obstacle_tree(part, mine))
    wanted = changes(explanation)
    console.print()
    console.print(Text("To be allowed:" if len(wanted) == 1 else "To be allowed, all of this would be needed:", "bold"))
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(justify="right", style="dim")
    table.add_column(overflow="fold")
    for number, change in enumerate(wanted, 1):
        table.add_row(f"{number}.", Text(one_line(change)))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _obstacle_tree(part: Part, found: list[Obstacle]) -> Tree:
    around = [*(f"via {v}" for v in part.command.via), *(f"inside {i}" for i in part.command.inside)]
    head = _verdict(part.verdict) + Text(one_line(part.command.text), style="bold")
    if around:
        head.append(f"  [{', '.join(around)}]", style="dim")
    tree = Tree(head, guide_style="dim")
    for obstacle in found:
        what = described(obstacle.effect) if obstacle.effect is not None else "the command itself"
        branch = tree.add(_verdict(obstacle.verdict) + Text(what))
        for hit in obstacle.standing:
            assert hit.rule is not None
            may = "stands in the way" if hit.certain else "may apply"
            branch.add(Text(f"{may}: ").append_text(_rule(hit.rule)))
        if obstacle.allowed:
            branch.add(Text(f"else allowed by {', '.join(obstacle.allowed)}", style="dim"))
        for tried in obstacle.nearest:
            because = Text(f": {'; '.join(one_line(b) for b in tried.because)}", style="dim")
            branch.add(Text("nearest: ").append_text(_rule(tried.rule)).append_text(because))
        if not obstacle.allowed and not obstacle.nearest and obstacle.effect is not None:
            branch.add(Text(f"no allow is about effects of the kind {obstacle.effect.kind}", style="dim"))
    return tree


def _rule(rule: CompiledRule) -> Text:
    text = Text(rule.rule.id, style=STYLES[rule.rule.decision])
    return text.append(f" ({rule.rule.decision}, {origin_of(rule)})", style="dim")
