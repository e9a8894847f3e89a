"""`hla policy`: look at the rules, ask why, test them, trust a project's."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from humanlayer_agent.cli.policy.bundle import app as bundle
from humanlayer_agent.cli.shared.completion import check_names, policy_names
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.options import (
    FORMAT,
    ConfinedOption,
    FormatOption,
    PolicyOption,
    ProjectOption,
    StoreOption,
)
from humanlayer_agent.cli.shared.output import print_record, prints
from humanlayer_agent.cli.shared.records import (
    CheckPageRecord,
    CoverageRecord,
    ExampleRecord,
    ExplanationRecord,
    LayersRecord,
    LayerStatusRecord,
    LintRecord,
    PolicyDiffRecord,
    ReplayedRecord,
    ReplayRecord,
    RewritingRecord,
)

if TYPE_CHECKING:
    from humanlayer_agent.policy.director import Director
    from humanlayer_agent.policy.language.policy import Policy

app = Commands(
    help="""Look at the rules, ask why, test and compare them, trust a project's.

    Examples: hla policy show;  hla policy explain 'rm -rf build'"""
)

PoliciesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME|FILE",
        help="Shipped policies, or files; the layers if none is given.",
        autocompletion=policy_names,
    ),
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME|FILE", help="A shipped policy, or a file.", autocompletion=policy_names)
]


@app.command()
@prints(LayersRecord)
def show(policy: PolicyOption = None, project: ProjectOption = None, output: FormatOption = "table") -> None:
    """Show the policies in force: layers and their authority, every rule with where it stands, what is overridden.

    Example: hla policy show
    """
    from humanlayer_agent.cli.policy.show import print_layers, record

    director = _director(policy, project)
    if output == "table":
        print_layers(director)
    else:
        print_record(record(director), output)


@app.command()
@prints(LayerStatusRecord, many=True)
def status(project: ProjectOption = None, output: FormatOption = "table") -> None:
    """Show what stands at each layer: file or bundle, digest, version, signer, expiry, when it came, what is wrong.

    Exit code 1: something does not count.

    Example: hla policy status
    """
    from humanlayer_agent.cli.policy.bundle import print_status
    from humanlayer_agent.configuration import checked_project, find_project
    from humanlayer_agent.policy_tools.bundles import status as found

    base = checked_project(project) if project is not None else find_project()
    raise typer.Exit(print_status(found(base), output))


@app.command()
@prints(ExplanationRecord)
def explain(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="The command line, in quotes.")],
    policy: PolicyOption = None,
    project: ProjectOption = None,
    cwd: Annotated[Path | None, typer.Option("--cwd", metavar="DIR", help="Directory the command starts in.")] = None,
    why_not: Annotated[
        Literal["allow", "ask", "deny"] | None,
        typer.Option("--why-not", help="Say what would have to change for this decision."),
    ] = None,
    confined: ConfinedOption = False,
    output: FormatOption = "table",
) -> None:
    """Explain a decision: what would run, its effects, the rules that decide, and those that nearly did.

    Example: hla policy explain 'rm -rf build && cat /etc/passwd' --why-not allow
    """
    from humanlayer_agent.cli.check import as_started_here, start_of
    from humanlayer_agent.cli.policy.explain import print_explanation, record
    from humanlayer_agent.policy.explanation.explain import explain as explained
    from humanlayer_agent.tools.calls import written

    director = _director(policy, project, confined=confined)
    start = str(cwd.absolute()) if cwd is not None else start_of(director)
    found = explained(director, as_started_here(written(command, cwd=start)))
    if output == "table":
        print_explanation(found, command, why_not)
    else:
        print_record(record(found, command, why_not), output)


@app.command("test")
@prints(ExampleRecord, many=True)
@prints(RewritingRecord, many=True, when="--metamorphic")
def run_tests(
    policies: PoliciesArgument = None,
    project: ProjectOption = None,
    output: Annotated[Literal["table", "json", "jsonl", "junit"], FORMAT] = "table",
    metamorphic: Annotated[
        bool, typer.Option("--metamorphic", help="Rewrite the examples in ways that change nothing, and judge those.")
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="What chance depends on, with --metamorphic.")] = 0,
    transformations: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Only these, with --metamorphic: wildcards, and commas between.", show_default=False
        ),
    ] = "",
    rules: Annotated[
        str,
        typer.Option(
            metavar="IDS", help="Only these rules, with --metamorphic: wildcards, commas between.", show_default=False
        ),
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="Judge also what is remembered, with --metamorphic.")] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Rewrite each example in every way, with --metamorphic.")
    ] = False,
    confined: ConfinedOption = False,
) -> None:
    """Run the tests that stand in the rules: decision and rule are asserted, every failure is shown.

    With --metamorphic, rules that ship are left out of your policy unless --rules names them; each way to rewrite is
    tried on three examples of a rule, and with --thorough on all; what was judged once is remembered for as long as the
    rule's examples, what the policy decides and this program are the same.

    Examples: hla policy test ./policy.yaml;  hla policy test ./policy.yaml --metamorphic --rules 'own-*,deploys'
    """
    if metamorphic:
        from humanlayer_agent.cli.policy.metamorphic import run_metamorphic

        found = _policies(policies or [], project)
        code = run_metamorphic(
            found,
            seed=seed,
            transformations=transformations,
            rules=rules,
            again=again,
            thorough=thorough,
            confined=confined,
            format=output,
        )
        raise typer.Exit(code)
    if rules or again or thorough:
        raise typer.BadParameter("--rules, --again and --thorough go with --metamorphic")
    from humanlayer_agent.cli.policy.test import print_results
    from humanlayer_agent.policy.language import examples

    results = [(policy, list(examples.run(policy))) for policy in _policies(policies or [], project)]
    print_results(results, output)
    if any(not result.passed for _, found in results for result in found):
        raise typer.Exit(1)


@app.command()
@prints(LintRecord, many=True)
@prints(CheckPageRecord, when="--explain CHECK")
def lint(
    policies: PoliciesArgument = None,
    project: ProjectOption = None,
    output: Annotated[Literal["table", "json", "jsonl", "sarif"], FORMAT] = "table",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 also for notes and what is unknown.")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Show also what comments in the files hide.")] = False,
    explain: Annotated[
        str | None,
        typer.Option("--explain", metavar="CHECK", help="Say more of one check, and stop.", autocompletion=check_names),
    ] = None,
) -> None:
    """Find what is wrong with policies, each finding with a command that shows it. Exit code 1 for errors and warnings.

    Example: hla policy lint ./policy.yaml
    """
    from humanlayer_agent.cli.policy.lint import known_routes, print_page, run_lint

    if explain is not None:
        print_page(explain, output)
        return
    code = run_lint(
        policies or [],
        lambda: _policies([], project),
        format=output,
        strict=strict,
        all_=all_,
        routes=known_routes(project),
    )
    raise typer.Exit(code)


@app.command()
@prints(CoverageRecord, many=True)
def coverage(
    policy: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME|FILE",
            help="A shipped policy, or a file; the layers if none is given.",
            autocompletion=policy_names,
        ),
    ] = None,
    project: ProjectOption = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Count also what rules meet in these JSON lines.")
    ] = None,
    output: FormatOption = "table",
    fail_under: Annotated[float, typer.Option(metavar="PERCENT", help="Exit with 1 below this percentage.")] = 0.0,
) -> None:
    """Show what the tests in the rules show: rules that never decide, clauses that no test needs, examples to add.

    Example: hla policy coverage ./policy.yaml --fail-under 100
    """
    from humanlayer_agent.cli.policy.coverage import run_coverage

    policies = _policies([policy] if policy is not None else [], project)
    code = run_coverage(policies, lambda: _director(policy, project), log, format=output, fail_under=fail_under)
    raise typer.Exit(code)


@app.command()
@prints(ReplayRecord)
@prints(ReplayedRecord, many=True, when="--rows")
def replay(
    policy: NameArgument,
    logs: Annotated[list[Path], typer.Argument(metavar="LOG", help="Recorded runs: files, and folders of them.")],
    project: ProjectOption = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Print every command with its verdict, not the figures.")
    ] = False,
    output: Annotated[Literal["table", "json", "jsonl", "html"], FORMAT] = "table",
    top: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Show also so many of the commands that are stopped most.")
    ] = None,
    checkout: Annotated[
        Path | None,
        typer.Option("--checkout", metavar="DIR", help="Read the scripts of the logs' project here."),
    ] = None,
    confined: ConfinedOption = False,
    grant: Annotated[
        Literal["narrowest", "second", "widest"] | None,
        typer.Option(help="Show also what is left to ask if approvers choose that of the scopes they are offered."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, max=256, help="So many processes judge, each whole runs.")
    ] = 1,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write also every row into this file: NAME.parquet.")
    ] = None,
) -> None:
    """Judge recorded runs: what a policy would have asked and denied. Runs nothing. Exit code 5: rows were left out.

    What the log says was judged as confined is judged so again, and everything with --confined.
    Reads trajectories of mini-swe-agent (1 and 2), SWE-agent and Harbor (ATIF), events of OpenHands, Claude Code's
    session files, our audit export, and JSON lines with "id", "command" and "cwd".

    Examples: hla policy replay default ~/.claude/projects;  hla policy replay default runs/ --checkout ~/src/app;  hla
    policy replay default runs/ --confined --grant second;  hla policy replay default runs/ --jobs 4 --to runs.parquet
    """
    from humanlayer_agent.cli.policy.replay import run_replay

    (found,) = _policies([policy], None)
    code = run_replay(
        found,
        logs,
        project,
        confined=confined,
        format=output,
        rows=rows,
        top=top,
        checkout=checkout,
        grant=grant,
        jobs=jobs,
        to=to,
    )
    raise typer.Exit(code)


@app.command()
@prints(PolicyDiffRecord)
def diff(
    old: Annotated[
        str, typer.Argument(metavar="OLD", help="A shipped policy, or a file.", autocompletion=policy_names)
    ],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="The one that is to take its place.", autocompletion=policy_names)
    ],
    logs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="LOG", help="Recorded runs (see replay); else the tests in both policies."),
    ] = None,
    project: ProjectOption = None,
    accept: Annotated[
        Path | None, typer.Option("--accept", metavar="FILE", help="Loosenings that are accepted, with reasons.")
    ] = None,
    output: Annotated[
        Literal["table", "json", "jsonl", "html", "junit", "sarif", "accept"],
        typer.Option("--format", help="As elsewhere; accept makes the file that --accept takes.", show_default=False),
    ] = "table",
    top: Annotated[int, typer.Option(metavar="N", min=1, help="So many examples of each change.")] = 20,
    search: Annotated[
        bool, typer.Option("--search/--no-search", help="Look for commands that show what has changed in the rules.")
    ] = True,
    store: StoreOption = None,
    confined: ConfinedOption = False,
) -> None:
    """Compare two policies: what is looser, what is stricter. Exit code 1: something is looser and not accepted.

    For each clause of a rule that has changed, commands are looked for on which the policies differ: on both sides of
    what changed of it, the examples of both policies in other spellings, what is in the log of the store. The shortest
    of each is shown, loosened first. Ctrl-C ends the search and shows what was found; then the exit code is 1 or 5.

    Examples: hla policy diff default ./policy.yaml;  hla policy diff main.yaml ./policy.yaml runs/ --format json
    """
    from humanlayer_agent.cli.policy.diff import run_diff

    before, after = _policies([old, new], None)
    code = run_diff(
        before,
        after,
        logs or [],
        project,
        accept=accept,
        search=search,
        store=store,
        confined=confined,
        format=output,
        top=top,
    )
    raise typer.Exit(code)


@app.command()
def allow(
    command: Annotated[str, typer.Argument(metavar="COMMAND", help="The command line, in quotes.")],
    place: Annotated[
        Literal["user", "project"],
        typer.Option("--in", help="Whose policy it is added to: yours, or the project's that you have trusted."),
    ] = "user",
    until: Annotated[
        str | None, typer.Option("--until", metavar="DAY", help="The last day on which it holds. [in 90 days]")
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why it is excused.")] = None,
    project: ProjectOption = None,
    cwd: Annotated[Path | None, typer.Option("--cwd", metavar="DIR", help="Directory the command starts in.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Add to this policy file, which is not in force.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask; only with --file.")] = False,
) -> None:
    """Have a command not be asked about any more: draft an exception, show what it changes, write it after a yes.

    The draft is as narrow as can be said, and has tests. Nothing is drafted for what is denied, severe, locked, unread
    or not certain. Exit code 3: there is no terminal to ask at.

    Examples: hla policy allow 'gh pr view 12';  hla policy allow 'frob x' --reason 'Our own tool.' --until 2030-12-31
    """
    from humanlayer_agent.cli.policy.allow import run_allow
    from humanlayer_agent.configuration import checked_project, find_project

    base = checked_project(project) if project is not None else find_project()
    start = str(cwd.absolute()) if cwd is not None else ""
    raise typer.Exit(run_allow(command, base, cwd=start, place=place, until=until, reason=reason, file=file, yes=yes))


@app.command()
def suggest(
    policy: Annotated[
        str,
        typer.Option("--policy", metavar="NAME|FILE", help="The policy that asked.", autocompletion=policy_names),
    ] = "default",
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="How far back: 30d, 12h.")] = "30d",
    runs: Annotated[
        list[Path] | None, typer.Option("--runs", metavar="FILE", help="Recorded runs (see replay), not the log.")
    ] = None,
    store: StoreOption = None,
    project: ProjectOption = None,
    assume_approved: Annotated[
        bool, typer.Option("--assume-approved", help="Take it that what ran in --runs was approved, to try it out.")
    ] = False,
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="Where to write it.")] = Path(
        "suggested.yaml"
    ),
) -> None:
    """Suggest exceptions for what humans always approved: ten times, or two of them; and never refused.

    Writes a policy file for review, with the proof, and changes nothing: asks before and after, what else gets looser,
    lint, tests. Nothing is suggested of what is denied, severe, unread or not certain. What was always refused it
    suggests to deny. Exit code 1: there is nothing to suggest.

    Examples: hla policy suggest --since 90d;  hla policy suggest --runs runs/ --assume-approved
    """
    from humanlayer_agent.cli.policy.suggest import run_suggest

    code = run_suggest(
        policy,
        since=since,
        runs=runs or [],
        store=store,
        project=project,
        assume_approved=assume_approved,
        output=output,
    )
    raise typer.Exit(code)


@app.command()
def docs(
    policy: PolicyOption = None,
    project: ProjectOption = None,
    store: StoreOption = None,
    log: Annotated[bool, typer.Option("--log/--no-log", help="With how often each rule applied, from the log.")] = True,
    html: Annotated[bool, typer.Option("--html", help="A whole page of HTML in the place of Markdown.")] = False,
) -> None:
    """Write the policies in force as a page for people: each rule, why, examples, what excuses from it, its use.

    Examples: hla policy docs > POLICY.md;  hla policy docs --policy strict --html > policy.html
    """
    from humanlayer_agent.cli.policy.show import uses
    from humanlayer_agent.policy_tools.handbook import as_html, handbook

    page = handbook(_director(policy, project), uses(store) if log else None)
    typer.echo(as_html(page) if html else page, nl=False)


@app.command()
def schema(
    of: Annotated[
        Literal["policy", "channels", "catalog", "tools"],
        typer.Argument(help="Which file it is of: catalog of programs, tools of a coding agent or MCP server."),
    ] = "policy",
) -> None:
    """Print the JSON Schema of a policy, channels or catalog file: an editor completes keys, and says what each is for.

    What it rejects is rejected; `hla policy test` says what no schema can. Editors with yaml-language-server read which
    schema a file has from its first line, relative to the file: # yaml-language-server: $schema=policy.schema.json

    Examples: hla policy schema > policy.schema.json;  hla policy schema catalog > catalog.schema.json
    """
    from humanlayer_agent.policy_tools.file_schemas import schema_text

    typer.echo(schema_text(of), nl=False)


@app.command("fmt")
def lay_out(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Policy files; - is standard input.")],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing: show what differs. Exit code 1: something does.")
    ] = False,
) -> None:
    """Lay out policy files: the order of keys, quotation marks, lines of at most 120 characters. Comments stay.

    What is meant stays: it is read before and after, and a file is left as it is where the two differ. What does
    not load is refused, with its place; the other files are laid out still. A project's policy is to be trusted anew.

    Examples: hla policy fmt policy.yaml;  hla policy fmt --check policies/*.yaml;  hla policy fmt - < policy.yaml
    """
    from humanlayer_agent.cli.policy.fmt import run_fmt

    raise typer.Exit(run_fmt(files, check=check))


@app.command("import")
def import_list(
    tool: Annotated[Literal["claude-code", "codex", "gemini-cli", "dippy"], typer.Argument(help="Whose list it is.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="Its settings, rules or policy; - is standard input.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FILE", help="A new file for the policy; else it is printed."),
    ] = None,
) -> None:
    """Import an allow and deny list of another tool: a policy with tests, and line by line what could not be carried.

    Nothing gets looser without a word. What is stricter here is said: commands are read, so that `npm test && rm -rf /`
    is two of them. Exit code 1: a line was not carried.

    Examples: hla policy import claude-code .claude/settings.json --output mine.yaml;  hla policy import dippy .dippy
    """
    from humanlayer_agent.cli.policy.list_import import run_import

    raise typer.Exit(run_import(tool, file, output))


@app.command()
def serve(
    policy: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME|FILE",
            help="What to begin with: a shipped policy to go on from, or a file, which is only read.",
            autocompletion=policy_names,
        ),
    ] = "default",
    project: ProjectOption = None,
    cwd: Annotated[Path | None, typer.Option("--cwd", metavar="DIR", help="Directory the command starts in.")] = None,
    confined: ConfinedOption = False,
    port: Annotated[int, typer.Option(metavar="N", min=1024, max=65535, help="Of this machine.")] = 8766,
) -> None:
    """Serve a page on which a policy is written and commands are tried: verdict, parts, effects, rules that decide and
    those that nearly do, what a human would be shown. Runs until Ctrl-C.

    Nothing runs and nothing is written. It is reached from this machine only, by the address that is printed.

    Example: hla policy serve --policy ./policy.yaml
    """
    from humanlayer_agent.cli.shared.end_signal import EndSignal
    from humanlayer_agent.configuration import checked_project, find_project
    from humanlayer_agent.errors import ChannelError, ConfigError
    from humanlayer_agent.extras import lacks
    from humanlayer_agent.policy_tools.trial import begun, setting_for
    from humanlayer_agent.processes.ancestry import refuse_agents

    refuse_agents("serves the playground")
    try:
        from humanlayer_agent.policy_tools.playground import Playground
    except ImportError as error:
        raise ConfigError(lacks("The playground", "web", error)) from error
    base = checked_project(project) if project is not None else find_project()
    setting = setting_for(policy, base, cwd, confined=confined)
    try:
        with EndSignal() as end_signal, Playground(setting, begun(policy), port) as served:
            typer.echo(f"Playground: {served.url}\nCtrl-C ends it. Who knows this address can try commands here.")
            end_signal.wait()
    except ChannelError as error:
        raise ConfigError(f"{error}: name another with --port") from error


@app.command()
def trust(
    project: ProjectOption = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Trust it no longer.")] = False,
) -> None:
    """Trust a project's own policy, after you have read it: then it may also allow what nothing else decides.

    Its channels file and its catalog files are shown and trusted with it.

    Example: hla policy trust --project ~/src/app
    """
    from humanlayer_agent.cli.policy.trust import trust_project
    from humanlayer_agent.configuration import checked_project, find_project

    base = checked_project(project) if project is not None else find_project()
    raise typer.Exit(trust_project(base, withdraw=withdraw))


app.add_typer(bundle, name="bundle")


def _director(policy: str | None, project: Path | None, *, confined: bool = False) -> "Director":
    from humanlayer_agent.configuration import build_director

    # A policy that fails its own tests must be looked at to be mended; here it decides nothing.
    return build_director(policy, project=project, tested=False, confined=confined)


def _policies(names: Sequence[str], project: Path | None) -> "list[Policy]":
    from humanlayer_agent.policy.language.loader import find, load

    if names:
        return [load(find(name), tested=False) for name in names]
    return [layer.policy for layer in _director(None, project).layers]
