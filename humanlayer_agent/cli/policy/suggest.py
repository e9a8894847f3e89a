"""`hla policy suggest`: what humans always approved, as exceptions in a file for review, with the proof."""

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path

from humanlayer_agent.action import Action
from humanlayer_agent.cli.policy.allow import day
from humanlayer_agent.cli.policy.diff import headline
from humanlayer_agent.cli.policy.replay import counted, engine, items
from humanlayer_agent.cli.shared.store_access import open_store
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language import loader
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy.language.sources import BUILTIN, name_of
from humanlayer_agent.policy_tools.diff import over_tests
from humanlayer_agent.policy_tools.diff.acceptance import Accepted
from humanlayer_agent.policy_tools.exception_drafts import Draft, Part, add_tests
from humanlayer_agent.policy_tools.lint import lint
from humanlayer_agent.policy_tools.replay import Judged
from humanlayer_agent.policy_tools.replay.formats import find
from humanlayer_agent.policy_tools.suggestions import Asked, Suggestion, suggest
from humanlayer_agent.policy_tools.yaml_additions import added
from humanlayer_agent.safe_text import one_line

DAYS = 90
"""So long the exceptions hold."""
_UNITS = {"d": 86_400, "h": 3_600}
_APPROVED = frozenset({"approved", "consumed", "lapsed", "invalidated"})
_REFUSED = frozenset({"rejected", "terminated", "revoked", "answered"})
SIMULATED = "simulated"


def run_suggest(
    base: str,
    *,
    since: str,
    runs: Sequence[Path],
    store: str | None,
    project: Path | None,
    assume_approved: bool,
    output: Path,
) -> int:
    """Write what would have answered what was always approved to `output`, and print the proof.

    Args:
        base: the policy that is extended.
        since: how far back the log is read, such as "30d".
        runs: recorded runs; what is in them stands in for the log of the store, unless that is named too.
        store: whose log is read; None: the user's own, unless there are `runs`.
        project: the directory that agents worked for, whatever runs say.
        assume_approved: what ran in the runs, and would be asked about, counts as approved.
        output: must not be there yet.

    Returns:
        The exit code: 0 something is suggested, 1 nothing.

    Raises:
        ConfigError: something can't be read or written; the runs don't say who approved what.
    """
    if output.exists():
        raise ConfigError(f"{output} is there already: --output names another file, or take it away")
    policy = loader.load(loader.named(base), tested=False)
    asked = [
        *(_from_runs(policy, runs, project, assume_approved)),
        *(_from_store(store, since) if store or not runs else ()),
    ]
    found = suggest(asked, _directors(policy))
    refused = [each for each in asked if each.refused]
    print(f"{counted(len(asked), 'action')} asked about, {len(refused):,} of them refused;")
    print(f"of {found.asked:,} that this policy asks about, {found.drafted:,} can be said narrowly")
    if not (found.draft.parts or found.denials):
        print("nothing is suggested: nothing was approved ten times, or by two people")
        return 1
    draft = output.with_name(f".{output.name}.{os.getpid()}.yaml")
    try:
        text, new = _written(policy, base, draft, found)
        if wrong := _let_through(new, refused):
            raise ConfigError(f"nothing is written: it would let through what was refused: {one_line(wrong)}")
        proof = list(_proof(policy, new, [each for each in asked if not each.refused]))
        with open(output, "x", encoding="utf-8") as file:
            file.write("".join(f"# {line}\n" for line in _head(base, asked, proof)) + text)
    except OSError as error:
        raise ConfigError(f"{output}: can't be written: {error.strerror}") from error
    finally:
        draft.unlink(missing_ok=True)
    print("\n".join(proof))
    own = [rule.decision for rule in new.rules if not rule.inherited]
    counts = len(new.all_exceptions()), own.count("allow"), own.count("deny")
    print(f"{output}: " + ", ".join(map(counted, counts, ("exception", "allow", "denial"))))
    print("read it, and put what you want into your policy: nothing is in force by itself")
    return 0


# ---- what was asked about -----------------------------------------------------------------------------------


def _from_runs(policy: Policy, runs: Sequence[Path], project: Path | None, assume_approved: bool) -> Iterator[Asked]:
    """What this policy asks about in recorded runs, and who approved it."""
    told = False
    for row in engine([policy], project).replay(items(find(runs))) if runs else ():
        if not isinstance(row, Judged) or row.decisions[0].verdict is not Verdict.ASK:
            continue
        step = row.step
        if step.verdict:
            told = True
            if step.verdict == "ask":
                yield Asked(step.command, row.cwd, row.project, (), refused=not step.ran)
        elif assume_approved and step.ran:
            told = True
            yield Asked(step.command, row.cwd, row.project, (SIMULATED,))
    if runs and not told:
        hint = "--assume-approved takes it that what ran was approved, to try this out"
        raise ConfigError(f"nothing in these runs says what humans approved: {hint}")


