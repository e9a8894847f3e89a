"""What a form makes of a command."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.channels.slack.clicks import normal, strange


@pytest.mark.parametrize(
    ("edited", "original", "names"),
    [
        ("echo “x”", "echo 'x'", "LEFT DOUBLE QUOTATION MARK"),
        ("rm —rf x", "rm -rf x", "EM DASH"),
        ("echo …", "echo x", "HORIZONTAL ELLIPSIS"),
        ("ls\u00a0-l", "ls -l", "NO-BREAK SPACE"),
        ("ls\u200b", "ls", "ZERO WIDTH SPACE"),
        ("ls \x1b[2J", "ls", "U+001B"),
    ],
)
def test_what_a_keyboard_put_in_is_named(edited: str, original: str, names: str) -> None:
    assert names in strange(edited, original)


@pytest.mark.parametrize(
    ("edited", "original"),
    [("echo 'y'", "echo 'x'"), ("echo “y”", "echo “x”"), ("echo café 日本", "echo x"), ("a\n\tb", "a")],
)
def test_plain_changes_are_taken(edited: str, original: str) -> None:
    assert strange(edited, original) == ""


@given(st.text())
def test_nothing_that_was_there_is_strange(text: str) -> None:
    assert strange(text, text) == ""
    assert "\r" not in normal(text)
