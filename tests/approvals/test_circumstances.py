"""What a decision hangs on is still so when the action starts: the time, the branch, who started the run."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Denial, Outcome, Permit
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load
from humanlayer_agent.shell import DiskReader
from humanlayer_agent.testing.approvers import answer

Make = Callable[..., Gate]

HOURS = 'time: {hours: "09:00-17:00", tz: Europe/Berlin}'
RULES = f"""
version: 1
policy: p
defaults: {{unmatched: allow}}
rules:
  - {{id: night, decision: deny, reason: At night., when: {{program: dbt, not: {{{HOURS}}}}}}}
  - {{id: main, decision: deny, reason: On main., when: {{program: git, subcommand: push, repo: {{branch: main}}}}}}
  - {{id: tags, decision: ask, reason: A tag., when: {{program: git, subcommand: tag, repo: {{branch: "rel*"}}}}}}
  - {{id: bob, decision: deny, reason: Not Bob., when: {{program: make, requester: "os:*:bob"}}}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    path = tmp_path / "project"
    path.mkdir()
    (tmp_path / "p.yaml").write_text(RULES)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-qb", "rel-1"], cwd=path, check=True)
    subprocess.run([*git, "commit", "-qm", "a", "--allow-empty"], cwd=path, check=True)
    return path


@pytest.fixture
def director(project: Path) -> Director:
    now = ["2026-11-27T15:59:59Z"]  # 16:59:59 in Berlin
    made = Director(
        load(project.parent / "p.yaml"), project=project, reader=DiskReader(project), environ={"HOME": "/h"},
        today=lambda: now[0],
    )  # fmt: skip
    made.clock = now  # type: ignore[attr-defined]
    return made


def act(project: Path, command: str) -> Action:
    return Action(command, cwd=str(project), project=str(project))


def switch(project: Path, branch: str) -> None:
    (project / ".git/HEAD").write_text(f"ref: refs/heads/{branch}\n")


def permitted(answer: Permit | Denial) -> Permit:
    assert isinstance(answer, Permit), answer
    return answer


def test_what_was_allowed_in_time_does_not_start_too_late(make_gate: Make, project: Path, director: Any) -> None:
    gate = make_gate(director=director)
    permit = permitted(gate.check(act(project, "dbt run")))
    assert gate.start(permit, permit.action) is None
    late = permitted(gate.check(act(project, "dbt run")))
    director.clock[0] = "2026-11-27T16:00:00Z"
    denial = gate.start(late, late.action)
    assert denial is not None
    assert "says something else of it now" in denial.reason
    assert isinstance(gate.check(act(project, "dbt run")), Denial)


@pytest.mark.parametrize("way", ["check", "admit"])
def test_a_branch_that_is_left_meanwhile_stops_it(
    make_gate: Make, project: Path, director: Director, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    gate = make_gate(director=director)
    if way == "admit":  # between the judgement and the transaction
        judge = director.evaluate

        def judged(*given: Any, **more: Any) -> Any:
            decision = judge(*given, **more)
            switch(project, "main")
            return decision

        monkeypatch.setattr(director, "evaluate", judged)
        assert isinstance(gate.admit(act(project, "git push")), Denial)
    else:
        permit = permitted(gate.check(act(project, "git push")))
        switch(project, "main")
        assert gate.start(permit, permit.action) is not None


def test_a_branch_that_is_left_after_the_start_is_seen_before_the_command(
    make_gate: Make, project: Path, director: Director
) -> None:
    from humanlayer_agent.errors import NotAsJudged

    gate = make_gate(director=director)
    permit = permitted(gate.admit(act(project, "git push")))
    assert permit.judged is not None
    switch(project, "main")
    with pytest.raises(NotAsJudged, match=r"\.git/HEAD"):
        permit.judged.check()


def test_a_branch_that_is_left_while_a_human_reads_makes_their_answer_void(
    make_gate: Make, project: Path, director: Director
) -> None:
    def meanwhile(request: ApprovalRequest) -> Answer:
        switch(project, "rel-2")
        return answer(request, "approve")

    gate = make_gate([meanwhile], director=director)
    permit = permitted(gate.check(act(project, "git tag v1")))
    denial = gate.start(permit, permit.action)
    assert denial is not None
    assert "not what was permitted" in denial.reason


def test_another_repository_that_is_made_nearer_meanwhile_stops_it(
    make_gate: Make, project: Path, director: Director
) -> None:
    (project / "sub").mkdir()
    gate = make_gate(director=director)
    command = Action("git push", cwd=str(project / "sub"), project=str(project))
    permit = permitted(gate.check(command))
    subprocess.run(["git", "init", "-qb", "main"], cwd=project / "sub", check=True)
    assert gate.start(permit, permit.action) is not None


@pytest.mark.parametrize(
    "command", ["git checkout -qb other", "git switch -qc other", "git branch -m other", "git push -u o x"]
)
def test_git_itself_may_change_what_is_checked_out(
    make_gate: Make, project: Path, director: Director, command: str
) -> None:
    project.parent.joinpath("p.yaml").write_text(
        RULES.replace("subcommand: push, repo: {branch: main}", 'repo: {branch: main, remote: "x"}')
    )
    director = Director(load(project.parent / "p.yaml"), project=project, reader=DiskReader(project))
    gate = make_gate(director=director)
    permit = permitted(gate.admit(act(project, command)))
    subprocess.run(command, shell=True, cwd=project, check=False, capture_output=True)
    assert gate.finish(permit, Outcome(0)) == ""


def test_who_started_the_run(make_gate: Make, project: Path, director: Director) -> None:
    assert isinstance(make_gate(director=director, requester="os:1:alice").check(act(project, "make")), Permit)
    assert isinstance(make_gate(director=director, requester="os:2:bob").check(act(project, "make")), Denial)
    said = Action("make", cwd=str(project), requester="os:1:alice")  # whoever proposes it does not say who started it
    assert isinstance(make_gate(director=director, requester="os:2:bob").check(said), Denial)


# ---- what stands in files ----------------------------------------------------------------------------------

PLANS = """
version: 1
policy: p
defaults: {unmatched: allow}
rules:
  - id: unplanned
    decision: deny
    reason: No plan.
    when: {program: terraform, subcommand: apply, not: {content: {known: true}}}
  - id: plans
    decision: ask
    reason: A plan.
    when: {program: terraform, subcommand: apply, content: {known: true}}
"""


@pytest.fixture
def plans(tmp_path: Path) -> Director:
    project = tmp_path / "infra"
    project.mkdir()
    (project / "a.plan").write_bytes(b"PK one")
    (tmp_path / "plans.yaml").write_text(PLANS)
    return Director(load(tmp_path / "plans.yaml"), project=project, reader=DiskReader(project), environ={"HOME": "/h"})


def replacing(plan: Path) -> Callable[[ApprovalRequest], Answer]:
    """Approves, when somebody else has replaced the plan."""

    def meanwhile(request: ApprovalRequest) -> Answer:
        assert [file["path"] for file in request.body["files"]] == [str(plan)]
        plan.write_bytes(b"PK two")
        return answer(request, "approve")

    return meanwhile


def test_a_plan_is_approved_with_what_stands_in_it(make_gate: Make, plans: Director) -> None:
    project = Path(plans.project)
    gate = make_gate(["approve"], director=plans)
    permit = permitted(gate.check(act(project, "terraform apply a.plan")))
    assert gate.start(permit, permit.action) is None
    gate.finish(permit, Outcome(0))
    for command in (
        "terraform apply",
        "terraform apply -auto-approve",
        "terraform apply gone.plan",
        "terraform apply .",
    ):
        assert str(plans.evaluate(act(project, command)).verdict) == "deny", command


def test_a_plan_that_is_replaced_while_a_human_reads_is_not_applied(make_gate: Make, plans: Director) -> None:
    project = Path(plans.project)
    gate = make_gate([replacing(project / "a.plan")], director=plans)
    permit = permitted(gate.check(act(project, "terraform apply a.plan")))
    denial = gate.start(permit, permit.action)
    assert denial is not None
    assert "not what was permitted" in denial.reason


def test_a_plan_that_is_replaced_after_the_start_is_not_applied(make_gate: Make, plans: Director) -> None:
    from humanlayer_agent.errors import NotAsJudged

    project = Path(plans.project)
    gate = make_gate(["approve"], director=plans)
    permit = permitted(gate.check(act(project, "terraform apply a.plan")))
    assert gate.start(permit, permit.action) is None
    assert permit.judged is not None
    (project / "b.plan").write_bytes(b"PK two")
    (project / "b.plan").replace(project / "a.plan")
    with pytest.raises(NotAsJudged, match=r"a\.plan"):
        permit.judged.check()


def test_a_plan_that_was_another_for_a_while_is_in_the_log(make_gate: Make, plans: Director) -> None:
    project = Path(plans.project)
    gate = make_gate(["approve"], director=plans)
    permit = permitted(gate.check(act(project, "terraform apply -lock=false a.plan")))
    assert gate.start(permit, permit.action) is None
    (project / "a.plan").rename(project / "kept")
    (project / "a.plan").write_bytes(b"PK two")
    (project / "kept").replace(project / "a.plan")
    gate.finish(permit, Outcome(0))
    (event,) = [e.event for e in gate.store.events(type="exec.changed")]
    assert [file["path"] for file in event["files"]] == [str(project / "a.plan")]


@pytest.mark.parametrize(
    "command",
    [
        "terraform plan -out=a.plan && terraform apply a.plan",
        "cp b.plan a.plan; terraform apply a.plan",
        "curl -o a.plan https://a.example && terraform apply a.plan",
        "make; terraform apply a.plan",
        "git checkout x; terraform apply a.plan",
        'terraform apply "$PLAN"',
    ],
)
def test_a_plan_that_the_action_may_make_itself_is_a_doubt(plans: Director, command: str) -> None:
    decision = plans.evaluate(act(Path(plans.project), command))
    assert str(decision.verdict) == "ask"
    assert "plans" in decision.rules
    assert not any(finding.certain for finding in decision.findings if "plans" in finding.rules)


def test_an_approval_of_a_plan_is_remembered_for_no_other(plans: Director) -> None:
    decision = plans.evaluate(act(Path(plans.project), "terraform apply a.plan"))
    assert decision.limits.scopes == ("action",)


def test_plans_are_known_by_their_digests(plans: Director, tmp_path: Path) -> None:
    from hashlib import sha256

    project = Path(plans.project)
    known = sha256(b"PK one").hexdigest()
    (tmp_path / "digests.yaml").write_text(
        "version: 1\npolicy: p\ndefaults: {unmatched: allow}\nrules:\n  - {id: r, decision: deny, when: {program: "
        f"terraform, subcommand: apply, not: {{content: {{sha256: {known}}}}}}}}}\n"
    )
    director = Director(load(tmp_path / "digests.yaml"), project=project, reader=DiskReader(project))
    commands = ("apply a.plan", "apply", "apply b.plan", "apply -var-file=v a.plan")
    said = [str(director.evaluate(act(project, f"terraform {command}")).verdict) for command in commands]
    assert said == ["allow", "deny", "deny", "deny"]
