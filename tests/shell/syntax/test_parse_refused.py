"""What is refused, with a stable reason; what was seen before that; and that no input crashes or hangs."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.syntax import parse
from humanlayer_agent.shell.syntax.commands import CommandLexer
from humanlayer_agent.shell.syntax.cursor import MAX_CHARS, MAX_DEPTH, MAX_STEPS, MAX_WORDS, Budget, Source
from humanlayer_agent.shell.syntax.refusal import Unparsed
from humanlayer_agent.shell.syntax.tree import Simple
from tests.support.extent import examples
from tests.support.rows import for_each
from tests.support.scripts import FRAGMENTS

REFUSED = [
    ("ls\rrm", "control character"),
    ("ls\x00rm", "control character"),
    ("ls\x1b[2K", "control character"),
    ("ls\x7f", "control character"),
    ("ls \udc80", "undecodable bytes"),
    ("x" * (MAX_CHARS + 1), "text too long"),
    ("x " * (MAX_WORDS + 1), "too many words"),
    ("$(" * (MAX_DEPTH + 1), "nested too deeply"),
    ("(" + " (" * MAX_DEPTH, "nested too deeply"),
    ("echo " + "${x:-" * 2000, "nested too deeply"),
    ("echo 'a", "unterminated '"),
    ('echo "a', 'unterminated "'),
    ("echo `a", "unterminated `"),
    ("echo $'a", "unterminated $'"),
    ("echo $(a", "unterminated substitution"),
    ("echo ${a:-b", "unterminated ${"),
    ("echo $((1+1", "unterminated arithmetic"),
    ("a[$(rm)", "unterminated subscript"),
    ("echo \\", "backslash at the end"),
    ("cat <<E\na", "unterminated here-document"),
    ("cat <<E", "unterminated here-document"),
    ("( ls", "unterminated ("),
    ("{ ls; ", "unterminated {"),
    ("if a; then b", "unterminated if"),
    ("case x in", "unterminated case"),
    ("case x in a) b", "unterminated arm"),
    ("for i in a; do b", "unterminated do"),
    ("[[ a =~ (b ]]", "unterminated ( in [["),
    ("[[ a", "no word in [["),
    ("coproc ls", "coproc"),
    ("((a); (b))", "ambiguous (("),
    ("echo $((a); (b))", "ambiguous (("),
    ("echo ${ ls; }", "function substitution ${ }"),
    ("echo ${|ls; }", "function substitution ${ }"),
    ("b\\\nc=1 rm", "line continuation inside a token"),
    ("ls &\\\n& rm", "line continuation inside a token"),
    ("echo $\\\n(rm)", "line continuation inside a token"),
    ("echo ${x:-\\\na}", "line continuation inside a token"),
    ("echo `a\\\nb`", "line continuation inside backticks"),
    ("echo a(b)", "unexpected ("),
    ("echo !(a)", "unexpected ("),
    ("!(a)", "extended glob, or a negated subshell"),
    ("case x in @(a)) b;; esac", "case pattern not understood"),
    ("case x y", "case without in"),
    ("ls )", "unexpected )"),
    ("ls; }", "unexpected }"),
    ("fi", "unexpected fi"),
    ("done", "unexpected done"),
    ("esac", "unexpected esac"),
    ("then a", "unexpected then"),
    ("do a", "unexpected do"),
    ("elif a", "unexpected elif"),
    ("ls ;; rm", "unexpected ;;"),
    ("ls ;& rm", "unexpected ;&"),
    ("| ls", "syntax error"),
    ("ls &&", "syntax error"),
    ("ls || && rm", "syntax error"),
    ("{ ls; } rm", "syntax error"),
    ("for a b; do c; done", "syntax error"),
    ("f() rm", "syntax error"),
    ("a=1 f() { rm; }", "unexpected ("),
    ("'f'() { rm; }", "function name not understood"),
    ("$f() { rm; }", "function name not understood"),
    ("!", "! without a command"),
    ("time", "time without a command"),
    ("time; rm", "time without a command"),
    ("ls >", "no word in a redirect"),
    ("ls > #f", "no word in a redirect"),
    ("ls > ; rm", "no word in a redirect"),
    ("a=(b)c rm", "text right after an array"),
    ("a=(b)'c' rm", "text right after an array"),
    ("a=(b)<(c) rm", "text right after an array"),
    ("declare a=(b)c", "text right after an array"),
    ("a=([1 + 1]=2)", "subscript in an array not understood"),
    ("a=([$[1]b 2])", "subscript in an array not understood"),
    ("$(if cat <<A; then b; fi\nA\n)", "here-document in a compound command in a substitution"),
    ("$(a=(\\;))", "backslash in an array in a substitution"),
    ("a[1 2]x=3", "subscript not understood"),
    ("a[<(rm)]=1", "process substitution in a subscript"),
    ("{a[1]}>f rm", "array element as a file descriptor"),
    ("99999999999>f rm", "file descriptor out of range"),
    ("echo ${x:-<(rm)}", "process substitution in ${ }"),
    ('echo "${x:-it\'s}"', "' in quoted ${ }"),
    ('cat <<E\n${x:-"a"}\nE', '" in ${ } of a here-document or arithmetic'),
    ("echo ${x!y}", "parameter expansion not understood"),
    ("echo ${}", "parameter expansion not understood"),
    ("echo ${#x:-y}", "parameter expansion not understood"),
    ("echo $((1 + '2'))", "quote or backslash in arithmetic"),
    ("echo $'\\xff'", "escape in $' above ASCII or NUL"),
    ("echo $'\\u2713'", "escape in $' above ASCII or NUL"),
    ("echo $'a\\0b'", "escape in $' above ASCII or NUL"),
    ("echo $'\\x{41}'", "escape in $' not understood"),
    ("cat <<$x\n$x", "expansion in a here-document delimiter"),
    ("cat <<'a\nb'\na\nb", "newline in a here-document delimiter"),
    ("cat <<E $(a\nb)\nx\nE", "substitution spans lines before a here-document body"),
    ("cat <<E `a\nb`\nx\nE", "substitution spans lines before a here-document body"),
    ("cat <<E; case x in\nx\nE\nx) rm;; esac", "construct spans lines before a here-document body"),
    ("cat <<E; a=(\nx\nE\n)", "construct spans lines before a here-document body"),
    ("echo $(cat <<E\nE)\nE\n)", "here-document may end at its delimiter and )"),
    ('[[ x =~ ($(rm # "\n)) ]]', "substitution in a group of [["),
    ("[[ x == #y ]]", "no word in [["),
]


@for_each(("text", "reason"), REFUSED)
def test_refused(text: str, reason: str) -> None:
    found = parse.parse(text)
    assert (found.status, found.reasons, found.script) == ("failed", [reason], None)


@pytest.mark.parametrize(
    "text",
    [
        "rm -rf x; echo 'open",
        "echo 'open; rm -rf x'; rm -rf x; echo \"",
        "coproc ls; rm -rf x",
        "ls\r\nrm -rf x",
        "if true; then rm -rf x",
        "echo $(rm -rf x; cat <<E)",
        "rm -rf x\n" + "ls " * (MAX_WORDS + 1),
        "rm -rf x # " + "y" * MAX_CHARS,
    ],
)
def test_a_refused_text_has_witnesses(text: str) -> None:
    found = parse.parse(text)
    assert found.status == "failed"
    assert ["rm", "-rf", "x"] in [[word.text for word in command.words[:3]] for command in found.witnesses]


def test_the_words_of_a_loop_are_no_witness() -> None:
    seen: list[Simple] = []
    with pytest.raises(Unparsed):
        parse.read("for i in rm -rf; do ls 'x; done", seen)
    assert [[word.text for word in command.words] for command in seen] == [["ls"]]


def test_work_is_counted() -> None:
    budget = Budget()
    for _ in range(MAX_WORDS):
        budget.word()
    with pytest.raises(Unparsed, match="too many words"):
        budget.word()
    for _ in range(MAX_STEPS):
        budget.step()
    with pytest.raises(Unparsed, match="too much work"):
        budget.step()


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "unit",
    [
        *("a ", "'a' ", "\\a", "$a", "((", "$((", "`", "\\`", "{ ", "if ", "a=(", "a[", "${a[", "<<E ", "[[ ", "a;"),
        *("a&\n", "case x in ", "for x in ", "\\\n", "a\\\n ", "! ", "time ", "x(){ ", '"$(', "<(", "$[", "#\n"),
        *("${a#", "=~ (", ">&-", '"${a:-', "a=([", "a[$"),
    ],
)
def test_steps_are_bounded_for_repeated_text(unit: str) -> None:
    budget = Budget()
    text = unit * (MAX_CHARS // len(unit))
    with contextlib.suppress(Unparsed):
        CommandLexer(Source(text), budget, []).script(None)
    assert MAX_STEPS - budget.steps <= 4 * MAX_CHARS


PIECES = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=30).map("".join)


@settings(max_examples=examples(400, soak=20_000))
@given(st.text(max_size=200) | PIECES | st.binary(max_size=200).map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_never_raises(text: str) -> None:
    found = parse.parse(text)
    assert found.status in ("ok", "partial", "failed")
    assert (found.script is None) == (found.status == "failed")
    assert (found.reasons == []) == (found.status == "ok")
    assert found.reasons != ["internal error"], text
