"""Which variables a confined command gets of whoever started the agent."""

import os
import pwd
import tempfile
from pathlib import Path

import pytest

from humanlayer_agent.processes.tool_variables import is_inherited


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("APP_MODE", "dev"),
        ("DJANGO_SETTINGS_MODULE", "shop.settings"),
        ("DATABASE_URL", "sqlite:///dev.db"),
        ("GIT_AUTHOR_NAME", "Ann"),
        ("PYTHONUNBUFFERED", "1"),
        ("PYTHONPATH", "/opt/x:/opt/y"),
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64"),
        ("CFLAGS", "-O2 -I/opt/include"),
        ("GOFLAGS", "-mod=mod"),
        ("NODE_OPTIONS", "--max-old-space-size=4096 --require /opt/x.js"),
        ("PIP_INDEX_URL", "https://example.org/simple"),
        ("EDITOR", "vim"),
    ],
)
def test_a_program_finds_what_it_finds_without(name: str, value: str) -> None:
    assert is_inherited(name, value, "/srv/app")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONPATH", "/srv/app/src"),
        ("PYTHONPATH", "/opt/x:src"),
        ("PYTHONPATH", "/opt/x:"),
        ("PYTHONPATH", "/opt/../srv/app"),
        ("LD_LIBRARY_PATH", "."),
        ("LD_LIBRARY_PATH", "/tmp/lib"),
        ("LD_PRELOAD", "/usr/lib/x.so"),
        ("CFLAGS", "-I./include"),
        ("CFLAGS", "-O2 -I/srv/app/include"),
        ("LDFLAGS", "-L."),
        ("NODE_OPTIONS", "--require=../x.js"),
        ("NODE_OPTIONS", "--require ./x.js"),
        ("GIT_DIR", ".git"),
        ("GIT_CONFIG_PARAMETERS", "'core.pager'='x'"),
        ("TAR_OPTIONS", "--to-command=x"),
        ("BASH_FUNC_ls%%", "() { rm x; }"),
        ("HUMANLAYER_STORE", "/home/ann/store"),
        ("OLDPWD", "/"),
    ],
)
def test_nothing_that_agents_could_put_code_into_nor_that_changes_what_was_judged(name: str, value: str) -> None:
    assert not is_inherited(name, value, "/srv/app")


def test_a_link_to_the_project_is_the_project() -> None:
    with tempfile.TemporaryDirectory(dir=pwd.getpwuid(os.getuid()).pw_dir) as name:  # not one for temporary files
        base = Path(name)
        (base / "project").mkdir()
        (base / "link").symlink_to(base / "project")
        assert is_inherited("CLASSPATH", f"{base}/lib", f"{base}/project")
        assert not is_inherited("CLASSPATH", f"{base}/link/lib", f"{base}/project")
        assert not is_inherited("CLASSPATH", f"{base}/project/lib", f"{base}/link")


@pytest.mark.parametrize(
    "name", ["SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "TMUX", "TMPDIR", "DOCKER_HOST"]
)
def test_nothing_that_leads_out(name: str) -> None:
    assert not is_inherited(name, "/run/x", "/srv/app")
