"""A stand-in for a request's digest in a message: nobody who reads the chat can guess a secret by it.

A plain digest is that of the whole command, with the secrets that the message does not show: whoever knows the rest
could try passwords until one fits.
"""

import hmac

from humanlayer_agent.approvals.model import ApprovalRequest

LENGTH = 16
"""Hex digits of a seal."""


class Seal:
    """Seals requests with the app's bot token, which every process has that serves this channel.

    Args:
        secret: that token.

    Example::

        Seal("xoxb-1").value(request)  # '5f0c...|9d1e...'
    """

    def __init__(self, secret: str) -> None:
        self._key = hmac.digest(secret.encode(), b"humanlayer-agent seal 1", "sha256")

    def of(self, request: ApprovalRequest) -> str:
        """The same for the same request, and for no other, nor for the same id with another command."""
        return hmac.digest(self._key, f"{request.id}\0{request.digest}".encode(), "sha256").hex()[:LENGTH]

    def value(self, request: ApprovalRequest) -> str:
        """The value of a request's buttons: its id, and its seal."""
        return f"{request.id}|{self.of(request)}"

    def of_scope(self, request: ApprovalRequest, scope: str) -> str:
        """The same for the same scope of the same request: by that, what a form has shown is known again."""
        return hmac.digest(self._key, f"{request.id}\0{request.digest}\0{scope}".encode(), "sha256").hex()[:LENGTH]

    def fits(self, request: ApprovalRequest, seal: str) -> bool:
        """Tell whether `seal` is that of the request as it is now."""
        return bool(request.digest) and hmac.compare_digest(self.of(request).encode(), seal.encode("utf-8", "replace"))
