"""Enumerations without `enum`, whose import takes 17 million instructions (with functools and collections, which it
needs): more than to analyse and judge a plain command.

`Enum` and `IntEnum` here do what is used of them: members are found by value, by name and as attributes, are listed in
order, and stay the same object where they are copied or pickled. A type checker sees the standard library's.
"""

TYPE_CHECKING = False  # as typing has it, whose import takes longer than this
if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import Enum as Enum
    from enum import IntEnum as IntEnum
    from typing import Any

__all__ = ["Enum", "IntEnum"]


class _Kind(type):
    """The class of enumerations: makes each of their plain attributes a member."""

    _members: "dict[str, Any]"

    def __new__(mcs, name: str, bases: "tuple[type, ...]", body: "dict[str, Any]") -> "_Kind":
        given = {n: v for n, v in body.items() if not n.startswith("__") and type(v) in (int, str)}
        made = super().__new__(mcs, name, bases, {n: v for n, v in body.items() if n not in given})
        made._members = {}
        for member_name, value in given.items():
            member: Any = int.__new__(made, value) if issubclass(made, int) else object.__new__(made)
            member.name, member.value = member_name, value
            made._members[member_name] = member
            type.__setattr__(made, member_name, member)
        return made

    def __setattr__(cls, name: str, value: "Any") -> None:
        if name in cls.__dict__.get("_members", ()):
            raise AttributeError(f"cannot reassign member {name!r}")
        super().__setattr__(name, value)

    def __call__(cls, value: "Any") -> "Any":
        for member in cls._members.values():
            if member is value or member.value == value:
                return member
        raise ValueError(f"{value!r} is not a valid {cls.__qualname__}")

    def __getitem__(cls, name: str) -> "Any":
        return cls._members[name]

    def __iter__(cls) -> "Iterator[Any]":
        return iter(cls._members.values())

    def __len__(cls) -> int:
        return len(cls._members)


class _Member:
    """What members have in common."""

    name: str
    value: "Any"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

    def __copy__(self) -> "_Member":
        return self

    def __deepcopy__(self, memo: "Any") -> "_Member":
        return self

    def __reduce_ex__(self, protocol: "Any") -> "Any":
        return type(self), (self.value,)


class _Enum(_Member, metaclass=_Kind):
    pass


class _IntEnum(_Member, int, metaclass=_Kind):
    pass


if not TYPE_CHECKING:
    Enum, IntEnum = _Enum, _IntEnum
