"""Who may excuse from whose rules."""

from pathlib import Path

import pytest

from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.layers import find_layers, trust
from tests.policy.layers.test_layers import Machine

SHIPPED = "[builtin:default]"
READ = "cat /srv/other/x"
ALLOW = "  - {id: other, decision: allow, when: {effect: read, paths: {all_within: [/srv/other/x]}}}\n"


def exception(rule: str = "read-outside-project", when: str = "{paths: {all_within: [/srv/other/x]}}") -> str:
    return f"exceptions:\n  - {{rule: {rule}, when: {when}, reason: y, expires: 2999-12-31}}\n"


@pytest.fixture
def machine(tmp_path: Path, own_user: Path) -> Machine:
    return Machine(tmp_path, own_user)


def test_the_user_excuses_from_what_their_policy_extends(machine: Machine) -> None:
    machine.write("user", ALLOW + exception(), extends=SHIPPED)
    assert machine.verdict(READ) == "allow"
    assert machine.verdict("cat /srv/other/y") == "ask"


def test_nobody_excuses_from_what_the_machine_says(machine: Machine) -> None:
    machine.write("machine", ALLOW, extends=SHIPPED)
    machine.write("user", ALLOW + exception(), extends=SHIPPED)
    machine.write("project", ALLOW + exception())
    machine.trust()
    assert machine.verdict(READ) == "ask"


@pytest.mark.parametrize("above", ["shipped", "user"])
def test_a_project_excuses_from_what_ships_once_it_is_trusted(machine: Machine, above: str) -> None:
    if above == "user":
        machine.write("user", ALLOW.replace("other", "another"), extends=SHIPPED)
    path = machine.write("project", ALLOW + exception())
    before = machine.director().digest
    assert machine.verdict(READ) == "ask"
    machine.trust()
    assert machine.verdict(READ) == "allow"
    assert machine.director().digest != before
    path.write_text(path.read_text().replace("/srv/other/x", "/srv/other/**"))
    assert machine.verdict(READ) == "ask", "the file is another one now"


def test_a_project_does_not_excuse_from_what_the_user_has_written(machine: Machine) -> None:
    machine.write("user", "  - {id: read-outside-project, decision: ask, when: {effect: read}}\n" + ALLOW)
    machine.write("project", ALLOW + exception())
    machine.trust()
    assert machine.verdict(READ) == "ask"


def test_a_project_does_not_excuse_where_the_user_has_locked_the_policy(machine: Machine) -> None:
    machine.write("user", ALLOW, extends=SHIPPED, defaults="{locked: true}")
    machine.write("project", ALLOW + exception())
    machine.trust()
    assert machine.verdict(READ) == "ask"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("rule", "command"),
    [
        ("delete-outside-project", "rm /srv/other/x"),
        ("startup-files", "echo x > ~/.bashrc"),
        ("containers", "docker run x"),
    ],
)
def test_a_project_excuses_from_nothing_severe(machine: Machine, rule: str, command: str) -> None:
    when = "{program: [rm, echo, docker]}"
    allow = "  - {id: all, decision: allow, when: {effects: {only: [delete, append, write, container]}}}\n"
    machine.write("project", allow + exception(rule, when))
    machine.trust()
    assert machine.verdict(command) == "ask"
    machine.write("user", allow + exception(rule, when), extends=SHIPPED)
    assert rule not in machine.judge(command).rules, "whose policy it is may"


def test_a_users_exception_to_a_rule_that_is_not_there_is_an_error(machine: Machine) -> None:
    path = machine.write("user", ALLOW + exception())
    with pytest.raises(PolicyError, match=f"{path}:6: neither this file nor what it extends has a rule read-outside"):
        find_layers(machine.project)


def test_tests_of_a_projects_exceptions_are_judged_below_what_ships(machine: Machine) -> None:
    good = ", tests: {match: [cat /srv/other/x], not_match: [cat /srv/other/y]}"
    path = machine.write("project", ALLOW + exception().replace("2999-12-31}", f"2999-12-31{good}}}"))
    find_layers(machine.project)
    path.write_text(path.read_text().replace("[cat /srv/other/y]", "[cat /srv/other/x]"))
    with pytest.raises(PolicyError, match="exception to read-outside-project: not_match"):
        find_layers(machine.project)


def test_a_project_speaks_for_a_program_of_its_own_once_it_is_trusted(machine: Machine) -> None:
    machine.write("project", "  - {id: frob, decision: allow, when: {program: frob, unread: true}}\n")
    assert machine.verdict("frob x") == "ask"
    trust.record(machine.project, trust.policy_files(find_layers(machine.project)[-1].policy))
    assert machine.verdict("frob x") == "allow"
    machine.write("machine", ALLOW, extends=SHIPPED)
    assert machine.verdict("frob x") == "ask", "the machine's policy asks"
