"""Signing keys for tests: locked like a user's own, with a passphrase that is known and takes no time."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from humanlayer_agent.keys.key_file import Work
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, key_path

PASSPHRASE = "correct horse battery staple"
QUICK = Work(2, 1)
"""What a try at it costs here: next to nothing."""


def make_key(path: Path | None = None) -> Signer:
    """A new key in a file, the user's own where none is named; it is unlocked in what is returned."""
    return Signer.create(path or key_path(), PASSPHRASE, QUICK)


def open_key(path: Path | None = None) -> Signer:
    """The key that `make_key` has made, unlocked."""
    signer = Signer(path or key_path())
    signer.unlock(PASSPHRASE)
    return signer


def passphrase_file(folder: Path) -> Path:
    """A file that holds the passphrase, as `HUMANLAYER_PASSPHRASE_FILE` names one."""
    path = folder / "passphrase"
    path.write_text(PASSPHRASE + "\n")
    path.chmod(0o600)
    return path


@contextmanager
def known_passphrase() -> Iterator[None]:
    """Meanwhile `HUMANLAYER_PASSPHRASE_FILE` names a file with it; afterwards that file is gone."""
    before = os.environ.get(PASSPHRASE_VARIABLE)
    with tempfile.TemporaryDirectory() as folder:
        os.environ[PASSPHRASE_VARIABLE] = str(passphrase_file(Path(folder)))
        try:
            yield
        finally:
            if before is None:
                del os.environ[PASSPHRASE_VARIABLE]
            else:
                os.environ[PASSPHRASE_VARIABLE] = before
