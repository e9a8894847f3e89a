"""Spans as OpenTelemetry's own SDK gets them, and as a receiver of its protocol does; none unless they are asked for."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from humanlayer_agent.action import Action
from humanlayer_agent.approvals import spans as tracing
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.approvals.spans import DECISION, EXECUTION, TRACES_VARIABLE, WAIT
from humanlayer_agent.errors import ConfigError

SECRET = "hunter22-secret"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    """The program has set up OpenTelemetry: that can be done once in a process."""
    found = InMemorySpanExporter()
    if not tracing._is_set_up(trace.get_tracer_provider()):
        trace.set_tracer_provider(TracerProvider())
    provider: Any = trace.get_tracer_provider()
    provider.add_span_processor(SimpleSpanProcessor(found))
    return found


@pytest.fixture
def spans(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter.clear()
    monkeypatch.setenv(TRACES_VARIABLE, "on")
    return exporter


def told(exporter: InMemorySpanExporter) -> list[tuple[str, dict[str, Any]]]:
    return [
        (span.name, {name.removeprefix("humanlayer."): value for name, value in (span.attributes or {}).items()})
        for span in exporter.get_finished_spans()
    ]


def work(gate: Gate, act: Callable[..., Action], command: str) -> Permit | Denial:
    permit = gate.check(act(command))
    if isinstance(permit, Permit):
        assert gate.start(permit, permit.action) is None
        gate.finish(permit, Outcome(3))
    return permit


def test_decision_wait_and_execution_with_the_request(make_gate: Any, act: Any, spans: InMemorySpanExporter) -> None:
    with make_gate(["approve"]) as gate:
        permit = work(gate, act, f"ask mysql -p{SECRET}")
        assert isinstance(permit, Permit)
    (decision, wait, execution) = told(spans)
    assert decision[0] == DECISION
    assert (decision[1]["run"], decision[1]["verdict"]) == ("run-1", "ask")
    assert (wait[0], wait[1]["request"], wait[1]["approved"]) == (WAIT, permit.request_id, True)
    assert (execution[0], execution[1]["request"], execution[1]["exit_code"]) == (EXECUTION, permit.request_id, 3)
    assert execution[1]["permit"] == permit.id
    first, *others = spans.get_finished_spans()
    assert all(parent_of(each) == first.context.span_id for each in others if first.context)
    assert "mysql" not in repr(told(spans))
    assert SECRET not in repr(told(spans))


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def test_denied_and_refused(make_gate: Any, act: Any, spans: InMemorySpanExporter) -> None:
    with make_gate(["reject"]) as gate:
        assert isinstance(work(gate, act, "rm x"), Denial)
        assert isinstance(work(gate, act, "ask y"), Denial)
    names = [(name, fields.get("verdict", fields.get("approved"))) for name, fields in told(spans)]
    assert names == [(DECISION, "deny"), (DECISION, "ask"), (WAIT, False)]


def test_commands_only_where_they_are_asked_for_and_without_secrets(
    make_gate: Any, act: Any, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TRACES_VARIABLE, "commands")
    with make_gate(["approve"]) as gate:
        work(gate, act, f"ask mysql -p{SECRET}")
    assert all(fields["command"].startswith("ask mysql -p") for _, fields in told(spans))
    assert SECRET not in repr(told(spans))


@pytest.mark.parametrize("said", ["", "off", "OFF"])
def test_off_by_default(
    make_gate: Any, act: Any, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv(TRACES_VARIABLE, said)
    with make_gate([]) as gate:
        work(gate, act, "ls")
    assert told(spans) == []


def test_what_is_neither_on_nor_off(make_gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACES_VARIABLE, "yes please")
    with pytest.raises(ConfigError, match="expected on, commands or off"):
        make_gate([])


def test_without_the_extra(make_gate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACES_VARIABLE, "on")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match="needs the extra otel"):
        make_gate([])


def test_a_tracer_that_fails_decides_nothing(
    make_gate: Any, act: Any, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def start_span(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no")

    monkeypatch.setattr(tracing, "_tracer", Broken)
    with make_gate(["approve"]) as gate:
        assert isinstance(work(gate, act, "ask x"), Permit)
        assert isinstance(work(gate, act, "rm x"), Denial)


def test_an_execution_that_nobody_ends(make_gate: Any, act: Any, spans: InMemorySpanExporter) -> None:
    with make_gate([]) as gate:
        permit = gate.admit(act("ls"))
        assert isinstance(permit, Permit)
        assert permit.started
        assert [name for name, _ in told(spans)] == [DECISION]
    assert told(spans)[-1][1]["unknown"] is True


def test_a_receiver_of_the_protocol_gets_them_from_a_program_that_set_up_nothing() -> None:
    """As `hla exec` is: where to is said by OpenTelemetry's own variables."""
    got: list[bytes] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *arguments: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    said = {TRACES_VARIABLE: "on", "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
    command = [sys.executable, "-m", "humanlayer_agent.cli", "exec", "--", "echo", "hello"]
    try:
        done = subprocess.run(command, env={**os.environ, **said}, capture_output=True, text=True)
    finally:
        server.shutdown()
        server.server_close()
    assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
    received = [ExportTraceServiceRequest.FromString(each) for each in got]
    names = [
        span.name
        for each in received
        for resource in each.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert names == [DECISION, EXECUTION]
