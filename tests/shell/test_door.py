"""The package stands by itself: its one door gives all that is public, and nothing else of ours is needed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from humanlayer_agent import shell

FOLDER = Path(shell.__file__).parent
OUTSIDE = {"bashlex", "tree_sitter", "tree_sitter_bash", "tree_sitter_javascript", "tree_sitter_typescript", "yaml"}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory in which `humanlayer_agent` has nothing but `shell`."""
    top = tmp_path_factory.mktemp("alone")
    shutil.copytree(FOLDER, top / "humanlayer_agent" / "shell", ignore=shutil.ignore_patterns("__pycache__"))
    (top / "humanlayer_agent" / "__init__.py").touch()
    return top


def run(alone: Path, code: str) -> str:
    start = f"import sys; sys.path.insert(0, {str(alone)!r})\n"
    done = subprocess.run([sys.executable, "-c", start + code], cwd=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_shows_what_it_does(alone: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    assert run(alone, code).splitlines() == [
        "ok []",
        "cd ('/srv/app',)",
        "sh ('/srv/app/src',)",
        "    execute /srv/app/src/build.sh (not certain)",
        "tee ('/srv/app/src',)",
        "    write /srv/app/src/log ",
    ]


@pytest.mark.long
def test_every_reader_works_without_the_rest(alone: Path) -> None:
    """Each module can be imported, and takes no distribution but those that are named."""
    said = run(
        alone,
        """
import pkgutil, humanlayer_agent.shell as shell
before = set(sys.modules)
for found in pkgutil.walk_packages(shell.__path__, shell.__name__ + "."):
    __import__(found.name)
new = {name.partition(".")[0] for name in sys.modules.keys() - before}
print(*sorted(new - sys.stdlib_module_names))
""",
    )
    assert set(said.split()) <= {"humanlayer_agent", *OUTSIDE, "_yaml"}


def test_the_door_gives_what_it_names() -> None:
    assert [name for name in shell.__all__ if not hasattr(shell, name)] == []
    assert sorted({*shell._WHERE, *shell._NAMESPACES}) == sorted(shell.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = shell.nothing


def test_to_open_the_door_is_cheap(alone: Path) -> None:
    """What names an `Effect` loads no interpreter; the readers of other languages wait for their first text."""
    said = run(
        alone,
        """
from humanlayer_agent.shell import Effect
print("humanlayer_agent.shell.analysis" in sys.modules)
from humanlayer_agent.shell import analyse
analyse("ls | head", cwd="/")
print(*(name for name in sys.modules if name.startswith("humanlayer_agent.shell.languages.") or name == "bashlex"))
""",
    )
    assert said.split("\n")[:2] == ["False", ""]
