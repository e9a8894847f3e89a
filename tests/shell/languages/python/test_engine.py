"""The reader of Python code: what hides is seen, what is harmless is known, and how names, values and calls are followed."""

import ast
import gc
from pathlib import Path

import pytest

from humanlayer_agent.shell.languages import python
from humanlayer_agent.shell.languages.behaviour import UNKNOWN, Act, Behaviour, Text
from humanlayer_agent.shell.languages.python.engine import Engine
from humanlayer_agent.shell.languages.python.objects import Outside, Unit
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks
from tests.support.rows import for_each
from tests.support.tables import table

HERE = Path(__file__).parent
HARMFUL: list[str] = table(HERE / "spellings_harmful.yaml")
HARMLESS: list[str] = table(HERE / "spellings_harmless.yaml")


def shown(source: str) -> str:
    return " / ".join(line.strip() for line in source.splitlines()[-3:])[-80:]


def harm(behaviour: Behaviour) -> bool:
    """Does it name HARM, or leave open what it is done to?"""
    if behaviour.doubts or any("HARM" in c for d in behaviour.directories for c in d.choices):
        return True
    for act in behaviour.acts:
        if (act.kind == "read" and act.role != "argument") or act.role in ("import", "read"):
            continue
        if act.many or any(not t.known or any("HARM" in c for c in t.choices) for t in act.operands):
            return True
    return False


@for_each("source", HARMFUL)
def test_harm_shows(source: str) -> None:
    assert harm(python.read(source))


@for_each("source", HARMLESS)
def test_harmless_code_is_known(source: str) -> None:
    behaviour = python.read(source, path="/project/x.py")
    assert behaviour.doubts == []
    assert [a for a in behaviour.acts if open_ended(a)] == []
    assert [a for a in behaviour.acts if a.role == "argument"] == []


def test_nothing_is_left_for_the_garbage_collector() -> None:
    """Trees are many objects, which were looked through again and again until they were found to be garbage."""
    python.read("import os")
    gc.collect()
    gc.disable()
    try:
        for source in (*HARMFUL[::10], *HARMLESS[::5]):
            python.read(source)
        left = [o for o in gc.get_objects() if isinstance(o, Unit | ast.Module)]
    finally:
        gc.enable()
    assert left == []


@pytest.mark.parametrize("handed", ["[a, 'b']", "{'a': [1]}", "[[['a']]]", "{a}", "[f, [g]]"])
def test_what_is_handed_over_is_not_read_twice_for_it(handed: str) -> None:
    source = (
        f"import lib\nimport lib.a as a\ndef f(): return [1]\ndef g(): return lib.x({handed})\nlib.y({handed})\ng()\n"
    )
    tree = ast.parse(source)
    engine = Engine(source, tree, None, None, capability_leaks.give_up)
    python.follow(engine, tree)
    assert [unit.runs for unit in engine.units if not isinstance(unit.body, Outside)] == [1, 1, 1]


def open_ended(act: Act) -> bool:
    """Is it done to something that is not known? Reading does not count, nor does what a variable is set to."""
    operands = act.operands[:1] if act.kind == "environment" else act.operands
    return act.kind != "read" and act.role != "read" and any(not t.known and t.below is None for t in operands)


def test_there_are_enough_spellings() -> None:
    assert len(HARMFUL) >= 400
    assert len(HARMLESS) >= 60


def acts(source: str, kind: str, *, path: str | None = None, argv: tuple[Text, ...] | None = None) -> set[Text]:
    """The operands of the acts of `kind`; there is no doubt."""
    behaviour = python.read(source, path=path, argv=argv)
    assert behaviour.doubts == []
    return {a.operands[0] for a in behaviour.acts if a.kind == kind}


def of(*texts: str) -> set[Text]:
    return {Text.of(t) for t in texts}


# ---- values -------------------------------------------------------------------------------------------


