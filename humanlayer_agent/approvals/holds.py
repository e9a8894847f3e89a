"""A legal hold: what a purge would delete stays, until somebody who may decide lifts the hold.

Placing one takes the same proof as lifting it, so that a log says for certain who did either; but only the lifting is
checked before anything is deleted. Whoever forges a hold has only kept something from being deleted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from humanlayer_agent.approvals.authority import GLASS, Authority
from humanlayer_agent.approvals.model import Approver, Refused
from humanlayer_agent.approvals.stop import who_may_resume
from humanlayer_agent.audit.heads import is_signature
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.keys.signing import Signer

_PURPOSE = "humanlayer-agent hold 1"


@dataclass(frozen=True, slots=True)
class Held:
    """What a hold keeps: one run, or what happened in a time (ms, both ends within it), or, with neither, everything.

    Example:
        >>> Held(since=10, until=20).keeps("any", 18, 30), Held(run="a").keeps("b", 1, 2), Held().keeps("b", 1, 2)
        (True, False, True)
    """

    run: str = ""
    since: int | None = None
    until: int | None = None

    def keeps(self, run: str, first: int, last: int) -> bool:
        """Tell whether what is of `run`, and happened from `first` to `last`, is kept."""
        if self.run and run != self.run:
            return False
        return (self.since is None or last >= self.since) and (self.until is None or first <= self.until)


@dataclass(frozen=True, slots=True)
class Hold:
    """One statement about a hold: that it was placed, or, with `lifted`, that it is over.

    Args:
        id: of the hold. store: the log in which it counts. at: when it was said (ms).
        held: what it keeps. reason: the words of whoever said it; they are not signed.
        approver: who said it, and how surely that is known. person: their id.
        signer: the fingerprint of the key. signature: in hex.
        note: why a lifting that is there does not count; "" where there is none.
    """

    id: str
    store: str
    at: int
    held: Held
    approver: Approver
    person: str
    reason: str = ""
    lifted: bool = False
    signer: str = ""
    signature: str = ""
    note: str = ""


class Holds(Protocol):
    """The holds of a store."""

    def standing(self, authority: Authority | None) -> list[Hold]:
        """Return those that nobody has lifted whom `authority` counts (None: nobody), oldest first."""
        ...

    def place(
        self, held: Held, approver: Approver, reason: str, authority: Authority, signer: Signer
    ) -> Hold | Refused:
        """Keep something from now on; or say why `approver` may not say so."""
        ...

    def lift(
        self, hold_id: str, approver: Approver, reason: str, authority: Authority, signer: Signer
    ) -> Hold | Refused:
        """Let it be deleted again from now on; or say why `approver` may not."""
        ...


def statement(hold: Hold) -> bytes:
    """Return the text that is signed: canonical JSON of who says what of which hold, and when."""
    who = hold.approver
    return canonical(
        {
            "purpose": _PURPOSE,
            "id": hold.id,
            "store": hold.store,
            "at": hold.at,
            "run": hold.held.run,
            "since": hold.held.since,
            "until": hold.held.until,
            "lifted": hold.lifted,
            "principal": who.principal,
            "person": hold.person,
            "channel": who.channel,
            "assurance": who.assurance,
        }
    )


def why_not_counted(hold: Hold, authority: Authority | None, store: str) -> str:
    """Return why a lifting counts for nothing; "" where it counts."""
    if authority is None or not authority.trusts(hold.signer):
        return "the key that it is signed with is not one of the signers here"
    who = who_may_resume(authority, hold.approver)
    if isinstance(who, Refused):
        return who.reason
    if hold.approver.channel == GLASS:
        return "no hold is lifted outside of the route"
    if who.id != hold.person:
        return f"{hold.approver.principal} is not {hold.person}"
    if hold.store != store:
        return "it was said of another store"
    return "" if is_signature(hold.signer, hold.signature, statement(hold)) else "its signature is not one"


def described(held: Held, moments: Sequence[str] = ("", "")) -> str:
    """Say for humans what is kept; `moments` are its two ends as they are to be shown."""
    if held.run:
        return f"run {held.run}"
    since, until = (f"{word} {at}" if at else "" for word, at in zip(("from", "to"), moments, strict=True))
    return " ".join(filter(None, ("what happened", since, until))) if since or until else "everything"
