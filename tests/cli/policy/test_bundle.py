"""`hla policy bundle` and `hla policy status`, as who signs and as root."""

import json
import os
from pathlib import Path

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.cli.shared.records import BundleRecord
from humanlayer_agent.keys.key_file import Work
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import key_path
from humanlayer_agent.policy import layers
from humanlayer_agent.policy.layers import catalog_files, machine_bundle
from tests.support.bundles import LOCKED, READS, Fleet, policy_text

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="what is the machine's belongs to root")
Capture = pytest.CaptureFixture[str]
PASSPHRASE = "correct horse battery staple"


@pytest.fixture
def fleet(tmp_path: Path, own_user: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    made = Fleet(tmp_path)
    for module in (layers, machine_bundle, catalog_files):
        monkeypatch.setattr(module, "MACHINE_FOLDER", str(made.folder))
    monkeypatch.chdir(made.project)
    made.signer = Signer.create(key_path(), PASSPHRASE, Work(2, 1))
    passphrase = tmp_path / "passphrase"
    passphrase.write_text(PASSPHRASE)
    passphrase.chmod(0o600)
    monkeypatch.setenv("HUMANLAYER_PASSPHRASE_FILE", str(passphrase))
    settings = f'bundle: acme\nsigners: ["{made.signer.fingerprint}"]\nfrom: {tmp_path}/acme.bundle\n'
    made.write("bundle.yaml", settings)
    return made


def build(fleet: Fleet, version: int) -> int:
    folder = fleet.files(policy=policy_text(READS, LOCKED))
    wanted = ["--version", str(version), "--expires", "2999-12-31", "--output", str(fleet.root / "acme.bundle")]
    return main(["policy", "bundle", "build", str(folder), *wanted])


def test_signed_put_in_force_and_looked_at(fleet: Fleet, capsys: Capture) -> None:
    assert main(["policy", "status"]) == 1
    assert "has none: sudo hla policy bundle install" in capsys.readouterr().out
    assert main(["check", "ls"]) == 2
    assert build(fleet, 7) == 0
    said = capsys.readouterr().out
    assert "acme@7 is in" in said
    assert "tests passed: 1" in said
    assert main(["policy", "bundle", "verify", str(fleet.root / "acme.bundle"), "--tests", "--format", "json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record.keys() == BundleRecord.__annotations__.keys()
    assert (record["name"], record["version"], record["tests"]) == ("acme", 7, 1)
    assert main(["policy", "bundle", "install"]) == 0
    assert "acme@7 is in force" in capsys.readouterr().out
    assert main(["check", "rm x"]) == 1
    assert main(["policy", "status"]) == 0
    said = capsys.readouterr().out
    assert all(part in said for part in ("machine: acme version 7", fleet.signer.fingerprint, "2999-12-31", "fetched"))
    assert main(["policy", "show"]) == 0
    assert "acme@7" in capsys.readouterr().out


def test_refused_by_verify_and_install_alike(fleet: Fleet, capsys: Capture) -> None:
    assert [build(fleet, 8), main(["policy", "bundle", "install"]), build(fleet, 7)] == [0, 0, 0]
    path = str(fleet.root / "acme.bundle")
    assert main(["policy", "bundle", "verify", path]) == 1
    assert main(["policy", "bundle", "install"]) == 2
    assert capsys.readouterr().err.count("version 7 is older than 8") == 2
    assert main(["policy", "bundle", "verify", path, "--signer", "0" * 64]) == 1
    assert main(["policy", "bundle", "verify", path, "--signer", fleet.signer.fingerprint]) == 0
    assert main(["policy", "bundle", "verify", "http://example.org/x"]) == 2


def test_nobody_signs_without_a_key(fleet: Fleet, capsys: Capture) -> None:
    key_path().unlink()
    assert build(fleet, 7) == 2
    assert "there is no signing key" in capsys.readouterr().err
