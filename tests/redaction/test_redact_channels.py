"""What is sent to a chat or by mail has no secret in it, and what is approved there is still the whole command."""

import json
from dataclasses import replace
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.audit.heads import Head, head_text, heads_in
from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.contract import Outcome
from humanlayer_agent.channels.mail.message import Letterhead, notice_message, request_message
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.channels.slack import message
from humanlayer_agent.channels.slack.channel import SlackChannel
from humanlayer_agent.channels.slack.seal import Seal
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.testing.approvers import POLICY_DIGEST
from tests.redaction.test_redaction import SECRET, WITH
from tests.support import extent
from tests.support.rows import for_each

LETTERHEAD = Letterhead("agents@hub.test", "agents@hub.test", "https://hub.test/inbox/", Tokens(bytes(range(32))))


def asked(command: str, **fields: Any) -> ApprovalRequest:
    action = Action(command, cwd="/srv", project="/srv", agent="a", model_intent=f"I run {command}")
    decision = PolicyDecision(
        Verdict.ASK, f"It would run {command}", "p", POLICY_DIGEST, rules=("r",), unresolved=(command,)
    )
    rule = ApprovalRule("default", ("alice",))
    digest = action.digest(POLICY_DIGEST)
    made = ApprovalRequest(
        "a1" * 16, "k", digest, action.body(POLICY_DIGEST), action, decision, "os:1:a", 1_000, 2_000, 3, rule=rule
    )
    return replace(made, **fields)


@pytest.mark.long
@for_each(("position", "template"), WITH)
def test_no_secret_is_in_a_chat(position: str, template: str) -> None:
    command = template.replace("SECRET", SECRET)
    snippet = "\n" + f"echo {'one of many words ' * 40}\n" * 6
    for more in ("", snippet) if extent.ALL else ("",):  # shown whole, and as a snippet
        request = asked(command + more)
        what = message.shown(request)
        assert what.is_long is bool(more)
        outcome = Outcome(request)
        sent = [message.asking(outcome, what, attachment, ["U1"], now=1_500) for attachment in message.Attachment]
        settled = replace(request, state="superseded", edited=f"x; {command}", comment=f"use {command}")
        sent.append(message.decided(Outcome(settled, by="alice"), message.shown(settled)))
        text = json.dumps([[each.text, each.blocks] for each in sent]) + what.whole
        assert SECRET not in text
        assert request.digest[:16] not in text  # a secret could be guessed by it
        assert not what.can_edit  # a form would have to hold it


@pytest.mark.long
@for_each(("position", "template"), WITH)
def test_no_secret_is_in_a_mail(position: str, template: str) -> None:
    request = asked(template.replace("SECRET", SECRET))
    mail, whole = request_message(request, present(request, redacted=True), "alice@example.com", LETTERHEAD)
    parts = [part.get_content() for part in mail.walk() if not part.is_multipart()]
    assert whole
    assert len(parts) == 2
    assert SECRET not in "".join(map(str, [*parts, *mail.values()]))
    assert request.digest[:16] not in mail.as_string()
    assert all("secrets are not shown here" in part for part in parts)


def test_a_command_without_secrets_is_sent_as_it_is() -> None:
    what = message.shown(asked("make deploy"))
    assert (what.command, what.can_edit) == ("make deploy", True)
    assert "secrets" not in str(what.view.warnings)


def test_a_mark_in_a_command_is_not_taken_for_a_secret_in_a_form() -> None:
    assert not message.shown(asked("echo ⟦erased⟧")).can_edit


def test_notices_carry_no_command() -> None:
    request = asked(f"mysql -p{SECRET}")
    mail = notice_message(request, "alice@example.com", LETTERHEAD, "It waits.", settled=False, comment="")
    assert SECRET not in mail.as_string()


def test_a_head_posted_to_a_chat_can_be_copied_from_it() -> None:
    posted: list[dict[str, Any]] = []

    class Api:
        socket_url = ""
        seal = Seal("xoxb-1")

        def call(self, method: str, **fields: Any) -> dict[str, Any]:
            posted.append(fields)
            return {}

    head = Head("5" * 32, 41, "a" * 64, 42, 1_700_000_000_000, "user", "b" * 64, "c" * 128)
    channel = SlackChannel("slack", Api(), "C1")  # type: ignore[arg-type]
    channel.post(head_text(head))
    (text,) = [part["text"] for block in posted[0]["blocks"] for rich in block["elements"] for part in rich["elements"]]
    assert heads_in(text) == [head]
