"""Code that is found and loaded by whatever looks for it: tests, modules that are imported.

`pytest` runs every conftest.py that it finds. Code that an action writes in plain is judged where it is written; where
an action fills a file that is code by its name with a text that nobody could read, what loads code afterwards is
unread.
"""

import posixpath
import re
from collections.abc import Container, Iterable
from functools import cached_property

from humanlayer_agent.shell.program import WRITTEN, Effect, Program, SimpleCommand

_CHANGES = frozenset({"write", "append"})
CODE_FORMATTERS = frozenset(
    str.split(
        """
        black ruff isort autopep8 yapf autoflake pyupgrade eslint prettier biome standard gofmt goimports
        gofumpt rustfmt clang-format rubocop standardrb ktlint google-java-format scalafmt dart zig stylelint tsc
        esbuild swc babel
        """
    )
)
"""Programs that give code another form."""
_EDITORS = CODE_FORMATTERS | {"sed", "git", "touch"}
"""Programs that change code in place, make code of code, or bring back what is under version control."""
_PASS_ON = frozenset({"tee", "dd", "cp", "mv", "ln", "install"})
"""Programs that write their input, or a file, as it is."""
_COPIES = re.compile(
    r"shutil\.(?:copy\w*|move)|os\.(?:renames|link|symlink)|\.(?:rename|replace|symlink_to|hardlink_to)$", re.ASCII
)
"""Functions of Python that bring a file under another name."""
_BY_NODE = ("node line", "javascript line", "typescript line")
"""How the origins of what code for node does begin."""
UNREAD_NAMES = (
    ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".jsx", ".tsx", ".rb", ".go", ".rs", ".java", ".kt", ".scala", ".php",
    ".pl", ".ninja", ".cmake", "/CMakeLists.txt", "/meson.build", ".gradle", ".gradle.kts", "/pom.xml", "/Rakefile",
    "/dune", "/dune-project", "/dune-workspace", "/rebar.config", "/foundry.toml", ".lean", ".nimble", ".prisma",
    "/.busted",
)  # fmt: skip
"""Names of code, and of what says which to run, in languages that nobody reads here."""
COMPILED_NAMES = (
    ".so", ".pyd", ".pth", ".pyc", ".node", ".wasm", ".dylib", ".jar", ".class", ".dll",
)  # fmt: skip
"""Names of code that is loaded as it is, Python's own among it."""
NATIVE_NAMES = (
    ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".s", ".S", ".m", ".mm", ".swift", ".cs", ".fs", ".zig", ".nim",
    ".lua", ".ex", ".exs", ".hs", ".erl", ".clj", ".pm", ".t", ".R", ".r", ".jl", ".dart", ".ml", ".proto", ".cmake.in",
    ".hxx", ".f", ".F", ".f90", ".F90", ".for", ".swig", ".swigcxx", ".i", ".cu", ".d", ".adb", ".pas",
    ".v", ".sv", ".vhd",
    ".syso", ".o", ".a", "/go.work", "/modules.txt",
)  # fmt: skip
"""Names of sources, and of what says which to take, that are built before they run."""
PROCESSOR_NAMES = (".jar", "/javax.annotation.processing.Processor")
"""Names of what makes javac run code: classes alone are not looked for by it."""
_ONLY_PYTHON = frozenset(
    {"pytest", "py.test", "coverage", "nosetests", "nose2", "ward", "mypy", "pylint", "ruff", "flake8"}
)
"""Programs that load Python, and build nothing."""
LOADS = frozenset({"project", "import"})
"""What runs code that it finds by itself."""


def doubt(program: Program, known: Container[int]) -> None:
    """Make unread what loads code, where one of the program's commands brings some that is not known.

    Args:
        program: all of an action.
        known: the identities of effects that write a text which is known, and judged.
    """
    commands, loading = program.commands, []
    compound = {id(commands[at]) for kind, _, _, at, _ in program.trace if kind == "redirects" and at < len(commands)}
    for command in commands:
        changed: list[Effect] = []
        sources = _Sources(command)
        for effect in command.effects:
            if effect.kind == "execute" and effect.role in LOADS:
                loading.append(command)
            elif effect.kind in _CHANGES and (not changed or _copied(effect)) and _passed_on(sources, effect):
                changed.append(effect)
        # `> x.py` alone makes it empty; the redirects of `{ ...; } > f`, or of a loop, have a command of their own.
        if changed and (command.program or id(command) in compound):
            for effect in changed:
                _redirected(sources, effect, known)
    brought: dict[tuple[str, ...], bool] = {}
    for command in loading:
        names = _unread_names(command)
        if names not in brought:
            brought[names] = _brings_code(commands, known, names)
        if not brought[names]:
            continue
        for effect in command.effects:
            if effect.kind == "execute" and effect.role in LOADS and effect.resolved and not effect.unread:
                effect.unread, effect.resolved = True, False
                command.doubt(effect.operand or effect.origin)


def is_called(path: str, endings: tuple[str, ...]) -> bool:
    """Tell whether the name of a file ends so, and is more than that ending."""
    return path.endswith(endings) and posixpath.basename(path) not in endings


