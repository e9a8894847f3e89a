"""Secrets that stand further away: in what is read, in a name that is used later, in a program's own language."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Outcome, Permit
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.configuration import build_director
from humanlayer_agent.redaction.command_secrets import in_command, may_hold
from humanlayer_agent.redaction.program_secrets import known_programs
from humanlayer_agent.redaction.redactor import Redacted, Redactor, redact
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedAsker
from tests.support.extent import examples, some
from tests.support.rows import for_each
from tests.support.tables import table

SECRET = "hUnter22xQ"
CASES = table(Path(__file__).with_name("cases_secret_positions.yaml"))
WITH = [(position, command) for position, commands in CASES["with"].items() for command in commands]


def test_there_are_enough_cases() -> None:
    assert len(WITH) >= 250
    assert len(CASES["without"]) >= 150


@pytest.mark.sample(1)
@pytest.mark.parametrize("secret", [SECRET, "p@55w0rd", "12345678"])
def test_no_secret_is_left(secret: str) -> None:
    lost = {}
    for position, command in WITH:
        made = redact(command.replace("SECRET", secret), b"k" * 32)
        if secret in made.text or not made.erased:
            lost[command] = (position, made.text)
    assert {command: made for command, made in lost.items() if secret == SECRET or not _by_its_looks(command)} == {}


def _by_its_looks(command: str) -> bool:
    """Positions where only a mixture of letters and digits is taken for a secret: they could be commands too."""
    return "send" in command or " is SECRET" in command


@for_each(("position", "command"), WITH)
def test_nothing_is_hidden_but_the_secret(position: str, command: str) -> None:
    """Every program and every other word stays: what is left out is at most a word beside the secret."""
    made = redact(command.replace("SECRET", SECRET))
    assert "could not be read" not in "".join(made.erased)
    kept = "".join(command.split("SECRET"))
    lost = len(kept) - len(made.text.replace("⟦erased⟧", ""))
    assert lost <= max(10, len(command) // 4), made.text
    assert made.text.split()[0].partition("=")[0] == command.split()[0].partition("=")[0]


@for_each("command", CASES["without"])
def test_nothing_else_is_touched(command: str) -> None:
    assert redact(command) == Redacted(command)


@pytest.mark.parametrize(
    "command",
    [
        "x='rm -rf /'; mysql -p\"$x\"; eval $x",
        "x=reboot; mysql -p$x; $x",
        "x=reboot; mysql -p$x; sudo $x",
        'x=reboot; mysql -p$x; bash -c "$x"',
        'x=reboot; mysql -p$x; ssh h "ls; $x"',
        "set -- 'rm -rf /'; mysql -p$1; eval $1",
        'read x <<< \'rm -rf /\'; mysql -p"$x"; eval "$x"',
        'expect -c \'spawn bash; expect "password:"; send "rm -rf /\\r"\'',
        'expect <<EOF\nspawn sh\nsend "rm -rf /\\r"\nEOF',
        "echo 'rm -rf /' > deploy_token; bash deploy_token",
        "echo 'rm -rf /' | su",
        "su -c sh <<< 'rm -rf /'",
        "bash <<EOF\nmysql -pabcd1234\nrm -rf /\nEOF",
        "cat > x.sh <<'EOF'\n#!/bin/sh\nmysql -pabcd1234; rm -rf /\nEOF",
        "crontab - <<EOF\n* * * * * mysql -pabcd1234; rm -rf /\nEOF",
        "alias m='mysql -pabcd1234; rm -rf /'",
        'kubectl patch secret s -p \'{"a":"b1b1b1b1"}\' && rm -rf /',
        "sed 's|__PASSWORD__|abcd1234|;w /etc/x' f; rm -rf /",
        "rsync --password-file=<(echo abcd1234; rm -rf /) a b",
        "wg set wg0 peer x preshared-key <(rm -rf /)",
        "restic --password-command 'rm -rf /' backup",
        "passwd me <<< abcd1234; rm -rf /",
        "printf 'API_KEY=%s\\n' \"$(rm -rf /)\" > .env",
        'login() { mysql -p"$1"; rm -rf /; }; login abcd1234',
        "sqlplus scott/abcd1234@db <<EOF\nhost rm -rf /\nEOF",
        "ftp -n <<EOF\nuser me abcd1234\n!rm -rf /\nEOF",
    ],
)
def test_a_command_is_not_hidden(command: str) -> None:
    text = redact(command).text
    assert "rm -rf /" in text or "reboot" in text


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("sqlplus scott/hunter22@db", "sqlplus scott/⟦erased⟧@db"),
        ("read -r u p <<< 'me hunter22'; mysql -u$u -p$p", "read -r u p <<< 'me ⟦erased⟧'; mysql -u$u -p$p"),
        ("IFS=: read u p <<< me:hunter22; mysql -p$p", "IFS=: read u p <<< me:⟦erased⟧; mysql -p$p"),
        (
            "while read -r h p; do sshpass -p $p ssh $h; done <<EOF\nweb1 hunter22\nweb2 hunter33\nEOF",
            "while read -r h p; do sshpass -p $p ssh $h; done <<EOF\nweb1 ⟦erased⟧\nweb2 ⟦erased⟧\nEOF",
        ),
        ('set -- me hunter22; curl -u "$1:$2" x', 'set -- me ⟦erased⟧; curl -u "$1:$2" x'),
        ("h=db1; p=hunter22; mysql -h$h -p$p", "h=db1; p=⟦erased⟧; mysql -h$h -p$p"),
        (
            'expect -c \'spawn su; expect "Password:"; send "hunter22\\r"; send "make\\r"\'',
            'expect -c \'spawn su; expect "Password:"; send "⟦erased⟧\\r"; send "make\\r"\'',
        ),
        ('p=hunter22; bash -c "mysql -p$p"', 'p=⟦erased⟧; bash -c "mysql -p$p"'),
        ('o="-u me -phunter22"; mysql $o db', 'o="-u me -p⟦erased⟧"; mysql $o db'),
        ("m=mysql; $m -phunter22 db", "m=mysql; $m -p⟦erased⟧ db"),
        ("mc alias set m http://h user hunter22", "mc alias set m http://h user ⟦erased⟧"),
        (
            "kubectl apply -f - <<E\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  a: hunter22\ntype: x\nE",
            "kubectl apply -f - <<E\nkind: Secret\nmetadata:\n  name: s\nstringData:\n  a: ⟦erased⟧\ntype: x\nE",
        ),
        ("printf 'user me hunter22\\n' | ftp -n h", "printf 'user me ⟦erased⟧' | ftp -n h"),
        ("(echo hunter22; echo hunter22) | passwd me", "(echo ⟦erased⟧; echo ⟦erased⟧) | passwd me"),
    ],
)
def test_only_the_secret_is_replaced(command: str, shown: str) -> None:
    assert redact(command).text == shown


def test_every_pattern_of_the_table_names_what_it_finds() -> None:
    patterns = [each for rules in known_programs().values() for _, rule in rules for each in rule.get("lines", ())]
    assert len(patterns) > 10
    assert all("value" in re.compile(each).groupindex for each in patterns)


def test_every_rule_of_the_table_is_one_that_is_read() -> None:
    kinds = {
        *(
            "value",
            "beside",
            "attached",
            "pair",
            "percent",
            "comma",
            "tagged",
            "equals",
            "form",
            "named",
            "plain",
            "handed",
        ),
        *("stdin", "last", "operand", "assigned", "login", "set", "lines", "header", "cookie", "words"),
    }
    assert {kind for rules in known_programs().values() for _, rule in rules for kind in rule} <= kinds


_FIRST = (
    "x=",
    "y=",
    "set -- ",
    "read x <<< ",
    "mysql -p",
    "expect -c ",
    'send "',
    "printf -v x ",
    "passwd ",
    "sqlplus a/",
)
_LATER = (
    "hUnter22xQ",
    " ",
    "'",
    '"',
    "$x",
    "${x}",
    "$1",
    "$@",
    "\\r",
    "@b",
    "<<EOF\n",
    "\nEOF\n",
    "\n",
    "|",
    ";",
    "<(echo ",
)
_AROUND = ("while read x; do ", "done", "for x in ", "do ", "f() { ", "}", "kind: Secret\ndata:\n  a: ", "IFS=: ", ")")
_PARTS = st.sampled_from([*_FIRST, *_LATER, *_AROUND])


@settings(max_examples=examples(400))
@given(st.lists(_PARTS, max_size=14).map("".join))
def test_broken_commands_are_never_an_error(text: str) -> None:
    made = Redactor(b"k" * 32).command(text)
    assert "could not be read" not in "".join(made.erased)
    assert all(0 <= start < end <= len(text) for start, end in made.spans)
    if not may_hold(text):
        assert in_command(text) == []


@pytest.mark.long
def test_searching_takes_no_more_than_linear_work() -> None:
    """Long hostile texts end; the suite's time-out would show it if one did not."""
    long = some(6_000, here=1_500)
    for program in (
        "expect -c '{}'",
        "curl -K - <<E\n{}\nE",
        "ftp <<E\n{}\nE",
        "sqlplus /nolog <<E\n{}\nE",
        "sed '{}'",
    ):
        for piece in (
            "send ",
            'send "',
            "user",
            " ",
            "\t",
            "user \n",
            "password:",
            "conn ",
            "s|__",
            "a" * 8,
            "-u ",
            "data:\n ",
        ):
            redact(program.format(piece * (long // len(piece))))
    for piece in ('["a"  ', '"a"  ', '["a", ', "['", "['-p', ", '["["'):
        redact("python -c '[" + piece * (long // len(piece)) + "'")
        Redactor().command(f"python - <<'E'\n[{piece * (long // len(piece))}\nE\n")
    for piece in ("read a;", "x=1;", "set -- a;", "for p in a; do $p; done;", "f() { f a; };", "a | read x |"):
        redact("y=ab1cd2;" + piece * (long // 2 // len(piece)) + "mysql -p$y")
    names, lines = " ".join(f"v{i}" for i in range(2_000)), "a b\n" * 5_000
    redact(f"while read {names}; do :; done <<E\n{lines}E\n")


@pytest.mark.long
def test_none_is_in_the_log_or_shown_in_a_chat(tmp_path: Path) -> None:
    """The real Director reads values through names and inputs, and says so in reasons and effects."""
    project = tmp_path / "project"
    commands = [
        command for position, command in WITH if position in ("name used as a secret", "standard input", "further")
    ][:: some(1, here=2)]
    asker = ScriptedAsker([("approve", f"use {SECRET}")] * len(commands))
    director = build_director("strict", project=project)
    gate = Gate(director, SQLiteStore(tmp_path / "store.sqlite3"), asker, run_id="run-1", valid_for_ms=10**9)
    for template in commands:
        command = template.replace("SECRET", SECRET)
        permit = gate.check(Action(command, cwd=str(project), project=str(project), model_intent=f"try {command}"))
        if isinstance(permit, Permit):
            gate.start(permit, permit.action)
            gate.finish(permit, Outcome(None, f"could not run {command}"))
    requests = gate.store.requests()
    assert len(requests) > some(100, here=50)
    assert [line[:2000] for entry in gate.store.events() if SECRET in (line := entry.line.decode())] == []
    assert [text for each in requests if SECRET in (text := as_text(present(each, redacted=True)))] == []
