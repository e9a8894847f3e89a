"""Tests that depend on nothing but the engine and the policies that ship: `make test` remembers that they passed.

They judge thousands of commands, and would say the same again. Their marker is `remembered`; in CI, in `make test-all`
and where pytest is called by itself they always run.
"""

import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support import extent

ROOT = Path(__file__).parents[2]
ENGINE = ("shell", "confine", "policy", "policy_tools", "redaction", "tools")
"""Parts of the package that a decision, or a test of a policy, is made by. They import no other."""
_KEY = "humanlayer-agent/passed"
_passed: dict[str, str] = {}


def known(config: pytest.Config, items: list[pytest.Item]) -> set[pytest.Item]:
    """Those that passed before over the same files; the others are told what they are tested over."""
    if not os.environ.get("HLA_REMEMBER") or os.environ.get("CI") or extent.ALL or not hasattr(config, "cache"):
        return set()
    before = config.cache.get(_KEY, {})
    found = set()
    engine = ""
    for item in items:
        if item.get_closest_marker("remembered"):
            engine = engine or _digest(_engine())
            tested = _digest(_beside(item.path)) + engine
            item.user_properties.append((_KEY, tested))
            if before.get(item.nodeid) == tested:
                found.add(item)
    return found


def note(report: pytest.TestReport) -> None:
    """Take note of a test that passed."""
    if report.when == "call" and report.passed:
        _passed.update((report.nodeid, str(tested)) for name, tested in report.user_properties if name == _KEY)


def keep(config: pytest.Config) -> None:
    """Write down what passed."""
    if _passed and hasattr(config, "cache"):
        config.cache.set(_KEY, config.cache.get(_KEY, {}) | _passed)


def _beside(test: Path) -> list[Path]:
    """A test's own file, and what it may read that lies beside it: tables, conftest.py."""
    return [test, *(path for path in test.parent.iterdir() if not path.name.startswith("test_"))]


def _engine() -> Iterator[Path]:
    """What a decision depends on, and what all tests share."""
    folders = [*(ROOT / "humanlayer_agent" / name for name in ENGINE), ROOT / "policies", ROOT / "tests" / "support"]
    yield from (ROOT / "humanlayer_agent").glob("*.py")
    yield from (path for folder in folders for path in folder.rglob("*") if "__pycache__" not in path.parts)
    yield ROOT / "tests" / "conftest.py"


def _digest(paths: Iterable[Path]) -> str:
    installed = sorted(path.name for path in Path(sysconfig.get_path("purelib")).glob("*.dist-info"))
    made = hashlib.sha256(repr((sys.version, installed)).encode())
    for path in sorted(path for path in paths if path.is_file()):
        made.update(repr((str(path), hashlib.sha256(path.read_bytes()).digest())).encode())
    return made.hexdigest()
