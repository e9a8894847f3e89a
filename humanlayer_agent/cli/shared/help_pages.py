"""One style of `--help` for every command: no summary is cut, and examples stand a line each, ready to be copied.

An unknown command or option is answered with what was probably meant, in one line.
"""

import inspect
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from humanlayer_agent.errors import did_you_mean

NAMES = ("hla", "humanlayer-agent")
"""The names of the program; the first is that where it was started by another one (`python -m`)."""
UsageError: Any = typer.BadParameter.__base__
"""Raised for what was typed wrongly. (typer brings its own click, or takes the one that is installed.)"""

_COLUMN = 28
_VALUE = re.compile(r"<(str|path|(?:int|float)(?: range)?)>")
_REQUIRED = re.compile(r"^\{([^{}]*)\}(?=(?:\.\.\.)?$)")
_EXAMPLES = re.compile(r"\n\s*Examples?: (.*)\Z", re.DOTALL)
_FIRST_SENTENCE = re.compile(r".+?(?=\.\s|\.?\Z)", re.DOTALL)


def called_as() -> str:
    """Return the name that the program was started by."""
    name = Path(sys.argv[0]).name
    return name if name in NAMES else NAMES[0]


class _Page:
    """What the help of commands and of groups share."""

    help: str | None
    get_params: Callable[[Any], Any]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does, and its examples."""
        said, examples = divided(self.help)
        with formatter.indentation():
            for paragraph in re.split(r"\n\s*\n", said):
                formatter.write_paragraph()
                for line in _wrapped(paragraph, formatter.width - formatter.current_indent):
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")
        if examples:
            with formatter.section("Example" if len(examples) == 1 else "Examples"):
                for example in examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options, each as it stands in the usage."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            if rows := [(name, said) for each, name, said in parameters(self, ctx) if each == kind]:
                _write_rows(formatter, title, rows)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [_REQUIRED.sub(r"\1", piece) for piece in pieces]


_named: list[str] = []


def command_name() -> str:
    """Return the words of the command that runs, without the program's; "" where none does (yet)."""
    return _named[-1].partition(" ")[2] if _named else ""


class Command(_Page, TyperCommand):
    """A command."""

    def invoke(self, ctx: Any) -> Any:
        """Run it, and know meanwhile what it is called."""
        _named.append(ctx.command_path)
        try:
            return super().invoke(ctx)
        finally:
            _named.pop()


class Group(_Page, TyperGroup):
    """A group of commands."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options and the commands."""
        super().format_options(ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each with the whole first sentence of what it does."""
        _write_rows(formatter, "Commands", [(name, summary(command)) for name, command in self.commands.items()])

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that was named."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"there is no command {name!r}; {did_you_mean(name, self.commands)}")
        return super().resolve_command(ctx, args)


class QuotedCommand(Command):
    """A command whose one argument is a command line, which a user may have forgotten to quote."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            line = "" if getattr(error, "possibilities", None) else self._unquoted(given)
            if line:
                ctx.fail(f"the command is more than one word: quote it: {ctx.command_path} {shlex.quote(line)}")
            raise

    def _unquoted(self, given: list[str]) -> str:
        """Return the words of the command line, from its first to where our own options begin again."""
        valued = {name for each in self.params if not getattr(each, "is_flag", False) for name in each.opts}
        ours = {name for each in self.params for name in each.opts if name.startswith("-")}
        at = 0
        while at < len(given) and given[at] in ours:
            at += 2 if given[at] in valued else 1
        end = next((n for n in range(at, len(given)) if given[n] in ours), len(given))
        words = given[at:end]
        plain = len(words) > 1 and not words[0].startswith("-") and not any(word.isspace() for word in words[0])
        return shlex.join(words) if plain else ""


class Commands(typer.Typer):
    """A group of commands whose help is of this style.

    Args:
        help: what it is about, with an example.
    """

    def __init__(self, help: str, **settings: Any) -> None:
        super().__init__(
            help=help,
            no_args_is_help=True,
            rich_markup_mode=None,
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
            **{"cls": Group, **settings},
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a command, as typer does."""
        return super().command(name, **{"cls": Command, **settings})


def usage_line(error: Any) -> str:
    """Return in one line what was typed wrongly, and what to do."""
    said = getattr(error, "message", "") or str(error)
    possible = getattr(error, "possibilities", None)
    if hasattr(error, "option_name") and hasattr(error, "possibilities"):
        said = f"there is no option {error.option_name}"
        said += f"; did you mean {' or '.join(sorted(possible))}?" if possible else ""
    else:
        said = error.format_message().replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else called_as()
    return f"{said.rstrip('.')} ({command} --help)"


def _write_rows(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    """Write what is named at the left, and at the right, or below, what is said of it."""
    with formatter.section(title):
        indent = formatter.current_indent
        column = min(max(len(name) for name, _ in rows), _COLUMN) + 2
        for name, said in rows:
            first, *more = _wrapped(said, formatter.width - indent - column) or [""]
            if len(name) > column - 2:
                formatter.write(f"{'':>{indent}}{name}\n")
                name = ""
            formatter.write(f"{'':>{indent}}{name:<{column}}{first}".rstrip() + "\n")
            for line in more:
                formatter.write(f"{'':>{indent + column}}{line}\n")


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), width, break_long_words=False, break_on_hyphens=False)


def _metavar(found: re.Match[str]) -> str:
    """Return what stands for a value that its option does not name."""
    return {"str": "TEXT", "path": "FILE"}.get(found[1], "N")


def parameters(command: Any, context: Any) -> Iterator[tuple[str, str, str]]:
    """Yield each parameter of a command: argument or option, its name in the usage, and what is said of it."""
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record is not None:
            argument = each.param_type_name == "argument"
            named = each.metavar if argument and each.metavar else _VALUE.sub(_metavar, record[0])
            yield each.param_type_name, named, record[1].removesuffix("[required]").rstrip()


def divided(help: str | None) -> tuple[str, list[str]]:
    """Return the text of a command's help without its examples, and those."""
    text = inspect.cleandoc(help or "")
    found = _EXAMPLES.search(f"\n{text}")
    if found is None:
        return text, []
    return text[: max(0, found.start() - 1)].rstrip(), [" ".join(each.split()) for each in found.group(1).split(";  ")]


def summary(command: Any) -> str:
    """Return the first sentence of a command's help."""
    found = _FIRST_SENTENCE.match(divided(command.help)[0])
    return " ".join(found.group().split()) if found else ""
