"""Writes the Static Analysis Results Interchange Format (SARIF 2.1.0 of OASIS), for code hosts and editors.

A finding of the linter is a result, and so is a command that a new policy judges less strictly.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

from humanlayer_agent import __version__
from humanlayer_agent.policy.language.policy import Policy
from humanlayer_agent.policy_tools.diff import Change, Diff
from humanlayer_agent.policy_tools.lint.finding import Finding, Place, Witness
from humanlayer_agent.policy_tools.lint.linter import CHECKS

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "SRCROOT"


def lint_log(findings: Iterable[Finding], *, folder: Path, help_of: Callable[[str], str]) -> dict[str, Any]:
    """Return a SARIF log of the linter's findings.

    What is unknown is a result of the kind `open`, as the standard has it for what could not be decided; what a comment
    hides is there as suppressed.

    Args:
        folder: files below it are named relative to it.
        help_of: gives the documentation page (Markdown) of a check.
    """
    rules = [_rule(check.id, check.summary, check.level, help_of(check.id), markdown=True) for check in CHECKS]
    return _log("lint", rules, [_of_finding(finding, folder) for finding in findings], folder)


def diff_log(diff: Diff, old: Policy, new: Policy, *, folder: Path) -> dict[str, Any]:
    """Return a SARIF log of what became looser. A loosening that is accepted is there as suppressed, with the reason.

    Args:
        folder: files below it are named relative to it.
    """
    loosened = _rule(
        "loosened",
        "A recorded command is judged less strictly than before.",
        "error",
        "Accept it, with a reason, in the file that --accept names; or mend the rule.",
    )
    changes = (change for _, _, found in diff.cells() for change in found if change.loosened)
    return _log("diff", [loosened], [_of_change(change, new, folder) for change in changes], folder)


def _of_finding(finding: Finding, folder: Path) -> dict[str, Any]:
    witness = finding.witness
    identity = "\0".join(
        (finding.check, os.path.basename(finding.place.disk), finding.about, witness.command if witness else "")
    )
    about = f"{finding.about}: " if finding.about else ""
    result = _result(
        finding.check,
        [check.id for check in CHECKS].index(finding.check),
        "none" if finding.unknown else finding.level,
        f"{about}{finding.message}.{_shown(witness)}",
        _location(finding.place, folder),
        ("checkRuleWitness/v1", hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()),
        kind="open" if finding.unknown else "fail",
        suppressed=("inSource", finding.ignored),
    )
    if finding.about:
        result["locations"][0]["logicalLocations"] = [{"name": finding.about}]
    if witness is not None:
        data = {"command": witness.command, "verdict": witness.verdict, "rules": list(witness.rules)}
        result["properties"] = {"witness": data}
    return result


def _shown(witness: Witness | None) -> str:
    """A sentence with the witness; "" where there is none."""
    if witness is None:
        return ""
    if not witness.verdict:
        return f" Witness: `{witness.command}`"
    return f" Witness: `{witness.command}` - {witness.verdict} ({', '.join(witness.rules) or 'no rule'})"


def _of_change(change: Change, new: Policy, folder: Path) -> dict[str, Any]:
    before, after = (rule or "no rule" for rule in change.rules)
    often = f"{change.count} times" if change.shows is None else f"{change.shows.name}: {change.shows.text}"
    return _result(
        "loosened",
        0,
        "error",
        f"`{change.command}`: {change.old} ({before}) becomes {change.new} ({after}); {often}.",
        _location(_deciding(change, new), folder),
        ("change/v1", change.digest),
        suppressed=("external", change.accepted),
    )


def _deciding(change: Change, new: Policy) -> Place:
    """Where the rule stands that decides now; where none does, the file that is new."""
    rule = next((r for r in new.rules if r.id == change.rules[1]), None)
    source = {each.name: each.path for each in new.sources}
    if rule is not None:
        name, _, line = rule.origin.rpartition(":")
        if name in source and line.isdigit():
            return Place(name, source[name], int(line), 1)
    return Place(new.name, new.sources[-1].path, 1, 1)


# ---- the format -------------------------------------------------------------------------------------------


def _log(command: str, rules: list[dict[str, Any]], results: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """A log with one run of `hla policy COMMAND`."""
    driver = {
        "name": f"hla policy {command}",
        "fullName": f"humanlayer-agent {__version__} policy {command}",
        "version": __version__,
        "rules": rules,
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "originalUriBaseIds": {_ROOT: {"uri": folder.absolute().as_uri().rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(id_: str, summary: str, level: str, page: str, *, markdown: bool = False) -> dict[str, Any]:
    return {
        "id": id_,
        "shortDescription": {"text": _message(summary)},
        "help": {"text": _message(page), **({"markdown": _message(page)} if markdown else {})},
        "defaultConfiguration": {"level": level},
    }


def _result(
    rule: str,
    index: int,
    level: str,
    text: str,
    location: dict[str, Any],
    fingerprint: tuple[str, str],
    *,
    suppressed: tuple[str, str],
    kind: str = "",
) -> dict[str, Any]:
    """A result; `suppressed` says by what, and why: "" where it is not. Without a `kind` it is a failure."""
    name, value = fingerprint
    by, why = suppressed
    return {
        "ruleId": rule,
        "ruleIndex": index,
        **({"kind": kind} if kind else {}),
        "level": level,
        "message": {"text": _message(text)},
        "locations": [location],
        "partialFingerprints": {name: value},
        **({"suppressions": [{"kind": by, "justification": why}]} if why else {}),
    }


def _location(place: Place, folder: Path) -> dict[str, Any]:
    region = {"startLine": place.line, "startColumn": place.column}
    return {"physicalLocation": {"artifactLocation": _artifact(place, folder), "region": region}}


def _artifact(place: Place, folder: Path) -> dict[str, str]:
    """The file of `place`, relative to `folder` where it lies below."""
    path = Path(place.disk).absolute()
    try:
        relative = path.relative_to(folder.absolute())
    except ValueError:
        return {"uri": path.as_uri()}
    quoted = quote_from_bytes(os.fsencode(relative))  # also a colon, which would begin a scheme
    return {"uri": quoted, "uriBaseId": _ROOT}


def _message(text: str) -> str:
    """A message string: braces stand for placeholders there, so they are doubled (section 3.11.5)."""
    return text.encode("utf-8", "replace").decode().replace("{", "{{").replace("}", "}}")
