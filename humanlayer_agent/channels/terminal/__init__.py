"""Asks the person at the controlling terminal."""

import os
import pwd
import select
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from humanlayer_agent.approvals.attention import is_typed
from humanlayer_agent.approvals.authority import ApprovalRule
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver
from humanlayer_agent.channels.batches import alike_to, differences
from humanlayer_agent.channels.offers import EARLIER, Foresight, foresight
from humanlayer_agent.channels.plain_text import as_text, cells, offer_rows
from humanlayer_agent.channels.presentation import Presentation, present
from humanlayer_agent.channels.terminal import external_editor
from humanlayer_agent.channels.terminal.key_presses import ARMING, QUIET
from humanlayer_agent.channels.terminal.prompt import Decision, OpenEditor, Prompt
from humanlayer_agent.channels.terminal.queue import Turn, turn
from humanlayer_agent.errors import ConfigError, NoTerminal, RunTerminated, StoreError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.keys.unlock import PROOF_S, TRIES, has_proved, prove
from humanlayer_agent.policy import needs_line
from humanlayer_agent.processes import tty
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.processes.multiplexer import multiplexer
from humanlayer_agent.safe_text import one_line, visible

UNABLE = frozenset({"", "dumb", "unknown"})
"""Values of TERM for which no screen can be drawn: the question is then asked in plain lines."""


COMMENT_LIMIT = 2000
"""Characters of a human's reason that are kept."""

PATIENCE = 10.0
"""Seconds to wait for our turn to tell something."""

BELL = "\a"
"""What rings a terminal, or has it marked, as its owner has set it up."""

_HERE = {"hour": ", as long as this process lives: its key is gone with it"}
"""What is more to say of a scope that another run could use, by its name: what is answered here is signed with a key
that only this process has.
"""

NO_KEY = "a yes needs a signing key: run hla init, then start again"
"""What the human is told where a passphrase would help, and there is none to type."""


class TerminalAsker:
    """The `Asker` of the controlling terminal: y runs the command once, a allows more of the kind, n rejects it with a
    reason (then Tab answers the agent in words instead), e edits it, q stops the run.

    It reads /dev/tty, so stdin and stdout may be pipes. Questions of several threads and processes on one terminal come
    one after another. Enter, pastes and type-ahead never approve, and nothing approves a command that was not shown
    whole.

    Where something holds the terminal that other processes can have type (`processes.multiplexer`), an answer is worth
    no more than the OS user, until the human has typed the passphrase of the signing key there; but not while all that
    the run starts is confined, since that reaches no terminal.

    Args:
        key: gives the user's signing key, locked and new each time; None where none may sign for this run.
        bell: tells whether the terminal rings, once for each request.

    Example:
        >>> TerminalAsker().name
        'terminal'
    """

    name = "terminal"

    def __init__(
        self, key: Callable[[], Signer | None] = lambda: None, bell: Callable[[], bool] = lambda: False
    ) -> None:
        self._key = key
        self._bell = bell
        self._together: dict[str, tuple[str, Decision]] = {}  # by request: its digest, and what was said of it as well

    @property
    def identities(self) -> tuple[str, ...]:
        """The principals who answer here: the user of this process."""
        return (os_user(),)

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        """Asks, and waits for the answer until `until` (milliseconds since the epoch) or `cancelled()`.

        Raises:
            NoTerminal: no terminal, a background job, or the terminal went away.
            RunTerminated: Ctrl-C.
        """

        def over() -> bool:
            return _now() >= until or cancelled()

        together = self._together.pop(request.id, None)
        if over():
            return None
        with tty.controlling_terminal() as fd, turn(tty.terminal_name(), give_up=over) as place:
            if place is None:
                return None
            if not tty.in_foreground(fd):
                raise NoTerminal("this became a background job while it waited for the terminal")
            assurance = _Assurance(request.rule, "" if request.held else multiplexer(), self._key)
            if together is not None and together[0] == request.digest and assurance.suffices:
                said = f"{_said(together[1], late=False)}, as those before it"
                tty.write(fd, _record(said, _lines(present(request)), _columns(fd)))
                return _answer(request, together[1], assurance.value)
            view = present(request)
            offers = tuple(replace(each, bounds=f"{each.bounds}{_HERE.get(each.name, '')}") for each in view.offers)
            view = replace(view, warnings=(*assurance.warning(), *view.warnings), offers=offers)
            if self._bell():
                tty.write(fd, BELL)
            decision = _asked(_Question(request, view, fd, place, until, cancelled, assurance))
        if decision is None:
            return None
        if decision.kind == "terminate" and not assurance.suffices:
            raise RunTerminated("stopped at the question")  # no vote, and none is needed: it lets nothing run
        for each in request.beside():
            if each.id in decision.also:
                self._together[each.id] = (each.digest, decision)
        return _answer(request, decision, assurance.value)

    def tell(self, text: str) -> None:
        """Says `text` in one line, when it is our turn at the terminal; not at all if that takes too long.

        Raises:
            NoTerminal: as for `ask`.
        """
        deadline = time.monotonic() + PATIENCE
        with (
            tty.controlling_terminal() as fd,
            turn(tty.terminal_name(), give_up=lambda: time.monotonic() >= deadline) as place,
        ):
            if place is not None:
                tty.write(fd, f"{one_line(text)}\n")


