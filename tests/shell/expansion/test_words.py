"""What a word becomes, as far as that is certain."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.expansion.field import Field, bare_pattern, wildcards
from humanlayer_agent.shell.expansion.words import _Expansion, _Mode, _parts, expand, literal_values
from humanlayer_agent.shell.interpreter.state import Glob, State
from humanlayer_agent.shell.syntax.parse import parse
from humanlayer_agent.shell.syntax.tree import Simple, Word
from humanlayer_agent.shell.syntax.word_builder import Role, is_pattern
from tests.support.extent import examples


def words(text: str) -> list[Word]:
    script = parse(f": {text}").script
    assert script is not None
    assert isinstance(script.body, Simple)
    return script.body.words[1:]


def fields(text: str, **variables: str | tuple[str, ...] | None) -> list[Field]:
    state = State(("/p",), {"HOME": "/h"}, closed=True, positional=("one", "two words"))
    for name, value in variables.items():
        state.assign(name, (value,) if isinstance(value, str) else value)
    state.assign_array("list", ("p", "q r"))
    return [f for w in words(text) for f in expand(w, state)]


def texts(text: str, **variables: str | tuple[str, ...] | None) -> list[str | None]:
    return [f.text for f in fields(text, **variables)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a'b'\"c\"\\d", ["abcd"]),
        ("{a,b}{1..2}", ["a1", "a2", "b1", "b2"]),
        ("{a},b} x{},a} stash@{0} {}", ["a}", "b", "x}", "xa", "stash@{0}", "{}"]),
        ("{01..100..50} {3..1}", ["001", "051", "3", "2", "1"]),
        ("~ ~/a a=~ a=b:~ x:~ '~' ~\"\"", ["/h", "/h/a", "a=/h", "a=b:/h", "x:~", "~", None]),
        ("$x \"$x\" p$x", ["a", "b", "a b", "pa", "b"]),
        ("$none \"$none\" ''", ["", ""]),
        ("${none:-d} ${x:+s} ${none-}", ["d", "s"]),
        ("$1 \"$2\" $#", ["one", "two words", None]),
        ("\"$@\" \"a$*\"", ["one", "two words", "aone two words"]),
        ("\"${list[@]}\" ${list[1]} $list", ["p", "q r", "q", "r", "p"]),
        ("${f%.py} ${f##*/} \"${f/d/e}\" ${f:2} ${f^^} ${#f}", ["/d/n", "n.py", "/e/n.py", "/n.py", "/D/N.PY", "7"]),
        ("$(echo hi there) \"$(echo hi there)\"", ["hi", "there", "hi there"]),
    ],
)  # fmt: skip
def test_known_words(text: str, expected: list[str | None]) -> None:
    assert texts(text, x="a b", f="/d/n.py") == expected


@given(st.text("ab*?[]!^-./=:@%+,#", min_size=1, max_size=8), st.booleans())
def test_a_bare_pattern_is_what_the_whole_expansion_makes_of_it(text: str, nullglob: bool) -> None:
    state = State(("/p",), {"HOME": "/h"}, nullglob=nullglob)
    word = Word(text, text, 2, 2 + len(text), False, is_pattern(text, Role.WORD), False, [])
    assert bare_pattern(word)
    (whole,) = _Expansion(word, state, _Mode.WORD).fields(_parts(word))
    for found in (wildcards(word, nullglob=nullglob), *(expand(word, state) if word.pattern else ())):
        assert [getattr(found, name) for name in Field.__slots__] == [getattr(whole, n) for n in Field.__slots__]


@pytest.mark.parametrize(
    ("text", "glob"),
    [
        ("-j$(nproc)", "-j[0-9]*"),
        ('"$(date +%s)"', "[0-9]*"),
        ("a$(date +%Y).log", "a[0-9]*.log"),
        ("$(nproc)", "[0-9]*"),
        ("$(wc -l < f)", None),
        ("$(nproc --all)", None),
        ("$(nproc 2> f)", None),
        ("$(x=1 nproc)", None),
        ("$(date +%s; cat f)", None),
        ("$(date +%N)", None),
    ],
)
def test_digits_that_a_program_prints(text: str, glob: str | None) -> None:
    (found,) = fields(text)
    assert (found.text, found.glob, found.pathname, found.many) == (None, glob, False, glob is None)
    assert not any(f.glob for f in fields(text, PATH="/x"))
    assert all(f.glob is None for f in fields(text, IFS="0") if not text.startswith('"'))


@pytest.mark.parametrize("text", ["'*'", "\\*", "a{b,c}", "~/x*", "*$x", '"a"*', "*\\?"])
def test_what_is_no_bare_pattern(text: str) -> None:
    (word,) = words(text)
    assert not bare_pattern(word)


@pytest.mark.parametrize(
    "text",
    [
        "$?x", "$other", "$0", "~root", "${x@P}", "${!x}", "${none:-'a b' c}", "$(cat f)", "{a..Z}", "{1..$x}", "$x{a,b}",
        "''$x", "${x//[a]/b}", "$_", "$PWD/$OLDPWD", "<(ls)$y",
        "~$x", "~root:$x", "${x:-{a,b}{1,2}}",
    ],
)  # fmt: skip
def test_unknown_words(text: str) -> None:
    assert None in texts(text, x=" a b ", y=None, other=None)


def test_wildcards_become_patterns() -> None:
    (field,) = fields("/a/*.py")
    assert (field.glob, field.prefix, field.pathname, field.many) == ("/a/*.py", "/a/", True, False)
    (field,) = fields("$x", x="*.py")
    assert field.glob == "*.py"
    assert texts("\"$x\" '*' \\*", x="*.py") == ["*.py", "*", "*"]


def test_a_variable_that_holds_file_names_is_a_pattern_where_it_is_quoted() -> None:
    (quoted, bare) = fields('"d/$f.bak" $f', f=(Glob("*.py"),))
    assert (quoted.glob, quoted.pathname) == ("d/*.py.bak", False)
    assert (bare.glob, bare.many) == (None, True)


def test_several_values_are_choices() -> None:
    (field,) = fields("a$x", x=("1", "2"))
    assert field.choices == ("a1", "a2")
    (field,) = fields("$x", x=("1", "2 3"))
    assert field.dynamic


def test_what_may_be_an_option() -> None:
    assert [f.may_be_option() for f in fields("-a a $u a$u * a* $? \"a$u\"", u=None)] == [
        True, False, True, True, True, False, False, False,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ifs", "expected"),
    [((":",), ["a", "b c"]), (("",), ["a:b c"]), ((" :",), ["a", "b", "c"]), (None, None), ((":", " "), None)],
)
def test_other_separators_split_where_they_are_known(ifs: tuple[str, ...] | None, expected: list[str] | None) -> None:
    state = State(("/p",), {}, closed=True)
    state.assign("x", ("a:b c",))
    state.assign("IFS", ifs)
    bare, quoted = words('$x "$x"')
    found = expand(bare, state)
    assert found[0].many if expected is None else [field.text for field in found] == expected
    assert expand(quoted, state)[0].text == "a:b c"


def test_a_later_tilde_in_a_here_string_is_unknown() -> None:
    state = State(("/p",), {"HOME": "/h"}, closed=True)
    assert [literal_values(w, state, assignment=False) for w in words("~/a '{a}'b=c:~ $none")] == [
        ("/h/a",),
        None,
        ("",),
    ]


def test_values_of_assignments() -> None:
    state = State(("/p",), {"HOME": "/h"}, closed=True)
    assert [literal_values(w, state) for w in words("a $none ~:~/b 'a b'*")] == [("a",), ("",), ("/h:/h/b",), ("a b*",)]


@settings(max_examples=examples(300))
@given(st.text(alphabet="ab{},.$x@*?[]~=:'\"\\ /-1#%!()`", max_size=24))
def test_any_word_is_expanded(text: str) -> None:
    parsed = parse(f"printf {text}").script
    if parsed is None or not isinstance(parsed.body, Simple):
        return
    state = State(("/p",), {"HOME": "/h"}, closed=True, positional=())
    state.assign("x", ("a b", "*"))
    for word in parsed.body.words:
        for field in expand(word, state):
            assert (field.text is not None) + bool(field.choices) + (field.glob is not None) <= 1
