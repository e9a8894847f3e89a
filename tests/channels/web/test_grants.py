"""Approving for more than once, looking at what was, taking it back, and answering several at once: on these pages."""

import html
from dataclasses import replace

import pytest

from humanlayer_agent.action import PLAN, Action
from humanlayer_agent.approvals.grants import offers
from humanlayer_agent.approvals.model import Permit
from humanlayer_agent.channels.batches import LONGEST
from humanlayer_agent.policy.decision import Ask
from humanlayer_agent.testing.conformance import CONTACT, FETCH

REVOKED = "Taken back: it lets nothing through from now on."


def asked(inbox, command: str = FETCH, asks: tuple[Ask, ...] = CONTACT, **fields):
    request = inbox.ask(command, asks=asks, **fields)
    inbox.deliver(request)
    return request


def granted(inbox, page, scope: str = "run"):
    request = asked(inbox)
    path = f"/r/{request.id}"
    form = page(inbox.rig.alice().get(path).text).form("grant")
    return request, inbox.rig.alice().post(path, data=form | {"scope": scope})


def used(inbox, request, command: str = FETCH) -> Permit | None:
    """Use the grant of a request for a command that asks the same."""
    action = Action(command, cwd="/srv/app", project="/srv/app", run_id="run-1", agent="agent")
    digest = action.digest(request.decision.policy_digest)
    authority = inbox.approvers.authority
    return inbox.store.grants.use(
        action, request.decision, digest, requester=request.requester, authority=lambda: authority, use_by_ms=10_000
    )


# ---- giving -------------------------------------------------------------------------------------------


def test_the_form_says_what_each_scope_means(inbox, page) -> None:
    for command in (FETCH, "curl -fsS https://example.org/b"):
        inbox.decide_elsewhere(asked(inbox, command), "reject")
    other = (replace(CONTACT[0], operand="example.com"),)
    inbox.decide_elsewhere(asked(inbox, "curl -fsS https://example.com", other))
    request = asked(inbox, "curl -fsS https://example.org/c")
    shown = page(inbox.rig.alice().get(f"/r/{request.id}").text)
    radios = [values["value"] for tag, values in shown.tags if tag == "input" and values.get("type") == "radio"]
    assert radios == [offer.name for offer in offers(request)] == ["action", "run", "hour"]
    said = " ".join(shown.text.split())
    assert "curl contacting example.org:443, for 1 hour" in said
    assert "at most 50 times and for 1 hour, for agent agent in /srv/app" in said
    assert "of 3 earlier requests in this project it would have answered 2, 2 of which a human did not want" in said
    assert "Not other programs, options or hosts" in said
    assert "curl -fsS https://example.com" in said, "what it would not have answered"


def test_why_nothing_is_offered(inbox, page) -> None:
    request = asked(inbox, severity="critical")
    text = inbox.rig.alice().get(f"/r/{request.id}").text
    assert page(text).form("grant") is None
    assert "It can't be approved for more than once: it is of critical severity." in html.unescape(text)


def test_nothing_is_chosen(inbox, page) -> None:
    request, response = granted(inbox, page, "")
    assert response.status_code == 403
    assert "choose what is to run again" in response.text
    assert inbox.state(request) == "pending"
    assert inbox.store.votes(request.id) == []


def test_the_page_says_what_was_remembered(inbox, page) -> None:
    request, response = granted(inbox, page)
    said = " ".join(page(response.text).text.split())
    assert "Approved by alice, and remembered: curl contacting example.org:443, in this run (50 uses)." in said
    assert ": approve for more than once (curl contacting example.org:443)," in said
    (vote,) = inbox.store.votes(request.id)
    assert vote.input_mode == "click"


def test_an_old_form_after_the_offers_have_changed(inbox, page) -> None:
    """A row that was edited between showing and choosing: what was shown is what can be chosen, or nothing."""
    from tests.support.forging import forging

    request = asked(inbox)
    path = f"/r/{request.id}"
    form = page(inbox.rig.alice().get(path).text).form("grant")
    with forging(inbox.store.path) as db:
        db.execute("UPDATE request SET decision = replace(decision, 'example.org', 'elsewhere.org')")
    response = inbox.rig.alice().post(path, data=form | {"scope": "run"})
    assert response.status_code == 403
    assert "not offered any more" in response.text
    assert inbox.state(request) == "pending"
    assert [entry.event["refusal"] for entry in inbox.events(request, "vote.refused")] == ["no-such-scope"]


def test_a_mail_s_link_offers_no_grant(inbox, page) -> None:
    request, path = inbox.mailed(command=FETCH, asks=CONTACT)
    client = inbox.rig.client()
    shown = page(client.get(path).text)
    assert shown.form("grant") is None
    assert not any(offer.words in shown.text for offer in offers(request))
    for field in ({"answer": "grant", "scope": "run"}, {"answer": "grant"}):
        form = page(client.get(path).text).form("approve") | field
        assert client.post(path, data=form).status_code == 403
    assert inbox.state(request) == "pending"
    smuggled = page(client.get(path).text).form("approve") | {"scope": "run"}
    assert client.post(path, data=smuggled).status_code == 200
    assert [vote.scope for vote in inbox.store.votes(request.id)] == [""]
    assert inbox.store.grants.given() == []


