"""Calls of modules that are judged by themselves: what they are given may tell what they do with it."""

import re
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.javascript.evaluation import Evaluator
from humanlayer_agent.shell.languages.javascript.possible_values import (
    DATA,
    Array,
    Atom,
    Below,
    Foreign,
    Function,
    Here,
    Mark,
    Native,
    Prefix,
    Record,
    Value,
    in_order,
)
from humanlayer_agent.shell.languages.python.names import COMMAND_WORDS, FILE_WORDS, ROOTS

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.javascript.function_calls import Arguments

_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s]")
_OUTSIDE = re.compile(rf"(?:^|[\s\"'=:,(])(?:~(?:/|$)|\.\.(?:/|$)|/(?:{'|'.join(sorted(ROOTS))})(?:/|$))")


def call(evaluator: Evaluator, args: "Arguments", label: str) -> Value:
    """A function of such a module is called; `label` is the last name it was reached by."""
    from humanlayer_agent.shell.languages.javascript import function_calls

    judge(evaluator, [*args.values, *([args.rest] if args.rest is not None else [])], label, f"{label}()")
    given = DATA | {Foreign("")}
    for atom in args.every():
        if isinstance(atom, Function):
            function_calls.bind(evaluator, atom, function_calls.Arguments(args.node, (given, given, given)))
    return given


def judge(evaluator: Evaluator, values: list[Value], label: str, whither: str) -> None:
    """Note what code that is not read here may do with `values`."""
    words = {word.lower() for word in _WORDS.findall(label)}
    runs, files = bool(words & COMMAND_WORDS), bool(words & FILE_WORDS)
    ahead = [atom for value in values for atom in in_order(value)]
    seen = set(ahead)
    evaluator.hand_over(frozenset(ahead), whither)
    while ahead:
        atom = ahead.pop()
        held: list[Atom] = []
        if isinstance(atom, Array):
            held = in_order(atom.items.value)
        elif isinstance(atom, Record):
            held = [a for cell in atom.fields.values() for a in in_order(cell.value)]
        elif isinstance(atom, str | Prefix | Below | Here):
            _text(evaluator, atom, whither, runs=runs)
        elif atom in (Mark.TEXT, Mark.DATA) and (runs or files):
            evaluator.doubt(f"{whither} gets a text that is not known")
        elif isinstance(atom, Native) and atom.name == "process.env":
            evaluator.act("environment", frozenset({"environment"}), "process.env", role="read")
        elif runs and isinstance(atom, Function | Foreign):
            evaluator.doubt(f"{whither} gets something to run")
        new = [each for each in dict.fromkeys(held) if each not in seen]
        seen.update(new)
        ahead += new


def _text(evaluator: Evaluator, atom: str | Prefix | Below | Here, whither: str, *, runs: bool) -> None:
    text = atom if isinstance(atom, str) else atom.directory if isinstance(atom, Below) else (
        atom.path if isinstance(atom, Here) else atom.text
    )  # fmt: skip
    if runs:
        evaluator.doubt(f"{whither} gets a command")
    elif _URL.search(text):
        evaluator.doubt(f"{whither} gets a URL")
    elif _OUTSIDE.search(text):
        if isinstance(atom, Prefix) or not text.startswith(("/", "~", "..")) or "\n" in text:
            evaluator.doubt(f"{whither} gets a text that names a path outside the project")
            return
        operand = Text.of(text) if isinstance(atom, str | Here) else Text(below=text)
        for kind in ("read", "write"):
            evaluator.note(Act(kind, (operand,), "argument", whither, evaluator.line))
