"""What a schema found wrong with a YAML document, said at its place in the file."""

from typing import Any

from pydantic import BaseModel, ValidationError

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import yaml_positions


def explained(document: yaml_positions.Document, error: ValidationError, model: type[BaseModel]) -> PolicyError:
    """The first mistake, at its place in the file. `model` is what the whole document was checked against."""
    # Where a key may be a text or a mapping (the route of a rule), and it is a mapping, the text is not what was meant.
    found = [each for each in error.errors() if not (each["type"] == "string_type" and isinstance(each["input"], dict))]
    first = (found or error.errors())[0]
    loc = tuple(part for part in first["loc"] if part != "RaisedRoute")
    if loc[:1] == ("lists",):
        loc = loc[:2] + loc[3:]  # without the tag of what it was taken for
    path = tuple(p for p in loc if isinstance(p, int) or not str(p).startswith(("function-", "list[")))
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        key = str(path[-1])
        path = (*path, "\0key")
        message = f"unknown key {key!r}; known here: {', '.join(_known_keys(loc, model))}"
    elif first["type"] == "missing":
        message = f"the key {path[-1]!r} is missing"
        path = path[:-1]
    elif "literal" in first["type"]:
        message = f"{first['input']!r}: expected {first['ctx']['expected']}"
    return document.error(path, message)


def _known_keys(location: tuple[Any, ...], model: type[BaseModel]) -> list[str]:
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        field = next((f for name, f in model.model_fields.items() if part in (name, f.alias)), None)
        inner = _model_in(field.annotation) if field is not None else None
        model = inner or model
    return sorted(f.alias or name for name, f in model.model_fields.items())


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (found := _model_in(inner)) is not None:
            return found
    return None
