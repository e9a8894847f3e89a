"""Code that was read before: it saves time, and changes no answer."""

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import Interpreter, analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.interpreter.code_cache import MAX_ACTS, MAX_CODE, Remembered
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.languages import python
from humanlayer_agent.shell.languages.behaviour import Behaviour, Text
from humanlayer_agent.shell.languages.python import read
from humanlayer_agent.shell.program import Program
from humanlayer_agent.shell.syntax.parse import parse
from tests.support.extent import examples

COMMANDS = [
    "ls -la",
    "cd sub && ls -la",
    "grep -rn x src | head -5",
    "rm a b",
    "rm a b; rm a b",
    "rm a b > log",
    "sudo rm a b",
    "cd $x && rm a b",
    "f() { rm a b; }; f",
    "cat < in | tee out",
    "find . -name '*.py' -delete",
    "sed -i s/a/b/ f",
    "sed '/x/e date' f",
    "rm *.py a?",
    "rm src/[ab]*/x",
    "shopt -s nullglob; rm *.py a?",
    "shopt -s failglob; rm *.py a?; ls",
    "echo *.py && cd sub && echo a b > f",
    "x=1 echo a; echo a",
    "echo() { rm a; }; echo a",
    "python run.py a b",
    "python run.py /srv/other",
    "cd sub; python ../run.py a b",
    "python -c 'import os; os.remove(\"x\")'",
    "sudo python -c 'import os; os.remove(\"x\")'",
    "cat > w.py <<'E'\nimport os\nos.rmdir('d')\nE\npython w.py",
    "bash -c 'rm a b'",
    "ls |",
    "while x; do rm a b; done",
    "bash s.sh",
    "bash s.sh a; bash s.sh /srv/b",
    "cd sub; . ../s.sh; f /etc/x",
    ". ./s.sh; unset -f f; . ./s.sh",
    "cat > w.sh <<'E'\nif x; then rm y; fi\nE\nsh w.sh",
]
SCRIPT = 'f() { rm "$1"; }\nif [ -e x ]; then f "$1"; fi\nfor i in 1 2; do rm $i; done\nls $(pwd)\n'
RUN = "import os, sys\nos.remove(sys.argv[1])\nopen(os.path.dirname(__file__) + '/log', 'a')\n"


def seen(program: Program) -> list[Any]:
    """All of a program that decides or is shown."""
    commands = [
        (
            c.program, c.argv, c.span, c.text, c.via, c.inside, c.cwd, c.path, c.known, c.resolved, c.unresolved,
            c.subcommand, c.flags, c.flags_complete, c.operands, c.options, [repr(e) for e in c.effects],
        )
        for c in program.commands
    ]  # fmt: skip
    return [commands, program.status, program.reasons, program.files]


def judged(text: str, cwd: str, memory: Remembered | None) -> list[Any]:
    reader = GivenReader({"/srv/app/run.py": RUN, "/tmp/run.py": RUN, "/srv/app/s.sh": SCRIPT, "/tmp/s.sh": SCRIPT}, [])
    return seen(analyse(text, cwd=cwd, environ={"HOME": "/home/u"}, reader=reader, memory=memory))


@settings(max_examples=examples(40))
@given(st.lists(st.tuples(st.sampled_from(COMMANDS), st.sampled_from(["/srv/app", "/tmp"])), max_size=15))
def test_the_answer_is_the_same(asked: list[tuple[str, str]]) -> None:
    memory = Remembered()
    for text, cwd in [*asked, *asked, *asked]:
        assert judged(text, cwd, memory) == judged(text, cwd, None)


# ---- code -------------------------------------------------------------------------------------------


PLACES = [(None, None), ("/srv/a.py", ("a.py", "x")), ("/etc/b.py", ("b.py", "/srv/y")), ("/srv/c/d.py", None)]
LOOKS = [
    "import sys\nprint(sys.argv)",
    "import sys\nopen(sys.argv[1], 'w')",
    "from sys import argv\nopen(argv[1], 'w')",
    "import sys as s\nopen(getattr(s, 'argv')[1], 'w')",
    "open(__file__, 'w')",
    "def f():\n    return __file__\nopen(f(), 'w')",
    "import os\nos.chdir(os.path.dirname(os.path.abspath(__file__)))\nopen('x', 'w')",
]
LOOKS_NOT = [
    "import os\nos.remove('x')",
    "open(globals()['__file__'], 'w')",
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('f')\nopen(p.parse_args().f, 'w')",
    "exec('open(__file__, \"w\")')",
    "import __main__\nopen(__main__.__file__, 'w')",
    "import inspect\nopen(inspect.stack()[0].filename, 'w')",
    "import runpy, sys\nrunpy.run_path('x.py')",
    "import x",
]


def everywhere(source: str) -> list[Behaviour]:
    return [read(source, argv=None if argv is None else [Text.of(a) for a in argv], path=p) for p, argv in PLACES]


