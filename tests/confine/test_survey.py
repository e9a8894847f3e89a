"""What is found in the folders that a command can write, and when it is looked at anew."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.confine import survey as module
from humanlayer_agent.confine.confinement import Confinement, Profile, Unenforceable, pattern
from humanlayer_agent.confine.mounts import mounts
from humanlayer_agent.confine.survey import Wanted, survey
from tests.confine.conftest import Done


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def look(project: Path, **sets: tuple[str, ...]) -> module.Survey:
    return survey(Confinement((Profile("project", write=(f"{project}/**",), **sets),)))  # type: ignore[arg-type]


def test_what_is_deeper_is_found_where_a_profile_opens_what_holds_it(project: Path) -> None:
    (project / ".git/hooks").mkdir(parents=True)
    build = Profile("build", write=(f"{project}/**",), protect=(f"{project}/**/.git/**",))
    commit = Profile("commit", write=(f"{project}/**",), protect=(f"{project}/**/.git/hooks/**",))
    assert survey(Confinement((build,))).protected == {f"{project}/.git"}
    assert survey(Confinement((build, commit))).protected == {f"{project}/.git/hooks"}


def test_what_one_profile_protects_and_another_hides_may_be_made(project: Path) -> None:
    """Else the certificates of a package that a human let be installed would be moved aside."""
    (project / "site-packages").mkdir()
    (project / "site-packages/cacert.pem").touch()
    sets = {"write": (f"{project}/**",), "hide": (f"{project}/**/*.pem",)}
    run = Profile("run", protect=(f"{project}/**/site-packages/**",), **sets)
    install = Profile("install", **sets)
    assert f"{project}/site-packages/cacert.pem" in survey(Confinement((run,))).protected
    both = survey(Confinement((run, install)))
    assert (both.protected, both.hidden) == (set(), {f"{project}/site-packages/cacert.pem"})


@pytest.mark.parametrize("forged", [False, True])
def test_a_folder_is_looked_at_anew_when_it_has_changed(project: Path, forged: bool) -> None:
    """Its time of modification may be set back; that of change may not."""
    hide = (f"{project}/**/.env",)
    (project / "a").mkdir()
    before = os.stat(project / "a")
    assert look(project, hide=hide).hidden == set()
    (project / "a/.env").touch()
    if forged:
        os.utime(project / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert look(project, hide=hide).hidden == {f"{project}/a/.env"}
    (project / "a").rename(project / "b")
    assert look(project, hide=hide).hidden == {f"{project}/b/.env"}
    (project / "b/.env").rename(project / "b/env")
    assert look(project, hide=hide).hidden == set()


def test_a_folder_that_has_not_changed_is_not_listed_again(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b", "c"):
        (project / name).mkdir()
    monkeypatch.setattr(module, "_TICK_NS", 0)
    look(project)
    listed: list[object] = []
    monkeypatch.setattr(module, "_read", lambda *given: listed.append(given) or pytest.fail("listed"))
    look(project)
    assert listed == []


def test_what_has_just_changed_is_not_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may change once more at the same time, as far as the file system tells."""
    monkeypatch.setattr(module, "_TICK_NS", 10**15)
    monkeypatch.setattr(module, "_known", {})
    look(project)
    assert module._known == {}


def test_links_are_not_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/.env").touch()
    (project / "link").symlink_to(tmp_path / "outside")
    (project / "loop").symlink_to(project)
    assert look(project, hide=(f"{project}/**/.env",)).hidden == set()


def test_a_path_that_is_too_long_to_look_into(project: Path) -> None:
    """A command may make it, step by step; what lies below can't be seen from here."""
    home = os.open(".", os.O_RDONLY)
    try:
        os.chdir(project)
        for _ in range(25):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        with pytest.raises(Unenforceable, match="can't be looked into"):
            look(project)
    finally:
        os.fchdir(home)
        os.close(home)


