"""What is to be known of mini's environments, of either version."""

from pathlib import Path
from typing import Any

_BY_NAME = {
    "SingularityEnvironment": ("bash", "-c"),
    "BubblewrapEnvironment": ("bash", "-c"),
    "DockerEnvironment": ("bash", "-lc"),  # version 1; version 2 has it in its settings
}


def interpreter_of(environment: Any) -> tuple[str, ...]:
    """The argv prefix by which one of mini's environments that runs commands elsewhere does it, or ("unknown",)."""
    configured = getattr(environment.config, "interpreter", None)
    if configured:
        return tuple(str(part) for part in configured)
    return _BY_NAME.get(type(environment).__name__, ("unknown",))


def directory_of(environment: Any) -> Path | None:
    """The directory an environment is set to start commands in, if any."""
    return Path(environment.config.cwd) if getattr(environment.config, "cwd", "") else None
