"""No text makes the analysis fail, and none makes it work without bound."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.interpreter.state import COMMAND, MAX_WORK
from tests.support.extent import examples

WORDS = """x=1 y=$x export declare local readonly unset set shift read eval source trap cd pushd popd if then else elif fi for in
    do done while until case esac function { } ( ) (( )) [[ ]] ; & && || | |& ;; > >> < << <<< >& 2>&1 $x "$x" ${x:-y}
    ${x%a*} ${x/a/b} ${x:0:1} ${#x} ${!x} ${x@P} "$@" $* $# $? $((x+1)) $((x=2)) $(ls) `ls` <(ls) >(cat) {a,b} {1..3} * ?
    [a] ~ ~/x 'q' "d" \\a a b rm ls echo printf bash -c -e -rf / /tmp .. -- = := a=(1 2) ${a[@]} a[0]=1 f() f IFS=, return exit
    break xargs find -exec {} + \\; sudo env timeout 5 ! time select coproc"""
PIECES = st.sampled_from(WORDS.split())
SEPARATORS = st.sampled_from([" ", " ", " ", " ", "\n", "; ", ""])


@pytest.mark.long
@settings(max_examples=examples(600))
@given(st.lists(st.tuples(PIECES, SEPARATORS), max_size=30))
def test_it_never_fails(pieces: list[tuple[str, str]]) -> None:
    program = analyse("".join(a + b for a, b in pieces), cwd="/p", environ={"HOME": "/h"}, closed=True)
    assert not any("internal" in reason for reason in program.reasons)
    assert program.status in ("ok", "partial", "failed")
    assert len(program.commands) <= MAX_WORK // COMMAND + 100
    assert all(a is not None for c in program.commands for a in c.argv)


@settings(max_examples=examples(300))
@given(st.text(max_size=60))
def test_it_never_fails_on_any_text(text: str) -> None:
    program = analyse(text, cwd="/p")
    assert not any("internal" in reason for reason in program.reasons)
