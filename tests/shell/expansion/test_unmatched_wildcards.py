"""Addresses with wildcards in them: words that match no file stay as they are, and their host is known anyway."""

from pathlib import Path

import pytest

from humanlayer_agent.shell import DiskReader, SimpleCommand, analyse


def last(command: str, folder: Path) -> SimpleCommand:
    return analyse(command, cwd=str(folder), environ={}, reader=DiskReader(folder)).commands[-1]


@pytest.mark.parametrize(
    "command",
    ["curl localhost:8000/x?a=b", "cat a; curl -s localhost:8000/x?a=b", "curl -H 'a: b' localhost:8000/x?a=b"],
)
def test_an_address_that_matches_no_file_is_known(command: str, tmp_path: Path) -> None:
    assert "localhost:8000/x?a=b" in last(command, tmp_path).operands


@pytest.mark.parametrize(
    "command",
    [
        "mkdir -p localhost:8000; curl localhost:8000/x?a=b",
        "./script; curl localhost:8000/x?a=b",
        "ln -s /srv localhost:8000 & curl localhost:8000/x?a=b",
        "shopt -s nullglob; curl localhost:8000/x?a=b",
        "shopt -s failglob; curl localhost:8000/x?a=b",
        "cd /nonexistent/folder; curl localhost:8000/x?a=b",
        "curl local*/x?a=b",
    ],
)
def test_an_address_that_may_match_one_is_not(command: str, tmp_path: Path) -> None:
    assert last(command, tmp_path).operands == [None]


def test_a_folder_that_is_called_so_counts(tmp_path: Path) -> None:
    (tmp_path / "localhost:8000").mkdir()
    assert last("curl localhost:8000/x?a=b", tmp_path).operands == [None]


@pytest.mark.parametrize(
    ("word", "host"),
    [
        ("localhost:8000/x?a=b", "localhost"),
        ("http://example.org/x?a=b", "example.org"),
        ("http://localhost/?@example.org/", "localhost"),
        ("http://localhost?@example.org/", None),
        ("http://localhost:80@example.org/?x", None),
        ("http://local*/x", None),
        ("http://localhost:80*/x", None),
        ("local?ost/x", None),
    ],
)
def test_the_host_stands_before_the_wildcard(word: str, host: str | None) -> None:
    effects = analyse(f"curl {word}", cwd="/srv", environ={}).commands[-1].effects
    assert [(effect.kind, effect.operand) for effect in effects] == [("network", host)]