class _Assurance:
    """The assurance of whoever answers one request at our terminal.

    It is `terminal`, the highest, where only a human can type there. Where a program holds the terminal that takes
    orders, an agent's command could have given the answer: it is worth no more than any process of this user (`os`),
    until the passphrase of the signing key was typed.

    Args:
        rule: of the request; None where nobody counts votes.
        typist: the program that other processes can have type here; "" where there is none.
        key: gives the user's signing key, locked and new each time; None where none may sign for this run.
    """

    def __init__(self, rule: ApprovalRule | None, typist: str, key: Callable[[], Signer | None]) -> None:
        self._rule = rule
        self._typist = typist
        self._key = key
        self._wrong = 0

    @property
    def value(self) -> str:
        """One of `authority.ASSURANCES`, as it is now."""
        return "os" if self._typist and not self._is_proved else "terminal"

    @property
    def suffices(self) -> bool:
        """Tell whether an answer counts now."""
        return self._rule is None or self._rule.takes(self.value)

    def warning(self) -> tuple[str, ...]:
        """What the human is told about it: a line where other processes can type, else nothing."""
        if not self._typist:
            return ()
        key = self._signer()
        if self._is_proved:
            then = f"a yes counts, because you typed your passphrase within {PROOF_S // 60} minutes"
        elif self.suffices:
            then = "your answer counts as that of any process of yours (os)"
        else:
            then = key if isinstance(key, str) else f"a yes takes your passphrase, once for {PROOF_S // 60} minutes"
        return (f"an agent's command can type here too, through {self._typist}; {then}",)

    def lift(self, fd: int, purpose: str, over: Callable[[], bool]) -> str:
        """Have the human type the passphrase; returns why the answer still does not count, "" where it does.

        Args:
            fd: the controlling terminal.
            purpose: what it is typed for, in a line of its own.
            over: nobody waits for it any more.

        Raises:
            NoTerminal: the terminal can't be silenced.
            RunTerminated: Ctrl-C.
        """
        key = self._signer()
        if isinstance(key, str):
            return key
        tty.write(fd, purpose)
        try:
            return "" if prove(fd, key, over, self._note_wrong) else "your passphrase was not typed"
        except ConfigError as error:
            return str(error)
        except KeyboardInterrupt as error:
            raise RunTerminated("stopped by Ctrl-C at the passphrase") from error

    @property
    def is_refuted(self) -> bool:
        """True once so many wrong passphrases were typed that it is not asked for again."""
        return self._wrong >= TRIES

    def _note_wrong(self) -> None:
        self._wrong += 1

    @property
    def _is_proved(self) -> bool:
        key = self._signer()
        return not isinstance(key, str) and has_proved(key)

    def _signer(self) -> Signer | str:
        """The key, locked, or why there is none that counts."""
        try:
            key = self._key()
            if key is not None:
                _ = key.fingerprint  # one that can't be used is told of before anything is typed
        except ConfigError as error:
            return str(error)
        return key or NO_KEY


