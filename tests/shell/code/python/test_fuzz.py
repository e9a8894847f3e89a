"""Any text, any Python: the reader never raises, its work is bounded, and wrapping harm does not hide it."""

import ast
import random
import sysconfig
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.code import python
from humanlayer_agent.shell.code.behaviour import Behaviour
from humanlayer_agent.shell.code.python import capabilities
from humanlayer_agent.shell.code.python.engine import Engine, TooMuch

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

slow = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


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


LIBRARY = sorted(
    p for p in Path(sysconfig.get_path("stdlib")).rglob("*.py") if not {"site-packages", "test", "tests"} & set(p.parts)
)
OURS = sorted((ROOT / "humanlayer_agent").rglob("*.py"))


@pytest.mark.parametrize("part", range(10))
def test_real_files(part: int) -> None:
    """Files of the standard library and our own: read without a fault, and to an end."""
    for file in (LIBRARY[:: len(LIBRARY) // 150] + OURS[::4])[part::10]:
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


@pytest.mark.parametrize("source", BOMBS.values(), ids=BOMBS)
def test_work_is_bounded(source: str) -> None:
    tree = ast.parse(source)
    engine = Engine(source, tree, None, None, capabilities.give_up)
    try:
        python.follow(engine, tree)
    except (TooMuch, RecursionError):
        assert python.read(source).doubts
    assert engine.steps <= engine.limit + 10_000


# ---- wrapping -----------------------------------------------------------------------------------------------

HARM = [
    ("import os", "os.remove('HARM')"),
    ("import os", "os.system('HARM')"),
    ("import shutil", "shutil.rmtree('HARM')"),
    ("from pathlib import Path", "Path('HARM').unlink()"),
    ("", "open('HARM', 'w')"),
    ("import subprocess", "subprocess.run(['HARM'])"),
    ("import requests", "requests.post('http://HARM/')"),
    ("", "exec(open('HARM').read())"),
    ("import os", "getattr(os, 'HARM'[5:] or input())()"),
]

WRAPPERS = [
    "def f():\n{0}\nf()",
    "def f():\n{0}",
    "async def f():\n{0}\nimport asyncio\nasyncio.run(f())",
    "class A:\n    def f(self):\n{1}\nA().f()",
    "class A:\n    @property\n    def f(self):\n{1}\nA().f",
    "class A:\n    @staticmethod\n    def f():\n{1}\nA.f()",
    "class A:\n    def __enter__(self):\n{1}\n    def __exit__(self, *a): pass\nwith A(): pass",
    "class A:\n    def __init__(self):\n{1}\nA()",
    "class A:\n{0}",
    "if input():\n{0}",
    "if 0:\n{0}\nelse: pass",
    "for i in range(3):\n{0}",
    "while True:\n{0}",
    "try:\n{0}\nexcept Exception: pass",
    "try: pass\nfinally:\n{0}",
    "with open('x') as f:\n{0}",
    "match 1:\n    case 1:\n{1}",
    "def g():\n    def f():\n{1}\n    return f\ng()()",
    "def f():\n{0}\nimport threading\nthreading.Thread(target=f).start()",
    "def f(*a):\n{0}\nlist(map(f, [1]))",
    "def f(*a):\n{0}\nimport lib\nlib.run(f)",
    "def d(g): return g\n@d\ndef f():\n{0}\nf()",
    "def f():\n    yield 1\n{0}\nlist(f())",
    "def f():\n{0}\nglobals()['f']()",
    "def f():\n{0}\nx = [f]\nx[0]()",
    "import unittest\nclass T(unittest.TestCase):\n    def test_x(self):\n{1}",
]


def indented(text: str, depth: int) -> str:
    return "\n".join("    " * depth + line if line else line for line in text.splitlines())


def harmful(source: str) -> bool:
    behaviour = python.read(source)
    if behaviour.doubts:
        return True
    kinds = ("delete", "shell", "write", "program", "network")
    return any(
        not t.known or any("HARM" in c for c in t.choices)
        for a in behaviour.acts
        if a.kind in kinds
        for t in a.operands
    )


@pytest.mark.parametrize(("head", "statement"), HARM, ids=lambda v: str(v)[:30])
@given(st.lists(st.sampled_from(WRAPPERS), max_size=3), st.booleans())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
def test_wrapping_does_not_hide(head: str, statement: str, wrappers: list[str], inside: bool) -> None:
    """Harm in functions, classes, loops and conditions shows, or leaves a doubt."""
    body = f"{head}\n{statement}" if inside else statement
    for wrapper in wrappers:
        body = wrapper.format(indented(body, 1), indented(body, 2))
    source = body if inside else f"{head}\n{body}"
    assert harmful(source), source


ALIASES = [
    ("import os", "os.system"),
    ("import os as o", "o.system"),
    ("from os import system", "system"),
    ("from os import system as s", "s"),
    ("from os import *", "system"),
    ("import posix", "posix.system"),
    ("import shutil", "shutil.os.system"),
    ("import sys", "sys.modules['os'].system"),
    ("", "__import__('os').system"),
    ("import importlib", "importlib.import_module('os').system"),
    ("import os", "getattr(os, 'sys' + 'tem')"),
    ("import os", "vars(os)['system']"),
    ("import os", "os.__dict__['system']"),
    ("import os", "globals()['os'].system"),
]
HOLDERS = [
    "f = {0}\nf('HARM')",
    "f = [{0}]\nf[0]('HARM')",
    "f = {{'a': {0}}}\nf['a']('HARM')",
    "f = {{'a': {0}}}\nf.get(input())('HARM')",
    "for f in (print, {0}): f('HARM')",
    "(lambda f: f('HARM'))({0})",
    "(lambda f={0}: f('HARM'))()",
    "f = print or {0}\nf('HARM')",
    "f = print if input() else {0}\nf('HARM')",
    "if f := {0}: f('HARM')",
    "def g(): return {0}\ng()('HARM')",
    "def g(): yield {0}\nnext(g())('HARM')",
    "def g(f): f('HARM')\ng({0})",
    "def g(*f): f[0]('HARM')\ng({0})",
    "def g(**f): f['f']('HARM')\ng(f={0})",
    "class A: f = staticmethod({0})\nA.f('HARM')",
    "class A:\n    def __init__(self): self.f = {0}\nA().f('HARM')",
    "class A:\n    def __call__(self): return {0}\nA()()('HARM')",
    "class A:\n    def __getitem__(self, i): return {0}\nA()[0]('HARM')",
    "import functools\nfunctools.partial({0}, 'HARM')()",
    "import threading\nthreading.Thread(target={0}, args=('HARM',)).start()",
    "list(map({0}, ['HARM']))",
    "[f('HARM') for f in [{0}]]",
    "import lib\nlib.run({0}, 'HARM')",
    "import lib\nlib.x = {0}",
    "import types\ntypes.SimpleNamespace(f={0}).f('HARM')",
    "exec('f(\"HARM\")', {{'f': {0}}})",
    "a, *b = 1, {0}\nb[0]('HARM')",
    "match {0}:\n    case f: f('HARM')",
    "try: raise ValueError({0})\nexcept ValueError as e: e.args[0]('HARM')",
]


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize(("head", "function"), ALIASES)
def test_holding_does_not_hide(head: str, function: str, holder: str) -> None:
    """However the function is reached and wherever it is kept, that a shell runs shows, or there is a doubt."""
    behaviour = python.read(f"{head}\n{holder.format(function)}")
    assert behaviour.doubts or any(a.kind == "shell" for a in behaviour.acts)


# ---- values on long ways ------------------------------------------------------------------------------------

CARRIERS = """
[{0}][0]
{{'a': {0}}}['a']
(lambda: {0})()
(lambda x: x)({0})
(lambda x={0}: x)()
(lambda *a: a)({0})[0]
(lambda **k: k)(z={0})['z']
(print, {0})[1]
next(iter([{0}]))
(None or {0})
({0} and {0})
({0} if 1 else 0)
[y for y in [{0}]][0]
{{k: v for k, v in [('a', {0})]}}['a']
next(y for y in [{0}])
list(map(lambda q: q, [{0}]))[0]
dict(a={0})['a']
dict([('a', {0})])['a']
dict.fromkeys('a', {0})['a']
{{**{{'a': {0}}}}}['a']
sorted([{0}], key=id)[0]
max([{0}], key=id)
list(reversed([{0}]))[0]
list(zip([{0}]))[0][0]
list(enumerate([{0}]))[0][1]
next(filter(None, [{0}]))
[{0}].pop()
[1, {0}].__getitem__(1)
{{1: {0}}}.popitem()[1]
{{1: {0}}}.setdefault(1)
list({{1: {0}}}.values())[0]
([] + [{0}])[0]
([{0}] * 2)[1]
[[{0}]][0][0]
[{0}][:][0]
([1, {0}][::-1])[0]
({{}} | {{'a': {0}}})['a']
{0}.__call__
(z := {0})
type('T', (), {{'a': staticmethod({0})}}).a
type('T', (), {{'__call__': lambda self: {0}}})()()
type('T', (), {{'__getattr__': lambda self, n: {0}}})().x
type('T', (), {{'__getitem__': lambda self, n: {0}}})()[0]
type('T', (), {{'__add__': lambda self, o: o}})() + {0}
type('T', (), {{'__iter__': lambda self: iter([{0}])}})().__iter__().__next__()
functools.partial({0})
functools.reduce(lambda a, b: b, [1, {0}])
functools.lru_cache(lambda: {0})()
copy.copy([{0}])[0]
operator.itemgetter(0)([{0}])
operator.attrgetter('a')(types.SimpleNamespace(a={0}))
types.SimpleNamespace(a={0}).a
vars(types.SimpleNamespace(a={0}))['a']
getattr(types.SimpleNamespace(a={0}), 'a')
itertools.chain([{0}]).__next__()
list(itertools.starmap(lambda q: q, [({0},)]))[0]
collections.deque([{0}])[0]
collections.OrderedDict(a={0})['a']
collections.ChainMap({{'a': {0}}})['a']
collections.namedtuple('N', 'a')({0}).a
eval('x', {{'x': {0}}})
globals().setdefault('g', {0})
[d := {{}}, d.update(a={0}), d['a']][2]
[l := [], l.append({0}), l[0]][2]
[l := [1], l.__setitem__(0, {0}), l[0]][2]
[l := [], l.extend([{0}]), l[-1]][2]
[h := [], heapq.heappush(h, (1, {0})), h[0][1]][2]
[q := queue.Queue(), q.put({0}), q.get()][2]
[n := types.SimpleNamespace(), setattr(n, 'a', {0}), n.a][2]
contextlib.nullcontext({0}).__enter__()
weakref.WeakValueDictionary and {0}
"""
LINES = [line for line in CARRIERS.splitlines() if line]
IMPORTS = "import collections, contextlib, copy, functools, heapq, itertools, operator, queue, types, weakref"


def carried(value: str, ways: list[str]) -> str:
    for way in ways:
        value = way.format(f"({value})")
    return value


@pytest.mark.parametrize("way", LINES)
def test_a_carrier_gives_what_it_gets(way: str) -> None:
    """The ways above are what they look like: each gives back the function that it is handed."""
    called: list[str] = []
    names: dict[str, object] = {"F": called.append}
    exec(IMPORTS, names)
    exec(carried("F", [way]) + "('x')", names)
    assert called == ["x"]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=4))
