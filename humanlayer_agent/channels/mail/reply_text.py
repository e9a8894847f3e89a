"""The words that a person wrote themselves in a reply, and the answer that they give.

A reply quotes our message, and our message holds the agent's command. Only what stands above the first quoted line, our
marker or a mail program's own line counts, and of that the first line decides, to the letter. A mail program that wraps
quoted lines anew can leave words of the command on a line without a quote mark: nothing below a line with one counts,
and `approve` decides only where nothing else at all was written.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage, MIMEPart
from html.parser import HTMLParser
from typing import Literal

from humanlayer_agent.channels.mail.visibility import Look, hides_something

MARKER = "##- reply above this line -##"
"""Stands at the top of each message that may be answered by replying."""

SENDER = "Agent approvals"
"""The name that our messages come from; mail programs repeat it above what they quote."""

SUBJECT = "Approval needed"
"""What the subjects of our messages begin with; mail programs repeat it above what they quote."""

COMMENT_LIMIT = 2000
"""Characters of a reason that are kept."""

_LONG = 100_000
"""Characters of a mail that are read: words of one's own stand at its top, and reading hostile HTML takes long."""

_TAGS = 5_000
"""Tags in that, at most: the parser's time grows with the square of those that are never closed."""

_DEEP = 500
"""Elements inside each other in HTML, at most; people's mail programs write a few dozen."""

_UNSEEN = frozenset({"script", "style", "title"})
_QUOTING = (
    "gmail_quote",
    "gmail_attr",
    "divRplyFwdMsg",
    "yahoo_quoted",
    "moz-cite-prefix",
    "appendonsend",
    "protonmail_quote",
    "tutanota_quote",
    "zmail_extra",
    "OutlookMessageHeader",
    "ms-outlook-mobile-reference-message",
    "mail-editor-reference-message",
)
"""Parts of the class or id of an element that mail programs put around what they quote."""
_VOID = frozenset({"br", "hr", "img", "meta", "link", "input", "col", "wbr", "area", "base", "embed", "source"})
_BLOCKS = frozenset({"p", "div", "tr", "li", "pre", "ul", "ol", "table", "h1", "h2", "h3", "br", "hr"})

_FROM = "from|von|de|da|van|fra|od|från|lähettäjä|от|kimden|发件人|寄件者|差出人|보낸 사람"
_ENDS = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        r"^.*##- ?reply above this line",
        r"^[ \t]*[>|\uff1e]",
        r"^[ \t]*-{3,}[^\n]{1,300}?-{3,}[ \t]*$",  # -----Original Message-----, ---- On Monday ... wrote ----
        r"^-- ?$",
        r"^[ \t]*begin forwarded message[ \t]*:[ \t]*$",
        # The headers of our message, from its From to its Subject.
        rf"^[ \t]*\*?(?:{_FROM})[ \t]*[:：]\*?[ \t]*\S[^\n]*\n(?:[^\n]{{0,300}}\n){{0,8}}[^\n:：]{{1,20}}[:：]\*?[^\n]*"
        rf"{SUBJECT} \[",
    )
)
"""Where what a mail program quotes begins, or a signature. A person may write a colon or dashes too, and a condition
below them: so each is something that only a program writes."""

_SIGNATURES = (  # ... stands for the name of a program or a device, of letters, digits and few others
    "sent from my ...", "sent from outlook ...", "sent from yahoo ...", "sent from proton ...", "sent from mail ...",
    "sent from gmail ...", "sent with proton ...", "sent with spark ...", "get outlook for ...",
    "von meinem ... gesendet", "diese nachricht wurde von meinem ... gesendet", "gesendet mit der ...",
    "outlook für ... beziehen", "outlook für ... herunterladen", "envoyé de mon ...", "envoyé depuis mon ...",
    "obtenir outlook pour ...",
    "enviado desde mi ...", "enviado do meu ...", "inviato da ...", "verstuurd vanaf mijn ...",
    "verzonden vanaf mijn ...", "skickat från min ...", "sendt fra min ...", "wysłane z ...", "отправлено с ...",
)  # fmt: skip
_SIGNED = "|".join(re.escape(each).replace(r"\.\.\.", r"[\w .'’-]{2,40}").replace(r"\ ", " ") for each in _SIGNATURES)
_TAILS = (
    re.compile(r"(?:^|\n)[ \t]*[-_=*]{3,}[ \t]*\Z"),
    re.compile(rf"(?:^|\n)[ \t]*(?:{_SIGNED})(?:[ \t]*<https?://[^\s<>]{{1,200}}>)?\Z", re.IGNORECASE),
)
"""What mail programs leave above that: a line of dashes, and what the program is called."""

