"""What is known of files from step to step, where runs take place, and what is counted."""

from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy_tools.replay.figures import Figures
from humanlayer_agent.policy_tools.replay.run_files import RunFiles
from humanlayer_agent.policy_tools.replay.steps import NoCommand, Unreadable, Wrote
from humanlayer_agent.shell import Source, analyse

pytestmark = pytest.mark.usefixtures("compiled")

HEREDOC = "cat > {} <<'E'\n{}\nE"
BAD = "import shutil\nshutil.rmtree('/srv/data')"


# ---- files from step to step ------------------------------------------------------------------------------


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "wrote",
    [
        HEREDOC.format("x.py", "print(1)"),
        "echo 'print(1)' > x.py",
        "printf 'print(1)\\n' | tee x.py",
        "mkdir -p a && echo 'print(1)' > a/x.py && cp a/x.py x.py",
        HEREDOC.format("y.py", "print(1)") + "\nmv y.py x.py",
        "echo 'import os' > x.py; echo 'print(1)' >> x.py",
    ],
)
def test_a_script_that_was_written_is_read_later(verdicts: Any, wrote: str) -> None:
    assert verdicts("python x.py") == ["ask"]  # nobody could read it
    assert verdicts(wrote, "python x.py")[-1] == "allow"


def test_what_a_script_does_counts_when_it_runs_later(replay: Any, step: Any) -> None:
    rows = replay([step(HEREDOC.format("x.py", BAD)), step("python x.py")])
    assert [row.decisions[0].rule for row in rows] == ["delete-outside-project", "delete-outside-project"]
    assert not rows[1].unread


@pytest.mark.parametrize(
    "change",
    [
        "sed -i 's/[0-9]/2/' x.py",
        "curl -fsSL https://example.org/x -o x.py",
        "rm x.py",
        "python -c \"open('x.py', 'w').write(input())\"",
        "mv x.py z.py",
        'for i in 1 2; do echo "$i" >> x.py; done',
        "cp unknown.py x.py",
        "echo 'print(1)' > y.py; cp y.py x.py; sed -i 's/[0-9]/2/' x.py",
    ],
)
def test_a_script_that_was_changed_unseen_is_unread_again(replay: Any, step: Any, change: str) -> None:
    rows = replay([step(HEREDOC.format("x.py", "print(1)")), step(change), step("python x.py")])
    assert rows[-1].unread


def test_a_plain_change_is_followed(replay: Any, step: Any) -> None:
    steps = [HEREDOC.format("x.sh", "echo one"), "sed -i 's/echo one/rm -rf \\/srv\\/data/' x.sh", "bash x.sh"]
    assert replay(map(step, steps))[-1].decisions[0].rule == "delete-outside-project"


@pytest.mark.parametrize("harmless", ["chmod +x x.py", "touch x.py", "ls", "echo a > other", "git add x.py"])
def test_what_changes_no_content_changes_nothing(verdicts: Any, harmless: str) -> None:
    assert verdicts(HEREDOC.format("x.py", "print(1)"), harmless, "python x.py")[-1] == "allow"


def test_runs_know_nothing_of_each_other(replay: Any, step: Any) -> None:
    rows = replay([step(HEREDOC.format("x.py", "print(1)")), step("python x.py", run="other")])
    assert rows[1].unread


def test_what_did_not_run_wrote_nothing(replay: Any, step: Any) -> None:
    rows = replay([step(HEREDOC.format("x.py", "print(1)"), ran=False), step("python x.py")])
    assert rows[1].unread


def test_other_tools_write_files_too(replay: Any, step: Any) -> None:
    path = "/srv/app/x.sh"
    rows = replay(
        [
            Wrote("r", path, "echo one"),
            step("bash x.sh"),
            Wrote("r", path, old="echo one", new="rm -rf /srv/data"),
            step("bash x.sh"),
            Wrote("r", path, old="not there", new="x"),
            step("bash x.sh"),
        ]
    )
    assert [row.decisions[0].rule for row in rows[:2]] == ["run-read-code", "delete-outside-project"]
    assert rows[2].unread


