"""Certificates are not hidden, keys are."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.confine.certificates import is_public
from tests.confine.conftest import Done

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIBszCCAVmgAwIBAgIUd3x+/A==\n-----END CERTIFICATE-----\n"
PUBLIC = "-----BEGIN PUBLIC KEY-----\nMFkwEwYH\n-----END PUBLIC KEY-----\n"
PRIVATE = "-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n-----END PRIVATE KEY-----\n"


def written(folder: Path, text: str, name: str = "x.pem") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "text",
    [CERTIFICATE, PUBLIC, f"# Issuer: CN=a\n\n{CERTIFICATE}\n# Issuer: CN=b\n{CERTIFICATE}", CERTIFICATE.strip()],
)
def test_what_everybody_may_read(tmp_path: Path, text: str) -> None:
    assert is_public(written(tmp_path, text))
    assert is_public(written(tmp_path, text.replace("\n", "\r\n")))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password\n",
        "# nothing but this\n",
        PRIVATE,
        CERTIFICATE + PRIVATE,
        PRIVATE.replace("PRIVATE", "ENCRYPTED PRIVATE"),
        f"password\n{CERTIFICATE}",
        f"{CERTIFICATE}token",
        CERTIFICATE.replace("END CERTIFICATE", "END PUBLIC KEY"),
        CERTIFICATE.replace("MIIB", "pass word"),
        CERTIFICATE * 100_000,
    ],
)
def test_everything_else_may_be_a_secret(tmp_path: Path, text: str) -> None:
    assert not is_public(written(tmp_path, text))


def test_not_by_another_name_nor_through_a_link(tmp_path: Path) -> None:
    assert not is_public(written(tmp_path, CERTIFICATE, "id_rsa"))
    (tmp_path / "link.pem").symlink_to(written(tmp_path, CERTIFICATE))
    assert not is_public(f"{tmp_path}/link.pem")
    assert not is_public(f"{tmp_path}/missing.pem")


def test_a_file_that_becomes_a_key_is_one(tmp_path: Path) -> None:
    path = written(tmp_path, CERTIFICATE)
    assert is_public(path)
    written(tmp_path, PRIVATE)
    assert not is_public(path)


def test_a_confined_command_reads_certificates_and_no_keys(confined: Callable[..., Done], scene: Path) -> None:
    written(scene / "project", CERTIFICATE, "cacert.pem")
    written(scene / "project", PRIVATE, "key.pem")
    hide = (f"{scene}/project/**/*.pem",)
    assert confined("cat", "cacert.pem", hide=hide).stdout == CERTIFICATE
    assert "Permission denied" in confined("cat", "key.pem", hide=hide).stderr
