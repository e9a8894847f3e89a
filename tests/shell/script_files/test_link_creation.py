"""A link that an action makes itself can lead anywhere."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.shell import view
from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import DiskReader
from humanlayer_agent.shell.script_files.link_creation import _Made
from humanlayer_agent.shell.view import View


def certain(command: str) -> bool:
    """True where every path of `command` is certain."""
    program = analyse(command, cwd="/p", environ={"HOME": "/h"})
    return all(e.resolved for c in program.commands for e in c.effects if e.kind != "network")


@pytest.mark.parametrize(
    "command",
    [
        "ln -s / x; rm -rf x/etc",
        "ln -s ../../etc x && cat x/shadow",
        "cd a/b && ln -s ../../../etc ../../x; cat ../../x/shadow",
        "mv a b; cat b/c",
        "cp -a a b; rm -rf b/c",
        "mkdir d; ln -s /etc d/e; tee d/e/f",
        "ln -s / x; echo y > x/z",
        "ln -s a x; (cd x && cat y)",
        "f() { ln -s / x; }; f; cat x/y",
        "for i in 1 2; do cat x/shadow; ln -sf /etc x; done",
        "ln -s /etc x & cat x/shadow",
        # The directory that is moved has links in it, or is one.
        "mv a d/; cat d/x/y",
        "mv a d/; mv b d/c/",
        "mv a d; mv b d/",
        "mv a d/; mv b d",
        "mv a d/; cp b d/",
        "ln -s / d; mv b d/",
        "for i in *; do mv $i d/; done; cat d/x",
        # Its templates may have links, and go where it keeps its files.
        "git init; cat .git/x",
        "git init d; cat d/.git/x",
        "git init --bare; cat x",
        "git init --bare d; cat d/x",
        "git --bare init d; cat d/x",
        "git -c core.bare=true init; cat x",
        "git init --separate-git-dir=d; cat d/x",
        "git init --template=d; cat x",
        "git --git-dir=d init; cat d/x",
        "git --work-tree=d init; cat d/x",
        "GIT_DIR=d git init; cat d/x",
        "export GIT_DIR=d; git init; cat d/x",
        "export $D; git init; cat d/x",
        "git clone /srv/x d; cat d/x",
    ],
)
def test_a_path_through_a_new_link_is_uncertain(command: str) -> None:
    assert not certain(command)


@pytest.mark.parametrize(
    "command",
    [
        "ln -s a x; cat y",
        "cp a b; cat b",
        "mv a b; cat bc",
        "mkdir d; cat d/e",
        "cat x; ln -s a x",
        "mv a d/; mv b d/",
        "mv a d/; mv b c d/",
        "for i in 1 2; do mv a d/; done",
        "git status > x; cat x",
        "git log 2>/dev/null; git status 2>/dev/null",
        "git init; cat x",
        "git init -q -b main d; cat d/x",
        "mkdir d; cd d && git init && git add .",
    ],
)
def test_other_paths_stay_certain(command: str) -> None:
    assert certain(command)


def test_the_path_by_name_is_kept() -> None:
    commands = analyse("ln -s a /etc/x; rm -rf /etc/x", cwd="/p").commands
    assert [e.operand for e in commands[1].effects] == ["/etc/x", None]


def test_links_that_code_makes() -> None:
    program = analyse('python -c \'import os; os.symlink("/", "x")\'; rm -rf x/etc', cwd="/p")
    assert any(e.kind == "delete" and not e.resolved for e in program.commands[-1].effects)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with links that a hostile repository may bring."""
    top = Path(os.path.realpath(tmp_path))
    project, elsewhere = top / "app", top / "elsewhere"
    for folder in (project / "deep/a", project / "docs", elsewhere / "sub", top / "further"):
        folder.mkdir(parents=True)
    for file in (elsewhere / "secret", elsewhere / "sub/x", top / "further/y", project / "deep/plain.py"):
        file.write_text("x\n")
    (project / "deep/a/out").symlink_to("../../../elsewhere")
    (project / "deep/in").symlink_to("../docs")
    (project / "docs/link.md").symlink_to(elsewhere / "secret")
    (project / "docs/gone").symlink_to("/nowhere/else")
    (elsewhere / "sub/further").symlink_to(top / "further")
    return project


def reached(project: Path, command: str, reader: DiskReader | None = None) -> set[str | None]:
    """The places outside of the project that the command may touch; None for one that is not known."""
    program = analyse(command, cwd=str(project), environ={"HOME": "/h"}, reader=reader or DiskReader(project))
    touched = [e for c in program.commands for e in c.effects if e.operand is None or e.operand.startswith("/")]
    real = {e.operand and os.path.realpath(e.operand) for e in touched}
    return {path and os.path.relpath(path, project) for path in real if not (path or "").startswith(str(project))}