@for_each(
    ("expression", "text"),
    [
        ("'a' + 'b'", "ab"),
        ("'%s/%d' % ('a', 3)", "a/3"),
        ("'{}-{x}'.format('a', x='b')", "a-b"),
        ("f'{\"a\"}/{1}'", "a/1"),
        ("'/'.join(['a', 'b'])", "a/b"),
        ("'abc'[::-1]", "cba"),
        ("'abc'[1:]", "bc"),
        ("'abc'[-1]", "c"),
        ("' a '.strip().upper().lower()", "a"),
        ("'a-b'.replace('-', '/')", "a/b"),
        ("'a b'.split()[1]", "b"),
        ("'a.py'.removesuffix('.py')", "a"),
        ("'ab' * 2", "abab"),
        ("chr(97) + chr(ord('b'))", "ab"),
        ("bytes([97, 98]).decode()", "ab"),
        ("bytes.fromhex('6162').decode()", "ab"),
        ("__import__('base64').b64decode('YWI=').decode()", "ab"),
        ("__import__('codecs').decode('no', 'rot13')", "ab"),
        ("str(12)", "12"),
        ("str(b'a', 'utf-8')", "a"),
        ("''.join(chr(c) for c in (97, 98))", "ab"),
        ("''.join(reversed('ba'))", "ab"),
        ("__import__('os').path.join('a', 'b', '/c')", "/c"),
        ("__import__('os').path.dirname('/a/b/c')", "/a/b"),
        ("__import__('os').path.basename('/a/b')", "b"),
        ("__import__('os').path.splitext('a.py')[0] + '.pyc'", "a.pyc"),
        ("__import__('os').path.expanduser('~/a')", "~/a"),
        ("__import__('os').path.abspath('a')", "a"),
        ("__import__('os').getcwd() + '/a'", "./a"),
        ("__import__('pathlib').Path('a') / 'b'", "a/b"),
        ("__import__('pathlib').Path('a', 'b').with_suffix('.c')", "a/b.c"),
        ("__import__('pathlib').Path.home() / 'a'", "~/a"),
        ("__import__('pathlib').Path('/a/b/c').parents[1]", "/a"),
        ("__import__('textwrap').dedent('  a')", "a"),
        ("{'k': 'a'}['k']", "a"),
        ("{'k': 'a'}.get('k')", "a"),
        ("('a', 'b')[1]", "b"),
        ("[*('a', 'b')][1]", "b"),
        ("dict(k='a')['k']", "a"),
        ("(lambda x: x)('a')", "a"),
        ("next(iter(['a']))", "a"),
    ],
)
def test_texts(expression: str, text: str) -> None:
    assert acts(f"import os\nos.remove({expression})", "delete") == of(text)


@pytest.mark.parametrize(
    ("expression", "operand"),
    [
        ("'/tmp/' + input()", Text(prefix="/tmp/")),
        ("os.path.join('/tmp', input())", Text(prefix="/tmp/")),
        ("f'/tmp/x_{len(input())}.txt'", Text(below="/tmp")),
        ("os.path.join('/a', os.listdir('/a')[0])", Text(below="/a")),
        ("os.path.join('/a', '..', os.listdir('/a')[0])", Text(below="/a/..")),
        ("glob.glob('/a/*.py')[0]", Text(below="/a")),
        ("glob.glob('/a/*/../x')[0]", UNKNOWN),
        ("tempfile.mkdtemp() + '/x'", Text.of("/tmp/made-by-tempfile/x")),
        ("tempfile.mkdtemp() + '/../x'", Text.of("/tmp/made-by-tempfile/../x")),
        ("os.path.basename(tempfile.mkdtemp(prefix='reboot;#'))", Text(below=".")),
        ("os.path.join(tempfile.mkdtemp(), input())", Text(prefix="/tmp/made-by-tempfile/")),
        ("next(os.walk('/a'))[0]", Text(below="/a")),
        ("next(os.walk('/a'))[0] + 'x'", UNKNOWN),
        ("next(os.walk('/a'))[0] + '/x'", Text(below="/a")),
        ("next(Path('/a').rglob('*'))", Text(below="/a")),
        ("next(Path('/a').glob('../*'))", UNKNOWN),
        ("next(Path('/a').iterdir()).with_suffix('.x')", Text(below="/a")),
        ("os.path.join('/a', next(Path.cwd().iterdir()))", Text(below=".")),
        ("1 * input()", UNKNOWN),
        ("len('x') * input()", UNKNOWN),
        ("str(len('x'))", Text(below=".")),
        ("uuid.uuid4().hex + '.txt'", Text(below=".")),
        ("open('x').read()", UNKNOWN),
        ("sys.argv[1]", UNKNOWN),
    ],
)
def test_half_known_texts(expression: str, operand: Text) -> None:
    source = "import os, glob, tempfile, uuid, sys\nfrom pathlib import Path\nfor p in [EXPRESSION]: os.remove(p)"
    assert acts(source.replace("EXPRESSION", expression), "delete") == {operand}


