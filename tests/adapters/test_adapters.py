"""Agent frameworks behind the Gate: the behaviours in behaviours.py, and what some are held to beside (more_*.py), run in
an environment of its own, one test for each.

The environment is .venv-adapters, made by `make test`: what the frameworks need is not what we need.
"""

import fcntl
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from humanlayer_agent.errors import ConfigError
from tests.adapters.table import ADAPTERS, ROWS, Adapter, cases

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-adapters/bin/python"
BEHAVIOURS = Path(__file__).parent / "behaviours.py"
MORE = sorted(Path(__file__).parent.glob("more_*.py"))


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], list[str]]:
    """What became of each adapter's cases of each row: "" or the failure. Run once, however many workers there are."""
    if not PYTHON.exists():
        pytest.skip("there is no .venv-adapters: make test makes it")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    report = shared / "adapters.xml"
    with (shared / "adapters.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not report.exists():
            _run(report, shared)
    found: dict[tuple[str, str], list[str]] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        row, _, way = str(case.get("name")).removeprefix("test_").rstrip("]").partition("[")
        module = str(case.get("classname")).rpartition(".")[2]
        wrong = [each.text or each.tag for each in case if each.tag in ("failure", "error", "skipped")]
        adapter = way.partition(".")[0] if module == BEHAVIOURS.stem else module
        found.setdefault((adapter, row), []).append("\n".join(wrong))
    return found


def _run(report: Path, folder: Path) -> None:
    command = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={folder / 'adapters'}"]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "XDG_"))}
    partial = report.with_suffix(".partial")
    done = subprocess.run(
        [*command, f"--junitxml={partial}", BEHAVIOURS, *MORE],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    partial.rename(report)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("adapter", "row"),
    [(adapter.module, row) for adapter, row in cases()]
    + [(adapter.module, "example") for adapter in ADAPTERS]
    + [
        (each.stem, row)
        for each in MORE
        for row in re.findall(r"^(?:async )?def test_(\w+)", each.read_text(), re.MULTILINE)
    ],
)
def test_behaviour(adapter: str, row: str, results: dict[tuple[str, str], list[str]]) -> None:
    assert results.get((adapter, row)), "it did not run"
    assert not (wrong := [each for each in results[adapter, row] if each]), wrong[0]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.module)
def test_where_the_framework_is_missing_it_is_said_what_to_type(
    adapter: Adapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for framework in ("langchain", "agents", "pydantic_ai", "inspect_ai", "claude_agent_sdk", "smolagents"):
        for name in [framework, *(each for each in sys.modules if each.startswith(f"{framework}."))]:
            monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"humanlayer_agent.adapters.{adapter.module}", raising=False)
    with pytest.raises(ConfigError, match=f"needs the extra {adapter.extra} .*-m pip install "):
        importlib.import_module(f"humanlayer_agent.adapters.{adapter.module}")


def test_what_does_not_apply_is_said_of_rows_that_there_are() -> None:
    assert all(adapter.without.keys() <= ROWS.keys() for adapter in ADAPTERS)
    assert all(reason for adapter in ADAPTERS for reason in adapter.without.values())