@pytest.mark.parametrize("source", LOOKS)
def test_code_that_looks_at_where_it_runs(source: str) -> None:
    found = everywhere(source)
    assert all(each.steady and not each.anywhere for each in found)


@pytest.mark.parametrize("source", LOOKS + LOOKS_NOT)
def test_code_that_runs_anywhere_does_the_same_everywhere(source: str) -> None:
    found = everywhere(source)
    assert len({each.anywhere for each in found}) == 1
    if found[0].anywhere:
        assert len({repr((each.acts, each.doubts, each.directories, each.files)) for each in found}) == 1


def test_code_is_found_by_all_that_it_depends_on() -> None:
    memory = Remembered()
    somewhere = read("import sys\nopen(sys.argv[1], 'w')", argv=[Text.of("-c"), Text.of("x")])
    memory.put_code("python", "text", ("/a.py", None), somewhere)
    assert memory.code("python", "text", ("/a.py", None)) is not None
    assert memory.code("python", "text", ("/b.py", None)) is None
    assert memory.code("python", "text", None) is None
    memory.put_code("python", "other", ("/a.py", None), read("open('x', 'w')"))
    assert memory.code("python", "other", ("/b.py", None)) is not None
    assert memory.code("settings", "other", ("/b.py", None)) is None


@pytest.mark.parametrize("source", ["(", "x = " + "(" * 5000, "# coding: rot13\n"])
def test_what_could_not_be_read_is_not_remembered(source: str) -> None:
    memory = Remembered()
    memory.put_code("python", source, None, read(source))
    assert memory.code("python", source, None) is None


def test_code_that_was_read_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def counted(source: str, **more: Any) -> Behaviour:
        seen.append(source)
        return read(source, **more)

    monkeypatch.setattr(python, "read", counted)
    memory = Remembered()
    for text in ("python run.py a", "cd /tmp && python /srv/app/run.py a", "python run.py b"):
        judged(text, "/srv/app", memory)
    assert len(seen) == 2, "its words are looked at, where it is started is not"


def test_a_file_that_was_changed_is_read_again() -> None:
    memory, effects = Remembered(), []
    for source in ("import os\nos.remove('a')", "import os\nos.remove('b')"):
        reader = GivenReader({"/srv/run.py": source}, [])
        program = analyse("python run.py", cwd="/srv", reader=reader, memory=memory)
        effects.append({e.operand for c in program.commands for e in c.effects if e.kind == "delete"})
    assert effects == [{"/srv/a"}, {"/srv/b"}]


def test_code_is_bounded() -> None:
    memory, steady = Remembered(), Behaviour(steady=True, anywhere=True)
    for n in range(9):
        memory.put_code("python", str(n) + "x" * (MAX_CODE // 4), None, steady)
        memory.put_code("python", str(n) + "x" * (MAX_CODE // 4), None, steady)
    assert sum(len(text) for text, _ in memory._code) <= MAX_CODE
    assert memory._size == sum(len(text) for text, _ in memory._code)
    many = Behaviour(doubts=[str(n) for n in range(MAX_ACTS + 1)], steady=True, anywhere=True)
    memory.put_code("python", "many", None, many)
    assert memory.code("python", "many", None) is None


def test_each_run_in_one_action_has_a_tree_of_its_own() -> None:
    text = "bash s.sh a; bash s.sh b"
    walk = Interpreter(text, State(("/srv/app",), {}), GivenReader({"/srv/app/s.sh": SCRIPT}, []), Remembered())
    walk.root(parse(text))
    assert len(walk.functions_defined) == 2


def test_what_is_done_with_an_answer_changes_no_other() -> None:
    memory = Remembered()
    memory.put_code("python", "x", None, read("open('x', 'w')"))
    first = memory.code("python", "x", None)
    assert first is not None
    first.acts.clear()
    first.doubt("changed")
    again = memory.code("python", "x", None)
    assert again is not None
    assert again.acts
    assert not again.doubts


@pytest.mark.long
def test_many_threads() -> None:
    memory, wrong = Remembered(), []

    def ask(turns: Iterator[int]) -> None:
        for n in turns:
            text = COMMANDS[n % len(COMMANDS)]
            if judged(text, "/srv/app", memory) != expected[text]:
                wrong.append(text)

    expected = {text: judged(text, "/srv/app", None) for text in COMMANDS}
    threads = [threading.Thread(target=ask, args=(iter(range(k, k + 60)),)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(Behaviour) if each.type in ("bool", bool)])
def test_what_is_remembered_says_all_that_was_said(name: str) -> None:
    found = Behaviour(steady=True)
    setattr(found, name, not getattr(Behaviour(), name))
    remembered = Remembered()
    remembered.put_code("javascript", "f()", "", found)
    again = remembered.code("javascript", "f()", "")
    assert again is not None
    assert dataclasses.asdict(again) == dataclasses.asdict(found)
