"""The catalog of tools: every entry is sound, and a mistake is an error with file and line."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.shell import analyse
from humanlayer_agent.tools import catalog
from humanlayer_agent.tools.calls import call_of
from humanlayer_agent.tools.catalog import SLOTS, Argument, Tool, ToolsError, load, parse

ALL = {**load().agents, **load().servers}
TOOLS = [(owner, tool) for owner, tools in ALL.items() for tool in tools.tools.values()]
VALUES = {"bash": "ls", "url": "https://example.org/", "urls": "see https://example.org/", "unsandboxed": False}
VALUES |= {"patch": "*** Update File: a.txt", "names": "*.py", "pattern": "x", "only": "*.py", "sql": "select 1"}


def given(takes: dict[str, Argument], *, only_needed: bool, needs: tuple[str, ...] = ()) -> dict[str, object]:
    """What a call is given: each argument with a value of its slot."""
    found: dict[str, object] = {}
    for name, argument in takes.items():
        if only_needed and argument.optional and name not in needs[:1]:
            continue
        value: object = VALUES.get(argument.slot, "a.txt")
        if argument.inner:
            value = given(dict(argument.inner), only_needed=only_needed)
        found[name] = [value] if argument.many else value
    return found


def name_of(owner: str, tool: Tool) -> tuple[str, str]:
    """The agent that calls it, and how."""
    return (owner, tool.name) if owner in load().agents else ("claude-code", f"mcp__{owner}__{tool.name}")


@pytest.mark.parametrize(("owner", "tool"), TOOLS, ids=lambda each: getattr(each, "name", each))
def test_every_entry_is_sound(owner: str, tool: Tool) -> None:
    """With all arguments and with the fewest: it is understood, and the shell understands what stands for it."""
    for only_needed in (True, False):
        inputs = given(dict(tool.takes), only_needed=only_needed, needs=tool.needs)
        call = call_of(*name_of(owner, tool), inputs)
        assert call.doubts == (), inputs
        assert call.kind == ("call" if owner in load().servers else "command" if tool.runs else "touch")
        program = analyse(call.text, cwd="/srv/app")
        assert program.status == "ok", (call.text, program.reasons)
        assert all(command.resolved and command.known for command in program.commands), call.text


@pytest.mark.parametrize(("owner", "tool"), TOOLS, ids=lambda each: getattr(each, "name", each))
def test_what_an_entry_acts_on_is_an_effect(owner: str, tool: Tool) -> None:
    kinds = {"read": "read", "write": "write", "url": "network", "list": "read", "make": "write", "patch": "write"}
    for argument_name, argument in tool.takes.items():
        if argument.slot not in kinds:
            continue
        one = {argument_name: argument}
        inputs = given(one, only_needed=False) | given(dict(tool.takes), only_needed=True)
        call = call_of(*name_of(owner, tool), inputs)
        effects = [effect.kind for command in analyse(call.text, cwd="/srv/app").commands for effect in command.effects]
        assert kinds[argument.slot] in effects, (call.text, effects)


def test_every_agent_has_its_tools_and_every_slot_is_used() -> None:
    assert load().agents.keys() == AGENTS.keys()
    assert all(any(tool.runs for tool in tools.tools.values()) for tools in load().agents.values())
    used = {each.slot for _, tool in TOOLS for each in tool.takes.values()}
    assert used - {""} >= SLOTS.keys() - {"delete"}


def test_every_file_says_where_it_is_from() -> None:
    for path in Path(catalog.__file__).with_name("catalog").glob("*.yaml"):
        assert path.read_text().startswith("# "), path
        assert path.stem in ALL or path.stem.removeprefix("mcp-") in ALL


SOUND = "agent: x\nmcp: mcp__{server}__{tool}\ntools:\n  Read: {takes: {path: read}}\n"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("", 1, "names and values"),
        ("[]", 1, "names and values"),
        ("tools: {}", 1, "either agent or server"),
        ("agent: x\nserver: y\ntools: {}", 1, "either agent or server"),
        ("server: y\nmcp: 'a{server}{tool}'\ntools: {}", 2, "is for agents"),
        ("agent: x\ntools: {}", 1, "{server} and {tool}"),
        ("agent: x\nmcp: a\ntools: {}", 2, "{server} and {tool}"),
        ("server: y", 1, "tools is missing"),
        (SOUND + "more: 1\n", 5, "more is not known"),
        (SOUND + "  Read: {takes: {}}\n", 5, "stands here twice"),
        (SOUND + "  Other: {takes: {path: raed}}\n", 5, "did you mean read?"),
        (SOUND + "  Other: {takes: {path: [read, write]}}\n", 5, "is no slot"),
        (SOUND + "  Other: {takes: {path: []}}\n", 5, "a list is expected"),
        (SOUND + "  Other: {takes: {path: [names]}}\n", 5, "no list"),
        (SOUND + "  Other: {takes: {path: read}, may_take: {path: read}}\n", 5, "under takes as well"),
        (SOUND + "  Other: {}\n", 5, "takes is missing"),
        (SOUND + "  Other: {takes: {path: read}, needs: [path]}\n", 5, "nothing that it may take"),
        (SOUND + "  Other: {takes: {path: read}, does: 'cat {path}'}\n", 5, "its arguments are data"),
        (SOUND + "  Other: {takes: {query: sql}}\n", 5, "does is missing"),
        (SOUND + "  Other: {takes: {path: data}, does: 'cat {file}'}\n", 5, "does names file"),
        (SOUND + "  Other: {takes: {path: move}}\n", 5, "move stands beside to"),
        (SOUND + "  Other: {takes: {path: search}}\n", 5, "search stands beside pattern"),
        (SOUND + "  Other: {takes: {'': read}}\n", 5, "a text is expected"),
        (SOUND + "  Other: {take: {path: read}}\n", 5, "did you mean takes?"),
        (SOUND + "leaves: Read\n", 5, "Read stands under tools as well"),
        (SOUND + "  Other: {takes: {path: read}\n", 6, "expected"),
    ],
)
def test_a_mistake_is_told_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(ToolsError) as told:
        parse(text, "x.yaml")
    assert re.match(r"x\.yaml:(\d+): ", str(told.value)), told.value
    assert (int(str(told.value).split(":")[1]), says in str(told.value)) == (line, True), told.value


def test_a_file_that_can_not_be_read_and_an_owner_that_has_two(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    with pytest.raises(ToolsError, match="can't be read"):
        load(tmp_path)
    (tmp_path / "a.yaml").write_text(SOUND)
    (tmp_path / "b.yaml").write_text(SOUND)
    with pytest.raises(ToolsError, match=r"b\.yaml:1: x has a file already"):
        load(tmp_path)


READER = jsonschema.Draft202012Validator(catalog.json_schema())
AGENT = "agent: a\nmcp: '{server}-{tool}'\n"
WRONG = [
    f"{AGENT}server: s\ntools: {{}}",
    "tools: {}",
    "agent: a\ntools: {}",
    AGENT,
    "server: s",
    "server: s\ntools: {}\nmcp: '{server}-{tool}'",
    "server: s\ntools: {}\nleaves: x",
    "server: s\ntools: {}\ntyped_into: x",
    "agent: a\nmcp: '{server}'\ntools: {}",
    "agent: a\nmcp: '{tool}{tool}'\ntools: {}",
    "agent: a\nmcp: '{server}{server}{tool}'\ntools: {}",
    "agent: a\nmcp: [x]\ntools: {}",
    "agent: ''\nmcp: '{server}-{tool}'\ntools: {}",
    "server: [s]\ntools: {}",
    "server: s\ntools: []",
    "server: s\ntools: T",
    "server: s\ntool: {}",
    "server: s\ntools: {T: {}}",
    "server: s\ntools: {T: []}",
    "server: s\ntools: {T: read}",
    "server: s\ntools: {T: {takes: []}}",
    "server: s\ntools: {T: {takes: read}}",
    "server: s\ntools: {T: {take: {x: read}}}",
    "server: s\ntools: {T: {takes: {x: reed}}}",
    "server: s\ntools: {T: {takes: {x: []}}}",
    "server: s\ntools: {T: {takes: {x: [reed]}}}",
    "server: s\ntools: {T: {takes: {x: [read, write]}}}",
    "server: s\ntools: {T: {takes: {x: [names]}}}",
    "server: s\ntools: {T: {takes: {x: [directory]}}}",
    "server: s\ntools: {T: {takes: {x: {}}}}",
    "server: s\ntools: {T: {takes: {x: {takes: {y: reed}}}}}",
    "server: s\ntools: {T: {takes: {x: {takes: {y: read}, needs: [y]}}}}",
    "server: s\ntools: {T: {takes: {x: [{takes: {y: reed}}]}}}",
    "server: s\ntools: {T: {may_take: {x: reed}}}",
    "server: s\ntools: {T: {may_take: {x: read}, needs: x}}",
    "server: s\ntools: {T: {may_take: {x: read}, needs: []}}",
    "server: s\ntools: {T: {may_take: {x: read}, needs: {x: read}}}",
    "server: s\ntools: {T: {takes: {x: data}, does: [cat]}}",
    "server: s\ntools: {T: {takes: {x: data}, does: ''}}",
    "server: s\ntools: {T: {takes: {x: bash}, changes: [x]}}",
    "server: s\ntools: {T: {takes: {x: bash}, changes: ''}}",
    "server: s\ntools: {T: {needs: [x]}}",
    f"{AGENT}tools: {{}}\nleaves: [x]",
    f"{AGENT}tools: {{}}\ntyped_into: [x]",
    f"{AGENT}tools: {{}}\nleave: x",
    "- agent",
]
"""What neither the schema nor the program takes."""


@pytest.mark.parametrize(
    "path", sorted(Path(catalog.__file__).with_name("catalog").glob("*.yaml")), ids=lambda p: p.stem
)
def test_its_schema_takes_what_ships(path: Path) -> None:
    assert [fault.message for fault in READER.iter_errors(yaml.safe_load(path.read_text()))] == []


@pytest.mark.parametrize("text", WRONG)
def test_its_schema_rejects_what_the_program_rejects(text: str) -> None:
    assert [*READER.iter_errors(yaml.safe_load(text))]
    with pytest.raises(ToolsError):
        parse(text, "x.yaml")


def test_its_schema_says_what_each_key_is_for() -> None:
    jsonschema.Draft202012Validator.check_schema(catalog.json_schema())
    keys = {**catalog.json_schema()["properties"], **catalog.json_schema()["$defs"]["Tool"]["properties"]}
    assert all(each["description"] for each in keys.values())
