"""Confined commands keep what the reaper promises of the others: real bubblewrap, real processes."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.action import BASH, FileDigest
from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import Confinement, Unenforceable
from humanlayer_agent.errors import NotAsJudged
from humanlayer_agent.processes import reaper
from humanlayer_agent.processes.execution import CommandResult, command_environment, run_command
from humanlayer_agent.processes.file_swaps import JudgedFiles, WorkingDirectory
from humanlayer_agent.shell import DiskReader, View
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support import children
from tests.support.enclosures import enclosure
from tests.support.time_outs import met

Run = Callable[..., CommandResult]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed processes end when they get a processor."""
    monkeypatch.setattr(reaper, "KILL_S", PATIENCE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    (tmp_path / "tmp").mkdir()
    return tmp_path / "project"


@pytest.fixture
def inside(project: Path) -> Enclosure:
    return enclosure(project, project.parent / "tmp")


@pytest.fixture
def bash(project: Path, inside: Enclosure) -> Iterator[Run]:
    def run(command: str, timeout: float = PATIENCE, **options: object) -> CommandResult:
        options = {"cwd": str(project), "confinement": inside, "env": command_environment(os.environ), **options}
        return run_command((*BASH, command), timeout=timeout, **options)  # type: ignore[arg-type]

    before = _ours()
    yield run
    assert _ours() <= before  # a zombie would be one of ours


@pytest.fixture(autouse=True)
def nothing_is_left(project: Path) -> Iterator[None]:
    yield
    until(lambda: not [pid for pid in reaper.processes() if _cwd(pid) == str(project)], "the end of all processes")


def _ours() -> set[int]:
    return {pid for pid, (_, parent, _) in reaper.processes().items() if parent == os.getpid()}


def _cwd(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def test_output_of_both_streams_and_return_code(bash: Run, project: Path) -> None:
    result = bash("echo out; echo err >&2; pwd; cat; exit 3")
    assert (result.output, result.returncode) == (f"out\nerr\n{project}\n", 3)
    assert (result.timed_out, result.unwatched, result.left) == (False, False, 0)


def test_it_sees_what_an_unconfined_command_sees(bash: Run) -> None:
    """Of itself and of its environment: names, values, descriptors, signals; and what bash calls itself in errors."""
    look = "env | sort; echo $0 $#; ls -l /proc/self/fd | wc -l; grep SigBlk /proc/self/status; trap; umask; nonsense"
    assert bash(look).output == bash(look, confinement=None).output


def test_git_takes_a_bare_repository_where_its_settings_reach_no_more_than_a_test_may(
    bash: Run, project: Path, inside: Enclosure
) -> None:
    """Tests of what works with git make such repositories; their settings may have git run anything."""

    def held(**changes: object) -> Enclosure:
        (profile,) = inside.confinement.profiles
        return replace(inside, confinement=Confinement((replace(profile, **changes),)))  # type: ignore[arg-type]

    own = (f"{project}/**/.git/**",)
    assert bash("git init -q --bare x.bare", confinement=held(protect=own)).returncode == 0
    asked = "cd x.bare && git rev-parse --git-dir"
    assert bash(asked, confinement=held(protect=own)).returncode == 0
    assert bash(asked, confinement=held(protect=(f"{project}/.git/hooks/**",))).returncode == 128
    assert bash(asked, confinement=held(protect=own, network="host")).returncode == 128
    assert bash(asked, confinement=None).returncode == 128


@pytest.mark.parametrize("how", ["TERM", "KILL", "HUP", "ABRT"])
def test_death_by_signal_is_told_as_the_reaper_tells_it(bash: Run, how: str) -> None:
    dies = bash(f"kill -{how} $$").returncode
    number = signal.Signals[f"SIG{how}"].value
    assert dies in (-number, 128 + number)
    assert bash(f"exit {128 + number}").returncode == 128 + number
    if tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 15):
        assert dies == -number


def test_output_is_bounded(bash: Run) -> None:
    result = bash("echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", output_limit=1000)
    assert result.output.startswith("begin\nxxx")
    assert result.output.endswith("xxx\nend\n")
    assert len(result.output) < 1100


def test_a_command_that_is_too_long(bash: Run) -> None:
    with pytest.raises(OSError, match="too long"):
        bash(": " + "x" * 300_000)


def test_text_that_no_program_can_be_given(bash: Run) -> None:
    with pytest.raises(ValueError, match="null byte"):
        bash("echo a\0b")
    with pytest.raises(ValueError, match="null byte"):
        bash("true", env={"A": "b\0--bind"})


def test_a_variable_does_not_reach_what_is_not_confined(bash: Run, project: Path) -> None:
    """LD_PRELOAD makes a program load code: of the command, not of bubblewrap."""
    (project / "not-a-library.so").write_text("nothing")
    loads = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(project / "not-a-library.so")}
    result = bash("true", env=loads)
    assert result.output.count("cannot be preloaded") == 2  # the gate, and the command
    assert bash('printf %s "$WORDS"', env=loads | {"WORDS": "--bind / /\n--"}).output.endswith("--bind / /\n--")


