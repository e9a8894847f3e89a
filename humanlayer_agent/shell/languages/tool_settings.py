"""Settings of tools (pytest.ini, pyproject.toml, .coveragerc, tsconfig.json, Taskfile.yml ...): what they name is done.

A file in whatever form becomes a list of settings with their paths, `tool.pytest.ini_options.addopts`, and a table
(tool_settings.yaml) says what the value of each is: options, a command, code, or a file that is read or written.

.gitattributes says which files git has a driver read or write: a command that stands in git's configuration
(gitattributes(5): filter, diff, merge). The drivers that git has itself run nothing.
"""

import json
import posixpath
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from humanlayer_agent.shell.languages.behaviour import NOT_THERE, Act, Behaviour, Found, Text

Files = Callable[[str], Found]
Pair = tuple[str, str]

MAX_SETTINGS = 2_000
MAX_DEPTH = 3
"""How often settings may name further settings."""
_LINE = re.compile(
    r"^[ \t]*[\"']?([\w.$:-]+)[\"']?[ \t]*(?::[A-Z]+)?[=:]((?:.*)(?:\n[ \t]+(?![\w\"'-]+[ \t]*[=:])\S.*)*)",
    re.MULTILINE,
)
_ASSIGNED = re.compile(r"^[ \t]*(?:export[ \t]+)?[\"']?([A-Za-z_][\w.-]*)[\"']?[ \t]*[=:](.*)", re.MULTILINE | re.ASCII)
_SECTION = re.compile(r"^\[+([^\]\n]+)\]+", re.MULTILINE)
_STRING = re.compile(r"\"\"\"((?:.|\n)*?)\"\"\"|\'\'\'((?:.|\n)*?)\'\'\'|\"((?:[^\"\\]|\\.)*)\"|'([^']*)'")
_COMMENT = re.compile(r"(\"(?:[^\"\\]|\\.)*\")|//[^\n]*|/\*(?:.|\n)*?\*/")
_TRAILING = re.compile(r",(\s*[}\]])")
_HERE = re.compile(
    r"<rootDir>|\$\{(?:sourceDir|sourceParentDir|workspaceFolder|configDir)\}|\{(?:toxinidir|tox_root)\}|%\(here\)s"
)
_OPEN = re.compile(r"[${%]|<")
"""What stands for something that is only known later."""
MAX_NODES = 20_000
"""Most nodes of a document of YAML that are read, those for which aliases stand counted each time."""
_ANY = "?."
"""Stands for the section of a line that is added to a file."""
_PLACE = re.compile(
    r"(?:/(?:srv|home|root|etc|var|opt|tmp|mnt|media|proc|sys|dev|run|boot|Users|Volumes|private)/|~/?|\.\./).*"
)
_GEMFILE = re.compile(
    r"\s*(?:#.*|source\s+['\"]https://rubygems\.org/?['\"]|ruby\s+['\"][\w.~>= -]+['\"]|gemspec|end"
    r"|group\s+:\w+(?:,\s*:\w+)*\s+do|gem\s+['\"][\w-]+['\"](?:,\s*['\"][\w.~><!= -]+['\"])*"
    r"(?:,\s*(?:require|group|platforms?)(?::|\s*=>)\s*(?:false|true|:?\w+|['\"][\w/-]+['\"]|\[[\w:, ]*\]))*)?\s*"
)
"""Lines of a Gemfile that only say which libraries there are; the others are code."""
_CODE = frozenset(
    str.split(
        """
        .clang-tidy .lintstagedrc .lintstagedrc.json .tflint.hcl BUILD.bazel MODULE.bazel Rakefile WORKSPACE build.rs
        build.xml build.zig meson.build meson_options.txt
        """
    )
)
_ENDINGS = (".gradle", ".gradle.kts", ".js", ".cjs", ".mjs", ".ts", ".cts", ".mts", ".jsx", ".tsx")
"""Files that are not read here, which a tool runs before anything of the project runs. What those in JavaScript give to
plug-ins is not followed: which folder is emptied first, for one.
"""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*", re.ASCII)
"""How variables are named that a tool sets for what it starts."""
_FURTHER = (".toml", ".json", ".ini", ".cfg", ".yml", ".yaml")
"""How the names of further settings end."""
_WORDS = {".proverc": "prove", ".perltidyrc": "perltidy"}
"""Files of words that a program gets beside those that it is given."""
_OF_NODE = re.compile(
    r"\.?(?:ava|babel|c8|commitlint|cypress|eslint|jest|lint-staged|mocha|next|nyc|playwright|postcss|prettier|release"
    r"|stylelint|svelte|swc|tailwind|tap|vite|vitest|webpack|xo)(?:rc|\.config|\.workspace)?(?:\.[a-z0-9]+)?",
    re.ASCII,
)
"""Settings, in whatever form, of tools that node runs."""
_PRESETS = ("CMakePresets.json", "CMakeUserPresets.json")
_ANY_NAME = (".ini", ".cfg")
_KNOWN = frozenset(
    str.split("pytest.ini .pytest.ini tox.ini mypy.ini .mypy.ini setup.cfg .isort.cfg alembic.ini gcovr.cfg")
)
_OF_TOOLS = re.compile(
    r"(?:tool[.:])?(?:pytest|mypy|flake8|pycodestyle|coverage|tox|testenv|pylint|ruff|isort|bandit|main|master|run|report"
    r"|html|xml|json)\b.*",
    re.ASCII | re.IGNORECASE,
)
"""Sections by which a file of any name is taken for settings of tools: some are told which file has theirs."""
_JUST = re.compile(r"[ \t]+[@-]*(\S.*)")
_PROCESS = re.compile(r"[\w-]+:[ \t]*(\S.*)")


