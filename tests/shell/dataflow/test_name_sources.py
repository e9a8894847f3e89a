"""Names of files that git, grep and ls print, and what takes them."""

import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.shell import DiskReader, Program, analyse
from humanlayer_agent.shell.dataflow import name_sources
from humanlayer_agent.shell.disk_reader import GivenReader

FILES = ("README.md", "a.py", "src/b.py", "src/deep/c.py")


def repository(root: Path) -> Path:
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


def read(command: str, tree: Path) -> Program:
    return analyse(command, cwd=str(tree), environ={}, reader=DiskReader(tree))


def touched(command: str, tree: Path) -> set[str]:
    """What the last command certainly reads or writes, from the project."""
    last = read(command, tree).commands[-1]
    assert last.resolved
    assert all(effect.resolved for effect in last.effects)
    return {str(Path(str(effect.operand)).relative_to(tree)) for effect in last.effects}


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("git ls-files | xargs wc -l", set(FILES)),
        ("git ls-files -z | xargs -0 cat", set(FILES)),
        ("git ls-files '*.py' | grep -v test | xargs sed -i s/x/y/", {"a.py", "src/b.py", "src/deep/c.py"}),
        ("git ls-files src | xargs cat", {"src/b.py", "src/deep/c.py"}),
        ("git status; git ls-files 'src/*.py' | xargs cat", {"src/b.py", "src/deep/c.py"}),
        ("cd src && git ls-files | xargs cat", {"src/b.py", "src/deep/c.py"}),
        ("git grep -l x | xargs sed -i s/x/y/", set(FILES)),
        ("grep -rl x src | xargs cat", {"src/b.py", "src/deep/c.py"}),
        ("grep -rl --include='*.md' x . | xargs cat", {"README.md"}),
        ("grep -l x a.py README.md | xargs cat", {"a.py", "README.md"}),
        ("grep -l x *.md *.py | xargs cat", {"a.py", "README.md"}),
        ("ls | xargs wc -l", {"README.md", "a.py", "src"}),
        ("ls a.py README.md | xargs -n 1 wc -l", {"README.md", "a.py"}),
        ("ls src/*.py | head -1 | xargs cat", {"src/b.py"}),
        ("ls -d src a.py | xargs cat", {"src", "a.py"}),
        ("ls src | xargs cat", {"b.py", "deep"}),
        ("cat $(ls *.md)", {"README.md"}),
        ("rg -l -i x src | xargs cat", {"src/b.py", "src/deep/c.py"}),
        ("rg -0 -l x src | xargs -0 cat", {"src/b.py", "src/deep/c.py"}),
        ("git diff --name-only | xargs cat", set(FILES)),
        ("git diff --name-only --diff-filter=ACM -- '*.md' | xargs cat", {"README.md"}),
        ("git grep -l x -- '*.md' | xargs cat", {"README.md"}),
        ("wc -l $(git ls-files '*.py')", {"a.py", "src/b.py", "src/deep/c.py"}),
        ("wc -l $(git ls-files 2>/dev/null | head -3)", set(FILES)),
    ],
)
def test_what_takes_the_names_touches_these_files(command: str, names: set[str], tree: Path) -> None:
    assert touched(command, tree) == names
    unseen = analyse(command, cwd=str(tree), environ={}, reader=GivenReader({})).commands[-1]
    assert not all(effect.resolved for effect in unseen.effects)  # nobody can say how the disk looks


def test_many_names_are_some_path_below_the_folder(tree: Path) -> None:
    for number in range(name_sources.MAX_NAMES):
        (tree / f"{number}.txt").touch()
    effects = read("ls | xargs cat", tree).commands[-1].effects
    assert [(effect.operand, effect.below) for effect in effects] == [(str(tree), True)]


@pytest.mark.parametrize(
    "command",
    [
        "git ls-files | xargs rm -f",
        "rm -rf $(git ls-files)",
        "ls | xargs mv -t out",
        "truncate -s 0 $(git ls-files)",
    ],
)
def test_who_loses_many_files_loses_what_lies_below(command: str, tree: Path) -> None:
    effects = read(command, tree).commands[-1].effects
    assert any(effect.below and effect.operand == str(tree) for effect in effects)


