"""Signatures of webhooks, as the Standard Webhooks specification has them (https://www.standardwebhooks.com, v1).

Who receives them checks them with any library of that standard. More than one secret is for changing it: a message has
a signature by each, until the receiver knows the new one.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping

from humanlayer_agent.errors import ConfigError

PREFIX = "whsec_"
LEAST, MOST = 24, 64
"""Bytes of a secret, as the specification has it."""
_SECRETS = 3


class Secrets:
    """The secrets that messages are signed with.

    Args:
        value: `whsec_` and base64, one or more of them with spaces between.
        variable: what holds it; named where it is something else.

    Raises:
        ConfigError: it is something else. What it holds is not told.

    Example:
        >>> made = Secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "WEBHOOK_SECRET")
        >>> made.headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')["webhook-signature"]
        'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """

    def __init__(self, value: str, variable: str) -> None:
        found = value.split()
        if not 1 <= len(found) <= _SECRETS:
            raise ConfigError(f"{variable} must hold a secret, or up to {_SECRETS} with spaces between")
        self._keys = tuple(_key(each, variable) for each in found)

    def headers(self, message_id: str, at: int, body: bytes) -> Mapping[str, str]:
        """Return the headers of one message.

        Args:
            message_id: the same whenever the same message is sent again; without a full stop.
            at: seconds since the epoch, of this sending.
        """
        signed = f"{message_id}.{at}.".encode() + body
        made = (base64.b64encode(hmac.digest(key, signed, "sha256")).decode() for key in self._keys)
        signatures = " ".join(f"v1,{each}" for each in made)
        return {"webhook-id": message_id, "webhook-timestamp": str(at), "webhook-signature": signatures}


def _key(secret: str, variable: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(PREFIX) or not LEAST <= len(key) <= MOST:
        raise ConfigError(
            f"{variable} must hold {PREFIX} and {LEAST} to {MOST} random bytes in base64: "
            f'echo "{PREFIX}$(head -c 32 /dev/urandom | base64)" makes one'
        )
    return key
