"""`hla policy trust`: a human reads a project's own files at the terminal, and trusts exactly that text."""

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from humanlayer_agent.channels import settings
from humanlayer_agent.cli.shared.human_signature import typed_word
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.errors import ConfigError, NoTerminal
from humanlayer_agent.locations import PROJECT_FOLDER, write_own_json
from humanlayer_agent.policy.language import sources
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.layers import FILE, catalog_files, trust
from humanlayer_agent.processes.tty import controlling_terminal
from humanlayer_agent.safe_text import visible, warnings

NO_HUMAN = 3


@dataclass(frozen=True, slots=True)
class _Offer:
    """A file of the project: its text, what trusting it means, and how that is kept (which returns where)."""

    path: Path
    trusted: bool
    shown: str
    may: str
    record: Callable[[], Path]


def trust_project(project: Path, *, withdraw: bool = False) -> int:
    """Show the project's policy, channels file and catalog files, ask, and remember the answer.

    Returns:
        The exit code: 0 trusted, 1 not, 3 no terminal.

    Raises:
        ConfigError: we run below a supervisor; there is no file; it has a mistake or fails its own tests; the answer
            can't be kept.
    """
    human_only("policy trust", "trusts a policy")
    channels = project / PROJECT_FOLDER / settings.FILE
    if withdraw:
        was = [trust.withdraw(project), settings.withdraw(channels), trust.withdraw(project, "-catalog")]
        print("trusted no longer" if any(was) else "it was not trusted")
        return 0
    offers = []
    with_channels = settings.exists(channels)
    catalogs = catalog_files.project_contents(project)
    if not (with_channels or catalogs or settings.exists(project / PROJECT_FOLDER / FILE)):
        where = project / PROJECT_FOLDER
        raise ConfigError(f"there is nothing to trust in {where}: hla init --project {project} writes a policy there")
    if settings.exists(project / PROJECT_FOLDER / FILE):
        offers.append(_policy(project))
    if with_channels:
        offers.append(_channels(project, channels))
    if catalogs:
        offers.append(_catalogs(project, catalogs))
    for offer in offers:
        if offer.trusted:
            print(f"{offer.path} is trusted already, as it stands")
    new = [offer for offer in offers if not offer.trusted]
    return _ask(new) if new else 0


def _ask(offers: list[_Offer]) -> int:
    """Show what is not trusted yet, and take one word for all of it."""
    shown = "\n".join(offer.shown for offer in offers)
    try:
        with controlling_terminal() as fd:
            trusts = typed_word(fd, shown.rstrip("\n"), "trust", "trust exactly this text")
    except NoTerminal as error:
        print(f"humanlayer-agent: not trusted: {error}", file=sys.stderr)
        return NO_HUMAN
    if not trusts:
        print("not trusted")
        return 1
    try:
        for offer in offers:
            print(f"trusted: {offer.path} may now {offer.may} ({offer.record()})")
    except OSError as error:
        raise ConfigError(f"the answer can't be kept: {error}") from error
    return 0


def _policy(project: Path) -> _Offer:
    path = project / PROJECT_FOLDER / FILE
    policy = load(path, within=project)
    return _Offer(
        path,
        trust.is_trusted(project, trust.policy_files(policy)),
        _shown(policy) + _summary(policy) + "\n",
        "also allow what nothing else decides, and excuse from what ships",
        lambda: trust.record(project, trust.policy_files(policy)),
    )


def _catalogs(project: Path, contents: list[tuple[str, bytes]]) -> _Offer:
    files = catalog_files.digests(contents)
    found = catalog_files.find_catalogs(project, trusting=True)  # they must be of use
    if [(each.path, each.sha256) for each in found.files if each.owner == "project"] != files:
        raise ConfigError(f"{project / PROJECT_FOLDER / catalog_files.FOLDER} has changed while it was read: try again")
    names = sorted(name for name, file in found.owners.items() if file.owner == "project")
    said = f"\nThey say what these programs do, and are believed: {', '.join(names)}.\n"
    return _Offer(
        project / PROJECT_FOLDER / catalog_files.FOLDER,
        trust.is_trusted(project, files, "-catalog"),
        "\n".join(_numbered(path, raw) for path, raw in contents) + said,
        "say what programs do that nobody else describes",
        lambda: trust.record(project, files, "-catalog"),
    )


def _channels(project: Path, path: Path) -> _Offer:
    from humanlayer_agent.channels.settings.authority_loader import authority_of
    from humanlayer_agent.configuration import requester

    raw = sources.read(path)
    digest = settings.trust_key(path, raw)
    authority = authority_of(settings.load(project, trusting=True), requester())  # it must be of use
    if settings.trust_key(path) != digest:
        raise ConfigError(f"{path} has changed while it was read: try again")

    def record() -> Path:
        place = settings.trust_place(path)
        write_own_json(place, {"path": os.path.realpath(path), "digest": digest}, required=True)
        return place

    people = ", ".join(person.id for person in authority.people)
    return _Offer(
        path,
        settings.is_trusted(path),
        _numbered(str(path), raw) + f"\nIt says who may approve. With it these people are known: {people}.\n",
        "say who is asked, by which channels, and who may approve",
        record,
    )


def _shown(policy: Policy) -> str:
    """Every file of the policy that is not ours, in full, as text that can't act on the terminal."""
    by_path = {source.path: source.sha256 for source in policy.sources}
    parts = []
    for path in trust.own_files(policy):
        raw = sources.read(Path(path))
        if hashlib.sha256(raw).hexdigest() != by_path[path]:
            raise ConfigError(f"{path} has changed while it was read: try again")
        parts.append(_numbered(path, raw))
    return "\n".join(parts)


def _numbered(path: str, raw: bytes) -> str:
    text = raw.decode("utf-8")
    lines = [f"{n:4}  {visible(line, keep='')}" for n, line in enumerate(text.split("\n"), 1)]
    odd = "".join(f"  ! {visible(warning, keep='')}\n" for warning in warnings(text))
    return f"== {visible(path, keep='')}\n" + "\n".join(lines) + "\n" + odd


def _summary(policy: Policy) -> str:
    allows = [rule.id for rule in policy.rules if rule.decision == "allow" and not rule.inherited]
    excused = dict.fromkeys(each.rule for each in policy.exceptions)
    said = f"\nIt allows: {', '.join(allows) or 'nothing of its own'}."
    return said + (f"\nIt excuses from what is asked by: {', '.join(excused)}." if excused else "")
