"""`hla catalog`: what people see of the catalog."""

import pytest
from typer.testing import CliRunner

from humanlayer_agent.cli.catalog import app, description
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.shell.programs import catalog

runner = CliRunner()


def test_show_tells_options_operands_and_examples() -> None:
    done = runner.invoke(app, ["show", "rm"])
    assert done.exit_code == 0
    assert "rm: removes files" in done.output
    assert "-r, -R, --recursive" in done.output
    assert "delete (each of any number)" in done.output
    assert "rm -rf build\n      delete build" in done.output
    assert "delete x (not resolved)" in done.output


@pytest.mark.long
def test_show_finds_sub_commands() -> None:
    done = runner.invoke(app, ["show", "git", "commit"])
    assert "--amend" in done.output
    assert "vcs-rewrite last commit with amend" in done.output
    inner = runner.invoke(app, ["show", "pip", "install"])
    assert "package (each of any number)" in inner.output
    whole = runner.invoke(app, ["show", "git"])
    assert "rebase" in whole.output.partition("sub-commands")[2]


@pytest.mark.parametrize("words", [["frobnicate"], ["git", "frobnicate"], ["rm", "x"]])
def test_show_says_what_is_not_known(words: list[str]) -> None:
    done = runner.invoke(app, ["show", *words])
    assert done.exit_code == 1
    assert "does not know it" in done.output


def test_list() -> None:
    done = runner.invoke(app, ["list"])
    assert done.exit_code == 0
    assert "files (" in done.output
    assert f"{len(catalog.SHIPPED.names())} programs" in done.output
    assert "rm" not in runner.invoke(app, ["list", "archive"]).output
    assert isinstance(runner.invoke(app, ["list", "nothing"]).exception, ConfigError)


def test_everything_can_be_described() -> None:
    for name in catalog.SHIPPED.names():
        spec = catalog.SHIPPED.lookup(name)
        assert spec is not None
        assert next(iter(description(spec, name))).startswith(name)