ELSEWHERE = {"../elsewhere", "../further"}


@pytest.mark.parametrize(
    ("command", "places"),
    [
        ("grep -R x deep", ELSEWHERE),
        ("grep -R x", ELSEWHERE | {"../elsewhere/secret"}),
        ("rg -L x deep", ELSEWHERE),
        ("find -L deep -name x", ELSEWHERE),
        ("find deep -follow -type f", ELSEWHERE),
        ("find -L deep -name x -delete", {*ELSEWHERE, None}),
        ("find -L deep -name x -exec rm {} +", {*ELSEWHERE, None}),
        ("find -L deep -print0 | xargs -0 rm", {*ELSEWHERE, None}),
        ("fd -L x deep", ELSEWHERE),
        ("tar chf x.tar deep", ELSEWHERE),
        ("tar -c --dereference -f x.tar deep docs", ELSEWHERE | {"../elsewhere/secret"}),
        ("cp -rL deep x", ELSEWHERE),
        ("cp -a -L deep x", ELSEWHERE),
        ("rsync -rL deep/ x", ELSEWHERE),
        ("rsync -a --copy-unsafe-links deep x", ELSEWHERE),
        ("zip -qr x.zip docs", {"../elsewhere/secret"}),
        ("7z a x.7z deep", ELSEWHERE),
        ("diff -r deep docs", ELSEWHERE | {"../elsewhere/secret"}),
        ("du -L deep", ELSEWHERE),
        ("ls -LR deep", ELSEWHERE),
        ("tree -l deep", ELSEWHERE),
        ("find docs -name '*.md' -exec cat {} +", {"../elsewhere/secret"}),
        ("find docs -print0 | xargs -0 cat", {"../elsewhere/secret"}),
        ("find . -name out -execdir ls {} ;", {"../elsewhere"}),
    ],
)
def test_links_that_are_followed(project: Path, command: str, places: set[str | None]) -> None:
    assert places <= reached(project, command)


@pytest.mark.parametrize(
    "command",
    [
        "grep -r x .",
        "rg x",
        "find . -name x -delete",
        "find docs -name '*.py' -exec cat {} +",
        "find . -type f -name '*.md' -exec cat {} +",
        "tar cf x.tar .",
        "tar xhf x.tar",
        "cp -r deep x",
        "cp -a deep x",
        "rsync -a deep x",
        "zip -qry x.zip docs",
        "diff -r --no-dereference deep docs",
        "diff docs/a docs/b",
        "grep -R x deep/plain.py",
        "ls -L deep",
        "du deep",
    ],
)
def test_links_that_are_not_followed(project: Path, command: str) -> None:
    assert reached(project, command) == set()


@pytest.mark.parametrize(
    ("command", "places"),
    [
        ("isort .", ELSEWHERE),
        ("python3 -m isort docs", {"../elsewhere/secret"}),
        ("ruff format .", {"../elsewhere/secret"}),
        ("ruff format", {"../elsewhere/secret"}),
        ("ruff check --fix docs", {"../elsewhere/secret"}),
        ("gofmt -w .", {"../elsewhere/secret"}),
        ("cp new/link.md docs/", {"../elsewhere/secret"}),
        ("cp -t docs new/link.md", {"../elsewhere/secret"}),
        ("cp new/* docs", {"../elsewhere/secret"}),
        ("cp -r new/. docs", {"../elsewhere/secret"}),
        ("cp -rT new docs", {"../elsewhere/secret"}),
        ("mkdir n; echo x > n/a; cp -r n/. docs", {"../elsewhere/secret"}),
        ("cp -r $X docs", {"../elsewhere/secret"}),
        ("python3 -c \"import shutil; shutil.copytree('new', 'docs', dirs_exist_ok=True)\"", {"../elsewhere/secret"}),
        ("python3 -c \"import shutil; shutil.copy('new/link.md', 'docs')\"", {"../elsewhere/secret"}),
        ("python3 -c \"import zipfile; zipfile.ZipFile('a.zip').extractall('docs')\"", {"../elsewhere/secret"}),
    ],
)
def test_links_that_are_written_through(project: Path, command: str, places: set[str | None]) -> None:
    assert places <= reached(project, command)


