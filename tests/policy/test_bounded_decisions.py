"""A decision costs what its text is long: counted in calls of functions, so that it is the same on every machine.

`benchmarks/hostile.py` tells the time that the same texts take.
"""

import cProfile

import pytest

from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell import GivenReader, analyse
from tests.support.growing_texts import FOLDER, Construct, constructs

pytestmark = pytest.mark.usefixtures("compiled")

SHORT, LONG = 1_000, 4_000
MOST_CALLS = 2_000_000
"""For a text of 4,000 characters: about a third of a second."""
FEW_CALLS = 300_000
"""So few that their growth tells nothing."""
MOST_GROWTH = 8
"""A text four times as long may take so many times as many calls; 16 would be with its square."""


def calls(construct: Construct, size: int) -> int:
    """How many functions are called to judge so much of a construct, by a Director that has seen none of it."""
    director = Director.load("default", project=FOLDER)
    director.evaluate(*construct.action(0))  # what is imported and made once
    action, reader = construct.action(size)
    counted = cProfile.Profile(builtins=False)
    counted.runcall(director.evaluate, action, reader)
    return sum(each.callcount for each in counted.getstats())


@pytest.mark.sample(1)
@pytest.mark.parametrize("construct", constructs(), ids=str)
def test_the_work_grows_with_the_text_and_not_with_its_square(construct: Construct) -> None:
    much = calls(construct, LONG)
    assert much < MOST_CALLS
    assert much < FEW_CALLS or much < MOST_GROWTH * calls(construct, SHORT)


@pytest.mark.long
def test_all_files_of_an_action_have_one_budget() -> None:
    files = {f"{FOLDER}/s{n}.py": "x = [" + "a.b(), " * 12_000 + f"{n}]\n" for n in range(8)}
    command = "; ".join(f"python3 s{n}.py" for n in range(8))
    program = analyse(command, cwd=FOLDER, reader=GivenReader(files))
    unread = [effect for each in program.commands for effect in each.effects if effect.unread]
    assert 0 < len(unread) < 8
    assert program.status == "ok"
