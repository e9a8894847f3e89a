"""Several requests that wait, answered together in one form of Slack: each by a vote of its own."""

import json
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.channels.slack import blocks, bulk_answers
from humanlayer_agent.testing.conformance import CONTACT, HOSTILE
from humanlayer_agent.testing.fake_slack import TEAM
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.channels.slack.conftest import sealed, texts, user_of
from tests.channels.slack.test_cases import opened, refusals

SEVERAL = "hla_several"


def press(slack, surface, who: str = "alice", **fields: Any) -> Any:
    return slack.people.click(user_of(who), surface.ts, SEVERAL, stale=True, **fields)


def listed(world, show, slack, count: int = 3, who: str = "alice") -> tuple[list[Any], list[Any], Any]:
    """Some requests that are alike, where they are shown, and the form that the button of the last opens."""
    shown = [show(f"make target-{number}") for number in range(count)]
    requests, surfaces = [each for each, _ in shown], [surface for _, surface in shown]
    assert press(slack, surfaces[-1], who).acked
    return requests, surfaces, opened(slack, who)


def options(view) -> list[str]:
    (boxes,) = [block["element"] for block in view["blocks"] if block.get("block_id") == "said"]
    return [option["value"] for option in boxes["options"]]


def submit(slack, view, ticked, answer: str = "approve", who: str = "alice", **fields: Any) -> Any:
    reason = {"reason": fields.pop("reason")} if "reason" in fields else {}
    return slack.people.submit(
        user_of(who), view["id"], {"said": " ".join(ticked), "answer": answer} | reason, **fields
    )


def test_the_button_is_there_where_others_wait(world, show, slack) -> None:
    _, first = show("make one")
    assert SEVERAL not in slack.people.buttons(first.ts)
    _, second = show("make two")
    assert slack.people.buttons(second.ts)[SEVERAL]["text"]["text"] == "Several like this…"
    for fields in ({"severity": "high"}, {"severity": "low"}, {"project": "/srv/other"}):
        _, other = show("make three", **fields)
        assert SEVERAL not in slack.people.buttons(other.ts), "not alike, or to be answered alone"


def test_each_that_is_ticked_gets_a_signed_vote_of_its_own(world, show, slack) -> None:
    requests, _, view = listed(world, show, slack)
    said = "\n".join(texts(view["blocks"]))
    assert all(request.action.content in said for request in requests)
    values = options(view)
    assert submit(slack, view, [values[0], values[2]]).outcome == "closed"
    assert [world.state(request) for request in requests] == ["approved", "pending", "approved"]
    for request in (requests[0], requests[2]):
        (vote,) = world.store.votes(request.id)
        assert (vote.presented_digest, vote.input_mode, vote.scope) == (request.digest, "click", "")
        assert (vote.approver.assurance, vote.person) == ("chat", "alice")
        assert vote.signature
    assert len({vote.decision_id for request in requests for vote in world.store.votes(request.id)}) == 2


def test_rejected_with_a_reason(world, show, slack) -> None:
    requests, _, view = listed(world, show, slack)
    assert submit(slack, view, options(view), "reject", reason="not today").outcome == "closed"
    assert {world.state(request) for request in requests} == {"rejected"}
    assert {world.store.votes(request.id)[0].comment for request in requests} == {"not today"}


def test_what_differs_is_told_and_secrets_are_not(world, show, slack) -> None:
    secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
    for host in ("one.example", f"{secret}.example"):
        _, surface = show(f"curl https://{host}/", asks=(replace(CONTACT[0], operand=host),))
    press(slack, surface)
    view = opened(slack, "alice")
    assert "1  one.example" in list(texts(view["blocks"]))
    assert secret not in json.dumps(view)
    assert "secrets are not shown here" in json.dumps(view)


def test_nothing_ticked_or_chosen(world, show, slack) -> None:
    requests, _, view = listed(world, show, slack)
    for values in ({"answer": "approve"}, {"said": options(view)[0]}):
        with pytest.raises(ValueError, match="required"):
            slack.people.submit("U0ALICE", view["id"], values)
    with slack.world.lock:
        for block in slack.world.views[view["id"]]["blocks"]:
            block["optional"] = True  # a client that lets it through all the same
    for values in ({"answer": "approve"}, {"said": options(view)[0]}):
        assert slack.people.submit("U0ALICE", view["id"], values).errors["said"].startswith("Tick")
    assert {world.state(request) for request in requests} == {"pending"}


