"""`hla policy bundle` and `hla policy status`: signed policies for many machines, and which one this machine has."""

import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import FormatOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import BundleRecord, LayerStatusRecord
from humanlayer_agent.errors import ConfigError, PolicyError
from humanlayer_agent.locations import key_path
from humanlayer_agent.safe_text import one_line

if TYPE_CHECKING:
    from humanlayer_agent.policy.language.bundle import Bundle
    from humanlayer_agent.policy_tools.bundles import LayerStatus

app = Commands(
    help="""Sign a policy for many machines, look at one, put one in force on this machine.

    Examples: hla policy bundle build ./acme --version 7 --expires 2030-12-31;  sudo hla policy bundle install"""
)

SourceArgument = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A file, https://HOST/PATH, or git+https://HOST/REPOSITORY#BRANCH:PATH.")
]


@app.command()
def build(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Has policy.yaml, what it extends, and catalog/.")],
    version: Annotated[int, typer.Option("--version", metavar="N", min=1, help="Larger than that of any before.")],
    expires: Annotated[str, typer.Option("--expires", metavar="DAY", help="The last day on which it holds (UTC).")],
    unlock: Annotated[
        list[str] | None,
        typer.Option("--unlock", metavar="RULE", help="A locked rule of an earlier version that goes or changes."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Where to write it. [NAME.bundle]")
    ] = None,
) -> None:
    """Build a bundle of a folder's policies and catalogs: run their tests, and sign all of it with your key.

    The same files, version, day and key make the same bytes. After the expiry machines refuse every command until they
    have a newer bundle.

    Example: hla policy bundle build ./acme --version 7 --expires 2030-12-31
    """
    from humanlayer_agent.keys.signing import Signer
    from humanlayer_agent.keys.unlock import unlock as unlock_key
    from humanlayer_agent.policy_tools import bundles

    human_only("policy bundle build", "signs a policy")
    if not os.path.lexists(key_path()):
        raise ConfigError(f"there is no signing key ({key_path()}), and bundles are signed: run hla init")
    signer = Signer(key_path())
    _ = signer.fingerprint  # a key that can't be used is an error before anything is asked
    files = bundles.gathered(folder)
    unlock_key(signer, project=folder)
    made, tried = bundles.build(files, version=version, expires=expires, unlocks=unlock or (), signer=signer)
    path = output or Path(f"{made.policy}.bundle")
    try:
        path.write_bytes(made.text)
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}") from error
    print(f"{made.title} is in {path}: {len(made.files)} files, tests passed: {tried.tests}, until {made.expires}")
    print(f"signed by {made.signer}")


@app.command()
@prints(BundleRecord)
def verify(
    source: SourceArgument,
    signer: Annotated[
        list[str] | None,
        typer.Option("--signer", metavar="KEY", help="Whose signature counts; else those that this machine takes."),
    ] = None,
    tests: Annotated[bool, typer.Option("--tests", help="Run also the tests in it.")] = False,
    output: FormatOption = "table",
) -> None:
    """Verify a bundle: its form, signature, version and expiry. Changes nothing. Exit code 1: it would be refused.

    Example: hla policy bundle verify acme.bundle --tests
    """
    from humanlayer_agent.policy_tools import bundles
    from humanlayer_agent.policy_tools.bundle_sources import fetch

    raw = fetch(source)
    try:
        found = bundles.looked_at(raw, source, frozenset(signer) if signer else None)
        tried = bundles.tried(found) if tests else None
    except PolicyError as error:
        print(f"humanlayer-agent: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    record: BundleRecord = {
        "name": found.policy,
        "version": found.version,
        "expires": found.expires,
        "signer": found.signer,
        "sha256": found.digest,
        "files": sorted(found.files),
        "unlocks": list(found.unlocks),
        "tests": None if tried is None else tried.tests,
    }
    if output != "table":
        print_record(record, output)
        return
    passed = "" if tried is None else f", tests passed: {tried.tests}"
    print(f"{found.title}: the signature is good{passed}")
    _say(found)


@app.command()
def install(
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="As for verify; else what `from:` of bundle.yaml says."),
    ] = None,
) -> None:
    """Put a bundle in force on this machine, as root: fetch it, verify it, run its tests, let nothing older in.

    Refused, it changes nothing: what was in force is. Run it from a timer to follow an address.

    Examples: sudo hla policy bundle install;  sudo hla policy bundle install ./acme.bundle
    """
    from humanlayer_agent.policy_tools import bundles

    human_only("policy bundle install", "puts a policy in force")
    found, tried = bundles.install(*bundles.fetched(source))
    print(f"{found.title} is in force: the signature is good, tests passed: {tried.tests}")
    _say(found)


def _say(found: "Bundle") -> None:
    print(f"  expires  {found.expires}\n  signer   {found.signer}\n  sha256   {found.digest}")
    print(f"  files    {', '.join(sorted(found.files))}")
    if found.unlocks:
        print(f"  unlocks  {', '.join(found.unlocks)}")


def print_status(found: "list[LayerStatus]", output: str) -> int:
    """Print what stands at each layer. Returns the exit code: 1 where something is not as it should be."""
    rows = [cast("LayerStatusRecord", asdict(each)) for each in found]
    if output != "table":
        print_records(rows, output)
        return int(any(each["problem"] for each in rows))
    for row in rows:
        version = f" version {row['version']}" if row["version"] is not None else ""
        print(f"{row['layer']}: {one_line(row['policy'] or 'nothing that counts')}{version}  {one_line(row['file'])}")
        said = (row["sha256"], row["signer"], row["expires"], row["fetched"], row["source"])
        for name, value in zip(("sha256", "signer", "expires", "fetched", "source"), said, strict=True):
            if value:
                print(f"    {name:8} {one_line(value)}")
        if row["problem"]:
            print(f"    ! {one_line(row['problem'])}")
    return int(any(each["problem"] for each in rows))
