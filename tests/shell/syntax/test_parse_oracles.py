"""Two other parsers: shfmt and tree-sitter-bash. Where they differ from us, the difference has a name."""

import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from humanlayer_agent.shell.syntax import parse
from humanlayer_agent.shell.syntax.refusal import Unparsed
from tests.support.extent import SOAK
from tests.support.oracles import Argv, find_shfmt, our_argv, shfmt_argv, tree_sitter_argv
from tests.support.scripts import mutant

DATA = Path(os.environ.get("HLA_DATA", "../shared/data"))
COMMANDS = [
    "cd /tmp && ls -la | grep -v 'x y' > out 2>&1",
    "cat <<'EOF' > f.py\nprint(\"$(hi)\")\nEOF\npython f.py",
    "cat <<EOF\n$(date) ${x:-$(pwd)}\nEOF\nls",
    'for f in *.py; do echo "$f" $(wc -l < $f); done',
    "if [ -f a ]; then rm a; elif grep -q b c; then mv c d; else touch e; fi",
    'while read -r line; do echo "$line"; done < input',
    'case $1 in -h|--help) usage;; *) run "$@";; esac',
    "find . -name '*.o' -exec rm {} \\; -o -print0 | xargs -0 ls",
    "x=$(cat f | head -1) y=2 make -C dir \"a b\"'c'",
    "f() { local a=$1; echo ${a%%.*} ${a//x/y}; }; f z",
    "[[ $a == *.txt && -n $b ]] && echo $((1 + 2 * $c))",
    "diff <(sort a) <(sort b) || (cd x; tar czf - . | ssh host 'cat > y')",
    "export PATH=$HOME/bin:$PATH LANG=C; declare -a v=(1 2 $(three)); unset x",
    "git log --format='%h %s' | awk '{print $1}' | sort -u &",
    "sed -i -e 's/a/b/' -e \"s/$x/y/\" file && git diff; echo `hostname`",
    "for ((i=0; i<3; i++)); do a $i; done; until b; do sleep 1; done",
    "! grep -q x y; time make -j; { a; b; } >> log",
]

_CLOSED_DESCRIPTOR = re.compile(r"[<>]&[ \t]*-[^ \t\n;&|()<>]")
_COMMENT_WITH_BACKSLASH = re.compile(r"#[^\n]*\\\n")
_TIME_AFTER_PIPE = re.compile(r"\|&?[\s\\]*time\b")
_EMPTY_QUOTES_IN_DELIMITER = re.compile(r"<<-?[ \t]*[^ \t\n;&|()<>]*(?:''|\"\")")
_SPLIT_DOLLAR = re.compile(r"\$\\\n")
_ESCAPE_IN_BACKTICKS = re.compile(r"`[^`]*\\[`$\\]")


def shfmt() -> str:
    program = find_shfmt()
    if program is None:
        pytest.skip("shfmt is missing (package shfmt-py)")
    return program


def joined(commands: Iterable[Argv]) -> Counter[Argv]:
    """The commands, each word without deleted line continuations."""
    return Counter(tuple(word.replace("\\\n", "") for word in argv) for argv in commands)


def named_difference(text: str) -> str | None:
    """Why another parser may read `text` otherwise than bash does (each checked against bash 5.2)."""
    if _CLOSED_DESCRIPTOR.search(text):
        return "shfmt and tree-sitter take `x` in `>&-x` for a part of the target; for bash it is a word"
    if _COMMENT_WITH_BACKSLASH.search(text):
        return "shfmt continues a comment over a backslash-newline; bash does not"
    if _TIME_AFTER_PIPE.search(text):
        return "after `|`, `time` is a program for bash, and a reserved word for shfmt"
    if _EMPTY_QUOTES_IN_DELIMITER.search(text):
        return "for bash a here-document is literal when its delimiter has empty quotes in it, for the others not"
    if _SPLIT_DOLLAR.search(text):
        return "in a here-document bash joins `$` and what follows a backslash-newline; shfmt leaves them apart"
    if _ESCAPE_IN_BACKTICKS.search(text):
        return "the words inside escaped backticks are written with escapes by one and without by the other"
    return None


def unexplained(text: str, program: str) -> str | None:
    """How both other parsers contradict us on `text`, or None."""
    try:
        ours = joined(our_argv(parse.read(text, [])))
    except Unparsed:
        return None
    first, second = shfmt_argv(text, program), tree_sitter_argv(text)
    if first is None or joined(first) == ours:
        return None
    names = Counter(argv[0] for argv in ours.elements())
    if second is not None and Counter(argv[0] for argv in joined(second).elements()) == names:
        return None  # two against one
    return None if named_difference(text) else f"{text!r}: {ours - joined(first)} against {joined(first) - ours}"


@pytest.mark.parametrize("text", COMMANDS)
def test_argv_is_that_of_both_others(text: str) -> None:
    ours = joined(our_argv(parse.read(text, [])))
    assert joined(shfmt_argv(text, shfmt()) or []) == ours
    assert joined(tree_sitter_argv(text) or []) == ours


@pytest.mark.long
def test_mutants_differ_only_where_the_reason_is_known() -> None:
    program, chance = shfmt(), random.Random(int(os.environ.get("HLA_SEED", "1234")))
    for _ in range(10_000 if SOAK else 400):
        assert unexplained(mutant(COMMANDS, chance), program) is None


def real_commands() -> list[str]:
    path = DATA / "agent_runs.jsonl"
    if not path.exists():
        pytest.skip(f"no data: {path} is missing; set HLA_DATA (allowed in CI)")
    with path.open() as rows:
        return list(dict.fromkeys(json.loads(row)["command"] for row in rows))


@pytest.mark.long
def test_mutants_of_real_commands_differ_only_where_the_reason_is_known() -> None:
    program, chance = shfmt(), random.Random(int(os.environ.get("HLA_SEED", "1234")))
    commands = [text for text in real_commands() if len(text) < 400]
    for _ in range(10_000 if SOAK else 400):
        assert unexplained(mutant(commands, chance), program) is None


def test_argv_of_real_commands_is_that_of_both_others() -> None:
    program, commands = shfmt(), real_commands()
    different = 0
    for text in commands if SOAK else commands[::20]:
        try:
            ours = joined(our_argv(parse.read(text, [])))
        except Unparsed:
            continue
        first, second = shfmt_argv(text, program), tree_sitter_argv(text)
        assert first is None or joined(first) == ours, text
        different += second is not None and joined(second) != ours
    assert different <= 2  # backticks in a here-document, which tree-sitter does not read


def test_real_commands_are_ok() -> None:
    commands = real_commands()
    refused = [text for text in commands if parse.parse(text).status != "ok"]
    assert len(refused) <= len(commands) / 1000
