"""Connections that say nothing, half of something, or that slowly, keep nobody out and end."""

import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from humanlayer_agent.channels.web.connections import Limits
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

    def __init__(self, port: int, said: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.say(said)
        self.socket.setblocking(False)

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
                pass
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


def get(port: int) -> str:
    return f"GET /login HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"


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
            # A connection of its own each time: browsers send again what a connection that was idle did not take.
            with inbox.rig.client() as client:
                client.cookies = inbox.rig.alice().cookies
                assert client.get(home).status_code == 200
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
    inbox.rig.limits = SHORT
    inbox.restart()
    line = Line(inbox.rig.port)
    lines.append(line)
    until(lambda: not line.say(100 * get(inbox.rig.port)), "the end of who asks on and reads nothing")
