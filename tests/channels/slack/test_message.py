"""Messages and forms: within Slack's limits whatever they show, and only text."""

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, StandIn, Step
from humanlayer_agent.approvals.model import ApprovalRequest, Vote
from humanlayer_agent.channels.contract import Outcome
from humanlayer_agent.channels.slack import forms, message
from humanlayer_agent.channels.slack.message import Attachment
from humanlayer_agent.policy.decision import PartVerdict, PolicyDecision, Verdict
from humanlayer_agent.safe_text import visible
from humanlayer_agent.shell import Effect
from humanlayer_agent.testing.conformance import HOSTILE, LONG
from humanlayer_agent.testing.fake_slack import blocks as fake
from humanlayer_agent.testing.fake_slack.limits import LIMITS
from tests.channels.asking import COMMAND, build_held, build_request
from tests.channels.slack.conftest import texts
from tests.support import extent


def request_of(command: str = "make deploy", text: str = "text", many: int = 1, **fields: Any) -> ApprovalRequest:
    part = PartVerdict(command[:3000], "make", Verdict.ASK, (text,), text, (0, len(command)))
    effects = tuple(Effect("delete", "tree", f"/srv/{text}{n}", True, (0, 1)) for n in range(many))
    decision = PolicyDecision(
        Verdict.ASK,
        text,
        "default",
        "0" * 64,
        rules=(text,) * many,
        severity="high",
        suggestion=text,
        unresolved=tuple(f"{text}{n}" for n in range(many)),
        parts=(part,) * max(2, many),
        effects=effects,
    )
    action = Action(command, cwd=f"/srv/{text}", project="/srv", agent=text, run_id="7f3a91", step=2, model_intent=text)
    rule = ApprovalRule("default", ("alice",), steps=(Step("slack"), Step("mail", 60_000)))
    made = ApprovalRequest(
        "a1" * 16, "k", "d" * 64, {}, action, decision, "os:0:root", 1_000, 601_000, 60_000, rule=rule
    )
    return replace(made, **fields)


def asked(request: ApprovalRequest, attachment: Attachment | None = None) -> message.Message:
    what = message.shown(request)
    if attachment is None:
        attachment = Attachment.THERE if what.is_long else Attachment.NONE
    return message.asking(Outcome(request, missing=1), what, attachment, ["U1", "S2"], now=2_000)


def check(made: message.Message) -> None:
    assert fake.message_errors(made.blocks) == []
    assert fake.characters(made.blocks) <= LIMITS["message_characters"]
    assert fake.mentions(made.text) == []
    assert "mrkdwn" not in json.dumps([block["type"] for block in made.blocks])
    assert not any(element.get("type") == "mrkdwn" for block in made.blocks for element in block.get("elements", []))
    assert visible("".join(texts(made.blocks)), keep="\n\t") == "".join(texts(made.blocks))


TEXT = st.text(st.characters(codec="utf-8"), max_size=300) | st.sampled_from(
    ["<!channel>", "``` *x* ```", "x" * 5000, '"\\' * 2000, "\x1b[2J" * 500, "日本" * 900, ""]
)


@pytest.mark.long
@settings(max_examples=extent.examples(75, soak=300))
@given(command=TEXT, text=TEXT, many=st.sampled_from([1, 3, 20]), attachment=st.sampled_from(list(Attachment)))
def test_every_message_is_within_the_limits(command: str, text: str, many: int, attachment: Attachment) -> None:
    request = request_of(command or "x", text, many)
    made = asked(request, attachment)
    check(made)
    assert len(json.dumps(made.blocks, ensure_ascii=False)) <= message.ROOM + 4_000
    for state in ("superseded", "expired"):
        settled = replace(request, state=state, decided=5_000, comment=text * 2, edited=command * 2)
        body = message.decided(Outcome(settled, by=text), message.shown(settled))
        check(body)
        assert not any(block["type"] == "actions" for block in body.blocks)
    what = message.shown(request)
    for action in forms.FORMS:
        if action == message.EDIT and not what.can_edit:
            continue
        form = forms.view(action, what, forms.Origin(request.id, "d" * 16, "C0OPS", "1.1"))
        assert fake.view_errors(form) == []


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_command_is_whole_and_pings_nobody(name: str) -> None:
    made = asked(request_of(HOSTILE[name], HOSTILE[name].replace("\0", "")))
    check(made)
    literal = [block for block in made.blocks if "preformatted" in json.dumps(block)]
    shown = visible(HOSTILE[name])
    assert shown.rstrip("\n") in [text.rstrip("\n") for text in texts(literal)]
    assert sorted(fake.pings(made.blocks)) == ["!subteam^S2", "@U1"]


