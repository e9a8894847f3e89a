"""Commands: what stands between words, turned into a skeleton that bashlex can be trusted with.

The skeleton is a line of reserved words, operators and inert words `W0`, `W1`, ...; each W stands for an entry
(a word, an assignment, a redirect, or a marker of ours). bashlex 0.18 drops or rejects some constructs, so they are
written in forms that it reads rightly, and `tree` restores them:

    newline                 ;  (or nothing, where a newline separates nothing)
    case x in a) b;; esac   { Case ; { Arm ; b ; } ; }
    elif c; then b          else Elif ; if c ; then b ... ; fi
    for ((..)); do          while ArithFor ; do
    for x; select x in a    for W in LoopHead W ; do
    [[ .. ]], (( .. ))      { Leaf ; }
    function f              W ( )
    time                    (nothing)

From bashlex's tree of the skeleton to ours, with the proof that nothing was lost.

Every W of the skeleton must be met exactly once. That alone found that bashlex 0.18 drops all that follows a
second `elif`.
"""

from collections.abc import Sequence as Nodes
from dataclasses import dataclass
from typing import Any

import bashlex

from humanlayer_agent.shell.syntax.refusal import Unparsed
from humanlayer_agent.shell.syntax.tree import (
    ArithCommand,
    Assign,
    Case,
    CaseArm,
    Function,
    Group,
    If,
    Loop,
    Node,
    Pipeline,
    Redirect,
    Sequence,
    Simple,
    Test,
    Word,
)

# ---- what a W stands for --------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class FunctionName:
    """The name in a function definition."""

    word: Word


@dataclass(slots=True, eq=False)
class CaseHead:
    """`case subject in`."""

    subject: Word


@dataclass(slots=True, eq=False)
class Arm:
    """`pattern | pattern )`."""

    patterns: list[Word]


@dataclass(slots=True, eq=False)
class Elif:
    """Here an `elif` was written as `else` and `if`."""


@dataclass(slots=True, eq=False)
class ArithFor:
    """`for (( head ))`."""

    head: Word


@dataclass(slots=True, eq=False)
class LoopHead:
    """`for` or `select`; `listed` says that `in` is there."""

    kind: str
    listed: bool


Entry = Word | Assign | Redirect | FunctionName | CaseHead | Arm | Elif | ArithFor | LoopHead | Test | ArithCommand


class Skeleton:
    """The skeleton of one script, and what it stands for.

    Attributes:
        tokens: the text for bashlex, token by token.
        spans: where each token stands in the original, index by index.
        entries: what W0, W1, ... stand for.
    """

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.spans: list[tuple[int, int]] = []
        self.entries: list[Entry] = []

    def token(self, token: str, start: int, end: int) -> None:
        """Add a reserved word or operator that stands at [start, end) of the original."""
        self.tokens.append(token)
        self.spans.append((start, end))

    def entry(self, entry: Entry, start: int, end: int) -> None:
        """Add a W."""
        self.token(f"W{len(self.entries)}", start, end)
        self.entries.append(entry)

    def ended(self) -> bool:
        """Whether the last token ends a command, so that a newline after it separates."""
        last = self.tokens[-1] if self.tokens else ""
        return last[:1] == "W" or last in ("}", ")", "fi", "done")

    def separate(self, at: int) -> None:
        """Add a separator where a command has ended."""
        if self.ended():
            self.token(";", at, at)


def build(skeleton: Skeleton) -> Node | None:
    """The tree of `skeleton`, or None where it is empty.

    Raises:
        Unparsed: bashlex rejects it, or its tree does not hold every entry exactly once.
    """
    if not skeleton.tokens:
        return None
    try:
        trees = bashlex.parse(" ".join(skeleton.tokens) + "\n")
    except RecursionError:
        raise Unparsed("nested too deeply") from None
    except Exception as error:  # bashlex raises six types, and IndexError among them
        raise Unparsed("syntax error") from error
    if len(trees) != 1:
        raise Unparsed("syntax error")
    builder = _Builder(skeleton)
    node = builder.node(trees[0])
    builder.account()
    return node


