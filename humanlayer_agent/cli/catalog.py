"""`hla catalog`: what the command catalog knows of a program, for people."""

from collections.abc import Iterator
from typing import Annotated, Literal

import typer

from humanlayer_agent.cli.shared.completion import catalog_files, program_names
from humanlayer_agent.cli.shared.help_pages import Commands
from humanlayer_agent.cli.shared.options import FormatOption
from humanlayer_agent.cli.shared.output import print_record, print_records, prints
from humanlayer_agent.cli.shared.records import CatalogOperandRecord, CatalogProgramRecord, CatalogRecord
from humanlayer_agent.errors import ConfigError, did_you_mean
from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.safe_text import one_line
from humanlayer_agent.shell import catalog

app = Commands(
    help="""See what the command catalog knows of a program.

    Example: hla catalog show git commit"""
)

_WIDTH = 34


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
    for name in CATALOG.names():
        groups.setdefault(CATALOG.family(name) or "", []).append(name)
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
    spec = CATALOG.lookup(program)
    for depth, name in enumerate(names[1:], 1):
        if spec is not None:
            spec = spec.subcommands.get(name) or CATALOG.lookup(" ".join(names[: depth + 1]))
    if spec is None:
        name, near = one_line(" ".join(names)), did_you_mean(program, CATALOG.names(), "")
        typer.echo(
            f"{name}: the catalog does not know it{f' ({near})' if near else ''}. A command that runs it is "
            "unresolved: a policy asks.",
            err=output != "table",
        )
        raise typer.Exit(1)
    if output != "table":
        print_record(_record(spec, program, subcommand or []), output)
        return
    for line in description(spec, " ".join(names)):
        print(line)
    _print_examples(_found_examples(" ".join(names)))


def description(spec: catalog.Spec, title: str) -> Iterator[str]:
    """The lines that describe `spec` to people."""
    yield f"{title}: {spec.about}" if spec.about else title
    if spec.service or spec.verb:
        verb = f" ({spec.verb}: {catalog.VERBS[spec.verb]})" if spec.verb else ""
        yield f"  service: {spec.service or 'a daemon of this machine'}{verb}"
    if spec.attributes:
        yield f"  attributes: {', '.join(spec.attributes)}"
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
    if names := _subcommands(spec, title):
        yield "sub-commands"
        yield _wrapped(names)


def _record(spec: catalog.Spec, program: str, subcommand: list[str]) -> CatalogRecord:
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
        "subcommands": _subcommands(spec, title),
        "service": spec.service or None,
        "verb": spec.verb or None,
        "attributes": list(spec.attributes),
        "examples": [
            {"command": each.command, "effects": list(each.effects), "resolved": not each.unresolved}
            for each in _found_examples(title)
        ],
    }


def _spellings(spec: catalog.Spec) -> list[tuple[catalog.Option, list[str]]]:
    """Each option with the ways to write it."""
    found: dict[int, tuple[catalog.Option, list[str]]] = {}
    for key, option in (*((f"-{k}", o) for k, o in spec.short.items()), *spec.long.items()):
        found.setdefault(id(option), (option, []))[1].append(key)
    return list(found.values())


def _subcommands(spec: catalog.Spec, title: str) -> list[str]:
    return sorted({*spec.subcommands, *(CATALOG.subcommands(title) if " " not in title else ())})


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


def _wrapped(names: list[str]) -> str:
    from shutil import get_terminal_size
    from textwrap import fill

    return fill(
        ", ".join(names),
        width=min(96, get_terminal_size().columns),
        initial_indent="  ",
        subsequent_indent="  ",
        break_on_hyphens=False,
    )


def _found_examples(start: str) -> list[catalog.Example]:
    return [e for e in CATALOG.examples() if e.command == start or e.command.startswith(start + " ")]


def _print_examples(found: list[catalog.Example]) -> None:
    if found:
        print("examples")
    for example in found:
        mark = " (not resolved)" if example.unresolved else ""
        print(f"  {example.command}\n      {', '.join(example.effects) or 'no effects'}{mark}")
