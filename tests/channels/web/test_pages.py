"""What decides on these pages and what does not: scanners, other sites, replays, guesses, and an agent with curl."""

import os
import re
import subprocess
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.channels.web.sessions import CALLERS, RECORDED, LoginCode
from humanlayer_agent.locations import own_ports
from humanlayer_agent.processes import identity as process
from humanlayer_agent.store import heartbeats
from tests.channels.asking import build_held
from tests.support import extent

BOB = "bob@example.com"


def votes(inbox, request) -> int:
    return len(inbox.store.votes(request.id))


def decided_nothing(inbox, request) -> bool:
    return inbox.state(request) == "pending" and votes(inbox, request) == 0


# ---- the login ----------------------------------------------------------------------------------------


def test_the_inbox_is_for_who_has_the_code(inbox) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    client = inbox.rig.client()
    for path in ("/", f"/r/{request.id}"):
        response = client.get(path)
        assert (response.status_code, response.headers["location"]) == (303, "/login")
    assert "make deploy" not in client.get("/login").text
    response = inbox.rig.login(client)
    cookie = response.headers["set-cookie"]
    assert all(word in cookie for word in ("HttpOnly", "SameSite=strict", "Path=/s/"))
    assert "make deploy" in client.get("/").text
    assert client.post("/logout").status_code == 303
    assert client.get("/").status_code == 303


def test_a_code_is_good_once(inbox) -> None:
    first, second = inbox.rig.client(), inbox.rig.client()
    first.get("/login")
    code = inbox.rig.lines[-1].rpartition(" ")[2]
    assert first.post("/login", data={"code": code.lower().replace("-", " ")}).status_code == 303
    assert second.post("/login", data={"code": code}).status_code == 403
    assert second.get("/").status_code == 303


def test_five_wrong_codes_end_it(inbox) -> None:
    client = inbox.rig.client()
    client.get("/login")
    code = inbox.rig.lines[-1].rpartition(" ")[2]
    for guess in ("", "x", "AAAAA-AAAAA", "\ud7ff", code[:-1]):
        assert client.post("/login", data={"code": guess}).status_code == 403
    assert client.post("/login", data={"code": code}).status_code == 403
    shown = len(inbox.rig.lines)
    for _ in range(20):
        client.get("/login")
    assert len(inbox.rig.lines) == shown, "no new code until the time of the old one is over"


def test_wrong_codes_lock_out_only_who_sent_them(inbox) -> None:
    """An agent's command, which has the same user and address as the human's browser, but no session with it."""
    human = inbox.rig.client()
    human.get("/login")
    guessed = guesses(inbox.rig.url, 8, start_new_session=True)
    assert guessed.count("not right any more") == 5
    assert guessed.count("Too many wrong codes") == 3
    logged = [entry.event for entry in inbox.store.events(type="login.refused")]
    assert len(logged) == 5
    assert {event["channel"] for event in logged} == {"web"}
    (who,) = {event["caller"] for event in logged}
    assert re.fullmatch(rf"user {os.getuid()}, session \d+", who)
    assert inbox.rig.login(human).status_code == 303
    assert human.get("/").status_code == 200


@pytest.mark.skipif(os.getuid() != 0, reason="needs a second user")
def test_wrong_codes_of_another_user(inbox) -> None:
    human = inbox.rig.client()
    human.get("/login")
    assert guesses(inbox.rig.url, 6, user=65534).count("Too many wrong codes") == 1
    (who,) = {entry.event["caller"] for entry in inbox.store.events(type="login.refused")}
    assert who.startswith("user 65534")
    assert inbox.rig.login(human).status_code == 303


def guesses(url: str, count: int, **options: Any) -> str:
    """What the inbox says to a command that sends wrong codes."""
    curl = f"curl -s {url}/login -H 'Origin: {url}' -d code=AAAAA-AAAAA"
    script = f"for _ in {{1..{count}}}; do {curl}; done"
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd="/", **options).stdout


