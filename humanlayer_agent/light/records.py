"""Data classes whose methods are written when they are first called.

`dataclass`, `field` and `replace` of the standard library import `inspect` and compile up to seven methods for each
class: for the classes that judge one command that takes longer than judging it. These do the same for the forms that
are used on that way, and hand every other form to the standard library. A type checker sees the standard library's.
"""

import sys
from _thread import get_ident

TYPE_CHECKING = False  # as typing has it, whose import takes longer than this
if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
    from typing import Any

__all__ = ["dataclass", "field", "replace"]

_NONE: "Any" = object()
_BY_HAND = 40
"""How many objects of a class are filled field by field: to compile `__init__` takes as long as 40 of eight fields (0.9
million instructions against 21,000 for each)."""
_OPTIONS = frozenset({"frozen", "slots", "eq", "unsafe_hash"})
_shown: set[tuple[int, int]] = set()


class _Field:
    """What `field()` was given, until the class is made."""

    __slots__ = ("compare", "default", "factory", "repr")

    def __init__(self, default: "Any", factory: "Any", repr_: bool, compare: bool) -> None:
        self.default, self.factory, self.repr, self.compare = default, factory, repr_, compare


class _Lazy:
    """What only the standard library's own functions ask of a class: made as it makes it."""

    __slots__ = ("name", "record")

    def __init__(self, record: "_Record", name: str) -> None:
        self.record, self.name = record, name

    def __get__(self, instance: "Any", owner: "Any" = None) -> "Any":
        found = getattr(self.record.shadow(), self.name)
        setattr(self.record.cls, self.name, found)
        return found


