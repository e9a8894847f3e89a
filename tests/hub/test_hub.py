"""A hub in this process, over a real store and a board with humans."""

import threading
from dataclasses import replace

import pytest

from humanlayer_agent.approvals.authority import Step
from humanlayer_agent.approvals.model import Approver
from humanlayer_agent.approvals.store_interface import now_ms
from humanlayer_agent.channels.contract import Retry, Undeliverable
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.hub.hub import Hub, Task
from humanlayer_agent.keys.signing import process_signer
from humanlayer_agent.testing.approvers import ScriptedApprovers, answer
from humanlayer_agent.testing.patience import PATIENCE, until
from humanlayer_agent.testing.scripted_channel import Board, ScriptedChannel
from tests.hub.conftest import ALICE, BOB, EVE, team
from tests.support.forging import forging


def elsewhere(store, request, kind="approve", who=ALICE):
    given = answer(request, kind, approver=Approver(who, "elsewhere", "terminal"))
    return ScriptedApprovers(team(), process_signer()).decide(store, request.id, given)


def posted(board, request, number=0):
    until(lambda: len(board.messages(request.id)) > number, "the message")
    return board.messages(request.id)[number]


def shows(board, message, text):
    until(lambda: next(m for m in board.messages() if m["id"] == message["id"])["state"] == text, f"{text!r}")


def names(store, request):
    begun = ("decision.evaluated", "request.created")
    return [e.event["type"] for e in store.events(request=request.id) if e.event["type"] not in begun]


def test_from_a_request_to_a_settled_message(serve, store, board, ask):
    lines = []
    serve(say=lambda channel, line: lines.append((channel, line)))
    request = ask()
    message = posted(board, request)
    assert message["to"] == [ALICE, BOB]
    board.answer(message["id"], "approve", ALICE)
    shows(board, message, "approved by alice")
    (vote,) = store.votes(request.id)
    assert (vote.person, vote.presented_digest) == ("alice", request.digest)
    until(lambda: names(store, request)[-1] == "presentation.settled", "the last event")
    assert names(store, request) == [
        "presentation.delivered",
        "vote.recorded",
        "request.approved",
        "presentation.settled",
    ]
    short = request.id[:12]
    until(lambda: len(lines) == 4, "the last line, which is said when it is written down")
    assert lines == [
        ("board", "serving"),
        ("board", f"delivered {short} to alice, bob"),
        ("board", f"approve of {short} by alice"),
        ("board", f"settled {short}: approved by alice"),
    ]
    assert store.verify().intact


def test_what_is_decided_elsewhere_is_settled(serve, store, board, ask):
    serve()
    request = ask()
    message = posted(board, request)
    assert elsewhere(store, request, "reject").outcome == "recorded"
    shows(board, message, "rejected by alice")
    assert board.messages(request.id)[0]["offers"] == []


def test_votes_on_a_pending_request_are_shown(serve, store, board, ask):
    authority = team(quorum=2)
    serve(authority)
    request = ask(authority=authority)
    message = posted(board, request)
    board.answer(message["id"], "approve", ALICE)
    shows(board, message, "1 more approvals needed")
    board.answer(message["id"], "approve", BOB)
    shows(board, message, "approved by bob")


def test_an_approval_that_is_not_used_is_settled_again(serve, store, board, ask):
    serve()
    request = ask()
    message = posted(board, request)
    board.answer(message["id"], "approve", ALICE)
    shows(board, message, "approved by alice")
    store.close_run("run-1", "finished")
    until(lambda: store.get(request.id).state == "lapsed", "the end of the approval")
    shows(board, message, "lapsed by alice")


@pytest.mark.long
def test_an_expired_request_is_written_as_such_though_its_agent_is_gone(serve, store, board, ask, monkeypatch):
    late = [0]
    monkeypatch.setattr(store, "_clock", lambda: now_ms() + late[0])
    serve()
    request = ask()
    message = posted(board, request)
    late[0] = 600_000
    shows(board, message, "expired")
    assert store.get(request.id).state == "expired"


def test_a_stranger_is_refused_and_told(serve, store, board, ask):
    serve()
    request = ask()
    board.answer(posted(board, request)["id"], "approve", EVE)
    until(lambda: board.told(EVE), "that eve is told")
    assert store.get(request.id).state == "pending"
    (refused,) = store.events(request=request.id, type="vote.refused")
    assert refused.event["approver"]["principal"] == EVE
    assert refused.event["refusal"] == "unknown-identity"


