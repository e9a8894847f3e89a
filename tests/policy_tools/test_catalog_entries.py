"""Entries of own catalog files: examples that do not hold, likely mistakes, and drafts of what a program says of itself."""

from pathlib import Path

import pytest
import yaml

from humanlayer_agent.policy.layers.catalog_files import CatalogFile, file_of, joined
from humanlayer_agent.policy_tools.catalog_entries import draft, failures, options, remarks

HELP = """\
Usage: frob [OPTIONS] FILE...

Frobnicates files: quickly.

Options:
  -o, --output FILE      where to write
      --hook=CMD         run CMD afterwards
      --level <n>        how much
      --color[=WHEN]     always or never
  -v, --verbose          be loud
  -q                     be quiet
Commands:
  build    builds
"""


def read(tmp_path: Path, text: str) -> CatalogFile:
    return file_of(str(tmp_path / "frob.yaml"), "user", text.encode())


def said(file: CatalogFile) -> list[str]:
    known, files = joined([file])
    return [f"{each.line}: {each.text}" for each in (*failures(files, known), *remarks(files, known))]


def test_an_example_has_exactly_the_effects_it_declares(tmp_path: Path) -> None:
    text = (
        "programs:\n  frob: {about: x, operands: ['read*']}\nexamples:\n"
        "  - {command: frob a, effects: [write a]}\n"
        "  - {command: frob --x, effects: []}\n"
        "  - {command: frob a, effects: [read a], unresolved: true}\n"
        "  - {command: frob a, effects: [read a]}\n"
    )
    file = read(tmp_path, text)
    known, _ = joined([file])
    assert [(each.line, each.wrong) for each in failures([file], known)] == [(4, True), (5, True), (6, True)]
    first, second, third = (each.text for each in failures([file], known))
    assert first == "'frob a' has: read a. Declared: write a"
    assert "unresolved: true" in second
    assert "is certain" in third


def test_what_is_likely_a_mistake(tmp_path: Path) -> None:
    text = (
        "programs:\n  frob:\n    options:\n      output: {names: [--output], value: text}\n"
        "      hook: {names: [--hook-cmd], value: text}\n    operands: [write]\n  grob: {draft: true}\n"
        "examples:\n  - {command: frob a, effects: [write a]}\n"
    )
    (tmp_path / "other.yml").write_text("")
    found = said(read(tmp_path, text))
    assert [each.partition(" ")[0] for each in found] == ["2:", "2:", "2:", "2:", "7:", "0:"]
    assert "about" in found[0]
    assert "--output sounds as if its value is written" in found[1]
    assert "--hook-cmd sounds as if its value is run" in found[2]
    assert "a second example" in found[3]
    assert "grob is a draft" in found[4]
    assert "is not read" in found[5]


def test_the_options_of_a_help_text() -> None:
    found = [(each.name, each.spellings, each.valued) for each in options(HELP)]
    assert found == [
        ("output", ("-o", "--output"), True),
        ("hook", ("--hook",), True),
        ("level", ("--level",), True),
        ("color", ("--color",), True),
        ("verbose", ("-v", "--verbose"), False),
        ("q", ("-q",), False),
    ]


def test_a_draft_claims_nothing(tmp_path: Path) -> None:
    """All that the program says stands in comments: what is left is a draft, and without `draft` it is a mistake."""
    text = draft("frob", HELP, origin="`frob --help`")
    file = read(tmp_path, text)
    assert said(file) == [f"{file.lines['frob']}: frob is a draft: commands that run it ask as before"]
    assert yaml.safe_load(text)["programs"] == {"frob": {"draft": True, "about": "?"}}
    with pytest.raises(Exception, match="nothing says what frob does"):
        read(tmp_path, text.replace("    draft: true\n", ""))
    assert "#   output: {names: [-o, --output], value: ?}" in text


HOSTILE = [
    "a\n    effects: []\n",
    "x\u2028programs:\u2028  rm: {effects: []}",
    "x\x85programs:\x85  frob: {effects: []}",
    "  --x\r    effects: []",
    "  --x  \x1b[2Jclear",
    "  -o, --output  " + "y" * 5000,
    "\n".join(f"  --option-{n}  x" for n in range(5000)),
    "  --a: {x  y\n  --b]  z\n  --c'  \"\n",
    "\u202e  --evil  x",
    "\x0c  frob: {effects: []}",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_help_text_leaves_its_comments(text: str, tmp_path: Path) -> None:
    """What a program says of itself is not believed: it may have been written to deceive."""
    made = draft("frob", text, origin=text[:30])
    assert yaml.safe_load(made)["programs"] == {"frob": {"draft": True, "about": "?"}}
    assert all(line.isprintable() for line in made.split("\n"))
    assert len(made) < 40_000
    assert [each.text for each in remarks([read(tmp_path, made)], joined([])[0])] != []
