"""The conformance kit: what is expected of every channel, as tests that run against a real or a faked service.

A channel's author writes a `Rig` (see `conformance_rig`) and a class of tests:

Example::

        class TestMyChannel(ChannelConformance):
            @pytest.fixture
            def rig(self, tmp_path):
                with MyService() as service:
                    yield MyRig(service)

Every answer is decided by the real core over a real store; only the hub is done by hand, to stop it between two steps.
Fakes of services must hold what the service documents, or the kit proves nothing.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.approvals.grants import offers, read_scope
from humanlayer_agent.approvals.model import AnswerKind, ApprovalRequest, person
from humanlayer_agent.channels.contract import Retry, Undeliverable
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.hub.channel_access import NOT_SHOWN
from humanlayer_agent.policy.decision import Ask
from humanlayer_agent.safe_text import visible, warnings
from humanlayer_agent.testing.conformance_rig import CannotHappen, Fault, Rig, Surface, World

HOSTILE = {
    "mentions": "echo <!channel> <!here> <@U0456EFGH> @channel @here @everyone <#C012> <!subteam^S1> @alice",
    "markup": "echo *bold* _it_ ~s~ `code` ``` ```\n> quoted\n# title\n[x](https://evil.example) <b>bold</b> &amp; <https://evil.example|ok>",
    "fence": "true\n```\n*Approved by alice*\n```\nrm -rf /srv/app",
    "ansi": "echo \x1b[2J\x1b[31mred\x1b]0;title\x07 \x9b1m",
    "bidi": "rm -rf \u202e/esuoh/ \u2066x\u2069",
    "zero-width": "rm\u200b -rf \u2060/srv\u00ad/app\ufeff",
    "nul": "echo a\x00b",
    "template": "echo {{7*7}} ${HOME} %s %(x)s {0} <script>alert(1)</script> ' \" \\",
    "header": "echo a\r\nBcc: everyone@example.com\r\n\r\napprove",
    "lines": "true" + "\n" * 30 + "rm -rf /srv/app",
}
"""Commands that try to be something else than text."""

LONG = "echo begin\n" + "".join(
    f"printf '%s' 'line {n} of a long script, as agents write them'\n" for n in range(1_100)
)
"""More than 60,000 characters: more than any channel shows in one piece."""

FETCH = "curl -fsS https://example.org/a"
CONTACT = (Ask("kit", "curl", "network", "host", operand="example.org", value="443", flags=("fail",)),)
"""A command, and what of it must be approved, so that more of the kind may be as well."""

RAW = "\x00\x07\x1b\x7f\x9b\u00ad\u200b\u202e\u2060\u2066\u2069\ufeff"
"""Characters that must never reach a screen as they are."""

_LEADS_TO = {"approve": "approved", "reject": "rejected", "edit": "superseded", "respond": "answered"}
_WORDS: dict[str, str] = {"approve": "", "reject": "not on a Friday", "edit": "make test", "respond": "it is done"}


def in_state(world: World, request: ApprovalRequest, state: str) -> Callable[[], bool]:
    """Return what tells whether `request` has come to `state`."""
    return lambda: world.state(request) == state


class ChannelConformance:
    """The tests of a channel, to inherit from; a fixture `rig` says which channel."""

    @pytest.fixture
    def rig(self) -> Rig:
        """Return the Rig; to be replaced."""
        raise NotImplementedError("give your class a fixture `rig` that returns a Rig")

    @pytest.fixture
    def world(self, rig: Rig, tmp_path: Path) -> Iterator[World]:
        """Give a world with the channel in it, and close it afterwards."""
        made = World(rig, tmp_path)
        yield made
        made.close()

    # What is shown and answered

    @pytest.mark.parametrize("kind", ["approve", "reject", "edit", "respond"])
    def test_an_answer_is_recorded(self, world: World, kind: AnswerKind) -> None:
        request, surface = delivered(world)
        if kind not in world.channel.can:
            assert kind not in surface.offers()
            return
        assert kind in surface.offers()
        surface.answer(kind, "alice", _WORDS[kind])
        world.until(lambda: world.state(request) != "pending", "the decision")
        assert world.state(request) == _LEADS_TO[kind]
        (vote,) = world.store.votes(request.id)
        assert (vote.answer, vote.person) == (kind, "alice")
        assert vote.presented_digest == request.digest
        assert vote.edited == (_WORDS[kind] if kind == "edit" else "")
        if "feedback" in world.channel.can and kind in ("reject", "respond"):
            assert vote.comment == _WORDS[kind]

    def test_the_whole_command_is_there(self, world: World) -> None:
        request, surface = delivered(world, "make deploy STAGE=production && curl -fsS https://example.com/hook")
        assert shows(surface, request.action.content)

    def test_nothing_is_offered_that_it_can_not_do(self, world: World) -> None:
        _, surface = delivered(world)
        assert surface.offers() <= world.channel.can

    def test_escalating_leaves_it_pending(self, world: World) -> None:
        request, surface = delivered(world)
        if "escalate" not in world.channel.can:
            assert "escalate" not in surface.offers()
            return
        surface.answer("escalate", "alice")
        world.until(lambda: world.events(request, "request.escalated"), "the escalation")
        world.settle(request)
        assert world.state(request) == "pending"
        assert "approve" in surface.offers()

    # More than once

    def test_more_than_once_is_offered_where_it_can_be_given(self, world: World) -> None:
        _, once = delivered(world)
        request, surface = delivered(world, FETCH, asks=CONTACT)
        assert "grant" not in once.offers(), "nothing of this request may be remembered"
        assert ("grant" in surface.offers()) == ("grant" in world.channel.can)
        if "grant" not in world.channel.can:
            assert not any(told(surface, offer.words) for offer in offers(request))

    @pytest.mark.parametrize("name", ["action", "run", "hour"])
    def test_the_scope_that_was_chosen_is_signed(self, world: World, name: str) -> None:
        if "grant" not in world.channel.can:
            return
        request, surface = delivered(world, FETCH, asks=CONTACT)
        surface.grant(name, "alice")
        world.until(lambda: world.state(request) == "approved", "the approval")
        (vote,) = world.store.votes(request.id)
        (chosen,) = [offer for offer in offers(request) if offer.name == name]
        assert (vote.answer, vote.person, vote.presented_digest) == ("approve", "alice", request.digest)
        assert read_scope(vote.scope) == replace(chosen.scope, until=vote.at + chosen.age)
        grant = world.store.grants.get(request.id)
        assert grant is not None
        assert (grant.state(vote.at), grant.by) == ("active", ("alice",))
        world.settle(request)
        assert told(surface, chosen.words), "it says what was remembered"
        assert not surface.offers()

    def test_one_grant_handed_over_twice_counts_once(self, world: World) -> None:
        if "grant" not in world.channel.can:
            return
        request, surface = delivered(world, FETCH, asks=CONTACT)
        surface.grant("run", "alice")
        world.until_answered(1)
        with suppress(CannotHappen):
            surface.repeat()
            world.until_answered(2)
            assert world.answered[1].outcome in ("duplicate", "late")
        assert len(world.store.votes(request.id)) == 1
        assert len(world.events(request, "grant.given")) == 1

    def test_an_approval_of_this_once_lets_nothing_more_be_done(self, world: World) -> None:
        request, surface = delivered(world, FETCH, asks=CONTACT)
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval")
        assert world.store.votes(request.id)[0].scope == ""
        assert world.store.grants.get(request.id) is None

    @pytest.mark.parametrize("settled", [True, False], ids=["settled", "not yet settled"])
    def test_a_late_grant_gives_nothing(self, world: World, settled: bool) -> None:
        if "grant" not in world.channel.can:
            return
        request, surface = delivered(world, FETCH, asks=CONTACT)
        world.decide_elsewhere(request, "reject", "bob" if "bob" in world.rig.people else "alice")
        if settled:
            world.settle(request)
            assert "grant" not in surface.offers()
        with suppress(CannotHappen):
            surface.grant("run", "alice")
            world.until(lambda: len(said(world, request)) >= 2, "the late answer in the log")
            world.until(lambda: world.rig.told("alice"), "that alice is told")
        assert world.state(request) == "rejected"
        assert world.store.grants.get(request.id) is None

    def test_a_scope_that_is_not_offered_gives_nothing(self, world: World) -> None:
        if "grant" not in world.channel.can:
            return
        request, surface = delivered(world, FETCH, asks=CONTACT)
        assert "any" not in {offer.name for offer in offers(request)}
        with suppress(CannotHappen):
            surface.grant("any", "alice")
            world.until(lambda: world.events(request, "vote.refused"), "the refusal in the log")
        assert world.state(request) == "pending"
        assert not world.store.votes(request.id)
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval of this once")
        assert world.store.grants.get(request.id) is None

    def test_a_grant_of_something_else_than_what_is_shown_gives_nothing(self, world: World) -> None:
        """The place where it is shown is written down with another digest than the request has."""
        if "grant" not in world.channel.can:
            return
        request = world.ask(FETCH, asks=CONTACT)
        world.write_down(request, replace(world.send(request), presented_digest="0" * 64))
        with suppress(CannotHappen):
            world.surface(request).grant("run", "alice")
            world.until(lambda: world.events(request, "vote.refused"), "the refusal in the log")
        assert world.state(request) == "pending"
        assert not world.store.votes(request.id)

    def test_a_stranger_grants_nothing(self, world: World) -> None:
        if "grant" not in world.channel.can or "stranger" not in world.rig.people:
            return
        request, surface = delivered(world, FETCH, asks=CONTACT)
        with suppress(CannotHappen):
            surface.grant("run", "stranger")
        world.until(lambda: world.events(request, "vote.refused"), "the refusal in the log")
        assert world.state(request) == "pending"
        assert not world.store.votes(request.id)

    @pytest.mark.parametrize("both", [True, False], ids=["both", "one of two"])
    def test_two_people_give_what_both_give(self, world: World, both: bool) -> None:
        if "grant" not in world.channel.can or "bob" not in world.rig.people:
            return
        request, surface = delivered(world, FETCH, route="two", asks=CONTACT)
        surface.grant("hour", "alice")
        world.until_answered(1)
        world.settle(request)
        assert world.state(request) == "pending"
        if both:
            surface.grant("run", "bob")
        else:
            surface.answer("approve", "bob")
        world.until(lambda: world.state(request) == "approved", "the second approval")
        grant = world.store.grants.get(request.id)
        assert (grant is not None) == both
        if grant is not None:
            assert {scope.run for scope in grant.scopes} == {"", "run-1"}

    # Twice

    def test_delivered_twice_it_is_decided_once(self, world: World) -> None:
        request = world.ask()
        world.deliver(request)
        world.deliver(request)
        world.surface(request).answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval")
        world.settle(request)
        for each in world.rig.surfaces(request.id):
            assert not each.offers()
        assert len(world.store.votes(request.id)) == 1

    def test_settled_twice_it_looks_the_same(self, world: World) -> None:
        request, surface = delivered(world)
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval")
        world.settle(request)
        once = surface.text()
        world.settle(request)
        assert surface.text() == once
        assert named(world, "alice", once)
        assert not surface.offers()

    def test_it_is_settled_before_anything_has_changed(self, world: World) -> None:
        request, surface = delivered(world)
        offers = surface.offers()
        world.settle(request)
        assert surface.offers() == offers
        assert shows(surface, request.action.content)

    def test_one_answer_handed_over_twice_counts_once(self, world: World) -> None:
        request, surface = delivered(world)
        surface.answer("approve", "alice")
        world.until_answered(1)
        with suppress(CannotHappen):
            surface.repeat()
            world.until_answered(2)
            assert world.answered[1].outcome in ("duplicate", "late")
        assert world.state(request) == "approved"
        assert len(world.store.votes(request.id)) == 1

    def test_a_double_click_counts_once(self, world: World) -> None:
        request, surface = delivered(world)
        surface.answer("approve", "alice")
        with suppress(CannotHappen):
            surface.answer("approve", "alice")
            world.until(lambda: len(said(world, request)) >= 2, "both answers in the log")
        world.until(lambda: world.state(request) == "approved", "the approval")
        assert len(world.store.votes(request.id)) == 1

    def test_two_people_at_once(self, world: World) -> None:
        if "bob" not in world.rig.people:
            return
        request, surface = delivered(world)

        def answer(kind: AnswerKind, who: str, words: str = "") -> None:
            with suppress(CannotHappen):  # the other was so much faster that nothing can be answered any more
                surface.answer(kind, who, words)

        threads = [
            threading.Thread(target=answer, args=("approve", "alice")),
            threading.Thread(target=answer, args=("reject", "bob", "no")),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        world.until(lambda: len(said(world, request)) >= 2, "both answers in the log")
        (vote,) = world.store.votes(request.id)
        assert world.state(request) == _LEADS_TO[vote.answer]
        assert len(world.events(request, "vote.late")) == 1

    def test_it_says_how_many_are_missing(self, world: World) -> None:
        if "bob" not in world.rig.people:
            return
        request, surface = delivered(world, route="two")
        surface.answer("approve", "alice")
        world.until_answered(1)
        world.settle(request)
        assert world.state(request) == "pending"
        assert "approve" in surface.offers()
        surface.answer("approve", "bob")
        world.until(lambda: world.state(request) == "approved", "the second approval")
        world.settle(request)
        assert not surface.offers()

    # Late, and by strangers

    @pytest.mark.parametrize("settled", [True, False], ids=["settled", "not yet settled"])
    def test_a_late_answer_changes_nothing(self, world: World, settled: bool) -> None:
        request, surface = delivered(world)
        world.decide_elsewhere(request, "reject", "bob" if "bob" in world.rig.people else "alice")
        if settled:
            world.settle(request)
            assert not surface.offers()
        try:
            surface.answer("approve", "alice")
        except CannotHappen:
            return
        world.until(lambda: len(said(world, request)) >= 2, "the late answer in the log")
        assert world.state(request) == "rejected"
        assert len(world.store.votes(request.id)) == 1
        world.until(lambda: world.rig.told("alice"), "that alice is told")

    def test_an_answer_after_expiry_changes_nothing(self, world: World) -> None:
        request, surface = delivered(world)
        world.store.expire(request.id)
        with suppress(CannotHappen):
            surface.answer("approve", "alice")
            world.until(lambda: said(world, request), "the late answer in the log")
        world.settle(request)
        assert world.state(request) == "expired"
        assert not world.store.votes(request.id)
        assert not surface.offers()

    def test_a_stranger_changes_nothing(self, world: World) -> None:
        if "stranger" not in world.rig.people:
            return
        request, surface = delivered(world)
        before = surface.text()
        surface.answer("approve", "stranger")
        world.until(lambda: world.events(request, "vote.refused"), "the refusal in the log")
        world.until(lambda: world.rig.told("stranger"), "that the stranger is told")
        assert world.state(request) == "pending"
        assert surface.text() == before
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval of one who may")

    def test_a_strangers_words_are_not_shown_to_others(self, world: World) -> None:
        if "stranger" not in world.rig.people or "reject" not in world.channel.can:
            return
        request, surface = delivered(world)
        try:
            surface.answer("reject", "stranger", "SECRET WORDS")
        except CannotHappen:
            return
        world.until(lambda: world.events(request, "vote.refused"), "the refusal in the log")
        world.settle(request)
        assert "SECRET WORDS" not in surface.text()

    # Long and hostile commands

    def test_a_long_command_is_whole_or_not_approvable(self, world: World) -> None:
        assert len(LONG) > 60_000
        request = world.ask(LONG, asks=CONTACT)
        try:
            ref = world.deliver(request)
        except Undeliverable:
            return
        surface = world.surface(request)
        if ref.complete:
            assert shows(surface, LONG)
            assert "approve" in surface.offers()
            return
        assert not {"approve", "grant"} & surface.offers()
        with suppress(CannotHappen):
            surface.answer("approve", "alice")
            world.until(lambda: said(world, request), "the refusal in the log")
            (refused,) = world.events(request, "vote.refused")
            assert refused.event["refusal"] == NOT_SHOWN
        assert world.state(request) == "pending"

    def test_a_hostile_command_is_only_text(self, world: World) -> None:
        harmless, plain = delivered(world, "make deploy")
        for name, command in HOSTILE.items():
            request = world.ask(command)
            ref = world.deliver(request)
            surface = world.surface(request)
            assert shows(surface, command) if ref.complete else "approve" not in surface.offers(), name
            assert not set(RAW) & set(surface.text()), name
            assert world.rig.pings(request.id) == world.rig.pings(harmless.id), name
            around(plain, surface, command)
            if "approve" in surface.offers():
                surface.answer("approve", "alice")
                world.until(in_state(world, request, "approved"), f"the approval of {name}")
                world.settle(request)
                assert not set(RAW) & set(surface.text()), name

    def test_hostile_context_is_only_text(self, world: World) -> None:
        harmless, _ = delivered(world, "make deploy")
        for name, command in HOSTILE.items():
            text = command.replace("\0", "")
            request, surface = delivered(world, "make deploy", model_intent=text, agent=text, cwd=f"/srv/{text}")
            assert not set(RAW) & set(surface.text()), name
            assert world.rig.pings(request.id) == world.rig.pings(harmless.id), name
            assert shows(surface, "make deploy"), name

    def test_hostile_words_of_an_approver_are_only_text(self, world: World) -> None:
        if not {"reject", "feedback"} <= world.channel.can:
            return
        for name, words in HOSTILE.items():
            request, surface = delivered(world)
            notified = list(world.rig.pings(request.id))
            surface.answer("reject", "alice", words)
            world.until(in_state(world, request, "rejected"), f"the rejection with {name}")
            world.settle(request)
            assert not set(RAW) & set(surface.text()), name
            assert list(world.rig.pings(request.id)) == notified, name

    # A process that dies between two steps

    def test_dying_before_the_delivery_is_written_down(self, world: World) -> None:
        request = world.ask()
        world.send(request)
        lost = world.surface(request)
        world.restart(close=False)
        finds = getattr(world.channel, "find", None)
        known = list(finds(request)) if finds is not None else []
        for ref in known:
            world.write_down(request, ref)
        world.deliver(request)
        assert world.rig.surfaces(request.id), "it is delivered again, or is still there"
        world.rig.surfaces(request.id)[-1].answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval")
        world.settle(request)
        if finds is not None:
            assert known, "what was delivered is found"
            assert not lost.offers()
        with suppress(CannotHappen):
            lost.answer("reject", "alice")
        assert not world.rig.surfaces(request.id)[-1].offers()
        assert len(world.store.votes(request.id)) == 1

    def test_dying_before_an_answer_is_acknowledged(self, world: World) -> None:
        request, surface = delivered(world)
        world.after_decide = _die
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval")
        world.after_decide = lambda: None
        world.restart()
        with suppress(CannotHappen):
            surface.answer("approve", "alice")
        world.settle(request)
        assert world.state(request) == "approved"
        assert len(world.store.votes(request.id)) == 1
        assert not surface.offers()

    def test_dying_before_settling_is_written_down(self, world: World) -> None:
        request, surface = delivered(world)
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval")
        world.settle(request)
        once = surface.text()
        world.restart()
        world.settle(request)
        assert surface.text() == once
        assert not surface.offers()

    def test_another_process_settles_what_one_has_delivered(self, world: World) -> None:
        request, surface = delivered(world)
        world.restart()
        world.decide_elsewhere(request)
        world.settle(request)
        assert not surface.offers()

    def test_another_process_collects_what_one_has_delivered(self, world: World) -> None:
        request, surface = delivered(world)
        world.restart()
        try:
            surface.answer("approve", "alice")
        except CannotHappen:
            return
        world.until(lambda: world.state(request) == "approved", "the approval")

    # A store or a service that fails

    def test_an_answer_that_can_not_be_recorded_can_be_given_again(self, world: World) -> None:
        request, surface = delivered(world)
        world.broken_store = True
        surface.answer("approve", "alice")
        world.until(lambda: world.unrecorded, "the answer that can't be recorded")
        assert world.state(request) == "pending"
        world.broken_store = False
        with suppress(CannotHappen):
            surface.answer("approve", "alice")
            world.until(lambda: world.state(request) == "approved", "the approval")
            assert len(world.store.votes(request.id)) == 1

    @pytest.mark.parametrize("fault", ["busy", "down", "gone"])
    def test_a_broken_service_is_told_of(self, world: World, fault: Fault) -> None:
        request, surface = delivered(world)
        other = world.ask("make other")
        try:
            with world.rig.broken(fault):
                health = world.channel.health()
                assert health.ok == (not health.problems)
                assert fault == "busy" or not health.ok
                assert all(problem.strip() for problem in health.problems)
                with pytest.raises(Undeliverable if fault == "gone" else Retry) as raised:
                    world.deliver(other)
                assert str(raised.value).strip()
                world.decide_elsewhere(request)
                with pytest.raises(ChannelError):
                    world.settle(request)
        except CannotHappen:
            return
        world.settle(request)
        assert not surface.offers()
        if fault != "gone":
            world.deliver(other)
            world.surface(other).answer("approve", "alice")
            world.until(lambda: world.state(other) == "approved", "an approval after the service was mended")

    def test_it_is_well(self, world: World) -> None:
        world.until(lambda: world.channel.health().ok, f"a channel that is well ({world.channel.health().problems})")

    # Reminding and closing

    def test_reminding_changes_no_answer(self, world: World) -> None:
        request, surface = delivered(world)
        outcome = world.desk().outcome(request.id)
        (ref,) = world.desk().shown(request.id)
        assert outcome is not None
        for level in (1, 2, 2):
            world.channel.remind(outcome, ref, level)
        assert "approve" in surface.offers()
        surface.answer("approve", "alice")
        world.until(lambda: world.state(request) == "approved", "the approval")

    def test_closing_while_answers_come_in_loses_none(self, world: World) -> None:
        """Each is recorded, or was not acknowledged: then the next process gets it, or the human gives it again."""
        asked = [delivered(world, f"make {n}") for n in range(5)]
        clicks = [threading.Thread(target=_press, args=(surface,)) for _, surface in asked]
        for click in clicks:
            click.start()
        world.channel.close()
        world.channel.close()
        for click in clicks:
            click.join()
        world.restart()
        for request, surface in asked:
            if world.state(request) == "pending":
                with suppress(CannotHappen):
                    surface.answer("approve", "alice")
                    world.until(in_state(world, request, "approved"), "the approval")
            assert len(world.store.votes(request.id)) <= 1

    def test_closing_before_anything_was_received(self, world: World) -> None:
        world.channel.close()
        world.channel.close()
        world.rig.channel().close()  # one that was never started


def delivered(world: World, command: str = "make deploy", **fields: Any) -> tuple[ApprovalRequest, Surface]:
    """Return a request that is shown, and the place where it is."""
    request = world.ask(command, **fields)
    world.deliver(request)
    return request, world.surface(request)


def shows(surface: Surface, command: str) -> bool:
    """Tell whether all of `command` can be read there, made safe; lines may be wrapped or indented."""
    have = "".join(surface.text().split())
    return "".join(visible(command).split()) in have


def told(surface: Surface, words: str) -> bool:
    """Tell whether these words can be read there; lines may be wrapped."""
    return "".join(words.split()) in "".join(surface.text().split())


def around(plain: Surface, hostile: Surface, command: str) -> None:
    """Assert that a command has changed nothing of what stands around it, except for warnings about it."""
    known = [line.strip() for line in plain.frame().splitlines() if line.strip()]
    found = [line.strip() for line in hostile.frame().splitlines() if line.strip()]
    said = "".join("".join(warnings(command)).split())
    extra = [line for line in found if line not in known]
    assert [line for line in known if line not in found] == []
    assert all("".join(line.lstrip("!\u26a0\ufe0f- ").split()) in said for line in extra), extra


def named(world: World, who: str, text: str) -> bool:
    """Tell whether `text` says who that was: by the id in the channels file, or the name of the OS user."""
    return who in text or person(world.rig.people[who]) in text


def said(world: World, request: ApprovalRequest) -> list[str]:
    """Return the types of events that the log has of answers to a request."""
    return [entry.event["type"] for entry in world.events(request, "vote")]


def _die() -> None:
    raise _Killed


def _press(surface: Surface) -> None:
    with suppress(CannotHappen):
        surface.answer("approve", "alice")


class _Killed(Exception):
    """Raised where the process is to die."""
