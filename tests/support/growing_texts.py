"""Texts of any size, each of which repeats or nests one construct (`growing_texts.yaml`): what an attacker would send."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from humanlayer_agent.action import Action
from humanlayer_agent.shell import GivenReader

FOLDER = "/srv/app"


@dataclass(frozen=True, slots=True)
class Construct:
    """One construct: where it stands ("python"), its name, what it is made of, and the files that are there besides."""

    kind: str
    name: str
    command: str
    path: str
    parts: tuple[str, ...]
    files: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"

    def text(self, size: int) -> str:
        """Return so much of it that about `size` characters are reached."""
        first, unit, *between, last = self.parts
        inside, close = between or ("", "")
        opened, length, count = [], 0, 0
        while not opened or length < size:
            opened.append(unit.replace("<n>", str(count)).replace("<m>", str(count + 1)))
            length += len(opened[-1]) + len(close)
            count += 1
        whole = f"{first}{''.join(opened)}{inside}{close * (count if close else 0)}{last}"
        return whole.replace("<N>", str(count))

    def action(self, size: int) -> tuple[Action, GivenReader]:
        """Return what an agent would propose, and the files that it has."""
        text = self.text(size)
        files = {f"{FOLDER}/{name}": given for name, given in self.files}
        if not self.path:
            return Action(text, cwd=FOLDER), GivenReader(files)
        return Action(self.command, cwd=FOLDER), GivenReader({**files, f"{FOLDER}/{self.path}": text})


@cache
def constructs() -> tuple[Construct, ...]:
    """Return all of them."""
    return tuple(_read())


def _read() -> Iterator[Construct]:
    with Path(__file__).with_suffix(".yaml").open(encoding="utf-8") as file:
        kinds = yaml.safe_load(file)
    for kind, group in kinds.items():
        for name, parts in group["texts"].items():
            yield Construct(
                kind, name, group["command"], group["path"], tuple(parts), tuple(group.get("files", {}).items())
            )
