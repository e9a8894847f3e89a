"""Events of OpenHands, older and of the software agent SDK: lists, lines, a file for each, rows with a history."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.policy_tools.replay.formats import find, openhands
from humanlayer_agent.policy_tools.replay.steps import Item, NoCommand, Step, Unreadable, Wrote

TIME = {"timestamp": "2026-01-01T00:00:00"}


def ran(n: int, command: str, **args: Any) -> dict[str, Any]:
    """A command, as older ones have it."""
    given = {"command": command, "is_input": False, "thought": "", "confirmation_state": "confirmed", **args}
    return {
        "id": n,
        **TIME,
        "source": "agent",
        "message": f"Running command: {command}",
        "action": "run",
        "args": given,
    }


def saw(n: int, cwd: str) -> dict[str, Any]:
    extras = {"command": "x", "metadata": {"exit_code": 0, "working_dir": cwd}}
    return {
        "id": n,
        **TIME,
        "source": "agent",
        "cause": n - 1,
        "observation": "run",
        "content": "out",
        "extras": extras,
    }


def acted(id_: str, action: dict[str, Any] | None, tool: str = "terminal") -> dict[str, Any]:
    """A call of a tool, as the SDK has it."""
    return {
        "id": id_, **TIME, "source": "agent", "kind": "ActionEvent", "thought": [], "tool_name": tool,
        "tool_call_id": f"call-{id_}", "action": action,
    }  # fmt: skip


def terminal(command: str, **more: Any) -> dict[str, Any]:
    return {"kind": "TerminalAction", "command": command, "is_input": False, "timeout": None, "reset": False, **more}


def observed(id_: str, cwd: str) -> dict[str, Any]:
    seen = {"kind": "TerminalObservation", "content": [], "metadata": {"working_dir": cwd}}
    return {
        "id": id_,
        **TIME,
        "source": "environment",
        "kind": "ObservationEvent",
        "tool_name": "terminal",
        "observation": seen,
    }


def read(path: Path) -> list[Item]:
    found: list[Item] = []
    for log in find([path]).logs:
        assert log.format is openhands
        found += log.items()
    return found


def steps(found: list[Item]) -> list[Step]:
    return [each for each in found if isinstance(each, Step)]


OLD = [
    {"id": 0, **TIME, "source": "user", "message": "Fix it", "action": "message", "args": {"content": "Fix it"}},
    ran(1, "cd sub && ls"),
    saw(2, "/workspace/app/sub"),
    ran(3, "python a.py"),
    ran(4, "C-c", is_input=True),
    ran(5, "y", is_input=True),
    ran(6, "rm x", confirmation_state="rejected"),
    {**ran(7, "whoami"), "source": "user"},
    {"id": 8, "source": "agent", "action": "run_ipython", "args": {"code": "1"}},
    {"id": 9, "source": "agent", "action": "edit", "args": {"path": "/w/b.py", "command": "create", "file_text": "x"}},
    {"id": 10, "source": "agent", "action": "write", "args": {"path": "c.py", "content": "y", "start": 0, "end": -1}},
    {"id": 11, "source": "agent", "action": "finish", "args": {}},
]


@pytest.mark.parametrize("form", ["list", "pretty list", "lines", "history", "pairs"])
def test_older_events(write: Callable[..., Path], form: str) -> None:
    if form.endswith("list"):
        path = write("trajectory.json", whole=OLD, indent=2 if form == "pretty list" else None)
    elif form == "lines":
        path = write("events.jsonl", *OLD)
    else:
        history = OLD if form == "history" else [OLD[:2], OLD[2:4], OLD[4:]]
        path = write(
            "output.jsonl", {"instance_id": "django-1", "history": history}, {"instance_id": "b", "history": OLD[:2]}
        )
    found = read(path)
    first = steps(found)[:3]
    assert [each.command for each in first] == ["cd sub && ls", "python a.py", "rm x"]
    assert [each.cwd for each in first] == ["/workspace/app/sub"] * 3
    assert [each.ran for each in first] == [True, True, False]
    assert [each.path for each in found if isinstance(each, Wrote)] == ["/w/b.py", "/workspace/app/sub/c.py"]
    assert [each.why for each in found if isinstance(each, Unreadable)] == ["typed into a program that runs"]
    assert [each.tool for each in found if isinstance(each, NoCommand)] == [
        "run (keys)", "run (of the user)", "run_ipython", "finish",
    ]  # fmt: skip
    if form in ("history", "pairs"):
        assert {each.run for each in steps(found)} == {f"{path} django-1", f"{path} b"}


SDK = [
    {"id": "m", **TIME, "source": "user", "kind": "MessageEvent", "llm_message": {"role": "user", "content": []}},
    acted("1", terminal("ls")),
    observed("2", "/workspace/project"),
    acted("3", terminal("cd lib")),
    observed("4", "/workspace/project/lib"),
    acted("5", terminal("make")),
    acted("6", terminal("C-c", is_input=True)),
    acted("7", None),
    acted(
        "8",
        {"kind": "FileEditorAction", "command": "create", "path": "/workspace/project/a.py", "file_text": "x"},
        "file_editor",
    ),
    acted("9", {"kind": "FileEditorAction", "command": "view", "path": "/workspace/project/a.py"}, "file_editor"),
    acted("10", {"kind": "FinishAction", "message": "done"}, "finish"),
    acted("11", terminal("rm -rf lib")),
    {
        "id": "12",
        **TIME,
        "source": "environment",
        "kind": "UserRejectObservation",
        "tool_name": "terminal",
        "action_id": "11",
        "tool_call_id": "call-11",
    },
]


@pytest.mark.parametrize("form", ["list", "lines", "history"])
def test_events_of_the_sdk(write: Callable[..., Path], form: str) -> None:
    if form == "list":
        path = write("conversation.json", whole=SDK)
    else:
        path = write("output.jsonl", *(SDK if form == "lines" else [{"instance_id": "x", "history": SDK}]))
    found = read(path)
    assert [(each.command, each.cwd, each.ran) for each in steps(found)] == [
        ("ls", "/workspace/project", True),
        ("cd lib", "/workspace/project", True),
        ("make", "/workspace/project/lib", True),
        ("rm -rf lib", "/workspace/project/lib", False),
    ]
    assert [each.path for each in found if isinstance(each, Wrote)] == ["/workspace/project/a.py"]
    assert [each.tool for each in found if isinstance(each, NoCommand)] == [
        "TerminalAction (keys)", "terminal (a call that was not valid)", "FileEditorAction", "finish",
    ]  # fmt: skip


def test_a_folder_of_events_is_one_run_in_the_order_of_their_numbers(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    write("c1/base_state.json", whole={"workspace": {"working_dir": "/workspace/p"}})
    for n in range(12):
        write(f"c1/events/event-{n:05d}-ab.json", whole=acted(str(n), terminal(f"echo {n}")))
        write(f"c2/events/{n}.json", whole=ran(n, f"echo {n}"), indent=2)
    found = find([tmp_path])
    assert [path.name for path in found.others] == ["base_state.json"]
    items = [step for log in found.logs for step in steps(list(log.items()))]
    by_run = {run: [s.command for s in items if s.run == run] for run in {s.run for s in items}}
    assert by_run == {str(tmp_path / c): [f"echo {n}" for n in range(12)] for c in ("c1", "c2")}
    assert {each.cwd for each in items if each.run.endswith("c1")} == {"/workspace/p"}
    assert all(each.keeps for each in items if each.run.endswith("c2"))


def test_nothing_is_lost(write: Callable[..., Path]) -> None:
    path = write(
        "events.jsonl",
        ran(1, "ls"),
        "{broken",
        "[1]",
        {"id": 3},
        {**ran(4, "x"), "args": 3},
        {**ran(5, "x"), "args": {}},
    )
    found = read(path)
    assert [type(each) for each in found] == [Step, Unreadable, Unreadable, Unreadable, Unreadable, Unreadable]
    bad = [each for each in found if isinstance(each, Unreadable)]
    assert [each.place for each in bad] == ["line 2", "line 3", "line 4", "line 5", "line 6"]
    assert bad[0].why.startswith("not JSON")
    assert bad[3].why == "run: what it was given is not an object"


def test_items_of_a_list_that_are_no_objects(write: Callable[..., Path]) -> None:
    found = read(write("list.json", whole=[ran(1, "ls"), 3, ran(2, "pwd")]))
    assert [type(each) for each in found] == [Step, Unreadable, Step]
    assert found[1] == Unreadable(found[0].source, "item 2", "not a JSON object", run=found[0].run)  # type: ignore[union-attr]
