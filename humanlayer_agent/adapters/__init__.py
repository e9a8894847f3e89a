"""Agent frameworks behind the Gate: each in a module of its own, and each an extra of the package.

Every call of a tool is judged before it runs; what the policy does not allow waits for a human, and what may not run
is told to the model in the framework's own form of a tool's result.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AppUser:
    """A user of an app that has an agent: who answers where the framework itself asks.

    Args:
        by: the identity, as the people of the channels file have it.
        assurance: how the app has made sure of that: "login", "chat", or "os" where it has only been told.

    Example:
        >>> AppUser("app:alice", "login").by
        'app:alice'
    """

    by: str
    assurance: str
