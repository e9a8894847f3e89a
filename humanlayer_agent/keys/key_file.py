"""Key files. That of the key which signs votes is locked by a passphrase that only its human knows.

Agents' commands run as the same user, so whatever they are kept from they may one day read: the file must be worth
nothing without the passphrase. It says the public key openly, so that the key can be named and looked up unopened; that
and everything else in it is bound to the locked part, and what comes out must be the key of that public key.

The key that signs heads of the log, unattended: it has no passphrase, and is good for nothing else.

What a head is worth comes from where it is kept, not from who could have signed it: whatever runs as this user can read
this key. So it never vouches for a human's answer, and a channels file that names it as a signer is refused.
"""

import json
import os
import secrets
import stat
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LOCKED = "humanlayer-agent signing key 1"
"""What the file of a locked key begins with, and what is locked belongs to."""

_LARGEST_FILE = 16 * 1024
_LARGEST_MEMORY = 256 * 1024 * 1024
_MOST_WORK = 2**24
_PEM = b"-----BEGIN"

T = TypeVar("T")


class WrongPassphrase(ConfigError):
    """The passphrase does not unlock the key (or the file was changed: that can't be told apart)."""


@dataclass(frozen=True, slots=True)
class Work:
    """The cost of one try at a passphrase: the parameters of scrypt (RFC 7914).

    The default, 128 MiB and some 0.4 s, is what OWASP's Password Storage Cheat Sheet wants at the least: who guesses
    has the file. One that wants more than 256 MiB, or 16 times the work, is refused: somebody may have planted it.
    """

    n: int = 2**17
    r: int = 8
    p: int = 1

    def __post_init__(self) -> None:
        plain = all(type(each) is int and each > 0 for each in (self.n, self.r, self.p))
        if not plain or self.n < 2 or self.n & (self.n - 1):
            raise ValueError("no parameters of scrypt")
        if 128 * self.n * self.r > _LARGEST_MEMORY or self.n * self.r * self.p > _MOST_WORK:
            raise ValueError("unlocking it would take too much memory or time")


@dataclass(frozen=True, slots=True)
class LockedKey:
    """A private key (32 bytes) under a passphrase. `public_key` is in hex.

    Example:
        >>> key = LockedKey.lock(bytes(32), "00" * 32, "correct horse battery", Work(2, 1))
        >>> key.unlock("correct horse battery") == bytes(32)
        True
    """

    public_key: str
    work: Work
    salt: bytes
    nonce: bytes
    box: bytes

    @classmethod
    def lock(cls, key: bytes, public_key: str, passphrase: str, work: Work) -> Self:
        """Lock `key` with a new salt."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        salt, nonce = secrets.token_bytes(16), secrets.token_bytes(12)
        empty = cls(public_key, work, salt, nonce, b"")
        box = ChaCha20Poly1305(empty._key_of(passphrase)).encrypt(nonce, key, empty._bound())
        return replace(empty, box=box)

    def unlock(self, passphrase: str) -> bytes:
        """The private key.

        Raises:
            WrongPassphrase: it is not this one, or something in the file was changed.
        """
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        try:
            return ChaCha20Poly1305(self._key_of(passphrase)).decrypt(self.nonce, self.box, self._bound())
        except InvalidTag:
            raise WrongPassphrase("the passphrase does not unlock the key") from None

    def text(self) -> str:
        """As it stands in a file; `read_locked` reads it."""
        said = self._open() | {"nonce": self.nonce.hex(), "box": self.box.hex()}
        return json.dumps(said, indent=1) + "\n"

    @classmethod
    def of(cls, said: dict[str, Any]) -> Self:
        """Return the locked key that `text` wrote.

        Raises:
            ValueError: it is something else.
        """
        scrypt = said.get("scrypt")
        if said.keys() != {"format", "public_key", "scrypt", "nonce", "box"} or said["format"] != LOCKED:
            raise ValueError("not the fields of a locked key")
        if not isinstance(scrypt, dict) or scrypt.keys() != {"n", "r", "p", "salt"}:
            raise ValueError("not the fields of scrypt")
        return cls(
            hexadecimal(said["public_key"], 32).hex(),
            Work(scrypt["n"], scrypt["r"], scrypt["p"]),
            hexadecimal(scrypt["salt"], 16),
            hexadecimal(said["nonce"], 12),
            hexadecimal(said["box"], 48),
        )

    def _open(self) -> dict[str, Any]:
        """Return the fields that everybody may read."""
        work = {"n": self.work.n, "r": self.work.r, "p": self.work.p, "salt": self.salt.hex()}
        return {"format": LOCKED, "public_key": self.public_key, "scrypt": work}

    def _bound(self) -> bytes:
        """All of that: changed in one bit, it can't be unlocked."""
        return canonical(self._open())

    def _key_of(self, passphrase: str) -> bytes:
        from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

        text = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")  # é can be typed in two ways
        try:
            return Scrypt(self.salt, 32, self.work.n, self.work.r, self.work.p).derive(text)
        except MemoryError:
            megabytes = 128 * self.work.n * self.work.r // 2**20
            raise ConfigError(f"unlocking the key takes {megabytes} MiB of memory, and there is less") from None


def read_locked(path: Path) -> LockedKey:
    """The locked key in a file.

    Raises:
        ConfigError: it can't be read, others may read it, or it holds no locked key.
    """
    content = read_private(path)
    if content.startswith(_PEM):
        raise ConfigError(f"the key {path} has no passphrase, so whatever runs as you can sign with it: it is not used")
    return parsed(content, path, LockedKey.of)


def parsed(content: bytes, path: Path, make: Callable[[dict[str, Any]], T]) -> T:
    """Return what `make` makes of the object in a key file; it raises ValueError where that is not what it wants.

    Raises:
        ConfigError: it does.
    """
    try:
        said = json.loads(content)
        if not isinstance(said, dict):
            raise ValueError("no object")
        return make(said)
    except (ValueError, TypeError, RecursionError) as error:
        raise ConfigError(f"the key {path} is not a key that hla init has written") from error


def hexadecimal(text: object, count: int) -> bytes:
    """So many bytes that `text` says in small hexadecimal digits. Raises ValueError."""
    if not isinstance(text, str) or len(text) != 2 * count:
        raise ValueError("no hexadecimal number of this length")
    found = bytes.fromhex(text)
    if found.hex() != text:
        raise ValueError("not the usual way to write it")
    return found


def read_private(path: Path) -> bytes:
    """Return the content of a file of this user's that nobody else may read.

    Raises:
        ConfigError: it is no such file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
                raise ConfigError(f"the key {path} must be a file of yours that nobody else may read: chmod 600")
            return file.read(_LARGEST_FILE)
    except OSError as error:
        raise ConfigError(f"the key {path} can't be read: {error.strerror}") from error


def write_new(path: Path, content: str) -> None:
    """Make a key file with mode 0600, in a directory of mode 0700.

    Raises:
        ConfigError: there is such a file already (a key is never written over), or none can be made.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode())
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise ConfigError(f"the key {path} can't be made: {error.strerror}") from error


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
