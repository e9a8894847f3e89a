"""Files that a shell or Python reads its program from on standard input: their text is judged."""

import pytest

from humanlayer_agent.shell import Program, analyse
from humanlayer_agent.shell.disk_reader import GivenReader

FILES = {
    "/p/good": "echo hi > out.txt\n",
    "/p/bad": "rm -rf /srv/x\n",
    # What head leaves begins with what is data to a shell that reads the file from its beginning.
    "/p/shifted": "head -1 > /dev/null\ncat <<X\nrm -rf /srv/x\nX\n",
    "/p/early": "exit\nrm -rf /srv/x\n",
    "/p/good.py": "open('out.txt', 'w').write('x')\n",
    "/p/bad.py": "import os; os.remove('/srv/x')\n",
    "/p/list": "a b\n",
}


def judged(command: str) -> Program:
    return analyse(command, cwd="/p", environ={"HOME": "/h"}, reader=GivenReader(FILES))


def is_known(command: str) -> bool:
    program = judged(command)
    commands = program.commands
    return (
        program.status == "ok"
        and all(each.resolved for each in commands)
        and not any(e.unread for each in commands for e in each.effects)
    )


def deletes(command: str) -> bool:
    return any(e.kind == "delete" and e.operand == "/srv/x" for c in judged(command).commands for e in c.effects)


@pytest.mark.parametrize(
    "command",
    [
        "bash < good",
        "cat good | sh",
        "env bash < good",
        "bash -s a b < ./good",
        "python3 < good.py",
        "cat good.py | python3 -",
    ],
)
def test_what_can_be_read_is_known(command: str) -> None:
    assert is_known(command)
    assert not deletes(command)
    assert deletes(command.replace("good", "bad"))


@pytest.mark.parametrize(
    "command",
    [
        "bash < shifted",
        "cat shifted | bash",
        "find . -exec bash \\; < early",
        "find . -exec head -1 \\; -exec bash \\; < shifted",
        "find . -exec head -1 \\; -exec bash \\; <<< $'cat <<X\\nrm -rf /srv/x\\nX'",
        "xargs -a list -n1 bash < early",
        "{ bash; bash; } < early",
        "(bash; bash) < early",
        "eval 'bash; bash' < early",
        "sh -c 'bash; bash' < early",
        "f() { bash; bash; }; f < early",
        "for i in 1 2; do bash; done < early",
        "exec < early; bash; bash",
        "watch bash < early",
        "cp bad good; bash < good",
        "cp bad good & bash < good",
        "bash < good; sort -o good bad",
        "cat good bad | sh",
        "cat good - | sh",
        "cat good | tr a-z b-y | sh",
        "bash < missing",
        'bash < "$X"',
        "bash <> good",
        "node < good",
    ],
)
def test_what_can_not_is_asked_about(command: str) -> None:
    assert not is_known(command)


@pytest.mark.parametrize(
    "command",
    [
        "base64 -d x > a.rst && rst2html a.rst",
        "base64 -d x > new.rst && rst2html new.rst",
        "base64 -d x > b.rst && rst2html a.rst",
        "cp x a.rst && rst2html a.rst",
        "base64 -d x > a.c && gcc -E a.c",
        "base64 -d x > a.h && gcc -E a.c",
        "gcc -E a.c -o a.h && gcc -E a.c",
        "for i in 1 2; do gcc -E a.c -o a.h; done",
        "base64 -d x > a.toml && ruff check --config a.toml",
    ],
)
def test_what_the_same_command_wrote_and_nobody_can_read_is_unread(command: str) -> None:
    assert not resolved(command)


@pytest.mark.parametrize(
    "command", ["rst2html a.rst", "gcc -E a.c", "gcc -c a.c -o a.o && gcc -E a.c", "ruff check --config a.toml"]
)
def test_what_stands_there_is_read(command: str) -> None:
    assert resolved(command)


def resolved(command: str) -> bool:
    files = {"a.rst": ".. include:: b.rst\n", "b.rst": "x\n", "a.c": '#include "a.h"\n', "a.h": "\n", "a.toml": ""}
    reader = GivenReader({f"/p/{name}": text for name, text in files.items()})
    program = analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)
    return all(each.resolved for each in program.commands if each.program in ("rst2html", "gcc", "ruff"))
