"""Commands of clusters, containers and infrastructure that show or copy what depends on their words."""

import re
from collections.abc import Sequence

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.programs import spec_reader, verbs
from humanlayer_agent.shell.programs.arguments import read_arguments
from humanlayer_agent.shell.programs.spec import Spec

_NAMES_ONLY = frozenset({"name", "wide"})
_FROM_FILE = re.compile(r"(?:custom-columns|jsonpath|go-template|template)-?file=")
_PLAIN_FACTS = re.compile(
    r"(?:[^{}]|\{\{\s*(?:json )?\.(?:Id|Name|Created|State|RestartCount|Image|RepoTags|RepoDigests|Size|Architecture|Os"
    r"|NetworkSettings|Mounts|Driver|Mountpoint|Scope|Platform)(?:\.[A-Za-z]+)*\s*\}\})*"
)


def get(run: Run, spec: Spec, fields: list[Field]) -> None:
    """kubectl get: the values of secrets, where these are shown as more than a table of names."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    spec_reader.note_operands(run, spec, arguments)
    options, flags = run.command.options, run.command.flags
    for use in arguments.options:
        if use.option.name == "output" and use.value is not None and (found := _FROM_FILE.match(use.value.prefix)):
            run.path("read", use.value.tail(found.end()), role="option", origin="kubectl output")
    output = options.get("output", [])
    table = all(o in _NAMES_ONLY for o in output) and not {"log-level", "template"} & flags
    secret = "raw" in flags or any(_is_secret(o.text) for o in arguments.operands) or "file" in flags
    verbs.note(run, spec, "secrets" if secret and not (table and "raw" not in flags) else "read")


def _is_secret(resources: str | None) -> bool:
    """Tell whether secrets are among the resources that a word names: `secrets`, `pods,secret`, `secret/x`."""
    if resources is None:
        return True
    kinds = [each.partition("/")[0].partition(".")[0].lower() for each in resources.split(",")]
    return any(kind in ("secret", "secrets") for kind in kinds)


def copy(run: Run, spec: Spec, fields: list[Field]) -> None:
    """kubectl cp FROM TO: what has a colon is in a pod, anything else is a local path."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    run.command.operands += [word.text for word in arguments.operands]
    run.command.listed = True
    for n, word in enumerate(arguments.operands):
        if word.text is None or word.text[:1] in "./" or ":" not in word.text:
            last = n == len(arguments.operands) - 1
            run.path("write" if last else "read", word, origin=f"{run.command.program} cp", recursive=True)
    verbs.note(run, spec)


def inspect(run: Run, spec: Spec, fields: list[Field]) -> None:
    """docker inspect shows the environment of a container, so its secrets, unless only plain facts are asked for."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    spec_reader.note_operands(run, spec, arguments)
    plain = (run.command.subcommand or "").startswith(("volume", "network"))
    verbs.note(run, spec, "read" if plain or _plain(run.command.options.get("format", ())) else "secrets")


def _plain(formats: Sequence[str | None]) -> bool:
    return bool(formats) and all(f is not None and f != "json" and _PLAIN_FACTS.fullmatch(f) for f in formats)


def output(run: Run, spec: Spec, fields: list[Field]) -> None:
    """terraform output hides what is sensitive, unless it is asked for one output, or for another form."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    run.command.operands += [word.text for word in arguments.operands]
    run.command.listed = True
    verbs.note(run, spec, "secrets" if arguments.operands else "read")
