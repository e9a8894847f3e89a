"""Write docs/policy-file.md: every key of a policy file, made from the classes that check one.

python docs/make_policy_file.py
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from make_api import Module

from humanlayer_agent.policy.language import policy as language
from humanlayer_agent.policy.language.field_types import Written, keys_of
from humanlayer_agent.shell import EFFECT_KINDS, WAYS

PAGE = Path(__file__).with_name("policy-file.md")
_HOME = "humanlayer_agent.policy.language"
_BEGINNING = """# Policy files

<!-- Made by docs/make_policy_file.py from humanlayer_agent/policy/language: change the fields there. -->

A policy is a YAML file. Every key is listed here; [policies](policies.md) says what they come to, and [the
cookbook](cookbook.md) has 46 rules to copy. An unknown key is an error with file, line and column.

A list of names may be one name without the list around it. `$name` in a list of patterns stands for a list of the file.
"""
_END = """
## Effects of commands

`effect` and `effects` take these kinds: {kinds}.

Effects of the kind `database` say what statements of SQL do to tables: their `role` is `read`, `change`, `delete`,
`administer` (accounts and settings of a server) or `secret` (where it keeps passwords).

## Placeholders

A reason or suggestion may hold `{{{{ does }}}}` (a sentence about the effects that the rule is about, without its full
stop: "Deletes a, b, c and 4 more"), `{{{{ command }}}}`, `{{{{ program }}}}`, `{{{{ effect }}}}`, `{{{{ operand }}}}`,
`{{{{ paths }}}}`, `{{{{ hosts }}}}`, `{{{{ subcommand }}}}`, `{{{{ attributes }}}}` (the account, cluster or place),
`{{{{ source }}}}` (where the data of a `flow` comes from), `{{{{ database }}}}` (the server
or the file of a database) and `{{{{ unresolved }}}}` (what nobody can know). Nothing else is
evaluated. What stands for a name is safe to show on one line; of more than three operands the others are counted, and
long ones are shortened.
"""


@dataclass(frozen=True)
class Section:
    """A part of the page: its heading, and the class whose fields are the keys."""

    title: str
    name: str
    module: str = "policy"
    level: int = 2


SECTIONS = (
    Section("The file", "PolicyFile", "schema"),
    Section("Defaults", "WrittenDefaults", "schema"),
    Section("Keep", "WrittenKeep", "schema", 3),
    Section("Confinements", "WrittenConfinement"),
    Section("Rules", "WrittenRule"),
    Section("Override", "Override", level=3),
    Section("Route", "RaisedRoute", level=3),
    Section("Grant", "Grantable", level=3),
    Section("Tests", "Tests", level=3),
    Section("Given", "GivenTests", level=3),
    Section("Circumstances", "Given", level=3),
    Section("Exceptions", "WrittenException"),
    Section("Tests of exceptions", "ExceptionTests", level=3),
    Section("Conditions", "Match"),
    Section("Words", "Text", level=3),
    Section("Program", "Program", level=3),
    Section("Flags", "Flags", level=3),
    Section("Operands", "Operands", level=3),
    Section("Paths", "Paths", level=3),
    Section("Hosts and names", "Among", level=3),
    Section("Env", "Environment", level=3),
    Section("Effects", "Effects", level=3),
    Section("Tool", "Tool", level=3),
    Section("Tool arguments", "Argument", level=3),
    Section("Time", "Time", level=3),
    Section("Repository", "Repository", level=3),
    Section("Sql", "Sql", level=3),
    Section("Content", "Content", level=3),
    Section("Limit", "Limit", level=3),
    Section("Flow", "Flow", level=3),
)
_TYPES = {
    "bool": "true or false", "int": "number", "str": "text", "Sentence": "text",
    "Identifier": "name", "RouteName": "name", "Names": "names", "Listed": "names",
    "Text": "word", "Texts": "words", "Kinds": "kinds",
    "RegexText": "regular expression", "Match": "condition", "Flow": "flow", "Program": "program", "Flags": "flags",
    "Operands": "operands", "Environment": "env", "Effects": "effects", "Paths": "paths", "Among": "names",
    "Tool": "tool", "Argument": "argument", "Time": "time", "Repository": "repo", "Limit": "limit",
    "Sql": "sql", "Content": "content", "float": "number", "ZoneName": "time zone", "Moment": "moment",
    "Override": "override", "Tests": "tests", "ExceptionTests": "tests", "Expiry": "day or moment",
    "RaisedRoute": "route", "Grantable": "grant", "WrittenDefaults": "defaults",
    "WrittenKeep": "keep", "WrittenConfinement": "confinement",
    "ListOrAdded": "names, or `{add: names}`", "Stop": "`ask` or `deny`",
}  # fmt: skip
"""What the classes' annotations are called on the page."""
_DURATION = "duration"
_MANY = {
    "str": "list of text",
    "Match": "conditions",
    "GivenTests": "list of tests",
    "GivenExceptionTests": "list of tests",
    "DayText": "days",
    "Digest": "digests",
    "SqlKind": "kinds of statements",
    "HoursText": "hours",
    "DatesText": "dates",
    "Kind": "kinds",
    "WrittenRule": "rules",
    "WrittenException": "exceptions",
}
"""The same for lists of them."""