class _Builder:
    """Converts one bashlex tree."""

    def __init__(self, skeleton: Skeleton) -> None:
        self.entries = skeleton.entries
        self.met = [0] * len(skeleton.entries)
        self.spans: dict[int, tuple[int, int]] = {}
        position = 0
        for token, span in zip(skeleton.tokens, skeleton.spans, strict=True):
            self.spans[position] = span
            position += len(token) + 1

    def account(self) -> None:
        """Check that every entry was met exactly once.

        Raises:
            Unparsed: one was lost, or met twice.
        """
        if any(count != 1 for count in self.met):
            raise Unparsed("words lost by the parser")

    # ---- leaves -------------------------------------------------------------------------------------

    def entry(self, node: Any) -> Entry:
        """What the W in `node` stands for."""
        if node.kind != "word" or node.word[:1] != "W":
            raise Unparsed("syntax error")
        index = int(node.word[1:])
        self.met[index] += 1
        return self.entries[index]

    def redirects(self, nodes: Nodes[Any]) -> list[Redirect]:
        found = []
        for node in nodes:
            entry = self.entry(node.output)
            if node.kind != "redirect" or not isinstance(entry, Redirect):
                raise Unparsed("syntax error")
            found.append(entry)
        return found

    def where(self, node: Any) -> tuple[int, int]:
        """Where a reserved word stands in the original."""
        return self.spans[node.pos[0]]

    # ---- nodes --------------------------------------------------------------------------------------

    def node(self, node: Any) -> Node:
        """Convert any node."""
        match node.kind:
            case "command":
                return self.simple(node)
            case "list":
                return self.sequence(node)
            case "pipeline":
                return self.pipeline(node)
            case "compound":
                return self.compound(node)
            case "function":
                return self.function(node)
        raise Unparsed("syntax error")

    def simple(self, node: Any) -> Simple:
        words: list[Word] = []
        assigns: list[Assign] = []
        redirects: list[Redirect] = []
        for part in node.parts:
            if part.kind == "redirect":
                redirects += self.redirects([part])
                continue
            entry = self.entry(part)
            if isinstance(entry, Word):
                words.append(entry)
            elif isinstance(entry, Assign) and not words:
                assigns.append(entry)
            else:
                raise Unparsed("syntax error")
        items: list[Word | Assign | Redirect] = [*words, *assigns, *redirects]
        return Simple(words, assigns, redirects, min(i.start for i in items), max(i.end for i in items))

    def sequence(self, node: Any) -> Node:
        parts: list[Node] = []
        ops: list[str] = []
        for part in node.parts:
            if part.kind == "operator":
                ops.append(part.op)
            else:
                parts.append(self.node(part))
        if len(ops) not in (len(parts), len(parts) - 1) or any(op not in (";", "&", "&&", "||") for op in ops):
            raise Unparsed("syntax error")
        return sequence(parts, ops)

    def pipeline(self, node: Any) -> Node:
        bangs = [part for part in node.parts if part.kind == "reservedword"]
        ops = [part.pipe for part in node.parts if part.kind == "pipe"]
        parts = [self.node(part) for part in node.parts if part.kind not in ("reservedword", "pipe")]
        if len(parts) != len(ops) + 1 or any(bang.word != "!" for bang in bangs):
            raise Unparsed("syntax error")
        inner = parts[0] if not ops else Pipeline(parts, ops, parts[0].start, parts[-1].end)
        if len(bangs) % 2 == 0:
            return inner
        return Sequence([inner], [], self.where(bangs[0])[0], inner.end, negated=True)

    def function(self, node: Any) -> Function:
        name, body = node.parts[0], node.parts[-1]
        entry = self.entry(name)
        if not isinstance(entry, FunctionName):
            raise Unparsed("syntax error")
        inner = self.node(body)
        return Function(entry.word, inner, [], entry.word.start, inner.end)

    def compound(self, node: Any) -> Node:
        first = node.list[0]
        made: Group | Case | Test | ArithCommand | If | Loop
        if first.kind == "reservedword":
            if len(node.list) != 3 or first.word not in ("{", "("):
                raise Unparsed("syntax error")
            start, end = self.where(first)[0], self.where(node.list[2])[1]
            made = self.group(node.list[1], first.word == "(", start, end)
        elif len(node.list) == 1:
            made = self.statement(first)
        else:
            raise Unparsed("syntax error")
        redirects = self.redirects(node.redirects)
        if redirects:
            made.redirects = [*made.redirects, *redirects]
            made.end = max(made.end, redirects[-1].end)
        return made

    def statement(self, node: Any) -> If | Loop:
        if node.kind == "if":
            return self.if_(node)
        if node.kind in ("while", "until"):
            return self.while_(node)
        if node.kind == "for":
            return self.for_(node)
        raise Unparsed("syntax error")

    # ---- if and loops -------------------------------------------------------------------------------

    def if_(self, node: Any) -> If:
        parts = node.parts
        keywords = [part.word if part.kind == "reservedword" else "" for part in parts]
        if keywords not in (["if", "", "then", "", "fi"], ["if", "", "then", "", "else", "", "fi"]):
            raise Unparsed("syntax error")
        start, end = self.where(parts[0])[0], self.where(parts[-1])[1]
        branches = [(self.node(parts[1]), self.node(parts[3]))]
        orelse = None
        if len(parts) == 7:
            chained = self.elif_(parts[5])
            if chained is None:
                orelse = self.node(parts[5])
            else:
                branches += chained.branches
                orelse = chained.orelse
        return If(branches, orelse, [], start, end)

    def elif_(self, node: Any) -> If | None:
        """The `if` that was written for an `elif`, or None where `node` is an ordinary `else` part."""
        parts = node.parts if node.kind == "list" else []
        head = self.marker(parts[0]) if parts else None
        if not isinstance(head, Elif):
            return None
        self.simple_marker(parts[0])
        rest = [part for part in parts[1:] if part.kind != "operator"]
        if len(rest) != 1 or rest[0].kind != "compound" or rest[0].redirects or len(rest[0].list) != 1:
            raise Unparsed("syntax error")
        return self.if_(rest[0].list[0])

    def while_(self, node: Any) -> Loop:
        parts = node.parts
        if len(parts) != 5 or parts[2].word != "do" or parts[4].word != "done":
            raise Unparsed("syntax error")
        start, end = self.where(parts[0])[0], self.where(parts[4])[1]
        heads = parts[1].parts if parts[1].kind == "list" else []
        head = self.marker(heads[0]) if heads else None
        if not isinstance(head, ArithFor):
            condition = self.node(parts[1])
            return Loop(node.kind, self.node(parts[3]), [], start, end, condition=condition)
        if len(heads) != 2:
            raise Unparsed("syntax error")
        self.simple_marker(heads[0])
        return Loop("arith", self.node(parts[3]), [], start, end, head=head.head)

    def for_(self, node: Any) -> Loop:
        parts = node.parts
        name, head = self.entry(parts[1]), self.entry(parts[3])
        words: list[Word] = []
        rest = parts[4:]
        while rest and rest[0].kind == "word":
            word = self.entry(rest.pop(0))
            if not isinstance(word, Word):
                raise Unparsed("syntax error")
            words.append(word)
        keywords = [part.word if part.kind == "reservedword" else "" for part in rest]
        if keywords != [";", "do", "", "done"] or not isinstance(name, Word) or not isinstance(head, LoopHead):
            raise Unparsed("syntax error")
        if words and not head.listed:
            raise Unparsed("syntax error")
        start, end = self.where(parts[0])[0], self.where(rest[-1])[1]
        return Loop(head.kind, self.node(rest[2]), [], start, end, name=name, words=words if head.listed else None)

    # ---- groups, and what was written as groups -----------------------------------------------------

    def marker(self, node: Any) -> Entry | None:
        """The entry that `node`, a command of one word, stands for. Does not count it as met."""
        if node.kind == "command" and len(node.parts) == 1 and node.parts[0].kind == "word":
            return self.entries[int(node.parts[0].word[1:])]
        return None

    def simple_marker(self, node: Any) -> None:
        """Count the marker in `node` as met."""
        self.entry(node.parts[0])

    def group(self, body: Any, subshell: bool, start: int, end: int) -> Group | Case | Test | ArithCommand:
        parts = body.parts if body.kind == "list" else []
        head = self.marker(parts[0]) if parts else None
        if isinstance(head, Test | ArithCommand):
            if len(parts) != 2 or subshell:
                raise Unparsed("syntax error")
            self.simple_marker(parts[0])
            return head
        if isinstance(head, CaseHead) and not subshell:
            self.simple_marker(parts[0])
            arms = [self.arm(part) for part in parts[1:] if part.kind != "operator"]
            return Case(head.subject, arms, [], start, end)
        return Group(self.node(body), subshell, [], start, end)

    def arm(self, node: Any) -> CaseArm:
        """One arm of a case: a group whose first command is the marker with its patterns."""
        if node.kind != "compound" or node.redirects or node.list[1].kind != "list":
            raise Unparsed("syntax error")
        parts = node.list[1].parts
        head = self.marker(parts[0])
        if not isinstance(head, Arm):
            raise Unparsed("syntax error")
        self.simple_marker(parts[0])
        rest = parts[2:]
        if not rest:
            return CaseArm(head.patterns, None)
        nodes = [self.node(part) for part in rest if part.kind != "operator"]
        ops = [part.op for part in rest if part.kind == "operator"]
        return CaseArm(head.patterns, sequence(nodes, ops))


def sequence(parts: list[Node], ops: list[str]) -> Node:
    """The canonical form of a list: one command without an operator is itself, and a last ";" goes."""
    if ops and len(ops) == len(parts) and ops[-1] == ";":
        ops = ops[:-1]
    if len(parts) == 1 and not ops:
        return parts[0]
    return Sequence(parts, ops, parts[0].start, parts[-1].end)
