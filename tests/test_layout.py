"""The shape of the package: what a newcomer finds where, and what light commands load.

Which part may import which is said in pyproject.toml, and checked by `lint-imports` (`make lint`).
"""

import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

import pytest

import humanlayer_agent

PACKAGE = Path(humanlayer_agent.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
RATCHET = json.loads(Path(__file__).with_name("ratchet.json").read_text())
LIGHT = ("litellm", "minisweagent", "slack_sdk", "prompt_toolkit", "typer", "rich", "cryptography", "jinja2", "httpx")
LARGEST_FOLDER = 20
LISTS = {"shell/programs/special"}
"""Folders that are a list, one file a program: they may be longer."""
SHARED_NAMES = {"channel", "interactive", "message"}
"""Names that each channel, or each version of mini, has for the same thing."""
NOT_NOUNS = re.compile(r"\w{2,}(?:ed|ing|ly)")
WORDS_THAT_TELL_NOTHING = frozenset(
    """ahead beside between desk elsewhere given here his known later light made new now once own plain seen shown
    something standing taken that there these things this those touch we what whose written""".split()  # noqa: SIM905
)
NOUNS = frozenset(
    """coding_agents finding signing failing_test parsing plain_text reply_text scripted_channel shadowed
    shared signing_key string_methods string_values suggestion_denied testing unused_list""".split()  # noqa: SIM905
)
"""Modules whose names have such an ending and are terms of the field, or the ids of lint checks. The list only shrinks."""


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def name_of(path: Path) -> str:
    return path.parent.name if path.stem == "__init__" else path.stem


def test_a_folder_is_read_at_a_glance() -> None:
    sizes = Counter(place(path.parent) for path in MODULES if path.stem != "__init__")
    large = {folder: size for folder, size in sizes.items() if size > LARGEST_FOLDER and folder not in LISTS}
    assert not large, f"more than {LARGEST_FOLDER} modules: split the folder by the questions it answers: {large}"


def test_one_name_means_one_thing_in_a_part() -> None:
    places = defaultdict(list)
    for path in MODULES:
        if path.stem not in {"__init__", "__main__"} | SHARED_NAMES:
            places[path.relative_to(PACKAGE).parts[0], path.stem].append(place(path))
    twice = [paths for paths in places.values() if len(paths) > 1]
    assert not twice, f"two modules of one part have the same name: {twice}"


def test_a_name_is_a_noun_of_the_field() -> None:
    wrong = [
        f"{place(path)}: {word}"
        for path in MODULES
        if (name := name_of(path)) not in NOUNS
        for word in name.split("_")
        if NOT_NOUNS.fullmatch(word) or word in WORDS_THAT_TELL_NOTHING
    ]
    assert not wrong, f"no nouns that a user of bash, policies or approvals knows: {wrong}"


def test_no_name_is_excused_that_is_not_there() -> None:
    assert {name_of(path) for path in MODULES} >= NOUNS


@cache
def importers() -> dict[str, set[str]]:
    """By module: the modules that import it."""
    names = {
        f"humanlayer_agent.{place(p).removesuffix('.py').replace('/', '.')}".removesuffix(".__init__"): p
        for p in MODULES
    }
    found: dict[str, set[str]] = {name: set() for name in names}
    for name, path in names.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in names:
                for alias in node.names:
                    below = f"{node.module}.{alias.name}"
                    found[below if below in names else node.module].add(name)
    return found


def figures() -> dict[str, int]:
    """What the ratchet counts."""
    texts = {path: path.read_text() for path in MODULES}
    lonely = [name for name, by in importers().items() if len(by) == 1]
    short = [n for n in lonely if len(file_of(n).read_text().splitlines()) < 60 and file_of(n).stem != "__init__"]
    return {
        "modules with one importer": len(lonely),
        "modules with one importer and under 60 lines": len(short),
        "type: ignore": sum(text.count("# type: ignore") for text in texts.values()),
        "functions over the limits of size": sum(
            len(re.findall(r"# noqa: .*(?:C901|PLR0915)", t)) for t in texts.values()
        ),
        "stubs whose half stands elsewhere": sum(text.count("raise NotImplementedError") for text in texts.values()),
        "private names imported across folders": private_imports(),
    }


def file_of(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def private_imports() -> int:
    found = 0
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("humanlayer_agent"):
                found += sum(a.name.startswith("_") and not a.name.startswith("__") for a in node.names)
    return found


@pytest.mark.long
def test_the_ratchet_holds() -> None:
    """What is not as it should be may not grow, and what was mended stays so: ratchet.json has the figures of today."""
    assert figures() == RATCHET, "more than before: mend it; fewer: write the new figures into tests/ratchet.json"


def loaded_by(*arguments: str) -> set[str]:
    """The top-level modules that a run of the command line has loaded in the end."""
    code = (
        "import sys\nfrom humanlayer_agent.cli import main\n"
        f"main({list(arguments)!r})\nprint('|'.join(sorted({{m.partition('.')[0] for m in sys.modules}})), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL
    )
    return set(done.stderr.strip().split("|"))


@pytest.mark.parametrize("arguments", [("check", "ls -la"), ("parse", "ls -la"), ("check", "--format", "jsonl")])
def test_light_commands_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert loaded_by(*arguments).isdisjoint(LIGHT)


def test_a_plain_command_reads_the_compiled_policy_and_loads_nothing_heavy(own_user: Path) -> None:
    """Each of these takes as long to import as a good part of all else that `check` does."""
    heavy = {"argparse", "sqlite3", "subprocess", "tempfile"}
    heavy |= {"pydantic", "pydantic_core", "yaml"}  # these check a policy file; its compiled form needs neither
    loaded_by("check", "ls -la")  # compiles the policy
    code = "import sys; print('|'.join(sorted({m.partition('.')[0] for m in sys.modules})), file=sys.stderr)"
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (loaded_by("check", "ls -la") - set(bare.stderr.strip().split("|"))).isdisjoint(heavy)


def test_importing_the_package_is_cheap() -> None:
    code = "import sys, humanlayer_agent; print('|'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.strip().split("|"))
    assert {m for m in loaded if m.startswith("humanlayer_agent")} == {"humanlayer_agent"}


def test_public_names_resolve() -> None:
    for name in humanlayer_agent.__all__:
        assert getattr(humanlayer_agent, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        humanlayer_agent.nothing  # noqa: B018
