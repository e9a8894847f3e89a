"""`hla catalog`: a person adds a program of their own, and looks at what was added."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest
from click.testing import Result
from typer.testing import CliRunner

from humanlayer_agent.action import Action
from humanlayer_agent.cli import main
from humanlayer_agent.cli.app import app
from humanlayer_agent.configuration import build_director, build_gate
from humanlayer_agent.errors import ConfigError, PolicyError
from humanlayer_agent.processes.execution import SUPERVISED
from tests.support import children, enclosures

Catalog = Callable[..., Result]
RUN = "import sys; from humanlayer_agent.cli import main; sys.exit(main())"
HELP = "Usage: frob [OPTIONS] FILE\n\n  -o, --output FILE  where to write\n  -v, --verbose      be loud\n"
FROB = """\
programs:
  frob:
    about: frobnicates files
    options: {output: {names: [-o, --output], value: write}}
    operands: ["read*"]
examples:
  - {command: "frob -o x a", effects: [write x, read a]}
  - {command: frob a, effects: [read a]}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def hla(project: Path) -> Catalog:
    return lambda *words: CliRunner().invoke(app, ["catalog", *words])


@pytest.fixture
def own(own_user: Path) -> Path:
    """Where the user's own files are."""
    return own_user / ".config" / "humanlayer-agent" / "catalog"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A program of that text, which is in PATH."""

    def made(text: str, folder: Path = tmp_path / "tools") -> Path:
        folder.mkdir(exist_ok=True)
        path = folder / "frob"
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
        return path

    return made


def frob(own: Path, text: str = FROB) -> Path:
    own.mkdir(parents=True, mode=0o700)
    path = own / "frob.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_a_draft_of_a_saved_text(hla: Catalog, own: Path, tmp_path: Path) -> None:
    text = tmp_path / "help.txt"
    text.write_text(HELP)
    shown = hla("new", "frob", "--help-text", str(text), "--print")
    assert shown.exit_code == 0
    assert "draft: true" in shown.output
    assert not own.exists()
    written = hla("new", "frob", "--help-text", str(text))
    assert "a draft" in written.output
    assert (own / "frob.yaml").read_text() == shown.output
    assert (own.stat().st_mode & 0o777, (own / "frob.yaml").stat().st_mode & 0o777) == (0o700, 0o600)
    assert hla("test").exit_code == hla("lint").exit_code == 0
    assert "frob is a draft" in hla("lint").output
    assert "described already" in str(hla("new", "frob", "--help-text", str(text)).exception)


def test_the_program_says_itself_what_it_takes(hla: Catalog, own: Path, program: Callable[[str], Path]) -> None:
    program(f"cat <<'E'\n{HELP}E\nexit 3\n")
    assert hla("new", "frob").exit_code == 0
    assert "#   output: {names: [-o, --output], value: ?}" in (own / "frob.yaml").read_text()


def test_what_says_it_is_held(
    hla: Catalog, program: Callable[[str], Path], project: Path, own_user: Path, confined_by_default: None
) -> None:
    """`--help` of a tool may do anything: it changes nothing, and gets no secrets."""
    enclosures.backend()
    canaries = [project / "canary", own_user / "canary", own_user.parent / "canary"]
    program("".join(f"touch {each}\n" for each in canaries) + 'echo "  --key$SECRET_TOKEN  x"\n')
    os.environ["SECRET_TOKEN"] = "hunter2"
    try:
        made = hla("new", "frob", "--print")
    finally:
        del os.environ["SECRET_TOKEN"]
    assert "unconfined" not in made.output
    assert "--key" in made.output
    assert "hunter2" not in made.output
    assert not any(each.exists() for each in canaries)


def test_the_project_puts_no_program_in_its_place(
    hla: Catalog, program: Callable[..., Path], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program("touch ran\necho x", project / "bin")
    assert "lies in the project" in str(hla("new", "frob").exception)
    assert not (project / "ran").exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("rm", "the catalog that ships"),
        ("./frob", "by its name"),
        ("cd", "bash's own"),
        ("python9", "runs, fetches or sends"),
        ("no-such-frob", "is not in PATH"),
    ],
)
def test_what_is_not_drafted(hla: Catalog, name: str, said: str) -> None:
    error = hla("new", name).exception
    assert isinstance(error, ConfigError)
    assert said in str(error)


def test_only_a_human_has_one_drafted(hla: Catalog, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SUPERVISED, "1")
    assert "only a human" in str(hla("new", "frob").exception)
    assert not own.exists()


@pytest.mark.long
def test_what_is_there_is_shown_with_its_place(hla: Catalog, own: Path) -> None:
    path = frob(own)
    shown = hla("show", "frob").output
    assert "frob: frobnicates files" in shown
    assert f"described in {path}, line 2" in shown
    assert "frob -o x a\n      write x, read a" in shown
    assert f"{path} (1)\n  frob" in hla("list").output
    assert "rm: removes files" in hla("show", "rm").output


def test_what_nobody_knows_is_shown_with_what_to_do(hla: Catalog) -> None:
    said = hla("show", "qqzzyy").output
    assert "hla catalog new qqzzyy drafts what it does, in ~/.config/humanlayer-agent/catalog/qqzzyy.yaml" in said


def test_examples_that_do_not_hold(hla: Catalog, own: Path) -> None:
    path = frob(own, FROB.replace("effects: [read a]", "effects: [write a]"))
    done = hla("test")
    assert done.exit_code == 1
    assert f"{path}:8: 'frob a' has: read a. Declared: write a" in done.output
    assert "1 of 2 examples hold" in done.output


def test_a_file_before_it_is_put_in_its_place(hla: Catalog, own: Path, tmp_path: Path) -> None:
    other = tmp_path / "grob.yaml"
    other.write_text(FROB.replace("frob", "grob"))
    assert "2 of 2 examples hold" in hla("test", str(other)).output
    frob(own)
    other.write_text(FROB)
    assert isinstance(hla("test", str(other)).exception, PolicyError)  # two describe the same


def test_parse_and_why_not_know_of_it(own: Path, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["policy", "explain", "--why-not", "allow", "frob a"])
    said = " ".join(capsys.readouterr().out.split())
    assert "frob would have to be known (hla catalog new frob drafts what it does, in" in said
    frob(own)
    main(["parse", "frob -o x a"])
    assert f"write {project}/x" in capsys.readouterr().out
    assert main(["check", "frob -o x a"]) == 0
    capsys.readouterr()
    assert main(["policy", "show"]) == 0
    assert f"{own}/frob.yaml" in "".join(capsys.readouterr().out.split("\n"))


@pytest.mark.long
def test_a_project_s_is_shown_in_full_before_it_counts(project: Path, own_user: Path) -> None:
    folder = project / ".humanlayer" / "catalog"
    folder.mkdir(parents=True)
    (folder / "frob.yaml").write_text(FROB)
    assert main(["check", "frob -o x a"]) == 4
    child = children.spawn(
        sys.executable,
        ["-c", RUN, "policy", "trust", "--project", str(project)],
        env={**os.environ, "LC_ALL": "C.UTF-8"},
        timeout=600,
        encoding="utf-8",
    )
    child.expect_exact('Type "trust"')
    shown = str(child.before)
    child.sendline("trust")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "   2    frob:" in shown
    assert "They say what these programs do, and are believed: frob." in shown
    assert main(["check", "frob -o x a"]) == 0
    assert main(["policy", "trust", "--project", str(project), "--withdraw"]) == 0
    assert main(["check", "frob -o x a"]) == 4


def test_the_log_says_which_catalogs_judged(own: Path, project: Path, tmp_path: Path) -> None:
    path = frob(own)
    with build_gate(director=build_director(project=project), project=project, store=tmp_path / "s.sqlite3") as gate:
        gate.check(Action("frob -o x a", cwd=str(project)))
        loaded = [each.event for each in gate.store.events(type="policy.loaded")]
    ((owner, name, digest),) = loaded[0]["catalogs"]
    assert (owner, name, len(digest)) == ("user", str(path), 64)
