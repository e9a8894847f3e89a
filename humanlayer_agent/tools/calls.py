"""Calls of tools: each as the shell command that does the same, so that the rules judge it as that.

A call of which all is known is judged as its command alone. One that takes something nobody knows, and one of an MCP
server, of which the name is all that vouches for it, is judged as a call, by its name and what it is given, and by what
is known of it as well.
"""

import itertools
import json
import re
import shlex
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from humanlayer_agent.action import FUNCTION, Action, called, tool_arguments
from humanlayer_agent.tools.catalog import Argument, Catalog, Tool, Tools, load

Kind = Literal["command", "touch", "call", "leave"]

_BLANKS = "\t\n\v\f\r \x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(
    map(chr, range(0x2000, 0x200B))
)
"""What is taken away at both ends by the `trim` of JavaScript or Rust, or Python's `strip`."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S*|\b(?:https?|wss?|ftp|file|data|javascript|blob):\S+", re.IGNORECASE)
"""What a program may take for an address in a text: not each word that ends in a colon."""
_PLAIN_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[\w.:~/?#%&=+,;()!*$-]+", re.IGNORECASE | re.ASCII)
"""An address that every program understands in one way: no name of a user, no backslash, no quotes."""
_PATCHED = re.compile(r"^\s*\*\*\*\s*(Add File|Update File|Delete File|Move to)\s*:[ \t]?(.*)$", re.MULTILINE)
_HEADER = re.compile(
    r"\s*\*\*\*\s*(?:(?:Add File|Update File|Delete File|Move to)\s*:.*|(?:Begin|End) Patch|End of File)\s*"
)
_WILD = re.compile(r"[*?\[{]")
_ASTRAY = re.compile(r"(?:^|/)\.\.(?:/|$)|\{[^}]*(?:/|\.\.)")
"""What leads out of the folder before the first wildcard of a pattern."""
_WORD = re.compile(r"\{([^{}]*)\}")
_CALLED = re.compile(r"(?P<name>[\w.:-]+(?:/[\w.:-]+)*)\((?P<given>\{.*\})\)", re.DOTALL)


class NotACall(Exception):
    """Raised for a call that lacks what its tool needs, or has it in another form: the tool can't make it either."""


@dataclass(frozen=True, slots=True)
class Call:
    """What is known of a call.

    Attributes:
        kind: command (it runs a command, and that is all), touch (it reads, writes or fetches something), call (its
            name is all that is known for certain), leave (it does nothing by itself).
        text: the shell command that does the same, as far as it is known.
        doubts: what is not understood of it, each as a sentence without its full stop.
        directory: the directory it names to work in; "" where it names none.
        unsandboxed: it is to run outside of the agent's own sandbox.
        notes: names of arguments that don't belong to what is done.
        shell: a shell runs some of it, and no tool of the agent all of it.
    """

    kind: Kind
    text: str = ""
    doubts: tuple[str, ...] = ()
    directory: str = ""
    unsandboxed: bool = False
    notes: frozenset[str] = frozenset()
    shell: bool = False


def call_of(agent: str, name: str, given: Mapping[str, Any], catalog: Catalog | None = None) -> Call:
    """Return what a call of an agent does.

    Args:
        agent: whose call it is, as `hla hook` names it; "" where nobody says: then it is each that knows such a tool.
        name: of the tool, exactly as the agent says it.
        given: its arguments.

    Raises:
        NotACall: what it is given is of another form than the tool takes.

    Example:
        >>> call_of("claude-code", "Write", {"file_path": "a b.txt", "content": ""}).text
        "> 'a b.txt'"
        >>> call_of("claude-code", "write", {"file_path": "a"}).kind
        'call'
    """
    catalog = load() if catalog is None else catalog
    tables = [catalog.agents[agent]] if agent in catalog.agents else [] if agent else list(catalog.agents.values())
    if known := [each.tools[name] for each in tables if name in each.tools]:
        readings = _readings(known, given)
        return _all_of([each for each in readings if not each.doubts] or readings)
    if any(name in each.leaves for each in tables):
        return Call("leave")
    if not (served := [tool for each in tables for tool in _served(each, name, catalog)]):
        return Call("call")
    both = _all_of(_readings(served, given))
    return Call("call", both.text, both.doubts)


def _served(table: Tools, name: str, catalog: Catalog) -> Iterator[Tool]:
    """The tools of MCP servers that an agent may mean by a name."""
    for server in catalog.servers.values():
        for tool in server.tools.values():
            if name == table.mcp.replace("{server}", server.name).replace("{tool}", tool.name):
                yield tool


