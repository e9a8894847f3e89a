"""Sources of releases (policy bundles, signer lists): a file, an https address, or a file in a git repository.

Whatever comes is one text of bounded size that came within a deadline, and is worth what its signature says. Nothing of
it is run: git is asked for one object, without a working tree, so that no filter, hook or submodule has a part in it,
and without anybody's settings.
"""

import os
import re
import resource
import signal
import stat
import subprocess
import threading
import time
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.language.release import MAX_RELEASE

DEADLINE_S = 30.0
"""So long a release may take to come, from the first step to the last byte."""
_MAX_PACK = 64 * 1024 * 1024
"""So large a file git may write: a repository of policies is a small one."""
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,200}", re.ASCII)
_FORMS = "expected a file, https://HOST/PATH, or git+https://HOST/REPOSITORY#BRANCH:PATH"


def fetch(source: str, *, seconds: float = DEADLINE_S) -> bytes:
    """Return the bytes of the release at `source` (one more than one may have, where it is larger).

    Args:
        source: the path of a file, `https://...`, or `git+https://REPOSITORY#REF:PATH` (`git+file:///...` for a mirror
            on this machine).
        seconds: it must be there by then.

    Raises:
        ConfigError: it can't be had, or nobody knows how.
    """
    scheme, separator, _ = source.partition("://")
    if not separator:
        return _of_file(Path(source).expanduser())
    if scheme not in ("https", "git+https", "git+file"):
        raise ConfigError(f"{source}: {_FORMS}")
    try:
        place = urlsplit(source).netloc
    except ValueError as error:
        raise ConfigError(f"{source}: {error}: {_FORMS}") from error
    if "@" in place:
        raise ConfigError("such an address has no password in it: git reads that from ~/.netrc")
    until = time.monotonic() + seconds
    return _of_git(source, until) if scheme.startswith("git+") else _in_time(source, until)


def _of_file(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError(f"{path}: can't be read: not a regular file")
            return file.read(MAX_RELEASE + 1)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error


def _in_time(source: str, until: float) -> bytes:
    """Ask a server. One that sends a byte now and then holds nobody for longer."""
    found: list[bytes] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            found.append(_of_server(source, until))
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(max(0.0, until - time.monotonic()))
    if found:
        return found[0]
    if not failed:
        raise ConfigError(f"{source}: did not come in time")
    if isinstance(failed[0], ConfigError):
        raise failed[0]
    raise ConfigError(f"{source}: can't be fetched: {failed[0]}") from failed[0]


# ---- https --------------------------------------------------------------------------------------------


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if not newurl.startswith("https://"):
            raise ConfigError(f"{req.full_url}: leads to {newurl[:200]}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _of_server(source: str, until: float) -> bytes:
    opener = urllib.request.build_opener(_OnlyHttps())
    with opener.open(source, timeout=max(0.1, until - time.monotonic())) as answer:
        content: bytes = answer.read(MAX_RELEASE + 1)
    return content


# ---- git ----------------------------------------------------------------------------------------------

_SETTINGS = ("core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false")
_KEPT_VARIABLES = ("PATH", "HOME", "https_proxy", "HTTPS_PROXY", "no_proxy", "NO_PROXY")
_AUTHORITIES = {"SSL_CERT_FILE": "GIT_SSL_CAINFO", "SSL_CERT_DIR": "GIT_SSL_CAPATH"}
"""What Python's TLS reads, and what git calls it: one list of authorities for both ways."""
_BRANCH = "refs/heads/bundle"


def _of_git(source: str, until: float) -> bytes:
    repository, _, what = source.removeprefix("git+").partition("#")
    ref, _, path = what.partition(":")
    if not _REF.fullmatch(ref) or not path or path.startswith("/"):
        raise ConfigError(f"{source}: {_FORMS}")
    with TemporaryDirectory() as folder:
        _git(["init", "--quiet", "--bare", "--template=", folder], repository, until)
        fetch = ["fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", repository]
        _git(["-C", folder, *fetch, f"{ref}:{_BRANCH}"], repository, until)
        return _git(["-C", folder, "cat-file", "blob", f"{_BRANCH}:{path}"], repository, until)


def _git(arguments: list[str], repository: str, until: float) -> bytes:
    """Run git without anybody's settings, and return what it prints, up to the size of a release."""
    named = {name: name for name in _KEPT_VARIABLES} | _AUTHORITIES
    environ = {name: os.environ[ours] for ours, name in named.items() if ours in os.environ} | {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": repository.partition("://")[0],
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    options = [word for each in _SETTINGS for word in ("-c", each)]
    try:
        process = subprocess.Popen(
            ["git", *options, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_PACK, _MAX_PACK)),
        )
    except OSError as error:
        raise ConfigError(f"git can't be run: {error.strerror}") from error
    ended = threading.Timer(max(0.0, until - time.monotonic()), _end, [process])
    ended.start()
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        content = process.stdout.read(MAX_RELEASE + 1)
        if len(content) > MAX_RELEASE:
            _end(process)
            return content
        said = process.stderr.read(2_000).decode(errors="replace")
        if process.wait() != 0:
            if time.monotonic() >= until:
                raise ConfigError(f"{repository}: did not come in time")
            raise ConfigError(f"{repository}: {_in_words(said)}")
        return content
    finally:
        ended.cancel()
        _end(process)


def _in_words(said: str) -> str:
    """Return what git has said, and in our words what it says otherwise than it is here."""
    if f"died of signal {signal.SIGXFSZ}" in said:
        return f"too large: git may fetch {_MAX_PACK // 2**20} MiB of a repository, which is for releases alone"
    if "dubious ownership" in said:
        return "belongs to another user than who fetches from it, so git does not open it: chown it, or name the file"
    return f"git says: {' '.join(said.split())[-300:] or 'nothing'}"


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End git, and what it has started."""
    if process.poll() is None:
        with_group = os.getpgid(process.pid) == process.pid
        (os.killpg if with_group else os.kill)(process.pid, signal.SIGKILL)
