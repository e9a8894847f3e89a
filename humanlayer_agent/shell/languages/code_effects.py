"""From what code does to what the command that runs it does: effects, and the commands that code runs in turn."""

import posixpath
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from humanlayer_agent.shell.environment.code_variables import steers
from humanlayer_agent.shell.expansion.field import Field
from humanlayer_agent.shell.interpreter.context import MAX_DEPTH
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import MAX_CHOICES, State
from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Text
from humanlayer_agent.shell.paths import absolute_path, dedupe, plain_path
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.syntax.tree import Word

MAX_EFFECTS = 2_000
_SERVERS = {"psql": "PostgreSQL", "mysql": "MySQL"}
_READ_BY_THEMSELVES = frozenset({"sqlite", "psql", "mysql"})
"""Languages whose scripts name further scripts in the same language."""
_FILES = frozenset({"read", "write", "append", "delete", "move", "metadata"})


def perform(run: Run, behaviour: Behaviour, language: str) -> None:
    """Add to the command what its code does.

    Args:
        run: what starts the code.
        language: the name under which commands that the code runs are listed (`via`).
    """
    run = run.having(state=_moved(run.state, behaviour))
    if behaviour.directories:
        known = run.command.moves is not None and run.state.cwd is not None
        run.command.moves = dedupe((*(run.command.moves or ()), *(run.state.cwd or ()))) if known else None
    for reason in behaviour.doubts:
        if _has_too_many(run):
            return
        run.code(None, what=reason, role="code", origin=language, unread=behaviour.opaque or behaviour.unread)
        run.doubt(reason)
    for act in behaviour.acts:
        if _has_too_many(run):
            return
        _act(run, act, language)
    _written(run, behaviour)


def _has_too_many(run: Run) -> bool:
    many = len(run.command.effects) > MAX_EFFECTS
    if many:
        run.walk.program.doubt("too many effects")
    return many


def _written(run: Run, behaviour: Behaviour) -> None:
    """The texts that the code writes to files: they may be run in turn."""
    for target, text in behaviour.files:
        for name in target.choices if text is not None and run.state.cwd is not None else ():
            paths = {plain_path(absolute_path(name, cwd)) for cwd in run.state.cwd or ()}
            for effect in run.command.effects:
                if (
                    effect.kind in ("write", "append")
                    and effect.operand is not None
                    and plain_path(effect.operand) in paths
                ):
                    run.walk.scripts.written.add(effect, text or "", run.command)


def _act(run: Run, act: Act, language: str) -> None:
    origin = f"{language} line {act.line}: {act.origin}" if act.line else act.origin
    if act.kind in ("shell", "program", "python"):
        _runs(run, act, language, origin)
        return
    operand = act.operands[0] if act.operands else Text()
    if act.kind == "execute" and act.role in ("module", "setting-module"):
        _module(run, act, operand, origin, language)
    elif act.kind in _FILES or (act.kind == "execute" and act.role in ("script", "import-path")):
        _file(run, act, operand, origin, language)
    elif act.kind in ("network", "listen"):
        for field in _fields(operand, run.command, run.state):
            target = field if field.texts or "/" not in _after_scheme(operand.prefix) else _known(field, operand.prefix)
            run.host(target, kind=act.kind, origin=origin, sure=act.sure)
    elif act.kind == "environment":
        _environment(run.command, act, operand, origin)
    elif act.kind == "execute":
        for name in operand.choices or (None,):
            known = name is not None
            run.effect("execute", act.role, name, known, run.command.span, origin)
            if not known:
                run.doubt(origin)
    else:
        value = _database(run.command, language) if act.kind == "database" else None
        for name in operand.choices or (None,):
            run.effect(act.kind, act.role, name, name is not None, run.command.span, origin, value=value)


def _database(command: SimpleCommand, language: str) -> str | None:
    """What people call the database that a command works on: the first one that it was told."""
    places = (e.operand for e in command.effects if e.kind == "network" or e.role == "database")
    place = next(filter(None, places), None)
    if language == "sqlite":
        return place or "a database in memory"
    return f"{_SERVERS.get(language, language)} on {place}" if place is not None else None


def _file(run: Run, act: Act, operand: Text, origin: str, language: str) -> None:
    for field in _fields(operand, run.command, run.state):
        if act.role == "import-path":
            run.path("execute", field, role="project", origin=origin)
            folders = run.state.cwd or ("/",)
            for path in {plain_path(absolute_path(name, cwd)) for name in field.texts or () for cwd in folders}:
                run.walk.scripts.import_paths.append((run.command, path))
        elif act.kind == "execute":
            run.script(field, origin, language=language if language in _READ_BY_THEMSELVES else "python")
        else:
            role = "operand" if act.role == "code" else act.role
            before = len(run.command.effects)
            run.path(act.kind, field, role=role, origin=origin, recursive=act.recursive)
            if role == "database":
                from humanlayer_agent.shell.script_files import database_code

                for effect in run.command.effects[before:]:
                    database_code.note(run, effect, field)


