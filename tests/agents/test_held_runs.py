"""A command runs held before a human is asked: they see what it changes, and exactly that is applied, or nothing."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent import Action, ActionDenied, Gate
from humanlayer_agent.agents.held_runs import THROWN_AWAY, HeldRuns
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver, Denial
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.confine.held_run.application import apply
from humanlayer_agent.locations import kept_folder, state_path
from humanlayer_agent.policy.needs_line import with_hold
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.undo import restoration
from humanlayer_agent.undo.kept_files import KeptFiles
from tests.confine.held_run.conftest import state
from tests.support import enclosures

pytestmark = pytest.mark.usefixtures("compiled")
POLICY = """
version: 1
policy: held
extends: builtin:default
rules:
  - id: look
    decision: ask
    hold: true
    severity: high
    reason: "{{ does }}."
    when: {effect: [delete, move], paths: {any_within: ["${PROJECT}/**"]}}
    tests: {match: ["rm x"], not_match: [ls]}
  - id: ask-first
    decision: ask
    reason: "{{ does }}."
    when: {program: touch}
    tests: {match: ["touch x"], not_match: [ls]}
"""


class Asked:
    """A channel whose human gives these answers: approve, reject, hold, or what a function makes of the request."""

    name = "scripted"

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.requests: list[ApprovalRequest] = []

    @property
    def shown(self) -> str:
        """What the human was shown last."""
        return as_text(present(self.requests[-1]), 100)

    def ask(self, request: ApprovalRequest, *, until: int, cancelled: Callable[[], bool]) -> Answer:
        self.requests.append(request)
        said = self.answers.pop(0)
        kind = said() if callable(said) else said
        edited = with_hold(request.action.content) if kind == "hold" else ""
        who = Approver(os_user(), "terminal", "terminal")
        return Answer(
            "edit" if edited else kind,
            who,
            presented_digest=request.digest,
            decision_id=f"{len(self.requests)}-{request.id}",
            edited=edited,
            comment="no, thanks" if kind == "reject" else "",
        )


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def project(place: Path) -> Path:
    folder = place / "project"
    (folder / "src").mkdir()
    (folder / "src/a.txt").write_text("one\ntwo\n")
    (folder / "old").write_text("old\n")
    (place / "policy.yaml").write_text(POLICY)
    return folder


@pytest.fixture
def gate(place: Path, project: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    enclosures.backend()
    monkeypatch.chdir(project)
    with Gate.from_config(user=asked, policy=place / "policy.yaml", project=project, confine=True) as opened:
        assert opened.enclosures is not None
        yield opened


def events(gate: Gate, kind: str) -> list[dict[str, Any]]:
    return [entry.event for entry in gate.store.events(type=kind)]


def test_what_was_seen_is_applied_and_its_output_is_the_result(gate: Gate, asked: Asked, project: Path) -> None:
    seen = []

    def look() -> str:
        seen.append((project / "old").exists())
        return "approve"

    asked.answers = [look]
    result = gate.run("rm old; echo three >> src/a.txt; echo done; exit 3")
    assert seen == [True], "nothing is changed before it is approved"
    assert (result.output, result.returncode, result.note) == ("done\n", 3, "")
    assert not (project / "old").exists()
    assert (project / "src/a.txt").read_text() == "one\ntwo\nthree\n"
    for line in ("a yes applies exactly this, and runs nothing", "deletes old (4 bytes)", "+three", "exit status 3"):
        assert line in asked.shown
    assert sorted(os.listdir(project)) == ["src"]


def test_the_digest_of_the_layer_is_in_the_request_the_vote_and_the_log(gate: Gate, asked: Asked) -> None:
    asked.answers = ["approve"]
    gate.run("rm old")
    (request,) = asked.requests
    plain = request.action.digest(request.decision.policy_digest, request.decision.files)
    assert request.action.layer
    assert request.digest == plain, "the layer is part of what is approved"
    assert request.body["layer"] == request.action.layer
    (vote,) = gate.store.votes(request.id)
    assert vote.presented_digest == request.digest
    (held,), (started,) = events(gate, "command.held"), events(gate, "exec.started")
    assert held["layer"] == started["layer"] == gate.store.redactor().digest(request.action.layer)
    assert "confined" not in started


def test_what_is_rejected_is_thrown_away_and_its_output_is_nobodys(gate: Gate, asked: Asked, project: Path) -> None:
    asked.answers = ["reject"]
    with pytest.raises(ActionDenied) as denied:
        gate.run("cat src/a.txt; rm old; echo SEEN")
    assert isinstance(denied.value.denial, Denial)
    said = f"{denied.value} {denied.value.denial}"
    assert "no, thanks" in said
    assert "SEEN" not in said.replace("echo SEEN", "")
    assert "two" not in said
    assert (project / "old").exists()
    with pytest.raises(ActionDenied):
        gate.run("cat src/a.txt; rm old; echo SEEN")
    assert len(asked.requests) == 1, "a human is not asked again about what they refused"
    assert os.listdir(state_path("held-runs")) == []


def test_where_something_changed_below_nothing_is_applied(gate: Gate, asked: Asked, project: Path) -> None:
    def change() -> str:
        (project / "src/a.txt").write_text("other\n")
        return "approve"

    asked.answers = [change]
    with pytest.raises(ActionDenied, match=r"src/a\.txt has changed since"):
        gate.run("rm old; echo three >> src/a.txt")
    assert (project / "old").exists()
    assert (project / "src/a.txt").read_text() == "other\n"
    (finished,) = events(gate, "exec.finished")
    assert finished.get("returncode") is None


def test_a_human_may_want_it_held(gate: Gate, asked: Asked, project: Path) -> None:
    asked.answers = ["hold", "approve"]
    assert gate.run("touch new; ls").output == "new\nold\nsrc\n"
    first, second = asked.requests
    assert first.can_hold
    assert first.decision.held is None
    assert second.parent == first.id
    assert second.decision.held is not None
    assert (project / "new").exists()


def test_an_agent_can_not_have_it_run_before_a_human_is_asked(gate: Gate, asked: Asked, project: Path) -> None:
    asked.answers = ["reject"]
    with pytest.raises(ActionDenied):
        gate.run("# needs: hold\ntouch new")
    (request,) = asked.requests
    assert request.decision.held is None
    assert events(gate, "command.held") == []


@pytest.mark.parametrize(
    "command",
    ["rm old; curl https://example.org", "rm old /srv/x", "rm old; sudo true", "rm old; kill 4242", "rm old; git push"],
)
def test_what_reaches_other_things_for_certain_is_not_run(gate: Gate, asked: Asked, command: str) -> None:
    asked.answers = ["reject"]
    with suppress(ActionDenied):
        gate.run(command)
    (request,) = asked.requests
    assert request.decision.held is None
    assert request.action.layer == ""
    assert "It could not be run held first" in asked.shown
    assert events(gate, "command.held") == []


def test_parts_that_are_denied_are_not_run(gate: Gate, asked: Asked) -> None:
    with pytest.raises(ActionDenied):
        gate.run("rm old; hla requests approve 1")
    assert asked.requests == []
    assert events(gate, "command.held") == []


def test_what_can_not_be_applied_is_only_told(gate: Gate, asked: Asked, project: Path) -> None:
    asked.answers = ["approve"]
    gate.run("mv old older; mkfifo pipe; echo x")
    assert "that can't be applied: a yes runs the command itself" in asked.shown
    assert "it makes special files: pipe." in asked.shown
    assert asked.requests[0].action.layer == ""
    assert (project / "pipe").is_fifo(), "it was run itself"


def test_it_is_approved_once_and_never_together_with_others(gate: Gate, asked: Asked) -> None:
    asked.answers = ["reject"]
    with pytest.raises(ActionDenied):
        gate.run("rm old")
    view = present(asked.requests[0])
    assert view.offers == ()


def test_secrets_are_hidden_from_whoever_is_shown_it(gate: Gate, asked: Asked, project: Path) -> None:
    (project / ".env").write_text("TOKEN=abcdef-the-secret\n")
    asked.answers = ["reject"]
    with pytest.raises(ActionDenied):
        gate.run("rm old; cat .e*; echo \"api_key = 'sk-ant-api03-abcdefabcdefabcdefabcdef'\" > src/new")
    assert "abcdef-the-secret" not in asked.shown
    (found,) = asked.requests
    assert found.decision.held is not None
    assert "api03-abcdef" not in found.decision.held.diff
    assert "⟦erased⟧" in found.decision.held.diff


def test_a_key_of_several_lines_is_hidden_in_the_lines_that_change(gate: Gate, asked: Asked, project: Path) -> None:
    body = "MIIEpAIBAAKCAQEAx7AbCdEfGh\nAAAAcanary1AAAAAAAAAAAAAAAA\nAAAAcanary2=\n"
    key = f"first\n-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\n"
    (project / "notes").write_text(key)
    asked.answers = ["reject", "reject"]
    for command in ("rm notes", "rm old; sed -i s/first/second/ notes"):
        with pytest.raises(ActionDenied):
            gate.run(command)
        held = asked.requests[-1].decision.held
        assert held is not None
        assert "canary" not in held.diff
        assert "-first\n" in held.diff
        assert "a secret of several lines in it is not shown" in held.diff


def test_what_it_prints_can_not_deceive_a_screen(gate: Gate, asked: Asked) -> None:
    asked.answers = ["reject"]
    with pytest.raises(ActionDenied):
        gate.run(
            r"""rm old; printf '\033[2J\342\200\256evil\n'; touch "$(printf 'a\033[31mb')"; printf 'x\033[8m' > t"""
        )
    shown = asked.shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_a_name_does_not_look_like_lines_of_a_file(gate: Gate, asked: Asked) -> None:
    asked.answers = ["reject"]
    with pytest.raises(ActionDenied):
        gate.run(r"""rm old; printf 'x\n' > "$(printf 'a\n+harmless')" """)
    held = asked.requests[0].decision.held
    assert held is not None
    assert "+harmless" not in held.diff.splitlines()
    assert "+++ a\\x0a+harmless\n" in held.diff


def test_it_is_said_what_can_be_run_afterwards(gate: Gate, asked: Asked) -> None:
    asked.answers = ["reject"]
    with pytest.raises(ActionDenied):
        gate.run("rm old; echo x >> src/a.txt; chmod 755 src/a.txt; echo x > new; chmod +x new")
    held = asked.requests[0].decision.held
    assert held is not None
    assert "changes src/a.txt (8 to 10 bytes, 644 to 755)" in held.files
    assert "makes new (2 bytes, can be run)" in held.files


def test_it_has_no_network_and_leaves_nothing_running(gate: Gate, asked: Asked, project: Path) -> None:
    asked.answers = ["reject", "reject"]
    shutil.copy("/bin/bash", project / "unread")
    (project / "script").write_bytes(b"exec 3<>/dev/tcp/10.9.8.7/80")
    with pytest.raises(ActionDenied):
        gate.run("rm old; ./unread script")
    assert "it tried what a held run has not: the network." in asked.shown
    with pytest.raises(ActionDenied):
        gate.run("rm old; (sleep 60 > /dev/null 2>&1 &)")
    assert "processes that go on" in asked.shown


CHECKS = [
    "[ ! -e /run/lock ]",
    "grep -q overlay /proc/mounts",
    "grep -q overlay /proc/self/mountinfo",
    '[ "$(stat -f -c %T .)" = overlayfs ]',
    "df . | grep -q overlay",
    "[ ! -e /etc/shadow ]",
    '[ "$(cat /proc/1/comm)" = bwrap ]',
    '[ "$(ls /proc | grep -c "^[0-9]")" -lt 20 ]',
    '[ "$(wc -l < /proc/self/uid_map)" = 1 ]',
    "grep -q 'Seccomp:.*2' /proc/self/status",
    "grep -q 'NoNewPrivs:.*1' /proc/self/status",
    "grep -q 'CapEff:.*0000000000000000' /proc/self/status",
    '[ "$(grep -c : /proc/net/dev)" = 1 ]',
    "[ ! -w /proc/sys/kernel/panic ]",
    "[ ! -e /dev/sda ]",
    '[ -z "$(ls -A /tmp)" ]',
    "[ ! -w /var/lib ]",
    "[ ! -t 0 ]",
    '[ "$(id -G | wc -w)" -ge 1 ]',
    "[ ! -S /run/docker.sock ]",
    '[ "$(readlink /proc/self/ns/net)" != x ]',
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("check", CHECKS)
def test_whoever_behaves_while_held_gains_nothing(gate: Gate, asked: Asked, project: Path, check: str) -> None:
    """Neither is the question another one, nor does anything else happen than what was seen."""
    command = f"rm old; {check} || rm -rf src"
    own: Any = gate.director
    from humanlayer_agent import Action

    plain = own.evaluate(Action(command, cwd=str(project), project=str(project)))
    asked.answers = ["approve"]
    gate.run(command)
    (request,) = asked.requests
    assert request.decision.verdict is plain.verdict
    assert request.decision.severity == plain.severity == "high"
    assert request.decision.rules == plain.rules
    held = request.decision.held
    assert held is not None
    assert held.applicable
    seen = any("deletes src/" in each for each in held.files)
    assert (project / "src").exists() is not seen
    assert not (project / "old").exists()


def test_where_its_process_is_killed_meanwhile_the_next_run_completes_it(
    gate: Gate, asked: Asked, project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def kill(where: str, steps: list[str] = []) -> None:  # noqa: B006
        steps.append(where)
        if steps.count("step") == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def applied_by_a_child(*words: Any) -> None:
        child = os.fork()
        if child == 0:
            try:
                apply(*words, at=kill)
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    asked.answers = ["approve"]
    with monkeypatch.context() as patched:
        patched.setattr("humanlayer_agent.agents.held_runs.apply", applied_by_a_child)
        patched.setattr("humanlayer_agent.agents.held_runs._rmtree", lambda folder: None)
        gate.run("rm old; echo n > new")
    assert {"old", "new"} & set(os.listdir(project)) in ({"old", "new"}, set())
    assert gate.enclosures is not None
    HeldRuns(gate.enclosures).close()
    assert "was interrupted were completed" in caplog.text
    assert sorted(os.listdir(project)) == ["new", "src"]


def test_it_is_told_of_in_one_observation_by_a_real_agents_environment(
    place: Path, project: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """mini's environment applies it as well, and the model reads the output of the held run."""
    pytest.importorskip("minisweagent")
    from humanlayer_agent.agents.mini.environment import SupervisedLocalEnvironment

    enclosures.backend()
    monkeypatch.chdir(project)
    made = SupervisedLocalEnvironment(
        user=asked,
        supervision={"policy": str(place / "policy.yaml"), "project": str(project), "confine": True},
        cwd=str(project),
    )
    asked.answers = ["approve"]
    said = made.execute({"command": "rm old; echo printed"})
    assert "printed" in said["output"]
    assert said["returncode"] == 0
    assert not (project / "old").exists()


