"""A bubblewrap that can be used here, and a project to confine commands to."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.confine import bubblewrap
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.proof import interpreter_reads
from tests.support import enclosures

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def backend() -> bubblewrap.Bubblewrap:
    """The bubblewrap of this machine."""
    return enclosures.backend()


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
        enclosure = bubblewrap.Enclosure(
            backend,
            Confinement((replace(profile, **changes),)),  # type: ignore[arg-type]
            str(scene / "tmp"),
            str(scene / "aside"),
        )
        words = [os.fsencode(word) for word in command or ("true",)]
        env = {b"PATH": os.fsencode(os.defpath + ":/usr/sbin:/sbin")}
        with enclosure.opened(words, cwd=cwd or str(scene / "project"), env=env) as (argv, descriptors):
            return subprocess.run(
                argv, pass_fds=descriptors, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={}, cwd="/"
            )

    return run


PYTHON = os.path.realpath(sys.executable)
