"""A Gate on an event loop: nobody's waiting costs a thread, and what is given up is withdrawn."""

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent import ActionDenied, AsyncGate, Denial, Director, Gate, Permit, Waiting, require_approval
from humanlayer_agent.approvals import event_loop
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers, ScriptedAsker, answer
from humanlayer_agent.testing.patience import until
from tests.support import extent

pytestmark = pytest.mark.usefixtures("compiled")

ANN = Approver("app:ann", "application", "login")
PEOPLE = Authority(
    (Person("alice", ("os:1000:alice",)), Person("ann", ("app:ann",))),
    {"default": ApprovalRule("default", ("ann",), timeout_ms=600_000)},
)
TEAM = ScriptedApprovers(PEOPLE)
POLICY = """
version: 1
policy: tools
defaults: {unmatched: ask}
rules:
  - {id: free, decision: allow, when: {tool: {name: free}}}
  - {id: never, decision: deny, when: {tool: {name: never}}, reason: it is never called}
"""


@pytest.fixture
def director(tmp_path: Path) -> Director:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    return Director.load(policy, project=tmp_path)


def made(director: Director, tmp_path: Path, asker: Any = None, **fields: Any) -> AsyncGate:
    tmp_path.mkdir(exist_ok=True)
    given: dict[str, Any] = {"authority": PEOPLE, "requester": "os:1000:alice"} | fields
    return AsyncGate(Gate(director, SQLiteStore(tmp_path / "store.db"), asker, **given))


def run(main: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(main, 300))


def pending(store: Store, count: int) -> list[ApprovalRequest]:
    """Those that wait, once there are so many."""
    until(lambda: len(store.requests(state="pending")) == count, "so many wait")
    return store.requests(state="pending")


def kinds(gate: AsyncGate, family: str = "exec") -> list[str]:
    return [entry.event["type"] for entry in gate.gate.store.events(type=family)]


