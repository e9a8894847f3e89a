"""Requests that wait at once, as one list: those that are asked about for the same reason stand together, and each says
what is different about it.

Each is answered by a vote of its own, and only what a list shows whole can be answered there.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from humanlayer_agent.action import INERT
from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.policy.decision import COMMAND
from humanlayer_agent.safe_text import one_line, visible

SEVERAL = 50
"""So many requests are in one list at most."""
LONGEST = 2_000
"""Characters of a command, with its standard input, that a list shows."""
_OPERANDS = 5
_LABEL = 120
_NOTHING = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class Alike:
    """Requests that the same rule asks about, with the same severity, of the same project.

    Args:
        rule: its id; "" where no rule allows them. severity: theirs. project: theirs.
        requests: oldest first.
    """

    rule: str
    severity: str
    project: str
    requests: tuple[ApprovalRequest, ...]


def alike(
    requests: Iterable[ApprovalRequest], *, longest: int = LONGEST
) -> tuple[tuple[Alike, ...], tuple[tuple[ApprovalRequest, str], ...]]:
    """Return the requests that can be answered in one list, by what they have in common, and those that must be
    answered alone, each with why.

    Args:
        longest: characters of a command that the list shows whole.
    """
    found: dict[tuple[str, str, str], list[ApprovalRequest]] = {}
    alone, count = [], 0
    for request in requests:
        why = why_alone(request, longest=longest) or ("the list is full" if count >= SEVERAL else "")
        if why:
            alone.append((request, why))
            continue
        decision, count = request.decision, count + 1
        common = (one_line(decision.rule), one_line(decision.severity), one_line(request.action.project))
        found.setdefault(common, []).append(request)
    return tuple(Alike(*common, tuple(each)) for common, each in found.items()), tuple(alone)


def alike_to(request: ApprovalRequest, others: Iterable[ApprovalRequest]) -> tuple[ApprovalRequest, ...]:
    """Return a request and those of the others that can be answered together with it; () where there are none."""
    for group in alike([request, *others])[0]:
        if group.requests[0] is request and len(group.requests) > 1:
            return group.requests
    return ()


def why_alone(request: ApprovalRequest, *, longest: int = LONGEST) -> str:
    """Return why a request must be looked at by itself; "" where it may stand in a list with others."""
    if request.action.type in INERT:
        return "it is no command"
    if request.decision.held is not None:
        return "it was run held, and what it changed is to be looked at"
    if request.decision.severity not in ("low", "medium"):
        return f"it is of {one_line(request.decision.severity)} severity"
    if request.body.get("stdin", _NOTHING) != _NOTHING:
        return "it gets an input, which a list does not show"
    if len(visible(request.action.content)) > longest:
        return "it is too long for a list"
    if request.decision.parse != "ok":
        return "not all of it could be read"
    if request.parent:
        return "a human has changed it"
    return ""


def differences(requests: Sequence[ApprovalRequest]) -> list[tuple[int, int]]:
    """Return where each command, from and to, is not as all the others are: between what all begin and all end with."""
    commands = [request.action.content for request in requests]
    shortest = min(map(len, commands), default=0)
    first = next((n for n in range(shortest) if len({each[n] for each in commands}) > 1), shortest)
    room = shortest - first
    last = next((n for n in range(room) if len({each[len(each) - 1 - n] for each in commands}) > 1), room)
    return [(first, len(command) - last) for command in commands]


def labels(requests: Sequence[ApprovalRequest]) -> list[str]:
    """Return what is different about each of some requests, in a line.

    That is what of it must be approved, or else the words of its command that the others do not have.
    """
    named = [_operands(request) for request in requests]
    if all(named) and len(set(named)) == len(named):
        return named
    return [
        _words(request.action.content, *span) for request, span in zip(requests, differences(requests), strict=True)
    ]


def _words(command: str, first: int, last: int) -> str:
    """The part of a command from and to, with all of the words that it touches."""
    begin = len(command[:first]) - len(command[:first].split(" ")[-1])
    end = last + len(command[last:].split(" ")[0])
    return _cut(one_line(" ".join(command[begin:end].split()))) or "the same command"


def _operands(request: ApprovalRequest) -> str:
    asks = [ask for ask in request.decision.asks if ask.operand and ask.kind != COMMAND]
    named = [*dict.fromkeys(one_line(ask.operand or "") for ask in asks)]
    more = f" and {len(named) - _OPERANDS} more" if len(named) > _OPERANDS else ""
    return _cut(", ".join(named[:_OPERANDS]) + more)


def _cut(text: str) -> str:
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 4]} ..."
