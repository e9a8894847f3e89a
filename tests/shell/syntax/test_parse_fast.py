"""The fast path: never another answer than the slow path, and it takes what most commands are."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.syntax import cursor, fast_path, parse
from humanlayer_agent.shell.syntax.cursor import MAX_CHARS, MAX_WORDS
from humanlayer_agent.shell.syntax.refusal import Unparsed
from tests.support.extent import SOAK, some
from tests.support.rows import for_each
from tests.support.scripts import ScriptGenerator, mutant
from tests.support.trees import difference

DATA = Path(os.environ.get("HLA_DATA", "../shared/data"))
REALISTIC = [
    "ls -la",
    "cd /tmp/work && ls -la src | head -20",
    "cat README.md; wc -l *.py",
    'grep -rn "def main" --include="*.py" . | sort | uniq -c | sort -rn | head -5',
    "sed -n '1,40p' src/app.py",
    "sed -i 's/old \\(name\\)/new \\1/g' src/*.py && git diff --stat",
    'git commit -m "Fix the thing" --no-verify',
    "python -c 'print(1)' 2>&1 | tail -n 3",
    "python3 - <<'EOF'\nimport os\nprint(os.environ['HOME'])\nEOF",
    "cat > /tmp/x.py <<EOF\nprint('hi')\nEOF\npython /tmp/x.py > out.txt 2> err.txt",
    "cat <<'A' > one; cat <<\"B\" >> two\n$(not run)\nA\n`nor this`\nB\nls",
    'FOO=bar BAZ="a b" env | grep FOO',
    'echo "$HOME/$USER" ${PATH} $1 "$@" > /dev/null',
    "find . -name '*.pyc' -not -path './.git/*' -exec rm {} +",
    "find . -name x -exec rm {} \\;",
    "pytest -q tests/test_a.py::TestB::test_c -k 'not slow' || true",
    "make -j4 CFLAGS='-O2 -g' & sleep 1",
    "# a comment\nls # another\n\n# the last",
    "curl -fsSL https://example.org/a?b=c&d=e",
    "tar czf - dir | ssh host 'cat > backup.tgz'",
    "awk '{print $1}' < in > out",
    "docker run --rm -v $PWD:/src -w /src image make",
    "[ -f a ] && rm a",
    "x=1; y=$x; echo $y",
    "export A=b C='d e'",
    "grep 'it'\\''s' file",
    'grep "end$" file | cut -d, -f2',
    "ls 2>&1 >/dev/null | cat",
    "command -v git >/dev/null 2>&1 || exit 1",
    "ls \\\n  -l \\\n  -a",
    'echo "a\\"b\\$c\\\\d" é ü',
    "cat <<< 'text' | bc",
    "exec 3>&1 4<&0 5>&-",
    "echo a{1,2}b ~ ~/x *.? [a-z] {} x=~",
    "time ls; ! grep -q x f",
    "for f in *.py; do echo $f; done",
    "if [ -d x ]; then rm -r x; fi",
    "echo $(date) `pwd`",
    'cd "$(git rev-parse --show-toplevel)" && x=$(ls -a | wc -l) y=a$(b)c cmd > "$(d)/out" 2>&1',
    'cat <<EOF > f\na \\$b \\\\c \\` \\x $ "$" it\'s\nEOF',
    "ls -la | grep 'a b' |head -n 5 | tail \"-n\" 2 ",
]


def corpus() -> list[str]:
    path = DATA / "agent_runs.jsonl"
    if not path.exists():
        pytest.skip(f"no data: {path} is missing; set HLA_DATA (allowed in CI)")
    with path.open() as rows:
        return list(dict.fromkeys(json.loads(row)["command"] for row in rows))


def check(text: str) -> bool:
    """Hold the fast path to the slow one on `text`; whether the fast path took it."""
    quick = fast_path.read(text)
    if quick is None:
        return False
    try:
        slow = parse.read(text, [])
    except Unparsed as refusal:
        pytest.fail(f"taken, but the slow path refuses it ({refusal}): {text!r}")
    assert difference(quick, slow) is None, text
    return True


@for_each("text", REALISTIC)
def test_equal_on_realistic_commands(text: str) -> None:
    taken = check(text)
    compound = text.startswith(("time", "for", "if")) or "`pwd`" in text
    assert taken is not compound


@for_each(
    "text",
    [
        "b\\\nc=1 rm x",  # joined by a deleted newline
        "ls &\\\n> f",
        "ls |\\\n| rm",
        "$\\\nx",
        "cat <<\\\nE\nE",
        "ls 2\\\n>f",
        "a[0]=1 rm x",
        "a+=1 rm x",
        "x=(1 2)",
        "{fd}>f rm",
        "ls >&-rm",
        "ls >& f",
        "f() { rm; }",
        "ls | time rm",
        "! rm",
        "cat <<-E\n\tE",
        "cat <<E\n$(rm)\nE",
        "cat <<E\n`rm`\nE",
        "cat <<E\na\\\nE",
        "cat <<$x\n$x",
        "cat <<E",
        "cat <<E\n",
        "cat <<'a\nb'\na\nb",
        "cat <<''\n\n",
        "echo 'a",
        'echo "a',
        "echo \\",
        "echo a\\\nb",
        "echo $'\\x72'",
        'echo $"a"',
        "echo ${x:-$(rm)}",
        "echo $(rm",
        "echo $()",
        "echo $( )",
        "echo $(rm; ls)",
        "echo $(rm\n)",
        "echo $(rm # x)",
        "echo $(#)",
        "echo $(| rm)",
        "echo $(rm |)",
        "echo $(rm || ls)",
        "echo $(a=b rm)",
        "echo $(time rm)",
        "echo $(ls | ! rm)",
        "echo $(rm > f)",
        "echo $(rm $x)",
        "echo $(rm $(x))",
        "echo $(rm 'x')",
        "echo $((rm))",
        'echo "$(rm "x")"',
        'echo "$(rm"',
        "cat <<E\na\\\\$x\nE",
        "echo <(rm)",
        "a<(rm)",
        "ls;; rm",
        "ls ;& rm",
        "ls | ",
        "ls &&",
        "| ls",
        "; ls",
        "ls )",
        "( ls )",
        "ls\r",
        "ls \x0b",
        "ls \udc80",
        "٣>f ls (",
        "x" * (MAX_CHARS + 1),
        "x " * (MAX_WORDS + 1),
        # a reserved word, where bash takes it for a program
        "x=1 if",
        "x=1 ! rm",
        "> f { rm",
        "> f time rm",
    ],
)
def test_leaves_to_the_slow_path(text: str) -> None:
    assert fast_path.read(text) is None


@pytest.mark.parametrize("text", ["", "  \t", "\n\n", "# rm", "# rm\n  # rm\n", "x=1", "> f", "x=1 > f"])
def test_takes_what_runs_no_program(text: str) -> None:
    assert check(text)


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("assigns", "words", "redirects", "between"),
    [(1000, 1000, 2000, ""), (2, 1, 1, "; "), (1, 1, 2, "| "), (0, 1, 0, "&& ")],
)
def test_counts_words_as_the_slow_path_does(assigns: int, words: int, redirects: int, between: str) -> None:
    """A text of as many words as may be is taken; where one more makes it too long, both refuse it."""
    command = "a=1 " * assigns + "longer " * words + "> f " * redirects
    most = between.join([command] * (MAX_WORDS // (assigns + words + redirects)))
    assert len(most) > 2 * MAX_WORDS
    assert check(most)
    assert fast_path.read(most + "longer") is None
    with pytest.raises(Unparsed, match="too many words"):
        parse.read(most + "longer", [])


def test_letters_of_other_alphabets_are_no_names() -> None:
    for text in ("é=1 rm x", "ａ=1 rm", "$é", '"$é"', "٣>f", "ls ٣>&1", "x\xa0y", "a\u2028b"):
        check(text)
    read = fast_path.read("é=1 rm x")
    assert read is not None
    assert [word.text for word in read.body.words] == ["é=1", "rm", "x"]  # type: ignore[union-attr]


def test_equal_on_generated_scripts() -> None:
    taken = sum(check(ScriptGenerator(seed).script().text) for seed in range(400))
    assert taken


@pytest.mark.long
def test_equal_on_mutants_of_realistic_commands() -> None:
    chance = random.Random(int(os.environ.get("HLA_SEED", "4711")))
    count = some(6_000, here=1_500, soak=300_000)
    taken = sum(check(mutant(REALISTIC, chance)) for _ in range(count))
    assert taken > count / 4


def test_equal_on_real_commands_and_takes_nearly_all_of_them() -> None:
    commands = corpus()
    chosen = commands if SOAK else commands[::7]
    taken = sum(check(text) for text in chosen)
    assert taken / len(chosen) >= 0.98


@pytest.mark.long
def test_equal_on_mutants_of_real_commands() -> None:
    commands = [text for text in corpus() if len(text) < 400]
    chance = random.Random(int(os.environ.get("HLA_SEED", "4711")))
    count = some(3_000, here=750, soak=300_000)
    taken = sum(check(mutant(commands, chance)) for _ in range(count))
    assert taken > count / 4


@given(st.text("ab/-_.:=@%+,0  \t|'#~$\n\r\x00é\ud800", max_size=12))
def test_plain_words_are_what_the_expression_finds(text: str) -> None:
    assert fast_path._pieces(text) == fast_path._LINE_PIECE.findall(text)
    control, surrogate = cursor._CONTROL.search(text), cursor._SURROGATE.search(text)
    assert cursor.refusal(text) == ("control character" if control else "undecodable bytes" if surrogate else None)


@given(st.text("ab/-  ", max_size=9))
def test_so_are_words_and_blanks_alone(text: str) -> None:
    assert fast_path._pieces(text) == fast_path._LINE_PIECE.findall(text)


@pytest.mark.long
def test_takes_linear_time() -> None:
    # no assertion on time: a quadratic or exponential expression would not come back from these
    for unit in ("'' ", '"\\"" ', "a=", "\\ ", "$x", "<<E ", "a|", " \\\n", "{", "~:", "*[", '"$'):
        fast_path.read(unit * (MAX_CHARS // len(unit)))


def test_imports_neither_bashlex_nor_tree_sitter() -> None:
    program = (
        "import sys\n"
        "from humanlayer_agent.shell.syntax.parse import parse\n"
        "assert parse('cd x && ls -l | grep \"$a\" > f').status == 'ok'\n"
        "print([name for name in sys.modules if name.startswith(('bashlex', 'tree_sitter'))])\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
