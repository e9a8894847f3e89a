"""A human stops every agent of a store at once; only one who can sign lets them go on again.

Stopping is safe, so it takes no proof: whoever forges a stop has only kept something from running. Going on takes one:
a row of the store proves nothing by itself, so each resumption is signed with the key of somebody who may approve, for
exactly one stop, and whoever is about to run an action checks that again with their own `Authority`.
"""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from humanlayer_agent.approvals.authority import ASSURANCES, GLASS, Authority, Person
from humanlayer_agent.approvals.model import Approver, Refused, person
from humanlayer_agent.audit.chain import Entry, said
from humanlayer_agent.audit.heads import is_signature
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.safe_text import one_line

STOPPED = "a human has stopped every agent of this store (hla stop)"
"""Why nothing runs, for the log and for whoever proposes an action. A human's own words are not in it: nobody has
proved whose they are, and a model would read them."""

_PURPOSE = "humanlayer-agent resume 1"
_LEAST = "login"
"""The least assurance that lets agents go on: what takes back a stop is as grave as anything that is approved."""


@dataclass(frozen=True, slots=True)
class Halt:
    """One stop: when (ms), who says to have done it (a principal), and their words, for humans only.

    `note` says why a resumption that is there does not count; "" where there is none.
    """

    id: str
    at: int
    by: str
    reason: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A command that goes on although every agent is stopped: of which run and agent, and its supervisor's pid.

    Args:
        here: that process is seen from here; else its pid is one of another machine or container.
    """

    run: str
    agent: str
    pid: int
    here: bool = True


@dataclass(frozen=True, slots=True)
class Halted(Refused):
    """A permit that was not issued or consumed because of a stop."""

    halt: Halt


@dataclass(frozen=True, slots=True)
class Resumption:
    """A human's signed word that agents may go on after one stop. `signature` is in hex, `signer` its fingerprint."""

    id: str
    halt: str
    at: int
    approver: Approver
    person: str
    comment: str = ""
    signer: str = ""
    signature: str = ""


class Halts(Protocol):
    """The stops of a store."""

    def standing(self, authority: Authority | None) -> list[Halt]:
        """The stops that hold, oldest first: those that nobody has lifted whom `authority` counts (None: nobody)."""
        ...

    def stop(self, by: str, reason: str = "") -> Halt:
        """Stop every agent. What waits is withdrawn, and what was approved and not used yet is void.

        Args:
            by: the principal who does. reason: their words.
        """
        ...

    def running(self) -> list[Running]:
        """The commands that run now, as far as the processes are there that have begun them."""
        ...

    def resume(
        self, halts: Sequence[Halt], approver: Approver, comment: str, authority: Authority, signer: Signer
    ) -> Refused | None:
        """Lift these stops, which `approver` was shown, and no others. What was withdrawn stays so.

        Returns:
            Why they may not; then nothing is changed.
        """
        ...


def described(halt: Halt) -> str:
    """A stop in a sentence for humans. It holds somebody's own words: show it as what it is, in one line.

    Example:
        >>> described(Halt("5f", 1700000000000, "os:1000:alice", "wrong bucket"))
        'every agent is stopped since 2023-11-14 22:13:20 UTC by alice: wrong bucket'
    """
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(halt.at / 1000))
    words = f": {halt.reason}" if halt.reason else ""
    note = f" (it was lifted, which does not count here: {halt.note})" if halt.note else ""
    return f"every agent is stopped since {when} by {person(halt.by) or 'somebody'}{words}{note}"


def broken_glass(entry: Entry) -> tuple[int | None, str]:
    """Return when somebody acted outside of a route, as an event says, and what it was, in a sentence for humans.

    Of one that can't be read: None, and that. Whoever has written it must not keep others from being told.
    """
    try:
        event, at = entry.event, int(entry.event["at"])
        request = said(event.get("request"))[:12]
        what = f"approve request {request}" if request else "lift a stop of every agent"
        how = "It counts: two have signed it." if event.get("done") else "It counts once another one signs it."
        who = f"{said(event.get('person'))} signed to {what}, outside of its route"
        return at, one_line(f"BREAK-GLASS: {who}. {how} {said(event.get('reason'))}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None, f"BREAK-GLASS: event {entry.seq} of the log says so, and can't be read"


def statement(resumption: Resumption) -> bytes:
    """Return the text that is signed: canonical JSON of who lifts which stop, and when."""
    who = resumption.approver
    return canonical(
        {
            "purpose": _PURPOSE,
            "id": resumption.id,
            "halt": resumption.halt,
            "at": resumption.at,
            "principal": who.principal,
            "person": resumption.person,
            "channel": who.channel,
            "assurance": who.assurance,
            "comment": hashlib.sha256(resumption.comment.encode()).hexdigest(),
        }
    )


def is_signed(resumption: Resumption) -> bool:
    """Tell whether the key that it names has signed it. (Whose key that is, is another question.)"""
    return is_signature(resumption.signer, resumption.signature, statement(resumption))


def who_may_resume(authority: Authority, approver: Approver) -> Person | Refused:
    """The person who may let agents go on: one who decides by the route "default", surely enough identified; or one of
    two who break glass, which by itself lifts nothing.
    """
    if approver.channel == GLASS:
        one = authority.for_glass(approver.principal, approver.assurance)
        return one or Refused(f"{approver.principal} is not named under break_glass, or not at a terminal")
    known, rule = authority.person_of(approver.principal), authority.routes.get("default")
    if known is None or rule is None:
        return Refused(f"nobody who may decide is known as {approver.principal}")
    if known.id not in rule.approvers and not (rule.solo and not rule.approvers):
        return Refused(f"{known.id} is not an approver of route default")
    least = max(_LEAST, rule.min_assurance, key=ASSURANCES.__getitem__)
    if ASSURANCES.get(approver.assurance, -1) < ASSURANCES[least]:
        return Refused(f"an answer by {approver.channel} ({approver.assurance}) is not enough: {least} is needed")
    return known


def why_not_counted(resumption: Resumption, authority: Authority | None) -> str:
    """Return why a resumption lifts nothing; "" where it does, if the key that it names has signed it."""
    if authority is None or not authority.trusts(resumption.signer):
        return "the key that it is signed with is not one of the signers here"
    who = who_may_resume(authority, resumption.approver)
    if isinstance(who, Refused):
        return who.reason
    return "" if who.id == resumption.person else f"{resumption.approver.principal} is not {resumption.person}"
