"""Each reader, on files as their programs write them; and what is none of them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import (
    DeterministicModel,
    DeterministicResponseAPIToolcallModel,
    DeterministicToolcallModel,
    make_output,
    make_response_api_output,
    make_toolcall_output,
)

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy_tools.replay.formats import (
    FORMATS,
    atif,
    audit_export,
    claude_code,
    find,
    json_lines,
    mini_swe_agent,
    openhands,
    swe_agent,
)
from humanlayer_agent.policy_tools.replay.steps import NoCommand, Step, Unreadable, Wrote
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker
from tests.support.extent import examples

pytestmark = pytest.mark.usefixtures("compiled")

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
Writes = Callable[..., Path]


def items(path: Path) -> list[Any]:
    (log,) = find([path]).logs
    return list(log.items())


def commands(path: Path) -> list[str]:
    return [item.command for item in items(path) if isinstance(item, Step)]


def format_of(path: Path) -> Any:
    return find([path]).logs[0].format


# ---- mini-swe-agent ---------------------------------------------------------------------------------------


def call(n: int, command: str) -> dict[str, Any]:
    arguments = json.dumps({"command": command})
    return {"id": f"c{n}", "type": "function", "function": {"name": "bash", "arguments": arguments}}


def text_model() -> Any:
    return DeterministicModel(
        outputs=[
            make_output("two at once", [{"command": "echo a"}, {"command": "echo b"}]),
            make_output("done", [{"command": SUBMIT}]),
        ]
    )


def tool_model() -> Any:
    return DeterministicToolcallModel(
        outputs=[
            make_toolcall_output(
                None,
                [call(1, "echo a"), call(2, "echo b")],
                [{"command": "echo a", "tool_call_id": "c1"}, {"command": "echo b", "tool_call_id": "c2"}],
            ),
            make_toolcall_output("done", [call(3, SUBMIT)], [{"command": SUBMIT, "tool_call_id": "c3"}]),
        ]
    )


def response_model() -> Any:
    return DeterministicResponseAPIToolcallModel(
        outputs=[
            make_response_api_output(
                "x", [{"command": "echo a", "tool_call_id": "c1"}, {"command": "echo b", "tool_call_id": "c2"}]
            ),
            make_response_api_output(None, [{"command": SUBMIT, "tool_call_id": "c3"}]),
        ]
    )


@pytest.mark.parametrize("model", [text_model, tool_model, response_model])
def test_a_real_trajectory_of_mini(tmp_path: Path, model: Callable[[], Any]) -> None:
    path = tmp_path / "task.traj.json"
    agent = DefaultAgent(
        model(),
        LocalEnvironment(cwd=str(tmp_path)),
        system_template="s",
        instance_template="{{task}}",
        output_path=path,
    )
    assert agent.run("t")["exit_status"] == "Submitted"
    assert format_of(path) is mini_swe_agent
    found = items(path)
    assert [item.command for item in found] == ["echo a", "echo b", SUBMIT]
    assert {item.cwd for item in found} == {str(tmp_path)}
    assert len({item.run for item in found}) == 1
    assert len({item.id for item in found}) == 3


VERSION_1 = {
    "info": {"exit_status": "Submitted", "mini_version": "1.17.5", "config": {"environment": {"cwd": "/testbed"}}},
    "messages": [
        {"role": "system", "content": "Use ```bash\nls\n```"},
        {"role": "user", "content": "```bash\nrm -rf /\n```"},
        {"role": "assistant", "content": "First\n\n```bash\ngrep -rn x src\n```\n"},
        {"role": "user", "content": "<output></output>"},
        {"role": "assistant", "content": "Two: ```bash\nls\n```\n```bash\npwd\n```"},
        {"role": "assistant", "content": "none"},
        {"role": "assistant", "content": [{"type": "text", "text": "```bash\ncat <<'E' > a\n`x`\nE\n```"}]},
    ],
    "trajectory_format": "mini-swe-agent-1",
}


@pytest.mark.parametrize("indent", [None, 2])
def test_version_1_runs_one_block_a_message(write: Writes, indent: int | None) -> None:
    path = write("a.traj.json", whole=VERSION_1, indent=indent)
    assert format_of(path) is mini_swe_agent
    found = items(path)
    assert [item.command for item in found] == ["grep -rn x src", "cat <<'E' > a\n`x`\nE"]
    assert found[0].cwd == "/testbed"


def test_a_message_that_is_none_is_named(write: Writes) -> None:
    messages = [
        "x",
        {"role": "assistant", "extra": {"actions": [{"command": "ls"}, {"no": 1}, 3]}},
        {"role": "assistant", "extra": {"actions": {}}},
    ]
    found = items(write("a.json", whole={"messages": messages, "info": {}}))
    assert [type(item) for item in found] == [Unreadable, Step, Unreadable, Unreadable, Unreadable]
    assert "message 1, action 1" in found[2].place


# ---- ATIF -------------------------------------------------------------------------------------------------


def trajectory(*calls: dict[str, Any], **more: Any) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": "do"}]
    for n, each in enumerate(calls, 2):
        tool = {"tool_call_id": f"c{n}", "arguments": {}} | each
        steps.append({"step_id": n, "source": "agent", "message": "", "tool_calls": [tool]})
    agent = {"name": "a", "version": "1"}
    return {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": steps, **more}


def shell(arguments: Any, name: str = "bash") -> dict[str, Any]:
    return {"function_name": name, "arguments": arguments}


def test_atif(write: Writes) -> None:
    whole = trajectory(
        shell({"command": "ls"}),
        shell({"command": "pwd"}, "Bash"),
        shell({"cmd": "id", "workdir": "/srv"}, "exec_command"),
        shell({"command": ["bash", "-lc", "cat a | wc"]}, "shell"),
        shell({"command": ["cat", "a b"]}, "shell"),
        {"function_name": "view_image", "arguments": {"path": "x"}},
    )
    path = write("trajectory.json", whole=whole, indent=2)
    assert format_of(path) is atif
    assert commands(path) == ["ls", "pwd", "id", "cat a | wc", "cat 'a b'"]
    found = items(path)
    assert found[2].cwd == "/srv"
    assert found[5] == NoCommand("view_image")


def test_keys_are_a_command_only_with_enter_at_their_end(write: Writes) -> None:
    keys = ["ls -la\n", "C-c", "\x03\n", "", "y", "cat > a <<'E'\nx\nE\n"]
    whole = trajectory(*(shell({"keystrokes": each, "duration": 0.1}, "bash_command") for each in keys))
    found = items(write("t.json", whole=whole))
    assert [type(item) for item in found] == [Step, Unreadable, Unreadable, NoCommand, Unreadable, Step]
    assert found[0].keeps
    assert "keys" in found[1].why


def test_trajectories_of_subagents_are_runs_of_their_own(write: Writes) -> None:
    whole = trajectory(shell({"command": "ls"}), subagent_trajectories=[trajectory(shell({"command": "pwd"})), 3])
    found = items(write("t.json", whole=whole))
    assert [type(item) for item in found] == [Step, Step, Unreadable]
    assert found[0].run != found[1].run


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"steps": 3}, "steps is not a list"),
        ({"steps": [7]}, "not a step"),
        ({"steps": [{"tool_calls": {}}]}, "not a step"),
        ({"steps": [{"tool_calls": [{}]}]}, "without function_name"),
        ({"steps": [{"tool_calls": [shell("ls")]}]}, "arguments is not an object"),
        ({"steps": [{"tool_calls": [shell({})]}]}, "without a command"),
    ],
)
def test_atif_that_is_broken_is_named(write: Writes, broken: Any, why: str) -> None:
    (found,) = items(write("t.json", whole={"schema_version": "ATIF-v1.0", **broken}))
    assert isinstance(found, Unreadable)
    assert why in found.why


# ---- Claude Code ------------------------------------------------------------------------------------------


def said(*blocks: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": list(blocks)}
    return {"type": "assistant", "sessionId": "s1", "cwd": "/srv/app/sub", "message": message} | more


def use(id_: str, name: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": name, "input": given}


def test_a_claude_code_session(write: Writes) -> None:
    path = write(
        "s1.jsonl",
        {"type": "summary", "summary": "x", "leafUuid": "1"},
        {"type": "user", "sessionId": "s1", "cwd": "/srv/app", "message": {"role": "user", "content": "please"}},
        said({"type": "text", "text": "ok"}, use("t1", "Bash", command="ls", description="d"), cwd="/srv/app"),
        said(use("t2", "Write", file_path="/srv/app/a.sh", content="ls"), use("t3", "Bash", command="sh a.sh")),
        said(use("t1", "Bash", command="ls", description="d"), use("t1", "Bash", command="rm -rf /")),
        said(use("t4", "Edit", file_path="/srv/app/a.sh", old_string="ls", new_string="pwd")),
        said(use("t5", "Read", file_path="/srv/app/a.sh"), use("t6", "Bash")),
        "{broken",
    )
    assert format_of(path) is claude_code
    found = items(path)
    kinds = [type(item) for item in found]
    assert kinds == [Step, Wrote, Step, Step, Wrote, NoCommand, Unreadable, Unreadable]
    assert found[3].command == "rm -rf /"  # an id that comes again hides nothing
    assert (found[2].run, found[2].cwd, found[2].project) == ("s1", "/srv/app/sub", "/srv/app")
    assert found[-1].place == "line 8"


# ---- our export -------------------------------------------------------------------------------------------


@pytest.fixture
def export(tmp_path: Path) -> Path:
    """An export of a real store: an allow, an approval, a refusal, a denial."""
    director = Director.load("default", project="/srv/app", environ={"HOME": "/home/u"}, tested=False)
    store = SQLiteStore(tmp_path / "s.sqlite3")
    asker = ScriptedAsker(["approve", ("reject", "no")])
    with Gate(director, store, asker, run_id="run-1", requester="os:1000:tester", agent="a") as gate:
        for command in ("ls", "pip install x", "npm install", "rm -rf /", "printf '\udcff'"):
            permit = gate.check(Action(command, cwd="/srv/app", project="/srv/app"))
            if isinstance(permit, Permit) and gate.start(permit, permit.action) is None:
                gate.finish(permit, Outcome(0))
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(entry.line for entry in store.events()))
    store.close()
    return path


def test_our_own_export(export: Path) -> None:
    assert format_of(export) is audit_export
    found = items(export)
    assert [item.command for item in found] == ["ls", "pip install x", "npm install", "rm -rf /", "printf '\udcff'"]
    assert [item.verdict for item in found] == ["allow", "ask", "ask", "deny", "ask"]
    assert [item.ran for item in found] == [True, True, False, False, False]
    assert {(item.run, item.project, item.cwd) for item in found} == {("run-1", "/srv/app", "/srv/app")}


def test_an_export_says_what_was_judged_as_confined(tmp_path: Path, replay: Any) -> None:
    director = Director.load("default", project="/srv/app", environ={"HOME": "/home/u"}, tested=False, confined=True)
    store = SQLiteStore(tmp_path / "s.sqlite3")
    commands = ("./a.out", 'rm -rf "$X"', "rm -rf /")
    with Gate(director, store, ScriptedAsker(["approve"]), run_id="run-1", requester="os:1000:tester") as gate:
        for command in commands:
            gate.check(Action(command, cwd="/srv/app", project="/srv/app"))
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(entry.line for entry in store.events()))
    store.close()
    found = items(path)
    assert [(item.command, item.verdict, item.confined) for item in found] == [
        ("./a.out", "allow", True), ('rm -rf "$X"', "ask", True), ("rm -rf /", "deny", True)
    ]  # fmt: skip
    assert [str(row.decisions[0].verdict) for row in replay(found)] == ["allow", "ask", "deny"]


def test_a_torn_export_is_read_to_its_last_whole_line(export: Path) -> None:
    export.write_bytes(export.read_bytes()[:-20])
    found = items(export)
    assert isinstance(found[-1], Unreadable)
    assert sum(isinstance(item, Step) for item in found) == 5


# ---- rows -------------------------------------------------------------------------------------------------


def test_rows_of_the_machine_interface(write: Writes) -> None:
    path = write(
        "r.jsonl",
        {"id": "1", "run": "a", "command": "ls", "cwd": "/srv/app", "files": {"/srv/app/x": "t"}, "tracked": ["/y"]},
        {"id": 2, "command": "pwd"},
        "",
        {"id": "3", "run": "b"},
        "[1]",
        "{",
        {"id": "4", "command": "ls", "cwd": "relative"},
    )
    assert format_of(path) is json_lines
    found = items(path)
    assert [type(item) for item in found] == [Step, Step, Unreadable, Unreadable, Unreadable, Unreadable]
    assert (found[0].run, found[0].files, found[0].tracked) == ("a", {"/srv/app/x": "t"}, ("/y",))
    assert found[1].run == str(path)
    assert [item.place for item in found[2:]] == ["line 4", "line 5", "line 6", "line 7"]


# ---- finding them -----------------------------------------------------------------------------------------


def test_a_folder_is_searched_and_other_files_are_told_apart(write: Writes, tmp_path: Path) -> None:
    write("runs/a/t.traj.json", whole=VERSION_1)
    write("runs/b.jsonl", {"id": "1", "command": "ls"})
    write("runs/config.json", whole={"name": "x"})
    write("runs/torn.json", "{")
    write("runs/notes.txt", "x")
    found = find([tmp_path / "runs"])
    assert [log.format for log in found.logs] == [mini_swe_agent, json_lines]
    assert [path.name for path in found.others] == ["config.json"]
    assert [row.source for row in found.broken] == [str(tmp_path / "runs" / "torn.json")]


@pytest.mark.parametrize("text", ["", "\n\n", "hello", "[1, 2]", "{}", '{"a": 1}\n{"b": 2}', "[" * 100_000, "\x00"])
def test_a_file_in_no_known_format_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"x\.json: "):
        find([path])


def test_the_refusal_names_what_was_tried(write: Writes, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        find([write("x.json", whole={"a": 1})])
    assert all(known.NAME in str(raised.value) for known in FORMATS)
    with pytest.raises(ConfigError, match="no such file"):
        find([tmp_path / "missing.jsonl"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="no recorded run in it"):
        find([tmp_path / "empty"])


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("messages", "info", "extra", "actions", "command", "role", "content", "schema_version", "steps"),
                    *(
                        "tool_calls",
                        "function_name",
                        "arguments",
                        "keystrokes",
                        "id",
                        "cwd",
                        "files",
                        "type",
                        "message",
                    ),
                    *("e", "h", "name", "input", "file_path", "interpreter", "tracked", "subagent_trajectories"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.sample(4)
@pytest.mark.parametrize("known", FORMATS, ids=lambda f: f.NAME)
@settings(max_examples=examples(150))
@given(data=values)
def test_no_reader_fails_on_what_it_recognises(known: Any, data: Any) -> None:
    """Whatever a file holds, a reader names the row: it never raises."""
    heads: dict[Any, dict[str, Any]] = {
        mini_swe_agent: {"messages": [data, {"role": "assistant", "extra": data, "content": data}], "info": data},
        atif: {
            "schema_version": "ATIF-v1",
            "steps": [data, {"tool_calls": [data, {"function_name": "bash", "arguments": data}]}],
        },
        audit_export: {
            "e": {"type": "decision.evaluated", "command": data, "interpreter": data, "cwd": data, "permit": data},
            "h": "",
        },
        json_lines: {"id": data, "command": data, "files": data, "tracked": data},
        claude_code: {
            "type": "assistant",
            "message": {"content": [data, {"type": "tool_use", "name": "Bash", "input": data}]},
        },
        swe_agent: {
            "trajectory": [
                data,
                {"action": data, "observation": data, "state": data},
                {"action": "str_replace_editor create x", "observation": "", "state": {"working_dir": data}},
                {"action": "edit 1:2", "observation": "", "state": '{"open_file": "/x"}'},
            ]
        },
        openhands: {
            "history": [
                data,
                {"action": "run", "args": data, "id": data, "source": data},
                {"action": "edit", "args": {"path": data, "command": data, "file_text": data, "content": data}},
                {"observation": data, "extras": {"metadata": data}},
                {"kind": "ActionEvent", "source": "agent", "tool_name": data, "action": data},
                {"kind": "ActionEvent", "source": "agent", "action": {"kind": "TerminalAction", "command": data}},
                {"kind": "UserRejectObservation", "source": data, "action_id": data},
            ]
        },
    }
    assert known.recognises([heads[known]], True)
    for item in known.read([("line 1", heads[known]), ("line 2", "broken")], "f"):
        assert isinstance(item, Step | Unreadable | NoCommand | Wrote)