def page() -> str:
    """Return the whole page."""
    end = _END.format(kinds=", ".join(f"`{each}`" for each in EFFECT_KINDS))
    return "".join([_BEGINNING, *map(_section, SECTIONS), end])


def _section(section: Section) -> str:
    found = Module(f"{_HOME}.{section.module}").find(section.name)
    assert found is not None
    assert isinstance(found.node, ast.ClassDef)
    kind = getattr(language, section.name, None)
    keys = {field: key for key, field in keys_of(kind).items()} if kind and issubclass(kind, Written) else {}
    lines = [f"\n{'#' * section.level} {section.title}\n\n{_about(found.about)}\n\n"]
    lines.append("| key | value | |\n|---|---|---|\n")
    body = found.node.body
    for each, after in pairwise(body):
        if isinstance(each, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            name = each.target.id  # type: ignore[union-attr]
            lines.append(f"| `{keys.get(name, name)}` | {_value(each)} | {after.value.value} |\n")
    return "".join(lines)


def _about(text: str) -> str:
    """Return what a class is, without where in the package to look."""
    return re.sub(r" \(see `[^)]*\)", "", text.split("\n\n")[0])


def _value(field: ast.AnnAssign) -> str:
    """Return what a key's value is, and what holds where the key is left out."""
    said = _type(ast.unparse(field.annotation))
    if field.value is None:
        return f"{said}, needed"
    default = None if isinstance(field.value, ast.Call) else ast.literal_eval(field.value)
    if default in (None, "", (), {}) and default is not False:
        return said
    if said == _DURATION:
        default = f"{default // 3_600_000}h"
    shown = f"[{', '.join(default)}]" if isinstance(default, tuple) else str(default).lower()
    return f"{said}; `{shown}`"


def _type(text: str) -> str:
    """Return what a value is, of its annotation."""
    text = text.strip("\"'").removesuffix(" | None")
    if found := re.search(r"Literal\[([^\]]*)\]", text):
        return _words(each.strip("' ") for each in found[1].split(","))
    if "_ways" in text:
        return _words(WAYS)
    if found := re.match(r"(?:Annotated\[Mapping\[str|dict\[.*?), (\w+)\]", text):
        return f"{_TYPES[found[1]]} by name"
    if found := re.match(r"(?:Annotated\[)?tuple\[(?:Annotated\[)?(\w+)", text):
        return _MANY[found[1]]
    if "milliseconds" in text:
        return _DURATION
    if found := re.match(r"Annotated\[(\w+),", text):
        return _TYPES[found[1]]
    return " or ".join(_TYPES[each] for each in text.split(" | "))


def _words(words: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in words)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
