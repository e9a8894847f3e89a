"""The browser that looks at our pages sees what they do."""

from pathlib import Path

import pytest

from tests.support import browser

pytestmark = pytest.mark.skipif(browser.find_chromium() is None, reason="no Chromium here: apt-get install chromium")


@pytest.mark.long
def test_requests_and_complaints_are_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<img src="http://127.0.0.1:9/x.png"><link rel="stylesheet" href="https://fonts.invalid/a.css">'
        "<script>console.error('oh no')</script>"
    )
    seen = browser.visit(page)
    assert set(seen.requests) == {"http://127.0.0.1:9/x.png", "https://fonts.invalid/a.css"}
    assert "oh no" in "".join(seen.console)


@pytest.mark.long
def test_a_page_can_be_printed(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>x</p>")
    assert browser.printed(tmp_path / "page.html", tmp_path / "page.pdf") == browser.Visit((), ())
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")


def test_without_a_browser_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(browser.BrowserError, match="apt-get install chromium"):
        browser.visit(tmp_path / "page.html")
