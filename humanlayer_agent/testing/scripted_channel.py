"""A channel to a notice board: a folder that any process can post to, and whose humans follow a script.

For tests of what stands around channels, with several processes and processes that are killed. The board keeps what a
real service would: messages that can be changed, and answers that wait until a channel has acknowledged them.
"""

import json
import os
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from humanlayer_agent.approvals.model import Answer, AnswerKind, ApprovalRequest, Approver
from humanlayer_agent.channels.contract import Audience, Can, Desk, Health, Outcome, Ref, Retry, Undeliverable
from humanlayer_agent.channels.offers import offer_views, remembered
from humanlayer_agent.errors import ChannelError, StoreError
from humanlayer_agent.safe_text import one_line, visible, warnings

_OFFERED: tuple[Can, ...] = ("approve", "reject", "edit", "respond", "escalate")
_POLL = 0.01


class Board:
    """The service: messages, answers that were not acknowledged yet, and what humans were told, in a folder.

    Args:
        folder: made where it is not there. Any number of processes may use it.
        limit: characters that one message may have.

    Example:
        >>> import tempfile
        >>> board = Board(Path(tempfile.mkdtemp()))
        >>> board.post({"command": "make deploy", "request": "r1"}) == board.messages("r1")[0]["id"]
        True
    """

    def __init__(self, folder: Path, limit: int = 4_000) -> None:
        self.folder = folder
        self.limit = limit
        for name in ("messages", "answers", "told", "pings", "done"):
            (folder / name).mkdir(parents=True, exist_ok=True)

    # What channels do

    def post(self, message: Mapping[str, Any]) -> str:
        """Post a message. Returns its id.

        Raises:
            Retry, Undeliverable: the board is broken, see `fault`.
        """
        self._check()
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        if len(message["command"]) > self.limit:
            raise Undeliverable(f"the message is longer than {self.limit} characters")
        self._write("messages", name, {**message, "id": name})
        self._write("pings", name, list(message.get("to", ())))
        return name

    def update(self, name: str, message: Mapping[str, Any]) -> None:
        """Change a message, whole."""
        self._check()
        self._write("messages", name, {**message, "id": name})

    def ping(self, name: str, to: Sequence[str]) -> None:
        """Notify people about a message."""
        self._check()
        self._write("pings", f"{name}-{secrets.token_hex(4)}", list(to))

    def tell(self, who: str, text: str) -> None:
        """Say something to one human alone."""
        self._check()
        self._write("told", f"{time.time_ns():020d}-{secrets.token_hex(4)}", {"who": who, "text": text})

    def answers(self) -> list[dict[str, Any]]:
        """Return the answers that no channel has acknowledged yet."""
        return self._read("answers")

    def acknowledge(self, name: str) -> None:
        """Take an answer as recorded: it is not handed over again."""
        with suppress(FileNotFoundError):
            os.rename(self.folder / "answers" / name, self.folder / "done" / name)

    # What humans do and see

    def messages(self, request_id: str = "") -> list[dict[str, Any]]:
        """Return all messages, or those about a request, oldest first."""
        return [each for each in self._read("messages") if request_id in ("", each["request"])]

    def answer(
        self, message: str, kind: AnswerKind | Literal["grant"], who: str, words: str = "", *, name: str = ""
    ) -> str:
        """Have a human answer at a message.

        Args:
            message: its id.
            who: the principal who answers.
            words: the reason, the changed command, the response, or the scope of a grant.
            name: an id of an answer that was there before.

        Returns:
            The id of the answer.
        """
        name = name or f"{time.time_ns():020d}-{secrets.token_hex(4)}"
        self._write("answers", name, {"id": name, "message": message, "kind": kind, "who": who, "words": words})
        return name

    def told(self, who: str) -> list[str]:
        """Return the texts that were said to one human alone."""
        return [each["text"] for each in self._read("told") if each["who"] == who]

    def pings(self, request_id: str) -> list[str]:
        """Return the people whom messages about a request have notified."""
        found = []
        for message in self.messages(request_id):
            for path in sorted((self.folder / "pings").glob(f"{message['id']}*")):
                found += json.loads(path.read_text())
        return found

    @property
    def fault(self) -> str:
        """The way in which the board is broken: "busy", "down", "gone", or "" where it works."""
        with suppress(FileNotFoundError):
            return (self.folder / "fault").read_text()
        return ""

    @fault.setter
    def fault(self, value: str) -> None:
        (self.folder / "fault").write_text(value)

    def _check(self) -> None:
        fault = self.fault
        if fault == "busy":
            raise Retry("the board is busy", after=0.05)
        if fault == "down":
            raise Retry("the board can't be reached")
        if fault == "gone":
            raise Undeliverable("the board is gone")

    def _write(self, kind: str, name: str, value: Any) -> None:
        temporary = self.folder / f".{secrets.token_hex(8)}"
        temporary.write_text(json.dumps(value))
        os.rename(temporary, self.folder / kind / name)

    def _read(self, kind: str) -> list[dict[str, Any]]:
        found = []
        for name in sorted(os.listdir(self.folder / kind)):
            with suppress(FileNotFoundError):  # moved meanwhile
                found.append(json.loads((self.folder / kind / name).read_text()))
        return found


