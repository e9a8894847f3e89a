"""The form of a catalog file, checked while it is read.

    programs:
      cp:
        options:                                  # canonical name: spellings, or a mapping
          recursive: [-r, -R, --recursive]        # a flag
          target-directory: {names: [-t, --target-directory], value: write}
          suffix: {names: [-S, --suffix], value: text}
          backup: {names: [--backup], value: text, optional: true}    # only --backup=VALUE or -bVALUE
        operands: ["read+", write]                # slots; at most one repeats (* or +)
        variants:                                 # the first whose `when` holds replaces `operands`
          - {when: [target-directory], operands: ["read*"]}
        recursive: [recursive]                    # flags with which operands mean everything below them
        without_operands: {slot: list, value: ., when: [x]}    # what it works on when it is given none
        effects: [{kind: network, when: [x]}]     # beyond options and operands
        needs: [credentials]                                        # beside its operands: see `NEEDS`
        service: AWS                            # what it talks to, for people; sub-commands have it too
        verb: read                              # what it asks of that: see `VERBS`; an option may have one as well
        attributes: {profile: [$AWS_PROFILE]}   # which account, cluster or place: see `Spec.attributes`
        settings: [pyproject.toml, x.toml]      # names of files with settings that it looks for by itself
        argument_files: lines                   # @FILE stands for the words in it: see `ARGUMENT_FILES`
        draft: true                             # not gone through yet: to whoever judges, nobody knows it
        about: copies files                                         # one line for people
    examples:
      - {command: cp a b, effects: [read a, write b], truth: {a: text}}    # see docs/catalog.md

Above `programs` a file may hold `about`, `defaults` (keys and options that every program of the file has) and `shared`
(YAML anchors). Each program stands at an indent of two and uses no anchor of another: programs are loaded one by one.

A slot or an option's `value` is one of `SLOTS`. `permute: false` ends the options at the first operand (wrappers).
`digits: true` admits -5. `abbreviate: true`: long options may be shortened as GNU getopt allows; only where every long
option is listed (else --out could be read as --output-dir). `inherit: true`: sub-commands, and theirs, take this
level's options too. `grammar: NAME` names a reader in `programs.special` for arguments that options and
slots can't describe. `subcommands` hold the same form one level down; those of a large program may stand beside it
under its name and theirs (`git commit`), so that each is read when it is met.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from humanlayer_agent.shell.program import EFFECT_KINDS

NEEDS = {
    "credentials": "logs in, or signs, as the person who runs it: keys, tokens and agents of theirs",
    "daemon": "has a server of the machine do the work, over its socket",
    "machine": "changes the machine outside of any project: installed software, services, settings",
    "namespaces": "makes user namespaces of its own, as browsers do for their sandbox",
}
"""What a program can't do its work without, besides what it is given: no confinement has it."""

VERBS = {
    "read": "has it tell what it holds",
    "change": "changes what it holds",
    "delete": "removes what it holds",
    "secrets": "has it hand out passwords, tokens or keys",
    "execute": "has it run code",
    "local": "asks nothing of it",
}
"""What a command may ask of a service. A word that is not understood makes it one that nobody knows."""

ARGUMENT_FILES = {
    "lines": "each line is a word",
    "words": "words are apart by blanks, and quoted as for a shell",
}
"""How the words stand in a file of arguments."""

