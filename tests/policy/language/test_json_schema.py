"""The JSON Schema for editors: it takes what the program takes, and what it rejects the program rejects."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from humanlayer_agent.channels.settings.schema import Profile
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.language import loader
from humanlayer_agent.policy.language.json_schema import json_schema
from humanlayer_agent.policy.language.schema import PolicyFile

ROOT = Path(__file__).parents[3]
POLICY, CHANNELS = json_schema(PolicyFile, "A policy"), json_schema(Profile, "A channels file")
FILES = sorted(
    {
        *ROOT.glob("policies/*.yaml"),
        *ROOT.glob("humanlayer_agent/cli/init/templates/*.yaml"),
        ROOT / "examples/data-platform.yaml",
    }
)


def plain(value: Any) -> Any:
    """As editors read it: a day is a text."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.isoformat() if isinstance(value, datetime.date) else value


def faults(text: str, schema: dict[str, Any]) -> list[str]:
    return [fault.message for fault in jsonschema.Draft202012Validator(schema).iter_errors(plain(yaml.safe_load(text)))]


def test_they_are_schemas() -> None:
    for schema in (POLICY, CHANNELS):
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_ships_is_taken(path: Path) -> None:
    schema = CHANNELS if path.stem == "channels" else POLICY
    assert faults(path.read_text().replace("@SIGNERS@", "signers: []"), schema) == []


def test_each_key_says_what_it_is_for() -> None:
    untold = [
        (name, key)
        for name, part in [("the file", POLICY), *POLICY["$defs"].items()]
        for mapping in (part, *part.get("anyOf", ()))
        for key, value in mapping.get("properties", {}).items()
        if "description" not in value
    ]
    assert untold == []


