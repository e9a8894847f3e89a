"""The catalog's files: every example has the effects it says, every program has an example, loading is lazy and whole."""

import posixpath
import re
from pathlib import Path

import pytest
import yaml

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.program import Effect, Program
from humanlayer_agent.shell.programs import catalog
from humanlayer_agent.shell.programs import spec as specs
from humanlayer_agent.shell.programs.special import READERS, reader
from tests.support.rows import for_each
from tests.support.tables import catalog_examples, table

HERE = "/work"
FILES = sorted(Path(catalog.SHIPPED.folder).glob("*.yaml"))
EXAMPLES = catalog_examples()
CHANGING = {"write", "append", "delete", "move", "execute", "metadata"}


def shown(effect: Effect) -> str:
    """An effect as the catalog's examples write it: kind and operand, paths relative to the working directory."""
    operand = effect.pattern or effect.operand
    if operand is None:
        operand = "?"
    elif operand.startswith("/"):
        operand = posixpath.relpath(operand, HERE) if (operand + "/").startswith(HERE + "/") else operand
    return f"{effect.kind} {operand}"


def found(command: str) -> tuple[list[str], Program]:
    program = analyse(command, cwd=HERE, environ={"HOME": "/home/user"})
    return [shown(e) for c in program.commands for e in c.effects], program


@pytest.mark.long
@for_each("example", EXAMPLES)
def test_example(example: catalog.Example) -> None:
    """An example has exactly the effects it declares, and is resolved unless it says that it is not."""
    effects, program = found(example.command)
    assert sorted(set(effects)) == sorted(set(example.effects))
    resolved = program.status == "ok" and all(c.resolved for c in program.commands)
    assert resolved is not example.unresolved


@pytest.mark.sample(21)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_program_has_examples(path: Path) -> None:
    """One for each description (which several programs may share); two where it changes or runs something."""
    content = table(path)
    ran = [(e["command"], analyse(e["command"], cwd=HERE, environ={}).commands) for e in content["examples"]]
    for names, body in content["programs"].items():
        if names.startswith(("git ", "gcloud ")):
            continue  # sub-commands: the examples of the file cover them as a whole (of gcloud services.yaml too)
        members = {_key(n) for n in specs.split_names(names)}
        uses = [(text, c) for text, commands in ran for c in commands if _is_one(c.program, c.subcommand, members)]
        changes = any(e.kind in CHANGING for _, c in uses for e in c.effects)
        assert body["about"], f"{path.name}: {names} says not what it does"
        needed = 2 if changes else 1
        assert len({text for text, _ in uses}) >= needed, f"{path.name}: {names} has too few examples"


def _key(name: str) -> tuple[str, ...]:
    return ("python", name.removeprefix("python -m ")) if name.startswith("python -m ") else (name,)


def _is_one(program: str | None, subcommand: str | None, members: set[tuple[str, ...]]) -> bool:
    return (program,) in members or (program, subcommand) in members


def test_many_programs() -> None:
    assert len(catalog.SHIPPED.names()) >= 300


@pytest.mark.long
def test_a_program_is_loaded_alone_as_within_its_file() -> None:
    """Programs are cut out of the text by their indent: that must give what the whole file gives."""
    for path in FILES:
        whole = specs.read_programs(table(path), path.name)
        for name, spec in whole.items():
            alone = catalog.SHIPPED.lookup(name)
            assert alone is not None
            assert _plain(alone) == _plain(spec)


def _plain(spec: specs.Spec) -> object:
    """A spec as nested plain data, to compare."""
    if isinstance(spec, (specs.Spec, specs.Option, specs.Slot, specs.Variant, specs.Always)):
        memory = {"shapes", "dangerous"}  # what was found before, kept to find it faster
        return {slot: _plain(getattr(spec, slot)) for slot in type(spec).__slots__ if slot not in memory}
    if isinstance(spec, dict):
        return {k: _plain(v) for k, v in spec.items()}
    return [_plain(v) for v in spec] if isinstance(spec, list) else spec


def test_the_index_finds_every_program_and_no_other() -> None:
    listed = {n for path in FILES for key in table(path)["programs"] for n in specs.split_names(key)}
    assert {n for n in listed if " " not in n} == set(catalog.SHIPPED.names())
    assert catalog.SHIPPED.lookup("no-such-program") is None
    assert catalog.SHIPPED.family("rm") == "files"


def test_grammars_exist() -> None:
    named = {spec.grammar for n in catalog.SHIPPED.names() if (spec := catalog.SHIPPED.lookup(n)) is not None}
    assert named - {""} <= READERS.keys()
    assert all(callable(reader(name)) for name in READERS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("programs: {x: {option: 1}}", "unknown key option"),
        ("programs: {x: {options: {a: [b]}}}", "must begin with -"),
        ("programs: {x: {options: {a: [-1]}}}", "quotation marks"),
        ("programs: {x: {options: {a: [-a], b: [-a]}}}", "stand once"),
        ("programs: {x: {operands: [file]}}", "is no slot"),
        ('programs: {x: {operands: ["read*", "read*"]}}', "only one slot"),
        ("programs: {x: {effects: [burn]}}", "an effect kind"),
        ("programs: {x: {options: {a: {names: [-a], does: burn}}}}", "no effect kind"),
        ("programs: {x: {effects: [{kind: network, when: [y]}]}}", "no option is called y"),
        ("programs: {x: []}", "expected a mapping"),
        ("program: {}", "expected the keys"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    """A mistake in a file is an error with the file, the program and what is wrong."""
    with pytest.raises(catalog.CatalogError, match=re.escape(message)) as caught:
        specs.read_programs(yaml.safe_load(text), "bad.yaml")
    assert "bad.yaml" in str(caught.value)


@pytest.mark.sample(16)
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_listed_commands_run_nothing_unseen(path: Path) -> None:
    """An option whose name says that it takes a command must not be plain text."""
    telling = re.compile(r"-?-(exec|command|rsh|filter-command|use-compress-program|checkpoint-action|pager|pre)$")
    for name, spec in specs.read_programs(table(path), path.name).items():
        for spelling, option in spec.long.items():
            if telling.fullmatch(spelling) and option.arity:
                assert option.kind != "text", f"{name} {spelling}"


def test_the_examples_of_the_documentation_are_catalog_files() -> None:
    """docs/catalog.md shows a file; a reader who copies it must not get an error."""
    text = (Path(__file__).parents[3] / "docs" / "catalog.md").read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    whole = yaml.safe_load(blocks[0])
    frob = specs.read_programs(whole, "frob.yaml")["frob"]
    assert frob.short["o"].kind == "write"
    assert len(list(specs.read_examples(whole, "frob.yaml"))) == 3
    (one,) = specs.read_examples({"examples": yaml.safe_load(blocks[1])}, "x")
    assert one.truth == catalog.Truth((("a", "text"),), "gzip a")
