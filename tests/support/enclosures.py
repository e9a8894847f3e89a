"""What the tests of confined commands start them in."""

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from humanlayer_agent.confine import bubblewrap
from humanlayer_agent.confine.confinement import Confinement, Profile, Unenforceable
from humanlayer_agent.confine.landlock import Landlock, find
from humanlayer_agent.confine.proof import interpreter_reads


@cache
def backend() -> bubblewrap.Bubblewrap:
    """The bubblewrap of this machine; a test that asks is skipped where there is none that works."""
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


def enclosure(project: Path, temporary: Path, **changes: tuple[str, ...]) -> bubblewrap.Enclosure:
    """Lets a command read the system, and write the project."""
    sets: dict[str, tuple[str, ...]] = {"read": interpreter_reads(), "write": (f"{project}/**",), **changes}
    return bubblewrap.Enclosure(
        backend(), Confinement((Profile("project", **sets),)), os.fspath(temporary), f"{temporary}-aside"
    )  # type: ignore[arg-type]


@cache
def landlock() -> Landlock:
    """The Landlock of this kernel; a test that asks is skipped where there is none."""
    try:
        return find()
    except Unenforceable as why:
        pytest.skip(str(why))
