"""Variables of a Makefile, and what references to them become.

A text that is not known, or a part of it, stands as a marker between two NULs, which no Makefile can hold: `?N` for
something unknown (the N-th reason), a name for a variable of the environment whose value only the user knows.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from humanlayer_agent.shell.languages.make.lines import find, reference_end
from humanlayer_agent.shell.languages.make.text_functions import FUNCTIONS, WORD_COUNTS

MAX_CHOICES = 8
MAX_LENGTH = 32_768
MAX_DEPTH = 40
MAX_STEPS = 20_000
"""Most references that are followed for one Makefile, where its reader may not take fewer."""

Texts = tuple[str, ...]
Environment = Callable[[str], Texts | None]
"""The values of an environment variable: (): it is unset; None: the action itself may have set it, to anything."""

MARKER = re.compile("\0([^\0]*)\0")
_SAFE_OUTPUT = re.compile(r"uname( -[a-z]+)?|nproc|arch|whoami|id -[ugn]+|hostname|date \+%[a-zA-Z]|getconf \w+")
"""Commands whose output holds nothing that a shell would read as more than words."""
_BUILT_IN = {
    "MAKE": "make", "MAKE_COMMAND": "make", "CC": "cc", "CXX": "g++", "CPP": "$(CC) -E", "AR": "ar", "AS": "as",
    "LD": "ld", "FC": "f77", "LEX": "lex", "YACC": "yacc", "RM": "rm -f", "ARFLAGS": "-rv", "MAKELEVEL": "0",
    "SHELL": "/bin/sh", "MAKEFLAGS": "", "MFLAGS": "", ".SHELLFLAGS": "-c", "MAKE_VERSION": "4.3", "SUFFIXES": "",
    "COMPILE.c": "$(CC) $(CFLAGS) $(CPPFLAGS) $(TARGET_ARCH) -c", "LINK.o": "$(CC) $(LDFLAGS) $(TARGET_ARCH)",
    "COMPILE.cc": "$(CXX) $(CXXFLAGS) $(CPPFLAGS) $(TARGET_ARCH) -c", "OUTPUT_OPTION": "-o $@", ".VARIABLES": "",
    "COMPILE.cpp": "$(COMPILE.cc)", "LINK.c": "$(CC) $(CFLAGS) $(CPPFLAGS) $(LDFLAGS) $(TARGET_ARCH)",
    "LINK.cc": "$(CXX) $(CXXFLAGS) $(CPPFLAGS) $(LDFLAGS) $(TARGET_ARCH)", "LINK.cpp": "$(LINK.cc)",
}  # fmt: skip
"""What make defines by itself (GNU make manual 10.3), as far as it may be seen in a recipe."""
_NOTHING: Mapping[str, Texts] = {}
_NOT_FROM_ENVIRONMENT = frozenset({"MAKE", "SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKE_COMMAND", "MAKELEVEL"})


@dataclass(frozen=True, slots=True)
class Definition:
    """One thing a variable may be. `expands`: it is expanded where it is used, not where it was defined."""

    text: str
    expands: bool


@dataclass(slots=True)
class Variables:
    """The variables of one reading.

    Args:
        environment: the values of environment variables.
        ran: called for each function that does more than give a text: its name, and its first argument.
        given: those of the command line, which override the Makefile's.
    """

    environment: Environment
    ran: Callable[[str, Texts], None]
    given: Mapping[str, str] = field(default_factory=dict)
    defined: dict[str, list[Definition | None]] = field(default_factory=dict)
    """What each variable may be; None among it: perhaps it is not defined."""
    targeted: dict[str, list[tuple[str, Definition]]] = field(default_factory=dict)
    """What each variable may be for some targets only, with the operator."""
    overriding: dict[str, bool] = field(default_factory=dict)
    """What is set by `override`, and whether that is certain: plain assignments change nothing then."""
    exported: set[str] = field(default_factory=set)
    reasons: list[str] = field(default_factory=list)
    open: bool = False
    """True where a file was included that nobody could read: what is undefined may be defined there."""
    cwd: str | None = None
    steps: int = 0
    most_steps: int = MAX_STEPS
    _expanded: dict[tuple[int, str], tuple[Mapping[str, Texts], Texts]] = field(default_factory=dict)
    """What variables became in the text that is being expanded, with what was local there."""

    def __post_init__(self) -> None:
        for name, value in self.given.items():
            self.defined[name] = [Definition(value, True)]

    def names(self) -> set[str]:
        """Every variable that the Makefiles or the command line define."""
        return self.defined.keys() | self.targeted.keys()

    def unknown(self, reason: str) -> str:
        """A marker for something that is not known."""
        if reason not in self.reasons:
            self.reasons.append(reason)
        return f"\0?{self.reasons.index(reason)}\0"

    def assign(self, name: str, op: str, value: str, *, certain: bool, override: bool = False) -> None:
        """`name op value`. Where it is not certain that this happens, what the variable was before stays possible."""
        if not override and (name in self.given or self.overriding.get(name)):
            return
        if override:
            self.overriding[name] = certain or self.overriding.get(name, False)
        certain = certain and (override or name not in self.overriding)
        before = self.defined.get(name)
        old: list[Definition | None] = [None] if before is None else before
        new: list[Definition | None]
        if op in (":=", "::=", ":::="):
            new = [Definition(text, False) for text in self.expand(value)]
        elif op == "!=":
            for text in self.expand(value):
                self.ran("shell", (text,))
            new = [Definition(self.unknown(f"{name} is what a command prints"), False)]
        elif op == "?=":
            new = [d if d is not None else self._default(name, value) for d in old]
        elif op == "+=":
            new = [d for each in old for d in self._added(name, each, value)]
        else:
            new = [Definition(value, True)]
        both = list(dict.fromkeys([*new, *(old if not certain else [])]))
        if len(both) > MAX_CHOICES:
            both = [Definition(self.unknown(f"{name} may be many things"), False)]
        self.defined[name] = both

    def target(self, name: str, op: str, value: str, *, override: bool = False) -> None:
        """`target: name op value`: wherever the variable is used, it may have this value."""
        if name in self.given and not override:
            return
        simple = op in (":=", "::=", ":::=")
        found = [Definition(text, False) for text in self.expand(value)] if simple else [Definition(value, op != "!=")]
        if op == "!=":
            self.ran("shell", self.expand(value))
            found = [Definition(self.unknown(f"{name} is what a command prints"), False)]
        self.targeted.setdefault(name, []).extend((op, each) for each in found)

    def undefine(self, name: str, *, certain: bool, override: bool = False) -> None:
        """`undefine name`."""
        if not override and (name in self.given or self.overriding.get(name)):
            return
        certain = certain and (override or name not in self.overriding)
        self.defined[name] = [None] if certain else list(dict.fromkeys([*self.defined.get(name, [None]), None]))

    def _default(self, name: str, value: str) -> Definition:
        """`?=`: what the environment has counts first. What only the user can have set is the user's own."""
        found = self.environment(name) if name not in _NOT_FROM_ENVIRONMENT else ()
        if found is None:
            return Definition(self.unknown(f"{name} of the environment"), False)
        if found and "\0" not in found[0]:
            return Definition(found[0] if len(found) == 1 else self.unknown(f"{name} of the environment"), False)
        return Definition(value, True)

    def _added(self, name: str, before: Definition | None, value: str) -> Iterable[Definition]:
        if before is None:
            texts = self._undefined(name)
            return [Definition(f"{text} {value}".lstrip(), True) for text in texts]
        if before.expands:
            return [Definition(f"{before.text} {value}", True)]
        return [Definition(f"{before.text} {text}", False) for text in self.expand(value)]

    # ---- references -----------------------------------------------------------------------------------

    def expand(self, text: str, local: Mapping[str, Texts] | None = None, depth: int = 0) -> Texts:
        """Every text that `text` may become. `local` are automatic variables and arguments."""
        if "$" not in text:
            return (text,)
        if depth == 0:
            self._expanded.clear()
        if depth > MAX_DEPTH:
            return (self.unknown("a variable that refers to itself"),)
        if len(text) > MAX_LENGTH:
            return (self.unknown("a long value"),)
        pieces: list[Texts] = []
        i = 0
        while i < len(text):
            at = text.find("$", i)
            if at < 0:
                pieces.append((text[i:],))
                break
            pieces.append((text[i:at],))
            i = reference_end(text, at)
            pieces.append(self._reference(text[at:i], local or _NOTHING, depth + 1))
        return self._joined(pieces)

    def _joined(self, pieces: list[Texts]) -> Texts:
        out: Texts = ("",)
        for piece in pieces:
            self.steps += len(out[0]) // 256
            if len(out) * len(piece) > MAX_CHOICES or self.steps > self.most_steps:
                return (self.unknown("many values"),)
            out = tuple(dict.fromkeys(a + b for a in out for b in piece))
            if any(len(o) > MAX_LENGTH for o in out):
                return (self.unknown("a long value"),)
        return out

    def _reference(self, text: str, local: Mapping[str, Texts], depth: int) -> Texts:
        self.steps += 1
        if self.steps > self.most_steps:
            return (self.unknown("too many references"),)
        if text == "$$":
            return ("$",)
        if len(text) < 2:
            return ("",)
        if text[1] not in "({":
            return self._variable(text[1], local, depth)
        inner = text[2:-1]
        name, blank, rest = _head(inner)
        if blank and name in FUNCTIONS:
            return self._function(name, rest, local, depth, text)
        out: list[str] = []
        for each in self.expand(inner, local, depth):
            out += self._named(each, local, depth)
        return self._few(out, text)

    def _few(self, texts: Iterable[str], shown: str) -> Texts:
        found = tuple(dict.fromkeys(texts))
        return found if len(found) <= MAX_CHOICES else (self.unknown(f"{shown} may be many things"),)

    def _named(self, name: str, local: Mapping[str, Texts], depth: int) -> Texts:
        """The variable of a computed name, perhaps with a substitution (`$(X:.c=.o)`)."""
        if "\0" in name:
            return (self.unknown("a variable whose name is not known"),)
        colon = find(name, ":")
        before, equals, after = name[colon + 1 :].partition("=") if colon > 0 else ("", "", "")
        if not equals:
            return self._variable(name, local, depth)
        values = self._variable(name[:colon], local, depth)
        pattern = before if "%" in before else "%" + before
        return tuple(self._called("patsubst", [pattern, after if "%" in before else "%" + after, v]) for v in values)

    def _variable(self, name: str, local: Mapping[str, Texts], depth: int) -> Texts:
        """What `$(name)` becomes. Within one text each is expanded once: else two of them double the work."""
        key = id(local), name
        if key not in self._expanded:
            self._expanded[key] = local, self._value(name, local, depth)
        return self._expanded[key][1]

    def _value(self, name: str, local: Mapping[str, Texts], depth: int) -> Texts:
        if name in local:
            return local[name]
        if len(name) == 2 and name[0] in "@<^+*?%|" and name[1] in "DF" and name[0] in local:
            function = "dir" if name[1] == "D" else "notdir"
            found = [self._called(function, [v]) for v in local[name[0]]]
            return tuple(" ".join(w.rstrip("/") or "/" for w in v.split()) if name[1] == "D" else v for v in found)
        out: list[str] = []
        for each in self.defined.get(name, [None]):
            if each is None:
                out += self._undefined(name, local, depth)
            else:
                out += self.expand(each.text, local, depth) if each.expands else [each.text]
        for op, own in self.targeted.get(name, ())[:MAX_CHOICES]:
            texts = self.expand(own.text, local, depth) if own.expands else (own.text,)
            out += [*_appended(out, texts)] if op == "+=" else texts
            if len(out) > MAX_CHOICES:
                break
        if len(self.targeted.get(name, ())) > MAX_CHOICES:
            out.append(self.unknown(f"{name} may be many things"))
        return self._few(out, name)

    def _undefined(self, name: str, local: Mapping[str, Texts] | None = None, depth: int = 0) -> Texts:
        """What the environment, or make itself, gives for `name`."""
        if self.open:
            return (self.unknown(f"{name}, which a file that nobody read may define"),)
        found = self.environment(name) if name not in _NOT_FROM_ENVIRONMENT else ()
        if found is None:
            return (self.unknown(f"{name} of the environment"),)
        if found and ("\0" not in found[0] or name not in _BUILT_IN):
            return found
        return self.expand(_BUILT_IN[name], local, depth + 1) if name in _BUILT_IN else ("",)

    # ---- functions ------------------------------------------------------------------------------------

    def _function(self, name: str, rest: str, local: Mapping[str, Texts], depth: int, shown: str) -> Texts:
        words = _arguments(rest, WORD_COUNTS.get(name))
        if name == "foreach" and len(words) == 3:
            return self._foreach(words, local, depth, shown)
        if name == "call":
            return self._call(words, local, depth, shown)
        if name == "if":
            return self._if(words, local, depth, shown)
        values = [self.expand(word, local, depth) for word in words]
        if name in ("info", "warning", "error"):
            return ("",)
        if name == "shell":
            return self._shell(values[0], shown)
        if name in ("eval", "guile", "file"):
            self.ran(name, values[0])
            return (self.unknown(shown),)
        if name == "wildcard" and not any(set("*?[~\0\\") & set(v) for v in values[0]):
            return self._few((*values[0], *("" for v in values[0] if v)), shown)
        if name in ("or", "and"):
            return self._few((v for value in values for v in (*value, *(("",) if name == "and" else ()))), shown)
        count = 1
        for value in values:
            count *= len(value)
        if count > MAX_CHOICES:
            return (self.unknown(f"{shown} may be many things"),)
        return self._few((self._called(name, list(each), shown) for each in product(*values)), shown)

    def _called(self, name: str, arguments: list[str], shown: str = "") -> str:
        function = FUNCTIONS.get(name)
        if function is None or any("\0" in a for a in arguments):
            return self.unknown(shown or f"$({name} ...)")
        result = function(arguments, self.cwd)
        return self.unknown(shown or f"$({name} ...)") if result is None else result

    def _shell(self, commands: Texts, shown: str) -> Texts:
        self.ran("shell", commands)
        if all(c.strip() == "pwd" for c in commands) and self.cwd is not None:
            return (self.cwd,)
        if all(_SAFE_OUTPUT.fullmatch(c.strip()) for c in commands):
            return ("\0_\0",)
        return (self.unknown(shown),)

    def _foreach(self, words: list[str], local: Mapping[str, Texts], depth: int, shown: str) -> Texts:
        names, lists = self.expand(words[0], local, depth), self.expand(words[1], local, depth)
        out: list[str] = []
        for listed in lists:
            if "\0" in listed or len(names) != 1 or len(listed.split()) > 64:
                self.expand(words[2], {**local, names[0].strip(): (self.unknown(shown),)}, depth)
                return (self.unknown(shown),)
            parts = [self.expand(words[2], {**local, names[0].strip(): (word,)}, depth) for word in listed.split()]
            out += self._joined([(" ",) if n % 2 else parts[n // 2] for n in range(2 * len(parts) - 1)])
        return self._few(out, shown)

    def _call(self, words: list[str], local: Mapping[str, Texts], depth: int, shown: str) -> Texts:
        self.steps += 1
        values = [self.expand(word, local, depth) for word in words]
        names = [v.strip() for v in values[0]] if values else []
        if len(names) != 1 or names[0] in FUNCTIONS or names[0] not in self.defined:
            return (self.unknown(shown),)
        arguments = {str(n): value for n, value in enumerate(values)}
        missing: dict[str, Texts] = {str(n): ("",) for n in range(len(values), 10)}
        return self._variable(names[0], {**local, **arguments, **missing}, depth)

    def _if(self, words: list[str], local: Mapping[str, Texts], depth: int, shown: str) -> Texts:
        tests = self.expand(words[0].strip(), local, depth)
        out: list[str] = []
        if any("\0" in t or t for t in tests):
            out += self.expand(words[1], local, depth) if len(words) > 1 else ("",)
        if any("\0" in t or not t for t in tests):
            out += self.expand(words[2], local, depth) if len(words) > 2 else ("",)
        return self._few(out, shown)


def _appended(before: Sequence[str], texts: Texts) -> Iterable[str]:
    """`+=` of a target: what is appended to something undefined has no blank in front."""
    return dict.fromkeys(
        joined for b in before for t in texts for joined in ((f"{b} {t}", t) if not b else (f"{b} {t}",))
    )


def _head(inner: str) -> tuple[str, str, str]:
    """The first word of a reference, the blank behind it, and the rest."""
    match = re.match(r"([A-Za-z-]+)([ \t\n]+)", inner)
    return (match[1], match[2], inner[match.end() :]) if match is not None else ("", "", "")


def _arguments(text: str, most: int | None) -> list[str]:
    """The arguments of a function, split at commas outside of brackets; the last of `most` takes the rest."""
    out: list[str] = []
    depth, start, i = 0, 0, 0
    while i < len(text):
        if text[i] == "$":
            i = reference_end(text, i)
            continue
        if text[i] in "({":
            depth += 1
        elif text[i] in ")}":
            depth -= 1
        elif text[i] == "," and depth <= 0 and (most is None or len(out) < most - 1):
            out.append(text[start:i])
            start = i + 1
        i += 1
    return [*out, text[start:]]
