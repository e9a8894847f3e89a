"""Figures of a hub for Prometheus, and whether all is well with it, for whoever watches.

It is served on this machine's loopback, where agents' commands are too: so there is nothing in it that an agent may not
know. No command, no request, no person and no secret is in a label, and every label has few values.
"""

import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from humanlayer_agent.audit import events
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.extras import lacks
from humanlayer_agent.hub.lease import awake_or_asleep
from humanlayer_agent.safe_text import one_line

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from humanlayer_agent.hub.hub import Hub
    from humanlayer_agent.store.sqlite import SQLStore

RULES = 100
"""So many rules are counted by name; the denials of others are counted together."""

BOUNDS = (5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0)
"""Seconds to an answer, up to which each bucket counts."""

FRESH = 1.0
"""Seconds for which figures are told again: a scrape costs a look at the store, and anybody here may ask."""

AT_ONCE = 8
"""So many callers are answered at the same time; others are turned away."""

SILENT = 5.0
"""Seconds that a caller may take for its request, and to take the answer."""

OTHER = "other"
_RULE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,63}")
_ANSWERED = frozenset(
    event.name
    for event in (
        events.REQUEST_APPROVED,
        events.REQUEST_REJECTED,
        events.REQUEST_ANSWERED,
        events.REQUEST_SUPERSEDED,
        events.REQUEST_TERMINATED,
    )
)
_HOLDERS = ("this", "another", "nobody")
_LONGEST = 300


class Figures:
    """Counts what the log tells since this process began, and asks the store for what is so now.

    Args:
        store: the hub's own.
        hub: the hub.
        channels: the names that labels may have.
    """

    def __init__(self, store: "SQLStore", hub: "Hub", channels: Sequence[str]) -> None:
        self._store = store
        self._hub = hub
        self._channels = tuple(channels)
        self._lock = threading.Lock()
        self._denials: Counter[str] = Counter()
        self._failures: Counter[str] = Counter()
        self._answers = [0] * (len(BOUNDS) + 1)
        self._waited = 0.0
        self._glass = 0
        self._seen = next((entry.seq for entry in store.events(last=1)), -1)

    def collect(self) -> "Iterator[Metric]":
        """Return the figures; Prometheus's own library calls this, and writes them down.

        Raises:
            StoreError: the store can't be read.
        """
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        with self._lock:
            self._listen()
            waiting = self._store.requests(state="pending")
            oldest = max(((self._store.now() - each.created) / 1000 for each in waiting), default=0.0)
            yield GaugeMetricFamily("humanlayer_requests_waiting", "Requests that wait for a human.", len(waiting))
            yield GaugeMetricFamily(
                "humanlayer_oldest_request_seconds", "How long the oldest of them waits.", max(oldest, 0.0)
            )
            answered = HistogramMetricFamily("humanlayer_answer_seconds", "From a request to the answer of a human.")
            answered.add_metric([], self._buckets(), self._waited)
            yield answered
            failures = CounterMetricFamily(
                "humanlayer_delivery_failures", "What a channel could not show.", labels=["channel"]
            )
            denials = CounterMetricFamily("humanlayer_denials", "Actions that a rule denied.", labels=["rule"])
            for name in (*self._channels, OTHER):
                failures.add_metric([name], self._failures[name])
            for name, count in sorted(self._denials.items()):
                denials.add_metric([name], count)
            yield failures
            yield denials
            yield CounterMetricFamily(
                "humanlayer_break_glass", "Signatures of people who acted outside of a route.", self._glass
            )
            yield from self._held()
            yield GaugeMetricFamily(
                "humanlayer_stopped", "1 where every agent is stopped.", float(bool(self._hub.stopped()))
            )

    def _held(self) -> "Iterator[Metric]":
        from prometheus_client.core import GaugeMetricFamily

        held = GaugeMetricFamily(
            "humanlayer_lease",
            "1 for who serves a channel: this process, another, nobody.",
            labels=["channel", "holder"],
        )
        well = GaugeMetricFamily("humanlayer_channel_up", "1 where a channel works.", labels=["channel"])
        health = self._hub.last_health()
        for name in self._channels:
            holder = self._holder(name)
            for each in _HOLDERS:
                held.add_metric([name, each], float(each == holder))
            well.add_metric([name], float(name in health and health[name].ok))
        yield held
        yield well

    def _holder(self, channel: str) -> str:
        if channel in self._hub.serving:
            return "this"
        return "another" if self._store.surfaces.lease(channel) else "nobody"

    def _buckets(self) -> list[tuple[str, float]]:
        found, total = [], 0
        for bound, count in zip((*BOUNDS, float("inf")), self._answers, strict=True):
            total += count
            found.append(("+Inf" if bound == float("inf") else repr(bound), float(total)))
        return found

    def _listen(self) -> None:
        """Count the events that came since it was asked last. One that can't be read counts nowhere."""
        for entry in self._store.events(after=self._seen):
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                self._count(entry.event)
            self._seen = entry.seq

    def _count(self, event: dict[str, Any]) -> None:
        kind = event["type"]
        if kind == events.DECISION_EVALUATED.name and event.get("verdict") == "deny":
            self._denials[self._rule(event.get("rule"))] += 1
        elif kind in (events.PRESENTATION_FAILED.name, events.CHANNEL_FAILED.name):
            name = event.get("channel")
            self._failures[name if name in self._channels else OTHER] += 1
        elif kind == events.GLASS_BROKEN.name:
            self._glass += 1
        elif kind in _ANSWERED and type(event.get("asked")) is int:
            seconds = max(0.0, (event["at"] - event["asked"]) / 1000)
            self._waited += seconds
            self._answers[sum(seconds > bound for bound in BOUNDS)] += 1

    def _rule(self, name: Any) -> str:
        """Return the label for a rule: what is no plain name, or one too many, is any other."""
        if not isinstance(name, str) or not name:
            return "default"
        known = name in self._denials or len(self._denials) < RULES
        return name if known and _RULE.fullmatch(name) else OTHER


