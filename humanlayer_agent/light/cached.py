"""`cached_property` and `lru_cache` without `functools`, whose import takes 10 million instructions (with collections).

They do what is used of them. A type checker sees the standard library's.
"""

TYPE_CHECKING = False  # as typing has it, whose import takes longer than this
if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property as cached_property
    from functools import lru_cache as lru_cache
    from typing import Any

__all__ = ["cached_property", "lru_cache"]


class _Cached:
    """A property that is worked out once; it is then in the object's own dictionary."""

    def __init__(self, function: "Callable[[Any], Any]") -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: "Any", owner: "Any" = None) -> "Any":
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self._function(instance))


def _bounded(maxsize: int) -> "Callable[[Any], Any]":
    """Remembers answers by their positional arguments; when it is full, all are forgotten."""

    def decorate(function: "Callable[..., Any]") -> "Callable[..., Any]":
        known: dict[Any, Any] = {}

        def call(*arguments: "Any") -> "Any":
            try:
                return known[arguments]
            except KeyError:
                found = function(*arguments)
            if len(known) >= maxsize:
                known.clear()
            known[arguments] = found
            return found

        call.__doc__ = function.__doc__
        return call

    return decorate


if not TYPE_CHECKING:
    cached_property, lru_cache = _Cached, _bounded
