"""Commands that only humans run: below a supervised command they do nothing, and the log says that it was tried."""

import os
from contextlib import closing, suppress

from humanlayer_agent.audit import events
from humanlayer_agent.errors import ConfigError, HumanlayerError
from humanlayer_agent.processes.ancestry import refuse_agents
from humanlayer_agent.processes.identity import os_user


def human_only(command: str, purpose: str, store: str | None = None) -> None:
    """Raise ConfigError where an agent's command has started this process.

    Args:
        command: what was started, for the log.
        purpose: what only a human does, as the rest of a sentence.
        store: the store whose supervisors are asked about; the user's own where it is None.
    """
    try:
        refuse_agents(purpose, supervisors(store))
    except ConfigError:
        log_attempt(command, store)
        raise


def has_terminal() -> bool:
    """Tell whether there is a controlling terminal; what it can show does not matter to what takes no proof."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def supervisors(store: str | None = None) -> list[str]:
    """The identities of the processes that supervise agents now, as a store has them; [] where there is none."""
    from humanlayer_agent.cli.shared.store_access import open_store

    with suppress(HumanlayerError), closing(open_store(store)) as opened:
        return opened.supervisors()
    return []


def log_attempt(command: str, store: str | None = None) -> None:
    """Put it in the log, where there is one. That it can't be logged is no way around the refusal."""
    from humanlayer_agent.store import access

    with suppress(HumanlayerError):
        if access.is_there(store):
            with closing(access.open_store(store)) as opened:
                opened.record(events.WALL_REFUSED, command=command, by=os_user())
