"""The home of the app: what waits for whoever looks at it, what was decided lately, what holds on, and a way to stop.

Each person's is made for them. It tells of nothing that this channel has not shown already, and of that only what they
may answer, have answered or have started: not everybody who can open the app is in the channel that it posts to.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from humanlayer_agent.approvals.grants import Grant
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.channels.contract import Desk, Outcome, Ref, Retry
from humanlayer_agent.channels.slack import blocks, forms, message
from humanlayer_agent.channels.slack.api import SlackApi
from humanlayer_agent.channels.slack.blocks import Json
from humanlayer_agent.channels.slack.message import Attachment, Shown
from humanlayer_agent.channels.slack.seal import Seal
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.safe_text import one_line

WAITING, DECIDED, GRANTS = 15, 10, 10
"""Rows of each part: with four blocks a row that waits, all are within the 100 blocks that Slack takes."""
LOOKED_AT = 50
"""Decided requests of which those are taken that concern somebody."""
VIEWERS = 1_000
"""People whose homes are kept up to date; of more, who opened it longest ago has to open it again."""
LOOKS_EVERY = 5.0
"""Seconds between two looks at what has changed, while somebody has opened their home."""
LEAST = 0.5
"""Seconds between two of these at least: whoever opens a home again and again keeps nobody busy."""
_COMMAND = 300
"""Characters of a command in a row."""
REASON = 2000
"""Characters of a reason to stop."""

REVIEW, TAKE_BACK, STOP = ("hla_review", "hla_take_back", "hla_stop")
BUTTONS = (REVIEW, TAKE_BACK, STOP)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody in Slack, as the core knows them: their principal, and the user groups that they are in."""

    principal: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """Everything that homes are made of: requests that this channel shows, waiting and decided, each list newest last;
    how many wait that it does not show; grants that hold; and the stop that does ("" for none)."""

    waiting: tuple[Outcome, ...]
    elsewhere: tuple[ApprovalRequest, ...]
    decided: tuple[Outcome, ...]
    grants: tuple[Grant, ...]
    stopped: str


def here(desk: Desk, request: ApprovalRequest, channel: str) -> Ref | None:
    """Return where a request is shown in a conversation, rather where it is shown whole; None where it is not."""
    found = [ref for ref in desk.shown(request.id) if ref.where.get("channel") == channel]
    whole = [ref for ref in found if ref.complete and ref.presented_digest == request.digest]
    return next(iter([*whole, *found]), None)


def held(desk: Desk, channel: str) -> Held:
    """Read what homes are made of, once for all of them."""
    waiting, elsewhere, decided = [], [], []
    for request in desk.requests(waiting=True):
        outcome = desk.outcome(request.id) if here(desk, request, channel) else None
        if outcome is None:
            elsewhere.append(request)
        else:
            waiting.append(outcome)
    for request in desk.requests(waiting=False, last=LOOKED_AT):
        if here(desk, request, channel) and (outcome := desk.outcome(request.id)):
            decided.append(outcome)
    grants = [grant for grant, _ in desk.grants(0) if here(desk, grant.request, channel)]
    return Held(tuple(waiting), tuple(elsewhere), tuple(decided), tuple(grants), desk.stopped())


def is_known(desk: Desk, account: Account) -> bool:
    """Tell whether somebody may have a home: one of the people, or a member of a group that may answer."""
    return desk.person_of(account.principal) is not None or bool(account.groups)


def concerns(desk: Desk, request: ApprovalRequest, account: Account) -> bool:
    """Tell whether a request is somebody's business: they may answer it, have decided it, or have started its run."""
    if desk.may_answer(request, account.principal, account.groups):
        return True
    person = desk.person_of(account.principal)
    if person is None:
        return False
    return person in (desk.person_of(request.requester), desk.person_of(request.decided_by or ""))


def view(desk: Desk, all_of_it: Held, account: Account, seal: Seal) -> Json:
    """The home of somebody who is known."""
    waiting = [each for each in all_of_it.waiting if _waits_for(desk, each, account)]
    elsewhere = sum(desk.may_answer(each, account.principal, account.groups) for each in all_of_it.elsewhere)
    decided = [each for each in all_of_it.decided if concerns(desk, each.request, account)]
    grants = [each for each in all_of_it.grants if concerns(desk, each.request, account)]
    found: list[Json] = []
    if all_of_it.stopped:
        found.append(blocks.section(f"🛑 {one_line(all_of_it.stopped)}. hla resume, at a terminal, ends that.", 1000))
    found += [blocks.header(f"Waits for you: {len(waiting)}"), *_waiting(waiting, elsewhere, seal)]
    found += [blocks.header("Decided lately"), *_decided(decided)]
    found += [blocks.header("Approved for more than once"), *_grants(grants)]
    if desk.person_of(account.principal) is not None:
        found += [{"type": "divider"}, blocks.actions([blocks.button(STOP, "Stop every agent…", "stop", "danger")])]
    return {"type": "home", "blocks": found}


