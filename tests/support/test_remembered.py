"""What passed is remembered for as long as nothing that it was tested over has changed."""

import re
from pathlib import Path

import pytest

from tests.support import extent, remembered


def test_any_change_is_another_digest(tmp_path: Path) -> None:
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    seen = set()
    for text in ("x = 1", "x = 2", ""):
        one.write_text(text)
        seen.add(remembered._digest([one]))
        seen.add(remembered._digest([one, other]))  # which is not there
    other.write_text("")
    seen.add(remembered._digest([one, other]))
    assert len(seen) == 4


def test_the_engine_is_all_that_decides() -> None:
    found = {path.relative_to(remembered.ROOT).as_posix() for path in remembered._engine()}
    assert "tests/conftest.py" in found
    for folder in (*(f"humanlayer_agent/{name}/" for name in remembered.ENGINE), "policies/"):
        assert any(name.startswith(folder) for name in found)
    assert any(name.endswith(".yaml") for name in found)


APART = ("approvers.py", "file_schemas.py", "playground.py", "release.py", "trial.py")
"""What approvers would have answered, who has signed a release, schemas and pages: no result of tests that are remembered."""


def test_the_engine_imports_nothing_else_of_ours() -> None:
    package = remembered.ROOT / "humanlayer_agent"
    below = {*remembered.ENGINE, "__init__", "action", "canonical_json", "errors", "locations", "safe_text"}
    for path in (path for name in remembered.ENGINE for path in (package / name).rglob("*.py")):
        if path.name in APART:
            continue
        imported = re.findall(r"^ *(?:from|import) humanlayer_agent\.(\w+)", path.read_text(), re.MULTILINE)
        assert set(imported) <= below, path


def test_what_lies_beside_a_test_is_part_of_it(tmp_path: Path) -> None:
    for name in ("test_one.py", "test_other.py", "conftest.py", "table.yaml"):
        (tmp_path / name).touch()
    found = {path.name for path in remembered._beside(tmp_path / "test_one.py")}
    assert found == {"test_one.py", "conftest.py", "table.yaml"}


@pytest.mark.parametrize("variable", ["CI", "HLA_REMEMBER", "ALL"])
def test_it_is_for_make_test_alone(
    variable: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HLA_REMEMBER", "1")
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(extent, "ALL", variable == "ALL")
    if variable == "CI":
        monkeypatch.setenv("CI", "true")
    if variable == "HLA_REMEMBER":
        monkeypatch.delenv("HLA_REMEMBER")
    item = request.node
    item.add_marker(pytest.mark.remembered)
    before = list(item.user_properties)
    assert remembered.known(request.config, [item]) == set()
    assert item.user_properties == before
