"""The question on the screen: what is asked, the keys, the countdown; one run of a prompt_toolkit application.

Small pieces of the prompt's screen.

Which rows of a request are on the screen, and whether its whole command has been.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from prompt_toolkit.application import Application
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent, merge_key_bindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Layout, VSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.output import ColorDepth, Output
from prompt_toolkit.styles import Style as Styles

from humanlayer_agent.approvals.attention import is_typed
from humanlayer_agent.channels.offers import Foresight
from humanlayer_agent.channels.plain_text import MIN_WIDTH, Row, batch_rows, editing_rows, offer_rows, rows
from humanlayer_agent.channels.presentation import Presentation
from humanlayer_agent.channels.terminal.inline_editor import CommandEditor
from humanlayer_agent.channels.terminal.key_presses import QUIET, GuardedInput, KeyGuard
from humanlayer_agent.errors import RunTerminated
from humanlayer_agent.safe_text import one_line


def text_window(get: Callable[[], StyleAndTextTuples], height: int | None = None) -> Window:
    return Window(FormattedTextControl(get), height=height, dont_extend_height=True)


def joined_lines(lines: list[StyleAndTextTuples]) -> StyleAndTextTuples:
    found: StyleAndTextTuples = []
    for index, line in enumerate(lines):
        found += [("", "\n"), *line] if index else line
    return found


def in_lines(items: list[StyleAndTextTuples], columns: int) -> list[StyleAndTextTuples]:
    """`items` beside each other, in as many lines as that takes."""
    lines: list[StyleAndTextTuples] = [[]]
    used = 0
    for item in items:
        width = sum(len(fragment[1]) for fragment in item)
        if used and used + width > columns:
            lines.append([])
            used = 0
        lines[-1] += item
        used += width
    return lines


def key_label(key: str, what: str, ready: bool = True) -> StyleAndTextTuples:
    return [("", " "), ("class:key" if ready else "class:off", key), ("" if ready else "class:off", f" {what}  ")]


def time_left(milliseconds: int) -> str:
    seconds = max(0, -(-milliseconds // 1000))
    hours, rest = divmod(seconds, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d} left" if hours else f"{rest // 60}:{rest % 60:02d} left"


MIN_HEIGHT = 3
"""Rows for the request below which nothing can be approved: too little of it would be in sight at once."""


class Pager:
    """The rows that are on the screen, and the part of what has to be seen that has been.

    Args:
        lay_out: gives the rows for a width. lines: so many, by the rows' `ends`, have to be seen. what: they are.
    """

    def __init__(self, lay_out: Callable[[int], list[Row]], lines: int, what: str = "lines") -> None:
        self._lay_out = lay_out
        self._lines = lines
        self._what = what
        self._lines_seen = 0
        self._width = 0
        self._height = 0
        self._rows: list[Row] = []
        self._top = 0
        self._seen = 0
        self.too_small = False

    @property
    def fits(self) -> bool:
        return len(self._rows) <= self._height

    @property
    def all_seen(self) -> bool:
        return self._lines_seen >= self._lines

    def has_shown(self, lines: int) -> bool:
        """Tell whether the first so many lines have been on the screen."""
        return self._lines_seen >= lines

    def resize(self, width: int, height: int) -> bool:
        """Lays out for a screen of this size; whether everything fits."""
        self.too_small = width < MIN_WIDTH or height < MIN_HEIGHT
        if width != self._width:
            self._width, self._rows = width, self._lay_out(width)
            self._seen = self._rows_of(self._lines_seen)
        self._height = max(height, 1)
        self._top = min(self._top, max(len(self._rows) - self._height, 0))
        return self.fits

    def page(self) -> list[Row]:
        """The rows to show now."""
        return self._rows[self._top : self._top + self._height]

    def _rows_of(self, lines: int) -> int:
        """Return how many rows, from the first, the first `lines` lines of the command fill."""
        done = 0
        for index, row in enumerate(self._rows):
            if done >= lines:
                return index
            done += row.ends
        return len(self._rows)

    def note_seen(self) -> None:
        """The page was drawn. Only what follows what was seen before counts: nothing can be jumped over."""
        if self._top <= self._seen and not self.too_small:
            self._seen = max(self._seen, min(self._top + self._height, len(self._rows)))
            self._lines_seen = max(self._lines_seen, sum(row.ends for row in self._rows[: self._seen]))

    def forward(self, one_row: bool) -> None:
        """A page on, or a row; never past what was drawn, so that keys in quick succession skip nothing."""
        step = 1 if one_row else max(self._height - 1, 1)
        self._top = max(min(self._top + step, len(self._rows) - self._height, self._seen - 1), 0)

    def back(self, one_row: bool) -> None:
        self._top = max(self._top - (1 if one_row else max(self._height - 1, 1)), 0)

    def position(self) -> str:
        """The position in what does not fit, for people."""
        if not self.all_seen:
            return f"{self._lines - self._lines_seen} of {self._lines} {self._what} not seen"
        last = min(self._top + self._height, len(self._rows))
        return f"{self._top + 1}-{last} of {len(self._rows)}"


BELOW = 1
"""Rows below the keys: what happened to a key that did nothing, or the reason that is being typed."""
TICK = 0.1
"""Seconds between two looks at the clock, at `cancelled` and at the terminal's modes."""
REPAINT = 1.0
"""Seconds after which everything is drawn anew, in case another program wrote on the screen."""

