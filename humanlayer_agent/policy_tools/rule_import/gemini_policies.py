"""Policies of Gemini CLI: `[[rule]]` in TOML files.

Of the rules that match a call the one with the highest priority counts. `commandPrefix` is a text with which a command
begins, up to the end of a word; `commandRegex` is compared from the beginning of the command on. Commands in a chain
are compared one by one. Source: https://geminicli.com/docs/reference/policy-engine.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from humanlayer_agent.errors import ConfigError, HumanlayerError
from humanlayer_agent.policy.conditions.linear_regex import Regex
from humanlayer_agent.policy_tools.rule_import import COMMON_NOTES, Decision, Line, List, command_line
from humanlayer_agent.policy_tools.rule_import.command_patterns import (
    LOOSER,
    CommandPattern,
    NotCarried,
    Word,
    literal,
    parsed,
)

TOOL = "Gemini CLI"
_NOTES = (
    *COMMON_NOTES,
    "What Gemini CLI allows by policies of its own (reading in the project, for example) is asked about here.",
)
_DECISIONS: dict[str, Decision] = {"allow": "allow", "ask_user": "ask", "deny": "deny"}
_SHELL = "run_shell_command"
_EVERYTHING = "it is about every command or tool; say it by `defaults` of a policy"
_KNOWN = {"toolName", "mcpName", "commandPrefix", "commandRegex", "argsPattern", "decision", "priority", "denyMessage"}
_NARROWER = {"modes", "interactive", "subagent", "toolAnnotations"}
_IGNORED = {"allowRedirection", "allow_redirection", "name", "description"}
_ALIASES = dict.fromkeys(("search_file_content", "grep_search"), ("search_file_content", "grep_search"))
"""Names of one tool, of which a rule about either is about it."""
_TOUCHES = {
    "read_file": ["read"], "read_many_files": ["read"], "list_directory": ["read"], "glob": ["read"],
    "search_file_content": ["read"], "grep_search": ["read"], "write_file": ["write"], "replace": ["write"],
}  # fmt: skip
"""Tools of files, and what they do with them."""


def read(text: str, name: str) -> List:
    """Return the list in a policy file of Gemini CLI.

    Raises:
        ConfigError: it can't be read.
    """
    try:
        content = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: not TOML: {error}") from error
    rules = content.get("rule")
    if not isinstance(rules, list) or not all(isinstance(each, dict) for each in rules):
        raise ConfigError(f"{name}: expected a policy of Gemini CLI, with [[rule]]")
    numbers = [n for n, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*rule\s*\]\]", line)]
    lines: list[Line] = []
    for n, rule in enumerate(rules):
        lines += _rule(numbers[n] if n < len(numbers) else 1, rule)
    return List(TOOL, lines, _NOTES, ("web_fetch", "mcp_*", *_TOUCHES))


def _rule(number: int, rule: dict[str, Any]) -> Iterator[Line]:
    said = ", ".join(f"{key} = {value!r}" for key, value in rule.items())
    decision, priority = _DECISIONS.get(str(rule.get("decision"))), rule.get("priority", 0)
    whole = Line(number, said, decision)
    if decision is None or not isinstance(priority, int):
        yield replace(whole, problem="its decision is none of allow, deny, ask_user, or its priority is no number")
        return
    if unknown := rule.keys() - _KNOWN - _NARROWER - _IGNORED:
        yield replace(whole, problem=f"it has what is not known here: {', '.join(sorted(unknown))}")
        return
    notes: tuple[str, ...] = ()
    if narrower := sorted(rule.keys() & _NARROWER):
        if decision == "allow":
            yield replace(whole, problem=f"it allows only for some {', '.join(narrower)}, which we do not know")
            return
        notes = (f"{', '.join(narrower)} is left out: here it holds everywhere, and goes before nothing",)
    message = str(rule.get("denyMessage", ""))
    found = _conditions(number, said, decision, rule)
    surely = () if narrower else found.surely or (() if found.of_commands else found.when)
    yield replace(found, rank=priority, notes=(*found.notes, *notes), surely=surely, message=message)


def _conditions(number: int, said: str, decision: Decision, rule: dict[str, Any]) -> Line:
    names = _texts(rule.get("toolName", _SHELL if rule.keys() & {"commandPrefix", "commandRegex"} else "*"))
    if "argsPattern" in rule:
        return Line(number, said, decision, problem="argsPattern is compared with JSON: write `args` of a tool")
    try:
        if "commandPrefix" in rule:
            return command_line(number, said, decision, [prefix(each) for each in _texts(rule["commandPrefix"])])
        if "commandRegex" in rule:
            return command_line(number, said, decision, [regex(str(rule["commandRegex"]), decision)])
    except NotCarried as why:
        return Line(number, said, decision, problem=str(why))
    notes: tuple[str, ...] = ()
    if "mcpName" in rule:
        if decision == "allow":
            notes = (f"{LOOSER}of servers whose names begin with {rule['mcpName']}_ too: the names of tools count",)
        names = [f"mcp_{rule['mcpName']}_{each}" for each in names]
    names = [each for name in names for each in _ALIASES.get(name, (name,))]
    if not names or "*" in names or _SHELL in names:
        return Line(number, said, decision, problem=_EVERYTHING)
    if decision != "allow":
        return Line(number, said, decision, ({"tool": names},))
    effects = sorted({kind for each in names for kind in _TOUCHES.get(each, ())})
    if "web_fetch" in names:
        return Line(number, said, decision, ({"tool": names, "effect": ["network", *effects]},))
    if effects and not all(each in _TOUCHES for each in names):
        return Line(number, said, decision, problem="it names tools of files together with others: write two rules")
    when = {"tool": names, "effect": effects} if effects else {"tool": names}
    return Line(number, said, decision, (when,), notes=notes)


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]


def prefix(text: str) -> CommandPattern:
    """Return the pattern of a commandPrefix: its words, and any after them.

    Raises:
        NotCarried: it is no plain command.
    """
    found = parsed(text, wildcards="")
    return literal([str(word.text) for word in found.words], open=True)


def _word(text: str) -> Word:
    if re.fullmatch(r"[\w/@:=-]+", text):
        return Word((text,))
    if re.fullmatch(r"\.[*+]", text):
        return Word(("", ""))
    first = re.fullmatch(r"\((?:\?:)?([\w-]+)(?:\|[\w-]+)*\)", text)
    return Word((first[1] if first else "x",), text)


def regex(text: str, decision: Decision) -> CommandPattern:
    """Return the pattern of a commandRegex that goes word by word: blanks stand between words, outside of groups.

    Raises:
        NotCarried: it does not.
    """
    words, depth, current = [], 0, ""
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == " " and depth == 0:
            words.append(current)
            current = ""
        else:
            current += character
    words.append(current)
    if not all(words) or depth or re.search(r"[\^$\"]|\\[bBsAZ]|\(\?(?!:)| ", "".join(words)):
        raise NotCarried("its regular expression does not go word by word")
    crosses = re.search(r"\.|\[\^|\\[SWD]", text)
    if decision != "allow" and crosses:
        raise NotCarried("its regular expression may go over several words")
    made = [_word(each) for each in words]
    if made[-1].regex or made[-1].text is not None:  # it is compared with a beginning
        shown = made[-1].pieces[0]
        made[-1] = Word((shown, "")) if made[-1].text is not None else Word((shown,), f"({words[-1]})[^ ]*")
    try:
        for word in made:
            if word.regex:
                Regex(word.regex)
    except (ValueError, HumanlayerError) as error:
        raise NotCarried(f"its regular expression is none of ours: {error}") from error
    return CommandPattern(tuple(made), open=True)
