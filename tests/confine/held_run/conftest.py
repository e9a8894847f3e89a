"""A project, commands that run held or for real in it, and what it consists of."""

import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from humanlayer_agent.confine.bubblewrap import Enclosure
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.held_run.layer import Layer, looked, moves_refused, obstacles
from humanlayer_agent.confine.held_run.overlay import LayeredEnclosure, Over, held
from humanlayer_agent.confine.proof import interpreter_reads
from humanlayer_agent.processes.execution import CommandResult, run_command
from tests.support import enclosures

_GIT = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")} | {
    "GIT_AUTHOR_DATE": "2020-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2020-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
}
ENVIRONMENT = {
    "PATH": f"{os.defpath}:/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    **_GIT,
}


@dataclass
class Tried:
    """A held run: its layer, where that lies, and how it ended."""

    layer: Layer
    upper: Path
    folder: Path
    result: CommandResult


@dataclass
class Scene:
    """A folder with `project`, and what commands have as /tmp; not in /tmp, which a confined command has of its own."""

    base: Path
    runs: int = field(default=0)

    @property
    def project(self) -> Path:
        return self.base / "project"

    @property
    def confinement(self) -> Confinement:
        project = self.project
        profile = Profile(
            "project",
            read=interpreter_reads(),
            write=(f"{project}/**",),
            protect=(f"{project}/**/.git/hooks/**", f"{project}/**/.git/config"),
            hide=(f"{project}/**/.env",),
        )
        return held(Confinement((profile,)), str(project))

    def _temporary(self) -> Path:
        self.runs += 1
        folder = self.base / f"run{self.runs}"
        (folder / "tmp").mkdir(parents=True)
        return folder

    def hold(self, command: str, seconds: float = 60) -> Tried:
        """Run a command held."""
        folder, project = self._temporary(), str(self.project)
        layers = [Over.made(each, f"{folder}/{n}") for n, each in enumerate((project, f"{folder}/tmp"))]
        aside = str(self.base / "aside")
        enclosure = LayeredEnclosure(
            enclosures.backend(), self.confinement, f"{folder}/tmp", aside, layers=tuple(layers)
        )
        (folder / "began").touch()
        since = os.stat(folder / "began").st_ctime_ns
        result = self._run(command, enclosure, seconds)
        with ExitStack() as stack:
            below, upper = (os.open(path, os.O_RDONLY) for path in (project, layers[0].upper))
            for each in (below, upper):
                stack.callback(os.close, each)
            changes, why = looked(below, upper)
        told = (*result.tried, *moves_refused(result.output))
        refused = (*why, *told, *obstacles(changes, self.confinement, project, since=since))
        layer = Layer(project, tuple(changes), result.returncode, hashlib.sha256(b"").hexdigest(), refused)
        return Tried(layer, Path(layers[0].upper), folder, result)

    def run(self, command: str) -> CommandResult:
        """Run a command confined to the same, for real."""
        folder = self._temporary()
        aside = str(self.base / "aside")
        return self._run(command, Enclosure(enclosures.backend(), self.confinement, f"{folder}/tmp", aside), 60)

    def _run(self, command: str, enclosure: Enclosure, seconds: float) -> CommandResult:
        argv = ("bash", "-c", command)
        return run_command(argv, cwd=str(self.project), env=ENVIRONMENT, timeout=seconds, confinement=enclosure)

    def make(self) -> None:
        """Make the project anew: the same each time, in every byte and mode."""
        if self.project.exists():
            clear(self.project)
        subprocess.run(["cp", "-a", self.base / "fixture", self.project], check=True)
        self.project.joinpath("linked1").write_text("linked\n")
        self.project.joinpath("linked2").hardlink_to(self.project / "linked1")
        for above, folders, files in os.walk(self.project):  # what was made just now would count as changed meanwhile
            for name in (*folders, *files):
                os.utime(f"{above}/{name}", (1_600_000_000, 1_600_000_000), follow_symlinks=False)


def clear(folder: Path) -> None:
    """Remove a folder, whatever rights were taken away in it."""
    for above, folders, _ in os.walk(folder):
        for each in folders:
            if not os.path.islink(f"{above}/{each}"):
                os.chmod(f"{above}/{each}", 0o700)
    shutil.rmtree(folder)


def state(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, tuple[object, ...]]:
    """What a folder consists of: type, mode and content of each path, but what stands beside it of the time."""
    found: dict[str, tuple[object, ...]] = {}
    for above, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = f"{above}/{name}"
            relative = os.path.relpath(path, folder)
            if relative in without:
                continue
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                content: object = os.readlink(path)
            elif stat.S_ISREG(about.st_mode):
                content = _content(path, about.st_mode)
            else:
                content = None
            found[relative] = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode), content
        for name in folders:
            if not os.access(f"{above}/{name}", os.R_OK | os.X_OK) and not os.path.islink(f"{above}/{name}"):
                os.chmod(f"{above}/{name}", 0o700)  # noted above
    return found


def _content(path: str, mode: int) -> str:
    readable = os.access(path, os.R_OK)
    if not readable:
        os.chmod(path, 0o600)
    data = Path(path).read_bytes()
    if not readable:
        os.chmod(path, stat.S_IMODE(mode))
    return hashlib.sha256(data).hexdigest()


@pytest.fixture(scope="session")
def fixture_of_a_project() -> Iterator[Path]:
    """The project as it is at first, under version control."""
    with tempfile.TemporaryDirectory(dir=os.path.realpath("/var/tmp"), prefix="hla-fixture-") as name:
        project = Path(name) / "fixture"
        for each in ("src/deep", "build/obj", "empty"):
            (project / each).mkdir(parents=True)
        texts = {
            "README.md": "# alpha\nread me\n",
            "run.sh": "#!/bin/sh\necho run\n",
            "src/a.txt": "gamma\nalpha\nbeta\n",
            "src/b.txt": "b\n",
            "src/c.txt": "alpha\n",
            "src/deep/d.txt": "deep\n",
            "src/names": "n1\nn2\n",
            "Makefile.held": "all: made\nmade: README.md\n\tcp README.md made\n",
            ".gitignore": "build\n",
        }
        for path, text in texts.items():
            (project / path).write_text(text)
        (project / "run.sh").chmod(0o755)
        for n in range(40):
            (project / f"build/obj/f{n}").write_text(f"{n}\n")
        (project / "link").symlink_to("src/a.txt")
        (project / "dangling").symlink_to("nowhere")
        for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "first"], ["tag", "v1"]):
            subprocess.run(["git", *words], cwd=project, check=True, env=ENVIRONMENT)
        yield project


@pytest.fixture
def scene(fixture_of_a_project: Path) -> Iterator[Scene]:
    """A new project, as it is at first."""
    enclosures.backend()
    base = Path(tempfile.mkdtemp(dir=os.path.realpath("/var/tmp"), prefix="hla-held-"))
    (base / "fixture").symlink_to(fixture_of_a_project)
    made = Scene(base)
    os.unlink(base / "fixture")
    subprocess.run(["cp", "-a", fixture_of_a_project, base / "fixture"], check=True)
    made.make()
    yield made
    clear(base)
