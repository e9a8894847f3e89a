"""Requests as pages. What is shown of a request comes from `presentation.present`; templates escape everything."""

import hashlib
import time
from functools import cache
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, Response

from humanlayer_agent.approvals.grants import in_words, read_scope
from humanlayer_agent.approvals.model import ApprovalRequest, person
from humanlayer_agent.channels.batches import differences, labels
from humanlayer_agent.channels.contract import Outcome
from humanlayer_agent.channels.offers import foresight, remembered
from humanlayer_agent.channels.presentation import RUN_SHOWN, present
from humanlayer_agent.channels.web.request_checks import SCRIPTED
from humanlayer_agent.safe_text import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from jinja2 import Environment

    from humanlayer_agent.approvals.grants import Grant, UsedFor
    from humanlayer_agent.channels.batches import Alike

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
        *,
        several: bool = False,
    ) -> Response:
        """Return the page of what waits, and of what was decided lately and by whom. `here` are those that can be
        answered on these pages, `several` says that some of them can be together.

        `stopped` says that every agent is stopped, where that is so.
        """
        rows = [_row(request) | {"here": request.id in here} for request in waiting]
        return self._page(
            "inbox.html",
            waiting=rows,
            several=several,
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
        earlier: "Sequence[ApprovalRequest]" = (),
        scopes: bool = False,
    ) -> Response:
        """One request in full, with forms where `token` is not "".

        Args:
            open: it can be answered here. waiting: ids of all that wait, for who has logged in (`back`).
            scopes: more than this once may be approved here; then `earlier` are the requests of before, with which
                that is compared.
        """
        request = outcome.request
        command = request.action.content
        view = present(request)
        return self._page(
            "request.html",
            status,
            view=view,
            offers=[(each, foresight(request, each.name, earlier)) for each in view.offers] if scopes else (),
            remembered=remembered(request, outcome.votes),
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
                {
                    "by": one_line(person(vote.approver.principal)),
                    "kind": vote.answer,
                    "at": _utc(vote.at),
                    "more": one_line(in_words((scope,))) if (scope := read_scope(vote.scope)) is not None else "",
                }
                for vote in outcome.votes
            ],
            headers=SCRIPTED if back else None,
        )

    def grants(
        self,
        grants: "Sequence[tuple[Grant, Sequence[UsedFor], str]]",
        name: "Callable[[str], str]",
        *,
        said: str,
        status: int,
    ) -> Response:
        """Return the page of what was approved for more than once, active ones first; with a form where it has a token.

        Args:
            name: of a person, by the principal.
        """
        now = time.time_ns() // 1_000_000
        rows = [_grant(grant, uses, token, name, now) for grant, uses, token in grants]
        active = [row for row in rows if row["state"] == "active"]
        return self._page(
            "grants.html", status, active=active, over=[row for row in rows if row not in active], said=said
        )

    def several(
        self,
        groups: "Sequence[Alike]",
        alone: "Sequence[tuple[ApprovalRequest, str]]",
        tokens: "Mapping[str, str]",
        *,
        said: "Sequence[str]",
        status: int,
    ) -> Response:
        """Return the page of several requests that wait, to be answered together; `alone` are those that can't be, each
        with why.
        """
        listed = [
            {
                "rule": group.rule,
                "severity": group.severity,
                "project": group.project,
                "reason": _common(one_line(each.decision.reason) for each in group.requests),
                "rows": [
                    _whole(each, tokens[each.id], label, span)
                    for each, label, span in zip(
                        group.requests, labels(group.requests), differences(group.requests), strict=True
                    )
                ],
            }
            for group in groups
        ]
        singles = [_row(request) | {"why": why} for request, why in alone]
        return self._page("several.html", status, groups=listed, alone=singles, said=said)

    def playground(
        self, command: str, policy: str, trial: "Mapping[str, str]", setting: "Mapping[str, str]", *, status: int
    ) -> Response:
        """Return the page on which a policy is tried.

        Args:
            command, policy: what was typed.
            trial: markup of what came of it, in parts (`policy_tools.trial`).
            setting: by what it was judged, for people to read.
        """
        from markupsafe import Markup

        return self._page(
            "playground.html",
            status,
            command=command,
            policy=policy,
            spelled=visible(policy) != policy,
            trial={name: Markup(markup) for name, markup in trial.items()},
            setting=setting,
            headers=SCRIPTED,
        )

    def message(self, title: str, words: str, status: int) -> Response:
        """A page that only says something."""
        return self._page("message.html", status, title=title, words=one_line(words))

    def style(self) -> Response:
        return Response(_file("style.css"), media_type="text/css")

    def script(self, name: str = "inbox.js") -> Response:
        return Response(_file(name), media_type="text/javascript")

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
            "playground_script": self._of("playground.js"),
        }
        text = _environment().get_template(template).render(**common, **values)
        return HTMLResponse(text, status_code=status, headers=headers)

    def _of(self, name: str) -> str:
        """The address of a file that browsers keep: another one where the file is another."""
        return f"{self._base}/{name}?{hashlib.sha256(_file(name).encode()).hexdigest()[:12]}"


def summary(request: ApprovalRequest) -> str:
    """Return the beginning of its command, on one line."""
    lines = filter(None, (line.strip() for line in request.action.content[: 4 * SUMMARY].split("\n")))
    first = " ".join(" ⏎ ".join(one_line(line) for line in lines).split())
    return first if len(first) <= SUMMARY else f"{first[:SUMMARY]} ..."


def _whole(request: ApprovalRequest, token: str, label: str, span: tuple[int, int]) -> dict[str, Any]:
    """A request in the list of several: all of its command, and what is different about it."""
    return _row(request) | {"view": present(request, marked=span), "label": label, "token": token}


def _common(reasons: "Iterable[str]") -> str:
    """The reason where all have the same; "" where each has its own."""
    said = set(reasons)
    return said.pop() if len(said) == 1 else ""


def _grant(
    grant: "Grant", uses: "Sequence[UsedFor]", token: str, name: "Callable[[str], str]", now: int
) -> dict[str, Any]:
    action = grant.request.action
    run = next((scope.run for scope in grant.scopes if scope.run), "")
    return {
        "id": grant.id,
        "token": token,
        "state": grant.state(now),
        "words": one_line(grant.words),
        "command": summary(grant.request),
        "by": " and ".join(map(one_line, grant.by)),
        "who": one_line(action.agent) or "any agent of " + one_line(name(grant.request.requester)),
        "run": one_line(run)[:RUN_SHOWN],
        "project": one_line(action.project),
        "given": _utc(grant.given),
        "until": _utc(grant.until),
        "until_iso": _iso(grant.until),
        "left": left(grant.until - now),
        "uses": [
            {
                "use": each.use,
                "at": _utc(each.at),
                "run": one_line(each.run)[:RUN_SHOWN],
                "command": one_line(each.command),
            }
            for each in uses
        ],
        "count": grant.uses,
        "most": grant.max_uses,
        "revoked": _utc(grant.revoked) if grant.revoked is not None else "",
        "revoked_by": one_line(name(grant.revoked_by)),
    }


def _row(request: ApprovalRequest) -> dict[str, Any]:
    return {
        "id": request.id,
        "state": STATES.get(request.ending, request.state),
        "pending": request.state == "pending",
        "abandoned": request.abandoned,
        "command": summary(request),
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
