"""What a command leaves at a protected place is moved aside before a human comes by."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.confine import survey
from humanlayer_agent.confine.confinement import Confinement, Profile, Unenforceable
from humanlayer_agent.confine.journal import MovedAside, journal
from tests.support import children

EVIL = '[core]\n\tfsmonitor = "touch {ran};"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q")
    git(project, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first")
    return project


@pytest.fixture
def confinement(project: Path) -> Confinement:
    protect = (
        f"{project}/**/.git/hooks/**",
        f"{project}/**/.envrc",
        f"{project}/**/.vscode/**",
        f"{project}/Makefile.local",
    )
    return Confinement((Profile("project", write=(f"{project}/**", "/tmp/**"), protect=protect),))


def git(where: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(where)}
    return subprocess.run(["git", *words], cwd=where, env=env, capture_output=True, text=True)


def settled(confinement: Confinement, aside: Path, act: Callable[[], object], **options: object) -> list[MovedAside]:
    with journal(confinement, aside, **options) as moved:  # type: ignore[arg-type]
        act()
    assert not list(aside.glob("*.journal*"))
    return moved


def test_ordinary_work_is_left_alone(project: Path, confinement: Confinement, tmp_path: Path) -> None:
    def work() -> None:
        (project / "src").mkdir()
        (project / "src/a.py").write_text("x")
        (project / ".git/info/exclude").write_text("*.o\n")
        git(project, "add", "src")
        git(project, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "second")
        git(project, "branch", "other")

    assert settled(confinement, tmp_path / "aside", work) == []
    assert git(project, "log", "--oneline").stdout.count("\n") == 2


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", ["git rm -qf lib", "git submodule -q deinit -f lib", "rm -rf lib/a"])
def test_a_submodule_is_removed_with_its_work_tree(
    command: str, project: Path, confinement: Confinement, tmp_path: Path
) -> None:
    (other := tmp_path / "other").mkdir()
    git(other, "init", "-q")
    (other / "a").write_text("x")
    git(other, "add", "a")
    git(other, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "first")
    assert (
        git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "lib").stderr == ""
    )

    def act() -> None:
        subprocess.run(command, shell=True, cwd=project, check=True)
        if command.startswith("rm"):
            (project / "lib/.git").unlink()

    moved = settled(confinement, tmp_path / "aside", act)
    changed = [each.path for each in moved if not each.path.startswith(str(project / ".git"))]
    assert changed == []
    assert not (project / "lib/.git").exists()


def test_a_submodule_without_its_own_git_folder_gets_it_back(
    project: Path, confinement: Confinement, tmp_path: Path
) -> None:
    """Else what stands there would be taken for a part of the repository around it."""
    (project / "lib").mkdir()
    (project / "lib/a").write_text("x")
    (project / "lib/.git").write_text("gitdir: ../.git/modules/lib\n")
    (moved,) = settled(confinement, tmp_path / "aside", (project / "lib/.git").unlink)
    assert moved == MovedAside(str(project / "lib/.git"), "", restored=True)


@pytest.mark.sample(11)
@pytest.mark.parametrize(
    "path",
    [".envrc", "a/b/.envrc", ".vscode/tasks.json", "Makefile.local", ".git/hooks/post-commit", ".git/config.worktree",
     ".git/commondir", ".git/info/attributes", ".git/objects/info/alternates", "sub/.git/config", "sub/.git", ".git/modules/x/config"],
)  # fmt: skip
@pytest.mark.parametrize("how", ["file", "link", "deprived"])
def test_what_appears_is_moved_aside(
    path: str, how: str, project: Path, confinement: Confinement, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("not touched")
    place = project / path

    def plant() -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        if "modules" in path:
            for name in ("HEAD", "objects", "refs"):
                (place.parent / name).mkdir()
        place.symlink_to(outside) if how == "link" else place.write_text("planted")
        if how == "deprived":
            place.parent.chmod(0o555)

    moved = settled(confinement, tmp_path / "aside", plant)
    assert not os.path.lexists(place)
    assert len(moved) == 1
    kept = Path(moved[0].kept, place.relative_to(moved[0].path))
    assert kept.is_symlink() if how == "link" else kept.read_text() == "planted"
    assert outside.read_text() == "not touched"
    assert settled(confinement, tmp_path / "aside", lambda: None) == []


@pytest.mark.parametrize("path", ["config", "hooks/post-commit", "info/attributes"])
@pytest.mark.parametrize("how", ["written", "removed", "replaced by a link", "in a linked folder"])
def test_what_was_there_is_there_again(
    path: str, how: str, project: Path, confinement: Confinement, tmp_path: Path
) -> None:
    place = project / ".git" / path
    place.parent.mkdir(exist_ok=True)
    if path != "config":
        place.write_text("before")
    before = place.read_text()
    outside = tmp_path / "outside"
    outside.mkdir()

    def change() -> None:
        if how == "written":
            place.write_text("changed")
        elif how == "in a linked folder":
            place.parent.rename(project / "elsewhere")
            place.parent.symlink_to(outside)
            (outside / place.name).write_text("changed")
        else:
            place.unlink()
            if how == "replaced by a link":
                place.symlink_to(outside)

    moved = settled(confinement, tmp_path / "aside", change)
    if how == "in a linked folder":
        assert moved  # nothing is written through the link
        assert all((outside / name).read_text() == "changed" for name in os.listdir(outside))
        assert len(os.listdir(outside)) == 1
        return
    assert [each.restored for each in moved] == [True]
    assert (place.read_text(), place.is_symlink()) == (before, False)


def test_what_a_human_does_next_runs_nothing(project: Path, confinement: Confinement, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (project / "other").mkdir()
    git(project / "other", "init", "-q")
    worktree = EVIL.format(ran=ran)

    def plant() -> None:
        (project / "evil").mkdir(exist_ok=True)
        git(project / "evil", "init", "-q")
        (project / "evil/.git/config").write_text("[core]\nrepositoryformatversion = 0\n" + worktree)
        (project / "bare").mkdir(exist_ok=True)
        git(project / "bare", "init", "-q", "--bare")
        (project / "bare/config").write_text("[core]\nbare = false\nworktree = .\n" + worktree)
        (project / ".git/commondir").write_text("../evil/.git\n")
        (project / "other/.git/config").write_text("[core]\nrepositoryformatversion = 0\n" + worktree)
        for hook in ("post-commit", "pre-commit", "post-index-change"):
            (project / ".git/hooks" / hook).write_text(f"#!/bin/sh\ntouch {ran}\n")
            (project / ".git/hooks" / hook).chmod(0o755)

    def visit() -> None:
        for where in (project, project / "evil", project / "bare", project / "other"):
            git(where, "status")
        git(project, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "x")

    settled(confinement, tmp_path / "aside", plant)
    visit()
    assert not ran.exists()
    plant()  # the control: without it, something is run
    visit()
    assert ran.exists()


def test_a_bare_repository_that_runs_nothing_stays(checked_in: Path, confinement: Confinement, tmp_path: Path) -> None:
    def make() -> None:
        git(checked_in, "init", "-q", "--bare", "new.git")
        git(checked_in, "clone", "-q", "--bare", ".", "copy.git")
        git(checked_in, "clone", "-q", "--mirror", ".", "mirror.git")

    assert settled(confinement, tmp_path / "aside", make) == []
    assert git(checked_in / "copy.git", "log", "-1", "--format=%s").stdout == "second\n"
    assert git(checked_in / "mirror.git", "config", "remote.origin.url").stdout == f"{checked_in}/.\n"


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("config", "[core]\n\tfsmonitor = true\n"),
        ("config", "[core]\n\tbare = false\n\tworktree = ..\n"),
        ("config", "[core] hooksPath = x\n"),
        ("config", "[include]\n\tpath = x\n"),
        ("config", "[core]\n\tbare = true \\\n"),
        ("config", '[remote "x"]\n\turl = ext::touch x\n'),
        ("config", '[remote "x"]\n\turl = https://example.org/x\n'),
        ("config", '[remote "x"]\n\tuploadpack = /srv/x\n'),
        ("config", '[remote "x"]\n\tvcs = x\n'),
        ("hooks/post-commit", "#!/bin/sh\n"),
        ("commondir", "../../..\n"),
        ("objects/info/alternates", "/srv/x\n"),
        ("info/attributes", "* filter=x\n"),
    ],
)
def test_what_a_new_bare_repository_says_besides_does_not(
    project: Path, confinement: Confinement, tmp_path: Path, file: str, says: str
) -> None:
    def make() -> None:
        git(project, "init", "-q", "--bare", "new.git")
        (project / "new.git" / file).write_text(says)

    moved = settled(confinement, tmp_path / "aside", make)
    assert [each.path for each in moved] == [str(project / "new.git" / file)]
    assert not (project / "new.git" / file).exists()


def test_what_was_expected_stays(project: Path, confinement: Confinement, tmp_path: Path) -> None:
    clone = str(project / "clone/.git")
    moved = settled(
        confinement,
        tmp_path / "aside",
        lambda: git(project, "init", "-q", "clone"),
        expected=lambda path: path.startswith(clone),
    )
    assert moved == []
    assert (project / "clone/.git/config").exists()


@pytest.mark.parametrize("more", [{}, {"network": "forwarded", "hosts": ("localhost:3000",)}])
def test_a_supervisor_that_was_killed(
    project: Path, confinement: Confinement, tmp_path: Path, more: dict[str, Any]
) -> None:
    confinement = Confinement((replace(confinement.profiles[0], **more),))
    source = f"""
