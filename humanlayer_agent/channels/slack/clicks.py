"""From what people click and submit to answers for the core.

Nothing here decides who may answer: that is the core's. What is checked here is what only Slack can tell: that the
click comes from a message of ours that shows this very request, and whose account it is.

What a form made of a command: line ends, and characters that the human did not mean.
"""

import hashlib
import hmac
import logging
import re
import time
import unicodedata
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from humanlayer_agent.approvals.grants import offers
from humanlayer_agent.approvals.model import Answer, AnswerKind, ApprovalRequest, Approver, VoteResult
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.channels.contract import Desk, Ref
from humanlayer_agent.channels.offers import EARLIER, foresight
from humanlayer_agent.channels.slack import blocks, bulk_answers, forms, home, message
from humanlayer_agent.channels.slack.api import SlackApi
from humanlayer_agent.channels.slack.envelopes import EVENT, INTERACTIVE, Reply
from humanlayer_agent.channels.slack.home import Homes
from humanlayer_agent.channels.slack.people import Directory
from humanlayer_agent.channels.slack.seal import Seal
from humanlayer_agent.errors import ChannelError, StoreError
from humanlayer_agent.safe_text import characters, one_line

_TYPOGRAPHIC = frozenset("“”„‟‘’‚‛«»‹›′″–—―…")
"""What phones and desktops put in for quotes, dashes and three dots."""
_NAMED = 3