_ALONE = "the last answers came quickly: this one is approved once, by y, and typed"
_IGNORED = "ignored: keys came too early or all at once"
FORWARD = (" ", "v", "f", "j", "pagedown", "down")
BACK = ("b", "k", "pageup", "up")
BY_ROW = frozenset({"j", "k", Keys.Down, Keys.Up})

STYLES = Styles.from_dict(
    {
        "dim": "ansibrightblack",
        "strong": "bold",
        "mark": "bold underline",
        "odd": "reverse",
        "allow": "ansigreen",
        "ask": "bold ansiyellow",
        "deny": "bold ansired",
        "warning": "bold ansired",
        "key": "bold",
        "off": "ansibrightblack",
        "notice": "ansiyellow",
        "rule": "ansibrightblack",
    }
)


class Decision(NamedTuple):
    """The answer that the human pressed. `edited` is the command that an edit makes of it, `scope` the offer by which
    more than this once is approved. `also` are the ids of the other requests that it answers as well.
    """

    kind: Literal["approve", "reject", "edit", "respond", "terminate"]
    comment: str = ""
    edited: str = ""
    scope: str = ""
    also: tuple[str, ...] = ()


class OpenEditor(NamedTuple):
    """The human wants their own editor for `text`."""

    text: str


Mode = Literal["ask", "reason", "edit", "stop", "scope", "batch"]
PAGES: frozenset[Mode] = frozenset({"scope", "batch"})
"""The modes in which something else is shown than the request."""
WRITING: frozenset[Mode] = frozenset({"reason", "edit"})
"""The modes in which a human types text, and not single keys that decide."""


