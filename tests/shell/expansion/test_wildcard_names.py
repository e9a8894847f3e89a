"""Wildcards become the names that bash would list, and only where nothing in the action may have changed them."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell import DiskReader, Program, SimpleCommand, analyse, known_by
from tests.support.extent import examples

C = {"LC_ALL": "C", "HOME": "/home/me", "PATH": "/usr/bin:/bin"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.md", "b.md", "src/x.py", "src/y.py", "docs/c d.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def read(command: str, folder: Path, environ: dict[str, str] | None = None, closed: bool = True) -> Program:
    given = C if environ is None else environ
    return analyse(command, cwd=str(folder), environ=given, closed=closed, reader=DiskReader(folder))


def last(command: str, folder: Path) -> SimpleCommand:
    return read(command, folder).commands[-1]


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("wc -l *.md", ["wc", "-l", "a.md", "b.md"]),
        ("wc -l src/*.py", ["wc", "-l", "src/x.py", "src/y.py"]),
        ("wc -l ./?.md", ["wc", "-l", "./a.md", "./b.md"]),
        ("wc -l do*/*", ["wc", "-l", "docs/c d.md"]),
        ('wc -l "docs"/*.md', ["wc", "-l", "docs/c d.md"]),
        ("wc -l {src,docs}/*", ["wc", "-l", "src/x.py", "src/y.py", "docs/c d.md"]),
        ("cd src && wc -l *.py", ["wc", "-l", "x.py", "y.py"]),
        ("x=*.md; wc -l $x", ["wc", "-l", "a.md", "b.md"]),
        ("cd src; cd ..; mkdir -p out; wc -l *.md", ["wc", "-l", "a.md", "b.md"]),
        ("cd gone; cd ..; wc -l *.md", ["wc", "-l", "*.md"]),  # the first `cd` fails, or something has made its folder
        ("mkdir -p out && wc -l *.md", ["wc", "-l", "a.md", "b.md"]),
        ("echo x > out.txt; wc -l *.md", ["wc", "-l", "a.md", "b.md"]),
        ("cat a.md | wc -l *.md", ["wc", "-l", "a.md", "b.md"]),
        ("eval 'wc -l *.md'", ["wc", "-l", "a.md", "b.md"]),
        ("x=$(touch c.md) wc -l *.md", ["wc", "-l", "a.md", "b.md"]),  # the words come before the assignments
        ("wc -l no*", ["wc", "-l", "no*"]),
    ],
)
def test_words(command: str, argv: list[str], folder: Path) -> None:
    assert [c.argv for c in read(command, folder).commands if c.program == "wc"][-1] == argv


@pytest.mark.parametrize(
    "before",
    [
        "touch c.md",
        "touch -- -rf.md",
        "mkdir c.md",
        "echo x > c.md",
        "> c.md",
        "rm a.md",
        "mv a.md a.txt",
        "cp a.md c.md",
        "ln -s /etc l",
        "ln -s src docs2",
        "chmod 000 .",
        "tar xf a.tar",
        "git checkout main",
        "unzip a.zip",
        "pytest",
        "make",
        "python3 x.py",
        "./x",
        "unknown-program",
        "curl -O https://example.com/c.md",
        "exec 3> c.md",
        "f() { touch c.md; }; f",
        "trap 'touch c.md' EXIT",
        "(sleep 1; touch c.md) &",
        "true <(touch c.md)",
        "tee c.md < a.txt",
        "sed -i s/a/b/ a.md",
        'touch "$(date)"',
        "shopt -s failglob",
        "GLOBIGNORE=a.md",
        'cd "$(date)"',
        "source ./x",
    ],
)
def test_what_comes_before_may_change_the_names(before: str, folder: Path) -> None:
    program = read(f"{before}\nwc -l *.md", folder)
    assert [c.argv for c in program.commands if c.program == "wc"][-1] == ["wc", "-l", "*.md"]
    assert not [path for path, _ in program.files if known_by(path)]


@pytest.mark.parametrize(
    "command",
    [
        "wc -l *.md $(touch c.md)",
        "wc -l $(touch c.md) *.md",
        "wc -l *.md <(touch c.md)",
        "wc -l *.md | tee c.md",
        "grep() { touch c.md; }; wc -l *.md | grep x",
        "wc -l *.md | sort > c.md",
        "wc -l *.md | xargs touch",
        "wc -l *.md | sh",
        "{ wc -l *.md; } > c.md",
        "wc -l *.md & touch c.md",
        "for i in 1 2; do wc -l *.md; touch c$i.md; done",
        "f() { wc -l *.md; }; touch c.md; f",
        "trap 'wc -l *.md' EXIT; touch c.md",
        "true <(wc -l *.md); touch c.md",
        "bash -c 'wc -l *.md'",
        "bash -O dotglob -c 'wc -l *'",
        "bash -f -c 'wc -l *.md'",
        "sudo bash -c 'wc -l *.md'",
        "sh -c 'wc -l *.md'",
        "ssh host 'wc -l *.md'",
        """python3 -c "import os; open('c.md', 'w'); os.system('wc -l *.md')" """,
        "find . -exec bash -c 'wc -l *.md' \\;",
        "wc -l $RANDOM*.md",
        "wc -l **/*.md",
        "wc -l [a-b].md",
    ],
)
def test_what_runs_at_the_same_time_may_too(command: str, folder: Path) -> None:
    program = read(command, folder)
    assert not [path for path, _ in program.files if known_by(path)]
    assert not any("a.md" in command.argv for command in program.commands)


@pytest.mark.parametrize("later", ["wc -l", "grep x", "head -3 > out.txt", "sort -r | uniq -c 2>&1", "cat > ../c.txt"])
def test_a_part_that_makes_no_such_name_may_run_beside(later: str, folder: Path) -> None:
    assert read(f"cat *.md | {later}", folder).commands[0].argv == ["cat", "a.md", "b.md"]


@pytest.mark.parametrize(
    ("name", "command", "flags"),
    [
        ("-rf", "rm *", {"recursive", "force"}),
        ("--checkpoint-action=exec=sh x", "tar cf ../x.tar *", {"checkpoint-action"}),
        ("--reference=b.md", "chown me *", {"reference"}),
        ("-o", "sort *", {"output"}),
    ],
)
def test_a_name_that_is_an_option_is_one(name: str, command: str, flags: set[str], folder: Path) -> None:
    (folder / name).touch()
    assert read(command, folder).commands[0].flags >= flags


def test_an_option_of_which_the_place_is_not_known_stays_in_doubt(folder: Path) -> None:
    (folder / "-o").touch()
    command = read("sort *", folder, {"LC_ALL": "de_DE.UTF-8"}).commands[-1]
    assert not command.resolved


@pytest.mark.parametrize(("environ", "closed"), [({"LANG": "de_DE.UTF-8"}, True), ({}, False)])
def test_names_of_which_the_order_is_not_known(environ: dict[str, str], closed: bool, folder: Path) -> None:
    command = read("sort *.md", folder, environ, closed).commands[-1]
    assert command.argv == ["sort", "*.md"]
    assert command.resolved
    assert [(e.kind, e.operand, e.resolved) for e in command.effects] == [
        ("read", f"{folder}/a.md", True),
        ("read", f"{folder}/b.md", True),
    ]
    ends = read("cp *", folder, environ, closed).commands[-1]
    assert {e.operand for e in ends.effects if e.kind == "write"} >= {f"{folder}/a.md", f"{folder}/src"}


def test_names_are_many(folder: Path) -> None:
    for number in range(200):
        (folder / f"{number}.log").touch()
    command = last("sort *.log", folder)
    assert command.argv == ["sort", "*.log"]
    assert command.resolved
    assert command.effects[0].pattern == f"{folder}/*.log"
    (folder / "-o.log").touch()
    assert not last("sort *.log", folder).resolved


def test_what_was_listed_is_part_of_what_was_judged(folder: Path) -> None:
    files = read("sort *.md; cat *.md src/*", folder).files
    assert [path for path, _ in files] == [f"{folder}//*.md", f"{folder}//src/*"]
    assert [DiskReader.digest(path) for path, _ in files] == [sha256 for _, sha256 in files]


@pytest.mark.parametrize("command", ["rm -rf *", "rm -rf src/*", "mv * ..", "chmod -R 777 ./*"])
def test_to_take_all_is_more_than_to_take_each(command: str, folder: Path) -> None:
    effects = [e for e in last(command, folder).effects if e.kind in ("delete", "move", "metadata")]
    assert [e for e in effects if e.contents]


def test_a_script_among_the_names_is_read(folder: Path) -> None:
    (folder / "run.sh").write_text("rm -rf /srv/other\n")
    program = read("bash *.sh", folder)
    assert ("delete", "/srv/other") in [(e.kind, e.operand) for c in program.commands for e in c.effects]


def test_a_loop_over_names(folder: Path) -> None:
    effects = [e for c in read('for f in *.md; do rm "$f"; done', folder).commands for e in c.effects]
    assert {(e.kind, e.operand) for e in effects} == {("delete", f"{folder}/a.md"), ("delete", f"{folder}/b.md")}


_NAMES = st.sampled_from(
    ["a", "b.md", "-n", "c d", "x\ny", "é", ".h", "[a]", "*", "z.py", "--", "$x", "'q'", "\\", "A"]
)
_BEFORE = st.sampled_from(
    ["", "true; ", "mkdir -p new; ", "cd sub; ", "cd sub && ", "echo > new.txt; ", "x=1; ", "touch -- -q; "]
)
_WORDS = st.sampled_from(
    ["*", "*.md", "?", "sub/*", "[ab]*", "./*", '"$PWD"/*', "*/", "*a*", "{a,b}*", "'x'", "-", "new*"]
)


@pytest.mark.long
@settings(max_examples=examples(400))
@given(
    names=st.sets(_NAMES, max_size=5),
    below=st.sets(_NAMES, max_size=3),
    before=_BEFORE,
    words=st.lists(_WORDS, min_size=1, max_size=3),
)
def test_the_words_are_those_that_bash_makes(
    names: set[str], below: set[str], before: str, words: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("made")
    (folder / "sub").mkdir()
    for path in [*(folder / name for name in names), *(folder / "sub" / name for name in below)]:
        path.touch()
    environ = C | {"PWD": str(folder), "LC_ALL": "C.UTF-8"}
    command = f"{before}printf '%s\\0' {' '.join(words)}"
    found = read(command, folder, environ).commands[-1]
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", command], cwd=folder, env=environ, capture_output=True, check=True
    )
    if all(field.text is not None for field in found.words):
        assert found.argv[2:] == [os.fsdecode(word) for word in done.stdout.split(b"\0")[:-1]]


_MOVES = st.sampled_from(
    [
        "src", "./src", "docs", "..", "src/..", "../src", "gone", "link", "link/..", "a.md", "shut", "-", "-P", "--", ".",
        "/", "", "src docs", "'c d'", "-L src", "gone/../docs", "a.md/../docs", "back", "src/src/..", "$PWD/gone/../src",
    ]
)  # fmt: skip
_CHANGES = st.sampled_from(
    [
        "true", "mkdir -p gone", "rm -rf src", "rm -r src/src", "mv src gone", "ln -sfn docs src", "ln -sfn src gone", "chmod 0 src",
        "readonly PWD", "declare -r OLDPWD", "CDPATH=docs", "x=1", "touch src/new", "cd() { :; }", "alias cd=true",
        "shopt -s cdable_vars; gone=docs", "set -r", "! :", "cd src && true", "cd src || true", "{ cd src; }", "(cd src)",
        "if cd src; then cd ..; fi", "for d in src; do cd $d; done", "rmdir docs &",
    ]
)  # fmt: skip


@pytest.mark.long
@settings(max_examples=examples(400), deadline=None)
@given(
    moves=st.lists(st.one_of(st.builds("cd {}".format, _MOVES), _CHANGES), min_size=1, max_size=4),
    sign=st.sampled_from("\n;"),
)
def test_a_command_runs_where_it_is_said_to(
    moves: list[str], sign: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Where the disk shows a folder, `cd` does not fail: then what comes after it runs there and nowhere else."""
    folder = tmp_path_factory.mktemp("moved").resolve()
    for name in ("src/src", "docs", "c d", "shut"):
        (folder / name).mkdir(parents=True)
    (folder / "a.md").touch()
    (folder / "link").symlink_to("src/src")
    (folder / "back").symlink_to("src/src/../../docs")
    environ = C | {"PWD": str(folder)}
    command = f" {sign} ".join([*moves, "pwd"])
    program = read(command, folder, environ)
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", command], cwd=folder, env=environ, capture_output=True, text=True
    )
    where = program.commands[-1].cwd
    if program.status == "ok" and where is not None and (said := done.stdout.splitlines()[-1:]):
        assert said[0] in where, done.stderr


