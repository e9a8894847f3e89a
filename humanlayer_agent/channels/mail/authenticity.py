"""The check that a mail is an approver's own reply to a request. Everything else has a code of why not.

A mail proves nothing by its From line. What counts is what our own mail server found out about it (the topmost
Authentication-Results header, and only where it bears that server's name), a token that only this recipient was sent,
and that a person wrote it: programs answer mail too.
"""

import email
import email.parser
import email.policy
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from email.message import EmailMessage, Message

from humanlayer_agent.channels.answer_tokens import Tokens, folded
from humanlayer_agent.channels.mail.reply_text import Said, said

MAX_BYTES = 1_000_000
"""Larger mails are not read."""

MAX_HEADERS = 100_000
"""Bytes of headers, at most: reading addresses takes the standard library time that grows with their square."""

REFUSALS = {
    "too-large": f"it is larger than {MAX_BYTES:,} bytes, or its headers than {MAX_HEADERS:,}",
    "unreadable": "it can't be read as a mail",
    "automatic": "a program sent it, not a person",
    "bounce": "our own message did not arrive",
    "no-sender": "it does not have exactly one sender",
    "stranger": "its sender is not one of the approvers",
    "unauthenticated": "our mail server did not find that it comes from its sender's domain",
    "no-token": "no address of it holds a token that was sent to this sender",
    "two-tokens": "it holds tokens of several requests",
}
"""Every reason why a mail is no answer, by its stable code."""

MAX_PARTS = 50
"""Parts of a mail, at most: reading it takes time that grows with those that are open, and one that is full of them all
that the machine has."""

MAX_DEPTH = 10
"""Parts inside each other, at most; people's mail programs make three or four."""

RECIPIENTS = ("Delivered-To", "X-Original-To", "Envelope-To", "To", "Cc")
"""The headers that an address of ours may stand in."""

