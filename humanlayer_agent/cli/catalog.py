"""`hla catalog`: what the command catalog knows of a program, for people."""

import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from humanlayer_agent.cli.shared.completion import catalog_files, program_names
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.human_terminal import human_only
from humanlayer_agent.cli.shared.options import FormatOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import (
    CatalogOperandRecord,
    CatalogProgramRecord,
    CatalogRecord,
    CatalogRemarkRecord,
)
from humanlayer_agent.configuration import catalogs_in_force, find_project
from humanlayer_agent.errors import ConfigError, HumanlayerError, did_you_mean
from humanlayer_agent.locations import MACHINE_FOLDER, PROJECT_FOLDER, config_path, is_inside
from humanlayer_agent.policy.explanation.unknown_programs import teaching
from humanlayer_agent.policy.language import sources
from humanlayer_agent.policy.layers.catalog_files import FOLDER, CatalogFile, Catalogs, file_of, joined, name_problem
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import Catalog, catalog

if TYPE_CHECKING:
    from humanlayer_agent.confine.bubblewrap import Enclosure
    from humanlayer_agent.policy_tools.catalog_entries import Remark

app = Commands(
    help="""See what the command catalog knows of a program, and add programs of your own.

    Examples: hla catalog show git commit;  hla catalog new frob"""
)

_WIDTH = 34
Place = Literal["user", "machine", "project"]
_SECONDS = 10.0
_MOST_TEXT = 256 * 1024
_MODES = {"user": (0o700, 0o600), "machine": (0o755, 0o644), "project": (0o755, 0o644)}


@app.command("list")
@prints(CatalogProgramRecord, many=True)
def list_(
    family: Annotated[
        str | None,
        typer.Argument(
            metavar="FAMILY",
            help="Only the programs of this file, such as git or network.",
            autocompletion=catalog_files,
        ),
    ] = None,
    output: FormatOption = "table",
) -> None:
    """List the programs that the catalog describes, by file.

    Example: hla catalog list archive
    """
    groups: dict[str, list[str]] = {}
    known = catalogs_in_force()
    for name in known.catalog.names():
        owner = known.owners.get(name)
        groups.setdefault(owner.path if owner else known.catalog.family(name) or "", []).append(name)
    if family is not None and family not in groups:
        raise ConfigError(f"the catalog has no file {one_line(family)}; {did_you_mean(family, groups)}")
    chosen = sorted(groups) if family is None else [family]
    if output != "table":
        programs: Iterator[CatalogProgramRecord] = (
            {"program": name, "family": group} for group in chosen for name in groups[group]
        )
        print_records(programs, output)
        return
    for group in chosen:
        print(f"{group} ({len(groups[group])})")
        print(_wrapped(groups[group]))
    if family is None:
        print(f"{sum(map(len, groups.values()))} programs. hla catalog show PROGRAM")
        for path, why in known.ignored:
            print(f"not in force: {one_line(path)}: {one_line(why)}")


@app.command()
@prints(CatalogRecord)
def show(
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="The name of a program.", autocompletion=program_names)
    ],
    subcommand: Annotated[
        list[str] | None, typer.Argument(metavar="SUBCOMMAND", help="Its sub-command, such as commit.")
    ] = None,
    output: FormatOption = "table",
) -> None:
    """Print the options, operands and effects of a program or sub-command.

    What is not listed here makes a command unresolved: a policy then asks.

    Examples: hla catalog show rm;  hla catalog show git commit
    """
    names = [program, *(subcommand or [])]
    found = catalogs_in_force()
    known, owner = found.catalog, found.owners.get(program)
    spec = known.lookup(program)
    for depth, name in enumerate(names[1:], 1):
        if spec is not None:
            spec = spec.subcommands.get(name) or known.lookup(" ".join(names[: depth + 1]))
    if spec is None:
        name, near = one_line(" ".join(names)), did_you_mean(program, known.names(), "")
        typer.echo(
            f"{name}: the catalog does not know it{f' ({near})' if near else ''}. A command that runs it is "
            f"unresolved: a policy asks.{'' if near or subcommand else _taught(program)}",
            err=output != "table",
        )
        raise typer.Exit(1)
    examples = [e for e in (owner.examples if owner else known.examples()) if _is_of(e, " ".join(names))]
    subcommands = _subcommands(spec, " ".join(names), known)
    if output != "table":
        print_record(_record(spec, program, subcommand or [], subcommands, examples), output)
        return
    for line in description(spec, " ".join(names), subcommands):
        print(line)
    if owner is not None:
        print(f"described in {one_line(owner.path)}, line {owner.lines[program]}")
    _print_examples(examples)


