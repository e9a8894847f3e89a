"""Catalog files of the machine, the user and the project: programs that the shipped catalog does not know.

A catalog can make any program look harmless. So it only ever adds programs: what ships is described once, by files that
hold under every policy and that the shipped rules were written for, and a name that two files describe is an error, not
a choice. The machine's and the user's files count where nobody else can write them; a project's once a human has
trusted exactly these files (`trust`); and none below a layer that is locked: it would allow what that asks about.
"""

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from humanlayer_agent import __version__
from humanlayer_agent.canonical_json import encodable
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.locations import MACHINE_FOLDER, PROJECT_FOLDER, config_path, is_inside
from humanlayer_agent.policy.command_catalog import CATALOG, StateFolder
from humanlayer_agent.policy.layers import trust
from humanlayer_agent.shell import BUILTINS, RESERVED, Catalog, catalog

if TYPE_CHECKING:
    from humanlayer_agent.policy.language.yaml_positions import Document, Key
    from humanlayer_agent.policy.layers import Layer

FOLDER = "catalog"
"""The folder of catalog files, in that of the settings."""
MOST_FILES = 200
Owner = Literal["machine", "user", "project"]
_RANKS = {"machine": 0, "user": 1, "builtin": 1, "given": 1, "project": 2}
"""How high a layer stands: one that is locked keeps what stands below it from counting."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)
_FORMAT = 2
_KEPT = StateFolder()
_KEYS = ("about", "defaults", "shared", "programs", "examples")
_SAYS = frozenset({"operands", "options", "effects", "subcommands", "without_operands"})
"""The keys by which an entry says what its program does."""


@dataclass(frozen=True, slots=True)
class CatalogFile:
    """One catalog file that does not ship with us: whose it is, the digest of its bytes, and what it describes."""

    path: str
    owner: Owner
    sha256: str
    programs: Mapping[str, catalog.Spec]
    examples: tuple[catalog.Example, ...]
    lines: Mapping[str, int]
    """The line at which each program begins."""
    example_lines: tuple[int, ...]
    """The line of each example."""


@dataclass(frozen=True, slots=True)
class Catalogs:
    """All that is known of programs: the shipped catalog with the `files` in force.

    `ignored` are folders and files that don't count, each with the reason.
    """

    catalog: Catalog = CATALOG
    files: tuple[CatalogFile, ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()
    owners: Mapping[str, CatalogFile] = field(default_factory=dict)
    """The file that describes each program that does not ship."""

    @property
    def digests(self) -> list[list[Any]]:
        """Owner, path and SHA-256 of each file: it joins the digest of what decides."""
        return [[each.owner, encodable(each.path), each.sha256] for each in self.files]


SHIPPED: Catalogs = Catalogs()
"""The shipped catalog alone."""


def folders(project: Path | str | None, *, machine: Path | None = None) -> list[tuple[Owner, str]]:
    """Return where catalog files are looked for, the highest authority first."""
    found: list[tuple[Owner, str]] = [
        ("machine", os.path.join(machine or MACHINE_FOLDER, FOLDER)),
        ("user", config_path(FOLDER)),
    ]
    return [*found, ("project", os.path.join(project, PROJECT_FOLDER, FOLDER))] if project is not None else found


def find_catalogs(
    project: Path | str | None, layers: "Sequence[Layer]" = (), *, machine: Path | None = None, trusting: bool = False
) -> Catalogs:
    """Return the catalogs in force for `project`.

    Args:
        project: the directory the agent works for; None: there is none.
        layers: the policies in force.
        machine: the folder of the machine's settings; the usual one where it is None.
        trusting: take the project's as if a human had trusted them, to see whether they could be used.

    Raises:
        PolicyError: a file has a mistake (`file:line:column`), others than its owner can write it, it is a link, or it
            describes what is described already.
    """
    files: list[CatalogFile] = []
    ignored: list[tuple[str, str]] = []
    for path, raw, why in _bundled(machine):
        if why:
            ignored.append((path, why))
        else:
            files.append(file_of(path, "machine", raw))
    for owner, folder in folders(project, machine=machine):
        if not os.path.lexists(folder):
            continue  # fewer programs are known: that only asks more
        if any(layer.policy.defaults.locked and _RANKS[layer.authority] < _RANKS[owner] for layer in layers):
            ignored.append((folder, "a policy above it is locked: what stands below it may allow nothing more"))
            continue
        if owner != "project":
            if owner == "user" and project is not None and is_inside(Path(folder), Path(project)):
                raise PolicyError(f"{folder}: lies in the project: set XDG_CONFIG_HOME to a folder elsewhere")
            trust.check_folder(folder, machine=owner == "machine")
            files += [file_of(path, owner, raw) for path, raw in _contents(folder, machine=owner == "machine")]
            continue
        assert project is not None
        try:
            found = project_contents(project)
        except PolicyError as error:
            if trusting:
                raise
            ignored.append((folder, str(error)))
            continue
        if not found:
            continue
        if not (trusting or trust.is_trusted(project, digests(found), "-catalog")):
            ignored.append((folder, "nobody has trusted it, as it stands: hla policy trust shows it first"))
            continue
        files += [file_of(path, owner, raw) for path, raw in found]
    if not files:
        return Catalogs(ignored=tuple(ignored))
    return Catalogs(*joined(files), tuple(ignored), _owners(files))


def _bundled(machine: Path | None) -> Iterable[tuple[str, bytes, str]]:
    """The catalogs in the machine's policy bundle, and why they do not count."""
    if not os.path.lexists(os.path.join(machine or MACHINE_FOLDER, "bundle.yaml")):
        return ()
    from humanlayer_agent.policy.layers import machine_bundle

    return machine_bundle.catalogs(machine, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))


