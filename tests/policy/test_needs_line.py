"""`# needs:`: an agent asks for more than its confinement gives; a human always answers, never a rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director

PROJECT = "/nowhere/project"
DIRECTORS = {
    confined: Director.load("default", project=PROJECT, environ={"HOME": "/nowhere/home"}, confined=confined)
    for confined in (True, False)
}


def judged(text: str, *, confined: bool = True) -> PolicyDecision:
    return DIRECTORS[confined].evaluate(Action(text, cwd=PROJECT))


@pytest.mark.parametrize(
    ("line", "runs", "reason"),
    [
        ("# needs: network", "confined to project + the network (network by forwarder: public web servers)", "May contact any host."),
        ("# needs:network , read /opt", "confined to project + the network + reading /opt (network by forwarder: public web servers)", "May contact any host."),
        ("# needs: network db.example:5432", "confined to project + the network (network by forwarder: db.example:5432)", "May contact db.example."),
        ("# needs: network localhost:5432, network [::1]:80", "confined to project + the network (network by forwarder: [::1]:80, localhost:5432)", "May contact"),
        ("# needs: network a b", "not confined", "not fully understood"),
        ("# needs: network *", "not confined", "not fully understood"),
        ("# needs: network https://example.org", "not confined", "not fully understood"),
        ("# needs: network localhost:99999", "not confined", "not fully understood"),
        ("# needs: write /usr/lib", "confined to project + writing /usr/lib", "May write /usr/lib and everything below; the rule startup-files may apply."),
        ("# needs: write ./build", "confined to project", "Asks for more than its confinement gives: write ./build."),
        ("# needs: unconfined", "not confined", "Asks for more than its confinement gives: unconfined."),
        ("# needs: read /", "not confined", "May read / and everything below, perhaps where secrets are kept."),
        ("# needs: unconfined, network", "not confined", "May contact any host."),
        ("# needs: write /usr/lib/new/folder", "not confined", "May write /usr/lib/new/folder and everything below, outside the project."),
        ("# needs: everything", "not confined", "not fully understood"),
        ("# needs:", "not confined", "not fully understood"),
        ("# needs: write $HOME", "not confined", "not fully understood"),
        ("# needs: write ~/x", "not confined", "not fully understood"),
        ("# needs: read", "not confined", "not fully understood"),
    ],
)  # fmt: skip
def test_what_it_asks_for_is_asked_about(line: str, runs: str, reason: str) -> None:
    decision = judged(f"{line}\nmake")
    assert (decision.verdict, decision.runs) == (Verdict.ASK, runs)
    assert decision.reason.startswith(reason)
    assert decision.parts[-1].command == line  # a human sees the words


@pytest.mark.parametrize("text", ["make # needs: network", "make\n# needs: network", "#needs: network\nmake", " # needs: network\nmake"])  # fmt: skip
def test_only_the_first_line_is_one(text: str) -> None:
    assert judged(text).runs == "confined to project"


@pytest.mark.parametrize("text", ["'# needs:' network", '"# needs:" unconfined', "\\# needs: unconfined"])
def test_a_program_of_that_name_asks_for_nothing(text: str) -> None:
    assert judged(f"{text}\nmake").runs in ("confined to project", "not confined")
    assert "Asks for more" not in judged(f"{text}\nmake").reason


def test_what_is_denied_is_denied_with_it() -> None:
    assert judged("# needs: unconfined\nrm -rf /").verdict is Verdict.DENY
    assert judged("# needs: write /nowhere/home/.config/humanlayer-agent\nmake").verdict is Verdict.DENY


def test_where_nothing_is_confined_it_says_nothing() -> None:
    for command in ("make", "rm -rf /srv/x", "ls"):
        plain, asked = (judged(text, confined=False) for text in (command, f"# needs: network\n{command}"))
        assert (plain.verdict, plain.rules, plain.reason) == (asked.verdict, asked.rules, asked.reason)


WORDS = st.sampled_from(["network", "unconfined", "read /a", "write b", "x", "", "read", "network network", "'", "\t"])


@given(st.lists(WORDS, max_size=4), st.sampled_from(["ls", "make", "./a.out", "curl https://example.org", "rm -rf /"]))
def test_no_line_lets_anything_through_without_a_human(items: list[str], command: str) -> None:
    decision = judged(f"# needs: {','.join(items)}\n{command}")
    assert decision.verdict >= max(Verdict.ASK, judged(command).verdict)
    if (
        not any(item.startswith("network") for item in items)
        and "curl" not in command
        and decision.confinement is not None
    ):
        assert decision.confinement.network == "none"
