"""`hla key signers`: whose signatures count, and signed lists of them for many machines."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, FormatOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import SignerListRecord, SignerRecord
from humanlayer_agent.errors import ConfigError, PolicyError
from humanlayer_agent.locations import key_path
from humanlayer_agent.safe_text import one_line

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings import Profiles
    from humanlayer_agent.keys.signer_list import SignerList
    from humanlayer_agent.policy.layers.installation import Installation

app = Commands(
    help="""See whose signatures count, and say it for many machines in one signed list.

    Examples: hla key signers ls;  hla key signers build signers.yaml --version 3 --expires 2030-12-31;  sudo hla key
    signers install"""
)

SourceArgument = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A file, https://HOST/PATH, or git+https://HOST/REPOSITORY#BRANCH:PATH.")
]


@app.command()
@prints(SignerRecord, many=True)
def ls(channels: ChannelsOption = None, output: FormatOption = "table") -> None:
    """List the keys whose signatures count here, whose they are, and the signed list that they stand in.

    Keys that a channels file names beside a list of a higher one are shown too: they don't count.

    Examples: hla key signers ls;  hla key signers ls --format jsonl
    """
    from humanlayer_agent.channels import settings

    rows = _rows(settings.load(file=channels))
    if output != "table":
        print_records(rows, output)
        return
    from humanlayer_agent.cli.shared.tables import console, print_rows

    for row in rows[:1]:
        if row["list"]:
            print(f"signer list {row['list']}, until {row['expires']}, put in force {row['fetched']}")
            print(f"  from {one_line(row['source'] or '')}")
    shown = [[row["key"], one_line(row["name"]), _note(row)] for row in rows]
    print_rows(console(), ("key", "name", ""), shown, whole=True)


@app.command()
def build(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML: fleet: NAME, signers: {PERSON: [KEY]}.")],
    version: Annotated[int, typer.Option("--version", metavar="N", min=1, help="Larger than that of any before.")],
    expires: Annotated[str, typer.Option("--expires", metavar="DAY", help="The last day on which it holds (UTC).")],
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Where to write it. [NAME.signers]")
    ] = None,
) -> None:
    """Build a list of signers of a file that names them, and sign it with your key.

    The same file, version, day and key make the same bytes. After the expiry machines take no answers until they have a
    newer list.

    Example: hla key signers build signers.yaml --version 3 --expires 2030-12-31
    """
    from humanlayer_agent.keys.signing import Signer
    from humanlayer_agent.keys.unlock import unlock

    human_only("key signers build", "says whose signatures count")
    if not os.path.lexists(key_path()):
        raise ConfigError(f"there is no signing key ({key_path()}), and signer lists are signed: run hla init")
    signer = Signer(key_path())
    unsigned = draft(file, version, expires, signer.fingerprint)
    unlock(signer)
    from dataclasses import replace

    made = replace(unsigned, signature=signer.sign_text(unsigned.statement))
    path = output or Path(f"{made.fleet}.signers")
    try:
        path.write_bytes(made.text)
    except OSError as error:
        raise ConfigError(f"{path}: can't be written: {error.strerror}") from error
    print(f"{made.title} is in {path}: {len(made.names)} keys, until {made.expires}")
    print(f"signed by {made.signer}")


@app.command()
@prints(SignerListRecord)
def verify(
    source: SourceArgument,
    signer: Annotated[
        list[str] | None,
        typer.Option("--signer", metavar="KEY", help="Whose signature counts; else those that are taken here."),
    ] = None,
    channels: ChannelsOption = None,
    output: FormatOption = "table",
) -> None:
    """Verify a signer list: its form, signature, version and expiry. Changes nothing. Exit code 1: it would be refused.

    Example: hla key signers verify acme.signers
    """
    from humanlayer_agent.keys.signer_list import SignerList
    from humanlayer_agent.policy.language.release import moment
    from humanlayer_agent.policy.layers.installation import verified
    from humanlayer_agent.policy_tools.bundle_sources import fetch

    place = None if signer else _place(channels)
    raw = fetch(source)
    try:
        if place is None:
            found = verified(SignerList, raw, source, frozenset(signer or ()))
        else:
            found = place.verified(raw, source)
            place.check_mark(found, source, place.last())
        found.check_holds(moment())
    except PolicyError as error:
        print(f"humanlayer-agent: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    record: SignerListRecord = {
        "name": found.fleet,
        "version": found.version,
        "expires": found.expires,
        "signer": found.signer,
        "sha256": found.digest,
        "signers": dict(found.signers),
    }
    if output != "table":
        print_record(record, output)
        return
    print(f"{found.title}: the signature is good")
    _say(found)


@app.command()
def install(
    source: Annotated[
        str | None,
        typer.Argument(metavar="SOURCE", help="As for verify; else what `from:` of the channels file says."),
    ] = None,
    channels: ChannelsOption = None,
) -> None:
    """Put a signer list in force: fetch it, verify it, let nothing older in. As root, where the machine's channels file
    takes it.

    Refused, it changes nothing: what was in force is. Run it from a timer to follow an address. Keys that are taken
    out count no more at once, also in what goes on; new ones count in what begins then.

    Examples: sudo hla key signers install;  hla key signers install ./acme.signers
    """
    from humanlayer_agent.policy_tools.bundle_sources import fetch
    from humanlayer_agent.policy_tools.bundles import put_in_force

    human_only("key signers install", "says whose signatures count")
    place = _place(channels)
    where = source or place.settings.source
    if not where:
        raise ConfigError("where from? name a file or an address, or write `from:` under `signers:` in channels.yaml")
    if not place.machine:
        Path(place.file).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    came = where if "://" in where else os.path.abspath(os.path.expanduser(where))
    found, gone = put_in_force(place, fetch(where), came, trial=_taken_out)
    print(f"{found.title} is in force: the signature is good, keys: {len(found.names)}")
    _say(found)
    for key, name in gone.items():
        print(f"  out      {key}  {one_line(name)}")


def lines_to_take_out(channels: Path | None, keys: "list[str]") -> list[str]:
    """Say what whoever signs the list has to take out of it, that these keys count on no machine any more."""
    from humanlayer_agent.channels import settings

    fleet = settings.load(file=channels).fleet
    if fleet is None:
        return []
    named = [f"{key} ({fleet.list.names[key]})" for key in keys if key in fleet.list.names]
    return [f"take out of the signer list {fleet.list.fleet}, whoever signs it: {each}" for each in named]


def _place(channels: Path | None) -> "Installation[SignerList]":
    from humanlayer_agent.channels import settings

    found = settings.signer_list(channels)
    if found is None:
        raise ConfigError(
            "no channels file takes a signer list. It says so under `signers:`, with `fleet:` (its name) and "
            "`signed_by:` (whose keys may sign it): see docs/fleet.md"
        )
    return found


def draft(file: Path, version: int, expires: str, signer: str) -> "SignerList":
    """Return the list that a file describes, unsigned.

    Raises:
        ConfigError: the file is none that describes one, or it has ended already.
    """
    from humanlayer_agent.keys.signer_list import SignerList
    from humanlayer_agent.policy.language import sources, yaml_positions
    from humanlayer_agent.policy.language.release import moment

    document = yaml_positions.decode(sources.read(file), str(file))
    said = document.data
    if not isinstance(said, dict) or said.keys() != {"fleet", "signers"}:
        raise document.error((), "expected `fleet:`, the name of the list, and `signers:`, names with their keys")
    named = said["signers"] if isinstance(said["signers"], dict) else {}
    keys = {name: [each] if isinstance(each, str) else each for name, each in named.items()}
    try:
        found = SignerList(said["fleet"], version, expires, keys, signer)
        if why := found.mistake():
            raise ValueError(why)
    except ValueError as error:
        raise ConfigError(f"{file}: {error}") from None
    found.check_holds(moment())
    return found


def _taken_out(found: "SignerList", before: "SignerList | None") -> dict[str, str]:
    return {key: name for key, name in before.names.items() if key not in found.names} if before is not None else {}


def _rows(profiles: "Profiles") -> list[SignerRecord]:
    from humanlayer_agent.keys.signing import Signer

    try:
        mine = Signer(key_path()).fingerprint
    except ConfigError:
        mine = ""
    fleet = profiles.fleet
    found: list[SignerRecord] = []
    mark = fleet.place.last() if fleet is not None else None
    names = fleet.list.names if fleet is not None else {}
    for key in [*names, *sorted(profiles.signers - names.keys()), *sorted(profiles.uncounted)]:
        of_list = fleet.list if fleet is not None and key in names else None
        found.append(
            {
                "key": key,
                "name": names.get(key, ""),
                "counts": key in profiles.signers,
                "mine": key == mine,
                "list": of_list.title if of_list else None,
                "expires": of_list.expires if of_list else None,
                "fetched": mark.fetched if of_list and mark else None,
                "source": mark.source if of_list and mark else None,
            }
        )
    return found


def _note(row: SignerRecord) -> str:
    notes = ["yours"] if row["mine"] else []
    if not row["list"]:
        notes.append("a channels file names it")
    if not row["counts"]:
        notes.append("does not count: the list says who signs")
    return "; ".join(notes)


def _say(found: "SignerList") -> None:
    print(f"  expires  {found.expires}\n  signer   {found.signer}\n  sha256   {found.digest}")
    for name, keys in found.signers.items():
        for key in keys:
            print(f"  key      {key}  {one_line(name)}")
