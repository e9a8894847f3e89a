"""`hla plan`: what a human approves for later runs at a real terminal, and what an agent's command gets of it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.approvals.gate import Gate
from humanlayer_agent.approvals.model import Denial, Permit
from humanlayer_agent.cli import main
from humanlayer_agent.configuration import build_authority, build_director
from humanlayer_agent.locations import PASSPHRASE_VARIABLE, default_store_path
from humanlayer_agent.processes.execution import SUPERVISED
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.store.sqlite import SQLiteStore
from tests.support import children
from tests.support.keys import PASSPHRASE, known_passphrase, make_key, passphrase_file

pytestmark = pytest.mark.usefixtures("compiled")

RUN = [sys.executable, "-m", "humanlayer_agent.cli"]
PASSPHRASE_ASKED, ASKED = "Passphrase of your key: ", "approve the plan"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A project of somebody who has a key."""
    made = tmp_path / "app"
    made.mkdir()
    monkeypatch.chdir(made)
    make_key()
    with known_passphrase():
        assert main(["init", "--yes"]) == 0
    capsys.readouterr()
    return made


@pytest.fixture
def store(project: Path) -> Iterator[SQLiteStore]:
    opened = SQLiteStore(default_store_path())
    yield opened
    opened.close()


def at_terminal(*arguments: str, answer: str = "yes", passphrase: str = PASSPHRASE, **environ: str) -> tuple[int, str]:
    """The exit code and all that was shown to a human on a plain terminal, who types the passphrase and an answer."""
    env = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "dumb", **environ}
    child: Any = children.spawn(
        RUN[0], [*RUN[1:], "plan", *arguments], env=env, timeout=600, encoding="utf-8", dimensions=(50, 200)
    )
    shown = ""
    while (found := child.expect_exact([PASSPHRASE_ASKED, "stop to stop the run: ", pexpect.EOF])) != 2:
        shown += child.before + str(child.after)
        child.sendline(passphrase if found == 0 else answer)
    shown += child.before
    child.close()
    return child.exitstatus, shown


def later(store: SQLiteStore, command: str, project: Path, *, agent: str = "coder") -> Permit | Denial:
    """What an agent is told that is started afterwards, and can ask nobody."""
    director = build_director(None, project=project)
    with Gate(director, store, None, authority=build_authority(), agent=agent, requester=os_user()) as gate:
        return gate.check(Action(command, cwd=str(project), project=str(project)))


@pytest.mark.long
def test_what_is_approved_holds_for_later_runs(project: Path, store: SQLiteStore) -> None:
    code, shown = at_terminal("read /srv/docs", "network example.org by curl", "--for", "2h")
    assert code == 0, shown
    for text in ("read /srv/docs", "network example.org:443 by curl", "Nothing runs by it", ASKED, "approved: "):
        assert text in shown
    assert isinstance(later(store, "grep -r x /srv/docs", project), Permit)
    assert isinstance(later(store, "curl -s https://example.org/a", project, agent="another"), Permit)
    assert isinstance(later(store, "cat /srv/other/a", project), Denial)
    (grant,) = store.grants.given()
    assert grant.until - grant.given == 7_200_000
    assert store.verify().intact


def test_it_is_for_one_agent_where_that_is_named(project: Path, store: SQLiteStore) -> None:
    assert at_terminal("read /srv/docs", "--agent", "coder")[0] == 0
    assert isinstance(later(store, "cat /srv/docs/a", project), Permit)
    assert isinstance(later(store, "cat /srv/docs/a", project, agent="another"), Denial)


def test_a_file_says_it(project: Path, store: SQLiteStore) -> None:
    (project / "plan.yaml").write_text("needs: [{effect: read, path: /srv/docs}]\nfor: 30m\nwhy: the weekly report\n")
    code, shown = at_terminal("plan.yaml")
    assert (code, "the weekly report" in shown) == (0, True), shown
    (grant,) = store.grants.given()
    assert grant.until - grant.given == 1_800_000


@pytest.mark.sample(1)
@pytest.mark.parametrize("answer", ["no not now", "tell use the cache"])
def test_no_other_answer_approves_it(project: Path, store: SQLiteStore, answer: str) -> None:
    assert at_terminal("read /srv/docs", answer=answer)[0] == 1
    assert not store.grants.given()


def test_without_the_passphrase_nobody_is_asked(project: Path, store: SQLiteStore, tmp_path: Path) -> None:
    code, shown = at_terminal("read /srv/docs", passphrase="")
    assert (code, "stays locked" in shown, ASKED in shown) == (2, True, False)
    environ = {PASSPHRASE_VARIABLE: str(passphrase_file(tmp_path))}
    assert at_terminal("read /srv/docs", passphrase="", **environ)[0] == 2, "no file stands in for a human"
    assert not store.grants.given()


@pytest.mark.parametrize(
    ("need", "code", "said"),
    [
        ("write /etc/cron.d", 1, "rule startup-files is of high severity"),
        ("run ls", 2, "no effect that can be planned"),
        ("read $HOME", 2, "has to be written out"),
    ],
)
def test_what_can_not_be_planned(project: Path, store: SQLiteStore, need: str, code: int, said: str) -> None:
    found, shown = at_terminal(need)
    assert (found, said in " ".join(shown.split())) == (code, True), shown
    assert PASSPHRASE_ASKED not in shown, "nothing is to be signed"
    assert not store.grants.given()


@pytest.mark.long
def test_a_supervised_command_hands_in_none(project: Path, store: SQLiteStore) -> None:
    environ = {**os.environ, SUPERVISED: "1"}
    done = subprocess.run([*RUN, "plan", "read /srv/docs"], env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, "an agent has Gate.request_plan" in done.stderr) == (2, True)
    assert [entry.event["command"] for entry in store.events(type="wall.refused")] == ["plan"]


@pytest.mark.long
def test_without_a_terminal_nobody_is_asked(project: Path, store: SQLiteStore) -> None:
    done = subprocess.run(
        [*RUN, "plan", "read /srv/docs"], capture_output=True, text=True, check=False, start_new_session=True
    )
    assert (done.returncode, "only a human at a terminal" in done.stderr) == (3, True)


def test_without_a_key_no_other_process_would_believe_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["plan", "read /srv/docs"]) == 2
    assert "run hla init" in capsys.readouterr().err