_DRIVER = re.compile(r"\s(filter|diff|merge)=([^\s]+)", re.ASCII)
_OF_GIT = frozenset(
    str.split(
        """
        ada bash bibtex cpp csharp css dts elixir fortran fountain golang html java kotlin markdown matlab objc pascal
        perl php python ruby rust scheme tex text binary union lfs
        """
    )
)
"""Drivers that git has by itself (2.45), and that of git-lfs."""


def attributes(text: str, path: str | None, files: Files | None) -> Behaviour:
    """What these attributes have git run."""
    named = [found[0].strip() for found in _DRIVER.finditer(text) if found[2] not in _OF_GIT]
    return Behaviour(doubts=[f"git's driver {name}" for name in named[:1]], opaque=bool(named))


def whole(text: str, path: str | None, files: Files | None) -> Behaviour:
    """What these settings add to the runs of a program."""
    out = Behaviour()
    _read(text, path or "/settings", files, out, 0)
    return out


def variables(text: str, path: str | None, files: Files | None) -> Behaviour:
    """What these variables, NAME=value a line, change in what a program is started with."""
    out = Behaviour()
    _variables(text, posixpath.basename(path or ""), out)
    return out


def _variables(text: str, origin: str, out: Behaviour) -> None:
    for found in _ASSIGNED.finditer(text.replace("\r", "\n")):
        given = (Text.of(found[1]), Text.of(found[2].strip().strip("\"'")))
        out.acts.append(Act("environment", given, origin=origin))


def section(tool: str, value: object, path: str, files: Files | None, out: Behaviour) -> None:
    """Add what the settings of a tool do that stand in package.json, under its name."""
    for number, (setting, text) in enumerate(_flat(value, tool)):
        if number > MAX_SETTINGS:
            _unread(out, path)
            return
        _setting(setting, text, path, files, out, 0)


def _read(text: str, path: str, files: Files | None, out: Behaviour, depth: int) -> None:
    name, here = posixpath.basename(path), posixpath.dirname(path)
    lines = text.splitlines()
    if name == "Gemfile":
        if not all(_GEMFILE.fullmatch(line) for line in lines):
            _unread(out, path)
        return
    if name.lower() in ("procfile", "justfile", ".justfile"):
        shape = _PROCESS if name == "Procfile" else _JUST
        for line in lines:
            if found := shape.fullmatch(line):
                out.acts.append(_shell(found[1], here, name))
        return
    if name in _WORDS:
        words = [line.partition(" #")[0].strip() for line in lines if not line.lstrip().startswith("#")]
        out.acts.append(_shell(" ".join((_WORDS[name], *filter(None, words))), here, name))
        return
    if name == ".flaskenv":
        _variables(text, name, out)
        return
    if name in _CODE or name.startswith("Directory.Build.") or name.endswith(_ENDINGS):
        _unread(out, path)
        return
    try:
        pairs = list(islice(_pairs(text, name), MAX_SETTINGS + 2))
    except _UnreadError:
        pairs = []
        _unread(out, path)
    for number, (setting, value) in enumerate(pairs):
        if number > MAX_SETTINGS:
            _unread(out, path)
            return
        if (
            name.endswith(_ANY_NAME)
            and name not in _KNOWN
            and (not _OF_TOOLS.fullmatch(setting) or not _names(setting))
        ):
            continue
        if name == "CMakeCache.txt":
            out.acts.append(_shell(f"cmake -D{shlex.quote(f'{setting}={value}')}", here, setting))
        else:
            _setting(setting, value, path, files, out, depth)


