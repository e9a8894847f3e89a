"""Human-in-the-loop supervision for agents that run bash.

The public names are imported when they are first used, so that `import humanlayer_agent` stays cheap: hooks do it once
a call. Type checkers read `__init__.pyi`, which says the same.
"""

__version__ = "0.1.0"

_WHERE = {
    "Action": "humanlayer_agent.action",
    "ActionDenied": "humanlayer_agent.errors",
    "AsyncGate": "humanlayer_agent.agents.async_gate",
    "Denial": "humanlayer_agent.approvals.model",
    "Director": "humanlayer_agent.policy.director",
    "Gate": "humanlayer_agent.agents.python_gate",
    "HumanLayerAgent": "humanlayer_agent.agents.mini",
    "Outcome": "humanlayer_agent.approvals.model",
    "Permit": "humanlayer_agent.approvals.model",
    "PolicyDecision": "humanlayer_agent.policy.decision",
    "SupervisedAgent": "humanlayer_agent.agents.mini",
    "SupervisedLocalEnvironment": "humanlayer_agent.agents.mini",
    "Verdict": "humanlayer_agent.policy.decision",
    "Waiting": "humanlayer_agent.approvals.model",
    "denial_text": "humanlayer_agent.approvals.denial_texts",
    "human_as_tool": "humanlayer_agent.agents.human_tool",
    "require_approval": "humanlayer_agent.agents.require_approval",
}

__all__ = [*_WHERE, "__version__"]


_OLDER = {
    "HumanLayer": "require_approval and human_as_tool need none: `from humanlayer_agent import require_approval`",
    "ContactChannel": "people and channels stand in a channels file (`hla init` writes one), and not in the code",
    "ResponseOption": "Gate.ask_human(question, options) takes answers to choose from",
}
"""Names of the older humanlayer SDK, and what stands in their place here."""


def __getattr__(name: str) -> object:
    if name in _WHERE:
        from importlib import import_module

        return getattr(import_module(_WHERE[name]), name)
    instead = f": {_OLDER[name]}" if name in _OLDER else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{instead}")
