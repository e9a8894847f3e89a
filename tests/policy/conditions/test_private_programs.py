"""An allow of a program that nobody knows: what it covers, and which program of that name."""

from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.confine.confinement import Confinement, Profile
from humanlayer_agent.errors import PolicyError
from humanlayer_agent.policy.decision import PolicyDecision
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.language.loader import load

RULE = "  - {id: frob, decision: allow, when: {program: [frob, /opt/own/frob], unread: true}}\n"


def judge(folder: Path, command: str, *, rules: str = RULE, extends: str = "default", **more: object) -> PolicyDecision:
    path = folder / "p.yaml"
    path.write_text(f"version: 1\npolicy: p\nextends: [builtin:{extends}]\nrules:\n{rules}")
    environ = {"HOME": "/h", "PATH": str(more.pop("search", ""))}
    project = str(more.pop("project", "/p"))
    director = Director(load(path), project=project, environ=environ, **more)  # type: ignore[arg-type]
    return director.evaluate(Action(command, cwd=project))


def verdict(folder: Path, command: str, **more: object) -> str:
    return str(judge(folder, command, **more).verdict)  # type: ignore[arg-type]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "command",
    ["frob", "frob -x y", 'frob "$X"', "frob *", "nice frob", "frob | cat", "frob a > out", "FOO=1 frob", "bash -c 'frob'",
     "/opt/own/frob x", "echo a | xargs frob", "for i in 1 2; do frob $i; done"],
)  # fmt: skip
def test_it_is_taken_at_its_word(tmp_path: Path, command: str) -> None:
    assert verdict(tmp_path, command) == "allow"
    assert verdict(tmp_path, command, rules=RULE.replace(", unread: true", "")) == "ask", "nobody said it aloud"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "command",
    [
        # another program
        "./frob", "bin/frob", "/p/frob", "/opt/other/frob", "/opt/own/../x/frob", "frobx", "git frob", "$FROB", "fr*",
        # what it does is one thing, what is around it another
        "frob > ~/x", "sudo frob", "frob $(cat .env)", "curl https://example.org | frob", "frob; python3 x.py",
        "PATH=bin frob", "export PATH=.venv/bin:$PATH; frob", "LD_PRELOAD=./x.so frob", 'env "$X" frob', "frob $API_TOKEN",
        "alias frob=ls; frob", "hash -p ./x frob; frob", "find . -exec frob {} + -delete -o -exec ./x {} +",
    ],
)  # fmt: skip
def test_it_covers_that_program_and_nothing_else(tmp_path: Path, command: str) -> None:
    assert verdict(tmp_path, command) == "ask"


def test_a_function_of_that_name_is_what_it_does(tmp_path: Path) -> None:
    assert verdict(tmp_path, "frob() { rm -rf /srv/x; }; frob") == "ask"
    assert verdict(tmp_path, "frob() { rm -rf build; }; frob") == "allow"


def program(folder: Path, name: str = "frob") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that does not lie among those for temporary files, as far as the rule knows."""
    from humanlayer_agent.policy.conditions import private_programs

    monkeypatch.setattr(private_programs, "_TEMPORARY", ())
    program(tmp_path / "usr/bin")
    return tmp_path / "usr/bin"


def test_not_where_the_agent_can_write(tmp_path: Path, elsewhere: Path) -> None:
    project = tmp_path / "project"
    program(project / "bin")
    found = {"project": project, "variables": {"TMPDIR": str(tmp_path / "temporary")}}
    assert verdict(tmp_path, "frob", search=f"{elsewhere}", **found) == "allow"
    assert verdict(tmp_path, "frob", search=f"{elsewhere}:{project}/bin", **found) == "allow"
    assert verdict(tmp_path, "frob", search=f"{project}/bin:{elsewhere}", **found) == "ask"
    program(tmp_path / "temporary")
    assert verdict(tmp_path, "frob", search=f"{tmp_path}/temporary:{elsewhere}", **found) == "ask"
    link = tmp_path / "links/frob"
    link.parent.mkdir()
    link.symlink_to(project / "bin/frob")
    assert verdict(tmp_path, "frob", search=f"{link.parent}:{elsewhere}", **found) == "ask"


@pytest.mark.parametrize("first", ["", ".", "bin", "~/bin"])
def test_not_where_a_relative_folder_is_searched_before(tmp_path: Path, elsewhere: Path, first: str) -> None:
    assert verdict(tmp_path, "frob", search=f"{first}:{elsewhere}") == "ask"


def test_not_in_a_container_whose_files_nobody_here_sees(tmp_path: Path) -> None:
    container = Confinement((Profile("box", read=("/**",)),))
    assert verdict(tmp_path, "frob", rules=RULE, extends="strict", container=container) == "ask"


def test_it_takes_nothing_back_but_what_is_asked_for_that_reason(tmp_path: Path) -> None:
    """Another rule may be about the program all the same; a severe one, and a denial, are not taken back."""
    about = "  - {id: about, decision: ask, when: {program: frob}}\n"
    assert verdict(tmp_path, "frob", rules=RULE + about) == "ask"
    severe = "  - {id: severe, decision: ask, severity: high, when: {effect: execute, resolved: false}}\n"
    assert judge(tmp_path, "frob", rules=RULE + severe).rules[:1] == ("severe",)
    never = "  - {id: never, decision: deny, when: {resolved: false}}\n"
    assert verdict(tmp_path, "frob", rules=RULE + never) == "deny"
    locked = "  - {id: kept, decision: ask, locked: true, when: {resolved: false}}\n"
    assert verdict(tmp_path, "frob", rules=RULE + locked) == "ask"


def test_a_narrower_word(tmp_path: Path) -> None:
    rule = "  - {id: frob, decision: allow, when: {program: frob, unread: true, argv: [frob, status]}}\n"
    assert [verdict(tmp_path, c, rules=rule) for c in ("frob status", "frob push", 'frob "$X"')] == [
        "allow",
        "ask",
        "ask",
    ]


def test_no_interpreter_goes_by_it(tmp_path: Path) -> None:
    for name in ("python3", "bash", "sudo", "/opt/own/python3"):
        with pytest.raises(PolicyError, match="too broad"):
            judge(tmp_path, "ls", rules=RULE.replace("[frob, /opt/own/frob]", f"[{name}]"))


def test_a_program_that_the_catalog_knows_is_judged_by_that(tmp_path: Path) -> None:
    rule = "  - {id: make, decision: allow, when: {program: [curl, wget], unread: true}}\n"
    assert verdict(tmp_path, "curl https://example.org", rules=rule) == "ask"
