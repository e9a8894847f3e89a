"""Settings that a program gives itself before it does anything else: `django.conf.settings.configure(STATIC_ROOT=...)`.

Otherwise they are those of a project, which nobody reads here: a folder that is deleted after a test may then be one
with what users have uploaded. So the program must be one that can't have got others: it imports nothing but the
standard library and Django, before the call nothing that reads settings, and reaches them only by their names.
"""

import ast
import re
from collections.abc import Iterator

from humanlayer_agent.shell.languages.python.library import tables
from humanlayer_agent.shell.languages.python.parsing import nodes

OBJECT = "django.conf.settings"
CALL = f"{OBJECT}.configure"
_NAME = "settings"
_BEFORE = re.compile(
    r"django(?:|\.(?:apps|conf|core|dispatch|forms|http|middleware|shortcuts|template|templatetags|test|urls|utils|views)"
    r"(?:\.\w+)*|\.db(?:\.models)?|\.contrib\.staticfiles\.(?:storage|finders))"
)
"""Modules that read no settings when they are imported: with none, that works (tried with Django 3.2, 4.2 and 5.1)."""
_REACHING = frozenset(
    str.split(
        "exec eval compile __import__ importlib import_module import_string runpy getattr setattr delattr vars globals"
        " locals modules __dict__ __globals__ reload conf gc inspect ctypes code _getframe"
    )
)
"""Names by which a program could get at the settings, or at code, that is not named."""
_PLAIN = re.compile(r"DEBUG|\w+_(?:ROOT|URL|KEY|DIR|PERMISSIONS|FORMAT|PREFIX|DOMAIN|HOSTS|TZ|ZONE|CODE|L10N|I18N)")
"""Settings that name no code."""
_PLAIN_NODES = (ast.expr_context, ast.Call, ast.Expr, ast.keyword, ast.List, ast.Dict, ast.Assign)
"""Parts of a program that hold no name themselves."""


def names(tree: ast.Module) -> frozenset[str]:
    """The settings that are what the program says, wherever it reads them."""
    for n, statement in enumerate(tree.body):
        call = _call(statement)
        if call is not None:
            found = frozenset(keyword.arg for keyword in call.keywords if keyword.arg)
            plain = len(found) == len(call.keywords) and not call.args and all(map(_names_no_code, call.keywords))
            first = all(map(_comes_before, tree.body[:n]))
            return found if plain and first and _leaves_them(nodes(tree)) else frozenset()
    return frozenset()


def _call(statement: ast.stmt) -> ast.Call | None:
    """The call of `configure` that the statement is, or that it makes where there are no settings yet."""
    if isinstance(statement, ast.If):
        test = statement.test
        if not isinstance(test, ast.UnaryOp) or not isinstance(test.op, ast.Not):
            return None
        if not _is_settings(test.operand, "configured"):
            return None
        statement = statement.body[0]
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call if isinstance(call, ast.Call) and _is_settings(call.func, "configure") else None


def _is_settings(node: ast.expr, attribute: str) -> bool:
    """Is it that attribute of `settings`?"""
    return (
        isinstance(node, ast.Attribute)
        and node.attr == attribute
        and isinstance(node.value, ast.Name)
        and node.value.id == _NAME
    )


def _comes_before(statement: ast.stmt) -> bool:
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return all(tables.standard(name) or _BEFORE.fullmatch(name) for name in _modules(statement))
    value = statement.value if isinstance(statement, (ast.Expr, ast.Assign)) else None
    return value is not None and not any(isinstance(node, ast.Call) for node in ast.walk(value))


def _modules(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    """The modules that are imported; what is imported from a package may be one."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    else:
        yield node.module or "."
        yield from (f"{node.module}.{alias.name}" for alias in node.names if node.module == "django")


def _names_no_code(keyword: ast.keyword) -> bool:
    """Tell whether a setting names no module but Django's, from which the project's code could set others."""
    if keyword.arg is None or _PLAIN.fullmatch(keyword.arg):
        return True
    whose: set[int] = set()
    for node in ast.walk(keyword.value):
        if isinstance(node, ast.Dict):
            whose |= {id(key) for key in node.keys}
            whose |= {id(v) for k, v in zip(node.keys, node.values, strict=True) if getattr(k, "value", "") == "NAME"}
        elif isinstance(node, ast.Name) and node.id != "__name__":
            return False
    strings = (n for n in ast.walk(keyword.value) if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return all(id(node) in whose or str(node.value).startswith("django.") for node in strings)


def _leaves_them(nodes: list[ast.AST]) -> bool:
    """Tell whether the program only reads settings, by their names."""
    read = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    named = (node for node in nodes if isinstance(node, ast.Name) and node.id == _NAME)
    return all(id(node) in read for node in named) and all(map(_reaches_nothing, nodes))


def _reaches_nothing(node: ast.AST) -> bool:
    """Tell whether this part of the program leaves the settings as they were made."""
    if isinstance(node, _PLAIN_NODES):
        return True
    if _NAME in (getattr(node, "name", None), getattr(node, "rest", None)) and not isinstance(node, ast.alias):
        return False
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        if getattr(node, "level", 0):
            return False
        ours = isinstance(node, ast.ImportFrom) and node.module == "django.conf"
        known = all(tables.standard(name) or name.partition(".")[0] == "django" for name in _modules(node))
        bound = [alias.asname or alias.name for alias in node.names]
        if ours:
            return [(alias.name, alias.asname) for alias in node.names] == [(_NAME, None)]
        return known and not any(_NAME in name or name in _REACHING or name == "*" for name in bound)
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id == _NAME:
            return isinstance(node.ctx, ast.Load) and (node.attr in ("configure", "configured") or node.attr.isupper())
        return _NAME not in node.attr and node.attr not in _REACHING and not node.attr.startswith("_wrapped")
    if isinstance(node, ast.Name):
        return node.id not in _REACHING
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return "DJANGO_SETTINGS_MODULE" not in node.value and OBJECT not in node.value
    return not (isinstance(node, ast.arg) and node.arg == _NAME)
