"""What redirects open, and what they give to standard input."""

import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse
from tests.shell.test_analyse_oracle import holds


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
    commands = analyse("fd=/a; exec {fd}> f && rm $fd", cwd="/p", environ={}).commands
    assert [e.pattern for e in commands[-1].effects] == ["/p/*"]


def test_a_descriptor_that_is_not_opened_leaves_its_variable() -> None:
    commands = analyse("fd=/a; exec {fd}> f; rm $fd", cwd="/p", environ={}).commands
    assert [e.pattern for e in commands[-1].effects] == [None]


OPENED = [
    "<f",
    ">g",
    ">>g",
    ">|g",
    "<>f",
    "<<< x",
    "<&0",
    ">&1",
    "<&1-",
    "<&-",
    ">&-",
    "< <(:)",
    "<nosuch",
    "<&7",
    "<&$d",
]
REDIRECTED = [
    "exec {}", ": {}", "{} :", "echo {}", "cd . {}", "export y=1 {}", "command exec {}", "builtin exec {}", "command : {}",
    "eval : {}", "eval ': {}'", "f {}", "g", "/bin/true {}", "command /bin/true {}", "(: {})", ": {} | :", ": {} && :", "! : {}",
    "if : {}; then :; fi", "{{ : {}; }}", "{{ :; }} {}", "( : ) {}", "[[ a ]] {}", "(( 1 )) {}", "{}", "y=1 {}", "y=1 : {}",
    "for i in 1; do : {}; done", "for i in 1; do :; done {}", "case a in a) ;; esac {}", "h {}", "eval 'echo \"<$v>\"' {}",
]  # fmt: skip


@pytest.mark.sample(18)
@pytest.mark.parametrize("form", REDIRECTED)
@pytest.mark.parametrize("opened", OPENED)
def test_a_descriptor_variable_holds_what_bash_gives_it(form: str, opened: str, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    for name, start in (("v", "/a"), ("PATH", "/bin")):
        redirect = "{" + name + "}" + opened
        line = form.format(redirect).replace("$v", f"${name}")
        text = (
            f'{name}={start}; d=-; f() {{ :; }}; g() {{ : {redirect}; }}; h() {{ echo "<${name}>"; }}\n'
            f'{line}\necho "<${name}>"'
        )
        done = subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", text], cwd=tmp_path, env={"PATH": "/bin"}, capture_output=True,
            stdin=subprocess.DEVNULL, timeout=600, check=False,
        )  # fmt: skip
        program = analyse(text, cwd=str(tmp_path), environ={"PATH": "/bin"}, closed=True)
        if program.status != "ok":
            continue
        echoes = [c.words[1] for c in program.commands if c.argv[0:1] == ["echo"] and len(c.words) == 2]
        printed = [each[1:-1] for each in done.stdout.decode().splitlines() if each.startswith("<")]
        for value in printed:
            assert any(holds(word, f"<{value}>") for word in echoes), text
        if name == "PATH" and any(value != start for value in printed):
            changes = [e for c in program.commands for e in c.effects if e.operand == "PATH" and not e.resolved]
            assert changes, text