def test_what_is_at_stake_is_shown() -> None:
    request = request_of()
    told = ("Deletes 3 files (9 bytes) at tmp.", "Reaches <!channel>.")
    made = asked(replace(request, decision=replace(request.decision, radius=told)))
    assert "At stake: Deletes 3 files (9 bytes) at tmp." in "\n".join(texts(made.blocks))
    assert "!channel" not in "".join(fake.pings(made.blocks))


def test_what_is_shown() -> None:
    made = asked(request_of())
    shown = "\n".join(texts(made.blocks))
    for part in ("make deploy", "high severity", "in /srv/text", "run 7f3a91", "step 2", "Parts", "Effects", "deletes",
                 "Unknown until it runs", "Instead: text", "The model says (not verified): text", "Answer by"):  # fmt: skip
        assert part in shown
    assert "make deploy" not in made.text


def test_what_decided_is_marked_as_the_terminal_underlines_it() -> None:
    made = asked(build_request())
    (marks,) = [text for text in texts(made.blocks) if "^" in text]
    first, below, second, below_second = marks.split("\n")
    assert first == '2  rm -rf "$CACHE"/* /var/lib/app/cache'
    assert below.lstrip(" ") == "^" * len('rm -rf "$CACHE"/* /var/lib/app/cache')
    assert second.startswith("3  curl -fsS https://")
    assert len(below) == len(first)
    assert [second[at] for at, mark in enumerate(below_second) if mark == "^"][-1] == "h"
    assert COMMAND in [text.rstrip("\n") for text in texts(made.blocks)], "the command itself is as it was"


def test_marks_of_a_long_line_and_of_wide_characters() -> None:
    command = f"echo {'a' * 200} 日本 && rm -rf /srv/x"
    begin = command.index("rm")
    request = request_of(command)
    decision = replace(request.decision, spans=((begin, len(command)),))
    made = asked(replace(request, decision=decision))
    check(made)
    (marks,) = [text for text in texts(made.blocks) if "^" in text]
    line, below = marks.split("\n")
    assert line.startswith("1  ... ")
    assert line.endswith("日本 && rm -rf /srv/x")
    assert below == " " * (len(line.partition("rm -rf")[0]) + 2) + "^" * len("rm -rf /srv/x"), "two cells each"


def test_a_command_that_is_all_of_it_what_decided_has_no_marks() -> None:
    assert not [text for text in texts(asked(request_of()).blocks) if "^" in text]


@pytest.mark.sample(2)
@pytest.mark.parametrize("length", [2799, 2800, 2801, 60_000])
def test_a_command_is_whole_up_to_2800_characters(length: int) -> None:
    command = ("echo " + "x" * length)[:length]
    request = request_of(command)
    for attachment in (Attachment.COMING, Attachment.FAILED):
        buttons = _buttons(asked(request, attachment if length > 2800 else Attachment.NONE))
        assert (message.APPROVE in buttons) == (length <= 2800)
    made = asked(request)
    assert (command in list(texts(made.blocks))) == (length <= 2800)
    assert message.APPROVE in _buttons(made)
    assert (f"{length} characters, sha256 " in "\n".join(texts(made.blocks))) == (length > 2800)


def test_a_long_command_shows_its_beginning_and_its_end() -> None:
    shown = "\n".join(texts(asked(request_of(LONG)).blocks))
    assert LONG[:1000] in shown
    assert LONG.rstrip("\n")[-600:] in shown


def test_a_command_whose_input_is_not_known_is_not_approved() -> None:
    buttons = _buttons(asked(request_of(body={"stdin": "f" * 64})))
    assert message.APPROVE not in buttons
    assert message.EDIT not in buttons
    assert message.REJECT in buttons


def test_what_chat_may_not_answer_has_no_buttons() -> None:
    rule = ApprovalRule("default", ("alice",), min_assurance="login", steps=(Step("slack"),))
    made = asked(request_of(rule=rule))
    assert _buttons(made) == {}
    assert "Too severe to be answered in a chat" in "\n".join(texts(made.blocks))


