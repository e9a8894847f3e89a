"""What became looser, in the Static Analysis Results Interchange Format (SARIF 2.1.0): one result a command."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from humanlayer_agent import __version__
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.diff import Change, Diff
from humanlayer_agent.policy_tools.lint.finding import Place
from humanlayer_agent.policy_tools.lint_sarif import SCHEMA, artifact, message

_LOOSENED = {
    "id": "loosened",
    "shortDescription": {"text": "A recorded command is judged less strictly than before."},
    "help": {"text": "Accept it, with a reason, in the file that --accept names; or mend the rule."},
    "defaultConfiguration": {"level": "error"},
}


def log(diff: Diff, old: Policy, new: Policy, *, folder: Path) -> dict[str, Any]:
    """A SARIF log with one run. A loosening that is accepted is there as suppressed, with the reason.

    Args:
        folder: files below it are named relative to it.
    """
    driver = {
        "name": "hla policy diff",
        "fullName": f"humanlayer-agent {__version__} policy diff",
        "version": __version__,
        "rules": [_LOOSENED],
    }
    results = [_result(change, old, new, folder) for _, _, found in diff.cells() for change in found if change.loosened]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "originalUriBaseIds": {"SRCROOT": {"uri": folder.absolute().as_uri().rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(change: Change, old: Policy, new: Policy, folder: Path) -> dict[str, Any]:
    before, after = (rule or "no rule" for rule in change.rules)
    place = next(_places(change, old, new), Place(new.name, new.sources[-1].path, 1, 1))
    said = f"`{change.command}`: {change.old} ({before}) becomes {change.new} ({after}); {change.count} times."
    result: dict[str, Any] = {
        "ruleId": "loosened",
        "ruleIndex": 0,
        "level": "error",
        "message": {"text": message(said)},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": artifact(place, folder),
                    "region": {"startLine": place.line, "startColumn": place.column},
                }
            }
        ],
        "partialFingerprints": {"change/v1": change.digest},
    }
    if change.accepted:
        result["suppressions"] = [{"kind": "external", "justification": change.accepted}]
    return result


def _places(change: Change, old: Policy, new: Policy) -> Iterator[Place]:
    """Where the rule stands that decides now; where none does, the file that is new."""
    rule = next((r for r in new.rules if r.id == change.rules[1]), None)
    source = {each.name: each.path for each in new.sources}
    if rule is not None:
        name, _, line = rule.origin.rpartition(":")
        if name in source and line.isdigit():
            yield Place(name, source[name], int(line), 1)
