"""An export that was changed shows it, wherever and however it was changed; one that was cut short goes on."""

import hashlib
import io
import json
import resource
import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import GENESIS, STORE, Entry, Tip
from humanlayer_agent.audit.export import OCSF, Exporter, Torn, read_entries
from humanlayer_agent.audit.heads import Head, heads_in, root_of, signed
from humanlayer_agent.audit.verify import Verification, verify
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker, ScriptedDirector
from tests.support.extent import SOAK

EVENTS = 50


def checked(data: bytes, *heads: Head) -> Verification:
    """What the verifier says of the bytes of an export."""
    entries = []
    try:
        for entry in read_entries(io.BytesIO(data)):
            entries.append(entry)
    except Torn as torn:
        found = verify(entries, heads=heads)
        if found.kind == "tampered":
            return found
        return replace(found, kind="torn", bad_seq=torn.seen)
    return verify(entries, heads=heads)


def newest(data: bytes) -> Head:
    return heads_in(data.decode())[-1]


def rechained(lines: list[bytes]) -> bytes:
    """What somebody who knows the format makes of these lines; heads are signed again, with a key of their own."""
    made, before, signer = [], GENESIS, Signer()
    for seq, line in enumerate(lines):
        event = json.loads(line)["e"] | {"seq": seq, "link": seq, "prev": before}
        if event["type"] == "audit.head":
            said = event["head"] | {"seq": seq - 1, "hash": before, "count": seq}
            said["root"] = root_of({STORE: Tip(seq - 1, before)})
            event |= signed(Head(**said), signer).fields()
        body = canonical(event)
        before = hashlib.sha256(body).hexdigest()
        made.append(b'{"e":' + body + b',"h":"' + before.encode() + b'"}\n')
    return b"".join(made)


def test_an_export_is_intact(export: Callable[[int], bytes]) -> None:
    data = export(EVENTS)
    found = checked(data, newest(data))
    assert (found.count, found.kind) == (EVENTS, "intact")


@pytest.mark.long
@pytest.mark.timeout(3_600 if SOAK else 1_200)  # 140,000 logs to verify
def test_every_bit(export: Callable[[int], bytes]) -> None:
    """The line that holds it is named. (A flip can make a line feed, or take one away: then that line, or the next.)"""
    data = export(EVENTS if SOAK else 4)
    line, missed = 0, []
    for place, byte in enumerate(data):
        for bit in range(8):
            flipped = data[:place] + bytes([byte ^ 1 << bit]) + data[place + 1 :]
            found = checked(flipped)
            if found.intact or found.bad_seq not in (line, line + (byte == 10)):
                missed.append((place, bit, found))
        line += byte == 10
    assert missed == []


def test_every_line_deleted(export: Callable[[int], bytes]) -> None:
    lines = export(EVENTS).splitlines(keepends=True)
    head = newest(b"".join(lines))
    for place in range(EVENTS - 1):
        found = checked(b"".join(lines[:place] + lines[place + 1 :]), head)
        assert (found.bad_seq, found.kind) == (place, "gap")
    assert not checked(b"".join(lines[:-2]), head).intact


def test_every_two_lines_swapped(export: Callable[[int], bytes]) -> None:
    lines = export(EVENTS).splitlines(keepends=True)
    for place in range(EVENTS - 1):
        swapped = [*lines[:place], lines[place + 1], lines[place], *lines[place + 2 :]]
        found = checked(b"".join(swapped))
        assert (found.bad_seq, found.kind) == (place, "tampered")


def test_every_line_duplicated(export: Callable[[int], bytes]) -> None:
    lines = export(EVENTS).splitlines(keepends=True)
    for place in range(EVENTS):
        found = checked(b"".join([*lines[: place + 1], lines[place], *lines[place + 1 :]]))
        assert (found.bad_seq, found.kind) == (place + 1, "tampered")


def test_a_line_inserted_everywhere(export: Callable[[int], bytes]) -> None:
    lines = export(EVENTS).splitlines(keepends=True)
    for place in range(2, EVENTS + 1):
        event = json.loads(lines[1])["e"] | {"seq": place}
        body = canonical(event)
        forged = b'{"e":' + body + b',"h":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'
        assert checked(b"".join([*lines[:place], forged, *lines[place:]])).bad_seq == place


