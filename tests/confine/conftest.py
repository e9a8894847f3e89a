"""A bubblewrap that can be used here, and a project to confine commands to."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.confine import bubblewrap, syscall_filter
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.mounts import Unenforceable
from humanlayer_agent.confine.proof import interpreter_reads

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def backend() -> bubblewrap.Bubblewrap:
    """The bubblewrap of this machine."""
    try:
        found = bubblewrap.find()
    except Unenforceable as why:
        pytest.skip(str(why))
    tried = subprocess.run(
        [found.path, "--unshare-user", "--ro-bind", "/", "/", "true"], capture_output=True, text=True
    )
    if tried.returncode != 0:
        pytest.skip(f"no user namespaces here: {tried.stderr.strip()}")
    return found


@pytest.fixture
def scene() -> Iterator[Path]:
    """A folder with `project`, `outside` and `tmp`. Not in /tmp, which a confined command has of its own."""
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-confine-") as name:
        base = Path(name)
        for each in ("project/.git/hooks", "project/src", "outside", "tmp"):
            (base / each).mkdir(parents=True)
        (base / "project/.env").write_text("SECRET=1\n")
        (base / "project/.git/config").write_text("[core]\n")
        (base / "outside/secret").write_text("canary\n")
        yield base


@pytest.fixture
def profile(scene: Path) -> Profile:
    """What a command of the project may reach."""
    project = scene / "project"
    return Profile(
        "project",
        read=interpreter_reads(),
        write=(f"{project}/**",),
        protect=(f"{project}/**/.git/hooks/**", f"{project}/**/.git/config"),
        hide=(f"{project}/**/.env",),
    )


@pytest.fixture
def confined(backend: bubblewrap.Bubblewrap, scene: Path, profile: Profile) -> Callable[..., Done]:
    """Runs a command in the project, confined to it."""

    def run(*command: str, cwd: str = "", **changes: object) -> Done:
        descriptor = syscall_filter.open_filter()
        try:
            argv = backend.argv(
                command or ("true",),
                Confinement((replace(profile, **changes),)),  # type: ignore[arg-type]
                cwd=cwd or str(scene / "project"),
                temporary=str(scene / "tmp"),
                filter_descriptor=descriptor,
            )
            return subprocess.run(
                argv, pass_fds=[descriptor], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                env={"PATH": os.defpath + ":/usr/sbin:/sbin"}, cwd="/",
            )  # fmt: skip
        finally:
            os.close(descriptor)

    return run


PYTHON = os.path.realpath(sys.executable)
