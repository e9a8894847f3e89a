"""What a command line would do: every effect, and whether it is certain."""

import pytest

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.program import Program
from tests.support.rows import for_each


def program(text: str, *, closed: bool = False) -> Program:
    return analyse(text, cwd="/p", environ={"HOME": "/h", "PATH": "/usr/bin"}, closed=closed)


def effects(text: str, *, closed: bool = False) -> list[str]:
    """The effects of `text` as "kind operand", with a question mark where they are not certain."""
    return [
        f"{e.kind} {e.pattern or e.operand}{'' if e.resolved else '?'}"
        for c in program(text, closed=closed).commands
        for e in c.effects
    ]


CERTAIN = [
    # control flow
    ("cd /a && rm x", ["delete /a/x"]),
    ("cd /a; rm x", ["delete /a/x", "delete /p/x"]),
    ("cd /a || rm x", ["delete /p/x"]),
    ("! cd /a && rm x", ["delete /p/x"]),
    ("! cd /a || rm x", ["delete /a/x"]),
    ("if cd /a; then rm x; else rm y; fi", ["delete /a/x", "delete /p/y"]),
    ("(cd /a && rm x); rm y", ["delete /a/x", "delete /p/y"]),
    ("cd /a | true; rm x", ["delete /p/x"]),
    ("cd /a & rm x", ["delete /p/x"]),
    ("true || rm x", ["delete /p/x"]),
    ("exit; rm /x", ["delete /x"]),
    ("until cd /a; do rm x; done", ["delete None?"]),
    ("{ return; x=/; rm -rf $x; }", ["delete /"]),
    # variables
    ("x=a; rm $x", ["delete /p/a"]),
    ("x=a; x+=b; rm $x", ["delete /p/ab"]),
    ("x=a rm $x", ["delete None?"]),
    ("x=a; (x=b); rm $x", ["delete /p/a"]),
    ("x=a; x=b | true; rm $x", ["delete /p/a"]),
    ("x=a; [ q ] && x=b; rm $x", ["delete /p/b", "delete /p/a"]),
    ("for x in a b; do rm $x; done", ["delete /p/a", "delete /p/b"]),
    ("for x in *.py; do rm \"./$x\"; done", ["delete /p/./*.py"]),
    ("set -- a /b; rm \"$2\"", ["delete /b"]),
    ("set -- a /b; shift; rm \"$@\"", ["delete /b"]),
    ("a=(x /y); rm \"${a[@]}\"", ["delete /p/x", "delete /y"]),
    ("a=(rm -rf /); \"${a[@]}\"", ["delete /"]),
    ("declare -a a=(1 /y); rm ${a[1]}", ["delete /y"]),
    ("x=' -rf /'; rm a$x", ["delete /p/a", "delete /"]),
    ("x=/a/b.c; rm ${x%.c} ${x##*/} ${x/b/d} ${x:2:1}", ["delete /a/b", "delete /p/b.c", "delete /a/d.c", "delete /"]),
    ("read -r x <<< /a; rm $x", ["delete /a"]),
    ("rm $(echo /a) \"$(printf '%s-%s' b c)\"", ["delete /a", "delete /p/b-c"]),
    # functions
    ("f() { rm \"$1\"; }; f /a", ["delete /a"]),
    ("f() { rm /a; }", ["delete /a"]),
    ("ls() { rm /a; }; ls", ["delete /a"]),
    ("ls() { rm /a; }; unset -f other; ls", ["delete /a"]),
    ("f() { x=/a; }; f; rm $x", ["delete /a"]),
    ("f() { g; }; g() { rm /a; }; f", ["delete /a"]),
    # nested shells
    ("bash -c 'rm \"$1\"' n /a", ["delete /a"]),
    ("x=/a; bash -c 'rm $x'", ["delete None?"]),
    ("export x=/a; bash -c 'rm $x'", ["delete /a"]),
    ("eval 'x=/a'; rm $x", ["delete /a"]),
    ("eval eval rm /a", ["delete /a"]),
    ("bash <<< 'rm /a'", ["delete /a"]),
    ("bash <<'E'\nrm /a\nE", ["delete /a"]),
    ("echo rm /a | bash", ["delete /a"]),
    ("printf 'rm %s' /a | sh", ["delete /a"]),
    ("trap 'rm /a' EXIT", ["delete /a"]),
    ("trap 'rm /a' EXIT -p", ["delete /a"]),
    ("exec rm /a", ["delete /a"]),
    ("command command rm /a", ["delete /a"]),
    ("x=1 y=2 command eval rm /a", ["delete /a"]),
    # redirects
    ("exec > /a", ["write /a"]),
    ("f() { :; } > /a; f", ["write /a"]),
    ("while :; do :; done > /a", ["write /a"]),
    ("for PATH in x; do :; done", ["environment PATH?"]),
    (": ${PATH:=x}", ["environment PATH?"]),
    ("read PATH < /a", ["environment PATH?", "read /a"]),
]  # fmt: skip


