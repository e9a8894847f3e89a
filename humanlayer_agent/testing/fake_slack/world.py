"""One workspace: its people, conversations, messages, files and forms."""

import secrets
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from humanlayer_agent.testing.fake_slack.limits import ApiError, Json

TEAM = "T0TEAM"
APP = "A0APP"
BOT = "U0BOT"
BOT_ID = "B0BOT"
BOT_TOKEN = "xoxb-fake"
APP_TOKEN = "xapp-fake"
SIGNING_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
CHANNEL = "C0OPS"
BOT_SCOPES = frozenset(
    {
        "chat:write",
        "files:write",
        "users:read",
        "usergroups:read",
        "channels:read",
        "groups:read",
        "channels:history",
        "groups:history",
    }
)


@dataclass
class Token:
    """A token, and what it may do."""

    kind: str
    scopes: set[str]


@dataclass
class Fault:
    """A fault of the next calls of a method.

    Args:
        method: of the Web API ("chat.postMessage").
        kind: 429, http (`status`), error (`error`), slow (`seconds`), lost-request (the connection breaks before
            anything is done) or lost-response (it is done, and the caller never hears of it).
        count: so many calls go wrong.
    """

    method: str
    kind: str
    count: int = 1
    status: int = 500
    error: str = "internal_error"
    seconds: float = 1.0


@dataclass
class World:
    """Everything the fake knows. Take `lock` to look at it or change it while the server runs."""

    clock: Callable[[], float] = time.time
    lock: threading.RLock = field(default_factory=threading.RLock)
    tokens: dict[str, Token] = field(default_factory=dict)
    users: dict[str, Json] = field(default_factory=dict)
    channels: dict[str, Json] = field(default_factory=dict)
    usergroups: dict[str, list[str]] = field(default_factory=dict)
    messages: dict[str, dict[str, Json]] = field(default_factory=lambda: defaultdict(dict))
    ephemerals: list[Json] = field(default_factory=list)
    views: dict[str, Json] = field(default_factory=dict)
    files: dict[str, Json] = field(default_factory=dict)
    triggers: dict[str, Json] = field(default_factory=dict)
    response_urls: dict[str, Json] = field(default_factory=dict)
    tickets: dict[str, float] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    buckets: dict[tuple[str, str], deque[float]] = field(default_factory=lambda: defaultdict(deque))
    calls: list[tuple[str, str]] = field(default_factory=list)
    homes: dict[str, str] = field(default_factory=dict)
    has_home: bool = True
    rate_limits: bool = False
    trigger_seconds: float = 3.0
    count: int = 0

    def __post_init__(self) -> None:
        self.tokens = {
            BOT_TOKEN: Token("bot", set(BOT_SCOPES)),
            APP_TOKEN: Token("app", {"connections:write"}),
        }
        for name in ("alice", "bob", "carol", "mallory"):
            self.add_user(f"U0{name.upper()}", name)
        self.add_channel(CHANNEL, "ops")

    def add_user(self, user: str, name: str, **fields: object) -> None:
        """Somebody who can see all channels. `fields` are those of `users.info`: is_restricted, team_id ..."""
        self.users[user] = {
            "id": user,
            "team_id": TEAM,
            "name": name,
            "deleted": False,
            "is_bot": False,
            "is_restricted": False,
            "is_ultra_restricted": False,
            "is_stranger": False,
            **fields,
        }
        for channel in self.channels.values():
            channel["members"].add(user)

    def add_channel(self, channel: str, name: str, *, bot: bool = True) -> None:
        """A channel with everybody in it, the app's bot where `bot`."""
        members = {*self.users, BOT} if bot else set(self.users)
        self.channels[channel] = {"id": channel, "name": name, "members": members, "is_archived": False}

    def next_ts(self) -> str:
        """The id of a new message: unique, and in order."""
        self.count += 1
        return f"{int(self.clock())}.{self.count:06d}"

    def trigger(self, user: str) -> str:
        """A new trigger id: good once, for three seconds."""
        made = f"{secrets.randbelow(10**9)}.{secrets.token_hex(8)}"
        self.triggers[made] = {"at": self.clock(), "user": user, "used": False}
        return made

    def spend_trigger(self, trigger: str) -> str:
        """Return whose trigger it is; it can't be used again."""
        found = self.triggers.get(trigger)
        if found is None:
            raise ApiError("invalid_trigger_id")
        if found["used"]:
            raise ApiError("exchanged_trigger_id")
        if self.clock() - found["at"] > self.trigger_seconds:
            raise ApiError("expired_trigger_id")
        found["used"] = True
        user: str = found["user"]
        return user

    def fault_of(self, method: str) -> Fault | None:
        """The fault that is due for a call of `method`."""
        for fault in self.faults:
            if fault.method in ("*", method):
                fault.count -= 1
                if fault.count <= 0:
                    self.faults.remove(fault)
                return fault
        return None


def public(value: Json) -> Json:
    """Return what Slack shows of a stored object: everything but our own notes."""
    return {key: inner for key, inner in value.items() if not key.startswith("_")}
