"""Agents of smolagents: every call of a tool is judged, also those of managed agents; of a CodeAgent, its code as well.

    agent = ToolApprovals(Gate.from_config()).supervise(ToolCallingAgent(tools=[...], model=model))

A human who is asked is waited for in place.
"""

import inspect
from collections.abc import Mapping
from typing import Any, cast

from humanlayer_agent.adapters.tool_calls import ToolCalls, told
from humanlayer_agent.agents.async_gate import AsyncGate
from humanlayer_agent.agents.python_gate import Gate
from humanlayer_agent.approvals.model import Denial
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks

try:
    from smolagents import CodeAgent, FinalAnswerTool, LocalPythonExecutor, MultiStepAgent, Tool
except ImportError as error:
    raise ConfigError(lacks("The adapter for smolagents", "smolagents", error)) from error

__all__ = ["ToolApprovals"]

CODE = "python_interpreter"
"""What smolagents calls it when a CodeAgent runs code that its model has written."""


class ToolApprovals:
    """Judges each call of a tool of the agents that it supervises, and runs it once, exactly as it was judged.

    What may not run is told to the model as the tool's output; the others of the same message run. Code that a
    CodeAgent is about to run is judged as a call of `python_interpreter`, and what it calls is judged once more. Where
    a human has stopped the run, each call gets such an output, and all agents are interrupted.

    Args:
        gate: the Gate of the run.

    Example::

            agent = ToolApprovals(Gate.from_config()).supervise(ToolCallingAgent(tools=[close_account], model=model))
            agent.run("Close the account of ada")
    """

    def __init__(self, gate: Gate | AsyncGate) -> None:
        self._calls = ToolCalls(gate)
        self._agents: list[Any] = []
        self._classes: dict[type, type] = {}

    def supervise(self, agent: Any) -> Any:
        """Put the tools of an agent behind the Gate, and those of all agents that it manages.

        The agents are changed, not copied: whoever has them already has them supervised.

        Raises:
            ConfigError: it runs code where nobody judges what that calls.
        """
        if not isinstance(agent, MultiStepAgent):
            raise ConfigError(f"a {type(agent).__name__} can't be supervised: it is no agent of smolagents")
        if any(each is agent for each in self._agents):
            return agent
        self._gate_executor(agent)
        self._agents.append(agent)
        agent.__class__ = self._agent_class(type(agent))
        self._gate_all(agent)
        return agent

    def _gate_all(self, agent: Any) -> None:
        """Put behind the Gate what an agent has by now."""
        self._gate_executor(agent)
        for tool in agent.tools.values():
            kind = type(tool)
            if kind in (FinalAnswerTool, self._classes.get(kind.__mro__[1])):
                continue
            if not isinstance(tool, Tool) or kind.__call__ is not Tool.__call__ or "forward" in vars(tool):
                raise ConfigError(f"the calls of {tool!r} can't be judged: it is a tool of another kind")
            tool.__class__ = self._tool_class(kind)
        for each in agent.managed_agents.values():
            self.supervise(each)

    def _gate_executor(self, agent: Any) -> None:
        """Put behind the Gate what runs the code of an agent, where it writes code."""
        if not isinstance(agent, CodeAgent) or type(agent.python_executor) is self._executor_class():
            return
        if type(agent.python_executor) is not LocalPythonExecutor:
            raise ConfigError("a CodeAgent is supervised where it runs its code itself: executor_type='local'")
        agent.python_executor.__class__ = self._executor_class()

    def _run(self, name: str, given: Mapping[str, Any], run: Any) -> Any:
        answered = self._calls.decide(name, given)
        if isinstance(answered, Denial):
            raise self._refused(answered)
        with self._calls.use(answered, name, given) as denial:
            if denial is None:
                return run()
        raise self._refused(denial)

    def _refused(self, denial: Denial) -> "_Refused":
        if denial.terminate:
            for agent in self._agents:
                agent.interrupt()
        return _Refused(told(denial))

    # Classes in the place of theirs: what looks an agent or a tool up by its class finds the same

    def _tool_class(self, kind: type) -> type:
        approvals, base = self, cast(Any, kind)

        def forward(tool: Any, /, *args: Any, **more: Any) -> Any:
            own: Any = super(cast(Any, made), tool)
            bound = _signature(own.forward).bind(*args, **more)
            bound.apply_defaults()
            return approvals._run(tool.name, _named(bound), lambda: own.forward(*bound.args, **bound.kwargs))

        def call(tool: Any, /, *args: Any, **more: Any) -> Any:
            try:
                return base.__call__(tool, *args, **more)
            except _Refused as refused:
                return str(refused)

        made = self._made(kind, forward=forward, __call__=call)
        return made

    def _agent_class(self, kind: type) -> type:
        approvals, base = self, cast(Any, kind)

        def run(agent: Any, *args: Any, **more: Any) -> Any:
            approvals._gate_all(agent)
            return base.run(agent, *args, **more)

        def execute_tool_call(agent: Any, *args: Any, **more: Any) -> Any:
            approvals._gate_all(agent)
            return base.execute_tool_call(agent, *args, **more)

        def step_stream(agent: Any, *args: Any, **more: Any) -> Any:
            approvals._gate_all(agent)
            return base._step_stream(agent, *args, **more)

        more = {"execute_tool_call": execute_tool_call} if hasattr(kind, "execute_tool_call") else {}
        return self._made(kind, run=run, _step_stream=step_stream, **more)

    def _executor_class(self) -> type:
        approvals, base = self, cast(Any, LocalPythonExecutor)

        def call(executor: Any, code: str) -> Any:
            executor.static_tools = {name: _callable(each) for name, each in (executor.static_tools or {}).items()}
            return approvals._run(CODE, {"code": code}, lambda: base.__call__(executor, code))

        return self._made(LocalPythonExecutor, __call__=call)

    def _made(self, kind: type, **methods: Any) -> type:
        if kind not in self._classes:
            names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, **methods}
            self._classes[kind] = type(kind.__name__, (kind,), names)
        return self._classes[kind]


def _callable(tool: Any) -> Any:
    """Return what code may do with a tool or a managed agent: call it. What they consist of would not be judged."""
    if not isinstance(tool, (Tool, MultiStepAgent)):
        return tool

    def call(*args: Any, **more: Any) -> Any:
        return tool(*args, **more)

    return call


def _signature(forward: Any) -> inspect.Signature:
    """What a tool takes. That of `@tool` is a function, but has the signature of a method."""
    found = inspect.signature(forward)
    first = next(iter(found.parameters), "")
    if inspect.ismethod(forward) or first != "self":
        return found
    return found.replace(parameters=[each for name, each in found.parameters.items() if name != first])


def _named(bound: inspect.BoundArguments) -> dict[str, Any]:
    """The arguments of a call by their names, and those that a function takes as `**more` by theirs."""
    given = dict(bound.arguments)
    for name, parameter in bound.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            more = given.pop(name)
            if not given.keys().isdisjoint(more):
                raise TypeError("what the tool is given names something twice")
            given |= more
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            given[name] = list(given[name])
    return given


class _Refused(Exception):
    """A call may not run: the text is for the model."""
