"""The catalog against the truth: its own harmless examples run, and what changes on disk is what they declare.

Only examples of the catalog that carry `truth` (the files to set up) are run, each in a directory of its own, with a
clean environment. Programs that are not installed are skipped, and named.
"""

import fnmatch
import os
import posixpath
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.program import Effect
from humanlayer_agent.shell.programs import catalog
from tests.support.tables import catalog_examples

PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
EXAMPLES = [e for e in catalog_examples() if e.truth is not None]
CREATES = {"write", "append"}
REMOVES = {"delete", "move"}
Snapshot = dict[str, tuple[str, ...]]


def programs(command: str) -> set[str]:
    return {c.program for c in analyse(command, cwd="/", environ={}).commands if c.program}


def test_many_programs_are_held_against_the_truth() -> None:
    """Programs whose examples read or change files, and of those the ones that change some."""
    commands = [c for e in EXAMPLES for c in analyse(e.command, cwd="/", environ={}).commands]
    kinds = CREATES | REMOVES | {"metadata"}
    assert len({c.program for c in commands if any(e.kind in kinds | {"read"} for e in c.effects)}) >= 80
    assert len({c.program for c in commands if any(e.kind in kinds for e in c.effects)}) >= 45


@pytest.mark.sample(21)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.command)
def test_what_changes_is_what_is_declared(example: catalog.Example, tmp_path: Path) -> None:
    assert example.truth is not None
    here = tmp_path / "here"
    here.mkdir()
    for path, text in example.truth.files:
        _make(here / path, text, directory=path.endswith("/"))
    environ = {"PATH": PATH, "HOME": str(tmp_path), "LC_ALL": "C", "TMPDIR": str(tmp_path)}
    for command in filter(None, (example.truth.before, example.command)):
        _need(command)
    if example.truth.before:
        _run(example.truth.before, here, environ)
    before = _snapshot(tmp_path)
    _run(example.command, here, environ)
    after = _snapshot(tmp_path)

    effects = [e for c in analyse(example.command, cwd=str(here), environ=environ).commands for e in c.effects]
    changed = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
    for path in sorted(changed):
        assert any(_accounts_for(e, path, before, after) for e in effects), f"{path} changed, undeclared"
    for effect in effects:
        if effect.kind in CREATES | REMOVES | {"metadata"}:
            assert any(_accounts_for(effect, p, before, after) for p in changed), f"{effect} did not happen"


def _make(path: Path, text: str, *, directory: bool) -> None:
    (path if directory else path.parent).mkdir(parents=True, exist_ok=True)
    if text.startswith("-> "):
        path.symlink_to(text[3:])
    elif not directory:
        path.write_text(text)
        os.utime(path, (1_000_000_000, 1_000_000_000))


def _need(command: str) -> None:
    for program in programs(command):
        if shutil.which(program, path=PATH) is None and program not in ("[",):
            pytest.skip(f"{program} is not installed")


def _run(command: str, here: Path, environ: dict[str, str]) -> None:
    argv = ["bash", "--norc", "--noprofile", "-c", command]
    done = subprocess.run(
        argv, cwd=here, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False
    )
    assert done.returncode in (0, 1), done.stderr.decode(errors="replace")


def _snapshot(top: Path) -> Snapshot:
    """What stands below `top`: kind, mode, content, time of change and number of names; of a directory its mode only."""
    found: Snapshot = {}
    for folder, directories, files in os.walk(top):
        for name in (*directories, *files):
            path = Path(folder, name)
            status = path.lstat()
            if path.is_symlink():
                found[str(path)] = ("link", os.readlink(path))
            elif path.is_dir():
                found[str(path)] = ("directory", oct(status.st_mode))
            elif path.is_file():
                about = (oct(status.st_mode), path.read_bytes().hex(), str(status.st_mtime_ns), str(status.st_nlink))
                found[str(path)] = ("file", *about)
            else:
                found[str(path)] = ("special", oct(status.st_mode))
    return found


def _accounts_for(effect: Effect, path: str, before: Snapshot, after: Snapshot) -> bool:
    """Does `effect` say that what happened to `path` may happen?"""
    if effect.kind in CREATES:
        made = path not in before and after[path][0] == "directory"
        possible = path in after and (_covers(effect, path) or (made and _leads_to(effect, path)))
    elif effect.kind in REMOVES:
        possible = path not in after and _covers(effect, path)
    else:
        possible = effect.kind == "metadata" and path in before and path in after and _covers(effect, path)
    return possible


def _covers(effect: Effect, path: str) -> bool:
    """True for the operand itself and what lies below it (a directory that is copied into, moved or removed)."""
    if effect.pattern is not None:
        return fnmatch.fnmatchcase(path, posixpath.normpath(effect.pattern))
    if effect.operand is None:
        return not effect.resolved  # it said that it may be anything
    operand = posixpath.normpath(effect.operand)
    return path == operand or path.startswith(operand + "/")


def _leads_to(effect: Effect, path: str) -> bool:
    """A directory that was made on the way to the operand (mkdir -p, install -D)."""
    return (effect.operand or "").startswith(path + "/")
