"""Layers: who may say what, and what becomes of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.configuration import build_director
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.layers import find_layers, observed, trust

READS = '  - {id: reads, decision: allow, when: {effect: read, paths: {all_within: ["${PROJECT}/**"]}}}\n'
DELETES = '  - {id: deletes, decision: allow, when: {effect: delete, paths: {all_within: ["${PROJECT}/**"]}}}\n'
NO_DELETES = "  - {id: no-deletes, decision: deny, when: {effect: delete}}\n"
ASK_READS = "  - {id: ask-reads, decision: ask, when: {effect: read}}\n"


class Machine:
    """A machine, a user and a project, each of which may have a policy."""

    def __init__(self, root: Path, home: Path) -> None:
        self.project = root / "project"
        self.folders = {
            "machine": root / "etc",
            "user": home / ".config" / "humanlayer-agent",
            "project": self.project / ".humanlayer",
        }
        self.project.mkdir()

    def write(self, authority: str, rules: str, **head: str) -> Path:
        folder = self.folders[authority]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "policy.yaml"
        lines = "".join(f"{key}: {value}\n" for key, value in head.items())
        path.write_text(f"version: 1\npolicy: of-{authority}\n{lines}rules:\n{rules}")
        path.chmod(0o600)
        return path

    def director(self) -> Director:
        return Director(find_layers(self.project, machine=self.folders["machine"]), project=self.project)

    def judge(self, command: str) -> PolicyDecision:
        return self.director().evaluate(Action(command, cwd=str(self.project)))

    def verdict(self, command: str) -> str:
        return str(self.judge(command).verdict)

    def trust(self) -> None:
        layers = find_layers(self.project, machine=self.folders["machine"])
        trust.record(self.project, trust.policy_files(layers[-1].policy))


@pytest.fixture
def machine(tmp_path: Path, own_user: Path) -> Machine:
    return Machine(tmp_path, own_user)


def test_without_any_file_the_shipped_default_holds(machine: Machine) -> None:
    layers = find_layers(machine.project, machine=machine.folders["machine"])
    assert [(layer.authority, layer.policy.name) for layer in layers] == [("builtin", "default")]


def test_a_users_policy_is_the_base(machine: Machine) -> None:
    machine.write("user", READS)
    assert machine.verdict("cat a") == "allow"
    assert machine.verdict("rm a") == "ask"
    machine.write("user", READS, defaults="{unmatched: deny}")
    assert machine.verdict("rm a") == "deny"


def test_the_strictest_of_all_layers_wins(machine: Machine) -> None:
    machine.write("machine", NO_DELETES)
    machine.write("user", READS + DELETES)
    decision = machine.judge("rm a")
    assert (str(decision.verdict), decision.rule, decision.policy) == ("deny", "no-deletes", "of-machine + of-user")
    assert machine.verdict("cat a") == "allow", "no rule of the machine is neutral"
    machine.write("machine", READS + DELETES)
    machine.write("user", NO_DELETES)
    assert machine.verdict("rm a") == "deny"
    machine.write("project", ASK_READS)
    assert machine.verdict("cat a") == "ask"


def test_only_the_highest_layer_says_what_happens_to_what_nothing_decides(machine: Machine) -> None:
    machine.write("machine", NO_DELETES, defaults="{unmatched: deny}")
    machine.write("user", READS, defaults="{unmatched: allow}")
    assert machine.verdict("cat /srv/x") == "deny"
    assert machine.verdict("cat a") == "allow"


def test_a_layer_that_is_locked_lets_nobody_below_allow(machine: Machine) -> None:
    machine.write("machine", NO_DELETES, defaults="{unmatched: ask, locked: true}")
    machine.write("user", READS)
    assert machine.verdict("cat a") == "ask"


def test_layers_do_not_see_each_others_lists(machine: Machine) -> None:
    rule = "  - {id: mine, decision: allow, when: {effect: read, paths: {all_within: [$mine]}}}\n"
    machine.write("user", rule, lists='{mine: ["${PROJECT}/**"]}')
    machine.write("project", ASK_READS.replace("effect: read", "program: nothing"), lists='{mine: ["/**"]}')
    assert machine.verdict("cat a") == "allow"
    assert machine.verdict("cat /srv/x") == "ask"


# ---- the project ----------------------------------------------------------------------------------------


def test_a_project_adds_ask_and_deny(machine: Machine) -> None:
    assert machine.verdict("rm a") == "allow"
    machine.write("project", NO_DELETES)
    assert machine.verdict("rm a") == "deny"
    assert machine.verdict("cat a") == "allow", "the shipped default is still the base"


def test_a_project_allows_nothing_until_it_is_trusted(machine: Machine) -> None:
    machine.write("user", READS)
    machine.write("project", DELETES, defaults="{unmatched: allow}")
    assert machine.verdict("rm a") == "ask"
    assert machine.verdict("cat /srv/x") == "ask", "nor does its unmatched count"
    machine.trust()
    assert machine.verdict("rm a") == "allow"
    assert machine.verdict("cat /srv/x") == "ask", "not even then"


def test_what_a_trusted_project_allows_others_still_deny_and_ask(machine: Machine) -> None:
    machine.write("user", NO_DELETES + ASK_READS)
    machine.write("project", READS + DELETES)
    machine.trust()
    assert machine.verdict("rm a") == "deny"
    assert machine.verdict("cat a") == "ask"


def test_trust_is_in_exactly_these_files(machine: Machine, tmp_path: Path) -> None:
    machine.write("user", READS)
    path = machine.write("project", DELETES, extends="[more.yaml]")
    more = path.parent / "more.yaml"
    more.write_text(f"version: 1\npolicy: more\nrules:\n{ASK_READS}")
    machine.trust()
    assert machine.verdict("rm a") == "allow"
    text = path.read_text()
    path.write_text(text + "# a comment\n")
    assert machine.verdict("rm a") == "ask"
    path.write_text(text)
    assert machine.verdict("rm a") == "allow"
    more.write_text(more.read_text().replace("ask", "deny"))
    assert machine.verdict("rm a") == "ask"


def test_trust_is_for_one_project(machine: Machine, tmp_path: Path) -> None:
    machine.write("user", READS)
    path = machine.write("project", DELETES)
    machine.trust()
    other = tmp_path / "other"
    (other / ".humanlayer").mkdir(parents=True)
    (other / ".humanlayer" / "policy.yaml").write_text(path.read_text())
    assert not find_layers(other, machine=machine.folders["machine"])[-1].trusted


def test_trust_is_kept_outside_the_project_for_the_user_alone(machine: Machine, own_user: Path) -> None:
    machine.write("project", DELETES)
    machine.trust()
    (kept,) = (own_user / ".local" / "state" / "humanlayer-agent" / "trusted").iterdir()
    assert kept.stat().st_mode & 0o777 == 0o600
    kept.chmod(0o644)
    assert not find_layers(machine.project, machine=machine.folders["machine"])[-1].trusted


def test_trust_can_be_withdrawn(machine: Machine) -> None:
    machine.write("project", DELETES)
    machine.trust()
    assert trust.withdraw(machine.project)
    assert not trust.withdraw(machine.project)
    assert not find_layers(machine.project, machine=machine.folders["machine"])[-1].trusted


# ---- what is broken -------------------------------------------------------------------------------------


@pytest.mark.parametrize("authority", ["machine", "user", "project"])
def test_a_broken_policy_of_any_layer_stops_everything(machine: Machine, authority: str) -> None:
    path = machine.write(authority, READS)
    path.write_text("version: 1\n")
    with pytest.raises(PolicyError, match=str(path)):
        machine.director()
    path.unlink()
    path.symlink_to("nowhere")
    with pytest.raises(PolicyError, match=str(path)):
        machine.director()
    path.unlink()
    path.mkdir()
    with pytest.raises(PolicyError, match=str(path)):
        machine.director()


@pytest.mark.parametrize(("authority", "mode"), [("machine", 0o620), ("machine", 0o602), ("user", 0o602)])
def test_a_policy_that_others_can_write_is_refused(machine: Machine, authority: str, mode: int) -> None:
    machine.write(authority, READS).chmod(mode)
    with pytest.raises(PolicyError, match="writable by nobody else"):
        machine.director()


def test_an_extended_file_that_others_can_write_is_refused(machine: Machine) -> None:
    more = machine.write("user", READS, extends="[more.yaml]").parent / "more.yaml"
    more.write_text(f"version: 1\npolicy: more\nrules:\n{ASK_READS}")
    more.chmod(0o600)
    machine.director()
    more.chmod(0o606)
    with pytest.raises(PolicyError, match=r"more\.yaml: must belong to you"):
        machine.director()


# ---- observation ----------------------------------------------------------------------------------------


def test_observation_is_the_highest_layers_to_grant(machine: Machine) -> None:
    def found(wanted: bool) -> bool:
        return observed(find_layers(machine.project, machine=machine.folders["machine"]), wanted)

    assert (found(False), found(True)) == (False, True)
    machine.write("user", READS, observe="true")
    assert found(False)
    machine.write("machine", READS)
    assert not found(False), "the machine's policy is enforced, whatever the user's says"
    with pytest.raises(PolicyError, match="the policy of this machine is enforced"):
        found(True)
    machine.write("machine", READS, observe="true")
    assert found(False)


def test_an_observed_decision_is_the_real_one_and_says_so(machine: Machine) -> None:
    machine.write("user", READS, observe="true")
    decision = build_director(project=machine.project).evaluate(Action("rm a", cwd=str(machine.project)))
    assert (str(decision.verdict), decision.enforced) == ("ask", False)
    named = build_director("default", project=machine.project, observe=True)
    assert not named.evaluate(Action("ls", cwd=str(machine.project))).enforced


def test_a_policy_that_is_named_is_the_whole(machine: Machine) -> None:
    machine.write("user", NO_DELETES)
    machine.write("project", NO_DELETES)
    director = build_director("default", project=machine.project)
    assert str(director.evaluate(Action("rm a", cwd=str(machine.project))).verdict) == "allow"
    assert (
        str(build_director(project=machine.project).evaluate(Action("rm a", cwd=str(machine.project))).verdict)
        == "deny"
    )


Judge = Callable[..., PolicyDecision]


def test_nobody_to_ask(judge: Judge) -> None:
    rule = "  - {id: r, decision: ask, when: {program: rm}}\n"
    decision = judge(rule, "rm x", defaults="{ask: deny}")
    assert (str(decision.verdict), decision.rule) == ("deny", "r")
