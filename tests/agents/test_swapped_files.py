"""Somebody swaps what a command was judged by, once its permit is consumed: real processes, the shipped `default`.

The swapper is a process of the project's own tests: a tracked conftest.py starts it, under `python3 -m pytest`, which
`default` allows. It watches the store, and the script itself, to swap at the worst moment; and puts it back, or not.
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

from tests.support import children, enclosures, extent

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="renameat2 and inotify: only Linux has them")

SWAPPER = """
import ctypes, json, os, select, sqlite3, time
from pathlib import Path

libc = ctypes.CDLL(None)
here = Path(__file__).parent
db = sqlite3.connect("file:@STORE@?mode=ro", uri=True, isolation_level=None)

def count(*kinds):
    places = ", ".join("?" * len(kinds))
    return db.execute(f"SELECT count(*) FROM audit_event WHERE type IN ({places})", kinds).fetchone()[0]

def exchange(pair):
    one, other = (os.fsencode(here / name) for name in pair)
    assert libc.renameat2(-100, one, -100, other, 2) == 0  # RENAME_EXCHANGE

def swap_once(number, plan):
    started, ended = count("exec.started"), count("exec.finished")
    closed = libc.inotify_init1(os.O_NONBLOCK)
    if plan["late"]:
        libc.inotify_add_watch(closed, os.fsencode(here / plan["late"]), 0x10)  # IN_CLOSE_NOWRITE
    (here / f"ready-{number}").touch()
    refused = count("permit.refused")
    while count("exec.started") == started:
        if count("permit.refused") > refused:
            (here / f"done-{number}").touch()
            return
    if plan["late"]:  # whoever reads the script from here on is the last before bash
        try:
            os.read(closed, 65536)
        except BlockingIOError:
            pass
        looks = 0
        while looks < plan["looks"] and count("exec.finished") == ended:
            if select.select([closed], [], [], 0.01)[0]:
                looks += len(os.read(closed, 65536)) // 16
    exchange(plan["pair"])
    while not (here / "ran").exists() and count("exec.finished") == ended:
        time.sleep(0.001)
    if not plan["back"]:
        while not (here / f"over-{number}").exists():
            time.sleep(0.001)
    exchange(plan["pair"])
    (here / "back").touch()
    os.close(closed)
    (here / f"done-{number}").touch()

number = 0
while not (here / "end").exists():
    if (here / f"plan-{number}").exists():
        swap_once(number, json.loads((here / f"plan-{number}").read_text()))
        number += 1
    time.sleep(0.001)
"""

SCENE = """
import json, os, sys, threading
from pathlib import Path
from humanlayer_agent import ActionDenied, Gate
from humanlayer_agent.testing.patience import until

here = Path.cwd()

class Approving:
    def query(self, prompt, *, options):
        return next(option for option in options if option.lower().startswith(("y", "a")))

class Refusing:
    def query(self, prompt, *, options):
        return options[-1]

def gate(user, **more):
    return Gate.from_config(user=user, project=here, timeout_ms=600_000, **more)

first = gate(Refusing(), policy="default")
confined = gate(Refusing(), policy="default", confine=True) if "CONFINED" in os.environ else None
assert confined is None or confined.enclosures is not None
quick = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
pytest = threading.Thread(
    target=first.run, args=("python3 -m pytest -q -p no:cacheprovider",), kwargs={"cwd": here, "env": quick}
)
pytest.start()
found = []
ran = set()

def tried(number, name, command, user, **plan):
    for mark in ("ran", "back"):
        (here / mark).unlink(missing_ok=True)
    if not plan["back"]:
        (here / "back").touch()
    one = gate(user, director=(confined or first).director)
    one.enclosures = confined and confined.enclosures
    plan["looks"] = 2 if confined and not isinstance(user, Approving) else 1
    (here / "plan").write_text(json.dumps(plan))
    (here / "plan").rename(here / f"plan-{number}")
    until(lambda: (here / f"ready-{number}").exists(), "the swapper")
    try:
        output, denied = one.run(command, cwd=here / plan.get("cwd", ".")).output, ""
    except ActionDenied as error:
        output, denied = "", str(error)
    (here / f"over-{number}").touch()
    until(lambda: (here / f"done-{number}").exists(), "the swapper")
    events = [entry.event for entry in one.store.events(run=one.run_id)]
    changed = [event for event in events if event["type"] == "exec.changed"]
    found.append({
        "name": name, "output": output, "denied": denied, "changed": changed,
        "detail": [event.get("detail") for event in events if event["type"] == "exec.finished"],
        "stopped": [event["why"] for event in events if event["type"] == "run.stopped"],
    })
    one.close()
    if output.startswith("swapped"):
        ran.add(name)
    return output != "judged\\n" and (name in ran or not plan["late"])

number = 0
for trial in json.loads(os.environ["TRIALS"]):
    user, times = Approving() if trial.pop("asks") else Refusing(), trial.pop("times")
    in_time = count = 0
    while count < times or not in_time and count < 400:  # until the swapper was once as quick as it is to be
        in_time += tried(number, user=user, **trial)
        number, count = number + 1, count + 1
