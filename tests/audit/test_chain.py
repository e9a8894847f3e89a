"""Events, their bytes, and the verifier: every change of a log shows."""

import ast
import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

import humanlayer_agent
from humanlayer_agent.audit import events
from humanlayer_agent.audit.chain import BEGIN, GENESIS, Entry, Tip, decoded, loggable, seal
from humanlayer_agent.audit.events import EventType
from humanlayer_agent.audit.export import read_entries
from humanlayer_agent.audit.heads import Head, root_of, signed
from humanlayer_agent.audit.verify import Reached, verify
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.keys.signing import process_signer
from tests.support.extent import examples
from tests.support.sealing import Sealer


def log(count: int = 8) -> list[Entry]:
    sealed = Sealer()
    entries = [sealed(events.AUDIT_OPENED, {"store": "s"})]
    for number in range(1, count):
        fields = {"command": f"git push {number} # é", "verdict": "deny", "number": number}
        entries.append(sealed(events.DECISION_EVALUATED, fields, at=number))
    return entries


def rechained(bodies: list[bytes]) -> list[Entry]:
    """What an attacker who knows the format makes of these events."""
    entries: list[Entry] = []
    for seq, body in enumerate(bodies):
        event = json.loads(body) | {"seq": seq, "link": seq, "prev": entries[-1].hash if entries else GENESIS}
        sealed = canonical(event)
        entries.append(Entry(seq, hashlib.sha256(sealed).hexdigest(), sealed))
    return entries


# The table


def test_names_and_codes_are_unique() -> None:
    names = [kind.name for kind in events.EVENT_TYPES.values()]
    codes = [kind.code for kind in events.EVENT_TYPES.values()]
    assert len(set(names)) == len(set(codes)) == len(names)


def test_names_and_codes_are_stable() -> None:
    """What programs rely on. A line here is never changed, only added."""
    assert {kind.name: kind.code for kind in events.EVENT_TYPES.values()} == {
        "audit.opened": 100,
        "audit.head": 101,
        "audit.recovered": 102,
        "audit.degraded": 103,
        "audit.closed": 104,
        "audit.anchored": 105,
        "audit.loss-accepted": 106,
        "store.left": 107,
        "store.moved": 108,
        "audit.read": 109,
        "key.rotated": 150,
        "signers.changed": 151,
        "retention.purged": 160,
        "policy.loaded": 200,
        "policy.error": 201,
        "run.started": 300,
        "run.finished": 301,
        "run.stopped": 302,
        "supervision.stopped": 350,
        "supervision.resumed": 351,
        "supervision.refused": 352,
        "supervision.break-glass": 353,
        "decision.evaluated": 400,
        "decision.left": 401,
        "request.created": 500,
        "request.adopted": 501,
        "request.approved": 502,
        "request.rejected": 503,
        "request.expired": 504,
        "request.withdrawn": 505,
        "request.terminated": 506,
        "request.lapsed": 507,
        "request.invalidated": 508,
        "request.superseded": 509,
        "request.revoked": 510,
        "request.answered": 511,
        "request.escalated": 512,
        "vote.recorded": 600,
        "vote.refused": 601,
        "vote.late": 602,
        "grant.given": 650,
        "grant.used": 651,
        "grant.revoked": 652,
        "absence.said": 660,
        "absence.ended": 661,
        "person.removed": 662,
        "hold.placed": 161,
        "hold.lifted": 162,
        "wall.refused": 610,
        "hook.unproven": 611,
        "hook.unconfined": 612,
        "hook.reported": 613,
        "hook.bypassed": 614,
        "tools.listed": 670,
        "tools.changed": 671,
        "login.refused": 620,
        "permit.consumed": 700,
        "permit.refused": 701,
        "permit.handed": 702,
        "limit.counted": 703,
        "command.held": 402,
        "exec.started": 800,
        "exec.finished": 801,
        "exec.unknown": 802,
        "exec.changed": 803,
        "exec.moved_aside": 804,
        "files.kept": 850,
        "files.unkept": 851,
        "files.restored": 852,
        "presentation.delivered": 900,
        "presentation.settled": 901,
        "presentation.failed": 902,
        "presentation.reminded": 903,
        "presentation.told": 904,
        "lease.taken": 910,
        "channel.failed": 911,
        "on_call.unknown": 912,
        "digest.posted": 913,
    }


