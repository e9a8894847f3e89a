"""The proof that a human acts who has the signing key: at a terminal, by a typed word and the key that vouches
for it.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from humanlayer_agent.approvals.authority import Authority
    from humanlayer_agent.keys.signing import Signer
    from humanlayer_agent.store.sqlite import SQLStore

_PATIENCE_MS = 60_000
"""How long it waits for other processes' writes: a human is there, and giving up would be worse."""


def credentials(channels: Path | None) -> "tuple[Authority, Signer]":
    """Return who may decide, and the user's key, still locked.

    Raises:
        ConfigError: there is no key, or none that counts.
    """
    from humanlayer_agent.configuration import build_authority, build_signer
    from humanlayer_agent.errors import ConfigError
    from humanlayer_agent.locations import key_path

    if not os.path.lexists(key_path()):
        raise ConfigError(f"there is no signing key ({key_path()}), and this is vouched for by one: run hla init")
    authority = build_authority(channels)
    signer = build_signer(authority)
    if authority is None or signer is None:
        raise ConfigError("no channels.yaml of yours names your key under `signers:`, so it can't count: run hla init")
    _ = signer.fingerprint  # a key that can't be used is an error before anything is asked
    return authority, signer


def typed_word(fd: int, said: str, word: str, purpose: str) -> bool:
    """Show what it is about, and tell whether the human types exactly `word` to it; nothing typed ahead counts."""
    from humanlayer_agent.processes.tty import discard_input, read_line, write

    sys.stdout.flush()
    write(fd, f"{said}\n\n")
    discard_input(fd)  # before the question is there: who answers it at once must be heard
    write(fd, f'Type "{word}" to {purpose}, anything else not to: ')
    return read_line(fd).strip() == word


def open_to_write(location: str | None) -> "SQLStore":
    """The store, to write in it. None is made: agents that use another one would not be stopped.

    Raises:
        ConfigError: it is not there, or can't be opened.
    """
    from humanlayer_agent.errors import ConfigError, StoreError
    from humanlayer_agent.safe_text import one_line
    from humanlayer_agent.store import access

    try:
        access.refuse_lost(location)
        if not access.is_there(location):
            raise ConfigError(
                f"there is no store at {one_line(access.name_of(location))}: "
                "name the one that the agents use with --store"
            )
        return access.open_store(location, busy_ms=_PATIENCE_MS)
    except StoreError as error:
        raise ConfigError(str(error)) from error
