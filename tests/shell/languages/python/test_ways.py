"""What harms stays visible however it is wrapped, held and handed on.

The ways are checked against Python itself: what is carried by them arrives (a harmless function, a text), so the
reader has to see it arrive as well.
"""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.languages import python
from tests.support.extent import examples
from tests.support.rows import for_each

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
@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
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
    "def g(f={0}): pass\ng.__defaults__[0]('HARM')",
    "def g(*, f={0}): pass\ng.__kwdefaults__['f']('HARM')",
    "def g(f: {0}): pass\ng.__annotations__['f']('HARM')",
    "class A: f: {0}\nA.__annotations__['f']('HARM')",
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


@for_each("holder", HOLDERS)
@for_each(("head", "function"), ALIASES)
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


@for_each("way", LINES)
def test_a_carrier_gives_what_it_gets(way: str) -> None:
    """The ways above are what they look like: each gives back the function that it is handed."""
    called: list[str] = []
    names: dict[str, object] = {"F": called.append}
    exec(IMPORTS, names)
    exec(carried("F", [way]) + "('x')", names)
    assert called == ["x"]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=4))
@settings(max_examples=examples(150))
def test_a_long_way_does_not_hide(ways: list[str]) -> None:
    """A function that comes round by any of them is still the function."""
    behaviour = python.read(f"{IMPORTS}, os\n{carried('os.system', ways)}('HARM')")
    assert behaviour.doubts or any(a.kind == "shell" for a in behaviour.acts)


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=4))
@settings(max_examples=examples(150))
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
@settings(max_examples=examples(150))
def test_a_long_way_of_a_text_does_not_change_it(ways: list[str]) -> None:
    behaviour = python.read(f"{TEXT_IMPORTS}\nx = {carried(repr('HARM'), ways)}\nos.remove(x)")
    found = [t for a in behaviour.acts if a.kind == "delete" for t in a.operands]
    assert behaviour.doubts or any(not t.known or "HARM" in t.choices for t in found)


# ---- statements on long ways ----------------------------------------------------------------------------------