# On Monday, 2 March at 10:00, Agent approvals <agents@example.com> wrote:
_DATED = re.compile(
    r"[ \t]*(?:(?:on|le|am|el|il|op|den|em|w dniu)\b|\w{2,4}[.,]|\d)[^\n]*(?:\b\d{4}\b|\d[./]\d\d[./]\d\d|\d\d:\d\d)",
    re.IGNORECASE,
)
_WROTE = re.compile(rf"(?:{SENDER}|<[^<>]+@[^<>]+>).*[:：][ \t]*\Z", re.IGNORECASE | re.DOTALL)

_HIDDEN = "\ue000"
"""Stands in what was read of HTML where a text was left out that people do not see, or see struck out."""

_DOUBTFUL = "\ue001"
"""Stands where nobody can tell which of the words that follow people see."""

_SPACE = re.compile(r"[ \t\r\n\f]+")
_APPROVE = re.compile(r"approve[.!]?", re.IGNORECASE | re.ASCII)
_REJECT = re.compile(r"reject(?![a-z0-9_-])[ \t]*[.:,]?(.*)", re.IGNORECASE | re.DOTALL | re.ASCII)


Kind = Literal["plain", "html"]
"""What a text was sent as."""


@dataclass(frozen=True, slots=True)
class Said:
    """The answer that a reply gives: approve, reject (`words` is the reason), or nothing that is clear (`words` says
    why).
    """

    kind: Literal["approve", "reject", "unclear"]
    words: str = ""


def said(message: EmailMessage) -> Said:
    """Return the answer of the sender of `message`, by their own words in it: in its text and in its HTML the same."""
    plain, html = (decided(own_words(message, kind)) for kind in ("plain", "html"))
    if plain.kind != html.kind:
        return Said("unclear", "its text and its HTML do not say the same")
    return plain


def own_words(message: EmailMessage, kind: Kind = "plain") -> str:
    """The text above everything that was quoted; "" where there is none that can be read.

    Args:
        kind: which of them is read where the same was sent as text and as HTML.
    """
    texts, whole = [], True
    try:
        for read, all_of_it in _texts(message, kind):
            texts.append(read)
            whole = whole and all_of_it
    except (LookupError, ValueError, AttributeError, RecursionError):  # an unknown charset or encoding
        return ""
    text = "\n".join(texts)
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u00a0", " ").removeprefix("\ufeff")
    ends = [found.start() for end in _ENDS if (found := end.search(text))]
    if not whole and not ends:
        return ""  # nobody knows what else it says
    text = text[: min(ends, default=len(text))].strip()
    while (end := _tail(text)) < len(text):
        text = text[:end].strip()
    return text


def _tail(text: str) -> int:
    """Return where a mail program's last words in `text` begin; its length where there are none."""
    for tail in _TAILS:
        if found := tail.search(text):
            return found.start()
    lines = text.split("\n")
    for count in range(1, min(4, len(lines)) + 1):
        last = lines[-count:]
        if _DATED.match(last[0]) and _WROTE.search("\n".join(last)):
            return len("\n".join(lines[:-count]))
    return len("\n".join(lines[:-1])) if _WROTE.search(lines[-1]) else len(text)


def _texts(part: MIMEPart, preferred: Kind) -> Iterator[tuple[str, bool]]:
    """All text that people see as one message (a picture in the middle must not hide the words below it); of each
    whether that is all of it."""
    kind = part.get_content_type()
    if part.is_attachment():
        return
    if kind in ("text/plain", "text/html"):
        text = str(part.get_content())
        yield text[:_LONG] if kind == "text/plain" else _read(text[:_LONG]), len(text) <= _LONG
    elif kind == "multipart/alternative":
        found = [(of, inner) for inner in part.iter_parts() if (of := _kind(inner)) is not None]
        if len(found) != len(dict(found)):
            raise ValueError("nobody knows which of two texts of one kind people see")
        for _, best in sorted(found, key=lambda each: each[0] != preferred)[:1]:
            yield from _texts(best, preferred)
    elif part.get_content_maintype() == "multipart" and part.is_multipart():
        for inner in part.iter_parts():
            yield from _texts(inner, preferred)


