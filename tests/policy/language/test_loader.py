"""The compiled form of a policy is used only where it is exactly what was checked."""

import json
import os
import stat
from pathlib import Path

import pytest

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language.loader import cache_folder, find, load

TEXT = "version: 1\npolicy: p\nrules:\n  - {id: r, decision: deny, when: {program: rm}}\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "p.yaml"
    path.write_text(TEXT)
    return path


def compiled() -> list[Path]:
    return sorted(cache_folder().glob("*"))


def test_the_second_load_gives_the_same_without_checking(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load(policy)
    (kept,) = compiled()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    monkeypatch.setattr("humanlayer_agent.policy.language.schema.check", lambda document: pytest.fail("checked again"))
    assert load(policy) == first


def test_a_changed_source_is_checked_again(policy: Path) -> None:
    load(policy)
    policy.write_text(TEXT.replace("deny", "ask"))
    assert load(policy).rules[0].decision == "ask"
    policy.write_text(TEXT.replace("deny", "never"))
    with pytest.raises(PolicyError, match="'never': expected 'allow', 'ask' or 'deny'"):
        load(policy)


@pytest.mark.parametrize("damage", ["{}", "no json", "[]", '{"key": "x", "policy": {}}', ""])
def test_a_damaged_compiled_file_is_ignored(policy: Path, damage: str) -> None:
    load(policy)
    (kept,) = compiled()
    kept.write_text(damage)
    assert load(policy).rules[0].decision == "deny"
    assert json.loads(kept.read_text())["policy"]["policy"] == "p", "and written again"


def test_a_compiled_file_of_another_source_is_ignored(policy: Path, tmp_path: Path) -> None:
    load(policy)
    (kept,) = compiled()
    other = tmp_path / "o.yaml"
    other.write_text(TEXT.replace("deny", "ask"))
    load(other)
    (foreign,) = [p for p in compiled() if p != kept]
    kept.write_bytes(foreign.read_bytes())
    assert load(policy).rules[0].decision == "deny"


def test_a_compiled_file_that_others_can_write_or_that_is_a_link_is_ignored(policy: Path, tmp_path: Path) -> None:
    load(policy)
    (kept,) = compiled()
    loosened = kept.read_text().replace('"deny"', '"ask"')
    kept.write_text(loosened)
    assert load(policy).rules[0].decision == "ask", "what the user alone can write is trusted: it is their own state"
    kept.chmod(0o666)
    assert load(policy).rules[0].decision == "deny"
    target = tmp_path / "elsewhere.json"
    target.write_text(loosened)
    target.chmod(0o600)
    kept.unlink()
    kept.symlink_to(target)
    assert load(policy).rules[0].decision == "deny"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else (allowed in CI)")
def test_a_compiled_file_of_somebody_else_is_ignored(policy: Path) -> None:
    load(policy)
    (kept,) = compiled()
    kept.write_text(kept.read_text().replace('"deny"', '"ask"'))
    os.chown(kept, 12345, 12345)
    assert load(policy).rules[0].decision == "deny"


def test_a_folder_that_cannot_be_written_is_no_error(policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    assert load(policy).name == "p"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"none.yaml: can't be read: No such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(PolicyError, match="can't be read: Is a directory"):
        load(tmp_path)


def test_find(tmp_path: Path) -> None:
    assert find("default").name == "default.yaml"
    assert find("builtin:strict").name == "strict.yaml"
    assert find(tmp_path / "x.yaml") == tmp_path / "x.yaml"
    with pytest.raises(PolicyError, match="no policy is called 'nope'; shipped: ci, default, guard, sandbox, strict"):
        find("nope")
