"""The web inbox on a free port, and people who look at it with a real HTTP client."""

import html
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest

from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.channels import http_server
from humanlayer_agent.channels.answer_tokens import Tokens
from humanlayer_agent.channels.http_server import Limits
from humanlayer_agent.channels.settings.schema import Web
from humanlayer_agent.channels.web.app import MailLinks
from humanlayer_agent.channels.web.channel import WebChannel
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.testing.conformance_rig import CannotHappen, World
from humanlayer_agent.testing.patience import PATIENCE
from tests.support.mail_servers import free_port

TOKENS = Tokens(bytes(range(32)))
MAILED = frozenset({"bob@example.com", "carol@example.com"})
VOIDS = frozenset({"br", "meta", "link", "input", "hr", "img"})


class Page(HTMLParser):
    """What people see of a page: its text, and its forms with their fields."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.forms: list[dict[str, str]] = []
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self._open: list[str] = []
        self._field = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.tags.append((tag, values))
        if tag not in VOIDS:
            self._open.append(tag)
        if tag == "form":
            self.forms.append({})
        elif tag in ("input", "textarea") and self.forms:
            self.forms[-1][values.get("name", "")] = values.get("value", "")
            self._field = values.get("name", "") if tag == "textarea" else ""

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, "tags are closed in order"

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["textarea"]:
            self.forms[-1][self._field] = data.removeprefix("\n")
        elif self._open[-1:] not in (["style"], ["title"]):
            self.words.append(data)

    @property
    def text(self) -> str:
        return "".join(self.words)

    def form(self, answer: str) -> dict[str, str] | None:
        return next((form for form in self.forms if form.get("answer") == answer), None)


class Surface:
    """The page of one request, as alice has it open."""

    def __init__(self, rig: "WebRig", request_id: str) -> None:
        self._rig = rig
        self._path = f"/r/{request_id}"
        self._opened, self._served = self._look(), rig.serving
        self._last: dict[str, str] = {}

    def _look(self) -> Page:
        return Page(self._rig.alice().get(self._path).text)

    def text(self) -> str:
        return re.sub(r"\d+ (?:min \d+ )?s left", "", self._look().text)

    def frame(self) -> str:
        page = self._rig.alice().get(self._path).text
        changing = (
            r"<details class=\"card\">\s*<summary>Change.*?</details>"  # not offered where a text field can't hold it
        )
        page = re.sub(rf'<pre class="code".*?</pre>|{changing}', "", page, flags=re.DOTALL).replace("Beware: ", "")
        page = re.sub(r"[0-9a-f]{32,}|\d\d:\d\d:\d\d|\d+ (?:min \d+ )?s left", "", page)
        return re.sub(r"<title>.*?</title>", "", Page(page).text)

    def offers(self) -> frozenset[str]:
        return frozenset(form["answer"] for form in self._look().forms if "answer" in form)

    def answer(self, kind: str, who: str, words: str = "") -> None:
        form = self._opened.form(kind) or self._look().form(kind)
        if form is None:
            raise CannotHappen
        if self._served != self._rig.serving:  # after a restart, the form that was open leads nowhere
            form = self._look().form(kind)
            if form is None:
                raise CannotHappen
        self._last = form | ({"edited": words} if kind == "edit" else {"comment": words})
        self._post()

    def grant(self, scope: str, who: str) -> None:
        form = self._opened.form("grant") or self._look().form("grant")
        if form is None:
            raise CannotHappen
        self._last = form | {"scope": scope}
        self._post()

    def repeat(self) -> None:
        before = len(self._rig.said)
        self._post()
        if any("sent before" in words for words in self._rig.said[before:]):
            raise CannotHappen

    def _post(self) -> None:
        client = self._rig.alice()
        try:
            response = client.post(self._path, data=self._last)
        except httpx.TransportError:
            raise CannotHappen from None
        if response.status_code != 200:
            said = re.search(r'<p class="said" role="alert">(.*?)</p>', response.text, re.DOTALL)
            self._rig.said.append(html.unescape(said[1]) if said else response.text)


class WebRig:
    """The pages, with alice, who has logged in by the code on the terminal."""

    def __init__(self) -> None:
        self.people = {"alice": os_user()}
        self.said: list[str] = []
        self.lines: list[str] = []
        self.port = free_port()
        self.path = ""
        self.limits = Limits()
        self.channels: list[WebChannel] = []
        self._clients: dict[int, httpx.Client] = {}
        self._surfaces: dict[str, Surface] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def channel(self) -> WebChannel:
        for before in self.channels:
            before.close()  # a process that died has let go of the port
        settings = Web(type="web", listen=f"127.0.0.1:{self.port}", public_url=self.url + self.path)
        made = WebChannel("web", settings, TOKENS, (MailLinks("mail", MAILED),), show=self._show, limits=self.limits)
        self.channels.append(made)
        return made

    def _show(self, line: str) -> bool:
        self.lines.append(line)
        return True

    def client(self) -> httpx.Client:
        """A browser of its own, that sends what browsers send."""
        # There is no TLS here, and reading the authorities that are trusted takes as long as ten pages.
        return httpx.Client(
            base_url=self.url, headers={"Origin": self.url}, follow_redirects=False, timeout=PATIENCE, verify=False
        )

    def login(self, client: httpx.Client) -> httpx.Response:
        """From then on, `client` asks for paths below its own."""
        client.get("/login")
        response = client.post("/login", data={"code": self.lines[-1].rpartition(" ")[2]})
        client.base_url = f"{self.url}{response.headers.get('location', '/')}"
        return response

    def alice(self) -> httpx.Client:
        """Logged in where the pages are served now."""
        served = [channel for channel in self.channels if channel.health().ok]
        if not served:
            raise CannotHappen
        number = id(served[-1])
        if number not in self._clients:
            self._clients[number] = self.client()
            assert self.login(self._clients[number]).status_code == 303
        return self._clients[number]

    def connections(self) -> set[Any]:
        """What is connected to the server now."""
        server = self.channels[-1]._server.server
        return set(server.server_state.connections) if server else set()

    def send_little_at_once(self) -> None:
        """Have the kernel keep little of what connections from now on do not take."""
        server = self.channels[-1]._server.server
        assert server is not None
        server.servers[0].sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)

    @property
    def serving(self) -> int:
        """Which process serves the pages now."""
        return len(self.channels)

    def surfaces(self, request_id: str) -> list[Surface]:
        shown = self.alice().get(f"/r/{request_id}")
        if shown.status_code != 200:
            return []
        return [self._surfaces.setdefault(request_id, Surface(self, request_id))]

    def told(self, who: str) -> list[str]:
        return self.said

    def pings(self, request_id: str) -> list[str]:
        return []

    def broken(self, fault: str) -> AbstractContextManager[None]:
        raise CannotHappen

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        for channel in self.channels:
            channel.close()


@pytest.fixture
def web_rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebRig]:
    monkeypatch.setattr(http_server, "STARTING", PATIENCE)
    made = WebRig()
    yield made
    made.close()


class Inbox(World):
    """Requests that alice can answer in the inbox, and bob by the link of a mail."""

    rig: WebRig

    def mailed(self, severity: str = "medium", **fields: Any) -> tuple[ApprovalRequest, str]:
        """A request that was sent to bob, and the path of his link."""
        request = self.ask(severity=severity, **fields)
        self.store.surfaces.begin_delivery(request.id, 1, "mail")
        self.store.surfaces.delivered(request.id, 1, "mail", {"to": ["bob@example.com"]}, request.digest, complete=True)
        return request, f"/d/{TOKENS.token('link', request.id, 'bob@example.com')}"


@pytest.fixture
def inbox(web_rig: WebRig, tmp_path: Path) -> Iterator[Inbox]:
    web_rig.people["bob"] = "email:bob@example.com"
    made = Inbox(web_rig, tmp_path)
    yield made
    made.close()


@pytest.fixture
def page() -> Callable[[str], Page]:
    return Page


@pytest.fixture
def tokens() -> Tokens:
    return TOKENS
