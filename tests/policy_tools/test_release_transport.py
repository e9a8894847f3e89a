"""Releases over real TLS and from real git repositories, up to what is in force: fetched, verified, refused."""

import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.errors import ConfigError, PolicyError
from humanlayer_agent.policy_tools import bundle_sources, bundles
from humanlayer_agent.policy_tools.bundle_sources import fetch
from tests.support.bundles import Fleet
from tests.support.certificates import make_certificates

PROXIES = ("http_proxy", "https_proxy", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "ALL_PROXY")
Serve = Callable[..., str]


class Server(ThreadingHTTPServer):
    """Serves what `pages` has by path: bytes, or what handles it; and what stands in `repositories`, by git itself."""

    daemon_threads = True
    pages: dict[str, Any]
    repositories: Path
    over: threading.Event


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        path, _, query = self.path.partition("?")
        page = self.server.pages.get(path)
        if callable(page):
            page(self)
        elif isinstance(page, bytes):
            self.answer(200, page)
        elif path.startswith("/git/"):
            self._git(path.removeprefix("/git"), query)
        else:
            self.answer(404, b"")

    def answer(self, code: int, content: bytes, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content_Length": str(len(content)), "Connection": "close", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def _git(self, path: str, query: str) -> None:
        environ = {
            "GIT_PROJECT_ROOT": str(self.server.repositories),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "HOME": "/nonexistent",
        }
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=environ, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        said = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        code = int(said.pop("Status", "200").split()[0])
        self.answer(code, content, **{name.replace("-", "_"): value for name, value in said.items()})

    def handle(self) -> None:
        with suppress(OSError):  # who asked has gone
            super().handle()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Start a server with these pages; returns its address. Its authority is trusted."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    started: list[Server] = []

    def start(pages: dict[str, Any], *, host: str = "localhost", tls: bool = True, hours: int = 24) -> str:
        made = make_certificates(tmp_path / f"tls-{len(started)}", host, hours=hours)
        server = Server(("127.0.0.1", 0), Handler)
        server.pages, server.repositories, server.over = pages, tmp_path, threading.Event()
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(made.certificate, made.key)
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
            monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        started.append(server)
        return f"http{'s' * tls}://localhost:{server.server_port}"

    yield start
    for server in started:
        server.over.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def fleet(tmp_path: Path, own_user: Path) -> Fleet:
    return Fleet(tmp_path)


def refused(source: str, why: str, seconds: float = 20) -> None:
    with pytest.raises(ConfigError, match=why) as error:
        fetch(source, seconds=seconds)
    assert source.removeprefix("git+").partition("#")[0] in str(error.value), "it says which address"


# ---- https -------------------------------------------------------------------------------------------------


def redirect(to: str) -> Callable[[Handler], None]:
    return lambda handler: handler.answer(302, b"", Location=to)


def test_certificates_that_do_not_count(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = {"/x": b"content"}
    good = serve(pages)
    assert fetch(f"{good}/x") == b"content"
    monkeypatch.setenv("SSL_CERT_FILE", "/nonexistent.pem")
    refused(f"{good}/x", "can't be fetched: .*CERTIFICATE_VERIFY_FAILED")
    refused(f"{serve(pages, host='other.example')}/x".replace("127.0.0.1", "localhost"), "can't be fetched: .*ostname")
    refused(f"{serve(pages, hours=-1)}/x", "can't be fetched: .*expired")
    plain = serve(pages, tls=False)
    refused(plain.replace("http:", "https:") + "/x", "can't be fetched: ")
    refused(f"{plain}/x", "expected a file, https://")


def test_where_it_leads(serve: Serve) -> None:
    plain = serve({"/x": b"plain"}, tls=False)
    pages: dict[str, Any] = {"/x": b"content", "/to": redirect("/x"), "/loop": redirect("/loop")}
    pages |= {"/plain": redirect(f"{plain}/x"), "/file": redirect("file:///etc/passwd"), "/ftp": redirect("ftp://h/x")}
    base = serve(pages)
    assert fetch(f"{base}/to") == b"content"
    refused(f"{base}/loop", "can't be fetched: .*(infinite|redirect)")
    for page in ("plain", "file", "ftp"):
        refused(f"{base}/{page}", "which is not https|can't be fetched: .*not allowed")


def test_answers_that_are_no_release(serve: Serve, fleet: Fleet) -> None:
    def cut(handler: Handler) -> None:
        handler.answer(200, text[:-40], Content_Length=str(len(text)))

    def cut_chunk(handler: Handler) -> None:
        handler.answer(200, b"40\r\nxx", Transfer_Encoding="chunked", Content_Length="")

    def endless(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while True:
                handler.wfile.write(b"x" * 65_536)

    def drips(handler: Handler) -> None:
        handler.send_response(200)
        handler.end_headers()
        with suppress(OSError):
            while not handler.server.over.wait(0.02):
                handler.wfile.write(b" ")
                handler.wfile.flush()

    def never(handler: Handler) -> None:
        handler.server.over.wait(60)

    text = fleet.build(7).text
    pages = {"/acme": text, "/cut": cut, "/chunk": cut_chunk, "/endless": endless, "/drips": drips, "/never": never}
    base = serve({**pages, "/broken": lambda handler: handler.answer(500, b""), "/page": b"<html>log in</html>"})
    assert bundles.install(fetch(f"{base}/acme"), base, folder=fleet.folder)[0].title == "acme@7"
    before = {path.name: path.read_bytes() for path in fleet.folder.iterdir()}
    for page, why in (("cut", "cut short"), ("endless", "too large"), ("page", "no JSON")):
        with pytest.raises(PolicyError, match=why):
            bundles.install(fetch(f"{base}/{page}"), base, folder=fleet.folder)
    for page, why in (("chunk", "can't be fetched"), ("broken", "can't be fetched: .*500"), ("none", "404")):
        refused(f"{base}/{page}", why)
    for page in ("drips", "never"):
        refused(f"{base}/{page}", "did not come in time", seconds=0.5)
    refused("https://localhost:1/x", "can't be fetched: ")
    assert {path.name: path.read_bytes() for path in fleet.folder.iterdir()} == before


@pytest.mark.parametrize(
    "source", ["https://[::1/x", "https://localhost:port/x", "https://", "https:///x", "https://a b/x", "https://a/\nb"]
)
def test_an_address_that_is_none(source: str) -> None:
    with pytest.raises(ConfigError):
        fetch(source, seconds=5)


def test_an_address_is_followed_and_set_back(serve: Serve, fleet: Fleet) -> None:
    pages: dict[str, Any] = {}
    source = f"{serve(pages)}/acme.bundle"
    fleet.write("bundle.yaml", f'bundle: acme\nsigners: ["{fleet.signer.fingerprint}"]\nfrom: {source}\n')
    for version, title in ((7, "acme@7"), (8, "acme@8")):
        pages["/acme.bundle"] = fleet.build(version).text
        assert bundles.install(*bundles.fetched(folder=fleet.folder), folder=fleet.folder)[0].title == title
    pages["/acme.bundle"] = fleet.build(7).text
    with pytest.raises(PolicyError, match=rf"{source}: version 7 is older than 8"):
        bundles.install(*bundles.fetched(folder=fleet.folder), folder=fleet.folder)


# ---- git ---------------------------------------------------------------------------------------------------


class Repository:
    """A git repository with a bundle in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        argv = ["git", "-C", str(self.folder), "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, content: bytes, path: str = "acme.bundle") -> str:
        (self.folder / path).write_bytes(content)
        self.git("add", ".")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "policies")


@pytest.fixture(params=["file", "https"])
def address(request: pytest.FixtureRequest, repository: Repository) -> str:
    """Where the repository is: on this disk, or behind a server with a certificate."""
    if request.param == "file":
        return f"git+file://{repository.folder}"
    serve: Serve = request.getfixturevalue("serve")
    return f"git+{serve({})}/git/policies/.git"


def test_a_branch_that_moves_is_followed_and_never_back(repository: Repository, address: str, fleet: Fleet) -> None:
    def install() -> str:
        return bundles.install(fetch(source), source, folder=fleet.folder)[0].title

    source = f"{address}#main:acme.bundle"
    old = repository.commit(fleet.build(7).text)
    assert install() == "acme@7"
    repository.commit(fleet.build(8).text)
    assert install() == "acme@8"
    repository.git("reset", "-q", "--hard", old)
    with pytest.raises(PolicyError, match="version 7 is older than 8"):
        install()
    repository.git("checkout", "-q", "--orphan", "anew")
    repository.commit(fleet.build(9).text)
    repository.git("branch", "-q", "-f", "main", "anew")
    assert install() == "acme@9", "a branch with another history is what its bundle is worth"


def test_what_a_repository_has_not(repository: Repository, address: str) -> None:
    commit = repository.commit(b"content")
    repository.git("tag", "v1")
    (repository.folder / "folder").mkdir()
    repository.commit(b"inside", "folder/acme.bundle")
    assert fetch(f"{address}#v1:acme.bundle") == b"content"
    assert fetch(f"{address}#{commit}:acme.bundle") == b"content"
    assert fetch(f"{address}#main:folder/acme.bundle") == b"inside"
    refused(f"{address}#other:acme.bundle", "git says: .*couldn't find remote ref")
    refused(f"{address}#main:none", "git says: .*none")
    refused(f"{address}#main:folder", "git says: .*folder|bad file")
    refused(f"{address}-none#main:acme.bundle", "git says: ")


def test_what_is_too_large_or_too_slow(
    repository: Repository, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    repository.commit(b"{" * 5_000_000)
    assert len(fetch(f"{address}#main:acme.bundle")) == bundle_sources.MAX_RELEASE + 1
    monkeypatch.setattr(bundle_sources, "_MAX_PACK", 1_000_000)
    repository.commit(os.urandom(2_000_000), "noise")
    refused(f"{address}#main:acme.bundle", "too large: git may fetch 0 MiB of a repository")
    monkeypatch.undo()
    refused(f"{address}#main:acme.bundle", "did not come in time", seconds=0)


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else can give a file away")
def test_a_repository_of_another_user(repository: Repository) -> None:
    repository.commit(b"content")
    for path in [repository.folder, *repository.folder.rglob("*")]:
        os.chown(path, 65534, 65534)
    refused(f"git+file://{repository.folder}#main:acme.bundle", "belongs to another user")


def test_a_server_of_git_that_can_not_be_trusted(serve: Serve, repository: Repository) -> None:
    repository.commit(b"content")
    plain = serve({}, tls=False)
    base = serve({"/led/info/refs": redirect(f"{plain}/git/policies/.git/info/refs?service=git-upload-pack")})
    assert fetch(f"git+{base}/git/policies/.git#main:acme.bundle") == b"content"
    refused(f"git+{base}/led#main:acme.bundle", "git says: ")
    refused(f"git+{plain}/git/policies/.git#main:acme.bundle", "expected a file, https://")
    other = serve({}, host="other.example")
    refused(f"git+{other}/git/policies/.git#main:acme.bundle", "git says: .*certificate")
    refused(f"git+{base}/git/policies/.git#main:acme.bundle", "git says: .*certificate")  # of an authority of before


def test_a_server_of_git_that_never_answers(serve: Serve) -> None:
    base = serve({"/slow/info/refs": lambda handler: handler.server.over.wait(60)})
    refused(f"git+{base}/slow#main:acme.bundle", "did not come in time", seconds=1)
