"""A plan from end to end: a real Director, a real store, approved once, and what that lets through afterwards."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import PLAN, Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.grants import Grant, offers
from humanlayer_agent.approvals.model import ApprovalRequest, Approver, Denial, Execution, Permit, Refused
from humanlayer_agent.approvals.store_interface import NEVER_RUNS
from humanlayer_agent.errors import ConfigError, StoreError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.plan import read_plan
from humanlayer_agent.store.sqlite import SQLiteStore
from humanlayer_agent.testing.approvers import ScriptedApprovers, ScriptedAsker
from tests.support.forging import forging

STORES = ("sqlite", "postgres")

pytestmark = pytest.mark.usefixtures("compiled")

TEAM = ScriptedApprovers()
NEEDS = "network example.org by curl\nread /srv/docs\nwrite /srv/data"


@pytest.fixture
def project(tmp_path: Path) -> str:
    (tmp_path / "app").mkdir()
    return str(tmp_path / "app")


@pytest.fixture
def gate(make_gate: Callable[..., Gate], project: str) -> Iterator[Callable[..., Gate]]:
    """A gate with the policy "default", whose human follows a script."""

    def make(*script: Any, policy: str | Path = "default", **fields: Any) -> Gate:
        director = Director.load(policy, project=project, environ={"HOME": "/home/u"}, tested=False)
        return make_gate(script, director=director, **fields)

    return make


def check(gate: Gate, command: str, project: str) -> Permit | Denial:
    return gate.check(Action(command, cwd=project, project=project))


def asked(gate: Gate) -> list[ApprovalRequest]:
    assert isinstance(gate.asker, ScriptedAsker)
    return gate.asker.asked


def test_what_was_approved_once_is_not_asked_again(gate: Callable[..., Gate], project: str) -> None:
    made = gate("approve")
    granted = made.request_plan(NEEDS, project=project, why="the weekly report")
    assert isinstance(granted, Grant)
    request = asked(made)[0]
    assert (request.action.type, request.action.model_intent) == (PLAN, "the weekly report")
    assert request.action.content == f"until the run ends\n{NEEDS.replace('.org', '.org:443')}"
    for n, command in enumerate(["curl -s https://example.org/a", "grep -r x /srv/docs", "cp -r . /srv/data/new"], 1):
        permit = check(made, command, project)
        assert isinstance(permit, Permit)
        assert str(permit.granted[0]).endswith(f"({n} of 50)")
        assert made.start(permit, permit.action) is None
    assert len(asked(made)) == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "command",
    [
        "curl https://example.com/",  # another host
        "curl -d @notes https://example.org/",  # it sends something
        "wget https://example.org/",  # another program
        "curl http://example.org/",  # another port
        "cat /srv/docs2/a",
        "cat /srv/docs/../other",
        "rm -rf /srv/data/new",  # to delete is not to write
        "cp a /srv/data/.hidden",
        "cp a /srv/data2",
        "cp $(cat x) /srv/data/x && curl https://example.net",
    ],
)
def test_what_it_does_not_cover_asks_as_ever(gate: Callable[..., Gate], project: str, command: str) -> None:
    made = gate("approve", "reject")
    assert isinstance(made.request_plan(NEEDS, project=project), Grant)
    denial = check(made, command, project)
    assert isinstance(denial, Denial)
    assert denial.by == "human"
    assert [request.action.content for request in asked(made)][1:] == [command]


def test_a_link_below_it_that_leads_elsewhere_asks(gate: Callable[..., Gate], project: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"version: 1\npolicy: p\nextends: ['builtin:default']\nrules:\n{_READS.format(tmp_path)}")
    made = gate("approve", "reject", policy=path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "secret").mkdir()
    assert isinstance(made.request_plan(f"read {tmp_path}/docs", project=project), Grant)
    assert isinstance(check(made, f"cat {tmp_path}/docs/a/b", project), Permit)
    (tmp_path / "docs" / "a").symlink_to(tmp_path / "secret")
    assert isinstance(check(made, f"cat {tmp_path}/docs/a/b", project), Denial)


_READS = """\
  - id: reads
    decision: ask
    severity: low
    reason: x
    suggestion: y
    when: {{effect: read, paths: {{any_within: ["{}/**"]}}}}
    tests: {{match: [], not_match: [ls]}}
