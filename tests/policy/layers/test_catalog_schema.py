"""The JSON Schema of catalog files: it takes what ships, and what it rejects the program rejects."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language.json_schema import json_schema
from humanlayer_agent.policy.layers.catalog_files import file_of
from humanlayer_agent.policy.layers.catalog_schema import CatalogForm

ROOT = Path(__file__).parents[3] / "humanlayer_agent"
FILES = sorted(ROOT.glob("shell/programs/catalog/*.yaml"))
SCHEMA = json_schema(CatalogForm, "A catalog file")
READER = jsonschema.Draft202012Validator(SCHEMA)

SHOWN = "examples: [{command: frob a, effects: []}]"
RIGHT = [
    "programs: {frob: {effects: []}}",
    "programs: {'frob, grob': {effects: []}}\nexamples: [{command: frob, effects: []}, {command: grob, effects: []}]",
    "about: x\nshared: [1]\nprograms: {frob: {about: x, operands: 'text*'}}",
    "programs: {frob: {options: {a: '-a --all', b: [-b], c: {names: [-c], value: write}}, effects: []}}",
    "programs: {frob: {options: {c: {names: '-c --cc', value: text, optional: true, does: delete}}, effects: []}}",
    "programs: {frob: {options: {l: {names: [-l], last: true, verb: read}}, effects: [], service: S}}",
    "programs: {frob: {options: {v: [-v]}, effects: [network, {kind: write, operand: x.log, unless: [v]}]}}",
    "programs: {frob: {options: {v: [-v]}, operands: ['read+', write], variants: [{when: [v], operands: ['list?']}]}}",
    "programs: {frob: {options: {r: [-r]}, operands: ['delete*'], recursive: [r]}}",
    "programs: {frob: {operands: ['read*'], without_operands: {slot: list, value: .}}}",
    "programs: {frob: {subcommands: {a: {effects: []}, b: {operands: [text]}}}}",
    "programs: {frob: {effects: [], needs: [credentials], settings: [x.toml], argument_files: lines, permute: false}}",
    "programs: {frob: {effects: [], digits: true, abbreviate: true, inherit: true, draft: true}}",
    "programs: {frob: {options: {p: {names: [-p], value: text}}, attributes: {p: [$P, --q]}, effects: []}}",
    "defaults: {options: {help: [--help]}}\nprograms: {frob: {effects: []}}",
    "programs: {frob: {effects: []}, frob sub: {effects: []}}",
]
WRONG = [
    "program: {frob: {effects: []}}",
    "programs: {frob: {effects: []}}\nversion: 1",
    "programs: [frob]",
    "programs: frob",
    "programs: {frob: []}",
    "programs: {frob: harmless}",
    "programs: {frob: 3}",
    "programs: {frob: {efects: []}}",
    "programs: {frob: {effects: [], subcommand: {}}}",
    "programs: {frob: {effects: {}}}",
    "programs: {frob: {effects: 3}}",
    "programs: {frob: {effects: [erase]}}",
    "programs: {frob: {effects: [{}]}}",
    "programs: {frob: {effects: [{kind: erase}]}}",
    "programs: {frob: {effects: [{operand: x}]}}",
    "programs: {frob: {effects: [{kind: write, path: x}]}}",
    "programs: {frob: {effects: [{kind: write, operand: 5}]}}",
    "programs: {frob: {effects: [{kind: write, role: [x]}]}}",
    "programs: {frob: {options: {v: [-v]}, effects: [{kind: write, when: v}]}}",
    "programs: {frob: {options: {v: [-v]}, effects: [{kind: write, unless: v}]}}",
    "programs: {frob: {operands: 3}}",
    "programs: {frob: {operands: [reed]}}",
    "programs: {frob: {operands: ['read**']}}",
    "programs: {frob: {operands: ['*read']}}",
    "programs: {frob: {operands: [[read]]}}",
    "programs: {frob: {operands: {a: read}}}",
    "programs: {frob: {options: [-v], effects: []}}",
    "programs: {frob: {options: {v: 3}, effects: []}}",
    "programs: {frob: {options: {v: [v]}, effects: []}}",
    "programs: {frob: {options: {v: [3]}, effects: []}}",
    "programs: {frob: {options: {v: {name: [-v]}}, effects: []}}",
    "programs: {frob: {options: {v: {names: [v]}}, effects: []}}",
    "programs: {frob: {options: {v: {names: [-v], value: wrote}}, effects: []}}",
    "programs: {frob: {options: {v: {names: [-v], value: [read]}}, effects: []}}",
    "programs: {frob: {options: {v: {names: [-v], value: text, optional: perhaps}}, effects: []}}",
    "programs: {frob: {options: {v: {names: [-v], does: erase}}, effects: []}}",
    "programs: {frob: {options: {v: {names: [-v], last: 'yes'}}, effects: []}}",
    "programs: {frob: {options: {v: {names: [-v], verb: destroy}}, effects: []}}",
    "programs: {frob: {operands: [read], variants: {when: [v]}}}",
    "programs: {frob: {operands: [read], variants: [1]}}",
    "programs: {frob: {options: {v: [-v]}, operands: [read], variants: [{when: [v]}]}}",
    "programs: {frob: {operands: [read], variants: [{operands: [read]}]}}",
    "programs: {frob: {options: {v: [-v]}, operands: [read], variants: [{when: [v], operands: [reed]}]}}",
    "programs: {frob: {options: {v: [-v]}, operands: [read], variants: [{when: v, operands: [read]}]}}",
    "programs: {frob: {options: {r: [-r]}, operands: [read], recursive: r}}",
    "programs: {frob: {operands: [read], recursive: true}}",
    "programs: {frob: {operands: [], without_operands: {slot: list}}}",
    "programs: {frob: {operands: [], without_operands: {value: .}}}",
    "programs: {frob: {operands: [], without_operands: {slot: lst, value: .}}}",
    "programs: {frob: {operands: [], without_operands: [list]}}",
    "programs: {frob: {operands: [], without_operands: {slot: list, value: 5}}}",
    "programs: {frob: {effects: [], permute: sometimes}}",
    "programs: {frob: {effects: [], digits: 1}}",
    "programs: {frob: {effects: [], abbreviate: 'no'}}",
    "programs: {frob: {effects: [], draft: 'false'}}",
    "programs: {frob: {effects: [], inherit: [a]}}",
    "programs: {frob: {effects: [], about: 5}}",
    "programs: {frob: {effects: [], about: [x]}}",
    "programs: {frob: {effects: [], needs: [money]}}",
    "programs: {frob: {effects: [], needs: credentials}}",
    "programs: {frob: {effects: [], settings: x.toml}}",
    "programs: {frob: {effects: [], settings: [5]}}",
    "programs: {frob: {effects: [], argument_files: letters}}",
    "programs: {frob: {effects: [], verb: destroy}}",
    "programs: {frob: {effects: [], service: [S]}}",
    "programs: {frob: {effects: [], attributes: [p]}}",
    "programs: {frob: {effects: [], attributes: {p: $P}}}",
    "programs: {frob: {subcommands: [a]}}",
    "programs: {frob: {subcommands: {a: 3}}}",
    "programs: {frob: {subcommands: {a: {efects: []}}}}",
    "programs: {frob: {subcommands: {a: {operands: [reed]}}}}",
    "defaults: [x]\nprograms: {frob: {effects: []}}",
    "defaults: {efects: []}\nprograms: {frob: {effects: []}}",
    "programs: {frob: {effects: []}}\nexamples: frob",
    "programs: {frob: {effects: []}}\nexamples: [frob]",
    "programs: {frob: {effects: []}}\nexamples: [{effects: []}]",
    "programs: {frob: {effects: []}}\nexamples: [{command: 5, effects: []}]",
    "programs: {frob: {effects: []}}\nexamples: [{command: frob, effect: []}]",
    "programs: {frob: {effects: []}}\nexamples: [{command: frob, effects: none}]",
    "programs: {frob: {effects: []}}\nexamples: [{command: frob, effects: [], unresolved: 'no'}]",
]


def whole(text: str) -> str:
    return text if "examples" in text else f"{text}\n{SHOWN}"


def faults(text: str) -> list[str]:
    return [fault.message for fault in READER.iter_errors(yaml.load(text, Loader=yaml.CSafeLoader))]


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_ships_is_taken(path: Path) -> None:
    text = path.read_text()
    assert faults(text) == []
    CatalogForm.model_validate(yaml.load(text, Loader=yaml.CSafeLoader))


def test_each_key_says_what_it_is_for() -> None:
    parts: list[tuple[str, dict[str, Any]]] = [("the file", SCHEMA), *SCHEMA["$defs"].items()]
    untold = [(n, key) for n, p in parts for key, v in p.get("properties", {}).items() if "description" not in v]
    assert untold == []


@pytest.mark.parametrize("text", RIGHT)
def test_it_takes_what_the_program_takes(text: str, own_user: Path) -> None:
    assert faults(whole(text)) == []
    file_of("/x/frob.yaml", "user", whole(text).encode())


@pytest.mark.parametrize("text", WRONG)
def test_both_reject_a_mistake(text: str, own_user: Path) -> None:
    assert faults(whole(text))
    with pytest.raises(PolicyError, match=r"frob\.yaml:\d+:\d+: "):
        file_of("/x/frob.yaml", "user", whole(text).encode())


def test_there_are_sixty_mistakes() -> None:
    assert len(set(WRONG)) >= 60


def test_a_program_of_which_nothing_is_said_is_refused(own_user: Path) -> None:
    with pytest.raises(PolicyError, match="nothing says what frob does"):
        file_of("/x/frob.yaml", "user", f"programs:\n  frob:\n{SHOWN}\n".encode())
