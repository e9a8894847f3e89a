"""package.json: the scripts of a JavaScript project, which npm and its like hand to a shell (npm docs, `scripts`)."""

import json
import posixpath
from collections.abc import Callable, Iterator, Sequence

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Found, Text

MAX_SCRIPTS = 200
_INSTALL = ("preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "postprepare")
_PACK = ("prepublishOnly", "prepack", "prepare", "postpack")
_SHORT = {"t": "test", "tst": "test", "it": "install-test", "i": "install", "ci": "install", "clean-install": "install"}
_ITSELF = {
    **dict.fromkeys(("install", "add", "update", "up", "upgrade", "link", "rebuild", "dedupe", "prune"), _INSTALL),
    **dict.fromkeys(("uninstall", "remove", "rm", "un"), ("preuninstall", "uninstall", "postuninstall", *_INSTALL)),
    "install-test": (*_INSTALL, "pretest", "test", "posttest"),
    "pack": _PACK,
    "publish": (*_PACK, "publish", "postpublish"),
    "version": ("preversion", "version", "postversion"),
    "restart": (
        "prerestart", "restart", "prestop", "stop", "poststop", "prestart", "start", "poststart", "postrestart",
    ),
}  # fmt: skip
"""The scripts that a sub-command runs by itself."""
_TOOLS = frozenset(
    str.split(
        """
        ava babel c8 commitlint cypress eslintConfig jest lint-staged mocha nyc postcss prettier release stylelint tap
        ts-node vitest xo
        """
    )
)
"""Tools that have their settings in package.json, and load the code that these name."""
_MODULES = ("main", "module", "browser", "bin", "exports", "imports")
"""Keys that say which files stand for the package, or for names that its code imports (node's docs, `packages`)."""
_NAMED = frozenset({"run", "run-script", "rum", "urn"})
_OWN_NAME = frozenset({"test", "start", "stop"})


def scripts(text: str) -> dict[str, str] | None:
    """The scripts of a package.json; None where it is not understood."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found = content.get("scripts", {}) if isinstance(content, dict) else None
    if not isinstance(found, dict) or not all(isinstance(v, str) and "\0" not in v for v in found.values()):
        return None
    return found


def run_by(subcommand: str | None, operands: Sequence[str]) -> list[str] | None:
    """The scripts that `npm SUBCOMMAND OPERANDS` runs; None: not known."""
    name = _SHORT.get(subcommand or "", subcommand or "")
    if name in _NAMED:
        return _around(operands[0]) if operands else []
    if name in _OWN_NAME:
        return _around(name)
    found = _ITSELF.get(name)
    return list(found) if found is not None else None


def _around(name: str) -> list[str]:
    return [f"pre{name}", name, f"post{name}"]


def behaviour(
    text: str,
    directory: str,
    names: Sequence[str] | None = None,
    asked: str | None = None,
    arguments: Sequence[str] | None = (),
) -> Behaviour:
    """What scripts of a package.json do.

    Args:
        text: the package.json.
        directory: where it lies: its scripts run there.
        names: the scripts; None: all.
        asked: the one that gets the arguments.
        arguments: the words it is given; None: not known.
    """
    out = Behaviour()
    found = scripts(text)
    if found is None or len(found) > MAX_SCRIPTS:
        out.doubt("scripts that are not understood")
        return out
    wanted = list(found) if names is None else [name for name in names if name in found]
    if names is not None and "start" in names and "start" not in found:
        found, wanted = {**found, "start": "node server.js"}, [*wanted, "start"]
    for name in wanted:
        command = found[name] + (_quoted(arguments) if asked == name or arguments is None else "")
        out.acts.append(Act("shell", (Text.of(command),), origin=f"script {name}", cwd=Text.of(directory)))
    return out


def whole(text: str, path: str | None, files: Callable[[str], Found] | None) -> Behaviour:
    """All that the scripts of a package.json do, whichever is run, and what it has tools load from elsewhere."""
    directory = posixpath.dirname(path or "/package.json")
    out = behaviour(text, directory)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return out
    from humanlayer_agent.shell.languages import tool_settings

    if not isinstance(content, dict):
        return out
    for tool in sorted(_TOOLS & content.keys()):
        tool_settings.section(tool, content[tool], path or "/package.json", files, out)
    for key in _MODULES:
        for name in _texts(content.get(key)):
            _module(name, directory, key, out)
    return out


def _texts(value: object) -> Iterator[str]:
    """The texts in a value, however deep."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str(text):
                yield text
            case dict() as table:
                waiting += table.values()
            case list() as many:
                waiting += many


def _module(name: str, directory: str, key: str, out: Behaviour) -> None:
    """Code that may be loaded under the name of the package, or under another. What is called like a module is seen
    wherever code is loaded.
    """
    from humanlayer_agent.shell.languages.javascript.module_files import MODULE_ENDINGS

    if not name or "://" in name or name.endswith((*MODULE_ENDINGS, ".json")):
        return
    if "*" in name:
        out.doubt(f"{key} names modules by a pattern")
    else:
        out.acts.append(Act("execute", (Text.of(posixpath.join(directory, name)),), "setting-module", origin=key))


def _quoted(arguments: Sequence[str] | None) -> str:
    """Arguments as they are added to a script's text; `$_` stands for what is not known."""
    if arguments is None:
        return " ${_}"
    return "".join(" '" + word.replace("'", "'\\''") + "'" for word in arguments)