STATEMENTS_ON_THE_WAY = """
V1 = V0
V1: object = V0
V1, *_ = V0, 1
*_, V1 = 1, V0
[V1] = [V0]
(_, (V1, _)) = (1, (V0, 2))
V1 = _ = V0
for V1 in [V0]: pass
for _, V1 in enumerate([V0]): pass
for V1 in (lambda: (yield V0))(): pass
with contextlib.nullcontext(V0) as V1: pass
if V1 := V0: pass
class CN: a = V0|V1 = CN.a
class CN: pass|CN.a = V0|V1 = CN().a
class CN:;    def __init__(self, a): self.a = a|V1 = CN(V0).a
class CN:;    def __init__(self, *a, **k): self.__dict__.update(k)|V1 = CN(x=V0).x
class CN:;    def f(self): return self.g;    g = None|CN.g = V0|V1 = CN().f()
class CN:;    @property;    def p(self): return V0|V1 = CN().p
class CN:;    @classmethod;    def p(cls, x): return x|V1 = CN.p(V0)
class CN:;    def __enter__(self): return V0;    def __exit__(self, *a): pass|with CN() as V1: pass
class CN:;    def __getattr__(self, n): return V0|V1 = CN().anything
class CN:;    def __iter__(self): yield V0|[V1] = CN()
class CN:;    def __call__(self): return V0|V1 = CN()()
class CN:;    def __get__(self, o, t): return V0|class DN: d = CN()|V1 = DN().d
class CN:;    def __matmul__(self, o): return o|V1 = CN() @ V0
class CN(dict):;    def __missing__(self, k): return V0|V1 = CN()['x']
class CN(list): pass|c = CN(); c.append(V0)|V1 = c[0]
class CN:;    def __init_subclass__(cls, a): cls.a = a|class DN(CN, a=V0): pass|V1 = DN.a
class CN(type):;    def __new__(m, n, b, d): return V0|class DN(metaclass=CN): pass|V1 = DN
class CN: a = 1|c = CN(); setattr(c, 'a', V0)|V1 = c.a
class CN: pass|c = CN(); c.__dict__['a'] = V0|V1 = c.a
class CN: pass|c = CN(); c.__setattr__('a', V0)|V1 = c.a
def fN(): return V0|V1 = fN()
def fN(x): return x|V1 = fN(V0)
def fN(x=V0): return x|V1 = fN()
def fN(*x): return x|V1 = fN(V0)[0]
def fN(**x): return x|V1 = fN(a=V0)['a']
def fN():;    global V1;    V1 = V0|fN()
def fN():;    V2 = V0;    def g():;        nonlocal V2;        return V2;    return g|V1 = fN()()
def fN(): yield V0|V1 = next(fN())
def fN():;    x = yield;    yield x|g = fN(); next(g)|V1 = g.send(V0)
def fN(): yield from [V0]|V1 = list(fN())[0]
def fN(f): return V0|@fN;def V1(): pass
def fN(): pass|fN.a = V0|V1 = fN.a
async def fN(): return V0|V1 = asyncio.run(fN())
try:;    raise ValueError(V0);except ValueError as e: V1 = e.args[0]
class EN(Exception):;    def __init__(self, a): self.a = a|try:;    raise EN(V0);except EN as e: V1 = e.a
match V0:;    case V1: pass
match [1, V0]:;    case [_, V1]: pass
match {'a': V0}:;    case {'a': V1}: pass
globals()['V1'] = V0
globals().update(V1=V0)
sys.modules[__name__].V1 = V0
exec('V1 = V0')
V1 = eval('V0')
V1 = {}; V1['a'] = V0; V1 = V1['a']
V1 = [1]; V1[0] = V0; V1 = V1[0]
V1 = [1]; V1[:] = [V0]; V1 = V1[0]
V1 = []; V1 += [V0]; V1 = V1[0]
V1 = {}; V1.update({'a': V0}); V1 = V1['a']
V1 = []; [V1.append(x) for x in [V0]]; V1 = V1[0]
V1 = threading.local(); V1.a = V0; V1 = V1.a
V1 = contextvars.ContextVar('v', default=V0).get()
""".strip().splitlines()
HEAD = "import asyncio, contextlib, contextvars, os, sys, threading"


def script(ways: list[str], start: str) -> str:
    """Statements that hand `start` on from each way to the next; the last has it as `last`."""
    lines = [HEAD, f"v0 = {start}"]
    for n, way in enumerate(ways):
        text = way.replace("V2", f"w{n}").replace("CN", f"C{n}").replace("DN", f"D{n}").replace("EN", f"E{n}")
        text = text.replace("fN", f"f{n}").replace("V0", f"v{n}").replace("V1", f"v{n + 1}")
        lines.append(
            text.replace("|", "\n").replace(";    ", "\n    ").replace(";except", "\nexcept").replace(";def", "\ndef")
        )
    return "\n".join([*lines, f"last = v{len(ways)}\n"])


@for_each("way", STATEMENTS_ON_THE_WAY)
def test_a_statement_hands_on_what_it_gets(way: str) -> None:
    names: dict[str, object] = {"start": [].append, "__name__": __name__}
    source = script([way], "start").replace("sys.modules[__name__].v1 = v0", "v1 = v0")
    exec(source, names)
    assert names["last"] is names["start"]


@given(st.lists(st.sampled_from(STATEMENTS_ON_THE_WAY), min_size=1, max_size=4))
@settings(max_examples=examples(150))
def test_long_ways_of_statements_do_not_hide(ways: list[str]) -> None:
    behaviour = python.read(script(ways, "os.system") + "last('HARM')")
    assert behaviour.doubts or any(a.kind == "shell" for a in behaviour.acts)


@given(st.lists(st.sampled_from(STATEMENTS_ON_THE_WAY), min_size=1, max_size=4))
@settings(max_examples=examples(150))
def test_long_ways_of_statements_do_not_change_a_text(ways: list[str]) -> None:
    behaviour = python.read(script(ways, "'HARM'") + "os.remove(last)")
    found = [t for a in behaviour.acts if a.kind == "delete" for t in a.operands]
    assert behaviour.doubts or any(not t.known or "HARM" in t.choices for t in found)
