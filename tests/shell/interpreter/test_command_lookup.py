"""What a name means: function, builtin, program, path, several of them, or nothing that is known."""

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.program import SimpleCommand


def commands(text: str) -> list[SimpleCommand]:
    return analyse(text, cwd="/p", environ={}).commands


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("rm a", ["rm"]),
        ("/bin/rm a", ["rm"]),
        ("/usr/bin/../bin/rm a", ["/usr/bin/../bin/rm", "rm"]),
        ("./rm a", ["./rm"]),
        ("./bash -c 'rm a'", ["./bash", "bash", "rm"]),
        (".venv/bin/python -c 'import os; os.system(\"rm a\")'", [".venv/bin/python", "python", "rm"]),
        ("/opt/x/python3.99 -m pytest", ["/opt/x/python3.99", "python"]),
        ("./env -i rm a", ["./env", "env", "rm"]),
        ("./pythonic a", ["./pythonic"]),
        ("/lib64/ld-linux-x86-64.so.2 /bin/rm a", ["/lib64/ld-linux-x86-64.so.2", "ld.so", "rm"]),
        ("./ld a.o", ["./ld"]),
        ("parallel -j2 rm {} ::: a b", ["parallel", "rm", "rm"]),
        ("parallel ::: 'rm a' ls", ["parallel", "rm", "ls"]),
        ("echo a | parallel rm", ["echo", "parallel", "rm"]),
        ("sed '1e rm a' b", ["sed", "rm"]),
        ("\\rm a", ["rm"]),
        ("'r'm a", ["rm"]),
        ("{a,rm} b", ["a"]),
        ("$x rm", [None]),
        ('"" rm', [""]),
        ("command -v rm", ["command"]),
        ("command -pv rm", ["command"]),
        ("command -p rm a", ["command", "rm"]),
        ("exec -a x rm a", ["exec", "rm"]),
        ("exec -cl rm a", ["exec", "rm"]),
        ("builtin eval rm a", ["builtin", "eval", "rm"]),
        ("rm() { :; }; command rm a", ["command", "rm", ":"]),
        ("rm() { :; }; exec rm a", ["exec", "rm", ":"]),
        ("rm() { :; }; timeout 5 rm a", ["timeout", "rm", ":"]),
        ("rm() { :; }; command eval rm a", ["command", "eval", "rm", ":"]),
        ("command -- rm a", ["command", "rm"]),
    ],
)
def test_programs(text: str, programs: list[str | None]) -> None:
    assert [c.program for c in commands(text)] == programs


def test_each_name_that_may_run_is_listed() -> None:
    found = commands("c=ls; [ x ] && c=rm; $c a")[3:]
    assert [(c.program, [e.kind for e in c.effects]) for c in found] == [("rm", ["delete"]), ("ls", ["read"])]


@pytest.mark.parametrize("text", ["nosuch a", "./x", "$x", "*", "env $x rm a", "command $x rm a"])
def test_unknown_programs_are_not_resolved(text: str) -> None:
    assert not all(c.resolved for c in commands(text))


@pytest.mark.parametrize("wrapper", ["timeout 5", "nice -n 5", "nohup", "env A=1", "sudo", "command", "stdbuf -oL"])
def test_what_a_wrapper_runs(wrapper: str) -> None:
    found = commands(f"{wrapper} rm -rf /a")
    assert [e.operand for e in found[-1].effects] == ["/a"]
    assert found[-1].via == (wrapper.split()[0],)


@pytest.mark.parametrize("wrapper", ["sudo", "env -i", 'env -u "$y"', "doas"])
def test_wrappers_that_change_the_environment(wrapper: str) -> None:
    found = commands(f"export x=/a; {wrapper} bash -c 'rm $x'")
    assert [(e.operand, e.resolved) for e in found[-1].effects] == [(None, False)]


def test_parameters_after_a_word_of_unknown_number_are_not_known() -> None:
    found = commands("bash -c 'rm \"$1\"' $x a /")
    assert [(e.operand, e.resolved) for e in found[-1].effects] == [(None, False)]
    found = commands('bash -c \'rm "$1"\' "$x" a /')
    assert [(e.operand, e.resolved) for e in found[-1].effects] == [("/p/a", True)]
