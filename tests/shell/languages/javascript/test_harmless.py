"""Programs that compute and print: none of them does anything that a human would be asked about.

harmless.txt has one program a line.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.disk_reader import GivenReader
from humanlayer_agent.shell.languages import javascript
from humanlayer_agent.shell.languages.behaviour import Behaviour
from humanlayer_agent.shell.program import Program
from tests.support.extent import examples
from tests.support.rows import for_each

HERE = Path(__file__).parent
HARMLESS = (HERE / "harmless.txt").read_text(encoding="utf-8").splitlines()


@for_each("text", HARMLESS)
def test_nothing_is_asked(text: str) -> None:
    found = javascript.read(text)
    assert (found.acts, found.doubts) == ([], [])


@pytest.mark.long
def test_they_do_nothing(tmp_path: Path) -> None:
    """What node does when it runs them: no other program, no connection, no file but what it loads to start."""
    node, strace = shutil.which("node"), shutil.which("strace")
    if node is None or strace is None:
        pytest.skip("needs node and strace")
    if subprocess.run([strace, "-qq", "-o", os.devnull, "true"], check=False, capture_output=True).returncode:
        pytest.skip("this machine lets nobody trace a process: allowed in CI")
    own, log = tmp_path / "empty", tmp_path / "log"
    own.mkdir()
    trace = [
        strace,
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-e",
        "trace=execve,connect,openat,unlink,unlinkat,rename,mkdir",
        "-o",
        str(log),
    ]
    subprocess.run([*trace, node, "-e", ""], cwd=own, check=True, capture_output=True)
    before = changes(log.read_text())
    for text in HARMLESS:
        subprocess.run([*trace, node, "-e", text], cwd=own, check=False, capture_output=True)
        assert changes(log.read_text()) <= before, text
        assert not list(own.iterdir()), text


def changes(log: str) -> set[str]:
    """What a trace shows that starts, connects, or changes something."""
    out = set()
    for line in log.splitlines():
        call = line.split(maxsplit=1)[-1]
        name = call.partition("(")[0]
        if name == "openat" and not any(each in call for each in ("O_WRONLY", "O_RDWR", "O_CREAT")):
            continue
        out.add(f"{name} {call.split(chr(34))[1] if chr(34) in call else call}" if name != "execve" else name)
    return {each for each in out if not each.startswith(("openat /dev/", "openat /proc/", "+++", "---"))}


# ---- in a command -----------------------------------------------------------------------------------


def look(command: str, files: dict[str, str] | None = None, tracked: tuple[str, ...] = ()) -> Program:
    reader = GivenReader({f"/p/{k}": v for k, v in (files or {}).items()}, [f"/p/{t}" for t in tracked])
    return analyse(command, cwd="/p", environ={"HOME": "/home/u"}, reader=reader)


def effects(program: Program) -> list[str]:
    return [
        ("!" if e.unread else "?" if not e.resolved else "")
        + f"{e.kind}{':' + e.role if e.role in ('project', 'script', 'code', 'stdin') else ''} {e.operand or ''}"
        for c in program.commands
        for e in c.effects
    ]


ONE, TWO = "console.log(require('./m').x)", "exports.x = 1"
COMMANDS: list[tuple[str, dict[str, str], tuple[str, ...], list[str]]] = [
    (f"node -e {shlex.quote('console.log(1 + 1)')}", {}, (), []),
    ("node -p 1+1", {}, (), []),
    ("node --input-type=module -e 'console.log(import.meta.url)'", {}, (), []),
    ("node <<'E'\nconsole.log(1)\nE", {}, (), []),
    ("echo 'console.log(1)' | node", {}, (), []),
    ("echo 'console.log(1)' | node - a b", {}, (), []),
    ("node a.js", {"a.js": "console.log(process.argv[2])"}, (), ["execute:script /p/a.js"]),
    ("node a.js", {"a.js": ONE, "m.js": TWO}, (), ["execute:script /p/a.js", "execute:script /p/m.js"]),
    ("node a.js", {"a.js": ONE, "m.js": ONE}, (), ["execute:script /p/a.js", *["execute:script /p/m.js"] * 2]),
    ("node a.js", {"a.js": ONE}, (), ["execute:script /p/a.js", "!execute:script /p/m"]),
    ("node a.js", {"a.js": ONE, "m.js": "x()"}, ("m.js",), ["execute:script /p/a.js", "execute:project /p/m.js"]),
    ("node a.js", {"a.js": "require('./d')", "d/index.js": "1"}, (), ["execute:script /p/a.js", "execute:script /p/d/index.js"]),
    ("node a.js", {"a.js": "require('./d')", "d/package.json": "{}"}, (), ["execute:script /p/a.js", "!execute:script /p/d/package.json"]),
    ("node a.mjs", {"a.mjs": "import x from './m.mjs'", "m.mjs": "export default 1"}, (), ["execute:script /p/a.mjs", "execute:script /p/m.mjs"]),
    ("node a.ts", {"a.ts": "const x: number = 1; console.log(x as any)"}, (), ["execute:script /p/a.ts"]),
    ("tsx a.ts", {"a.ts": "interface A { b: string } enum E { A, B = 2 } class C { constructor(private a: A) {} } console.log(E.A)"}, (), ["execute:script /p/a.ts"]),
    ("ts-node a.ts", {"a.ts": "1"}, (), ["!execute:script /p/a.ts"]),
    ("node a.js", {"a.js": "const x: number = 1"}, (), ["!execute:script /p/a.js"]),
    ("node a.jsx", {"a.jsx": "1"}, (), ["!execute:script /p/a.jsx"]),
    ("node a.js x", {"a.js": "require('fs').writeFileSync(process.argv[2], '')"}, (), ["execute:script /p/a.js", "write /p/x"]),
    ("node -e \"require('fs').writeFileSync(process.argv[1], '')\" x", {}, (), ["write /p/x"]),
    ("cat > a.js <<'E'\nconsole.log(1)\nE\nnode a.js", {}, (), ["write /p/a.js", "execute:script /p/a.js"]),
    ("cat > a.js <<'E'\nrequire('fs').rmSync('x')\nE\nnode a.js", {}, (), ["write /p/a.js", "execute:script /p/a.js", "delete /p/x"]),
    ("curl -o a.js http://x.org/a; node a.js", {"a.js": "1"}, (), ["write /p/a.js", "network x.org", "!execute:script /p/a.js"]),
    ("node --check a.js", {"a.js": "x()"}, (), ["read /p/a.js"]),
    ("node -r ./b.js -e 1", {"b.js": "1"}, (), ["!execute:script /p/./b.js", "!execute:code 1"]),
    ("node -r evil -e 1", {}, (), ["!execute:code 1"]),
    ("node --import evil a.js", {"a.js": "1"}, (), ["!execute:script /p/a.js"]),
    ("node -i -e 1", {}, (), ["!execute:code 1"]),
    ("node --inspect a.js", {"a.js": "1"}, (), ["!execute:script /p/a.js"]),
    ("node --env-file=.env a.js", {"a.js": "1"}, (), ["!execute:script /p/a.js"]),
    ("node --frobnicate -e 1", {}, (), ["!execute:code 1"]),
    ("node -e \"$X\"", {}, (), ["!execute:code "]),
    ("node", {}, (), ["!execute:stdin "]),
    ("echo 'fs.rmSync(process.argv[2])' | node - /srv/x y", {}, (), ["delete /srv/x"]),
    ("node -p process.env", {}, (), ["environment environment"]),
    ("node -p '({...process.env})'", {}, (), ["environment environment"]),
    ("node -e 'console.log({a: {b: process.env}})'", {}, (), ["environment environment"]),
    ("node -e 'for (const k in process.env) console.log(process.env[k])'", {}, (), ["environment environment"]),
    ("node -e 'console.log(process.env.API_KEY ? 1 : 2, !!process.env.TOKEN)'", {}, (), []),
    ("node x", {"x.js": "1"}, (), ["!execute:script /p/x"]),
]  # fmt: skip


@pytest.mark.parametrize(("command", "files", "tracked", "expected"), COMMANDS)
def test_commands(command: str, files: dict[str, str], tracked: tuple[str, ...], expected: list[str]) -> None:
    assert effects(look(command, files, tracked)) == expected


FILLED = [
    ("fs.writeFileSync('conftest.py', 'x = 1')", False),
    ("fs.writeFileSync('conftest.py', atob('eA=='))", True),
    ("fs.writeFileSync('conftest.py', '1'); fs.writeFileSync('conftest.py', atob('eA=='))", True),
    ("fs.createWriteStream('conftest.py').end('x')", True),
    ("fs.cpSync('notes.txt', 'conftest.py')", True),
    ("fs.renameSync('notes.txt', 'conftest.py')", True),
    ("fs.readFileSync('a.py'); fs.writeFileSync('conftest.py', atob('eA=='))", True),
    ("fs.writeFileSync('notes.md', atob('eA=='))", False),
]


@for_each("text, doubted", FILLED)
def test_files_that_are_code_for_what_runs_next(text: str, doubted: bool) -> None:
    """What node fills with a text that is not known is unread, for whatever loads it."""
    direct = look(f"node -e {shlex.quote(text)} && pytest")
    script = look("node w.js && pytest", {"w.js": f"const fs = require('fs'); {text}"})
    for program in (direct, script):
        assert any(effect.unread for command in program.commands for effect in command.effects) == doubted
    written = look("node -e \"fs.writeFileSync('conftest.py', 'import os; os.remove(\\'/srv/x\\')')\" && pytest")
    assert "delete /srv/x" in effects(written)


# ---- any text ---------------------------------------------------------------------------------------

UNREADABLE = [
    "(", "'", "let 1", "a b", "<div/>", "x = <a>b</a>", "<!-- x", "1\n--> x", "// a\u2028x()", "// a\rx()", "\0", "`", "/a",
    "r\\u0065quire('fs')", "var await; await /x/g", "var yield; yield /x/g", "x #y", "enum A {}",
    "((" * 3000 + "))" * 3000, "[" * 5000, "{" * 60000, "`${" * 10000, "a?" * 20000, "!" * 5000 + "1", "1+" * 5000 + "1",
    "a." * 5000 + "b", "a(" * 5000, "x=" * 5000 + "1", "if(1)" * 5000 + ";", "'" * 65000, "x" * 70_000, "f(" * 200 + ")" * 199,
]  # fmt: skip


@pytest.mark.long
@for_each("text", UNREADABLE)
def test_what_can_not_be_read_is_said_to_be(text: str) -> None:
    found = javascript.read(text)
    assert found.opaque
    assert found.doubts
    assert not found.acts


PIECES = st.sampled_from(
    str.split(
        "a b f require ('fs') fs . ?. ( ) [ ] { } => = == + - / * , ; : ? ! ... async await function class extends new"
        " return yield let const var if else for of in while do try catch finally throw switch case default `x` `${ }`"
        " 'x' 1 /x/g // /* */ this super import export from as static get set delete typeof void #p @ <a> </a> <!-- -->"
    )
)


@given(st.lists(PIECES, max_size=40), st.booleans())
@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck), deadline=None)
def test_any_text_is_read_or_doubted(pieces: list[str], typed: bool) -> None:
    assert isinstance(javascript.read(" ".join(pieces), typed=typed), Behaviour)


@given(st.text(max_size=200))
@settings(max_examples=examples(100), suppress_health_check=list(HealthCheck), deadline=None)
def test_any_characters(text: str) -> None:
    assert isinstance(javascript.read(text), Behaviour)
