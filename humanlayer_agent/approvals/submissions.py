"""The ids of requests that are submitted and collected later: each is bound to whose it is and what it is about.

Votes sign the id of their request. So whoever can write the store's file can't make an approval somebody else's, nor
one of what leads elsewhere by now: the process that comes for the answer makes the id anew from what it knows itself.
"""

import secrets
from dataclasses import dataclass
from hashlib import sha256

from humanlayer_agent.approvals.validity import Leads
from humanlayer_agent.canonical_json import canonical, encodable

_NONCE = 12
_BOUND = 20


@dataclass(frozen=True, slots=True)
class Submission:
    """What an id is bound to.

    Args:
        agent, instance, requester: whose it is.
        digest: of the action.
        led: where its paths led when it was asked.
    """

    agent: str
    instance: str
    requester: str
    digest: str
    led: Leads

    def id(self, nonce: str, *, kept: bool) -> str:
        """Return the id with this beginning (`nonce_of`). `kept`: it outlives its run."""
        led = [[encodable(path), encodable(real)] for path, real in sorted(self.led.items())]
        whose = [encodable(each) for each in (self.agent, self.instance, self.requester)]
        bound = sha256(canonical(["submitted", nonce, kept, *whose, self.digest, led])).hexdigest()
        return f"{nonce}{bound[:_BOUND]}"

    def has(self, request_id: str, *, kept: bool) -> bool:
        """Tell whether an id is one of these."""
        return request_id == self.id(request_id[:_NONCE], kept=kept)


def nonce_of(key: str, attempt: int) -> str:
    """Return the beginning of an id: the same for the same key, where there is one.

    Args:
        key: names a wish of the agent; "" for one without a name.
        attempt: so many requests of the same name were over before, and led to nothing.
    """
    if not key:
        return secrets.token_hex(_NONCE // 2)
    return sha256(canonical(["key", encodable(key), attempt])).hexdigest()[:_NONCE]
