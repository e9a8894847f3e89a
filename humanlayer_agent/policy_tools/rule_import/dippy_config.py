"""Configuration of Dippy: lines such as `allow git status`, `deny rm -rf "Use trash"`, `deny-redirect /etc/**`.

A pattern matches a command that begins with its words; `*` and `?` are wildcards, `|` at the end means that nothing may
follow. The last line that matches counts. Source: https://github.com/ldayton/Dippy/wiki.
"""

import re
from dataclasses import replace
from typing import Any

from humanlayer_agent.policy_tools.rule_import import COMMON_NOTES, Decision, Line, List, command_line
from humanlayer_agent.policy_tools.rule_import.claude_settings import path_patterns
from humanlayer_agent.policy_tools.rule_import.command_patterns import CommandPattern, NotCarried, parsed

TOOL = "Dippy"
_NOTES = (
    *COMMON_NOTES,
    "What Dippy allows by itself (commands that only read, --help, --version) is asked about here.",
    "What is written into files by redirections asks here, but for what allow-redirect names.",
)
_DECISIONS: dict[str, Decision] = {"allow": "allow", "ask": "ask", "deny": "deny"}
_MESSAGE = re.compile(r'(?P<pattern>.*\S)\s+"(?P<message>(?:[^"\\]|\\.)*)"', re.DOTALL)


def read(text: str, name: str) -> List:
    """Return the list in a configuration."""
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            lines.append(replace(_line(number, line.strip()), rank=number))
    return List(TOOL, lines, _NOTES)


def _line(number: int, text: str) -> Line:
    directive, _, rest = text.partition(" ")
    decision = _DECISIONS.get(directive.lower().removesuffix("-redirect"))
    rest, message = rest.strip(), ""
    if decision is None:
        known = directive.lower() in ("set", "alias", "after", "log", "include")
        problem = "it is about Dippy itself" if known else "it is no directive that is known here"
        if text.split() == ["set", "default", "allow"]:
            problem = "it allows whatever no line names: here that asks"
        return Line(number, text, problem=problem)
    if decision != "allow" and (found := _MESSAGE.fullmatch(rest)) is not None:
        rest, message = found["pattern"], re.sub(r"\\(.)", r"\1", found["message"])
    try:
        if directive.lower().endswith("-redirect"):
            return replace(_redirect(number, text, decision, rest), message=message)
        return command_line(number, text, decision, [pattern(rest)], message=message)
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


def _start(path: str) -> str:
    return "/" if path.startswith("/") else "" if path.startswith("~/") else "./"


def _redirect(number: int, text: str, decision: Decision, said: str) -> Line:
    if not said:
        raise NotCarried("it names no path")
    if said.startswith("**"):
        paths = [said]
    else:
        paths = path_patterns(f"/{said}" if said.startswith("/") else said if said.startswith("~/") else f"./{said}")[
            :1
        ]
    paths = [each.removesuffix("/") for each in paths]
    which = "all_within" if decision == "allow" else "any_within"
    when: dict[str, Any] = {"effect": ["write", "append"], "role": "redirect", "paths": {which: paths}}
    return Line(number, text, decision, (when,))
