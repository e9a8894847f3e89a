"""The environment side of mini-swe-agent's supervision: the choke point (see `mini`)."""

import subprocess
from typing import TYPE_CHECKING, Any

from minisweagent.exceptions import InterruptAgentFlow, Submitted
from minisweagent.utils.serialize import recursive_merge

from humanlayer_agent.action import Action
from humanlayer_agent.agents.enforcement import WORDS_LIMIT, EnforcingEnvironment, EnforcingLocalEnvironment
from humanlayer_agent.agents.mini.batch_harness import harness_calls
from humanlayer_agent.agents.supervision import Record
from humanlayer_agent.approvals.denial_texts import text
from humanlayer_agent.processes.execution import CommandResult

if TYPE_CHECKING:
    from humanlayer_agent.approvals.model import Permit

NOT_EXECUTED = 126
"""Return code of a command that was not run: the shell's own for "found, but could not be executed"."""


class SupervisedEnvironment(EnforcingEnvironment):
    """One of mini-swe-agent 2.4's environments, supervised (see `EnforcingEnvironment`).

    An action is a dictionary, and so is what is answered: also where nothing ran, and where the command could not be
    started or took too long.

    Example:
        >>> from minisweagent.environments.local import LocalEnvironment
        >>> from humanlayer_agent.agents.supervision import Supervision
        >>> environment = SupervisedEnvironment(LocalEnvironment(), settings=Supervision(policy="default"))
        >>> environment.execute({"command": "echo hello"})["output"]
        'hello\\n'
        >>> environment.execute({"command": "hla requests approve 42"})["returncode"]
        126
        >>> environment.end_run("finished")
    """

    _in_agent = False
    _step = 0
    _words = ""

    def new_run(self) -> None:
        """Begin a run of an agent, which from now on says where messages begin and when the run ends."""
        self._in_agent = True
        super().new_run()

    def new_message(self, message: dict[str, Any], step: int) -> None:
        """Take the actions that follow as those of `message`.

        Args:
            message: mini's, with the model's words.
            step: how many calls of the model there were.
        """
        self._in_agent = True
        self._step = step
        self._words = model_words(message)
        self.supervisor.new_message()

    def exit_message(self) -> dict[str, Any] | None:
        """Return mini's exit message where supervision ends the run, else None."""
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
        record, output = self._supervise(
            self._proposed(command, action, cwd),
            lambda permit: self._run(permit.action, action, cwd, kwargs, permit),
            ends=(Submitted,),
        )
        if not record.executed:
            return _not_executed(record.text, record.public())
        output["extra"] = {**(output.get("extra") or {}), "supervision": record.public()}
        if record.edited:
            info = output.get("exception_info")
            output["exception_info"] = f"{record.text}\n{info}" if info else record.text
        if self.runs_here:
            self._inner._check_finished(output)
        return output

    def serialize(self) -> dict[str, Any]:
        """Return the inner environment's own, and what supervision decided."""
        info = {
            "run_id": getattr(self.supervisor.gate, "run_id", ""),
            "project": str(self.project),
            "settings": self.settings.model_dump(mode="json"),
            "records": self.records(),
        }
        merged: dict[str, Any] = recursive_merge(self._inner.serialize(), {"info": {"supervision": info}})
        return merged

    def _run_for_harness(self, action: dict[str, Any], cwd: str, options: dict[str, Any]) -> dict[str, Any]:
        """Run a startup command of a batch run's harness: the operator's own word, recorded and not asked about."""
        proposed = self._proposed(str(action.get("command", "")), action, cwd)
        self.supervisor.gate.record(
            proposed, self.supervisor.gate.director.evaluate(proposed), left_to="the harness: its own startup command"
        )
        output = self._run(proposed, action, cwd, options)
        code = output.get("returncode")
        record = Record(
            proposed.content, executed=True, by="harness", returncode=code if isinstance(code, int) else None
        )
        self.supervisor.records.append(record)
        return output

    def _proposed(self, command: str, action: dict[str, Any], cwd: str) -> Action:
        call_id = str(action.get("tool_call_id") or "")
        return self._propose(command, cwd, step=self._step, words=self._words, call_id=call_id)

    def _run(
        self,
        permitted: Action,
        action: dict[str, Any],
        cwd: str,
        options: dict[str, Any],
        permit: "Permit | None" = None,
    ) -> dict[str, Any]:
        """Run what is permitted of `action`, here or in the inner environment, and return the result as mini has it."""
        if not self.runs_here:
            ran: dict[str, Any] = self._inner.execute({**action, "command": permitted.content}, cwd, **options)
            return ran
        seconds = options.get("timeout") or self._inner.config.timeout
        try:
            result = self._run_here(permitted, seconds, permit)
        except (OSError, ValueError) as error:
            return _failed(error)
        moved = {"moved": result.moved, "network": result.network}
        if result.unwatched:
            return {**_failed(OSError(text("unwatched")), result.output), **moved, "unwatched": True}
        if result.timed_out:
            return _failed(subprocess.TimeoutExpired(permitted.content, seconds), result.output) | moved
        if result.returncode is None:
            return _failed(OSError("its end was not seen"), result.output) | moved
        return {"output": result.output, "returncode": result.returncode, "exception_info": _besides(result)} | moved


class SupervisedLocalEnvironment(EnforcingLocalEnvironment, SupervisedEnvironment):
    """mini's local environment, supervised: for `--environment-class`, batch runs, and any agent class.

        mini -c mini.yaml --environment-class humanlayer_agent.agents.mini.SupervisedLocalEnvironment

    Args:
        director, user, gate: see `SupervisedAgent`.
        supervision: the settings (see `Supervision`).
        config: mini's own settings (cwd, env, timeout in seconds).

    Raises:
        ConfigError: a setting that does not exist or can't be used.

    Example:
        >>> environment = SupervisedLocalEnvironment(supervision={"policy": "default"}, timeout=30)
        >>> environment.execute({"command": "echo hello"})["output"]
        'hello\\n'
        >>> environment.end_run("finished")
    """


def model_words(message: dict[str, Any]) -> str:
    """Return the text a model wrote with its actions, in any of mini's message formats; "" for a user's own command."""
    if message.get("role") == "user":
        return ""
    blocks: list[Any] = []
    for item in _list(message.get("output")):  # the Responses API
        if isinstance(item, dict) and item.get("type") == "message":
            blocks += _list(item.get("content"))
    blocks += _list(message.get("content"))
    texts = [block.get("text") if isinstance(block, dict) else block for block in blocks]
    return "\n".join(text for text in texts if isinstance(text, str))[:WORDS_LIMIT].strip()


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


def _besides(result: CommandResult) -> str:
    left = f"{result.left} processes it left in the background belong to another user and could not be ended"
    return "\n".join(filter(None, (left if result.left else "", result.note)))
