"""Keeps secrets out of what is written down or sent: each is replaced by a mark.

With a key the mark is `⟦hmac:16hex⟧`, so that equal secrets have equal marks and `hla audit hash` can tell whether a
value was used; without one it is `⟦erased⟧`. The key belongs to one store and stands in no event: a plain hash of a
secret, or of a command that holds one, could be guessed by trying.

Redaction never raises and never gives back what it could not read: then all of the text is replaced.
"""

import hmac
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any

from humanlayer_agent.redaction.command_secrets import in_command, may_hold
from humanlayer_agent.redaction.text_secrets import Span, by_itself, in_text, key_lines

ERASED = "⟦erased⟧"
"""The mark where there is no key."""

_REMEMBERED = 500  # values that were secrets in a command, and are looked for in later texts of this process
_CACHED = 256
_LONG = 64  # characters; a shorter secret names no others
_SHORTEST = 6  # characters; a shorter secret is erased where it stands, and not looked for elsewhere
_LONGEST = 1 << 18  # characters of a text that is searched; a longer one is replaced as a whole

COMMANDS = frozenset({"command", "edited"})
"""Fields of events that hold command lines."""

PLAIN = frozenset(
    {
        *("store", "version", "head", "head_signature", "last", "lost", "loss_signature", "signer", "signers"),
        *("absence", "absences", "absence_signature", "hold", "hold_signature", "holds"),
        *("former", "key", "run", "former_run", "request", "parent", "permit", "halt", "resumption", "sha256"),
        *("place", "question", "reply", "policy_digest", "interpreter", "approver", "decision_id", "process"),
        *("channel", "holder", "rules", "verdict", "agent", "policy", "rule", "basis", "severity", "parse"),
        *("input_mode", "answer", "assurance", "instance", "requester", "member_of", "shown"),
        *("person", "identities", "keys", "grants", "lapsed"),
    }
)
"""Fields that hold what we made ourselves, and identities."""

DIGESTS = frozenset({"digest", "layer", "presented_digest", "about_to_run", "context", "env", "signature"})
"""Fields that a command, its environment or what was signed of it could be guessed by: written as `hmac:64hex`."""

LABEL = "hmac:"
"""Begins a digest that was made with the store's key."""

_LONGEST_SETTINGS = 1 << 16
_NAMES_SECRET = re.compile(
    r"auth|token|passw|passphrase|secret|credential|ident\b|private.?key|\bkey\b|://[^/\s]*@", re.I
)
_GOES_ON = re.compile(r"(?:[=:]\s*[|>]?[+-]?|\"\"\"|'''|[\[{(\\])\s*$")
"""At the end of a line of settings: what belongs to it stands on the next ones."""
_BLOCKS = re.compile(r"-----BEGIN|^\s*<", re.MULTILINE)
"""A key over several lines, or XML."""


