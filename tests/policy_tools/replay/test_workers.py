"""A replay in several processes: what one would have said, and nothing left behind."""

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.configuration import checked_project
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy_tools.replay import Engine, Judged
from humanlayer_agent.policy_tools.replay.approvers import Approvers
from humanlayer_agent.policy_tools.replay.figures import Figures
from humanlayer_agent.policy_tools.replay.steps import Item, NoCommand, Step, Unreadable, Wrote
from humanlayer_agent.policy_tools.replay.workers import WorkerLost, replayed

pytestmark = pytest.mark.usefixtures("compiled")
PROJECT = "/srv/app"


@pytest.fixture
def engine() -> Callable[[], Engine]:
    def directors(at: str, confined: bool) -> list[Director]:
        if at == "/srv/broken":
            raise ConfigError("nobody can judge there")
        if at == "/srv/lost":
            os._exit(7)
        return [Director.load("default", project=at, environ={"HOME": "/home/u"}, tested=False, confined=confined)]

    return lambda: Engine(directors, default=lambda: Path(PROJECT), check=checked_project)


@pytest.fixture
def items(step: Any) -> list[Item]:
    """Runs that are mixed with each other, in which earlier steps say what later ones do."""
    made: list[Item] = [Unreadable("log", "line 0", "no JSON"), NoCommand("Browse")]
    commands = (
        "ls",
        "echo 'print(1)' > x.py",
        "python x.py",
        "cd sub",
        "rm -rf /",
        "pip install x",
        "cat ../a",
        "frob",
    )
    for n, command in enumerate(commands * 3):
        for run in range(7):
            made.append(
                step(f"{command} {'#' * (n % 2)}", run=f"r{run}", id=str(n), keeps=run == 3, cwd=f"/srv/app{run % 2}")
            )
        made.append(Wrote(f"r{n % 7}", "/srv/app0/y.py", "import os"))
        made.append(NoCommand("Read"))
        made.append(step("python y.py", run=f"r{n % 7}"))
    return made


def comparable(row: object) -> str:
    """In words (effects are compared by what they are, not by what they say), without the time it took, and without
    what nobody asks of what is allowed.
    """
    if not isinstance(row, Judged):
        return repr(row)
    (decision,) = row.decisions
    decision = replace(decision, microseconds=0)
    if decision.verdict is Verdict.ALLOW:
        decision = replace(decision, parts=(), effects=(), asks=(), spans=(), findings=())
    return repr(replace(row, microseconds=0, decisions=(decision,)))


def test_the_results_and_their_order_are_those_of_one(engine: Callable[[], Engine], items: list[Item]) -> None:
    one = list(map(comparable, replayed(engine(), items)))
    assert len(one) > 200
    assert all(any(f"<Verdict.{name}" in row for row in one) for name in ("ALLOW", "ASK", "DENY"))
    for jobs in (2, 3):
        assert list(map(comparable, replayed(engine(), iter(items), jobs))) == one
    assert multiprocessing.active_children() == []


def test_figures_and_approvers_are_those_of_one(engine: Callable[[], Engine], items: list[Item]) -> None:
    def counted(jobs: int) -> tuple[object, ...]:
        figures, approvers = Figures(), Approvers("second")
        for _ in figures.count(approvers.watch(replayed(engine(), items, jobs))):
            pass
        causes = [(c.kind, c.count, c.example.step) for c in figures.by_cause()]
        stopped = [(s.command, s.count, s.first.step) for s in figures.most_stopped()]
        grants = [(g.words, g.first.step, len(g.covered)) for g in approvers.grants]
        return figures.verdicts, figures.unread, causes, stopped, figures.missing, figures.no_commands, grants

    assert counted(1) == counted(2)


def test_an_error_in_one_is_that_of_the_whole(engine: Callable[[], Engine], step: Any) -> None:
    with pytest.raises(ConfigError, match="nobody can judge there"):
        list(replayed(engine(), [step("ls"), step("ls", run="b", cwd="/srv/broken")], 2))
    with pytest.raises(WorkerLost, match=r"has ended \(exit code 7\).*Try fewer --jobs"):
        list(replayed(engine(), [step("ls"), step("ls", run="b", cwd="/srv/lost")], 2))
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("where", ["reading", "judging"])
def test_whoever_stops_the_one_that_reads_stops_all(engine: Callable[[], Engine], step: Any, where: str) -> None:
    def endless() -> Iterator[Step]:
        for n in range(10**9):
            if where == "reading" and n == 3_000:
                raise KeyboardInterrupt
            yield step("ls", run=str(n % 5))

    rows = replayed(engine(), endless(), 2)
    if where == "reading":
        with pytest.raises(KeyboardInterrupt):
            list(rows)
    else:
        next(rows)
        assert len(multiprocessing.active_children()) == 2
        rows.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []


def test_workers_end_with_the_one_that_reads(engine: Callable[[], Engine], step: Any) -> None:
    """Killed, it can tell nobody. The pipe in which they are named is closed once none of them is there any more."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        next(replayed(engine(), (step("ls", run=str(n)) for n in range(10**9)), 3))
        os.kill(os.getpid(), signal.SIGKILL)
    os.close(write)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    with os.fdopen(read, "rb") as file:
        assert file.read() == b""  # at its end: nobody holds the other side