@pytest.mark.parametrize(
    ("command", "offered"),
    [("ls", True), ("x" * 3000, True), ("x" * 3001, False), ("a\x1bb", False), (" ls", False), ("a\u200bb", False)],
)
def test_what_a_form_can_hold_can_be_edited(command: str, offered: bool) -> None:
    assert (message.EDIT in _buttons(asked(request_of(command)))) == offered


def test_escalate_is_offered_where_somebody_is_further() -> None:
    assert message.ESCALATE in _buttons(asked(request_of()))
    assert message.ESCALATE not in _buttons(asked(request_of(escalated=2)))


def test_secrets_are_not_sent_to_slack() -> None:
    command = "mysql -uroot -pHunter2Hunter2 db"
    request = request_of(command, state="superseded", edited=command + "x", comment=f"no: {command}", decided=2_000)
    for made in (asked(request), message.decided(Outcome(request, by="alice"), message.shown(request))):
        assert "Hunter2" not in json.dumps(made.blocks)
        assert "Hunter2" not in made.text
    assert message.EDIT not in _buttons(asked(request))


def test_the_hash_of_a_long_command_is_that_of_the_file() -> None:
    request = request_of(LONG)
    digest = hashlib.sha256(message.shown(request).whole.encode()).hexdigest()
    assert f"sha256 {digest}" in "\n".join(texts(asked(request).blocks))


def test_all_buttons_have_the_value_that_was_given() -> None:
    request = request_of()
    made = message.asking(Outcome(request), message.shown(request, "id|seal"), Attachment.NONE, [], now=0)
    assert {button["value"] for button in _buttons(made).values()} == {"id|seal"}


def test_votes_so_far_are_told() -> None:
    request = request_of()
    votes = (Vote(request.id, "approve", None, "", "1", "", "click", 1),)  # type: ignore[arg-type]
    what = message.shown(request)
    made = message.asking(Outcome(request, votes, missing=1), what, Attachment.NONE, [], now=0)
    assert "1 more must approve; 1 have." in "\n".join(texts(made.blocks))


def _buttons(made: message.Message) -> dict[str, Any]:
    return {
        element["action_id"]: element
        for block in made.blocks
        for element in block.get("elements", [])
        if element.get("type") == "button"
    }


def test_it_says_in_whose_place_somebody_answers() -> None:
    """However much else there is to say of where it is asked."""
    request = request_of()
    assert request.rule is not None
    rule = request.rule.with_stand_in(StandIn("alice", "bob", 1_798_070_400_000))
    made = asked(replace(request, rule=rule))
    check(made)
    assert "bob answers for alice, who is away until 2026-12-24 00:00 UTC" in texts(made.blocks)


def test_what_a_held_run_changed_is_shown_without_secrets_and_pings_nobody() -> None:
    made = asked(build_held())
    check(made)
    shown = "\n".join(texts(made.blocks))
    for part in ("It was run held: a yes applies exactly this", "changes src/b (4 to 9 bytes)", "+⟦erased⟧"):
        assert part in shown
    assert "ghp_0123456789" not in shown
    assert "!channel" not in "".join(fake.pings(made.blocks))
    assert '"Apply this"' in str(made.blocks).replace("'", '"')


def test_a_held_run_with_a_long_diff_fits() -> None:
    check(asked(build_held(diff="+line\n" * 9000, files=tuple(f"makes {n}{'x' * 150}" for n in range(200)))))
    check(asked(build_held("echo " + "\n" * 2700 + "x", diff="+\n" * 2000, files=("makes \t",) * 100)))


@pytest.mark.parametrize(
    "long", [{"diff": "+line\n" * 900}, {"files": tuple(f"makes {n}{'x' * 150}" for n in range(20))}]
)
def test_what_there_is_no_room_for_is_attached_before_a_yes_is_possible(long: dict[str, Any]) -> None:
    request = build_held(**long)
    what = message.shown(request)
    assert what.is_long
    assert not what.has_long_command
    for line in ("make clean", *long.get("diff", "").splitlines()[-1:], *long.get("files", ())):
        assert line in what.whole
    assert message.APPROVE not in _buttons(asked(request, Attachment.COMING))
    assert message.APPROVE not in _buttons(asked(request, Attachment.FAILED))
    assert message.APPROVE in _buttons(asked(request, Attachment.THERE))
    assert not message.shown(build_held()).is_long