_LONGEST = 1000
"""Characters of a From header, at most."""
_ROBOTS = re.compile(r"(?:mailer-daemon|postmaster|no-?reply|do-?not-?reply|bounces?)(?:[+@._-]|$)", re.IGNORECASE)
_REPORTS = frozenset({"multipart/report", "message/delivery-status", "message/disposition-notification"})
_BULK = frozenset({"bulk", "junk", "list", "auto_reply", "auto-reply"})
_MACHINE_HEADERS = (
    "X-Autoreply", "X-Autorespond", "X-Auto-Reply", "X-Failed-Recipients", "List-Id", "List-Unsubscribe", "Feedback-ID",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reply:
    """An approver's own reply: to which request, who, and what it says."""

    request_id: str
    sender: str
    said: Said


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a mail is no answer (`code` is one of REFUSALS), and what was found (`detail`, for people to
    read).

    `request_id` is the request that a bounce is about.
    """

    code: str
    detail: str = ""
    request_id: str = ""
    sender: str = ""


@dataclass(frozen=True, slots=True)
class Desk:
    """Everything that is needed to judge replies.

    Args:
        tokens: of the messages that were sent.
        address: where replies go to, without a token: `agents@example.com`.
        approvers: mail addresses of everybody who may be asked.
        authserv_id: the name that our own mail server writes into Authentication-Results.
    """

    tokens: Tokens
    address: str
    approvers: Collection[str]
    authserv_id: str


def vet(raw: bytes, desk: Desk) -> Reply | Refusal:
    """Judge one mail as the server delivered it. Never raises.

    Example:
        >>> vet(b"junk", Desk(Tokens(bytes(32)), "agents@example.com", (), "mx.example.com")).code
        'no-sender'
    """
    if len(raw) > MAX_BYTES:
        return Refusal("too-large", f"{len(raw):,} bytes")
    end = re.search(rb"\r?\n\r?\n|\r\r|\Z", raw)
    if end is not None and end.start() > MAX_HEADERS:
        return Refusal("too-large", f"{end.start():,} bytes of headers")
    try:
        # The headers first: what a stranger nests in a mail's body is not worth reading.
        headers = email.message_from_bytes(raw[: end.end()] if end else raw, policy=email.policy.default)
        assert isinstance(headers, EmailMessage)
        return _vetted(headers, raw, desk)
    except Exception as error:  # the parser of the standard library raises many kinds on hostile headers
        return Refusal("unreadable", type(error).__name__)


class _TooNested(ValueError):
    """Raised for a mail of more parts, or of parts further inside each other, than any mail program makes."""


def _whole(raw: bytes) -> EmailMessage:
    """Return a mail with all its parts.

    Raises:
        _TooNested: nobody has written that.
    """
    made = 0

    def part(policy: email.policy.Policy = email.policy.default) -> EmailMessage:
        nonlocal made
        made += 1  # the parser makes one more at its start, to see what it gets
        if made > MAX_PARTS + 1:
            raise _TooNested(f"it has more than {MAX_PARTS} parts")
        return EmailMessage(policy)

    mail = email.parser.BytesParser(part, policy=email.policy.default).parsebytes(raw)
    if _depth(mail) > MAX_DEPTH:
        raise _TooNested(f"its parts are more than {MAX_DEPTH} times inside each other")
    return mail


def _depth(part: Message) -> int:
    """Return how often parts are inside each other."""
    return 1 + max(map(_depth, part.get_payload()), default=0) if part.is_multipart() else 0


def _vetted(mail: EmailMessage, raw: bytes, desk: Desk) -> Reply | Refusal:
    if (bounced := _bounced(mail, raw, desk)) is not None:
        return bounced
    if why := _automatic(mail):
        return Refusal("automatic", why)
    sender = _sender(mail)
    if sender is None:
        return Refusal("no-sender")
    if sender not in {folded(address) for address in desk.approvers}:
        return Refusal("stranger", sender)
    tokens = _tokens(mail, desk.address)
    found = {request for token in tokens if (request := desk.tokens.read(token, "reply", sender))}
    if len(found) != 1:
        return Refusal("two-tokens" if found else "no-token", sender, sender=sender)
    if not _authenticated(mail, sender, desk.authserv_id):
        return Refusal("unauthenticated", sender, request_id=found.pop(), sender=sender)
    try:
        answer = said(_whole(raw))
    except _TooNested as error:
        answer = Said("unclear", str(error))
    return Reply(found.pop(), sender, answer)


# ---- programs ---------------------------------------------------------------------------------------------


def _automatic(mail: EmailMessage) -> str:
    """Return what shows that a program sent it; "" where nothing does."""
    if (value := str(mail.get("Auto-Submitted") or "no").split(";")[0].strip().lower()) != "no":
        return f"Auto-Submitted: {value}"
    if str(mail.get("Return-Path") or "").strip() == "<>":
        return "an empty return path"
    if mail.get_content_type() in _REPORTS:
        return mail.get_content_type()
    if (value := str(mail.get("Precedence") or "").strip().lower()) in _BULK:
        return f"Precedence: {value}"
    for name in _MACHINE_HEADERS:
        if mail.get(name):
            return name
    sender = _sender(mail)
    return "a daemon's address" if sender is not None and _ROBOTS.match(sender) else ""


def _bounced(mail: EmailMessage, raw: bytes, desk: Desk) -> Refusal | None:
    """A report that one of our messages did not arrive. Whoever knows its token may say so: it decides nothing."""
    for token in _tokens(mail, desk.address):
        holder = desk.tokens.holder(token, "bounce", desk.approvers)
        if holder is not None:
            failed = mail.get_content_type() == "multipart/report" and _failed(raw)
            code = "bounce" if failed else "automatic"
            return Refusal(code, f"to {holder[1]}", request_id=holder[0], sender=holder[1])
    return None


def _failed(raw: bytes) -> bool:
    """Tell whether a delivery report says that delivery has failed for good (and not that it is late, or was done)."""
    try:
        parts = list(_whole(raw).walk())
    except _TooNested:
        return False
    for part in parts:
        if part.get_content_type() == "message/delivery-status":
            for block in part.get_payload() if isinstance(part.get_payload(), list) else ():
                action = str(getattr(block, "get", lambda *_: "")("Action", "")).strip().lower()
                if action == "failed":
                    return True
    return False


def _sender(mail: EmailMessage) -> str | None:
    """The one address that it is from; None where there is none, or another reading of it could find another."""
    if len(written := _raw(mail, "From")) != 1 or len(written[0]) > _LONGEST:
        return None
    headers = mail.get_all("From") or []
    if len(headers) != 1 or headers[0].defects or len(headers[0].groups) != 1 or headers[0].groups[0].display_name:
        return None
    addresses = headers[0].addresses
    if len(addresses) != 1 or not addresses[0].domain or not addresses[0].username:
        return None
    return folded(addresses[0].addr_spec)


# ---- where it comes from -------------------------------------------------------------------------------------


def _authenticated(mail: EmailMessage, sender: str, authserv_id: str) -> bool:
    """Tell whether our own mail server found DMARC to pass, or a DKIM signature of the sender's own domain."""
    domain = sender.rpartition("@")[2]
    results = list(_results(mail, authserv_id))
    if any(method == "dmarc" and verdict in ("fail", "permerror") for method, verdict, _ in results):
        return False  # whatever else it says
    return any(
        verdict == "pass"
        and (
            (method == "dmarc" and _plain(properties.get("header.from", "")) == domain)
            or (method == "dkim" and domain == _signed_by(properties))
        )
        for method, verdict, properties in results
    )


def _signed_by(properties: Mapping[str, str]) -> str:
    """The domain of a DKIM signature: `header.d`, or that of the identity where a server writes only this."""
    return _plain(
        properties["header.d"] if "header.d" in properties else properties.get("header.i", "").rpartition("@")[2]
    )


def _results(mail: EmailMessage, authserv_id: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Method, verdict and properties, of the topmost header only: those below came with the mail."""
    headers = _raw(mail, "Authentication-Results")
    if not headers or not authserv_id:
        return
    own, _, rest = _uncommented(headers[0]).partition(";")
    names = own.split()
    if not names or folded(names[0]) != folded(authserv_id):
        return
    for piece in rest.split(";"):
        if found := re.match(
            r"\s*([a-z0-9-]+)\s*(?:/\s*\d+\s*)?=\s*([a-z]+)(?=\s|$)(.*)", piece, re.IGNORECASE | re.DOTALL
        ):
            pairs = re.findall(r"(?<![^\s])([a-z]+\.[a-z0-9_-]+)\s*=\s*(\S+)", found[3], re.IGNORECASE)
            properties: dict[str, str] = {}
            for name, value in pairs:
                properties.setdefault(name.lower(), value)
            yield found[1].lower(), found[2].lower(), properties


def _uncommented(text: str) -> str:
    """A structured header without its comments and without what stands in quotes: neither may hold a verdict."""
    out, depth, quoted, escaped = [], 0, False, False
    for char in text:
        if escaped:
            escaped = False
        elif char == "\\" and (quoted or depth):
            escaped = True
        elif quoted:
            quoted = char != '"'
        elif char == '"' and not depth:
            quoted = True
            out.append(char)  # so that what follows is not taken for the value
        elif char == "(":
            depth += 1
        elif char == ")" and depth:
            depth -= 1
        elif not depth:
            out.append(char)
    return "".join(out)


def _plain(value: str) -> str:
    return folded(value.strip('"').rstrip("."))


def _raw(mail: EmailMessage, name: str) -> list[str]:
    """A header as it was sent, topmost first. Never decoded: an encoded word in an address could hold a verdict."""
    found = (str(value) for key, value in mail.raw_items() if key.lower() == name.lower())
    return [re.sub(r"[\r\n]+", "", value) for value in found]


# ---- tokens -------------------------------------------------------------------------------------------------


def _tokens(mail: EmailMessage, address: str) -> list[str]:
    """Return the words behind the plus sign of each of our addresses in the mail, each once."""
    local, _, domain = folded(address).rpartition("@")
    ours = re.compile(rf"(?<![\w.+%-]){re.escape(local)}\+([a-z2-7.]{{1,64}})@{re.escape(domain)}(?![\w.-])", re.ASCII)
    values = [folded(value) for name in RECIPIENTS for value in _raw(mail, name)]
    return list(dict.fromkeys(token for value in values for token in ours.findall(value)))
