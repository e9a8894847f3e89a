"""make: what its recipes do, where the Makefile can be read and is not the project's own code."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from humanlayer_agent.shell.environment.code_variables import selects_code, steers
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.languages.behaviour import NOT_THERE, Found
from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.programs import spec_reader
from humanlayer_agent.shell.programs.arguments import Arguments, read_arguments
from humanlayer_agent.shell.programs.catalog import STANDARD_DIRECTORIES
from humanlayer_agent.shell.programs.spec import Spec
from humanlayer_agent.shell.programs.special.python import note_project

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.make import Made

NAMES = ("GNUmakefile", "makefile", "Makefile")
_COMMAND_VARIABLES = frozenset({"SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE", "MAKEFILES", "GNUMAKEFLAGS"})
_BUILD = frozenset(str.split("CC CXX CPP FC LD AR AS NM RANLIB CFLAGS CXXFLAGS CPPFLAGS LDFLAGS RUSTFLAGS GOFLAGS"))
"""Variables that are meant to be set for a build."""
_PROGRAMS = frozenset(str.split("CC CXX CPP FC LD AR AS NM RANLIB LEX YACC RM INSTALL"))
_PLAIN_VALUE = re.compile(r"[A-Za-z0-9_.,/+=:@%-]*", re.ASCII)
_PLACE = re.compile(r"(?:/|~|\.\./)[^\s:]*", re.ASCII)
"""A value that is a path, and may lie outside of the project."""
_TARGETS = frozenset({"destdir", "prefix", "exec_prefix", "bindir", "sbindir", "libdir", "datadir", "sysconfdir"})
"""Variables that say where `make install` writes (GNU Coding Standards, Directory Variables)."""
_STREAMS = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_PASSED_ON = "make's variables"
"""Holds what a make hands to those that its recipes run. No variable of a shell can be called so."""


def read(run: Run, spec: Spec, fields: list[Field]) -> None:
    """make runs the project's rules; a variable on the command line may put other commands into them."""
    arguments = read_arguments(spec, fields)
    run = spec_reader.note_options(run, spec, arguments)
    run.command.operands += [o.text for o in arguments.operands]
    run.command.listed = True
    _variables(run, arguments.operands)
    for flag in ("environment-overrides", "touch"):
        if flag in run.command.flags:
            run.doubt(flag)
    if "version" in run.command.flags:
        return
    given = [use.value for use in arguments.options if use.option.name == "file" and use.value is not None]
    known = not any(o.text is None for o in arguments.operands) and not arguments.loose
    goals = [o.text for o in arguments.operands if o.text is not None and "=" not in o.text] if known else None
    goal = _Goals(run, goals, _overriding(arguments, run.state))
    first = len(run.command.effects)
    if not given:
        note_project(run)
        for effect in run.command.effects[first:]:
            run.walk.scripts.later(run.command, partial(goal.project, effect))
        return
    texts = [run.context.stdin.text if value.text in _STREAMS else "" for value in given]
    for value in given:
        if value.text not in _STREAMS:
            run.path("execute", value, role="script", origin="make --file")
    if None in texts:
        run.code(None, what=None, role="stdin", origin="make standard input")
        run.doubt(run.command.text)
        return
    run.walk.scripts.later(
        run.command, partial(goal.given, run.command.effects[first:], "".join(t or "" for t in texts))
    )


