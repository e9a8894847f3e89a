"""Which route a request takes, where the policy names none: by project, severity and agent."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.authority import ApprovalRule, Authority, Person, Routing
from humanlayer_agent.channels import settings
from humanlayer_agent.channels.settings.authority_loader import authority_of
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import PolicyDecision, Verdict

PEOPLE = (Person("alice", ("os:alice",)), Person("bob", ("os:bob",)))
ROUTES = {name: ApprovalRule(name, ("alice", "bob")) for name in ("default", "pay", "careful")}
ASKED = PolicyDecision(Verdict.ASK, "a rule says so", "p", "0" * 64)


def routed(*routing: Routing, project: str = "/srv/pay", agent: str = "docs", **decision: Any) -> Any:
    authority = Authority(PEOPLE, ROUTES, routing=routing)
    return authority.routed(replace(ASKED, **decision), Action("make", project=project, agent=agent)).route


@pytest.mark.parametrize(
    ("project", "fits"),
    [
        ("/srv/pay", True), ("/srv/pay/api", True), ("/srv/pay/", True), ("/srv/payments", False), ("/srv", False),
        ("/", False), ("", False), ("/srv/pay/../other", False), ("/SRV/pay", False), ("srv/pay", False),
    ],
)  # fmt: skip
def test_by_project(project: str, fits: bool) -> None:
    assert routed(Routing("pay", projects=("/srv/pay/",)), project=project) == ("pay" if fits else "default")


def test_everything_that_is_said_has_to_be_so() -> None:
    entry = Routing("pay", ("/srv/pay", "/srv/x"), ("high", "critical"), ("docs", "night-*"))
    assert routed(entry, severity="high") == "pay"
    assert routed(entry, severity="critical", project="/srv/x/y", agent="night-1") == "pay"
    for other in ({"severity": "low"}, {"severity": "high", "project": "/"}, {"severity": "high", "agent": "night"}):
        assert routed(entry, **other) == "default"


def test_it_holds_for_the_routes_of_other_rules_that_ask_too() -> None:
    """Else what also falls under a rule with a route of its own would need fewer people than what does not."""
    also = {"name": "careful", "also": ["default", {"quorum": 2}, {"name": "other", "also": ["default"]}]}
    assert routed(Routing("pay", projects=("/srv/pay",)), route=also) == {
        "name": "careful",
        "also": ["pay", {"quorum": 2, "name": "pay"}, {"name": "other", "also": ["pay"]}],
    }
    two = {**ROUTES, "pay": ApprovalRule("pay", ("alice", "bob"), quorum=2)}
    authority = Authority(PEOPLE, two, routing=(Routing("pay", projects=("/srv/pay",)),))
    asked = replace(ASKED, route={"name": "careful", "also": ["default"]})
    assert authority.rule_for(authority.routed(asked, Action("make", project="/srv/pay"))).quorum == 2


def test_the_first_that_fits_counts() -> None:
    entries = (Routing("careful", severities=("high",)), Routing("pay", projects=("/",)))
    assert [routed(*entries, severity=each) for each in ("high", "low")] == ["careful", "pay"]


@pytest.mark.parametrize(
    ("route", "expected"),
    [
        ("default", "pay"),
        ("careful", "careful"),
        ({"name": "careful", "quorum": 2}, {"name": "careful", "quorum": 2}),
        ({"name": "default", "quorum": 2}, {"name": "pay", "quorum": 2}),
        ({"quorum": 2}, {"name": "pay", "quorum": 2}),
        ({"name": "default", "also": ["careful"]}, {"name": "pay", "also": ["careful"]}),
    ],
)
def test_what_a_policy_names_stays_and_so_does_what_it_demands(route: Any, expected: Any) -> None:
    assert routed(Routing("pay", projects=("/srv/pay",)), route=route) == expected


def test_a_route_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="routing names the route 'none'"):
        Authority(PEOPLE, ROUTES, routing=(Routing("none", agents=("*",)),))


FILE = """version: 1
people: {alice: {os_user: alice}}
channels: {terminal: {type: terminal}}
routes:
  default: {approvers: [alice], steps: [{to: terminal}]}
  pay: {approvers: [alice], steps: [{to: terminal}]}
routing:
  - {project: FOLDER, severity: high, agent: [a, "b-*"], route: pay}
"""


def test_the_entries_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    file = tmp_path / "channels.yaml"
    file.write_text(FILE.replace("FOLDER", str(tmp_path / "link")))
    (made,) = authority_of(settings.load(file=file), "os:1:alice").routing
    assert made == Routing("pay", (str(tmp_path / "real"),), ("high",), ("a", "b-*"))


def test_a_project_that_is_named_by_a_link_is_the_one_that_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real" / "api").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    file = tmp_path / "channels.yaml"
    for folder in ("link", "real"):
        file.write_text(FILE.replace("FOLDER", str(tmp_path / folder)))
        authority = authority_of(settings.load(file=file), "os:1:alice")
        for project, route in (("link", "pay"), ("real/api", "pay"), ("link/api", "pay"), (".", "default")):
            asked = Action("x", project=str(tmp_path / project), agent="a")
            assert authority.routed(replace(ASKED, severity="high"), asked).route == route, (folder, project)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("route: pay}", "route: none}", r"channels.yaml:8:\d+: there is no route 'none'"),
        ("project: FOLDER, severity: high, agent: [a, \"b-*\"], ", "", r":8:\d+: routing needs project, severity or agent"),
        ("FOLDER", "work/pay", r":8:"),
        ("severity: high", "severity: huge", r":8:"),
        ("route: pay}", "to: pay}", r":8:"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = tmp_path / "channels.yaml"
    assert old in FILE
    file.write_text(FILE.replace(old, new).replace("FOLDER", "/srv/pay"))
    with pytest.raises(ConfigError, match=message):
        settings.load(file=file)


def test_a_projects_file_routes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / ".humanlayer"
    folder.mkdir()
    (folder / "channels.yaml").write_text(FILE.replace("FOLDER", "/srv/pay"))
    with pytest.raises(ConfigError, match=r"channels.yaml:8:\d+: only the machine's or the user's own file"):
        settings.load(tmp_path, machine=tmp_path / "none", trusting=True)


def test_a_request_of_a_gate_takes_its_route(make_gate, store) -> None:
    """The route stands in the decision that is written down, and votes are counted by it."""
    rules = {
        "default": ApprovalRule("default", ("alice",), solo=True),
        "careful": ApprovalRule("careful", ("alice", "bob"), quorum=2, solo=True),
    }
    people = (Person("alice", ("os:1000:alice",)), Person("bob", ("os:bob",)))
    authority = Authority(people, rules, routing=(Routing("careful", projects=("/srv/app",)),))
    gate = make_gate(authority=authority)
    for project, route, needed in (("/srv/app/sub", "careful", 2), ("/srv/other", "default", 1)):
        gate.submit(Action(f"ask {project}", project=project, cwd=project))
        request = store.requests()[-1]
        assert (request.decision.route, request.needed, request.rule.name) == (route, needed, route)
