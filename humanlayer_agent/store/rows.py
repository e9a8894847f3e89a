"""Actions and decisions as the store and the audit log hold them."""

import dataclasses
import hashlib
import json
from typing import Any

from humanlayer_agent.action import QUESTION, Action, FileDigest
from humanlayer_agent.approvals.authority import ApprovalRule, OnCall, StandIn, Step
from humanlayer_agent.approvals.model import AnswerKind, Approver, Vote
from humanlayer_agent.canonical_json import canonical
from humanlayer_agent.confine.confinement import REDUCED, Confinement, Profile
from humanlayer_agent.errors import ConfigError
from humanlayer_agent.policy.decision import (
    Ask,
    Count,
    EffectVerdict,
    Excused,
    Finding,
    HeldRun,
    Limits,
    PartVerdict,
    PolicyDecision,
    Verdict,
)
from humanlayer_agent.shell import HOST, Effect, View
from humanlayer_agent.store.transactions import Row

_KEPT = tuple(
    str.split(
        "content type cwd project interpreter agent run_id step call_id model_intent subagent tool arguments layer"
    )
)
"""What is stored of an action. Not `env` and `stdin`: they may hold secrets, and digests of them suffice."""


_APPROVER = ("principal", "channel", "assurance")
_GROUPS = 100  # of somebody who is refused: what is recorded of them is bounded


def dump_action(action: Action) -> str:
    """JSON of `action`, without its environment and its standard input."""
    return json.dumps({name: getattr(action, name) for name in _KEPT})


def load_action(text: str) -> Action:
    """The action that `dump_action` wrote."""
    action: Action = _build(Action, json.loads(text))
    return action


def dump_decision(decision: PolicyDecision) -> str:
    """JSON of `decision`, complete."""
    return json.dumps(decision, default=_fields)


def load_demands(text: str) -> tuple[object, str]:
    """What the decision that `dump_decision` wrote demands of who answers: its route, and its severity."""
    fields = json.loads(text)
    return fields["route"], fields["severity"]


def load_decision(text: str) -> PolicyDecision:
    """The decision that `dump_decision` wrote."""
    fields = json.loads(text)
    for part in fields["parts"]:
        part["verdict"] = Verdict(part["verdict"])
        part["effects"] = [_build(Effect, effect) for effect in part["effects"]]
        judged = [each | {"verdict": Verdict(each["verdict"])} for each in part.get("judged", ())]
        part["judged"] = [_build(EffectVerdict, each) for each in judged]
    decision: PolicyDecision = _build(
        PolicyDecision,
        fields
        | {
            "verdict": Verdict(fields["verdict"]),
            "parts": [_build(PartVerdict, part) for part in fields["parts"]],
            "effects": [_build(Effect, effect) for effect in fields["effects"]],
            "files": [_build(FileDigest, file) for file in fields["files"]],
            "findings": [
                _build(Finding, each | {"verdict": Verdict(each["verdict"])}) for each in fields.get("findings", ())
            ],
            "excused": [_build(Excused, each) for each in fields.get("excused", ())],
            "counts": [
                Count(each["counter"], each["amount"], tuple((per, most) for per, most in each["within"]))
                for each in fields.get("counts", ())
            ],
            "asks": [_ask(ask) for ask in fields.get("asks", ())],
            "confinement": _confinement(fields.get("confinement")),
            "holds": _confinement(fields.get("holds")),
            "held": _build(HeldRun, fields["held"]) if fields.get("held") else None,
            "view": _build(View, fields["view"]) if fields.get("view") else HOST,
        },
    )
    return decision


def _ask(fields: dict[str, Any]) -> Ask:
    ask: Ask = _build(Ask, fields | {"limits": _build(Limits, fields["limits"])})
    return ask


def _confinement(fields: dict[str, Any] | None) -> Confinement | None:
    return Confinement(tuple(_build(Profile, each) for each in fields["profiles"])) if fields else None


def dump_rule(rule: ApprovalRule | None) -> str:
    """JSON of `rule`, always the same for the same rule; "" where there is none."""
    return "" if rule is None else json.dumps(rule, default=_fields, sort_keys=True)


def load_rule(text: str) -> ApprovalRule | None:
    """The rule that `dump_rule` wrote; None for what is none. It is for display: nothing is judged by it."""
    try:
        fields = json.loads(text)
        steps = tuple(_step(step) for step in fields.pop("steps"))
        stand_ins = tuple(_stand_in(each) for each in fields.get("stand_ins", ()))
        rule: ApprovalRule = _build(ApprovalRule, fields | {"steps": steps, "stand_ins": stand_ins})
    except (ValueError, TypeError, KeyError, AttributeError, ConfigError):
        return None
    return rule


def _stand_in(fields: dict[str, Any]) -> StandIn:
    absent, person, until = fields["absent"], fields["person"], fields["until"]
    if type(absent) is not str or type(person) is not str or type(until) is not int:
        raise ValueError("nobody stands in by this")
    return StandIn(absent, person, until)