def test_what_somebody_else_has_decided_keeps_no_other_from_its_answer(world, show, slack) -> None:
    requests, surfaces, view = listed(world, show, slack)
    world.decide_elsewhere(requests[1], "reject", "bob")
    done = submit(slack, view, options(view))
    assert done.errors["said"].startswith("2 counted. make target-1: Too late")
    assert [world.state(request) for request in requests] == ["approved", "rejected", "approved"]
    until(lambda: not surfaces[1].offers(), "a settled message")


def test_submitted_twice(world, show, slack) -> None:
    requests, _, view = listed(world, show, slack)
    for _ in range(2):
        assert submit(slack, view, options(view)[:1]).outcome == "closed"
        with slack.world.lock:
            slack.world.views[view["id"]]["_open"] = True
    assert submit(slack, view, options(view)[:1], "reject").errors["said"].startswith("0 counted.")
    assert len(world.store.votes(requests[0].id)) == 1
    assert [world.state(request) for request in requests] == ["approved", "pending", "pending"]


def test_a_store_that_fails(world, show, slack) -> None:
    requests, _, view = listed(world, show, slack)
    world.broken_store = True
    slack.ack_seconds = 0.3
    assert submit(slack, view, options(view)).outcome == "kept"
    slack.ack_seconds = PATIENCE
    world.broken_store = False
    assert submit(slack, view, options(view)).outcome == "closed"
    assert {world.state(request) for request in requests} == {"approved"}


def test_what_the_form_did_not_show_is_not_answered_by_it(world, show, slack) -> None:
    """The value of a button, a made-up one, and one whose request is not shown whole."""
    requests, _, view = listed(world, show, slack)
    other, _ = show("make other", severity="high")
    hidden = world.ask("make hidden")
    forged = [f"{other.id}|{sealed(other)}", f"{hidden.id}|{'0' * 16}", "x", "|", f"{requests[0].id}|"]
    seal = world.channel._seal
    forged.append(f"{hidden.id}|{seal.of_scope(hidden, bulk_answers.PURPOSE)}")
    with slack.world.lock:
        for block in slack.world.views[view["id"]]["blocks"]:
            if block.get("block_id") == "said":
                block["element"]["options"] += [{"value": value} for value in forged]
    assert submit(slack, view, forged).outcome == "errors"
    for request in (*requests, other, hidden):
        assert world.state(request) == "pending"
        assert not world.store.votes(request.id)


@pytest.mark.parametrize(
    ("user", "code"),
    [
        ({"id": "U0MALLORY", "name": "mallory", "team_id": TEAM}, "unknown-identity"),
        ({"id": "U0ALICE", "name": "alice", "team_id": "T0OTHER"}, "foreign-team"),
    ],
)
def test_a_form_that_somebody_else_submits(world, show, slack, user, code: str) -> None:
    requests, _, view = listed(world, show, slack)
    assert submit(slack, view, options(view), user=user).outcome == "errors"
    assert {world.state(request) for request in requests} == {"pending"}
    assert {code for request in requests for code in refusals(world, request)} == {code}


def test_a_stranger_gets_no_form(world, show, slack) -> None:
    show("make one")
    request, surface = show("make two")
    assert press(slack, surface, "mallory").acked
    until(lambda: slack.told("U0MALLORY"), "told")
    assert slack.people.view("U0MALLORY") is None
    assert refusals(world, request) == ["unknown-identity"]


def test_where_no_other_waits_any_more(world, show, slack) -> None:
    first, _ = show("make one")
    _, surface = show("make two")
    world.decide_elsewhere(first, "reject", "bob")
    assert press(slack, surface).acked
    assert until(lambda: slack.told("U0ALICE"), "told")[0].startswith("No other waits any more")
    assert slack.people.view("U0ALICE") is None


def test_as_many_as_a_form_has_boxes(world, show, slack) -> None:
    requests, _, view = listed(world, show, slack, blocks.OPTIONS + 2)
    assert len(options(view)) == blocks.OPTIONS
    assert any(value.startswith(requests[-1].id) for value in options(view)), "that whose button it was"
    assert submit(slack, view, options(view)).outcome == "closed"
    assert [world.state(request) for request in requests].count("approved") == blocks.OPTIONS


def test_too_long_for_the_form(world, show, slack) -> None:
    show("make one")
    _, surface = show(f"echo {'x' * bulk_answers.LONGEST}")
    assert SEVERAL not in slack.people.buttons(surface.ts)
    assert "approve" in surface.offers()


def test_hostile_commands_are_only_text(world, show, slack) -> None:
    for command in HOSTILE.values():
        _, surface = show(command.replace("\0", ""), agent=command.replace("\0", ""))
    press(slack, surface)
    view = opened(slack, "alice")  # the fake refuses what Slack would
    assert submit(slack, view, options(view)).outcome == "closed"