def _variables(run: Run, operands: Sequence[Field]) -> None:
    """Variables on the command line: they stand above those of the Makefile, whoever wrote that."""
    for each in operands:
        name, equals, value = (each.text if each.text is not None else each.prefix).partition("=")
        computed = name.endswith(("!", "+", "?"))  # X!=COMMAND runs it
        name = name.rstrip(":+?!")
        if each.text is None or "$" in name:
            run.doubt(each.word.raw)
        elif equals and not computed and name in _BUILD and not selects_code(name, value):
            continue  # CFLAGS="-O0 -g"
        elif equals and (computed or name in _COMMAND_VARIABLES or not _PLAIN_VALUE.fullmatch(value)):
            run.code(each, what=value, role="setting", origin=f"make {name}=", unread=False)
            run.doubt(each.word.raw)
        elif equals and name in _PROGRAMS and "/" in value and posixpath.dirname(value) not in STANDARD_DIRECTORIES:
            run.code(each, what=value, role="setting", origin=f"make {name}=", unread=False)
        elif equals and _PLACE.match(value) and posixpath.dirname(value) not in STANDARD_DIRECTORIES:
            kind = "write" if name.lower() in _TARGETS else "read"
            at = each.tail(len(each.text) - len(value))
            run.path(kind, at, role="setting", origin=f"make {name}=")
        elif equals and name not in _BUILD and steers(name, value):
            effect = Effect("environment", "itself", name, True, run.span(each), f"make {name}=")
            run.command.effects.append(effect)  # recipes get it as well


def _overriding(arguments: Arguments, state: State) -> dict[str, str]:
    """The variables of the command line, and those of the make that runs this one."""
    passed = state.variables.get(_PASSED_ON) or ()
    out = dict(pair.split("=", 1) for text in passed for pair in text.split("\n") if "=" in pair)
    for each in arguments.operands:
        name, equals, value = (each.text or "").partition("=")
        if equals:
            out[name.rstrip(":+?!")] = value
    return out


