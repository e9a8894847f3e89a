"""`hla requests approve|reject|edit|watch`: a request that really waits, a human at a real terminal, a key from `init`."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Denial, Permit
from humanlayer_agent.cli import main
from humanlayer_agent.cli.shared.records import RequestRecord
from humanlayer_agent.configuration import build_authority
from humanlayer_agent.keys.key_file import LockedKey
from humanlayer_agent.keys.signing import Signer
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, default_store_path, key_path
from humanlayer_agent.policy.decision import Ask, PolicyDecision, Verdict
from humanlayer_agent.processes import identity
from humanlayer_agent.store import heartbeats
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children
from tests.support.keys import PASSPHRASE, QUICK, known_passphrase, make_key, passphrase_file
from tests.support.records import faults

RUN = [sys.executable, "-m", "humanlayer_agent.cli", "requests"]
COMMAND = "make deploy"


class Judge:
    """Asks about everything, and allows what a human has made of it."""

    severity = "medium"

    def evaluate(self, action: Action) -> PolicyDecision:
        asked = action.content.startswith(COMMAND)
        verdict = Verdict.ASK if asked else Verdict.ALLOW
        return PolicyDecision(
            verdict,
            reason="a rule says so",
            rules=("r1",),
            policy="test",
            policy_digest="0" * 64,
            severity=self.severity,
            asks=(Ask("r1", "make", "network", "operand", "x.example", severity=self.severity),) if asked else (),
        )


class Away:
    """A channel whose human answers elsewhere."""

    name = "away"

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.gone = threading.Event()
        self.request: ApprovalRequest

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer | None:
        self.request = request
        self.asked.set()
        while not cancelled() and not self.gone.wait(0.02):
            pass
        return None


class Waiting:
    """An agent that waits for the answer to one request."""

    def __init__(self, action: Action) -> None:
        self.judge, self.away = Judge(), Away()
        self.store = SQLiteStore(default_store_path())
        authority = build_authority()
        self.gate = Gate(self.judge, self.store, self.away, authority=authority)
        self.answers: list[Permit | Denial] = []
        self._action = action
        self._thread = threading.Thread(target=lambda: self.answers.append(self.gate.check(action)))

    def start(self) -> "Waiting":
        self._thread.start()
        self.away.asked.wait()
        return self

    @property
    def id(self) -> str:
        return self.away.request.id

    def answer(self) -> Permit | Denial:
        self._thread.join()
        return self.answers[0]

    def refusals(self) -> list[str]:
        return [entry.event["refusal"] for entry in self.store.events(type="vote.refused")]

    def close(self) -> None:
        self.away.gone.set()
        self._thread.join()
        self.gate.close()
        self.store.close()


Identity = Callable[..., str]


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[Identity]:
    """The agent is another process than the one the human's terminal descends from, which is us; gives the real one."""
    real = identity.identity
    with subprocess.Popen(["sleep", "600"]) as other:
        monkeypatch.setattr(identity, "identity", lambda pid=None: real(other.pid if pid is None else pid))
        yield real
        other.kill()


