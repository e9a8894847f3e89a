"""Projects as their own generators make them: built, tested and run under the default policy, confined, without a
question, with the exit status and the output that they have in plain bash.

The ones that take seconds of processor time are for `HLA_ALL=1`.
"""

import os
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from humanlayer_agent import Gate
from tests.agents.conftest import Human
from tests.support import enclosures

_VARIES = re.compile(r"duration_ms:? .*|\d+(?:\.\d+)? ?(?:ms|s|sec|seconds?)\b|[\d-]*T?\d\d:\d\d:\d\d\S*")
"""Times in what programs print."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A kind of project.

    Args:
        programs: what is needed; the test is skipped where one is missing.
        made: makes it, in an empty folder; run without a confinement.
        steps: what an agent then runs.
        long: it takes seconds of processor time.
    """

    programs: tuple[str, ...]
    made: str
    steps: tuple[str, ...]
    long: bool = False


_MAIN_C = r"#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n"
_CMAKE = r"cmake_minimum_required(VERSION 3.10)\nproject(app C)\nenable_testing()\nadd_executable(app main.c)\nadd_test(NAME runs COMMAND app)\n"
_GO = r"package main\n\nimport \"fmt\"\n\nfunc Hello() string { return \"hello\" }\n\nfunc main() { fmt.Println(Hello()) }\n"
_GO_TEST = r"package main\n\nimport \"testing\"\n\nfunc TestHello(t *testing.T) {\n\tif Hello() != \"hello\" {\n\t\tt.Fail()\n\t}\n}\n"
_JAVA = r"public class Main { static int two() { return 2; } public static void main(String[] a) { System.out.println(two()); } }\n"
_NODE_TEST = "const test = require('node:test'); const assert = require('node:assert'); test('adds', () => assert.equal(1 + 1, 2));"
_NODE_FILES = """echo "require('fs').writeFileSync('out.txt', 'built')" > build.js && echo "console.log(process.version)" > index.js"""
_POM = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>app</artifactId><version>1</version>"
    "<properties><maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target></properties></project>"
)
PROJECTS = {
    "make": Generated(
        ("make", "gcc"),
        rf'printf "{_MAIN_C}" > main.c; printf "app: main.c\n\tgcc -Wall -o app main.c\ntest: app\n\t./app | grep -q hello\nclean:\n\trm -f app\n" > Makefile',
        ("make", "make test", "./app", "make clean", "ls"),
    ),
    "node": Generated(
        ("node",),
        f'echo "{_NODE_TEST}" > app.test.js; {_NODE_FILES}',
        ("node --test", "node build.js", "cat out.txt", "node index.js"),
    ),
    "npm": Generated(
        ("npm", "node"),
        f'npm init -y >/dev/null && npm pkg set scripts.test="node --test" scripts.build="node build.js" && echo "{_NODE_TEST}" > app.test.js'
        f" && {_NODE_FILES}",
        ("npm test", "npm run build", "cat out.txt", "node index.js", "npm ls", "npm pkg get name"),
        long=True,
    ),
    "rust": Generated(
        ("cargo", "rustc"),
        "cargo init --name app --vcs git .",
        ("cargo build", "cargo test", "cargo run", "cargo check", "git status --short", "./target/debug/app"),
        long=True,
    ),
    "go": Generated(
        ("go",),
        rf'go mod init example.org/app; printf "{_GO}" > main.go; printf "{_GO_TEST}" > main_test.go',
        ("go build ./...", "go vet ./...", "go test ./...", "go run .", "gofmt -l ."),
        long=True,
    ),
    "cmake": Generated(
        ("cmake", "gcc", "ctest"),
        rf'printf "{_MAIN_C}" > main.c; printf "{_CMAKE}" > CMakeLists.txt',
        ("cmake -B build .", "cmake --build build", "ctest --test-dir build", "./build/app"),
        long=True,
    ),
    "javac": Generated(
        ("javac", "java"),
        rf'mkdir src; printf "{_JAVA}" > src/Main.java',
        ("javac -d out src/Main.java", "java -cp out Main", "jar cfe app.jar Main -C out .", "java -jar app.jar"),
        long=True,
    ),
    "maven": Generated(
        ("mvn", "javac"),
        rf'mkdir -p src/main/java; printf "{_JAVA}" > src/main/java/Main.java; echo "{_POM}" > pom.xml',
        ("mvn -o -B validate", "javac -d target/classes src/main/java/Main.java", "java -cp target/classes Main"),
        long=True,
    ),
    "django": Generated(
        ("django-admin",),
        "django-admin startproject app . && python manage.py startapp shop",
        ("python manage.py check", "python manage.py migrate", "python manage.py test", "python manage.py showmigrations --list", "ls"),
        long=True,
    ),
}  # fmt: skip


@pytest.fixture
def project(
    place: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[Generated, Path, Path]:
    """A project, and the same once more."""
    kind: Generated = request.param
    monkeypatch.setenv("HOME", pwd.getpwuid(os.getuid()).pw_dir)  # the toolchains are found there
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    enclosures.backend()  # or a skip
    if missing := [name for name in kind.programs if shutil.which(name) is None]:
        pytest.skip(f"allowed in CI: {', '.join(missing)} is not here")
    copies = place / "plain/app", place / "confined/app"
    copies[0].mkdir(parents=True)
    made = _plain(copies[0], kind.made)
    if made.returncode != 0:
        pytest.skip(f"allowed in CI: it can't be made here: {made.stdout[-300:]}")
    shutil.copytree(copies[0], copies[1], symlinks=True)
    return kind, *copies


def _plain(folder: Path, command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", command], cwd=folder, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )  # fmt: skip


@pytest.mark.parametrize(
    "project",
    [pytest.param(kind, id=name, marks=pytest.mark.long if kind.long else ()) for name, kind in PROJECTS.items()],
    indirect=True,
)
def test_it_works_as_it_does_in_plain_bash(
    project: tuple[Generated, Path, Path], human: Human, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, plain, confined = project
    monkeypatch.chdir(confined)
    with Gate.from_config(user=human, policy="default", project=confined, confine=True) as gate:
        for step in kind.steps:
            free, held = _plain(plain, step), gate.run(step, timeout=600)
            assert (held.returncode, _told(held.output, confined), held.note) == (
                free.returncode,
                _told(free.stdout, plain),
                "",
            ), step
    assert human.asked == []


def _told(output: str, folder: Path) -> list[str]:
    return sorted(_VARIES.sub("", output.replace(str(folder), "@")).splitlines())
