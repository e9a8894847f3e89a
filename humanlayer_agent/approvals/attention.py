"""The care that a route demands of who approves: who answers too quickly has to type what it is about, and who has
approved a lot needs a second person.

People approve by habit once they are asked often. What is demanded here is found from the answers in the store; it is
asked when an answer is recorded, and is no part of what proves one.
"""

from collections.abc import Iterable

from humanlayer_agent.policy.decision import PolicyDecision

SEVERE = ("high", "critical")
"""Severities whose approvals must not come too quickly."""

IN_A_ROW = 2
"""So many hasty answers in a row, and the next approval has to be typed."""

HOUR_MS = 3_600_000


def to_type(decision: PolicyDecision) -> str:
    """Return what an approver who was too quick has to type: what the most severe thing that is asked about is done to,
    or the program that does it.

    Example:
        >>> from humanlayer_agent.policy.decision import Ask, Verdict
        >>> ask = Ask("delete-outside-project", "rm", "delete", operand="/srv/old", severity="high")
        >>> to_type(PolicyDecision(Verdict.ASK, "", "p", "0" * 64, severity="high", asks=(ask,)))
        '/srv/old'
    """
    asks = [ask for ask in decision.asks if ask.severity in SEVERE] or list(decision.asks)
    operands = (ask.operand or "" for ask in asks if ask.kind != "command")
    programs = (ask.program for ask in asks)
    words = (" ".join(word.split()) for word in (*operands, *programs))
    return next((word for word in words if word and word.isprintable()), "yes, I have read it")


def is_typed(wanted: str, words: str) -> bool:
    """Tell whether `words` hold what had to be typed, whatever blanks are around it.

    Example:
        >>> is_typed("/srv/old", "fine: /srv/old"), is_typed("/srv/old", "ok")
        (True, False)
    """
    return " ".join(wanted.split()) in " ".join(words.split())


def is_hasty(took_ms: Iterable[int], slow_down_ms: int) -> bool:
    """Tell whether the newest answers to what was severe were all too quick.

    Args:
        took_ms: from when each was asked to when it was approved, newest first.
        slow_down_ms: what is too quick; 0 where nothing is.
    """
    newest = list(took_ms)[:IN_A_ROW]
    return len(newest) == IN_A_ROW and all(took < slow_down_ms for took in newest)
