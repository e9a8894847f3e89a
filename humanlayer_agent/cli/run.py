"""`hla run`: mini-swe-agent on any litellm model, supervised."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from humanlayer_agent.errors import ConfigError

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate


def run(
    task: Annotated[str, typer.Option("-t", "--task", help="What the agent is to do.")],
    model: Annotated[str | None, typer.Option("-m", "--model", help="Any litellm model, e.g. openai/gpt-5.")] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("-c", "--config", help="mini's config: a file, or key=value. May be given several times."),
    ] = None,
    policy: Annotated[str | None, typer.Option("--policy", help="Name of a shipped policy, or a policy file.")] = None,
    channels: Annotated[Path | None, typer.Option("--channels", help="A channels file that is the whole.")] = None,
    observe: Annotated[bool, typer.Option("--observe", help="Only record what the policy says; stop nothing.")] = False,
    project: Annotated[Path | None, typer.Option("--project", help="Directory the agent works for.")] = None,
    confine: Annotated[
        bool | None,
        typer.Option(
            "--confine/--no-confine",
            help="Don't start unless the kernel can hold what the policy allows; or hold nothing. [where it can]",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where the trajectory is written.")] = None,
) -> None:
    """Run mini-swe-agent on a task; every command is judged first, and you are asked where the policy does not allow.

    Example: hla run -m anthropic/claude-sonnet-4-5 -t "make the tests pass"
    """
    raise typer.Exit(
        run_agent(
            task,
            model_name=model,
            config_specs=config or [],
            policy=policy,
            channels=channels,
            observe=observe,
            project=project,
            confine=confine,
            output=output,
        )
    )


def run_agent(
    task: str,
    *,
    model_name: str | None,
    config_specs: list[str],
    policy: str | None = None,
    channels: Path | None = None,
    observe: bool = False,
    project: Path | None = None,
    confine: bool | None = None,
    output: Path | None = None,
) -> int:
    """Run one task, and show it as `supervision.show` says: by default, wherever the output goes.

    Returns:
        The exit code: 0 Submitted, 1 ended otherwise, 3 nobody could be asked, 130 Ctrl-C.

    Raises:
        ConfigError: the model can't be asked, or it, a configuration or the policy can't be used.
    """
    quiet_libraries()
    import_module("humanlayer_agent.agents.mini")  # it says what is not installed, where that is so
    from minisweagent.environments import get_environment

    from humanlayer_agent.agents.mini import SupervisedAgent
    from humanlayer_agent.agents.mini.environment import SupervisedEnvironment
    from humanlayer_agent.agents.supervision import refuse_misspelled_section, supervision_settings
    from humanlayer_agent.cli.shared.run_output import run_and_report, signals_end_cleanly

    with config_errors():
        settings = read_configs(config_specs)
        refuse_misspelled_section(settings["agent"], ())
        agent_config = {k: v for k, v in settings["agent"].items() if k not in ("agent_class", "supervision")}
        given: dict[str, Any] = {"policy": policy, "channels": channels, "observe": observe or None}
        given |= {"project": project, "confine": confine}
        supervision = supervision_settings(
            {
                "show": True,
                **(settings["agent"].get("supervision") or {}),
                **{k: v for k, v in given.items() if v is not None},
            }
        )
        inner = get_environment(settings["environment"], default_type="local")
        environment = SupervisedEnvironment(inner, settings=supervision)
        _refuse_stopped(environment.supervisor.gate)
        model = open_model(model_name, settings["model"])  # last: litellm takes seconds to import
        agent = SupervisedAgent(model, environment, supervision=supervision, **agent_config)
    with signals_end_cleanly():
        return run_and_report(agent, task, output=output or agent.config.output_path)


def _refuse_stopped(gate: "Gate") -> None:
    """Begin nothing while every agent is stopped: its first action would be denied, after a model was paid for it."""
    from humanlayer_agent.approvals.stop import described
    from humanlayer_agent.errors import HumanlayerError
    from humanlayer_agent.safe_text import one_line

    if halts := gate.store.halts.standing(gate.authority):
        raise HumanlayerError(f"not started: {one_line(described(halts[0]))}; hla resume ends that")


def quiet_libraries() -> None:
    """Set before the first import: mini prints a banner, and litellm fetches prices from the network."""
    os.environ.setdefault("MSWEA_SILENT_STARTUP", "1")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


@contextmanager
def config_errors() -> Iterator[None]:
    """mini's own complaints about its settings are configuration errors (exit code 2) with one line each."""
    import yaml

    try:
        yield
    except ConfigError:
        raise
    except (ValueError, TypeError, OSError, yaml.YAMLError) as error:
        raise ConfigError(str(error)) from error


def read_configs(specs: list[str]) -> dict[str, dict[str, Any]]:
    """mini.yaml, and on top of it the files and key=value pairs in `specs`: sections agent, environment and model."""
    from minisweagent.config import get_config_from_spec
    from minisweagent.utils.serialize import recursive_merge

    merged = recursive_merge(*(get_config_from_spec(spec) or {} for spec in ["mini.yaml", *specs]))
    sections = {name: merged.get(name) or {} for name in ("agent", "environment", "model")}
    if wrong := [name for name, section in sections.items() if not isinstance(section, dict)]:
        raise ConfigError(f"{wrong[0]}: a section with settings was expected")
    return sections


def open_model(name: str | None, config: dict[str, Any]) -> Any:
    """mini's model object for `name` (else the configured one, else $MSWEA_MODEL_NAME)."""
    from minisweagent.models import get_model

    if not (name or config.get("model_name") or os.getenv("MSWEA_MODEL_NAME")):
        raise ConfigError("no model was named: use -m MODEL, for example -m openai/gpt-5")
    return get_model(name, config)
