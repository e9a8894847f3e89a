"""The condition on the call of a tool: which tool it is, and what it is given."""

import json
import posixpath
import unicodedata
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.path_patterns import PathSet
from humanlayer_agent.policy.conditions.word_patterns import TextSet
from humanlayer_agent.policy.language.policy import Argument, Match, Names, Tool
from humanlayer_agent.shell import Effect, SimpleCommand, absolute_path

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.compiler import Clause, Situation

_SHORTENED = {"characters", "sha256"}
"""The keys of what stands for a text that was too long to be kept (see `action.tool_arguments`)."""
Answer = Callable[[Any, "Situation"], int]


def tool(wanted: Tool, paths: Callable[[Names], PathSet], home: str, excuses: bool) -> "Clause":
    """Return the clause of `wanted`.

    Args:
        paths: gives the set of paths that patterns stand for.
        home: the user's home directory, which `~` may stand for.
        excuses: it is asked of a condition by which something is let through: a path must then lie in the set in
            whatever way a tool may read it.
    """
    name = TextSet(wanted.name) if wanted.name is not None else None
    arguments = {each: _argument(said, paths, home, excuses) for each, said in (wanted.args or {}).items()}

    def judge(command: SimpleCommand, effect: Effect | None, situation: "Situation") -> int:
        if not situation.tool:
            return NO
        value = YES if name is None else name.has(situation.tool)
        if value == NO or not arguments:
            return value
        given = read(situation.arguments)
        return min(value, *(answer(given.get(each, _ABSENT), situation) for each, answer in arguments.items()))

    return judge


_ABSENT = object()


def is_needed(match: Match) -> bool:
    """Tell whether a condition holds for calls of tools alone."""
    return match.tool is not None or any(is_needed(each) for each in match.all or ())


def read(arguments: str) -> Mapping[str, Any]:
    """Return what `action.tool_arguments` wrote; nothing where it is something else."""
    try:
        found = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _argument(wanted: Argument, paths: Callable[[Names], PathSet], home: str, excuses: bool) -> Answer:
    texts = TextSet(wanted.texts) if wanted.texts is not None else None
    within = paths(wanted.within) if wanted.within is not None else None

    def answer(value: Any, situation: "Situation") -> int:
        if wanted.given is not None and (value is not _ABSENT) is not wanted.given:
            return NO
        if texts is None and within is None:
            return YES
        if value is _ABSENT:
            return NO
        if isinstance(value, dict) and value.keys() == _SHORTENED:
            return MAYBE
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        found = YES if texts is None else texts.has(text)
        return found if within is None or found == NO else min(found, _lies(text, within, situation))

    def _lies(text: str, within: PathSet, situation: "Situation") -> int:
        holds = within.every if excuses else within.some
        answers = set()
        for path in _readings(text, home):
            place = Effect("read", "operand", absolute_path(path, situation.directory or "/"), True, (0, 0))
            answers.add(holds(place, situation.links))
        return answers.pop() if len(answers) == 1 else MAYBE

    return answer


def _readings(path: str, home: str) -> list[str]:
    """The paths that a tool may take a text for: as it is written, without blanks around it, with `~` for the home
    directory, composed, or as the address of a file.
    """
    bare = path.strip()
    plain = bare.removeprefix("file://") if bare.startswith("file:///") else bare
    found = [path, bare, plain, unicodedata.normalize("NFC", plain)]
    if plain == "~" or plain.startswith("~/"):
        found.append(posixpath.join(home, plain[2:]))
    return list(dict.fromkeys(each or "." for each in found))
