"""SARIF output, checked against what the standard asks of the parts that we emit.

`check` is for what a diff says, too. The schema below is our own: the properties and value sets that SARIF 2.1.0 (OASIS) gives to these objects, with every
property that we don't emit left out, so that it is stricter than the official one.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from humanlayer_agent.policy_tools.lint import CHECKS, Finding, Place, Witness
from humanlayer_agent.policy_tools.sarif import lint_log


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def array(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


TEXT = {"type": "string", "minLength": 1}
ONE_UP = {"type": "integer", "minimum": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
BAG = {"type": "object", "properties": {"tags": array(TEXT, uniqueItems=True)}}
MESSAGE = closed(["text"], text=TEXT)
MULTIFORMAT = closed(["text"], text=TEXT, markdown=TEXT)
ARTIFACT = closed(["uri"], uri={"type": "string", "format": "uri-reference"}, uriBaseId=TEXT)
LOCATION = closed(
    ["physicalLocation"],
    physicalLocation=closed(
        ["artifactLocation", "region"],
        artifactLocation=ARTIFACT,
        region=closed(["startLine"], startLine=ONE_UP, startColumn=ONE_UP),
    ),
    logicalLocations=array(closed(["name"], name=TEXT), uniqueItems=True),
)
RESULT = closed(
    ["message", "ruleId", "locations"],
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    kind={"enum": ["notApplicable", "pass", "fail", "review", "open", "informational"]},
    level=LEVEL,
    message=MESSAGE,
    locations=array(LOCATION, minItems=1, maxItems=1),
    partialFingerprints={"type": "object", "additionalProperties": {"type": "string"}},
    suppressions=array(closed(["kind"], kind={"enum": ["inSource", "external"]}, justification=TEXT), uniqueItems=True),
    properties=BAG,
)
RULE = closed(
    ["id"], id=TEXT, shortDescription=MULTIFORMAT, help=MULTIFORMAT, defaultConfiguration=closed([], level=LEVEL)
)
RUN = closed(
    ["tool", "results"],
    tool=closed(
        ["driver"], driver=closed(["name"], name=TEXT, fullName=TEXT, version=TEXT, rules=array(RULE, uniqueItems=True))
    ),
    invocations=array(closed(["executionSuccessful"], executionSuccessful={"type": "boolean"})),
    originalUriBaseIds={"type": "object", "additionalProperties": ARTIFACT},
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results=array(RESULT),
)
SCHEMA = closed(
    ["version", "runs"],
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"enum": ["2.1.0"]},
    runs=array(RUN, minItems=1),
)


def check(data: dict[str, Any]) -> None:
    """Raise for what the schema, or the standard's prose, forbids."""
    jsonschema.Draft7Validator(SCHEMA).validate(data)
    (run,) = data["runs"]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]  # 3.27.6
        assert (result.get("kind", "fail") == "fail") == (result["level"] != "none")  # 3.27.10
        for location in result["locations"]:
            artifact = location["physicalLocation"]["artifactLocation"]
            assert ("uriBaseId" in artifact) == (not re.match(r"[a-z]+:", artifact["uri"]))  # 3.4.4
            assert artifact.get("uriBaseId") in (None, *run["originalUriBaseIds"])
    for base in run["originalUriBaseIds"].values():
        assert base["uri"].startswith("file:///")
        assert base["uri"].endswith("/")  # 3.14.14
    texts = [r["message"]["text"] for r in run["results"]] + [t for r in rules for t in r["help"].values()]
    for text in texts:
        assert not re.search(r"(?<!\{)(\{\{)*\{(?!\{)", text), "a single brace is a placeholder (3.11.5)"


def finding(**more: Any) -> Finding:
    given: dict[str, Any] = {
        "place": Place("./p.yaml", "/work/here/p.yaml", 3, 5, ("rules", 0)),
        "about": "r",
        "message": "allows `cat ${X}`",
        "witness": Witness("cat ${X} {a,b}", "allow", ("r", "s")),
        "check": "broad-allow",
        "level": "error",
    }
    return Finding(**{**given, **more})