class _Goals:
    """One make, whose Makefiles are looked for once the whole action is known."""

    def __init__(self, run: Run, goals: list[str] | None, given_variables: Mapping[str, str]) -> None:
        self.run, self.child = run.having(state=run.state.copy()), run.state.child(())
        self.goals, self.variables = goals, given_variables
        self.included: list[str] = []
        self.search = [text for text in run.command.options.get("include-dir", ()) if text is not None]

    def project(self, effect: Effect) -> None:
        """The Makefile of a directory. Where nobody can read one, it is the project's, as `effect` says."""
        if effect.operand is None:
            return
        found = {path: self.run.walk.scripts.look(path) for name in NAMES for path in [_beside(effect.operand, name)]}
        here = {path: each for path, each in found.items() if each != NOT_THERE}
        self._watch(effect, *found)
        if all(self._own(path, each, effect.operand) for path, each in here.items()):
            unseen = not here or any(each.texts is None for each in here.values())
            self._exported(None if unseen else [text for each in here.values() for text in each.texts or ()])
            return
        self.run.command.effects.remove(effect)
        for path, each in here.items():
            ran = replace(effect, role="script", operand=path)
            self.run.command.effects.append(ran)
            self.included = []
            if each.texts is None or not self._judge([(posixpath.basename(path), each.texts)], effect.operand):
                self._unread(ran)
            self._watch(ran, *found, *self.included)

    def _own(self, path: str, found: Found, directory: str) -> bool:
        """Whether a Makefile is the project's own code, and everything that it includes."""
        from humanlayer_agent.shell.languages import make

        if not found.project or not found.texts or not any("include" in text for text in found.texts):
            return found.project
        notes, key = self.run.walk.scripts.notes, ("make", path, directory, *self.search)
        if key not in notes:
            self.included = []
            sources = [(posixpath.basename(path), found.texts)]
            make.read(sources, goals=(), files=self._look, directory=directory, search=self.search)
            others = [self.run.walk.scripts.look(each) for each in self.included]
            notes[key] = all(each.project or each == NOT_THERE for each in others)
        return notes[key]

    def _look(self, path: str) -> Found:
        self.included.append(path)
        return self.run.walk.scripts.look(path)

    def _exported(self, texts: Sequence[str] | None) -> None:
        """Variables that the action exports: make takes what a Makefile does not set from there, as text for shells."""
        for name, value in sorted(self.child.variables.items()):
            plain_value = value is not None and all(_PLAIN_VALUE.fullmatch(text) for text in value)
            used = texts is None or any(f"({name}" in text or f"{{{name}" in text for text in texts)
            if used and not plain_value and name != _PASSED_ON:
                origin = f"make's {name}"
                self.run.code(None, what=name, role="setting", origin=origin, unread=False)
                self.run.doubt(f"{name} for make")

    def given(self, effects: Sequence[Effect], typed: str) -> None:
        """Makefiles that are named (`-f`), and what comes on standard input."""
        sources: list[tuple[str, tuple[str, ...]]] = [("-", (typed,))] if typed else []
        own = not typed
        for effect in effects:
            operand = effect.operand
            if operand is None or effect.below or effect.pattern is not None:
                return self._unread(*effects)
            found = self.run.walk.scripts.look(plain_path(operand))
            if found.texts == () and not found.project:
                return self._unread(*effects)
            own &= self._own(operand, found, posixpath.dirname(operand))
            if not found.project or found.texts:
                sources.append((posixpath.relpath(operand, (self.run.state.cwd or ("/",))[0]), found.texts or ()))
            self._watch(effect, operand)
        self.included = []
        for cwd in self.run.state.cwd or (None,):
            if not own and not self._judge(sources, cwd):
                return self._unread(*effects)
        for effect in effects:
            self._watch(effect, *self.included)
        for effect in effects:
            effect.role = "project" if own else effect.role
        if own:
            self._exported([text for _, texts in sources for text in texts] or None)
        return None

    def _judge(self, sources: list[tuple[str, tuple[str, ...]]], directory: str | None) -> bool:
        """Add what the recipes do. False where too much is run to be judged."""
        from humanlayer_agent.shell.languages import make
        from humanlayer_agent.shell.languages.code_effects import perform

        goals, work = None if self.goals is None else tuple(self.goals), self.run.walk.work
        worlds = [[(name, (text,))] for name, texts in sources for text in texts] if len(sources) == 1 else [sources]
        for world in worlds:
            key = ("make", str(world), goals, str(sorted(self.variables.items())), directory)
            may = self.run.walk.scripts.spend(key, *(text for _, texts in world for text in texts))
            if may is None:
                continue
            if not may:
                return False
            made = make.read(
                world,
                goals=goals,
                given=self.variables,
                files=self._look,
                environment=self._environment,
                directory=directory,
                search=self.search,
                steps=work.steps,
            )
            work.admit(0, made.behaviour.steps)
            state = self._recipes(made, directory)
            perform(self.run.having(state=state), made.behaviour, "make")
        return True

    def _environment(self, name: str) -> tuple[str, ...] | None:
        """See `make.values.Environment`."""
        if not name.isidentifier() or not name.isascii():
            return ()
        found = self.child.lookup(name)
        if found is not None:
            return found
        return (f"\0{name}\0",) if self.child.untouched(name) else None

    def _recipes(self, made: "Made", directory: str | None) -> State:
        """The state in which the shells of the recipes start."""
        state = self.run.state.copy()
        state.cwd = (directory,) if directory is not None else state.cwd
        for name, (texts, certain) in made.variables.items():
            state.assign(name, texts if certain else None)
            if certain:
                state.export([name])
            else:
                state.unexport([name])
        passed = "\n".join(f"{name}={value}" for name, value in self.variables.items() if "\n" not in value)
        state.variables[_PASSED_ON] = (passed,)
        state.export([_PASSED_ON])
        return state

    def _watch(self, effect: Effect, *paths: str) -> None:
        for path in paths:
            word = spec_reader.implied(self.run.command, path)
            self.run.walk.scripts.judged(self.run.command, effect, plain_path(path), word)

    def _unread(self, *effects: Effect) -> None:
        for effect in effects:
            effect.unread, effect.resolved = True, False
            self.run.doubt(effect.operand or "Makefile")


def _beside(directory: str, name: str) -> str:
    return plain_path(f"{directory}/{name}" if name[:1] != "/" else name)
