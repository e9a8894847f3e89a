"""What `analyse` claims to know at a point of a script must hold each time bash gets there.

Scripts of assignments, functions, loops, conditions and directories are made here, with probes that print some
variables; bash runs them in a directory of their own, and every line they print must be among what was claimed.
"""

import fnmatch
import random
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.paths import unescape
from tests.support.extent import seeds

PROBES = [
    'printf \'<%s>\' P{} "$x" "$y" "$PWD"; echo',
    'printf \'<%s>\' P{} "$1" "$z" "${{a[0]}}"; echo',
    "printf '<%s>' P{} $x $z; echo",
    'bash -c \'printf "<%s>" P{} "$x" "$y"; echo\'',
    'printf \'<%s>\' P{} "$*" "${{x%%a*}}" "$#"; echo',
]
VALUES = [
    "a", "b", "/", "/tmp", "1", "2", "", "$x", "$y", "${x}q", "$((1+1))", "$(echo hi)", "$((1/0))", "$((x+1))", "*",
    "${y:-d}", '"$@"', "$1",
]  # fmt: skip
LISTS = ["1 2", "a b c", "$x", "d*", "{1,2}", '"$@"']
CONDITIONS = [
    "true", "false", '[ "$x" = a ]', "[[ -n $y ]]", "! true", "! false", "(( 1 ))", "(exit 1)", "cd d1", "! cd d1",
    "cd nosuch", "f", "g", "x=c1", "read x <<< r1", "((x=3))",
]  # fmt: skip
PLAIN = {
    "move": [
        "cd d1", "cd d1/d2", "cd ..", "cd /", 'cd "$x"', "cd", "cd - >/dev/null", "cd -P lnk", "cd lnk",
        "cd d1 || cd /tmp", "pushd d1 >/dev/null", "popd >/dev/null", "cd lnk/..", "cd lnk; cd ..",
    ],
    "export": ["export x", "export y=e1", "export x=$y", "export -n x", "export z=$x"],
    "unset": ["unset x", "unset y", "unset -f f", "unset z x", "unset g"],
    "declare": [
        "readonly y", "declare -u x", "declare -i z", "local x=l1", "declare y=dd", "declare +x x", "typeset z",
        "local y", "declare -l y=ABC", "export x y",
    ],
    "control": [
        "return", "return 1", "break", "continue", "exit", "eval 'x=ev'", 'eval "y=$x"', "shift", "set -e", "set -u",
        "eval 'x=1; : $((1/0)); x=2\ny=ev2'", "shopt -s nullglob", "shopt -s failglob", "IFS=,", "IFS=$' \\t\\n'",
    ],
    "array": ["a=(1 2)", "a=($x q)", "a+=(3)", "a[1]=w", "a=()", "a[0]=n"],
    "prefix": [
        "x=a f", "x=b eval 'y=$x'", "x=c export x", "x=a true", "x=b read y <<< k", "x=a y=2", "x=a bash -c true",
    ],
    "default": [": ${x:=dflt}", ": ${y:=$x}", ": ${z:=/}"],
    "read": [
        "read x <<< 'lit'", 'read -r y <<< "$x"', "printf -v z '%s' q", "let x=5", "((y++))", "((x=2,z=3))",
        "read x y <<< 'm n'", "read z < /dev/null", "IFS=: read x y <<< 'a:b'",
    ],
    "redirect": [
        "x=keep > /nonexistent/f", "export y=keep2 > /nonexistent/f", "cd d1 > /nonexistent/f", "f > /dev/null",
        "{ x=kk; } > /nonexistent/f", "exec {x}>/dev/null", "x=1 > /dev/null",
    ],
    "beside": ["{ x=5; cd /; } & wait", "x=pp | true", "echo | read x", "(cd /; exit)", "y=$(x=7; echo $x)", "(x=sub)"],
    "call": ["f", "g", "f x1", "g $x", 'f "$y" b', "$x f"],
}  # fmt: skip


