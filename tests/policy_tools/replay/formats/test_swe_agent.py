"""Trajectories of SWE-agent, as its documentation has them: commands, its own tools, and what changes files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from humanlayer_agent.policy_tools.replay.formats import find, swe_agent
from humanlayer_agent.policy_tools.replay.steps import Item, NoCommand, Step, Unreadable, Wrote


def turn(action: Any, cwd: str = "/testbed", *, text: bool = False, **state: Any) -> dict[str, Any]:
    stood = {"working_dir": cwd, **state}
    return {
        "response": "I look.", "thought": "I look.", "action": action, "observation": "out\n",
        "state": json.dumps(stood) + "\n" if text else stood, "query": [],
    }  # fmt: skip


def read(path: Path) -> list[Item]:
    (log,) = find([path]).logs
    assert log.format is swe_agent
    return list(log.items())


def test_commands_start_where_the_one_before_left_the_shell(write: Callable[..., Path]) -> None:
    turns = [
        turn("cd src && ls -F\n", "/testbed/src"),
        turn("ls\n", "/testbed/src"),
        turn("rm -rf ../x", "/testbed/src"),
    ]
    path = write(
        "django__1.traj", whole={"environment": "swe_main", "trajectory": turns, "history": [], "info": {}}, indent=2
    )
    steps = [each for each in read(path) if isinstance(each, Step)]
    assert [each.command for each in steps] == ["cd src && ls -F", "ls", "rm -rf ../x"]
    assert [each.cwd for each in steps] == ["/testbed/src", "/testbed/src", "/testbed/src"]
    assert {each.project for each in steps} == {"/testbed/src"}
    assert [each.place for each in steps] == ["turn 1", "turn 2", "turn 3"]


def test_the_state_of_older_ones_is_json_as_text(write: Callable[..., Path]) -> None:
    path = write(
        "old.traj", whole={"trajectory": [turn("ls", text=True), turn("pwd", "/", text=True), turn("ls", "/")]}
    )
    assert [each.cwd for each in read(path) if isinstance(each, Step)] == ["/testbed", "/testbed", "/"]


def test_its_own_tools_are_no_commands_and_change_files(write: Callable[..., Path]) -> None:
    actions = [
        turn("open a.py 12", open_file="/testbed/a.py"),
        turn("edit 1:1\nx = 1\nend_of_edit"),
        turn("create new.py"),
        turn("str_replace_editor create /testbed/b.py --file_text 'print(1)\n'"),
        turn("str_replace_editor str_replace /testbed/b.py --old_str 1 --new_str 2"),
        turn("str_replace_editor view /testbed/b.py"),
        turn("str_replace_editor 'not closed"),
        turn("find_file x.py"),
        turn(""),
        turn("submit"),
        turn("python b.py"),
    ]
    found = read(write("own.traj", whole={"trajectory": actions}))
    assert found[0] == NoCommand("open")
    writes = [each for each in found if isinstance(each, Wrote)]
    assert [(each.path, each.text, each.old, each.new) for each in writes] == [
        ("/testbed/a.py", None, "", ""),
        ("/testbed/new.py", None, "", ""),
        ("/testbed/b.py", "print(1)\n", "", ""),
        ("/testbed/b.py", None, "1", "2"),
    ]
    assert [each.tool for each in found if isinstance(each, NoCommand)] == [
        "open", "str_replace_editor", "str_replace_editor", "find_file", "(no action)", "submit",
    ]  # fmt: skip
    assert [each.command for each in found if isinstance(each, Step)] == ["python b.py"]


def test_nothing_is_lost(write: Callable[..., Path]) -> None:
    turns = [turn("ls"), {"observation": "x"}, 3, turn(None), turn("pwd", text=True) | {"state": "{"}]
    found = read(write("odd.traj", whole={"trajectory": turns}))
    assert [type(each) for each in found] == [Step, Unreadable, Unreadable, Unreadable, Step]
    assert [each.place for each in found if isinstance(each, Unreadable)] == ["turn 2", "turn 3", "turn 4"]


def test_what_was_written_is_known_later(write: Callable[..., Path], replay: Callable[..., list[Any]]) -> None:
    turns = [
        turn("str_replace_editor create /testbed/b.py --file_text 'print(1)\n'"),
        turn("python b.py"),
        turn(
            "str_replace_editor str_replace /testbed/b.py --old_str 'print(1)' --new_str 'import os; os.remove(\"/srv/x\")'"
        ),
        turn("python b.py"),
    ]
    rows = replay(read(write("run.traj", whole={"trajectory": turns})))
    assert [str(row.decisions[0].verdict) for row in rows if not isinstance(row, NoCommand)] == ["allow", "ask"]
