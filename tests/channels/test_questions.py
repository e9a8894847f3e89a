"""What people are asked about 200 common commands: `questions.golden` has it, and beside it what each would do.

Each entry of that file is a command (after `$`, further lines of it after `>`), a line `would` that somebody wrote by hand
from the command alone, the verdict of `default`, and what is read: of a question all but the command and its parts, at 80
columns; of what is denied what a model is told; of what is allowed what `hla policy explain` says. `HLA_GOLDEN=write`
writes what is said today: read the difference aloud, beside the line `would`, before you keep it.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from humanlayer_agent.action import Action
from humanlayer_agent.channels.plain_text import as_text
from humanlayer_agent.channels.presentation import present
from humanlayer_agent.policy.decision import PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director
from humanlayer_agent.policy.effect_phrases import whole
from tests.channels.asking import build_request

GOLDEN = Path(__file__).with_name("questions.golden")
FIELDS = (" Why ", " Also ", " Beware ")


def entries(text: str) -> Iterator[tuple[str, str]]:
    """The commands of the file, each with what it would do."""
    for entry in re.split(r"\n\n(?=\$ )", text.strip()):
        lines = entry.split("\n")
        more = [line[2:] for line in lines if line.startswith("> ")]
        yield "\n".join([lines[0][2:], *more]), next(line for line in lines if line.startswith("would "))


def said(director: Director, action: Action) -> str:
    """What is read of an action."""
    decision = director.evaluate(action)
    if decision.verdict is Verdict.ALLOW:
        commands = director.program(action).commands
        return "\n".join(f" {whole(command)}" for command in commands if command.effects or len(commands) == 1)
    return f" {decision.reason}" if decision.verdict is Verdict.DENY else "\n".join(question(action, decision))


def question(action: Action, decision: PolicyDecision) -> Iterator[str]:
    """The rows of the terminal's prompt that say why it is asked."""
    view = present(replace(build_request(action.content), action=action, decision=decision))
    field = ""
    for row in as_text(view).split("\n"):
        field = row[:12] if re.match(r" \w", row) else field if row.startswith("    ") else ""
        if f"{field.rstrip()} " in FIELDS:
            yield row


def rendered() -> str:
    """The file as it would be written today."""
    director = Director.load("default", project="/srv/app", environ={"HOME": "/home/dev"})
    found = []
    for command, would in entries(GOLDEN.read_text(encoding="utf-8")):
        action = Action(command, cwd="/srv/app")
        head = "$ " + command.replace("\n", "\n> ")
        found.append(f"{head}\n{would}\n{director.evaluate(action).verdict}\n{said(director, action)}\n")
    return "\n".join(found)


def test_each_question_is_the_one_that_is_written_down() -> None:
    found = rendered()
    if os.environ.get("HLA_GOLDEN") == "write":
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")
    assert found.count("\nwould ") >= 150
