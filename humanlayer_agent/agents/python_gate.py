"""A Gate for any Python code, made from the user's own settings, that runs what it permits."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from humanlayer_agent.action import Action, called
from humanlayer_agent.agents.dotenv import refuse_env_file
from humanlayer_agent.agents.file_keeper import keeper_of
from humanlayer_agent.agents.held_runs import holder_of, run_or_apply
from humanlayer_agent.agents.run_enclosures import RunEnclosures, directed, wanted
from humanlayer_agent.approvals import gate
from humanlayer_agent.approvals.gate import Holder
from humanlayer_agent.approvals.model import Denial, Permit
from humanlayer_agent.errors import ActionDenied, ConfigError
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.processes.execution import CommandResult, command_environment, warn_unless_protected

TIMEOUT_S = 3_600.0
"""Seconds a command may run where nothing else is said."""
_running: ContextVar["Gate | None"] = ContextVar("running", default=None)
"""The Gate that runs by itself what it is about to judge."""


class Gate(gate.Gate):
    """A Gate that runs commands as agents' commands are run.

    They get a session of their own, nothing of our secrets, and everything they start ends when they end.

    Args:
        director, store, asker: see `approvals.gate.Gate`, whose other arguments it takes as well. `from_config` makes
            them from the user's settings.

    Example:
        >>> from humanlayer_agent import Gate
        >>> with Gate.from_config(policy="default") as gate:
        ...     gate.run("echo hello | tr a-z A-Z").output
        'HELLO\\n'
    """

    enclosures: RunEnclosures | None = None
    """Where allowed commands are started that the kernel holds."""
    holds_all = False
    """Whoever calls `check` and `start` has commands held as well; else `run` alone does."""

    @classmethod
    def from_config(
        cls,
        *,
        agent: str = "python",
        project: Path | str | None = None,
        confine: bool | None = None,
        tmp: str | None = None,
        **settings: Any,
    ) -> Self:
        """Return the Gate that the policies and channels of the machine, the user and the project make.

        Args:
            agent: who proposes the actions, for humans and the log.
            project: the directory it works for; the git top level of the current one where it is None.
            confine: hold what the policy allows to its confinement. None: `run` does wherever this machine can, as
                `agents.supervision.Supervision` has it; what `check` is asked about is judged as for what is not
                confined. True: it is an error where this machine can't, and whoever calls `check` and `start` runs a
                permit by `run_enclosures.run_permitted`. False: nothing is confined.
            tmp: names the folder that confined commands see as /tmp; one of this Gate's own where it is None.
            settings: as `configuration.build_gate` takes them (policy, channels, store, user, timeout_ms, ...).

        Raises:
            ConfigError: a file can't be read or has a mistake.
        """
        from humanlayer_agent.configuration import build_gate, find_project

        if "litellm" in sys.modules:  # the program is an agent of its own
            refuse_env_file(Path(project) if project else find_project())
        enclosures = None
        if settings.get("director") is None:
            policy, observe = settings.pop("policy", None), settings.pop("observe", False)
            settings["director"], enclosures = directed(
                policy, project=project or find_project(), observe=observe, confine=confine, run=tmp
            )
        elif wanted(confine):
            raise ConfigError("confine: only what the policies allow can be confined")
        keeper = keeper_of(enclosures, project or find_project(), tmp or "")
        settings |= {"keeper": keeper, "holder": holder_of(enclosures)}
        made = build_gate(agent=agent, project=project, kind=cls, **settings)
        made.enclosures, made.holds_all = enclosures, confine is True
        return made

    def call(self, tool: str, arguments: Mapping[str, Any], *, cwd: str | Path | None = None) -> Action:
        """Return the call of a tool as an action of this Gate's project.

        Args:
            tool: its name, as policies and humans know it ("mcp__forge__close").
            arguments: what it is given, as JSON can say it: all of it is shown, and part of what is approved.
            cwd: the directory that relative paths are meant from; that of this process where it is None.

        Raises:
            ValueError: that is no name, or what it is given can't be shown to a human.
        """
        here = os.path.abspath(cwd or os.getcwd())
        return called(tool, arguments, cwd=here, project=str(getattr(self.director, "project", "") or here))

    def decide(self, tool: str, arguments: Mapping[str, Any], *, cost: float | None = None) -> Permit | Denial:
        """Judge the call of a tool, and wait for a human where the policy asks for one.

        Args:
            tool, arguments: as for `call`.
            cost: what it costs, for limits of the policy.

        Returns:
            A `Permit`, for `using`, or a `Denial`, for `denial_text`. What can't be shown to a human is denied.
        """
        try:
            action = self.call(tool, arguments)
        except ValueError as error:
            return self.refuse(tool, str(error))
        return self.check(replace(action, cost=cost))

    @contextmanager
    def tool_call(self, tool: str, arguments: Mapping[str, Any], *, cost: float | None = None) -> Iterator[Permit]:
        """Judge the call of a tool, ask, and record what becomes of it: the body is the call.

        Raises:
            ActionDenied: it may not be made; the body is not entered.

        Example::

            with gate.tool_call("pay", {"account": "DE02", "amount": 300}):
                pay("DE02", 300)
        """
        permit = self.decide(tool, arguments, cost=cost)
        if isinstance(permit, Denial):
            raise ActionDenied(permit)
        with self.using(permit, self.call(tool, arguments)):  # as they are by now
            yield permit

    def run(
        self,
        command: str,
        cwd: str | Path | None = None,
        *,
        project: str = "",
        env: Mapping[str, str] | None = None,
        timeout: float = TIMEOUT_S,
        cost: float | None = None,
    ) -> CommandResult:
        """Judge, ask, run and record one command.

        Args:
            command: for bash.
            cwd: the directory it starts in; that of this process where it is None.
            project: the directory the agent works for; that of the Director where it is empty.
            env: variables it gets beside those of this process that supervised, or confined, commands get.
            timeout: seconds until it is killed; the result then has the output so far.
            cost: what it costs, for limits of the policy.

        Raises:
            ActionDenied: it may not run; `denial` says why.
            OSError: it can't be started (no such directory, ...).
        """
        warn_unless_protected()
        here = os.path.abspath(cwd or os.getcwd())
        project = project or str(getattr(self.director, "project", "") or here)
        environment = command_environment if self.enclosures is None else self.enclosures.environment
        given = environment(os.environ, env, project=project)
        action = Action(command, cwd=here, project=project, env=given, cost=cost)

        def execute(permit: Permit) -> CommandResult:
            return run_or_apply(permit, self.enclosures, self.holder, timeout=timeout)

        token = _running.set(self)
        try:
            return self._run(action, execute)
        finally:
            _running.reset(token)

    @property
    def holder(self) -> Holder | None:
        """Return what runs commands held: for `run` alone, which applies them as well."""
        return super().holder if _running.get() is self else None

    def _evaluated(self, action: Action) -> PolicyDecision:
        if self.enclosures is None or self.holds_all or _running.get() is self:
            decision = super()._evaluated(action)
            if decision.confinement is None or decision.confinement.reads(action.cwd):
                return decision  # else nothing can be started there confined
        own: Any = self.director  # with enclosures, and with a confinement, goes a Director of ours
        unheld: PolicyDecision = own.evaluate(action, held=False)
        return unheld
