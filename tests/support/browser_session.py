"""A headless Chromium that a test uses as a person would: look at a page, type, press keys, click what can be seen.

It is driven over the DevTools protocol. Clicks and keys are real input events, so what is covered, hidden or disabled
can't be clicked here either. See `browser` for taking a picture of a page that nobody uses.
"""

import base64
import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support.browser import OPTIONS, BrowserError, find_chromium

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection


LETTERS = "abcdefghijklmnopqrstuvwxyz"

_WHERE = """(() => {
  const found = [...document.querySelectorAll(%s)].find(e => !%s || e.textContent.trim().startsWith(%s));
  if (!found) return null;
  found.scrollIntoView({block: 'center', behavior: 'instant'});
  const box = found.getClientRects()[0] || {width: 0}, x = box.left + box.width / 2, y = box.top + box.height / 2;
  const top = document.elementFromPoint(x, y);
  return {x, y, seen: box.width > 0 && found.contains(top)};
})()"""


class Control:
    """A connection over which commands go to Chromium, and what happens comes back."""

    def __init__(self, connection: "ClientConnection") -> None:
        self._connection = connection
        self._number = 0

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol, and its result. Raises BrowserError."""
        self._number += 1
        self._connection.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = self._receive()
            if message.get("id") == self._number:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error'].get('message')}")
                result: dict[str, Any] = message["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        try:
            message: dict[str, Any] = json.loads(self._connection.recv(timeout=PATIENCE))
        except TimeoutError as error:
            raise BrowserError("Chromium did not answer") from error
        self._heard(message)
        return message

    def _heard(self, message: dict[str, Any]) -> None:
        """Take note of what has happened."""


class Session(Control):
    """One tab.

    Example:
        with chromium(width=400) as tab:
            tab.open("http://127.0.0.1:8765/")
            tab.click("button", "Approve")
            assert "recorded" in tab.text()
    """

    def __init__(self, connection: "ClientConnection") -> None:
        super().__init__(connection)
        self._loaded = 0
        self.console: list[str] = []
        """What the page complained of."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def open(self, url: str) -> None:
        """Go to an address, and wait until the page is there."""
        before = self._loaded
        self.send("Page.navigate", url=url)
        self._await_load(before)

    def run(self, script: str) -> Any:
        """The value of a JavaScript expression on the page (it may be a promise)."""
        result = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise BrowserError(
                str(result["exceptionDetails"].get("exception", {}).get("description", "a script failed"))
            )
        return result["result"].get("value")

    def text(self) -> str:
        """What can be read on the page."""
        return str(self.run("document.body.innerText"))

    def click(self, selector: str, text: str = "", *, leads_on: bool = True) -> None:
        """Click on the first element of a CSS selector whose text begins with `text`.

        Args:
            leads_on: wait for the page that comes then.
        """
        place = self.run(_WHERE % (json.dumps(selector), json.dumps(text), json.dumps(text)))
        if place is None or not place["seen"]:
            raise BrowserError(f"no {selector} {text!r} can be clicked")
        before = self._loaded
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], button="left", clickCount=1)
        if leads_on:
            self._await_load(before)

    def type(self, selector: str, text: str, *, instead: bool = True) -> None:
        """Type into a field, instead of what stands there."""
        select = ".select()" if instead else ".focus()"
        if (
            self.run(f"(e => e ? (e.focus(), e{select}, true) : false)(document.querySelector({json.dumps(selector)}))")
            is not True
        ):
            raise BrowserError(f"there is no {selector} to type into")
        self.send("Input.insertText", text=text)

    def press(self, key: str, *, leads_on: bool = False) -> None:
        """Press one key: "Tab", "Enter", " ", a small letter."""
        codes = {"Tab": 9, "Enter": 13, " ": 32, "Escape": 27} | {letter: ord(letter.upper()) for letter in LETTERS}
        before = self._loaded
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "windowsVirtualKeyCode": codes[key], "code": "Space" if key == " " else key}
        self.send("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)
        if leads_on:
            self._await_load(before)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what the page looks like, as PNG."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole, format="png")
        path.write_bytes(base64.b64decode(shot["data"]))

    def prefers(self, scheme: str) -> None:
        """As somebody sees it who prefers "dark" or "light" colours."""
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def resize(self, width: int, height: int, *, mobile: bool = False, scale: float = 1) -> None:
        """Another size of the window, in CSS pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=mobile
        )

    def _await_load(self, before: int) -> None:
        while self._loaded == before:
            self._receive()

    def _heard(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case "Page.loadEventFired":
                self._loaded += 1
            case "Log.entryAdded":
                self.console.append(str(message["params"]["entry"].get("text")))
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                self.console.append(json.dumps(message["params"])[:500])


class Browser:
    """A running Chromium; what one tab has stored, another never sees."""

    def __init__(self, port: int, control: Control) -> None:
        self._port = port
        self._control = control

    @contextmanager
    def tab(self, *, width: int = 1000, height: int = 900) -> Iterator[Session]:
        """A new tab with an empty profile of its own."""
        context = self._control.send("Target.createBrowserContext")["browserContextId"]
        try:
            target = self._control.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
            with _connected(self._port, f"/devtools/page/{target}") as connection:
                session = Session(connection)
                session.resize(width, height)
                yield session
        finally:
            self._control.send("Target.disposeBrowserContext", browserContextId=context)


@contextmanager
def browser() -> Iterator[Browser]:
    """A new browser. Raises BrowserError."""
    program = find_chromium()
    if program is None:
        raise BrowserError("there is no Chromium here: apt-get install chromium")
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        command = [program, *OPTIONS, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            port, path = _address(Path(folder) / "DevToolsActivePort", process)
            with _connected(port, path) as connection:
                yield Browser(port, Control(connection))
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE)
            process.kill()
            process.wait()


@contextmanager
def chromium(*, width: int = 1000, height: int = 900) -> Iterator[Session]:
    """A new browser with an empty profile, and one tab. Raises BrowserError."""
    with browser() as made, made.tab(width=width, height=height) as tab:
        yield tab


def _connected(port: int, path: str) -> "ClientConnection":
    from websockets.sync.client import connect

    return connect(f"ws://127.0.0.1:{port}{path}", max_size=None, open_timeout=PATIENCE, compression=None, proxy=None)


def _address(told: Path, process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """The port and the path by which the browser is driven, as Chromium has written them down."""

    def written() -> tuple[int, str] | None:
        if process.poll() is not None:
            raise BrowserError(f"Chromium did not start (exit code {process.poll()})")
        with suppress(OSError, ValueError):
            port, path = told.read_text().split()
            return int(port), path
        return None

    return until(written, "Chromium's port")
