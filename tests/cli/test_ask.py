"""`hla ask`: the words of a human at a real terminal, and what an agent's command gets of it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.configuration import build_director
from humanlayer_agent.locations import default_store_path
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children

pytestmark = pytest.mark.usefixtures("compiled")

RUN = [sys.executable, "-m", "humanlayer_agent.cli", "ask"]
QUESTION = ("Which branch?", "--option", "main", "-o", "next")


def at_terminal(answer: str) -> tuple[int, str]:
    """The exit code and what was shown to a human on a plain terminal, who types an answer."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    child: Any = children.spawn(
        RUN[0], [*RUN[1:], *QUESTION], env=env, timeout=600, encoding="utf-8", dimensions=(50, 200)
    )
    child.expect_exact("stop to stop the run: ")
    shown = child.before
    child.sendline(answer)
    child.expect_exact(pexpect.EOF)
    shown += child.before
    child.close()
    return child.exitstatus, shown


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [("tell 2", 0, "\nnext"), ("tell neither", 0, "\nneither"), ("no ask bob", 1, "no answer: declined by")],
)
def test_it_prints_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found, shown = at_terminal(answer)
    assert (found, said in shown, "a script asks you something" in shown) == (code, True, True), shown


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("arguments", "environ", "code", "said"),
    [
        (QUESTION, {SUPERVISED: "1"}, 2, "own command `hla ask` is answered by its supervisor and never executed"),
        (QUESTION, {}, 1, "no answer: "),
        (("",), {}, 2, "a question has from 1 to"),
        (("x", "-o", "a", "-o", "a"), {}, 2, "different options"),
    ],
)
def test_without_an_answer_it_says_why(
    tmp_path: Path, arguments: tuple[str, ...], environ: dict[str, str], code: int, said: str
) -> None:
    done = subprocess.run(
        [*RUN, *arguments],
        env={**os.environ, **environ}, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, start_new_session=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout, said in done.stderr) == (code, "", True), done.stderr


@pytest.mark.long
def test_the_attempt_of_a_supervised_command_is_in_the_log(tmp_path: Path) -> None:
    SQLiteStore(default_store_path()).close()
    subprocess.run([*RUN, "x"], env={**os.environ, SUPERVISED: "1"}, cwd=tmp_path, capture_output=True, check=False)
    opened = SQLiteStore(default_store_path())
    assert [entry.event["command"] for entry in opened.events(type="wall.refused")] == ["ask"]
    opened.close()


@pytest.mark.sample(6)
@pytest.mark.parametrize("policy", ["default", "strict", "ci", "guard", "sandbox"])
@pytest.mark.parametrize(
    "command", ["hla ask x; make", "ls && hla ask x", "hla ask x | tee a", "X=1 hla ask x", "sudo hla ask x"]
)
def test_no_policy_allows_it_with_other_commands(tmp_path: Path, policy: str, command: str) -> None:
    director = build_director(policy, project=tmp_path)
    said = director.evaluate(Action(command, cwd=str(tmp_path), project=str(tmp_path)))
    assert said.verdict is Verdict.DENY
