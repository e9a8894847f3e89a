"""Harbor: an agent for `harbor run -a`, every command of which is judged before it reaches the environment.

    harbor run -p TASK -a humanlayer_agent.agents.harbor:SupervisedMini -m openai/gpt-5 --ak policy=sandbox

mini-swe-agent's loop runs here, in a thread, and its commands go to Harbor's environment: so what Harbor itself does
there (set-up, verifier) is not the agent's, and is not judged. What a trial's time-out has cut off does not happen any
more: its gate is closed, and a late approval finds nothing that waits for it. Needs Python 3.12 and the extra
`harbor`.
"""

import asyncio
import json
import shlex
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from humanlayer_agent import __version__
from humanlayer_agent.action import BASH
from humanlayer_agent.agents.supervision import refuse_misspelled_section, supervision_settings
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.extras import lacks

try:
    from harbor.agents.base import BaseAgent
    from harbor.agents.capabilities import AgentCapabilities
except ImportError as error:
    raise ConfigError(lacks("With Python 3.12 or newer, Harbor", "harbor", error)) from error

if TYPE_CHECKING:
    from humanlayer_agent.agents.mini import SupervisedAgent

TRAJECTORY = "mini-swe-agent.trajectory.json"
"""mini's own trajectory, in the folder of the agent's logs; beside it, trajectory.json is the same as ATIF."""


class BridgeConfig(BaseModel):
    """The settings of a `HarborBridge`: where commands start, and how many seconds one may take."""

    cwd: str
    timeout: int = 120
    interpreter: list[str] = list(BASH)


