"""Texts on which some parser hides a command, our first version's own holes among them: never `ok` without it."""

import json
import os
from pathlib import Path

import pytest

from humanlayer_agent.shell.syntax import parse
from humanlayer_agent.shell.syntax.tree import Script, simples
from tests.support.rows import for_each

DATA = Path(os.environ.get("HLA_DATA", "../shared/data"))

BASHLEX = [
    "if a; then b; elif c; then d; elif e; then rm x; fi",
    "echo $(ls\nrm x)",
    "echo `ls\nrm x`",
    "cat <(ls\nrm x)",
    "echo ''$(rm x)''",
    'echo "a"<(rm x)',
    "echo ${x:-$(rm x)}",
    "echo ${a[$(rm x)]}",
    "cat <<E\n$(rm x)\nE",
    "ls;# '\nrm x\n#'",
    "((1<<EOF))\nrm x\nEOF",
    "a[0]=1 rm x",
    "{fd}>f rm x",
    "$'\\x72m' x",
    "cat <<'EOF'\nhello\nEOF\nrm x\n'EOF'",
]
TREE_SITTER = [
    "cat <<E\n`rm x`\nE",
    "time rm x",
    "cat <<'EOF'\nEOF \nx\nEOF\nrm x",
    "cat <<A; cat <<B\n$(rm x)\nA\nb\nB",
    "ls\rrm x",
    "echo `echo \\`rm x\\``",
    ">&-rm x",
]
SHFMT = ["ls # x \\\nrm x", "a>&-rm; 2>&-rm x", "ls 3<&-; <&- rm x"]
OURS = [
    "b\\\nc=1 rm x",
    "ls &\\\n& rm x",
    "ls ;\\\n; rm x",
    "cat <\\\n<E\nrm x\nE",
    "echo $\\\n(rm x)",
    "ls 2\\\n>&1; rm x",
    "a=(b)c rm x",
    "a+=(b)'' rm x",
    "!\\\n rm x",
    "time\\\n rm x",
    "if\\\n rm x; then a; fi",
    "for i in a; { rm x; }",
    "for i do rm x; done",
    "case x in (a) rm x;; esac",
    "case x in a) b;& c) rm x; esac",
    "f() { rm x; }",
    "f() ( rm x )",
    "function f { rm x; } > y",
    "select i in a; do rm x; done",
    "! ! rm x",
    "a | ! rm x",
    "coproc rm x",
    "[[ a && $(rm x) ]]",
    "[[ a =~ $(rm x) ]]",
    "((a = $(rm x)))",
    "for ((i=$(rm x);;)) { a; }",
    "echo $[$(rm x)]",
    "echo $((`rm x`))",
    "a=($(rm x))",
    "a=([$(rm x)]=1)",
    "a[$(rm x)]=1",
    "declare a=($(rm x))",
    'echo "${x:-"$(rm x)"}"',
    "echo ${x/a/$(rm x)}",
    "echo ${x:$(rm x)}",
    'echo $"$(rm x)"',
    "cat <<< $(rm x)",
    "cat > $(rm x)",
    "cat <<-E\n\t$(rm\\\n x)\n\tE",
    "cat <<E\n${x:-$(rm x)}\nE",
    "cat <<E\n$((1+$(rm x)))\nE",
    "cat <<E\na\\\nE\nE\nrm x",
    "cat <<E |\nE\nrm x",
    "(cat <<E)\nE\nrm x",
    "cat <<A <<B\nB\nA\nA\nB\nrm x",
    "echo $(cat <<E\nE\nrm x)",
    "echo $(cat <<E\nEx; rm x)\nE\n)",
    "echo $(cat <<E\nE;rm x)",
    "# a \\\nrm x",
    "ls #\\\nrm x",
    "echo a#\nrm x",
    "ls\u2028rm x; rm x",
    "x=1 >f y=2 rm x",
    "{ a; }; { { rm x; } }",
    "if a; then b; else rm x; fi",
    "while rm x; do b; done",
    "until a; do rm x; done",
    "echo 2>(rm x)",
    "[[ a ]] || rm x",
    "((1)) && rm x",
    "\\rm x",
    "'rm' x",
    "r''m x",
    "$'\\162\\155' x",
]


def removes(script: Script) -> bool:
    return any(command.words and command.words[0].static == "rm" for command in simples(script))


@for_each("text", [*BASHLEX, *TREE_SITTER, *SHFMT, *OURS])
def test_the_command_is_listed_or_the_status_is_not_ok(text: str) -> None:
    found = parse.parse(text)
    assert found.status != "ok" or (found.script is not None and removes(found.script))


@pytest.mark.parametrize("text", [*BASHLEX, "# a \\\nrm x", "for i do rm x; done", "cat <<E\n`rm x`\nE", "time rm x"])
def test_the_command_is_listed(text: str) -> None:
    assert removes(parse.read(text, []))


@pytest.mark.parametrize(
    "text",
    [
        "echo 'rm x'",
        "ls # rm x",
        "cat <<'E'\n$(rm x)\nE",
        "cat <<E\n\\$(rm x)\nE",
        "echo \\$\\(rm x\\)",
        "echo rm x",
        "[[ rm ]]",
        "é=1 rm x",
        "a=rm",
        "for rm in x; do y; done",
    ],
)
def test_what_does_not_run_is_not_listed(text: str) -> None:
    assert not removes(parse.read(text, []))


def bypasses() -> list[str]:
    path = DATA / "bypass.jsonl"
    if not path.exists():
        pytest.skip(f"no data: {path} is missing; set HLA_DATA (allowed in CI)")
    with path.open() as lines:
        rows = [json.loads(line) for line in lines]
    wanted = ("lex", "nest", "word", "param")
    return [row["command"] for row in rows if row["resolvable"] == "static" and row["category"] in wanted]


def test_bypasses_are_listed_or_not_ok() -> None:
    """What is written out must show in a simple command; variables, braces and code in strings are resolved later."""
    for text in bypasses():
        found = parse.parse(text)
        if found.status == "ok" and found.script is not None:
            words = [word for command in simples(found.script) for word in command.words]
            assert any(word.dynamic or word.pattern or "rm" in (word.text or "") for word in words), text
