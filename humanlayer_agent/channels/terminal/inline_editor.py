"""The command, in place, for the human to change: a text of which every character is seen."""

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.margins import NumberedMargin
from prompt_toolkit.layout.processors import TabsProcessor

from humanlayer_agent.channels.plain_text import TAB
from humanlayer_agent.channels.terminal.key_presses import ARMING, KeyGuard
from humanlayer_agent.safe_text import visible

TYPED = 2
"""Keys that typing gives in one read at most (Alt with a letter is two): more are a paste."""


class CommandEditor:
    """A buffer that holds only what can be seen, so that what is submitted is what was on the screen.

    Whatever is pasted into it is spelled out where it can't be seen (`\\u{200b}`), and stays so: the human sees it, and
    takes it away. A command that already has such characters can't be edited here, because putting their spelling into
    their place would change it: `why_not` says so.

    Args:
        command: what the agent proposed, exactly.
        draft: what the human has made of it before.
        guard: knows how the last keys came. clock: monotonic seconds.
        note: shows a line to the human.
        back: leaves the editor without submitting, with a line for the human.
        submit: hands in the edited command. leave: asks for the human's own editor on it. Both are called for a key
            that was pressed by itself, and leave it to the caller to wait for what may follow.
    """

    def __init__(
        self,
        command: str,
        draft: str,
        *,
        guard: KeyGuard,
        clock: Callable[[], float],
        note: Callable[[str], None],
        back: Callable[[str], None],
        submit: Callable[[str], None],
        leave: Callable[[str], None],
    ) -> None:
        self.command = command
        self.why_not = ""
        if visible(draft) != draft:
            self.why_not = "not in place: it has characters that can't be seen (Ctrl-X opens it in your editor)"
        self._draft = draft
        self._guard = guard
        self._clock = clock
        self._note = note
        self._back = back
        self._submit = submit
        self._leave = leave
        self._pasted = float("-inf")
        self.buffer = Buffer(
            document=Document(visible(draft), 0), multiline=True, on_text_changed=lambda _: self._keep_visible()
        )
        self.window = Window(
            BufferControl(self.buffer, input_processors=[TabsProcessor(tabstop=TAB, char1="→", char2=" ")]),
            wrap_lines=True,
            left_margins=[NumberedMargin()],
        )

    @property
    def text(self) -> str:
        """The command as it stands."""
        return self._draft if self.why_not else self.buffer.text

    @property
    def changed(self) -> bool:
        return self.text != self.command

    @property
    def ready(self) -> bool:
        """Tell whether the key that submits would count now."""
        return self._guard.silent and self._settled

    def submit(self, keys: int = 1) -> None:
        """Hands the command in, if the `keys` keys for that were pressed by themselves."""
        if not self._deliberate(keys):
            self._note("ignored: keys came all at once (Ctrl-S submits, pressed by itself)")
        elif not self.text.strip():
            self._note("there is no command left: Esc goes back")
        elif not self.changed:
            self._back("nothing was changed")
        else:
            self._submit(self.text)

    def leave(self) -> None:
        """Asks for the human's own editor."""
        if self._deliberate(1):
            self._leave(self.text)
        else:
            self._note("ignored: keys came all at once (Ctrl-X opens your editor, pressed by itself)")

    def keys(self, active: Condition) -> KeyBindings:
        """The keys of the editor, while it is `active`."""
        keys = KeyBindings()
        insert = self.buffer.insert_text

        @keys.add("escape", filter=active)
        @keys.add("c-g", filter=active)
        def _(event: KeyPressEvent) -> None:
            kept = "not submitted: e goes on with your change, y runs the command above as it is"
            self._back(kept if self.changed else "")

        @keys.add(Keys.BracketedPaste, filter=active, eager=True)
        def _(event: KeyPressEvent) -> None:
            self._pasted = self._clock()
            insert(event.data.replace("\r\n", "\n").replace("\r", "\n"))  # terminals paste lines that end in CR

        keys.add("c-s", filter=active, eager=True)(lambda _: self.submit())
        keys.add("escape", "enter", filter=active)(lambda _: self.submit(2))
        keys.add("c-x", filter=active, eager=True)(lambda _: self.leave())
        keys.add("enter", filter=active, eager=True)(lambda _: insert("\n"))
        keys.add("c-j", filter=active, eager=True)(lambda _: insert("\n"))
        keys.add("tab", filter=active, eager=True)(lambda _: insert("\t"))
        return keys

    def _deliberate(self, keys: int) -> bool:
        return self._guard.alone(keys) and self._settled

    @property
    def _settled(self) -> bool:
        return self._clock() - self._pasted >= ARMING

    def _keep_visible(self) -> None:
        if self._guard.batch_size > TYPED:
            self._pasted = self._clock()
        found = self.buffer.document
        safe = visible(found.text)
        if safe == found.text:
            self._note("")
        else:
            self.buffer.document = Document(safe, len(visible(found.text_before_cursor)))
            self._note("what can't be seen is spelled out here, and is only text now: take it away")
