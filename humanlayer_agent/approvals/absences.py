"""Somebody is away, and has signed who is asked in their place until when.

A statement of absence changes who may approve, so it needs the same proof as an approval: it is signed with one of the
keys that count, by a process that verified whoever is away, for one store. Being back takes no proof: from then on
whoever was away is asked as ever. What a statement does to one route is decided in `authority`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from humanlayer_agent.approvals.authority import ASSURANCES, Authority, Person
from humanlayer_agent.approvals.model import Approver, Refused
from humanlayer_agent.audit.heads import is_signature
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.keys.signing import Signer

MAX_MS = 90 * 86_400_000
"""Nobody is away for longer than this by one statement."""

_PURPOSE = "humanlayer-agent absence 1"
_LEAST = "login"
"""The least assurance that says so: it decides who approves."""


@dataclass(frozen=True, slots=True)
class Absence:
    """One person's signed word that another is asked in their place.

    Args:
        id: names it.
        store: the log in which it counts, and in no other.
        at: when it was said (ms).
        until: when it is over (ms).
        to: the id of the person who is asked meanwhile.
        approver: who said it, and how surely that is known.
        person: the id of whoever is away.
        signer: the fingerprint of the key. signature: in hex.
    """

    id: str
    store: str
    at: int
    until: int
    to: str
    approver: Approver
    person: str
    signer: str = ""
    signature: str = ""

    @property
    def assurance(self) -> str:
        """How surely it is known who said it: it lets nobody decide what needs more."""
        return self.approver.assurance


class Absences(Protocol):
    """The statements of absence in a store."""

    def standing(self, authority: Authority) -> tuple[Absence, ...]:
        """Return those that count now, one a person, the oldest first."""
        ...

    def said(self, authority: Authority) -> list[tuple[Absence, str]]:
        """Return those that nobody has ended, each with why it does not count ("" where it does)."""
        ...

    def say(self, approver: Approver, to: str, until: int, authority: Authority, signer: Signer) -> Absence | Refused:
        """Have `approver` be away from now on; what they said before is over.

        Args:
            to: the id of the person who is asked in their place.
            until: when that ends (ms).

        Returns:
            The statement, or why there is none; then nothing is changed.
        """
        ...

    def end(self, person: str, by: str) -> int:
        """End whatever `person` has said: they are asked again. Returns how many statements that ended.

        Args:
            person: their id.
            by: the principal who does.
        """
        ...


def statement(absence: Absence) -> bytes:
    """Return the text that is signed: canonical JSON of who is away from which store, until when, and who is asked."""
    who = absence.approver
    return canonical(
        {
            "purpose": _PURPOSE,
            "id": absence.id,
            "store": absence.store,
            "at": absence.at,
            "until": absence.until,
            "to": absence.to,
            "principal": who.principal,
            "person": absence.person,
            "channel": who.channel,
            "assurance": who.assurance,
        }
    )


def is_signed(absence: Absence) -> bool:
    """Tell whether the key that it names has signed it. (Whose key that is, is another question.)"""
    return is_signature(absence.signer, absence.signature, statement(absence))


def who_may_leave(authority: Authority, approver: Approver) -> Person | Refused:
    """Return the person who says to be away: one of the people, surely enough identified."""
    known = authority.person_of(approver.principal)
    if known is None:
        return Refused(f"nobody is known as {approver.principal}")
    if ASSURANCES.get(approver.assurance, -1) < ASSURANCES[_LEAST]:
        return Refused(f"a word by {approver.channel} ({approver.assurance}) is not enough: {_LEAST} is needed")
    return known


def why_not_to(authority: Authority, person: str, to: str) -> str:
    """Return why `to` can't be asked in the place of `person`; "" where they can."""
    known = next((each for each in authority.people if each.id == to), None)
    if known is None or known.is_group or any(each.person == to for each in authority.left()):
        return f"{to} is none of the people"
    return f"{to} can't stand in for themselves" if to == person else ""


def why_not_until(now: int, end: int) -> str:
    """Return why nobody can be away until `end` by a statement of `now` (both in ms); "" where they can."""
    if now < end <= now + MAX_MS:
        return ""
    return f"the end must be later than now, and within {MAX_MS // 86_400_000} days"


def why_not_counted(absence: Absence, authority: Authority, store: str, now: int) -> str:
    """Return why a statement counts for nothing; "" where it counts, if the key that it names has signed it.

    Args:
        store: the identity of the log that it was read from.
        now: the time (ms).
    """
    if not authority.trusts(absence.signer):
        return "the key that it is signed with is not one of the signers here"
    if absence.store != store:
        return "it was said in another store"
    who = who_may_leave(authority, absence.approver)
    if isinstance(who, Refused):
        return who.reason
    if who.id != absence.person:
        return f"{absence.approver.principal} is not {absence.person}"
    if why := why_not_to(authority, absence.person, absence.to):
        return why
    if not absence.at <= now:
        return "it was said later than it is now: the clock was set back"
    if why_not_until(absence.at, absence.until):
        return "its end is before its beginning, or too far from it"
    return "its time is over" if absence.until <= now else ""


def newest_of_each(absences: Sequence[Absence]) -> tuple[Absence, ...]:
    """Return one statement a person, the newest, oldest first."""
    by_person = {each.person: each for each in sorted(absences, key=lambda each: each.at)}
    return tuple(sorted(by_person.values(), key=lambda each: each.at))
