"""Operators."""

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Container
from humanlayer_agent.shell.languages.python.syntax import attributes
from humanlayer_agent.shell.languages.python.types import containers, path_objects, path_values, string_values
from humanlayer_agent.shell.languages.python.unknown_code import argument_doubts, capability_leaks
from humanlayer_agent.shell.languages.python.values import (
    ANY,
    ANYTHING,
    EMPTY,
    ENVIRON,
    PLAIN,
    SYS_PATH,
    WORD,
    WORDS,
    Below,
    Const,
    Function,
    Instance,
    Lib,
    Mark,
    Module,
    Namespace,
    Place,
    Thing,
    Type,
    Value,
    const,
    numbers,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine


_OTHERS = (ast.Div, ast.BitOr, ast.BitAnd, ast.LShift, ast.RShift, ast.MatMult)
_HUGE = 1 << 200
_NAMED = frozenset({Type, Lib, Function, Module})
_TEXTUAL = frozenset({str, Place, Below})


def operation(engine: "Engine", node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """`left op right`."""
    if isinstance(op, ast.Mod) and capability_leaks.environment_in(engine, right):
        process_environment.printed(engine)
    both = left | right
    kinds = set(map(type, both))
    if Instance in kinds:
        return _overloaded(engine, op, left, right)
    if Container in kinds:
        return _combined(engine, node, op, left, right)
    if isinstance(op, ast.Div) and Thing in kinds:
        return path_objects.made(
            frozenset(path_values.join(path_values.path_atom(a), path_values.path_atom(b)) for a in left for b in right)
        )
    if isinstance(op, _OTHERS) and (Lib in kinds or ANY in both):
        # What operators mean on objects of others, they say.
        for value in (left, right):
            argument_doubts.of_value(engine, frozenset(a for a in value if isinstance(a, str)), "", "an operator")
    if SYS_PATH in both:
        return frozenset({SYS_PATH})
    if not kinds.isdisjoint(_NAMED):
        return both | ANYTHING
    textual = not kinds.isdisjoint(_TEXTUAL) and not isinstance(op, (ast.Div, ast.Mod))
    if ANY in both and not textual:
        return ANYTHING
    if isinstance(op, ast.Add):
        return _added(left, right)
    if isinstance(op, ast.Mod):
        return _percent(engine, left, [right])
    if isinstance(op, ast.Mult):
        return string_values.repeated(left, right) if not numbers(left) else _numeric(op, left, right)
    return _numeric(op, left, right)


def _added(left: Value, right: Value) -> Value:
    if any(isinstance(a, Const) and isinstance(a.value, bytes) for a in left | right):
        out: Value = EMPTY
        for a in left:
            for b in right:
                known = (
                    isinstance(a, Const)
                    and isinstance(b, Const)
                    and isinstance(a.value, bytes)
                    and isinstance(b.value, bytes)
                )
                out |= const(a.value + b.value) if known else PLAIN  # type: ignore[union-attr, operator]
        return out if len(out) <= 32 else PLAIN
    if numbers(left) and numbers(right):
        return _numeric(ast.Add(), left, right)
    if all(isinstance(a, (Mark, Const)) for a in left | right):
        return WORDS if _countable(left) and _countable(right) else PLAIN
    return string_values.concat([left, right])


_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b, ast.BitOr: lambda a, b: a | b,
    ast.BitAnd: lambda a, b: a & b, ast.BitXor: lambda a, b: a ^ b,
    ast.LShift: lambda a, b: a << b if 0 <= b <= 64 else 0, ast.RShift: lambda a, b: a >> b if b >= 0 else 0,
}  # fmt: skip


def _numeric(op: ast.operator, left: Value, right: Value) -> Value:
    first, second = numbers(left), numbers(right)
    change = _ARITHMETIC.get(type(op))
    if first is None or second is None or change is None or len(first) * len(second) > 32:
        numeric = _countable(left) and _countable(right)
        return WORDS if numeric and not (isinstance(op, ast.Mod) and first is None) else PLAIN
    out: Value = EMPTY
    for a in first:
        for b in second:
            if abs(a) > _HUGE or abs(b) > _HUGE or (b == 0 and isinstance(op, (ast.FloorDiv, ast.Mod))):
                return WORDS
            if isinstance(op, (ast.LShift, ast.RShift)) and not 0 <= b <= 64:
                return WORDS
            out |= const(int(change(a, b)))
    return out


def _countable(value: Value) -> bool:
    """Numbers, or words that are no numbers: what is made of them holds no slash."""
    return all(a is WORD or (isinstance(a, Const) and a.kind in ("int", "bool")) for a in value)


def _items_of(engine: "Engine", value: Value) -> Callable[[str], Value]:
    """Return what gives the item of `value` at a key."""
    return lambda key: containers.item(engine, value, frozenset({key}), _NODE)


def _percent(engine: "Engine", left: Value, given: list[Value]) -> Value:
    if numbers(left) is not None:
        return _numeric(ast.Mod(), left, given[0])
    out: Value = EMPTY
    for atom in left:
        if not isinstance(atom, str):
            out |= WORDS if isinstance(atom, Const) else PLAIN
            continue
        right = given[0]
        inner = next(iter(right)) if len(right) == 1 else None
        if isinstance(inner, Container) and inner.kind == "tuple":
            known, rest = containers.sequence(engine, right)
            out |= string_values.percent(atom, known if rest is None else None, lambda key: PLAIN)
        elif isinstance(inner, (Container, Namespace)):
            out |= string_values.percent(atom, None, _items_of(engine, right))
        else:
            out |= string_values.percent(atom, [right], lambda key: PLAIN)
    return out


_NODE = ast.Pass()


_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitOr: "or", ast.BitAnd: "and", ast.BitXor: "xor",
    ast.MatMult: "matmul",
}  # fmt: skip


