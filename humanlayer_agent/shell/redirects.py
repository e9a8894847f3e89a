"""Redirects: the files and connections they open, and the standard input they give."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell import touch
from humanlayer_agent.shell.effects import Effect
from humanlayer_agent.shell.program import SimpleCommand
from humanlayer_agent.shell.state import State
from humanlayer_agent.shell.syntax import Redirect
from humanlayer_agent.shell.words import Field, expand

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Context, Stdin, Walk

_KINDS = {
    ">": ("write",),
    ">|": ("write",),
    "&>": ("write",),
    ">&": ("write",),
    ">>": ("append",),
    "&>>": ("append",),
    "<": ("read",),
    "<&": (),
    "<>": ("read", "write"),
}


def add(walk: "Walk", command: SimpleCommand, redirects: list[Redirect], state: State, context: "Context") -> None:
    """Add the effects of `redirects` to `command`."""
    for redirect in redirects:
        walk.nested(redirect.target, state, context)
        if redirect.body is not None:
            walk.nested(redirect.body, state, context.within("heredoc"))
        if redirect.op in ("<<", "<<-", "<<<"):
            continue
        fields = expand(redirect.target, state)
        for each in fields or [Field(redirect.target, redirect.target.start, redirect.target.end)]:
            _one(walk, command, redirect, each, state)


def _one(walk: "Walk", command: SimpleCommand, redirect: Redirect, target: Field, state: State) -> None:
    if redirect.op in (">&", "<&") and target.text is not None:
        if target.text == "-" or target.text.rstrip("-").isdigit():
            return  # copies, moves or closes a descriptor
        if redirect.op == "<&" or redirect.fd not in ("", "1"):
            command.doubt(redirect.target.raw)
    span = walk.span(target.start, target.end)
    if target.text is not None and (host := network_device(target.text)) is not None:
        command.effects.append(
            Effect("network", "redirect", host, True, span, f"{redirect.op} redirect", source="redirect")
        )
        return
    kinds = _KINDS[redirect.op]
    if redirect.op == "<&" and target.text is None:
        kinds = ("read",)
    for kind in kinds:
        touch.path(walk, command, kind, target, state, role="redirect", origin=f"{redirect.op} redirect", source="redirect")


def network_device(text: str) -> str | None:
    """`host:port` where bash opens a connection instead of a file: /dev/tcp/host/port."""
    parts = text.split("/")
    if len(parts) >= 4 and parts[:2] == ["", "dev"] and parts[2] in ("tcp", "udp"):
        return ":".join(parts[3:5])
    return None


def stdin_of(walk: "Walk", redirects: list[Redirect], state: State, context: "Context") -> "Stdin":
    """What a command reads from its standard input, after its redirects."""
    from humanlayer_agent.shell.analyse import Stdin

    current = context.stdin
    for redirect in redirects:
        if redirect.fd not in ("", "0") or redirect.op not in ("<", "<<", "<<-", "<<<", "<>", "<&"):
            continue
        if redirect.op in ("<<", "<<-") and redirect.body is not None:
            text = walk.text_of(redirect.body, state)
            current = Stdin("heredoc", text, redirect.body.start)
        elif redirect.op == "<<<":
            value = walk.text_of(redirect.target, state)
            current = Stdin("here-string", None if value is None else value + "\n", redirect.target.start)
        else:
            fields = expand(redirect.target, state)
            name = fields[0].text if len(fields) == 1 else None
            current = Stdin("null") if name == "/dev/null" else Stdin("file", producer=())
    return current
