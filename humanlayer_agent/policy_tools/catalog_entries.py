"""Entries of catalog files that do not ship: their examples hold, nothing looks like a mistake, and how one begins.

A draft is made of what a program says of itself when it is asked for help. That text is not believed: all that is taken
from it stands in comments, so that nothing of it counts until a human has written it out.
"""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from humanlayer_agent.policy.layers.catalog_files import CatalogFile
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import Catalog, Effect, analyse, catalog

_HERE = "/work"
_RUNS = re.compile(r"-?-(exec|command|cmd|shell|rsh|pager|editor|hook|pre|post|plugin|script|eval|filter)(-.*|)")
_WRITES = re.compile(r"-?-(out(put|-?file|-?dir)?|log(-?file)?|dest(ination)?|save|write|delete|remove)(-.*|)")
_CHANGING = frozenset({"write", "append", "delete", "move", "execute", "metadata", "network", "system", "package"})


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that a file is said to be: at a line (0: the file as a whole), wrong or only worth a look."""

    path: str
    line: int
    text: str
    wrong: bool = True


def shown(effect: Effect, here: str = _HERE) -> str:
    """Return an effect as examples write it: kind and operand, paths relative to the directory that it starts in."""
    operand = effect.pattern or effect.operand
    if operand is None:
        operand = "?"
    elif operand.startswith("/"):
        operand = posixpath.relpath(operand, here) if (operand + "/").startswith(here + "/") else operand
    return f"{effect.kind} {operand}"


def effects_of(command: str, known: Catalog) -> tuple[list[str], bool]:
    """Return the effects of a command as examples write them, sorted, and whether that is all it does, for certain."""
    program = analyse(command, cwd=_HERE, environ={"HOME": "/home/user"}, catalog=known)
    resolved = program.status == "ok" and all(each.resolved for each in program.commands)
    return sorted({shown(effect) for each in program.commands for effect in each.effects}), resolved


def failures(files: Iterable[CatalogFile], known: Catalog) -> Iterator[Remark]:
    """Yield the examples that do not have exactly the effects that they declare, or are not as certain as they say."""
    for file in files:
        for example, line in zip(file.examples, file.example_lines, strict=True):
            effects, resolved = effects_of(example.command, known)
            if effects != sorted(set(example.effects)):
                declared = ", ".join(sorted(set(example.effects))) or "no effects"
                found = ", ".join(effects) or "no effects"
                yield Remark(file.path, line, f"{example.command!r} has: {found}. Declared: {declared}")
            elif resolved is example.unresolved:
                said = (
                    "is certain, so `unresolved: true` is wrong"
                    if resolved
                    else "can't be known for certain: say `unresolved: true`, or describe what is missing"
                )
                yield Remark(file.path, line, f"{example.command!r} {said}")


def remarks(files: Sequence[CatalogFile], known: Catalog) -> Iterator[Remark]:
    """Yield what is likely to be a mistake, or is not done yet."""
    for file in files:
        ran = [(example, set(effects_of(example.command, known)[0])) for example in file.examples]
        for name, spec in file.programs.items():
            line = file.lines[name]
            if spec.draft:
                yield Remark(file.path, line, f"{name} is a draft: commands that run it ask as before", wrong=False)
                continue
            if not spec.about or spec.about == "?":
                yield Remark(file.path, line, f"{name}: `about` does not say what it is for")
            for spelling, option in _valued(spec):
                if option.kind == "text" and _RUNS.fullmatch(spelling):
                    text = f"{name} {spelling} sounds as if its value is run: is it shell, command, script or code?"
                    yield Remark(file.path, line, text)
                if option.kind == "text" and _WRITES.fullmatch(spelling):
                    text = f"{name} {spelling} sounds as if its value is written or removed: is it write or delete?"
                    yield Remark(file.path, line, text)
            uses = [effects for example, effects in ran if example.command.split(" ")[0] == name]
            if len(uses) == 1 and {each.partition(" ")[0] for each in uses[0]} & _CHANGING:
                text = f"{name} changes, runs or contacts something: a second example shows it in another way"
                yield Remark(file.path, line, text, wrong=False)
    for folder in sorted({os.path.dirname(file.path) for file in files}):
        for name in sorted(os.listdir(folder)):
            if name.endswith((".yml", ".json")):
                yield Remark(os.path.join(folder, name), 0, "is not read: catalog files are called NAME.yaml")


def _valued(spec: catalog.Spec) -> Iterator[tuple[str, catalog.Option]]:
    for sub in spec.subcommands.values():
        yield from _valued(sub)
    yield from ((spelling, option) for spelling, option in spec.long.items() if option.arity)


# ---- drafts -------------------------------------------------------------------------------------------

MOST_OPTIONS = 150
_USAGE_SHOWN = 5
_LENGTH = 100
_FIRST = re.compile(r"\s{0,12}(-[A-Za-z0-9?]|--?[A-Za-z0-9][A-Za-z0-9_-]*)(?=[\s,=\[<|/]|$)")
_SPELLING = re.compile(r"--?[A-Za-z0-9][A-Za-z0-9_-]*")
_VALUE = re.compile(r"(?:\[?=\s?|\s)(?:<[^>]{1,40}>|\[[^\]]{1,40}\]|[A-Z][A-Z0-9_:/.|-]*)")


@dataclass(frozen=True, slots=True)
class HelpOption:
    """An option as a help text lists it: its spellings, whether a value seems to follow, and what is said of it."""

    spellings: tuple[str, ...]
    valued: bool
    said: str

    @property
    def name(self) -> str:
        """Return the name that a catalog would have for it: its longest spelling without the dashes."""
        return max(self.spellings, key=len).lstrip("-").lower()


def options(text: str) -> list[HelpOption]:
    """Return the options that a help text lists, each spelling once.

    Example:
        >>> [(o.name, o.valued) for o in options("  -o, --output FILE  where to\\n  -v         be loud\\n")]
        [('output', True), ('v', False)]
    """
    found: list[HelpOption] = []
    seen: set[str] = set()
    for line in text.splitlines():
        if _FIRST.match(line) is None or len(found) >= MOST_OPTIONS:
            continue
        head = re.split(r"\s{2,}", line.strip(), maxsplit=1)[0]
        spellings = tuple(s for s in dict.fromkeys(_SPELLING.findall(head)) if s not in seen)
        if spellings:
            seen.update(spellings)
            found.append(HelpOption(spellings, _VALUE.search(head) is not None, _comment(line)))
    return found


def draft(program: str, text: str, *, origin: str) -> str:
    """Return a catalog file with a draft of `program`: valid, and to whoever judges as if it were not there.

    Args:
        text: what the program says of itself.
        origin: where that text is from, for the reader.
    """
    return "\n".join(_lines(program, text, origin)) + "\n"


def _lines(program: str, text: str, origin: str) -> Iterator[str]:
    yield f"# {program}, drafted from {_comment(origin)}. Nobody has gone through it yet."
    yield "# What stands behind a # is what the program says of itself: nothing of it counts. Write out what you have"
    yield "# looked up, and leave out what you have not: an option that is missing here asks, a wrong one does not."
    yield '#   1. operands: what each is: read, write, delete, list, text, host, url, command, shell ("read*": many)'
    yield "#   2. options: a flag is a list of its spellings; one with a value says by `value:` what that is. What runs"
    yield "#      a command, takes a file of settings or a plug-in, or writes by itself matters most."
    yield "#   3. effects: what it does besides: {kind: network, operand: its server}, {kind: write, operand: x.log}"
    yield "#   4. examples with all effects that they have; then remove `draft: true`, and run: hla catalog test"
    for line in _usage(text):
        yield f"# {line}"
    yield "programs:"
    yield f"  {program}:"
    yield "    draft: true"
    yield '    about: "?"'
    yield '    # operands: ["?*"]'
    yield "    # effects: []"
    found = options(text)
    if found:
        yield "    # options:"
    for option in found:
        names = ", ".join(option.spellings)
        entry = f"{option.name}: {{names: [{names}], value: ?}}" if option.valued else f"{option.name}: [{names}]"
        yield f"    #   {entry:<56}  # {option.said}"
    yield "examples:"
    yield f'  - {{command: "{program}", effects: ["execute {program}"], unresolved: true}}'


def _usage(text: str) -> list[str]:
    lines = [_comment(line) for line in text.splitlines() if line.strip()]
    return [line for line in lines[:_USAGE_SHOWN] if line]


def _comment(text: str) -> str:
    """A line of a text that nobody believes, so that it can't leave its comment or act on a screen."""
    shown = one_line(" ".join(text.split()))
    return "".join(c if c.isprintable() and c != "\ufeff" else "?" for c in shown)[:_LENGTH]