def test_who_sends_wrong_codes_fills_neither_log_nor_memory() -> None:
    shown: list[str] = []
    code = LoginCode(lambda text: bool(shown.append(text)) or True)
    assert code.offer()
    told = [code.enter("AAAAA-AAAAA", f"session {number}") for number in range(CALLERS + 500)]
    assert len([wrong for wrong in told if wrong is not None and wrong.recorded]) == RECORDED
    assert len(told) == len([wrong for wrong in told if wrong is not None])
    assert len(code._wrong) == CALLERS
    assert code.enter(shown[0], "a human") is None


def test_without_a_terminal_there_is_no_code(inbox) -> None:
    assert "no terminal" not in inbox.rig.client().get("/login").text
    inbox.rig._show = lambda line: False
    inbox.restart()
    assert "no terminal" in inbox.rig.client().get("/login").text


def test_a_cookie_is_for_a_path_that_nobody_else_can_name(inbox) -> None:
    """Browsers send cookies to every port of a host, so also to a server that an agent has started."""
    request = inbox.ask()
    inbox.deliver(request)
    alice = inbox.rig.alice()
    ((name, value),) = alice.cookies.items()
    (cookie,) = alice.cookies.jar
    assert re.fullmatch(r"/s/[\w-]{32}/", cookie.path)
    thief = inbox.rig.client()
    for where in ("/", f"/r/{request.id}", "/s/x/", f"/s/{'x' * 32}/r/{request.id}", f"/s/{value}/"):
        response = thief.get(where, headers={"Cookie": f"{name}={value}"})
        assert (response.status_code, "make deploy" in response.text) == (303, False)
        assert thief.post("/logout", headers={"Cookie": f"{name}={value}"}).status_code == 303
    assert thief.get(cookie.path).status_code == 303, "the path alone is not enough either"
    assert alice.get("/").status_code == 200, "and nobody else logs her out"


def test_other_cookies_of_the_same_name(inbox) -> None:
    """Another server of this host can set some; the right one counts wherever it stands."""
    alice = inbox.rig.alice()
    ((name, value),) = alice.cookies.items()
    home, client = str(alice.base_url), inbox.rig.client()
    for header in (f"{name}=x; {name}={value}", f"{name}={value}; {name}=x; a=b", f'{name}="; {name}={value}'):
        assert client.get(home, headers={"Cookie": header}).status_code == 200, header
    assert client.get(home, headers={"Cookie": f"{name}=x"}).status_code == 303


def test_many_codes_at_once(inbox, page, tokens: Tokens) -> None:
    """Not more than five are compared, however many come at the same time."""
    request, path = inbox.mailed(severity="high")
    bob = inbox.rig.client()
    form = page(bob.get(path).text).form("approve")
    senders = [
        threading.Thread(target=bob.post, args=(path,), kwargs={"data": form | {"code": "AAAAAA"}}) for _ in range(20)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    told = [entry.event["why"] for entry in inbox.events(request, "vote.refused")]
    assert len([why for why in told if "not the one in the mail" in why]) == 5
    assert len(told) == 20
    assert bob.post(path, data=form | {"code": tokens.code(request.id, BOB)}).status_code == 403


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "odd", ["%00", "%ff%fe", "%ed%a0%80", "x" * 20_000, "..%2f..", "%2e%2e", "%0d%0aX:y", "{}", "'"]
)
def test_odd_paths(inbox, odd: str) -> None:
    alice = inbox.rig.alice()
    for where in (f"{alice.base_url}r/{odd}", f"{inbox.rig.url}/d/{odd}", f"{inbox.rig.url}/s/{odd}/"):
        assert alice.get(where).status_code in (303, 404), where
        assert alice.post(where, data={"answer": "approve"}).status_code in (403, 404, 405), where


