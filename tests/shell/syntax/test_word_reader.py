"""Words: quotes, escapes, patterns, `$'...'`, parameter expansions, and the map back to the original text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.syntax.ansi import decode
from humanlayer_agent.shell.syntax.commands import CommandLexer
from humanlayer_agent.shell.syntax.cursor import Budget, Source
from humanlayer_agent.shell.syntax.refusal import Unparsed
from humanlayer_agent.shell.syntax.tree import Lit, Param, Word
from humanlayer_agent.shell.syntax.word_builder import HOLE, Role, WordBuilder, is_pattern


def word(text: str, role: Role = Role.WORD) -> Word:
    lexer = CommandLexer(Source(text), Budget(), [])
    found = lexer.word(role)
    assert lexer.index == len(text)
    return found


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("plain", "plain"),
        ("'a b'", "a b"),
        ('"a b"', "a b"),
        ("a\\ b", "a b"),
        ("'a'\\''b'", "a'b"),
        ('"a\\"b\\$c\\\\d\\`e\\f"', 'a"b$c\\d`e\\f'),
        ('"a\\\nb"', "ab"),
        ("'a\\\nb'", "a\\\nb"),
        ("''", ""),
        ("a''b", "ab"),
        ("$", "$"),
        ("a$", "a$"),
        ('"$"', "$"),
        ('"a$\'b"', "a$'b"),
        ("$'a\\nb'c", "a\nbc"),
        ("a#b", "a#b"),
        ("{}", "{}"),
        ("é\u2028ü", "é\u2028ü"),
    ],
)
def test_quote_removal(raw: str, text: str) -> None:
    found = word(raw)
    assert (found.raw, found.text, found.dynamic, found.pattern) == (raw, text, False, False)


@given(st.text(alphabet="ab '\"\\$`\n*~{},[]é#;&|<>()", max_size=30))
def test_single_quotes_and_backslashes_undo_each_other(text: str) -> None:
    single = "'" + text.replace("'", "'\\''") + "'"
    assert word(single).static == text
    double = '"' + "".join("\\" + char if char in '"\\$`' else char for char in text) + '"'
    assert word(double).static == text


@pytest.mark.parametrize(
    "text", ["*", "a?", "[a]", "a[b-c]d", "{a,b}", "x{1..3}y", "~", "~/x", "a=~", "a=x:~/y", "a+=~"]
)
def test_pattern(text: str) -> None:
    assert word(text).pattern
    assert word(text).static is None


@pytest.mark.parametrize(
    "text",
    [
        "'*'",
        "\\*",
        '"?"',
        "[",
        "]",
        "[]",
        "a[",
        "{}",
        "{a}",
        "{a",
        "a}",
        "a,b",
        "a..b",
        "a~",
        "--a=~",
        "'~'",
        "\\~",
        '{a","b}',
    ],
)
def test_no_pattern(text: str) -> None:
    assert not word(text).pattern
    assert word(text).static is not None


def test_value_of_an_assignment_expands_only_a_tilde() -> None:
    assert [word(text, Role.VALUE).pattern for text in ("*", "{a,b}", "[a]", "~", "a:~", "a~")] == [
        *[False] * 3,
        *[True] * 2,
        False,
    ]


def test_a_hole_hides_what_is_in_it() -> None:
    assert not is_pattern(f"{HOLE}a", Role.WORD)
    assert is_pattern(f"{{{HOLE},{HOLE}}}", Role.WORD)
    assert not is_pattern("*~{a,b}", Role.BODY)


def test_parts_keep_quoting_and_order() -> None:
    parts = word("a'b'\"c$x\"$y\\*").parts
    shown = [(part.text, part.quoted) if isinstance(part, Lit) else ("$", part.quoted) for part in parts]  # type: ignore[union-attr]
    assert shown == [("a", False), ("bc", True), ("$", True), ("$", False), ("*", True)]


def test_builder_merges_runs_of_the_same_quoting() -> None:
    out = WordBuilder()
    for text, quoted in (("a", False), ("b", False), ("", True), ("c", True), ("d", False)):
        out.literal(text, quoted)
    found = out.finish(Source("abcd"), 0, 4)
    assert [(part.text, part.quoted) for part in found.parts] == [("ab", False), ("c", True), ("d", False)]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("\\a\\b\\e\\E\\f\\n\\r\\t\\v", "\a\b\x1b\x1b\f\n\r\t\v"),
        ("\\\\\\'\\\"\\?", "\\'\"?"),
        ("\\162\\x6d\\u0072\\U0000006d", "rmrm"),
        ("\\1\\12\\1234", "\x01\nS4"),
        ("\\cA\\cz", "\x01\x1a"),
        ("\\q\\%", "\\q\\%"),
        ("a\\\nb", "a\\\nb"),
    ],
)
def test_ansi_c_quoting(text: str, value: str) -> None:
    assert decode(text) == value


@pytest.mark.parametrize(
    "text", ["\\0", "\\x0", "\\u0000", "\\400", "\\377", "\\xe9", "\\u00e9", "\\x", "\\xg", "\\u", "\\c?"]
)
def test_ansi_c_quoting_that_is_refused(text: str) -> None:
    with pytest.raises(Unparsed):
        decode(text)


@pytest.mark.parametrize(
    ("text", "name", "op", "index", "arg"),
    [
        ("$x", "x", "", None, None),
        ("${x}", "x", "", None, None),
        ("${x:-a}", "x", ":-", None, "a"),
        ("${x-}", "x", "-", None, ""),
        ("${x:=a}", "x", ":=", None, "a"),
        ("${x:?a}", "x", ":?", None, "a"),
        ("${x+a}", "x", "+", None, "a"),
        ("${x##*/}", "x", "##", None, "*/"),
        ("${x%.*}", "x", "%", None, ".*"),
        ("${x/a/b}", "x", "/", None, "a/b"),
        ("${x//a/b}", "x", "//", None, "a/b"),
        ("${x/#a/b}", "x", "/#", None, "a/b"),
        ("${x:1:2}", "x", ":", None, "1:2"),
        ("${x: -1}", "x", ":", None, " -1"),
        ("${x^^}", "x", "^^", None, ""),
        ("${x,}", "x", ",", None, ""),
        ("${x@Q}", "x", "@", None, "Q"),
        ("${#x}", "x", "length", None, None),
        ("${#}", "#", "", None, None),
        ("${##}", "#", "length", None, None),
        ("${!x}", "x", "!", None, None),
        ("${!x*}", "x", "!", None, "*"),
        ("${!x:-a}", "x", "!", None, ":-a"),
        ("${!x[@]}", "x", "!", "@", None),
        ("${x[1]:-a}", "x", ":-", "1", "a"),
        ("${@:2}", "@", ":", None, "2"),
        ("${10}", "10", "", None, None),
        ("${?}", "?", "", None, None),
    ],
)
def test_parameter(text: str, name: str, op: str, index: str | None, arg: str | None) -> None:
    (part,) = word(text).parts
    assert isinstance(part, Param)
    assert (part.name, part.op, part.index, part.raw) == (name, op, index, text)
    assert (None if part.arg is None else part.arg.text) == arg


def test_source_maps_offsets_back() -> None:
    source = Source("ab", "x\\a\\b", [1, 3, 5])
    assert [source.at(index) for index in range(3)] == [1, 3, 5]
    assert source.slice(0, 1) == "\\a"
