"""Any text, any Python: the reader never raises, and its work is bounded."""

import ast
import random
import sysconfig
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.languages import python
from humanlayer_agent.shell.languages.behaviour import Behaviour
from humanlayer_agent.shell.languages.python.engine import Engine, TooMuch
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from tests.support.extent import examples, seeds, some

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
SEEDS = [
    block
    for file in ("spellings_harmful.yaml", "spellings_harmless.yaml")
    for block in (HERE / file).read_text(encoding="utf-8").split("\n- |\n")
]
TREES = []
for block in SEEDS:
    try:
        TREES.append(ast.parse("\n".join(line[2:] for line in block.splitlines())))
    except SyntaxError:
        continue

EXPRESSIONS = [
    n
    for t in TREES
    for n in ast.walk(t)
    if isinstance(n, ast.expr) and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)
]
STATEMENTS = [n for t in TREES for n in ast.walk(t) if isinstance(n, ast.stmt)]

slow = settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))


# ---- never raises ---------------------------------------------------------------------------------------


@given(st.text(max_size=400))
@slow
def test_any_text(text: str) -> None:
    assert isinstance(python.read(text), Behaviour)


WORDS = """
import os from * as def class ( ) [ ] { } : , . = := ** lambda yield await async for in if else while with try except
finally raise return global nonlocal del assert match case pass f"{ } " 'x' 1 x y self os.remove open exec eval getattr
__import__ __globals__ @ + - / % | & ~ == not and or is None True type super
"""
PIECES = st.sampled_from([*WORDS.split(), "\n", "\n    ", "\n        ", " "])


@given(st.lists(PIECES, max_size=60))
@slow
def test_any_words(words: list[str]) -> None:
    assert isinstance(python.read(" ".join(words)), Behaviour)


class Shuffler(ast.NodeTransformer):
    """Puts other pieces of our own snippets in the place of some."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            if self.chance.random() < 0.08:
                return self.chance.choice(EXPRESSIONS)
        elif isinstance(node, ast.stmt) and self.chance.random() < 0.08:
            return self.chance.choice(STATEMENTS)
        return self.generic_visit(node)


def unchanged(tree: ast.AST) -> ast.AST:
    return ast.parse(ast.unparse(tree))


@given(st.randoms(use_true_random=False))
@slow
def test_any_python(chance: random.Random) -> None:
    """Snippets whose expressions and statements are exchanged for those of others: most are valid Python."""
    bodies = [unchanged(chance.choice(TREES)) for _ in range(3)]
    tree = ast.Module([s for b in bodies for s in b.body], [])  # type: ignore[attr-defined]
    try:
        source = ast.unparse(Shuffler(chance).visit(tree))
    except (ValueError, RecursionError, AttributeError):
        return
    behaviour = python.read(source)
    assert not any("could not be read" in d for d in behaviour.doubts), source


@cache
def real_files() -> list[Path]:
    """Some of the standard library, and some of ours."""
    below = Path(sysconfig.get_path("stdlib")).rglob("*.py")
    library = sorted(p for p in below if not {"site-packages", "test", "tests"} & set(p.parts))
    ours = sorted((ROOT / "humanlayer_agent").rglob("*.py"))
    return library[:: len(library) // 150] + ours[::4]


@pytest.mark.remembered
@pytest.mark.parametrize("part", seeds(10, here=4))
def test_real_files(part: int) -> None:
    """Files of the standard library and our own: read without a fault, and to an end."""
    for file in real_files()[part :: some(10, here=40)]:
        source = file.read_text(encoding="utf-8", errors="replace")
        behaviour = python.read(source, path=str(file))
        assert not any("could not be read" in d for d in behaviour.doubts), file


# ---- bounded ----------------------------------------------------------------------------------------------


BOMBS = {
    "texts": "s = 'a'\n" + "s = s + s\n" * 200 + "import os\nos.remove(s)",
    "repetition": "import os\nos.remove('a' * 10 ** 9)",
    "powers": "x = 2\n" + "x = x ** x\n" * 50 + "open(str(x), 'w')",
    "shifts": "x = 1\n" + "x = x << 60\n" * 100 + "open(str(x), 'w')",
    "functions": "\n".join(f"def f{n}(a): return f{(n + 1) % 60}(f{(n + 7) % 60}(a))" for n in range(60)) + "\nf0('a')",
    "containers": "x = []\n" + "x = [x, x]\n" * 60 + "print(x)",
    "classes": "\n".join(f"class C{n}({'C' + str(n - 1) if n else 'object'}):\n  def f(self): return self.f().f" for n in range(80)),
    "attributes": "x = lib\n" + "x = x.a\n" * 300 + "import lib\nx.y()",
    "arguments": "def f(*a): return f(a, *a)\nf(1)",
    "exec": "exec(" * 30 + "'1'" + ")" * 30,
    "quine": "s = 'exec(s)'\nexec(s)",
    "elif": "if a: pass\n" + "elif b: pass\n" * 900,
    "sum": "x = " + " + ".join(["'a'"] * 600),
    "chain": "x = a" + ".b()" * 300,
    "stars": "f(" + "*" + ", *".join("ab" * 300) + ")",
    "comprehensions": "x = " + "[a for a in " * 20 + "y" + "]" * 20,
    "choices": "import os\nfor a in 'abcdefgh':\n for b in 'abcdefgh':\n  for c in 'abcdefgh': os.remove(a + b + c)",
    "lists": "x = [" + "'a', " * 20_000 + "]\nprint(x)\nlib.f(x)",
    "decorators": "@f\n" * 300 + "def g(): pass",
    "formats": "'" + "{}" * 3000 + "'.format(*'a' * 3000)",
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS)
def test_work_is_bounded(source: str) -> None:
    tree = ast.parse(source)
    engine = Engine(source, tree, None, None, capability_leaks.give_up)
    try:
        python.follow(engine, tree)
    except (TooMuch, RecursionError):
        assert python.read(source).doubts
    assert engine.steps <= engine.limit + 10_000
