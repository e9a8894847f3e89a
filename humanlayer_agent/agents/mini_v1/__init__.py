"""Supervision of mini-swe-agent 1.17: every command it wants to run is judged first.

There is one action in each message and no tool calls, so a denial is what version 1 knows for "not executed, go on": a
`NonTerminatingException`, whose text the model reads next. What ends the run is a `TerminatingException`. Both come out
of the environment, which is the only way to a shell for every agent class. Versions 1 and 2 have the same import name
and can't be installed together.

    python -m humanlayer_agent.agents.mini_v1 -m MODEL -t TASK
"""

import re
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from humanlayer_agent.agents.presenter import Presenter, attached
from humanlayer_agent.agents.supervision import Record, refuse_misspelled_section, supervision_settings
from humanlayer_agent.approvals.denial_texts import text
from humanlayer_agent.errors import ConfigError

try:
    from minisweagent.agents.default import AgentConfig, DefaultAgent, NonTerminatingException, TerminatingException

    from humanlayer_agent.agents.enforcement import (
        WORDS_LIMIT,
        EnforcingEnvironment,
        EnforcingLocalEnvironment,
        whole_run,
    )
except ImportError as error:
    raise ConfigError(
        f"mini-swe-agent 1.17 is needed here, and it can't be imported ({error}): pip install 'mini-swe-agent==1.17.*' "
        "in an environment of its own (for version 2 there is humanlayer_agent.agents.mini)"
    ) from error

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.approvals.model import Permit

__all__ = [
    "ActionDenied",
    "SupervisedAgent",
    "SupervisedEnvironment",
    "SupervisedInteractiveAgent",
    "SupervisedLocalEnvironment",
    "SupervisedTextualAgent",
    "SupervisionDenials",
    "SupervisionTerminated",
]

_FINISHED = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")


class ActionDenied(NonTerminatingException):  # type: ignore[misc]
    """Raised where the command was not run. Its text is for the model."""


class SupervisionTerminated(TerminatingException):  # type: ignore[misc]
    """Raised where a human has ended the run."""


class SupervisionDenials(TerminatingException):  # type: ignore[misc]
    """Raised where the run was ended after too many denials in a row."""


_ENDS: dict[str, type[Exception]] = {each.__name__: each for each in (SupervisionTerminated, SupervisionDenials)}


