"""Wrap an agent: mini-swe-agent's loop with an approval gate, in a few lines.

The model here is a script, so that this runs without a key. With a real one:

    from minisweagent.models import get_model
    model = get_model("anthropic/claude-sonnet-4-5")

Run it:  python examples/wrap_agent.py        (it asks before anything but ls, cat and echo)
"""

from minisweagent.config import get_config_from_spec
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.test_models import DeterministicModel, make_output

from humanlayer_agent import Action, HumanLayerAgent


class Director:
    """Judges actions. Leave it out, and the shipped policy does (`supervision={"policy": "default"}`)."""

    def should_allow(self, action: Action) -> tuple[bool, str]:
        harmless = action.content.split()[0] in ("ls", "cat", "echo") and not set(action.content) & set(";&|<>$`\n")
        return harmless, "nothing but a plain ls, cat or echo is allowed without asking"


class User:
    """Is asked about what the director does not allow. Leave it out, and the terminal prompt is used."""

    def query(self, prompt: str, *, options: list[str]) -> str:
        print(prompt)
        try:
            return input(f"{' / '.join(options)}: ")
        except EOFError:
            return options[0]


def main() -> None:
    model = DeterministicModel(
        outputs=[
            make_output("I look around.", [{"command": "ls"}]),
            make_output("I leave a note.", [{"command": "date > note.txt"}]),
            make_output("Done.", [{"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}]),
        ]
    )
    settings = get_config_from_spec("mini.yaml")["agent"]
    agent = HumanLayerAgent(model, LocalEnvironment(), Director(), User(), **settings)
    result = agent.run("Leave a note with today's date.")
    print("exit status:", result["exit_status"])
    for record in agent.env.supervisor.records:
        print("ran    " if record.executed else "not run", record.command, f"({record.approver or record.by})")


if __name__ == "__main__":
    main()
