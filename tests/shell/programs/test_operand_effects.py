"""From an operand to effects."""

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.programs.operand_effects import host_of


def effects(text: str) -> list[tuple[str, str | None, bool]]:
    return [
        (e.kind, e.pattern or e.operand, e.resolved)
        for c in analyse(text, cwd="/p", environ={}).commands
        for e in c.effects
    ]


def test_paths() -> None:
    assert effects("rm a") == [("delete", "/p/a", True)]
    assert effects("rm /a/../b") == [("delete", "/a/../b", True)]
    assert effects("rm *.py") == [("delete", "/p/*.py", True)]
    assert effects("rm '*'") == [("delete", "/p/*", True)]
    assert effects("rm a/.*") == [("delete", "/p/a", False)]
    assert effects('rm "$x"') == [("delete", None, False)]
    assert effects("cd $x; cd a; rm b")[-1] == ("delete", None, False)
    assert effects("rm -- -") == [("delete", "/p/-", True)]
    assert effects("cat -") == []


def test_every_directory_the_shell_may_be_in() -> None:
    assert effects("cd /a; rm b") == [("delete", "/a/b", True), ("delete", "/p/b", True)]


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("https://User@Example.com:8080/x", "example.com"),
        ("user@host:path", "host"),
        ("host:22", "host"),
        ("[::1]:80", "::1"),
        ("http://[::1", None),
        ("file:///x", "localhost"),
        ("a{b,c}.com", None),
        ("", None),
    ],
)
def test_hosts(text: str, host: str | None) -> None:
    assert host_of(text) == host
