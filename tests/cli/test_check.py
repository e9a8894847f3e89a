"""`hla check` and `hla parse` as other programs call them: processes, with standard input and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from humanlayer_agent.agents import run_enclosures
from humanlayer_agent.cli import main
from humanlayer_agent.locations import state_folder
from tests.support import children

pytestmark = pytest.mark.usefixtures("compiled")

ALL_KEYS = {"id", "verdict", "rules", "reason", "findings", "severity", "suggestion", "parse", "effects", "us"}


def hla(*arguments: str, stdin: str | bytes = "", cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    data = stdin if isinstance(stdin, bytes) else stdin.encode("utf-8", "surrogatepass")
    return children.run(
        [sys.executable, "-c", "import sys; from humanlayer_agent.cli import main; sys.exit(main())", *arguments],
        input=data,
        capture_output=True,
        cwd=cwd,
    )


def answers(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("cat a.py", 0, "allow  (read-project)"),
        ("rm -rf /srv/x", 4, "ask  (delete-outside-project"),
        ("rm -rf /", 1, "deny  (disaster"),
    ],
)
def test_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, code: int, said: str) -> None:
    assert main(["check", "--project", str(tmp_path / "p"), command]) == code
    assert capsys.readouterr().out.startswith(said)


def test_json_of_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--project", str(tmp_path / "p"), "--format", "json", "rm -rf /srv/x"])
    answer = json.loads(capsys.readouterr().out)
    assert answer.keys() == ALL_KEYS - {"id"}
    assert answer["effects"] == [
        {"kind": "delete", "role": "operand", "operand": "/srv/x", "resolved": True, "unread": False, "span": [7, 13]}
    ]


def test_what_was_excused_is_told_in_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever writes an exception does not write lines of ours."""
    policy = tmp_path / "p.yaml"
    policy.write_text(
        "version: 1\npolicy: p\nextends: [builtin:default]\n"
        "rules: [{id: others, decision: allow, when: {effect: read, paths: {all_within: [/srv/x/**]}}}]\n"
        'exceptions: [{rule: read-outside-project, when: {paths: {all_within: [/srv/x/**]}}, reason: "a\\ndeny  (b)",'
        " expires: 2999-01-01}]\n"
    )
    arguments = ["check", "--policy", str(policy), "--project", str(tmp_path / "p")]
    assert main([*arguments, "cat /srv/x/a"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "allow  (others)"
    assert said[1].startswith("  excused from read-outside-project until 2999-01-01 by the exception ")
    assert said[1].endswith(":5: a\\x0adeny  (b)")
    assert len(said) == 2
    main([*arguments, "--format", "json", "cat /srv/x/a"])
    assert [each["rule"] for each in json.loads(capsys.readouterr().out)["excused"]] == ["read-outside-project"]


@pytest.mark.long
def test_rows(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "command": "ls"},
        {"id": 2, "command": "rm -rf /srv/x", "cwd": "/"},
        {"id": "c", "command": "cat x\x00y"},
        {"id": "d", "command": "ls \udcff; rm -rf /srv/x"},
        {"id": "e", "command": "echo \u2028 é 😀; rm /srv/y", "files": {"/a": "b"}, "tracked": ["/a"]},
    ]
    text = "".join(json.dumps(r) + "\n" for r in rows)
    done = hla("check", "--format", "jsonl", "--project", str(tmp_path / "p"), stdin=text)
    found = answers(done)
    assert done.returncode == 0
    assert [a["id"] for a in found] == ["a", 2, "c", "d", "e"]
    assert [a["verdict"] for a in found] == ["allow", "ask", "ask", "ask", "ask"]
    assert [a["parse"] for a in found] == ["ok", "ok", "failed", "failed", "ok"]
    assert all(a.keys() == ALL_KEYS for a in found)
    start, end = found[4]["effects"][-1]["span"]
    assert rows[4]["command"][start:end] == "/srv/y", "spans count code points"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("line", "id_", "error"),
    [
        ("no json", None, "not JSON"),
        ("[1]", None, "not a JSON object"),
        ('{"command": "ls"}', None, "no id"),
        ('{"id": "x"}', "x", "command is not a string"),
        ('{"id": "x", "command": 1}', "x", "command is not a string"),
        ('{"id": "x", "command": "ls", "cwd": "rel"}', "x", "cwd is not an absolute path"),
        ('{"id": "x", "command": "ls", "files": []}', "x", "files is not a mapping"),
        ("", None, "not JSON"),
    ],
)
def test_a_bad_row_is_answered_and_the_rest_goes_on(tmp_path: Path, line: str, id_: object, error: str) -> None:
    text = f'{{"id": 1, "command": "ls"}}\n{line}\n{{"id": 3, "command": "ls"}}\n'
    for command, refusal in (("check", ("verdict", "ask")), ("parse", ("status", "failed"))):
        extra = ("--project", str(tmp_path / "p")) if command == "check" else ()
        done = hla(command, "--format", "jsonl", *extra, stdin=text)
        first, bad, last = answers(done)
        assert done.returncode == 2
        assert (first["id"], last["id"]) == (1, 3)
        assert (bad["id"], bad["line"], bad[refusal[0]]) == (id_, 2, refusal[1])
        assert bad["error"].startswith(error)


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    done = hla(
        "check", "--format", "jsonl", "--project", str(tmp_path / "p"), stdin=b'{"id": 1, "command": "ls \xff"}\n'
    )
    (answer,) = answers(done)
    assert (answer["verdict"], answer["parse"]) == ("ask", "failed")


