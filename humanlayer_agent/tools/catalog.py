"""The catalog of tools: YAML files beside this module, in `catalog/`, one for each coding agent and MCP server.

A file says whose tools they are (`agent: claude-code`, or `server: filesystem`), and of each tool what it takes, and
what it may take, each argument with its slot:

    tools:
      Edit: {takes: {file_path: write, old_string: data}, may_take: {replace_all: data}}

`[read]` stands for one or several files, `{takes: ...}` for an object, and that in brackets for several. Slots are in
`SLOTS`. `needs` names arguments of which at least one is given. `does` says it as a shell command with words in braces,
where slots do not suffice. `changes` is a pattern of commands that the agent makes others of, after its hook has heard
of them: nobody knows what runs. `typed_into` has names of programs, or that of an agent with the same. Names of tools
that do nothing of which their agent would not ask by other calls stand under `leaves`. Whatever is not listed is not
guessed: a tool, or an argument, that nobody knows is asked about.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from humanlayer_agent.errors import ConfigError, did_you_mean

SLOTS = {
    "bash": "a command for bash",
    "read": "a file that it reads",
    "write": "a file that it makes or changes",
    "delete": "a file or folder that it removes",
    "make": "a folder that it makes",
    "move": "a file or folder that it moves, to where the slot `to` says",
    "to": "where something is moved to",
    "list": "a file or folder of which it tells name, size and the like; where it is left out, the working directory",
    "search": "a file or folder in which it looks for `pattern`; where it is left out, the working directory",
    "pattern": "what it looks for in files",
    "only": "a pattern for the names of files in which it looks",
    "folder": "a folder below which it looks for `names`; where it is left out, the working directory",
    "names": "a pattern for names of files that it tells of",
    "patch": "a patch with lines like `*** Update File: NAME`",
    "url": "an address that it contacts",
    "urls": "a text; it contacts the addresses in it",
    "directory": "the directory it works in",
    "unsandboxed": "whether it is to run outside of the agent's own sandbox",
    "sql": "statements for a database; `does` says of which kind",
    "note": "words about the call that change nothing of what it does, or how long it may take",
    "data": "anything else, which is about no file and no address",
}
"""What an argument is, by slot."""

_FOLDER = Path(__file__).with_name("catalog")
_CALLED = r"^(?!.*\{server\}.*\{server\})(?!.*\{tool\}.*\{tool\}).*\{tool\}"
_FILE_KEYS = {
    "agent": "The coding agent whose tools these are.",
    "server": "The MCP server whose tools these are.",
    "mcp": "How the agent calls tools of MCP servers: with {server} and {tool}, or {tool} alone.",
    "tools": "The tools, by name.",
    "leaves": "Names of tools that do nothing of which their agent would not ask by other calls, with blanks between.",
    "typed_into": "Programs into which the agent may type, of which no hook would hear, with blanks between.",
}
_ARGUMENT_KEYS = {
    "takes": "What it takes, by name, each with its slot.",
    "may_take": "What it may take, in the same way.",
}
_TOOL_KEYS = {
    **_ARGUMENT_KEYS,
    "needs": "Arguments under `may_take` of which at least one is given.",
    "does": "A shell command that does the same, with arguments in braces, where slots do not suffice.",
    "changes": "A regular expression for commands that the agent changes after its hook has heard of them.",
}
_OF_AGENTS = ("mcp", "typed_into", "leaves")
_ONE_TEXT = {"names", "move", "to", "directory", "unsandboxed"}
_WORD = re.compile(r"\{([^{}]*)\}")


class ToolsError(ConfigError):
    """Raised for a broken file of the catalog of tools, with its name and line."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a tool.

    Attributes:
        slot: what it is (see `SLOTS`); "" for an object, whose own arguments are `inner`.
        many: it may be a list of those.
        optional: it may be left out.
    """

    slot: str
    many: bool = False
    optional: bool = False
    inner: "Mapping[str, Argument]" = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its arguments by name, those of which one is needed, the shell command that does the same, and a pattern
    of commands that the agent changes after its hook has heard of them.
    """

    name: str
    takes: Mapping[str, Argument]
    needs: tuple[str, ...] = ()
    does: str = ""
    changes: str = ""

    @property
    def runs(self) -> bool:
        """Tell whether what it is given is a command for bash, and it does nothing else."""
        return any(each.slot == "bash" and not each.optional for each in self.takes.values())

    def named(self, slot: str) -> list[str]:
        """Return the names of its arguments that have this slot."""
        return [name for name, each in self.takes.items() if each.slot == slot]


