"""Wrap an environment: every command that reaches the shell is judged, whatever agent sends it.

This is also what mini's own programs take, with no line of code, also for batch runs:

    mini --environment-class humanlayer_agent.agents.mini.SupervisedLocalEnvironment

Run it:  python examples/wrap_environment.py
"""

from minisweagent.agents.default import DefaultAgent
from minisweagent.models.test_models import DeterministicModel, make_output

from humanlayer_agent import Action, SupervisedLocalEnvironment


class Director:
    """Judges actions: (True, reason) allows, (False, reason) asks."""

    def should_allow(self, action: Action) -> tuple[bool, str]:
        return "rm" not in action.content, "it may delete something"


class Refuser:
    """A user who never approves anything."""

    def query(self, prompt: str, *, options: list[str]) -> str:
        return "No"


def main() -> None:
    environment = SupervisedLocalEnvironment(Director(), Refuser(), timeout=20, env={"PAGER": "cat"})
    model = DeterministicModel(
        outputs=[
            make_output("I make room.", [{"command": "rm -rf ./build"}]),
            make_output("I go on without.", [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo done"}]),
        ]
    )
    agent = DefaultAgent(model, environment, system_template="You are an agent.", instance_template="{{task}}")
    result = agent.run("Make room.")
    print(agent.messages[3]["content"])
    print("exit status:", result["exit_status"])


if __name__ == "__main__":
    main()
