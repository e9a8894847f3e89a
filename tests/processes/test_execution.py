"""Running one judged command: real bash, real processes."""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.action import BASH
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.processes import execution, reaper
from humanlayer_agent.processes.execution import CommandResult, PipedProgram, command_environment, run_command
from humanlayer_agent.testing.patience import PATIENCE, until
from tests.support import children, headless
from tests.support.time_outs import met

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


def bash(command: str, cwd: Path | str = "/", timeout: float = PATIENCE, **options: object) -> CommandResult:
    env = command_environment(os.environ)
    return run_command((*BASH, command), cwd=str(cwd), env=env, timeout=timeout, **options)  # type: ignore[arg-type]


@pytest.fixture
def reaping(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Gives what watches over a command other times than its own."""

    def set_times(**seconds: float) -> None:
        text = Path(reaper.__file__).read_text()
        for name, value in seconds.items():
            text, found = re.subn(rf"^{name} = .*", f"{name} = {value}", text, flags=re.MULTILINE)
            assert found == 1
        program = tmp_path_factory.mktemp("reaper") / "reaper.py"
        program.write_text(text)
        monkeypatch.setattr(reaper, "__file__", str(program))

    return set_times


@pytest.fixture(autouse=True)
def patient(reaping: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed processes end when they get a processor."""
    reaping(KILL_S=PATIENCE)
    monkeypatch.setattr(execution, "_REAPER_ENDS_S", PATIENCE + 2)


def alive(pid: int) -> bool:
    found = reaper.processes().get(pid)
    return found is not None and found[0]


def noted_pid(path: Path) -> int:
    return int(path.read_text()) if path.exists() and path.read_text().endswith("\n") else 0


def test_output_of_both_streams_and_return_code(tmp_path: Path) -> None:
    result = bash("echo out; echo err >&2; pwd; exit 3", tmp_path)
    assert result.output == f"out\nerr\n{tmp_path}\n"
    assert result.returncode == 3
    assert not result.timed_out


def test_it_is_bash_without_start_up_files(tmp_path: Path) -> None:
    (tmp_path / ".bashrc").write_text("echo from-bashrc\n")
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    result = run_command((*BASH, "[[ a == a ]] && echo ${BASH_VERSION:+bash}"), cwd="/", env=env, timeout=PATIENCE)
    assert result.output == "bash\n"


def test_death_by_signal_is_a_negative_return_code() -> None:
    assert bash("kill -TERM $$").returncode == -signal.SIGTERM


def test_time_out_keeps_the_output_so_far() -> None:
    result = met(lambda seconds: bash("echo early; sleep 600", timeout=seconds), lambda result: result.output)
    assert result.timed_out
    assert result.output == "early\n"
    assert result.returncode is None


def test_output_is_decoded_with_replacements_and_newlines() -> None:
    assert bash(r"printf 'a\xffb\r\nc\rd'").output == "a\ufffdb\nc\nd"


def test_unicode_reaches_bash_whatever_the_locale() -> None:
    env = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
    result = run_command((*BASH, "echo 'žluťoučký 🐎'; env"), cwd="/", env=env, timeout=PATIENCE)
    assert result.output.startswith("žluťoučký 🐎\n")
    assert "LC_CTYPE" not in result.output


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
def test_text_that_no_program_can_be_given(command: str) -> None:
    with pytest.raises(ValueError, match=r"null byte|surrogates"):
        bash(command)


def test_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bash("echo x", tmp_path / "nowhere")


def test_a_command_that_is_too_long() -> None:
    with pytest.raises(OSError, match="too long"):
        bash(": " + "x" * 300_000)


def test_endless_output_is_bounded_in_memory() -> None:
    result = bash("echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end", output_limit=1000)
    assert result.output.startswith("begin\nxxx")
    assert result.output.endswith("xxx\nend\n")
    assert "[... 2999011 bytes of output left out here ...]" in result.output
    assert len(result.output) < 1100


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 60))
def test_bounded_output_keeps_head_and_tail(chunks: list[bytes], limit: int) -> None:
    bounded = execution._Bounded(limit)
    for chunk in chunks:
        bounded.add(chunk)
    whole = b"".join(chunks)
    half = limit // 2
    kept = bytes(bounded._head) + b"".join(bounded._tail)
    if len(whole) <= 2 * half:
        assert kept == whole
    else:
        assert kept == whole[:half] + whole[len(whole) - half :]
    assert len(kept) + bounded._left_out == len(whole)


