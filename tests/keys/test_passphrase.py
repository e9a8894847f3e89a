"""Where a passphrase may come from, and what is none."""

import os
import stat
import sys
from pathlib import Path

import pexpect
import pytest

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys import passphrase
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.keys.unlock import unlock
from humanlayer_agent.locations import PASSPHRASE_VARIABLE
from tests.support import children
from tests.support.keys import PASSPHRASE, make_key, passphrase_file


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = passphrase_file(tmp_path)
    monkeypatch.setenv(PASSPHRASE_VARIABLE, str(path))
    return path


def test_what_is_made_is_never_the_same_and_is_taken() -> None:
    made = {passphrase.made() for _ in range(100)}
    assert len(made) == 100
    assert {passphrase.fault(each) for each in made} == {""}
    assert not set("".join(made)) & set("ilo01")


@pytest.mark.parametrize(
    "text",
    ["", "eleven char", "aaaaaaaaaaaaaaaaaaaa", "abcabcabcabcabc", "a" * 900 + "bcdefg" * 20, "with a\ttab in it"],
)
def test_what_is_none(text: str) -> None:
    assert passphrase.fault(text)


@pytest.mark.parametrize("text", ["twelve chars", "die Straße nach Süden", "パスワードは長い方が良いですよ"])
def test_what_is_one(text: str) -> None:
    assert passphrase.fault(text) == ""


@pytest.mark.parametrize("ending", ["", "\n", "\r\n", "\nand a second line\n"])
def test_the_first_line_of_a_file(file: Path, ending: str) -> None:
    file.write_bytes(f"pass phräse{ending}".encode())
    assert passphrase.in_file() == "pass phräse"


def test_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert passphrase.in_file() is None
    monkeypatch.setenv(PASSPHRASE_VARIABLE, "")
    assert passphrase.in_file() is None


@pytest.mark.parametrize("fault", ["a folder", "a pipe", "bytes", "of somebody else", "in the project", "by a link"])
def test_a_file_that_is_not_taken(file: Path, fault: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    match fault:
        case "a folder":
            file.unlink()
            file.mkdir()
        case "a pipe":
            file.unlink()
            os.mkfifo(file, 0o600)
        case "bytes":
            file.write_bytes(b"\xff\xfe passphrase of bytes")
        case "of somebody else":
            if os.getuid() != 0:
                return  # nobody else can give a file away
            os.chown(file, 65534, 65534)
        case "in the project":
            project = tmp_path
        case "by a link":
            file.rename(project / "passphrase")
            file.symlink_to(project / "passphrase")
    with pytest.raises(ConfigError, match=f"^{PASSPHRASE_VARIABLE}: {file} "):
        passphrase.in_file(project)


@pytest.mark.parametrize(("mode", "taken"), [(0o440, True), (0o400, True), (0o460, False), (0o444, False)])
def test_a_credential_of_systemd(file: Path, mode: int, taken: bool) -> None:
    """LoadCredential= gives root's file with an access list: what means us stands where a group's right does."""
    if os.getuid() != 0:
        return  # such a file is root's
    file.chmod(mode)
    assert (file.stat().st_uid, file.stat().st_gid, stat.S_IMODE(file.stat().st_mode)) == (0, 0, mode)
    if taken:
        assert passphrase.in_file() == PASSPHRASE
        return
    with pytest.raises(ConfigError, match="nobody else may read"):
        passphrase.in_file()


def test_a_key_is_unlocked_by_a_file(file: Path, tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    signer = Signer(tmp_path / "key")
    unlock(signer)
    assert not signer.is_locked
    file.write_text("not this one")
    again = Signer(tmp_path / "key")
    with pytest.raises(ConfigError, match=f"^{PASSPHRASE_VARIABLE}: the passphrase does not unlock the key$"):
        unlock(again)
    assert again.is_locked


# What is typed never reaches the screen

EARLY = """
import os, select, sys
from pathlib import Path
from humanlayer_agent.keys import passphrase, unlock
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.processes.tty import controlling_terminal

what, when, key, wanted = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
looks = 0

def while_it_looks():
    global looks
    looks += 1
    if looks == when:
        print("early", flush=True)
        select.select([0], [], [])  # the human has typed a line
    return []

with controlling_terminal() as fd:
    passphrase.listeners = while_it_looks
    if what == "a new one":
        print("got it:", passphrase.chosen(fd) == wanted)
    else:
        print("got it:", unlock.ask(fd, Signer(key)))
"""


@pytest.mark.parametrize(
    ("what", "when", "typed"),
    [
        ("a new one", 1, [PASSPHRASE, PASSPHRASE]),
        ("a new one", 2, [PASSPHRASE, PASSPHRASE]),
        ("that of a key", 1, [PASSPHRASE]),
        ("that of a key", 2, ["a wrong one", PASSPHRASE]),
    ],
)
def test_one_that_is_typed_before_it_is_asked_for_is_not_shown(
    what: str, when: int, typed: list[str], tmp_path: Path
) -> None:
    make_key(tmp_path / "key")
    child = children.spawn(
        sys.executable, ["-c", EARLY, what, str(when), str(tmp_path / "key"), PASSPHRASE], encoding="utf-8", timeout=600,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    child.delaybeforesend = None
    shown = ""
    for number, each in enumerate(typed, 1):
        if number == when:
            child.expect_exact("early")
            shown += child.before
            child.sendline(PASSPHRASE)  # it does not count either: what is asked for comes later
        child.expect(["Passphrase .*: ", "The same again: "])
        shown += child.before
        child.sendline(each)
    child.expect_exact("got it: True")
    shown += child.before
    child.expect(pexpect.EOF)
    assert PASSPHRASE not in shown
