"""What code that is not read is handed: a function that nobody knows is never harmless with a path, a host or code."""

from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.languages import python
from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.python.unknown_code.argument_doubts import told_by
from tests.support.rows import for_each


def judged(source: str) -> bool:
    """Is there a doubt, or an act beyond the project?"""
    found = python.read(source)
    return bool(found.doubts) or any(beyond(act) for act in found.acts)


def beyond(act: Act) -> bool:
    if act.role == "import":
        return False
    if act.kind in ("network", "shell", "program", "environment"):
        return True
    return any(
        not t.known or any(c.startswith(("/", "~", "..", ".env", ".git")) for c in t.choices) for t in act.operands
    )


HANDED = [
    '"/srv/x"', 'b"/srv/x"', '["/srv/x"]', '{"to": ["/srv/x"]}', 'path="/srv/x"', '"~/x"', '"../../x"', '"--out=/srv/x"',
    '"-o/srv/x"', '"cp a /srv/x"', '"http://example.org"', '*["http://example.org"]', '"http://%s/" % input()',
    '["--fix"]', '["-o", "x"]', '("-c", "x")', '"__import__(\'os\').system(\'id\')"', '"import os\\nos.system(\'id\')\\n"',
    '">>> import os\\n>>> os.system(\'id\')\\n"', '"{{ x.__class__ }}"', '"{% import os %}{% raw os.system(\'id\') %}"',
    '"<% import os %>"', '"${open(\'/srv/x\').read()}"', '"% import os\\n% os.system(\'id\')\\n"',
    '"<!DOCTYPE a [<!ENTITY b SYSTEM \'x\'>]><a>&b;</a>"', '".. include:: x"', '"!!python/object/apply:os.system [id]"',
    'b"cos\\nsystem\\n(S\'id\'\\ntR."', '".env"', '".git/hooks/x"', 'lambda: "/srv/x"', '__import__("pathlib").Path("/srv/x")',
]  # fmt: skip
PLAIN = [
    '"x"', '"a/b.txt"', '["a", "b"]', '["-v", "a.py"]', '"eval"', '"a.b.c"', '"hello (world)"', '"x + 1"', '"{{ name }}"',
    '"{% for x in xs %}{{ x|upper }}{% endfor %}"', '"see http://example.org for more"', '1', 'None', '"/users/<int:id>/"',
    '"def f(x):\\n    return x + 1\\n"', '"import a\\nclass B(a.C):\\n    x = a.D(max_length=3)\\n"', '{"a": 1}', '"SELECT 1"',
]  # fmt: skip
WAYS = [
    "lib.go({0})", "lib.a.b().go({0})", "lib.A().go({0})", "from lib import go as f\nf({0})", "getattr(lib, 'go')({0})",
    "f = [lib.go]\nf[0]({0})", "import functools\nfunctools.partial(lib.go, {0})()", "def f(*a, **k): lib.go(*a, **k)\nf({0})",
    "import threading\nthreading.Timer(1, lib.go, args=[{0}])", "@lib.go({0})\ndef f(): pass",
    "import operator\noperator.methodcaller('go', {0})(lib)", "def f(g=lib.go): return g\nf.__defaults__[0]({0})",
    "class A(lib.B):\n    pass\nA({0})",
]  # fmt: skip


@for_each("given", HANDED)
@for_each("way", WAYS)
def test_an_unknown_function_is_not_harmless(way: str, given: str) -> None:
    if "args=[" in way and given.startswith(("path=", "*")):
        return
    assert judged("import lib\n" + way.format(given)), way.format(given)


@for_each("given", PLAIN)
@for_each("way", WAYS)
def test_plain_values_are_nothing_of_note(way: str, given: str) -> None:
    source = "import lib\n" + way.format(given)
    assert not judged(source), source


SEEN = [
    "lib.x.path = '/srv/x'", "lib.X['path'] = '/srv/x'", "setattr(lib.x, 'path', '/srv/x')", "vars(lib.x)['p'] = '/srv/x'",
    "lib.x.update(path='/srv/x')", "class A(lib.B):\n    path = '/srv/x'\nA().go()", "lib.x / '/srv/x'", "lib.x['/srv/x']",
    "class A(lib.B):\n    def path(self): return '/srv/x'\nA().go()", "lib.x << '/srv/x'", "lib.x.path += ['/srv/x']",
    "import logging\nlogging.FileHandler('x').baseFilename = '/srv/x'", "lib.delete_path(open('x').read())",
    "import ssl\nssl.create_default_context().keylog_filename = '/srv/x'", "lib.run_shell('id')", "lib.spawn(['id'])",
    "lib.exec_(open('x').read())", "import sys\nsys.argv = ['x', '/srv/x']\nlib.main()", "lib.go(file=input())",
]  # fmt: skip


