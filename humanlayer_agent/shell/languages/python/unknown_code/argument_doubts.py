"""The arguments that code gets which is not read here, and what they tell: paths, hosts, options, code, templates.

That a library is loaded is said by its import. A function of it that gets nothing of note does nothing of note; one
that gets a path outside the project, a URL, options or text that is code may do anything with it, so nobody can tell.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from humanlayer_agent.shell.languages.behaviour import Act, Text
from humanlayer_agent.shell.languages.python import names
from humanlayer_agent.shell.languages.python.library import process_environment
from humanlayer_agent.shell.languages.python.objects import Container
from humanlayer_agent.shell.languages.python.syntax.call_arguments import Args
from humanlayer_agent.shell.languages.python.unknown_code import capability_leaks, code_texts
from humanlayer_agent.shell.languages.python.values import DATA, Atom, Below, Const, Place, Prefix, Thing, Value

if TYPE_CHECKING:
    from humanlayer_agent.shell.languages.python.engine import Engine

_COMPARES = frozenset(
    ["startswith", "endswith", "find", "rfind", "index", "rindex", "count", "split", "rsplit", "partition",
     "rpartition", "removeprefix", "removesuffix", "assertEqual", "assertNotEqual", "assertIn", "assertNotIn",
     "add_argument", "add_option", "parse_args", "parse_known_args", "parse_intermixed_args"]
)  # fmt: skip
"""Methods that only compare texts, or cut them."""
_MAIN = frozenset(
    {"main", "cli", "run", "app", "run_main", "console_main", "entry_point", "execute", "start", "launch"}
)
"""Functions that take their words from sys.argv where they are given none."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/\s]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_OPTION = re.compile(r"-[A-Za-z]|--[A-Za-z][\w-]*(?:=|\Z)")
_LOUDNESS = frozenset({"-v", "-vv", "-vvv", "-q", "-qq", "-s", "-x", "-h", "-V"})
"""Options that say how much is printed, wherever they are one."""
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_PLAIN = re.compile(r"(?!id_)[\w ,=-]*")
"""Words that name no path and no host, and are neither code nor a template."""
_ELSEWHERE = "|".join(sorted(names.ROOTS - {"bin", "data", "dev", "lib", "lib32", "lib64", "tmp", "usr"}))
_NAMED = re.compile(
    rf"(?:(?<=[\s\"'=:,(<\[])|\A)(?:file:(?://)?)?/(?:{_ELSEWHERE})/[^\s\"']|(?:[\s\"'=:]|\A-\w+)(?:~|\.\.)/[\w.]"
    rf"|\A-{{1,2}}\w+/(?:{_ELSEWHERE})/"
)
"""A path outside any project within a text."""
_KEPT = re.compile(
    r"(?:[\w.@+-]+/)*(?:\.[A-Za-z][\w.@+-]*|id_(?:rsa|dsa|ecdsa|ed25519)|[\w.@+-]*\.(?:pem|key|p12|pfx|kdbx|pth))"
    r"(?:/[\w.@+-]+)*/?"
)
"""A file of the project that may hold a secret, or that others read when they start."""


def judge(engine: "Engine", args: Args, label: str, whither: str, *, network: bool = False) -> None:
    """Note what a call of code that is not read here, which the source names `label`, may do with its arguments.

    Args:
        whither: the function's dotted name, or what is known of it.
        network: the library is known to contact the hosts of URLs.
    """
    whither = whither or "an unknown function"
    for value in args.every():
        capability_leaks.escape(engine, value, whither, changes=True)
    if label in _COMPARES or args.unseen:
        return
    for value in (*args.positional, *([args.rest] if args.rest is not None else [])):
        of_value(engine, value, label, whither, network=network)
    for name, value in args.named.items():
        of_value(engine, value, label, whither, network=network)
        if DATA in value and works_on_files(name):
            engine.doubt(f"{whither} gets a path that is not known")
    if args.others is not None:
        of_value(engine, args.others - {DATA}, label, whither, network=network)
    if not any(True for _ in args.every()) and label.lower() in _MAIN:
        of_words(engine, process_environment.argv(engine), whither)


def of_words(engine: "Engine", value: Value, whither: str) -> None:
    """Note what code that is not read here may do with the words of a command line, the program's name first."""
    for atom in value:
        if not isinstance(atom, Container):
            of_value(engine, frozenset({atom}), "", whither)
        elif atom.items is None:  # it was changed: the program's name may stand anywhere
            of_value(engine, atom.rest - _own_name(engine), "", whither)
        else:
            engine.look(atom)
            for word in (*atom.items[1:], atom.rest):
                of_value(engine, word, "", whither)


def _own_name(engine: "Engine") -> Value:
    """The name of the script, where no other word of its command line is the same."""
    names = [process_environment.from_text(text) for text in engine.argv or ()]
    return names[0] if names and names.count(names[0]) == 1 else frozenset()