class TestNothingIsLeft:
    """When the shell has ended, so has what it started."""

    @linux
    @pytest.mark.parametrize(
        "start",
        [
            "sleep 600 & echo $!",
            "nohup sleep 600 >/dev/null 2>&1 & echo $!",
            "(trap '' TERM HUP; exec sleep 600) & echo $!",
            "setsid sleep 600 & echo $!",
            # A daemon: two forks and a session of its own, no descendant of the shell any more.
            "(setsid bash -c 'trap \"\" TERM; sleep 600 & echo $! | tee pid; wait' &); until [ -s pid ]; do sleep 0.01; done",
            "env -i setsid /bin/sleep 600 >/dev/null 2>&1 & echo $!",
            f"setsid {sys.executable} -c '{headless.PROGRAM}' & echo $!; until [ -s pid ]; do sleep 0.01; done",
        ],
    )
    def test_background_processes(self, start: str, tmp_path: Path) -> None:
        result = bash(start, tmp_path)
        assert result.returncode == 0
        assert result.left == 0
        assert not alive(int(result.output))

    @linux
    def test_what_waits_in_the_background_does_not_go_on(self, tmp_path: Path) -> None:
        """Its sleep is ended: that must not begin what it slept for."""
        result = bash('for i in {1..30}; do (sleep 600; echo "late $i") & done', tmp_path)
        assert (result.output, result.returncode, result.left) == ("", 0, 0)

    @linux
    def test_time_out(self, tmp_path: Path) -> None:
        result = met(
            lambda seconds: bash("setsid sleep 600 & echo $! > pid; sleep 600", tmp_path, timeout=seconds),
            lambda result: noted_pid(tmp_path / "pid"),
        )
        assert result.timed_out
        assert not alive(noted_pid(tmp_path / "pid"))

    def test_a_background_process_does_not_make_us_wait(self) -> None:
        # Without an end of its own it would hold the pipe until the time-out.
        assert not bash("sleep 600 & echo done", timeout=PATIENCE).timed_out

    def test_what_ends_by_itself_may_finish(self, reaping: Callable[..., None]) -> None:
        reaping(NATURAL_END_S=PATIENCE)
        assert bash("echo text > >(sleep 0.1; cat)").output == "text\n"

    @linux
    def test_unless_it_is_to_be_kept(self) -> None:
        result = bash("sleep 600 >/dev/null 2>&1 & echo $!", keep_background=True)
        pid = int(result.output)
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)

    @pytest.mark.long
    @linux
    def test_a_fork_bomb(self, tmp_path: Path) -> None:
        # Bounded: each generation lives shortly and starts the next, in sessions of their own.
        (tmp_path / "bomb").write_text(
            "echo >> born; [ $1 -gt 0 ] && for i in 1 2; do setsid bash bomb $(($1 - 1)) & done; sleep 600\n"
        )
        bash("touch born; bash bomb 5 & until [ $(wc -l < born) -ge 20 ]; do sleep 0.01; done", tmp_path)
        assert not [pid for pid in reaper.processes() if _cwd(pid) == str(tmp_path)]

    @linux
    @pytest.mark.parametrize(
        "leaving",
        [
            "sleep 600 & echo $! > pid",
            "setsid sleep 600 & echo $! > pid",
            "env -i setsid sh -c 'echo $$ > pid; exec sleep 600' &",
            "(setsid sh -c '(env -i setsid sh -c \"echo \\$\\$ > pid; exec sleep 600\" &)' &)",
        ],
        ids=["child", "session", "no mark", "double fork"],
    )
    def test_a_command_that_kills_its_watcher(self, tmp_path: Path, leaving: str) -> None:
        result = bash(f"{leaving}\nwhile [ ! -s pid ]; do sleep 0.01; done; kill -9 $PPID; sleep 600", tmp_path)
        assert (result.returncode, result.unwatched) == (None, True)
        assert not alive(noted_pid(tmp_path / "pid"))

    @linux
    def test_other_children_of_ours_are_left_alone(self, tmp_path: Path) -> None:
        """Also where they are in a session of their own, and where several commands run at once."""
        started: list[subprocess.Popen[bytes]] = [subprocess.Popen(["sleep", "600"], start_new_session=True)]
        results: list[CommandResult] = []
        command = "echo >> running; until [ -e go ]; do sleep 0.01; done; echo fine"
        threads = [threading.Thread(target=lambda: results.append(bash(command, tmp_path))) for _ in range(3)]
        (tmp_path / "running").touch()
        for thread in threads:
            thread.start()
        until(lambda: (tmp_path / "running").read_text().count("\n") == 3, "all three")
        started.append(subprocess.Popen(["sleep", "600"]))
        assert bash("kill -9 $PPID", tmp_path).unwatched
        (tmp_path / "go").touch()
        for thread in threads:
            thread.join()
        assert [(result.output, result.unwatched) for result in results] == [("fine\n", False)] * 3
        for child in started:
            assert child.poll() is None
            child.kill()
            assert child.wait() == -signal.SIGKILL

    @linux
    def test_orphans_of_others_go_where_they_would_go_without_us(self) -> None:
        """Nobody here waits for them: they would stay as zombies, and who looks whether they live finds them."""
        starts = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]
        before = int(subprocess.run(starts, capture_output=True, check=True).stdout)
        bash("true")
        assert bash("kill -9 $PPID").unwatched
        afterwards = int(subprocess.run(starts, capture_output=True, check=True).stdout)
        table = reaper.processes()
        for pid in (before, afterwards):
            os.kill(pid, signal.SIGKILL)
        assert table[before][1] == table[afterwards][1] != os.getpid()

    @linux
    def test_who_adopts_orphans_anyway_goes_on(self) -> None:
        libc = ctypes.CDLL(None)
        libc.prctl(reaper.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            bash("true")
            starts = ["sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"]
            orphan = int(subprocess.run(starts, capture_output=True, check=True).stdout)
            os.kill(orphan, signal.SIGKILL)
            assert os.waitpid(orphan, 0)[0] == orphan
        finally:
            libc.prctl(reaper.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)

    @linux
    def test_what_may_stay_is_waited_for(self, tmp_path: Path) -> None:
        stays = "setsid sh -c 'until [ -e go ]; do sleep 0.01; done' & echo $! > pid"
        result = bash(stays, tmp_path, keep_background=True)
        assert not result.unwatched
        pid = noted_pid(tmp_path / "pid")
        (tmp_path / "go").touch()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)  # it is ours now
        assert not reaper.processes()[pid][0]
        bash("true", tmp_path)
        assert pid not in reaper.processes()

    @linux
    def test_it_can_not_report_in_its_watchers_name(self, tmp_path: Path) -> None:
        look = "for f in /proc/$PPID/fd/0 /proc/$PPID/mem; do head -c1 $f; done; echo end"
        result = bash(f"{{ {look}; }} 2>&1", tmp_path)
        assert not result.unwatched
        if os.getuid() != 0:
            assert result.output.count("Permission denied") == 2

    @linux
    def test_a_command_that_stops_its_watcher(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(execution, "_REAPER_ENDS_S", 0.5)
        stops = "setsid sleep 600 & echo $! > pid; kill -STOP $PPID; sleep 600"
        result = met(lambda seconds: bash(stops, tmp_path, timeout=seconds), lambda result: noted_pid(tmp_path / "pid"))
        assert result.timed_out
        assert not alive(noted_pid(tmp_path / "pid"))

    @linux
    @pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
    def test_the_supervisor_is_interrupted_or_killed(self, tmp_path: Path, how: signal.Signals) -> None:
        source = (
            "import os\n"
            "from humanlayer_agent.processes.execution import run_command, command_environment\n"
            "run_command(('bash', '-c', 'echo $$ > pid; setsid sleep 600 & echo $! > child; sleep 600'),"
            " cwd=os.getcwd(), env=command_environment(os.environ), timeout=600)\n"
        )
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        supervisor = children.Popen([sys.executable, "-c", source], cwd=tmp_path, env=env, stderr=subprocess.DEVNULL)
        until(lambda: noted_pid(tmp_path / "pid") and noted_pid(tmp_path / "child"), "both processes")
        supervisor.send_signal(how)
        supervisor.wait()
        for name in ("pid", "child"):
            until(lambda name=name: not alive(noted_pid(tmp_path / name)), "the end of both")  # type: ignore[misc]

    def test_an_exception_in_the_midst_of_it(self, tmp_path: Path) -> None:
        main = threading.get_ident()

        def interrupt() -> None:
            until(lambda: noted_pid(tmp_path / "pid"), "the command")
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            bash("echo $$ > pid; sleep 600", tmp_path, timeout=600)
        thread.join()
        assert not alive(noted_pid(tmp_path / "pid"))


def _cwd(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def test_many_at_once_do_not_end_each_other() -> None:
    results: list[str] = []

    def one(number: int) -> None:
        results.append(bash(f"sleep 0.{number} & wait; echo {number}").output)

    threads = [threading.Thread(target=one, args=(n,)) for n in range(1, 6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [f"{n}\n" for n in range(1, 6)]


GIT = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.bareRepository", "GIT_CONFIG_VALUE_0": "explicit"}


class TestEnvironment:
    def test_only_what_is_listed(self) -> None:
        environ = {
            "PATH": "/bin",
            "LC_TIME": "C",
            "OPENAI_API_KEY": "sk",
            "LD_PRELOAD": "x",
            "PYTHONPATH": "p",
            "FOO": "1",
        }
        assert command_environment(environ) == {"PATH": "/bin", "LC_TIME": "C", "HUMANLAYER_SUPERVISED": "1"} | GIT

    def test_what_is_passed_on_purpose(self) -> None:
        environ = {"PATH": "/bin", "FOO": "1", "PYTHONPATH": "p"}
        passed = command_environment(environ, {"PAGER": "cat", "PATH": "/usr/bin"}, ["FOO", "PYTHONPATH", "UNSET"])
        assert passed == {
            "FOO": "1",
            "PYTHONPATH": "p",
            "PATH": "/usr/bin",
            "PAGER": "cat",
            "HUMANLAYER_SUPERVISED": "1",
            **GIT,
        }

    @pytest.mark.parametrize("said", ["1", "0", "", "x", "-1", "\u0661"])
    def test_what_git_was_told_before_stays(self, said: str) -> None:
        before = {"GIT_CONFIG_COUNT": said, "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "Ann"}
        env = {**os.environ, **command_environment({"PATH": os.environ["PATH"]}, before)}
        for more in ((), ("-c", "user.email=x")):
            words = ["git", *more, "config", "--get-regexp", "user.name|safe.*"]
            done = subprocess.run(words, capture_output=True, text=True, env=env)
            assert ("safe.barerepository explicit" in done.stdout) is True
            assert ("user.name Ann" in done.stdout) is (said == "1")

    def test_git_does_not_take_a_folder_for_a_bare_repository(self, tmp_path: Path) -> None:
        planted = tmp_path / "innocent"
        subprocess.run(["git", "init", "-q", "--bare", planted], check=True)
        with (planted / "config").open("a") as config:
            config.write(f"[alias]\nlog = !touch {tmp_path}/ran\n[core]\nfsmonitor = touch {tmp_path}/ran;\n")
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        for ours, code in ((env, 0), (command_environment(env), 128)):
            for words in (["git"], ["git", "-c", "core.pager=cat"]):
                done = subprocess.run([*words, "rev-parse", "--git-dir"], cwd=planted, env=ours, capture_output=True)
                assert done.returncode == code

    @pytest.mark.parametrize("name", ["BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_ls%%", "CDPATH", "IFS"])
    def test_never_what_changes_how_bash_reads(self, name: str) -> None:
        assert name not in command_environment({name: "x"})
        with pytest.raises(ConfigError, match="can't be passed"):
            command_environment({name: "x"}, pass_env=[name])
        with pytest.raises(ConfigError, match="can't be passed"):
            command_environment({}, {name: "x"})

    def test_never_where_the_passphrase_is(self) -> None:
        name = "HUMANLAYER_PASSPHRASE_FILE"
        assert name not in command_environment({name: "/run/credentials/x"})
        with pytest.raises(ConfigError, match=f"{name} can't be passed"):
            command_environment({name: "x"}, pass_env=[name])
        with pytest.raises(ConfigError, match=f"{name} can't be passed"):
            command_environment({}, {name: "x"})

    def test_the_marker_can_not_be_taken_away(self) -> None:
        assert command_environment({}, {"HUMANLAYER_SUPERVISED": ""})["HUMANLAYER_SUPERVISED"] == "1"

    def test_an_exported_function_does_not_replace_a_program(self, tmp_path: Path) -> None:
        environ = {**os.environ, "BASH_FUNC_ls%%": "() { echo hijacked; }"}
        result = run_command((*BASH, "ls"), cwd=str(tmp_path), env=command_environment(environ), timeout=PATIENCE)
        assert result.output == ""

    def test_no_locale_in_which_bash_reads_something_else(self) -> None:
        """The second byte of a character may be a backslash's there: a quote ends elsewhere than it was judged to."""
        for name in ("LANG", "LC_ALL", "LC_CTYPE"):
            for value in (
                "zh_CN.GBK",
                "zh_CN.gb18030",
                "zh_CN",
                "ja_JP.SJIS",
                "zh_TW.Big5",
                "ko_KR.johab",
                "x",
                "../loc",
            ):
                assert name not in command_environment({name: value})
                with pytest.raises(ConfigError, match="judged as UTF-8"):
                    command_environment({name: value}, pass_env=[name])
                with pytest.raises(ConfigError, match="judged as UTF-8"):
                    command_environment({}, {name: value})
            for value in ("C", "POSIX", "C.UTF-8", "C.utf8", "zh_CN.UTF-8", "de_DE", "sr_RS.UTF-8@latin", ""):
                assert command_environment({name: value})[name] == value
        assert command_environment({"LC_COLLATE": "zh_CN.GBK"})["LC_COLLATE"] == "zh_CN.GBK"

    @pytest.mark.long
    @pytest.mark.skipif(shutil.which("localedef") is None, reason="no localedef here (allowed in CI)")
    def test_in_the_locale_of_the_machine(self, tmp_path: Path) -> None:
        """Real bash, in a locale of GBK: what is judged as the text of an echo would run."""
        made = subprocess.run(["localedef", "-i", "zh_CN", "-f", "GBK", tmp_path / "zh_CN.GBK"], capture_output=True)
        if not (tmp_path / "zh_CN.GBK").exists():
            pytest.skip(f"no sources of locales here (allowed in CI): {made.stderr!r}")
        line = 'echo "\u4f60\\"; echo HIJACKED #"'
        environ = {**os.environ, "LC_ALL": "zh_CN.GBK"}
        raw = {**environ, "LOCPATH": str(tmp_path)}
        assert run_command((*BASH, line), cwd="/", env=raw, timeout=PATIENCE).output.endswith("\nHIJACKED\n")
        ours = {**command_environment(environ), "LOCPATH": str(tmp_path)}
        assert run_command((*BASH, line), cwd="/", env=ours, timeout=PATIENCE).output == '\u4f60"; echo HIJACKED #\n'

    def test_path_has_no_place_where_the_agent_puts_programs_unasked(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        for name in ("bin", "env/bin", "conda/bin", "conda/conda-meta", "node_modules/.bin", "src"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "env/pyvenv.cfg").touch()
        (tmp_path / "out").symlink_to("/usr/bin")
        inside = [f"{tmp_path}/{name}" for name in ("bin", "src/../bin", "", "out", "none", ".bin")]
        wanted = [f"{tmp_path}/env/bin", f"{tmp_path}/conda/bin", f"{tmp_path}/node_modules/.bin", "/usr/bin", "/opt/x"]
        path = os.pathsep.join([".", *inside, "", "bin", *wanted, "~/bin"])
        kept = command_environment({"PATH": path}, project=str(tmp_path))["PATH"]
        assert kept.split(os.pathsep) == wanted
        assert "could put programs there" in caplog.text
        assert command_environment({"PATH": f"{tmp_path}/bin:.:/bin"})["PATH"] == f"{tmp_path}/bin:/bin"
        assert command_environment({}, {"PATH": "bin:/bin"}, project=str(tmp_path))["PATH"] == "bin:/bin"  # on purpose

    def test_what_is_judged_as_ls_is_ls(self, tmp_path: Path) -> None:
        (tmp_path / "bin").mkdir()
        for place in (tmp_path / "bin/ls", tmp_path / "ls"):
            place.write_text("#!/bin/sh\necho hijacked\n")
            place.chmod(0o755)
        environ = {**os.environ, "PATH": f".:{tmp_path}/bin::{os.environ['PATH']}"}
        env = command_environment(environ, project=str(tmp_path))
        assert "hijacked" not in run_command((*BASH, "ls"), cwd=str(tmp_path), env=env, timeout=PATIENCE).output

    def test_a_bash_in_the_project_is_not_taken_for_the_shell(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "bash").write_text("#!/bin/sh\necho another\n")
        (tmp_path / "bash").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        execution.find_program.cache_clear()
        assert bash("echo the real one").output == "the real one\n"


class TestKeptApart:
    """What a command can't do to the supervisor."""

    def test_there_is_nothing_to_read(self) -> None:
        assert bash("cat; readlink /proc/self/fd/0").output in ("/dev/null\n", "")

    def test_no_controlling_terminal(self) -> None:
        result = bash("exec 2>/dev/null; cat < /dev/tty")
        assert result.returncode != 0
        assert result.output == ""

    def test_no_descriptor_of_ours(self, tmp_path: Path) -> None:
        with open(tmp_path / "secret", "w") as file:
            os.set_inheritable(file.fileno(), False)
            listed = bash("ls -l /proc/self/fd").output
        assert "secret" not in listed
        assert "socket" not in listed

    @linux
    def test_the_key_is_out_of_reach(self, tmp_path: Path, ordinary_user: Callable[[str], list[str]]) -> None:
        source = """
import os, sys
from humanlayer_agent.processes.execution import command_environment, run_command
from humanlayer_agent.processes.memory_protection import protect_secrets
look = "env; for p in $PPID " + str(os.getpid()) + "; do tr '\\\\0' '\\\\n' < /proc/$p/environ; done 2>&1"
def read():
    return run_command(("bash", "-c", look), cwd="/", env=command_environment(os.environ), timeout=600).output
unprotected = read()
assert "sk-very-secret" in unprotected, unprotected  # or this test would prove nothing
assert protect_secrets().holds
protected = read()
assert "sk-very-secret" not in protected, protected
assert "Permission denied" in protected, protected
grandparent = run_command(("bash", "-c", "cat /proc/" + str(os.getpid()) + "/mem | head -c 1"), cwd="/",
    env=command_environment(os.environ), timeout=600)
assert "Permission denied" in grandparent.output
print("held")
"""
        root = str(Path(__file__).parents[2])
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": root, "OPENAI_API_KEY": "sk-very-secret"}
        done = subprocess.run(ordinary_user(source), env=env, cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "held\n", done.stderr

    @linux
    def test_protection_says_when_it_does_not_hold(self) -> None:
        source = "from humanlayer_agent.processes.memory_protection import protect_secrets as p; r = p(); print(r.holds, r.why_not)"
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        said = children.run([sys.executable, "-c", source], env=env, capture_output=True, text=True).stdout
        bounding = int(Path("/proc/self/status").read_text().split("CapBnd:")[1].split()[0], 16)
        if os.getuid() == 0 and bounding >> 19 & 1:
            assert said.startswith("False it runs as root")
        elif os.getuid() != 0:
            assert said == "True \n"


def test_starting_is_not_slowed_by_imports() -> None:
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", reaper.__file__],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    ).stderr
    modules = {line.rpartition("|")[2].strip() for line in loaded.splitlines()}
    assert "select" in modules
    assert not modules & {"signal", "enum", "re", "socket", "subprocess", "json", "typing", "ctypes"}


def test_parents_come_before_their_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where their number is the higher one, because the kernel began to count anew in between."""
    parents = {20: 1, 900: 20, 16: 900, 901: 16, 8: 901, 24: 20}
    monkeypatch.setattr(reaper, "processes", lambda: {pid: (True, parent, 1) for pid, parent in parents.items()})
    found = reaper.descendants(1)
    assert sorted(found) == sorted(parents)
    assert all(found.index(parent) < found.index(pid) for pid, parent in parents.items() if parent != 1)


def test_descendants_of_a_tree() -> None:
    child = subprocess.Popen(["bash", "-c", "sleep 600 & sleep 600"], start_new_session=True)
    try:
        until(lambda: len(reaper.descendants(child.pid)) == 2, "both")
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


class TestPipedProgram:
    """A program that is talked to."""

    def start(self, tmp_path: Path, command: str) -> PipedProgram:
        return PipedProgram(
            ["bash", "--norc", "-c", command], cwd=str(tmp_path), env=command_environment({**os.environ, "TOKEN": "x"})
        )

    def test_it_is_talked_to_and_ends_by_itself(self, tmp_path: Path) -> None:
        program = self.start(tmp_path, 'pwd; echo ${TOKEN-none}; while read -r line; do echo "<$line>"; done; exit 3')
        with program.stdout, program.stdin:
            program.stdin.write(b"one\ntwo\n")
            program.stdin.close()
            text = b"".join(iter(lambda: program.stdout.read(1000), b"")).decode()
        assert text == f"{tmp_path}\nnone\n<one>\n<two>\n"
        assert program.wait(PATIENCE)
        assert program.end() == 3

    @linux
    def test_it_is_ended_with_what_it_has_started(self, tmp_path: Path) -> None:
        program = self.start(tmp_path, "setsid sleep 600 & echo $! > pid; trap '' TERM; echo up; sleep 600")
        with program.stdout, program.stdin:
            assert program.stdout.read(10) == b"up\n"
            assert not program.wait(0.01)
            assert program.end() is None
            assert program.stdout.read(10) == b""
        assert not alive(noted_pid(tmp_path / "pid"))

    @linux
    def test_kill_9_of_whoever_talks_to_it_ends_it(self, tmp_path: Path) -> None:
        code = (
            "import os; from humanlayer_agent.processes.execution import PipedProgram\n"
            "program = PipedProgram(['bash', '-c', 'echo $$ > pid; sleep 600'], cwd=os.getcwd(), env=dict(os.environ))\n"
            "import time; time.sleep(600)"
        )
        talks = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
        until(lambda: noted_pid(tmp_path / "pid") > 0, "its start")
        talks.kill()
        talks.wait()
        until(lambda: not alive(noted_pid(tmp_path / "pid")), "its end")

    def test_what_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="no-such-server was not found"):
            PipedProgram(["no-such-server"], cwd=str(tmp_path), env={})
        with pytest.raises(OSError, match="nowhere"):
            PipedProgram(["bash"], cwd=str(tmp_path / "nowhere"), env={})
