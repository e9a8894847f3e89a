"""The pages: what waits, one request in full, the login, and the page that the links in mails lead to.

GET shows and changes nothing. POST decides, with a token that its page was given and that is good once.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from humanlayer_agent.approvals.grants import offers
from humanlayer_agent.approvals.model import Answer, AnswerKind, ApprovalRequest, Approver, VoteResult
from humanlayer_agent.approvals.model import person as person_name
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.batches import SEVERAL, alike
from humanlayer_agent.channels.contract import Desk
from humanlayer_agent.channels.offers import EARLIER
from humanlayer_agent.channels.web import pages
from humanlayer_agent.channels.web.request_checks import Guard, Peers
from humanlayer_agent.channels.web.sessions import (
    FORM_SECONDS,
    SESSION_SECONDS,
    Form,
    LoginCode,
    Session,
    Shelf,
    Tries,
    Visitor,
    caller,
)
from humanlayer_agent.errors import StoreError
from humanlayer_agent.safe_text import one_line

Result = TypeVar("Result")
COOKIE = "hla_session"
GRANT = "grant"
"""What the form says by which more than this once is approved."""
ANSWERS: Mapping[str, AnswerKind] = {
    "approve": "approve",
    GRANT: "approve",
    "reject": "reject",
    "edit": "edit",
    "respond": "respond",
    "escalate": "escalate",
}
"""What a form may say."""

COMMENT_LIMIT = 2000
WHY_LIMIT = 200
FIELDS = SEVERAL + 10
"""Fields that a form may have."""
GRANTS = 100
"""Grants that are over, of which their page tells."""
ENTER = "enter"
"""The field of a form that was sent by Enter on a choice, and by no button that a human has seen."""
_PRESS = "Nothing was recorded: Enter answers nothing here, press the button."
_USED = "this form was sent before, or is too old"
IN_LINE = 32
"""Strangers who may wait for a thread."""
RECENT = 50
"""Decided requests that the inbox shows."""


@dataclass(frozen=True, slots=True)
class MailLinks:
    """The links of one mail channel: who they were sent to."""

    channel: str
    approvers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Site:
    """Everything that the pages are served with.

    Args:
        name: of the web channel.
        desk: its way to the core.
        origins: what it is reached by; the first is where it says that it is.
        base: the path that everything is below, "" or "/inbox".
        login: the code that is shown on the hub's terminal.
        owner: the principal whom that code logs in.
        tokens, links: of the mail channels whose links lead here.
        proxy_user: the mail address that a proxy vouches for, of a request that came by one; else "".
    """

    name: str
    desk: Desk
    origins: tuple[str, ...]
    base: str
    login: LoginCode
    owner: str
    tokens: Tokens | None
    links: tuple[MailLinks, ...]
    peers: Peers
    proxy_user: Callable[[Request], str]


def build_app(site: Site) -> Guard:
    """The pages as an ASGI application, inside their guard."""
    views = _Views(site)
    routes = [
        *views.inbox_routes(site.base),  # for whom a proxy vouches
        *views.inbox_routes(f"{site.base}/s/{{place}}"),  # for who has logged in
        Route(f"{site.base}/login", views.login_page, methods=["GET"]),
        Route(f"{site.base}/login", views.login, methods=["POST"]),
        Route(f"{site.base}/d/{{token}}", views.link_page, methods=["GET"]),
        Route(f"{site.base}/d/{{token}}", views.link_answer, methods=["POST"]),
        Route(f"{site.base}/style.css", views.style, methods=["GET"]),
        Route(f"{site.base}/inbox.js", views.script, methods=["GET"]),
        Route(f"{site.base}/icon.svg", views.icon, methods=["GET"]),
    ]
    handlers = {404: views.missing, StoreError: views.unreachable, Exception: views.failed}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), site.origins, site.peers)


class _Views:
    """One method a page. Reading the store may take a while, so that happens on threads."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._sessions = Shelf[Session](SESSION_SECONDS)
        self._forms = Shelf[Form](FORM_SECONDS)
        self._tries = Tries()
        self._turn = asyncio.Semaphore()
        self._in_line = 0
        self._show = pages.Pages(site.base)

    def inbox_routes(self, home: str) -> list[Route]:
        """The inbox and its requests, below a path."""
        return [
            Route(f"{home}/", self.inbox, methods=["GET"]),
            Route(f"{home}/r/{{id}}", self.request_page, methods=["GET"]),
            Route(f"{home}/r/{{id}}", self.answer, methods=["POST"]),
            Route(f"{home}/grants", self.grants_page, methods=["GET"]),
            Route(f"{home}/grants", self.revoke, methods=["POST"]),
            Route(f"{home}/several", self.several_page, methods=["GET"]),
            Route(f"{home}/several", self.answer_several, methods=["POST"]),
            Route(f"{home}/logout", self.logout, methods=["POST"]),
        ]

    # Who it is

    async def _visitor(self, request: Request) -> Visitor | None:
        """Return who is logged in, by the cookie or by the proxy; None where nobody is, or they have left."""
        visitor = self._logged_in(request)
        if visitor is not None and await run_in_threadpool(self._site.desk.has_left, visitor.principal):
            self._sessions.take(visitor.key)
            return None
        return visitor

    async def _link_holder(self, token: str) -> tuple[Visitor, str] | None:
        """Return whom the link of a mail was sent to, and which request it is for; None where they have left."""
        holder = self._holder(token)
        gone = holder is not None and await run_in_threadpool(self._site.desk.has_left, holder[0].principal)
        return None if gone else holder

    def _logged_in(self, request: Request) -> Visitor | None:
        place = request.path_params.get("place", "")
        if not place:
            address = self._site.proxy_user(request)
            return Visitor(f"email:{address}", "login", self._site.base, f"proxy:{address}") if address else None
        for name in _cookies(request):
            session = self._sessions.get(name)
            if session is not None and session.place == place:
                return Visitor(session.principal, "login", f"{self._site.base}/s/{place}", name)
        return None

    def _holder(self, token: str) -> tuple[Visitor, str] | None:
        """Return whom the link of a mail was sent to, and which request it is for."""
        if self._site.tokens is None:
            return None
        for links in self._site.links:
            if (found := self._site.tokens.holder(token, "link", links.approvers)) is not None:
                principal, key = f"email:{found[1]}", f"link:{token.lower()}"
                return Visitor(principal, "mail-link", self._site.base, key, links.channel), found[0]
        return None

    async def login_page(self, request: Request) -> Response:
        return await self._login_form()

    async def _login_form(self, said: str = "") -> Response:
        # Where there is no code yet, showing one may take as long as a terminal takes nothing.
        offered = self._site.login.is_offered or await self._in_turn(self._site.login.offer)
        return self._show.login(offered is not False, said=said)

    async def login(self, request: Request) -> Response:
        code = (await _form(request)).get("code", "")
        if self._site.login.fits(code):  # that one waits for nobody
            wrong = await run_in_threadpool(self._wrong_login, request, code)
        else:
            wrong = await self._in_turn(self._wrong_login, request, code) or "Too many codes came at once. Try again."
        if wrong:
            return await self._login_form(wrong)
        session = Session(self._site.owner, secrets.token_urlsafe(24))
        home = f"{self._site.base}/s/{session.place}/"
        response = RedirectResponse(home, status_code=303)
        secure = self._site.origins[0].startswith("https://")
        cookie = self._sessions.put(session)
        response.set_cookie(COOKIE, cookie, path=home, httponly=True, samesite="strict", secure=secure)
        return response

    async def _in_turn(self, function: Callable[..., Result], *arguments: object) -> Result | None:
        """Call what takes a while, and what strangers can have us do, on one thread; None where too many wait for it.

        The other threads are for people who are logged in.
        """
        if self._in_line >= IN_LINE:
            return None
        self._in_line += 1
        try:
            async with self._turn:
                return await run_in_threadpool(function, *arguments)
        finally:
            self._in_line -= 1

    def _wrong_login(self, request: Request, code: str) -> str:
        """Return why a login code does not do; "" where it does."""
        who = self._caller(request)
        wrong = self._site.login.enter(code, who)
        if wrong is None:
            return ""
        if wrong.recorded:
            self._site.desk.login_refused(who)
        return wrong.why

    def _caller(self, request: Request) -> str:
        """Return whose wrong codes count together with those of this request."""
        if vouched := self._site.proxy_user(request):
            return f"email:{vouched}"
        client, server = request.scope["client"], request.scope["server"]
        return caller(client, server) if client and server else ""

    async def logout(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        response = RedirectResponse(f"{self._site.base}/login", status_code=303)
        if visitor is not None:
            self._sessions.take(visitor.key)
            response.delete_cookie(COOKIE, path=f"{visitor.home}/")
        return response

    # The inbox

    async def inbox(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if visitor is None:
            return RedirectResponse(f"{self._site.base}/login", status_code=303)
        return await run_in_threadpool(self._inbox, visitor)

    def _inbox(self, visitor: Visitor) -> Response:
        desk = self._site.desk
        waiting = desk.requests(waiting=True)
        here = {request.id for request in waiting if desk.shown(request.id)}
        person = desk.person_of(visitor.principal)
        decided = sorted(desk.requests(waiting=False, last=RECENT), key=lambda each: each.decided or each.expires)[::-1]
        named = [(request, self._name(request.decided_by)) for request in decided]
        who = person.id if person else ""
        groups, _ = alike(request for request in waiting if request.id in here)
        several = sum(len(group.requests) for group in groups) > 1
        return self._show.at(visitor.home).inbox(waiting, here, named, who, desk.stopped(), several=several)

    def _name(self, principal: str) -> str:
        known = self._site.desk.person_of(principal) if principal else None
        return known.id if known else person_name(principal)

    async def request_page(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if visitor is None:
            return RedirectResponse(f"{self._site.base}/login", status_code=303)
        only_looks = "look" in request.query_params
        return await run_in_threadpool(self._page, visitor, request.path_params["id"], only_looks=only_looks)

    async def answer(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if visitor is None:
            return self._show.message("You are not logged in", "Log in, and look at the request again.", 403)
        form = await _form(request)
        return await run_in_threadpool(self._answered, visitor, request.path_params["id"], form)

    # Links in mails

    async def link_page(self, request: Request) -> Response:
        holder = await self._link_holder(request.path_params["token"])
        if holder is None:
            return self._no_link()
        return await run_in_threadpool(self._page, *holder)

    async def link_answer(self, request: Request) -> Response:
        holder = await self._link_holder(request.path_params["token"])
        if holder is None:
            return self._no_link()
        form = await _form(request)
        return await run_in_threadpool(self._answered, *holder, form)

    def _no_link(self) -> Response:
        return self._show.message("This link leads nowhere", "It was not made here, or for somebody else.", 404)

    # One request

    def _desk(self, visitor: Visitor) -> Desk:
        return self._site.desk.beside(visitor.channel) if visitor.channel else self._site.desk

    def _page(
        self, visitor: Visitor, request_id: str, said: str = "", status: int = 200, *, only_looks: bool = False
    ) -> Response:
        """The page of a request; without forms where a page that is open `only_looks` whether it is up to date."""
        desk = self._desk(visitor)
        outcome = desk.outcome(request_id)
        if outcome is None:
            return self._show.message("There is no such request", "It is not in this store.", 404)
        request = outcome.request
        open_here = request.state == "pending" and bool(desk.shown(request_id))
        locked = self._needs_code(visitor, request) and self._tries.exhausted(request_id, visitor.principal)
        forms = open_here and not locked and not only_looks
        scopes = () if visitor.channel or not forms else _scopes(request)  # a mail can't show what they cover
        token = self._forms.put(Form(visitor.key, request_id, request.digest, scopes)) if forms else ""
        return self._show.at(visitor.home).request(
            outcome,
            token=token,
            scopes=bool(scopes),
            earlier=desk.requests(waiting=False, last=EARLIER) if scopes else (),
            code=self._needs_code(visitor, request),
            said=said or ("Too many wrong codes: answer by another way." if locked and open_here else ""),
            open=open_here and not locked,
            elsewhere=request.state == "pending" and not open_here,
            waiting=[] if visitor.channel else [each.id for each in desk.requests(waiting=True)],
            back=not visitor.channel,
            status=status,
        )

    @staticmethod
    def _needs_code(visitor: Visitor, request: ApprovalRequest) -> bool:
        """Whoever follows a link has to know what stands beside it in the mail; programs follow links too."""
        return bool(visitor.channel) and request.decision.severity not in ("low", "medium")

    def _answered(self, visitor: Visitor, request_id: str, form: Mapping[str, str]) -> Response:
        token = form.get("token", "")
        shown = self._forms.get(token)
        kind = ANSWERS.get(form.get("answer", ""))
        desk = self._desk(visitor)
        request = desk.request(request_id)
        if request is None:
            return self._show.message("There is no such request", "It is not in this store.", 404)
        if shown is None or kind is None or (shown.key, shown.about) != (visitor.key, request_id):
            desk.refused(request_id, visitor.principal, "used-form", _USED)
            return self._page(visitor, request_id, f"Nothing was recorded: {_USED}.", 403)
        if ENTER in form:
            return self._page(visitor, request_id, _PRESS)
        if wrong := self._wrong_scope(visitor, request, form, shown):
            return self._page(visitor, request_id, f"Nothing was recorded: {wrong}.", 403)
        if wrong := self._wrong_code(visitor, request, form):
            desk.refused(request_id, visitor.principal, "wrong-code", wrong)
            return self._page(visitor, request_id, f"Nothing was recorded: {wrong}.", 403)
        answer = Answer(
            kind=kind,
            approver=Approver(visitor.principal, visitor.channel or self._site.name, visitor.assurance),
            presented_digest=shown.digest,
            decision_id=_decision_id(token),
            comment=form.get("comment", "").strip()[:COMMENT_LIMIT],
            input_mode="click",
            edited=_lines(form.get("edited", "")) if kind == "edit" else "",
            scope=form.get("scope", "") if form.get("answer") == GRANT else "",
        )
        result = desk.decide(request_id, answer)
        self._forms.take(token)  # only now: where it could not be written, the same form can be sent again
        return self._page(visitor, request_id, _said(result), 200 if result.outcome == "recorded" else 409)

    def _wrong_scope(self, visitor: Visitor, request: ApprovalRequest, form: Mapping[str, str], shown: Form) -> str:
        """Return why the scope that was chosen is none to approve; "" where it is, or none was to be chosen."""
        if form.get("answer") != GRANT:
            return ""
        chosen = form.get("scope", "")
        if not chosen:
            return "choose what is to run again without a question"
        if chosen in dict(shown.scopes) and dict(shown.scopes)[chosen] == dict(_scopes(request)).get(chosen):
            return ""
        why = "what you chose is not offered any more"
        self._desk(visitor).refused(request.id, visitor.principal, "no-such-scope", why)
        return why

    # Grants

    async def grants_page(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if visitor is None:
            return RedirectResponse(f"{self._site.base}/login", status_code=303)
        return await run_in_threadpool(self._grants, visitor)

    def _grants(self, visitor: Visitor, said: str = "", status: int = 200) -> Response:
        rows = []
        for grant, uses in self._site.desk.grants(GRANTS):
            can = grant.state(now_ms()) == "active"
            rows.append((grant, uses, self._forms.put(Form(visitor.key, grant.id)) if can else ""))
        return self._show.at(visitor.home).grants(rows, self._name, said=said, status=status)

    async def revoke(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if visitor is None:
            return self._show.message("You are not logged in", "Log in, and look at the grants again.", 403)
        return await run_in_threadpool(self._revoked, visitor, await _form(request))

    def _revoked(self, visitor: Visitor, form: Mapping[str, str]) -> Response:
        token = form.get("token", "")
        shown = self._forms.get(token)
        if shown is None or shown.key != visitor.key or shown.digest:
            return self._grants(visitor, f"Nothing was taken back: {_USED}.", 403)
        done = self._site.desk.revoke_grant(shown.about, visitor.principal, form.get("comment", "").strip()[:WHY_LIMIT])
        self._forms.take(token)
        if not done:
            return self._grants(visitor, "Nothing was taken back: it was before.", 409)
        return self._grants(visitor, "Taken back: it lets nothing through from now on.")

    # Several requests at once

    async def several_page(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if visitor is None:
            return RedirectResponse(f"{self._site.base}/login", status_code=303)
        return await run_in_threadpool(self._several, visitor)

    def _several(self, visitor: Visitor, said: Sequence[str] = (), status: int = 200) -> Response:
        """The page of all requests that wait and can be answered here, each whole, to be answered together."""
        desk = self._site.desk
        here = [request for request in desk.requests(waiting=True) if desk.shown(request.id)]
        groups, alone = alike(here)
        tokens = {
            each.id: self._forms.put(Form(visitor.key, each.id, each.digest))
            for group in groups
            for each in group.requests
        }
        return self._show.at(visitor.home).several(groups, alone, tokens, said=said, status=status)

    async def answer_several(self, request: Request) -> Response:
        visitor = await self._visitor(request)
        if visitor is None:
            return self._show.message("You are not logged in", "Log in, and look at the requests again.", 403)
        fields = await _fields(request)
        return await run_in_threadpool(self._answered_several, visitor, fields)

    def _answered_several(self, visitor: Visitor, fields: Mapping[str, Sequence[str]]) -> Response:
        """Record one vote for each request that was ticked: each as by its own form, and none for any other."""
        if ENTER in fields:
            return self._several(visitor, [_PRESS])
        answer, comment = [*fields.get("answer", ()), ""][0], [*fields.get("comment", ()), ""][0]
        kind = ANSWERS.get(answer)
        tokens = dict.fromkeys(fields.get("pick", ()))
        if kind not in ("approve", "reject") or answer == GRANT or not tokens:
            why = "Nothing was recorded: tick what you answer, then approve or reject it."
            return self._several(visitor, [why], 403)
        comment = comment.strip()[:COMMENT_LIMIT] if kind == "reject" else ""
        return self._several(visitor, [self._one_of_several(visitor, token, kind, comment) for token in tokens])

    def _one_of_several(self, visitor: Visitor, token: str, kind: AnswerKind, comment: str) -> str:
        """Record the vote on one of several requests, and return what became of it."""
        shown = self._forms.get(token)
        if shown is None or shown.key != visitor.key or not shown.digest:
            return f"One was not recorded: {_USED}."
        request = self._site.desk.request(shown.about)
        named = pages.summary(request) if request else f"request {shown.about[:12]}"
        answer = Answer(
            kind=kind,
            approver=Approver(visitor.principal, self._site.name, visitor.assurance),
            presented_digest=shown.digest,
            decision_id=_decision_id(token),
            comment=comment,
            input_mode="click",
        )
        try:
            result = self._site.desk.decide(shown.about, answer)
        except StoreError as error:
            return f"{named}: nothing was recorded, try again: {one_line(str(error))}"
        self._forms.take(token)
        return f"{named}: {_said(result)}"

    def _wrong_code(self, visitor: Visitor, request: ApprovalRequest, form: Mapping[str, str]) -> str:
        """Return why the code that was typed does not do; "" where it does, or none is needed."""
        if not self._needs_code(visitor, request) or self._site.tokens is None:
            return ""
        left = self._tries.spend(request.id, visitor.principal)  # before it is compared: many may come at once
        if left < 0:
            return "there were too many wrong codes"
        if self._site.tokens.is_code(form.get("code", ""), request.id, visitor.principal.removeprefix("email:")):
            self._tries.give_back(request.id, visitor.principal)
            return ""
        return f"the code is not the one in the mail; {left} tries are left"

    # Everything else

    async def style(self, request: Request) -> Response:
        return self._show.style()

    async def script(self, request: Request) -> Response:
        return self._show.script()

    async def icon(self, request: Request) -> Response:
        return self._show.icon()

    async def missing(self, request: Request, error: Exception) -> Response:
        return self._show.message("There is nothing here", "Look into the inbox.", 404)

    async def unreachable(self, request: Request, error: Exception) -> Response:
        return self._show.message("Nothing was recorded", f"The store could not be used: {error}. Try again.", 503)

    async def failed(self, request: Request, error: Exception) -> Response:
        return self._show.message("Nothing was recorded", "Something went wrong here; the hub's log says what.", 500)


def _scopes(request: ApprovalRequest) -> tuple[tuple[str, str], ...]:
    """Return the scopes that may be chosen for a request, by name: what a form that shows them is good for."""
    return tuple((offer.name, offer.scope.text()) for offer in offers(request))


def _decision_id(token: str) -> str:
    """Return the id of an answer that comes by the form with this token."""
    return f"web:{hashlib.sha256(token.encode()).hexdigest()}"


def _said(result: VoteResult) -> str:
    match result.outcome:
        case "recorded":
            return (
                f"Your answer is recorded; {result.missing} more needed."
                if result.missing
                else "Your answer is recorded."
            )
        case "duplicate":
            return "Your answer was recorded before."
    return f"Your answer did not count: {result.reason}."


def _cookies(request: Request) -> list[str]:
    """All cookies of our name: other servers of this host can set one of the same name for other paths."""
    pairs = (pair.strip().partition("=") for header in request.headers.getlist("cookie") for pair in header.split(";"))
    return [value for name, _, value in pairs if name == COOKIE][:20]


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form, each that is there exactly once. Files and other kinds of bodies are no forms."""
    return {name: values[0] for name, values in (await _fields(request)).items() if len(values) == 1}


async def _fields(request: Request) -> dict[str, list[str]]:
    """The fields of a form, with all their values."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        return {}
    try:
        return parse_qs(
            (await request.body()).decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"
        )
    except ValueError:
        return {}


def _lines(text: str) -> str:
    """A text as it was before the browser sent it: with line feeds."""
    return text.replace("\r\n", "\n")
