"""The objects of node and of the language, and what they do, as data: `node_api.yaml`.

    modules:
      fs fs/promises:                      # several names of one module: acts name the first
        unlink unlinkSync: delete 0        # names, and what they do
        promises: alias fs                 # the same as another
    things:
      "@Server": {extends: "@Emitter", ...}    # instances, by a name of ours
    globals:
      JSON: {(call): ..., parse: ...}      # `(call)`: it itself, called or made with `new`; `(value)`: read
    others: eval ...                       # globals that are there, and in none of the above
    methods:
      map filter: calls                    # members of what nobody knows more of

What something does, in parts with a `;` between them:

    KIND N [ROLE] [recursive]   an effect of that kind on argument N
    plain       neither calls nor keeps what it is given; gives data
    text, texts, number, symbol  the same, and gives that (texts: a list of them)
    value       no function: data
    keeps       what it is given may come back from it, or from anything else
    mixes       the same, and its members may have any name
    calls [N]   calls the functions that it is given (from argument N), and may give what they give
    gives X     gives an instance of X; `self`: what it is a method of
    answers X Y the functions that it is given get instances of X and Y
    class X     a class, whose instances are X, and which others may extend
    alias X     the same as X
    special X   `api_effects.SPECIALS`
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_RESULTS = {"text", "texts", "number", "plain", "value", "symbol"}
EFFECTS = frozenset({"read", "write", "append", "delete", "move", "metadata", "network", "process"})


class TableError(ValueError):
    """`node_api.yaml` does not fit the form above."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one function, or object, does. `calls` is the first argument that may be called; None: it calls none."""

    name: str
    effects: tuple[tuple[str, int, str, bool], ...] = ()
    result: str = "plain"
    keeps: bool = False
    mixes: bool = False
    calls: int | None = None
    gives: str = ""
    base: str = ""
    alias: str = ""
    special: str = ""
    answers: tuple[str, ...] = ()

    @property
    def harmless(self) -> bool:
        """May it be handed around, as it does nothing but compute?"""
        return not self.effects and not self.special and not self.alias


@dataclass(frozen=True, slots=True)
class Tables:
    """All that is known. `members` are by dotted name."""

    members: dict[str, Entry]
    modules: dict[str, str]
    globals: frozenset[str]
    methods: dict[str, Entry]
    parents: dict[str, str]
    others: frozenset[str]

    def member(self, owner: str, name: str) -> Entry | None:
        """What `owner.name` is; None: nobody knows."""
        while owner:
            found = self.members.get(f"{owner}.{name}")
            if found is not None:
                return found
            owner = self.parents.get(owner, "")
        return None

    def has_members(self, name: str) -> bool:
        return any(each.startswith(name + ".") for each in self.members)


@cache
def tables() -> Tables:
    """The tables, read once."""
    import yaml

    raw = yaml.load(  # the C loader where there is one
        Path(__file__).with_name("node_api.yaml").read_text(encoding="utf-8"),
        Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
    )
    members: dict[str, Entry] = {}
    modules: dict[str, str] = {}
    names: set[str] = set()
    parents: dict[str, str] = {}
    for section in ("modules", "things", "globals"):
        for keys, body in raw[section].items():
            first = keys.split()[0]
            for key in keys.split():
                if section == "modules":
                    modules[key.removeprefix("node:")] = first
                if section == "globals":
                    names.add(key)
            for owner in keys.split() if section == "globals" else [first]:
                _members(members, parents, owner, body)
    methods: dict[str, Entry] = {}
    for keys, text in raw["methods"].items():
        for key in keys.split():
            methods[key] = _entry(f".{key}", text)
    others = frozenset(raw["others"].split()) - names - modules.keys()
    return Tables(members, modules, frozenset(names), methods, parents, others)


def _members(members: dict[str, Entry], parents: dict[str, str], owner: str, body: dict[str, Any]) -> None:
    for keys, text in body.items():
        if keys == "extends":
            parents[owner] = text
            continue
        for key in keys.split():
            name = owner if key in ("(call)", "(value)") else f"{owner}.{key}"
            members[name] = _entry(name, text)


def _entry(name: str, text: str) -> Entry:
    known: dict[str, Any] = {}
    effects = []
    for part in text.split(";"):
        word, *rest = part.split()
        if word in EFFECTS:
            at = -1 if rest[0] == "self" else int(rest[0])
            roles = [each for each in rest[1:] if each != "recursive"]
            effects.append((word, at, roles[0] if roles else "code", "recursive" in rest))
        elif word in _RESULTS:
            known["result"] = word
        elif word in ("keeps", "mixes"):
            known[word] = True
            known["keeps"] = True
        elif word == "calls":
            known["calls"] = int(rest[0]) if rest else 0
        elif word in ("gives", "alias", "special"):
            known[word] = rest[0]
        elif word == "answers":
            known["answers"] = tuple(rest)
        elif word == "class":
            known["base"] = known["gives"] = rest[0]
            known["calls"] = 0
        else:
            raise TableError(f"{name}: {part!r} is not understood")
    return Entry(name, tuple(effects), **known)
