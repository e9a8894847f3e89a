"""What a hub tells whoever watches it: read by Prometheus's own parser; and what it tells nobody."""

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.model import Approver
from humanlayer_agent.audit import events
from humanlayer_agent.channels.contract import Health
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.hub import channel_service, metrics
from humanlayer_agent.hub.hub import Hub
from humanlayer_agent.hub.metrics import AT_ONCE, OTHER, RULES, Watch
from humanlayer_agent.keys.signing import process_signer
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.testing.approvers import POLICY_DIGEST, ScriptedApprovers, answer
from humanlayer_agent.testing.patience import until
from humanlayer_agent.testing.scripted_channel import ScriptedChannel
from tests.hub.conftest import ALICE, team

SECRET = "xoxb-1234567890-abcdefghij"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told again, and health is looked at all the time."""
    monkeypatch.setattr(metrics, "FRESH", 0.0)
    monkeypatch.setattr(channel_service, "WATCHED", 0.0)


@pytest.fixture
def watch(serve: Callable[..., Hub], store: Any) -> Iterator[Watch]:
    with watched(serve(watched=True), store) as made:
        yield made


@contextmanager
def watched(hub: Hub, store: Any) -> Iterator[Watch]:
    with Watch(store, hub, hub.channels, 0) as made:
        yield made


def get(watch: Watch, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    host = watch.url.removeprefix("http://")
    with closing(http.client.HTTPConnection(host, timeout=60)) as connection:
        connection.request(method, path, headers={"Host": host} | headers)
        response = connection.getresponse()
        return response.status, response.read().decode()


def figures(watch: Watch) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    status, text = get(watch, "/metrics")
    assert status == 200, text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    found = {(each.name, tuple(sorted(each.labels.items()))): each.value for each in samples}
    assert len(found) == len(samples), "each series once"
    return found


def of(watch: Watch, name: str, **labels: str) -> float:
    return figures(watch)[f"humanlayer_{name}", tuple(sorted(labels.items()))]


def deny(store: Any, rule: str) -> None:
    action = Action("rm -rf /secret-place", cwd="/srv/app", project="/srv/app", run_id="run-1", agent="agent")
    decision = PolicyDecision(Verdict.DENY, "no", "test", POLICY_DIGEST, rules=(rule,))
    store.record_decision(action, decision, action.digest(POLICY_DIGEST))


def test_what_waits_and_how_long_an_answer_takes(watch: Watch, store: Any, ask: Any) -> None:
    assert (of(watch, "requests_waiting"), of(watch, "oldest_request_seconds")) == (0, 0)
    request, _ = ask(age=20_000), ask("make other", age=5_000)
    assert of(watch, "requests_waiting") == 2
    assert 20 <= of(watch, "oldest_request_seconds") < 600
    given = answer(request, "approve", approver=Approver(ALICE, "elsewhere", "terminal"))
    ScriptedApprovers(team(), process_signer()).decide(store, request.id, given)
    assert of(watch, "requests_waiting") == 1
    assert of(watch, "answer_seconds_bucket", le="15.0") == 0
    assert of(watch, "answer_seconds_bucket", le="+Inf") == of(watch, "answer_seconds_count") == 1
    assert of(watch, "answer_seconds_sum") >= 20


def test_denials_by_rule_are_few_series_whatever_rules_are_called(watch: Watch, store: Any) -> None:
    deny(store, "outside")
    deny(store, "outside")
    for name in ('x"} 1\nevil 2', "a b", "ünï", "x" * 65):
        deny(store, name)
    assert of(watch, "denials_total", rule="outside") == 2
    assert of(watch, "denials_total", rule=OTHER) == 4
    for number in range(RULES + 20):
        store.record(events.DECISION_EVALUATED, verdict="deny", rule=f"made-{number}")
    series = [labels for name, labels in figures(watch) if name == "humanlayer_denials_total"]
    assert len(series) <= RULES + 1
    assert of(watch, "denials_total", rule=OTHER) > 4


def test_leases_and_failures_by_channel(watch: Watch, store: Any) -> None:
    until(lambda: of(watch, "lease", channel="board", holder="this") == 1, "the lease")
    assert (
        of(watch, "lease", channel="board", holder="another")
        == of(watch, "lease", channel="board", holder="nobody")
        == 0
    )
    until(lambda: of(watch, "channel_up", channel="board") == 1, "that it works")
    store.record(events.CHANNEL_FAILED, channel="board", why=SECRET)
    store.record(events.CHANNEL_FAILED, channel="made up", why="x")
    assert (
        of(watch, "delivery_failures_total", channel="board"),
        of(watch, "delivery_failures_total", channel=OTHER),
    ) == (1, 1)
    store.halts.stop("os:1:alice")
    assert of(watch, "stopped") == 1


def test_another_hub_on_the_store(serve: Callable[..., Hub], watch: Watch, store: Any) -> None:
    until(lambda: of(watch, "lease", channel="board", holder="this") == 1, "the lease")
    with watched(serve(watched=True), store) as second:
        assert of(second, "lease", channel="board", holder="another") == 1
        until(lambda: get(second, "/healthz")[0] == 200, "what another one serves is well")


def test_healthy_is_200_and_else_503_with_reasons(serve: Callable[..., Hub], store: Any, board: Any) -> None:
    state = [Health(True)]

    class Ailing(ScriptedChannel):
        def health(self) -> Health:
            return state[0]

    with watched(serve(watched=True, build=lambda name: Ailing(board, name)), store) as watch:
        until(lambda: get(watch, "/healthz") == (200, "ok\n"), "that all is well")
        state[0] = Health(False, (f"the token {SECRET} is revoked\nmake a new one",))
        until(lambda: get(watch, "/healthz")[0] == 503, "that it is seen")
        status, text = get(watch, "/healthz")
        assert (status, text.count("\n")) == (503, 1)
        assert text.startswith("board: the token ")
        assert SECRET not in text


def test_a_store_that_does_not_answer(watch: Watch, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any, **__: Any) -> Any:
        raise StoreError("it is at postgresql://me:hunter22@db/x, and does not answer")

    for name in ("redactor", "events"):
        monkeypatch.setattr(store, name, gone)
    assert get(watch, "/healthz") == (503, "the store does not answer\n")
    assert get(watch, "/metrics") == (503, "the store does not answer\n")


def test_nothing_of_requests_and_people_is_told(watch: Watch, store: Any, ask: Any) -> None:
    request = ask(f"curl -H 'Authorization: Bearer {SECRET}' http://x")
    deny(store, "outside")
    text = get(watch, "/metrics")[1] + get(watch, "/healthz")[1]
    for hidden in (SECRET, "curl", "/secret-place", request.id, "alice", "starter", "/srv/app", str(store.path)):
        assert hidden not in text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "localhost:{port}x"]
)
def test_a_page_under_another_name_reads_nothing(watch: Watch, host: str) -> None:
    """DNS rebinding: a browser on this machine is led here by a name of its own."""
    port = watch.url.rpartition(":")[2]
    for path in ("/metrics", "/healthz"):
        status, text = get(watch, path, Host=host.format(port=port))
        assert (status, "humanlayer_" in text) == (421, False)
    assert get(watch, "/metrics", Host=f"LOCALHOST:{port}")[0] == 200


def test_no_host_two_hosts_and_other_methods(watch: Watch) -> None:
    port = int(watch.url.rpartition(":")[2])
    for sent, wanted in (
        ("GET /metrics HTTP/1.0\r\n\r\n", b" 421 "),
        (f"GET /metrics HTTP/1.1\r\nHost: localhost:{port}\r\nHost: evil\r\n\r\n", b" 421 "),
        (f"POST /metrics HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n", b" 501 "),
        (f"GET http://evil/metrics HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n", b" 404 "),
    ):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(sent.encode())
            assert wanted in connection.recv(200).split(b"\r\n")[0]
    assert get(watch, "/metrics", "HEAD") == (200, "")
    assert get(watch, "/")[0] == 404


def test_who_is_silent_keeps_nobody_out(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers who send nothing hold their places only for a while; the hub goes on meanwhile."""
    monkeypatch.setattr(metrics, "SILENT", 0.2)
    port = int(watch.url.rpartition(":")[2])
    before = threading.active_count()
    silent = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(AT_ONCE * 5)]
    assert threading.active_count() <= before + 2 * AT_ONCE

    def answers() -> bool:
        try:
            return get(watch, "/healthz")[0] in (200, 503)
        except OSError:
            return False

    until(answers, "that their time is over")
    for each in silent:
        each.close()


def test_only_loopback_and_a_port_that_is_taken(watch: Watch, store: Any, serve: Callable[..., Hub]) -> None:
    assert watch.url.startswith("http://127.0.0.1:")
    taken = int(watch.url.rpartition(":")[2])
    for port in (taken, 70_000):
        with pytest.raises(ConfigError, match=r"can't be served at 127\.0\.0\.1: .*name another port"):
            Watch(store, serve(), ["board"], port)


def test_it_counts_from_its_beginning(store: Any, serve: Callable[..., Hub], ask: Any) -> None:
    deny(store, "before")
    with watched(serve(), store) as watch:
        assert ("humanlayer_denials_total", (("rule", "before"),)) not in figures(watch)
