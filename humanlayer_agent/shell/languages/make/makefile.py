"""Reads the lines of a Makefile: its variables, its rules, and the files that it includes.

What reading a Makefile gives so far: texts for the shell, and doubts.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from humanlayer_agent.shell.languages.behaviour import Act, Behaviour, Found, Text
from humanlayer_agent.shell.languages.make.lines import Line, assignment, find, lines, uncommented
from humanlayer_agent.shell.languages.make.rules import Rule, Rules
from humanlayer_agent.shell.languages.make.variables import MARKER, Definition, Environment, Texts, Variables

_RECENT = 40
"""A command is noted once among so many."""
_QUOTES = re.compile(r"['\\#]|<<")
"""Where the shell would not expand a variable that stands for what make would have put there."""


@dataclass(slots=True)
class Output:
    """Collects what the lines and recipes of one reading do. `line` is the one that is being read (0: none)."""

    behaviour: Behaviour = field(default_factory=Behaviour)
    line: int = 0
    reasons: list[str] = field(default_factory=list)

    def doubt(self, reason: str) -> None:
        """Something can't be told."""
        self.behaviour.doubt(f"line {self.line}: {reason}" if self.line else reason)

    def variables(self, environment: Environment, given: Mapping[str, str], directory: str | None) -> Variables:
        """The variables of the reading: their functions may do more than give a text."""
        return Variables(environment, self._ran, given, reasons=self.reasons, cwd=directory)

    def run(self, command: str, origin: str, *, bash: bool = False) -> None:
        """A shell runs `command`."""
        command = self.filled(command)
        if not command.strip():
            return
        if bash:
            act = Act("program", (Text.of("bash"), Text.of("-c"), Text.of(command)), origin=origin, line=self.line)
        else:
            act = Act("shell", (Text.of(command),), origin=origin, line=self.line)
        acts = self.behaviour.acts
        if not any(a.kind == act.kind and a.operands == act.operands for a in acts[-_RECENT:]):
            acts.append(act)

    def filled(self, text: str) -> str:
        """`text` for the shell: what only the environment knows is looked up there, what is unknown is a doubt."""
        sure = _QUOTES.search(text) is None

        def fill(match: re.Match[str]) -> str:
            name = match[1]
            if name.startswith("?"):
                self.doubt(self.reasons[int(name[1:])] if name[1:] else "a target without a name")
                return "${_}"
            if not sure:
                self.doubt(f"{name} of the environment, in quotes")
            return "${" + name + "}"

        return MARKER.sub(fill, text)

    def used(self, texts: Texts) -> Texts:
        """`texts` that a line of make's own consists of: an unknown part is a doubt there, whatever it is."""
        for text in texts:
            self.filled(text)
            if any(not match[1].startswith("?") for match in MARKER.finditer(text)):
                self.doubt("a variable of the environment in a line of make's")
        return texts

    def _ran(self, function: str, texts: Texts) -> None:
        if function != "shell":
            self.doubt(f"$({function} ...)")
            return
        for text in texts:
            self.run(text, "$(shell ...)")


MAX_LINES = 20_000
MAX_INCLUDED = 16
_CONDITIONS = frozenset({"ifeq", "ifneq", "ifdef", "ifndef", "else", "endif"})
_SEARCHED = ("/usr/gnu/include", "/usr/local/include", "/usr/include")
"""Where make looks for included files that are not here."""
_ODD = re.compile("[\0\r\v\f\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]")
"""Characters that end a word for some and not for others."""


