"""Variables that select code."""

import pytest

from humanlayer_agent.shell.environment.code_variables import selects_code


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "PYTHONPATH", "GIT_SSH_COMMAND", "GIT_DIR", "GIT_CONFIG_KEY_0",
        "RIPGREP_CONFIG_PATH", "KUBECONFIG", "DOCKER_HOST", "npm_config_registry", "NPM_CONFIG_PREFIX", "PIP_INDEX_URL",
        "UV_INDEX_URL", "CARGO_TARGET_X86_64_RUNNER", "BASH_FUNC_ls%%", "PSQL_EDITOR", "POSIXLY_CORRECT", "XDG_CONFIG_HOME",
        "TF_CLI_ARGS_plan", "HUMANLAYER_STORE",
    ],
)  # fmt: skip
def test_selects_code(name: str) -> None:
    assert selects_code(name, "x")
    assert selects_code(name, None)


@pytest.mark.parametrize(
    "name", ["FOO", "LC_TIME", "CI", "PIPELINE", "GITHUB_RUN", "LDA", "TZ", "GIT_AUTHOR_NAME", "DEBUG"]
)
def test_does_not(name: str) -> None:
    assert not selects_code(name, "x")


@pytest.mark.parametrize("name", ["PAGER", "GIT_PAGER", "AWS_PAGER", "MANPAGER", "BAT_PAGER"])
def test_a_pager_is_code_unless_it_only_shows(name: str) -> None:
    assert not selects_code(name, "cat")
    assert not selects_code(name, "")
    assert selects_code(name, "rm x")
    assert selects_code(name, None)


def test_less_takes_commands() -> None:
    assert not selects_code("LESS", "-RX")
    assert selects_code("LESS", "+!ls")
    assert selects_code("LESS", None)


@pytest.mark.parametrize("name", ["LANG", "LC_ALL", "LC_CTYPE"])
def test_a_locale_may_change_where_a_quote_ends(name: str) -> None:
    for harmless in ("", "C", "POSIX", "C.UTF-8", "en_US.utf8", "zh_CN.UTF-8", "de_DE", "ca_ES.UTF-8@valencia"):
        assert not selects_code(name, harmless)
    for other in (None, "zh_CN.GBK", "zh_CN", "ja_JP.SJIS", "zh_TW.Big5", "ko_KR", "./own", "C.UTF-8/../own"):
        assert selects_code(name, other)
