"""Certificates: files that are called like keys, and that everybody may read."""

import os
import re
import stat
from functools import lru_cache

_LONGEST = 1 << 21
_PUBLIC = re.compile(
    rb"(?:(?:#[^\n]*|\s*)\n|-----BEGIN (?P<kind>(?:TRUSTED |X509 )?CERTIFICATE|CERTIFICATE REQUEST|PUBLIC KEY|X509 CRL"
    rb"|DH PARAMETERS)-----\r?\n[A-Za-z0-9+/=\r\n]++-----END (?P=kind)-----\s*)++"
)


def is_public(path: str) -> bool:
    """Tell whether a file holds nothing but certificates, public keys and comments, in PEM.

    That is said of its content, so a name tells nothing.
    """
    if not path.endswith(".pem"):
        return False
    try:
        about = os.lstat(path)
    except OSError:
        return False
    return _is_public(path, about.st_dev, about.st_ino, about.st_ctime_ns, about.st_size)


@lru_cache(maxsize=4096)
def _is_public(path: str, *state: int) -> bool:
    content = beginning(path, _LONGEST + 1)
    if content is None or len(content) > _LONGEST or b"-----BEGIN " not in content:
        return False
    return b"PRIVATE" not in content and _PUBLIC.fullmatch(content + b"\n") is not None


def beginning(path: str, length: int) -> bytes | None:
    """Return the first bytes of a file; None where there is none that we can read, or a link."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            return file.read(length) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None
