"""The options that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from humanlayer_agent.cli.shared.completion import policy_names
from humanlayer_agent.cli.shared.output import Format

FORMAT = typer.Option(
    "--format", help="For people: table. For programs the others; docs/output.md has the fields.", show_default=False
)
FormatOption = Annotated[Format, FORMAT]
GlassOption = Annotated[
    str,
    typer.Option(
        "--break-glass",
        metavar="WHY",
        help="In an emergency: outside of the route, as one of two.",
        show_default=False,
    ),
]
StoreOption = Annotated[
    str | None, typer.Option("--store", metavar="FILE|URL", help="The store; yours if it is not given.")
]
ChannelsOption = Annotated[
    Path | None, typer.Option("--channels", metavar="FILE", help="A channels file that is the whole.")
]
ProjectOption = Annotated[
    Path | None, typer.Option("--project", metavar="DIR", help="The directory the agent works for.")
]
PolicyOption = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="NAME|FILE",
        help="The whole policy: a shipped one, or a file; else the layers.",
        autocompletion=policy_names,
    ),
]
CommentOption = Annotated[
    str, typer.Option("--comment", metavar="TEXT", help="Words that are recorded with it.", show_default=False)
]
ConfinedOption = Annotated[bool, typer.Option("--confined", help="As if the kernel could confine what is allowed.")]
