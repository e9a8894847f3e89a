"""The choke point of mini-swe-agent's supervision, for its versions 1 and 2: a stand-in for one of its environments.

The two versions have the same import name and are never installed together; this imports under either. How an action
comes in, what is answered and what ends a run differ: `mini.environment` and `mini_v1` say that.
"""

import logging
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minisweagent.environments.local import LocalEnvironment, LocalEnvironmentConfig

from humanlayer_agent.action import BASH, Action
from humanlayer_agent.agents.containers import confinement_of
from humanlayer_agent.agents.dotenv import refuse_env_file
from humanlayer_agent.agents.file_keeper import keeper_of
from humanlayer_agent.agents.held_runs import holder_of, run_or_apply
from humanlayer_agent.agents.preflight import check_model, end_retries_early
from humanlayer_agent.agents.presenter import Presenter
from humanlayer_agent.agents.run_enclosures import RunEnclosures, directed, wanted
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
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.confine.confinement import Unenforceable
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.processes.execution import CommandResult, command_environment, run_command, warn_unless_protected
from humanlayer_agent.processes.process_tree import end_fork_server

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate
    from humanlayer_agent.policy.director import Director

logger = logging.getLogger("humanlayer_agent")

WORDS_LIMIT = 4_000
"""Characters of what the model wrote with its commands that a request keeps."""

_INTERPRETERS = {
    "SingularityEnvironment": ("bash", "-c"),
    "BubblewrapEnvironment": ("bash", "-c"),
    "DockerEnvironment": ("bash", "-lc"),  # version 1; version 2 has it in its settings
}


class RunStatus:
    """The status that a run ends with, as mini has it."""

    value = "failed"


@contextmanager
def whole_run(
    environment: "EnforcingEnvironment", model: Any, presenter: Presenter | None, *, human: bool
) -> Iterator[RunStatus]:
    """Begin an agent's run in `environment`, and end it, however it ends.

    Args:
        human: a human proposes the commands at first: then no model need be there yet.

    Raises:
        ModelUnusable: the model can't be asked, and waiting does not mend that.
    """
    environment.new_run()
    supervisor, status, shown = environment.supervisor, RunStatus(), presenter is not None
    try:
        if presenter is not None:
            presenter.opening(supervisor)
        end_retries_early(model)
        note = "" if human else check_model(model)
        if presenter is not None:
            presenter.note(note)
        yield status
    except BaseException as error:
        status.value = "Interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__
        shown = shown and not isinstance(error, SystemExit | GeneratorExit)
        shown = shown and bool(supervisor.records or not isinstance(error, ConfigError))
        environment.end_run(f"failed: {type(error).__name__}")
        raise
    else:
        environment.end_run(status.value)
    finally:
        if presenter is not None and shown:
            presenter.closing(supervisor, status.value)


