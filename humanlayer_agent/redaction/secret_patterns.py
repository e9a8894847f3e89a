"""The patterns of secrets in text, each with the literals by which it is passed over where it can find nothing.

A `Pattern` declares its literals beside its expression, and a `Table` of patterns computes from them which can match a
text at all; nothing else decides that. Tests prove from the expressions that every match holds a literal.

Every expression is linear in the length of the text: it may come from an agent.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

from humanlayer_agent.redaction.secret_names import data


class Pattern(NamedTuple):
    """How secrets of one kind are found: `what` they are called, and the expression whose `group` they are.

    One of `literals` stands, in small letters, in whatever `expression` matches. No group: what stands in the same text
    is read with an expression of its own, where this one matches.
    """

    what: str
    literals: tuple[str, ...]
    expression: re.Pattern[str]
    group: str = "value"


class Table:
    """Patterns, by the literals that they declare.

    Example:
        >>> [pattern.what for pattern in text_patterns().possible("curl http://host/")]
        ['pgpass', 'URL', 'named']
    """

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.patterns = tuple(patterns)
        self._places: dict[str, list[int]] = {}
        for place, pattern in enumerate(self.patterns):
            for literal in pattern.literals:
                self._places.setdefault(literal, []).append(place)

    def possible(self, text: str) -> list[Pattern]:
        """Return the patterns that may match something in `text`: no other does."""
        folded = _folded(text)
        hits = [places for literal, places in self._places.items() if literal in folded]
        return [self.patterns[place] for place in sorted({place for places in hits for place in places})]

    def __iter__(self) -> Iterator[Pattern]:
        return iter(self.patterns)


def _folded(text: str) -> str:
    """`text` in small letters, as expressions that ignore case see them: İ and ı are an i there, ſ is an s."""
    return text.lower() if text.isascii() else text.translate(_ALIKE).lower()


_ALIKE = str.maketrans({"İ": "i", "ı": "i", "ſ": "s", "\N{KELVIN SIGN}": "k"})


# Private keys

_RUN = "[A-Za-z0-9+/=]"
_BLANK = r"(?:\\?[ +_]|%20)"
_GAP = r"(?:\s|\\++(?:[nrt]|x0[aAdD]|0?1[25])?|[\"',+]|%0[AaDd])"
"""What stands between the lines of a key: new lines, also as they are written in strings, and the quotes of strings."""

_HEADERS = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset|MessageID): [^\n\\]*+"
_TAIL = rf"(?:{_GAP}*+{_RUN}{{1,15}}(?={_GAP}*+(?:-{{4}}|=[A-Za-z0-9+/]{{4}})))?"
_PATH = f"/[a-z/]++(?!{_RUN})"
_LINES = rf"(?:{_GAP}*+(?:(?!{_PATH}){_RUN}{{16,}}+|{_HEADERS}))*+{_TAIL}"
_NAME = rf"[A-Z0-9 +_%\\]{{0,60}}?PRIVATE{_BLANK}KEY(?:{_BLANK}BLOCK)?"


_BYTE = "[A-Za-z0-9+/_-]"
_KEY_BEGINNINGS = (
    (("b3blbnnzac1rzxktdje",), "b3BlbnNzaC1rZXktdjE"),  # openssh-key-v1
    # DER: a sequence that begins with a small number (PKCS 1, 8 and 12, SEC 1), of 256 bytes and more, of less, of few
    (("ibaa", "ibad", "ibaq", "ibaz"), f"MII{_BYTE}{{2}}[AQgw]IBA[ADQz]"),
    (("agea", "ageb"), f"MI[E-H]{_BYTE}AgE[AB][ABM]"),
    (("caqac", "caqaw", "caqee", "caqew"), f"M[A-H]{_BYTE}CAQ(?:A[Cw]|E[Ew])"),
    # DER: encrypted
    (("bgkqhkig9w0bbq", "bgoqhkig9w0bda"), f"MII{_BYTE}{{5}}Bg(?:kqhkiG9w0BBQ|oqhkiG9w0BDA)"),
    (("gcsqgsib3dqef", "gciqgsib3dqema"), f"MI[E-H]{_BYTE}M[A-H]{_BYTE}(?:GCSqGSIb3DQEF|GCiqGSIb3DQEMA)"),
    # OpenPGP: a secret key on a curve, and one of RSA
    (
        ("yjkwybbaharw8b", "mikozizj0d", "mfk4eeaci", "mjkyqdawii"),
        f"[lx]{_BYTE}{{2}}E{_BYTE}{{5}}[BRhx](?:YJKwYBBAHaRw8B|MIKoZIzj0D|MFK4EEACI|MJKyQDAwII)",
    ),
    (
        ("bcac", "bcad", "bdac", "bdad", "beac", "bead"),
        f"l[Q-Za-f]{_BYTE}{{2}}B{_BYTE}{{5}}[AEIMQUYcgkosw048]B[CDE]A[CD]",
    ),
    # a file of PEM or of PuTTY as a whole
    (
        ("ls0tls1crudjti",),
        "LS0tLS1CRUdJTi(?:BPUEVOU1NI|BSU0EgUFJJ|BFQyBQUklW|BQUklWQVRF|BFTkNSWVBURUQg|BEU0EgUFJJ|BQR1AgUFJJ)",
    ),
    (("uhvuvfktvxnlci1lzxktrmls",), "UHVUVFktVXNlci1LZXktRmls"),
    # minisign, signify
    (("rwrty0iy", "rwrcswaaa"), "RWRTY0Iy|RWRCSwAAA"),
)
"""What the base64 of private keys begins with, the bytes that every key of a kind has: literals and expression."""

_KEYS = (
    Pattern(
        "private key",
        ("private", "openvpn"),
        re.compile(
            rf"-{{4,5}}{_BLANK}?BEGIN{_BLANK}(?:{_NAME}|OpenVPN [A-Za-z0-9 -]{{1,40}}?){_BLANK}?-{{4,5}}"
            rf"(?P<value>{_LINES})"
        ),
    ),
    Pattern(  # the end of one
        "private key",
        ("private",),
        re.compile(
            rf"(?<!{_RUN})(?P<value>{_RUN}{{16,}}+(?:{_GAP}++{_RUN}++)?){_GAP}{{0,20}}+"
            rf"-{{4,5}}{_BLANK}?END{_BLANK}{_NAME}(?={_BLANK}?-)"
        ),
    ),
    Pattern(
        "private key",
        ("private-lines",),
        re.compile(
            rf"Private-Lines: ?\d++{_GAP}++"
            rf"(?P<value>(?:{_RUN}{{16,}}+{_GAP}*+)*+(?:{_RUN}{{1,64}}+(?={_GAP}*+Private-MAC))?)"
        ),
    ),
    *(
        Pattern(
            "private key",
            literals,
            re.compile(
                rf"(?:(?<![A-Za-z0-9+/])|(?<=\n\+)|(?<=\\[nrt])|(?<=%[0-9A-F][0-9A-F]))(?P<value>(?:{begin})[A-Za-z0-9+/=_-]{{8,}}+{_LINES})"
            ),
        )
        for literals, begin in _KEY_BEGINNINGS
    ),
)

FURTHER_LINE = re.compile(rf"(?:(?<!{_RUN})(?!(?<=\\)[nrt])|(?<=\\[nrt]))(?P<value>{_RUN}{{20,}}+)")
"""What may be a further line of a private key that stands in the same text."""

# What names the secret, or stands around it

_TEXT = (
    Pattern("header", ("bearer",), re.compile(r"(?i)\bbearer[ \t]++(?P<value>[A-Za-z0-9._~+/=-]{8,}+)")),
    Pattern(
        "header",
        ("authorization", "token", "key", "secret", "auth", "password", "cookie"),
        re.compile(
            r"(?i)\b(?:(?:proxy-)?authorization|x-[a-z0-9-]{0,40}?(?:token|key|secret|auth|password)|(?:set-)?cookie"
            r"|api-?key|(?:private|job|deploy)-token)[\"']?(?:\\?[ \t])*+[:=](?:\\?[ \t])*+[\"']?"
            r"(?:(?:bearer|basic|token|digest|apikey|key)(?:\\?[ \t])++)?(?P<value>[^\s\"'`\\;]{1,4000}+)"
        ),
    ),
    Pattern(
        "netrc",
        ("password",),
        re.compile(
            r"\b(?:machine[ \t]++\S++|default|login)[ \t\n]++(?:login[ \t]++)?\S*+[ \t\n]++"
            r"password[ \t]++(?P<value>\S++)"
        ),
    ),
    Pattern(
        "pgpass",
        (":",),
        re.compile(r"(?m)(?:^|(?<=['\"]))[\w.*-]+:(?:\d{2,5}|\*):[\w*-]+:[\w*-]+:(?P<value>[^\s'\"]+)(?:$|(?=['\"]))"),
    ),
    Pattern(
        "SQL password",
        ("identified", "password"),
        re.compile(
            r"(?i)\b(?:identified\s{1,20}(?:with\s{1,20}\S{1,60}\s{1,20})?by|(?:with\s{1,20})?password(?:\s{1,20}for\s{1,20}\S{1,60})?)\s{1,20}(?:=\s{0,5})?\\?(?P<q>['\"])(?P<value>[^'\"\n]{1,500}+)"
        ),
    ),
    Pattern(
        "SQL password",
        ("password",),
        re.compile(r"(?i)\bpassword(?:\s{0,5}\(\s{0,5}['\"]|\s{1,20}(?P<d>\\?\$\\?\$))(?P<value>[^'\"\s$\\)]{1,500}+)"),
    ),
    Pattern(
        "query",
        ("pass=", "pw=", "pwd=", "psk=", "auth=", "sig=", "signature="),
        re.compile(
            r"(?i)(?<=[?&,;])(?:pass|pw|pwd|psk|auth|sig|signature|x-(?:amz|goog)-signature)=(?P<value>[^&,\s\"'#:]{6,2000}+)"
        ),
    ),
    Pattern(
        "argument",
        ("auth", "login", "password"),
        re.compile(
            r"(?:\bauth\s{0,5}=\s{0,5}\(|(?:BasicAuth|DigestAuth|\.auth|\.login|(?i:(?:change|set|reset)\w{0,20}password))\()"
            r"\s{0,5}(?P<q>\\?[\"'])[^\"'\n]{0,200}[\"']\s{0,5},\s{0,5}\\?[\"'](?P<value>[^\"'\s\\]{1,500}+)"
        ),
    ),
    Pattern(
        "argument",
        (".send",),
        re.compile(
            r"\.send(?:line)?\(\\?[\"'](?P<value>(?=[^\"']{0,200}[0-9])(?=[^\"']{0,200}[A-Za-z])[^\"'\s\\/]{6,200}+)"
        ),
    ),
    Pattern(
        "SQL key",
        ("pragma",),
        re.compile(r"(?i)\bpragma\s{1,9}(?:hex)?(?:re)?key\s{0,9}=\s{0,9}[\"'](?P<value>[^\"'\s]{1,500}+)"),
    ),
    Pattern(
        "value of auth",
        ('auth\\"', 'auth"'),
        re.compile(r"\\?\"auth\\?\"\s{0,9}:\s{0,9}\\?\"(?P<value>[A-Za-z0-9+/=]{12,2000}+)"),
    ),
    Pattern(
        "said",
        ("password", "passphrase", "passcode", "secret", "token"),
        re.compile(
            r"(?i)\b(?:password|passphrase|passcode|secret|token)\s{1,5}is\s{1,5}"
            r"(?P<value>(?=[^\s'\".,;]{0,99}[0-9])(?=[^\s'\".,;]{0,99}[A-Za-z])[^\s'\".,;]{8,100}+)"
        ),
    ),
    Pattern(
        "password hash",
        ("$1$", "$2a$", "$2b$", "$2y$", "$5$", "$6$", "$7$", "$y$", "$apr1$", "$argon2"),
        re.compile(r"\$(?:1|2[aby]|5|6|7|y|apr1|argon2\w{1,2})\$(?P<value>[./A-Za-z0-9$=,+]{16,}+)"),
    ),
    Pattern(
        "DNS key",
        ("privatekey:", "exponent", "prime", "coefficient:"),
        re.compile(
            r"\b(?:Private(?:Key|Exponent)|Prime[12]|Exponent[12]|Coefficient):[ \t]++(?P<value>[A-Za-z0-9+/=]{16,}+)"
        ),
    ),
)

# What is read further where it was found: see `text_secrets`

USERINFO = Pattern(
    "URL",
    ("://",),
    re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]{0,30}://(?P<value>[^\s/?#'\"<>@]{1,500}+)@"),
)
NAMED = Pattern(
    "named",
    ("=", ":"),
    re.compile(
        r"(?<![A-Za-z0-9_])(?<!\$\{)(?P<name>[A-Za-z_][A-Za-z0-9_.\-]{0,80}+)(?:\\?[\"']?\]?)"
        r"(?P<sep>[ \t]*+(?:=>|:=|:(?!/)|=)(?![:=])[ \t]*+)"
        r"(?=(?P<value>\\?\"[^\"\n]{0,2000}+\"|'[^'\n]{0,2000}+'|[^\s\"'`,;&|<>(){}\[\]]{1,2000}+)(?P<after>[(\[{.]?))"
    ),
)
DEFAULT = Pattern(
    "default",
    ("${",),
    re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]{0,80}+):?[-=+](?P<value>[^{}$`]{1,2000}+)\}"),
)
MANIFEST = Pattern("Secret", ("kind: secret",), re.compile("kind: Secret"), "")
WEB_KEY = Pattern("web key", ("kty", "keyvalue>"), re.compile(r"\bkty\b|<[RD]SAKeyValue>"), "")


@cache
def text_patterns() -> Table:
    """Return what finds secrets by what stands around them."""
    return Table((*_KEYS, *_TEXT, USERINFO, NAMED, DEFAULT, MANIFEST, WEB_KEY))


def is_key(pattern: Pattern) -> bool:
    """Tell whether `pattern` finds private keys."""
    return pattern.what == _KEYS[0].what


@cache
def token_patterns() -> Table:
    """Return what finds secrets that look like what they are: `tokens` of secrets.yaml."""
    return Table(_token(what, **each) for what, listed in data()["tokens"].items() for each in listed)


def _token(what: str, literals: list[str], pattern: str = "", then: str = "", at: str = "word") -> Pattern:
    """Return the pattern of one entry: its `pattern`, or one of the `literals` and `then`.

    Args:
        at: it begins a word, stands `anywhere`, or the literals only come `before` the secret.
    """
    if pattern:
        expression = f"{_BEGINS.format('')}(?:{pattern})" if at == "word" else pattern
    else:
        begin = {"word": "{0}" + _BEGINS, "anywhere": "{0}", "before": "(?<={0})"}[at]
        expression = "|".join(begin.format(re.escape(literal)) + then for literal in literals)
    return Pattern(what, tuple(literal.lower() for literal in literals), re.compile(expression), "")


_BEGINS = r"(?:(?<![A-Za-z0-9]{0})|(?<=\\[nrt]{0})|(?<=%[0-9A-F][0-9A-F]{0}))"
"""Behind a literal: it begins a word. In a string, what is behind `\n` begins one, and in a URL what is behind %0A."""
