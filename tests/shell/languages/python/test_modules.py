"""The tables of modules against Python itself: what they name is there, what is there they name, and positions agree."""

import ctypes
import importlib
import inspect
import pkgutil
import sys
import types
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.shell.languages import python
from humanlayer_agent.shell.languages.behaviour import Text
from humanlayer_agent.shell.languages.python.library import tables
from humanlayer_agent.shell.languages.python.library.tables import (
    Effect,
    Entry,
    ModuleTable,
    Operand,
    Tables,
    TypeEntry,
)
from humanlayer_agent.shell.program import EFFECT_KINDS
from tests.support.rows import for_each

FOLDER = Path(tables.__file__).parent / "modules"
KINDS = {
    *EFFECT_KINDS, "shell", "program", "python", "open", "directory", "import", "call", "template", "configure", "docstrings", "doubt",
    "remote", "remote-write", "database", "module", "words",
}  # fmt: skip

NOT_IMPORTED = {"antigravity", "this", "idlelib", "turtledemo", "test", "test.support", "__main__"}
"""Importing them does something, or is of no use."""
OF_OTHERS = frozenset(
    str.split(
        """
        os.lchmod os.chflags os.lchflags os.startfile os.setns os.unshare os.add_dll_directory os.readinto os.plock
        os.posix_openpt os.grantpt os.unlockpt os.ptsname os.timerfd_create os.timerfd_settime os.timerfd_settime_ns
        os.timerfd_gettime os.timerfd_gettime_ns os.set_handle_inheritable os.get_handle_inheritable os.process_cpu_count
        os.reload_environ os.listdrives os.listmounts os.listvolumes os._path_normpath os._path_isdir os._path_isfile
        os._path_exists os._path_islink os.path._splitroot_fallback builtins.get_ipython io.Reader io.Writer sys.remote_exec
        sys._getframemodulename sys.activate_stack_trampoline sys.ps1 sys.ps2 sys.tracebacklimit sys.last_type sys.last_value
        sys.last_traceback importlib.machinery.AppleFrameworkLoader ctypes.c_time_t ctypes.windll ctypes.oledll
        plistlib.readPlist plistlib.writePlist wave.openfp pydoc.pipe_pager pydoc.tempfile_pager pydoc.plain_pager
        pydoc.tty_pager socket.fromshare http.server.HTTPSServer http.server.ThreadingHTTPSServer urllib.urlopen
        urllib.urlretrieve nntplib._NNTPBase socketserver.ForkingUnixStreamServer socketserver.ForkingUnixDatagramServer
        webbrowser.Epiphany webbrowser.Edge webbrowser.MacOSX webbrowser.MacOSXOSAScript asyncio.create_eager_task_factory
        asyncio.capture_call_graph asyncio.print_call_graph asyncio.format_call_graph asyncio.staggered_race
        asyncio.future_add_to_awaited_by asyncio.ProactorEventLoop asyncio.EventLoop asyncio._CFuture asyncio._PyFuture
        shutil._unlink shutil._rmdir glob.translate tempfile._rmtree tempfile._shutil_rmtree platform.popen
        subprocess._use_vfork threading.setprofile_all_threads threading.settrace_all_threads
        threading._start_joinable_thread _thread.start_joinable_thread concurrent.futures.InterpreterPoolExecutor
        functools.Placeholder distutils.util.run_2to3 distutils.util.copydir_run_2to3 tarfile.TarFile.zstopen
        sqlite3.Connection.load_extension sqlite3.Connection.enable_load_extension pathlib.Path.move pathlib.Path.move_into
        pathlib.Path.copy pathlib.Path.copy_into pathlib.Path.walk pathlib.Path.is_junction pathlib.Path.info
        pathlib.Path.from_uri pathlib.Path.full_match pathlib.Path.with_segments

        pathlib.Path.link_to importlib.find_loader importlib.util.set_loader importlib.util.set_package
        importlib.util.module_for_loader pkgutil.ImpImporter pkgutil.ImpLoader pkgutil.get_loader pkgutil.find_loader
        sqlite3.enable_shared_cache unittest.findTestCases unittest.makeSuite unittest.getTestCaseNames ssl.wrap_socket
        asyncio.get_child_watcher asyncio.set_child_watcher asyncio.AbstractChildWatcher asyncio.FastChildWatcher
        asyncio.MultiLoopChildWatcher asyncio.PidfdChildWatcher asyncio.SafeChildWatcher asyncio.ThreadedChildWatcher
        webbrowser.Grail webbrowser.Netscape webbrowser.Galeon urllib.request.URLopener urllib.request.FancyURLopener
        pty.master_open pty.slave_open threading._start_new_thread tempfile._mkstemp_inner shutil._rmtree_unsafe
        """
    )
)
"""Names of other versions of Python than 3.11, or of other systems."""


