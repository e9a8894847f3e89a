"""How far an answer at a terminal counts that other processes can type at: real multiplexers, and keys that are typed."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import until
from tests.support.keys import PASSPHRASE, make_key

PROGRAM = '''
"""An agent that asks for things of some severity, one after another, and has a command running meanwhile."""
import json, os, sys, threading, time
options = json.loads(sys.argv[1])

from humanlayer_agent.action import Action
from humanlayer_agent.configuration import build_gate
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.processes.execution import command_environment, run_command


class Judge:
    """A Director for whom the first word of a command is how severe it is."""

    def evaluate(self, action):
        route = {"min_assurance": options["least"]} if options.get("least") else "default"
        severity, *how = action.content.split("-")[0].split("/")
        return PolicyDecision(
            Verdict.ASK, "a rule says so", "test", "0" * 64, rules=("r1",), severity=severity, route=route,
            confinable=bool(how), confinement=Confinement((Profile("project"),)) if how == ["confined"] else None,
        )


if options.get("command"):
    run = ["bash", "-c", options["command"]]
    environ = {"PATH": os.environ["PATH"]}
    threading.Thread(target=run_command, args=(run,), kwargs={"cwd": "/", "env": environ, "timeout": 600}, daemon=True).start()
gate = build_gate(director=Judge(), store=options["store"], project=options["project"])
found = []
really = time.monotonic
for severity in options["severities"]:
    if severity == "later":
        time.monotonic = lambda: really() + 901
        continue
    said = gate.check(Action(f"{severity}-{len(found)}", cwd=options["project"], project=options["project"]))
    if isinstance(said, Permit):
        said = gate.start(said, said.action) or said
    found.append([type(said).__name__, getattr(said, "reason", "")])
    with open(options["result"] + ".new", "w") as file:
        json.dump(found, file)
    os.rename(options["result"] + ".new", options["result"])
gate.close()
'''


NOBODY = 65534
ASKED = "Passphrase of your key"


class Agent:
    """The user of a `PROGRAM`, and what comes of it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        (home / "project").mkdir()

    def has_key(self) -> Path:
        """The human has run `hla init`."""
        path = self.home / ".local/share/humanlayer-agent/signing.key"
        config = self.home / ".config/humanlayer-agent/channels.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(f'version: 1\nsigners:\n  - "{make_key(path).fingerprint}"\n')
        return path

    def wants(self, *severities: str, **more: Any) -> dict[str, Any]:
        """The options of a program that asks for things of these severities."""
        store, project = str(self.home / "store" / "store.sqlite3"), str(self.home / "project")
        return {"severities": severities, "store": store, "project": project, **more}

    @property
    def store(self) -> SQLiteStore:
        return SQLiteStore(self.home / "store" / "store.sqlite3")

    def votes(self) -> list[tuple[str, str]]:
        """The answers that count, oldest first, each with its assurance."""
        with closing(self.store) as store:
            found = [vote for request in store.requests() for vote in store.votes(request.id)]
        return [(vote.answer, vote.approver.assurance) for vote in sorted(found, key=lambda vote: vote.at)]

    def refusals(self) -> list[tuple[str, str]]:
        with closing(self.store) as store:
            events = [entry.event for entry in store.events(type="vote.refused")]
        return [(event["refusal"], event["approver"]["assurance"]) for event in events]


def results(path: Path) -> list[list[str]]:
    return json.loads(path.read_text()) if path.exists() else []


class Tmux:
    """A window of tmux, in which a program runs, and a command of its agent that types there what it is told."""

    def __init__(self, folder: Path, drop: list[str]) -> None:
        self._client = [*drop, "tmux", "-f", "/dev/null", "-S", str(folder / "tmux")]
        self._orders = folder / "orders"
        os.mkfifo(self._orders)
        keys = shlex.join([*self._client[len(drop) :], "send-keys", "-t", "human"])
        self.command = f"exec 3<>{self._orders}; while read -r keys <&3; do {keys} $keys; done"

    def start(self, argv: list[str], env: dict[str, str]) -> None:
        size = ["-x", "140", "-y", "34"]
        self._run("new-session", "-d", "-s", "human", *size, *argv, env=env)

    def text(self, *options: str) -> str:
        return self._run("capture-pane", "-p", *options, "-t", "human").stdout

    def shows(self, text: str, times: int = 1) -> None:
        until(lambda: self.text().count(text) >= times, lambda: f"{text}\n{self.text()}")

    def armed(self, key: str = "y") -> None:
        """Waits until the key would count: it is drawn bold then."""
        until(lambda: re.search(rf"\x1b\[1m ?{key}\x1b", self.text("-e")), f"an armed {key}")

    def asks(self, wrong: int = 0) -> bool:
        """Tell whether it waits for a passphrase, after so many wrong ones."""
        text = self.text().rstrip().rpartition("to approve: ")[2]
        return text.rpartition("\n")[2].startswith(ASKED) and text.count("does not unlock it") == wrong

    def agent_types(self, keys: str) -> None:
        self._orders.write_text(keys + "\n")

    def types(self, text: str) -> None:
        self._run("send-keys", "-t", "human", "-l", text)

    def press(self, key: str) -> None:
        self._run("send-keys", "-t", "human", key)

    def close(self) -> None:
        subprocess.run([*self._client, "kill-server"], capture_output=True, check=False)

    def _run(self, *words: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*self._client, *words], env=env, check=True, capture_output=True, text=True)


