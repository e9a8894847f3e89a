"""Commands that Landlock alone holds: what is opened, what is not, and what the reaper promises of them as of others."""

import os
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.action import BASH
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.landlock import Restriction
from humanlayer_agent.confine.proof import interpreter_reads
from humanlayer_agent.processes.execution import CommandResult, command_environment, run_command
from humanlayer_agent.testing.patience import PATIENCE
from tests.support import enclosures

Run = Callable[..., CommandResult]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a project, and one outside. Not in /tmp, which can be written."""
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-restriction-") as name:
        base = Path(name)
        for path in ("project/src", "outside/deep", "home"):
            (base / path).mkdir(parents=True)
        for path in ("outside/secret", "outside/deep/other", "home/.gitconfig", "home/.netrc", "home/notes"):
            (base / path).write_text("canary\n")
        yield base


@pytest.fixture
def profile(place: Path) -> Profile:
    return Profile("project", read=interpreter_reads(), write=(f"{place}/project/**",), hide=("/**/.netrc",))


@pytest.fixture
def bash(place: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("HOME", str(place / "home"))

    def run(command: str, *known: Profile, timeout: float = PATIENCE, **options: object) -> CommandResult:
        base = options.pop("base", profile)
        restriction = Restriction(enclosures.landlock(), Confinement((base, *known)))  # type: ignore[arg-type]
        env = command_environment(os.environ)
        return run_command(
            (*BASH, command), cwd=str(place / "project"), env=env, timeout=timeout, restriction=restriction, **options
        )  # type: ignore[arg-type]

    return run


def test_it_works_in_the_project_and_reaches_nothing_else(bash: Run, place: Path) -> None:
    done = bash(
        "echo x > src/a && mv src/a b && cat b; mktemp > /dev/null; cat ../outside/secret; echo y > ../outside/new"
    )
    assert done.output.startswith("x\n")
    assert done.output.count("Permission denied") == 2
    assert not (place / "outside/new").exists()
    assert done.returncode == 1


def test_a_sentence_says_what_it_had(profile: Profile, place: Path) -> None:
    had = Restriction(enclosures.landlock(), Confinement((profile,))).had
    assert f"it could write below /tmp, {place}/project" in had
    assert "connect to nothing by TCP" in had
    online = Confinement((profile, Profile("project", write=("/**",), network="host")))
    had = Restriction(enclosures.landlock(), online).had
    assert "it could write anywhere" in had
    assert "TCP" not in had


def test_settings_that_programs_look_for_can_be_read_unless_they_are_hidden(bash: Run, place: Path) -> None:
    (place / "pyproject.toml").write_text("canary\n")
    (place / "home/.linked").symlink_to(place / "home/.netrc")
    done = bash("cd ../home; cat .gitconfig ../pyproject.toml; cat .netrc; cat .linked; cat notes; ls")
    assert done.output.count("canary") == 2
    assert done.output.count("Permission denied") == 4


def test_what_the_command_is_known_to_do_is_let_through(bash: Run, place: Path) -> None:
    outside = f"{place}/outside"
    named = Profile("project", read=(f"{outside}/secret/**",), write=(f"{outside}/deep/new",))
    assert (
        bash(f"cat {outside}/secret; echo x > {outside}/deep/new && rm {outside}/deep/new", named).output == "canary\n"
    )
    assert "canary" not in bash(f"cat {outside}/deep/other").output
    # Of a listed folder, the names.
    listed = bash(f"ls {outside}; cat {outside}/secret", Profile("project", read=(outside,))).output
    assert listed.startswith("deep\nsecret\n")
    assert "canary" not in listed
    everything = bash(f"cat {outside}/secret; echo x > {outside}/secret", Profile("project", read=("/**",))).output
    assert everything.startswith("canary\n")
    assert "Permission denied" in everything
    assert bash(f"echo x > {outside}/new", Profile("project", write=("/**",))).returncode == 0


def test_the_home_folder_is_not_opened_to_make_one_file(bash: Run, place: Path) -> None:
    assert bash("echo x > ~/new", Profile("project", write=(f"{place}/home/new",))).returncode != 0


def test_what_leads_elsewhere_opens_nothing(bash: Run, place: Path) -> None:
    link = place / "project/link"
    link.symlink_to(place / "outside/secret")
    assert "canary" not in bash("cat link", Profile("project", read=(str(link),), write=(str(link),))).output


def test_our_own_terminal_and_output_are_not_opened(bash: Run) -> None:
    ours, theirs = os.openpty()
    try:
        name, number = os.ttyname(theirs), f"/dev/fd/{theirs}"
        known = Profile("project", read=(name, number, "/dev/stdin"), write=(name, number, "/dev/stdout"))
        assert "Permission denied" in bash(f": < {name}", known).output
        assert "Permission denied" in bash(f": > {name}", known).output
    finally:
        os.close(ours)
        os.close(theirs)


def test_what_is_hidden_is_held_where_nothing_can_be_written(bash: Run, place: Path, profile: Profile) -> None:
    project, outside = place / "project", place / "outside"
    (project / ".env").write_text("canary\n")
    (project / "src/open").write_text("open\n")
    base = replace(
        profile,
        protect=(f"{project}/**",),
        read=(*profile.read, f"{outside}/**"),
        hide=("/**/.env", f"{outside}/deep/**"),
    )
    done = bash(f"cat src/open {outside}/secret; cat .env; cat {outside}/deep/other; echo x > new", base=base)
    assert done.output.startswith("open\ncanary\n")
    assert done.output.count("canary") == 1
    assert done.output.count("Permission denied") == 3


def test_where_that_is_too_much_it_stays_open(
    bash: Run, place: Path, profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("humanlayer_agent.confine.landlock._MOST_BESIDE", 2)
    base = replace(profile, read=(*profile.read, f"{place}/outside/**"), hide=(f"{place}/outside/deep/**",))
    assert bash(f"cat {place}/outside/deep/other", base=base).output == "canary\n"


def test_tcp_is_held_where_no_code_is_run(bash: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        assert "Permission denied" in bash(connect).output
        assert bash(connect, Profile("project", network="host")).returncode == 0


def test_it_gains_no_rights_and_its_system_calls_are_filtered(bash: Run) -> None:
    assert bash("grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status | cut -f2").output == "1\n2\n"


def test_no_descriptor_is_left_to_it(bash: Run) -> None:
    assert bash("cd /proc/self/fd; echo *").output in ("0 1 2 3\n", "0 1 2\n")


def test_it_can_not_end_what_watches_over_it(bash: Run) -> None:
    if enclosures.landlock().version < 6:
        pytest.skip("allowed in CI: this Landlock holds no signals")
    done = bash("kill -9 $PPID; echo here")
    assert (done.output.splitlines()[-1], done.unwatched) == ("here", False)


def test_what_it_leaves_is_ended_as_ever(bash: Run) -> None:
    assert bash("sleep 600 & setsid sleep 600 & echo started").output == "started\n"
    late = bash("trap '' TERM; echo begun; sleep 600", timeout=0.5)
    assert late.timed_out
    assert bash("kill -9 $$").returncode == -signal.SIGKILL


def test_what_can_not_be_restricted_does_not_start(bash: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Restriction, "calls", lambda self: b"\xff" * 8)
    with pytest.raises(OSError, match="Invalid argument"):
        bash("touch ran")
    assert not (place / "project/ran").exists()


def test_what_can_not_start_says_why(bash: Run, place: Path) -> None:
    with pytest.raises(OSError, match="Argument list too long"):
        bash("true " + "x" * 3_000_000)