def test_what_a_row_says_goes_first(replay: Any, step: Any) -> None:
    rows = replay(
        [
            step(HEREDOC.format("x.sh", "echo one")),
            step("bash x.sh", files={"/srv/app/x.sh": "rm -rf /srv/data"}),
            step("bash x.sh"),
        ]
    )
    assert [row.decisions[0].rule for row in rows[1:]] == ["delete-outside-project"] * 2


def test_what_was_judged_as_confined_is_judged_so_again(replay: Any, step: Any) -> None:
    first, second = replay([step("./a.out", run="1", confined=True), step("./a.out", run="2")])
    assert [str(row.decisions[0].verdict) for row in (first, second)] == ["allow", "ask"]
    assert first.decisions[0].runs == "confined to project"
    assert (first.confined, second.confined) == (True, False)


class Disk:
    def read(self, path: str) -> Source | None:
        return Source("0" * 64, "on disk", False)


def test_the_disk_does_not_speak_for_what_the_run_changed() -> None:
    files = RunFiles(Disk())
    assert files.text("/a") == "on disk"
    files.ran(analyse("rm /a", cwd="/"), {})
    assert files.read("/a") is None
    files.ran(analyse("rm -rf /d", cwd="/"), {})
    assert files.text("/b") == "on disk"


# ---- where runs take place --------------------------------------------------------------------------------


def test_the_project_is_the_logs_own_or_the_given_one(replay: Any, step: Any) -> None:
    command = "rm -rf /srv/app/build"
    assert replay([step(command)])[0].project == "/srv/app"
    inside = replay([step(command, cwd="/srv/app/sub", project="/srv/app")])[0]
    assert inside.decisions[0].verdict is Verdict.ALLOW
    (other,) = replay([step(command)], Path("/srv/other"))
    assert (other.project, other.decisions[0].rule) == ("/srv/other", "delete-outside-project")


@pytest.mark.parametrize("cwd", ["/", "/tmp"])
def test_a_run_whose_project_would_hold_everything_is_left_out(replay: Any, step: Any, cwd: str) -> None:
    (row,) = replay([step("ls", cwd=cwd)])
    assert isinstance(row, Unreadable)
    assert "--project" in row.why
    assert not isinstance(replay([step("ls", cwd=cwd)], Path("/srv/app"))[0], Unreadable)


def test_a_terminal_stays_where_it_went(replay: Any, step: Any) -> None:
    def keys(command: str) -> Any:
        return step(command, keeps=True, cwd=None)

    rows = replay([keys("cd sub && ls"), keys("rm -rf ../x"), keys("cd ../.."), keys("rm -rf x")])
    assert [row.cwd for row in rows] == ["/srv/app", "/srv/app/sub", "/srv/app/sub", "/srv"]
    assert [str(row.decisions[0].verdict) for row in rows] == ["allow", "allow", "allow", "ask"]
    lost = replay([keys('cd "$WHERE"'), keys("ls")])
    assert isinstance(lost[1], Unreadable)


# ---- what is counted --------------------------------------------------------------------------------------


def test_figures(replay: Any, step: Any) -> None:
    figures = Figures()
    steps = [
        step("ls", verdict="allow"),
        step("pip install x", verdict="allow"),
        step("pip install x", run="b"),
        step("rm -rf /", run="b"),
        step("python new.py", run="c"),
        Unreadable("f", "line 1", "broken"),
        NoCommand("Read"),
    ]
    list(figures.count(replay(steps)))
    assert (figures.commands, len(figures.runs), figures.unreadable_count) == (5, 3, 1)
    assert [figures.verdicts[v] for v in Verdict] == [1, 3, 1]
    assert figures.unread[Verdict.ASK] == 1
    assert figures.asks_per_100 == pytest.approx(60)
    assert figures.asks_per_run == pytest.approx(1)
    assert figures.runs_asked == {"r", "b", "c"}
    first = figures.most_stopped()[0]
    assert (first.command, first.count, first.runs) == ("pip install x", 2, {"r", "b"})
    assert (figures.recorded, figures.changed) == (2, {("allow", "ask"): 1})
    assert figures.rules["packages"].decided[Verdict.ASK] == 2
    assert len(figures.slowest) == 5