@pytest.mark.parametrize(
    "command",
    [
        "black .",
        "ruff check .",
        "ruff format deep",
        "isort docs/other.py",
        "cp new/link.md new/plain.md",
        "cp new/plain.md docs",
        "cp -r new docs",
        "cp -r new/deeper/. docs",
        "mv new/link.md docs/",
        "install new/link.md docs",
        "mkdir -p docs",
        "tar xf a.tar -C new",
        "python3 -c \"import shutil; shutil.copy('new/plain.md', 'docs')\"",
    ],
)
def test_links_that_are_not_written_through(project: Path, command: str) -> None:
    assert reached(project, command) == set()


@pytest.fixture(autouse=True)
def new(project: Path) -> None:
    """A folder of the same names as one with links."""
    (project / "new/deeper").mkdir(parents=True)
    for name in ("link.md", "plain.md", "deeper/x"):
        (project / "new" / name).write_text("x\n")


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("cp -r new/. .github/", [".github/link.md", ".github/plain.md", ".github/deeper/x"]),
        ("cp -r new .github", [".github/new/link.md", ".github/new/plain.md", ".github/new/deeper/x"]),
        ("mv new/deeper .github", [".github/deeper/x"]),
        ("cp new/plain.md .github/", []),
        ("cp -r new other", []),
        ("mv new/plain.md .github/plain.md", []),
    ],
)
def test_what_a_folder_brings_into_a_hidden_one(project: Path, command: str, names: list[str]) -> None:
    [done] = analyse(command, cwd=str(project), reader=DiskReader(project)).commands
    written = {os.path.relpath(e.operand or "", project) for e in done.effects if e.kind == "write"}
    assert set(names) <= written
    assert len(written) == len(names) + 1
    assert done.resolved


def test_what_nobody_knows_of_a_folder_is_in_doubt(project: Path) -> None:
    program = analyse("mkdir n; echo x > n/a; cp -r n/. .github/", cwd=str(project), reader=DiskReader(project))
    assert not program.commands[-1].resolved


