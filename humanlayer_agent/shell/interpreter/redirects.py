"""Redirects: the files and connections they open, and the standard input they give."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion import output, substitutions
from humanlayer_agent.shell.expansion.field import Field, positional
from humanlayer_agent.shell.expansion.words import expand, text_of
from humanlayer_agent.shell.interpreter.context import Context, Stdin
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.paths import absolute_path
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.syntax.tree import ProcSub, Redirect

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

_DESCRIPTOR = re.compile(r"-|[0-9]+-?", re.ASCII)
_COPIES = (">&", "<&")
_INPUTS = frozenset({"<", "<<", "<<-", "<<<", "<>", "<&", ">&", ">"})
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


def add(run: Run, redirects: list[Redirect]) -> None:
    """Add the effects of `redirects` to the command."""
    for redirect in redirects:
        if redirect.target.dynamic:
            substitutions.word(run.walk, redirect.target, run.state, _taking(run.command, redirect, run.context))
        if redirect.body is not None and redirect.body.dynamic:
            substitutions.word(run.walk, redirect.body, run.state, run.context.within("heredoc"))
        if redirect.op in ("<<", "<<-", "<<<"):
            continue
        fields = expand(redirect.target, run.state)
        for each in fields or [Field(redirect.target, redirect.target.start, redirect.target.end)]:
            _one(run, redirect, each)


def _taking(command: SimpleCommand, redirect: Redirect, context: Context) -> Context:
    """`context` for what runs in a redirect's target: `> >(sh)` is fed with what `command` prints."""
    part = redirect.target.parts[0] if redirect.target.parts else None
    if not isinstance(part, ProcSub) or part.direction != ">" or redirect.fd not in ("", "1"):
        return context
    words = positional(command.words)
    return context.fed(Stdin.of("pipe", output.prints(words, context.stdin.text) if words else None))


def may_fail(redirects: list[Redirect]) -> bool:
    """True where opening one of them may fail, with which the command does not run at all."""
    for redirect in redirects:
        if redirect.op not in ("<<", "<<-", "<<<") and redirect.target.static not in ("/dev/null", "1", "2"):
            parts = redirect.target.parts
            if len(parts) != 1 or not isinstance(parts[0], ProcSub):
                return True
    return False


def assign_descriptors(
    walk: "Interpreter", redirects: list[Redirect], state: State, context: Context, *, certain: bool
) -> None:
    """Set the names of `{name}> file` to the number of a descriptor, before what is redirected runs.

    Args:
        certain: it is this shell's variable. Else it may be that of a child, and here hold what it held.
    """
    for redirect in redirects:
        if not redirect.fd.startswith("{") or (redirect.op in _COPIES and redirect.target.static == "-"):
            continue  # `{name}>&-` closes what `name` says
        name, written = redirect.fd[1:-1], f"{redirect.fd}{redirect.op} {redirect.target.raw}"
        number = certain and (redirect.op not in _COPIES or redirect.target.static is not None)
        kept = not number and state.inherits(name)
        walk.implicit(name, None, state, context, written, number=number)
        if kept:
            state.own -= {name}


def _one(run: Run, redirect: Redirect, target: Field) -> None:
    if redirect.op in _COPIES and target.texts:
        if all(_DESCRIPTOR.fullmatch(t) for t in target.texts):
            return  # copies, moves or closes a descriptor
        if redirect.op == "<&" or redirect.fd not in ("", "1"):
            run.doubt(redirect.target.raw)
    origin = f"{redirect.op} redirect"
    if target.text is None or target.text.startswith("/dev/"):
        hosts = [network_device(t) for t in target.texts or (target.prefix,)]
        for host in hosts:
            if host is not None:
                known, span = bool(target.texts) and bool(host), run.span(target)
                effect = Effect("network", "redirect", host or None, known, span, origin, source="redirect")
                run.command.effects.append(effect)
        if target.texts and None not in hosts:
            return
    kinds = _KINDS[redirect.op]
    if redirect.op == "<&" and target.text is None:
        kinds = ("read",)
    for kind in kinds:
        run.path(kind, target, role="redirect", origin=origin, source="redirect")


def network_device(text: str) -> str | None:
    """`host:port` where bash opens a connection instead of a file: /dev/tcp/host/port. "" where it may be any host."""
    if not text.startswith("/dev/"):
        return None
    parts = text.split("/")
    if len(parts) >= 4 and parts[:2] == ["", "dev"] and parts[2] in ("tcp", "udp"):
        return ":".join(parts[3:5]) if parts[3] and len(parts) > 4 else ""
    return None


def fed(walk: "Interpreter", redirects: list[Redirect], state: State, context: Context) -> Context:
    """`context` with what a command reads from its standard input and other descriptors, after its redirects."""
    opened = [r for r in redirects if r.op in _INPUTS and (r.fd or r.op not in (">&", ">"))]
    if not opened and not context.descriptors:
        return context
    inputs = {"": context.stdin, **dict(context.descriptors)}
    for redirect in opened:
        inputs[redirect.fd.lstrip("0")] = _input(walk, redirect, state, inputs)
    stdin = inputs.pop("")
    context = context.fed(stdin)
    others = tuple((fd, each) for fd, each in inputs.items() if each.given is not None)
    return replace(context, descriptors=others) if others or context.descriptors else context


def stdin_of(walk: "Interpreter", redirects: list[Redirect], state: State, context: Context) -> Stdin:
    """What a command reads from its standard input, after its redirects."""
    return fed(walk, redirects, state, context).stdin


def _input(walk: "Interpreter", redirect: Redirect, state: State, inputs: Mapping[str, Stdin]) -> Stdin:
    """What can be read from the descriptor that `redirect` opens, given what the others hold."""
    if redirect.op in ("<<", "<<-") and redirect.body is not None:
        return Stdin("heredoc", text_of(redirect.body, state), redirect.body.start)
    if redirect.op == "<<<":
        value = text_of(redirect.target, state)
        return Stdin("here-string", None if value is None else value + "\n", redirect.target.start)
    if redirect.op in _COPIES:
        number = (redirect.target.static or "").removesuffix("-")
        return inputs.get(number.lstrip("0"), Stdin("file")) if number.isascii() and number.isdigit() else Stdin("file")
    if redirect.op == "<" and (text := output.of_process(redirect.target, state, expand)) is not None:
        return Stdin.of("file", text, redirect.target.start)
    fields = expand(redirect.target, state)
    name = fields[0].text if len(fields) == 1 else None
    if name == "/dev/null":
        return Stdin("null")
    cwd = state.cwd[0] if state.cwd is not None and len(state.cwd) == 1 else None
    known = redirect.op == "<" and name is not None and (cwd is not None or name.startswith("/"))
    return Stdin("file", file=absolute_path(name or "", cwd or "/") if known else "")
