"""failing-test: an example in a rule that is not decided as it says."""

from collections.abc import Iterator

from humanlayer_agent.policy.language import examples
from humanlayer_agent.policy_tools.lint.finding import Check, Finding, Witness
from humanlayer_agent.policy_tools.lint.subject import Subject


def check(subject: Subject) -> Iterator[Finding]:
    """Every example of the rules in force."""
    written = {id(rule) for rule in subject.written}
    for result in examples.run(subject.policy):
        example, decision = result.example, result.decision
        exception = example.exception
        if result.passed or (id(example.rule) not in written and exception is None):
            continue
        at = examples.place_of(example)
        place = subject.place(example.rule, *at) if exception is None else subject.place_of(exception, *at)
        message = f"`{example.kind}` expects that {result.expected}; found {result.found}"
        witness = Witness(example.line, str(decision.verdict), decision.rules)
        yield Finding(place, example.rule.id, message, witness)


CHECK = Check("failing-test", "error", "An example is not decided as it says.", check)
