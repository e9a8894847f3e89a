"""Key files: what can be read of them without the passphrase, and what an attacker who can write them gets."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.audit.heads import is_signature
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.key_file import AuditKey, LockedKey, Work, WrongPassphrase, read_locked
from humanlayer_agent.keys.signing import Signer
from tests.support.keys import PASSPHRASE, QUICK, make_key

KEY = LockedKey.lock(bytes(range(32)), "ab" * 32, PASSPHRASE, QUICK)
PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----\n"


def test_what_is_locked_is_unlocked() -> None:
    again = LockedKey.of(json.loads(KEY.text()))
    assert again == KEY
    assert again.unlock(PASSPHRASE) == bytes(range(32))


def test_the_file_holds_nothing_of_the_key(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    raw = key._private().private_bytes_raw()
    text = (tmp_path / "key").read_text()
    assert raw.hex() not in text
    assert PASSPHRASE not in text
    assert json.loads(text)["public_key"] == key.fingerprint


def test_what_a_guess_costs_by_default() -> None:
    """128 MiB for each: that many at once is what keeps a graphics card from trying millions."""
    assert (Work().n, Work().r, Work().p) == (2**17, 8, 1)


@given(st.text())
def test_no_other_passphrase_unlocks_it(other: str) -> None:
    if other == PASSPHRASE:
        return
    with pytest.raises(WrongPassphrase):
        KEY.unlock(other)


@pytest.mark.parametrize("passphrase", ["\u00e9" * 12, "e\u0301" * 12])
def test_the_same_letters_are_the_same_passphrase(passphrase: str) -> None:
    key = LockedKey.lock(bytes(32), "ab" * 32, "\u00e9" * 12, QUICK)
    assert key.unlock(passphrase) == bytes(32)


CHANGES: dict[str, Any] = {
    "public_key": "cd" * 32,
    "work": Work(4, 1),
    "salt": bytes(16),
    "nonce": bytes(12),
    "box": bytes(48),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_anything_locks_it_for_good(name: str) -> None:
    with pytest.raises(WrongPassphrase):
        replace(KEY, **{name: CHANGES[name]}).unlock(PASSPHRASE)


def test_a_key_under_the_public_key_of_another(tmp_path: Path) -> None:
    """Who knows a passphrase of their own can state any public key; what comes out must be the key of it."""
    mine, theirs = make_key(tmp_path / "mine"), make_key(tmp_path / "theirs")
    forged = LockedKey.lock(theirs._private().private_bytes_raw(), mine.fingerprint, PASSPHRASE, QUICK)
    (tmp_path / "mine").write_text(forged.text())
    signer = Signer(tmp_path / "mine")
    assert signer.fingerprint == mine.fingerprint
    with pytest.raises(WrongPassphrase, match="not that of the public key it states"):
        signer.unlock(PASSPHRASE)
    assert signer.is_locked


def test_it_is_read_once(tmp_path: Path) -> None:
    """A file that is put in its place after the fingerprint was looked at is not the one that is unlocked."""
    mine = make_key(tmp_path / "mine")
    signer = Signer(tmp_path / "mine")
    assert signer.fingerprint == mine.fingerprint
    (tmp_path / "mine").unlink()
    make_key(tmp_path / "mine")
    signer.unlock(PASSPHRASE)
    assert is_signature(mine.fingerprint, signer.sign_text(b"x"), b"x")


# What is no key file


def changed(**fields: object) -> str:
    return json.dumps(json.loads(KEY.text()) | fields)


def scrypt(**fields: object) -> str:
    return changed(scrypt=json.loads(KEY.text())["scrypt"] | fields)


TEXTS = {
    "nothing": "",
    "text": "no key",
    "a list": "[]",
    "deep": "[" * 15_000,
    "an audit key": '{"format": "humanlayer-agent audit key 1", "public_key": "", "key": ""}',
    "another version": changed(format="humanlayer-agent signing key 2"),
    "a field more": changed(also=1),
    "a short key": changed(public_key="ab"),
    "capitals": changed(public_key="AB" * 32),
    "spaces": changed(public_key="ab " * 21 + "a"),
    "a number": changed(public_key=7),
    "a short box": changed(box="ab" * 47),
    "no scrypt": changed(scrypt=None),
    "too much memory": scrypt(n=2**18, r=16),
    "far too much memory": scrypt(n=2**40),
    "too much time": scrypt(p=2**24),
    "no power of two": scrypt(n=3),
    "one": scrypt(n=1),
    "none": scrypt(p=0),
    "a true one": scrypt(r=True),
    "a text for a number": scrypt(n="2"),
    "a fraction": scrypt(n=2.0),
    "binary": "\udcff",
}


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_no_key(name: str, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(TEXTS[name], errors="surrogateescape")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=f"^the key {path} is not a key that hla init has written$"):
        read_locked(path)


def test_a_key_without_a_passphrase_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(PEM)
    (tmp_path / "key").chmod(0o600)
    with pytest.raises(ConfigError, match="has no passphrase, so whatever runs as you can sign with it"):
        _ = Signer(tmp_path / "key").fingerprint


FILES: list[Callable[[Path], object]] = [AuditKey.create, make_key]


@pytest.mark.parametrize("make", FILES, ids=["audit", "signing"])
@pytest.mark.parametrize("fault", ["missing", "readable by others", "a link", "a folder", "a pipe", "of somebody else"])
def test_a_file_that_can_not_be_used(tmp_path: Path, fault: str, make: Callable[[Path], object]) -> None:
    path = tmp_path / "key"
    made = make(path)
    match fault:
        case "readable by others":
            path.chmod(0o640)
        case "a link":
            path.rename(tmp_path / "other")
            path.symlink_to(tmp_path / "other")
        case "of somebody else":
            if os.getuid() != 0:
                return  # nobody else can give a file away
            os.chown(path, 65534, 65534)
        case _:
            path.unlink()
            if fault == "a folder":
                path.mkdir()
            elif fault == "a pipe":
                os.mkfifo(path, 0o600)
    with pytest.raises(ConfigError, match=str(path)):
        _ = type(made)(path).fingerprint  # type: ignore[call-arg, attr-defined]


# The audit key


def test_an_audit_key(tmp_path: Path) -> None:
    made = AuditKey.create(tmp_path / "audit")
    again = AuditKey(tmp_path / "audit").load()
    assert again.fingerprint == made.fingerprint
    assert is_signature(made.fingerprint, again.sign_text(b"x"), b"x")
    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="File exists"):
        AuditKey.create(tmp_path / "audit")
    assert not hasattr(made, "sign")  # votes


def test_an_audit_key_under_the_public_key_of_another(tmp_path: Path) -> None:
    mine = AuditKey.create(tmp_path / "mine")
    AuditKey.create(tmp_path / "theirs")
    said = json.loads((tmp_path / "theirs").read_text()) | {"public_key": mine.fingerprint}
    (tmp_path / "theirs").write_text(json.dumps(said))
    with pytest.raises(ConfigError, match="not that of the public key it states"):
        AuditKey(tmp_path / "theirs").load()