def _unread(out: Behaviour, path: str) -> None:
    out.opaque = True
    out.doubt(f"{posixpath.basename(path)} is code that is not read")


def _setting(setting: str, value: str, path: str, files: Files | None, out: Behaviour, depth: int) -> None:
    """What one setting does."""
    here = posixpath.dirname(path)
    kind, program = _kind(setting.replace("_", "-").lower())
    node = _is_of_node(path)
    if node and _VARIABLE.fullmatch(variable := setting.rpartition(".")[2]):
        out.acts.append(Act("environment", (Text.of(variable), Text.of(value)), origin=setting))
    if node and kind in ("", "import-path", "settings"):
        _modules(setting, value, here, out, kind)
        for word in _words(value) if kind != "settings" else ():
            if word.endswith(_FURTHER) and not re.search(r"[*?{]", word):
                _further(word, path, files, out, depth)
    if node and kind in ("", "import-path"):
        return
    any_name = setting == "include" and (depth or posixpath.basename(path) in _PRESETS)
    if any_name or (kind == "settings" and setting.endswith("extend")):
        _further(value, path, files, out, depth, any_name=True)
    elif kind == "settings":
        for word in _words(value) if setting != "include" else ():
            _further(word, path, files, out, depth)
    elif kind == "ini" and depth < MAX_DEPTH:
        _read(value, posixpath.join(here, "tox.ini"), files, out, depth + 1)
    elif setting.endswith(".bootstrap") and not value.endswith(".php"):
        _unread(out, value)  # code of any name
    elif kind in _RUN:
        out.acts += _run(kind, program, setting, value, here)
    else:
        _paths(kind, setting, value, here, out)


def _is_of_node(path: str) -> bool:
    """Tell whether the file has settings of a tool that node runs: whatever file these name is code that it loads, but
    where the table says what else it is.
    """
    name = posixpath.basename(path)
    return name == "package.json" or _OF_NODE.fullmatch(name) is not None


def _modules(setting: str, value: str, here: str, out: Behaviour, kind: str) -> None:
    """Code for node that a tool loads, by its path or by the name of a package, which a file of that name may be; what
    settings build upon is one of the two by its form.
    """
    for word in _words(value):
        path = _HERE.sub(".", word)
        if re.search(r"[*?|\\^()]", path) or "://" in path or path[:1] in ("-", "#", "@", "!"):
            continue
        if _OPEN.search(path):
            if kind:
                out.acts.append(Act("execute", (Text(),), "import-path", origin=setting))
            continue
        named = path[:1] in (".", "/", "~")
        if kind == "settings" and not named:
            continue
        there = Text.of(path if path[:1] == "~" else posixpath.join(here, path))
        out.acts.append(Act("execute", (there,), "setting-module", origin=setting, sure=named))


_RUN = frozenset({"python", "shell", "command", "words", "java", "cmake"})
"""Kinds of settings of which the value is code, a command, or options."""


def _run(kind: str, program: str, setting: str, value: str, here: str) -> Iterator[Act]:
    """What the value of such a setting has a tool do."""
    if kind == "python":
        yield Act("python", (Text.of(value),), origin=setting)
    elif kind == "shell":
        for line in value.splitlines():
            if line.strip(" \t-!") and not line.lstrip().startswith("#"):
                yield _shell(_without_places(line.strip().lstrip("-! ")), here, setting)
    elif kind == "command" and value.strip():
        yield _shell(f"{shlex.quote(value.strip())} --version", here, setting)
    elif kind == "words" and program == "node" and value.strip():
        yield Act("environment", (Text.of("NODE_OPTIONS"), Text.of(value)), origin=setting)
    elif kind == "words" and value.strip():
        yield _shell(f"{program} {' '.join(value.split())}", here, setting)
    elif kind == "java":
        yield Act("environment", (Text.of("JAVA_TOOL_OPTIONS"), Text.of(value)), origin=setting)
    elif kind == "cmake":
        name = re.sub(r"^.*cachevariables\.", "", setting, flags=re.IGNORECASE).removesuffix(".value")
        if not name.endswith(".type"):
            yield _shell(f"cmake -D{shlex.quote(f'{name}={value}')}", here, setting)