def test_below_a_path(inbox, page) -> None:
    """A proxy may give the inbox a part of its own site."""
    inbox.rig.path = "/inbox"
    inbox.restart()
    request, path = inbox.mailed()
    inbox.deliver(request)
    client = inbox.rig.client()
    assert client.get("/login").status_code == 404
    assert client.get("/inbox/").headers["location"] == "/inbox/login"
    client.get("/inbox/login")
    response = client.post("/inbox/login", data={"code": inbox.rig.lines[-1].rpartition(" ")[2]})
    home = response.headers["location"]
    assert re.fullmatch(r"/inbox/s/[\w-]{32}/", home)
    assert f"Path={home};" in response.headers["set-cookie"]
    for where in (home, f"{home}r/{request.id}", f"/inbox{path}"):
        links = set(re.findall(r'(?:href|action)="(/[^"?]*)', client.get(where).text))
        assert links
        assert all(link.startswith("/inbox/") for link in links)
        assert {client.get(link).status_code for link in links if "logout" not in link} <= {200, 303}
    form = page(client.get(f"{home}r/{request.id}").text).form("approve")
    assert client.post(f"{home}r/{request.id}", data=form).status_code == 200
    assert inbox.state(request) == "approved"


# ---- deciding -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field", "words", "state"),
    [
        ("approve", "comment", "", "approved"),
        ("reject", "comment", "not on a Friday", "rejected"),
        ("edit", "edited", "make test\necho done", "superseded"),
        ("respond", "comment", "the answer is 42", "answered"),
    ],
)
def test_alice_decides(inbox, page, kind: str, field: str, words: str, state: str) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    alice = inbox.rig.alice()
    form = page(alice.get(f"/r/{request.id}").text).form(kind)
    # Browsers send line ends of their own.
    response = alice.post(f"/r/{request.id}", data=form | {field: words.replace("\n", "\r\n")})
    assert response.status_code == 200
    assert "Your answer is recorded." in response.text
    assert inbox.state(request) == state
    (vote,) = inbox.store.votes(request.id)
    assert (vote.approver.assurance, vote.input_mode) == ("login", "click")
    assert (vote.edited if kind == "edit" else vote.comment) == words
    shown = page(alice.get(f"/r/{request.id}").text)
    assert not [form for form in shown.forms if "answer" in form]
    assert "by alice" in shown.text