# ---- looking, and taking back -------------------------------------------------------------------------


def test_grants_with_their_uses(inbox, page) -> None:
    request, _ = granted(inbox, page)
    alice = inbox.rig.alice()
    assert "Not used yet, of 50 times at most." in alice.get("/grants").text
    assert used(inbox, request, "curl -fsS https://example.org/<b>second") is not None
    shown = page(alice.get("/grants").text)
    said = " ".join(shown.text.split())
    assert "Active (1)" in said
    assert "curl contacting example.org:443" in said
    assert "for agent in /srv/app, in run run-1" in said
    assert "given by alice on" in said
    assert "Used 1 of 50 times" in said
    assert "curl -fsS https://example.org/<b>second" in said
    assert len([form for form in shown.forms if "token" in form]) == 1


def test_whoever_is_logged_in_takes_back(inbox, page) -> None:
    request, _ = granted(inbox, page)
    permit = used(inbox, request)
    assert permit is not None
    alice = inbox.rig.alice()
    (form,) = page(alice.get("/grants").text).forms
    response = alice.post("/grants", data=form)
    assert (response.status_code, REVOKED in response.text) == (200, True)
    said = " ".join(page(response.text).text.split())
    assert "Active (0)" in said
    assert "revoked by alice on" in said
    assert used(inbox, request) is None
    assert alice.post("/grants", data=form).status_code == 403, "a form is good once"
    (event,) = [entry.event for entry in inbox.store.events(type="grant.revoked")]
    assert event["by"] == inbox.rig.people["alice"]


def test_taken_back_elsewhere_meanwhile(inbox, page) -> None:
    request, _ = granted(inbox, page)
    (form,) = page(inbox.rig.alice().get("/grants").text).forms
    assert inbox.store.grants.revoke(request.id, "os:1:x")
    response = inbox.rig.alice().post("/grants", data=form)
    assert (response.status_code, "it was before" in response.text) == (409, True)


def test_nobody_else_looks_or_takes_back(inbox, page) -> None:
    """Not without the login, not from another site, not by the form of something else."""
    request, _ = granted(inbox, page)
    alice, stranger = inbox.rig.alice(), inbox.rig.client()
    (form,) = page(alice.get("/grants").text).forms
    assert stranger.get("/grants").status_code == 303
    assert stranger.post("/grants", data=form).status_code == 403
    assert alice.post("/grants", data=form, headers={"Origin": "https://evil.example"}).status_code == 403
    other = asked(inbox, "make other")
    of_request = page(alice.get(f"/r/{other.id}").text).form("reject")
    assert alice.post("/grants", data=of_request).status_code == 403
    assert alice.get(f"/grants?token={form['token']}").status_code == 200
    grant = inbox.store.grants.get(request.id)
    assert grant is not None
    assert grant.revoked is None
    assert alice.post(f"/r/{request.id}", data=form | {"answer": "approve"}).status_code == 409
    assert len(inbox.store.votes(request.id)) == 1


# ---- several at once ----------------------------------------------------------------------------------


def ticks(shown) -> list[str]:
    """The tokens of the boxes, in the order of the page."""
    return [values["value"] for tag, values in shown.tags if tag == "input" and values.get("name") == "pick"]


def test_several_are_answered_each_by_a_vote_of_its_own(inbox, page) -> None:
    requests = [asked(inbox, f"curl -fsS https://example.org/{n}") for n in range(4)]
    alice = inbox.rig.alice()
    assert "/several" in alice.get("/").text
    shown = page(alice.get("/several").text)
    for request in requests:
        assert request.action.content in shown.text
    picks = ticks(shown)
    assert len(picks) == 4
    response = alice.post("/several", data={"pick": [picks[0], picks[2]], "answer": "approve", "comment": "unsaid"})
    assert page(response.text).text.count("Your answer is recorded.") == 2
    assert [inbox.state(request) for request in requests] == ["approved", "pending", "approved", "pending"]
    for request in (requests[0], requests[2]):
        (vote,) = inbox.store.votes(request.id)
        assert (vote.presented_digest, vote.scope, vote.comment) == (request.digest, "", "")
        assert vote.signature
    picks = ticks(page(response.text))
    response = alice.post("/several", data={"pick": [picks[1]], "answer": "reject", "comment": "not this"})
    assert inbox.state(requests[1]) == "pending"
    assert inbox.state(requests[3]) == "rejected"
    assert inbox.store.votes(requests[3].id)[0].comment == "not this"


