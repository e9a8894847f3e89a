"""The key `t` at the prompt: the requests of a run that wait at once and are alike, answered together."""

import pytest

PROGRAM = '''
"""Threads of one run ask at once: "ask 1" first, then the others. What became of each goes to a file."""
import gc
gc.disable()
import json, os, sys, threading
from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.channels import terminal
from humanlayer_agent.errors import HumanlayerError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedDirector
from humanlayer_agent.testing.patience import until

options = json.loads(sys.argv[1])
terminal.multiplexer = lambda: options.get("typist", "")
asked = threading.Event()
store = SQLiteStore(options["store"])
director = ScriptedDirector({"ask": Verdict.ASK, "other": Verdict.ASK})
gate = Gate(director, store, terminal.TerminalAsker(bell=lambda: asked.set()), agent="builder")
found = {}


def check(command):
    found[command] = gate.check(Action(command, cwd="/srv/app", project="/srv/app"))


first, *others = options["commands"]
threads = [threading.Thread(target=check, args=(first,))]
threads[0].start()
asked.wait()
for command in others:
    threads.append(threading.Thread(target=check, args=(command,)))
    threads[-1].start()
for thread in threads:
    thread.join()
votes = [
    [request.action.content, vote.answer, vote.presented_digest == request.digest, bool(vote.signature)]
    for request in store.requests() for vote in store.votes(request.id)
]
result = {"found": {name: type(each).__name__ for name, each in found.items()}, "votes": votes}
with open(options["result"] + ".new", "w") as file:
    json.dump(result, file)
os.rename(options["result"] + ".new", options["result"])
'''


@pytest.fixture
def agents(open_screen, tmp_path):
    def start(*commands, **options):
        store = str(tmp_path / "store.sqlite3")
        return open_screen(program_text=PROGRAM, commands=commands, store=store, **options)

    return start


def test_all_that_are_alike_are_answered_by_one_key_and_a_vote_each(agents):
    screen = agents("ask 1 blue", "ask 2 blue", "other 3", "ask 4 blue", rows=45)
    screen.armed("t these 3 together")
    screen.send("t")
    screen.armed("y run each of 3 once")
    text = screen.text()
    assert "builder wants to run these 3" in text
    for number, command in enumerate(("ask 1 blue", "ask 2 blue", "ask 4 blue"), 1):
        assert f"{number} of 3 in /srv/app" in text
        assert f"1 │ {command}" in text
    assert "other 3" not in text
    screen.send("y")
    screen.shows("other 3")
    screen.armed()
    assert "together" not in screen.text()
    screen.send("n")
    screen.shows("Why not?")
    screen.send("\r")
    result = screen.result()
    assert result["found"] == {
        "ask 1 blue": "Permit", "ask 2 blue": "Permit", "ask 4 blue": "Permit", "other 3": "Denial",
    }  # fmt: skip
    assert sorted(result["votes"]) == [
        ["ask 1 blue", "approve", True, True],
        ["ask 2 blue", "approve", True, True],
        ["ask 4 blue", "approve", True, True],
        ["other 3", "reject", True, True],
    ]
    screen.ended()
    assert screen.text().count("as those before it: ask") == 2


def test_all_that_are_alike_are_rejected_by_one_key(agents):
    screen = agents("ask 1", "ask 2", rows=45)
    screen.armed("t these 2 together")
    screen.send("t")
    screen.armed("n reject 2")
    screen.send("n")
    assert set(screen.result()["found"].values()) == {"Denial"}


@pytest.mark.long
def test_back_answers_nothing(agents):
    screen = agents("ask 1", "ask 2", rows=45)
    screen.armed("t these 2 together")
    screen.send("t")
    screen.armed("b back")
    screen.send("b")
    screen.armed("y run once")
    screen.send("y")  # the first of them
    screen.shows("1 │ ask 2")
    screen.armed("y run once")
    assert "together" not in screen.text()
    screen.send("\x03")
    assert screen.result()["found"] == {"ask 1": "Permit", "ask 2": "Denial"}


def test_what_is_not_on_the_screen_yet_is_not_approved(agents):
    long = "\n".join(f"# {n}" for n in range(30))
    screen = agents("ask 1", f"ask 2\n{long}\nrm -r /", rows=24)
    screen.armed("t these 2 together")
    screen.send("t")
    screen.shows("lines not seen")
    screen.armed("b back")
    assert not screen.bold("y run each of 2 once")
    screen.send("y")
    screen.shows("look at the whole command first")
    while not screen.bold("y run each of 2 once"):
        first = screen.text().split("\n")[0]
        screen.send(" ")
        screen.until(
            lambda first=first: first not in screen.text() or screen.bold("y run each of 2 once"), "the next page"
        )
    assert "rm -r /" in screen.text()
    screen.armed("y run each of 2 once")
    screen.send("y")
    assert set(screen.result()["found"].values()) == {"Permit"}


def test_what_is_told_of_the_terminal_is_told_of_each(agents):
    screen = agents("ask 1", "ask 2", rows=45, typist="tmux")
    screen.armed("t these 2 together")
    assert screen.text().count("through tmux") == 1
    screen.send("t")
    screen.armed("y run each of 2 once")
    assert screen.text().count("through tmux") == 2
    screen.send("n")
    screen.ended()
