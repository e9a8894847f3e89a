"""What commands are said to print must be what they print."""

import random
import subprocess
from pathlib import Path

import pytest

from humanlayer_agent.shell.analysis import analyse

ESCAPES = ["\\0162", "\\162", "\\0", "\\00", "\\040", "\\0401", "\\0377", "\\0200", "\\x41", "\\n", "\\t", "\\\\", "\\\\0162",
           "\\q", "\\c", "\\e", "\\u41", "a", " ", "é", "%", "%s", "\\", "0", "1", "\\\\\\0101", "\\'", "\\?", "\\1"]  # fmt: skip
SHAPES = [
    "printf %b {q}", "printf '%b-%b' {q} x", "printf '%b' a {q}", "printf 'x%by%s' {q}", "echo -e {q}", "echo -ne {q} b",
    "echo {q}", "printf {q}", "cat <<< {q}", "cat <<< \"$x\"", "cat <<< $x", "cat <<< \"$(cat <<< \"$x\")\"", "cat <<< \"$x\"'$x'", "cat <<< \"$@\"", "env -u y cat <<< {q}", "cat <<< a\"$x\"", "cat <<'E'\n{t}\nE", "cat <<E\nplain\nE",
    "cat <<E\n$x\nE", "cat <<-'E'\n\t{t}\n\tE", "printf %s {q} | cat", "cat <<< {q} | rev", "base64 -d <<< aGxhCg==",
    "printf %s {q} | tee /dev/null", "printf %s {q} | tee -i --append -- /dev/null", "printf %s {q} | tee -a /dev/null | cat", "cat < /dev/null <<< {q}", "cat 0<<< {q}",
    "cat 3<<< {q}", ": | printf %s {q}", "y=1 printf %s {q}", "y=1 x=2 printf '%s' \"$x\"", "POSIXLY_CORRECT=1 echo -n {q}", "ls /none | echo {q}", "ls | cat", "printf a | : | cat", "command cat <<< {q}", "command -- printf %s {q}", "env -- x=1 y= cat <<< {q}", "env printf %b {q}",
    "nice -n 5 timeout 5s cat <<< {q}", "/usr/bin/printf %s {q} | stdbuf -oL /bin/cat", "setsid -w nohup cat <<< {q}",
    "env POSIXLY_CORRECT=1 echo -n {q}", "env -i printf %s {q}", "timeout x cat <<< {q}", "f() { printf %s \"$1\" {q}; }; f a", "tr a b <<< {q}", "cat <<< ~", "cat <<< {q} > /dev/null", "printf %b", "printf '%b%b' {q}",
]  # fmt: skip


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


@pytest.mark.parametrize("seed", range(2))
def test_what_is_known_is_printed(seed: int, tmp_path: Path) -> None:
    chance, certain = random.Random(seed), 0
    environ = {"HOME": "/h", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    for _ in range(200):
        text = "".join(chance.choice(ESCAPES) for _ in range(chance.randrange(1, 4)))
        command = chance.choice(SHAPES).replace("{q}", quoted(text)).replace("{t}", text)
        script = f"x={quoted(text)}\nprintf '<%s>' P \"$({command}\n)\" Q"
        found = analyse(script, cwd=str(tmp_path), environ=environ)
        probes = [c for c in found.commands if c.argv[:1] == ["printf"] and "P" in c.argv]
        if len(probes) != 1 or any(field.text is None for field in probes[0].words):
            continue
        run = subprocess.run(
            ["bash", "--norc", "--noprofile", "-c", script],
            cwd=tmp_path, env=environ, capture_output=True, stdin=subprocess.DEVNULL, timeout=600, check=True,
        )  # fmt: skip
        certain += 1
        assert run.stdout.decode("utf-8", "replace") == "".join(f"<{word}>" for word in probes[0].argv[2:]), script
    assert certain > 80


@pytest.mark.parametrize(
    "command",
    [
        "cat <<< rm | bash", "cat <<'E' | bash\nrm\nE", "printf %b '\\162m' | bash", "echo -e '\\0162m' | bash",
        "base64 -d <<< cm0= | bash", "env x=1 base64 -d <<< cm0= | env timeout 5 bash", "f() { echo rm; }; f | bash",
    "f() { printf '%s\\n' \"$1\"; }; $(f rm)", "echo rm | tee log | bash", "$(cat <<< rm)", "eval \"$(cat <<'E'\nrm\nE\n)\"",
    ],
)  # fmt: skip
def test_what_a_shell_is_fed_is_seen(command: str) -> None:
    assert "rm" in [c.program for c in analyse(command, cwd="/p", environ={}).commands]


@pytest.mark.parametrize(
    ("command", "last"),
    [
        ("set -- x; source /dev/stdin / <<< 'rm $1'", "/"),
        ("set -- x; source <(echo 'rm $1') /", "/"),
        ("set -- x; source <(echo 'rm $1')", "x"),
        ("set -- x; source <(echo 'rm $1') \"$y\"", None),
        ("set -- x; source <(echo 'set -- z') y; rm $1", None),
        ("set -- x; source <(echo ls) y; rm $1", None),
    ],
)
def test_parameters_of_what_is_sourced(command: str, last: str | None) -> None:
    (found,) = [c for c in analyse(command, cwd="/p", environ={}).commands if c.program == "rm"]
    assert found.words[-1].text == last
