"""aws and az: hundreds of groups of sub-commands, whose verbs and options stand in the catalog and in its `services`.

Both read options by argparse: a word that begins with - is never the value of an option before it, and options may be
shortened. What is not spelled out in full is not known here.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import pairwise

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader, verbs
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.spec import Option, Spec

_NAME = re.compile(r"[a-z][a-z0-9-]*", re.ASCII)
_READ_ONLY = frozenset({"GET", "HEAD", "OPTIONS"})
_SYNOPSES = frozenset({"--help", "-h", "--version"})


def aws(run: Run, spec: Spec, fields: list[Field]) -> None:
    """aws [options] SERVICE OPERATION [parameters]; parameters that begin with file:// are read from there."""
    names = run.walk.catalog.service(spec.names)
    full = _with_options(spec, names)
    arguments = _arguments(run, full, fields)
    run = spec_reader.note_options(run, full, arguments)
    for word in fields:
        _parameter(run, word)
    words = [word.text for word in arguments.operands[:2]]
    rest = arguments.operands[2:]
    if not words:
        _nothing(run, full, arguments)
        return
    service, operation = words[0] or "", words[-1] or ""
    run.command.subcommand = " ".join(word or "" for word in words)
    if not (words[0] and words[-1]):
        verbs.note(run, spec, "unknown")
        return
    if service not in names["services"].split() and service not in ("help", "history"):
        _alien(run, spec, arguments.operands[0])
        return
    if service == "s3" and _NAME.fullmatch(operation):
        verbs.note(run, spec, _copied(run, operation, rest))
        return
    if operation in _listed(names["outfile"], service):
        for word in rest:
            run.path("write", word, origin="aws outfile")
    secret = operation in _listed(names["secrets"], service)
    verbs.note(run, spec, "secrets" if secret else _verb(spec, words))


def _copied(run: Run, operation: str, operands: Sequence[Field]) -> str:
    """What `aws s3` does with the local files among its operands, and what it asks of the service."""
    last = len(operands) - 1
    local = [n for n, word in enumerate(operands) if not word.prefix.startswith("s3://")]
    if operation not in ("cp", "mv", "sync"):
        return {"ls": "read", "rm": "delete", "rb": "delete", "presign": "secrets", "help": "local"}.get(
            operation, "change"
        )
    for n in local:
        kind = "write" if n == last and last else "move" if operation == "mv" else "read"
        run.path(kind, operands[n], origin=f"aws s3 {operation}", recursive=True)
        if n == last and operation == "sync" and "delete" in run.command.flags:
            run.path("delete", operands[n], origin=f"aws s3 {operation}", recursive=True)
    if operation == "mv":
        return "delete"
    return "read" if last in local and last else "change"


def _parameter(run: Run, word: Field) -> None:
    """The file or URL that a parameter is read from, also of the form name=file://x and --name=file://x."""
    text = word.text if word.text is not None else word.prefix
    found = re.search(r"(?:^|=)(fileb?|https?)://", text)
    if found is None:
        return
    value = word.tail(found.end(1) + 3)
    if found[1].startswith("file"):
        run.path("read", value, role="option", origin="aws parameter")
    elif not re.match(r"https?://[a-z0-9.-]+\.amazonaws\.com(/|$)", text[found.start(1) :]):
        run.host(word.tail(found.start(1)), origin="aws parameter")


def az(run: Run, spec: Spec, fields: list[Field]) -> None:
    """az GROUP ... VERB [options]: it has hardly any operands, so the words up to the first option say what it does."""
    names = run.walk.catalog.service(spec.names)
    full = _with_options(spec, names)
    arguments = _arguments(run, full, fields)
    run = spec_reader.note_options(run, full, arguments)
    path = _leading(arguments.operands, fields)
    if not path:
        _nothing(run, full, arguments)
        return
    for word in fields:
        text = word.text or word.prefix
        if "@" in (text[:1], text.partition("=")[2][:1]):
            run.path("read", word.tail(text.index("@") + 1), role="option", origin="az parameter")
            run.command.verbs |= {"unknown"}  # its text becomes a word of the command line
            run.doubt(word.word.raw)
    words = [word.text for word in path]
    run.command.subcommand = " ".join(word or "" for word in words)
    if words[0] not in (*names["services"].split(), "help"):
        _alien(run, spec, path[0])
        return
    if not all(word and _NAME.fullmatch(word) for word in words):
        run.doubt(run.command.text)
        verbs.note(run, spec, "unknown")
    elif words[0] == "rest":
        verbs.note(run, spec, _rest(run))
    else:
        verbs.note(
            run, spec, "local" if "-h" in run.command.argv or "--help" in run.command.argv else _verb(spec, words)
        )


