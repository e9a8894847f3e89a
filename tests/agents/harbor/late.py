"""For Harbor's own Python: a trial that times out while a human is asked, and an approval that comes afterwards.

Prints, as JSON, what became of the late answer and of the request.
"""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from probe import LocalProbe

from humanlayer_agent.agents.harbor import SupervisedMini
from humanlayer_agent.approvals.model import Answer, Approver
from humanlayer_agent.configuration import build_authority
from humanlayer_agent.keys.signing import process_signer
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.store.sqlite import SQLiteStore

CHANNELS, CONFIG, LOGS = sys.argv[1:]


async def asked(store: SQLiteStore, running: "asyncio.Task[None]") -> Any:
    """The request that waits, once it is there."""
    while not (found := store.requests(state="pending")):
        if running.done():
            running.result()
            raise SystemExit("the run ended, and nobody was asked")
        await asyncio.sleep(0.02)
    return found[0]


async def main() -> dict[str, Any]:
    agent = SupervisedMini(Path(LOGS), "scripted", config=CONFIG, supervision={"channels": CHANNELS})
    environment = LocalProbe.__new__(LocalProbe)
    environment.root = Path(os.environ["PROBE"])
    (environment.root / "app").mkdir(parents=True)
    store = SQLiteStore(default_store_path())
    running = asyncio.create_task(agent.run("task", environment, SimpleNamespace(metadata=None)))
    request = await asked(store, running)
    running.cancel()  # as asyncio.wait_for does when the trial's time is over
    ended = (await asyncio.gather(running, return_exceptions=True))[0]
    authority = build_authority(CHANNELS)
    assert authority is not None
    signer = process_signer()  # the one that the agent trusts: it is in the same process
    vote = Answer("approve", Approver("os:1:bob", "test", "terminal"), request.digest, "late-1")
    result = store.decide(request.id, vote, authority.trusting(signer.fingerprint), signer)
    while any(t.name.startswith("asyncio_") and _busy(t) for t in threading.enumerate()):
        await asyncio.sleep(0.05)
    found = store.get(request.id)
    return {"ended": type(ended).__name__, "late": result.outcome, "state": found.state if found else None}


def _busy(thread: threading.Thread) -> bool:
    """Whether a thread of the pool still runs the agent."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if "humanlayer_agent" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


print(json.dumps(asyncio.run(main())))
