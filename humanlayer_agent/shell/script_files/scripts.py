"""Script files: what an action runs from disk, and what it writes to be run, is judged where it stands.

Files are looked at after the whole action was followed, because only then all that it may write to them is known. A
file that can't be read, that is too long, or whose content this action makes in a way that can't be told, stays unread.
A file under version control that nobody changed is the project's own code.
"""

import posixpath
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion.field import Field, positional
from humanlayer_agent.shell.interpreter.context import MAX_DEPTH, Context
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.languages import SHELLS, by_name, interpreter
from humanlayer_agent.shell.languages.behaviour import NOT_THERE, Found, Text
from humanlayer_agent.shell.languages.code_effects import perform
from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import WRITTEN, Effect, SimpleCommand, code_name
from humanlayer_agent.shell.reader import MAX_TEXT, Reader, Source
from humanlayer_agent.shell.script_files.file_texts import Written
from humanlayer_agent.shell.script_files.implicit_imports import LOADS
from humanlayer_agent.shell.script_files.implicit_loads import GIT_CHANGES, LoadedFiles
from humanlayer_agent.shell.syntax.tree import Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

MAX_FILES = 16
"""Most files that are judged for one action."""
_ARCHIVES = (".zip", ".egg", ".whl", ".pyz", ".pyzw")
_CHANGES = frozenset({"write", "append", "move"})
_PART = "part"
"""Stands for the language of a file of which an action runs a part: a Makefile, package.json."""
_NOW = "now"
"""The same of a file that was judged as it is on disk: a database."""
_FIRST = "first"
"""The same of a file that a program reads before it writes: a document, settings."""
_INCLUDED = "included"
"""The same of a file that such a one includes."""
_COMPILERS = frozenset(str.split("gcc cc c++ g++ clang clang++ gfortran ld go cargo rustc javac tsc"))
"""Programs that make programs of sources."""
_SOURCES_SHOWN = 3
_READ_OR_BUILT = frozenset({"build", "database"})
"""Roles of changes that are those of a build, or of statements that were read."""
_MAKES_NOTHING = frozenset({"mkdir", "touch", "chmod", "chown", "tee", "sed"})
"""Programs that put no files into a directory that they are given."""
_TOOLS = re.compile(
    r"/(?:node_modules/\.bin|vendor/bin|\.venv/bin|venv/bin)/(?!python|pypy)([A-Za-z][\w.-]*)\Z", re.ASCII
)
"""Where a project's own tools are installed: what an agent puts there is asked about by itself."""
_TOOL_FAMILIES = frozenset({"node", "jstools", "languages", "checkers", "python"})
"""Files of the catalog with such tools: one that is called `rm` is something else."""
_NO_STATE = State(None, {})
"""Of a file that was judged where it is read: nothing looks at it."""
_OWN_CODE = frozenset({"git"})
"""Programs whose changes of files are those of version control, or of the project's own build."""


@dataclass(frozen=True, slots=True)
class _Run:
    """`command` runs the file that `effect` names. `language` and `arguments`: see `Run.script`."""

    command: SimpleCommand
    effect: Effect
    word: Field
    state: State
    language: str | None
    arguments: Sequence[Field] | None


