"""Headless Chromium, to look at our own pages: a picture, what it asks the network for, what it complains about.

It gets a new profile each time, and reaches nobody but this machine. Debian and Ubuntu call the package `chromium`.
"""

import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from humanlayer_agent.errors import HumanlayerError
from humanlayer_agent.testing.patience import PATIENCE

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--mute-audio"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-default-apps"),
    *("--disable-domain-reliability", "--disable-client-side-phishing-detection", "--no-first-run", "--no-pings"),
    *("--no-default-browser-check", "--disable-dev-shm-usage", "--disable-extensions", "--metrics-recording-only"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    *("--enable-logging=stderr", "--v=0", "--disable-features=Translate,OptimizationHints,MediaRouter"),
)
_CONSOLE = re.compile(r"INFO:CONSOLE[:(]\d+\)?\] (.*)")
_REQUEST = re.compile(r"^(?:https?|wss?|ftp)://")
_ITSELF = "not an origin"
"""How Chromium's log names the origin of a request that no page has made: it asks for the time, for updates ..."""


class BrowserError(HumanlayerError):
    """There is no browser, or it did not do its work."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What happened while a page was open: `console` are messages, `requests` the addresses that it asked for."""

    console: tuple[str, ...]
    requests: tuple[str, ...]


def find_chromium() -> str | None:
    """The program, where one is installed."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


def screenshot(
    page: Path | str, picture: Path, *, width: int = 1200, height: int = 900, scale: float = 1, dark: bool = False
) -> Visit:
    """Take a picture (PNG) of a page.

    Args:
        page: a file, or an address.
        scale: pixels of the picture for one of the page.
        dark: as somebody sees it who prefers dark colours.

    Raises:
        BrowserError: no browser, or no picture.
    """
    more = [f"--screenshot={picture}", f"--window-size={width},{height}", f"--force-device-scale-factor={scale}"]
    if dark:
        more.append("--blink-settings=preferredColorScheme=0")
    visit = _run(page, *more)
    if not picture.is_file():
        raise BrowserError("Chromium has made no picture")
    return visit


def printed(page: Path | str, pdf: Path) -> Visit:
    """Print a page to a PDF file. Raises BrowserError."""
    visit = _run(page, f"--print-to-pdf={pdf}", "--no-pdf-header-footer")
    if not pdf.is_file():
        raise BrowserError("Chromium has printed nothing")
    return visit


def visit(page: Path | str) -> Visit:
    """Open a page and close it again. Raises BrowserError."""
    return _run(page, "--dump-dom")


def _run(page: Path | str, *options: str) -> Visit:
    program = find_chromium()
    if program is None:
        raise BrowserError("there is no Chromium here: apt-get install chromium")
    address = page if isinstance(page, str) and "://" in page else Path(page).absolute().as_uri()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "net.json"
        command = [program, *OPTIONS, f"--user-data-dir={folder}/profile", f"--log-net-log={log}", *options, address]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=PATIENCE, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired as error:
            raise BrowserError(f"Chromium did not end in {PATIENCE:.0f} s") from error
        if done.returncode != 0:
            raise BrowserError(f"Chromium ended with {done.returncode}: {done.stderr[-500:]}")
        return Visit(tuple(_CONSOLE.findall(done.stderr)), tuple(_requests(log)))


def _requests(log: Path) -> list[str]:
    """The addresses in Chromium's own log of its network."""
    try:
        events = json.loads(log.read_text(errors="replace"))["events"]
    except (OSError, ValueError, KeyError) as error:
        raise BrowserError("Chromium has written no log of its network") from error
    said = (event["params"] for event in events if isinstance(event.get("params"), dict))
    urls = (each.get("url") for each in said if each.get("initiator", _ITSELF) != _ITSELF)
    return list(dict.fromkeys(url for url in urls if isinstance(url, str) and _REQUEST.match(url)))