def test_the_table_is_what_the_code_emits() -> None:
    """No type is emitted that is not in the table (`seal` takes none), and none is in it that nothing emits."""
    package = Path(humanlayer_agent.__file__).parent
    used: set[str] = set()
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "audit"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "events":
                used.add(node.attr)
    defined = {name for name, value in vars(events).items() if isinstance(value, events.EventType)}
    assert used == defined


# The bytes


def test_an_event_says_where_it_belongs() -> None:
    first, second = log(2)
    assert first.event == {
        "v": 2, "seq": 0, "link": 0, "prev": GENESIS, "type": "audit.opened", "code": 100, "at": 1, "pid": 7, "store": "s",
    }  # fmt: skip
    assert GENESIS == "0" * 64
    assert second.event["prev"] == first.hash == hashlib.sha256(first.body).hexdigest()


def test_the_line_of_an_export_has_the_same_bytes() -> None:
    entry = log(2)[1]
    assert entry.line == b'{"e":' + entry.body + b',"h":"' + entry.hash.encode() + b'"}\n'
    assert json.loads(entry.line) == {"e": entry.event, "h": entry.hash}


def test_text_that_is_not_unicode_can_be_read_and_restored() -> None:
    assert loggable("a\udcff") == {"base64": "Yf8=", "encoding": "surrogateescape", "display": "a\\udcff"}
    assert loggable({"a": ["\ud800"]})["a"][0]["display"] == "\\ud800"


@pytest.mark.parametrize("value", [1.0, float("nan"), b"x", {1}, object()])
def test_what_an_event_can_not_hold(value: object) -> None:
    with pytest.raises(ValueError, match="can't be part of an audit event"):
        seal(0, BEGIN, events.AUDIT_OPENED, at=1, pid=1, fields={"x": [value]})


@pytest.mark.parametrize("number", [2**53 - 1, -(2**53) + 1, 0, 10**15, -(10**15)])
def test_integers_that_every_program_reads(number: int) -> None:
    entry = seal(0, BEGIN, events.AUDIT_OPENED, at=1, pid=1, fields={"x": number})
    assert entry.event["x"] == number
    assert decoded(entry.body) == entry.event


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**53 + 1, 10**16, 10**17, -(10**17)])
def test_integers_that_other_programs_round(number: int) -> None:
    with pytest.raises(ValueError, match="exceeds what other programs read exactly"):
        seal(0, BEGIN, events.AUDIT_OPENED, at=1, pid=1, fields={"x": {"y": [number]}})
    with pytest.raises(ValueError, match="can't be part of an audit event"):
        decoded(b'{"x":%d}' % number)


@pytest.mark.parametrize("number", [b"0." + b"1" * 5000, b"1" * 5000, b"-" + b"1" * 5000, b"1e5000"])
def test_a_number_that_is_refused_does_not_fill_the_screen(number: bytes) -> None:
    with pytest.raises(ValueError, match="can't be part of an audit event") as refused:
        decoded(b'{"x":' + number + b"}")
    assert str(refused.value).startswith(number[:20].decode())
    assert len(str(refused.value)) < 60


def test_a_number_in_exponents_and_what_is_no_number() -> None:
    for text in (b"1.5", b"1e3", b"NaN", b"Infinity", b"-Infinity"):
        with pytest.raises(ValueError, match="can't be part of an audit event"):
            decoded(b'{"x":' + text + b"}")


def test_nothing_is_written_for_what_is_not_known() -> None:
    entry = seal(0, BEGIN, events.AUDIT_OPENED, at=1, pid=1, fields={"a": None, "b": False, "c": "", "d": [None]})
    assert {name: entry.event[name] for name in "abcd" if name in entry.event} == {"b": False, "c": "", "d": [None]}