SLOTS = {
    "text": "data that the program does not open, run or contact",
    "read": "a file or directory whose content it reads",
    "list": "a file or directory of which it only reads names and attributes",
    "write": "a file it creates or overwrites",
    "append": "a file it extends",
    "delete": "a file or directory it removes",
    "move": "a file or directory it takes away (the source of mv)",
    "metadata": "a file whose mode, owner or times it changes",
    "directory": "the directory the program works in from there on (-C)",
    "project-directory": "a directory of a project: what the program runs starts there, or where it was started",
    "script": "a file whose content it executes",
    "notebook": "a notebook whose cells it runs",
    "settings": "a file with its settings, some of which name code and files: read as what it is told",
    "env-file": "a file of NAME=value, a line each, for what it runs",
    "c-source": "a source of C or assembly that it reads, with all that this includes",
    "document": "a document that it reads, with all that this includes",
    "diagram": "a diagram of PlantUML that it reads, with all that this includes",
    "manual-page": "a page of the manual by its name, or a file with one",
    "shell": "a text it hands to a shell",
    "command": "the words of another command, up to the end",
    "code": "a program text in another language",
    "sed": "a sed script",
    "sql": "statements of SQL, and commands of the program that it is given to",
    "package": "a package it installs or removes",
    "host": "a host it contacts (user@host:path and host:port are understood)",
    "url": "a URL it contacts",
    "remote": "host:path, a URL, or a local path it reads",
    "variable": "a shell variable it sets",
    "process": "a process it signals",
    "environment": "NAME=value for what it runs",
    "upload": "data it sends; @file sends a file's content (curl)",
    "git-setting": "key=value of git's configuration, some of which are commands",
    "git-dir": "a directory that git takes its configuration or hooks from",
    "git-remote": "a repository given by URL, path or name",
    "name-glob": "a pattern for the files that are searched: those that it matches are read by their names",
    "pathspec": "a name of git's, or a path or pattern of files that it reads",
    "staged": "a path of files that git puts into its index; with --force those too that it was told to leave out",
    "name-regex": "a regular expression for the same; only one for the ends of names is understood",
    "revision-or-path": "a name of git's, or a path, which it reads where it can be told from a name",
    "refspec": "what git pushes; + forces it, an empty source deletes",
    "project": "a directory or file whose code it runs as the project's (path::name too)",
    "go-package": "a package of Go to run or build: a file, a directory, a name, or name@version, which is fetched",
    "go-flags": "options of Go's compiler or linker, some of which start programs",
    "js-code": "a module of JavaScript by its name, or a file of code that it loads",
    "delete-glob": "a file or directory it removes, or a pattern of names",
    "conda-environment": "an environment of conda: by its name one that was made before, or a directory",
    "task": "a task of a build tool by its name (special/task_names.py knows those that reach beyond the project)",
    "build-setting": "name=value for a build tool, some of which select code",
    "test-name": "a module, package or test by name, or a path whose code it runs",
    "pytest-setting": "name=value of pytest's settings, some of which are options or paths",
    "write-or-command": "a file it writes, or a command after | or !",
    "checkpoint-action": "an action of tar, which may be a command (exec=)",
    "ssh-option": "a setting of ssh (name=value), which may be a command",
    "at-file": "text, or a file it reads after @",
    "named-file": "a file it reads, perhaps with a name for it and = before",
    "credential": "a key or certificate that it proves itself with, and does not send",
    "cookie": "a cookie (name=value), or a file of cookies it reads",
    "openssl-password": "a password, or where one is (file:PATH, env:NAME)",
    "report": "a form of report, and after : the file or directory it is written to",
    "format": "a format by its name, or a script that reads or writes it",
    "prefix": "the beginning of the names of files it creates",
    "template": "the name of a file it creates, with XXX for random letters",
    "remote-write": "host:path, a URL, or a local path it writes",
    "remote-sync": "host:path, or a local directory in which it writes and deletes",
    "printed": "an environment variable whose value it prints",
    "jq": "a jq filter, which can print the environment",
    "address": "an address it accepts connections on",
    "system": "a setting of the system it changes",
    "service": "a service it starts, stops or changes",
    "container": "a container, image or cluster object it changes",
}


class CatalogError(ValueError):
    """A mistake in a catalog file."""


@dataclass(slots=True, eq=False)
class Option:
    """`arity` is 0, 1, or 2 for a value that can only be attached. `kind` is the slot of the value.

    `does` is an effect of the option itself. `last`: what follows belongs to something else (`python -m x --flag`).
    `verb` is what it asks of the service besides.
    """

    name: str
    arity: int
    kind: str
    does: str | None = None
    last: bool = False
    verb: str = ""


@dataclass(slots=True, eq=False)
class Slot:
    kind: str
    repeat: str = ""


@dataclass(slots=True, eq=False)
class Variant:
    when: frozenset[str]
    operands: list[Slot]