@pytest.fixture
def ready(
    elsewhere: Identity, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    capsys.readouterr()


@pytest.fixture
def agent(ready: None) -> Iterator[Callable[..., Waiting]]:
    started: list[Waiting] = []

    def start(content: str = COMMAND, *, severity: str = "medium", stdin: bytes = b"") -> Waiting:
        one = Waiting(Action(content, cwd="/srv/app", project="/srv/app", stdin=stdin))
        one.judge.severity = severity
        started.append(one)
        return one.start()

    yield start
    for one in started:
        one.close()


def at_terminal(
    *arguments: str, typed: str | None = None, word: str = "", passphrase: str = PASSPHRASE, **environ: str
) -> tuple[int, str]:
    """The exit code and all that was shown to a human, who types a word and as often as asked the passphrase."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", **environ}
    child: Any = children.spawn(
        RUN[0], [*RUN[1:], *arguments], env=env, timeout=600, encoding="utf-8", dimensions=(50, 200)
    )
    shown = ""
    if typed is not None:
        child.expect_exact(f'Type "{word or typed}"')
        shown = child.before
        child.sendline(typed)
    while child.expect_exact(["Passphrase of your key: ", pexpect.EOF]) == 0:
        shown += child.before + "Passphrase of your key: "
        child.sendline(passphrase)
    shown += child.before
    child.close()
    assert len(passphrase) < 12 or passphrase not in shown
    assert "could read what you type" not in shown
    return child.exitstatus, shown


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "command", [["approve", "--yes"], ["reject", "no"], ["respond", "hi"], ["show"], ["ls"], ["watch"]]
)
def test_below_the_process_that_waits(
    agent: Callable[..., Waiting], elsewhere: Identity, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    """A command that has killed what watches over it is a child of the agent's own process: it is nobody's human."""
    monkeypatch.setattr(identity, "identity", elsewhere)
    one = agent()
    name, *more = command
    answers = name in ("approve", "reject", "respond")
    code, shown = at_terminal(name, *([one.id] if answers or name == "show" else []), *more)
    assert code == (3 if answers else 2)
    assert "only a human at a terminal of their own" in shown
    assert COMMAND not in shown
    assert one.store.votes(one.id) == []
    logged = [entry.event for entry in one.store.events() if entry.event["type"] in ("wall.refused", "vote.refused")]
    (event,) = logged
    assert event.get("refusal" if answers else "command") == ("supervised-command" if answers else f"requests {name}")


def test_approve(agent: Callable[..., Waiting], own_user: Path) -> None:
    one = agent()
    code, shown = at_terminal("approve", one.id[:8], "--comment", "as agreed", typed="approve")
    assert code == 0, shown
    for text in (one.id, COMMAND, "a rule says so", "as agreed", f"approved: {one.id[:12]}"):
        assert text in shown
    assert isinstance(one.answer(), Permit)
    (vote,) = one.store.votes(one.id)
    assert (vote.approver.principal, vote.approver.assurance) == (f"os:{os.getuid()}:{_name()}", "terminal")
    assert vote.comment == "as agreed"
    for path in own_user.rglob("*"):  # the passphrase is nowhere: not in the store, nor in the log
        assert path.is_dir() or PASSPHRASE.encode() not in path.read_bytes(), path


@pytest.mark.sample(2)
@pytest.mark.parametrize("typed", ["", "y", "yes", "reject", "approve it"])
def test_only_the_word_approves(typed: str, agent: Callable[..., Waiting]) -> None:
    one = agent()
    code, shown = at_terminal("approve", one.id, typed=typed, word="approve")
    assert (code, one.store.votes(one.id)) == (1, [])
    assert "nothing was answered" in shown


def test_without_a_word_it_is_the_os_user_only(agent: Callable[..., Waiting]) -> None:
    one = agent()
    assert at_terminal("approve", one.id, "--yes")[0] == 0
    (vote,) = one.store.votes(one.id)
    assert vote.approver.assurance == "os"


@pytest.mark.sample(1)
@pytest.mark.parametrize("severity", ["high", "critical"])
def test_what_is_severe_needs_the_word(severity: str, agent: Callable[..., Waiting]) -> None:
    one = agent(severity=severity)
    code, shown = at_terminal("approve", one.id, "--yes")
    assert code == 1
    assert "without --yes" in shown
    assert one.refusals() == ["low-assurance"]
    assert at_terminal("approve", one.id, typed="approve")[0] == 0
    assert isinstance(one.answer(), Permit)


def test_a_wrong_passphrase_is_no_vote(agent: Callable[..., Waiting]) -> None:
    one = agent()
    code, shown = at_terminal("approve", one.id, typed="approve", passphrase="correct horse battery stapler")
    assert (code, one.store.votes(one.id)) == (1, [])
    assert shown.count("That does not unlock it.") == 3
    assert "nothing was answered" in shown
    assert one.refusals() == ["wrong-passphrase"] * 3
    assert {e.event["request"] for e in one.store.events(type="vote.refused")} == {one.id}
    assert at_terminal("approve", one.id, typed="approve")[0] == 0
    assert isinstance(one.answer(), Permit)


def test_no_passphrase_is_no_vote(agent: Callable[..., Waiting]) -> None:
    one = agent()
    code, shown = at_terminal("approve", one.id, "--yes", passphrase="")
    assert (code, one.store.votes(one.id), one.refusals()) == (1, [], [])
    assert shown.count("Passphrase of your key: ") == 1


def test_a_file_does_not_stand_in_for_a_human(agent: Callable[..., Waiting], tmp_path: Path) -> None:
    """A hub may have its passphrase from a file. Who answers types it, whatever the environment says."""
    one = agent()
    environ = {PASSPHRASE_VARIABLE: str(passphrase_file(tmp_path))}
    code, shown = at_terminal("approve", one.id, "--yes", passphrase="", **environ)
    assert (code, one.store.votes(one.id)) == (1, [])
    assert "Passphrase of your key: " in shown


def test_who_could_read_along_is_named(agent: Callable[..., Waiting]) -> None:
    one = agent()
    env = {**os.environ, "LC_ALL": "C.UTF-8"}
    child: Any = children.spawn(RUN[0], [*RUN[1:], "approve", one.id], env=env, timeout=600, encoding="utf-8")
    child.expect_exact('Type "approve"')
    tty = os.open(os.readlink(f"/proc/{child.pid}/fd/0"), os.O_RDONLY | os.O_NOCTTY)
    with subprocess.Popen(["sleep", "600"], stdin=tty, start_new_session=True) as thief:
        os.close(tty)
        child.sendline("approve")
        child.expect_exact(f"Warning: 'sleep' (pid {thief.pid}) has this terminal open, and could read what you type.")
        child.expect_exact("Passphrase of your key: ")
        child.sendintr()
        thief.kill()  # while it has the terminal open, there is no end of it
        child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, one.store.votes(one.id)) == (130, [])


def test_a_key_file_of_somebody_else(agent: Callable[..., Waiting]) -> None:
    """It states the public key that is listed, and has another in it: nothing counts, and nobody learns a passphrase."""
    one = agent()
    listed = Signer(key_path()).fingerprint
    key_path().unlink()
    theirs = make_key()
    assert theirs.fingerprint != listed
    code, shown = at_terminal("approve", one.id, "--yes")
    assert (code, one.store.votes(one.id)) == (2, [])
    assert "is not named under `signers:`" in shown
    assert "Passphrase" not in shown
    locked = LockedKey.lock(theirs._private().private_bytes_raw(), listed, PASSPHRASE, QUICK)
    key_path().write_text(locked.text())
    code, shown = at_terminal("approve", one.id, typed="approve")
    assert (code, one.store.votes(one.id)) == (1, [])
    assert one.refusals() == ["wrong-passphrase"] * 3


def test_reject(agent: Callable[..., Waiting]) -> None:
    one = agent()
    assert at_terminal("reject", one.id, "use staging", typed="reject")[0] == 0
    denial = one.answer()
    assert isinstance(denial, Denial)
    assert (denial.by, denial.comment) == ("human", "use staging")


def test_an_answer_in_words(agent: Callable[..., Waiting]) -> None:
    one = agent()
    assert at_terminal("respond", one.id, "it is clean already", typed="respond")[0] == 0
    denial = one.answer()
    assert isinstance(denial, Denial)
    assert (denial.by, denial.answer, denial.comment) == ("human", "respond", "it is clean already")


def test_a_rejection_says_why(ready: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requests", "reject", "4f1c", "  "]) == 2
    assert main(["requests", "respond", "4f1c", "  "]) == 2
    assert "needs a reason" in capsys.readouterr().err


def test_edit_with_a_command(agent: Callable[..., Waiting]) -> None:
    one = agent()
    code, shown = at_terminal("edit", one.id, "--command", "make check", typed="edit")
    assert code == 0
    assert "make check" in shown
    permit = one.answer()
    assert isinstance(permit, Permit)
    assert permit.action.content == "make check"


def test_edit_in_the_editor(agent: Callable[..., Waiting], tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nprintf 'make check\\n' > \"$1\"\n")
    editor.chmod(0o700)
    one = agent()
    code, shown = at_terminal("edit", one.id, typed="edit", EDITOR=str(editor), VISUAL="")
    assert code == 0, shown
    permit = one.answer()
    assert isinstance(permit, Permit)
    assert permit.action.content == "make check"


def test_an_editor_that_changes_nothing(agent: Callable[..., Waiting]) -> None:
    one = agent()
    code, shown = at_terminal("edit", one.id, EDITOR="/bin/true", VISUAL="")
    assert (code, one.store.votes(one.id)) == (2, [])
    assert "nothing was changed" in shown


def test_an_edit_to_the_same_is_refused(agent: Callable[..., Waiting]) -> None:
    one = agent()
    assert at_terminal("edit", one.id, "--command", COMMAND, "--yes")[0] == 1
    assert one.refusals() == ["bad-edit"]


def test_too_late(agent: Callable[..., Waiting]) -> None:
    one = agent()
    assert at_terminal("reject", one.id, "no", "--yes")[0] == 0
    one.answer()
    code, shown = at_terminal("approve", one.id, "--yes")
    assert code == 1
    assert "too late: the request was already rejected" in shown
    assert len(list(one.store.events(type="vote.late"))) == 1


def test_an_unknown_id(agent: Callable[..., Waiting]) -> None:
    one = agent()
    code, shown = at_terminal("approve", "zz", "--yes")
    assert code == 2
    assert "no requests begin with zz" in shown
    assert one.store.votes(one.id) == []


def test_no_id_is_no_prefix(agent: Callable[..., Waiting]) -> None:
    agent()
    assert at_terminal("approve", "", "--yes")[0] == 2


def test_without_a_key(agent: Callable[..., Waiting]) -> None:
    one = agent()
    key_path().unlink()
    code, shown = at_terminal("approve", one.id, "--yes")
    assert (code, one.store.votes(one.id)) == (2, [])
    assert "run hla init" in shown


def test_a_key_that_nobody_names(agent: Callable[..., Waiting], capsys: pytest.CaptureFixture[str]) -> None:
    one = agent()
    key_path().unlink()
    make_key()
    assert main(["init", "--yes"]) == 1
    capsys.readouterr()
    code, shown = at_terminal("approve", one.id, "--yes")
    assert (code, one.store.votes(one.id)) == (2, [])
    assert "signers" in shown


def test_an_input_that_can_not_be_shown(agent: Callable[..., Waiting]) -> None:
    one = agent(stdin=b"drop table users")
    code, shown = at_terminal("approve", one.id, "--yes")
    assert (code, one.store.votes(one.id)) == (2, [])
    assert "an input" in shown
    assert at_terminal("reject", one.id, "what is it?", "--yes")[0] == 0


@pytest.mark.parametrize("more", [[], ["--yes"]])
def test_without_a_terminal(more: list[str], agent: Callable[..., Waiting]) -> None:
    one = agent()
    done = children.run(
        [*RUN, "approve", one.id, *more], input="approve\n", capture_output=True, text=True, start_new_session=True
    )
    assert done.returncode == 3
    assert "only a human at a terminal" in done.stderr
    assert one.refusals() == ["no-terminal"]
    assert one.store.votes(one.id) == []


def test_below_a_supervised_command(agent: Callable[..., Waiting]) -> None:
    one = agent()
    code, shown = at_terminal("approve", one.id, "--yes", HUMANLAYER_SUPERVISED="1")
    assert code == 3
    assert "supervised command" in shown
    assert one.refusals() == ["supervised-command"]


def test_no_store_is_made(ready: None) -> None:
    code, shown = at_terminal("approve", "4f1c", "--yes")
    assert code == 2
    assert "there is no store" in shown
    assert not default_store_path().exists()


def test_what_an_agent_that_was_killed_has_asked_is_closed_where_somebody_looks(
    agent: Callable[..., Waiting], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No hub is there that would see to it."""
    one = agent()
    assert main(["requests", "ls"]) == 0
    assert "pending" in capsys.readouterr().out
    monkeypatch.setattr(identity, "lives", lambda process: False)
    monkeypatch.setattr(heartbeats, "LEFT_MS", 0)
    assert main(["requests", "ls"]) == 0
    assert capsys.readouterr().out == "No request waits for an answer.\n"
    assert main(["requests", "ls", "--all"]) == 0
    assert "withdrawn, agent gone" in capsys.readouterr().out
    assert main(["requests", "show", one.id]) == 0
    assert "state   withdrawn, agent gone" in capsys.readouterr().out


@pytest.mark.long
def test_watch(agent: Callable[..., Waiting]) -> None:
    one = agent()
    child: Any = children.spawn(
        RUN[0], [*RUN[1:], "watch", "--format", "jsonl"], timeout=600, encoding="utf-8", echo=False
    )
    child.expect(r"(\{.*\})\r\n")
    assert json.loads(child.match.group(1))["state"] == "pending"
    assert at_terminal("reject", one.id, "no", "--yes")[0] == 0
    child.expect(r"(\{.*\})\r\n")
    line = json.loads(child.match.group(1))
    assert (line["id"], line["state"], faults(line, RequestRecord)) == (one.id, "rejected", [])
    child.sendintr()
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


@pytest.mark.parametrize("command", ["approve", "reject", "edit", "respond", "watch"])
def test_help_has_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["requests", command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"hla requests {command}" in shown
    assert len(shown.splitlines()) <= 30


def _name() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


# More than once, and several at once


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("scope", "words", "name"),
    [
        ("action", "this exact command, in this run (50 uses)", "action"),
        ("run", "make contacting x.example, in this run (50 uses)", "run"),
        ("1h", "make contacting x.example, for 1 hour (50 uses)", "hour"),
    ],
)
def test_approve_for_more_than_once(agent: Callable[..., Waiting], scope: str, words: str, name: str) -> None:
    one = agent()
    code, shown = at_terminal("approve", one.id, "--for", scope, typed="approve")
    assert code == 0, shown
    for text in (
        "What of this may run again without a question?",
        "at most 50 times and for 8 hours, for any agent of",
        "there are no earlier requests in this project to compare it with",
        f"to let it run, and remember: {words}, anything else not to",
        f"approved: {one.id[:12]}; and remembered: {words}",
    ):
        assert text in " ".join(shown.split()), text
    assert isinstance(one.answer(), Permit)
    (grant,) = one.store.grants.given(active=True)
    assert (grant.id, grant.remembered) == (one.id, words)
    again = one.gate.check(Action(COMMAND, cwd="/srv/app", project="/srv/app"))
    assert isinstance(again, Permit)
    assert again.by_grants == f"grant {one.id[:4]} by {grant.by[0]} (1 of 50)"


def test_what_it_would_have_let_through_is_shown(agent: Callable[..., Waiting]) -> None:
    before = agent()
    assert at_terminal("reject", before.id, "not now", typed="reject")[0] == 0
    before.answer()
    one = agent()
    code, shown = at_terminal("approve", one.id, "--for", "action", typed="no", word="approve")
    assert (code, one.store.grants.given()) == (1, [])
    assert "of 1 earlier request in this project it would have answered 1, 1 of which a human did not want" in shown


@pytest.mark.parametrize(
    ("severity", "scope", "why"),
    [
        ("critical", "1h", "can be approved once only: it is of critical severity"),
        ("high", "1h", "can't be approved for 1h, but for these (action: this exact command, in this run)"),
        (
            "medium",
            "any",
            "but for these (action: this exact command, in this run; run: make contacting x.example, in this run",
        ),
    ],
)
def test_what_is_not_offered_is_not_given(agent: Callable[..., Waiting], severity: str, scope: str, why: str) -> None:
    one = agent(severity=severity)
    code, shown = at_terminal("approve", one.id, "--for", scope)
    assert (code, one.store.votes(one.id)) == (2, [])
    assert why in " ".join(shown.split())


@pytest.mark.parametrize("like", [True, False])
def test_several_at_once(agent: Callable[..., Waiting], like: bool) -> None:
    commands = [f"{COMMAND} {name}" for name in ("blue", "green", "red")]
    waiting = [agent(command) for command in commands]
    ids = [one.id for one in waiting]
    code, shown = at_terminal("approve", *(["--like", ids[0]] if like else ids), typed="approve")
    assert code == 0, shown
    assert all(command in shown for command in commands)
    assert "wants to run these 3" in shown
    assert "to let each of these 3 run once, anything else not to" in shown
    assert shown.count("^^^") == 3  # what differs
    assert shown.count("Passphrase of your key: ") == 1
    for one in waiting:
        assert f"approved: {one.id[:12]}" in shown
        assert isinstance(one.answer(), Permit)
        (vote,) = one.store.votes(one.id)
        assert (vote.approver.assurance, vote.presented_digest) == ("terminal", one.away.request.digest)
    assert len({one.store.votes(one.id)[0].signature for one in waiting}) == 3
    assert waiting[0].store.grants.given() == []


def test_nothing_is_answered_with_others_that_must_be_seen_alone(agent: Callable[..., Waiting]) -> None:
    one, severe, fed = agent(), agent(f"{COMMAND} all", severity="high"), agent(f"{COMMAND} -", stdin=b"x")
    for other, why in ((severe, "it is of high severity"), (fed, "it gets an input")):
        code, shown = at_terminal("approve", one.id, other.id)
        assert code == 2
        assert f"{other.id[:12]} must be answered by itself: {why}" in shown
    code, shown = at_terminal("approve", "--like", one.id, typed="approve")
    assert (code, "to let it run once" in shown) == (0, True)
    assert one.store.votes(severe.id) == one.store.votes(fed.id) == []


def test_several_are_answered_only_while_all_of_them_wait(agent: Callable[..., Waiting]) -> None:
    one, other = agent(), agent(f"{COMMAND} b")
    assert at_terminal("reject", other.id, "no", typed="reject")[0] == 0
    other.answer()
    code, shown = at_terminal("approve", one.id, other.id)
    assert (code, one.store.votes(one.id)) == (2, [])
    assert f"{other.id[:12]} does not wait for an answer any more" in shown


def test_figures_by_approver_and_by_rule(
    agent: Callable[..., Waiting], capsys: pytest.CaptureFixture[str], ready: None
) -> None:
    assert main(["requests", "ls", "--figures"]) == 2, "there is no store"
    for kind, *words in (("approve",), ("reject", "use staging")):
        one = agent()
        assert at_terminal(kind, one.id, *words, typed=kind)[0] == 0
        one.answer()
    capsys.readouterr()
    assert main(["requests", "ls", "--figures", "--format", "json"]) == 0
    by_name = {(each["of"], each["name"]): each for each in json.loads(capsys.readouterr().out)}
    (mine,) = (each for (of, _), each in by_name.items() if of == "approver")
    (rule,) = (each for (of, _), each in by_name.items() if of == "rule")
    assert mine["answers"] == rule["answers"] == {"approve": 1, "reject": 1}
    assert (mine["percent_approved"], mine["asked"], rule["asked"]) == (50.0, 2, 2)
    assert main(["requests", "ls", "--figures"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "approver asked answers approved median under 3 s" in shown
    assert "50 %" in shown
    assert main(["requests", "ls", "--figures", "--run", "no-such-run"]) == 0
    assert capsys.readouterr().out == "Nobody was asked.\n"
