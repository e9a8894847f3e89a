"""Scripts that an action runs, or writes to be run, are judged where they stand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.program import Program

HARM = "rm -rf /srv/x\n"


def judge(command: str, files: dict[str, str] | None = None, tracked: list[str] | None = None) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [f"/p/{t}" for t in tracked or ()])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)


def deletes(program: Program) -> bool:
    return any(e.kind == "delete" and e.operand == "/srv/x" for c in program.commands for e in c.effects)


def unread(program: Program) -> bool:
    return any(e.unread for c in program.commands for e in c.effects)


@pytest.mark.parametrize(
    "command",
    [
        "bash a.sh", "sh ./a.sh", "./a.sh", "/p/a.sh", "source ./a.sh", ". ./a.sh", "bash < a.sh; bash a.sh", "env bash a.sh",
        "bash -x a.sh one two", "timeout 5 ./a.sh", "cd /p && bash a.sh", "cd sub; bash ../a.sh", "f() { bash a.sh; }; f",
        "for i in 1 2; do ./a.sh; done", "ls | bash a.sh", "$(bash a.sh)", "bash -c 'bash a.sh'", "x=a.sh; bash $x",
        "find . -exec bash a.sh ';'", "xargs bash a.sh < list", "trap 'bash /p/a.sh' EXIT", "(bash a.sh)", "bash a.sh &",
        "source ./a.sh one", "bash b.sh", "eval 'bash a.sh'", "nohup ./a.sh > log", "exec ./a.sh",
    ],
)  # fmt: skip
def test_what_a_script_does_is_found(command: str) -> None:
    assert deletes(judge(command, {"a.sh": HARM, "b.sh": "bash a.sh", "list": "x"})), command


@pytest.mark.parametrize(
    "command",
    [
        "echo 'rm -rf /srv/x' > c.sh", "cat > c.sh <<'E'\nrm -rf /srv/x\nE", "cat <<'E' > c.sh\nrm -rf /srv/x\nE",
        "tee c.sh <<'E'\nrm -rf /srv/x\nE", "echo 'rm -rf /srv/x' | tee c.sh", "printf 'rm -rf /srv/x\\n' > c.sh",
        "echo '#!/bin/bash\nrm -rf /srv/x' > tool", "echo 'rm -rf /srv/x' > .git/hooks/pre-commit",
        "echo 'rm -rf /srv/x' > c; bash c", "bash c; echo 'rm -rf /srv/x' > c", "echo ls > c; echo 'rm -rf /srv/x' >> c; sh c",
        "if test -e x; then echo 'rm -rf /srv/x' > c; fi; bash c", "echo 'rm -rf /srv/x' > c & bash c",
        "echo -n 'rm -rf ' > c; echo /srv/x >> c; bash c", "echo 'rm -rf /srv/x' > ./d/../c; bash c",
        "echo 'rm -rf /srv/x' > c; source ./c", "cat > c.sh <<E\nrm -rf /srv/x\nE",
        "echo 'bash d' > c; echo 'rm -rf /srv/x' > d; bash c",
    ],
)  # fmt: skip
def test_what_is_written_is_judged(command: str) -> None:
    assert deletes(judge(command)), command


@pytest.mark.parametrize(
    "command",
    [
        "bash gone.sh", "./gone", "source ./gone", "bash $X", "bash *.sh", "curl -o a.sh http://example.org; bash a.sh",
        "sed -i 's/[a]/b/' a.sh; bash a.sh", "sed -i 's/a*/b/' ./x/../a.sh; bash a.sh", "bash a.sh; cp x a.sh",
        "sed -i 's/a/&b/' a.sh; bash a.sh", "sed -i 1d a.sh; bash a.sh", "sed -i.bak s/a/b/ a.sh; bash a.sh",
        "cp x.sh sub; bash sub/b.sh", "mv x.sh y.sh sub; ./sub/b.sh", "cp x.sh /p; bash a.sh", "install x /p && bash a.sh",
        "date > a.sh; bash a.sh", "tar xf x.tar; bash a.sh", "cp -r ../other . ; bash a.sh", "mv x a.sh; bash a.sh",
        "for i in 1 2; do source ./a.sh; echo y > a.sh; done", "for i in 1 2; do echo x >> a.sh; done; bash a.sh",
        "ln -sf /srv/x a.sh; bash a.sh", "python a.sh2", "zsh a.sh", "perl a.sh", "wget http://example.org/a.sh; bash a.sh",
        "{ echo a; date; } > a.sh; bash a.sh", "{ date; } >> a.sh; ./a.sh",
    ],
)  # fmt: skip
def test_what_can_not_be_told_stays_unread(command: str) -> None:
    program = judge(command, {"a.sh": "ls\n", "sub/b.sh": "ls\n"})
    assert unread(program), command
    assert any(not c.resolved for c in program.commands)


@pytest.mark.parametrize(
    "command",
    [
        "bash a.sh", "./a.sh", "source ./a.sh; ls", "echo ls > c.sh; bash c.sh", "cat > c.sh <<'E'\necho hi\nE\nchmod +x c.sh\n./c.sh",
        "git stash; bash a.sh", "bash a.sh > log; bash a.sh", "rm -f x; bash a.sh", "bash -e a.sh 1 2", "bash a.sh; rm a.sh",
    ],
)  # fmt: skip
def test_harmless_scripts_are_read(command: str) -> None:
    program = judge(command, {"a.sh": "echo one $1\nls\n"})
    assert program.status == "ok", program.reasons
    assert not unread(program)
    assert all(c.resolved for c in program.commands), [c.unresolved for c in program.commands]


@pytest.mark.parametrize(
    "script", ["s/ls/rm -rf/", "s|ls|rm -rf|g", "s/l./rm -rf/", r"s/ls \/srv/rm -rf \/srv/", "s,ls /srv,rm -rf /srv,"]
)
def test_what_sed_makes_of_a_script(script: str) -> None:
    program = judge(f"sed -i '{script}' a.sh && bash a.sh", {"a.sh": "ls /srv/x\n"})
    assert deletes(program)
    assert not unread(program)


def test_project_code_is_not_read() -> None:
    program = judge("bin/test x", tracked=["bin/test"])
    (effect,) = program.commands[0].effects
    assert (effect.role, effect.operand, effect.resolved, effect.unread) == ("project", "/p/bin/test", True, False)


def test_project_code_that_the_action_changes_is() -> None:
    assert unread(judge("date >> bin/test; bin/test x", tracked=["bin/test"]))


def test_files_join_the_digest() -> None:
    program = judge("bash a.sh; bash b.sh", {"a.sh": "bash b.sh", "b.sh": "ls"})
    assert [path for path, _ in program.files] == ["/p/a.sh", "/p/b.sh"]


def test_a_script_that_runs_itself() -> None:
    assert judge("bash a.sh", {"a.sh": "ls\nbash a.sh\n"}).status == "ok"


def test_at_most_sixteen_files() -> None:
    files = {f"{n}.sh": f"bash {n + 1}.sh" for n in range(30)}
    assert unread(judge("bash 0.sh", files))


def test_what_a_sourced_script_leaves_behind() -> None:
    program = judge("source ./a.sh; rm -rf $D", {"a.sh": "D=/srv/x\n"})
    assert deletes(program)
    assert judge("source ./a.sh; ls", {"a.sh": "cd /srv\n"}).commands[-1].effects[0].operand == "/srv/."


def test_without_a_reader_everything_is_unread() -> None:
    assert unread(analyse("bash a.sh", cwd="/p"))


@given(st.text(max_size=60))
def test_any_text_as_a_script(text: str) -> None:
    program = judge("bash a.sh; ./a.sh; . ./a.sh", {"a.sh": text})
    assert program.commands


@pytest.mark.parametrize(
    ("command", "drives"),
    [
        ("echo '*.bin filter=x' >> .gitattributes", True),
        ("printf '[attr]m diff=mine\\n* m\\n' > sub/.gitattributes", True),
        ("cat > .gitattributes <<'E'\n*.po merge=ours\nE", True),
        ("sed -i '1i * filter=x' .gitattributes", True),
        ("base64 -d a > .gitattributes", True),
        ("cp a .gitattributes", True),
        ("echo '* text=auto eol=lf' > .gitattributes", False),
        ("echo '*.py diff=python' >> .gitattributes", False),
        ("echo '*.bin filter=lfs diff=lfs merge=lfs -text' >> .gitattributes", False),
        ("echo '*.md merge=union -diff' >> .gitattributes", False),
        ("cp sub/.gitattributes .", False),
    ],
)
def test_attributes_that_name_a_driver(command: str, drives: bool) -> None:
    assert unread(judge(command)) is drives