def stranger_view() -> Json:
    """The home of everybody else."""
    text = (
        "Nothing is shown to you here: you are not one of those who may answer. Who is, the hub's channels file says."
    )
    return {"type": "home", "blocks": [blocks.section(text)]}


def _waits_for(desk: Desk, outcome: Outcome, account: Account) -> bool:
    person = desk.person_of(account.principal)
    voted = person is not None and any(vote.person == person.id for vote in outcome.votes)
    return not voted and desk.may_answer(outcome.request, account.principal, account.groups)


def _waiting(found: Sequence[Outcome], elsewhere: int, seal: Seal) -> Iterator[Json]:
    for outcome in found[:WAITING]:
        request, what = outcome.request, message.shown(outcome.request)
        shown = what.view
        grade = "" if shown.question else f"  ({blocks.cut(shown.severity, 20)} severity)"
        said = f"{blocks.cut(shown.agent, 100)} {shown.wants}\n{blocks.cut(shown.reason, 300)}{grade}"
        row = blocks.section(said, 600)
        row["accessory"] = blocks.button(REVIEW, "Review…", seal.value(request), "primary")
        yield row
        yield blocks.literal(blocks.cut(what.run, _COMMAND))
        yield blocks.line(
            blocks.words("Answer by "), blocks.date(request.expires, "{time}", message.utc(request.expires))
        )
        yield {"type": "divider"}
    if len(found) > WAITING:
        yield blocks.context(f"{len(found) - WAITING} more wait: they are in the channel.")
    if elsewhere:
        yield blocks.context(f"{elsewhere} more wait for you that were not asked here: look where you are asked else.")
    if not found and not elsewhere:
        yield blocks.context("Nothing.")


def _decided(found: Sequence[Outcome]) -> Iterator[Json]:
    for outcome in sorted(found, key=lambda each: each.request.decided or each.request.expires)[: -DECIDED - 1 : -1]:
        request, what = outcome.request, message.shown(outcome.request)
        when = request.decided or request.expires
        command = blocks.cut(" ".join(what.command.split()), 150)
        yield blocks.line(
            blocks.words(message.ended(outcome, what), bold=True),
            blocks.words(" · "),
            blocks.date(when, "{date_short_pretty} {time}", message.utc(when)),
            blocks.words(f" · {command}"),
        )
    if not found:
        yield blocks.context("Nothing.")


def _grants(found: Sequence[Grant]) -> Iterator[Json]:
    for grant in found[:GRANTS]:
        said = f"{grant.remembered}\nby {' and '.join(grant.by)}; {grant.uses} of {grant.max_uses} used"
        row = blocks.section(one_line(said.replace("\n", " · ")), 600)
        row["accessory"] = blocks.button(TAKE_BACK, "Take back", grant.id, "danger") | {
            "confirm": {
                "title": blocks.plain("Take it back?", 100),
                "text": blocks.plain("It lets nothing through from then on.", 300),
                "confirm": blocks.plain("Take back", 30),
                "deny": blocks.plain("Keep it", 30),
            }
        }
        yield row
    if len(found) > GRANTS:
        yield blocks.context(f"{len(found) - GRANTS} more: hla grants ls")
    if not found:
        yield blocks.context("Nothing.")


# ---- forms that open from it -------------------------------------------------------------------------


def review(outcome: Outcome, what: Shown, ref: Ref, origin: forms.Origin, said: str = "") -> Json:
    """One request, as its message shows it, with the same buttons; `said` is what became of a click."""
    if outcome.request.state == "pending":
        attachment = Attachment.NONE
        if what.is_long:
            attachment = Attachment.THERE if ref.complete else Attachment.FAILED
        body = message.asking(outcome, what, attachment, (), now=now_ms())
    else:
        body = message.decided(outcome, what)
    told = [blocks.section(said, 600), {"type": "divider"}] if said else []
    return _modal("Review", REVIEW, [*told, *body.blocks], forms.metadata(origin))