def test_a_request_whose_agent_is_gone_says_so(inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    alice, gone = inbox.rig.alice(), "the agent that asked is gone"
    assert gone not in alice.get("/").text + alice.get(f"/r/{request.id}").text
    with monkeypatch.context() as later:
        later.setattr(process, "lives", lambda identity: False)
        inbox.store.reconcile()
    assert gone in alice.get("/").text
    assert gone in alice.get(f"/r/{request.id}").text
    assert inbox.state(request) == "pending"
    with monkeypatch.context() as later:
        later.setattr(process, "lives", lambda identity: False)
        later.setattr(heartbeats, "LEFT_MS", 0)
        inbox.store.reconcile()
    assert inbox.state(request) == "withdrawn"
    assert "Closed: its agent is gone" in alice.get("/").text
    assert "Closed: its agent is gone" in alice.get(f"/r/{request.id}").text


def test_a_request_of_another_route_is_only_shown(inbox, page) -> None:
    request = inbox.ask("make elsewhere")
    alice = inbox.rig.alice()
    assert "it can't be answered here" in alice.get("/").text
    shown = page(alice.get(f"/r/{request.id}").text)
    assert "It can't be answered here" in shown.text
    assert not [form for form in shown.forms if "answer" in form]


def test_what_was_shown_is_what_counts(inbox, page) -> None:
    """A form of one request answers no other, whatever address it is sent to."""
    one, other = inbox.ask("make one"), inbox.ask("make other")
    inbox.deliver(one)
    inbox.deliver(other)
    alice = inbox.rig.alice()
    form = page(alice.get(f"/r/{one.id}").text).form("approve")
    assert alice.post(f"/r/{other.id}", data=form).status_code == 403
    assert decided_nothing(inbox, one)
    assert decided_nothing(inbox, other)
    assert inbox.events(other, "vote.refused")[0].event["refusal"] == "used-form"


def test_a_form_that_could_not_be_recorded_can_be_sent_again(inbox, page) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    alice = inbox.rig.alice()
    form = page(alice.get(f"/r/{request.id}").text).form("approve")
    inbox.broken_store = True
    response = alice.post(f"/r/{request.id}", data=form)
    assert response.status_code == 503
    assert "Nothing was recorded" in response.text
    inbox.broken_store = False
    assert alice.post(f"/r/{request.id}", data=form).status_code == 200
    assert inbox.state(request) == "approved"


def test_two_at_once_are_one(inbox, page) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    alice = inbox.rig.alice()
    form = page(alice.get(f"/r/{request.id}").text).form("approve")
    codes: list[int] = []
    senders = [
        threading.Thread(target=lambda: codes.append(alice.post(f"/r/{request.id}", data=form).status_code))
        for _ in range(6)
    ]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert codes.count(200) == 1
    assert votes(inbox, request) == 1


# ---- links in mails -------------------------------------------------------------------------------------


def test_bob_decides_by_his_link(inbox, page) -> None:
    request, path = inbox.mailed()
    bob = inbox.rig.client()
    shown = page(bob.get(path).text)
    assert "make deploy" in shown.text
    assert "All requests" not in shown.text
    assert bob.post(path, data=shown.form("approve")).status_code == 200
    (vote,) = inbox.store.votes(request.id)
    assert (vote.person, vote.approver.channel, vote.approver.assurance) == ("bob", "mail", "mail-link")
    assert "by bob" in page(bob.get(path).text).text
    assert bob.get("/").status_code == 303, "a link is no login"


def test_high_severity_takes_the_code_of_the_mail(inbox, page, tokens: Tokens) -> None:
    request, path = inbox.mailed(severity="high")
    bob = inbox.rig.client()
    for wrong in ("", "AAAAAA"):
        form = page(bob.get(path).text).form("approve")
        assert bob.post(path, data=form | {"code": wrong}).status_code == 403
    assert decided_nothing(inbox, request)
    code = tokens.code(request.id, BOB)
    form = page(bob.get(path).text).form("approve")
    assert bob.post(path, data=form | {"code": f"{code[:3].lower()} {code[3:]}"}).status_code == 200
    assert inbox.state(request) == "approved"
    assert [entry.event["refusal"] for entry in inbox.events(request, "vote.refused")] == ["wrong-code"] * 2


def test_five_wrong_codes_close_the_link(inbox, page, tokens: Tokens) -> None:
    request, path = inbox.mailed(severity="high")
    bob = inbox.rig.client()
    form = page(bob.get(path).text).form("approve")
    for _ in range(5):
        assert bob.post(path, data=form | {"code": "AAAAAA"}).status_code == 403
    assert bob.post(path, data=form | {"code": tokens.code(request.id, BOB)}).status_code == 403
    shown = page(bob.get(path).text)
    assert "Too many wrong codes" in shown.text
    assert shown.form("approve") is None
    assert decided_nothing(inbox, request)


@pytest.mark.parametrize(
    "change",
    [lambda p: p[:-1], lambda p: p + "a", lambda p: p[:4] + ("b" if p[4] == "a" else "a") + p[5:], lambda p: "/d/x"],
)
def test_a_changed_link_leads_nowhere(inbox, change: Callable[[str], str]) -> None:
    _, path = inbox.mailed()
    response = inbox.rig.client().get(change(path))
    assert response.status_code == 404
    assert "make deploy" not in response.text


def test_tokens_of_other_uses_and_people_are_no_links(inbox, tokens: Tokens) -> None:
    request, _ = inbox.mailed()
    client = inbox.rig.client()
    others = [tokens.token(use, request.id, BOB) for use in ("reply", "bounce", "message", "code")]
    others += [tokens.token("link", request.id, "alice@example.com"), Tokens(b"x" * 32).token("link", request.id, BOB)]
    assert {client.get(f"/d/{token}").status_code for token in others} == {404}


def test_a_link_after_the_decision_only_tells(inbox, page) -> None:
    request, path = inbox.mailed()
    bob = inbox.rig.client()
    form = page(bob.get(path).text).form("approve")
    inbox.decide_elsewhere(request, "reject")
    response = bob.post(path, data=form)
    assert response.status_code == 409
    assert "did not count" in response.text
    assert not [form for form in page(bob.get(path).text).forms if "answer" in form]
    assert inbox.state(request) == "rejected"


def test_an_expired_request_only_tells(inbox, page) -> None:
    request, path = inbox.mailed()
    bob = inbox.rig.client()
    form = page(bob.get(path).text).form("approve")
    inbox.store.expire(request.id)
    assert bob.post(path, data=form).status_code == 409
    assert "Expired: denied" in bob.get(path).text
    assert votes(inbox, request) == 0


# ---- everything that is no person ------------------------------------------------------------------------


@pytest.mark.long
def test_scanners(inbox) -> None:
    """GET and HEAD on every link there is, a thousand times, decide nothing."""
    request, path = inbox.mailed()
    inbox.deliver(request)
    scanner, alice = inbox.rig.client(), inbox.rig.alice()
    url = inbox.rig.url
    found = {path, "/", "/login", "/style.css", f"/r/{request.id}"}
    found |= {f"{alice.base_url.path.rstrip('/')}{each}" for each in ("/", f"/r/{request.id}")}
    for client in (scanner, alice):
        for each in tuple(found):
            found |= set(re.findall(r'(?:href|action|src)="(/[^"]*)"', client.get(url + each).text))
    count = 0
    while count < extent.some(1000, 150):
        for each in sorted(found):
            for client in (scanner, alice):
                client.get(url + each)
                client.head(url + each)
                count += 2
    assert decided_nothing(inbox, request)


def test_scanners_that_send_forms_as_another_site(inbox, page) -> None:
    request, path = inbox.mailed()
    inbox.deliver(request)
    alice = inbox.rig.alice()
    mine = page(alice.get(f"/r/{request.id}").text).form("approve")
    path = inbox.rig.url + path
    bobs = page(alice.get(path).text).form("approve")
    assert mine["token"] != bobs["token"]
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": inbox.rig.url + ".evil.example"},
        {"Origin": inbox.rig.url.replace("127.0.0.1", "localhost.evil.example")},
        {"Origin": inbox.rig.url, "Sec-Fetch-Site": "cross-site"},
        {"Origin": inbox.rig.url, "Sec-Fetch-Site": "same-site"},
    ):
        for where, form in ((f"/r/{request.id}", mine), (path, bobs)):
            assert alice.post(where, data=form, headers=headers).status_code == 403
    bare = httpx.Client(base_url=alice.base_url, cookies=alice.cookies, verify=False)
    assert bare.get("/").status_code == 200
    assert bare.post(f"/r/{request.id}", data=mine).status_code == 403, "no Origin at all"
    assert decided_nothing(inbox, request)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80",
        "",
        "127.0.0.1",
        "localhost:{port}",
        "127.0.0.1.:{port}",
        "[::1]:{port}",
    ],
)
def test_another_name_for_this_address(inbox, host: str) -> None:
    """DNS rebinding: a name of somebody else that leads here."""
    request, path = inbox.mailed()
    alice = inbox.rig.alice()
    path, host = inbox.rig.url + path, host.format(port=inbox.rig.port)
    for response in (
        alice.get("/", headers={"Host": host}),
        alice.get(path, headers={"Host": host}),
        alice.post(path, data={"answer": "approve"}, headers={"Host": host, "Origin": f"http://{host}"}),
    ):
        assert response.status_code == (421 if host else 400) or (not host and response.status_code == 421)
        assert "make deploy" not in response.text
    assert decided_nothing(inbox, request)


