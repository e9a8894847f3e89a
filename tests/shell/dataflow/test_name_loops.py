"""Names that a program prints, in loops and in quotes: what a variable that holds one of them stands for."""

from pathlib import Path

import pytest

from humanlayer_agent.shell import DiskReader, Effect, analyse
from tests.shell.dataflow.test_name_sources import FILES, repository

PYTHON = {"a.py", "src/b.py", "src/deep/c.py"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return repository(tmp_path / "project")


def effects(command: str, tree: Path, program: str = "cat") -> list[Effect]:
    read = analyse(command, cwd=str(tree), environ={}, reader=DiskReader(tree))
    return [effect for each in read.commands if each.program == program for effect in each.effects]


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ('for f in $(git ls-files); do cat "$f"; done', set(FILES)),
        ("for f in $(git ls-files '*.py'); do echo \"== $f\"; cat $f; done", PYTHON),
        ('for f in $(git grep -l x | head -3); do if grep -q y "$f"; then cat "${f}"; fi; done', set(FILES)),
        ("git ls-files '*.py' | while read -r f; do cat \"$f\"; done", PYTHON),
        ("git ls-files -z '*.py' | while IFS= read -r -d '' f; do cat \"$f\"; done", PYTHON),
        ('git ls-files \'*.py\' | sort | while IFS= read f; do n=$(cat < "$f"); cat "$f"; done 2>/dev/null', PYTHON),
        ("while read -r f; do cat \"$f\"; done < <(git ls-files '*.py' | grep -v test)", PYTHON),
        ("cat \"$(git ls-files '*.py' | head -1)\"", PYTHON),
        ('cat "$(ls)"', {"README.md", "a.py", "src"}),
        ("f=$(git ls-files '*.py' | head -1) && n=1; cat \"$f\"", PYTHON),
        ("files=$(git ls-files '*.py'); grep -c x $files; if true; then cat $files; fi", PYTHON),
    ],
)
def test_these_files_are_read(command: str, names: set[str], tree: Path) -> None:
    found = effects(command, tree)
    assert all(effect.resolved for effect in found)
    assert {str(Path(str(effect.operand)).relative_to(tree)) for effect in found} == names


@pytest.mark.parametrize(
    "command",
    [
        "for f in $(find . -name '*.py'); do cat \"$f\"; done",
        "find src -name '*.py' | while read -r f; do cat \"$f\"; done",
        "find . -name '*.py' -print0 | while read -r -d '' f; do cat \"$f\"; done",
        "cat \"$(find . -name '*.py' | head -1)\"",
    ],
)
def test_some_path_below_the_folder_is_read(command: str, tree: Path) -> None:
    found = effects(command, tree)
    assert found
    assert all((effect.pattern or "").startswith(f"{tree}/") for effect in found)