@dataclass(frozen=True, slots=True)
class Tools:
    """The tools of one coding agent, or of one MCP server.

    Attributes:
        name: of the agent or server.
        tools: by name.
        leaves: names of tools that do nothing by themselves.
        mcp: how the agent calls tools of MCP servers.
        typed_into: programs into which its agent may type, of which no hook would hear.
    """

    name: str
    tools: Mapping[str, Tool]
    leaves: frozenset[str] = frozenset()
    mcp: str = ""
    typed_into: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Catalog:
    """All that is known: the tools of agents and of MCP servers, each by name."""

    agents: Mapping[str, Tools]
    servers: Mapping[str, Tools]


@lru_cache(maxsize=1)
def load(folder: Path = _FOLDER) -> Catalog:
    """Return the catalog in a folder.

    Raises:
        ToolsError: a file of it can't be read, or says something that is not understood.
    """
    agents: dict[str, Tools] = {}
    servers: dict[str, Tools] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ToolsError(f"{path}: can't be read: {error}") from error
        tools, is_server = parse(text, str(path))
        found = servers if is_server else agents
        if tools.name in found:
            raise ToolsError(f"{path}:1: {tools.name} has a file already")
        found[tools.name] = tools
    for name, tools in agents.items():
        if len(tools.typed_into) == 1 and (other := agents.get(min(tools.typed_into))) is not None:
            agents[name] = replace(tools, typed_into=other.typed_into)
    return Catalog(agents, servers)


