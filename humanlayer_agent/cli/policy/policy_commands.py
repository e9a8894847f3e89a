"""`hla policy`: look at the rules, ask why, test them, trust a project's."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from humanlayer_agent.policy.director import Director
    from humanlayer_agent.policy.language.policy import Policy

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Named = Annotated[str | None, typer.Option("--policy", help="A shipped policy's name, or a file; default: the layers.")]
Confined = Annotated[bool, typer.Option("--confined", help="As if the kernel could confine what is allowed.")]
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
    from humanlayer_agent.cli.policy.show import print_json, print_layers

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
        typer.Option("--why-not", help="Say what would have to change for this decision."),
    ] = None,
    confined: Confined = False,
) -> None:
    """Explain a decision: what would run, its effects, the rules that decide, and those that nearly did.

    Example: hla policy explain 'rm -rf build && cat /etc/passwd' --why-not allow
    """
    from humanlayer_agent.action import Action
    from humanlayer_agent.cli.check import start_of
    from humanlayer_agent.cli.policy.explain import print_explanation
    from humanlayer_agent.policy.explanation.explain import explain as explained

    director = _director(policy, project, confined=confined)
    start = str(cwd.absolute()) if cwd is not None else start_of(director)
    print_explanation(explained(director, Action(command, cwd=start)), command, why_not)


@app.command("test")
def run_tests(
    policies: Annotated[
        list[str] | None, typer.Argument(help="Names of shipped policies, or files; default: the layers.")
    ] = None,
    project: Project = None,
    format: Annotated[Literal["text", "json", "junit"], typer.Option(help="text, json or junit")] = "text",
    metamorphic: Annotated[
        bool, typer.Option("--metamorphic", help="Rewrite the examples in ways that change nothing, and judge those.")
    ] = False,
    seed: Annotated[int, typer.Option(help="What chance depends on, with --metamorphic.")] = 0,
    transformations: Annotated[
        str, typer.Option(help="Names, with wildcards and commas between them; only these, with --metamorphic.")
    ] = "",
    confined: Confined = False,
) -> None:
    """Run the tests that stand in the rules: decision and rule are asserted, every failure is shown.

    Example: hla policy test ./policy.yaml
    """
    if metamorphic:
        from humanlayer_agent.cli.policy.metamorphic import run_metamorphic

        found = _policies(policies or [], project)
        code = run_metamorphic(found, seed=seed, transformations=transformations, confined=confined, format=format)
        raise typer.Exit(code)
    from humanlayer_agent.cli.policy.test import print_results
    from humanlayer_agent.policy.language import examples

    results = [(policy, list(examples.run(policy))) for policy in _policies(policies or [], project)]
    print_results(results, format)
    if any(not result.passed for _, found in results for result in found):
        raise typer.Exit(1)


@app.command()
def lint(
    policies: Annotated[
        list[str] | None, typer.Argument(help="Names of shipped policies, or files; default: the layers.")
    ] = None,
    project: Project = None,
    format: Annotated[Literal["table", "json", "sarif"], typer.Option(help="table, json or sarif")] = "table",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 also for notes and what is unknown.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Show also what comments in the files hide.")] = False,
    explain: Annotated[str | None, typer.Option("--explain", help="Say more of one check, and stop.")] = None,
) -> None:
    """Find what is wrong with policies, each finding with a command that shows it. Exit code 1 for errors and warnings.

    Example: hla policy lint ./policy.yaml
    """
    from humanlayer_agent.cli.policy.lint import known_routes, print_page, run_lint

    if explain is not None:
        print_page(explain)
        return
    code = run_lint(
        policies or [],
        lambda: _policies([], project),
        format=format,
        strict=strict,
        all_=all_,
        routes=known_routes(project),
    )
    raise typer.Exit(code)


@app.command()
def coverage(
    policy: Annotated[
        str | None, typer.Argument(help="A shipped policy's name, or a file; default: the layers.")
    ] = None,
    project: Project = None,
    log: Annotated[Path | None, typer.Option("--log", help="Count also what rules meet in these JSON lines.")] = None,
    format: Annotated[Literal["table", "json"], typer.Option(help="table or json")] = "table",
    fail_under: Annotated[float, typer.Option(help="Exit with 1 below this percentage.")] = 0.0,
) -> None:
    """Show what the tests in the rules show: rules that never decide, clauses that no test needs, examples to add.

    Example: hla policy coverage ./policy.yaml --fail-under 100
    """
    from humanlayer_agent.cli.policy.coverage import run_coverage

    policies = _policies([policy] if policy is not None else [], project)
    code = run_coverage(policies, lambda: _director(policy, project), log, format=format, fail_under=fail_under)
    raise typer.Exit(code)


@app.command()
def replay(
    policy: Annotated[str, typer.Argument(help="A shipped policy's name, or a file.")],
    logs: Annotated[list[Path], typer.Argument(help="Recorded runs: files, and folders of them.")],
    project: Project = None,
    format: Annotated[
        Literal["table", "json", "jsonl", "html"], typer.Option(help="table, json, jsonl (a line a row) or html")
    ] = "table",
    top: Annotated[int, typer.Option(min=1, help="So many commands in a table.")] = 15,
    confined: Confined = False,
) -> None:
    """Judge recorded runs: what a policy would have asked and denied. Runs nothing. Exit code 5: rows were left out.

    What the log says was judged as confined is judged so again, and everything with --confined.
    Reads trajectories of mini-swe-agent (1 and 2) and Harbor (ATIF), Claude Code's session files, our audit export,
    and JSON lines with "id", "command" and "cwd".

    Example: hla policy replay default ~/.claude/projects
    """
    from humanlayer_agent.cli.policy.replay import run_replay

    (found,) = _policies([policy], None)
    raise typer.Exit(run_replay(found, logs, project, confined=confined, format=format, top=top))


@app.command()
def diff(
    old: Annotated[str, typer.Argument(help="A shipped policy's name, or a file.")],
    new: Annotated[str, typer.Argument(help="The one that is to take its place.")],
    logs: Annotated[
        list[Path] | None, typer.Argument(help="Recorded runs (see replay); default: the tests in both policies.")
    ] = None,
    project: Project = None,
    accept: Annotated[Path | None, typer.Option("--accept", help="Loosenings that are accepted, with reasons.")] = None,
    format: Annotated[
        Literal["table", "json", "html", "junit", "sarif", "accept"],
        typer.Option(help="table, json, html, junit, sarif; accept: what --accept needs"),
    ] = "table",
    top: Annotated[int, typer.Option(min=1, help="So many examples of each change.")] = 20,
    confined: Confined = False,
) -> None:
    """Compare two policies: what is looser, what is stricter. Exit code 1: something is looser and not accepted.

    Example: hla policy diff default ./policy.yaml runs/
    """
    from humanlayer_agent.cli.policy.diff import run_diff

    before, after = _policies([old, new], None)
    code = run_diff(before, after, logs or [], project, accept=accept, confined=confined, format=format, top=top)
    raise typer.Exit(code)


@app.command()
def trust(
    project: Project = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Trust it no longer.")] = False,
) -> None:
    """Trust a project's own policy, after you have read it: then it may also allow what nothing else decides.

    Example: hla policy trust --project ~/src/app
    """
    from humanlayer_agent.cli.policy.trust import trust_project
    from humanlayer_agent.configuration import checked_project, find_project

    base = checked_project(project) if project is not None else find_project()
    raise typer.Exit(trust_project(base, withdraw=withdraw))


def _director(policy: str | None, project: Path | None, *, confined: bool = False) -> "Director":
    from humanlayer_agent.configuration import build_director

    # A policy that fails its own tests must be looked at to be mended; here it decides nothing.
    return build_director(policy, project=project, tested=False, confined=confined)


def _policies(names: Sequence[str], project: Path | None) -> "list[Policy]":
    from humanlayer_agent.policy.language.loader import find, load

    if names:
        return [load(find(name), tested=False) for name in names]
    return [layer.policy for layer in _director(None, project).layers]
