"""A Director that asks where something speaks against a call that no policy knows of: what the server says of its
tool, or what the call brings besides its arguments.
"""

from dataclasses import replace
from typing import Any

from humanlayer_agent.action import Action
from humanlayer_agent.policy.decision import Ask, Finding, Limits, PolicyDecision, Verdict
from humanlayer_agent.policy.director import Director


class DoubtingDirector:
    """Judges as a Director does, and asks at least where there is a doubt. No grant covers that.

    Args:
        director: judges all else, and is everything else.

    Attributes:
        doubts: by the `call_id` of an action: what speaks against it, in sentences.
    """

    def __init__(self, director: Director) -> None:
        self._director = director
        self.doubts: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._director, name)

    def evaluate(self, action: Action) -> PolicyDecision:
        """Judge `action`. Nothing holds what a server does."""
        decision = self._director.evaluate(action, held=False)
        doubt = self.doubts.get(action.call_id, "")
        if not doubt or decision.verdict is Verdict.DENY:
            return decision
        allowed = decision.verdict is Verdict.ALLOW
        return replace(
            decision,
            verdict=Verdict.ASK,
            rules=() if allowed else decision.rules,
            default_hit=allowed or decision.default_hit,
            severity="high",
            reason=doubt if allowed else f"{doubt} {decision.reason}".strip(),
            findings=(Finding(doubt, Verdict.ASK, severity="high"), *decision.findings),
            asks=(*decision.asks, Ask("", "", "tool", limits=Limits(scopes=()))),
        )
