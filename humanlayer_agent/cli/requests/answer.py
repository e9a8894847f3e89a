"""The commands `hla requests approve|reject|edit|respond`: a human answers a request that another process waits for.

An agent's commands run as the same user, so neither that nor a terminal (`script` makes one) says that this is a human.
What does: nothing that supervises commands is above this process, there is a controlling terminal, and the answer is
signed with the user's key, which a passphrase locks that only the human knows. It is typed here and nowhere else: no
file may stand in for a human who answers.
"""

import hashlib
import os
import sys
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from humanlayer_agent.action import PLAN
from humanlayer_agent.approvals.authority import GLASS
from humanlayer_agent.approvals.model import Answer, ApprovalRequest, Approver, VoteResult
from humanlayer_agent.audit import events
from humanlayer_agent.cli.shared.human_signature import typed_word
from humanlayer_agent.cli.shared.human_terminal import supervisors
from humanlayer_agent.errors import ConfigError, HumanlayerError, NoTerminal, StoreError
from humanlayer_agent.locations import key_path
from humanlayer_agent.processes.ancestry import below_supervision
from humanlayer_agent.processes.identity import os_user
from humanlayer_agent.processes.memory_protection import protect_secrets
from humanlayer_agent.processes.tty import controlling_terminal
from humanlayer_agent.safe_text import one_line, visible

if TYPE_CHECKING:
    from humanlayer_agent.approvals.authority import Authority
    from humanlayer_agent.keys.signing import Signer
    from humanlayer_agent.store.sqlite import SQLStore

RECORDED, NOT_RECORDED, NO_HUMAN = 0, 1, 3
"""Exit codes: the answer counts; it does not; nobody who could give one is here."""

WALLS: Mapping[str, str] = MappingProxyType(
    {
        "supervised-command": "this is a supervised command: only a human at a terminal of their own answers requests",
        "no-terminal": "only a human at a terminal answers requests",
        "wrong-passphrase": "the passphrase does not unlock the signing key",
    }
)
"""Why nobody here may answer, whatever the request. Programs rely on the codes, beside those of `votes.REFUSALS`."""

Kind = Literal["approve", "reject", "edit", "respond"]

_CHANNEL = "command-line"
_ID_SHOWN = 64
_COMMENT_LIMIT = 2000
_NO_INPUT = hashlib.sha256(b"").hexdigest()
_DONE: Mapping[Kind, str] = MappingProxyType(
    {"approve": "approved", "reject": "rejected", "edit": "changed", "respond": "answered"}
)


@dataclass(frozen=True, slots=True)
class Wish:
    """The answer that was asked for on the command line.

    `edited` is the command of an edit; None opens the editor. With `yes` nothing is shown and no word is typed (but the
    passphrase is): the answer then vouches for no more than the OS user. `scope` is what more than once is approved
    for; `also` are the ids of other requests that get the same answer, and with `like` all that are alike do. With
    `glass`, a reason, it is approved outside of its route, as one of two.
    """

    kind: Kind
    request_id: str
    comment: str = ""
    edited: str | None = None
    yes: bool = False
    scope: str = ""
    also: tuple[str, ...] = ()
    like: bool = False
    glass: str = ""

    @property
    def several(self) -> bool:
        return bool(self.also) or self.like


@dataclass(frozen=True, slots=True)
class _Typed:
    """The result of the terminal: the edited command, and how far the identity is trusted."""

    edited: str
    assurance: str


def answer_request(wish: Wish, store: str | None, channels: Path | None = None) -> int:
    """Give a human's answer; returns the exit code.

    Raises:
        ConfigError: no such request, no store, no key, or one that may not sign.
    """
    _check(wish)
    if below_supervision(supervisors(store)):
        return _walled("supervised-command", WALLS["supervised-command"], wish, store)
    protect_secrets()
    try:
        with controlling_terminal() as fd, closing(_open(store)) as opened:
            try:
                return (_answered_together if wish.several else _answered)(fd, wish, opened, channels)
            except StoreError as error:
                raise ConfigError(f"the answer can't be recorded: {error}") from error
    except NoTerminal as error:
        return _walled("no-terminal", f"{WALLS['no-terminal']}: {error}", wish, store)