@dataclass(slots=True, eq=False)
class Always:
    """An effect that no option's value or operand stands for."""

    kind: str
    role: str
    operand: str | None
    when: frozenset[str]
    unless: frozenset[str]


@dataclass(slots=True, eq=False)
class Spec:
    """What one program (or sub-command) does with its arguments."""

    name: str
    short: dict[str, Option] = field(default_factory=dict)
    long: dict[str, Option] = field(default_factory=dict)
    operands: list[Slot] = field(default_factory=list)
    variants: list[Variant] = field(default_factory=list)
    recursive: frozenset[str] = frozenset()
    without_operands: tuple[str, str, frozenset[str]] | None = None
    effects: list[Always] = field(default_factory=list)
    subcommands: "dict[str, Spec]" = field(default_factory=dict)
    permute: bool = True
    digits: bool = False
    grammar: str = ""
    reads_stdin: bool = False
    prints: str = ""
    abbreviate: bool = False
    about: str = ""
    needs: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    argument_files: str = ""
    service: str = ""
    verb: str = ""
    verbs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What sub-commands ask of the service, where they are too many to stand one by one: patterns of their words, verb
    by verb; the first that matches counts."""
    names: str = ""
    """The file in `catalog/services` with the names of sub-commands and options."""
    attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Options that say which account, cluster or place is meant; and for each, what else decides it: `$NAME` a variable
    that stands in for it, `--name` an option by its canonical name or `*x*` a pattern of another word, beside which it
    says nothing for certain."""
    draft: bool = False
    shapes: dict[tuple[str | None, ...], Any] = field(default_factory=dict, compare=False)
    """What `arguments` has read before, by the options and their places."""
    dangerous: bool | None = field(default=None, compare=False)
    """What `dangerous_options` says, once it was asked."""

    def dangerous_options(self) -> bool:
        """True where an option that a wildcard could turn up (`*` matching a file named -x) has an effect."""
        if self.dangerous is None:
            options = (*self.short.values(), *self.long.values())
            self.dangerous = any(o.kind not in _READS or bool(o.does) for o in options)
        return self.dangerous


@dataclass(frozen=True, slots=True)
class Example:
    """A command and the effects it has, as "kind operand" lines; `unresolved` where it can't be proven."""

    file: str
    command: str
    effects: tuple[str, ...]
    unresolved: bool
    truth: "Truth | None" = None


@dataclass(frozen=True, slots=True)
class Truth:
    """What a directory must hold for the example to be run there: `files` (path: text; a path that ends in / is a
    directory, "-> x" a symbolic link), and a command to run `before`."""

    files: tuple[tuple[str, str], ...]
    before: str | None


_READS = frozenset({"text", "read", "list", "name-glob", "name-regex"})
"""Slots in which a word does no more than operands may."""
_PROGRAM_KEYS = frozenset(
    str.split("""options operands variants recursive without_operands effects subcommands permute digits grammar
    reads_stdin prints abbreviate inherit about needs settings argument_files service verb verbs names attributes
    draft""")
)
_OPTION_KEYS = frozenset({"names", "value", "optional", "does", "last", "verb"})


_FILE_KEYS = frozenset({"about", "defaults", "shared", "programs", "examples"})
_EXAMPLE_KEYS = frozenset({"command", "effects", "unresolved", "truth", "before"})


def read_programs(content: Any, file: str) -> dict[str, Spec]:
    """The specs in `content` (the value of one YAML file, or of a part of it with one program).

    Raises:
        CatalogError: with the file, the program and the key.
    """
    if not isinstance(content, dict) or content.keys() - _FILE_KEYS:
        raise CatalogError(f"{file}: expected the keys {', '.join(sorted(_FILE_KEYS))}")
    described: dict[str, Any] = content.get("programs") or {}
    defaults: dict[str, Any] = content.get("defaults") or {}
    specs: dict[str, Spec] = {}
    for names, body in described.items():
        for name in split_names(str(names)):
            specs[name] = _spec(name, body, f"{file}: {name}", defaults)
    return specs