@pytest.mark.parametrize(
    "start",
    [
        "sleep 600 & true",
        "nohup sleep 600 >/dev/null 2>&1 & true",
        "(trap '' TERM HUP; exec sleep 600) & true",
        "setsid sleep 600 & true",
        "(setsid bash -c 'trap \"\" TERM; sleep 600 & touch begun; wait' &); until [ -e begun ]; do sleep 0.01; done",
        "env -i setsid /bin/sleep 600 >/dev/null 2>&1 & true",
    ],
)
def test_what_it_leaves_behind_ends(bash: Run, start: str) -> None:
    result = bash(start)
    assert (result.returncode, result.left, result.timed_out) == (0, 0, False)


def test_what_waits_in_the_background_does_not_go_on(bash: Run) -> None:
    result = bash('for i in {1..30}; do (sleep 600; echo "late $i") & done')
    assert (result.output, result.returncode, result.left) == ("", 0, 0)


def test_what_is_left_is_told_to_end_first(bash: Run, project: Path) -> None:
    result = bash(
        "(trap 'echo cleaned > trap; exit' TERM; touch begun; while :; do sleep 0.01; done) & until [ -e begun ]; do sleep 0.01; done"
    )
    assert result.returncode == 0
    assert (project / "trap").read_text() == "cleaned\n"


def test_a_time_out_tells_it_to_end_first(bash: Run, project: Path) -> None:
    cleans = "trap 'echo cleaned > trap; exit' TERM; echo early; while :; do sleep 0.01; done"
    result = met(lambda seconds: bash(cleans, timeout=seconds), lambda result: result.output)
    assert (result.timed_out, result.output[:6], result.returncode) == (True, "early\n", None)
    assert (project / "trap").read_text() == "cleaned\n"


def test_a_time_out_ends_what_does_not_listen(bash: Run) -> None:
    deaf = "trap '' TERM; setsid bash -c 'trap \"\" TERM; sleep 600; sleep 600' & echo early; while :; do sleep 1; done"
    result = met(lambda seconds: bash(deaf, timeout=seconds), lambda result: result.output)
    assert (result.timed_out, result.returncode) == (True, None)


def test_what_ends_by_itself_may_finish(bash: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reaper, "NATURAL_END_S", PATIENCE)
    assert bash("seq 40000 > >(sleep 0.1; cat)").output.endswith("\n40000\n")


def test_a_background_process_does_not_make_us_wait(bash: Run) -> None:
    assert not bash("sleep 600 & echo done").timed_out


@pytest.mark.long
def test_a_fork_bomb(bash: Run, project: Path) -> None:
    (project / "bomb").write_text(
        "echo >> born; [ $1 -gt 0 ] && for i in 1 2; do setsid bash bomb $(($1 - 1)) & done; sleep 600\n"
    )
    bash("touch born; bash bomb 5 & until [ $(wc -l < born) -ge 20 ]; do sleep 0.01; done")


