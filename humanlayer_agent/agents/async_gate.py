"""The Gate for programs on an event loop: who waits for a human costs no thread."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Self

from humanlayer_agent.action import Action
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.event_loop import off_loop, on_loop
from humanlayer_agent.approvals.model import AnswerKind, Denial, Permit, VoteResult, Waiting
from humanlayer_agent.errors import ActionDenied


def unchanged(permit: Permit, action: Action) -> None:
    """Make sure that what is about to be done, without another wait, is what was permitted.

    Raises:
        ActionDenied: it has changed since.
    """
    if action.content != permit.action.content:
        raise ActionDenied(
            Denial("what is about to run is not what was permitted", by="policy", decision=permit.decision)
        )


class AsyncGate:
    """A `Gate` whose methods are awaited. A thousand calls may wait for humans at once, on one event loop.

    A task that is cancelled while it waits withdraws what it has asked. The one question that a human has before them
    at the terminal of this process takes a thread.

    Args:
        gate: does the work; it may be used from threads as well.

    Example:
        >>> import asyncio
        >>> from humanlayer_agent import AsyncGate
        >>> async def main() -> str:
        ...     async with AsyncGate.from_config(policy="default") as gate:
        ...         decided = await gate.decide("pay", {"amount": 300})
        ...         return type(decided).__name__
        >>> asyncio.run(main())
        'Denial'
    """

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    @classmethod
    def from_config(cls, **settings: Any) -> Self:
        """Return the Gate that the policies and channels of the machine, the user and the project make.

        Args:
            settings: as `Gate.from_config` takes them.

        Raises:
            ConfigError: a file can't be read or has a mistake.
        """
        return cls(Gate.from_config(**settings))

    async def check(self, action: Action) -> Permit | Denial:
        """Judge an action, and wait for a human where the policy asks for one (`Gate.check`)."""
        return await on_loop(self.gate.waits(action))

    async def decide(self, tool: str, arguments: Mapping[str, Any], *, cost: float | None = None) -> Permit | Denial:
        """Judge the call of a tool, and wait for a human where the policy asks for one (`Gate.decide`)."""
        try:
            action = self.gate.call(tool, arguments)
        except ValueError as error:
            return await asyncio.to_thread(self.gate.refuse, tool, str(error))
        return await self.check(replace(action, cost=cost))

    def using(self, permit: Permit, action: Action) -> AbstractAsyncContextManager[None]:
        """Use a permit for what the body does (`Gate.using`)."""
        return off_loop(self.gate.using(permit, action))

    @asynccontextmanager
    async def tool_call(
        self, tool: str, arguments: Mapping[str, Any], *, cost: float | None = None
    ) -> AsyncIterator[Permit]:
        """Judge the call of a tool, ask, and record what becomes of it: the body is the call (`Gate.tool_call`).

        Raises:
            ActionDenied: it may not be made; the body is not entered.

        Example::

            async with gate.tool_call("pay", {"account": "DE02", "amount": 300}):
                await pay("DE02", 300)
        """
        permit = await self.decide(tool, arguments, cost=cost)
        if isinstance(permit, Denial):
            raise ActionDenied(permit)
        async with self.using(permit, self.call(tool, arguments)):
            unchanged(permit, self.call(tool, arguments))  # another task may have come between
            yield permit

    async def submit(self, action: Action, *, key: str = "") -> Permit | Denial | Waiting:
        """Judge an action, and ask a human where the policy says so, but wait for nobody (`Gate.submit`)."""
        return await asyncio.to_thread(self.gate.submit, action, key=key)

    async def collect(self, request_id: str, action: Action | None = None) -> Permit | Denial | Waiting:
        """Come back for the answer to what was submitted (`Gate.collect`)."""
        return await asyncio.to_thread(self.gate.collect, request_id, action)

    async def answer(
        self, request_id: str, kind: AnswerKind, *, by: str, assurance: str = "os", words: str = "", digest: str = ""
    ) -> VoteResult:
        """Record the answer of a human that this program has heard itself (`Gate.answer`)."""
        return await asyncio.to_thread(
            self.gate.answer, request_id, kind, by=by, assurance=assurance, words=words, digest=digest
        )

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Action:
        """Return the call of a tool as an action of this Gate's project (`Gate.call`)."""
        return self.gate.call(tool, arguments)

    async def close(self, status: str = "finished") -> None:
        """End the run (`Gate.close`)."""
        await asyncio.to_thread(self.gate.close, status)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        await self.close("finished" if kind is None else "failed")