SCOPES: Mapping[str, str] = MappingProxyType(
    {"action": "action", "run": "run", "any": "any", "hour": "hour", "1h": "hour"}
)
"""What may stand after --for, and how the core calls it (`grants.Offer.name`)."""


def _check(wish: Wish) -> None:
    """Raise ConfigError where what was asked for can't be."""
    if wish.scope and wish.scope not in SCOPES:
        raise ConfigError(
            f"--for {one_line(wish.scope)}: expected action, run, any or 1h (hla requests approve --help)"
        )
    if wish.scope and wish.several:
        raise ConfigError("--for is about one request: answer each of them by itself")
    if wish.glass and (wish.scope or wish.several or wish.yes or wish.comment):
        raise ConfigError("--break-glass is about one request, shown whole, once, with its own reason")
    if wish.yes and (wish.scope or wish.several):
        raise ConfigError("what is approved for more than one command must be shown: leave --yes away")


def find_request(opened: "SQLStore", request_id: str) -> ApprovalRequest:
    """The one request whose id is `request_id`, or begins with it.

    Raises:
        ConfigError: there is none, or more than one.
    """
    found = opened.ids(request_id) if request_id else []
    if len(found) == 1 and (request := opened.get(found[0])) is not None:
        return request
    said = one_line(request_id) or "nothing"
    raise ConfigError(f"{len(found) or 'no'} requests begin with {said}: see hla requests ls --all")


def _open(location: str | None) -> "SQLStore":
    """The store, to write in it. One that is not there has no requests, and is not made.

    Raises:
        ConfigError: there is no store, or none that can be opened.
    """
    from humanlayer_agent.store import access

    try:
        if not access.is_there(location):
            raise ConfigError(f"there is no store at {one_line(access.name_of(location))}")
        return access.open_store(location)
    except StoreError as error:
        raise ConfigError(str(error)) from error


def _answered(fd: int, wish: Wish, opened: "SQLStore", channels: Path | None) -> int:
    request = find_request(opened, wish.request_id)
    authority, signer = _credentials(request, channels, opened)
    if request.state != "pending" or request.expires <= _now():
        result = _decide(opened, request, wish, _Typed(wish.edited or "", "os"), authority, signer)
        return _told(result, wish, request, opened)  # late: the store says so, and logs it
    if wish.kind != "reject" and (unseen := _unseen(request)):
        raise ConfigError(unseen)
    remembered = _remembered(wish, request)
    typed = _typed(fd, wish, request, opened, remembered)
    if typed is None or not _unlocked(fd, signer, wish, request, opened):
        print("nothing was answered")
        return NOT_RECORDED
    return _told(_decide(opened, request, wish, typed, authority, signer), wish, request, opened)


def _answered_together(fd: int, wish: Wish, opened: "SQLStore", channels: Path | None) -> int:
    """Answer several requests, each with a vote of its own, once all of them were shown whole."""
    from humanlayer_agent.channels.batches import alike, alike_to, differences
    from humanlayer_agent.channels.plain_text import batch_rows, in_lines
    from humanlayer_agent.channels.presentation import present

    first = find_request(opened, wish.request_id)
    named = [first, *(find_request(opened, each) for each in wish.also)]
    pending = [each for each in opened.requests(state="pending") if each.expires > _now()]
    requests = {each.id: each for each in named}
    if wish.like:
        requests |= {each.id: each for each in alike_to(first, [each for each in pending if each.id != first.id])}
    if gone := sorted(requests.keys() - {each.id for each in pending}):
        raise ConfigError(f"{gone[0][:12]} does not wait for an answer any more: see hla requests ls")
    groups, alone = alike(requests.values())
    if alone:
        request, why = alone[0]
        raise ConfigError(f"{request.id[:12]} must be answered by itself: {why}")
    if len({group.project for group in groups}) > 1:
        raise ConfigError("these are requests of several projects: answer those of one project at a time")
    authority, signer = _credentials(first, channels, opened)
    shown = []
    for group in groups:
        spans = differences(group.requests)
        views = [present(each, marked=span) for each, span in zip(group.requests, spans, strict=True)]
        shown.append(in_lines(batch_rows(views, _columns(fd))))
    text = "\n\n".join(shown)
    count = len(requests)
    purpose = "let it run once" if count == 1 else f"let each of these {count} run once"
    if not typed_word(fd, text, wish.kind, purpose) or not _unlocked(fd, signer, wish, first, opened):
        print("nothing was answered")
        return NOT_RECORDED
    typed = _Typed("", "terminal")
    ends = [
        _told(_decide(opened, request, wish, typed, authority, signer), wish, request, opened)
        for group in groups
        for request in group.requests
    ]
    return max(ends)


