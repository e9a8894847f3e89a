"""Ways around the shipped rules that were open once: each is asked about or denied, and what looks like it is not."""

from functools import cache
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.path_patterns import Links, PathSet
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell import Effect, takes_all
from tests.support.rows import for_each

PROJECT, HOME = "/nowhere/project", "/home/somebody"


@cache
def director(policy: str, project: str) -> Director:
    return Director.load(policy, project=project, environ={"HOME": HOME})


def judged(command: str, policy: str = "default", project: str = PROJECT) -> tuple[str, tuple[str, ...]]:
    decision = director(policy, project).evaluate(Action(command, cwd=project))
    return str(decision.verdict), decision.rules


# ---- all that is in a vital directory -------------------------------------------------------------------

EMPTIES = [
    "rm -rf /*",
    "rm -rf ~/*",
    "rm -rf ~/.*",
    "rm -rf ~/.[!.]*",
    "rm -rf ~/{*,.*}",
    "rm -rf $HOME/*",
    'rm -rf "$HOME"/*',
    "rm -rf /home/*",
    "rm -rf /home/*/",
    "rm -rf /home/*/*",
    "rm -rf /home/bob/*",
    "rm -rf /???*",
    "rm -rf //*",
    "rm -rf /./*",
    "rm -rf /etc/../*",
    "cd / && rm -rf *",
    "cd ~; rm -rf .*",
    "sudo rm -rf --no-preserve-root /*",
    "bash -c 'rm -rf /*'",
    "x='/*'; rm -rf $x",
    "chmod -R 777 /*",
    "chown -R nobody ~/*",
    "shopt -s nullglob; rm -rf ~/*",
]


@pytest.mark.long
@for_each("policy", ["default", "strict", "ci", "sandbox", "guard"])
@for_each("command", EMPTIES)
def test_emptying_a_vital_directory_is_a_disaster(policy: str, command: str) -> None:
    assert judged(command, policy) == ("deny", judged(command, policy)[1])
    assert judged(command, policy)[1][0] == "disaster"


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf /srv/x/*",
        "rm -rf ~/x/*",
        "rm -rf ~/a*",
        "rm -rf ~/*.pyc",
        "rm -rf /[a-f]*",
        "rm -f ~/*",
        "rm -rf '/*'",
        "for d in / ~; do rm -rf $d/*; done",
        'rm -rf "$X"/*',
        "rm -rf /home/somebody/x/*",
    ],
)
def test_what_may_be_harmless_is_asked_about(command: str) -> None:
    verdict, rules = judged(command)
    assert (verdict, rules[0]) != ("deny", "disaster")
    assert judged(command)[0] == "ask"


@pytest.mark.parametrize("command", ["rm -rf build/*", "rm -rf /tmp/x/*", "ls /*", "ls ~/* > /dev/null; echo '/*'"])
def test_what_empties_nothing_of_the_kind_is_none(command: str) -> None:
    assert "disaster" not in judged(command)[1]


def test_a_project_that_lies_where_homes_do_may_be_emptied_of_its_own() -> None:
    for command in ("rm -rf *", "rm -rf ./*", "rm -rf /home/app/*"):
        assert "disaster" not in judged(command, project="/home/app")[1]
    assert judged("rm -rf /home/*", project="/home/app")[0] == "deny"
    assert judged("rm -rf ../*", project="/home/app")[0] == "deny"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/*", True),
        ("/a/.*", True),
        ("/a/*/", True),
        ("/a/**", True),
        ("/a/..?*", True),
        ("/a/[!.]*", True),
        ("/a/[^.]*", True),
        ("/a/*/*", True),
        ("/a/./*", True),
        ("/a/a*", False),
        ("/a/*a", False),
        ("/a/[a-z]*", False),
        ("/a/*/b", False),
        ("/a/????????*", False),
        ("/a/?", False),
        ("/a", False),
        (r"/a/\*", False),
        ("", False),
    ],
)
def test_patterns_that_take_all(pattern: str, expected: bool) -> None:
    assert takes_all(pattern) is expected


@pytest.mark.parametrize(
    ("effect", "expected"),
    [
        ({"operand": "/a", "contents": True, "pattern": "/a/*"}, YES),
        ({"operand": "/a", "contents": True, "resolved": False}, YES),
        ({"operand": "/x/../a", "contents": True, "pattern": "/x/../a/*"}, YES),
        ({"operand": "/b", "contents": True, "pattern": "/b/*"}, NO),
        ({"operand": "/a"}, NO),
        ({"operand": "/a", "pattern": "/a/x*"}, NO),
        ({"operand": "/", "pattern": "/?/*"}, MAYBE),
        ({"operand": "/", "pattern": "/b?/*"}, NO),
        ({"operand": None, "resolved": False}, MAYBE),
        ({"operand": "/a", "resolved": False}, MAYBE),
        ({"operand": "/", "below": True, "resolved": False}, MAYBE),
        ({"operand": "/b", "below": True, "resolved": False}, NO),
    ],
)
def test_contents_of(effect: dict[str, object], expected: int) -> None:
    made = Effect("delete", "operand", span=(0, 1), **{"resolved": True, **effect})  # type: ignore[arg-type]
    assert PathSet(["/a"], {}).contents(made, Links()) == expected


