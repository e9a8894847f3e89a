"""Each check has a page in docs/lint: its bad example is caught, with the witness that it names, and its good one clean."""

import re
from pathlib import Path

import pytest

from humanlayer_agent.policy_tools.lint import CHECKS, Check, Finding, lint_file

PAGES = Path(__file__).parents[3] / "docs" / "lint"
BY_NAME = pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)


def examples(check: Check, folder: Path) -> list[list[Finding]]:
    """The findings in each policy that the page shows."""
    shown = re.findall(r"```yaml\n(.*?)```", page(check), re.DOTALL)
    paths = [folder / f"{n}.yaml" for n, _ in enumerate(shown)]
    for path, text in zip(paths, shown, strict=True):
        path.write_text(text)
    return [lint_file(path, routes={"default"}) for path in paths]


def page(check: Check) -> str:
    return (PAGES / f"{check.id}.md").read_text()


@pytest.mark.sample(1)
@BY_NAME
def test_what_the_page_shows(check: Check, tmp_path: Path) -> None:
    bad, good = examples(check, tmp_path)
    caught = [finding for finding in bad if finding.check == check.id]
    assert caught
    assert not any(finding.unknown for finding in caught)
    assert good == []
    for finding in caught:
        if check.id != "unused-ignore":
            assert finding.witness is not None
            assert f"`{finding.witness.command}`" in page(check)
    # A list or rule that is wrong is often not tested either; nothing else may be wrong with it.
    assert {finding.check for finding in bad} <= {check.id, "no-test"}


@BY_NAME
def test_the_page_says_what_the_check_says(check: Check) -> None:
    text = " ".join(page(check).split())
    assert text.startswith(f"# {check.id} Level: ")
    assert check.level in text.partition(".")[0]
    assert check.summary in text
    assert f"| [{check.id}]({check.id}.md) | {check.level} | {check.summary} |" in (PAGES / "README.md").read_text()


def test_every_page_and_every_module_is_a_check() -> None:
    names = {check.id for check in CHECKS}
    assert {path.stem for path in PAGES.glob("*.md")} == names | {"README"}
    assert [check.id for check in CHECKS] == sorted(names)
