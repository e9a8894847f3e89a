"""Is what a command prints for programs what its record says? (`humanlayer_agent.cli.shared.records`)"""

import types
import typing
from collections.abc import Mapping
from typing import Any


def faults(value: Any, kind: Any, place: str = "") -> list[str]:
    """What speaks against `value` being of `kind`, a type or a TypedDict; no other field than it names is in it."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Annotated, typing.NotRequired):
        return faults(value, inner[0], place)
    if origin in (types.UnionType, typing.Union):
        return [] if any(not faults(value, each) for each in inner) else [f"{place}: {value!r} is not {kind}"]
    if typing.is_typeddict(kind) and isinstance(value, dict):
        hints = typing.get_type_hints(kind, include_extras=True)
        odd = [f"{place}.{name} is not documented" for name in value.keys() - hints.keys()]
        odd += [f"{place}.{name} is not there" for name in kind.__required_keys__ - value.keys()]
        return odd + [
            each for name in value.keys() & hints.keys() for each in faults(value[name], hints[name], f"{place}.{name}")
        ]
    if origin is list and isinstance(value, list):
        return [each for number, one in enumerate(value) for each in faults(one, inner[0], f"{place}[{number}]")]
    if origin in (dict, typing.get_origin(Mapping[str, Any])) and isinstance(value, dict):
        return [each for name, one in value.items() for each in faults(one, inner[1], f"{place}.{name}")]
    if origin is typing.Literal:
        return [] if value in inner else [f"{place}: {value!r} is none of {inner}"]
    fits = kind is Any or type(value) is kind or (kind is float and type(value) is int)
    return [] if fits else [f"{place}: {value!r} is not {kind}"]