@dataclass(frozen=True, slots=True)
class Redacted:
    """A text without its secrets.

    `erased` names their positions, `spans` is where they stood in the original, and `marks` what stands there now.
    """

    text: str
    erased: tuple[str, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    marks: tuple[str, ...] = ()


class Redactor:
    """Redacts with one key. Thread-safe.

    Args:
        key: of the store; None for texts that leave it (chat, mail), where marks need not be told apart.

    Example:
        >>> Redactor().command("mysql -uroot -phunter22 db").text
        'mysql -uroot -p⟦erased⟧ db'
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key
        self._lock = Lock()
        self._cache: OrderedDict[str, Redacted] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._texts: dict[str, Redacted] = {}
        self._generation = 0

    def mark(self, secret: str) -> str:
        """Return the mark that takes the place of `secret`."""
        if self._key is None:
            return ERASED
        return f"⟦{LABEL}{self._hmac('value', secret)[:16]}⟧"

    def digest(self, digest: str) -> str:
        """Return what is written instead of a digest that could be guessed; "" stays ""."""
        if self._key is None or not digest or digest.startswith(LABEL):
            return digest
        return LABEL + self._hmac("digest", digest)

    def command(self, text: str) -> Redacted:
        """A command line without its secrets."""
        with self._lock:
            known = self._cache.get(text)
        made = known or self._made(text, commands=True)
        with self._lock:
            if known is None:
                self._cache[text] = made
                if len(self._cache) > _CACHED:
                    self._cache.popitem(last=False)
            for start, end in made.spans:
                self._remember(text[start:end])
        return made

    def text(self, text: str) -> Redacted:
        """Other text (a reason, a comment, an error) without secrets, those of earlier commands among them."""
        with self._lock:
            if known := self._texts.get(text):
                return known
            generation = self._generation
        made = self._made(text, commands=False)
        with self._lock:
            if len(self._texts) >= _CACHED:
                self._texts.clear()
            if self._generation == generation:  # no further secret has become known meanwhile
                self._texts[text] = made
        return made

    def fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of an event as they may be written, with `erased` where something was, and `exact` for commands.

        `exact` holds a keyed digest of each text that was changed: it proves later what stood there. Without a key
        there is none, because anybody could make one of a guess.
        """
        notes: list[str] = []
        exact: dict[str, str] = {}
        written = dict(fields)
        for name in (*(COMMANDS & fields.keys()), *(fields.keys() - COMMANDS - PLAIN)):
            value = fields[name]  # commands first: what they hold is looked for in the rest
            if not value or isinstance(value, int):
                continue
            made = written[name] = self._field(name, value, notes)
            if self._key is not None and isinstance(value, str) and made != value and name not in DIGESTS:
                exact[name] = self.digest(value)
        if notes:
            written |= {"erased": sorted(set(notes)), "exact": exact or None}
        return written

    def _field(self, name: str, value: Any, notes: list[str]) -> Any:
        if name in PLAIN:
            return value
        if isinstance(value, str):
            if name in DIGESTS:
                return self.digest(value)
            if not value:
                return value
            made = self.command(value) if name in COMMANDS else self.text(value)
            notes += [f"{name}: {what}" for what in made.erased]
            return made.text
        if isinstance(value, Mapping):
            return {key: self._field(str(key), item, notes) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._field(name, item, notes) for item in value]
        return value

    def _made(self, text: str, *, commands: bool) -> Redacted:
        try:
            if len(text) > _LONGEST:
                return self._whole(text, "too long to be searched")
            if commands:
                spans = in_command(text) if may_hold(text) else [*by_itself(text)]
            else:
                spans = [*by_itself(text), *in_text(text), *self._remembered(text)]
            return self._replaced(text, spans)
        except Exception:  # whatever it was: nothing of it is written
            return self._whole(text, "could not be read")

    def _whole(self, text: str, why: str) -> Redacted:
        mark = self.mark(text)
        return Redacted(mark, (f"everything ({why})",), ((0, len(text)),), (mark,))

    def _replaced(self, text: str, spans: Iterable[Span]) -> Redacted:
        found = _merged(spans)
        if not found:
            return Redacted(text)
        found = sorted([*found, *_again(text, found)])
        pieces: list[str] = []
        marks: list[str] = []
        position = 0
        for start, end, _ in found:
            marks.append(self.mark(text[start:end]))
            pieces += (text[position:start], marks[-1])
            position = end
        pieces.append(text[position:])
        erased = tuple(dict.fromkeys(what for *_, what in found))
        return Redacted("".join(pieces), erased, tuple((start, end) for start, end, _ in found), tuple(marks))

    # Values that were secrets before

    def _remember(self, value: str) -> None:
        """Look for `value` in texts from now on: all of it, each line of a key, and each secret that it names."""
        lines = [value[start:end] for start, end in key_lines(value)]
        lines += _named(value)
        for part in lines if "\n" in value else [value, *lines]:
            if part in self._known:
                self._known.move_to_end(part)
            elif len(part) >= _SHORTEST:
                self._known[part] = None
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
                self._generation += 1
                self._texts.clear()

    def _remembered(self, text: str) -> list[Span]:
        with self._lock:
            values = [value for value in self._known if value in text]
        return [Span(at, at + len(value), "a secret of a command") for value in values for at in _places(value, text)]

    def _hmac(self, purpose: str, text: str) -> str:
        assert self._key is not None
        said = f"{purpose}\0".encode() + text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, said, "sha256").hex()