def split_names(key: str) -> list[str]:
    """The names in a key: `gzip, gunzip`."""
    return [name.strip() for name in key.split(",")]


def read_examples(content: Any, file: str) -> Iterator[Example]:
    """The examples of one file. Raises CatalogError where a key is unknown."""
    for entry in content.get("examples") or ():
        if not isinstance(entry, dict) or "command" not in entry or entry.keys() - _EXAMPLE_KEYS:
            raise CatalogError(f"{file}: examples: {entry!r}: expected {', '.join(sorted(_EXAMPLE_KEYS))}")
        truth = None
        if "truth" in entry:
            held = {str(path): str(text) for path, text in (entry["truth"] or {}).items()}
            truth = Truth(tuple(held.items()), entry.get("before"))
        effects = tuple(str(e) for e in entry.get("effects", ()))
        yield Example(file, entry["command"], effects, bool(entry.get("unresolved", False)), truth)


def _spec(
    name: str,
    body: Any,
    where: str,
    defaults: dict[str, Any],
    inherited: Spec | None = None,
    service: str = "",
) -> Spec:
    body = {} if body is None else body
    if not isinstance(body, dict):
        raise CatalogError(f"{where}: expected a mapping, found {body!r}")
    if unknown := (body.keys() | defaults.keys()) - _PROGRAM_KEYS:
        raise CatalogError(
            f"{where}: unknown key {', '.join(sorted(unknown))}; known: {', '.join(sorted(_PROGRAM_KEYS))}"
        )
    spec = Spec(name)
    own: dict[str, Any] = body.get("options") or {}
    for canonical, option in own.items():
        _add_option(spec, str(canonical), option, f"{where}: {canonical}")
    passed_on = _joined(inherited, Spec(name, {**spec.short}, {**spec.long})) if body.get("inherit") else inherited
    for canonical, option in (defaults.get("options") or {}).items():
        _add_option(spec, str(canonical), option, f"{where}: {canonical}", inherited=True)
    _joined(inherited, spec)
    body = {**defaults, **body}
    spec.operands = _slots(body.get("operands", ()), where)
    for variant in body.get("variants") or ():
        spec.variants.append(Variant(frozenset(variant["when"]), _slots(variant["operands"], where)))
    spec.recursive = frozenset(body.get("recursive") or ())
    if default := body.get("without_operands"):
        when = frozenset(default.get("when") or ())
        spec.without_operands = (_kind(default["slot"], where), str(default["value"]), when)
    spec.effects = [_always(e, where) for e in body.get("effects") or ()]
    spec.service = str(body.get("service", service))
    for names, sub in (body.get("subcommands") or {}).items():
        for each in split_names(str(names)):
            spec.subcommands[each] = _spec(each, sub, f"{where} {each}", defaults, passed_on, spec.service)
    spec.permute = bool(body.get("permute", True)) and not spec.subcommands
    spec.digits = bool(body.get("digits", False))
    spec.grammar = str(body.get("grammar", ""))
    spec.reads_stdin = bool(body.get("reads_stdin", False))
    spec.prints = str(body.get("prints", ""))
    spec.abbreviate = bool(body.get("abbreviate", False))
    spec.about = str(body.get("about", ""))
    spec.needs = tuple(map(str, body.get("needs") or ()))
    if unknown := set(spec.needs) - NEEDS.keys():
        raise CatalogError(f"{where}: needs: {', '.join(sorted(unknown))}; known: {', '.join(NEEDS)}")
    spec.settings = tuple(map(str, body.get("settings") or ()))
    spec.argument_files = str(body.get("argument_files", ""))
    if spec.argument_files and spec.argument_files not in ARGUMENT_FILES:
        raise CatalogError(f"{where}: argument_files: {spec.argument_files!r}; known: {', '.join(ARGUMENT_FILES)}")
    spec.verb = _verb(body.get("verb", ""), where)
    spec.verbs = {_verb(verb, where): tuple(patterns) for verb, patterns in (body.get("verbs") or {}).items()}
    spec.names = str(body.get("names", ""))
    spec.attributes = {str(option): tuple(map(str, by or ())) for option, by in (body.get("attributes") or {}).items()}
    spec.draft = bool(body.get("draft", False))
    _check_conditions(spec, where)
    return spec


