"""What wildcards stand for on a disk must be what bash makes of them there: real folders, real bash."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell import HOST, View, known_by, listing_of
from tests.support.extent import examples

ODD_NAMES = [
    "-rf",
    "--checkpoint-action=exec=sh x",
    "a\nb.md",
    " ",
    "*",
    "[a]",
    "a\\b",
    ".env",
    ".x.md",
    "é.md",
    "A.md",
]
NAMES = st.sampled_from([*ODD_NAMES, "a.md", "b.md", "ab", "a0", "a9.py", "sub", "src"]) | st.text(
    "ab.-*[]\\ \n0é!^", min_size=1, max_size=4
).filter(lambda name: name not in (".", ".."))
PATTERNS = st.lists(
    st.sampled_from(
        [
            "*",
            "?",
            "[ab]",
            "[!a]",
            "[^b0-9]",
            "[]a]",
            "[0-9]",
            "[a-b]",
            "a",
            "b",
            ".",
            "/",
            "-",
            "sub/",
            "./",
            "../",
            "0",
            "[",
        ]
    )
    | st.sampled_from(["**", "[.]", "[-a]", "[a-]", ".*", "md", "\\*", "\\a", "[!]", "[]", "[a", "]", "!", "é", "[é]"]),
    min_size=1,
    max_size=5,
).map("".join)


def by_bash(pattern: str, folder: Path) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", f"shopt -s nullglob; printf '%s\\0' {pattern}"],
        cwd=folder, env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True,
    )  # fmt: skip
    return [os.fsdecode(name) for name in done.stdout.split(b"\0")[:-1] if name]


@pytest.mark.long
@settings(max_examples=examples(1500))
@given(names=st.lists(NAMES, max_size=6, unique=True), below=st.lists(NAMES, max_size=3, unique=True), pattern=PATTERNS)
def test_what_is_listed_is_what_bash_lists(
    names: list[str], below: list[str], pattern: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("listed")
    for name in names:
        (folder / name).mkdir() if name in ("sub", "src") else (folder / name).touch()
    for name in below if "sub" in names else ():
        (folder / "sub" / name).touch()
    if "ab" in names and "sub" in names:
        (folder / "ab").unlink()
        (folder / "ab").symlink_to("sub")
    found = listing_of(str(folder), pattern, HOST)
    if found is not None and found.names:  # with none, the word stays as it is
        assert list(found.names) == by_bash(pattern, folder)
    elif found is not None:
        assert by_bash(pattern, folder) in ([], [pattern.replace("\\", "")])


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.md", ["-x.md", "a\nb.md", "a.md"]),
        ("*", ["-x.md", "a\nb.md", "a.md", "link", "sub"]),
        ("*/", ["link/", "sub/"]),
        ("*/*.py", ["link/c.py", "sub/c.py"]),
        ("sub/*", ["sub/c.py"]),
        ("./[as]*", ["./a\nb.md", "./a.md", "./sub"]),
        ("../*/sub/c.p?", ["../project/sub/c.py"]),
        ("*/c.py", ["link/c.py", "sub/c.py"]),
        ("no*", []),
    ],
)
def test_names(pattern: str, names: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("-x.md", "a\nb.md", "a.md", ".hidden.md"):
        (folder / name).touch()
    (folder / "sub").mkdir()
    (folder / "sub/c.py").touch()
    (folder / "link").symlink_to("sub")
    found = listing_of(str(folder), pattern, HOST)
    assert found is not None
    assert list(found.names) == names


@pytest.mark.parametrize(
    "pattern", ["**", "**/*.py", ".*", "[a-z]*", "[[:alpha:]]*", "a[", "a//*", "nowhere/*", "[!]*", "*/.*", "a\\"]
)
def test_what_bash_may_see_otherwise_is_not_listed(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert listing_of(str(tmp_path), pattern, HOST) is None


@pytest.mark.parametrize(
    ("names", "pattern"), [(["é"], "?"), (["é"], "[!a]"), ([b"\xff"], "*")], ids=["letters", "brackets", "no text"]
)
def test_names_of_which_the_locale_says_how_long_they_are(
    names: list[str | bytes], pattern: str, tmp_path: Path
) -> None:
    for name in names:
        Path(os.path.join(tmp_path, os.fsdecode(name))).touch()
    assert listing_of(str(tmp_path), pattern, HOST) is None


def test_a_folder_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may read any folder, so the refusal is the kernel's only where another user runs this."""
    (tmp_path / "shut").mkdir(mode=0o300)
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "scandir", _refused)
        monkeypatch.setattr(os, "listdir", _refused)
    assert listing_of(str(tmp_path), "shut/*", HOST) is None


def _refused(path: object) -> None:
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.parametrize("folder", ["/proc/self", "/dev", "/sys", "/no/such/folder"])
def test_folders_that_are_not_the_same_for_all(folder: str) -> None:
    assert listing_of(folder, "*", HOST) is None


def test_a_folder_with_too_many_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("humanlayer_agent.shell.wildcards.MAX_NAMES", 50)
    for number in range(30):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}/x").touch()
    assert listing_of(str(tmp_path), "*", HOST) is not None
    assert listing_of(str(tmp_path), "*/*", HOST) is None


def test_it_is_seen_as_the_command_sees_it(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    found = listing_of("/tmp", "*.md", View(str(tmp_path)))
    assert found is not None
    assert found.names == ("a.md",)
    assert listing_of("/tmp", "*.md", View("")) is None or listing_of("/tmp", "*.md", View("")).names == ()  # type: ignore[union-attr]


def test_a_list_is_known_by_its_folder_and_its_pattern(tmp_path: Path) -> None:
    (tmp_path / "a.md").touch()
    first = listing_of(str(tmp_path), "*.md", HOST)
    assert first is not None
    assert known_by(first.path) == (str(tmp_path), "*.md")
    (tmp_path / "b.txt").touch()
    assert listing_of(str(tmp_path), "*.md", HOST) == first
    (tmp_path / "b.md").touch()
    second = listing_of(str(tmp_path), "*.md", HOST)
    assert second is not None
    assert second.sha256 != first.sha256
    root = listing_of("/", "usr/*", HOST)
    assert root is not None
    assert known_by(root.path) == ("/", "usr/*")
