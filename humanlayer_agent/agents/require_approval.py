"""A function that a human approves, call by call: any Python code, without an agent framework.

What the human sees, and what the approval is bound to, is the call with all its arguments. It is rendered again just
before it runs: arguments that have changed since are another call, and need an approval of their own.
"""

import asyncio
import functools
import inspect
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar, cast, overload

from humanlayer_agent.action import FUNCTION, Action, tool_arguments
from humanlayer_agent.agents.async_gate import unchanged
from humanlayer_agent.approvals.conversation import describe
from humanlayer_agent.approvals.event_loop import off_loop, on_loop
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Permit
from humanlayer_agent.errors import ActionDenied, ConfigError

P = ParamSpec("P")
R = TypeVar("R")

MAX_DEPTH = 32
MAX_LENGTH = 65_536
PYTHON = ("python", "call")
"""What an approved call is run by, in the place of a command's interpreter."""


@overload
def require_approval(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def require_approval(*, gate: Gate | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def require_approval(
    function: Callable[P, R] | None = None,
    /,
    *,
    gate: Gate | None = None,
    contact_channel: None = None,
    reject_options: None = None,
) -> Any:
    """Decorate a function so that each call is judged and, where no policy allows it, put before a human.

    Args:
        function: sync or async. What it is called with must be shown in full, and is part of what is approved.
        gate: the Gate it stands behind. Where it is None, one is built with the first call from the settings of the
            machine and the user, and asks at the terminal.
        contact_channel, reject_options: nothing may be given: they are known from another library of this name, and
            the error says what is written here instead.

    Raises:
        ConfigError: a `contact_channel`, or `reject_options`, are given.
        ActionDenied: by the decorated function, where it may not run; `denial` says why.
        TypeError: by the decorated function, where the arguments don't fit it, or can't be shown.

    Example:
        >>> from humanlayer_agent import Gate, require_approval
        >>> class Colleague:
        ...     def query(self, prompt: str, options: list[str]) -> str:
        ...         return options[-1]  # the one that approves
        >>> @require_approval(gate=Gate.from_config(policy="default", user=Colleague()))
        ... def transfer(account: str, amount: int) -> str:
        ...     return f"{amount} to {account}"
        >>> transfer("DE02", amount=300)
        '300 to DE02'
    """
    refuse_older_settings(contact_channel, reject_options)
    if function is None:
        return functools.partial(_decorated, given=gate)
    return _decorated(function, given=gate)


def refuse_older_settings(contact_channel: object, options: object) -> None:
    """Refuse what the older humanlayer SDK took, and say what stands in its place.

    Raises:
        ConfigError: one of them is given.
    """
    if contact_channel is not None:
        raise ConfigError(
            "contact_channel: who is asked, and where, is not the code's to say. Name people and channels in a "
            "channels file (`hla init` writes one), and the route in the policy's rule: route: NAME"
        )
    if options is not None:
        raise ConfigError(
            "reject_options, response_options: whoever refuses says why in words of their own, which reach the model "
            "as ActionDenied.comment. Answers to choose from are those of a question: Gate.ask_human(question, options)"
        )


def _decorated(function: Callable[P, R], given: Gate | None) -> Callable[P, R]:
    guard = _Guard(function, given)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def waits(*args: P.args, **kwargs: P.kwargs) -> Any:
            action = guard.action(args, kwargs)
            permit = guard.usable(action, await on_loop((await asyncio.to_thread(guard.gate)).waits(action)))
            async with off_loop(guard.running(permit, args, kwargs)):
                unchanged(permit, guard.action(args, kwargs))  # another task may have come between
                return await function(*args, **kwargs)

        return cast("Callable[P, R]", waits)

    @functools.wraps(function)
    def calls(*args: P.args, **kwargs: P.kwargs) -> R:
        with guard.running(guard.approved(args, kwargs), args, kwargs):
            return function(*args, **kwargs)

    return calls


class _Guard:
    """The judge of one function's calls."""

    def __init__(self, function: Callable[..., Any], gate: Gate | None) -> None:
        self.function = function
        self.signature = inspect.signature(function)
        self.name = f"{function.__module__}.{function.__qualname__}"
        self._gate = gate
        self._lock = threading.Lock()

    def approved(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Permit:
        """Return a permit for this call.

        Raises:
            ActionDenied: there is none.
        """
        action = self.action(args, kwargs)
        return self.usable(action, self.gate().check(action))

    def usable(self, action: Action, checked: Permit | Denial) -> Permit:
        """Return the permit for a call, where it is one.

        Raises:
            ActionDenied: it is not.
        """
        if isinstance(checked, Denial):
            raise ActionDenied(checked)
        if checked.action.content != action.content:
            self.gate().store.void(checked.id, "a call can't be edited")
            raise ActionDenied(
                Denial(
                    "a call can't be edited: reject it, and say what you want", by="human", decision=checked.decision
                )
            )
        return checked

    def running(self, permit: Permit, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AbstractContextManager[None]:
        return self.gate().using(permit, self.action(args, kwargs))

    def action(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Action:
        """Return this call as an action."""
        here = os.getcwd()
        content = rendered(self.name, self.signature, args, kwargs)
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        try:
            arguments = tool_arguments(bound.arguments)
        except (ValueError, RecursionError) as error:
            raise TypeError(f"{self.name}: {error}") from None
        return Action(
            content,
            type=FUNCTION,
            cwd=here,
            project=here,
            interpreter=PYTHON,
            tool=self.name,
            arguments=arguments,
        )

    def gate(self) -> Gate:
        with self._lock:
            if self._gate is None:
                from humanlayer_agent.configuration import build_gate

                self._gate = build_gate(agent="function")
            return self._gate


# ---- rendering --------------------------------------------------------------------------------------


def rendered(name: str, signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The call as text, every argument in full under its parameter's name.

    Raises:
        TypeError: the arguments don't fit the signature, or are too long or too deep to be shown.
    """
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    parts: list[str] = []
    for parameter in signature.parameters.values():
        value = bound.arguments.get(parameter.name)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            parts += [_shown(item, 0) for item in value or ()]
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            parts += [f"{key}={_shown(item, 0)}" for key, item in (value or {}).items()]
        else:
            parts.append(f"{parameter.name}={_shown(value, 0)}")
    text = f"{name}({', '.join(parts)})"
    if len(text) > MAX_LENGTH:
        raise TypeError(
            f"{name}: its arguments are too long to be shown ({len(text)} characters, at most {MAX_LENGTH})"
        )
    return text


def _shown(value: Any, depth: int) -> str:
    """Plain data exactly, by its own type's form: a subclass may show itself as anything. Other objects by type too."""
    if depth > MAX_DEPTH:
        raise TypeError(f"arguments are nested deeper than {MAX_DEPTH}")
    kind = type(value)
    if value is None or kind in (bool, int, float, complex, str, bytes):
        return repr(value)
    if kind in (list, tuple, set, frozenset):
        inner = [_shown(item, depth + 1) for item in value]
        if kind in (set, frozenset):
            return f"{kind.__name__}({{{', '.join(sorted(inner))}}})"
        return f"[{', '.join(inner)}]" if kind is list else f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    if kind is dict:
        return "{" + ", ".join(f"{_shown(k, depth + 1)}: {_shown(v, depth + 1)}" for k, v in value.items()) + "}"
    return f"<{kind.__module__}.{kind.__qualname__}: {_described(value)}>"


def _described(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        raise TypeError(f"an argument of type {type(value).__qualname__} can't be shown: {describe(error)}") from error