@pytest.mark.sample(22)
@pytest.mark.parametrize(
    "command",
    [
        "git update-index --add --cacheinfo 100644,e69de29bb2d1d6434b8b29ae775ad8c2e48c5391,'x /etc/passwd' && "
        "git ls-files | xargs cat",
        "git add x; git ls-files | xargs cat",
        "git ls-files | xargs cat | tee 'x /etc/passwd'",
        "ls | xargs sed p | tee ./-i",
        "ls | xargs sed p > ./-i",
        "ln -s /etc/passwd z; ls | xargs cat",
        "ln -s /etc/passwd z & ls | xargs cat",
        "export GIT_INDEX_FILE=/tmp/i; git ls-files | xargs cat",
        "GIT_DIR=/srv/.git git ls-files | xargs cat",
        "git -C /srv ls-files | xargs cat",
        "git --git-dir=/srv/.git ls-files | xargs cat",
        "git ls-files :/ | xargs cat",
        "git ls-files ../x | xargs cat",
        "git ls-files --format='/etc/%(path)' | xargs cat",
        "git ls-files -s | xargs cat",
        "git grep -l x HEAD | xargs cat",
        "grep -l x | xargs cat",
        "grep -Rl x . | xargs cat",
        "grep -rl x .. | xargs cat",
        "grep -rl x src 2>&1 | xargs cat",
        "ls /etc | xargs cat",
        "ls -l | xargs cat",
        "./ls | xargs cat",
        "alias ls='echo /etc/shadow'; ls | xargs cat",
        "ls | sed s,^,/etc/, | xargs cat",
        "ls src a.py | xargs cat",
        "cat $(git grep -l 'a /etc/hostname \\(' 2>/dev/stdout)",
        "git grep -l x 2>/dev/fd/1 | xargs cat",
        "cat $(ls src | head -n 'a /etc/hostname b' 2>/dev/stdout)",
        "find src -newermt ' /etc/hostname ' 2>/dev/stdout | xargs cat",
        "find src -print0 2>&1 | xargs -0 cat",
        "git grep -l x 2>out | xargs cat",
        "cd src && git grep -l x | xargs cat",
        "ls src/../../ | xargs cat",
        "ls missing | xargs cat",
        "ls *.md | xargs rm",
        "touch z.md; ls *.md | xargs cat",
        "cd src && git diff --name-only | xargs cat",
        "git diff --name-only HEAD | xargs cat",
        "git diff --name-only --cached | xargs cat",
        "git diff --name-only --line-prefix=/etc/ | xargs cat",
        "git diff --name-only -R --src-prefix=/etc/ | xargs cat",
        "git diff --name-only -- ../x | xargs cat",
        "git grep -l x HEAD -- a.py | xargs cat",
        "git grep -l -- x a.py | xargs cat",
        "rg -l x --path-separator /../ src | xargs cat",
        "rg -l -L x | xargs cat",
        "rg -l x --pre ./x | xargs cat",
        "rg x | xargs cat",
        "rg -l x .. | xargs cat",
        "rg -l x src --json | xargs cat",
        "ls | (cd /etc; xargs cat)",
        "for i in 1 2; do ls | xargs cat; done",
        "IFS=/; cat $(git ls-files)",
        "cat $(git ls-files; echo /etc/passwd)",
        "cat $(ls | xargs echo /etc/passwd)",
        "cat /etc/$(ls)",
        "cat $(ls)/../../x",
        "$(ls)",
        "ls | xargs sh -c 'cat \"$0\"'",
        "ls | xargs sed",
        "sed $(ls)",
    ],
)
def test_what_may_print_other_names_tells_none(command: str, tree: Path) -> None:
    program = read(command, tree)
    last = program.commands[-1]
    assert (
        program.status != "ok"
        or not all(each.resolved for each in program.commands)
        or not all(effect.resolved for effect in last.effects)
    )


