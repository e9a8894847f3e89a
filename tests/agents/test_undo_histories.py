"""Histories of commands in a repository, run by a Gate whose policy says `undo: run`, and undone in any order: all is
again as it was, to the byte, or it is refused with a reason that holds.
"""

import os
import random
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from humanlayer_agent import Gate
from humanlayer_agent.locations import kept_folder
from humanlayer_agent.shell import index_meaning
from humanlayer_agent.undo import restoration
from humanlayer_agent.undo.kept_files import KeptFiles
from tests.support.extent import seeds

POLICY = """\
version: 1
policy: undone
defaults: {undo: run, unmatched: allow}
rules:
  - {id: never, decision: deny, reason: Never., when: {program: never}}
"""
GIT = "[user]\nname = n\nemail = n@e\n[init]\ndefaultBranch = main\n"
BEGIN = """
git init -q; mkdir -p e/f; echo 1 > a; echo 2 > b; echo 3 > e/x; echo 4 > e/f/z; echo '*.o' > .gitignore
echo 'echo s >> a; rm -f b; mkdir -p made/here' > script
git add -A; git commit -qm 1; git checkout -qb side; echo 5 > side; rm b; git add -A; git commit -qm 2
git checkout -q main; echo 6 > loose; echo 7 >> a
"""
State = dict[str, tuple[int, bytes]]
"""By path: mode and content. Of an index, what it says; objects, which stay, are left out."""

NAMES = ("a", "b", "c d", "d", "e/x", "e/y", "e/f/z", ".hidden", "-n", "ü")
FOLDERS = ("e", "e/f", "g", "g/h")


def command(chance: random.Random) -> str:
    """One line of bash, which may well fail."""
    one, other = (f"'./{chance.choice(NAMES)}'" for _ in range(2))
    folder, there = (f"'./{chance.choice(FOLDERS)}'" for _ in range(2))
    number = chance.randrange(100)
    return chance.choice(
        [
            *(f"echo {number} > {one}", f"echo {number} >> {one}", f"printf '%s' {number} > {one}"),
            *(f"sed -i 's/[0-9]/{number}/' {one}", f"mv {one} {other}", f"mv {one} {folder}", f"mv {folder} {there}"),
            *(f"rm {one}", f"rm -rf {folder}", f"rm -r {folder} {one}", f"rmdir {folder}", "rm -f ./e/*"),
            *(f"chmod {chance.choice(['755', '600', 'a-w', '+x'])} {one}", f"chmod 700 {folder}", f"touch {one}"),
            *(f"ln -s {chance.choice(['b', '../b', 'e', '/etc/passwd', 'none'])} {one}", f"ln -sfn e {one}"),
            *(f"mkdir -p {folder}", f"mkdir -p ./k/l/m; echo {number} > ./k/l/m/n", f"cp -r {folder} {there}"),
            *(
                f"cp {one} {other}",
                f"truncate -s {number} {one}",
                f"cat {one} | tee {other}",
                f"cd e && echo {number} > q",
            ),
            *("git add -A", f"git add {one}", f"git add -A; git commit -qm {number}", f"git commit -qam {number}"),
            *(f"git checkout -qb n{number}", "git checkout -q main", "git checkout -q -", "git checkout -q side"),
            *("git stash -q", "git stash pop -q", f"git branch b{number}", "git branch -D side", f"git tag t{number}"),
            *("git reset -q", "git reset -q --hard", f"git mv {one} {other}", f"git rm -qf {one}", "git checkout -q ."),
            *("git status -s", "git merge -q side", f"git init -q ./g/r; echo {number} > ./g/r/f", "rm -rf ./g/r"),
            *(f'python3 -c \'open("p", "a").write("{number}")\'', "bash ./script", f"git config user.name n{number}"),
            *(f"ln {one} {other}", f"mkfifo {one}", "cp -r .git ./g/copy", "git gc -q --prune=now"),
        ]
    )


def state(project: Path) -> State:
    found: State = {}
    for top, folders, files in os.walk(project):
        below = os.path.relpath(top, project) + "/" if top != str(project) else ""
        if not below.startswith("g/") and f"/{below}".endswith("/.git/"):
            folders[:] = [name for name in folders if name != "objects"]
        for name in (*folders, *files):
            path = f"{top}/{name}"
            about = os.lstat(path)
            content = b""
            if stat.S_ISLNK(about.st_mode):
                content = os.fsencode(os.readlink(path))
            elif stat.S_ISREG(about.st_mode):
                content = Path(path).read_bytes()
                if name == "index" and (told := index_meaning(content)):
                    content = told.encode()
            found[below + name] = (about.st_mode, content)
    return found