class EnforcingEnvironment:
    """A stand-in for one of mini's environments; its subclass for each version judges every action in `execute`.

    Everything else is the inner environment's. Commands for mini's LocalEnvironment are run by
    `processes.execution.run_command` (as bash, away from the terminal and our secrets); others run their own.

    Args:
        inner: the environment that is supervised.
        director, user, gate: who judges and who is asked (see `mini.Supervised`).
        settings: see `Supervision`.
        watch: called with a `Record` and the output for each action, for display.

    Raises:
        ConfigError: the environment is supervised already, or a setting can't be used.
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
        if isinstance(inner, EnforcingEnvironment):
            raise ConfigError("this environment is supervised already")
        settings = settings or Supervision()
        # A subclass that runs commands in its own way keeps its way.
        self.runs_here = getattr(type(inner), "execute", None) is LocalEnvironment.execute
        self._inner = inner
        self.settings = settings
        self.watch = watch
        self._start = os.getcwd()
        if self.runs_here:
            warn_unless_protected()
        known = director if gate is None else getattr(gate, "director", None)
        elsewhere = Path(_directory_of(inner)) if not self.runs_here and _directory_of(inner) else None
        self.project = project_of(settings, known, elsewhere)
        self._enclosures: RunEnclosures | None = None
        self._environment()  # a setting that can't be used is an error now, not at the first command
        self._close: weakref.finalize[..., Any] | None = None
        confinable = self._confinable(director, gate)

        def supervisor() -> Supervisor:
            judge, self._enclosures = self._directed() if confinable else (director, None)
            keeper = keeper_of(self._enclosures, self.project if self.runs_here else None)
            parts = {"keeper": keeper, "holder": holder_of(self._enclosures)}
            opened = open_gate(settings, director=judge, user=user, gate=gate, project=self.project, parts=parts)
            if gate is None and director is None and not self.runs_here:
                own: Any = opened.director
                own.reader = None  # the files of this machine are not those that its commands run
            if gate is None:  # ours to close, also where no agent says that the run has ended
                self._close = weakref.finalize(self, close_gate, opened)
            return Supervisor(opened, settings)

        self._new_supervisor = supervisor
        self.supervisor = supervisor()

    def __getattr__(self, name: str) -> Any:
        if name == "_inner":  # not there yet: while being copied or unpickled
            raise AttributeError(name)
        return getattr(self._inner, name)

    @property
    def confines(self) -> bool:
        """Tell whether what the policy allows runs confined."""
        judge = self.supervisor.gate.director
        return getattr(judge, "confined", False) or getattr(judge, "container", None) is not None

    def new_run(self) -> None:
        """Begin a run of an agent."""
        if self._close is not None and not self._close.alive:
            self.supervisor = self._new_supervisor()
        self.supervisor.new_run()

    def end_run(self, status: str) -> None:
        """End the agent's run: what is still open of it in the store is settled."""
        end_fork_server()
        if self._close is not None and self._close.detach():
            close_gate(self.supervisor.gate, status)

    def records(self) -> list[dict[str, Any]]:
        """Return what became of every command so far, for the trajectory."""
        return [record.listed() for record in self.supervisor.records]

    def _propose(self, command: str, cwd: str, *, step: int, words: str, call_id: str = "") -> Action:
        """Return the action to judge: `command`, and all that is known of where and for whom it would run."""
        directory = cwd or _directory_of(self._inner) or self._directory()
        return Action(
            content=command,
            cwd=os.path.abspath(directory) if self.runs_here else directory,
            project=str(self.project),
            interpreter=BASH if self.runs_here else _interpreter_of(self._inner),
            env=self._environment() if self.runs_here else {},  # elsewhere there are more that we don't know
            agent=self.settings.agent,
            run_id=getattr(self.supervisor.gate, "run_id", "") or "",
            step=step,
            call_id=call_id,
            model_intent=words,
        )

    def _supervise(
        self,
        proposed: Action,
        run: Callable[[Permit], dict[str, Any]],
        ends: tuple[type[Exception], ...] = (),
    ) -> tuple[Record, dict[str, Any]]:
        """Judge `proposed`, and run what is permitted.

        Args:
            run: runs what is permitted and returns mini's result; `unwatched` in it says that the run is over with it,
                `moved` what of it was moved aside, `network` what was forwarded for it.
            ends: what `run` raises where the command ran to its end and ended the task. It is recorded, and passed on.

        Returns:
            What became of it, and the result: empty where nothing ran.
        """
        output: dict[str, Any] = {}
        ended: list[Exception] = []

        def outcome(permit: Permit) -> Outcome:
            to = permit.decision.confinement
            if not self.runs_here and to is not None and to != confinement_of(self._inner):
                raise Unenforceable("the container is not the one that it was judged by")
            try:
                output.update(run(permit))
            except ends as end:
                ended.append(end)
                return Outcome(0)
            code = output.get("returncode")
            unwatched, moved = bool(output.pop("unwatched", False)), output.pop("moved", ())
            network = output.pop("network", {})
            info = str(output.get("exception_info") or "")
            return Outcome(
                code if isinstance(code, int) else None, info, unwatched=unwatched, moved=moved, network=network
            )

        record = self.supervisor.supervise(proposed, outcome)
        if self.watch is not None:
            self.watch(record, str(output.get("output", "")))
        if ended:
            raise ended[0]
        return record, output

    def _confinable(self, director: Any, gate: "Gate | None") -> bool:
        """Tell whether the commands of this run may be confined, as far as that is not the machine's to say."""
        why = ""
        if self.settings.keep_background:
            why = "confine and keep_background: nothing that a confined command starts can outlive it"
        if director is not None or gate is not None:
            why = "confine: only what the policies allow can be confined"
        if why and wanted(self.settings.confine):
            raise ConfigError(why)
        return not why

    def _directed(self) -> "tuple[Director, RunEnclosures | None]":
        """Who judges the commands of this run, and what encloses those that are allowed."""
        refuse_env_file(self.project)
        settings = self.settings
        return directed(
            settings.policy,
            project=self.project,
            observe=settings.observe,
            confine=settings.confine,
            cwd=os.path.abspath(_directory_of(self._inner) or self._start),
            path=_variables_of(self._inner).get("PATH"),
            container=None if self.runs_here else self._inner,
        )

    def _run_here(self, action: Action, timeout: int, permit: Permit | None = None) -> CommandResult:
        """Run the command of `action`, which `permit` lets run, on this machine; `timeout` in seconds."""
        keep = self.settings.keep_background
        if permit is not None:
            holder = self.supervisor.gate.holder
            return run_or_apply(permit, self._enclosures, holder, timeout=timeout, keep_background=keep)
        argv = (*action.interpreter, action.content)
        return run_command(argv, cwd=action.cwd, env=action.env, timeout=timeout, keep_background=keep)

    def _directory(self) -> str:
        try:
            return os.getcwd()
        except OSError:  # a command removed it
            return self._start

    def _environment(self) -> dict[str, str]:
        own = _variables_of(self._inner)
        if not self.runs_here:
            return own
        environment = command_environment if self._enclosures is None else self._enclosures.environment
        return environment(os.environ, own, self.settings.pass_env, str(self.project))


