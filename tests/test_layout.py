"""The shape of the package: imports point one way, and light commands load nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import humanlayer_agent

PACKAGE = Path(humanlayer_agent.__file__).parent
ORDER = [
    "canonical_json",
    "errors",
    "places",
    "actions",
    "shell",
    "files",
    "policy",
    "audit",
    "approvals",
    "channels",
    "report",
    "hub",
    "config",
    "agents",
    "hooks",
    "testing",
    "doctor",
    "cli",
]
"""Each part may import itself and what stands before it."""
EXCEPTIONS = {("agents", "testing"), ("config", "audit")}
LIGHT = ("litellm", "minisweagent", "slack_sdk", "prompt_toolkit", "typer", "rich", "cryptography", "jinja2", "httpx")


def imported_parts(path: Path) -> set[str]:
    """The parts of our package that a module imports while it is loaded or used (not those for type checkers only)."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {n.split(".")[1] for n in names if n.startswith("humanlayer_agent.")}


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if part == "__init__":
        return
    allowed = set(ORDER[: ORDER.index(part) + 1])
    wrong = {p for p in imported_parts(path) - allowed if (part, p) not in EXCEPTIONS}
    assert not wrong, f"{part} imports {', '.join(sorted(wrong))}"


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
