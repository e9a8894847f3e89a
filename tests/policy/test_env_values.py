"""`env: {value_in: ...}`: which directories a variable is set to, wherever and however it is set."""

import posixpath
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.shell import analyse
from tests.support.extent import examples

PROJECT, HOME = "/nowhere/project", "/nowhere/home"
YES, MAYBE, NO = "deny", "ask", "allow"
RULE = (
    '  - {id: r, decision: deny, when: {effect: environment, env: {any: [PYTHONPATH], value_in: ["${PROJECT}/**"]}}}\n'
)


def value(command: str) -> list[str | None]:
    """What PYTHONPATH is set to, setting by setting."""
    program = analyse(command, cwd=PROJECT, environ={"HOME": HOME})
    return [
        e.value for c in program.commands for e in c.effects if e.kind == "environment" and e.operand == "PYTHONPATH"
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("PYTHONPATH=src ls", "src"),
        ("PYTHONPATH=src", "src"),
        ("export PYTHONPATH=src", "src"),
        ("declare -x PYTHONPATH='src:lib'", "src:lib"),
        ("env PYTHONPATH=src ls", "src"),
        ("sudo PYTHONPATH=src ls", "src"),
        ("read PYTHONPATH <<< /srv", "/srv"),
        ("PYTHONPATH=~/x:~/y ls", f"{HOME}/x:{HOME}/y"),
        ("PYTHONPATH=$PWD/src ls", f"{PROJECT}/src"),
        ("PYTHONPATH=$(pwd)/src ls", f"{PROJECT}/src"),
        ('export PYTHONPATH="`pwd -L`"', PROJECT),
        ("cd a; PYTHONPATH=$(pwd) ls", f"{PROJECT}/a:{PROJECT}"),
        ("for d in a b; do PYTHONPATH=$d ls; done", "a:b"),
        ("x=src; PYTHONPATH=$x ls", "src"),
        # Assignments before one command are made from left to right.
        ("x=src; x=/srv PYTHONPATH=$x ls", "/srv"),
        # What export is given is expanded before anything is set.
        ("x=src; export x=/srv PYTHONPATH=$x", "src"),
        ("export PYTHONPATH=$(cd /srv; pwd)", None),
        ("PYTHONPATH=$X ls", None),
        ("PYTHONPATH=src:$X ls", None),
        ("unset PYTHONPATH", None),
        ("printf -v PYTHONPATH /srv", "/srv"),
        ("for PYTHONPATH in a; do ls; done", None),
        ("PYTHONPATH=(a b)", None),
        ("PYTHONPATH[0]=a", None),
        ("declare -u PYTHONPATH=src", None),
        ("declare -u PYTHONPATH; PYTHONPATH=src ls", None),
        ("export PYTHONPATH={$x,/srv}", None),
        ("export $x=/srv", None),
    ],
)
def test_a_value_is_kept_where_it_is_known(command: str, expected: str | None) -> None:
    assert value(command)[-1:] in ([expected], [])
    assert value(command) or "$x=" in command


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("PYTHONPATH=src:$PYTHONPATH ls", "src:"),
        ("PYTHONPATH=$PYTHONPATH ls", ""),
        ('export PYTHONPATH="$PYTHONPATH:$(pwd)"', f":{PROJECT}"),
        ("PYTHONPATH=src${PYTHONPATH:+:$PYTHONPATH} ls", "src"),
        ("PYTHONPATH=${PYTHONPATH:-src} ls", "src:"),
        ("PYTHONPATH+=:src ls", ":src"),
        ("export PYTHONPATH+=:src", ":src"),
        # It may be set, or not be set: both count.
        ("PYTHONPATH=${PYTHONPATH:+/srv} ls", ":/srv"),
        ("PYTHONPATH=${PYTHONPATH-/srv} ls", "/srv:"),
        # A part of it, or what it is glued to, is not known.
        ("PYTHONPATH=$PYTHONPATH/x ls", None),
        ("PYTHONPATH=x$PYTHONPATH ls", None),
        ("PYTHONPATH+=x ls", None),
        ("PYTHONPATH=${PYTHONPATH%%:*} ls", None),
        ("PYTHONPATH=${PYTHONPATH/a/b} ls", None),
        ("PYTHONPATH=${PYTHONPATH:1} ls", None),
        ("PYTHONPATH=${PYTHONPATH^^} ls", None),
        ("PYTHONPATH=${#PYTHONPATH} ls", None),
        ("PYTHONPATH=$(echo $PYTHONPATH) ls", None),
        ("PYTHONPATH=$(echo ${PYTHONPATH:5}) ls", None),
        ("PYTHONPATH=${x:-${PYTHONPATH%/*}} ls", None),
        # What the script has set is the script's doing.
        ("PYTHONPATH=/srv; PYTHONPATH=$PYTHONPATH:src ls", "/srv:src"),
        ("PYTHONPATH=$X; PYTHONPATH=$PYTHONPATH:src ls", None),
        ("eval $X; PYTHONPATH=$PYTHONPATH:src ls", None),
    ],
)
def test_what_the_user_has_set_is_not_the_commands_doing(command: str, expected: str | None) -> None:
    assert value(command)[-1] == expected


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("PYTHONPATH=src ls", YES),
        ("PYTHONPATH=. ls", YES),
        ("PYTHONPATH= ls", YES),
        ("PYTHONPATH=src::lib ls", YES),
        ("PYTHONPATH=a/../../x ls", NO),
        ("PYTHONPATH=src:/srv ls", NO),
        ("PYTHONPATH=$X ls", MAYBE),
        ("PATH=src ls", NO),
        ("printenv PYTHONPATH", NO),
        ("ls", NO),
        # A relative entry is looked up by what uses it, from where that runs.
        ("cd /srv && PYTHONPATH=src ls", NO),
        ("cd /srv && PYTHONPATH=/nowhere/project/src ls", YES),
        ("export PYTHONPATH=src; cd /srv; ls", NO),
        ("export PYTHONPATH=src; cd lib; ls", YES),
        ("export PYTHONPATH=src; bash -c 'cd /srv && ls'", NO),
        ("PYTHONPATH=src env -C /srv ls", NO),
        ("export PYTHONPATH=src; cd $X; ls", MAYBE),
        ("for x in 1 2; do cd /srv; ls; export PYTHONPATH=src; cd /nowhere/project; done", MAYBE),
        ("f() { cd /srv; ls; }; f; cd /nowhere/project; export PYTHONPATH=src; f", NO),
        ("trap 'cd /srv; ls' EXIT; export PYTHONPATH=src", MAYBE),
        ("cd /srv && cd /nowhere/project && export PYTHONPATH=src", YES),
        ("cd /srv; cd /nowhere/project; export PYTHONPATH=src", NO),
    ],
)
def test_every_directory_must_lie_inside(director_of: Callable[..., Director], command: str, expected: str) -> None:
    director = director_of(RULE, defaults="{unmatched: allow}")
    decision = director.evaluate(Action(command, cwd=PROJECT))
    if expected == NO:
        assert "r" not in decision.rules
    else:
        assert str(decision.verdict) == expected
        assert decision.rule == "r"


