"""Lines and messages: whatever bytes come, either a message that has one meaning, or the reason why there is none."""

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.hooks.gateway import calls, messages
from humanlayer_agent.hooks.gateway.calls import Place, action_of, is_judged
from humanlayer_agent.hooks.gateway.messages import Unfit, from_client, from_server, lines, written

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
METHODS = sorted(calls.PASSED | calls.JUDGED | calls.NOTICES)
MESSAGES = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
    JSON | st.sampled_from(["2.0", *METHODS]) | st.fixed_dictionaries({"name": TEXT, "arguments": JSON, "uri": TEXT}),
    max_size=6,
)
PLACE = Place("demo", "a client", "/srv/app", "/srv/app", local=True)


def read(chunks: list[bytes]) -> list[bytes | None]:
    reader, writer = os.pipe()
    found = []
    try:
        for chunk in chunks:
            os.write(writer, chunk)
        os.close(writer)
        found = list(lines(reader))
    finally:
        os.close(reader)
    return found


@given(st.lists(st.binary(max_size=30), max_size=8))
def test_lines_are_those_of_the_whole(chunks: list[bytes]) -> None:
    assert read(chunks) == b"".join(chunks).split(b"\n")[:-1]


@given(st.lists(st.sampled_from([b"x" * 7, b"\n", b"y", b"\n\n"]), max_size=12), st.integers(1, 5))
def test_lines_that_are_too_long_are_told_and_the_next_is_whole(chunks: list[bytes], size: int) -> None:
    longest, chunk = messages.LONGEST, messages._CHUNK
    messages.LONGEST, messages._CHUNK = 10, size
    try:
        found = read(chunks)
    finally:
        messages.LONGEST, messages._CHUNK = longest, chunk
    wanted = b"".join(chunks).split(b"\n")[:-1]
    assert found == [line if len(line) <= 10 else None for line in wanted]


@given(st.binary(max_size=60) | MESSAGES.map(lambda each: json.dumps(each).encode()))
def test_any_line_of_a_client(line: bytes) -> None:
    """A message of one of three kinds, that reads the same once it is written anew; or a reason."""
    try:
        message = from_client(line)
    except Unfit as why:
        assert str(why)
        assert why.code in (messages.NOT_JSON, messages.NOT_A_REQUEST, messages.WRONG_PARAMS)
        return
    assert message["jsonrpc"] == "2.0"
    assert not message.keys() - {"jsonrpc", "id", "method", "params", "result", "error"}
    assert type(message.get("id", 0)) in (int, str)
    again = written(message)
    assert from_client(again) == message
    assert again.isascii()
    assert again.count(b"\n") == 1


@given(st.binary(max_size=60) | JSON.map(lambda each: json.dumps(each).encode()))
def test_any_line_of_a_server(line: bytes) -> None:
    try:
        message = from_server(line)
    except Unfit as why:
        assert str(why)
        return
    assert isinstance(message, dict)
    written(message)


@given(st.sampled_from(METHODS), st.dictionaries(TEXT | st.sampled_from(["name", "uri", "arguments", "_meta"]), JSON))
def test_any_request_is_an_action_or_refused(method: str, params: dict[str, Any]) -> None:
    try:
        request = from_client(written({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        judged = is_judged(request)
        action = action_of(request, PLACE) if judged else None
    except Unfit as why:
        assert str(why)
        return
    if action is None:
        assert method in calls.PASSED or method in calls.NOTICES or method == calls.LISTEN
        return
    assert action.tool.startswith("mcp__demo__")
    assert action == action_of(from_client(written(request)), PLACE)
    if action.type == "function":
        assert action.content.startswith(f"{action.tool}({{")


@given(st.text(min_size=1, max_size=40))
def test_a_method_is_known_or_unlike_all_that_are(method: str) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": method}
    try:
        judged = is_judged(request)
    except Unfit:
        return
    assert judged or method in calls.PASSED


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("change", [str.upper, str.title, lambda each: f" {each}", lambda each: f"{each}\t"])
def test_no_other_spelling_of_a_method_is_taken(method: str, change: Any) -> None:
    with pytest.raises(Unfit):
        is_judged({"method": change(method)})
