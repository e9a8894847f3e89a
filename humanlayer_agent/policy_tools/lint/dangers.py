"""Commands that no allow should let through unnoticed, from `dangers.yaml`, and those that the catalog shows."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from humanlayer_agent.shell.programs import catalog


@dataclass(frozen=True, slots=True)
class Danger:
    """A command, what it does that an allow may not have meant, and the kinds of its effects that do it."""

    command: str
    does: str
    by: frozenset[str]


@cache
def shown_by_catalog() -> tuple[str, ...]:
    """The examples of the command catalog, of every program that it describes."""
    return tuple(example.command for example in catalog.examples())


@cache
def all_dangers() -> tuple[Danger, ...]:
    """Every dangerous command, in the order of the file."""
    import yaml

    groups = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return tuple(Danger(c, group["does"], frozenset(group["by"])) for group in groups for c in group["commands"])