def test_many_texts_are_what_they_have_in_common() -> None:
    assert acts(f"import os\nfor p in {[f'/a/b/{n}' for n in range(40)]}: os.remove(p)", "delete") == {
        Text(below="/a/b")
    }
    assert acts(f"import os\nfor p in {[f'{n}' for n in range(40)]}: os.system(p)", "shell") == {UNKNOWN}


def test_an_absolute_form_is_not_joined_like_the_text_that_it_came_from() -> None:
    """os.path.abspath gives an absolute path: joined to another directory it stays where it is."""
    assert acts("import os\nos.remove(os.path.join('/tmp/a', os.path.abspath('../x')))", "delete") == of("../x")
    assert acts("import os\nos.remove(os.path.join('/tmp/a', os.path.expanduser('~/x')))", "delete") == of("~/x")


def test_the_arguments_of_the_script() -> None:
    argv = (Text.of("x.py"), Text.of("a"))
    assert acts("import os, sys\nos.remove(sys.argv[1])", "delete", argv=argv) == of("a")
    assert acts("import os, sys\nos.remove(sys.argv[2])", "delete", argv=argv) == {UNKNOWN}


def test_the_place_of_the_script() -> None:
    source = "import os\nos.remove(os.path.join(os.path.dirname(__file__), 'a'))"
    assert acts(source, "delete", path="/project/x.py") == of("/project/a")
    assert acts(source, "delete") == {UNKNOWN}


# ---- names, calls and objects ---------------------------------------------------------------------------


def test_the_order_of_statements_does_not_matter() -> None:
    assert acts("import os\ndef f(): os.remove(p)\np = 'a'\nf()\np = 'b'", "delete") == {Text.of("a", "b")}


def test_parameters_are_what_the_calls_pass() -> None:
    assert acts("import os\ndef f(p, q='z'): os.remove(p + q)\nf('a')\nf('b', q='c')", "delete") == {
        Text.of("ac", "az", "bc", "bz")
    }


def test_a_function_that_nobody_calls_may_be_called_with_anything() -> None:
    assert acts("import os\ndef f(p): os.remove(p)", "delete") == {UNKNOWN}


def test_a_function_that_is_handed_to_a_library_may_be_called_with_anything() -> None:
    assert UNKNOWN in acts("import os, lib\ndef f(p): os.remove(p)\nf('a')\nlib.run(f)", "delete")


def test_a_capability_that_is_handed_to_a_library_is_called_with_anything() -> None:
    assert acts("import os, lib\nlib.run(os.remove)", "delete") == {UNKNOWN}


def test_a_module_that_is_handed_to_a_library_is_a_doubt() -> None:
    assert python.read("import os, lib\nlib.run(os)").doubts == ["line 2: the module os is handed to lib.run"]


def test_recursion_ends() -> None:
    assert acts("import os\ndef f(p): os.remove(p); f(p + '/x')\nf('a')", "delete") == {Text(below=".")}


def test_inheritance_goes_by_the_first_class_that_has_it() -> None:
    source = "import os\nclass A:\n  p = 'a'\n  def f(self): os.remove(self.p)\nclass B(A):\n  p = 'b'\nB().f()"
    assert acts(source, "delete") == of("b")


# ---- programs -------------------------------------------------------------------------------------------


