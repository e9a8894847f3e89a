"""The blocks of code in our pages, and a scene in which a page's blocks are run, one after another.

A block says by its language what it is:

    console   lines that begin with `$ ` are run; what stands below each is what it prints. `...` stands for anything
    python    is run, as a doctest where it has `>>>`
    yaml      a policy, channels, settings or programs: loaded by what reads them (tests/docs)
    text      a drawing, or what somebody writes elsewhere: nothing is run

One with a title (```yaml title="mine.yaml") is a file, and lies in the scene for the blocks after it. One below a line
`<!-- Not run by the tests: it needs ... -->` is not run; tests/docs/not_run.txt lists all of these.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import children

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "docs/lint/README.md",
    ROOT / "humanlayer_agent/shell/README.md",
)
"""All pages but those of the lint's checks, which have a test of their own, and those made from docstrings (doctests)."""
LANGUAGES = {"console", "python", "yaml", "json", "ini", "text"}
USER, PROJECT = "/home/alice", "/home/alice/app"
"""How the pages call the home and the project of the scene."""
_FENCE = re.compile(r"( *)```(\w*)(?: title=\"([^\"]+)\")?$")
_NOT_RUN = re.compile(r"\s*<!-- Not run by the tests: (.+)\. -->")
_AS_ROOT = "Warning: agent commands can read the secrets of this process: it runs as root"
"""What is said where the tests run as root, as in a container."""
_HLA = "import sys; from humanlayer_agent.cli import main; sys.argv[0] = 'hla'; sys.exit(main())"


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    page: str
    line: int
    language: str
    title: str
    text: str
    not_run: str
    """Why it is not run; "" where it is."""


@dataclass(frozen=True)
class Step:
    """One command of a console, and what the page says that it prints."""

    command: str
    printed: str


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page in their order."""
    found: list[Block] = []
    name = page.relative_to(ROOT).as_posix()
    above, opened, inside = "", None, list[str]()
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if opened is None and (opened := _FENCE.match(line)):
            inside, first = [], number
        elif opened is not None and line.strip() == "```":
            reason = _NOT_RUN.fullmatch(above)
            text = "\n".join(each.removeprefix(opened[1]) for each in inside) + "\n"
            found.append(Block(name, first, opened[2], opened[3] or "", text, reason[1] if reason else ""))
            opened, above = None, ""
        elif opened is not None:
            inside.append(line)
        elif line.strip():
            above = line
    assert opened is None, f"{name}: a block that does not end"
    return found


def steps(text: str) -> list[Step]:
    """Return what a console runs, and prints."""
    found: list[Step] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        command = [lines.pop(0)]
        while lines and lines[0].startswith("> "):
            command.append(lines.pop(0).removeprefix("> "))
        found.append(Step("\n".join(command), "\n".join(lines).strip("\n")))
    return found


@dataclass
class Scene:
    """A person's home and project, and what the commands of a page have left there.

    Args:
        folder: it is made in there.
        home: the home, as the environment has it.
    """

    folder: Path
    home: Path
    code: int = 0
    environment: dict[str, str] = field(default_factory=dict)
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    """What the page's Python has defined."""

    def __post_init__(self) -> None:
        self.project = self.where = self.folder / "app"
        self.project.mkdir()
        tools = self.folder / "bin"
        tools.mkdir()
        for name, program in {"hla": f'-c "{_HLA}"', "python": ""}.items():
            (tools / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {program} "$@"\n')
            (tools / name).chmod(0o755)
        self.environment = {
            **os.environ,
            "COLUMNS": "80",
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        self.environment.pop("HUMANLAYER_STORE", None)  # the home has one where everybody's has it

    def put(self, name: str, text: str) -> Path:
        """Write a file of the page; `~/` begins the home."""
        path = self.home / name[2:] if name.startswith("~/") else self.where / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.true(text))
        path.chmod(0o600)
        return path

    def true(self, text: str) -> str:
        """Return a page's text with the scene's own paths."""
        return text.replace(PROJECT, str(self.project)).replace(USER, str(self.home))

    def shown(self, text: str) -> str:
        """Return what was printed, with the paths as the pages have them."""
        return text.replace(str(self.project), PROJECT).replace(str(self.home), USER)

    def run(self, command: str) -> str:
        """Run one line of a console, as a shell would, and return what it prints."""
        command = self.true(command)
        words = shlex.split(command, comments=True)
        if words[:1] in (["hla"], ["python"]) and not set(_unquoted(command)) & set("|&;<>$`*"):
            start = ["-c", _HLA] if words[0] == "hla" else []
            return self._run([sys.executable, *start, *words[1:]])
        after = self.folder / "after"
        out = self._run(
            [
                "bash",
                "--norc",
                "-c",
                f'(exit {self.code})\n{command}\ncode=$?; {{ pwd; env -0; }} > "$0"; exit $code',
                str(after),
            ]
        )
        where, _, variables = after.read_text().partition("\n")
        self.where = Path(where)
        self.environment = dict(each.partition("=")[::2] for each in variables.split("\0") if each)
        return out

    def _run(self, command: list[str]) -> str:
        done = children.run(
            command,
            cwd=self.where,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.code = done.returncode
        lines = [line.rstrip() for line in self.shown(done.stdout).splitlines() if not line.startswith(_AS_ROOT)]
        return "\n".join(lines).strip("\n")


def _unquoted(command: str) -> str:
    return re.sub(r"'[^']*'|\"(?:[^\"\\$`]|\\.)*\"|\s#.*", "", command)


def same(printed: str, wanted: str) -> bool:
    """Tell whether what was printed is what a page says; `...` stands for anything."""
    if not wanted:
        return not printed
    return doctest.OutputChecker().check_output(f"{wanted}\n", f"{printed}\n", doctest.ELLIPSIS)


def run_python(block: Block, names: dict[str, Any]) -> str:
    """Run a block of Python in this process; `names` are those of the page's blocks before it.

    Returns:
        What is wrong: an example that prints something else.
    """
    name = f"{block.page}:{block.line}"
    if ">>>" not in block.text:
        exec(compile(block.text, name, "exec"), names)
        return ""
    test = doctest.DocTestParser().get_doctest(block.text, names, name, block.page, block.line)
    said: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    return "".join(said)


def calls(page: Path) -> Iterator[str]:
    """Yield every call of `hla` on a page: in its consoles, and as code in its text."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(page):
        if block.language == "console":
            yield from (each.command for each in steps(block.text) if each.command.startswith("hla "))
    yield from re.findall(r"`(hla [^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