class EnforcingLocalEnvironment(EnforcingEnvironment):
    """mini's local environment, supervised, made of its settings: what each version's class for that has in common.

    Args:
        director, user, gate: see `mini.Supervised`.
        supervision: the settings (see `Supervision`).
        config_class: mini's, for its own settings.
        config: those (cwd, env, timeout in seconds).

    Raises:
        ConfigError: a setting that does not exist or can't be used.
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
        refuse_misspelled_section(config, getattr(config_class, "__annotations__", ()))
        settings = supervision_settings(supervision)
        if settings.after_denial == "skip_rest":
            logger.info("after_denial: skip_rest needs a supervised agent; without one every command is judged")
        inner = LocalEnvironment(config_class=config_class, **config)
        super().__init__(inner, director=director, user=user, gate=gate, settings=settings)


# What else an environment has under these names, a mock's attributes for example, says nothing.


def _interpreter_of(environment: Any) -> tuple[str, ...]:
    """Return the argv prefix by which an environment runs commands elsewhere, or ("unknown",)."""
    configured = getattr(environment.config, "interpreter", None)
    if configured and isinstance(configured, list | tuple):
        return tuple(str(part) for part in configured)
    return _INTERPRETERS.get(type(environment).__name__, ("unknown",))


def _directory_of(environment: Any) -> str:
    """Return the directory an environment is set to start commands in, or ""."""
    configured = getattr(environment.config, "cwd", "")
    return os.fspath(configured) if isinstance(configured, str | Path) else ""


def _variables_of(environment: Any) -> dict[str, str]:
    """Return the variables an environment is set to give commands."""
    configured = getattr(environment.config, "env", None)
    return dict(configured) if isinstance(configured, Mapping) else {}