# Routes and escalation


def two_boards(tmp_path):
    return {name: Board(tmp_path / name) for name in ("board", "second")}


def test_a_step_is_asked_when_it_is_due_and_not_before(serve, store, ask, tmp_path):
    boards = two_boards(tmp_path)
    authority = team(Step("board"), Step("second", 60_000, ("bob",)))
    serve(authority, channels=list(boards), build=lambda name: ScriptedChannel(boards[name], name))
    early, late = ask(authority=authority), ask("make other", authority=authority, age=61_000)
    message = posted(boards["second"], late)
    assert message["to"] == [BOB]
    posted(boards["board"], early)
    assert not boards["second"].messages(early.id)


def test_escalating_makes_the_next_step_due(serve, store, ask, tmp_path):
    boards = two_boards(tmp_path)
    authority = team(Step("board"), Step("second", 60_000))
    serve(authority, channels=list(boards), build=lambda name: ScriptedChannel(boards[name], name))
    request = ask(authority=authority)
    boards["board"].answer(posted(boards["board"], request)["id"], "escalate", ALICE)
    message = posted(boards["second"], request)
    boards["second"].answer(message["id"], "approve", BOB)
    shows(boards["second"], message, "approved by bob")
    shows(boards["board"], posted(boards["board"], request), "approved by bob")


@pytest.mark.parametrize("steps", [1, 2])
def test_what_can_not_be_delivered_makes_the_next_step_due(serve, store, ask, tmp_path, steps):
    boards = {name: Board(tmp_path / name) for name in ("board", "second", "third")}
    authority = team(Step("board"), Step("second", 60_000), Step("third", 120_000))
    channels = list(boards)
    made = {name: ScriptedChannel(boards[name], name) for name in channels}
    serve(authority, channels=channels, build=made.__getitem__)
    # A board that is gone would keep them from being started.
    until(lambda: all(channel._receiver for channel in made.values()), "the channels that are started")
    for name in channels[:steps]:
        boards[name].fault = "gone"
    request = ask(authority=authority)
    posted(boards[channels[steps]], request)
    assert [d.state for d in store.surfaces.deliveries(request.id)][:steps] == ["failed"] * steps
    failed = list(store.events(request=request.id, type="presentation.failed"))
    assert [f.event["why"] for f in failed] == ["the board is gone"] * steps


def test_a_bounce_makes_the_next_step_due(serve, store, ask, tmp_path):
    boards = two_boards(tmp_path)
    authority = team(Step("board"), Step("second", 60_000))
    made = {}

    def build(name):
        made[name] = ScriptedChannel(boards[name], name)
        return made[name]

    serve(authority, channels=list(boards), build=build)
    request = ask(authority=authority)
    posted(boards["board"], request)
    until(lambda: made["board"]._desk.shown(request.id), "the written delivery")
    made["board"]._desk.failed(request.id, "no such mailbox")
    posted(boards["second"], request)
    (delivery, _) = until(
        lambda: len(found := store.surfaces.deliveries(request.id)) == 2 and found, "the second delivery"
    )
    assert (delivery.state, delivery.why) == ("failed", "no such mailbox")


# Channels that fail


def test_a_busy_service_is_tried_again_until_it_works(serve, store, board, ask):
    board.fault = "busy"
    serve()
    request = ask()
    until(lambda: any(d.attempts >= 2 for d in store.surfaces.deliveries(request.id)), "a second attempt")
    (delivery,) = store.surfaces.deliveries(request.id)
    assert (delivery.state, delivery.why) == ("sending", "the board is busy")
    board.fault = ""
    posted(board, request)


def test_a_message_that_can_not_be_changed_is_changed_later(serve, store, board, ask):
    tried = []

    class Watched(ScriptedChannel):
        def settle(self, outcome, ref):
            tried.append(outcome)
            super().settle(outcome, ref)

    serve(build=lambda name: Watched(board, name))
    request = ask()
    message = posted(board, request)
    until(lambda: store.surfaces.presentations(request_id=request.id), "the written delivery")
    board.fault = "down"
    elsewhere(store, request)
    until(lambda: len(tried) > 1, "two attempts")
    assert board.messages(request.id)[0]["state"] == ""
    board.fault = ""
    shows(board, message, "approved by alice")


