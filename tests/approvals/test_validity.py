"""What a human approved is what runs: also where the disk or the day has changed while they were reading."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Denial, Permit
from humanlayer_agent.approvals.validity import may_change
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell import DiskReader
from humanlayer_agent.testing.approvers import answer

STORES = ("sqlite", "postgres")

Make = Callable[..., Gate]

OVERRIDE = """\
version: 1
policy: p
extends: [base.yaml]
rules:
  - id: deletes
    decision: ask
    override: {rule: deletes, reason: cleaning up, expires: 2030-06-30}
    when: {effect: delete}
"""
BASE = """\
version: 1
policy: base
defaults: {unmatched: ask, maybe: ask, unparsed: ask}
rules:
  - {id: deletes, decision: deny, reason: No., when: {effect: delete}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose `data` leads to a folder outside of it."""
    for name in ("project/sub", "reports", "secrets"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "project/data").symlink_to(tmp_path / "reports")
    return tmp_path / "project"


def swap(project: Path) -> None:
    """What somebody else does meanwhile."""
    (project / "data").unlink(missing_ok=True)
    (project / "data").symlink_to(project.parent / "secrets")


def approving(meanwhile: Callable[[], None], edited: str = "") -> Callable[[ApprovalRequest], Answer]:
    def step(request: ApprovalRequest) -> Answer:
        meanwhile()
        return answer(request, "edit", edited=edited) if edited else answer(request, "approve")

    return step


def started(gate: Gate, command: str, project: Path, cwd: str = "") -> Permit | Denial:
    """The permit under which it runs, or the denial."""
    checked = gate.check(Action(command, cwd=cwd or str(project), project=str(project)))
    if isinstance(checked, Denial):
        return checked
    return gate.start(checked, checked.action) or checked


@pytest.mark.parametrize("command", ["cat data/x", "rm -rf data/*", "cd data && rm x", "tar cf a.tar -C data ."])
def test_a_link_led_elsewhere_while_the_human_was_reading(make_gate: Make, project: Path, command: str) -> None:
    director = Director.load("strict", project=project)
    gate = make_gate([approving(lambda: swap(project))], director=director)
    denial = started(gate, command, project)
    assert isinstance(denial, Denial)
    assert denial.by == "policy"
    assert f"leads to {project.parent}/secrets" in denial.reason
    assert "exec.started" not in [entry.event["type"] for entry in gate.store.events()]
    assert [request.state for request in gate.store.requests()] == ["lapsed"]


def test_the_directory_it_starts_in_led_elsewhere(make_gate: Make, project: Path) -> None:
    gate = make_gate([approving(lambda: swap(project))], director=Director.load("strict", project=project))
    denial = started(gate, "rm -rf build", project, str(project / "data"))
    assert isinstance(denial, Denial)
    assert "leads to" in denial.reason


def test_a_link_that_was_made_while_the_human_was_reading(make_gate: Make, project: Path) -> None:
    director = Director.load("strict", project=project)
    gate = make_gate(
        [approving(lambda: (project / "new").symlink_to("/etc")), "approve"],
        director=director,
    )
    assert isinstance(started(gate, "touch new/x", project), Denial)
    assert isinstance(started(gate, "touch new/x", project), Permit)  # asked about again, as what it is


MAY = {
    "sed -i s/a/b/ run.sh && bash run.sh": True,
    "chmod +x run.sh && ./run.sh": True,
    'sed -i s/a/b/ "$X"; bash run.sh': True,
    "black . && bash run.sh": True,
    "git checkout x && bash run.sh": True,
    "git pull && bash run.sh": True,
    "tar xf x.tar && bash run.sh": True,
    "npm install && bash run.sh": True,
    "make gen && bash run.sh": True,
    "nobody-knows-this src && bash run.sh": True,
    "./a.out; bash run.sh": True,
    "sed -i s/a/b/ data/real.sh; bash run.sh": False,
    "bash run.sh": False,
    "./run.sh > out": False,
    "cd sub && timeout 60 bash ../run.sh": False,
    "rm -rf sub; touch new; bash run.sh": False,
    "python3 -c 'import json' && bash run.sh": False,
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("command", MAY)
def test_who_may_have_changed_a_script(project: Path, command: str) -> None:
    (project / "run.sh").write_text("nobody-knows-that --now\n")  # what it calls is the script's own affair
    director = Director.load("default", project=project, reader=DiskReader(project))
    decision = director.evaluate(Action(command, cwd=str(project), project=str(project)))
    assert may_change(decision, str(project / "run.sh")) is MAY[command], decision.effects


def test_who_may_have_changed_what_a_link_leads_to(project: Path) -> None:
    (project / "real.sh").write_text("echo x\n")
    (project / "link.sh").symlink_to("real.sh")
    director = Director.load("default", project=project, reader=DiskReader(project))
    for name, may in (("real.sh", True), ("link.sh", True), ("other.sh", False)):
        action = Action(f"sed -i s/x/y/ {name} && bash link.sh", cwd=str(project), project=str(project))
        assert may_change(director.evaluate(action), str(project / "link.sh")) is may


def test_nothing_has_changed(make_gate: Make, project: Path) -> None:
    gate = make_gate(["approve", "approve"], director=Director.load("strict", project=project))
    assert isinstance(started(gate, "cat data/x", project), Permit)
    assert isinstance(started(gate, "touch a", project), Permit)


def test_what_an_editor_made_of_it_is_looked_at_too(make_gate: Make, project: Path) -> None:
    director = Director.load("strict", project=project)
    steps = [approving(lambda: None, edited="cat data/y"), approving(lambda: None)]
    permit = started(make_gate(steps, director=director), "cat data/x", project)
    assert isinstance(permit, Permit)
    assert permit.action.content == "cat data/y"


def test_a_permit_that_waits_while_a_link_is_led_elsewhere(make_gate: Make, project: Path) -> None:
    gate = make_gate(["approve"], director=Director.load("strict", project=project))
    permit = gate.check(Action("cat data/x", cwd=str(project), project=str(project)))
    assert isinstance(permit, Permit)
    swap(project)
    assert isinstance(gate.start(permit, permit.action), Denial)


def test_an_override_that_ended_while_the_human_was_reading(make_gate: Make, tmp_path: Path, project: Path) -> None:
    from humanlayer_agent.policy.language.loader import load

    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "p.yaml").write_text(OVERRIDE)
    today = ["2030-06-30"]
    director = Director(load(tmp_path / "p.yaml"), project=project, today=lambda: today[0])
    gate = make_gate([approving(lambda: today.__setitem__(0, "2030-07-01"))], director=director)
    denial = started(gate, "rm x", project)
    assert isinstance(denial, Denial)
    assert "the policy says something else" in denial.reason
    assert "No." in denial.reason


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", ["new.md", "-rf.md", "new.txt"])
@pytest.mark.parametrize(("policy", "command"), [("default", "sort *.md"), ("strict", "rm *.md")])
def test_a_name_that_came_after_wildcards_were_judged(
    make_gate: Make, project: Path, policy: str, command: str, name: str
) -> None:
    (project / "a.md").touch()
    director = Director.load(policy, project=project, reader=DiskReader(project))
    gate = make_gate(["approve"], director=director)
    action = Action(command, cwd=str(project), project=str(project), env={"PATH": "/usr/bin:/bin"})
    permit = gate.check(action)
    assert isinstance(permit, Permit)
    (project / name).touch()
    denial = gate.start(permit, permit.action)
    if name == "new.txt":
        assert denial is None
    else:
        assert isinstance(denial, Denial)
        assert "exec.started" not in [entry.event["type"] for entry in gate.store.events()]


def test_who_may_have_made_a_name(project: Path) -> None:
    director = Director.load("default", project=project, reader=DiskReader(project))
    for command, may in (
        ("echo *; touch -- -x", True),
        ("echo *", False),
        ("echo *; ./unknown", True),
        ("ls /srv; echo *", False),
    ):
        action = Action(command, cwd=str(project), project=str(project))
        assert may_change(director.evaluate(action), f"{project}//*") is may, command


def test_a_remembered_allow_of_a_pattern_is_judged_anew(make_gate: Make, project: Path) -> None:
    (project / "data").unlink()
    gate = make_gate(director=Director.load("strict", project=project))
    assert isinstance(started(gate, "cat d*/x", project), Permit)
    assert isinstance(started(gate, "cat d*/x", project), Permit)
    swap(project)
    denial = started(gate, "cat d*/x", project)
    assert isinstance(denial, Denial)
    assert denial.by == "nobody"
