"""The policies in force: read, tested, trusted, enforced, and kept in their compiled form."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from humanlayer_agent.doctor.context import NOWHERE, Context, Finding, failed, ok, warning
from humanlayer_agent.errors import PolicyError

if TYPE_CHECKING:
    from humanlayer_agent.policy.language.policy import Policy

_WHOSE = {"machine": "the machine's", "user": "yours", "builtin": "shipped", "project": "the project's"}


def project(context: Context) -> Iterator[Finding]:
    """The directory that an agent would work for."""
    if context.project is None:
        yield warning(context.why_no_project, "Start in a project, or: hla doctor --project DIR")
    elif not context.project.is_dir():
        yield failed(f"{context.project}: there is no such directory", "Name another: hla doctor --project DIR")
    else:
        yield ok(f"the project is {context.project}")


def loaded(context: Context) -> Iterator[Finding]:
    """Every layer can be read."""
    try:
        layers = context.layers
        context.director  # noqa: B018 - its path patterns must be of use here
    except PolicyError as error:
        yield failed(str(error), "Mend the file: until then every command is refused.")
        return
    for layer in layers:
        yield ok(f"policy {layer.policy.name} ({_WHOSE[layer.authority]}): {len(layer.policy.rules)} rules")
        if layer.bundle is not None and layer.bundle.ends_soon:
            yield warning(
                f"the bundle {layer.policy.name} expires on {layer.bundle.expires}: after it every command is refused",
                "Have a newer one signed, and put in force: sudo hla policy bundle install",
            )


def tested(context: Context) -> Iterator[Finding]:
    """The tests in the policies' own rules pass."""
    from humanlayer_agent.policy.layers import find_layers

    if not _readable(context):
        return
    try:
        find_layers(context.project or NOWHERE, machine=context.machine)
    except PolicyError as error:
        yield failed(str(error), "hla policy test shows every failure; until they pass every command is refused.")
    else:
        yield ok("the tests in their rules pass")


def trusted(context: Context) -> Iterator[Finding]:
    """A project's policy may allow only once somebody has read it."""
    for layer in context.layers if _readable(context) else ():
        if layer.authority != "project":
            continue
        allows = sum(rule.decision == "allow" and not rule.inherited for rule in layer.policy.rules)
        if layer.trusted:
            yield ok("you have trusted the project's policy as it stands: it may also allow")
        elif allows:
            yield warning(
                f"the project's policy has {allows} rules that allow, and they don't count: nobody has trusted it",
                "hla policy trust shows it first; or leave it so.",
            )
        else:
            yield ok("the project's policy only adds to yours")


def catalogs(context: Context) -> Iterator[Finding]:
    """What people have said of further programs can be read, counts, and does what its examples say."""
    from humanlayer_agent.policy_tools.catalog_entries import failures, remarks

    if not _readable(context):
        return
    try:
        found = context.catalogs
    except PolicyError as error:
        yield failed(str(error), "Mend the file: until then every command is refused.")
        return
    for path, why in found.ignored:
        yield warning(f"{path} is not in force: {why}")
    wrong = [*failures(found.files, found.catalog), *(r for r in remarks(found.files, found.catalog) if r.wrong)]
    for each in wrong:
        yield warning(f"{each.path}:{each.line}: {each.text}", "hla catalog test and hla catalog lint show all of it.")
    if not wrong:
        yield ok(f"{len(found.owners)} programs are described by catalog files of the machine, yours or the project's")


def enforced(context: Context) -> Iterator[Finding]:
    """Policies stop something."""
    from humanlayer_agent.policy.layers import observed

    if not _readable(context):
        return
    if observed(context.layers):
        yield warning(
            "observe: true: the policies are only observed, and every command runs",
            f"Remove that line from {context.layers[0].policy.sources[-1].path} to enforce them.",
        )
    else:
        yield ok("they are enforced")


def compiled(context: Context) -> Iterator[Finding]:
    """The compiled forms are kept: else policies are read and tested anew each time."""
    from humanlayer_agent.locations import read_own_json
    from humanlayer_agent.policy.language.loader import cache_folder

    if not _readable(context):
        return
    kept = []
    for path in cache_folder().glob("*.json"):
        content = read_own_json(path)  # None where others could have written it
        body = content.get("policy") if content is not None else None
        sources = body.get("sources") if isinstance(body, dict) else None
        if isinstance(sources, list) and all(isinstance(each, dict) for each in sources):
            kept.append({(str(each.get("path")), str(each.get("sha256"))) for each in sources})
    for layer in context.layers:
        name = layer.policy.name
        if not _current(layer.policy):
            yield failed(f"policy {name} has changed while it was looked at", "Run hla doctor again.")
        elif {(source.path, source.sha256) for source in layer.policy.sources} in kept:
            yield ok(f"policy {name} is kept in its compiled form, and that is fresh")
        else:
            yield warning(
                f"policy {name} is read and tested anew each time: its compiled form can't be kept",
                f"Make {cache_folder()} a folder that you, and nobody else, can write.",
            )


def _readable(context: Context) -> bool:
    try:
        return bool(context.layers)
    except PolicyError:
        return False  # `loaded` says so


def _current(policy: "Policy") -> bool:
    from humanlayer_agent.policy.language.sources import read

    return all(hashlib.sha256(read(Path(each.path))).hexdigest() == each.sha256 for each in policy.sources)