class _Record:
    """The fields of a class by name, and the methods they make."""

    def __init__(self, cls: "Any", fields: dict[str, "Any"], options: dict[str, bool]) -> None:
        self.cls, self.fields, self.options = cls, fields, options
        self.annotations: dict[str, Any] = {}
        for base in reversed(cls.__mro__):
            self.annotations |= {n: a for n, a in getattr(base, "__annotations__", {}).items() if n in fields}

    def shadow(self) -> "Any":
        import dataclasses

        members: dict[str, Any] = {"__annotations__": {name: self.annotations[name] for name in self.fields}}
        for name, each in self.fields.items():
            given: dict[str, Any] = {"repr": each.repr, "compare": each.compare}
            if each.factory is not _NONE:
                given["default_factory"] = each.factory
            elif each.default is not _NONE:
                given["default"] = each.default
            members[name] = dataclasses.field(**given)
        return dataclasses.dataclass(**self.options)(type(self.cls.__name__, (), members))

    def compile(self, name: str, parameters: str, body: list[str], more: dict[str, "Any"]) -> "Any":
        lines = [f"def {name}({parameters}):", *(f" {line}" for line in body or ["pass"])]
        scope: dict[str, Any] = {"__name__": self.cls.__module__, **more}
        exec(compile("\n".join(lines), f"<{self.cls.__name__}.{name}>", "exec"), scope)
        made = scope[name]
        made.__qualname__ = f"{self.cls.__qualname__}.{name}"
        setattr(self.cls, name, made)
        return made

    def init(self) -> "Any":
        given: dict[str, Any] = {"_none": _NONE, "_set": object.__setattr__}
        parameters, body = ["self"], []
        for name, each in self.fields.items():
            value = name
            if each.factory is not _NONE:
                given[f"_new_{name}"] = each.factory
                value = f"_new_{name}() if {name} is _none else {name}"
                parameters.append(f"{name}=_none")
            elif each.default is not _NONE:
                given[f"_default_{name}"] = each.default
                parameters.append(f"{name}=_default_{name}")
            else:
                parameters.append(name)
            body.append(f"_set(self, {name!r}, {value})" if self.options["frozen"] else f"self.{name} = {value}")
        return self.compile("__init__", ", ".join(parameters), body, given)

    def fill(self, made: "Any", args: tuple["Any", ...], named: dict[str, "Any"]) -> bool:
        """Set the fields one by one; False where the arguments are wrong, which `init` says better."""
        put, left = object.__setattr__, len(named)
        names = iter(self.fields)
        for value, name in zip(args, names, strict=False):  # in this order: no name is taken where no value is left
            put(made, name, value)
        for name in names:
            if name in named:
                value = named[name]
                left -= 1
            elif (each := self.fields[name]).default is not _NONE:
                value = each.default
            elif each.factory is not _NONE:
                value = each.factory()
            else:
                return False
            put(made, name, value)
        return not left and len(args) <= len(self.fields)

    def values(self, of: str) -> str:
        return "(" + "".join(f"{of}.{name}," for name, each in self.fields.items() if each.compare) + ")"

    def equal(self) -> "Any":
        body = [
            "if other.__class__ is self.__class__:",
            f" return {self.values('self')} == {self.values('other')}",
            "return NotImplemented",
        ]
        return self.compile("__eq__", "self, other", body, {})

    def hashed(self) -> "Any":
        return self.compile("__hash__", "self", [f"return hash({self.values('self')})"], {})

    def members(self) -> dict[str, "Any"]:
        """What the class is given: methods, each in a form that writes itself when it is called."""
        own, options = self.cls.__dict__, self.options

        left = _BY_HAND

        def first_init(self_: "Any", *args: "Any", **named: "Any") -> None:
            nonlocal left
            left -= 1
            if left < 0 or not self.fill(self_, args, named):
                self.init()(self_, *args, **named)

        def first_equal(self_: "Any", other: "Any") -> "Any":
            return self.equal()(self_, other)

        def first_hash(self_: "Any") -> int:
            return int(self.hashed()(self_))

        def shown(self_: "Any") -> str:
            key = id(self_), get_ident()
            if key in _shown:
                return "..."
            _shown.add(key)
            try:
                values = ", ".join(f"{n}={getattr(self_, n)!r}" for n, each in self.fields.items() if each.repr)
            finally:
                _shown.discard(key)
            return f"{self_.__class__.__qualname__}({values})"

        explicit_hash = not ("__hash__" not in own or (own["__hash__"] is None and "__eq__" in own))
        given: dict[str, Any] = {
            "__match_args__": tuple(self.fields),
            "__dataclass_fields__": _Lazy(self, "__dataclass_fields__"),
            "__dataclass_params__": _Lazy(self, "__dataclass_params__"),
            "_record": self,
        }
        for name, method in (("__init__", first_init), ("__repr__", shown)):
            if name not in own:
                given[name] = method
        if options["eq"] and "__eq__" not in own:
            given["__eq__"] = first_equal
        if options["unsafe_hash"] or (options["eq"] and options["frozen"] and not explicit_hash):
            given["__hash__"] = first_hash
        elif options["eq"] and not explicit_hash:
            given["__hash__"] = None
        if options["frozen"]:
            given |= self.freezing()
        return given

    def freezing(self) -> dict[str, "Any"]:
        """The methods of a class whose fields can't be changed."""

        def refuse(verb: str, name: str) -> None:
            from dataclasses import FrozenInstanceError

            raise FrozenInstanceError(f"cannot {verb} field {name!r}")

        def set_field(self_: "Any", name: str, value: "Any") -> None:
            if type(self_) is self.cls or name in self.fields:
                refuse("assign to", name)
            super(self.cls, self_).__setattr__(name, value)

        def delete_field(self_: "Any", name: str) -> None:
            if type(self_) is self.cls or name in self.fields:
                refuse("delete", name)
            super(self.cls, self_).__delattr__(name)

        def state_of(self_: "Any") -> list["Any"]:
            return [getattr(self_, name) for name in self.fields]

        def set_state(self_: "Any", state: list["Any"]) -> None:
            for name, value in zip(self.fields, state, strict=True):
                object.__setattr__(self_, name, value)

        given: dict[str, Any] = {"__setattr__": set_field, "__delattr__": delete_field}
        if self.options["slots"]:
            given |= {"__getstate__": state_of, "__setstate__": set_state}
        return given


