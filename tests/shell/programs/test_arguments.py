"""Options and operands, the way getopt reads them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.programs.arguments import Arguments, OptionUse, assign_slots, read_arguments
from humanlayer_agent.shell.programs.spec import Option, Slot, Spec
from humanlayer_agent.shell.syntax.tree import Word


def made(text: str) -> Field:
    """`*` stands for a wildcard, `$x` for one unknown word, `$@` for several."""
    word = Word(text, None, 0, len(text), dynamic=True)
    if "$" in text:
        return Field(word, 0, len(text), prefix=text.partition("$")[0], many=text.endswith("$@"))
    if "*" in text:
        return Field(word, 0, len(text), glob=text, prefix=text.partition("*")[0], pathname=True)
    return Field(word, 0, len(text), text=text, prefix=text)


SPEC = Spec(
    "tool",
    short={"v": Option("verbose", 0, "text"), "o": Option("output", 1, "write"), "i": Option("backup", 2, "text")},
    long={"--verbose": Option("verbose", 0, "text"), "--output": Option("output", 1, "write")},
    abbreviate=True,
)


def read(text: str) -> Arguments:
    return read_arguments(SPEC, [made(t) for t in text.split()])


@pytest.mark.parametrize(
    ("text", "uses", "loose"),
    [
        ("-i*", [("backup", "*")], []),
        ("-vi*", [("verbose", None), ("backup", "*")], []),
        ("-o?*", [("output", "?*")], []),
        ("-oa* b", [("output", "a*")], []),
        ("-vvob*", [("verbose", None), ("verbose", None), ("output", "b*")], []),
        ("-o* b", [], ["-o*"]),
        ("-v* b", [], ["-v*"]),
        ("-x* b", [], ["-x*"]),
        ("-* b", [], ["-*"]),
        ("-oa$@ b", [], ["-oa$@"]),
    ],
)
def test_a_pattern_behind_short_options(text: str, uses: list[tuple[str, str | None]], loose: list[str]) -> None:
    found = read(text)
    assert [(u.option.name, u.value.glob if u.value is not None else None) for u in found.options] == uses
    assert [word.word.raw for word in found.loose] == loose


@pytest.mark.parametrize(
    ("text", "options", "operands"),
    [
        ("-v a", ["verbose"], ["a"]),
        ("a -v", ["verbose"], ["a"]),
        ("-- -v", [], ["-v"]),
        ("-vo f a", ["verbose", "output=f"], ["a"]),
        ("-of a", ["output=f"], ["a"]),
        ("-i a", ["backup"], ["a"]),
        ("-ibak a", ["backup=bak"], ["a"]),
        ("--output=f a", ["output=f"], ["a"]),
        ("--out f a", ["output=f"], ["a"]),
        ("-", [], ["-"]),
    ],
)
def test_options(text: str, options: list[str], operands: list[str]) -> None:
    found = read(text)
    assert [u.option.name + (f"={u.value.text}" if u.value else "") for u in found.options] == options
    assert [o.text for o in found.operands] == operands
    assert not found.unknown
    assert not found.loose


@pytest.mark.parametrize("text", ["-x", "--nothing", "--verbose=1", "-o", "-vx a"])
def test_unknown_options(text: str) -> None:
    assert read(text).unknown


@pytest.mark.parametrize("text", ["$x", "a$@", "*", "-o $@ a", "-o * a", "--outp$x"])
def test_words_that_may_add_options(text: str) -> None:
    assert read(text).loose


def test_a_wildcard_in_an_options_value() -> None:
    found = read("--output=*.py a")
    assert [(u.option.name, u.value.glob) for u in found.options if u.value] == [("output", "*.py")]
    assert [o.text for o in found.operands] == ["a"]


def slots(kinds: str, words: str) -> list[tuple[str, str]]:
    made_slots = [Slot(k.rstrip("*+"), k[-1] if k[-1] in "*+" else "") for k in kinds.split()]
    pairs, excess = assign_slots(made_slots, [made(w) for w in words.split()])
    return [(s.kind, w.word.raw) for s, ws in pairs for w in ws] + [("excess", w.word.raw) for w in excess]


def test_slots() -> None:
    assert slots("read+ write", "a b c") == [("read", "a"), ("read", "b"), ("write", "c")]
    assert slots("text read*", "a b c") == [("text", "a"), ("read", "b"), ("read", "c")]
    assert slots("read write", "a b c") == [("read", "a"), ("write", "b"), ("excess", "c")]
    assert slots("text command", "a b c") == [("text", "a"), ("command", "b"), ("command", "c")]


def test_a_wildcard_may_take_several_places() -> None:
    assert ("move", "a*") in slots("move+ write", "a*")
    assert ("read", "*") in slots("text read*", "* f")
    assert ("read", "b*") in slots("read+ write", "a b*")
    assert slots("read+ write", "a* b") == [("read", "a*"), ("write", "b")]


def test_words_of_unknown_number_may_stand_anywhere() -> None:
    assert set(slots("read+ write", "$@ b")) == {("read", "$@"), ("read", "b"), ("write", "$@"), ("write", "b")}


def test_options_are_abbreviated_only_where_the_program_does_so() -> None:
    strict = Spec("strict", long={"--output": Option("output", 1, "write")})
    assert read_arguments(strict, [made("--out=f")]).unknown


WORDS = st.sampled_from(
    str.split("-v -vv -o -vo -of -vofile -i -ibak -x -vx -- - --output=f --out --out= --verbose --verbose=1 --nothing")
    + str.split("a b file +5 -5 $x -$x $@ *.py -*")
)


def seen(found: Arguments) -> list[object]:
    """All that was read, with where it stands."""

    def place(word: Field | None) -> object:
        return None if word is None else (word.start, word.end, word.text, word.glob, word.prefix)

    def use(each: OptionUse) -> object:
        return id(each.option), place(each.at), place(each.value)

    words = (found.operands, found.unknown, found.loose)
    return [[use(each) for each in found.options], *([place(word) for word in group] for group in words)]


@given(st.lists(st.lists(WORDS, max_size=5), max_size=12), st.booleans(), st.booleans())
def test_what_was_read_before_changes_nothing(lines: list[list[str]], permute: bool, digits: bool) -> None:
    remembering = replace(SPEC, shapes={}, permute=permute, digits=digits)
    for line in [*lines, *lines]:
        anew = replace(remembering, shapes={})
        assert seen(read_arguments(remembering, placed(line))) == seen(read_arguments(anew, placed(line)))


def placed(line: list[str]) -> list[Field]:
    fields = [made(text) for text in line]
    for n, each in enumerate(fields):
        each.start, each.end = each.start + 100 * n, each.end + 100 * n
    return fields


def test_other_operands_have_the_same_shape() -> None:
    spec = replace(SPEC, shapes={})
    for line in (["-v", "a"], ["-v", "b"], ["-v", "c" * 500]):
        read_arguments(spec, placed(line))
    assert len(spec.shapes) == 1


def test_what_is_remembered_of_shapes_is_bounded() -> None:
    spec = replace(SPEC, shapes={})
    for n in range(1000):
        read_arguments(spec, placed([f"-o{n}", "a"]))
    for line in (["-o" + "x" * 1000], ["a"] * 50, ["$x"]):
        read_arguments(spec, placed(line))
    assert len(spec.shapes) <= 256
    assert all(len(shape) <= 16 for shape in spec.shapes)
