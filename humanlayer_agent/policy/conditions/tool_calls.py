"""The condition on the call of a tool: which tool it is, and what it is given."""

import json
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from humanlayer_agent.action import HIDDEN
from humanlayer_agent.policy.conditions.kleene import MAYBE, NO, YES
from humanlayer_agent.policy.conditions.path_patterns import PathSet
from humanlayer_agent.policy.conditions.word_patterns import TextSet
from humanlayer_agent.policy.language.policy import Argument, Match, Names, Tool
from humanlayer_agent.shell import Effect, SimpleCommand, absolute_path

if TYPE_CHECKING:
    from humanlayer_agent.policy.conditions.compiler import Clause, Situation

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
        found = YES if texts is None else _matches(texts, value)
        return found if within is None or found == NO else min(found, _lies(value, within, situation))

    def _lies(value: Any, within: PathSet, situation: "Situation") -> int:
        listed = value if isinstance(value, list) else [value]
        if not listed or not all(isinstance(each, str) for each in listed):
            return MAYBE
        return (min if excuses else max)(_place(each, within, situation) for each in listed)

    def _place(text: str, within: PathSet, situation: "Situation") -> int:
        holds = within.every if excuses else within.some
        answers = {MAYBE} if _ODD.search(text) else set()
        for path in _readings(text, home):
            for directory in situation.places or ("/",):
                place = Effect("read", "operand", absolute_path(path, directory), True, (0, 0))
                answers.add(holds(place, situation.links))
        return answers.pop() if len(answers) == 1 else MAYBE

    return answer


def _matches(texts: TextSet, value: Any) -> int:
    """Tell whether a value matches: a text as it is, else the whole as JSON. Maybe where a part of it does, or is not
    kept.
    """
    if isinstance(value, str):
        return texts.has(value)
    parts = list(_parts(value))
    if None in parts:
        return MAYBE
    whole = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    inner = MAYBE if isinstance(value, list | dict) and any(texts.has(part) != NO for part in parts) else NO
    return max(texts.has(whole), inner)


def _parts(value: Any) -> Iterator[str | None]:
    """The texts and numbers of a value; None for what is not kept as it was given."""
    if isinstance(value, dict):
        if HIDDEN in value:
            yield None
        for key, each in value.items():
            yield str(key)
            yield from _parts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _parts(each)
    else:
        yield value if isinstance(value, str) else json.dumps(value)


_ODD = re.compile(
    r"^[A-Za-z][\w+.-]*:|^~(?!/|$)"
    r"|[%$\\\"'\x00-\x1f\x7f\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]"
)
"""What some tools take for more than a part of a name: addresses, other users' homes, variables, escapes, quotes."""


def _readings(path: str, home: str) -> list[str]:
    """The paths that a tool may take a text for: as it is written, without blanks around it, with `~` for the home
    directory, or composed.
    """
    bare = path.strip()
    found = [path, bare, unicodedata.normalize("NFC", bare)]
    if bare == "~" or bare.startswith("~/"):
        found.append(posixpath.join(home, bare[2:]))
    return list(dict.fromkeys(each or "." for each in found))
