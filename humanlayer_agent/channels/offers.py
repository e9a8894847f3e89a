"""The ways to approve more than this once, in the same words in every channel: what, how long, and what it would have
let through before.

Everything here went through `visible`, as a `Presentation` did.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from humanlayer_agent.approvals.grants import (
    Offer,
    Pattern,
    Scope,
    covered_before,
    duration,
    offers,
    read_scope,
    why_never,
)
from humanlayer_agent.approvals.model import ApprovalRequest, Vote, person
from humanlayer_agent.safe_text import one_line

EARLIER = 300
"""So many earlier requests a page or a form compares with a scope before it is chosen: reading them takes half a second
at most, and Slack gives a form three."""
EXAMPLES = 3
"""So many earlier commands are shown of those that a scope would have let through, and of those that it would not."""
EXAMPLE_SHOWN = 200
"""Characters of an earlier command that are shown."""

_REFUSED = frozenset({"rejected", "answered", "revoked", "terminated"})
"""States of requests that a human did not want."""

_APPROVED = frozenset({"approved", "lapsed", "invalidated"})
"""States in which what a human remembered holds: that it was not used itself in time takes nothing back."""

_OTHERS = {"network": "hosts", "package": "packages", "listen": "addresses", "process": "processes"}
_PATHS = frozenset({"read", "write", "append", "delete", "move", "metadata", "execute"})


@dataclass(frozen=True, slots=True)
class OfferView:
    """One scope that may be chosen.

    Args:
        name: what an answer calls it (`Answer.scope`).
        words: what it covers and in which run or for how long: "curl contacting example.org:443, in this run".
        bounds: how often and how long at most, for which agent and where.
        beyond: what it does not cover.
        uses: for how many actions it is good.
    """

    name: str
    words: str
    bounds: str
    beyond: str
    uses: int

    @property
    def remembered(self) -> str:
        """What is told once it was chosen: "curl contacting example.org:443, in this run (50 uses)"."""
        return f"{self.words} ({_times(self.uses, 'use')})"


@dataclass(frozen=True, slots=True)
class Foresight:
    """What a scope would have meant for the earlier requests of its project.

    Args:
        earlier: how many there are. covered: how many of them it would have answered.
        refused: how many of these a human did not want then.
        examples: commands of some that it would have answered, the newest first; refused ones before all others.
        beyond: commands of some that the same rules asked about, and that it would not have answered; none where it is
            of one exact command.
    """

    earlier: int
    covered: int
    refused: int
    examples: tuple[str, ...]
    beyond: tuple[str, ...]

    @property
    def text(self) -> str:
        """The figures, in a line."""
        if not self.earlier:
            return "there are no earlier requests in this project to compare it with"
        of = f"of {_times(self.earlier, 'earlier request')} in this project it would have answered"
        refused = f", {self.refused} of which a human did not want" if self.refused else ""
        return f"{of} {self.covered or 'none'}{refused}"


def offer_views(request: ApprovalRequest) -> tuple[OfferView, ...]:
    """Return the scopes that may be chosen for a request, from narrow to wide; none where `no_offer` says why."""
    return tuple(_view(offer) for offer in offers(request))


def no_offer(request: ApprovalRequest) -> str:
    """Return why no approval of this request can be remembered, in a short line; "" where one can."""
    if offers(request):
        return ""
    if request.action.layer:
        return "what was seen is applied once"
    return one_line(why_never(request.decision)) or "its rules let no approval be remembered"


def foresight(
    request: ApprovalRequest, name: str, earlier: Sequence[ApprovalRequest], *, redacted: bool = False
) -> Foresight:
    """Return what the scope of this name would have meant for earlier requests: shown before it is chosen.

    Args:
        request: with its secrets, also where they are not shown.
        name: of one of its offers.
        earlier: requests of the same store, oldest first. Itself and those of other projects don't count.
        redacted: without the secrets in them, for a channel that keeps what it is sent.

    Raises:
        KeyError: there is no such offer.
    """
    scope = {offer.name: offer for offer in offers(request)}[name].scope
    known = [each for each in earlier if each.id != request.id and each.action.project == scope.project]
    covered = covered_before(scope, known)
    ids, rules = {each.id for each in covered}, {ask.rule for ask in request.decision.asks}
    alike = [each for each in known if each.id not in ids and rules & {ask.rule for ask in each.decision.asks}]
    refused = [each for each in covered if each.state in _REFUSED]
    wanted = [each for each in covered if each.state not in _REFUSED]
    return Foresight(
        earlier=len(known),
        covered=len(covered),
        refused=len(refused),
        examples=_commands([*wanted, *refused], redacted),
        beyond=() if scope.action else _commands(alike, redacted),
    )


def remembered(request: ApprovalRequest, votes: Sequence[Vote], shown: ApprovalRequest | None = None) -> str:
    """Return what the approvals of a request let be done again: what all of them cover; "" where that is nothing.

    Args:
        request: with its secrets. votes: the answers to it.
        shown: the same without them, where they are not to be shown.
    """
    approvals = [vote for vote in votes if vote.answer == "approve"]
    scopes = [scope for vote in approvals if (scope := read_scope(vote.scope)) is not None]
    if request.state not in _APPROVED or not scopes or len(scopes) < len(approvals):
        return ""
    chosen = {replace(scope, until=0) for scope in scopes}
    names = [offer.name for offer in offers(request) if offer.scope in chosen]
    views = {view.name: view for view in offer_views(shown or request)}
    if len(names) < len(chosen) or not all(name in views for name in names):
        return "more of the kind"  # it was offered by another version of this program
    narrowest, widest = views[names[0]], views[names[-1]]
    return narrowest.remembered if narrowest == widest else f"{narrowest.remembered}, as far as {widest.words}"


def _view(offer: Offer) -> OfferView:
    return OfferView(offer.name, one_line(offer.words), _bounds(offer), _beyond(offer.scope), offer.scope.uses)


def plan_bounds(request: ApprovalRequest) -> str:
    """Return how often and for how long what a plan names may be done once that is approved, and by whom; "" where it
    can't be.

    Example: "in any run, at most 50 times and for 4 hours, for agent docs in /srv/app"
    """
    found = (f"in {'this' if offer.scope.run else 'any'} run, {_bounds(offer)}" for offer in offers(request))
    return next(found, "")


def _bounds(offer: Offer) -> str:
    scope = offer.scope
    often = "once" if scope.uses == 1 else f"{scope.uses} times"
    return f"at most {often} and for {duration(offer.age)}, {_whose(scope)}"


def _whose(scope: Scope) -> str:
    who = f"agent {one_line(scope.agent)}" if scope.agent else f"any agent of {one_line(person(scope.requester))}"
    return f"for {who} in {one_line(scope.project)}" if scope.project else f"for {who}"


def _beyond(scope: Scope) -> str:
    if scope.action:
        return "the command in another directory, or once a file that was read to judge it differs"
    said = dict.fromkeys(each for pattern in scope.patterns for each in _others(pattern))
    return f"other {' or '.join(said)}, and whatever else a command does: that is asked about as ever"


def _others(pattern: Pattern) -> list[str]:
    found = ["programs, options"] if pattern.program else []
    if pattern.operands == "any":
        return found
    kind = "paths" if pattern.kind in _PATHS else _OTHERS.get(pattern.kind, "things")
    return [*found, kind]


def _commands(requests: Sequence[ApprovalRequest], redacted: bool) -> tuple[str, ...]:
    """Some commands, each once, the newest first."""
    found: dict[str, None] = {}
    for each in reversed(requests):
        found.setdefault(_command(each, redacted))
        if len(found) == EXAMPLES:
            break
    return tuple(found)


def _command(request: ApprovalRequest, redacted: bool) -> str:
    content = request.action.content
    if redacted:
        from humanlayer_agent.redaction.redactor import Redactor

        content = Redactor().command(content).text
    shown = one_line(" ".join(content[: 4 * EXAMPLE_SHOWN].split()))
    return shown if len(shown) <= EXAMPLE_SHOWN else f"{shown[: EXAMPLE_SHOWN - 4]} ..."


def _times(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
