"""What every coding agent's hook is held to, whatever its form: a row for each way a call can end (tests/doors.py)."""

from collections.abc import Callable

import pytest

from humanlayer_agent.hooks.coding_agents import AGENTS
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.hooks.conftest import COMMANDS, Answered, Machine, Waiting, inputs_of, short_of_time

Ask = Callable[..., Waiting]
pytestmark = [pytest.mark.parametrize("agent", AGENTS), pytest.mark.sample(1)]


def let_through(answered: Answered) -> bool:
    """Cline has no word for yes."""
    return answered.code == 0 and answered.verdict in ("allow", "")


def command(agent: str, what: str) -> str:
    """One that no other test asks about."""
    return f"curl https://{agent}.invalid/{what}"


def test_allow(person: Machine, agent: str) -> None:
    assert let_through(person.asked_by(agent, COMMANDS[agent], inputs_of(agent, "ls")))


def test_deny(person: Machine, agent: str) -> None:
    answered = person.asked_by(agent, COMMANDS[agent], inputs_of(agent, "rm -rf /"))
    assert answered.refused
    assert "Would destroy the system" in answered.out + answered.err


def test_approve(ask: Ask, agent: str) -> None:
    one = ask(command(agent, "approved"), agent=agent)
    one.say("approve")
    assert let_through(one.answer())


def test_reject(ask: Ask, agent: str) -> None:
    one = ask(command(agent, "rejected"), agent=agent)
    one.say("reject", comment='not "today"')
    answered = one.answer()
    assert answered.refused
    assert r'"not \"today\""' in answered.reason, "the words are data"


def test_edit(ask: Ask, agent: str) -> None:
    one = ask(command(agent, "edited"), agent=agent)
    one.say("edit", edited="ls -la src")
    answered = one.answer()
    if AGENTS[agent].edits:
        assert let_through(answered)
        assert "ls -la src" in answered.out
    else:
        assert answered.refused


def test_time_out(ask: Ask, agent: str) -> None:
    answered = ask(command(agent, "late"), agent=agent, program=short_of_time(agent)).answer()
    assert answered.refused
    assert "nobody answered" in answered.reason


def test_killed(ask: Ask, agent: str) -> None:
    """Its question goes with it; asked again it is a question of its own, and one approval lets one call run."""
    one = ask(command(agent, "killed"), agent=agent)
    request = one.request()
    one.process.kill()
    one.process.communicate()
    until(lambda: one.store.get(request.id).state != "pending", "that it is withdrawn")  # type: ignore[union-attr]
    again = ask(command(agent, "killed"), agent=agent)
    again.say("approve")
    assert let_through(again.answer())
    assert again.store.get(request.id).state == "withdrawn"  # type: ignore[union-attr]


def test_killed_agent(ask: Ask, agent: str) -> None:
    """The hook lives on where its agent is killed, and the shell between them too: nobody reads what it would print."""
    one = ask(command(agent, "killed-agent"), agent=agent)
    request = one.request()
    assert one.process.stdout is not None
    one.process.stdout.close()
    one.process.stdout = None
    one.process.wait(PATIENCE)
    until(lambda: one.store.get(request.id).state == "withdrawn", "that it is withdrawn")  # type: ignore[union-attr]


def test_parallel(ask: Ask, agent: str) -> None:
    asked = [ask(command(agent, f"parallel-{number}"), agent=agent, session="parallel") for number in range(3)]
    for number in (2, 1, 0):
        asked[number].say("reject" if number == 1 else "approve")
    answers = [each.answer() for each in asked]
    assert [each.refused for each in answers] == [False, True, False]
    assert let_through(answers[0])
    assert let_through(answers[2])


def test_stop(ask: Ask, agent: str) -> None:
    one = ask(command(agent, "stopped"), agent=agent, session="stopped")
    one.say("terminate")
    assert one.answer().refused
    assert ask("ls", agent=agent, session="stopped").answer().refused, "nothing of this session runs any more"
