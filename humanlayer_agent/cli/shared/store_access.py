"""The access to the store that the commands which read it share."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from humanlayer_agent.cli.shared.help_pages import command_name

if TYPE_CHECKING:
    from humanlayer_agent.store.sqlite import SQLStore


def open_store(location: str | None) -> "SQLStore":
    """The store at `location`, only to read it.

    Raises:
        ConfigError: there is no store (any more), or none that can be opened.
    """
    from humanlayer_agent.errors import ConfigError, StoreError
    from humanlayer_agent.safe_text import one_line
    from humanlayer_agent.store import access

    try:
        access.refuse_lost(location)
        if not access.is_there(location):
            hint = "the first run of an agent makes one (--store names another)"
            raise ConfigError(f"there is no store at {one_line(access.name_of(location))}: {hint}")
        opened = access.open_store(location, create=False)
        _note_read(opened)
        return opened
    except StoreError as error:  # that is no answer to what the command asks, so it must not exit like one
        raise ConfigError(str(error)) from error


_noted: set[str] = set()
"""The stores that this process has said to read."""


def _note_read(opened: "SQLStore") -> None:
    """Have the log say, once, that an auditor's role reads it. Nothing is read that can't be logged."""
    if opened.location in _noted:
        return
    try:
        opened.note_read(command_name() or "completion")
    except BaseException:
        opened.close()
        raise
    _noted.add(opened.location)


def stopped_line(opened: "SQLStore") -> str:
    """Since when every agent is stopped, by whom and why, on one line; "" where none is."""
    from humanlayer_agent.approvals.stop import described
    from humanlayer_agent.configuration import build_authority
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.safe_text import one_line

    halts = opened.halts.standing(None)
    if not halts:
        return ""
    with suppress(ConfigError):  # else nobody is known who could have lifted one
        halts = opened.halts.standing(build_authority())
    return one_line(f"STOPPED: {'; '.join(map(described, halts))}; hla resume ends that") if halts else ""


def time_text(ms: int) -> str:
    """A moment, to the second, in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
