"""The descriptions by which the classes of a policy tell pydantic what a file may say, without importing pydantic.

Their fields are annotated with a `Form` where a type alone says too little. Pydantic asks for it when a file is checked
(`schema`). A policy in its compiled form was checked before, and importing pydantic takes longer than judging a
command.
"""

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar

_DURATION = re.compile(r"([1-9][0-9]{0,6})(ms|s|m|h|d)", re.ASCII)
UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
"""Units of durations, in ms."""
MAX_DURATION_MS = 30 * UNITS["d"]


class Form:
    """Tells pydantic what a written value must be beyond its type, and what is made of it.

    Args:
        of: returns the type that it must have, where that says more than the annotation.
        before: makes of what is written what the type takes.
        after: checks the value, or makes something else of it. Both raise ValueError.
        shown: makes the JSON Schema of what may be written from that of the type (`json_schema`).
        limits: `pattern`, `max_length` and the like.
    """

    def __init__(
        self,
        *,
        of: Callable[[], Any] | None = None,
        before: Callable[[Any], Any] | None = None,
        after: Callable[[Any], Any] | None = None,
        shown: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        **limits: Any,
    ) -> None:
        self.of, self.before, self.after, self.shown, self.limits = of, before, after, shown, limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        schema = handler(source) if self.of is None else handler.generate_schema(self.of())
        schema = {**schema, **self.limits}
        if self.after is not None:
            schema = core_schema.no_info_after_validator_function(self.after, schema)
        if self.before is not None:
            schema = core_schema.no_info_before_validator_function(self.before, schema)
        return schema

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        found = handler(schema)
        return found if self.shown is None else self.shown(found)


def spelled(**keys: str) -> dict[str, Any]:
    """Return what pydantic is to know of a class: no other keys, and the keys that are not called like their fields."""
    return {"extra": "forbid", "alias_generator": lambda name: keys.get(name, name)}


class Written:
    """A part of a policy file, which says what pydantic is to know of it."""

    __slots__ = ()
    __pydantic_config__ = spelled()
    SHORT: ClassVar[tuple[dict[str, Any], ...]] = ()
    """JSON Schemas of what may stand in the place of the mapping (`long_form`)."""
    FEWEST: ClassVar[int] = 0
    """So many keys stand in the mapping at least."""

    @staticmethod
    def long_form(value: Any) -> Any:
        """Return as a mapping what may be written shorter."""
        return value

    def mistake(self) -> str:
        """Say what is wrong with it, though each key by itself is right; "" where nothing is."""
        return ""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        schema = {**handler(source)}
        name = schema.pop("ref")  # what refers to the class by this name is to meet these two steps as well
        checked = core_schema.no_info_after_validator_function(_without_mistake, schema)
        return core_schema.no_info_before_validator_function(cls.long_form, checked, ref=name)


def _without_mistake(made: Written) -> Written:
    if mistake := made.mistake():
        raise ValueError(mistake)
    return made


def keys_of(kind: type[Written]) -> dict[str, str]:
    """Return the fields of a class by the keys that a file has for them."""
    key_of = kind.__pydantic_config__["alias_generator"]
    return {key_of(field.name): field.name for field in fields(kind)}  # type: ignore[arg-type]


def milliseconds(value: Any) -> Any:
    """Return a duration such as `90s`, `10m`, `1h`, `2d` in ms.

    Raises:
        ValueError: it is none, or longer than 30 days.

    Example:
        >>> milliseconds("90s")
        90000
    """
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"{value!r}: expected a duration such as 90s, 10m, 1h or 2d")
    length = int(found[1]) * UNITS[found[2]]
    if length > MAX_DURATION_MS:
        raise ValueError(f"{value!r}: at most 30d")
    return length


_GROUP = re.compile(r"\(\?[a-z]*[):]")


def listed(value: Any) -> Any:
    """Return a list of it, where it is none: one entry may stand without the list around it."""
    return value if isinstance(value, list) else [value]


def _some(values: Any) -> Any:
    if not values:
        raise ValueError("Value should have at least 1 item")
    for each in values:
        if isinstance(each, str) and (mistake := no_glob(each)):
            raise ValueError(f"{mistake}. Here stand globs alone: write each name as it is")
    return values


def no_glob(text: str) -> str:
    """Say where a glob begins as regular expressions do: its author means another text than it stands for."""
    return f"{text!r} begins as a regular expression, and is a glob" if _GROUP.match(text) else ""


def _shown_listed(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [{**schema, "minItems": 1}, schema["items"]]}


def _shown_some(schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "minItems" if schema.get("type") == "array" else "minProperties": 1}


DURATION_SCHEMA = {"type": "string", "pattern": "^[1-9][0-9]{0,6}(ms|s|m|h|d)$"}
"""The JSON Schema of a duration."""
LISTED = Form(before=listed, after=_some, shown=_shown_listed)
"""For a list: not empty, and one entry may stand without the list around it."""

SOME = Form(after=_some, shown=_shown_some)
"""For a list or a mapping: not empty."""
