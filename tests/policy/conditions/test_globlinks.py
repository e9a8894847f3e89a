"""A shell's pattern goes through the links that it matches, and is judged by where they lead."""

from collections.abc import Callable
from pathlib import Path

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.conditions import link_targets
from humanlayer_agent.policy.conditions.link_targets import Links, led
from humanlayer_agent.policy.director import Director
from humanlayer_agent.shell import View

Judge = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with links: to a folder and a file outside (of the folder for temporary files too), and to its own."""
    for name in ("project/src/deep", "home"):
        (tmp_path / name).mkdir(parents=True)
    made = tmp_path / "project"
    (made / "data").symlink_to("/etc")
    (made / "hosts.txt").symlink_to("/srv/hosts")
    (made / "link").symlink_to("src")
    (made / "src/up").symlink_to("/etc")
    (made / "src/x.txt").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    return made


@pytest.fixture
def judge(project: Path) -> Judge:
    """The verdict on a command in the project. (The temporary folder it lies in is none of the policy's.)"""
    directors: dict[str, Director] = {}

    def verdict(command: str, policy: str = "default") -> str:
        if policy not in directors:
            directors[policy] = Director.load(policy, project=project)
        return str(directors[policy].evaluate(Action(command, cwd=str(project), project=str(project))).verdict)

    return verdict


def test_where_patterns_lead(project: Path) -> None:
    cases: dict[str, set[str]] = {
        "d*": {"/etc"},
        "d*/x": {"/etc/x"},
        "[d]ata/x": {"/etc/x"},
        "da?a/hostn*/x": {"/etc/hostn*/x"},
        "*.txt": {"/srv/hosts"},
        "l*/x": {f"{project}/src/x"},
        "l*/u*/x": {f"{project}/src/u*/x", "/etc/x"},
        "s*/up/x": {"/etc/x"},
        "s*/x": set(),
        "none*/x": set(),
        "**/x": set(),
        "d*/../x": {"/etc/../x"},
    }
    for pattern, expected in cases.items():
        found = led(f"{project}/{pattern}", Links(), last=True)
        assert found is not None
        assert set(found) == expected, pattern
    assert led(f"{project}/d*", Links(), last=False) == ()
    assert led(f"{project}/d*/x", Links(), last=False) == ("/etc/x",)


def test_where_patterns_lead_in_a_tmp_of_the_commands_own(project: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    for folder in ("own/d", "own/deep/d"):
        (tmp_path / folder).mkdir(parents=True)
    (own / "d/out").symlink_to("/etc")
    (own / "d/in").symlink_to("/tmp/deep")
    (own / "deep/d/up").symlink_to("../../../etc")
    (own / "way").symlink_to("/tmp/d")
    (project / "tmp").symlink_to("/tmp/d")
    links = Links(View(str(own), shown=(str(project),)))
    cases: dict[str, set[str]] = {
        "/tmp/d/*/x": {"/etc/x", "/tmp/deep/x"},
        "/tmp/w*/out/x": {"/tmp/d/out/x", "/etc/x"},
        "/tmp/way/o*/x": {"/etc/x"},
        "/tmp/deep/*/up/x": {"/etc/x"},
        f"{project}/t*/o*/x": {"/tmp/d/o*/x", "/etc/x"},
        f"{project}/d*/x": {"/etc/x"},
        f"{str(project).replace('project', '*ject')}/data/x": {"/etc/x"},
    }
    for pattern, expected in cases.items():
        found = led(pattern, links, last=True)
        assert found is not None
        assert set(found) == expected, pattern
    assert led("/tmp/d/*/x", Links(View("")), last=True) == ()


@pytest.mark.sample(12)
@pytest.mark.parametrize("policy", ["default", "strict"])
@pytest.mark.parametrize(
    "command",
    [
        "cat d*/x",
        "cat d*/ssl/x",
        "cat ./*/x",
        "head -n 1 [a-d]*/x",
        "cat *.txt",
        "wc -l < *.txt",
        "cat l*/up/x",
        "ls */",
    ],
)
def test_what_is_read_through_a_link_is_asked_about(judge: Judge, command: str, policy: str) -> None:
    assert judge(command, policy) == "ask"


@pytest.mark.parametrize(
    "command", ["rm -f d*/x", "rm -rf */ssl", "rm -rf d*/*", "mv d*/x src/", "chmod 644 h*.txt", "cp src/x.txt d*/"]
)
def test_what_is_changed_through_a_link_is_asked_about(judge: Judge, command: str) -> None:
    assert judge(command) == "ask"


@pytest.mark.parametrize("command", ["rm -f *.txt", "cat s*/x.txt", "cat l*/x.txt", "cat *.md", "rm -rf none*/x"])
def test_what_stays_in_the_project_is_not(judge: Judge, project: Path, command: str) -> None:
    (project / "src/up").unlink()
    (project / "README.md").write_text("x")
    assert judge(command) == "allow"


def test_what_is_ours_is_denied_nowhere_else_than_where_it_is(judge: Judge, project: Path) -> None:
    (project / "conf").symlink_to(project.parent / "home/.config")
    (project.parent / "home/.config/humanlayer-agent").mkdir(parents=True)
    assert judge("cat c*/humanlayer-agent/policy.yaml", "sandbox") == "ask"
    assert judge("rm -rf c*/humanlayer-agent", "sandbox") == "ask"
    assert judge("cat d*/x", "sandbox") == "allow"
    assert judge("cat c*/x", "sandbox") == "allow"


def test_a_link_that_comes_later(judge: Judge, project: Path) -> None:
    assert judge("cat n*/x") == "allow"
    (project / "new").symlink_to("/etc")
    assert judge("cat  n*/x") == "ask"  # what is remembered of an effect does not stand for another state of the disk


def test_too_many_names_to_look_at(judge: Judge, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_targets, "MAX_LOOKS", 10)
    (project / "many").mkdir()
    for n in range(11):
        (project / f"many/{n}").touch()
    assert judge("cat many/*.py") == "ask"
    assert judge("cat src/*.py") == "allow"


def test_the_names_that_are_looked_at_count_for_all_patterns_together(
    judge: Judge, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(20):
        (project / f"d{n}").mkdir()
    folders = len(list(project.iterdir()))
    monkeypatch.setattr(link_targets, "MAX_LOOKS", 8 * folders)
    assert judge("cat *1/x *2/y") == "allow"
    assert judge(f"cat {' '.join(f'*{n}/x' for n in range(9))}") == "ask"


@pytest.mark.parametrize("parts", [600, 60_000])
def test_a_long_pattern_that_leads_through_a_link(judge: Judge, project: Path, parts: int) -> None:
    (project / "docs").symlink_to(project / "src")
    assert judge(f"cat d*s/{'*/' * parts}x") == "ask"
