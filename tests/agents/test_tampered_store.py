"""An agent's command changes the store behind its supervisor's back: the tests of a cloned repository do it.

Nobody looks at what they do by themselves: their helpers.py is in the repository's history, and the policy that ships
lets a project's tests run. A real agent loop, real commands, real processes.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support import children, extent

ROOT = Path(__file__).parents[2]
TEST = "import unittest\nimport helpers\n\nclass Test(unittest.TestCase):\n    def test_nothing(self): pass\n"
TESTS = "python3 -m unittest -q"
HELPERS = '''\
"""What the file beside it names is done; what has to be prepared is prepared by a run before that."""

import json
import os
import pathlib
import sqlite3

here = pathlib.Path(__file__).parent
what, store = json.loads((here / "what.json").read_text())
store = pathlib.Path(store)
times = here / "times"
times.write_text("x" * (len(times.read_text()) + 1 if times.exists() else 1))
wal = store.with_name(store.name + "-wal")
copy = pathlib.Path(str(store) + ".copy")


def connect(path=store):
    return sqlite3.connect(path, isolation_level=None, timeout=600)


def checkpointed():
    assert connect().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0


def without_triggers(*statements):
    db = connect()
    triggers = db.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    db.execute("BEGIN IMMEDIATE")
    for name, _ in triggers:
        db.execute("DROP TRIGGER " + name)
    for statement in statements:
        db.execute(statement)
    for _, sql in triggers:
        db.execute(sql)
    db.execute("COMMIT")


def plant():
    db = connect()
    for name in ("halt_no_delete", "audit_event_no_delete"):
        db.execute("DROP TRIGGER " + name)
    db.execute(
        "CREATE TRIGGER planted AFTER INSERT ON audit_event WHEN NEW.type = 'supervision.stopped' "
        "BEGIN DELETE FROM halt; DELETE FROM audit_event WHERE seq = NEW.seq; END"
    )


def newer():
    connect().execute("PRAGMA user_version = 99")


def erase():
    without_triggers(
        "DELETE FROM audit_event WHERE seq > 8",
        "DELETE FROM execution",
        "DELETE FROM permit",
    )


def backup():
    connect().backup(connect(copy))


def restore():
    connect(copy).backup(connect())


def keep_file():
    checkpointed()
    copy.write_bytes(store.read_bytes())


def write_file_over():
    checkpointed()
    with store.open("r+b") as file:
        file.write(copy.read_bytes())
        file.truncate()


def tear():
    """The last pages that count: where the log of writes began anew, older ones lie behind them."""
    data = wal.read_bytes()
    page, salts, end = int.from_bytes(data[8:12], "big"), data[16:24], 32
    while data[end + 8 : end + 16] == salts:
        end += 24 + page
    with wal.open("r+b") as file:
        file.seek(end - 3000)
        file.write(os.urandom(3000))


def delete():
    for path in (store, wal, store.with_name(store.name + "-shm")):
        path.unlink()


steps = {
    "trigger": [plant], "newer": [newer], "erase": [erase], "restore": [backup, restore],
    "file": [keep_file, write_file_over], "tear": [tear], "delete": [delete],
}[what]
steps[len(times.read_text()) - 1]()
'''

SCENE = """
import gc
gc.set_threshold(200_000, 20, 20)  # as the command line has it
import json, os, sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from humanlayer_agent.cli import main
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicToolcallModel, make_toolcall_output
from humanlayer_agent.agents.mini import SupervisedAgent
from humanlayer_agent.configuration import build_director, build_gate
from humanlayer_agent.errors import HumanlayerError
from humanlayer_agent.store.sqlite import SQLiteStore

HAND_IN = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
PREPARED = ("restore", "file")
here = Path.cwd()
director = build_director("default", project=here)

def turn(number, command):
    action = {"command": command, "tool_call_id": f"call_{number}"}
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return make_toolcall_output("", [{"id": f"call_{number}", "type": "function", "function": function}], [action])

def loop(commands, store):
    gate = build_gate(director=director, project=here, store=str(store))
    model = DeterministicToolcallModel(outputs=[turn(n, c) for n, c in enumerate(commands)])
    agent = SupervisedAgent(model, LocalEnvironment(timeout=600), gate=gate, system_template="", instance_template="",
                            cost_limit=0.0)
    status = agent.run("")["exit_status"]
    with suppress(HumanlayerError):
        gate.close()
    gate.store.close()
    return status, [[r.command, r.executed, r.by, r.reason] for r in agent.env.supervisor.records]

