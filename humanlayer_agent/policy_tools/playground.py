"""The playground: pages on which a policy is written and a command tried, for the one person who has started it.

They are reached at this machine's own address only, by a path that nobody can guess, and with its own host name and
origin (`channels.web.request_checks`). They change nothing: what is typed is judged (`trial`), and kept nowhere.
"""

import asyncio
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from humanlayer_agent.channels.http_server import PageServer
from humanlayer_agent.channels.web.pages import Pages
from humanlayer_agent.channels.web.request_checks import Guard
from humanlayer_agent.policy_tools.trial import Answer, Setting, Trials, failed

HOST = "127.0.0.1"
_FIELDS = 8


class Playground:
    """Serves the pages until it is closed.

    Args:
        setting: what is judged where.
        policy: the text to begin with.
        port: of this machine.

    Example:
        with Playground(setting, "version: 1 ...", 8766) as playground:
            print(playground.url)
            wait()
    """

    def __init__(self, setting: Setting, policy: str, port: int) -> None:
        self._setting = setting
        self._policy = policy
        self._trials = Trials(setting)
        self._turn = asyncio.Lock()
        self._newest = 0
        self._token = secrets.token_urlsafe(24)
        self._address = f"{HOST}:{port}"
        self._server = PageServer(self._address)
        self._show = Pages(f"/p/{self._token}")

    @property
    def url(self) -> str:
        """The address of the page. Whoever knows it can have commands judged here."""
        return f"http://{self._address}/p/{self._token}/"

    def __enter__(self) -> "Playground":
        """Begin to serve.

        Raises:
            ChannelError: the port is taken, or the server does not begin.
        """
        self._server.start(self.app())
        self._trials.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        self._trials.__exit__()

    def app(self) -> Guard:
        """Return the pages as an ASGI application, inside their guard."""
        home = "/p/{token}"
        routes = [
            Route(f"{home}/", self._page, methods=["GET"]),
            Route(f"{home}/", self._judge, methods=["POST"]),
            Route(f"{home}/style.css", self._file, methods=["GET"]),
            Route(f"{home}/playground.js", self._file, methods=["GET"]),
            Route(f"{home}/icon.svg", self._file, methods=["GET"]),
        ]
        handlers = {404: self._missing, 405: self._missing}
        app = Starlette(routes=routes, exception_handlers=handlers)
        return Guard(app, [f"http://{self._address}"], lambda address: address == HOST)

    def _check(self, request: Request) -> None:
        """Raise HTTPException where the path is not the one that was told."""
        if not hmac.compare_digest(request.path_params["token"].encode(), self._token.encode()):
            raise HTTPException(404)

    async def _page(self, request: Request) -> Response:
        self._check(request)
        return self._answer("", self._policy, Answer())

    async def _judge(self, request: Request) -> Response:
        self._check(request)
        form = _form(await request.body(), request.headers.get("content-type", ""))
        command, policy = form.get("command", ""), form.get("policy", "")
        self._newest += 1
        mine = self._newest
        async with self._turn:
            if mine != self._newest:  # whoever types on waits for nothing that was typed before
                return self._answer(command, policy, failed("something newer is being judged: try again"), 503)
            found = await run_in_threadpool(self._trials.judge, command, policy)
        return self._answer(command, policy, found)

    def _answer(self, command: str, policy: str, found: Answer, status: int = 200) -> Response:
        setting = self._setting
        about = {"project": setting.project, "cwd": setting.cwd, "confined": "yes" if setting.confined else ""}
        return self._show.playground(command, policy, asdict(found), about, status=status)

    async def _file(self, request: Request) -> Response:
        self._check(request)
        name = request.url.path.rpartition("/")[2]
        return {"style.css": self._show.style, "icon.svg": self._show.icon}.get(
            name, lambda: self._show.script("playground.js")
        )()

    async def _missing(self, request: Request, error: Exception) -> Response:
        return Response("There is nothing here.\n", status_code=404, media_type="text/plain")


def _form(body: bytes, kind: str) -> Mapping[str, str]:
    """Return the fields of a form, each that is there once, with line feeds as they were typed."""
    if kind.partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        return {}
    try:
        found = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FIELDS, errors="strict")
    except ValueError:
        return {}
    return {name: values[0].replace("\r\n", "\n") for name, values in found.items() if len(values) == 1}