def test_text_that_is_unicode_stays_as_it_is() -> None:
    assert loggable("naïve ⟦x⟧") == "naïve ⟦x⟧"
    assert loggable({"a": ("é", ["b", None, True, 3])}) == {"a": ["é", ["b", None, True, 3]]}


@pytest.mark.parametrize("name", ["v", "seq", "prev", "type", "code", "at", "pid"])
def test_the_place_of_an_event_can_not_be_given(name: str) -> None:
    with pytest.raises(ValueError, match="reserved"):
        seal(0, BEGIN, events.AUDIT_OPENED, at=1, pid=1, fields={name: 1})


@given(st.dictionaries(st.text(), st.text(st.characters(exclude_categories=[])) | st.integers(-(2**53) + 1, 2**53 - 1)))
def test_any_text_can_be_logged_and_verified(fields: dict[str, object]) -> None:
    safe = {
        name: value for name, value in fields.items() if name not in ("v", "seq", "prev", "type", "code", "at", "pid")
    }
    assert verify([seal(0, BEGIN, events.AUDIT_OPENED, at=1, pid=1, fields={"given": safe})]).intact


@settings(max_examples=examples(300))
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=5),
    )
)
def test_what_is_written_is_read_as_it_was(value: object) -> None:
    assert decoded(canonical(value)) == value


# The verifier


def test_an_intact_log() -> None:
    entries = log()
    found = verify(entries)
    assert (found.intact, found.count, found.head) == (True, 8, entries[-1].hash)


def test_every_bit_of_every_event_counts() -> None:
    entries = log(3)
    for place, entry in enumerate(entries):
        for position in range(len(entry.body) * 8):
            body = bytearray(entry.body)
            body[position // 8] ^= 1 << position % 8
            found = verify([*entries[:place], replace(entry, body=bytes(body)), *entries[place + 1 :]])
            assert found.bad_seq == place
        for position in range(64):
            other = "0" if entry.hash[position] != "0" else "1"
            changed = replace(entry, hash=entry.hash[:position] + other + entry.hash[position + 1 :])
            assert verify([*entries[:place], changed, *entries[place + 1 :]]).bad_seq == place


@pytest.mark.parametrize(
    ("name", "bad"),
    [("delete first", 0), ("delete", 4), ("swap", 3), ("duplicate", 5), ("insert", 5), ("renumber", 4), ("empty", 0)],
)
def test_lines_that_were_moved(name: str, bad: int) -> None:
    entries = log()
    changed = {
        "delete first": entries[1:],
        "delete": entries[:4] + entries[5:],
        "swap": [*entries[:3], entries[4], entries[3], *entries[5:]],
        "duplicate": [*entries[:5], entries[4], *entries[5:]],
        "insert": [*entries[:5], replace(entries[2], seq=5), *entries[5:]],
        "renumber": entries[:4] + [replace(entry, seq=entry.seq - 1) for entry in entries[5:]],
        "empty": [],
    }[name]
    assert verify(changed).bad_seq == bad


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b'{"seq":1}',
        b"{",
        b'{"a":NaN}',
        b'{"a":1e999}',
        b'{"a":9007199254740993}',
        b'{"a":"\\ud800"}',
        b"\xff",
        b"[" * 100_000,
        b'{"a":' + b"9" * 5000 + b"}",
    ],
    ids=lambda body: repr(body[:12]),
)
def test_bytes_that_are_no_event(body: bytes) -> None:
    entries = log(2)
    forged = Entry(2, hashlib.sha256(body).hexdigest(), body)
    assert verify([*entries, forged]).bad_seq == 2


def test_parsing_and_hashing_again_would_not_be_enough() -> None:
    """A duplicate key, added white space, an escape: the same JSON value for a parser, and not what was written."""
    entries = log(2)
    body = entries[1].body
    for other in (body.replace(b",", b", ", 1), body.replace(b"git", b"\\u0067it"), b'{"at":0,' + body[1:]):
        assert json.loads(other) == json.loads(body)
        forged = Entry(1, hashlib.sha256(other).hexdigest(), other)
        found = verify([entries[0], forged])
        assert found.bad_seq == 1
        assert "not canonical" in found.problem


