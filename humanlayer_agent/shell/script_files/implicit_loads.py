"""Files that a command loads by itself, where they are no longer those that a human started from.

`pytest` runs every conftest.py that it finds, and imports what tests import; `make` and `npm` run what their files say.
Which of the files that differ it will come to, nobody can tell: each is judged in the language in which it would be
loaded, as if the action had written it. What nobody can read here, and what the action may have changed in a way that
is not known, makes the load unread.
"""

import posixpath
import re
from collections.abc import Container, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.field import WILD_CHARACTER, Field
from humanlayer_agent.shell.languages import SHELLS, by_name
from humanlayer_agent.shell.paths import absolute_path, dedupe, plain_path
from humanlayer_agent.shell.program import WRITTEN, Effect, SimpleCommand, code_name
from humanlayer_agent.shell.reader import ProjectReader
from humanlayer_agent.shell.script_files.git_hooks import note_hooks
from humanlayer_agent.shell.script_files.implicit_imports import (
    CODE_FORMATTERS,
    COMPILED_NAMES,
    LOADS,
    NATIVE_NAMES,
    PROCESSOR_NAMES,
    UNREAD_NAMES,
    is_called,
    is_python,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.script_files.scripts import Scripts

MAX_LOADED = 48
"""Most files that are judged for one action because they would be loaded."""
DOCTEST = "doctest"
"""The language of examples in docstrings and documents."""
PROCESSORS = "processors"
"""The kind of what javac loads: what processes the annotations of what it compiles."""
UNREAD = "unread"
"""Stands for any language that nobody reads here."""
_RUNNERS = frozenset({"build", "cmake", "node", "jstools", "rust", "go", "jvm", "languages"})
"""Files of the catalog with programs that run whatever their files say."""
_PACKAGES = frozenset({"go", "rust", "jvm"})
"""Those of which the programs are given packages: `go test ./cmd/server` is told nothing of a file called server."""
_SITE = frozenset({"sitecustomize", "usercustomize"})
_MODULES = (".py", ".pyc", ".so")
_PYTHON = frozenset({"python", "modules"})
"""Files of the catalog with programs that load Python, and what Python may run by its name."""
_SOURCES = (*UNREAD_NAMES, *NATIVE_NAMES, *COMPILED_NAMES)
_OUTPUTS = re.compile(r"/(?:dist|build|target|out|htmlcov|coverage|_build|\.next|\.nuxt|\.output|\.svelte-kit|obj)/")
"""Folders of what builds make, in languages that nobody reads here: it comes from what is looked at."""
_WITH_GOALS = frozenset({"make", "cmake"})
_GENERATED = ("# CMAKE generated file", "# CMake generated Testfile", "# Install script for directory")
"""How files begin that say far more than one build does, what installs, for example."""
ALL_EXAMPLES = "doctest of all"
_ANY_DOCUMENT = re.compile(r"doctest[-_]glob|-m\s*doctest\b")
"""Examples are looked for in files of any name."""
_TEST_TEXT = re.compile(r"test[^/]*\.txt\Z")
"""Documents that pytest runs the examples of, where nothing says otherwise."""
_DOCUMENTS = (".txt", ".rst", ".md")
_DOCTEST_SETTINGS = (
    "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg", "Makefile", "noxfile.py", "package.json",
)  # fmt: skip
_SETTINGS = "settings "
"""Begins the kind of a command that loads nothing but settings: the names of their files stand behind it."""
_TASK_FILES = tuple(
    str.split(
        """
        Makefile makefile GNUmakefile package.json pyproject.toml tox.ini setup.cfg noxfile.py tasks.py hatch.toml
        justfile Justfile Taskfile.yml Taskfile.yaml composer.json Procfile ruff.toml .ruff.toml tsconfig.json
        CMakePresets.json CMakeUserPresets.json .pre-commit-config.yaml
        """
    )
)
"""Files of a project that say what its tools are started with, and which settings these take."""
_MENTIONED = re.compile(r"[\w.-]+", re.ASCII)
_GIVEN = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*[ =]+[\"']?(?:[\w.-]*/)*([\w.-]+)", re.ASCII)
"""The last part of what stands behind an option, or is its value."""
_ARGUMENTS = re.compile(r"(?<=[ =\"'])@(?:[\w.-]*/)*([\w.-]+)", re.ASCII)
"""The last part of the name of a file of arguments."""
_ASSIGNED = re.compile(r"(?<![\w$])[A-Za-z_]\w*=(\S+)", re.ASCII)
"""The value of a variable, as it is written."""
_PARTS = re.compile(r"[=,:;\s\"'()]+")
"""What stands between the paths in one word."""
_TEXTS = (".md", ".rst", ".txt", ".html", ".csv", ".tsv", ".svg", ".log", ".lock", ".sql", ".css", ".png", ".gitignore")
"""Endings of documents and data, which are no settings where nothing but their name is said."""
_CHANGES = frozenset({"write", "append", "move"})
_ONE_FILE = frozenset(
    str.split("tee sed sort uniq dd awk perl curl wget gcc g++ cc c++ c99 clang clang++ gfortran ld as nvcc")
)
"""Programs that put no files into a folder that they are given."""
_BUILDERS = frozenset({"go", "cargo"})
"""Programs that put into a folder what they build of the project's own code, and nothing else."""
_MAKES_NO_CODE = frozenset({"mkdir", "touch", "chmod", "chown", "coverage"})
GIT_CHANGES = frozenset(
    str.split(
        """checkout switch restore reset stash merge rebase cherry-pick revert pull apply am read-tree checkout-index
        submodule worktree mv clone bisect"""
    )
)
"""git's commands that give files another content."""
_GIT_KEEPS = re.compile(
    r"git\s+(?:stash\s+(?:list|show|drop)\b|(?:checkout\s+(?:-q\s+)?-b|switch\s+(?:-q\s+)?-c)\s+[\w./-]+\s*$|worktree\s+list\b"
    r"|submodule\s+status\b|reset\s*(?:-q\s*)?(?:HEAD\b[\s\w./-]*)?$|restore\s+--staged\s+[\w./-]+\s*$)[^\n]*"
)
"""Forms of them that give none."""
_ANY_TIME = frozenset({"loop", "function", "trap", "background"})


class LoadedFiles:
    """The files that one action may load by itself.

    Args:
        scripts: those of the action, which are judged with the same means.
    """

    def __init__(self, scripts: "Scripts") -> None:
        self._scripts, self._walk = scripts, scripts.walk
        self._seen: set[tuple[str, str, tuple[str, ...] | None]] = set()
        self._count = 0
        self._changed: dict[tuple[frozenset[str] | None, frozenset[str]], Sequence[str] | None] = {}
        self._shadows: set[tuple[int, str | None]] = set()
        self._names: tuple[frozenset[str], frozenset[str], tuple[str, ...]] | None = None

    def judge(self) -> None:
        """Judge what the commands of the action so far would load."""
        reader = self._scripts.reader
        if not isinstance(reader, ProjectReader):
            return
        self._judge_shadows(reader)
        note_hooks(self._walk.program, reader)
        loads, settings = list(self._loads()), self._settings()
        if not loads and not settings:
            return
        loaders = {(self._kind(command), self._where(command)): command for command, _ in reversed(loads)}
        loaders |= {(kind, command.places): command for command, kind in settings}
        kinds = frozenset(kind for kind, _ in loaders)
        places = frozenset((*self._places(loads), *_places_of_settings(settings)))
        named = frozenset(self._named(loads))
        key = kinds, places | self._scripts.named
        if key not in self._changed:
            self._changed[key] = reader.changed(
                lambda path: path in named or any(self._languages(path, kind) for kind in kinds), places
            )
        found = self._changed[key]
        for (kind, _), command in loaders.items():
            left = None if found is None else [p for p in found if not self._judged(reader, p, kind, command)]
            if left is None or left or not named.isdisjoint((*(found or ()), *self._scripts.written.texts)):
                self._unread(kind, loads, settings)
            for path in list(self._scripts.written.texts):
                for language in self._languages(path, kind):
                    if language == UNREAD and not _languages(path, kind):  # code because a command is told its name
                        self._unread(kind, loads, settings)
                    source = self._scripts.source(path) if language != UNREAD else None
                    before = source.text if source is not None else None
                    for text in self._scripts.written.contents(path, before) if language != UNREAD else ():
                        self._scripts.judge_loaded(path, text, language, command, self._where(command, path, kind))

    def _judge_shadows(self, reader: ProjectReader) -> None:
        """Judge files that Python would load instead of its own modules: it looks for them where it is started."""
        for command, folders in self._pythons():
            key = folders, frozenset[str]()
            if key not in self._changed:
                self._changed[key] = reader.changed(partial(_is_shadow, folders=folders), beside=folders or ())
            found = self._changed[key]
            for path in (None,) if found is None else found:
                if path is None or not self._judged(reader, path, "python", command):
                    self._add_unread(command, path)

    def _judge_import_paths(self) -> None:
        """Make unread what imports from files, and from folders that the action makes in a way that is not known."""
        made = {
            plain_path(e.operand)
            for by in self._walk.program.commands
            for e in by.effects
            if e.kind in _CHANGES and e.role != "build" and e.operand is not None
            if WRITTEN not in by.inside and by.program not in _MAKES_NO_CODE
        }
        added = [(command, path) for path in self._added() for command in self._walk.program.commands]
        for command, path in (*added, *self._scripts.import_paths):
            above = (path[:at] for at in range(2, len(path) + 1) if path[at : at + 1] in ("", "/"))
            if self._scripts.is_packed(path) or not made.isdisjoint(above):
                self._add_unread(command, path)

    def _pythons(self) -> list[tuple[SimpleCommand, frozenset[str] | None]]:
        """The commands that start Python, and where each looks for modules before its own; None: in any folder.
        Those that are written in Python look where PYTHONPATH says.
        """
        found: list[tuple[SimpleCommand, frozenset[str] | None]] = []
        added = self._added()
        for command in self._walk.program.commands:
            if WRITTEN in command.inside or "isolated" in command.flags:
                continue
            if not is_python(command):
                if added and self._walk.catalog.family(command.program or "") in _PYTHON:
                    found.append((command, frozenset(added)))
                continue
            run = (e.operand or "" for e in command.effects if e.kind == "execute" and e.origin != "python import")
            scripts = (posixpath.dirname(each) for each in run if each[:1] == "/")
            anywhere = command.moves is None  # it looks where it is by then
            found.append((command, None if anywhere else frozenset((*(command.places or ()), *scripts, *added))))
        return found

    def _add_unread(self, command: SimpleCommand, path: str | None) -> None:
        if (id(command), path) in self._shadows:
            return
        self._shadows.add((id(command), path))
        what = Effect("execute", "script", path, False, command.span, "python import", unread=True)
        command.effects.append(what)
        command.doubt(path or command.text)

    def doubt_changed(self) -> None:
        """Make unread what loads files that the action may have changed in a way that can't be told."""
        if not isinstance(self._scripts.reader, ProjectReader):
            return
        loads, settings = list(self._loads()), self._settings()
        self._judge_import_paths()
        if pythons := self._pythons():
            changed = [plain_path(change.operand or "") for _, change in self._changes(None) if change is not None]
            for command, folders in pythons:
                for path in (each for each in changed if _is_shadow(each, folders)):
                    self._add_unread(command, path)
        changes = list(self._changes(None if loads or settings else "background"))
        for by, change in changes:
            if change is not None and "background" in by.inside and _languages(plain_path(change.operand or ""), "any"):
                # It may come true when something else loads it that was judged before.
                what = Effect(
                    "execute", "script", change.operand, False, change.span, "code that comes later", unread=True
                )
                by.effects.append(what)
                by.doubt(change.operand or "")
        named = frozenset(self._named(loads))
        given = [(command, effect, self._kind(command)) for command, effect in loads]
        for command, effect, kind in (*given, *((command, None, kind) for command, kind in settings)):
            for by, change in changes:
                late = by.span[0] > command.span[0] and _ANY_TIME.isdisjoint((*by.inside, *command.inside))
                if change is None and kind.startswith(_SETTINGS):
                    late |= not any(_languages(word, kind) for word in by.argv)  # `git checkout other -- ruff.toml`
                if not late and (change is None or self._may_be_loaded(by, change, kind, named)):
                    self._doubt(command, effect)
                    break

    def _loads(self) -> Iterator[tuple[SimpleCommand, Effect]]:
        for command in self._walk.program.commands:
            if WRITTEN in command.inside:
                continue
            for effect in command.effects:
                if effect.kind == "execute" and effect.role in LOADS and effect.resolved and not effect.unread:
                    yield command, effect

    def _settings(self) -> list[tuple[SimpleCommand, str]]:
        """The commands that look for their settings by name, each with the kind of what it loads."""
        return [
            (command, _SETTINGS + " ".join(names))
            for command, names in self._scripts.settings
            if WRITTEN not in command.inside and "version" not in command.flags
        ]

    def _languages(self, path: str, kind: str) -> tuple[str, ...]:
        """The languages in which the file at `path` may be loaded, by its name or because a task of the project names
        it: settings may have any name.
        """
        found = _languages(path, kind)
        if found:
            return found
        if self._names is None:
            self._names = self._mentioned()
        name = posixpath.basename(path)
        settings, code, patterns = self._names
        if name in self._scripts.named or name in code or any(_is_of(path, each) for each in patterns):
            return (UNREAD,)
        return ("settings",) if name in settings else ()

    def _mentioned(self) -> tuple[frozenset[str], frozenset[str], tuple[str, ...]]:
        """The names of files that the project's tasks and settings mention, and those of files that may be code: files
        of arguments, and what a command is told; the latter as patterns where only these are known.
        """
        commands = [command for command, _ in (*self._loads(), *self._settings())]
        folders = dedupe(each for command in commands for each in command.places or ())[:4]
        paths = [f"{folder.rstrip('/')}/{name}" for folder in folders for name in _TASK_FILES]
        texts = [text for path in paths for text in self._scripts.look(path).texts or ()]
        words = {word for text in texts for word in _MENTIONED.findall(text) if not word.endswith(_TEXTS)}
        words.update(word for text in texts for word in _GIVEN.findall(text))
        code = {word for text in texts for word in _ARGUMENTS.findall(text)}
        code.update(name for command in commands for name in self._told(command))
        return frozenset(words), frozenset(code), tuple(each for each in code if WILD_CHARACTER.search(each))

    def _told(self, command: SimpleCommand) -> Iterator[str]:
        """The last parts of the paths that a command which runs whatever its files say is given, but for what it only
        reads or writes: `webpack -c notes.txt`, `npm test -- --globalSetup=notes.txt`, `CONFIG=notes.txt make`.
        """
        families = {self._walk.catalog.family(name) for name in (command.program or "", *command.via)}
        packages = not _PACKAGES.isdisjoint(families)
        if _RUNNERS.isdisjoint(families) or (packages and command.subcommand == "run"):  # data for what was built
            return
        data = {posixpath.basename(e.pattern or e.operand or "") for e in command.effects if e.kind != "execute"}
        words = [text for word in command.words[1:] for text in _texts(word)]
        for word in (*words, *_ASSIGNED.findall(self._walk.text)):
            for part in _PARTS.split(word):
                name = posixpath.basename(part.rstrip("/"))
                if name and name not in data:
                    yield f"*/{posixpath.normpath(part).lstrip('./')}" if packages else name

    def _added(self) -> list[str]:
        """The folders in PYTHONPATH, where a command sets it."""
        return [
            plain_path(absolute_path(place, cwd))
            for command in self._walk.program.commands
            for e in command.effects
            if e.kind == "environment" and e.operand == "PYTHONPATH"
            for place in (e.value or "").split(":")
            if place
            for cwd in command.places or ("/",)
        ]

    def _places(self, loads: list[tuple[SimpleCommand, Effect]]) -> Iterator[str]:
        """Where they look for what they load, besides the project."""
        yield from self._added()
        for command, effect in loads:
            if effect.role != "import":
                yield from (each for each in (effect.operand,) if each is not None and each[:1] == "/")
                continue
            scripts = [e.operand for e in command.effects if e.kind == "execute" and (e.operand or "")[:1] == "/"]
            for folder in (*(command.places or ()), *(posixpath.dirname(each or "") for each in scripts)):
                base = f"{folder.rstrip('/')}/{(effect.operand or '').partition('.')[0]}"
                yield from (base, f"{base}.py")

    def _named(self, loads: list[tuple[SimpleCommand, Effect]]) -> Iterator[str]:
        """What they are told to load of which no name says what it is: folders, and files that are code."""
        for command, effect in loads:
            path = plain_path(effect.operand or "") if effect.role == "project" else ""
            if path[:1] == "/" and not path.endswith(".pyi") and not _languages(path, self._kind(command)):
                yield path

    def _kind(self, command: SimpleCommand) -> str:
        """What a command loads: `PROCESSORS`, "python", which is that and what can be read, or "any"; and whether
        examples.
        """
        if command.program == "javac":
            return PROCESSORS
        names = [command.program or "", *command.via]
        families = {self._walk.catalog.family(name) for name in names if name not in SHELLS}
        kind = "python" if families & _PYTHON or "python" in command.via else "any"
        if not families.isdisjoint(_RUNNERS):
            kind = "any"
        said = " ".join((*command.argv, command.subcommand or "", self._walk.text))
        if _ANY_DOCUMENT.search(said):
            return f"{kind} {ALL_EXAMPLES}"
        return f"{kind} {DOCTEST}" if DOCTEST in said or self._runs_examples() else kind

    def _where(self, command: SimpleCommand, path: str = "", kind: str = "") -> tuple[str, ...] | None:
        """Return the directories in which code that `command` loads may run: where it is, or is told to work, and where
        the file at `path` stands, for what looks for its files above; None where they are not known.
        """
        if command.places is None:
            return None
        told = (e.operand for e in command.effects if e.kind == "execute" and e.role == "project")
        folders = [plain_path(each) for each in told if each and each[:1] == "/" and self._scripts.source(each) is None]
        beside = [posixpath.dirname(path)] if path and not kind.startswith("python") else []
        return dedupe((*command.places, *folders, *beside))

    def _runs_examples(self) -> bool:
        """Do the project's settings say that its tests run the examples of docstrings?"""
        key = "settings that run doctests"
        if key not in self._scripts.notes:
            places = {cwd for c in self._walk.program.commands for cwd in c.cwd or ()}
            paths = [f"{place.rstrip('/')}/{name}" for place in sorted(places)[:4] for name in _DOCTEST_SETTINGS]
            texts = [text for path in paths for text in self._scripts.look(path).texts or ()]
            self._scripts.notes[key] = any(DOCTEST in text for text in texts)
        return self._scripts.notes[key]

    def _judged(self, reader: ProjectReader, path: str, kind: str, command: SimpleCommand) -> bool:
        """Judge a file that differs; False where it can't be read."""
        for language in self._languages(path, kind):
            where = self._where(command, path, kind)
            key = path, language, where
            if key in self._seen:
                continue
            self._seen.add(key)
            if language == UNREAD:
                self._seen.discard(key)
                return False
            source = self._scripts.source(path)
            if source is not None and source.project:
                continue
            if source is None or source.text is None:
                self._seen.discard(key)
                return False
            made = _OUTPUTS.search(path) or "/CMakeFiles/" in path or source.text.startswith(_GENERATED)
            if made and language in _WITH_GOALS:
                self._seen.discard(key)
                return False
            if reader.is_judged(code_name(path, source.text, language, where)):
                continue
            self._count += 1
            if self._count > MAX_LOADED:
                self._seen.discard(key)
                return False
            self._scripts.judge_loaded(path, source.text, language, command, where)
        return True

    def _unread(
        self, kind: str, loads: list[tuple[SimpleCommand, Effect]], settings: list[tuple[SimpleCommand, str]]
    ) -> None:
        for command, effect in loads:
            if self._kind(command) == kind:
                self._doubt(command, effect)
        for command, names in settings:
            if names == kind:
                self._doubt(command, None)

    def _may_hold(self, moved: Effect, kind: str) -> bool:
        """May what is moved be settings of this kind, or a folder that holds some which have changed?"""
        path = plain_path(moved.operand or "")
        known = moved.resolved and moved.pattern is None and None not in self._changed.values()
        below = (each for found in self._changed.values() for each in found or () if each.startswith(f"{path}/"))
        return not known or bool(_languages(path, kind)) or any(_languages(each, kind) for each in below)

    def _doubt(self, command: SimpleCommand, effect: Effect | None) -> None:
        """Make a load unread; None: that of settings."""
        if effect is None:
            which = f"settings of {command.program}"
            effect = Effect("execute", "setting", which, False, command.span, "settings", unread=True)
            command.effects.append(effect)
        effect.unread, effect.resolved = True, False
        command.doubt(effect.operand or effect.origin)

    def _changes(self, inside: str | None) -> Iterator[tuple[SimpleCommand, Effect | None]]:
        """What changes files in a way that is not known, everywhere or inside such a construct. None: which is not
        known either.
        """
        for command in self._walk.program.commands:
            if WRITTEN in command.inside or (inside is not None and inside not in command.inside):
                continue
            name = (command.subcommand or "").partition(" ")[0]
            if command.program == "git" and name in GIT_CHANGES and not _GIT_KEEPS.search(command.text):
                yield command, None
            if command.program in CODE_FORMATTERS or command.program in _MAKES_NO_CODE:
                continue
            for effect in command.effects:
                if effect.kind not in _CHANGES or effect.role == "build" or effect.operand is None:
                    continue
                if id(effect) not in self._scripts.written.effects and not self._is_copy(command, effect):
                    yield command, effect

    def _is_copy(self, command: SimpleCommand, effect: Effect) -> bool:
        """Is it a file under another name, whose content can be judged under that?"""
        if command.program not in ("cp", "mv") or not command.resolved or len(command.operands) != 2:
            return False
        pair = [e for e in command.effects if e.kind in ("read", "move", "write") and e.operand is not None]
        if len(pair) != 2 or pair[1].kind != "write" or any(e.below or e.pattern for e in pair):
            return False
        if effect is pair[0]:
            return True
        source, target = (plain_path(e.operand or "") for e in pair)
        found = self._scripts.look(source)
        if not found.texts or self._is_changed(source, command):
            return False
        for path in (target, f"{target}/{posixpath.basename(source)}"):  # it may be a folder
            kinds = ("any", *(kind for _, kind in self._settings()))
            for language in dedupe(each for kind in kinds for each in self._languages(path, kind)):
                if language == UNREAD:
                    return False
                for text in found.texts:
                    self._scripts.judge_loaded(path, text, language, command, command.places)
        return True

    def _is_changed(self, path: str, by: SimpleCommand) -> bool:
        """Does another command of the action write to `path` what is not known?"""
        return any(
            e.kind in _CHANGES and e.operand is not None and plain_path(e.operand) == path
            for command in self._walk.program.commands
            if command is not by and WRITTEN not in command.inside
            for e in command.effects
            if id(e) not in self._scripts.written.effects
        )

    def _may_be_loaded(self, by: SimpleCommand, change: Effect, kind: str, named: Container[str]) -> bool:
        """May it be a change of a file that is loaded? A name without an ending is perhaps a folder."""
        operand = change.pattern or change.operand or ""
        name = posixpath.basename(operand)
        if plain_path(operand) in named or self._languages(plain_path(operand), kind):
            return True
        if by.program == "mv" and kind.startswith(_SETTINGS) and change.pattern is None and not change.below:
            return any(self._may_hold(e, kind) for e in by.effects if e.kind == "move")  # they keep their names
        if kind.startswith(_SETTINGS):  # a folder that is copied brings them by the names under which they were judged
            return name[-1:] in ("*", "?", "]")
        if self._is_built(by, change) or (kind == PROCESSORS and by.program == "javac"):  # it makes classes, no jars
            return False
        if change.recursive or change.below or name[-1:] in ("*", "?", "]"):
            return True
        exact = change.source == "redirect" or by.program in _ONE_FILE or change.origin.startswith("python")
        return not exact and "." not in name

    def _is_built(self, by: SimpleCommand, change: Effect) -> bool:
        """Is it what a command builds of the project's own code, all of which is known? That may do no more than the
        code itself, which the command runs.
        """
        loads = [effect for effect in by.effects if effect.kind == "execute"]
        known = by.program in _BUILDERS and by.resolved and change.source == "own"
        return known and bool(loads) and all(each.role == "project" and not each.unread for each in loads)


def _is_of(path: str, pattern: str) -> bool:
    return fnmatchcase(path if "/" in pattern else posixpath.basename(path), pattern)


def _texts(word: Field) -> tuple[str, ...]:
    """What a word may be; a pattern where only that is known."""
    if word.texts or word.names or word.listed:
        return (*word.texts, *word.names, *word.listed)
    return (word.glob if word.glob is not None else f"{word.prefix}*",)


def _places_of_settings(settings: list[tuple[SimpleCommand, str]]) -> Iterator[str]:
    """Where they look for settings: where they are, and at and above what they work on."""
    for command, _ in settings:
        yield from command.places or ()
        for effect in command.effects:
            if effect.kind in ("read", "write") and effect.role != "build" and (effect.operand or "")[:1] == "/":
                yield effect.operand or ""


def _is_shadow(path: str, folders: Container[str] | None) -> bool:
    """Is it a module in one of these folders that has the name of one of Python's own?"""
    from humanlayer_agent.shell.languages.python.library.tables import STANDARD

    folder, name = posixpath.split(path)
    if name in ("__init__.py", "__init__.pyc"):
        folder, name = posixpath.split(folder)
    if not path.endswith(_MODULES) or name.partition(".")[0] not in STANDARD | _SITE:
        return False
    return folders is None or folder in folders


def _languages(path: str, kind: str) -> tuple[str, ...]:
    """The languages in which the file at `path` may be loaded, by its name."""
    named = by_name(path)
    if kind.startswith(_SETTINGS):
        return (named or "settings",) if posixpath.basename(path) in kind.split()[1:] else ()
    if kind == PROCESSORS:
        return (UNREAD,) if is_called(path, PROCESSOR_NAMES) else ()
    out: list[str] = []
    if named is not None and named != "notebook":
        out.append(named)
    elif is_called(path, COMPILED_NAMES if kind.startswith("python") or _OUTPUTS.search(path) else _SOURCES):
        out.append(UNREAD)
    examples = DOCTEST in kind and (named == "python" or path.endswith(_DOCUMENTS))
    if examples or ALL_EXAMPLES in kind or _TEST_TEXT.search(path):
        out.append(DOCTEST)
    return tuple(out)
