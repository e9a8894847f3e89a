"""What is kept of runs between processes: what an action brought in is the project's own in no run."""

import hashlib
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.policy.run_record import RunRecord, known_baseline
from humanlayer_agent.shell import Baseline, analyse
from humanlayer_agent.shell.program import code_name

PATHS = ("conftest.py", "notes", "src/a.py")
TEXTS = ("one\n", "two\n", "three\n")


def written(files: dict[str, str]) -> bytes:
    """The bytes of git's index with these files."""
    out = b"DIRC" + struct.pack(">II", 2, len(files))
    for path, text in sorted(files.items()):
        data, name = text.encode(), path.encode()
        blob = hashlib.sha1(b"blob %d\0" % len(data) + data).digest()
        entry = struct.pack(">10I20sH", 0, 0, 0, 0, 0, 0, 0o100644, 0, 0, len(data), blob, len(name)) + name
        out += entry + bytes(8 - len(entry) % 8)
    return out + hashlib.sha1(out).digest()


class World:
    """A project whose index is changed by its human, and by actions of runs."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "work"
        (self.project / ".git").mkdir(parents=True)
        self.files: dict[str, str] = {}
        self.put(dict.fromkeys(PATHS[:2], TEXTS[0]))

    def put(self, files: dict[str, str]) -> None:
        self.files = {**self.files, **files}
        (self.project / ".git/index").write_bytes(written(self.files))

    def judged(self, run: str, command: str) -> RunRecord:
        """`command` is judged, in a process of its own."""
        record = RunRecord(self.project, run)
        assert record.look()
        record.note(analyse(command, cwd=str(self.project)), judged=True)
        return record

    def own(self, baseline: Baseline) -> set[tuple[str, str]]:
        """What a baseline takes for the project's own."""
        return {
            (path, text)
            for path in PATHS
            for text in TEXTS
            if baseline.has(str(self.project / path), text.encode())
        }  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return World(tmp_path)


def test_a_run_keeps_what_was_there_when_it_began(world: World) -> None:
    first = world.judged("a", "git add .")
    world.put({"notes": TEXTS[1], "src/a.py": TEXTS[2]})
    for record in (first, world.judged("a", "ls")):
        assert world.own(record.baseline) == {("conftest.py", TEXTS[0]), ("notes", TEXTS[0])}


def test_a_humans_content_at_another_place_is_not_his(world: World) -> None:
    world.put({"notes": TEXTS[1]})
    world.judged("a", "git mv -f notes conftest.py")
    world.put({"conftest.py": TEXTS[1]})
    world.judged("a", "ls")
    assert world.own(RunRecord(world.project, "b").baseline) == {("notes", TEXTS[1])}


def test_whoever_is_in_no_run_trusts_nothing_that_runs_brought_in(world: World) -> None:
    assert ("notes", TEXTS[0]) in world.own(known_baseline(world.project))
    world.judged("a", "git commit -qam x")
    world.put({"notes": TEXTS[1]})  # nothing has looked since
    assert world.own(known_baseline(world.project)) == {("conftest.py", TEXTS[0])}


def test_what_is_left_behind_may_still_act_later(world: World) -> None:
    world.judged("a", "(sleep 9; git add notes) &")
    world.judged("a", "ls")
    world.put({"notes": TEXTS[1]})
    assert ("notes", TEXTS[1]) not in world.own(RunRecord(world.project, "b").baseline)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"since_ns": 1, "brought": 1, "runs": {}}', '{"runs": {"a": 1}}'])
def test_nothing_is_own_where_the_record_is_broken(world: World, content: str) -> None:
    world.judged("a", "ls")
    (kept,) = Path(os.environ["XDG_STATE_HOME"]).rglob("project.json")
    kept.write_text(content)
    record = RunRecord(world.project, "a")
    assert not record.look()
    assert world.own(record.baseline) == world.own(known_baseline(world.project)) == set()
    assert record.baseline.since_ns == 0


def test_nothing_is_own_where_it_can_not_be_kept(world: World) -> None:
    record = world.judged("a", "ls")
    (kept,) = Path(os.environ["XDG_STATE_HOME"]).rglob("project.json")
    kept.unlink()
    assert not record.look()
    folder = kept.parent.parent
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()
    folder.write_text("in the way")
    assert not RunRecord(world.project, "c").look()


def test_the_texts_of_a_run_are_known_to_it_alone(world: World) -> None:
    program = analyse("echo 'x = 1' > a.py", cwd=str(world.project))
    record = RunRecord(world.project, "a")
    record.look()
    record.note(program, judged=False)
    assert not RunRecord(world.project, "a").judged
    record.note(program, judged=True)
    name = code_name(str(world.project / "a.py"), "x = 1\n", "python", (str(world.project),))
    assert name in RunRecord(world.project, "a").baseline.judged
    assert not RunRecord(world.project, "b").judged


def test_old_runs_are_forgotten_and_what_they_brought_in_is_not(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    world.judged("a", "git commit -qam x")
    world.put({"notes": TEXTS[1]})
    monkeypatch.setattr("humanlayer_agent.policy.run_record.KEPT_S", -1)
    record = world.judged("b", "ls")
    assert ("notes", TEXTS[1]) not in world.own(record.baseline)
    (kept,) = Path(os.environ["XDG_STATE_HOME"]).rglob("project.json")
    assert len([each for each in kept.parent.iterdir() if len(each.name) == 64]) == 1


CHANGE = st.tuples(st.sampled_from(PATHS), st.sampled_from(TEXTS))
STEP = st.one_of(
    st.tuples(st.just("human"), st.just(""), CHANGE),
    st.tuples(st.just("agent"), st.sampled_from("ab"), CHANGE),
    st.tuples(st.just("looks"), st.sampled_from("abc"), CHANGE),
)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(STEP, max_size=12))
def test_what_actions_bring_in_is_never_trusted(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, tuple[str, str]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("world")
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        world = World(folder)
        human = set(world.files.items())
        for who, run, (path, text) in steps:
            if who == "human":
                human.add((path, text))
                world.put({path: text})
            elif who == "agent":
                world.judged(run, "git add .")
                world.put({path: text})
            else:
                world.judged(run, "ls")
            found = [known_baseline(world.project), *(RunRecord(world.project, name).baseline for name in "abd")]
            for baseline in found:
                assert world.own(baseline) <= human
