"""Write docs/tools.md: what is known of coding agents and of their tools, made from the tables that judge them.

python docs/make_tools.py
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from humanlayer_agent.hooks.coding_agents import AGENTS, CodingAgent
from humanlayer_agent.hooks.hook_settings import settings_folder
from humanlayer_agent.tools.catalog import SLOTS, Argument, Tool, Tools, load

PAGE = Path(__file__).with_name("tools.md")
_BEGINNING = """# What is known of tools

<!-- Made by docs/make_tools.py from humanlayer_agent/hooks/coding_agents.py and humanlayer_agent/tools/catalog. -->

Coding agents that have a [hook](hooks.md), what each of them can do, and what their tools are known to do with what
they are given. A tool that does not stand here is asked about, and so is a call with an argument that does not.

## Coding agents
"""
_TOOLS = """
## Their tools

Each argument with what it is; the others of a call are data, and the names of all of them are known. *Left alone* are
calls that do nothing of which the agent would not ask by other calls: no rule is about them, unless it names the tool.

"""
_SERVERS = """
## Tools of MCP servers

Of these no name proves what is behind it. A call of one is asked about unless a rule allows it, and judged by what is
known of it as well: a rule that allows `mcp__filesystem__*` does not let `/etc/hosts` be written.

"""
_END = """
## Add a tool

The files are in `humanlayer_agent/tools/catalog`, one an agent or server, and their form is described in
`humanlayer_agent/tools/catalog.py`. What an argument may be:

"""


def page() -> str:
    """Return the page as it has to be."""
    agents, servers = load().agents, load().servers
    return "\n".join(
        [
            _BEGINNING,
            *_table(AGENTS),
            "",
            *(f"- {agent.title}: {'; '.join(agent.lacks)}." for agent in AGENTS.values() if agent.lacks),
            _TOOLS.rstrip("\n"),
            "",
            *(line for name, agent in AGENTS.items() for line in _tools(agent.title, agents[name])),
            _SERVERS.strip("\n"),
            "",
            *(line for name, tools in servers.items() for line in _tools(f"`{name}`", tools)),
            _END.strip("\n"),
            "",
            "| slot | |",
            "|---|---|",
            *(f"| `{slot}` | {what} |" for slot, what in SLOTS.items()),
            "",
        ]
    )


def _table(agents: Mapping[str, CodingAgent]) -> Iterator[str]:
    yield "| | settings | asks by its own prompt | a human changes the command | confines | ends at `hla stop` |"
    yield "|---|---|---|---|---|---|"
    for agent in agents.values():
        place = settings_folder(agent, {"HOME": "~"}) / agent.files[0]
        can = ("tool" in agent.asks, agent.edits, agent.confines, agent.ends or agent.form == "cancel")
        cells = [f"{agent.title}: `hla init {agent.option}`", f"`{place}`", *("yes" if each else "no" for each in can)]
        yield f"| {' | '.join(cells)} |"


def _tools(title: str, tools: Tools) -> Iterator[str]:
    yield f"**{title}**"
    yield ""
    yield "| tool | |"
    yield "|---|---|"
    for tool in tools.tools.values():
        yield f"| `{tool.name}` | {_said(tool)} |"
    if tools.leaves:
        yield f"| *left alone* | {', '.join(f'`{name}`' for name in sorted(tools.leaves))} |"
    yield ""


def _said(tool: Tool) -> str:
    if tool.does:
        return f"as `{tool.does}`"
    return ", ".join(_arguments(tool.takes)) or "nothing on this machine"


def _arguments(takes: Mapping[str, Argument], below: str = "") -> Iterator[str]:
    for name, each in takes.items():
        if each.inner:
            yield from _arguments(each.inner, f"{below}{name}.")
        elif each.slot not in ("data", "note"):
            yield f"`{below}{name}` {each.slot}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
