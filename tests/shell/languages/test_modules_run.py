"""python -m: modules of the standard library with effects of their own, and modules and directories of the project."""

import posixpath

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.program import Program

HARM = "import os\nos.remove('/srv/x')\n"


def look(command: str, files: dict[str, str] | None = None, tracked: tuple[str, ...] = ()) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [f"/p/{t}" for t in tracked])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)


def effects(program: Program) -> set[str]:
    out = set()
    for each in (e for c in program.commands for e in c.effects if e.role != "import"):
        operand = each.pattern or each.operand or ""
        shown = posixpath.relpath(operand, "/p") if (operand + "/").startswith("/p/") else operand
        out.add("!" * each.unread + "?" * (not each.resolved) + f"{each.kind} {shown}")
    return out


def certain(program: Program) -> bool:
    return program.status == "ok" and all(c.resolved for c in program.commands)


@pytest.mark.parametrize(
    ("command", "files", "expected"),
    [
        ("python -m a", {"a.py": HARM}, {"execute a.py", "delete /srv/x"}),
        ("python3 -m a.b x", {"a/b.py": HARM}, {"execute a/b.py", "delete /srv/x"}),
        ("python -m a", {"a/__main__.py": HARM}, {"execute a/__main__.py", "delete /srv/x"}),
        ("python -m a", {"a/__init__.py": HARM, "a/__main__.py": "x = 1\n"},
         {"execute a/__init__.py", "execute a/__main__.py", "delete /srv/x"}),
        ("python -m a.b", {"a/__init__.py": HARM, "a/b.py": "x = 1\n"}, {"execute a/__init__.py", "execute a/b.py", "delete /srv/x"}),
        ("python -um a", {"a.py": HARM}, {"execute a.py", "delete /srv/x"}),
        ("cd d && python -m a", {"d/a.py": HARM}, {"execute d/a.py", "delete /srv/x"}),
        ("python -m pytest -q", {"pytest.py": HARM}, {"execute .", "execute pytest.py", "delete /srv/x"}),
        ("python -m json.tool", {"json/__init__.py": HARM}, {"execute .", "execute json/__init__.py", "delete /srv/x"}),
        ("python -m cProfile a.py", {"a.py": HARM}, {"execute .", "execute a.py", "delete /srv/x"}),
        ("python -m cProfile -m a", {"a.py": HARM}, {"execute .", "execute a.py", "delete /srv/x"}),
        ("python -m trace --count a.py", {"a.py": HARM}, {"execute .", "execute a.py", "delete /srv/x", "?write ."}),
        ("python -m pdb a.py", {"a.py": HARM}, {"execute interactive code", "execute a.py", "delete /srv/x"}),
        ("coverage run -m a", {"a.py": HARM}, {"execute a.py", "delete /srv/x"}),
        ("python d", {"d/__main__.py": HARM}, {"execute d", "delete /srv/x"}),
        ("python ./d/ x", {"d/__main__.py": HARM}, {"execute d", "delete /srv/x"}),
        ("python .", {"__main__.py": HARM}, {"execute .", "delete /srv/x"}),
        ("python manage.py test", {"manage.py": HARM}, {"execute manage.py", "delete /srv/x"}),
        ("echo 'import os; os.remove(\"/srv/x\")' > a.py; python -m a", {}, {"write a.py", "execute a.py", "delete /srv/x"}),
        ("python -m timeit -s 'import os' 'os.remove(\"/srv/x\")'", {}, {"execute .", "delete /srv/x"}),
        ("python -m timeit -n1 -r1 'import os; os.remove(\"/srv/x\")'", {}, {"execute .", "delete /srv/x"}),
    ],
)  # fmt: skip
def test_code_that_is_run(command: str, files: dict[str, str], expected: set[str]) -> None:
    found = effects(look(command, files))
    assert expected <= found, found
    assert not any(e.startswith("!") for e in found), found