@settings(max_examples=400, deadline=None)
def test_a_long_way_does_not_hide(ways: list[str]) -> None:
    """A function that comes round by any of them is still the function."""
    behaviour = python.read(f"{IMPORTS}, os\n{carried('os.system', ways)}('HARM')")
    assert behaviour.doubts or any(a.kind == "shell" for a in behaviour.acts)


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=4))
@settings(max_examples=400, deadline=None)
def test_a_long_way_does_not_change_a_text(ways: list[str]) -> None:
    """A path that comes round by any of them is still that path, or one that is not known."""
    ways = [w for w in ways if "__call__" not in w or "type" in w]
    behaviour = python.read(f"{IMPORTS}, os\nos.remove({carried(repr('HARM'), ways)})")
    found = [t for a in behaviour.acts if a.kind == "delete" for t in a.operands]
    assert behaviour.doubts or any(not t.known or "HARM" in t.choices for t in found)


TEXTS = """
'%s' % {0}
'{{}}'.format({0})
''.join([{0}])
({0} + '')
str({0})
{0}.strip()
{0}.replace('zz', 'y')
{0}[::-1][::-1]
{0}.encode().decode()
base64.b64decode(base64.b64encode({0}.encode())).decode()
codecs.decode(codecs.encode({0}, 'rot13'), 'rot13')
bytes.fromhex({0}.encode().hex()).decode()
''.join(chr(ord(c)) for c in {0})
''.join(map(chr, map(ord, {0})))
''.join(reversed(list(reversed({0}))))
os.path.join('x/..', '..', {0})[len('x/../../'):]
str(pathlib.PurePath({0}))
os.fspath(pathlib.Path({0}))
{0}.split('zz')[0]
{0}.partition('zz')[0]
{0}.lower().upper()
shlex.split({0})[0]
textwrap.dedent({0})
urllib.parse.unquote({0})
eval(repr({0}))
{0} * 1
f"{{{0}}}"
""".strip().splitlines()
TEXT_IMPORTS = "import base64, codecs, os, pathlib, shlex, textwrap, urllib.parse"


@pytest.mark.parametrize("way", TEXTS)
def test_a_way_of_a_text_gives_what_it_gets(way: str) -> None:
    names: dict[str, object] = {}
    exec(TEXT_IMPORTS, names)
    assert eval(carried(repr("HARM"), [way]), names) == "HARM"


@given(st.lists(st.sampled_from(TEXTS), min_size=1, max_size=5))
@settings(max_examples=300, deadline=None)
def test_a_long_way_of_a_text_does_not_change_it(ways: list[str]) -> None:
    behaviour = python.read(f"{TEXT_IMPORTS}\nx = {carried(repr('HARM'), ways)}\nos.remove(x)")
    found = [t for a in behaviour.acts if a.kind == "delete" for t in a.operands]
    assert behaviour.doubts or any(not t.known or "HARM" in t.choices for t in found)
