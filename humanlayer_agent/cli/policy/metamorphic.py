"""`hla policy test --metamorphic`: every example rewritten and judged again; for people, as JSON, as JUnit XML."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from xml.etree import ElementTree

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from humanlayer_agent.cli.shared.output import print_records
from humanlayer_agent.cli.shared.records import RewritingRecord
from humanlayer_agent.errors import ConfigError, did_you_mean
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.metamorphic.run import MOST_DEALT, Checked, Failure, examples_of, run, select
from humanlayer_agent.safe_text import one_line, visible

Results = Sequence[tuple[Policy, Sequence[Checked]]]


def run_metamorphic(
    policies: Sequence[Policy],
    *,
    seed: int,
    transformations: str,
    rules: str = "",
    again: bool = False,
    thorough: bool = False,
    confined: bool,
    format: str,
) -> int:
    """Run metamorphic tests and print what comes of them. Returns the exit code: 1 where one fails.

    Args:
        policies: the policies.
        seed: what chance depends on.
        confined: as where what is allowed can be confined.
        transformations: names, separated by commas, with wildcards; "" for all.
        rules: ids of rules, separated by commas, with wildcards; "" for those of one's own.
        again: judge also what is remembered.
        thorough: judge each rewriting of all commands of a rule.
        format: table, json, jsonl or junit.

    Raises:
        ConfigError: no transformation has such a name, or no rule.
    """
    names, chosen = _named(transformations), _split(rules)
    _check_rules(policies, chosen)
    results: list[tuple[Policy, Sequence[Checked]]] = []
    for policy in policies:
        mine = [pattern for pattern in chosen if any(fnmatchcase(rule.id, pattern) for rule in policy.rules)]
        if chosen and not mine:
            continue
        with _progress(policy.name) as progress:
            found = run(
                policy,
                seed=seed,
                rules=mine,
                names=names,
                most=None if thorough else MOST_DEALT,
                confined=confined,
                remember=not again,
                progress=progress,
            )
            results.append((policy, found))
    if format == "table":
        _text(results, seed, own=not chosen, thorough=thorough)
    elif format == "junit":
        _junit(results)
    else:
        print_records(_records(results), format)
    return 1 if any(checked.failures for _, found in results for checked in found) else 0


def _split(patterns: str) -> list[str]:
    return [each.strip() for each in patterns.split(",") if each.strip()]


def _check_rules(policies: Sequence[Policy], patterns: Sequence[str]) -> None:
    ids = list(dict.fromkeys(rule.id for policy in policies for rule in policy.rules))
    for pattern in patterns:
        if not any(fnmatchcase(each, pattern) for each in ids):
            raise ConfigError(f"no rule is called {one_line(pattern)}; {did_you_mean(pattern, ids)}")


def _named(patterns: str) -> list[str]:
    try:
        return select(_split(patterns))
    except KeyError as error:
        (name,) = error.args
        raise ConfigError(f"no transformation is called {one_line(name)}; {did_you_mean(name, select(()))}") from None


# ---- for people -------------------------------------------------------------------------------------------


def _text(results: Results, seed: int, *, own: bool, thorough: bool) -> None:
    for policy, found in results:
        for (place, chain), failures in _alike(found).items():
            failure = min(failures, key=lambda each: len(each.rewritten))
            print(f"{place}: {' + '.join(chain)}")
            _side(failure.original, failure.before)
            _side(failure.rewritten, failure.after)
            if len(failures) > 1:
                print(f"    (and {len(failures) - 1} more: --format json shows all)")
        weak = sum(bool(checked.failures) for checked in found)
        tried = sum({checked.example.command: checked.tried for checked in found}.values())
        said = f"{len(found) - weak} of {len(found)} examples passed, {tried} rewritings with seed {seed}"
        if remembered := sum(checked.remembered for checked in found):
            said += f"; {remembered} as they were judged before (--again judges them)"
        print(f"{policy.name}: {said}")
        commands = Counter(rule for rule, _ in {(c.example.rule.id, c.example.command) for c in found})
        if not thorough and any(count > MOST_DEALT for count in commands.values()):
            print(f"{policy.name}: each rewriting of {MOST_DEALT} commands of a rule, in turns (--thorough: of all)")
        left_out = len({e.rule.id for e in examples_of(policy, ["*"])} - {e.rule.id for e in examples_of(policy)})
        if own and left_out:
            print(f"{policy.name}: {left_out} rules that ship are left out: --rules '*' judges them with your policy")


def _alike(found: Sequence[Checked]) -> dict[tuple[str, tuple[str, ...]], list[Failure]]:
    """Failures by the rule whose example they come from, and by what was done to it."""
    out: dict[tuple[str, tuple[str, ...]], list[Failure]] = {}
    for checked in found:
        example = checked.example
        for failure in checked.failures:
            out.setdefault((f"{one_line(example.origin)}: {example.name}", failure.chain), []).append(failure)
    return out


def _side(command: str, decision: PolicyDecision) -> None:
    """A command line with its verdict; further lines stand below the first."""
    first, *more = visible(command).split("\n")
    print(f"    {_decided(decision)}")
    print("\n".join([f"        {first}", *(f"        {line}" for line in more)]))


def _decided(decision: PolicyDecision) -> str:
    return f"{decision.verdict} ({', '.join(decision.rules) or 'no rule'})"


# ---- for programs -----------------------------------------------------------------------------------------


def _records(results: Results) -> Iterator[RewritingRecord]:
    for policy, found in results:
        for checked in found:
            yield {
                "policy": policy.name,
                "rule": checked.example.rule.id,
                "origin": checked.example.origin,
                "kind": checked.example.kind,
                "command": checked.example.command,
                "rewritings": checked.tried,
                "passed": not checked.failures,
                "remembered": checked.remembered,
                "failures": [_row(failure) for failure in checked.failures],
            }


def _row(failure: Failure) -> dict[str, object]:
    def side(command: str, decision: PolicyDecision) -> dict[str, object]:
        return {"command": command, "verdict": str(decision.verdict), "rules": list(decision.rules)}

    return {
        "transformations": list(failure.chain),
        "expected": f"{failure.before.verdict} or {'milder' if failure.hardened else 'stricter'}",
        "original": side(failure.original, failure.before),
        "rewritten": side(failure.rewritten, failure.after),
    }


def _junit(results: Results) -> None:
    top = ElementTree.Element("testsuites")
    for policy, found in results:
        failures = sum(bool(checked.failures) for checked in found)
        suite = ElementTree.SubElement(
            top, "testsuite",
            name=f"{policy.name} metamorphic", tests=str(len(found)), failures=str(failures), errors="0", skipped="0",
        )  # fmt: skip
        for checked in found:
            example = checked.example
            name = f"{example.kind}: {one_line(example.line)}"
            case = ElementTree.SubElement(suite, "testcase", classname=f"{policy.name}.{example.name}", name=name)
            if checked.failures:
                first = checked.failures[0]
                message = f"{' + '.join(first.chain)}: {_decided(first.after)} instead of {_decided(first.before)}"
                failure = ElementTree.SubElement(case, "failure", message=visible(message), type="metamorphic")
                failure.text = "\n\n".join([example.origin, *map(_described, checked.failures)])
    ElementTree.indent(top)
    print(ElementTree.tostring(top, encoding="unicode", xml_declaration=True))


def _described(failure: Failure) -> str:
    sides = ((failure.original, failure.before), (failure.rewritten, failure.after))
    return "\n".join([" + ".join(failure.chain), *(f"{_decided(d)}: {visible(command)}" for command, d in sides)])


# ---- progress ---------------------------------------------------------------------------------------------


@contextmanager
def _progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal for people who wait; nothing where standard error is no terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
