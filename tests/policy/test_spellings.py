"""What is denied where it is written plainly is denied in other spellings, where code nobody read may run as well."""

import pytest

from humanlayer_agent.action import Action
from humanlayer_agent.policy.director import Director
from tests.support.rows import for_each

PROJECT, HOME = "/nowhere/project", "/home/somebody"

DENIED = [
    "printf -v x %s rm; $x -rf /",
    "IFS=: read -r a b <<< 'rm -rf:/'; $a $b",
    "read -ra a <<< 'rm -rf /'; \"${a[@]}\"",
    "mapfile -t a < <(printf '%s\\n' rm -rf /); \"${a[@]}\"",
    'declare -A m=([a]=rm [b]=/); ${m[a]} -rf "${m[b]}"',
    "declare -A m; m[a]=rm; ${m[a]} -rf /",
    "x=rm; declare -n y=x; $y -rf /",
    "unset x; ${x:-rm} -rf /; ${x:=rm} -rf /",
    "bash <(echo 'rm -rf /')",
    "bash < <(echo 'rm -rf /')",
    "bash /dev/fd/5 5<<'E'\nrm -rf /\nE",
    "exec 5<<< 'rm -rf /'; bash <&5",
    "exec < <(echo rm -rf /); bash",
    "( exec <<< 'rm -rf /'; source /dev/stdin )",
    "{ bash; } <<< 'rm -rf /'",
    "f() { sh; }; echo 'rm -rf /' | f",
    "echo 'rm -rf /' > >(bash)",
    "{ echo ls; echo 'rm -rf /'; } | bash",
    "echo 'rm -rf /' | sudo tee /tmp/x | bash",
    "head -n 1 <<< 'rm -rf /' | bash",
    "sed s/x/r/ <<< 'xm -rf /' | bash",
    "bash +ex -c 'rm -rf /'",
    "bash -c '\"$0\" -rf /' rm",
    'bash -c \'"$0" "$@"\' rm -rf /*',
    'set -- rm -rf /*; "$@"',
    "echo / | xargs rm -rf",
    "printf '%s\\0' rm -rf / | xargs -0 env",
    "echo -rf / | xargs -n 2 rm",
    "/usr/./lib/..//bin/rm -rf /",
    "../../usr/bin/rm -rf /",
    "/proc/self/root/bin/rm -rf /",
    "$(command -v rm) -rf /",
    '"$(which rm)" -rf /',
    "r$@m -rf /",
    '$"rm" -rf /',
    "x='$(rm -rf /)'; : \"${x@P}\"",
    "f() { rm -rf ~; }; export -f f; bash -c f",
    "trap 'rm -rf ~' EXIT",
    "env -u X bash -c 'rm -rf ~'",
    "for p in rm; do $p -rf ~; done",
    "while read -r l; do eval \"$l\"; done <<< 'rm -rf /'",
    'while IFS= read -r l || [ -n "$l" ]; do bash -c "$l"; done < <(echo ls; echo \'rm -rf /\')',
    "cd && r\\\nm -rf *",
]


@pytest.fixture(scope="module")
def directors() -> dict[str, Director]:
    return {name: Director.load(name, project=PROJECT, environ={"HOME": HOME}) for name in ("sandbox", "default")}


@for_each("command", DENIED)
def test_other_spellings_are_denied_too(command: str, directors: dict[str, Director]) -> None:
    for director in directors.values():
        assert str(director.evaluate(Action(command, cwd=PROJECT)).verdict) == "deny"


@pytest.mark.parametrize(
    "command",
    [
        "printf -v x %s ls; $x",
        "read -ra a <<< 'ls -l'; \"${a[@]}\"",
        "mapfile -t a < <(printf '%s\\n' a b); ls \"${a[@]}\"",
        "printf '%s\\0' a b | xargs -0 rm -f",
        "echo a b | xargs -n 1 ls",
        'for f in ./*.py; do wc -l "$f"; done',
        "while read -r l; do echo \"$l\"; done <<< 'rm -rf /'",
        'set -- *.py; wc -l "$@"',
        'x=\'rm -rf /\'; read -r y <<< "$x"; echo "$y"',
        "declare -A m=([a]='rm -rf /'); echo \"${m[a]}\"",
        "xargs echo <<< 'rm -rf /'",
        "cat <(echo 'rm -rf /')",
        "echo 'rm -rf /' > >(cat)",
        'unset x; echo "${x:-rm -rf /}"',
        "trap 'echo rm -rf /' EXIT; ls",
    ],
)
def test_what_only_looks_like_it_is_allowed(command: str, directors: dict[str, Director]) -> None:
    assert str(directors["default"].evaluate(Action(command, cwd=PROJECT)).verdict) == "allow"
