"""Revisions, merge bases, ranges and differences as git has them."""

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.repository.history import Repository
from humanlayer_agent.shell.repository.object_store import NotKnown
from humanlayer_agent.shell.view import HOST
from tests.shell.repository.conftest import ENVIRONMENT, Draw, Git
from tests.support import extent


@contextlib.contextmanager
def opened(top: Path) -> Iterator[Repository]:
    with Repository.of(os.fspath(top), HOST) as repository:
        yield repository


def commit(git: Git, top: Path, name: str, text: str) -> None:
    (top / name).parent.mkdir(parents=True, exist_ok=True)
    (top / name).write_text(text)
    git("add", "-A")
    git("commit", "-qm", text)


def branches(git: Git, top: Path) -> None:
    """Branches, tags, a merge, a stash, remotes, and a name that is a branch and a tag."""
    commit(git, top, "a", "one")
    commit(git, top, "a", "two")
    git("checkout", "-qb", "feature/x")
    commit(git, top, "sub/b", "three")
    git("tag", "-a", "v1.0", "-m", "v1")
    git("tag", "light")
    git("checkout", "-q", "main")
    commit(git, top, "a", "four")
    git("merge", "-q", "--no-ff", "-m", "merged", "feature/x")
    git("branch", "both", "HEAD~1")
    git("tag", "both", "HEAD~2")
    for text in ("s1", "s2"):
        (top / "a").write_text(text)
        git("stash", "-q")
    git("clone", "-q", ".", "../clone")
    git("remote", "add", "origin", "../clone")
    git("fetch", "-q", "origin")
    git("branch", "-q", "follows", "origin/main")
    git("branch", "-q", "-u", "origin/main", "main")


@pytest.fixture
def scene(drawn: Callable[[Draw], Path]) -> Path:
    return drawn(branches)


REVISIONS = """HEAD @ HEAD~1 HEAD~2 HEAD^ HEAD^2 HEAD^2~1 HEAD^^ HEAD^0 main feature/x heads/main refs/heads/main v1.0 tags/v1.0
v1.0^{} v1.0^{commit} v1.0^0 v1.0~1 light origin/main remotes/origin/main stash stash@{0} stash@{1} refs/stash@{1} stash^
@{-1} main@{0} main@{1} HEAD@{1} HEAD@{2} ORIG_HEAD FETCH_HEAD @{u} main@{upstream} HEAD~1^{tree} both follows""".split()  # noqa: SIM905


@pytest.mark.sample(1)
@pytest.mark.parametrize("pack", [False, True])
def test_what_revisions_name(git: Git, scene: Path, pack: bool) -> None:
    if pack:
        git("gc", "-q")
        git("pack-refs", "--all")
    with opened(scene) as repository:
        for text in REVISIONS:
            expected = git("rev-parse", "--verify", "-q", text, fails=True).strip().split("\n")[-1]
            try:
                found = repository.revision(text).hex()
            except NotKnown:
                found = ""
            assert found == expected, text
        name = git("rev-parse", "main").strip()
        for text in (name, name[:7], name[:12], f"v1.0-3-g{name[:8]}"):
            assert repository.revision(text).hex() == name
        assert repository.revision("both", branches=True).hex() == git("rev-parse", "refs/heads/both").strip()
        assert repository.revision("-").hex() == git("rev-parse", "@{-1}").strip()
        assert len(repository.remote_branches("main")) == 1


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "text",
    ["", "nothing", "HEAD~99", "HEAD^3", "HEAD@{99}", "stash@{7}", ":/one", "HEAD:a", "../config", "config", "..", "a b",
     "refs/heads/../../config", "HEAD^{blob}", "HEAD^{/x}", "@{yesterday}", "main@{1 day ago}", "*", "~", "^", "^main",
     "refs", "objects", "@{-9}", "x" * 5000, "HEAD" + "~" * 3000, "HEAD~999999"],
)  # fmt: skip
def test_what_names_nothing(scene: Path, text: str) -> None:
    with opened(scene) as repository, pytest.raises(NotKnown):
        repository.revision(text)


def test_references_that_lead_to_each_other(scene: Path) -> None:
    (scene / ".git/refs/heads/one").write_text("ref: refs/heads/other\n")
    (scene / ".git/refs/heads/other").write_text("ref: refs/heads/one\n")
    with opened(scene) as repository, pytest.raises(NotKnown):
        repository.revision("one")


def test_a_log_that_says_it_was_left_for_itself(scene: Path) -> None:
    line = f"{'0' * 40} {'0' * 40} a <a@b> 1 +0000\tcheckout: moving from @{{-1}} to main\n"
    (scene / ".git/logs/HEAD").write_text(line)
    with opened(scene) as repository, pytest.raises(NotKnown):
        repository.revision("-")


