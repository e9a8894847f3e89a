"""`hla people`: who may be asked, who is away, who is asked in their place, and who has left.

Being away is signed, like an approval: it decides who may approve. Being back asks for nothing but a human's terminal:
whoever says it has only had somebody asked again. Nor does the end of what somebody may do: it lets nobody do more.
"""

import sys
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from humanlayer_agent.cli.init.signer_list import lines_to_take_out
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_signature import credentials, open_to_write, typed_word
from humanlayer_agent.cli.shared.human_terminal import has_terminal, human_only
from humanlayer_agent.cli.shared.options import ChannelsOption, FormatOption, StoreOption
from humanlayer_agent.cli.shared.output import print_records, prints
from humanlayer_agent.cli.shared.records import PersonRecord
from humanlayer_agent.cli.shared.store_access import open_store, time_text
from humanlayer_agent.errors import ConfigError, NoTerminal, StoreError

if TYPE_CHECKING:
    from humanlayer_agent.approvals.absences import Absence
    from humanlayer_agent.approvals.authority import Authority
    from humanlayer_agent.approvals.store_interface import Record
    from humanlayer_agent.store.sqlite import SQLStore

DONE, NOT_DONE, NO_HUMAN = 0, 1, 3
_WORDS_LIMIT = 2000
_CHANNEL = "command-line"

app = Commands(
    help="""See who may be asked, have somebody else asked while you are away, and end what somebody may do who leaves.

    Examples: hla people ls;  hla people away --to bob --until 2026-12-24;  hla people remove alice"""
)


@app.command()
@prints(PersonRecord, many=True)
def ls(
    channels: ChannelsOption = None,
    store: StoreOption = None,
    output: FormatOption = "table",
) -> None:
    """List the people of your channels files: how they are known, by which routes they decide, and who is away.

    Examples: hla people ls;  hla people ls --format jsonl
    """
    human_only("people ls", "looks at people", store)
    authority = _authority(channels)
    with closing(open_store(store)) as opened:
        said = _latest(opened.absences.said(authority))
        left = {each.person: each.at for each in opened.people.left()}
    if output != "table":
        print_records((_record(authority, each.id, said, left) for each in authority.people), output)
        return
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    rows = []
    for each in authority.people:
        record = _record(authority, each.id, said, left)
        known, routes = ", ".join(record["identities"]), ", ".join(record["routes"]) or "none"
        rows.append([one_line(cell) for cell in (each.id, known, routes, _away(record))])
    print_rows(console(), ("person", "known as", "routes", "away"), rows, whole=True)


