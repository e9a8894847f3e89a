"""ip and its like (what a sub-command does stands in a verb), and socat's addresses."""

from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.programs import operand_effects, spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.shell_text import run_words

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Walk
    from humanlayer_agent.shell.interpreter.context import Context

_SHOWS = frozenset(str.split("show list lst ls sh s l get help"))
_FILES = frozenset({"open", "file", "create", "pipe", "gopen"})


def ip(walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context") -> None:
    """ip OBJECT [VERB ...]: a verb that is not known to show something changes the network."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    operands = arguments.operands
    texts = [o.text for o in operands]
    command.operands += texts
    if command.program == "ip" and texts[:2] in (["netns", "exec"], ["vrf", "exec"], ["netns", "e"]):
        run_words(walk, command, operands[3:], state, context)
        command.effects.append(
            Effect("privilege", "namespace", "network namespace", True, command.span, "ip netns exec")
        )
        return
    shows = len(texts) < 2 or texts[1] in _SHOWS if command.program == "ip" else len(texts) < 2
    if texts[1:2] == ["s"] and "link".startswith(texts[0] or "?"):
        shows = False  # `ip link s` is set
    if not shows or any(t is None for t in texts[:2]):
        command.effects.append(
            Effect("system", "setting", "network settings", True, command.span, command.program or "ip")
        )


def socat(
    walk: "Walk", spec: Spec, command: SimpleCommand, fields: list[Field], state: State, context: "Context"
) -> None:
    """socat ADDRESS ADDRESS: type:parameters, where some types are files or commands."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(walk, spec, command, arguments, state, context)
    for each in arguments.operands:
        _address(walk, command, each, state)


def _address(walk: "Walk", command: SimpleCommand, each: Field, state: State) -> None:
    kind, colon, rest = (each.text or "").partition(":")
    kind = kind.lower()
    if kind in ("-", "stdio", "stdin", "stdout", "stderr") and each.text is not None:
        return
    if "listen" in kind and colon:
        place = rest.partition(",")[0]
        command.effects.append(Effect("listen", "operand", place, True, walk.span(each.start, each.end), "socat"))
    elif kind.startswith(("tcp", "udp", "openssl", "ssl")) and colon:
        operand_effects.host(walk, command, each.tail(len(kind) + 1), origin="socat address")
    elif kind in _FILES and colon:
        name = each.tail(len(kind) + 1)
        name.text = rest.partition(",")[0]
        operand_effects.path(walk, command, "write", name, state, origin="socat address")
    else:
        operand_effects.code(walk, command, each, what=each.text, role="code", origin="socat address")
        command.doubt(each.word.raw)
    if any(o in rest.lower() for o in (",exec", ",system", ",su=", ",chroot", "fork")):
        command.doubt(each.word.raw)
