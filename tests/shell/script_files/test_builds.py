"""What a command builds and runs: nobody reads C, Go, Rust or Java here, so it is unread, and says from what it was built."""

import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell.disk_reader import DiskReader
from tests.support.rows import for_each


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose sources git has."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    (folder / "main.go").write_text("package main\nfunc main() {}\n")
    (folder / "X.java").write_text("class X { }\n")
    (folder / "x.ts").write_text("let a = 1\n")
    for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


@for_each(
    ("command", "built"),
    [
        ("gcc main.c -o x && ./x", "{}/x, which this command builds from main.c"),
        ("g++ main.c && ./a.out", "{}/a.out, which this command builds from main.c"),
        ("clang -O2 -o x main.c; ./x", "{}/x, which this command builds from main.c"),
        ("cc main.c -o t && timeout 5 ./t", "{}/t, which this command builds from main.c"),
        ("gcc -c main.c -o m.o && gcc m.o -o y && ./y", "{}/y, which this command builds from m.o"),
        ("go build -o x . && ./x", None),
        ("go build -o x ./cmd && ./x", None),
        ("javac X.java && java X", "{}/X, which this command builds from X.java"),
        ("echo 'int main(){}' > a.c && gcc a.c && ./a.out", "{}/a.out, which this command builds from a.c"),
        ("rustc main.rs && ./main", None),
        ("cargo build && target/debug/x", None),
        ("tsc && node x.js", None),
        ("gcc main.c -o x && mv x y && ./y", None),
        ("gcc main.c -o x && cp x /tmp/x && /tmp/x", None),
        ("gcc main.c -o x && bash -c ./x", None),
        ("gcc main.c -o ls && PATH=. ls", None),
        ("gcc -shared -o x.so main.c && LD_PRELOAD=./x.so ls", None),
        ("gcc $F -o x && ./x", None),
        ("make && ./x", None),
        ("./x", None),
    ],
)
def test_what_was_built_is_unread_where_nothing_confines_it(project: Path, command: str, built: str | None) -> None:
    judge = Director.load("default", project=project, environ={"HOME": "/nowhere"}, reader=DiskReader(project))
    decision = judge.evaluate(Action(command, cwd=str(project)))
    assert decision.verdict is Verdict.ASK
    if built is not None:
        said = [part.reason for part in decision.parts] + [decision.reason]
        assert any(built.format(project) in reason for reason in said), said
