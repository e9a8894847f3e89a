"""`hla key signers`, as who signs a list and as who takes it."""

import json
from pathlib import Path

import pytest

from humanlayer_agent.channels import settings
from humanlayer_agent.cli import main
from humanlayer_agent.cli.shared.records import SignerListRecord, SignerRecord
from humanlayer_agent.doctor import people
from humanlayer_agent.doctor.context import Context
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import config_folder, key_path
from tests.support.keys import make_key, passphrase_file
from tests.support.records import faults

Capture = pytest.CaptureFixture[str]
OTHER = "b" * 64


@pytest.fixture
def mine(own_user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """My key, which may sign the list that my channels file takes."""
    key = make_key().fingerprint
    monkeypatch.setenv("HUMANLAYER_PASSPHRASE_FILE", str(passphrase_file(tmp_path)))
    monkeypatch.chdir(tmp_path)
    config_folder().mkdir(parents=True)
    says(f"{{fleet: acme, signed_by: [{key}], from: {tmp_path}/acme.signers}}")
    return key


def says(signers: str) -> None:
    (config_folder() / "channels.yaml").write_text(f"version: 1\nsigners: {signers}\n")


def build(version: int, *keys: str, expires: str = "2999-12-31") -> int:
    lines = "".join(f'  person-{number}: "{key}"\n' for number, key in enumerate(keys))
    Path("signers.yaml").write_text(f"fleet: acme\nsigners:\n{lines}")
    return main(["key", "signers", "build", "signers.yaml", "--version", str(version), "--expires", expires])


def test_signed_put_in_force_and_looked_at(mine: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["key", "signers", "ls"]) == 2
    assert "acme, and has none: hla key signers install" in capsys.readouterr().err
    assert build(3, mine, OTHER) == 0
    assert "acme@3 is in acme.signers: 2 keys" in capsys.readouterr().out
    assert main(["key", "signers", "verify", "acme.signers", "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["name"], record["version"], record["signers"]["person-1"]) == ("acme", 3, [OTHER])
    assert not faults(record, SignerListRecord)
    assert main(["key", "signers", "install"]) == 0
    capsys.readouterr()
    assert main(["key", "signers", "ls", "--format", "jsonl"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert not any(faults(row, SignerRecord) for row in rows)
    assert [(row["key"], row["mine"], row["counts"], row["list"]) for row in rows] == [
        (mine, True, True, "acme@3"),
        (OTHER, False, True, "acme@3"),
    ]
    assert main(["key", "signers", "ls"]) == 0
    said = capsys.readouterr().out
    assert f"from {tmp_path}/acme.signers" in said
    assert "yours" in said
    assert build(4, OTHER) == 0
    assert main(["key", "signers", "install"]) == 0
    assert f"out      {mine}  person-0" in capsys.readouterr().out
    assert [build(3, mine), main(["key", "signers", "install"])] == [0, 2]
    assert main(["key", "signers", "verify", "acme.signers"]) == 1
    assert capsys.readouterr().err.count("version 3 is older than 4") == 2
    assert main(["key", "signers", "verify", "acme.signers", "--signer", mine]) == 0
    assert main(["key", "signers", "verify", "acme.signers", "--signer", OTHER]) == 1


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("signers: {a: [x]}", "expected `fleet:`"),
        ("fleet: acme\nsigners: {a: [x]}", "64 digits each"),
        (f"fleet: acme\nsigners: {{a: [{OTHER}], b: {OTHER}}}", "stands there twice"),
        ("fleet: acme\nsigners: {}", "expected names"),
        (f"fleet: /acme\nsigners: {{a: {OTHER}}}", "its name must be"),
        ("fleet: acme\nsigners: [", "signers.yaml:"),
    ],
)
def test_a_file_of_which_no_list_is_made(mine: str, capsys: Capture, text: str, why: str) -> None:
    Path("signers.yaml").write_text(text)
    wanted = ["key", "signers", "build", "signers.yaml", "--version", "1", "--expires", "2999-12-31"]
    assert main(wanted) == 2
    assert why in capsys.readouterr().err
    assert not Path("acme.signers").exists()


def test_nobody_signs_without_a_key_nor_what_is_over(mine: str, capsys: Capture) -> None:
    assert build(1, OTHER, expires="2001-01-01") == 2
    assert build(1, OTHER, expires="soon") == 2
    key_path().unlink()
    assert build(1, OTHER) == 2
    said = capsys.readouterr().err
    assert all(why in said for why in ("has expired", "expected a day", "there is no signing key"))


def test_where_no_list_is_taken_it_says_how(mine: str, capsys: Capture) -> None:
    says(f"[{mine}]")
    assert main(["key", "signers", "install"]) == 2
    assert "no channels file takes a signer list" in capsys.readouterr().err
    assert main(["key", "signers", "ls"]) == 0
    assert "a channels file names it" in capsys.readouterr().out


def test_the_doctor_and_init_say_what_holds(mine: str, capsys: Capture) -> None:
    def found() -> str:
        return "\n".join(f"{each.status} {each.said} {each.todo}" for each in people.signers(Context(None, {})))

    assert [build(1, mine, expires="2999-12-31"), main(["key", "signers", "install"])] == [0, 0]
    assert "ok the signers are those of the list acme@1, until 2999-12-31: 1 keys" in found()
    assert "ok your key is one of the signers" in found()
    assert [build(2, OTHER), main(["key", "signers", "install"])] == [0, 0]
    assert "failed your key is none of the signers" in found()
    assert f"whoever signs the signer list acme has to put it in, and it is installed then: {mine}" in found()
    capsys.readouterr()
    assert main(["init", "--yes"]) == 1
    said = capsys.readouterr().out
    assert "The key does not count yet: whoever signs the signer list acme" in said
    assert OTHER not in said, "nobody is told to take out a key that the list names"
    assert settings.load().signers == {OTHER}
    assert Signer(key_path()).fingerprint == mine