def _module(run: Run, act: Act, operand: Text, origin: str, language: str) -> None:
    """Code for node loads a module by a path, which is looked for once all is known that the action writes."""
    from humanlayer_agent.shell.languages.javascript import module_files

    later = run.having(state=run.state.copy())
    for name in operand.choices:
        for cwd in ("/",) if name.startswith("/") else run.state.cwd or ():
            path = plain_path(absolute_path(name, cwd))
            if act.role == "setting-module":
                load = partial(module_files.load_named, later, path, origin, sure=act.sure)
            else:
                load = partial(module_files.load, later, path, origin, typed=language == "typescript")
            run.walk.scripts.later(run.command, load)
        if run.state.cwd is None and not name.startswith("/"):
            run.code(None, what=name, role="script", origin=origin)
            run.doubt(name)


def _environment(command: SimpleCommand, act: Act, operand: Text, origin: str) -> None:
    if act.role == "read":
        # What becomes of it is the code's own doing; but it is used, as in a shell's `$API_TOKEN`, and all of them that
        # are looked at count as printed: `print(os.environ)`.
        if "environment" in operand.choices:
            command.effects.append(Effect("environment", "printed", "environment", True, command.span, origin))
        for name in operand.choices or (None,):
            if name != "environment":
                command.uses.append(Effect("environment", "expanded", name, name is not None, command.span, origin))
        return
    if act.role == "printed":
        for name in operand.choices or (None,):
            command.effects.append(Effect("environment", "printed", name, name is not None, command.span, origin))
        return
    values = act.operands[1].choices if len(act.operands) > 1 else ()
    for name in operand.choices or (None,):
        if name is None or any(steers(name, value) for value in values or (None,)):
            effect = Effect("environment", act.role, name, name is not None, command.span, origin)
            effect.value = ":".join(values) or None
            command.effects.append(effect)


def _runs(run: Run, act: Act, language: str, origin: str) -> None:
    """Commands that the code runs, and code that it runs in turn."""
    inner = run.context.deeper(via=(*run.context.via, language))
    if inner.depth > MAX_DEPTH:
        run.walk.program.doubt("nested too deep")
        return
    if act.cwd is not None:
        run = run.having(state=run.state.copy())
        run.state.cwd = _places(act.cwd, run.state)
    if act.kind == "program":
        words = [_field(text, run.command, run.state) for text in act.operands]
        if act.many:
            words.append(replace(_field(Text(), run.command, run.state), many=True))
        run.program(words, language)
        return
    text = act.operands[0] if act.operands else Text()
    if not text.choices:
        run.code(None, what=None, role="code", origin=origin)
        run.doubt(origin)
        return
    for source in text.choices:
        if act.kind == "shell":
            run.walk.source(
                source,
                _field(text, run.command, run.state),
                run.state.child(()),
                replace(inner, via=(*inner.via, "sh")),
                "string",
            )
            continue
        behaviour = run.walk.code("python", source)
        if behaviour is not None:
            perform(run.having(context=inner), behaviour, language)


# ---- texts as words ---------------------------------------------------------------------------------


def _fields(text: Text, command: SimpleCommand, state: State) -> Iterator[Field]:
    """`text` as words of a command: one for each directory that a relative path may lie below."""
    if text.choices or text.below is None or text.below.startswith("/"):
        yield _field(text, command, state)
        return
    if state.cwd is None:
        yield _field(Text(), command, state)
        return
    for cwd in state.cwd:
        yield _field(Text(below=posixpath.normpath(absolute_path(text.below, cwd))), command, state)


def _field(text: Text, command: SimpleCommand, state: State) -> Field:
    start, end = command.span
    shown = text.choices[0] if len(text.choices) == 1 else "?"
    field = Field(Word(shown, shown, start, end), start, end, prefix=text.prefix)
    if len(text.choices) == 1:
        return _known(field, text.choices[0], state)
    if text.choices:
        return replace(field, choices=text.choices)
    below = text.below if text.below is not None and text.below.startswith("/") else None
    return replace(field, below=below)


def _known(field: Field, text: str, state: State | None = None) -> Field:
    """`field` with the value `text`. `~` stands for the home directory, which only the environment knows."""
    home = state.environ.get("HOME") if state is not None else None
    if home and (text == "~" or text.startswith("~/")):
        text = home + text[1:]
    return replace(field, text=text, prefix=text)


def _after_scheme(prefix: str) -> str:
    return prefix.partition("://")[2]


def _moved(state: State, behaviour: Behaviour) -> State:
    """The state with every directory that the code may change to."""
    if not behaviour.directories:
        return state
    out = state.copy()
    for each in behaviour.directories:
        places = _places(each, out)
        out.cwd = None if places is None or out.cwd is None else dedupe((*out.cwd, *places))
        if out.cwd is None or len(out.cwd) > MAX_CHOICES:
            out.cwd = None
            break
    return out


def _places(text: Text, state: State) -> tuple[str, ...] | None:
    """The directories that `text` may be; None where they are not known."""
    if not text.choices:
        return None
    home = state.environ.get("HOME")
    texts = [home + t[1:] if home and (t == "~" or t.startswith("~/")) else t for t in text.choices]
    if any(t.startswith("~") for t in texts) or (state.cwd is None and not all(t.startswith("/") for t in texts)):
        return None
    return dedupe(posixpath.normpath(absolute_path(t, cwd)) for cwd in state.cwd or ("/",) for t in texts)
