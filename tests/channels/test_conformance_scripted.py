"""The kit against the scripted channel, in two forms: one that attaches long commands, and one that can't."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from humanlayer_agent.testing.conformance import ChannelConformance
from humanlayer_agent.testing.conformance_rig import Fault
from humanlayer_agent.testing.patience import until
from humanlayer_agent.testing.scripted_channel import Board, ScriptedChannel

PEOPLE = {"alice": "email:alice@example.com", "bob": "email:bob@example.com", "stranger": "email:eve@example.com"}


class BoardSurface:
    """A message on the board."""

    def __init__(self, board: Board, name: str) -> None:
        self._board = board
        self._name = name
        self._last = ""
        self._given = ("", "", "")

    def _message(self):
        return next(m for m in self._board.messages() if m["id"] == self._name)

    def text(self) -> str:
        message = self._message()
        parts = (message["text"], message["command"], message["attached"], *message["warnings"], message["state"])
        return "\n".join(parts)

    def frame(self) -> str:
        message = self._message()
        return "\n".join([message["text"], *message["warnings"], message["state"]])

    def offers(self) -> frozenset[str]:
        return frozenset(self._message()["offers"])

    def answer(self, kind, who, words="") -> None:
        self._given = (kind, PEOPLE[who], words)
        self._last = self._board.answer(self._name, *self._given)

    def grant(self, scope, who) -> None:
        self.answer("grant", who, scope)

    def repeat(self) -> None:
        taken = "the first one is acknowledged"  # else the service has it once
        until(lambda: all(each["id"] != self._last for each in self._board.answers()), taken)
        self._board.answer(self._name, *self._given, name=self._last)


class BoardRig:
    def __init__(self, board: Board, attaches: bool) -> None:
        self.board = board
        self.people = PEOPLE
        self._attaches = attaches
        self._surfaces: dict[str, BoardSurface] = {}

    def channel(self) -> ScriptedChannel:
        return ScriptedChannel(self.board, attaches=self._attaches)

    def surfaces(self, request_id: str) -> list[BoardSurface]:
        names = [message["id"] for message in self.board.messages(request_id)]
        return [self._surfaces.setdefault(name, BoardSurface(self.board, name)) for name in names]

    def told(self, who: str) -> list[str]:
        return self.board.told(PEOPLE[who])

    def pings(self, request_id: str) -> list[str]:
        return self.board.pings(request_id)

    @contextmanager
    def broken(self, fault: Fault) -> Iterator[None]:
        self.board.fault = fault
        yield
        self.board.fault = ""


class TestScripted(ChannelConformance):
    @pytest.fixture(params=[True, False], ids=["attaches", "can't attach"])
    def rig(self, tmp_path: Path, request: pytest.FixtureRequest) -> BoardRig:
        return BoardRig(Board(tmp_path / "board"), request.param)
