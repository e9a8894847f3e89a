"""Functions that a human approves, call by call."""

import asyncio
import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent import ActionDenied, Director, Gate, require_approval
from humanlayer_agent.agents.require_approval import rendered
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker
from tests.support import children

pytestmark = pytest.mark.usefixtures("compiled")

EXAMPLE = Path(__file__).parents[2] / "examples/gate_a_function.py"


def gate(tmp_path: Path, *script: Any) -> tuple[Gate, ScriptedAsker]:
    asker = ScriptedAsker(script)
    director = Director.load("default", project=tmp_path)
    return Gate(director, SQLiteStore(tmp_path / "store.db"), asker), asker


def test_a_call_runs_when_it_is_approved(tmp_path: Path) -> None:
    stands, asker = gate(tmp_path, "approve")
    seen = []

    @require_approval(gate=stands)
    def pay(account: str, amount: int = 5, *tags: str, note: str = "x", **more: Any) -> str:
        """Doc."""
        seen.append(account)
        return "paid"

    assert pay("a", 3, "t", note="n", extra=[1, {"k": None}]) == "paid"
    assert pay.__doc__ == "Doc."
    assert seen == ["a"]
    shown = asker.asked[0].action.content
    assert shown.endswith("pay(account='a', amount=3, 't', note='n', extra=[1, {'k': None}])")
    kinds = [entry.event["type"] for entry in stands.store.events()]
    assert kinds[-2:] == ["exec.started", "exec.finished"]


def test_a_denied_call_does_not_run(tmp_path: Path) -> None:
    stands, _ = gate(tmp_path, ("reject", "too much"))

    @require_approval(gate=stands)
    def pay(amount: int) -> None:
        raise AssertionError("it ran")

    with pytest.raises(ActionDenied) as raised:
        pay(9)
    assert raised.value.denial.comment == "too much"  # type: ignore[attr-defined]


@pytest.mark.parametrize("script", [(), (("edit", "pay(amount=1)"), "approve"), ("terminate",), (None,)])
def test_anything_but_an_approval_denies(tmp_path: Path, script: tuple[Any, ...]) -> None:
    asker = ScriptedAsker(script)
    director = Director.load("default", project=tmp_path)
    limit = 600_000 if any(script) else 50  # nobody answers: then the time has to pass
    stands = Gate(director, SQLiteStore(tmp_path / "store.db"), asker, timeout_ms=limit)

    @require_approval(gate=stands)
    def pay(amount: int) -> None:
        raise AssertionError("it ran")

    with pytest.raises(ActionDenied):
        pay(9)


def test_arguments_that_change_meanwhile_are_another_call(tmp_path: Path) -> None:
    items = ["a"]

    def approves_late(request: Any) -> Any:
        from humanlayer_agent.testing.approvers import answer

        items.append("b")
        return answer(request, "approve")

    stands, _ = gate(tmp_path, approves_late)

    @require_approval(gate=stands)
    def remove(names: list[str]) -> None:
        raise AssertionError("it ran")

    with pytest.raises(ActionDenied):
        remove(items)


def test_an_exception_is_recorded_and_raised(tmp_path: Path) -> None:
    stands, _ = gate(tmp_path, "approve")

    @require_approval(gate=stands)
    def fail() -> None:
        raise ZeroDivisionError("x")

    with pytest.raises(ZeroDivisionError):
        fail()
    last = list(stands.store.events())[-1].event
    assert (last["type"], last.get("returncode"), "ZeroDivisionError" in str(last)) == ("exec.finished", None, True)


def test_coroutines(tmp_path: Path) -> None:
    stands, _ = gate(tmp_path, "approve", "reject")

    @require_approval(gate=stands)
    async def pay(amount: int) -> int:
        await asyncio.sleep(0)
        return amount

    assert asyncio.run(pay(2)) == 2  # type: ignore[arg-type]
    with pytest.raises(ActionDenied):
        asyncio.run(pay(3))  # type: ignore[arg-type]


def test_methods(tmp_path: Path) -> None:
    stands, asker = gate(tmp_path, "approve")

    class Account:
        def __repr__(self) -> str:
            return "mine"

        @require_approval(gate=stands)
        def close(self, force: bool = False) -> bool:
            return True

    assert Account().close(force=True)
    assert "Account: mine>, force=True)" in asker.asked[0].action.content


def test_a_policy_may_allow_or_deny_by_name(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\npolicy: functions\nrules:\n"
        "  - {id: a, decision: allow, when: {effect: execute, role: function, names: {any_in: ['*.read_only']}}}\n"
        "  - {id: d, decision: deny, reason: never, when: {effect: execute, role: function, names: {any_in: ['*.drop']}}}\n"
    )
    stands = Gate(Director.load(policy, project=tmp_path), SQLiteStore(tmp_path / "store.db"), None)

    @require_approval(gate=stands)
    def read_only() -> int:
        return 1

    @require_approval(gate=stands)
    def drop() -> None:
        raise AssertionError("it ran")

    assert read_only() == 1
    with pytest.raises(ActionDenied, match="never"):
        drop()


def test_wrong_arguments_are_a_type_error(tmp_path: Path) -> None:
    stands, asker = gate(tmp_path)

    @require_approval(gate=stands)
    def pay(amount: int) -> None: ...

    with pytest.raises(TypeError):
        pay(1, 2)  # type: ignore[call-arg]
    assert not asker.asked


class _Sly(str):
    def __repr__(self) -> str:
        return "'harmless'"


def test_a_subclass_can_not_show_itself_as_plain_data() -> None:
    def f(x: object) -> None: ...

    text = rendered("f", inspect.signature(f), (_Sly("harm"),), {})
    assert text.startswith("f(x=<")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        max_leaves=10,
    )
)
def test_plain_data_is_shown_exactly(value: object) -> None:
    def f(x: object) -> None: ...

    text = rendered("f", inspect.signature(f), (value,), {})
    assert eval(text.removeprefix("f(x=").removesuffix(")")) == value


@pytest.mark.long
def test_the_example_denies_where_nobody_can_be_asked(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    project = tmp_path / "project"
    project.mkdir()
    done = children.run(
        [sys.executable, str(EXAMPLE)], cwd=project, env=environ, capture_output=True, text=True,
        stdin=subprocess.DEVNULL, start_new_session=True, check=True,
    )  # fmt: skip
    assert done.stdout.count("not sent:") == 2
