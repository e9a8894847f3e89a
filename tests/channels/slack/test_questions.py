"""A question of an agent in Slack: it is answered by Respond, the agent gets the words, and nothing can be approved."""

import threading
from pathlib import Path

import pytest

from humanlayer_agent.action import QUESTION, Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial
from humanlayer_agent.hub.hub import Hub
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers, ScriptedDirector
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.channels.slack.conftest import PEOPLE, sealed
from tests.channels.slack.test_cases import refusals


def test_the_agent_gets_the_words(rig, slack, tmp_path: Path) -> None:
    people = (Person("alice", (PEOPLE["alice"],)), Person("starter", ("os:1000:starter",)))
    rules = {"default": ApprovalRule("default", ("alice",), steps=(Step("slack"),))}
    approvers = ScriptedApprovers(Authority(people, rules))
    store, said = SQLiteStore(tmp_path / "store.sqlite3"), []
    command = Action("hla ask 'Which branch?' -o main -o next", cwd="/srv/app", project="/srv/app")
    hub = Hub(store, ["slack"], lambda name: rig.channel(), approvers.authority, approvers.signer)
    gate = Gate(
        ScriptedDirector(), store, None, authority=approvers.authority, requester="os:1000:starter", agent="bot"
    )
    with hub, gate:
        agent = threading.Thread(target=lambda: said.append(gate.check(command)))
        agent.start()
        until(lambda: store.requests() and rig.surfaces(store.requests()[0].id), "the message")
        (request,) = store.requests()
        until(lambda: store.surfaces.presentations("slack", request_id=request.id), "the hub's word that it shows it")
        (surface,) = rig.surfaces(request.id)
        assert list(slack.people.buttons(surface.ts)) == ["hla_respond", "hla_reject"]
        shown = surface.text()
        for text in ("bot asks you something", "Which branch?\n\n1. main\n2. next", "the agent gets no answer"):
            assert text in shown
        assert "run this" not in shown
        surface.answer("respond", "alice", "2")
        agent.join(PATIENCE)
    (answered,) = said
    assert isinstance(answered, Denial)
    assert (answered.question, answered.answer, answered.comment) == (True, "respond", "next")
    assert (answered.approver, store.requests()[0].state) == (PEOPLE["alice"], "answered")
    assert "Answered by" in surface.text()
    store.close()


@pytest.mark.parametrize("kind", ["approve", "grant", "edit", "several"])
def test_a_button_that_a_question_does_not_have(world, show, slack, kind) -> None:
    """Somebody has copied it from another message."""
    request, surface = show("Shall I?", type=QUESTION, interpreter=(QUESTION,))
    value = f"{request.id}|{sealed(request)}"
    button = {"type": "button", "action_id": f"hla_{kind}", "block_id": "b", "value": value, "action_ts": "1.1"}
    assert surface.click("reject", "alice", actions=[button]).acked
    assert (world.state(request), refusals(world, request)) == ("pending", ["no-such-answer"])
    assert (slack.people.view("U0ALICE"), list(world.store.votes(request.id))) == (None, [])
