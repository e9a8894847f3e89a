"""Doubts about what a program of Python does that only all of its acts together show.

A link may lead what is changed elsewhere. And tests put something in the place of connections: then these may never be
made. That is about the text as a whole, and says "perhaps": a stand-in may be gone again before the call. It takes no
connection away, it tells those that are in doubt from those that are certain.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace

from humanlayer_agent.shell.languages.behaviour import Act
from humanlayer_agent.shell.languages.python.library import tables

_LINKS = frozenset(
    {"os.symlink", "os.link", "pathlib.Path.symlink_to", "pathlib.Path.hardlink_to", "pathlib.Path.link_to"}
)
_CHANGES = frozenset({"write", "append", "delete", "move", "metadata"})
_ANY = "socket"
"""Who replaces this replaces what all connections are made with."""
_HTTP = frozenset(
    str.split("requests requests_html httpx httpcore aiohttp urllib urllib2 urllib3 http httplib httplib2 pycurl")
)
"""Modules that are built on each other, or stand for the same: "http"."""
_LIBRARIES = {
    **dict.fromkeys(("responses", "requests_mock", "respx", "httpretty", "pook", "aioresponses"), ("http",)),
    **dict.fromkeys(("pytest_httpx", "vcr", "betamax"), ("http",)),
    **dict.fromkeys(("mocket", "pytest_socket"), (_ANY,)),
    "moto": ("boto3", "botocore"),
}
"""Libraries that answer in the place of others."""
_FIXTURES = frozenset({"requests_mock", "respx_mock", "httpx_mock", "aioresponses", "mocked_responses", "httpretty"})
"""Arguments of tests that do so."""
_TRANSPORTS = frozenset({"httpx.MockTransport", "httpx.ASGITransport", "httpx.WSGITransport"})
_PATCHERS = frozenset({"patch", "setattr", "multiple"})
_SENDERS = frozenset(
    str.split("send request urlopen open http_open https_open handle_request handle_async_request connect")
)
"""Methods that connect, of sessions, adapters and transports: who overrides them, and calls none, connects nowhere."""
_ASSIGNED = _SENDERS | frozenset(
    str.split("get post put patch head delete options stream create_connection getaddrinfo")
)


def misleading(acts: list[Act]) -> bool:
    """Is a link made to something elsewhere, and is a file changed whose path may lead through it?"""
    linked = [a for a in acts if a.origin in _LINKS]
    targets = [t for a in linked if a.kind == "read" for t in a.operands]
    if not any(
        not t.known or any(c.startswith(("/", "~")) or ".." in c.split("/") for c in t.choices) for t in targets
    ):
        return False
    names = {
        c.rstrip("/").rpartition("/")[2] for a in linked if a.kind == "write" for t in a.operands for c in t.choices
    }
    changed = [t for a in acts if a.kind in _CHANGES and a.origin not in _LINKS for t in a.operands]
    unnamed = any(not t.known for a in linked if a.kind == "write" for t in a.operands)
    return any(unnamed or not t.known or any(names & set(c.split("/")) for c in t.choices) for t in changed)


def doubted(acts: list[Act], tree: ast.Module) -> list[Act]:
    """`acts`; of connections for which `tree` has a stand-in, it is not sure that they are made."""
    if not any(act.kind == "network" for act in acts):
        return acts
    replaced = set(_replaced(tree))
    if not replaced:
        return acts
    return [
        replace(act, sure=False)
        if act.kind == "network" and not replaced.isdisjoint((_ANY, _family(act.origin.partition(".")[0])))
        else act
        for act in acts
    ]


def _family(module: str) -> str:
    table = tables.module(module)
    name = table.name.partition(".")[0] if table is not None else module  # acts name the first of several names
    return "http" if name in _HTTP else name


def _replaced(tree: ast.Module) -> Iterator[str]:
    """The modules, by family, for which something else stands."""
    names = _names(tree)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [each.name for each in node.names]
            for module in modules:
                yield from _LIBRARIES.get(module.partition(".")[0], ())
        elif isinstance(node, ast.arg) and node.arg in _FIXTURES:
            yield "http"
        elif isinstance(node, ast.ClassDef) and any(map(_stands_in, node.body)):
            yield from (_family(name.partition(".")[0]) for base in node.bases for name in _dotted(base, names))
        elif isinstance(node, ast.Call):
            yield from _patched(node, names)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Attribute) and _connects(target.attr):
                    yield from (_family(name.partition(".")[0]) for name in _dotted(target, names))


def _names(tree: ast.Module) -> dict[str, str]:
    """What names stand for: modules, what is imported from them, and objects that are made of it."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                found[each.asname or each.name.partition(".")[0]] = (
                    each.name if each.asname else each.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for each in node.names:
                found[each.asname or each.name] = f"{node.module}.{each.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for name in _dotted(node.value.func, found):
                found.update({target.id: name for target in node.targets if isinstance(target, ast.Name)})
    return found


def _dotted(node: ast.expr, names: dict[str, str]) -> Iterator[str]:
    """The whole name of something that is imported; nothing for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and node.id in names:
        yield ".".join([names[node.id], *reversed(parts)])


def _connects(name: str) -> bool:
    """Is it the name of a function that connects, or of a class? `session.headers` is neither."""
    return name in _ASSIGNED or name == _ANY or (name[:1].isupper() and not name.isupper())


def _stands_in(node: ast.stmt) -> bool:
    """Is it a method that would connect, and that does not call the one that it overrides?"""
    return (
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name in _SENDERS
        and not any(
            (isinstance(each, ast.Name) and each.id == "super")
            or (isinstance(each, ast.Attribute) and each.attr == node.name)
            for each in ast.walk(node)
        )
    )


def _patched(call: ast.Call, names: dict[str, str]) -> Iterator[str]:
    """The modules in which a call (`patch("requests.get")`, `setattr(requests, "get", f)`) replaces something."""
    if not _TRANSPORTS.isdisjoint(_dotted(call.func, names)):
        yield "http"
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "object" and isinstance(function, ast.Attribute):  # patch.object
        name = getattr(function.value, "attr", getattr(function.value, "id", ""))
    if name not in _PATCHERS or not call.args:
        return
    first = call.args[0]
    if isinstance(first, ast.Constant) and isinstance(first.value, str):
        yield from map(_family, first.value.split("."))
    for each in _dotted(first, names):
        yield _family(each.partition(".")[0])
