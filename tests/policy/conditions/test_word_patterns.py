"""Patterns for words, for paths by component, and for sequences of words."""

import fnmatch
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.word_patterns import TextSet, argv_matches, components_match, glob_matches
from humanlayer_agent.policy.language.policy import Text

_GLOBS = st.text(alphabet="ab*?", max_size=8)
_WORDS = st.text(alphabet="ab", max_size=8)


@given(_GLOBS, _WORDS)
def test_globs_mean_what_fnmatch_means(pattern: str, text: str) -> None:
    assert glob_matches(pattern, text) is fnmatch.fnmatchcase(text, pattern)


@given(
    st.lists(st.sampled_from(["a", "b", "*", "**", "a*"]), max_size=5),
    st.lists(st.sampled_from(["a", "b", "ab"]), max_size=5),
)
def test_components_mean_what_a_regular_expression_means(pattern: list[str], components: list[str]) -> None:
    parts = ["(?:/[^/]*)*" if p == "**" else "/" + p.replace("*", "[^/]*") for p in pattern]
    expected = re.fullmatch("".join(parts), "".join(f"/{c}" for c in components)) is not None
    assert components_match(pattern, components) is expected


def test_globs_do_not_go_back_further_than_one_star() -> None:
    assert not glob_matches("*a" * 50 + "b", "a" * 20_000)


def test_a_set_of_texts() -> None:
    texts = TextSet([Text(glob="plain"), Text(glob="v*"), Text(regex="[0-9]+")])
    assert [texts.has(w) for w in ("plain", "v2", "42", "x", None, "1" * 30_000)] == [YES, YES, YES, NO, MAYBE, MAYBE]


@pytest.mark.parametrize(
    ("pattern", "argv", "expected"),
    [
        ("git push ...", "git push --force x", YES),
        ("git push ...", "git push", YES),
        ("git push ...", "git pull", NO),
        ("git push", "git push x", NO),
        ("... -delete ...", "find . -delete", YES),
        ("... -delete ...", "find . -name x", NO),
        ("rm x", 'rm "$X"', MAYBE),
        ("rm x", "rm x $X", MAYBE),
        ("rm x y", "rm $X", MAYBE),
        ("rm", "rm *", MAYBE),
        ("rm x", "mv $X", NO),
        ("rm", "", NO),
        ("...", "", YES),
    ],
)
def test_sequences_of_words(pattern: str, argv: str, expected: int) -> None:
    items = [None if word == "..." else TextSet([Text(glob=word)]) for word in pattern.split()]
    assert argv_matches(items, argv.split()) == expected


@given(
    st.lists(st.sampled_from(["a", "b", "..."]), max_size=4),
    st.lists(st.sampled_from(["a", "b", "$X"]), max_size=4),
    st.lists(st.sampled_from(["a", "b"]), max_size=3),
)
def test_a_word_of_unknown_value_may_be_any_words(pattern: list[str], argv: list[str], value: list[str]) -> None:
    """Whatever the unknown words turn out to be, an answer that was certain stays right."""
    items = [None if word == "..." else TextSet([Text(glob=word)]) for word in pattern]
    answer = argv_matches(items, argv)
    known = [w for word in argv for w in (value if word == "$X" else [word])]
    if answer != MAYBE:
        assert argv_matches(items, known) == answer


@given(st.lists(st.text("ab*?", min_size=1, max_size=5), max_size=4), st.text("ab", max_size=6))
def test_a_set_has_what_one_of_its_globs_matches(globs: list[str], word: str) -> None:
    found = TextSet([Text(glob=glob) for glob in globs]).has(word)
    assert found == (YES if any(glob_matches(glob, word) for glob in globs) else NO)
