"""Offsets: every word stands in the source where it says it does, at any depth of nesting."""

import pytest

from humanlayer_agent.shell.syntax import parse
from humanlayer_agent.shell.syntax.refusal import Unparsed
from humanlayer_agent.shell.syntax.tree import Lit, Node, Script, children, simples
from tests.support.scripts import ScriptGenerator
from tests.support.trees import every_word


def check(text: str, script: Script) -> None:
    for word in every_word(script):
        assert text[word.start : word.end] == word.raw
        plain = not word.quoted and all(isinstance(part, Lit) for part in word.parts)
        if plain:
            assert word.text == word.raw.replace("\\\n", "")
    for command in simples(script):
        items = [*command.words, *command.assigns, *command.redirects]
        assert command.start == min(item.start for item in items)
        assert command.end == max(item.end for item in items)
    if script.body is not None:
        check_nodes(script.body)


def check_nodes(node: Node) -> None:
    assert node.start <= node.end
    for child in children(node):
        assert node.start <= child.start
        assert child.end <= node.end
        check_nodes(child)


@pytest.mark.parametrize(
    "text",
    [
        "ls é a$x 'b c' > f 2>&1",
        "echo $(rm é `rm \\`rm f\\`` <(rm))",
        'echo "`rm \\"a b\\" c`" d',
        "cat <<E\na $(rm b) `rm c` ${x:-$(rm d)}\nE\nrm e",
        "cat <<-E\n\ta $(rm b)\n\t\t$(rm c) é $(rm d)\n\tE\nrm e",
        "cat <<E\na\\\nb $(rm c)\\\n$(rm d)\nE\nrm e",
        "echo $(cat <<-E\n\t\t`rm \\\\a \\$(rm b)`\n\tE\n)",
        "a[$(rm x)]=$(rm y) v=(é $(rm z)) ls",
        "if a; then b; elif c; then rm d; fi > e; case x in é) rm f;; esac",
        "! a | b; for ((i=$(rm x);;)) { rm y; }; [[ é == $(rm z) ]]; function f { rm g; } > h",
    ],
)
def test_spans(text: str) -> None:
    script = parse.read(text, [])
    check(text, script)
    for command in simples(script):
        if command.words and command.words[0].text == "rm":
            assert text[command.start : command.end].startswith("rm")


def test_offsets_inside_backticks_and_stripped_bodies() -> None:
    text = "cat <<-E\n\t\ta `rm \\`rm f\\`` b\n\tE\n"
    names = [command.words[-1] for command in simples(parse.read(text, []))]
    assert [(word.raw, text.index(word.raw)) for word in names][-1] == ("f", names[-1].start)


def test_spans_of_groups_cover_their_braces() -> None:
    text = "  { a; } > f; ( b )  "
    body = parse.read(text, []).body
    assert [text[part.start : part.end] for part in body.parts] == ["{ a; } > f", "( b )"]  # type: ignore[union-attr]


@pytest.mark.long
def test_spans_of_generated_scripts() -> None:
    checked = 0
    for seed in range(300):
        text = ScriptGenerator(seed + 7000).script().text
        try:
            script = parse.read(text, [])
        except Unparsed:
            continue
        check(text, script)
        checked += 1
    assert checked > 200