class Reader:
    """Reads Makefiles, one after the other. The arguments are those of `make.read`."""

    def __init__(
        self, goals: Sequence[str] | None, given: Mapping[str, str], files: Callable[[str], Found] | None,
        environment: Environment, directory: str | None, search: Sequence[str],
    ) -> None:  # fmt: skip
        self.out = Output()
        self.variables = self.out.variables(environment, given, directory)
        self.rules = Rules(self.variables)
        self.files, self.directory = files, directory
        self.search = ("", *search, *_SEARCHED)
        own = {"MAKECMDGOALS": " ".join(goals) if goals is not None else None, "CURDIR": directory, "MAKEFILE_LIST": ""}
        for name, value in own.items():
            if value is not None and name not in given:
                self.variables.defined[name] = [Definition(value, False)]
        self.included: list[str] = []
        self.export_all = False
        self._count = 0
        self._conditions = 0
        self._current: list[Rule] = []

    def contents(self, name: str, texts: Texts) -> None:
        """Read a file, with every content that it may have."""
        line, certain = self.out.line, len(texts) == 1
        self.variables.assign("MAKEFILE_LIST", "+=", name.replace("$", "$$"), certain=True)
        self._conditions += not certain
        for text in texts:
            self._parse(text)
        self._conditions -= not certain
        self.out.line = line

    def _parse(self, text: str) -> None:
        if _ODD.search(text.replace("\r\n", "\n")):
            self.out.doubt("characters that make may read in another way")
        if "\0" in text:
            return
        self._current = []
        depth = self._conditions
        define: tuple[Line, list[str], int] | None = None
        for line in lines(text):
            self._count += 1
            if self._count > MAX_LINES:
                self.out.doubt("too many lines")
                break
            self.out.line = line.number
            if define is not None:
                define = self._defining(line, *define)
            elif line.recipe and self._current:
                for rule in self._current:
                    rule.recipe.append((line.number, line.command))
            else:
                define = self._line(line)
        if define is not None:
            self.out.doubt("a define without an end")
        self._current, self._conditions = [], depth

    def _line(self, line: Line) -> tuple[Line, list[str], int] | None:
        """Read a line that is for make. Returns what is being defined over several lines."""
        text, agreed = uncommented(line.joined)
        text = text.lstrip(" \t")
        if not agreed and "$" in text:
            self.out.doubt("a comment within a reference")
        if not text:
            return None
        found = assignment(text)  # blanks at the end belong to the value
        if found is not None:
            self._current = []
            if "define" in found.words:
                return line, [], 1
            self._assign(found.name, found.op, found.value, found.words)
            return None
        word = re.split(r"[ \t(\"']", text, maxsplit=1)[0]
        rest = text[len(word) :].strip(" \t")
        if word in _CONDITIONS:
            self._condition(word, rest)
        elif word in ("export", "unexport"):
            self._current = []
            self._export(word, rest)
        elif word in ("include", "-include", "sinclude"):
            self._current = []
            self._include(rest, optional=word != "include")
        elif word == "vpath":
            self._current = []
            self.rules.searched = True
        elif word in ("load", "-load"):
            self._current = []
            self.out.doubt("a library that make loads")
        else:
            self._rule(line, text)
        return None

    @property
    def certain(self) -> bool:
        """No condition is open."""
        return self._conditions == 0

    def _condition(self, word: str, rest: str) -> None:
        if word.startswith("if"):
            self._conditions += 1
        elif word == "endif":
            self._conditions = max(self._conditions - 1, 0)
        for rule in self._current:
            rule.split = True
        if word != "endif":
            self.variables.expand(rest)

    def _assign(
        self, name: str, op: str, value: str, words: frozenset[str] = frozenset(), *, targeted: bool = False
    ) -> None:
        for each in self._known(name):
            each = each.strip()
            if not each or "\0" in each:
                self.out.doubt("a variable whose name is not known")
                continue
            if "undefine" in words:
                self.variables.undefine(each, certain=self.certain, override="override" in words)
                continue
            override = "override" in words
            if targeted:
                self.variables.target(each, op or "=", value, override=override)
            else:
                self.variables.assign(each, op or "=", value, certain=self.certain, override=override)
            if "export" in words:
                self.variables.exported.add(each)
            if each == ".RECIPEPREFIX":
                self.out.doubt("another prefix for recipes")
            elif each in ("VPATH", "GPATH"):
                self.rules.searched = True

    def _defining(self, line: Line, first: Line, body: list[str], depth: int) -> tuple[Line, list[str], int] | None:
        text = uncommented(line.joined)[0].strip(" \t") if not line.recipe else ""
        word = re.split(r"[ \t]", text, maxsplit=1)[0]
        if word == "endef":
            depth -= 1
        elif word == "define":
            depth += 1
        if depth:
            return first, [*body, line.joined], depth
        found = assignment(uncommented(first.joined)[0])
        if found is not None:
            self._assign(found.name, found.op, "\n".join(body), found.words - {"define"})
        return None

    def _export(self, word: str, rest: str) -> None:
        if not rest:
            self.export_all |= word == "export"
            return
        for text in self._known(rest):
            for name in text.split():
                if word == "export":
                    self.variables.exported.add(name)
                elif self.certain:
                    self.variables.exported.discard(name)

    def _include(self, rest: str, *, optional: bool) -> None:
        for text in self._known(rest):
            for name in text.split():
                self._file(name, optional=optional)

    def _file(self, name: str, *, optional: bool) -> None:
        self.included.append(name)
        if any(c in name for c in "*?[~\0") or len(self.included) > MAX_INCLUDED:
            self.out.doubt(f"include {MARKER.sub('?', name)}")
            return
        if self.files is None or (self.directory is None and not name.startswith("/")):
            self.variables.open = True
            return
        found = Found()
        for place in self.search if not name.startswith("/") else ("",):
            found = self.files(posixpath.normpath(posixpath.join(self.directory or "/", place, name)))
            if found != Found():
                break
        if found.texts is None or (not found.texts and found.project):
            self.variables.open = True
            if not found.project:
                self.out.doubt(f"include {name}, which nobody can read")
        elif not found.texts:
            if not optional and not self.rules.has(name):
                self.out.doubt(f"include {name}, which is not there")
        else:
            self.contents(name, found.texts)

    # ---- rules ----------------------------------------------------------------------------------------

    def _rule(self, line: Line, text: str) -> None:
        """A rule, a variable of a target, or a line that is nothing once it is expanded."""
        self._current = []
        raw = line.raw.strip(" \t\n")
        end = find(raw, ";#")
        recipe = raw[end + 1 :] if end >= 0 and raw[end] == ";" else None
        head = text if recipe is None else Line(0, raw[:end]).joined
        colon = find(head, ":")
        if colon < 0:
            self._computed(line, head)
            return
        tail = head[colon + 1 :].lstrip(":&")
        found = assignment(tail) if not tail.startswith("=") else None
        if found is not None:
            value = found.value if recipe is None else f"{found.value};{recipe}"
            self._assign(found.name, found.op, value, found.words, targeted=True)
            return
        targets = self._known(head[:colon].rstrip("&: \t"))
        rest = self._known(tail)
        for left in targets:
            for right in rest:
                self._add(line, left, right, recipe, certain=self.certain and len(targets) * len(rest) == 1)
        for each in self._current:
            each.double = head[colon : colon + 2] == "::"

    def _computed(self, line: Line, head: str) -> None:
        for text in self._known(head):
            colon = text.find(":")
            if not text.strip():
                continue
            if colon < 0 or "\n" in text or "=" in text:
                self.out.doubt(f"a line that is not understood: {MARKER.sub('?', text)[:60]}")
            else:
                self._add(line, text[:colon].rstrip("&"), text[colon + 1 :].lstrip(":"), None, certain=False)

    def _add(self, line: Line, left: str, right: str, recipe: str | None, *, certain: bool) -> None:
        if "\n" in left + right or (left + right).count(":") > 1 or set("\\()") & set(left + right):
            self.out.doubt("a rule that is not understood")
        if recipe is None and ";" in right:
            right, _, recipe = right.partition(";")
        static, colon, patterns = right.partition(":")
        needs, _, order = (patterns if colon else right).partition("|")
        rule = Rule(
            tuple(left.split()), tuple(needs.split()), tuple(order.split()), static.strip() if colon else None, certain
        )
        if recipe is not None:
            rule.recipe.append((line.number, recipe.replace("\\\n\t", "\\\n")))
        if not rule.targets:
            rule.targets = ("\0?\0",)  # a name that is nothing: make drops the recipe, we do not
        if ".EXPORT_ALL_VARIABLES" in rule.targets:
            self.export_all = True
        if ".SECONDEXPANSION" in rule.targets:
            self.out.doubt(".SECONDEXPANSION")
        self.rules.add(rule)
        self._current.append(rule)

    def _known(self, text: str) -> Texts:
        """What `text`, on which a line of make's depends, may become."""
        return self.out.used(self.variables.expand(text))
