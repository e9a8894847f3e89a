"""Transformations of a whole line that `lines.yaml` describes, and the places there in which a text is only data."""

import random
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from humanlayer_agent.policy_tools.metamorphic.line import Line
from humanlayer_agent.policy_tools.metamorphic.quotes import double, here_document, printf_format, single
from humanlayer_agent.policy_tools.metamorphic.transformation import Apply, Transformation
from humanlayer_agent.policy_tools.metamorphic.words import encoded, rotated
from humanlayer_agent.shell import syntax_tree

_PLACEHOLDER = re.compile(r"""‹(['"]*)([a-z0-9-]+)['"]*›""")
_WHOLE = (
    syntax_tree.ArithCommand,
    syntax_tree.Case,
    syntax_tree.Group,
    syntax_tree.If,
    syntax_tree.Loop,
    syntax_tree.Pipeline,
    syntax_tree.Simple,
    syntax_tree.Test,
)
"""What may stand after `!`, `time`, `&&` as it is."""


def transformations() -> Iterator[Transformation]:
    """All of this module."""
    described = _described()
    for name, each in described["lines"].items():
        yield Transformation(name, _template(each["write"], each.get("needs", ())))
    for name, prefix in described["wrappers"].items():
        yield Transformation(name, _wrapper(prefix))


def places_of_data() -> list[str]:
    """The names of all places where a text is only data."""
    return [f"as-{name}" for name in _described()["data"]]


def as_data(name: str, text: str) -> str:
    """A command line with `text` in the place called `name`."""
    return _filled(_described()["data"][name.removeprefix("as-")], _data_values(text))


@cache
def _described() -> dict[str, Any]:
    import yaml

    found = yaml.safe_load(Path(__file__).with_name("lines.yaml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


# ---- filling in ---------------------------------------------------------------------------------------


def _filled(template: str, values: Mapping[str, Callable[[], str]]) -> str:
    def fill(match: re.Match[str]) -> str:
        text = values[match[2]]()
        for mark in match[1]:
            text = single(text) if mark == "'" else double(text)
        return text

    return _PLACEHOLDER.sub(fill, template)


def _template(template: str, needs: list[str]) -> Apply:
    def apply(line: Line, chance: random.Random) -> str | None:
        if not all(_holds(line, need) for need in needs):
            return None
        return _filled(template, _line_values(line))

    return apply


def _holds(line: Line, need: str) -> bool:
    if need.startswith("free of "):
        return need.removeprefix("free of ") not in line.text
    return bool(getattr(line, need))


def _line_values(line: Line) -> dict[str, Callable[[], str]]:
    text = line.text
    block = f"{text}; " if line.inline else f"{text}\n"
    whole = line.inline and isinstance(line.script.body, _WHOLE) and line.text.startswith(("time", "!")) is False
    return {
        **_common_values(text),
        "line": lambda: text,
        "block": lambda: block,
        "arm": lambda: f"{text} " if line.inline else f"{text}\n",
        "command": lambda: text if whole else f"{{ {block}}}",
        "sub": lambda: f"$({{ {block}}} >&3)",
        "name": lambda: next(line.free()),
        "nested": lambda: f"bash -c {single(text)}",
        "trapped": lambda: f"trap {single(text)} ERR; false",
        "awk": lambda: f'BEGIN {{ system("{text}") }}',
        "base64": lambda: encoded(text),
        "hex": lambda: text.encode().hex(),
        "reversed": lambda: text[::-1],
        "rot13": lambda: rotated(text),
    }


def _data_values(text: str) -> dict[str, Callable[[], str]]:
    return {
        **_common_values(text),
        "text": lambda: text,
        "commented": lambda: text.replace("\n", "\n# "),
        "echoed": lambda: f"echo {single(text)}",
    }


def _common_values(text: str) -> dict[str, Callable[[], str]]:
    return {
        "body": lambda: here_document(text),
        "end": lambda: _delimiter(text),
        "octal": lambda: printf_format(text),
        "echo-octal": lambda: "'" + "".join(f"\\0{byte:03o}" for byte in text.encode()) + "'",
    }


def _delimiter(text: str) -> str:
    """A word that no line of `text` is."""
    end = "EOF"
    while end in text:
        end += "_"
    return end


# ---- wrappers -----------------------------------------------------------------------------------------


def _wrapper(prefix: str) -> Apply:
    """A program that runs the words after it, before every command that is a program."""

    def apply(line: Line, chance: random.Random) -> str | None:
        found = [command.words[0] for command in line.commands if line.external(command)]
        known = [word for word in found if "=" not in (word.static or "=")]
        return line.edit((word.start, word.start, f"{prefix} ") for word in known)

    return apply
