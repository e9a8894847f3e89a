"""Spans of OpenTelemetry for what is decided, waited for and run: off, unless `HUMANLAYER_TRACES` says otherwise.

Nothing here decides anything: what goes wrong with a span changes nothing. A program that has set up OpenTelemetry gets
the spans where its others go; in any other, the usual variables say where to (`OTEL_EXPORTER_OTLP_ENDPOINT`).
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks

TRACES_VARIABLE = "HUMANLAYER_TRACES"
"""`on`, or `commands` for the text of commands too, as the log has it: without its secrets."""

NAME = "humanlayer_agent"
DECISION, WAIT, EXECUTION = "humanlayer.decision", "humanlayer.wait", "humanlayer.execution"
_KINDS = ("", "off", "on", "commands")
_PATIENCE_S = 2
_OPEN = 1_000
"""So many executions may have a span that goes on; what ends of others has none."""


class Spans:
    """The spans of one run.

    Args:
        run: its id.
        shown: makes of a command what may be told of it.
        wanted: what `HUMANLAYER_TRACES` says.

    Raises:
        ConfigError: it says something else, or what it takes is not installed.

    Example:
        >>> with Spans("run-1", str, wanted="off").of("humanlayer.decision") as span:
        ...     span(verdict="allow")
    """

    def __init__(self, run: str, shown: Callable[[str], str], *, wanted: str | None = None) -> None:
        said = (os.environ.get(TRACES_VARIABLE, "") if wanted is None else wanted).strip().lower()
        if said not in _KINDS:
            raise ConfigError(f"{TRACES_VARIABLE}={said}: expected on, commands or off")
        self._run = run
        self._shown = shown if said == "commands" else None
        self._tracer = _tracer() if said in ("on", "commands") else None
        self._running: dict[str, Any] = {}
        self._decided: OrderedDict[str, Any] = OrderedDict()
        self._here = threading.local()

    @contextmanager
    def of(self, name: str, command: str = "", about: str = "", **fields: Any) -> "Iterator[Callable[..., None]]":
        """Have a span of what is done meanwhile; what is called with fields adds them to it.

        Args:
            about: the digest of an action: its decision is the parent.
        """
        span = self._begun(name, command, about, fields)

        def add(**more: Any) -> None:
            _set(span, more)

        try:
            yield add
        except Exception:
            _set(span, {"failed": True})
            raise
        finally:
            _end(span)

    def decided(self, digest: str) -> None:
        """Note that the last decision on this thread was on the action with this digest."""
        if self._tracer is not None and (span := getattr(self._here, "span", None)) is not None:
            self._decided[digest] = span
            while len(self._decided) > _OPEN:
                self._decided.popitem(last=False)

    def begin(self, permit: str, command: str, about: str, **fields: Any) -> None:
        """Begin the span of an execution, which `end` ends."""
        if self._tracer is not None and len(self._running) < _OPEN:
            self._running[permit] = self._begun(EXECUTION, command, about, {"permit": permit, **fields})

    def end(self, permit: str, **fields: Any) -> None:
        """End the span of an execution; where there is none, nothing is done."""
        span = self._running.pop(permit, None)
        _set(span, fields)
        _end(span)

    def close(self) -> None:
        """End what nobody has ended."""
        for permit in list(self._running):
            self.end(permit, unknown=True)

    def _begun(self, name: str, command: str, about: str, fields: dict[str, Any]) -> Any:
        if self._tracer is None:
            return None
        with suppress(Exception):
            from opentelemetry.trace import set_span_in_context

            parent = self._decided.get(about)
            span = self._tracer.start_span(name, context=set_span_in_context(parent) if parent else None)
            if name == DECISION:
                self._here.span = span
            if command and self._shown is not None:
                fields = {**fields, "command": self._shown(command)}
            _set(span, {"run": self._run, **fields})
            return span
        return None


def _set(span: Any, fields: dict[str, Any]) -> None:
    if span is None:
        return
    with suppress(Exception):
        for name, value in fields.items():
            if value not in (None, ""):
                span.set_attribute(f"humanlayer.{name}", value if isinstance(value, bool | int | float) else str(value))


def _end(span: Any) -> None:
    if span is not None:
        with suppress(Exception):
            span.end()


def _tracer() -> Any:
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise ConfigError(lacks(TRACES_VARIABLE, "otel", error)) from None
    if not _is_set_up(trace.get_tracer_provider()):
        _set_up()
    return trace.get_tracer(NAME)


def _is_set_up(provider: Any) -> bool:
    """Tell whether the program has said where its spans go."""
    return type(provider).__module__.partition(".")[0] != "opentelemetry" or hasattr(provider, "add_span_processor")


@cache
def _set_up() -> None:
    """Send spans where the variables of OpenTelemetry say, from a thread of its own."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(lacks(TRACES_VARIABLE, "otel", error)) from None
    provider = TracerProvider(resource=Resource.create({"service.name": "humanlayer-agent"}))
    # A receiver that is not there must not keep a command from ending for long.
    exporter = OTLPSpanExporter(timeout=_PATIENCE_S)
    provider.add_span_processor(BatchSpanProcessor(exporter, export_timeout_millis=_PATIENCE_S * 1000))
    trace.set_tracer_provider(provider)