def test_more_names_than_are_looked_at(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MAX_NAMES", 3)
    assert reached(project, "grep -R x .") == {None}
    assert reached(project, "find . -name x -exec cat {} +") == {None}
    assert reached(project, "grep -r x .") == set()


def test_what_sees_another_disk_reaches_nothing(project: Path) -> None:
    inside = DiskReader(project).seen_in(View(""))
    assert reached(project, "grep -R x deep", inside) == set()


def test_where_links_lead_is_known_of_a_disk_that_holds_who_follows_them(project: Path) -> None:
    top = project.parent
    shown = DiskReader(project).seen_in(View("", shown=tuple(str(top / n) for n in (project.name, "elsewhere"))))
    for command in ("find -L deep -name x -delete", "find -L deep -name x -exec rm {} +", "find deep -follow -delete"):
        assert reached(project, command, shown) == {"../elsewhere", "../elsewhere/secret"}, command
    alone = DiskReader(project).seen_in(View("", shown=(str(project),)))
    assert reached(project, "find -L deep -name x -delete", alone) == set()


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("ln a b", ["/p/a"]),
        ("ln -f a c d/", ["/p/a", "/p/c"]),
        ("link a b", ["/p/a"]),
        ("cp -l a b", ["/p/a"]),
        ("cp -al a b", ["/p/a"]),
        ("python3 -c \"import os; os.link('a', 'b')\"", ["/p/a"]),
        ("python3 -c \"from pathlib import Path; Path('b').hardlink_to('a')\"", ["/p/a"]),
        ("ln -s a b", []),
        ("cp -a a b", []),
        ("python3 -c \"import os; os.symlink('a', 'b')\"", []),
    ],
)
def test_a_file_that_gets_another_name_may_change(command: str, named: list[str]) -> None:
    program = analyse(command, cwd="/p", environ={"HOME": "/h"})
    assert [e.operand for c in program.commands for e in c.effects if e.kind == "metadata"] == named


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a folder in which a link leads out, and without any other link."""
    root = tmp_path_factory.mktemp("carried")
    for folder in ("plain/in", "linked/in"):
        (root / folder).mkdir(parents=True)
        (root / folder / "file").write_text("x")
    (root / "linked/in/out").symlink_to("/etc")
    (root / "out").symlink_to("/etc")
    (root / "file").write_text("x")
    return root


def all_certain(command: str, tree: Path) -> bool:
    """True where every path of `command` is certain, as the disk shows."""
    program = analyse(command, cwd=str(tree), environ={"HOME": "/h"}, reader=DiskReader(tree))
    return all(e.resolved for c in program.commands for e in c.effects)


@pytest.mark.parametrize(
    "command",
    [
        "mv file b && wc -l b",
        "mv plain b; cat b/in/file",
        "cp -r plain b; cat b/in/file",
        "rsync -a plain/ b; cat b/in/file",
        "sed s/a/b/ file > new && mv new file && cat file",
        "mv -t plain file; cat plain/file",
        "mv file b; mv b c; cat c",
    ],
)
def test_what_is_moved_without_a_link_in_it_makes_none(command: str, tree: Path) -> None:
    assert all_certain(command, tree)


@pytest.mark.parametrize(
    "command",
    [
        "mv out b; cat b/passwd",
        "mv linked b; cat b/in/out/passwd",
        "cp -r linked b; cat b/in/out/passwd",
        "rsync -a linked/ b; cat b/in/out/passwd",
        "cp -s file b; cat b",
        "cp -rs /etc b; cat b/passwd",
        "ln -s / new; mv new b; cat b/etc/passwd",
        "mkdir new; ln -s / new/x; mv new b; cat b/x/etc/passwd",
        "ln -s / plain/x; mv plain b; cat b/x/etc/passwd",
        "tar xf a.tar; mv file b; cat b",
        'mv "$1" b; cat b',
        "mv [e-g]* b; cat b",
        "mv o* b; cat b/passwd",
        "mv [ol]* plain; cat plain/out/passwd",
        "for i in 1 2; do cat b/passwd; mv file b; ln -s / file; done",
    ],
)
def test_what_may_have_a_link_in_it_may_make_one(command: str, tree: Path) -> None:
    assert not all_certain(command, tree)


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in whose other branch, stash and last but one commit are links that are not in its work tree."""
    root = tmp_path_factory.mktemp("versions")

    def git(*words: str) -> None:
        subprocess.run(["git", *_SETTINGS, *words], cwd=root, env=_ENVIRONMENT, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    (root / "docs").mkdir()
    (root / "docs/file").write_text("x")
    git("add", "-A")
    git("commit", "-qm", "start")
    git("checkout", "-qb", "other")
    (root / "lnk").symlink_to("/etc")
    git("add", "-A")
    git("commit", "-qm", "link")
    git("checkout", "-q", "main")
    git("checkout", "-qb", "harmless")
    (root / "docs/file").write_text("y")
    git("commit", "-qam", "no link")
    git("checkout", "-q", "main")
    (root / "lnk").symlink_to("/etc")
    git("add", "-A")
    git("stash", "-q")
    return root


_ENVIRONMENT = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": os.devnull}
_SETTINGS = ("-c", "user.name=a", "-c", "user.email=a@example.org")


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q other; cat lnk/passwd",
        "git checkout -qb new other && echo x > lnk",
        "git switch -q other; rm -f lnk/file",
        "git merge -q other; rm -f lnk/file",
        "git cherry-pick -n other; rm -f lnk/file",
        "git restore -s other lnk; rm -f lnk/file",
        "git checkout other -- lnk; rm -f lnk/file",
        "git stash pop -q; rm -f lnk/file",
        "cd docs; git checkout -q other; rm -f ../lnk/file",
        "git -C docs checkout -q other; rm -f lnk/file",
        "for i in 1 2; do rm -f lnk/file; git checkout -q other; done",
        "git bisect start other main; rm -f lnk/file",
        'git checkout -q "$1"; rm -f lnk/file',
        "git checkout -q nobody-knows; rm -f lnk/file",
    ],
)
def test_a_link_that_git_brings_leads_elsewhere(command: str, versions: Path) -> None:
    assert not all_certain(command, versions)


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q other; cat docs/file",
        "cat lnk/passwd; git checkout -q other",
        "git checkout -q harmless; rm -f lnk/file",
        "git checkout -qb new && rm -f lnk/file",
        "git merge -q harmless && echo x > docs/new",
        "git status; git diff; rm -f lnk/file",
        "git stash pop -q; cat docs/file",
        "git checkout -q other",
    ],
)
def test_what_git_brings_without_a_link_is_certain(command: str, versions: Path) -> None:
    assert all_certain(command, versions)


PATHS = st.lists(st.sampled_from(["a", "ab", "b"]), max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(st.lists(st.tuples(PATHS, st.booleans())), PATHS, st.booleans())
def test_what_leads_through_links_is_looked_up_as_one_by_one(
    found: list[tuple[str, bool]], path: str, moves_into: bool
) -> None:
    made = _Made()
    made.add(found)
    through = any(path != place and path.startswith(place.rstrip("/") + "/") for place, _ in found)
    at = any(path == place and not (into and moves_into) for place, into in found)
    assert made.lead(path, moves_into=moves_into) == (
        through or at or (path == "/" and any(p == "/" for p, _ in found))
    )
    assert made.lie_below(path) == any(place.startswith(path.rstrip("/") + "/") for place, _ in found)
