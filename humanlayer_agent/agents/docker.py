"""mini-swe-agent's docker environment, supervised.

Commands run in the container, as mini runs them; what they do to its files is judged by the container's own paths, and
the project is the directory they start in. Files of the container can't be read from here: scripts there are code that
nobody has read.
"""

from typing import TYPE_CHECKING, Any

from minisweagent.environments.docker import DockerEnvironment, DockerEnvironmentConfig

from humanlayer_agent.agents.mini.batch_harness import instance_of_batch
from humanlayer_agent.agents.mini.environment import SupervisedEnvironment
from humanlayer_agent.agents.supervision import refuse_misspelled_section, supervision_settings
from humanlayer_agent.errors import ConfigError

if TYPE_CHECKING:
    from humanlayer_agent.approvals.gate import Gate


class SupervisedDockerEnvironment(SupervisedEnvironment):
    """mini's docker environment, supervised: for `--environment-class`, batch runs, and any agent class.

    In batch runs (`mini-extra swebench`) the image is that of the instance, as mini works it out for its own class.

    Args:
        director, user, gate: see `mini.Supervised`.
        supervision: the settings (see `Supervision`).
        config: mini's own settings (image, cwd, env, ...).

    Raises:
        ConfigError: no image was named, and it is no batch run.

    Example:
        mini-extra swebench --environment-class humanlayer_agent.agents.docker.SupervisedDockerEnvironment
    """

    def __init__(
        self,
        director: Any = None,
        user: Any = None,
        *,
        gate: "Gate | None" = None,
        supervision: object = None,
        config_class: type = DockerEnvironmentConfig,
        **config: Any,
    ) -> None:
        refuse_misspelled_section(config, getattr(config_class, "model_fields", ()))
        settings = supervision_settings(supervision)
        if not config.get("image"):
            config["image"] = _image_of_batch()
        inner = DockerEnvironment(config_class=config_class, **config)
        try:
            super().__init__(inner, director=director, user=user, gate=gate, settings=settings)
        except BaseException:
            inner.cleanup()
            raise


def _image_of_batch() -> str:
    instance = instance_of_batch()
    if instance is None:
        raise ConfigError("no image was named: set environment.image (-c environment.image=NAME)")
    from minisweagent.run.benchmarks.swebench import get_swebench_docker_image_name

    return str(get_swebench_docker_image_name(instance))
