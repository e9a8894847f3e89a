"""redundant: what a rule decides, another rule decides as strictly, so that it could go."""

from collections.abc import Iterator

from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.implication import Prover, condition
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case

MAX_RULES = 300
"""Each rule is compared with each other one, and left out once; beyond this nothing is compared."""

MAX_BESIDE = 8
"""Other rules whose commands a rule is tried on."""


def check(subject: Subject) -> Iterator[Finding]:
    """A rule without which every command that was tried is decided the same: shown by a proof, else unknown."""
    if len(subject.linted) > MAX_RULES:
        first = subject.linted[0]
        message = f"not looked for: {len(subject.linted)} rules, and at most {MAX_RULES} are compared with each other"
        yield Finding(subject.place(first.rule), "", message, None, unknown=True)
        return
    conditions = {id(rule): condition(rule, subject.compiler(rule.rule)) for rule in subject.rules}
    prover = Prover()

    def covers(other: CompiledRule, rule: CompiledRule) -> bool:
        return prover.covers(conditions[id(rule)], conditions[id(other)])

    order = {id(rule): n for n, rule in enumerate(subject.rules)}
    for rule in subject.linted:
        if rule.rule.confined is not None:
            continue  # it decides in what a command runs as well
        case = _idle(subject, rule)
        if case is None:
            continue
        covering = [other for other in subject.rules if other is not rule and covers(other, rule)]
        # Of two that say the same, the later one is too many.
        needed = [o for o in covering if not (covers(rule, o) and order[id(o)] > order[id(rule)])]
        if needed or not covering:
            yield _finding(subject, rule, case, needed)


def _idle(subject: Subject, rule: CompiledRule) -> Case | None:
    """A command that it hits, where it makes no difference to any; None where it makes one, or hits none.

    An allow that never decides is the business of `shadowed`.
    """
    first = None
    without = subject.without(rule.rule)
    for case in _tried(subject, rule):
        if rule.verdict is Verdict.ALLOW and not case.allowed:
            continue
        if subject.differs(case, without):
            return None
        first = first or case
    return first


def _tried(subject: Subject, rule: CompiledRule) -> Iterator[Case]:
    """What it hits: of the commands made for it, and of those made for the rules that hit the same."""
    beside: dict[int, CompiledRule] = {}
    for case in subject.hit_by(rule):
        beside.update({id(hit.rule): hit.rule for hit in case.hits if hit.rule is not None and hit.rule is not rule})
        yield case
    for other in list(beside.values())[:MAX_BESIDE]:
        yield from (case for case in subject.cases(other) if case.hits_of(rule))


def _finding(subject: Subject, rule: CompiledRule, case: Case, covering: list[CompiledRule]) -> Finding:
    if covering:
        other = covering[0].rule
        kind = "the same" if other.decision == rule.rule.decision else "more"
        message = f"{other.id} ({other.decision}, {other.origin}) covers everything that it does, and decides {kind}"
    else:
        also = dict.fromkeys(h.rule.rule.id for h in case.hits if h.rule is not None and h.rule is not rule)
        by = f": {', '.join(also)} decides there too" if also else ""
        message = f"found no command that is decided otherwise without it{by}"
    return Finding(subject.place(rule.rule), rule.rule.id, message, case.witness, unknown=not covering)


CHECK = Check("redundant", "warning", "Another rule decides all that a rule decides, and at least as strictly.", check)