class ScriptedChannel:
    """The channel to a `Board`. A command that is too long for a message is attached to it.

    Args:
        board: the service.
        name: of the channel.
        pace: seconds from one message to the next.
        assurance: how far its identities are trusted.
        attaches: False where it can't attach anything: long commands get no way to approve then.
    """

    can: frozenset[Can] = frozenset((*_OFFERED, "grant", "feedback", "show_all"))

    def __init__(
        self, board: Board, name: str = "board", *, pace: float = 0.0, assurance: str = "chat", attaches: bool = True
    ) -> None:
        self.name = name
        self.pace = pace
        self.shows = board.limit // 2
        self._board = board
        self._assurance = assurance
        self._attaches = attaches
        self._desk: Desk | None = None
        self._closing = threading.Event()
        self._receiver: threading.Thread | None = None

    def start(self, desk: Desk) -> None:
        if self._board.fault == "gone":
            raise ChannelError("the board is gone: make another one")
        self._desk = desk
        self._receiver = threading.Thread(target=self._receive, name=f"{self.name}-receiver", daemon=True)
        self._receiver.start()

    def deliver(self, request: ApprovalRequest, audience: Audience) -> Ref:
        whole = len(visible(request.action.content)) <= self.shows
        complete = whole or self._attaches
        people = [identity for person in audience.people for identity in person.identities]
        message = self._message(request, complete=complete, whole=whole) | {"to": people}
        return Ref({"message": self._board.post(message)}, request.digest, complete)

    def settle(self, outcome: Outcome, ref: Ref) -> None:
        whole = len(visible(outcome.request.action.content)) <= self.shows
        message = self._message(outcome.request, complete=ref.complete, whole=whole)
        said: str = outcome.request.state
        if outcome.by:
            said += f" by {one_line(outcome.by)}"
        if outcome.request.state == "pending":
            said = f"{outcome.missing} more approvals needed" if outcome.votes else ""
        else:
            message["offers"] = []
            if more := remembered(outcome.request, outcome.votes):
                said += f", and remembered: {more}"
        message["state"] = said
        self._board.update(ref.where["message"], message)

    def remind(self, outcome: Outcome, ref: Ref, level: int) -> None:
        people = [message["to"] for message in self._board.messages() if message["id"] == ref.where["message"]]
        self._board.ping(ref.where["message"], people[0] if people else ())

    def find(self, request: ApprovalRequest) -> Sequence[Ref]:
        """See `contract.Finds`."""
        found = self._board.messages(request.id)
        return [Ref({"message": each["id"]}, each["digest"], each["complete"]) for each in found]

    def health(self) -> Health:
        fault = self._board.fault
        if fault:
            return Health(False, (f"the board is {fault}: mend it",))
        if self._receiver is not None and not self._receiver.is_alive() and not self._closing.is_set():
            return Health(False, ("nothing is received any more: start the hub again",))
        return Health(True)

    def close(self, timeout: float = 2.0) -> None:
        self._closing.set()
        if self._receiver is not None:
            self._receiver.join(timeout)

    def _message(self, request: ApprovalRequest, *, complete: bool, whole: bool) -> dict[str, Any]:
        action, command = request.action, visible(request.action.content)
        about = {"agent": action.agent, "in": action.cwd, "why": request.decision.reason, "says": action.model_intent}
        return {
            "request": request.id,
            "digest": request.digest,
            "text": "\n".join(f"{name}: {one_line(value)}" for name, value in about.items()),
            "command": command if whole else f"a command of {len(command)} characters",
            "attached": "" if whole or not complete else command,
            "warnings": warnings(action.content),
            "offers": [
                *(kind for kind in _OFFERED if complete or kind not in ("approve", "edit")),
                *(["grant"] if complete and offer_views(request) else ()),
            ],
            "complete": complete,
            "state": "",
        }

    # Receiving

    def _receive(self) -> None:
        while not self._closing.wait(_POLL):
            for given in self._board.answers():
                if self._closing.is_set():
                    return
                with suppress(Exception):  # what could not be recorded is not acknowledged: it comes again
                    self._record(given)
                    self._board.acknowledge(given["id"])

    def _record(self, given: Mapping[str, Any]) -> None:
        assert self._desk is not None
        who, kind = given["who"], given["kind"]
        known = self._desk.shown_at("message", given["message"])
        if not known:
            known = self._unwritten(given["message"])
        if not known:
            self._board.tell(who, "this message belongs to no request")
            return
        request, ref = known[0]
        if self._desk.person_of(who) is None:
            self._desk.refused(request.id, who, "unknown-identity", "nobody who may answer is known by this identity")
            self._board.tell(who, "you are not an approver")
            return
        words, scope = given["words"], given["words"] if kind == "grant" else ""
        if scope:
            kind, words = "approve", ""
        answer = Answer(
            kind=kind,
            approver=Approver(who, self.name, self._assurance),
            presented_digest=ref.presented_digest,
            decision_id=given["id"],
            comment="" if kind == "edit" else words,
            input_mode="click",
            edited=words if kind == "edit" else "",
            scope=scope,
        )
        result = self._desk.decide(request.id, answer)
        if result.outcome in ("late", "refused"):
            self._board.tell(who, result.reason)

    def _unwritten(self, message: str) -> tuple[tuple[ApprovalRequest, Ref], ...]:
        """Return what is shown at a message that nobody has written down: it is being delivered, or somebody died over
        it.
        """
        assert self._desk is not None
        for each in self._board.messages():
            if each["id"] == message and (request := self._desk.request(each["request"])) is not None:
                return ((request, Ref({"message": message}, each["digest"], each["complete"])),)
        return ()


def build(
    name: str, settings: Any, *, secrets: Mapping[str, str], profiles: Any, signer: Any = None
) -> ScriptedChannel:
    """A `contract.Factory`: the board is the folder that $HUMANLAYER_TEST_BOARD names."""
    folder = os.environ.get("HUMANLAYER_TEST_BOARD", "")
    if not folder:
        raise StoreError("set HUMANLAYER_TEST_BOARD to the folder of the board")
    return ScriptedChannel(Board(Path(folder)), name)
