"""Loosenings that somebody has accepted: a YAML file that is reviewed together with the policy it is about.

accepted:
  - digest: 5f0c...            # of `hla policy diff --format accept`
    command: "make deploy"     # what the digest is of: whoever reviews the file reads this
    reason: "staging only, agreed on 2026-11-02"
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from humanlayer_agent.errors import ConfigError

_DIGEST = re.compile(r"[0-9a-f]{64}").fullmatch
_KEYS = ("digest", "command", "reason")


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One entry."""

    digest: str
    command: str
    reason: str


@dataclass(slots=True)
class Accepted:
    """The entries of a file, by digest; and which of them were met."""

    entries: dict[str, Acceptance] = field(default_factory=dict)
    _met: set[str] = field(default_factory=set)
    _other: set[str] = field(default_factory=set)

    def reason(self, digest: str, command: str) -> str:
        """Why the loosening with this digest is accepted; "" where it is not.

        An entry counts only if it names the command that its digest is of, because that is what its reviewer has read.
        """
        entry = self.entries.get(digest)
        if entry is None:
            return ""
        if entry.command != command:
            self._other.add(digest)
            return ""
        self._met.add(digest)
        return entry.reason

    def unused(self) -> list[tuple[Acceptance, str]]:
        """Entries that accept nothing, and why."""
        return [
            (entry, "its digest is of another command" if entry.digest in self._other else "nothing is loosened so")
            for entry in self.entries.values()
            if entry.digest not in self._met
        ]


def read_accepted(path: Path) -> Accepted:
    """The acceptances in a file.

    Raises:
        ConfigError: it can't be read or has a mistake: file:line:column, and what was expected.
    """
    from humanlayer_agent.policy.language import yaml_positions

    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error
    document = yaml_positions.decode(raw, str(path))
    data = document.data
    if not isinstance(data, dict) or set(data) != {"accepted"} or not isinstance(data["accepted"], list):
        raise document.error((), "expected one key, `accepted`, with a list of digest, command and reason")
    found: dict[str, Acceptance] = {}
    for number, entry in enumerate(data["accepted"]):
        at: tuple[str | int, ...] = ("accepted", number)
        if not isinstance(entry, dict) or set(entry) != set(_KEYS) or not all(_text(entry[key]) for key in _KEYS):
            raise document.error(at, "expected digest, command and reason, each a text; the reason says why it may be")
        if not _DIGEST(entry["digest"]):
            raise document.error((*at, "digest"), "expected 64 hexadecimal digits, as `hla policy diff` prints them")
        if entry["digest"] in found:
            raise document.error((*at, "digest"), "this digest is there already")
        found[entry["digest"]] = Acceptance(entry["digest"], entry["command"], entry["reason"])
    return Accepted(found)


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())
