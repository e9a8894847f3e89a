"""The typer application: every command but `check` and `parse`, which it only lists."""

from collections.abc import Sequence
from typing import Annotated

import typer

from humanlayer_agent import __version__
from humanlayer_agent.cli.audit.audit_commands import app as audit
from humanlayer_agent.cli.catalog import app as catalog
from humanlayer_agent.cli.channel import app as channel
from humanlayer_agent.cli.demo import demo
from humanlayer_agent.cli.doctor import doctor
from humanlayer_agent.cli.exec import exec_
from humanlayer_agent.cli.hub import hub
from humanlayer_agent.cli.init import init
from humanlayer_agent.cli.policy.policy_commands import app as policy
from humanlayer_agent.cli.requests import app as requests
from humanlayer_agent.cli.run import run
from humanlayer_agent.cli.stop import resume, stop
from humanlayer_agent.cli.undo import undo

app = typer.Typer(
    name="humanlayer-agent",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Human-in-the-loop supervision for agents that run bash.

    Every command an agent proposes is judged by a policy first; what the policy does not allow is asked of you; every
    decision is in an audit log.

    Example: hla demo""",
    epilog="Exit codes: 0 yes, 1 no, 2 usage or configuration, 3 nobody could be asked, 4 ask, 5 incomplete.",
)

_PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True}


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        print(f"humanlayer-agent {__version__}")
        raise typer.Exit


@app.command(context_settings=_PASSED_ON, add_help_option=False)
def check(context: typer.Context) -> None:
    """Judge a command without running it: verdict, rules, reason."""
    from humanlayer_agent.cli.check import main

    raise typer.Exit(main(context.args))


@app.command(context_settings=_PASSED_ON, add_help_option=False)
def parse(context: typer.Context) -> None:
    """Show what would run: every command, at any depth."""
    from humanlayer_agent.cli.parse import main

    raise typer.Exit(main(context.args))


@app.command(context_settings=_PASSED_ON, add_help_option=False)
def hook(context: typer.Context) -> None:
    """Answer a coding agent before each of its calls (Claude Code, Gemini CLI)."""
    from humanlayer_agent.cli.hook import main

    raise typer.Exit(main(context.args))


app.command()(demo)
app.command()(run)
app.command("exec", context_settings={"ignore_unknown_options": True})(exec_)
app.command()(init)
app.command()(doctor)
app.command()(hub)
app.command()(stop)
app.command()(resume)
app.command()(undo)
app.add_typer(catalog, name="catalog", help="What the command catalog knows of a program.")
app.add_typer(audit, name="audit", help="The log of decisions: tail, query, verify, export, head, hash, report, purge.")
app.add_typer(policy, name="policy", help="The rules: show, explain, test, lint, coverage, trust.")
app.add_typer(channel, name="channel", help="The ways to reach humans: ls, test.")
app.add_typer(requests, name="requests", help="What waits for a human, and what was decided.")


def run_app(arguments: Sequence[str]) -> int:
    """Run the application; returns the exit code instead of leaving the process."""
    command = typer.main.get_command(app)
    try:
        result = command.main(args=list(arguments), prog_name="humanlayer-agent", standalone_mode=False)
    except typer.Exit as ended:
        return int(ended.exit_code)
    except typer.Abort:
        return 130
    except Exception as error:
        if hasattr(error, "show") and hasattr(error, "exit_code"):  # click's usage errors
            error.show()
            return int(error.exit_code)
        raise
    return result if isinstance(result, int) else 0
