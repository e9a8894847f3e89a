"""Settings of tests and linters that hold options or code: pytest.ini, tox.ini, setup.cfg, pyproject.toml, .pylintrc.

`addopts` are further words of every `pytest` (pytest's reference, Configuration Options); pylint runs `init-hook`.
Other settings name files, of which those outside the project count.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Found, Text

_SETTING = re.compile(
    r"^[ \t]*[\"']?(addopts|init-hook|init_hook|pythonpath|testpaths|cache_dir|log_file|data_file|plugins)[\"']?"
    r"[ \t]*[=:]((?:.*)(?:\n[ \t]+\S.*)*)",
    re.MULTILINE,
)
_STRING = re.compile(r"\"\"\"((?:.|\n)*?)\"\"\"|\'\'\'((?:.|\n)*?)\'\'\'|\"((?:[^\"\\]|\\.)*)\"|'([^']*)'")
_LIST = re.compile(r"^[ \t]*([a-z_]+)[ \t]*=[ \t]*\[([^\]]*)\]", re.MULTILINE)
_CODE = frozenset({"init-hook", "init_hook"})
_LOADED = frozenset({"pythonpath", "testpaths", "plugins"})
_WRITTEN = frozenset({"cache_dir", "log_file", "data_file"})


def whole(text: str, path: str | None, files: Callable[[str], Found] | None) -> Behaviour:
    """What these settings add to the runs of a program."""
    out, here = Behaviour(), posixpath.dirname(path or "/x")
    for name, value in _pairs(text, toml=(path or "").endswith(".toml")):
        if name in _CODE:
            out.acts.append(Act("python", (Text.of(value),), origin=name))
        elif name == "addopts" and value.strip():
            words = "pytest " + " ".join(value.split())
            out.acts.append(Act("shell", (Text.of(words),), origin=name, cwd=Text.of(here)))
        elif name in _LOADED | _WRITTEN:
            kind, role = ("write", "code") if name in _WRITTEN else ("execute", "import-path")
            for word in re.split(r"[\s,]+", value):
                if word.startswith(("/", "~", "../")):
                    out.acts.append(Act(kind, (Text.of(posixpath.join(here, word)),), role, origin=name))
    return out


def _pairs(text: str, *, toml: bool) -> Iterator[tuple[str, str]]:
    """The names of settings and their values, those of a list with blanks between."""
    if toml:
        import tomllib

        try:
            yield from _within(tomllib.loads(text))
            return
        except (ValueError, RecursionError):
            pass  # a piece of a file
    for found in _SETTING.finditer(text):
        value = found[2].strip()
        yield found[1], " ".join(_strings(value)) if toml or value[:1] in ('"', "'") else value
    for found in _LIST.finditer(text) if toml else ():
        yield found[1], " ".join(_strings(found[2]))


def _within(table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _within(value)
        elif isinstance(value, list):
            yield name, " ".join(each for each in value if isinstance(each, str))
        elif isinstance(value, str):
            yield name, value


def _strings(text: str) -> list[str]:
    return [next(group for group in found.groups() if group is not None) for found in _STRING.finditer(text)]