@app.command()
def new(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="The name of a program that nobody describes yet.")],
    place: Annotated[
        Place,
        typer.Option(
            "--for", help="Whose it is: yours, everybody's on this machine, or the project's.", show_default=False
        ),
    ] = "user",
    help_text: Annotated[
        Path | None,
        typer.Option(
            "--help-text", metavar="FILE", help="Don't run it: this is what it prints for --help (-: read it)."
        ),
    ] = None,
    shows: Annotated[bool, typer.Option("--print", help="Print the draft, and write nothing.")] = False,
) -> None:
    """Draft a catalog file for a program, from what it prints for --help. It counts once you have gone through it.

    Runs PROGRAM --help: confined where this machine can, without input, for ten seconds at most.

    Examples: hla catalog new frob;  frob help | hla catalog new frob --help-text - --print
    """
    _draft(program, place, text=help_text, shows=shows)


FilesArgument = Annotated[
    list[Path] | None,
    typer.Argument(metavar="FILE", help="Catalog files; else those of the machine, yours, and the project's."),
]


@app.command("test")
@prints(CatalogRemarkRecord, many=True)
def run_examples(files: FilesArgument = None, output: FormatOption = "table") -> None:
    """Run the examples in catalog files: each has exactly the effects it declares. Exit code 1: one has not.

    Example: hla catalog test ~/.config/humanlayer-agent/catalog/frob.yaml
    """
    from humanlayer_agent.cli.policy.replay import counted
    from humanlayer_agent.policy_tools.catalog_entries import failures

    chosen, known = _chosen(files)
    wrong = [*failures(chosen, known.catalog)]
    total = sum(len(each.examples) for each in chosen)
    _print_remarks(wrong, output, f"{total - len(wrong)} of {total} examples hold, in {counted(len(chosen), 'file')}")
    raise typer.Exit(1 if wrong else 0)


@app.command()
@prints(CatalogRemarkRecord, many=True)
def lint(files: FilesArgument = None, output: FormatOption = "table") -> None:
    """Look for likely mistakes in catalog files, and for what is not in force. Exit code 1: something is wrong.

    Example: hla catalog lint
    """
    from humanlayer_agent.cli.policy.replay import counted
    from humanlayer_agent.policy_tools.catalog_entries import Remark, remarks

    chosen, known = _chosen(files)
    found = [*remarks(chosen, known.catalog)]
    found += [Remark(path, 0, f"not in force: {why}", wrong=False) for path, why in known.ignored]
    wrong = sum(each.wrong for each in found)
    _print_remarks(found, output, f"{counted(wrong, 'mistake')} in {counted(len(chosen), 'file')}")
    raise typer.Exit(1 if any(each.wrong for each in found) else 0)


def _chosen(paths: list[Path] | None) -> tuple[list[CatalogFile], Catalogs]:
    """The files to look at, and all that is known with them."""
    found = catalogs_in_force(trusting=True)
    if not paths:
        return list(found.files), replace(found, ignored=catalogs_in_force().ignored)
    chosen = [file_of(os.path.abspath(path), "user", sources.read(path)) for path in paths]
    named = {each.path for each in chosen}
    others = [each for each in found.files if each.path not in named]
    return chosen, replace(found, catalog=joined([*others, *chosen])[0])


def _print_remarks(found: "Iterable[Remark]", output: str, summary: str) -> None:
    if output != "table":
        records: Iterator[CatalogRemarkRecord] = (
            {"path": each.path, "line": each.line or None, "text": each.text, "wrong": each.wrong} for each in found
        )
        print_records(records, output)
        return
    for each in found:
        place = f"{each.path}:{each.line}" if each.line else each.path
        print(f"{one_line(place)}: {one_line(each.text)}")
    print(summary)


def _taught(program: str) -> str:
    return "" if name_problem(program) else f" To have it known: {teaching([program])}."


def description(spec: catalog.Spec, title: str, subcommands: Sequence[str] = ()) -> Iterator[str]:
    """The lines that describe `spec` to people."""
    yield one_line(f"{title}: {spec.about}" if spec.about else title)
    if spec.service or spec.verb:
        verb = f" ({spec.verb}: {catalog.VERBS[spec.verb]})" if spec.verb else ""
        yield f"  service: {spec.service or 'a daemon of this machine'}{verb}"
    if spec.attributes:
        yield f"  attributes: {', '.join(spec.attributes)}"
    if spec.draft:
        yield "  a draft: commands that run it ask, as if nothing stood here"
    if spec.grammar:
        yield f"  read by a grammar of its own ({spec.grammar}); what stands here is only a part"
    if spellings := _spellings(spec):
        yield "options"
        for option, keys in spellings:
            yield _option(option, keys)
    if spec.operands or spec.variants:
        yield "operands"
        yield from (f"  {_slot(s)}" for s in spec.operands)
    for variant in spec.variants:
        yield f"  with {' or '.join(sorted(variant.when))}:"
        yield from (f"    {_slot(s)}" for s in variant.operands)
    if spec.recursive:
        yield f"  with {' or '.join(sorted(spec.recursive))}: and everything below them"
    if spec.without_operands is not None:
        kind, value, when = spec.without_operands
        yield f"  without operands{_when(when, frozenset())}: {kind} {value}"
    if spec.effects:
        yield "effects"
        yield from (f"  {_always(e)}" for e in spec.effects)
    if subcommands:
        yield "sub-commands"
        yield _wrapped(subcommands)


