"""`hla hub` and `hla channel`, as programs of their own, over the test board in the place of Slack."""

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, key_path
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.patience import until
from humanlayer_agent.testing.scripted_channel import Board
from tests.support import children
from tests.support.keys import PASSPHRASE, make_key, passphrase_file
from tests.support.time_outs import met

PROGRAM = """
import sys
from humanlayer_agent.channels import registry
registry.FACTORIES = {"slack": "humanlayer_agent.testing.scripted_channel:build"}
from humanlayer_agent.cli import main
sys.exit(main(sys.argv[1:]))
"""

AGENT = """
import sys
from pathlib import Path
from humanlayer_agent.channels import registry
registry.FACTORIES = {"slack": "humanlayer_agent.testing.scripted_channel:build"}
from humanlayer_agent.action import Action
from humanlayer_agent.configuration import build_gate
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import ScriptedAsker, ScriptedDirector

asker = ScriptedAsker()
asker.identities = ()
gate = build_gate(director=ScriptedDirector(otherwise=Verdict.ASK), asker=asker, store=sys.argv[1], channels=sys.argv[2])
said = gate.check(Action("make deploy", cwd="/srv/app", project="/srv/app"))
print(type(said).__name__, getattr(said, "approved_by", ""), getattr(said, "reason", ""), flush=True)
gate.close()
"""

FILE = """
version: 1
people:
  alice: {{slack: T0123ABCD/U0456EFGH}}
  operator: {{os_user: {user}}}
channels:
  terminal: {{type: terminal}}
  slack: {{type: slack, post_to: C0123456789}}
routes:
  default: {{approvers: [alice, operator], solo: true, timeout: {timeout}, steps: [{{to: slack}}]}}
signers: [{signers}]
"""
ALICE = "slack:T0123ABCD/U0456EFGH"
SECRETS = {"SLACK_BOT_TOKEN": "xoxb-test", "SLACK_APP_TOKEN": "xapp-test"}


