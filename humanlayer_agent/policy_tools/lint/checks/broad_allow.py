"""broad-allow: an allow that lets through what nobody meant to allow, such as any code or any program."""

from collections.abc import Iterator

from humanlayer_agent.action import FUNCTION
from humanlayer_agent.policy.command_catalog import CATALOG
from humanlayer_agent.policy.conditions.evaluation import CompiledRule
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy_tools.lint import sample_commands, witnesses
from humanlayer_agent.policy_tools.lint.finding import Check, Finding
from humanlayer_agent.policy_tools.lint.subject import Subject
from humanlayer_agent.policy_tools.lint.witnesses import Case
from humanlayer_agent.shell import BUILTINS

_SHOWN = 2
_CODE = frozenset({"code", "script", "stdin", "program", "option", "remote", "container", "package", "shell"})


def check(subject: Subject) -> Iterator[Finding]:
    """An allow that a dangerous command satisfies; unknown, where it names programs that the catalog does not know."""
    yield from _unmatched(subject)
    for rule in subject.linted:
        if rule.verdict is not Verdict.ALLOW or rule.confined is not None:
            continue  # what is confined may be anything
        found = list(_allowed(subject, rule))
        if found:
            yield _finding(subject, rule, found)
        else:
            yield from _not_known(subject, rule)


def _unmatched(subject: Subject) -> Iterator[Finding]:
    """`defaults: {unmatched: allow}` where it is enforced: whatever no rule is about is allowed."""
    policy, file = subject.policy, subject.files[-1]
    said = (file.document.data.get("defaults") or {}).get("unmatched")
    if said == "allow" and not policy.observe:
        cases = (subject.case(danger.command) for danger in witnesses.all_dangers())
        case = next((c for c in cases if c.allowed and not c.decision.rules), None)
        if case is not None:
            message = f"allows whatever no rule is about, such as `{case.command}`"
            yield Finding(file.place(("defaults", "unmatched")), "defaults", message, case.witness)


def _allowed(subject: Subject, rule: CompiledRule) -> Iterator[tuple[Case, str]]:
    """Dangerous commands that are allowed by `rule`, each with what it does."""
    for danger in witnesses.all_dangers():
        case = subject.case(danger.command, rule)
        if case.allowed and any(h.effect is None or h.effect.kind in danger.by for h in case.hits_of(rule)):
            yield case, danger.does
    if sample_commands.about_calls(rule.rule.when):
        case = subject.case("frobnicate(a=1)", rule, FUNCTION)
        if case.allowed and case.hits_of(rule):
            yield case, "calls any function"
    names = rule.programs or frozenset()
    for command in witnesses.shown_by_catalog() if names else ():
        if command.split(" ")[0] in names:
            case = subject.case(command, rule)
            if case.allowed and _runs_code(case, rule):
                yield case, "runs code that nobody has read"


def _runs_code(case: Case, rule: CompiledRule) -> bool:
    effects = [hit.effect for hit in case.hits_of(rule) if hit.effect is not None]
    return any(e.kind == "execute" and (e.unread or not e.resolved) and e.role in _CODE for e in effects)


def _finding(subject: Subject, rule: CompiledRule, found: list[tuple[Case, str]]) -> Finding:
    kinds: dict[str, list[str]] = {}
    for case, does in found:
        kinds.setdefault(does, []).append(f"`{case.command}`")
    said = "; ".join(f"{does}: {', '.join(shown[:_SHOWN])}" for does, shown in kinds.items())
    return Finding(subject.place(rule.rule, "when"), rule.rule.id, f"allows what {said}", found[0][0].witness)


def _not_known(subject: Subject, rule: CompiledRule) -> Iterator[Finding]:
    names = sorted(rule.programs or ())
    strange = [n for n in names if CATALOG.lookup(n.rpartition("/")[2]) is None and n not in BUILTINS]
    # What is asked of effects is known by its effects; only an allow of running it says that it may do anything.
    runs = rule.kinds is not None and "execute" in rule.kinds
    for name in strange if runs else ():
        case = subject.case(f"{name} a", rule)
        if case.allowed:
            message = (
                f"can't tell what {name} does with its arguments, or whether it runs code: the catalog has none of it"
            )
            yield Finding(subject.place(rule.rule, "when"), rule.rule.id, message, case.witness, unknown=True)


CHECK = Check("broad-allow", "error", "An allow lets through code that nobody has read, or worse.", check)
