"""What is read without argparse is what argparse reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from humanlayer_agent.cli import check, parse
from humanlayer_agent.cli.check import usual

_WORDS = st.sampled_from(
    [
        *("ls -la", "", "x", "--format", "json", "jsonl", "xml", "--cwd", "/srv", "--policy", "strict", "--project"),
        *("-x", "--observe", "--format=json", "--", "-", "--for", "-h", "--observe=1"),
    ]
)


@given(st.lists(_WORDS, max_size=5))
def test_it_is_what_argparse_reads(argv: list[str]) -> None:
    valued = ("--format", "--cwd", "--policy", "--project")
    for module, found in (
        (check, usual(argv, valued=valued, plain=("--observe",))),
        (parse, usual(argv, valued=valued[:2])),
    ):
        if found is None:
            continue
        expected = module._parsed(argv)
        assert not isinstance(expected, int)
        for name, value in vars(expected).items():
            assert getattr(found, name) == value, (argv, name)


@pytest.mark.parametrize("argv", [["--format"], ["--format", "xml"], ["a", "b"], ["-h"], ["--cwd", "--format"], ["--"]])
def test_what_is_unusual_is_left_to_argparse(argv: list[str]) -> None:
    assert usual(argv, valued=("--format", "--cwd")) is None


def test_parse_answers_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse.main(["--format", "json", "ls"]) == 0
    assert '"program": "ls"' in capsys.readouterr().out
    assert parse.main(["ls 'x"]) == 1
    assert "unterminated" in capsys.readouterr().out
    assert parse.main([]) == 2
    assert "give a command" in capsys.readouterr().err
    assert parse.main(["--nothing"]) == 2