@pytest.mark.parametrize(
    ("command", "tracked", "expected"),
    [
        ("python -m a", ("a.py",), {"execute a.py"}),
        ("python -m a", ("a/__init__.py", "a/__main__.py"), {"execute a/__init__.py", "execute a/__main__.py"}),
        ("python d", ("d/__main__.py",), {"execute d"}),
        ("python manage.py migrate", ("manage.py",), {"execute manage.py"}),
    ],
)
def test_code_of_the_project(command: str, tracked: tuple[str, ...], expected: set[str]) -> None:
    program = look(command, {}, tracked)
    assert effects(program) == expected
    assert certain(program)
    assert {e.role for c in program.commands for e in c.effects} == {"project"}


@pytest.mark.parametrize(
    "command",
    [
        "python -m frobnicate", "python -m a.b", "python -m $X", "python d", "python x.zip", "python -m timeit \"$X\"", "python -m timeit 'exec(x)'",
        "python -m cProfile gone.py", "python -m pdb -c 'x' a.py", "curl -o a.py http://example.org; python -m a", "python -m ..x", "coverage run -m gone",
    ],
)  # fmt: skip
def test_what_can_not_be_told(command: str) -> None:
    program = look(command, {"a.py": "x = 1\n"})
    assert not certain(program) or any(e.startswith("!") for e in effects(program))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python -m http.server 8000 -d d", {"execute .", "read d", "listen server"}),
        ("python -m smtpd -n localhost:25", {"execute .", "listen server"}),
        ("python -m json.tool a b", {"execute .", "read a", "write b"}),
        ("python -m venv /srv/v", {"write /srv/v"}),
        ("python -m zipfile -e a.zip /srv/d", {"execute .", "read a.zip", "?write /srv/d"}),
        ("python -m zipfile -c /srv/a.zip b c", {"execute .", "write /srv/a.zip", "read b", "read c"}),
        ("python -m zipfile -l a.zip", {"execute .", "read a.zip"}),
        ("python -m tarfile -e a.tar", {"execute .", "read a.tar", "?write "}),
        ("python -m tarfile --filter=data -e a.tar d", {"execute .", "read a.tar", "?write d"}),
        ("python -m tarfile -c a.tar b", {"execute .", "write a.tar", "read b"}),
        ("python -m gzip a", {"execute .", "read a", "write a.gz"}),
        ("python -m gzip -d /srv/a.gz", {"execute .", "read /srv/a.gz", "write /srv/a"}),
        ("python -m compileall -q src", {"execute .", "write src"}),
        ("python -m pydoc -p 8000", {"execute .", "listen port"}),
        ("python -m pydoc json", {"execute .", "execute json"}),
        ("python -m ensurepip", {"package install"}),
        ("python -m pip install x", {"package install", "package x"}),
        ("python -m platform", {"execute ."}),
        ("python -m calendar", {"execute ."}),
        ("python -m webbrowser https://example.org", {"execute .", "network example.org", "network another machine"}),
        ("python -m sphinx.cmd.build -b html d o", {"execute .", "execute d", "write o"}),
        ("python -m flask run", {"execute .", "listen 127.0.0.1"}),
        ("python -m unittest -v", {"execute ."}),
        ("python -m doctest a.py", {"execute .", "execute a.py"}),
        ("python -m asyncio", {"execute interactive code"}),
    ],
)  # fmt: skip
def test_modules_with_effects_of_their_own(command: str, expected: set[str]) -> None:
    assert effects(look(command)) == expected


def test_harmless_modules_are_certain() -> None:
    for command in (
        "python -m json.tool a",
        "python -m timeit '1 + 1'",
        "python -m timeit -s 'x = 1' 'x + 1'",
        "python -m this",
    ):
        assert certain(look(command)), command


def test_the_search_path_that_the_action_gives() -> None:
    assert "delete /srv/x" in effects(look("PYTHONPATH=src python -m a", {"src/a.py": HARM}))


def test_a_module_that_runs_itself_ends() -> None:
    text = "import os\nos.system('python -m a')\nos.remove('/srv/x')\n"
    assert "delete /srv/x" in effects(look("python -m a", {"a.py": text}))
