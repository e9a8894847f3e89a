"""The kit against the terminal's prompt: each delivery opens it on an emulated screen, with a human who types."""

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from humanlayer_agent.approvals.model import Answer, Approver
from humanlayer_agent.channels.contract import Health, Ref
from humanlayer_agent.channels.offers import offer_views, remembered
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.channels.terminal.prompt import Prompt
from humanlayer_agent.errors import StoreError
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.safe_text import one_line, visible
from humanlayer_agent.testing import patience
from humanlayer_agent.testing.conformance import ChannelConformance
from humanlayer_agent.testing.conformance_rig import CannotHappen
from tests.channels.conftest import Emulator

COLUMNS = 160
GUTTER = re.compile(r"^ *\d* │ ?")
OFFERED = {"y run once": "approve", "n reject": "reject", "e edit": "edit", "a allow more than once": "grant"}
KILL_LINE, SUBMIT = "\x0b", "\x13"
COUNT_WHEN_BOLD = {
    "y": "y run once", "n": "n reject", "e": "e edit", SUBMIT: "Ctrl-S submit", "a": "a allow more than once",
    **{digit: f"{digit} allow {digit}" for digit in "123"},
}  # fmt: skip


class Emulated:
    """What prompt_toolkit writes to, drawn by a terminal emulator."""

    encoding = "utf-8"

    def __init__(self, rows: int) -> None:
        import pyte

        self.size = Size(rows, COLUMNS)
        self.frames = 0
        self.screen = Emulator(COLUMNS, rows)
        self._stream = pyte.Stream(self.screen)
        self._lock = threading.Lock()

    def write(self, text: str) -> None:
        with self._lock:
            self._stream.feed(text)

    def lines(self) -> list[str]:
        with self._lock:
            return [line.rstrip() for line in self.screen.display]

    def bold(self, label: str) -> bool:
        """Whether a key is drawn as one that counts."""
        with self._lock:
            for row, line in enumerate(self.screen.display):
                if (column := line.find(label)) >= 0:
                    return bool(self.screen.buffer[row][column].bold)
        return False

    def flush(self) -> None:
        self.frames += 1

    def isatty(self) -> bool:
        return True


class Terminal:
    """One terminal with one question: the `Surface` of a delivery."""

    def __init__(self, request, cancelled, answered) -> None:
        self.request = request
        self._output = Emulated(40 + visible(request.action.content).count("\n"))
        self._keys_made = create_pipe_input()
        self._keys = self._keys_made.__enter__()
        self._cancelled = cancelled
        self._answered = answered
        self._after: list[str] = []
        self._decision = None
        self._closing = threading.Event()
        self._skipped = 0.0
        self._reads = self._decided = self._read_at = 0
        read_keys = self._keys.read_keys

        def read():
            keys = read_keys()
            if keys:
                self._read_at = self._output.frames  # a frame after this one shows what came of them
                self._reads += 1
            return keys

        self._keys.read_keys = read
        self.thread = threading.Thread(target=self._ask, daemon=True)
        self.thread.start()

    def _ask(self) -> None:
        output = Vt100_Output(self._output, lambda: self._output.size, term="xterm-256color", enable_bell=False)
        output.enable_cpr = False
        while not self._closing.is_set():
            self._decision = Prompt(
                present(self.request),
                until=self.request.expires,
                cancelled=lambda: self._closing.is_set() or self._cancelled(),
                command=self.request.action.content,
                draft=self.request.action.content,
                input=self._keys,
                output=output,
                clock=lambda: time.monotonic() + self._skipped,
            ).run()
            self._decided += 1
            if self._decision is None:
                return
            try:
                self._answered(self, self._decision)
                return
            except StoreError:  # not recorded: it is asked again
                continue
            except Exception:  # the process died
                return

    def close(self) -> None:
        self._closing.set()
        self.thread.join(patience.PATIENCE)

    def record(self, text: str) -> None:
        """What stands in the scrollback in the end."""
        self._after = [one_line(text)]

    # The human's side

    def text(self) -> str:
        self.offers()  # it is drawn
        lines = [GUTTER.sub("", line) for line in self._output.lines() if "left ──" not in line]
        return "\n".join([*lines, *self._after])

    def frame(self) -> str:
        self.offers()
        kept = [line for line in self._output.lines() if "│" not in line and "left ──" not in line]
        return "\n".join(line.replace(" Beware ", "", 1) for line in kept)

    def offers(self) -> frozenset[str]:
        if not self.thread.is_alive():
            return frozenset()
        patience.until(lambda: self._drawn() or not self.thread.is_alive(), self._now)
        found = self._drawn()
        return frozenset(found | ({"respond"} if "reject" in found else set()))

    def _drawn(self) -> set[str]:
        return {kind for line in self._output.lines() for label, kind in OFFERED.items() if label in line}

    def _now(self) -> str:
        return "\n".join(["what comes after:", *self._output.lines()])

    def answer(self, kind, who, words="") -> None:
        if not self.offers():
            raise CannotHappen("the question is closed")
        last = {"approve": "y", "reject": "\r", "respond": "\r", "edit": SUBMIT}[kind]
        self._types(
            {
                "approve": [last],
                "reject": ["n", one_line(words), last],
                "respond": ["n", "\t", one_line(words), last],
                "edit": ["e", KILL_LINE, words, last],
            }[kind]
        )

    def grant(self, scope, who) -> None:
        if "grant" not in self.offers():
            raise CannotHappen("the question is closed, or nothing more is offered")
        names = [view.name for view in offer_views(self.request)]
        if scope not in names:
            raise CannotHappen("there is no key for it")
        self._types(["a", str(names.index(scope) + 1)])

    def _types(self, presses) -> None:
        *_, last = presses
        for keys in presses:
            self._skipped += 1.0  # the human takes their time between two keys
            if keys in COUNT_WHEN_BOLD:
                self._wait(lambda keys=keys: self._output.bold(COUNT_WHEN_BOLD[keys]))
            before = self._reads, self._decided
            self._press(keys)
            if keys == last:
                self._wait(lambda before=before: self._decided > before[1])
                if self._decision is None:
                    raise CannotHappen("the question was closed before the key counted")
            elif keys:
                self._wait(lambda before=before: self._reads > before[0] and self._output.frames > self._read_at)

    def _wait(self, condition) -> None:
        patience.until(lambda: condition() or not self.thread.is_alive(), self._now)
        if not condition():
            raise CannotHappen("the question is closed")

    def _press(self, keys: str) -> None:
        if not self.thread.is_alive():
            raise CannotHappen("the question is closed")
        with contextlib.suppress(OSError):
            self._keys.send_text(keys)

    def repeat(self) -> None:
        raise CannotHappen("a key that was read is gone")


