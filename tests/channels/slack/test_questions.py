"""A question of an agent in Slack: it is answered by Respond, the agent gets the words, and nothing can be approved."""

import threading
from pathlib import Path
from typing import Any

from humanlayer_agent.action import QUESTION, Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Step
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial
from humanlayer_agent.hub.hub import Hub
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers, ScriptedDirector
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.channels.slack.conftest import PEOPLE, texts


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


def test_a_button_of_another_message_approves_none(world, show, slack) -> None:
    """A copied message may have buttons that this one does not have."""
    request, surface = show("Shall I?", type=QUESTION, interpreter=(QUESTION,))
    for kind in ("approve", "grant", "edit"):
        forged: Any = slack.people.buttons(surface.ts)["hla_respond"] | {"action_id": f"hla_{kind}"}
        blocks = [
            block if block["type"] != "actions" else block | {"elements": [*block["elements"], forged]}
            for block in slack.message(surface.ts)["blocks"]
        ]
        slack.message(surface.ts)["blocks"] = blocks
        surface.click(kind, "alice")
        until(lambda: slack.told("U0ALICE"), "why it does not count")
        assert "answered in words" in slack.told("U0ALICE")[-1]
    assert (world.state(request), list(world.store.votes(request.id))) == ("pending", [])
    assert "Approve" not in "\n".join(texts(slack.message(surface.ts)["blocks"][0]))