def slowly(body: bytes, hash_: str) -> str:
    """What is wrong with the bytes of an event, found without a short way: read by the book, written by the book."""
    try:
        event = json.loads(body, parse_float=refuse, parse_constant=refuse, parse_int=whole)
        rewritten = rfc8785.dumps(event)
    except (ValueError, RecursionError):
        return "not canonical JSON"
    if not isinstance(event, dict):
        return "not an event"
    if rewritten != body:
        return "its bytes are not canonical JSON: they were edited"
    changed = hashlib.sha256(body).hexdigest() != hash_
    return "its hash is not that of its bytes: one of them was edited" if changed else ""


def refuse(number: str) -> None:
    raise ValueError(number)


def whole(digits: str) -> int:
    if len(digits) > 17 or abs(int(digits)) >= 2**53:
        raise ValueError(digits)
    return int(digits)


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """Values as bytes in many ways, of which one is canonical, and edits of them."""
    text = st.text(st.characters(exclude_categories=[])) | st.text('aé\U0001f600\ufb33\\"\n\x7f', max_size=3)
    value = draw(
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**54), 2**54) | st.floats() | text,
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=4),
        ).map(lambda each: {"a": each, "seq": 1})
        | text
    )
    how = {"ensure_ascii": draw(st.booleans()), "sort_keys": draw(st.booleans())}
    between = draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ":"), (",", ": ")]))
    written = json.dumps(value, separators=between, **how).encode(
        draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])),
        "surrogatepass",
    )
    if draw(st.booleans()) and written:
        at = draw(st.integers(0, len(written) - 1))
        edit = draw(st.sampled_from([b"", b" ", b"0", b"-0", b"-", b"\xed\xa0\x80", b"\xc3\xa9", b"e0", b"\x00", b'"']))
        written = written[:at] + edit + written[at + draw(st.integers(0, 1)) :]
    return written


@settings(max_examples=examples(300))
@given(bodies(), st.booleans())
@example(b'{"a":-0}', True)
@example('{"\ufb33":1,"\U0001f600":2}'.encode(), True)  # by code points; UTF-16 has it the other way round
@example('{"\U0001f600":2,"\ufb33":1}'.encode(), True)
@example(b'{"\\ufb33":1,"\\ud83d\\ude00":2}', True)
@example(b'{"a":"\x7f"}', True)
@example(b'{"a":"\\u007f"}', True)
@example(b'{"a":1,"a":1}', True)
@example('{"a":1}'.encode("utf-16-le"), True)
@example(b'{"a":' + b"[" * 2_000 + b"]" * 2_000 + b"}", True)
@example(b'{"a":[' + b"{}," * 200 + b"{}]}", True)
def test_the_short_way_finds_what_the_long_way_finds(body: bytes, hashed: bool) -> None:
    first = log(1)[0]
    hash_ = hashlib.sha256(body).hexdigest() if hashed else first.hash
    found = verify([first, Entry(1, hash_, body)])
    if problem := slowly(body, hash_):
        assert (found.bad_seq, found.problem) == (1, problem)
    else:  # it is an event, of no log of ours
        assert found.problem.startswith("it "), found.problem


def test_what_a_chain_alone_can_not_show() -> None:
    """A cut tail and a log written anew are intact: that is why an intact log is not called witnessed."""
    entries = log()
    assert verify(entries[:5]).intact
    bodies = [entry.body.replace(b'"deny"', b'"allow"') for entry in entries]
    assert verify(rechained(bodies)).intact


def test_a_log_begins_once() -> None:
    entries = log(3)
    assert verify(rechained([entries[1].body, entries[2].body])).bad_seq == 0
    assert verify(rechained([entries[0].body, entries[0].body])).bad_seq == 1


# The chains of runs


