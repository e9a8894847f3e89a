"""`hla policy`: look at the rules, ask why, test them, trust a project's."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from humanlayer_agent.policy.director import Director
    from humanlayer_agent.policy.model import Policy

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Named = Annotated[str | None, typer.Option("--policy", help="A shipped policy's name, or a file; default: the layers.")]
Project = Annotated[Path | None, typer.Option("--project", help="Directory the agent works for.")]


@app.command()
def show(
    policy: Named = None,
    project: Project = None,
    format: Annotated[Literal["text", "json"], typer.Option(help="text or json")] = "text",
) -> None:
    """Show the policies in force: layers and their authority, every rule with where it stands, what is overridden.

    Example: hla policy show
    """
    from humanlayer_agent.cli.policy_view import print_json, print_layers

    director = _director(policy, project)
    (print_json if format == "json" else print_layers)(director)


@app.command()
def explain(
    command: Annotated[str, typer.Argument(help="The command line.")],
    policy: Named = None,
    project: Project = None,
    cwd: Annotated[Path | None, typer.Option("--cwd", help="Directory the command starts in.")] = None,
    why_not: Annotated[
        Literal["allow", "ask", "deny"] | None,
        typer.Option("--why-not", help="Show all rules of this decision that missed."),
    ] = None,
) -> None:
    """Explain a decision: what would run, its effects, the rules that decide, and those that nearly did.

    Example: hla policy explain 'rm -rf build && cat /etc/passwd'
    """
    from humanlayer_agent.actions import Action
    from humanlayer_agent.cli.check import start_of
    from humanlayer_agent.cli.explained import print_explanation
    from humanlayer_agent.policy.explain import explain as explained

    director = _director(policy, project)
    start = str(cwd.absolute()) if cwd is not None else start_of(director)
    print_explanation(explained(director, Action(command, cwd=start)), command, why_not)


@app.command("test")
def run_tests(
    policies: Annotated[
        list[str] | None, typer.Argument(help="Names of shipped policies, or files; default: the layers.")
    ] = None,
    project: Project = None,
    format: Annotated[Literal["text", "json", "junit"], typer.Option(help="text, json or junit")] = "text",
) -> None:
    """Run the tests that stand in the rules: decision and rule are asserted, every failure is shown.

    Example: hla policy test ./policy.yaml
    """
    from humanlayer_agent.cli.policy_results import print_results
    from humanlayer_agent.policy import examples

    results = [(policy, list(examples.run(policy))) for policy in _policies(policies or [], project)]
    print_results(results, format)
    if any(not result.passed for _, found in results for result in found):
        raise typer.Exit(1)


@app.command()
def trust(
    project: Project = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Trust it no longer.")] = False,
) -> None:
    """Trust a project's own policy, after you have read it: then it may also allow what nothing else decides.

    Example: hla policy trust --project ~/src/app
    """
    from humanlayer_agent.cli.trusting import trust_project
    from humanlayer_agent.config import checked_project, find_project

    base = checked_project(project) if project is not None else find_project()
    raise typer.Exit(trust_project(base, withdraw=withdraw))


def _director(policy: str | None, project: Path | None) -> "Director":
    from humanlayer_agent.config import build_director

    return build_director(policy, project=project)


def _policies(names: Sequence[str], project: Path | None) -> "list[Policy]":
    from humanlayer_agent.policy.load import find, load

    if names:
        return [load(find(name)) for name in names]
    return [layer.policy for layer in _director(None, project).layers]
