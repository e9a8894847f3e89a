"""The prompt without a terminal: what its surroundings can do to it."""

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from humanlayer_agent.channels.presentation import present
from humanlayer_agent.channels.terminal.prompt import Prompt

SIZE = Size(rows=40, columns=100)


class Broken(Exception):
    pass


def broken(*_):
    raise Broken


class Screen(DummyOutput):
    def __init__(self, size):
        self.size = size

    def get_size(self):
        return self.size() if callable(self.size) else self.size


def run(request, *, typed="", size=SIZE, until=2**60, **surroundings):
    surroundings.setdefault("cancelled", lambda: False)
    with create_pipe_input() as keys:
        keys.send_text(typed)
        return Prompt(present(request), until=until, input=keys, output=Screen(size), **surroundings).run()


@pytest.mark.parametrize("part", ["cancelled", "waiting", "modes_changed", "discard"])
def test_a_surrounding_that_breaks_ends_the_prompt(make_request, part):
    with pytest.raises(Broken):
        run(make_request(), **{part: broken})


def test_a_screen_that_breaks_ends_the_prompt(make_request):
    with pytest.raises(Broken):
        run(make_request(), size=broken)


def test_it_closes_without_an_answer(make_request):
    assert run(make_request(), until=0) is None
    assert run(make_request(), cancelled=lambda: True) is None


@pytest.mark.sample(2)
@pytest.mark.parametrize("typed", ["y", "y\r", "yyyyyyyy", "\r", "\x1b[200~y\x1b[201~", "q", "qy"])
def test_keys_that_were_there_first_are_no_answer(make_request, typed):
    looks = iter([False] * 8)
    assert run(make_request(), typed=typed, cancelled=lambda: next(looks, True)) is None


class Held:
    """A clock in a process that is held up between any two looks at it."""

    now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("typed", ["y", "q"])
def test_keys_that_lay_there_while_nothing_ran_are_no_answer(make_request, typed):
    """They were pressed before the question could be seen, whatever the clock says when they are read."""
    looks = iter([False] * 4)
    assert run(make_request(), typed=typed, cancelled=lambda: next(looks, True), clock=Held()) is None


def test_an_approval_that_comes_too_late_is_none(make_request):
    """The request is decided elsewhere between the key and the end of the silence after it."""
    decided = False

    def cancelled():
        nonlocal decided
        return decided

    class Prompted(Prompt):
        def _after_silence(self, decision):
            nonlocal decided
            decided = True
            super()._after_silence(decision)

    def waiting():
        if prompt._guard.armed:
            keys.send_text("y")
        return 0

    with create_pipe_input() as keys:
        prompt = Prompted(
            present(make_request()),
            until=2**60,
            cancelled=cancelled,
            waiting=waiting,
            input=keys,
            output=Screen(SIZE),
            clock=Held(),
        )
        assert prompt.run() is None
    assert decided


def test_nothing_is_discarded_of_what_is_typed_in_the_editor(make_request):
    """Keys begin to count there too, a moment after the last: what the terminal holds by then is text."""
    modes, looks = [], iter([False] * 12)
    with create_pipe_input() as keys:

        def waiting():
            if prompt._guard.armed:
                keys.send_text("e" if prompt._mode == "ask" else "xy")
            return 0

        prompt = Prompt(
            present(make_request()),
            until=2**60,
            cancelled=lambda: next(looks, True),
            command="ls",
            discard=lambda: modes.append(prompt._mode),
            waiting=waiting,
            input=keys,
            output=Screen(SIZE),
            clock=Held(),
        )
        assert prompt.run() is None
    assert "x" in prompt._editor.text
    assert set(modes) == {"ask"}
