"""What `check` and `parse` are given: read without argparse where that would say the same, because its import takes as
long as judging a command."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

FORMATS = ("text", "json", "jsonl")


class Given:
    """The options and the command, as argparse gives them."""

    command: str | None = None
    format = "text"
    cwd: str | None = None
    policy: str | None = None
    project: str | None = None
    observe = False


def usual(argv: list[str], *, valued: Collection[str], plain: Collection[str] = ()) -> Given | None:
    """The options and the command, where every word is plainly one of them.

    None: argparse is to say what they are, or what is wrong.

    Args:
        valued: options with a value.
        plain: options without one.
    """
    found = Given()
    words: Iterator[str] = iter(argv)
    for word in words:
        if word in plain:
            setattr(found, word[2:], True)
        elif word in valued:
            value = next(words, "-")
            if value.startswith("-") or (word == "--format" and value not in FORMATS):
                return None
            setattr(found, word[2:], value)
        elif word.startswith("-") or found.command is not None:
            return None
        else:
            found.command = word
    return found


def common_options(parser: "argparse.ArgumentParser") -> None:
    """The options that `check` and `parse` share."""
    parser.add_argument("command", nargs="?", help="the command line to judge")
    parser.add_argument("--format", choices=FORMATS, default="text", help="jsonl reads rows from standard input")
    parser.add_argument("--cwd", help="directory the command starts in (default: the project)")
