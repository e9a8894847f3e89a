"""mini-swe-agent 1.17: the behaviours in behaviours.py, run in an environment of its own, one test for each.

Versions 1 and 2 have the same import name. The environment is .venv-mini-v1, made by `make test`.
"""

import ast
import fcntl
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-mini-v1/bin/python"
BEHAVIOURS = Path(__file__).parent / "behaviours.py"
TESTS = {
    n.name: [ast.unparse(each) for each in n.decorator_list]
    for n in ast.parse(BEHAVIOURS.read_text()).body
    if isinstance(n, ast.FunctionDef) and n.name[:5] == "test_"
}
"""Their names, and what each is marked with."""


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What became of each test function's cases: "" or the failure. Run once, whatever number of workers there is."""
    if not PYTHON.exists():
        pytest.skip("there is no .venv-mini-v1: make test makes it")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    report = shared / "mini-v1.xml"
    with (shared / "mini-v1.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not report.exists():
            _run(report, shared)
    found: dict[str, list[str]] = {name: [] for name in TESTS}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = str(case.get("name")).partition("[")[0]
        wrong = [each.text or each.tag for each in case if each.tag in ("failure", "error", "skipped")]
        found.setdefault(name, []).append("\n".join(wrong))
    return found


def _run(report: Path, folder: Path) -> None:
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'mini-v1'}", BEHAVIOURS]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "XDG_"))}
    env["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network when it is imported
    partial = report.with_suffix(".partial")
    done = subprocess.run(
        [*command, f"--junitxml={partial}"], cwd=ROOT, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    partial.rename(report)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * ("pytest.mark.long" in marks)) for n, marks in TESTS.items()]
)
def test_behaviour(name: str, results: dict[str, list[str]]) -> None:
    assert results[name], "it did not run"
    assert not (wrong := [each for each in results[name] if each]), wrong[0]