def parse(text: str, name: str) -> tuple[Tools, bool]:
    """Return what a file says, and whether it is about an MCP server.

    Args:
        name: of the file, for messages.

    Raises:
        ToolsError: it is not understood.
    """
    import yaml

    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise ToolsError(f"{name}:{line}: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise ToolsError(f"{name}: {error}") from error
    return _File(name).read(root)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file of the catalog. Reading it finds more than a schema can say.

    Example:
        >>> sorted(json_schema()["$defs"])
        ['Argument', 'Arguments', 'Slot', 'Tool']
    """

    def mapping(keys: Mapping[str, str], values: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        described = {key: {**values[key], "description": said} for key, said in keys.items()}
        return {"type": "object", "properties": described, "additionalProperties": False, **more}

    text = {"type": "string", "pattern": r"\S"}
    slots = [{"const": slot, "description": said} for slot, said in SLOTS.items()]
    many = {"type": "array", "minItems": 1, "maxItems": 1}
    named = {key: {"$ref": "#/$defs/Arguments"} for key in _ARGUMENT_KEYS}
    some = [{"required": [key]} for key in _ARGUMENT_KEYS]
    whole = mapping(_ARGUMENT_KEYS, named, anyOf=some)
    lists = {"anyOf": [each for each in slots if each["const"] not in _ONE_TEXT] + [whole]}
    tool = {**named, "needs": {"type": "array", "items": text, "minItems": 1}, "does": text, "changes": text}
    file = dict.fromkeys(_FILE_KEYS, text) | {
        "tools": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Tool"}},
        "mcp": {"type": "string", "pattern": _CALLED},
    }
    of_server = {"required": ["server", "tools"], "not": {"anyOf": [{"required": [k]} for k in ("agent", *_OF_AGENTS)]}}
    of_agent = {"required": ["agent", "mcp", "tools"], "not": {"required": ["server"]}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The tools of a coding agent or an MCP server",
        **mapping(_FILE_KEYS, file, oneOf=[of_agent, of_server]),
        "$defs": {
            "Slot": {"anyOf": slots},
            "Arguments": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Argument"}},
            "Argument": {"anyOf": [{"$ref": "#/$defs/Slot"}, whole, {**many, "items": lists}]},
            "Tool": mapping(_TOOL_KEYS, tool, anyOf=some),
        },
    }


class _File:
    """One file of the catalog, read strictly."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, root: Any) -> tuple[Tools, bool]:
        found = self._mapping(root, "the file")
        self._known(found, _FILE_KEYS, root)
        if ("agent" in found) == ("server" in found):
            raise self._error(root, "says either agent or server: whose tools these are")
        is_server = "server" in found
        for key in _OF_AGENTS:
            if is_server and key in found:
                raise self._error(found[key], f"{key} is for agents")
        mcp = self._text(found["mcp"]) if "mcp" in found else ""
        if not is_server and (mcp.count("{server}") > 1 or mcp.count("{tool}") != 1):
            raise self._error(
                found.get("mcp", root), "mcp says how the agent calls tools: with {server} and {tool}, or {tool} alone"
            )
        if "tools" not in found:
            raise self._error(root, "tools is missing")
        tools = {name: self._tool(name, node) for name, node in self._mapping(found["tools"], "tools").items()}
        leaves = self._names(found, "leaves")
        if twice := leaves & tools.keys():
            raise self._error(found["leaves"], f"{min(twice)} stands under tools as well")
        owner = self._text(found["server" if is_server else "agent"])
        return Tools(owner, tools, leaves, mcp, self._names(found, "typed_into")), is_server

    def _tool(self, name: str, node: Any) -> Tool:
        found = self._mapping(node, name)
        self._known(found, _TOOL_KEYS, node)
        takes = self._arguments(found, name, node)
        needs = tuple(self._list(found["needs"])) if "needs" in found else ()
        for each in needs:
            if each not in takes or not takes[each].optional:
                raise self._error(found["needs"], f"{name}: needs names {each}, and that is nothing that it may take")
        does = self._text(found["does"]) if "does" in found else ""
        changes = self._text(found["changes"]) if "changes" in found else ""
        try:
            re.compile(changes)
        except re.error as error:
            raise self._error(found["changes"], f"{name}: changes is no regular expression: {error}") from error
        for word in _WORD.findall(does):
            if word not in takes or takes[word].optional:
                raise self._error(found["does"], f"{name}: does names {word}, which is no argument that it takes")
        if does and any(each.slot not in ("data", "note", "sql") for each in takes.values()):
            raise self._error(found["does"], f"{name}: where it says what it does, its arguments are data or sql")
        if not does and any(each.slot == "sql" for each in takes.values()):
            raise self._error(node, f"{name}: does is missing: which program would run the sql")
        slots = {each.slot for each in takes.values()}
        for one, other in (("move", "to"), ("to", "move"), ("only", "pattern"), ("search", "pattern")):
            if one in slots and other not in slots:
                raise self._error(node, f"{name}: {one} stands beside {other}")
        return Tool(name, takes, needs, does, changes)

    def _arguments(self, found: Mapping[str, Any], where: str, node: Any) -> dict[str, Argument]:
        taken: dict[str, Argument] = {}
        for key in ("takes", "may_take"):
            for name, each in self._mapping(found[key], where).items() if key in found else ():
                if name in taken:
                    raise self._error(each, f"{where}: {name} stands under takes as well")
                taken[name] = self._argument(each, f"{where}: {name}", optional=key == "may_take")
        if not found.keys() & _ARGUMENT_KEYS.keys():
            raise self._error(node, f"{where}: takes is missing ({{}} where it takes nothing)")
        return taken

    def _argument(self, node: Any, where: str, *, optional: bool) -> Argument:
        import yaml

        many = isinstance(node, yaml.SequenceNode)
        inner = node.value[0] if many and len(node.value) == 1 else node
        if isinstance(inner, yaml.MappingNode):
            found = self._mapping(inner, where)
            self._known(found, _ARGUMENT_KEYS, inner)
            return Argument("", many=many, optional=optional, inner=self._arguments(found, where, inner))
        said = self._list(node) if many else [self._text(node)]
        if len(said) != 1 or said[0] not in SLOTS:
            raise self._error(node, f"{where}: {', '.join(said)!r} is no slot: {did_you_mean(said[0], SLOTS)}")
        if many and said[0] in _ONE_TEXT:
            raise self._error(node, f"{where}: {said[0]} is one text, and no list")
        return Argument(said[0], many=many, optional=optional)

    def _names(self, found: Mapping[str, Any], key: str) -> frozenset[str]:
        return frozenset(self._text(found[key]).split()) if key in found else frozenset()

    def _known(self, found: Mapping[str, Any], keys: Collection[str], node: Any) -> None:
        for key in found:
            if key not in keys:
                raise self._error(found[key] or node, f"{key} is not known: {did_you_mean(key, keys)}")

    def _mapping(self, node: Any, what: str) -> dict[str, Any]:
        import yaml

        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, f"{what}: names and values are expected here")
        found: dict[str, Any] = {}
        for key, value in self._pairs(node):
            if key in found:
                raise self._error(value, f"{key} stands here twice")
            found[key] = value
        return found

    def _pairs(self, node: Any) -> Iterator[tuple[str, Any]]:
        for key, value in node.value:
            yield self._text(key), value

    def _list(self, node: Any) -> list[str]:
        import yaml

        if not isinstance(node, yaml.SequenceNode) or not node.value:
            raise self._error(node, "a list is expected here")
        return [self._text(each) for each in node.value]

    def _text(self, node: Any) -> str:
        import yaml

        if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
            raise self._error(node, "a text is expected here")
        return str(node.value).strip()

    def _error(self, node: Any, message: str) -> ToolsError:
        line = node.start_mark.line + 1 if node is not None else 1
        return ToolsError(f"{self._name}:{line}: {message}")
