"""Rules of Codex: `prefix_rule(...)` in `.rules` files, in the syntax of Starlark.

A rule matches where the first words of a command are exactly its `pattern`, in which a list stands for alternatives.
The strictest of all that match counts. Source: https://developers.openai.com/codex/rules.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from shlex import join
from typing import Any

from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy_tools.rule_import import COMMON_NOTES, Decision, Line, List, command_line
from humanlayer_agent.policy_tools.rule_import.command_patterns import CommandPattern, Word, escaped

TOOL = "Codex"
_NOTES = (
    *COMMON_NOTES,
    "What no rule names Codex may run in its sandbox without asking: here that asks.",
    "Codex judges a script with redirections, substitutions or variables as a whole, so that no rule of its programs "
    "matches: here each command in it is judged, and a deny or an ask holds there too.",
)
_DECISIONS: dict[str, Decision] = {"allow": "allow", "prompt": "ask", "forbidden": "deny"}
_STOPPING = {"prompt", "forbidden", "deny"}
_KEYS = {"pattern", "decision", "justification", "match", "not_match"}


def read(text: str, name: str) -> List:
    """Return the list in a file of rules.

    Raises:
        ConfigError: it can't be read.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 1
        raise ConfigError(f"{name}:{line}: not Starlark: {getattr(error, 'msg', error) or 'too deep'}") from error
    written = text.split("\n")
    return List(TOOL, [line for each in tree.body for line in _lines(each, written)], _NOTES)


def _lines(statement: ast.stmt, written: Sequence[str]) -> Iterator[Line]:
    number = statement.lineno
    said = " ".join(" ".join(written[number - 1 : statement.end_lineno]).split())
    call = statement.value if isinstance(statement, ast.Expr) else None
    stops = _stops(statement)
    if isinstance(call, ast.Constant) and isinstance(call.value, str):
        return  # a text by itself is a comment
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        yield Line(number, said, stops, problem="only calls of prefix_rule are read: write it out")
        return
    if call.func.id != "prefix_rule":
        yield Line(number, said, stops, problem=f"{call.func.id} is not about the words of a command")
        return
    try:
        given = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    except (ValueError, RecursionError):
        yield Line(number, said, stops, problem="a value is computed: write it out")
        return
    found = _rule(number, said, given, bool(call.args))
    yield replace(found, decision=stops) if found.problem and found.decision in (None, "allow") else found


def _stops(statement: ast.stmt) -> Decision | None:
    """What is not read may ask or deny, where it has the word for it anywhere."""
    texts = {each.value for each in ast.walk(statement) if isinstance(each, ast.Constant) and type(each.value) is str}
    return "deny" if texts & _STOPPING else None


def _rule(number: int, said: str, given: dict[str, Any], unnamed: bool) -> Line:
    pattern, decision = given.get("pattern"), _DECISIONS.get(given.get("decision", "allow"))
    problem = ""
    if unnamed or given.keys() - _KEYS:
        problem = f"it has what is not known here: {_unknown(given)}"
    elif decision is None:
        problem = "its decision is none of allow, prompt, forbidden"
    elif not isinstance(pattern, list) or not pattern or not all(map(_is_token, pattern)):
        problem = "its pattern is no list of words, or of lists of words"
    if problem or decision is None or pattern is None:
        return Line(number, said, decision, problem=problem)
    patterns = [
        CommandPattern((Word((program,)), *(_word(token) for token in pattern[1:])), open=True)
        for program in _alternatives(pattern[0])
    ]
    message = given.get("justification")
    return command_line(
        number,
        said,
        decision,
        patterns,
        matches=tuple(_examples(given.get("match"))),
        others=tuple(_examples(given.get("not_match"))),
        message=message if isinstance(message, str) else "",
    )


def _unknown(given: dict[str, Any]) -> str:
    return ", ".join(sorted(given.keys() - _KEYS)) or "a value without a name"


def _is_token(token: Any) -> bool:
    if isinstance(token, list):
        return bool(token) and all(isinstance(each, str) and each for each in token)
    return isinstance(token, str) and bool(token)


def _alternatives(token: str | list[str]) -> list[str]:
    return token if isinstance(token, list) else [token]


def _word(token: str | list[str]) -> Word:
    either = _alternatives(token)
    return Word((either[0],), "|".join(map(escaped, either)) if len(either) > 1 else "")


def _examples(listed: Any) -> Iterator[str]:
    for each in listed if isinstance(listed, Sequence) and not isinstance(listed, str) else ():
        if isinstance(each, str):
            yield each
        elif isinstance(each, list) and all(isinstance(word, str) for word in each):
            yield join(each)
