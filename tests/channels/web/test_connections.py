"""Connections that say nothing, half of something, or that slowly, keep nobody out and end."""

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from humanlayer_agent.channels.http_server import Limits
from humanlayer_agent.testing.patience import PATIENCE, until

MANY = 500
SHORT = Limits(head=0.2, body=0.2)


@pytest.fixture(autouse=True)
def files() -> Iterator[None]:
    """Both ends of all these connections are files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Line:
    """One connection to the inbox, of somebody who is no browser."""

    def __init__(self, port: int, said: str = "", window: int = 0) -> None:
        self.socket = socket.socket()
        self.socket.settimeout(PATIENCE)
        if window:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        self.socket.connect(("127.0.0.1", port))
        self.say(said)
        self.socket.setblocking(False)
        self.heard = False

    def say(self, text: str) -> bool:
        """Say something; False where nobody listens any more."""
        try:
            self.socket.send(text.encode())
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    @property
    def is_open(self) -> bool:
        try:
            while self.socket.recv(65536):
                self.heard = True
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False


@pytest.fixture
def lines(inbox) -> Iterator[list[Line]]:
    with ExitStack() as closing:
        opened: list[Line] = []
        yield opened
        for line in opened:
            closing.callback(line.socket.close)


def post(path: str, port: int, length: int) -> str:
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n"
        f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n"
    )


def sees(inbox, path: str) -> bool:
    """Whether alice, who comes by a new connection, sees a page. She may have come behind more at once than are let in."""
    with inbox.rig.client() as client:
        client.cookies = inbox.rig.alice().cookies
        try:
            return client.get(path).status_code == 200
        except httpx.TransportError:
            return False


def get(port: int) -> str:
    return f"GET /login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("said", ["", "GET / HTTP/1.1\r\nHost: 127", "body"], ids=["nothing", "half a head", "no body"])
def test_many_that_are_half_open_keep_nobody_out(inbox, page, lines: list[Line], said: str) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    port = inbox.rig.port
    for _ in range(MANY):
        lines.append(Line(port, post("/login", port, 100) if said == "body" else said))
    alice = inbox.rig.alice()
    form = page(alice.get(f"/r/{request.id}").text).form("approve")
    assert alice.post(f"/r/{request.id}", data=form).status_code == 200
    assert inbox.state(request) == "approved"
    until(lambda: sum(line.is_open for line in lines) < inbox.rig.limits.each, "most of them ended")


@pytest.mark.long
def test_many_that_drip_and_come_again_keep_nobody_out(inbox, lines: list[Line]) -> None:
    home = inbox.rig.alice().base_url
    port, over, again = inbox.rig.port, threading.Event(), 0
    lines += [Line(port, "GET / HTTP/1.1\r\nX: ") for _ in range(MANY)]

    def drip() -> None:
        nonlocal again
        while not over.wait(0.01):
            for number, line in enumerate(lines):
                if not line.say("x"):
                    line.socket.close()
                    lines[number] = Line(port, "GET / HTTP/1.1\r\nX: ")
                    again += 1

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        until(lambda: again > 100, "that many of them came again")
        for _ in range(5):
            until(lambda: sees(inbox, home), "the inbox")
    finally:
        over.set()
        dripping.join()


def test_what_is_being_answered_is_not_ended_for_others(inbox, page, lines: list[Line]) -> None:
    request = inbox.ask()
    inbox.deliver(request)
    alice = inbox.rig.alice()
    form = page(alice.get(f"/r/{request.id}").text).form("approve")
    decided, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        decided.set()
        assert go_on.wait(PATIENCE)

    inbox.after_decide = wait
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(alice.post(f"/r/{request.id}", data=form)))
    asking.start()
    assert decided.wait(PATIENCE)
    lines += [Line(inbox.rig.port) for _ in range(MANY)]
    go_on.set()
    asking.join()
    assert [answer.status_code for answer in answers] == [200]


@pytest.mark.parametrize("step", ["nothing", "head", "body", "second head"])
def test_whoever_drips_is_ended(inbox, lines: list[Line], step: str) -> None:
    port = inbox.rig.port
    began = {
        "nothing": "",
        "head": "GET /login HTTP/1.1\r\nX: ",
        "body": post("/login", port, 1_000_000),
        "second head": get(port) + "GET",
    }
    inbox.rig.limits = SHORT
    inbox.restart()
    line = Line(port, began[step])
    lines.append(line)
    until(lambda: not (line.is_open and (step == "nothing" or line.say("x"))), f"the end of who drips its {step}")


def test_whoever_takes_no_answer_is_ended(inbox, lines: list[Line]) -> None:
    request = inbox.ask("echo " + "x" * 100_000)
    inbox.deliver(request)
    (cookie,) = inbox.rig.alice().cookies.jar
    inbox.rig.send_little_at_once()
    line = Line(inbox.rig.port, window=2048)
    lines.append(line)
    here = line.socket.getsockname()
    found = until(
        lambda: next((each for each in inbox.rig.connections() if each.client == here), None), "the connection"
    )
    host = f"Host: 127.0.0.1:{inbox.rig.port}"
    found.limits = SHORT  # from the answer on
    line.say(f"GET {cookie.path}r/{request.id} HTTP/1.1\r\n{host}\r\nCookie: {cookie.name}={cookie.value}\r\n\r\n")
    until(lambda: found not in inbox.rig.connections(), "the end of who reads nothing")
    assert found.cycle.response_started, "it was answered"


@pytest.mark.long
@pytest.mark.parametrize(
    "at_once", [pytest.param(1, id="one by one", marks=pytest.mark.long), pytest.param(20, id="many at once")]
)
def test_many_that_guess_without_a_pause_keep_nobody_out(inbox, lines: list[Line], at_once: int) -> None:
    """Each sends its next code with the answer to the last one, or before it: then it is always we who have to answer."""
    home = inbox.rig.alice().base_url
    port, over = inbox.rig.port, threading.Event()
    body = "code=AAAAA-AAAAA"
    guess = at_once * (post("/login", port, len(body)) + body)
    lines += [Line(port, guess) for _ in range(200)]

    def go_on() -> None:
        while not over.wait(0.01):
            for number, line in enumerate(lines):
                if not line.is_open:
                    line.socket.close()
                    lines[number] = Line(port, guess)
                elif line.heard or at_once > 1:
                    line.heard = False
                    line.say(guess)

    guessing = threading.Thread(target=go_on)
    guessing.start()
    try:
        until(lambda: at_once > 1 or list(inbox.store.events(type="login.refused")), "that codes are compared")
        for path in ("/login", home) * 3:
            until(lambda path=path: sees(inbox, path), path)
    finally:
        over.set()
        guessing.join()


def test_who_asks_on_before_the_answer_is_ended(inbox, lines: list[Line]) -> None:
    """Such a connection never waits for us, so it would never be the one that has to go."""
    line = Line(inbox.rig.port, 2 * get(inbox.rig.port))
    lines.append(line)
    until(lambda: not line.is_open, "the end of who does not wait")
    assert not line.heard


def test_the_oldest_goes_and_not_who_was_silent_longest(inbox, lines: list[Line]) -> None:
    inbox.rig.limits = Limits(head=PATIENCE, each=4)
    inbox.restart()
    port = inbox.rig.port
    lines += [Line(port) for _ in range(4)]
    assert lines[0].say(get(port))
    until(lambda: lines[0].is_open and lines[0].heard, "an answer to the first")
    lines.append(Line(port))
    until(lambda: not lines[0].is_open, "its end")
    assert all(line.is_open for line in lines[1:])


def test_junk_writes_nothing_on_the_terminal(inbox, lines: list[Line], caplog: pytest.LogCaptureFixture) -> None:
    """The login code stands there."""
    for _ in range(3):
        line = Line(inbox.rig.port, "junk\r\n\r\n")
        lines.append(line)
        until(lambda line=line: not line.is_open, "the end of who is not understood")
    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


def test_a_terminal_that_takes_nothing_stops_no_page(inbox) -> None:
    """As after Ctrl-S, while somebody asks for a code again and again."""
    request = inbox.ask()
    inbox.deliver(request)
    rig, go_on, shown = inbox.rig, threading.Event(), len(inbox.rig.lines)

    def show(line: str) -> bool:
        rig.lines.append(line)
        return len(rig.lines) == shown + 1 or go_on.wait(PATIENCE)

    rig._show = show
    inbox.restart()
    alice = rig.alice()  # her code is gone now, and the next one can't be shown
    asking = [threading.Thread(target=lambda: rig.client().get("/login")) for _ in range(60)]
    for each in asking:
        each.start()
    try:
        until(lambda: len(rig.lines) > shown + 1, "that somebody waits for the terminal")
        for _ in range(20):
            assert "make deploy" in alice.get("/").text
        assert not go_on.is_set()
    finally:
        go_on.set()
        for each in asking:
            each.join()
