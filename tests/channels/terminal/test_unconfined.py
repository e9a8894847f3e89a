"""u: a human has a command run unconfined, which is judged, shown and asked about as such before."""

import os
import pwd
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.enclosures import backend

PROGRAM = """
import json, os, sys
from humanlayer_agent import ActionDenied, Gate

options = json.loads(sys.argv[1])
with Gate.from_config(project=options["project"], agent="bot", confine=options["confine"]) as gate:
    try:
        result = gate.run(options["command"], cwd=options["project"]).output
    except ActionDenied as denied:
        result = f"denied: {denied.reason}"
with open(options["result"] + ".new", "w") as file:
    json.dump(result, file)
os.rename(options["result"] + ".new", options["result"])
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A project and what lies beside it, not below a folder for temporary files: those the policy leaves to agents."""
    with tempfile.TemporaryDirectory(prefix="hla-unconfined-", dir=pwd.getpwuid(os.getuid()).pw_dir) as folder:
        made = Path(folder)
        (made / "project").mkdir()
        (made / "outside").write_text("what is outside\n")
        (made / "more").touch()
        yield made


@pytest.fixture
def ask(open_screen: Callable[..., Any], place: Path) -> Callable[..., Any]:
    """Has a run ask about a command at a new terminal, and waits until keys count."""

    def start(command: str, *, confine: bool = True) -> Any:
        if confine:
            backend()  # or the test is skipped
        given = {"command": command, "project": str(place / "project"), "confine": confine}
        screen = open_screen(program_text=PROGRAM, columns=140, **given)
        screen.armed("n reject")
        return screen

    return start


@pytest.mark.long
def test_it_is_asked_about_again_and_runs_unconfined(ask: Callable[..., Any], place: Path) -> None:
    command = f"cat {place}/outside; test -e {place}/more && echo all is seen"
    screen = ask(command)
    assert "confined to project" in screen.text()
    screen.armed("u unconfined")
    screen.send("u")
    screen.shows("1 │ # needs: unconfined")
    screen.armed()
    assert "not confined" in screen.text()
    assert "confined to project" not in screen.text()
    assert "u unconfined" not in screen.text()
    screen.send("y")
    assert screen.result() == "what is outside\nall is seen\n"


@pytest.mark.long
def test_y_leaves_it_confined(ask: Callable[..., Any], place: Path) -> None:
    screen = ask(f"cat {place}/outside; test -e {place}/more || echo no more is seen")
    screen.send("y")
    assert screen.result() == "what is outside\nno more is seen\n"


@pytest.mark.long
def test_what_the_first_question_was_answered_with_runs_nothing(ask: Callable[..., Any], place: Path) -> None:
    screen = ask(f"cat {place}/outside")
    screen.armed("u unconfined")
    screen.send("u")
    screen.shows("1 │ # needs: unconfined")
    screen.armed("n reject")
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\r")
    assert screen.result().startswith("denied: ")


def test_where_it_would_run_unconfined_there_is_no_such_key(ask: Callable[..., Any], place: Path) -> None:
    screen = ask(f"cat {place}/outside", confine=False)
    assert "u unconfined" not in screen.text()
    screen.send("y")
    assert screen.result() == "what is outside\n"
