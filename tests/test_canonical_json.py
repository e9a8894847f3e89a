"""Canonical JSON: what RFC 8785 says, and the very bytes that digests and logs of before were made of."""

import base64
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action, FileDigest
from humanlayer_agent.audit.export import read_entries
from humanlayer_agent.audit.verify import verify
from humanlayer_agent.canonical_json import canonical, encodable

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)

STORED: list[tuple[Any, bytes]] = [
    ({"b": 1, "a": [True, None, 'x\x00\x1f\x7f"\\/é\u2028😀\ufeff']}, b'{"a":[true,null,"x\\u0000\\u001f\x7f\\"\\\\/\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80\xef\xbb\xbf"],"b":1}'),
    ({"é": 1, "z": 2, "\U00010000": 3, "\uffff": 4}, b'{"z":2,"\xc3\xa9":1,"\xf0\x90\x80\x80":3,"\xef\xbf\xbf":4}'),
    ({"\ufb33": 1, "\U0001f600": 2, "a": 3}, b'{"a":3,"\xf0\x9f\x98\x80":2,"\xef\xac\xb3":1}'),
    ([2**53 - 1, -(2**53) + 1, 0, -1], b"[9007199254740991,-9007199254740991,0,-1]"),
    ([1.0, -0.0, 1.5, 1e30, 1e21, 1e-7, 5e-324, 1.7976931348623157e308, 0.1], b"[1,0,1.5,1e+30,1e+21,1e-7,5e-324,1.7976931348623157e+308,0.1]"),
    ((1, ("a", ())), b'[1,["a",[]]]'),
    ({}, b"{}"),
]  # fmt: skip
"""Values, and the bytes that were hashed for them by version 0.1.0."""


@given(_JSON)
def test_it_is_that_of_rfc8785(value: Any) -> None:
    try:
        expected = rfc8785.dumps(value)
    except (ValueError, UnicodeEncodeError) as error:
        with pytest.raises(type(error)):
            canonical(value)
    else:
        assert canonical(value) == expected


@pytest.mark.parametrize(("value", "stored"), STORED)
def test_bytes_stay_what_they_were(value: Any, stored: bytes) -> None:
    assert canonical(value) == stored


@pytest.mark.parametrize("depth", [1, 300, 850])
def test_what_is_nested_deeply_keeps_its_bytes(depth: int) -> None:
    """Version 0.1.0 wrote events with another encoder, which went as deep as this."""
    listed: Any = 1
    mapped: Any = 1
    for _ in range(depth):
        listed, mapped = [listed], {"a": mapped}
    assert canonical(listed) == b"[" * depth + b"1" + b"]" * depth
    assert canonical(mapped) == b'{"a":' * depth + b"1" + b"}" * depth


def test_every_character_is_written_as_rfc_8785_says() -> None:
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    for begin in range(0, len(characters), 4096):
        text = "".join(characters[begin : begin + 4096])
        assert canonical(text) == rfc8785.dumps(text)


@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), 10**30, float("nan"), float("inf"), {1: "a"}, {None: 1}, "\ud800", {"a": "\udfff"}, {"\ud800": 1}, {"a": Path}, b"x", {1}],
    ids=ascii,
)  # fmt: skip
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)) as expected:
        rfc8785.dumps(value)
    with pytest.raises(type(expected.value)):
        canonical(value)


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_can_be_encoded_and_told_from_others(text: str) -> None:
    made = encodable(text)
    assert canonical(made)
    if isinstance(made, dict):
        assert base64.b64decode(made["base64"]).decode("utf-8", made["encoding"]) == text
    else:
        assert made == text


ORDINARY = Action(
    "ls -la",
    cwd="/srv/app",
    project="/srv/app",
    env={"PATH": "/bin", "PWD": "/x", "É\U0001f600": "\udcff"},
    agent="a",
    stdin=b"\xff",
)
ODD = Action(
    "echo \U0001f600 \udcff \ud800 \x00",
    cwd="/\udce9",
    project="/srv/é",
    interpreter=("sh", "-c"),
    agent="\ud800",
    stdin=b"x",
)


@pytest.mark.parametrize(
    ("action", "plain", "with_file", "env"),
    [
        (
            ORDINARY,
            "fa1a0a30a11ffe68723fcccc6e36ed9b32b6a3dda5cf32f73126a05d7445a0e8",
            "bb693e9391cee4608821d08b20058bec8dec170f84be2633eb6585311b5d42d5",
            "3e77237aa2119f5d042dcaf7c55b905ece9e126588d085c1e16c6994c591b2bc",
        ),
        (
            ODD,
            "48f4575c5654c6f386e49116f789c3f4d1309b147e9141c6de4020f7b4777b85",
            "2fa6ed7a5a30bed71664426a9d2372df231014fab05a08120d22a98ba9d88c66",
            "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
        ),
    ],
    ids=["ordinary", "odd"],
)
def test_a_permit_of_0_1_0_is_for_the_same_action(action: Action, plain: str, with_file: str, env: str) -> None:
    assert action.digest("0" * 64) == plain
    assert action.digest("1" * 64, [FileDigest("/a\udcff", "0" * 64)]) == with_file
    assert action.env_digest() == env


def test_a_log_of_0_1_0_is_intact() -> None:
    """With text that is not Unicode, keys that UTF-16 sorts otherwise, the largest integers, and deep nesting."""
    with (Path(__file__).parent / "data" / "log_of_0_1_0.jsonl").open("rb") as file:
        found = verify(read_entries(file))
    assert (found.intact, found.count) == (True, 6)
    assert found.head == "a493319c340c84e36a47db8b22362cee746e37c227c36d4a5df0e16e356e0459"
