"""Where policy bundles come from: files, servers, git repositories, and what none of them can do to us."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.language.release import MAX_RELEASE
from humanlayer_agent.policy_tools.bundle_sources import fetch
from tests.support.certificates import make_certificates

CONTENT = b'{"a":"bundle"}'


class Server(BaseHTTPRequestHandler):
    over: threading.Event

    def do_GET(self) -> None:
        if self.path == "/good":
            self._answer(200, {"Content-Length": str(len(CONTENT))}, CONTENT)
        elif self.path == "/short":
            self._answer(200, {"Content-Length": "1000"}, CONTENT)
        elif self.path == "/large":
            self._answer(200, {}, b"x" * (MAX_RELEASE + 1_000_000))
        elif self.path in ("/plain", "/file"):
            to = {"/plain": "http://127.0.0.1:1/x", "/file": "file:///etc/passwd"}[self.path]
            self._answer(302, {"Location": to}, b"")
        elif self.path == "/slow":
            self._answer(200, {"Content-Length": "1000"}, b"x", wait=True)
        else:
            self._answer(404, {}, b"")

    def _answer(self, code: int, headers: dict[str, str], content: bytes, *, wait: bool = False) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()
        if wait:
            self.over.wait(60)

    def handle(self) -> None:
        with suppress(OSError):  # who asked has gone
            super().handle()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    made = make_certificates(tmp_path / "tls")
    Server.over = threading.Event()
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    threading.Thread(target=listening.serve_forever, args=[0.01], daemon=True).start()
    monkeypatch.setenv("SSL_CERT_FILE", str(made.authority))
    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield f"https://localhost:{listening.server_port}"
    Server.over.set()
    listening.shutdown()
    listening.server_close()


def test_a_server(server: str) -> None:
    assert fetch(f"{server}/good") == CONTENT
    assert len(fetch(f"{server}/large")) == MAX_RELEASE + 1  # which is none
    assert fetch(f"{server}/short") == CONTENT  # cut short, which the form of a bundle shows
    for path, why in (("none", "404"), ("plain", "not https"), ("file", "not https|not allowed")):
        with pytest.raises(ConfigError, match=why):
            fetch(f"{server}/{path}")
    with pytest.raises(ConfigError, match="did not come in time"):
        fetch(f"{server}/slow", seconds=0.3)


def test_a_server_that_nobody_vouches_for(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(ConfigError, match="certificate"):
        fetch(f"{server}/good")


@pytest.mark.parametrize(
    "source",
    ["http://example.org/x", "ftp://example.org/x", "file:///etc/passwd", "git+ssh://x/y#a:b", "git+http://x/y#a:b", "x://y",
     "git+https://x/y", "git+file:///x#-upload-pack=id:b", "git+file:///x#a:/etc/passwd", "https://me:secret@example.org/x"],
)  # fmt: skip
def test_other_addresses_are_refused_unasked(source: str) -> None:
    with pytest.raises(ConfigError) as refused:
        fetch(source)
    assert "secret" not in str(refused.value)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"y" * (MAX_RELEASE + 10))
    assert len(fetch(str(path))) == MAX_RELEASE + 1
    for wrong in (tmp_path, tmp_path / "none", Path("/dev/zero")):
        with pytest.raises(ConfigError, match="can't be read"):
            fetch(str(wrong))


def test_a_repository_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks, filters, submodules and settings of the repository, of ours and of the user: all of them leave a mark."""
    mark, work = tmp_path / "mark", tmp_path / "work"
    bad = f"touch {mark}"
    home = tmp_path / "home"
    home.mkdir()

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-C", str(work), "-c", "user.name=x", "-c", "user.email=x@x", *words],
            check=True,
            capture_output=True,
        )

    work.mkdir()
    git("init", "-q", "-b", "main")
    (work / "acme.bundle").write_bytes(CONTENT)
    (work / "link.bundle").symlink_to("/etc/passwd")
    (work / ".gitattributes").write_text("*.bundle filter=evil diff=evil\n")
    (work / ".gitmodules").write_text('[submodule "x"]\npath = x\nurl = ext::sh -c "touch mark"\n')
    git("add", ".")
    git("commit", "-q", "-m", "x")
    for hook in ("post-checkout", "reference-transaction", "post-merge", "pre-auto-gc"):
        path = work / ".git/hooks" / hook
        path.write_text(f"#!/bin/sh\n{bad}\n")
        path.chmod(0o755)
    settings = f'[core]\nhooksPath = {work}/.git/hooks\nfsmonitor = "{bad}"\n[filter "evil"]\nsmudge = "{bad}"\nclean = "{bad}"\n'
    settings += f'[diff "evil"]\ntextconv = "{bad}"\n[url "ext::sh -c touch% {mark} "]\ninsteadOf = file://\n[protocol]\nallow = always\n'
    (home / ".gitconfig").write_text(settings)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(work / ".git"))
    monkeypatch.setenv("GIT_TEMPLATE_DIR", str(work / ".git"))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "core.hooksPath")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(work / ".git/hooks"))
    mark.unlink(missing_ok=True)
    assert fetch(f"git+file://{work}#main:acme.bundle") == CONTENT
    assert fetch(f"git+file://{work}#main:link.bundle") == b"/etc/passwd"  # the link itself, which is no bundle
    for what, why in (("main:none", "none"), ("other:acme.bundle", "other")):
        with pytest.raises(ConfigError, match=f"git says: .*{why}"):
            fetch(f"git+file://{work}#{what}")
    with pytest.raises(ConfigError, match="did not come in time"):
        fetch(f"git+file://{work}#main:acme.bundle", seconds=0)
    assert not mark.exists()
