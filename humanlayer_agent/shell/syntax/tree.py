"""The syntax tree of a command line: what the front end makes, and the analysis reads.

Offsets are [start, end) in Unicode code points of the text that was given to `parse`, at any depth
of nesting. Plain classes with slots, because thousands are made for one replay (a frozen dataclass
costs several times as much to build). Treat every node as immutable.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

# ---- words ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Lit:
    """Literal text. Where `quoted`, it can't glob, expand or split; `text` is after quote removal."""

    text: str
    quoted: bool


@dataclass(slots=True, eq=False)
class Param:
    """A parameter expansion.

    `name` is the variable or special parameter ("HOME", "1", "@"); for `${!x}`, `${#x}` the prefix is in
    `op` ("!", "#"). `index` is the raw text between [ and ], or None. `op` is the operator ("" for `$x` and
    `${x}`; ":-", "-", ":=", "=", ":?", "?", ":+", "+", "#", "##", "%", "%%", "/", "//", "/#", "/%", ":", "^",
    "^^", ",", ",,", "@"; prefix operators "!" and "length"); `arg` is the word after it, or None; with "!" it is
    all that follows the name. `$"..."` has the name "" and the op "translate"; `arg` is the text before translation.
    """

    name: str
    op: str
    arg: "Word | None"
    index: str | None
    quoted: bool
    raw: str
    index_parts: "list[Part]" = field(default_factory=list)
    """The expansions inside the index: bash runs them."""


@dataclass(slots=True, eq=False)
class Sub:
    """Command substitution, `$( )` or backticks."""

    script: "Script"
    quoted: bool


@dataclass(slots=True, eq=False)
class ProcSub:
    """Process substitution; `direction` is "<" or ">"."""

    script: "Script"
    direction: str


@dataclass(slots=True, eq=False)
class Arith:
    """Arithmetic: `$(( ))`, a `(( ))` command, a `for ((` head. `parts` are the expansions inside it."""

    raw: str
    parts: "list[Part]"
    quoted: bool


@dataclass(slots=True, eq=False)
class ArrayLit:
    """The elements of `name=( ... )`."""

    words: "list[Word]"


Part = Lit | Param | Sub | ProcSub | Arith | ArrayLit


@dataclass(slots=True, eq=False)
class Word:
    """One word of a command, an assignment's value, a redirect's target, a here-document's body.

    `raw` is the source text. `text` is the word after quote removal (a glob, brace or tilde that is not quoted
    stays as written), or None where the word is `dynamic` (contains an expansion). `pattern` says that an unquoted
    glob, brace or tilde makes its value depend on more than the text (in the value of an assignment only a tilde does
    so). `quoted` says that any part was quoted: such a
    word exists even when it is empty, and is never a reserved word. `parts` is the structure; it may be
    empty for a word that is one unquoted or one quoted literal, whose `text` says all.
    """

    raw: str
    text: str | None
    start: int
    end: int
    dynamic: bool = False
    pattern: bool = False
    quoted: bool = False
    parts: "list[Part]" = field(default_factory=list)

    @property
    def static(self) -> str | None:
        """The one string this word stands for, or None where that is not certain from the text alone."""
        return None if self.dynamic or self.pattern else self.text

    def scripts(self) -> "Iterator[Script]":
        """Every script that expanding this word runs, at this level (not those inside those scripts)."""
        return scripts_of(self.parts)


def scripts_of(parts: "list[Part]") -> "Iterator[Script]":
    """Every script inside `parts`: substitutions, also those inside parameter arguments and arithmetic."""
    for part in parts:
        if isinstance(part, Sub | ProcSub):
            yield part.script
        elif isinstance(part, Param):
            if part.arg is not None:
                yield from part.arg.scripts()
            yield from scripts_of(part.index_parts)
        elif isinstance(part, Arith):
            yield from scripts_of(part.parts)
        elif isinstance(part, ArrayLit):
            for word in part.words:
                yield from word.scripts()


@dataclass(slots=True, eq=False)
class Assign:
    """`name=value`, `name+=value`, `name[index]=value`; `index` is raw text or None."""

    name: str
    value: Word
    append: bool
    index: str | None
    start: int
    end: int
    index_parts: "list[Part]" = field(default_factory=list)
    """The expansions inside the index: bash runs them."""


@dataclass(slots=True, eq=False)
class Redirect:
    """`op` as written (">", ">>", ">|", "&>", "&>>", ">&", "<", "<>", "<&", "<<", "<<-", "<<<").

    `fd` is "" , digits, or "{name}". For a here-document `target` is the delimiter and `body` its text: a Word
    with one quoted Lit where the delimiter was quoted, else with the expansions it contains.
    """

    op: str
    fd: str
    target: Word
    start: int
    end: int
    body: Word | None = None


# ---- commands -------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Simple:
    """Words, assignments before them, redirects. `words` may be empty (`x=1`, `> f`)."""

    words: list[Word]
    assigns: list[Assign]
    redirects: list[Redirect]
    start: int
    end: int


