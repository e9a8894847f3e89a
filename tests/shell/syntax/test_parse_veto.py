"""The second opinion: tree-sitter can make an `ok` a `partial`, never the other way round."""

import pytest

from humanlayer_agent.shell.syntax import parse, veto
from humanlayer_agent.shell.syntax.tree import Script


@pytest.mark.parametrize(
    "text",
    [
        "ls $(pwd)",
        "export A=1; unset B; [ -f x ] && rm $(y)",
        "time ls $(x)",
        "time -p -- ls $(x)",
        "a | time ls $(x)",
        "! ls $(x)",
        "if a; then b; elif c; then d; elif e; then f; fi",
        "for i in 1 2; do a; done; while b; do c; done; case x in y) d;; esac",
        "f() { a; }; (b; c) > d",
        "cat <<E\n$(a)\nE\nb",
        'FOO=1 x \'y z\' "$a" 2>&1 | "w" `v`',
        "[[ a == $(b) ]] && ((c))",
        "declare -a x=($(a))",
        "diff <(a) <(b)",
        "echo é $(ü x)",
    ],
)
def test_agrees(text: str) -> None:
    assert veto.objection(text, parse.read(text, [])) is None


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("ls $(rm x)", "ls $(pm x)"),
        ("a; rm x", "a"),
        ("a", "a; rm x"),
        ("a\nrm x", "a 'rm x'"),
        ("cat <<E\n$(rm)\nE", "cat <<'E'\n$(rm)\nE"),
        ("export A=$(rm)", "export A=1"),
        ("time rm", "time; rm".replace(";", " -p")),
    ],
)
def test_objects_when_the_commands_differ(text: str, other: str) -> None:
    """Each pair stands for a hole: what if our tree of `text` were that of `other`?"""
    script: Script = parse.read(other, [])
    if other == "time -p rm":
        assert veto.objection(text, script) is None
    else:
        assert veto.objection(text, script) == "tree-sitter sees other commands"


def test_syntax_error_makes_it_partial_and_keeps_the_script() -> None:
    found = parse.parse("{fd}>f rm x")
    assert (found.status, found.reasons) == ("partial", ["tree-sitter reports a syntax error"])
    assert found.script is not None
    assert ["rm", "x"] in [[word.text for word in command.words] for command in found.witnesses]


def test_other_commands_make_it_partial() -> None:
    found = parse.parse("cat <<E\n`rm x`\nE")  # a command that tree-sitter does not see
    assert (found.status, found.reasons) == ("partial", ["tree-sitter sees other commands"])


def test_without_a_second_opinion_it_is_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> None:
        raise OSError("no library")

    monkeypatch.setattr(veto, "tree", broken)
    assert parse.parse("ls `pwd`").status == "partial"
    assert parse.parse("ls 'x").status == "failed"


def test_a_fault_of_ours_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    from humanlayer_agent.shell.syntax import fast_path

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(fast_path, "read", broken)
    assert parse.parse("ls").status == "ok"
    monkeypatch.setattr(parse, "read", broken)
    assert (parse.parse("ls").status, parse.parse("ls").reasons) == ("failed", ["internal error"])


@pytest.mark.parametrize(
    "text", ["\U0010ffff$(ls)", "{\U0010ffff\U0010ffff", "\udcd3><\U0010ffff$(\x85", "ls \U0001f600 $(rm x)"]
)
def test_characters_that_crash_tree_sitter_do_not_reach_it(text: str) -> None:
    assert veto.plain(text).isascii()
    assert len(veto.plain(text)) == len(text)
    parse.parse(text)


def test_a_long_text_gets_no_second_opinion_and_is_partial() -> None:
    text = "ls $(pwd) '" + "x" * veto.MAX_VETO_CHARS + "'"
    assert parse.parse(text).reasons == ["too long for the second parser"]
