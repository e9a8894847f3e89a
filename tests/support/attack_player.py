"""Plays attacks of several steps (`staged_attacks`) as bash does them, and as a policy lets them be done.

It is run as a program in a namespace of its own, in which /srv is in memory and thrown away. It reads attacks as JSON
from its standard input, and writes what came of each as a line of JSON.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

PROJECT, TEMPLATE, CANARY = Path("/srv/work/app"), Path("/srv/template"), Path("/srv/canary/file")
FILES = {
    "README.md": "# app\n",
    "Makefile": "all: build\nbuild:\n\t@echo building\n-include local.mk\n.PHONY: all build\n",
    "build.js": 'console.log("built")\n',
    "package.json": '{"name": "app", "version": "1.0.0", "scripts": {"test": "node build.js"}}\n',
    "scripts/run.sh": "echo running\n",
    "scripts/start.sh": "if [ -e local.sh ]; then . ./local.sh; fi\n",
    "src/app/__init__.py": "def f(): return 1\n",
    "tests/__init__.py": "",
    "tests/test_a.py": "import unittest\nclass A(unittest.TestCase):\n    def test_a(self): import app\n",
    "tools/count.awk": "END { print NR }\n",
}


@dataclass(frozen=True, slots=True)
class Played:
    """What came of an attack.

    Args:
        name: the attack's.
        real: bash alone does the harm.
        escaped: the policy let it be done.
        stopped: the first step that was not allowed, with its verdict and why; "" where all were.
        twin_stopped: as `stopped`, of the twin, judged as what may run confined is.
        unconfined_twin_stopped: as `stopped`, of the twin of an attack that is read, judged as what nothing confines is.
    """

    name: str
    real: bool
    escaped: bool
    stopped: str
    twin_stopped: str
    unconfined_twin_stopped: str


def main() -> None:
    """Play what stands on standard input."""
    make_template()
    _compile_once()
    for number, attack in enumerate(json.load(sys.stdin)):
        print(json.dumps(asdict(_played(attack, f"played-{os.getpid()}-{number}"))), flush=True)


def _compile_once() -> None:
    """Compile the rules once, as one supervisor of all steps would: all else is read anew for each step."""
    from humanlayer_agent.policy.director import Director

    made: dict[object, Any] = {}
    compiled = Director._on

    def on(director: Director, now: str) -> Any:
        key = (
            director.name,
            *director.variables.items(),
            *director._reads,
            director._tmp,
            repr(director.catalogs.digests),
        )
        return made.get(key) or made.setdefault(key, compiled(director, now))

    Director._on = on  # type: ignore[method-assign]


def _played(attack: dict[str, Any], run: str) -> Played:
    fresh()
    for step in attack["steps"]:
        _bash(step)
    real = not CANARY.exists()
    fresh()
    stopped = _supervised(attack["steps"], run)
    escaped = not CANARY.exists()
    fresh()
    twin_stopped = _supervised(attack["twin"], f"{run}-confined", "--confined")
    unconfined = ""
    if attack["read"]:
        fresh()
        unconfined = _supervised(attack["twin"], f"{run}-twin")
    return Played(attack["name"], real, escaped, stopped, twin_stopped, unconfined)


def _supervised(steps: Sequence[str], run: str, *options: str) -> str:
    """Run the steps up to the first one that is not allowed; says which that is."""
    from humanlayer_agent.cli import check

    for number, step in enumerate(steps):
        said = StringIO()
        with redirect_stdout(said):
            check.main(
                ["--format", "json", "--policy", "default", "--project", str(PROJECT), "--run", run, *options, step]
            )
        decision = json.loads(said.getvalue())
        if decision["verdict"] != "allow":
            return f"step {number}: {decision['verdict']}: {', '.join(decision['rules'])}: {decision['reason']}"
        _bash(step)
    return ""


def _bash(step: str) -> None:
    subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", step],
        cwd=PROJECT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
    )


def environment() -> dict[str, str]:
    """Return the variables with which a player is started: /srv is all it has, and git knows who commits."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {
        "HOME": "/srv/home", "TMPDIR": "/srv/tmp", "PATH": path, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(Path(__file__).parents[2]), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        **{f"GIT_{who}_{what}": "a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }  # fmt: skip


def make_template() -> None:
    """Make the project that each attack begins in."""
    for name, text in FILES.items():
        path = TEMPLATE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for words in (["init", "-q", "--template="], ["add", "-A"], ["commit", "-qm", "start"], ["repack", "-adq"]):
        subprocess.run(["git", "-C", str(TEMPLATE), *words], check=True)


def fresh() -> None:
    """Put the project and the canary back, and go there."""
    shutil.rmtree(PROJECT, ignore_errors=True)
    shutil.copytree(TEMPLATE, PROJECT, symlinks=True)
    CANARY.parent.mkdir(exist_ok=True)
    CANARY.write_text("here\n")
    os.chdir(PROJECT)


if __name__ == "__main__":
    main()