def is_python(command: SimpleCommand) -> bool:
    """Tell whether it starts Python, which looks for all modules, its own too, where it is started first of all."""
    return command.program is not None and command.program.startswith(("python", "pypy", "ipython"))


def loads(program: Program) -> bool:
    """Tell whether any of its commands runs code that it finds by itself, or may change files later, or may be told
    where Python looks for modules.
    """
    return any(is_python(command) for command in program.commands) or any(
        (e.role in LOADS and e.kind == "execute")
        or (e.kind in _CHANGES and "background" in command.inside)
        or (e.kind == "environment" and e.operand == "PYTHONPATH")
        for command in program.commands
        for e in command.effects
    )


class _Sources:
    """What a command reads, which tells whether what it fills files with is code."""

    def __init__(self, command: SimpleCommand) -> None:
        self.command = command

    @cached_property
    def _read(self) -> dict[str, list[str]]:
        """What is read by each origin of an effect; under "" all of it."""
        found: dict[str, list[str]] = {}
        for effect in self.command.effects:
            if effect.kind in ("read", "move"):
                for origin in ("", effect.origin):
                    found.setdefault(origin, []).append(effect.operand or "")
        return found

    @cached_property
    def _are_code(self) -> dict[str, bool]:
        from humanlayer_agent.shell import languages

        return {origin: all(map(languages.by_name, paths)) for origin, paths in self._read.items()}

    @cached_property
    def has_script(self) -> bool:
        """Does it read a script file?"""
        return any(e.kind == "read" and e.role == "script" for e in self.command.effects)

    @cached_property
    def executes(self) -> bool:
        """Does it run code?"""
        return any(e.kind == "execute" for e in self.command.effects)

    def are_code(self, into: Effect) -> bool:
        """Is what it reads code by its name? That was judged when it was written. Code of Python may do many things:
        what one call reads and writes has one origin.
        """
        return self._are_code.get(into.origin if _copied(into) else "", False)


def _passed_on(sources: _Sources, effect: Effect) -> bool:
    """Does `effect` fill its file with what its command prints, or is given?"""
    return effect.source == "redirect" or sources.command.program in _PASS_ON or _brought(sources, effect)


def _brought(sources: _Sources, effect: Effect) -> bool:
    """Does what else changes code bring another file there: `sed 'r f'` and `w f`, `git mv`, shutil.copy?"""
    command = sources.command
    if command.program == "sed":
        return effect.role == "script" or sources.has_script
    return (
        _copied(effect)
        or effect.origin.startswith(_BY_NODE)
        or (command.program == "git" and command.subcommand == "mv")
    )


def _copied(effect: Effect) -> bool:
    """Does Python code bring another file under this name?"""
    return effect.origin.startswith("python") and _COPIES.search(effect.origin) is not None


def _redirected(sources: _Sources, effect: Effect, known: Container[int]) -> None:
    """`base64 -d a > conftest.py`: what a program prints becomes code, to be run at another time."""
    from humanlayer_agent.shell import languages

    command = sources.command
    if id(effect) in known or languages.by_name(effect.operand or "") is None:
        return
    by_node = effect.origin.startswith(_BY_NODE)
    if sources.are_code(effect) and not by_node:
        return
    if sources.executes and not _copied(effect) and not by_node:
        return  # what prints is asked about by itself, or the project's own
    found = Effect("execute", "script", effect.operand, False, effect.span, "code that is printed", unread=True)
    command.effects.append(found)
    command.doubt(effect.operand or "")


def _unread_names(command: SimpleCommand) -> tuple[str, ...]:
    """How the names of files end that are code for what `command` loads, and that nobody reads here."""
    if command.program == "javac":
        return PROCESSOR_NAMES
    if is_python(command) or command.program in _ONLY_PYTHON:
        return (*UNREAD_NAMES, *COMPILED_NAMES)
    return (*UNREAD_NAMES, *COMPILED_NAMES, *NATIVE_NAMES)


def _brings_code(commands: Iterable[SimpleCommand], known: Container[int], unread: tuple[str, ...]) -> bool:
    for command in commands:  # noqa: SIM110  a generator takes longer, and every action that runs tests is asked
        if command.effects and _fills(command, known, unread):
            return True
    return False


def _fills(command: SimpleCommand, known: Container[int], unread: tuple[str, ...]) -> bool:
    """Does it fill a file that is code by its name, from anything but code?"""
    from humanlayer_agent.shell import languages

    changed = [effect for effect in command.effects if effect.kind in _CHANGES]
    if not changed:
        return False
    if any(is_called(effect.operand or "", unread) for effect in changed):
        return command.program not in _EDITORS
    written = [
        effect
        for effect in changed
        if id(effect) not in known and languages.by_name(effect.operand or "") not in (None, "notebook")
    ]
    if not written:
        return False
    if any(effect.source == "redirect" for effect in written):
        return True
    sources = _Sources(command)
    if any(_brought(sources, effect) and not sources.are_code(effect) for effect in written):
        return True
    program = command.program or ""
    python = "python" in command.via or program.startswith(("python", "pypy")) or WRITTEN in command.inside
    return program not in _EDITORS and not python and not sources.are_code(written[0])
