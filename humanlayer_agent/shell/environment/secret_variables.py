"""Secrets that the shell was started with: variables by whose names one can tell, and commands that use their values.

A variable that the script has certainly set itself is none of them.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from humanlayer_agent.shell.interpreter.state import State
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.syntax.tree import Param, Word

if TYPE_CHECKING:
    from humanlayer_agent.shell.analyse import Walk

_SECRET = re.compile(
    r".*(?:TOKEN(?!I[SZ])|SECRET|PASSW(?:OR)?D|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|ENCRYPTION_?KEY"
    r"|SIGNING_?KEY|CONNECTION_?STRING|AUTHORIZATION).*"
    r"|(?:.*_)?(?:PASS|PASSWDS?|CREDS?|PAT|AUTH|COOKIES?|DSN|DATABASE_URL|DB_URL|MONGO(?:DB)?_UR[IL]|REDIS_URL)"
    r"|.+_KEYS?",
    re.ASCII | re.IGNORECASE,
)
_NO_SECRET = re.compile(r"(?:.*_)?(?:MAX|MIN|NUM|TOTAL)_(?:.*_)?TOKENS?|.*PUBLIC_?KEYS?", re.ASCII | re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}", re.ASCII)
_ONLY_WHETHER = frozenset(["+", ":+", "length", "translate"])
"""`${x+y}`, `${#x}`: what they give is not the value."""
_COMPARISONS = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
_TESTS = frozenset(["-n", "-z"])


@lru_cache(maxsize=2048)
def keeps_secret(name: str) -> bool:
    """Does a variable of this name look like one that holds a password, a token, a key?"""
    return len(name) > 2 and _SECRET.fullmatch(name) is not None and _NO_SECRET.fullmatch(name) is None


def expansion(walk: "Walk", part: Param, state: State) -> None:
    """`part` gives the value of a variable: note it where that may be a secret from outside."""
    if part.op in _ONLY_WHETHER:
        return
    if part.op == "!":
        rest = part.arg.raw if part.arg is not None else ""
        if rest not in ("*", "@", "[@]", "[*]") and not (part.index in ("@", "*") and not rest):
            _indirect(walk, part, state)
    elif keeps_secret(part.name) and state.inherits(part.name):
        walk.expanded.append((part.name, part.raw))


def _indirect(walk: "Walk", part: Param, state: State) -> None:
    """`${!x}` is the variable that x names."""
    names = state.lookup(part.name) or (None,)
    for name in names:
        if name is None or (keeps_secret(name) and state.inherits(name)):
            walk.expanded.append((name, part.raw))


def evaluation(walk: "Walk", raw: str, state: State) -> None:
    """Arithmetic evaluates variables by name, and an error message shows the value of one that is no number."""
    for name in _NAME.findall(raw):
        if keeps_secret(name) and state.inherits(name):
            walk.expanded.append((name, name))


def comparison(walk: "Walk", words: Sequence[Word], state: State) -> None:
    """`[[ a -eq b ]]` evaluates both as arithmetic."""
    if any(word.text in _COMPARISONS for word in words):
        for word in words:
            evaluation(walk, word.raw, state)


def note(walk: "Walk", command: SimpleCommand, words: Sequence[Word], mark: int) -> None:
    """Give `command` an effect for each secret that was used in `words` (those noted from `mark` on)."""
    found = dict.fromkeys(walk.expanded[mark:])
    del walk.expanded[mark:]
    tested = command.program in ("test", "[", "[[")
    for name, raw in found:
        at = next((n for n, word in enumerate(words) if raw in word.raw), None)
        if tested and name is not None and _only_tested(words, raw):
            continue
        span = walk.span(words[at].start, words[at].end) if at is not None else command.span
        command.effects.append(Effect("environment", "expanded", name, name is not None, span, raw))


def _only_tested(words: Sequence[Word], raw: str) -> bool:
    """`[ -n "$x" ]`, `[[ -z $x ]]`: they ask only whether it is empty."""
    used = [n for n, word in enumerate(words) if raw in word.raw]
    return bool(used) and all(n > 0 and words[n - 1].text in _TESTS for n in used)
