"""What is shown of a run, and where nothing is."""

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from humanlayer_agent.agents.presenter import Presenter, attached
from humanlayer_agent.agents.supervision import Record, Supervision

RAN = Record("echo hi", executed=True, verdict="allow", rule="harmless", returncode=0)
BLOCK = "I greet.\n```bash\necho hi\n```"


@pytest.fixture
def shown() -> io.StringIO:
    return io.StringIO()


def presenter(shown: io.StringIO, says: str = "") -> Presenter:
    return Presenter(Console(file=shown, width=100), says=says)


def run(*records: Record) -> Any:
    return SimpleNamespace(records=list(records), gate=SimpleNamespace(run_id="r1", director=None))


def test_a_command_is_shown_once(shown: io.StringIO) -> None:
    one = presenter(shown)
    one.words(BLOCK, ["echo hi"])
    one.record(RAN, "hi\n")
    assert shown.getvalue() == "\n● I greet.\n  $ echo hi\n    ✓ allowed by harmless\n      hi\n"


def test_a_block_that_is_no_command_stays(shown: io.StringIO) -> None:
    presenter(shown).words(BLOCK, ["echo other"])
    assert "echo hi" in shown.getvalue()


@pytest.mark.parametrize("commands", [1, 2])
def test_what_mini_shows_itself_is_not_shown_again(shown: io.StringIO, commands: int) -> None:
    one = presenter(shown, says="steps")
    one.words(BLOCK, ["echo hi"] * commands)
    one.record(RAN, "hi\n")
    which = "  $ echo hi\n" if commands > 1 else ""  # of several, it is said which
    assert shown.getvalue() == which + "    ✓ allowed by harmless\n"


def test_a_full_screen_is_left_alone_until_it_is_closed(shown: io.StringIO) -> None:
    one, supervisor = presenter(shown, says="screen"), run()
    one.opening(supervisor)
    one.words(BLOCK, ["echo hi"])
    one.note("something")
    one.record(RAN, "hi\n")
    assert shown.getvalue() == ""
    supervisor.records.append(RAN)
    one.closing(supervisor, "Submitted")
    assert "allow → ran" in shown.getvalue()
    assert "The run ended Submitted: 1 commands, 1 ran" in shown.getvalue()


def test_each_run_has_a_table_of_its_own(shown: io.StringIO) -> None:
    one, supervisor = presenter(shown), run(RAN)
    one.opening(supervisor)
    one.closing(supervisor, "Submitted")
    assert "0 commands" in shown.getvalue()
    assert "echo hi" not in shown.getvalue()


def test_a_command_that_ran_by_a_grant_says_which(shown: io.StringIO) -> None:
    granted = Record(
        "curl x", executed=True, verdict="ask", rule="network", by="grant", approver="alice",
        grants=("grant 7f3a by alice (12 of 50)",), returncode=0,
    )  # fmt: skip
    one, supervisor = presenter(shown), run()
    one.opening(supervisor)
    one.record(granted, "")
    assert "✓ allowed by grant 7f3a by alice (12 of 50)" in shown.getvalue()
    supervisor.records += [RAN, granted]
    one.closing(supervisor, "Submitted")
    assert "network, grant 7f3a by alice (12 of 50)" in shown.getvalue()
    assert "2 commands, 2 ran, 0 did not; 0 needed a human, 1 ran by a grant." in " ".join(shown.getvalue().split())


def test_words_can_not_act_on_the_terminal(shown: io.StringIO) -> None:
    one = presenter(shown)
    one.words("a\x1b[2Jb")
    one.note("a\x1b[2Jb")
    one.closing(run(), "a\x1b[2Jb")
    assert "\x1b" not in shown.getvalue()


@pytest.mark.parametrize(
    ("terminal", "show", "there"),
    [(True, None, True), (False, None, False), (False, True, True), (True, False, False)],
)
def test_it_is_quiet_without_a_terminal(
    terminal: bool, show: bool | None, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout", SimpleNamespace(isatty=lambda: terminal))
    made: Any = SimpleNamespace(settings=Supervision(show=show), watch=None)
    assert (attached(made) is not None) is there
    assert (made.watch is not None) is there


def test_whoever_watches_shows_it_himself() -> None:
    made: Any = SimpleNamespace(settings=Supervision(show=True), watch=print)
    assert attached(made) is None
    assert made.watch is print
