"""The bodies of here-documents."""

from humanlayer_agent.shell.syntax.cursor import Source
from humanlayer_agent.shell.syntax.tree import Redirect, Word
from humanlayer_agent.shell.syntax.word_builder import Role, WordBuilder
from humanlayer_agent.shell.syntax.word_reader import WordLexer


def check_delimiter(lexer: WordLexer, target: Word) -> None:
    """Refuse a delimiter that can't be compared line by line with certainty.

    Raises:
        Unparsed: it holds an expansion or a newline.
    """
    if target.dynamic or "$" in target.raw or "`" in target.raw:
        raise lexer.fail("expansion in a here-document delimiter")
    if "\n" in (target.text or ""):
        raise lexer.fail("newline in a here-document delimiter")


def read_body(lexer: WordLexer, redirect: Redirect) -> Word:
    """Read the body of `redirect`, which begins at the cursor, and pass its last line.

    Args:
        lexer: stands at the start of the body's first line.
        redirect: has the operator and the delimiter.

    Raises:
        Unparsed: no line ends the body, or versions of bash differ on which one does.
    """
    delimiter, quoted, start = redirect.target.text or "", redirect.target.quoted, lexer.index
    chars: list[str] = []
    offsets: list[int] = []
    while True:
        if lexer.index >= lexer.length:
            raise lexer.fail("unterminated here-document")
        stop = lexer.index
        pieces = _line(lexer, joined=not quoted)
        if redirect.op == "<<-":
            pieces = _without_tabs(lexer, pieces)
        line = "".join(lexer.text[a:b] for a, b in pieces)
        if line == delimiter:
            lexer.index = min(lexer.index, lexer.length)
            break
        # in a substitution, bash 5.2 ends a body at a line that begins with the delimiter and has a `)` further on
        if lexer.substitutions and line.startswith(delimiter) and ")" in line[len(delimiter) :]:
            raise lexer.fail("here-document may end at its delimiter and )")
        if delimiter == "" and lexer.index >= lexer.length:
            raise lexer.fail("unterminated here-document")
        chars.append(line + "\n")
        offsets.extend(lexer.source.at(i) for a, b in pieces for i in range(a, b))
        offsets.append(lexer.source.at(lexer.index - 1))
    text = "".join(chars)
    if quoted:
        out = WordBuilder()
        out.literal(text, True)
        return out.finish(lexer.source, start, stop, Role.BODY)
    offsets.append(lexer.source.at(stop))
    inner = lexer.nested(Source(text, lexer.source.original, offsets))
    out = WordBuilder()
    inner.body(out)
    return out.finish(inner.source, 0, inner.length, Role.BODY)


def _line(lexer: WordLexer, joined: bool) -> list[tuple[int, int]]:
    """The index ranges of one line, its newline passed; `joined` deletes each backslash-newline, as bash does."""
    pieces = []
    while True:
        lexer.budget.step()
        start = lexer.index
        end = lexer.text.find("\n", start)
        end = lexer.length if end < 0 else end
        lexer.index = end + 1
        line = lexer.text[start:end]
        if joined and (len(line) - len(line.rstrip("\\"))) % 2 and lexer.index <= lexer.length:
            pieces.append((start, end - 1))
            continue
        pieces.append((start, end))
        return pieces


def _without_tabs(lexer: WordLexer, pieces: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """`pieces` without the tabs at the start of the line."""
    kept = []
    stripping = True
    for start, end in pieces:
        while stripping and start < end and lexer.text[start] == "\t":
            start += 1
        if start < end:
            stripping = False
        kept.append((start, end))
    return kept