def _readings(tools: Sequence[Tool], given: Mapping[str, Any]) -> list[Call]:
    """What a call does, by each tool that it may be a call of."""
    found, wrong = [], None
    for tool in tools:
        try:
            found.append(_reading(tool, given))
        except NotACall as error:
            wrong = wrong or error
    if not found and wrong is not None:
        raise wrong
    return found


def _all_of(calls: Sequence[Call]) -> Call:
    """All that the same call may do, where several agents have such a tool."""
    first = calls[0]
    if len(calls) == 1:
        return first
    kinds = {each.kind for each in calls}
    doubts = tuple(dict.fromkeys(doubt for each in calls for doubt in each.doubts))
    return Call(
        first.kind if len(kinds) == 1 else "touch",
        "; ".join(dict.fromkeys(each.text for each in calls if each.text)),
        doubts,
        next((each.directory for each in calls if each.directory), ""),
        any(each.unsandboxed for each in calls),
        frozenset.intersection(*(each.notes for each in calls)),
        any(each.shell for each in calls),
    )


def written(text: str, *, cwd: str = "") -> Action:
    """Return the action that a test of a policy, or a human who tries one, has written down: the call of a tool, which
    no shell would take for a command, else a command. A call of a tool that is known is judged as what it does, as
    where an agent makes it.

    Args:
        text: the name of a tool, and in parentheses what it is given as a JSON object; or a command line.
        cwd: the absolute directory that it starts in.

    Example:
        >>> written('mcp__forge__close({"issue": 12})').tool
        'mcp__forge__close'
        >>> written('Write({"file_path": "/etc/hosts", "content": ""})').content
        '> /etc/hosts'
        >>> written("ls -la").type
        'bash'
    """
    match = _CALLED.fullmatch(text)
    try:
        given = loaded(match["given"]) if match is not None else None
        arguments = tool_arguments(given) if isinstance(given, dict) else ""
    except (ValueError, RecursionError):
        return Action(text, cwd=cwd)
    if match is None or not isinstance(given, dict):
        return Action(text, cwd=cwd)
    name = match["name"]
    try:
        call = call_of("", name, given)
    except NotACall:
        call = Call("call")
    if call.kind in ("command", "touch") and not call.doubts:
        place = f"{cwd}/{call.directory}" if call.directory and not call.directory.startswith("/") else call.directory
        return Action(call.text, cwd=place or cwd, tool=name, arguments=arguments)
    return Action(text, type=FUNCTION, cwd=cwd, interpreter=("tool", "call"), tool=name, arguments=arguments)


def known_effects(agent: str, name: str, arguments: str) -> tuple[str, tuple[str, ...]]:
    """Return what is known of a call that is judged by its name: a shell command, and what is not understood of it.

    Args:
        agent: whose call it is; "" where nobody says.
        name: of the tool.
        arguments: as `tool_arguments` writes them.
    """
    catalog = load()
    try:
        given = json.loads(arguments or "{}")
        call = call_of(
            agent if agent in catalog.agents else "", name, given if isinstance(given, dict) else {}, catalog
        )
    except NotACall as error:
        return "", (str(error),)
    except (ValueError, RecursionError):
        return "", (f"what {name} is given can't be read",)
    return call.text, call.doubts


