"""The pictures on our pages can be drawn anew from the real thing, as `make pictures` does it."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.browser import find_chromium
from tests.support.enclosures import backend
from tests.support.pages import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed: apt-get install chromium"),
]


def size(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG (its header, IHDR)."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.mark.parametrize(
    ("script", "pictures"),
    [
        (
            ["render_pictures.py", "--into"],
            [
                *("grant.png", "slack-digest.png", "slack-grant.png", "slack-held.png", "slack-home.png", "slack.png"),
                *("terminal-held.png", "terminal.png"),
            ],
        ),
        (
            ["render_inbox_pictures.py"],
            [
                "inbox-grants.png",
                "inbox-held.png",
                "inbox-phone.png",
                "inbox-request.png",
                "inbox.png",
                "playground-phone.png",
                "playground.png",
            ],
        ),
        (["render_report_picture.py"], ["evidence.png", "report.png"]),
    ],
    ids=lambda each: each[0],
)
def test_pictures_are_drawn(script: list[str], pictures: list[str], tmp_path: Path) -> None:
    if any("held" in each for each in pictures):
        backend()
    name, *options = script
    command = [sys.executable, str(ROOT / "docs" / name), *options, str(tmp_path / "new")]
    subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == pictures
    for each in pictures:
        width, height = size(tmp_path / "new" / each)
        ours = size(ROOT / "docs/pictures" / each)
        assert width == ours[0]
        assert 0.7 < height / ours[1] < 1.4, "another machine has other fonts"


def test_no_picture_is_left_that_nothing_draws() -> None:
    drawn = {
        "grant.png",
        "inbox-grants.png",
        "inbox-held.png",
        "slack-digest.png",
        "slack-grant.png",
        "slack-held.png",
        "slack-home.png",
        "slack.png",
        "terminal-held.png",
        "terminal.png",
        "inbox-phone.png",
        "inbox-request.png",
        "inbox.png",
        "report.png",
        "evidence.png",
        "playground.png",
        "playground-phone.png",
    }
    assert {each.name for each in (ROOT / "docs/pictures").iterdir()} == drawn | {"demo.cast", "demo.svg"}