class Place:
    """A user with a channels file, a store and a board."""

    def __init__(self, folder: Path) -> None:
        self.board = Board(folder / "board")
        self.store = folder / "store.sqlite3"
        self.file = folder / "channels.yaml"
        self._all: list[subprocess.Popen[str]] = []
        self.passphrase = str(passphrase_file(folder))
        self.write(make_key().fingerprint)

    def write(self, signers: str, timeout: str = "10m") -> None:
        user = os_user().split(":")[2]
        self.file.write_text(FILE.format(user=user, signers=signers, timeout=timeout))

    def start(self, *arguments: str, program: str = PROGRAM, **environ: str) -> subprocess.Popen[str]:
        known = {k: v for k, v in os.environ.items() if k not in SECRETS} | {PASSPHRASE_VARIABLE: self.passphrase}
        env = {**known, "HUMANLAYER_TEST_BOARD": str(self.board.folder)}
        process = children.Popen(
            [sys.executable, "-c", program, *arguments],
            env={**env, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._all.append(process)
        return process

    def hla(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        return self.start(*arguments, "--channels", str(self.file), "--store", str(self.store), **environ)

    def agent(self, **environ: str) -> subprocess.Popen[str]:
        return self.start(str(self.store), str(self.file), program=AGENT, **environ)

    def answer(self, kind: str = "approve", words: str = "") -> None:
        """alice answers what is on the board next."""
        message = until(lambda: next((m for m in self.board.messages() if m["offers"]), None), "a message")
        self.board.answer(message["id"], kind, ALICE, words)

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.communicate()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.close()


def refused(process: subprocess.Popen[str], code: int = 2) -> str:
    out, err = process.communicate(timeout=600)
    assert process.returncode == code, (out, err)
    return err


def test_it_serves_agents_until_ctrl_c(place: Place) -> None:
    hub = place.hla("hub", **SECRETS)
    assert hub.stdout is not None
    assert "store " in hub.stdout.readline()
    slack = (line for line in hub.stdout if "  slack  " in line)
    assert "slack      serving" in next(slack)
    agent = place.agent()
    assert "delivered" in next(slack)
    place.answer()
    assert agent.communicate(timeout=600)[0] == f"Permit {ALICE} \n"
    lines = [next(slack) for _ in range(2)]
    assert any("approve of" in line and "by alice" in line for line in lines)
    assert any("settled" in line and "approved by alice" in line for line in lines)
    hub.send_signal(signal.SIGINT)
    rest = list(hub.stdout)
    assert hub.wait() == 0
    assert rest[-1].endswith("hub        ended\n")
    assert hub.stderr is not None
    assert hub.stderr.read() == ""


def test_it_tells_of_itself_on_loopback(place: Place) -> None:
    hub = place.hla("hub", "--metrics", "0", **SECRETS)
    assert hub.stdout is not None
    (url,) = re.findall(r"and (http://127\.0\.0\.1:\d+/healthz)", hub.stdout.readline())

    def well() -> bool:
        with suppress(urllib.error.URLError), urllib.request.urlopen(url) as answer:
            return answer.read() == b"ok\n"
        return False

    until(well, "that all is well")
    with urllib.request.urlopen(url.replace("healthz", "metrics")) as answer:
        assert b'humanlayer_lease{channel="slack",holder="this"} 1.0' in answer.read()
    hub.send_signal(signal.SIGINT)
    assert hub.wait() == 0
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_an_agent_with_the_secrets_serves_the_channel_itself(place: Place) -> None:
    agent = place.agent(**SECRETS)
    place.answer("reject", "not on a Friday")
    out, _ = agent.communicate(timeout=600)
    assert out.startswith(f"Denial  rejected by {ALICE}")
    assert place.board.messages()[0]["state"] == "rejected by alice"
    store = SQLiteStore(place.store, create=False)
    assert store.surfaces.lease("slack") is None
    store.close()


def test_two_agents_with_the_secrets_share_the_work(place: Place) -> None:
    agents = [place.agent(**SECRETS), place.agent(**SECRETS)]
    done = threading.Event()

    def click() -> None:
        answered: set[str] = set()
        while not done.wait(0.02):
            for message in place.board.messages():
                if message["offers"] and message["id"] not in answered:
                    answered.add(message["id"])
                    place.board.answer(message["id"], "approve", ALICE)

    human = threading.Thread(target=click)
    human.start()
    try:
        assert [agent.communicate(timeout=600)[0] for agent in agents] == [f"Permit {ALICE} \n"] * 2
    finally:
        done.set()
        human.join()
    assert len(place.board.messages()) == 2


@pytest.mark.parametrize("secrets", [{}, {"SLACK_BOT_TOKEN": "xoxb-test"}])
def test_an_agent_without_the_secrets_says_what_is_missing(place: Place, secrets: dict[str, str]) -> None:
    place.write(Signer(key_path()).fingerprint, timeout="1s")
    out, _ = place.agent(**secrets).communicate(timeout=600)
    assert "nobody answered within 1 s" in out
    assert "slack: no process serves it: start hla hub" in out


def test_an_agent_whose_channel_fails_says_why(place: Place) -> None:
    place.board.fault = "gone"
    key = Signer(key_path()).fingerprint

    def asked(seconds: int) -> str:
        place.write(key, timeout=f"{seconds}s")
        out: str = place.agent(**SECRETS).communicate(timeout=600)[0]
        return out

    assert "slack: the board is gone" in met(asked, lambda out: "the board is gone" in out)


@pytest.mark.parametrize(
    ("change", "environ", "said"),
    [
        ("no file", SECRETS, "there is no channels.yaml that says who may approve: run hla init"),
        ("no signers", SECRETS, "answers that come by a channel are signed, and no key of yours may: run hla init"),
        ("", {"SLACK_BOT_TOKEN": "xoxb-test"}, "channel slack: set SLACK_APP_TOKEN in the environment of the hub"),
        ("", SECRETS | {SUPERVISED: "1"}, "this is a supervised command: only a human"),
    ],
    ids=["no file", "no signers", "no secret", "supervised"],
)
def test_it_refuses_what_can_not_work(place: Place, change: str, environ: dict[str, str], said: str) -> None:
    if change == "no file":
        process = place.start("hub", **environ)
    else:
        if change:
            place.write("")
        process = place.hla("hub", **environ)
    assert said in refused(process)


def test_a_route_without_a_channel_for_it(place: Place) -> None:
    place.file.write_text(place.file.read_text().replace("{to: slack}", "{to: terminal}"))
    assert "no route has a step that the hub serves" in refused(place.hla("hub", **SECRETS))


def test_a_key_that_another_user_may_read_is_refused(place: Place) -> None:
    key_path().chmod(0o644)
    assert "chmod 600" in refused(place.hla("hub", **SECRETS))


# hla channel


def test_a_channels_file_that_is_changed_meanwhile(place: Place) -> None:
    hub = place.hla("hub", **SECRETS)
    assert hub.stdout is not None
    assert any("Ctrl-C ends it" in line for line in hub.stdout)
    place.file.write_text(place.file.read_text() + "# a remark\n")
    assert any("has changed: this hub goes on as it began; end it (Ctrl-C)" in line for line in hub.stdout)
    place.file.write_text("version: 1\npepole: {}\n")
    assert any("can't be used" in line and "did you mean people?" in line for line in hub.stdout)


def test_channels_are_listed(place: Place) -> None:
    out, _ = place.hla("channel", "ls", SLACK_BOT_TOKEN="xoxb-test", COLUMNS="80").communicate(timeout=600)
    assert out.splitlines() == [
        "channel   type",
        "terminal  terminal  no route uses it; asks where the agent runs",
        "slack     slack     routes: default; not set here: SLACK_APP_TOKEN; no process",
        "                    serves it: hla hub does",
    ]


@pytest.mark.parametrize(("kind", "words"), [("approve", ""), ("reject", "no")])
def test_a_test_of_a_channel_waits_for_an_answer(place: Place, kind: str, words: str) -> None:
    test = place.hla("channel", "test", "slack", **SECRETS)
    place.answer(kind, words)
    out, err = test.communicate(timeout=600)
    assert test.returncode == 0, err
    assert f"slack works: {kind} by alice after" in out
    assert "nothing was run" in out
    store = SQLiteStore(place.store, create=False)
    assert list(store.events(type="exec")) == list(store.events(type="permit")) == []
    (request,) = store.requests()
    assert request.state in ("lapsed", "rejected", "approved")
    store.close()
    assert not place.board.messages()[0]["offers"]


def test_a_test_works_beside_a_hub_that_serves_the_channel(place: Place) -> None:
    hub = place.hla("hub", **SECRETS)
    assert hub.stdout is not None
    with suppress(StopIteration):
        next(line for line in hub.stdout if "serving" in line)
    test = place.hla("channel", "test", "slack", **SECRETS)
    place.answer()
    out, _ = test.communicate(timeout=600)
    assert "slack works: approve by alice" in out
    assert len(place.board.messages()) == 1


def test_a_test_that_nobody_answers(place: Place) -> None:
    test = place.hla("channel", "test", "slack", "--timeout", "1", **SECRETS)
    out, _ = test.communicate(timeout=600)
    assert test.returncode == 3
    assert "nobody answered within 1 s" in out
    assert place.board.messages()[0]["state"] == "expired"


def test_a_test_of_a_channel_that_does_not_work(place: Place) -> None:
    place.board.fault = "gone"
    test = place.hla("channel", "test", "slack", **SECRETS)
    out, _ = test.communicate(timeout=600)
    assert test.returncode == 3
    assert "slack does not work: the board is gone: make another one" in out


@pytest.mark.parametrize(
    ("name", "said"),
    [("fax", "there is no channel 'fax'; channels here: slack, terminal"), ("terminal", "it is of type terminal")],
)
def test_a_test_of_what_is_no_channel(place: Place, name: str, said: str) -> None:
    assert said in refused(place.hla("channel", "test", name, **SECRETS))


# The passphrase of the key

PROMPT = "Passphrase of your key: "
FROM_HERE = "Passphrase of your key, to serve slack from here (Enter alone: not from here): "
STARTS = """
import sys
from humanlayer_agent.channels import registry
registry.FACTORIES = {"slack": "humanlayer_agent.testing.scripted_channel:build"}
from humanlayer_agent.configuration import build_gate
from humanlayer_agent.testing.approvers import ScriptedDirector

given = {"user": type("User", (), {"query": print})()} if sys.argv[3:] else {}
gates = [build_gate(director=ScriptedDirector(), store=sys.argv[1], channels=sys.argv[2], **given) for _ in range(2)]
print("serves", [gate._reach is not None for gate in gates], flush=True)
"""


def at_terminal(place: Place, program: str, *arguments: str, **environ: str) -> Any:
    env = {k: v for k, v in os.environ.items() if k != PASSPHRASE_VARIABLE} | SECRETS
    env |= {"HUMANLAYER_TEST_BOARD": str(place.board.folder)}
    argv = [sys.executable, ["-c", program, *arguments]]
    return children.spawn(*argv, env=env | {"LC_ALL": "C.UTF-8"} | environ, timeout=600, encoding="utf-8")


def ended(child: Any) -> tuple[int, str]:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, child.before


def test_the_hub_asks_before_it_serves(place: Place) -> None:
    hub = at_terminal(place, PROGRAM, "hub", "--channels", str(place.file), "--store", str(place.store))
    for said in ("no passphrase at all", PASSPHRASE):
        hub.expect_exact(PROMPT)
        assert "serving" not in hub.before
        hub.sendline(said)
    hub.expect_exact("slack      serving")
    assert PASSPHRASE not in hub.before
    agent = place.agent()
    place.answer()
    assert agent.communicate(timeout=600)[0] == f"Permit {ALICE} \n"
    hub.sendintr()
    assert ended(hub)[0] == 0


@pytest.mark.parametrize("typed", ["", "not the one that is wanted"])
def test_a_hub_whose_key_stays_locked_does_not_start(place: Place, typed: str) -> None:
    hub = at_terminal(place, PROGRAM, "hub", "--channels", str(place.file), "--store", str(place.store))
    for _ in range(3 if typed else 1):
        hub.expect_exact(PROMPT)
        hub.sendline(typed)
    code, said = ended(hub)
    assert code == 2
    assert "your key stays locked: nothing was started" in said


@pytest.mark.parametrize("command", [["hub"], ["channel", "test", "slack"]])
def test_without_a_terminal_a_file_is_needed(place: Place, command: list[str], tmp_path: Path) -> None:
    said = refused(place.hla(*command, **SECRETS, **{PASSPHRASE_VARIABLE: ""}))
    assert "your key is locked, and its passphrase can't be asked for" in said
    assert f"(or let {PASSPHRASE_VARIABLE} name a file that holds it)" in said
    wrong = tmp_path / "wrong"
    wrong.write_text("another passphrase\n")
    wrong.chmod(0o600)
    said = refused(place.hla(*command, **SECRETS, **{PASSPHRASE_VARIABLE: str(wrong)}))
    assert f"{PASSPHRASE_VARIABLE}: the passphrase does not unlock the key" in said
    assert "another passphrase" not in said
    wrong.chmod(0o644)
    assert "chmod 600" in refused(place.hla(*command, **SECRETS, **{PASSPHRASE_VARIABLE: str(wrong)}))


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("typed", "serves", "said"),
    [
        ([PASSPHRASE], True, ""),
        (["one that is wrong", PASSPHRASE], True, "That does not unlock it."),
        ([""], False, "no channel is served from here: your key stays locked here: hla hub serves them"),
        (["wrong"] * 3, False, "no channel is served from here"),
    ],
)
def test_a_run_asks_once_before_it_starts(place: Place, typed: list[str], serves: bool, said: str) -> None:
    """Twice the same process, as in a batch: one question."""
    child = at_terminal(place, STARTS, str(place.store), str(place.file))
    shown = ""
    for each in typed:
        child.expect_exact(FROM_HERE)
        shown += child.before
        child.sendline(each)
    shown += ended(child)[1]
    assert f"serves [{serves}, {serves}]" in shown
    assert said in shown
    assert PASSPHRASE not in shown


def test_a_run_does_not_ask_where_a_hub_serves(place: Place) -> None:
    hub = place.hla("hub", **SECRETS)
    assert hub.stdout is not None
    next(line for line in hub.stdout if "serving" in line)
    code, shown = ended(at_terminal(place, STARTS, str(place.store), str(place.file)))
    assert (code, shown.strip()) == (0, "serves [False, False]")


def test_a_program_with_a_channel_of_its_own_is_not_asked(place: Place) -> None:
    """Nobody may be at its terminal, or something else."""
    code, shown = ended(at_terminal(place, STARTS, str(place.store), str(place.file), "user"))
    assert code == 0
    assert "Passphrase of" not in shown
    assert "no channel is served from here: your key is locked: let hla hub serve them" in shown
    assert "serves [False, False]" in shown


@pytest.mark.parametrize("command", [["hub"], ["channel", "test", "slack"], ["requests", "reject", "4f1c", "no"]])
def test_no_other_process_of_the_same_user_reads_its_memory(place: Place, command: list[str]) -> None:
    """From its beginning: what is typed is never in a process that can be read."""
    program = PROGRAM.replace(
        "sys.exit(main(sys.argv[1:]))",
        "import ctypes; main(sys.argv[1:]); print('dumpable', ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))",
    )
    place.write("")
    _, shown = ended(at_terminal(place, program, *command, "--channels", str(place.file), "--store", str(place.store)))
    assert "dumpable 0" in shown
