"""A request without the secrets in it, for channels that others can read: chat and mail keep what they are sent.

Whoever decides there sees every command and every word but the secrets, and is told that there are some. What is
approved stays the whole action: its digest does not change.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from humanlayer_agent.approvals.model import ApprovalRequest
from humanlayer_agent.confine.confinement import Confinement
from humanlayer_agent.policy.decision import Ask, HeldRun, PartVerdict, PolicyDecision
from humanlayer_agent.redaction.redactor import Redacted, Redactor
from humanlayer_agent.shell import Effect


def conceal(request: ApprovalRequest) -> tuple[ApprovalRequest, tuple[str, ...]]:
    """`request` as it may be sent, and the positions that something was erased from.

    Example::

        conceal(request)[0].action.content  # 'mysql -uroot -p⟦erased⟧ db'
    """
    redactor = Redactor()
    erased: list[str] = []
    command = redactor.command(request.action.content)  # first: its secrets are looked for in everything else
    erased += command.erased

    def text(value: str) -> str:
        made = redactor.text(value)
        erased.extend(made.erased)
        return made.text

    stdin = text(request.action.stdin.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    action = replace(request.action, content=command.text, stdin=stdin, model_intent=text(request.action.model_intent))
    decision = _decision(request.decision, command, text)
    shown = replace(
        request,
        action=action,
        decision=decision,
        comment=text(request.comment),
        edited=redactor.command(request.edited).text,
    )
    return shown, tuple(dict.fromkeys(erased))


def _decision(decision: PolicyDecision, command: Redacted, text: Callable[[str], str]) -> PolicyDecision:
    moved = _Moved(command)
    return replace(
        decision,
        reason=text(decision.reason),
        suggestion=text(decision.suggestion),
        parse_reasons=tuple(text(each) for each in decision.parse_reasons),
        unresolved=tuple(text(each) for each in decision.unresolved),
        spans=tuple(moved(span) for span in decision.spans),
        parts=tuple(_part(part, moved, text) for part in decision.parts),
        effects=tuple(_effect(effect, text) for effect in decision.effects),
        confinement=_confinement(decision.confinement, text),
        radius=tuple(text(each) for each in decision.radius),
        held=_held(decision.held, text),
        findings=tuple(replace(each, text=text(each.text)) for each in decision.findings),
        asks=tuple(_ask(ask, text) for ask in decision.asks),
    )


def _confinement(confinement: Confinement | None, text: Callable[[str], str]) -> Confinement | None:
    """The same, but for what it is called: that says the paths which are opened."""
    if confinement is None:
        return None
    return Confinement(tuple(replace(profile, name=text(profile.name)) for profile in confinement.profiles))


def _held(held: HeldRun | None, text: Callable[[str], str]) -> HeldRun | None:
    if held is None:
        return None
    return replace(
        held,
        files=tuple(text(each) for each in held.files),
        diff=text(held.diff),
        output=text(held.output),
        partial=tuple(text(each) for each in held.partial),
    )


def _part(part: PartVerdict, moved: "_Moved", text: Callable[[str], str]) -> PartVerdict:
    return replace(
        part,
        command=text(Redactor().command(part.command).text),
        reason=text(part.reason),
        span=moved(part.span),
        effects=tuple(_effect(effect, text) for effect in part.effects),
    )


def _effect(effect: Effect, text: Callable[[str], str]) -> Effect:
    changed: dict[str, Any] = {
        name: text(value) for name in ("operand", "pattern", "value") if (value := getattr(effect, name))
    }
    return replace(effect, **changed)


def _ask(ask: Ask, text: Callable[[str], str]) -> Ask:
    """The same for the words of what may be granted. It is not what is granted: that is the request's own."""
    return replace(
        ask,
        operand=None if ask.operand is None else text(ask.operand),
        value=text(ask.value),
        places=tuple(text(place) for place in ask.places),
        verb=tuple(text(each) for each in ask.verb),
    )


class _Moved:
    """The places of the command's parts once marks have taken the places of secrets."""

    def __init__(self, command: Redacted) -> None:
        self._replaced = [
            (start, end, len(mark)) for (start, end), mark in zip(command.spans, command.marks, strict=True)
        ]

    def __call__(self, span: tuple[int, int]) -> tuple[int, int]:
        return self._place(span[0], end=False), self._place(span[1], end=True)

    def _place(self, offset: int, *, end: bool) -> int:
        shift = 0
        for first, last, length in self._replaced:
            if offset >= last:
                shift += length - (last - first)
            elif offset > first:  # inside a secret: all of its mark belongs to it
                return first + shift + (length if end else 0)
        return offset + shift
