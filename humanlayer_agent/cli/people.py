"""`hla people`: who may be asked, who is away, and who is asked in their place.

Being away is signed, like an approval: it decides who may approve. Being back asks for nothing but a human's terminal:
whoever says it has only had somebody asked again.
"""

import sys
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    from humanlayer_agent.store.sqlite import SQLStore

DONE, NOT_DONE, NO_HUMAN = 0, 1, 3
_CHANNEL = "command-line"

app = Commands(
    help="""See who may be asked, and have somebody else asked while you are away.

    Examples: hla people ls;  hla people away --to bob --until 2026-12-24"""
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
    if output != "table":
        print_records((_record(authority, each.id, said) for each in authority.people), output)
        return
    from humanlayer_agent.cli.shared.tables import console, print_rows
    from humanlayer_agent.safe_text import one_line

    rows = []
    for each in authority.people:
        record = _record(authority, each.id, said)
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


def _record(authority: "Authority", person: str, said: "dict[str, tuple[Absence, str]]") -> PersonRecord:
    absence, why = said.get(person, (None, ""))
    return {
        "id": person,
        "identities": [name for each in authority.people if each.id == person for name in each.identities],
        "routes": [name for name, rule in authority.routes.items() if person in rule.approvers],
        "away_until": absence.until if absence else None,
        "away_to": absence.to if absence else None,
        "not_counted": why,
    }


def _away(record: PersonRecord) -> str:
    if record["away_until"] is None:
        return ""
    note = f" (does not count: {record['not_counted']})" if record["not_counted"] else ""
    return f"until {time_text(record['away_until'])}, {record['away_to']} is asked{note}"