def _paths(kind: str, setting: str, value: str, here: str, out: Behaviour) -> None:
    words = [value.strip()] if kind in ("write", "read") else _words(value)
    if kind == "report":
        kind, words = "write", [word.partition(":")[2] for word in words]
    for word in words if kind != "data" else ():
        known = _HERE.sub(".", word)
        if kind == "" and not _PLACE.fullmatch(known):
            continue
        if not known or (kind == "" and re.search(r"[*?|\\^()\s]", known)):
            continue
        where = Text() if _OPEN.search(known) else Text.of(known if known[:1] == "~" else posixpath.join(here, known))
        did = {"import-path": "execute", "": "read"}.get(kind, kind)
        out.acts.append(Act(did, (where,), "import-path" if did == "execute" else "code", origin=setting))


def _further(word: str, path: str, files: Files | None, out: Behaviour, depth: int, *, any_name: bool = False) -> None:
    """Settings that settings name: a file by its path, or what is installed by its name."""
    if any_name and (depth >= MAX_DEPTH or _OPEN.search(word)):
        _unread(out, word)
        return
    if not any_name and not word.startswith((".", "/", "~")) and not word.endswith(_FURTHER):
        return
    if word.startswith(("http:", "https:")):
        out.acts.append(Act("network", (Text.of(word),), origin="settings"))
        return
    there = posixpath.normpath(posixpath.join(posixpath.dirname(path), word))
    out.acts.append(Act("read", (Text() if _OPEN.search(word) else Text.of(word if word[:1] == "~" else there),)))
    found = files(there) if files is not None and depth < MAX_DEPTH and there != path else NOT_THERE
    for text in found.texts or () if not found.project else ():
        _read(text, there, files, out, depth + 1)
    if found.texts is None and not found.project:
        _unread(out, there)


def _shell(text: str, here: str, origin: str) -> Act:
    return Act("shell", (Text.of(text),), origin=origin, cwd=Text.of(here))


def _without_places(line: str) -> str:
    """A line of tox without what tox puts in; what is left of it is known."""
    line = re.sub(r"\{posargs(?::[^{}]*)?\}", "", line)
    return re.sub(r"\{(envpython|py)\}", "python", _HERE.sub(".", line))


def _words(value: str) -> list[str]:
    return [word.strip("\"'") for word in re.split(r"[\s,]+", value) if word]


@cache
def _table() -> tuple[tuple[str, str, str], ...]:
    """Patterns with the kind of what they match, and a program; what is data comes first."""
    import yaml

    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    rows: list[tuple[str, str, str]] = [(pattern, "data", "") for pattern in content.pop("data")]
    for program, patterns in content.pop("words").items():
        rows += [(pattern, "words", program) for pattern in patterns]
    return (*rows, *((pattern, kind, "") for kind, patterns in content.items() for pattern in patterns))


def _names(setting: str) -> bool:
    return _kind(setting.replace("_", "-").lower())[0] not in ("", "data")


def _kind(setting: str) -> tuple[str, str]:
    """What a setting is, by its path; one of which only the key is known may be that of any section."""
    key = setting.removeprefix(_ANY)
    known = key == setting
    for pattern, kind, program in _table():
        last = pattern.rpartition(".")[2]
        if fnmatchcase(key, pattern) or not (known or kind == "data" or last == "*" or not fnmatchcase(key, last)):
            return kind, program
    return "", ""


# ---- forms ------------------------------------------------------------------------------------------


class _UnreadError(Exception):
    """A file of settings can't be read: a document of YAML says the same too often, by aliases; one of XML is none."""


def _pairs(text: str, name: str) -> Iterator[Pair]:
    """The settings of a file with their values, in whatever form it is; those of a list one by one."""
    if name.startswith("Doxyfile"):
        yield from _doxygen(text)
        return
    strict = _STRICT_FORMS.get(posixpath.splitext(name.removesuffix(".dist"))[1])
    if strict is None and text.lstrip()[:1] == "<":
        strict = _xml  # `phpunit -c` takes a file of any name
    if strict is not None:
        try:
            yield from dict.fromkeys(strict(text))
        except (ValueError, RecursionError):
            raise _UnreadError from None
        return
    forms = _FORMS.get(posixpath.splitext(name)[1]) or (_FORMS[".json"] if text.lstrip()[:1] == "{" else (_ini, _toml))
    seen: dict[Pair, None] = {}
    for form in forms:
        try:
            seen.update(dict.fromkeys(form(text)))
        except (ValueError, RecursionError, TypeError, AttributeError):
            continue
    yield from seen or dict.fromkeys(_lines(text))