class Written:
    """A log that is being written, as a store does: runs that begin and end, what is of none, and heads."""

    def __init__(self) -> None:
        self.seal = Sealer()
        self.entries = [self.seal(events.AUDIT_OPENED, {"store": "5" * 32})]

    def add(self, kind: EventType, **fields: Any) -> Entry:
        self.entries.append(self.seal(kind, fields))
        return self.entries[-1]

    def head(self) -> Head:
        last = self.entries[-1]
        said = Head("5" * 32, last.seq, last.hash, len(self.entries), 1, root=root_of(self.seal.tips))
        made = signed(said, process_signer())
        self.add(events.AUDIT_HEAD, **made.fields())
        return made

    def do(self, step: str) -> None:
        what, _, run = step.partition(" ")
        if what == "head":
            self.head()
        elif run not in self.seal.tips and run:
            self.add(events.RUN_STARTED, run=run)
        elif what == "end":
            self.add(events.RUN_FINISHED, run=run)
        else:
            self.add(events.POLICY_LOADED, run=run or None, number=len(self.entries))


def written(*steps: str) -> Written:
    log = Written()
    for step in steps:
        log.do(step)
    return log


TWO = ("go a", "go b", "go a", "go b", "go", "go b", "go a")
STEPS = st.lists(st.sampled_from(["go a", "go b", "go c", "go", "end a", "end b", "head"]), max_size=25)


def test_each_run_has_a_chain_that_begins_where_it_began() -> None:
    log = written(*TWO)
    said = [(entry.event.get("chain", ""), entry.event["link"]) for entry in log.entries]
    assert said == [("", 0), ("", 1), ("", 2), ("a", 1), ("b", 1), ("", 3), ("b", 2), ("a", 2)]
    assert log.entries[3].event["prev"] == log.entries[1].hash
    assert log.entries[7].event["prev"] == log.entries[3].hash
    found = verify(log.entries)
    assert (found.intact, found.count, found.last, found.head) == (True, 8, 7, log.entries[7].hash)


def test_the_end_of_a_run_says_how_far_its_chain_went() -> None:
    log = written(*TWO)
    end = log.add(events.RUN_FINISHED, run="a")
    assert (end.event["links"], end.event["last"]) == (2, log.entries[7].hash)
    assert "chain" not in end.event
    assert verify(log.entries).intact
    cut = [entry for entry in log.entries if entry.seq != 7]
    found = verify(cut)
    assert (found.bad_seq, found.problem) == (8, "the run a ended with another event than the last one that is there")
    late = log.add(events.POLICY_LOADED, run="a", number=9)
    assert "chain" not in late.event, "what comes after its end is in the store's"
    assert verify(log.entries).intact


def test_what_was_cut_off_a_run_that_goes_on_shows_at_the_next_head() -> None:
    log = written(*TWO)
    kept = log.head()
    log.do("go b")
    assert verify(log.entries, heads=[kept]).intact
    for cut in (7, 6):
        left = [entry for entry in log.entries if entry.seq != cut and entry.seq < 8]
        assert verify(left).intact, "as the end of a log that is one chain"
        found = verify([entry for entry in log.entries if entry.seq != cut and entry.seq < 9])
        assert (found.kind, found.bad_seq) == ("tampered", 8)
        found = verify(left, heads=[kept])
        assert found.kind == "tampered", "it was signed, and kept elsewhere"


def test_a_run_can_not_vanish() -> None:
    log = written(*TWO, "end a", "go b")
    gone = [entry for entry in log.entries if entry.event.get("run") != "a"]
    found = verify(gone)
    assert (found.kind, found.bad_seq, found.problem) == ("gap", 1, "event 1 is missing: the next one is numbered 2")
    found = verify([entry for entry in log.entries if entry.event.get("chain") != "a"])
    assert (found.kind, found.bad_seq) == ("tampered", 8)


def test_numbers_may_be_left_out_and_links_not() -> None:
    log = written(*TWO[:3])
    log.seal = Sealer(log.entries)
    log.seal._next += 5  # something was begun on the server, and not done in the end
    log.do("go a")
    log.head()
    found = verify(log.entries)
    assert (found.intact, found.count, found.last) == (True, 6, 10)
    found = verify([entry for entry in log.entries if entry.seq != 3])
    assert (found.kind, found.bad_seq, found.problem) == ("gap", 3, "1 of the events before event 9 is missing")