@for_each(("text", "expected"), CERTAIN)
def test_effects(text: str, expected: list[str]) -> None:
    assert program(text).status == "ok"
    assert effects(text) == expected


@pytest.mark.parametrize("failing", [": $((1/0))", "UID=5", "echo ${x:0:-9}", "readonly y; y=1", "b[-5]=1"])
def test_an_error_ends_only_its_line(failing: str) -> None:
    assert "delete /" in effects(f"x=/\n{failing}; x=/a\nrm -rf $x")
    assert "delete /" not in effects(f"x=/\n{failing}\nx=/a\nrm -rf $x")


def test_a_redirect_that_fails_stops_the_command() -> None:
    assert effects("x=/; export x=/a > f; rm -rf $x")[1:] == ["delete /a", "delete /"]
    assert effects("x=/; export x=/a 2> /dev/null; rm -rf $x")[1:] == ["delete /a"]


def test_a_decoded_script_is_listed() -> None:
    assert "delete /a" in effects("echo cm0gL2E= | base64 -d | bash")
    assert "delete /a" in effects("echo 726d202f61 | xxd -r -p | bash")
    assert "delete /a" in effects("echo 'a/ mr' | rev | sh")
    assert "delete /a" in effects("echo ez /n | tr a-z n-za-m | tr q d | bash; rm /a")


UNKNOWN_TARGET = [
    "x=/a; f() { x=/; }; for i in 1 2; do rm -rf $x; f; done",
    "x=/a; for i in 1 2; do rm -rf $x; {eval,x=/}; done",
    "x=/a; for i in 1 2; do rm -rf $x; read x\"\"; done",
    "set -- /a; while :; do rm -rf \"$1\"; set -- /; done",
    "set -- /a /b; while :; do rm -rf \"$1\"; shift; done",
    "select x in /a; do rm -rf $x/; done",
    "readonly x=/\nx=/a\nrm -rf $x",
    "declare -u x; x=/a; rm -rf $x",
    "PWD=/a; cd /; rm -rf $PWD",
    "_=/a; : /; rm -rf $_",
    "unset RANDOM; read RANDOM < f; rm /$RANDOM",
    "rm -rf /$!",
    "IFS=$y; x=a/b; rm -rf $x",
    "cd -P l; cd ..; rm x",
    "CDPATH=/etc; cd x && rm y",
    "cd -; rm x",
    "f() { cd /; }; for i in 1 2; do rm x; f; done",
    "x=/a; export x; sudo bash -c 'rm -rf $x/'",
    "export x=/a; env -u \"$y\" bash -c 'rm -rf $x/'",
    "x=/a; x=1 true; bash -c 'rm -rf $x/'",
    "unset HOME; HOME=/a; bash -c 'rm -rf $HOME/'",
    "[ q ] && export x; x=/a; bash -c 'rm -rf $x/'",
    "x=/a; eval \"$y\"; rm -rf $x",
    "x=/a; . ./f; rm -rf $x",
    "x=/a; $y x=/; rm -rf $x",
    "x='\\*'; rm $x",
    "rm ${x:-'a b' c}",
    "y=1; rm $y{a,b}",
    "rm ~root/x ~+/y",
    "IFS=0; rm /tmp$((101))",
]  # fmt: skip


@pytest.mark.parametrize("text", UNKNOWN_TARGET)
def test_what_is_not_certain_is_said_so(text: str) -> None:
    found = [e for c in program(text).commands for e in c.effects if e.kind == "delete"]
    assert found
    assert program(text).status != "ok" or any(not e.resolved for e in found)


PARTIAL = [
    "x='a[$(rm y)]'; ((x))",
    "x='a[$(rm y)]'; [[ $x -eq 1 ]]",
    "x='a[$(rm y)]'; echo $((x+1))",
    "x='a[$(rm y)]'; y=x; echo $((y))",
    "x='a[$(rm y)]'; echo ${z:x}",
    "x='a[$(rm y)]'; echo ${b[x]} ${b[$x]}",
    "x='a[$(rm y)]'; [ -v \"$x\" ]",
    "x='a[$(rm y)]'; [[ -v $x ]]",
    "declare -i n; n='a[$(rm y)]'",
    "declare -i n='a[$(rm y)]'",
    "let 'n=a[$(rm y)]'",
    "unset 'a[$(rm y)]'",
    "read 'a[$(rm y)]'",
    "read n < f; ((n))",
    "n=$(cat f); echo $((n))",
    "echo ${x@P}",
    "x=PATH; echo ${!x}",
    "declare -n x=y",
    "alias ls=rm",
    "hash -p /bin/rm ls",
    "enable -f ./x.so ls",
    "shopt -s expand_aliases",
    "shopt -s nocaseglob",
    "set -o posix",
    "set +B",
    "mapfile -C 'rm x' a",
    "trap 'x=/' DEBUG",
    "trap 'cd /' USR1",
    "command_not_found_handle() { :; }",
    "f() { f; }; f",
    "export -f f",
    "bash <<'E'\nread x\ncat <<'F'\nrm -rf /\nF\nE",
    "bash <<'E'\ncat > f\nrm x\nE",
    "sh -c '[[ a > b ]]'",
    "sh -c 'x=a; x+=b; $x'",
    "sh -c 'pushd /a; rm x'",
    "sh -c 'rm {a,b}'",
    "sh -c 'ls &> f'",
    "sh -c 'echo $'\"'\"'a'\"'\"",
]  # fmt: skip


