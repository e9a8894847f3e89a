"""Whether two trees are equal: the tests and the benchmark hold the fast path to the slow one with it."""

from dataclasses import fields, is_dataclass


def difference(left: object, right: object, path: str = "") -> str | None:
    """Where two syntax trees differ first, or None where they are equal in every field, spans included.

    Example:
        >>> difference(parse_fast("ls"), parse_slowly("ls"))
    """
    if type(left) is not type(right):
        return f"{path}: {left!r} against {right!r}"
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        if len(left) != len(right):
            return f"{path}: {len(left)} against {len(right)} items"
        pairs = [(f"{path}[{index}]", a, b) for index, (a, b) in enumerate(zip(left, right, strict=True))]
    elif is_dataclass(left) and not isinstance(left, type):
        names = [field.name for field in fields(left)]
        pairs = [(f"{path}.{name}", getattr(left, name), getattr(right, name)) for name in names]
    else:
        return None if left == right else f"{path}: {left!r} against {right!r}"
    return next((found for where, a, b in pairs if (found := difference(a, b, where))), None)