def program(source: str) -> list[tuple[tuple[str | None, ...], bool, str]]:
    """The words of the programs that are started, whether there may be others, and where."""
    behaviour = python.read(source)
    return [
        (
            tuple(t.choices[0] if t.known else None for t in a.operands),
            a.many,
            a.cwd.choices[0] if a.cwd and a.cwd.known else "",
        )
        for a in behaviour.acts
        if a.kind == "program"
    ]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("subprocess.run(['a', 'b'])", (("a", "b"), False, "")),
        ("subprocess.run(['a', 'b'], cwd='/x')", (("a", "b"), False, "/x")),
        ("subprocess.run('a b'.split())", (("a", "b"), False, "")),
        ("subprocess.run(shlex.split('a \"b c\"'))", (("a", "b c"), False, "")),
        ("subprocess.run(['a', *sys.argv])", (("a", None), True, "")),
        ("subprocess.run(['a', input()])", (("a", None), False, "")),
        ("subprocess.run(['a'] + ['b'])", (("a", "b"), False, "")),
        ("subprocess.run([sys.executable, '-V'])", (("python3", "-V"), False, "")),
        ("subprocess.run(['a'], executable='b')", (("b",), False, "")),
        ("subprocess.run('a')", (("a",), False, "")),
        ("subprocess.run(input())", ((None,), True, "")),
        ("os.execvp('a', ['x', 'b'])", (("a", "b"), False, "")),
        ("os.execl('a', 'x', 'b')", (("a", "b"), False, "")),
        ("os.spawnlp(os.P_WAIT, 'a', 'x', 'b')", (("a", "b"), False, "")),
    ],
)
def test_programs(call: str, expected: tuple[tuple[str | None, ...], bool, str]) -> None:
    assert program(f"import os, shlex, subprocess, sys\n{call}") == [expected]


def test_a_list_that_is_changed_has_no_known_order() -> None:
    assert program("import subprocess\nc = ['a', 'b']\nc.insert(0, 'x')\nsubprocess.run(c)") == [((None,), True, "")]
    assert program("import subprocess\nc = ['a']\nc.append('b')\nsubprocess.run(c)") == [(("a",), True, "")]


# ---- files ----------------------------------------------------------------------------------------------


def files(source: str) -> list[tuple[Text, str | None]]:
    return python.read(source).files


def test_files_that_are_written_with_a_known_text() -> None:
    assert files("open('a', 'w').write('x')") == [(Text.of("a"), "x")]
    assert files("with open('a', 'w') as f:\n    f.write('x')") == [(Text.of("a"), "x")]
    assert files("from pathlib import Path\nPath('a').write_text('x')") == [(Text.of("a"), "x")]
    assert files("def w(p, t):\n    with open(p, 'w') as f:\n        f.write(t)\nw('a', 'x')") == [(Text.of("a"), "x")]


@pytest.mark.parametrize(
    "source",
    [
        "f = open('a', 'w')\nf.write('x')\nf.write('y')",
        "f = open('a', 'w')\nfor i in range(3): f.write('x')",
        "f = open('a', 'a')\nf.write('x')",
        "f = open('a', 'r+')\nf.write('x')",
        "f = open('a', 'w')\nprint('x', file=f)",
        "f = open('a', 'w')\nf.write('x')\nf.writelines(['y'])",
        "import json\nf = open('a', 'w')\nf.write('x')\njson.dump(1, f)",
        "open('a', 'w').write(input())",
        "open('a', 'w')",
        "def g(f): f.write('x')\ng(open('a', 'w'))",
    ],
)
def test_files_that_are_written_with_a_text_that_is_not_known(source: str) -> None:
    assert files(source) == [(Text.of("a"), None)]


# ---- what can't be read -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source", ["def", "x = (", "print 'x'", "\0", "x" * (256 * 1024 + 1), "-" * 50_000 + "1", "a" + ".b" * 50_000]
)
def test_what_is_no_python_is_a_doubt(source: str) -> None:
    behaviour = python.read(source)
    assert len(behaviour.doubts) == 1
    assert behaviour.opaque
    assert behaviour.acts == []


@pytest.mark.parametrize("encoding", ["utf-7", "unicode_escape", "raw-unicode-escape", "rot13", "punycode"])
def test_another_encoding_is_another_text(encoding: str) -> None:
    assert python.read(f"#!/usr/bin/python\n# -*- coding: {encoding} -*-\nx = 1").doubts
    assert not python.read(f"x = 1\n\n# coding: {encoding}\n").doubts


@pytest.mark.parametrize("encoding", ["utf-8", "UTF8", "utf-8-sig", "latin-1", "iso-8859-15", "ascii", "cp1252"])
def test_a_plain_encoding_is_no_doubt(encoding: str) -> None:
    assert not python.read(f"# -*- coding: {encoding} -*-\nx = 1").doubts


def test_nothing_is_said_of_style(recwarn: pytest.WarningsRecorder) -> None:
    python.read("x = '\\d'\nif x is 'a': pass\nexec(\"y = '\\\\d'\")\n1if 1 else 2")
    assert [w for w in recwarn if issubclass(w.category, SyntaxWarning | DeprecationWarning)] == []