def _credentials(request: ApprovalRequest, channels: Path | None, opened: "SQLStore") -> "tuple[Authority, Signer]":
    """Return who may decide, and the key that vouches for it."""
    from humanlayer_agent.configuration import build_authority, build_signer

    if not os.path.lexists(key_path()):
        raise ConfigError(f"there is no signing key ({key_path()}), so no answer from here would count: run hla init")
    authority = build_authority(channels, project=request.action.project or None)
    signer = build_signer(authority)
    if authority is None or signer is None:
        raise ConfigError("no channels.yaml of yours names your key under `signers:`, so it can't count: run hla init")
    _ = signer.fingerprint  # a key that can't be used is an error before anything is asked
    return authority.heeding(opened.absences.standing).without(opened.people.left), signer


def _unlocked(fd: int, signer: "Signer", wish: Wish, request: ApprovalRequest, opened: "SQLStore") -> bool:
    """Have the human unlock the key. Each wrong passphrase is in the log: it may be somebody who guesses."""
    from humanlayer_agent.keys.unlock import ask

    sys.stdout.flush()
    return ask(fd, signer, wrong=lambda: _log_refusal(opened, "wrong-passphrase", wish, request))


def _unseen(request: ApprovalRequest) -> str:
    """Return why the request can't be shown whole here; "" if it can. The store keeps no more of an input than its
    digest.
    """
    if request.body.get("stdin") == _NO_INPUT:
        return ""
    return "the command gets an input that is not kept in the store: only the agent's own prompt can show it whole"


def _remembered(wish: Wish, request: ApprovalRequest) -> str:
    """Return what is to be remembered, in words; "" where it is approved once.

    Raises:
        ConfigError: it can't be remembered, or not so.
    """
    if not wish.scope:
        return ""
    from humanlayer_agent.channels.offers import no_offer, offer_views

    views = {view.name: view for view in offer_views(request)}
    if (chosen := views.get(SCOPES[wish.scope])) is not None:
        return chosen.remembered
    if not views:
        raise ConfigError(f"{request.id[:12]} can be approved once only: {no_offer(request)}")
    known = "; ".join(f"{'1h' if name == 'hour' else name}: {view.words}" for name, view in views.items())
    raise ConfigError(f"{request.id[:12]} can't be approved for {wish.scope}, but for these ({known})")


def _foreseen(request: ApprovalRequest, opened: "SQLStore", columns: int) -> str:
    """What each scope of a request covers, and what it would have let through before."""
    from humanlayer_agent.channels.offers import EARLIER, foresight, offer_views
    from humanlayer_agent.channels.plain_text import offer_rows

    views, earlier = offer_views(request), opened.requests(state="settled", last=EARLIER)
    seen = [foresight(request, view.name, earlier) for view in views]
    return "\n".join(row.text.rstrip() for row in offer_rows(views, seen, columns))


def _typed(fd: int, wish: Wish, request: ApprovalRequest, opened: "SQLStore", remembered: str) -> _Typed | None:
    """Show the whole request, and take one word for it; None where anything else was typed."""
    from humanlayer_agent.channels.plain_text import as_text
    from humanlayer_agent.channels.presentation import present

    edited = wish.edited or ""
    if wish.kind == "edit" and wish.edited is None:
        edited = _in_editor(fd, request)
    if wish.yes:
        return _Typed(edited, "os")
    parts = [f"request {request.id}", as_text(present(request), _columns(fd))]
    if wish.kind == "edit":
        parts.append("Changed to (it is judged again before it runs):\n" + _indented(edited))
    if wish.comment:
        parts.append("With the words:\n" + _indented(wish.comment))
    purpose = _means(wish.kind, request)
    if wish.glass:
        parts.append(f"Outside of its route, as one of two, with the reason:\n{_indented(wish.glass)}")
        return _Typed("", "terminal") if typed_word(fd, "\n\n".join(parts), GLASS, purpose) else None
    if remembered:
        parts.append(_foreseen(request, opened, _columns(fd)))
        purpose = f"let it run, and remember: {remembered}"
    return _Typed(edited, "terminal") if typed_word(fd, "\n\n".join(parts), wish.kind, purpose) else None