@cache
def shipped() -> Tables:
    return tables.tables()


def groups(prefix: str) -> dict[str, list[str]]:
    """The modules of the files whose name begins with `prefix`: all names of each, by the first."""
    found: dict[str, list[str]] = {}
    for name, (file, first, _) in shipped().places.items():
        if file.startswith(prefix):
            found.setdefault(first, []).append(name)
    return found


STANDARD = groups("stdlib_")


@cache
def module(name: str) -> types.ModuleType | None:
    """The module itself; None where this Python has none of that name."""
    if name in NOT_IMPORTED:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            return None


def real(first: str) -> list[types.ModuleType]:
    """The modules that stand under `first` and that this Python has."""
    return [m for n in STANDARD[first] if (m := module(n)) is not None]


def described(first: str) -> ModuleTable:
    found = shipped().module(first)
    assert found is not None
    return found


def names(table: ModuleTable) -> list[str]:
    return [*(n for n, _ in table.everything()), *table.plain.get("values", ()), *table.obscure]


def effects(table: ModuleTable) -> Iterator[tuple[str, Effect]]:
    """Every effect in a table, with the function or method that has it."""
    yield from (("others", e) for e in table.others)
    for name, entry in table.everything():
        yield from ((name, e) for e in entry.does)
        if isinstance(entry, TypeEntry):
            yield from ((f"{name}.{m}", e) for m, method in entry.methods.items() for e in method.does)


# ---- form -------------------------------------------------------------------------------------------


@for_each("first", groups(""))
def test_form(first: str) -> None:
    """Every module can be read; kinds of effects are known; what needs an operand has one; results are known types."""
    table = described(first)
    for name, effect in effects(table):
        where = f"{first}.{name}: {effect}"
        assert effect.kind in KINDS, where
        if effect.kind in ("shell", "program", "python", "open", "call", "import", "delete", "database", "remote"):
            assert effect.operand is not None or effect.fixed is not None, where
        assert not (effect.operand is not None and effect.fixed is not None), where
    for name, entry in table.everything():
        made = [entry] if isinstance(entry, Entry) else list(entry.methods.values())
        for returns in {e.returns for e in made if e.returns}:
            where, _, kind = returns.rpartition(".")
            found = shipped().module(where)
            assert found is not None, (first, name)
            assert found.type(kind) is not None, (first, name)


def test_files_are_short() -> None:
    assert max(len(p.read_text(encoding="utf-8").splitlines()) for p in FOLDER.glob("*.yaml")) < 400


def test_a_mistake_is_found() -> None:
    with pytest.raises(tables.TableError, match="no key `operands`"):
        tables.does([{"kind": "delete", "operands": [0, "path"]}], "x.yaml")
    with pytest.raises(tables.TableError, match="no operand"):
        tables.does([{"kind": "delete", "operand": [0]}], "x.yaml")


# ---- what the tables name is there --------------------------------------------------------------------


@pytest.mark.long
@for_each("first", STANDARD)
def test_names_exist(first: str) -> None:
    """A name in a table is in one of the modules that it stands for, in this Python or in another."""
    modules = real(first)
    missing = {f"{first}.{n}" for n in names(described(first)) if modules and not any(_has(m, n) for m in modules)}
    assert sorted(missing - OF_OTHERS) == []


@for_each("first", STANDARD)
def test_methods_exist(first: str) -> None:
    """A method in a table is one of the types that stand together there."""
    together: dict[str, list[str]] = {}
    for name, entry in described(first).everything():
        if isinstance(entry, TypeEntry):
            together.setdefault(entry.name, []).append(name)
    missing = []
    for row in together.values():
        kinds = [k for m in real(first) for n in row if (k := getattr(m, n, None)) is not None]
        kind = described(first).type(row[0])
        assert kind is not None
        missing += [f"{first}.{row[0]}.{m}" for m in kind.methods if kinds and not any(hasattr(k, m) for k in kinds)]
    assert sorted(set(missing) - OF_OTHERS) == []


def _has(where: types.ModuleType, name: str) -> bool:
    found: Any = where
    for part in name.split("."):
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


# ---- what is there the tables name --------------------------------------------------------------------


def test_every_module_is_described() -> None:
    """Every module of the standard library, and every public one inside its packages."""
    here = {n for n in sys.stdlib_module_names if n not in shipped().places}
    assert here == set()
    skipped = (
        "encodings.",
        "test.",
        "idlelib.",
        "lib2to3.",
        "turtledemo.",
        "distutils.command.",
        "ctypes.macholib.",
        "tkinter.",
    )
    inside = {n for p in sys.stdlib_module_names for n in _inside(p)}
    hidden = {"unittest.main"}  # by the class of that name
    assert {n for n in inside - hidden if n not in shipped().places and not n.startswith(skipped)} == set()


