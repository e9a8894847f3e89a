"""The call of a tool, as every adapter handles it: judged, run by its permit, and told to the model where it is not."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from humanlayer_agent.action import Action
from humanlayer_agent.adapters import AppUser
from humanlayer_agent.agents.async_gate import AsyncGate
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.approvals.denial_texts import denial_text, text
from humanlayer_agent.approvals.event_loop import off_loop
from humanlayer_agent.approvals.model import AnswerKind, Denial, Permit, Waiting
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.policy.decision import Verdict

T = TypeVar("T")

EDITED = "the call of a tool can't be changed: reject it, and say what you want"
UNKNOWN = "it was let through before the run was interrupted, and whether it ran is not known: it does not run again"

AT_PROVIDER = (
    "the calls of {} can't be judged, it runs at the model's provider: leave it out, or name it in at_provider"
)


class ToolCalls:
    """Calls of tools before one Gate. What goes wrong here, or there, denies.

    Args:
        gate: a Gate, or an AsyncGate.
    """

    def __init__(self, gate: Gate | AsyncGate) -> None:
        self.gate = gate.gate if isinstance(gate, AsyncGate) else gate
        self._async = AsyncGate(self.gate)

    def decide(self, tool: str, arguments: Mapping[str, Any]) -> Permit | Denial:
        """Judge a call, and wait for a human where the policy asks for one."""
        return _or_denied(lambda: self.gate.decide(tool, arguments))

    async def adecide(self, tool: str, arguments: Mapping[str, Any]) -> Permit | Denial:
        """Judge a call, and wait for a human without holding up the event loop."""
        try:
            return await self._async.decide(tool, arguments)
        except Exception as error:
            return _failed(error)

    async def acheck(self, action: Action) -> Permit | Denial:
        """Judge an action, and wait for a human without holding up the event loop."""
        try:
            return await self._async.check(action)
        except Exception as error:
            return _failed(error)

    @contextmanager
    def use(self, permit: Permit, tool: str, arguments: Mapping[str, Any]) -> Iterator[Denial | None]:
        """Use the permit of a call for what is about to run, and record how that ends.

        Yields:
            None where it may run now; a `Denial` where it may not: it is another call than was judged, for example.
        """
        denial = self.start(permit, tool, arguments)
        if denial is not None:
            yield denial
        else:
            with self.gate.using(replace(permit, started=True), permit.action):
                yield None

    def start(self, permit: Permit, tool: str, arguments: Mapping[str, Any]) -> Denial | None:
        """Use the permit of a call for what is about to run, where somebody else runs it: `gate.finish` is theirs."""
        return _or_denied(lambda: self.gate.start(permit, self.gate.call(tool, arguments)))

    def begin(self, permit: Permit, action: Action) -> Denial | None:
        """Do what `start` does for an action."""
        return _or_denied(lambda: self.gate.start(permit, action))

    def ause(
        self, permit: Permit, tool: str, arguments: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[Denial | None]:
        """Do what `use` does, without holding up the event loop."""
        return off_loop(self.use(permit, tool, arguments))

    # Calls that nobody waits for

    def submit(self, tool: str, arguments: Mapping[str, Any], key: str) -> Permit | Denial | Waiting:
        """Judge a call, and ask a human where the policy does, without waiting for them.

        Args:
            key: names this call among all of the agent.
        """
        return _or_denied(lambda: self.gate.submit(self.gate.call(tool, arguments), key=key))

    def collect(self, request: str, tool: str, arguments: Mapping[str, Any]) -> Permit | Denial | Waiting:
        """Return what has become of a call that was submitted. A permit is given out once."""
        return _or_denied(lambda: self.gate.collect(request, self.gate.call(tool, arguments)))

    def asks(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Tell whether a human is asked about a call. Nothing is recorded: it is judged when it is about to run.

        Where that can't be told nobody is asked: what fails here fails there as well, and that denies.
        """
        try:
            decision = self.gate.director.evaluate(self.gate.call(tool, arguments))
        except Exception:
            return False
        return decision.verdict is Verdict.ASK and decision.enforced

    def is_halted(self) -> bool:
        """Tell whether every agent is stopped. Where that can't be told they are not: their calls are denied anyway."""
        try:
            return bool(self.gate.store.halts.standing(self.gate.authority))
        except Exception:
            return False

    def is_waiting(self, request: str) -> bool:
        """Tell whether a request still waits for a human."""
        found = self.gate.store.get(request)
        return found is not None and found.state == "pending" and found.expires > now_ms()

    def answer(self, request: str, kind: AnswerKind, user: AppUser, words: str = "") -> None:
        """Record an answer that came by the framework's own way of asking. Whether it counts, the Gate says."""
        if self.is_waiting(request):
            self.gate.collect(request)  # by this run from here on: else this process could not vouch for who answers
        self.gate.answer(request, kind, by=user.by, assurance=user.assurance, words=words)