def _lines(text: str) -> Iterator[Pair]:
    """A piece of a file, or one in no form that is known: line by line."""
    sections = [(found.end(), found[1].strip("\"' ")) for found in _SECTION.finditer(text)]
    for found in _LINE.finditer(text):
        section = next((title + "." for end, title in reversed(sections) if end <= found.start()), _ANY)
        value = found[2].strip().rstrip(",")
        strings = [next(g for g in each.groups() if g is not None) for each in _STRING.finditer(value)]
        yield section + found[1], "\n".join(strings) if value[:1] in ("'", '"', "[", "{") and strings else value


def _ini(text: str) -> Iterator[Pair]:
    import configparser

    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from None
    for section in parser.sections():
        yield from ((f"{section}.{key}", value or "") for key, value in parser.items(section))


_DOXYGEN = re.compile(r"^[ \t]*(@?\w+)[ \t]*\+?=[ \t]*(.*)", re.MULTILINE)


def _doxygen(text: str) -> Iterator[Pair]:
    """A Doxyfile: filters are commands, those for patterns stand behind `PATTERN=`."""
    for found in _DOXYGEN.finditer(text.replace("\\\n", " ")):
        name, value = found[1].upper(), found[2].strip()
        if name.startswith("@INCLUDE"):
            yield "extend", value.strip('"')
        elif "FILTER" in name:
            for word in value.split() if "PATTERNS" in name else (value,):
                yield "doxygen.filter", (word.partition("=")[2] if "PATTERNS" in name else word).strip('"')
        else:
            yield f"doxygen.{name}", value.strip('"')


def _xml(text: str) -> Iterator[Pair]:
    """Attributes and texts by the elements that they stand in. Raises ValueError where it is no XML, or has a DTD."""
    from xml.etree import ElementTree

    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("declares what it holds")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
    waiting = [(root, root.tag)]
    while waiting:
        element, path = waiting.pop()
        yield from ((f"{path}.{name}", value) for name, value in element.items())
        if element.text and element.text.strip():
            yield path, element.text.strip()
        waiting += [(child, f"{path}.{child.tag}") for child in element]


def _toml(text: str) -> Iterator[Pair]:
    import tomllib

    return _flat(tomllib.loads(text))


def _json(text: str) -> Iterator[Pair]:
    plain = _COMMENT.sub(lambda found: found[1] or "", text)
    return _flat(json.loads(_TRAILING.sub(r"\1", plain)))


def _yaml(text: str) -> Iterator[Pair]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Takes what has a tag of its own for what it is without."""

    def untagged(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> object:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return node.value

    Loader.add_multi_constructor("", untagged)
    found = []
    try:
        loader = Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if _size(node, {}) > MAX_NODES:
                raise _UnreadError
            found.append(loader.construct_document(node))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    return _flat(found)


def _size(node: Any, known: dict[int, int]) -> int:
    """How many nodes a document of YAML has where each alias stands for all that it names; one that names itself has
    too many. Each node is looked at once.
    """
    size = known.get(id(node))
    if size is None:
        known[id(node)] = MAX_NODES + 1
        children = node.value if isinstance(node.value, list) else ()
        parts = (part for child in children for part in (child if isinstance(child, tuple) else (child,)))
        size = known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return size


def _flat(value: Any, path: str = "") -> Iterator[Pair]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            if str(key).startswith(("./", "../", "/", "~/")):
                yield path, str(key)
            yield from _flat(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for each in value:
            yield from _flat(each, path)
    elif isinstance(value, str):
        yield path, value


_FORMS: dict[str, tuple[Callable[[str], Iterator[Pair]], ...]] = {
    ".toml": (_toml,),
    ".json": (_json, _yaml),
    ".jsonc": (_json, _yaml),
    ".yml": (_yaml,),
    ".yaml": (_yaml,),
    ".properties": (_lines,),
    ".txt": (_lines,),
}
_STRICT_FORMS: dict[str, Callable[[str], Iterator[Pair]]] = {".xml": _xml, ".runsettings": _xml, ".neon": _yaml}
"""Those of which a file that is not in that form is unread."""
