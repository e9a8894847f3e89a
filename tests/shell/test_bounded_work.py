"""Whatever a short text nests, the work that it makes is bounded: counted in calls of functions, so that it is the same
on every machine.
"""

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell import analyse
from tests.support.extent import examples

MOST_CALLS = 4_000_000
"""About a second. One that grows with the depth, as each of those did that are named below, makes far more."""

OPENED = [
    "$(echo ", "`echo ", "<(cat ", "((", "$((", "${x:-", "[[ a == ", "{ ", "if x; then ", "case a in a) ", "for i in a; do ",
    "f() { ", 'eval "', "bash -c '", "cat <<E\n", "$'\\x41", '"$(', "a[$(", "sudo env ", "xargs ", "find . -exec ", "trap '",
    "x=$(", "{a,", "{1..9}", "python3 -c '", "awk '{", "echo a | ", "a && ", "a & ", "export x=$y ", "set -- $x ", "read x; ",
    "x+=$x; ", "x=$x$x; ", "git -C a ", "cd a; ", "cd $x; ", "source x; ", "> $x ", "make -C x ", "${x//a/", "*?[a]", "a=(",
    "declare -A m=([$x]=", "printf -v x %s ", "let x=", "time ", "ssh h ", "docker run x ", "pytest; ", "rm -rf $x; ",
]  # fmt: skip
CLOSED = {"$(echo ": ")", "`echo ": "`", '"$(': ')"', "x=$(": ")", "{ ": "; }", 'eval "': '"', "${x:-": "}", "((": "))"}


class TooMuchError(BaseException):
    """It has made more calls than any text may."""


def calls(text: str) -> int:
    """How many functions are called while a text is analysed."""
    made = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal made
        made += event == "call"
        if made > MOST_CALLS:
            raise TooMuchError

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        analyse(text, cwd="/srv/app")
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "echo " + "{1..9}$(echo " * 8 + ")" * 8,
        '((x=$(eval "' * 125 + "a" + '")))' * 125,
        'time x=$(eval "' * 100 + "a" + '")' * 100,
        "cd a; bash -c 'x=$(" * 70 + "a" + ")'" * 70,
    ],
)
def test_what_once_took_long_does_not(text: str) -> None:
    assert calls(text) < MOST_CALLS


@pytest.mark.long
@settings(max_examples=examples(10, soak=400))
@given(
    st.lists(st.sampled_from(OPENED), min_size=1, max_size=4),
    st.sampled_from([500, 1500]),
    st.booleans(),
    st.sampled_from(["", "a", "a\nls"]),
)
def test_no_text_makes_more_work_than_its_share(parts: list[str], size: int, closed: bool, last: str) -> None:
    times = max(1, size // len("".join(parts)))
    end = "".join(CLOSED.get(part, "") for part in reversed(parts)) * times if closed else ""
    assert calls("".join(parts) * times + last + end) < MOST_CALLS