def _inside(package: str) -> Iterator[str]:
    found = module(package)
    for each in pkgutil.iter_modules(getattr(found, "__path__", ())):
        name = f"{package}.{each.name}"
        if each.name.startswith("_") or each.name in ("tests", "test") or package in NOT_IMPORTED:
            continue
        yield name
        if each.ispkg:
            yield from _inside(name)


WHOLE = (
    "os", "shutil", "subprocess", "socket", "importlib", "importlib.util", "runpy", "code", "pty", "tempfile", "zipfile",
    "tarfile", "io", "builtins", "sys", "signal", "ctypes", "multiprocessing", "threading", "atexit", "pickle", "marshal",
    "urllib.request", "http.client", "asyncio", "site", "pkgutil", "webbrowser", "pathlib", "glob", "timeit", "concurrent.futures",
    "contextlib", "sqlite3", "gzip", "bz2", "lzma", "sched", "pdb", "doctest", "unittest", "pydoc",
)  # fmt: skip


@for_each("name", WHOLE)
def test_every_function_is_described(name: str) -> None:
    """Whoever adds a function to one of these modules has to say what it does (or the table says `others`)."""
    table, where = described(shipped().places[name][1]), module(name)
    assert where is not None
    missing = [n for n in _public(where, name) if n not in names(table)]
    assert table.others or missing == []


NAMED = frozenset(
    str.split(
        """
        file path pathname filename filepath fname files filenames infile outfile dir dirname directory folder cmd command
        argv url uri host target source script dest destination executable location root tzpath cwd program
        """
    )
)
"""Parameters that say that a function works on a file, a host or a program."""
LOOKED_THROUGH = frozenset(
    str.split(
        """
        ast.get_source_segment ast.parse chunk.Chunk codeop.compile_command dis.dis dis.disassemble dis.disco dis.distb
        dis.show_code distutils.dep_util.newer distutils.dep_util.newer_group distutils.extension.read_setup_file
        distutils.filelist.findall email.contentmanager.set_bytes_content email.contentmanager.set_message_content
        email.contentmanager.set_text_content genericpath.exists genericpath.getatime genericpath.getctime
        genericpath.getmtime genericpath.getsize genericpath.isdir genericpath.isfile genericpath.islink inspect.FrameInfo
        inspect.Traceback inspect.getmodulename ntpath.abspath ntpath.expanduser ntpath.expandvars ntpath.islink
        ntpath.ismount ntpath.join ntpath.lexists ntpath.normpath ntpath.realpath ntpath.relpath nturl2path.url2pathname
        posixpath.abspath posixpath.expanduser posixpath.expandvars posixpath.islink posixpath.ismount posixpath.lexists
        posixpath.normpath posixpath.realpath posixpath.relpath symtable.Class symtable.Function symtable.SymbolTable
        symtable.symtable urllib.error.HTTPError urllib.error.URLError urllib.parse.DefragResult
        urllib.parse.DefragResultBytes urllib.parse.ParseResult urllib.parse.ParseResultBytes urllib.parse.SplitResult
        urllib.parse.SplitResultBytes urllib.parse.splitattr urllib.parse.splithost urllib.parse.splitnport
        urllib.parse.splitport urllib.parse.splitquery urllib.parse.splittag urllib.parse.splittype urllib.parse.splituser
        urllib.parse.to_bytes urllib.parse.unwrap urllib.parse.urldefrag urllib.parse.urljoin urllib.parse.urlparse
        urllib.parse.urlsplit urllib.response.addinfourl xml.etree.ElementPath.find xml.etree.ElementPath.findall
        xml.etree.ElementPath.findtext xml.etree.ElementPath.iterfind
        """
    )
)
"""Functions of modules that do nothing, which have such a parameter and only look at it, or write to an open file."""


def test_whatever_takes_a_path_or_a_host_is_described_or_in_doubt() -> None:
    """Every public function and class of the standard library that works on a file, a host or a program by its words."""
    hidden, seen = [], 0
    for name, function, parameter in _working():
        seen += 1
        table = shipped().module(name)
        assert table is not None, name
        if table.function(function) is not None or table.type(function) is not None:
            continue
        if f"{name}.{function}" in LOOKED_THROUGH:
            continue
        behaviour = python.read(f"import {name}\n{name}.{function}({parameter}='/srv/x')")
        if not behaviour.doubts and not any(a.operands == (Text.of("/srv/x"),) for a in behaviour.acts):
            hidden.append(f"{name}.{function}({parameter})")
    assert seen > 400
    assert hidden == []


