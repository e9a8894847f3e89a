"""The table of all doors names tests that there are."""

import ast

import pytest

from tests.doors import ROWS, Door, doors
from tests.support.pages import ROOT


def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("door", doors(), ids=lambda door: door.title)
def test_each_row_has_a_test_or_a_reason(door: Door) -> None:
    assert door.tests.keys() == ROWS.keys()
    for row, test in door.tests.items():
        path, _, name = test.partition("::")
        assert name in functions(path) if test else door.notes[row]