def project_contents(project: Path | str) -> list[tuple[str, bytes]]:
    """Return the catalog files of a project, with their bytes.

    Raises:
        PolicyError: one can't be read, or is a link.
    """
    folder = os.path.join(project, PROJECT_FOLDER, FOLDER)
    return _contents(folder) if os.path.lexists(folder) else []


def digests(contents: Sequence[tuple[str, bytes]]) -> list[trust.File]:
    """Return the path and the SHA-256 of each file, as trust is given to it."""
    return [(path, sha256(raw).hexdigest()) for path, raw in contents]


def joined(files: Sequence[CatalogFile]) -> tuple[Catalog, tuple[CatalogFile, ...]]:
    """Return the shipped catalog with these files, and the files.

    Raises:
        PolicyError: two describe the same program, or one describes what ships.
    """
    found: dict[str, CatalogFile] = {}
    shipped = {*CATALOG.names()}
    for each in files:
        for name in each.programs:
            if name.partition(" ")[0] in shipped:
                raise PolicyError(
                    f"{each.path}:{each.lines[name]}: {name} is described by the catalog that ships, and by no "
                    "other: remove it here (hla catalog show says what is known; a policy says what is allowed)"
                )
            if (other := found.get(name)) is not None:
                raise PolicyError(
                    f"{each.path}:{each.lines[name]}: {name} is described by {other.path}:{other.lines[name]} already: "
                    "remove one of them"
                )
            found[name] = each
    programs = {name: spec for each in files for name, spec in each.programs.items()}
    return CATALOG.extended(programs), tuple(files)


def _owners(files: Sequence[CatalogFile]) -> dict[str, CatalogFile]:
    return {name: each for each in files for name in each.programs}


# ---- the files ------------------------------------------------------------------------------------------


