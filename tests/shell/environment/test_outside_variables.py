"""Variables that the shell was started with are seen where they are used; held against bash, which prints them."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from tests.support.extent import examples


def used(text: str, environ: dict[str, str] | None = None) -> list[str | None]:
    """The variables from outside that are used, None for one that is not known."""
    program = analyse(text, cwd="/p", environ=environ or {}, closed=environ is not None)
    return [use.operand for command in program.commands for use in command.uses]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("echo $API_TOKEN", ["API_TOKEN"]),
        ('curl -H "Authorization: ${API_TOKEN}" h', ["API_TOKEN"]),
        ("echo ${X:-$DB_PASSWORD} ${API_TOKEN:0:2}", ["X", "DB_PASSWORD", "API_TOKEN"]),
        ("cat <<E\n$API_TOKEN\nE", ["API_TOKEN"]),
        ("cat <<'E'\n$API_TOKEN\nE", []),
        ("echo '$API_TOKEN' \\$API_TOKEN", []),
        ("bash -c 'echo $API_TOKEN'", ["API_TOKEN"]),
        ("x=$API_TOKEN", ["API_TOKEN"]),
        ("ls > $API_TOKEN", ["API_TOKEN"]),
        ("for i in $API_TOKEN; do :; done", ["API_TOKEN"]),
        ("case $API_TOKEN in a) ;; esac", ["API_TOKEN"]),
        ("[[ $API_TOKEN =~ (.*) ]]", ["API_TOKEN"]),
        ("echo $((API_TOKEN))", ["API_TOKEN"]),
        ("let x=API_TOKEN", ["API_TOKEN"]),
        ("[[ API_TOKEN -eq 1 ]]", ["API_TOKEN"]),
        ("source ./x; echo $API_TOKEN", ["API_TOKEN"]),
        ("x=API_TOKEN; echo ${!x}", ["API_TOKEN"]),
        ("echo ${!x}", [None]),
        ("python3 -c 'import os, sys; print(os.environ[sys.argv[1]])'", [None]),
        ("echo $HOME $? $RANDOM", ["HOME"]),
        ("for i in $LIST; do echo $i; done", ["LIST"]),
        ("[[ -f x && 1 -eq M ]]", ["M"]),
        ("echo ${!API_@} ${!a[@]}", []),
        ("API_TOKEN=x; echo $API_TOKEN", []),
        ("API_TOKEN=$(cat x); echo $API_TOKEN", []),
        ("for API_KEY in a b; do echo $API_KEY; done", []),
        ("f() { local API_KEY=$1; echo $API_KEY; }; f x", []),
        ('[ -n "$API_TOKEN" ] && [[ -z $API_TOKEN ]]', []),
        ('[ "$API_TOKEN" = x ]', ["API_TOKEN"]),
        ("echo ${API_TOKEN:+set} ${API_TOKEN+set} ${#API_TOKEN}", []),
        ("python3 -c 'import os; print(os.environ[\"API_TOKEN\"])'", ["API_TOKEN"]),
    ],
)  # fmt: skip
def test_what_is_used(text: str, expected: list[str | None]) -> None:
    assert used(text) == expected


def test_what_the_shell_was_not_started_with_is_no_secret() -> None:
    assert used("echo $API_TOKEN", {"HOME": "/h"}) == []
    assert used("echo $API_TOKEN", {"API_TOKEN": "x"}) == ["API_TOKEN"]
    assert used("source ./x; echo $API_TOKEN", {"HOME": "/h"}) == ["API_TOKEN"]


# ---- against bash ------------------------------------------------------------------------------------------

MARK = "12x9-value-of-the-secret"
BEFORE = [
    "API_TOKEN=x", "false && API_TOKEN=x", "true || API_TOKEN=x", "unset API_TOKEN", "f() { local API_TOKEN=y; }; f",
    "f() { local API_TOKEN=y; unset API_TOKEN; }; f", "API_TOKEN=x true", "API_TOKEN=x eval :", "(API_TOKEN=x)",
    "API_TOKEN=x | true", "{ API_TOKEN=x; } & wait", "for API_TOKEN in; do :; done", "for API_TOKEN in a; do :; done",
    "while false; do API_TOKEN=x; done", "read -Q API_TOKEN", "read API_TOKEN <<< x", "declare API_TOKEN+=x", "API_TOKEN+=x",
    "declare -x API_TOKEN", "export -n API_TOKEN", "case a in b) API_TOKEN=x;; esac", "if false; then API_TOKEN=x; fi",
    "printf -v API_TOKEN x", ": ${API_TOKEN:=x}", "f() { API_TOKEN=x; return; }; (f)", "f() { API_TOKEN=x; }; f",
    "eval 'API_TOKEN=x'", "API_TOKEN[1]=x", "unset 'API_TOKEN[0]'", "mapfile API_TOKEN < /dev/null", "let API_TOKEN=1",
    "trap 'API_TOKEN=x' EXIT", "g() { unset API_TOKEN; }; f() { local API_TOKEN=1; g; echo $API_TOKEN; }; f",
    "f() { local API_TOKEN; echo $API_TOKEN; }; f", "API_TOKEN=x f", "declare API_TOKEN", "export API_TOKEN=x", "false; x=1",
    "f() { declare -g API_TOKEN=x; }", "until true; do API_TOKEN=x; done", "readonly API_TOKEN", "local API_TOKEN=x",
    "unset x; API_TOKEN=${x?}", "API_TOKEN=$((1/0))",
]  # fmt: skip
PRINTS = [
    'echo "$API_TOKEN"', "echo ${API_TOKEN:-a}", "cat <<< $API_TOKEN", "bash -c 'echo \"$API_TOKEN\"'",
    "h() { echo $API_TOKEN; }; h", 'echo "${API_TOKEN[@]}"', 'x=$API_TOKEN; echo "$x"', "eval 'echo $API_TOKEN'",
    "echo ${API_TOKEN@Q}", "declare -p API_TOKEN", "env", "echo {a,$API_TOKEN}", "for i in $API_TOKEN; do echo $i; done",
    "[[ $API_TOKEN =~ .* ]]; echo $BASH_REMATCH", 'x=API_TOKEN; echo "${!x}"', "echo $((API_TOKEN))", "let y=API_TOKEN",
    "test $API_TOKEN -eq 1", '[ "$API_TOKEN" -eq 1 ]', "[[ API_TOKEN -eq 1 ]]", 'cd "$API_TOKEN"', "(( API_TOKEN ))",
    "declare -i y=API_TOKEN", "a[API_TOKEN]=1", "echo ${a[API_TOKEN]}", "echo ${API_TOKEN^^}", "set", "export -p",
    "printenv API_TOKEN", ": ${y:?$API_TOKEN}", "cat <<E\n$API_TOKEN\nE\n", "$API_TOKEN", "x=(1 $API_TOKEN); echo ${x[1]}",
    "unset y; echo ${y:-${API_TOKEN}}", "(echo $API_TOKEN) | cat", "trap 'echo $API_TOKEN' EXIT",
]  # fmt: skip


@settings(max_examples=examples(150))
@given(st.lists(st.sampled_from(BEFORE), max_size=3), st.sampled_from(PRINTS), st.sampled_from(["; ", "\n", " && "]))
def test_what_bash_prints_is_seen(before: list[str], last: str, between: str) -> None:
    script = between.join([*before, last])
    bash = ["bash", "--norc", "--noprofile", "-c", script]
    done = subprocess.run(bash, env={"PATH": "/usr/bin:/bin", "API_TOKEN": MARK}, capture_output=True, text=True)
    if MARK.lower() not in (done.stdout + done.stderr).lower():
        return
    program = analyse(script, cwd="/p")
    effects = [e for c in program.commands for e in (*c.effects, *c.uses) if e.kind == "environment"]
    seen = any(e.operand in (None, "environment", "API_TOKEN") and e.role in ("expanded", "printed") for e in effects)
    assert program.status != "ok" or seen