def one(*findings: Finding) -> Any:
    data = lint_log(findings, folder=Path("/work"), help_of=lambda name: f"# {name} {{x}}")
    check(json.loads(json.dumps(data)))
    return data["runs"][0]["results"]


def test_a_finding() -> None:
    (result,) = one(finding())
    assert (result["ruleId"], result["kind"], result["level"]) == ("broad-allow", "fail", "error")
    assert result["message"]["text"] == "r: allows `cat ${{X}}`. Witness: `cat ${{X}} {{a,b}}` - allow (r, s)"
    physical = result["locations"][0]["physicalLocation"]
    assert physical["artifactLocation"] == {"uri": "here/p.yaml", "uriBaseId": "SRCROOT"}
    assert physical["region"] == {"startLine": 3, "startColumn": 5}
    assert result["properties"]["witness"] == {"command": "cat ${X} {a,b}", "verdict": "allow", "rules": ["r", "s"]}


@pytest.mark.parametrize(
    ("more", "key", "value"),
    [
        ({"unknown": True}, "kind", "open"),
        ({"unknown": True}, "level", "none"),
        ({"ignored": "meant so"}, "suppressions", [{"kind": "inSource", "justification": "meant so"}]),
        ({"check": "unused-list", "level": "note", "about": "$x"}, "level", "note"),
    ],
)
def test_kinds(more: dict[str, Any], key: str, value: object) -> None:
    (result,) = one(finding(**more))
    assert result[key] == value


@pytest.mark.parametrize("command", ["a\nb", "\x1b[2J", "\ud800", "{0}", "}{", "[a](b)", "漢", "\x00"])
def test_any_command_can_be_a_witness(command: str) -> None:
    (result,) = one(finding(witness=Witness(command, "deny", ())))
    result["message"]["text"].encode("utf-8")


@pytest.mark.parametrize(
    ("disk", "uri"),
    [
        ("/work/a b/ä.yaml", "a%20b/%C3%A4.yaml"),
        ("/work/a:b.yaml", "a%3Ab.yaml"),
        ("/work/50%.yaml", "50%25.yaml"),
        ("/elsewhere/p.yaml", "file:///elsewhere/p.yaml"),
    ],
)
def test_files(disk: str, uri: str) -> None:
    (result,) = one(finding(place=Place("p", disk, 1, 1)))
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


def test_the_same_finding_has_the_same_fingerprint_wherever_it_stands() -> None:
    first, second, third = one(
        finding(), finding(place=Place("x", "/elsewhere/p.yaml", 9, 9)), finding(witness=Witness("ls", "allow", ()))
    )
    assert first["partialFingerprints"] == second["partialFingerprints"] != third["partialFingerprints"]


def test_every_check_is_described() -> None:
    data = lint_log([], folder=Path("/work"), help_of=lambda name: name)
    check(data)
    rules = data["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [each.id for each in CHECKS]


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": "2.0.0", "runs": []},
        {"version": "2.1.0", "runs": [{"tool": {"driver": {}}, "results": []}]},
        {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "x"}}, "results": [{"ruleId": "x"}]}]},
    ],
)
def test_the_checker_refuses(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        check(wrong)


def test_the_validator_of_others(tmp_path: Path) -> None:
    """Microsoft's validator holds the official schema (npm: @microsoft/sarif-multitool)."""
    tool = shutil.which("sarif-multitool")
    if tool is None:
        pytest.skip("sarif-multitool is not installed (npm install -g @microsoft/sarif-multitool); allowed in CI")

    def errors(data: dict[str, Any]) -> list[str]:
        path = tmp_path / "lint.sarif"
        path.write_text(json.dumps(data))
        environ = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
        command = [tool, "validate", str(path)]
        found = subprocess.run(command, capture_output=True, text=True, env=environ, check=False)
        assert "1 files scanned" in found.stdout
        return re.findall(r"error \w+: .*", found.stdout)

    findings = (
        finding(),
        finding(unknown=True),
        finding(ignored="meant so"),
        finding(check="unused-list", level="note"),
    )
    data = json.loads(json.dumps(lint_log(findings, folder=Path("/work"), help_of=lambda name: f"# {name}")))
    assert errors(data) == []
    del data["runs"][0]["tool"]["driver"]["name"]
    assert errors(data)
