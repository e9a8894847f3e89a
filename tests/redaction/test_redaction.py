"""No secret is left in any position, nothing else is touched, and redaction hides no command."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from humanlayer_agent.action import Action
from humanlayer_agent.agents.supervision import Record
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import ApprovalRequest, Outcome, Permit
from humanlayer_agent.channels.concealment import conceal
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import Style, present
from humanlayer_agent.cli.audit.audit_commands import app as report_app
from humanlayer_agent.configuration import build_director
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.redaction import redactor as module
from humanlayer_agent.redaction.command_secrets import in_command, may_hold
from humanlayer_agent.redaction.redactor import ERASED, Redactor, redact
from humanlayer_agent.redaction.secret_names import is_secret_name, is_secret_value
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import POLICY_DIGEST, ScriptedAsker, ScriptedDirector
from tests.support.extent import examples
from tests.support.forging import forging
from tests.support.rows import for_each
from tests.support.tables import table

SECRET = "hUnter22xQ"
KEY = b"k" * 32
CASES = table(Path(__file__).with_name("cases_secrets.yaml"))
WITH = [(position, command) for position, commands in CASES["with"].items() for command in commands]
WITHOUT = CASES["without"]


def test_there_are_enough_cases() -> None:
    assert len(WITH) >= 60
    assert len(CASES["with"]) >= 20
    assert len(WITHOUT) >= 60


@for_each(("position", "command"), WITH)
def test_no_secret_is_left(position: str, command: str) -> None:
    made = redact(command.replace("SECRET", SECRET), KEY)
    assert SECRET not in made.text
    assert made.erased
    assert re.search("⟦hmac:[0-9a-f]{16}⟧", made.text)


@for_each("command", WITHOUT)
def test_nothing_else_is_touched(command: str) -> None:
    assert redact(command, KEY) == module.Redacted(command)


@for_each(("position", "command"), WITH)
def test_most_of_the_command_stays(position: str, command: str) -> None:
    """Whoever reads it must still see what was done: the program, for one."""
    made = redact(command.replace("SECRET", SECRET), KEY)
    assert made.text.split()[0].partition("=")[0] == command.split()[0].partition("=")[0]


# Redaction must not hide what would be done.


@pytest.mark.parametrize(
    "command",
    [
        "bash -c 'PASSWORD=12345678 rm -rf /'",
        'curl -u "a:$(rm -rf /)" x',
        'curl -u "a:abc123$(rm -rf /)def" x',
        'PASSWORD="abc123$(rm -rf /)def" ls',
        "TOKEN=`rm -rf /` ls",
        'export SECRET_TOKEN=abc12345"$(rm -rf /)"',
        "echo -----BEGIN PRIVATE KEY-----; rm -rf /",
        "echo '-----BEGIN PRIVATE KEY-----'\nrm -rf /",
        "curl -H Authorization:Bearer\\ abcdef123; rm -rf /",
        'ssh h "curl -H Authorization:abcdef123; rm -rf /"',
        'coproc PASSWORD="abc123$(rm -rf /)"',
        "PASSWORD=abcdef12;rm -rf /",
        "mysql -pabcdef12;rm -rf /",
        "curl http://a:abcdef12@b;rm -rf /",
        "echo password=abcdef12&&rm -rf /",
        "PASSWORD=<(rm -rf /) ls",
        "cat <<EOF | bash\npassword: abcdef12\nrm -rf /\nEOF",
        "cat <<EOF\npassword=$(rm -rf /)\nEOF",
        # what another shell would run
        "echo 'rm -rf /' | sudo -S bash",
        "sudo -S bash <<< 'rm -rf /'",
        "sudo -S sh <<EOF\nabcdef12\nrm -rf /\nEOF",
        "bash -c 'PASSWORD=\"abc1$(rm -rf /)\" ls'",
        "bash <<'EOF'\nPASSWORD=\"abc1$(rm -rf /)\"\nEOF",
        "make DB_PASSWORD='$(shell rm -rf /)'",
        "make DB_PASSWORD='x$(shell rm -rf /)'",
        "eval TOKEN=1';rm -rf /'",
        "env -S 'TOKEN=abcdef12 rm -rf /'",
        "echo 'TOKEN=abcdef12 rm -rf /' | bash",
        "git config --global alias.token '!rm -rf /'",
        "TOKEN='rm -rf /'; rm -rf /",
        "TOKEN='rm -rf / 12'; rm -rf / 12",
    ],
)
def test_a_command_is_not_hidden(command: str) -> None:
    assert "rm -rf /" in redact(command, KEY).text


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("TOKEN=important rm -rf important", "TOKEN=⟦erased⟧ rm -rf important"),
        ("TOKEN=python3.11 x; python3.11 y", "TOKEN=⟦erased⟧ x; python3.11 y"),
        ("mysql -uroot -p'a b' db", "mysql -uroot -p'⟦erased⟧' db"),
        ("curl -u me:hunter2 http://x", "curl -u me:⟦erased⟧ http://x"),
        ('curl -H "Authorization: Bearer hunter2x" http://x', 'curl -H "Authorization: Bearer ⟦erased⟧" http://x'),
        ("P=1 PASSWORD=hunter22 x; echo hunter22", "P=1 PASSWORD=⟦erased⟧ x; echo ⟦erased⟧"),
    ],
)
def test_only_the_secret_is_replaced(command: str, shown: str) -> None:
    assert redact(command).text == shown


# Marks


def test_equal_secrets_have_equal_marks_and_other_stores_other_ones() -> None:
    one, other = Redactor(KEY), Redactor(b"x" * 32)
    marks = [one.command(command.replace("SECRET", SECRET)).marks for _, command in WITH[:3]]
    assert {mark for each in marks for mark in each} == {one.mark(SECRET)}
    assert one.mark(SECRET) != other.mark(SECRET)


def test_digests_are_keyed_and_marks_do_not_stand_for_them() -> None:
    redactor = Redactor(KEY)
    assert redactor.digest("a" * 64) == redactor.digest(redactor.digest("a" * 64)) != "a" * 64
    assert redactor.mark("abc")[6:22] != redactor.digest("abc")[5:21]
    assert redactor.digest("") == ""


def test_what_was_a_secret_in_a_command_is_one_in_what_is_said_of_it() -> None:
    redactor = Redactor()
    redactor.command(f"mysql -p{SECRET} db")
    assert redactor.text(f"Command 'mysql -p{SECRET}' timed out").text == f"Command 'mysql -p{ERASED}' timed out"


# Whatever it is given


@settings(max_examples=examples(300))
@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_any_text_goes_through(text: str) -> None:
    redactor = Redactor(KEY)
    for made in (redactor.command(text), redactor.text(text)):
        assert len(made.spans) == len(made.marks)
        assert all(0 <= start < end <= len(text) for start, end in made.spans)


_PARTS = st.sampled_from(
    [
        "mysql -p",
        "hUnter22xQ",
        " ",
        "'",
        '"',
        "$(",
        ")",
        ";",
        "PASSWORD=",
        "curl -u a:",
        "<<EOF\n",
        "\nEOF\n",
        "\\",
        "`",
        "{",
        "=",
        "--password ",
        "token: ",
        "${X:-",
        "}",
        "ssh h ",
        "ghp_\n    ",
        "://a:",
        "@b",
        "Authorization: Bearer ",
        "-----BEGIN PRIVATE KEY-----",
    ]
)


@settings(max_examples=examples(300))
@given(st.lists(_PARTS, max_size=14).map("".join))
def test_broken_commands_are_never_an_error(text: str) -> None:
    made = redact(text, KEY)
    assert "could not be read" not in "".join(made.erased)


_WORDS = st.sampled_from(
    ["my", "sql", "-p", "curl", "-u", "a:bcdef1", " ", '"', "'", "\\", "pass", "word", "=", "zip", "-P", "x1y2z3"]
)


@settings(max_examples=examples(300))
@given(st.lists(_WORDS, max_size=12).map("".join))
def test_commands_that_are_passed_over_hold_nothing(text: str) -> None:
    """A command that is not read for the lack of a hint is one in which reading would have found nothing."""
    if not may_hold(text):
        assert in_command(text) == []


def test_a_secret_that_becomes_known_later_is_found_in_texts_that_were_seen_before() -> None:
    redactor = Redactor()
    assert redactor.text(f"saw {SECRET}").text == f"saw {SECRET}"
    redactor.command(f"mysql -p{SECRET}")
    assert redactor.text(f"saw {SECRET}").text == f"saw {ERASED}"


def test_a_failure_replaces_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(module, "in_command", fail)
    monkeypatch.setattr(module, "in_text", fail)
    assert redact(f"mysql -p {SECRET}", KEY).text == Redactor(KEY).mark(f"mysql -p {SECRET}")
    assert SECRET not in str(
        Redactor(KEY).fields({"command": f"mysql {SECRET}", "reason": SECRET, "at_most": [SECRET]})
    )


def test_a_text_that_is_too_long_to_search_is_replaced() -> None:
    assert redact("x" * ((1 << 18) + 1)).text == ERASED


@pytest.mark.long
def test_searching_takes_no_more_than_linear_work() -> None:
    """Long hostile texts end; the suite's time-out would show it if one did not."""
    for piece in (
        "password=",
        "a" * 10,
        "-----BEGIN PRIVATE KEY-----\n",
        "://a:",
        "Authorization: ",
        "'",
        "token: x ",
        "=> ",
    ):
        Redactor().text(piece * (60_000 // len(piece)))


@pytest.mark.parametrize(
    "name", ["PASSWORD", "dbPassword", "--api-key", "GITHUB_TOKEN", "aws_secret_access_key", "X-Auth-Token"]
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["PWD", "MAX_TOKENS", "--password-file", "TOKEN_URL", "key", "primary_key", "SECRET_NAME", "--token-ttl", "monkey"],
)
def test_names_of_other_things(name: str) -> None:
    assert not is_secret_name(name)


def test_values_that_are_none() -> None:
    assert not any(map(is_secret_value, ["", "true", "***", "<password>", "/run/secrets/db", "~/.ssh/id", "12"]))


# Where it may show


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    director = build_director("strict", project=tmp_path / "project")
    asker = ScriptedAsker([("approve", f"use {SECRET}")] * (len(WITH) + 2))
    return Gate(director, SQLiteStore(tmp_path / "store.sqlite3"), asker, run_id="run-1", valid_for_ms=10**9)


@pytest.mark.long
def test_none_is_in_log_export_chat_mail_and_trajectory(gate: Gate, tmp_path: Path) -> None:
    """The real Director and store: every command is asked about, approved, and fails with its own text."""
    project = tmp_path / "project"
    for _, template in WITH:
        command = template.replace("SECRET", SECRET)
        action = Action(
            command, cwd=str(project), project=str(project), env={"TOKEN": SECRET}, model_intent=f"try {command}"
        )
        permit = gate.check(action)
        if isinstance(permit, Permit):
            gate.start(permit, permit.action)
            gate.finish(permit, Outcome(None, f"could not run {command}"))
    requests = gate.store.requests()
    assert len(requests) > 40
    exported = b"".join(entry.line for entry in gate.store.events()).decode()
    path = str(gate.store.path)  # type: ignore[attr-defined]
    for form in (["--format", "json"], ["--format", "csv"], ["--html", str(tmp_path / "report.html")]):
        made = CliRunner().invoke(report_app, ["report", "--store", path, *form])
        assert made.exit_code == 0, made.exception
        assert SECRET not in made.output
    assert SECRET not in (tmp_path / "report.html").read_text()
    leaked = [line[:3000] for line in exported.splitlines() if SECRET in line]
    assert leaked == []
    assert gate.store.verify().intact  # type: ignore[attr-defined]
    for request in requests:
        assert request.digest not in exported
        full = dataclasses.replace(
            request, action=dataclasses.replace(request.action, stdin=f"password={SECRET}".encode())
        )
        shown = as_text(present(full, redacted=True))
        assert SECRET not in shown
        assert "secrets are not shown here" in shown
        assert conceal(full)[0].digest == request.digest
        record = Record(
            request.action.content,
            True,
            reason=f"because of {request.action.content}",
            edited=f"x; {request.action.content}",
        )
        assert SECRET not in str(record.public()) + str(record.listed())


def test_edits_and_words_with_secrets_are_proved_by_keyed_digests(tmp_path: Path) -> None:
    """The log has neither, and still shows where somebody changes them in the store."""
    store = SQLiteStore(tmp_path / "s.db")
    script = [("edit", f"mysql -p{SECRET} x"), ("reject", f"password: {SECRET}")]
    gate = Gate(ScriptedDirector({"ask": Verdict.ASK}), store, ScriptedAsker(script), run_id="r")
    for command in ("ask one", "ask two"):
        gate.check(Action(command, cwd="/srv", project="/srv"))
    edited, rejected = (entry.event for entry in store.events(type="vote"))
    assert SECRET not in str([edited, rejected])
    assert (set(edited["exact"]), set(rejected["exact"])) == ({"edited"}, {"comment"})
    assert store.verify().intact
    for column in ("edited", "comment"):
        with forging(store.path) as connection:
            connection.execute(f"UPDATE vote SET {column} = replace({column}, ?, 'other')", (SECRET,))
        problem = store.verify().problem
        assert f"{column} is" in problem
        assert "other" not in problem  # what a row holds instead may be a secret too
        with forging(store.path) as connection:
            connection.execute(f"UPDATE vote SET {column} = replace({column}, 'other', ?)", (SECRET,))


def test_a_terminal_shows_everything(gate: Gate, tmp_path: Path) -> None:
    gate.check(Action(f"mysql -p{SECRET}", cwd=str(tmp_path), project=str(tmp_path)))
    (request,) = gate.store.requests()
    assert SECRET in as_text(present(request))


def test_marks_move_what_is_marked() -> None:
    """The deciding part is still the one that is marked, behind a secret that became shorter or longer."""
    command = f"mysql -p{SECRET}{SECRET} -e x; rm -rf /srv"
    start = command.index("rm -rf")
    decision = PolicyDecision(Verdict.ASK, "r", "p", POLICY_DIGEST, spans=((start, len(command)),))
    action = Action(command, cwd="/srv")
    request = ApprovalRequest("i" * 32, "k", "d" * 64, {}, action, decision, "os:1:a", 1, 2, 3)
    (line,) = present(request, redacted=True).command
    assert [fragment.text for fragment in line if fragment.style is Style.MARK] == ["rm -rf /srv"]


def test_a_guess_at_a_command_can_not_be_checked_with_the_log(tmp_path: Path) -> None:
    """Digest, context, votes' signatures: none of them is what somebody without the store's key can compute."""
    from humanlayer_agent.store.rows import context_digest, dump_action, dump_decision

    director = ScriptedDirector({"ask": Verdict.ASK})
    store = SQLiteStore(tmp_path / "s.db")
    gate = Gate(director, store, ScriptedAsker(["approve"]), run_id="r")
    action = Action("ask", cwd="/srv", project="/srv", env={"PIN": "1234"})
    permit = gate.check(action)
    assert isinstance(permit, Permit)
    gate.start(permit, permit.action)
    (request,) = store.requests()
    (vote,) = store.votes(request.id)
    context = context_digest(dump_action(request.action), dump_decision(request.decision))
    exported = b"".join(entry.line for entry in store.events()).decode()
    for known in (request.digest, vote.signature, context, action.env_digest()):
        assert known not in exported
    assert store.redactor().digest(request.digest) in exported
    assert store.verify().intact
