"""The names of what curl and wget download, ip and its like (a sub-command says what they do), socat's addresses."""

import re
from dataclasses import replace

from humanlayer_agent.shell.expansion.words import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Always, Spec

_SHOWS = frozenset(str.split("show list lst ls sh s l get help"))
_FILES = frozenset({"open", "file", "create", "pipe", "gopen"})
_ADDRESS = re.compile(r"(?:https?://)?(?![a-z]+://)[^/?#\[\]{}]+(?:/(?P<path>[^?#\[\]{}]*))?(?P<query>\?[^#\[\]{}]*)?")
_SEVERAL = re.compile(r"\{|\[(?![0-9A-Fa-f.:]*:)")
"""What curl takes for several addresses: a list, or a range that is no address of IPv6."""
_NAME = re.compile(r"(?!\.\.?$)[A-Za-z0-9._~+@=,-]+")
_SOMEWHERE = (Always("write", "download", ".", frozenset(), frozenset()),)
_NOTHING = frozenset({"output-document", "spider", "version", "help"})
"""With these wget writes nothing, or what they name."""
_FOLDERS = frozenset({"directory-prefix", "output-dir"})
_OTHERWISE = frozenset({"input-file", "recursive", "other-names", "accept", "remote-header-name", "base"})
"""With these something else than its address names a file, or more is downloaded than is named."""


def download(run: Run, spec: Spec, fields: list[Field]) -> None:
    """curl -O and wget: what is downloaded is called what its address ends with, where no option says otherwise.

    Sources: curl(1), --remote-name, --globoff; the manual of GNU wget, --trust-server-names (else a redirection changes
    no name).
    """
    spec_reader.apply_plain(run, spec, fields)
    arguments = read_arguments(spec, fields)
    flags = arguments.flags()
    by_wget = run.command.program == "wget"
    _note_many(run, arguments, by_wget)
    if not flags.isdisjoint(_NOTHING) if by_wget else "remote-name" not in flags:
        return
    given = [(use.option.name, use.value) for use in arguments.options if use.value]
    folders = [value for option, value in given if option in _FOLDERS]
    names = [
        _name(each.text or "", by_wget)
        for each in (*arguments.operands, *(value for option, value in given if option == "url"))
    ]
    certain = flags.isdisjoint(_OTHERWISE) and not arguments.unknown and not arguments.loose
    if "input-file" in flags:
        run.effect("network", "operand", None, False, run.command.span, "wget input-file")
    if not (names and all(names) and certain and all(each.text for each in folders)):
        if not folders:
            spec_reader.note_effects(run, _SOMEWHERE)
        for each in folders if by_wget else ():  # curl's is noted as what the option names
            run.path("write", each, role="download", origin="wget directory-prefix")
        return
    folder = f"{folders[-1].text}/" if folders else ""
    for name in names:
        target = spec_reader.implied(run.command, folder + name)
        run.path("write", target, role="download", origin=f"{run.command.program} URL")


def _note_many(run: Run, arguments: Arguments, by_wget: bool) -> None:
    """Note where more of a host is asked for than is written: what wget finds there, curl's `{a,b}` and `[1-9]`."""
    flags = arguments.flags()
    if by_wget:
        several = "recursive" in flags
    else:
        by_option = [use.value for use in arguments.options if use.option.name == "url" and use.value]
        written = [*arguments.operands, *by_option]
        several = "globoff" not in flags and any(_SEVERAL.search(each.text or each.word.raw) for each in written)
    if several:
        run.command.effects[:] = [
            replace(each, recursive=True) if each.kind == "network" else each for each in run.command.effects
        ]


def _name(address: str, by_wget: bool) -> str:
    """What is downloaded from an address is called; "" where that can't be told."""
    found = _ADDRESS.fullmatch(address.partition("#")[0])
    if found is None or (by_wget and found["query"]):  # wget has the query in the name
        return ""
    name = (found["path"] or "").rpartition("/")[2]
    if not name and by_wget:
        return "index.html"
    return name if _NAME.fullmatch(name) else ""


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