@pytest.mark.long
def test_every_edit_rechained(export: Callable[[int], bytes]) -> None:
    """A whole chain that fits, with heads that are signed: only a head that was kept elsewhere shows it."""
    data = export(EVENTS)
    lines, head = data.splitlines(keepends=True), newest(data)
    for place in range(1, EVENTS - 1):
        forged = rechained(
            [*lines[:place], lines[place].replace(b"policy.loaded", b"policy.loadeD"), *lines[place + 1 :]]
        )
        assert checked(forged).intact
        found = checked(forged, head)
        assert (found.bad_seq, found.kind) == (head.seq, "tampered")
        for changed in (lines[:place] + lines[place + 1 :], [*lines[:place], lines[1], *lines[place:]]):
            assert checked(rechained(changed), head).kind == "tampered"


@pytest.mark.long
@pytest.mark.timeout(3_600 if SOAK else 1_200)
def test_every_cut(export: Callable[[int], bytes]) -> None:
    """With a head it shows; without one an end at a line is intact, which is why it is called not witnessed then."""
    data = export(EVENTS if SOAK else 12)
    head = newest(data)
    end = data.rindex(b"\n", 0, -1) + 1  # the head itself is not what it speaks of
    for cut in range(end):
        found = checked(data[:cut], head)
        whole = data[:cut].count(b"\n")
        assert not found.intact
        assert found.bad_seq == whole
        if data[:cut].endswith(b"\n"):
            assert checked(data[:cut]).intact
            assert found.kind == "tampered"


def test_an_event_of_another_log(tmp_path: Path, export: Callable[[int], bytes]) -> None:
    data = export(8)
    other = SQLiteStore(tmp_path / "other.sqlite3").write_head()
    found = checked(data, other)
    assert (found.kind, found.bad_seq) == ("tampered", 0)
    assert "is of the log" in found.problem


def test_a_head_whose_key_was_changed(export: Callable[[int], bytes]) -> None:
    """A chain written anew up to a head that is kept in it: its signature is over other hashes."""
    lines = export(12).splitlines(keepends=True)
    bodies = [json.loads(line)["e"] for line in lines]
    made, before = [], GENESIS
    for seq, event in enumerate(bodies):
        body = canonical(event | {"prev": before, "pid": 1})
        before = hashlib.sha256(body).hexdigest()
        made.append(b'{"e":' + body + b',"h":"' + before.encode() + b'"}\n')
        assert event["seq"] == seq
    assert checked(b"".join(made)).bad_seq == 11


def test_segments(export: Callable[[int], bytes]) -> None:
    lines = export(20).splitlines(keepends=True)
    found = checked(b"".join(lines[5:]))
    assert (found.kind, found.bad_seq) == ("gap", 0)
    assert "events 0 to 4 are missing" in found.problem
    assert checked(b"".join(lines[:5] + lines[9:])).bad_seq == 5
    broken = [*lines[5:10], lines[10].replace(b"run-", b"ruN-"), *lines[11:]]
    assert checked(b"".join(broken)).kind == "tampered"


# Going on


def written(path: Path, store: SQLiteStore) -> Exporter:
    exporter = Exporter(path)
    try:
        exporter.write(store.events(after=exporter.last.seq if exporter.last else -1))
    finally:
        exporter.close()
    return exporter


