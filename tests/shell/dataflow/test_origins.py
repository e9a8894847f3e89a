"""Where values are written: followed back from variables and from what commands read."""

import pytest

from humanlayer_agent.shell import Flows, NotFollowed, Origins, analyse
from humanlayer_agent.shell.syntax.tree import Simple


def origins(text: str) -> Origins:
    return Origins(Flows(analyse(text, cwd="/p")), text)


def command(text: str, name: str) -> Simple:
    """The last command of this name that stands in `text` itself."""
    found = [what for _, what, *_ in analyse(text, cwd="/p").trace if isinstance(what, Simple) and what.words]
    own = [each for each in found if each.words[0].raw == name == text[each.start : each.words[0].end]]
    return max(own, key=lambda each: each.start)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("echo a b | cmd", ["a", "b"]),
        ("cmd <<< a", ["a"]),
        ("cmd <<E\na\nE", ["a\n"]),
        ("cat <<E | cmd\na\nE", ["a\n"]),
        ("cat <<< a | tr x y | cmd", ["a"]),
        ("cmd < <(printf %s a)", ["%s", "a"]),
        ('cmd <<< "$(echo a)"', ['"$(echo a)"', "a"]),
        ("{ echo a; echo b; } | cmd", ["a", "b"]),
        ("echo a | { read x; cmd; }", ["a"]),
        ("{ cmd; } <<< a", ["a"]),
        ("while cmd; do :; done < <(echo a)", ["a"]),
        ("f() { cmd; }; f <<< a", ["a"]),
        ("f() { echo a; }; f | cmd", ["a"]),
        ("exit; echo a | cmd", ["a"]),
        ('echo "$(echo a)" | cmd', ["a", '"$(echo a)"']),
        ("cmd $(echo a)", []),  # that is a word of it
        ("sudo -u me env echo a | cmd", ["a"]),
        ("echo a; cmd", []),
        ("bash -c 'echo a | cmd' | cmd", []),  # it has no place of its own
    ],
)
def test_what_comes_to_the_standard_input(text: str, written: list[str]) -> None:
    found = origins(text).input_of(command(text, "cmd"))
    assert sorted(origin.word.raw for origin in found) == sorted(written)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("x=a y='b c'", [("x", "a"), ("y", "b c")]),
        ("x=(a b)", [("x", "a"), ("x", "b")]),
        ("x=$(echo a | rev)", [("x", "a")]),
        ("for x in a b; do :; done", [("x", "a"), ("x", "b")]),
        ("declare -r x='a'", [("x", "a")]),
        ("printf -v x %s a", [("x", "a")]),
        ("set -- a b", [("1", "a"), ("2", "b")]),
        ("f() { :; }; f a b", [("1", "a"), ("2", "b")]),
        ("read -r x y <<< 'a b c'", [("x", "a"), ("y", "b c")]),
        ("IFS=: read -p 'What? ' x y <<< a:b", [("IFS", ":"), ("x", "a"), ("y", "b")]),
        ("echo a | while read x; do :; done", [("x", "a")]),
        ("read <<< a", [("REPLY", "a")]),
        ("mapfile -t x < <(printf 'a\nb')", [("x", "a"), ("x", "b")]),
    ],
)
def test_what_variables_hold(text: str, held: list[tuple[str, str]]) -> None:
    found = list(origins(text).held())
    assert sorted({(each.name, each.text) for each in found}) == sorted(held)
    assert all(text[each.start : each.end] == each.text for each in found)


def test_what_was_not_followed_is_not_guessed() -> None:
    with pytest.raises(NotFollowed):
        origins("ls").input_of(command("echo a | cmd", "cmd"))
    with pytest.raises(NotFollowed):
        origins("ls").substituted(command("cmd $(echo a)", "cmd").words[1])
