"""The output of `hla policy explain --why-not allow`: what stands in the way of a command, and what would have to
change.
"""

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from humanlayer_agent.cli.policy.show import STYLES
from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.explanation.explain import Explanation, Part, described, origin_of
from humanlayer_agent.policy.explanation.why_not import Obstacle, changes, obstacles
from humanlayer_agent.safe_text import one_line


def print_why_not(explanation: Explanation, console: Console) -> None:
    """A tree of what is not allowed, with the rules in the way and the allows that come nearest; then the changes."""
    if explanation.decision.verdict is Verdict.ALLOW:
        console.print("It is allowed: nothing stands in the way.")
        return
    found = obstacles(explanation)
    for part in explanation.parts:
        mine = [obstacle for obstacle in found if obstacle.command is part.command]
        console.print(_tree(part, mine))
    wanted = changes(explanation)
    console.print()
    console.print(Text("To be allowed:" if len(wanted) == 1 else "To be allowed, all of this would be needed:", "bold"))
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(justify="right", style="dim")
    table.add_column(overflow="fold")
    for number, change in enumerate(wanted, 1):
        table.add_row(f"{number}.", Text(one_line(change)))
    console.print(Padding(table, (0, 0, 0, 2), expand=False))


def _tree(part: Part, found: list[Obstacle]) -> Tree:
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


def _verdict(verdict: Verdict) -> Text:
    return Text(f"{verdict!s:5} ", style=STYLES[str(verdict)])
