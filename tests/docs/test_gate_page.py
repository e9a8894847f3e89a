"""docs/gate.md has every field of what a Gate returns, and every key of `supervision:`. (Its examples: test_pages.py.)"""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

import pytest

from humanlayer_agent.agents.supervision import Supervision
from humanlayer_agent.approvals.model import Denial, Outcome, Permit
from humanlayer_agent.errors import ActionDenied
from tests.support.pages import ROOT

TEXT = (ROOT / "docs/gate.md").read_text()


def shown(heading: str) -> set[str]:
    """The names in the first column of the table that begins so."""
    table = TEXT.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split(" | ")[0])}


def fields(kind: Any) -> Iterable[str]:
    return (each.name for each in dataclasses.fields(kind))


@pytest.mark.parametrize(
    ("heading", "names"),
    [
        ("field of `ActionDenied`", vars(ActionDenied(Denial("no", by="policy")))),
        ("field of `Permit`", fields(Permit)),
        ("field of `Denial`", fields(Denial)),
        ("field of `Outcome`", fields(Outcome)),
        ("key", Supervision.model_fields),
    ],
)
def test_every_field_has_its_row(heading: str, names: Iterable[str]) -> None:
    assert shown(heading) == set(names)


def test_the_defaults_of_supervision_are_those_of_the_class() -> None:
    table = TEXT.partition("| key |")[2].partition("\n\n")[0]
    for name, default in re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", table, re.MULTILINE):
        meant = Supervision().model_dump(mode="json")[name]
        assert default == ({True: "true", False: "false"}[meant] if isinstance(meant, bool) else str(meant)), name