def _from_store(store: str | None, since: str) -> Iterator[Asked]:
    """The requests of a store that humans have answered."""
    match = re.fullmatch(r"([0-9]{1,5})([dh])", since)
    if match is None:
        raise ConfigError(f"--since {since}: expected a number of days or hours, such as 30d or 12h")
    first = (time.time() - int(match[1]) * _UNITS[match[2]]) * 1000
    with closing(open_store(store)) as opened:
        for request in opened.requests(state="settled"):
            if request.created < first or request.state not in _APPROVED | _REFUSED:
                continue
            votes = [vote for vote in opened.votes(request.id) if vote.answer == "approve"]
            people = tuple(dict.fromkeys(vote.person for vote in votes))
            action = request.action
            yield Asked(action.content, action.cwd, action.project, people, refused=request.state in _REFUSED)


def _directors(policy: Policy) -> Callable[[str], Director]:
    from humanlayer_agent.configuration import readable

    @cache
    def director(project: str) -> Director:
        return Director(policy, project=project, reader=readable(project, confined=False)[0])

    return director


# ---- the file, and the proof --------------------------------------------------------------------------------


def _written(policy: Policy, base: str, path: Path, found: Suggestion) -> tuple[str, Policy]:
    """The text of the file, and the policy that it is, written to `path`; its tests hold."""
    name = name_of(loader.named(base))
    extends = name if name.startswith(BUILTIN) else os.path.relpath(loader.named(base), path.parent)
    begin = f"version: 1\npolicy: suggested\nextends: [{extends}]\n"
    reason = f"Approved again and again, as the log had it on {day(0)}."
    numbered = [{**each, "reason": f"{reason} {n}"} for n, each in enumerate(found.draft.exceptions(reason, day(DAYS)))]
    rules = found.draft.rules(reason, [rule.id for rule in policy.rules])
    denied = Draft([Part("", part.when, part.commands) for part in found.denials])
    taken = [*(rule.id for rule in policy.rules), *(each["id"] for each in rules)]
    denials = denied.rules("Refused again and again.", taken)
    for each in denials:
        each |= {"decision": "deny", "suggestion": "Do without it."}
    path.write_text(added(begin, name, {"rules": [*rules, *denials], "exceptions": numbered}), encoding="utf-8")
    made = loader.load(path, tested=False)
    add_tests(made, found.draft, numbered, rules)
    add_tests(made, denied, [], denials)
    # What no example shows is not suggested.
    shown = [each for each in (*rules, *denials) if "match" in each["tests"]]
    exceptions = [{**each, "reason": reason} for each in numbered if "match" in each["tests"]]
    text = added(begin, name, {"rules": shown, "exceptions": exceptions})
    path.write_text(text, encoding="utf-8")
    return text, loader.load(path)


def _let_through(policy: Policy, refused: Sequence[Asked]) -> str:
    """Something that a human has refused, and that a policy allows; "" where there is nothing."""
    director = _directors(policy)
    return next((each.command for each in refused if _verdict(director, each) is Verdict.ALLOW), "")


def _verdict(director: Callable[[str], Director], each: Asked) -> Verdict:
    """What is said of an action now."""
    return director(each.project).evaluate(Action(each.command, cwd=each.cwd, project=each.project)).verdict


def _proof(old: Policy, new: Policy, approved: Sequence[Asked]) -> Iterator[str]:
    """What the suggestion would have changed, and what else it does, a line each."""
    director = _directors(new)
    after = sum(_verdict(director, each) is not Verdict.ALLOW for each in approved)
    yield f"replay: {len(approved):,} approved asks, {after:,} with this policy"
    diff = over_tests(old, new, Accepted())
    ours = {command for rule in new.rules if not rule.inherited for command in rule.tests.match}
    ours |= {command for exception in new.all_exceptions() for command in exception.tests.match}
    others = [c.command for _, _, changes in diff.cells() for c in changes if c.loosened and c.command not in ours]
    yield f"over the tests of the rules: {headline(diff).plain}"
    yield f"looser but not approved: {', '.join(map(one_line, others)) or 'nothing'}"
    findings = [finding for finding in lint(new) if finding.counts]
    said = "; ".join(f"{finding.check}: {one_line(finding.about)}" for finding in findings)
    yield f"lint: {said or 'nothing'}; its tests pass"


def _head(base: str, asked: Sequence[Asked], proof: Sequence[str]) -> list[str]:
    """The comment at the head of the file."""
    return [
        f"Suggested by hla policy suggest on {day(0)}, over {one_line(base)}, from {counted(len(asked), 'action')}",
        "that somebody was asked about. For review: nothing of it is in force before it stands in a policy that is.",
        *proof,
    ]
