"""Signer lists: the keys whose signatures count on all machines of a fleet, in one signed file.

A list is a release, as a policy bundle is: it has a name, a version and an end, and machines take it from an address or
a file. A channels file of the machine's or the user's says which one, and who may sign it; then nothing else names
signers. Who is taken out of it counts no more, also in processes that go on.
"""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.language.release import Release, moment
from humanlayer_agent.policy.layers import trust
from humanlayer_agent.policy.layers.installation import Installation, Settings, is_key

SUFFIX = ".signers"
MAX_KEYS = 5_000
_LONGEST_NAME = 100

logger = logging.getLogger("humanlayer_agent")


@dataclass(frozen=True)
class SignerList(Release):
    """A list of signers.

    Args:
        fleet: its name.
        version: counts up with each list of that name.
        expires: the last day on which it holds (UTC), or the moment at which it ends.
        signers: the public keys of each person or hub, in hex. The names are for people: a key is what counts.
        signer: the public key that signs the list, in hex. It is no signer by that.
        signature: of everything else, in hex.
    """

    KIND = "signer list"
    NAMED = "fleet"
    PURPOSE = "humanlayer-agent signer list 1"
    WITHOUT = "nobody's answer counts"
    INSTALL = "hla key signers install"

    fleet: str
    version: int
    expires: str
    signers: Mapping[str, list[str]]
    signer: str
    signature: str = ""

    def mistake_inside(self) -> str:
        """Return what is wrong with its keys; "" where nothing is."""
        found: object = self.signers
        if not isinstance(found, dict) or not found:
            return "signers: expected names, each with a list of public keys"
        keys: list[str] = []
        for name, named in found.items():
            if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
                return "signers: a name is printable, and has at most 100 characters"
            if not isinstance(named, list) or not named or not all(map(is_key, named)):
                return f"signers: {name}: expected a list of public keys, 64 digits each: hla key signers ls says yours"
            keys += named
        if len(keys) > MAX_KEYS:
            return f"it has more than {MAX_KEYS} keys"
        if len(set(keys)) != len(keys):
            return "signers: a key stands there twice: each is one person's, or one hub's"
        return ""

    @cached_property
    def names(self) -> dict[str, str]:
        """Whose each key is."""
        return {key: name for name, keys in self.signers.items() for key in keys}


def installation(settings: Settings, folder: Path | str, *, machine: bool) -> Installation[SignerList]:
    """Return where a list lies: in the folder of the channels file that takes it, or else in that of the user's."""
    file = os.path.join(folder, settings.name)
    return Installation(SignerList, settings, f"{file}{SUFFIX}", f"{file}{SUFFIX}-last.json", machine=machine)


class FleetSigners:
    """The signers of a list that is in force, and which of them do not count any more.

    Args:
        place: where it lies.

    Raises:
        ConfigError: there is none that counts.
    """

    def __init__(self, place: Installation[SignerList]) -> None:
        self.place = place
        self._state = self._states()  # before the list: what comes meanwhile is read again
        if place.machine:
            trust.check_folder(os.path.dirname(place.file), machine=True)
        self.list = self._now = place.current()
        self.list.check_holds(moment(), place.install)
        self.keys = frozenset(self.list.names)
        self._problem = ""

    @property
    def files(self) -> tuple[str, str]:
        """The files that it is read from."""
        return self.place.file, self.place.mark

    def ask_for(self, key: str) -> str:
        """Return how a key comes to count, in words."""
        return f"whoever signs the signer list {self.list.fleet} has to put it in, and it is installed then: {key}"

    def withdrawn(self, key: str) -> bool:
        """Tell whether a key that was one of the signers has been taken out of the list, or the list does not hold any
        more: it has expired, or what lies there does not count.
        """
        return key in self.keys and key not in self._counting()

    def _counting(self) -> Mapping[str, str]:
        try:
            if (state := self._states()) != self._state:
                self._now = self.place.current()
                self._state = state
            self._now.check_holds(moment(), self.place.install)
        except ConfigError as error:
            if self._problem != str(error):
                self._problem = str(error)
                logger.warning("Warning: %s", error)
            return {}
        self._problem = ""
        return self._now.names

    def _states(self) -> list[tuple[int, ...] | None]:
        return [_state(path) for path in self.files]


def _state(path: str) -> tuple[int, ...] | None:
    try:
        about = os.lstat(path)
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns, about.st_ctime_ns, about.st_size, about.st_uid, about.st_mode
