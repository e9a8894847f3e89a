"""`hla mcp`: what speaks MCP, and the gateway that stands before a server."""

import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from humanlayer_agent.cli.shared.end_signal import EndSignal
from humanlayer_agent.cli.shared.help_pages import Commands, Group
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, PolicyOption, ProjectOption, StoreOption
from humanlayer_agent.errors import ConfigError

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.hooks.gateway import Gateway
    from humanlayer_agent.hooks.gateway.clients import Client
    from humanlayer_agent.hooks.gateway.upstreams import Upstream
    from humanlayer_agent.policy.director import Director

CLIENT = "an agent (by MCP)"
_SERVER = "server"
SERVED, FAILED = 0, 1

_NAME = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_RUNNERS = re.compile(r"npx|uvx|bunx|node|bun|deno|python[\d.]*|pypy[\d.]*")
"""Programs that run another one, which their first word names that is no option."""


class _BeforeAServer(Group):
    """The group: without one of its commands it stands before a server, whose command comes after `--`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[_SERVER] = args[at + 1 :]
        return super().parse_args(ctx, args[:at] or args[at : at + 1])


mcp = Commands(
    cls=_BeforeAServer,
    help="""Pass on what a client and a server say, and have each call of a tool judged before the server gets it.

    For agents that speak MCP (the Model Context Protocol). The client starts it in the place of the server, whose
    command comes after --. What the policy asks about waits for you: answer by your channels (a hub), or with hla
    requests approve; a refusal comes back as the tool's result. The server's tools are kept by hash: one that is new,
    or of which it says something else than before, is asked about. With --listen clients reach it by HTTP instead, with
    a token that is kept in a file (its path is said at the start); each session gets a server of its own. --http takes
    the extra mcp, --listen the extra web.

    Exit codes: 0 the client has gone, or Ctrl-C, 1 the server ended first, 2 usage or configuration.

    Examples: hla mcp --name git -- uvx mcp-server-git;  hla mcp --pass-env FORGE_TOKEN -- npx -y @example/forge;  hla
    mcp --http https://mcp.example.org/mcp --bearer-env TOKEN;  hla mcp --listen 8931 --http
    https://mcp.example.org/mcp;  hla mcp ask --project ~/src/app""",
    invoke_without_command=True,
    subcommand_metavar="-- SERVER... | COMMAND",
)