def test_a_message_that_is_gone_is_left_alone(serve, store, board, ask):
    class Deleted(ScriptedChannel):
        def settle(self, outcome, ref):
            raise Undeliverable("the message was deleted")

    serve(build=lambda name: Deleted(board, name))
    request = ask()
    posted(board, request)
    elsewhere(store, request)
    (failed,) = until(lambda: list(store.events(request=request.id, type="presentation.failed")), "the event")
    assert failed.event["why"] == "the message was deleted"
    assert store.surfaces.open_presentations("board") == []


def test_a_channel_that_fails_in_its_own_way_is_given_up_at_last(store, board, ask):
    """An exception that nobody thought of is no reason to try for ever."""
    from humanlayer_agent.hub.outbox import Outbox
    from humanlayer_agent.hub.sender import ATTEMPTS, Sender

    class Broken(ScriptedChannel):
        def deliver(self, request, audience):
            raise KeyError("ts")

    moment = [0]
    clock = lambda: store.get(request.id).created + moment[0]  # noqa: E731
    request = ask()
    outbox = Outbox(store, "board", team(), clock=clock)
    sender = Sender(store, Broken(board), team(), stopping=threading.Event(), clock=clock)
    for n in range(ATTEMPTS):
        (job,) = outbox.due()
        assert not sender.do(job)
        assert outbox.due() == [], f"it waits after attempt {n + 1}"
        moment[0] += 60_000
    assert outbox.due() == []
    (delivery,) = store.surfaces.deliveries(request.id)
    assert (delivery.state, delivery.why, delivery.attempts) == ("failed", "KeyError: 'ts'", ATTEMPTS)


def test_a_service_that_says_when_is_left_in_peace_until_then(store, board, ask):
    from humanlayer_agent.hub.outbox import Outbox
    from humanlayer_agent.hub.sender import Sender

    class Limited(ScriptedChannel):
        def deliver(self, request, audience):
            raise Retry("ratelimited", after=30.0)

    moment, waited = [100.0], []

    class Waiting(threading.Event):
        def wait(self, timeout=None):
            waited.append(timeout)
            moment[0] += timeout
            return False

    first, second = ask(), ask("make other")
    clock = {"clock": lambda: 5_000, "monotonic": lambda: moment[0]}
    sender = Sender(store, Limited(board), team(), stopping=Waiting(), **clock)
    one, two = Outbox(store, "board", team()).due()
    sender.do(one)
    sender.do(two)
    assert waited == [30.0]
    for each in (first, second):
        (delivery,) = store.surfaces.deliveries(each.id)
        assert delivery.retry_at == 35_000


def test_the_pace_of_a_channel_is_kept(store, board, ask):
    from humanlayer_agent.hub.outbox import Outbox
    from humanlayer_agent.hub.sender import Sender

    moment, waited = [100.0], []

    class Waiting(threading.Event):
        def wait(self, timeout=None):
            waited.append(timeout)
            moment[0] += timeout
            return False

    for n in range(4):
        ask(f"make {n}")
    channel = ScriptedChannel(board, pace=1.0)
    sender = Sender(store, channel, team(), stopping=Waiting(), monotonic=lambda: moment[0])
    for job in Outbox(store, "board", team()).due():
        sender.do(job)
    assert waited == [1.0, 1.0, 1.0]


def test_a_channel_that_can_not_start_is_reported_and_tried_again(serve, store, board, ask):
    board.fault = "gone"
    hub = serve()
    (failed,) = until(lambda: list(store.events(type="channel.failed")), "the event")
    assert failed.event["why"] == "the board is gone: make another one"
    until(lambda: not hub.health()["board"].ok and not hub.serving, "that it is not served")
    board.fault = ""
    request = ask()
    posted(board, request)


def test_one_channel_that_fails_leaves_the_others_alone(serve, store, ask, tmp_path):
    boards = two_boards(tmp_path)
    boards["board"].fault = "gone"
    authority = team(Step("board"), Step("second", 0))
    serve(authority, channels=list(boards), build=lambda name: ScriptedChannel(boards[name], name))
    request = ask(authority=authority)
    message = posted(boards["second"], request)
    boards["second"].answer(message["id"], "approve", ALICE)
    shows(boards["second"], message, "approved by alice")


