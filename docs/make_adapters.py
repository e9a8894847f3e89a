"""Write the table of docs/adapters.md: what every adapter is tested for, as tests/adapters/table.py declares it.

    python docs/make_adapters.py

All else on the page is written by hand.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "adapters.md"
BEGIN = "<!-- What follows is made by docs/make_adapters.py. -->"


def page() -> str:
    """Return the page, with the table as the tests have it."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tests.adapters.table import ADAPTERS, ROWS

    lines = ["", "| | " + " | ".join(each.title for each in ADAPTERS) + " |", "|---|" + "---|" * len(ADAPTERS)]
    notes: list[str] = []
    for row, holds in ROWS.items():
        cells = []
        for adapter in ADAPTERS:
            why = adapter.without.get(row)
            if why and why not in notes:
                notes.append(why)
            cells.append(f"– {notes.index(why) + 1}" if why else "yes")
        lines.append(f"| {holds} | {' | '.join(cells)} |")
    lines += [""] + [f"{number}. {note}" for number, note in enumerate(notes, 1)] if notes else []
    return PAGE.read_text(encoding="utf-8").partition(BEGIN)[0] + BEGIN + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