def test_in_a_file_no_number_is_left_out() -> None:
    """Also not where the end of a run's chain is gone, on which nothing else depends yet."""
    log = written(*TWO)
    left = [entry for entry in log.entries if entry.seq != 6]
    assert verify(left).intact
    found = verify(left, numbered=True)
    assert (found.kind, found.bad_seq, found.problem) == ("gap", 6, "event 6 is missing: the next one is numbered 7")
    assert (found.count, found.last, found.head) == (6, 5, log.entries[5].hash)
    log = written("go a", "go a")
    log.seal._next += 5  # the log of a server, which was moved to a file then
    moved = log.add(events.STORE_MOVED, source="postgresql:///store")
    assert verify(log.entries, numbered=True).intact
    log.seal._next += 5
    log.add(events.POLICY_LOADED, number=1)
    assert verify(log.entries, numbered=True).bad_seq == moved.seq + 1
    log.add(events.STORE_MOVED, run="a", source="an agent's word")
    assert verify(log.entries, numbered=True).bad_seq == moved.seq + 1


def test_what_is_told_ends_before_what_may_still_come() -> None:
    log = written(*TWO)
    found = verify(log.entries, until=5)
    assert (found.intact, found.count, found.last, found.head) == (True, 6, 5, log.entries[5].hash)
    assert found.digest == verify(log.entries[:6]).digest
    broken = [*log.entries[:7], replace(log.entries[7], hash="0" * 64)]
    assert verify(broken, until=5).bad_seq == 7, "what comes after it is looked at"


@pytest.mark.parametrize("first", range(1, 11))
def test_a_log_that_begins_in_the_middle_is_no_forgery(first: int) -> None:
    log = written(*TWO, "end a", "head", "go b")
    found = verify(log.entries[first:])
    assert (found.kind, found.bad_seq) == ("gap", 0)


def test_the_number_of_a_row_is_that_of_its_event() -> None:
    log = written(*TWO)
    log.entries[5] = replace(log.entries[5], seq=6)
    found = verify(log.entries)
    assert (found.kind, found.bad_seq, found.problem) == ("tampered", 5, "it says that it is event 5")


def test_each_of_the_heads_kept_of_one_event_has_to_agree() -> None:
    log = written(*TWO)
    kept = log.head()
    other = replace(kept, hash="f" * 64)
    for heads in ([kept, other], [other, kept]):
        assert verify(log.entries, heads=heads).kind == "tampered"
    assert verify(log.entries, heads=[kept, replace(kept, root="")]).intact


@pytest.mark.parametrize("wrong", [{"links": 1}, {"links": 3}, {"last": "0" * 64}, {"links": None}, {"last": None}])
def test_a_run_ends_with_both_the_place_and_the_hash_of_its_last_event(wrong: dict[str, Any]) -> None:
    log = written(*TWO)
    tip, store = log.seal.tips["a"], log.seal.tips[""]
    for said, intact in (({}, True), (wrong, False)):
        fields = {"run": "a", "links": tip.link, "last": tip.hash} | said
        end = seal(8, store, events.RUN_FINISHED, at=1, pid=1, fields=fields)
        assert verify([*log.entries, end]).intact is intact


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"head_signature": "0" * 128}, "its signature is not one"),
        ({"signer": "0" * 64}, "its signature is not one"),
        ({"head": None}, "its signature is not one"),
        ({"count": "8"}, "its signature is not one"),
        ({"store": "6" * 32}, "of something else than the events before it"),
        ({"hash": "0" * 64}, "of something else than the events before it"),
        ({"seq": 6}, "of something else than the events before it"),
        ({"count": 7}, "of something else than the events before it"),
        ({"root": "0" * 64}, "of something else than the events before it"),
        ({"root": ""}, "of something else than the events before it"),
    ],
)
def test_a_head_in_the_log_that_is_none_of_it(wrong: dict[str, Any], problem: str) -> None:
    log = written(*TWO)
    last = log.entries[-1]
    said = Head("5" * 32, last.seq, last.hash, len(log.entries), 1, root=root_of(log.seal.tips))
    inside = {name: value for name, value in wrong.items() if hasattr(said, name) and name != "signer"}
    fields = signed(replace(said, **inside), process_signer()).fields()
    fields |= {name: value for name, value in wrong.items() if name not in inside}
    log.add(events.AUDIT_HEAD, **fields)
    found = verify(log.entries)
    assert (found.kind, found.bad_seq) == ("tampered", 8)
    assert problem in found.problem