@for_each("statement", SEEN)
def test_what_others_see_is_theirs(statement: str) -> None:
    assert judged("import lib\n" + statement), statement
    inside = statement.replace("/srv/x", "a/x")
    assert inside == statement or not judged("import lib\n" + inside), inside


def test_a_function_without_words_takes_those_of_the_command() -> None:
    source = "from lib.cli import main\nmain()"
    assert python.read(source, argv=[Text.of("-c"), Text.of("a.txt")]).acts[1:] == []
    found = python.read(source, argv=[Text.of("-c"), Text.of("/srv/x")])
    assert {act.kind for act in found.acts if act.role == "argument"} == {"read", "write"}


def test_the_name_of_the_script_is_no_word_whatever_it_is_made() -> None:
    script = "import re, sys\nfrom lib import cli\nsys.argv[0] = re.sub(r'\\.exe$', '', sys.argv[0])\nsys.exit(cli())\n"

    def touched(*argv: str) -> list[str]:
        found = python.read(script, argv=[Text.of(word) for word in argv])
        return [text.choices[0] for act in found.acts if act.role == "argument" for text in act.operands]

    assert touched("/srv/app/.venv/bin/tool", "--help") == []
    assert touched("/srv/app/.venv/bin/tool", "/srv/x") == ["/srv/x", "/srv/x"]
    assert touched("/srv/app/.venv/bin/tool", "/srv/app/.venv/bin/tool") == ["/srv/app/.venv/bin/tool"] * 2
    assert touched("tool") == []
    script = "import sys\nfrom lib import cli\nsys.argv[0] = '/srv/x'\nsys.exit(cli())\n"
    assert touched("tool") == ["/srv/x", "/srv/x"]


SINKS = ["open({0}, 'w')", "__import__('os').remove({0})", "__import__('shutil').rmtree({0})", "lib.go({0})"]
TURNS = [
    "(lambda f={0}: f)()", "[{0}][0]", "{{'k': {0}}}['k']", "next(iter([{0}]))", "(lambda *a: a[-1])(1, {0})",
    "getattr(type('T', (), {{'a': staticmethod({0})}}), 'a')", "__import__('functools').partial({0})",
    "(lambda f={0}: 0).__defaults__[0]", "(lambda *, f={0}: 0).__kwdefaults__['f']", "max([{0}], key=id)",
    "__import__('functools').reduce(lambda a, b: b, [0, {0}])", "__import__('copy').copy({0})", "({0} if input() else print)",
]  # fmt: skip
FUNCTIONS = ["open", "__import__('os').remove", "__import__('shutil').rmtree", "lib.go", "type(open('a', 'rb', 0))"]


@given(st.sampled_from(FUNCTIONS), st.lists(st.sampled_from(TURNS), max_size=4), st.sampled_from(["/srv/x", "~/x"]))
def test_ways_of_a_function_do_not_hide_it(function: str, turns: list[str], target: str) -> None:
    """Through any wrappers, defaults, closures and containers."""
    for turn in turns:
        function = turn.format(function)
    assert judged(f"import lib\n({function})({target!r}, 'w')"), function


@given(st.sampled_from(FUNCTIONS[:4]), st.lists(st.sampled_from(TURNS[:5]), max_size=3))
def test_the_same_inside_the_project_is_harmless(function: str, turns: list[str]) -> None:
    for turn in turns:
        function = turn.format(function)
    found = python.read(f"import lib\n({function})('build/x')")
    assert not found.doubts
    assert not any(map(beyond, found.acts)), function


@for_each(
    "text", ["x = 1", "print(x)", "a, b", "@app.route('/x')", "open('a.txt')", "f(x)(y)", "{{ super() }}", ">>> 1 + 1"]
)
def test_text_that_does_nothing_tells_nothing(text: str) -> None:
    assert told_by(text) is None