def test_replayed_forms(inbox, page) -> None:
    request, path = inbox.mailed()
    bob = inbox.rig.client()
    form = page(bob.get(path).text).form("reject")
    assert bob.post(path, data=form | {"comment": "first"}).status_code == 200
    for _ in range(10):
        assert bob.post(path, data=form | {"comment": "again"}).status_code == 403
    assert votes(inbox, request) == 1
    assert inbox.store.votes(request.id)[0].comment == "first"


def test_other_methods_and_bodies(inbox, page) -> None:
    request, path = inbox.mailed()
    bob = inbox.rig.client()
    form = page(bob.get(path).text).form("approve")
    assert bob.put(path, data=form).status_code == 405
    assert bob.delete(path).status_code == 405
    assert bob.request("OPTIONS", path).status_code == 405
    assert bob.post(path, json=form).status_code == 403
    assert bob.post(path, files={"token": form["token"], "answer": "approve"}).status_code == 403
    assert bob.post(path, content=b"answer=approve", headers={"Content-Type": "text/plain"}).status_code == 403
    assert bob.post(path, data=form | {"comment": "x" * 500_000}).status_code == 413
    twice = f"token={form['token']}&answer=approve&answer=reject"
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    assert bob.post(path, content=twice, headers=kind).status_code == 403
    assert bob.post(path, content=b"token=%ff&answer=approve\xff", headers=kind).status_code == 403
    assert bob.get(f"{path}?answer=approve&token={form['token']}").status_code == 200
    assert decided_nothing(inbox, request)


