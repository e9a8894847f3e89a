"""Tokens that let one person answer one request from a mail: a keyed hash over use, request and recipient.

Nothing about a token is stored, and holding one is no decision: whether the request still waits, whether this person
may answer it, and whether they have, is for the store to say. A token is lower-case base32 with one dot, so that mail
systems which fold case don't break it, and short enough for the local part of an address (64 characters).
"""

import base64
import hmac
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from humanlayer_agent.keys.signing import Signer

Use = Literal["reply", "link", "bounce", "code", "message"]
"""What a token is for: one use can't be turned into another."""

_TOKEN = re.compile(r"([a-z2-7]{26})\.([a-z2-7]{20})", re.ASCII)
_CODE = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # 32 letters and digits that are not taken for each other


class Tokens:
    """Makes and reads tokens with one secret key.

    Args:
        key: at least 32 bytes that no agent command can read.

    Example:
        >>> tokens = Tokens(bytes(32))
        >>> token = tokens.token("reply", "00" * 16, "Alice@example.com")
        >>> len(token), tokens.read(token, "reply", "alice@example.com") == "00" * 16
        (47, True)
        >>> tokens.read(token, "link", "alice@example.com") is None
        True
    """

    def __init__(self, key: bytes) -> None:
        if len(key) < 32:
            raise ValueError("a token key has at least 32 bytes")
        self._key = key

    def token(self, use: Use, request_id: str, recipient: str) -> str:
        """The token of `recipient` (a mail address) for the request with this id (32 hex digits)."""
        return f"{_base32(bytes.fromhex(request_id))}.{self._seal(use, request_id, recipient)}"

    def read(self, token: str, use: Use, recipient: str) -> str | None:
        """The id of the request that `token` is for, or None where it is not `recipient`'s for this use."""
        found = _TOKEN.fullmatch(token.lower()) if len(token) <= 64 else None
        if found is None:
            return None
        try:
            request_id = base64.b32decode(found[1].upper() + "=" * 6).hex()
        except ValueError:
            return None
        if _base32(bytes.fromhex(request_id)) != found[1]:  # base32 has spare bits at its end
            return None
        return request_id if hmac.compare_digest(found[2], self._seal(use, request_id, recipient)) else None

    def holder(self, token: str, use: Use, recipients: Iterable[str]) -> tuple[str, str] | None:
        """The request and the recipient that `token` is for; None where it is nobody's of `recipients`."""
        found = None
        for recipient in recipients:  # all of them: how long it takes says nothing
            if (request_id := self.read(token, use, recipient)) is not None:
                found = (request_id, recipient)
        return found

    def code(self, request_id: str, recipient: str) -> str:
        """Six characters that stand in the mail and not in the link; what follows a link does not know them."""
        digest = self._digest("code", request_id, recipient)
        return "".join(_CODE[byte % 32] for byte in digest[:6])

    def is_code(self, typed: str, request_id: str, recipient: str) -> bool:
        """Tell whether `typed` is that code, however it was spaced and in which case; compared in constant time."""
        folded = "".join(letter for letter in typed.upper() if not letter.isspace() and letter != "-")
        return hmac.compare_digest(folded.encode("utf-8", "replace"), self.code(request_id, recipient).encode())

    def _seal(self, use: Use, request_id: str, recipient: str) -> str:
        return _base32(self._digest(use, request_id, recipient)[:12])

    def _digest(self, use: Use, request_id: str, recipient: str) -> bytes:
        said = "\0".join((use, request_id.lower(), folded(recipient)))
        return hmac.digest(self._key, said.encode("utf-8", "surrogatepass"), "sha256")


def own_tokens(signer: "Signer | None") -> Tokens:
    """Tokens made with the user's signing key, so that links and addresses outlive the process that sent them.

    Args:
        signer: that key, unlocked.

    Raises:
        ConfigError: there is none, or it is locked.
    """
    from humanlayer_agent.errors import ConfigError

    if signer is None:
        raise ConfigError("tokens in mails are made with the signing key, and there is none: run hla init")
    return Tokens(signer.secret("humanlayer-agent tokens 1"))


def folded(address: str) -> str:
    """A mail address as it is compared: ASCII letters small (other letters have twins), everything else as it is."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in address)


def _base32(content: bytes) -> str:
    return base64.b32encode(content).decode().rstrip("=").lower()
