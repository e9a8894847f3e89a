"""The tables of modules: their form, and that what does not fit it is refused."""

from pathlib import Path

import pytest

from humanlayer_agent.shell.languages.python.library.tables import (
    DOUBT,
    INSTANCE,
    Effect,
    Operand,
    TableError,
    Tables,
    standard,
)

GOOD = """# Two modules.
modules:
  one uno:
    others: doubt
    functions:
      f g: [{kind: write, operand: [0, path], default: "below:/tmp"}]
      h: {does: [{kind: delete, operand: self}], returns: one.T}
      i: []
      j: doubt
    types:
      T U: {value: 0, does: [{kind: open, operand: [0, file], mode: [1, mode]}], methods: {close finish: [], drop: doubt}}
      V: {}
    values: [x, y]
    doubt: [z]
  two: {functions: {f: [{kind: call, operand: [0, f], arguments: rest}]}}
  three: {}
"""


def tables(folder: Path, text: str, name: str = "a.yaml") -> Tables:
    (folder / name).write_text(text, encoding="utf-8")
    found = Tables(folder)
    found.scan()
    return found


def test_a_module_in_block_form(tmp_path: Path) -> None:
    one = tables(tmp_path, GOOD).module("uno")
    assert one is not None
    assert one.name == "one"
    assert one.dangerous
    assert one.others == DOUBT
    assert one.obscure == ("z",)
    assert one.value("x")
    assert not one.value("f")
    f, h, j = one.function("g"), one.function("h"), one.function("j")
    assert f is not None
    assert f.does == (Effect("write", Operand(0, "path"), default="below:/tmp"),)
    assert h is not None
    assert (h.does, h.returns) == ((Effect("delete", INSTANCE),), "one.T")
    assert j is not None
    assert j.does == DOUBT
    assert one.function("nope") is None
    kind = one.type("U")
    assert kind is not None
    assert (kind.name, kind.value, sorted(kind.methods), kind.effective) == ("T", 0, ["close", "drop", "finish"], True)
    assert {n for n, _ in one.everything()} == {"f", "g", "h", "i", "j", "T", "U", "V"}


def test_a_module_on_one_line(tmp_path: Path) -> None:
    found = tables(tmp_path, GOOD)
    two, three = found.module("two"), found.module("three")
    assert two is not None
    assert three is not None
    entry = two.function("f")
    assert entry is not None
    assert entry.does == (Effect("call", Operand(0, "f"), arguments="rest"),)
    assert not three.dangerous
    assert found.module("four") is None


def test_a_type_without_effects_keeps_its_own_name(tmp_path: Path) -> None:
    found = tables(tmp_path, "modules:\n  m:\n    types:\n      A B: {}\n").module("m")
    assert found is not None
    kind = found.type("B")
    assert kind is not None
    assert kind.name == "B"


@pytest.mark.parametrize(
    "entry",
    [
        "{does: [], gives: x}",
        "[{operand: [0, x]}]",
        "[{kind: write, operand: [0, x], wher: 1}]",
        "[{kind: write, operand: x}]",
        "[{kind: write, operand: [x, 0]}]",
        "nonsense",
        "[1]",
        "[{kind: write",
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, entry: str) -> None:
    module = tables(tmp_path, f"modules:\n  m:\n    functions:\n      f: {entry}\n").module("m")
    assert module is not None
    with pytest.raises(TableError):
        module.function("f")


def test_a_module_is_described_once(tmp_path: Path) -> None:
    tables(tmp_path, "modules:\n  m: {}\n")
    with pytest.raises(TableError, match=r"b\.yaml: m is already described in a\.yaml"):
        tables(tmp_path, "modules:\n  n m: {}\n", "b.yaml")


def test_what_is_of_the_standard_library() -> None:
    assert standard("os")
    assert standard("os.path")
    assert standard("distutils.core")
    assert not standard("numpy")
