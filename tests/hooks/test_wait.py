"""`--ask wait`: the hook waits while a human answers elsewhere, and nothing is permitted once nobody waits for it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.testing.patience import until
from tests.hooks.conftest import Machine, Waiting, short_of_time
from tests.support.keys import make_key


def test_a_human_approves_at_another_terminal(ask: Callable[..., Waiting], person: Machine) -> None:
    one = ask("curl https://x.invalid/approved")
    request = one.request()
    person.approve(request.id)
    answered = one.answer()
    assert (answered.code, answered.verdict) == (0, "allow"), answered
    types = [entry.event["type"] for entry in one.store.events(request=request.id)]
    assert [t for t in types if t in ("request.approved", "permit.consumed")] == ["request.approved", "permit.consumed"]


def test_a_human_rejects(ask: Callable[..., Waiting]) -> None:
    one = ask("curl https://x.invalid/rejected")
    one.say("reject", comment="not today")
    answered = one.answer()
    assert answered.verdict == "deny"
    assert "not today" in answered.reason
    again = ask("curl https://x.invalid/rejected").answer()  # the same session: nobody is asked again
    assert again.verdict == "deny"


def test_what_a_grant_covers_is_asked_of_nobody_again(ask: Callable[..., Waiting]) -> None:
    one = ask("curl https://y.invalid/first", session="granted")
    one.say("approve", scope="run")
    assert one.answer().verdict == "allow"
    again = ask("curl https://y.invalid/second", session="granted").answer()
    assert again.verdict == "allow"
    assert f"allowed by grant {one.store.grants.given()[-1].id[:4]} by " in again.reason
    assert "(1 of 50)" in again.reason
    other = ask("curl https://z.invalid/other", session="granted")
    other.say("reject")
    assert other.answer().verdict == "deny"


def test_a_human_changes_the_command(ask: Callable[..., Waiting]) -> None:
    one = ask("curl https://x.invalid/edited")
    one.say("edit", edited="ls -la")
    answered = one.answer()
    assert answered.verdict == "allow"
    assert answered.json["hookSpecificOutput"]["updatedInput"] == {"command": "ls -la", "description": "why"}


def test_a_call_that_is_no_command_can_not_be_changed(ask: Callable[..., Waiting]) -> None:
    one = ask("/etc/hosts", tool="Write", name="file_path")
    one.say("edit", edited="ls -la")
    assert one.answer().verdict == "deny"


def test_an_approved_write_is_allowed(ask: Callable[..., Waiting]) -> None:
    one = ask("/etc/motd", tool="Write", name="file_path")
    one.say("approve")
    assert one.answer().verdict == "allow"


def test_a_signer_who_was_named_during_a_session_does_not_count_in_it(
    ask: Callable[..., Waiting], person: Machine, tmp_path: Path
) -> None:
    """Whoever can write the channels file could name a key of their own, and approve with it."""
    assert ask("ls", session="before").answer().verdict == "allow"
    channels = person.home / ".config/humanlayer-agent/channels.yaml"
    text, planted = channels.read_text(), make_key(tmp_path / "planted.key")
    assert "signers:\n" in text
    channels.write_text(text.replace("signers:\n", f'signers:\n  - "{planted.fingerprint}"\n'))
    try:
        for restarted in (False, True):
            if restarted:
                person.end()  # what the process that judges has in its memory is not what keeps it
            one = ask(f"curl https://x.invalid/planted-{restarted}", session="before")
            one.say("approve", signer=planted)
            answered = one.answer()
            assert answered.verdict == "deny"
            assert "0 approvals count" in answered.reason
        own = ask("curl https://x.invalid/own", session="before")
        own.say("approve")
        assert own.answer().verdict == "allow"
        new = ask("curl https://x.invalid/planted-before", session="after")
        new.say("approve", signer=planted)
        assert new.answer().verdict == "allow"  # the log names the new signer, and hla doctor shows it
    finally:
        channels.write_text(text)


def test_nobody_answers_in_time(ask: Callable[..., Waiting]) -> None:
    one = ask("curl https://x.invalid/late", program=short_of_time("claude-code"))
    answered = one.answer()
    assert (answered.code, answered.verdict) == (0, "deny")
    assert "nobody answered" in answered.reason


def test_a_hook_that_the_tool_has_killed_gets_nothing_approved(ask: Callable[..., Waiting]) -> None:
    one = ask("curl https://x.invalid/killed")
    request = one.request()
    one.process.kill()
    one.process.communicate()
    until(lambda: one.store.get(request.id).state != "pending", "that it is withdrawn")  # type: ignore[union-attr]
    assert one.store.get(request.id).state == "withdrawn"  # type: ignore[union-attr]


@pytest.mark.long
def test_a_crash_while_a_human_is_asked(ask: Callable[..., Waiting], person: Machine) -> None:
    """The process that judges is killed: the hook asks once more, and when that dies as well it gives up."""
    one = ask("curl https://x.invalid/crash", "--deadline", "600")
    request = one.request()
    for before in range(3):
        # Not sooner: a process that is killed before it has heard of the question is no try. But a question that waits
        # to be heard by one that is being killed is: then fewer kills are enough.
        until(
            lambda before=before: (
                len(list(one.store.events(request=request.id, type="request.adopted"))) >= before
                or one.process.poll() is not None
            ),
            "that another process has heard of it",
        )
        person.end()
    assert one.answer().code == 2


def test_the_end_of_the_session(ask: Callable[..., Waiting]) -> None:
    one = ask("curl https://x.invalid/stop")
    one.say("terminate")
    answered = one.answer()
    assert answered.verdict == "deny"
    assert answered.json["continue"] is False
    assert ask("ls").answer().verdict == "deny"  # nothing of this session runs any more