class SupervisedEnvironment(EnforcingEnvironment):
    """One of mini-swe-agent 1.17's environments, supervised (see `EnforcingEnvironment`).

    An action is the command's text. What did not run, and what ends the run, is raised.

    Example::

            environment = SupervisedEnvironment(LocalEnvironment(), settings=Supervision(policy="default"))
            environment.execute("echo hello")["output"]  # 'hello\\n'
    """

    agent: Any = None
    """Whose model proposes the commands: its last message says why."""

    def execute(self, command: str, cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Judge the command, and run it in the inner environment if it is permitted.

        Args:
            command: for bash.
            cwd: the directory it starts in; that of the environment where it is "".
            timeout: seconds; that of the environment where it is None.

        Raises:
            ActionDenied: it was not run, and the run goes on.
            SupervisionTerminated, SupervisionDenials: it was not run, and the run ends.
            subprocess.TimeoutExpired: as mini's environment raises it.
        """
        if not isinstance(command, str):
            raise ActionDenied(text("not_text", type=type(command).__name__))
        self.supervisor.new_message()
        step = int(getattr(getattr(self.agent, "model", None), "n_calls", 0))
        record, output = self._supervise(
            self._propose(command, cwd, step=step, words=self._words()),
            lambda permit: self._run(permit, cwd, timeout),
        )
        if self.supervisor.exit is not None:
            raise _ENDS[self.supervisor.exit.status](self.supervisor.exit.content)
        if not record.executed:
            raise ActionDenied(record.text)
        if record.edited and not _finishes(output):
            output["output"] = f"{output.get('output', '')}\n{record.text}"
        return output

    def _words(self) -> str:
        """Return the model's words with its command; "" for a command that a human typed."""
        if self.agent is None or getattr(self.agent.config, "mode", "") == "human":
            return ""
        said = [m.get("content") for m in self.agent.messages if m.get("role") == "assistant"]
        content = said[-1] if said else ""
        return content[:WORDS_LIMIT].strip() if isinstance(content, str) else ""

    def _run(self, permit: "Permit", cwd: str, timeout: int | None) -> dict[str, Any]:
        """Run what is permitted, here or in the inner environment, and return the result as mini has it."""
        permitted = permit.action
        if not self.runs_here:
            ran: dict[str, Any] = self._inner.execute(permitted.content, cwd, timeout=timeout)
            return ran
        seconds = timeout or self._inner.config.timeout
        result = self._run_here(permitted, seconds, permit)
        if result.unwatched:  # then the run has ended
            return {
                "output": result.output,
                "returncode": None,
                "unwatched": True,
                "moved": result.moved,
                "network": result.network,
            }
        if result.timed_out:
            raise subprocess.TimeoutExpired(permitted.content, seconds, output=result.output.encode())
        if result.returncode is None:
            raise ActionDenied("The end of the command was not seen: it ended the process that watched over it.")
        output = "\n".join(filter(None, (result.output, result.note)))
        return {"output": output, "returncode": result.returncode, "moved": result.moved, "network": result.network}


class SupervisedLocalEnvironment(EnforcingLocalEnvironment, SupervisedEnvironment):
    """mini's local environment, supervised: for any agent class, and for `environment_class` in mini's settings.

    Args:
        director, user, gate: see `SupervisedAgent`.
        supervision: the settings (see `Supervision`).
        config: mini's own settings (cwd, env, timeout in seconds).

    Raises:
        ConfigError: a setting that does not exist or can't be used.

    Example::

            environment = SupervisedLocalEnvironment(supervision={"policy": "strict"}, timeout=30)
            DefaultAgent(model, environment).run("make the tests pass")
    """


class Supervised:
    """Mixin for mini's agents: whatever environment the agent is given, its commands are judged first.

    Args:
        model, env: mini's model and environment.
        director, user, gate, watch: see `mini.Supervised`.
        config: mini's own settings, and `supervision` (see `Supervision`).

    Raises:
        ConfigError: a setting that does not exist or can't be used.
    """

    env: Any
    model: Any
    config: Any
    presenter: Presenter | None = None

    def __init__(
        self,
        model: Any,
        env: Any,
        director: Any = None,
        user: Any = None,
        *,
        gate: "Gate | None" = None,
        watch: Callable[[Record, str], None] | None = None,
        supervision: object = None,
        **config: Any,
    ) -> None:
        refuse_misspelled_section(config, AgentConfig.__dataclass_fields__)
        supervised = SupervisedEnvironment(
            env,
            director=director,
            user=user if user is not None or gate is not None else self._own_user(),
            gate=gate,
            settings=supervision_settings(supervision),
            watch=watch,
        )
        super().__init__(model, supervised, **config)  # type: ignore[call-arg]
        supervised.agent = self._proposer()
        self.presenter = self._presented()

    def run(self, task: str, **kwargs: Any) -> tuple[str, str]:
        """Run until the agent is finished.

        Returns:
            mini's exit status and result.

        Raises:
            ModelUnusable: the model can't be asked, and waiting does not mend that (see `agents.preflight`).
        """
        with whole_run(self.env, self.model, self.presenter, human=self._is_human()) as status:
            result: tuple[str, str] = self._mini().run(task, **kwargs)
            status.value = result[0]
            return result

    def add_message(self, role: str, content: str, **kwargs: Any) -> None:
        """mini's, and the model's words are shown."""
        self._mini().add_message(role, content, **kwargs)
        if self.presenter is not None and role == "assistant":
            commands = re.findall(self.config.action_regex, content, re.DOTALL)
            self.presenter.words(content, commands)
            if len(commands) != 1:
                self.presenter.no_command()

    def _mini(self) -> Any:
        """Return mini's own methods."""
        return super()

    def _presented(self) -> Presenter | None:
        """Return what shows this agent's runs."""
        return attached(self.env)

    def _is_human(self) -> bool:
        """Tell whether it is a human who proposes the commands at first, and no model need be there."""
        return getattr(self.config, "mode", "") == "human"

    def _own_user(self) -> Any:
        """Return whom this agent asks where nobody was given; None: the terminal."""
        return None

    def _proposer(self) -> Any:
        """Return the object with the messages."""
        return self


class SupervisedAgent(Supervised, DefaultAgent):  # type: ignore[misc]
    """mini's default agent, supervised (see `Supervised`).

    Example::

            agent = SupervisedAgent(model, LocalEnvironment(), supervision={"policy": "strict"})
            status, result = agent.run("make the tests pass")
    """


HumanLayerAgent = SupervisedAgent
"""The seed design's name."""

_ELSEWHERE = {
    "SupervisedInteractiveAgent": "humanlayer_agent.agents.mini_v1.interactive",
    "SupervisedTextualAgent": "humanlayer_agent.agents.mini_v1.full_screen",
}

if TYPE_CHECKING:
    from humanlayer_agent.agents.mini_v1.full_screen import SupervisedTextualAgent as SupervisedTextualAgent
    from humanlayer_agent.agents.mini_v1.interactive import SupervisedInteractiveAgent as SupervisedInteractiveAgent


def __getattr__(name: str) -> Any:
    # Importing mini's interactive agents opens a prompt on stdin: not for those who don't use them.
    if name in _ELSEWHERE:
        from importlib import import_module

        return getattr(import_module(_ELSEWHERE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _finishes(output: dict[str, Any]) -> bool:
    """Tell whether mini takes this output for the end of the task: then nothing is added to what is submitted."""
    return str(output.get("output", "")).lstrip().startswith(_FINISHED)