def _record(
    spec: catalog.Spec, program: str, subcommand: list[str], names: list[str], examples: list[catalog.Example]
) -> CatalogRecord:
    title = " ".join([program, *subcommand])
    operands: list[CatalogOperandRecord] = [
        {"kind": slot.kind, "repeat": slot.repeat, "with_options": []} for slot in spec.operands
    ]
    operands += [
        {"kind": slot.kind, "repeat": slot.repeat, "with_options": sorted(variant.when)}
        for variant in spec.variants
        for slot in variant.operands
    ]
    arities: tuple[Literal["none", "required", "attached"], ...] = ("none", "required", "attached")
    return {
        "program": title,
        "about": spec.about,
        "grammar": spec.grammar or None,
        "options": [
            {
                "option": option.name,
                "spellings": keys,
                "value": arities[option.arity],
                "kind": option.kind if option.arity else None,
                "does": option.does,
            }
            for option, keys in _spellings(spec)
        ],
        "operands": operands,
        "effects": [
            {
                "kind": effect.kind,
                "operand": effect.operand,
                "with_options": sorted(effect.when),
                "without_options": sorted(effect.unless),
            }
            for effect in spec.effects
        ],
        "recursive": sorted(spec.recursive),
        "subcommands": names,
        "service": spec.service or None,
        "verb": spec.verb or None,
        "attributes": list(spec.attributes),
        "examples": [
            {"command": each.command, "effects": list(each.effects), "resolved": not each.unresolved}
            for each in examples
        ],
    }


def _spellings(spec: catalog.Spec) -> list[tuple[catalog.Option, list[str]]]:
    """Each option with the ways to write it."""
    found: dict[int, tuple[catalog.Option, list[str]]] = {}
    for key, option in (*((f"-{k}", o) for k, o in spec.short.items()), *spec.long.items()):
        found.setdefault(id(option), (option, []))[1].append(key)
    return list(found.values())


def _subcommands(spec: catalog.Spec, title: str, known: Catalog) -> list[str]:
    return sorted({*spec.subcommands, *(known.subcommands(title) if " " not in title else ())})


def _option(option: catalog.Option, keys: list[str]) -> str:
    value = {0: "", 1: " VALUE", 2: "[=VALUE]"}[option.arity]
    left = f"  {', '.join(keys)}{value}"
    does = [f"value: {option.kind}"] if option.arity and option.kind != "text" else []
    does += [f"does: {option.does}"] if option.does else []
    does += [f"asks: {option.verb}"] if option.verb else []
    right = "; ".join([option.name, *does])
    gap = "\n" + " " * _WIDTH if len(left) >= _WIDTH else " " * (_WIDTH - len(left))
    return f"{left}{gap}{right}"


def _slot(slot: catalog.Slot) -> str:
    times = {"*": "each of any number", "+": "each of one or more", "?": "if given"}.get(slot.repeat, "one")
    return f"{slot.kind} ({times}): {catalog.SLOTS[slot.kind]}"


def _always(effect: catalog.Always) -> str:
    operand = "the working directory" if effect.operand == "." else effect.operand or ""
    return f"{effect.kind} {operand}".rstrip() + _when(effect.when, effect.unless)


def _when(when: frozenset[str], unless: frozenset[str]) -> str:
    wanted = f" with {' or '.join(sorted(when))}" if when else ""
    return wanted + (f" unless {' or '.join(sorted(unless))}" if unless else "")


