"""Random bash scripts whose commands are known, and mutants of texts.

A generated script is full of decoys: text that looks like a command, a separator or the end of a construct, in places
where bash sees plain characters. The names of the commands that can run are the ground truth.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

DECOY = "evil"
"""The name of commands that never run: it stands only in quotes, comments, here-documents and escapes."""

# ---- the grammar ----------------------------------------------------------------------------------

GRAMMAR: dict[str, tuple[str, ...]] = {
    # words; ‹x› is another rule, or a method of the generator
    "word": ("‹piece›", "‹piece›", "‹piece›", "‹piece›‹piece›", "‹piece›‹piece›‹piece›"),
    "piece": (
        *("‹plain›",) * 5,
        *("'‹breakout›'", "'‹breakout›'", '"‹double›"', '"‹double›‹double›"', '"‹double›‹double›‹double›"'),
        *("‹escape›", "‹variable›", "${v:-‹default›}", "${a[$(‹sub›)]}", "$(‹sub›)", "$(‹sub›)", "`‹backticks›`"),
        *("$((‹arithmetic›))", "$[‹arithmetic›]", "<(‹sub›)", ">(‹sub›)", "‹glob›", "$'‹ansi›'"),
    ),
    "plain": ("a", "foo", "-x", "b/c", "x=y", "1", "a.b", "@", "%", "^", ":", "+", "-", "_", "é", "x#evil", "[", "]"),
    "breakout": (
        *("; evil", "#evil", " evil ", ")", "evil)", "}", "<<E", "(", "| evil", "&& evil", "\nevil\n", "done"),
        *("esac", "fi", ";;", "\nE\n", "<(", ">", "]]", "))", "$(evil)", "`evil`", "${x", '"', "\\", "a\\", "\\\n"),
    ),
    "double": (
        *("x ", "'", "; evil ", "#evil", ")", "(", '\\"', "\\$", "\\\\", "\\`", "it's", "<<E", "\n", " evil\n"),
        *("\\\n", "$v", "${v}", "${v:-x}", "$(‹sub›)", "$(‹sub›)", "`‹backticks›`", "${v:-$(‹sub›)}", "$ ", "${v#*/}"),
    ),
    "default": ("x", "'a}b'", '"q"', "$(‹sub›)", "${w:-$(‹sub›)}", "\\}", '"$(‹sub›)"', "a b", "`‹backticks›`"),
    "escape": ("\\;", "\\(", "\\$", '\\"', "\\'", "\\ ", "\\#", "\\`", "\\<", "\\&", "\\\\", "\\|"),
    "variable": (
        *("$v", "${v}", "$1", "$?", "$#", "$$", "${#v}", "${v[@]}", "${v/a/b}", "${v%%x*}", "${v^^}", "${!v}"),
        *("${v:1:2}", "${v@Q}", "${#v[@]}", "${!v[@]}", "${v: -1}", "$!", "${10}"),
    ),
    "arithmetic": ("1+1", "x<<2", "(1+2)*3", "$(‹sub›)+1", "a[1]", "$x%3", "x=$(‹sub›)", "`‹backticks›`", "x>y?1:2"),
    "ansi": ("a\\'b", "\\n", "; evil", "$(evil)", "\\\\", "\\x41", "\\101", "\\u0041"),
    "glob": ("*", "?", "[ab]", "{a,b}", "~x", "{1..3}", "{}"),
    "backticks": ("‹name›", " ‹name› ‹tick›", "‹name› ‹tick›; ‹name›", "‹name› && ‹name› ‹tick›", "‹name› | ‹name›"),
    "tick": ("a", "b.c", "'x y'", "$v", "-l", '"q"', "'; evil'"),
    # simple commands
    "name": ("‹new›", "‹new›", "‹new›", "‹new›", "'‹new›'", '"‹new›"', "\\‹new›", "‹new›''", '""‹new›'),
    "simple": (
        *("‹name›‹arguments›",) * 5,
        *("v=‹word›‹gap›‹name›‹arguments›", "a[0]=1 ‹name›", "a[$(‹sub›)]=x ‹name›", "a[`‹backticks›`]+=x"),
        *("‹redirect›‹gap›‹name›‹arguments›", "‹name›‹arguments›‹gap›‹redirect›", "v=1 >f ‹name›", ">&-‹name›"),
        *("‹name›‹arguments›‹gap›‹redirect›‹gap›‹redirect›", "‹name›‹gap›‹keyword›", "v=(‹elements›) ‹name›"),
        *("{fd}>f ‹name›", "2>&1 ‹name›", "v+=‹word›"),
    ),
    "arguments": ("", "", "‹gap›‹word›", "‹gap›‹word›", "‹gap›‹word›‹gap›‹word›", "‹gap›‹word›‹gap›‹word›‹gap›‹word›"),
    "gap": (" ", " ", " ", "  ", "\t", " \\\n"),
    "keyword": ("if", "then", "}", "{", "do", "esac", "[[", "in", "!", "time", "done", "fi", "]]", "function"),
    "redirect": (
        *("‹heredoc›", "‹heredoc›", "<<<‹word›", "<<< ‹word›", "> ‹word›", ">>‹word›", "2>‹word›", "&>‹word›"),
        *("< ‹word›", ">| f", "2>> f", "2>&1", ">&2", "2>&-", "<&3", "&>> f", "<> f", "4<&3-"),
    ),
    # lists
    "inline": ("; ", ";", " && ", "&&", " || ", " & ", " | ", "|", " |& "),
    "break": ("", " ", "", " # evil ", " #evil '", ";", " &", " &&", " |", ";# evil '", '&# "', " ||", " # evil \\"),
    "filler": ("", "", "\n", "# evil \\\n", "   \n", '\t#"\n'),
    "padding": ("", "", " ", "\n"),
    # compound commands
    "compound": (
        *("( ‹block›)", "{ ‹block›}", "( ‹block›) > f", "{ ‹block›} 2>&1"),
        *("if ‹block›then ‹block›fi", "if ‹block›then ‹block›else ‹block›fi > f", "if ‹block›then ‹block›‹elif›fi"),
        *("if ‹block›then ‹block›‹elif›‹elif›else ‹block›fi", "if ‹block›then ‹block›‹elif›‹elif›‹elif›fi"),
        *("while ‹block›do ‹block›done", "until ‹block›do ‹block›done", "while ! ‹block›do ‹block›done < f"),
        *("for i in ‹word› ‹word›; do ‹block›done", "for i; do ‹block›done", "select i in ‹word›; do ‹block›done"),
        *("for i in ‹word›; { ‹block›}", "for ((i=0;i<3;i++)); do ‹block›done", "for ((;;)) { ‹block›}"),
        *(
            "case ‹word› in ‹arm›‹arm›esac",
            "case ‹word› in ‹arm›esac",
            "case ‹word› in ‹lastarm›esac",
            "case x in esac",
        ),
        *("[[ ‹test› ]]", "[[ ‹test› && ‹test› ]]", "[[ ! ( ‹test› || ‹test› ) ]] > f", "((‹arithmetic›))"),
        *("! ‹simple›", "time ‹simple›", "time -p ‹simple›", "! ‹name› | ‹name›", "time -- ‹simple›"),
        *("f() { ‹block›}", "function f { ‹block›}", "function f() { ‹block›}", "f() ( ‹block›)", "f() { ‹block›} > f"),
        *("v=(‹elements›)", "declare -a v=(‹elements›)", "export v=‹word›", "local v=‹word›"),
    ),
    "elif": ("elif ‹block›then ‹block›",),
    "arm": ("‹open›‹pattern›) ‹block›‹end› ", "‹open›‹pattern›) ‹end› ", "‹open›‹pattern›|‹pattern› ) ‹block›‹end› "),
    "lastarm": ("‹open›‹pattern›) ‹block›",),
    "open": ("", "", "("),
    "pattern": ("a", "'x)'", "*", "[a-z]*", '"$v"', "$(‹sub›)", "a\\)b"),
    "end": (";;", ";;", ";&", ";;&"),
    "test": (
        *("-f ‹word›", "$v == a*", '$v == "x"', "$v != $w", "$v =~ ^(a|b c)$", "$v =~ 'x)'", "$a < b", "-n $v"),
        *("$(‹sub›) -gt 1", "$v == @(a|$w)", "$v =~ $(‹sub›)", "-z `‹backticks›`"),
    ),
    "elements": ("", "‹word›", "‹word› ‹word›", "[1]=‹word›", "‹word› # evil )\n ‹word›"),
}
_RULE = re.compile("‹([a-z]+)›")
_NESTING = re.compile("‹(?:sub|block|backticks|arm|elif|lastarm)›")

_BODY_LINES = (
    *("evil x", "it's", '"', "# evil", ")", "}", "esac", ";;", "(", "$v", "", "((", "]]", "\\\\", "case x in"),
    *("  evil", "EOF2", "&&", "${v:-x}"),
)
_LIVE = ("$(‹backticks›)", "`‹backticks›`", "${v:-$(‹backticks›)}", "$((1+$(‹backticks›)))")


@dataclass(frozen=True, slots=True)
class Generated:
    """A script, and the name of every command in it, at any depth.

    Attributes:
        text: the script.
        names: the names; each is unique.
    """

    text: str
    names: list[str]


@dataclass(frozen=True, slots=True)
class _HereDocument:
    quoted: bool
    delimiter: str
    tabs: bool


@dataclass
class ScriptGenerator:
    """Makes one random script.

    Args:
        seed: the same seed makes the same script.
        prefix: what command names begin with.

    Example:
        >>> ScriptGenerator(2).script() == ScriptGenerator(2).script()
        True
    """

    seed: int
    prefix: str = "Zq"
    _names: list[str] = field(default_factory=list)
    _pending: list[_HereDocument] = field(default_factory=list)
    _depth: int = 0
    _in_backticks: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def script(self) -> Generated:
        """The script."""
        self._depth = self._random.choice((1, 2, 2, 3))
        text = self._list(4)
        if self._pending:
            text += self._newline()
        return Generated(text, self._names)

    # ---- expanding ----------------------------------------------------------------------------------

    def _expand(self, rule: str) -> str:
        method = getattr(self, f"_{rule}", None)
        if method:
            made: str = method()
            return made
        choices: Sequence[str] = GRAMMAR[rule]
        if self._depth <= 0:
            choices = [choice for choice in choices if not _NESTING.search(choice)] or choices
        return self._fill(self._random.choice(choices))

    def _fill(self, template: str) -> str:
        return _RULE.sub(lambda found: self._expand(found[1]), template)

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    # ---- rules that need more than a template -------------------------------------------------------

    def _new(self) -> str:
        self._names.append(f"{self.prefix}{len(self._names) + 1}")
        return self._names[-1]

    def _backticks(self) -> str:
        outer, self._in_backticks = self._in_backticks, True
        text = self._fill(self._random.choice(GRAMMAR["backticks"]))
        self._in_backticks = outer
        return text

    def _sub(self) -> str:
        """The commands of a substitution; its own here-documents end inside it."""
        outer, self._pending = self._pending, []
        self._depth -= 1
        text = self._list(3)
        if self._pending:
            text += self._newline()
        else:
            text += self._random.choice(("", " ", "\n", " # evil\n", ";"))
        self._depth += 1
        self._pending = outer
        return self._fill("‹padding›") + (" " if text.startswith("(") else "") + text + " "

    def _heredoc(self) -> str:
        """The operator of a here-document, whose body comes with the next newline."""
        if self._in_backticks:
            return "<<<x"
        quoted, tabs = self._chance(0.5), self._chance(0.2)
        delimiter = self._random.choice(("E", "EOF", "E_1"))
        self._pending.append(_HereDocument(quoted, delimiter, tabs))
        word = self._random.choice(("'{}'", '"{}"', "\\{}")).format(delimiter) if quoted else delimiter
        return self._random.choice(("", "", "3")) + "<<" + "-" * tabs + self._random.choice(("", " ")) + word

    def _newline(self) -> str:
        """A newline, and the bodies that begin after it."""
        text = "\n"
        pending, self._pending = self._pending, []
        for document in pending:
            for _ in range(self._random.choice((0, 1, 2, 3))):
                text += self._body_line(document) + "\n"
            text += (self._random.choice(("", "\t")) if document.tabs else "") + document.delimiter + "\n"
        return text

    def _body_line(self, document: _HereDocument) -> str:
        near_misses = (f" {document.delimiter}", f"{document.delimiter} ", f"x{document.delimiter}", "<<E")
        line = self._random.choice(_BODY_LINES + near_misses)
        if document.quoted:
            return line + self._random.choice(("", "", "$(evil)", "`evil`", "\\"))
        line += self._random.choice(("", "", "\\$(evil)", "\\`evil\\`"))
        if self._chance(0.3):
            live = self._random.choice(
                ("$(‹backticks›)", "`‹backticks›`", "${v:-$(‹backticks›)}", "$((1+$(‹backticks›)))")
            )
            line += self._fill(live)
        return line

    # ---- lists --------------------------------------------------------------------------------------

    def _list(self, most: int) -> str:
        text = self._command("")
        for _ in range(self._random.randrange(most)):
            separator = self._separator()
            text += separator + self._command(separator)
        return text

    def _command(self, separator: str) -> str:
        """A command; after `|` bash takes `time` for a program and `!` for an error."""
        if self._depth <= 0 or self._chance(0.55):
            return self._expand("simple")
        self._depth -= 1
        piped = "|" in separator and "||" not in separator
        choices = [choice for choice in GRAMMAR["compound"] if not (piped and choice.startswith(("!", "time")))]
        text = self._fill(self._random.choice(choices))
        self._depth += 1
        return text

    def _separator(self) -> str:
        if self._chance(0.5):
            return self._expand("inline")
        return self._expand("break") + self._newline() + self._expand("filler")

    def _block(self) -> str:
        """A list with its terminator, as compound commands want it."""
        text = self._list(2)
        return text + (self._newline() if self._pending or self._chance(0.4) else "; ")


# ---- mutants --------------------------------------------------------------------------------------

FRAGMENTS = (
    *" \t\n;&|()<>'\"\\$`#*?[]{}~=!0129a-",
    *("\\\n", "&&", "||", "|&", ";;", "<<", "<<-", "<<<", ">&", "&>", "&>>", "2>", "2>&1", ">|", "<>", "<(", "$("),
    *("${x}", "$x", '"$x"', "$'", "''", '""', "if ", "then", "fi", "for ", "in", "do", "done", "case", "esac"),
    *("time ", "! ", "[[ ", " ]]", "function ", "coproc ", "a=1 ", "a+=", "a[0]=", "(( ", "{ ", "} ", " EOF\n"),
    *(
        "<<EOF\n",
        "<<'EOF'\n",
        '<<"EOF"\n',
        "\nEOF\n",
        "{fd}>",
        "&-",
        ">&-",
        "\r",
        "\xa0",
        "\u2028",
        "é",
        "\x0b",
        "\x85",
    ),
    *(
        "~/",
        "+=(",
        "[a",
        "#x",
        " # ",
        "-",
        "\n\n",
        "export ",
        "12<",
        "$",
        '$"',
        "\\\n>",
        "&\\\n",
        "٣",
        "ａ=",
        "\\\r\n",
        "\x85",
    ),
)


def mutant(texts: Sequence[str], chance: random.Random) -> str:
    """One of `texts` with a few fragments put in, cut out, taken from another, or with another put behind it."""
    text = chance.choice(texts)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 5))):
        at, kind = chance.randrange(len(text) + 1), chance.random()
        if kind < 0.6:
            text = text[:at] + chance.choice(FRAGMENTS) + text[at:]
        elif kind < 0.75:
            text = text[:at] + text[at + chance.randrange(1, 4) :]
        elif kind < 0.9:
            other = chance.choice(texts)
            start = chance.randrange(len(other) + 1)
            text = text[:at] + other[start : start + chance.randrange(1, 12)] + text[at:]
        else:
            text += chance.choice((" ; ", " | ", "\n", " && ", " & ")) + chance.choice(texts)
    return text
