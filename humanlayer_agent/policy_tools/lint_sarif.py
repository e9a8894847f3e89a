"""Findings in the Static Analysis Results Interchange Format (SARIF 2.1.0 of OASIS), for code hosts and editors."""

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote_from_bytes

from humanlayer_agent import __version__
from humanlayer_agent.policy_tools.lint.finding import Check, Finding, Place, Witness
from humanlayer_agent.policy_tools.lint.linter import CHECKS

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "SRCROOT"


def log(findings: Iterable[Finding], *, folder: Path, help_of: Callable[[str], str]) -> dict[str, Any]:
    """A SARIF log with one run.

    What is unknown is a result of the kind `open`, as the standard has it for what could not be decided; what a comment
    hides is there as suppressed.

    Args:
        folder: files below it are named relative to it.
        help_of: gives the documentation page (Markdown) of a check.
    """
    driver = {
        "name": "hla policy lint",
        "fullName": f"humanlayer-agent {__version__} policy lint",
        "version": __version__,
        "rules": [_rule(check, help_of(check.id)) for check in CHECKS],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True}],
        "originalUriBaseIds": {_ROOT: {"uri": folder.absolute().as_uri().rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, folder) for finding in findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(check: Check, page: str) -> dict[str, Any]:
    return {
        "id": check.id,
        "shortDescription": {"text": message(check.summary)},
        "help": {"text": message(page), "markdown": message(page)},
        "defaultConfiguration": {"level": check.level},
    }


def _result(finding: Finding, folder: Path) -> dict[str, Any]:
    place, witness = finding.place, finding.witness
    physical = {
        "artifactLocation": artifact(place, folder),
        "region": {"startLine": place.line, "startColumn": place.column},
    }
    location: dict[str, Any] = {"physicalLocation": physical}
    if finding.about:
        location["logicalLocations"] = [{"name": finding.about}]
    identity = "\0".join(
        (finding.check, os.path.basename(place.disk), finding.about, witness.command if witness else "")
    )
    result: dict[str, Any] = {
        "ruleId": finding.check,
        "ruleIndex": [check.id for check in CHECKS].index(finding.check),
        "kind": "open" if finding.unknown else "fail",
        "level": "none" if finding.unknown else finding.level,
        "message": {"text": message(f"{_subject(finding)}{finding.message}.{shown(witness)}")},
        "locations": [location],
        "partialFingerprints": {"checkRuleWitness/v1": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()},
    }
    if finding.ignored:
        result["suppressions"] = [{"kind": "inSource", "justification": finding.ignored}]
    if witness is not None:
        data = {"command": witness.command, "verdict": witness.verdict, "rules": list(witness.rules)}
        result["properties"] = {"witness": data}
    return result


def _subject(finding: Finding) -> str:
    return f"{finding.about}: " if finding.about else ""


def shown(witness: Witness | None) -> str:
    """A sentence with the witness; "" where there is none."""
    if witness is None:
        return ""
    if not witness.verdict:
        return f" Witness: `{witness.command}`"
    return f" Witness: `{witness.command}` - {witness.verdict} ({', '.join(witness.rules) or 'no rule'})"


def artifact(place: Place, folder: Path) -> dict[str, str]:
    """The file of `place`, relative to `folder` where it lies below."""
    path = Path(place.disk).absolute()
    try:
        relative = path.relative_to(folder.absolute())
    except ValueError:
        return {"uri": path.as_uri()}
    quoted = quote_from_bytes(os.fsencode(relative))  # also a colon, which would begin a scheme
    return {"uri": quoted, "uriBaseId": _ROOT}


def message(text: str) -> str:
    """A message string: braces stand for placeholders there, so they are doubled (section 3.11.5)."""
    return text.encode("utf-8", "replace").decode().replace("{", "{{").replace("}", "}}")
