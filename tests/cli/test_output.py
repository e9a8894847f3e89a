"""Every command that prints data prints it in one way: as a table, as JSON, as JSON lines, with documented fields."""

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.holds import Held
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.cli import main
from humanlayer_agent.cli.app import command_tree
from humanlayer_agent.cli.shared.output import Printed, printed_by
from humanlayer_agent.cli.shared.records import EventRecord
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import TEST_APPROVER, ScriptedApprovers, ScriptedAsker, ScriptedDirector
from tests.support.records import faults

ROOT = Path(__file__).parents[2]
HOSTILE = "ask \x1b[2J\x7f\u202egpj.exe \ud800"
POLICY = """\
version: 1
policy: mine
rules:
  - id: no-curl
    decision: deny
    reason: No network here.
    when: {program: curl}
    tests: {match: ["curl http://x"], not_match: [ls]}
"""
CATALOG = """\
programs:
  frob: {effects: []}
examples:
  - {command: frob, effects: [delete x]}
"""
SAYS = {
    *("hook", "demo", "run", "exec", "init", "hub", "stop", "resume", "channel test", "policy trust"),
    *("policy allow", "policy suggest", "policy bundle build", "policy bundle install"),
    *("requests approve", "requests reject", "requests edit", "requests respond", "grants revoke"),
    "catalog new",
    *("key export", "key import", "key signers build", "key signers install"),
    "store init",
    "store migrate",
    *(
        "audit purge",
        "audit accept-loss",
        "plan",
        "ask",
        "mcp ask",
        "policy docs",
        "policy serve",
        "policy schema",
        "policy fmt",
        "policy import",
        "people away",
        "people back",
        "people remove",
        "audit hold add",
        "audit hold release",
    ),
    "audit export",  # writes the log's own lines, in the one form that can be verified
}
"""Commands that do something, and tell a person in words what came of it."""
CALLS = {
    ("check", ""): "check 'rm -rf /srv/x'",
    ("parse", ""): "parse 'sudo rm -rf /srv/x | cat'",
    ("doctor", ""): "doctor",
    ("undo ls", ""): "undo ls",
    ("catalog list", ""): "catalog list archive",
    ("catalog show", ""): "catalog show tar",
    ("catalog test", ""): "catalog test ./catalog.yaml",
    ("catalog lint", ""): "catalog lint ./catalog.yaml",
    ("audit report", ""): "audit report",
    ("audit evidence", ""): "audit evidence --map soc2",
    ("audit tail", ""): "audit tail",
    ("audit query", ""): "audit query --type decision",
    ("audit verify", ""): "audit verify",
    ("audit hash", ""): "audit hash hunter22",
    ("audit head", ""): "audit head",
    ("policy show", ""): "policy show --policy ./policy.yaml",
    ("policy status", ""): "policy status",
    ("policy explain", ""): "policy explain 'ls && curl http://x' --policy ./policy.yaml",
    ("policy test", ""): "policy test ./policy.yaml",
    ("policy test", "--metamorphic"): "policy test ./policy.yaml --metamorphic --transformations single-quotes",
    ("policy lint", ""): "policy lint ./policy.yaml",
    ("policy lint", "--explain CHECK"): "policy lint --explain no-test",
    ("policy coverage", ""): "policy coverage ./policy.yaml",
    ("policy replay", ""): "policy replay ./policy.yaml log.jsonl",
    ("policy replay", "--rows"): "policy replay ./policy.yaml log.jsonl --rows",
    ("policy diff", ""): "policy diff ./policy.yaml ./milder.yaml",
    ("channel ls", ""): "channel ls --channels CHANNELS/terminal.yaml",
    ("requests ls", ""): "requests ls --all",
    ("requests ls", "--figures"): "requests ls --figures",
    ("requests show", ""): "requests show REQUEST",
    ("grants ls", ""): "grants ls --all",
    ("grants show", ""): "grants show REQUEST",
    ("store status", ""): "store status",
    ("audit hold ls", ""): "audit hold ls",
    ("key signers ls", ""): "key signers ls --channels ./signers.yaml",
    ("people ls", ""): "people ls --channels CHANNELS/terminal.yaml",
}
ELSEWHERE = {
    *(("undo show", ""), ("undo diff", ""), ("undo apply", ""), ("undo apply", "--dry-run"), ("requests watch", "")),
    *(("policy bundle verify", ""), ("key signers verify", "")),
}
"""What needs more than one process, or a signed file: tested with the command itself."""


