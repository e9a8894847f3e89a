"""What a Python text is said to print is what it prints; one that does more is not known."""

import sys

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.languages.python_prints import MAX_PRINTED, printed
from tests.support import children

KNOWN = [
    "print('rm -rf /')",
    "print('a', 'b', 3)",
    "print('a', 'b', sep='-', end='!')",
    "print()",
    "print('a'); print('b')",
    "print('a' + 'b' * 3)",
    "print('fr- mr'[::-1])",
    "print(chr(114) + chr(109))",
    "print(''.join(['r', 'm', ' x']))",
    "print(' '.join(('r', 'm')))",
    "print(bytes.fromhex('726d2078').decode())",
    "'''words'''\npass\nprint('x\\ty\\n')",
    "print('a' * 0)",
    "",
]
NOT_KNOWN = [
    "x = 'a'; print(x)",
    "import os; print('a')",
    "print = exit; print('a')",
    "print('a', file=f)",
    "print('a', **x)",
    "print(*['a'])",
    "print(input())",
    "print(f'{1}')",
    "print(True)",
    "print('a' % 1)",
    "print('é')",
    "print(chr(233))",
    "print('\\r')",
    "print(b'a')",
    "print('a' if 1 else 'b')",
    "print('a' * 99999999)",
    "print('a' * -1)",
    "print(''.join('abc'))",
    "print(bytes.fromhex('zz').decode())",
    "print('a'[::2])",
    "print('a'[::-2])",
    "def print(x): pass",
    "for i in 'ab': print('a')",
    "print('a'",
    "print(" + "(" * 300 + "'a'" + ")" * 300 + " + 'b'" * 200 + ")",
    "1/0; print('a')",
    "print('\\ud800')",
]


@pytest.mark.parametrize("source", KNOWN)
def test_known(source: str) -> None:
    run = children.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert printed(source) == run.stdout


@pytest.mark.parametrize("source", NOT_KNOWN)
def test_not_known(source: str) -> None:
    assert printed(source) is None


def test_long() -> None:
    assert printed(f"print('a' * {MAX_PRINTED}); print('a')") is None
    assert printed("print('" + "a" * 10_000 + "')") is None


@pytest.mark.parametrize("options", ["", "-B ", "-u -I "])
def test_a_shell_runs_it(options: str) -> None:
    found = analyse(f"python3 {options}-c \"print('rm x')\" | sh", cwd="/p", environ={})
    assert [c.program for c in found.commands] == ["python3", "sh", "rm"]


@pytest.mark.parametrize("words", ["-m x", "x.py", "-i -c \"print('rm x')\"", "-W error -c \"print('rm x')\""])
def test_other_forms_are_not_known(words: str) -> None:
    found = analyse(f"python3 {words} | sh", cwd="/p", environ={})
    assert any(c.program == "sh" and not c.resolved for c in found.commands)
