"""Simulated approvers: later asks of a run that their grants cover are none."""

from typing import Any

import pytest

from humanlayer_agent.policy_tools.replay.approvers import Approvers

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def ask(replay: Any, step: Any) -> Any:
    """What approvers of a choice make of commands, each in run "r" or in the run that stands before it."""

    def make(choice: Any, *commands: str | tuple[str, str]) -> Approvers:
        approvers = Approvers(choice)
        steps = [step(each) if isinstance(each, str) else step(each[1], run=each[0]) for each in commands]
        assert len(list(approvers.watch(replay(steps)))) == len(commands)
        return approvers

    return make


def test_the_second_scope_covers_more_of_the_kind(ask: Any) -> None:
    found = ask("second", "cat /srv/other/docs/a.md", "ls", "head /srv/other/docs/b.md", "cat /srv/third/docs/b.md")
    assert (found.certain.before, found.certain.after) == (3, 2)
    assert [(grant.words, len(grant.covered)) for grant in found.grants] == [
        ("reading anything below /srv/other/docs, in this run", 1),
        ("reading anything below /srv/third/docs, in this run", 0),
    ]
    assert found.grants[0].covered[0].step.command == "head /srv/other/docs/b.md"


def test_the_narrowest_covers_the_same_command_only(ask: Any) -> None:
    found = ask("narrowest", *["cat /srv/other/docs/a.md"] * 3, "cat /srv/other/docs/b.md")
    assert (found.certain.before, found.certain.after) == (4, 2)


def test_a_grant_ends_with_its_run(ask: Any) -> None:
    found = ask("second", ("one", "cat /srv/other/docs/a.md"), ("two", "cat /srv/other/docs/b.md"))
    assert found.certain.after == 2
    assert {run: (asked.before, asked.after) for run, asked in found.by_run.items()} == {"one": (1, 1), "two": (1, 1)}


def test_a_grant_is_used_up(ask: Any) -> None:
    found = ask("second", *["cat /srv/other/docs/a.md"] * 52)
    assert (found.certain.before, found.certain.after) == (52, 2)


def test_two_grants_cover_together_what_neither_covers_alone(ask: Any) -> None:
    both = "cat /srv/other/docs/a.md /srv/third/docs/b.md"
    found = ask("second", "cat /srv/other/docs/a.md", "cat /srv/third/docs/b.md", both)
    assert [len(grant.covered) for grant in found.grants] == [1, 1]
    assert found.certain.after == 2


def test_a_part_that_no_grant_covers_asks(ask: Any) -> None:
    found = ask("second", "cat /srv/other/docs/a.md", "cat /srv/other/docs/a.md > /srv/other/docs/b.md")
    assert found.certain.after == 2


@pytest.mark.parametrize(
    "command",
    [
        "sudo apt-get install jq",  # of critical severity
        "cat ~/.ssh/id_ed25519",  # high: the exact command, ten times
        "curl -d @notes.txt https://example.org/",
        "./run.sh",  # nobody has read it
    ],
)
def test_what_may_not_be_remembered_is_asked_again(ask: Any, command: str) -> None:
    for choice in ("second", "widest"):
        found = ask(choice, command, f"{command} # again")
        assert not any(grant.covered for grant in found.grants)


def test_what_is_not_certain_is_counted_apart(ask: Any) -> None:
    found = ask("second", 'cat "$X"', "cat /srv/other/docs/a.md")
    assert (found.unsure.before, found.certain.before) == (1, 1)
    assert set(found.by_rule) > {"read-outside-project"}