# ---- programs by other paths ----------------------------------------------------------------------------


@pytest.mark.parametrize("program", ["//bin//rm", "/bin/./rm", "///usr//bin/rm", "//usr/local/bin//rm", "/./bin/rm"])
def test_slashes_and_dots_in_a_programs_path(program: str) -> None:
    assert judged(f"{program} -rf /srv/x") == judged("rm -rf /srv/x")
    assert judged(f"{program} -rf build") == ("allow", judged("rm -rf build")[1])


@pytest.mark.parametrize("program", ["/tmp/../bin/rm", "./rm", "bin/rm", "/srv/bin/rm", "/bin/x/rm"])
def test_a_file_elsewhere_is_no_program_of_the_system(program: str) -> None:
    verdict, rules = judged(f"{program} build")
    assert verdict == "ask"
    assert "unread-code" in rules


# ---- programs that run later ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "echo 'rm -rf ~' > .venv/bin/pytest",
        "cp /tmp/x venv/bin/python",
        "mv x .venv/bin/pip",
        "cd .venv/bin && tee python < x",
        "chmod +x node_modules/.bin/tsc",
        "ln -sf ../../x node_modules/.bin/eslint",
        "echo ls >> env/bin/activate",
        "sed -i 's/a/b/' .venv/lib/python3.11/site-packages/requests/api.py",
        "cat x > .tox/py311/bin/pytest",
        "cd packages/a/node_modules/.bin; echo ls > tsc",
    ],
)
def test_programs_in_the_project_that_run_later(command: str) -> None:
    verdict, rules = judged(command)
    assert verdict == "ask"
    assert "programs-in-the-project" in rules


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .venv node_modules",
        "cat .venv/bin/activate",
        "ls node_modules/.bin",
        "grep -rn x .venv/lib/python3.11/site-packages",
        "echo x > bin/notes.txt",
        "mkdir -p venv/x",
        "sed -i 's/a/b/' src/activate.txt",
        "rm -f */*.pyc",
        "find . -name '*.pyc' -delete",
        "cp a.txt docs/",
    ],
)
def test_what_does_not_change_them(command: str) -> None:
    assert judged(command)[0] == "allow"


# ---- other repositories ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "git -C /srv/other commit -m x",
        "git -C /srv/other add -A",
        "git -C .. add x",
        "git -C ~ -C x commit -m x",
        "cd /srv/other && git commit -am x",
        "cd /srv && git -C other stage x",
        "git -C /srv/other reset HEAD~1",
        "git -C /srv/other rm --cached x",
        "git -C /srv/other tag -a v1 -m x",
        "git -C /srv/other branch -m x",
        "git -C /srv/other stash",
        "git -C /srv/other merge x",
        "git -C /srv/other notes add -m x",
        "git -C /srv/other update-index --add x",
    ],
)
def test_changing_another_repository_is_a_write_there(command: str) -> None:
    verdict, rules = judged(command)
    assert verdict == "ask"
    assert "write-outside-project" in rules


@pytest.mark.parametrize(
    "command",
    [
        "git commit -am 'rm -rf /'",
        "git add -A",
        "git -C sub commit -m x",
        "git -C /nowhere/project/sub add x",
        "cd sub && git add . && git commit -m x",
        "git reset x",
        "git status",
        "git -C /tmp/x commit -m x",
        "git branch",
        "git tag",
    ],
)
def test_the_projects_own_repository(command: str) -> None:
    assert judged(command)[0] == "allow"


def test_a_link_to_another_repository(tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    (project / "link").symlink_to(other)
    director = Director.load("strict", project=project, environ={"HOME": HOME})
    decision = director.evaluate(Action("git -C link commit -m x", cwd=str(project)))
    assert str(decision.verdict) == "ask"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("cd link && python3 -c 'import evil'", "ask"), ("cd link && python3 -c 'import json'", "ask"),
        ("python3 -c 'import link.evil'", "ask"), ("python3 -c 'from link import evil'", "ask"),
        ("echo 'import link.a.evil' | python3", "ask"), ("python3 -c 'import evil'", "ask"),
        ("python3 -c 'import os; os.chdir(\"link\"); import json'", "ask"), ("python3 -c 'import package.module'", "allow"),
        ("cd package && python3 -c 'import json, module'", "allow"),
    ],
)  # fmt: skip
def test_imports_through_a_link(tmp_path: Path, command: str, verdict: str) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "link").symlink_to("/srv")
    (tmp_path / "evil.py").symlink_to("/srv/x.py")
    director = Director.load("default", project=tmp_path, environ={"HOME": HOME})
    assert str(director.evaluate(Action(command, cwd=str(tmp_path))).verdict) == verdict
