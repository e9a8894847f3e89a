"""Configuration of Dippy: lines such as `allow git status`, `deny rm -rf "Use trash"`, `deny-redirect /etc/**`.

A pattern matches a command that begins with its words; `*` and `?` are wildcards, `|` at the end means that nothing may
follow. The last line that matches counts. Source: https://github.com/ldayton/Dippy/wiki.
"""

import re
from dataclasses import replace
from itertools import product
from typing import Any

from humanlayer_agent.policy_tools.rule_import import COMMON_NOTES, Decision, Line, List, command_line
from humanlayer_agent.policy_tools.rule_import.claude_settings import path_patterns
from humanlayer_agent.policy_tools.rule_import.command_patterns import LOOSER, CommandPattern, NotCarried, parsed

TOOL = "Dippy"
_NOTES = (
    *COMMON_NOTES,
    "What Dippy allows by itself (commands that only read, --help, --version) is asked about here.",
    "What is written into files by redirections asks here, but for what allow-redirect names.",
)
_DECISIONS: dict[str, Decision] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_AS_WRITTEN = f"{LOOSER}Dippy resolves `./`, `../` and paths from the root, and here words count as they are written"
_MOST_STARS = 3
_MESSAGE = re.compile(r'(?P<pattern>.*\S)\s+"(?P<message>(?:[^"\\]|\\.)*)"', re.DOTALL)


def read(text: str, name: str) -> List:
    """Return the list in a configuration."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            lines.append(replace(_line(number, line.strip()), rank=number))
    return List(TOOL, lines, _NOTES)


def _line(number: int, text: str) -> Line:
    directive, rest, *_ = *text.split(None, 1), ""
    verb, _, what = directive.lower().partition("-")
    decision, message = _DECISIONS.get(verb), ""
    if decision is None or what not in ("", "redirect"):
        known = directive.lower() in ("set", "alias", "after", "log", "include")
        problem = "it is about Dippy itself" if known else "it is no directive that is known here"
        if text.split() == ["set", "default", "allow"]:
            problem = "it allows whatever no line names: here that asks"
        return Line(number, text, decision, problem=problem)
    if decision != "allow" and (found := _MESSAGE.fullmatch(rest)) is not None:
        rest, message = found["pattern"], re.sub(r"\\(.)", r"\1", found["message"])
    try:
        if what:
            return replace(_redirect(number, text, decision, rest), message=message)
        notes = (_AS_WRITTEN,) if decision != "allow" and "/" in rest else ()
        return command_line(number, text, decision, [pattern(rest)], message=message, notes=notes)
    except NotCarried as why:
        return Line(number, text, decision, problem=str(why))


def pattern(text: str) -> CommandPattern:
    """Return the pattern of a line.

    Raises:
        NotCarried: it is no plain command.
    """
    exact = text.endswith("|")
    text = text.removesuffix("|").rstrip()
    if set(text) & set("[]?"):
        raise NotCarried("`?` and [ ] stand for one character: write it as a rule of ours")
    found = parsed(text.replace("**", "*"))
    return found if exact else CommandPattern(found.words, open=True)


def _redirect(number: int, text: str, decision: Decision, said: str) -> Line:
    if not said:
        raise NotCarried("it names no path")
    if said.startswith("**"):
        path = said
    else:
        path, *_ = path_patterns(f"/{said}" if said[0] == "/" else said if said.startswith("~/") else f"./{said}")
    path = path.removesuffix("/")
    paths = {"all_within": [path]} if decision == "allow" else {"any_within": _over_folders(path)}
    when: dict[str, Any] = {"effect": ["write", "append"], "role": "redirect", "paths": paths}
    return Line(number, text, decision, (when,), surely=(when,))


def _over_folders(path: str) -> list[str]:
    """Return patterns for a path in which a `*` stands for slashes, too, as it does there in one without `**`."""
    if "**" in path:
        return [path]
    first, *pieces = path.split("*")
    if len(pieces) > _MOST_STARS:
        raise NotCarried("it has too many wildcards")
    return [
        first + "".join(star + piece for star, piece in zip(stars, pieces, strict=True))
        for stars in product(("*", "*/**/*"), repeat=len(pieces))
    ]