@pytest.mark.parametrize("command", ["grep $(git ls-files)", "git ls-files | xargs grep", "ls | xargs grep"])
def test_the_first_of_many_names_is_the_pattern_and_the_others_are_read(command: str, tree: Path) -> None:
    assert "a.py" in touched(command, tree)


@pytest.mark.sample(13)
@pytest.mark.parametrize("name", ["x y.py", "-i", "sub/-i.py", "it's.py", "[a].py", "new\nline.py", "é.py", "b\\c.py"])
@pytest.mark.parametrize("command", ["git ls-files | xargs cat", "grep -rl x . | xargs cat", "cat $(git ls-files)"])
def test_names_that_are_split_or_options_tell_none(name: str, command: str, tree: Path) -> None:
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_text("x\n")
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    assert not read(command, tree).commands[-1].resolved


def test_a_name_that_only_the_index_has_counts(tree: Path) -> None:
    """git prints it all the same: a repository may come with it."""
    (tree / "x ").mkdir()
    (tree / "x /etc").mkdir()
    (tree / "x /etc/passwd").touch()
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    (tree / "x /etc/passwd").unlink()
    (tree / "x /etc").rmdir()
    (tree / "x ").rmdir()
    assert not read("git ls-files | xargs cat", tree).commands[-1].resolved
    assert read("grep -rl x src | xargs cat", tree).commands[-1].resolved


@pytest.mark.parametrize(
    "command",
    [
        "git ls-files | xargs cat", "ls | xargs cat", "cat $(git ls-files)", "ls -d link | xargs cat", "ls l* | xargs cat",
        "rg -l x | xargs cat", "git diff --name-only | xargs cat", "grep -l x l* | xargs cat", "ls names | xargs cat",
    ],
)  # fmt: skip
def test_a_link_that_leads_out_tells_none(command: str, tree: Path) -> None:
    (tree.parent / "outside").write_text("secret")
    (tree / "link").symlink_to(tree.parent / "outside")
    (tree / "names").mkdir()
    (tree / "names/link").touch()
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    assert not read(command, tree).commands[-1].resolved


def test_submodules_have_an_index_of_their_own(tree: Path) -> None:
    (tree / ".gitmodules").write_text('[submodule "m"]\n\tpath = src\n\turl = ../m\n')
    assert not read("git grep -l x | xargs cat", tree).commands[-1].resolved


def test_a_name_with_colours_in_it_may_be_that_of_a_link(tree: Path) -> None:
    (tree / "\x1b[35msrc").mkdir()
    (tree / "\x1b[35msrc/b.py\x1b[m").symlink_to("/etc/hostname")
    assert not read("git grep -l x -- src | xargs cat", tree).commands[-1].resolved


@pytest.mark.parametrize("program", ["grep -rl x link", "rg -l x link", "ls a.py link"])
def test_a_link_to_a_folder_is_followed_where_it_is_given(program: str, tree: Path) -> None:
    (tree / "link").symlink_to(tree / "src")
    assert not read(f"{program} | xargs rm", tree).commands[-1].resolved


def test_a_tracked_folder_that_became_a_link_tells_none(tree: Path) -> None:
    (tree.parent / "outside" / "deep").mkdir(parents=True)
    (tree / "src").rename(tree / "old")
    (tree / "src").symlink_to(tree.parent / "outside")
    assert not read("git ls-files | xargs cat", tree).commands[-1].resolved


def test_another_repository_tells_none(tree: Path) -> None:
    for folder in ("bare", "other"):
        (tree / folder).mkdir()
        (tree / folder / "a.py").touch()
    (tree / "bare/HEAD").write_text("ref: refs/heads/main\n")
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)
    assert read("cd other && git ls-files | xargs cat", tree).commands[-1].resolved
    assert not read("cd bare && git ls-files | xargs cat", tree).commands[-1].resolved
    repository(tree / "inner")
    assert not read("cd inner && git ls-files | xargs cat", tree).commands[-1].resolved
