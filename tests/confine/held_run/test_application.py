"""A layer is applied whole or not at all: where it is killed, where something else is quicker, and where it can't be."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from humanlayer_agent.confine.held_run.application import RECORD, NotApplied, apply, recover
from humanlayer_agent.confine.held_run.layer import Layer
from tests.confine.held_run.conftest import Scene, Tried, state
from tests.support.extent import some

MANY = """
    echo more >> README.md; rm -rf build; mkdir -p build/obj; echo n > build/obj/n; mv src/a.txt src/z.txt
    rm link; mkdir link; touch link/x; ln -s x sym; chmod 700 empty; chmod 600 src/b.txt; rm dangling; mkdir -p p/q/r
    echo x > p/q/r/s; chmod 555 p/q; echo x > .gitignore; git add -A; git commit -qm second
"""


def kill_at(number: int) -> Callable[[str], None]:
    left = [number]

    def at(where: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return at


def killed(tried: Tried, number: int) -> bool:
    """Apply in a process that kills itself at so many steps; tells whether it came to that."""
    child = os.fork()
    if child == 0:
        try:
            apply(tried.layer, tried.upper, tried.folder, at=kill_at(number))
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.timeout(1200)
def test_killed_at_any_step_it_is_whole_or_not_at_all(scene: Scene) -> None:
    """Each step is tried, and making good for it is killed as well, and made good for."""
    before = state(scene.project)
    tried = scene.hold(MANY)
    assert tried.layer.refused == ()
    places: list[str] = []
    apply(tried.layer, tried.upper, tried.folder, at=places.append)
    after = state(scene.project)
    assert after != before
    rounds, ends = some(200, 8), set()
    for each in range(rounds):
        number = each % (len(places) + 1) if rounds > len(places) else each * len(places) // (rounds - 1)
        scene.make()
        tried = scene.hold(MANY)
        assert killed(tried, number) is (number < len(places))
        if (child := os.fork()) == 0:
            try:
                recover(tried.folder, at=kill_at(number % 7))
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        recover(tried.folder)
        found = state(scene.project)
        same = {path: each for path, each in found.items() if not path.startswith(".git/")}
        whole = same == {path: each for path, each in after.items() if not path.startswith(".git/")}
        assert whole or found == before, number
        if whole:
            assert scene.run("git status --short; git fsck").output == ""
        ends.add(whole)
        assert not (tried.folder / RECORD).exists()
    assert ends == {True, False}


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "meanwhile",
    [
        "echo x >> README.md",
        "touch -d 2001-01-01 README.md",
        "chmod 777 README.md",
        "rm README.md",
        "rm README.md; mkdir README.md",
        "cp -p README.md x; mv x README.md",
        "mv README.md x; ln -s x README.md",
        "echo x > build/new",
        "rm build/obj/f1",
        "mkdir p",
        "rm -r src",
        "mv src real; ln -s real src",
        "touch .git/index.lock",
        "git add -A; git commit -qm other",
    ],
)
def test_where_what_lies_below_has_changed_nothing_is_applied(scene: Scene, meanwhile: str) -> None:
    tried = scene.hold("echo more >> README.md; rm -rf build; mkdir -p p; mv src/a.txt src/z; git commit -qam second")
    assert tried.layer.refused == ()
    scene.run(meanwhile)
    now = state(scene.project)
    with pytest.raises(NotApplied):
        apply(tried.layer, tried.upper, tried.folder)
    assert state(scene.project) == now
    assert not (tried.folder / RECORD).exists()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "meanwhile",
    [
        "echo x >> README.md",
        "echo x >> src/b.txt",
        "echo x > build/new",
        "touch p",
        "rm README.md",
        "touch build/obj/f1",
    ],
)
def test_whoever_is_quicker_between_two_steps_has_all_taken_back(scene: Scene, meanwhile: str) -> None:
    """The change is made right before each step in turn, after everything was looked at."""
    command = "echo more >> README.md; rm -rf build; echo p > p; echo b >> src/b.txt"
    for number in range(4):
        scene.make()
        tried = scene.hold(command)
        steps = []

        def at(where: str, steps: list[str] = steps, number: int = number) -> None:
            if where in ("forward", "step"):
                if len(steps) == number:
                    scene.run(meanwhile)
                steps.append(where)

        try:
            apply(tried.layer, tried.upper, tried.folder, at=at)
        except NotApplied:
            found = state(scene.project)
            scene.make()
            scene.run(meanwhile)
            assert found == state(scene.project), "what the other one did stays, and nothing else"
        else:
            assert number > 0, "it was looked at, and changed after that"
        assert not [path for path in os.listdir(scene.project) if path.startswith(".hla-held")]


@pytest.mark.parametrize("number", [6, 7, 9])
def test_what_a_human_changes_before_the_recovery_is_not_lost(scene: Scene, number: int) -> None:
    """It can't go on, since the last file is another one; and what was applied until then was edited."""
    was = {path: content for path, content in state(scene.project).items() if not path.startswith("src")}
    tried = scene.hold("echo n > new; mkdir made; echo more >> README.md; rm run.sh; echo b >> src/b.txt; echo z > zz")
    assert tried.layer.refused == ()
    assert killed(tried, number + 3)
    written = {}
    for path in ("new", "made/own", "README.md", "run.sh", "src/b.txt", "zz"):
        place = scene.project / path
        place.parent.mkdir(exist_ok=True)
        written[path] = (place.read_text() if place.exists() else "") + "by hand\n"
        place.write_text(written[path])
    said = recover(tried.folder)
    assert "were taken back: " in said
    assert {path: (scene.project / path).read_text() for path in written} == written
    kept = {path.read_bytes() for folder in scene.project.glob(".hla-kept-*") for path in folder.iterdir()}
    if "README.md was changed meanwhile, and stays so (what was there before is kept as .hla-kept-" in said:
        assert b"# alpha\nread me\n" in kept
    else:
        assert written["README.md"] == "# alpha\nread me\nby hand\n"
    assert set(was) - set(state(scene.project)) == set()
    assert not list(scene.project.glob(".hla-held-*"))
    assert not (tried.folder / RECORD).exists()
    assert recover(tried.folder) == ""


