"""What every adapter is held to, and where one of them can't be: the tests run by this, and the page has it from here.

It is read where no framework is installed.
"""

from dataclasses import dataclass, field

ROWS = {
    "allow": "What the policy allows runs, and how it ended is in the log",
    "deny": "What the policy denies does not run; the model reads why, in the framework's form of a result",
    "approve": "What a human approves runs, once",
    "reject": "What a human rejects does not run; the model reads their words as one quoted string",
    "edit": "A call that a human has changed does not run, nor does what the model proposed",
    "time_out": "Where nobody answers in time it does not run",
    "parallel": "Of several calls at once with the middle one denied the others run; results keep their order",
    "stop": "A human stops the run: each call gets a result, none runs, and the model is not asked again",
    "halt": "All agents are stopped (`hla stop`): the same",
    "raises": "A tool that raises does so as ever, and the log has it",
    "fault": "A mistake in the policy, the store or the adapter denies",
    "changed": "Arguments that something has changed after they were judged are another call, which does not run",
    "bypassed": "Where something else ran than was judged, the run ends",
    "commands": "Commands of a shell of its own are judged as such; none outside of its own sandbox is allowed by that",
    "code": "Code that the model writes is judged before it runs, and so is each call in it",
    "retried": "What the framework tries a second time is judged a second time, or does not run",
    "answered": "The framework's own way of asking: the app's user approves or rejects, by the identity the app names",
    "stranger": "There, an answer by somebody who may not answer decides nothing",
    "edited": "There, a call that the app's user has changed does not run either; the model reads what it was to be",
    "resumed": "Killed while a human is asked, and resumed in another process: what was approved runs, once",
    "killed": "Killed while a tool runs, and resumed: it does not run again",
}
"""By row: what holds."""


@dataclass(frozen=True)
class Adapter:
    """A framework, and where it has no place for a row.

    Args:
        title: as people know it.
        module: its module in `humanlayer_agent.adapters`, and its driver in `tests.adapters.drivers`.
        extra: of pyproject.toml.
        ways: how its driver runs an agent; each is tried.
        without: by row, why it does not apply.
    """

    title: str
    module: str
    extra: str
    ways: tuple[str, ...] = ("run",)
    without: dict[str, str] = field(default_factory=dict)


NO_SHELL = "It has no shell of its own; where it brings one, that is refused, or a tool like any other."
NO_CODE = "It runs no code that a model writes but by a tool."
NOTHING_BETWEEN = "There is no place where anything could come between: the call is judged directly before the tool."
OUR_CHANNELS = "It has no way of asking of its own that would be used here: humans are reached by our channels."
NO_STATE = "It keeps no state of a call that waits; a killed run begins anew, and is asked about anew."
ONCE = "It tries no tool a second time by itself."

ADAPTERS = (
    Adapter(
        "LangChain, LangGraph", "langchain", "langchain", ("run", "run_async"), {"commands": NO_SHELL, "code": NO_CODE}
    ),
    Adapter(
        "OpenAI Agents SDK",
        "openai_agents",
        "openai-agents",
        ("run", "run_streamed", "run_handed_over", "run_in_a_tool", "run_mcp", "run_later_tool"),
        {
            "changed": NOTHING_BETWEEN,
            "bypassed": NOTHING_BETWEEN,
            "retried": ONCE,
            "edited": "It has no edits.",
            "commands": NO_SHELL,
            "code": NO_CODE,
        },
    ),
    Adapter(
        "PydanticAI",
        "pydantic_ai",
        "pydantic-ai",
        ("run", "run_streamed"),
        {"bypassed": NOTHING_BETWEEN, "commands": NO_SHELL, "code": NO_CODE},
    ),
    Adapter(
        "Inspect AI",
        "inspect_ai",
        "inspect-ai",
        without={
            "changed": "Only Inspect's own sentinel could change a call then: the sample is terminated after it.",
            "bypassed": NOTHING_BETWEEN,
            "retried": ONCE,
            "commands": NO_SHELL,
            "code": NO_CODE,
            **dict.fromkeys(("answered", "stranger", "edited"), OUR_CHANNELS),
            **dict.fromkeys(("resumed", "killed"), NO_STATE),
        },
    ),
    Adapter(
        "Claude Agent SDK",
        "claude_agent_sdk",
        "claude-agent-sdk",
        ("run", "run_query"),
        {
            "changed": "Another hook could change a call then; the run ends after it.",
            "retried": ONCE,
            "code": NO_CODE,
            **dict.fromkeys(("answered", "stranger", "edited"), OUR_CHANNELS),
            **dict.fromkeys(("resumed", "killed"), NO_STATE),
        },
    ),
    Adapter(
        "smolagents",
        "smolagents",
        "smolagents",
        ("run", "run_later_tool", "run_managed"),
        {
            **dict.fromkeys(("changed", "bypassed"), NOTHING_BETWEEN),
            "retried": ONCE,
            "commands": NO_SHELL,
            **dict.fromkeys(("answered", "stranger", "edited"), OUR_CHANNELS),
            **dict.fromkeys(("resumed", "killed"), NO_STATE),
        },
    ),
)


def cases() -> list[tuple[Adapter, str]]:
    """Each adapter with each row that applies to it."""
    return [(adapter, row) for adapter in ADAPTERS for row in ROWS if row not in adapter.without]
