"""The environment side of mini-swe-agent's supervision: the choke point (see `mini`)."""

import logging
import os
import subprocess
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minisweagent.environments.local import LocalEnvironment, LocalEnvironmentConfig
from minisweagent.exceptions import InterruptAgentFlow, Submitted
from minisweagent.utils.serialize import recursive_merge

from humanlayer_agent.action import BASH, Action
from humanlayer_agent.agents.enforcement import directory_of, interpreter_of
from humanlayer_agent.agents.mini.batch_harness import harness_calls
from humanlayer_agent.agents.supervision import (
    Record,
    Supervision,
    Supervisor,
    close_gate,
    open_gate,
    project_of,
    refuse_misspelled_section,
    supervision_settings,
)
from humanlayer_agent.approvals.denial_texts import text
from humanlayer_agent.approvals.model import Outcome
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.processes.execution import CommandResult, command_environment, run_command, warn_unless_protected

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate

logger = logging.getLogger("humanlayer_agent")

NOT_EXECUTED = 126
"""Return code of a command that was not run: the shell's own for "found, but could not be executed"."""

_INTENT_LIMIT = 4_000


class SupervisedEnvironment:
    """Stands in front of one of mini's environments and judges every action before it may run there.

    Everything but `execute` and `serialize` is the inner environment's. Commands for mini's LocalEnvironment are run
    by `execution.run_command` (as bash, away from the terminal and our secrets); other environments run their own.

    Args:
        inner: the environment that is supervised.
        director, user, gate: who judges and who is asked (see `SupervisedAgent`).
        settings: see `Supervision`.
        watch: called with a `Record` and the output for each action, for display.
    """

    def __init__(
        self,
        inner: Any,
        *,
        director: Any = None,
        user: Any = None,
        gate: "Gate | None" = None,
        settings: Supervision | None = None,
        watch: Callable[[Record, str], None] | None = None,
    ) -> None:
        if isinstance(inner, SupervisedEnvironment):
            raise ConfigError("this environment is supervised already")
        settings = settings or Supervision()
        # A subclass that runs commands in its own way keeps its way.
        self.runs_here = getattr(type(inner), "execute", None) is LocalEnvironment.execute
        self._inner = inner
        self.settings = settings
        self._watch = watch
        self._start = os.getcwd()
        if self.runs_here:
            warn_unless_protected()
            default_project = None
        else:
            default_project = directory_of(inner)
        known = director if gate is None else getattr(gate, "director", None)
        self.project = project_of(settings, known, default_project)
        self._environment()  # a setting that can't be used is an error now, not at the first command
        self._close: weakref.finalize[..., Any] | None = None

        def supervisor() -> Supervisor:
            opened = open_gate(settings, director=director, user=user, gate=gate, project=self.project)
            if gate is None and director is None and not self.runs_here:
                judge: Any = opened.director
                judge.reader = None  # the files of this machine are not those that its commands run
            if gate is None:  # ours to close, also where no agent says that the run has ended
                self._close = weakref.finalize(self, close_gate, opened)
            return Supervisor(opened, settings)

        self._new_supervisor = supervisor
        self.supervisor = supervisor()
        self._in_agent = False
        self._step = 0
        self._intent = ""

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # not there yet: while being copied or unpickled
            raise AttributeError(name)
        return getattr(self._inner, name)

    def new_run(self) -> None:
        """An agent starts a run; from now on it says where messages begin and when the run ends."""
        self._in_agent = True
        if self._close is not None and not self._close.alive:
            self.supervisor = self._new_supervisor()
        self.supervisor.new_run()

    def end_run(self, status: str) -> None:
        """The agent's run has ended: what is still open of it in the store is settled."""
        if self._close is not None and self._close.detach():
            close_gate(self.supervisor.gate, status)

    def new_message(self, message: dict[str, Any], step: int) -> None:
        """The actions that follow come from `message`."""
        self._in_agent = True
        self._step = step
        self._intent = model_words(message)
        self.supervisor.new_message()

    def exit_message(self) -> dict[str, Any] | None:
        """mini's exit message where supervision ends the run."""
        if self.supervisor.exit is None:
            return None
        status, content = self.supervisor.exit.status, self.supervisor.exit.content
        return {"role": "exit", "content": content, "extra": {"exit_status": status, "submission": ""}}

    def execute(self, action: dict[str, Any], cwd: str = "", **kwargs: Any) -> dict[str, Any]:
        """Judge the action, and run it in the inner environment if it is permitted.

        Returns:
            The inner environment's output, or one that says why nothing ran; `extra.supervision` has the record.

        Raises:
            Submitted: the command ended the task (as mini's environments do).
            InterruptAgentFlow: with no supervised agent around: the run is to end.
        """
        if not self._in_agent and harness_calls():
            return self._run_for_harness(action, cwd, kwargs)
        if not self._in_agent:
            # With no agent to end the run, the next command does: now every action before it has its observation.
            if (message := self.exit_message()) is not None:
                raise InterruptAgentFlow(message)
            self._step += 1
        command = action.get("command", "")
        if not isinstance(command, str):
            return _not_executed(text("not_text", type=type(command).__name__), {})
        proposed = self._propose(command, action, cwd)
        output: dict[str, Any] = {}
        submitted: list[Submitted] = []

        def run(permitted: Action) -> Outcome:
            if self.runs_here:
                output.update(self._run_here(permitted, kwargs.get("timeout")))
            else:
                try:
                    output.update(self._inner.execute({**action, "command": permitted.content}, cwd, **kwargs))
                except Submitted as end:  # it did run to its end: that is recorded first
                    submitted.append(end)
                    return Outcome(0)
            code = output.get("returncode")
            unwatched = bool(output.pop("unwatched", False))
            info = str(output.get("exception_info") or "")
            return Outcome(code if isinstance(code, int) else None, info, unwatched=unwatched)

        record = self.supervisor.supervise(proposed, run)
        if self._watch is not None:
            self._watch(record, str(output.get("output", "")))
        if submitted:
            raise submitted[0]
        if not record.executed:
            return _not_executed(record.text, record.public())
        output["extra"] = {**(output.get("extra") or {}), "supervision": record.public()}
        if record.edited:
            info = output.get("exception_info")
            output["exception_info"] = f"{record.text}\n{info}" if info else record.text
        if self.runs_here:
            self._inner._check_finished(output)
        return output

    def _run_for_harness(self, action: dict[str, Any], cwd: str, options: dict[str, Any]) -> dict[str, Any]:
        """Run a startup command of a batch run's harness: the operator's own word, recorded and not asked about."""
        proposed = self._propose(str(action.get("command", "")), action, cwd)
        self.supervisor.gate.record(
            proposed, self.supervisor.gate.director.evaluate(proposed), left_to="the harness: its own startup command"
        )
        output: dict[str, Any] = (
            self._run_here(proposed, options.get("timeout"))
            if self.runs_here
            else self._inner.execute(action, cwd, **options)
        )
        code = output.get("returncode")
        record = Record(
            proposed.content, executed=True, by="harness", returncode=code if isinstance(code, int) else None
        )
        self.supervisor.records.append(record)
        return output

    def serialize(self) -> dict[str, Any]:
        """The inner environment's, and what supervision decided."""
        records = self.supervisor.records
        info = {
            "run_id": getattr(self.supervisor.gate, "run_id", ""),
            "project": str(self.project),
            "settings": self.settings.model_dump(mode="json"),
            "records": [record.listed() for record in records],
        }
        merged: dict[str, Any] = recursive_merge(self._inner.serialize(), {"info": {"supervision": info}})
        return merged

    def _propose(self, command: str, action: dict[str, Any], cwd: str) -> Action:
        config = self._inner.config
        directory = cwd or getattr(config, "cwd", "") or self._directory()
        return Action(
            content=command,
            cwd=os.path.abspath(directory) if self.runs_here else directory,
            project=str(self.project),
            interpreter=BASH if self.runs_here else interpreter_of(self._inner),
            env=self._environment() if self.runs_here else {},  # elsewhere there are more that we don't know
            agent=self.settings.agent,
            run_id=getattr(self.supervisor.gate, "run_id", "") or "",
            step=self._step,
            call_id=str(action.get("tool_call_id") or ""),
            model_intent=self._intent,
        )

    def _directory(self) -> str:
        try:
            return os.getcwd()
        except OSError:  # a command removed it
            return self._start

    def _environment(self) -> dict[str, str]:
        own = dict(getattr(self._inner.config, "env", None) or {})
        if not self.runs_here:
            return own
        return command_environment(os.environ, own, self.settings.pass_env, str(self.project))

    def _run_here(self, action: Action, timeout: int | None) -> dict[str, Any]:
        seconds = timeout or self._inner.config.timeout
        try:
            result = run_command(
                (*action.interpreter, action.content),
                cwd=action.cwd,
                env=action.env,
                timeout=seconds,
                keep_background=self.settings.keep_background,
            )
        except (OSError, ValueError) as error:
            return _failed(error)
        if result.unwatched:
            return {**_failed(OSError(text("unwatched")), result.output), "unwatched": True}
        if result.timed_out:
            return _failed(subprocess.TimeoutExpired(action.content, seconds), result.output)
        if result.returncode is None:
            return _failed(OSError("its end was not seen"), result.output)
        return {"output": result.output, "returncode": result.returncode, "exception_info": _left_over(result)}