def test_a_route_that_this_process_does_not_know_is_not_delivered(serve, store, board, ask):
    serve(team())
    known = ask()
    posted(board, known)
    odd = replace(team().routes["default"], name="odd")
    strange = ask("make odd", authority=team())
    assert odd.name not in team().routes
    posted(board, strange)


# Reminders


def test_people_are_reminded(serve, store, board, ask):
    serve()
    request = ask(ttl=600_000, age=310_000)
    message = posted(board, request)
    until(lambda: board.pings(request.id) == [ALICE, BOB], "pings of both")
    posted(board, ask("make other"))  # it has looked at everything again meanwhile
    assert board.pings(request.id) == [ALICE, BOB], "not at once: it has only just been shown"
    assert message["offers"]


def test_a_reminder_is_sent_once_a_level(store, board, ask):
    from humanlayer_agent.hub.outbox import Outbox, Remind
    from humanlayer_agent.hub.sender import Sender

    moment = [0]
    request = ask(ttl=600_000)
    clock = lambda: request.created + moment[0]  # noqa: E731
    channel = ScriptedChannel(board)
    outbox = Outbox(store, "board", team(), clock=clock)
    sender = Sender(store, channel, team(), stopping=threading.Event(), clock=clock)

    def go():
        jobs = outbox.due()
        for job in jobs:
            sender.do(job)
        return [job.level for job in jobs if isinstance(job, Remind)]

    levels = []
    for ms in (0, 200_000, 305_000, 310_000, 500_000, 510_000, 590_000):
        moment[0] = ms
        levels += go()
    assert levels == [1, 2]
    assert len(board.pings(request.id)) == 6
    assert len(list(store.events(request=request.id, type="presentation.reminded"))) == 2


# Several hubs


def test_two_hubs_deliver_once(serve, store, board, ask):
    first, second = serve(), serve()
    requests = [ask(f"make {n}") for n in range(10)]
    for request in requests:
        posted(board, request)
    assert len(board.messages()) == 10
    assert sorted(map(len, (first.serving, second.serving))) == [0, 1]
    assert all(hub.health()["board"].ok for hub in (first, second))


def test_another_takes_over_from_one_that_is_closed(serve, store, board, ask):
    first = serve()
    until(lambda: first.serving, "the first hub")
    second = serve()
    request = ask()
    message = posted(board, request)
    first.close(PATIENCE)
    until(lambda: second.serving, "the second hub")
    board.answer(message["id"], "approve", ALICE)
    shows(board, message, "approved by alice")
    assert len(board.messages()) == 1
    taken = [e.event["channel"] for e in store.events(type="lease.taken")]
    assert taken == ["board", "board"]


def test_closing_settles_what_is_left(serve, store, board, ask):
    hub = serve()
    request = ask()
    message = posted(board, request)
    until(lambda: store.surfaces.presentations(request_id=request.id), "the written delivery")
    elsewhere(store, request)
    hub.close(PATIENCE)
    assert next(m for m in board.messages() if m["id"] == message["id"])["state"] == "approved by alice"


def test_closing_twice_and_before_it_was_started(store, board):
    hub = Hub(store, ["board"], lambda name: ScriptedChannel(board, name), team(), process_signer())
    hub.close()
    hub.start()
    hub.close()
    assert hub.serving == ()


# Tasks


def test_a_task_is_done_by_one_hub(serve, store):
    done = []
    for name in ("first", "second"):
        serve(channels=[], tasks=[Task("heads", 0.1, lambda name=name: done.append(name))])
    until(lambda: len(done) > 5, "some runs")
    assert len(set(done)) == 1


def test_a_task_that_fails_is_told_of_and_goes_on(serve, store):
    lines, runs = [], []

    def broken():
        runs.append(1)
        raise ValueError("no")

    serve(channels=[], tasks=[Task("broken", 0.1, broken)], say=lambda *line: lines.append(line))
    until(lambda: len(runs) > 2, "more runs")
    assert ("broken", "failed: ValueError: no") in lines


# What somebody with a database program, or a channel with a mistake, can do


