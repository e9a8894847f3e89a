"""Ed25519 signatures of votes: the proof that a process which verified a human recorded exactly this answer.

A row of the store proves nothing by itself, because whoever can write the file can write rows. Keys are trusted by
their fingerprint only: those of an `Authority`, and a process's own key inside that process. A key in a file is locked
(`keyfile`), and is in no other place than the memory of a process that its human has unlocked it for. `cryptography` is
imported where a key is used, which is only where a human is asked.
"""

import hashlib
import hmac
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from humanlayer_agent.audit.heads import is_signature
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.key_file import LockedKey, Work, WrongPassphrase, read_locked, write_new

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from humanlayer_agent.approvals.model import Vote

_PURPOSE = "humanlayer-agent vote 1"
_WITH_SCOPE = "humanlayer-agent vote 2"
"""Of a vote that lets more be done than was asked: nobody who reads only the first form takes it for one of that."""


class Signer:
    """Signs votes with one key, that is in memory or in a file.

    A file is read when it is first needed. It must belong to this user, who alone may read it. Its key signs once it is
    unlocked, which is not done by the way: a vote is signed while others wait for the store, when nobody can be asked
    for a passphrase, and no half second spent on it.

    Args:
        path: a key file, as `create` writes it; a new key that dies with this object where it is None.

    Example:
        >>> len(Signer().fingerprint)
        64
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._key: Ed25519PrivateKey | None = None
        self._locked: LockedKey | None = None
        self._public = ""  # of a key that is in no file

    @classmethod
    def create(cls, path: Path, passphrase: str, work: Work | None = None) -> Self:
        """Make a new key in a new file with mode 0600, in a directory of mode 0700. It is unlocked here.

        Args:
            passphrase: locks it in the file.
            work: what one try at the passphrase is to cost.

        Raises:
            ConfigError: there is such a file already (a key is never written over), or none can be made.
        """
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        key = Ed25519PrivateKey.generate()
        public = key.public_key().public_bytes_raw().hex()
        locked = LockedKey.lock(key.private_bytes_raw(), public, passphrase, work or Work())
        write_new(path, locked.text())
        signer = cls(path)
        signer._locked, signer._key = locked, key
        return signer

    @property
    def fingerprint(self) -> str:
        """Return the name of the key: the public key itself in hex, which is as short as a hash of it would be.

        Raises:
            ConfigError: the key file can't be used.
        """
        if self.path is not None:
            return self._file(self.path).public_key
        if not self._public:
            self._public = self._private().public_key().public_bytes_raw().hex()
        return self._public

    @property
    def is_locked(self) -> bool:
        """Tell whether it has to be unlocked before it signs."""
        return self.path is not None and self._key is None

    def unlock(self, passphrase: str) -> None:
        """Make it sign, as long as this object lives.

        Raises:
            WrongPassphrase: it is another one.
            ConfigError: the key file can't be used.
        """
        if self.path is None:
            return
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        locked = self._file(self.path)
        key = Ed25519PrivateKey.from_private_bytes(locked.unlock(passphrase))
        if key.public_key().public_bytes_raw().hex() != locked.public_key:
            raise WrongPassphrase(f"the key {self.path} is not that of the public key it states")
        self._key = key

    def sign(self, vote: "Vote") -> str:
        """The signature of everything that makes `vote` what it is, in hex.

        Raises:
            ConfigError: the key is locked.
        """
        return self.sign_text(statement(vote))

    def sign_text(self, text: bytes) -> str:
        """The signature of `text`, in hex. What is signed begins with its purpose: one can't stand for another.

        Raises:
            ConfigError: the key is locked.
        """
        return self._private().sign(text).hex()

    def secret(self, purpose: str) -> bytes:
        """32 bytes for `purpose` that only a holder of this key can compute, always the same.

        Raises:
            ConfigError: the key is locked.
        """
        return hmac.digest(self._private().private_bytes_raw(), purpose.encode(), "sha256")

    def _private(self) -> "Ed25519PrivateKey":
        if self._key is None:
            if self.path is not None:
                raise ConfigError(f"the key {self.path} is locked: its passphrase unlocks it")
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

            self._key = Ed25519PrivateKey.generate()
        return self._key

    def _file(self, path: Path) -> LockedKey:
        if self._locked is None:
            self._locked = read_locked(path)
        return self._locked


def process_signer() -> Signer:
    """The key of this process: it is written nowhere, and another process, a forked one too, has another."""
    return _signer_of(os.getpid())


@cache
def _signer_of(pid: int) -> Signer:
    return Signer()


def is_signed(vote: "Vote") -> bool:
    """Tell whether the key that `vote` names has signed it. (Whose key that is, is another question.)"""
    return is_signature(vote.signer, vote.signature, statement(vote))


def statement(vote: "Vote") -> bytes:
    """Return the text that is signed: canonical JSON of who said what about which request, with what was shown and
    when.
    """
    said: dict[str, Any] = {
        "purpose": _WITH_SCOPE if vote.scope else _PURPOSE,
        "request": vote.request_id,
        "digest": vote.presented_digest,
        "answer": vote.answer,
        "edited": vote.edited,
        "principal": vote.approver.principal,
        "person": vote.person,
        "channel": vote.approver.channel,
        "assurance": vote.approver.assurance,
        "decision_id": vote.decision_id,
        "at": vote.at,
        "comment": hashlib.sha256(vote.comment.encode()).hexdigest(),
    }
    if vote.approver.groups:
        said["groups"] = list(vote.approver.groups)
    if vote.scope:
        said["scope"] = vote.scope
    return canonical(said)
