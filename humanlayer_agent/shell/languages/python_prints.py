"""The output of a Python text that does nothing but print: `print("rm -rf build")`.

Statements are calls of print with texts and whole numbers, put together by + and *, reversed by [::-1], made by chr,
join or bytes.fromhex. Everything else gives None: not known. Nothing is imported, so no file of the project can change
what a name means.
"""

import ast

MAX_SOURCE = 8_192
MAX_PRINTED = 65_536
MAX_DEPTH = 64
"""Expressions that are nested deeper are not looked at."""


class _NotKnown(Exception):
    """The value does not follow from the text alone."""


def printed(source: str) -> str | None:
    """The output of `source`; None where it does more than print, or what it prints is not known. Never raises."""
    if len(source) > MAX_SOURCE or not source.isascii():
        return None
    try:
        out = "".join(_statement(each) for each in ast.parse(source).body)
    except (_NotKnown, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return out if len(out) <= MAX_PRINTED and out.isascii() and "\r" not in out else None


def _statement(node: ast.stmt) -> str:
    if isinstance(node, ast.Pass):
        return ""
    if not isinstance(node, ast.Expr):
        raise _NotKnown
    if isinstance(node.value, ast.Constant):
        return ""
    call = node.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "print":
        raise _NotKnown
    given = {each.arg: _text(each.value, 0) for each in call.keywords}
    if not given.keys() <= {"sep", "end"}:
        raise _NotKnown
    return given.get("sep", " ").join(str(_value(each, 0)) for each in call.args) + given.get("end", "\n")


def _text(node: ast.expr, depth: int) -> str:
    value = _value(node, depth)
    if not isinstance(value, str):
        raise _NotKnown
    return value


def _value(node: ast.expr, depth: int) -> str | int:
    if depth > MAX_DEPTH:
        raise _NotKnown
    match node:
        case ast.Constant(value=str() | int() as value) if not isinstance(value, bool):
            return value
        case ast.BinOp(op=ast.Add()):
            return _bounded(_text(node.left, depth + 1) + _text(node.right, depth + 1))
        case ast.BinOp(op=ast.Mult()):
            text, times = _text(node.left, depth + 1), _value(node.right, depth + 1)
            if not isinstance(times, int) or not 0 <= times <= MAX_PRINTED:
                raise _NotKnown
            return _bounded(text * times) if len(text) * times <= MAX_PRINTED else _bounded(None)
        case ast.Subscript(slice=ast.Slice(lower=None, upper=None, step=ast.UnaryOp(ast.USub(), ast.Constant(1)))):
            return _text(node.value, depth + 1)[::-1]
        case ast.Call(func=ast.Name("chr"), args=[code], keywords=[]):
            number = _value(code, depth + 1)
            if not isinstance(number, int) or not 0 <= number < 128:
                raise _NotKnown
            return chr(number)
        case ast.Call(
            func=ast.Attribute(value=joint, attr="join"),
            args=[ast.List(elts=parts) | ast.Tuple(elts=parts)],
            keywords=[],
        ):
            return _bounded(_text(joint, depth + 1).join(_text(part, depth + 1) for part in parts))
        case ast.Call(
            func=ast.Attribute(
                value=ast.Call(func=ast.Attribute(ast.Name("bytes"), "fromhex"), args=[digits], keywords=[]),
                attr="decode",
            ),
            args=[],
            keywords=[],
        ):
            return bytes.fromhex(_text(digits, depth + 1)).decode("ascii")
    raise _NotKnown


def _bounded(text: str | None) -> str:
    if text is None or len(text) > MAX_PRINTED:
        raise _NotKnown
    return text