def in_another_process(function, *arguments):
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            answer = function(*arguments)
        except HumanlayerError as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(pid, 0)
    with os.fdopen(reader, "rb") as stream:
        return json.loads(stream.read())

def stop(store):
    SQLiteStore(store).halts.stop("os:1000:alice")
    return "stopped"

def verify(store):
    with redirect_stdout(sys.stderr):
        return main(["audit", "verify", "--store", str(store)])

def another_run(store):
    return loop(["touch another", HAND_IN], store)

found = {}
for what in json.loads(os.environ["ATTACKS"]):
    store = Path.home() / what / "store.sqlite3"
    Path("what.json").write_text(json.dumps([what, str(store)]))
    before = [os.environ["TESTS"]] if what in PREPARED else []
    commands = ["touch before", *before, "touch between", os.environ["TESTS"]]
    status, records = in_another_process(loop, [*commands, *["touch after"] * 9, HAND_IN], store)
    found[what] = {"status": status, "records": records, "stop": in_another_process(stop, store)}
    found[what]["verified"] = in_another_process(verify, store)
    found[what]["another"] = in_another_process(another_run, store)
    found[what]["files"] = sorted(p.name for p in here.iterdir() if p.is_file() and not p.suffix and p.name[0] != ".")
    for name in ("before", "between", "after", "another", "times"):
        Path(name).unlink(missing_ok=True)
print(json.dumps(found))
"""

SAYS = {
    "trigger": "is missing|trigger planted is not ours",
    "newer": "was written by a newer humanlayer-agent",
    "erase": "was set back while it was in use",
    "restore": "was set back while it was in use",
    "file": "was set back while it was in use",
    "tear": "was overwritten while it was in use",
    "delete": "is gone",
}
TRIED = [what for what in SAYS if extent.ALL or what not in ("restore", "file")]
"""In `make test`, "erase" stands for all ways to set a log back."""
ANOTHER = {
    "trigger": SAYS["trigger"],
    "newer": SAYS["newer"],
    "delete": "is gone, or another one is in its place",
}
"""Why no other run begins; of the rest, because the log was set back."""


@pytest.fixture(params=["us", pytest.param("ordinary", marks=pytest.mark.long)])
def found(
    request: pytest.FixtureRequest, tmp_path: Path, mini_folder: Path, ordinary_user: Callable[[str], list[str]]
) -> dict[str, Any]:
    """What became of each, as us and as an ordinary user."""
    ordinary = request.param == "ordinary"
    if ordinary and os.getuid() != 0:
        pytest.skip("allowed in CI: we are an ordinary user, so this is what the other one tests")
    home, project = tmp_path / "home", tmp_path / "project"
    for each in (home, project):
        each.mkdir()
    (project / "helpers.py").write_text(HELPERS)
    (project / "test_nothing.py").write_text(TEST)
    (project / ".gitignore").write_text("*.json\n__pycache__\n")
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    argv = ordinary_user(SCENE) if ordinary else [sys.executable, "-c", SCENE]
    if ordinary:
        for each in (home, project, *project.rglob("*")):
            os.chown(each, 65534, 65534)
    env = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "HUMANLAYER_CONFINE": "false",
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C.UTF-8",
        "MSWEA_SILENT_STARTUP": "1",
        "MSWEA_CONFIGURED": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "MSWEA_GLOBAL_CONFIG_DIR": str(home / "mini" if ordinary else mini_folder),
        "ATTACKS": json.dumps(TRIED),
        "TESTS": TESTS,
    }
    done = children.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, env=env, cwd=project, start_new_session=True,
        imports=() if ordinary else children.MINI,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_agent_is_stopped_and_no_other_begins(found: dict[str, Any]) -> None:
    for what, result in found.items():
        ran = [command for command, executed, *_ in result["records"] if executed]
        prepared = [TESTS] if what in ("restore", "file") else []
        assert ran == ["touch before", *prepared, "touch between", TESTS], (what, result)
        assert result["files"] == ["before", "between", "times"], (what, result)
        assert result["status"] == "SupervisionDenials", (what, result)
        denied = [(by, reason) for _, executed, by, reason in result["records"] if not executed]
        assert denied[0][0] == "store", (what, result)
        assert re.search(SAYS[what], denied[0][1]), (what, denied[0])
        assert result["verified"] == (2 if what == "newer" else 1), (what, result)
        says = ANOTHER.get(what, "was set back: its log ends at event")
        for answer in (result["stop"], result["another"]):
            assert isinstance(answer, str), (what, answer)
            assert re.search(says, answer), (what, answer)