def test_parse_rows() -> None:
    text = json.dumps({"id": "1", "command": "sudo rm -rf /srv/x; echo $(ls)"}) + "\n"
    (answer,) = answers(hla("parse", "--format", "jsonl", stdin=text))
    assert answer["status"] == "ok"
    assert answer["reasons"] == []
    by_program = {c["program"]: c for c in answer["commands"]}
    assert by_program["rm"] == {
        "program": "rm",
        "argv": ["rm", "-rf", "/srv/x"],
        "resolved": True,
        "via": ["sudo"],
        "attributes": {},
        "inside": [],
        "span": [0, 18],
    }
    assert by_program["ls"]["inside"] == ["substitution"]


def test_parse_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parse", "--cwd", "/srv", "for f in a b; do rm $f; done"]) == 0
    assert capsys.readouterr().out == "[loop] rm $f\n    delete /srv/a\n    delete /srv/b\n"
    assert main(["parse", "echo 'x"]) == 1


def test_control_characters_are_shown_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["check", "--project", str(tmp_path / "p"), "rm /srv/\u202ex"])
    shown = capsys.readouterr().out
    assert "\u202e" not in shown
    assert "\\u{202e}" in shown


@pytest.mark.parametrize("arguments", [["check"], ["parse"], ["check", "--frob"], ["check", "--policy", "nope", "ls"]])
def test_usage_errors_are_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err


def test_a_broken_policy_names_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "p.yaml"
    broken.write_text("version: 1\npolicy: p\nrules:\n  - {id: r, decision: ask, when: {programm: rm}}\n")
    assert main(["check", "--policy", str(broken), "--project", str(tmp_path / "p"), "ls"]) == 2
    assert f"{broken}:4:35: unknown key 'programm'" in capsys.readouterr().err


@pytest.mark.parametrize("wide", ["/", "~", "/tmp"])
def test_a_project_that_contains_everything_is_refused(
    wide: str, own_user: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = wide.replace("~", str(own_user))
    assert main(["check", "--project", project, "ls"]) == 2
    assert "can't be the project" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "parse"])
def test_help_shows_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"hla {command} " in shown
    assert len(shown.splitlines()) < 40