"""


@pytest.mark.parametrize("script", ["reject", ("respond", "use the cache"), None])
def test_what_is_not_approved_gives_nothing(gate: Callable[..., Gate], project: str, script: Any) -> None:
    made = gate(script)
    denial = made.request_plan(NEEDS, project=project)
    assert isinstance(denial, Denial)
    assert not made.store.grants.given()
    assert isinstance(check(made, "cat /srv/docs/a", project), Denial)


def test_one_that_was_rejected_is_not_put_before_them_again(gate: Callable[..., Gate], project: str) -> None:
    made = gate("reject", "approve")
    assert isinstance(made.request_plan(NEEDS, project=project), Denial)
    assert isinstance(made.request_plan(NEEDS, project=project), Denial)
    assert len(asked(made)) == 1


@pytest.mark.parametrize("text", ["read /home/u/.ssh", "write /etc/cron.d\nread /srv/docs", "write out"])
def test_what_is_never_approved_ahead_asks_nobody(gate: Callable[..., Gate], project: str, text: str) -> None:
    made = gate("approve")
    denial = made.request_plan(text, project=project)
    assert isinstance(denial, Denial)
    assert denial.by == "policy"
    assert "can't be approved by a plan" in denial.reason
    assert not asked(made)


def test_what_no_plan_says_is_an_error(gate: Callable[..., Gate], project: str) -> None:
    with pytest.raises(ConfigError, match="no effect that can be planned"):
        gate("approve").request_plan("run anything", project=project)


def test_it_ends_with_its_run(gate: Callable[..., Gate], project: str) -> None:
    assert isinstance(gate("approve").request_plan(NEEDS, project=project), Grant)
    other = gate("reject", run_id="run-2")
    assert isinstance(check(other, "cat /srv/docs/a", project), Denial)


def test_one_for_a_time_ends_with_the_time(gate: Callable[..., Gate], project: str, clock: Any) -> None:
    first = gate("approve")
    signer = first._asking._signer
    granted = first.request_plan(f"for 2h\n{NEEDS}", project=project)
    assert isinstance(granted, Grant)
    assert granted.until == clock() + 7_200_000
    other = gate("reject", run_id="run-2", signer=signer)
    assert isinstance(check(other, "cat /srv/docs/a", project), Permit)
    clock.pass_ms(7_200_000)
    assert isinstance(check(other, "cat /srv/docs/b", project), Denial)


def test_a_policy_that_changed_ends_it(gate: Callable[..., Gate], project: str, tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("version: 1\npolicy: p\nextends: ['builtin:default']\n")
    assert isinstance(gate("approve", policy=path).request_plan(NEEDS, project=project), Grant)
    path.write_text("version: 1\npolicy: p\nextends: ['builtin:default']\nlists: {more: [x]}\nrules:\n" + _RULE)
    assert isinstance(check(gate("reject", policy=path), "cat /srv/docs/a", project), Denial)


_RULE = """\
  - id: r
    decision: deny
    severity: high
    reason: x
    suggestion: y
    when: {program: frobnicate}
    tests: {match: [frobnicate], not_match: [ls]}
