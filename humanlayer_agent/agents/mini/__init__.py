"""Supervision of mini-swe-agent 2.4: every command it wants to run is judged first.

The environment is the choke point: `SupervisedEnvironment` stands in front of any of mini's environments, and its
`execute` is the only way to them. The agent classes wrap the environment they are given, and add what only an agent
knows: the model's words, and where one message ends. What may not run becomes an ordinary observation, because an
exception out of the middle of a message would leave tool calls without results, and the model's API refuses that.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from humanlayer_agent.agents.presenter import Presenter, attached
from humanlayer_agent.agents.supervision import Record, Supervision, refuse_misspelled_section, supervision_settings
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks

try:
    from minisweagent.agents.default import AgentConfig, DefaultAgent
    from minisweagent.exceptions import InterruptAgentFlow

    from humanlayer_agent.agents.enforcement import whole_run
    from humanlayer_agent.agents.mini.environment import SupervisedEnvironment, SupervisedLocalEnvironment, model_words
except ImportError as error:
    # Not as an ImportError: mini would report it as "Unknown agent type" and hide what is missing.
    raise ConfigError(lacks("mini-swe-agent 2.4", "mini", error)) from error

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate

__all__ = [
    "HumanLayerAgent",
    "SupervisedAgent",
    "SupervisedAgentConfig",
    "SupervisedEnvironment",
    "SupervisedInteractiveAgent",
    "SupervisedLocalEnvironment",
]


class Supervised:
    """Mixin for mini's agents: whatever environment the agent is given, its actions are judged first.

    Args:
        model, env: mini's model and environment.
        director: judges each action: has `evaluate(action)`, or only `should_allow(action) -> (bool, reason)`.
            Default: the policy in `supervision`.
        user: is asked where the director does not allow: has `query(prompt, options=[...])`, of which only an answer
            that is exactly the last option approves. Default: the terminal.
        gate: instead of both; decides, asks and records.
        watch: called with a `Record` and the output for each action, for display. Then nothing else is shown.
        config: mini's own settings, and `supervision` (see `Supervision`).

    Raises:
        ConfigError: a setting that does not exist or can't be used.
    """

    default_config_class: type = AgentConfig
    presenter: Presenter | None = None
    model: Any
    config: Any
    _start_time: float
    n_calls: int

    def __init__(
        self,
        model: Any,
        env: Any,
        director: Any = None,
        user: Any = None,
        *,
        gate: "Gate | None" = None,
        watch: Callable[[Record, str], None] | None = None,
        config_class: type | None = None,
        **config: Any,
    ) -> None:
        config_class = config_class or self.default_config_class
        refuse_misspelled_section(config, getattr(config_class, "model_fields", ()))
        settings = supervision_settings(config.pop("supervision", None))
        if "supervision" in getattr(config_class, "model_fields", ()):
            config["supervision"] = settings
        self._supervision = settings
        self._judges: dict[str, Any] = {"director": director, "user": user, "gate": gate, "watch": watch}
        super().__init__(model, env, config_class=config_class, **config)  # type: ignore[call-arg]
        self.presenter = self._presented()

    @property
    def env(self) -> SupervisedEnvironment:
        """The supervised environment. Whatever is assigned is supervised from then on."""
        return self._env

    @env.setter
    def env(self, env: Any) -> None:
        if isinstance(env, SupervisedEnvironment):
            if any(judge is not None for judge in self._judges.values()):
                raise ConfigError(
                    "the environment is supervised already: give director, user, gate and watch to one of the two"
                )
            if self._supervision not in (Supervision(), env.settings):
                # Else a stricter policy that was asked for would silently not be in force.
                raise ConfigError("agent and environment have different supervision: settings; give them to one")
            self._env = env
        else:
            self._env = SupervisedEnvironment(env, settings=self._supervision, **self._judges)
        if self.presenter is not None:
            self._env.watch = self.presenter.record

    def run(self, task: str = "", **kwargs: Any) -> dict[str, Any]:
        """Run until the agent is finished.

        Returns:
            mini's dictionary with exit_status and submission.

        Raises:
            ModelUnusable: the model can't be asked, and waiting does not mend that (see `agents.preflight`).
        """
        with whole_run(self.env, self.model, self.presenter, human=self._is_human()) as status:
            result: dict[str, Any] = self._mini().run(task, **kwargs)
            status.value = str(result.get("exit_status") or status.value)
            return result

    def add_messages(self, *messages: dict[str, Any]) -> list[dict[str, Any]]:
        """mini's, and the model's words are shown."""
        added: list[dict[str, Any]] = self._mini().add_messages(*messages)
        if self.presenter is None:
            return added
        for message in messages:
            extra = message.get("extra") or {}
            if message.get("role") == "assistant" or message.get("object") == "response":
                commands = [str(action.get("command", "")) for action in extra.get("actions") or ()]
                self.presenter.words(model_words(message), commands)
            elif extra.get("interrupt_type") == "FormatError":
                self.presenter.no_command()
        return added

    def execute_actions(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Execute what the model proposed, as far as it is permitted.

        Raises:
            InterruptAgentFlow: supervision ends the run; every action has its observation by then.
        """
        self.env.new_message(message, self.n_calls)
        try:
            observations: list[dict[str, Any]] = self._mini().execute_actions(message)
        finally:
            self._start_time += self.env.supervisor.take_waited()
        if (exit_message := self.env.exit_message()) is not None:
            raise InterruptAgentFlow(exit_message)
        return observations

    def _mini(self) -> Any:
        """Return mini's own methods."""
        return super()

    def _presented(self) -> Presenter | None:
        """Return what shows this agent's runs."""
        return attached(self.env)

    def _is_human(self) -> bool:
        """Tell whether it is a human who proposes the commands at first, and no model need be there."""
        return getattr(self.config, "mode", "") == "human"


class SupervisedAgentConfig(AgentConfig):  # type: ignore[misc]
    """mini's settings of an agent, and the section `supervision`."""

    supervision: Supervision = Supervision()


class SupervisedAgent(Supervised, DefaultAgent):  # type: ignore[misc]
    """mini's default agent, supervised (see `Supervised`).

    Example:
        >>> from minisweagent.environments.local import LocalEnvironment
        >>> from minisweagent.models.test_models import DeterministicModel
        >>> model, templates = DeterministicModel(outputs=[]), {"system_template": "", "instance_template": "{{task}}"}
        >>> agent = SupervisedAgent(model, LocalEnvironment(), **templates, supervision={"policy": "strict"})
    """

    default_config_class = SupervisedAgentConfig


HumanLayerAgent = SupervisedAgent
"""The seed design's name."""

if TYPE_CHECKING:
    from humanlayer_agent.agents.mini.interactive import SupervisedInteractiveAgent as SupervisedInteractiveAgent


def __getattr__(name: str) -> Any:
    # Importing mini's interactive agent opens a prompt on stdin: not for those who don't use it.
    if name == "SupervisedInteractiveAgent":
        from humanlayer_agent.agents.mini.interactive import SupervisedInteractiveAgent

        return SupervisedInteractiveAgent
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
