"""The key that signs heads of the log, unattended: it has no passphrase, and is good for nothing else.

What a head is worth comes from where it is kept, not from who could have signed it: whatever runs as this user can read
this key. So it never vouches for a human's answer, and a channels file that names it as a signer is refused.
"""

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.key_file import hexadecimal, parsed, read_private, write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

FORMAT = "humanlayer-agent audit key 1"


class AuditKey:
    """Signs heads (`audit.heads.Signs`) with the key in a file, which is read when it is first needed.

    Args:
        path: a file as `create` writes it. It must belong to this user, who alone may read it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make a new key in a new file.

        Raises:
            ConfigError: there is such a file already, or none can be made.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.generate()
        public, secret = key.public_key().public_bytes_raw().hex(), key.private_bytes_raw().hex()
        write_new(path, json.dumps({"format": FORMAT, "public_key": public, "key": secret}, indent=1) + "\n")
        return cls(path)

    @property
    def fingerprint(self) -> str:
        """The public key in hex. Raises ConfigError: the file can't be used."""
        return self._said[0]

    def load(self) -> Self:
        """Read the file now. Raises ConfigError: it can't be used."""
        _ = self._private
        return self

    def sign_text(self, text: bytes) -> str:
        """The signature of `text`, in hex. Raises ConfigError: the file can't be used."""
        return self._private.sign(text).hex()

    @cached_property
    def _said(self) -> tuple[str, bytes]:
        """The public key in hex, and the key."""
        return parsed(read_private(self.path), self.path, _keys)

    @cached_property
    def _private(self) -> "Ed25519PrivateKey":
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.from_private_bytes(self._said[1])
        if key.public_key().public_bytes_raw().hex() != self.fingerprint:
            raise ConfigError(f"the key {self.path} is not that of the public key it states")
        return key


def _keys(said: dict[str, Any]) -> tuple[str, bytes]:
    if said.keys() != {"format", "public_key", "key"} or said["format"] != FORMAT:
        raise ValueError("not the fields of an audit key")
    return hexadecimal(said["public_key"], 32).hex(), hexadecimal(said["key"], 32)
