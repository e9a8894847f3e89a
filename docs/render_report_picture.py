"""Renders docs/pictures/report.png and evidence.png: the auditor's pages on a made-up history, as Chromium shows them.

Run it after a change of the report:  python docs/render_report_picture.py      (needs Chromium; takes about a minute)
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

from humanlayer_agent.audit.heads import head_in, head_text
from humanlayer_agent.cli import main
from humanlayer_agent.policy.director import Director
from tests.support.browser import screenshot
from tests.support.history import PROJECT, write_history

WIDTH, HEIGHT = 1200, 1990


def render(picture: Path, evidence: Path) -> None:
    """Write the pictures."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.environ["XDG_STATE_HOME"] = folder
        director = Director.load("default", project=PROJECT, environ={"HOME": "/home/alice"})
        store = write_history(Path("store.sqlite3"), director)
        entries = list(store.events())
        store.close()
        Path("november.jsonl").write_bytes(b"".join(entry.line for entry in entries))
        kept = next(head for entry in reversed(entries) if (head := head_in(entry.event)) is not None)
        Path("kept.txt").write_text(head_text(kept))
        main(["audit", "report", "--export", "november.jsonl", "--head", "kept.txt", "--html", "report.html"])
        screenshot(Path("report.html"), picture, width=WIDTH, height=HEIGHT)
        asked = ["--map", "eu-ai-act", "--export", "november.jsonl", "--head", "kept.txt", "--html", "evidence.html"]
        main(["audit", "evidence", *asked])
        screenshot(Path("evidence.html"), evidence, width=WIDTH, height=1180)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else Path(__file__).parent / "pictures"
    FOLDER.mkdir(parents=True, exist_ok=True)
    render(FOLDER / "report.png", FOLDER / "evidence.png")
    print(FOLDER / "report.png", FOLDER / "evidence.png")
