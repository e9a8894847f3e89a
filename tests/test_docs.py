"""Every example in a docstring does what it says. (What stands in pages: tests/docs.)"""

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

import humanlayer_agent

PACKAGE = Path(humanlayer_agent.__file__).parent
ROOT = PACKAGE.parent


def modules_with_examples() -> list[str]:
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted(PACKAGE.rglob("*.py"))
        if ">>>" in path.read_text()
    ]


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for found in finder.find(module, name, extraglobs={**vars(humanlayer_agent), **_names()}):
        runner.run(found)
    assert runner.summarize(verbose=False).failed == 0


def _names() -> dict[str, object]:
    return {name: getattr(humanlayer_agent, name) for name in ("Action", "Director")}


QUESTION = re.compile(r"(What|Whether|Where|Who|Whose|Which|When|Why|How|Does|Do|Is|Are|Has|Have|Can|May)\b")


def test_modules_say_what_they_are() -> None:
    """A docstring opens with what the thing is or does, not with a question."""
    opened = {path: ast.get_docstring(ast.parse(path.read_text())) or "" for path in PACKAGE.rglob("*.py")}
    assert [str(path) for path, text in opened.items() if QUESTION.match(text)] == []


def test_the_reference_says_what_things_do() -> None:
    """The sentence below a signature is a statement (or an order: "Have ... posted", "Do nothing")."""
    asked = []
    for path in sorted((ROOT / "docs" / "api").glob("*.md")):
        for entry in re.split(r"^##+ ", path.read_text(), flags=re.MULTILINE)[1:]:
            name, _, said = [*entry.split("```", 2), "", ""][:3]
            if QUESTION.match(said.strip()) and not said.strip().startswith(("Do ", "Have ")):
                asked.append(f"{path.name}: {name.strip()}")
    assert asked == []
