"""`python -m humanlayer_agent.agents.mini_v1`: mini-swe-agent 1.17 on a task, supervised; `mini` has no such option."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from humanlayer_agent.agents.mini_v1 import SupervisedAgent
from humanlayer_agent.agents.supervision import supervision_settings
from humanlayer_agent.errors import ConfigError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def run(
    task: Annotated[str, typer.Option("-t", "--task", help="What the agent is to do.")],
    model: Annotated[str | None, typer.Option("-m", "--model", help="Any litellm model.")] = None,
    model_class: Annotated[
        str | None, typer.Option("--model-class", help="mini's name of a class, or its path.")
    ] = None,
    config: Annotated[Path | None, typer.Option("-c", "--config", help="mini's configuration file.")] = None,
    interactive: Annotated[bool, typer.Option("-i", "--interactive", help="mini's agent with modes.")] = False,
    visual: Annotated[bool, typer.Option("-v", "--visual", help="mini's full-screen agent.")] = False,
    confirm: Annotated[bool, typer.Option("--confirm", help="Let mini ask about everything too.")] = False,
    cost_limit: Annotated[float | None, typer.Option("-l", "--cost-limit", help="In dollars; 0 is none.")] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Name of a shipped policy, or a policy file.")] = None,
    project: Annotated[Path | None, typer.Option("--project", help="Directory the agent works for.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where the trajectory is written.")] = None,
) -> None:
    """Run mini-swe-agent 1.17 on a task. Every command is judged; you are asked where the policy does not allow.

    The exit code is 0 where the agent has submitted, else 1.
    """
    os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    import yaml
    from minisweagent.config import builtin_config_dir, get_config_path
    from minisweagent.environments import get_environment
    from minisweagent.run.utils.save import save_traj

    found = yaml.safe_load(get_config_path(config or builtin_config_dir / "mini.yaml").read_text()) or {}
    settings: dict[str, Any] = dict(found.get("agent") or {})
    given = {"policy": policy, "project": project}
    own = {**(settings.pop("supervision", None) or {}), **{k: v for k, v in given.items() if v is not None}}
    settings["supervision"] = supervision_settings(own)
    if cost_limit is not None:
        settings["cost_limit"] = cost_limit
    agent_class = _agent_class(interactive=interactive, visual=visual)
    if agent_class is SupervisedAgent:
        for name in ("mode", "whitelist_actions", "confirm_exit"):  # not its own
            settings.pop(name, None)
    else:
        settings["mode"] = "confirm" if confirm else "yolo"  # mini.yaml says confirm, where Enter approves
    environment = get_environment(dict(found.get("environment") or {}), default_type="local")
    agent = agent_class(_model(model, model_class, found.get("model") or {}), environment, **settings)
    status, result = "failed", ""
    try:
        status, result = agent.run(task)
    finally:
        save_traj(agent, output, exit_status=status, result=result, extra_info={"supervision": agent.env.records()})
    if agent.presenter is None:
        print(f"{status}: {len(agent.env.supervisor.records)} commands, {_denied(agent)} of them not run")
    raise typer.Exit(0 if status == "Submitted" else 1)


def _agent_class(*, interactive: bool, visual: bool) -> Any:
    if interactive and visual:
        raise ConfigError("give -i or -v, not both")
    if interactive:
        from humanlayer_agent.agents.mini_v1.interactive import SupervisedInteractiveAgent

        return SupervisedInteractiveAgent
    if visual:
        from humanlayer_agent.agents.mini_v1.full_screen import SupervisedTextualAgent

        return SupervisedTextualAgent
    return SupervisedAgent


def _model(name: str | None, model_class: str | None, config: dict[str, Any]) -> Any:
    from minisweagent.models import get_model

    if not (name or config.get("model_name") or os.getenv("MSWEA_MODEL_NAME")):
        raise ConfigError("no model was named: use -m MODEL, for example -m openai/gpt-5")
    return get_model(name, {**config, **({"model_class": model_class} if model_class else {})})


def _denied(agent: Any) -> int:
    return sum(not record.executed for record in agent.env.supervisor.records)


def main() -> None:
    """Run; a setting that can't be used is exit code 2 with its message."""
    try:
        app()
    except ConfigError as error:
        print(f"humanlayer-agent: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
