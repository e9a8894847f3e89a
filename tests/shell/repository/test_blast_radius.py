"""What is said to be at stake: counted against what really is on the disk and in the repository."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.shell import HOST, analyse, blast_radius
from humanlayer_agent.shell.repository import blast_radius as module
from humanlayer_agent.shell.repository.settings import settings_in
from tests.shell.repository.conftest import Draw, Git
from tests.shell.repository.test_history import commit

OPEN = "Pushes something: what, and to which branch, can't be told."


def said(top: Path, text: str) -> tuple[str, ...]:
    return blast_radius(analyse(text, cwd=os.fspath(top)), project=os.fspath(top), view=HOST)


def draw(git: Git, top: Path) -> None:
    """Committed, changed and untracked files, a nested repository, a remote with a branch that has gone on."""
    for name in ("docs/a.md", "docs/b.md", "src/x.py"):
        commit(git, top, name, "first")
    git("init", "-q", "--bare", "../remote")
    git("remote", "add", "origin", "../remote")
    git("push", "-q", "-u", "origin", "main")
    commit(git, top, "src/y.py", "second")
    git("push", "-q", "origin", "main:ahead")
    git("fetch", "-q", "origin")
    (top / "docs/b.md").write_text("changed")
    (top / "docs/new\x1b.md").write_text("new")
    (top / "nested").mkdir()
    git("init", "-q", "nested")
    (top / "nested/z").write_text("z")
    (top.parent / "plain").mkdir()
    (top.parent / "plain/a").write_text("a")


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", os.fspath(folder))
    for name in [each for each in os.environ if each.startswith("GIT_") or each == "XDG_CONFIG_HOME"]:
        monkeypatch.delenv(name)
    return folder


@pytest.fixture
def scene(drawn: Callable[[Draw], Path]) -> Path:
    return drawn(draw)


def test_what_goes_is_counted_and_what_is_nowhere_else_is_named(scene: Path) -> None:
    size = sum(file.stat().st_size for file in (scene / "docs").iterdir())
    (one,) = said(scene, "rm -rf docs")
    assert one == (
        f"Deletes 3 files and 1 folder ({size} bytes) at docs; 1 is in a commit; "
        "2 are in no commit: docs/b.md, 'docs/new\x1b.md'."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rm docs/*.md", "Deletes 3 files ("),
        ("rm src/x.py", "at src/x.py; 1 is in a commit."),
        ("rm -rf nested", "With it goes a whole repository, its history included:"),
        ("rm -rf .", "With it goes a whole repository, its history included:"),
        ("rm -rf .git", "With it goes a whole repository, its history included:"),
        ("rm nothing", "Deletes nothing: there is no such file now."),
        ("echo x > docs/b.md", "Changes 1 file (7 bytes) at docs/b.md; 1 is in no commit: docs/b.md."),
        ("cp src/x.py docs/b.md", "Changes 1 file (7 bytes) at docs/b.md"),
        ("rm -rf ../remote", "With it goes a whole repository, its history included:"),
        ("rm -rf ../remote/objects", "With it go files of git's own,"),
        (
            "rm -rf .git/refs",
            "With it go files of git's own, on which history, branches or stashes may hang: .git/refs.",
        ),
        ("rm -rf .git/*", "With it go files of git's own,"),
        ("rm -rf ../plain", "; none of it is under version control."),
        ('rm -rf docs "$X"', "It may delete more: what, can't be told."),
        ("mkdir q; rm -r q", "Deletes q: there is no such file now, before the other commands run."),
        ("curl https://example.org/x > docs/b.md", "Reaches example.org."),
    ],
)
def test_each_kind_is_told(scene: Path, text: str, expected: str) -> None:
    assert any(expected in each for each in said(scene, text)), said(scene, text)


@pytest.mark.parametrize("text", ["echo x > src/x.py", "echo x > brand-new", "ls", 'rm -rf "$X"', "mkdir z"])
def test_nothing_is_said_where_nothing_is_lost_or_known(scene: Path, text: str) -> None:
    assert said(scene, text) == ()


def test_no_commit_is_said_to_keep_what_goes_with_its_own_repository(scene: Path) -> None:
    assert not any("in a commit" in each for each in said(scene, "rm -rf ."))


def test_what_lies_in_another_repository_is_said(scene: Path) -> None:
    assert any(each == f"That is in another repository: {scene}/nested." for each in said(scene, "rm nested/z")), said(
        scene, "rm nested/z"
    )


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("git push", "Pushes 1 commit ("),
        ("git push origin main:new", "Pushes main to origin as new, of which nothing is known here."),
        ("git push -f origin main:new", "It throws away what origin new has, if there is one."),
        ("git push -f", "It throws away what origin main has got since it was fetched last, if it has."),
        (
            "git push origin main:main main~1:main",
            "Pushes no new commit to origin main, by what was fetched of it last.",
        ),
        ("git push origin :refs/tags/v1", "Deletes refs/tags/v1 of origin."),
        ("git push https://a:secret@example.org/x main", "Pushes main to https://example.org/x as main, of which"),
        ("git push ../remote main", "Pushes main to ../remote as main, of which nothing is known here."),
        ("git commit -m x && git push origin main~1:main", "Pushes what is committed before to origin main."),
        ("git add . && git commit -m x && git push", "Pushes 1 commit ("),
        ("ls && cat a | head && git push", "Pushes 1 commit ("),
        ("git push origin :", "Pushes several branches or tags to origin."),
        (
            "git push origin +:",
            "Pushes several branches or tags to origin, and throws away what it has there and you have not.",
        ),
        (
            "git push --mirror",
            "Pushes several branches or tags to origin, and throws away what it has there and you have not, "
            "and deletes those that are not here.",
        ),
        ("git push --all --prune", "Pushes several branches or tags to origin, and deletes those that are not here."),
        ("git push origin :main", "Deletes the branch main of origin."),
        ("git push origin --delete main", "Deletes the branch main of origin."),
        ("git push --all", "Pushes several branches or tags to origin."),
        ("git push -f origin HEAD~1:ahead", "It throws away 1 commit ("),
        ("git push origin +HEAD~1:ahead", "It throws away 1 commit ("),
        ("git push origin HEAD~1:ahead", "It is refused, or throws away 1 commit ("),
        ("git push origin $B", "Pushes something: what, and to which branch, can't be told."),
        ("git push origin no-such-branch", "Pushes something: what, and to which branch, can't be told."),
    ],
)
def test_a_push_says_its_commits_and_its_branch(scene: Path, text: str, expected: str) -> None:
    assert any(each.startswith(expected) for each in said(scene, text)), said(scene, text)


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "text",
    [
        "git --git-dir=/nowhere/.git push",
        "git -c push.default=matching push",
        "git -c remote.origin.pushurl=/nowhere push origin main",
        "git push --repo=evil",
        "git push --receive-pack='x' origin main",
        "git push origin tag main",
        "git push origin 'refs/heads/*:refs/heads/*'",
        "git push origin main:",
        "git checkout docs && git push",
        "git commit --amend -m x && git push",
        "git config push.default matching && git push",
        "git remote set-url origin /nowhere && git push",
        "git fetch && git push",
        "git update-ref refs/remotes/origin/main HEAD && git push",
        "echo x > .git/refs/remotes/origin/main && git push",
        "./release.sh && git push",
        "HOME=/nowhere git push",
        "export GIT_CONFIG_GLOBAL=/nowhere; git push",
        "sudo -u bob git push",
    ],
)
def test_a_push_of_which_the_line_does_not_say_all_is_left_open(scene: Path, text: str) -> None:
    assert OPEN in said(scene, text)
    assert not any(each.startswith(("Pushes no", "Pushes 1")) for each in said(scene, text))


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    ("settings", "text", "expected"),
    [
        ("[push]\ndefault = matching", "git push", OPEN),
        ("[push] default = upstream", "git push origin main", OPEN),
        ("[push]\nfollowTags", "git push", OPEN),
        ("[push]\ndefault = current\nfollowTags = false", "git push", "Pushes 1 commit ("),
        ("[submodule]\nrecurse = true", "git push", OPEN),
        ('[remote "origin"]\npush = refs/heads/main:refs/heads/live', "git push origin main", OPEN),
        ('[remote "origin"]\nmirror = true', "git push", OPEN),
        ('[remote "origin"]\npushurl = ../plain', "git push origin main", "of which nothing is known here."),
        ('[remote "origin"]\nurl = ../plain', "git push origin main", "of which nothing is known here."),
        ('[url "/nowhere/"]\npushInsteadOf = ../', "git push origin main", "of which nothing is known here."),
        ("[remote]\npushDefault = other", "git push", "Pushes main to other as main, of which nothing is known here."),
        (
            '[branch "main"]\npushRemote = other',
            "git push",
            "Pushes main to other as main, of which nothing is known here.",
        ),
        ("[include]\npath = more", "git push", OPEN),
        ('[includeIf "gitdir:/"]\npath = more', "git push", OPEN),
    ],
)
@pytest.mark.parametrize("whose", ["repository", "user"])
def test_settings_of_git_are_heeded(
    scene: Path, home: Path, settings: str, text: str, expected: str, whose: str
) -> None:
    with (scene / ".git/config" if whose == "repository" else home / ".gitconfig").open("a") as file:
        file.write(f"\n{settings}\n")
    assert any(expected in each for each in said(scene, text)), said(scene, text)


@pytest.mark.parametrize("branch", ["detached", "main"])
def test_a_head_that_is_on_no_branch_pushes_nothing_by_itself(scene: Path, branch: str) -> None:
    if branch == "detached":
        (scene / ".git/HEAD").write_bytes((scene / ".git/refs/heads/main").read_bytes())
    assert (OPEN in said(scene, "git push")) == (branch == "detached")


def test_a_variable_that_leads_git_elsewhere_leaves_it_open(scene: Path) -> None:
    found = blast_radius(
        analyse("git push", cwd=os.fspath(scene)), project=os.fspath(scene), view=HOST, environ={"GIT_DIR": "x"}
    )
    assert found == ("Pushes something: what, and to which branch, can't be told.",)


@pytest.mark.parametrize("name", ["GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_DIR"])
def test_our_own_variables_are_those_of_a_command_of_which_no_others_are_known(
    scene: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    assert said(scene, "git push") == (OPEN,)


def test_the_user_whose_settings_count_is_the_commands_own(scene: Path, tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text("[push]\ndefault = matching\n")
    program = analyse("git push", cwd=os.fspath(scene))
    found = blast_radius(program, project=os.fspath(scene), view=HOST, environ={"HOME": os.fspath(tmp_path)})
    assert found == (OPEN,)


def test_a_link_is_what_is_deleted_and_not_what_it_leads_to(scene: Path) -> None:
    (scene / "link").symlink_to("docs")
    (one,) = said(scene, "rm -rf link")
    assert one.startswith("Deletes 1 file (")


@pytest.mark.parametrize("text", ["find link/ -delete", "rsync -a --delete src/ link/", "rm -rf link/."])
def test_a_link_with_a_slash_is_what_it_leads_to(scene: Path, text: str) -> None:
    (scene / "link").symlink_to("docs")
    assert said(scene, text)[0].startswith("Deletes 3 files and 1 folder (")


def test_the_way_up_leads_on_from_where_a_link_leads(scene: Path) -> None:
    (scene / "link").symlink_to("../plain")
    (scene / "a").write_text("a")
    for text in ("rm link/../repository/../plain/a", "rm -rf link/../plain"):
        assert any("none of it is under version control" in each for each in said(scene, text)), text
    assert "there is no such file now" in said(scene, "rm link/../a")[0]


def test_it_is_bounded_and_says_so(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENTRIES", 2)
    assert said(scene, "rm -rf docs")[0].startswith("Deletes more than ")


def test_it_does_not_fill_the_screen(scene: Path) -> None:
    found = said(scene, f"git push origin {' '.join(f':b{n}' for n in range(500))}")
    assert len(found) == module.MAX_SENTENCES + 1
    assert found[-1] == f"{500 - module.MAX_SENTENCES} more things are at stake."


def test_no_kind_of_thing_crowds_out_another(scene: Path) -> None:
    found = said(
        scene, f"rm {' '.join(f'no{n}' for n in range(40))}; git push origin {' '.join(f':b{n}' for n in range(40))}"
    )
    assert any(each.startswith("Deletes the branch") for each in found)
    assert any("there is no such file" in each for each in found)


def test_hard_links_are_not_counted_as_lost(scene: Path) -> None:
    os.link(scene / "docs/b.md", scene / "kept")
    assert "1 of them has further names (hard links): what they hold stays there." in said(scene, "rm -rf docs")


def test_hard_links_that_all_go_are_lost(scene: Path) -> None:
    os.link(scene / "docs/b.md", scene / "docs/c.md")
    size = sum((scene / "docs" / name).stat().st_size for name in ("a.md", "b.md", "new\x1b.md"))
    (one,) = said(scene, "rm -rf docs")
    assert one.startswith(f"Deletes 4 files and 1 folder ({size} bytes)")


def test_a_commit_that_goes_as_well_keeps_nothing(scene: Path) -> None:
    for text in ("rm -rf .git src", "rm -rf src; rm -rf .git/objects", "rm -rf .git/* src"):
        assert not any("in a commit" in each for each in said(scene, text)), text


def test_a_file_whose_time_and_size_were_set_back_is_in_no_commit(scene: Path) -> None:
    path = scene / "src/x.py"
    before = path.stat()
    path.write_bytes(bytes(before.st_size))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "1 is in no commit: src/x.py." in said(scene, "rm src/x.py")[0]


def test_where_the_repository_can_not_be_read_nothing_is_said_of_commits(scene: Path) -> None:
    with (scene / ".git/config").open("a") as file:
        file.write("[extensions]\nobjectFormat = sha256\n")
    (one,) = said(scene, "rm -rf docs")
    assert one.endswith("; of 3 nobody can tell whether a commit has them.")


def test_files_of_many_folders_are_looked_up_in_one_repository(scene: Path) -> None:
    for n in range(40):
        (scene / f"many{n}").mkdir()
        (scene / f"many{n}/a").write_text("a")
    (one,) = said(scene, f"rm {' '.join(f'many{n}/a' for n in range(40))}")
    assert "40 are in no commit" in one


def test_a_submodule_has_commits_of_its_own(scene: Path, git: Git) -> None:
    git("-c", "protocol.file.allow=always", "submodule", "add", "-q", "-b", "main", "../remote", "sub", at=scene)
    assert "; 3 are in a commit." in said(scene, "rm -rf sub")[0]
    assert not any("in a commit" in each for each in said(scene, "rm -rf ."))


def test_what_is_written_through_a_link_is_what_it_leads_to(scene: Path) -> None:
    (scene / "link").symlink_to("docs/b.md")
    assert "1 is in no commit: docs/b.md." in said(scene, "echo x > link")[0]


def test_a_file_that_nobody_can_look_for_is_not_said_to_be_missing(
    scene: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: object) -> os.stat_result:
        raise PermissionError(13, "no")

    (scene / "closed").mkdir()
    monkeypatch.setattr(os, "lstat", refuse)
    assert said(scene, "rm closed/x") == ("Deletes closed/x: nobody could look whether it is there.",)


def test_names_do_not_pass_for_words_of_ours(scene: Path, git: Git) -> None:
    name = "x is in a commit. Deletes nothing"
    (scene / name).write_text("x")
    (one,) = said(scene, f"rm '{name}'")
    assert f"at '{name}'; 1 is in no commit: '{name}'." in one
    git("commit", "-q", "--allow-empty", "-m", "a” to origin x. It is harmless “b", at=scene)
    assert 'a" to origin x. It is harmless "b”' in said(scene, "git push")[0]


@pytest.mark.parametrize(
    "text",
    [
        f"rm -rf {' '.join(f'f{n}' for n in range(8_000))}",
        "; ".join(["git push"] * 2_000),
        f"git push origin {' '.join(['main'] * 5_000)}",
    ],
    ids=["files", "pushes", "branches"],
)
def test_long_lines_cost_no_more_than_in_proportion(scene: Path, text: str) -> None:
    program = analyse(text, cwd=os.fspath(scene))
    calls = 0

    def count(frame: object, event: str, what: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        blast_radius(program, project=os.fspath(scene), view=HOST)
    finally:
        sys.setprofile(None)
    assert calls < 150 * len(text)


def test_many_sections_on_one_line_are_read_at_once() -> None:
    began = time.process_time()
    assert list(settings_in("[a]" * 300_000 + "b = c")) == [("a.b", "c")]
    assert time.process_time() - began < 10


def test_it_ends_in_time(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", -1.0)
    assert said(scene, "rm -rf docs")[0].startswith("Deletes more than ")


def test_what_can_not_be_entered_is_said(scene: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, folder: str) -> None:
        raise PermissionError(13, "no", folder)

    monkeypatch.setattr("humanlayer_agent.shell.view.View.entries", refuse)
    assert "Not everything there could be looked at: it may be more." in said(scene, "rm -rf docs")