def test_a_request_that_was_altered_keeps_nobody_else_waiting(serve, store, board, ask, tmp_path):
    import sqlite3

    shown, hidden = ask("make shown"), ask("make hidden")
    hub = serve()
    posted(board, shown)
    posted(board, hidden)
    with forging(tmp_path / "store.sqlite3") as db:
        db.execute("UPDATE request SET action = '[]', decision = '7' WHERE id = ?", (shown.id,))
    board.answer(posted(board, shown)["id"], "approve", ALICE)
    other = ask("make other")
    message = posted(board, other)
    board.answer(message["id"], "approve", ALICE)
    shows(board, message, "approved by alice")
    assert hub.serving == ("board",)
    with sqlite3.connect(tmp_path / "store.sqlite3") as db:
        assert db.execute("SELECT state FROM request WHERE id = ?", (shown.id,)).fetchone() == ("pending",)


def test_a_step_whose_people_may_not_answer_is_passed_over(serve, store, ask, tmp_path):
    boards = two_boards(tmp_path)
    steps = (Step("board", 0, ("starter",)), Step("second", 60_000))
    rule = replace(team().routes["default"], approvers=("alice", "bob", "starter"), steps=steps)
    authority = replace(team(), routes={"default": rule})
    serve(authority, channels=list(boards), build=lambda name: ScriptedChannel(boards[name], name))
    request = ask(authority=authority)
    posted(boards["second"], request)
    assert not boards["board"].messages(request.id)
    (first, _) = until(lambda: len(found := store.surfaces.deliveries(request.id)) == 2 and found, "both")
    assert first.why == "nobody of this step may answer"


def test_a_message_that_is_deleted_while_it_waits_makes_the_next_step_due(serve, store, ask, tmp_path):
    boards = two_boards(tmp_path)

    class Deleted(ScriptedChannel):
        def settle(self, outcome, ref):
            raise Undeliverable("the message was deleted")

    authority = team(Step("board"), Step("second", 60_000), quorum=2)
    kinds = {"board": Deleted, "second": ScriptedChannel}
    serve(authority, channels=list(boards), build=lambda name: kinds[name](boards[name], name))
    request = ask(authority=authority)
    boards["board"].answer(posted(boards["board"], request)["id"], "approve", ALICE)
    posted(boards["second"], request)


@pytest.mark.parametrize("mistake", ["no JSON", "another request"])
def test_a_channel_that_says_nonsense_is_not_believed(store, board, ask, mistake):
    from humanlayer_agent.channels.contract import Ref
    from humanlayer_agent.hub.outbox import Outbox
    from humanlayer_agent.hub.sender import Sender

    class Confused(ScriptedChannel):
        def deliver(self, request, audience):
            where = {"at": object()} if mistake == "no JSON" else {"at": "1"}
            return Ref(where, "e" * 64 if mistake == "another request" else request.digest)

    request = ask()
    sender = Sender(store, Confused(board), team(), stopping=threading.Event())
    (job,) = Outbox(store, "board", team()).due()
    assert not sender.do(job)
    (delivery,) = store.surfaces.deliveries(request.id)
    assert delivery.state == "sending"
    assert delivery.retry_at > delivery.at
    assert delivery.why
    assert store.surfaces.presentations() == []


def test_what_is_new_does_not_wait_for_a_long_list(serve, store, board, ask):
    """Forty messages are to be settled; a request that comes in between is delivered long before that is done."""
    requests = [ask(f"make {n}") for n in range(40)]
    done = []

    class Counted(ScriptedChannel):
        def settle(self, outcome, ref):
            super().settle(outcome, ref)
            done.append("settled")
            if len(done) == 6:
                ask("make new")

        def deliver(self, request, audience):
            done.append("delivered")
            return super().deliver(request, audience)

    for request in requests:
        name = board.post(
            {"request": request.id, "digest": request.digest, "command": "", "complete": True, "offers": []}
        )
        store.surfaces.begin_delivery(request.id, 0, "board")
        store.surfaces.delivered(request.id, 0, "board", {"message": name}, request.digest, complete=True)
        store.withdraw(request.id, "over")
    serve(build=lambda name: Counted(board, name))
    until(lambda: len(done) > 40, "the last")
    assert done.index("delivered") < 20


