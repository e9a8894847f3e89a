"""An agent that asks about everything it wants to do, many things at once: for tests with agents as processes."""

import threading

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import Authority
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.approvals.store_interface import Store
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.testing.approvers import ScriptedDirector


def ask_often(
    store: Store, authority: Authority | None, name: str, count: int, *, requester: str = ""
) -> dict[int, tuple[str, str]]:
    """Ask about `make NAME-0`, `make NAME-1` and so on, each in a thread of its own, until all are answered.

    Args:
        name: of the agent, and its instance.
        requester: the principal who started it; the user of this process where it is empty.

    Returns:
        What became of each: the id of the request, and "ran" or why it did not.
    """
    gate = Gate(
        ScriptedDirector(otherwise=Verdict.ASK),
        store,
        None,
        agent=name,
        requester=requester,
        instance=name,
        authority=authority,
        max_denials=0,
        use_by_ms=600_000,  # a slow disk keeps so many from using theirs at once
    )
    told: dict[int, tuple[str, str]] = {}

    def work(number: int) -> None:
        permit = gate.check(Action(f"make {name}-{number}", cwd="/srv/app", project="/srv/app"))
        if not isinstance(permit, Permit):
            told[number] = (permit.request_id, permit.reason)
            return
        denial = gate.start(permit, permit.action)
        if denial is None:
            gate.finish(permit, Outcome(0))
        told[number] = (permit.request_id, "ran" if denial is None else denial.reason)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gate.close()
    return told