class SupervisedLocalEnvironment(SupervisedEnvironment):
    """mini's local environment, supervised: for `--environment-class`, batch runs, and any agent class.

    Args:
        director, user, gate: see `SupervisedAgent`.
        supervision: the settings (see `Supervision`).
        config: mini's own settings (cwd, env, timeout).

    Example:
        mini -c mini.yaml --environment-class humanlayer_agent.agents.mini.SupervisedLocalEnvironment
    """

    def __init__(
        self,
        director: Any = None,
        user: Any = None,
        *,
        gate: "Gate | None" = None,
        supervision: object = None,
        config_class: type = LocalEnvironmentConfig,
        **config: Any,
    ) -> None:
        refuse_misspelled_section(config, getattr(config_class, "model_fields", ()))
        settings = supervision_settings(supervision)
        if settings.after_denial == "skip_rest" and type(self) is SupervisedLocalEnvironment:
            logger.info("after_denial: skip_rest needs a supervised agent; without one every command is judged")
        inner = LocalEnvironment(config_class=config_class, **config)
        super().__init__(inner, director=director, user=user, gate=gate, settings=settings)


def model_words(message: dict[str, Any]) -> str:
    """The text a model wrote with its actions, in any of mini's message formats; "" for a user's own command."""
    if message.get("role") == "user":
        return ""
    blocks: list[Any] = []
    for item in _list(message.get("output")):  # the Responses API
        if isinstance(item, dict) and item.get("type") == "message":
            blocks += _list(item.get("content"))
    blocks += _list(message.get("content"))
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str))[:_INTENT_LIMIT].strip()


def _list(value: object) -> list[Any]:
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, str) else []


def _not_executed(reason: str, record: dict[str, Any]) -> dict[str, Any]:
    return {
        "output": "",
        "returncode": NOT_EXECUTED,
        "exception_info": reason,
        "extra": {"supervision": record or {"executed": False}},
    }


def _failed(error: Exception, output: str = "") -> dict[str, Any]:
    # The same as mini's own local environment says.
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {error}",
        "extra": {"exception_type": type(error).__name__, "exception": str(error)},
    }


def _left_over(result: CommandResult) -> str:
    if not result.left:
        return ""
    return f"{result.left} processes it left in the background belong to another user and could not be ended"
