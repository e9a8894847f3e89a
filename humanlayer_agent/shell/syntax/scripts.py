"""Whole scripts: the lexer that makes a skeleton of each, and has it parsed."""

from humanlayer_agent.shell.syntax.compound import ScriptReader
from humanlayer_agent.shell.syntax.cursor import Budget, Source
from humanlayer_agent.shell.syntax.skeleton_tree import build
from humanlayer_agent.shell.syntax.tree import Redirect, Script, Simple
from humanlayer_agent.shell.syntax.word_reader import WordLexer


class CommandLexer(WordLexer):
    """Reads scripts.

    Args:
        source: the text.
        budget: what may be spent on it.
        witnesses: gets every simple command that is seen, also when the text is refused later.
        depth: how deeply nested the text is.
    """

    def __init__(self, source: Source, budget: Budget, witnesses: list[Simple], depth: int = 0) -> None:
        super().__init__(source, budget, depth)
        self.pending: list[Redirect] = []
        self.witnesses = witnesses

    def nested(self, source: Source) -> "CommandLexer":
        """A lexer for another text inside this one, one level deeper."""
        inner = CommandLexer(source, self.budget, self.witnesses, self.depth)
        inner.substitutions = self.substitutions
        inner.enter()
        return inner

    def script(self, closer: str | None) -> Script:
        """Read commands up to `closer`, which is passed, or to the end of the text."""
        outer, self.pending = self.pending, []
        start = self.index
        skeleton = ScriptReader(self, closer).read()
        end = self.index - len(closer or "")
        self.pending = outer
        return Script(build(skeleton), self.source.at(start), self.source.at(min(end, self.length)))
