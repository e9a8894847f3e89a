"""Regular expressions take linear time, and mean what Python's mean."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.policy.conditions import linear_regex
from humanlayer_agent.policy.conditions.linear_regex import Regex

_ATOMS = st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", "[a-c]", r"\d", r"\w", r"\s", r"\.", r"\W"])


def _repeated(pattern: str) -> st.SearchStrategy[str]:
    return st.sampled_from(["", "*", "+", "?", "{2}", "{1,2}", "{1,}", "{0}"]).map(lambda r: f"(?:{pattern}){r}")


_PATTERNS = st.recursive(
    _ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda p: f"({'|'.join(p)})"),
        inner.flatmap(_repeated),
    ),
    max_leaves=6,
)


@given(_PATTERNS, st.text(alphabet="ab-.1 \n", max_size=8))
def test_it_means_what_pythons_means(pattern: str, text: str) -> None:
    if len(pattern) > linear_regex.MAX_PATTERN:
        return
    assert Regex(pattern).matches(text) is (re.fullmatch(pattern, text, re.DOTALL) is not None)


@given(_PATTERNS, st.text(alphabet="ab-.1", max_size=6), st.integers(0, 6))
def test_what_matches_may_begin_with_each_of_its_beginnings(pattern: str, text: str, count: int) -> None:
    if len(pattern) <= linear_regex.MAX_PATTERN and (found := Regex(pattern)).matches(text):
        assert found.may_begin(text[:count])


def test_what_no_match_begins_with() -> None:
    found = Regex("(install|up[0-9]+)(-.*)?")
    assert [found.may_begin(p) for p in ("", "in", "up7-x", "install-")] == [True] * 4
    assert [found.may_begin(p) for p in ("-j", "x", "upx", "installed")] == [False] * 4


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a*)*b", ".*.*.*.*.*.*b", "(.*a){20}", "(a|aa|aaa)+b"])
def test_each_character_is_read_once(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Regex(pattern)
    steps = 0
    step = found._step

    def counted(states: frozenset[int], char: str) -> frozenset[int]:
        nonlocal steps
        steps += 1
        return step(states, char)

    monkeypatch.setattr(found, "_step", counted)
    assert found.matches("a" * 5_000) is (pattern == "(.*a){20}")
    assert steps <= 5_000


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"(a)\1", r"\\1 is not understood"),
        ("(?=a)b", "groups that begin with"),
        ("(?x)a", "groups that begin with"),
        ("a" * 201, "at most 200 characters"),
        ("(a{99}){99}", "too large"),
        ("(((a{20}){20}){20})", "too large"),
        ("a**", "a repetition of a repetition"),
        ("a*?", "a repetition of a repetition"),
        ("^a$", "is not needed"),
        ("a(?=b)", "below `not`"),
        ("(?<!a)b", "below `not`"),
        ("(?P<x>a)", "Write \\(\\?:"),
        ("(?P=x)a", "Write the alternatives out"),
        ("(?>a)", "Write \\(\\?:"),
        ("(?(1)a|b)", "Write the alternatives out"),
        ("(?#c)a", "a comment of YAML"),
        ("(?x)a b", "each blank counts"),
        ("(?-i)a", "Leave it out"),
        ("(?s).", "is any character"),
        ("a(?i)b", "or nowhere in it"),
        (r"\bdrop\b", "for a word within it"),
        (r"\Aa", "not needed"),
        (r"\p{L}", "range of letters"),
        ("[[:alpha:]]", "write the range"),
        ("a*?", "leave the \\? out"),
        ("a++", "leave the \\+ out"),
        ("a{1,5000}", "for any number"),
        ("(a{900}){900}", "where the count does not matter"),
        ("a" * 201, "write several patterns"),
        (r"(a)\2", "Write the alternatives out"),
        ("(a", "a \\( without its"),
        ("a)", "unexpected"),
        ("[a", "ends too early"),
        ("*a", "nothing to repeat"),
        ("a{2,1}", "at least 2 and at most 1"),
        ("a{x}", "is no repetition"),
        ("[b-a]", "is empty"),
        ("a\\", "ends too early"),
        (r"\p", "is not understood"),
        ("(" * 30 + ")" * 30, "nested too deep"),
    ],
)
def test_what_is_not_linear_or_not_understood_is_refused(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Regex(pattern)


def test_a_text_that_is_too_long_is_neither_yes_nor_no() -> None:
    assert Regex("a*").matches("a" * (linear_regex.MAX_TEXT + 1)) is None


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear_regex, "MAX_MEMO", 10)
    found = Regex(".*x")
    assert not found.matches("".join(map(chr, range(0x100, 0x200))))
    assert len(found._memo) <= 10


@pytest.mark.parametrize(
    "pattern",
    ["(?i)drop", "(?i)d.op( table)?", "(?i)[a-f]+", "(?i)[^a]", "(?i)[^a-f]x", r"(?i)\w\D", "(?i)straße|k", "(?i)x{2}"],
)
def test_without_regard_to_case_it_is_as_in_python(pattern: str) -> None:
    ours, theirs = Regex(pattern), re.compile(pattern, re.DOTALL)
    for text in (
        "drop",
        "DROP",
        "dRoP Table",
        "ABC",
        "abg",
        "a",
        "A",
        "b",
        "B",
        "Gx",
        "Fx",
        "fX",
        "_a",
        "K",
        "k",
        "STRASSE",
        "STRAßE",
        "xX",
    ):
        assert ours.matches(text) is (theirs.fullmatch(text) is not None), text
    assert Regex("drop").matches("DROP") is False


@pytest.mark.parametrize(
    ("pattern", "examples"),
    [
        ("git|hg|svn", {"git", "hg", "svn"}),
        ("v[0-9]+", {"v0", "v9", "v00"}),
        ("a{2,5}b?", {"aa", "aaaaa", "aab"}),
        ("[^a-zA-Z0-9]", {"~", "}", "|", "{"}),
        ("((a|b)(c|d)){2}", {"acac", "bcbc", "adad"}),
        ("", {""}),
        (r"\n", set()),
        (r"a\n|b", {"b"}),
    ],
)
def test_examples_are_of_each_way_to_match(pattern: str, examples: set[str]) -> None:
    assert set(Regex(pattern).examples()) == examples


@given(pattern=st.from_regex(r"[ab.|?*+()\[\]0-9-]{1,12}", fullmatch=True))
def test_examples_match(pattern: str) -> None:
    try:
        regex = Regex(pattern)
    except ValueError:
        return
    assert all(regex.matches(each) for each in regex.examples())
