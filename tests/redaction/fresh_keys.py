"""Private keys that are made when a test runs, of every kind, in the notations in which commands hold them.

None stands in a file of the repository, so no scanner of secrets trips on it.
"""

import base64
import json
import secrets
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa, x448, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

LEAST = 20
"""So many characters of a key in a row are a leak."""


class FreshKey(NamedTuple):
    """The text of a key's file, and the parts of it that nobody may see."""

    text: str
    secret: tuple[str, ...]


def _pem(made: Any, form: PrivateFormat, hidden: KeySerializationEncryption | None = None) -> FreshKey:
    return armoured(made.private_bytes(Encoding.PEM, form, hidden or NoEncryption()).decode())


def armoured(text: str) -> FreshKey:
    """A key between lines with dashes: each line of it that is base64 is secret."""
    body = [line.strip() for line in text.splitlines() if line and "-" not in line and ":" not in line]
    return FreshKey(text, tuple(body))


@cache
def _rsa(size: int) -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, size)


@cache
def _dsa() -> dsa.DSAPrivateKey:
    return dsa.generate_private_key(1024)


def _password() -> KeySerializationEncryption:
    return BestAvailableEncryption(b"hunter22")


def _openssh_encrypted() -> FreshKey:
    parts = [b"aes256-ctr", b"bcrypt", secrets.token_bytes(24)]
    body = b"openssh-key-v1\0" + b"".join(len(part).to_bytes(4) + part for part in parts)
    lines = textwrap.wrap(base64.b64encode(body + b"\0\0\0\x01" + secrets.token_bytes(200)).decode(), 70)
    between = "\n".join(lines)
    return armoured(f"-----BEGIN OPENSSH PRIVATE KEY-----\n{between}\n-----END OPENSSH PRIVATE KEY-----\n")


