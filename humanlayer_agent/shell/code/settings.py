"""Settings of tests and linters that hold options or code: pytest.ini, tox.ini, setup.cfg, pyproject.toml, .pylintrc.

`addopts` are further words of every `pytest` (pytest's reference, Configuration Options); pylint runs `init-hook`.
Other settings name files, of which those outside the project count.
"""

import posixpath
from collections.abc import Callable

from humanlayer_agent.light.patterns import re
from humanlayer_agent.shell.code.behaviour import Act, Behaviour, Found, Text

_SETTING = re.compile(
    r"^[ \t]*[\"']?(addopts|init-hook|init_hook)[\"']?[ \t]*[=:]((?:.*)(?:\n[ \t]+\S.*)*)", re.MULTILINE
)
_PLACE = re.compile(
    r"^[ \t]*[\"']?(pythonpath|testpaths|cache_dir|log_file|data_file|plugins)[\"']?[ \t]*=((?:.*)(?:\n[ \t]+\S.*)*)",
    re.MULTILINE,
)
_WRITTEN = frozenset({"cache_dir", "log_file", "data_file"})
_STRING = re.compile(r"\"\"\"((?:.|\n)*?)\"\"\"|'''((?:.|\n)*?)'''|\"((?:[^\"\\]|\\.)*)\"|'([^']*)'")
_LIST = re.compile(r"^[ \t]*addopts[ \t]*=[ \t]*\[([^\]]*)\]", re.MULTILINE)


def whole(text: str, path: str | None, files: Callable[[str], Found] | None) -> Behaviour:
    """What these settings add to the runs of a program."""
    out, here = Behaviour(), Text.of(posixpath.dirname(path or "/x"))
    toml = (path or "").endswith(".toml")
    for found in _SETTING.finditer(text):
        value = found[2].strip()
        if toml or value[:1] in "\"'":
            value = " ".join(_strings(value))
        if found[1] != "addopts":
            out.acts.append(Act("python", (Text.of(value),), origin=found[1]))
        elif value:
            out.acts.append(Act("shell", (Text.of("pytest " + " ".join(value.split())),), origin="addopts", cwd=here))
    for found in _LIST.finditer(text) if toml else ():
        words = " ".join(_strings(found[1]))
        out.acts.append(Act("shell", (Text.of(f"pytest {words}"),), origin="addopts", cwd=here))
    for found in _PLACE.finditer(text):
        for word in re.split(r"[\s,\[\]\"']+", found[2]):
            if word.startswith(("/", "~", "../")):
                place = Text.of(posixpath.join(here.choices[0], word))
                kind, role = ("write", "code") if found[1] in _WRITTEN else ("execute", "import-path")
                out.acts.append(Act(kind, (place,), role, origin=found[1]))
    return out


def _strings(text: str) -> list[str]:
    return [next(group for group in found.groups() if group is not None) for found in _STRING.finditer(text)]