def _rest(run: Run) -> str:
    """What `az rest` does by its method: GET, where it is given none."""
    options = run.command.options
    for uri in options.get("uri", ()):
        if uri is None:
            run.effect("network", "operand", None, False, run.command.span, "az rest")
        elif "://" in uri:
            host = uri.partition("://")[2].partition("/")[0]
            run.effect("network", "operand", host, True, run.command.span, "az rest")
            if "vault.azure.net" in host:
                return "secrets"
    methods = {(method or "?").upper() for method in options.get("method", ())}
    return "read" if methods <= _READ_ONLY else "delete" if methods == {"DELETE"} else "change"


def _leading(operands: Sequence[Field], fields: Sequence[Field]) -> list[Field]:
    """The operands that stand side by side at the beginning: what comes after an option may be more values of it."""
    places = {id(word): n for n, word in enumerate(fields)}
    found = list(operands[:1])
    for before, word in pairwise(operands):
        if places[id(word)] != places[id(before)] + 1:
            break
        found.append(word)
    return found


def _verb(spec: Spec, words: Sequence[str | None]) -> str:
    """What a sub-command asks, by the first pattern in the catalog that its words match; a change where none does."""
    command = " ".join(word or "?" for word in words)
    for verb, patterns in spec.verbs.items():
        if any(fnmatchcase(command, pattern) for pattern in patterns):
            return verb
    return "change"


def _arguments(run: Run, spec: Spec, fields: Sequence[Field]) -> Arguments:
    """The words by the options of `spec`. A value of which only its place says so that it is one may be an option."""
    arguments = read_arguments(spec, fields)
    for use in arguments.options:
        value = use.value
        if value is None or use.at.text is None or "=" in use.at.text:
            continue
        if value.may_be_option() if value.text is None else value.text[:1] == "-" and value.text != "-":
            run.command.verbs |= {"unknown"}
            run.doubt(value.word.raw)
    return arguments


def _with_options(spec: Spec, names: dict[str, str]) -> Spec:
    """`spec` with the options in `names`, but for those that argparse takes for the beginning of one of its own."""
    full = _FULL.get(spec.name)
    if full is None or full[0] is not names:
        own = tuple(spec.long)
        long = dict(spec.long)
        for key, arity in (("options", 1), ("flags", 0)):
            for name in names.get(key, "").split():
                spelled = f"--{name}"
                if not any(option.startswith(spelled) for option in own):
                    long[spelled] = Option(name, arity, "text")
        full = _FULL[spec.name] = (names, replace(spec, long=long, shapes={}))
    return full[1]


_FULL: dict[str, tuple[dict[str, str], Spec]] = {}
"""What `_with_options` has made, by the program, and of what."""


def _listed(by_service: dict[str, str], service: str) -> Sequence[str]:
    return (by_service.get(service) or "").split()


def _nothing(run: Run, spec: Spec, arguments: Arguments) -> None:
    """No sub-command: only its version or its help is asked for, or nobody knows what."""
    if not {word.partition("=")[0] for word in run.command.argv[1:]} <= _SYNOPSES:
        run.doubt(run.command.text)
        verbs.note(run, spec, "unknown")


def _alien(run: Run, spec: Spec, word: Field) -> None:
    """A group that the tool does not have by itself: an alias or an extension, which is code."""
    run.command.known = False
    run.doubt(word.word.raw)
    run.code(word, what=word.text, role="subcommand", origin=f"{run.command.program} sub-command", unread=False)
    verbs.note(run, spec, "execute")
