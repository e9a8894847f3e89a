"""The texts of messages.yaml, filled in."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from humanlayer_agent.approvals.model import Denial, Permit

_LIMIT = 2_000
"""Characters of a reason or a comment that the model gets."""


def denial_text(denial: Denial, what: str = "command") -> str:
    """Return the text that the model reads instead of the output: that it was not run, why, the human's words, the
    suggestion.

    The human's words come as one JSON string: they are data in a text that is otherwise ours.

    Args:
        denial: of what the model proposed.
        what: the word for that: a command, or the "call" of a tool.

    Example:
        >>> denial_text(Denial("The rule payments forbids it.", by="policy"), "call").splitlines()[0]
        'Not executed: the policy forbids this call. The rule payments forbids it.'
    """
    texts = _texts()
    if denial.halted:
        return str(texts["denied"]["halted"]).format(what=what)
    if denial.question:
        answered = denial.answer if denial.answer in texts["question"] else denial.by
        lines = [texts["question"][answered].format(reason=denial.reason[:_LIMIT])]
        lines += [_comment(denial.comment)] if denial.comment else []
        return "\n".join([*lines, *([] if denial.answer in ("respond", "terminate") else [texts["question"]["next"]])])
    why = denial.decision.reason if denial.decision else ""
    answered = denial.answer if denial.answer in texts["denied"] else denial.by
    kind = "edit" if denial.edited else answered
    why = why[:_LIMIT] or "nothing allows it"
    lines = [texts["denied"][kind].format(reason=denial.reason[:_LIMIT], why=why, what=what)]
    if denial.edited:
        lines.append(texts["changed_to"].format(command=json.dumps(denial.edited, ensure_ascii=False)))
    if denial.comment:
        lines.append(_comment(denial.comment))
    if denial.decision is not None and denial.decision.suggestion:
        lines.append(texts["suggestion"].format(suggestion=denial.decision.suggestion))
    lines.append(texts["no_retry"].format(what=what))
    return "\n".join(lines)


def edited_text(permit: Permit) -> str:
    """Return the text that the model reads beside the output where a human changed its command: that, what ran, the
    human's words.

    The command that ran and the words come as one JSON string each: they are data in a text that is otherwise ours.
    """
    lines = [_texts()["edited"].format(command=json.dumps(permit.action.content, ensure_ascii=False))]
    if permit.comment:
        lines.append(_comment(permit.comment))
    return "\n".join(lines)


def _comment(words: str) -> str:
    comment: str = _texts()["comment"].format(comment=json.dumps(words[:_LIMIT], ensure_ascii=False))
    return comment


def text(name: str, **values: object) -> str:
    """The text called `name` ("skipped", "exit.SupervisionDenials", ...) with `values` in its places."""
    found: Any = _texts()
    for part in name.split("."):
        found = found[part]
    return str(found).format(**values).strip()


@cache
def _texts() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "messages.yaml").read_text(encoding="utf-8"))
    return loaded
