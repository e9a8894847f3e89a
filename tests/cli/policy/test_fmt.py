"""`hla policy fmt`: what it writes, what it only shows, and what it leaves alone."""

import io
import os
import sys
from pathlib import Path

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.cli.shared import file_replacement
from humanlayer_agent.cli.shared.file_replacement import replace_file
from humanlayer_agent.errors import ConfigError

WRITTEN = "policy: p\nversion: 1\nextends: 'x.yaml' # ours\n"
WANTED = "version: 1\npolicy: p\nextends: x.yaml   # ours\n"
Said = pytest.CaptureFixture[str]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_user: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(WRITTEN)
    return Path("p.yaml")


def test_it_writes_and_says_so_once(path: Path, capsys: Said) -> None:
    path.chmod(0o640)
    assert main(["policy", "fmt", "p.yaml"]) == 0
    assert path.read_text() == WANTED
    assert path.stat().st_mode & 0o777 == 0o640
    assert main(["policy", "fmt", "p.yaml"]) == 0
    assert capsys.readouterr().out == "laid out p.yaml\n"
    assert os.listdir() == ["p.yaml"]


def test_check_shows_what_differs_and_writes_nothing(path: Path, capsys: Said) -> None:
    assert main(["policy", "fmt", "--check", "p.yaml"]) == 1
    assert path.read_text() == WRITTEN
    said = capsys.readouterr().out
    assert "-extends: 'x.yaml' # ours\n+extends: x.yaml   # ours\n" in said
    path.write_text(WANTED)
    assert main(["policy", "fmt", "--check", "p.yaml"]) == 0
    assert capsys.readouterr().out == ""


def test_one_that_is_refused_keeps_no_other_from_it(path: Path, capsys: Said) -> None:
    Path("broken.yaml").write_text("version: 1\npolicy: p\nrulez: []\n")
    assert main(["policy", "fmt", "broken.yaml", "missing.yaml", "p.yaml"]) == 2
    assert path.read_text() == WANTED
    said = capsys.readouterr().err
    assert "broken.yaml:3:1: unknown key 'rulez'; did you mean rules?" in said
    assert "missing.yaml: can't be read: No such file or directory" in said
    assert Path("broken.yaml").read_text() == "version: 1\npolicy: p\nrulez: []\n"


def test_standard_input(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    for arguments, code, out in (((), 0, WANTED.encode()), (("--check",), 1, b"--- standard input\n")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(WRITTEN.encode())))
        assert main(["policy", "fmt", "-", *arguments]) == code
        assert capsysbinary.readouterr().out.startswith(out)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"rules: [\n")))
    assert main(["policy", "fmt", "-"]) == 2
    assert capsysbinary.readouterr() == (
        b"",
        b"humanlayer-agent: standard input:2:1: not YAML: did not find expected node content\n    \n    ^\n",
    )


def test_through_a_link_the_file_is_written(path: Path) -> None:
    Path("link.yaml").symlink_to("p.yaml")
    assert main(["policy", "fmt", "link.yaml"]) == 0
    assert Path("link.yaml").is_symlink()
    assert path.read_text() == WANTED


def test_a_diff_acts_on_no_screen(path: Path, capsys: Said) -> None:
    path.write_text(WRITTEN.replace("ours", "\x85\u202eours"))
    main(["policy", "fmt", "--check", "p.yaml"])
    assert "\u202e" not in capsys.readouterr().out


def test_what_changes_meanwhile_is_not_overwritten(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = file_replacement.write_new

    def and_somebody_else(beside: Path, content: bytes, mode: int) -> None:
        write(beside, content, mode)
        path.write_text("theirs")

    monkeypatch.setattr(file_replacement, "write_new", and_somebody_else)
    with pytest.raises(ConfigError, match="has changed while this was read"):
        replace_file(path, WRITTEN.encode(), b"ours")
    assert path.read_text() == "theirs"
    with pytest.raises(ConfigError, match="has changed"):
        replace_file(path, None, b"ours")
    assert os.listdir() == ["p.yaml"]


@pytest.mark.parametrize(("prepare", "why"), [("link", "has other names"), ("chmod", "is read-only")])
def test_what_a_new_file_would_not_keep_is_refused(path: Path, capsys: Said, prepare: str, why: str) -> None:
    before = path.read_bytes()
    other = path.with_name("other.yaml")
    if prepare == "link":
        other.hardlink_to(path)
    else:
        path.chmod(0o444)
    assert main(["policy", "fmt", str(path)]) == 2
    assert why in capsys.readouterr().err
    assert path.read_bytes() == before
    assert sorted(path.parent.glob(".*yaml*")) == []
