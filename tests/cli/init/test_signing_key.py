"""`hla key`: the locked key of a person goes to another machine, and opens there with the passphrase alone."""

import io
import json
from pathlib import Path

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import key_path
from tests.support.keys import PASSPHRASE, make_key


def imported(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    return main(["key", "import"])


def test_a_key_goes_to_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fingerprint = make_key().fingerprint
    assert main(["key", "export"]) == 0
    text = capsys.readouterr().out
    assert text == key_path().read_text()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    assert imported(text, monkeypatch) == 0
    assert fingerprint in capsys.readouterr().out
    assert key_path().stat().st_mode & 0o777 == 0o600
    there = Signer(key_path())
    there.unlock(PASSPHRASE)
    assert there.fingerprint == fingerprint


def test_a_key_that_is_there_stays(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    make_key()
    main(["key", "export"])
    text, before = capsys.readouterr().out, key_path().read_bytes()
    assert imported(text, monkeypatch) == 2
    assert key_path().read_bytes() == before


@pytest.mark.parametrize("text", ["", "x", "{}", "[]", "null", "x" * 20_000, "-----BEGIN PRIVATE KEY-----\n"])
def test_what_is_no_locked_key_becomes_none(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert imported(text, monkeypatch) == 2
    assert not key_path().exists()


def test_a_key_that_was_changed_on_the_way_does_not_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_key()
    main(["key", "export"])
    said = json.loads(capsys.readouterr().out)
    name = next(name for name, value in said.items() if isinstance(value, str) and len(value) == 64)
    said[name] = "0" * 64  # whose votes somebody else could then vouch for
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
    if imported(json.dumps(said), monkeypatch) == 0:
        from humanlayer_agent.errors import HumanlayerError

        with pytest.raises(HumanlayerError):
            Signer(key_path()).unlock(PASSPHRASE)


def test_without_a_key_there_is_nothing_to_bring(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "export"]) == 2
    assert "can't be read" in capsys.readouterr().err