def test_a_head_of_what_is_not_read_again_is_compared_with_nothing() -> None:
    log = written(*TWO)
    old = log.head()
    log.do("go b")
    tips = dict(log.seal.tips)
    since = Reached(log.head(), tips)
    rest = log.entries[since.head.seq :]
    assert verify(rest, since=since, heads=[old]).intact
    assert verify(rest, since=since, heads=[since.head]).intact
    assert not verify(rest, since=since, heads=[replace(since.head, root="0" * 64)]).intact


def test_a_kept_head_of_an_event_that_is_gone_shows_that() -> None:
    """The ends of two chains, on which nothing depended; what others wrote behind them is still there."""
    log = written(*TWO)
    kept = log.head()
    log.do("go b")
    left = [entry for entry in log.entries if entry.seq not in (7, 8)]
    assert verify(left).intact
    found = verify(left, heads=[kept])
    assert (found.kind, found.bad_seq) == ("tampered", 7)
    assert found.problem == "its end was cut off: event 7 once stood there, says the head kept elsewhere"
    assert verify(log.entries, heads=[kept]).intact


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"chain": "c", "run": "c", "link": 1}, "it is in the chain of no run that goes on"),
        ({"chain": "b", "link": 3}, "it is in the chain of no run that goes on"),  # of another run than its own
        ({"chain": ""}, "it is in the chain of no run that goes on"),
        ({"chain": 7}, "it is in the chain of no run that goes on"),
        ({"link": None}, "it is in the chain of no run that goes on"),
        ({"link": True}, "it is in the chain of no run that goes on"),
        ({"link": 2}, "event 8 comes again, or out of its order"),
        ({"link": 4}, "1 of the events before event 8 is missing"),
        ({"prev": "0" * 64}, "it does not follow the event before it"),
        ({"v": 1}, "it is in the chain of no run that goes on"),
        ({"v": 3}, "it is of no format that is known here"),
        ({"v": True}, "it is of no format that is known here"),
        ({"v": None}, "it is of no format that is known here"),
        ({"type": "run.started", "code": 300}, "run.started is in the chain of the store, and only there"),
        ({"type": "run.finished", "code": 301}, "run.finished is in the chain of the store, and only there"),
    ],
)
def test_an_event_in_no_chain_that_it_can_be_in(change: dict[str, Any], problem: str) -> None:
    log = written(*TWO)
    event = log.seal(events.POLICY_LOADED, {"run": "a", "number": 8}).event | change
    body = canonical({name: value for name, value in event.items() if value is not None})
    found = verify([*log.entries, Entry(8, hashlib.sha256(body).hexdigest(), body)])
    assert (found.bad_seq, found.problem) == (8, problem)


def test_a_run_begins_once() -> None:
    log = written(*TWO)
    log.add(events.RUN_STARTED, run="a")
    assert verify(log.entries).problem == "the run a began before"


def test_what_was_never_a_chain_is_still_one() -> None:
    """A log of format 1 goes on in format 2: also a run that began before."""
    first = (Path(__file__).parents[1] / "data" / "log_of_0_1_0.jsonl").read_bytes().splitlines(keepends=True)
    entries = list(read_entries(first))
    assert verify(entries).intact
    seal = Sealer(entries)
    for run in list(seal.tips):
        for _ in range(2):
            entries.append(seal(events.POLICY_LOADED, {"run": run or None, "number": 1}))
    assert {entry.event["v"] for entry in entries} == {1, 2}
    assert verify(entries).intact


def in_format_1(*said: dict[str, Any]) -> list[Entry]:
    entries: list[Entry] = []
    for seq, fields in enumerate(({"type": "audit.opened", "store": "s"}, *said)):
        body = canonical({"v": 1, "seq": seq, "prev": entries[-1].hash if entries else GENESIS, **fields})
        entries.append(Entry(seq, hashlib.sha256(body).hexdigest(), body))
    return entries