import os, pathlib
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.confine.journal import journal
with journal({confinement!r}, {str(tmp_path / "aside")!r}):
    pathlib.Path({str(project / ".envrc")!r}).write_text("planted")
    os.kill(os.getpid(), 9)
"""
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    assert children.Popen([sys.executable, "-c", source], cwd="/", env=env).wait() == -9
    assert (project / ".envrc").exists()
    moved = settled(confinement, tmp_path / "aside", lambda: None)
    assert [each.path for each in moved] == [str(project / ".envrc")]
    assert not (project / ".envrc").exists()


@pytest.fixture
def checked_in(project: Path) -> Path:
    """The project, in whose last commit are protected files."""
    for name, text in ((".vscode/tasks.json", "tasks"), (".vscode/settings.json", "settings"), ("sub/.envrc", "x")):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    (project / ".vscode/link").symlink_to("tasks.json")
    git(project, "add", "-A")
    git(project, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "second")
    return project


def test_a_further_worktree_stays(checked_in: Path, confinement: Confinement, tmp_path: Path) -> None:
    moved = settled(confinement, tmp_path / "aside", lambda: git(checked_in, "worktree", "add", "-q", "wt"))
    assert moved == []
    assert (checked_in / ".git/worktrees/wt/commondir").exists()
    assert git(checked_in / "wt", "status", "--short").stdout == ""
    assert git(checked_in / "wt", "log", "-1", "--format=%s").stdout == "second\n"


def test_a_further_worktree_goes(checked_in: Path, confinement: Confinement, tmp_path: Path) -> None:
    git(checked_in, "worktree", "add", "-q", "wt")
    assert settled(confinement, tmp_path / "aside", lambda: git(checked_in, "worktree", "remove", "wt")) == []
    assert not (checked_in / ".git/worktrees").exists()


@pytest.mark.parametrize("file", ["commondir", "gitdir"])
def test_what_a_repository_keeps_of_a_worktree_that_is_there_is_put_back(
    checked_in: Path, confinement: Confinement, tmp_path: Path, file: str
) -> None:
    """Without them git takes the folder for a repository of its own, whose settings would count."""
    git(checked_in, "worktree", "add", "-q", "wt")
    kept = checked_in / ".git/worktrees/wt" / file
    said = kept.read_text()
    moved = settled(confinement, tmp_path / "aside", kept.unlink)
    assert (str(kept), True) in [(each.path, each.restored) for each in moved]
    assert kept.read_text() == said


def test_a_worktree_whose_folder_has_become_another_thing_is_told(
    checked_in: Path, confinement: Confinement, tmp_path: Path
) -> None:
    git(checked_in, "worktree", "add", "-q", "wt")
    kept = checked_in / ".git/worktrees/wt"

    def replace() -> None:
        kept.rename(tmp_path / "gone")
        kept.symlink_to(tmp_path)

    moved = settled(confinement, tmp_path / "aside", replace)
    assert {str(kept / "commondir"), str(kept / "gitdir")} <= {each.path for each in moved}


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("planted", "says"),
    [
        ("wt/.vscode/tasks.json", "evil"),
        ("wt/.vscode/more.json", "evil"),
        ("wt/.envrc", "evil"),
        ("wt/sub/.envrc", "evil"),
        ("wt/sub/.vscode/tasks.json", "tasks"),
        (".git/hooks/pre-commit", "evil"),
        (".envrc", "evil"),
    ],
)
def test_what_is_planted_beside_it_is_moved_aside(
    checked_in: Path, confinement: Confinement, tmp_path: Path, planted: str, says: str
) -> None:
    def plant() -> None:
        git(checked_in, "worktree", "add", "-q", "wt")
        (checked_in / planted).parent.mkdir(exist_ok=True)
        (checked_in / planted).write_text(says)

    moved = settled(confinement, tmp_path / "aside", plant)
    assert len(moved) == 1
    assert str(checked_in / planted).startswith(moved[0].path)
    assert not (checked_in / planted).exists()
    assert git(checked_in / "wt", "log", "-1", "--format=%s").stdout == "second\n"


def test_a_repository_that_was_not_there_names_nothing(project: Path, confinement: Confinement, tmp_path: Path) -> None:
    """It has no HEAD, so nobody looks at its settings; but what says that it is a worktree of it would follow them."""
    ran = tmp_path / "ran"
    own = project / "evil/worktrees/wt"

    def plant() -> None:
        for folder in ("objects", "refs", "worktrees/wt"):
            (project / "evil" / folder).mkdir(parents=True)
        (project / "evil/config").write_text("[core]\nrepositoryformatversion = 0\n" + EVIL.format(ran=ran))
        (own / "HEAD").write_text("ref: refs/heads/main\n")
        (own / "commondir").write_text("../..\n")
        (own / "gitdir").write_text(f"{project}/src/.git\n")
        (project / "src").mkdir()
        (project / "src/.git").write_text(f"gitdir: {own}\n")

    moved = settled(confinement, tmp_path / "aside", plant)
    assert {str(own / "commondir"), str(project / "src/.git")} <= {each.path for each in moved}
    git(project / "src", "status")
    git(own, "status")
    assert not ran.exists()


@pytest.mark.parametrize(
    ("file", "says"), [("commondir", "../../../elsewhere"), ("gitdir", "/elsewhere/.git"), ("config.worktree", EVIL)]
)
def test_and_one_that_leads_elsewhere_does_not(
    project: Path, confinement: Confinement, tmp_path: Path, file: str, says: str
) -> None:
    planted = project / ".git/worktrees/wt" / file

    def plant() -> None:
        git(project, "worktree", "add", "-q", "wt")
        planted.write_text(says)

    moved = settled(confinement, tmp_path / "aside", plant, expected=str(project / "wt/.git").__eq__)
    assert str(planted) in [each.path for each in moved]


def test_a_journal_of_a_command_that_runs_is_left_alone(
    project: Path, confinement: Confinement, tmp_path: Path
) -> None:
    with journal(confinement, tmp_path / "aside") as outer:
        (project / ".envrc").write_text("planted")
        with journal(confinement, tmp_path / "aside") as inner:
            pass
        assert inner == []
    assert [each.path for each in outer] == [str(project / ".envrc")]


def test_too_many_files_to_look_through(
    project: Path, confinement: Confinement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey.survey, "__kwdefaults__", {"limit": 60})
    with journal(confinement, tmp_path / "aside") as moved:
        pass
    assert moved == []

    def flood() -> None:
        (project / ".envrc").write_text("planted")
        for n in range(60):
            (project / f"f{n}").touch()

    with journal(confinement, tmp_path / "aside") as moved:
        flood()
    assert moved == [MovedAside(str(project), "")]
    with pytest.raises(Unenforceable, match="too many files"):  # it stays so until a human has looked
        settled(confinement, tmp_path / "aside", lambda: None)
    monkeypatch.setattr(survey.survey, "__kwdefaults__", {"limit": 200})
    assert [each.path for each in settled(confinement, tmp_path / "aside", lambda: None)] == [str(project / ".envrc")]


def test_a_journal_that_the_command_could_write(project: Path, confinement: Confinement) -> None:
    with pytest.raises(Unenforceable, match="lets a command write"), journal(confinement, project / "aside"):
        pass
