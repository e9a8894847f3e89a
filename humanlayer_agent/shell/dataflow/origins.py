"""Finds where in the text of an action the values of variables and the inputs of commands are written.

The data flow tells which commands' data can come to which. Here it is followed back, to the words that commands print,
to here-documents and here-strings. As there, too much is found rather than too little: what a program does with its
input is not known, so all of it may be in its output.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from humanlayer_agent.shell.builtins.read import VALUED, filled
from humanlayer_agent.shell.dataflow import Flows
from humanlayer_agent.shell.dataflow.graph import Edge, into, out_of
from humanlayer_agent.shell.expansion.output import REPEATERS
from humanlayer_agent.shell.interpreter.assignments import DECLARERS
from humanlayer_agent.shell.syntax.tree import ArrayLit, Function, Loop, ProcSub, Redirect, Script, Simple, Sub, Word

_LINE = re.compile(r"[^\n]+?(?=\\n|\n|$)")
_BLANKS = r"\s"
_NO_VALUE = re.compile(r"[-%]")
"""Begins a word that is rather an option or a format of what prints it."""


How = Literal["printed", "here-string", "here-document", "file"]


class NotFollowed(Exception):
    """The analysis did not come to the end of the action: nothing is certain about it."""


class Origin(NamedTuple):
    """A word whose text comes to a command, and how it is written there."""

    how: How
    """`file`: not the word itself comes there, but what is in the file that it names."""
    word: Word


class Held(NamedTuple):
    """A text that the variable (or parameter) `name` holds at some time, and where that is written."""

    name: str
    start: int
    end: int
    text: str


class Origins:
    """Follows the values of the action `flows` back to where they stand in its text, `text`.

    What stands in a text inside the text (`bash -c '...'`) has no place in it, and is left out.

    Raises:
        NotFollowed: the analysis did not come to the end of the action; also by each of the methods.
    """

    def __init__(self, flows: Flows, text: str) -> None:
        if flows.graph is None:
            raise NotFollowed
        self.flows = flows
        self._text, self._graph = text, flows.graph
        self._commands, self._trace = flows.program.commands, flows.program.trace
        self._entering: dict[int, list[Edge]] = {}
        self._sources: dict[int, list[int]] = {}
        for node, edges in self._graph.edges.items():
            for edge in edges:
                sources = self._sources.setdefault(id(edge), [])
                if not sources:
                    for target in edge.targets:
                        self._entering.setdefault(target, []).append(edge)
                sources.append(node)
        self._texts: dict[int, list[Origin]] = {}
        self._opened: dict[int, list[Script]] = {}
        self._ran: dict[tuple[int, int], list[tuple[int, int]]] = {}
        self._simple: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for _, what, start, middle, end in self._trace:
            if isinstance(what, Sub | ProcSub):
                self._ran.setdefault((what.script.start, what.script.end), []).append((start, end))
            elif isinstance(what, Simple) and self._is_own(what.start, what.end, middle):
                self._simple.setdefault((what.start, what.end), []).append((middle, end))
                self._redirected(what.redirects, into(middle, end))
                self._printed(what, middle, end)
            elif isinstance(what, list) and self._is_own(what[0].start, what[-1].end, middle):
                self._redirected(what, [2 * middle + 1])  # what comes from its files leaves it

    def _is_own(self, start: int, end: int, number: int) -> bool:
        """Tell whether the command `number` stands at [start, end) of the action itself, read with all around it."""
        if number >= len(self._commands):
            return True
        command = self._commands[number]
        return command.span == (start, end) and "witness" not in command.inside

    def _redirected(self, redirects: Sequence[Redirect], nodes: Iterable[int]) -> None:
        found: list[Origin] = []
        opened: list[Script] = []
        for redirect in redirects:
            if redirect.body is not None:
                found.append(Origin("here-document", redirect.body))
            elif redirect.op == "<<<":
                found.append(Origin("here-string", redirect.target))
            elif redirect.op == "<":
                opened += redirect.target.scripts()
        for node in nodes if found or opened else ():
            self._texts.setdefault(node, []).extend(found)
            self._opened.setdefault(node, []).extend(opened)

    def _printed(self, node: Simple, middle: int, end: int) -> None:
        own = {id(word): word for word in node.words}  # others stand in what it runs
        for number, command in enumerate(self._commands[middle:end], middle):
            if command.program in REPEATERS or command.program == "cat":
                words = dict.fromkeys(id(each.word) for each in command.words[1:])
                how: How = "printed" if command.program in REPEATERS else "file"
                self._texts.setdefault(2 * number + 1, []).extend(Origin(how, own[n]) for n in words if n in own)

    # ---- questions ----------------------------------------------------------------------------------------

    def input_of(self, node: Simple) -> list[Origin]:
        """Return the words that can come to the standard input of `node`."""
        return self._back(chain.from_iterable(into(*place) for place in self._places(node)))

    def output_of(self, node: Simple) -> list[Origin]:
        """Return the words that `node` can print."""
        return self._back(chain.from_iterable(out_of(*place) for place in self._places(node)))

    def substituted(self, word: Word) -> list[Origin]:
        """Return the words that the substitutions in `word` can print."""
        return self._back(chain.from_iterable(map(self._output, word.scripts())))

    def held(self) -> Iterator[Held]:
        """Yield every text that a variable or parameter may hold, and that is written out."""
        functions = {what.name.text for _, what, *_ in self._trace if isinstance(what, Function)}
        seen: set[int] = set()
        for _, what, _, middle, _ in self._trace:
            if id(what) in seen or not isinstance(what, Simple | Loop):
                continue
            seen.add(id(what))
            if isinstance(what, Loop):
                for word in what.words or () if what.name is not None else ():
                    yield from self._value(what.name.text if what.name is not None else "", word)
            elif self._is_own(what.start, what.end, middle):
                yield from self._assigned(what)
                yield from self._set(what, functions)
                yield from self._read(what)

    # ---- the way back -------------------------------------------------------------------------------------

    def _places(self, node: Simple) -> list[tuple[int, int]]:
        found = self._simple.get((node.start, node.end))
        if found is None:
            raise NotFollowed
        return found

    def _output(self, script: Script) -> Iterator[int]:
        """Yield the nodes where the data of a substitution leaves it."""
        if script.body is not None and (script.start, script.end) not in self._ran:
            raise NotFollowed
        for start, end in self._ran.get((script.start, script.end), ()):
            yield from out_of(start, end)

    def _back(self, nodes: Iterable[int]) -> list[Origin]:
        """Return every word whose text can come to one of `nodes`, in the order of the text.

        What a command is given as its words is not in its input, but may be in what it prints.
        """
        waiting = [(node, False) for node in nodes]
        seen: set[tuple[int, bool]] = set()
        used: set[tuple[int, bool]] = set()
        found: dict[int, Origin] = {}
        while waiting:
            node, printed = waiting.pop()
            if (node, printed) in seen:
                continue
            seen.add((node, printed))
            found |= {id(origin.word): origin for origin in self._texts.get(node, ())}
            waiting += [(each, False) for script in self._opened.get(node, ()) for each in self._output(script)]
            if node % 2 and node // 2 not in self._graph.heads:
                waiting.append((node - 1, True))
            for edge in self._entering.get(node, ()):
                if edge.how == "variable" or (edge.how == "substitution" and not printed and node % 2 == 0):
                    continue
                if (id(edge), printed) not in used:
                    used.add((id(edge), printed))
                    waiting += [(source, printed and source % 2 == 0) for source in self._sources[id(edge)]]
        return sorted(found.values(), key=lambda origin: origin.word.start)

    # ---- what variables hold ------------------------------------------------------------------------------

    def _value(self, name: str | None, word: Word, offset: int = 0) -> Iterator[Held]:
        text = (word.text or "")[offset:]
        if not name or not text or word.dynamic:
            return
        place = word.raw.rfind(text)
        start, end = (place, place + len(text)) if place >= 0 else (word.raw.find("=") + 1 if offset else 0, None)
        yield Held(name, word.start + start, word.end if end is None else word.start + end, text)

    def _assigned(self, node: Simple) -> Iterator[Held]:
        for assign in node.assigns:
            yield from self._value(assign.name, assign.value)
            for part in assign.value.parts:
                for word in part.words if isinstance(part, ArrayLit) else ():
                    yield from self._value(assign.name, word)
            for origin in self.substituted(assign.value):  # x=$(echo secret)
                for start, text in self._bare(origin):
                    yield Held(assign.name, start, start + len(text), text)

    def _set(self, node: Simple, functions: set[str | None]) -> Iterator[Held]:
        """Yield what a builtin sets variables to, and what functions are called with."""
        words = node.words
        match words[0].text if words else None:
            case "printf" if len(words) > 3 and words[1].text == "-v":
                for word in words[4:] or words[3:]:
                    yield from self._value(words[2].text, word)
            case "set":
                words = [word for word in words[1:] if word.text != "--"]
                if words and not (words[0].text or "").startswith(("-", "+")):
                    yield from self._parameters(words)
            case str(name) if name in DECLARERS:
                for word in words[1:]:
                    variable, equals, _ = (word.text or "").partition("=")
                    if equals:
                        yield from self._value(variable.removesuffix("+"), word, len(variable) + 1)
            case str(name) if name in functions:
                yield from self._parameters(words[1:])

    def _parameters(self, words: Sequence[Word]) -> Iterator[Held]:
        for number, word in enumerate(words[:9], 1):
            yield from self._value(str(number), word)

    def _read(self, node: Simple) -> Iterator[Held]:
        """Yield what `read` or `mapfile` puts where, of each line of its input."""
        program = node.words[0].text if node.words else None
        if program not in VALUED:
            return
        names = filled(program, [word.text or "" for word in node.words[1:]])
        ifs = next((assign.value.text for assign in node.assigns if assign.name == "IFS"), None)
        split = None if program != "read" else re.escape(ifs) if ifs is not None else _BLANKS
        for origin in self.input_of(node):
            for start, text in self._bare(origin):
                for line in _LINE.finditer(text):
                    yield from _fields(names, line, start, split)

    def _bare(self, origin: Origin) -> Iterator[tuple[int, str]]:
        """Yield the text of `origin` as it is written, without the quotes around it, and where it begins."""
        how, word = origin
        if how in ("printed", "file") and _NO_VALUE.match(word.text or ""):
            return
        raw = self._text[word.start : word.end]
        lead = 2 if raw[:2] == "$'" else 1 if raw[:1] in ("'", '"') else 0
        yield word.start + lead, raw[lead:-1] if lead and raw[-1:] == raw[lead - 1] else raw[lead:]


def _fields(names: Sequence[str], line: re.Match[str], start: int, split: str | None) -> Iterator[Held]:
    """Yield what each of `names` gets of a line: a field, and the last one all that is left."""
    fields = [*re.finditer(f"[^{split}]+", line[0])] if split else [line]
    shift = start + (line.start() if split else 0)
    for place, (name, field) in enumerate(zip(names, fields, strict=False)):
        end = start + line.end() if place == len(names) - 1 else shift + field.end()
        first = shift + field.start()
        yield Held(name, first, end, line[0][first - start - line.start() : end - start - line.start()])
