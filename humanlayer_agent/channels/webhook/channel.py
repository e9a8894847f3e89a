"""The webhook channel: it tells of requests by signed events, and hears nothing back.

It is sent to the one address that the user's or the machine's own file names, over TLS, and to no other: no redirect is
followed. What the other end can't take now is sent again by the hub, as the same event, until the request is over.
"""

import http.client
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from humanlayer_agent.approvals.authority import Person
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.channels.contract import Audience, Can, Desk, Health, Outcome, Ref, Retry, Undeliverable
from humanlayer_agent.channels.webhook import event
from humanlayer_agent.channels.webhook.signature import Secrets
from humanlayer_agent.safe_text import one_line

TIMEOUT = 15.0
"""Seconds that the other end may take; the specification proposes 15 to 30."""
LONGEST_WAIT = 3_600.0
"""Seconds that it may ask for at most before it is sent again."""
_LATER = frozenset({408, 425, 429})
"""Of the answers 4xx, those that are for now."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


class WebhookChannel:
    """A channel of type `webhook`.

    Args:
        name: of the channel.
        url: where events go.
        secrets: they are signed with.
        inbox: the address of the inbox that answers are given in.
        ca: a file with the certificate authority of the other end, where the system does not know it.
        pace: seconds between two events.
        clock: ms since the epoch.
    """

    can: frozenset[Can] = frozenset()
    shows = event.SHOWN

    def __init__(
        self,
        name: str,
        url: str,
        secrets: Secrets,
        inbox: str,
        *,
        ca: str | None = None,
        pace: float = 0.0,
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.name = name
        self.pace = pace
        self._url = url
        self._host = urlsplit(url).netloc  # the rest of an address may be a secret
        self._secrets = secrets
        self._inbox = inbox
        self._ca = ca
        self._clock = clock
        self._source = f"urn:humanlayer-agent:{quote(name)}"
        self._desk: Desk | None = None
        self._lock = threading.Lock()
        self._problem = ""
        self._opener: urllib.request.OpenerDirector | None = None

    def start(self, desk: Desk) -> None:
        """Remember whom to ask about votes. Nothing comes in by it."""
        self._desk = desk

    def deliver(self, request: ApprovalRequest, audience: Audience) -> Ref:
        """Tell of a request."""
        told = [person.id for person in audience.people]
        found = self._desk.outcome(request.id) if self._desk else None
        outcome = found or Outcome(request, missing=request.needed)
        self._send("asked", outcome, told, str(audience.step))
        # Nothing can be answered there, so nothing is approved by what it shows.
        return Ref({"event": event.event_id("asked", outcome, str(audience.step)), "told": told}, request.digest, False)

    def settle(self, outcome: Outcome, ref: Ref) -> None:
        """Tell what has become of it."""
        kind: event.Kind = "changed" if outcome.request.state == "pending" else "settled"
        self._send(kind, outcome, _told(ref), outcome.mark)

    def remind(self, outcome: Outcome, ref: Ref, level: int) -> None:
        """Tell once more that it waits."""
        if outcome.request.state == "pending":
            self._send("reminded", outcome, _told(ref), str(level))

    def tell(self, outcome: Outcome, ref: Ref, lines: Sequence[str], head: str) -> None:
        """Tell how it went, once all is over."""
        self._send("told", outcome, _told(ref), "", {"story": list(lines), "head": head})

    def warn(self, text: str, people: Sequence[Person]) -> None:
        """Tell that somebody acted outside of a route."""
        at, told = self._clock(), [person.id for person in people]
        id_, body = event.warning(text, source=self._source, link=self._inbox, told=told, at=at)
        self._transmit(id_, at, body)

    def health(self) -> Health:
        """Return whether the last event was taken. (To try it costs the other end an event.)"""
        with self._lock:
            problem = self._problem
        return Health(not problem, (problem,) if problem else (), {"host": self._host, "inbox": self._inbox})

    def close(self, timeout: float = 2.0) -> None:
        """Nothing is left open."""

    def _send(
        self,
        kind: event.Kind,
        outcome: Outcome,
        told: list[str],
        number: str,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        at = self._clock()
        link = f"{self._inbox}/r/{outcome.request.id}"
        body = event.event(kind, outcome, number=number, source=self._source, link=link, told=told, at=at, more=more)
        self._transmit(event.event_id(kind, outcome, number), at, body)

    def _transmit(self, event_id: str, at: int, body: bytes) -> None:
        try:
            self._post(event_id, at // 1000, body)
        except (Retry, Undeliverable) as error:
            with self._lock:
                self._problem = str(error)
            raise
        with self._lock:
            self._problem = ""

    def _post(self, event_id: str, at: int, body: bytes) -> None:
        headers = {
            "Content-Type": event.MEDIA_TYPE,
            "User-Agent": "humanlayer-agent",
            **self._secrets.headers(event_id, at, body),
        }
        request = urllib.request.Request(self._url, body, headers, method="POST")
        try:
            with self._opened().open(request, timeout=TIMEOUT) as response:
                status = response.status
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error.code, error.headers.get("Retry-After", "")) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                why = f"{self._host}: its certificate is not to be trusted: {reason.verify_message}"
                raise Undeliverable(why) from None
            raise Retry(f"{self._host} can't be reached: {one_line(str(reason))[:200]}") from None
        if not 200 <= status < 300:
            raise self._refused(status, "")

    def _opened(self) -> urllib.request.OpenerDirector:
        if self._opener is None:
            try:
                trust = ssl.create_default_context(cafile=self._ca)
            except (OSError, ssl.SSLError) as error:
                raise Undeliverable(f"ca {self._ca}: {error}") from error
            handlers: list[Any] = [_NoRedirects(), urllib.request.HTTPSHandler(context=trust)]
            if self._url.startswith("http:"):
                handlers.append(urllib.request.ProxyHandler({}))  # this machine's own
            self._opener = urllib.request.build_opener(*handlers)
        return self._opener

    def _refused(self, status: int, after: str) -> Retry | Undeliverable:
        if status >= 500 or status in _LATER:
            seconds = float(after) if after.isascii() and after.isdigit() and len(after) < 7 else None
            return Retry(f"{self._host} answers {status}", min(seconds, LONGEST_WAIT) if seconds else None)
        if 300 <= status < 400:
            return Undeliverable(f"{self._host} answers {status}: no redirect is followed, so give the address itself")
        if status == 410:
            return Undeliverable(f"{self._host} answers 410: it wants no more events, so take the channel out")
        return Undeliverable(f"{self._host} does not take it: it answers {status}")


def _told(ref: Ref) -> list[str]:
    return [each for each in ref.where.get("told") or () if isinstance(each, str)]
