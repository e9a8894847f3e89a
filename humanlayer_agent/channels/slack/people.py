"""The people in Slack: guests, strangers, members of user groups. What can't be found out lets nobody in."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from humanlayer_agent.channels.slack.api import SlackApi
from humanlayer_agent.errors import ChannelError

CACHE_SECONDS = 60.0
"""How long what Slack said of somebody is believed."""
USERGROUP = "slack-usergroup:"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Membership:
    """The user groups that somebody is in, as identities of the core; `unknown` names one that could not be asked."""

    groups: tuple[str, ...] = ()
    unknown: str = ""


class Directory:
    """Asks Slack about people, and remembers it for a while. Thread-safe.

    Args:
        usergroups: the groups that may matter, as TEAM/GROUP.
        clock: seconds.
    """

    def __init__(
        self, api: SlackApi, usergroups: Iterable[str] = (), *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._usergroups = tuple(dict.fromkeys(usergroups))
        self._clock = clock
        self._known: dict[str, tuple[float, Any]] = {}
        self._lock = threading.Lock()

    def why_not(self, user: str, team: str) -> str:
        """Return why an account of our team may not answer, whoever it is mapped to; "" where nothing is against it.

        Raises:
            ChannelError: Slack did not say.
        """
        info = self._remembered(f"user {user}", lambda: self._api.call("users.info", quick=True, user=user)["user"])
        if info.get("team_id", team) != team or info.get("is_stranger"):
            return "an account of another workspace"
        if info.get("is_restricted") or info.get("is_ultra_restricted"):
            return "a guest account"
        if info.get("deleted"):
            return "an account that was switched off"
        if info.get("is_bot") or info.get("is_workflow_bot"):
            return "an account of a program"
        return ""

    def groups_of(self, user: str, team: str) -> Membership:
        """The user groups that `user` is in."""
        found, unknown = [], ""
        for name in self._usergroups:
            its_team, _, group = name.partition("/")
            if its_team != team:
                continue
            try:
                if user in self._members(group):
                    found.append(USERGROUP + name)
            except ChannelError as error:
                unknown = str(error)
        return Membership(tuple(found), unknown)

    def _members(self, group: str) -> frozenset[str]:
        def ask() -> frozenset[str]:
            answer = self._api.call("usergroups.users.list", quick=True, usergroup=group)
            return frozenset(answer.get("users") or ())

        return self._remembered(f"group {group}", ask)

    def _remembered(self, key: str, ask: Callable[[], _T]) -> _T:
        now = self._clock()
        with self._lock:
            at, value = self._known.get(key, (0.0, None))
            if value is not None and now - at < CACHE_SECONDS:
                return value  # type: ignore[no-any-return]
        value = ask()
        with self._lock:
            if len(self._known) > 10_000:
                self._known.clear()
            self._known[key] = (now, value)
        return value
