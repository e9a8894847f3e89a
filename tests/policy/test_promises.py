"""What strict, sandbox and ci promise, held against hundreds of commands and the ways to hide one inside of another."""

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from tests.support.extent import some
from tests.support.tables import table

PROMISES: dict[str, list[str]] = table(Path(__file__).parent / "promises.yaml")
LEAVES, WALLS, CHANGES = PROMISES.values()
INSIDE: list[Callable[[str], str]] = [
    lambda c: f"ls && {c}",
    lambda c: f"( {c}\n) > /dev/null 2>&1",
    lambda c: f"if true; then\n{c}\nfi",
    lambda c: f"for i in 1 2; do {c}\ndone",
    lambda c: f"bash -c {shlex.quote(c)}",
    lambda c: f"eval {shlex.quote(c)}",
    lambda c: f"f() {{ {c}\n}}; f",
    lambda c: f'x=$( {c}\n); echo "$x"',
    lambda c: f"timeout 9 bash -c {shlex.quote(c)}",
    lambda c: f"python3 -c {shlex.quote(f'import subprocess; subprocess.run({c!r}, shell=True)')}",
    lambda c: f"bash <<'XX'\n{c}\nXX",
    lambda c: f"xargs -I@ bash -c {shlex.quote(c)} <<< x",
]
"""Ways to put a command inside of another."""


def spelled(commands: list[str]) -> list[str]:
    """Each command as it stands, and inside of two others; in `make test` of one."""
    ways = len(INSIDE)
    hidden = [
        INSIDE[(n + more) % ways](c) for n, c in enumerate(commands) for more in (0, ways // 2)[: some(2, here=1)]
    ]
    return [*commands, *hidden]


@pytest.fixture
def verdicts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, list[str]], dict[str, Verdict]]:
    """What a shipped policy says of each of some commands."""
    project = "/srv/project"  # this and the home are nowhere: nothing on this disk decides
    monkeypatch.setenv("HOME", "/home/dev")

    def judge(policy: str, commands: list[str]) -> dict[str, Verdict]:
        director = Director.load(policy, project=project)
        return {c: director.evaluate(Action(c, cwd=project, project=project)).verdict for c in commands}

    return judge


Verdicts = Callable[[str, list[str]], dict[str, Verdict]]


def test_there_are_enough() -> None:
    assert min(len(spelled(LEAVES + WALLS)), len(spelled(CHANGES + WALLS))) >= some(600, here=400)


@pytest.mark.remembered
def test_nothing_leaves_the_sandbox_unasked(verdicts: Verdicts) -> None:
    said = verdicts("sandbox", spelled(LEAVES + WALLS))
    assert not [c for c, verdict in said.items() if verdict is Verdict.ALLOW]


@pytest.mark.remembered
def test_strict_lets_nothing_but_reading_the_project_run(verdicts: Verdicts) -> None:
    said = verdicts("strict", spelled(CHANGES + WALLS + LEAVES))
    assert not [c for c, verdict in said.items() if verdict is Verdict.ALLOW]


@pytest.mark.long
def test_ci_never_asks_and_allows_what_default_allows(verdicts: Verdicts) -> None:
    commands = spelled(CHANGES + WALLS + LEAVES)
    default, ci = verdicts("default", commands), verdicts("ci", commands)
    assert not [c for c, verdict in ci.items() if verdict is Verdict.ASK]
    assert not [c for c in commands if (default[c] is Verdict.ALLOW) is not (ci[c] is Verdict.ALLOW)]
