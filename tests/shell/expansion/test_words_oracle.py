"""What `expand` claims about words must be what bash makes of them.

Every script is made here, of assignments and words for printf to print; bash runs it in an empty directory of its own.
"""

import random
import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse
from tests.support.extent import seeds

VALUES = [
    "", "a", "b c", " d", "e ", "a/b.py", "/tmp/q", "*", "x?", "-n", "1", "07", "é", "a:b", "~", "~/r", "$x",
    "a\\b", "[ab]", "{a,b}", "Ab", "  ",
]  # fmt: skip
PIECES = {
    "literal": ["a", "b.py", "/", "-", "=", ":", ".", "..", "foo", "1", "b", "c", "x", "y", "z"],
    "double": ['"a b"', '""', '"*"', '"{a,b}"', '"~"', '"$x"', '"${y}"', '"$@"', '"$*"'],
    "plain": ["$x", "$y", "$z", "$n", '"$x"', '"$y"', '"$n"'],
    "fallback": ["w", "'a b'", "$y", "a b", "", "*", "~", '"p q"'],
    "trim": ["a", "*/", "/*", "*.", "'*'", ".py", "?", "[a]", "b", "$y", "*"],
    "replace": ["a/b", "b/", "a", "a/$y", "?/x", "'a'/c", "/", "a/&", "a\\/b/c"],
    "slice": ["0", "1", "0:2", "1:1", "5", "99", " -1", "0:0"],
    "braces": [
        "{a,b}", "{,q}", "{a,}", "{1..3}", "{03..1}", "{a..c}", "{}", "{a}", "{a,b", "a,b}", "{{a,b},c}", "{a,b}{1,2}",
        "{a},b}", "{-1..1}", "{$x,b}", "{'a,b',c}", "{1..5..2}", "{x..}", "{,}", "a{b{c,d}", "$x{a,b}",
    ],
    "tilde": ["~", "~/f", "a=~", "a=b:~", "~root", "x:~"],
    "output": [
        "$(echo hi)", '"$(echo a  b)"', "$(echo 'a b')", "$(printf '%s-' 1 2)", "$(printf 'x\\n\\n')", "$(echo -n z)",
        "$(echo -e 'a\\tb')", "$(echo rm | tr a-y b-z)", "$(echo abc | rev)", "$(echo YWIK | base64 -d)",
    ],
    "list": [
        "$@", '"$@"', "$*", '"$*"', "$1", '"$2"', "$#", "${1}", '"${2:-u}"', "${a[@]}", '"${a[@]}"', "${a[0]}",
        '"${a[1]}"', "${a[*]}", '"${a[*]}"', "${#a[@]}", "$a", '"${a[9]}"',
    ],
    "quoting": ["$'a\\tb'", "$'x'", "\\*", "\\a", "\\ ", "''", '""'],
    "wildcard": ["*", "?", "[ab]", "q*", "no*match", "[", "]", "$((2))"],
}  # fmt: skip

OPERATORS = {
    "fallback": [":-", "-", ":+", "+", ":=", "="],
    "trim": ["#", "##", "%", "%%"],
    "replace": ["/", "//", "/#", "/%"],
    "slice": [":"],
}


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def piece(rng: random.Random) -> str:
    name = rng.choice("xyzn")
    kind = rng.choice(["literal"] * 4 + [*PIECES, "case", "length", "value"])
    quote = rng.choice(['"', ""])
    if kind == "value":
        return quoted(rng.choice(VALUES))
    if kind == "length":
        return f"${{#{name}}}"
    if kind == "case":
        return f"${{{name}{rng.choice(['^^', ',,', '^', ','])}}}"
    chosen = rng.choice(PIECES[kind])
    if kind not in OPERATORS:
        return chosen
    if quote and ("'" in chosen or '"' in chosen):
        chosen = "w"
    return f"{quote}${{{name}{rng.choice(OPERATORS[kind])}{chosen}}}{quote}"


def word(rng: random.Random) -> str:
    return "".join(piece(rng) for _ in range(rng.choice([1, 1, 1, 2, 2, 3, 4])))


def script(rng: random.Random) -> str:
    """Some assignments, then one printf that shows its arguments."""
    lines = [
        f"{n}={quoted(rng.choice(VALUES)) if rng.random() < 0.7 else word(rng)}" for n in "xyz" if rng.random() < 0.8
    ]
    if rng.random() < 0.5:
        lines.append("set -- " + " ".join(quoted(rng.choice(VALUES)) for _ in range(rng.randrange(4))))
    if rng.random() < 0.5:
        lines.append("a=(" + " ".join(quoted(rng.choice(VALUES)) for _ in range(rng.randrange(4))) + ")")
    if rng.random() < 0.1:
        lines.append("x+=" + word(rng))
    if rng.random() < 0.1:
        lines.append("IFS=" + quoted(rng.choice(["a", " ", ":", ""])))
    words = " ".join(word(rng) for _ in range(rng.choice([1, 2, 3])))
    first = words.split(" ")[0] if " " not in words else "$x"
    probes = [f"printf '<%s>' P {words}"] * 12 + [
        f'f() {{ printf \'<%s>\' P "$@" $1 "$2"; }}; f {words}',
        f"export e={first}; printf '<%s>' P \"$e\"",
        f"eval 'w='{first}; printf '<%s>' P \"$w\"",
        f"read -r r <<< {first}; printf '<%s>' P \"$r\"",
        f'bash -c \'printf "<%s>" P "$1" $2\' n {words}',
    ]
    return "\n".join([*lines, rng.choice(probes)])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("a", "b", "qa", "x y", "b.py", "foo"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("seed", seeds(4, here=1))
def test_known_words_are_what_bash_makes_of_them(seed: int, directory: Path) -> None:
    rng = random.Random(seed)
    environ = {"HOME": "/h", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    certain = 0
    for _ in range(250):
        text = script(rng)
        program = analyse(text, cwd=str(directory), environ=environ, closed=True)
        probes = [
            c for c in program.commands if c.argv[:1] == ["printf"] and "P" in c.argv and "substitution" not in c.inside
        ]
        if program.status != "ok" or len(probes) != 1 or any(f.text is None for f in probes[0].words):
            continue
        run = subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", text],
            cwd=directory, env=environ, capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False,
        )  # fmt: skip
        if run.returncode or run.stderr:
            continue
        certain += 1
        assert run.stdout.decode() == "".join(f"<{a}>" for a in probes[0].argv[2:]), text
    assert certain > 60
