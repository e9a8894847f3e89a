"""Requests as pages. What is shown of a request comes from `presentation.present`; templates escape everything."""

import hashlib
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from humanlayer_agent.approvals.model import ApprovalRequest, person
from humanlayer_agent.channels.contract import Outcome
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.channels.web.request_checks import SCRIPTED
from humanlayer_agent.safe_text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jinja2 import Environment

SUMMARY = 200
"""Characters of a command in the list."""

STATES = {
    "pending": "Waiting",
    "approved": "Approved",
    "rejected": "Rejected",
    "answered": "Answered in words",
    "expired": "Expired: denied",
    "withdrawn": "Withdrawn",
    "abandoned": "Closed: its agent is gone",
    "superseded": "Edited",
    "terminated": "Run stopped",
    "revoked": "Approval taken back",
    "lapsed": "Approved, not used in time",
    "invalidated": "Approved, and something else was about to run",
}


class Pages:
    """Renders pages below the path `base`; their links lead to what is below `home`."""

    def __init__(self, base: str, home: str | None = None) -> None:
        self._base = base
        self._home = base if home is None else home

    def at(self, home: str) -> "Pages":
        """The same, for somebody whose pages are below another path."""
        return Pages(self._base, home)

    def login(self, offered: bool, *, said: str = "") -> Response:
        """The login; `offered` says that there is a terminal where the code stands, `said` what was wrong."""
        return self._page("login.html", 403 if said else 200, offered=offered, said=said)

    def inbox(
        self,
        waiting: "Sequence[ApprovalRequest]",
        here: "Collection[str]",
        decided: "Sequence[tuple[ApprovalRequest, str]]",
        who: str,
        stopped: str = "",
    ) -> Response:
        """Return the page of what waits, and of what was decided lately and by whom. `here` are those that can be
        answered on these pages.

        `stopped` says that every agent is stopped, where that is so.
        """
        rows = [_row(request) | {"here": request.id in here} for request in waiting]
        return self._page(
            "inbox.html",
            waiting=rows,
            decided=[_row(request) | {"by": one_line(by)} for request, by in decided],
            who=who,
            stopped=one_line(stopped),
            headers=SCRIPTED,
        )

    def request(
        self,
        outcome: Outcome,
        *,
        token: str,
        code: bool,
        said: str,
        open: bool,
        elsewhere: bool,
        waiting: "Sequence[str]",
        back: bool,
        status: int,
    ) -> Response:
        """One request in full, with forms where `token` is not "".

        Args:
            open: it can be answered here. waiting: ids of all that wait, for who has logged in (`back`).
        """
        request = outcome.request
        command = request.action.content
        return self._page(
            "request.html",
            status,
            view=present(request),
            row=_row(request),
            request=request,
            token=token,
            code=code,
            said=said,
            open=open,
            waiting=waiting,
            elsewhere=elsewhere,
            back=back,
            missing=outcome.missing,
            by=one_line(outcome.by),
            comment=visible(request.comment),
            edited=visible(request.edited),
            editable=command if visible(command) == command else "",  # a text field can't hold everything
            further=_further(request),
            answers=[
                {"by": one_line(person(vote.approver.principal)), "kind": vote.answer, "at": _utc(vote.at)}
                for vote in outcome.votes
            ],
            headers=SCRIPTED if back else None,
        )

    def message(self, title: str, words: str, status: int) -> Response:
        """A page that only says something."""
        return self._page("message.html", status, title=title, words=one_line(words))

    def style(self) -> Response:
        return Response(_file("style.css"), media_type="text/css")

    def script(self) -> Response:
        return Response(_file("inbox.js"), media_type="text/javascript")

    def icon(self) -> Response:
        return Response(_file("icon.svg"), media_type="image/svg+xml")

    def _page(
        self, template: str, status: int = 200, headers: "Mapping[str, str] | None" = None, **values: Any
    ) -> Response:
        common = {
            "base": self._base,
            "home": self._home,
            "sheet": self._of("style.css"),
            "script": self._of("inbox.js"),
        }
        text = _environment().get_template(template).render(**common, **values)
        return HTMLResponse(text, status_code=status, headers=headers)

    def _of(self, name: str) -> str:
        """The address of a file that browsers keep: another one where the file is another."""
        return f"{self._base}/{name}?{hashlib.sha256(_file(name).encode()).hexdigest()[:12]}"


def _row(request: ApprovalRequest) -> dict[str, Any]:
    lines = filter(None, (line.strip() for line in request.action.content[: 4 * SUMMARY].split("\n")))
    first = " ".join(" ⏎ ".join(one_line(line) for line in lines).split())
    return {
        "id": request.id,
        "state": STATES.get(request.ending, request.state),
        "pending": request.state == "pending",
        "abandoned": request.abandoned,
        "command": first if len(first) <= SUMMARY else f"{first[:SUMMARY]} ...",
        "agent": one_line(request.action.agent) or "an agent",
        "reason": one_line(request.decision.reason),
        "severity": one_line(request.decision.severity),
        "asked": _utc(request.created),
        "asked_iso": _iso(request.created),
        "until": _utc(request.expires),
        "until_iso": _iso(request.expires),
        "left": left(request.expires - time.time_ns() // 1_000_000),
        "decided": _utc(request.decided) if request.decided else "",
    }


def _further(request: ApprovalRequest) -> bool:
    """Tell whether there are people who have not been asked yet."""
    if request.rule is None:
        return False
    elapsed = time.time_ns() // 1_000_000 - request.created
    return len(request.rule.due(elapsed, request.escalated)) < len(request.rule.steps)


def left(milliseconds: int) -> str:
    """Return a length of time for people.

    Example:
        >>> left(90_000), left(7_300_000), left(-1)
        ('1 min 30 s', '2 h 1 min', 'no time')
    """
    seconds = milliseconds // 1000
    if seconds <= 0:
        return "no time"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"{seconds} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


def _utc(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))


def _iso(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(milliseconds / 1000))


@cache
def _file(name: str) -> str:
    from humanlayer_agent.locations import data_file

    return data_file("channels/web", name).read_text()


@cache
def _environment() -> "Environment":
    from humanlayer_agent.channels.html_templates import html_templates
    from humanlayer_agent.locations import data_file

    return html_templates(data_file("channels/web", "page.html").parent)