def test_what_the_policy_decides(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        async with made(director, tmp_path) as gate:
            assert isinstance(await gate.decide("free", {"a": 1}), Permit)
            denied = await gate.decide("never", {})
            assert isinstance(denied, Denial)
            assert "never called" in denied.reason
            assert isinstance(await gate.decide("free", {"a": float("nan")}), Denial)
            assert isinstance(await gate.decide("not a name", {}), Denial)

    run(main())


def test_a_call_is_recorded_with_its_end(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        async with made(director, tmp_path) as gate:
            async with gate.tool_call("free", {"a": 1}):
                assert kinds(gate) == ["exec.started"]
            with pytest.raises(ZeroDivisionError):
                async with gate.tool_call("free", {"a": 2}):
                    _ = 1 / 0
            with pytest.raises(ActionDenied):
                async with gate.tool_call("never", {}):
                    raise AssertionError("it ran")
            assert kinds(gate) == ["exec.started", "exec.finished"] * 2
            ends = [entry.event for entry in gate.gate.store.events(type="exec.finished")]
            assert [end.get("returncode") for end in ends] == [0, None]

    run(main())


def test_nobodys_waiting_costs_a_thread(director: Director, tmp_path: Path) -> None:
    many = 300 if extent.ALL else 60

    async def main() -> None:
        async with made(director, tmp_path) as gate:
            waiting = [asyncio.create_task(gate.decide("pay", {"n": number})) for number in range(many)]
            store = gate.gate.store
            requests = await asyncio.to_thread(pending, store, many)
            assert threading.active_count() < 45, "asyncio's own threads, and no more"
            for request in requests:
                await asyncio.to_thread(TEAM.vote, store, request, "approve", ANN)
            answers = await asyncio.gather(*waiting)
            permits = [each for each in answers if isinstance(each, Permit)]
            assert [each.action.arguments for each in permits] == [f'{{"n":{number}}}' for number in range(many)]

    run(main())


def test_the_one_in_the_middle_is_refused(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        async with made(director, tmp_path) as gate:
            tasks = [asyncio.create_task(gate.decide("pay", {"n": number})) for number in range(3)]
            for request in await asyncio.to_thread(pending, gate.gate.store, 3):
                kind: Any = "reject" if '"n":1' in request.action.arguments else "approve"
                await asyncio.to_thread(TEAM.vote, gate.gate.store, request, kind, ANN, "not that one")
            first, middle, last = await asyncio.gather(*tasks)
            assert isinstance(first, Permit)
            assert isinstance(last, Permit)
            assert isinstance(middle, Denial)
            assert middle.comment == "not that one"

    run(main())


def test_a_cancelled_call_is_withdrawn(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        async with made(director, tmp_path) as gate:
            task = asyncio.create_task(gate.decide("pay", {}))
            await asyncio.to_thread(pending, gate.gate.store, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [each.state for each in gate.gate.store.requests()] == ["withdrawn"]

    run(main())


def test_a_call_that_is_cancelled_just_when_it_begins_to_wait_for_others_is_withdrawn(
    director: Director, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with made(director, tmp_path) as gate:
            store, loop, cancelled = gate.gate.store, asyncio.get_running_loop(), threading.Event()
            is_news = store.is_news

            def cancel() -> None:
                task.cancel()
                cancelled.set()

            def cancel_first(request_id: str) -> bool:
                if not cancelled.is_set():
                    loop.call_soon_threadsafe(cancel)
                    assert cancelled.wait(60)
                return is_news(request_id)

            monkeypatch.setattr(store, "is_news", cancel_first)
            task = asyncio.create_task(gate.decide("pay", {}))
            with pytest.raises(asyncio.CancelledError):
                await task
            assert cancelled.is_set()
            assert [each.state for each in store.requests()] == ["withdrawn"]

    run(main())


def test_a_call_that_is_cancelled_while_it_runs_is_recorded(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        async with made(director, tmp_path) as gate:
            inside = asyncio.Event()

            async def calls() -> None:
                async with gate.tool_call("free", {}):
                    inside.set()
                    await asyncio.sleep(600)

            task = asyncio.create_task(calls())
            await inside.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert kinds(gate) == ["exec.started", "exec.finished"]

    run(main())


class Slow:
    """A human at the terminal of this process, who sees one question at a time and takes a while."""

    name = "slow"
    identities = ("app:ann",)

    def __init__(self) -> None:
        self.before: set[str] = set()
        self.most = 0
        self.gave_up = 0
        self.never = False

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Any) -> Answer | None:
        self.before.add(request.id)
        self.most = max(self.most, len(self.before))
        time.sleep(0.01)
        while self.never and not cancelled():
            time.sleep(0.01)
        self.before.discard(request.id)
        if self.never:
            self.gave_up += 1
            return None
        return answer(request, "approve", approver=replace(ANN, channel="slow", assurance="terminal"))


def test_the_human_here_sees_one_at_a_time(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        human = Slow()
        async with made(director, tmp_path, human) as gate:
            answers = await asyncio.gather(*(gate.decide("pay", {"n": number}) for number in range(8)))
            assert all(isinstance(each, Permit) for each in answers)
            assert human.most == 1

    run(main())


def test_the_human_here_is_let_go(director: Director, tmp_path: Path) -> None:
    """Who gives up while a human reads takes the question away; the next one gets the turn."""

    async def main() -> None:
        human = Slow()
        human.never = True
        async with made(director, tmp_path, human) as gate:
            task = asyncio.create_task(gate.decide("pay", {"n": 1}))
            await asyncio.to_thread(until, lambda: human.before, "it is read")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [each.state for each in gate.gate.store.requests()] == ["withdrawn"]
            await asyncio.to_thread(until, lambda: human.gave_up == 1, "the question is taken away")
            human.never = False
            assert isinstance(await gate.decide("pay", {"n": 2}), Permit)

    run(main())


class Deaf(Slow):
    """A human who reads on, whatever the program wants."""

    def __init__(self) -> None:
        super().__init__()
        self.awake = threading.Event()

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Any) -> Answer | None:
        self.before.add(request.id)
        self.awake.wait()
        return None


def test_who_reads_on_is_not_waited_for(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        human = Deaf()
        gates = [made(director, tmp_path / str(number), human) for number in range(8)]
        for number, gate in enumerate(gates):
            task = asyncio.create_task(gate.decide("pay", {"n": number}))
            await asyncio.to_thread(until, lambda: len(human.before) > number, "it is read")  # noqa: B023
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(task, 0.01)
        for gate in gates:  # nor does anything else wait for them
            assert isinstance(await gate.decide("free", {}), Permit)
        human.awake.set()

    run(main())


def test_a_thread_and_a_loop_share_the_human(director: Director, tmp_path: Path) -> None:
    """Whoever waits on the loop gives the turn back while a function keeps the loop busy that waits for it."""

    async def main() -> None:
        human = Slow()
        gate = made(director, tmp_path, human)
        task = asyncio.create_task(gate.decide("pay", {"n": 1}))
        await asyncio.to_thread(until, lambda: human.most, "it is read")
        assert isinstance(gate.gate.decide("pay", {"n": 2}), Permit)
        assert isinstance(await task, Permit)

    run(main())


def test_arguments_that_change_meanwhile_are_another_call(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        given: dict[str, Any] = {"account": "DE02", "amount": 300}

        def approves(request: ApprovalRequest) -> Answer:
            given["amount"] = 9000
            return answer(request, "approve")

        gate = made(director, tmp_path, ScriptedAsker([approves, approves]), authority=None)
        with pytest.raises(ActionDenied, match="not what was permitted"):
            async with gate.tool_call("pay", given):
                raise AssertionError("it ran")
        given["amount"] = 300
        with pytest.raises(ActionDenied, match="not what was permitted"), gate.gate.tool_call("pay", given):
            raise AssertionError("it ran")

    run(main())


def test_another_task_changes_the_arguments(director: Director, tmp_path: Path) -> None:
    """Between the start of a call, which takes a write, and its body."""

    async def main() -> None:
        gate = made(director, tmp_path)
        given, over, ran = {"n": 0}, asyncio.Event(), []

        async def changes() -> None:
            while not over.is_set():
                given["n"] += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(changes())
        for _ in range(20):
            with contextlib.suppress(ActionDenied):
                async with gate.tool_call("free", given) as permit:
                    ran.append(json.loads(permit.action.arguments) == given)
        over.set()
        await task
        assert all(ran)

    run(main())


def test_what_no_human_could_be_shown_counts(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        gate = made(director, tmp_path, max_denials=3)
        for given in ({"a": float("nan")}, {1: "a", "1": "b"}, ["a"]):
            assert isinstance(await gate.decide("pay", given), Denial)  # type: ignore[arg-type]
        assert (await gate.decide("free", {})).terminate  # type: ignore[union-attr]
        assert len(kinds(gate, "policy.error")) == 3

    run(main())


def test_a_failing_channel_denies(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        gate = made(director, tmp_path, ScriptedAsker([ValueError("broken")]), authority=None)
        denied = await gate.decide("pay", {})
        assert isinstance(denied, Denial)
        assert "the channel failed: ValueError: broken" in denied.reason

    run(main())


def test_submitted_and_collected(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        async with made(director, tmp_path) as gate:
            asked = await gate.submit(gate.call("pay", {"n": 1}), key="1")
            assert isinstance(asked, Waiting)
            assert await gate.collect(asked.id) == asked
            result = await gate.answer(asked.id, "approve", by="app:ann", assurance="login")
            assert result.outcome == "recorded"
            permit = await gate.collect(asked.id)
            assert isinstance(permit, Permit)
            async with gate.using(permit, permit.action):
                assert kinds(gate) == ["exec.started"]

    run(main())


def test_an_async_function_waits_without_a_thread(director: Director, tmp_path: Path) -> None:
    stands = Gate(director, SQLiteStore(tmp_path / "store.db"), None, authority=PEOPLE, requester="os:1000:alice")

    @require_approval(gate=stands)
    async def pay(n: int) -> int:
        return n

    async def main() -> None:
        tasks = [asyncio.create_task(pay(number)) for number in range(20)]
        for request in await asyncio.to_thread(pending, stands.store, 20):
            await asyncio.to_thread(TEAM.vote, stands.store, request, "approve", ANN)
        assert await asyncio.gather(*tasks) == list(range(20))

    run(main())


def test_a_forked_child_waits_for_threads_of_its_own(director: Director, tmp_path: Path) -> None:
    async def main() -> None:
        assert isinstance(await made(director, tmp_path).decide("free", {}), Permit)

    run(main())
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # whoever waits for a thread that is not there does so for ever
        try:
            run(asyncio.wait_for(event_loop._to_its_end(int), 30))
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
