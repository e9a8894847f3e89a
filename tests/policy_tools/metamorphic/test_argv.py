"""`argv` goes by what each word is for certain, and not by how it looks."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.word_patterns import TextSet, argv_matches
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.policy import Text
from humanlayer_agent.shell import analyse

PROJECT = "/nowhere/project"


@pytest.mark.parametrize(
    ("argv", "command", "expected"),
    [
        # Known words that look as if they were not.
        ("[grep, '$HOME', a]", "grep '$HOME' a", "deny"),
        ("[grep, x, a]", "grep '$HOME' a", "allow"),
        ("[grep, 'a*b', '...']", "grep 'a*b' x", "deny"),
        ("[echo, x]", "echo '<>'", "allow"),
        ("[echo, x]", "echo '{a,b}'", "allow"),
        ("[echo, '`id`']", "echo '`id`'", "deny"),
        ("[rm, x]", "y=x; rm $y", "deny"),
        ("[rm, z]", "y=x; rm $y", "allow"),
        ("[rm, a, b]", "rm {a,b}", "deny"),
        # A quoted word is one word, whatever it is.
        ("[rm, '*']", 'rm "$X"', "ask"),
        ("[rm]", 'rm "$X"', "allow"),
        ("[rm, a, b]", 'rm "$X"', "allow"),
        ("[rm, a, '...']", 'rm a "$X"', "deny"),
        ("[rm]", "rm $X", "ask"),
        ("[rm, a, b]", "rm $X", "ask"),
        ("[rm, a, b]", 'rm "$@"', "ask"),
        ("[rm, a, b]", 'rm "$*"', "allow"),
        # A pattern stays itself where nothing matches: at least one word.
        ("[rm]", "rm *", "allow"),
        ("[rm]", "shopt -s nullglob; rm *", "ask"),
        ("[rm, a, b]", "rm *", "ask"),
        # What it begins with rules a word out.
        ("[terraform, apply, '...']", 'terraform "-$X"', "allow"),
        ("[terraform, apply, '...']", 'terraform "app$X"', "ask"),
        ("[terraform, 'd*y', '...']", 'terraform "app$X"', "allow"),
        ("[terraform, {regex: 'd.*'}, '...']", 'terraform "app$X"', "allow"),
        ("[terraform, {regex: 'ap.*'}, '...']", 'terraform "app$X"', "ask"),
        # One of several known words.
        ("[rm, a]", "for x in a b; do rm $x; done", "ask"),
        ("[rm, '?']", "for x in a b; do rm $x; done", "deny"),
        ("[rm, c]", "for x in a b; do rm $x; done", "allow"),
        # Commands that others run.
        ("[rm, '...']", "ls | xargs rm", "deny"),
        ("[rm, a]", "ls | xargs rm", "ask"),
        ("[rm, a]", "bash -c 'rm $1' x a", "deny"),
    ],
)
def test_argv(director_of: Callable[..., Director], argv: str, command: str, expected: str) -> None:
    rule = f"  - {{id: r, decision: deny, when: {{argv: {argv}}}}}\n"
    decision = director_of(rule, defaults="{unmatched: allow}").evaluate(Action(command, cwd=PROJECT))
    if expected == "allow":
        assert "r" not in decision.rules
    else:
        assert decision.rules[:1] == ("r",)
        assert str(decision.verdict) == expected


WORD = st.sampled_from(["a", "b", "ab"])
SHOWN = st.sampled_from(["a", "b", "ab", '"$Q"', "$U", '"a$Q"', "*"])


@given(
    pattern=st.lists(st.sampled_from(["a", "b", "ab", "a*", "..."]), max_size=4),
    shown=st.lists(SHOWN, max_size=4),
    quoted=WORD,
    unquoted=st.lists(WORD, max_size=3),
    files=st.lists(WORD, min_size=1, max_size=2),
)
def test_what_is_certain_stays_right_whatever_the_words_are(
    pattern: list[str], shown: list[str], quoted: str, unquoted: list[str], files: list[str]
) -> None:
    items = [TextSet([Text(glob="frob")]), *(None if word == "..." else TextSet([Text(glob=word)]) for word in pattern)]
    (command,) = analyse(" ".join(["frob", *shown]), cwd=PROJECT).commands
    answer = argv_matches(items, command.argv, command.words)
    becomes = {'"$Q"': [quoted], '"a$Q"': ["a" + quoted], "$U": unquoted, "*": files}
    real = ["frob", *(word for each in shown for word in becomes.get(each, [each]))]
    # Compared to a plain reading, word by word, of what it becomes.
    known = argv_matches(items, real)
    assert known in (YES, NO)
    assert answer in (known, MAYBE)
    if answer == MAYBE:
        assert any(each in becomes for each in shown)
