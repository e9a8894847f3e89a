"""What the analysis claims about variables, lists and parameters must be what bash makes of them.

Every script is made here, of commands that set something and one printf that shows it; bash runs it in a directory of
its own. Where words are not known their shape is: how many there may be, and which pattern they match.
"""

import random
import re
import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.expansion.field import Field
from tests.support.extent import seeds

ENVIRON = {"HOME": "/h", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "SECRET": "s"}
TEXTS = [
    "", "a", "a b", " a  b c ", "x:y:z", ":x::y:", "x:", "a\\b", "-n", "*", "?", "b.py", "/tmp/q", "a\tb", "k=v", "[ab]",
    "rm -rf /q", "a'b", "1", "~", "$x", "é f", "a,b,,c", "one\ntwo\n\nthree four", "x\n y ", "a:b c:d", "::", " : a : ",
]  # fmt: skip


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def given(rng: random.Random) -> str:
    """A redirect that feeds a text."""
    text = quoted(rng.choice(TEXTS))
    return rng.choice(
        [
            f"<<< {text}",
            f"<<< {text}",
            f"< <(printf '%s\\n' {text} {quoted(rng.choice(TEXTS))})",
            f"< <(printf %s {text})",
            f"< <(echo {text})",
            f"<<'END'\n{rng.choice(TEXTS)}\nEND\n",
            f"<<< {text}$x",
            "< /dev/null",
        ]
    )


def words(rng: random.Random) -> str:
    """Some words for a list."""
    some = [
        "a",
        "'a b'",
        '""',
        "*",
        "no*match",
        "?",
        "$x",
        '"$x"',
        "b.p*",
        '"$@"',
        '"${a[@]}"',
        "$1",
        "{p,q}",
        "~",
        "-n",
    ]
    return " ".join(rng.choice(some) for _ in range(rng.randrange(4)))


def setter(rng: random.Random) -> str:
    ifs = rng.choice(["", "IFS= ", "IFS=: ", "IFS=', ' ", "IFS=' :' ", "IFS=$'\\n' "])
    kind = rng.randrange(17)
    text = quoted(rng.choice(TEXTS))
    key = rng.choice("kjm")
    return [
        lambda: f"{ifs}read -r x {given(rng)}",
        lambda: f"{ifs}read {rng.choice(['', '-r '])}x y {given(rng)}",
        lambda: f"{ifs}read -r x y z {given(rng)}",
        lambda: f"{ifs}read -ra a {given(rng)}",
        lambda: f"{ifs}read -r -d {rng.choice([quoted(''), ':', 'b'])} x {given(rng)}",
        lambda: f"mapfile {rng.choice(['-t ', '', '-t -d : ', '-td: '])}a {given(rng)}",
        lambda: f"readarray -t a {given(rng)}",
        lambda: f"printf -v x {rng.choice(['%s', '%s-', '%b', '<%s>%s', '%%%s'])} {text} {words(rng)}",
        lambda: f"a=({words(rng)})",
        lambda: f"a+=({words(rng)})",
        lambda: f"set -- {words(rng)}",
        lambda: f"shift {rng.choice(['', '1', '2', '0'])} || :",
        lambda: f"declare -A m=([k]={text} [j]={quoted(rng.choice(TEXTS))})",
        lambda: f"m[{key}]={text}",
        lambda: "unset x",
        lambda: f": ${{x:={rng.choice(['d', '$y', 'p q'])}}}",
        lambda: f"x={text}",
    ][kind]()


SHOWN = [
    '"$x"', "$x", '"$y"', '"$z"', '"${a[@]}"', '"${a[0]}"', '"${a[1]}"', "${a[@]}", '"${a[@]:1}"', '"$@"', '"$1"', '"$2"',
    '"${@:2}"', '"${@:1}"', "$*", '"$*"', '"${m[k]}"', '"${m[j]}"', '"${m[m]}"', '"$a"', '"${#x}"', '"${x:-u}"', '$"t"',
    '"${!n}"', '"x${a[@]}"', '"$#"', '"${@:0:1}"',
]  # fmt: skip


