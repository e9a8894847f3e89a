"""ip and its like (what a sub-command does stands in a verb), and socat's addresses."""

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_SHOWS = frozenset(str.split("show list lst ls sh s l get help"))
_FILES = frozenset({"open", "file", "create", "pipe", "gopen"})


def ip(run: Run, spec: Spec, fields: list[Field]) -> None:
    """ip OBJECT [VERB ...]: a verb that is not known to show something changes the network."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    operands = arguments.operands
    texts = [o.text for o in operands]
    run.command.operands += texts
    if run.command.program == "ip" and texts[:2] in (["netns", "exec"], ["vrf", "exec"], ["netns", "e"]):
        run.program(operands[3:])
        run.effect("privilege", "namespace", "network namespace", True, run.command.span, "ip netns exec")
        return
    shows = len(texts) < 2 or texts[1] in _SHOWS if run.command.program == "ip" else len(texts) < 2
    if texts[1:2] == ["s"] and "link".startswith(texts[0] or "?"):
        shows = False  # `ip link s` is set
    if not shows or any(t is None for t in texts[:2]):
        run.effect("system", "setting", "network settings", True, run.command.span, run.command.program or "ip")


def socat(run: Run, spec: Spec, fields: list[Field]) -> None:
    """socat ADDRESS ADDRESS: type:parameters, where some types are files or commands."""
    arguments = read_arguments(spec, fields)
    spec_reader.note_options(run, spec, arguments)
    for each in arguments.operands:
        _address(run, each)


def _address(run: Run, each: Field) -> None:
    kind, colon, rest = (each.text or "").partition(":")
    kind = kind.lower()
    if kind in ("-", "stdio", "stdin", "stdout", "stderr") and each.text is not None:
        return
    if "listen" in kind and colon:
        place = rest.partition(",")[0]
        run.effect("listen", "operand", place, True, run.span(each), "socat")
    elif kind.startswith(("tcp", "udp", "openssl", "ssl")) and colon:
        run.host(each.tail(len(kind) + 1), origin="socat address")
    elif kind in _FILES and colon:
        name = each.tail(len(kind) + 1)
        name.text = rest.partition(",")[0]
        run.path("write", name, origin="socat address")
    else:
        run.code(each, what=each.text, role="code", origin="socat address")
        run.doubt(each.word.raw)
    if any(o in rest.lower() for o in (",exec", ",system", ",su=", ",chroot", "fork")):
        run.doubt(each.word.raw)
