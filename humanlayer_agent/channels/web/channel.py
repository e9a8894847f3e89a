"""The channel of type `web`: it shows requests on pages that a thread of this process serves."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.requests import Request

from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.channels.answer_tokens import Tokens, folded
from humanlayer_agent.channels.contract import Audience, Can, Desk, Health, Outcome, Ref
from humanlayer_agent.channels.http_server import Limits, PageServer
from humanlayer_agent.channels.web.app import MailLinks, Site, build_app
from humanlayer_agent.channels.web.sessions import LoginCode
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.processes.identity import os_user

if TYPE_CHECKING:
    from humanlayer_agent.channels.settings.schema import Web


class WebChannel:
    """Serves the pages of `channels/web`.

    Args:
        name: of the channel.
        settings: from the channels file.
        tokens, links: of the mail channels whose links lead here.
        show: shows a line that no agent command can read, and says whether it could; `on_terminal` where it is None.
        limits: of its connections; those of `http_server.Limits` where it is None.

    Example:
        channel = WebChannel("web", Web(type="web"), None, ())
        channel.start(desk)          # http://127.0.0.1:8765/, the code to log in with is on the terminal
    """

    can: frozenset[Can] = frozenset(
        ("approve", "reject", "feedback", "edit", "respond", "escalate", "grant", "show_all")
    )
    shows = 2**31
    pace = 0.0

    def __init__(
        self,
        name: str,
        settings: "Web",
        tokens: Tokens | None,
        links: tuple[MailLinks, ...],
        *,
        show: Callable[[str], bool] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.name = name
        self._settings = settings
        self._tokens = tokens
        self._links = links
        self._login = LoginCode(lambda code: (show or on_terminal)(f"Web inbox: {self.url}  login code: {code}"))
        self._server = PageServer(settings.listen, limits)

    @property
    def url(self) -> str:
        """The address where people reach it."""
        return (self._settings.public_url or f"http://{self._settings.listen}").rstrip("/") + "/"

    def start(self, desk: Desk) -> None:
        """Serve the pages on a thread, and show a code to log in with on the terminal.

        Raises:
            ChannelError: its port is taken, or the server does not begin.
        """
        try:
            self._server.start(build_app(self._site(desk)))
        except ChannelError as error:
            more = "; give another `listen:`" if "can't listen" in str(error) else ""
            raise ChannelError(f"channel {self.name}: {error}{more}") from error
        self._login.offer()

    def _site(self, desk: Desk) -> Site:
        public = urlsplit(self.url)
        origins = [f"{public.scheme}://{public.netloc}"]
        # Not localhost: that may be ::1, where somebody else's server may ask for the login code.
        origins.append(f"http://{self._settings.listen}")
        origins += [f"{public.scheme}://{host}" for host in self._settings.hosts]
        return Site(
            name=self.name,
            desk=desk,
            origins=tuple(dict.fromkeys(origins)),
            base=public.path.rstrip("/"),
            login=self._login,
            owner=os_user(),
            tokens=self._tokens,
            links=self._links,
            peers=self._is_peer,
            proxy_user=self._proxy_user,
        )

    def _is_peer(self, address: str) -> bool:
        """Everything on this machine; from elsewhere only the proxies."""
        return address in ("127.0.0.1", "::1") or address in self._proxies()

    def _proxies(self) -> frozenset[str]:
        proxy = self._settings.proxy
        return frozenset(str(peer) for peer in proxy.peers) if proxy else frozenset()

    def _proxy_user(self, request: Request) -> str:
        proxy = self._settings.proxy
        if proxy is None or request.client is None or request.client.host not in self._proxies():
            return ""
        values = request.headers.getlist(proxy.header)
        return folded(values[0].strip()) if len(values) == 1 else ""

    # What it shows needs nobody to be told: pages are made when they are looked at.

    def deliver(self, request: ApprovalRequest, audience: Audience) -> Ref:
        """It is on the page from now on."""
        return Ref({"path": f"/r/{request.id}"}, request.digest)

    def settle(self, outcome: Outcome, ref: Ref) -> None:
        """The page shows what the store says in any case."""

    def remind(self, outcome: Outcome, ref: Ref, level: int) -> None:
        """Nobody can be reminded by a page."""

    def health(self) -> Health:
        """Return whether the server runs."""
        running = self._server.is_running
        problem = f"the web server does not run: {self._server.failed or 'it was not started'}"
        return Health(running, () if running else (problem,), {"url": self.url})

    def close(self, timeout: float = 2.0) -> None:
        """Stop serving; what is being answered is finished first."""
        self._server.close(timeout)


def on_terminal(line: str) -> bool:
    """Write a line to the terminal of this process, and nowhere else. (What agents run has none.) False without one."""
    with suppress(OSError):
        terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            os.write(terminal, f"{line}\r\n".encode())
            return True
        finally:
            os.close(terminal)
    return False
