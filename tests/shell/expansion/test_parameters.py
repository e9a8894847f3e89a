"""Expansions of parameters and tildes: what is claimed to be known is what bash makes of it."""

import random
import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse
from tests.support.extent import some

FORMS = {
    "slices": ["${@:1}", "${@:2}", "${@:2:1}", "${@:1:0}", "${@:9}", "${*:1}", "${a[@]:1}", "${a[@]:0:2}", "${a[@]: -1}",
               "${a[*]:1}", "${a[@]: -9}", "${a[@]:9}", "${@:0}", "${@: -1}", "${b[@]:1}", "${a[@]:1:1}"],
    "escapes": ["${x@E}", "${y@E}", "${x@Q}", "${z@E}"],
    "indirect": ["${!n}", "${!m}", "${!x}", "${!o}"],
    "tilde": ["~+", "~+/x", "~+x", "a~+", "~-", "~+/"],
}  # fmt: skip
VALUES = [
    "",
    "a",
    "b c",
    "*",
    "\\162m",
    "\\x41",
    "\\t",
    "\\q",
    "\\",
    "x\\\\y",
    "\\e",
    "é",
    "\\351",
    "x\\",
    "\\cA",
    "\\0",
    "\\u41",
]
CERTAIN = {"slices": 150, "escapes": 60, "indirect": 60, "tilde": 60, "braces": 60}
"""How many of the scripts must be known for certain, at least: else the test says nothing."""


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


BRACES = ["{", "}", ",", "''", '""', "a", "/", "..", "1", "3", "$x", '"b"', "{}", "$''", '"$y"', "{a,", "c", "~", "\\{"]


def script(chance: random.Random, kind: str) -> str:
    if kind == "braces":
        words = ["".join(chance.choice(BRACES) for _ in range(chance.randrange(1, 8))) for _ in range(3)]
        return f"x=q y= z=\nprintf '<%s>' P {' '.join(words)} Q"

    def some() -> str:
        return " ".join(quoted(chance.choice(VALUES)) for _ in range(chance.randrange(4)))

    form = chance.choice(FORMS[kind])
    word = form if kind == "tilde" or chance.random() < 0.4 else f'"{form}"'
    values = [f"{name}={quoted(chance.choice(VALUES))}" for name in "xyz"]
    return "\n".join([*values, "n=x m=y o=n", f"set -- {some()}", f"a=({some()})", f"printf '<%s>' P {word} Q"])


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", CERTAIN)
def test_known_words_are_what_bash_makes_of_them(kind: str, tmp_path: Path) -> None:
    chance, certain = random.Random(kind), 0
    environ = {"HOME": "/h", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    for _ in range(some(300, here=75)):
        text = script(chance, kind)
        program = analyse(text, cwd=str(tmp_path), environ=environ)
        probe = next((c for c in program.commands if c.argv[:1] == ["printf"]), None)
        if probe is None or program.status == "failed" or any(field.text is None for field in probe.words):
            continue
        run = subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", text],
            cwd=tmp_path, env=environ, capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=True,
        )  # fmt: skip
        certain += 1
        assert run.stdout.decode() == "".join(f"<{word}>" for word in probe.argv[2:]), text
    assert certain >= CERTAIN[kind] // some(1, here=5)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("set -- a b; x \"${@:0}\"", None),
        ("n=RANDOM; x \"${!n}\"", None),
        ("declare -n n=y; y=z; x \"${!n}\"", None),
        ("n=unknown; x \"${!n}\"", None),
        ("n='a[$(ls)]'; x \"${!n}\"", None),
        ("cd \"$D\"; x ~+/y", None),
        ("PWD=/z; x ~+/y", None),
        ("x ~+/y", "/p/y"),
        ("cd /q && x ~+", "/q"),
        ('x ""{}a,/}', None),
        ("x {''}a,/}", None),
        ("x {a,''{}b,/}}", None),
        ('x {1..""3}', None),
        ("x {a,''b}", "b"),
        ("n=y; y=z; x \"${!n}\"", "z"),
    ],
)  # fmt: skip
def test_only_what_is_certain_is_known(text: str, last: str | None) -> None:
    (command,) = [c for c in analyse(text, cwd="/p", environ={"HOME": "/h"}).commands if c.argv[:1] == ["x"]]
    assert command.words[-1].text == last