def normal(text: str) -> str:
    """A form's text with the line ends of a command."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def strange(edited: str, original: str) -> str:
    """Return what is in `edited` that the form, and not the human, has probably put there; "" for nothing.

    Curly quotes, long dashes, and characters that can't be seen or would act on a screen, none of which `original` had.
    """
    odd = {char for char, (_, is_odd) in zip(edited, characters(edited), strict=True) if is_odd}
    found = sorted((odd | (_TYPOGRAPHIC & set(edited))) - set(original))
    if not found:
        return ""
    named = ", ".join(f"U+{ord(char):04X} {unicodedata.name(char, 'unnamed')}" for char in found[:_NAMED])
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"the command did not have {named}{more}: your keyboard may have put that in. Type it plainly."


Json = dict[str, Any]
_log = logging.getLogger(__name__)

KINDS: Mapping[str, AnswerKind] = MappingProxyType(
    {
        message.APPROVE: "approve",
        message.GRANT: "approve",
        message.REJECT: "reject",
        message.EDIT: "edit",
        message.RESPOND: "respond",
        message.ESCALATE: "escalate",
    }
)
AT_ONCE = (message.APPROVE, message.ESCALATE)
"""Buttons that answer by themselves; the others open a form."""

REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "not-presented": "Not counted: this message is not one that is known to show the request. "
        "Click again in a moment, or answer the other message of the same command.",
        "not-shown": "The whole command is not shown here, so it can't be approved here.",
        "not-editable": "This command can't be changed in a form: change it at a terminal.",
        "no-such-answer": "A question of the agent is answered in words: nothing of it can be approved or changed.",
        "no-such-scope": "More than this once can't be approved of this request.",
        "foreign-app": "This comes from another app.",
        "foreign-team": "You are not an approver: only accounts of the app's own workspace are.",
        "outsider": "You are not an approver",
        "late": "Too late: it is decided already.",
        "identity-unproved": "Slack did not say whose account this is, so nothing was counted: click again.",
        "unknown-identity": "You are not an approver of this request: nobody who may answer is known by this account.",
    }
)
"""Why a click did not come to the core, by code, as the one who clicked is told. The audit has the same codes."""

_VALUE = re.compile(r"([0-9A-Za-z_-]{1,64})\|([0-9a-f]{16})")
_STRANGERS = ("unknown-identity", "not-an-approver")
_WAIT_SECONDS = 1.0


class _Turned(Exception):
    """A click that does not count, and why."""

    def __init__(self, code: str, more: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.why = REFUSALS[code] + more


@dataclass(frozen=True, slots=True)
class _Who:
    """An account, as Slack names it in a payload."""

    user: str
    team: str

    @property
    def principal(self) -> str:
        return f"slack:{self.team}/{self.user}"


class Clicks:
    """Handles the envelopes of one channel. Thread-safe.

    Args:
        name: of the channel.
        channel: the conversation that it posts to.
        seal: of the requests that its buttons are about.
        posted: whether this process has posted that message for the request just now: then it is waited for until it
            is written down.
        mend: is called with a request and where it is shown, when somebody clicks on what may be out of date.
        homes: are told who looks at theirs.
    """

    def __init__(
        self,
        name: str,
        api: SlackApi,
        directory: Directory,
        desk: Desk,
        seal: Seal,
        *,
        channel: str,
        posted: Callable[[str, str], bool],
        mend: Callable[[str, Ref], None],
        homes: Homes,
    ) -> None:
        self._name = name
        self._api = api
        self._directory = directory
        self._desk = desk
        self._seal = seal
        self._channel = channel
        self._posted = posted
        self._mend = mend
        self._homes = homes

    def handle(self, envelope: Json) -> Reply:
        """Answer one envelope.

        Raises:
            StoreError: nothing was written down: it must not be acknowledged.
        """
        payload = envelope.get("payload")
        if envelope.get("type") == EVENT and isinstance(payload, dict):
            self._happened(payload)
        if envelope.get("type") != INTERACTIVE or not isinstance(payload, dict):
            return Reply()
        if payload.get("type") == "block_actions":
            return self._clicked(payload)
        if payload.get("type") == "view_submission":
            return self._submitted(payload)
        return Reply()

    # ---- a button -----------------------------------------------------------------------------------

    def _clicked(self, payload: Json) -> Reply:
        actions = payload.get("actions") or [{}]
        action, value = str(actions[0].get("action_id")), str(actions[0].get("value"))
        who = _who(payload)
        if action in (home.TAKE_BACK, home.STOP):
            return self._at_home(action, payload, value, who)
        if action not in KINDS and action not in (message.SEVERAL, home.REVIEW):
            return Reply()
        origin = self._origin(payload, action, value)
        try:
            request, ref = self._presented(payload, origin)
            approver = self._approver(payload, who)
            if action != home.REVIEW:
                _check_offered(action, request, ref)
        except _Turned as turned:
            return self._turned_away(payload, origin, who, turned)
        except StoreError as error:
            self._say(payload, f"Nothing was counted, click again: {error}")
            raise
        decision_id = _decision_id("click", who, origin.ts, action, str(actions[0].get("action_ts")))
        if action in AT_ONCE:
            answer = Answer(KINDS[action], approver, request.digest, decision_id, input_mode="click")
            result = self._decide(payload, request, answer)
            return Reply(after=lambda: self._tell(payload, result, request, ref))
        if action == home.REVIEW:
            return Reply(after=lambda: self._review(payload, request, ref, origin, who, approver))
        if request.state != "pending" or request.expires <= now_ms():
            late = self._late(payload, request, action, approver, decision_id)
            return Reply(after=lambda: self._tell(payload, late, request, ref))
        if self._desk.person_of(who.principal) is None and not approver.groups:
            return self._turned_away(payload, origin, who, _Turned("unknown-identity"))
        if action == message.SEVERAL:
            return Reply(after=lambda: self._open_several(payload, request, origin))
        return Reply(after=lambda: self._open(payload, self._form(action, request, origin)))

    def _form(self, action: str, request: ApprovalRequest, origin: forms.Origin) -> Json:
        what = message.shown(request)
        if action != message.GRANT:
            return forms.view(action, what, origin)
        earlier = self._desk.requests(waiting=False, last=EARLIER)
        seen = {offer.name: foresight(request, offer.name, earlier, redacted=True) for offer in offers(request)}
        return forms.scopes(what, seen, self._scopes(request), origin)

    def _scopes(self, request: ApprovalRequest) -> dict[str, str]:
        """The seals of the scopes that may be chosen for a request, by their names."""
        return {offer.name: self._seal.of_scope(request, offer.scope.text()) for offer in offers(request)}

    def _open(self, payload: Json, form: Json) -> None:
        method = "views.push" if _in_form(payload) else "views.open"
        try:
            self._api.call(method, quick=True, trigger_id=str(payload.get("trigger_id")), view=form)
        except ChannelError as error:
            code = getattr(error, "code", "")
            expired = "trigger" in code
            self._say(payload, "That took too long: click again." if expired else f"The form did not open: {error}")

    def _late(
        self, payload: Json, request: ApprovalRequest, action: str, approver: Approver, decision_id: str
    ) -> VoteResult:
        """Put a click in the log that would have opened a form too late."""
        if action == message.REJECT:
            answer = Answer("reject", approver, request.digest, decision_id, input_mode="click")
            return self._decide(payload, request, answer)
        state = request.state if request.state != "pending" else "expired"
        self._desk.refused(request.id, approver.principal, "late", REFUSALS["late"])
        return VoteResult("late", state, f"the request was already {state}")

    # ---- a form -------------------------------------------------------------------------------------

    def _submitted(self, payload: Json) -> Reply:
        view = payload.get("view") or {}
        action, origin = str(view.get("callback_id")), forms.origin_of(view)
        who = _who(payload)
        if action == message.SEVERAL:
            return self._submitted_several(payload, view, who)
        if action == home.STOP:
            return self._stopped(payload, view, who)
        if action not in forms.FORMS or origin is None:
            return Reply()
        try:
            request, ref = self._presented(payload, origin)
            approver = self._approver(payload, who)
            _check_offered(action, request, ref)
        except _Turned as turned:
            self._desk.refused(origin.request_id, who.principal, turned.code, turned.why)
            return Reply(forms.error(turned.why))
        if action == message.GRANT:
            return self._granted(view, request, ref, who, approver)
        text = normal(forms.text_of(view))
        original = request.action.content
        if action == message.EDIT and (odd := strange(text, original)):
            return Reply(forms.error(odd))
        if action == message.RESPOND and not text.strip():
            return Reply(forms.error("An answer needs words."))
        answer = Answer(
            kind=KINDS[action],
            approver=approver,
            presented_digest=request.digest,
            decision_id=_decision_id("form", who, str(view.get("id")), action, text),
            comment="" if action == message.EDIT else text.strip(),
            input_mode="typed",
            edited=text if action == message.EDIT else "",
        )
        return self._submitted_answer(view, request, ref, answer)

    def _granted(self, view: Json, request: ApprovalRequest, ref: Ref, who: _Who, approver: Approver) -> Reply:
        """Record an approval with the scope that was chosen, as it was shown; nothing where it is not offered now."""
        name, seal = forms.chosen_in(view)
        if not name:
            return Reply(forms.error("Choose what is to run again without a question."))
        known = self._scopes(request).get(name, "")
        if not known or not hmac.compare_digest(known.encode(), seal.encode("utf-8", "replace")):
            why = "What you chose is not offered any more: go back, and click again."
            self._desk.refused(request.id, approver.principal, "no-such-scope", why)
            return Reply(forms.error(why))
        answer = Answer(
            kind="approve",
            approver=approver,
            presented_digest=request.digest,
            decision_id=_decision_id("form", who, str(view.get("id")), message.GRANT, name),
            input_mode="click",
            scope=name,
        )
        return self._submitted_answer(view, request, ref, answer)

    def _submitted_answer(self, view: Json, request: ApprovalRequest, ref: Ref, answer: Answer) -> Reply:
        result = self._desk.decide(request.id, answer)
        if result.outcome in ("recorded", "duplicate"):
            below = view.get("previous_view_id")  # it shows what was answered just now
            return Reply({"response_action": "clear"} if below else None, after=self._homes.look)
        return Reply(forms.error(_said(result)), after=lambda: self._mend(request.id, ref))

    # ---- several at once

    def _open_several(self, payload: Json, request: ApprovalRequest, origin: forms.Origin) -> None:
        listed = bulk_answers.alike_here(self._desk, request, origin.channel)
        if len(listed) < 2:
            self._say(payload, "No other waits any more that is like this one: answer it by its own buttons.")
        else:
            self._open(payload, bulk_answers.view(listed, self._seal, forms.metadata(origin)))

    def _submitted_several(self, payload: Json, view: Json, who: _Who) -> Reply:
        """Record a vote for each request that was ticked, and say of which it did not count."""
        chosen = bulk_answers.chosen_in(view)
        if chosen.kind is None or not chosen.requests:
            return Reply(forms.error("Tick what you answer, and choose how."))
        try:
            approver = self._approver(payload, who)
        except _Turned as turned:
            for id_, _ in chosen.requests:
                self._desk.refused(id_, who.principal, turned.code, turned.why)
            return Reply(forms.error(turned.why))
        wrong, mend, unsaved = [], [], None
        for id_, seal in chosen.requests:
            try:
                request, ref = self._listed(payload, id_, seal)
                answer = Answer(
                    kind=chosen.kind,
                    approver=approver,
                    presented_digest=request.digest,
                    decision_id=_decision_id("several", who, str(view.get("id")), id_, chosen.kind),
                    comment=chosen.reason if chosen.kind == "reject" else "",
                    input_mode="click",
                )
                result = self._desk.decide(id_, answer)
            except _Turned as turned:
                self._desk.refused(id_, approver.principal, turned.code, turned.why)
                wrong.append(turned.why)
                continue
            except StoreError as error:
                unsaved = error
                continue
            if result.outcome not in ("recorded", "duplicate"):
                named = " ".join(message.shown(request).command.split())
                wrong.append(f"{blocks.cut(named, 60)}: {_said(result)}")
                mend.append((id_, ref))
        if unsaved is not None:
            raise unsaved  # not acknowledged: the form stays, and what was recorded is recorded once
        if not wrong:
            return Reply()

        def after() -> None:
            for id_, ref in mend:
                self._mend(id_, ref)

        counted = len(chosen.requests) - len(wrong)
        return Reply(forms.error(f"{counted} counted. {' '.join(dict.fromkeys(wrong))}"), after=after)

    def _listed(self, payload: Json, request_id: str, seal: str) -> tuple[ApprovalRequest, Ref]:
        """The request, and where it is shown, that a form of several has shown.

        Raises:
            _Turned: it is none.
        """
        request = self._desk.request(request_id)
        known = self._seal.of_scope(request, bulk_answers.PURPOSE) if request is not None and request.digest else ""
        if request is None or not known or not hmac.compare_digest(known.encode(), seal.encode("utf-8", "replace")):
            raise _Turned("not-presented")
        for ref in self._desk.shown(request_id):
            of_app = str(payload.get("api_app_id")) == ref.where.get("app")
            of_team = str((payload.get("team") or {}).get("id")) == ref.where.get("team")
            if of_app and of_team and ref.complete and ref.presented_digest == request.digest:
                return request, ref
        raise _Turned("not-presented")

    # ---- the home -----------------------------------------------------------------------------------

    def _happened(self, payload: Json) -> None:
        """An event: somebody looks at the home of this very app."""
        event = payload.get("event")
        if not isinstance(event, dict) or event.get("type") != "app_home_opened" or event.get("tab") != "home":
            return
        with suppress(ChannelError):  # they open it again
            own = self._api.identity(quick=True)
            if (payload.get("api_app_id"), payload.get("team_id")) == (own.app, own.team):
                self._homes.opened(str(event.get("user")))

    def _origin(self, payload: Json, action: str, value: str) -> forms.Origin:
        """Return the message that a button belongs to: the one it is in, or the one that its form or home shows."""
        parts = _VALUE.fullmatch(value)
        request_id, seal = (parts[1], parts[2]) if parts else ("", "")
        if not isinstance(payload.get("view"), dict):
            container = payload.get("container") or {}
            channel = str((payload.get("channel") or {}).get("id") or container.get("channel_id"))
            return forms.Origin(request_id, seal, channel, str(container.get("message_ts")))
        if action == home.REVIEW:
            request = self._desk.request(request_id) if request_id else None
            ref = home.here(self._desk, request, self._channel) if request is not None else None
            where = ref.where if ref is not None else {}
            return forms.Origin(request_id, seal, str(where.get("channel")), str(where.get("ts")))
        origin = forms.origin_of(payload["view"])
        if origin is None or (origin.request_id, origin.seal) != (request_id, seal):
            return forms.Origin(request_id, seal, "", "")
        return origin

    def _review(
        self, payload: Json, request: ApprovalRequest, ref: Ref, origin: forms.Origin, who: _Who, approver: Approver
    ) -> None:
        """Show a request of a home whole, to somebody whose business it is."""
        self._homes.opened(who.user)
        outcome = self._desk.outcome(request.id)
        if outcome is None or not home.concerns(self._desk, request, home.Account(who.principal, approver.groups)):
            self._desk.refused(request.id, who.principal, "unknown-identity", REFUSALS["unknown-identity"])
            self._say(payload, REFUSALS["unknown-identity"])
        else:
            self._open(payload, home.review(outcome, self._what(request), ref, origin))

    def _what(self, request: ApprovalRequest) -> message.Shown:
        return message.shown(request, self._seal.value(request))

    def _at_home(self, action: str, payload: Json, value: str, who: _Who) -> Reply:
        """Open the form that stops every agent, or take a grant back."""
        try:
            approver = self._approver(payload, who)
        except _Turned as turned:
            why = turned.why
            return Reply(after=lambda: self._say(payload, why))
        account = home.Account(who.principal, approver.groups)
        self._homes.opened(who.user)
        if not home.is_known(self._desk, account):
            return Reply(after=lambda: self._say(payload, REFUSALS["unknown-identity"]))
        if action == home.STOP:
            return Reply(after=lambda: self._open(payload, home.stopping()))
        mine = (grant for grant, _ in self._desk.grants(0) if home.concerns(self._desk, grant.request, account))
        if all(grant.id != value for grant in mine) or not self._desk.revoke_grant(value, who.principal):
            return Reply(after=lambda: self._say(payload, "Nothing was taken back: it holds no longer."))
        return Reply(after=self._homes.look)

    def _stopped(self, payload: Json, view: Json, who: _Who) -> Reply:
        """Stop every agent."""
        try:
            self._approver(payload, who)
        except _Turned as turned:
            return Reply(forms.error(turned.why))
        if not self._desk.stop(who.principal, one_line(forms.text_of(view).strip())[: home.REASON]):
            return Reply(forms.error("Nothing was stopped: nobody is known by this account."))
        return Reply(after=self._homes.look)

    # ---- what only Slack can tell -------------------------------------------------------------------

    def _presented(self, payload: Json, origin: forms.Origin) -> tuple[ApprovalRequest, Ref]:
        """The request, and where it is shown: the very message that was clicked.

        Raises:
            _Turned: it is no message that shows it.
        """
        request = self._desk.request(origin.request_id) if origin.request_id else None
        if request is None or not self._seal.fits(request, origin.seal):
            raise _Turned("not-presented")
        deadline = time.monotonic() + _WAIT_SECONDS
        while True:
            for ref in self._desk.shown(request.id):
                where = ref.where
                if (where.get("channel"), where.get("ts")) != (origin.channel, origin.ts):
                    continue
                if str(payload.get("api_app_id")) != where.get("app"):
                    raise _Turned("foreign-app")
                if str((payload.get("team") or {}).get("id")) != where.get("team"):
                    raise _Turned("foreign-team")
                if ref.presented_digest != request.digest:
                    raise _Turned("not-presented")
                return request, ref
            if not self._posted(request.id, origin.ts) or time.monotonic() > deadline:
                raise _Turned("not-presented")
            time.sleep(0.02)

    def account(self, user: str) -> home.Account:
        """Return who somebody of our own team is; no principal for whoever may not answer, whoever they are.

        Raises:
            ChannelError: Slack did not say.
        """
        team = self._api.identity().team
        if self._directory.why_not(user, team):
            return home.Account("", ())
        membership = self._directory.groups_of(user, team)
        if membership.unknown:
            raise ChannelError(membership.unknown)
        return home.Account(_Who(user, team).principal, membership.groups)

    def _approver(self, payload: Json, who: _Who) -> Approver:
        """Return the approver whose answer it is.

        Raises:
            _Turned: an account that may not answer, whoever has it.
        """
        try:
            team = self._api.identity(quick=True).team
            if not who.user or not who.team or who.team != team:
                raise _Turned("foreign-team")
            if why := self._directory.why_not(who.user, team):
                raise _Turned("outsider", f": this is {why}.")
        except ChannelError as error:
            _log.warning("slack: %s", error)
            raise _Turned("identity-unproved") from None
        membership = self._directory.groups_of(who.user, team)
        if membership.unknown:
            _log.warning("slack: %s", membership.unknown)
        return Approver(who.principal, self._name, "chat", membership.groups)

    # ---- what they are told -------------------------------------------------------------------------

    def _decide(self, payload: Json, request: ApprovalRequest, answer: Answer) -> VoteResult:
        try:
            return self._desk.decide(request.id, answer)
        except StoreError as error:
            self._say(payload, f"Nothing was counted, click again: {error}")
            raise

    def _turned_away(self, payload: Json, origin: forms.Origin, who: _Who, turned: _Turned) -> Reply:
        self._desk.refused(origin.request_id, who.principal, turned.code, turned.why)

        def after() -> None:
            self._say(payload, turned.why)
            noted = ((payload.get("message") or {}).get("metadata") or {}).get("event_payload") or {}
            if turned.code == "not-presented" and noted.get("id") == origin.request_id:
                # Posted by a process whose confirmation was lost: it shows this request, and nobody settles it.
                where = {"channel": origin.channel, "ts": origin.ts, "thread": origin.ts}
                self._mend(origin.request_id, Ref(where, ""))

        return Reply(after=after)

    def _tell(self, payload: Json, result: VoteResult, request: ApprovalRequest, ref: Ref) -> None:
        """Say what became of a click, where the message itself does not."""
        said = ""
        if result.outcome == "recorded" and result.missing:
            said = f"Counted. {result.missing} more must approve it."
        elif result.outcome in ("late", "refused"):
            said = _said(result)
        if _in_form(payload):
            self._shown_again(payload, request, ref, said)
        elif said:
            self._say(payload, said)
        if result.outcome == "late":
            self._mend(request.id, ref)

    def _shown_again(self, payload: Json, request: ApprovalRequest, ref: Ref, said: str) -> None:
        """Bring the form up to date that a click came from."""
        self._homes.look()
        outcome, origin = self._desk.outcome(request.id), forms.origin_of(payload["view"])
        with suppress(ChannelError):
            if outcome is not None and origin is not None:
                form = home.review(outcome, self._what(outcome.request), ref, origin, said)
                self._api.call("views.update", quick=True, view_id=str(payload["view"].get("id")), view=form)

    def _say(self, payload: Json, text: str) -> None:
        """Tell only the one who clicked."""
        url = payload.get("response_url")
        with suppress(ChannelError):
            if isinstance(url, str) and url:
                self._api.respond(url, _escaped(text))
            elif isinstance(payload.get("view"), dict):
                method = "views.push" if _in_form(payload) else "views.open"
                trigger = str(payload.get("trigger_id"))
                self._api.call(method, quick=True, trigger_id=trigger, view=home.notice(text))


def _check_offered(action: str, request: ApprovalRequest, ref: Ref) -> None:
    """Refuse a button that a message like this does not have: a copied or an old one may have it.

    Raises:
        _Turned: it has not.
    """
    if action in (message.APPROVE, message.GRANT, message.EDIT, message.SEVERAL) and not ref.complete:
        raise _Turned("not-shown")
    if KINDS.get(action, "approve") not in request.answers:
        raise _Turned("no-such-answer")
    if action == message.GRANT and request.state == "pending" and not message.shown(request).offers:
        raise _Turned("no-such-scope")
    if action == message.EDIT and not message.shown(request).can_edit:
        raise _Turned("not-editable")


def _in_form(payload: Json) -> bool:
    """Tell whether a click came from a form that is open, on which another one is to be put."""
    view = payload.get("view")
    return isinstance(view, dict) and view.get("type") == "modal"


def _who(payload: Json) -> _Who:
    user = payload.get("user") or {}
    return _Who(str(user.get("id") or ""), str(user.get("team_id") or ""))


def _decision_id(*parts: object) -> str:
    """The same for the same click, however often it is delivered."""
    named = "\0".join(f"{part.team}/{part.user}" if isinstance(part, _Who) else str(part) for part in parts)
    return f"slack-{hashlib.sha256(named.encode('utf-8', 'replace')).hexdigest()[:40]}"


def _said(result: VoteResult) -> str:
    if result.outcome == "late":
        return f"Too late: {result.reason}."
    if result.code in _STRANGERS:
        return f"You are not an approver of this request: {result.reason}."
    return f"Not counted: {result.reason}."


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
