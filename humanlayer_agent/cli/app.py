"""The typer application: every command, its options and its help."""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Annotated, Any, Literal

import typer

from humanlayer_agent import __version__
from humanlayer_agent.cli.ask import ask
from humanlayer_agent.cli.audit.audit_commands import app as audit
from humanlayer_agent.cli.catalog import app as catalog
from humanlayer_agent.cli.channel import app as channel
from humanlayer_agent.cli.demo import demo
from humanlayer_agent.cli.doctor import doctor
from humanlayer_agent.cli.exec import exec_
from humanlayer_agent.cli.grants import app as grants
from humanlayer_agent.cli.hub import hub
from humanlayer_agent.cli.init import init
from humanlayer_agent.cli.init.signing_key import app as key
from humanlayer_agent.cli.mcp import mcp
from humanlayer_agent.cli.people import app as people
from humanlayer_agent.cli.plan import plan
from humanlayer_agent.cli.policy.policy_commands import app as policy
from humanlayer_agent.cli.requests import app as requests
from humanlayer_agent.cli.run import run
from humanlayer_agent.cli.shared.help_pages import Commands, QuotedCommand, UsageError, called_as, usage_line
from humanlayer_agent.cli.shared.options import ChannelsOption, ConfinedOption, FormatOption, PolicyOption
from humanlayer_agent.cli.shared.output import prints
from humanlayer_agent.cli.shared.records import DecisionRecord, ProgramRecord
from humanlayer_agent.cli.stop import resume, stop
from humanlayer_agent.cli.store import app as store
from humanlayer_agent.cli.undo import app as undo

app = Commands(
    name="humanlayer-agent",
    help="""Human-in-the-loop supervision for agents that run bash.

    Every command an agent proposes is judged by a policy first; what the policy does not allow is asked of you; every
    decision is in an audit log.

    Examples: hla demo;  hla check 'rm -rf build'""",
    epilog="Exit codes: 0 yes, 1 no, 2 usage or configuration, 3 nobody could be asked, 4 ask, 5 incomplete.",
)


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"humanlayer-agent {__version__}")
        raise typer.Exit


CwdOption = Annotated[
    str | None, typer.Option("--cwd", metavar="DIR", help="Directory the command starts in; else the project.")
]


@app.command(cls=QuotedCommand)
@prints(DecisionRecord)
def check(
    command: Annotated[
        str | None, typer.Argument(metavar="COMMAND", help="The command line, in quotes; else rows are read.")
    ] = None,
    policy: PolicyOption = None,
    project: Annotated[
        str | None, typer.Option("--project", metavar="DIR", help="The directory the agent works for.")
    ] = None,
    cwd: CwdOption = None,
    observe: Annotated[bool, typer.Option("--observe", help="Say that it would not be enforced.")] = False,
    confined: ConfinedOption = False,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="The run it belongs to: what its commands did before counts."),
    ] = None,
    output: FormatOption = "table",
) -> None:
    """Judge a command without running it: verdict, rules, reason.

    It runs nothing, asks nobody and writes no audit event. With --format jsonl and no command, JSON lines are read from
    standard input, such as {"id": "1", "command": "ls", "cwd": "/srv/app"}, and each is answered by one.

    Exit codes: 0 allow, 1 deny, 4 ask, 2 usage or configuration.

    Examples: hla check 'rm -rf build';  hla check --policy strict --project /srv/app 'git push --force';  hla check
    --format jsonl < rows.jsonl
    """
    from humanlayer_agent.cli.check import Given, answer

    given = Given(command, output, cwd, policy, project, observe=observe, confined=confined, run=run)
    raise typer.Exit(answer(given))


@app.command(cls=QuotedCommand)
@prints(ProgramRecord)
def parse(
    command: Annotated[
        str | None, typer.Argument(metavar="COMMAND", help="The command line, in quotes; else rows are read.")
    ] = None,
    cwd: CwdOption = None,
    output: FormatOption = "table",
) -> None:
    """Show what would run: every command, at any depth, with its words after expansion.

    Rows are read from standard input as hla check does. Exit codes: 0 understood, 4 partly understood, 1 not
    understood, 2 usage.

    Examples: hla parse 'for f in a b; do rm "$f"; done';  hla parse --format jsonl < rows.jsonl
    """
    from humanlayer_agent.cli.check import Given
    from humanlayer_agent.cli.parse import answer

    raise typer.Exit(answer(Given(command, output, cwd)))


@app.command()
def hook(
    tool: Annotated[
        Literal["claude-code", "gemini-cli", "codex", "copilot", "opencode", "cline", "cursor"],
        typer.Argument(metavar="TOOL", help="The coding agent."),
    ],
    ask: Annotated[
        Literal["tool", "wait", "deny"] | None,
        typer.Option(
            "--ask",
            help="Who is asked: the person at the coding agent (tool, its own prompt), your channels (wait), nobody "
            "(deny). [claude-code and copilot: tool; the others: deny]",
        ),
    ] = None,
    policy: PolicyOption = None,
    channels: ChannelsOption = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            metavar="SECONDS",
            help="Until it is refused; less than the tool waits. [50; with --ask wait 590]",
        ),
    ] = None,
    confine: Annotated[
        bool, typer.Option("--confine", help="Allowed commands run confined (claude-code only; see docs/hooks.md).")
    ] = False,
) -> None:
    """Answer a coding agent before each of its calls: claude-code, gemini-cli, codex, copilot, opencode,
    cline or cursor.

    Reads the question of the agent's hook from standard input, and answers in its form. hla init --claude-code (or
    --codex, and so on) writes it into the agent's settings. Exit codes: 0 answered, 2 the call must not run.

    Example: hla hook claude-code --ask wait --policy strict < question.json
    """
    from humanlayer_agent.cli.hook import main

    given = {"--ask": ask, "--policy": policy, "--channels": channels, "--deadline": deadline}
    options = [part for name, value in given.items() if value is not None for part in (name, str(value))]
    raise typer.Exit(main([tool, *options, *(["--confine"] if confine else [])]))


app.command()(demo)
app.command()(run)
app.command("exec", context_settings={"ignore_unknown_options": True})(exec_)
app.command()(init)
app.command()(doctor)
app.command()(hub)
app.command()(plan)
app.command()(ask)
app.command()(stop)
app.command()(resume)
app.add_typer(catalog, name="catalog")
app.add_typer(audit, name="audit")
app.add_typer(policy, name="policy")
app.add_typer(channel, name="channel")
app.add_typer(requests, name="requests")
app.add_typer(grants, name="grants")
app.add_typer(people, name="people")
app.add_typer(key, name="key")
app.add_typer(store, name="store")
app.add_typer(mcp, name="mcp")
app.add_typer(undo, name="undo")


@cache
def command_tree() -> Any:
    """Return the commands as they are called. Making them of all signatures takes 17 ms."""
    return typer.main.get_command(app)


def run_app(arguments: Sequence[str]) -> int:
    """Run the application; returns the exit code instead of leaving the process."""
    try:
        result = command_tree().main(args=list(arguments), prog_name=called_as(), standalone_mode=False)
    except typer.Exit as ended:
        return int(ended.exit_code)
    except typer.Abort:
        return 130
    except UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            error.show()
        else:
            print(f"humanlayer-agent: {usage_line(error)}", file=sys.stderr)
        return int(error.exit_code)
    return result if isinstance(result, int) else 0