@pytest.mark.long
def test_logs_are_not_read_again_and_again(scene: Path) -> None:
    log = scene / ".git/logs/HEAD"
    log.write_text(log.read_text() + "x" * (20 << 20))
    with opened(scene) as repository, pytest.raises(NotKnown, match="too much"):
        list(map(repository.revision, ["HEAD@{1}"] * 20))


@pytest.mark.sample(1)
@pytest.mark.parametrize("line", ["\n", "[\n", " ", "worktree = a" + " " * 1000, "[branch \n"])
def test_settings_that_are_long(scene: Path, line: str) -> None:
    with (scene / ".git/config").open("a") as file:
        file.write("[x]\n" + line * (900_000 // len(line)) + "x")
    with pytest.raises(NotKnown), opened(scene) as repository:
        repository.revision("nothing@{u}")


@pytest.mark.parametrize("line", ["[core] worktree = /x", "[extensions] objectFormat = sha256", "\t[core]worktree=/x"])
def test_settings_beside_the_name_of_their_section(scene: Path, line: str) -> None:
    with (scene / ".git/config").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(NotKnown), opened(scene):
        pass


@pytest.mark.parametrize("said", ["a\0b", "x" * 8000, "../.."])
def test_a_common_folder_that_can_not_be(scene: Path, said: str) -> None:
    (scene / ".git/commondir").write_text(said)
    with pytest.raises(NotKnown), opened(scene) as repository:
        repository.tree_of(repository.revision("HEAD"))


def test_paths_of_a_length_that_no_file_has(git: Git, scene: Path) -> None:
    tree = git("mktree", given=f"100644 blob {git('rev-parse', 'HEAD:a').strip()}\tx\n".encode()).strip()
    for _ in range(30):
        tree = git("mktree", given="".join(f"040000 tree {tree}\t{n}{'n' * 200}\n" for n in "ab").encode()).strip()
    with opened(scene) as repository, pytest.raises(NotKnown, match="length"):
        list(repository.differences(None, bytes.fromhex(tree)))


@pytest.mark.parametrize("form", ["replace", "packed-replace", "grafts", "worktree", "sha256", "reftable"])
def test_repositories_of_other_forms(git: Git, scene: Path, form: str) -> None:
    folder = scene / ".git"
    match form:
        case "replace" | "packed-replace":
            git("replace", "HEAD", "HEAD~1")
            if form != "replace":
                git("pack-refs", "--all")
        case "grafts":
            (folder / "info/grafts").write_text(git("rev-parse", "HEAD"))
        case "worktree":
            git("config", "core.worktree", "/somewhere/else")
        case "sha256":
            shutil.rmtree(folder)
            git("init", "-q", "--object-format=sha256")
        case "reftable":
            git("config", "extensions.refStorage", "reftable")
    with pytest.raises(NotKnown), opened(scene):
        pass


def test_the_end_of_a_shallow_clone(git: Git, scene: Path) -> None:
    git("clone", "-q", "--depth", "1", f"file://{scene}", "../shallow")
    with opened(scene.parent / "shallow") as repository:
        assert repository.commit(repository.revision("HEAD")).parents == ()


def test_further_worktrees_and_submodules(git: Git, scene: Path) -> None:
    git("worktree", "add", "-q", "../wt", "feature/x")
    other = scene.parent / "other"
    other.mkdir()
    git("init", "-q", "-b", "main", at=other)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", os.fspath(scene), "module", at=other)
    for top, words in (
        (scene.parent / "wt", ("HEAD", "main", "v1.0", "@{-0}")),
        (other / "module", ("HEAD", "origin/main")),
    ):
        with opened(top / "sub" if (top / "sub").is_dir() else top) as repository:
            assert repository.top == os.fspath(top)
            for word in words[:2]:
                assert repository.revision(word).hex() == git("rev-parse", word, at=top).strip()


def test_no_repository(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/.git").write_text("nonsense")
    with pytest.raises(NotKnown), opened(tmp_path / "plain"):
        pass


def test_what_is_no_folder_of_the_work_tree(scene: Path) -> None:
    with pytest.raises(NotKnown), opened(scene / ".git/refs"):
        pass


def history(git: Git, seed: int) -> None:
    """Forty commits with up to three parents, at times that are not always later, and four branches."""
    chance = random.Random(seed)
    lines: list[str] = []
    for n in range(1, 41):
        parents = chance.sample(range(1, n), min(n - 1, chance.choice([1, 1, 1, 2, 3])))
        lines += [
            f"commit refs/heads/b{n % 4}",
            f"mark :{n}",
            f"committer a <a@b> {1000 + n + chance.randint(-3, 3)} +0000",
        ]
        lines += ["data 1", "x"]
        lines += [f"{'from' if not k else 'merge'} :{parent}" for k, parent in enumerate(parents)]
        lines += [f"M 100644 inline f{n % 7}", f"data {len(str(n))}", str(n), ""]
        lines += [f"reset refs/tags/t{n}", f"from :{n}", ""]
    git("fast-import", "--quiet", "--force", given="\n".join(lines).encode())


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(3))
def test_merge_bases_and_ranges(git: Git, top: Path, seed: int) -> None:
    history(git, seed)
    chance = random.Random(seed)
    with opened(top) as repository:
        for _ in range(40):
            one, other = (f"t{chance.randint(1, 40)}" for _ in range(2))
            first, second = repository.revision(one), repository.revision(other)
            bases = git("merge-base", "--all", one, other, fails=True).split()
            assert sorted(each.hex() for each in repository.merge_bases(first, second)) == sorted(bases)
            between = git("rev-list", f"{one}..{other}").split()
            assert sorted(each.hex() for each in repository.between([first], [second])) == sorted(between)


PARTS = st.sampled_from(
    [
        b"a",
        b"b",
        b"c",
        b".vscode",
        b"tasks.json",
        b"x y",
        "ü".encode(),
        b"a-b",
        b"a.b",
        b"-x",
        b"#",
        b'"',
        b"\\",
        b"\n",
        b"\t",
        b"\xff",
        b"a\x01",
        b"*",
        b"A",
        b" ",
        b"a" * 255,
    ]
)
NAMES = st.lists(PARTS, min_size=1, max_size=4).map(b"/".join)
MODES = st.sampled_from(["100644", "100755", "120000", "160000"])
CONTENTS = st.sampled_from("xyz") | st.sampled_from("xyz").map(lambda each: "line\n" * 400 + each)  # worth a delta
TREES = st.dictionaries(NAMES, st.tuples(MODES, CONTENTS))


def quoted(name: bytes) -> str:
    return '"' + "".join(f"\\{byte:03o}" for byte in name) + '"'


def imported(files: dict[bytes, tuple[str, str]], branch: str) -> str:
    lines = [f"commit refs/heads/{branch}", "committer a <a@b> 1000 +0000", "data 1", "x", "deleteall"]
    for name, (mode, content) in files.items():
        if any(other.startswith(name + b"/") for other in files):
            continue
        if mode == "160000":
            lines.append(f"M 160000 {'1' * 39}{ord(content[-1]) % 10} {quoted(name)}")
        else:
            content = content[-1] if mode == "120000" else content
            lines += [f"M {mode} inline {quoted(name)}", f"data {len(content)}", content]
    return "\n".join([*lines, "", ""])


@settings(max_examples=extent.examples(100), deadline=None)
@given(one=TREES, same=TREES, other=TREES, how=st.sampled_from(["import", "packed", "loose", "both"]))
def test_two_trees_differ_where_git_says_so(
    one: dict[bytes, tuple[str, str]],
    same: dict[bytes, tuple[str, str]],
    other: dict[bytes, tuple[str, str]],
    how: str,
) -> None:
    if shutil.which("git") is None:
        pytest.skip("no git here")
    with tempfile.TemporaryDirectory() as name:

        def git(*words: str, given: bytes = b"") -> bytes:
            done = subprocess.run(
                ["git", *words], cwd=name, env=ENVIRONMENT, input=given, check=True, capture_output=True
            )
            return done.stdout

        git("init", "-q")
        for tree, branch in ((one | same, "one"), (other | same, "other")):
            git("fast-import", "--quiet", given=imported(tree, branch).encode())
            if how == "packed" or (how == "both" and branch == "one"):
                git("repack", "-adfq", "--depth=50")
        if how in ("loose", "both"):
            for pack in list(Path(name).glob(".git/objects/pack/*.pack"))[how == "both" :]:
                data = pack.read_bytes()
                for part in Path(name).glob(f".git/objects/pack/{pack.stem}.*"):
                    part.unlink()
                git("unpack-objects", "-q", given=data)
        said = git("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "one", "other")
        fields = os.fsdecode(said).split("\0")[:-1]
        expected = {path: about.split()[1:4:2] for about, path in zip(fields[::2], fields[1::2], strict=True)}
        with opened(Path(name)) as repository:
            trees = [repository.tree_of(repository.revision(each)) for each in ("one", "other")]
            found = {path: new for path, _, new in repository.differences(*trees)}
            assert {
                path: ["000000", "0" * 40] if new is None else [f"{new[0]:06o}", new[1].hex()]
                for path, new in found.items()
            } == expected
            for path, new in found.items():
                entry = repository.entry(trees[1], path)
                assert new == (entry if entry is not None and entry[0] != 0o040000 else None)
