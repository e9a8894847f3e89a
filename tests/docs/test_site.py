"""The pages as a site: it builds without a warning, and its pages can be read by everybody, on a phone too."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.browser import find_chromium
from tests.support.browser_session import browser
from tests.support.pages import ROOT

PAGES = (
    *("index.html", "SECURITY.html", "ARCHITECTURE.html", "CONTRIBUTING.html", "CHANGELOG.html"),
    *(f"docs/{page.stem}.html" for page in sorted((ROOT / "docs").glob("*.md"))),
    *("docs/api/index.html", "docs/lint/index.html"),
)

OPTIONS = "{rules: {'landmark-unique': {enabled: false}, 'scrollable-region-focusable': {enabled: false}}}"
"""Of the frame that the theme puts around each block of code, which its script makes focusable where it scrolls."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does it."""
    folder = tmp_path_factory.mktemp("site")
    recipe = (ROOT / "Makefile").read_text().partition("SITE := ")[2].partition("docs:")[0]
    pages = folder / "build/pages"
    pages.mkdir(parents=True)
    subprocess.run(["cp", "-r", "--parents", *recipe.replace("\\\n", " ").split(), str(pages)], cwd=ROOT, check=True)
    shutil.copy(ROOT / "mkdocs.yml", folder)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder / "build/site"


@pytest.mark.long
def test_every_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / "docs" / f"{page.stem}.html").is_file()


@pytest.mark.long
def test_it_asks_nobody_for_anything(site: Path) -> None:
    """No fonts, scripts or counters of others."""
    for page in PAGES:
        text = (site / page).read_text()
        for each in ("<script src=", '<link rel="stylesheet" href='):
            assert f'{each}"http' not in text
            assert f"{each}http" not in text


@pytest.mark.long
@pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed: apt-get install chromium")
def test_pages_can_be_read(site: Path) -> None:
    """On a phone no page is wider than the screen, and axe-core finds nothing in what we wrote."""
    import axe_core_python

    axe = (Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
    with browser() as chromium, chromium.tab() as tab:
        for page in PAGES:
            tab.resize(360, 800)
            tab.open((site / page).as_uri())
            assert tab.run("document.documentElement.scrollWidth <= innerWidth"), page
            tab.run(axe + "; 0")
            found = tab.run(f"axe.run('article', {OPTIONS}).then(r => r.violations.map(v => [v.id, v.nodes[0].html]))")
            assert found == [], page
