"""Programs that remove or change a file, in many ways: each really does it, and none is silent.

attacks.txt has one program a line; CANARY stands for the path of a file. attempts.txt has those that need another
version of node, or that node stops: they must not be silent either. typed_attempts.txt has TypeScript, and exports.
"""

import json
import posixpath
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from humanlayer_agent.shell.analysis import analyse
from humanlayer_agent.shell.languages import javascript
from humanlayer_agent.shell.program import Program
from humanlayer_agent.testing.patience import until
from tests.support.extent import examples
from tests.support.rows import for_each

HERE = Path(__file__).parent
ATTACKS = (HERE / "attacks.txt").read_text(encoding="utf-8").splitlines()
ATTEMPTS = (HERE / "attempts.txt").read_text(encoding="utf-8").splitlines()
TYPED = (HERE / "typed_attempts.txt").read_text(encoding="utf-8").splitlines()
CANARY = "/srv/victim/canary-file"
_CHANGES = frozenset({"write", "append", "delete", "move", "metadata"})


def looked(text: str) -> Program:
    return analyse(f"node -e {shlex.quote(text)}", cwd="/a/b/project", environ={"HOME": "/home/u"})


def tells(program: Program, canary: str) -> bool:
    """Is something not known, or does it say that the file is changed?"""
    if program.status != "ok":
        return True
    return any(
        not command.resolved
        or any(
            e.kind in _CHANGES and (not e.resolved or posixpath.normpath(e.operand or "").replace("//", "/") == canary)
            for e in command.effects
        )
        for command in program.commands
    )


@for_each("text", ATTACKS + ATTEMPTS)
def test_no_attack_is_silent(text: str) -> None:
    assert tells(looked(text.replace("CANARY", CANARY)), CANARY)


@for_each("text", TYPED)
def test_no_attempt_in_typescript_is_silent(text: str) -> None:
    """Types, and what modules export: others may call it."""
    for typed in (True, False):
        found = javascript.read(text.replace("CANARY", CANARY), typed=typed)
        changed = [o for act in found.acts if act.kind != "read" for o in act.operands]
        assert found.doubts or any(not o.known or CANARY in o.choices for o in changed)


@pytest.mark.long
@for_each("text", ATTACKS)
def test_each_attack_is_one(text: str, tmp_path: Path) -> None:
    """Only node can say whether a row does what it says: it is run against a file that is there for it."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    folder = tmp_path / "victim"
    folder.mkdir(exist_ok=True)
    canary = folder / "canary-file"
    canary.write_text("whole")
    with subprocess.Popen(
        [node, "-e", text.replace("CANARY", str(canary))],
        cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as running:  # fmt: skip
        until(lambda: running.poll() is not None or is_changed(canary), "node has ended, or done it")
        changed = is_changed(canary)
        running.kill()
    if not changed:
        major = subprocess.run([node, "-p", "process.versions.node"], capture_output=True, text=True, check=True).stdout
        assert not major.startswith("20."), "this does no harm under node 20, where it was written"


def is_changed(canary: Path) -> bool:
    try:
        return canary.read_text() != "whole"
    except FileNotFoundError:
        return True


# ---- in any form ------------------------------------------------------------------------------------

_TIED = ("await", "yield", "import", "var ", "this", "{ function", "{ (function", "with (")
"""What means something else within a function, a class or a module."""
PLAIN = [t for t in ATTACKS if len(t) < 140 and not any(each in t for each in _TIED)]
FORMS = st.sampled_from(
    [
        "{ %s }",
        "if (true) { %s } else { }",
        "(() => { %s })()",
        "(function () { %s })()",
        "(async () => { %s })()",
        "for (const _ of [1]) { %s }",
        "try { %s } catch (_) { }",
        "try { throw 1 } catch (_) { %s }",
        "switch (1) { default: { %s } }",
        "class _K { m() { %s } } new _K().m()",
        "class _S { static { %s } }",
        "[0].forEach(() => { %s })",
        "Promise.resolve().then(() => { %s })",
        "const _o = {get g() { %s }}; _o.g",
        "function _f() { %s } module.exports = _f",
        "label: while (1) { %s; break label }",
        "`${(() => { %s })()}`",
        "setTimeout(function () { %s }, 0)",
        "// a comment\n%s\n/* another */",
        "const _q = 1 /2/ 3; %s",
        "var _r = /[/'\"`]/; %s",
        "var _s = '/*'; %s; var _t = '*/'",
        "var _u = `// ${1} /*`; %s",
        "JSON.stringify({toJSON() { %s }})",
    ]
)


@given(st.sampled_from(PLAIN), st.lists(FORMS, max_size=4))
@settings(max_examples=examples(200), suppress_health_check=list(HealthCheck), deadline=None)
def test_an_attack_in_other_forms_is_not_silent(text: str, forms: list[str]) -> None:
    for form in forms:
        text = form.replace("%s", text)
    assert tells(looked(text.replace("CANARY", CANARY)), CANARY)


def test_the_same_in_a_file_that_the_command_writes() -> None:
    for text in ATTACKS[:8]:
        script = text.replace("CANARY", CANARY)
        program = analyse(f"cat > x.js <<'EOF'\n{script}\nEOF\nnode x.js", cwd="/a/b/project", environ={})
        assert tells(program, CANARY), text


def test_what_is_said_is_what_is_done() -> None:
    """A few in full, as rows: the text, and its acts."""
    rows = json.loads((HERE / "acts.json").read_text())
    for text, expected in rows:
        found = javascript.read(text, argv=None, path="/p/s.js")
        shown = []
        for act in found.acts:
            words = " ".join(
                "|".join(o.choices) if o.known else f"below:{o.below}" if o.below else f"prefix:{o.prefix}"
                for o in act.operands
            )
            role = "" if act.role == "code" else f":{act.role}"
            shown.append(f"{act.kind}{role}{' -r' if act.recursive else ''} {words}".rstrip())
        assert (shown, bool(found.doubts)) == (expected, False), (text, found.doubts)