@pytest.mark.parametrize("target", ["$PPID", "1", "-1"])
def test_it_can_not_end_what_watches_over_it(bash: Run, target: str) -> None:
    result = bash(f"trap '' TERM; {{ kill -9 {target}; kill -STOP {target}; }} 2>/dev/null; echo alive")
    assert (result.output, result.unwatched) == ("alive\n", False)


def test_it_stays_known_as_supervised(bash: Run) -> None:
    """`hla requests approve` refuses where a process that started it has the mark, whatever the command takes away."""
    assert bash("env -u HUMANLAYER_SUPERVISED cat /proc/1/environ").output == "HUMANLAYER_SUPERVISED=1\0"


def test_it_can_not_keep_something_running(bash: Run) -> None:
    with pytest.raises(Unenforceable, match="outlive"):
        bash("true", keep_background=True)


def test_what_can_not_be_started_confined_is_not_started(bash: Run, project: Path, inside: Enclosure) -> None:
    broken = project.parent / "bwrap"
    broken.write_text("#!/bin/sh\necho no namespaces for you >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(Unenforceable, match="no namespaces for you"):
        bash("touch ran", confinement=replace(inside, backend=Bubblewrap(str(broken), "0.11")))
    with pytest.raises(Unenforceable, match="nowhere"):
        bash("touch ran", confinement=replace(inside, temporary=str(project / "nowhere")))
    with pytest.raises(Unenforceable, match="is not within"):
        bash("touch ran", cwd=str(project.parent))
    with pytest.raises(Unenforceable, match="No such file"):
        bash("touch ran", confinement=enclosure(project, project.parent / "tmp", read=()))
    assert not (project / "ran").exists()


def test_files_are_compared_when_all_is_ready(bash: Run, project: Path) -> None:
    script = project / "script"
    script.write_text("echo judged\n")
    at = WorkingDirectory.at(str(project))
    judged = JudgedFiles(at, (FileDigest(str(script), hashlib.sha256(script.read_bytes()).hexdigest()),))
    assert bash("bash script", judged=judged).output == "judged\n"
    script.write_text("touch ran\n")
    with pytest.raises(NotAsJudged):
        bash("bash script", judged=judged)
    assert not (project / "ran").exists()


def test_it_is_to_see_what_was_judged(bash: Run, project: Path, inside: Enclosure) -> None:
    """Should the view that it was judged in not be the one it gets, it does not start."""
    temporary, another = Path(os.path.realpath(inside.temporary)), project.parent / "another"
    another.mkdir()
    (temporary / "way.sh").symlink_to("/tmp/d/script")
    (another / "way.sh").symlink_to("/tmp/d/script")
    for folder, text in ((temporary, "echo judged\n"), (another, "touch ran\n")):
        (folder / "d").mkdir()
        (folder / "d/script").write_text(text)
    view = View(str(temporary), shown=(str(project),))
    files = (FileDigest("/tmp/way.sh", DiskReader.digest("/tmp/way.sh", view)),)
    judged = JudgedFiles(WorkingDirectory.at(str(project)), files, view)
    assert bash("bash /tmp/way.sh", judged=judged).output == "judged\n"
    with pytest.raises(NotAsJudged, match=r"/tmp/way\.sh"):
        bash("bash /tmp/way.sh", judged=judged, confinement=replace(inside, temporary=str(another)))
    (another / "d/script").write_text("echo judged\n")
    assert bash("bash /tmp/way.sh", judged=judged, confinement=replace(inside, temporary=str(another))).output
    assert not (project / "ran").exists()


def test_what_is_hidden_or_not_there_deceives_nobody(bash: Run, project: Path) -> None:
    (project / "hidden").write_text("seen by us\n")
    (project.parent / "elsewhere").write_text("seen by us\n")
    places = [str(project / "hidden"), str(project.parent / "elsewhere")]
    files = [FileDigest(each, DiskReader.digest(each)) for each in places]
    hiding = enclosure(project, project.parent / "tmp", hide=(f"{project}/hidden",))
    judged = JudgedFiles(WorkingDirectory.at(str(project)), files)
    assert "judged" in bash("cat hidden; echo judged", judged=judged, confinement=hiding).output


def test_it_starts_in_the_directory_that_was_judged(bash: Run, project: Path) -> None:
    """Swapped after it was opened, and before the namespace was made: another folder has the same name then."""

    class Swapped(WorkingDirectory):
        def open(self) -> int:
            descriptor = super().open()
            folder = Path(self.path)
            folder.rename(folder.with_name("judged"))
            folder.mkdir()
            return descriptor

    (project / "here").mkdir()
    seen = WorkingDirectory.at(str(project / "here"))
    judged = JudgedFiles(Swapped(seen.path, seen.identity), ())
    with pytest.raises(NotAsJudged, match="judged"):
        bash("touch ran", cwd=seen.path, judged=judged)
    assert not list(project.glob("*/ran"))


def test_what_it_leaves_at_a_protected_place_is_moved_aside(bash: Run, project: Path) -> None:
    guarded = enclosure(project, project.parent / "tmp", protect=(f"{project}/**/.envrc",))
    result = bash("echo planted > .envrc; mkdir a; echo x > a/b", confinement=guarded)
    assert [(each.path, Path(each.kept).read_text()) for each in result.moved] == [(f"{project}/.envrc", "planted\n")]
    assert sorted(os.listdir(project)) == ["a"]
    assert bash("true", confinement=guarded).moved == ()
    met(
        lambda seconds: bash("echo > .envrc; echo early; sleep 600", timeout=seconds, confinement=guarded),
        lambda r: r.moved,
    )
    assert sorted(os.listdir(project)) == ["a"]


def test_an_exception_in_the_midst_of_it(bash: Run, project: Path) -> None:
    main = threading.get_ident()

    def interrupt() -> None:
        until((project / "begun").exists, "the command")
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        bash("touch begun; setsid sleep 600 & sleep 600", timeout=600)
    thread.join()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_the_supervisor_is_interrupted_or_killed(project: Path, inside: Enclosure, how: signal.Signals) -> None:
    source = f"""
import os, sys
from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.processes.execution import run_command, command_environment
command = "touch begun; setsid sleep 600 & trap '' TERM INT; while :; do sleep 600; done"
run_command(('bash', '-c', command), cwd={str(project)!r}, env=command_environment(os.environ), timeout=600,
            confinement={inside!r})
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    supervisor = children.Popen([sys.executable, "-c", source], cwd="/", env=env, stderr=subprocess.DEVNULL)
    until((project / "begun").exists, "the command")
    supervisor.send_signal(how)
    supervisor.wait()


def test_the_supervisor_is_killed_before_the_command_starts(project: Path, inside: Enclosure) -> None:
    """While the files are compared: it is at its gate, and never gets through."""
    source = f"""
import os
from humanlayer_agent.confine.bubblewrap import Bubblewrap, Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.processes.execution import run_command
from humanlayer_agent.processes.file_swaps import JudgedFiles, WorkingDirectory
class Killed(JudgedFiles):
    def check(self):
        os.kill(os.getpid(), 9)
run_command(('bash', '-c', 'touch ran'), cwd={str(project)!r}, env=dict(os.environ), timeout=600,
            judged=Killed(WorkingDirectory.at({str(project)!r}), ()), confinement={inside!r})
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    supervisor = children.Popen([sys.executable, "-c", source], cwd="/", env=env, stderr=subprocess.DEVNULL)
    assert supervisor.wait() == -signal.SIGKILL
    until(lambda: not [pid for pid in reaper.processes() if _cwd(pid) == str(project)], "the end of all processes")
    assert not (project / "ran").exists()


def test_many_at_once_do_not_end_each_other(bash: Run) -> None:
    results: list[str] = []

    def one(number: int) -> None:
        way = {"confinement": None} if number % 2 else {}
        results.append(bash(f"sleep 0.{number} & wait; echo {number}", **way).output)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [f"{n}\n" for n in range(1, 7)]
