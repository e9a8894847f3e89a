"""JUnit output, checked against what the schema that Jenkins reads (junit-10.xsd, as used for xUnit) allows."""

from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from humanlayer_agent.cli import main

SUITES = ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"})
SUITE = (
    {
        "name",
        "tests",
        "failures",
        "errors",
        "group",
        "time",
        "skipped",
        "timestamp",
        "hostname",
        "id",
        "package",
        "file",
    }
    | {"log", "url", "version"},
    {"name", "tests", "failures", "errors"},
    {"testsuite", "properties", "testcase", "system-out", "system-err"},
)
CASE = ({"name", "time", "classname", "group"}, {"name"}, {"skipped", "error", "failure", "system-out", "system-err"})
REASON = ({"type", "message"}, set(), set())
GRAMMAR = {
    "testsuites": SUITES,
    "testsuite": SUITE,
    "testcase": CASE,
    "failure": REASON,
    "error": REASON,
    "skipped": REASON,
}
"""For each element: the attributes it may have, those it must have, and the elements it may hold."""


@cache
def schema() -> Any:
    """The schema itself (MIT licence, see the file)."""
    import xmlschema

    return xmlschema.XMLSchema(str(Path(__file__).parents[2] / "data" / "junit-4.xsd"))


def check(element: ElementTree.Element) -> None:
    """Raise for what the schemas do not allow, and for counts that are not so."""
    if element.tag == "testsuites":
        schema().validate(element)
    may, must, inner = GRAMMAR[element.tag]
    assert set(element.attrib) <= may, element.attrib
    assert set(element.attrib) >= must, element.attrib
    assert {each.tag for each in element} <= inner
    if inner:
        assert not (element.text or "").strip(), "no text beside elements"
    if element.tag == "testsuite":
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(element.get(attribute, "0")) == len(element.findall(f"testcase/{tag}"))
        assert int(element.get("tests", "")) == len(element.findall("testcase"))
    for each in element:
        check(each)


def junit(capsys: pytest.CaptureFixture[str], *names: str) -> ElementTree.Element:
    main(["policy", "test", *names, "--format", "junit"])
    out = capsys.readouterr().out
    assert out.startswith("<?xml version='1.0' encoding=")
    return ElementTree.fromstring(out.partition("?>")[2])


@pytest.mark.long
def test_shipped_policies(capsys: pytest.CaptureFixture[str]) -> None:
    top = junit(capsys, "guard", "strict")
    check(top)
    assert [suite.get("name") for suite in top] == ["guard", "strict"]


def test_failures_and_odd_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p\x01<&>.yaml"
    path.write_text(
        "version: 1\npolicy: p\nrules:\n  - id: r\n    decision: ask\n    when: {program: rm}\n"
        '    tests: {match: ["ls \\x07 \\e[2J <&>\\"\\u202e", "rm x ]]>"], not_match: ["rm \\0"]}\n'
    )
    top = junit(capsys, str(path))
    check(top)
    assert top[0].get("failures") == str(len(top.findall(".//failure"))) != "0"
    assert all(failure.get("message", "").startswith("expected ") for failure in top.iter("failure"))


@pytest.mark.parametrize(
    "wrong",
    [
        "<testsuites><testcase name='x'/></testsuites>",
        "<testsuites><testsuite name='x' tests='1' failures='0' errors='0'/></testsuites>",
        "<testsuites><testsuite name='x' tests='1' failures='0' errors='0'><testcase/></testsuite></testsuites>",
        "<testsuites colour='red'/>",
        "<testsuites>text</testsuites>",
    ],
)
def test_the_checker_refuses(wrong: str) -> None:
    from xmlschema import XMLSchemaValidationError

    with pytest.raises((AssertionError, XMLSchemaValidationError)):
        check(ElementTree.fromstring(wrong))


def test_the_schema_refuses_something() -> None:
    from xmlschema import XMLSchemaValidationError

    for text in ("<testsuites><case/></testsuites>", "<testsuites><testsuite><testcase/></testsuite></testsuites>"):
        with pytest.raises(XMLSchemaValidationError):
            schema().validate(ElementTree.fromstring(text))
