"""Agent frameworks behind the Gate: each in a module of its own, and each an extra of the package.

Every call of a tool is judged before it runs; what the policy does not allow waits for a human, and what may not run
is told to the model in the framework's own form of a tool's result.
"""

from dataclasses import dataclass

from humanlayer_agent.errors import ConfigError


@dataclass(frozen=True, slots=True)
class AppUser:
    """A user of an app that has an agent: who answers where the framework itself asks.

    Args:
        by: the identity, `app:NAME`, as the people of the channels file have it.
        assurance: how the app has made sure of that: "login", "chat", or "os" where it has only been told.

    Raises:
        ConfigError: `by` is no `app:NAME`.

    Example:
        >>> AppUser("app:alice", "login").by
        'app:alice'
    """

    by: str
    assurance: str

    def __post_init__(self) -> None:
        if not self.by.startswith("app:") or self.by == "app:":
            raise ConfigError(f"by: {self.by[:60]!r} is no user of an app: app:NAME, as the channels file names them")