def _means(kind: Kind, request: ApprovalRequest) -> str:
    return {
        "approve": "approve all that it lists" if request.action.type == PLAN else "let it run once",
        "reject": "reject it",
        "edit": "put that in its place",
        "respond": "answer the agent in these words; nothing runs",
    }[kind]


def _in_editor(fd: int, request: ApprovalRequest) -> str:
    from humanlayer_agent.channels.terminal import external_editor

    try:
        return external_editor.edit(
            request.action.content, fd, lambda: _now() >= request.expires, project=request.action.project
        )
    except external_editor.NotEdited as why:
        raise ConfigError(f"nothing was changed: {why} (or say it with --command)") from why


def _decide(
    opened: "SQLStore",
    request: ApprovalRequest,
    wish: Wish,
    typed: _Typed,
    authority: "Authority",
    signer: "Signer",
) -> VoteResult:
    answer = Answer(
        kind=wish.kind,
        approver=Approver(os_user(), GLASS if wish.glass else _CHANNEL, typed.assurance),
        presented_digest=request.digest,
        decision_id=uuid.uuid4().hex,
        comment=_words(wish),
        input_mode="typed",
        edited=typed.edited,
        scope=SCOPES.get(wish.scope, ""),
    )
    return opened.decide(request.id, answer, authority, signer)


def _words(wish: Wish) -> str:
    said = f"{GLASS}: {wish.glass.strip()}" if wish.glass else wish.comment.strip()
    return one_line(said)[:_COMMENT_LIMIT]


def _told(result: VoteResult, wish: Wish, request: ApprovalRequest, opened: "SQLStore") -> int:
    """Say what became of the answer."""
    short = request.id[:12]
    if result.outcome in ("recorded", "duplicate"):
        more = f"; {result.missing} more must approve it" if result.missing else ""
        given = opened.grants.get(request.id) if wish.kind == "approve" and result.state == "approved" else None
        if given is not None:
            more = f"; and remembered: {one_line(given.remembered)}"
        print(f"{_DONE[wish.kind]}: {short}{more}")
        return RECORDED
    hint = ""
    if result.code == "low-assurance" and wish.yes:
        hint = " (without --yes you are shown it, and type a word: that counts as an answer at a terminal)"
    how = "too late" if result.outcome == "late" else "not counted"
    print(f"humanlayer-agent: {how}: {one_line(result.reason)}{hint} ({short})", file=sys.stderr)
    return NOT_RECORDED


def _walled(code: str, why: str, wish: Wish, store: str | None) -> int:
    """Refuse, and put it in the log. That it can't be logged is no way around the refusal."""
    print(f"humanlayer-agent: not answered: {why}", file=sys.stderr)
    try:
        with closing(_open(store)) as opened:
            known = opened.ids(wish.request_id) if wish.request_id else []
            _log_refusal(opened, code, wish, opened.get(known[0]) if len(known) == 1 else None)
    except HumanlayerError as error:
        print(f"humanlayer-agent: and it could not be logged: {error}", file=sys.stderr)
    return NO_HUMAN


def _log_refusal(opened: "SQLStore", code: str, wish: Wish, request: ApprovalRequest | None) -> None:
    opened.record(
        events.VOTE_REFUSED,
        request=request.id if request else one_line(wish.request_id)[:_ID_SHOWN],
        run=request.action.run_id if request else None,
        digest=request.digest if request else None,
        answer=wish.kind,
        approver={"principal": os_user(), "channel": _CHANNEL, "assurance": "os"},
        comment=one_line(wish.comment)[:_COMMENT_LIMIT],
        edited=visible(wish.edited)[:_COMMENT_LIMIT] if wish.edited else None,
        refusal=code,
        why=WALLS[code],
    )


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in visible(text).split("\n"))


def _columns(fd: int) -> int:
    try:
        return min((os.get_terminal_size(fd).columns or 80) - 1, 100)
    except OSError:
        return 80


def _now() -> int:
    from humanlayer_agent.approvals.store_interface import now_ms

    return now_ms()
