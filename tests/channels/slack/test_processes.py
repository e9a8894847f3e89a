"""Agents, hubs and one Slack app: `hla hub` as processes of their own, killed with -9 while people click.

Short here; the long form (`HLA_ALL=1`) is 4 agents, 100 requests and ten kills.
"""

import getpass
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from humanlayer_agent.locations import PASSPHRASE_VARIABLE
from humanlayer_agent.processes.identity import pid_of
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.fake_slack import APP_TOKEN, BOT_TOKEN, CHANNEL, SIGNING_SECRET, TEAM, FakeSlack
from humanlayer_agent.testing.patience import until
from tests.channels.slack.conftest import user_of
from tests.support import children, extent
from tests.support.keys import make_key, passphrase_file
from tests.support.mail_servers import free_port

AGENTS, EACH, KILLS = (4, 25, 10) if extent.ALL else (3, 3, 2)

AGENT = """
import json, sys
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.configuration import build_authority
from tests.support.asking_agent import ask_often

folder, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
store = SQLiteStore(f"{folder}/store.sqlite3", busy_ms=600_000)
print(json.dumps(ask_often(store, build_authority(f"{folder}/channels.yaml"), name, count)))
"""

PROFILE = """
version: 1
people:
  alice: {{slack: {team}/U0ALICE}}
  bob: {{slack: {team}/U0BOB}}
  starter: {{os_user: {user}}}
channels:
  slack: {{type: slack, post_to: {channel}, api_url: "{url}", pace: 0, {mode}}}
routes:
  default: {{approvers: [alice, bob], timeout: 10m, steps: [{{to: slack}}]}}
signers: [{signer}]
"""


class Machines:
    """The processes of a test."""

    def __init__(self, folder: Path, slack: FakeSlack, mode: str) -> None:
        self.folder = folder
        self._all: list[subprocess.Popen[str]] = []
        signer = make_key().fingerprint
        self._passphrase = str(passphrase_file(folder))
        user = getpass.getuser()
        how = "connections: 2"
        if mode == "http":
            listen = f"127.0.0.1:{free_port()}"
            how, slack.requests.url = f'mode: http, listen: "{listen}"', f"http://{listen}/slack"
        text = PROFILE.format(team=TEAM, user=user, channel=CHANNEL, url=slack.api_url, signer=signer, mode=how)
        (folder / "channels.yaml").write_text(text)
        self.store = SQLiteStore(folder / "store.sqlite3", busy_ms=600_000)

    def agent(self, name: str) -> subprocess.Popen[str]:
        return self._start([sys.executable, "-c", AGENT, str(self.folder), name, str(EACH)], subprocess.PIPE)

    def hub(self) -> subprocess.Popen[str]:
        options = ["--channels", str(self.folder / "channels.yaml"), "--store", str(self.folder / "store.sqlite3")]
        tokens = {
            "SLACK_BOT_TOKEN": BOT_TOKEN,
            "SLACK_APP_TOKEN": APP_TOKEN,
            "SLACK_SIGNING_SECRET": SIGNING_SECRET,
            PASSPHRASE_VARIABLE: self._passphrase,
        }
        return self._start(
            [sys.executable, "-m", "humanlayer_agent.cli", "hub", *options], subprocess.DEVNULL, **tokens
        )

    def _start(self, argv: list[str], output: int | IO[str], **environ: str) -> subprocess.Popen[str]:
        errors = None if output == subprocess.PIPE else subprocess.STDOUT
        given = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3]), **environ}
        process = children.Popen(argv, env=given, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, text=True)
        self._all.append(process)
        return process

    def holder(self) -> int:
        """The pid of the process that serves Slack; 0 where none does."""
        lease = self.store.surfaces.lease("slack")
        return pid_of(lease.process) or 0 if lease else 0

    def close(self) -> None:
        for process in self._all:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self.store.close()


@pytest.fixture(params=["socket", "http"])
def machines(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Machines, FakeSlack]]:
    with FakeSlack(ack_seconds=1.0) as slack:
        made = Machines(tmp_path, slack, request.param)
        yield made, slack
        made.close()


def click_at_random(slack: FakeSlack, over: threading.Event, seed: int) -> None:
    """People who click on what they see, twice now and then, until it is over."""
    chance = random.Random(seed)
    while not over.wait(0.01):
        waiting = [m["ts"] for m in slack.messages() if slack.people.buttons(m["ts"])]
        if not waiting:
            continue
        ts, who = chance.choice(waiting), user_of(chance.choice(("alice", "bob")))
        try:
            if chance.random() < 0.75:
                for _ in range(chance.choice((1, 1, 2))):
                    slack.people.click(who, ts, "hla_approve", stale=True)
                continue
            slack.people.click(who, ts, "hla_reject", stale=True)
            if (view := slack.people.view(who)) is not None:  # of this click, or of one before
                slack.people.submit(who, view["id"], {"said": "no"})
        except LookupError:
            continue


def decided(machine: Machines) -> int:
    return sum(request.state != "pending" for request in machine.store.requests())


@pytest.mark.long
def test_hubs_killed_while_people_click(machines: tuple[Machines, FakeSlack]) -> None:
    machine, slack = machines
    chance = random.Random(3)
    hubs = [machine.hub(), machine.hub()]
    until(machine.holder, "a hub that serves Slack")
    agents = [machine.agent(f"agent-{n}") for n in range(AGENTS)]
    over = threading.Event()
    clickers = [threading.Thread(target=click_at_random, args=(slack, over, n)) for n in range(3)]
    killed, began = 0, time.monotonic()
    for clicker in clickers:
        clicker.start()
    try:
        while killed < KILLS:
            some = decided(machine) + chance.randrange(1, 4)
            until(lambda some=some: decided(machine) >= min(some, AGENTS * EACH), "another decision")
            for hub in hubs:
                if hub.pid == machine.holder() and hub.poll() is None:
                    hub.send_signal(signal.SIGKILL)
                    killed += 1
                    hubs.append(machine.hub())
                    break
        told = [json.loads(agent.communicate()[0]) for agent in agents]
        seconds = time.monotonic() - began

        def settled() -> bool:
            return not any(slack.people.buttons(message["ts"]) for message in slack.messages())

        until(settled, "every message without buttons")
    finally:
        over.set()
        for clicker in clickers:
            clicker.join()
    outcomes = {request_id: outcome for each in told for request_id, outcome in each.values()}
    requests = machine.store.requests()
    states = Counter(request.state for request in requests)
    assert len(outcomes) == len(requests) == AGENTS * EACH
    assert set(states) <= {"approved", "rejected"}
    for request in requests:
        votes = machine.store.votes(request.id)
        assert [vote.answer for vote in votes] == [{"approved": "approve", "rejected": "reject"}[request.state]]
        assert (outcomes[request.id] == "ran") == (request.state == "approved")
        recorded = list(machine.store.events(request=request.id, type="vote.recorded"))
        assert len(recorded) == 1
        assert len(list(machine.store.events(request=request.id, type="exec.started"))) == (request.state == "approved")
    shown = Counter(m["metadata"]["event_payload"]["id"] for m in slack.messages() if m.get("metadata"))
    assert set(shown) == set(outcomes)
    late = len(list(machine.store.events(type="vote.late")))
    print(
        f"\n{len(requests)} requests: {dict(states)}; {killed} hubs killed; {late} late clicks; "
        f"{sum(shown.values()) - len(shown)} shown twice; {seconds:.1f} s"
    )