def differing(before: State, after: State) -> set[str]:
    return {path for path in {*before, *after} if before.get(path) != after.get(path)}


def is_tree(found: State) -> bool:
    """Whether each path lies in a folder."""
    above = ((os.path.dirname(path), found) for path in found)
    return all(not folder or stat.S_ISDIR(found.get(folder, (0, b""))[0]) for folder, found in above)


class History:
    """A project, what was run in it, and the state before and after each permit."""

    def __init__(self, tmp_path: Path, begun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = tmp_path / "project"
        shutil.copytree(begun, self.project)
        (tmp_path / "policy.yaml").write_text(POLICY)
        home = tmp_path / "home"
        home.mkdir()
        (home / ".gitconfig").write_text(GIT)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.chdir(self.project)
        self.kept = KeptFiles(kept_folder())
        self.gate = Gate.from_config(policy=str(tmp_path / "policy.yaml"), project=self.project, confine=False)
        self.states: dict[str, tuple[State, State]] = {}

    def run(self, line: str) -> str:
        """Run a line, and return the permit that something was kept for; "" where nothing was."""
        before, known = state(self.project), {each.permit for each in self.kept.all()}
        self.gate.run(line)
        new = [each.permit for each in self.kept.all() if each.permit not in known]
        for permit in new:
            self.states[permit] = before, state(self.project)
        if not new:
            assert differing(before, state(self.project)) == set(), line
        return new[0] if new else ""

    def plan(self, permit: str) -> restoration.Plan:
        found = restoration.manifests_of(self.kept, str(self.project))
        (own,) = (each for each in found if each.permit == permit)
        return restoration.plan_of(self.kept, [own], [each for each in found if each is not own])

    def undo(self, permit: str) -> restoration.Plan:
        """Undo a permit where that is possible: then all that it changed is as before, and all else as it was."""
        now, plan = state(self.project), self.plan(permit)
        before, after = self.states[permit]
        changed = differing(before, after)
        wanted = {path: file for path, file in now.items() if path not in changed}
        wanted |= {path: before[path] for path in changed if path in before}
        if plan.refused:
            assert all(plan.refused.values())
            untouched = all(now.get(path) in (after.get(path), before.get(path)) for path in changed)
            if untouched and is_tree(wanted):
                assert any(known in why for why in plan.refused.values() for known in REASONS), plan.refused
            return plan
        made = restoration.keep_before(self.kept, self.gate.run_id, plan)
        done = restoration.undo(self.kept, plan, made)
        assert (done.failed, done.left) == ({}, ())
        assert differing(state(self.project), wanted) == set()
        return plan

    def is_sound(self) -> bool:
        said = subprocess.run(["git", "fsck", "--no-dangling"], check=False, capture_output=True)
        return said.returncode == 0


REASONS = (
    "git may run code by it", "objects are not kept", "git no longer has", "further names", "neither a file nor",
)  # fmt: skip
"""What may speak against an undo although nothing has changed what it would change."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as each history finds it."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / ".gitconfig").write_text(GIT)
    (folder / "project").mkdir()
    subprocess.run(["bash", "-c", BEGIN], check=True, cwd=folder / "project", env={**os.environ, "HOME": str(folder)})
    return folder / "project"


@pytest.fixture
def history(tmp_path: Path, begun: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[History]:
    made = History(tmp_path, begun, monkeypatch)
    yield made
    made.gate.close()


@pytest.mark.parametrize("seed", seeds(150, here=3, soak=3_000))
def test_in_order(history: History, seed: int) -> None:
    chance = random.Random(seed)
    permits = [permit for _ in range(8) if (permit := history.run(command(chance)))]
    refused: dict[str, str] = {}
    for permit in reversed(permits):
        refused |= history.undo(permit).refused
        if refused:
            break
    else:
        assert permits == [] or differing(state(history.project), history.states[permits[0]][0]) == set()
    assert history.is_sound()


@pytest.mark.parametrize("seed", seeds(150, here=3, soak=3_000))
def test_out_of_order(history: History, seed: int) -> None:
    chance = random.Random(10_000 + seed)
    permits = [permit for _ in range(8) if (permit := history.run(command(chance)))]
    chance.shuffle(permits)
    for permit in permits:
        history.undo(permit)
    assert history.is_sound()
