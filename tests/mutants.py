"""Mutants of the modules that everything rests on: each is changed in one place, and a test must fail then.

    python tests/mutants.py                  every module, as `make mutants` does
    python tests/mutants.py votes gate -n 8  modules whose path holds one of the words, 8 mutants of each

Which mutants are taken depends on what they change and on nothing else: they are the same on every machine, and stay
the same when something else in the module changes. Those that no test can tell from the original stand, each with the
reason, in `mutants_equivalent.txt`. A mutant runs in a process that is forked when all imports are done that are not
ours, and ends with the first test that fails.
"""

import argparse
import ast
import contextlib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
EQUIVALENT = Path(__file__).with_name("mutants_equivalent.txt")

TESTS = {
    "humanlayer_agent/policy/conditions/evaluation.py": [
        "policy/conditions/test_unseen_commands.py",
        "policy/test_director.py",
        "policy/conditions/test_containment.py",
        "policy/test_needs_line.py",
        "policy/conditions/test_variable_uses.py",
        "policy/test_flow.py",
    ],
    "humanlayer_agent/approvals/votes.py": [
        "approvals/test_votes.py",
        "approvals/test_groups.py",
        "approvals/test_authority.py",
        "approvals/test_forged.py",
    ],
    "humanlayer_agent/approvals/gate.py": [
        "approvals/test_gate.py",
        "approvals/test_gate_runs.py",
        "approvals/test_admission.py",
        "approvals/test_observe.py",
        "approvals/test_validity.py",
        "approvals/test_stop.py",
    ],
    "humanlayer_agent/audit/chain.py": ["audit/test_chain.py"],
    "humanlayer_agent/redaction/redactor.py": ["redaction/test_redactor.py", "redaction/test_redaction.py"],
    "humanlayer_agent/shell/interpreter/state.py": [
        "shell/interpreter/test_state_assignments.py",
        "shell/interpreter/test_state.py",
        "shell/test_state_fields.py",
    ],
    "humanlayer_agent/shell/syntax/fast_path.py": ["shell/syntax/test_parse_fast.py"],
}
"""Each module with the tests that concern it, the quickest first."""

SAMPLE = 120
"""So many mutants are taken of a module, or all where there are fewer."""
BAR = 0.9
"""Of those that are not equivalent, at least so many must be killed."""
CEILING = 240
"""Seconds after which a mutant has hung, and so is killed. What it computes is limited by `_allowance`."""

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.In: (r"\bin\b", "not in"),
    ast.NotIn: (r"\bnot\s+in\b", "in"),
    ast.Is: (r"\bis\b", "is not"),
    ast.IsNot: (r"\bis\s+not\b", "is"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
}
UNUSABLE = 77  # the exit status of a mutant that can't be imported


@dataclass(frozen=True)
class Mutant:
    """A module with one change. `change` shows it, and with the other two names it for good."""

    module: str
    function: str
    change: str
    source: bytes = field(repr=False, compare=False)

    @property
    def order(self) -> bytes:
        return hashlib.sha256("\0".join((self.module, self.function, self.change)).encode()).digest()


# ---- making them ----------------------------------------------------------------------------------


def mutants(module: str) -> list[Mutant]:
    """Return every mutant of a module, in an order that looks like chance and is always the same."""
    source = (ROOT / module).read_bytes()
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    made: dict[Mutant, None] = {}
    for function, kind, start, end, instead in _Finder(source, starts).found(ast.parse(source)):
        changed = source[:start] + instead + source[end:]
        first, last = source.rfind(b"\n", 0, start) + 1, source.find(b"\n", end)
        before, after = source[first:last], changed[first : last + len(changed) - len(source)]
        change = f"{kind}: {_one_line(before)} => {_one_line(after)}"
        made.setdefault(Mutant(module, function, change, changed))
    return sorted(made, key=lambda mutant: mutant.order)


def _one_line(text: bytes) -> str:
    return " ".join(text.decode().split())


Edit = tuple[str, str, int, int, bytes]
"""The function, the kind, the bytes from and to, and what stands there instead."""


