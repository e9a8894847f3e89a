"""Command text to syntax tree: the front end's one function."""

import re
from dataclasses import dataclass, field

from humanlayer_agent.shell.syntax import fast_path
from humanlayer_agent.shell.syntax.cursor import Budget, Source, refusal
from humanlayer_agent.shell.syntax.refusal import Unparsed
from humanlayer_agent.shell.syntax.tree import Script, Simple

_PIECE = re.compile(r"[^\\]+|\\(?:.|\Z)", re.DOTALL)
"""Text, or a backslash with what it quotes: `\\\\` before a newline is no continuation."""


@dataclass(slots=True, eq=False)
class Parse:
    """The result of `parse`.

    Attributes:
        status: "ok"; "partial" (another parser disagrees: `script` is kept, but proves nothing); "failed"
            (refused: `script` is None).
        reasons: short stable phrases that say why the status is not "ok".
        script: the tree, or None.
        witnesses: where the status is not "ok", simple commands that were seen in the text. Deny rules run over
            them; they never support an allow.
    """

    status: str
    reasons: list[str]
    script: Script | None
    witnesses: list[Simple] = field(default_factory=list)
    guess: Script | None = None
    """What the text is in all likelihood, where it was refused: enough for a deny, never for an allow."""


def parse(text: str) -> Parse:
    """Parse a command line as bash would. Never raises; its work is bounded.

    Args:
        text: what would be given to `bash -c`.

    Example:
        >>> parse("ls | wc -l").status
        'ok'
        >>> parse("echo 'abc").reasons
        ["unterminated '"]
    """
    try:
        script = fast_path.read(text)
    except Exception:  # a fault of the fast path costs time, nothing else
        script = None
    return parse_slowly(text) if script is None else Parse("ok", [], script, [])


def parse_slowly(text: str) -> Parse:
    """`parse` without the fast path: our lexer, bashlex, the accounting and the veto."""
    seen: list[Simple] = []
    try:
        script = read(text, seen)
    except Unparsed as refusal:
        return _refused(refusal.reason, text, seen)
    except RecursionError:
        return _refused("nested too deeply", text, seen)
    except Exception:  # a fault of ours must end as a question to a human, never as a crash or an allow
        return _refused("internal error", text, seen)
    objection = _objection(text, script)
    if objection:
        return Parse("partial", [objection], script, seen + _more_witnesses(text))
    return Parse("ok", [], script)


def read(text: str, seen: list[Simple]) -> Script:
    """The tree of `text`, without a second opinion.

    Args:
        text: a command line.
        seen: gets the simple commands that were seen, also when the text is refused later.

    Raises:
        Unparsed: it is refused.
    """
    reason = refusal(text)
    if reason:
        raise Unparsed(reason)
    return _read(Source(text), seen)


def _read(source: Source, seen: list[Simple]) -> Script:
    # bashlex takes 60 ms to import, and the fast path never needs it
    from humanlayer_agent.shell.syntax.commands import CommandLexer

    return CommandLexer(source, Budget(), seen).script(None)


def _refused(reason: str, text: str, seen: list[Simple]) -> Parse:
    guess = _joined(text, seen) if "line continuation" in reason else None
    return Parse("failed", [reason], None, seen + _more_witnesses(text), guess)


def _joined(text: str, seen: list[Simple]) -> Script | None:
    """What is seen where every backslash-newline is deleted, as bash does before it reads (but for single quotes)."""
    from contextlib import suppress

    kept = [n for found in _PIECE.finditer(text) if found[0] != "\\\n" for n in range(*found.span())]
    source = Source("".join(text[n] for n in kept), text, [*kept, len(text)])
    with suppress(Exception):  # best effort, as below
        return _read(source, seen)
    return None


def _objection(text: str, script: Script) -> str | None:
    from humanlayer_agent.shell.syntax.veto import objection

    try:
        return objection(text, script)
    except Exception:  # without the second opinion nothing is sure
        return "the second parser failed"


def _more_witnesses(text: str) -> list[Simple]:
    from humanlayer_agent.shell.syntax.veto import witnesses

    try:
        return witnesses(text)
    except Exception:  # best effort: the answer is a question to a human with or without them
        return []