def notice(said: str) -> Json:
    """A form that only says something."""
    return _modal("Not done", REVIEW, [blocks.section(said)], "")


def stopping() -> Json:
    """The form by which every agent is stopped."""
    words = (
        "Nothing new of any agent of this store runs from then on: also what a policy allows, and what was approved "
        "and has not begun. What waits is withdrawn. What runs already goes on. Only hla resume ends it."
    )
    why = blocks.text_input(forms.FIELD, "Why?", hint="For humans; no agent is told.", optional=True)
    why["element"]["max_length"] = REASON
    made = _modal("Stop every agent", STOP, [blocks.section(words), why], "")
    return made | {"submit": blocks.plain("Stop every agent", blocks.TITLE)}


def _modal(title: str, name: str, found: list[Json], metadata: str) -> Json:
    return {
        "type": "modal",
        "callback_id": name,
        "title": blocks.plain(title, blocks.TITLE),
        "close": blocks.plain("Back", blocks.TITLE),
        "private_metadata": metadata,
        "blocks": found,
    }


# ---- keeping homes up to date ------------------------------------------------------------------------


class Homes:
    """Publishes the home of whoever opens it, and again whenever something in it has changed. Thread-safe.

    Args:
        channel: the conversation whose requests they tell of.
        account: who somebody is; "" as principal for whoever may not answer at all. Raises ChannelError where Slack
            does not say.
        every: seconds.
    """

    def __init__(
        self,
        api: SlackApi,
        desk: Desk,
        seal: Seal,
        channel: str,
        account: Callable[[str], Account],
        *,
        every: float = LOOKS_EVERY,
    ) -> None:
        self._api = api
        self._desk = desk
        self._seal = seal
        self._channel = channel
        self._account = account
        self._every = every
        self._changed = threading.Condition()
        self._viewers: OrderedDict[str, Json | None] = OrderedDict()  # what each sees, as far as we know
        self._closed = False
        self._due = False
        self.problem = ""
        """Why a home could not be published the last time; "" where it could."""

    def start(self) -> None:
        """Publish from now on, on a thread of its own."""
        threading.Thread(target=self._run, name="slack-homes", daemon=True).start()

    def close(self) -> None:
        """Publish nothing more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def opened(self, user: str) -> None:
        """Somebody looks at their home: it is published soon."""
        with self._changed:
            self._viewers.setdefault(user, None)
            self._viewers.move_to_end(user)
            while len(self._viewers) > VIEWERS:
                self._viewers.popitem(last=False)
        self.look()

    def look(self) -> None:
        """Something may have changed."""
        with self._changed:
            self._due = True
            self._changed.notify_all()

    def _run(self) -> None:
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed, pause or min(LEAST, self._every))
                self._changed.wait_for(lambda: self._closed or self._due, self._every if self._viewers else None)
                if self._closed:
                    return
                self._due = False
            pause = self._round()

    def _round(self) -> float:
        """Publish what has changed; returns the seconds that Slack wants to be left alone."""
        with self._changed:
            viewers = list(self._viewers)
        try:
            all_of_it = held(self._desk, self._channel) if viewers else None
            for user in reversed(viewers):
                if all_of_it is not None and not self._closed:
                    self._publish(user, all_of_it)
        except Retry as error:
            self._failed(error)
            self.look()
            return error.after or 1.0
        except Exception as error:  # whatever stands in the store: who opens it next is to have a home
            self._failed(error)
        return 0.0

    def _publish(self, user: str, all_of_it: Held) -> None:
        try:
            account = self._account(user)
        except ChannelError as error:  # what they may see is not known: nothing new is shown
            self._failed(error)
            return
        try:
            known = bool(account.principal) and is_known(self._desk, account)
            made = view(self._desk, all_of_it, account, self._seal) if known else stranger_view()
            with self._changed:
                seen = self._viewers.get(user)
            if made != seen:
                self._api.call("views.publish", user_id=user, view=made)
                self.problem = ""
        except Retry:
            raise
        except ChannelError as error:  # this one can't be told anything: they open it again
            self._failed(error)
            known = False
        with self._changed:
            if known and user in self._viewers:
                self._viewers[user] = made
            else:
                self._viewers.pop(user, None)

    def _failed(self, error: Exception) -> None:
        if str(error) != self.problem:
            _log.warning("slack: a home is not up to date: %s", error)
        self.problem = str(error)
