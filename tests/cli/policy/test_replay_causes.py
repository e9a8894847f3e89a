"""`hla policy replay`: what the log can't know is counted apart, and `--checkout` reads it; causes go by their kind."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from humanlayer_agent.cli import main

pytestmark = pytest.mark.usefixtures("compiled")
Capture = pytest.CaptureFixture[str]
COMMANDS = [
    "python tools/gen.py", "bash tools/out.sh", "python -m tools.gen", "python tools/link.py", "qqfrob -x", "qqgrob",
    "python tools/gen.py && rm -rf /srv/c", "rm -rf /srv/a", "rm -rf /srv/b", "ls -la", "cd tools && python gen.py",
]  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "runs.jsonl"
    rows = [{"id": str(n), "run": "r", "command": c, "cwd": "/testbed/x"} for n, c in enumerate(COMMANDS)]
    path.write_text("".join(json.dumps(each) + "\n" for each in rows))
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose scripts would leave canaries if they ran."""
    (tmp_path / "secret.py").write_text("print('outside of the checkout')\n")
    top = tmp_path / "checkout"
    (top / "tools").mkdir(parents=True)
    (top / "tools/gen.py").write_text("open('canary', 'w').write('x')\n")
    (top / "tools/out.sh").write_text("touch canary; rm -rf /srv/data\n")
    (top / "tools/link.py").symlink_to(tmp_path / "secret.py")
    return top


def replayed(capsys: Capture, *words: str) -> dict[str, Any]:
    assert main(["policy", "replay", "default", *words, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def causes(found: dict[str, Any]) -> dict[str, int]:
    return {each["kind"]: each["count"] for each in found["causes"]}


def test_what_the_log_lacks_is_counted_apart(log: Path, capsys: Capture) -> None:
    found = replayed(capsys, str(log))
    assert causes(found) == {
        "scripts of a checkout that is not there": 5,
        "a program that is not described": 2,
        "rule delete-outside-project": 3,
    }
    assert [each["fault"] for each in found["causes"]] == ["log", None, None]
    assert {"code": "/testbed/x/tools/gen.py", "count": 2} in found["missing"]
    assert sum(each["count"] for each in found["causes"]) == found["verdicts"]["ask"] + found["verdicts"]["deny"]
    assert main(["policy", "replay", "default", str(log)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "5 asks of them the log's fault" in said
    assert "--checkout DIR reads them; without them 45.45 asks per 100 commands" in said
    assert "qqgrob" not in said.partition("µs slowest")[0]  # one example of each kind; any may be among the slowest
    assert main(["policy", "replay", "default", str(log), "--top", "20"]) == 0
    assert "qqgrob" in capsys.readouterr().out


def test_a_checkout_is_read_and_never_run(log: Path, checkout: Path, capsys: Capture) -> None:
    found = replayed(capsys, str(log), "--checkout", str(checkout))
    assert found["missing"] == []
    assert causes(found) == {
        "rule delete-outside-project": 4,  # what out.sh does is told
        "a program that is not described": 2,
        "code that nobody could read": 1,  # the link leads out of the checkout
    }
    main(["policy", "replay", "default", str(log), "--checkout", str(checkout), "--rows", "--format", "jsonl"])
    by_command = {row["command"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert by_command["python tools/gen.py"]["verdict"] == "allow"
    assert by_command["python tools/link.py"]["unread"]
    assert not list(checkout.rglob("canary"))
    assert not Path("canary").exists()


def test_what_git_tracks_in_the_checkout_is_the_project_s_own(log: Path, checkout: Path, capsys: Capture) -> None:
    (checkout / "tools/gen.py").write_text("import frobnicate_all; frobnicate_all.go()\n")
    before = causes(replayed(capsys, str(log), "--checkout", str(checkout)))
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"}
    for words in (["init", "-q"], ["add", "tools/gen.py"]):
        subprocess.run(["git", "-C", str(checkout), *words], check=True, env=env, stdin=subprocess.DEVNULL)
    after = causes(replayed(capsys, str(log), "--checkout", str(checkout)))
    assert sum(after.values()) <= sum(before.values())


def test_a_checkout_that_is_not_there(log: Path, capsys: Capture) -> None:
    assert main(["policy", "replay", "default", str(log), "--checkout", "/nowhere/checkout"]) == 2
    assert "/nowhere/checkout: there is no such directory" in capsys.readouterr().err


def test_programs_that_people_described_are_known(log: Path, own_user: Path, capsys: Capture) -> None:
    folder = own_user / ".config/humanlayer-agent/catalog"
    folder.mkdir(parents=True, mode=0o755)
    path = folder / "own.yaml"
    path.write_text(
        "programs:\n  qqfrob: {about: x, options: {x: [-x]}}\n  qqgrob: {about: x, effects: []}\n"
        "examples:\n  - {command: qqfrob -x, effects: []}\n  - {command: qqgrob, effects: []}\n"
    )
    path.chmod(0o644)
    assert "a program that is not described" not in causes(replayed(capsys, str(log)))


def test_the_page_tells_the_causes(log: Path, capsys: Capture) -> None:
    assert main(["policy", "replay", "default", str(log), "--format", "html"]) == 0
    out = capsys.readouterr().out
    assert "scripts of a checkout that is not there " in out
