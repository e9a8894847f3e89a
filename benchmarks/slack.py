"""Slack on loopback: from the click to the agent that goes on, and what a locked store does to it.

    python benchmarks/slack.py [--runs N]

A fake Slack, `hla hub` as a process of its own, and an agent's Gate in this one. Measured are: from the ask to the
message; from the click to its acknowledgement, which comes after the decision is on disk; from the click to the return
of `Gate.check`. Then the store is locked: a click is not acknowledged, and the next one after that is. A table goes to
standard error, the same figures as JSON to standard output. The network to Slack is not in it.
"""

import argparse
import getpass
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.configuration import build_authority
from humanlayer_agent.locations import PASSPHRASE_VARIABLE
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedDirector
from humanlayer_agent.testing.fake_slack import APP_TOKEN, BOT_TOKEN, CHANNEL, TEAM, FakeSlack
from tests.support.keys import make_key, passphrase_file

RUNS = 100
ALLOWED_MS = 1_000
"""From a click to its acknowledgement. Slack gives up after 3 s."""

PROFILE = """
version: 1
people: {{alice: {{slack: {team}/U0ALICE}}, starter: {{os_user: {user}}}}}
channels: {{slack: {{type: slack, post_to: {channel}, api_url: "{url}", pace: 0}}}}
routes: {{default: {{approvers: [alice], timeout: 10m, steps: [{{to: slack}}]}}}}
signers: [{signer}]
"""


@contextmanager
def hub(folder: Path) -> Iterator[None]:
    """`hla hub` while this lasts."""
    argv = [sys.executable, "-m", "humanlayer_agent.cli", "hub", "--channels", str(folder / "channels.yaml")]
    tokens = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
    environ = {**os.environ, **tokens, PASSPHRASE_VARIABLE: str(passphrase_file(folder))}
    silent = subprocess.DEVNULL
    process = subprocess.Popen(
        [*argv, "--store", str(folder / "store.sqlite3")], env=environ, stdin=silent, stdout=silent, stderr=silent
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(10)


class Bench:
    """An agent that asks, and somebody who clicks."""

    def __init__(self, folder: Path, slack: FakeSlack, gate: Gate) -> None:
        self._folder = folder
        self._slack = slack
        self._gate = gate
        self._asked = 0

    def ask(self) -> "tuple[threading.Thread, list[float], str, float]":
        """A new request: the thread that waits for it, where it puts the time at which it goes on, its message, and
        the seconds until that was there."""
        self._asked += 1
        known = {message["ts"] for message in self._slack.messages()}
        awake: list[float] = []

        def check(action: Action) -> None:
            if isinstance(self._gate.check(action), Permit):
                awake.append(time.perf_counter())

        thread = threading.Thread(target=check, args=(Action(f"make {self._asked}", cwd="/srv", project="/srv"),))
        began = time.perf_counter()
        thread.start()
        while not (fresh := [m["ts"] for m in self._slack.messages() if m["ts"] not in known]):
            time.sleep(0.001)
        shown = time.perf_counter() - began
        time.sleep(0.1)  # the hub writes down where it is
        return thread, awake, fresh[0], shown

    def click(self, ts: str) -> "tuple[bool, float]":
        """Whether a click on Approve was acknowledged, and after how many seconds."""
        delivery = self._slack.people.click("U0ALICE", ts, "hla_approve", stale=True)
        return delivery.acked, delivery.seconds

    def once(self) -> "tuple[float, float, float]":
        """Seconds from the ask to the message, from the click to its acknowledgement, and to the agent awake."""
        thread, awake, ts, shown = self.ask()
        began = time.perf_counter()
        acked, seconds = self.click(ts)
        thread.join()
        assert acked
        return shown, seconds, awake[0] - began

    def locked(self) -> "tuple[bool, float, bool]":
        """With a locked store: whether a click was acknowledged, after how long the next one was, and whether the
        agent then went on."""
        thread, awake, ts, _ = self.ask()
        with closing(sqlite3.connect(self._folder / "store.sqlite3", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            first, _ = self.click(ts)
            other.execute("ROLLBACK")
        time.sleep(1.0)  # a hub that could not keep its lease takes it again
        self._slack.socket.wait_for(2)
        second, seconds = self.click(ts)
        thread.join()
        return first, seconds if second else float("inf"), bool(awake)


def percentiles(seconds: list[float]) -> dict[str, float]:
    """p50, p99 and the longest, in ms."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50": round(cuts[49] * 1e3, 1), "p99": round(cuts[98] * 1e3, 1), "max": round(max(seconds) * 1e3, 1)}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home, FakeSlack() as slack:
        os.environ |= {"HOME": home, "XDG_CONFIG_HOME": f"{home}/config", "XDG_STATE_HOME": f"{home}/state"}
        folder = Path(home)
        signer = make_key().fingerprint
        text = PROFILE.format(team=TEAM, user=getpass.getuser(), channel=CHANNEL, url=slack.api_url, signer=signer)
        (folder / "channels.yaml").write_text(text)
        store = SQLiteStore(folder / "store.sqlite3")
        authority = build_authority(folder / "channels.yaml")
        director = ScriptedDirector(otherwise=Verdict.ASK)
        with hub(folder), Gate(director, store, None, agent="bench", authority=authority) as gate:
            slack.socket.wait_for(2, 60)
            bench = Bench(folder, slack, gate)
            bench.once()
            found = [bench.once() for _ in range(options.runs)]
            first, seconds, awake = bench.locked()
        store.close()
    figures = {name: percentiles([each[n] for each in found]) for n, name in enumerate(("shown", "acked", "awake"))}
    result = {
        "ms": figures,
        "locked": {"first_acked": first, "second_acked_ms": round(seconds * 1e3, 1), "agent_went_on": awake},
        "allowed": {"acked_ms": ALLOWED_MS},
    }
    for name, what in (("shown", "ask to message"), ("acked", "click to acknowledged"), ("awake", "click to agent")):
        each = figures[name]
        print(f"{what:24} p50 {each['p50']:>7} ms   p99 {each['p99']:>7} ms   max {each['max']:>7} ms", file=sys.stderr)
    print(
        f"store locked: a click was {'' if first else 'not '}acknowledged, the next one after {seconds * 1e3:.1f} ms",
        file=sys.stderr,
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