@mcp.callback()
def gateway(
    context: typer.Context,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="URL", help="Where the server is (Streamable HTTP)."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="The server's, for rules: mcp__NAME__TOOL. [from its command]"),
    ] = None,
    pass_env: Annotated[
        list[str] | None,
        typer.Option("--pass-env", metavar="VARIABLE", help="A variable that the server gets too, once for each."),
    ] = None,
    bearer_env: Annotated[
        str | None, typer.Option("--bearer-env", metavar="VARIABLE", help="Where the token for URL is.")
    ] = None,
    header_from: Annotated[
        list[str] | None,
        typer.Option(
            "--header-from",
            metavar="NAME=SOURCE",
            help="A header that URL is sent, once for each; SOURCE is env:VARIABLE or file:PATH, read at each request.",
        ),
    ] = None,
    listen: Annotated[
        int | None,
        typer.Option(
            "--listen",
            metavar="PORT",
            min=1,
            max=65535,
            help="Serve clients by Streamable HTTP at this port of this machine.",
        ),
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            metavar="SECONDS",
            min=1,
            help="Until a call counts as refused; less than the client waits. [as the route says]",
        ),
    ] = None,
    policy: PolicyOption = None,
    project: ProjectOption = None,
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Stand before a server, unless a command was named."""
    command: list[str] = context.meta[_SERVER]
    if context.invoked_subcommand is not None:
        wrong = [name for name, value in context.params.items() if value] or command
        if wrong:
            raise ConfigError("hla mcp: options of the gateway, or a server after --, go with none of its commands")
        return
    if bool(command) is (http is not None):
        raise ConfigError("name the server: hla mcp -- COMMAND, or hla mcp --http URL")
    if (bearer_env or header_from) and http is None:
        named = "--bearer-env" if bearer_env else "--header-from"
        raise ConfigError(f"{named} is for --http; a COMMAND gets variables by --pass-env")
    if pass_env and http is not None:
        raise ConfigError("--pass-env is for a COMMAND; a URL gets a token by --bearer-env or --header-from")
    human_only("mcp", "starts servers", store)
    from humanlayer_agent.configuration import build_director, checked_project, find_project
    from humanlayer_agent.processes.memory_protection import protect_secrets

    place = checked_project(project) if project is not None else find_project()
    protect_secrets()
    called = name or _name_of(command, http or "")
    if not _NAME.fullmatch(called):
        raise ConfigError(f"{called!r} can't be a server's name: name it with --name (letters, digits, - and single _)")

    def upstream(schema: Callable[[str], Any]) -> "Upstream":
        from humanlayer_agent.hooks.gateway.upstreams import HttpServer, SecretHeader, StdioServer
        from humanlayer_agent.processes.execution import command_environment

        if http is None:
            env = command_environment(os.environ, None, pass_env or (), str(place))
            return StdioServer(command, cwd=os.getcwd(), env=env)
        headers = [SecretHeader.read(each) for each in header_from or ()]
        headers += [SecretHeader("Authorization", f"env:{bearer_env}", "Bearer ")] if bearer_env else []
        if len({each.name.lower() for each in headers}) < len(headers):
            raise ConfigError("a header is named once, and --bearer-env is Authorization")
        try:
            return HttpServer(http, headers=headers, schema=schema)
        except ImportError as error:
            from humanlayer_agent.extras import lacks

            raise ConfigError(lacks("hla mcp --http", "mcp", error)) from error

    judge = partial(build_director, policy, project=place)
    stand = _stand(
        called, command or [http or ""], place, upstream, judge,
        local=http is None, channels=channels, store=store, deadline=deadline,
    )  # fmt: skip
    if listen is None:
        raise typer.Exit(_serve(called, stand))
    judge()  # a policy with a mistake is told of now, and not to the first client
    raise typer.Exit(_listen(called, listen, stand))


def _stand(
    name: str,
    reached_by: Sequence[str],
    project: Path,
    upstream: "Callable[[Callable[[str], Any]], Upstream]",
    judge: "Callable[[], Director]",
    *,
    local: bool,
    channels: Path | None,
    store: str | None,
    deadline: float | None,
) -> "Callable[[Client, Callable[[], None]], Gateway]":
    """Return what makes a gateway between a client and a server of its own, which tells when there is nothing more."""
    from humanlayer_agent.configuration import build_gate
    from humanlayer_agent.hooks.gateway import Gateway, Waiting
    from humanlayer_agent.hooks.gateway.calls import Place
    from humanlayer_agent.hooks.gateway.doubts import DoubtingDirector
    from humanlayer_agent.hooks.gateway.tool_lists import ToolLists

    def stand(client: "Client", ended: Callable[[], None]) -> Gateway:
        director, asker = DoubtingDirector(judge()), Waiting()
        gate: Gate = build_gate(
            director=director, asker=asker, project=project, store=store, agent=CLIENT,
            channels=channels, timeout_ms=None if deadline is None else int(deadline * 1000),
        )  # fmt: skip
        asker.answerable = bool(gate.authority.signers)
        lists = ToolLists(name, *reached_by)
        place = Place(name, CLIENT, str(project), os.getcwd(), local)
        served = Gateway(gate, director, asker, place, lists, client, ended=ended, say=partial(_say, name))
        try:
            served.serve(upstream(lists.schema))
        except BaseException:
            served.close()
            raise
        return served

    return stand


def _serve(name: str, stand: "Callable[[Client, Callable[[], None]], Gateway]") -> int:
    """Stand between whoever has started us and the server until one of them has gone. Returns the exit code."""
    from humanlayer_agent.hooks.gateway.clients import PipedClient

    with EndSignal() as end:
        served = stand(PipedClient(), end.tell)
        try:
            end.wait()
        finally:
            served.close()
    if served.failed:
        _say(name, served.failed)
    return FAILED if served.failed else SERVED


def _listen(name: str, port: int, stand: "Callable[[Client, Callable[[], None]], Gateway]") -> int:
    """Stand between clients that speak HTTP and a server for each of them, until we are told to end."""
    from humanlayer_agent.hooks.gateway.clients import HttpClients, keep_token, kept_token

    token = kept_token(name)
    try:
        clients = HttpClients(port, token, stand, say=partial(_say, name))
    except ImportError as error:
        from humanlayer_agent.extras import lacks

        raise ConfigError(lacks("hla mcp --listen", "web", error)) from error
    with EndSignal() as end:
        clients.start()
        try:
            path = keep_token(name, clients.url, token)
            _say(name, f"listens at {clients.url}; what clients are set up with, a token too, is in {path}")
            end.wait()
        except OSError as error:
            raise ConfigError(f"the token of this gateway can't be kept: {error}") from error
        finally:
            clients.close()
    return SERVED


def _say(name: str, line: str) -> None:
    """Tell whoever reads the log of the client."""
    from humanlayer_agent.safe_text import one_line

    with suppress(OSError):  # a client need not read it; what is left in a buffer would fail at the end
        os.write(2, f"humanlayer-agent: {name}: {one_line(line)}\n".encode(errors="replace"))


def _name_of(command: Sequence[str], url: str) -> str:
    """Return what a server is called that nobody has named.

    Example:
        >>> _name_of(["npx", "-y", "@modelcontextprotocol/server-github@1.2"], ""), _name_of(["./tools.py"], "")
        ('server-github', 'tools')
        >>> _name_of([], "https://mcp.example.org/mcp")
        'mcp-example-org'
    """
    if url:
        found = re.sub(r"^[a-z]+://|[:/?#].*$", "", url.strip(), flags=re.IGNORECASE)
    else:
        words = [each for each in command[1:] if not each.startswith("-")]
        program = os.path.basename(command[0])
        found = words[0] if _RUNNERS.fullmatch(program) and words else program
        found = re.sub(r"(?<=.)@.*$|\.(?:py|js|mjs|cjs|ts|sh|exe)$", "", os.path.basename(found))
    return re.sub(r"[^A-Za-z0-9]+", "-", found).strip("-")