@pytest.fixture(scope="module")
def make_output() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield import_module("make_output")
        del sys.modules["make_output"]


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Callable[..., Any], set[str]]]:
    """Each command of the tree: as it is called, its function, its options."""
    command = command or command_tree()
    for name, each in command.commands.items():
        if hasattr(each, "commands"):
            yield from commands(each, (*path, name))
        else:
            yield " ".join((*path, name)), each.callback, {o for one in each.params for o in one.opts}


def declared() -> dict[tuple[str, str], Printed]:
    return {(name, each.when): each for name, function, _ in commands() for each in printed_by(function)}


def test_each_command_prints_data_in_the_one_way_or_says_what_it_did() -> None:
    for name, function, options in commands():
        assert (name in SAYS) != bool(printed_by(function)), f"hla {name}"
        forms = bool(printed_by(function)) or name == "audit export"  # whose forms are not those of records
        assert ("--format" in options) == forms, f"hla {name}"
        assert not options & {"--json", "--jsonl", "--csv"}, f"hla {name}"
    assert declared().keys() == CALLS.keys() | ELSEWHERE


def test_the_page_is_up_to_date(make_output: ModuleType) -> None:
    assert (ROOT / "docs/output.md").read_text(encoding="utf-8") == make_output.page(), "run python docs/make_output.py"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: None) -> str:
    """A folder with policies, a log and channels; a store with all kinds of events. Returns a request's id."""
    monkeypatch.chdir(tmp_path)
    Path("./policy.yaml").write_text(POLICY)
    Path("./catalog.yaml").write_text(CATALOG)
    Path("./signers.yaml").write_text(f"version: 1\nsigners: [{'a' * 64}]\n")
    Path("./milder.yaml").write_text(POLICY.replace("decision: deny", "decision: allow").replace("mine", "milder"))
    Path("log.jsonl").write_text('{"id": "1", "command": "curl http://x"}\n{"id": "2", "command": "ls"}\n')
    director = ScriptedDirector({"ask": Verdict.ASK, "rm": Verdict.DENY})
    with_human = ScriptedAsker([("grant", "action"), ("reject", "no \x1b[1m")])
    opened, team = SQLiteStore(default_store_path()), ScriptedApprovers()
    opened.holds.place(Held("run-1"), TEST_APPROVER, HOSTILE, team.authority, team.signer)
    gate = Gate(director, opened, with_human, run_id="run-1")
    for command in ("ls -u me:hunter22", HOSTILE, "ask again", "rm x"):
        permit = gate.check(Action(command, cwd="/srv", project="/srv"))
        if isinstance(permit, Permit):
            gate.start(permit, permit.action)
            gate.finish(permit, Outcome(3))
    gate.close()
    return gate.store.requests()[0].id


@pytest.mark.long
def test_json_and_json_lines_hold_the_same_documented_fields(here: str, capsys: pytest.CaptureFixture[str]) -> None:
    """All in one test, because the store and the policies that they read take longer than any of them."""
    for key, printed in declared().items():
        if key not in CALLS:
            continue
        found = {}
        for form in ("table", "json", "jsonl"):
            line = CALLS[key].replace("REQUEST", here).replace("CHANNELS", str(ROOT / "channels"))
            code = main([*shlex.split(line), "--format", form])
            out, err = capsys.readouterr()
            found[form] = (code, out)
            assert code in (0, 1, 4, 5), (key, err)
        assert len({code for code, _ in found.values()}) == 1, (key, found)
        whole = json.loads(found["json"][1])
        lines = [json.loads(line) for line in found["jsonl"][1].splitlines()]
        assert isinstance(whole, list) == printed.many, key
        records = whole if printed.many else [whole]
        assert [sorted(each) for each in records] == [sorted(each) for each in lines], key
        assert records or key in (("undo ls", ""), ("policy lint", "")), f"{key}: the test shows no record"
        assert [fault for each in records for fault in faults(each, printed.record)] == [], key
        if printed.record is EventRecord:
            del found["jsonl"]  # the bytes that were hashed, as they are
        for _, out in found.values():
            assert not {char for char in out if not (char.isprintable() or char == "\n")}, key
