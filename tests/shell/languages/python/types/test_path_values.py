"""What path functions make of known and half-known paths: never more than is sure."""

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.languages.python.types import path_values
from humanlayer_agent.shell.languages.python.types import string_values as strings
from humanlayer_agent.shell.languages.python.values import DATA, WORD, Below, Place, Prefix, Value, operands, widen

PARTS = st.sampled_from(["a", "b", "..", ".", "", "c.py", "~"])
TEXTS = st.lists(PARTS, max_size=5).map("/".join) | st.lists(PARTS, max_size=4).map(lambda p: "/" + "/".join(p))


@given(TEXTS, TEXTS)
def test_known_paths_are_joined_as_python_does(a: str, b: str) -> None:
    assert path_values.join(a, b) == posixpath.join(a, b)
    assert path_values.parent(a) == posixpath.dirname(a)
    assert path_values.name(a) == posixpath.basename(a)
    assert path_values.split_extension(a) == posixpath.splitext(a)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("/a", DATA, Prefix("/a/")),
        ("/a", Prefix("b"), Prefix("/a/b")),
        ("/a", Prefix("/b"), Prefix("/b")),
        ("/a", WORD, Below("/a")),
        ("/a", Below("."), Below("/a")),
        ("/a", Below("b"), Below("/a/b")),
        ("/a", Below("/b"), Below("/b")),
        ("/a", Below(".", anchored=True), Below(".", anchored=True)),
        ("/a", Place("~/b"), Place("~/b")),
        ("/a", Place("b"), Place("b")),
        (Below("/a"), "b", Below("/a")),
        (Below("/a"), "../b", DATA),
        (Below("/a"), "/b", "/b"),
        (Below("/a", strict=False), ".", Below("/a", strict=False)),
        (Below("/a", strict=False), "b", Below("/a")),
        (Place("~"), "b", Place("~/b")),
        (Place(""), Below("."), Below(".", anchored=True)),
        (Place("~"), Below("."), Prefix("~/")),
        (DATA, "b", DATA),
        (DATA, "/b", "/b"),
        (WORD, "b", Below(".")),
    ],
)
def test_half_known_paths_are_joined(
    first: path_values.PathAtom, second: path_values.PathAtom, joined: path_values.PathAtom
) -> None:
    assert path_values.join(first, second) == joined


def fits(path: object, text: str) -> bool:
    """May `path` be `text`?"""
    if isinstance(path, str):
        return path == text
    if isinstance(path, Prefix):
        return text.startswith(path.text)
    if isinstance(path, Below):
        directory = path.directory.rstrip("/") + "/"
        rest = text[len(directory) :] if text.startswith(directory) else text
        plain, whole = (posixpath.normpath("/" + p.lstrip("/")) for p in (text, directory))
        inside = directory == "./" and not text.startswith("/")
        return ".." not in rest.split("/") and (inside or (plain + "/").startswith(whole.rstrip("/") + "/"))
    return True


INSIDE = st.lists(st.sampled_from(["a", "b", "x.py", ".hidden"]), min_size=1, max_size=3).map("/".join)
PLAIN = st.lists(st.sampled_from(["a", "b", "..", ""]), max_size=3).map("/".join)


@given(st.sampled_from(["/d", "d", "."]), INSIDE, PLAIN)
def test_what_is_joined_to_a_path_in_a_directory(directory: str, inside: str, more: str) -> None:
    path = posixpath.join(directory, inside)
    assert fits(path_values.join(Below(directory), more), posixpath.join(path, more))


@given(st.sampled_from(["/d", "d", "/d/..", "d/.", ""]), INSIDE)
def test_what_a_name_is_joined_to(directory: str, inside: str) -> None:
    assert fits(path_values.join(directory, Below(".")), posixpath.join(directory, inside))


@given(st.sampled_from(["/d/", "d/x_", "x", "./.", "../y", "d/.", "", "http://h/", "rm "]), INSIDE)
def test_a_text_before_a_name(text: str, inside: str) -> None:
    for found in strings.concat([frozenset({text}), frozenset({Below(".")})]):
        assert fits(found, text + inside)


@given(st.sampled_from(["/d", "d", "."]), INSIDE, st.sampled_from([".bak", "/x", "/../x", "", "x/..", "/.."]))
def test_a_text_after_a_path(directory: str, inside: str, text: str) -> None:
    for found in strings.concat([frozenset({Below(directory)}), frozenset({text})]):
        assert fits(found, posixpath.join(directory, inside) + text)


@given(st.lists(TEXTS, min_size=1, max_size=8))
def test_what_texts_have_in_common_holds_for_each(texts: list[str]) -> None:
    found: Value = widen(frozenset(texts))
    for text in texts:
        assert any(fits(atom, text) for atom in found)


def test_widening_ends() -> None:
    value: Value = frozenset({"/a/b/c"})
    for text in ("/a/b/d", "/a/b", "/a", "/", "x"):
        value = widen(value | {text})
        assert widen(value) == value
    assert value == frozenset({DATA})
    assert [t.known for t in operands(value)] == [False]
