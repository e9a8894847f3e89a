"""A request at a real terminal and at another channel at once: who answers first closes the other one."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import until
from humanlayer_agent.testing.scripted_channel import Board
from tests.hub.conftest import BOB
from tests.support import children
from tests.support.keys import make_key

COMMON = """
import json, os, sys
from pathlib import Path
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from humanlayer_agent.processes.identity import os_user
from tests.support.keys import open_key
from humanlayer_agent.store.sqlite import SQLiteStore

def world(folder):
    signer = open_key(folder / "key")
    people = (Person("bob", ("email:bob@example.com",)), Person("operator", (os_user(),)))
    rule = ApprovalRule("default", ("bob", "operator"), solo=True, steps=(Step("terminal"), Step("board")))
    authority = Authority(people, {"default": rule}, {signer.fingerprint})
    return SQLiteStore(folder / "store.sqlite3"), authority, signer
"""

AGENT = (
    COMMON
    + """
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.channels.terminal import TerminalAsker
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import ScriptedDirector

options = json.loads(sys.argv[1])
store, authority, _ = world(Path(options["folder"]))
gate = Gate(ScriptedDirector(otherwise=Verdict.ASK), store, TerminalAsker(), authority=authority)
said = gate.check(Action("make deploy", cwd="/srv/app", project="/srv/app"))
started = gate.start(said, said.action) if hasattr(said, "approved_by") else None
result = [type(said).__name__, getattr(said, "approved_by", ""), str(getattr(said, "reason", "")), started is None]
with open(options["result"] + ".new", "w") as file:
    json.dump(result, file)
os.rename(options["result"] + ".new", options["result"])
import time
while not os.path.exists(options["folder"] + "/seen"):  # what is told at the end is told beside us
    time.sleep(0.01)
gate.close()
"""
)

HUB = (
    COMMON
    + """
from humanlayer_agent.hub.hub import Hub
from humanlayer_agent.testing.scripted_channel import Board, ScriptedChannel

folder = Path(sys.argv[1])
store, authority, signer = world(folder)
with Hub(store, ["board"], lambda name: ScriptedChannel(Board(folder / "board"), name), authority, signer):
    sys.stdin.read()
"""
)


@pytest.fixture
def board(tmp_path: Path) -> Iterator[Board]:
    """A board that a hub in another process serves."""
    make_key(tmp_path / "key")
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    hub = children.Popen([sys.executable, "-c", HUB, str(tmp_path)], env=environ, stdin=subprocess.PIPE)
    yield Board(tmp_path / "board")
    hub.kill()
    hub.communicate()


def message(board: Board) -> dict:
    return until(lambda: next((each for each in board.messages() if each["offers"]), None), "the message")


@pytest.mark.sample(1)
@pytest.mark.parametrize(("kind", "word"), [("approve", "approved"), ("reject", "rejected")])
def test_the_terminal_closes_itself_and_says_who_decided(
    board: Board, open_screen: Callable, tmp_path: Path, kind: str, word: str
) -> None:
    screen = open_screen(program_text=AGENT, folder=str(tmp_path))
    screen.armed()
    board.answer(message(board)["id"], kind, BOB, "" if kind == "approve" else "not today")
    verdict, by, reason, started = screen.result()
    if kind == "approve":
        assert (verdict, by, started) == ("Permit", BOB, True)
    else:
        assert (verdict, reason) == ("Denial", f"rejected by {BOB}")
    screen.shows(f"{word} by bob (board): make deploy")
    (tmp_path / "seen").touch()
    assert "y run once" not in screen.text()
    until(lambda: not board.messages()[0]["offers"], "a settled message")
    assert board.messages()[0]["state"] == f"{word} by bob"


def test_an_answer_at_the_terminal_closes_the_other_channel(
    board: Board, open_screen: Callable, tmp_path: Path
) -> None:
    screen = open_screen(program_text=AGENT, folder=str(tmp_path))
    screen.armed()
    posted = message(board)
    screen.send("y")
    verdict, by, _, started = screen.result()
    assert (verdict, by, started) == ("Permit", os_user(), True)
    until(lambda: not board.messages()[0]["offers"], "a settled message")
    assert board.messages()[0]["state"] == "approved by operator"
    board.answer(posted["id"], "reject", BOB, "too late")
    until(lambda: board.told(BOB) == ["the request was already approved"], "that bob is told")
    store = SQLiteStore(tmp_path / "store.sqlite3", create=False)
    assert [vote.person for vote in store.votes(store.requests()[0].id)] == ["operator"]
    store.close()


def test_where_there_is_no_terminal_the_next_step_is_due_at_once(board: Board, tmp_path: Path) -> None:
    """The route says two minutes; nobody waits for a terminal that is not there."""
    late = AGENT.replace("import json, os, sys", "import json, os, sys; os.setsid()", 1)
    late = late.replace('Step("board"))', 'Step("board", 120_000))')
    hub_late = HUB.replace('Step("board"))', 'Step("board", 120_000))')
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    # The hub that serves this store has its own routes: it must know the later step, too.
    other = tmp_path / "other"
    other.mkdir()
    make_key(other / "key")
    hub = children.Popen([sys.executable, "-c", hub_late, str(other)], env=environ, stdin=subprocess.PIPE)
    options = f'{{"folder": "{other}", "result": "{other}/result"}}'
    agent = children.Popen(
        [sys.executable, "-c", late, options], env=environ, stdin=subprocess.DEVNULL, start_new_session=False
    )
    try:
        second = Board(other / "board")
        second.answer(message(second)["id"], "approve", BOB)
        until(lambda: (other / "result").exists(), "the result")
        assert '"Permit", "email:bob@example.com"' in (other / "result").read_text()
    finally:
        for process in (hub, agent):
            process.kill()
            process.communicate()