def _joined(inherited: Spec | None, spec: Spec) -> Spec:
    """`spec` with the options of another in addition; tables that would be the same are shared."""
    if inherited is not None:
        spec.short = {**inherited.short, **spec.short} if spec.short else inherited.short
        spec.long = {**inherited.long, **spec.long} if spec.long else inherited.long
    return spec


def _verb(verb: Any, where: str) -> str:
    if verb and verb not in VERBS:
        raise CatalogError(f"{where}: {verb!r} is no verb; known: {', '.join(VERBS)}")
    return str(verb)


def _check_conditions(spec: Spec, where: str) -> None:
    """A `when` that names no option would never hold: a mistake that must not stay unseen."""
    if spec.grammar or spec.subcommands:
        return  # what a reader or a sub-command adds to the flags is not known here
    named = set(spec.recursive)
    for variant in spec.variants:
        named |= variant.when
    for each in spec.effects:
        named |= each.when | each.unless
    if spec.without_operands is not None:
        named |= spec.without_operands[2]
    if not named:
        return
    known = {o.name for o in (*spec.short.values(), *spec.long.values())}
    if wrong := named - known:
        raise CatalogError(f"{where}: no option is called {', '.join(sorted(wrong))}")


def _add_option(spec: Spec, canonical: str, option: Any, where: str, *, inherited: bool = False) -> None:
    """Add one option. An inherited one gives way to spellings of the same name that are already there."""
    if isinstance(option, str):
        option = option.split()
    if isinstance(option, list):
        option = {"names": option}
    if not isinstance(option, dict) or option.keys() - _OPTION_KEYS:
        raise CatalogError(f"{where}: expected a list of spellings or a mapping with {', '.join(sorted(_OPTION_KEYS))}")
    arity = 0 if "value" not in option else 2 if option.get("optional") else 1
    does = option.get("does")
    if does is not None and does not in EFFECT_KINDS:
        raise CatalogError(f"{where}: does: {does!r} is no effect kind")
    made = Option(canonical, arity, _kind(option.get("value", "text"), where), does, bool(option.get("last")))
    made.verb = _verb(option.get("verb", ""), where)
    spellings = option.get("names", ())
    for spelling in spellings.split() if isinstance(spellings, str) else spellings:
        if not isinstance(spelling, str):
            raise CatalogError(f"{where}: spelling {spelling!r} needs quotation marks")
        whole = spelling.startswith(("--", "+")) or len(spelling) > 2
        table, key = (spec.long, spelling) if whole else (spec.short, spelling[1:])
        if inherited and key in table:
            continue
        if not spelling.startswith(("-", "+")) or key in table:
            raise CatalogError(f"{where}: spelling {spelling!r} must begin with - and stand once")
        table[key] = made


def _kind(kind: Any, where: str) -> str:
    if kind not in SLOTS:
        raise CatalogError(f"{where}: {kind!r} is no slot; known: {', '.join(SLOTS)}")
    return str(kind)


def _slots(entries: Any, where: str) -> list[Slot]:
    entries = entries.split() if isinstance(entries, str) else entries
    slots = [Slot(_kind(e.rstrip("*+?"), where), e[len(e.rstrip("*+?")) :]) for e in entries]
    if sum(s.repeat in ("*", "+") for s in slots) > 1:
        raise CatalogError(f"{where}: operands: only one slot may repeat")
    return slots


def _always(entry: Any, where: str) -> Always:
    if isinstance(entry, str):
        entry = {"kind": entry}
    if entry.get("kind") not in EFFECT_KINDS or entry.keys() - {"kind", "role", "operand", "when", "unless"}:
        raise CatalogError(f"{where}: effects: {entry!r}: expected kind (an effect kind), role, operand, when, unless")
    return Always(
        entry["kind"],
        entry.get("role", "itself"),
        entry.get("operand"),
        frozenset(entry.get("when") or ()),
        frozenset(entry.get("unless") or ()),
    )
