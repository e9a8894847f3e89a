"""YAML read strictly: plain data with the position of every value, no duplicate keys, bounded size.

What a schema found wrong with a YAML document, said at its place in the file.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ValidationError

from humanlayer_agent.errors import PolicyError, did_you_mean
from humanlayer_agent.policy.language.field_types import Written, keys_of
from humanlayer_agent.policy.language.sources import MAX_BYTES

MAX_NODES = 20_000
MAX_DEPTH = 32
MAX_NUMBER = 40
_COLLECTIONS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")
Key = str | int


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a value: line and column count from 1; `width` is its length in its first line."""

    line: int
    column: int
    width: int = 1


@dataclass(frozen=True, slots=True)
class Document:
    """`data` is the content; `positions` the place of every value (and, under (*path, KEY), of every key) by path."""

    name: str
    text: str
    data: Any
    positions: dict[tuple[Key, ...], Position]

    def error(self, path: tuple[Key, ...], message: str) -> PolicyError:
        """A PolicyError that points at the value at `path` (or the nearest one around it that has a place)."""
        while path and path not in self.positions:
            path = path[:-1]
        return PolicyError(located(self.name, self.text, self.positions.get(path, Position(1, 1)), message))


def located(name: str, text: str, at: Position, message: str) -> str:
    """`file:line:column: message`, then the line itself with the place marked."""
    lines = text.split("\n")
    shown = lines[at.line - 1] if at.line <= len(lines) else ""
    width = max(1, min(at.width, len(shown) - at.column + 1))
    mark = " " * (at.column - 1) + "^" * width
    return f"{name}:{at.line}:{at.column}: {_printable(message)}\n    {_printable(shown[:160])}\n    {mark[:160]}"