@pytest.fixture
def agent(tmp_path: Path) -> Agent:
    return Agent(tmp_path)


@pytest.fixture
def in_tmux(
    agent: Agent, tmp_path: Path, ask_argv: Callable[..., tuple[list[str], Path]], ask_env: dict[str, str],
    ordinary_user: Callable[[str], list[str]],
) -> Iterator[Callable[..., tuple[Tmux, Path]]]:  # fmt: skip
    """Start the program in tmux; gives its window, and the file for what comes of it."""
    opened: list[Tmux] = []

    def start(*severities: str, ordinary: bool) -> tuple[Tmux, Path]:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed")
        window = Tmux(tmp_path, ordinary_user("")[:-3] if ordinary else [])
        opened.append(window)
        argv, result = ask_argv(PROGRAM, **agent.wants(*severities, command=window.command))
        if ordinary and os.getuid() == 0:
            for path in (tmp_path, *tmp_path.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        window.start(argv, ask_env)
        return window, result

    yield start
    for window in opened:
        window.close()


both = pytest.mark.parametrize(
    "ordinary", [False, pytest.param(True, marks=pytest.mark.long)], ids=["this user", "an ordinary user"]
)


@pytest.mark.long
@both
def test_what_an_agents_command_types_approves_nothing_severe(
    in_tmux: Callable[..., tuple[Tmux, Path]], agent: Agent, ordinary: bool
) -> None:
    window, result = in_tmux("high", ordinary=ordinary)
    window.armed()
    assert "an agent's command can type here too, through tmux; " in window.text()
    window.agent_types("y")
    window.shows("a yes needs a signing key: run hla init", times=2)
    assert agent.votes() == []
    window.armed()
    window.press("q")
    window.shows("Stop the whole run?")
    window.armed()
    window.press("y")
    until(lambda: results(result), "the end of the run")
    assert results(result) == [["Denial", "the run was stopped"]]
    assert agent.votes() == []


@pytest.mark.long
@both
def test_the_passphrase_proves_for_a_while_that_a_human_types(
    in_tmux: Callable[..., tuple[Tmux, Path]], agent: Agent, ordinary: bool
) -> None:
    agent.has_key()
    window, result = in_tmux("high", "critical", "high", "later", "high", ordinary=ordinary)
    window.armed()
    window.agent_types("y")
    for wrong in (0, 1, 2):
        until(lambda wrong=wrong: window.asks(wrong), window.text)
        window.agent_types("y Enter")
    until(lambda: results(result), "a refusal")
    ((kind, why),) = results(result)
    assert (kind, "terminal (os) is not enough" in why) == ("Denial", True)
    assert (agent.votes(), agent.refusals()) == ([], [("low-assurance", "os")])

    window.armed()
    window.press("y")
    until(window.asks, window.text)
    window.types(PASSPHRASE)
    window.press("Enter")
    until(lambda: len(results(result)) == 2, "an answer")
    assert results(result)[1] == ["Permit", ""]
    assert agent.votes() == [("approve", "terminal")]

    window.armed()
    assert "a yes counts, because you typed your passphrase within 15 minutes" in window.text()
    window.press("y")
    until(lambda: len(results(result)) == 3, "an answer")
    assert agent.votes() == [("approve", "terminal")] * 2

    window.armed()
    assert "a yes takes your passphrase" in window.text()
    window.press("y")
    until(window.asks, window.text)
    window.press("Enter")
    window.shows("your passphrase was not typed")
    assert len(results(result)) == 3
    assert PASSPHRASE not in window.text("-S", "-")
    for path in agent.home.rglob("*"):
        assert not path.is_file() or PASSPHRASE.encode() not in path.read_bytes(), path


# At a terminal whose other end is held by a program that nobody knows: ours


@pytest.mark.long
def test_what_is_not_severe_counts_as_the_user(open_screen: Callable[..., Any], agent: Agent) -> None:
    screen = open_screen(program_text=PROGRAM, columns=140, **agent.wants("medium"))
    screen.armed()
    assert re.search(
        r"can type here too, through python[\d.]*; your answer counts as that of any process", screen.text()
    )
    screen.send("y")
    assert screen.result() == [["Permit", ""]]
    assert agent.votes() == [("approve", "os")]


def test_what_a_route_asks_for_takes_the_passphrase_too(open_screen: Callable[..., Any], agent: Agent) -> None:
    agent.has_key()
    screen = open_screen(program_text=PROGRAM, **agent.wants("low", least="login"))
    screen.armed()
    screen.send("y")
    screen.shows(ASKED)
    screen.send(PASSPHRASE + "\r")
    assert screen.result() == [["Permit", ""]]
    assert agent.votes() == [("approve", "terminal")]
    assert PASSPHRASE.encode() not in screen.raw


def test_a_terminal_that_only_prints_lines(open_screen: Callable[..., Any], agent: Agent) -> None:
    agent.has_key()
    screen = open_screen(program_text=PROGRAM, env={"TERM": "dumb"}, **agent.wants("high"))
    screen.shows("Type yes to run it once")
    screen.send("yes\r")
    screen.shows(ASKED)
    screen.send("\r")
    screen.until(lambda: screen.raw.count(b"Type yes") == 2, "the question again")
    assert "your passphrase was not typed" in screen.text()
    screen.send("yes\r")
    screen.until(lambda: screen.raw.count(ASKED.encode()) == 2, ASKED)
    screen.send(PASSPHRASE + "\r")
    assert screen.result() == [["Permit", ""]]


def test_a_no_counts_as_yours_with_the_passphrase_only(open_screen: Callable[..., Any], agent: Agent) -> None:
    agent.has_key()
    screen = open_screen(program_text=PROGRAM, **agent.wants("high", "high"))
    for word, secret in (("wrong bucket", ""), ("another", PASSPHRASE)):
        screen.armed("n reject")
        screen.send("n")
        screen.shows("Why not?")
        screen.send(word)
        screen.shows(f"Why not? {word}")
        screen.send("\r")
        screen.until(lambda: screen.text().rstrip().endswith("Enter alone: back):"), ASKED)
        screen.send(secret + "\r")
    screen.until(lambda: len(screen.result()) == 2, "both answers")
    unproved, proved = screen.result()
    assert unproved[0] == "Denial"
    assert "wrong bucket" not in unproved[1]
    assert proved[1].startswith("rejected by os:")
    assert agent.votes() == [("reject", "terminal")]
    assert agent.refusals() == [("low-assurance", "os")]


def test_a_key_that_was_put_in_the_place_of_yours(open_screen: Callable[..., Any], agent: Agent) -> None:
    """An agent's command can write the file, with a key of its own and a passphrase that it knows."""
    agent.has_key().unlink()
    make_key(agent.home / ".local/share/humanlayer-agent/signing.key")
    screen = open_screen(program_text=PROGRAM, columns=160, **agent.wants("high"))
    screen.armed()
    screen.send("y")
    screen.until(lambda: screen.text().count("is not named under") == 2, "why it does not count")
    assert ASKED not in screen.text()
    assert agent.votes() == []


def test_it_is_decided_elsewhere_while_the_passphrase_is_asked_for(
    open_screen: Callable[..., Any], agent: Agent
) -> None:
    agent.has_key()
    screen = open_screen(program_text=PROGRAM, **agent.wants("high"))
    screen.armed()
    screen.send("y")
    screen.shows(ASKED)
    with closing(agent.store) as store:
        store.withdraw(store.requests()[0].id, "the test has decided")
    assert screen.result()[0][0] == "Denial"
    screen.ended()
    assert "closed without an answer here" in screen.text()
    assert agent.votes() == []


def test_ctrl_c_at_the_passphrase_stops_the_run(open_screen: Callable[..., Any], agent: Agent) -> None:
    agent.has_key()
    screen = open_screen(program_text=PROGRAM, **agent.wants("high"))
    screen.armed()
    screen.send("y")
    screen.shows(ASKED)
    screen.send("\x03")
    assert screen.result() == [["Denial", "the run was stopped"]]


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a program that counts as xterm (allowed in CI)")
def test_at_a_terminal_emulator_nothing_is_asked_for(
    open_screen: Callable[..., Any], agent: Agent, tmp_path: Path
) -> None:
    xterm = tmp_path / "xterm"  # `script` stands for it: it needs no display
    shutil.copy(str(shutil.which("script")), xterm)
    inside = f'exec {xterm} -qec "$(printf "%q " "$@")" /dev/null'
    screen = open_screen(program_text=PROGRAM, shell=inside, **agent.wants("critical"))
    screen.armed()
    assert "can type here too" not in screen.text()
    screen.send("y")
    assert screen.result() == [["Permit", ""]]
    assert agent.votes() == [("approve", "terminal")]


@pytest.mark.long
def test_where_all_commands_of_the_run_are_confined_nobody_types_but_the_human(
    open_screen: Callable[..., Any], agent: Agent
) -> None:
    """The third is approved to run unconfined, and may have left something that types."""
    severities = ["critical/confined", "high/confined", "high/bare", "critical/confined"]
    screen = open_screen(program_text=PROGRAM, columns=140, **agent.wants(*severities))
    for answered, severity in enumerate(severities[:3]):
        screen.shows(f"{severity}-{answered}")
        screen.armed()
        assert "can type here too" not in screen.text()
        screen.send("y")
        screen.until(lambda answered=answered: len(agent.votes()) > answered, "a vote")
    assert agent.votes() == [("approve", "terminal")] * 3
    screen.shows("can type here too, through python")
    screen.armed()
    screen.send("\x03")
    screen.ended()
    assert screen.result() == [["Permit", ""]] * 3 + [["Denial", "the run was stopped"]]