class _Finder:
    """Finds what can be changed in a module. (Not in texts: they are for people, who judge them by reading.)"""

    def __init__(self, source: bytes, starts: list[int]) -> None:
        self.source = source
        self.starts = starts

    def found(self, node: ast.AST, function: str = "(module)") -> Iterator[Edit]:
        for kind, start, end, instead in self._edits(node):
            yield function, kind, start, end, instead
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            function = node.name if function == "(module)" else f"{function}.{node.name}"
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list"):
                continue
            for child in value if isinstance(value, list) else [value]:
                # Python 3.11 does not say where the parts of an f-string stand.
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield from self.found(child, function)

    def _edits(self, node: ast.AST) -> Iterator[tuple[str, int, int, bytes]]:
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
                    yield from self._operator("comparison", left, right, *COMPARISONS[type(op)])
            case ast.BoolOp():
                words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from self._operator("boolean", left, right, rf"\b{words[0]}\b", words[1])
            case ast.BinOp() if type(node.op) in ARITHMETIC and not _is_none(node.left) and not _is_none(node.right):
                yield from self._operator("arithmetic", node.left, node.right, *ARITHMETIC[type(node.op)])
            case ast.UnaryOp(op=ast.Not()):
                start, _ = self._span(node)
                yield "not", start, start + len("not"), b""
            case ast.Constant(value=bool() as value):
                yield "constant", *self._span(node), str(not value).encode()
            case ast.Constant(value=int() as value):
                yield "constant", *self._span(node), str(value + 1).encode()
            case ast.If() | ast.IfExp() | ast.comprehension():
                tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
                for test in tests:
                    if not _inverted_elsewhere(test):
                        yield "branch", *self._span(test), b"(not (" + self._text(test) + b"))"
            case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
                yield "return", *self._span(value), b"None"
            case ast.Continue():
                yield "statement", *self._span(node), b"break"
            case ast.Expr(value=ast.Constant()):
                pass  # a docstring
            case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Delete() | ast.Break():
                yield "statement", *self._span(node), b"pass"
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
                yield "statement", *self._span(node), b"pass"

    def _operator(
        self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str
    ) -> Iterator[tuple[str, int, int, bytes]]:
        start, end = self._span(left)[1], self._span(right)[0]
        if found := re.search(old.encode(), self.source[start:end]):
            yield kind, start + found.start(), start + found.end(), new.encode()

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.expr) -> bytes:
        start, end = self._span(node)
        return self.source[start:end]


def _is_none(node: ast.expr) -> bool:
    """`X | None` is a type."""
    return isinstance(node, ast.Constant) and node.value is None


def _inverted_elsewhere(test: ast.expr) -> bool:
    """Whether another kind of change already is to take the other branch."""
    inverted = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)
    return (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)) or (
        isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], inverted)
    )


# ---- those that are equivalent --------------------------------------------------------------------


def equivalent(every: dict[str, list[Mutant]]) -> set[Mutant]:
    """Read the reviewed list: a block has a module and a function, the change, and why no test can see it.

    Raises:
        SystemExit: a block without a reason, or of a mutant that there is not (any more).
    """
    known: set[Mutant] = set()
    there = {mutant for made in every.values() for mutant in made}
    text = "\n".join(line for line in EQUIVALENT.read_text().splitlines() if not line.startswith("#"))
    for block in filter(None, map(str.strip, text.split("\n\n"))):
        place, change, *reason = [line.strip() for line in block.split("\n")]
        mutant = Mutant(*place.split(" "), change, b"")
        if not reason:
            sys.exit(f"{EQUIVALENT.name}: say why no test can see this one:\n{block}")
        if mutant.module in every and mutant not in there:
            sys.exit(f"{EQUIVALENT.name}: there is no such mutant (any more): remove it, or write it anew:\n{block}")
        known.add(mutant)
    return known


# ---- running them ---------------------------------------------------------------------------------


class _Mutated(importlib.machinery.SourceFileLoader):
    """Loads a module from other source than that of its file."""

    def __init__(self, name: str, path: str, source: bytes) -> None:
        super().__init__(name, path)
        self.source = source

    def get_data(self, path: str) -> bytes:
        return self.source if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.source, self.path, "exec", dont_inherit=True)  # never what was compiled before


class _Instead:
    """Finds the mutant where the module is looked for."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.name = mutant.module.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self.name:
            return None
        file = str(ROOT / self.mutant.module)
        return importlib.util.spec_from_file_location(name, file, loader=_Mutated(name, file, self.mutant.source))


class _Settings:
    """Lets hypothesis try the same examples each time, and end with the first that fails."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutants", hypothesis.settings(), phases=phases, derandomize=True, database=None, deadline=None
        )
        hypothesis.settings.load_profile("mutants")