def completed(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as its tool gets them: with the defaults of the tool's JSON schema.

    What the tool would read otherwise than it stands there is none. Only the arguments themselves are looked at, not
    what is inside of an object or a list.

    Raises:
        ValueError: it has an argument that the schema does not have, or one of another type than the schema says.
    """
    properties = schema.get("properties") or {}
    for name, value in arguments.items():
        if name in properties:
            if not _fits(value, properties[name], schema):
                raise ValueError(f"{name} is of another type than the tool takes")
        elif properties and not schema.get("additionalProperties") and "patternProperties" not in schema:
            raise ValueError(f"the tool takes no {name}")
    defaults = {name: each["default"] for name, each in properties.items() if _has_default(each)}
    return {**arguments, **{name: value for name, value in defaults.items() if name not in arguments}}


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _fits(value: Any, schema: Any, whole: Mapping[str, Any]) -> bool:
    """Tell whether a value has one of the types that a schema names. One that names none takes every value."""
    if not isinstance(schema, dict):
        return schema is not False
    if isinstance(ref := schema.get("$ref"), str):
        return _fits(value, whole.get("$defs", {}).get(ref.removeprefix("#/$defs/"), True), whole)
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return any(_fits(value, each, whole) for each in schema[name])
    kinds = schema.get("type")
    if kinds is None:
        return True
    named = kinds if isinstance(kinds, list) else [kinds]
    return any(isinstance(value, bool) == (kind == "boolean") and isinstance(value, _TYPES[kind]) for kind in named)


HIDES = "what {} is given is not all shown: a secret, an excluded field, or a value that its JSON does not give back"


def shown(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a tool is given as the JSON that is judged and shown to a human.

    Raises:
        ValueError: that hides some of it, or there is none.
    """
    try:
        found: dict[str, Any] = to_jsonable_python(given)
    except ValueError as error:
        raise ValueError(f"what {tool} is given can't be shown to a human: {error}") from error
    if not _shows(given, found):
        raise ValueError(HIDES.format(tool))
    return found


def _shows(value: Any, shown: Any) -> bool:
    """Tell whether what a human is shown is the value: whether its type makes the same of that again."""
    if value is None or isinstance(value, (str, int, float)):
        return True
    if isinstance(value, Mapping):
        return _shows([*value, *value.values()], [*shown, *shown.values()])
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(_shows(*each) for each in zip(value, shown, strict=True))
    try:
        return bool(TypeAdapter(type(value)).validate_json(json.dumps(shown)) == value)
    except Exception:  # a type that can't be made of JSON, or not of this
        return False


def told(denial: Denial) -> str:
    """Return what the model reads in the place of a call's result."""
    return denial_text(denial, "call")


def farewell() -> str:
    """Return the last message of a run that a human has stopped."""
    return text("exit.SupervisionTerminated", reason="")


def _or_denied(decision: Callable[[], T]) -> T | Denial:
    try:
        return decision()
    except ValueError as error:  # what it is given can't be shown to a human
        return Denial(str(error), by="policy")
    except Exception as error:
        return _failed(error)


def _failed(error: Exception) -> Denial:
    return Denial(f"the supervision failed: {describe(error)}", by="store")
