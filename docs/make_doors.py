"""Write docs/doors.md: what every door is tested for, as tests/doors.py declares it.

python docs/make_doors.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "doors.md"
_BEGINNING = """# What every door is tested for

<!-- Made by docs/make_doors.py from tests/doors.py: change the tests there. -->

A door is where supervision stands: the hook of a [coding agent](hooks.md), the [MCP gateway](mcp.md), the adapter of
an [agent framework](adapters.md). Whatever its form, a call ends in one of these ways, and a test shows each of them
with the real hook process, the official client and server, or the real framework with a model that follows a script.
(mini and your own Python have tests of their own: [agents](agents.md), [the Gate](gate.md).)
"""
_END = """
- *approved*: the call runs once, as it was approved. *rejected in words*: it does not, and the model reads the words
  as one quoted string.
- *changed by the human*: where the agent takes another command, that one is judged and runs; the call of a tool is
  never changed.
- *killed in between*: while the human is asked; nothing runs that was not approved, and nothing twice.
- *stopped*: the run, by the human who was asked, or every agent (`hla stop`): nothing that follows runs.
"""


def page() -> str:
    """Return the whole page."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tests.doors import ROWS, doors

    lines = ["", "| | " + " | ".join(ROWS.values()) + " |", "|---|" + "---|" * len(ROWS)]
    notes: list[str] = []
    for door in doors():
        cells = []
        for row in ROWS:
            said = door.notes.get(row, "")
            if said and said not in notes:
                notes.append(said)
            mark = f" {notes.index(said) + 1}" if said else ""
            cells.append(f"{'yes' if door.tests[row] else '–'}{mark}")
        lines.append(f"| {door.title} | {' | '.join(cells)} |")
    lines += ["", *(f"{number}. {note}" for number, note in enumerate(notes, 1))]
    return _BEGINNING + "\n".join(lines) + "\n" + _END


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