@pytest.mark.parametrize(
    ("command", "folders"),
    [
        ("cd src\npwd", ["src"]),
        ("cd src; pwd", ["src"]),
        ("cd src && true; pwd", ["src"]),
        ("cd src; cd ../docs; pwd", ["docs"]),
        ("touch src/new; cd src; pwd", ["src"]),
        ("(cd src; pwd)", ["src"]),
        ("cd gone; pwd", ["gone", ""]),
        ("cd a.md; pwd", ["a.md", ""]),
        ("cd src | true; pwd", [""]),
        ("rm -r src; cd src; pwd", ["src", ""]),
        ("mv src x; cd src; pwd", ["src", ""]),
        ("chmod 0 src; cd src; pwd", ["src", ""]),
        ("./x; cd src; pwd", ["src", ""]),
        ("./x & cd src; pwd", ["src", ""]),
        ("readonly PWD; cd src; pwd", ["src", ""]),
        ("readonly PWD; cd src || pwd", ["src", ""]),
        ("cd gone/../src; pwd", ["src", ""]),
        ("cd a.md/../src; pwd", ["src", ""]),
        ("cd src > no/such; pwd", ["src", ""]),
        ("f() { cd src; pwd; }; f", ["src", ""]),
    ],
)
def test_where_a_command_runs_after_cd(command: str, folders: list[str], folder: Path) -> None:
    where = last(command, folder).cwd
    assert where is not None
    assert {str(folder / name) for name in folders} == set(where)


def test_that_a_folder_is_there_is_part_of_what_was_judged(folder: Path) -> None:
    ((path, before),) = read("cd src; pwd", folder).files
    assert DiskReader.digest(path) == before
    (folder / "src").rename(folder / "other")
    assert DiskReader.digest(path) != before
    assert read("cd other && pwd", folder).files == []  # nothing comes after it


def test_lists_are_few_and_words_are_not_without_end(folder: Path) -> None:
    for number in range(90):
        (folder / f"{number}.log").touch()
    program = read(f"cat {' '.join(f'[0-9]*{letter}*' for letter in 'abcdefghijklmnopqrstuvwxyz')}", folder)
    assert sum(known_by(path) is not None for path, _ in program.files) == 20
    program = read(f"cat {' '.join(['*.log'] * 100)}", folder)
    assert program.status == "ok"
    assert len(program.commands[0].effects) < 2_500
    assert program.commands[0].argv[-1] == "*.log"
