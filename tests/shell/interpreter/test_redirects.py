"""What redirects open, and what they give to standard input."""

import pytest

from humanlayer_agent.shell.analysis import analyse


def effects(text: str) -> list[str]:
    return [
        f"{e.kind} {e.pattern or e.operand}{'' if e.resolved else '?'}"
        for c in analyse(text, cwd="/p", environ={}).commands
        for e in c.effects
        if e.source == "redirect"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (": > a >> b >| /c", ["write /p/a", "append /p/b", "write /c"]),
        (": &> a", ["write /p/a"]),
        (": >& a", ["write /p/a"]),
        (": &>> a", ["append /p/a"]),
        (": <> a", ["read /p/a", "write /p/a"]),
        (": 2>&1 1>&- 3<&0 4>&1-", []),
        (": >&２", ["write /p/２"]),
        (": > -", ["write /p/-"]),
        (": > /dev/stdout < /dev/stdin", []),
        (": > $x", ["write None?"]),
        (": > *.txt", ["write /p/*.txt"]),
        (": < /dev/tcp/host/80", ["network host:80"]),
        (": > /dev/udp/host/53", ["network host:53"]),
        (": < /dev/tcp/$h/80", ["network None?", "read None?"]),
        ("x=/a; : > $x", ["write /a"]),
        ("{ :; } > a", ["write /p/a"]),
        ("if :; then :; fi > a", ["write /p/a"]),
        ("while :; do :; done < a", ["read /p/a"]),
        ("(:) > a", ["write /p/a"]),
        ("[[ a ]] > b", ["write /p/b"]),
        ("exec 3> a", ["write /p/a"]),
        ("> a", ["write /p/a"]),
        (": > >(cat)", []),
    ],
)
def test_effects(text: str, expected: list[str]) -> None:
    assert effects(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "bash < f", "bash <&3", 'bash <<< "$x"', "bash <<E\n$x\nE", "ls | bash", "bash 0< f", "bash < /dev/null < f",
        "{ exec < f; bash; } < /dev/null", "echo ls | { exec < f; bash; }", "echo ls > f | bash <&4",
    ],
)  # fmt: skip
def test_a_script_that_nobody_can_read(text: str) -> None:
    commands = analyse(text, cwd="/p", environ={}).commands
    assert any(e.kind == "execute" and e.unread for c in commands for e in c.effects)


@pytest.mark.parametrize(
    "text", ["bash <<< ls", "bash <<'E'\nls\nE", "bash < f <<< ls", "echo ls | bash", "bash < /dev/null"]
)
def test_a_script_that_is_known(text: str) -> None:
    commands = analyse(text, cwd="/p", environ={}).commands
    assert not any(e.unread for c in commands for e in c.effects)


def test_a_descriptor_variable_is_a_number() -> None:
    commands = analyse("fd=/a; exec {fd}> f; rm $fd", cwd="/p", environ={}).commands
    assert [e.pattern for e in commands[-1].effects] == ["/p/*"]