@pytest.fixture
def linked(project: Path, tmp_path: Path) -> Callable[..., Path]:
    """Makes a file of the project that has a name outside too, as package managers do."""

    def make(*names: str) -> Path:
        cached = tmp_path / "cached"
        cached.write_text("cached\n")
        for name in names:
            (project / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(cached, project / name)
        return cached

    return make


def kinds(project: Path, **more: tuple[str, ...]) -> dict[str, str]:
    confinement = Confinement((Profile("project", write=(f"{project}/**",), **more),))
    return {
        os.path.relpath(mount.path, project): mount.how for mount in mounts(confinement) if mount.path != str(project)
    }


def test_a_file_with_a_name_outside_is_read_only(project: Path, linked: Callable[..., Path]) -> None:
    linked("lib/a", "b")
    assert kinds(project) == {"b": "read", "lib/a": "read"}


def test_a_file_whose_names_are_all_inside_is_not(project: Path) -> None:
    (project / "a").write_text("x")
    os.link(project / "a", project / "b")
    assert kinds(project) == {}


def test_a_folder_of_packages_is_read_only_as_a_whole(project: Path, linked: Callable[..., Path]) -> None:
    linked("node_modules/a/index.js", "node_modules/b/index.js", "sub/.venv/lib/x.py")
    (project / "node_modules/.cache").mkdir()
    assert kinds(project) == {"node_modules": "read", "node_modules/.cache": "write", "sub/.venv": "read"}


def test_what_is_hidden_there_does_not_make_its_folders_writable(project: Path, linked: Callable[..., Path]) -> None:
    linked("node_modules/a/index.js", "node_modules/a/test/index.js")
    (project / "node_modules/a/test/key.pem").write_text("canary\n")
    expected = {"node_modules": "read", "node_modules/a/test/key.pem": "hide"}
    assert kinds(project, hide=("/**/*.pem",)) == expected


def test_what_is_seen_so_anyway_is_no_mount_of_its_own(project: Path, tmp_path: Path) -> None:
    for name in ("tools/bin", "tools/lib/deep"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "tools/link").symlink_to("bin")
    (project / ".git/logs").mkdir(parents=True)
    (project / ".git/logs/HEAD").touch()
    tools = tmp_path / "tools"
    confinement = Confinement(
        (
            Profile(
                "project",
                read=(f"{tools}/**", f"{tools}/bin/**", f"{tools}/lib/deep/**", f"{tools}/link", "/proc/version"),
                write=(f"{project}/**",),
                protect=(f"{project}/.git", f"{project}/.git/logs/HEAD"),
            ),
        )
    )
    found = [(mount.path, mount.how) for mount in mounts(confinement)]
    assert sorted(found) == [(str(project), "write"), (f"{project}/.git", "read"), (str(tools), "read")]


def test_too_many_files_with_names_outside(project: Path, linked: Callable[..., Path]) -> None:
    linked(*(f"f{n}" for n in range(501)))
    with pytest.raises(Unenforceable, match="hard links"):
        kinds(project)


def test_it_holds(confined: Callable[..., Done], scene: Path, profile: Profile) -> None:
    os.link(scene / "outside/secret", scene / "project/src/linked")
    ways = "echo x > src/linked; echo x >> src/linked; chmod 777 src/linked; truncate -s 0 src/linked; mv src s; echo x > s/linked; ln s/linked n; echo x > n; echo done"
    assert confined("bash", "-c", ways).stdout == "done\n"
    assert (scene / "outside/secret").read_text() == "canary\n"
    assert (scene / "outside/secret").stat().st_mode & 0o777 == 0o644
    free = replace(profile, write=(f"{scene}/**",))  # the control: there, all of its names are inside
    confined("bash", "-c", "echo x > s/linked", write=free.write)
    assert (scene / "outside/secret").read_text() == "x\n"


_NAMES = st.sampled_from(["a", "b", ".git", "x.py", "y.pem", "credentials.json", "*"])
_ENTRIES = st.sampled_from(
    [
        "/p/a",
        "/p/**",
        "/**/.git/**",
        "/**/*.pem",
        "/**/credentials*",
        "/p/*/x.py",
        "/p/a/**",
        "/**/a/b/**",
        "/p/?",
        "/**",
        "/p/**/**",
    ]
)


@given(st.lists(_NAMES, min_size=1, max_size=4), st.lists(_ENTRIES, max_size=5))
def test_what_is_ruled_out_by_its_name_is_in_no_path_set(names: list[str], entries: list[str]) -> None:
    path = "/p/" + "/".join(names)
    expected = any(pattern(entry.removesuffix("/**")).fullmatch(path) for entry in entries)
    assert Wanted(entries).has(names[-1], path) == expected


def test_the_whole_folder_may_be_protected(project: Path) -> None:
    confinement = Confinement((Profile("c", write=(f"{project}/**",), protect=(f"{project}/**",)),))
    assert survey(confinement).protected == {str(project)}
    assert [(mount.path, mount.how) for mount in mounts(confinement)] == [(str(project), "read")]


def test_hard_links_in_what_can_not_be_written_at_all_are_no_matter(project: Path) -> None:
    (project / "a").write_text("x")
    os.link(project / "a", project.parent / "b")
    everything = (f"{project}/**",)
    assert survey(Confinement((Profile("p", write=everything),))).linked == {f"{project}/a"}
    assert survey(Confinement((Profile("p", write=everything, protect=everything),))).linked == set()
