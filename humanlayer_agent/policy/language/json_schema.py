"""The JSON Schema of files that pydantic checks, for editors: it completes keys, and says what each is for.

What it rejects the program rejects as well. The program rejects more: whatever no JSON Schema can say.
"""

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel

from humanlayer_agent.policy.language.field_types import DURATION_SCHEMA, Written

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(model: type[BaseModel], title: str) -> dict[str, Any]:
    """Return the JSON Schema of a file.

    Args:
        model: what the file is checked by.
        title: what the file is, for people.

    Example:
        >>> from humanlayer_agent.policy.language.schema import PolicyFile
        >>> sorted(json_schema(PolicyFile, "A policy")["required"])
        ['policy', 'version']
    """
    found = model.model_json_schema(by_alias=True)
    parts: dict[str, Any] = found.pop("$defs", {})
    for name, kind in _kinds(model, parts).items():
        _describe(parts[name], dict(_texts(kind)))
        if issubclass(kind, Written):
            whole = {**parts[name], **({"minProperties": kind.FEWEST} if kind.FEWEST else {})}
            parts[name] = {"anyOf": [whole, *kind.SHORT]} if kind.SHORT else whole
    _describe(found, dict(_texts(model)))
    return {"$schema": DIALECT, **_tidy({**found, "$defs": parts}), "title": title}


def _kinds(model: type[BaseModel], names: Mapping[str, Any]) -> dict[str, type]:
    """The classes of a schema's definitions, which stand in the module of the model, or in one that it imports from."""
    home = vars(sys.modules[model.__module__])
    modules = [home] + [vars(sys.modules[each.__module__]) for each in home.values() if inspect.isclass(each)]
    return {name: kind for name in names for each in modules if inspect.isclass(kind := each.get(name))}


def _texts(kind: type) -> Iterator[tuple[str, str]]:
    """The keys of a class, and the text that stands below each in its source."""
    spelled = getattr(kind, "__pydantic_config__", {}).get("alias_generator", str)
    for base in reversed(kind.__mro__):
        for name, text in _fields(base.__module__).get(base.__qualname__, ()):
            yield spelled(name), text


@cache
def _fields(module: str) -> dict[str, list[tuple[str, str]]]:
    """The fields of each class of a module, and the text that stands below each. The source is read once for all."""
    try:
        source = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):  # one of Python's own
        return {}
    found: dict[str, list[tuple[str, str]]] = {}
    for kind in (each for each in source.body if isinstance(each, ast.ClassDef)):
        for each, after in pairwise(kind.body):
            match each, after:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found.setdefault(kind.name, []).append((name, " ".join(text.split())))
    return found


def _describe(part: dict[str, Any], texts: Mapping[str, str]) -> None:
    for key, value in part.get("properties", {}).items():
        if key in texts:
            value["description"] = texts[key]


def _tidy(schema: Any) -> Any:
    """The schema without pydantic's titles, and without defaults that no file has: none, and durations in ms."""
    if isinstance(schema, list):
        return [_tidy(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    if "patternProperties" in kept:  # what a key may be, and not what some of them are
        kept.setdefault("additionalProperties", False)
    default = kept.get("default", "")
    if default is None or (isinstance(default, int) and DURATION_SCHEMA.items() <= kept.items()):
        del kept["default"]
    return {
        key: {name: _tidy(each) for name, each in value.items()} if key in ("properties", "$defs") else _tidy(value)
        for key, value in kept.items()
    }