@pytest.mark.parametrize("wrong", [{}, {"count": 3}, {"count": 1}, {"seq": 0}, {"hash": "0" * 64}, {"store": "t"}])
def test_a_head_of_format_1_is_of_all_that_is_before_it(wrong: dict[str, Any]) -> None:
    started = {"type": "run.started", "run": "a"}
    head = signed(replace(Head("s", 1, in_format_1(started)[1].hash, 2, 1), **wrong), process_signer())
    entries = in_format_1(started, {"type": "audit.head", **head.fields()})
    assert verify(entries).intact is (not wrong)
    entries.append(Sealer(entries)(events.POLICY_LOADED, {"run": "a"}))
    head = signed(Head("s", 3, entries[-1].hash, 4, 1), process_signer())
    said = {"v": 1, "seq": 4, "prev": entries[-1].hash, "type": "audit.head", **head.fields()}
    body = canonical(said)
    found = verify([*entries, Entry(4, hashlib.sha256(body).hexdigest(), body)])
    assert not found.intact, "a log in which runs have chains says nothing in that format any more"


def test_a_run_of_before_ended_without_a_word_of_a_chain() -> None:
    entries = in_format_1(*({"type": f"run.{what}", "run": "a"} for what in ("started", "finished")))
    assert verify(entries).intact
    seal = Sealer(entries)
    assert verify([*entries, seal(events.RUN_STARTED, {"run": "b"}), seal(events.RUN_FINISHED, {"run": "b"})]).intact


@pytest.mark.parametrize("run", [None, 7, True, {"base64": "/w==", "encoding": "base64"}, ["a"], ""])
def test_what_is_no_name_of_a_run_begins_no_chain(run: Any) -> None:
    log = written()
    for kind in (events.RUN_STARTED, events.RUN_FINISHED):
        log.entries.append(seal(log.entries[-1].seq + 1, log.seal.tips[""], kind, at=1, pid=1, fields={"run": run}))
        log.seal._take_in(log.entries[-1])
    found = verify(log.entries)
    assert found.intact is (run != "")


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_what_a_store_writes_is_intact(steps: list[str]) -> None:
    log = written(*steps)
    assert verify(log.entries).intact
    assert verify(log.entries).newest_heads == ()


@settings(max_examples=examples(300), deadline=None)
@given(STEPS, st.data())
def test_every_change_of_a_log_with_runs_shows(steps: list[str], data: st.DataObject) -> None:
    log = written(*steps, "go a", "go b", "go b", "head")  # which covers all that is before it
    entries = list(log.entries)
    place = data.draw(st.integers(0, len(entries) - 2))
    match data.draw(st.sampled_from(["drop", "swap", "again", "edit", "reseal"])):
        case "drop":
            del entries[place]
        case "swap":
            other = data.draw(st.integers(0, len(entries) - 1).filter(lambda each: each != place))
            entries[place], entries[other] = entries[other], entries[place]
        case "again":
            entries.insert(data.draw(st.integers(0, len(entries))), entries[place])
        case "edit":
            entries[place] = replace(entries[place], body=entries[place].body.replace(b'"at":1', b'"at":2'))
        case "reseal":
            body = entries[place].body.replace(b'"at":1', b'"at":2')
            entries[place] = Entry(entries[place].seq, hashlib.sha256(body).hexdigest(), body)
    assert not verify(entries).intact


def rfc_9162(leaves: list[bytes]) -> bytes:
    """Section 2.1.1, as it stands there."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\1" + rfc_9162(leaves[:split]) + rfc_9162(leaves[split:])).digest()


@settings(max_examples=examples(100))
@given(
    st.dictionaries(st.text(max_size=3), st.builds(Tip, st.integers(0, 9), st.text("0123", max_size=3)), max_size=20)
)
def test_the_root_is_that_of_the_rfc(tips: dict[str, Tip]) -> None:
    leaves = [canonical([chain, tips[chain].link, tips[chain].hash]) for chain in sorted(tips)]
    assert root_of(tips) == rfc_9162(leaves).hex()