class TerminalChannel:
    """The prompt as a channel: it closes when the request is decided, and what is typed goes to the desk."""

    name = "terminal"
    can = frozenset({"approve", "reject", "feedback", "edit", "respond", "grant", "show_all"})
    shows = 10**9

    def __init__(self, rig) -> None:
        self._rig = rig
        self._desk = None
        self._mine = []

    def start(self, desk) -> None:
        self._desk = desk

    def deliver(self, request, audience) -> Ref:
        def cancelled() -> bool:
            now = self._desk.request(request.id)
            return now is None or now.state != "pending"

        opened = Terminal(request, cancelled, self._answered)
        self._mine.append(opened)
        self._rig.opened.append(opened)
        return Ref({"terminal": str(len(self._rig.opened) - 1)}, request.digest)

    def _answered(self, terminal, decision) -> None:
        given = Answer(
            kind=decision.kind,
            approver=Approver(os_user(), "terminal", "terminal"),
            presented_digest=terminal.request.digest,
            decision_id=uuid.uuid4().hex,
            comment=decision.comment,
            edited=decision.edited,
            scope=decision.scope,
        )
        result = self._desk.decide(terminal.request.id, given)
        if result.outcome in ("late", "refused"):
            self._rig.lines.append(result.reason)

    def settle(self, outcome, ref) -> None:
        terminal = self._rig.opened[int(ref.where["terminal"])]
        if outcome.request.state != "pending":
            terminal.thread.join(patience.PATIENCE)
            more = remembered(outcome.request, outcome.votes)
            said = f"{outcome.request.state} by {outcome.by}: {outcome.request.action.content}"
            terminal.record(f"{said}; and remembered: {more}" if more else said)

    def remind(self, outcome, ref, level) -> None:
        pass  # it is on the screen

    def health(self) -> Health:
        return Health(True)

    def close(self, timeout: float = 2.0) -> None:
        for terminal in self._mine:
            terminal.close()


class TerminalRig:
    def __init__(self) -> None:
        self.people = {"alice": os_user()}
        self.opened: list[Terminal] = []
        self.lines: list[str] = []

    def channel(self) -> TerminalChannel:
        return TerminalChannel(self)

    def surfaces(self, request_id):
        return [each for each in self.opened if each.request.id == request_id]

    def told(self, who):
        return self.lines

    def pings(self, request_id):
        return []

    def broken(self, fault):
        raise CannotHappen("a terminal has no service")


class TestTerminal(ChannelConformance):
    @pytest.fixture
    def rig(self) -> Iterator[TerminalRig]:
        made = TerminalRig()
        yield made
        for each in made.opened:
            each.close()
