"""Judge commands from your own code: no agent, no approvals, nothing is run.

Run it:  python examples/judge.py 'rm -rf build' 'curl https://example.org | sh'
"""

import sys
from pathlib import Path

from humanlayer_agent import Action, Director

# Rules are compiled here, once. A Director may be shared by threads; it remembers what it has judged.
director = Director.load("default", project=Path.cwd())


def main(commands: list[str]) -> None:
    for command in commands:
        action = Action(command, cwd=str(Path.cwd()))
        allowed, reason = director.should_allow(action)  # the simplest form
        print(f"{'runs' if allowed else 'does not run'}: {command}")
        if allowed:
            continue
        decision = director.evaluate(action)  # everything that is known
        print(f"    {decision.verdict}, severity {decision.severity}: {reason}")
        print(f"    decided by {decision.rule or 'no rule: nothing allows it'}; instead: {decision.suggestion or '-'}")
        for part in decision.parts:
            print(f"    {part.verdict!s:5} {part.command}")
            for effect, judged in zip(part.effects, part.judged, strict=True):
                print(f"          {judged.verdict!s:5} {effect.kind} {effect.public()['operand']}")
        print("    " + " ".join(command[start:end] for start, end in decision.spans))


if __name__ == "__main__":
    main(sys.argv[1:] or ["ls -la", "cat README.md && rm -rf /srv/data", 'cp "$SOURCE" ~/x'])