def test_who_is_away_is_not_told(store, board, ask):
    """From one look to the next, also of a request that waits already: the step that is due later tells the other."""
    from dataclasses import replace

    from humanlayer_agent.approvals.absences import Absence
    from humanlayer_agent.approvals.authority import Person
    from humanlayer_agent.approvals.model import Approver
    from humanlayer_agent.hub.outbox import Outbox
    from humanlayer_agent.keys.signing import process_signer

    known = team(Step("board", 0, ("alice",)), Step("board", 60_000))
    known = replace(known, people=(*known.people, Person("carol", ("os:1000:carol",))))
    known = known.heeding(store.absences.standing)
    request = ask(authority=known)
    now = [request.created]
    outbox = Outbox(store, "board", known, clock=lambda: now[0])

    def told():
        return [[person.id for person in job.audience.people] for job in outbox.due()]

    assert told() == [["alice"]]
    alice = Approver("email:alice@example.com", "web", "login")
    until = request.created + 86_400_000
    assert isinstance(store.absences.say(alice, "carol", until, known, process_signer()), Absence)
    assert told() == [["carol"]]
    now[0] += 60_000
    assert told() == [["carol"], ["bob", "carol"]]
    store.absences.end("alice", "os:1000:alice")
    assert told() == [["alice"], ["alice", "bob"]]


def test_who_has_left_is_told_of_nothing_more_and_their_clicks_do_nothing(serve, store, board, ask):
    """Also by later steps of what waits already, and by a hub that began before."""
    authority, lines = team(Step("board"), Step("board", 10_000)), []
    serve(authority, say=lambda _, line: lines.append(line))
    request = ask(authority=authority)
    first = posted(board, request)
    assert first["to"] == [ALICE, BOB]
    store.people.remove("alice", [ALICE], [], "os:1000:starter")
    board.answer(first["id"], "approve", ALICE)
    until(lambda: list(store.events(type="vote.refused")), "that she is nobody")
    later = ask("make other", authority=authority, age=20_000)
    until(lambda: len(board.messages(later.id)) == 2, "both steps")
    assert [message["to"] for message in board.messages(later.id)] == [[BOB], [BOB]]
    board.answer(first["id"], "escalate", BOB)
    delivered = f"delivered {request.id[:12]} to "  # a message forgets whom it was for once it is settled
    told = until(lambda: [line.removeprefix(delivered) for line in lines if delivered in line][1:], "the next step")
    assert told == ["bob"]
    assert store.get(request.id).state == "pending"


def test_a_warning_goes_to_the_channel_that_can_with_all_who_may_decide(serve, store, board):
    told = []

    class Loud(ScriptedChannel):
        def warn(self, text, people):
            told.append((text, [each.id for each in people]))

    hub = serve(
        build=lambda name: (Loud if name == "loud" else ScriptedChannel)(board, name), channels=["board", "loud"]
    )
    until(lambda: set(hub.serving) == {"board", "loud"}, "both leases")
    hub.warn("it burns")
    until(lambda: told, "the warning")
    assert told == [("it burns", ["alice", "bob"])]


def test_a_warning_that_can_not_be_told_now_is_told_later(serve, store, board):
    told, tries = [], []

    class Busy(ScriptedChannel):
        def warn(self, text, people):
            tries.append(text)
            if len(tries) < 3:
                raise Retry("busy", after=0.01)
            told.append(text)

    hub = serve(build=lambda name: Busy(board, name), channels=["board"])
    until(lambda: hub.serving, "the lease")
    hub.warn("it burns")
    until(lambda: told, "the warning")
    assert (told, tries) == (["it burns"], ["it burns"] * 3)


def test_a_channel_that_could_not_be_started_tells_what_happened_meanwhile(serve, store, board, monkeypatch):
    monkeypatch.setattr("humanlayer_agent.hub.hub.COOL", (0.05, 0.05))
    told, works = [], threading.Event()

    class Loud(ScriptedChannel):
        def warn(self, text, people):
            told.append(text)

    def build(name):
        if not works.is_set():
            raise ChannelError("it is down")
        return Loud(board, name)

    hub = serve(build=build, channels=["board"])
    until(lambda: hub._slots[0].failures, "a failure")
    until(lambda: hub._slots[0].server is None, "the time between two tries")
    hub.warn("it burns")
    works.set()
    until(lambda: told, "the warning")
    assert told == ["it burns"]
