"""h: a human has a command run held, sees what it changed, and applies that or throws it away."""

import os
import pwd
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.channels.terminal.test_unconfined import PROGRAM
from tests.support.enclosures import backend


@pytest.fixture
def place() -> Iterator[Path]:
    """A project, not below a folder for temporary files: those the policy leaves to agents."""
    with tempfile.TemporaryDirectory(prefix="hla-held-", dir=pwd.getpwuid(os.getuid()).pw_dir) as folder:
        made = Path(folder)
        (made / "project").mkdir()
        (made / "project/notes").write_text("old\n")
        (made / "project/old").write_text("old\n")
        yield made


@pytest.fixture
def ask(open_screen: Callable[..., Any], place: Path) -> Callable[[str], Any]:
    """Has a run ask about a command at a new terminal, and waits until keys count."""

    def start(command: str) -> Any:
        backend()
        screen = open_screen(
            program_text=PROGRAM, columns=140, command=command, project=str(place / "project"), confine=True
        )
        screen.armed("n reject")
        return screen

    return start


def test_what_it_changed_is_seen_and_applied(ask: Callable[[str], Any], place: Path) -> None:
    screen = ask('rm -f "$(cat notes)"; ls')
    screen.armed("h try it held first")
    screen.send("h")
    screen.shows("a yes applies exactly this")
    screen.shows("deletes old (4 bytes)")
    assert (place / "project/old").exists()
    screen.armed("y apply this")
    assert "h try it held first" not in screen.text()
    screen.send("y")
    assert screen.result() == "notes\n"
    assert not (place / "project/old").exists()


@pytest.mark.long
def test_what_it_changed_is_thrown_away(ask: Callable[[str], Any], place: Path) -> None:
    screen = ask('rm -f "$(cat notes)"; ls')
    screen.armed("h try it held first")
    screen.send("h")
    screen.shows("deletes old (4 bytes)")
    screen.armed("n reject")
    screen.send("n")
    screen.shows("Why not?")
    screen.send("keep it")
    screen.shows("Why not? keep it")
    screen.send("\r")
    assert "rejected" in screen.result()
    assert (place / "project/old").exists()


@pytest.mark.long
def test_what_reaches_other_machines_can_not_be_tried(ask: Callable[[str], Any]) -> None:
    screen = ask("curl -X POST https://example.org/x")
    assert "h try it held first" not in screen.text()