HEAD = "version: 1\npolicy: p\n"
WHEN = "when: {program: rm}"
RIGHT = [
    "rules: [{id: r, decision: ask, WHEN}]",
    "extends: builtin:default",
    "extends: [builtin:default, other.yaml]",
    "rules: [{id: r, decision: ask, when: {program: [rm, cp]}}]",
    "rules: [{id: r, decision: ask, when: {program: {in: rm, resolved: true}}}]",
    "rules: [{id: r, decision: ask, when: {program: {regex: 'r.m'}}}]",
    "rules: [{id: r, decision: ask, when: {argv: ['...', {regex: 'a+'}]}}]",
    "rules: [{id: r, decision: ask, when: {operands: {any: a*}}}]",
    "rules: [{id: r, decision: ask, when: {tool: Write}}]",
    "rules: [{id: r, decision: ask, when: {tool: {name: [A, {regex: B+}], args: {x: a, y: [b, {glob: c}], z: {within: /a}}}}}]",
    "rules: [{id: r, decision: ask, when: {not: {program: rm}}}]",
    "rules: [{id: r, decision: ask, when: {time: {hours: '22:00-06:00', tz: UTC}}}]",
    "rules: [{id: r, decision: ask, when: {time: {days: [mon-fri, sun], dates: [2030-12-24, 2030-12-27/2031-01-02], tz: UTC}}}]",
    "rules: [{id: r, decision: ask, when: {requester: 'os:*:alice', repo: {branch: main}}}]",
    "rules: [{id: r, decision: ask, when: {repo: {branch: [a, {regex: b+}], remote: x, clean: true}}}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {given: [{time: '2030-12-31T18:00:00Z', match: [rm a], not_match: [b]}]}}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {given: [{branch: '', clean: false, remotes: [x], requester: a, agent: b}]}}]",
    "rules: [{id: r, decision: ask, when: {limit: {count: 20, per: hour, of: {effect: network}}}}]",
    "rules: [{id: r, decision: ask, when: {limit: {cost: 2.5, per: run, of: {program: bq}}}}]",
    "rules: [{id: r, decision: ask, when: {sql: {kinds: [drop, truncate], none_in: tmp_*}}}]",
    "rules: [{id: r, decision: ask, when: {sql: {any_in: [orders, shop.*]}}}]",
    "rules: [{id: r, decision: ask, when: {content: {known: true, role: operand}}}]",
    "rules: [{id: r, decision: ask, when: {content: {sha256: " + "0a" * 32 + "}}}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {given: [{files: [a.plan], match: [rm a]}]}}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {given: [{used: 3, cost: 0.5, match: [rm a]}]}}]",
    "rules: [{id: r, decision: ask, WHEN, route: {quorum: 2}}]",
    "rules: [{id: r, decision: ask, WHEN, route: other}]",
    "rules: [{id: r, decision: ask, WHEN, grant: never}]",
    "rules: [{id: r, decision: ask, WHEN, grant: {max_age: 30m}}]",
    "lists: {a: [b], c: d}\nrules: [{id: r, decision: ask, WHEN}]",
    "extends: builtin:default\nlists: {secrets: {add: [a.pem]}}",
    "extends: builtin:default\nexceptions: [{rule: network, when: {program: gh}, reason: ours, expires: 2030-12-31}]",
    "extends: builtin:default\nexceptions: [{rule: network, when: {program: gh}, reason: ours, "
    "expires: '2030-12-31T18:00:00+01:00'}]",
    "extends: builtin:default\nconfinements: {mine: {extends: project, network: forwarded, hosts: [a.example]}}",
]
WRONG = [
    "rulez: [{id: r, decision: ask, WHEN}]",
    "rules: {id: r}",
    "rules: [{id: R, decision: ask, WHEN}]",
    "rules: [{id: '', decision: ask, WHEN}]",
    "rules: [{id: r_1, decision: ask, WHEN}]",
    "rules: [{decision: ask, WHEN}]",
    "rules: [{id: r, WHEN}]",
    "rules: [{id: r, decision: ask}]",
    "rules: [{id: r, decision: maybe, WHEN}]",
    "rules: [{id: r, decison: ask, WHEN}]",
    "rules: [{id: r, decision: [ask], WHEN}]",
    "rules: [{id: r, decision: ask, WHEN, severity: bad}]",
    "rules: [{id: r, decision: ask, WHEN, severity: 3}]",
    "rules: [{id: r, decision: ask, WHEN, reason: 5}]",
    "rules: [{id: r, decision: ask, WHEN, locked: perhaps}]",
    "rules: [{id: r, decision: ask, when: {}}]",
    "rules: [{id: r, decision: ask, when: rm}]",
    "rules: [{id: r, decision: ask, when: [rm]}]",
    "rules: [{id: r, decision: ask, when: {programm: rm}}]",
    "rules: [{id: r, decision: ask, when: {program: {}}}]",
    "rules: [{id: r, decision: ask, when: {program: []}}]",
    "rules: [{id: r, decision: ask, when: {program: 5}}]",
    "rules: [{id: r, decision: ask, when: {program: {name: rm}}}]",
    "rules: [{id: r, decision: ask, when: {program: {in: []}}}]",
    "rules: [{id: r, decision: ask, when: {subcommand: []}}]",
    "rules: [{id: r, decision: ask, when: {flags: {some: x}}}]",
    "rules: [{id: r, decision: ask, when: {flags: x}}]",
    "rules: [{id: r, decision: ask, when: {options: {}}}]",
    "rules: [{id: r, decision: ask, when: {options: {a: []}}}]",
    "rules: [{id: r, decision: ask, when: {operands: [a]}}]",
    "rules: [{id: r, decision: ask, when: {argv: {}}}]",
    "rules: [{id: r, decision: ask, when: {argv: [{glob: a, glob2: b}]}}]",
    "rules: [{id: r, decision: ask, when: {effect: erase}}]",
    "rules: [{id: r, decision: ask, when: {effect: []}}]",
    "rules: [{id: r, decision: ask, when: {effects: {any: erase}}}]",
    "rules: [{id: r, decision: ask, when: {recursive: 'often'}}]",
    "rules: [{id: r, decision: ask, when: {paths: {}}}]",
    "rules: [{id: r, decision: ask, when: {paths: {any: /a}}}]",
    "rules: [{id: r, decision: ask, when: {paths: /a}}]",
    "rules: [{id: r, decision: ask, when: {hosts: {}}}]",
    "rules: [{id: r, decision: ask, when: {hosts: {any: a}}}]",
    "rules: [{id: r, decision: ask, when: {parse: great}}]",
    "rules: [{id: r, decision: ask, when: {tool: {}}}]",
    "rules: [{id: r, decision: ask, when: {tool: {args: {}}}}]",
    "rules: [{id: r, decision: ask, when: {tool: {args: {x: {}}}}}]",
    "rules: [{id: r, decision: ask, when: {tool: {names: x}}}]",
    "rules: [{id: r, decision: ask, when: {any: []}}]",
    "rules: [{id: r, decision: ask, when: {time: {}}}]",
    "rules: [{id: r, decision: ask, when: {time: {tz: UTC}}}]",
    "rules: [{id: r, decision: ask, when: {time: {hours: '9-17', tz: UTC}}}]",
    "rules: [{id: r, decision: ask, when: {time: {hours: '09:00-25:00', tz: UTC}}}]",
    "rules: [{id: r, decision: ask, when: {time: {days: monday, tz: UTC}}}]",
    "rules: [{id: r, decision: ask, when: {time: {dates: 24.12.2030, tz: UTC}}}]",
    "rules: [{id: r, decision: ask, when: {time: {days: mon, tz: ../UTC}}}]",
    "rules: [{id: r, decision: ask, when: {requester: []}}]",
    "rules: [{id: r, decision: ask, when: {sql: {}}}]",
    "rules: [{id: r, decision: ask, when: {sql: {kinds: dropp}}}]",
    "rules: [{id: r, decision: ask, when: {sql: {kinds: []}}}]",
    "rules: [{id: r, decision: ask, when: {sql: {tables: x}}}]",
    "rules: [{id: r, decision: ask, when: {content: {}}}]",
    "rules: [{id: r, decision: ask, when: {content: {sha256: 0a}}}]",
    "rules: [{id: r, decision: ask, when: {content: {known: 'perhaps'}}}]",
    "rules: [{id: r, decision: ask, when: {limit: {}}}]",
    "rules: [{id: r, decision: ask, when: {limit: {count: 1}}}]",
    "rules: [{id: r, decision: ask, when: {limit: {count: -1, per: run, of: {program: rm}}}}]",
    "rules: [{id: r, decision: ask, when: {limit: {count: 1, per: week, of: {program: rm}}}}]",
    "rules: [{id: r, decision: ask, when: {limit: {count: 1, per: run, of: {}}}}]",
    "rules: [{id: r, decision: ask, when: {limit: {count: 0.5, per: run, of: {program: rm}}}}]",
    "rules: [{id: r, decision: ask, when: {repo: {}}}]",
    "rules: [{id: r, decision: ask, when: {repo: main}}]",
    "rules: [{id: r, decision: ask, when: {repo: {branches: main}}}]",
    "rules: [{id: r, decision: ask, when: {repo: {clean: 'perhaps'}}}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {given: {match: [a]}}}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {given: [{time: 2030-12-31, match: [a]}]}}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {given: [{brunch: x}]}}]",
    "rules: [{id: r, decision: ask, when: {not: []}}]",
    "rules: [{id: r, decision: ask, when: {flow: {to: {program: rm}}}}]",
    "rules: [{id: r, decision: ask, WHEN, route: {quorum: 0}}]",
    "rules: [{id: r, decision: ask, WHEN, route: {min_assurance: sure}}]",
    "rules: [{id: r, decision: ask, WHEN, route: 'a b'}]",
    "rules: [{id: r, decision: ask, WHEN, grant: always}]",
    "rules: [{id: r, decision: ask, WHEN, grant: {max_age: 5 minutes}}]",
    "rules: [{id: r, decision: ask, WHEN, grant: {max_uses: 0}}]",
    "rules: [{id: r, decision: ask, WHEN, grant: {scopes: [all]}}]",
    "rules: [{id: r, decision: ask, WHEN, confined: 'My Confinement'}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {matches: [rm]}}]",
    "rules: [{id: r, decision: ask, WHEN, tests: {match: rm}}]",
    "rules: [{id: r, decision: ask, WHEN, override: {rule: x, reason: y}}]",
    "rules: [{id: r, decision: ask, WHEN, override: {rule: x, reason: y, expires: soon}}]",
    "rules: [{id: r, decision: ask, WHEN, override: {rule: x, reason: '', expires: 2030-12-31}}]",
    "defaults: {unmatched: perhaps}\nrules: [{id: r, decision: ask, WHEN}]",
    "defaults: {maybe: allow}\nrules: [{id: r, decision: ask, WHEN}]",
    "defaults: {keep: {files: -1}}\nrules: [{id: r, decision: ask, WHEN}]",
    "lists: {A: [b]}\nrules: [{id: r, decision: ask, WHEN}]",
    "lists: {a: []}\nrules: [{id: r, decision: ask, WHEN}]",
    "lists: {a: {plus: [b]}}\nrules: [{id: r, decision: ask, WHEN}]",
    "confinements: {a: {network: some}}\nrules: [{id: r, decision: ask, WHEN}]",
    "exceptions: [{rule: x, WHEN, reason: y}]",
    "extends: 5",
    "observe: often\nrules: [{id: r, decision: ask, WHEN}]",
]


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], object]:
    def from_text(text: str) -> object:
        (tmp_path / "other.yaml").write_text(f"{HEAD}rules: [{{id: o, decision: ask, when: {{program: x}}}}]\n")
        (tmp_path / "p.yaml").write_text(text)
        return loader.load(tmp_path / "p.yaml")

    return from_text