def _named(value: str) -> list[str]:
    """Return the secrets that a longer one names: the numbers of a key that is written as JSON."""
    if len(value) < _LONG or not any(sign in value for sign in ":="):
        return []
    try:
        return [value[start:end] for start, end, _ in in_text(value)]
    except Exception:  # all of it is looked for
        return []


def _places(value: str, text: str) -> Iterator[int]:
    """Yield where `value` begins in `text`, wherever it does."""
    at = text.find(value)
    while at >= 0:
        yield at
        at = text.find(value, at + len(value))


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Spans in order, without overlaps: of those that overlap, one span over all, and the first one's name."""
    merged: list[Span] = []
    for span in sorted(spans):
        if span.start >= span.end:
            continue
        if merged and span.start < merged[-1].end:
            merged[-1] = Span(merged[-1].start, max(merged[-1].end, span.end), merged[-1].what)
        else:
            merged.append(span)
    return merged


def _again(text: str, found: list[Span]) -> list[Span]:
    """The same values elsewhere in the text: `P=hunter22; mysql -p$P; echo hunter22`.

    Only what looks like a secret by itself, and never the name of a command: an agent that calls `rm -rf /srv` a
    password must not hide it by that.
    """
    values = {text[start:end] for start, end, _ in found}
    values = {value for value in values if _LIKE_A_SECRET.fullmatch(value)}
    if not values:
        return []
    pattern = re.compile("|".join(map(re.escape, sorted(values, key=len, reverse=True))))
    again = [Span(*each.span(), "the same again") for each in pattern.finditer(text)]
    taken = {place for start, end, _ in found for place in range(start, end)}
    return [s for s in again if taken.isdisjoint(range(s.start, s.end)) and not _COMMAND.search(text, 0, s.start)]


_LIKE_A_SECRET = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[^\s/;|&$`()<>'\"]{8,}")
_COMMAND = re.compile(r"(?:^|[;|&({`!\n])[ \t]*\Z")


@lru_cache(maxsize=16)
def redactor(key: bytes) -> Redactor:
    """The one `Redactor` of this process for a key: it remembers what it has erased."""
    return Redactor(key)


def redact(command: str, key: bytes | None = None) -> Redacted:
    """A command line without its secrets; see `Redactor`."""
    return Redactor(key).command(command)


def settings_without_secrets(text: str) -> str | None:
    """Return what can be shown of a file of settings to whoever is to know no secret: the lines that hold none; None
    where they can't be told apart.

    It errs on that side: a line that names a secret holds one, whatever its value.

    Example:
        >>> settings_without_secrets("registry=https://example.org/\\n//example.org/:_authToken=abc\\n")
        'registry=https://example.org/\\n'
        >>> settings_without_secrets("<settings><password>abc</password></settings>") is None
        True
    """
    if len(text) > _LONGEST_SETTINGS:
        return None
    gone = [line for line in text.splitlines() if _holds_secret(line)]
    left = "".join(line for line in text.splitlines(keepends=True) if not _holds_secret(line))
    if gone and (_BLOCKS.search(text) or any(map(_GOES_ON.search, gone))):
        return None
    return None if Redactor().text(left).erased else left


def _holds_secret(line: str) -> bool:
    return _NAMES_SECRET.search(line) is not None or bool(Redactor().text(line).erased)