def test_an_agent_with_curl(inbox) -> None:
    """What runs on this machine reaches the port, and that is all."""
    request, _ = inbox.mailed()
    inbox.deliver(request)
    inbox.rig.alice()  # somebody is logged in
    url = inbox.rig.url
    script = f"""
        curl -s {url}/ ; curl -s {url}/r/{request.id}
        curl -s -X POST -H 'Origin: {url}' -d answer=approve {url}/r/{request.id}
        curl -s {url}/s/x/ ; curl -s {url}/s/x/r/{request.id}
        curl -s -X POST -H 'Origin: {url}' -H 'Cookie: hla_session=x' -d 'answer=approve&token=x' {url}/r/{request.id}
        curl -s -X POST -H 'Origin: {url}' -H 'X-Forwarded-Email: bob@example.com' -d answer=approve {url}/r/{request.id}
        curl -s -H 'X-Forwarded-Email: {BOB}' -H 'X-Forwarded-For: 10.0.0.1' {url}/
        for n in 1 2 3 4 5 6 7; do curl -s -X POST -H 'Origin: {url}' -d code=AAAAA-AAAA$n {url}/login; done
        for n in 1 2 3; do curl -s {url}/d/$n; done
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert "make deploy" not in done.stdout
    assert "not logged in" in done.stdout
    assert decided_nothing(inbox, request)


# ---- what every answer carries ----------------------------------------------------------------------------


def test_headers(inbox) -> None:
    _, path = inbox.mailed()
    client = inbox.rig.client()
    for each in (path, "/login", "/", "/nothing/there", "/d/x"):
        headers = client.get(each).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert (headers["x-frame-options"], headers["referrer-policy"]) == ("DENY", "same-origin")
        assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")
        assert "server" not in headers


def test_only_pages_of_who_has_logged_in_have_our_script(inbox, page) -> None:
    """It stands in a file of its own: what a page itself says is never a script. Pages that links lead to have none."""
    request, path = inbox.mailed()
    inbox.deliver(request)
    alice, stranger = inbox.rig.alice(), inbox.rig.client()
    for each in ("/", f"/r/{request.id}", f"/r/{request.id}?look"):
        answer = alice.get(each)
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert (policy["default-src"], policy["script-src"], policy["connect-src"]) == ("'none'", "'self'", "'self'")
        (script,) = [values for tag, values in page(answer.text).tags if tag == "script"]
        assert stranger.get(script["src"]).headers["content-type"].startswith("text/javascript")
    for each in (path, "/login"):
        assert "<script" not in stranger.get(each).text


def test_a_page_that_looks_whether_it_is_up_to_date_gets_no_form(inbox, page) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    shown = inbox.rig.alice().get(f"/r/{request.id}?look")
    assert page(shown.text).form("approve") is None
    assert 'data-open="yes"' in shown.text
    inbox.decide_elsewhere(request, "reject")
    assert 'data-open="no"' in inbox.rig.alice().get(f"/r/{request.id}?look").text


def test_pages_have_no_script_in_them_and_nothing_from_elsewhere(inbox, page) -> None:
    request, path = inbox.mailed("high", command="echo '<script>alert(1)</script><img src=//evil.example>'")
    inbox.deliver(request)
    for client, each in ((inbox.rig.alice(), "/"), (inbox.rig.alice(), f"/r/{request.id}"), (inbox.rig.client(), path)):
        shown = page(client.get(each).text)
        assert "alert(1)" in shown.text
        for tag, values in shown.tags:
            assert tag not in ("img", "iframe", "object")
            assert tag != "script" or values["src"].startswith("/inbox.js?")
            assert not any(name.startswith("on") or name == "style" for name in values)
            for name in ("href", "src", "action"):
                assert not values.get(name) or values[name].startswith(("/", "#"))
                assert not values.get(name, "").startswith("//")


# ---- every agent is stopped ----------------------------------------------------------------------------


def test_the_inbox_says_that_every_agent_is_stopped(inbox, page) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    alice = inbox.rig.alice()
    assert "Stopped:" not in alice.get("/").text
    inbox.store.halts.stop("os:1000:bob", "<script>alert(1)</script>\nwrong bucket")
    shown = alice.get("/").text
    words = " ".join(" ".join(page(shown).words).split())
    assert "Stopped: every agent is stopped since" in words
    assert "by bob" in words
    assert "wrong bucket" in words
    assert "<script>" not in shown
    assert inbox.state(request) == "withdrawn"


def test_no_command_is_led_to_it(inbox) -> None:
    """By the network that a human approved."""
    inbox.ask()
    assert inbox.rig.port in own_ports()
    for channel in inbox.rig.channels:
        channel.close()
    assert inbox.rig.port not in own_ports()


def test_who_has_left_is_logged_out_and_reads_nothing(inbox) -> None:
    """Their session, and the links in their mails: from the moment on that it stands in the log."""
    request = inbox.ask()
    inbox.deliver(request)
    client = inbox.rig.client()
    inbox.rig.login(client)
    assert "make deploy" in client.get("/").text
    inbox.store.people.remove("alice", [inbox.rig.people["alice"]], [], "os:1:bob")
    for path in ("/", f"/r/{request.id}", "/grants", "/several"):
        response = client.get(path)
        assert (response.status_code, response.headers["location"]) == (303, "/login")
    assert client.post(f"/r/{request.id}", data={"answer": "approve"}).status_code == 403
    assert decided_nothing(inbox, request)


def test_what_a_held_run_changed_is_shown_whole(inbox, page, monkeypatch: pytest.MonkeyPatch) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    monkeypatch.setattr("humanlayer_agent.channels.web.pages.present", lambda *args, **more: present(build_held()))
    html = inbox.rig.alice().get(f"/r/{request.id}").text
    shown = " ".join(page(html).text.split())
    for part in ("a yes applies exactly this, and runs nothing", "changes src/b (4 to 9 bytes)", "What it printed"):
        assert part in shown.replace("It was run held", "it was run held")
    assert "<ins>+&lt;!channel&gt;" in html
    assert '<span class="dim">+++ src/b</span>\n' in html, "each line stands in one of its own"
    assert "Approve: apply this" in html
    assert "run it once" not in html
    assert "all done &lt;b&gt;" in html