class Watch:
    """Serves `/metrics` and `/healthz` on loopback, on threads of its own.

    Args:
        store, hub, channels: see `Figures`.
        port: 0 takes one that is free.

    Raises:
        ConfigError: the port can't be had, or what the figures are written with is not installed.

    Example::

            with hub, Watch(store, hub, ["slack"], 9187) as watch:
                print(watch.url)
    """

    def __init__(self, store: "SQLStore", hub: "Hub", channels: Sequence[str], port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ImportError as error:
            raise ConfigError(lacks("--metrics", "metrics", error)) from None
        self._store = store
        self._hub = hub
        self._figures = Figures(store, hub, channels)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_NoDescription(self._figures))
        self._metrics, self._health = _Kept(self._written), _Kept(self._looked)
        try:
            self._server = _Server(("127.0.0.1", port), self._answer)
        except (OSError, OverflowError) as error:
            why = f"{getattr(error, 'strerror', None) or error}: name another port (0: any that is free)"
            raise ConfigError(f"--metrics {port}: can't be served at 127.0.0.1: {why}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="hub-metrics", daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(SILENT)

    def _answer(self, path: str) -> tuple[int, str, str]:
        """Return the status, the kind and the text for a path."""
        if path == "/metrics":
            return self._metrics()
        if path == "/healthz":
            return self._health()
        return 404, "text/plain", "there are /metrics and /healthz\n"

    def _written(self) -> tuple[int, str, str]:
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        try:
            return 200, CONTENT_TYPE_LATEST, generate_latest(self._registry).decode()
        except StoreError:
            return 503, "text/plain", "the store does not answer\n"

    def _looked(self) -> tuple[int, str, str]:
        problems = self._problems()
        return (503 if problems else 200), "text/plain", "".join(f"{line}\n" for line in problems or ["ok"])

    def _problems(self) -> list[str]:
        """Return what is wrong, in lines without secrets."""
        try:
            redactor = self._store.redactor()
            self._store.now()
            if degraded := self._store.degraded:
                return [f"the log can't be written since {degraded.since}"]
        except StoreError:
            return ["the store does not answer"]
        found = []
        for name, health in self._hub.last_health().items():
            why = "; ".join(health.problems) or "it does not work"
            if not health.ok:
                found.append(f"{name}: {one_line(redactor.text(why).text)[:_LONGEST]}")
        return found


class _NoDescription:
    """Registers figures without having them told once before anybody asks."""

    def __init__(self, figures: Figures) -> None:
        self.collect = figures.collect

    def describe(self) -> "list[Metric]":
        return []


class _Kept:
    """What a function has returned, for a moment; callers who come together wait for the same."""

    def __init__(self, make: Callable[[], tuple[int, str, str]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._until = float("-inf")
        self._found = (503, "text/plain", "")

    def __call__(self) -> tuple[int, str, str]:
        with self._lock:
            if awake_or_asleep() >= self._until:
                self._found = self._make()
                self._until = awake_or_asleep() + FRESH
            return self._found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def __init__(self, place: tuple[str, int], answer: Callable[[str], tuple[int, str, str]]) -> None:
        self.answer = answer
        self._free = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(place, _Handler)
        self.hosts = {f"{name}:{self.server_port}" for name in ("127.0.0.1", "localhost")}

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)  # too many: whoever is there comes again
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        # One that sends a byte now and then would keep its place for ever: a time for the whole.
        end = threading.Timer(SILENT, lambda: _cut(request))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Whoever is gone is no news."""


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.0"
    timeout = SILENT
    server_version, sys_version = "humanlayer-agent", ""

    def do_GET(self) -> None:
        self._say(body=True)

    def do_HEAD(self) -> None:
        self._say(body=False)

    def _say(self, *, body: bool) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or hosts[0].strip().lower() not in self.server.hosts:  # a page under a name that leads here
            status, kind, text = 421, "text/plain", "this is served to this machine only, by the name localhost\n"
        else:
            status, kind, text = self.server.answer(self.path)
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind if "charset" in kind else f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody reads it."""
