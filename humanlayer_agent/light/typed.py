"""What annotations name, for modules that every command needs: the imports of `typing` and `collections` take a while.

A type checker sees the names of `typing` and `collections.abc`. When the program runs, those of `collections.abc` are
what they are, and nothing else here may be asked what it stands for.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable as Callable
    from collections.abc import Collection as Collection
    from collections.abc import Container as Container
    from collections.abc import Hashable as Hashable
    from collections.abc import Iterable as Iterable
    from collections.abc import Iterator as Iterator
    from collections.abc import Mapping as Mapping
    from collections.abc import Sequence as Sequence
    from typing import Any as Any
    from typing import Literal as Literal
    from typing import Protocol as Protocol
    from typing import TextIO as TextIO
    from typing import TypeVar as TypeVar
    from typing import cast as cast
    from typing import get_args as get_args
else:
    # What `collections.abc` hands on; the import of `collections` takes 7 million instructions.
    from _collections_abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence

    class _Name:
        """Stands in an annotation: `Any | None`, `Literal["a", "b"]`."""

        def __init__(self, *names, **options) -> None:
            self.names = names

        def __getitem__(self, names):
            return _Name(*(names if isinstance(names, tuple) else (names,)))

        def __or__(self, other):
            return self

        __ror__ = __or__

    class Protocol:
        """A class that says what others have."""

    Any = Literal = TextIO = _Name()
    TypeVar = _Name

    def cast(_kind, value):
        return value

    def get_args(literal):
        return literal.names


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "Callable",
    "Collection",
    "Container",
    "Hashable",
    "Iterable",
    "Iterator",
    "Literal",
    "Mapping",
    "Protocol",
    "Sequence",
    "TextIO",
    "TypeVar",
    "cast",
    "get_args",
]
