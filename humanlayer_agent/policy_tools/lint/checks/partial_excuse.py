"""partial-excuse: a condition that lets something through looks for one operand, word or path among several."""

from collections.abc import Iterator
from itertools import islice

from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.conditions.kleene import YES
from humanlayer_agent.policy.language.policy import Match, Texts
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case

MAX_CASES = 60
"""Commands that each are tried with one more word."""
_ANY_WORDS = "..."
_MORE = ("/srv/other", "--other")
"""Words that no condition asks for."""

Path = tuple[str | int, ...]


def check(subject: Subject) -> Iterator[Finding]:
    """The conditions of every rule in force, with a command that is let through for one of its words."""
    for part in subject.parts():
        rule = part.rule
        for path, inner, clause, instead in _by_some(part.match, (), excuses=part.excuses, by_effect=rule.by_effect):
            case = _witness(subject, rule, inner)
            message = f"lets a command through for one of its words, whatever the others are: `{clause}`{instead}"
            witness = case.witness if case is not None else None
            place = part.place(*path, clause.partition(":")[0])
            yield Finding(place, rule.rule.id, message, witness, unknown=case is None)


def _by_some(
    match: Match | None, path: Path, *, excuses: bool, by_effect: bool
) -> Iterator[tuple[Path, Match, str, str]]:
    """Where such a clause stands, the condition, the clause, and what to write in its place."""
    if match is None:
        return
    if excuses and match.operands is not None and match.operands.any is not None:
        yield path, match, "operands: any", "; `all` asks it of every one"
    if excuses and match.paths is not None and match.paths.any is not None and not by_effect:
        yield path, match, "paths: any_within", "; `all_within` asks it of every one"
    if excuses and match.argv is not None and _anywhere(match.argv):
        yield path, match, "argv: [..., a word, ...]", "; `flags` and `operands` know which word is what"
    for key in ("any", "all"):
        for n, inner in enumerate(getattr(match, key) or ()):
            yield from _by_some(inner, (*path, key, n), excuses=excuses, by_effect=by_effect)
    if match.negated is not None:
        yield from _by_some(match.negated, (*path, "not"), excuses=not excuses, by_effect=by_effect)


def _anywhere(texts: Texts) -> bool:
    """Is one word looked for between any others?"""
    shown = [text.glob for text in texts]
    return any(shown[n : n + 3 : 2] == [_ANY_WORDS] * 2 for n in range(len(shown) - 2))


def _witness(subject: Subject, rule: CompiledRule, found: Match) -> Case | None:
    """A command with a word that nobody asked for, for which the condition holds all the same."""
    held = subject.compiler(rule.rule).match(found, excuses=True)
    for case in islice(subject.cases(rule), MAX_CASES):
        for word in _MORE:
            more = subject.case(f"{case.command} {word}", rule)
            if any(held(command, effect, more.situation) == YES for command, effect in more.units(rule)):
                return more
    return None


CHECK = Check(
    "partial-excuse", "warning", "A command is let through for one of its words, whatever the others are.", check
)