def _working() -> Iterator[tuple[str, str, str]]:
    """Module, function and parameter."""
    for name in sorted(shipped().places):
        if name.startswith(("lib2to3.", "tkinter.")):  # trees and windows
            continue
        where = module(name) if tables.standard(name) and "._" not in f".{name}" else None
        for each in dir(where) if where is not None else ():
            found = getattr(where, each)
            if each.startswith("_") or not callable(found) or getattr(found, "__module__", None) != name:
                continue
            try:
                parameters = inspect.signature(found).parameters.values()
            except (TypeError, ValueError):
                continue
            for parameter in parameters:
                plain = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
                if plain and parameter.name.lower() in NAMED:
                    yield name, each, parameter.name


def _public(where: types.ModuleType, name: str) -> Iterator[str]:
    for each in dir(where):
        found = getattr(where, each)
        if each.startswith("_") or isinstance(found, types.ModuleType) or not callable(found):
            continue
        if isinstance(found, type) and issubclass(found, BaseException):
            continue
        if (getattr(found, "__module__", None) or name).partition(".")[0].lstrip("_") in (
            name.partition(".")[0],
            "builtins",
        ):
            yield each


def test_every_method_of_a_path_is_described() -> None:
    table = described("pathlib").type("Path")
    assert table is not None
    assert [
        n for n in dir(Path) if not n.startswith("_") and callable(getattr(Path, n)) and n not in table.methods
    ] == []


@for_each("first", STANDARD)
def test_a_function_is_described_wherever_it_is(first: str) -> None:
    """What does something is not to be had from another module under a name that its table does not know."""
    table = described(first)
    found = []
    for where in real(first):
        for name, each in vars(where).items():
            source = _dangerous().get(id(each))
            if source and name not in EVERYWHERE and not table.others and name not in names(table):
                found.append(f"{where.__name__}.{name} is {source}")
    assert found == []


EVERYWHERE = ("__loader__", "__spec__", "__builtins__")
"""Every module has them; what they lead to is among the cases."""


@cache
def _dangerous() -> dict[int, str]:
    """Functions and types that do something, by identity."""
    found: dict[int, str] = {}
    for first in STANDARD:
        for name, entry in described(first).everything():
            if entry.does or (isinstance(entry, TypeEntry) and entry.effective):
                for where in real(first):
                    if (each := getattr(where, name, None)) is not None:
                        found.setdefault(id(each), f"{first}.{name}")
    return found


# ---- positions and keywords ---------------------------------------------------------------------------


@for_each("first", STANDARD)
def test_positions(first: str) -> None:
    """An argument's position and keyword are those of Python's own signature, where Python tells it."""
    wrong = []
    for name, effect in effects(described(first)):
        for key in ("operand", "given", "missing", "argv", "mode", "flags", "value", "arguments", "elements"):
            operand = getattr(effect, key)
            if not isinstance(operand, Operand) or operand.position == -2 or name == "others":
                continue
            signatures = [s for m in real(first) if (s := _signature(m, name)) is not None]
            wrong += [f"{first}.{name} {key}: {operand} of {s}" for s in signatures if not _fits(operand, s)]
    assert [w for w in wrong if not w.startswith(UNTOLD)] == []


UNTOLD = ("shutil.rmtree operand: Operand(position=-1, keyword='onexc')",)
"""Arguments of other versions."""


def _signature(where: types.ModuleType, name: str) -> list[inspect.Parameter] | None:
    """The parameters of a function, of making an instance, or of a method (without the instance)."""
    kind, _, method = name.partition(".")
    found = getattr(where, kind, None)
    if found is None or (method and not hasattr(found, method)):
        return None
    try:
        if not method:
            return list(inspect.signature(found).parameters.values())
        raw = inspect.getattr_static(found, method)
        parameters = list(inspect.signature(getattr(found, method)).parameters.values())
        return parameters if isinstance(raw, classmethod | staticmethod | type) else parameters[1:]
    except (TypeError, ValueError):
        return None


def _fits(operand: Operand, parameters: list[inspect.Parameter]) -> bool:
    by_name = {p.name: p for p in parameters}
    if any(p.kind is p.VAR_KEYWORD for p in parameters) and operand.keyword not in by_name and operand.position == -1:
        return True
    if operand.position == -1:
        return operand.keyword in by_name
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if operand.position < len(plain):
        found = plain[operand.position]
        return found.name == operand.keyword or found.kind is found.POSITIONAL_ONLY
    return any(p.kind is p.VAR_POSITIONAL for p in parameters)


def test_ctypes_is_here() -> None:
    """The loaders of ctypes are objects, not functions: they stand among what nobody can follow."""
    assert {"cdll", "pythonapi"} <= set(described("ctypes").obscure)
    assert isinstance(ctypes.cdll, ctypes.LibraryLoader)
