"""What every door is held to: adapters of frameworks, coding agents' hooks, and the MCP gateway. docs/doors.md is made
from here, and `tests/docs/test_doors.py` holds it to the tests that are named.
"""

from humanlayer_agent.hooks.coding_agents import AGENTS
from tests.adapters.table import ADAPTERS

ROWS = {
    "allow": "allowed",
    "deny": "denied by the policy",
    "approve": "approved",
    "reject": "rejected in words",
    "edit": "changed by the human",
    "time_out": "nobody answers",
    "killed": "killed in between",
    "parallel": "several, the middle one denied",
    "stop": "stopped",
}
"""By row: how a call can end, in a heading."""

HOOKS = "tests/hooks/test_conformance.py"
GATEWAY = "tests/hooks/gateway/test_conformance.py"
FRAMEWORKS = "tests/adapters/behaviours.py"

_HOOK = {row: f"{HOOKS}::test_{row}" for row in ROWS}
_NOTES = {
    ("cline", "edit"): "Cline takes no other command: it is denied.",
    ("cursor", "edit"): "It is denied: nobody has seen that Cursor takes another command.",
    ("cursor", "allow"): "What Cursor's hook answers; nobody has tried with the program itself what becomes of it.",
    "hook": "A hook that is killed takes its question with it: asked again, it is one of its own.",
    "gateway": "The same of a client that is killed; what the server has by then is recorded as of unknown end.",
}
_GATEWAY = {
    "allow": "test_allow",
    "deny": "test_deny",
    "approve": "test_ask_and_approve",
    "reject": "test_ask_and_reject_with_words",
    "edit": "test_an_edit_is_refused",
    "time_out": "test_nobody_answers_in_time",
    "killed": "test_the_gateway_is_killed_while_a_human_is_asked",
    "parallel": "test_three_at_once_and_the_middle_one_denied",
    "stop": "test_every_agent_is_stopped",
}


class Door:
    """What stands between one kind of agent and what it does.

    Attributes:
        title: as people know it.
        tests: by row, the test that shows it; "" where it has no place there.
        notes: by row, what is to be said of it.
    """

    def __init__(self, title: str, tests: dict[str, str], notes: dict[str, str]) -> None:
        self.title, self.tests, self.notes = title, tests, notes


def doors() -> list[Door]:
    """All doors, coding agents first."""
    found = []
    for agent in AGENTS.values():
        notes = {row: said for row in ROWS if (said := _NOTES.get((agent.name, row)))}
        found.append(Door(agent.title, _HOOK, {"killed": _NOTES["hook"], **notes}))
    gateway = {row: f"{GATEWAY}::{name}" for row, name in _GATEWAY.items()}
    found.append(Door("MCP gateway, by pipes and by HTTP", gateway, {"killed": _NOTES["gateway"]}))
    for adapter in ADAPTERS:
        tests, notes = {}, {}
        for row in ROWS:
            source = "resumed" if row == "killed" else row
            why = adapter.without.get(source, "")
            tests[row] = "" if why else f"{FRAMEWORKS}::test_{source}"
            notes |= {row: why} if why else {}
        found.append(Door(adapter.title, tests, notes))
    return found