class Prompt:
    """Shows one request and waits for one answer.

    Args:
        view: what is shown.
        until: milliseconds since the epoch when the question closes without an answer.
        cancelled: tells that the request was decided elsewhere or withdrawn.
        command: what can be edited, exactly; "" where nothing can.
        draft: what the human has made of it in their editor, or before it.
        notice: is shown at first.
        to_type: what has to be typed to approve it, because the last answers came too quickly; "" where nothing has.
        unconfined: what asks for the same, but unconfined; "" where it would run so anyway.
        holding: what has it run held first, for the human to see what it changes; "" where it can't.
        foresee: gives what each of the view's offers would have meant before; None where that is not known.
        alike: how many requests that are like this one wait to be asked here.
        batch: gives these, by their ids, this one first; () where there are none any more.
        waiting: how many other questions wait for this terminal.
        discard: forgets input that the terminal holds and we did not read yet.
        modes_changed: puts changed terminal modes back, and tells whether that was needed.
        clock: monotonic seconds.  now: milliseconds since the epoch.
    """

    def __init__(
        self,
        view: Presentation,
        *,
        until: int,
        cancelled: Callable[[], bool],
        command: str = "",
        draft: str = "",
        notice: str = "",
        to_type: str = "",
        unconfined: str = "",
        holding: str = "",
        foresee: Callable[[], Sequence[Foresight | None]] = lambda: (),
        alike: Callable[[], int] = lambda: 0,
        batch: Callable[[], Sequence[tuple[str, Presentation]]] = lambda: (),
        waiting: Callable[[], int] = lambda: 0,
        discard: Callable[[], None] = lambda: None,
        modes_changed: Callable[[], bool] = lambda: False,
        input: Input,
        output: Output,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._view = view
        self._to_type = to_type
        self._unconfined, self._holding = unconfined, holding
        self._worded = "it is answered in words: n" if view.question else ""
        self._foresee = foresee
        self._until = until
        self._cancelled = cancelled
        self._alike = alike
        self._batch = batch
        self._waiting = waiting
        self._discard = discard
        self._modes_changed = modes_changed
        self._clock = clock
        self._now = now
        self._guard = KeyGuard(clock)
        self._input = GuardedInput(
            input,
            self._guard,
            strict=lambda: self._mode not in WRITING,
            ignored=lambda: self._note(_IGNORED),
        )
        self._output = output
        self._mode: Mode = "ask"
        self._notice = notice
        self._queue = 0
        self._request = Pager(lambda width: rows(view, width), len(view.command) + len(view.stdin))
        self._shown = self._request  # the page of another mode, while that lasts
        self._together: tuple[str, ...] = ()  # the other requests that it shows
        self._others = 0
        self._responds = False  # what is written is an answer for the agent, and not the reason of a no
        self._types = False  # what is written is what this is about: who was too quick approves by that
        self._reason = Buffer(multiline=False, on_text_changed=_keep_visible)
        self._reason_window = Window(BufferControl(self._reason), height=1)
        self._editor = CommandEditor(
            command,
            draft or command,
            guard=self._guard,
            clock=clock,
            note=self._note,
            back=self._back,
            submit=lambda text: self._after_silence(Decision("edit", edited=text)),
            leave=lambda text: self._after_silence(OpenEditor(text)),
        )
        self._body: StyleAndTextTuples = []
        self._rule: StyleAndTextTuples = []
        self._keys: StyleAndTextTuples = []
        self._body_window = Window(
            FormattedTextControl(lambda: self._body, focusable=True, show_cursor=False), dont_extend_height=True
        )
        self._app: Application[Decision | OpenEditor | None] = self._application()

    def run(self) -> Decision | OpenEditor | None:
        """Asks; None where the time passed or the request was decided elsewhere.

        Raises:
            RunTerminated: Ctrl-C.
            EOFError: the terminal went away.
        """
        try:
            return self._app.run(
                pre_run=self._start, set_exception_handler=False, in_thread=_inside_event_loop(), handle_sigint=True
            )
        finally:
            clear_typeahead(self._input)

    # ---- time ----------------------------------------------------------------------------------------

    def _start(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._failed)
        self._discard()
        self._guard.rearm()
        self._app.create_background_task(self._tick())

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        # A prompt that breaks must end, and not stay on the screen without its clock.
        self._finish_with(context.get("exception") or RuntimeError(str(context.get("message"))))

    async def _tick(self) -> None:
        painted = self._clock()
        while True:
            await asyncio.sleep(TICK)
            try:
                if self._closed():
                    self._finish(None)
                    return
                if self._modes_changed():
                    self._start_over("the terminal was changed by another program")
                self._queue, self._others = self._waiting(), self._alike()
            except Exception as error:
                self._finish_with(error)
                return
            if self._guard.look() and self._mode not in WRITING:
                self._discard()  # what is typed is text, of which nothing is lost
            if self._clock() - painted >= REPAINT:
                painted = self._clock()
                self._repaint()
            self._app.invalidate()

    def _closed(self) -> bool:
        return self._now() >= self._until or self._cancelled()

    def _repaint(self) -> None:
        # Also undo what a stray program may have set: scroll region, origin and insert mode, character set, cursor.
        self._output.write_raw("\x1b[r\x1b[?6l\x1b[4l\x1b(B\x0f\x1b[H")
        self._app.renderer.reset(leave_alternate_screen=False)

    # ---- answers -------------------------------------------------------------------------------------

    def _finish(self, decision: Decision | OpenEditor | None) -> None:
        if not self._app.is_done:
            self._app.exit(result=decision)

    def _finish_with(self, error: BaseException) -> None:
        if not self._app.is_done:
            self._app.exit(exception=error)

    def _note(self, notice: str = "") -> None:
        """Says why a key did nothing; the next one counts after a silence."""
        self._notice = notice
        self._guard.rearm()

    def _start_over(self, notice: str = "") -> None:
        self._discard()
        self._note(notice)

    def _switch(self, mode: Mode) -> None:
        self._mode = mode
        self._notice = ""
        self._responds = self._types = False
        self._reason.reset()
        windows = {"reason": self._reason_window, "edit": self._editor.window}
        self._app.layout.focus(windows.get(mode, self._body_window))

    def _after_silence(self, decision: Decision | OpenEditor) -> None:
        """Decides if no other key follows within `QUIET` seconds: a pasted character is followed by the next one."""
        batches, mode = self._guard.batches, self._mode

        def decide() -> None:
            begun = self._input.flush_keys()  # an Esc in the same read, which the parser has kept for what may follow
            if self._mode != mode:
                return
            if begun or self._guard.batches != batches:
                self._note(_IGNORED)
            else:
                self._finish(None if self._closed() else decision)

        asyncio.get_running_loop().call_later(QUIET, decide)

    @property
    def _pager(self) -> Pager:
        """Whatever pages are turned of."""
        return self._shown if self._mode in PAGES else self._request

    def _offer(self) -> None:
        """Shows the scopes by which more than this once may be approved, or says why there are none."""
        if not self._view.offers:
            why = f"it can't be remembered: {self._view.no_offer}"
            self._note(why if self._view.no_offer else "there is nothing to choose: y approves all of it")
            return
        if why_not := self._not_yet() or (_ALONE if self._to_type else ""):
            self._note(why_not)
            return
        views = self._view.offers
        seen = [*self._foresee(), *[None] * len(views)][: len(views)]
        self._shown = Pager(lambda width: offer_rows(views, seen, width), len(views), "scopes")
        self._switch("scope")
        self._start_over()

    def _list(self) -> None:
        """Shows this request and those that are like it and wait, all of them whole."""
        found = self._batch()
        if self._to_type:
            self._note(_ALONE)
            return
        if not found:
            self._note("nothing that is like it waits any more")
            return
        views = [view for _, view in found]
        lines = sum(len(view.command) + len(view.stdin) for view in views)
        self._together = tuple(request_id for request_id, _ in found[1:])
        self._shown = Pager(lambda width: batch_rows(views, width), lines)
        self._switch("batch")
        self._start_over()

    def _choose(self, number: int) -> None:
        """Takes the scope of this number, from 1, once it was shown whole."""
        if self._pager.too_small or not self._pager.has_shown(number):
            self._note("look at it first: space shows the next page")
        else:
            self._after_silence(Decision("approve", scope=self._view.offers[number - 1].name))

    def _asked_for(self) -> str:
        """What stands before the line that the human writes."""
        return " Type it: " if self._types else " Tell it: " if self._responds else " Why not? "

    def _approve(self) -> None:
        """Approves it once, or has what it is about typed first where the last answers came too quickly."""
        if why_not := self._worded or self._not_yet():
            self._note(why_not)
        elif self._to_type:
            self._switch("reason")
            self._types = True
        else:
            self._after_silence(Decision("approve"))

    def _written(self) -> None:
        """Takes the line that the human wrote for what it was asked as; where it is not enough, nothing happens."""
        words = self._reason.text
        if self._types:
            if is_typed(self._to_type, words):
                self._finish(Decision("approve", words))
        elif not self._responds:
            self._finish(Decision("reject", words))
        elif words.strip():
            self._finish(Decision("respond", words))

    def _back(self, notice: str = "") -> None:
        self._switch("ask")
        self._start_over(notice)

    # ---- keys ----------------------------------------------------------------------------------------

    def _application(self) -> Application[Decision | OpenEditor | None]:
        writing = Condition(lambda: self._mode == "reason")
        editing = Condition(lambda: self._mode == "edit")
        why = Window(
            FormattedTextControl(lambda: [("class:strong", self._asked_for())]),
            width=10,
        )
        reason = ConditionalContainer(VSplit([why, self._reason_window], height=1), filter=writing)
        notice = ConditionalContainer(text_window(lambda: [("class:notice", f" {self._notice}")], 1), filter=~writing)
        editor = ConditionalContainer(self._editor.window, filter=editing)
        rest = ConditionalContainer(Window(), filter=~editing)
        rule, choices = text_window(lambda: self._rule, 1), text_window(lambda: self._keys)
        body = HSplit([self._body_window, editor, rule, choices, reason, notice, rest])
        app: Application[Decision | OpenEditor | None] = Application(
            Layout(body, focused_element=self._body_window),
            key_bindings=merge_key_bindings([self._bindings(), self._page_keys(), self._editor.keys(editing)]),
            style=STYLES,
            input=self._input,
            output=self._output,
            color_depth=ColorDepth.from_env(),  # NO_COLOR
            full_screen=True,
            mouse_support=False,
        )
        app.ttimeoutlen = QUIET / 2  # an Esc at the end of a paste must be heard before a y in it is taken
        app.timeoutlen = 0.1
        app.before_render += lambda _: self._painting()
        app.after_render += lambda _: self._painted()
        return app

    def _painting(self) -> None:
        self._output.write_raw("\x1b[?2026h")  # the terminal shows what follows at once: no flicker
        self._compose()

    def _painted(self) -> None:
        self._output.write_raw("\x1b[?2026l")
        self._output.flush()
        if self._mode != "edit":
            self._pager.note_seen()

    def _bindings(self) -> KeyBindings:  # noqa: C901
        keys = KeyBindings()
        asking = Condition(lambda: self._mode == "ask")
        stopping = Condition(lambda: self._mode == "stop")
        writing = Condition(lambda: self._mode == "reason")
        editing = Condition(lambda: self._mode == "edit")
        editable = Condition(lambda: bool(self._editor.command))

        @keys.add("c-c", eager=True)
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            self._finish_with(RunTerminated("stopped by Ctrl-C at the question"))

        @keys.add("y", filter=asking)
        def _(event: KeyPressEvent) -> None:
            self._approve()

        @keys.add("n", filter=asking)
        def _(event: KeyPressEvent) -> None:
            self._switch("reason")
            self._responds = bool(self._worded)

        @keys.add("e", filter=asking & editable)
        def _(event: KeyPressEvent) -> None:
            if self._editor.why_not:
                self._note(self._editor.why_not)
            else:
                self._switch("edit")

        @keys.add("u", filter=asking & Condition(lambda: bool(self._unconfined)))
        def _(event: KeyPressEvent) -> None:
            if why_not := self._editor.why_not or self._not_yet():
                self._note(why_not)
            else:
                self._after_silence(Decision("edit", edited=self._unconfined))

        @keys.add("h", filter=asking & Condition(lambda: bool(self._holding)))
        def _(event: KeyPressEvent) -> None:
            if why_not := self._editor.why_not or self._not_yet():
                self._note(why_not)
            else:
                self._after_silence(Decision("edit", edited=self._holding))

        @keys.add("c-x", filter=asking & editable, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._editor.leave()

        @keys.add("q", filter=asking)
        def _(event: KeyPressEvent) -> None:
            self._switch("stop")
            self._start_over()

        @keys.add("y", filter=stopping)
        def _(event: KeyPressEvent) -> None:
            self._after_silence(Decision("terminate"))

        @keys.add("n", filter=stopping)
        @keys.add("escape", filter=stopping | writing, eager=True)
        @keys.add("c-g", filter=stopping | writing)
        def _(event: KeyPressEvent) -> None:
            self._back()

        @keys.add("enter", filter=writing, eager=True)
        @keys.add("c-j", filter=writing, eager=True)
        def _(event: KeyPressEvent) -> None:
            if self._guard.batch_size > 1:
                self._reason.insert_text(" ")  # the newline of a paste
            else:
                self._written()

        @keys.add("tab", filter=writing, eager=True)
        def _(event: KeyPressEvent) -> None:
            if self._guard.batch_size > 1:
                self._reason.insert_text(" ")  # of a paste
            elif not self._types:
                self._responds = not self._responds

        @keys.add(Keys.BracketedPaste, filter=writing, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._reason.insert_text(" ".join(event.data.split()))

        @keys.add(Keys.BracketedPaste, filter=asking | stopping, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._start_over("a paste is not an answer")

        @keys.add("enter", filter=asking, eager=True)
        @keys.add("c-j", filter=asking, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._note("Enter is not an answer: y runs it, n rejects it")

        for key in FORWARD:
            keys.add(key, filter=asking)(lambda event: self._turn_page(self._pager.forward, event))
        for key in BACK:
            keys.add(key, filter=asking)(lambda event: self._turn_page(self._pager.back, event))

        @keys.add("c-z", eager=True)
        @keys.add("c-\\", eager=True)
        @keys.add("c-d", filter=~editing, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._note("submit it or go back first" if self._mode == "edit" else "answer first: y, n or q")

        return keys

    def _page_keys(self) -> KeyBindings:
        """The keys of what is shown instead of the request: scopes, of which a digit chooses one, and all that are
        alike, which y and n answer. b goes back, others turn pages.
        """
        keys = KeyBindings()
        asking = Condition(lambda: self._mode == "ask")
        choosing = Condition(lambda: self._mode == "scope")
        listing = Condition(lambda: self._mode == "batch")

        @keys.add("a", filter=asking)
        def _(event: KeyPressEvent) -> None:
            self._offer()

        @keys.add("t", filter=asking & Condition(lambda: self._others > 0))
        def _(event: KeyPressEvent) -> None:
            self._list()

        for number in range(1, len(self._view.offers) + 1):
            keys.add(str(number), filter=choosing)(lambda event: self._choose(int(event.key_sequence[0].key)))

        @keys.add("y", filter=listing)
        def _(event: KeyPressEvent) -> None:
            if why_not := self._not_yet():
                self._note(why_not)
            else:
                self._after_silence(Decision("approve", also=self._together))

        @keys.add("n", filter=listing)
        def _(event: KeyPressEvent) -> None:
            self._after_silence(Decision("reject", also=self._together))

        @keys.add("y", filter=choosing)
        @keys.add("enter", filter=choosing | listing, eager=True)
        @keys.add("c-j", filter=choosing | listing, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._note("that is not an answer here: b goes back")

        @keys.add("b", filter=choosing | listing)
        @keys.add("escape", filter=choosing | listing, eager=True)
        @keys.add("c-g", filter=choosing | listing)
        def _(event: KeyPressEvent) -> None:
            self._back()

        @keys.add(Keys.BracketedPaste, filter=choosing | listing, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._start_over("a paste is not an answer")

        for key in FORWARD:
            keys.add(key, filter=choosing | listing)(lambda event: self._turn_page(self._pager.forward, event))
        for key in BACK[1:]:
            keys.add(key, filter=choosing | listing)(lambda event: self._turn_page(self._pager.back, event))
        return keys

    def _turn_page(self, turn: Callable[[bool], None], event: KeyPressEvent) -> None:
        turn(event.key_sequence[0].key in BY_ROW)
        self._note()

    def _not_yet(self) -> str:
        """Return why what is shown can't be approved now, or ""."""
        if self._pager.too_small:
            return "make the window larger to see the command"
        if not (self._shown if self._mode == "batch" else self._request).all_seen:
            what = "plan" if self._view.plan else "command"
            return f"look at the whole {what} first: space shows the next page"
        return ""

    # ---- drawing -------------------------------------------------------------------------------------

    def _compose(self) -> None:
        """Lays the screen out anew: as many rows of the request as fit, a rule with the clock, the keys."""
        size = self._output.get_size()
        keys = in_lines(self._choices(paging=False), size.columns)
        if self._mode == "edit":
            shown = editing_rows(self._view, size.columns)[: size.rows // 2]
        else:
            if not self._pager.resize(size.columns, size.rows - 1 - len(keys) - BELOW):
                keys = in_lines(self._choices(paging=True), size.columns)
                self._pager.resize(size.columns, size.rows - 1 - len(keys) - BELOW)
            shown = self._pager.page()
        self._body = joined_lines([[(f"class:{f.style}", f.text) for f in row.fragments] for row in shown])
        self._rule = [("class:rule", self._rule_text(size.columns))]
        self._keys = joined_lines(keys)

    def _rule_text(self, columns: int) -> str:
        waiting = f" · {self._queue} more wait" if self._queue else ""
        left = f" {self._pager.position()} " if not self._pager.fits and self._mode != "edit" else ""
        right = f" {time_left(self._until - self._now())}{waiting} "
        fill = columns - len(left) - len(right) - 4
        return f"──{left}{'─' * fill}{right}──" if fill >= 0 else f"─{right}".ljust(columns, "─")

    def _choices(self, paging: bool) -> list[StyleAndTextTuples]:
        if self._types:
            wanted = f" You approved the last ones quickly. Type what this is about: {one_line(self._to_type)}"
            return [[("class:strong", wanted)], key_label("Enter", "run once"), key_label("Esc", "back")]
        if self._mode == "reason":
            enter, tab = ("answer", "reject instead") if self._responds else ("reject", "answer the agent instead")
            return [key_label("Enter", enter), key_label("Tab", tab), key_label("Esc", "back")]
        if self._mode == "edit":
            submit = key_label("Ctrl-S", "submit", self._editor.ready)
            return [submit, key_label("Ctrl-X", "your editor"), key_label("Esc", "back")]
        if self._mode in PAGES:
            return self._page_choices(paging)
        if self._mode == "stop":
            return [
                [("class:strong", " Stop the whole run?")],
                key_label("y", "stop", self._guard.armed),
                key_label("n", "back", self._guard.armed),
            ]
        armed = self._guard.armed
        ready = armed and not self._not_yet()
        if self._worded:
            found = [key_label("n", "answer", armed)]
        else:
            applies = self._view.held is not None and self._view.held.applies
            yes = "approve the plan" if self._view.plan else "apply this" if applies else "run once"
            found = [key_label("y", yes, ready), key_label("n", "reject", armed)]
        if self._view.offers:
            found.append(key_label("a", "allow more than once", ready))
        if self._editor.command:
            found.append(key_label("e", "edit", armed))
        if self._holding:
            found.append(key_label("h", "try it held first", ready))
        if self._unconfined:
            found.append(key_label("u", "unconfined", ready))
        if self._others:
            found.append(key_label("t", f"these {self._others + 1} together", armed))
        found.append(key_label("q", "stop the run", armed))
        return [*found, key_label("v", "next page"), key_label("b", "back")] if paging else found

    def _page_choices(self, paging: bool) -> list[StyleAndTextTuples]:
        armed, ready = self._guard.armed, self._guard.armed and not self._not_yet()
        if self._mode == "scope":
            numbers = range(1, len(self._view.offers) + 1)
            found = [key_label(str(n), f"allow {n}", armed and self._pager.has_shown(n)) for n in numbers]
        else:
            count = len(self._together) + 1
            found = [key_label("y", f"run each of {count} once", ready), key_label("n", f"reject {count}", armed)]
        found.append(key_label("b", "back", armed))
        return [*found, key_label("v", "next page"), key_label("k", "row up")] if paging else found


def _keep_visible(buffer: Buffer) -> None:
    """Make what is typed or pasted go to the screen, the store and the model as it is seen: safe, on one line."""
    safe = one_line(buffer.text)
    if safe != buffer.text:
        buffer.document = Document(safe)


def _inside_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
