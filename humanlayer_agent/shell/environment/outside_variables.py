"""Variables that the shell was started with, and the commands that use their values.

A variable that the script has certainly set itself is none of them, nor is one that bash sets by itself. Whether the
value of one is a secret is not known here: each is noted in `SimpleCommand.uses`.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.interpreter.state import DYNAMIC, State
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.syntax.tree import Param, Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_EVALUATED = re.compile(r"(?<![A-Za-z0-9_])[A-Za-z_][A-Za-z0-9_]*(?![A-Za-z0-9_]|[ \t]*=(?!=))", re.ASCII)
"""Names in arithmetic, but for those that are only assigned."""
_ONLY_WHETHER = frozenset(["+", ":+", "length", "translate"])
"""`${x+y}`, `${#x}`: what they give is not the value."""
_COMPARISONS = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
_TESTS = frozenset(["-n", "-z"])


def expansion(walk: "Interpreter", part: Param, state: State) -> None:
    """`part` gives the value of a variable: note it where that may come from outside."""
    if part.op in _ONLY_WHETHER:
        return
    if part.op == "!":
        rest = part.arg.raw if part.arg is not None else ""
        if rest not in ("*", "@", "[@]", "[*]") and not (part.index in ("@", "*") and not rest):
            _indirect(walk, part, state)
    elif _is_outside(part.name, state):
        walk.expanded.append((part.name, part.raw))


def _is_outside(name: str, state: State) -> bool:
    return _NAME.fullmatch(name) is not None and name not in DYNAMIC and state.inherits(name)


def _indirect(walk: "Interpreter", part: Param, state: State) -> None:
    """`${!x}` is the variable that x names."""
    names = state.lookup(part.name) or (None,)
    for name in names:
        if name is None or _is_outside(name, state):
            walk.expanded.append((name, part.raw))


def evaluation(walk: "Interpreter", raw: str, state: State) -> None:
    """Arithmetic evaluates variables by name, and an error message shows the value of one that is no number."""
    for name in _EVALUATED.findall(raw):
        if _is_outside(name, state):
            walk.expanded.append((name, name))


def comparison(walk: "Interpreter", words: Sequence[Word], state: State) -> None:
    """`[[ a -eq b ]]` evaluates both as arithmetic."""
    for left, operator, right in zip(words, words[1:], words[2:], strict=False):
        if operator.text in _COMPARISONS:
            evaluation(walk, left.raw, state)
            evaluation(walk, right.raw, state)


def note(run: Run, words: Sequence[Word], mark: int) -> None:
    """Note in the command each variable from outside that was used in `words` (those noted from `mark` on)."""
    found = dict.fromkeys(run.walk.expanded[mark:])
    del run.walk.expanded[mark:]
    tested = run.command.program in ("test", "[", "[[")
    for name, raw in found:
        at = next((n for n, word in enumerate(words) if raw in word.raw), None)
        if tested and name is not None and _only_tested(words, raw):
            continue
        span = run.walk.span(words[at].start, words[at].end) if at is not None else run.command.span
        run.command.uses.append(Effect("environment", "expanded", name, name is not None, span, raw))


def _only_tested(words: Sequence[Word], raw: str) -> bool:
    """`[ -n "$x" ]`, `[[ -z $x ]]`: they ask only whether it is empty."""
    used = [n for n, word in enumerate(words) if raw in word.raw]
    return bool(used) and all(n > 0 and words[n - 1].text in _TESTS for n in used)
