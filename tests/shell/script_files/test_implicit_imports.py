"""Code that an action puts where something will load it: in plain, in pieces, or so that nobody can read it."""

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.program import Program

HARM = 'import os; os.system("touch /srv/x")'


def judge(command: str, files: dict[str, str] | None = None) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)


def unread(program: Program) -> bool:
    return any(e.unread for c in program.commands for e in c.effects)


def writes(program: Program, path: str) -> bool:
    return any(e.kind in ("write", "metadata") and e.operand == path for c in program.commands for e in c.effects)


@pytest.mark.parametrize(
    "command",
    [
        "cp notes.txt conftest.py; pytest", "mv notes.txt tests/test_a.py && python -m pytest tests", "ln -s a.txt conftest.py; pytest",
        "pytest; install a.txt conftest.py", "dd if=a.txt of=conftest.py; timeout 5 pytest", "mv a.txt x.py; python -c 'import x'",
        "cat a.txt | tee conftest.py; pytest", "echo 'x()' > a.test.js; npm test", "printf 'x' > build.ninja; ninja",
        "printf x > main.c; make", "echo x > x.syso; go test ./...", "echo x > go.work; go build -o x .",
        "printf x > vendor/modules.txt; go vet ./... && go test ./...", "printf '\\177ELF' > json.so; pytest",
        "gcc -c a.c -o a.o; make", "echo x > build.rs; cargo build", "go build -o conftest.py . ; pytest",
        "cargo build > src/main.rs", "go test -overlay a.json ./...", "go build -modfile a.mod -o x .",
        "cargo build --target ./a.json", "cp a.jar x.jar; javac -cp x.jar A.java", "base64 -d a > x.jar; javac -cp . A.java",
        "echo E > META-INF/services/javax.annotation.processing.Processor; javac A.java",
        "cp a.txt x.py; python -m unittest x", "rsync a.txt conftest.py; bash -c pytest", "cp a.txt pytest.ini; pytest",
    ],
)  # fmt: skip
def test_what_loads_code_that_nobody_could_read_is_unread(command: str) -> None:
    assert unread(judge(command)), command


@pytest.mark.parametrize(
    "command",
    [
        "sed -i s/a/b/ x.py; pytest", "cp old.py new.py; pytest", "git checkout x.py; pytest", "echo 'x = 1' > x.py; pytest",
        "printf x > main.c; pytest", "go build -o x . && go test ./...", "go build -o /dev/null ./...",
        "echo 'class A {}' > A.java; javac -cp .:lib/a.jar A.java", "javac -d out A.java; javac -cp out B.java",
        "cargo build && cargo test", "cargo clippy --all-targets", "gcc -o x a.c && make",
        "cp a.txt b.txt; pytest", "black x.py && pytest", "pytest > log.txt", "touch tests/__init__.py; pytest",
        "cat > x.py <<'E'\nf(a=~b)\nE\npytest", "mv test_a.py test_b.py; pytest", "git show HEAD:x.py > y.py",
    ],
)  # fmt: skip
def test_code_that_was_judged_before_is_read(command: str) -> None:
    assert not unread(judge(command)), command


@pytest.mark.parametrize(
    "command",
    [
        "cp notes.txt conftest.py",
        "mv a.txt Makefile",
        "ln -s a.txt x.sh",
        "base64 -d a > conftest.py", "rev a > x.sh", "tr a-z b-za < a > Makefile", "jq -r .x a.json > conftest.py",
        "git log -1 --format=%B > x.py", "(echo 'x = 1'; cat a.txt) > x.py", "cat a.txt | tee conftest.py",
        "awk '{print $1}' a > conftest.py", 'echo "$X" > conftest.py', "while read l; do echo \"$l\"; done < a > x.py",
    ],
)  # fmt: skip
def test_what_is_printed_into_code_is_unread(command: str) -> None:
    assert unread(judge(command)), command


@pytest.mark.parametrize(
    "command", ["cp a.py.bak a.py", "mv a.py a.py.orig", "cp a.txt b.txt", "cat a.py > b.py", "sed -n 1,5p a.py > b.py", "git show HEAD:a.py > b.py", "base64 -d a > x.png", "ls > a.txt", "> x.py"]
)  # fmt: skip
def test_code_from_code_and_other_files_are_not(command: str) -> None:
    assert not unread(judge(command)), command


