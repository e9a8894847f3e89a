"""What every test shares: a user of its own, how much is tried, and no skipped test in CI."""

import gc
import itertools
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support import extent, remembered


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for new homes. Not `mktemp` for each: that reads the whole folder, which gets longer with every test."""
    folder = tmp_path_factory.mktemp("homes")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(scope="session")
def mini_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where mini would keep settings of its own: one folder for all tests, because it is read when mini is imported."""
    return tmp_path_factory.mktemp("mini")


@pytest.fixture(autouse=True)
def own_user(homes: Iterator[Path], mini_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, so that no test reads or writes what belongs to the person who runs the tests."""
    from humanlayer_agent.processes import identity

    home = next(homes)
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("HUMANLAYER_STORE", str(home / "store" / "store.sqlite3"))
    monkeypatch.setenv("MSWEA_GLOBAL_CONFIG_DIR", str(mini_folder))
    monkeypatch.setenv("MSWEA_SILENT_STARTUP", "1")
    monkeypatch.setenv("MSWEA_CONFIGURED", "true")
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    monkeypatch.setenv("HUMANLAYER_CONFINE", "false")  # else each would have to prove that it holds
    if sys.platform == "linux":  # the terminals' too, so that all children are forked of one server
        monkeypatch.setenv("LC_ALL", "C.UTF-8")
    identity.machine.cache_clear()  # it is kept in that home
    for name in [n for n in os.environ if n.startswith("XDG_") or n == "HUMANLAYER_PASSPHRASE_FILE"]:
        monkeypatch.delenv(name)
    return home


@pytest.fixture
def confined_by_default(own_user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are confined where this machine can, as they are where nobody says anything."""
    from humanlayer_agent.agents import run_enclosures

    monkeypatch.delenv("HUMANLAYER_CONFINE")
    run_enclosures._say_once.cache_clear()


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A store in which nothing is written yet."""
    from humanlayer_agent.store.connection import Database

    path = tmp_path_factory.mktemp("empty") / "store.sqlite3"
    Database(path).close()
    return path.read_bytes()


@pytest.fixture(autouse=True)
def new_stores(empty_store: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new store starts as a copy of an empty one: to lead each through all migrations takes as long as most tests do.

    Nor is the disk waited for: what a test kills is a process, and never the machine. Where making or keeping a store is
    what is tested, the module has a fixture of this name that does nothing.
    """
    from humanlayer_agent.store import connection

    def prepare(path: Path, create: bool) -> tuple[int, int]:
        if create and not os.path.lexists(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent) as copy, suppress(FileExistsError):
                copy.write(empty_store)
                copy.flush()
                os.link(copy.name, path)  # whole, or not at all: another thread may be at it as well
        return real(path, create)

    def opened(database: connection.Database) -> sqlite3.Connection:
        made = really_opened(database)
        made.execute("PRAGMA synchronous=OFF")
        return made

    real, really_opened = connection._prepare, connection.Database._open
    monkeypatch.setattr(connection, "_prepare", prepare)
    monkeypatch.setattr(connection.Database, "_open", opened)


@pytest.fixture(scope="session")
def compiled_before() -> dict[str, dict[str, Any]]:
    """The compiled forms of shipped policies, by the names of their files: what tests of this session have compiled."""
    return {}


@pytest.fixture(autouse=True)
def compiled_once(compiled_before: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test has compiled of a shipped policy lies there for the next user too, as if they had compiled it.

    Where compiling is what is tested, the module has a fixture of this name that does nothing.
    """
    from humanlayer_agent import locations
    from humanlayer_agent.policy.language import loader, sources

    def read(path: Path | str) -> bytes | None:
        known = compiled_before.get(os.path.basename(path))
        if known is not None and not os.path.lexists(path):
            locations.write_own_json(path, known)
        return locations.read_own(path)

    def write(path: Path | str, content: dict[str, Any]) -> None:
        if all(each["name"].startswith(sources.BUILTIN) for each in content["policy"]["sources"]):
            compiled_before[os.path.basename(path)] = content
        locations.write_own_json(path, content)

    monkeypatch.setattr(loader, "read_own", read)
    monkeypatch.setattr(loader, "write_own_json", write)


@pytest.fixture(scope="session")
def compiled_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory in which the shipped policies lie compiled, and the proof of what confines commands here."""
    from humanlayer_agent.agents.run_enclosures import PROOFS
    from humanlayer_agent.confine.confinement import Unenforceable
    from humanlayer_agent.confine.proof import proven
    from humanlayer_agent.locations import state_folder
    from humanlayer_agent.policy.language import loader, sources

    ours = tmp_path_factory.getbasetemp()
    home = (ours.parent if "PYTEST_XDIST_WORKER" in os.environ else ours) / "compiled"  # one for all workers
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("XDG_STATE_HOME", raising=False)
        patch.setenv("HOME", str(home))
        if not home.exists():
            made = tmp_path_factory.mktemp("compiling")
            patch.setenv("HOME", str(made))
            for name in sources.shipped_names():
                loader.load(loader.find(name))
            with suppress(Unenforceable):
                proven(state_folder() / PROOFS)
            with suppress(OSError):  # another worker was first
                made.rename(home)
            patch.setenv("HOME", str(home))
        return state_folder()


@pytest.fixture
def compiled(own_user: Path, compiled_folder: Path) -> None:
    """The user has had commands judged and confined before: checking and proving all that is not what is tested here."""
    shutil.copytree(
        compiled_folder, own_user / compiled_folder.relative_to(compiled_folder.parents[2]), dirs_exist_ok=True
    )


def pytest_configure() -> None:
    extent.load_profile()
    # A job in the background of a script ignores Ctrl-C, and so would every program that the tests interrupt.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what runs in `make test-all` only, and what `make test` remembers."""
    left_out = remembered.known(config, items) | (set() if extent.ALL else extent.long_forms(items))
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    if hasattr(config, "workeroutput"):
        config.workeroutput["left out"] = sorted(item.nodeid for item in left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What workers leave out is counted as in a run without them: each has collected the same."""
    reporter = node.config.pluginmanager.get_plugin("terminalreporter")
    left_out = getattr(node, "workeroutput", {}).get("left out", [])
    if left_out and "deselected" not in reporter.stats:
        node.config.hook.pytest_deselected(items=[SimpleNamespace(nodeid=each) for each in left_out])


def pytest_collectstart() -> None:
    """Nothing that collecting makes is garbage: looking for it there takes half of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)  # with Python's own figures, looking for it takes a tenth of the tests' time
    gc.enable()


MAX_OPEN = 200
"""Files that a worker may hold open. Where a test ends without closing a store, only a collection does."""


def pytest_runtest_logfinish() -> None:
    if len(os.listdir("/dev/fd")) > MAX_OPEN:
        gc.collect()  # what was there before the first test is frozen, so this is cheap


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    remembered.note(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if os.environ.get("CI") and skipped:
        terminalreporter.section("skipped in CI: install what is missing")
        for report in skipped:
            terminalreporter.write_line(f"{report.nodeid}: {report.longrepr}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """In CI a test that could not run is a failure, unless it says that it needs data that stays out of the repository."""
    if hasattr(session.config, "workerinput"):
        return
    remembered.keep(session.config)
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None:
        return
    wrong = [r for r in reporter.stats.get("skipped", []) if "allowed in CI" not in str(r.longrepr)]
    if wrong and exitstatus == 0:
        session.exitstatus = 1