def of_value(engine: "Engine", value: Value, label: str, whither: str, *, network: bool = False) -> None:
    """Note what code that is not read here may do with `value`; `label` names what it is for."""
    runs = _runs_commands(label)
    if not runs and all(map(_tells_nothing, value)):
        return
    filed = works_on_files(label)
    verb = label.lower() in names.HTTP_VERBS
    direct = {a for a in value if isinstance(a, str)}
    for text in _texts(engine, value):
        if _is_plain(text):
            continue
        if network and _URL.match(text):
            engine.act("network", frozenset({text}), whither)
        elif outside(text, files=filed, verb=verb) or _KEPT.fullmatch(text):
            _argument(engine, Text.of(text), whither)
        elif _URL.match(text):
            if text in direct or not verb:
                engine.doubt(f"{whither} gets a URL")
        elif text.startswith("../") or text == "..":
            _argument(engine, Text.of(text), whither)
        elif (found := told_by(text)) is not None:
            engine.doubt(f"{whither} gets {found}")
    _of_atoms(engine, value, whither, filed=filed, verb=verb, runs=runs)


def of_paths(engine: "Engine", value: Value, whither: str) -> None:
    """Note what code that is not read here may do with the paths in `value`, where it looks for them by itself."""
    for text in _texts(engine, value):
        if outside(text, files=False, verb=False) or text.startswith("../"):
            _argument(engine, Text.of(text), whither)


def _of_atoms(engine: "Engine", value: Value, whither: str, *, filed: bool, verb: bool, runs: bool) -> None:
    for atom in value:
        place = atom.payload if isinstance(atom, Thing) else atom
        if isinstance(place, Prefix) and outside(place.text, files=False, verb=verb):
            _argument(engine, Text(prefix=place.text), whither)
        elif isinstance(place, Prefix) and _SCHEME.match(place.text):
            engine.doubt(f"{whither} gets a URL")
        elif isinstance(place, Below) and outside(place.directory, files=False, verb=verb):
            _argument(engine, Text(below=place.directory), whither)
        elif place is DATA and (filed or runs):
            engine.doubt(f"{whither} gets a text that is not known")
        elif isinstance(atom, Container) and _has_options(engine, atom):
            engine.doubt(f"{whither} gets options")
        elif runs and (isinstance(atom, str) or (isinstance(atom, Container) and _texts(engine, frozenset({atom})))):
            engine.doubt(f"{whither} gets a command")


def told_by(text: str) -> str | None:
    """What a text that is no path tells of what is done with it; None where it tells nothing."""
    if _NAMED.search(text):
        return "a text that names a path outside the project"
    if code_texts.is_code(text):
        return "a text that is code"
    return "a text that is a template" if code_texts.is_template(text) else None


def _has_options(engine: "Engine", held: Container) -> bool:
    """Is it a list of words with an option among them?"""
    if held.kind not in ("list", "tuple"):
        return False
    engine.look(held)
    words = (a for value in capability_leaks.attributes_of(held) for a in value)
    return any(isinstance(a, str) and _OPTION.match(a) is not None and a not in _LOUDNESS for a in words)


def _argument(engine: "Engine", text: Text, whither: str) -> None:
    for kind in ("read", "write"):
        engine.note(Act(kind, (text,), "argument", whither, engine.line))


def _texts(engine: "Engine", value: Value) -> list[str]:
    """The known texts in `value`, and in lists and dicts in it."""
    atoms = capability_leaks.reachable(engine, value, 2) if any(isinstance(a, Container) for a in value) else value
    out = set()
    for atom in atoms:
        place = atom.payload if isinstance(atom, Thing) else atom
        if isinstance(place, str):
            out.add(place)
        elif isinstance(place, Place):
            out.add(place.text)
        elif isinstance(place, Const) and isinstance(place.value, bytes):
            out.add(place.value.decode("utf-8", "surrogateescape"))
    return sorted(out) if len(out) > 1 else list(out)


def _tells_nothing(atom: Atom) -> bool:
    """Is it the same to any function, but one that runs commands?"""
    if isinstance(atom, str):
        return _is_plain(atom)
    if isinstance(atom, Const):
        return not isinstance(atom.value, bytes)
    return atom is not DATA and not isinstance(atom, (Container, Thing, Place, Prefix, Below))


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None and "import" not in text


def _words(label: str) -> set[str]:
    return {w.lower() for w in _WORDS.findall(label)} | {label.lower()}


@lru_cache(maxsize=4096)
def _runs_commands(label: str) -> bool:
    """Does the name of a function say that it runs commands?"""
    return label not in names.BUILTINS and bool(_words(label) & names.COMMAND_WORDS)


@lru_cache(maxsize=4096)
def works_on_files(label: str) -> bool:
    """Does the name of a function say that it works on files?"""
    return bool(_words(label) & names.FILE_WORDS) and label.lower() not in names.HTTP_VERBS


def outside(text: str, *, files: bool, verb: bool) -> bool:
    """Is `text` a path that lies outside any project?"""
    if len(text) > 4096 or "\n" in text or "\0" in text:
        return False
    if text.startswith("~"):
        return text == "~" or text.startswith("~/") or (files and "/" in text)
    if text.startswith("/"):
        first = text.lstrip("/").partition("/")[0]
        if first in names.ROOTS:
            return not (verb and not files and first in ("data", "var", "run", "media", "home", "lib", "system"))
        return files and bool(first) and not text.startswith("//")
    return files and (text.startswith("../") or text == "..")
