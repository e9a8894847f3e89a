"""Files of arguments: their words count as if they stood in the command."""

import pytest

from humanlayer_agent.shell import Program, analyse
from humanlayer_agent.shell.disk_reader import GivenReader


def judge(command: str, **files: str) -> Program:
    reader = GivenReader({f"/p/{name}": text for name, text in files.items()})
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)


def effects(program: Program) -> set[tuple[str, str | None]]:
    return {(e.kind, e.operand) for command in program.commands for e in command.effects}


def known(program: Program) -> bool:
    return all(command.resolved for command in program.commands)


@pytest.mark.parametrize(
    ("command", "text", "effect"),
    [
        ("mypy @args", "--junit-xml=/srv/x\nsrc\n", ("write", "/srv/x")),
        ("python3 -m mypy @args", "--junit-xml\n/srv/x\n", ("write", "/srv/x")),
        ("ruff check @args", "--output-file=/srv/a b\n", ("write", "/srv/a b")),
        ("ruff @args", "format\n/srv/x\n", ("write", "/srv/x")),
        ("ruff check --output-file @args", "/srv/x\n", ("write", "/srv/x")),
        ("pytest -k @args", "name\n--junitxml=/srv/x\n", ("write", "/srv/x")),
        ("gcc @args", "-o '/srv/a b' a.c", ("write", "/srv/a b")),
        ("gcc a.c -o @args", "/srv/x", ("write", "/srv/x")),
        ("objcopy @/p/args", "a.o /srv/x", ("write", "/srv/x")),
        ("tsc @args", '--outDir "/srv/x"', ("write", "/srv/x")),
        ("7z a x.7z @args", "/srv/x\n", ("read", "/srv/x")),
        ("f=@args; ruff check $f", "--output-file=/srv/x\n", ("write", "/srv/x")),
        ("ruff check @{args,b}", "--output-file=/srv/x\n", ("write", "/srv/x")),
    ],
)
def test_the_words_of_the_file_count(command: str, text: str, effect: tuple[str, str]) -> None:
    found = effects(judge(command, args=text, b="src\n"))
    assert effect in found, found
    assert ("read", "/p/args") in found


@pytest.mark.parametrize(
    "command", ["mypy @args", "ruff check @args", "ruff check src @args", "pytest @args", "pylint src"]
)
def test_harmless_words_leave_the_command_known(command: str) -> None:
    assert known(judge(command, args="src\ntests\n"))


@pytest.mark.parametrize(
    "command",
    [
        "ruff check @missing", "ruff check @b", "ruff check @a*", 'ruff check "@$X"', "ruff check @/dev/stdin < args",
        "ruff check @<(cat args)", "echo src > args; ruff check @args", "sort -o args b; ruff check @args",
        "ruff check @args; mv b args", "gcc @quote", "pytest @many",
    ],
)  # fmt: skip
def test_what_is_not_read_leaves_the_command_in_doubt(command: str) -> None:
    files = {"args": "src\n", "b": "@args\n", "quote": "'a", "many": "a\n" * 600}
    assert not known(judge(command, **files)), command


@pytest.mark.parametrize("command", ["black @args", "echo @args", "npm view @types/node", "pylint -f json src"])
def test_other_programs_take_such_a_word_as_it_is(command: str) -> None:
    assert ("read", "/p/args") not in effects(judge(command, args="--x\n"))
