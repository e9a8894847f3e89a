"""Texts that an action writes to files: `cat > x.py <<'EOF'`, `echo ... >> run.sh`, `tee f`.

Order does not count, so that loops, jobs and functions need no thought: a file may hold any text that the action writes
to it anywhere.
"""

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from humanlayer_agent.shell.expansion import output
from humanlayer_agent.shell.expansion.field import Field, positional
from humanlayer_agent.shell.interpreter.context import Stdin
from humanlayer_agent.shell.interpreter.run import Run
from humanlayer_agent.shell.paths import plain_path
from humanlayer_agent.shell.program import Effect, SimpleCommand
from humanlayer_agent.shell.syntax.tree import Redirect

if TYPE_CHECKING:
    from humanlayer_agent.shell.analysis import Interpreter

MAX_TEXTS = 16
_WRITES = frozenset({"write", "append"})
_REPEATED = frozenset({"loop", "function", "trap", "background"})
_SUBSTITUTION = re.compile(r"s([/|#,:@])(.+?)(?<!\\)\1(.*)(?<!\\)\1(g?)")
_NOT_PLAIN = re.compile(r"[*\[\]^$\\+?{}|()]")
"""Characters that mean more than themselves in one of sed's two syntaxes."""
_TO_STDOUT = frozenset({">", ">|", ">>", "&>", "&>>"})


@dataclass(frozen=True, slots=True)
class WrittenText:
    """A text for a file. `appended`: it goes behind what the file holds."""

    text: str
    appended: bool
    by: SimpleCommand


@dataclass(slots=True)
class Written:
    """What an action writes, by the plain absolute path. `effects` are those whose text is known, by identity."""

    texts: dict[str, list[WrittenText]] = field(default_factory=dict)
    effects: set[int] = field(default_factory=set)
    pieces: list[tuple[str, str | None, list[str], SimpleCommand]] = field(default_factory=list)
    """What is put into files beside what they hold: the file ("": a patch names it), a patch, or the words of a sed."""
    _kept: list[Effect] = field(default_factory=list)

    def add(self, effect: Effect, text: str, by: SimpleCommand) -> None:
        """`effect` writes `text` to the file that is its operand."""
        if effect.operand is None or not effect.resolved or effect.pattern is not None or effect.below:
            return
        if effect.kind == "append" and not _REPEATED.isdisjoint(by.inside):
            return  # how often is not known
        known = self.texts.setdefault(plain_path(effect.operand), [])
        if len(known) < MAX_TEXTS:
            known.append(WrittenText(text, effect.kind == "append", by))
            self.effects.add(id(effect))
            self._kept.append(effect)  # an identity is one only while its object lives

    def patch(self, text: str, by: SimpleCommand) -> None:
        """`by` is given `text`, which may be a patch."""
        if "\n+++ " in text or text.startswith("+++ "):
            self.pieces.append(("", text, [], by))

    def contents(self, path: str, before: str | None) -> list[str]:
        """Every content that `path` may have because of what is written, given what it held `before`."""
        out: list[str] = []
        for each in self.texts.get(path, ()):
            if not each.appended:
                out.append(each.text)
            elif out:
                out += [text + each.text for text in out]
            else:
                out.append((before or "") + each.text)
        return list(dict.fromkeys(out))[:MAX_TEXTS]


def note(run: Run, fields: list[Field], redirects: list[Redirect], stdin: Stdin) -> None:
    """Note the texts that a command, whose effects are known, writes to files."""
    if run.command.program in ("patch", "git") and stdin.text is not None:
        run.walk.scripts.written.patch(stdin.text, run.command)
    writes = [effect for effect in run.command.effects if effect.kind in _WRITES]
    if not writes:
        return
    if run.command.program == "tee":
        if stdin.text is not None:
            for effect in writes:
                if effect.source == "own":
                    run.walk.scripts.written.add(effect, stdin.text, run.command)
        return
    if run.command.program == "sed":
        _edited(run, fields)
        return
    out = [r.fd in ("", "1") for r in redirects if r.op in _TO_STDOUT]
    if not out or not all(out):
        return
    words = positional(fields)
    if words is None or not words or words[0] in run.state.functions or not run.state.untouched("PATH"):
        return
    text = output.prints(words, stdin.text)
    if text is None or "\0" in text:
        return
    for effect in writes:
        if effect.source == "redirect":
            run.walk.scripts.written.add(effect, text, run.command)


def _put_in(run: Run) -> list[str]:
    """The files that sed's `r` puts in, as what its `a` adds: then their texts are judged with the other pieces."""
    out: list[str] = []
    for effect in run.command.effects:
        if effect.kind == "read" and effect.role == "script" and effect.operand is not None and effect.resolved:
            path = plain_path(effect.operand)
            found = run.walk.scripts.look(path)
            if found.texts and not _changed(run.walk, path):
                out += ["a\\\n" + text.rstrip("\n").replace("\n", "\\\n") for text in found.texts]
                effect.role = "piece"
    return out


def _changed(walk: "Interpreter", path: str) -> bool:
    """Has the action so far written a text that is not known to `path`, or to something above it?"""
    return any(
        path == plain_path(e.operand or "/") or path.startswith(plain_path(e.operand or "/").rstrip("/") + "/")
        for command in walk.program.commands
        for e in command.effects
        if e.kind in ("write", "append", "move") and id(e) not in walk.scripts.written.effects
    )


def given_texts(run: Run) -> list[str]:
    """Return all texts that a command may be given on its standard input, where that is a file which can be read, or
    was written before; none where that is not known.
    """
    path = run.context.stdin.file
    if not path.startswith("/") or not _REPEATED.isdisjoint(run.command.inside) or _changed(run.walk, plain_path(path)):
        return []
    return list(run.walk.scripts.look(plain_path(path)).texts or ())


def _edited(run: Run, fields: list[Field]) -> None:
    """`sed -i s/old/new/ file`, where `file` can be read and `old` is plain text."""
    words = positional(fields)
    changes = [e for e in run.command.effects if e.kind in _WRITES and e.source == "own" and e.operand is not None]
    if words is not None and changes:
        added = [*words, *_put_in(run)]
        run.walk.scripts.written.pieces += [(e.operand or "", None, added, run.command) for e in changes[:MAX_TEXTS]]
    if words is None or len(words) != 4 or words[1] != "-i" or not _REPEATED.isdisjoint(run.command.inside):
        return
    change = _SUBSTITUTION.fullmatch(words[2])
    if len(changes) != 1 or not changes[0].resolved or change is None:
        return
    separator, old, new, every = change.groups()
    if any(separator in part.replace("\\" + separator, "") for part in (old, new)):
        return
    old, new = (part.replace("\\" + separator, separator) for part in (old, new))
    if _NOT_PLAIN.search(old) or "&" in new or "\\" in new or "\n" in new:
        return
    path = plain_path(changes[0].operand or "")
    source = run.walk.scripts.source(path)
    before = source.text if source is not None else None
    texts = [*run.walk.scripts.written.contents(path, before), *([before] if before is not None else [])]
    pattern = re.compile(re.escape(old).replace(r"\.", "."))
    for text in dict.fromkeys(texts):
        lines = [pattern.sub(lambda _: new, line, count=0 if every else 1) for line in text.split("\n")]
        run.walk.scripts.written.add(changes[0], "\n".join(lines), run.command)
