"""The mail channel: asks each approver by a message of their own, and takes replies where a mailbox is configured."""

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from humanlayer_agent.approvals.authority import Person
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.channels.answer_tokens import folded
from humanlayer_agent.channels.concealment import conceal
from humanlayer_agent.channels.contract import Audience, Can, Desk, Health, Outcome, Ref, Retry, Undeliverable
from humanlayer_agent.channels.mail import authenticity
from humanlayer_agent.channels.mail.mailbox import Handled, Mailbox
from humanlayer_agent.channels.mail.message import (
    SHOWN,
    Letterhead,
    bounce_address,
    head_message,
    notice_message,
    request_message,
    warning_message,
)
from humanlayer_agent.channels.mail.smtp import Sender
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.errors import ChannelError, StoreError

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings.schema import Mail

KIND = "email:"
"""What the identity of a person with a mail address begins with."""

ATTEMPTS = 4
"""How often it is tried to reach everybody, where some have been and others get "come again later"."""

_ENDED = {
    "approved": "It was approved",
    "rejected": "It was rejected",
    "answered": "The agent was answered in words",
    "expired": "Nobody decided in time: it was denied",
    "withdrawn": "Nobody waits for the answer any more",
    "abandoned": "Its agent is gone: nobody waits for the answer any more",
    "superseded": "The command was changed, and is judged anew",
    "terminated": "The run was stopped",
    "revoked": "The approval was taken back",
    "lapsed": "It was approved, and not used in time",
    "invalidated": "It was approved, and something else was about to run: nothing ran",
}


