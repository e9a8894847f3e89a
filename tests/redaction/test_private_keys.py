"""Private keys that were made a moment ago: of every kind, in every notation, and wherever they may show."""

import dataclasses
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.channels.contract import Outcome as Asked
from humanlayer_agent.channels.mail.message import request_message
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.channels.slack import message
from humanlayer_agent.cli.audit import audit_commands
from humanlayer_agent.configuration import build_director
from humanlayer_agent.redaction.redactor import Redacted, Redactor, redact
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker
from humanlayer_agent.testing.conformance_rig import World
from tests.channels.slack.conftest import mode, rig, show, slack, world
from tests.redaction.fresh_keys import KINDS, LEAST, NOTATIONS, SHAPELESS, FreshKey, armoured, cut, shown
from tests.redaction.test_redact_channels import LETTERHEAD
from tests.support.extent import ALL, some

__all__ = ["mode", "rig", "show", "slack", "world"]

KEY = b"k" * 32
NAMES = [*NOTATIONS]
TRIED = [
    (kind, NAMES[(place + step) % len(NAMES)])
    for place, kind in enumerate(KINDS)
    for step in range(0, len(NAMES), 1 if ALL else 3)
]
"""Each kind in every notation; in `make test` in every third, other ones for each kind."""


@pytest.mark.long
def test_no_key_is_left() -> None:
    """In the command itself, in a text that quotes it, and in what is said of it later."""
    left = []
    for kind, notation in TRIED:
        fresh = KINDS[kind]()
        command = NOTATIONS[notation](fresh.text)
        redactor = Redactor(KEY)
        made = redactor.command(command)
        later = redactor.text(f"{' or '.join(fresh.secret)} was written with {command}")
        if any(shown(fresh, each.text) for each in (made, later, Redactor().text(command))):
            left.append((kind, notation, made.text[:300]))
        assert made.erased
    assert len(TRIED) > 276
    assert left == []


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "form", ["body", "one long line", "beginning", "beginning of the body", "end", "word", "value"]
)
def test_no_part_of_a_key_is_left(form: str) -> None:
    """Without the lines around it, torn off, or as one long line."""
    for kind in KINDS.keys() - SHAPELESS:
        fresh = KINDS[kind]()
        lines = fresh.text.splitlines()
        half = len(lines) // 2 + 1
        body = [*fresh.secret]
        text = {
            "body": "\n".join(body),
            "one long line": "".join(body),
            "beginning": "\n".join(lines[:half]),
            "beginning of the body": "\n".join(body[: len(body) // 2 + 1]),
            "end": "\n".join(lines[half:]) if lines[0].startswith("-") and len(body) > 2 else "",
            "word": "".join(body),
            "value": "".join(body),
        }[form]
        command = {"word": f"deploy {text}", "value": f"deploy --with=other,{text}"}.get(
            form, f"cat > key <<'E'\n{text}\nE\n"
        )
        assert not shown(fresh, redact(command).text), (kind, redact(command).text)
        assert not shown(fresh, Redactor().text(f"wrote {text}").text), kind


@pytest.mark.parametrize(
    "command",
    [
        ("ssh-keygen", "-q", "-t", "ed25519", "-a", "1", "-N", "hunter22", "-f", "key"),
        ("openssl", "genpkey", "-algorithm", "ed25519", "-out", "key"),
        ("openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "key"),
    ],
)
def test_keys_of_the_real_programs(command: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    fresh = armoured((tmp_path / "key").read_text())
    assert len("".join(fresh.secret)) > 60
    for text in (fresh.text, "\n".join(fresh.secret)):
        made = redact(f"cat > key <<'E'\n{text}\nE\n", KEY)
        assert not shown(fresh, made.text)
        assert made.erased == ("private key",)


def test_what_is_public_stays() -> None:
    # Not new ones: the base64 of one in some 250 ends as a password's name does (`...Pw=`), and what follows is hidden.
    ed = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32))).public_key()
    curve = ec.derive_private_key(7, ec.SECP256R1()).public_key()
    for key in (ed, curve):
        line = key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        block = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        for command in (f"echo '{line} me@host' >> ~/.ssh/authorized_keys", f"cat > key.pub <<'E'\n{block}E\n"):
            assert redact(command) == Redacted(command)
    for command in (
        "grep -rl 'BEGIN OPENSSH PRIVATE KEY' /srv",
        "git show 3f786850e387550fdab836ed7e6dc881de23001b:src/AbstractBeanFactoryPostProcessorImpl.java",
        "sha256sum -c <<< '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  a'",
    ):
        assert redact(command) == Redacted(command)


def test_what_stands_beside_a_key_stays() -> None:
    fresh = KINDS["PKCS8 Ed25519"]()
    command = (
        f"/opt/Tools2/bin/AbstractServerFactoryBuilder /home/Alice/projects2/source/main <<'E'\n{fresh.text}E\n"
        "sha1sum 3f786850e387550fdab836ed7e6dc881de23001b"
    )
    made = redact(command)
    assert made.text == command.replace(fresh.secret[0], "⟦erased⟧")


@pytest.mark.parametrize(
    "command",
    [
        "bash <<E\n# -----BEGIN PRIVATE KEY-----\nrm -rf /\nE",
        "bash <<E\n# -----BEGIN PRIVATE KEY-----\n/usr/sbin/shutdown/rm -rf /\nE",
        "rm -rf /\n# -----END PRIVATE KEY-----",
        "bash <<E\nrm -rf /\n-----END PRIVATE KEY-----\nE",
        "# PRIVATE KEY -----BEGIN PRIVATE KEY-----\nrm -rf /",
        "echo '-----BEGIN PRIVATE KEY-----'\nrm -rf / 'unfinished",
        "echo kty '\"d\":'; rm -rf /",
    ],
)
def test_a_command_is_not_hidden_by_the_mark_of_a_key(command: str) -> None:
    assert "rm -rf /" in redact(command, KEY).text


def test_the_program_stays_where_a_key_is_mentioned() -> None:
    command = "aB3dE5fG7hI9jK1lM3nO5pQ7 x # -----BEGIN PRIVATE KEY-----"
    assert redact(command).text == command
    assert redact("/usr/sbin/shutdownnow\n# -----BEGIN PRIVATE KEY-----\n/usr/sbin/shutdownnow").erased == ()


# Where they may show


def commands(of_each: int, at_once: int) -> tuple[list[FreshKey], list[str]]:
    """So many keys of each kind, and commands that write so many keys each in a here-document."""
    fresh = [make() for _ in range(of_each) for make in KINDS.values()]
    groups = [fresh[start : start + at_once] for start in range(0, len(fresh), at_once)]
    return fresh, [
        "\n".join(f"cat > key{number} <<'EOF'\n{key.text}EOF" for number, key in enumerate(group)) for group in groups
    ]


@pytest.mark.long
def test_none_is_in_log_export_report_chat_and_mail(tmp_path: Path) -> None:
    """The real Director and store, and every form in which the log and the requests are shown."""
    project = tmp_path / "project"
    fresh, texts = commands(of_each=some(7, here=1), at_once=some(1, here=14))
    assert len(fresh) >= some(276, here=42)
    path = tmp_path / "store.sqlite3"
    asker = ScriptedAsker([("approve", f"use {text}") for text in texts])
    director = build_director("strict", project=project)
    gate = Gate(director, SQLiteStore(path), asker, run_id="run-1", valid_for_ms=10**9)
    for text in texts:
        permit = gate.check(Action(text, cwd=str(project), project=str(project), model_intent=f"I write {text}"))
        assert isinstance(permit, Permit)
        gate.start(permit, permit.action)
        gate.finish(permit, Outcome(None, f"could not run {text}"))
    seen = [b"".join(entry.line for entry in gate.store.events()).decode()]
    for arguments in (
        ["tail", "-n", "100000"],
        ["tail", "-n", "100000", "--format", "jsonl"],
        ["query"],
        ["export"],
        ["report", "--format", "json"],
        ["report", "--format", "csv"],
        ["report", "--html", str(tmp_path / "report.html")],
    ):
        made = CliRunner().invoke(audit_commands.app, [*arguments, "--store", str(path)])
        assert made.exit_code in (0, 5), made.output
        seen.append(made.output)
    seen.append((tmp_path / "report.html").read_text())
    requests = gate.store.requests()
    assert len(requests) == len(texts)
    for request in requests:
        told = dataclasses.replace(
            request, comment=f"use {request.action.content}", edited=f"x; {request.action.content}"
        )
        seen.append(as_text(present(told, redacted=True)))
        what = message.shown(told)
        for attachment in message.Attachment:
            sent = message.asking(Asked(told), what, attachment, ["U1"], now=1)
            seen += [json.dumps(sent.blocks, ensure_ascii=False), sent.text]
        seen.append(what.whole)
        mail, _ = request_message(told, present(told, redacted=True), "alice@example.com", LETTERHEAD)
        seen += [str(part.get_content()) for part in mail.walk() if not part.is_multipart()]
    assert sum("cat > key" in each for each in seen) > 3 * len(texts)
    assert shown_of(fresh, seen) == []


def shown_of(fresh: list[FreshKey], texts: list[str]) -> list[str]:
    """The pieces of keys that are left in any of `texts`."""
    left = {piece for text in texts for run in re.findall(f"[A-Za-z0-9+/=_-]{{{LEAST},}}", text) for piece in cut(run)}
    return [piece for key in fresh for line in key.secret for piece in cut(line) if piece in left]


def test_none_is_in_a_real_message_of_slack(show: "object", world: World) -> None:
    fresh, (text,) = commands(of_each=1, at_once=len(KINDS))
    _, surface = show(text)  # type: ignore[operator]
    assert "cat > key3" in surface.text()
    assert shown_of(fresh, [surface.text(), json.dumps(list(map(str, surface.slack.world.files.values())))]) == []


PUBLIC = (
    "3rz3RQiso8Hpg6iFUj2V6isfCLWlVw-mkJKAVB1g-RtuigZ6gWaosA8oVwwuioPy-vMw8BKfDxI-uEzoWDH4g2E_gmH2e1Wd"
    "QbLgoK2Y7V9vgwiBrSM8VAUM2ATFsBC4ZlNfygFM05gFD-y5rg-p4TaHZsh5Z3-Ghg7c-oEMlJ9OmWT810rnp7wC5ZjyhhLt"
    "ieTbzeKT_eKf5m0kypMMlWgk0OUZgFeFwFRZvgU_P-g5hi7wOUXqWfkGbA_JeIkJ"
)

HIDDEN_AS_ONE = {
    "d": (
        "jBfGXoEqNIVOXiSsViGuHO6qQkwdhjitxtieJkmkKIn8aIvSmXj8OGAQO0_KJgz_0p8K9LSBnnUXRcv5hx9G8ztDOrpq0P_0"
        "PNJJPkZxnTsdZAkBpug2lZHnlibKQAcDByL6SXS8e1gRWkNNqfkMz_aYaHpHeLpkFXL-aK2qcx-4qAGxWslTYfSSmRi6ityg"
        "qRxW7uJOg9taITbI6JmGm_EvwM8L06sGrlIB6iPtu_shYB4_pESoMYCFEdrVGYZR"
    ),
    "p": (
        "_7JcmGJQRzu9k0t2YsrzancmXzz0xICy1zNuOmWtlwod8lpkNJzyFhOENfJXnz4IwRpddsC0lD2Z_XJj4vMKIbSKeb2HDr6L"
        "ApxXiqoNmFgcDWlHXgs_ImKAkYHn5w8v"
    ),
    "q": (
        "3wCYyqGCJlRmYE49hc4Mb9H7zYWBr8cTYTSxIZAV7KbUVxWRbZ_ika7s82Zj1C4hVs7qSPbpYsbL2Z8MIZEopnsDlb1kXoab"
        "PSfShv0kSjmbFEMwdHRmRC241xoMRR1H"
    ),
    "dp": (
        "-U1UDpc8oldS_PwEj0pFjrZhSVZLaBP7SuswO-vLFoqcrCEJtmqXdoLM0zRXzkFTk8M7AX_eEPMG4x_W1_4TEM3QfeYWen-5"
        "VXBNwjsPSkwN_d154e2hPss_g59fFd-t"
    ),
    "dq": (
        "WMv0Czukh360BUUiWlVhvmTuzzeKHGQ440wH_EVTdZg4lTSRZAV2QmxVDdaHicWUoOxjfgpThHGEWnNqcTNL7H6vPsDbZohS"
        "6FcjDX1fJe8qQTc_5B81WZCbOYu1tw-h"
    ),
    "qi": (
        "bq9kP3Hr0el9dHkozloMvt23-Me4DmwQ71mzdiWYMqN2CS0b56r6VeGdulBXwJk89XSZdhzSnJ3XCENnZMtn08rtuJWbUKKv"
        "V-z14AXayvkbMB7q1GK1HfqarPA2Dwq2"
    ),
}
"""The numbers of a key that was made for this test. On one line of JSON its command hides it as one long word."""


def test_the_numbers_of_a_key_that_was_hidden_as_one_word_are_known() -> None:
    text = json.dumps({"kty": "RSA", "n": PUBLIC, "e": "AQAB"} | HIDDEN_AS_ONE, indent=2) + "\n"
    fresh, command = FreshKey(text, tuple(HIDDEN_AS_ONE.values())), NOTATIONS["one line"](text)
    redactor = Redactor(KEY)
    assert redactor.command(command).text.startswith("echo ⟦hmac:")
    assert not shown(fresh, redactor.text(f"{' or '.join(fresh.secret)} was written with {command}").text)
