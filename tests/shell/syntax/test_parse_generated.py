"""Generated scripts, whose commands are known, and bash's own opinion of them. Nothing is executed."""

import os
import re
from collections import Counter

import pytest

from humanlayer_agent.shell.syntax import parse
from humanlayer_agent.shell.syntax.refusal import Unparsed
from humanlayer_agent.shell.syntax.tree import Lit, Script, simples, words_of
from tests.support.extent import SOAK, some
from tests.support.oracles import OracleCrashed, bash_accepts, bash_prints
from tests.support.scripts import DECOY, Generated, ScriptGenerator
from tests.support.trees import command_names, every_word

FIRST_SEED = int(os.environ.get("HLA_SEED", "20000"))


def generated(count: int, soak: int) -> list[Generated]:
    return [ScriptGenerator(FIRST_SEED + seed).script() for seed in range(some(count, here=count // 4, soak=soak))]


def accepted(count: int, soak: int) -> list[tuple[Generated, Script]]:
    """Generated scripts that our parser takes, with their trees."""
    found = []
    for script in generated(count, soak):
        try:
            found.append((script, parse.read(script.text, [])))
        except Unparsed:
            continue
    return found


def test_same_seed_same_script() -> None:
    assert ScriptGenerator(5).script() == ScriptGenerator(5).script()
    assert len({ScriptGenerator(seed).script().text for seed in range(50)}) > 40


@pytest.mark.long
def test_no_command_is_hidden_and_no_decoy_is_listed() -> None:
    pairs = accepted(500, 5000)
    assert len(pairs) > (0.8 * len(generated(500, 5000)))
    for script, tree in pairs:
        names = command_names(tree)
        assert [name for name in script.names if name not in names] == [], script.text
        assert DECOY not in names, script.text


# bash 5.2 does not know `time` for a reserved word where it is the first in a substitution, until it runs it
TIME_FIRST = re.compile(r"\(\s*time")


def test_what_is_taken_bash_takes_too() -> None:
    for script, _ in accepted(120, 3000):
        assert TIME_FIRST.search(script.text) or bash_accepts(script.text), script.text


def test_bash_prints_the_same_commands_back() -> None:
    """bash's own tree, seen through `declare -f`, has the same commands in it, word for word in number and name."""
    checked = 0
    for script, tree in accepted(150, 3000):
        # bash prints here-documents of conditions in the wrong place, and no `;` after a word that ends with \&
        if "<<" in script.text or "\\&" in script.text or TIME_FIRST.search(script.text):
            continue
        try:
            printed = bash_prints(script.text)
        except OracleCrashed:
            continue
        assert printed is not None, script.text
        assert shape(parse.read(printed, [])) == shape(tree), script.text
        checked += 1
    assert checked > some(40, here=10)


def shape(script: Script) -> Counter[tuple[str | None, int, int]]:
    commands = simples(script)
    return Counter((c.words[0].text if c.words else None, len(c.words), len(c.assigns)) for c in commands)


def literals(script: Script) -> list[tuple[int, int]]:
    """Where the single-quoted words and the bodies of quoted here-documents are: opaque, says our parser."""
    found = []
    delimiters = []
    for command in simples(script):
        for redirect in command.redirects:
            if redirect.body is not None:
                delimiters.append(redirect.target)
                if redirect.target.quoted and redirect.body.text:
                    found.append((redirect.body.start, redirect.body.end))
    for word in every_word(script):
        if re.fullmatch("'[^']*'", word.raw) and word not in delimiters:
            found.append((word.start + 1, word.end - 1))
    return found


def test_opaque_canary() -> None:
    """A `)` put into what we call literal text must not be a syntax error for bash."""
    checked = 0
    for script, tree in accepted(100, 1500):
        for start, _ in literals(tree)[: 2 if not SOAK else 20]:
            canary = script.text[:start] + ")" + script.text[start:]
            if bash_accepts(script.text):
                assert bash_accepts(canary), canary
                checked += 1
    assert checked > some(20, here=5)


@pytest.mark.parametrize("seed", range(20))
def test_trees_hold_together(seed: int) -> None:
    """Every word's text is what its literal parts say, and words_of reaches every simple command's words."""
    text = ScriptGenerator(seed).script().text
    try:
        tree = parse.read(text, [])
    except Unparsed:
        return
    for word in every_word(tree):
        if word.parts and not word.dynamic:
            assert word.text == "".join(part.text for part in word.parts if isinstance(part, Lit))
        assert word.dynamic == (word.text is None)
    for command in simples(tree):
        reached = list(words_of(command))
        assert all(word in reached for word in command.words)
