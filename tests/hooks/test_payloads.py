"""Payloads of every coding agent that are malformed, huge, of other versions, or made to be taken for something else.

Never a crash, and never an allow of what is not understood: where nothing is known of a tool, or of what it is given, the
answer is a refusal or a question.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.hooks import client, server
from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.tools.calls import call_of
from humanlayer_agent.tools.catalog import load
from tests.hooks.conftest import COMMANDS, inputs_of, question
from tests.support import extent

WRONG: list[Any] = [None, True, 7, -1.5, [], {}, "", "\0", " ", [7], [["ls"]], {"cmd": "ls"}, "\ud800", "a" * 3_000]
"""What a field of a question may be by mistake, or on purpose."""
LOOKALIKES = [
    *(
        "{} ",
        " {}",
        "{}\n",
        "{}\0",
        "{}\u200b",
        "\ufeff{}",
        "{}({{}})",
        "{};ls",
        "mcp__x__{}",
        "mcp_x_{}",
        "x-{}",
        "x_{}",
    ),
    *("{}.{}", "{}:{}", "functions.{}", "default_api:{}", "multi_tool_use.{}", "{}/../{}", "{}\ud800", "{}\u0301"),
]
"""Names that look like the name of a tool that runs commands."""
NAMES = (
    "shell",
    "Shell",
    "execute_command",
    "BASH",
    "Bash2",
    "powershell",
    "REPL",
    "python",
    "run",
    "exec",
    "",
    "ünknown",
)
LEAST = 300


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[server.Server]:
    """One that does not end a session for its denials."""
    monkeypatch.setattr("humanlayer_agent.hooks.judge.MAX_DENIALS", 0)
    made = server.Server()
    yield made
    made._judge.close()


def answered(judge: server.Server, project: Path, agent: str, data: bytes) -> str:
    """What the agent is told: allow, deny, ask, or none where its own rules decide."""
    table = AGENTS[agent]
    words = [agent, "--ask", table.asks[0], "--seconds", "50"]
    given = [f"{table.project}={project}", "SHELL=/bin/bash", "PATH=/usr/bin:/bin"]
    texts = ["\0".join(part).encode() for part in (client.identity(), words, given)]
    code, out, reason, proof = client.unpacked(
        judge._answer(client.packed(os.urandom(16), *texts, data), lambda: False)
    )
    if not proof:
        assert reason, "a refusal says why"
        return "deny"
    assert code == b"0"
    said = json.loads(out or b"{}")
    found = said.get("hookSpecificOutput", said)
    verdict = found.get("permissionDecision") or found.get("decision") or found.get("permission") or "none"
    assert verdict in ("allow", "ask", "none")
    return str(verdict)


def sound(agent: str, project: Path, name: str | None = None, inputs: Any = None, **more: Any) -> dict[str, Any]:
    """A question about a harmless command, or another call."""
    cwd = {"cwd": str(project)} if "cwd" in AGENTS[agent].fields else {}
    name = COMMANDS[agent] if name is None else name
    return question(agent, name, inputs_of(agent, "ls -la") if inputs is None else inputs, **{**cwd, **more})


def put(body: dict[str, Any], field: str, value: Any) -> dict[str, Any]:
    """The question with another value of a field."""
    made: dict[str, Any] = json.loads(json.dumps(body))
    *path, last = field.split(".")
    where = made
    for key in path:
        where = where[key]
    where[last] = value
    return made


def text_of(body: Any) -> bytes:
    return json.dumps(body).encode("utf-8", "surrogatepass")


def malformed(agent: str, project: Path) -> Iterator[bytes]:
    """What is no question."""
    whole = text_of(sound(agent, project))
    yield from (b"", b"{}", b"[]", b"null", b"7", b'"ls"', b"NaN", b"not json", b"[" * 100_000, b'{"a":' * 50_000)
    yield from (whole[:cut] for cut in range(1, len(whole) - 1, max(1, len(whole) // 130)))
    yield from (whole + b"x", whole + whole, whole.decode().encode("utf-16"), b"\xff" + whole)
    yield whole[:-1] + b', "x": NaN}'
    yield whole.replace(b'"ls -la"', b'"ls -la\\ud800"')


def misfits(agent: str, project: Path) -> Iterator[bytes]:
    """Questions with fields and arguments of another type, or without them."""
    body, fields = sound(agent, project), AGENTS[agent].fields
    for field in ("name", "inputs", *(["event"] if "event" in fields else ())):
        yield from (text_of(put(body, fields[field], value)) for value in WRONG)
    if "cwd" in fields:
        yield from (text_of(put(body, "cwd", value)) for value in (7, True, ["/"], {"a": 1}, "relative", "~", "C:\\x"))
    for tool in load().agents[agent].tools.values():
        for argument, known in tool.takes.items():
            if known.slot not in ("data", "note"):
                for value in (7, True, {"a": "b"}, [7], [[]], "\0"):
                    least = {name: "x" for name, each in tool.takes.items() if not each.optional}
                    yield text_of(sound(agent, project, tool.name, {**least, argument: value}))


def strangers(agent: str, project: Path) -> Iterator[bytes]:
    """Tools and arguments that nobody knows, and names that look like those of others."""
    own = COMMANDS[agent]
    for name in (*(each.format(own, own) for each in LOOKALIKES), own.swapcase(), own + own, *NAMES):
        if name != own:
            yield text_of(sound(agent, project, name))
    for tool in load().agents[agent].tools.values():
        for argument in ("path2", "command ", "Command", "cmd", "files_also", "c\u043emmand", "\0", "sandbox"):
            least = {name: "x" for name, each in tool.takes.items() if not each.optional}
            least |= inputs_of(agent, "ls -la") if tool.name == own else {}
            for value in ("/etc/shadow", False):
                yield text_of(sound(agent, project, tool.name, {**least, argument: value}))


def ambiguous(agent: str, project: Path) -> Iterator[bytes]:
    """What means one thing to one program and another to the next."""
    whole, inputs = text_of(sound(agent, project)), text_of(inputs_of(agent, "ls -la"))
    twice = inputs.replace(b"{", b"{" + text_of(inputs_of(agent, "rm -rf /srv"))[1:-1] + b", ", 1)
    yield whole.replace(inputs, twice)
    name = AGENTS[agent].fields["name"].rpartition(".")[2].encode()
    yield whole.replace(b'"%s"' % name, b'"%s": "x", "%s"' % (name, name), 1)
    yield whole[:-1] + b', "cwd": "/", "cwd": "/etc"}'


def huge(agent: str, project: Path) -> Iterator[bytes]:
    """What nobody can read."""
    yield text_of(sound(agent, project, inputs=inputs_of(agent, "echo " + "a" * 900_000)))
    yield text_of(sound(agent, project, inputs=inputs_of(agent, "true;" * 50_000)))
    yield text_of(sound(agent, project, "unknown", {"x": "a" * 200_000}))
    yield text_of(sound(agent, project, "unknown", {"x": [[[[{"y": ["z"] * 20_000}]]]]}))
    deep: Any = "x"
    for _ in range(200):
        deep = {"x": deep}
    yield text_of(sound(agent, project, "unknown", deep))


def payloads(agent: str, project: Path) -> list[bytes]:
    """All of them, each once."""
    makers = (malformed, misfits, strangers, ambiguous, huge)
    return list(dict.fromkeys(each for make in makers for each in make(agent, project)))


@pytest.mark.parametrize("agent", AGENTS)
def test_nothing_is_allowed_that_is_not_understood(agent: str, project: Path, judge: server.Server) -> None:
    made = payloads(agent, project)
    assert len(made) >= LEAST
    for data in made[:: extent.some(1, 9)]:
        verdict = answered(judge, project, agent, data)
        assert verdict in ("deny", "ask"), data[-420:]


@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_understood_is_answered(agent: str, project: Path, judge: server.Server) -> None:
    """Else the test above would prove nothing."""
    goes_on = "none" if agent == "cline" else "allow"
    assert answered(judge, project, agent, text_of(sound(agent, project))) == goes_on
    assert answered(judge, project, agent, text_of(sound(agent, project, also="something new"))) == goes_on
    assert answered(judge, project, agent, b"\xef\xbb\xbf" + text_of(sound(agent, project))) == goes_on
    harmful = text_of(sound(agent, project, inputs=inputs_of(agent, "rm -rf /srv/x")))
    assert answered(judge, project, agent, harmful) in ("deny", "ask")
    for name in sorted(load().agents[agent].leaves):
        assert answered(judge, project, agent, text_of(sound(agent, project, name, {"any": 1}))) == "none", name


def test_arguments_in_a_text_as_earlier_versions_of_copilot_had_them(project: Path, judge: server.Server) -> None:
    for inputs, verdict in (
        ({"command": "ls -la"}, "allow"),
        ({"command": "rm -rf /srv/x"}, "ask"),
        ([], "deny"),
        (7, "deny"),
    ):
        data = text_of(sound("copilot", project, inputs=json.dumps(inputs)))
        assert answered(judge, project, "copilot", data) == verdict
    twice = '{"command": "rm -rf /srv", "command": "ls -la"}'
    assert answered(judge, project, "copilot", text_of(sound("copilot", project, inputs=twice))) == "deny"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.just("ls -la"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
KNOWN = sorted(
    {argument for tools in load().agents.values() for tool in tools.tools.values() for argument in tool.takes}
)
TOOLS = sorted({name for tools in load().agents.values() for name in (*tools.tools, *tools.leaves)})


@settings(max_examples=extent.examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted(AGENTS)),
    st.sampled_from(TOOLS) | st.text(max_size=9),
    st.dictionaries(st.sampled_from(KNOWN) | st.text(max_size=9), JSON, max_size=4),
    st.dictionaries(
        st.sampled_from(["cwd", "mode", "event", "permission_mode", "tool_name", "toolName"]), JSON, max_size=1
    ),
)
def test_whatever_a_question_holds_what_is_let_through_is_known(
    project: Path, judge: server.Server, agent: str, name: str, inputs: dict[str, Any], more: dict[str, Any]
) -> None:
    verdict = answered(judge, project, agent, text_of({**sound(agent, project, name, inputs), **more}))
    if verdict in ("deny", "ask"):
        return
    fields = AGENTS[agent].fields
    if more.keys() & set(fields.values()):
        return  # another question than the one that is looked at here
    call = call_of(agent, name, inputs)
    assert call.doubts == ()
    assert call.kind in (("command",) if verdict == "allow" else ("command", "touch", "leave"))