def test_the_same_asked_about_twice_leaves_nothing_behind(gate: Gate, project: Path) -> None:
    """What only deletes has the same digest each time; what is approved is the same too."""
    holder: Any = gate._holder
    action = Action("rm old", cwd=str(project), project=str(project), env={"PATH": os.environ["PATH"]})
    judge: Any = gate.director
    decision = judge.evaluate(action)
    first, second = (holder.hold(action, decision)[0] for _ in range(2))
    assert first == second != ""
    assert len(os.listdir(state_path("held-runs"))) == 1
    holder.drop(first)
    assert os.listdir(state_path("held-runs")) == []


def test_what_was_applied_can_be_undone(
    place: Path, project: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `undo: run`, all that a held run has changed comes back: also what nothing but the run could tell."""
    enclosures.backend()
    monkeypatch.chdir(project)
    (place / "policy.yaml").write_text(POLICY.replace("rules:", "defaults: {undo: run}\nrules:", 1))
    (project / "link").symlink_to("old")
    shutil.copy("/bin/bash", project / "unread")
    (project / "script").write_text(
        "rm -r src; mkdir -p made/deep; echo n > made/deep/new; chmod 600 script; rm link\n"
    )
    before = state(project)
    asked.answers = ["approve"]
    with Gate.from_config(user=asked, policy=place / "policy.yaml", project=project, confine=True) as gate:
        gate.run("rm old; ./unread script")
    assert asked.requests[0].action.layer
    assert not (project / "src").exists()
    kept = KeptFiles(kept_folder())
    (manifest,) = restoration.manifests_of(kept, str(project))
    plan = restoration.plan_of(kept, [manifest], [])
    assert restoration.undo(kept, plan, restoration.keep_before(kept, manifest.run, plan)).failed == {}
    assert state(project) == before


def test_what_lies_elsewhere_is_not_kept_and_that_is_said(gate: Gate, asked: Asked) -> None:
    asked.answers = ["approve"]
    assert gate.run("rm old; echo x > /tmp/x; cat /tmp/x").note == THROWN_AWAY
    assert "what it wrote to /tmp" in asked.shown
    assert "x" not in gate.run("ls /tmp").output.splitlines()


def test_what_starts_too_many_processes_is_ended(gate: Gate, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for root, whose processes no limit of the kernel counts."""
    monkeypatch.setattr("humanlayer_agent.confine.held_run.overlay.MOST_PROCESSES", 100)
    asked.answers = ["reject"]
    with pytest.raises(ActionDenied):
        gate.run("rm old; for i in $(seq 300); do sleep 20 & done; wait")
    assert "it wrote, or started, more than a held run may, and was ended" in asked.shown
    assert "a yes runs the command itself" in asked.shown