def script(rng: random.Random) -> str:
    lines = ["n=y"] if rng.random() < 0.3 else []
    lines += [setter(rng) for _ in range(rng.choice([1, 2, 2, 3, 4]))]
    shown = " ".join(rng.choice(SHOWN) for _ in range(rng.choice([1, 2, 3])))
    probe = f"printf '<%s>' P {shown}"
    inner = 'printf \'<%s>\' P "$0" "$@" $1'
    probes = [probe] * 10 + [
        f'f() {{ printf \'<%s>\' P "$@" "$2"; }}; f {shown}',
        f'f() {{ local b=("$@"); shift; printf \'<%s>\' P "${{b[@]}}" "$@"; }}; f {shown}',
        f"bash -c {quoted(inner)} {shown}",
        f'bash -s -- {shown} <<< \'printf "<%s>" P "$@"\'',
        f'bash <(echo \'printf "<%s>" P "$@"\') {shown}',
        f'bash /dev/fd/7 {shown} 7<<< \'printf "<%s>" P "$2"\'',
        f'set -- {shown}; source <(echo \'printf "<%s>" P "$@"\')',
        f'source <(echo \'printf "<%s>" P "$@"\') {shown}',
        f'export x; env -u {rng.choice(["x", "y", "SECRET"])} bash -c \'printf "<%s>" P "${{x-u}}" "${{SECRET-u}}"\'',
        f"xargs printf '<%s>' P {given(rng)}",
        f"xargs -d : -n 9 printf '<%s>' P {given(rng)}",
        f"xargs -0 printf '<%s>' P < <(printf '%s\\0' {shown})",
        f"xargs -I% printf '<%s>' P x% {given(rng)}",
    ]
    return "\n".join([*lines, rng.choice(probes)])


def expected(fields: list[Field]) -> str:
    """A pattern of what printf shows, given what is known of its words."""
    out = ""
    for each in fields:
        if each.many:
            out += r"(?:<.*>)?"
        elif each.text is not None:
            out += re.escape(f"<{each.text}>")
        elif each.choices:
            out += "<(?:" + "|".join(map(re.escape, each.choices)) + ")>"
        elif each.glob is not None:
            itself = re.escape(re.sub(r"\\(.)", r"\1", each.glob, flags=re.DOTALL))
            out += f"(?:(?:<{glob(each.glob)}>)+|<{itself}>)" if each.pathname else f"<{glob(each.glob)}>"
        else:
            out += "<.*>"
    return out


def glob(pattern: str) -> str:
    pieces = re.findall(r"\\.|\[[^\]]+\]|.", pattern, re.DOTALL)
    wild = {"*": ".*", "?": "."}
    return "".join(
        wild[p] if p in wild else p if len(p) > 2 and p[0] == "[" else re.escape(p[-1] if len(p) == 2 else p)
        for p in pieces
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for name in ("a", "b.py", "c d"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("seed", seeds(4, here=1, soak=24))
def test_claims(seed: int, directory: Path) -> None:
    rng = random.Random(seed)
    certain = 0
    for _ in range(150):
        text = script(rng)
        program = analyse(text, cwd=str(directory), environ=ENVIRON, closed=True)
        probes = [
            c
            for c in program.commands
            if c.argv[:1] == ["printf"] and "P" in c.argv and not {"substitution", "process-substitution"} & {*c.inside}
        ]
        if program.status != "ok" or len(probes) != 1:
            continue
        run = subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", text],
            cwd=directory, env=ENVIRON, capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False,
        )  # fmt: skip
        if run.returncode or run.stderr or not run.stdout:  # xargs -I runs nothing without input
            continue
        certain += all(f.text is not None for f in probes[0].words)
        pattern = expected(probes[0].words[2:])
        assert re.fullmatch(pattern, run.stdout.decode(), re.DOTALL), (text, pattern, run.stdout.decode())
    assert certain > 20