@app.command()
def away(
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="Who is asked in your place: one of the people.")],
    until: Annotated[
        str, typer.Option("--until", metavar="DATE", help="When you are back: 2026-12-24, or 2026-12-24T09:00 (UTC).")
    ],
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Have another asked in your place until a date: you see what that means, type a word and your key's passphrase.

    It counts in one store, for at most 90 days, and takes the place of what you said before. You are asked as ever
    where it can't be so: in runs that you or the other one has started, where too few people would be left for the
    route, where the other one is away too, or can't be known as surely as the route wants. While you are away your own
    answers and grants rest.

    Exit codes: 0 done, 1 not wanted, 2 usage, 3 there is no human's terminal.

    Example: hla people away --to bob --until 2026-12-24
    """
    human_only("people away", "says that they are away", store)
    from humanlayer_agent.processes.memory_protection import protect_secrets
    from humanlayer_agent.processes.tty import controlling_terminal

    protect_secrets()
    try:
        with controlling_terminal() as fd, closing(open_to_write(store)) as opened:
            raise typer.Exit(_leave(fd, opened, to, until, channels))
    except NoTerminal as error:
        print(f"humanlayer-agent: nothing was said: only a human at a terminal does that: {error}", file=sys.stderr)
        raise typer.Exit(NO_HUMAN) from error
    except StoreError as error:
        raise ConfigError(f"nothing was said: {error}") from error


@app.command()
def back(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Who is back; you, if it is not given.")] = "",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """Be asked again: from the moment it returns, nobody stands in for you (or for whoever is named).

    It takes a human's terminal, and no passphrase. What the other one has answered and is not used yet counts no more.

    Examples: hla people back;  hla people back alice
    """
    human_only("people back", "says that somebody is back", store)
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.safe_text import one_line

    if not has_terminal():
        print("humanlayer-agent: nothing was said: only a human at a terminal does that", file=sys.stderr)
        raise typer.Exit(NO_HUMAN)
    person = name or _own(_authority(channels))
    try:
        with closing(open_to_write(store)) as opened:
            ended = opened.absences.end(person, os_user())
            left = _waiting(opened, _authority(channels), person) if ended else ""
    except StoreError as error:
        raise ConfigError(f"nothing was said: {error}") from error
    said = "is asked again" if ended else "has not said that they are away"
    print(f"{one_line(person)} {said}{f'; {left} that they may answer: hla requests ls' if left else ''}")
    raise typer.Exit(DONE if ended else NOT_DONE)


@app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="PERSON", help="Who leaves: one of the people, or an identity.")],
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="FINGERPRINT", help="A key of theirs, besides those that the log knows."),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; for the log.")] = "",
    channels: ChannelsOption = None,
    store: StoreOption = None,
) -> None:
    """End what somebody may do, at once and for good: you see what they decided, and type a word.

    In one transaction: no answer of theirs counts any more, by whatever way; their keys sign nothing that counts; their
    grants are revoked, approvals that were not used yet void, their web sessions over. It counts in one store. What
    their line in the channels files says is yours to take out, and it says which line.

    Keys are theirs that have signed what they said at a command line. Somebody who comes back needs identities that
    were not theirs before.

    Exit codes: 0 done, 1 not wanted, 2 usage, 3 there is no human's terminal.

    Example: hla people remove alice --reason "left the company"
    """
    human_only("people remove", "ends what people may do", store)
    from humanlayer_agent.processes.tty import controlling_terminal

    try:
        with controlling_terminal() as fd, closing(open_to_write(store)) as opened:
            raise typer.Exit(_remove(fd, opened, name, key or [], reason, channels))
    except NoTerminal as error:
        print(f"humanlayer-agent: nobody was removed: only a human at a terminal does that: {error}", file=sys.stderr)
        raise typer.Exit(NO_HUMAN) from error
    except StoreError as error:
        raise ConfigError(f"nobody was removed: {error}") from error


def _remove(fd: int, opened: "SQLStore", name: str, given: list[str], reason: str, channels: Path | None) -> int:
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.safe_text import one_line

    authority = _authority(channels)
    identities = _identities(opened, authority, name)
    if wrong := [each for each in given if len(each) != 64 or set(each) - set("0123456789abcdef")]:
        raise ConfigError(f"--key {one_line(wrong[0])}: expected the fingerprint of a key, as `signers:` names them")
    record = opened.people.record_of(name)
    keys = list(dict.fromkeys([*(each for each in record.keys if each in authority.signers), *given]))
    said = [f"{name} is known as {', '.join(identities)}", *_decided(record), *_ending(record, keys)]
    said += _left_alone(authority, name)
    if not typed_word(fd, "\n".join(map(one_line, said)), "remove", f"end what {one_line(name)} may do, for good"):
        print("nobody was removed")
        return NOT_DONE
    done = opened.people.remove(name, identities, keys, os_user(), one_line(reason.strip())[:_WORDS_LIMIT])
    print(f"{one_line(name)} is removed: no answer of theirs counts any more in this store")
    ended = f"{_many(len(done.grants), 'grant')} and {_many(len(keys), 'key')} revoked"
    print(f"{ended}, {_many(len(done.lapsed), 'approval')} void that nobody had used; every inbox logs them out")
    for line in [*_lines_to_take_out(channels, name, keys), *lines_to_take_out(channels, keys)]:
        print(one_line(line))
    return DONE


def _identities(opened: "SQLStore", authority: "Authority", name: str) -> list[str]:
    """Return everything that somebody is known by: in the channels files, and in what they have answered.

    Raises:
        ConfigError: nobody is called that.
    """
    from humanlayer_agent.approvals.authority import GROUP

    if name.startswith(GROUP):
        raise ConfigError(f"{name} is a group: who is in it is not said here; take its lines out of the channels files")
    found = [identity for each in authority.people if each.id == name for identity in each.identities]
    for principal in opened.people.principals(name):
        if (known := authority.person_of(principal)) is None or known.id == name:
            found.append(principal)  # else it is somebody else's by now
    if not found and name.partition(":")[0] in ("os", "slack", "email", "app") and authority.person_of(name) is None:
        found.append(name)  # one of a group
    elif not found and (known := authority.person_of(name)) is not None:
        raise ConfigError(f"{name} is {known.id}: name them so")
    if not found:
        known_names = ", ".join(each.id for each in authority.people if not each.is_group)
        raise ConfigError(f"nobody is called {name!r}; there are {known_names}")
    return list(dict.fromkeys(found))


def _decided(record: "Record") -> list[str]:
    counted = ", ".join(f"{count} {kind}" for kind, count in record.answers.items())
    lines = [f"  answers: {counted or 'none'}"]
    lines += [f"    {time_text(at)}  {kind}  {request[:12]}" for at, kind, request in record.last]
    lines += [f"  grant {each[:8]} has let {uses} run" for each, uses in record.grants.items() if uses]
    return lines


def _left_alone(authority: "Authority", name: str) -> list[str]:
    """Say which routes nobody could decide any more."""
    lines = []
    for each, rule in authority.routes.items():
        try:
            rule.without({name})
        except ConfigError as error:
            lines.append(f"  nothing can be approved by route {each} then: {error}")
    return lines


def _ending(record: "Record", keys: list[str]) -> list[str]:
    lines = [f"This revokes {_many(len(record.standing), 'grant')} and {_many(len(keys), 'key')}:"]
    lines += [f"  key {each}" for each in keys]
    if keys:
        lines.append("  (a hub that signs with such a key needs another one; what it has signed counts no more)")
    else:
        lines.append("  (no key of theirs is known here: if they have one, name it with --key)")
    return lines


def _lines_to_take_out(channels: Path | None, name: str, keys: list[str]) -> list[str]:
    """Say in which lines of the channels files somebody and their keys still stand."""
    from humanlayer_agent.channels import settings
    from humanlayer_agent.policy.language import yaml_positions

    found = []
    for file in settings.load(file=channels).files:
        if not Path(file).is_file():
            continue  # a shipped one
        document = yaml_positions.decode(Path(file).read_bytes(), file)
        for path, at in document.positions.items():
            value = document.data
            with suppress(KeyError, IndexError, TypeError):
                for step in path:
                    value = value[step]
            named = path == ("people", name) or (value == name and path[:1] in (("routes",), ("groups",)))
            if named or (path[:1] == ("signers",) and value in keys):
                found.append(f"take out: {file}:{at.line}: {document.text.splitlines()[at.line - 1].strip()}")
    return list(dict.fromkeys(found))


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _leave(fd: int, opened: "SQLStore", to: str, until: str, channels: Path | None) -> int:
    from humanlayer_agent.approvals.absences import Absence, why_not_to, why_not_until
    from humanlayer_agent.approvals.model import Approver, Refused
    from humanlayer_agent.approvals.store_interface import now_ms
    from humanlayer_agent.keys.unlock import ask
    from humanlayer_agent.processes.identity import os_user
    from humanlayer_agent.safe_text import one_line

    authority, signer = credentials(channels)
    end, who = _moment(until), Approver(os_user(), _CHANNEL, "terminal")
    person = _own(authority)
    draft = Absence("", "", now_ms(), end, to, who, person)
    if why := why_not_to(authority, person, to) or why_not_until(draft.at, end):
        raise ConfigError(f"nothing was said: {one_line(why)}")
    said = [f"Until {time_text(end)}, {to} is asked in the place of {person}:", *_meaning(opened, authority, draft)]
    purpose = f"have {one_line(to)} asked in your place"
    if not typed_word(fd, "\n".join(map(one_line, said)), "away", purpose) or not ask(fd, signer):
        print("nothing was said")
        return NOT_DONE
    absence = opened.absences.say(who, to, end, authority, signer)
    if isinstance(absence, Refused):
        raise ConfigError(f"nothing was said: {one_line(absence.reason)}")
    print(f"{one_line(person)} is away until {time_text(end)}: {one_line(to)} is asked; hla people back ends that")
    return DONE


def _meaning(opened: "SQLStore", authority: "Authority", draft: "Absence") -> list[str]:
    """Return what a statement would mean for each route that asks whoever says it."""
    others = [each for each in opened.absences.standing(authority) if each.person != draft.person]
    lines = []
    for name, rule in authority.routes.items():
        if draft.person not in rule.approvers:
            continue
        why = authority.why_not_instead(rule, draft, None, [*others, draft])
        lines.append(f"  route {name}: {f'you are asked as ever, because {why}' if why else f'{draft.to} is asked'}")
    if waiting := _waiting(opened, authority, draft.person):
        lines.append(f"  {waiting} that you may answer, and {draft.to} was not told of: answer them first")
    return lines or ["  no route asks you: it changes nothing"]


def _waiting(opened: "SQLStore", authority: "Authority", person: str) -> str:
    """Return how many requests wait that somebody may answer, in words; "" where none do."""
    count = 0
    for request in opened.requests(state="pending"):
        with suppress(ConfigError):
            rule = authority.rule_for(request.decision, request.requester)
            count += person in authority.may_answer(rule, request.requester)
    return f"{count} request{' waits' if count == 1 else 's wait'}" if count else ""


def _own(authority: "Authority") -> str:
    from humanlayer_agent.processes.identity import os_user

    if (person := authority.person_of(os_user())) is None:
        raise ConfigError(f"nobody under people in your channels files is {os_user()}: add your os_user")
    return person.id


def _authority(channels: Path | None) -> "Authority":
    from humanlayer_agent.configuration import build_authority

    if (authority := build_authority(channels)) is None:
        raise ConfigError("no channels file names people: who started a run answers for it (hla init makes one)")
    return authority


def _moment(text: str) -> int:
    try:
        given = datetime.fromisoformat(text)
        return int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise ConfigError(f"--until {text!r} is no date: 2026-12-24, or 2026-12-24T09:00 (UTC)") from None


def _latest(said: "list[tuple[Absence, str]]") -> "dict[str, tuple[Absence, str]]":
    """Return what each person said last, as long as it is not over."""
    from humanlayer_agent.approvals.store_interface import now_ms

    return {absence.person: (absence, why) for absence, why in said if absence.until > now_ms()}


def _record(
    authority: "Authority", person: str, said: "dict[str, tuple[Absence, str]]", left: dict[str, int]
) -> PersonRecord:
    absence, why = said.get(person, (None, ""))
    return {
        "id": person,
        "identities": [name for each in authority.people if each.id == person for name in each.identities],
        "routes": [name for name, rule in authority.routes.items() if person in rule.approvers],
        "away_until": absence.until if absence else None,
        "away_to": absence.to if absence else None,
        "not_counted": why,
        "removed": left.get(person),
    }


def _away(record: PersonRecord) -> str:
    if record["removed"] is not None:
        return f"has left: removed {time_text(record['removed'])}"
    if record["away_until"] is None:
        return ""
    note = f" (does not count: {record['not_counted']})" if record["not_counted"] else ""
    return f"until {time_text(record['away_until'])}, {record['away_to']} is asked{note}"
