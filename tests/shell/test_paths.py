"""Path texts and patterns."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.paths import (
    absolute_path,
    escape,
    has_wildcard,
    logical,
    plain_path,
    split_pattern,
    unescape,
)


@given(st.text(alphabet="a*?[]\\/-", max_size=8))
def test_an_escaped_path_has_no_wildcard_and_is_that_path_again(path: str) -> None:
    assert not has_wildcard(escape(path))
    assert unescape(escape(path)) == path


def test_absolute_keeps_parents() -> None:
    assert absolute_path("a/../b", "/p") == "/p/a/../b"
    assert absolute_path("/a", "/p") == "/a"
    assert absolute_path("a", "/") == "/a"


def test_logical_goes_by_name() -> None:
    assert logical("../b", "/p/a") == "/p/b"
    assert logical("//x", "/p") == "/x"
    assert logical("", "/p") == "/p"
    assert logical("../../..", "/p") == "/"


@given(st.text("/.ab", max_size=12))
def test_a_plain_path_is_what_the_standard_library_makes_of_it(path: str) -> None:
    assert plain_path(path) == "/" + posixpath.normpath(path).lstrip("/")


@pytest.mark.parametrize(
    ("pattern", "base", "safe"),
    [
        ("/p/*.py", "/p", True),
        ("/*", "/", True),
        ("/p/a", "/p/a", True),
        ("/p/*/../x", "/p", False),
        ("/p/.*", "/p", False),
        ("/p/.?/x", "/p", False),
        ("/p/.[a.]/x", "/p", False),
        ("/p/.[[:punct:]]/x", "/p", False),
        ("/p/.a*", "/p", True),
        ("/p/\\*/b?", "/p/\\*", True),
    ],
)
def test_split_pattern(pattern: str, base: str, safe: bool) -> None:
    assert split_pattern(pattern) == (base, safe)


def test_escapes() -> None:
    assert unescape("a\\*b\\\\") == "a*b\\"
    assert has_wildcard("a[b]")
    assert not has_wildcard("a\\*\\[")