def _contents(folder: str, *, machine: bool | None = None) -> list[tuple[str, bytes]]:
    """The files of a folder, in the order of their names. `machine` None: whoever wrote them, a human trusts them."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".yaml") and name[:1] != ".")
    except OSError as error:
        raise PolicyError(f"{folder}: can't be read: {error.strerror}") from error
    if len(names) > MOST_FILES:
        raise PolicyError(f"{folder}: more than {MOST_FILES} files")
    return [(path, trust.read_owned(path, machine=machine)) for path in (os.path.join(folder, name) for name in names)]


# ---- what they say ------------------------------------------------------------------------------------


def file_of(path: str, owner: Owner, raw: bytes) -> CatalogFile:
    """Return what a catalog file says. What was found to be right is kept: checking takes longer than judging.

    Raises:
        PolicyError: with file:line:column, what is wrong and what was expected.
    """
    digest = sha256(raw).hexdigest()
    key = sha256(f"{_FORMAT} {__version__} {path}\0{digest}".encode("utf-8", "surrogateescape")).hexdigest()
    kept = _KEPT.load(key)
    if isinstance(kept, dict):
        content, lines, shown = kept["content"], kept["lines"], kept["shown"]
    else:
        content, lines, shown = _checked(path, raw)
        _KEPT.store(key, {"content": content, "lines": lines, "shown": shown})
    programs = catalog.read_programs({k: v for k, v in content.items() if k != "examples"}, path)
    return CatalogFile(path, owner, digest, programs, tuple(catalog.read_examples(content, path)), lines, tuple(shown))


def _checked(path: str, raw: bytes) -> tuple[dict[str, Any], dict[str, int], list[int]]:
    """The content of a file that has no mistake, and the line of each program and each example."""
    from humanlayer_agent.policy.language import yaml_positions

    document = yaml_positions.decode(raw, path)
    content = document.data
    if not isinstance(content, dict) or not isinstance(content.get("programs"), dict):
        raise document.error((), "expected `programs:`, with the name of each program below it (docs/own-tools.md)")
    if wrong := content.keys() - _KEYS:
        raise document.error((min(wrong), "\0key"), f"unknown key {min(wrong)}; known: {', '.join(_KEYS)}")
    programs: dict[str, catalog.Spec] = {}
    lines: dict[str, int] = {}
    named = {name for key in content["programs"] for name in catalog.split_names(key)}
    for key, body in content["programs"].items():
        at = ("programs", key)
        for name in catalog.split_names(key):
            if name in programs:
                raise document.error((*at, "\0key"), f"{name} is described twice in this file")
            if problem := name_problem(name, named):
                raise document.error((*at, "\0key"), problem)
            programs[name] = _spec(document, at, name, body, content)
            lines[name] = document.positions[(*at, "\0key")].line
    examples = _examples(document, path)
    _check_examples(document, programs, examples)
    _check_form(document)
    return content, lines, [document.positions["examples", number].line for number in range(len(examples))]


def _check_form(document: "Document") -> None:
    """Raise for what reading takes without a word: a text where a list is meant, `yes please` for true."""
    from pydantic import ValidationError

    from humanlayer_agent.policy.language.yaml_positions import explained
    from humanlayer_agent.policy.layers.catalog_schema import CatalogForm

    try:
        CatalogForm.model_validate(document.data)
    except ValidationError as error:
        raise explained(document, error, CatalogForm) from None


def name_problem(name: str, beside: Collection[str] = ()) -> str:
    """Return why no file but ours may describe `name`; "" where one may.

    Args:
        beside: the programs that the same file describes: sub-commands of them may stand there too.

    Example:
        >>> name_problem("frob"), name_problem("./frob")
        ('', 'a program goes by its name here; a path is read as the file that lies there')
    """
    first, _, rest = name.partition(" ")
    if "/" in name:
        return "a program goes by its name here; a path is read as the file that lies there"
    if not all(_NAME.fullmatch(word) for word in name.split(" ")):
        return f"{name!r} is not the name of a program"
    if rest and first not in beside:
        return f"a sub-command stands in the file that describes its program, and {first} is not described there"
    if first in BUILTINS or first in RESERVED:
        return f"{first} is bash's own: no program is looked for by that name"
    if catalog.is_interpreter(first):
        return f"{first} runs, fetches or sends what it is given: only the catalog that ships describes it"
    return ""


def _spec(
    document: "Document", at: "tuple[Key, ...]", name: str, body: Any, content: Mapping[str, Any]
) -> catalog.Spec:
    """The entry of one program: what is wrong in it is said at the line of the option, or of the program."""
    if isinstance(body, dict) or body is None:
        body = body or {}
        if "grammar" in body:
            raise document.error(
                (*at, "grammar"), "`grammar` names code of ours: describe options and operands instead"
            )
        if not body.get("draft") and not _SAYS & body.keys():
            raise document.error(at, f"nothing says what {name} does: write its operands, options, effects ([]: none)")
        if isinstance(options := body.get("options"), dict):
            for option, value in options.items():
                _read_programs(document, (*at, "options", option), {name: {"options": {option: value}}}, {})
    head = {key: value for key, value in content.items() if key not in ("programs", "examples")}
    return _read_programs(document, at, {name: body}, head)[name]


def _read_programs(
    document: "Document", at: "tuple[Key, ...]", programs: Mapping[str, Any], head: Mapping[str, Any]
) -> dict[str, catalog.Spec]:
    try:
        return catalog.read_programs({**head, "programs": programs}, "")
    except catalog.CatalogError as error:
        raise document.error(at, str(error).removeprefix(": ")) from None
    except (LookupError, TypeError, AttributeError, ValueError):
        raise document.error(at, "this is not in the form of an entry: see docs/own-tools.md") from None


def _examples(document: "Document", path: str) -> list[catalog.Example]:
    listed = document.data.get("examples") or []
    if not isinstance(listed, list):
        raise document.error(("examples",), "expected a list of examples")
    found: list[catalog.Example] = []
    for number, each in enumerate(listed):
        try:
            found += catalog.read_examples({"examples": [each]}, path)
        except (catalog.CatalogError, TypeError, AttributeError):
            at = ("examples", number)
            raise document.error(at, "expected {command: ..., effects: [...]}, and perhaps unresolved: true") from None
        if not isinstance(found[-1].command, str):
            raise document.error(("examples", number), "command: expected a text")
    return found


def _check_examples(
    document: "Document", programs: Mapping[str, catalog.Spec], examples: Sequence[catalog.Example]
) -> None:
    """Whoever says what a program does shows it: `hla catalog test` holds the entry against that."""
    shown = {each.command.split(" ")[0] for each in examples}
    for key in document.data["programs"]:
        names = catalog.split_names(key)
        if not any(programs[name].draft or name.partition(" ")[0] in shown for name in names):
            at = ("programs", key, "\0key")
            raise document.error(at, f"no example of {names[0]}: add one below `examples:`, with its effects")
