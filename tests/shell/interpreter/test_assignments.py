"""Every way in which bash assigns a variable without a command of that name is seen as a change of that variable."""

import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse

WAYS = [
    "printf -v PATH x", "printf -vPATH 11", "printf -v 'PATH[0]' 11", "read PATH <<< 11", "read -r x PATH <<< '1 11'",
    "read -a PATH <<< 11", "read -aPATH <<< 11", "read 'PATH[0]' <<< 11", "mapfile PATH <<< 11", "mapfile -t PATH <<< 11",
    "readarray PATH <<< 11", "getopts a PATH -a", "wait -p PATH", "coproc PATH { :; }", "for PATH in 11; do :; done",
    "select PATH in 11; do break; done <<< 1", "(( PATH=1 ))", "let PATH=1", "let x=PATH=1", ": $(( PATH=1 ))", ": $[ PATH=1 ]",
    "unset PATH; : ${PATH:=11}", "declare -n r=PATH; r=11", "f() { local -n r=PATH; r=11; }; f", "declare PATH=11",
    "declare -i PATH=11", "typeset PATH=11", "readonly PATH=11", "export PATH=11", "unset PATH", "exec {a[PATH=1]}</dev/null",
    "exec {PATH[0]}</dev/null", "x=${a[PATH=1]}", "a[PATH=1]=3", "x=abc; : ${x:PATH=1}", "x=abc; : ${x:0:PATH=1}",
    "[[ PATH=1 -eq 1 ]]", "[[ -v a[PATH=1] ]]", "test -v 'a[PATH=1]'", "printf -v 'a[PATH=1]' x", "read 'a[PATH=1]' <<< x",
    "declare -i x=PATH=1", "declare -i x; x=PATH=1", "a=([PATH=1]=x)", "declare -a a=([PATH=1]=x)", "declare 'a[PATH=1]=x'",
    "for ((PATH=1; PATH<2; PATH++)); do :; done", "PATH+=1", "PATH=1", "PATH=(1)", "PATH[0]=1", "x=1 PATH=1", "eval PATH=1",
    "while read PATH; do :; done <<< 11", "shopt -s lastpipe; echo 11 | read PATH", "OPTIND=PATH=1", "RANDOM=PATH=1",
    "x=PATH=1; (( x ))", "x=PATH=1; : ${a[x]}", "exec {PATH}</dev/null", "declare -n r=PATH; exec {r}</dev/null",
    "exec 3</dev/null {PATH}<&3", "command exec {PATH}</dev/null", "eval ': {PATH}</dev/null'", "exec {PATH}<<E\nE",
]  # fmt: skip


@pytest.mark.sample(56)
@pytest.mark.parametrize("way", WAYS)
def test_what_sets_a_variable_is_seen(way: str, tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", f'{way}\necho "<${{PATH-}}>"'], cwd=tmp_path, env={"PATH": "/bin"},
        capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False,
    )  # fmt: skip
    assert "</bin>" not in done.stdout.decode().splitlines()
    program = analyse(way, cwd=str(tmp_path), environ={"PATH": "/bin"}, closed=True)
    seen = any(e.operand == "PATH" and e.kind == "environment" for c in program.commands for e in c.effects)
    assert seen or program.status != "ok" or not all(c.resolved for c in program.commands)


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "BASH_ENV", "ENV", "IFS", "HOME", "PYTHONPATH", "GIT_DIR", "PS4", "PROMPT_COMMAND"]
)
@pytest.mark.parametrize("form", ["exec {%s}<f", "exec {%s}>&1", "(: {%s}<<< x; :)", "f() { cd . {%s}<f; }; f"])
def test_a_descriptor_in_a_variable_that_selects_code(name: str, form: str) -> None:
    program = analyse(form % name, cwd="/p", environ={})
    assert [e.operand for c in program.commands for e in c.effects if e.kind == "environment"] == [name]


def test_a_variable_that_is_no_longer_given() -> None:
    """Without PATH a shell that is started takes its own, which ends with the current directory."""
    for text in ("export -n PATH", "declare +x PATH"):
        (command,) = analyse(text, cwd="/p", environ={"PATH": "/bin"}).commands
        assert [e.operand for e in command.effects if e.kind == "environment"] == ["PATH"]


HIDDEN = [
    "local PATH",
    "local -a PATH",
    "local -A PATH",
    "local -x PATH",
    "declare PATH",
    "typeset PATH",
    "declare -a PATH",
]


@pytest.mark.parametrize("declaration", HIDDEN)
def test_a_declaration_that_hides_a_variable(declaration: str, tmp_path: Path) -> None:
    """Without a value of PATH, bash looks for a program in the current directory."""
    (tmp_path / "canary").write_text("#!/bin/sh\necho sings\n")
    (tmp_path / "canary").chmod(0o755)
    text = f"f() {{ {declaration}; canary; }}; f"
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", text], cwd=tmp_path, env={"PATH": "/bin"}, capture_output=True,
        stdin=subprocess.DEVNULL, timeout=600, check=False,
    )  # fmt: skip
    program = analyse(text, cwd=str(tmp_path), environ={"PATH": "/bin"}, closed=True)
    assert done.stdout.decode() in ("sings\n", "")
    assert any(e.operand == "PATH" and e.kind == "environment" for c in program.commands for e in c.effects)


@pytest.mark.parametrize(
    "text", ["export {0}; {0}=./x", "export {0}; for {0} in ./x; do :; done", "export {0}; : {{{0}}}<f", "{0}=./x"]
)
def test_what_is_assigned_to_an_exported_variable_is_given(text: str) -> None:
    """npm takes its settings from names in any case; a variable that nobody exports reaches no program."""
    name = "Npm_config_script_shell"
    program = analyse(text.format(name), cwd="/p", environ={}, closed=True)
    seen = [e.operand for c in program.commands for e in c.effects if e.kind == "environment"]
    assert seen == ([] if text == "{0}=./x" else [name])


@pytest.mark.parametrize(
    ("start", "loses"),
    [
        ("env -i", True),
        ("env -u PATH", True),
        ("env -i HOME=/x timeout 600", True),
        ("exec -c", True),
        ("env -i PATH=/bin", False),
        ("env -u HOME", False),
        ("env", False),
        ("exec", False),
    ],
)
def test_a_shell_without_path_takes_its_own(start: str, loses: bool, tmp_path: Path) -> None:
    """bash's own ends with the current directory where it is built as upstream and Debian build it."""
    (tmp_path / "canary").write_text("#!/bin/sh\necho sings\n")
    (tmp_path / "canary").chmod(0o755)
    text = f"{start} bash -c canary"
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", text], cwd=tmp_path, env={"PATH": "/bin:/usr/bin", "HOME": "/"},
        capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=False,
    )  # fmt: skip
    assert loses or not done.stdout
    program = analyse(text, cwd=str(tmp_path), environ={"PATH": "/bin:/usr/bin"}, closed=True)
    lost = [e for c in program.commands for e in c.effects if (e.operand, e.value) == ("PATH", None)]
    assert bool(lost) is loses