def test_what_is_allowed_because_it_is_confined_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["check", "--policy", "default", "--project", str(tmp_path), "./a.out"]
    assert main(command) == 4
    assert "confined" not in capsys.readouterr().out
    assert main([*command, "--confined"]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "  allowed because it runs confined to project"
    assert main([*command, "--confined", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["confined"] == "project"
    assert main(["policy", "explain", "./a.out", "--policy", "default", "--project", str(tmp_path), "--confined"]) == 0
    assert "allowed because it runs confined to project" in capsys.readouterr().out


def test_what_is_asked_about_says_how_it_runs_once_it_was_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    online = "confined to project + online (network by forwarder: example.org:443)"
    packages = "confined to project + repository + installs (network by forwarder: public web servers)"
    for command, runs in (
        ("curl https://example.org", online),
        ("pre-commit run", packages),  # it writes git's index
        ("sudo ls", "not confined"),
    ):
        asked = ["check", "--policy", "default", "--project", str(tmp_path), command]
        assert main(asked) == 4
        assert "confined" not in capsys.readouterr().out
        assert main([*asked, "--confined"]) == 4
        assert capsys.readouterr().out.splitlines()[1] == f"  once approved, it runs {runs}"


def test_it_judges_by_the_tmp_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["check", "--policy", "default", "--project", str(tmp_path), "bash /tmp/no-such-script.sh"]
    assert main([*command, "--run", "a"]) == 4  # nothing says that it would be confined
    command.insert(1, "--confined")
    assert main([*command, "--run", "a"]) == 0
    assert run_enclosures.view_of("a", tmp_path).temporary == ""  # nothing was made for it
    monkeypatch.setattr(run_enclosures, "proven", lambda folder: SimpleNamespace(backend=None))
    temporary = Path(run_enclosures.RunEnclosures.of("a", tmp_path).temporary)
    (temporary / "no-such-script.sh").write_text("rm -rf /srv/data\n")
    assert main([*command, "--run", "a"]) == 4
    assert "/srv/data" in capsys.readouterr().out
    assert main([*command, "--run", "another"]) == 0


# ---- one run, in many processes -----------------------------------------------------------------------

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "a"}
GIT |= {"GIT_COMMITTER_EMAIL": "a@example.org", "GIT_CONFIG_NOSYSTEM": "1"}
HARM = "import os; os.remove('CANARY')"


class Project:
    """A project of a human's, in which an agent's run is judged step by step: each step by a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {**os.environ, **GIT}
        files = {
            "conftest.py": "import sys\n", "tests/test_a.py": "def test_a(): assert 1\n", "src/b.py": "def b(): return 1\n",
            "Makefile": "test:\n\t@echo testing\n", "package.json": '{"scripts": {"test": "node test.js"}}\n',
            "test.js": "console.log(1)\n", "run.sh": "node test.js\n", "notes": "words\n",
        }  # fmt: skip
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        self.human("git init -q . && git add -A && git commit -qm start")

    def human(self, command: str) -> None:
        words = ["bash", "--norc", "--noprofile", "-c", command]
        subprocess.run(words, cwd=self.folder, env=self.environ, check=True, capture_output=True)

    def check(self, command: str, run: str | None = "a") -> str:
        words = ["check", "--policy", "default", "--project", str(self.folder), "--format", "json", command]
        done = children.run(
            [sys.executable, "-c", "import sys; from humanlayer_agent.cli import main; sys.exit(main())", *words]
            + (["--run", run] if run is not None else []),
            capture_output=True, cwd=self.folder, env=self.environ,
        )  # fmt: skip
        return str(json.loads(done.stdout)["verdict"])

    def play(self, *steps: str, run: str | None = "a") -> list[str]:
        """What is said of each step; what is allowed is done, and the first that is not ends it."""
        said = []
        for step in steps:
            step = step.replace("CANARY", "/srv/no-such-folder/canary")
            said.append(self.check(step, run))
            if said[-1] != "allow":
                break
            words = ["bash", "--norc", "--noprofile", "-c", step]
            if step != steps[-1]:  # as in an environment of the project's own, which has pytest alone
                environ = {**self.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
                subprocess.run(words, cwd=self.folder, env=environ, check=False, capture_output=True)
        return said


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "work").mkdir()
    return Project(tmp_path / "work")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "steps",
    [
        ("echo 'rm CANARY' > notes; git add notes", "bash notes"),
        ("echo 'rm CANARY' > notes", "git add -A && git commit -qm x", "bash notes"),
        ("printf 'x:\\n\\trm CANARY\\n' > inc.txt; git add -A", "make -f inc.txt"),
        (
            "python3 -c \"p = open('Makefile').read(); open('Makefile', 'w').write(p.replace('echo testing', 'rm CANARY'))\"",
            "git commit -qam x",
            "make test",
        ),
        (f'echo "{HARM}" > notes', "sort -o tests/conftest.py notes", "pytest tests"),
        (f'echo "#{HARM}" > x.py', "sed -i 's/^.//' x.py; mv x.py tests/conftest.py", "python3 -m pytest"),
        (f'echo "#{HARM}" > x.py', "cut -c2- x.py > src/b.py", "git commit -qam x", "python3 -c 'import src.b'"),
        (f'echo "#{HARM}" > src/b.py', "sed -i 's/#//' src/b.py; pytest"),
        (f'echo "{HARM}" > notes', "git add -A", "git checkout-index notes; cp notes src/b.py; pytest"),
        (f'printf ">>> {HARM}" > tests/test_notes.txt', "pytest"),
        (f'printf ">>> {HARM}" > words.txt', "python3 -m doctest words.txt"),
        (f'printf "def f():\\n    \'\'\'\\n    >>> {HARM}\\n    \'\'\'" > src/c.py', "pytest --doctest-modules src"),
        ("echo 'f()' > notes", "sort -o test.js notes", "git commit -qam x", "npm test"),
        ("echo 'f()' > notes", "sort -o test.js notes", "bash run.sh"),
        ("echo 'f()' > notes", "mkdir -p node_modules/m; sort -o node_modules/m/index.js notes", "npm test"),
        (f'echo "{HARM}" > notes', "mkdir e; sort -o e/conftest.py notes", "ln -s ../e tests/e", "pytest tests"),
        (f'echo ">>> {HARM}" > words', "python3 -m doctest words"),
        (f'echo ">>> {HARM}" > words.cfg', "pytest --doctest-glob='*.cfg'"),
        (f'echo ">>> {HARM}" > words.rst', "PYTEST_ADDOPTS=--doctest-glob=*.rst pytest"),
        ("echo 'rm CANARY' > notes", "sort -o run.sh notes", "pytest"),
        (f'echo "{HARM}" > notes', "git checkout -qb other; sort -o conftest.py notes", "git commit -qam x", "pytest"),
    ],
)  # fmt: skip
def test_what_an_action_brought_in_is_read_when_it_is_run(project: Project, steps: tuple[str, ...]) -> None:
    said = project.play(*steps)
    assert said == ["allow"] * (len(steps) - 1) + ["ask"]


@pytest.mark.long
def test_what_a_run_brought_in_is_no_projects_own_in_a_later_one(project: Project) -> None:
    assert project.play("echo 'f()' > notes", "sort -o test.js notes", "git commit -qam x", "ls") == ["allow"] * 4
    for run in ("a", "b", None):
        assert project.check("npm test", run) == "ask"
    project.human("git checkout -q HEAD~1 -- test.js && git commit -qam back")
    assert project.check("npm test", "c") == "allow"


def test_the_last_commit_of_a_run_is_not_taken_for_the_humans(project: Project) -> None:
    project.play("echo 'f()' > notes; sort -o test.js notes", "git commit -qam x", "true")
    words = ["git", "-C", str(project.folder), "commit", "-q", "--allow-empty", "-m", "y"]
    subprocess.run(words, check=True, env=project.environ)
    assert project.check("npm test", "b") == "ask"


def test_what_a_human_changes_between_runs_is_his(project: Project) -> None:
    assert project.play("cat notes", "npm test") == ["allow"] * 2
    assert project.play("ls") == ["allow"]
    project.human("echo 'console.log(2)' > test.js; git commit -qam mine")
    assert project.check("npm test", "b") == "allow"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "steps",
    [
        ("sed -i 's/1/2/' src/b.py", "pytest", "git commit -qam x", "pytest", "python3 -m pytest tests"),
        ("cat > tests/test_b.py <<'E'\nfrom src.b import b\ndef test_b():\n    assert b() == 1\nE", "pytest tests/test_b.py"),
        ("mkdir -p build; echo 'x' | tr x y > build/out.js", "npm test"),
        ("git stash", "make test", "pytest --doctest-modules", "npm test"),
        ("echo '>>> 1 + 1' > tests/test_sum.txt", "pytest"),
        ("git checkout -b feature && pytest", "git stash list; make test | tee out", "echo x > log; pytest"),
        ("cp src/b.py src/c.py && pytest", "mv src/c.py src/d.py; pytest", "ls > files && npm test"),
        ("git mv src/b.py src/c.py", "pytest && black src && ruff check --fix ."),
    ],
)  # fmt: skip
def test_ordinary_work_is_not_asked_about(project: Project, steps: tuple[str, ...]) -> None:
    assert project.play(*steps) == ["allow"] * len(steps)


@pytest.mark.long
def test_nothing_is_trusted_where_nothing_can_be_kept(project: Project) -> None:
    project.human("echo 'require(\"x\")' > test.js; git commit -qam 'what nobody can read'")
    assert project.check("npm test") == "allow"
    (kept,) = state_folder().rglob("project.json")
    kept.write_text("{}")
    for run in ("a", "b", None):
        assert project.check("npm test", run) == "ask", run


def test_it_is_judged_as_started_by_who_asks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(
        f'version: 1\npolicy: p\nrules: [{{id: me, decision: deny, when: {{program: make, requester: "os:{os.getuid()}:*"}}}}]\n'
    )
    assert main(["check", "--policy", str(path), "make"]) == 1
    path.write_text(path.read_text().replace(f"os:{os.getuid()}:", "os:0815:"))
    assert main(["check", "--policy", str(path), "make"]) == 4
    assert "deny  (me)" in capsys.readouterr().out