@dataclass(frozen=True, slots=True)
class _Question:
    """A request at its turn at the terminal."""

    request: ApprovalRequest
    view: Presentation
    fd: int
    place: Turn
    until: int
    cancelled: Callable[[], bool]
    assurance: _Assurance

    def over(self) -> bool:
        return _now() >= self.until or self.cancelled()


def _asked(question: _Question) -> Decision | None:
    """Asks, and leaves the terminal as it was, with one line about what was decided."""
    fd, lines = question.fd, _lines(question.view)
    try:
        with tty.restored(fd):
            decision = _decided(question)
    except RunTerminated:
        tty.write(fd, _record(f"run stopped by {_user_name()} (Ctrl-C) at", lines, _columns(fd)))
        raise
    except (EOFError, OSError) as error:
        raise NoTerminal(f"the terminal went away during the question: {error or 'end of input'}") from error
    finally:
        tty.discard_input(fd)
    if decision and decision.kind == "edit":
        lines = visible(decision.edited).split("\n")
    counts = decision is None or decision.kind == "terminate" or question.assurance.suffices
    said = _said(decision, late=_now() >= question.until) if counts else "an answer that nothing proves to be yours"
    tty.write(fd, _record(said, lines, _columns(fd)))
    return decision


def _decided(question: _Question) -> Decision | None:
    """Asks until there is an answer that counts from where it is given, or none is wanted any more.

    Raises:
        RunTerminated: Ctrl-C.
    """
    draft, notice = question.request.action.content, ""
    plain = os.environ.get("TERM", "") in UNABLE
    while True:
        decision = _plain_question(question, notice) if plain else _decision(question, draft, notice)
        if decision is None or decision.kind == "terminate" or question.assurance.suffices:
            return decision
        purpose = _record(_PURPOSES[decision.kind], _lines(question.view), _columns(question.fd))
        notice = question.assurance.lift(question.fd, purpose, question.over)
        if question.over():
            return None
        if not notice or decision.kind == "reject" or question.assurance.is_refuted:
            return decision  # where nothing proves it, it is refused where answers are counted, and that is logged
        draft = decision.edited or draft


def _decision(question: _Question, draft: str, notice: str) -> Decision | None:
    """Asks on the whole screen; again where the human's own editor came to nothing."""
    command = question.request.action.content
    while True:
        answer = _prompted(question, draft, notice)
        if not isinstance(answer, OpenEditor):
            return answer
        draft = answer.text
        try:
            edited = external_editor.edit(draft, question.fd, question.over, project=question.request.action.project)
        except external_editor.NotEdited as why:
            notice = str(why)
            continue
        if edited != command:
            return Decision("edit", edited=edited)
        draft, notice = command, "nothing was changed"


def _prompted(question: _Question, draft: str, notice: str) -> Decision | OpenEditor | None:
    from prompt_toolkit.input.vt100 import Vt100Input
    from prompt_toolkit.output.vt100 import Vt100_Output

    fd = question.fd
    with open(os.dup(fd), encoding="utf-8") as reading, open(os.dup(fd), "w", encoding="utf-8") as writing:
        output = Vt100_Output.from_pty(writing, term=os.environ["TERM"], enable_bell=False)
        output.enable_cpr = False  # the answer would arrive as typed keys
        return Prompt(
            question.view,
            until=question.until,
            cancelled=question.cancelled,
            command=question.request.action.content if "edit" in question.request.answers else "",
            draft=draft,
            notice=notice,
            to_type=question.request.to_type,
            unconfined=_unconfined(question.request),
            holding=_holding(question.request),
            foresee=lambda: _foreseen(question.request, question.view),
            alike=lambda: max(len(_alike(question.request)) - 1, 0),
            batch=lambda: _batch(question),
            waiting=question.place.waiting,
            discard=lambda: tty.discard_input(fd),
            modes_changed=tty.ModeWatch(fd).repair,
            input=Vt100Input(reading),
            output=output,
        ).run()