@pytest.mark.parametrize(
    "command",
    [
        f"sed -i '1i {HARM}' conftest.py",
        f"sed -i '/^import re/a {HARM}' tests/conftest.py",
        f"sed -i '$a\\\n{HARM}' conftest.py",
        "sed -i 's/^import re/import os; os.system(\"touch \\/srv\\/x\")/' conftest.py",
        "sed -i 's|$|; os.system(\"touch /srv/x\")|' conftest.py",
        "sed -i '3i\\    os.system(\"touch /srv/x\")' a.py",
        f"git apply <<'X'\n--- a/conftest.py\n+++ b/conftest.py\n@@ -0,0 +1 @@\n+{HARM}\nX",
        f"patch -p1 <<'X'\n--- a/conftest.py\n+++ b/conftest.py\n@@ -1 +1,2 @@\n a = 1\n+{HARM}\nX",
    ],
)
def test_a_piece_of_code_that_stands_in_the_command_is_judged(command: str) -> None:
    assert writes(judge(command), "/srv/x"), command


@pytest.mark.parametrize(
    "command",
    [
        "sed -i '5i\\    return os.path.join(a, b)' a.py", "sed -i 's/os.unlink(p)/os.remove(p)/' a.py", "sed -i '1i # rm -rf /srv/x' a.py",
        "sed -i '1i touch /srv/x' notes.txt", "sed -i 's/a/touch \\/srv\\/x/' a.py",
        "git apply <<'X'\n--- a/a.py\n+++ b/a.py\n@@ -1 +1,2 @@\n a = 1\n+    if broken(\n+        os.remove(path)\nX",
    ],
)  # fmt: skip
def test_only_what_is_certain_of_a_piece_counts(command: str) -> None:
    found = judge(command)
    assert not writes(found, "/srv/x")
    assert not unread(found)
    assert not any(e.kind == "delete" for c in found.commands for e in c.effects), command


@pytest.mark.parametrize(
    "command",
    [
        "printf '[pytest]\\naddopts = --basetemp=/srv/x\\n' > pytest.ini",
        "printf '[tool:pytest]\\naddopts =\\n    -q\\n    --basetemp=/srv/x\\n' > setup.cfg",
        'cat >> pyproject.toml <<E\n[tool.pytest.ini_options]\naddopts = "-q --basetemp=/srv/x"\nE',
        'cat > pyproject.toml <<E\n[tool.pytest.ini_options]\naddopts = ["-q", "--basetemp=/srv/x"]\nE',
    ],
)
def test_further_words_of_pytest_in_a_file_count(command: str) -> None:
    found = judge(command)
    assert any(e.kind == "delete" and e.operand == "/srv/x" for c in found.commands for e in c.effects)


def test_code_in_the_settings_of_a_linter_counts() -> None:
    assert writes(judge(f"printf '[MAIN]\\ninit-hook={HARM}\\n' > .pylintrc"), "/srv/x")


def test_settings_without_options_are_harmless() -> None:
    found = judge("cat > pyproject.toml <<E\n[project]\nname = 'x'\n[tool.pytest.ini_options]\nmarkers = ['a']\nE")
    assert [c.program for c in found.commands] == ["cat"]


@pytest.mark.parametrize("sign", ["=~", ":~"])
def test_a_tilde_in_a_heredoc_hides_nothing(sign: str) -> None:
    """Nothing expands a tilde there: the text is known, and judged."""
    assert writes(judge(f"cat > x.py <<'E'\n{HARM}\n# a{sign}b\nE"), "/srv/x")
    assert writes(judge(f"bash <<'E'\na{sign}b; touch /srv/x\nE"), "/srv/x")


def test_what_git_prints_is_not_the_projects_code() -> None:
    found = judge("git show HEAD~1:a > run.sh; bash run.sh", {"run.sh": "ls\n"})
    assert unread(found)


def test_more_pieces_than_are_judged_are_asked_about() -> None:
    hunks = "".join(f"@@ -{n} +{n},2 @@\n a = 1\n+b = {n}\n" for n in range(80))
    found = judge(f"patch a.py <<'X'\n--- a.py\n+++ a.py\n{hunks}X")
    assert not all(c.resolved for c in found.commands)
    long = judge(f"sed -i '1i x = \"{'a' * 20_000}\"' a.py")
    assert not all(c.resolved for c in long.commands)


def test_a_copy_that_may_be_put_back_is_judged_when_it_is_written() -> None:
    assert writes(judge(f"echo '{HARM}' > conftest.py.bak"), "/srv/x")
