"""The output of `hla policy test`: for people, as JSON, as JUnit XML."""

from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from humanlayer_agent.cli.shared.output import print_records
from humanlayer_agent.cli.shared.records import ExampleRecord
from humanlayer_agent.policy.language.examples import Result, examples_of
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.safe_text import one_line, visible

Results = Sequence[tuple[Policy, Sequence[Result]]]


def print_results(results: Results, format: str) -> None:
    """Print them as table, json, jsonl or junit."""
    if format == "table":
        _text(results)
    elif format == "junit":
        _junit(results)
    else:
        print_records(_records(results), format)


def _text(results: Results) -> None:
    for policy, found in results:
        failed = [result for result in found if not result.passed]
        for result in failed:
            example = result.example
            print(f"{one_line(example.origin)}: {example.name}: {example.kind}: {one_line(example.line)}")
            print(f"    expected {result.expected}, found {result.found}")
        untested = [
            rule.id for rule in policy.rules if not any(each.kind in ("match", "maybe") for each in examples_of(rule))
        ]
        if untested:
            print(f"{policy.name}: no test shows what these rules match: {', '.join(untested)}")
        print(f"{policy.name}: {len(found) - len(failed)} of {len(found)} examples passed")


def _records(results: Results) -> Iterator[ExampleRecord]:
    for policy, found in results:
        for result in found:
            yield {
                "policy": policy.name,
                "rule": result.example.rule.id,
                "exception": result.example.exception is not None,
                "origin": result.example.origin,
                "kind": result.example.kind,
                "command": result.example.command,
                "passed": result.passed,
                "expected": result.expected,
                "verdict": str(result.decision.verdict),
                "rules": list(result.decision.rules),
            }


def _junit(results: Results) -> None:
    top = ElementTree.Element("testsuites")
    for policy, found in results:
        failures = sum(not result.passed for result in found)
        suite = ElementTree.SubElement(
            top, "testsuite", name=policy.name, tests=str(len(found)), failures=str(failures), errors="0", skipped="0"
        )
        for result in found:
            example = result.example
            name = f"{example.kind}: {one_line(example.line)}"
            case = ElementTree.SubElement(suite, "testcase", classname=f"{policy.name}.{example.name}", name=name)
            if not result.passed:
                message = f"expected {result.expected}, found {result.found}"
                failure = ElementTree.SubElement(case, "failure", message=visible(message), type="policy")
                failure.text = visible(f"{example.origin}\n{message}")
    ElementTree.indent(top)
    print(ElementTree.tostring(top, encoding="unicode", xml_declaration=True))