@pytest.mark.sample(21)
@pytest.mark.parametrize(
    "command",
    [
        # Something else may stand where the names lead, or other names be printed meanwhile.
        'for f in $(git ls-files); do rm "$f"; ln -s /etc/passwd "$f"; cat "$f"; done',
        'for f in $(git ls-files); do cp -P l "$f"; cat "$f"; done',
        'for f in $(git ls-files); do cat "$f" "${x:-$(ln -sf /etc/passwd a.py)}"; done',
        'for f in $(git ls-files); do sh x; cat "$f"; done',
        'for f in $(git ls-files); do $x; cat "$f"; done',
        'rm() { ln -sf /etc/passwd a.py; }; for f in $(git ls-files); do rm "$f"; cat "$f"; done',
        'for f in $(git ls-files); do g() { ln -sf /etc/passwd a.py; }; cat "$f"; done',
        'while :; do ln -sf /etc/passwd a.py; for f in $(git ls-files); do cat "$f"; done; done',
        'while :; do ln -sf /etc/passwd a.py; while read -r f; do cat "$f"; done < <(git ls-files); done',
        'git ls-files | while read -r x; do ln -sf /etc/passwd a.py; while read -r f; do cat "$f"; done; done',
        'git ls-files | { ln -sf /etc/passwd a.py; while read -r f; do cat "$f"; done; }',
        'git ls-files | while read -r f; do cat "$f"; done | (ln -sf /etc/passwd a.py)',
        "find . -type f | while read -r f; do touch 'x /etc/passwd'; cat $f; done",
        "find . -type f | while read -r f; do echo > 'x /etc/passwd'; cat $f; done",
        'while read -r f; do cat "$f"; done < <(git ls-files; ln -sf /etc/passwd a.py)',
        # The variable holds another text, or one of which this is a part.
        'for f in $(git ls-files); do f=/etc/passwd; cat "$f"; done',
        'for f in $(git ls-files); do cd /etc; cat "$f"; done',
        'for f in $(git ls-files); do cat "../$f"; done',
        'for f in $(git ls-files); do cat "$f/../../x"; done',
        'for f in $(git ls-files) /etc/passwd; do cat "$f"; done',
        'IFS=/; for f in $(git ls-files); do cat "$f"; done',
        "for f in $(git ls-files); do IFS=s; cat $f; done",
        'for f in $(git ls-files); do cat "${f#*/}"; done',
        "find . -print0 | while read -r -d '' f; do cat $f; done",
        "find . -print0 | while read -d '' f; do cat \"$f\"; done",
        'git ls-files | while IFS=y read -r f; do cat "$f"; done',
        'git ls-files | while read -r a f; do cat "$f"; done',
        'git ls-files | while read -r -u 3 f; do cat "$f"; done',
        'git ls-files | until read -r f; do cat "$f"; done',
        'declare -n f=g; git ls-files | while read -r f; do cat "$f"; done',
        'cat "$(git ls-files; echo /etc/passwd)"',
        'cat "x$(git ls-files)"',
        'for f in $(git ls-files); do read f; cat "$f"; done',
        'for f in $(git ls-files); do printf -v f /etc/passwd; cat "$f"; done',
        'git ls-files | while read -r f; do read -r f; cat "$f"; done < x',
        'IFS=0123456789; for f in a$RANDOM/etc/shadow; do cat "$f"; done',
        # What was assigned may be something else by now, or be more than it.
        'f=$(git ls-files); ln -sf /etc/passwd a.py; cat "$f"',
        'f=$(git ls-files); ln -sf /etc/passwd a.py & cat "$f"',
        "f=$(git ls-files); sh x; cat $f",
        'f=$(git ls-files); for i in 1 2; do cat "$f"; done',
        'f=$(git ls-files); g() { cat "$f"; }; ln -sf /etc/passwd a.py; g',
        "export f=$(git ls-files); bash -c 'cat \"$f\"'",
        "f=$(git ls-files); export f; bash -c 'ln -sf /etc/passwd a.py; cat \"$f\"'",
        'f=$(git ls-files); cd /etc; cat "$f"',
        'f=$(git ls-files); f+=/../../x; cat "$f"',
        'if x; then f=$(git ls-files); else f=/etc/shadow; fi; cat "$f"',
        'f=x$(git ls-files); cat "$f"',
        'f=$(git ls-files) g=$(ln -sf /etc/passwd a.py); cat "$f"',
        "f=$(git ls-files; echo /etc/shadow); cat $f",
        "f=$(git ls-files) > x; cat $f",
        'declare -u f; f=$(git ls-files); cat "$f"',
        'readonly f; f=$(git ls-files); cat "$f"',
        'declare -n f=g; f=$(git ls-files); cat "$f"',
        # After the loop it may mean something else.
        'for f in $(git ls-files); do :; done; ln -sf /etc/passwd a.py; cat "$f"',
        'f=a.py; for f in $(git ls-files); do :; done; ln -sf /etc/passwd a.py; cat "$f"',
        'git ls-files | { while read -r f; do :; done; ln -sf /etc/passwd a.py; cat "$f"; }',
    ],
)
def test_nothing_is_known(command: str, tree: Path) -> None:
    found = effects(command, tree)
    certainly_secret = any(effect.operand == "/etc/passwd" for effect in found)
    assert certainly_secret or (found and not all(effect.resolved for effect in found))


def test_a_name_that_leads_out_is_not_read_as_one_of_the_project(tree: Path) -> None:
    (tree / "out.py").symlink_to("/etc/passwd")
    for command in ("for f in $(find . -name '*.py'); do cat \"$f\"; done", 'for f in $(ls); do cat "$f"; done'):
        found = effects(command, tree)
        assert not all(effect.resolved for effect in found) or any(e.operand == "/etc/passwd" for e in found)