def test_a_torn_tail_at_every_byte(tmp_path: Path, store: SQLiteStore, export: Callable[[int], bytes]) -> None:
    whole = export(20 if SOAK else 3)
    target = tmp_path / "export.jsonl"
    lines = whole.splitlines(keepends=True)
    begin = 0 if SOAK else len(lines[0])
    for cut in range(begin, len(whole) if SOAK else begin + len(lines[1])):
        target.write_bytes(whole[:cut])
        exporter = written(target, store)
        assert target.read_bytes() == whole
        torn = whole[:cut].rpartition(b"\n")[2]
        known = exporter.recovered
        assert (known is None) == (not torn)
        if known is not None:
            assert known == {"offset": cut - len(torn), "bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()}


def test_going_on_adds_only_what_is_new(tmp_path: Path, store: SQLiteStore, export: Callable[[int], bytes]) -> None:
    target = tmp_path / "export.jsonl"
    export(5)
    written(target, store)
    store.record(events.POLICY_LOADED, run="later", note="x" * 200_000)
    exporter = written(target, store)
    assert exporter.recovered is None
    assert target.read_bytes() == b"".join(entry.line for entry in store.events())
    assert target.stat().st_mode & 0o777 == 0o600


def test_two_exports_do_not_write_one_file(tmp_path: Path) -> None:
    first = Exporter(tmp_path / "export.jsonl")
    with pytest.raises(ConfigError, match="another export is writing it"):
        Exporter(tmp_path / "export.jsonl")
    first.close()
    Exporter(tmp_path / "export.jsonl").close()


@pytest.mark.parametrize("content", [b"hello\n", b'{"e":{"seq":"x"},"h":"' + b"0" * 64 + b'"}\n', b"\n"])
def test_another_file_is_not_touched(tmp_path: Path, content: bytes) -> None:
    target = tmp_path / "notes.txt"
    target.write_bytes(content)
    with pytest.raises(ConfigError, match="not one of an export"):
        Exporter(target)
    assert target.read_bytes() == content


def test_disk_full_while_exporting_and_while_going_on(
    tmp_path: Path, store: SQLiteStore, export: Callable[[int], bytes]
) -> None:
    """A real quota: what is in the file is whole lines, and goes on when there is room."""
    whole = export(600)
    target = tmp_path / "export.jsonl"
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for limit in (70_000, 140_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            with pytest.raises(OSError, match="too large"):
                written(target, store)
            assert whole.startswith(target.read_bytes())
            assert target.read_bytes().endswith(b"\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        signal.signal(signal.SIGXFSZ, before)
    written(target, store)
    assert target.read_bytes() == whole


# ---- OCSF ---------------------------------------------------------------------------------------------


def of_class(class_uid: int, category: int, activities: tuple[int, ...], required: dict[str, Any]) -> dict[str, Any]:
    """A JSON Schema with what OCSF 1.3.0 requires of a class, and the values of its numbers (facts of the framework)."""
    text = {"type": "string", "minLength": 1}
    metadata = {
        "required": ["version", "product"],
        "properties": {
            "version": {"const": "1.3.0"},
            "product": {"required": ["name", "vendor_name"], "properties": {"name": text, "vendor_name": text}},
            "profiles": {"items": {"enum": ["security_control"]}},
            "sequence": {"type": "integer"},
            "logged_time": {"type": "integer"},
            **dict.fromkeys(("uid", "event_code", "log_name", "correlation_uid"), text),
        },
        "additionalProperties": False,
    }
    user = {"anyOf": [{"required": ["name"]}, {"required": ["uid"]}], "properties": {"name": text, "uid": text}}
    actor = {
        "anyOf": [{"required": ["user"]}, {"required": ["app_name"]}],
        "properties": {"app_name": text, "user": user},
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "required": [
            *("activity_id", "category_uid", "class_uid", "severity_id", "time", "type_uid", "metadata", "actor"),
            *required,
        ],
        "properties": {
            "activity_id": {"enum": list(activities)},
            "activity_name": text,
            "category_uid": {"const": category},
            "class_uid": {"const": class_uid},
            "type_uid": {"enum": [class_uid * 100 + each for each in activities]},
            "severity_id": {"enum": [0, 1, 2, 3, 4, 5, 6, 99]},
            "status_id": {"enum": [0, 1, 2, 99]},
            "time": {"type": "integer"},
            "message": text,
            "metadata": metadata,
            "actor": actor,
            "unmapped": {"type": "object"},
            "action_id": {"enum": [0, 1, 2, 3, 4, 99]},
            "disposition_id": {"enum": [*range(28), 99]},
            "exit_code": {"type": "integer"},
            **required,
        },
        "additionalProperties": False,
    }


TEXT = {"type": "string", "minLength": 1}
CLASSES = {
    1007: of_class(
        1007,
        1,
        (0, 1, 2, 3, 4, 5, 99),
        {
            "process": {
                "anyOf": [{"required": ["pid"]}, {"required": ["uid"]}],
                "properties": {"uid": TEXT, "cmd_line": TEXT},
                "additionalProperties": False,
            },
            "device": {
                "required": ["type_id"],
                "anyOf": [{"required": [each]} for each in ("ip", "uid", "name", "hostname")],
                "properties": {"type_id": {"enum": [*range(9), 99]}, "name": TEXT},
                "additionalProperties": False,
            },
        },
    ),
    6003: of_class(
        6003,
        6,
        (0, 1, 2, 3, 4, 99),
        {
            "api": {
                "required": ["operation"],
                "properties": {
                    "operation": TEXT,
                    "service": {"required": ["name"]},
                    "request": {"required": ["uid"], "properties": {"uid": TEXT}},
                },
                "additionalProperties": False,
            },
            "src_endpoint": {"properties": {"name": TEXT, "svc_name": TEXT}, "minProperties": 1},
        },
    ),
}


READERS = {number: jsonschema.Draft202012Validator(each) for number, each in CLASSES.items()}


def valid(made: dict[str, Any]) -> dict[str, Any]:
    json.dumps(made)
    READERS[made["class_uid"]].validate(made)
    assert made["type_uid"] == made["class_uid"] * 100 + made["activity_id"]
    return made


def test_the_classes_are_schemas() -> None:
    for each in CLASSES.values():
        jsonschema.Draft202012Validator.check_schema(each)


def test_every_event_of_a_log_is_one_of_its_class(export: Callable[[int], bytes]) -> None:
    make = OCSF("0" * 32, "1.0")
    found = [valid(make(entry)) for entry in read_entries(io.BytesIO(export(EVENTS)))]
    assert len(found) >= EVENTS
    assert [each["metadata"]["sequence"] for each in found] == [each["unmapped"]["event"]["seq"] for each in found]


@pytest.mark.parametrize("kind", sorted(events.EVENT_TYPES))
@pytest.mark.parametrize(
    "fields", [{}, {"approver": 7, "by": ["x"], "person": {"display": "é"}, "channel": None, "run": 3}]
)
def test_every_type_of_event_is_one_whatever_stands_in_it(kind: str, fields: dict[str, Any]) -> None:
    body = canonical({"seq": 4, "type": kind, "at": 5, **fields})
    valid(OCSF("log", "1.0")(Entry(4, "h", body)))


def test_what_is_judged_runs_and_is_answered(gate_of_all: list[Entry]) -> None:
    make = OCSF("log", "1.0")
    found = [(entry.event["type"], valid(make(entry))) for entry in gate_of_all]
    by_type = dict(reversed(found))
    decided = [made for kind, made in found if kind == "decision.evaluated"]
    assert [(each["action_id"], each["disposition_id"], each["status_id"]) for each in decided] == [
        (1, 1, 1),
        (0, 0, 0),
        (2, 2, 2),
    ]
    assert all(each["metadata"]["profiles"] == ["security_control"] for each in decided)
    ends = [made for kind, made in found if kind == "exec.finished"]
    assert [(each["process"]["cmd_line"], each["exit_code"], each["status_id"]) for each in ends] == [
        ("ls", 0, 1),
        ("ask x", 3, 2),
    ]
    assert ends[1]["metadata"]["correlation_uid"] == by_type["request.created"]["api"]["request"]["uid"]
    vote = by_type["vote.recorded"]
    assert (vote["activity_id"], vote["actor"]["user"]["uid"]) == (3, "os:1000:tester")
    assert vote["src_endpoint"]["name"] == "script"
    assert vote["unmapped"]["hash"] == next(e.hash for e in gate_of_all if e.event["type"] == "vote.recorded")


@pytest.fixture
def gate_of_all(tmp_path: Path) -> list[Entry]:
    """The log of an allow, an approval, and a denial."""
    with closing(SQLiteStore(tmp_path / "ocsf")) as store:
        director = ScriptedDirector({"ask": Verdict.ASK, "rm": Verdict.DENY})
        with Gate(director, store, ScriptedAsker(["approve"]), agent="agent", run_id="run-1") as gate:
            for command, code in (("ls", 0), ("ask x", 3), ("rm y", 0)):
                permit = gate.check(Action(command, cwd="/srv", project="/srv"))
                if isinstance(permit, Permit):
                    gate.start(permit, permit.action)
                    gate.finish(permit, Outcome(code))
        return list(store.events())


@pytest.mark.parametrize("body", [b"", b"7", b"{}", b'{"type":"vote.late","at":"x"}', b'{"type":1,"at":1}', b"\xff"])
def test_what_is_no_event_is_none(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        OCSF("log", "1.0")(Entry(4, "h", body))


@given(st.dictionaries(st.text(max_size=8), st.recursive(st.none() | st.integers() | st.text(), st.lists), max_size=6))
def test_any_fields_make_an_event_or_none(fields: dict[str, Any]) -> None:
    event = {"seq": 1, "type": "vote.recorded", "at": 1} | {k: v for k, v in fields.items() if k not in ("at", "type")}
    valid(OCSF("log", "1.0")(Entry(1, "h", json.dumps(event).encode())))