def _step(fields: dict[str, Any]) -> Step:
    source = fields.get("on_call")
    step: Step = _build(Step, fields | {"on_call": _build(OnCall, source) if source else None})
    return step


def dump_groups(groups: tuple[str, ...]) -> str:
    """JSON of group identities."""
    return json.dumps(list(groups))


def load_groups(text: str) -> tuple[str, ...]:
    """Return the groups that `dump_groups` wrote; () for what is none: then being in a group counts for nothing."""
    try:
        groups = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return ()
    return tuple(groups) if isinstance(groups, list) and all(type(each) is str for each in groups) else ()


def context_digest(action: str, decision: str) -> str:
    """Return the digest that the log keeps of a request's stored action and decision, so that an edit of them shows."""
    return hashlib.sha256(canonical([action, decision])).hexdigest()


def action_fields(action: Action, digest: str) -> dict[str, Any]:
    """Return the fields that every event about an action has."""
    return {
        "run": action.run_id,
        "agent": action.agent,
        "step": action.step,
        "call_id": action.call_id or None,
        "question": action.question or None,
        "digest": digest,
        **({"asked_as": action.type} if action.type == QUESTION else {}),
        **({"subagent": action.subagent} if action.subagent else {}),
        **({"tool": action.tool} if action.tool else {}),
        **({"layer": action.layer} if action.layer else {}),
        "command": action.content,
        "cwd": action.cwd,
        "project": action.project,
        "interpreter": action.interpreter,
        "env": action.env_digest(),
    }


def decision_fields(decision: PolicyDecision) -> dict[str, Any]:
    """Return the fields that an event has of a decision. `basis` tells "a rule says so" from "no rule matched: the
    default". `confinable` says that it was judged as where there is something to confine it.
    """
    return {
        "verdict": str(decision.verdict),
        "basis": "default" if decision.default_hit else "rule",
        "default_hit": decision.default_hit,
        "rule": decision.rule or None,
        "rules": decision.rules,
        "reason": decision.reason,
        "severity": decision.severity,
        "policy": decision.policy,
        "policy_digest": decision.policy_digest,
        "parse": decision.parse,
        "parse_reasons": decision.parse_reasons,
        "unresolved": decision.unresolved,
        "enforced": decision.enforced,
        "us": decision.microseconds,
        **({"confinable": True} if decision.confinable else {}),
        **({"excused": [dataclasses.asdict(each) for each in decision.excused]} if decision.excused else {}),
        **enforcement_fields(decision),
    }


def enforcement_fields(decision: PolicyDecision, layer: str = "") -> dict[str, Any]:
    """Return the fields that an event has of what the kernel holds an allowed action to. Where a layer of a held run is
    applied in its place, that is all.

    `confined` is what it may run in alone, which folder it is to see as /tmp, and what of the network; `reduced`, what
    it is held to by a backend that no verdict counts on.
    """
    if layer:
        return {"layer": layer}
    if (to := decision.confinement) is not None:
        network = {"network": to.network, "hosts": to.hosts} if to.network != "none" else {}
        return {"confined": {"to": to.name, "digest": to.digest, "tmp": decision.view.temporary, **network}}
    if (to := decision.reduced) is not None:
        return {"reduced": {"backend": REDUCED, "to": to.name, "digest": to.digest}}
    return {}


def storable(text: str) -> str:
    """`text` as every database can hold it: what is not Unicode is escaped, as with backslashes, and so is NUL."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def sayable(value: Any) -> Any:
    """`value` where it is a text; else its type in brackets: an answer that is refused may hold anything."""
    return value if type(value) is str else f"<{type(value).__name__}>"


def said_approver(approver: Any) -> dict[str, Any]:
    """Return the fields that an event has of who answered, or tried to, whatever stands in it."""
    said: dict[str, Any] = {name: sayable(getattr(approver, name, None)) for name in _APPROVER}
    if groups := getattr(approver, "groups", ()):
        said["groups"] = [sayable(each) for each in groups[:_GROUPS]] if type(groups) is tuple else sayable(groups)
    return said


def read_vote(row: Row) -> Vote:
    """The vote in a row of the table."""
    answer: AnswerKind = row["answer"]
    return Vote(
        request_id=row["request_id"],
        answer=answer,
        approver=Approver(row["principal"], row["channel"], row["assurance"], load_groups(row["member_of"])),
        presented_digest=row["presented_digest"],
        decision_id=row["decision_id"],
        comment=row["comment"],
        input_mode=row["input_mode"],
        at=row["at"],
        edited=row["edited"],
        person=row["person"],
        solo=bool(row["solo"]),
        signer=row["signer"],
        signature=row["signature"],
        scope=row["scope"],
    )


def _fields(value: Any) -> dict[str, Any]:
    """The fields of a dataclass, as `dataclasses.asdict` has them, without copying all that is in them first."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _build(kind: type[Any], fields: dict[str, Any]) -> Any:
    """A `kind` from JSON: lists become tuples; fields that `kind` no longer has are left out."""
    known = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: _tuples(value) for name, value in fields.items() if name in known})


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value