def _number(value: int) -> str:
    return base64.urlsafe_b64encode(value.to_bytes((value.bit_length() + 7) // 8)).rstrip(b"=").decode()


def _web_key_ed25519() -> FreshKey:
    secret = _number(int.from_bytes(secrets.token_bytes(32)) | 1 << 255)
    fields = {"kty": "OKP", "crv": "Ed25519", "x": secrets.token_urlsafe(32), "d": secret}
    return FreshKey(json.dumps(fields) + "\n", (secret,))


def _web_key_rsa() -> FreshKey:
    numbers = _rsa(
        1536
    ).private_numbers()  # of its own: what is public of it is shown, and stands in other keys as well
    hidden = {
        "d": numbers.d,
        "p": numbers.p,
        "q": numbers.q,
        "dp": numbers.dmp1,
        "dq": numbers.dmq1,
        "qi": numbers.iqmp,
    }
    public = numbers.public_numbers
    fields = {"kty": "RSA", "n": _number(public.n), "e": "AQAB"} | {
        name: _number(value) for name, value in hidden.items()
    }
    return FreshKey(json.dumps(fields, indent=2) + "\n", tuple(map(_number, hidden.values())))


def _web_key_symmetric() -> FreshKey:
    secret = secrets.token_urlsafe(32)
    return FreshKey(json.dumps({"k": secret, "kty": "oct"}) + "\n", (secret,))


def _xml() -> FreshKey:
    numbers = _rsa(1024).private_numbers()
    body = base64.b64encode(numbers.d.to_bytes(128)).decode()
    prime = base64.b64encode(numbers.p.to_bytes(64)).decode()
    return FreshKey(f"<RSAKeyValue><Exponent>AQAB</Exponent><P>{prime}</P><D>{body}</D></RSAKeyValue>\n", (prime, body))


def _putty() -> FreshKey:
    private = textwrap.wrap(base64.b64encode(secrets.token_bytes(secrets.choice([36, 50, 200]))).decode(), 64)
    public = textwrap.wrap(base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0 " + secrets.token_bytes(32)).decode(), 64)
    lines = [
        *("PuTTY-User-Key-File-3: ssh-ed25519", "Encryption: none", "Comment: me", f"Public-Lines: {len(public)}"),
        *(*public, f"Private-Lines: {len(private)}", *private, f"Private-MAC: {secrets.token_hex(32)}"),
    ]
    return FreshKey("\n".join(lines) + "\n", tuple(private))


def _pgp(packet: bytes) -> FreshKey:
    body = textwrap.wrap(base64.b64encode(packet).decode(), 64)
    check = base64.b64encode(secrets.token_bytes(3)).decode()
    lines = ["-----BEGIN PGP PRIVATE KEY BLOCK-----", "", *body, f"={check}", "-----END PGP PRIVATE KEY BLOCK-----"]
    return FreshKey("\n".join(lines) + "\n", tuple(body))


def _packet(first: int, body: bytes) -> bytes:
    """An OpenPGP packet, with the length of its length in the first byte."""
    length = len(body).to_bytes(1 if first == 0x94 or first == 0xC5 else 2)
    return bytes([first]) + length + body


def _pgp_ed25519(first: int = 0x94) -> FreshKey:
    oid = bytes.fromhex("092b06010401da470f01")
    made = b"\x04\x65" + secrets.token_bytes(3) + b"\x16" + oid + b"\x01\x07\x40" + secrets.token_bytes(32)
    return _pgp(_packet(first, made + b"\0\x01\0" + secrets.token_bytes(34)))


def _pgp_rsa() -> FreshKey:
    public = _rsa(2048).private_numbers().public_numbers
    body = b"\x04\x66" + secrets.token_bytes(3) + b"\x01\x08\x00" + public.n.to_bytes(256) + b"\0\x11\x01\0\x01\0"
    return _pgp(_packet(0x95, body + secrets.token_bytes(650)))


def _age() -> FreshKey:
    made = "AGE-SECRET-KEY-1" + "".join(secrets.choice("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L") for _ in range(58))
    return FreshKey(f"# created: 2026-01-01T00:00:00Z\n# public key: age1x\n{made}\n", (made,))


def _minisign() -> FreshKey:
    made = base64.b64encode(b"EdSc" + b"B2" + secrets.token_bytes(152)).decode()
    return FreshKey(f"untrusted comment: minisign encrypted secret key\n{made}\n", (made,))


def _openvpn() -> FreshKey:
    lines = [secrets.token_hex(16) for _ in range(16)]
    body = "\n".join(lines)
    return FreshKey(
        f"-----BEGIN OpenVPN Static key V1-----\n{body}\n-----END OpenVPN Static key V1-----\n", tuple(lines)
    )


def _wireguard() -> FreshKey:
    made = base64.b64encode(secrets.token_bytes(32)).decode()
    return FreshKey(f"[Interface]\nPrivateKey = {made}\n", (made,))


def _dns() -> FreshKey:
    made = base64.b64encode(secrets.token_bytes(32)).decode()
    return FreshKey(f"Private-key-format: v1.3\nAlgorithm: 15 (ED25519)\nPrivateKey: {made}\n", (made,))


def _pkcs12() -> FreshKey:
    made = pkcs12.serialize_key_and_certificates(b"me", ed25519.Ed25519PrivateKey.generate(), None, None, _password())  # type: ignore[arg-type]
    body = textwrap.wrap(base64.b64encode(made).decode(), 76)
    return FreshKey("\n".join(body) + "\n", tuple(body))


def _encoded() -> FreshKey:
    """A whole PEM file in base64, as Kubernetes has it."""
    made = base64.b64encode(
        KINDS[secrets.choice(["OpenSSH Ed25519", "PKCS8 Ed25519", "EC P-256", "PKCS1 RSA 1024"])]().text.encode()
    )
    return FreshKey(f"    client-data: {made.decode()}\n", (made.decode(),))


_P8, _OLD, _SSH = PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL, PrivateFormat.OpenSSH
_ED = ed25519.Ed25519PrivateKey.generate
KINDS: dict[str, Callable[[], FreshKey]] = {
    "OpenSSH Ed25519": lambda: _pem(_ED(), _SSH),
    "OpenSSH Ed25519 encrypted": _openssh_encrypted,
    "OpenSSH P-256": lambda: _pem(ec.generate_private_key(ec.SECP256R1()), _SSH),
    "OpenSSH P-521": lambda: _pem(ec.generate_private_key(ec.SECP521R1()), _SSH),
    "OpenSSH RSA": lambda: _pem(_rsa(2048), _SSH),
    "PKCS8 Ed25519": lambda: _pem(_ED(), _P8),
    "PKCS8 Ed25519 encrypted": lambda: _pem(_ED(), _P8, _password()),
    "PKCS8 Ed448": lambda: _pem(ed448.Ed448PrivateKey.generate(), _P8),
    "PKCS8 X25519": lambda: _pem(x25519.X25519PrivateKey.generate(), _P8),
    "PKCS8 X448": lambda: _pem(x448.X448PrivateKey.generate(), _P8),
    "PKCS8 P-256": lambda: _pem(ec.generate_private_key(ec.SECP256R1()), _P8),
    "PKCS8 P-384": lambda: _pem(ec.generate_private_key(ec.SECP384R1()), _P8),
    "PKCS8 P-521": lambda: _pem(ec.generate_private_key(ec.SECP521R1()), _P8),
    "PKCS8 secp256k1": lambda: _pem(ec.generate_private_key(ec.SECP256K1()), _P8),
    "PKCS8 P-384 encrypted": lambda: _pem(ec.generate_private_key(ec.SECP384R1()), _P8, _password()),
    "PKCS8 RSA": lambda: _pem(_rsa(2048), _P8),
    "PKCS8 RSA 1024": lambda: _pem(_rsa(1024), _P8),
    "PKCS8 RSA encrypted": lambda: _pem(_rsa(2048), _P8, _password()),
    "PKCS8 DSA": lambda: _pem(_dsa(), _P8),
    "EC P-256": lambda: _pem(ec.generate_private_key(ec.SECP256R1()), _OLD),
    "EC P-384": lambda: _pem(ec.generate_private_key(ec.SECP384R1()), _OLD),
    "EC P-521": lambda: _pem(ec.generate_private_key(ec.SECP521R1()), _OLD),
    "EC P-256 encrypted": lambda: _pem(ec.generate_private_key(ec.SECP256R1()), _OLD, _password()),
    "PKCS1 RSA": lambda: _pem(_rsa(2048), _OLD),
    "PKCS1 RSA 1024": lambda: _pem(_rsa(1024), _OLD),
    "PKCS1 RSA encrypted": lambda: _pem(_rsa(1024), _OLD, _password()),
    "DSA": lambda: _pem(_dsa(), _OLD),
    "PKCS12": _pkcs12,
    "PGP Ed25519": _pgp_ed25519,
    "PGP Ed25519, new packet": lambda: _pgp_ed25519(0xC5),
    "PGP RSA": _pgp_rsa,
    "PuTTY": _putty,
    "JWK Ed25519": _web_key_ed25519,
    "JWK RSA": _web_key_rsa,
    "JWK symmetric": _web_key_symmetric,
    "XML RSA": _xml,
    "age": _age,
    "minisign": _minisign,
    "OpenVPN": _openvpn,
    "WireGuard": _wireguard,
    "DNS": _dns,
    "PEM in base64": _encoded,
}
"""How a key of each kind is made."""

SHAPELESS = frozenset(
    {
        *("JWK Ed25519", "JWK RSA", "JWK symmetric", "XML RSA", "WireGuard", "DNS", "OpenVPN", "PuTTY"),
        *("EC P-256 encrypted", "PKCS1 RSA encrypted"),
    }
)
"""Kinds that show only by what stands before them: the body by itself says nothing."""


def _here(text: str, word: str = "'EOF'") -> str:
    return f"cat > key <<{word}\n{text}EOF"


def _printf(lines: list[str]) -> str:
    return "printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + " > key"


NOTATIONS: dict[str, Callable[[str], str]] = {
    "here-document": _here,
    "here-document, unquoted": lambda text: _here(text, "EOF"),
    "indented": lambda text: _here("".join(f"\t{line}\n" for line in text.splitlines()), "-EOF").replace(
        "\nEOF", "\n\tEOF"
    ),
    "YAML": lambda text: _here("key: |\n" + "".join(f"    {line}\n" for line in text.splitlines())),
    "CRLF": lambda text: _here(text.replace("\n", "\r\n")),
    "JSON": lambda text: _here(json.dumps({"key": text}) + "\n"),
    "JSON in JSON": lambda text: _here(json.dumps({"key": json.dumps({"key": text})}) + "\n"),
    "echo": lambda text: f"echo '{text}' > key",
    "echo -e": lambda text: "echo -e '" + text.replace("\n", "\\n") + "' > key",
    "printf": lambda text: "printf '" + text.replace("\n", "\\n") + "' > key",
    "ANSI-C": lambda text: "x=$'" + text.replace("\n", "\\n") + '\'; echo "$x" > key',
    "here-string": lambda text: f"base64 -d <<< '{text}' > key",
    "words": lambda text: _printf(text.splitlines()),
    "one echo a line": lambda text: "\n".join(f"echo '{line}' >> key" for line in text.splitlines()),
    "Python": lambda text: (
        "python3 - <<'E'\nx = (" + "\n  ".join(f"'{line}\\n'" for line in text.splitlines()) + ")\nE"
    ),
    "ssh": lambda text: f"ssh host 'cat > key <<E\n{text}E\n'",
    "below bash": lambda text: f'sudo bash -c "cat > key <<E\n{text}E\n"',
    "one line": lambda text: "echo " + json.dumps(" ".join(text.split("\n"))) + " > key",
    "patch": lambda text: "patch <<'E'\n" + "".join(f"+{line}\n" for line in text.splitlines()) + "E",
    "comment": lambda text: "ls\n" + "".join(f"# {line}\n" for line in text.splitlines()),
    "substitution": lambda text: f"curl -d \"$(cat <<'E'\n{text}E\n)\" http://host",
    "array": lambda text: "a=(" + " ".join(f"'{line}'" for line in text.splitlines()) + "); printf '%s\\n' \"${a[@]}\"",
    "unfinished": lambda text: f"cat > key <<'EOF'\n{text}",
    "unread": lambda text: f"cat > key <<'EOF'\n{text}EOF\necho 'unfinished",
}
"""How a command holds the text of a key."""


def cut(line: str) -> Iterator[str]:
    """Yield every piece of `line` that is long enough to be a leak."""
    return (line[start : start + LEAST] for start in range(len(line) - LEAST + 1))


def shown(fresh: FreshKey, text: str) -> str:
    """Return a piece of the key that `text` shows; "" for none."""
    return next((piece for line in fresh.secret for piece in cut(line) if piece in text), "")
