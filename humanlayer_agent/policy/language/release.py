"""Releases: what is made in one place and taken by many machines, in one signed file of a name, a version and an end.

A release is one canonical JSON text, the same bytes for the same content. It is no archive: nothing is unpacked, so
nothing in it is a link, lies outside of it or grows. A second entry of one name, another spelling or a further byte
make it a text that is refused. What its signature is worth is decided by who trusts the key (`layers.installation`).
"""

import json
import re
import time
from dataclasses import fields
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Self

from humanlayer_agent.audit.heads import is_signature
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language.policy import end_of, expiry

MAX_RELEASE = 4 * 1024 * 1024
"""So many bytes a release may have."""
SOON_DAYS = 14
"""So many days before a release ends it is said."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]+", re.ASCII)


class Release:
    """A release. What it says counts once its signature is good (`is_signed`), and whose key that is was asked.

    Each kind of release is a dataclass below it. Its fields are what its file says, besides the purpose.
    """

    KIND: ClassVar[str]
    """What people call it."""
    NAMED: ClassVar[str]
    """The field that holds its name."""
    PURPOSE: ClassVar[str]
    """What its text begins with: no signature stands for another kind of text."""
    WITHOUT: ClassVar[str]
    """What is the case while a machine that takes one has none that counts, as part of a sentence."""
    INSTALL: ClassVar[str]
    """The command that puts a newer one in force."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    version: int
    expires: str
    signer: str
    signature: str

    @classmethod
    def parse(cls, raw: bytes, place: str) -> Self:
        """Read the bytes of a release.

        Args:
            place: where they come from, for messages.

        Raises:
            PolicyError: they are none, in the one form in which a release is written.
        """
        if len(raw) > MAX_RELEASE:
            raise PolicyError(f"{place}: too large: a {cls.KIND} has at most {MAX_RELEASE} bytes")
        try:
            said = json.loads(raw)
            if not isinstance(said, dict) or said.pop("purpose", None) != cls.PURPOSE:
                raise ValueError("these are not the keys of one")
            if said.keys() != {each.name for each in fields(cls)}:
                raise ValueError("these are not the keys of one")
            found = cls(**{name: tuple(value) if type(value) is list else value for name, value in said.items()})
            if why := found.mistake():
                raise ValueError(why)
            if found.text != raw:
                raise ValueError("it is not in the one form in which it is written")
        except (ValueError, TypeError, RecursionError) as error:
            wrong = "it is cut short, or no JSON" if isinstance(error, json.JSONDecodeError) else str(error)
            raise PolicyError(f"{place}: not a {cls.KIND}: {wrong}") from None
        return found

    def mistake(self) -> str:
        """Return what is wrong with it, apart from its signature; "" where nothing is."""
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            return "its name must be like that of a policy: letters, digits, dots, hyphens"
        if type(self.version) is not int or not 0 < self.version < 2**53:
            return "its version must be a number from 1 on"
        if not isinstance(self.expires, str) or expiry(self.expires) != self.expires:
            return "expires: expected a day such as 2030-12-31, or a moment such as 2030-12-31T18:00:00Z"
        for value, size in ((self.signer, 64), (self.signature, 128)):
            if not isinstance(value, str) or (value and (len(value) != size or not _HEX.fullmatch(value))):
                return "its signer and its signature must be hexadecimal numbers"
        return self.mistake_inside()

    def mistake_inside(self) -> str:
        """Return what is wrong with what only this kind of release has; "" where nothing is."""
        return ""

    @property
    def name(self) -> str:
        """Its name: a machine takes releases of one name."""
        name: str = getattr(self, self.NAMED)
        return name

    @cached_property
    def statement(self) -> bytes:
        """What is signed: everything but the signature."""
        said = self._said()
        del said["signature"]
        return canonical(said)

    @cached_property
    def text(self) -> bytes:
        """The bytes of its file."""
        return canonical(self._said())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the bytes of its file."""
        return sha256(self.text).hexdigest()

    @property
    def title(self) -> str:
        """Name and version, as decisions and the log have them: `acme@7`."""
        return f"{self.name}@{self.version}"

    @property
    def end(self) -> str:
        """The first moment (UTC, ISO 8601) at which it does not hold any more."""
        return end_of(self.expires)

    @property
    def ends_soon(self) -> bool:
        """Tell whether it is time for a newer one."""
        return self.end < moment(SOON_DAYS)

    @property
    def is_signed(self) -> bool:
        """Tell whether the key that it names has signed it. (Whose key that is, is another question.)"""
        return is_signature(self.signer, self.signature, self.statement)

    def about(self) -> dict[str, Any]:
        """Return what is said of it where it is not there itself: in the log, for example."""
        said = {"name": self.name, "version": self.version, "sha256": self.digest}
        return {**said, "signer": self.signer, "expires": self.expires}

    def check_holds(self, now: str, install: str = "") -> None:
        """Raise PolicyError where it has ended by the moment `now` (UTC, ISO 8601).

        Args:
            install: the command that puts a newer one in force, where it is another one than usual.
        """
        if now >= self.end:
            raise PolicyError(
                f"the {self.KIND} {self.title} has expired ({self.expires}), so {self.WITHOUT}, until a newer one is "
                f"installed: {install or self.INSTALL}"
            )

    def _said(self) -> dict[str, Any]:
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values}
        return {"purpose": self.PURPOSE, **plain}


def moment(days: int = 0) -> str:
    """Return this moment (UTC), or the one so many days later, in ISO 8601."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + days * 86_400))