@pytest.mark.parametrize("text", PARTIAL)
def test_what_could_run_unseen_makes_it_partial(text: str) -> None:
    assert program(text).status != "ok"


HARMLESS = [
    "[[ $? -eq 0 ]]",
    "i=0; while ((i < 5)); do ((i++)); done",
    "i=0; while [[ $i -lt 5 ]]; do i=$((i+1)); done",
    "n=$(wc -l < f); [[ $n -gt 3 ]] && echo $((n*2))",
    "for ((i=0; i<3; i++)); do echo $i; done",
    "declare -A m; m[$k]=1; echo ${m[$k]}",
    "a=(1 2); i=0; echo ${a[$i]} ${a[i+1]} ${#a[@]}",
    "trap 'rm f' EXIT; trap 'echo x' INT",
    "sh -c 'rm \"$1\" > /dev/null 2>&1' n x",
    "hash -r",
    "set -euo pipefail",
    "bash <<'E'\nls x\ncat f\nE",
    "f() { local x=1; echo $x; }; f; f",
    "echo \"${x:-a}\" ${#x} ${!x*}",
]  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_commands_stay_ok(text: str) -> None:
    assert (program(text).status, program(text).reasons) == ("ok", [])


def test_a_function_that_may_be_undefined_may_be_the_program() -> None:
    for text in (
        "[ x ] && rm() { :; }; rm /a",
        "f() { [ $x ] && return; rm() { :; }; }; f; rm /a",
        "rm() { :; }; for i in 1 2; do rm /a; unset -f rm; done",
        "command rm() { :; }; rm /a",
        "(rm() { :; }); rm /a",
    ):
        assert "delete /a" in effects(text) or program(text).status != "ok", text


def test_a_definition_hides_the_program() -> None:
    assert effects("rm() { :; }; rm /a") == []


def test_a_function_defined_later_in_a_loop_is_called() -> None:
    assert "delete /etc" in effects('for i in 1 2; do ls /etc; ls() { rm -r "$1"; }; done; ls /tmp/x')


def test_a_function_that_eval_defines_in_a_loop_is_called() -> None:
    text = "for i in 1 2; do ls /etc; eval 'ls() { rm -r \"$1\"; }'; done; ls /tmp/x"
    assert "delete /etc" in effects(text)


def test_input_that_several_commands_share_is_not_read_as_one_script() -> None:
    for text in ("{ read x; bash; } <<'E'\nls\nE", "echo ls | { read x; bash; }", "f() { bash; }; f <<< ls"):
        kinds = [(e.kind, e.unread) for c in program(text).commands for e in c.effects]
        assert ("execute", True) in kinds, text


def test_spans_are_of_the_action_text() -> None:
    text = "ls; bash -c 'rm /a'"
    command = program(text).commands[-1]
    assert command.span == (text.index("'"), len(text))
    assert command.via == ("bash",)
    assert command.inside == ("string",)


def test_unset_variables_of_a_closed_environment_are_empty() -> None:
    assert effects("rm -rf $nothing/", closed=True) == ["delete /"]
    assert effects("rm -rf $nothing/") == ["delete None?"]


LARGE = {
    "open braces": "echo " + "{" * 60_000,
    "braces": "echo " + "{a,b}" * 12_000,
    "doubling": "x=aaaaaaaa\n" + "x=$x$x\n" * 1_500 + "rm $x",
    "expansion": f"x={'a' * 8_000}\necho {'$x ' * 3_900}",
    "one word": "echo " + "$x" * 32_000,
    "choices": "for x in 1 2 3 4 5 6 7 8; do echo " + "$x$x$x" * 5_000 + "; done",
    "calls": "f0() { ls; ls; }\n" + "".join(f"f{i}() {{ f{i - 1}; f{i - 1}; f{i - 1}; }}\n" for i in range(1, 19)) + "f18",
    "arithmetic": "".join(f"{a}='{'+'.join([b] * 600)}'\n" for a, b in ("ab", "bc", "cd", "de")) + "e=1; echo $((a))",
    "eval": "x='eval \"$x\"'; eval \"$x\"",
    "nested loops": "for i in a; do " * 22 + "f" + "; done" * 22,
}  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", LARGE)
def test_work_is_bounded(name: str) -> None:
    found = program(LARGE[name][:65_536])
    assert len(found.commands) <= 2_100
    assert sum(len(a) for c in found.commands for a in c.argv) < 8_000_000
    assert not any("internal" in reason for reason in found.reasons)
