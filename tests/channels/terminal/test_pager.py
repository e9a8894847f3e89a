"""The whole command has to have been on the screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.channels.plain_text import rows
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.channels.terminal.prompt import Pager


def pager_of(view):
    return Pager(lambda width: rows(view, width), len(view.command) + len(view.stdin))


ACTIONS = st.one_of(
    st.sampled_from(["forward", "forward row", "back", "back row", "draw"]),
    st.tuples(st.integers(20, 120), st.integers(1, 40)),
)


@given(st.integers(1, 60), st.lists(ACTIONS, max_size=60))
def test_nothing_is_seen_that_was_not_drawn(make_request, lines, actions):
    view = present(make_request("\n".join(f"echo {'x' * n} line-{n}." for n in range(lines)), model_intent=""))
    pager = pager_of(view)
    drawn = ""
    size = (80, 20)
    pager.resize(*size)
    for action in actions:
        if isinstance(action, tuple):
            size = action
            pager.resize(*size)
        elif action == "draw":
            if not pager.too_small:
                drawn += "".join(row.text for row in pager.page())
            pager.note_seen()
        else:
            turn = pager.forward if action.startswith("forward") else pager.back
            turn(action.endswith("row"))
    if pager.all_seen:
        assert all(f"{n}." in drawn.replace(" ", "").replace("+│", "") for n in range(lines))


@given(st.integers(1, 60), st.integers(24, 100), st.integers(3, 40))
def test_turning_pages_reaches_the_end(make_request, lines, width, height):
    pager = pager_of(present(make_request("\n".join(["echo a b c d e f g h i j k"] * lines))))
    pager.resize(width, height)
    pager.note_seen()
    for _ in range(5 * lines + 100):
        pager.forward(False)
        pager.note_seen()
    assert pager.all_seen


@pytest.mark.parametrize("size", [(23, 30), (100, 2)])
def test_a_tiny_screen_shows_nothing(make_request, size):
    pager = pager_of(present(make_request("ls")))
    pager.resize(*size)
    pager.note_seen()
    assert pager.too_small
    assert not pager.all_seen


def test_a_new_width_keeps_what_was_seen_whole(make_request):
    pager = pager_of(present(make_request("\n".join(f"echo {n}" for n in range(100)))))
    pager.resize(80, 30)
    pager.note_seen()
    before = pager.position()
    pager.resize(60, 30)
    assert pager.position() == before