def loaded(text: str | bytes) -> Any:
    """Return what JSON says, read strictly: a key that stands twice in an object means one thing to one program, and
    another to the next. Bytes are UTF-8, and may begin with a mark that says so.

    Raises:
        ValueError: it is no JSON, or not of that kind.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    return json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in an object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def shown(name: str, given: Mapping[str, Any]) -> str:
    """Return a call as it is shown: its name, and all that it is given.

    Raises:
        NotACall: that can't be shown to a human.

    Example:
        >>> shown("mcp__forge__close", {"issue": 12})
        'mcp__forge__close({"issue": 12})'
    """
    try:
        return called(name, given).content
    except ValueError as error:
        raise NotACall(str(error)) from None


def spellings(path: str) -> list[str]:
    """Return the words by which a shell finds every file that a tool may take `path` for.

    Tools open it as it is written, or (some versions of Claude Code) without the blanks around it, with `~/` for the
    home directory, and composed (Unicode's NFC). Which of it they do we can't tell: what is true of one counts.

    Example:
        >>> spellings("~/.ssh/config")
        ["'~/.ssh/config'", '~/.ssh/config']
    """
    trimmed = path.strip(_BLANKS)
    words = [shlex.quote(each) for each in dict.fromkeys((path, trimmed or ".", unicodedata.normalize("NFC", trimmed)))]
    if trimmed == "~" or trimmed.startswith("~/"):
        words += [f"~/{shlex.quote(trimmed[2:])}" if trimmed[2:] else "~/"]
    return words


def _reading(tool: Tool, given: Mapping[str, Any]) -> Call:
    """What a call of a known tool does.

    Raises:
        NotACall: what it is given is of another form than the tool takes.
    """
    found: dict[str, list[str]] = {}
    doubts: list[str] = []
    flags = _collect(tool.name, tool.takes, given, found, doubts)
    if tool.needs and not any(given.get(name) is not None for name in tool.needs):
        raise NotACall(f"the call has no {' or '.join(tool.needs)}")
    places = found.get("directory") or [""]
    if len(set(places)) > 1 or places[0] != places[0].strip(_BLANKS) or places[0].startswith("~"):
        doubts.append(f"in which directory {tool.name} works is not known")
    doubts += _changed(tool, found)
    text = _templated(tool, given) if tool.does else "; ".join(filter(None, (make(found) for make in _MAKERS)))
    return Call(
        "command" if tool.runs else "touch",
        text,
        tuple(doubts),
        places[0],
        flags,
        frozenset(tool.named("note")),
        bool(found.get("bash")),
    )


def _changed(tool: Tool, found: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield where an agent may read something else out of a call than stands in it."""
    commands = found.get("bash", [])
    if any(each.strip(_BLANKS) != each.strip(" \t\n") for each in commands):
        yield f"{tool.name} may take away characters at the ends of the command"
    if tool.changes and any(re.search(tool.changes, each) for each in commands):
        yield f"{tool.name} makes another command of one that names a shell"
    if len(commands) > 1 and any("<<" in each for each in commands):
        yield f"{tool.name} may join its commands to one, from << on"
    lines = [line for text in found.get("patch", ()) for line in re.split(r"[\r\n]+", text)]
    if any(line.strip(_BLANKS).startswith("***") and not _HEADER.fullmatch(line) for line in lines):
        yield f"the patch of {tool.name} has a line that is no header as they are known"


def _collect(
    tool: str, takes: Mapping[str, Argument], given: Mapping[str, Any], found: dict[str, list[str]], doubts: list[str]
) -> bool:
    """Sort what a call is given by slot; tells whether it is to run outside of the agent's sandbox."""
    unsandboxed = False
    for name in given:
        if name not in takes and given[name] is not None:
            doubts.append(f"what {tool} takes as {_printable(name)} is not known")
    for name, argument in takes.items():
        value = given.get(name)
        if value is None:
            if not argument.optional:
                raise NotACall(f"the call has no {name}")
            if argument.slot in ("list", "search", "folder"):
                found.setdefault(argument.slot, [])
        elif argument.inner:
            for each in value if argument.many and isinstance(value, list) else [value]:
                if not isinstance(each, Mapping):
                    raise NotACall(f"{name} is no object")
                unsandboxed |= _collect(tool, argument.inner, each, found, doubts)
        elif argument.slot == "unsandboxed":
            unsandboxed |= value is not False
        elif argument.slot not in ("data", "note", "sql"):
            found.setdefault(argument.slot, []).extend(_texts(name, argument, value))
    return unsandboxed


def _texts(name: str, argument: Argument, value: Any) -> list[str]:
    texts = value if argument.many and isinstance(value, list) else [value]
    if not all(isinstance(each, str) for each in texts) or (not texts and not argument.optional):
        raise NotACall(f"{name} is no text")
    return texts


def _templated(tool: Tool, given: Mapping[str, Any]) -> str:
    """The command that a tool says it does, with what the call is given in it."""

    def word(match: re.Match[str]) -> str:
        name = match[1]
        texts = _texts(name, Argument("data", many=tool.takes[name].many), given.get(name))
        return " ".join(map(shlex.quote, texts))

    return _WORD.sub(word, tool.does)


def _printable(text: str) -> str:
    return "".join(each if each.isprintable() else "?" for each in text)[:100]


# ---- what stands for a slot, as a shell command


def _words(paths: Sequence[str]) -> str:
    return " ".join(word for path in paths for word in spellings(path))


def _for_each(slot: str, command: str) -> Callable[[Mapping[str, list[str]]], str]:
    return lambda found: f"{command} {_words(found[slot])}" if found.get(slot) else ""


def _run(found: Mapping[str, list[str]]) -> str:
    """Several commands are run one by one, each by a bash of its own."""
    commands = found.get("bash", [])
    return commands[0] if len(commands) == 1 else "; ".join(f"bash -c {shlex.quote(each)}" for each in commands)


def _written(found: Mapping[str, list[str]]) -> str:
    return " ".join(f"> {word}" for path in found.get("write", ()) for word in spellings(path))


def _moved(found: Mapping[str, list[str]]) -> str:
    if not found.get("move") or not found.get("to"):
        return ""
    pairs = itertools.product(spellings(found["move"][0]), spellings(found["to"][0]))
    return "; ".join(f"mv -T -- {source} {target}" for source, target in pairs)


def _listed(found: Mapping[str, list[str]]) -> str:
    return f"ls -- {_words(found['list'] or ['.'])}" if "list" in found else ""


def _searched(found: Mapping[str, list[str]]) -> str:
    if not found.get("pattern"):
        return ""
    # One pattern, or several with blanks or commas between them.
    several = [piece for each in found.get("only", ()) for piece in (each, *re.split(r"[\s,]+", each))]
    files = [each.rpartition("/")[2] for each in several if not each.startswith("!")]
    names = dict.fromkeys("*" if each in ("", "**") else each for each in files)
    options = "".join(f"--include={shlex.quote(each)} " for each in names)
    patterns = " ".join(f"-e {shlex.quote(each)}" for each in found["pattern"])
    return f"grep -r {options}{patterns} -- {_words(found.get('search') or ['.'])}"


def _named(found: Mapping[str, list[str]]) -> str:
    """Names below a folder are told. A pattern may lead elsewhere: /etc/*, ../*, and nobody knows where: */../../*."""
    if "names" not in found and "folder" not in found:
        return ""
    pattern = (found.get("names") or ["*"])[0]
    fixed = _WILD.split(pattern, maxsplit=1)[0].rpartition("/")[0] if "/" in pattern else ""
    if _ASTRAY.search(pattern[len(fixed) :]):
        return f'find "$FOLDER" -path {shlex.quote(pattern)}'
    folders = [fixed or "/"] if pattern.startswith("/") else found.get("folder") or ["."]
    if fixed and not pattern.startswith("/"):
        folders = [f"{each}/{fixed}" for each in folders]
    words = [word for each in folders for word in spellings(each)]
    words = [
        word if word.lstrip("'").startswith(("/", "~", ".")) else f"./{word}" for word in words
    ]  # -delete is an option
    return f"find {' '.join(words)} -path {shlex.quote(pattern)}"


def _patched(found: Mapping[str, list[str]]) -> str:
    if not found.get("patch"):
        return ""
    files = [pair for text in found["patch"] for pair in _PATCHED.findall(text)]
    if not files:
        raise NotACall("the patch names no file")
    written = " ".join(f"> {word}" for _, file in files for word in spellings(file))
    gone = [file for what, file in files if what == "Delete File"]
    gone += [file for (_, file), (then, _) in itertools.pairwise(files) if then == "Move to"]
    return "; ".join(filter(None, (written, f"rm -f -- {_words(gone)}" if gone else "")))


def _contacted(found: Mapping[str, list[str]]) -> str:
    """Whoever fetches something may be led elsewhere by the answer: a browser is, and some of the tools are."""
    if "url" not in found and "urls" not in found:
        return ""
    in_texts = [each for text in found.get("urls", ()) for each in _ADDRESS.findall(text)]
    addresses = [*found.get("url", ()), *in_texts]
    if not addresses or not all(map(_PLAIN_ADDRESS.fullmatch, addresses)):
        return 'curl -L -- "$ADDRESS"'
    return f"curl -gL -- {' '.join(map(shlex.quote, addresses))}"


_MAKERS: tuple[Callable[[Mapping[str, list[str]]], str], ...] = (
    _run,
    _written,
    _patched,
    _for_each("delete", "rm -rf --"),
    _for_each("make", "mkdir -p --"),
    _moved,
    _for_each("read", "cat --"),
    _listed,
    _searched,
    _named,
    _contacted,
)
"""What is done by the arguments of each slot, in the order in which it is said."""