class Scripts:
    """The files that one action runs or writes to be run.

    Args:
        reader: gives the files; None: nothing can be read.
    """

    def __init__(self, walk: "Interpreter", reader: Reader | None) -> None:
        self.walk, self.reader = walk, reader
        self.written = Written()
        self.notes: dict[object, bool] = {}
        """What readers of one language found out, so that they do it once."""
        self._sources: dict[str, Source | None] = {}
        self.import_paths: list[tuple[SimpleCommand, str]] = []
        """Where code of a command looks for modules, besides where all do."""
        self.named: set[str] = set()
        """The names of files that settings of tools say are code: some tell the folder by another setting."""
        self.settings: list[tuple[SimpleCommand, tuple[str, ...]]] = []
        """Commands that look for files of these names, which hold settings of theirs."""
        self._runs: list[_Run] = []
        self._later: list[tuple[SimpleCommand, Callable[[], None]]] = []
        self._judged: list[tuple[str, _Run]] = []
        self._texts: set[tuple[object, ...]] = set()
        self._count = 0
        self._looks = 0
        self._loaded = LoadedFiles(self)

    def add(
        self, command: SimpleCommand, effect: Effect, word: Field, state: State, language: str | None,
        arguments: Sequence[Field] | None,
    ) -> None:  # fmt: skip
        """Note that a file is run; `finish` says what it does."""
        self._runs.append(_Run(command, effect, word, state.copy(), language, arguments))

    def later(self, command: SimpleCommand, job: Callable[[], None]) -> None:
        """Call `job`, which adds to `command`, once the whole action was followed: what it may write is known then."""
        self._later.append((command, job))

    def look(self, path: str) -> Found:
        """What the file at `path` may hold, as it is on disk and as this action writes it."""
        source = self.source(path)
        if source is None and path not in self.written.texts:
            return NOT_THERE
        contents = tuple(self.written.contents(path, source.text if source is not None else None))
        if source is None:
            return Found(contents)
        if source.project and not contents:
            return Found(None if source.text is None else (source.text,), project=True)
        if source.project:
            return Found(contents)
        return Found(None if source.text is None else tuple(dict.fromkeys((source.text, *contents))))

    def there(self, path: str) -> bool:
        """Is there a file at `path`, or does this action write one, or can nobody tell?"""
        if self.reader is None and path not in self.written.texts:
            return False
        found = self.look(path)
        return found.project or found.texts != ()

    def is_packed(self, path: str) -> bool:
        """Is what stands at `path`, from which code is imported, a file, whose modules nobody can list? It may be an
        archive of any name, and `path` may go on inside it.
        """
        place = plain_path(path)
        while len(place) > 1:
            if place.endswith(_ARCHIVES) or self.there(place):
                return True
            place = posixpath.dirname(place)
        return False

    def judged(self, command: SimpleCommand, effect: Effect, path: str, word: Field, *, now: bool = False) -> None:
        """What `effect` runs of the file at `path` was judged: should its content be doubtful, so is the effect.

        Args:
            now: only as it is on disk: whatever the action writes to it is doubtful.
        """
        self._judged.append((path, _Run(command, effect, word, _NO_STATE, _NOW if now else _PART, None)))

    def looked_into(self, command: SimpleCommand, effect: Effect, path: str, word: Field, *, included: bool) -> None:
        """As `judged`, of a document or settings that a command reads before it writes anything itself, or of a file
        that is `included` there, which others read again that are given the same document.
        """
        kind = _INCLUDED if included else _FIRST
        self._judged.append((path, _Run(command, effect, word, _NO_STATE, kind, None)))

    def spend(self, key: tuple[object, ...], *texts: str) -> bool | None:
        """Count one more file that is judged. False where there are too many, None where `key` was counted before."""
        if key in self._texts:
            return None
        self._texts.add(key)
        self._count += 1
        if self._count > MAX_FILES or any(len(text) > MAX_TEXT for text in texts):
            return False
        return self.walk.work.admit(sum(map(len, texts)))

    def settled(self, command: SimpleCommand, effect: Effect, word: Field) -> str | None:
        """The text of the file that `effect` names, where this action has not written it so far; None: not known.

        Should something in the action turn out to write it after all, the file is unread.
        """
        path = _exact(effect)
        if path is None or path in self.written.texts or self._count >= MAX_FILES:
            return None
        source = self.source(path)
        if source is None or source.text is None:
            return None
        self._count += 1
        effect.role = "project" if source.project else effect.role
        self._judged.append((path, _Run(command, effect, word, _NO_STATE, "source", None)))
        return source.text

    def finish(self) -> bool:
        """Judge what was noted. True where there was anything: that may have brought up more."""
        pending, self._runs = self._runs, []
        for run in pending:
            start = len(self.walk.program.commands)
            judged = self._judge(run)
            self.walk.program.trace.append(("script", run.command, start, start, len(self.walk.program.commands)))
            if judged:
                run.effect.unread, run.effect.resolved = False, True
            else:
                run.command.doubt(run.word.word.raw)
        jobs, self._later = self._later, []
        for command, job in jobs:
            start = len(self.walk.program.commands)
            job()
            self.walk.program.trace.append(("script", command, start, start, len(self.walk.program.commands)))
        count = self._count
        if not pending and not jobs:  # nothing else is left
            self._judge_written()
            self._loaded.judge()
        return bool(pending or jobs or self._runs or self._later) or self._count > count

    def doubt_changed(self) -> None:
        """Files that the action may have changed in a way that can't be told are unread after all."""
        self._loaded.doubt_changed()
        if not self._judged:
            return
        changes = [
            (command, effect, command.program in _MAKES_NOTHING or effect.source == "redirect")
            for command in self.walk.program.commands
            for effect in command.effects
            if effect.kind in _CHANGES and effect.role not in _READ_OR_BUILT and id(effect) not in self.written.effects
            if command.program not in _OWN_CODE or effect.source == "redirect"
        ]
        named = {  # whoever writes it, a build or the project's own code too
            (_exact(effect), id(command))
            for command in self.walk.program.commands
            for effect in command.effects
            if effect.kind in _CHANGES and id(effect) not in self.written.effects
        }
        brings = any(
            command.program == "git" and (command.subcommand or "").partition(" ")[0] in GIT_CHANGES
            for command in self.walk.program.commands
        )
        for path, run in self._judged:
            later = run.language in ("source", _NOW) and path in self.written.texts and run.arguments is None
            if (
                later
                or (brings and run.language == _NOW)
                or (run.language == _FIRST and any(target == path and by != id(run.command) for target, by in named))
                or (run.language == _INCLUDED and any(target == path for target, _ in named))
                or any(
                    _reaches(effect, path, exact)
                    for command, effect, exact in changes
                    if run.language != _FIRST or command is not run.command or _may_run_again(command)
                )
            ):
                run.effect.unread, run.effect.resolved = True, False
                run.command.doubt(run.word.word.raw)

    def name_builds(self) -> None:
        """Note of what is run unread that it was built here, and from what: nobody here reads C, Go, Rust or Java."""
        made = [(c, e) for c in self.walk.program.commands if c.program in _COMPILERS for e in c.effects]
        made = [(c, e) for c, e in made if e.kind == "write" and e.operand is not None]
        for command in self.walk.program.commands if made else ():
            for effect in command.effects:
                if effect.kind != "execute" or not effect.unread or command.program in _COMPILERS:
                    continue
                paths = [path for path in (_exact(effect),) if path is not None]
                paths += [f"{path}.class" for path in paths if command.program == "java"]
                makers = [c for c, e in made if any(_reaches(e, path, e.role != "build") for path in paths)]
                if makers:
                    sources = [name for name in makers[-1].operands if name and not name.startswith("-")]
                    effect.value = ", ".join(sources[:_SOURCES_SHOWN]) if sources != ["."] else ""

    def source(self, path: str) -> Source | None:
        """The file at `path`, as it is on disk."""
        if self.reader is None or path.startswith(("/dev/", "/proc/")):
            return None
        self._looks += 1
        if path not in self._sources:
            found = self._sources[path] = self.reader.read(path)
            if found is not None:
                self.walk.program.files.append((path, found.sha256))
        return self._sources[path]

    def _judge(self, run: _Run) -> bool:
        """Add what the file does. False where that can't be told."""
        path = _exact(run.effect)
        if path is None:
            return False
        if run.language == "python" and self.look(path) == NOT_THERE:
            path = f"{path}/__main__.py"  # python runs a directory by this file in it
        source = self.source(path)
        contents = self.written.contents(path, source.text if source is not None else None)
        if source is not None and source.project and not contents:
            run.effect.role = "project"
            self._judged.append((path, run))
            return True
        if source is not None and source.installed and run.language is None and not contents:
            self._judged.append((path, run))  # Python, as which the command is judged as well
            return True
        if source is not None and not contents and self._is_tool(run, path, source.text):
            self._judged.append((path, run))
            return True
        if source is not None and not source.project:
            if source.text is None:
                return False
            contents = [source.text, *contents]  # what is written may not come in time
        if not contents or not all(self._text(run, text, path) for text in contents):
            return False
        self._judged.append((path, run))
        return True

    def _is_tool(self, run: _Run, path: str, text: str | None) -> bool:
        """Is it a program that the project has installed, and known by its name? It is judged as that program."""
        found = _TOOLS.search(path)
        if found is None or run.arguments is None:
            return False
        if text is not None and ((language := interpreter(text)) == "python" or language in SHELLS):
            return False  # what it does can be read
        from humanlayer_agent.shell.interpreter import command_lookup

        context = Context(run.command.inside, (*run.command.via, found[1]), depth=len(run.command.via) + 1)
        if self.walk.catalog.family(found[1]) not in _TOOL_FAMILIES or context.depth > MAX_DEPTH:
            return False
        name = replace(run.word, text=found[1], prefix=found[1])
        words = [name, *run.arguments]
        command_lookup.run_words(self.walk, words, run.state, context, run.command.span, run.command.text, shell=False)
        return True

    def _text(self, run: _Run, text: str, path: str) -> bool:
        """Add what `text` does when `run` runs it."""
        language = run.language if run.language is not None else interpreter(text) or "bash"
        language = "javascript" if language in ("node", "nodejs") else language
        arguments = positional(list(run.arguments)) if run.arguments is not None else None
        key = (path, text, language, arguments, run.state.cwd, run.command.via)
        if key in self._texts:
            return True
        self._texts.add(key)
        self._count += 1
        if self._count > MAX_FILES or len(text) > MAX_TEXT:
            return False
        context = Context(run.command.inside, (*run.command.via, language), depth=len(run.command.via) + 1)
        if context.depth > MAX_DEPTH:
            return False
        if language in SHELLS or language == "source":
            state = run.state if language == "source" else run.state.child(arguments)
            self.walk.source(text, run.word, state, context, "script-file")
            return True
        argv = None if arguments is None else [Text.of(path), *(Text.of(a) for a in arguments)]
        behaviour = self.walk.code(language, text, argv=argv, path=path)
        if behaviour is None or behaviour.opaque:
            return False
        perform(Run(self.walk, run.command, run.state, context), behaviour, language)
        return True

    def _judge_pieces(self) -> None:
        found, self.written.pieces = self.written.pieces, []
        if not found:
            return
        from humanlayer_agent.shell.script_files import patches

        count = 0
        for path, patch, words, by in found:
            added = patches.of_patch(patch) if patch is not None else ((path, text) for text in patches.of_sed(words))
            for name, text in added:
                count += 1
                if count > patches.MAX_PIECES:
                    by.doubt(name)
                    return
                patches.judge(self.walk, name, text, by)

    def _judge_written(self) -> None:
        """Code that is written but not run yet is judged as if it ran."""
        self._judge_pieces()
        run = {path for path, each in self._judged if each.language not in (_PART, _NOW, _FIRST, _INCLUDED)}
        for path, texts in list(self.written.texts.items()):
            before = None
            if path not in run and any(text.appended for text in texts) and by_name(path) is not None:
                source = self.source(path)
                before = source.text if source is not None and not source.project else None
            for text in self.written.contents(path, before) if path not in run else ():
                for language in dict.fromkeys((by_name(path), interpreter(text))):
                    if language is not None:
                        self._written(path, text, language, texts[0].by, self._runs_in(path, texts[0].by))

    def _runs_in(self, path: str, by: SimpleCommand) -> tuple[str, ...] | None:
        """Return where a written file would run that nobody runs yet: where it was written, but for the settings of
        Sphinx, which are run in their own folder (sphinx.config.eval_config_file), unless something else loads code.
        """
        folder, name = posixpath.split(path)
        if name != "conf.py":
            return by.places
        others = (c for c in self.walk.program.commands if c.program != "sphinx-build" and WRITTEN not in c.inside)
        loaded = any(effect.role in LOADS for each in others for effect in each.effects if effect.kind == "execute")
        return by.places if loaded else (folder,)

    def judge_loaded(self, path: str, text: str, language: str, by: SimpleCommand, cwd: tuple[str, ...] | None) -> None:
        """Judge `text`, which `by` may load from `path` and run in a directory of `cwd`, as if this action had
        written it.
        """
        self._count -= 1  # they have a limit of their own
        self._written(path, text, language, by, cwd)

    def _written(self, path: str, text: str, language: str, by: SimpleCommand, cwd: tuple[str, ...] | None) -> None:
        if (path, text, language, cwd) in self._texts:
            return
        self._texts.add((path, text, language, cwd))
        before = self._looked()
        self._judge_text(path, text, language, by, cwd)
        if self._looked() == before:  # else what it does is not said by it alone: another file may say more tomorrow
            self.walk.program.judged.add(code_name(path, text, language, cwd))

    def _looked(self) -> tuple[int, ...]:
        """Return how many files were looked at so far, and how many will be."""
        return self._looks, len(self._runs), len(self._later), len(self.import_paths)

    def _judge_text(self, path: str, text: str, language: str, by: SimpleCommand, cwd: tuple[str, ...] | None) -> None:
        command = SimpleCommand("", [], by.span, by.text, by.via, (*by.inside, WRITTEN), cwd)
        # A shell that runs it later is taken not to have CDPATH from outside, by which `cd` would lead elsewhere.
        state = State(cwd, self.walk.environ, havoc=True, variables={"CDPATH": ()})
        context = Context((*by.inside, WRITTEN), by.via, depth=len(by.via) + 1)
        waiting = len(self._later)
        self._count += 1
        if self._count > MAX_FILES or len(text) > MAX_TEXT or context.depth > MAX_DEPTH:
            command.effects.append(Effect("execute", "script", path, False, by.span, "written code", unread=True))
            command.doubt(path)
        elif language in SHELLS:
            word = Field(Word(by.text, by.text, *by.span), *by.span)
            self.walk.source(
                text, word, state, Context(context.inside, (*by.via, language), context.depth), "script-file"
            )
            return
        else:
            behaviour = self.walk.code(language, text, path=path, files=self.look)
            if behaviour is None:
                return
            if behaviour.opaque and text[:1] in " \t\n":
                # A piece of a file, indented as it stands there.
                import textwrap

                piece = self.walk.code(language, textwrap.dedent(text), path=path, files=self.look)
                behaviour = behaviour if piece is None or piece.opaque else piece
            perform(Run(self.walk, command, state, context), behaviour, language)
        if command.effects or not command.resolved or len(self._later) > waiting:  # what it loads adds to it later
            self.walk.program.commands.append(command)


def _may_run_again(command: SimpleCommand) -> bool:
    return "xargs" in command.via or not {"loop", "function"}.isdisjoint(command.inside)


def _exact(effect: Effect) -> str | None:
    """The one file that `effect` is about."""
    if effect.operand is None or effect.below or effect.pattern is not None or not effect.operand.startswith("/"):
        return None
    return plain_path(effect.operand)


def _reaches(change: Effect, path: str, exact: bool) -> bool:
    """May `change` be one of the file at `path`? One of which nothing is known is asked about by itself.

    `exact`: it is about the file that it names only; else that may be a directory, into which it puts files.
    """
    if change.operand is None:
        return False
    target = plain_path(change.operand)
    if target == path:
        return True
    spreads = not exact or change.below or change.recursive or change.pattern is not None
    return spreads and path.startswith(target.rstrip("/") + "/")