def _overloaded(engine: "Engine", op: ast.operator, left: Value, right: Value) -> Value:
    """An operator on an object of the program calls its methods."""
    name = _OPERATORS.get(type(op), "")
    if isinstance(op, ast.Mod) and any(isinstance(a, (str, Mark)) for a in left):
        capability_leaks.escape(engine, right, "%")
    out = attributes.implicit(engine, left, (f"__{name}__", f"__i{name}__"), right)
    out |= attributes.implicit(engine, right, (f"__r{name}__",), left)
    return out | ANYTHING


def _combined(engine: "Engine", node: ast.AST, op: ast.operator, left: Value, right: Value) -> Value:
    """An operator on a list, dict or set."""
    others = frozenset(a for a in left | right if not isinstance(a, Container))
    if isinstance(op, ast.Mod) and any(isinstance(a, str) for a in left):
        return _percent(engine, frozenset(a for a in left if not isinstance(a, Container)), [right])
    if ANY in others or any(isinstance(a, Lib) for a in others):
        capability_leaks.escape(engine, left | right, "an operator")
    kinds = {a.kind for a in left | right if isinstance(a, Container)}
    made = engine.container(node, "dict" if "dict" in kinds else "tuple" if kinds == {"tuple"} else "list")
    if isinstance(op, ast.Add) and len(left) == len(right) == 1 and "dict" not in kinds and not others:
        _appended(engine, made, left, right)
        return frozenset({made})
    for atom in (*left, *right):
        if isinstance(atom, Container):
            if made.kind != "dict":
                engine.shuffle(made)
            containers.copy(engine, made, frozenset({atom}))
        elif isinstance(atom, Namespace):
            engine.key(made, PLAIN)
            engine.element(made, containers.names_of(engine, atom))
        elif atom is ENVIRON or (isinstance(atom, Mark) and isinstance(op, (ast.Add, ast.BitOr))):
            containers.copy(engine, made, frozenset({atom}))
    if SYS_PATH in others:
        process_environment.import_paths(engine, left | right, "sys.path")
    return frozenset({made}) | (ANYTHING if ANY in others else EMPTY)


def _appended(engine: "Engine", made: Container, left: Value, right: Value) -> None:
    known, rest = containers.sequence(engine, left)
    following, further = containers.sequence(engine, right)
    if rest is None:
        known = [*known, *following]
        rest = further
    else:
        rest = rest.union(*following, further or EMPTY)
    engine.fill(made, known, rest)


def compared(engine: "Engine", op: ast.cmpop, left: Value, right: Value) -> Value:
    if isinstance(op, (ast.Is, ast.IsNot)):
        return EMPTY
    out: Value = EMPTY
    if isinstance(op, (ast.In, ast.NotIn)):
        out = attributes.implicit(engine, right, ("__contains__",), left)
        right = containers.elements(engine, frozenset(a for a in right if isinstance(a, Container)))
    if any(isinstance(a, Instance) for a in left | right):
        out |= containers.compared(engine, left, right)
    return out | ANYTHING if ANY in left or ANY in right else out