def test_a_directory_that_leads_elsewhere_is_elsewhere(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "link").symlink_to(outside)
    inside = load_rule(tmp_path, f'env: {{any: [PYTHONPATH], value_in: ["{project}/**"]}}')
    for entry, verdict in (("link", "allow"), ("lib", "deny"), ("lib:link/x", "allow")):
        decision = inside.evaluate(Action(f"PYTHONPATH={entry} ls", cwd=str(project)))
        assert str(decision.verdict) == verdict, entry


@cache
def shipped(policy: str) -> Director:
    return Director.load(policy, project=PROJECT, environ={"HOME": HOME})


def load_rule(folder: Path, when: str) -> Director:
    path = folder / "p.yaml"
    rule = f"  - {{id: r, decision: deny, when: {{effect: environment, {when}}}}}\n"
    path.write_text(f"version: 1\npolicy: p\ndefaults: {{unmatched: allow}}\nrules:\n{rule}")
    return Director(load(path), project=PROJECT, environ={"HOME": HOME})


@pytest.mark.parametrize(
    "command",
    [
        "PYTHONPATH=. pytest -q tests",
        "export PYTHONPATH=$PYTHONPATH:$(pwd)\ncd tests\npytest -q",
        "PYTHONPATH=src:$PYTHONPATH pytest",
        "PYTHONPATH=/tmp/lib pytest",
        "env PYTHONPATH=. pytest",
    ],
)
def test_the_default_policy_lets_python_find_the_projects_modules(command: str) -> None:
    assert str(shipped("default").evaluate(Action(command, cwd=PROJECT)).verdict) == "allow"
    assert str(shipped("strict").evaluate(Action(command, cwd=PROJECT)).verdict) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "PYTHONPATH=/srv pytest",
        "PYTHONPATH=.:/srv pytest",
        "PYTHONPATH=~ pytest",
        "PYTHONPATH=.. pytest",
        "export PYTHONPATH=src; cd /srv && cat /nowhere/project/a",
        "PYTHONHOME=. pytest",
        "PYTHONSTARTUP=a.py pytest",
        "LD_PRELOAD=./x.so pytest",
        "LD_LIBRARY_PATH=. pytest",
        "PATH=.:$PATH pytest",
        "GIT_EXEC_PATH=. git status",
        "NODE_PATH=. ls",
        "PYTHONPATH=. LD_PRELOAD=./x.so pytest",
        "x=cat; x=./evil GIT_PAGER=$x git log",
    ],
)
def test_other_variables_and_other_places_still_ask(command: str) -> None:
    decision = shipped("default").evaluate(Action(command, cwd=PROJECT))
    assert str(decision.verdict) == "ask"
    assert "environment" in decision.rules


@pytest.fixture
def inside(tmp_path: Path) -> Director:
    return load_rule(tmp_path, 'env: {any: [PYTHONPATH], value_in: ["${PROJECT}/**"]}')


ENTRY = st.sampled_from(["src", ".", "", "..", "/srv", PROJECT, f"{PROJECT}/a", "a/../b", "../project/x", "/nowhere"])


@settings(max_examples=examples(150))
@given(entries=st.lists(ENTRY, min_size=1, max_size=4), cwd=st.sampled_from([PROJECT, "/srv", f"{PROJECT}/sub"]))
def test_it_is_inside_where_all_of_it_is(inside: Director, entries: list[str], cwd: str) -> None:
    decision = inside.evaluate(Action(f"PYTHONPATH={':'.join(entries)} ls", cwd=cwd))
    found = [posixpath.normpath(posixpath.join(cwd, entry)) for entry in entries]
    within = all(path == PROJECT or path.startswith(PROJECT + "/") for path in found)
    assert str(decision.verdict) == ("deny" if within else "allow")


def test_so_many_places_are_not_looked_at(director_of: Callable[..., Director]) -> None:
    director = director_of(RULE, defaults="{unmatched: allow}")
    many = ":".join(f"d{n}" for n in range(300))
    assert str(director.evaluate(Action(f"PYTHONPATH={many} ls", cwd=PROJECT)).verdict) == "ask"