@dataclass(slots=True, eq=False)
class Pipeline:
    """Two or more commands joined by `|` or `|&` (`ops`, one fewer than `parts`)."""

    parts: "list[Node]"
    ops: list[str]
    start: int
    end: int


@dataclass(slots=True, eq=False)
class Sequence:
    """Commands one after another. `ops[i]` follows `parts[i]`: ";", "&", "&&", "||"; a newline is ";".

    Flat: `a && b & c` has three parts, and the "&" puts the whole of `a && b` into the background. A last ";" is
    left out, a last "&" is kept (then there are as many ops as parts). `negated` is `! part`: one part (a
    command or a pipeline) that runs here and whose status is inverted.
    """

    parts: "list[Node]"
    ops: list[str]
    start: int
    end: int
    negated: bool = False


@dataclass(slots=True, eq=False)
class Group:
    """`{ ...; }` (`subshell` False) or `( ... )`."""

    body: "Node"
    subshell: bool
    redirects: list[Redirect]
    start: int
    end: int


@dataclass(slots=True, eq=False)
class If:
    """`branches` are (condition, body) pairs, `elif` among them; `orelse` is the else part or None."""

    branches: "list[tuple[Node, Node]]"
    orelse: "Node | None"
    redirects: list[Redirect]
    start: int
    end: int


@dataclass(slots=True, eq=False)
class Loop:
    """`kind` is while, until, for, select or arith (`for ((`).

    `condition` is the while/until list. `name` and `words` are of for and select; `words` is None where `in` is
    missing (the positional parameters). `head` is the arithmetic head of `for ((`.
    """

    kind: str
    body: "Node"
    redirects: list[Redirect]
    start: int
    end: int
    condition: "Node | None" = None
    name: Word | None = None
    words: list[Word] | None = None
    head: Word | None = None


@dataclass(slots=True, eq=False)
class CaseArm:
    """One `pattern | pattern) body` of a case; `body` is None where it is empty."""

    patterns: list[Word]
    body: "Node | None"


@dataclass(slots=True, eq=False)
class Case:
    subject: Word
    arms: list[CaseArm]
    redirects: list[Redirect]
    start: int
    end: int


@dataclass(slots=True, eq=False)
class Function:
    """A definition: `body` runs when the function is called (by its name, or by a name bash calls itself)."""

    name: Word
    body: "Node"
    redirects: list[Redirect]
    start: int
    end: int


@dataclass(slots=True, eq=False)
class Test:
    """`[[ ... ]]`: its operands and operators as words (comparison and logic operators are words with `text`)."""

    words: list[Word]
    redirects: list[Redirect]
    start: int
    end: int


@dataclass(slots=True, eq=False)
class ArithCommand:
    """`(( ... ))`; `word` has one Arith part."""

    word: Word
    redirects: list[Redirect]
    start: int
    end: int


Node = Simple | Pipeline | Sequence | Group | If | Loop | Case | Function | Test | ArithCommand


@dataclass(slots=True, eq=False)
class Script:
    """The parse of one text: `body` is None for an empty one (blank, or comments only)."""

    body: Node | None
    start: int
    end: int


def children(node: Node) -> Iterator[Node]:
    """The nodes directly inside `node` (not those inside words)."""
    match node:
        case Pipeline() | Sequence():
            yield from node.parts
        case Group() | Function():
            yield node.body
        case If():
            for condition, body in node.branches:
                yield condition
                yield body
            if node.orelse is not None:
                yield node.orelse
        case Loop():
            if node.condition is not None:
                yield node.condition
            yield node.body
        case Case():
            for arm in node.arms:
                if arm.body is not None:
                    yield arm.body
        case _:
            pass


def words_of(node: Node) -> Iterator[Word]:
    """The words that stand directly in `node`, redirect targets and bodies included (not its children's)."""
    match node:
        case Simple():
            yield from node.words
            for assign in node.assigns:
                yield assign.value
        case Loop():
            yield from (w for w in (node.name, node.head) if w is not None)
            yield from node.words or ()
        case Case():
            yield node.subject
            for arm in node.arms:
                yield from arm.patterns
        case Function():
            yield node.name
        case Test():
            yield from node.words
        case ArithCommand():
            yield node.word
        case _:
            pass
    for redirect in getattr(node, "redirects", ()):
        yield redirect.target
        if redirect.body is not None:
            yield redirect.body


def simples(script: Script) -> Iterator[Simple]:
    """Every simple command of `script` at any depth, those inside substitutions included."""
    if script.body is not None:
        yield from _simples(script.body)


def _simples(node: Node) -> Iterator[Simple]:
    if isinstance(node, Simple):
        yield node
        for assign in node.assigns:
            for script in scripts_of(assign.index_parts):
                yield from simples(script)
    for word in words_of(node):
        for script in word.scripts():
            yield from simples(script)
    for child in children(node):
        yield from _simples(child)