def _unconfined(request: ApprovalRequest) -> str:
    """What the command is edited to where the human wants it unconfined: that is judged, shown and asked about anew."""
    confined = request.decision.confinement is not None
    return needs_line.without_confinement(request.action.content) if confined else ""


def _holding(request: ApprovalRequest) -> str:
    """What the command is edited to where the human wants to see what it changes before that counts; "" where it can't
    be run so, or was already.
    """
    decision = request.decision
    possible = request.can_hold and decision.holds is not None and decision.held is None
    return needs_line.with_hold(request.action.content) if possible else ""


def _alike(request: ApprovalRequest) -> tuple[ApprovalRequest, ...]:
    """It, and those like it that wait to be asked here; () where none do, and where it must be looked at alone."""
    return alike_to(request, request.beside())


def _batch(question: _Question) -> list[tuple[str, Presentation]]:
    """The requests that are answered together, and how each is shown, with what is told of the terminal itself."""
    found, here = _alike(question.request), question.assurance.warning()
    views = [present(each, marked=span) for each, span in zip(found, differences(found), strict=True)]
    shown = [replace(view, warnings=(*here, *view.warnings)) for view in views]
    return [(each.id, view) for each, view in zip(found, shown, strict=True)]


def _foreseen(request: ApprovalRequest, view: Presentation) -> list[Foresight]:
    """What each scope that is offered would have meant before; nothing where that can't be read."""
    try:
        earlier = request.earlier(EARLIER)
    except StoreError:
        return []
    return [foresight(request, offer.name, earlier) for offer in view.offers]


def _answer(request: ApprovalRequest, decision: Decision, assurance: str) -> Answer:
    return Answer(
        kind=decision.kind,
        approver=Approver(os_user(), "terminal", assurance),
        presented_digest=request.digest,
        decision_id=uuid.uuid4().hex,
        comment=one_line(decision.comment.strip())[:COMMENT_LIMIT],
        input_mode="typed",
        edited=decision.edited,
        scope=decision.scope,
    )


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "unknown"


def _now() -> int:
    return time.time_ns() // 1_000_000


def _columns(fd: int) -> int:
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return shutil.get_terminal_size().columns


# ---- what stays on the screen ----------------------------------------------------------------------

_PURPOSES = {"approve": "to approve", "edit": "to change", "reject": "to reject", "respond": "to answer"}
"""What a passphrase is typed for."""


def _said(decision: Decision | None, late: bool) -> str:
    name = one_line(_user_name())
    if decision is None:
        return "not answered in time" if late else "closed without an answer here"
    if decision.kind == "approve":
        return f"approved by {name}"
    if decision.kind == "edit":
        return f"changed by {name} to"
    if decision.kind == "terminate":
        return f"run stopped by {name} at"
    said = "answered" if decision.kind == "respond" else "rejected"
    return f"{said} by {name}" + (f" ({one_line(decision.comment)})" if decision.comment else "")


def _lines(view: Presentation) -> list[str]:
    return ["".join(fragment.text for fragment in line) for line in view.command]


def _record(said: str, lines: list[str], columns: int) -> str:
    """One line for the scrollback, about a command of `lines`."""
    first = lines[0].replace("\t", " ").strip()
    more = f" (+{len(lines) - 1} lines)" if len(lines) > 1 else ""
    return _cut(f"{said}: {first}", max(columns - 1 - len(more), 20)) + more + "\n"