class MailChannel:
    """A channel of type `email`.

    Args:
        name: of the channel.
        settings: from the channels file.
        secrets: values of the environment variables that it names.
        letterhead: what its messages have in common.
        approvers: mail addresses of everybody who may be asked by it.
        clock: the time in ms since the epoch.
    """

    shows = SHOWN

    def __init__(
        self,
        name: str,
        settings: "Mail",
        secrets: Mapping[str, str],
        letterhead: Letterhead,
        approvers: frozenset[str],
        *,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.name = name
        self._letterhead = letterhead
        self._sender = Sender(settings.smtp, secrets)
        self._vetting = authenticity.Desk(
            letterhead.tokens, letterhead.reply_to or letterhead.sender, approvers, settings.authserv_id or ""
        )
        self._mailbox = Mailbox(settings.imap, secrets, self._handle) if settings.imap else None
        self._desk: Desk | None = None
        self._lock = threading.Lock()
        self._sent: dict[str, set[str]] = {}
        self._delayed: dict[str, int] = {}
        self._told: set[tuple[str, str]] = set()
        self._heads_to = settings.heads_to
        self._heads_every = settings.heads_every
        self._clock = clock
        self._warned: tuple[str, set[str]] = ("", set())  # the warning that not all have got yet, and who has
        self._period = -1  # the last one that a head was sent in

    @property
    def can(self) -> frozenset[Can]:
        """By replying one can approve and reject; everything else is for the page that its links lead to."""
        return frozenset(("approve", "reject", "feedback")) if self._mailbox else frozenset()

    def start(self, desk: Desk) -> None:
        """Begin to read replies."""
        self._desk = desk
        if self._mailbox is not None:
            self._mailbox.start()

    # Sending

    def deliver(self, request: ApprovalRequest, audience: Audience) -> Ref:
        """Send each of the audience who has an address a message of their own."""
        addresses = addresses_of(audience)
        if not addresses:
            raise Undeliverable(f"{self.name}: nobody who is to be asked has a mail address")
        view, whole = present(request, redacted=True), True
        with self._lock:
            sent = self._sent.setdefault(request.id, set())
        refused: dict[str, str] = {}
        later: Retry | None = None
        for address in addresses:
            if address in sent:  # before something else made the whole of it fail
                continue
            message, whole = request_message(request, view, address, self._letterhead, missing=request.needed)
            try:
                self._sender.send(message, envelope_from=bounce_address(request, address, self._letterhead))
                sent.add(address)
            except Undeliverable as error:
                refused[address] = str(error)
            except Retry as error:
                if later is not None:
                    raise  # twice: it is rather the server than the address
                later, refused[address] = error, str(error)
        if later is not None and not self._enough(request.id, sent):
            raise later
        if not sent:
            raise Undeliverable("; ".join(dict.fromkeys(refused.values())))
        with self._lock:
            self._sent.pop(request.id, None)
            self._delayed.pop(request.id, None)
        # The page that its link leads to shows all of it.
        complete = whole or self._letterhead.public_url is not None
        return Ref({"to": sorted(sent), "refused": refused, "whole": whole}, request.digest, complete)

    def _enough(self, request_id: str, sent: set[str]) -> bool:
        """Tell whether those who were reached wait no longer for those who were not: until then they can't answer."""
        with self._lock:
            tries = self._delayed[request_id] = self._delayed.get(request_id, 0) + 1
        return bool(sent) and tries >= ATTEMPTS

    def settle(self, outcome: Outcome, ref: Ref) -> None:
        """Write to everybody who was asked what became of it. A mail that was sent can't be changed."""
        if outcome.request.state == "pending":
            return
        words = _ENDED.get(outcome.request.ending, f"It is {outcome.request.state}")
        words += f" by {outcome.by}." if outcome.by else "."
        self._notify(outcome.request, ref, words, settled=True, comment=conceal(outcome.request)[0].comment)

    def remind(self, outcome: Outcome, ref: Ref, level: int) -> None:
        """Write once more that it waits."""
        self._notify(outcome.request, ref, "This still waits for your answer; see the message before.", settled=False)

    def _notify(self, request: ApprovalRequest, ref: Ref, words: str, *, settled: bool, comment: str = "") -> None:
        for address in _told(ref):
            message = notice_message(request, address, self._letterhead, words, settled=settled, comment=comment)
            self._sender.send(message, envelope_from=bounce_address(request, address, self._letterhead))

    def post(self, text: str) -> None:
        """Send a signed head of the log to who keeps it (`heads_to`), at most one in each `heads_every`.

        Raises as `deliver` does; then the next one is sent again.
        """
        period = self._clock() // self._heads_every
        if self._heads_to is None or period <= self._period:
            return
        message = head_message(text, self._heads_to, self._letterhead, period=period)
        self._sender.send(message, envelope_from=self._letterhead.sender)
        self._period = period

    def warn(self, text: str, people: Sequence[Person]) -> None:
        """Mail a warning to each of `people` who has an address, whatever becomes of those before.

        Raises:
            ChannelError: it could not be sent to somebody. The same text goes only to those then who have not got it.
        """
        if text != self._warned[0]:
            self._warned = (text, set())
        failed: ChannelError | None = None
        mine = (name for each in people for name in each.identities if name.startswith(KIND))
        for address in dict.fromkeys(name.removeprefix(KIND) for name in mine):
            if address in self._warned[1]:
                continue
            try:
                self._sender.send(
                    warning_message(text, address, self._letterhead), envelope_from=self._letterhead.sender
                )
                self._warned[1].add(address)
            except ChannelError as error:
                failed = error
        if failed is not None:
            raise failed
        self._warned = ("", set())

    # Replies

    def _handle(self, raw: bytes | None) -> Handled:
        """One mail that came in. What it decides is recorded before this returns."""
        if raw is None or self._desk is None:
            return "not-ours" if raw is None else "later"
        found = authenticity.vet(raw, self._vetting)
        try:
            if isinstance(found, authenticity.Refusal):
                return self._turned_away(found)
            return self._replied(found, raw)
        except StoreError:
            return "later"

    def _turned_away(self, refusal: authenticity.Refusal) -> Handled:
        if not refusal.request_id or self._desk is None:
            return "not-ours"
        why = f"{authenticity.REFUSALS[refusal.code]} ({refusal.detail})"
        if refusal.code == "bounce":
            self._desk.failed(refusal.request_id, why)
        else:
            self._desk.refused(refusal.request_id, KIND + refusal.sender, refusal.code, why)
        return "done"

    def _replied(self, reply: authenticity.Reply, raw: bytes) -> Handled:
        assert self._desk is not None
        principal = KIND + reply.sender
        refs = [ref for ref in self._desk.shown(reply.request_id) if reply.sender in map(folded, _told(ref))]
        if not refs:
            self._desk.refused(reply.request_id, principal, "not-shown", "no message of ours asked this")
            return "done"
        ref = refs[-1]
        code, why = ("unclear", reply.said.words) if reply.said.kind == "unclear" else ("", "")
        if reply.said.kind == "approve" and ref.where.get("whole") is not True:
            code, why = "not-shown", "not all of the command could be read in the mail"
        if reply.said.kind == "unclear" or code:
            self._desk.refused(reply.request_id, principal, code, why)
            self._answer_once(reply, f"Your answer did not count, and nothing was decided: {why}.")
            return "done"
        answer = Answer(
            kind=reply.said.kind,
            approver=Approver(principal, self.name, "mail-reply"),
            presented_digest=ref.presented_digest,
            decision_id=f"mail:{hashlib.sha256(raw).hexdigest()}",
            comment=reply.said.words,
            input_mode="reply",
        )
        result = self._desk.decide(reply.request_id, answer)
        if result.outcome in ("refused", "late"):
            self._answer_once(reply, f"Your answer did not count: {result.reason}.")
        return "done"

    def _answer_once(self, reply: authenticity.Reply, words: str) -> None:
        """Tell who replied why it did not count; once each, so that two programs never answer each other for ever."""
        key = (reply.request_id, reply.sender)
        request = self._desk.request(reply.request_id) if self._desk else None
        with self._lock:
            if key in self._told or request is None:
                return
            self._told.add(key)
        message = notice_message(request, reply.sender, self._letterhead, words, settled=False)
        with suppress(ChannelError):  # nothing was decided, and the request goes on waiting
            self._sender.send(message, envelope_from=bounce_address(request, reply.sender, self._letterhead))

    # Whether it works

    def health(self) -> Health:
        """Log in to the mail server, and look whether the mailbox is read."""
        problems = []
        try:
            self._sender.check()
        except ChannelError as error:
            problems.append(str(error))
        if self._mailbox is not None and self._mailbox.problem:
            problems.append(f"replies are not read: {self._mailbox.problem}")
        return Health(not problems, tuple(problems))

    def close(self, timeout: float = 2.0) -> None:
        """Stop to read replies."""
        if self._mailbox is not None:
            self._mailbox.close(timeout)


def addresses_of(audience: Audience) -> list[str]:
    """The mail addresses of an audience, each once, in order."""
    found = (
        each.removeprefix(KIND) for person in audience.people for each in person.identities if each.startswith(KIND)
    )
    return list(dict.fromkeys(map(folded, found)))


def _told(ref: Ref) -> list[str]:
    return [address for address in ref.where.get("to", ()) if isinstance(address, str)]
