"""What a confined command finds in its environment."""

import os
from pathlib import Path

import pytest

from humanlayer_agent.confine.environment import confined_environment, toolchain_reads


def test_temporary_files_go_to_its_own_tmp() -> None:
    env = {"PATH": "/bin", "HOME": "/home/ann", **dict.fromkeys(["TMPDIR", "TMP", "TEMP"], "/run/x")}
    assert confined_environment(env) == {"PATH": "/bin", "HOME": "/home/ann"}


def test_caches_are_the_projects_own(tmp_path: Path) -> None:
    env = confined_environment({"HOME": str(tmp_path), "PIP_CACHE_DIR": "/root/.cache/pip"}, caches="/var/c")
    assert (env["PIP_CACHE_DIR"], env["GOCACHE"], env["npm_config_cache"]) == (
        "/var/c/pip",
        "/var/c/go-build",
        "/var/c/npm",
    )
    assert (env["XDG_CACHE_HOME"], env["UV_LINK_MODE"], env["HOME"]) == ("/var/c/xdg", "copy", str(tmp_path))
    assert "GRADLE_RO_DEP_CACHE" not in env
    assert "npm_config_store_dir" not in env  # npm would warn of it
    (tmp_path / "pnpm-lock.yaml").touch()
    env = confined_environment({"HOME": str(tmp_path)}, caches="/var/c", project=str(tmp_path))
    assert (env["npm_config_store_dir"], env["npm_config_package_import_method"]) == ("/var/c/pnpm", "copy")
    (tmp_path / ".gradle/caches").mkdir(parents=True)
    env = confined_environment({"HOME": str(tmp_path)}, caches="/var/c")
    assert env["GRADLE_RO_DEP_CACHE"] == f"{tmp_path}/.gradle/caches"
    assert "PIP_CACHE_DIR" not in confined_environment({"HOME": str(tmp_path)})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path)) / "home"
    folder.mkdir()
    return folder


def reads(home: Path, *folders: Path | str, project: Path | None = None) -> set[str]:
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True) if str(folder).startswith(str(home.parent)) else None
    environ = {"PATH": os.pathsep.join(map(str, folders)), "HOME": str(home)}
    return set(toolchain_reads(environ, project or home / "work/project"))


def test_where_a_folder_of_path_was_installed_to(home: Path) -> None:
    opt = home.parent / "opt/tool"
    assert reads(home, opt / "bin") == {f"{opt}/**"}
    assert reads(home, opt / "shims") == {f"{opt}/**"}
    assert reads(home, opt / "scripts") == {f"{opt}/scripts/**"}
    assert reads(home, home / ".pyenv/versions/3.12/bin") == {f"{home}/.pyenv/versions/3.12/**"}


def test_never_a_home_nor_what_lies_directly_in_it(home: Path) -> None:
    assert reads(home, home / "bin") == {f"{home}/bin/**"}
    assert reads(home, home / ".local/bin") == {f"{home}/.local/bin/**"}
    assert reads(home, home) == set()
    assert reads(home, home.parent) == set()
    assert reads(home, "/") == set()
    assert not {"/home/alice/**", "/home/alice/.local/**", "/root/**"} & set(
        toolchain_reads(
            {"PATH": "/home/alice/bin:/home/alice/.local/bin:/root/bin:/root/.local/bin", "HOME": str(home)}, "/p"
        )
    )
    assert reads(home, "bin", ".", "") == set()


def test_the_python_of_an_environment(home: Path) -> None:
    base = home.parent / "python/3.13"
    (base / "bin").mkdir(parents=True)
    interpreter = base / "bin/python3.13"
    interpreter.write_text("")
    interpreter.chmod(0o755)
    project = home / "work/project"
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").symlink_to(interpreter)
    assert reads(home, project=project) == {f"{base}/**"}


@pytest.mark.parametrize("name", ["python", "secrets"])
def test_a_link_of_the_project_to_something_else_gives_nothing(home: Path, name: str) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / name).write_text("key")
    (home / ".ssh" / name).chmod(0o755 if name == "secrets" else 0o600)
    project = home / "work/project"
    (project / ".venv/bin").mkdir(parents=True)
    (project / ".venv/bin/python").symlink_to(home / ".ssh" / name)
    assert reads(home, project=project) == set()
