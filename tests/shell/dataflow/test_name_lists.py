"""Names that find prints, and what takes them."""

from pathlib import Path

import pytest

from humanlayer_agent.shell import DiskReader, analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.reader import Reader


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which names in `odd` would be split."""
    root = tmp_path_factory.mktemp("names")
    for name in ("src/a.py", "src/deep/b.py", "odd/x y.md", "odd/plain.py", "odd folder/c.rst"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    return root


def known(command: str, tree: Path, reader: Reader | None = None) -> bool:
    """Whether all is understood that the last command does."""
    last = analyse(command, cwd=str(tree), environ={}, reader=reader or DiskReader(tree)).commands[-1]
    return last.resolved and all(effect.operand is not None or effect.below for effect in last.effects)


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.py' | xargs wc -l",
        "find src odd -type f -name '*.py' | xargs -r grep -n 'a b'",
        "find . -name '*.py' | grep -v test | sort | head -5 | xargs wc -l",
        "find . -name '*.py' | xargs -I{} cp {} out/",
        "find . -name '*.py' -o -name '*.js' | xargs sed -i 's/a b/c/'",
        "find . -path ./x -prune -o -name '*.py' -print | xargs -n1 wc -l",
        "find src -name '*.py' | xargs -d '\\n' wc -l",
        "mkdir -p out; find . -name '*.py' | xargs wc -l",
    ],
)
def test_names_that_are_not_split_are_known(command: str, tree: Path) -> None:
    assert known(command, tree)
    assert not known(command, tree, GivenReader({}))  # nobody can say how the disk looks


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.md' | xargs wc -l",
        "find . -name '*.rst' | xargs wc -l",
        "find . | xargs wc -l",
        "touch 'x /etc/passwd.py'; find . -name '*.py' | xargs wc -l",
        "touch \"$NAME\"; find . -name '*.py' | xargs wc -l",
        "cp -r /srv/other .; find . -name '*.py' | xargs wc -l",
        "./make-names; find . -name '*.py' | xargs wc -l",
        "for i in 1 2; do find . -name '*.py' | xargs wc -l; done",
        "find . -name '*.py' -printf '%p /etc/passwd\\n' | xargs wc -l",
        "find . -name '*.py' -exec echo {} /etc/passwd \\; | xargs wc -l",
        "find . -name '*.py' | cut -c2- | xargs wc -l",
        "find . -name '*.py' | head -c 20 | xargs wc -l",
        "find . -name '*.py' | grep -o '/.*' | xargs wc -l",
        "find . -name '*.py' | grep -n x | xargs wc -l",
        "find . -name '*.py' | sort - /etc/passwd | xargs wc -l",
        "find . -name '*.py' | xargs -0 wc -l",
        "find . -name '*.py' | head -5 <<< /etc/passwd | xargs wc -l",
        "find . -name '*.py' 2>&1 | xargs wc -l",
        "find . -name '[[:alpha:]]*' | xargs wc -l",
        "find . -name '*.py' | xargs -d p wc -l",
        "find . -name '*.py' | xargs -I{} touch '{} /etc/passwd'",
        "find . -name '*.py' | xargs -n1 sh -c 'touch \"$0 /etc/passwd.py\"'",
        "find -L . -name '*.py' | xargs wc -l",
        "find . -print -name '*.py' | xargs wc -l",
        "find . \\( -name '*.py' -o -print \\) -name '*.py' | xargs wc -l",
        "find . -name '*.py' -o -type f | xargs wc -l",
        "find . ! -name '*.py' | xargs wc -l",
        "find . -path ./x -prune -o -name '*.py' | xargs wc -l",
    ],
)
def test_others_are_not(command: str, tree: Path) -> None:
    assert not known(command, tree)


@pytest.mark.parametrize(
    "command",
    [
        "find . -name passwd -exec sh -c 'cd /etc; cat \"$1\"' _ {} \\;",
        "find . -name passwd -exec env -C /etc cat {} +",
        "find . -name passwd -exec tar -C /etc -cf x.tar {} +",
        "find . -name passwd -print0 | xargs -0 env -C /etc cat",
        "find . -name passwd -execdir env -C ../../../etc cat {} +",
        "find . -name passwd -execdir sh -c 'cd /etc; cat $0' {} \\;",
        "find . -type f -exec env -C /etc cat {} +",
    ],
)
def test_what_is_found_from_here_is_another_file_elsewhere(command: str, tree: Path) -> None:
    effects = [e for c in analyse(command, cwd=str(tree), environ={}).commands for e in c.effects if e.kind == "read"]
    assert any(e.operand is None or e.operand.startswith("/etc") for e in effects)


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("-name '*.py'", "/./**/***.py"),
        ("-iname '*.Py'", "/./**/***.[pP][yY]"),
        ("-type f -name x", "/./**/x"),
        ("-not -path './a/*' -name '*.py'", "/./**/***.py"),
        ("-path ./x -prune -o -name '*.py' -print0", "/./**/***.py"),
    ],
)
def test_a_name_that_is_asked_for_is_what_is_deleted(expression: str, found: str, tree: Path) -> None:
    command = f"find . {expression} -delete" if "-print0" not in expression else f"find . {expression} | xargs -0 rm"
    effects = [e for c in analyse(command, cwd=str(tree), environ={}).commands for e in c.effects if e.kind == "delete"]
    assert [e.pattern for e in effects] == [f"{tree}{found}"]


@pytest.mark.parametrize(
    "expression",
    ["-delete -name '*.py'", "-name '*.py' -o -delete", "! -name '*.py' -delete", "-name '*.py' , -delete"],
)
def test_a_name_that_comes_too_late_narrows_nothing(expression: str, tree: Path) -> None:
    program = analyse(f"find . {expression}", cwd=str(tree), environ={})
    assert [e.pattern for c in program.commands for e in c.effects if e.kind == "delete" and e.pattern] == []