def test_what_nobody_may_look_into_is_taken_back_too(scene: Scene) -> None:
    """An ordinary user can't look into what the command has made so; root can."""
    before = state(scene.project)
    tried = scene.hold("mkdir -m 300 dark; echo b >> src/b.txt")
    assert tried.layer.refused == ()
    assert killed(tried, 5)
    assert (scene.project / "dark").exists()
    with (scene.project / "src/b.txt").open("a") as file:
        file.write("by hand\n")
    assert "were taken back: src/b.txt has changed since" in recover(tried.folder)
    assert set(state(scene.project)) == set(before)
    assert (scene.project / "src/b.txt").read_text() == "b\nby hand\n"


@pytest.mark.parametrize("change", ["echo evil >> {}", "ln -sf /etc {}", "echo evil > {}; touch -r README.md {}"])
def test_what_lies_beside_must_be_what_was_seen_when_it_goes_on(scene: Scene, change: str) -> None:
    """Until the recovery, whoever may write in the project may change what is going to be put there."""
    before = state(scene.project)
    tried = scene.hold("echo good > zz; touch -r README.md zz; echo more >> README.md")
    assert killed(tried, 4)
    assert recover_would_go_on(tried)
    (staged,) = (path for path in scene.project.glob(".hla-held-*/*") if path.read_text() == "good\n")
    subprocess.run(["bash", "-c", change.replace("{}", str(staged))], cwd=scene.project, check=True)
    assert "were taken back: " in recover(tried.folder)
    assert state(scene.project) == before


def recover_would_go_on(tried: Tried) -> bool:
    return json.loads((tried.folder / RECORD).read_text())["stage"] == "forward"


def test_what_lies_in_the_layer_must_be_what_was_seen(scene: Scene) -> None:
    before = state(scene.project)
    tried = scene.hold("echo good > new; echo good >> README.md")
    (tried.upper / "new").write_text("evil\n")
    with pytest.raises(NotApplied, match="not in the layer as it was seen"):
        apply(tried.layer, tried.upper, tried.folder)
    assert state(scene.project) == before


def test_what_is_refused_is_not_applied(scene: Scene) -> None:
    tried = scene.hold("mkfifo pipe; touch new")
    with pytest.raises(NotApplied, match="special files: pipe"):
        apply(tried.layer, tried.upper, tried.folder)
    assert not (scene.project / "new").exists()


def test_a_file_that_is_open_elsewhere_is_left_alone(scene: Scene) -> None:
    tried = scene.hold("echo more >> README.md")
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        with open(scene.project / "README.md"):
            os.write(write_end, b"x")
            signal.pause()
    try:
        os.read(read_end, 1)
        with pytest.raises(NotApplied, match="open in another program"):
            apply(tried.layer, tried.upper, tried.folder)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    apply(tried.layer, tried.upper, tried.folder)
    assert (scene.project / "README.md").read_text().endswith("more\n")


def test_a_database_in_use_is_left_alone(scene: Scene) -> None:
    scene.run('python3 -c \'import sqlite3; c = sqlite3.connect("x.db"); c.execute("create table t (a)")\'; sleep 0.05')
    tried = scene.hold('python3 -c \'import sqlite3; c = sqlite3.connect("x.db"); c.execute("drop table t")\'')
    (scene.project / "x.db-wal").touch()
    with pytest.raises(NotApplied, match="a database in use"):
        apply(tried.layer, tried.upper, tried.folder)


def test_a_record_says_the_same_layer(scene: Scene) -> None:
    layer = scene.hold("touch \"$(printf 'raw\\377')\"; mv README.md b; rm -r build; mkdir c").layer
    assert Layer.read(layer.as_data()) == layer
    assert Layer.read(layer.as_data()).digest == layer.digest
    other = replace(layer, changes=layer.changes[:-1])
    assert other.digest != layer.digest


def test_nothing_to_recover_is_nothing_to_say(tmp_path: Path) -> None:
    assert recover(tmp_path) == ""


def test_a_run_that_fills_the_disk_is_ended(scene: Scene) -> None:
    tried = scene.hold("for i in $(seq 9); do dd if=/dev/zero of=big$i bs=1M count=300 status=none; done", seconds=60)
    assert tried.result.filled


def test_what_changed_below_meanwhile_is_seen_half_and_not_applied(scene: Scene) -> None:
    tried = scene.hold("echo x >> README.md")
    assert tried.layer.refused == ()
    (scene.project / "README.md").write_text("other\n")
    again = scene.hold("true")
    assert again.layer.changes == ()
