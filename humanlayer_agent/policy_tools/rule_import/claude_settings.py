"""Settings of Claude Code: `permissions.allow`, `ask` and `deny`.

Rules are `Tool` or `Tool(specifier)`. Of Bash the specifier is compared with each sub-command: `*` is any text, ` *`
and `:*` at the end also nothing; of Read and Edit it is a pattern as in .gitignore; of WebFetch `domain:NAME`.
Source: https://code.claude.com/docs/en/permissions.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy_tools.rule_import import COMMON_NOTES, Decision, Line, List, command_line
from humanlayer_agent.policy_tools.rule_import.command_patterns import CommandPattern, NotCarried, Word, parsed

TOOL = "Claude Code"
_NOTES = (
    "What Claude Code allows without a rule (reading in its folder, ls, git status and the like) is asked about here.",
    *COMMON_NOTES,
    "A deny of reading or editing holds for every command here, not only for the tools Read and Edit; one of reading "
    "also for what writes there.",
)
_RULE = re.compile(r"([A-Za-z_][A-Za-z0-9_*-]*)(?:\((.*)\))?", re.DOTALL)
_READS, _EDITS = ("read",), ("write", "append", "delete", "move", "metadata")
_TOOLS = {
    "Read": (["Read", "Grep", "Glob", "LS", "NotebookRead"], _READS),
    "Edit": (["Edit", "Write", "MultiEdit", "NotebookEdit"], _EDITS),
    "Task": (["Task", "Agent"], ()),
    "Agent": (["Task", "Agent"], ()),
}
_HARMLESS = frozenset({"additionalDirectories", "disableBypassPermissionsMode", "disableAutoMode"})
"""What of `permissions` refuses no call by itself."""
_MODES = ("default", "acceptEdits", "bypassPermissions", "auto")
"""Modes that refuse nothing."""
_STOPPING = frozenset(
    {"hooks", "sandbox", "ignorePatterns", "disabledMcpjsonServers", "allowedMcpServers", "deniedMcpServers"}
)
"""Settings beside `permissions` that may refuse calls."""
_NEVER_CONSULTED = ("Write", "MultiEdit", "NotebookEdit", "Glob", "Grep", "LS", "NotebookRead")


def read(text: str, name: str) -> List:
    """Return the list in a settings file.

    Raises:
        ConfigError: it is no such file.
    """
    try:
        settings = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise ConfigError(f"{name}:{line}: not JSON: {getattr(error, 'msg', error)}") from error
    permissions = settings.get("permissions") if isinstance(settings, dict) else None
    if not isinstance(permissions, dict):
        raise ConfigError(f"{name}:1: expected settings of Claude Code, with `permissions`")
    places = _Places(text)
    lines: list[Line] = []
    for decision in ("allow", "ask", "deny"):
        rules = permissions.get(decision, [])
        if not isinstance(rules, list):
            raise ConfigError(f"{name}:{places.line(decision, again=True)}: {decision}: expected a list of rules")
        places.line(decision, again=True)
        for rule in rules:
            number = places.line(rule)
            lines.append(_rule(number, str(rule), decision) if isinstance(rule, str) else _strange(number, rule))
    lines += _others(settings, places)
    return List(TOOL, lines, _NOTES, ("WebFetch", "mcp__*", *_TOOLS["Read"][0], *_TOOLS["Edit"][0]))


def _strange(number: int, rule: Any) -> Line:
    return Line(number, json.dumps(rule), problem="it is no text")


class _Places:
    """Where each text of a JSON file stands, to be asked for in their order."""

    def __init__(self, text: str) -> None:
        self._begins = [found.end() for found in re.finditer("\n", text)]
        self._found: dict[str, list[int]] = {}
        self._last = 0
        for found in re.finditer(r'"(?:[^"\\]|\\.)*"', text):
            self._found.setdefault(json.loads(found[0], strict=False), []).append(found.start())

    def line(self, text: Any, *, again: bool = False) -> int:
        """Return the line of the next place of a text; `again`: of its first."""
        places = self._found.get(text, []) if isinstance(text, str) else []
        at = 0 if again else bisect_right(places, self._last)
        if at < len(places):
            self._last = places[at]
        return bisect_right(self._begins, self._last) + 1


def _others(settings: dict[str, Any], places: _Places) -> Iterator[Line]:
    """What else may refuse calls. What is not known may, too."""
    for key, value in settings["permissions"].items():
        if key not in ("allow", "ask", "deny"):
            stops = key not in _HARMLESS and not (key == "defaultMode" and value in _MODES)
            problem = "it may refuse what no rule names" if stops else "it refuses nothing"
            problem += ": here, what no rule names asks"
            line = places.line(key, again=True)
            yield Line(line, f"{key}: {json.dumps(value)}", "deny" if stops else None, problem=problem)
    for key in settings.keys() & _STOPPING:
        problem = f"{key} may refuse calls, and is not read here"
        yield Line(places.line(key, again=True), f"{key}: {json.dumps(settings[key])}", "deny", problem=problem)


def _rule(number: int, text: str, decision: Decision) -> Line:
    found = _RULE.fullmatch(text.strip())
    if found is None:
        return Line(number, text, decision, problem="it is no rule: expected Tool or Tool(specifier)")
    tool, said = found[1], found[2]
    if said is not None and said.strip() in ("", "*"):
        said = None
    if tool == "Bash":
        return _bash(number, text, decision, said)
    if tool.startswith("mcp__"):
        return _mcp(number, text, decision, tool, said)
    if tool in ("Read", "Edit") and said is not None:
        return _files(number, text, decision, tool, said)
    if tool in _NEVER_CONSULTED and said is not None:
        return Line(number, text, decision, problem="Claude Code never consults it, but Read(...) and Edit(...)")
    if tool == "WebFetch" and said is not None:
        return _fetch(number, text, decision, said)
    if said is not None:
        return Line(number, text, decision, problem="what is in the brackets is not compared with anything we know")
    return _bare(number, text, decision, tool)


def _bash(number: int, text: str, decision: Decision, said: str | None) -> Line:
    if said is None:
        return Line(number, text, decision, problem="it is about every command; say it by `defaults` of a policy")
    try:
        return command_line(number, text, decision, [pattern(said)])
    except NotCarried as why:
        return Line(number, text, decision, problem=str(why))


def pattern(said: str) -> CommandPattern:
    """Return the pattern of a Bash rule.

    Raises:
        NotCarried: it is no plain command.
    """
    if said.endswith(":*"):
        said = f"{said[:-2]} *"
    found = parsed(said)
    if found.open and not said.endswith(" *") and any(len(word.pieces) > 1 for word in found.words[:-1]):
        return CommandPattern(found.words, open=True)
    return found


def _mcp(number: int, text: str, decision: Decision, tool: str, said: str | None) -> Line:
    if said is not None:
        return Line(number, text, decision, problem="what is in the brackets is not compared with anything we know")
    parts = tool.split("__")
    if decision == "allow" and ("*" in parts[1] or not parts[1]):
        return Line(number, text, decision, problem="Claude Code skips an allow that names no server")
    name = tool if len(parts) > 2 else f"{tool}__*"
    return Line(number, text, decision, ({"tool": name},), matches=(f"{name.replace('*', 'x')}({{}})",))


def _bare(number: int, text: str, decision: Decision, tool: str) -> Line:
    tools, kinds = _TOOLS.get(tool, ([tool], ()))
    if decision != "allow" or not kinds:
        effects = {"tool": tools, "effect": ["network"]} if tool == "WebFetch" and decision == "allow" else None
        return Line(number, text, decision, ({"tool": tools},), effects)
    return Line(number, text, decision, ({"tool": tools, "effect": list(kinds)},))


def _fetch(number: int, text: str, decision: Decision, said: str) -> Line:
    host = said.removeprefix("domain:").strip()
    if not said.startswith("domain:") or not re.fullmatch(r"(\*\.)?[A-Za-z0-9.-]+", host):
        return Line(number, text, decision, problem="expected domain:NAME")
    call = f'WebFetch({{"url": "https://{host.replace("*", "www")}/", "prompt": "x"}})'
    when = {"tool": "WebFetch", "effect": "network", "hosts": {"any_in": [host]}}
    return Line(number, text, decision, (when,), matches=(call,))


def _files(number: int, text: str, decision: Decision, tool: str, said: str) -> Line:
    try:
        paths = path_patterns(said)
    except NotCarried as why:
        return Line(number, text, decision, problem=str(why))
    tools, kinds = _TOOLS[tool]
    if decision == "deny":
        kinds = tuple(dict.fromkeys((*kinds, *_EDITS)))  # a deny of reading keeps its tools from writing there, too
    if decision == "allow":
        when = {"tool": tools, "effect": list(kinds), "paths": {"all_within": paths}}
    else:
        when = {"effect": list(kinds), "paths": {"any_within": paths}}
    shown = [_call(tool, each) for each in (paths[0].replace("**", "a").replace("*", "a"), "some/other.file")]
    return Line(number, text, decision, (when,), matches=(shown[0],), others=(shown[1],))


def _call(tool: str, path: str) -> str:
    given = {"file_path": path.removeprefix("${PROJECT}/")}
    return f"{tool}({json.dumps(given | ({'old_string': 'a', 'new_string': 'b'} if tool == 'Edit' else {}))})"


def path_patterns(said: str) -> list[str]:
    """Return our patterns for one as .gitignore has them, relative to the project where it is.

    Raises:
        NotCarried: it has what ours do not.
    """
    if any(c in said for c in "[]!\\\n") or "$" in said:
        raise NotCarried("its pattern has [ ], !, $ or \\, which paths of ours do not")
    if said.startswith("//"):
        start, rest = "/", said[2:]
    elif said.startswith("~/"):
        start, rest = "~/", said[2:]
    else:
        start, rest = "${PROJECT}/", said.removeprefix("./").lstrip("/")
        if "/" not in said.rstrip("/"):
            start = "${PROJECT}/**/"  # a name without a slash is found at any depth
    if ".." in rest.split("/") or not rest.strip("/") or said == "~":
        raise NotCarried("its pattern leads above where it starts")
    rest = rest.rstrip("/")
    found = [f"{start}{rest}"] + ([] if rest.endswith("**") else [f"{start}{rest}/**"])
    return [each.replace("/**/**", "/**") for each in found]


__all__ = ["TOOL", "Word", "path_patterns", "pattern", "read"]