def _plain(cls: "Any", options: dict[str, "Any"]) -> bool:
    """Is this a form that is made here?"""
    own = cls.__dict__
    return (
        options.keys() <= _OPTIONS
        and not {"__post_init__", "__setattr__", "__delattr__", "__getstate__", "__slots__"} & own.keys()
        and not (options.get("unsafe_hash") and "__hash__" in own)
        and not hasattr(cls, "__abstractmethods__")
        and not any("__dataclass_fields__" in base.__dict__ and "_record" not in base.__dict__ for base in cls.__mro__)
        and all(_is_field(annotation) for annotation in getattr(cls, "__annotations__", {}).values())
        and not any(
            type(each).__module__ == "dataclasses" or each.__class__.__hash__ is None
            for name in getattr(cls, "__annotations__", {})
            if (each := own.get(name)) is not None
        )
    )


def _is_field(annotation: "Any") -> bool:
    if isinstance(annotation, str):
        return not any(word in annotation for word in ("ClassVar", "InitVar", "KW_ONLY"))
    typing = sys.modules.get("typing")
    if typing is not None and (
        annotation is typing.ClassVar or getattr(annotation, "__origin__", 0) is typing.ClassVar
    ):
        return False
    return type(annotation).__module__ != "dataclasses" and getattr(annotation, "__module__", "") != "dataclasses"


def _field(*, default: "Any" = _NONE, default_factory: "Any" = _NONE, repr: bool = True, compare: bool = True) -> "Any":
    """As the standard library's, for what is used here."""
    return _Field(default, default_factory, repr, compare)


def _dataclass(cls: "Any" = None, /, **options: "Any") -> "Any":
    """As the standard library's, but for the texts of the methods, which are made at their first call."""
    if cls is None:
        return lambda cls: _dataclass(cls, **options)
    if not _plain(cls, options):
        return _standard(cls, options)
    chosen = {"frozen": False, "slots": False, "eq": True, "unsafe_hash": False, **options}
    fields: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        if (known := base.__dict__.get("_record")) is not None:
            if known.options["frozen"] != chosen["frozen"]:
                raise TypeError("a frozen data class and one that is not can't inherit from each other")
            fields |= known.fields
    for name in getattr(cls, "__annotations__", {}):
        given = cls.__dict__.get(name, _NONE)
        fields[name] = given if isinstance(given, _Field) else _Field(given, _NONE, True, True)
        if isinstance(given, _Field):
            if given.default is _NONE:
                delattr(cls, name)
            else:
                setattr(cls, name, given.default)
    record = _Record(cls, fields, chosen)
    members = record.members()
    if chosen["slots"]:
        record.cls = _with_slots(cls, fields, members)
    else:
        for name, member in members.items():
            setattr(cls, name, member)
    return record.cls


def _with_slots(cls: "Any", fields: dict[str, "Any"], more: dict[str, "Any"]) -> "Any":
    """The class anew, with `more`: slots can't be added to one that is there."""
    members = dict(cls.__dict__) | more
    inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
    members["__slots__"] = tuple(name for name in fields if name not in inherited)
    for name in (*fields, "__dict__", "__weakref__"):
        members.pop(name, None)
    made = type(cls)(cls.__name__, cls.__bases__, members)
    made.__qualname__ = cls.__qualname__
    return made


def _standard(cls: "Any", options: dict[str, "Any"]) -> "Any":
    import dataclasses

    for name in getattr(cls, "__annotations__", {}):
        each = cls.__dict__.get(name)
        if isinstance(each, _Field):
            given: dict[str, Any] = {"repr": each.repr, "compare": each.compare}
            if each.default is not _NONE:
                given["default"] = each.default
            if each.factory is not _NONE:
                given["default_factory"] = each.factory
            setattr(cls, name, dataclasses.field(**given))
    return dataclasses.dataclass(**options)(cls)


def _replaced(record: "Any", /, **changes: "Any") -> "Any":
    """A copy of `record` with `changes`."""
    known = getattr(record.__class__, "_record", None)
    if known is None:
        import dataclasses

        return dataclasses.replace(record, **changes)
    for name in known.fields:
        if name not in changes:
            changes[name] = getattr(record, name)
    return record.__class__(**changes)


if not TYPE_CHECKING:
    dataclass, field, replace = _dataclass, _field, _replaced