class HarborBridge:
    """One of mini's environments, whose commands run in one of Harbor's.

    Args:
        environment: Harbor's.
        loop: the event loop that it belongs to; `execute` is called in another thread.
        cwd: the directory that commands start in.
        timeout: seconds that a command may take.
    """

    def __init__(self, environment: Any, loop: asyncio.AbstractEventLoop, *, cwd: str, timeout: int = 120) -> None:
        self.config = BridgeConfig(cwd=cwd, timeout=timeout)
        self._environment, self._loop = environment, loop
        self._lock = threading.Lock()
        self._running: Future[Any] | None = None
        self._over = False

    def execute(self, action: dict[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run a command, as bash and nothing else, whatever Harbor's environment would take."""
        line = shlex.join([*self.config.interpreter, action["command"]])
        seconds = timeout or self.config.timeout
        with self._lock:
            if self._over:
                return _failed("", "the trial is over")
            started = self._environment.exec(line, cwd=cwd or self.config.cwd, timeout_sec=seconds)
            self._running = asyncio.run_coroutine_threadsafe(started, self._loop)
        try:
            result = self._running.result()
        except BaseException as error:  # a time-out, what the environment raises, a trial that is over
            if isinstance(error, KeyboardInterrupt | SystemExit):
                self._running.cancel()
                raise
            return _failed("", f"{type(error).__name__}: {error}")
        text = (result.stdout or "") + (result.stderr or "")
        self._check_finished(text, result.return_code)
        return {"output": text, "returncode": result.return_code, "exception_info": ""}

    def stop(self) -> None:
        """Cancel what runs; nothing runs any more."""
        with self._lock:
            self._over = True
            if self._running is not None:
                self._running.cancel()

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Return the variables that mini's templates may name."""
        system = {"system": "Linux", "release": "", "version": "", "machine": ""}
        return {**self.config.model_dump(), **system, **kwargs}

    def serialize(self) -> dict[str, Any]:
        """Return what mini's trajectory says of the environment."""
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        return {"info": {"config": {"environment": self.config.model_dump(), "environment_type": kind}}}

    def _check_finished(self, output: str, returncode: int) -> None:
        from minisweagent.exceptions import Submitted

        lines = output.lstrip().splitlines(keepends=True)
        if returncode == 0 and lines and lines[0].strip() == "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT":
            submission = "".join(lines[1:])
            extra = {"exit_status": "Submitted", "submission": submission}
            raise Submitted({"role": "exit", "content": submission, "extra": extra})


def _failed(output: str, why: str) -> dict[str, Any]:
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {why}",
    }


class SupervisedMini(BaseAgent):  # type: ignore[misc]
    """mini-swe-agent, supervised, as an agent of Harbor's.

    Agent options (`--ak NAME=VALUE`):
        policy: name of a shipped policy, or a file.
        supervision: further settings (see `agents.supervision.Supervision`), as JSON.
        config: mini's configuration (a file, or a name of its own) on top of its mini.yaml.
        cwd: the directory commands start in, which is the project; default: that of the environment.
        command_timeout: seconds a command may take.

    Raises:
        ConfigError: a setting that does not exist or can't be used.

    Example::

            harbor run -p TASK -a humanlayer_agent.agents.harbor:SupervisedMini -m openai/gpt-5 --ak policy=sandbox
    """

    capabilities = AgentCapabilities(atif=True)

    def __init__(
        self,
        logs_dir: Path,
        model_name: str | None = None,
        *,
        policy: str | None = None,
        supervision: dict[str, Any] | str | None = None,
        config: str | None = None,
        cwd: str | None = None,
        command_timeout: int = 120,
        **kwargs: Any,
    ) -> None:
        super().__init__(logs_dir, model_name, **kwargs)
        refuse_misspelled_section(kwargs, ())
        given = json.loads(supervision) if isinstance(supervision, str) else dict(supervision or {})
        self._settings = {**given, **({"policy": policy} if policy else {})}
        self._config, self._cwd, self._timeout = config, cwd, int(command_timeout)
        supervision_settings(self._settings)  # a setting that can't be used is an error now

    @staticmethod
    def name() -> str:
        """Return the name that Harbor calls it by."""
        return "humanlayer-mini"

    def version(self) -> str | None:
        """Return our version."""
        return __version__

    async def setup(self, environment: Any) -> None:
        """Do nothing: nothing is installed in the environment."""

    async def run(self, instruction: str, environment: Any, context: Any) -> None:
        """Run the task. Where the trial is cancelled meanwhile, nothing of it runs afterwards."""
        cwd = self._cwd or (await environment.exec("pwd")).stdout.strip()
        bridge = HarborBridge(environment, asyncio.get_running_loop(), cwd=cwd, timeout=self._timeout)
        agent = await asyncio.to_thread(self._agent, bridge)
        try:
            info = await asyncio.to_thread(agent.run, instruction)
            context.metadata = {"exit_status": info.get("exit_status")}
        except asyncio.CancelledError:
            bridge.stop()
            agent.env.end_run("the trial was cancelled")
            raise
        finally:
            self._report(agent, context)

    def _agent(self, bridge: HarborBridge) -> "SupervisedAgent":
        from minisweagent.config import get_config_from_spec
        from minisweagent.models import get_model
        from minisweagent.utils.serialize import recursive_merge

        from humanlayer_agent.agents.mini import SupervisedAgent

        specs = ["mini.yaml", *([self._config] if self._config else [])]
        merged = recursive_merge(*(get_config_from_spec(spec) or {} for spec in specs))
        settings = {k: v for k, v in (merged.get("agent") or {}).items() if k not in ("agent_class", "supervision")}
        own = {**((merged.get("agent") or {}).get("supervision") or {}), **self._settings}
        settings["output_path"] = Path(self.logs_dir) / TRAJECTORY
        model = get_model(self.model_name, merged.get("model") or {})
        return SupervisedAgent(
            model, bridge, supervision={"project": bridge.config.cwd, "show": False, **own}, **settings
        )

    def _report(self, agent: "SupervisedAgent", context: Any) -> None:
        """The trajectory as ATIF, and Harbor's summary of it."""
        from humanlayer_agent.agents.harbor.atif import save_as_atif

        records = agent.env.supervisor.records
        denied = sum(not record.executed for record in records)
        counted = {"commands": len(records), "not_executed": denied}
        context.metadata = {**(context.metadata or {}), "supervision": counted}
        context.cost_usd = agent.cost
        trajectory = save_as_atif(Path(self.logs_dir), [record.public() for record in records], self.session_id)
        if trajectory is not None and trajectory.final_metrics is not None:
            context.n_input_tokens = trajectory.final_metrics.total_prompt_tokens
            context.n_output_tokens = trajectory.final_metrics.total_completion_tokens