"""


def test_an_edited_plan_is_judged_and_approved_anew(gate: Callable[..., Gate], project: str) -> None:
    made = gate(("edit", "until the run ends\nread /srv/docs"), "approve", "reject")
    granted = made.request_plan(NEEDS, project=project)
    assert isinstance(granted, Grant)
    assert granted.request.action.content == "until the run ends\nread /srv/docs"
    assert isinstance(check(made, "cat /srv/docs/a", project), Permit)
    assert isinstance(check(made, "cp a /srv/data/a", project), Denial)


@pytest.mark.parametrize("edited", ["read /home/u/.ssh", "rm -rf /", "write out"])
def test_an_edit_that_can_not_be_planned_gives_nothing(gate: Callable[..., Gate], project: str, edited: str) -> None:
    made = gate(("edit", edited), "approve")
    denial = made.request_plan(NEEDS, project=project)
    assert isinstance(denial, Denial)
    assert not made.store.grants.given()


def test_it_can_be_taken_back(gate: Callable[..., Gate], project: str) -> None:
    made = gate("approve", "reject")
    granted = made.request_plan(NEEDS, project=project)
    assert isinstance(granted, Grant)
    assert made.store.grants.revoke(granted.id, "os:1000:alice")
    assert isinstance(check(made, "cat /srv/docs/a", project), Denial)


def test_an_approval_by_mail_is_none(gate: Callable[..., Gate], project: str) -> None:
    made = gate()
    made.asker = ScriptedAsker(["approve"], approver=Approver("mailto:a@example.org", "mail", "mail-link"))
    made._asking._asker = made.asker
    assert isinstance(made.request_plan(NEEDS, project=project), Denial)
    assert not made.store.grants.given()


# Nothing runs by it


def test_nothing_makes_a_permit_of_it(gate: Callable[..., Gate], project: str, store: SQLiteStore) -> None:
    made = gate(lambda request: seen.append(request), "approve")
    seen: list[ApprovalRequest] = []
    made.request_plan(NEEDS, project=project)
    (request,) = seen
    action = request.action
    for answer in (made.check(action), made.admit(action)):
        assert isinstance(answer, Denial)
        assert answer.reason == NEVER_RUNS
    allowed = replace(request.decision, verdict=Verdict.ALLOW)
    said: dict[str, Any] = {"use_by_ms": 10_000, "authority": TEAM.authority}
    with pytest.raises(StoreError, match="never runs"):
        store.allow(action, allowed, request.digest, **said)
    with pytest.raises(StoreError, match="never runs"):
        store.admit(action, allowed, request.digest, request.digest, **said)
    assert store.permit(request, TEAM.authority, use_by_ms=10_000) == Refused(NEVER_RUNS)


def test_a_permit_that_was_made_of_it_all_the_same_is_not_used(
    gate: Callable[..., Gate], project: str, store: SQLiteStore
) -> None:
    made = gate("approve", "approve")
    permit = check(made, "cat /srv/docs/a", project)
    assert isinstance(permit, Permit)
    forged = replace(permit, action=replace(permit.action, type=PLAN))
    assert isinstance(made.start(forged, forged.action), Denial)
    assert not isinstance(store.consume(forged, forged.digest, TEAM.authority), Execution)


def test_a_plan_whose_row_was_changed_gives_nothing(
    gate: Callable[..., Gate], project: str, store: SQLiteStore, path: Path
) -> None:
    """Somebody who can write the file makes more of it while a human reads."""

    def widen(request: ApprovalRequest) -> Any:
        with forging(path) as connection:
            (text,) = connection.execute("SELECT decision FROM request WHERE id = ?", (request.id,)).fetchone()
            wider = text.replace("/srv/docs", "/etc")
            assert wider != text
            connection.execute("UPDATE request SET decision = ? WHERE id = ?", (wider, request.id))
        changed.append(request.id)
        return ScriptedAsker(["approve"]).ask(request, until=0, cancelled=lambda: False)

    changed: list[str] = []
    made = gate(widen, "reject")
    assert isinstance(made.request_plan(NEEDS, project=project), Denial)
    assert changed
    assert not store.grants.given()
    assert isinstance(check(made, "cat /etc/hosts.allow", project), Denial)


def test_its_scope_names_all_that_it_lists(gate: Callable[..., Gate], project: str) -> None:
    made = gate("reject")
    made.request_plan(NEEDS, project=project)
    (offer,) = offers(asked(made)[0])
    assert offer.name == PLAN
    assert {(each.rule, each.operand) for each in offer.scope.patterns} == {
        ("network", "example.org"),
        ("read-outside-project", "/srv/docs"),
        ("list-outside-project", "/srv/docs"),
        ("write-outside-project", "/srv/data"),
    }
    assert json.loads(offer.scope.text())["run"] == "run-1"


def test_it_reads_as_it_was_shown(project: str) -> None:
    plan = read_plan(NEEDS, project)
    assert read_plan(plan.text, project).text == plan.text
