"""examples/judge.py: the library used by itself."""

import sys
from pathlib import Path

import pytest

from tests.support import children

ROOT = Path(__file__).parents[2]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("ls -la", ["runs: ls -la"]),
        (
            "cat a && rm -rf /srv/data",
            [
                "does not run: cat a && rm -rf /srv/data",
                "decided by delete-outside-project; instead: ",
                "allow cat a",
                "ask   delete /srv/data",
            ],
        ),
        ("rm -rf /", ["deny, severity critical: Would destroy the system"]),
    ],
)
def test_judge(tmp_path: Path, command: str, shown: list[str]) -> None:
    done = children.run(
        [sys.executable, str(ROOT / "examples" / "judge.py"), command], cwd=tmp_path, capture_output=True, text=True,
        env={"PYTHONPATH": str(ROOT), "HOME": "/nowhere/home", "TMPDIR": "/nowhere/tmp"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for text in shown:
        assert text in done.stdout