def _wrapped(names: Sequence[str]) -> str:
    from shutil import get_terminal_size
    from textwrap import fill

    return fill(
        ", ".join(names),
        width=min(96, get_terminal_size().columns),
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def _is_of(example: catalog.Example, start: str) -> bool:
    return example.command == start or example.command.startswith(start + " ")


def _print_examples(found: list[catalog.Example]) -> None:
    if found:
        print("examples")
    for example in found:
        mark = " (not resolved)" if example.unresolved else ""
        print(f"  {example.command}\n      {', '.join(example.effects) or 'no effects'}{mark}")


# ---- drafts -------------------------------------------------------------------------------------------


def _draft(program: str, place: Place, *, text: Path | None, shows: bool) -> None:
    """Write the draft of `program` where it is looked for, or print it.

    Args:
        text: a file with what the program says of itself ("-": standard input); None: it is run with --help.
        shows: print it instead.

    Raises:
        ConfigError: an agent's command has started us; the program can't be described here, or is described already;
            it can't be found or run; there is a file already.
    """
    from humanlayer_agent.policy_tools.catalog_entries import draft

    human_only("catalog new", "has a program described")
    if problem := name_problem(program):
        raise ConfigError(problem)
    found = catalogs_in_force()
    if (spec := found.catalog.lookup(program)) is not None:
        owner = found.owners.get(program)
        where = f"{owner.path}:{owner.lines[program]}" if owner is not None else "the catalog that ships"
        state = ", as a draft" if spec.draft else ""
        raise ConfigError(f"{program} is described already, in {where}{state}: hla catalog show {program}")
    if text is None:
        path = _found(program)
        said, origin = _help_of(path), f"`{program} --help` ({path})"
    else:
        said, origin = _read(text), str(text)
    content = draft(program, said, origin=origin)
    if shows:
        print(content, end="")
        return
    target = _written(program, place, content)
    print(f"{target}: a draft. Commands that run {program} ask as before until you have gone through it.")
    if place == "project":
        print("Fill it in, remove `draft: true`, run hla catalog test, and have it trusted: hla policy trust")
    else:
        print("Fill it in, remove `draft: true`, and run: hla catalog test")


def _found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise ConfigError(f"{program} is not in PATH; --help-text FILE drafts it from a text that you have saved")
    project = _project()
    if project is not None and is_inside(Path(path).parent, project):
        raise ConfigError(
            f"{path} lies in the project: it is read as the file that it is, and no catalog describes it by its name"
        )
    return os.path.abspath(path)


def _project() -> Path | None:
    try:
        return find_project()
    except ConfigError:
        return None


def _help_of(path: str) -> str:
    """Return what a program prints for `--help`: confined where that can be, for a few seconds, without input.

    Raises:
        ConfigError: it can't be run, or says nothing.
    """
    from humanlayer_agent.processes.execution import command_environment, run_command

    words, folder = (path, "--help"), str(_project() or "/")
    try:
        enclosure: Enclosure | None
        enclosure, env = _enclosed(folder)
    except (HumanlayerError, OSError, ValueError) as why:
        print(
            f"humanlayer-agent: {path} --help runs with your rights, unconfined: {one_line(str(why))}", file=sys.stderr
        )
        enclosure, env = None, command_environment(os.environ, project=folder)
    try:
        result = run_command(
            words, cwd=folder, env=env, timeout=_SECONDS, output_limit=_MOST_TEXT, confinement=enclosure
        )
    except (HumanlayerError, OSError) as error:
        raise ConfigError(f"{path} --help did not run: {error}") from error
    if result.timed_out or not result.output.strip():
        what = f"did not end within {_SECONDS:g} seconds" if result.timed_out else "printed nothing"
        raise ConfigError(f"{path} --help {what}; --help-text FILE drafts it from a text that you have saved")
    return result.output


def _enclosed(project: str) -> "tuple[Enclosure, dict[str, str]]":
    """What a program runs in that is only to say what it is: it reads what others may read, and changes nothing."""
    from humanlayer_agent.agents.run_enclosures import RunEnclosures
    from humanlayer_agent.configuration import build_director
    from humanlayer_agent.confine.confinement import Confinement

    director = build_director("default", project=project, confined=True)
    profile = director.in_force().confine
    assert profile is not None
    held = replace(profile, name="help", read=(*profile.read, *profile.write), write=(), network="none", hosts=())
    enclosures = RunEnclosures.of(secrets.token_hex(16), project)
    return enclosures.enclosure(Confinement((held,))), enclosures.environment(os.environ, project=project)


def _read(path: Path) -> str:
    try:
        if str(path) == "-":
            return sys.stdin.read(_MOST_TEXT)
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_TEXT)
    except OSError as error:
        raise ConfigError(f"{path}: can't be read: {error.strerror}") from error


def _written(program: str, place: Place, content: str) -> Path:
    project = find_project() if place == "project" else None
    folder = {
        "user": Path(config_path(FOLDER)),
        "machine": Path(MACHINE_FOLDER, FOLDER),
        "project": Path(project or "", PROJECT_FOLDER, FOLDER),
    }[place]
    of_folder, of_file = _MODES[place]
    target = folder / f"{program}.yaml"
    try:
        folder.parent.mkdir(mode=of_folder, parents=True, exist_ok=True)
        folder.mkdir(mode=of_folder, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, of_file)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise ConfigError(f"{target} is there already: go on with that, or remove it") from None
    except OSError as error:
        raise ConfigError(f"{target}: can't be written: {error.strerror}") from error
    return target