class Scripts:
    """Makes scripts; each probe has a number of its own."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.probes = 0

    def probe(self) -> str:
        self.probes += 1
        return self.rng.choice(PROBES).format(self.probes)

    def block(self, depth: int) -> str:
        count = self.rng.choice([1, 2, 2, 3])
        return self.rng.choice(["; ", "\n"]).join(self.statement(depth) for _ in range(count)).replace("&;", "& ")

    def statement(self, depth: int) -> str:
        rng = self.rng
        choice = rng.random()
        if choice < 0.2:
            return self.probe()
        if choice < 0.4:
            return f"{rng.choice('xyz')}{rng.choice(['=', '=', '=', '+='])}{rng.choice(VALUES)}"
        if choice < 0.7:
            return rng.choice(PLAIN[rng.choice(list(PLAIN))])
        if choice < 0.75:
            return "set -- " + " ".join(rng.choice(["p", "q", "'r s'", "$x"]) for _ in range(rng.randrange(4)))
        if depth <= 0:
            return self.probe()
        condition, body, other = rng.choice(CONDITIONS), self.block(depth - 1), self.block(depth - 1)
        return rng.choice(
            [
                f"if {condition}; then {body}; else {other}; fi",
                f"if {condition}; then {body}; elif {rng.choice(CONDITIONS)}; then {other}; fi",
                f"for {rng.choice('xyzi')} in {rng.choice(LISTS)}; do {body}; done",
                f"n=0; while [ $n -lt 2 ]; do n=$((n+1)); {body}; done",
                f"case $x in a) {body};; b|c) {other};& *) {self.block(depth - 1)};; esac",
                f"{{ {body}; }}",
                f"( {body} )",
                f"{rng.choice('fg')}() {{ {body}; }}",
                f"{condition} && {{ {body}; }}",
                f"{condition} || {{ {body}; }}",
            ]
        )

    def script(self) -> str:
        lines = [self.statement(2) for _ in range(self.rng.choice([3, 5, 8]))]
        return "\n".join([*lines, self.probe(), self.probe()]).replace("&;", "& ")


def holds(field: Field, text: str) -> bool:
    """Whether what is known of `field` allows `text`."""
    if field.texts:
        return text in field.texts
    return field.glob is None or field.pathname or fnmatch.fnmatchcase(text, unescape(field.glob))


def claims(words: list[Field], printed: list[str]) -> bool:
    if any(w.many or w.pathname for w in words):
        return True
    return len(words) == len(printed) and all(holds(w, t) for w, t in zip(words, printed, strict=True))


@pytest.fixture
def run(tmp_path: Path) -> Callable[[str, dict[str, str]], str]:
    (tmp_path / "d1" / "d2").mkdir(parents=True)
    (tmp_path / "q" / "r").mkdir(parents=True)
    (tmp_path / "lnk").symlink_to(tmp_path / "q" / "r")
    (tmp_path / "dd").touch()

    def run(text: str, environ: dict[str, str]) -> str:
        done = subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", text],
            cwd=tmp_path, env=environ, capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False,
        )  # fmt: skip
        return done.stdout.decode("utf-8", "replace")

    return run


@pytest.mark.parametrize("seed", seeds(6, here=1))
def test_what_is_known_holds(seed: int, run: Callable[[str, dict[str, str]], str], tmp_path: Path) -> None:
    scripts = Scripts(seed)
    environ = {"HOME": str(tmp_path / "q"), "PATH": "/usr/bin:/bin", "y": "envy", "LC_ALL": "C.UTF-8"}
    checked = 0
    for _ in range(130):
        text = scripts.script()
        program = analyse(text, cwd=str(tmp_path.resolve()), environ=environ, closed=True)
        assert not any("internal" in reason for reason in program.reasons), text
        if program.status != "ok":
            continue
        claimed: dict[str, list[list[Field]]] = {}
        for command in program.commands:
            if len(command.words) > 2 and command.words[0].text == "printf":
                claimed.setdefault(command.words[2].text or "", []).append(command.words[3:])
        for line in run(text, environ).split("\n"):
            match = re.fullmatch(r"<(P\d+)>((?:<[^>]*>)*)", line)
            if match is None:
                continue
            checked += 1
            printed = re.findall(r"<([^>]*)>", match[2])
            assert any(claims(words, printed) for words in claimed.get(match[1], ())), f"{line}\n{text}"
    assert checked > 150
