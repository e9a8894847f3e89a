"""The Slack channel: it posts requests, keeps what is posted true, and takes clicks in."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from humanlayer_agent.approvals.authority import Person
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.channels.contract import (
    Audience,
    Can,
    DailyDigest,
    Desk,
    Health,
    Outcome,
    Ref,
    Retry,
    Schedule,
    Undeliverable,
)
from humanlayer_agent.channels.slack import blocks, bulk_answers, health, message
from humanlayer_agent.channels.slack.api import GONE, Identity, SlackApi, SlackError
from humanlayer_agent.channels.slack.clicks import Clicks
from humanlayer_agent.channels.slack.envelopes import Handle, Receives, Reply
from humanlayer_agent.channels.slack.home import Homes
from humanlayer_agent.channels.slack.message import Attachment, Message, Shown
from humanlayer_agent.channels.slack.people import USERGROUP, Directory
from humanlayer_agent.channels.slack.socket_mode import Receiver

Json = dict[str, Any]
_log = logging.getLogger(__name__)

EVENT = "humanlayer_request"
"""Type of the metadata of our messages: by that a message is found again whose posting was never confirmed."""
UPLOAD_TRIES = 3
_REMEMBERED = 1000
_TOLD = 10
"""People that one message notifies at most."""
_SLACK_USER = "slack:"


@dataclass(frozen=True, slots=True)
class _Posted:
    """A message that shows a request."""

    where: Mapping[str, Any]
    attachment: Attachment


class SlackChannel:
    """Approvals in one Slack channel. Thread-safe; one process at a time serves it.

    Args:
        name: of the channel in the channels file.
        post_to: id of the Slack channel.
        usergroups: TEAM/GROUP of those that may answer.
        connections: how many Socket Mode connections to keep open.
        schedule, digest_to: when a daily digest is posted, and to which conversation ("": the same).
        receiver: makes another way by which clicks come in than Socket Mode.
        pace: seconds between two messages; Slack takes about one a second in a channel.
        clock: ms since the epoch.
    """

    can: frozenset[Can] = frozenset(
        {"approve", "reject", "feedback", "edit", "respond", "escalate", "grant", "show_all"}
    )
    shows = message.WHOLE

    def __init__(
        self,
        name: str,
        api: SlackApi,
        post_to: str,
        *,
        usergroups: Iterable[str] = (),
        connections: int = 2,
        pace: float = 1.0,
        receiver: Callable[[Handle], Receives] | None = None,
        schedule: Schedule | None = None,
        digest_to: str = "",
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.name = name
        self.pace = pace
        self._api = api
        self._seal = api.seal
        self._post_to = post_to
        self.schedule = schedule
        self._digest_to = digest_to
        self._usergroups = tuple(usergroups)
        self._directory = Directory(api, self._usergroups)
        self._clock = clock
        self._lock = threading.Lock()
        self._posted: OrderedDict[str, _Posted] = OrderedDict()
        self._threads: OrderedDict[str, str] = OrderedDict()
        self._tries: dict[str, int] = {}
        self._clicks: Clicks | None = None
        self._homes: Homes | None = None
        self._desk: Desk | None = None
        self.receiver: Receives = (
            receiver(self._handle) if receiver else Receiver(self._socket_url, self._handle, count=connections)
        )

    def start(self, desk: Desk) -> None:
        self._desk = desk
        self._homes = Homes(self._api, desk, self._seal, self._post_to, lambda user: clicks.account(user))
        self._clicks = clicks = Clicks(
            self.name,
            self._api,
            self._directory,
            desk,
            self._seal,
            channel=self._post_to,
            posted=self._has_posted,
            mend=self._mend,
            homes=self._homes,
        )
        self._homes.start()
        self.receiver.start()

    def close(self, timeout: float = 2.0) -> None:
        if self._homes is not None:
            self._homes.close()
        self.receiver.close(timeout)

    def health(self) -> Health:
        found = health.check(self._api, self._post_to, self._usergroups, self.receiver.reception)
        problem = self._homes.problem if self._homes is not None else ""
        return replace(found, facts={**found.facts, "home": problem}) if problem else found

    def _socket_url(self) -> str:
        self._api.identity()  # before anything comes in: no click has to wait for it
        return self._api.socket_url()

    def _handle(self, envelope: Json) -> Reply:
        assert self._clicks is not None  # the receiver starts after it
        return self._clicks.handle(envelope)

    # ---- showing ------------------------------------------------------------------------------------

    def deliver(self, request: ApprovalRequest, audience: Audience) -> Ref:
        """Post `request`. A long command gets its Approve button when the whole of it is in the thread."""
        what = self._shown(request)
        posted = self._post(request, what, _mentions(audience, self._api.identity().team))
        self._remember(request.id, posted)
        return self._ref(request, what, self._attached(request, what, posted))

    def find(self, request: ApprovalRequest) -> list[Ref]:
        """Every message that shows `request`; a long command that was not attached yet is attached now.

        Without the scope to read the channel's history only those are found that this process has posted.
        """
        what = self._shown(request)
        with self._lock:
            mine = self._posted.get(request.id)
        found = {str(each.where["ts"]): each for each in ([mine] if mine else [])}
        found |= {str(each.where["ts"]): each for each in self._in_history(request, what)}
        return [
            self._ref(request, what, self._attached(request, what, posted))
            for _, posted in sorted(found.items(), key=lambda item: item[0])
        ]

    def _shown(self, request: ApprovalRequest) -> Shown:
        return message.shown(request, self._seal.value(request))

    def _ref(self, request: ApprovalRequest, what: Shown, posted: _Posted) -> Ref:
        complete = what.seen and posted.attachment in (Attachment.NONE, Attachment.THERE)
        return Ref(posted.where, request.digest, complete)

    def _post(self, request: ApprovalRequest, what: Shown, mentions: list[str]) -> _Posted:
        identity = self._api.identity()
        attachment = Attachment.COMING if what.is_long else Attachment.NONE
        body = self._asking(self._outcome(request), what, attachment, mentions)
        posting: Json = {
            "channel": self._post_to,
            "text": body.text,
            "blocks": body.blocks,
            "unfurl_links": False,
            "unfurl_media": False,
            "metadata": self._metadata(request, attachment, mentions),
        }
        thread = self._thread_of(request.action.run_id)
        try:
            in_thread: Json = {"thread_ts": thread, "reply_broadcast": True} if thread else {}
            answer = self._api.call("chat.postMessage", **posting, **in_thread)
        except SlackError as error:
            if not thread or error.code not in GONE:
                raise
            answer = self._api.call("chat.postMessage", **posting)  # somebody has deleted where the thread began
        return _Posted(_where(answer["message"], str(answer["channel"]), identity, request, mentions), attachment)

    def _asking(self, outcome: Outcome, what: Shown, attachment: Attachment, mentions: Iterable[str]) -> Message:
        others = self._desk is not None and bulk_answers.others_wait(self._desk, outcome.request, self._post_to)
        return message.asking(outcome, what, attachment, mentions, now=self._clock(), several=others)

    def _in_history(self, request: ApprovalRequest, what: Shown) -> list[_Posted]:
        try:
            answer = self._api.call(
                "conversations.history",
                channel=self._post_to,
                oldest=f"{max(request.created // 1000 - 60, 0)}.000000",
                include_all_metadata=True,
                limit=200,
            )
        except SlackError as error:
            _log.info("slack: what was posted can't be looked for: %s", error)
            return []
        identity = self._api.identity()
        found = []
        for each in answer.get("messages") or ():
            if not self._shows(each, request, identity.bot):
                continue
            noted = each["metadata"]["event_payload"]
            attachment = Attachment.NONE
            if what.is_long:
                attachment = Attachment.THERE if noted.get("attachment") == "THERE" else Attachment.COMING
            mentions = str(noted.get("to") or "").split()
            found.append(_Posted(_where(each, self._post_to, identity, request, mentions), attachment))
        return found

    def _attached(self, request: ApprovalRequest, what: Shown, posted: _Posted) -> _Posted:
        """Put the whole of a long command in the thread; then, and only then, show the Approve button."""
        if posted.attachment is not Attachment.COMING:
            return posted
        where = posted.where
        attachment = Attachment.THERE
        try:
            self._api.attach(
                what.whole,
                channel=str(where["channel"]),
                thread=str(where["thread"]),
                title=f"The whole of request {request.id[:12]}",
            )
        except Retry:
            self._tries[request.id] = self._tries.get(request.id, 0) + 1
            if self._tries[request.id] < UPLOAD_TRIES:
                raise
            attachment = Attachment.FAILED
        except Undeliverable as error:
            _log.warning("slack: a long command can't be approved there: %s", error)
            attachment = Attachment.FAILED
        self._tries.pop(request.id, None)
        body = self._asking(self._outcome(request), what, attachment, where["to"])
        self._change(where, body, self._metadata(request, attachment, where["to"]))
        done = _Posted(where, attachment)
        self._remember(request.id, done)
        return done

    def _metadata(self, request: ApprovalRequest, attachment: Attachment, mentions: Iterable[str]) -> Json:
        seal = self._seal.of(request)
        payload = {"id": request.id, "seal": seal, "attachment": attachment.name, "to": " ".join(mentions)}
        return {"event_type": EVENT, "event_payload": payload}

    def _shows(self, found: Json, request: ApprovalRequest, bot: str) -> bool:
        """Tell whether a message of the history is one of ours that shows this request."""
        metadata = found.get("metadata") or {}
        payload = metadata.get("event_payload") or {}
        return (
            metadata.get("event_type") == EVENT
            and found.get("bot_id") == bot
            and payload.get("id") == request.id
            and self._seal.fits(request, str(payload.get("seal")))
        )

    # ---- keeping it true ----------------------------------------------------------------------------

    def settle(self, outcome: Outcome, ref: Ref) -> None:
        if self._homes is not None:
            self._homes.look()
        what = self._shown(outcome.request)
        if outcome.request.state == "pending":
            attachment = Attachment.NONE
            if what.is_long:
                attachment = Attachment.THERE if ref.complete else Attachment.FAILED
            body = self._asking(outcome, what, attachment, ref.where.get("to") or ())
        else:
            body = message.decided(outcome, what)
        try:
            self._change(ref.where, body)
        except SlackError as error:
            if error.code == "message_not_found":
                return  # somebody has deleted it: nothing there says anything wrong
            if error.code not in GONE:
                raise
            self._reply(ref.where, body)

    def remind(self, outcome: Outcome, ref: Ref, level: int) -> None:
        if outcome.request.state != "pending":
            return
        try:
            self._reply(ref.where, message.reminder(outcome, ref.where.get("to") or (), now=self._clock()))
        except SlackError as error:
            if error.code not in GONE:
                raise

    def _change(self, where: Mapping[str, Any], body: Message, metadata: Json | None = None) -> None:
        changed: Json = {"channel": where["channel"], "ts": where["ts"], "text": body.text, "blocks": body.blocks}
        if metadata:
            changed["metadata"] = metadata
        self._api.call("chat.update", **changed)

    def post(self, text: str) -> None:
        """Post a text that is no request, exactly as it is."""
        self._api.call(
            "chat.postMessage",
            channel=self._post_to,
            text="The audit log goes as far as this. Keep it: it is a witness.",
            blocks=[blocks.literal(text)],
            unfurl_links=False,
            unfurl_media=False,
        )

    def sum_up(self, digest: DailyDigest) -> None:
        """Post the figures of a day."""
        body = message.summary(digest)
        self._api.call(
            "chat.postMessage",
            channel=self._digest_to or self._post_to,
            text=body.text,
            blocks=body.blocks,
            unfurl_links=False,
            unfurl_media=False,
        )

    def warn(self, text: str, people: Sequence[Person]) -> None:
        """Post a warning where requests are posted, exactly as it is."""
        self._api.call(
            "chat.postMessage",
            channel=self._post_to,
            text="Somebody acted outside of a route.",
            blocks=[blocks.literal(text)],
            unfurl_links=False,
            unfurl_media=False,
        )

    def tell(self, outcome: Outcome, ref: Ref, lines: Sequence[str], head: str) -> None:
        """Say in the thread how a request went."""
        what = self._shown(outcome.request)
        try:
            self._reply(ref.where, message.story(outcome, what, lines, head))
        except SlackError as error:
            if error.code not in GONE:
                raise

    def _reply(self, where: Mapping[str, Any], body: Message) -> None:
        self._api.call(
            "chat.postMessage",
            channel=where["channel"],
            thread_ts=where["thread"],
            text=body.text,
            blocks=body.blocks,
            unfurl_links=False,
            unfurl_media=False,
        )

    def _mend(self, request_id: str, ref: Ref) -> None:
        """Bring a message up to date that somebody has clicked on too late.

        While the request is pending nothing is changed: a message that nobody has written down yet may be the only one.
        """
        outcome = self._desk.outcome(request_id) if self._desk else None
        if outcome is not None and outcome.request.state != "pending":
            self.settle(outcome, ref)

    # ---- what is remembered -------------------------------------------------------------------------

    def _outcome(self, request: ApprovalRequest) -> Outcome:
        """The request with its votes; a request that nobody knows yet has none."""
        found = self._desk.outcome(request.id) if self._desk else None
        return found or Outcome(request, missing=request.needed)

    def _thread_of(self, run: str) -> str:
        """Return where the thread of a run begins; "" where it has none yet."""
        if not run:
            return ""
        with self._lock:
            known = self._threads.get(run, "")
        if known or self._desk is None:
            return known
        for _, ref in self._desk.shown_at("run", run):
            if ref.where.get("channel") == self._post_to and ref.where.get("thread"):
                return str(ref.where["thread"])
        return ""

    def _remember(self, request_id: str, posted: _Posted) -> None:
        with self._lock:
            self._posted[request_id] = posted
            if posted.where["run"]:
                self._threads[posted.where["run"]] = posted.where["thread"]
            for memory in (self._posted, self._threads):
                while len(memory) > _REMEMBERED:
                    memory.popitem(last=False)

    def _has_posted(self, request_id: str, ts: str) -> bool:
        with self._lock:
            posted = self._posted.get(request_id)
        return posted is not None and posted.where["ts"] == ts


def _mentions(audience: Audience, team: str) -> list[str]:
    """The accounts and groups of our team that are told: U..., W... and S... ids."""
    found: dict[str, None] = {}
    for person in audience.people:
        for identity in person.identities:
            for kind in (_SLACK_USER, USERGROUP):
                if identity.startswith(f"{kind}{team}/"):
                    found[identity.partition("/")[2]] = None
    return list(found)[:_TOLD]


def _where(posted: Json, channel: str, identity: Identity, request: ApprovalRequest, mentions: list[str]) -> Json:
    """Return the place of a message of ours; the same for the answer to its posting and for what the history shows of
    it.
    """
    ts = str(posted["ts"])
    return {
        "app": str(posted.get("app_id") or identity.app),
        "team": identity.team,
        "channel": channel,
        "ts": ts,
        "thread": str(posted.get("thread_ts") or ts),
        "run": request.action.run_id,
        "to": mentions,
    }
