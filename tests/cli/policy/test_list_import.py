"""`hla policy import`: what it writes and says."""

import io
import sys
from pathlib import Path

import pytest

from humanlayer_agent.cli import main
from humanlayer_agent.policy.language import examples, loader

SETTINGS = (
    '{"permissions": {\n "allow": ["Bash(npm run test:*)", "Bash(git:*)", "Bash"],\n "deny": ["Bash(curl:*)"]}}\n'
)
Said = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_user: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("settings.json").write_text(SETTINGS)
    return Path("settings.json")


def test_it_writes_a_policy_with_tests_and_says_what_is_missing(file: Path, capsys: Said) -> None:
    assert main(["policy", "import", "claude-code", "settings.json", "--output", "mine.yaml"]) == 1
    said = capsys.readouterr().out
    assert "line 2: Bash(npm run test:*): rule allow-0-npm-run-test\n" in said
    assert "line 2: Bash(git:*): rule allow-2-git; `git` alone can run any code" in said
    assert "line 2: Bash: not carried: it is about every command" in said
    assert said.endswith("3 of 4 lines carried, to mine.yaml, which is not in force\n")
    results = [each for each in examples.run(loader.load("mine.yaml")) if not each.example.rule.inherited]
    assert len(results) == 6
    assert all(each.passed for each in results)
    assert main(["policy", "fmt", "--check", "mine.yaml"]) == 0
    assert main(["policy", "lint", "mine.yaml"]) in (0, 1)
    assert main(["policy", "import", "claude-code", "settings.json", "--output", "mine.yaml"]) == 2
    assert "mine.yaml is there already" in capsys.readouterr().err


def test_what_is_printed_is_the_policy_alone(file: Path, capsys: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"allow make lint\n")))
    assert main(["policy", "import", "dippy", "-"]) == 0
    said = capsys.readouterr()
    Path("p.yaml").write_text(said.out)
    assert [rule.id for rule in loader.load("p.yaml").rules if not rule.inherited] == [
        "allow-0-make-lint",
        "allow-0-make-lint-does",
    ]
    assert said.err.endswith("1 of 1 lines carried\n")