(here / "end").touch()
pytest.join()
first.close()
print(json.dumps({"tries": found, "intact": first.store.verify().intact}), flush=True)
"""

JUDGED = "echo judged\n"
SWAPPED = "echo swapped; touch ran; until [ -e back ]; do sleep 0.001; done\n"
TIMES = extent.some(20, 2)
TRIALS: dict[str, dict[str, Any]] = {
    "a script": {"command": "bash run.sh", "pair": ["run.sh", "other.sh"]},
    "a link": {"command": "bash link.sh", "pair": ["link.sh", "other-link.sh"], "file": "run.sh"},
    "the directory above it": {"command": "bash scripts/run.sh", "pair": ["scripts", "others"], "file": "scripts/run.sh"},
    "a script that a human approved": {
        "command": "bash asking.sh", "pair": ["asking.sh", "other.sh"], "asks": True,
    },
}  # fmt: skip
"""What is swapped with what, and under which command. `file` is the one that is read."""
DIRECTORY = {"name": "the working directory", "command": "cat name", "cwd": "place", "pair": ["place", "another"]}


@pytest.fixture(
    params=["us", pytest.param("ordinary", marks=pytest.mark.long), pytest.param("confined", marks=pytest.mark.long)]
)
def play(
    request: pytest.FixtureRequest, project: Path, tmp_path: Path, ordinary_user: Callable[[str], list[str]]
) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    """Plays trials beside the swapper; what became of each, as us and as an ordinary user, and of confined commands."""
    ordinary, confined = request.param == "ordinary", request.param == "confined"
    if confined:
        enclosures.backend()  # or a skip
    if ordinary and os.getuid() != 0:
        pytest.skip("allowed in CI: we are an ordinary user, so this is what the other one tests")
    home = tmp_path / "home"
    home.mkdir()
    files = {
        "run.sh": JUDGED, "other.sh": SWAPPED, "scripts/run.sh": JUDGED, "others/run.sh": SWAPPED,
        "asking.sh": f"kill -0 $PPID && {JUDGED}", "place/name": "judged\n", "another/name": "swapped\n",
        "conftest.py": SWAPPER.replace("@STORE@", str(home / "store.sqlite3")),
    }  # fmt: skip
    for name, text in files.items():
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text)
    (project / "link.sh").symlink_to("run.sh")
    (project / "other-link.sh").symlink_to("other.sh")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    for words in (["init", "-q"], ["add", "conftest.py", "run.sh", "scripts"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], cwd=project, check=True)
    if ordinary:
        for path in (home, project, *project.rglob("*")):
            os.chown(path, 65534, 65534, follow_symlinks=False)

    def played(trials: list[dict[str, Any]]) -> dict[str, Any]:
        argv = ordinary_user(SCENE) if ordinary else [sys.executable, "-c", SCENE]
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "HUMANLAYER_CONFINE": "false",
            "HUMANLAYER_STORE": str(home / "store.sqlite3"),
            "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8",
            "TRIALS": json.dumps(trials),
            **({"CONFINED": "1"} if confined else {}),
        }
        done = children.run(argv, capture_output=True, env=env, cwd=project)
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, Any] = json.loads(done.stdout)
        assert found["intact"]
        return found

    return played


def trial(name: str, *, back: bool, late: bool) -> dict[str, Any]:
    given = dict(TRIALS[name])
    file = given.pop("file", given["pair"][0])
    return {"asks": False, **given, "name": name, "back": back, "late": file if late else "", "times": TIMES}


@pytest.mark.long
def test_nothing_that_was_swapped_runs_unseen(play: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> None:
    """Swapped as soon as the permit is consumed, and after the last look at it; put back before the end, and not."""
    ways = [(back, late) for back in (True, False) for late in (True, False)]
    directory = {**DIRECTORY, "asks": False, "late": "", "times": TIMES}
    trials = [trial(name, back=back, late=late) for name in TRIALS for back, late in ways]
    tries = play([*trials, {**directory, "back": True}, {**directory, "back": False}])["tries"]
    for each in tries:
        (is_the_directory if each["name"] == DIRECTORY["name"] else is_told)(each)
    assert len(tries) >= max(20, len(trials) * TIMES)
    ran = {each["name"] for each in tries if each["output"].startswith("swapped")}
    assert ran == set(TRIALS)  # after the last look, and that is seen


def is_told(one: dict[str, Any]) -> None:
    """What was swapped in did not run, or its run was ended, and the log names the file."""
    if one["denied"]:
        assert "no longer what was judged" in one["denied"] or "not what was permitted" in one["denied"], one
        return
    # What the script may load is compared as well, and is found swapped where the script itself was put back in time.
    files = [file for each in one["changed"] for file in each["files"] if not file["own"]]
    if one["output"] == "judged\n" and not files:
        return
    assert files, one
    (changed,) = one["changed"]
    assert "refused" not in changed, one
    assert {len(file["judged"]["sha256"]) for file in files} == {64}, one
    (why,) = one["stopped"]
    assert any(file["path"] in why for file in files), one


def is_the_directory(one: dict[str, Any]) -> None:
    """The command ran in the directory that was judged, or not at all."""
    assert one["output"] in ("judged\n", ""), one
    if one["output"] == "":
        # (Where it is now: a confined command was about to start there.)
        assert re.search("(place|another): no longer what was judged", one["denied"]), one
        assert "not started" in one["detail"][0], one
