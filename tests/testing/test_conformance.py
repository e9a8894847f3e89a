"""The kit finds channels that do not do what is expected of them: each of these has one mistake."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.channels.contract import Ref, Retry
from humanlayer_agent.errors import ChannelError
from humanlayer_agent.testing import patience
from humanlayer_agent.testing.conformance import ChannelConformance
from humanlayer_agent.testing.conformance_rig import World
from humanlayer_agent.testing.scripted_channel import Board, ScriptedChannel
from tests.channels.test_conformance_scripted import BoardRig


class LeavesButtons(ScriptedChannel):
    def settle(self, outcome, ref):
        super().settle(outcome, ref)
        message = next(m for m in self._board.messages() if m["id"] == ref.where["message"])
        self._board.update(message["id"], message | {"offers": ["approve"]})


class ShowsRaw(ScriptedChannel):
    def _message(self, request, *, complete, whole):
        made = super()._message(request, complete=complete, whole=whole)
        return made | {"command": request.action.content if whole else made["command"]}


class RawIntent(ScriptedChannel):
    def _message(self, request, *, complete, whole):
        made = super()._message(request, complete=complete, whole=whole)
        return made | {"text": made["text"] + "\n" + request.action.model_intent}


class Truncates(ScriptedChannel):
    def _message(self, request, *, complete, whole):
        return super()._message(request, complete=complete, whole=whole) | {"attached": ""}


class ForgetsStrangers(ScriptedChannel):
    def _record(self, given):
        if self._desk.person_of(given["who"]) is not None:
            super()._record(given)


class TellsNobody(ScriptedChannel):
    def _record(self, given):
        tell, self._board.tell = self._board.tell, lambda *said: None
        try:
            super()._record(given)
        finally:
            self._board.tell = tell


class DiesOfOneError(ScriptedChannel):
    def _receive(self):
        while not self._closing.wait(0.01):
            for given in self._board.answers():
                self._record(given)
                self._board.acknowledge(given["id"])


class NamesNobody(ScriptedChannel):
    def settle(self, outcome, ref):
        super().settle(replace(outcome, by=""), ref)


class SettlesOnce(ScriptedChannel):
    def settle(self, outcome, ref):
        message = next(m for m in self._board.messages() if m["id"] == ref.where["message"])
        if message["state"]:
            raise Retry("it was changed already")
        super().settle(outcome, ref)


class FindsNothing(ScriptedChannel):
    def find(self, request):
        return []


class KeepsPlacesInMemory(ScriptedChannel):
    """What it delivered is only known to the process that did it."""

    def deliver(self, request, audience):
        ref = super().deliver(request, audience)
        self.__dict__.setdefault("known", {})["x"] = ref.where["message"]
        return Ref({"key": "x"}, ref.presented_digest, ref.complete)

    def settle(self, outcome, ref):
        super().settle(outcome, replace(ref, where={"message": self.__dict__["known"][ref.where["key"]]}))


class RaisesAnything(ScriptedChannel):
    def deliver(self, request, audience):
        try:
            return super().deliver(request, audience)
        except ChannelError as error:
            raise OSError(str(error)) from error


class AlwaysWell(ScriptedChannel):
    def health(self):
        return replace(super().health(), ok=True, problems=())


class PingsEverybody(ScriptedChannel):
    def deliver(self, request, audience):
        ref = super().deliver(request, audience)
        if "@here" in request.action.content:
            self._board.ping(ref.where["message"], ["everybody"])
        return ref


class OffersTooMuch(ScriptedChannel):
    can = frozenset({"reject"})


MISTAKES = {
    LeavesButtons: ("test_settled_twice_it_looks_the_same", {}),
    ShowsRaw: ("test_a_hostile_command_is_only_text", {}),
    RawIntent: ("test_hostile_context_is_only_text", {}),
    Truncates: ("test_a_long_command_is_whole_or_not_approvable", {}),
    ForgetsStrangers: ("test_a_stranger_changes_nothing", {}),
    TellsNobody: ("test_a_late_answer_changes_nothing", {"settled": True}),
    DiesOfOneError: ("test_an_answer_that_can_not_be_recorded_can_be_given_again", {}),
    NamesNobody: ("test_settled_twice_it_looks_the_same", {}),
    SettlesOnce: ("test_settled_twice_it_looks_the_same", {}),
    FindsNothing: ("test_dying_before_the_delivery_is_written_down", {}),
    KeepsPlacesInMemory: ("test_another_process_settles_what_one_has_delivered", {}),
    RaisesAnything: ("test_a_broken_service_is_told_of", {"fault": "down"}),
    AlwaysWell: ("test_a_broken_service_is_told_of", {"fault": "down"}),
    PingsEverybody: ("test_a_hostile_command_is_only_text", {}),
    OffersTooMuch: ("test_nothing_is_offered_that_it_can_not_do", {}),
}


class MistakenRig(BoardRig):
    def __init__(self, board: Board, kind: type[ScriptedChannel]) -> None:
        super().__init__(board, attaches=True)
        self._kind = kind

    def channel(self) -> ScriptedChannel:
        return self._kind(self.board)


@pytest.mark.sample(2)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("kind", MISTAKES, ids=lambda kind: kind.__name__)
def test_a_mistake_is_found(kind: type[ScriptedChannel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, given = MISTAKES[kind]
    test: Callable[..., None] = getattr(ChannelConformance(), name)

    def run(channel: type[ScriptedChannel], folder: Path) -> None:
        world = World(MistakenRig(Board(folder / "board"), channel), folder)
        try:
            test(world, **given)
        finally:
            world.close()

    run(ScriptedChannel, tmp_path / "right")
    monkeypatch.setattr(patience, "PATIENCE", 1.0)  # of what never comes
    with pytest.raises((AssertionError, pytest.fail.Exception, OSError, KeyError, Retry)):
        run(kind, tmp_path / "wrong")
