"""Programs that the code starts: their words, or the text that a shell runs."""

import posixpath
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.library.tables import Effect, Operand
from humanlayer_agent.shell.languages.python.objects import Container
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.types import containers
from humanlayer_agent.shell.languages.python.values import (
    EMPTY,
    NONE,
    PLAIN,
    Value,
    one_text,
    only_texts,
    operands,
    truth,
)

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

MAX_ALTERNATIVES = 16
_POPEN = {"executable": 2, "stdin": 3, "shell": 8, "cwd": 9, "env": 10}
"""Where subprocess takes these without their names."""


def start(engine: "Engine", effect: Effect, value: Value, args: Args, origin: str) -> None:
    """A program is started, or a shell with a text."""
    positions = _POPEN if origin.startswith("subprocess.") else {}

    def option(name: str) -> Value | None:
        return args.at(positions.get(name, -1), name) if not args.unseen else None

    environment = option("env")
    if environment is not None:
        process_environment.given(engine, environment, origin)
    directories = _directories(option("cwd"))
    shell = option("shell")
    asked = effect.kind == "shell" or (shell is not None and truth(shell) is not False)
    if asked:
        for text in _shell_texts(engine, value):
            for cwd in directories:
                engine.note(Act("shell", (text,), "code", origin, engine.line, cwd=cwd))
        _piped_to_shell(engine, args, origin)
    if effect.kind == "program" and (shell is None or truth(shell) is not True):
        for words, many in _commands(engine, effect, value, args, option("executable")):
            for cwd in directories:
                engine.note(Act("program", tuple(words), "code", origin, engine.line, many=many, cwd=cwd))
            _input(engine, words, many, option("input"), option("stdin"), origin)


def _directories(value: Value | None) -> list[Text | None]:
    if value is None or value == NONE:
        return [None]
    known = operands(value - NONE)
    return [*([None] if value & NONE else []), *known]


def _shell_texts(engine: "Engine", value: Value) -> list[Text]:
    out: list[Text] = []
    for atom in value:
        if isinstance(atom, Container):
            # A shell runs the first word; the others are its arguments.
            out += operands(containers.at(engine, frozenset({atom}), 0))
    rest = frozenset(a for a in value if not isinstance(a, Container))
    out += operands(rest) if rest or not out else []
    return list(dict.fromkeys(t if t.known else Text(prefix=t.prefix) for t in out))


def _piped_to_shell(engine: "Engine", args: Args, origin: str) -> None:
    """os.popen(command, "w") writes to the command."""
    mode = args.at(1, "mode") if origin == "os.popen" else None
    if mode is not None and only_texts(mode) != ["r"]:
        engine.doubt("what is written to a command can't be told")


def _commands(
    engine: "Engine", effect: Effect, value: Value, args: Args, executable: Value | None
) -> list[tuple[list[Text], bool]]:
    """The word lists that the program may be started with, and whether further words are not known."""
    found: list[tuple[list[Text], bool]] = []
    if effect.words is not None or effect.argv is not None:
        following, rest = _following(engine, effect, args)
        for first in operands(value):
            found.append(([first, *map(word, following)], rest is not None))
        return found[:MAX_ALTERNATIVES]
    for atom in value or PLAIN:
        if isinstance(atom, Container):
            known, rest = containers.sequence(engine, frozenset({atom}))
            words = [word(each) for each in known]
            if executable is not None and executable != NONE:
                words[:1] = [word(executable)]
            found.append((words or [Text()], rest is not None))
        else:
            first = word(executable) if executable is not None and executable != NONE else word(frozenset({atom}))
            found.append(([first], not first.known and executable is None))
    return found if len(found) <= MAX_ALTERNATIVES else [([Text()], True)]


def _following(engine: "Engine", effect: Effect, args: Args) -> tuple[list[Value], Value | None]:
    """The words after the program's name."""
    position = effect.operand.position if effect.operand is not None else 0
    if effect.words is not None:
        return args.positional[position + 1 :], args.rest
    if isinstance(effect.argv, Operand):
        argv = args.operand(effect.argv)
        known, rest = containers.sequence(engine, argv) if argv is not None else ([], None)
    else:
        known, rest = args.positional[position + 1 :], args.rest
        if effect.argv == "rest-1":
            known = known[:-1]
    return known[1:], rest


def word(value: Value) -> Text:
    """A word of a command."""
    found = operands(value or PLAIN)
    return found[0] if len(found) == 1 else Text()


def _input(
    engine: "Engine", words: list[Text], many: bool, text: Value | None, stdin: Value | None, origin: str
) -> None:
    """What an interpreter reads from its input is code."""
    program = posixpath.basename(words[0].choices[0]) if words[0].choices else ""
    given = (text is not None and text != NONE) or (stdin is not None and stdin != NONE)
    plain = all(w.choices and w.choices[0].startswith("-") for w in words[1:])
    if program not in names.READERS or not given or many or not plain:
        return
    known = one_text(text or EMPTY)
    if known is not None and program in names.SHELLS:
        engine.note(Act("shell", (Text.of(known),), "code", origin, engine.line))
    elif known is not None and program.startswith("python"):
        engine.note(Act("python", (Text.of(known),), "code", origin, engine.line))
    else:
        engine.doubt(f"what {program} reads from its input is not known")