@dataclass
class _Child:
    """A process that runs the tests of one module, on a mutant of it or (None) on itself."""

    module: str
    mutant: Mutant | None
    allowance: int
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="mutant-")))
    began: float = field(default_factory=time.monotonic)
    pid: int = 0

    def start(self) -> "_Child":
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            status = UNUSABLE
            try:
                status = self._run()
            finally:
                os._exit(status)
        return self

    def _run(self) -> int:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (self.allowance, self.allowance))
        with open(self.folder / "output", "wb") as output:
            for number in (1, 2):
                os.dup2(output.fileno(), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if self.mutant is not None:
            instead = _Instead(self.mutant)
            sys.meta_path.insert(0, instead)  # type: ignore[arg-type]
            importlib.import_module(instead.name)
        options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={self.folder / 'tmp'}"]
        tests = [str(ROOT / "tests" / test) for test in TESTS[self.module]]
        status = int(pytest.main([*options, f"--rootdir={ROOT}", *tests], plugins=[_Settings()]))
        ours = (str(ROOT / "humanlayer_agent"), str(ROOT / "tests"))
        loaded = [n for n, m in sys.modules.items() if not str(getattr(m, "__file__", None)).startswith(ours)]
        (self.folder / "loaded").write_text(json.dumps(loaded))
        return status

    def ended(self) -> int | None:
        """The exit status, as soon as there is one; -1 of a process that was killed because it took too long."""
        done, status, used = os.wait4(self.pid, os.WNOHANG)
        if not done and time.monotonic() - self.began < CEILING:
            return None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)  # with what it has left
        if not done:
            _, status, used = os.wait4(self.pid, 0)
        self.took = used.ru_utime + used.ru_stime
        return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else -1


def _allowance(took: float) -> int:
    """So many seconds of processor time a mutant may use, of which the original needs `took`."""
    return int(4 * took) + 10


def _prepared(child: _Child) -> int:
    """Wait for the tests of a module as it is, and import what is not ours; the allowance of each mutant.

    Raises:
        SystemExit: they fail.
    """
    _, status, used = os.wait4(child.pid, 0)
    if status:
        sys.exit((child.folder / "output").read_text() + f"\nthe tests of {child.module} fail as it is")
    for name in json.loads((child.folder / "loaded").read_text()):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    shutil.rmtree(child.folder)
    return _allowance(used.ru_utime + used.ru_stime)


def survivors(chosen: dict[str, list[Mutant]], workers: int) -> tuple[set[Mutant], set[Mutant]]:
    """Run the tests on every mutant; those that none has noticed, and those that can't be imported."""
    survived: set[Mutant] = set()
    unusable: set[Mutant] = set()
    originals = [_Child(module, None, 600).start() for module in chosen]
    try:
        allowances = {child.module: _prepared(child) for child in originals}
    finally:
        for child in originals:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    waiting = [mutant for made in chosen.values() for mutant in made][::-1]
    running: list[_Child] = []
    while waiting or running:
        while waiting and len(running) < workers:
            mutant = waiting.pop()
            running.append(_Child(mutant.module, mutant, allowances[mutant.module]).start())
        select.select([], [], [], 0.02)
        for child in list(running):
            status = child.ended()
            if status is None:
                continue
            running.remove(child)
            assert child.mutant is not None
            {0: survived, UNUSABLE: unusable}.get(status, set()).add(child.mutant)
            said = {0: "survived", UNUSABLE: "unusable", -1: "killed (too long)"}.get(status, "killed")
            print(
                f"{said:9} {child.took:5.1f} s  {child.module} {child.mutant.function} {child.mutant.change}",
                flush=True,
            )
            shutil.rmtree(child.folder, ignore_errors=True)
    return survived, unusable


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what became of the mutants; 1 where too few were killed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only modules whose path holds one of these")
    parser.add_argument("-n", type=int, default=SAMPLE, help=f"mutants of each module ({SAMPLE})")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 1, help="processes at once (one a core)")
    given = parser.parse_args(arguments)
    modules = [m for m in TESTS if not given.words or any(word in m for word in given.words)]
    every = {module: mutants(module) for module in modules}
    same = equivalent(every)
    chosen = {module: [m for m in made if m not in same][: given.n] for module, made in every.items()}
    with tempfile.TemporaryDirectory(prefix="mutants-") as empty:
        # What is imported must not read what belongs to the user (tests/conftest.py does the same for each test).
        os.environ |= {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": empty}
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        survived, unusable = survivors(chosen, given.j)
    print(f"\n{'module':46} mutants  killed  survived  equivalent  (of all)")
    killed = total = 0
    for module, made in chosen.items():
        usable = [m for m in made if m not in unusable]
        left = [m for m in usable if m in survived]
        total, killed = total + len(usable), killed + len(usable) - len(left)
        equals = sum(m.module == module for m in same)
        print(
            f"{module:46} {len(usable):7} {len(usable) - len(left):7} {len(left):9} {equals:11} {len(every[module]):9}"
        )
    for mutant in [m for made in chosen.values() for m in made if m in survived]:
        kind, _, change = mutant.change.partition(": ")
        before, _, after = change.partition(" => ")
        print(f"\n{mutant.module} {mutant.function} ({kind})\n  - {before}\n  + {after}")
    print(f"\n{killed} of {total} were killed: {100 * killed // max(total, 1)} %")
    return int(killed < BAR * total)


if __name__ == "__main__":
    sys.exit(main())