def _kind(part: MIMEPart) -> Kind | None:
    """Return what one of several forms of a message is, by the texts in it."""
    kinds = {inner.get_content_type() for inner in part.walk() if not inner.is_attachment()}
    return "html" if "text/html" in kinds else "plain" if "text/plain" in kinds else None


def _read(html: str) -> str:
    if html.count("<") > _TAGS:
        raise ValueError("no person's mail has so many tags so close to each other")
    reader = _Text()
    reader.feed(html)
    reader.close()
    return reader.text


def decided(text: str) -> Said:
    """Return the answer in a person's own words: exactly `approve`, or `reject` and a reason; everything else is
    unclear.

    Example:
        >>> decided("Approve."), decided("reject: not on a Friday")
        (Said(kind='approve', words=''), Said(kind='reject', words='not on a Friday'))
        >>> decided("approve, but only the first one").kind
        'unclear'
    """
    if _DOUBTFUL in text:
        return Said("unclear", "nobody can tell which of its words people see")
    hidden, text = _HIDDEN in text, text.replace(_HIDDEN, "").strip()
    if not text:
        return Said("unclear", "there is nothing above the quoted message")
    if _APPROVE.fullmatch(text):
        return Said("unclear", "there are words that nobody sees, or struck out") if hidden else Said("approve")
    first = text.split("\n", 1)[0].strip()
    if _APPROVE.fullmatch(first):
        return Said("unclear", "there are more words after approve")
    if found := _REJECT.fullmatch(text):
        return Said("reject", found[1].strip()[:COMMENT_LIMIT])
    return Said("unclear", "the first line is neither approve nor reject")


@dataclass(frozen=True, slots=True)
class _Open:
    """An element that has begun: it quotes or holds no words of the message, and how it shows them."""

    tag: str
    skipped: bool
    look: Look


class _Text(HTMLParser):
    """The words of an HTML message that people see, without what it quotes."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._found: list[str] = []
        self._open: list[_Open] = []
        self._sheets: list[str] = []

    @property
    def text(self) -> str:
        return (_DOUBTFUL if hides_something("".join(self._sheets)) else "") + "".join(self._found)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self._say("\n")
        if tag in _VOID:
            return
        about = " ".join(value or "" for name, value in attrs if name in ("class", "id"))
        quoting = tag == "blockquote" or any(word in about for word in _QUOTING)
        if quoting:
            self._say("\n> \n")  # what follows a quotation counts no more than what follows a quoted line
        if len(self._open) >= _DEEP:
            raise ValueError("no person's mail is so deep")
        self._open.append(_Open(tag, quoting or tag in _UNSEEN, self._look.inside(tag, attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # a browser takes no notice of the slash

    def handle_endtag(self, tag: str) -> None:
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index].tag == tag:
                if index < len(self._open) - 1 and not self._look.seen:
                    self._say(_DOUBTFUL)  # out of order: a browser may hide what follows as well
                del self._open[index:]
                break
        if tag in _BLOCKS:
            self._say("\n")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1].tag == "style":
            self._sheets.append(data)
        elif self._look.seen or not data.strip():
            self._say(_SPACE.sub(" ", data))
        else:
            self._say(_HIDDEN)

    def handle_comment(self, data: str) -> None:
        if data.startswith((">", "->")) or "--!>" in data:
            self._say(_DOUBTFUL)  # a browser ends it there, and shows the rest

    def unknown_decl(self, data: str) -> None:
        if ">" in data:
            self._say(_DOUBTFUL)  # the same

    @property
    def _look(self) -> Look:
        return self._open[-1].look if self._open else Look()

    def _say(self, text: str) -> None:
        if not any(each.skipped for each in self._open):
            self._found.append(text)
