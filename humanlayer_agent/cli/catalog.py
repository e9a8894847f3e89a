"""`hla catalog`: what the command catalog knows of a program, for people."""

from collections.abc import Iterator
from typing import Annotated

import typer

from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.shell import catalog

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

_WIDTH = 34


@app.command("list")
def list_(
    family: Annotated[
        str | None, typer.Argument(help="Only the programs of this file, such as git or network.")
    ] = None,
) -> None:
    """List the programs that the catalog describes, by file.

    Example: hla catalog list archive
    """
    groups: dict[str, list[str]] = {}
    for name in CATALOG.names():
        groups.setdefault(CATALOG.family(name) or "", []).append(name)
    if family is not None and family not in groups:
        print(f"no file {family}; there are: {', '.join(sorted(groups))}")
        raise typer.Exit(2)
    for group in sorted(groups) if family is None else [family]:
        print(f"{group} ({len(groups[group])})")
        print(_wrapped(groups[group]))
    if family is None:
        print(f"{sum(map(len, groups.values()))} programs. hla catalog show PROGRAM")


@app.command()
def show(
    program: Annotated[str, typer.Argument(help="The name of a program.")],
    subcommand: Annotated[list[str] | None, typer.Argument(help="Its sub-command, such as commit.")] = None,
) -> None:
    """Print the options, operands and effects of a program or sub-command.

    What is not listed here makes a command unresolved: a policy then asks.

    Examples: hla catalog show rm · hla catalog show git commit
    """
    names = [program, *(subcommand or [])]
    spec = CATALOG.lookup(program)
    for depth, name in enumerate(names[1:], 1):
        if spec is not None:
            spec = spec.subcommands.get(name) or CATALOG.lookup(" ".join(names[: depth + 1]))
    if spec is None:
        print(f"{' '.join(names)}: the catalog does not know it. A command that runs it is unresolved: a policy asks.")
        raise typer.Exit(1)
    for line in description(spec, " ".join(names)):
        print(line)
    _examples(program, subcommand or [])


def description(spec: catalog.Spec, title: str) -> Iterator[str]:
    """The lines that describe `spec` to people."""
    yield f"{title}: {spec.about}" if spec.about else title
    if spec.grammar:
        yield f"  read by a grammar of its own ({spec.grammar}); what stands here is only a part"
    spellings: dict[int, tuple[catalog.Option, list[str]]] = {}
    for key, option in (*((f"-{k}", o) for k, o in spec.short.items()), *spec.long.items()):
        spellings.setdefault(id(option), (option, []))[1].append(key)
    if spellings:
        yield "options"
        for option, keys in spellings.values():
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
    if names := sorted({*spec.subcommands, *(CATALOG.subcommands(title) if " " not in title else ())}):
        yield "sub-commands"
        yield _wrapped(names)


def _option(option: catalog.Option, keys: list[str]) -> str:
    value = {0: "", 1: " VALUE", 2: "[=VALUE]"}[option.arity]
    left = f"  {', '.join(keys)}{value}"
    does = [f"value: {option.kind}"] if option.arity and option.kind != "text" else []
    does += [f"does: {option.does}"] if option.does else []
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
    from textwrap import fill

    return fill(", ".join(names), width=96, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


def _examples(program: str, subcommand: list[str]) -> None:
    start = " ".join([program, *subcommand])
    found = [e for e in CATALOG.examples() if e.command == start or e.command.startswith(start + " ")]
    if found:
        print("examples")
    for example in found:
        mark = " (not resolved)" if example.unresolved else ""
        print(f"  {example.command}\n      {', '.join(example.effects) or 'no effects'}{mark}")
