"""Variables of tools: what a program may be given, and what asks whatever it is set to."""

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.environment.code_variables import steers
from tests.support.rows import for_each


def given(command: str) -> list[str | None]:
    """The variables by which `command` selects code, files or hosts."""
    program = analyse(command, cwd="/p", environ={"HOME": "/h"})
    return [e.operand for c in program.commands for e in c.effects if e.kind == "environment"]


@for_each(
    ("name", "value"),
    [
        ("GROFF_COMMAND_PREFIX", "./x"), ("GROFF_TMAC_PATH", "."), ("MANROFFSEQ", "t"), ("MANPATH", "m"), ("MAN_DB_CONFIG", "x"),
        ("DBUS_SYSTEM_BUS_ADDRESS", "unixexec:path=/bin/sh"), ("DBUS_SESSION_BUS_ADDRESS", "unixexec:path=./x"),
        ("Npm_config_script_shell", "./x"), ("nPM_CONFIG_REGISTRY", "http://e.org"), ("pnpm_config_shell", "x"), ("yarn_yarn_path", "./y"),
        ("Http_Proxy", "e.org:80"), ("My_proxy", "e.org:80"), ("CONFIG_SITE", "site"), ("AWK", "./awk"), ("RM", "rm -rf /"),
        ("PERL_UNSAFE_INC", "1"), ("NODE_TLS_REJECT_UNAUTHORIZED", "0"), ("IRBRC", "x.rb"), ("SPEC_OPTS", "-r ./x"),
        ("TS_NODE_COMPILER", "./x"), ("GTK_MODULES", "x"), ("QT_PLUGIN_PATH", "."), ("JULIA_PROJECT", "x"), ("LUA_PATH_5_4", "./?.lua"),
        ("R_LIBS_USER", "lib"), ("OCAMLRUNPARAM_FILE_COMMAND", "x y"), ("PYTHONSTARTUP", "a.py"), ("PGSERVICEFILE", "x"),
        ("ASAN_OPTIONS", "log_path=/srv/x"), ("COR_PROFILER_PATH", "./x.so"), ("FLASK_APP", "../x.py"), ("DJANGO_SETTINGS_MODULE", "a/b"),
        ("SOME_SHELL", "./x"), ("TOOL_ASKPASS", "./x"), ("X_LAUNCHER", "a b"), ("GROFF_FONT_PATH", None), ("VIRTUALENV_PYTHON", "./x"),
        ("LANGUAGE", "../x"), ("SYSTEMD_EDITOR", "x"), ("ANDROID_HOME", "./sdk"), ("GST_PLUGIN_PATH", "."), ("MAGICK_CONFIGURE_PATH", "."),
        ("SQLITE_HISTORY", "/srv/x"), ("JAVACMD", "./x"), ("npm_execpath", "./x.js"), ("CC_x86_64_unknown_linux_gnu", "./x"), ("HOST_CC", "./x"), ("PRISMA_QUERY_ENGINE_LIBRARY", "./x"), ("TRITON_PTXAS_PATH", "./x"), ("shell_escape", "t"), ("KAFKA_OPTS", "-javaagent:x"), ("OCAMLRUNPARAM", "v=x"), ("COMPlus_Profiler", "./x"), ("GMON_OUT_PREFIX", "../x"), ("PLAYWRIGHT_BROWSERS_PATH", "./x"), ("BUNDLE_PATH", "x"), ("SSH_ASKPASS_REQUIRE", "force"), ("CO", "ls -l;"), ("COFLAGS", ";ls"), ("CWEAVE", "./x"), ("LFLAGS", ";ls"), ("M2C", "./x"), ("PC", "./x"), ("TEX", "./x"), ("YFLAGS", ";ls"),
    ],
)  # fmt: skip
def test_what_a_tool_takes_from_its_environment(name: str, value: str | None) -> None:
    assert steers(name, value)


@for_each(
    ("name", "value"),
    [
        ("MY_FLAG", "1"), ("APP_MODE", "dev"), ("MY_DATA", "./data"), ("DATABASE_URL", "sqlite:///x.db"), ("LC_TIME", "C"), ("TZ", "UTC"),
        ("CI", "true"), ("NO_COLOR", "1"), ("COLUMNS", "200"), ("PYTHONDONTWRITEBYTECODE", "1"), ("PYTHONHASHSEED", "0"),
        ("DJANGO_SETTINGS_MODULE", "app.settings"), ("NODE_ENV", "test"), ("RUST_LOG", "a=debug"), ("RUST_BACKTRACE", "full"),
        ("CGO_ENABLED", "0"), ("GOFLAGS", "-mod=mod -count=1".replace("mod=mod", "mod=vendor")), ("CFLAGS", "-O2 -g"), ("FLASK_APP", "app.py"),
        ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1"), ("CUDA_VISIBLE_DEVICES", ""), ("OMP_NUM_THREADS", "1"), ("MPLBACKEND", "Agg"),
        ("DEBIAN_FRONTEND", "noninteractive"), ("JEST_WORKERS", "4"), ("DBUS_SESSION_BUS_ADDRESS", "/dev/null"), ("DISPLAY", ":0"),
        ("PYTHONWARNINGS", "ignore"), ("no_proxy", "localhost"), ("GOALS", "a/b"), ("MANAGER", "./x"), ("LESSON", "./x"), ("NODES", "a b"),
        ("QT_QPA_PLATFORM", "offscreen"), ("VITE_API_URL", "http://localhost:1"), ("GOOS", "linux"), ("TERM", "dumb"), ("PGPASSWORD", "x"),
    ],
)  # fmt: skip
def test_what_selects_nothing(name: str, value: str) -> None:
    assert not steers(name, value)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("GROFF_COMMAND_PREFIX=./x man -l a.1", ["GROFF_COMMAND_PREFIX"]),
        ("export GROFF_COMMAND_PREFIX=./x; man ls", ["GROFF_COMMAND_PREFIX"]),
        ("GROFF_COMMAND_PREFIX=./x; export GROFF_COMMAND_PREFIX; man ls", ["GROFF_COMMAND_PREFIX"]),
        ("declare -x GROFF_COMMAND_PREFIX=./x", ["GROFF_COMMAND_PREFIX"]),
        ("env GROFF_COMMAND_PREFIX=./x man ls", ["GROFF_COMMAND_PREFIX"]),
        ("GROFF_COMMAND_PREFIX=./x nice man ls", ["GROFF_COMMAND_PREFIX"]),
        ("GROFF_COMMAND_PREFIX=./x", []),
        ('python3 -c \'import os; os.environ["GROFF_COMMAND_PREFIX"] = "./x"\'', ["GROFF_COMMAND_PREFIX"]),
        # A name that no tool is known by is the project's own, but for what runs none of the project's code.
        ("MINE=./x pytest", []),
        ("export MINE=./x", []),
        ("MINE=./x man ls", ["MINE"]),
        ("MINE=$X man ls", ["MINE"]),
        ("env MINE=./x man ls", ["MINE"]),
        ("MINE=./x timeout 5 man ls", ["MINE"]),
        ("MINE=./x curl localhost:3000", ["MINE"]),
        ("MINE=dev man ls", []),
        ("MINE=./x cat a", []),
        ("PropertyOfABuild=./x dotnet build", ["PropertyOfABuild"]),
        ("TZ=Europe/Berlin systemctl status", []),
    ],
)
def test_what_is_given(command: str, expected: list[str]) -> None:
    assert given(command) == expected
