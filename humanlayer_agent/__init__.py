"""Human-in-the-loop supervision for agents that run bash.

The public names are imported when they are first used, so that `import humanlayer_agent` stays cheap.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from humanlayer_agent.action import Action as Action
    from humanlayer_agent.agents.library import Gate as Gate
    from humanlayer_agent.agents.mini import HumanLayerAgent as HumanLayerAgent
    from humanlayer_agent.agents.mini import SupervisedAgent as SupervisedAgent
    from humanlayer_agent.agents.mini import SupervisedLocalEnvironment as SupervisedLocalEnvironment
    from humanlayer_agent.agents.require_approval import require_approval as require_approval
    from humanlayer_agent.errors import ActionDenied as ActionDenied
    from humanlayer_agent.policy.decision import PolicyDecision as PolicyDecision
    from humanlayer_agent.policy.director import Director as Director

__version__ = "0.1.0"

_WHERE = {
    "Action": "humanlayer_agent.action",
    "ActionDenied": "humanlayer_agent.errors",
    "Director": "humanlayer_agent.policy.director",
    "Gate": "humanlayer_agent.agents.library",
    "HumanLayerAgent": "humanlayer_agent.agents.mini",
    "PolicyDecision": "humanlayer_agent.policy.decision",
    "SupervisedAgent": "humanlayer_agent.agents.mini",
    "SupervisedLocalEnvironment": "humanlayer_agent.agents.mini",
    "require_approval": "humanlayer_agent.agents.require_approval",
}

__all__ = [*_WHERE, "__version__"]


if not TYPE_CHECKING:  # else every name would be there for a type checker

    def __getattr__(name: str) -> Any:
        if name in _WHERE:
            from importlib import import_module

            return getattr(import_module(_WHERE[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