def test_what_is_alike_stands_together_with_what_differs(inbox, page) -> None:
    hosts = ("example.org", "example.com")
    for host in hosts:
        asked(inbox, f"curl -fsS https://{host}/", (replace(CONTACT[0], operand=host),))
    asked(inbox, "make\u202e deploy", (), severity="low")
    shown = page(inbox.rig.alice().get("/several").text)
    said = " ".join(shown.text.split())
    assert len([tag for tag, _ in shown.tags if tag == "fieldset"]) == 2
    assert "2 alike · rule kit · project /srv/app" in said
    assert "make\\u{202e} deploy" in said
    assert "Beware: " in said
    for host in hosts:
        assert said.count(host) == 2, "what differs, and the command"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"severity": "high"}, "it is of high severity"),
        ({"severity": "critical"}, "it is of critical severity"),
        ({"command": f"echo {'x' * LONGEST}"}, "it is too long for a list"),
        ({"command": f"echo {chr(0x202E) * (LONGEST // 4)}"}, "it is too long for a list"),
        ({"stdin": b"rm -rf /"}, "it gets an input, which a list does not show"),
    ],
)
def test_what_a_list_can_not_show_is_answered_alone(inbox, page, fields, why: str) -> None:
    request = asked(inbox, **({"command": "make alone"} | fields))
    shown = page(inbox.rig.alice().get("/several").text)
    assert ticks(shown) == []
    assert why in shown.text
    assert any(values.get("href", "").endswith(f"/r/{request.id}") for _, values in shown.tags)


def test_what_was_settled_meanwhile_keeps_no_other_from_its_answer(inbox, page) -> None:
    first, second, elsewhere = (asked(inbox, f"make {n}") for n in ("first", "second", "third"))
    alice = inbox.rig.alice()
    picks = ticks(page(alice.get("/several").text))
    inbox.decide_elsewhere(first, "reject")
    response = alice.post("/several", data={"pick": [*picks, "unknown"], "answer": "approve"})
    said = " ".join(page(response.text).text.split())
    assert "make first: Your answer did not count" in said
    assert "make second: Your answer is recorded." in said
    assert "One was not recorded: this form was sent before" in said
    assert [inbox.state(each) for each in (first, second, elsewhere)] == ["rejected", "approved", "approved"]
    again = alice.post("/several", data={"pick": picks, "answer": "reject"})
    assert page(again.text).text.count("One was not recorded") == 3
    assert inbox.state(second) == "approved"


def test_a_request_that_is_not_shown_here_is_not_in_the_list(inbox, page) -> None:
    hidden = inbox.ask("make elsewhere")
    asked(inbox, "make here")
    shown = page(inbox.rig.alice().get("/several").text)
    assert "make elsewhere" not in shown.text
    assert len(ticks(shown)) == 1
    assert inbox.state(hidden) == "pending"


@pytest.mark.parametrize("answer", ["", "grant", "edit", "respond", "escalate", "terminate"])
def test_several_are_approved_or_rejected_and_nothing_else(inbox, page, answer: str) -> None:
    request = asked(inbox)
    picks = ticks(page(inbox.rig.alice().get("/several").text))
    data = {"pick": picks, "answer": answer, "scope": "run"}
    assert inbox.rig.alice().post("/several", data=data).status_code == 403
    assert inbox.state(request) == "pending"


def test_a_store_that_fails_in_between_is_told_for_each(inbox, page) -> None:
    request = asked(inbox)
    picks = ticks(page(inbox.rig.alice().get("/several").text))
    inbox.broken_store = True
    response = inbox.rig.alice().post("/several", data={"pick": picks, "answer": "approve"})
    assert "nothing was recorded, try again" in response.text
    inbox.broken_store = False
    response = inbox.rig.alice().post("/several", data={"pick": picks, "answer": "approve"})
    assert inbox.state(request) == "approved", "the same form can be sent again"


def test_nobody_else_answers_several(inbox, page) -> None:
    request = asked(inbox)
    alice, stranger = inbox.rig.alice(), inbox.rig.client()
    data = {"pick": ticks(page(alice.get("/several").text)), "answer": "approve"}
    assert stranger.get("/several").status_code == 303
    assert stranger.post("/several", data=data).status_code == 403
    assert alice.post("/several", data=data, headers={"Origin": "https://evil.example"}).status_code == 403
    other = inbox.rig.client()
    inbox.restart()
    inbox.rig.login(other)
    other.post("/several", data=data)
    assert inbox.state(request) == "pending"


# ---- a plan -------------------------------------------------------------------------------------------


def test_a_plan_says_how_far_it_goes_before_it_is_approved(inbox, page):
    plan = "for 2h\nnetwork example.org by curl"
    request = asked(inbox, plan, type=PLAN, interpreter=(PLAN,))
    opened = page(inbox.rig.alice().get(f"/r/{request.id}").text)
    bounds = "in any run, at most 50 times and for 2 hours, for agent agent in /srv/app"
    for text in (f"agent wants to be allowed this before it starts, {bounds}", "The plan, whole", "Approve the plan"):
        assert text in opened.text
    assert f"may then be done without a question, {bounds}. Nothing runs" in opened.text
    assert "run it once" not in opened.text
