"""The form of a catalog file: what each key may say. An editor completes by it (`hla policy schema catalog`).

A file is held against it before it is read. What belongs together (a `when` names an option that is there, only one
slot repeats) is checked by whoever reads it, `shell.programs.spec`.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from humanlayer_agent.policy.language.field_types import Form
from humanlayer_agent.shell import EFFECT_KINDS, catalog


def _words(value: Any) -> Any:
    return value.split() if isinstance(value, str) else value


_TEXT_OF_WORDS = Form(before=_words, shown=lambda schema: {"anyOf": [{"type": "string"}, schema]})
_SLOT = rf"^({'|'.join(map(re.escape, catalog.SLOTS))})"
Slot = Annotated[str, Form(of=lambda: Literal[tuple(catalog.SLOTS)])]
Slots = Annotated[tuple[Annotated[str, Field(pattern=rf"{_SLOT}[*+?]?$")], ...], _TEXT_OF_WORDS]
Verb = Annotated[str, Form(of=lambda: Literal[tuple(catalog.VERBS)])]
Kind = Annotated[str, Form(of=lambda: Literal[EFFECT_KINDS])]
Spellings = Annotated[tuple[Annotated[str, Field(pattern=r"^[-+]")], ...], _TEXT_OF_WORDS]
OptionNames = tuple[str, ...]
Yes = Annotated[bool, Field(strict=True)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _long_form(value: Any) -> Any:
    return {"names": value} if isinstance(value, str | list) else value


class WrittenOption(_Strict):
    """An option with a value, or one of which there is more to say; a flag may be the list of its spellings."""

    names: Spellings = ()
    """Its spellings."""
    value: Slot = "text"
    """The slot of its value: what that is."""
    optional: Yes = False
    """The value may be left out, and stands only attached: `--color=VALUE`."""
    does: Kind | None = None
    """The effect that the option has by itself."""
    last: Yes = False
    """What follows belongs to something else: `python -m x --flag`."""
    verb: Verb | None = None
    """What it asks of the service besides."""


_FLAG = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string", "pattern": "^[-+]"}}]}
FlagOrOption = Annotated[
    WrittenOption, Form(before=_long_form, shown=lambda schema: {"anyOf": [*_FLAG["anyOf"], schema]})
]


class WrittenVariant(_Strict):
    """Other operands, where one of these options is given."""

    when: OptionNames
    """The options, by the names that they have under `options`."""
    operands: Slots
    """What takes the place of `operands`."""


class WrittenOperand(_Strict):
    """What a program works on where it is given nothing."""

    slot: Slot
    """What it is."""
    value: str
    """Its name."""
    when: OptionNames = ()
    """Only with one of these options."""


class WrittenEffect(_Strict):
    """An effect that stands for no single word."""

    kind: Kind
    """Of this kind."""
    role: str = "itself"
    """Of this role."""
    operand: str | None = None
    """On this; `.` is the working directory."""
    when: OptionNames = ()
    """Only with one of these options."""
    unless: OptionNames = ()
    """Not with one of these options."""


KindOrEffect = Annotated[
    WrittenEffect,
    Form(
        before=lambda value: {"kind": value} if isinstance(value, str) else value,
        shown=lambda schema: {"anyOf": [{"enum": list(EFFECT_KINDS)}, schema]},
    ),
]


class WrittenDescription(_Strict):
    """What a program does with its arguments."""

    about: str = ""
    """One line for people."""
    options: dict[str, FlagOrOption] = {}
    """By a name of your choice: a list of spellings (a flag), or `{names, value, optional, does, last}`."""
    operands: Slots = ()
    """Slots, in order; `*` any number, `+` one or more, `?` perhaps; one may repeat."""
    variants: tuple[WrittenVariant, ...] = ()
    """The first whose `when` holds takes the place of `operands`."""
    recursive: OptionNames = ()
    """Options with which operands mean everything below them."""
    without_operands: WrittenOperand | None = None
    """What it works on when it is given nothing."""
    effects: tuple[KindOrEffect, ...] = ()
    """What it does besides options and operands; `[]` says that there is nothing."""
    inherit: Yes = False
    """Sub-commands, and theirs, take the options of this level too."""
    permute: Yes = True
    """`false`: options end at the first operand, as with wrappers."""
    digits: Yes = False
    """`-5` is an option."""
    abbreviate: Yes = False
    """Long options may be shortened; only where all are listed."""
    grammar: str = ""
    """A reader of ours for arguments that options and slots can't describe; not for files of your own."""
    reads_stdin: Yes = False
    """It reads what it is given on standard input as what it is to run."""
    prints: str = ""
    """What it prints, for the few programs whose output is followed."""
    needs: tuple[Annotated[str, Form(of=lambda: Literal[tuple(catalog.NEEDS)])], ...] = ()
    """What it can't do without, and no confinement has."""
    settings: tuple[str, ...] = ()
    """Names of files with settings that it looks for by itself."""
    argument_files: Annotated[str, Form(of=lambda: Literal[tuple(catalog.ARGUMENT_FILES)])] | None = None
    """How words stand in a file that `@FILE` names: each line is one, or quoted as for a shell."""
    service: str = ""
    """What it talks to, for people; sub-commands have it too."""
    verb: Verb | None = None
    """What it asks of the service."""
    verbs: dict[Verb, tuple[str, ...]] = {}
    """What sub-commands ask of the service, where they are too many to stand one by one: patterns of their words."""
    names: str = ""
    """The file with the names of sub-commands and options; not for files of your own."""
    attributes: dict[str, tuple[str, ...] | None] = {}
    """Options that say which account, cluster or place is meant, and what else decides it: `$NAME`, `--name`, `*x*`."""
    draft: Yes = False
    """Not gone through yet: it counts as unknown."""


class WrittenProgram(WrittenDescription):
    """A program, or a sub-command of one."""

    subcommands: "dict[str, WrittenProgram | None]" = {}
    """The same form, one level down."""


class WrittenExample(_Strict):
    """A command, and all that it does."""

    command: str
    """The command line."""
    effects: tuple[str, ...] = ()
    """All of its effects, as `kind operand`, paths relative to where it starts."""
    unresolved: Yes = False
    """It can't be certain."""
    truth: dict[str, str | int] | None = None
    """What a folder must hold for the example to be run there, in our tests: `path: content`."""
    before: str = ""
    """A command that prepares that folder."""


class CatalogForm(_Strict):
    """A catalog file."""

    about: str = ""
    """One line for people."""
    defaults: WrittenDescription = WrittenDescription()
    """Keys and options that every program of the file has."""
    shared: Any = None
    """YAML anchors."""
    programs: dict[str, WrittenProgram | None]
    """By name, several (`frob, frob2`), or a sub-command of a program in the same file (`frob deploy`)."""
    examples: tuple[WrittenExample, ...] = ()
    """What shows that the entries are right: `hla catalog test` runs them."""