def _cut(text: str, columns: int) -> str:
    if cells(text) <= columns:
        return text
    while cells(text) > columns - 4:
        text = text[: min(len(text) - 1, columns - 4)]
    return text + " ..."


# ---- a terminal that can only print lines ----------------------------------------------------------

_MORE = "more"
"""The word by which the scopes are shown."""

_WORDS: dict[str, Literal["approve", "reject", "respond", "terminate"]] = {
    "yes": "approve",
    "no": "reject",
    "tell": "respond",
    "stop": "terminate",
}


def _plain_question(question: _Question, notice: str = "") -> Decision | None:
    """Asks in plain lines; only the typed word `yes`, in a line that came by itself, approves, or the number of a scope
    that was shown.
    """
    fd, over = question.fd, question.over
    tty.write(fd, as_text(question.view, min(_columns(fd) - 1, 100)) + "\n\n" + (f"{notice}\n\n" if notice else ""))
    yes = "approve the plan" if question.view.plan else "run it once"
    if question.view.held is not None and question.view.held.applies:
        yes = "apply this"
    typed = question.request.to_type
    word_of_it = f" {one_line(typed)}" if typed else ""
    once = f"yes{word_of_it} to {yes}, " if "approve" in question.request.answers else ""
    more = f"{_MORE} to allow more than once, " if question.view.offers and not typed else ""
    try:
        while not over():
            said = _line_after(
                question,
                f"Type {once}{more}no REASON to reject it, tell WORDS to answer it, stop to stop the run: ",
            )
            word, _, comment = said.partition(" ")
            kind = _WORDS.get(word)
            if kind == "approve" and typed:
                if is_typed(typed, comment):
                    return Decision("approve", comment)
                continue
            if said == _MORE and not typed and (chosen := _plain_scope(question)) is not None:
                return chosen
            if kind not in question.request.answers:
                continue
            if kind is not None and (kind == "reject" or bool(comment.strip()) == (kind == "respond")):
                return Decision(kind, comment)
    except KeyboardInterrupt as error:
        tty.write(fd, "\n")
        raise RunTerminated("stopped by Ctrl-C at the question") from error
    tty.write(fd, "\n")
    return None


def _plain_scope(question: _Question) -> Decision | None:
    """Shows the scopes in plain lines, and takes the number of one; None for anything else, and where there is none."""
    offers, columns = question.view.offers, min(_columns(question.fd) - 1, 100)
    if not offers:
        tty.write(question.fd, f"It can't be remembered: {question.view.no_offer}\n")
        return None
    seen = [*_foreseen(question.request, question.view), *[None] * len(offers)][: len(offers)]
    shown = "\n".join(row.text.rstrip() for row in offer_rows(offers, seen, columns))
    tty.write(question.fd, f"{shown}\n\n")
    numbers = {str(number): offer for number, offer in enumerate(offers, 1)}
    chosen = numbers.get(
        _line_after(question, f"Type {' or '.join(numbers)} to allow that, anything else to go back: ")
    )
    return None if chosen is None else Decision("approve", scope=chosen.name)


def _line_after(question: _Question, prompt: str) -> str:
    """A line that is typed once there was a silence after what was shown, and the prompt is there."""
    fd, over = question.fd, question.over
    while select.select([fd], [], [], ARMING)[0] and not over():
        _read(fd)  # what came before the question
    tty.discard_input(fd)
    tty.write(fd, prompt)
    return _typed_line(fd, over).strip()


def _typed_line(fd: int, over: Callable[[], bool]) -> str:
    """One line that was not followed by another at once; "" for a paste, and when time is up."""
    while not over():
        if select.select([fd], [], [], QUIET)[0]:
            line = _read(fd)
            return "" if select.select([fd], [], [], QUIET)[0] else line
    return ""


def _read(fd: int) -> str:
    data = os.read(fd, 4096)
    if not data:
        raise EOFError
    return data.decode("utf-8", "replace")
