"""Text made safe: nothing that acts on a screen, or can't be seen on it, gets through."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.safe_text import MARKS_PER_LETTER, characters, one_line, visible, warnings

ANY = st.text(st.characters(codec=None, exclude_categories=()))
NASTY = st.text(
    st.sampled_from(
        "a-/ \n\t\r\x00\x07\x08\x1b\x7f\x85\x9b\xa0\xad\u0301\u0338\u034f\u061c\u115f\u180e\u200b\u200d\u202e\u2028"
        "\u2066\u2800\u3000\u3164\ufe0f\ufeff\ufff9\U000e0041\U000e0101\ue000\ud800\udc9b\u20dd\u0627é字😀"
    )
)


@given(ANY | NASTY)
def test_only_harmless_characters_are_left(text):
    for char in visible(text):
        assert char in "\n\t" or unicodedata.category(char)[0] in "LMNPS" or char == " "
        assert unicodedata.category(char) != "Me"
        assert unicodedata.bidirectional(char) not in {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(ANY | NASTY)
def test_what_is_safe_stays_as_it_is(text):
    safe = visible(text)
    assert visible(safe) == safe


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_ascii_is_never_changed(text):
    assert visible(text) == text == one_line(text)


@given(ANY | NASTY)
def test_every_character_is_accounted_for(text):
    shown = list(characters(text))
    assert len(shown) == len(text)
    assert all(odd or spelled == char for char, (spelled, odd) in zip(text, shown, strict=True))
    assert visible(text) == "".join(spelled for spelled, _ in shown)


@given(ANY | NASTY)
def test_one_line_is_one_line_and_ascii_is_ascii(text):
    assert not set(one_line(text)) & set("\n\r\t\v\f\x1c\x1d\x1e\x85\u2028\u2029")
    assert visible(text, ascii_only=True).isascii()


@given(ANY | NASTY)
def test_it_can_always_be_encoded(text):
    visible(text).encode("utf-8")


@given(ANY | NASTY)
def test_whatever_is_spelled_out_is_also_warned_about(text):
    if visible(text) != text:
        assert any("spelled out here" in warning for warning in warnings(text))
    for warning in warnings(text):
        assert one_line(warning) == warning


@given(ANY | NASTY)
def test_no_letter_carries_a_pile_of_marks(text):
    run = 0
    for char in visible(text):
        run = run + 1 if unicodedata.category(char)[0] == "M" else 0
        assert run <= MARKS_PER_LETTER


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\x1bP$q\x1b\\", r"\x1bP$q\x1b" + "\\"),
        ("\x9b31m", r"\x9b31m"),
        ("a\rb\bc\x7f\x00", r"a\x0db\x08c\x7f\x00"),
        ("\u202egpj\u2066\u200f\u061c", r"\u{202e}gpj\u{2066}\u{200f}\u{61c}"),
        ("rm\u200b -rf\u00a0/\u3000\u2003x", r"rm\u{200b} -rf\u{a0}/\u{3000}\u{2003}x"),
        ("\ufeff\u00ad\u2060\u180e", r"\u{feff}\u{ad}\u{2060}\u{180e}"),
        ("\u2028\u2029\x85", r"\u{2028}\u{2029}\x85"),
        ("\ue000\U000f0000\u0378\udc9b\ud83d", r"\u{e000}\u{f0000}\u{378}\u{dc9b}\u{d83d}"),
        ("\u3164\uffa0\u2800\u115f", r"\u{3164}\u{ffa0}\u{2800}\u{115f}"),
        ("e\u0301 ok", "e\u0301 ok"),
        ("e\u0301\u0302\u0303", "e\u0301\u0302\\u{303}"),
        ("r\u0336m\u0338", r"r\u{336}m\u{338}"),
        ("/\u0301 \u0301\n\u0301", "/\\u{301} \\u{301}\n\\u{301}"),
        ("1\u20e3 \u2764\ufe0f", "1\\u{20e3} \u2764\\u{fe0f}"),
        ("\U000e0072\U000e006d", r"\u{e0072}\u{e006d}"),
        ("naïve 字 Ж שלום 😀 → €", "naïve 字 Ж שלום 😀 → €"),
    ],
)
def test_spelled_out(text, shown):
    assert visible(text) == shown


def test_kept_control_characters_are_a_choice():
    assert visible("a\tb\nc\r") == "a\tb\nc\\x0d"
    assert visible("a\tb\nc", keep="\n") == "a\\x09b\nc"
    assert one_line("a\tb\nc") == "a\\x09b\\x0ac"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ls -la /tmp", []),
        ("git commit -m 'naïve — “quoted” …'", []),
        ("echo Привет мир", []),
        ("echo \x1b[0m", ["1 character that is invisible", "U+001B ESCAPE"]),
        ("echo \u202e\u200b\u200b", ["3 characters that are", "RIGHT-TO-LEFT OVERRIDE", "U+200B ZERO WIDTH SPACE x 2"]),
        ("c\u0430t /etc/passwd", ["mixes Latin letters with U+0430 CYRILLIC SMALL LETTER A"]),
        ("rm -rf \u2215", ["U+2215 DIVISION SLASH looks like /"]),
        ("curl example.com\uff0fx", ["U+FF0F FULLWIDTH SOLIDUS looks like /"]),
        ("echo שלום", ["right-to-left letters"]),
        ("ls" + " " * 60 + "; rm -rf /", ["after a gap of 40 or more blanks"]),
        ("ls" + "\n" * 12 + "rm -rf /", ["after 10 or more empty lines"]),
        ("ls" + "\n" * 30, []),
    ],
)
def test_warnings(text, words):
    found = " | ".join(warnings(text))
    assert bool(found) == bool(words)
    for word in words:
        assert word in found


def test_many_kinds_of_odd_characters_are_counted_not_listed():
    (warning,) = warnings("".join(map(chr, range(1, 9))))
    assert "8 characters" in warning
    assert warning.endswith("and 3 other kinds")