def _printable(text: str) -> str:
    """A file may come from a repository: what it quotes must not act on the screen that shows the message."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def decode(raw: bytes, name: str) -> Document:
    """Parse the bytes of a YAML file; `name` stands in messages. Raises PolicyError with file, line and column."""
    if len(raw) > MAX_BYTES:
        raise PolicyError(f"{name}: too large: at most {MAX_BYTES} bytes are read")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PolicyError(f"{name}: byte {error.start} is not UTF-8") from error
    return parse(text, name)


def parse(text: str, name: str) -> Document:
    """Parse YAML `text`; `name` stands in messages."""
    import yaml

    try:
        _check_size(text, name)
        root = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = Position(mark.line + 1, mark.column + 1) if mark else Position(1, 1)
        raise PolicyError(located(name, text, at, f"not YAML: {error.problem or error}")) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PolicyError(f"{name}: not YAML: {error}") from error
    if root is None:
        raise PolicyError(f"{name}:1:1: the file is empty")
    positions: dict[tuple[Key, ...], Position] = {}
    builder = _Builder(name, text, positions)
    return Document(name, text, builder.build(root, ()), positions)


def _check_size(text: str, name: str) -> None:
    """Refuse what is nested too deep before it is composed: that recurses in C, and would end the process."""
    import yaml

    depth = 0
    for count, event in enumerate(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH or count > 2 * MAX_NODES:
            raise PolicyError(located(name, text, _place(event), "too large or too deep"))


def _place(node: Any) -> Position:
    """Return the position of a composed node; what spans lines is marked to the end of its first."""
    start, end = node.start_mark, node.end_mark
    width = end.column - start.column if end.line == start.line else 10_000
    return Position(start.line + 1, start.column + 1, width)


class _Builder:
    """Turns composed nodes into data; every node is visited as often as aliases repeat it, and counted."""

    def __init__(self, name: str, text: str, positions: dict[tuple[Key, ...], Position]) -> None:
        self.name, self.text, self.positions = name, text, positions
        self.count = 0
        self.open: set[int] = set()

    def fail(self, node: Any, message: str) -> PolicyError:
        return PolicyError(located(self.name, self.text, _place(node), message))

    def build(self, node: Any, path: tuple[Key, ...]) -> Any:
        import yaml

        self.count += 1
        if self.count > MAX_NODES or len(path) > MAX_DEPTH:
            raise self.fail(node, "too large or too deep (aliases count each time)")
        self.positions[path] = _place(node)
        if id(node) in self.open:
            raise self.fail(node, "an alias that contains itself")
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.CollectionNode) and node.tag not in _COLLECTIONS:
                raise self.fail(node, f"the tag {node.tag} is not read here")
            if isinstance(node, yaml.MappingNode):
                return dict(self.pairs(node, path))
            if isinstance(node, yaml.SequenceNode):
                return [self.build(item, (*path, n)) for n, item in enumerate(node.value)]
            return self.scalar(node)
        finally:
            self.open.discard(id(node))

    def pairs(self, node: Any, path: tuple[Key, ...]) -> Iterator[tuple[str, Any]]:
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key = getattr(key_node, "value", None)
            if not isinstance(key, str):
                raise self.fail(key_node, "a key must be a plain word")
            if key == "<<":
                raise self.fail(key_node, "merge keys (<<) are not read here: write the keys out")
            if key in seen:
                raise self.fail(key_node, f"the key {key!r} stands here twice")
            seen.add(key)
            value = self.build(value_node, (*path, key))
            self.positions[(*path, key, "\0key")] = _place(key_node)
            yield key, value

    def scalar(self, node: Any) -> Any:
        if node.tag == "tag:yaml.org,2002:str":  # most of them; a loader of its own for each took half of the time
            return node.value

        import yaml

        if node.tag not in (
            "tag:yaml.org,2002:int",
            "tag:yaml.org,2002:bool",
            "tag:yaml.org,2002:null",
            "tag:yaml.org,2002:float",
        ):
            if node.tag == "tag:yaml.org,2002:timestamp":
                return node.value
            raise self.fail(node, f"the tag {node.tag} is not read here")
        if node.tag.endswith((":int", ":float")) and len(node.value) > MAX_NUMBER:
            raise self.fail(node, f"a number of more than {MAX_NUMBER} characters")
        try:
            return yaml.SafeLoader("").construct_object(yaml.ScalarNode(node.tag, node.value))
        except (ValueError, yaml.YAMLError) as error:
            raise self.fail(node, f"{node.value!r}: {error}") from error


Known = type[BaseModel] | type[Written]


def explained(document: Document, error: ValidationError, model: type[BaseModel]) -> PolicyError:
    """The first mistake, at its place in the file. `model` is what the whole document was checked against."""
    # Where a key may be a text or a mapping (the route of a rule), and it is a mapping, the text is not what was meant;
    # nor a list, where it may be one (signers).
    other = ("string_type", "list_type")
    found = [each for each in error.errors() if not (each["type"] in other and isinstance(each["input"], dict))]
    found = found or error.errors()
    first = next((each for each in found if _is_misspelled(each, found)), found[0])
    loc = tuple(part for part in first["loc"] if part != "RaisedRoute")
    if loc[:1] == ("lists",):
        loc = loc[:2] + loc[3:]  # without the tag of what it was taken for
    path = tuple(p for p in loc if isinstance(p, int) or not str(p).startswith(("function-", "list[")))
    path = _without_tags(document.data, path) or loc[:1]  # a key that is called like one of pydantic's own steps
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] in _UNKNOWN:
        key = str(path[-1])
        path = (*path, "\0key")
        message = f"unknown key {key!r}; {did_you_mean(key, _known_keys(loc, model), 'known here:')}"
    elif first["type"] == "missing":
        message = f"the key {path[-1]!r} is missing"
        path = path[:-1]
    elif first["type"] in _MESSAGES:
        message = _MESSAGES[first["type"]]
    elif first["type"] == "union_tag_invalid":
        message = f"{first['ctx']['tag']!r}: {_meant(first['ctx']['tag'], first['ctx']['expected_tags'])}"
    elif loc[:1] == ("signers",) and path[-1] not in _FORMS and first["type"] == "string_pattern_mismatch":
        message = f"{first['input']!r} is no key's fingerprint: 64 digits and letters a to f, as hla init prints it"
    elif first["type"] == "string_pattern_mismatch" and (form := _form(path)):
        message = f"{first['input']!r} is not written as expected: {form}"
    elif "literal" in first["type"]:
        message = f"{first['input']!r}: {_meant(str(first['input']), first['ctx']['expected'])}"
    return document.error(path, message)


def _without_tags(data: Any, path: Sequence[int | str]) -> tuple[int | str, ...]:
    """Return a path without the steps that no file has: what a value was taken for, as the type of a channel says."""
    found: list[int | str] = []
    for number, part in enumerate(path):
        if isinstance(data, dict) and part not in data and number < len(path) - 1:
            continue
        found.append(part)
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            data = None
    return tuple(found)


def _form(path: Sequence[Any]) -> str:
    """What is expected at a path, for people; "" where only its pattern says so."""
    return _FORMS.get(next((str(part) for part in reversed(path) if not isinstance(part, int)), ""), "")


_FORMS = {
    "at": "a time of day with two digits each, as 09:00",
    "hours": "from and to, with two digits each, as 08:00-18:00",
    "days": "a day or days, as mon or mon-fri",
    "tz": "a time zone, as Europe/Berlin",
    "fleet": "a name in small letters, digits, dots and hyphens",
    "from": "a file (/ or ~/), https://HOST/PATH, or git+https://HOST/REPOSITORY#BRANCH:PATH",
    "sha256": "64 digits and letters a to f, as sha256sum prints them",
}


def _is_misspelled(one: Any, all_: Sequence[Any]) -> bool:
    """Tell whether an unknown key is what was written for one that is missing beside it."""
    if one["type"] not in _UNKNOWN:
        return False
    missing = [
        str(each["loc"][-1]) for each in all_ if each["type"] == "missing" and each["loc"][:-1] == one["loc"][:-1]
    ]
    return bool(did_you_mean(str(one["loc"][-1]), missing, ""))


def _meant(word: str, expected: str) -> str:
    """Return the hint for a word that is none of those that were expected."""
    return did_you_mean(word, _QUOTED.findall(expected), "") or f"expected {expected}"


_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_QUOTED = re.compile(r"'([^']*)'")
_MESSAGES = {
    "dataclass_type": "Input should be a mapping",
    "model_type": "Input should be a mapping",
    "tuple_type": "Input should be a valid list",
}
"""What pydantic would say with the names of our classes, and of Python's types."""


def _known_keys(location: tuple[Any, ...], model: Known) -> list[str]:
    among: Any = None
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        if (tagged := _tagged(among, str(part))) is not None:
            model = tagged
        elif (found := keys_with_types(model).get(part)) is not None:
            among, model = found, _model_in(found) or model
    return sorted(keys_with_types(model))


def _tagged(annotation: Any, tag: str) -> type[BaseModel] | None:
    """Return the one of several classes whose `type` is that."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        kind = annotation.model_fields.get("type")
        return annotation if kind is not None and getattr(kind.annotation, "__args__", ()) == (tag,) else None
    inner = getattr(annotation, "__args__", ())
    return next((found for each in inner if (found := _tagged(each, tag)) is not None), None)


def keys_with_types(model: Known) -> dict[str, Any]:
    """Return the keys of a class in their order, with what each takes."""
    hints = get_type_hints(model)
    if issubclass(model, BaseModel):
        return {each.alias or name: hints[name] for name, each in model.model_fields.items()}
    return {key: hints[name] for key, name in keys_of(model).items()}


def _model_in(annotation: Any) -> Known | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel | Written):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (found := _model_in(inner)) is not None:
            return found
    return None