@pytest.mark.parametrize("rest", RIGHT)
def test_it_takes_what_the_program_takes(rest: str, load: Callable[[str], object]) -> None:
    text = HEAD + rest.replace("WHEN", WHEN)
    assert faults(text, POLICY) == []
    load(text)


@pytest.mark.parametrize("rest", WRONG)
def test_both_reject_a_mistake(rest: str, load: Callable[[str], object]) -> None:
    text = HEAD + rest.replace("WHEN", WHEN)
    assert faults(text, POLICY)
    with pytest.raises(PolicyError):
        load(text)


@pytest.mark.parametrize(
    "text",
    [
        "routes: {default: {solo: true}}",
        "routes: {default: {solo: true, steps: []}}",
        "routes: {default: {solo: true, steps: [{to: terminal, after: soon}]}}",
        "routes: {default: {solo: true, timeout: 5, steps: [{to: terminal}]}}",
        "people: {alice: {phone: 5}}",
        "channels: {slack: {type: pigeon}}",
        "signers: [x]",
        "route: {}",
    ],
)
def test_mistakes_in_a_channels_file(text: str) -> None:
    assert faults(f"version: 1\n{text}", CHANNELS)


@pytest.mark.parametrize(
    "text",
    [
        "routing: [{route: default, project: ~/pay}, {route: default, agent: 'nightly-*', severity: [high, critical]}]",
        "break_glass: [ann, ben]",
        "channels: {s: {type: slack, mode: http, post_to: C01, peers: [10.0.0.1], digest: {at: '09:00', tz: UTC}}}",
        "channels: {h: {type: webhook, url: 'https://chat.example.com/hook'}}",
    ],
)
def test_what_a_channels_file_may_say(text: str) -> None:
    assert faults(f"version: 1\n{text}", CHANNELS) == []


def test_there_are_sixty_mistakes() -> None:
    assert len(set(WRONG)) >= 60
