"""Files that a command loads by itself, where they are no longer those that a human started from."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.program import Program, code_name
from humanlayer_agent.shell.reader import ProjectReader, Source
from humanlayer_agent.shell.script_files.implicit_loads import MAX_LOADED

HARM = "import os\nos.remove('/srv/x')\n"
DOCTEST = f'"""\n    >>> {HARM.splitlines()[0]}; {HARM.splitlines()[1]}\n"""\n'


class Changed(GivenReader, ProjectReader):
    """A reader of a project whose given files all differ from those that a human started from."""

    def __init__(self, files: Mapping[str, str], judged: Collection[str] = (), *, blind: bool = False) -> None:
        super().__init__(files)
        self._paths, self._judged, self._blind = list(files), judged, blind

    def changed(
        self, wanted: Callable[[str], bool], places: Collection[str] = (), beside: Collection[str] = ()
    ) -> Sequence[str] | None:
        return None if self._blind else [path for path in self._paths if wanted(path)]

    def is_judged(self, name: str) -> bool:
        return name in self._judged


def judge(command: str, files: Mapping[str, str], judged: Collection[str] = (), *, blind: bool = False) -> Program:
    reader = Changed({f"/p/{name}": text for name, text in files.items()}, judged, blind=blind)
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)


def deletes(program: Program) -> bool:
    return any(e.kind == "delete" and e.operand == "/srv/x" for c in program.commands for e in c.effects)


def unread(program: Program) -> bool:
    return any(e.unread for c in program.commands for e in c.effects)


@pytest.mark.parametrize(
    ("command", "name", "text"),
    [
        ("pytest", "tests/conftest.py", HARM),
        ("python3 -m pytest tests", "src/a.py", HARM),
        ("timeout 9 python -c 'import a'", "a.py", HARM),
        ("coverage run -m pytest", "a.py", HARM),
        ("pytest", "run.sh", "rm /srv/x\n"),
        ("make test", "a.py", HARM),
        ("npm test", "scripts/run.sh", "rm /srv/x\n"),
        ("cargo test", "package.json", '{"scripts": {"test": "rm /srv/x"}}'),
        ("pytest", "pytest.ini", "[pytest]\naddopts = --basetemp=/srv/x\n"),
        ("pytest", "tests/test_a.txt", DOCTEST),
        ("make test", "tests/test_a.txt", DOCTEST),
        ("pytest --doctest-modules src", "src/a.py", DOCTEST),
        ("PYTEST_ADDOPTS=--doctest-modules pytest", "src/a.py", DOCTEST),
        ("python -m doctest notes", "notes", DOCTEST),
        ("pytest --doctest-glob=*.cfg", "a.cfg", DOCTEST),
    ],
)
def test_what_differs_is_judged_as_what_it_is_loaded_as(command: str, name: str, text: str) -> None:
    assert deletes(judge(command, {name: text})), command


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npm test", "src/a.js"), ("make", "src/main.c"), ("cargo test", "src/lib.rs"), ("pytest", "a.so"),
        ("cmake --build build", "CMakeLists.txt"), ("bash run.sh", "a.rb"),
    ],
)  # fmt: skip
def test_what_nobody_can_read_makes_the_load_unread(command: str, name: str) -> None:
    files = {name: "f()", "run.sh": "make\n"}
    assert unread(judge(command, files)), command


@pytest.mark.parametrize(
    ("command", "name"),
    [("ls", "a.py"), ("pytest", "a.js"), ("npm test", "dist/a.js"), ("make", "README.md"), ("pytest", "src/a.py")],
)
def test_what_is_not_loaded_is_not_judged(command: str, name: str) -> None:
    program = judge(command, {name: "f()" if name.endswith(".js") else DOCTEST})
    assert not deletes(program)
    assert not unread(program)


def test_what_was_judged_is_not_judged_again() -> None:
    assert not deletes(judge("pytest", {"a.py": HARM}, [code_name("/p/a.py", HARM, "python", ("/p",))]))
    assert deletes(judge("pytest", {"a.py": HARM}, [code_name("/p/b.py", HARM, "python", ("/p",))]))
    assert deletes(
        judge("pytest --doctest-modules", {"a.py": DOCTEST}, [code_name("/p/a.py", DOCTEST, "python", ("/p",))])
    )
    written = analyse("printf 'x = 1' > a.py", cwd="/p").judged
    assert written == {code_name("/p/a.py", "x = 1", "python", ("/p",))}


def test_what_was_judged_is_judged_again_where_it_runs_elsewhere() -> None:
    assert deletes(judge("pytest", {"a.py": HARM}, [code_name("/p/a.py", HARM, "python", ("/p/deep",))]))
    moved = judge("cd deep/er && pytest ../../tests", {"tests/a.py": "import os\nos.remove('../../../srv/x')\n"})
    assert "/p/deep/er/../../../srv/x" in {e.operand for c in moved.commands for e in c.effects if e.kind == "delete"}


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ('import subprocess\nsubprocess.run(["bash", "notes"])\n', "echo 1\n"),
        ('import os\nos.system("sh ./notes")\n', "echo 1\n"),
        ('import runpy\nrunpy.run_path("notes")\n', "x = 1\n"),
        ('import subprocess\nsubprocess.run(["make", "-f", "notes"])\n', "all:\n\techo 1\n"),
    ],
)
def test_what_runs_another_file_is_judged_each_time(text: str, notes: str) -> None:
    def remembered(text: str) -> bool:
        program = judge(f"cat > tests/conftest.py << 'END'\n{text}END", {"notes": notes})
        assert not unread(program)
        return code_name("/p/tests/conftest.py", text, "python", ("/p",)) in program.judged

    assert not remembered(text)
    assert remembered("x = 1\n")


@pytest.mark.parametrize(
    "command",
    [
        "PYTHONPATH=lib.zip python3 -c 'print(1)'",
        "PYTHONPATH=src:lib.zip/inner pytest",
        "PYTHONPATH=data python3 -m unittest",
        "PYTHONPATH=data pip --version",
        "PYTHONPATH=lib.zip black src",
        "export PYTHONPATH=$PWD/lib.zip; python3 -c 'import json'",
        "python3 -c 'import sys; sys.path.insert(0, \"lib.zip\"); import evil'",
        "python3 -c 'import sys; sys.path[:0] = [\"data\"]; import evil'",
        "cp lib.zip new; PYTHONPATH=new python3 -c 'import json'",
    ],
)
def test_modules_in_an_archive_are_unread(command: str) -> None:
    assert unread(judge(command, {"lib.zip": "PK", "data": "PK"})), command


@pytest.mark.parametrize(
    "command",
    [
        "PYTHONPATH=src python3 -c 'import json'",
        "PYTHONPATH=. pytest",
        "unzip -l lib.zip",
        "mkdir src; PYTHONPATH=src pytest",
    ],
)
def test_modules_in_folders_are_read(command: str) -> None:
    assert not unread(judge(command, {"lib.zip": "PK", "src/a.py": "x = 1\n"})), command


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m pydoc ./notes",
        "python3 -m pydoc notes",
        "echo 'import os' > new; python3 -m pydoc ./new",
        "sort -o new notes; python3 -m pydoc ./new",
        "uvicorn app:app --log-config notes",
    ],
)
def test_a_file_of_any_name_that_is_named_is_unread(command: str) -> None:
    assert unread(judge(command, {"notes": HARM})), command
    assert not unread(judge("python3 -m pydoc json", {"notes": HARM}))


def test_too_many_are_unread() -> None:
    files = {f"a{n}.py": f"x = {n}\n" for n in range(MAX_LOADED + 1)}
    assert unread(judge("pytest", files))
    files.popitem()
    assert not unread(judge("pytest", files))
    assert unread(judge("pytest", {}, blind=True))


@pytest.mark.parametrize(
    "command",
    [
        "sed -i 1d src/a.py; pytest", "python3 -c \"open('a.py', 'w').write(open('n').read())\"; pytest",
        "git stash pop && pytest", "git checkout other; make", "cp -r n tests; pytest", "sort -o package.json n; npm test",
        "for f in 1 2; do pytest; sort -o a.py n; done", "cp n n2; mv n2 tests/conftest.py; pytest",
    ],
)  # fmt: skip
def test_what_the_same_action_changes_in_a_way_that_is_not_known_is_unread(command: str) -> None:
    assert unread(judge(command, {})), command


@pytest.mark.parametrize(
    "command", ["(sleep 1; sort -o conftest.py n) &", "{ sleep 9; cp n src/a.js; } & ls", "sed -i 1d a.py & true"]
)
def test_code_that_comes_later_is_unread(command: str) -> None:
    assert unread(judge(command, {})), command


@pytest.mark.parametrize(
    "command",
    [
        "sort -o conftest.py n", "sort -o out.txt n &", "pytest; sed -i 1d src/a.py", "black src && pytest", "git checkout -b other; pytest", "pytest > log", "ls | tee out; make",
        "git reset -q HEAD; pytest", "mkdir tests; pytest", "cp a.py b.py; pytest", "git add . && git commit -m x && pytest",
    ],
)  # fmt: skip
def test_other_changes_are_none(command: str) -> None:
    assert not unread(judge(command, {"a.py": "x = 1\n"})), command


@pytest.mark.parametrize("command", ["ruff check src", "python3 -m ruff check", "ruff format", "isort src"])
def test_settings_are_loaded_by_what_loads_no_code(command: str) -> None:
    files = {"src/ruff.toml": 'cache-dir = "/srv/x"\n', "conftest.py": HARM, "a.js": "x"}
    program = judge(command, files)
    assert ("write", "/srv/x") in [(e.kind, e.operand) for c in program.commands for e in c.effects]
    assert not deletes(program)
    assert not unread(program)
    assert unread(judge(f"sort -o ruff.toml n; {command}", {}))
    assert unread(judge(command, {}, blind=True))


@pytest.mark.parametrize(
    "change", ["git checkout other", "cp -r a b", "sed -i 1d src/a.py", "sort -o a.py n", "cp a.py src"]
)
def test_other_changes_are_none_where_only_settings_are_loaded(change: str) -> None:
    assert not unread(judge(f"{change}; ruff check", {"a.py": "x = 1\n"}))


@pytest.mark.parametrize("command", ["coverage report", "coverage html -d out", "coverage combine; coverage report"])
def test_reports_load_plugins(command: str) -> None:
    assert deletes(judge(command, {"evil.py": HARM}))
    assert not unread(judge(f"coverage run -m pytest; {command}", {}))


def test_a_copy_is_judged_under_its_new_name() -> None:
    assert deletes(judge("cp notes conftest.py; pytest", {"notes": HARM}))
    assert not unread(judge("cp a.py tests; pytest", {"a.py": "x = 1\n"}))


SHADOWS = {"json.py": "import os; os.remove('/srv/x')", "sub/random.py": "import os; os.remove('/srv/x')"}


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c 'import json'",
        "python3 -c 'import tempfile'",
        "python3 -c 'print(1)'",
        "python3 -m pip list",
        "python3 <<< 'import random'",
        "python3 x.py",
        "python3 sub/x.py",
        "cd sub && python3 -c 1",
        "PYTHONPATH=/p/sub python3 -c 1",
    ],
)
def test_modules_that_python_would_load_instead_of_its_own_are_judged(command: str) -> None:
    assert deletes(judge(command, SHADOWS))


@pytest.mark.parametrize("command", ["python3 -I -c 'import json'", "ls", "cd elsewhere; node x.js"])
def test_where_python_does_not_look_they_are_not(command: str) -> None:
    assert not deletes(judge(command, SHADOWS))


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"open('json.py', 'w').write(open('n').read()[::-1])\"; python3 -c 1",
        "cp n json.py; python3 -c 1",
        "cp n json/__init__.py; python3 -m pip list",
        "cp n sitecustomize.py && python3 -c 1",
    ],
)
def test_modules_of_such_names_that_the_action_makes_are_unread(command: str) -> None:
    assert unread(judge(command, {}))


def test_modules_of_such_names_that_are_known_are_not() -> None:
    assert not unread(judge("echo 'x = 1' > json.py; python3 -c 'import json'", {}))


CACHE = "cache-dir = '/srv/x'\n"


def writes(program: Program) -> bool:
    return any(e.kind == "write" and e.operand == "/srv/x" for c in program.commands for e in c.effects)


@pytest.mark.parametrize(
    ("command", "name", "text"),
    [
        ("ruff check", "ruff.toml", CACHE),
        ("ruff check src", "src/deep/.ruff.toml", CACHE),
        ("ruff format --check .", "pyproject.toml", f"[tool.ruff]\n{CACHE}"),
        ("python3 -m ruff check", "src/ruff.toml", CACHE),
        ("hugo build", "config.toml", "publishDir = '/srv/x'\n"),
        ("gcovr", "gcovr.cfg", "output = /srv/x\n"),
        ("doxygen", "Doxyfile", "OUTPUT_DIRECTORY = /srv/x\n"),
        ("hatch run test", "hatch.toml", '[envs.default.scripts]\ntest = "touch /srv/x"\n'),
        ("uv run ls", "pyproject.toml", '[tool.pdm.scripts]\npost_test = "touch /srv/x"\n'),
    ],
)
def test_settings_that_differ_are_judged_where_a_program_looks_for_them(command: str, name: str, text: str) -> None:
    found = judge(command, {name: text})
    assert any(e.operand == "/srv/x" for c in found.commands for e in c.effects), command
    assert not unread(judge(command, {"src/b.txt": text}))


@pytest.mark.parametrize(
    "command",
    [
        "sort -o ruff.toml n; ruff check",
        "sort -o src/ruff.toml n; ruff check src",
        "awk '{print > \"ruff.toml\"}' n; ruff format --check",
        "git checkout -q other -- ruff.toml; ruff check",
        "sort -o Doxyfile n; doxygen",
        "sort -o hatch.toml n; hatch run test",
        "sort -o .proverc n; prove",
        "sort -o phpunit.xml n; phpunit",
        "sort -o dune n; dune build",
        "sort -o gcovr.cfg n; gcovr",
    ],
)
def test_settings_that_the_action_brings_in_another_way_are_unread(command: str) -> None:
    assert unread(judge(command, {})), command


@pytest.mark.parametrize(
    "command",
    [
        "ruff check . > out", "sort -o names n; ruff check", "sed -i 1d src/a.py; ruff check", "mv a.py src; ruff check",
        "mv src/a src/b; ruff check", "ruff check --fix .; ruff format .", "ruff --version", "coverage html",
        "git checkout -q -b other; ruff check", "mkdir d; ruff check", "sort -o ruff.toml n; ruff --version",
    ],
)  # fmt: skip
def test_what_brings_no_settings_leaves_them_known(command: str) -> None:
    assert not unread(judge(command, {"a.py": "x = 1\n", "src/a.js": "f()"})), command


def test_a_folder_with_settings_that_is_moved_makes_them_unread() -> None:
    known = "line-length = 100\n"
    assert unread(judge("mv d src; ruff check src", {"d/e/ruff.toml": known}))
    assert not unread(judge("mv d src; ruff check src", {"e/ruff.toml": known, "d/a.py": "x = 1\n"}))


def test_where_nobody_can_look_for_settings_they_are_unread() -> None:
    assert unread(judge("ruff check", {}, blind=True))
    assert not unread(judge("ls; cat a", {}, blind=True))


@pytest.mark.parametrize(
    ("tasks", "text", "command"),
    [
        ("Makefile", "all:\n\tpytest -c cfg.conf\n", "make"),
        ("Makefile", "CFG = cfg.conf\nall:\n\tpytest -c $(CFG)\n", "make"),
        ("tox.ini", "[testenv]\ncommands = pytest -c {toxinidir}/cfg.conf\n", "pytest"),
        ("package.json", '{"scripts": {"test": "pytest --config-file=cfg.conf"}}', "make"),
        ("ruff.toml", "extend = 'cfg.conf'\n", "ruff check"),
    ],
)
def test_settings_that_tasks_of_the_project_mention_are_judged(tasks: str, text: str, command: str) -> None:
    class Own(Changed):
        def read(self, path: str) -> Source | None:
            found = super().read(path)
            return found if found is None or path != f"/p/{tasks}" else replace(found, project=True)

    def judged(name: str) -> Program:
        reader = Own({f"/p/{tasks}": text, f"/p/{name}": "[pytest]\naddopts = --junitxml=/srv/x\ncache_dir = /srv/x\n"})
        reader._paths = [f"/p/{name}"]
        return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)

    assert writes(judged("cfg.conf"))
    assert not writes(judged("other.conf"))


def test_a_file_of_arguments_that_tasks_name_is_unread() -> None:
    files = {"Makefile": "all:\n\truff check @args\n", "args": "src\n"}
    assert unread(judge("npm test", files))
    assert not unread(judge("npm test", {**files, "Makefile": "all:\n\t@args\n"}))


TOLD = [
    "webpack -c notes.txt",
    "webpack --config=notes.txt",
    "rollup -c notes.txt",
    "vite build --config notes.txt",
    "jest --reporters default ./notes.txt",
    "mocha -r notes",
    "cypress run --config video=false,supportFile=notes.txt",
    "npm test -- --globalSetup=notes.txt",
    "npm run build -- -c ./notes.txt",
    "yarn test notes.txt",
    "CONFIG=notes.txt make",
    "webpack -c note?.txt",
    "npm test -- --globalSetup=*.txt",
    "for f in *.txt; do npm test -- $f; done",
    "X=$(cat name); npm test -- $X",
    "export CONFIG='notes.txt'; npm test",
    "go test -exec ./notes.txt ./...",
    "cargo test --config sub/../notes.txt",
    "madge --webpack-config notes.txt src",
]


@pytest.mark.parametrize("command", TOLD)
def test_a_file_of_any_name_that_a_tool_is_told_is_unread(command: str) -> None:
    name = "notes" if command.endswith("notes") else "notes.txt"
    assert unread(judge(command, {name: "f()\n"})), command
    assert unread(judge(f"cat > {name} <<'END'\nf()\nEND\n{command}", {})), command


@pytest.mark.parametrize(
    "command", ["webpack -c notes.txt", "npm test -- --globalSetup=notes.txt", "yarn test notes.txt"]
)
def test_what_stood_there_before_stays_the_projects_own(command: str) -> None:
    assert not unread(judge(command, {"other.txt": "f()\n"})), command


@pytest.mark.parametrize(
    "command",
    [
        "go run . notes.md",
        "cargo run -- --config notes.md",
        "npx prettier --check notes.md",
        "eslint notes.md",
        "npm test -- -t notes",
        "jest --outputFile=notes.md",
        "x=notes.md; npm test > $x",
    ],
)
def test_what_a_tool_only_reads_or_writes_is_no_code(command: str) -> None:
    assert not unread(judge(command, {"notes.md": "hello\n"})), command
